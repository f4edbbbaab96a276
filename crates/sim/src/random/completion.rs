//! Checks that the lane reports each watched event as complete: never before it is, not later, and not twice.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use engine::{Completion, Disposition, Event, ProxyKey, WATCH_OVERHEAD_BYTES};

use super::Run;
use crate::model::End;

/// Reports of the lane.
#[derive(Default)]
pub(super) struct Reports {
    /// Events reported for a consumer, with that consumer.
    begun: BTreeSet<(usize, ProxyKey)>,
    /// Events reported as having no further consumer.
    complete: BTreeSet<usize>,
    for_consumers: BTreeSet<(usize, ProxyKey)>,
    /// Watched events not yet reported as complete for all.
    open: BTreeSet<usize>,
    for_all: u64,
}

impl Reports {
    /// Number of events complete for all.
    pub(super) const fn completed(&self) -> u64 {
        self.for_all
    }

    /// Watches three events of four, two of them for each consumer. (Not at random, so that each seed stays the same
    /// run.) Returns the weight added.
    pub(super) fn watch(&mut self, label: usize, event: &mut Event) -> u64 {
        if label.is_multiple_of(4) {
            return 0;
        }
        event.watch = NonZeroU64::new(label as u64);
        event.watch_each = is_watched_for_each(label);
        self.open.insert(label);
        if is_watched_for_each(label) { WATCH_OVERHEAD_BYTES } else { 0 }
    }
}

const fn is_watched_for_each(label: usize) -> bool {
    label % 4 > 1
}

impl Run {
    pub(super) fn compare_completed(&mut self) -> Result<(), String> {
        let everywhere = self.model.everywhere();
        while let Some(completed) = self.lane.poll_completion() {
            let reports = &mut self.reports;
            match completed {
                Completion::Begins { watch, consumer } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    let is_for = self.model.consumers_of(label).contains(&consumer) && is_watched_for_each(label);
                    if !is_for || !reports.begun.insert((label, consumer)) {
                        return Err(format!("{label} was reported to be for {consumer}, and is not, or was before"));
                    }
                }
                Completion::Begun { watch, bridges } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    if bridges > 0 || !is_watched_for_each(label) || !reports.complete.insert(label) {
                        return Err(format!(
                            "{label} was reported to be for no other consumer, and is, or that was reported before"
                        ));
                    }
                }
                Completion::ForConsumer { watch, consumer, how } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    let is_for = self.model.consumers_of(label).contains(&consumer);
                    if !is_for || self.model.has(consumer, label) || !is_watched_for_each(label) {
                        return Err(format!("{label} was reported to be complete for {consumer}, and is not"));
                    }
                    let has_begun = reports.begun.contains(&(label, consumer));
                    if !has_begun && !matches!(how, Disposition::Dropped(_)) {
                        return Err(format!("{label} ended for {consumer}, and it was not reported to be for it"));
                    }
                    let said = match how {
                        Disposition::Delivered => End::Delivered,
                        Disposition::Unwanted => End::Unwanted,
                        Disposition::Dropped(_) => End::Dropped,
                    };
                    super::same("how an event ended", &said, &self.model.end_of(consumer, label))?;
                    if !reports.for_consumers.insert((label, consumer)) {
                        return Err(format!("{label} was reported twice to be complete for {consumer}"));
                    }
                }
                Completion::Gone { consumer } => {
                    return Err(format!("{consumer} was reported to be gone with events that are not stored for it"));
                }
                Completion::ForAll { watch } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    if everywhere.contains(&label) || !reports.open.remove(&label) {
                        return Err(format!("{label} was reported to be complete for all, and is not, or was before"));
                    }
                    if is_watched_for_each(label) != reports.complete.contains(&label) {
                        return Err(format!("{label} is complete, and its consumers were not reported"));
                    }
                    // A refused event is complete, too.
                    if !self.model.is_taken(label) {
                        continue;
                    }
                    self.check_each(label)?;
                    self.reports.for_all += 1;
                }
                Completion::TakenOver { .. } => return Err("taken over by a lane, although there is one only".into()),
            }
        }
        let open: Vec<usize> = self.reports.open.iter().copied().filter(|label| self.model.is_taken(*label)).collect();
        for label in open {
            if !everywhere.contains(&label) {
                return Err(format!("{label} is complete for all, and that was not reported"));
            }
            self.check_each(label)?;
        }
        Ok(())
    }

    /// Checks that each consumer for which the event is complete was reported.
    fn check_each(&self, label: usize) -> Result<(), String> {
        if !is_watched_for_each(label) || self.model.is_left_over(label) {
            return Ok(());
        }
        let is_untold =
            |key: &&ProxyKey| !self.reports.for_consumers.contains(&(label, **key)) && !self.model.has(**key, label);
        match self.model.consumers_of(label).iter().find(is_untold) {
            Some(key) => Err(format!("{label} is complete for {key}, and that was not reported")),
            None => Ok(()),
        }
    }
}
