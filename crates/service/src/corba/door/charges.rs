//! Whom the door charges for what it keeps: the client that asked for it, until it is gone.

use super::Door;
use crate::accounts::{Charge, Resource, Spent};
use crate::corba::exceptions::Raised;

impl Door {
    /// Charges the client that asks. What the service makes for itself is charged to nobody.
    pub(in crate::corba) fn charge(&mut self, resource: Resource, amount: u64) -> Result<Option<Charge>, Raised> {
        let Some(principal) = &self.principal else { return Ok(None) };
        principal.charge(resource, amount).map(Some).map_err(|spent| self.note_spent(spent))
    }

    /// What a client is told that claims too much.
    pub(in crate::corba) fn note_spent(&mut self, spent: Spent) -> Raised {
        self.spent.push(spent);
        Raised::no_resources()
    }

    /// The next claim that was not granted, to be counted.
    pub fn poll_spent(&mut self) -> Option<Spent> {
        self.spent.pop()
    }
}
