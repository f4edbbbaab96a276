//! Read buffers of a lane, lent to its connections.
//!
//! A connection has a buffer only while it is read and until its messages are handled, so that an idle connection costs none, and buffers
//! can be so large that one system call brings hundreds of requests. If more than a few kilobytes have to wait (an incomplete message, or
//! requests beyond the client's budget), the connection keeps the buffer as long as not too many are lent; beyond that, the waiting bytes
//! are copied into a buffer of their size, which is counted.

/// Bytes asked of a socket at once.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// Maximum buffers kept by connections beside the one in use, and so the most that a lane has.
const OUT_MAX: usize = 16;

/// A connection that reads into a lent buffer.
pub(crate) trait Borrower {
    /// Whether a buffer is lent to this connection.
    fn is_lent(&self) -> bool;
    /// Whether the message being read is larger than the lent buffer, and has filled it.
    fn has_outgrown_loan(&self) -> bool;
    /// Lends the connection a buffer, which is returned if the connection has no use for it.
    #[must_use = "a buffer that comes back can be lent again"]
    fn lend(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>>;
    /// Takes back the lent buffer, if there is one. Bytes that wait in it are kept.
    fn reclaim(&mut self) -> Option<Vec<u8>>;
    /// Octets that would be copied elsewhere if the buffer were taken back now; 0 if that is next to nothing.
    fn rest_to_keep(&self) -> usize;
}

/// Spare buffers of a lane, and the number lent.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
    out: usize,
}

impl Buffers {
    /// Makes a connection ready to be read.
    pub(crate) fn lend(&mut self, borrower: &mut impl Borrower) {
        if borrower.is_lent() {
            if !borrower.has_outgrown_loan() {
                return;
            }
            self.recover(borrower);
        }
        let buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES));
        match borrower.lend(buffer) {
            Some(unused) => self.spare.push(unused),
            None => self.out += 1,
        }
    }

    /// Takes back the lent buffer, unless many bytes still wait in it and enough buffers are left for others. False if the bytes had to be
    /// copied because too few are left.
    pub(crate) fn take_back(&mut self, borrower: &mut impl Borrower) -> bool {
        if !borrower.is_lent() {
            return true;
        }
        let is_large = borrower.rest_to_keep() > 0;
        if is_large && self.out <= OUT_MAX {
            return true;
        }
        self.recover(borrower);
        !is_large
    }

    /// Takes back the lent buffer in any case, from a connection that leaves the lane.
    pub(crate) fn recover(&mut self, borrower: &mut impl Borrower) {
        if let Some(buffer) = borrower.reclaim() {
            self.out -= 1;
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that are kept without a buffer from the lane.
    const SMALL: usize = 4 << 10;

    /// A connection of which that much waits.
    struct Reads {
        lent: Option<Vec<u8>>,
        waits: usize,
        retained: usize,
    }

    impl Borrower for Reads {
        fn is_lent(&self) -> bool {
            self.lent.is_some()
        }

        fn has_outgrown_loan(&self) -> bool {
            self.lent.as_ref().is_some_and(|lent| self.waits > lent.capacity())
        }

        fn lend(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
            if self.is_lent() || self.waits > buffer.capacity() {
                return Some(buffer);
            }
            self.lent.replace(buffer)
        }

        fn reclaim(&mut self) -> Option<Vec<u8>> {
            self.retained = self.waits;
            self.lent.take()
        }

        fn rest_to_keep(&self) -> usize {
            if self.waits <= SMALL { 0 } else { self.waits }
        }
    }

    /// A connection of which that much was read and waits.
    fn connection(buffers: &mut Buffers, arrived: usize) -> Reads {
        let mut reads = Reads { lent: None, waits: 0, retained: 0 };
        buffers.lend(&mut reads);
        reads.waits = arrived;
        reads
    }

    #[test]
    fn connections_one_after_the_other_share_one_buffer() {
        let mut buffers = Buffers::default();
        for _ in 0..100 {
            let mut reads = connection(&mut buffers, 2000);
            assert!(buffers.take_back(&mut reads));
            assert_eq!((reads.is_lent(), reads.retained), (false, 2000));
        }
        assert_eq!((buffers.spare.len(), buffers.out), (1, 0));
    }

    #[test]
    fn a_few_connections_with_much_that_waits_keep_theirs_and_the_others_get_what_they_need() {
        let mut buffers = Buffers::default();
        let mut all: Vec<(Reads, bool)> = (0..1000)
            .map(|_| {
                let mut reads = connection(&mut buffers, 20_000);
                let retained = buffers.take_back(&mut reads);
                (reads, retained)
            })
            .collect();
        assert_eq!(all.iter().filter(|(_, retained)| *retained).count(), OUT_MAX);
        assert_eq!((buffers.spare.len(), buffers.out), (1, OUT_MAX));
        assert!(all.iter().all(|(reads, retained)| *retained == reads.is_lent()));
        all.iter_mut().for_each(|(reads, _)| buffers.recover(reads));
        assert_eq!((buffers.spare.len(), buffers.out), (OUT_MAX + 1, 0));
    }

    #[test]
    fn a_connection_that_has_outgrown_a_buffer_gives_it_back_and_has_none() {
        let mut buffers = Buffers::default();
        let mut reads = connection(&mut buffers, READ_BYTES + 1);
        buffers.lend(&mut reads);
        assert_eq!((reads.is_lent(), buffers.spare.len(), buffers.out), (false, 1, 0));
    }
}
