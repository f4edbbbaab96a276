//! Timers of channels, on a clock that the test advances.

use super::*;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;

const MS: Duration = Duration::from_millis(1);

fn timer(name: &str, schedule: TimerSchedule) -> TimerSettings {
    TimerSettings { name: name.to_owned(), schedule, priority: None }
}

fn every(name: &str, millis: u32) -> TimerSettings {
    timer(name, TimerSchedule::Every(MS * millis))
}

fn silence(name: &str, millis: u32, types: &[EventType]) -> TimerSettings {
    timer(name, TimerSchedule::Silence { period: MS * millis, types: types.to_vec() })
}

/// What a timer published: when, its name, its count, and the intervals it has missed so far.
type Fired = (u32, String, u64, u64);

/// A channel with timers, and what they have done since the beginning.
struct Clock {
    rig: Rig,
    began: Time,
    dropped: Vec<bool>,
}

impl Clock {
    fn with(rig: Rig, timers: &[TimerSettings]) -> Self {
        let (began, dropped) = (rig.now, Vec::new());
        let mut clock = Self { rig, began, dropped };
        clock.declare(timers);
        clock
    }

    fn new(timers: &[TimerSettings]) -> Self {
        Self::with(Rig::plain(), timers)
    }

    fn declare(&mut self, timers: &[TimerSettings]) {
        self.rig.hierarchy.set_timers(self.rig.channel, timers.to_vec()).unwrap();
        self.rig.route();
    }

    fn millis(&self) -> u32 {
        u32::try_from(self.rig.now.since(self.began).as_millis()).unwrap()
    }

