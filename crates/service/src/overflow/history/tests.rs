//! Stored history of a channel: what is read again after each kind of end, and what is not.

mod power;

use std::fs::{self, OpenOptions};

use engine::{ChannelLimits, Overflow, ProxyId, StartFrom, Time};

use super::*;
use crate::admin::values::HistoryEvent;
use crate::log::tests::{self as log, Folder};
use crate::log::{FOOTER, Origin, Segment, boot_id, first_of};

const CLOCK: UtcClock = UtcClock { lane: Time(0), utc: 1 << 50 };

/// An engine with a channel that stores its history.
struct Engine {
    engine: log::Engine,
    limits: HistoryLimits,
    now: Time,
}

impl Engine {
    fn new(limits: HistoryLimits, next: Option<NonZeroU64>) -> Self {
        let of_channel = ChannelLimits { history: limits, ..ChannelLimits::default() };
        Self { engine: log::Engine::new(of_channel, 0, next), limits, now: Time(0) }
    }

    /// Has so many events kept, of about so many octets, and each a second after the last.
    fn publish(&mut self, histories: &mut Histories, count: usize, octets: usize) {
        for _ in 0..count {
            self.now = self.now + Duration::from_secs(1);
            self.engine.publish(&vec![7; octets], self.now, |errand| {
                let Overflow::Remember { event, limits } = errand else { panic!("{errand:?}") };
                assert_eq!(limits, self.limits);
                histories.push(event, limits);
            });
            self.write(histories);
        }
    }

    fn write(&mut self, histories: &mut Histories) {
        let bytes_max = histories.bytes_max();
        let mut written = Vec::new();
        for history in histories.pending() {
            while !history.log.pending().is_empty() {
                written.extend(history.write(bytes_max, &CLOCK, &mut Desk::default()).unwrap());
            }
        }
        written.into_iter().for_each(|event| self.engine.lane.note_remembered(event, self.now));
    }
}

fn open(folder: &Folder) -> (Histories, Option<NonZeroU64>) {
    let (histories, next) =
        Histories::open(folder.0.to_path_buf(), 1 << 40, boot_id(), |_| true, &mut Desk::default()).unwrap();
    (histories, next.first().map(|(_, next)| *next))
}

fn files(folder: &Folder) -> Vec<PathBuf> {
    crate::log::segments_in(&folder.0.join("channel-0"), &crate::log::files::MachineFiles).unwrap()
}

const EVENTS: HistoryLimits = HistoryLimits { events: 100_000, age: Duration::ZERO, bytes: 0 };
const READER: ProxyKey = ProxyKey { channel: ChannelId(0), proxy: ProxyId(9) };

/// The numbers that a consumer gets that begins somewhere, by pieces of so many octets.
fn numbers(histories: &mut Histories, start: StartFrom, bytes: usize) -> Vec<u64> {
    numbers_at(histories, start, bytes, Time(0) + Duration::from_secs(1_000))
}

/// What is next for the consumer: so many octets, and the number of the first event.
fn read(histories: &mut Histories, bytes: usize, gives_up: bool) -> io::Result<Option<(Chunk, Option<u64>)>> {
    let request = HistoryRequest { bytes, gives_up, clock: &CLOCK, key_of: &|_, _| None };
    let chunk = histories.get(ChannelId(0)).unwrap().read(READER, request, &mut Desk::default())?;
    Ok(chunk.map(|chunk| {
        let first = first_of(&chunk.records).map(|(number, ..)| u64::from_le_bytes(number));
        (chunk, first)
    }))
}

fn numbers_at(histories: &mut Histories, start: StartFrom, bytes: usize, now: Time) -> Vec<u64> {
    histories.get(ChannelId(0)).unwrap().begin(READER, start, CLOCK.utc_time(now));
    let mut numbers = Vec::new();
    loop {
        let Some((chunk, _)) = read(histories, bytes, false).unwrap() else { continue };
        let mut rest: &[u8] = &chunk.records;
        while let Some((number, record, behind)) = first_of(rest) {
            assert_eq!(Record::read(record).unwrap().name, b"name");
            numbers.push(u64::from_le_bytes(number));
            rest = behind;
        }
        assert_eq!(chunk.fetched.lost, 0);
        if chunk.fetched.through.is_some() {
            histories.get(ChannelId(0)).unwrap().forget(READER);
            return numbers;
        }
    }
}

