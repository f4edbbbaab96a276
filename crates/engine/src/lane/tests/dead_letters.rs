//! An event that its consumer never takes, and a consumer that takes none.

use super::*;
use core::num::NonZeroU64;

/// How deliveries of an event fail.
#[derive(Clone, Copy, Debug)]
enum Fails {
    With(Outcome),
    /// It is never answered.
    Mute,
    /// Its connection takes nothing while it is to be written.
    Blocked,
}

const WAYS: [Fails; 4] =
    [Fails::With(Outcome::ConnectionLost), Fails::With(Outcome::Refused), Fails::With(Outcome::TimedOut), Fails::Mute];

fn attempts(attempts: u32) -> SettingsPatch {
    SettingsPatch { delivery_attempts: Some(attempts), ..SettingsPatch::default() }
}

fn persistent() -> SettingsPatch {
    SettingsPatch { connection_reliability: Some(Reliability::Persistent), ..SettingsPatch::default() }
}

/// A consumer that takes all events but some, at one lane.
struct Scene {
    rig: Rig,
    key: ProxyKey,
    fails: Fails,
    /// How often each event was tried.
    tries: Vec<u8>,
    taken: Vec<u8>,
}

impl Scene {
    fn new(kind: ProxyKind, patch: SettingsPatch, fails: Fails) -> Self {
        let mut rig = Rig::plain();
        let side = Side::Consumers;
        let proxy = rig.hierarchy.create_proxy(rig.channel, side, AdminId::DEFAULT, Form(1), kind).unwrap();
        let key = ProxyKey { channel: rig.channel, proxy };
        rig.hierarchy.connect(key, Some(Peer(7)), OutputForm(0)).unwrap();
        rig.hierarchy.set_proxy_settings(key, patch).unwrap();
        rig.route();
        Self { rig, key, fails, tries: vec![], taken: vec![] }
    }

    fn plain(patch: SettingsPatch, fails: Fails) -> Self {
        Self::new(ProxyKind::default(), patch, fails)
    }

    /// Delivers what can be delivered now.
    fn deliver(&mut self, is_bad: &dyn Fn(u8) -> bool) {
        let mut events = Vec::new();
        while let Some(delivery) = self.rig.lane.poll_delivery(self.rig.now, &mut events) {
            let numbers: Vec<u8> = events
                .drain(..)
                .map(|event| {
                    let number = event.bytes[0];
                    self.rig.lane.release(event);
                    number
                })
                .collect();
            self.tries.extend(&numbers);
            let (outbox, serial, now) = (delivery.outbox, delivery.serial, self.rig.now);
            if !numbers.iter().any(|number| is_bad(*number)) {
                self.taken.extend(numbers);
                self.rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, now);
                continue;
            }
            match self.fails {
                Fails::With(outcome) => self.rig.lane.handle_outcome(outbox, serial, outcome, now),
                Fails::Mute => {}
                Fails::Blocked => self.rig.lane.handle_outcome(outbox, serial, Outcome::NoRoom, now),
            }
        }
    }

    /// The same for so many seconds, whenever something is due.
    fn run(&mut self, seconds: u64, is_bad: impl Fn(u8) -> bool) {
        let end = self.rig.now + Duration::from_secs(seconds);
        self.deliver(&is_bad);
        while let Some(due) = self.rig.lane.next_timeout().filter(|due| *due <= end) {
            self.rig.now = self.rig.now.max(due);
            self.rig.lane.handle_timeout(self.rig.now);
            while self.rig.lane.poll_timed_out().is_some() {}
            self.deliver(&is_bad);
        }
        self.rig.now = end;
        self.rig.lane.handle_timeout(end);
        self.deliver(&is_bad);
    }

    fn undeliverable(&self) -> u64 {
        self.rig.stats(self.key).discards.of(DiscardReason::Undeliverable)
    }

    fn backlog(&self) -> u64 {
        self.rig.stats(self.key).backlog_events
    }
}

