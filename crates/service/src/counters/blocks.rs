//! Blocks of counters: one for each thread, and the sums over all.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::counters::Counter;

/// One thread's counters. Written by that thread only.
#[derive(Debug)]
pub(crate) struct Block {
    /// Label of the block's lane, if a lane has it.
    lane: AtomicU64,
    values: [AtomicU64; Counter::ALL.len()],
}

/// Flags in [`Block::lane`]: the block is a lane's, and the lane has a CORBA priority. The priority is in the 16 lowest bits, the lane's id
/// in the 16 bits above the flags.
const IS_LANE: u64 = 1 << 17;
const HAS_PRIORITY: u64 = 1 << 16;

impl Block {
    fn new() -> Self {
        Self { lane: AtomicU64::new(0), values: [const { AtomicU64::new(0) }; Counter::ALL.len()] }
    }

    fn value(&self, counter: Counter) -> Option<&AtomicU64> {
        self.values.get(counter as usize)
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter) {
            // Relaxed, and no read-modify-write: this thread alone writes the block, and nothing is published through it.
            value.store(value.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Raises a counter that is a maximum.
    pub(crate) fn raise(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter)
            && value.load(Ordering::Relaxed) < amount
        {
            value.store(amount, Ordering::Relaxed);
        }
    }

    /// Sets a counter that is a level, or that is counted elsewhere.
    pub(crate) fn set(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter) {
            value.store(amount, Ordering::Relaxed);
        }
    }
}

/// All counters of a service.
#[derive(Debug, Clone)]
pub struct Counters {
    blocks: Arc<[Arc<Block>]>,
}

/// Places of the threads' blocks; those of lanes follow.
const MAIN: usize = 0;
const ADMINISTRATION: usize = 1;
const ENDED_LANES: usize = 2;
const RESOLVER: usize = 3;
const STORE: usize = 4;
const OVERFLOW: usize = 5;
const HANDSHAKES: usize = 6;
const HTTP: usize = 7;
const STANDBY: usize = 8;
const FIRST_SLOT: usize = 9;

/// Place of the block of a pool's lane, until the lane ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Counters {
    /// Makes blocks for `lanes_max` lanes beside the main one, and for as many that are about to end.
    pub(crate) fn new(lanes_max: usize) -> Self {
        let counters = Self { blocks: (0..FIRST_SLOT + 2 * lanes_max).map(|_| Arc::new(Block::new())).collect() };
        counters.blocks.first().iter().for_each(|block| block.lane.store(IS_LANE, Ordering::Relaxed));
        counters
    }

    fn block(&self, at: usize) -> Arc<Block> {
        #[expect(clippy::expect_used, reason = "the registry is made with these blocks")]
        Arc::clone(self.blocks.get(at).expect("a block for each thread"))
    }

    /// The block of the main lane, which may have a CORBA priority.
    pub(crate) fn of_main(&self, priority: Option<i16>) -> Arc<Block> {
        let block = self.block(MAIN);
        block.lane.store(label(0, priority), Ordering::Relaxed);
        block
    }

    /// Administration's block.
    pub(crate) fn of_administration(&self) -> Arc<Block> {
        self.block(ADMINISTRATION)
    }

    /// The resolver's block.
    pub(crate) fn of_resolver(&self) -> Arc<Block> {
        self.block(RESOLVER)
    }

    /// The store's block.
    pub(crate) fn of_store(&self) -> Arc<Block> {
        self.block(STORE)
    }

    /// The block of the thread that keeps backlogs.
    pub(crate) fn of_overflow(&self) -> Arc<Block> {
        self.block(OVERFLOW)
    }

    /// The block of the thread that ships to a follower.
    pub(crate) fn of_standby(&self) -> Arc<Block> {
        self.block(STANDBY)
    }

    /// The block of the thread that makes TLS handshakes.
    pub(crate) fn of_handshakes(&self) -> Arc<Block> {
        self.block(HANDSHAKES)
    }

    /// The counters of the thread that serves HTTP, of which there is one at most.
    #[must_use]
    pub fn of_http(&self) -> HttpCounters {
        HttpCounters(self.block(HTTP))
    }

    /// Assigns a block to a new lane. `None` if all are taken.
    pub(crate) fn slot(&self, lane: u16, priority: i16) -> Option<(Slot, Arc<Block>)> {
        let is_free = |block: &Arc<Block>| block.lane.load(Ordering::Relaxed) == 0;
        let at = FIRST_SLOT + self.blocks.get(FIRST_SLOT..)?.iter().position(is_free)?;
        let block = self.block(at);
        block.lane.store(label(lane, Some(priority)), Ordering::Relaxed);
        Some((Slot(at), block))
    }

    /// Releases the block of a lane that has ended with its thread. Its counts stay in the totals.
    pub(crate) fn leave(&self, slot: Slot) {
        let (block, ended) = (self.block(slot.0), self.block(ENDED_LANES));
        for counter in Counter::ALL {
            let amount = block.value(*counter).map_or(0, |value| value.swap(0, Ordering::Relaxed));
            match counter {
                counter if counter.is_level() => {}
                counter if counter.is_maximum() => ended.raise(*counter, amount),
                _ => ended.add(*counter, amount),
            }
        }
        block.lane.store(0, Ordering::Relaxed);
    }

    /// Current value of a counter: the sum over all threads, or their maximum for a maximum.
    #[must_use]
    pub fn read(&self, counter: Counter) -> u64 {
        let values = self.blocks.iter().filter_map(|block| block.value(counter));
        counter.join(values.map(|value| value.load(Ordering::Relaxed)))
    }

    /// Name and current value of every counter.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        Counter::ALL.iter().map(|counter| (counter.name(), self.read(*counter))).collect()
    }

    /// Every exported name and its current value, in the order of [`Counter::exported`].
    #[must_use]
    pub fn exported(&self) -> Vec<(&'static str, u64)> {
        Counter::exported().map(|(name, counter)| (name, self.read(counter))).collect()
    }

    /// Counters of each lane alone, the main one first.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneCounters> {
        let lanes = self.blocks.iter().filter_map(|block| {
            let label = block.lane.load(Ordering::Relaxed);
            let low = |bits: u64| u16::try_from(bits & 0xffff).unwrap_or(0);
            let priority = (label & HAS_PRIORITY != 0).then(|| low(label).cast_signed());
            (label & IS_LANE != 0).then(|| LaneCounters { id: low(label >> 18), priority, block: Arc::clone(block) })
        });
        let mut lanes: Vec<LaneCounters> = lanes.collect();
        lanes.sort_by_key(|lane| lane.id);
        lanes
    }
}

