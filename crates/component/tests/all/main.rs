//! Components in one process, on a clock that the tests advance.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocations;
mod connections;
mod cpp;
mod dot;
mod header;
mod import;
mod lifecycle;
mod nodes;
mod objects;
mod panics;
mod parts;
mod plans;
mod processes;
mod properties;
mod queues;
mod recording;
mod response_times;
mod services;
mod sets;
mod threads;