/// A 3 MB event between small ones went to a consumer with an ORB that takes 2 MiB and answers `MessageError`: nothing behind it arrived,
/// and the consumer was disconnected after 62 s, or with a store stuck for ever. The same where it closes, raises, or does not answer.
#[test]
fn an_event_that_its_consumer_never_takes_is_dropped_when_it_takes_a_later_one() {
    for fails in WAYS {
        for patch in [SettingsPatch::default(), persistent()] {
            let mut scene = Scene::plain(patch, fails);
            (0..6).for_each(|number| _ = scene.rig.publish(number));
            scene.run(200, |number| number == 2);
            assert_eq!(scene.taken, [0, 1, 3, 4, 5], "{fails:?}");
            assert_eq!((scene.undeliverable(), scene.backlog(), scene.rig.memory()), (1, 0, 0), "{fails:?}");
            assert_eq!(scene.rig.stats(scene.key).state, OutboxState::Active, "{fails:?}");
        }
    }
}

#[test]
fn the_attempts_for_an_event_are_as_many_as_are_set_and_take_five_seconds_at_least() {
    for (set, expected, seconds) in [(1, 8, 6), (5, 8, 6), (8, 8, 6), (9, 9, 11), (10, 10, 16)] {
        let mut scene = Scene::plain(attempts(set), Fails::With(Outcome::Refused));
        [7, 1].into_iter().for_each(|number| _ = scene.rig.publish(number));
        scene.run(seconds, |number| number == 7);
        assert!(scene.taken.is_empty(), "{set} attempts within {seconds} s");
        scene.run(1, |number| number == 7);
        assert_eq!(scene.taken, [1], "{set} attempts");
        assert_eq!(scene.tries.iter().filter(|number| **number == 7).count(), expected, "{set} attempts");
    }
}

/// A slow consumer, of 30 s for each attempt, is given up after a minute: the next event has its turn before that.
#[test]
fn before_a_consumer_is_given_up_a_later_event_is_tried() {
    let mut scene = Scene::plain(SettingsPatch::default(), Fails::Mute);
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    scene.run(95, |number| number == 0);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[1, 2][..], 1));
    // One that takes none is given up as ever, at the failure of what was tried instead.
    for fails in WAYS.into_iter().chain([Fails::Blocked]) {
        let mut scene = Scene::plain(SettingsPatch::default(), fails);
        (0..3).for_each(|number| _ = scene.rig.publish(number));
        scene.run(130, |_| true);
        let stats = scene.rig.stats(scene.key);
        assert_eq!((stats.state, stats.discards.of(DiscardReason::Disconnected)), (OutboxState::Disconnected, 3));
        assert_eq!(stats.discards.total(), 3, "{fails:?}");
    }
}

#[test]
fn a_consumer_that_is_ill_loses_nothing_and_gets_everything_in_order_when_it_is_well() {
    for fails in WAYS {
        for batches in [false, true] {
            let patch = SettingsPatch { batch_size_max: NonZeroU32::new(4), push_window: Some(3), ..persistent() };
            let mut scene = Scene::new(ProxyKind { batches, ..ProxyKind::default() }, patch, fails);
            (0..30).for_each(|number| _ = scene.rig.publish(number));
            for (seconds, total) in [(3, 30), (600, 31), (3_600, 32)] {
                scene.run(seconds, |_| true);
                scene.rig.publish(u8::try_from(total).unwrap());
            }
            assert_eq!((scene.undeliverable(), scene.taken.len()), (0, 0), "{fails:?}");
            // Its first attempt after it is well again may be for any of them.
            let outbox = scene.rig.stats(scene.key).outbox;
            scene.rig.lane.resume_outbox(outbox, scene.rig.now);
            let before = scene.rig.stats(scene.key).backlog_events;
            scene.run(60, |_| false);
            let lost = scene.undeliverable();
            assert_eq!(scene.taken.len() as u64 + lost, before, "{fails:?} {batches}");
            // One that does not answer may be well again while a later event is under way, which then proves too much.
            assert!(lost == 0 || (matches!(fails, Fails::Mute) && lost <= 8), "{fails:?} {batches}: {lost}");
            assert!(scene.taken.windows(2).all(|pair| pair[0] < pair[1]), "{fails:?}: {:?}", scene.taken);
        }
    }
}

/// What proves that the consumer is well is the first thing it takes. If that is the oldest, nothing is lost.
#[test]
fn an_event_is_back_in_its_place_when_the_next_is_refused_as_well() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    (0..4).for_each(|number| _ = scene.rig.publish(number));
    scene.run(7, |_| true);
    assert_eq!(scene.tries.split_last_chunk::<3>().unwrap().1, &[0, 0, 1], "the next was tried once");
    scene.run(8, |_| false);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[0, 1, 2, 3][..], 0));
}