/// Counters of the thread that serves HTTP.
#[derive(Debug, Clone)]
pub struct HttpCounters(Arc<Block>);

impl From<HttpCounters> for Arc<Block> {
    fn from(counters: HttpCounters) -> Self {
        counters.0
    }
}

impl HttpCounters {
    /// Adds to a counter.
    pub fn add(&self, counter: Counter, amount: u64) {
        self.0.add(counter, amount);
    }

    /// Sets a counter that is a level.
    pub fn set(&self, counter: Counter, amount: u64) {
        self.0.set(counter, amount);
    }
}

fn label(lane: u16, priority: Option<i16>) -> u64 {
    let priority = priority.map_or(0, |priority| HAS_PRIORITY | u64::from(priority.cast_unsigned()));
    IS_LANE | priority | u64::from(lane) << 18
}

/// Counters of one lane.
#[derive(Debug, Clone)]
pub struct LaneCounters {
    id: u16,
    priority: Option<i16>,
    block: Arc<Block>,
}

impl LaneCounters {
    /// The lane's number; 0 is the main lane.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// The lane's CORBA priority, if it has one.
    #[must_use]
    pub const fn priority(&self) -> Option<i16> {
        self.priority
    }

    /// Name of the lane's thread.
    #[must_use]
    pub fn name(&self) -> String {
        lane_name(self.id, self.priority)
    }

    /// Current value of a counter; 0 for those that lanes do not count.
    #[must_use]
    pub fn read(&self, counter: Counter) -> u64 {
        self.block.value(counter).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Every exported name with a value that is not 0.
    #[must_use]
    pub fn exported(&self) -> Vec<(&'static str, u64)> {
        let all = Counter::exported().map(|(name, counter)| (name, self.read(counter)));
        all.filter(|(_, value)| *value > 0).collect()
    }
}

/// Name of a lane's thread: `lane` for the main one, `lane-3-p100` for one of a pool.
pub(crate) fn lane_name(id: u16, priority: Option<i16>) -> String {
    match (id, priority) {
        (0, _) => "lane".to_owned(),
        (id, Some(priority)) => format!("lane-{id}-p{priority}"),
        (id, None) => format!("lane-{id}"),
    }
}

#[cfg(test)]
mod tests {
    use accounts::{Resource, Spent, SpentBy};

    use super::*;

    #[test]
    fn readers_see_the_sum_of_all_threads_and_the_greatest_maximum() {
        let counters = Counters::new(2);
        counters.of_main(None).add(Counter::EventsIn, 3);
        counters.of_administration().add(Counter::EventsIn, 4);
        counters.of_administration().raise(Counter::CycleMax, 9);
        counters.of_main(None).raise(Counter::CycleMax, 7);
        counters.of_administration().set(Counter::EventsQueuedMax, 2);
        counters.of_main(None).set(Counter::EventsQueuedMax, 3);
        assert_eq!(counters.read(Counter::EventsIn), 7);
        assert!(counters.snapshot().contains(&("lane_cycle_max_ns", 9)));
        assert_eq!(counters.read(Counter::EventsQueuedMax), 3, "of two lanes, not of both together");
    }

