//! The link protocol as its users see it.

mod flows;
mod frames;
mod interest;
mod line;
//mod network;
mod repeats;
