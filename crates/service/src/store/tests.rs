//! The store on a medium that forgets what was not synchronised, tears writes, and fails.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use core::num::NonZeroU64;

use engine::{ChannelId, Draft, Event, ProxyId, ProxyKey, Settled};
use redb::StorageBackend;
use testing::wait_until;

use super::journal::{FromStore, Posting, ToStore, Unkept};
use super::*;
use crate::counters::Counters;
use crate::lane::links::mail::LaneThread;

/// What was asked of a medium since it was synchronised last.
#[derive(Clone, Debug)]
enum Unsynchronised {
    Written(usize, Vec<u8>),
    Resized(usize),
}

/// A medium: what a reader sees, what is left when the power goes, and what may be, in any part.
#[derive(Debug, Default)]
struct State {
    seen: Vec<u8>,
    kept: Vec<u8>,
    unsynchronised: Vec<Unsynchronised>,
    /// Operations until all fail.
    left: Option<u32>,
    /// Synchronisations until one fails: as the kernel does it, which forgets what that was to write and shows it to whoever reads.
    syncs_left: Option<u32>,
    power_cuts: u32,
    /// How often it was asked how large it is.
    asked: u32,
}

/// The number says since which power cut it is used: who used it before is as dead as the process was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium(Arc<Mutex<State>>, u32);

fn apply(to: &mut Vec<u8>, change: &Unsynchronised) {
    match change {
        Unsynchronised::Written(at, octets) => {
            let end = at + octets.len();
            to.resize(to.len().max(end), 0);
            to[*at..end].copy_from_slice(octets);
        }
        Unsynchronised::Resized(len) => to.resize(*len, 0),
    }
}

fn limits(event_bytes_max: u64) -> StoreLimits {
    StoreLimits { event_bytes_max, disk_bytes_max: 1 << 40, sync_interval: Duration::ZERO }
}

impl Medium {
    /// What is configured on it.
    pub(crate) fn image(&self) -> corba::Image {
        let opened = self.clone();
        Disk::on(move || opened.clone()).unwrap().image().unwrap()
    }

    /// A store on it.
    pub(crate) fn store(&self, bell: &Arc<Bell>, counters: &Counters) -> Store {
        let opened = self.clone();
        let disk = Disk::on(move || opened.clone()).unwrap();
        let options = StoreOptions {
            bell,
            counters: counters.of_store(),
            origin: time::now(),
            events: (0, 1),
            limits: limits(1 << 30),
        };
        // Dropped at once, since there are no lanes.
        let (store, _) = Store::start(disk, options).unwrap();
        store
    }

    /// A store on it as a lane sees it, and the events that were there.
    fn lane(&self, event_bytes_max: u64) -> Lane {
        self.limited(limits(event_bytes_max)).with_all()
    }

    fn limited(&self, limits: StoreLimits) -> Lane {
        let opened = self.clone();
        let mut disk = Disk::on(move || opened.clone()).unwrap();
        let events = disk.events().unwrap();
        let (bell, counters) = (Arc::new(Bell::new().unwrap()), Counters::new(1));
        let options = StoreOptions { bell: &bell, counters: counters.of_store(), origin: time::now(), events, limits };
        let (store, mut reception) = Store::start(disk, options).unwrap();
        let (link, seat) = journal::link(LaneThread::MAIN, &bell, &mut reception);
        reception.introductions.post(seat).ok().unwrap();
        Lane { store, link, restored: Vec::new(), counters, _reception: reception }
    }

    /// What is left of it if the power went now.
    fn kept(&self) -> Self {
        let kept = self.with(|state| state.kept.clone());
        Self(Arc::new(Mutex::new(State { seen: kept.clone(), kept, ..State::default() })), 0)
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for something that can fail.
    fn attempt<R>(&self, act: impl FnOnce(&mut State) -> R) -> Result<R, io::Error> {
        self.with(|state| {
            if state.power_cuts != self.1 {
                return Err(io::ErrorKind::NotConnected.into());
            }
            match &mut state.left {
                Some(0) => return Err(io::ErrorKind::StorageFull.into()),
                Some(left) => *left -= 1,
                None => {}
            }
            Ok(act(state))
        })
    }

    fn change(state: &mut State, change: Unsynchronised) {
        apply(&mut state.seen, &change);
        state.unsynchronised.push(change);
    }

    /// Has all operations fail, but so many first.
    pub(crate) fn fail_after(&self, operations: Option<u32>) {
        self.with(|state| state.left = operations);
    }

    /// The power goes, and comes back: of what was not synchronised some is there, some is not, and some is there in part.
    fn lose_power(&mut self, random: &mut fastrand::Rng) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            for change in std::mem::take(&mut state.unsynchronised) {
                match (random.u32(..3), change) {
                    (0, change) => apply(&mut state.kept, &change),
                    (1, Unsynchronised::Written(at, octets)) => {
                        let torn = octets[..random.usize(..=octets.len())].to_vec();
                        apply(&mut state.kept, &Unsynchronised::Written(at, torn));
                    }
                    _ => {}
                }
            }
            state.seen.clone_from(&state.kept);
            state.left = None;
            state.power_cuts
        });
    }
}