#[test]
fn what_was_kept_is_read_again_by_pieces_of_any_size_from_anywhere() {
    let folder = Folder::new("history-again");
    let limits = HistoryLimits { bytes: 4 << 20, ..HistoryLimits::default() };
    let (mut histories, next) = open(&folder);
    let mut engine = Engine::new(limits, next);
    engine.publish(&mut histories, 900, 1_500);
    histories.finish(&CLOCK, &mut Desk::default()).unwrap();
    for is_finished in [true, false] {
        let (mut histories, next) = open(&folder);
        assert_eq!(next.map(NonZeroU64::get), Some(901), "{is_finished}");
        assert!(files(&folder).len() > 10, "each of 64 KiB");
        for bytes in [1, 3_000, 100_000, 10 << 20] {
            assert_eq!(numbers(&mut histories, StartFrom::First, bytes), (1..=900).collect::<Vec<_>>());
            assert_eq!(numbers(&mut histories, StartFrom::Number(433), bytes), (433..=900).collect::<Vec<_>>());
            assert_eq!(numbers(&mut histories, StartFrom::Last(3), bytes), [898, 899, 900]);
            assert_eq!(numbers(&mut histories, StartFrom::LastOfEachType, bytes), [900]);
            assert!(numbers(&mut histories, StartFrom::Number(901), bytes).is_empty());
            assert!(numbers(&mut histories, StartFrom::New, bytes).is_empty());
            // The 900 events came in as many seconds, and it is the thousandth.
            let time = CLOCK.utc_time(Time(0)) + 450 * 10_000_000;
            assert_eq!(numbers(&mut histories, StartFrom::Time(time), bytes), (450..=900).collect::<Vec<_>>());
            let since = StartFrom::Since(Duration::from_secs(550));
            assert_eq!(numbers(&mut histories, since, bytes), (450..=900).collect::<Vec<_>>());
        }
        // As if the process had been killed: the end does not say what is in the file.
        let last = files(&folder).pop().unwrap();
        let length = fs::metadata(&last).unwrap().len();
        OpenOptions::new().write(true).open(&last).unwrap().set_len(length - FOOTER as u64).unwrap();
    }
}

/// Reported bounds are searched step by step, and remembered; a consumer that begins searches anew.
#[test]
fn where_the_history_begins_is_reported_as_a_consumer_finds_it() {
    let of_age = HistoryLimits { age: Duration::from_secs(300), ..HistoryLimits::default() };
    let of_events = HistoryLimits { events: 700, ..HistoryLimits::default() };
    let of_both = HistoryLimits { events: 200, ..of_age };
    for (at, limits) in [of_age, of_events, of_both].into_iter().enumerate() {
        let folder = Folder::new(&format!("history-standing-{at}"));
        let (mut histories, next) = open(&folder);
        let mut engine = Engine::new(limits, next);
        let mut random = fastrand::Rng::with_seed(7);
        let mut came = Vec::new();
        for round in 0..60 {
            if round == 30 {
                histories.finish(&CLOCK, &mut Desk::default()).unwrap();
                (histories, _) = open(&folder);
            }
            for _ in 0..random.usize(1..40) {
                engine.publish(&mut histories, 1, random.usize(10..3_000));
                came.push(CLOCK.utc_time(engine.now));
            }
            // Sometimes nothing comes for long.
            engine.now = engine.now + Duration::from_secs(random.choice([0, 20, 200, 400]).unwrap());
            histories.trim(CLOCK.utc_time(engine.now));
            if random.bool() {
                continue;
            }
            let found = numbers_at(&mut histories, StartFrom::First, 10 << 20, engine.now);
            let history = histories.get(ChannelId(0)).unwrap();
            let reported = history.status(ChannelId(0), CLOCK.utc_time(engine.now), &mut Desk::default());
            let event =
                |number: &u64| HistoryEvent { number: *number, came: came[usize::try_from(*number).unwrap() - 1] };
            let ends = [found.first(), found.last()].map(|end| end.map(event));
            assert_eq!([reported.first, reported.last], ends, "{limits:?}, round {round}");
            assert_eq!(reported.events, found.len() as u64);
            assert!(reported.bytes > 0);
        }
    }
}

