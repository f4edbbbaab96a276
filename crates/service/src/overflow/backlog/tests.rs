//! What is kept of a channel's events on disk: in order, for each, and no longer than need be.

use std::os::unix::fs::FileExt;

use engine::{
    AdminId, ChannelLimits, Form, Hierarchy, Lane, NoFields, OutputForm, Overflow, Peer, ProxyId, ProxyKind,
    SettingsPatch, Side,
};

use super::*;
use crate::log::HEADER;
use crate::overflow::*;

/// An engine that wants its events kept.
struct Engine {
    lane: Lane,
    source: ProxyKey,
    consumers: Vec<ProxyKey>,
}

impl Engine {
    /// With so many consumers, none of which takes anything.
    fn new(consumers: usize) -> Self {
        let limits =
            ChannelLimits { memory_budget_bytes: 1 << 20, overflow_budget_bytes: 1 << 30, ..ChannelLimits::default() };
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), limits).unwrap();
        let mut proxy = |side| {
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
            key
        };
        let source = proxy(Side::Suppliers);
        let consumers: Vec<ProxyKey> = (0..consumers).map(|_| proxy(Side::Consumers)).collect();
        consumers.iter().for_each(|key| hierarchy.suspend(*key).unwrap());
        let mut lane = Lane::new(Time(0));
        lane.allow_overflow();
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        Self { lane, source, consumers }
    }

    /// Publishes until so many events are to be kept, and gives those: numbered in their first octets.
    fn stored(&mut self, count: usize, random: &mut fastrand::Rng) -> Vec<Arc<Event>> {
        let mut stored = Vec::new();
        for number in 0_u32.. {
            let mut pending_event = self.lane.begin_event();
            pending_event.bytes.extend(number.to_le_bytes());
            pending_event.bytes.resize(4 + random.usize(..2_000), 7);
            self.lane.classify(&mut pending_event, b"domain", b"name");
            self.lane.handle_event(self.source, pending_event, &NoFields, Time(0));
            while let Some(errand) = self.lane.poll_overflow() {
                if let Overflow::Keep { event, .. } = errand {
                    stored.push(event);
                }
            }
            // In memory no longer: it would be too much.
            if stored.len() >= count {
                break;
            }
        }
        stored
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("campanile-overflow-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir(&folder.0).unwrap();
        folder
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The numbers of what was read.
fn numbers(read: &Read) -> Vec<u32> {
    let mut rest: &[u8] = &read.records;
    let mut numbers = Vec::new();
    while let Some((_, event, behind)) = first_of(rest) {
        let record = Record::read(&event[16..]).unwrap();
        let mut pending_event = engine::PendingEvent::default();
        record.fill(&mut pending_event, &clock_at(Time(0)));
        numbers.push(u32::from_le_bytes(pending_event.bytes[..4].try_into().unwrap()));
        rest = behind;
    }
    assert!(rest.is_empty());
    numbers
}

/// Events of one engine, each for those only that are said.
fn events(random: &mut fastrand::Rng, count: usize, consumers: usize) -> (Vec<ProxyId>, Vec<Arc<Event>>) {
    let mut engine = Engine::new(consumers);
    let stored = engine.stored(count, random);
    assert!(stored.iter().all(|event| event.away().len() == consumers));
    (engine.consumers.iter().map(|key| key.proxy).collect(), stored)
}

#[test]
fn each_reads_what_is_its_own_in_order_and_files_go_when_no_consumer_has_anything_left_in_them() {
    let folder = Folder::new("order");
    let mut random = fastrand::Rng::with_seed(1);
    let (consumers, events) = events(&mut random, 900, 3);
    let all: Vec<u32> = events.iter().map(|event| u32::from_le_bytes(event.bytes[..4].try_into().unwrap())).collect();
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("log-"));
    let mut got: BTreeMap<ProxyId, Vec<u32>> = BTreeMap::new();
    let (mut freed, mut most) = (Freed::default(), 0);
    let total: u64 = events.iter().map(|event| event.stored_bytes()).sum();
    let mut coming = events.into_iter();
    loop {
        if random.bool() {
            coming.by_ref().take(random.usize(..40)).for_each(|event| log.push(event));
        }
        while log.is_pending() && random.u32(..4) > 0 {
            log.write(1 << 20, &mut desk).unwrap();
        }
        let consumer = consumers[random.usize(..3)];
        let read = log.read(consumer, ([1, 3_000, 100_000][random.usize(..3)], false), &mut desk);
        assert!(read.why.is_none() && read.lost == 0);
        got.entry(consumer).or_default().extend(numbers(&read));
        let more = log.free();
        freed = Freed { events: freed.events + more.events, bytes: freed.bytes + more.bytes };
        most = most.max(folder.files());
        if coming.len() == 0 && got.values().all(|got| got.len() == 900) && got.len() == 3 {
            break;
        }
    }
    assert!(got.values().all(|got| *got == all), "in order");
    assert!(most > 3, "{most} files at once");
    while log.is_pending() {
        log.write(1 << 20, &mut desk).unwrap();
    }
    let more = log.free();
    assert_eq!((freed.events + more.events, freed.bytes + more.bytes, folder.files()), (900, total, 0));
    consumers.iter().for_each(|consumer| log.forget(*consumer));
    assert!(log.is_over());
}

#[test]
fn what_is_damaged_is_lost_and_counted_and_what_is_behind_it_is_not() {
    for seed in 0..20 {
        let folder = Folder::new(&format!("damaged-{seed}"));
        let mut random = fastrand::Rng::with_seed(seed);
        let (consumers, events) = events(&mut random, 400, 1);
        let mut desk = Desk::default();
        let mut log = Backlog::new(folder.0.join("log-"));
        let mut all = Vec::new();
        for event in events {
            all.push(u32::from_le_bytes(event.bytes[..4].try_into().unwrap()));
            log.push(event);
            while log.is_pending() {
                log.write(1 << 20, &mut desk).unwrap();
            }
        }
        let segment = &log.log.segments()[2];
        let (path, length) = (segment.path(), segment.bytes());
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        if seed % 4 == 0 {
            file.set_len(random.u64(..length)).unwrap();
        } else {
            let (mut octet, at) = ([0], random.u64(HEADER as u64..length));
            file.read_exact_at(&mut octet, at).unwrap();
            file.write_all_at(&[octet[0] ^ (1 << random.u32(..8))], at).unwrap();
        }
        let (mut got, mut lost) = (Vec::new(), 0);
        for _ in 0..1_000 {
            let read = log.read(consumers[0], (5_000, false), &mut desk);
            got.extend(numbers(&read));
            lost += read.lost;
        }
        assert!(lost > 0 && got.len() as u64 + lost == 400, "seed {seed}: {lost} lost, {} read", got.len());
        assert!(got.is_sorted() && got.iter().all(|number| all.contains(number)), "seed {seed}");
        assert_eq!(got.last(), all.last(), "seed {seed}");
        log.free();
        assert_eq!(folder.files(), 0);
    }
}

/// It looked through all of it: for up to 64 MiB, a twentieth of a second, and what it got came so late that it stayed behind.
#[test]
fn a_client_that_falls_behind_in_the_middle_of_a_file_does_not_look_at_what_is_before() {
    let folder = Folder::new("middle");
    let mut random = fastrand::Rng::with_seed(7);
    let (consumers, events) = events(&mut random, 1_000, 1);
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("log-"));
    let mut all = Vec::new();
    for event in events {
        all.push(u32::from_le_bytes(event.bytes[..4].try_into().unwrap()));
        log.push(event);
    }
    let mut got = Vec::new();
    while got.len() < 700 {
        got.extend(numbers(&log.read(consumers[0], (5_000, false), &mut desk)));
    }
    while log.is_pending() {
        log.write(1 << 30, &mut desk).unwrap();
    }
    assert_eq!(folder.files(), 1);
    // A reader at that position could not go on.
    let file = fs::OpenOptions::new().write(true).open(log.log.segments()[0].path()).unwrap();
    file.write_all_at(&vec![0xff; 256 << 10], 0).unwrap();
    while got.len() < 1_000 {
        let read = log.read(consumers[0], (5_000, false), &mut desk);
        assert!(read.why.is_none() && read.lost == 0, "{read:?}");
        got.extend(numbers(&read));
    }
    assert_eq!(got, all);
}

