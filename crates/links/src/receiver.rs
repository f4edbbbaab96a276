//! The receiving end of a flow in one session.

use alloc::collections::VecDeque;

use crate::{Limits, Violation};

/// The pending acknowledgements of one flow in one session.
///
/// Events arrive in sequence and complete in any order, since some wait for the disk; the acknowledgement is cumulative.
#[derive(Debug)]
pub struct Receiver {
    limits: Limits,
    /// Received events not yet acknowledged, from `acknowledged + 1` on: the octets of each, and whether it is complete.
    outstanding: VecDeque<(u64, bool)>,
    octets: u64,
    acknowledged: u64,
    acknowledged_sent: u64,
}

impl Receiver {
    /// Creates the receiver of a new session, with the limits in this end's Hello.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, outstanding: VecDeque::new(), octets: 0, acknowledged: 0, acknowledged_sent: 0 }
    }

    /// Notes a received event; `octets` is the length of its frame, as [`Event::octets`](crate::wire::Event::octets) counts it.
    ///
    /// # Errors
    /// When its number is not the next, or the events in flight exceed the limits.
    pub fn accept(&mut self, sequence: u64, octets: usize) -> Result<(), Violation> {
        let expected = self.received() + 1;
        if sequence != expected {
            return Err(Violation::OutOfSequence { expected, found: sequence });
        }
        if self.outstanding.len() >= self.limits.outstanding_max as usize {
            return Err(Violation::TooManyOutstanding { limit: self.limits.outstanding_max });
        }
        let (octets, limit) = (octets as u64, self.limits.window_bytes_max);
        if !self.outstanding.is_empty() && self.octets + octets > limit {
            return Err(Violation::WindowExceeded { octets: self.octets + octets, limit });
        }
        self.outstanding.push_back((octets, false));
        self.octets += octets;
        Ok(())
    }

    /// Completes an event: it is admitted (and on disk, if persistent), a repeat, or rejected. False if its completion was not pending.
    pub fn complete(&mut self, sequence: u64) -> bool {
        let at = sequence.checked_sub(self.acknowledged + 1).and_then(|at| usize::try_from(at).ok());
        let Some((_, is_complete @ false)) = at.and_then(|at| self.outstanding.get_mut(at)) else { return false };
        *is_complete = true;
        while let Some((octets, _)) = self.outstanding.pop_front_if(|(_, is_complete)| *is_complete) {
            self.octets -= octets;
            self.acknowledged += 1;
        }
        true
    }

    /// The number to acknowledge now. `None` if it is the same as last time.
    pub fn take_ack(&mut self) -> Option<u64> {
        (self.acknowledged > self.acknowledged_sent).then(|| {
            self.acknowledged_sent = self.acknowledged;
            self.acknowledged
        })
    }

    /// The number of the last received event.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.acknowledged + self.outstanding.len() as u64
    }

    /// Number of received events that cannot be acknowledged yet.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Octets of the [outstanding](Self::outstanding) events.
    #[must_use]
    pub const fn outstanding_octets(&self) -> u64 {
        self.octets
    }
}
