//! Sets of events: what comes to sinks of one instance, matched by a correlation of the sources that sent it.
//!
//! The language and the matcher are those of consumers' property `When` ([`filter::correlation`]); its names are sources here. Events are
//! taken out of the queues of the sinks in the order in which they were sent, and wait in their sinks until a set is complete, which is then
//! handled, one event after the other. So it makes no difference whether an event came from the same lane or by a service.
//!
//! What is not here: the queues with their bounds and discards ([`crate::queue`]), and which sinks of a plan have sets (`plan/sets.rs`).

use crate::counters::PortCounters;
use crate::instance::AnySink;
use crate::lane::LaneContext;
use crate::port::EventSet;
use crate::queue::{Queued, SinkQueue};
use engine::EventType;
use filter::correlation::{Correlation, CorrelationLimits, Key, Matcher, Offered, Terms};
use filter::{Fields, Steps};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Steps of the search for a set that one event is worth: as in a service.
const STEPS_MAX: u32 = 4_096;

/// How long after its time an event is dropped that found no others: one that was sent before may still be on its way from another lane.
const GRACE: Duration = Duration::from_millis(20);

/// The most events of a set.
const SET_MAX: usize = 16;

/// A correlation of sources.
#[derive(Debug)]
pub(crate) struct SetTerms {
    correlation: Correlation,
    /// Patterns of the sources' names, one for each term.
    sources: Box<[EventType]>,
}

impl SetTerms {
    /// The correlation that a text is.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let correlation =
            Correlation::parse(text, &CorrelationLimits::default()).map_err(|error| format!("{text:?}: {error}"))?;
        if let Some(term) = correlation.terms().iter().find(|term| *term.domain != *"*") {
            let (domain, name) = (&term.domain, &term.name);
            return Err(format!("{text:?}: {domain}/{name} has a slash: name a source, as instance.port"));
        }
        let sources = correlation.terms().iter().map(|term| EventType::new("*", &*term.name)).collect();
        Ok(Self { correlation, sources })
    }

    pub(crate) fn correlation(&self) -> &Correlation {
        &self.correlation
    }

    /// The places of the terms that name a source.
    pub(crate) fn places_of<'t>(&'t self, source: &'t str) -> impl Iterator<Item = usize> + 't {
        let names = |(place, pattern): (usize, &EventType)| pattern.matches(b"", source.as_bytes()).then_some(place);
        self.sources.iter().enumerate().filter_map(names)
    }

    /// The terms that an event of a source matches, and what it is correlated by.
    pub(crate) fn find(&self, source: &str, fields: &dyn Fields, steps: &mut Steps) -> (Terms, Option<Key>) {
        let is_of = |place: usize| self.sources.get(place).is_some_and(|it| it.matches(b"", source.as_bytes()));
        let found = self.correlation.terms_of(|place, _| is_of(place), fields, steps);
        if found.cut || found.terms.is_empty() {
            return (Terms::NONE, None);
        }
        (found.terms, self.correlation.key(fields, steps))
    }
}

/// An event that waits for others: the place of its sink among those of the set, and its slot there.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    sink: usize,
    slot: usize,
}

/// What a sink found out about the event that it took out of its queue.
pub(crate) struct Found {
    pub(crate) terms: Terms,
    pub(crate) key: Option<Key>,
    pub(crate) sent: Instant,
    pub(crate) expires: Option<Instant>,
    pub(crate) slot: usize,
}

/// Reason why an event is in no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It matches no term, or found no others.
    Uncorrelated,
    /// Its own timeout has passed.
    Expired,
}

impl Left {
    fn count(self, counters: &PortCounters) {
        match self {
            Self::Uncorrelated => counters.uncorrelated.count(),
            Self::Expired => counters.expired.count(),
        }
    }
}

/// Events of one sink that were taken out of its queue and are not handled yet.
pub(crate) struct Gathered<T> {
    /// The next one, of which the time alone was looked at.
    next: Option<Queued<T>>,
    waiting: Vec<Option<Queued<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self { next: None, waiting: Vec::new(), free: Vec::new() }
    }
}

impl<T> Gathered<T> {
    /// When the next event was sent.
    pub(crate) fn next_sent(&mut self, queue: &SinkQueue<T>, now: Instant, counters: &PortCounters) -> Option<Instant> {
        // It may have waited for an instance that was passive.
        let is_over = |next: &mut Queued<T>| next.origin().expires.is_some_and(|expires| expires <= now);
        if self.next.take_if(is_over).is_some() {
            counters.expired.count();
        }
        if self.next.is_none() {
            self.next = queue.take(now, counters);
        }
        self.next.as_ref().map(|next| next.origin().sent)
    }

