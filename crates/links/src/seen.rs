//! The events that a channel has admitted, so that none is admitted twice, whatever its path and session.

use alloc::collections::{BTreeMap, VecDeque};

use crate::Origin;

/// The state of an event in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event is new to the channel.
    Fresh,
    /// The channel has admitted the event.
    Repeat,
    /// The event is being admitted: it is being written to disk, for instance.
    InFlight,
    /// The event is older than the numbers remembered of its origin: most likely a repeat. The caller counts it apart.
    Stale,
}

/// Counts of what was forgotten because a limit was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Gaps below a low mark that was raised: their numbers are [`Verdict::Stale`] from then on.
    pub gaps: u64,
    /// Eras forgotten in favour of newer ones of the service: their events would be admitted a second time.
    pub eras: u64,
    /// Services forgotten in favour of others: their events would be admitted a second time.
    pub services: u64,
}

/// The numbers of each origin that one channel has admitted.
///
/// Each era of each service has a low mark, at and below which no number is fresh, and the ranges of numbers above it. Numbers may have
/// gaps, since filters and other channels take some, and arrive in any order, since priorities and paths differ.
///
/// Limits: [`Self::RANGES_MAX`] ranges of an era, of any length; [`Self::ALL_RANGES_MAX`] of all eras; [`Self::ERAS_MAX`] eras of a
/// service; [`Self::SERVICES_MAX`] services. The least recently used is forgotten and counted ([`Forgotten`]), except events in flight,
/// which the callers bound.
#[derive(Debug, Default)]
pub struct Seen {
    services: BTreeMap<u64, Service>,
    ranges: usize,
    /// A counter of uses, to find the least recently used.
    uses: u64,
    forgotten: Forgotten,
}

#[derive(Debug, Default)]
struct Service {
    eras: BTreeMap<u64, Era>,
    used: u64,
}

#[derive(Debug, Default)]
struct Era {
    used: u64,
    /// The low mark: no number at or below it is fresh.
    mark: u64,
    /// All numbers up to this one were admitted.
    contiguous: u64,
    /// First and last number of each range above the mark, ascending, never adjacent.
    ranges: VecDeque<(u64, u64)>,
    /// Numbers in flight, ascending, and abandoned numbers below the mark, which are fresh nevertheless.
    pending: VecDeque<(u64, Pending)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    InFlight,
    Abandoned,
}

impl Seen {
    /// Maximum ranges above the low mark of an era.
    pub const RANGES_MAX: usize = 16_384;
    /// Maximum ranges of all eras of all services: about 2 MiB.
    pub const ALL_RANGES_MAX: usize = 131_072;
    /// Maximum eras of a service.
    pub const ERAS_MAX: usize = 16;
    /// Maximum services.
    pub const SERVICES_MAX: usize = 1_024;
    /// Maximum abandoned numbers of an era below its low mark.
    const ABANDONED_MAX: usize = 1_024;

    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        let forgotten = Forgotten { gaps: 0, eras: 0, services: 0 };
        Self { services: BTreeMap::new(), ranges: 0, uses: 0, forgotten }
    }

    /// The state of an event in the channel.
    #[must_use]
    pub fn check(&self, origin: Origin) -> Verdict {
        self.era(origin.service, origin.era).map_or(Verdict::Fresh, |era| era.check(origin.number))
    }

    /// Notes that the channel begins to admit a fresh event.
    pub fn begin(&mut self, origin: Origin) {
        self.era_mut(origin).set_pending(origin.number, Pending::InFlight);
    }

    /// Notes that an event was admitted, with or without [`Self::begin`].
    pub fn commit(&mut self, origin: Origin) {
        let era = self.era_mut(origin);
        era.take_pending(origin.number);
        let before = era.ranges.len();
        era.add(origin.number);
        let forgets = era.ranges.len() > Self::RANGES_MAX;
        if forgets {
            era.forget_gap();
        }
        let after = era.ranges.len();
        self.ranges = self.ranges + after - before;
        self.forgotten.gaps += u64::from(forgets);
        if self.ranges > Self::ALL_RANGES_MAX {
            self.forget_ranges();
        }
    }

    /// Notes that an event in flight is not admitted after all: it is fresh again.
    pub fn abandon(&mut self, origin: Origin) {
        let era = self.era_mut(origin);
        if era.take_pending(origin.number) && origin.number <= era.mark {
            era.set_pending(origin.number, Pending::Abandoned);
            let forgets = era.bound_abandoned(Self::ABANDONED_MAX);
            self.forgotten.gaps += u64::from(forgets);
        }
    }

    /// Notes an event that the store has from before the process began.
    pub fn restore(&mut self, origin: Origin) {
        self.commit(origin);
    }

    /// Restores the low mark of an era, as [`Self::marks`] returned it before the process began.
    pub fn restore_mark(&mut self, up_to: Origin) {
        let era = self.era_mut(up_to);
        let before = era.ranges.len();
        era.raise_mark(up_to.number);
        let after = era.ranges.len();
        self.ranges = self.ranges + after - before;
    }

    /// The low mark of each era: single numbers at or below it need not be stored any more.
    pub fn marks(&self) -> impl Iterator<Item = Origin> {
        self.services.iter().flat_map(|(service, Service { eras, .. })| {
            eras.iter().map(|(id, era)| Origin { service: *service, era: *id, number: era.mark })
        })
    }

    /// The low mark of one era, 0 if it is unknown.
    #[must_use]
    pub fn mark(&self, service: u64, era: u64) -> u64 {
        self.era(service, era).map_or(0, |era| era.mark)
    }

    /// Counts of what was forgotten.
    #[must_use]
    pub const fn forgotten(&self) -> Forgotten {
        self.forgotten
    }

    fn era(&self, service: u64, era: u64) -> Option<&Era> {
        self.services.get(&service)?.eras.get(&era)
    }

    /// The era of an origin, created if it is new. If there is no room, the least recently used gives way.
    fn era_mut(&mut self, origin: Origin) -> &mut Era {
        self.uses += 1;
        if !self.services.contains_key(&origin.service) && self.services.len() >= Self::SERVICES_MAX {
            self.forget_service();
        }
        let service = self.services.entry(origin.service).or_default();
        service.used = self.uses;
        if service.eras.len() >= Self::ERAS_MAX && !service.eras.contains_key(&origin.era) {
            let idle = service.eras.iter().filter(|(_, era)| !era.is_in_flight());
            let oldest = idle.min_by_key(|(_, era)| era.used).map(|(id, _)| *id);
            if let Some(era) = oldest.and_then(|id| service.eras.remove(&id)) {
                self.ranges -= era.ranges.len();
                self.forgotten.eras += 1;
            }
        }
        let era = service.eras.entry(origin.era).or_default();
        era.used = self.uses;
        era
    }

    fn forget_service(&mut self) {
        let idle = self.services.iter().filter(|(_, service)| !service.eras.values().any(Era::is_in_flight));
        let oldest = idle.min_by_key(|(_, service)| service.used).map(|(id, _)| *id);
        if let Some(service) = oldest.and_then(|id| self.services.remove(&id)) {
            self.ranges -= service.eras.values().map(|era| era.ranges.len()).sum::<usize>();
            self.forgotten.services += 1;
        }
    }

    /// Raises the low mark of the least recently used era above all its ranges.
    fn forget_ranges(&mut self) {
        let eras = self.services.values_mut().flat_map(|service| service.eras.values_mut());
        let oldest = eras.filter(|era| !era.ranges.is_empty()).min_by_key(|era| era.used);
        if let Some(era) = oldest {
            self.ranges -= era.ranges.len();
            self.forgotten.gaps += era.ranges.len() as u64;
            while !era.ranges.is_empty() {
                era.forget_gap();
            }
        }
    }
}

