//! What is kept of a channel's events on disk: in order, for each, and no longer than need be.

mod disk;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

use engine::{ChannelLimits, Overflow, Time};

use super::*;
use crate::log::tests::{Engine, Folder};
use crate::log::{HEADER, first_of};
use crate::overflow::clock_at;
use crate::store::record::Record;

/// A backlog, and the events that it is given: all are for all consumers.
struct Rig {
    folder: Folder,
    desk: Desk,
    log: Backlog,
    consumers: Vec<ProxyId>,
    coming: std::vec::IntoIter<Arc<Event>>,
    /// The numbers of all events, which are in their first octets.
    all: Vec<u32>,
}

impl Rig {
    fn new(name: &str, random: &mut fastrand::Rng, count: usize, consumers: usize) -> Self {
        let limits =
            ChannelLimits { memory_budget_bytes: 1 << 20, overflow_budget_bytes: 1 << 30, ..ChannelLimits::default() };
        let (mut engine, mut events) = (Engine::new(limits, consumers, None), Vec::new());
        for number in 0_u32.. {
            let octets = [&number.to_le_bytes()[..], &vec![7; random.usize(..2_000)]].concat();
            engine.publish(&octets, Time(0), |errand| {
                if let Overflow::Keep { event, .. } = errand {
                    assert_eq!(event.away().len(), consumers);
                    events.push(event);
                }
            });
            // In memory no longer: it would be too much.
            if events.len() >= count {
                break;
            }
        }
        let folder = Folder::new(&format!("backlog-{name}"));
        Self {
            log: Backlog::new(folder.0.join("log-"), &Desk::default()),
            folder,
            desk: Desk::default(),
            consumers: engine.consumers.iter().map(|key| key.proxy).collect(),
            all: events.iter().map(|event| number_in(&event.bytes)).collect(),
            coming: events.into_iter(),
        }
    }

    /// Gives it so many more events.
    fn push(&mut self, count: usize) {
        self.coming.by_ref().take(count).for_each(|event| self.log.push(event));
    }

    fn write_all(&mut self, budget_bytes: u64) {
        while self.log.is_pending() {
            assert!(!self.log.write(budget_bytes, &mut self.desk).unwrap().is_empty());
        }
    }

    /// Gives it all events, each of which is written before the next comes.
    fn fill(&mut self) {
        while self.coming.len() > 0 {
            self.push(1);
            self.write_all(1 << 20);
        }
    }

    fn read(&mut self, consumer: usize, bytes: usize) -> Read {
        self.log.read(self.consumers[consumer], (bytes, false), &mut self.desk)
    }

    /// Adds what is read well until so many are there.
    fn read_until(&mut self, consumer: usize, count: usize, got: &mut Vec<u32>) {
        while got.len() < count {
            let read = self.read(consumer, 5_000);
            assert!(read.why.is_none() && read.lost == 0 && !read.records.is_empty(), "{read:?}");
            got.extend(numbers(&read));
        }
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.folder.0).unwrap().count()
    }
}

fn number_in(octets: &[u8]) -> u32 {
    u32::from_le_bytes(octets[..4].try_into().unwrap())
}

/// The numbers of what was read.
fn numbers(read: &Read) -> Vec<u32> {
    let mut rest: &[u8] = &read.records;
    let mut numbers = Vec::new();
    while let Some(([_], event, behind)) = first_of(rest) {
        let mut pending_event = engine::PendingEvent::default();
        Record::read(&event[16..]).unwrap().fill(&mut pending_event, &clock_at(Time(0)));
        numbers.push(number_in(&pending_event.bytes));
        rest = behind;
    }
    assert!(rest.is_empty());
    numbers
}

