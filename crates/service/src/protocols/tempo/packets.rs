//! Frames that are gathered for one address, as datagrams.
//!
//! Frames lie back to back in a datagram as long as there is room. Datagrams of one size, of which the last may be shorter, are a *run*:
//! one system call sends it.

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::io;

use tempo::wire::{DATAGRAM, Frame};

use crate::lane::io::net::Datagrams;
use crate::lane::io::output::{Spares, would_block};

/// Octets that one system call sends at most.
const RUN_BYTES: usize = 60_000;

/// What waits to be sent to one address.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    buffer: Vec<u8>,
    /// Octets at its beginning that are sent.
    from: usize,
    runs: VecDeque<Run>,
    /// Datagrams that were sent, counted from the first there ever was.
    sent: u64,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    octets: usize,
    /// Octets of each datagram but the last.
    size: usize,
    datagrams: usize,
    /// Octets of the last one.
    last: usize,
}

/// How sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing waits any more.
    All,
    /// The socket has no room.
    Full,
}

/// What sending came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SendCounts {
    pub(crate) datagrams: u64,
    pub(crate) failed: u64,
}

impl Packets {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Octets that wait.
    pub(crate) fn octets(&self) -> usize {
        self.buffer.len() - self.from
    }

    /// How many datagrams have gone.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Adds a frame; so many datagrams may be sent at once. False if it is too large to be one.
    pub(crate) fn push(&mut self, frame: &Frame<'_>, at_once: usize, spares: &mut Spares) -> bool {
        let octets = frame.octets();
        if octets > DATAGRAM {
            return false;
        }
        if self.buffer.capacity() == 0 {
            self.buffer = spares.take();
        }
        let begin = self.buffer.len();
        self.buffer.resize(begin + octets, 0);
        let place = self.buffer.get_mut(begin..).unwrap_or_default();
        if frame.write(place).is_none() {
            self.buffer.truncate(begin);
            return false;
        }
        self.note(octets, at_once);
        true
    }

    fn note(&mut self, octets: usize, at_once: usize) {
        if let Some(run) = self.runs.back_mut() {
            let room = if run.datagrams == 1 { DATAGRAM } else { run.size };
            if run.last + octets <= room {
                run.last += octets;
                run.octets += octets;
                if run.datagrams == 1 {
                    run.size = run.last;
                }
                return;
            }
            if run.last == run.size && octets <= run.size && run.datagrams < at_once && run.octets + octets <= RUN_BYTES
            {
                run.datagrams += 1;
                run.octets += octets;
                run.last = octets;
                return;
            }
        }
        self.runs.push_back(Run { octets, size: octets, datagrams: 1, last: octets });
    }

    /// Sends what waits, as far as the socket has room.
    pub(crate) fn send(&mut self, socket: &Datagrams, to: SocketAddr, spares: &mut Spares) -> (Sent, SendCounts) {
        let mut counts = SendCounts::default();
        while let Some(run) = self.runs.front() {
            let octets = self.buffer.get(self.from..self.from + run.octets).unwrap_or_default();
            match socket.send(to, octets, run.size) {
                Ok(()) => counts.datagrams += run.datagrams as u64,
                Err(error) if would_block(&error) => return (Sent::Full, counts),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // As if the network had lost them.
                Err(_) => counts.failed += run.datagrams as u64,
            }
            self.from += run.octets;
            self.sent += run.datagrams as u64;
            self.runs.pop_front();
        }
        self.clear(spares);
        (Sent::All, counts)
    }

    /// Drops what waits.
    pub(crate) fn clear(&mut self, spares: &mut Spares) {
        self.runs.clear();
        self.from = 0;
        spares.keep(core::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempo::wire::{Content, Data, Header, Payload};

    fn push(packets: &mut Packets, octets: usize) {
        let header = Header { session: 1, topic: 2, sequence: 3, sent: 4, priority: 0, by_broker: true };
        let data = Data { fragment: None, content: Content::Octets, octets: &vec![7; octets] };
        assert!(packets.push(&Frame { header, payload: Payload::Data(data) }, 8, &mut Spares::default()));
    }

    /// Sizes of the datagrams of each run.
    fn runs(packets: &Packets) -> Vec<Vec<usize>> {
        let of = |run: &Run| (1..run.datagrams).map(|_| run.size).chain([run.last]).collect();
        packets.runs.iter().map(of).collect()
    }

    #[test]
    fn small_frames_share_a_datagram_and_datagrams_of_one_size_a_run() {
        let mut packets = Packets::default();
        (0..40).for_each(|_| push(&mut packets, 64));
        // Fifteen of 96 octets each.
        assert_eq!(runs(&packets), [[1_440, 1_440, 960]]);
        push(&mut packets, 1_400);
        assert_eq!(runs(&packets), [vec![1_440, 1_440, 960], vec![1_432]]);
        (0..9).for_each(|_| push(&mut packets, 1_400));
        assert_eq!(runs(&packets)[1..], [vec![1_432; 8], vec![1_432; 2]], "as many as can be sent at once");
        push(&mut packets, 1_440);
        assert_eq!(runs(&packets).len(), 4, "a larger one begins anew");
        assert_eq!(packets.octets(), 40 * 96 + 10 * 1_432 + 1_472);
    }

    #[test]
    fn what_is_too_large_for_a_datagram_is_not_taken() {
        let mut packets = Packets::default();
        let header = Header { session: 1, topic: 2, sequence: 3, sent: 4, priority: 0, by_broker: true };
        let data = Data { fragment: None, content: Content::Octets, octets: &[7; DATAGRAM] };
        assert!(!packets.push(&Frame { header, payload: Payload::Data(data) }, 8, &mut Spares::default()));
        assert!(packets.is_empty() && packets.octets() == 0);
    }
}
