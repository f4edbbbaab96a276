//! Events that a consumer of any kind has got, and the checks of them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::suppliers::Pushed;

/// A consumer's subscription, and its events.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Name in errors.
    pub(super) name: String,
    /// Lowest number of the events that its constraint lets pass, if it has one.
    pub(super) from_number: Option<u32>,
    /// Time of its connection.
    pub(super) since: Option<Duration>,
    /// Numbers of the events by supplier.
    pub(super) got: BTreeMap<usize, BTreeSet<u32>>,
    /// Whether its events have to come in order; answers to simultaneous requests need not.
    pub(super) is_in_order: bool,
    /// Number of its events that may have been in answers that it could not read.
    pub(super) excused: usize,
}

impl Taken {
    /// Makes a subscription, in one case of three with a constraint.
    pub(super) fn new(name: String, rng: &mut Rng) -> Self {
        let from_number = (rng.u8(0..3) == 0).then(|| rng.u32(0..20));
        Self { name, from_number, is_in_order: true, ..Self::default() }
    }

    /// The constraint, in the filter language.
    pub(super) fn constraint(&self) -> Option<String> {
        self.from_number.map(|number| format!("$number >= {number}"))
    }

    /// The supplier and the number of an event, by its name.
    ///
    /// # Errors
    /// Its name has no supplier, or the constraint excludes it.
    pub(super) fn identify(&self, name: &str) -> Result<(usize, u32), String> {
        let parts =
            name.split_once(':').and_then(|(supplier, number)| Some((supplier.parse().ok()?, number.parse().ok()?)));
        let (supplier, number) = parts.ok_or_else(|| format!("{} gets an event of no supplier", self.name))?;
        if self.from_number.is_some_and(|from| number < from) {
            return Err(format!(
                "{} gets event {number} of supplier {supplier}, which its filter is against",
                self.name
            ));
        }
        Ok((supplier, number))
    }

    /// Notes an event. None may come twice, nor behind a later one if the consumer asks for one after the other and no connection was lost:
    /// events under way there come again when the loss is noticed.
    ///
    /// # Errors
    /// The event is a repeat, or out of order.
    pub(super) fn add_next(&mut self, name: &str) -> Result<(), String> {
        let (supplier, number) = self.identify(name)?;
        let got = self.got.entry(supplier).or_default();
        let last = got.last().copied();
        if !got.insert(number) {
            return Err(format!("{} gets event {number} of supplier {supplier} twice", self.name));
        }
        if self.is_in_order
            && self.excused == 0
            && let Some(last) = last.filter(|last| *last > number)
        {
            return Err(format!("{} gets event {number} of supplier {supplier} behind {last}", self.name));
        }
        Ok(())
    }

    /// Checks that it got all accepted events that were pushed after it was connected and match its constraint, and no others. Missing
    /// events are excused up to the losses on the way to it, and in others' datagrams; any number if the losses are unknown.
    ///
    /// # Errors
    /// The violated condition.
    pub(super) fn check<'p>(
        &self,
        suppliers: impl Iterator<Item = &'p Pushed>,
        (lost_to_it, lost_by_others): (Option<u64>, Option<u64>),
    ) -> Result<(), String> {
        let since = self.since.ok_or_else(|| format!("{} is never connected", self.name))?;
        let (nothing, mut missing, mut lost) = (BTreeSet::new(), 0, 0);
        let excused = lost_to_it.map(|lost| self.excused as u64 + lost);
        for (pushed, number) in suppliers.zip(1..) {
            let got = self.got.get(&number).unwrap_or(&nothing);
            let was_pushed = |event: &u32| pushed.accepted.contains_key(event) || pushed.doubtful.contains_key(event);
            if let Some(event) = got.iter().find(|event| !was_pushed(event)) {
                return Err(format!("{} gets event {event} of supplier {number}, which was not pushed", self.name));
            }
            let wanted = |event: &u32| self.from_number.is_none_or(|from| *event >= from);
            let is_missing =
                |(event, time): &(&u32, &Duration)| **time > since && wanted(event) && !got.contains(event);
            for (event, time) in pushed.accepted.iter().filter(is_missing) {
                if pushed.may_be_lost {
                    // Losses before the first event are unknown.
                    lost += u64::from(got.first().is_some_and(|first| first < event));
                    continue;
                }
                missing += 1;
                if excused.is_some_and(|excused| missing > excused) {
                    return Err(format!("{} misses event {event} of supplier {number}, pushed at {time:?}", self.name));
                }
            }
        }
        match excused.zip(lost_by_others) {
            Some((excused, others)) if missing + lost > excused + others => Err(format!(
                "{} misses {lost} events that came in datagrams, and {missing} others, and {others} are counted as lost",
                self.name
            )),
            _ => Ok(()),
        }
    }
}
