//! Channels that keep their past, and consumers that begin in it.

use super::*;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU64;

/// What keeps a channel's history: in memory, in order, and as slow as the test has it.
#[derive(Default)]
struct Chronicle {
    /// What it was given and has not looked at.
    commands: VecDeque<Overflow>,
    stored: Vec<(u64, ProxyKey, Event)>,
    /// Written, and not handed back.
    readers: BTreeMap<ProxyKey, u64>,
    answers: VecDeque<Answer>,
    last: u64,
    /// The world's time, which is the lane's.
    utc: u64,
}

enum Answer {
    Remembered(Arc<Event>),
    FetchedHistory(OutboxId, Vec<(u64, ProxyKey, Event)>, FetchedHistory),
}

impl Chronicle {
    fn gather(&mut self, lane: &mut Lane) {
        self.commands.extend(core::iter::from_fn(|| lane.poll_overflow()));
    }

    /// Looks at what came first.
    fn look(&mut self) {
        match self.commands.pop_front() {
            Some(Overflow::Remember { event, .. }) => {
                let number = event.number().unwrap().get();
                assert!(number > self.last, "in order");
                self.last = number;
                self.stored.push((number, event.source, (*event).clone()));
                self.answers.push_back(Answer::Remembered(event));
            }
            Some(Overflow::FetchHistory { outbox, consumer, start, bytes }) => {
                if let Some(start) = start {
                    let next = match start {
                        StartFrom::Last(count) => (self.last + 1).saturating_sub(count),
                        StartFrom::Number(number) => number,
                        StartFrom::Time(time) => {
                            let mut before = self.stored.iter().filter(|(.., event)| event.arrived.0 < time);
                            before.next_back().map_or(0, |(number, ..)| number + 1)
                        }
                        _ => 0,
                    };
                    self.readers.insert(consumer, next);
                }
                if let Some(StartFrom::Time(time)) = start
                    && time > self.utc
                {
                    let ahead = Some((time, Time(time)));
                    self.answers.push_back(Answer::FetchedHistory(
                        outbox,
                        vec![],
                        FetchedHistory { ahead, ..FetchedHistory::default() },
                    ));
                    return;
                }
                let next = self.readers.get_mut(&consumer).unwrap();
                let mut given = Vec::new();
                let from = self.stored.partition_point(|(number, ..)| number < next);
                for stored in self.stored.iter().skip(from).take(1 + bytes as usize / 100) {
                    *next = stored.0 + 1;
                    given.push(stored.clone());
                }
                let through = (*next > self.last || from + given.len() == self.stored.len()).then_some(self.last);
                let fetched = FetchedHistory { through, begins: start.map(|_| *next), ..FetchedHistory::default() };
                self.answers.push_back(Answer::FetchedHistory(outbox, given, fetched));
            }
            Some(Overflow::Forget { consumer }) => _ = self.readers.remove(&consumer),
            Some(Overflow::Drop { .. }) => self.stored.clear(),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    fn answer(&mut self, lane: &mut Lane, now: Time) {
        match self.answers.pop_front() {
            Some(Answer::Remembered(event)) => lane.note_remembered(event, now),
            Some(Answer::FetchedHistory(outbox, given, fetched)) => {
                for (number, source, event) in given {
                    let mut pending_event = lane.begin_event();
                    pending_event.bytes.extend_from_slice(&event.bytes);
                    let (domain, name) = event.names();
                    lane.classify(&mut pending_event, domain, name);
                    lane.return_history_event(outbox, (source, number), pending_event, &NoFields, now);
                }
                lane.end_history_fetch(outbox, fetched, &NoFields, now);
            }
            None => {}
        }
    }

    fn work_until_quiet(&mut self, rig: &mut Rig) {
        loop {
            self.gather(&mut rig.lane);
            if self.commands.is_empty() && self.answers.is_empty() {
                return;
            }
            self.look();
            self.answer(&mut rig.lane, rig.now);
        }
    }
}

impl Rig {
    fn with_history(memory: u64) -> Self {
        let mut rig = Self::new(SettingsPatch::default(), ChannelLimits::default());
        rig.lane.allow_overflow();
        let history = HistoryLimits { events: 1_000, ..HistoryLimits::default() };
        rig.hierarchy.set_limits(rig.channel, ChannelLimits { history, ..budget(memory) }).unwrap();
        rig.route();
        rig
    }

    fn starting(&mut self, start: StartFrom) -> ProxyKey {
        self.starting_at(start, None)
    }

    fn starting_at(&mut self, start: StartFrom, resumed_at: Option<u64>) -> ProxyKey {
        let proxy = self
            .hierarchy
            .create_proxy(self.channel, Side::Consumers, AdminId::DEFAULT, Form(1), ProxyKind::default())
            .unwrap();
        let key = ProxyKey { channel: self.channel, proxy };
        let patch = SettingsPatch { start_from: Some(start), ..SettingsPatch::default() };
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        self.hierarchy.note_start(key, resumed_at).unwrap();
        self.route();
        key
    }

    fn publish_say(&mut self, says: u32) -> Admission {
        let mut bytes = vec![0; 100];
        bytes[..4].copy_from_slice(&says.to_le_bytes());
        self.publish_bytes(&bytes)
    }

    /// The next delivery, answered: the consumer that has it, what it says, and its number.
    fn take_numbered(&mut self) -> Option<(ProxyKey, u32, Option<u64>)> {
        let mut events = Vec::new();
        let delivery = self.lane.poll_delivery(self.now, &mut events)?;
        let says = u32::from_le_bytes(events[0].bytes[..4].try_into().unwrap());
        let number = events[0].number().map(NonZeroU64::get);
        events.drain(..).for_each(|event| self.lane.release(event));
        self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, self.now);
        Some((delivery.key, says, number))
    }
}

#[test]
fn a_consumer_that_begins_in_the_history_gets_it_first_and_then_what_comes() {
    let mut rig = Rig::with_history(1 << 20);
    let mut chronicle = Chronicle::default();
    for says in 0..50 {
        assert_eq!(
            rig.publish_say(says),
            Admission::Accepted { destinations: 0 },
            "no consumer wants it, and it is stored"
        );
        chronicle.work_until_quiet(&mut rig);
    }
    assert_eq!(rig.memory(), 0);
    let key = rig.starting(StartFrom::Last(20));
    // What comes meanwhile waits for its turn.
    rig.publish_say(50);
    for says in 30..51 {
        chronicle.work_until_quiet(&mut rig);
        assert_eq!(rig.take_numbered(), Some((key, says, Some(u64::from(says) + 1))));
    }
    chronicle.work_until_quiet(&mut rig);
    rig.publish_say(51);
    assert_eq!(rig.take_numbered(), Some((key, 51, Some(52))), "without a way round");
    chronicle.work_until_quiet(&mut rig);
    let told = rig.notices();
    assert!(matches!(told[..], [Notice::BeginsInHistory { .. }, Notice::CaughtUp { events: 21, .. }]), "{told:?}");
    assert_eq!(rig.memory(), 0);
    let counters = rig.lane.counters();
    assert_eq!((counters.history.stored, counters.history.recalled, counters.history.missed), (52, 21, 0));
}

/// `number:15` in a channel with 10 as its last event delivered 11.
#[test]
fn a_client_that_begins_with_a_number_that_is_yet_to_come_gets_nothing_before_it() {
    for stored in [0, 1, 10] {
        let mut rig = Rig::with_history(1 << 20);
        let mut chronicle = Chronicle::default();
        for says in 0..stored {
            rig.publish_say(says);
            chronicle.work_until_quiet(&mut rig);
        }
        let key = rig.starting(StartFrom::Number(15));
        chronicle.work_until_quiet(&mut rig);
        assert_eq!(rig.notices(), [Notice::BeginsAhead { key, number: Some(15) }]);
        for says in stored..14 {
            rig.publish_say(says);
            chronicle.work_until_quiet(&mut rig);
            assert_eq!(rig.take_numbered(), None, "{says} of {stored}");
        }
        // What follows before the first is fetched follows it.
        (14..17).for_each(|says| _ = rig.publish_say(says));
        for says in 14..20 {
            chronicle.work_until_quiet(&mut rig);
            assert_eq!(rig.take_numbered(), Some((key, says, Some(u64::from(says) + 1))), "{stored}");
            rig.publish_say(says + 3);
        }
        assert!(matches!(rig.notices()[..], [Notice::BeginsInHistory { first: 15, .. }, Notice::CaughtUp { .. }]));
        assert_eq!(rig.lane.counters().discards.of(DiscardReason::OverflowLost), 0);
    }
}

/// The number that comes next is no future one.
#[test]
fn a_client_that_begins_with_the_next_number_waits_for_nothing() {
    let mut rig = Rig::with_history(1 << 20);
    let mut chronicle = Chronicle::default();
    rig.publish_say(0);
    let key = rig.starting(StartFrom::Number(2));
    chronicle.work_until_quiet(&mut rig);
    assert!(matches!(
        rig.notices()[..],
        [Notice::BeginsInHistory { first: 2, .. }, Notice::CaughtUp { events: 0, .. }]
    ));
    rig.publish_say(1);
    assert_eq!(rig.take_numbered(), Some((key, 1, Some(2))));
}

/// Of what is not kept, what comes before the start is no loss of that consumer, and what comes behind it is one.
#[test]
fn what_is_missed_before_a_start_ahead_is_not_counted_as_lost() {
    let mut rig = Rig::with_history(100_000);
    let mut chronicle = Chronicle::default();
    let late = rig.starting(StartFrom::Number(901));
    assert_eq!(rig.notices(), [Notice::BeginsAhead { key: late, number: Some(901) }]);
    (0..900).for_each(|says| _ = rig.publish_say(says));
    let missed_before = rig.lane.counters().history.missed;
    assert!(missed_before > 600, "{missed_before}");
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::OverflowLost), 0);
    (900..1_000).for_each(|says| _ = rig.publish_say(says));
    let missed = rig.lane.counters().history.missed - missed_before;
    assert_eq!((missed, rig.lane.counters().discards.of(DiscardReason::OverflowLost)), (100, 100));
    chronicle.work_until_quiet(&mut rig);
    assert_eq!(rig.take_numbered(), None, "none below its start though they are kept");
    rig.publish_say(1_000);
    chronicle.work_until_quiet(&mut rig);
    assert_eq!(rig.take_numbered(), Some((late, 1_000, Some(1_001))));
}

