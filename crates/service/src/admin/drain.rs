//! Draining a service before it ends: events that were taken in are delivered, as far as consumers take them in time.
//!
//! Lanes take no more events once they have been asked what is left, but hand events to each other. So nothing deliverable is left when two
//! successive looks at all lanes find nothing, and no event came in between them.

use core::time::Duration;
use std::time::Instant;

use engine::{BlockedBy, ProxyKey, Undelivered, WaitsFor};
use hashbrown::HashMap;

use crate::lane::draining::LookedAt;
use crate::lane::links::messages::LaneThread;

/// Time between two looks at lanes that have something to deliver.
const PAUSE: Duration = Duration::from_millis(10);
/// Time for lanes to report what is left after the limit: far more than they need.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum consumers named in the log at the end. The others are summed up.
const NAMED_MAX: usize = 20;

/// Events that were not delivered when a service ended. All are zero if everything was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undone {
    /// Undelivered events, each counted once for each consumer.
    pub events: u64,
    /// Undelivered events of suspended consumers.
    pub suspended: u64,
    /// Number of consumers with undelivered events.
    pub consumers: u64,
}

impl Undone {
    /// Whether more is lost than the events of suspended consumers, which take nothing until they are resumed.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        self.events > self.suspended
    }
}

/// Next step of a drain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask the lanes what is left.
    Ask,
    /// Wait until this time, or until a lane reports.
    Wait(Instant),
    /// End the lanes.
    End,
}

/// Drain of a service that is about to end.
#[derive(Debug)]
pub(crate) struct Drain {
    until: Instant,
    /// Lanes that have yet to report in this look, and the reports of the others.
    unreported: Vec<LaneThread>,
    look: Look,
    /// Previous look, with the reports of all lanes.
    before: Option<Look>,
    next_look: Option<Instant>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Look {
    lanes: Vec<(LaneThread, u64)>,
    is_busy: bool,
    consumers: HashMap<ProxyKey, (u64, WaitsFor)>,
    /// Events on their way to other lanes, by their channels' consumers there.
    handovers: u64,
}

impl Look {
    fn has_deliverable(&self) -> bool {
        self.is_busy || self.handovers > 0 || self.deliverable().1 > 0
    }

    /// Numbers of events that may still be delivered, and of their consumers.
    fn deliverable(&self) -> (u64, u64) {
        let events = self.consumers.values().filter(|(_, waits_for)| *waits_for == WaitsFor::Consumer);
        events.fold((0, 0), |(sum, count), (events, _)| (sum + events, count + 1))
    }
}

impl Drain {
    /// Begins a drain that takes `limit` at most.
    pub(crate) fn new(now: Instant, limit: Duration) -> Self {
        Self {
            until: now + limit,
            unreported: Vec::new(),
            look: Look::default(),
            before: None,
            next_look: Some(now),
            is_over: false,
        }
    }

    /// The next step. With `hurry` the drain ends as soon as the lanes have reported what is left.
    pub(crate) fn next(&self, now: Instant, hurry: bool) -> Next {
        match self.next_look {
            // A look that has begun is soon over, and says what is left.
            None if self.is_over || now >= self.until + GRACE => Next::End,
            None => Next::Wait(now + PAUSE),
            Some(_) if (hurry || now >= self.until) && self.before.is_some() => Next::End,
            Some(due) if due <= now || hurry => Next::Ask,
            Some(due) => Next::Wait(due.min(self.until)),
        }
    }

    /// Begins a look at these lanes, which are being asked.
    pub(crate) fn begin_look(&mut self, lanes: Vec<LaneThread>) {
        self.unreported = lanes;
        self.look = Look::default();
        self.next_look = None;
    }

    /// Adds a chunk of a lane's report, which is complete with `last`. After the first look, returns the deliverable events and their
    /// consumers.
    pub(crate) fn take_in(
        &mut self,
        from: LaneThread,
        chunk: Vec<Undelivered>,
        last: Option<LookedAt>,
        now: Instant,
    ) -> Option<(u64, u64)> {
        for Undelivered { of, events, waits_for } in chunk {
            match of {
                BlockedBy::Lane(_) => self.look.handovers += events,
                BlockedBy::Consumer(key) => {
                    let (all, why) = self.look.consumers.entry(key).or_insert((0, waits_for));
                    *all += events;
                    if waits_for == WaitsFor::Consumer {
                        *why = waits_for;
                    }
                }
            }
        }
        let LookedAt { is_busy, taken } = last?;
        self.look.is_busy |= is_busy;
        self.look.lanes.push((from, taken));
        self.reported(from, now)
    }

    /// Completes the report of a lane, which may have ended. After the first look, returns the deliverable events and their consumers.
    pub(crate) fn reported(&mut self, from: LaneThread, now: Instant) -> Option<(u64, u64)> {
        let waited = !self.unreported.is_empty();
        self.unreported.retain(|lane| *lane != from);
        if !waited || !self.unreported.is_empty() {
            return None;
        }
        let mut look = core::mem::take(&mut self.look);
        look.lanes.sort_unstable_by_key(|(lane, _)| lane.0);
        let is_quiet = !look.has_deliverable();
        self.is_over = is_quiet
            && self.before.as_ref().is_some_and(|before| !before.has_deliverable() && before.lanes == look.lanes);
        self.next_look = match () {
            () if self.is_over => None,
            () if is_quiet => Some(now),
            () => Some(now + PAUSE),
        };
        let is_first = self.before.is_none();
        let deliverable = look.deliverable();
        self.before = Some(look);
        is_first.then_some(deliverable)
    }