/// They were counted by their numbers: with the first event after a power cut all that had been kept went, and a consumer that began with
/// the last 20 got those that came since.
#[test]
fn the_last_events_stay_where_numbers_have_gone_on_far_behind_them() {
    let folder = Folder::new("history-jump");
    let limits = HistoryLimits { events: 400, ..HistoryLimits::default() };
    let (mut histories, next) = open(&folder);
    Engine::new(limits, next).publish(&mut histories, 700, 50);
    drop(histories);
    let (mut histories, next) =
        Histories::open(folder.0.to_path_buf(), 1 << 40, [9; 16], |_| true, &mut Desk::default()).unwrap();
    let next = next.first().map(|(_, next)| *next);
    Engine::new(limits, next).publish(&mut histories, 10, 50);
    histories.trim(CLOCK.utc);
    let first_new = next.unwrap().get();
    let expected: Vec<u64> = (311..=700).chain(first_new..first_new + 10).collect();
    assert!(first_new > 1 << 20 && numbers(&mut histories, StartFrom::First, 1_000) == expected);
    for last in [0, 5, 20, 400] {
        let found = numbers(&mut histories, StartFrom::Last(last), 1_000);
        assert_eq!(found, expected[400 - usize::try_from(last).unwrap()..], "the last {last}");
    }
}

/// Each end of a process just there would have been reported as damage.
#[test]
fn a_file_without_an_event_is_not_damaged_and_goes() {
    let folder = Folder::new("history-empty");
    let (mut histories, next) = open(&folder);
    Engine::new(EVENTS, next).publish(&mut histories, 10, 50);
    drop(histories);
    let path = folder.0.join("channel-0").join(format!("{:020}.events", 11));
    Segment::<()>::create(path.clone(), 11, Origin { boot: boot_id(), epoch: 1 }, &mut Desk::default()).unwrap();
    assert_eq!(files(&folder).len(), 2);
    let home = Folder::new("history-home").0;
    fs::rename(&folder.0, home.join(crate::overflow::HISTORY_FOLDER)).unwrap();
    let (channels, damaged) = stored::look(&home, true).unwrap();
    fs::rename(home.join(crate::overflow::HISTORY_FOLDER), &folder.0).unwrap();
    assert_eq!((channels[0].events, channels[0].files, damaged), (10, 2, Vec::new()));
    let (mut histories, _) = open(&folder);
    assert_eq!(numbers(&mut histories, StartFrom::First, 1_000), (1..=10).collect::<Vec<_>>());
    assert!(files(&folder).len() == 2 && !path.exists(), "in its place there is one that is gone on with");
}

#[test]
fn what_is_too_old_goes_though_nothing_comes() {
    let folder = Folder::new("history-age");
    let limits = HistoryLimits { age: Duration::from_secs(80), ..HistoryLimits::default() };
    let (mut histories, next) = open(&folder);
    let mut engine = Engine::new(limits, next);
    engine.publish(&mut histories, 100, 50);
    let now = CLOCK.utc_time(engine.now);
    let of_age = |histories: &mut Histories, now: u64| {
        histories.get(ChannelId(0)).unwrap().begin(READER, StartFrom::First, now);
        read(histories, 1 << 20, false).unwrap().unwrap().1
    };
    assert!(histories.has_ages());
    assert_eq!(of_age(&mut histories, now), Some(20));
    assert_eq!(of_age(&mut histories, now + 600_000_000), Some(80));
    assert_eq!(of_age(&mut histories, now + 6_000_000_000), None);
    histories.trim(now);
    assert!(histories.events() < 110);
}

