//! Push consumers: each a thread of its own, so that its processor time can be measured.
//!
//! A consumer takes connections on its listener, one from the service or one from each supplier, reads every event completely, checks it,
//! and answers it where an answer is expected.

use std::net::TcpListener;

use super::intake::Intake;
use super::{CatcherShared, Shared};
use crate::callers::Callers;
use crate::wire::Stamp;
use crate::{BenchError, clock};

/// Maximum time between checks whether everything sent has arrived.
const LOOK_UP_EVERY: u64 = clock::SECOND / 20;

/// One push consumer.
pub(super) struct Catcher {
    pub(super) intake: Intake,
    callers: Callers,
    answers: bool,
}

impl Catcher {
    /// A consumer with this listener.
    pub(super) fn new(intake: Intake, listener: TcpListener, answers: bool) -> Result<Self, BenchError> {
        let callers = Callers::new(intake.contender, listener)?;
        Ok(Self { intake, callers, answers })
    }

    /// Takes events until everything sent has arrived, or nothing has for a while.
    pub(super) fn run(mut self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
        while !self.intake.is_done(shared) {
            let Self { intake, callers, answers } = &mut self;
            callers.wait(Some(LOOK_UP_EVERY), *answers, |payload, at| match Stamp::read(payload) {
                Some(stamp) => intake.take(stamp, at, own),
                None => Ok(()),
            })?;
        }
        Ok(self)
    }
}