#[test]
fn a_client_that_begins_at_a_time_to_come_gets_nothing_that_came_before() {
    let mut rig = Rig::with_history(1 << 20);
    let mut chronicle = Chronicle::default();
    let begins = rig.now.0 + 5_000_000_000;
    chronicle.utc = rig.now.0;
    let key = rig.starting(StartFrom::Time(begins));
    chronicle.work_until_quiet(&mut rig);
    assert_eq!(rig.notices(), [Notice::BeginsAhead { key, number: None }]);
    for says in 0..5 {
        rig.publish_say(says);
        chronicle.work_until_quiet(&mut rig);
        assert_eq!(rig.take_numbered(), None);
        rig.advance(Duration::from_secs(1));
    }
    // The world's clock is behind yet, as when it was set back: the wait goes on.
    rig.publish_say(5);
    chronicle.work_until_quiet(&mut rig);
    assert_eq!((rig.take_numbered(), rig.notices().len()), (None, 1));
    chronicle.utc = begins;
    rig.publish_say(6);
    for says in 5..7 {
        chronicle.work_until_quiet(&mut rig);
        assert_eq!(rig.take_numbered(), Some((key, says, Some(u64::from(says) + 1))), "it came at that time");
    }
    chronicle.work_until_quiet(&mut rig);
    rig.publish_say(7);
    assert_eq!(rig.take_numbered(), Some((key, 7, Some(8))));
}

