//! Connections with output gathered in a round, and the time at which it is written: at the end of the round, or earlier if it has waited
//! for too long or has grown too large.

use core::time::Duration;
use std::collections::VecDeque;

use engine::Time;

use crate::lane::budget::Budget;
use crate::lane::io::slots::Token;

/// How many times longer one-way pushes are gathered than [`Budget::GATHERED`] says, and than the last writing took. No consumer's next
/// push waits for them, and pushing to a hundred consumers costs up to a quarter less. Where pushes are answered, this made queues longer.
const ONE_WAY_TIMES: [u32; 2] = [2, 3];

/// Connections with gathered output.
pub(crate) struct Gathered {
    due: VecDeque<Token>,
    /// Connection with so much output that it is written at once.
    overfull: Option<Token>,
    /// Time of the last writing before the end of a round, and its duration.
    written_at: Time,
    write_took: Duration,
    /// Pushes gathered since the clock was last read.
    pushes: u32,
    /// Whether an answer is expected to any push gathered since everything was last written.
    expects_answers: bool,
}

impl Default for Gathered {
    fn default() -> Self {
        Self {
            due: VecDeque::with_capacity(64),
            overfull: None,
            written_at: Time(0),
            write_took: Duration::ZERO,
            pushes: 0,
            expects_answers: false,
        }
    }
}

impl Gathered {
    /// Whether no connection has gathered output.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Number of connections with gathered output.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Adds a connection, which must not be among them yet.
    pub(crate) fn note_due(&mut self, token: Token) {
        self.due.push_back(token);
    }

    /// Removes the connection that is written to next.
    pub(crate) fn next(&mut self) -> Option<Token> {
        self.due.pop_front()
    }

    /// Sorts the connections by their output, smallest first.
    pub(crate) fn sort_by(&mut self, bytes: impl Fn(Token) -> usize) {
        self.due.make_contiguous().sort_unstable_by_key(|token| bytes(*token));
    }

    /// Counts a gathered push.
    pub(crate) const fn note_push(&mut self, one_way: bool) {
        self.pushes += 1;
        self.expects_answers |= !one_way;
    }

    /// Notes that a connection has so much output that it is written at once.
    pub(crate) const fn note_overfull(&mut self, token: Token) {
        self.overfull = Some(token);
    }

    /// Removes the connection that is written to at once, if there is one.
    pub(crate) const fn take_overfull(&mut self) -> Option<Token> {
        self.overfull.take()
    }

    /// Whether so many pushes were gathered that the clock is to be read.
    pub(crate) const fn begin_look(&mut self) -> bool {
        let looks = self.pushes >= Budget::GATHERED.events;
        if looks {
            self.pushes = 0;
        }
        looks
    }

    /// Whether gathered output has waited for the maximum time, in a round that began at `round_began`.
    pub(crate) fn has_waited(&self, now: Time, round_began: Time) -> bool {
        !self.is_empty() && now.since(self.written_at.max(round_began)) >= self.gathers_for()
    }

    /// Notes that everything was written before the end of a round, and how long that took.
    pub(crate) fn note_written(&mut self, began: Time, ended: Time) {
        self.written_at = ended;
        self.write_took = ended.since(began);
    }

    /// Notes that everything was written.
    pub(crate) const fn note_all_written(&mut self) {
        self.pushes = 0;
        self.expects_answers = false;
    }

    /// How long gathered output may wait within a round: at least as long as the last writing took. So a lane with endless output spends
    /// about half of its time in system calls at most, and output does not wait twice as long.
    fn gathers_for(&self) -> Duration {
        let [longer, than_writing] = if self.expects_answers { [1, 1] } else { ONE_WAY_TIMES };
        (longer * Budget::GATHERED.time).max(than_writing * self.write_took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHERED_FOR: Duration = Budget::GATHERED.time;

    fn token(number: u64) -> Token {
        Token::from_bits(number)
    }

    #[test]
    fn what_needs_no_answer_is_gathered_for_longer() {
        let mut gathered = Gathered::default();
        gathered.note_push(true);
        assert_eq!(gathered.gathers_for(), 2 * GATHERED_FOR);
        gathered.write_took = 2 * GATHERED_FOR;
        assert_eq!(gathered.gathers_for(), 3 * 2 * GATHERED_FOR);
        // One that is to be answered is enough, whatever comes behind it.
        gathered.note_push(false);
        gathered.note_push(true);
        assert_eq!(gathered.gathers_for(), 2 * GATHERED_FOR);
        gathered.write_took = Duration::ZERO;
        assert_eq!(gathered.gathers_for(), GATHERED_FOR);
    }

    #[test]
    fn what_has_waited_is_written_and_what_comes_behind_it_waits_as_long_as_writing_took() {
        let mut gathered = Gathered::default();
        let (began, took) = (Time(1_000_000), 3 * GATHERED_FOR);
        gathered.note_push(false);
        assert!(!gathered.has_waited(began + GATHERED_FOR, began), "there is nothing");
        gathered.note_due(token(1));
        assert!(!gathered.has_waited(Time(began.0 + 1), began));
        let due = began + GATHERED_FOR;
        assert!(gathered.has_waited(due, began));
        gathered.note_written(due, due + took);
        assert!(!gathered.has_waited(due + took + GATHERED_FOR, began));
        assert!(gathered.has_waited(due + took + took, began));
    }

    #[test]
    fn the_clock_is_looked_at_once_for_so_many_pushes() {
        let mut gathered = Gathered::default();
        let looks = (0..10 * Budget::GATHERED.events).filter(|_| {
            gathered.note_push(false);
            gathered.begin_look()
        });
        assert_eq!(looks.count(), 10);
    }

    #[test]
    fn a_connection_with_little_to_be_written_comes_first_where_that_is_requested() {
        let mut gathered = Gathered::default();
        [9, 3, 7].into_iter().for_each(|number| gathered.note_due(token(number)));
        gathered.sort_by(Token::index);
        let order: Vec<usize> = core::iter::from_fn(|| gathered.next()).map(Token::index).collect();
        assert_eq!(order, [3, 7, 9]);
    }
}