#[test]
fn channels_that_are_no_more_have_no_history_and_another_version_is_left_alone() {
    let folder = Folder::new("history-gone");
    let (mut histories, next) = open(&folder);
    Engine::new(EVENTS, next).publish(&mut histories, 10, 50);
    drop(histories);
    let file = files(&folder).pop().unwrap();
    let mut octets = fs::read(&file).unwrap();
    octets[8] = 3;
    fs::write(&file, &octets).unwrap();
    let Err(error) = Histories::open(folder.0.to_path_buf(), 1 << 40, boot_id(), |_| true, &mut Desk::default()) else {
        panic!()
    };
    assert!(error.to_string().contains("is of version 3, and this release knows 2"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), octets);
    let (histories, numbers) =
        Histories::open(folder.0.to_path_buf(), 1 << 40, boot_id(), |_| false, &mut Desk::default()).unwrap();
    assert_eq!((histories.events(), numbers.len(), fs::read_dir(&folder.0).unwrap().count()), (0, 0, 0));
}

#[test]
fn a_consumer_that_is_too_slow_is_notified_of_its_loss() {
    let folder = Folder::new("history-slow");
    let limits = HistoryLimits { bytes: 1 << 20, ..HistoryLimits::default() };
    let (mut histories, next) = open(&folder);
    let mut engine = Engine::new(limits, next);
    engine.publish(&mut histories, 500, 1_500);
    histories.get(ChannelId(0)).unwrap().begin(READER, StartFrom::First, CLOCK.utc);
    assert_eq!(read(&mut histories, 1, false).unwrap().unwrap().0.fetched.begins, Some(1));
    engine.publish(&mut histories, 1_000, 1_500);
    histories.trim(CLOCK.utc);
    let (chunk, number) = read(&mut histories, 1, false).unwrap().unwrap();
    let number = number.unwrap();
    assert!(number > 500);
    assert_eq!(chunk.fetched.lost, number - 2);
}

#[test]
fn what_cannot_be_read_now_is_read_when_it_can_be_and_is_lost_if_that_was_often() {
    let folder = Folder::new("history-unreadable");
    let limits = HistoryLimits { bytes: 4 << 20, ..HistoryLimits::default() };
    let (mut histories, next) = open(&folder);
    Engine::new(limits, next).publish(&mut histories, 200, 1_500);
    let files = files(&folder);
    let (second, aside) = (&files[1], folder.0.join("aside"));
    fs::rename(second, &aside).unwrap();
    fs::create_dir(second).unwrap();
    let read = |histories: &mut Histories, gives_up| {
        let (chunk, first) = read(histories, 1 << 20, gives_up)?.unwrap();
        Ok::<_, io::Error>((first, chunk.fetched.lost, chunk.fetched.through))
    };
    let begin =
        |histories: &mut Histories| histories.get(ChannelId(0)).unwrap().begin(READER, StartFrom::First, CLOCK.utc);
    for lasts in [false, true] {
        begin(&mut histories);
        assert_eq!(read(&mut histories, false).unwrap(), (Some(1), 0, None), "the first file");
        assert!((0..3).all(|_| read(&mut histories, false).is_err()));
        if lasts {
            let (first, lost, through) = read(&mut histories, true).unwrap();
            assert!(lost > 10 && through == Some(200), "{lost}");
            assert!(first.is_some_and(|first| first > lost));
        } else {
            fs::remove_dir(second).unwrap();
            fs::rename(&aside, second).unwrap();
            let (first, lost, through) = read(&mut histories, false).unwrap();
            assert!(first.is_some() && lost == 0 && through == Some(200));
            fs::rename(second, &aside).unwrap();
            fs::create_dir(second).unwrap();
        }
    }
}