#[test]
fn each_reads_what_is_its_own_in_order_and_files_go_when_no_consumer_has_anything_left_in_them() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut rig = Rig::new("order", &mut random, 900, 3);
    let total: u64 = rig.coming.as_slice().iter().map(|event| event.stored_bytes()).sum();
    let mut got: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let (mut freed, mut most) = (Freed::default(), 0);
    while rig.coming.len() > 0 || got.len() < 3 || got.values().any(|got| got.len() < 900) {
        if random.bool() {
            rig.push(random.usize(..40));
        }
        while rig.log.is_pending() && random.u32(..4) > 0 {
            rig.log.write(1 << 20, &mut rig.desk).unwrap();
        }
        let consumer = random.usize(..3);
        let read = rig.read(consumer, [1, 3_000, 100_000][random.usize(..3)]);
        assert!(read.why.is_none() && read.lost == 0);
        got.entry(consumer).or_default().extend(numbers(&read));
        let more = rig.log.free();
        freed = Freed { events: freed.events + more.events, bytes: freed.bytes + more.bytes };
        most = most.max(rig.files());
    }
    assert!(got.values().all(|got| *got == rig.all), "in order");
    assert!(most > 3, "{most} files at once");
    rig.write_all(1 << 20);
    let more = rig.log.free();
    assert_eq!((freed.events + more.events, freed.bytes + more.bytes, rig.files()), (900, total, 0));
    rig.consumers.iter().for_each(|consumer| rig.log.forget(*consumer));
    assert!(rig.log.is_over());
}

#[test]
fn what_is_damaged_is_lost_and_counted_and_what_is_behind_it_is_not() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::new("damaged", &mut random, 400, 1);
        rig.fill();
        let segment = &rig.log.log.segments()[2];
        // What fills its last block up is nothing that could be damaged.
        let length = segment.bytes();
        let file = fs::OpenOptions::new().read(true).write(true).open(segment.path()).unwrap();
        if seed % 4 == 0 {
            file.set_len(random.u64(..length)).unwrap();
        } else {
            let (mut octet, at) = ([0], random.u64(HEADER as u64..length));
            file.read_exact_at(&mut octet, at).unwrap();
            file.write_all_at(&[octet[0] ^ (1 << random.u32(..8))], at).unwrap();
        }
        let (mut got, mut lost) = (Vec::new(), 0);
        for _ in 0..1_000 {
            let read = rig.read(0, 5_000);
            got.extend(numbers(&read));
            lost += read.lost;
        }
        assert!(lost > 0 && got.len() as u64 + lost == 400, "seed {seed}: {lost} lost, {} read", got.len());
        assert!(got.is_sorted() && got.iter().all(|number| rig.all.contains(number)), "seed {seed}");
        assert_eq!(got.last(), rig.all.last(), "seed {seed}");
        rig.log.free();
        assert_eq!(rig.files(), 0);
    }
}

/// It looked through all of it: for up to 64 MiB, a twentieth of a second, and what it got came so late that it stayed behind.
#[test]
fn a_client_that_falls_behind_in_the_middle_of_a_file_does_not_look_at_what_is_before() {
    let mut rig = Rig::new("middle", &mut fastrand::Rng::with_seed(7), 1_000, 1);
    rig.push(1_000);
    let mut got = Vec::new();
    rig.read_until(0, 700, &mut got);
    rig.write_all(1 << 30);
    assert_eq!(rig.files(), 1);
    // A reader at that position could not go on.
    let file = fs::OpenOptions::new().write(true).open(rig.log.log.segments()[0].path()).unwrap();
    file.write_all_at(&vec![0xff; 256 << 10], 0).unwrap();
    rig.read_until(0, 1_000, &mut got);
    assert_eq!(got, rig.all);
}

