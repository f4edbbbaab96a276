//! The store on a medium that forgets what was not synchronised, tears writes, and fails.

use std::io;
use std::sync::{Mutex, PoisonError};

use redb::StorageBackend;
use testing::wait_until;

use super::*;
use crate::counters::Counters;

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
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Medium(Arc<Mutex<State>>);

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

impl Medium {
    /// A store on it.
    pub(crate) fn store(&self, bell: &Arc<Bell>, counters: &Counters) -> Store {
        let opened = self.clone();
        let disk = Disk::on(move || opened.clone()).unwrap();
        Store::start(disk, bell, counters.of_store()).unwrap()
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for something that can fail.
    fn attempt<R>(&self, act: impl FnOnce(&mut State) -> R) -> Result<R, io::Error> {
        self.with(|state| {
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
    fn lose_power(&self, random: &mut fastrand::Rng) {
        self.with(|state| {
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
        });
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for Medium {
    fn len(&self) -> Result<u64, io::Error> {
        self.attempt(|state| state.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.attempt(|state| out.copy_from_slice(&state.seen[place(offset)..][..out.len()]))
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.attempt(|state| Self::change(state, Unsynchronised::Resized(place(len))))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.attempt(|state| {
            state.unsynchronised.clear();
            state.kept.clone_from(&state.seen);
        })
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
        let medium = Medium::default();
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
    assert_eq!(store.end((3, batch(3))), 3);
    assert_eq!(counters.read(Counter::StoreWrites), 3);
    let found = Disk::on(move || medium.clone()).unwrap().image().unwrap();
    assert_eq!(found.keys().map(|key| key[0]).collect::<Vec<u8>>(), [1, 2, 3]);
}
