//! Waiting messages of one topic: the highest priority first, first in first out among equals (Tempo, §IV.C).

use alloc::collections::BinaryHeap;
use core::cmp::Ordering;

use crate::Time;

/// A message waiting for its topic's turn.
#[derive(Debug)]
pub(in crate::lane) struct Waiting<M> {
    pub(super) priority: i16,
    /// Serial number among the lane's messages.
    pub(super) serial: u64,
    pub(super) arrived: Time,
    pub(in crate::lane) message: M,
}

impl<M> Waiting<M> {
    fn rank(&self) -> (i16, core::cmp::Reverse<u64>) {
        (self.priority, core::cmp::Reverse(self.serial))
    }
}

impl<M> PartialEq for Waiting<M> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<M> Eq for Waiting<M> {}

impl<M> PartialOrd for Waiting<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Waiting<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Messages of one topic. The memory is retained, so that it allocates only when more wait than ever before.
#[derive(Debug)]
pub(super) struct Messages<M>(BinaryHeap<Waiting<M>>);

impl<M> Messages<M> {
    pub(super) const fn new() -> Self {
        Self(BinaryHeap::new())
    }

    pub(super) fn push(&mut self, waiting: Waiting<M>) {
        self.0.push(waiting);
    }

    pub(super) fn first(&self) -> Option<&Waiting<M>> {
        self.0.peek()
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<M>> {
        self.0.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
