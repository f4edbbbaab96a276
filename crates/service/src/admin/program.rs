//! The program that the service is part of, as one that asks administration.

use std::sync::PoisonError;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::admin::values::{Answer, Command, Declined, Query};
use crate::lane::links::mail::ToAdministration;
use crate::start::Service;

/// Letters of the program's that may wait for administration: one of each of its threads that ask.
pub(crate) const LETTERS: usize = 64;

impl Service {
    /// Asks administration, and waits for the answer: a moment, or, where lanes are asked how they stand, a few of their rounds.
    ///
    /// # Errors
    /// When the service is about to end, or too many threads ask.
    pub fn ask(&self, query: Query) -> Result<Answer, Declined> {
        self.consult(|to| ToAdministration::Query(query, to))
    }

    /// Has administration do something, and waits until it is done and what follows from it is published, and clients whom it
    /// concerns have been told or a second is over.
    ///
    /// # Errors
    /// When the service is about to end, or too many threads ask.
    pub fn command(&self, command: Command) -> Result<Answer, Declined> {
        self.consult(|to| ToAdministration::Command(command, to))
    }

    fn consult(
        &self,
        letter: impl FnOnce(SyncSender<Result<Answer, Declined>>) -> ToAdministration,
    ) -> Result<Answer, Declined> {
        let (to, told) = sync_channel(1);
        let posted = self.administration.lock().unwrap_or_else(PoisonError::into_inner).post(letter(to));
        posted.map_err(|_| Declined::NoResources)?;
        // Administration has ended if there is none.
        told.recv().unwrap_or(Err(Declined::Stopping))
    }
}
