//! See the crate description; the contents are being built.
#![no_std]
extern crate alloc;
