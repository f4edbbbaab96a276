//! Which events a channel has had, so that none comes twice over whatever paths and sessions.

use alloc::collections::{BTreeMap, VecDeque};

use crate::Origin;

/// What a channel knows of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The channel has not had it.
    Fresh,
    /// The channel has had it.
    Repeat,
    /// The channel is about to have it: it is on its way to the disk, for instance.
    InFlight,
    /// It is older than what is remembered of its origin: most likely a repeat. The caller counts it apart.
    Stale,
}

/// How often something was forgotten, since a limit was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Gaps that the low mark of an era was raised over: numbers in them are [`Verdict::Stale`] from then on.
    pub gaps: u64,
    /// Eras of a service that gave way to newer ones: their events would be taken a second time.
    pub eras: u64,
    /// Services that gave way to others: their events would be taken a second time.
    pub services: u64,
}

/// The numbers of origins that one channel has had.
///
/// For each era of each service there is a low mark, at and below which nothing is fresh, and the ranges of numbers above it. Numbers
/// may have gaps, since filters and other channels take some, and come in any order, since priorities and paths differ.
///
/// At most [`Self::RANGES_MAX`] ranges are remembered of an era, whatever their length, and [`Self::ALL_RANGES_MAX`] of all; so many eras
/// of a service and so many services. What was used longest ago is forgotten and counted ([`Forgotten`]), but never what is in flight:
/// callers have bounded that.
#[derive(Debug, Default)]
pub struct Seen {
    services: BTreeMap<u64, Service>,
    ranges: usize,
    /// Counts uses, for what was used longest ago.
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
    /// Nothing is fresh at and below it.
    mark: u64,
    /// All numbers up to this one were seen.
    contiguous: u64,
    /// First and last number of each range above the mark, rising, never adjacent.
    ranges: VecDeque<(u64, u64)>,
    /// Numbers in flight, rising; and those below the mark that were abandoned and are fresh nevertheless.
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
    /// Maximum numbers of an era that were abandoned below the low mark.
    const ABANDONED_MAX: usize = 1_024;

    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        let forgotten = Forgotten { gaps: 0, eras: 0, services: 0 };
        Self { services: BTreeMap::new(), ranges: 0, uses: 0, forgotten }
    }

    /// Whether the channel has had an event.
    #[must_use]
    pub fn check(&self, origin: Origin) -> Verdict {
        self.era(origin.service, origin.era).map_or(Verdict::Fresh, |era| era.check(origin.number))
    }

    /// Notes that a fresh event is about to be admitted.
    pub fn begin(&mut self, origin: Origin) {
        self.era_mut(origin).set_pending(origin.number, Pending::InFlight);
    }

    /// Notes that an event was admitted, whether it was begun or not.
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

    /// Notes that an event that was begun is not admitted after all: it is fresh again.
    pub fn abandon(&mut self, origin: Origin) {
        let era = self.era_mut(origin);
        if era.take_pending(origin.number) && origin.number <= era.mark {
            era.set_pending(origin.number, Pending::Abandoned);
            let forgets = era.bound_abandoned(Self::ABANDONED_MAX);
            self.forgotten.gaps += u64::from(forgets);
        }
    }

    /// Notes an event that the channel had before the process began.
    pub fn restore(&mut self, origin: Origin) {
        self.commit(origin);
    }

    /// Notes that nothing of an era is fresh up to and with a number, as [`Self::marks`] said before the process began.
    pub fn restore_mark(&mut self, up_to: Origin) {
        let era = self.era_mut(up_to);
        let before = era.ranges.len();
        era.raise_mark(up_to.number);
        let after = era.ranges.len();
        self.ranges = self.ranges + after - before;
    }

    /// The low mark of each era: single numbers up to it need not be stored any more.
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

    /// How often something was forgotten.
    #[must_use]
    pub const fn forgotten(&self) -> Forgotten {
        self.forgotten
    }

    fn era(&self, service: u64, era: u64) -> Option<&Era> {
        self.services.get(&service)?.eras.get(&era)
    }

    /// The era, which is made if it is new; another gives way if there is no room.
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

    /// Makes all ranges of the era that was used longest ago its low mark.
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

    /// Whether the number was in flight.
    fn take_pending(&mut self, number: u64) -> bool {
        let found = self.pending.binary_search_by_key(&number, |(number, _)| *number).ok();
        found.and_then(|at| self.pending.remove(at)).is_some_and(|(_, state)| state == Pending::InFlight)
    }

    /// Forgets the lowest number that was abandoned below the mark, if there are too many. Whether it did.
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

    /// Raises the mark over a range that follows it.
    fn absorb(&mut self) {
        while let Some((_, last)) = self.ranges.pop_front_if(|(first, _)| *first - 1 <= self.mark) {
            if self.contiguous == self.mark {
                self.contiguous = self.contiguous.max(last);
            }
            self.mark = self.mark.max(last);
        }
    }

    /// Makes the lowest range the mark.
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