/// An event that was there when the store began.
struct Restored {
    number: u64,
    consumers: Option<Arc<[ProxyId]>>,
    record: Vec<u8>,
}

/// A lane that has a store.
struct Lane {
    store: Store,
    link: journal::Link,
    restored: Vec<Restored>,
    counters: Counters,
    _reception: Reception,
}

const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(3), proxy: ProxyId(5) };

fn draft(source: ProxyKey, octets: Vec<u8>) -> Draft {
    let mut draft = Draft::default();
    let event: &mut Event = &mut draft;
    (event.source, event.bytes) = (source, octets);
    draft
}

impl Lane {
    /// Takes the next piece of what there was when the store began. Nothing if there is no more.
    fn take_piece(&mut self) -> bool {
        self.take_piece_within(testing::PATIENCE)
    }

    fn take_piece_within(&mut self, limit: Duration) -> bool {
        let Some(Ok(piece)) = self.link.restored.as_ref().map(|pieces| pieces.recv_timeout(limit)) else {
            return false;
        };
        piece.each(|number, consumers, record| {
            self.restored.push(Restored { number, consumers, record: record.to_vec() });
        });
        true
    }

    /// Takes all of it.
    fn with_all(mut self) -> Self {
        while self.take_piece() {}
        self
    }

    /// Has an event kept.
    fn post(&mut self, octets: Vec<u8>) {
        self.post_from(SOURCE, octets);
    }

    fn post_from(&mut self, source: ProxyKey, octets: Vec<u8>) {
        let draft = draft(source, octets);
        self.link.letters.post(ToStore::Event(Posting { draft, posting: 0, is_awaited: false })).ok().unwrap();
    }

    fn tell(&mut self, settled: Settled) {
        self.link.letters.post(ToStore::Settled(settled)).ok().unwrap();
    }

    /// What became of the event that was posted first and not answered yet: its number, if it is kept.
    fn answer(&mut self) -> Result<NonZeroU64, Unkept> {
        let mut answer = None;
        wait_until("the store to answer", || {
            answer = self.link.answers.take();
            answer.is_some()
        });
        match answer.unwrap() {
            FromStore::Kept(draft, _) => Ok(draft.watch.unwrap()),
            FromStore::Settled(_) => panic!("nobody asked for it"),
            FromStore::NotKept(draft, _, why) => {
                assert_eq!((draft.watch, draft.watch_each), (None, false));
                Err(why)
            }
        }
    }

    /// All have an event.
    fn settle(&mut self, watch: NonZeroU64) {
        self.tell(Settled::Begun { watch, bridges: 0 });
        self.tell(Settled::ForAll { watch });
    }