    #[test]
    fn what_a_lane_counted_stays_in_the_totals_when_it_has_ended() {
        let counters = Counters::new(1);
        let (slot, block) = counters.slot(5, 100).unwrap();
        block.add(Counter::EventsIn, 3);
        block.raise(Counter::CycleMax, 9);
        block.set(Counter::ConnectionsOpen, 2);
        assert!(counters.slot(7, 100).is_some_and(|(other, _)| other != slot));
        assert!(counters.slot(6, 100).is_none());
        counters.leave(slot);
        let totals = [Counter::EventsIn, Counter::CycleMax, Counter::ConnectionsOpen];
        assert_eq!(totals.map(|counter| counters.read(counter)), [3, 9, 0]);
        let (_, block) = counters.slot(6, 100).unwrap();
        block.add(Counter::EventsIn, 1);
        assert_eq!(counters.read(Counter::EventsIn), 4);
        let of_lanes: Vec<_> = counters.lanes().iter().map(|lane| (lane.name(), lane.exported())).collect();
        let named = |name: &str| name.to_owned();
        let expected = [
            (named("lane"), vec![]),
            (named("lane-6-p100"), vec![("lane_events_in", 1)]),
            (named("lane-7-p100"), vec![]),
        ];
        assert_eq!(of_lanes, expected);
    }

    #[test]
    fn lanes_are_called_by_number_and_priority() {
        let counters = Counters::new(3);
        counters.of_main(Some(7));
        counters.slot(3, 32_767);
        counters.slot(2, 0);
        let lanes = counters.lanes();
        let told: Vec<_> = lanes.iter().map(|lane| (lane.id(), lane.priority(), lane.name())).collect();
        let named = |name: &str| name.to_owned();
        assert_eq!(
            told,
            [(0, Some(7), named("lane")), (2, Some(0), named("lane-2-p0")), (3, Some(32_767), named("lane-3-p32767"))]
        );
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Counter::exported().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Counters were renamed into the field's words, and dashboards that ask for the former names would have been empty.
    #[test]
    fn a_renamed_counter_is_exported_under_both_names_with_one_value() {
        let counters = Counters::new(1);
        counters.of_main(None).add(Counter::EventsQueued, 3);
        let exported = counters.exported();
        assert!(exported.contains(&("lane_events_queued", 3)) && exported.contains(&("lane_turns_waited", 3)));
        assert_eq!(exported.iter().map(|(name, _)| *name).take(Counter::ALL.len()).collect::<Vec<_>>(), {
            counters.snapshot().iter().map(|(name, _)| *name).collect::<Vec<_>>()
        });
        assert_eq!(counters.lanes()[0].exported(), [("lane_events_queued", 3), ("lane_turns_waited", 3)]);
        assert_eq!(Counter::named("lane_turns_waited"), Some(Counter::EventsQueued));
        assert_eq!(Counter::named("lane_events_queued"), Some(Counter::EventsQueued));
        assert_eq!((Counter::named("turns"), Counter::EventsIn.former_name()), (None, None));
        let handbook = include_str!("../../../../docs/operating-reference.md");
        for counter in Counter::ALL {
            let Some(former) = counter.former_name() else { continue };
            let row = format!("\n| `{former}` | `{}` |\n", counter.name());
            assert!(handbook.contains(&row), "docs/operating-reference.md has no row for {former}");
        }
    }

    #[test]
    fn what_is_refused_is_counted_under_the_name_of_what_was_asked_for() {
        let names = [
            (Resource::Connections, "connections_limit_reached", "connections_quota_reached"),
            (Resource::Outgoing, "outgoing_limit_reached", "outgoing_quota_reached"),
            (Resource::IncompleteBytes, "incomplete_bytes_limit_reached", "incomplete_bytes_quota_reached"),
            (Resource::ReplyBytes, "reply_bytes_limit_reached", "reply_bytes_quota_reached"),
            (Resource::RequestBytes, "request_bytes_limit_reached", "request_bytes_quota_reached"),
            (Resource::RetainedBytes, "retained_bytes_limit_reached", "retained_bytes_quota_reached"),
            (Resource::Channels, "channels_limit_reached", "channels_quota_reached"),
            (Resource::Proxies, "proxies_limit_reached", "proxies_quota_reached"),
            (Resource::EventTypes, "event_types_limit_reached", "event_types_quota_reached"),
            (Resource::Threads, "threads_limit_reached", "threads_quota_reached"),
            (Resource::Lookups, "lookups_limit_reached", "lookups_quota_reached"),
            (Resource::LookupThreads, "lookup_threads_limit_reached", "lookup_threads_quota_reached"),
            (Resource::Handshakes, "handshakes_limit_reached", "handshakes_quota_reached"),
            (Resource::HttpConnections, "http_connections_limit_reached", "http_connections_quota_reached"),
            (Resource::Announced, "announced_limit_reached", "announced_quota_reached"),
            (Resource::InputBytes, "input_bytes_limit_reached", "input_bytes_quota_reached"),
            (Resource::Analyses, "analyses_limit_reached", "analyses_quota_reached"),
            (Resource::Registrations, "registrations_limit_reached", "registrations_quota_reached"),
        ];
        assert_eq!(names.map(|(resource, ..)| resource), Resource::ALL);
        for (resource, of_limit, of_quota) in names {
            let counted = |by| Counter::of_refusal(Spent { resource, by }).name();
            assert_eq!([counted(SpentBy::All), counted(SpentBy::Client)], [of_limit, of_quota]);
        }
    }
}
