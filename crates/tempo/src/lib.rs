//! Tempo, the small protocol (`docs/tempo.md`; Bauer, Garcés-Erice, Rooney: *Tempo: A Simple Time-Sensitive Messaging System*).
//!
//! Publishers and subscribers announce topics and rates to each other, repeatedly; silence ends what they announced. Messages
//! go from peer to peer, to a group, or through a broker, by one protocol: an end point gets an address and nothing else.
//!
//! - [`wire`]: frames, read and written in place.
//! - [`cookies`]: verification of addresses.
//! - [`sequence`]: the order of one publisher's messages, and the number lost.
//! - [`reassembly`]: messages that came in several frames.
//! - [`presence`]: announcements and their expiry.
//! - [`endpoint`]: publishers and subscribers of one process, as a state machine: it takes datagrams and the time, and returns frames to
//!   send. It allocates nothing; its size is in its type.
//! - [`adaptation`]: ways for an application to act on its reports (V, figure 9).
//!
//! No socket, clock or thread: nanoseconds of a monotonic clock are given with each call.
#![no_std]

pub mod adaptation;
pub mod cookies;
pub mod endpoint;
pub mod presence;
pub mod reassembly;
pub mod sequence;
pub mod wire;

/// Nanoseconds of the caller's monotonic clock.
pub type Nanos = u64;