    fn end(self) {
        let Self { store, link, _reception, .. } = self;
        drop((link, _reception));
        store.end();
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for Medium {
    fn len(&self) -> Result<u64, io::Error> {
        self.attempt(|state| {
            state.asked += 1;
            state.seen.len() as u64
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.attempt(|state| out.copy_from_slice(&state.seen[place(offset)..][..out.len()]))
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.attempt(|state| Self::change(state, Unsynchronised::Resized(place(len))))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.attempt(|state| {
            let unsynchronised = std::mem::take(&mut state.unsynchronised);
            if let Some(left) = &mut state.syncs_left {
                if *left == 0 {
                    state.syncs_left = None;
                    return Err(io::Error::from_raw_os_error(5));
                }
                *left -= 1;
            }
            unsynchronised.iter().for_each(|change| apply(&mut state.kept, change));
            Ok(())
        })?
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.attempt(|state| Self::change(state, Unsynchronised::Written(place(offset), data.to_vec())))
    }
}

fn random_changes(random: &mut fastrand::Rng) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..random.u32(1..20) {
        let key = random.u16(..200).to_be_bytes().to_vec();
        let length = if random.u32(..10) == 0 { random.usize(..20_000) } else { random.usize(..300) };
        let value = random.bool().then(|| (0..length).map(|_| random.u8(..)).collect());
        changes.insert(key, value);
    }
    changes
}

fn with(image: &corba::Image, changes: &Changes) -> corba::Image {
    let mut after = image.clone();
    for (key, value) in changes {
        match value {
            Some(value) => after.insert(key.clone(), value.clone()),
            None => after.remove(key),
        };
    }
    after
}

#[test]
fn a_power_cut_at_any_moment_leaves_each_batch_whole_or_none_of_it_and_what_was_told_is_there() {
    let mut cut_short = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut medium = Medium::default();
        let mut kept = corba::Image::new();
        for _ in 0..8 {
            let opened = medium.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            assert!(disk.image().unwrap() == kept, "what was there before");
            let mut under_way = None;
            let until = random.u32(1..12);
            for batch in 0..until {
                if batch + 1 == until {
                    medium.fail_after(Some(random.u32(..60)));
                }
                let changes = random_changes(&mut random);
                let after = with(&kept, &changes);
                match disk.write(&changes) {
                    Ok(_) => kept = after,
                    Err(_) => {
                        cut_short += 1;
                        under_way = Some(after);
                        break;
                    }
                }
            }
            medium.fail_after(Some(0));
            drop(disk);
            medium.lose_power(&mut random);
            let opened = medium.clone();
            let found = Disk::on(move || opened.clone()).unwrap().image().unwrap();
            if Some(&found) == under_way.as_ref() {
                kept = found;
            } else {
                assert!(found == kept, "what was told to be there");
            }
        }
    }
    assert!(cut_short > 50, "{cut_short} batches were cut short");
}

/// What a synchronisation that failed was to write was in the tree that the next ones, which went well, were built upon: a power cut then
/// took the store with everything in it.
#[test]
fn what_was_promised_after_a_synchronisation_that_failed_is_there_after_a_power_cut() {
    let mut failed = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut medium = Medium::default();
        let mut kept = BTreeMap::new();
        // Those of batches that failed: each may be there or not.
        let mut unsure = Vec::new();
        let mut number = 0;
        for _ in 0..3 {
            let opened = medium.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            for _ in 0..random.u32(1..12) {
                if random.u32(..3) == 0 {
                    medium.with(|state| state.syncs_left = Some(random.u32(..3)));
                }
                let events: Vec<(u64, Vec<u8>)> = (0..random.usize(1..20))
                    .map(|_| {
                        number += 1;
                        (number, vec![random.u8(..); random.usize(..3_000)])
                    })
                    .collect();
                let phases = random.choice([Phases::One, Phases::Two]).unwrap();
                let written = disk.write_batch(phases, |batch| {
                    events.iter().try_for_each(|(number, record)| batch.keep_event(*number, record))
                });
                match written {
                    Ok(_) => kept.extend(events),
                    Err(_) => {
                        failed += 1;
                        unsure.extend(events);
                    }
                }
            }
            medium.with(|state| state.syncs_left = None);
            medium.fail_after(Some(0));
            drop(disk);
            medium.lose_power(&mut random);
            let opened = medium.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            let mut found = BTreeMap::new();
            let look = |number, _: Option<&[u8]>, record: &[u8]| {
                found.insert(number, record.to_vec());
                ControlFlow::Continue(())
            };
            disk.each_event(0, look).unwrap();
            for (number, record) in &kept {
                assert_eq!(found.get(number), Some(record), "event {number}, which was promised");
            }
            for (number, record) in &found {
                assert!(kept.get(number) == Some(record) || unsure.contains(&(*number, record.clone())), "{number}");
            }
            kept = found;
        }
    }
    assert!(failed > 100, "{failed} batches failed");
}

/// A disk that is full for a while costs nothing but time.
#[test]
fn what_cannot_be_written_is_written_when_it_can_be() {
    let medium = Medium::default();
    let bell = Arc::new(Bell::new().unwrap());
    let counters = Counters::new(1);
    let mut store = medium.store(&bell, &counters);
    let batch = |key: u8| Changes::from([(vec![key], Some(vec![key; 100]))]);
    store.write(1, batch(1));
    wait_until("the first batch", || store.written() == 1);
    medium.fail_after(Some(3));
    store.write(2, batch(2));
    wait_until("a failure", || counters.read(Counter::StoreFailures) > 0);
    assert_eq!((store.written(), store.is_free()), (1, false));
    medium.fail_after(None);
    wait_until("the second batch", || store.written() == 2);
    store.write(3, batch(3));
    assert_eq!(store.wait(), 3);
    store.end();
    assert_eq!(counters.read(Counter::StoreWrites), 3);
    let found = medium.image();
    assert_eq!(found.keys().map(|key| key[0]).collect::<Vec<u8>>(), [1, 2, 3]);
}

/// Each would have had the file opened anew, and looked through.
#[test]
fn events_that_come_right_behind_a_failure_are_refused_without_trying_and_those_that_come_later_are_kept() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    medium.fail_after(Some(0));
    let began = time::now();
    for _ in 0..20 {
        lane.post(vec![1; 10]);
        assert_eq!(lane.answer(), Err(Unkept::Failed));
    }
    let failures = lane.counters.read(Counter::StoreFailures);
    assert!(failures == 1 || time::since(began) >= AGAIN_IN, "{failures} failures");
    medium.fail_after(None);
    wait_until("the store to be tried again", || {
        lane.post(vec![3; 10]);
        lane.answer().is_ok()
    });
    wait_until("it to be counted", || lane.counters.read(Counter::EventsKept) == 1);
    lane.end();
}