/// One that was connected before goes on with what comes; unless it has yet to begin.
#[test]
fn a_consumer_that_is_connected_again_begins_ahead_only_if_that_is_yet_to_come() {
    for (start, resumed_at, is_ahead) in [
        (StartFrom::Number(4), 0, true),
        (StartFrom::Number(3), 0, false),
        (StartFrom::Number(1), 0, false),
        (StartFrom::First, 0, false),
        (StartFrom::Last(2), 0, false),
        (StartFrom::Time(100), 100, false),
        (StartFrom::Time(100), 99, true),
    ] {
        let mut rig = Rig::with_history(1 << 20);
        let mut chronicle = Chronicle { utc: 99, ..Chronicle::default() };
        (0..2).for_each(|says| _ = rig.publish_say(says));
        let key = rig.starting_at(start, Some(resumed_at));
        chronicle.work_until_quiet(&mut rig);
        let told = rig.notices();
        assert_eq!(matches!(told[..], [Notice::BeginsAhead { .. }]), is_ahead, "{start:?}: {told:?}");
        assert!(is_ahead || told.is_empty(), "{start:?}: {told:?}");
        rig.publish_say(2);
        chronicle.work_until_quiet(&mut rig);
        let taken = rig.take_numbered();
        assert_eq!(taken, (!is_ahead).then_some((key, 2, Some(3))), "{start:?}");
    }
}

