//! Texts, what is wrong with them, and types that go to text and back.

mod read;
mod round_trip;
