#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! Functions of C over [`campanile::raw`], each of which answers a [`ErrorCode`](campanile::ErrorCode). What they promise stands in
//! `include/campanile.h`, which is made of this crate by cbindgen; `cpp/` has C++17 over it, and `java/` Java 17.
//!
//! What is unsafe here is what C cannot promise: that pointers are what they are said to be. The header says it once for all functions.
#![expect(unsafe_code, reason = "pointers come from C, and functions go there")]
#![expect(clippy::missing_safety_doc, reason = "the header says once what all functions ask for")]

pub mod consumer;
pub mod event;
mod exit;
mod gate;
pub mod log;
mod pointers;
pub mod publisher;
pub mod settings;
pub mod status;
pub mod supplier;
pub mod trouble;
pub mod types;