    /// Fires what is due, as the lane's owner does.
    fn fire(&mut self) -> Vec<Fired> {
        let (mut fired, mut looks) = (Vec::new(), u32::MAX);
        while let Some(due) = self.rig.lane.poll_timer(self.rig.now, &mut looks) {
            let mut pending_event = self.rig.lane.begin_event();
            pending_event.bytes.push(255);
            self.rig.lane.classify(&mut pending_event, TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
            match self.rig.lane.handle_timer_event(&due, pending_event, &NoFields, self.rig.now) {
                TimerOutcome::Published => {
                    fired.push((self.millis(), due.timer.settings().name.clone(), due.count, due.missed));
                }
                TimerOutcome::Dropped { begins } => self.dropped.push(begins),
            }
        }
        fired
    }

    /// Lets time pass in one step, in which nothing is served: a stall.
    fn stall(&mut self, millis: u32) -> Vec<Fired> {
        self.rig.advance(MS * millis);
        self.fire()
    }

    /// Lets time pass, and has the lane run whenever it asks for it.
    fn run(&mut self, millis: u32) -> Vec<Fired> {
        let (end, mut fired) = (self.rig.now + MS * millis, self.fire());
        while let Some(due) = self.rig.lane.next_timeout().filter(|due| *due <= end) {
            self.rig.now = due.max(self.rig.now);
            self.rig.lane.handle_timeout(self.rig.now);
            fired.extend(self.fire());
        }
        self.rig.now = end;
        fired
    }

    fn timers(&self) -> Vec<Arc<ChannelTimer>> {
        self.rig.lane.snapshot().channel(self.rig.channel).unwrap().timers().to_vec()
    }
}

fn at(fired: &[Fired]) -> Vec<u32> {
    fired.iter().map(|(at, ..)| *at).collect()
}

#[test]
fn an_interval_keeps_its_phase_and_passes_over_what_is_late_without_a_burst() {
    let mut clock = Clock::new(&[every("tick", 10)]);
    assert_eq!(at(&clock.run(35)), [10, 20, 30]);
    // The lane stands still from 35 to 78: 40, 50 and 60 are passed over, and the one of 70 comes late, alone.
    assert_eq!(clock.stall(43), [(78, "tick".to_owned(), 4, 3)]);
    assert_eq!(at(&clock.run(32)), [80, 90, 100, 110], "the phase is as before");
    let progress = clock.timers()[0].progress();
    assert_eq!((progress.fired, progress.missed, progress.dropped), (8, 3, 0));
    assert_eq!(progress.next.unwrap().since(clock.began), MS * 120);
}

#[test]
fn an_interval_served_later_and_later_does_not_drift() {
    let mut clock = Clock::new(&[every("tick", 10)]);
    let fired: Vec<u32> = (1..=9).flat_map(|late| at(&clock.stall(if late == 1 { 11 } else { 10 }))).collect();
    assert_eq!(fired, [11, 21, 31, 41, 51, 61, 71, 81, 91]);
    assert_eq!(at(&clock.run(9)), [100], "the next is due at a multiple of the interval from the beginning");
    assert_eq!(clock.timers()[0].progress().missed, 0);
}

#[test]
fn a_timer_of_once_fires_once() {
    let mut clock = Clock::new(&[timer("start", TimerSchedule::After(MS * 25))]);
    assert_eq!(clock.run(10_000), [(25, "start".to_owned(), 1, 0)]);
    assert_eq!(clock.timers()[0].progress().next, None);
    assert_eq!(clock.rig.lane.next_timeout(), None, "nothing wakes the lane for it any more");
}

#[test]
fn a_silence_is_published_once_and_again_only_after_an_event() {
    let mut clock = Clock::new(&[silence("quiet", 50, &[])]);
    assert_eq!(at(&clock.run(200)), [50], "nothing has come since the beginning");
    clock.rig.publish(1);
    assert_eq!(at(&clock.run(30)), [0; 0]);
    clock.rig.publish(2);
    assert_eq!(at(&clock.run(1_000)), [280], "50 ms after the last event, at 230");
    // Events that come in time.
    for _ in 0..20 {
        clock.rig.publish(3);
        assert_eq!(at(&clock.run(49)), [0; 0]);
    }
    assert_eq!(clock.run(50).len(), 1);
}

/// The lane looks again a period after a silence was published: an event just behind that look must not be found too late.
#[test]
fn a_silence_ends_a_period_after_its_event_whenever_that_comes() {
    for comes in 0..120 {
        let mut clock = Clock::new(&[silence("quiet", 50, &[])]);
        clock.run(51 + comes);
        let heard = clock.millis();
        clock.rig.publish(1);
        assert_eq!(at(&clock.run(500)), [heard + 50]);
    }
}

#[test]
fn only_events_of_its_types_end_a_silence_and_timers_events_end_none() {
    let named = |name: &str| EventType::new("domain", name);
    let mut clock = Clock::new(&[
        silence("other", 50, &[named("other")]),
        silence("mine", 50, &[named("na*"), named("other")]),
        silence("all", 50, &[]),
        silence("timers", 50, &[EventType::new(TIMER_DOMAIN, TIMER_TYPE)]),
        every("tick", 20),
    ]);
    clock.run(30);
    clock.rig.publish(1);
    let fired = clock.run(100);
    let of = |name: &str| at(&fired.iter().filter(|(_, of, ..)| of == name).cloned().collect::<Vec<_>>());
    assert_eq!(["other", "timers", "mine", "all"].map(of), [[50], [50], [80], [80]]);
    assert_eq!(of("tick"), [40, 60, 80, 100, 120]);
}

#[test]
fn a_changed_timer_begins_anew_and_the_others_keep_their_phase() {
    let mut clock = Clock::new(&[every("a", 10), every("b", 10)]);
    clock.run(15);
    clock.declare(&[every("b", 10), every("a", 8), every("c", 9)]);
    let fired = clock.run(10);
    assert_eq!(fired, [(20, "b".to_owned(), 2, 0), (23, "a".to_owned(), 1, 0), (24, "c".to_owned(), 1, 0)]);
    clock.declare(&[]);
    assert_eq!(clock.run(1_000), []);
    assert_eq!(clock.rig.lane.next_timeout(), None);
}

#[test]
fn a_timer_of_a_channel_that_is_gone_does_not_fire() {
    let mut clock = Clock::new(&[every("tick", 10)]);
    clock.rig.hierarchy.destroy_channel(clock.rig.channel).unwrap();
    clock.rig.route();
    assert_eq!(clock.run(100), []);
}

#[test]
fn timers_that_are_stopped_neither_fire_nor_wake_the_lane() {
    let mut clock = Clock::new(&[every("tick", 10)]);
    clock.rig.lane.stop_timers();
    assert_eq!(clock.rig.lane.next_timeout(), None);
    assert_eq!(clock.stall(100), []);
}

#[test]
fn its_events_reach_consumers_with_its_priority_and_best_effort() {
    let settings = TimerSettings { priority: Some(7), ..every("tick", 10) };
    let mut clock = Clock::new(&[settings]);
    clock.rig.consumer(SettingsPatch::default());
    clock.run(10);
    let mut events = Vec::new();
    clock.rig.lane.poll_delivery(clock.rig.now, &mut events).unwrap();
    let event = events.pop().unwrap();
    assert_eq!((event.priority, event.reliability), (Some(7), Some(Reliability::BestEffort)));
    let names = clock.rig.lane.type_names(event.event_type).unwrap();
    assert_eq!(names, (TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes()));
}

/// Settings of a consumer that would block suppliers at three events.
fn three_and_hold() -> SettingsPatch {
    SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(3)), ..full(FullOutbox::Hold) }
}