/// Each event that was refused was noted, to be removed when the disk works again: in hours, many millions.
#[test]
fn events_that_are_refused_while_the_medium_fails_leave_nothing_behind_but_what_may_be_there() {
    let (store, lane) = [(); 2].map(|()| Arc::new(Bell::new().unwrap())).into();
    let (introductions, introduced) = post_to(&store, 1);
    let mut reception = Reception { bell: store, introductions, restored: None };
    let (mut link, seat) = journal::link(LaneThread::MAIN, &lane, &mut reception);
    reception.introductions.post(seat).ok().unwrap();
    let mut journal = Journal::new(introduced, (0, 1), 1 << 30);
    let mut post = |journal: &mut Journal| {
        for posting in 0..1_000 {
            let draft = draft(SOURCE, vec![1; 10]);
            link.letters.post(ToStore::Event(Posting { draft, posting, is_awaited: true })).ok().unwrap();
        }
        journal.receive();
        assert_eq!(journal.kept(), (1_000, 74_000));
    };
    post(&mut journal);
    assert_eq!((journal.refuse(), journal.kept()), (1_000, (0, 0)));
    assert!(!journal.has_some(), "nothing of them was tried");
    post(&mut journal);
    assert_eq!((journal.note_failed(), journal.kept()), (1_000, (0, 0)));
    assert!(journal.has_some());
    // They are to go, should they be there.
    assert_eq!(journal.gone().collect::<Vec<_>>(), (1_001..=2_000).map(|number| (number, false)).collect::<Vec<_>>());
    let answers = core::iter::from_fn(|| link.answers.take());
    assert_eq!(answers.filter(|answer| matches!(answer, FromStore::NotKept(.., Unkept::Failed))).count(), 2_000);
    journal.note_tidied();
    assert!(!journal.has_some());
}

/// What was found of each event: who is yet to confirm it, and what it says.
fn found(lane: &Lane) -> BTreeMap<u64, (Option<Vec<u32>>, Vec<u8>)> {
    let all = lane.restored.iter().map(|restored| {
        let record = Record::read(&restored.record).unwrap();
        assert_eq!(record.source, SOURCE);
        let mut event = Event::default();
        record.fill(&mut event, &UtcClock::default());
        let consumers = restored.consumers.as_ref().map(|list| list.iter().map(|proxy| proxy.0).collect());
        (restored.number, (consumers, event.bytes))
    });
    all.collect()
}

