//! A consumer's record of its events, pushed or pulled.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{CatcherShared, Shared};
use crate::loss::{Ledger, Losses};
use crate::wire::{Phase, Stamp};
use crate::{BenchError, Form, clock};

/// Time without an event after which missing events count as lost.
const LOST_AFTER: u64 = 3 * clock::SECOND;

/// The events of one consumer.
pub(super) struct Intake {
    pub(super) contender: &'static str,
    /// Index of its traffic.
    pub(super) traffic: usize,
    pub(super) form: Form,
    ledgers: Vec<Ledger>,
    received: u64,
    /// Time of the last event.
    last: u64,
}

impl Intake {
    /// The record of a consumer of one traffic with so many suppliers.
    pub(super) fn new(contender: &'static str, form: Form, traffic: usize, suppliers: u32) -> Self {
        let suppliers = usize::try_from(suppliers).unwrap_or(0);
        Self { contender, traffic, form, ledgers: vec![Ledger::default(); suppliers], received: 0, last: 0 }
    }

    /// Enters an event that arrived at this time.
    pub(super) fn take(&mut self, stamp: Stamp, at: u64, own: &CatcherShared) -> Result<(), BenchError> {
        let supplier = usize::try_from(stamp.supplier).unwrap_or(usize::MAX);
        let change = self.ledgers.get_mut(supplier).and_then(|ledger| {
            let before = ledger.missing();
            ledger.enter(stamp.number).ok().map(|()| ledger.missing().wrapping_sub(before))
        });
        let Some(change) = change else { return Err(self.broken("delivered an event that was never sent".to_owned())) };
        if change != 0 {
            own.missing.fetch_add(change, Ordering::Relaxed);
        }
        self.received += 1;
        self.last = at;
        own.received.fetch_add(1, Ordering::Relaxed);
        if stamp.phase == Phase::Measured {
            let mut latency = own.latency.lock().unwrap_or_else(PoisonError::into_inner);
            latency.since_sent.record(at.saturating_sub(stamp.sent));
            latency.since_due.record(at.saturating_sub(stamp.due));
        }
        Ok(())
    }

    /// Whether no more events will come: all sent have arrived, or none has for a while.
    pub(super) fn is_done(&self, shared: &Shared) -> bool {
        if !shared.sending_is_over.load(Ordering::Acquire) {
            return false;
        }
        let sent = shared.sent.get(self.traffic).map_or(0, |sent| sent.load(Ordering::Relaxed));
        let since = self.last.max(shared.over_since.load(Ordering::Relaxed));
        self.received >= sent || clock::now().saturating_sub(since) > LOST_AFTER
    }

    /// The losses of all suppliers, given how many events each sent.
    pub(super) fn losses(&self, sent: &[u64]) -> Losses {
        let mut losses = Losses::default();
        for (ledger, &sent) in self.ledgers.iter().zip(sent) {
            losses.add(ledger.balance(sent));
        }
        losses
    }

    /// The error of a contender that violates the protocol.
    pub(super) fn broken(&self, reason: String) -> BenchError {
        BenchError::Protocol { contender: self.contender.to_owned(), reason }
    }
}