/// One consumer that stopped taking events had the timers of a channel dropped for all, for ever: a refused event began no hold.
#[test]
fn a_full_consumer_gets_no_events_of_timers_and_the_others_get_all() {
    let blocking = SettingsPatch {
        blocking: Some(MS * 1_000),
        max_events_per_consumer: Some(NonZeroU32::new(3)),
        ..full(FullOutbox::Discard)
    };
    let rejecting = SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(3)), ..full(FullOutbox::Reject) };
    for patch in [three_and_hold(), blocking, rejecting] {
        let mut clock = Clock::with(Rig::new(granted(), ChannelLimits::default()), &[every("tick", 10)]);
        let slow = clock.rig.sleeper(patch);
        clock.rig.consumer(SettingsPatch::default());
        let mut delivered = 0;
        for _ in 0..100 {
            clock.run(10);
            delivered += clock.rig.drain().len();
        }
        let progress = clock.timers()[0].progress();
        assert_eq!((delivered, progress.fired, progress.dropped), (100, 100, 0), "{patch:?}");
        let stats = clock.rig.stats(slow);
        assert_eq!((stats.backlog_events, stats.holds, stats.discards.total()), (3, None, 97), "{patch:?}");
        let counters = clock.rig.lane.counters().taken;
        assert_eq!((counters.withheld, counters.refused), (0, 0));
        let notices = clock.rig.notices();
        let fulls = notices.iter().filter(|notice| matches!(notice, Notice::OutboxFull { .. })).count();
        assert_eq!(fulls, 1, "{notices:?}");
        clock.rig.resume(slow);
        assert_eq!(clock.rig.drain().len(), 3);
        clock.run(10);
        assert_eq!(clock.rig.drain().len(), 2, "it has room, and gets the next one");
        let recovered = Notice::OutboxRecovered { key: slow, dropped: 97 };
        assert!(clock.rig.notices().contains(&recovered), "{patch:?}");
    }
}

/// A supplier's event blocks for a consumer; a timer's event behind it is left out there, and adds no waiter.
#[test]
fn a_consumer_that_blocks_suppliers_gets_no_events_of_timers_meanwhile() {
    let mut clock = Clock::with(Rig::new(granted(), ChannelLimits::default()), &[every("tick", 10)]);
    let slow = clock.rig.sleeper(three_and_hold());
    let admissions: Vec<_> = (0..4).map(|number| clock.rig.publish(number)).collect();
    assert!(matches!(admissions[3], Admission::Withheld(_)), "{admissions:?}");
    clock.rig.consumer(SettingsPatch::default());
    assert_eq!(clock.run(100).len(), 10);
    assert_eq!(clock.rig.drain().len(), 10);
    assert_eq!(clock.rig.stats(slow).backlog_events, 4);
    assert_eq!(clock.rig.lane.counters().taken.withheld, 1);
}

/// A timer's event began a late hold, with a ticket of no supplier.
#[test]
fn a_consumer_whose_events_are_late_gets_events_of_timers_and_blocks_nobody_for_them() {
    let bounded = SettingsPatch { latency_bound: Some(MS * 15), ..SettingsPatch::default() };
    let mut clock = Clock::with(Rig::new(granted(), ChannelLimits::default()), &[every("tick", 10)]);
    let slow = clock.rig.consumer(bounded);
    let mut events = Vec::new();
    clock.rig.publish(1);
    clock.rig.lane.poll_delivery(clock.rig.now, &mut events).unwrap();
    clock.rig.publish(2);
    assert_eq!(clock.run(40).len(), 4);
    assert_eq!(clock.rig.lane.counters().taken.withheld, 0);
    let stats = clock.rig.stats(slow);
    assert_eq!((stats.holds, stats.discards.total()), (None, 0));
}

