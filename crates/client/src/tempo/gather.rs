//! Gathering of outgoing datagrams: those of one size for one address leave with one system call.

use std::io;
use std::net::SocketAddr;

use tempo::wire::{HEADER, PAYLOAD_MAX};

use super::datagrams::AT_ONCE;

/// Octets of the largest datagram or frame.
const LARGEST: usize = HEADER + PAYLOAD_MAX;

/// Sends gathered datagrams.
pub(super) trait Send {
    /// Sends one datagram, or several of `segment` octets of which only the last may be shorter. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room now: nothing was sent. Otherwise some or all were not sent, and will not be.
    fn send(&self, to: SocketAddr, contents: &[u8], segment: usize) -> io::Result<()>;

    /// Maximum number of datagrams sent at once.
    fn segments_max(&self) -> usize;
}

/// Datagrams written one behind the other and not sent yet.
#[derive(Debug)]
pub(super) struct Gather {
    octets: Vec<u8>,
    /// The batches; all but the last are sent before anything else is written.
    batches: Batches,
    /// Whether the socket is full.
    is_blocked: bool,
    /// Failed sends of a datagram, or of several at once.
    pub(super) failed: u64,
    /// The reason of the last failure.
    pub(super) last_failure: Option<io::ErrorKind>,
}

/// The batch being sent, and a second one begun behind it when sending was blocked.
#[derive(Debug, Default)]
struct Batches {
    first: Option<Batch>,
    second: Option<Batch>,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    to: SocketAddr,
    begin: usize,
    end: usize,
    /// Octets of each datagram but the last.
    segment: usize,
    count: usize,
}

impl Batch {
    /// Whether another datagram can join the batch.
    fn takes(&self, to: SocketAddr, octets: usize, segments_max: usize) -> bool {
        self.to == to
            && octets <= self.segment
            && self.end - self.begin == self.segment * self.count
            && self.count < segments_max
            && self.end - self.begin + octets <= AT_ONCE
    }
}

impl Gather {
    pub(super) fn new() -> Self {
        // What is gathered, a datagram behind it that does not go with that, and room to write one more.
        let octets = vec![0; AT_ONCE + 2 * LARGEST];
        Self { octets, batches: Batches::default(), is_blocked: false, failed: 0, last_failure: None }
    }

