//! Replies sent at once: announcements to unknown peers, and echoes.

use super::reports::Place;
use crate::wire::Probe;

#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    /// Our announcement of a topic, for a session that is not verified yet.
    Announcement {
        topic: usize,
        number: u32,
        to: Place,
        session: u32,
        returned: u64,
    },
    Echo {
        to: Place,
        probe: Probe,
    },
}

/// A short queue of replies, in order of arrival.
#[derive(Debug)]
pub(super) struct Replies<const N: usize> {
    replies: [Option<Reply>; N],
    first: usize,
    waiting: usize,
}

impl<const N: usize> Replies<N> {
    pub(super) const fn new() -> Self {
        Self { replies: [None; N], first: 0, waiting: 0 }
    }

    /// Adds a reply; returns whether there was room.
    pub(super) fn push(&mut self, reply: Reply) -> bool {
        let Some(at) = (self.first + self.waiting).checked_rem(N).filter(|_| self.waiting < N) else { return false };
        if let Some(place) = self.replies.get_mut(at) {
            *place = Some(reply);
        }
        self.waiting += 1;
        true
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn first(&self) -> Option<Reply> {
        if self.is_empty() {
            return None;
        }
        *self.replies.get(self.first)?
    }

    pub(super) fn pop(&mut self) {
        if let Some(reply) = self.replies.get_mut(self.first).and_then(Option::take) {
            let _: Reply = reply;
            self.first = (self.first + 1) % N;
            self.waiting -= 1;
        }
    }
}