#[test]
fn a_channel_at_its_limits_takes_a_timers_event_where_its_policy_makes_room() {
    let mut clock = Clock::with(Rig::new(full(FullOutbox::Discard), budget(charge(1) * 4)), &[every("tick", 10)]);
    clock.rig.sleeper(SettingsPatch::default());
    assert_eq!(clock.run(100).len(), 10);
}

/// The event that finds no room begins back-pressure, which ends as ever; those behind it are dropped for all, and nobody waits.
#[test]
fn a_timer_begins_back_pressure_at_the_channels_limits_and_the_timeout_ends_it() {
    let room = budget((charge(1) + HOLDER_OVERHEAD_BYTES) * 4);
    let queue = ChannelLimits { max_queue_length: NonZeroU32::new(4), ..ChannelLimits::default() };
    for limits in [room, queue] {
        let mut clock = Clock::with(Rig::new(granted(), limits), &[every("tick", 10)]);
        let patch = SettingsPatch { hold_timeout: Some(MS * 200), ..full(FullOutbox::Hold) };
        clock.rig.consumer(patch);
        assert_eq!(clock.run(10).len(), 1);
        clock.rig.poll().expect("the slow consumer is sent one, and never answers");
        clock.rig.consumer(SettingsPatch::default());
        let mut delivered = 0;
        let mut run = |clock: &mut Clock, millis: u32| {
            let mut fired = 0;
            for _ in 0..millis / 10 {
                fired += clock.run(10).len();
                delivered += clock.rig.drain().len();
            }
            fired
        };
        assert_eq!(run(&mut clock, 100), 4, "three have room, and one begins the hold: {limits:?}");
        assert_eq!(clock.dropped, [true, false, false, false, false, false]);
        let notices = clock.rig.notices();
        let is_blocked = |notice: &Notice| matches!(notice, Notice::SuppliersBlocked { .. });
        assert_eq!(notices.iter().filter(|notice| is_blocked(notice)).count(), 1, "{notices:?}");
        run(&mut clock, 200);
        assert_eq!(run(&mut clock, 500), 50, "the slow consumer's time is over: {limits:?}");
        assert_eq!(clock.rig.lane.counters().taken.withheld, 0);
        assert_eq!(delivered as u64 + 1, clock.timers()[0].progress().fired);
    }
}

#[test]
fn back_pressure_that_a_timer_began_ends_with_room() {
    let room = budget(charge(1) * 4);
    let for_ever = SettingsPatch { hold_timeout: Some(Duration::ZERO), ..granted() };
    let mut clock = Clock::with(Rig::new(for_ever, room), &[every("tick", 10)]);
    let slow = clock.rig.sleeper(full(FullOutbox::Hold));
    assert_eq!(clock.run(60_000).len(), 5, "it may wait for as long as it likes");
    assert_eq!(clock.dropped.iter().filter(|begins| **begins).count(), 1, "{:?}", clock.dropped.len());
    clock.rig.resume(slow);
    assert_eq!(clock.rig.drain().len(), 5);
    assert_eq!(clock.run(10).len(), 1);
    assert_eq!(clock.rig.lane.counters().taken.withheld, 0);
}

/// The alert on refused events fired for timers, which are no suppliers.
#[test]
fn a_dropped_event_of_a_timer_is_not_counted_as_refused_to_a_supplier() {
    let mut clock = Clock::with(Rig::new(full(FullOutbox::Reject), budget(charge(1) * 4)), &[every("tick", 10)]);
    clock.rig.sleeper(SettingsPatch::default());
    clock.run(100);
    assert_eq!(clock.timers()[0].progress().dropped, 6);
    assert_eq!(clock.rig.lane.counters().taken.refused, 0);
    assert_eq!(clock.rig.lane.channel_stats(clock.rig.channel).unwrap().traffic.refused, 0);
    assert!(matches!(clock.rig.publish(1), Admission::Refused(_)));
    assert_eq!(clock.rig.lane.counters().taken.refused, 1);
}

#[test]
fn a_drop_is_reported_again_after_a_minute_without_drops() {
    let mut clock = Clock::with(Rig::new(full(FullOutbox::Reject), budget(charge(1))), &[every("tick", 30_000)]);
    let slow = clock.rig.sleeper(SettingsPatch::default());
    clock.run(90_000);
    assert_eq!(clock.dropped, [true, false]);
    clock.rig.resume(slow);
    for _ in 0..3 {
        clock.rig.drain();
        clock.run(30_000);
    }
    clock.rig.suspend(slow);
    clock.run(30_000);
    assert_eq!(clock.dropped, [true, false, true]);
}

