//! Events, and the pool that reuses their memory.
//!
//! An [`Event`] is filled once, as a [`PendingEvent`] that is not shared, and is immutable from then on: every outbox
//! and every delivery shares it. When the last holder releases it, its memory goes back to the [`EventPool`], so that
//! in the steady state no event allocates.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::{Away, Form, Hops, Origin, OutputForm, ProxyId, ProxyKey, Reliability, Time, TypeId};

/// Memory budget that an event is charged beside its bytes and its holders: its fields, its slot among the lane's
/// events and the allocator's rounding.
pub const EVENT_OVERHEAD_BYTES: u64 = 320;

/// Additional memory budget that an event [watched](Event::watch_each) per consumer is charged: the record of the
/// consumers that have yet to confirm it.
pub const WATCH_OVERHEAD_BYTES: u64 = 96;

/// Additional memory budget that an event with an [origin](Event::origin) is charged.
pub const ORIGIN_OVERHEAD_BYTES: u64 = 144;

/// Memory budget that an event is charged per destination consumer: its slot in that consumer's outbox.
pub const HOLDER_OVERHEAD_BYTES: u64 = 32;

/// [`HOLDER_OVERHEAD_BYTES`] of an event with a `Timeout`, `StartTime` or `StopTime`, or in a channel with a consumer
/// that has a `Timeout` or orders or discards by priority or deadline: such outboxes need more memory per event.
pub const SORTED_OVERHEAD_BYTES: u64 = 128;

/// [`HOLDER_OVERHEAD_BYTES`] of a consumer with a [correlation](crate::Hierarchy::set_correlation): also the event's place in a set, which
/// may wait for a `StartTime`.
pub const CORRELATED_OVERHEAD_BYTES: u64 = 320;

/// An event: its bytes as they arrived, and the fields that were read from them once.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The form of `bytes`.
    pub form: Form,
    /// The protocol's own note about `bytes`, for instance their encoding.
    pub tag: u64,
    /// The event as it arrived.
    pub bytes: Vec<u8>,
    /// Translations of the event that consumers need: one for each [`OutputForm`], shared by all consumers of that form.
    pub alternates: Alternates,
    /// Priority in the event's header, -32,767..=32,767. The protocol sets this and the next four before it hands the
    /// event in.
    pub priority: Option<i16>,
    /// Priority of the supplier's thread, 0..=32,767 (`RTCorbaPriority`). Under the [model](crate::PriorityModel)
    /// `ClientPropagated` it chooses the lane, before any other priority. It is passed on to the consumers with the
    /// event.
    pub thread_priority: Option<i16>,
    /// Lifetime from the event's arrival, as its header says (`Timeout`).
    pub timeout: Option<Duration>,
    /// Earliest time of delivery, as the header says (`StartTime`).
    pub start: Option<Time>,
    /// Latest time of expiry, as the header says (`StopTime`).
    pub stop: Option<Time>,
    /// The event's type. [`Lane::classify`](crate::Lane::classify) sets it.
    pub event_type: TypeId,
    /// Whether the event keeps the names of its type although the type has a number, for filters that read them. The
    /// protocol sets it before the event is [classified](crate::Lane::classify). Default false.
    pub keeps_names: bool,
    /// Whether the filters on the supplier's side have let the event pass after
    /// [`Admission::AwaitingFilter`](crate::Admission::AwaitingFilter), so that they are not evaluated again. Default false.
    pub approved: bool,
    /// Number under which the event's [completion](crate::Completion) is reported. Only the caller that hands the
    /// event in interprets it; it is passed on to other lanes. Default none: no report.
    pub watch: Option<NonZeroU64>,
    /// Of a watched event: whether each consumer's completion is reported too, not only that of all together. Default false.
    pub watch_each: bool,
    /// Whether the event outlives the process, as its header says (`EventReliability`). `None`, the default: the supplier's setting.
    pub reliability: Option<Reliability>,
    /// Of an event that was [restored](crate::Lane::restore_event): its remaining consumers, by rising id; no other
    /// gets it. `None`, the default: all that subscribe to it. Events with the same consumers share the list.
    pub only: Option<Arc<[ProxyId]>>,
    /// Time of admission. The lane sets it, except for an event that is [returned](crate::Lane::return_event) or
    /// [restored](crate::Lane::restore_event).
    pub arrived: Time,
    /// Milliseconds by which the event is older than `arrived`. Zero unless it was admitted before the lane's clock
    /// began; `arrived` is 0 then. Saturates at seven weeks.
    pub older_by_ms: u32,
    /// The supplier's proxy. The lane sets it.
    pub source: ProxyKey,
    /// Serial number among the lane's admitted events, from 0. The lane sets it.
    pub serial: u64,
    /// Domain and name of the type, in that order, if the type could not be interned, if the event keeps its names, or
    /// if it goes to other lanes, which number types differently; empty otherwise.
    pub(crate) names: Vec<u8>,
    pub(crate) domain_bytes: u32,
    /// Of an event that goes to other lanes: the priority and the timeout that its supplier's settings give it if it has none itself.
    pub(crate) supplied_priority: i16,
    pub(crate) supplied_timeout: Option<Duration>,
    /// The event's slot among the lane's events, the slot of the source's channel on the lane, the bytes charged to
    /// that channel's budget, and, once it is admitted, its weight.
    pub(crate) place: EventAt,
    pub(crate) channel_slot: u32,
    pub(crate) charged_bytes: u64,
    pub(crate) weight_bytes: u64,
    /// Whether another lane handed the event over to the lane that charged it.
    pub(crate) taken_over: bool,
    /// Number in the channel's history, if the channel stores one.
    pub(crate) number: Option<NonZeroU64>,
    /// Fields that few events need. The box stays when the event's memory is reused.
    pub(crate) rare: Option<Box<Rare>>,
    /// Whether the event was stored elsewhere before: its completion for all consumers is reported already.
    pub(crate) returned: bool,
    /// Whether a lane of an earlier process accepted the event: limits do not apply to it, on whichever lane.
    pub(crate) restored: bool,
}

