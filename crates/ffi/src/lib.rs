#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! C functions over [`campanile::raw`], each of which returns an [`ErrorCode`](campanile::ErrorCode). Their contracts are in
//! `include/campanile.h`, which cbindgen generates from this crate; `cpp/` wraps it for C++17, and `java/` for Java 17.
//!
//! The unsafe code relies on what C cannot guarantee: valid pointers. The header states this once for all functions.
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
