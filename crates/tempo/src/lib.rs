//! Tempo, the small protocol (`docs/tempo.md`; Bauer, Garcés-Erice, Rooney: *Tempo: A Simple Time-Sensitive Messaging System*).
//!
//! Publishers and subscribers announce topics and rates to each other, repeatedly; silence ends what they announced. Messages
//! go from peer to peer, to a group, or through a broker, by one protocol: an end point gets an address and nothing else.
//!
//! - [`wire`]: frames: what lies where, read in place and written in place.
//! - [`cookies`]: how an address proves that it is where it says.
//! - [`sequence`]: the order in which messages of one publisher are handed on, and how many were lost.
//! - [`reassembly`]: messages that came in several frames.
//! - [`presence`]: what was announced, until when that holds.
//! - [`endpoint`]: publishers and subscribers of one process, as a state machine: it gets datagrams and the time, and
//!   says what to send. It allocates nothing; its size is in its type.
//! - [`adaptation`]: what an application may make of the reports it gets (V, figure 9).
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