/// Fields that few events need; all other events spend one word on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    /// Consumers for which the event is stored elsewhere instead of in their outboxes.
    pub(crate) away: Vec<Away>,
    origin: Option<Origin>,
}

/// Slot of an event among those of its lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EventAt(pub(crate) u32);

/// Size of one such slot, in bytes.
pub(crate) const PLACE_BYTES: usize = 32;

// The overhead that is charged must cover the overhead there is: the fields and the two reference counts.
const _: () = assert!((size_of::<Event>() + 2 * size_of::<usize>() + PLACE_BYTES) as u64 <= EVENT_OVERHEAD_BYTES);
const _: () = assert!((size_of::<Rare>() + size_of::<usize>()) as u64 <= ORIGIN_OVERHEAD_BYTES);

impl Event {
    /// The event's weight in a backlog: its bytes in every translation, the names of its type where it needs them, and
    /// [`EVENT_OVERHEAD_BYTES`].
    #[must_use]
    pub fn weight(&self) -> u64 {
        let watched = if self.watch_each { WATCH_OVERHEAD_BYTES } else { 0 };
        let origin = self.origin().map_or(0, |_| ORIGIN_OVERHEAD_BYTES);
        self.content_bytes() + EVENT_OVERHEAD_BYTES + watched + origin
    }

    /// The event's origin. `None` if no service on its way numbers events.
    #[must_use]
    #[inline]
    pub fn origin(&self) -> Option<&Origin> {
        self.rare.as_ref()?.origin.as_ref()
    }

    /// Sets the origin: the `service` that admitted the event first, that service's `era`, the event's `number` there,
    /// and the services passed since, of which the first [`Origin::HOPS_MAX`] count.
    pub fn set_origin(&mut self, service: u64, era: u64, number: u64, hops: &[u64]) {
        let hops = Hops::new(hops.iter().copied());
        self.rare.get_or_insert_default().origin = Some(Origin { service, era, number, hops });
    }

    /// Copies the origin of another event.
    pub(crate) fn copy_origin(&mut self, event: &Self) {
        if let Some(origin) = event.origin() {
            self.rare.get_or_insert_default().origin = Some(*origin);
        }
    }