#[test]
fn an_event_that_was_accepted_survives_a_power_cut_at_any_moment_until_all_have_it() {
    let (mut accepted, mut refused, mut settled) = (0, 0, 0);
    for seed in 0..25 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut medium = Medium::default();
        // Of those that were accepted: what they say, and whether all have them.
        let mut kept: BTreeMap<u64, (Vec<u8>, bool)> = BTreeMap::new();
        let mut unsure: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            let mut lane = medium.lane(1 << 30);
            let there = found(&lane);
            for (number, (octets, is_settled)) in &kept {
                match there.get(number) {
                    Some((_, found)) => assert_eq!(found, octets),
                    None => assert!(is_settled, "event {number}"),
                }
            }
            let unknown = there.iter().filter(|(number, _)| !kept.contains_key(number));
            unknown.for_each(|(number, (_, octets))| assert!(unsure.contains(octets), "event {number}"));
            // Those go on as they were; it is not to be told apart whether they were accepted.
            kept = there.into_iter().map(|(number, (_, octets))| (number, (octets, false))).collect();
            unsure.clear();
            medium.fail_after(Some(random.u32(20..400)));
            'power: loop {
                let burst = random.usize(1..12);
                let events: Vec<Vec<u8>> = (0..burst).map(|_| vec![random.u8(..); random.usize(..3_000)]).collect();
                events.iter().for_each(|octets| lane.post(octets.clone()));
                let mut fails = false;
                for octets in events {
                    match lane.answer() {
                        Ok(number) => {
                            accepted += 1;
                            kept.insert(number.get(), (octets, false));
                        }
                        Err(why) => {
                            assert_eq!(why, Unkept::Failed);
                            refused += 1;
                            unsure.push(octets);
                            fails = true;
                        }
                    }
                }
                if fails {
                    break 'power;
                }
                for (number, (_, is_settled)) in &mut kept {
                    if !*is_settled && random.bool() {
                        lane.settle(NonZeroU64::new(*number).unwrap());
                        *is_settled = true;
                        settled += 1;
                    }
                }
            }
            medium.lose_power(&mut random);
        }
    }
    assert!(accepted > 1_000 && refused > 100 && settled > 500, "{accepted}, {refused}, {settled}");
}

#[test]
fn who_is_yet_to_confirm_an_event_is_kept_when_it_is_known_for_whom_it_is() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let numbers: Vec<NonZeroU64> = (0..3)
        .map(|number| {
            lane.post(vec![number; 10]);
            lane.answer().unwrap()
        })
        .collect();
    let consumer = |proxy| ProxyKey { channel: SOURCE.channel, proxy: ProxyId(proxy) };
    for (watch, bridges) in numbers.iter().copied().zip([0, 0, 1]) {
        [9, 7, 8].into_iter().for_each(|proxy| lane.tell(Settled::Begins { watch, consumer: consumer(proxy) }));
        // Another lane has yet to say for whom the third is there.
        lane.tell(Settled::Begun { watch, bridges });
    }
    let how = engine::Settlement::Delivered;
    lane.tell(Settled::ForConsumer { watch: numbers[1], consumer: consumer(9), how });
    lane.end();
    let lane = medium.lane(1 << 30);
    let lists: Vec<Option<Vec<u32>>> = found(&lane).into_values().map(|(list, _)| list).collect();
    assert_eq!(lists, [Some(vec![7, 8, 9]), Some(vec![7, 8]), None]);
    // It is known of them again from now on, and they go when all have them.
    let mut lane = lane;
    numbers.iter().for_each(|number| lane.settle(*number));
    lane.end();
    assert!(medium.lane(1 << 30).restored.is_empty());
}

/// What there was no room for was dropped, so that the lane took the next answer for that of the event before it.
#[test]
fn a_lane_that_takes_no_letters_has_every_answer_in_the_end() {
    const EVENTS: u64 = 14_000;
    const ANSWERS_MAX: usize = journal::EVENTS_MAX + journal::NEWS_MAX;
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let consumer = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(7) };
    let (mut kept, mut settled) = (Vec::new(), 0);
    let mut take = |lane: &mut Lane, count: u64| {
        for _ in 0..count {
            let mut answer = None;
            wait_until("an answer", || {
                answer = lane.link.answers.take();
                answer.is_some()
            });
            match answer.unwrap() {
                FromStore::Kept(draft, posting) => {
                    let watch = draft.watch.unwrap();
                    lane.tell(Settled::Begins { watch, consumer });
                    lane.tell(Settled::ForAll { watch });
                    kept.push(posting);
                }
                FromStore::NotKept(..) => panic!("there is room"),
                FromStore::Settled(_) => settled += 1,
            }
        }
    };
    let post = |lane: &mut Lane, posting| {
        let draft = draft(SOURCE, vec![1; 10]);
        lane.link.letters.post(ToStore::Event(Posting { draft, posting, is_awaited: true })).ok().unwrap();
    };
    for first in (0..EVENTS).step_by(1_000) {
        (first..first + 1_000).for_each(|posting| post(&mut lane, posting));
        take(&mut lane, 1_000);
    }
    // All that were kept have gone, and the lane is told of each.
    lane.tell(Settled::Gone { consumer });
    post(&mut lane, EVENTS);
    wait_until("the store to have no room for its answers", || lane.link.answers.waiting() == ANSWERS_MAX);
    take(&mut lane, EVENTS + 1);
    assert!(kept.is_sorted() && kept.len() as u64 == EVENTS + 1 && settled == EVENTS);
    lane.end();
}