/// Too many open files, or a disk that hesitates: up to 64 MiB of its consumer's events were lost with that.
#[test]
fn what_cannot_be_read_now_is_read_when_it_can_be() {
    let folder = Folder::new("unreadable");
    let mut random = fastrand::Rng::with_seed(4);
    let (consumers, events) = events(&mut random, 300, 1);
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("log-"));
    let mut all = Vec::new();
    for event in events {
        all.push(u32::from_le_bytes(event.bytes[..4].try_into().unwrap()));
        log.push(event);
        while log.is_pending() {
            log.write(1 << 20, &mut desk).unwrap();
        }
    }
    let (path, aside) = (log.log.segments()[2].path().to_owned(), folder.0.join("aside"));
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let mut got = Vec::new();
    loop {
        let read = log.read(consumers[0], (5_000, false), &mut desk);
        got.extend(numbers(&read));
        if read.why.is_some() {
            break;
        }
    }
    for _ in 0..3 {
        let read = log.read(consumers[0], (5_000, false), &mut desk);
        assert!(read.why.is_some() && read.lost == 0 && read.records.is_empty(), "{read:?}");
    }
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    while got.len() < 300 {
        let read = log.read(consumers[0], (5_000, false), &mut desk);
        assert!(read.why.is_none() && !read.records.is_empty());
        got.extend(numbers(&read));
    }
    assert_eq!(got, all);
    assert_eq!((log.free().events, folder.files()), (300, 0));
}