/// Too many open files, or a disk that hesitates: up to 64 MiB of its consumer's events were lost with that.
#[test]
fn what_cannot_be_read_now_is_read_when_it_can_be() {
    let mut rig = Rig::new("unreadable", &mut fastrand::Rng::with_seed(4), 300, 1);
    rig.fill();
    let (path, aside) = (rig.log.log.segments()[2].path().to_owned(), rig.folder.0.join("aside"));
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let mut got = Vec::new();
    loop {
        let read = rig.read(0, 5_000);
        got.extend(numbers(&read));
        if read.why.is_some() {
            break;
        }
    }
    for _ in 0..3 {
        let read = rig.read(0, 5_000);
        assert!(read.why.is_some() && read.lost == 0 && read.records.is_empty(), "{read:?}");
    }
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    rig.read_until(0, 300, &mut got);
    assert_eq!(got, rig.all);
    assert_eq!((rig.log.free().events, rig.files()), (300, 0));
}

/// They counted until all in their file had been read, which may be tens of thousands.
#[test]
fn an_event_counts_until_all_have_read_it() {
    let mut rig = Rig::new("counts", &mut fastrand::Rng::with_seed(5), 60, 2);
    rig.push(60);
    rig.write_all(1 << 30);
    let first = numbers(&rig.read(0, 5_000)).len() as u64;
    assert_eq!((rig.log.free(), rig.log.stored().events), (Freed::default(), 60));
    let second = numbers(&rig.read(1, 5_000)).len() as u64;
    let freed = rig.log.free();
    assert_eq!((freed, rig.log.stored().events), (Freed { events: first.min(second), bytes: 0 }, 60 - freed.events));
    assert!(freed.events > 0 && rig.files() == 1);
    rig.consumers.iter().for_each(|consumer| rig.log.forget(*consumer));
    assert_eq!((rig.log.free().events, rig.log.stored(), rig.files()), (60 - freed.events, Freed::default(), 0));
}

/// They stayed in memory until the disk could be written to again.
#[test]
fn what_cannot_be_written_and_has_no_reader_any_more_is_released() {
    let mut rig = Rig::new("let-go", &mut fastrand::Rng::with_seed(6), 300, 2);
    let bytes: u64 = rig.coming.as_slice().iter().map(|event| event.stored_bytes()).sum();
    rig.push(100);
    rig.write_all(1 << 30);
    // The rest cannot be written. One has read some of it, the other none.
    rig.push(200);
    let mut got = [Vec::new(), Vec::new()];
    rig.read_until(0, 200, &mut got[0]);
    assert!(rig.log.release().is_empty());
    rig.read_until(1, 150, &mut got[1]);
    let release = rig.log.release();
    assert_eq!(release.len(), got[1].len() - 100);
    let freed = rig.log.free();
    assert_eq!(freed.events, got[1].len() as u64);
    let released_bytes: u64 = release.iter().map(|event| event.stored_bytes()).sum();
    assert_eq!(rig.log.stored().bytes, bytes - released_bytes - freed.bytes);
    // What both are yet to get is written when it can be, and read by both.
    rig.write_all(1 << 20);
    for (consumer, mut got) in got.into_iter().enumerate() {
        rig.read_until(consumer, 300, &mut got);
        assert_eq!(got, rig.all);
    }
    // One that has gone needs nothing.
    rig.consumers.iter().for_each(|consumer| rig.log.forget(*consumer));
    rig.log.free();
    assert_eq!((rig.log.stored(), rig.files(), rig.log.is_over()), (Freed::default(), 0, true));
}

#[test]
fn what_cannot_be_written_is_read_from_memory_and_written_when_it_can_be() {
    let mut rig = Rig::new("full", &mut fastrand::Rng::with_seed(3), 300, 2);
    rig.log = Backlog::new(rig.folder.0.join("gone").join("log-"), &rig.desk);
    rig.push(300);
    assert!(rig.log.write(1 << 20, &mut rig.desk).is_err(), "there is no such folder");
    let early = numbers(&rig.read(0, 50_000));
    assert!(early.len() > 20 && early[..] == rig.all[..early.len()]);
    fs::create_dir(rig.folder.0.join("gone")).unwrap();
    rig.write_all(1 << 20);
    for (consumer, mut got) in [early, Vec::new()].into_iter().enumerate() {
        rig.read_until(consumer, 300, &mut got);
        assert_eq!(got, rig.all);
    }
}