/// Each channel numbers its proxies itself: that one was gone was taken for all that had its number, and their events were forgotten.
#[test]
fn a_consumer_that_is_gone_takes_nothing_from_one_of_the_same_number_in_another_channel() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let consumers = [3, 4].map(|channel| ProxyKey { channel: ChannelId(channel), proxy: ProxyId(7) });
    let numbers = consumers.map(|consumer| {
        lane.post_from(ProxyKey { proxy: ProxyId(5), ..consumer }, vec![1; 10]);
        let watch = lane.answer().unwrap();
        // There is no memory for it, so that nobody on the lane has it.
        lane.tell(Settled::Begins { watch, consumer });
        lane.tell(Settled::Begun { watch, bridges: 0 });
        lane.tell(Settled::ForAll { watch });
        watch
    });
    lane.tell(Settled::Gone { consumer: consumers[0] });
    lane.end();
    let lane = medium.lane(1 << 30);
    let left: Vec<_> = lane.restored.iter().map(|event| (event.number, event.consumers.as_deref())).collect();
    assert_eq!(left, [(numbers[1].get(), Some(&[ProxyId(7)][..]))]);
}

#[test]
fn beyond_what_may_be_kept_events_are_refused_until_some_have_gone() {
    let medium = Medium::default();
    let mut lane = medium.lane(10_000);
    let mut numbers = Vec::new();
    let refused = loop {
        lane.post(vec![0; 1_000]);
        match lane.answer() {
            Ok(number) => numbers.push(number),
            Err(why) => break why,
        }
    };
    assert_eq!((refused, numbers.len()), (Unkept::Full, 9));
    lane.settle(numbers[4]);
    let mut outcome = Err(Unkept::Full);
    wait_until("room for another", || {
        lane.post(vec![0; 1_000]);
        outcome = lane.answer();
        outcome.is_ok()
    });
    assert!(outcome.unwrap() > numbers[8]);
    wait_until("it to be counted", || lane.counters.read(Counter::EventsKept) == 9);
    lane.end();
}

#[test]
fn beyond_what_may_be_on_disk_events_are_refused_until_those_that_are_kept_have_a_quarter_of_it() {
    let medium = Medium::default();
    let disk_bytes_max = 16 << 20;
    let mut lane = medium.limited(StoreLimits { disk_bytes_max, ..limits(1 << 30) });
    let mut numbers = VecDeque::new();
    let refused = loop {
        lane.post(vec![0; 100_000]);
        match lane.answer() {
            Ok(number) => numbers.push_back(number),
            Err(why) => break why,
        }
    };
    assert_eq!(refused, Unkept::Full);
    assert!(numbers.len() > 42, "{}", numbers.len());
    let on_disk = |lane: &Lane| lane.counters.read(Counter::StoreDiskBytes);
    assert!(on_disk(&lane) >= disk_bytes_max);
    let most = on_disk(&lane);
    // As they go there is room again, and not before.
    while numbers.len() > 40 {
        lane.settle(numbers.pop_front().unwrap());
    }
    let mut outcome = Err(Unkept::Full);
    wait_until("room for another", || {
        lane.post(vec![0; 100_000]);
        outcome = lane.answer();
        outcome.is_ok()
    });
    numbers.push_back(outcome.unwrap());
    for _ in 0..500 {
        lane.settle(numbers.pop_front().unwrap());
        wait_until("room for another", || {
            lane.post(vec![0; 100_000]);
            lane.answer().is_ok_and(|number| {
                numbers.push_back(number);
                true
            })
        });
    }
    assert!(on_disk(&lane) < 2 * most, "{} after {most}", on_disk(&lane));
    lane.end();
}