#[test]
fn alone_in_the_backlog_an_event_waits_until_another_comes() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::ConnectionLost));
    scene.rig.publish(0);
    scene.run(3_600, |number| number == 0);
    assert_eq!((scene.backlog(), scene.undeliverable()), (1, 0));
    assert!(scene.tries.len() > 500, "it is tried all the time");
    scene.rig.publish(1);
    scene.run(6, |number| number == 0);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[1][..], 1));
}

#[test]
fn without_end_means_without_end() {
    let mut scene = Scene::plain(SettingsPatch { delivery_attempts: Some(0), ..persistent() }, Fails::Mute);
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    scene.run(3_600, |number| number == 0);
    assert_eq!((scene.taken.len(), scene.undeliverable(), scene.backlog()), (0, 0, 3));
    assert!(scene.tries.iter().all(|number| *number == 0));
}

/// Where only one was ever passed over, two in a row blocked everything behind them.
#[test]
fn several_such_events_in_a_row_are_passed_over_each_after_its_attempts() {
    for fails in [Fails::With(Outcome::ConnectionLost), Fails::Mute] {
        let mut scene = Scene::plain(persistent(), fails);
        (0..20).for_each(|number| _ = scene.rig.publish(number));
        scene.run(3_600, |number| (3..9).contains(&number) || number == 11);
        let good: Vec<u8> = (0..20).filter(|number| !(3..9).contains(number) && *number != 11).collect();
        assert_eq!((&scene.taken, scene.undeliverable()), (&good, 7), "{fails:?}");
        for number in (3..9).chain([11]) {
            let tries = scene.tries.iter().filter(|tried| **tried == number).count();
            assert!(tries >= 5, "{number} was tried {tries} times");
        }
    }
}

/// More of them in a row than are counted are a consumer that is ill.
#[test]
fn more_such_events_in_a_row_than_are_counted_wait_as_for_a_consumer_that_is_ill() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::ConnectionLost));
    (0..40).for_each(|number| _ = scene.rig.publish(number));
    scene.run(7_200, |number| number < 30);
    assert_eq!((scene.undeliverable(), scene.backlog(), scene.taken.len()), (0, 40, 0));
    // Each back-off has a handful of attempts at most.
    assert!(scene.tries.len() < 9 * 7_200 / 5, "{}", scene.tries.len());
}

#[test]
fn that_a_connection_takes_nothing_is_no_events_fault() {
    let mut scene = Scene::plain(persistent(), Fails::Blocked);
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    scene.run(3_600, |number| number == 0);
    assert_eq!((scene.taken.len(), scene.undeliverable(), scene.backlog()), (0, 0, 3));
}

/// Every member of the batch that had it was put back, and the batch failed again.
#[test]
fn of_a_batch_that_fails_only_the_event_is_dropped_that_fails_alone() {
    for fails in WAYS {
        for window in [1, 3] {
            for bad in [&[0][..], &[5], &[15], &[3, 4], &[1, 9, 14]] {
                let batch_size_max = NonZeroU32::new(8);
                let patch = SettingsPatch { push_window: Some(window), batch_size_max, ..persistent() };
                let mut scene = Scene::new(ProxyKind { batches: true, ..ProxyKind::default() }, patch, fails);
                (0..16).for_each(|number| _ = scene.rig.publish(number));
                scene.run(2_000, |number| bad.contains(&number));
                // The last has nothing behind it.
                scene.rig.publish(16);
                scene.run(2_000, |number| bad.contains(&number));
                let good: Vec<u8> = (0..17).filter(|number| !bad.contains(number)).collect();
                if window > 1 {
                    // Others may be under way behind it when it fails.
                    scene.taken.sort_unstable();
                    scene.taken.dedup();
                }
                assert_eq!(scene.taken, good, "{fails:?}, window {window}, {bad:?}");
                assert_eq!(scene.undeliverable(), bad.len() as u64, "{fails:?}, window {window}, {bad:?}");
            }
        }
    }
}

