//! A lane's sockets: the poll, read buffers, output, and each connection's quota of a round.

pub(crate) mod buffers;
pub(crate) mod datagrams;
pub(crate) mod entrance;
pub(crate) mod gathered;
pub(crate) mod logged_once;
pub(crate) mod longest_idle;
pub(crate) mod net;
pub(crate) mod occupied;
pub(crate) mod output;
pub(crate) mod quotas;
pub(crate) mod slots;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod system;
pub(crate) mod unfinished;
pub(crate) mod unread;

use self::buffers::Buffers;
use self::logged_once::LoggedOnce;
use self::net::Poll;
use self::occupied::Occupied;
use self::output::{Flushed, Spares};
use self::quotas::{Quotas, Rounds};
use self::socket::Socket;
use self::stream::Stream;
use self::system::{Interest, Ready};

/// Resources that all connections of a lane share.
pub(crate) struct Io {
    pub(crate) poll: Poll,
    /// Quotas of the addresses in a round.
    pub(crate) quotas: Quotas,
    /// Buffers that sockets are read into.
    pub(crate) buffers: Buffers,
    /// Spare buffers of connections with nothing to write.
    pub(crate) spares: Spares,
    /// Addresses of clients that spoke TLS at a plain port, each logged once.
    pub(crate) logged_once: LoggedOnce,
    /// Connections that clients made, to choose the one that gives way when there is no place.
    pub(crate) occupied: Occupied,
}

impl Io {
    /// Continues with a connection that a client made after its output was written, and updates its interest in the poll: room if the
    /// socket is full, input if it is to be read, and otherwise its end if `end` says so. False if it cannot be watched.
    pub(crate) fn watch(
        &mut self,
        (socket, stream, rounds): (Socket, &Stream, &mut Rounds),
        flushed: Flushed,
        (read, end): (bool, bool),
    ) -> bool {
        if read && stream.has_more() {
            self.quotas.serve_later(rounds, Ready::to_read(socket));
        }
        if flushed == Flushed::BudgetSpent {
            self.quotas.write_on(rounds, socket);
        }
        let interest = Interest { read, write: flushed == Flushed::Full, end };
        interest == core::mem::replace(&mut rounds.interest, interest)
            || self.poll.change(stream.tcp(), socket, interest).is_ok()
    }
}
