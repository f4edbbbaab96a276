//! What goes between threads: letters, events that another lane has consumers for, connections that move.

pub(crate) mod foreign;
pub(crate) mod lines;
pub(crate) mod mail;
pub(crate) mod moving;
pub(crate) mod post;
pub(crate) mod roster;
