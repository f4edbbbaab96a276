//! The buffers that a lane reads into.
//!
//! They are the lane's and not the connections': a connection has one while it is read and until the messages in it are
//! dealt with, so that one on which nothing is under way costs none, and they can be so large that one system call brings
//! hundreds of requests. One that cannot be given back, because more than a few kilobytes of what was read have to wait (a
//! message that is not complete, or requests of a client that has had its share), stays where it is as long as not too many
//! are out; beyond that, what waits is copied into a buffer of its size, which is counted.

use giop::framing::Inbound;

/// Bytes asked of a socket at once.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// Buffers that may be out beside the one in use, and so the most that a lane keeps.
const OUT_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
    out: usize,
}

impl Buffers {
    /// Has a connection ready to be read.
    pub(crate) fn lend(&mut self, inbound: &mut Inbound) {
        if inbound.is_lent() {
            if !inbound.has_outgrown_loan() {
                return;
            }
            self.recover(inbound);
        }
        let buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES));
        match inbound.lend(buffer) {
            Some(unused) => self.spare.push(unused),
            None => self.out += 1,
        }
    }

    /// Takes back what was lent, unless much of what was read still waits and there are buffers enough for others. False
    /// if that had to be copied because there are not.
    pub(crate) fn settle(&mut self, inbound: &mut Inbound) -> bool {
        if !inbound.is_lent() {
            return true;
        }
        let is_large = inbound.rest_to_keep() > 0;
        if is_large && self.out <= OUT_MAX {
            return true;
        }
        self.recover(inbound);
        !is_large
    }

    /// Takes back what was lent in any case: from a connection that leaves the lane.
    pub(crate) fn recover(&mut self, inbound: &mut Inbound) {
        if let Some(buffer) = inbound.reclaim() {
            self.out -= 1;
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::framing::Limits;

    /// A connection of whose first message that much has arrived.
    fn connection(buffers: &mut Buffers, arrived: usize) -> Inbound {
        let mut inbound = Inbound::new(Limits::default());
        buffers.lend(&mut inbound);
        let mut bytes = vec![0; arrived];
        bytes[..12].copy_from_slice(b"GIOP\x01\x02\x00\x00\x00\x00\x80\x00");
        inbound.vacant().extend_from_slice(&bytes);
        inbound.filled(arrived);
        assert!(inbound.poll_message().unwrap().is_none());
        inbound
    }

    #[test]
    fn connections_one_after_the_other_share_one_buffer() {
        let mut buffers = Buffers::default();
        for _ in 0..100 {
            let mut inbound = connection(&mut buffers, 2000);
            assert!(buffers.settle(&mut inbound));
            assert_eq!(inbound.reserved(), 2048);
        }
        assert_eq!((buffers.spare.len(), buffers.out), (1, 0));
    }

    #[test]
    fn a_few_connections_with_much_that_waits_keep_theirs_and_the_others_get_what_they_need() {
        let mut buffers = Buffers::default();
        let mut all: Vec<(Inbound, bool)> = (0..1000)
            .map(|_| {
                let mut inbound = connection(&mut buffers, 20_000);
                let kept = buffers.settle(&mut inbound);
                (inbound, kept)
            })
            .collect();
        assert_eq!(all.iter().filter(|(_, kept)| *kept).count(), OUT_MAX);
        assert_eq!((buffers.spare.len(), buffers.out), (1, OUT_MAX));
        assert!(all.iter().all(|(inbound, _)| inbound.reserved() <= (32 << 10) + 12));
        all.iter_mut().for_each(|(inbound, _)| buffers.recover(inbound));
        assert_eq!((buffers.spare.len(), buffers.out), (OUT_MAX + 1, 0));
    }
}
