//! A block device that is on a disk with few blocks.

use std::collections::BTreeSet;

use super::dead_letters::CONSUMER;
use super::requests::{StoreReply, StoreRequest};
use super::*;
use crate::store::room;

pub(super) const PAGE: usize = 4_096;

/// The blocks of a disk, in pages: those that there are, those that the block device has, and those of the reserve and of other files.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) pages: usize,
    pub(super) taken: BTreeSet<usize>,
    reserve: usize,
    others: usize,
    /// As ext4: of what it cannot give altogether it gives a part.
    keeps_parts: bool,
}

impl Blocks {
    pub(super) fn free(&self) -> usize {
        self.pages.saturating_sub(self.taken.len() + self.reserve + self.others)
    }
}

struct Disks(SimulatedDevice);

impl Disks {
    fn with<R>(&self, act: impl FnOnce(&mut Blocks) -> R) -> R {
        self.0.with(|state| act(state.disk.as_mut().unwrap()))
    }
}

impl room::Blocks for Disks {
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.0.with(|state| {
            if !state.disk.as_ref().is_some_and(|disk| disk.keeps_parts) {
                return SimulatedDevice::take_blocks(state, place(from), place(to));
            }
            (place(from)..place(to))
                .step_by(PAGE)
                .try_for_each(|page| SimulatedDevice::take_blocks(state, page, page + PAGE))
        })
    }

    fn set_reserve(&self, octets: u64) -> io::Result<()> {
        let wanted = place(octets) / PAGE;
        self.with(|disk| {
            if wanted > disk.reserve && disk.free() < wanted - disk.reserve {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.reserve = wanted;
            Ok(())
        })
    }
}

impl SimulatedDevice {
    /// One on a disk of so many octets.
    fn on_disk_of(octets: usize) -> Self {
        let device = Self::default();
        device.with(|state| state.disk = Some(Blocks { pages: octets / PAGE, ..Blocks::default() }));
        device
    }

    /// Its disk, and what the block device has of it.
    pub(super) fn blocks(&self) -> Option<(Box<dyn room::Blocks>, u64)> {
        let taken = self.with(|state| state.disk.as_ref().map(|disk| (disk.taken.len() * PAGE) as u64));
        taken.map(|taken| (Box::new(Disks(self.clone())) as Box<dyn room::Blocks>, taken))
    }

    fn disk<R>(&self, act: impl FnOnce(&mut Blocks) -> R) -> R {
        Disks(self.clone()).with(act)
    }

    /// The process ends in whichever way, and the next finds what it has left.
    fn next_process(&mut self) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            state.power_cuts
        });
    }
}

/// Events until one is refused: what was kept, by its number.
fn fill(lane: &mut Lane, random: &mut fastrand::Rng, octets: core::ops::Range<usize>) -> BTreeMap<u64, Vec<u8>> {
    let mut stored = BTreeMap::new();
    loop {
        let event = vec![random.u8(..); random.usize(octets.clone())];
        lane.send(event.clone());
        match lane.answer() {
            Ok(number) => _ = stored.insert(number.get(), event),
            Err(why) => {
                assert_eq!(why, StoreRefusal::Failed, "which is PERSIST_STORE");
                return stored;
            }
        }
    }
}

fn is_full(lane: &Lane) -> bool {
    lane.counters.read(Counter::StoreFull) == 1
}

/// All have these, in any order.
fn complete_all(lane: &mut Lane, numbers: impl IntoIterator<Item = u64>, random: &mut fastrand::Rng) {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    random.shuffle(&mut numbers);
    numbers.into_iter().for_each(|number| lane.complete(NonZeroU64::new(number).unwrap()));
}

fn accepts_again(lane: &mut Lane) {
    wait_until("events to be taken again", || {
        lane.send(vec![7; 10]);
        lane.answer().is_ok()
    });
    assert!(!is_full(lane));
}

/// A file system was full of events that waited for a consumer. The consumer came back and took all of them, and the service went on to
/// refuse every event, after a restart, too: to remove one takes pages, for which there was no room either.
#[test]
fn a_disk_that_was_full_of_events_takes_others_when_those_were_confirmed_whatever_happens_in_between() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let sizes = [2_000..3_000, 24_000..24_001, 10..40_000][usize::try_from(seed % 3).unwrap()].clone();
        let mut device = SimulatedDevice::on_disk_of(random.usize(4 << 20..10 << 20));
        device.disk(|disk| disk.keeps_parts = seed >= 3);
        let mut lane = device.lane(1 << 30);
        let mut stored = fill(&mut lane, &mut random, sizes);
        assert!(stored.len() > 20, "{}", stored.len());
        assert!(is_full(&lane));
        assert_eq!(lane.counters.read(Counter::StoreFailures), 0, "it is refused before anything is tried");
        // What is configured goes on to be kept.
        for number in 1..=20 {
            lane.store.write(number, Changes::from([(vec![1], Some(vec![random.u8(..); 300]))]));
            wait_until("what is configured", || lane.store.written() == number);
        }
        if seed % 2 == 1 {
            // Another program takes what is left.
            device.disk(|disk| disk.others += disk.free());
            lane.end();
            device.next_process();
            lane = device.lane(1 << 30);
            let found: BTreeSet<u64> = lane.restored.iter().map(|restored| restored.number).collect();
            assert_eq!(found, stored.keys().copied().collect(), "what was accepted");
            for restored in &lane.restored {
                assert_eq!(Record::read(&restored.record).unwrap().length(), stored[&restored.number].len());
            }
            stored.extend(fill(&mut lane, &mut random, 10..11));
        }
        complete_all(&mut lane, stored.into_keys(), &mut random);
        accepts_again(&mut lane);
        wait_until("all that was confirmed to be gone", || lane.counters.read(Counter::EventsStored) == 1);
        assert_eq!(lane.counters.read(Counter::StoreFailures), 0);
        lane.end();
    }
}