/// A silence whose event was dropped was not published before the next one.
#[test]
fn a_silence_that_is_dropped_is_published_a_period_later() {
    let mut clock = Clock::with(Rig::new(full(FullOutbox::Reject), budget(charge(1))), &[silence("quiet", 50, &[])]);
    let slow = clock.rig.sleeper(SettingsPatch::default());
    clock.rig.publish(1);
    assert_eq!((at(&clock.run(120)), clock.dropped.len()), (vec![], 2));
    clock.rig.resume(slow);
    clock.rig.drain();
    assert_eq!(at(&clock.run(1_000)), [150]);
}

/// An event that waits for its topic's turn is in the service already.
#[test]
fn an_event_that_waits_ends_a_silence_when_it_is_submitted() {
    let mut clock = Clock::new(&[silence("quiet", 50, &[])]);
    let submit = |clock: &mut Clock| {
        let mut pending_event = clock.rig.lane.begin_event();
        pending_event.bytes.push(1);
        clock.rig.lane.classify(&mut pending_event, b"domain", b"name");
        pending_event
    };
    clock.run(40);
    let scheduled = submit(&mut clock);
    clock.rig.lane.schedule_event(clock.rig.source, scheduled, 1, clock.rig.now);
    assert_eq!(at(&clock.run(40)), [0; 0]);
    let stored = submit(&mut clock);
    clock.rig.lane.note_submitted(clock.rig.source, &stored, clock.rig.now);
    assert_eq!(at(&clock.run(100)), [130]);
}

/// Channels that are due and fire nothing took a round without a bound.
#[test]
fn a_round_looks_at_as_many_channels_as_it_may() {
    let mut clock = Clock::new(&[]);
    let hierarchy = &mut clock.rig.hierarchy;
    for _ in 0..8 {
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        hierarchy.set_timers(channel, vec![silence("quiet", 10, &[])]).unwrap();
    }
    clock.rig.route();
    assert_eq!(clock.run(10).len(), 8);
    // Nothing is published any more, and all are due again.
    clock.rig.now = clock.rig.now + MS * 10;
    for left in [5, 2] {
        let mut looks = 3;
        assert!(clock.rig.lane.poll_timer(clock.rig.now, &mut looks).is_none());
        assert_eq!((looks, clock.rig.lane.next_timeout()), (0, Some(clock.rig.now)), "{left} wait");
    }
    let mut looks = 3;
    assert!(clock.rig.lane.poll_timer(clock.rig.now, &mut looks).is_none());
    assert_eq!((looks, clock.rig.lane.next_timeout()), (1, Some(clock.rig.now + MS * 10)));
}

#[test]
fn more_timers_than_a_channel_may_have_are_refused_and_the_largest_number_works() {
    let named = |count: u32| (0..count).map(|at| every(&format!("t{at}"), 10)).collect::<Vec<_>>();
    let mut clock = Clock::new(&[]);
    let refused = clock.rig.hierarchy.set_timers(clock.rig.channel, named(65)).unwrap_err();
    assert_eq!(format!("{refused}"), "timers must be 64 at most in a channel");
    clock.declare(&named(64));
    assert_eq!(clock.run(20).len(), 128);
    let silences = |count: u32| (0..count).map(|at| silence(&format!("s{at}"), 10, &[])).collect::<Vec<_>>();
    clock.declare(&silences(64));
    clock.rig.publish(1);
    assert_eq!(clock.run(100).len(), 64);
}

#[test]
fn the_longest_interval_and_the_end_of_time_do_not_overflow() {
    let month = Duration::from_secs(30 * 24 * 3600);
    let mut clock = Clock::new(&[
        timer("month", TimerSchedule::Every(month)),
        timer("once", TimerSchedule::After(month)),
        timer("quiet", TimerSchedule::Silence { period: month, types: vec![] }),
    ]);
    clock.rig.now = Time(u64::MAX - 1);
    clock.rig.lane.handle_timeout(clock.rig.now);
    let (mut fired, mut looks) = (0, u32::MAX);
    while let Some(due) = clock.rig.lane.poll_timer(clock.rig.now, &mut looks) {
        fired += 1;
        assert!(fired <= 3, "{due:?}");
    }
    assert_eq!(fired, 3);
}
