//! Datagrams in: many at a time, sorted frame by frame.

use core::net::SocketAddr;

use super::hearing::Arrived;
use super::sessions::Place;
use crate::counters::Counter;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::{Core, Worker};
use crate::protocols::Tag;

/// Datagrams that are read in one round, or some more that came together. What has arrived is to be sorted before others have their turn, or one
/// topic's flood would fill the socket and have the system discard another topic's datagrams.
const DATAGRAMS_PER_ROUND: u64 = 1_024;

impl Worker {
    /// Reads the datagrams that have arrived.
    #[inline(never)]
    pub(crate) fn serve_tempo_datagrams(&mut self, ready: Ready) {
        if ready.writable {
            self.core.note_tempo_room();
        }
        if !ready.readable {
            return;
        }
        self.read_datagrams(false);
    }

    /// Reads what has been sent to the group.
    #[cold]
    pub(crate) fn serve_tempo_group(&mut self) {
        self.read_datagrams(true);
    }

    fn read_datagrams(&mut self, by_group: bool) {
        let mut received = core::mem::take(&mut self.core.protocols.tempo.received);
        let mut all = 0;
        while all < DATAGRAMS_PER_ROUND {
            let protocol = &self.core.protocols.tempo;
            let Some(socket) = (if by_group { &protocol.group } else { &protocol.out.socket }) else { break };
            let Ok(more) = socket.receive(&mut received) else { break };
            // Where nothing else has come, and nothing waits, a message need not wait either.
            let is_single = all == 0 && !more && received.is_single();
            let mut count = 0;
            for (from, datagram) in received.iter() {
                count += 1;
                self.hear_datagram(from, datagram, Arrived { alone: is_single, by_group });
            }
            self.core.cx.counters.add(Counter::TempoDatagramsIn, count);
            all += count;
            if !more {
                break;
            }
        }
        self.core.protocols.tempo.received = received;
    }

    fn hear_datagram(&mut self, from: SocketAddr, mut rest: &[u8], arrived: Arrived) {
        while !rest.is_empty() {
            match tempo::wire::Frame::read(rest) {
                Ok((frame, octets)) => {
                    rest = rest.get(octets..).unwrap_or_default();
                    let arrived = Arrived { alone: arrived.alone && rest.is_empty(), ..arrived };
                    self.hear(Place::Datagram(from), from, &frame, arrived);
                }
                Err(error) => {
                    self.core.count_unreadable(error);
                    rest = error.octets().and_then(|octets| rest.get(octets..)).unwrap_or_default();
                }
            }
        }
        self.core.send_answers(from);
    }
}

impl Core {
    /// The socket has room again.
    fn note_tempo_room(&mut self) {
        if core::mem::take(&mut self.protocols.tempo.out.is_full) {
            self.watch_tempo_socket(Interest::READ);
        }
    }

    /// The socket takes no more.
    pub(super) fn note_tempo_full(&mut self) {
        if !core::mem::replace(&mut self.protocols.tempo.out.is_full, true) {
            self.watch_tempo_socket(Interest { write: true, ..Interest::READ });
        }
    }

    fn watch_tempo_socket(&self, interest: Interest) {
        if let Some(socket) = &self.protocols.tempo.out.socket {
            // It is watched already, so the system needs nothing for that.
            let _ = self.cx.io.poll.change(socket, Socket::Datagrams(Tag::Tempo), interest);
        }
    }
}
