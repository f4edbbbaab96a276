//! Splitting of received bytes into lines.

use alloc::vec::Vec;

/// A line exceeds the limit: the connection's further input is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Input of one connection that has not been returned as lines yet.
///
/// A line that arrives whole is returned from the caller's buffer. Only the beginning of an incomplete line is copied here, so that an idle
/// connection takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Retained input. Octets before `from` are consumed; octets before `searched` contain no end of a line.
    retained: Vec<u8>,
    from: usize,
    searched: usize,
}

impl Lines {
    /// Size of the retained input, in octets.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained.len() - self.from
    }

    /// Whether the retained input begins with these octets.
    pub(crate) fn retained_begin_with(&self, octets: &[u8]) -> bool {
        self.retained.get(self.from..).is_some_and(|retained| retained.starts_with(octets))
    }

    /// Returns the next line, without its end, of the retained input followed by `input`, and how many octets of `input` were consumed. If
    /// no whole line is left, all of `input` is retained.
    pub(crate) fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        bytes_max: usize,
    ) -> (Option<Result<&'a [u8], TooLong>>, usize) {
        if self.from == self.retained.len() {
            self.forget();
            return match end_of_line(input) {
                None if input.len() <= bytes_max => {
                    self.keep(input);
                    self.searched = self.retained.len();
                    (None, input.len())
                }
                Some(end) if end <= bytes_max => (Some(Ok(input.get(..end).unwrap_or_default())), end + 1),
                _ => (Some(Err(TooLong)), 0),
            };
        }
        let mut taken = 0;
        let end = match end_of_line(self.retained.get(self.searched..).unwrap_or_default()) {
            Some(end) => self.searched + end,
            None => {
                let end = end_of_line(input);
                let more = end.and_then(|end| input.get(..end)).unwrap_or(input);
                if self.retained_bytes() + more.len() > bytes_max {
                    return (Some(Err(TooLong)), 0);
                }
                self.keep(more);
                self.searched = self.retained.len();
                if end.is_none() {
                    return (None, input.len());
                }
                taken = more.len() + 1;
                self.retained.push(b'\n');
                self.searched
            }
        };
        if end - self.from > bytes_max {
            return (Some(Err(TooLong)), taken);
        }
        let from = core::mem::replace(&mut self.from, end + 1);
        self.searched = end + 1;
        (Some(Ok(self.retained.get(from..end).unwrap_or_default())), taken)
    }

    /// Retains input that is handled later.
    pub(crate) fn keep(&mut self, input: &[u8]) {
        if self.from > 0 {
            self.retained.drain(..self.from);
            self.searched -= self.from;
            self.from = 0;
        }
        self.retained.extend_from_slice(input);
    }

    /// Returns the retained input, for a caller that reads no more lines.
    pub(crate) fn take_all(self) -> Vec<u8> {
        let Self { mut retained, from, .. } = self;
        retained.drain(..from);
        retained
    }

    fn forget(&mut self) {
        self.from = 0;
        self.searched = 0;
        if self.retained.capacity() <= Self::CAPACITY_MAX { self.retained.clear() } else { self.retained = Vec::new() }
    }

    /// Maximum capacity that an idle connection keeps allocated. Unit: octets.
    const CAPACITY_MAX: usize = 1024;
}

/// Position of the first line's end.
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|octet| *octet == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The lines that come out if the bytes arrive in chunks of those sizes, and at most `most` lines are taken after each.
    fn cut(bytes: &[u8], mut size: impl FnMut() -> usize, mut most: impl FnMut() -> usize, max: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        let mut rest = bytes;
        loop {
            let (piece, behind) = rest.split_at(size().min(rest.len()));
            rest = behind;
            let mut input = piece;
            let mut left = if rest.is_empty() { usize::MAX } else { most() };
            while left > 0 {
                let (line, taken) = lines.next(input, max);
                input = &input[taken..];
                match line {
                    Some(Ok(line)) => all.push(line.to_vec()),
                    Some(Err(TooLong)) => {
                        all.push(b"too long".to_vec());
                        return all;
                    }
                    None => break,
                }
                left -= 1;
            }
            lines.keep(input);
            if rest.is_empty() {
                return all;
            }
        }
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut_and_whenever_they_are_taken() {
        let bytes = b"first\n\nthird \r\nfourth, which is longer\n5\nhalf";
        let expected: Vec<Vec<u8>> = bytes.split(|octet| *octet == b'\n').take(5).map(<[u8]>::to_vec).collect();
        for size in 1..=bytes.len() {
            assert_eq!(cut(bytes, || size, || usize::MAX, 100), expected, "in pieces of {size}");
        }
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut sizes, mut mosts) = (random.fork(), random.fork());
            let cut = cut(bytes, || sizes.usize(1..10), || mosts.usize(0..3), 100);
            assert_eq!(cut, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer_however_it_is_cut() {
        for length in 8..12 {
            let bytes = [vec![b'x'; length], b"\nnext\n".to_vec()].concat();
            let expected =
                if length <= 10 { vec![vec![b'x'; length], b"next".to_vec()] } else { vec![b"too long".to_vec()] };
            for size in 1..=bytes.len() {
                assert_eq!(cut(&bytes, || size, || usize::MAX, 10), expected, "{length} octets in pieces of {size}");
                assert_eq!(cut(&bytes, || size, || 0, 10), expected, "{length} octets in pieces of {size}, taken late");
            }
        }
    }

    #[test]
    fn a_line_without_end_is_refused_and_was_never_kept_beyond_the_limit() {
        let mut lines = Lines::default();
        let piece = [b'x'; 64];
        for round in 0_usize.. {
            let is_refused = lines.next(&piece, 1000).0 == Some(Err(TooLong));
            assert!(lines.retained.len() <= 1000);
            if is_refused {
                assert_eq!(round, 1000 / 64);
                return;
            }
        }
    }

    #[test]
    fn a_connection_on_which_nothing_is_under_way_takes_no_memory() {
        let mut lines = Lines::default();
        let half = [b'x'; 5000];
        assert_eq!(lines.next(&half, 10_000), (None, 5000));
        assert_eq!(lines.retained_bytes(), 5000);
        assert_eq!(lines.next(b"\n", 10_000), (Some(Ok(&half[..])), 1));
        assert_eq!(lines.next(b"", 10_000), (None, 0));
        assert_eq!((lines.retained_bytes(), lines.retained.capacity()), (0, 0));
    }
}