    /// Whether the socket is full. Nothing may be written meanwhile.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The buffer for the next frames.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let begin = self.end();
        self.octets.get_mut(begin..begin + LARGEST).unwrap_or_default()
    }

    /// The frames written into the buffer, of that many octets.
    pub(super) fn written(&self, octets: usize) -> &[u8] {
        let begin = self.end();
        self.octets.get(begin..begin + octets).unwrap_or_default()
    }

    fn end(&self) -> usize {
        self.batches.first.map_or(0, |batch| batch.end)
    }

    /// Adds the datagram of so many octets written there. Sends batches that it cannot join; returns false if the socket is full.
    pub(super) fn push(&mut self, to: SocketAddr, octets: usize, sender: &impl Send) -> bool {
        let begin = self.end();
        if let Some(batch) = &mut self.batches.first
            && batch.takes(to, octets, sender.segments_max())
        {
            batch.end += octets;
            batch.count += 1;
            return true;
        }
        self.batches.second = Some(Batch { to, begin, end: begin + octets, segment: octets, count: 1 });
        self.send_first(sender)
    }

    /// Sends everything; returns false if the socket is full.
    pub(super) fn flush(&mut self, sender: &impl Send) -> bool {
        while self.batches.first.is_some() || self.batches.second.is_some() {
            if !self.send_first(sender) {
                return false;
            }
        }
        true
    }

    /// Sends the first batch, and moves the second to its place.
    fn send_first(&mut self, sender: &impl Send) -> bool {
        if let Some(Batch { to, begin, end, segment, .. }) = self.batches.first {
            match sender.send(to, self.octets.get(begin..end).unwrap_or_default(), segment) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return false;
                }
                Err(error) => {
                    self.failed += 1;
                    self.last_failure = Some(error.kind());
                }
                Ok(()) => {}
            }
        }
        self.is_blocked = false;
        self.batches.first = self.batches.second.take().map(|batch| {
            self.octets.copy_within(batch.begin..batch.end, 0);
            Batch { begin: 0, end: batch.end - batch.begin, ..batch }
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[derive(Default)]
    struct Sent {
        calls: RefCell<Vec<(u16, usize, Vec<u8>)>>,
        refusal: Cell<Option<io::ErrorKind>>,
    }

    impl Send for Sent {
        fn send(&self, to: SocketAddr, contents: &[u8], segment: usize) -> io::Result<()> {
            match self.refusal.get() {
                Some(kind) => Err(kind.into()),
                None => {
                    self.calls.borrow_mut().push((to.port(), segment, contents.to_vec()));
                    Ok(())
                }
            }
        }

        fn segments_max(&self) -> usize {
            4
        }
    }

    fn push(gather: &mut Gather, sent: &Sent, port: u16, octets: &[u8]) -> bool {
        gather.room()[..octets.len()].copy_from_slice(octets);
        assert_eq!(gather.written(octets.len()), octets);
        gather.push(SocketAddr::from(([127, 0, 0, 1], port)), octets.len(), sent)
    }

    #[test]
    fn datagrams_of_one_size_for_one_address_go_together() {
        let (mut gather, sent) = (Gather::new(), Sent::default());
        for (port, octets) in [
            (1, "aa"),
            (1, "bb"),
            (1, "c"),
            (1, "d"), // behind a shorter one nothing can go
            (2, "ee"),
            (2, "fff"), // a longer one cannot
            (2, "ggg"),
            (2, "hhh"),
            (2, "iii"),
            (2, "jjj"), // four at most
        ] {
            assert!(push(&mut gather, &sent, port, octets.as_bytes()));
        }
        assert!(gather.flush(&sent) && gather.flush(&sent));
        let calls: Vec<_> = sent
            .calls
            .take()
            .into_iter()
            .map(|(port, segment, octets)| (port, segment, String::from_utf8(octets).unwrap()))
            .collect();
        let expected = [(1, 2, "aabbc"), (1, 1, "d"), (2, 2, "ee"), (2, 3, "fffggghhhiii"), (2, 3, "jjj")];
        assert_eq!(calls, expected.map(|(port, segment, octets)| (port, segment, octets.to_owned())));
    }

    #[test]
    fn what_a_full_socket_does_not_take_is_sent_later_in_order_and_once() {
        let (mut gather, sent) = (Gather::new(), Sent::default());
        sent.refusal.set(Some(io::ErrorKind::WouldBlock));
        assert!(push(&mut gather, &sent, 1, b"first"));
        assert!(!push(&mut gather, &sent, 2, b"second") && gather.is_blocked());
        assert!(!gather.flush(&sent) && gather.is_blocked());
        sent.refusal.set(None);
        assert!(gather.flush(&sent) && !gather.is_blocked());
        assert_eq!(sent.calls.take(), [(1, 5, b"first".to_vec()), (2, 6, b"second".to_vec())]);
        assert_eq!(gather.failed, 0);
    }

    #[test]
    fn what_the_system_refuses_is_counted_and_does_not_hold_up_the_rest() {
        let (mut gather, sent) = (Gather::new(), Sent::default());
        assert!(push(&mut gather, &sent, 1, b"unreachable"));
        sent.refusal.set(Some(io::ErrorKind::HostUnreachable));
        assert!(gather.flush(&sent) && gather.failed == 1);
        sent.refusal.set(None);
        assert!(push(&mut gather, &sent, 1, b"x") && gather.flush(&sent));
        assert_eq!(sent.calls.take(), [(1, 1, b"x".to_vec())]);
        assert_eq!(gather.last_failure, Some(io::ErrorKind::HostUnreachable));
    }
}