    /// Undelivered events, and a line for each consumer with most of them, named by `name`.
    pub(crate) fn result(&self, name: impl Fn(ProxyKey) -> String) -> (Undone, Vec<String>) {
        let Some(look) = &self.before else { return (Undone::default(), Vec::new()) };
        let mut left: Vec<(ProxyKey, u64, WaitsFor)> =
            look.consumers.iter().map(|(key, (events, waits_for))| (*key, *events, *waits_for)).collect();
        left.sort_unstable_by_key(|(key, events, _)| (core::cmp::Reverse(*events), *key));
        let sum = |of: &[(ProxyKey, u64, WaitsFor)]| of.iter().map(|(_, events, _)| events).sum::<u64>();
        let suspended = left.iter().filter(|(.., waits_for)| *waits_for == WaitsFor::Resumption);
        let suspended = suspended.map(|(_, events, _)| events).sum();
        let undone = Undone { events: sum(&left) + look.handovers, suspended, consumers: left.len() as u64 };
        let (named, others) = left.split_at(left.len().min(NAMED_MAX));
        let line = |(key, events, waits_for): &(ProxyKey, u64, WaitsFor)| {
            let why = match waits_for {
                WaitsFor::Consumer => "it did not take them in time",
                WaitsFor::Fetching => "it did not fetch them",
                WaitsFor::StartTime => "their StartTime has not come",
                WaitsFor::Resumption => "it is suspended",
                WaitsFor::Others => "they wait for others of their set (When)",
            };
            format!("not delivered: {events} events to {}: {why}", name(*key))
        };
        let mut lines: Vec<String> = named.iter().map(line).collect();
        if !others.is_empty() {
            lines.push(format!("not delivered: {} events to {} more consumers", sum(others), others.len()));
        }
        if look.handovers > 0 {
            lines.push(format!("not delivered: {} events on their way from one lane to another", look.handovers));
        }
        (undone, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, ProxyId};

    const MAIN: LaneThread = LaneThread(0);
    const POOL: LaneThread = LaneThread(1);

    fn consumer(proxy: u32, events: u64, waits_for: WaitsFor) -> Undelivered {
        let key = ProxyKey { channel: ChannelId(0), proxy: ProxyId(proxy) };
        Undelivered { of: BlockedBy::Consumer(key), events, waits_for }
    }

    fn reported(taken: u64) -> Option<LookedAt> {
        Some(LookedAt { is_busy: false, taken })
    }

    #[test]
    fn it_is_over_when_two_looks_find_nothing_and_no_event_came_between_them() {
        let now = Instant::now();
        let mut drain = Drain::new(now, Duration::from_secs(10));
        // Between the two questions of the first look, one lane hands an event to the one that has reported already.
        for (main, pool) in [(5, 3), (6, 3), (6, 3)] {
            assert_eq!(drain.next(now, false), Next::Ask);
            drain.begin_look(vec![MAIN, POOL]);
            drain.take_in(MAIN, Vec::new(), reported(main), now);
            assert_eq!(drain.next(now, false), Next::Wait(now + PAUSE));
            drain.take_in(POOL, Vec::new(), reported(pool), now);
        }
        assert_eq!(drain.next(now, false), Next::End);
        assert_eq!(drain.result(|_| unreachable!()), (Undone::default(), Vec::new()));
    }

    #[test]
    fn what_consumers_may_take_is_waited_for_until_time_is_over_and_is_a_loss_then() {
        let now = Instant::now();
        let mut drain = Drain::new(now, Duration::from_secs(10));
        drain.begin_look(vec![MAIN]);
        let left = vec![consumer(1, 7, WaitsFor::Consumer), consumer(2, 9, WaitsFor::Resumption)];
        assert_eq!(drain.take_in(MAIN, left, reported(0), now), Some((7, 1)));
        assert_eq!(drain.next(now, false), Next::Wait(now + PAUSE));
        assert_eq!(drain.next(now + PAUSE, false), Next::Ask);
        assert_eq!(drain.next(now, true), Next::End, "the client is in a hurry");
        assert_eq!(drain.next(now + Duration::from_secs(10), false), Next::End);
        let (undone, lines) = drain.result(|key| format!("consumer proxy {}", key.proxy.0));
        assert_eq!(undone, Undone { events: 16, suspended: 9, consumers: 2 });
        assert!(undone.is_loss());
        assert_eq!(lines[0], "not delivered: 9 events to consumer proxy 2: it is suspended");
        assert_eq!(lines[1], "not delivered: 7 events to consumer proxy 1: it did not take them in time");
    }

    #[test]
    fn what_no_consumer_takes_is_not_waited_for() {
        let now = Instant::now();
        let mut drain = Drain::new(now, Duration::from_secs(10));
        for _ in 0..2 {
            drain.begin_look(vec![MAIN]);
            let left = vec![consumer(1, 1, WaitsFor::Fetching), consumer(2, 1, WaitsFor::StartTime)];
            drain.take_in(MAIN, left, reported(0), now);
        }
        assert_eq!(drain.next(now, false), Next::End);
        assert!(drain.result(|_| String::new()).0.is_loss());
    }

    #[test]
    fn a_lane_that_ends_is_not_waited_for_and_a_few_consumers_are_named() {
        let now = Instant::now();
        let mut drain = Drain::new(now, Duration::ZERO);
        drain.begin_look(vec![MAIN, POOL]);
        drain.take_in(MAIN, (0..30).map(|proxy| consumer(proxy, 2, WaitsFor::Consumer)).collect(), reported(0), now);
        drain.reported(POOL, now);
        assert_eq!(drain.next(now, false), Next::End);
        let (undone, lines) = drain.result(|_| String::new());
        assert_eq!((undone.events, undone.consumers, lines.len()), (60, 30, NAMED_MAX + 1));
        assert_eq!(lines[NAMED_MAX], "not delivered: 20 events to 10 more consumers");
    }
}