/// They counted until all in their file had been read, which may be tens of thousands.
#[test]
fn an_event_counts_until_all_have_read_it() {
    let folder = Folder::new("counts");
    let mut random = fastrand::Rng::with_seed(5);
    let (consumers, events) = events(&mut random, 60, 2);
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("log-"));
    events.into_iter().for_each(|event| log.push(event));
    while log.is_pending() {
        log.write(1 << 30, &mut desk).unwrap();
    }
    let mut read = |log: &mut Backlog, which: usize| log.read(consumers[which], (5_000, false), &mut desk);
    let first = numbers(&read(&mut log, 0)).len() as u64;
    assert_eq!((log.free(), log.stored().events), (Freed::default(), 60));
    let second = numbers(&read(&mut log, 1)).len() as u64;
    let freed = log.free();
    assert_eq!((freed, log.stored().events), (Freed { events: first.min(second), bytes: 0 }, 60 - freed.events));
    assert!(freed.events > 0 && folder.files() == 1);
    log.forget(consumers[0]);
    log.forget(consumers[1]);
    assert_eq!((log.free().events, log.stored(), folder.files()), (60 - freed.events, Freed::default(), 0));
}

/// They stayed in memory until the disk could be written to again.
#[test]
fn what_cannot_be_written_and_has_no_reader_any_more_is_released() {
    let folder = Folder::new("let-go");
    let mut random = fastrand::Rng::with_seed(6);
    let (consumers, events) = events(&mut random, 300, 2);
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("log-"));
    let mut all = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += event.stored_bytes();
        all.push(u32::from_le_bytes(event.bytes[..4].try_into().unwrap()));
        log.push(event);
        if all.len() == 100 {
            log.write(1 << 30, &mut desk).unwrap();
        }
    }
    // The rest cannot be written. One has read some of it, the other none.
    let mut got = [Vec::new(), Vec::new()];
    while got[0].len() < 200 {
        got[0].extend(numbers(&log.read(consumers[0], (5_000, false), &mut desk)));
    }
    assert!(log.release().is_empty());
    while got[1].len() < 150 {
        got[1].extend(numbers(&log.read(consumers[1], (5_000, false), &mut desk)));
    }
    let in_file = 100.min(got[1].len());
    let release = log.release();
    assert_eq!(release.len(), got[1].len() - in_file);
    let freed = log.free();
    assert_eq!(freed.events, got[1].len() as u64);
    let released_bytes: u64 = release.iter().map(|event| event.stored_bytes()).sum();
    assert_eq!(log.stored().bytes, bytes - released_bytes - freed.bytes);
    // What both are yet to get is written when it can be, and read by both.
    while log.is_pending() {
        log.write(1 << 20, &mut desk).unwrap();
    }
    for (consumer, mut got) in consumers.iter().zip(got) {
        while got.len() < 300 {
            let read = log.read(*consumer, (5_000, false), &mut desk);
            assert!(read.why.is_none() && !read.records.is_empty());
            got.extend(numbers(&read));
        }
        assert_eq!(got, all);
    }
    log.forget(consumers[0]);
    // One that has gone needs nothing.
    log.forget(consumers[1]);
    log.free();
    assert_eq!((log.stored(), folder.files(), log.is_over()), (Freed::default(), 0, true));
}

#[test]
fn what_cannot_be_written_is_read_from_memory_and_written_when_it_can_be() {
    let folder = Folder::new("full");
    let mut random = fastrand::Rng::with_seed(3);
    let (consumers, events) = events(&mut random, 300, 2);
    let mut desk = Desk::default();
    let mut log = Backlog::new(folder.0.join("gone").join("log-"));
    let mut all = Vec::new();
    for event in events {
        all.push(u32::from_le_bytes(event.bytes[..4].try_into().unwrap()));
        log.push(event);
    }
    assert!(log.write(1 << 20, &mut desk).is_err(), "there is no such folder");
    let early = numbers(&log.read(consumers[0], (50_000, false), &mut desk));
    assert!(early.len() > 20 && early[..] == all[..early.len()]);
    fs::create_dir(folder.0.join("gone")).unwrap();
    while log.is_pending() {
        assert!(!log.write(1 << 20, &mut desk).unwrap().is_empty());
    }
    for (consumer, mut got) in [(consumers[0], early), (consumers[1], Vec::new())] {
        while got.len() < all.len() {
            let read = numbers(&log.read(consumer, (10_000, false), &mut desk));
            assert!(!read.is_empty());
            got.extend(read);
        }
        assert_eq!(got, all);
    }
}
