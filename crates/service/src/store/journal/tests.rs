//! The journal beside a naive list of its events, whatever lanes report and in whichever order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::DiscardReason;

use super::*;
use crate::store::tests::pending_event;

const LANES: u32 = 2;
const CHANNELS: u32 = 2;
const CONSUMERS: u32 = 3;

/// An event as the test knows it.
struct Naive {
    channel: ChannelId,
    lane: u32,
    consumers: BTreeSet<ProxyId>,
    /// What its lane is yet to report before confirmations alone are missing.
    reports: VecDeque<Completion>,
    is_awaited: bool,
}

struct Rig {
    journal: Journal,
    lanes: Vec<Link>,
    naive: BTreeMap<u64, Naive>,
    /// Lists of consumers as they are on the disk.
    disk: BTreeMap<u64, BTreeSet<ProxyId>>,
    /// Events of which a lane was notified that all consumers have them.
    notified: BTreeSet<u64>,
    random: fastrand::Rng,
}

fn key(channel: ChannelId, proxy: ProxyId) -> ProxyKey {
    ProxyKey { channel, proxy }
}

fn watch(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

impl Rig {
    fn new(seed: u64) -> Self {
        let waker = Arc::new(Waker::new().unwrap());
        let (introductions, introduced) = mailbox(&waker, LANES as usize);
        let mut reception = Reception {
            waker: Arc::clone(&waker),
            introductions,
            restored: None,
            origins_seen: Vec::new(),
            desk: None,
        };
        let lanes = (0..LANES).map(|lane| {
            let (lane, slot) = link(LaneThread(lane), &waker, &mut reception);
            reception.introductions.send(slot).ok().unwrap();
            lane
        });
        let lanes = lanes.collect();
        let journal = Journal::new(introduced, 1, (1 << 30, DeadLetterLimits { events_max: 0, bytes_max: 0 }));
        Self {
            journal,
            lanes,
            naive: BTreeMap::new(),
            disk: BTreeMap::new(),
            notified: BTreeSet::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn send(&mut self, lane: u32, message: ToStore) {
        self.lanes[lane as usize].messages.send(message).ok().unwrap();
        self.journal.receive();
        for lane in &mut self.lanes {
            while let Some(answer) = lane.answers.take() {
                let FromStore::Completion(number) = answer else { panic!("{answer:?}") };
                assert!(self.notified.insert(number.get()), "once");
            }
        }
    }

    fn publish(&mut self) {
        let Self { random, .. } = self;
        let (channel, lane) = (ChannelId(random.u32(..CHANNELS)), random.u32(..LANES));
        let (source, is_awaited) = (key(channel, ProxyId(9)), random.bool());
        let consumers: BTreeSet<_> = (0..random.u32(1..4)).map(|_| ProxyId(random.u32(..CONSUMERS))).collect();
        let pending_event = pending_event(source, vec![1; random.usize(..100)]);
        self.send(lane, ToStore::Event(Posting { pending_event, posting: 0, is_awaited }));
        self.journal.note_written();
        let Some(FromStore::Stored(event, _)) = self.lanes[lane as usize].answers.take() else { panic!() };
        let number = event.watch.unwrap();
        let begins = consumers.iter().map(|proxy| Completion::Begins { watch: number, consumer: key(channel, *proxy) });
        let begun = [Completion::Begun { watch: number, bridges: 0 }, Completion::ForAll { watch: number }];
        let reports = begins.chain(begun).collect();
        self.naive.insert(number.get(), Naive { channel, lane, consumers, reports, is_awaited });
    }

    fn any(&mut self, is_wanted: impl Fn(&Naive) -> bool) -> Option<u64> {
        let wanted: Vec<u64> =
            self.naive.iter().filter(|(_, event)| is_wanted(event)).map(|(number, _)| *number).collect();
        self.random.choice(wanted)
    }

    /// Reports what is next of an event.
    fn report(&mut self) {
        let Some(number) = self.any(|event| !event.reports.is_empty()) else { return };
        let event = self.naive.get_mut(&number).unwrap();
        let (lane, report) = (event.lane, event.reports.pop_front().unwrap());
        self.send(lane, ToStore::Completion(report));
        self.conclude(number);
    }

    fn confirm(&mut self) {
        let Some(number) = self.any(|event| event.reports.len() <= 1 && !event.consumers.is_empty()) else { return };
        let event = self.naive.get_mut(&number).unwrap();
        let proxy = self.random.choice(event.consumers.iter().copied()).unwrap();
        event.consumers.remove(&proxy);
        let (lane, consumer) = (event.lane, key(event.channel, proxy));
        let how = match self.random.bool() {
            true => Disposition::Delivered,
            false => Disposition::Dropped(DiscardReason::Expired),
        };
        self.send(lane, ToStore::Completion(Completion::ForConsumer { watch: watch(number), consumer, how }));
        self.conclude(number);
    }

    /// A consumer is gone. Events that are on their way into its outbox are not its own any more.
    fn leave(&mut self) {
        let consumer = key(ChannelId(self.random.u32(..CHANNELS)), ProxyId(self.random.u32(..CONSUMERS)));
        let of_it = |event: &Naive| event.channel == consumer.channel && event.consumers.contains(&consumer.proxy);
        let numbers: Vec<u64> =
            self.naive.iter().filter(|(_, event)| of_it(event)).map(|(number, _)| *number).collect();
        let is_its = |report: &Completion| matches!(report, Completion::Begins { consumer: of, .. } if *of == consumer);
        for number in &numbers {
            let event = self.naive.get_mut(number).unwrap();
            event.reports.retain(|report| !is_its(report));
            event.consumers.remove(&consumer.proxy);
        }
        self.send(0, ToStore::Completion(Completion::Gone { consumer }));
        numbers.into_iter().for_each(|number| self.conclude(number));
    }

    /// The event is removed from what is expected, if all consumers have it.
    fn conclude(&mut self, number: u64) {
        let is_over = |event: &Naive| event.reports.is_empty() && event.consumers.is_empty();
        if !self.naive.get(&number).is_some_and(is_over) {
            return;
        }
        let event = self.naive.remove(&number).unwrap();
        assert_eq!(self.notified.remove(&number), event.is_awaited);
    }

    /// Writes what no lane waits for.
    fn tidy(&mut self, at_once: usize) -> bool {
        for (number, consumers) in self.journal.lists(at_once) {
            self.disk.insert(number, consumers.collect());
        }
        for (number, _) in self.journal.gone(at_once) {
            self.disk.remove(&number);
        }
        self.journal.note_tidied(at_once)
    }
}

#[test]
fn each_event_goes_when_all_have_it_and_the_disk_has_the_consumers_of_those_that_stay() {
    for seed in 0..30 {
        let mut rig = Rig::new(seed);
        for _ in 0..4_000 {
            match rig.random.u32(..100) {
                0..20 if rig.naive.len() < 300 => rig.publish(),
                20..70 => rig.report(),
                70..92 => rig.confirm(),
                92..99 => {
                    let at_once = if rig.random.bool() { 3 } else { usize::MAX };
                    rig.tidy(at_once);
                }
                99 if rig.random.u32(..4) == 0 => rig.leave(),
                _ => {}
            }
            assert_eq!(rig.journal.stored().0, rig.naive.len() as u64, "seed {seed}");
        }
        while rig.naive.values().any(|event| !event.reports.is_empty()) {
            rig.report();
        }
        while !rig.tidy(usize::MAX) {}
        assert!(rig.journal.open.is_empty() && rig.journal.unconfirmed.len() == rig.naive.len() as u64, "seed {seed}");
        let expected: BTreeMap<_, _> =
            rig.naive.iter().map(|(number, event)| (*number, event.consumers.clone())).collect();
        assert_eq!(rig.disk, expected, "seed {seed}");
        while !rig.naive.is_empty() {
            rig.confirm();
        }
        rig.tidy(usize::MAX);
        assert_eq!((rig.journal.stored(), rig.disk.len(), rig.journal.has_some()), ((0, 0), 0, false), "seed {seed}");
    }
}

/// A link that was away for days may be removed: what was kept for it goes a batch at a time.
#[test]
fn events_of_a_consumer_that_is_gone_go_no_more_at_a_time_than_are_written() {
    let mut rig = Rig::new(0);
    let (channel, count) = (ChannelId(0), 3 * LATER_MAX as u64);
    for number in 1..=count {
        let event = UnconfirmedEvent { bytes: 100, consumers: vec![ProxyId(1)], awaited_by: None };
        rig.journal.unconfirmed.add(channel, number, &event);
        rig.journal.bytes += event.bytes;
    }
    rig.send(0, ToStore::Completion(Completion::Gone { consumer: key(channel, ProxyId(1)) }));
    let mut batches = 0;
    while rig.journal.has_some() {
        let going = rig.journal.gone(usize::MAX).count();
        assert!((1..=LATER_MAX).contains(&going), "{going}");
        rig.tidy(usize::MAX);
        rig.journal.receive();
        batches += 1;
    }
    assert_eq!((batches, rig.journal.stored()), (3, (0, 0)));
}
