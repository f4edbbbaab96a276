//! What a lane tells of itself: its counters, brought up to date once in each round, and its lines in the log.

use std::sync::Arc;

use engine::{DiscardReason, Time};

use crate::allocations;
use crate::counters::Counter;
use crate::lane::io::system;
use crate::lane::links::messages::ToAdministration;
use crate::lane::run::Core;
use crate::lane::saturation::Finding;

impl Core {
    /// Has a line about a connection logged, unless there are too many of them.
    pub(crate) fn log(&mut self, level: log::Level, text: impl FnOnce() -> String) {
        if !self.reporting.reports.log(level, text, self.clock.now) {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    /// Has a line logged about a connection that comes or goes, if such lines are wanted and there are not too many of them.
    pub(crate) fn log_debug(&mut self, text: impl FnOnce() -> String) {
        if log::log_enabled!(log::Level::Debug) && !self.reporting.reports.log_debug(text, self.clock.now) {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    pub(crate) fn account(&mut self, began: Time) {
        self.update_counters();
        self.counters.add(Counter::Cycles, 1);
        let ended = self.clock.time();
        self.counters.raise(Counter::CycleMax, ended.0.saturating_sub(began.0));
        if let Some(finding) = self.saturation.check(ended) {
            self.note_saturation(finding);
        }
    }

    /// Administration writes the line, at most one in a second: a text would have to be allocated, here between two events.
    fn note_saturation(&mut self, finding: Finding) {
        if finding == Finding::Saturated {
            self.counters.add(Counter::LaneSaturated, 1);
        }
        self.reporting.reports.send(ToAdministration::Saturation(Arc::clone(&self.identity.name), finding));
    }

    /// Brings what is counted elsewhere into the registry: at the end of each round, and before a request is passed on that
    /// may ask for it.
    pub(crate) fn update_counters(&self) {
        let counters = &self.counters;
        let engine = self.lane.counters();
        counters.set(Counter::EventsIn, engine.taken.accepted);
        counters.set(Counter::Delivered, engine.deliveries.delivered);
        counters.set(Counter::EventsRefused, engine.taken.refused);
        counters.set(Counter::SuppliersBlocked, engine.taken.withheld);
        counters.set(Counter::ChannelsShort, engine.taken.channels_short);
        counters.set(Counter::ChannelsShortOfDisk, engine.overflow.channels_short);
        counters.set(Counter::Dropped, engine.discards.total());
        for reason in DiscardReason::ALL {
            counters.set(Counter::of_discard(reason), engine.discards.of(reason));
        }
        counters.set(Counter::Overflowed, engine.overflow.stored);
        counters.set(Counter::BroughtBack, engine.overflow.brought_back);
        counters.set(Counter::HistoryStored, engine.history.stored);
        counters.set(Counter::HistoryMissed, engine.history.missed);
        counters.set(Counter::HistoryRecalled, engine.history.recalled);
        counters.set(Counter::FilterEvaluations, engine.filters.evaluations);
        counters.set(Counter::FilterFailures, engine.filters.failures);
        counters.set(Counter::FilterCuts, engine.filters.cuts);
        counters.set(Counter::FilteredAtSuppliers, engine.taken.filtered);
        counters.set(Counter::HandoversRefused, engine.handovers.refused);
        counters.set(Counter::HandoversDropped, engine.handovers.dropped);
        counters.set(Counter::FilteredRemotely, engine.deliveries.filtered);
        counters.set(Counter::EventsQueued, engine.taken.queued);
        counters.set(Counter::EventsQueuedMax, engine.taken.queued_max);
        counters.set(Counter::Allocations, allocations::of_this_thread());
        counters.set(Counter::SystemCalls, system::calls_of_this_thread());
    }
}