    /// Priority and timeout from the supplier's settings, which count where the header says none: of an event that was
    /// [completed](crate::Lane::complete_event).
    #[must_use]
    pub fn supplied(&self) -> (i16, Option<Duration>) {
        (self.supplied_priority, self.supplied_timeout)
    }

    /// Sets the priority and timeout from the supplier's settings, before the event is [restored](crate::Lane::restore_event).
    pub fn set_supplied(&mut self, priority: i16, timeout: Option<Duration>) {
        (self.supplied_priority, self.supplied_timeout) = (priority, timeout);
    }

    /// Remainder of `lifetime` at [arrival](Self::arrived).
    #[must_use]
    pub fn left_of(&self, lifetime: Duration) -> Duration {
        lifetime.saturating_sub(Duration::from_millis(self.older_by_ms.into()))
    }

    /// Domain and name of the type, if the event carries them: because it [keeps them](Self::keeps_names) or was
    /// [completed](crate::Lane::complete_event).
    #[must_use]
    pub fn names(&self) -> (&[u8], &[u8]) {
        self.names.split_at_checked(self.domain_bytes as usize).unwrap_or_default()
    }

    /// Consumers for which the event is stored [elsewhere](crate::Overflow) instead of in their outboxes.
    #[must_use]
    pub fn away(&self) -> &[Away] {
        self.rare.as_ref().map_or(&[], |rare| &rare.away)
    }

    /// Number in the channel's history, if the channel [stores one](crate::HistoryLimits).
    #[must_use]
    pub fn number(&self) -> Option<NonZeroU64> {
        self.number
    }

    /// Sets the names of the type, for an event that no lane has [classified](crate::Lane::classify).
    pub fn set_names(&mut self, domain: &[u8], name: &[u8]) {
        self.names.clear();
        self.names.extend_from_slice(domain);
        self.names.extend_from_slice(name);
        // Messages are far smaller than 2^32 bytes.
        self.domain_bytes = u32::try_from(domain.len()).unwrap_or(0);
    }

    fn content_bytes(&self) -> u64 {
        let alternates: usize = self.alternates.iter().map(|alternate| alternate.bytes.len()).sum();
        (self.bytes.len() + alternates + self.names.len()) as u64
    }

    fn capacity_bytes(&self) -> usize {
        let alternates: usize = self.alternates.all.iter().map(|alternate| alternate.bytes.capacity()).sum();
        self.bytes.capacity() + alternates + self.names.capacity()
    }

    fn clear(&mut self) {
        self.form = Form::default();
        self.tag = 0;
        self.bytes.clear();
        self.alternates.clear();
        (self.priority, self.thread_priority) = (None, None);
        (self.timeout, self.start, self.stop) = (None, None, None);
        self.event_type = TypeId::OTHER;
        (self.keeps_names, self.approved) = (false, false);
        self.reliability = None;
        self.only = None;
        if let Some(rare) = &mut self.rare {
            rare.away.clear();
            rare.origin = None;
        }
        (self.returned, self.restored) = (false, false);
        (self.arrived, self.older_by_ms) = (Time(0), 0);
        self.number = None;
        (self.watch, self.watch_each) = (None, false);
        self.names.clear();
        self.charged_bytes = 0;
    }

    /// Releases buffers that are much too large for an event of this weight. A small event that waits for a slow
    /// consumer in a buffer that once had a large one would take memory that no budget sees.
    pub(crate) fn trim(&mut self, weight: u64) {
        const SLACK_BYTES: u64 = 256;
        if self.capacity_bytes() as u64 > 4 * weight.saturating_sub(EVENT_OVERHEAD_BYTES) + SLACK_BYTES {
            self.bytes.shrink_to_fit();
            self.names.shrink_to_fit();
            self.alternates.trim();
        }
    }
}

/// A translation of an event.
#[derive(Clone, Debug, Default)]
pub struct Alternate {
    /// Output form that this translation is for.
    pub output_form: OutputForm,
    /// The protocol's own note about `bytes`, for instance their encoding.
    pub tag: u64,
    /// The translated event.
    pub bytes: Vec<u8>,
    /// Place of the event's number in `bytes`, if the form includes it ([`OutputForm::marks_numbers`]).
    pub number_at: Option<NumberPlace>,
}