/// Another program filled the disk, and left nothing of it: what was confirmed was there again after the next start.
#[test]
fn what_is_confirmed_is_removed_while_another_program_has_the_whole_disk_and_events_are_taken_when_it_is_gone() {
    let device = SimulatedDevice::on_disk_of(64 << 20);
    let mut lane = device.lane(1 << 30);
    let mut random = fastrand::Rng::with_seed(1);
    let mut stored = Vec::new();
    for _ in 0..400 {
        lane.send(vec![1; 24_000]);
        stored.push(lane.answer().unwrap().get());
    }
    device.disk(|disk| disk.others = disk.free());
    stored.extend(fill(&mut lane, &mut random, 24_000..24_001).into_keys());
    let last = stored.split_off(stored.len() - 10);
    complete_all(&mut lane, stored, &mut random);
    wait_until("what was confirmed to be gone", || lane.counters.read(Counter::EventsStored) == 10);
    device.disk(|disk| disk.others = 0);
    accepts_again(&mut lane);
    complete_all(&mut lane, last, &mut random);
    lane.end();
}

/// A supplier of large events, for which the disk had no room, had everything of all others refused for a second each time, though there
/// was room for that.
#[test]
fn events_that_are_too_large_for_the_room_there_is_are_refused_alone() {
    let device = SimulatedDevice::on_disk_of(12 << 20);
    let mut lane = device.lane(1 << 30);
    for round in 0..5 {
        lane.send(vec![1; 8 << 20]);
        (0..20).for_each(|_| lane.send(vec![2; 1_000]));
        let answers: Vec<_> = (0..21).map(|_| lane.answer()).collect();
        let refused = answers.iter().filter(|answer| matches!(answer, Err(StoreRefusal::Failed))).count();
        assert_eq!((refused, answers.iter().flatten().count()), (1, 20), "{round}");
        assert!(!is_full(&lane), "{round}");
    }
    assert_eq!(lane.counters.read(Counter::EventsNotStored), 5);
    assert_eq!(lane.counters.read(Counter::StoreFailures), 0);
    lane.end();
}

/// What was refused was refused for good, since nothing else was tried until the process began anew.
#[test]
fn a_disk_on_which_room_is_made_takes_events_without_anything_being_confirmed() {
    let device = SimulatedDevice::on_disk_of(4 << 20);
    let mut lane = device.lane(1 << 30);
    let mut random = fastrand::Rng::with_seed(1);
    let stored = fill(&mut lane, &mut random, 24_000..24_001);
    device.disk(|disk| disk.pages *= 2);
    accepts_again(&mut lane);
    let more = fill(&mut lane, &mut random, 24_000..24_001);
    assert!(more.len() > stored.len() / 2, "{} and {}", stored.len(), more.len());
    lane.end();
}

/// A disk that is full has room for what makes some, and for the word that an event is aside.
#[test]
fn on_a_full_disk_dead_letters_are_stored_and_removed_and_none_is_delivered_once_more_until_there_is_room() {
    let device = SimulatedDevice::on_disk_of(8 << 20);
    let mut lane = device.lane(1 << 30);
    let mut random = fastrand::Rng::with_seed(1);
    let [first, second] = [(); 2].map(|()| lane.send_undeliverable(&[1; 200_000], &[CONSUMER]).get());
    lane.await_dead_letters(2);
    let stored = fill(&mut lane, &mut random, 10..24_000);
    assert!(is_full(&lane));
    let of = |number| vec![(number, CONSUMER)];
    assert_eq!(lane.ask(StoreRequest::Replay(of(first))), StoreReply::Failed);
    assert_eq!(lane.dead_letters().len(), 2);
    let mut stored: Vec<u64> = stored.into_keys().collect();
    let third = NonZeroU64::new(stored.pop().unwrap()).unwrap();
    lane.tell(Completion::Begins { watch: third, consumer: CONSUMER });
    lane.tell(Completion::Begun { watch: third, bridges: 0 });
    lane.link.messages.send(ToStore::Undeliverable(third, CONSUMER)).ok().unwrap();
    lane.tell(Completion::ForAll { watch: third });
    lane.await_dead_letters(3);
    assert_eq!(lane.ask(StoreRequest::Remove(of(second))), StoreReply::Done { done: 1, missing: 0 });
    complete_all(&mut lane, stored, &mut random);
    accepts_again(&mut lane);
    let both = [of(first), of(third.get())].concat();
    assert_eq!(lane.ask(StoreRequest::Replay(both)), StoreReply::Done { done: 2, missing: 0 });
    (0..2).for_each(|_| drop(lane.again()));
    assert_eq!(lane.counters.read(Counter::StoreFailures), 0);
    lane.end();
}
