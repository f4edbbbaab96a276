//! Histories on a disk that forgets what was not synchronised, is full, fails, and flips bits.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::*;
use crate::simulation::disk::SimulatedDisk;

/// What is known of a history.
#[derive(Default)]
struct Model {
    /// Of each number what events said that were to be kept under it.
    said: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    /// Numbers under which events were written at any time.
    given: BTreeSet<u64>,
    /// Those that are to be read, but for those that went since they were too much.
    there: BTreeSet<u64>,
}

impl Model {
    fn note_written(&mut self, number: u64) {
        self.given.insert(number);
        self.there.insert(number);
    }
}

/// A service with its history: one channel.
struct Service {
    seed: u64,
    random: Rng,
    disk: SimulatedDisk,
    boot: u8,
    /// Whether a bit of a file was flipped.
    is_damaged: bool,
    model: Model,
}

/// How a process ends. The power may be cut after it ended in order, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InOrder,
    Killed,
    WithoutPower,
    InOrderAndWithoutPower,
}

impl Service {
    fn new(seed: u64) -> Self {
        let (random, disk) = (Rng::with_seed(seed), SimulatedDisk::default());
        disk.create_folder(Path::new("/store")).unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        Self { seed, random, disk, boot: 1, is_damaged: false, model: Model::default() }
    }

