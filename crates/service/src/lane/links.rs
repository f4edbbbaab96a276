//! What goes between threads: letters, and events that another lane has consumers for.

pub(crate) mod lines;
pub(crate) mod mail;
pub(crate) mod post;
pub(crate) mod roster;