/// The lane that was woken by an answer ran before the store went on: by the time that looked, the supplier, alone as it was, had pushed
/// again, and was taken for another. One event in ten then waited for nobody for half of what a batch takes.
#[test]
fn a_supplier_that_has_pushed_again_is_not_waited_for() {
    let bell = Arc::new(Bell::new().unwrap());
    let (introductions, introduced) = post_to(&bell, 1);
    let mut reception = Reception { bell: Arc::clone(&bell), introductions, restored: None };
    let (mut link, seat) = journal::link(LaneThread::MAIN, &bell, &mut reception);
    reception.introductions.post(seat).ok().unwrap();
    let mut journal = Journal::new(introduced, (0, 1), 1 << 30);
    let mut post = || {
        let posting = Posting { draft: draft(SOURCE, vec![1; 10]), posting: 0, is_awaited: false };
        link.letters.post(ToStore::Event(posting)).ok().unwrap();
    };
    let gathering = Gathering { answered: 1, until: time::now() + testing::PATIENCE };
    let missing = |journal: &Journal| {
        gathering.waits(journal.awaited(), journal.posted_before_answers()).map(|(missing, _)| missing)
    };
    post();
    journal.receive();
    journal.note_written();
    post();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (1, None));
    // Another one has pushed while that was written, so the one that is answered now is waited for, until it has pushed, too.
    post();
    journal.note_written();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (1, Some(1)));
    post();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (2, None));
}

/// Asked with each, the file had a new time of its last change, and each synchronisation took half as long again.
#[test]
fn how_large_the_file_is_is_not_asked_with_each_batch_of_events() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let asked = medium.with(|state| state.asked);
    let writes = lane.counters.read(Counter::StoreWrites);
    for _ in 0..200 {
        lane.post(vec![1; 100]);
        lane.answer().unwrap();
    }
    wait_until("all to be counted", || lane.counters.read(Counter::EventsKept) == 200);
    assert_eq!(lane.counters.read(Counter::StoreWrites) - writes, 200);
    assert!(medium.with(|state| state.asked) - asked < 20);
    lane.end();
}

/// With each batch of events that was written, too, it took as many pages again.
#[test]
fn an_event_that_all_have_goes_before_long_however_many_are_written_meanwhile() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    lane.post(vec![1; 10]);
    let first = lane.answer().unwrap();
    lane.settle(first);
    wait_until("the first event to be gone from the medium", || {
        lane.post(vec![2; 10]);
        lane.answer().unwrap();
        let medium = medium.kept();
        let mut disk = Disk::on(move || medium.clone()).unwrap();
        let mut is_there = false;
        let look = |number, _: Option<&[u8]>, _: &[u8]| {
            is_there |= number == first.get();
            ControlFlow::Continue(())
        };
        disk.each_event(0, look).unwrap();
        !is_there
    });
    lane.end();
}

#[test]
fn the_medium_is_not_synchronised_more_often_than_it_may_be() {
    let medium = Medium::default();
    let sync_interval = Duration::from_millis(300);
    let mut lane = medium.limited(StoreLimits { sync_interval, ..limits(1 << 30) });
    let (began, mut rounds) = (time::now(), 0);
    while time::since(began) < 4 * sync_interval {
        (0..3).for_each(|event| lane.post(vec![event; 100]));
        (0..3).for_each(|_| _ = lane.answer().unwrap());
        rounds += 1;
    }
    let writes = lane.counters.read(Counter::StoreWrites);
    assert!(time::since(began) >= sync_interval * u32::try_from(writes).unwrap(), "{writes} in {rounds} rounds");
    assert!(writes >= 1);
    lane.end();
}

#[test]
fn who_is_yet_to_confirm_a_restored_event_is_written_again_where_some_are_gone() {
    let medium = Medium::default();
    let consumer = |proxy| ProxyKey { channel: SOURCE.channel, proxy: ProxyId(proxy) };
    let mut lane = medium.lane(1 << 30);
    let numbers = [(); 2].map(|()| {
        lane.post(vec![7; 10]);
        lane.answer().unwrap()
    });
    let tell = |lane: &mut Lane, watch, all: &[u32]| {
        all.iter().for_each(|proxy| lane.tell(Settled::Begins { watch, consumer: consumer(*proxy) }));
        lane.tell(Settled::Begun { watch, bridges: 0 });
    };
    numbers.iter().for_each(|watch| tell(&mut lane, *watch, &[7, 8]));
    lane.end();
    let mut lane = medium.lane(1 << 30);
    tell(&mut lane, numbers[0], &[7, 8]);
    tell(&mut lane, numbers[1], &[8]);
    lane.end();
    let lane = medium.lane(1 << 30);
    let lists: Vec<Option<Vec<u32>>> = found(&lane).into_values().map(|(list, _)| list).collect();
    assert_eq!(lists, [Some(vec![7, 8]), Some(vec![8])]);
    lane.end();
}

