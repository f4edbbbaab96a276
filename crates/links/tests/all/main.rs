//! The link protocol as its users see it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod flows;
mod frames;
mod groups;
mod interest;
mod line;
mod network;
mod repeats;