/// With several under way at once, the one that failed is not the one at the front.
#[test]
fn it_is_the_event_that_failed_which_is_counted_and_not_the_first_under_way() {
    let mut scene = Scene::plain(SettingsPatch { push_window: Some(8), ..persistent() }, Fails::With(Outcome::Refused));
    (0..12).for_each(|number| _ = scene.rig.publish(number));
    scene.run(60, |number| number == 5);
    assert_eq!(scene.undeliverable(), 1);
    let missing: Vec<u8> = (0..12).filter(|number| !scene.taken.contains(number)).collect();
    assert_eq!(missing, [5]);
}

#[test]
fn by_priority_too_the_event_is_passed_over_that_fails() {
    let order_policy = Some(OrderPolicy::Priority);
    let mut scene = Scene::plain(SettingsPatch { order_policy, ..persistent() }, Fails::With(Outcome::Refused));
    (0..8).for_each(|number| _ = scene.rig.publish(number));
    // What is more important comes all the time, and is taken.
    for _ in 0..60 {
        let mut pending_event = scene.rig.lane.begin_event();
        pending_event.bytes.push(100);
        pending_event.priority = Some(5);
        scene.rig.lane.classify(&mut pending_event, b"domain", b"name");
        scene.rig.lane.handle_event(scene.rig.source, pending_event, &NoFields, scene.rig.now);
        scene.run(1, |number| number == 3);
    }
    scene.taken.retain(|number| *number < 100);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[0, 1, 2, 4, 5, 6, 7][..], 1));
}

/// The event that is tried instead may go before it is tried, or be rejected: that proves nothing.
#[test]
fn what_is_set_aside_goes_back_where_nothing_is_taken_instead() {
    for instead in [Outcome::Rejected, Outcome::Untranslatable, Outcome::Filtered, Outcome::FilterFailed] {
        let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
        (0..2).for_each(|number| _ = scene.rig.publish(number));
        let mut tried = 0;
        for _ in 0..100 {
            while let Some((_, number, outbox, serial)) = scene.rig.poll() {
                let outcome = if number == 0 { Outcome::Refused } else { instead };
                tried += u32::from(number == 1);
                scene.rig.lane.handle_outcome(outbox, serial, outcome, scene.rig.now);
            }
            scene.rig.advance(Duration::from_millis(500));
        }
        assert_eq!((tried, scene.undeliverable(), scene.backlog()), (1, 0, 1), "{instead:?}");
        scene.rig.publish(2);
        scene.run(6, |number| number == 0);
        assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[2][..], 1), "{instead:?}");
    }
    // Its connection takes nothing when it is to be tried, and it expires before there is room again.
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    scene.rig.publish(0);
    let mut pending_event = scene.rig.lane.begin_event();
    pending_event.bytes.push(1);
    pending_event.timeout = Some(Duration::from_secs(20));
    scene.rig.lane.handle_event(scene.rig.source, pending_event, &NoFields, scene.rig.now);
    let mut blocked = None;
    while blocked.is_none() {
        while let Some((_, number, outbox, serial)) = scene.rig.poll() {
            let outcome = if number == 0 { Outcome::Refused } else { Outcome::NoRoom };
            blocked = blocked.or((number == 1).then_some(outbox));
            scene.rig.lane.handle_outcome(outbox, serial, outcome, scene.rig.now);
        }
        scene.rig.advance(Duration::from_secs(1));
    }
    scene.rig.advance(Duration::from_secs(20));
    scene.rig.lane.resume_outbox(blocked.unwrap(), scene.rig.now);
    scene.run(6, |_| false);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[0][..], 0));
    // Suspended before it is tried.
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    (0..2).for_each(|number| _ = scene.rig.publish(number));
    while scene.rig.answer(Outcome::Refused) != Some(1) {
        scene.rig.advance(Duration::from_secs(1));
    }
    scene.rig.hierarchy.suspend(scene.key).unwrap();
    scene.rig.route();
    scene.run(60, |_| false);
    scene.rig.hierarchy.resume(scene.key).unwrap();
    scene.rig.route();
    scene.run(60, |_| false);
    assert_eq!((scene.taken.as_slice(), scene.undeliverable()), (&[0, 1][..], 0));
}