#[test]
fn history_that_is_not_written_is_bounded_and_missed_and_no_supplier_is_blocked_for_it() {
    let mut rig = Rig::with_history(100_000);
    let mut chronicle = Chronicle::default();
    let reader = rig.consumer(SettingsPatch::default());
    let late = rig.starting(StartFrom::First);
    for says in 0..1_000 {
        assert!(matches!(rig.publish_say(says), Admission::Accepted { .. }), "{says}");
        assert_eq!(rig.take_numbered().map(|(key, says, _)| (key, says)), Some((reader, says)));
        assert!(rig.memory() <= 26_000, "{}", rig.memory());
    }
    let missed = rig.lane.counters().history.missed;
    assert!((900..1_000).contains(&missed), "{missed}");
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::OverflowLost), missed, "for the one that would get them");
    chronicle.work_until_quiet(&mut rig);
    let mut next = 0;
    while let Some(taken) = rig.take_numbered() {
        assert_eq!(taken, (late, next, Some(u64::from(next) + 1)));
        next += 1;
        chronicle.work_until_quiet(&mut rig);
    }
    assert_eq!(u64::from(next), 1_000 - missed);
    rig.publish_say(7);
    chronicle.work_until_quiet(&mut rig);
    let mut taken = [(); 2].map(|()| rig.take_numbered());
    taken.sort_unstable();
    assert_eq!(taken, [Some((reader, 7, Some(1_001))), Some((late, 7, Some(1_001)))], "numbers say what is missing");
}

#[test]
fn numbers_go_on_and_a_history_that_is_not_stored_is_dropped() {
    let mut rig = Rig::new(SettingsPatch::default(), ChannelLimits::default());
    let mut lane = Lane::new(rig.now);
    lane.allow_overflow();
    lane.continue_histories([(rig.channel, NonZeroU64::new(500).unwrap())]);
    rig.lane = lane;
    rig.route();
    assert!(matches!(rig.lane.poll_overflow(), Some(Overflow::Drop { .. })), "of a former process");
    let history = HistoryLimits { age: Duration::from_secs(1), ..HistoryLimits::default() };
    for expected in [500, 501] {
        rig.hierarchy.set_limits(rig.channel, ChannelLimits { history, ..ChannelLimits::default() }).unwrap();
        rig.route();
        rig.publish(1);
        let Some(Overflow::Remember { event, limits }) = rig.lane.poll_overflow() else { panic!() };
        assert_eq!((event.number().map(NonZeroU64::get), limits), (Some(expected), history));
        rig.lane.note_remembered(event, rig.now);
        rig.hierarchy.set_limits(rig.channel, ChannelLimits::default()).unwrap();
        rig.route();
        assert!(matches!(rig.lane.poll_overflow(), Some(Overflow::Drop { .. })));
    }
    rig.hierarchy.set_limits(rig.channel, ChannelLimits { history, ..ChannelLimits::default() }).unwrap();
    rig.route();
    rig.hierarchy.destroy_channel(rig.channel).unwrap();
    rig.route();
    assert!(matches!(rig.lane.poll_overflow(), Some(Overflow::Drop { .. })));
}