    /// One process, from its start to its end.
    fn run(&mut self, last: Option<End>) -> End {
        let mut desk = Desk::on(Arc::new(self.disk.clone()), self.random.bool());
        let folder = PathBuf::from("/store/history");
        let (mut histories, next) = match Histories::open(folder, 1 << 40, [self.boot; 16], |_| true, &mut desk) {
            // A bit of the version.
            Err(error) if self.is_damaged && error.kind() == io::ErrorKind::Unsupported => return End::Killed,
            opened => opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed)),
        };
        // Of a history of two files the last of which the disk has the name may be the one that goes.
        let bytes = if self.seed.is_multiple_of(2) { 1 << 20 } else { 100_000 };
        let events = if self.seed.is_multiple_of(3) { 300 } else { 0 };
        let limits = HistoryLimits { bytes, events, ..HistoryLimits::default() };
        self.model.there = self.check(&mut histories, last, &mut desk);
        self.model.given.extend(&self.model.there);
        let limits_of_channel = ChannelLimits { history: limits, ..ChannelLimits::default() };
        let mut engine = log::Engine::new(limits_of_channel, 0, next.first().map(|(_, next)| *next));
        for _ in 0..self.random.usize(..60) {
            self.step(&mut engine, &mut histories, &mut desk);
        }
        self.disk.set_room(None);
        self.disk.set_failing(0, 0);
        let read = self.check(&mut histories, Some(End::Killed), &mut desk);
        // What went since it was too much may be there again, where it could not be removed.
        self.model.there = self.model.there.split_off(read.first().unwrap_or(&0));
        self.end(histories, &mut desk)
    }

    fn step(&mut self, engine: &mut log::Engine, histories: &mut Histories, desk: &mut Desk) {
        match self.random.u32(..100) {
            0..60 => {
                for _ in 0..self.random.usize(1..20) {
                    let octets: Vec<u8> = core::iter::repeat_with(|| self.random.u8(..)).take(40).collect();
                    let octets = octets.repeat(self.random.usize(1..70));
                    engine.publish(&octets, Time(0), |errand| {
                        let Overflow::Remember { event, limits } = errand else { panic!("{errand:?}") };
                        let number = event.number().unwrap().get();
                        let is_new = !self.model.given.contains(&number);
                        // Behind a damaged record of the last file it is not known how many there were.
                        assert!(is_new || self.is_damaged, "seed {}: {number} was given", self.seed);
                        self.model.said.entry(number).or_default().insert(octets.clone());
                        histories.push(event, limits);
                    });
                }
            }
            60..64 => self.disk.set_room(Some(self.random.usize(..200_000))),
            64..70 => self.disk.set_room(None),
            70..73 => self.disk.set_failing(self.random.u32(1..500), self.random.u64(..)),
            73..78 => self.disk.set_failing(0, 0),
            78..80 => _ = histories.trim(CLOCK.utc),
            80 if self.seed.is_multiple_of(4) => self.is_damaged |= self.disk.flip_a_bit(&mut self.random).is_some(),
            _ => {}
        }
        for _ in 0..self.random.usize(..4) {
            self.write(engine, histories, desk);
        }
    }

    fn write(&mut self, engine: &mut log::Engine, histories: &mut Histories, desk: &mut Desk) {
        let bytes_max = histories.bytes_max();
        for history in histories.pending() {
            // What fails is tried again.
            for event in history.write(bytes_max, &CLOCK, desk).unwrap_or_default() {
                self.model.note_written(event.number().unwrap().get());
                engine.lane.note_remembered(event, Time(0));
            }
        }
    }

    /// The numbers that are read. Each event is one that was written, under its number, in order; and all are there that have to be, unless
    /// the power was cut or the disk has damaged them.
    fn check(&mut self, histories: &mut Histories, last: Option<End>, desk: &mut Desk) -> BTreeSet<u64> {
        let Some(history) = histories.get(ChannelId(0)) else { return BTreeSet::new() };
        history.begin(READER, StartFrom::First, CLOCK.utc);
        let mut read = Vec::new();
        loop {
            let request =
                HistoryRequest { bytes: 10_000, gives_up: self.is_damaged, clock: &CLOCK, key_of: &|_, _| None };
            let chunk = history.read(READER, request, desk).unwrap().unwrap();
            let mut rest: &[u8] = &chunk.records;
            while let Some((number, record, behind)) = first_of(rest) {
                let number = u64::from_le_bytes(number);
                let mut event = Event::default();
                Record::read(record).unwrap().fill(&mut event, &CLOCK);
                let said = self.model.said.get(&number).is_some_and(|said| said.contains(&event.bytes[..]));
                assert!(said, "seed {}: {number} said something else", self.seed);
                read.push(number);
                rest = behind;
            }
            let may_be_lost = self.is_damaged || self.boot > 1;
            assert!(chunk.fetched.lost == 0 || may_be_lost, "seed {}: {} lost", self.seed, chunk.fetched.lost);
            if chunk.fetched.through.is_some() {
                break;
            }
        }
        assert!(read.is_sorted_by(|before, after| before < after), "seed {}: {read:?}", self.seed);
        if last != Some(End::WithoutPower) && !self.is_damaged {
            let first = read.first().copied().unwrap_or_default();
            let missing = self.model.there.range(first..).find(|number| read.binary_search(number).is_err());
            assert_eq!(missing, None, "seed {}: after {last:?}", self.seed);
        }
        histories.get(ChannelId(0)).unwrap().forget(READER);
        read.into_iter().collect()
    }

    fn end(&mut self, mut histories: Histories, desk: &mut Desk) -> End {
        let mut end =
            [End::InOrder, End::Killed, End::WithoutPower, End::InOrderAndWithoutPower][self.random.usize(..4)];
        if matches!(end, End::InOrder | End::InOrderAndWithoutPower) {
            let history = histories.get(ChannelId(0));
            let pending: Vec<u64> = history
                .map(|history| history.log.pending().iter().map(|(number, _)| *number).collect())
                .unwrap_or_default();
            histories.finish(&CLOCK, desk).unwrap();
            pending.into_iter().for_each(|number| self.model.note_written(number));
        }
        if matches!(end, End::WithoutPower | End::InOrderAndWithoutPower) {
            self.disk.lose_power(&mut self.random);
            self.boot += 1;
            end = End::WithoutPower;
        } else {
            self.disk.lose_process();
        }
        end
    }
}

#[test]
fn whatever_becomes_of_a_disk_no_number_is_given_twice_and_what_is_read_is_what_was_written() {
    for seed in 0..120 {
        let (mut service, mut last) = (Service::new(seed), None);
        for _ in 0..8 {
            last = Some(service.run(last));
        }
    }
}
