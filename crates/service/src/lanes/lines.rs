//! The lines between lanes: a ring each way between every two.
//!
//! A lane meets the others when it is started, and those that are started later by an introduction, before it sees routing
//! that uses them. A lane that ends is parted from: what was posted to it before is served, and nothing follows.

use engine::LaneId;

use super::mail::LaneThread;
use super::post::{Inbox, Post};
use super::worker::Worker;

/// From one lane to another.
#[derive(Debug)]
pub(crate) enum ToPeer {
    /// The last letter: nothing more comes from that lane.
    Parted,
}

/// One lane's end of its line to another.
#[expect(dead_code, reason = "the hand-over of events, which follows, uses the rest of it")]
pub(crate) struct Line {
    pub(crate) lane: LaneId,
    /// Its thread: another lane may have had the id before.
    pub(crate) thread: LaneThread,
    /// The other lane's CORBA priority; nothing for the main lane without one.
    pub(crate) priority: Option<i16>,
    pub(crate) to: Post<ToPeer>,
    pub(crate) from: Inbox<ToPeer>,
    /// Letters that may be without an answer, and those that are.
    pub(crate) window: usize,
    pub(crate) unanswered: usize,
    /// Nothing more is posted to it, and nothing more comes from it.
    pub(crate) parted: bool,
    pub(crate) was_parted_from: bool,
}

/// All lines of a lane, those to more important lanes first.
#[derive(Default)]
pub(crate) struct Lines {
    all: Vec<Line>,
}

/// Letters of one lane that are served in one round.
const LETTERS_PER_ROUND: usize = 64;

impl Lines {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        let mut all = Self { all: lines };
        all.sort();
        all
    }

    fn sort(&mut self) {
        self.all.sort_by_key(|line| core::cmp::Reverse(line.priority));
    }

    /// Takes in a lane that was started.
    pub(crate) fn meet(&mut self, line: Line) {
        self.all.push(line);
        self.sort();
    }

    /// Whether there is no other lane.
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Says that nothing more will be posted to a lane.
    pub(crate) fn part(&mut self, lane: LaneThread) {
        for line in self.all.iter_mut().filter(|line| line.thread == lane) {
            line.part();
        }
    }

    /// Says so to all.
    pub(crate) fn part_from_all(&mut self) {
        self.all.iter_mut().for_each(Line::part);
    }

    /// Forgets lanes with which all is done.
    pub(crate) fn forget_ended(&mut self) {
        self.all.retain(|line| !line.parted || !line.was_parted_from);
    }

    /// Notes that what the others post from now on is rung for again.
    pub(crate) fn look(&self) {
        self.all.iter().for_each(|line| line.from.look());
    }
}

/// The longest queue from one lane to another. What a channel may have in it is bounded by its bridges far below that.
const QUEUE_MAX: u32 = 1024;
/// Letters that need no answer: connections that move, and the last one.
const OTHER_LETTERS: usize = 33;

/// How long the rings between two lanes are.
pub(crate) struct Capacity {
    /// Letters to each that may be without an answer.
    pub(crate) to_first: usize,
    pub(crate) to_second: usize,
    /// Places in either ring: for those, for the answers to the other's, and for what needs none.
    pub(crate) total: usize,
}

/// The rings between two lanes with queues for so many events.
pub(crate) fn capacity(first: u32, second: u32) -> Capacity {
    let [to_first, to_second] = [first, second].map(|events| events.clamp(1, QUEUE_MAX) as usize);
    Capacity { to_first, to_second, total: to_first + to_second + OTHER_LETTERS }
}

impl Line {
    pub(crate) fn new(
        (lane, thread, priority): (LaneId, LaneThread, Option<i16>),
        to: Post<ToPeer>,
        from: Inbox<ToPeer>,
        window: usize,
    ) -> Self {
        Self { lane, thread, priority, to, from, window, unanswered: 0, parted: false, was_parted_from: false }
    }

    fn part(&mut self) {
        // There is always room for it: that is why the ring has one place more than other letters may take.
        self.parted = self.parted || self.to.post(ToPeer::Parted).is_ok();
    }
}

impl Worker {
    /// Serves what other lanes have posted. True if there is more.
    pub(super) fn serve_lines(&mut self) -> bool {
        let mut more = false;
        for at in 0..self.core.lines.all.len() {
            more |= self.serve_line(at);
        }
        more
    }

    fn serve_line(&mut self, at: usize) -> bool {
        for _ in 0..LETTERS_PER_ROUND {
            let Some(letter) = self.core.lines.all.get_mut(at).and_then(|line| line.from.take()) else { return false };
            // What it speaks of was published before it was posted, so look before acting on it.
            self.core.refresh();
            match letter {
                ToPeer::Parted => {
                    if let Some(line) = self.core.lines.all.get_mut(at) {
                        line.was_parted_from = true;
                    }
                }
            }
        }
        self.core.lines.all.get(at).is_some_and(|line| line.from.waiting() > 0)
    }
}