#[test]
fn whatever_comes_in_between_nothing_is_missing_and_nothing_comes_twice() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::with_history(1 << 20);
        let mut chronicle = Chronicle::default();
        let (mut says, mut consumers) = (0, BTreeMap::<ProxyKey, (Option<u64>, u64)>::new());
        let check = |taken: (ProxyKey, u32, Option<u64>), consumers: &mut BTreeMap<ProxyKey, (Option<u64>, u64)>| {
            let (key, says, number) = taken;
            assert_eq!(number, Some(u64::from(says) + 1), "seed {seed}");
            let (last, first) = consumers.get_mut(&key).unwrap();
            assert!(number >= Some(*first), "seed {seed}: {key} got {number:?} and began with {first}");
            assert!(
                last.is_none_or(|last| Some(last + 1) == number),
                "seed {seed}: {key} got {number:?} after {last:?}"
            );
            *last = number;
        };
        for _ in 0..600 {
            match random.u8(0..20) {
                0 if consumers.len() < 4 => {
                    let number = u64::from(says) + random.u64(0..20);
                    let (start, first) = match random.u8(0..3) {
                        0 => (StartFrom::First, 0),
                        1 => (StartFrom::Last(random.u64(0..30)), 0),
                        _ => (StartFrom::Number(number), number),
                    };
                    consumers.insert(rig.starting(start), (None, first));
                }
                1 if random.u8(0..5) == 0 => {
                    if let Some(key) = consumers.keys().next().copied() {
                        rig.hierarchy.destroy_proxy(key).unwrap();
                        rig.route();
                        consumers.remove(&key);
                    }
                }
                2..=7 if chronicle.commands.len() < 30 => {
                    assert!(matches!(rig.publish_say(says), Admission::Accepted { .. }), "seed {seed}");
                    says += 1;
                }
                8..=11 => {
                    if let Some(taken) = rig.take_numbered() {
                        check(taken, &mut consumers);
                    }
                }
                12..=15 => chronicle.look(),
                _ => chronicle.answer(&mut rig.lane, rig.now),
            }
            rig.now = rig.now + Duration::from_nanos(random.u64(0..2));
            chronicle.gather(&mut rig.lane);
        }
        // Those that are yet to begin do.
        for _ in 0..25 {
            chronicle.work_until_quiet(&mut rig);
            rig.publish_say(says);
            says += 1;
        }
        assert_eq!(rig.lane.counters().history.missed, 0);
        loop {
            chronicle.work_until_quiet(&mut rig);
            let Some(taken) = rig.take_numbered() else { break };
            check(taken, &mut consumers);
        }
        for (key, (last, _)) in consumers {
            assert!(last == Some(says.into()) || last.is_none(), "seed {seed}: {key} has {last:?} of {says}");
        }
        // What those had that are gone is released now and then.
        (0..20).for_each(|_| rig.advance(Duration::from_secs(1)));
        assert_eq!(rig.memory(), 0, "seed {seed}");
        rig.publish_say(says);
        assert!(rig.lane.outboxes().all(|stats| stats.backlog_events == 1), "all get it at once: seed {seed}");
    }
}

/// A consumer that was full while it caught up had timers' events dropped for all, though nobody is blocked for it.
#[test]
fn a_consumer_that_catches_up_has_no_event_of_a_timer_dropped() {
    let mut rig = Rig::with_history(1 << 20);
    let mut chronicle = Chronicle::default();
    let schedule = TimerSchedule::Every(Duration::from_millis(10));
    let tick = TimerSettings { name: "tick".into(), schedule, priority: None };
    for says in 0..50 {
        rig.publish_say(says);
        chronicle.work_until_quiet(&mut rig);
    }
    rig.hierarchy.set_channel_settings(rig.channel, granted()).unwrap();
    let key = rig.starting(StartFrom::Last(20));
    rig.hierarchy.set_timers(rig.channel, vec![tick]).unwrap();
    rig.route();
    let bound = SettingsPatch {
        start_from: Some(StartFrom::Last(20)),
        max_events_per_consumer: Some(Some(NonZeroU32::MIN)),
        ..full(FullOutbox::Hold)
    };
    rig.hierarchy.set_proxy_settings(key, bound).unwrap();
    rig.route();
    chronicle.gather(&mut rig.lane);
    chronicle.look();
    chronicle.answer(&mut rig.lane, rig.now);
    assert_eq!(rig.stats(key).backlog_events, 1, "it is full, and behind the history");
    rig.advance(Duration::from_millis(10));
    let due = rig.lane.poll_timer(rig.now, &mut 1).unwrap();
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.resize(100, 0);
    rig.lane.classify(&mut pending_event, TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
    let outcome = rig.lane.handle_timer_event(&due, pending_event, &NoFields, rig.now);
    assert_eq!((outcome, rig.stats(key).discards.total()), (TimerOutcome::Published, 0));
}
