//! That the lane tells of each watched event when it is settled: never before, not later, and not twice.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use engine::{Event, ProxyKey, Settled, Settlement};

use super::Run;
use crate::model::End;

/// What the lane has told.
#[derive(Default)]
pub(super) struct Told {
    for_consumers: BTreeSet<(usize, ProxyKey)>,
    /// Events that are watched and not settled for all as far as it was told.
    open: BTreeSet<usize>,
    for_all: u64,
}

impl Told {
    /// How many events were settled for all.
    pub(super) const fn settled(&self) -> u64 {
        self.for_all
    }

    /// Three events of four are watched, two of them for each consumer. (Nothing is drawn for that, so that each seed stays the
    /// run that it was.)
    pub(super) fn watch(&mut self, label: usize, event: &mut Event) {
        if label.is_multiple_of(4) {
            return;
        }
        event.watch = NonZeroU64::new(label as u64);
        event.watch_each = is_watched_for_each(label);
        self.open.insert(label);
    }
}

const fn is_watched_for_each(label: usize) -> bool {
    label % 4 > 1
}

impl Run {
    pub(super) fn compare_settled(&mut self) -> Result<(), String> {
        let everywhere = self.model.everywhere();
        while let Some(settled) = self.lane.poll_settled() {
            let told = &mut self.told;
            match settled {
                Settled::ForConsumer { watch, consumer, how } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    let is_for = self.model.consumers_of(label).contains(&consumer);
                    if !is_for || self.model.has(consumer, label) || !is_watched_for_each(label) {
                        return Err(format!("{label} was told to be settled for {consumer}, and is not"));
                    }
                    let said = match how {
                        Settlement::Delivered => End::Delivered,
                        Settlement::Unwanted => End::Unwanted,
                        Settlement::Dropped(_) => End::Dropped,
                    };
                    super::same("how an event ended", &said, &self.model.end_of(consumer, label))?;
                    if !told.for_consumers.insert((label, consumer)) {
                        return Err(format!("{label} was told twice to be settled for {consumer}"));
                    }
                }
                Settled::ForAll { watch } => {
                    let label = usize::try_from(watch.get()).unwrap_or(usize::MAX);
                    if everywhere.contains(&label) || !self.model.is_taken(label) || !told.open.remove(&label) {
                        return Err(format!("{label} was told to be settled for all, and is not, or was before"));
                    }
                    self.check_each(label)?;
                    self.told.for_all += 1;
                }
                Settled::TakenOver { .. } => return Err("taken over by a lane, although there is one only".into()),
            }
        }
        let open: Vec<usize> = self.told.open.iter().copied().filter(|label| self.model.is_taken(*label)).collect();
        for label in open {
            if !everywhere.contains(&label) {
                return Err(format!("{label} is settled for all, and that was not told"));
            }
            self.check_each(label)?;
        }
        Ok(())
    }

    /// For whom it is settled, that must have been told.
    fn check_each(&self, label: usize) -> Result<(), String> {
        if !is_watched_for_each(label) || self.model.is_left_over(label) {
            return Ok(());
        }
        let is_untold =
            |key: &&ProxyKey| !self.told.for_consumers.contains(&(label, **key)) && !self.model.has(**key, label);
        match self.model.consumers_of(label).iter().find(is_untold) {
            Some(key) => Err(format!("{label} is settled for {key}, and that was not told")),
            None => Ok(()),
        }
    }
}