/// Place of the number in an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberPlace {
    /// Offset, in octets.
    pub offset: u32,
    /// Encoding of the number.
    pub form: NumberForm,
}

/// Encoding of an event's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberForm {
    /// Eight octets, most significant first.
    BigEndian,
    /// Eight octets, least significant first.
    LittleEndian,
    /// [`NumberPlace::DIGITS`] characters: decimal digits, padded with spaces on the left.
    Digits,
}

impl NumberPlace {
    /// Width of the decimal form in characters: the digits of the largest number.
    pub const DIGITS: usize = 20;

    /// Writes a number at this place, if `bytes` is long enough.
    pub(crate) fn write(self, bytes: &mut [u8], number: u64) {
        let Some(from) = bytes.get_mut(self.offset as usize..) else { return };
        let eight = match self.form {
            NumberForm::BigEndian => number.to_be_bytes(),
            NumberForm::LittleEndian => number.to_le_bytes(),
            NumberForm::Digits => {
                let mut rest = number;
                for digit in from.iter_mut().take(Self::DIGITS).rev() {
                    let last = u8::try_from(rest % 10).unwrap_or(0);
                    *digit = if rest == 0 && number != 0 { b' ' } else { b'0' + last };
                    rest /= 10;
                }
                return;
            }
        };
        if let Some(octets) = from.first_chunk_mut() {
            *octets = eight;
        }
    }
}

/// Translations of an event. Cleared ones are reused with their buffers.
#[derive(Clone, Debug, Default)]
pub struct Alternates {
    all: Vec<Alternate>,
    used: usize,
}

impl Alternates {
    /// Adds an empty translation for `output_form`, for the caller to fill.
    pub fn push(&mut self, output_form: OutputForm) -> &mut Alternate {
        if self.used == self.all.len() {
            self.all.push(Alternate::default());
        }
        let at = self.used.min(self.all.len().saturating_sub(1));
        self.used += 1;
        #[expect(clippy::indexing_slicing, reason = "a place was made above if there was none")]
        let alternate = &mut self.all[at];
        alternate.output_form = output_form;
        (alternate.tag, alternate.number_at) = (0, None);
        alternate.bytes.clear();
        alternate
    }

    /// Removes the last translation, for instance because it failed half-way.
    pub fn pop(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Alternate> {
        self.all.iter_mut().take(self.used)
    }

    /// The translation for `output_form`, if there is one.
    #[must_use]
    pub fn find(&self, output_form: OutputForm) -> Option<&Alternate> {
        self.get(self.position(output_form)?)
    }

    /// Index of the translation for `output_form`, if there is one; else of the one that differs only in [whether
    /// repeats are marked](OutputForm::marks_repeats), which can be set while the event waits.
    #[must_use]
    pub fn position(&self, output_form: OutputForm) -> Option<usize> {
        let at = |output_form: OutputForm| self.iter().position(|alternate| alternate.output_form == output_form);
        let other = output_form.marking_repeats(!output_form.marks_repeats());
        at(output_form).or_else(|| at(other)).or_else(|| at(output_form.marking_numbers(false)))
    }

    fn clear(&mut self) {
        self.used = 0;
    }

    fn trim(&mut self) {
        self.all.truncate(self.used);
        self.all.iter_mut().for_each(|alternate| alternate.bytes.shrink_to_fit());
    }
}

impl Deref for Alternates {
    type Target = [Alternate];

    fn deref(&self) -> &[Alternate] {
        self.all.get(..self.used).unwrap_or_default()
    }
}

/// An event that its maker still fills and alone owns, to be handed to
/// [`Lane::handle_event`](crate::Lane::handle_event) or given back by
/// [`Lane::abandon_event`](crate::Lane::abandon_event). (One that is merely dropped costs its buffers, nothing else.)
#[derive(Debug, Default)]
pub struct PendingEvent(Arc<Event>);

/// Equal only if both are the same allocation.
impl PartialEq for PendingEvent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PendingEvent {}

impl PendingEvent {
    pub(crate) fn into_event(self) -> Arc<Event> {
        self.0
    }
}

impl Deref for PendingEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.0
    }
}

