//! A lane's sockets: the poll, what is read into, what waits to be written, and how much of a round each connection may have.

pub(crate) mod buffers;
pub(crate) mod output;
pub(crate) mod shares;
pub(crate) mod slices;
pub(crate) mod slots;
pub(crate) mod system;
pub(crate) mod unfinished;
pub(crate) mod unread;