#[test]
fn events_that_cannot_be_read_at_the_start_are_read_when_they_can_be_each_once_and_in_order() {
    const EVENTS: u64 = 10_000;
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    (0..EVENTS).for_each(|event| lane.post(event.to_le_bytes().repeat(128)));
    let last = (0..EVENTS).map(|_| lane.answer().unwrap()).last().unwrap();
    lane.end();
    // More than what is read in advance, and than what the engine has in memory.
    let mut lane = medium.limited(limits(1 << 30));
    assert!(lane.take_piece());
    medium.with(|state| state.left = Some(0));
    while lane.counters.read(Counter::StoreFailures) == 0 {
        lane.take_piece_within(Duration::from_millis(1));
    }
    assert!(lane.restored.len() < 10_000, "{}", lane.restored.len());
    medium.with(|state| state.left = None);
    let mut lane = lane.with_all();
    let numbers: Vec<u64> = lane.restored.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=EVENTS).collect::<Vec<_>>());
    assert!(lane.restored.iter().zip(0_u64..).all(|(event, at)| event.record.ends_with(&at.to_le_bytes())));
    // What is new has numbers behind those.
    lane.post(vec![1]);
    assert_eq!(lane.answer().unwrap().get(), last.get() + 1);
    lane.end();
}

/// Each had one of its own: of a million events that was a tenth of the memory, and of the time that a start took.
#[test]
fn events_that_the_same_are_yet_to_confirm_share_the_list_of_these() {
    let lists: [Option<&[u32]>; 7] = [None, Some(&[7]), Some(&[7]), None, Some(&[7]), Some(&[8, 7]), Some(&[])];
    let mut piece = Piece::default();
    for (list, number) in lists.iter().zip(1..) {
        let octets = list.map(|list| list.iter().flat_map(|proxy| proxy.to_le_bytes()).collect::<Vec<u8>>());
        piece.push(number, octets.as_deref(), &[u8::try_from(number).unwrap(); 3]);
    }
    let mut found = Vec::new();
    piece.each(|number, list, record| {
        assert_eq!(record, [u8::try_from(number).unwrap(); 3]);
        found.push(list);
    });
    let sorted = |list: &[u32]| {
        let mut list: Vec<ProxyId> = list.iter().map(|proxy| ProxyId(*proxy)).collect();
        list.sort_unstable();
        list
    };
    assert!(found.iter().zip(lists).all(|(found, list)| found.as_deref() == list.map(sorted).as_deref()));
    assert!(found[1].as_ref().zip(found[4].as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
}

/// However few octets the events themselves have.
#[test]
fn a_piece_is_full_when_it_has_long_lists() {
    let mut piece = Piece::default();
    let mut count = 0_u64;
    while !piece.is_full() {
        count += 1;
        piece.push(count, Some(&u32::try_from(count).unwrap().to_le_bytes().repeat(10_000)), &[1]);
    }
    assert_eq!(count, 27);
}

#[test]
fn the_store_waits_for_those_it_has_answered_and_no_longer_than_it_may() {
    let hour = Duration::from_secs(3_600);
    let gathering = Gathering { answered: 3, until: time::now() + hour };
    // Two had come while it wrote.
    let waits: Vec<bool> = [2, 3, 4, 5, 6].map(|awaited| gathering.waits(awaited, 2).is_some()).into();
    assert_eq!(waits, [true, true, true, false, false]);
    // Where very many come, more are there before long than it pays to wait for: it waited for a third of the time.
    let gathering = Gathering { answered: 1_000, until: time::now() + hour };
    assert_eq!((gathering.waits(ENOUGH - 1, 0).is_some(), gathering.waits(ENOUGH, 0)), (true, None));
    // Who is alone is not kept waiting.
    let gathering = Gathering { answered: 1, until: time::now() + hour };
    assert_eq!((gathering.waits(0, 0), gathering.waits(1, 0)), (None, None));
    let gathering = Gathering { answered: 3, until: time::now() };
    assert_eq!(gathering.waits(1, 0), None);
}