impl DerefMut for PendingEvent {
    fn deref_mut(&mut self) -> &mut Event {
        // A pending event is not shared, so this never copies.
        Arc::make_mut(&mut self.0)
    }
}

/// Pool of events and buffers for reuse, on shelves by size, so that an event gets a buffer that fits it: neither one
/// that must grow nor one many times too large.
///
/// It stores at most 8,192 events and 32 MiB, and no buffer above 4 MiB; what is beyond goes back to the allocator.
#[derive(Debug)]
pub struct EventPool {
    /// Shelf `n` has buffers of at least `64 << n` bytes and less than twice that.
    shelves: [Vec<PendingEvent>; Self::SHELVES],
    spare_events: usize,
    spare_bytes: usize,
    last_shelf: usize,
}

impl EventPool {
    const SHELVES: usize = 17;
    const SMALLEST_BYTES: usize = 64;
    const LARGEST_BYTES: usize = Self::SMALLEST_BYTES << (Self::SHELVES - 1);
    const SPARE_EVENTS_MAX: usize = 8_192;
    const SPARE_BYTES_MAX: usize = 32 << 20;

    /// An empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self { shelves: [const { Vec::new() }; Self::SHELVES], spare_events: 0, spare_bytes: 0, last_shelf: 0 }
    }

    /// An empty pending event, with the buffer returned last if there is one.
    #[must_use]
    pub fn take(&mut self) -> PendingEvent {
        self.take_from(self.last_shelf).unwrap_or_default()
    }

    /// An empty pending event with room for `bytes` bytes.
    #[must_use]
    pub fn take_for(&mut self, bytes: usize) -> PendingEvent {
        let fitting = bytes.max(Self::SMALLEST_BYTES).checked_next_power_of_two().unwrap_or(bytes);
        let spare = if fitting <= Self::LARGEST_BYTES { self.take_from(shelf_of(fitting)) } else { None };
        spare.unwrap_or_else(|| {
            let room = if fitting <= Self::LARGEST_BYTES { fitting } else { bytes };
            let mut pending_event = PendingEvent::default();
            pending_event.bytes.reserve_exact(room);
            pending_event
        })
    }

    /// Stores the memory of an event without other holders for reuse. `event` is released in any case.
    pub fn give_back(&mut self, event: Arc<Event>) {
        let mut pending_event = PendingEvent(event);
        let Some(event) = Arc::get_mut(&mut pending_event.0) else { return };
        event.clear();
        let (buffer, all) = (event.bytes.capacity(), event.capacity_bytes());
        if buffer > Self::LARGEST_BYTES
            || self.spare_events >= Self::SPARE_EVENTS_MAX
            || self.spare_bytes + all > Self::SPARE_BYTES_MAX
        {
            return;
        }
        let at = shelf_of(buffer);
        if let Some(shelf) = self.shelves.get_mut(at) {
            shelf.push(pending_event);
            self.spare_events += 1;
            self.spare_bytes += all;
            self.last_shelf = at;
        }
    }

    /// Total size of the pooled buffers, in bytes.
    #[must_use]
    pub fn spare_bytes(&self) -> usize {
        self.spare_bytes
    }

    fn take_from(&mut self, shelf: usize) -> Option<PendingEvent> {
        let pending_event = self.shelves.get_mut(shelf)?.pop()?;
        self.spare_events -= 1;
        self.spare_bytes -= pending_event.capacity_bytes();
        Some(pending_event)
    }
}

impl Default for EventPool {
    fn default() -> Self {
        Self::new()
    }
}