    pub(crate) const fn has_next(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn take_next(&mut self) -> Option<Queued<T>> {
        self.next.take()
    }

    /// Stores an event, and answers its slot.
    pub(crate) fn store(&mut self, event: Queued<T>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        if let Some(place) = self.waiting.get_mut(slot) {
            *place = Some(event);
        }
        slot
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<Queued<T>> {
        let event = self.waiting.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(event)
    }

    pub(crate) fn expires(&self, slot: usize) -> Option<Instant> {
        self.waiting.get(slot)?.as_ref()?.origin().expires
    }
}

/// A sink whose events come in sets.
pub(crate) trait Member {
    /// Has events wait for others from now on. It has a queue.
    fn gather(&self);

    fn is_gathered(&self) -> bool;

    /// When the event was sent that is next.
    fn next_sent(&self) -> Option<Instant>;

    /// Takes that event out of the queue; `None` if the sink's filter does not let it through, or it cannot be read.
    fn take_next(&self, terms: &SetTerms, steps: &mut Steps) -> Option<Found>;

    /// When an event expires that waits.
    fn expires(&self, slot: usize) -> Option<Instant>;

    /// Has an event handled that waits.
    fn handle_waiting(&self, slot: usize, set: EventSet);

    /// Drops an event that waits; what is answered is to be counted.
    fn drop_waiting(&self, slot: usize) -> &PortCounters;
}

/// The sets of some sinks of one instance.
pub(crate) struct EventSets {
    terms: SetTerms,
    sinks: Box<[Rc<dyn AnySink>]>,
    matcher: Matcher<Waiting>,
    /// The beginning of the matcher's time.
    base: Instant,
    /// The earliest time at which a waiting event expires; at times that of one that has left.
    expires: Option<Instant>,
}

impl EventSets {
    /// Of sinks that have queues, and no sets yet.
    pub(crate) fn new(terms: SetTerms, sinks: Vec<Rc<dyn AnySink>>, base: Instant) -> Self {
        sinks.iter().for_each(|sink| sink.gather());
        Self { matcher: Matcher::new(&terms.correlation), terms, sinks: sinks.into(), base, expires: None }
    }

    /// Whether the sinks are of this instance.
    pub(crate) fn is_of(&self, instance: &str) -> bool {
        self.sinks.iter().any(|sink| sink.owner() == instance)
    }

    /// Whether [`serve`](Self::serve) has something to do.
    pub(crate) fn has_queued(&self) -> bool {
        self.sinks.iter().any(|sink| sink.has_queued())
    }

    /// When the event was sent that is next, and the place of its sink.
    fn next(&self) -> Option<(Instant, usize)> {
        let sent = self.sinks.iter().enumerate().filter_map(|(place, sink)| Some((sink.next_sent()?, place)));
        sent.min()
    }

    /// Takes the event that was sent first out of its queue, and has the set handled that it completes; false if there is none.
    pub(crate) fn serve(&mut self, context: &LaneContext) -> bool {
        if !self.has_queued() {
            return false;
        }
        let Some((_, place)) = self.next() else { return false };
        let Some(sink) = self.sinks.get(place).cloned() else { return false };
        self.drop_expired(context.clock.now());
        let mut steps = Steps::new(STEPS_MAX);
        let Some(found) = sink.take_next(&self.terms, &mut steps) else { return true };
        let at_ns = nanoseconds(found.sent.saturating_duration_since(self.base));
        let event = Waiting { sink: place, slot: found.slot };
        let (mut set, mut number) = ([event; SET_MAX], 0);
        let mut size = 0;
        match self.matcher.offer(found.terms, found.key.as_ref(), at_ns, event, &mut steps) {
            Offered::Complete(complete) => {
                (number, size) = (complete.number, complete.events.len());
                set.iter_mut().zip(complete.events).for_each(|(to, from)| *to = *from);
            }
            Offered::Waits | Offered::Cut => {
                self.expires = self.expires.into_iter().chain(found.expires).min();
            }
            Offered::Unmatched(event) | Offered::WithoutKey(event) => {
                drop_waiting(&self.sinks, event, Left::Uncorrelated);
            }
        }
        self.drop_left();
        let size_of_set = u32::try_from(size).unwrap_or(u32::MAX);
        for (index, Waiting { sink, slot }) in (0_u32..).zip(set.into_iter().take(size)) {
            if let Some(sink) = self.sinks.get(sink) {
                sink.handle_waiting(slot, EventSet { number, index, size: size_of_set });
            }
        }
        true
    }

    /// Drops events that found no others in time, and answers when that will be next.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.drop_expired(now);
        // What is in a queue may have been sent in time.
        if self.next().is_some() {
            return self.expires;
        }
        let elapsed = now.saturating_duration_since(self.base).saturating_sub(GRACE);
        self.matcher.expire(nanoseconds(elapsed), usize::MAX);
        self.drop_left();
        let due = |at_ns| self.base.checked_add(Duration::from_nanos(at_ns))?.checked_add(GRACE);
        self.matcher.next_expiry_ns().and_then(due).into_iter().chain(self.expires).min()
    }

    /// Drops events whose own timeouts have passed.
    fn drop_expired(&mut self, now: Instant) {
        let Self { matcher, sinks, expires, .. } = self;
        let mut has_dropped = false;
        while expires.is_some_and(|expires| expires <= now) {
            let (mut looks, mut earliest) = (u32::MAX, None::<Instant>);
            let found = matcher.displace(&mut looks, |event: &Waiting| {
                let expires = sinks.get(event.sink).and_then(|sink| sink.expires(event.slot));
                earliest = earliest.into_iter().chain(expires).min();
                expires.is_some_and(|expires| expires <= now)
            });
            if let Some(event) = found {
                has_dropped = true;
                drop_waiting(sinks, event, Left::Expired);
            } else if !std::mem::take(&mut has_dropped) {
                // Behind one that was found, the look before was not at all of them.
                *expires = earliest;
            }
        }
    }

    fn drop_left(&mut self) {
        while let Some((event, _)) = self.matcher.poll_dropped() {
            drop_waiting(&self.sinks, event, Left::Uncorrelated);
        }
    }
}

fn drop_waiting(sinks: &[Rc<dyn AnySink>], event: Waiting, left: Left) {
    if let Some(sink) = sinks.get(event.sink) {
        left.count(sink.drop_waiting(event.slot));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
