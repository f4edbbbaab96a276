//! Eclipse Zenoh behind a plain interface: streams of octets between two named ends.
//!
//! Each process has one [`Session`], with the name of its end. A thread that wants a stream to another end [dials](Session::dial) it by
//! name; the other process is handed an [`Incoming`]. Both then have threads [carry](Carried) the stream between Zenoh and a connection
//! of their own, and whatever speaks over connections speaks over Zenoh: through routers, from behind NAT.
//!
//! Which ends there are is known by liveliness: a token for each. What comes over a stream comes in order and without a gap, or the
//! stream ends: Zenoh loses messages without an error where a far side stands still for seconds. So a stream is as good as a TCP
//! connection, and no better: what was under way when it ended may have come or not.
//!
//! Sessions are opened, and streams dialled, from plain threads: Zenoh panics in a thread of a runtime that has no other.

mod message;
mod options;
mod session;
mod stream;

pub use options::{Options, TlsFiles, WINDOW_BYTES, is_name};
pub use session::{Counts, DialError, Dialled, Incoming, OpenError, Session};
pub use stream::{CLOSED, Carried};