/// The shelf for a buffer of `capacity` bytes; the lowest also takes buffers below its minimum.
fn shelf_of(capacity: usize) -> usize {
    let power = capacity.max(EventPool::SMALLEST_BYTES).ilog2() - EventPool::SMALLEST_BYTES.ilog2();
    power as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_buffer_goes_round() {
        let mut pool = EventPool::new();
        let mut pending_event = pool.take_for(100);
        pending_event.bytes.extend_from_slice(&[7; 100]);
        let buffer = pending_event.bytes.as_ptr();
        pool.give_back(pending_event.into_event());
        let again = pool.take_for(128);
        assert_eq!(again.bytes.as_ptr(), buffer);
        assert!(again.bytes.is_empty());
    }

    #[test]
    fn an_origin_goes_with_its_event_and_its_memory_goes_round() {
        let mut pool = EventPool::new();
        let mut pending_event = pool.take();
        let weight = pending_event.weight();
        pending_event.set_origin(1, 2, 3, &[4, 5]);
        assert_eq!(pending_event.origin(), Some(&Origin { service: 1, era: 2, number: 3, hops: Hops::new([4, 5]) }));
        assert_eq!(pending_event.weight(), weight + ORIGIN_OVERHEAD_BYTES);
        let place = core::ptr::from_ref(pending_event.origin().unwrap());
        pool.give_back(pending_event.into_event());
        let mut again = pool.take();
        assert_eq!((again.origin(), again.weight()), (None, weight));
        again.set_origin(6, 7, 8, &[]);
        assert_eq!(again.origin().map(|origin| (core::ptr::from_ref(origin), origin.hops.len())), Some((place, 0)));
    }

    #[test]
    fn a_small_event_does_not_take_a_large_buffer() {
        let mut pool = EventPool::new();
        let large = pool.take_for(1 << 20);
        pool.give_back(large.into_event());
        assert!(pool.take_for(100).bytes.capacity() < 256);
        assert!(pool.take_for(1 << 20).bytes.capacity() >= 1 << 20);
    }

    #[test]
    fn keeps_no_more_than_its_bound() {
        let mut pool = EventPool::new();
        let pending_events: Vec<PendingEvent> = (0..20).map(|_| pool.take_for(4 << 20)).collect();
        for pending_event in pending_events {
            pool.give_back(pending_event.into_event());
        }
        assert_eq!(pool.spare_bytes(), 32 << 20);
        let huge = pool.take_for(5 << 20);
        pool.give_back(huge.into_event());
        assert_eq!(pool.spare_bytes(), 32 << 20);
    }

    #[test]
    fn an_event_that_is_still_in_use_is_not_reused() {
        let mut pool = EventPool::new();
        let event = pool.take_for(10).into_event();
        let holder = Arc::clone(&event);
        pool.give_back(event);
        assert_eq!(pool.spare_events, 0);
        drop(holder);
    }

    #[test]
    fn trimming_leaves_a_buffer_that_fits() {
        let mut event = Event { bytes: Vec::with_capacity(1 << 20), ..Event::default() };
        event.bytes.extend_from_slice(&[1; 100]);
        event.trim(event.weight());
        assert_eq!((event.bytes.capacity(), &event.bytes), (100, &vec![1; 100]));
    }

    #[test]
    fn alternates_keep_their_buffers() {
        let mut alternates = Alternates::default();
        alternates.push(OutputForm(3)).bytes.extend_from_slice(b"translated");
        let buffer = alternates.find(OutputForm(3)).unwrap().bytes.as_ptr();
        alternates.clear();
        assert!(alternates.find(OutputForm(3)).is_none() && alternates.is_empty());
        assert_eq!(alternates.push(OutputForm(4)).bytes.as_ptr(), buffer);
        alternates.pop();
        assert!(alternates.is_empty());
    }

    #[test]
    fn whether_repeats_are_marked_decides_between_translations_and_is_not_missed_where_there_is_one() {
        let mut alternates = Alternates::default();
        let marked = OutputForm(3).marking_repeats(true);
        assert!(
            marked.marks_repeats() && !OutputForm(3).marks_repeats() && marked.marking_repeats(false) == OutputForm(3)
        );
        alternates.push(OutputForm(3));
        assert_eq!(
            [OutputForm(3), marked, OutputForm(4)].map(|output_form| alternates.position(output_form)),
            [Some(0), Some(0), None]
        );
        alternates.push(marked);
        assert_eq!([OutputForm(3), marked].map(|output_form| alternates.position(output_form)), [Some(0), Some(1)]);
    }
}