/// Each attempt to connect to a consumer that was down counted for the event at the front: one that came back between the attempt for it
/// and that for the next lost it.
#[test]
fn a_consumer_that_cannot_be_reached_says_nothing_of_the_event() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Unreachable));
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    scene.run(200, |number| number == 0);
    assert_eq!((scene.taken.len(), scene.undeliverable(), scene.backlog()), (0, 0, 3));
    assert!(scene.tries.iter().all(|number| *number == 0), "{:?}", scene.tries);
    scene.run(60, |_| false);
    assert_eq!(scene.taken, [0, 1, 2]);
}

#[test]
fn a_client_that_cannot_be_given_what_it_pulls_says_nothing_of_the_event() {
    let mut scene = Scene::new(ProxyKind { pull: true, ..ProxyKind::default() }, persistent(), Fails::Mute);
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    for _ in 0..100 {
        scene.rig.lane.await_events(scene.key, 1, scene.rig.now).unwrap();
        assert_eq!(scene.rig.answer(Outcome::ConnectionLost), Some(0));
        scene.rig.advance(Duration::from_secs(1));
    }
    assert_eq!((scene.undeliverable(), scene.backlog()), (0, 3));
}

#[test]
fn an_undeliverable_event_is_complete_as_dropped_for_that_reason() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    let watch = NonZeroU64::new(9).unwrap();
    let mut pending_event = scene.rig.lane.begin_event();
    pending_event.bytes.push(0);
    (pending_event.watch, pending_event.watch_each) = (Some(watch), true);
    scene.rig.lane.classify(&mut pending_event, b"domain", b"name");
    scene.rig.lane.handle_event(scene.rig.source, pending_event, &NoFields, scene.rig.now);
    scene.rig.publish(1);
    scene.run(10, |number| number == 0);
    let how = Disposition::Dropped(DiscardReason::Undeliverable);
    let reports: Vec<Completion> = core::iter::from_fn(|| scene.rig.lane.poll_completion()).collect();
    assert_eq!(
        reports[2..],
        [Completion::ForConsumer { watch, consumer: scene.key, how }, Completion::ForAll { watch }]
    );
}

#[test]
fn an_undeliverable_event_is_announced_once_until_none_was_for_a_minute() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    let mut announced = Vec::new();
    for wait in [0, 20, 100] {
        scene.run(wait, |number| number == 0);
        (0..2).for_each(|number| _ = scene.rig.publish(number));
        scene.run(10, |number| number == 0);
        let of_them = scene.rig.notices().into_iter().filter(|notice| match notice {
            Notice::EventUndeliverable { key, event_type, .. } => {
                assert!(*key == scene.key && *event_type != TypeId::OTHER);
                true
            }
            _ => false,
        });
        announced.push(of_them.count());
    }
    assert_eq!((announced.as_slice(), scene.undeliverable()), (&[1, 0, 1][..], 3));
}

#[test]
fn an_undeliverable_event_goes_to_the_channel_that_its_own_names_for_dead_letters() {
    let mut scene = Scene::plain(persistent(), Fails::With(Outcome::Refused));
    let rig = &mut scene.rig;
    let grave = rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let (side, kind) = (Side::Consumers, ProxyKind::default());
    let proxy = rig.hierarchy.create_proxy(grave, side, AdminId::DEFAULT, Form(1), kind).unwrap();
    let reader = ProxyKey { channel: grave, proxy };
    rig.hierarchy.connect(reader, Some(Peer(8)), OutputForm(0)).unwrap();
    let limits = ChannelLimits { dead_letters: Some(grave), ..ChannelLimits::default() };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    rig.route();
    (0..3).for_each(|number| _ = scene.rig.publish(number));
    scene.run(10, |number| number == 1);
    let dead = scene.rig.lane.poll_dead_letter().unwrap();
    assert_eq!((dead.event.bytes.as_slice(), dead.consumer, dead.to), (&[1][..], scene.key, grave));
    assert!(scene.rig.lane.poll_dead_letter().is_none());
    let mut pending_event = scene.rig.lane.begin_event();
    pending_event.bytes.extend_from_slice(&dead.event.bytes);
    scene.rig.lane.classify(&mut pending_event, b"domain", b"name");
    scene.rig.lane.release(dead.event);
    let admitted = scene.rig.lane.handle_dead_letter(grave, pending_event, &NoFields, scene.rig.now);
    assert_eq!(admitted, Admission::Accepted { destinations: 1 });
    // There it is an event like any other, and its channel names none.
    scene.rig.publish(4);
    let (key, number, outbox, serial) = core::iter::from_fn(|| scene.rig.poll()).find(|got| got.0 == reader).unwrap();
    assert_eq!((key, number), (reader, 1));
    scene.rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, scene.rig.now);
    let mut pending_event = scene.rig.lane.begin_event();
    pending_event.bytes.push(9);
    let gone = ChannelId(99);
    let admitted = scene.rig.lane.handle_dead_letter(gone, pending_event, &NoFields, scene.rig.now);
    assert_eq!(admitted, Admission::Refused(Refusal::ChannelNotFound { channel: gone }));
}

