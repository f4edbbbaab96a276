use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::TopicQueues;
use crate::{Discipline, Time, TopicSettings};

fn share(share: u32) -> TopicSettings {
    TopicSettings { share, ..TopicSettings::default() }
}

fn share_within(share: u32, deadline: Duration) -> TopicSettings {
    TopicSettings { share, deadline: Some(deadline), ..TopicSettings::default() }
}

/// A lane with the names of its topics as messages.
fn lane<const N: usize>(topics: [(&'static str, TopicSettings); N]) -> (TopicQueues<&'static str>, [u32; N]) {
    let mut turns = TopicQueues::new(Discipline::Shares);
    let mut order = 0..;
    let slots = topics.map(|(_, settings)| turns.add(settings, order.next().unwrap()));
    (turns, slots)
}

/// What `count` turns give while each of the topics has messages waiting all the time.
fn backlogged<const N: usize>(topics: [(&'static str, TopicSettings); N], count: usize) -> Vec<&'static str> {
    let (mut turns, slots) = lane(topics);
    let names = topics.map(|(name, _)| name);
    for (slot, name) in slots.iter().zip(names) {
        (0..count).for_each(|_| turns.push(*slot, 0, name, Time(0)));
    }
    (0..count).map(|_| turns.pop().unwrap()).collect()
}

// ---- the examples of Tempo, §IV.B ----

#[test]
fn topics_with_rates_2_and_3_go_by_one_of_the_schedules_that_the_paper_lists() {
    // Figure 5(a). Where deadlines are equal either may go first; which it is here is the topics' order.
    let (t1, t2) = (("T1", share(2)), ("T2", share(3)));
    assert_eq!(backlogged([t1, t2], 7), ["T2", "T1", "T2", "T1", "T2", "T2", "T1"]);
    assert_eq!(backlogged([t2, t1], 7), ["T2", "T1", "T2", "T2", "T1", "T2", "T1"]);
}

#[test]
fn with_its_deadline_tightened_topic_1_goes_by_the_only_schedule_there_is() {
    // Figure 5(b).
    let t1 = ("T1", share_within(2, Duration::from_millis(100)));
    let t2 = ("T2", share(3));
    let only = ["T1", "T2", "T1", "T2", "T2", "T1", "T2"];
    assert_eq!(backlogged([t1, t2], 7), only);
    assert_eq!(backlogged([t2, t1], 7), only);
}

#[test]
fn a_tightened_deadline_does_not_change_the_share() {
    let t1 = ("T1", share_within(2, Duration::from_millis(1)));
    let schedule = backlogged([t1, ("T2", share(3))], 5_000);
    for (round, five) in schedule.chunks(5).enumerate() {
        assert_eq!(five.iter().filter(|name| **name == "T1").count(), 2, "round {round}");
    }
}

#[test]
fn a_rare_and_urgent_topic_goes_before_a_backlog_of_frequent_ones() {
    let alarm = share_within(1, Duration::from_millis(1));
    let (mut turns, [alarms, readings]) = lane([("alarm", alarm), ("reading", share(100))]);
    (0..50).for_each(|_| turns.push(readings, 0, "reading", Time(0)));
    (0..20).for_each(|_| assert_eq!(turns.pop(), Some("reading")));
    turns.push(alarms, 0, "alarm", Time(0));
    assert_eq!(turns.pop(), Some("alarm"));
    // Its share is one message a second, though: a second one waits until the readings have had theirs.
    turns.push(alarms, 0, "alarm", Time(0));
    let before = (0..).take_while(|_| turns.pop() == Some("reading")).count();
    assert_eq!(before, 30);
}

// ---- messages of one topic ----

#[test]
fn the_highest_priority_goes_first_and_equals_as_they_came() {
    let mut turns = TopicQueues::new(Discipline::Shares);
    let topic = turns.add(share(1), 0);
    for (priority, message) in [(0, "a"), (5, "b"), (-1, "c"), (5, "d"), (0, "e")] {
        turns.push(topic, priority, message, Time(0));
    }
    let schedule: Vec<_> = core::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(schedule, ["b", "d", "a", "e", "c"]);
}

#[test]
fn a_message_of_high_priority_does_not_get_its_topic_more_turns() {
    let (mut turns, [a, b]) = lane([("a", share(10)), ("b", share(10))]);
    for _ in 0..4 {
        turns.push(a, i16::MAX, "a", Time(0));
        turns.push(b, 0, "b", Time(0));
    }
    let schedule: Vec<_> = core::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(schedule, ["a", "b", "a", "b", "a", "b", "a", "b"]);
}

// ---- shares ----

/// A random lane in which the first topics are always backlogged and the others come and go. After each turn, `look` gets how far virtual
/// time is and how many messages each topic has had.
fn random_lane(seed: u64, mut look: impl FnMut(&[TopicSettings], usize, u128, &[u64])) {
    let mut random = fastrand::Rng::with_seed(seed);
    let settings: Vec<TopicSettings> = (0..random.usize(2..7))
        .map(|_| {
            let share = if random.bool() { random.u32(1..=10) } else { random.u32(1..=1_000_000) };
            let deadline = Duration::from_nanos(random.u64(1..=u64::from(1_000_000_000 / share)));
            TopicSettings { share, deadline: random.bool().then_some(deadline), ..TopicSettings::default() }
        })
        .collect();
    let always = random.usize(1..=settings.len());
    let mut turns = TopicQueues::new(Discipline::Shares);
    let slots: Vec<u32> = settings.iter().zip(0..).map(|(settings, order)| turns.add(*settings, order)).collect();
    for (topic, slot) in slots.iter().enumerate().take(always) {
        (0..2).for_each(|_| turns.push(*slot, 0, topic, Time(0)));
    }
    let mut served = vec![0; settings.len()];
    for _ in 0..2_000 {
        for (topic, slot) in slots.iter().enumerate().skip(always) {
            if random.u8(..4) == 0 {
                (0..random.usize(..3)).for_each(|_| turns.push(*slot, 0, topic, Time(0)));
            }
        }
        let topic = turns.pop().unwrap();
        served[topic] += 1;
        if topic < always {
            turns.push(slots[topic], 0, topic, Time(0));
        }
        look(&settings, always, turns.virtual_time.now(), &served);
    }
}

#[test]
fn over_any_backlogged_stretch_each_topic_gets_its_share_within_one_message() {
    const PICOS: u128 = 1_000_000_000_000;
    for seed in 0..100 {
        // The highest and lowest that each topic was ahead of its share so far, in messages times PICOS.
        let mut ahead: Vec<(i128, i128)> = Vec::new();
        random_lane(seed, |settings, always, virtual_time, served| {
            ahead.resize(always, (0, 0));
            for (topic, (most, least)) in ahead.iter_mut().enumerate() {
                let due = i128::try_from(virtual_time * u128::from(settings[topic].share)).unwrap();
                let now = i128::from(served[topic]) * PICOS as i128 - due;
                *most = (*most).max(now);
                *least = (*least).min(now);
                // Any stretch lies between two moments, so the spread over all moments bounds it. What is rounded is less
                // than a picosecond of virtual time, which is a millionth of a message at most.
                let one = PICOS as i128 + i128::from(settings[topic].share);
                assert!(
                    *most - *least <= one,
                    "seed {seed}, topic {topic}: {} millionths",
                    (*most - *least) / 1_000_000
                );
            }
        });
    }
}

#[test]
fn any_two_backlogged_topics_differ_by_no_more_than_a_message_of_each() {
    for seed in 100..200 {
        random_lane(seed, |settings, always, _, served| {
            for a in 0..always {
                for b in 0..a {
                    // |served a / share a - served b / share b| <= 1 / share a + 1 / share b
                    let [of_a, of_b] = [(a, b), (b, a)]
                        .map(|(one, other)| i128::from(served[one]) * i128::from(settings[other].share));
                    let bound = i128::from(settings[a].share) + i128::from(settings[b].share);
                    assert!((of_a - of_b).abs() <= bound + 1, "seed {seed}: {a} and {b}");
                }
            }
        });
    }
}

#[test]
fn what_a_topic_does_not_use_goes_to_the_others_by_their_shares() {
    let (mut turns, [a, b, _idle]) = lane([("a", share(1)), ("b", share(3)), ("idle", share(1_000))]);
    for _ in 0..100 {
        turns.push(a, 0, "a", Time(0));
        turns.push(b, 0, "b", Time(0));
    }
    let schedule: Vec<_> = (0..100).map(|_| turns.pop().unwrap()).collect();
    assert_eq!(schedule.iter().filter(|name| **name == "a").count(), 25);
    // Alone, one has every turn.
    let rest: Vec<_> = core::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(rest.len(), 100);
    assert_eq!(turns.len(), 0);
}

#[test]
fn an_idle_topic_cannot_save_up() {
    let (mut turns, [busy, idle]) = lane([("busy", share(10)), ("idle", share(10))]);
    (0..1_000).for_each(|_| turns.push(busy, 0, "busy", Time(0)));
    (0..500).for_each(|_| assert_eq!(turns.pop(), Some("busy")));
    (0..10).for_each(|_| turns.push(idle, 0, "idle", Time(0)));
    let schedule: Vec<_> = (0..20).map(|_| turns.pop().unwrap()).collect();
    for (at, two) in schedule.chunks(2).enumerate() {
        assert_ne!(two[0], two[1], "turns {at}: {schedule:?}");
    }
}

#[test]
fn a_topic_that_never_has_two_messages_waiting_gets_no_more_than_its_share() {
    // Its next message comes as soon as the one before it was served. A deadline counted from then on would have it
    // served every other time.
    let urgent = share_within(1, Duration::from_micros(1));
    let (mut turns, [a, b]) = lane([("a", urgent), ("b", share(9))]);
    (0..1_000).for_each(|_| turns.push(b, 0, "b", Time(0)));
    turns.push(a, 0, "a", Time(0));
    let mut served = BTreeMap::new();
    for _ in 0..100 {
        let name = turns.pop().unwrap();
        *served.entry(name).or_insert(0) += 1;
        if name == "a" {
            turns.push(a, 0, "a", Time(0));
        }
    }
    assert_eq!(served, BTreeMap::from([("a", 10), ("b", 90)]));
}

#[test]
fn when_nothing_waits_any_more_all_are_quits() {
    let (mut turns, [a, b]) = lane([("a", share_within(1, Duration::from_micros(1))), ("b", share(1_000))]);
    for _ in 0..3 {
        turns.push(a, 0, "a", Time(0));
        assert_eq!(turns.pop(), Some("a"));
    }
    turns.push(b, 0, "b", Time(0));
    turns.push(a, 0, "a", Time(0));
    assert_eq!([turns.pop(), turns.pop()], [Some("a"), Some("b")]);
}

// ---- topics that change while messages wait ----

#[test]
fn a_changed_share_counts_from_the_next_turn_on() {
    let (mut turns, [a, b]) = lane([("a", share(10)), ("b", share(10))]);
    for _ in 0..100 {
        turns.push(a, 0, "a", Time(0));
        turns.push(b, 0, "b", Time(0));
    }
    (0..10).for_each(|_| assert!(turns.pop().is_some()));
    turns.set(a, share(30));
    let schedule: Vec<_> = (0..40).map(|_| turns.pop().unwrap()).collect();
    let of_a = schedule.iter().filter(|name| **name == "a").count();
    assert!((29..=31).contains(&of_a), "{of_a} of 40");
}

#[test]
fn messages_that_are_given_to_another_topic_keep_their_order() {
    let mut turns = TopicQueues::new(Discipline::Shares);
    let [a, b] = [turns.add(share(1), 0), turns.add(share(1), 1)];
    turns.push(a, 0, 1, Time(0));
    turns.push(b, 0, 2, Time(0));
    turns.push(a, 0, 3, Time(0));
    turns.push(a, 4, 4, Time(0));
    let mut of_a = Vec::new();
    turns.take_all(a, &mut of_a);
    turns.remove(a);
    assert_eq!((of_a.len(), turns.len()), (3, 1));
    of_a.into_iter().rev().for_each(|waiting| turns.put_back(b, waiting));
    let schedule: Vec<_> = core::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(schedule, [4, 1, 2, 3]);
    assert_eq!(turns.len(), 0);
}

// ---- the other disciplines ----

const UNIT: Duration = Duration::from_millis(100);

/// Jobs that are released together, each its execution time and deadline in units, done one after the other. Says in which
/// order, from 1, and how late the latest is.
fn schedule(discipline: Discipline, jobs: &[(u32, u32, i16)]) -> (Vec<usize>, i64) {
    let mut turns = TopicQueues::new(discipline);
    for (job, (work, deadline, criticality)) in jobs.iter().enumerate() {
        let settings = TopicSettings {
            share: 1,
            deadline: Some(UNIT * *deadline),
            execution_time: UNIT * *work,
            criticality: *criticality,
        };
        settings.check().unwrap();
        let slot = turns.add(settings, job as u64);
        turns.push(slot, 0, job, Time(7));
    }
    let (mut now, mut latest) = (0, i64::MIN);
    let order = core::iter::from_fn(|| {
        let job = turns.pop()?;
        now += i64::from(jobs[job].0);
        latest = latest.max(now - i64::from(jobs[job].1));
        Some(job + 1)
    });
    (order.collect(), latest)
}

/// G. C. Buttazzo, Hard Real-Time Computing Systems, 3.2: Jackson's algorithm on a set that is feasible, and on one that
/// is not.
const FEASIBLE: [(u32, u32, i16); 5] = [(1, 3, 0), (1, 10, 0), (1, 7, 0), (3, 8, 0), (2, 5, 0)];
const INFEASIBLE: [(u32, u32, i16); 5] = [(1, 2, 0), (2, 5, 0), (1, 4, 0), (4, 8, 0), (2, 6, 0)];

#[test]
fn earliest_deadline_gives_the_textbook_schedules() {
    assert_eq!(schedule(Discipline::EarliestDeadline, &FEASIBLE), (vec![1, 5, 3, 4, 2], -1));
    assert_eq!(schedule(Discipline::EarliestDeadline, &INFEASIBLE), (vec![1, 3, 2, 5, 4], 2));
}

#[test]
fn least_laxity_puts_a_long_job_before_a_short_one_with_an_earlier_deadline() {
    // Laxities 2, 9, 6, 5, 3.
    assert_eq!(schedule(Discipline::LeastLaxity, &FEASIBLE).0, [1, 5, 4, 3, 2]);
}

#[test]
fn maximum_urgency_keeps_the_critical_deadline_when_not_all_can_be_kept() {
    // D. B. Stewart, P. K. Khosla, Real-Time Scheduling of Sensor-Based Control Systems: under a transient overload the
    // critical set is what meets its deadlines; among equals least laxity decides, then the fixed order.
    let mut jobs = INFEASIBLE;
    jobs[3].2 = 1;
    assert_eq!(schedule(Discipline::MaximumUrgency, &jobs).0, [4, 1, 2, 3, 5]);
    let on_time = |discipline| {
        let mut now = 0;
        schedule(discipline, &jobs).0.iter().any(|job| {
            now += jobs[job - 1].0;
            *job == 4 && now <= jobs[3].1
        })
    };
    assert!(on_time(Discipline::MaximumUrgency));
    assert!(!on_time(Discipline::EarliestDeadline));
}

#[test]
fn a_deadline_counts_from_the_arrival_of_the_message() {
    let mut turns = TopicQueues::new(Discipline::EarliestDeadline);
    let slow = turns.add(share(10), 0);
    let fast = turns.add(share(1_000), 1);
    turns.push(slow, 0, "slow", Time(0));
    turns.push(fast, 0, "fast, in time", Time(98_000_000));
    turns.push(fast, 0, "fast, too late", Time(99_500_000));
    assert_eq!(turns.pop(), Some("fast, in time"));
    assert_eq!(turns.pop(), Some("slow"));
    assert_eq!(turns.pop(), Some("fast, too late"));
}

#[test]
fn another_discipline_counts_at_once() {
    let mut turns = TopicQueues::new(Discipline::Shares);
    let [a, b] = [turns.add(share(100), 0), turns.add(share(1), 1)];
    turns.push(b, 0, "b", Time(0));
    turns.push(a, 0, "a", Time(2_000_000_000));
    turns.set_discipline(Discipline::EarliestDeadline);
    assert_eq!([turns.pop(), turns.pop()], [Some("b"), Some("a")]);
}

// ---- a naive model beside it ----

/// The same rules with lists that are searched through. Only with shares that divide a second into whole picoseconds: of
/// others, deadlines that are equal as fractions may be a picosecond apart once virtual time was rounded.
#[derive(Default)]
struct Model {
    discipline: Discipline,
    topics: BTreeMap<u32, ModelTopic>,
    now_virtual: u128,
    serial: u64,
}

struct ModelTopic {
    settings: TopicSettings,
    start: u128,
    /// Priority, serial, arrival, message.
    messages: Vec<(i16, u64, u64, u64)>,
}

const SECOND: u128 = 1_000_000_000_000;
const SHARES: [u32; 9] = [1, 2, 4, 5, 8, 10, 50, 1_000, 1_000_000];

impl Model {
    fn push(&mut self, topic: u32, priority: i16, message: u64, now: u64) {
        let topic = self.topics.get_mut(&topic).unwrap();
        if topic.messages.is_empty() {
            topic.start = topic.start.max(self.now_virtual);
        }
        topic.messages.push((priority, self.serial, now, message));
        self.serial += 1;
    }

    fn next_of(topic: &ModelTopic) -> usize {
        let rank = |at: &usize| (-i32::from(topic.messages[*at].0), topic.messages[*at].1);
        (0..topic.messages.len()).min_by_key(rank).unwrap()
    }

    fn deadline(topic: &ModelTopic) -> u128 {
        let within = topic.settings.deadline.map(|within| within.as_nanos() * (SECOND / 1_000_000_000));
        topic.start + within.unwrap_or(SECOND / u128::from(topic.settings.share))
    }

    fn pop(&mut self) -> Option<u64> {
        let key = |topic: &ModelTopic| {
            let within = topic
                .settings
                .deadline
                .unwrap_or(Duration::from_nanos(1_000_000_000 / u64::from(topic.settings.share)));
            let arrived = topic.messages[Self::next_of(topic)].2;
            let due = i128::from(arrived) + within.as_nanos() as i128;
            let lax = due - topic.settings.execution_time.as_nanos() as i128;
            match self.discipline {
                Discipline::Shares => (0, Self::deadline(topic) as i128),
                Discipline::EarliestDeadline => (0, due),
                Discipline::LeastLaxity => (0, lax),
                Discipline::MaximumUrgency => (-i32::from(topic.settings.criticality), lax),
            }
        };
        let waiting = self.topics.iter().filter(|(_, topic)| !topic.messages.is_empty());
        let slot = *waiting.min_by_key(|(_, topic)| key(topic))?.0;
        let discipline = self.discipline;
        let topic = self.topics.get_mut(&slot).unwrap();
        if discipline == Discipline::Shares {
            self.now_virtual = self.now_virtual.max(Self::deadline(topic));
        }
        topic.start += SECOND / u128::from(topic.settings.share);
        let next = Self::next_of(topic);
        let message = topic.messages.remove(next).3;
        if self.topics.values().all(|topic| topic.messages.is_empty()) {
            self.topics.values_mut().for_each(|topic| topic.start = self.now_virtual);
        }
        Some(message)
    }
}

fn random_settings(random: &mut fastrand::Rng) -> TopicSettings {
    let share = SHARES[random.usize(..SHARES.len())];
    let deadline = Duration::from_nanos(random.u64(1..=u64::from(1_000_000_000 / share)));
    TopicSettings {
        share,
        deadline: random.bool().then_some(deadline),
        execution_time: Duration::from_nanos(random.u64(..2_000_000)),
        criticality: random.i16(-1..=1),
    }
}

#[test]
fn agrees_with_a_naive_model_under_random_operations() {
    let disciplines =
        [Discipline::Shares, Discipline::EarliestDeadline, Discipline::LeastLaxity, Discipline::MaximumUrgency];
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let discipline = disciplines[random.usize(..4)];
        let (mut turns, mut model) = (TopicQueues::new(discipline), Model { discipline, ..Model::default() });
        // The topic's order is its slot, in both.
        for order in 0..random.u64(1..8) {
            let settings = random_settings(&mut random);
            let slot = turns.add(settings, order);
            model.topics.insert(slot, ModelTopic { settings, start: 0, messages: Vec::new() });
        }
        let topics = u32::try_from(model.topics.len()).unwrap();
        let (mut now, mut message) = (0, 0);
        for step in 0..500 {
            now += random.u64(..1_000_000);
            match random.u8(..8) {
                0..4 => {
                    let (topic, priority) = (random.u32(..topics), random.i16(-1..=1));
                    turns.push(topic, priority, message, Time(now));
                    model.push(topic, priority, message, now);
                    message += 1;
                }
                4..7 => assert_eq!(turns.pop(), model.pop(), "seed {seed}, step {step}"),
                _ if random.u8(..4) == 0 => {
                    let (topic, settings) = (random.u32(..topics), random_settings(&mut random));
                    turns.set(topic, settings);
                    model.topics.get_mut(&topic).unwrap().settings = settings;
                }
                _ => {}
            }
            let waiting: usize = model.topics.values().map(|topic| topic.messages.len()).sum();
            assert_eq!(turns.len(), waiting, "seed {seed}, step {step}");
        }
    }
}
