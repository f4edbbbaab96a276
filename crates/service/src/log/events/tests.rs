//! The log of events on a disk that forgets what was not synchronised, is full, and fails.

use fastrand::Rng;

use super::*;
use crate::simulation::disk::SimulatedDisk;

type Key = [u8; KEY_BYTES];

/// What a log is to have: an entry for each event, with its list, and each origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    events: BTreeMap<u64, (Vec<u8>, Option<Vec<u8>>)>,
    origins: BTreeMap<u64, Key>,
}

impl Model {
    fn with(&self, batch: &Batch) -> Self {
        let mut model = self.clone();
        for entry in batch.entries() {
            match entry {
                Entry::Event(number, record) => _ = model.events.insert(number, (record.to_vec(), None)),
                Entry::List(number, list) => {
                    model.events.get_mut(&number).unwrap().1 = Some(list.to_vec());
                }
                Entry::Gone(first, last) => model.events.retain(|number, _| !(first..=last).contains(number)),
                Entry::Origin(number, key) => _ = model.origins.insert(number, *key),
                Entry::OriginsGone(first, last) => model.origins.retain(|number, _| !(first..=last).contains(number)),
            }
        }
        model
    }
}

struct Run {
    seed: u64,
    random: Rng,
    disk: SimulatedDisk,
    /// What was acknowledged, and what there may be instead: with one of the batches that failed since.
    model: Model,
    instead: Vec<Model>,
    next_event: u64,
    /// Numbers that come later than greater ones.
    late: Vec<u64>,
    positions: BTreeSet<(u64, u64)>,
    last: u64,
    condensed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (random, disk) = (Rng::with_seed(seed), SimulatedDisk::default());
        disk.create_folder(Path::new("/journal")).unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        let (model, instead, late, positions) = (Model::default(), Vec::new(), Vec::new(), BTreeSet::new());
        Self { seed, random, disk, model, instead, next_event: 1, late, positions, last: 0, condensed: 0 }
    }

    fn open(&mut self, desk: &mut Desk) -> EventLog {
        let opened = EventLog::open("/journal".into(), [1; 16], 8_000, desk);
        let (mut log, recovered) = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let mut found = Model { origins: recovered.origins, ..Model::default() };
        log.each_event(0, desk, |number, record| {
            let list = recovered.lists.get(&number).map(|list| list.to_vec());
            assert!(found.events.last_key_value().is_none_or(|(last, _)| *last < number), "seed {}", self.seed);
            found.events.insert(number, (record.to_vec(), list));
            true
        })
        .unwrap();
        let is_it = |model: &&Model| **model == found;
        let Some(model) = [&self.model].into_iter().chain(&self.instead).find(is_it).cloned() else {
            let there: Vec<_> = found.events.keys().filter(|number| !self.model.events.contains_key(number)).collect();
            let missing: Vec<_> =
                self.model.events.keys().filter(|number| !found.events.contains_key(number)).collect();
            let origins = (found.origins.len(), self.model.origins.len());
            panic!(
                "seed {}: too many {there:?}, missing {missing:?}, origins {origins:?}, {} instead",
                self.seed,
                self.instead.len()
            );
        };
        self.model = model;
        self.instead.clear();
        let last = self.model.events.last_key_value().map_or(0, |(number, _)| *number);
        assert!(log.next_event() > last, "seed {}", self.seed);
        self.next_event = self.next_event.max(log.next_event());
        log
    }

    fn process(&mut self) {
        let mut desk = Desk::on(Arc::new(self.disk.clone()), false);
        let mut log = self.open(&mut desk);
        for _ in 0..self.random.usize(..80) {
            match self.random.u32(..100) {
                0..3 => self.disk.set_room(Some(self.random.usize(..20_000))),
                3..10 => self.disk.set_room(None),
                10..13 => self.disk.set_failing(self.random.u32(1..600), self.random.u64(..)),
                13..22 => self.disk.set_failing(0, 0),
                22..40 => {
                    let condensed = log.condense(&mut desk);
                    self.condensed += u64::from(condensed.is_ok_and(|condensed| condensed));
                }
                40..43 => self.check(&mut log, &mut desk),
                _ => self.append(&mut log, &mut desk),
            }
        }
        (self.disk.set_room(None), self.disk.set_failing(0, 0));
        self.check(&mut log, &mut desk);
        if self.random.bool() { self.disk.lose_power(&mut self.random) } else { self.disk.lose_process() }
    }

    fn append(&mut self, log: &mut EventLog, desk: &mut Desk) {
        let batch = self.batch();
        let after = self.model.with(&batch);
        match log.append(&batch, desk) {
            Ok(Position { epoch, number }) => {
                assert!(self.positions.insert((epoch, number)), "seed {}: {epoch}, {number}", self.seed);
                assert!(number > self.last, "seed {}: {number} behind {}", self.seed, self.last);
                (self.model, self.last) = (after, number);
                self.instead.clear();
            }
            Err(_) => self.instead.push(after),
        }
    }

    fn batch(&mut self) -> Batch {
        let (mut batch, random) = (Batch::default(), &mut self.random);
        let mut numbers = Vec::new();
        for _ in 0..random.usize(..5) {
            let mut number = self.next_event;
            self.next_event += 1;
            if random.u32(..20) == 0 {
                self.late.push(number);
                continue;
            }
            if random.u32(..20) == 0
                && let Some(late) = self.late.pop()
            {
                numbers.push(late);
                // In a batch, too, it may stand anywhere.
                (number, self.next_event) = (self.next_event, self.next_event + 1);
            }
            numbers.push(number);
        }
        let mut there: Vec<u64> = self.model.events.keys().copied().collect();
        for number in numbers {
            let length = random.usize(..700);
            let record: Vec<u8> = core::iter::repeat_with(|| random.u8(..)).take(length).collect();
            batch.add(Entry::Event(number, &record));
            if random.u32(..4) == 0 {
                let key = [random.u8(..40); KEY_BYTES];
                batch.add(Entry::Origin(number, &key));
            }
            there.push(number);
        }
        for _ in 0..random.usize(..3) {
            let list = [random.u8(..); 8];
            if let Some(number) = random.choice(&there) {
                batch.add(Entry::List(*number, &list[..random.usize(..8)]));
            }
        }
        // Now and then nearly all goes.
        let gone = if random.u32(..30) == 0 { there.len() } else { random.usize(..4) };
        for _ in 0..gone {
            if there.is_empty() {
                break;
            }
            // Most often the first.
            let at = if random.u32(..4) > 0 { 0 } else { random.usize(..there.len()) };
            let number = there.remove(at);
            batch.add(Entry::Gone(number, number));
        }
        if random.u32(..5) == 0
            && let Some(number) = random.choice(self.model.origins.keys())
        {
            batch.add(Entry::OriginsGone(*number, number + random.u64(..3)));
        }
        batch
    }

    /// In the process itself there is what was acknowledged, and nothing else.
    fn check(&mut self, log: &mut EventLog, desk: &mut Desk) {
        let mut events = BTreeMap::new();
        let told = log.each_event(0, desk, |number, record| events.insert(number, record.to_vec()).is_none());
        // It may fail.
        if told.is_ok() {
            let expected = self.model.events.iter().map(|(number, (record, _))| (*number, record.clone()));
            assert!(events == expected.collect(), "seed {}", self.seed);
        }
        if let Some((number, (record, _))) = random_of(&mut self.random, &self.model.events) {
            let read = log.event(*number, desk, <[u8]>::to_vec);
            assert!(read.is_err() || read.unwrap().as_ref() == Some(record), "seed {}", self.seed);
        }
    }

    /// When all is gone there is hardly anything left.
    fn end(&mut self) {
        let mut desk = Desk::on(Arc::new(self.disk.clone()), false);
        let mut log = self.open(&mut desk);
        let mut batch = Batch::default();
        batch.add(Entry::Gone(0, self.next_event));
        batch.add(Entry::OriginsGone(0, self.next_event));
        self.model = self.model.with(&batch);
        log.append(&batch, &mut desk).unwrap();
        for number in self.next_event..self.next_event + 3 {
            batch.clear();
            batch.add(Entry::Event(number, &[0; 9_000]));
            batch.add(Entry::Gone(number, number));
            log.append(&batch, &mut desk).unwrap();
            while log.condense(&mut desk).unwrap() {}
        }
        assert!(self.disk.files().len() <= 2, "seed {}: {:?}", self.seed, self.disk.files());
        self.disk.lose_power(&mut self.random);
        self.open(&mut Desk::on(Arc::new(self.disk.clone()), false));
    }
}

fn random_of<'m, K, V>(random: &mut Rng, map: &'m BTreeMap<K, V>) -> Option<(&'m K, &'m V)> {
    if map.is_empty() { None } else { map.iter().nth(random.usize(..map.len())) }
}

#[test]
fn what_was_acknowledged_is_there_after_any_end_and_what_is_gone_does_not_come_back() {
    let mut condensed = 0;
    for seed in 0..300 {
        let mut run = Run::new(seed);
        for _ in 0..10 {
            run.process();
        }
        run.end();
        condensed += run.condensed;
    }
    assert!(condensed > 0);
}