impl Era {
    fn check(&self, number: u64) -> Verdict {
        let pending = self.pending.binary_search_by_key(&number, |(number, _)| *number).ok();
        match pending.and_then(|at| self.pending.get(at)) {
            Some((_, Pending::InFlight)) => Verdict::InFlight,
            Some((_, Pending::Abandoned)) => Verdict::Fresh,
            None if number <= self.contiguous => Verdict::Repeat,
            None if number <= self.mark => Verdict::Stale,
            None => {
                let at = self.ranges.partition_point(|(_, last)| *last < number);
                let is_in_range = self.ranges.get(at).is_some_and(|(first, _)| *first <= number);
                if is_in_range { Verdict::Repeat } else { Verdict::Fresh }
            }
        }
    }

    fn is_in_flight(&self) -> bool {
        self.pending.iter().any(|(_, state)| *state == Pending::InFlight)
    }

    fn set_pending(&mut self, number: u64, state: Pending) {
        match self.pending.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => self.pending.get_mut(at).into_iter().for_each(|each| each.1 = state),
            Err(at) => self.pending.insert(at, (number, state)),
        }
    }

    /// Removes a number, and returns whether it was in flight.
    fn take_pending(&mut self, number: u64) -> bool {
        let found = self.pending.binary_search_by_key(&number, |(number, _)| *number).ok();
        found.and_then(|at| self.pending.remove(at)).is_some_and(|(_, state)| state == Pending::InFlight)
    }

    /// Forgets the lowest abandoned number if there are more than `abandoned_max`. Returns whether it did.
    fn bound_abandoned(&mut self, abandoned_max: usize) -> bool {
        let is_abandoned = |(_, state): &(u64, Pending)| *state == Pending::Abandoned;
        let exceeds = self.pending.iter().copied().filter(is_abandoned).count() > abandoned_max;
        let lowest = self.pending.iter().position(is_abandoned).filter(|_| exceeds);
        lowest.and_then(|at| self.pending.remove(at)).is_some()
    }

    fn add(&mut self, number: u64) {
        if number <= self.mark {
            return;
        }
        let at = self.ranges.partition_point(|(_, last)| *last < number);
        if self.ranges.get(at).is_some_and(|(first, _)| *first <= number) {
            return;
        }
        let follows = at.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|(_, last)| last + 1 == number);
        let precedes = self.ranges.get(at).is_some_and(|(first, _)| first - 1 == number);
        match (follows, precedes) {
            (true, true) => {
                let last = self.ranges.remove(at).map_or(number, |(_, last)| last);
                self.ranges.get_mut(at - 1).into_iter().for_each(|range| range.1 = last);
            }
            (true, false) => self.ranges.get_mut(at - 1).into_iter().for_each(|range| range.1 = number),
            (false, true) => self.ranges.get_mut(at).into_iter().for_each(|range| range.0 = number),
            (false, false) => self.ranges.insert(at, (number, number)),
        }
        self.absorb();
    }

    /// Raises the mark over the ranges that adjoin it.
    fn absorb(&mut self) {
        while let Some((_, last)) = self.ranges.pop_front_if(|(first, _)| *first - 1 <= self.mark) {
            if self.contiguous == self.mark {
                self.contiguous = self.contiguous.max(last);
            }
            self.mark = self.mark.max(last);
        }
    }

    /// Raises the mark to the end of the lowest range.
    fn forget_gap(&mut self) {
        if let Some((_, last)) = self.ranges.pop_front() {
            self.mark = last;
        }
        self.absorb();
    }

    fn raise_mark(&mut self, mark: u64) {
        self.mark = self.mark.max(mark);
        while self.ranges.pop_front_if(|(_, last)| *last <= self.mark).is_some() {}
        self.absorb();
    }
}