/// A consumer with its backlog elsewhere, behind the first event: large events that it never takes, and what was written of them.
struct Elsewhere {
    rig: Rig,
    key: ProxyKey,
    stored: VecDeque<(Time, Vec<u8>)>,
}

impl Elsewhere {
    fn new(large: u64) -> Self {
        let mut rig = Rig::plain();
        rig.lane.allow_overflow();
        let limits = ChannelLimits { overflow_budget_bytes: 1 << 20, ..budget(20_000) };
        rig.hierarchy.set_limits(rig.channel, limits).unwrap();
        let key = rig.consumer(persistent());
        let mut scene = Self { rig, key, stored: VecDeque::new() };
        (0..large).for_each(|_| scene.publish(&[0; 12_000]));
        scene
    }

    fn publish(&mut self, bytes: &[u8]) {
        self.rig.publish_bytes(bytes);
        self.work();
    }

    /// Writes what is to be kept, and brings back one event where some are wanted.
    fn work(&mut self) {
        let Self { rig, stored, .. } = self;
        while let Some(errand) = rig.lane.poll_overflow() {
            match errand {
                Overflow::Keep { event, .. } => {
                    stored.push_back((event.arrived, event.bytes.clone()));
                    rig.lane.note_stored(event);
                }
                Overflow::Fetch { outbox, .. } => {
                    if let Some((arrived, bytes)) = stored.pop_front() {
                        let mut pending_event = rig.lane.begin_event();
                        pending_event.bytes.extend_from_slice(&bytes);
                        pending_event.arrived = arrived;
                        rig.lane.classify(&mut pending_event, b"domain", b"name");
                        rig.lane.return_event((outbox, 0), (rig.source, None), pending_event, &NoFields, rig.now);
                    }
                    rig.lane.end_return(outbox, 0, rig.now);
                }
                _ => {}
            }
        }
    }

    /// Lets so many tenths of a second pass. Says which events were taken, and how many were in memory at most.
    fn run(&mut self, tenths: u32) -> (Vec<u8>, u64) {
        let (mut taken, mut most) = (Vec::new(), 0);
        for _ in 0..tenths {
            self.work();
            while let Some((_, number, outbox, serial)) = self.rig.poll() {
                let outcome = if number == 0 { Outcome::ConnectionLost } else { Outcome::Delivered };
                taken.extend((number > 0).then_some(number));
                self.rig.lane.handle_outcome(outbox, serial, outcome, self.rig.now);
            }
            let stats = self.rig.stats(self.key);
            most = most.max(stats.backlog_events - stats.elsewhere_events);
            self.rig.advance(Duration::from_millis(100));
        }
        (taken, most)
    }
}

/// The large event kept its outbox too heavy for what was elsewhere to be brought back: alone in memory it waited for ever. Later two such
/// events did, which were both in memory then.
#[test]
fn what_is_behind_it_may_be_elsewhere() {
    for large in [1, 2, 8] {
        let mut scene = Elsewhere::new(large);
        scene.publish(&[1; 10]);
        assert_eq!(scene.rig.lane.counters().overflow.stored, large);
        let (taken, _) = scene.run(2_000);
        let undeliverable = scene.rig.stats(scene.key).discards.of(DiscardReason::Undeliverable);
        assert_eq!((taken, undeliverable, scene.rig.memory()), (vec![1], large, 0), "{large}");
    }
}

/// A consumer that takes none of them has not all of them brought into memory, one large event after the other.
#[test]
fn of_what_is_elsewhere_no_more_is_brought_back_for_an_ill_consumer_than_is_counted() {
    let mut scene = Elsewhere::new(30);
    assert_eq!(scene.run(5_000), (vec![], 9));
    assert_eq!(scene.rig.stats(scene.key).backlog_events, 30);
}
