//! The console in a browser that is not ours: Debian's Chromium, by clicks and keys. What it looked like is in `target/screenshots`.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod driver;
mod rig;
mod tour;
mod websocket;
