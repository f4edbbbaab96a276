//! What is brought out of a damaged file.

use std::fs;
use std::path::PathBuf;

use testing::TempPath;

use super::*;
use crate::store::salvage::{Salvaged, salvage};
use crate::store::stored::OfflineStore;
use crate::store::stored::OfflineStoreError;
use crate::store::target::{Target, UNFINISHED};

/// A folder that goes with the test.
struct Folder(TempPath);

impl Folder {
    fn new(name: &str) -> Self {
        Self(TempPath::new(name))
    }

    fn empty(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }

    fn file(&self) -> PathBuf {
        self.0.join(disk::FILE)
    }
}

/// Everything in a store.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    parts: corba::Image,
    events: BTreeMap<u64, Vec<u8>>,
    lists: BTreeMap<u64, Vec<u8>>,
    origins: Vec<(u64, SeenOrigin)>,
    service: u64,
}

impl Content {
    fn of(folder: &Folder) -> Self {
        let mut disk = Disk::look_at(&folder.0).unwrap();
        let (origins, service) = (disk.origins_seen().unwrap(), disk.service().unwrap());
        let mut content = Self { parts: disk.image().unwrap(), origins, service, ..Self::default() };
        let look = |number, list: Option<&[u8]>, record: &[u8]| {
            content.events.insert(number, record.to_vec());
            content.lists.extend(list.map(|list| (number, list.to_vec())));
            ControlFlow::Continue(())
        };
        disk.each_event(0, look).unwrap();
        content
    }

    /// Whether all of it is the other's.
    fn is_of(&self, other: &Self) -> bool {
        self.parts.iter().all(|(key, value)| other.parts.get(key) == Some(value))
            && self.events.iter().all(|(number, record)| other.events.get(number) == Some(record))
            && self.lists.iter().all(|(number, list)| other.lists.get(number) == Some(list))
            && self.origins.iter().all(|origin| other.origins.contains(origin))
    }
}

/// A store with events of many sizes, some of which have gone.
fn store(folder: &Folder, largest: usize) -> Content {
    let mut random = fastrand::Rng::with_seed(1);
    let mut disk = Disk::open(&folder.0).unwrap();
    let parts: Changes = (0..60_u8).map(|key| (vec![key; 9], Some(vec![random.u8(..); random.usize(..300)]))).collect();
    disk.write(&parts).unwrap();
    for batch in 0..8_u64 {
        let write = |batch_of: &mut disk::Batch<'_>| {
            for number in batch * 40 + 1..=batch * 40 + 40 {
                let length = if number % 40 == 0 { largest } else { random.usize(..600) };
                let (mut record, mut list) = (Vec::new(), Vec::new());
                Record::of(&pending_event(SOURCE, vec![random.u8(..); length]), Time(0), &UtcClock::default())
                    .write(&mut record);
                batch_of.keep_event(number, &record)?;
                record::write_consumers((0..random.u32(..4)).map(ProxyId), &mut list);
                batch_of.keep_consumers(number, &list)?;
                let origin = SeenOrigin { channel: SOURCE.channel, service: 2, era: batch, number: random.u64(..) };
                batch_of.keep_origin(number, &origin)?;
            }
            (0..10).try_for_each(|at| batch_of.forget_event(batch * 40 + 1 + at * 3, true))
        };
        disk.write_batch(Phases::One, write).unwrap();
    }
    drop(disk);
    Content::of(folder)
}

/// What is brought out of a file with these bits flipped.
fn flipped(from: &Folder, to: &Folder, file: &[u8], bits: &[usize]) -> (Salvaged, Content) {
    let mut damaged = file.to_vec();
    bits.iter().for_each(|bit| damaged[bit / 8] ^= 1 << (bit % 8));
    fs::write(from.file(), damaged).unwrap();
    to.empty();
    let mut salvaged = salvage(&from.0, &to.0).unwrap();
    // Parts of this test's are none of a topology.
    salvaged.damaged.retain(|why| !why.starts_with("what is configured cannot be restored"));
    (salvaged, Content::of(to))
}

/// Of 80 files with one wrong bit 52 were refused altogether, with everything in them.
#[test]
fn one_wrong_bit_anywhere_in_a_store_costs_nothing() {
    let (from, to) = (Folder::new("flipped"), Folder::new("salvaged"));
    let content = store(&from, 9_000);
    let file = fs::read(from.file()).unwrap();
    let in_header = (0..320 * 8).step_by(47);
    // What is in use comes first.
    let used = file.chunks(4_096).enumerate().filter(|(_, page)| page.iter().any(|octet| *octet != 0));
    let in_pages = used.flat_map(|(page, _)| [3 + page % 61, 8 * 700 + page % 8].map(|bit| page * 4_096 * 8 + bit));
    let bits: Vec<usize> = in_header.chain(in_pages).collect();
    assert!(bits.len() > 100, "{}", bits.len());
    let mut corrected = 0;
    for bit in bits {
        let (salvaged, found) = flipped(&from, &to, &file, &[bit]);
        assert!(salvaged.is_complete(), "bit {bit}: {salvaged:?}");
        assert!(found == content, "bit {bit}");
        corrected += salvaged.corrected;
    }
    assert!(corrected > 30, "{corrected}");
}

#[test]
fn what_more_wrong_bits_cost_is_said_and_nothing_damaged_is_brought_out() {
    let (from, to) = (Folder::new("worse"), Folder::new("worse-salvaged"));
    // The largest are in pages that are too large to try each bit.
    let content = store(&from, 70_000);
    let file = fs::read(from.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    let (mut lost, mut complete) = (0, 0);
    for _ in 0..60 {
        // In one page, or anywhere.
        let page = random.usize(..file.len() / 4_096) * 4_096 * 8;
        let bits: Vec<usize> = match random.u32(..3) {
            0 => (0..random.usize(2..6)).map(|_| page + random.usize(..4_096 * 8)).collect(),
            1 => (0..random.usize(2..2_000)).map(|_| random.usize(..file.len() * 8)).collect(),
            _ => (0..random.usize(2..6)).map(|_| random.usize(..512 * 8)).collect(),
        };
        let (salvaged, found) = flipped(&from, &to, &file, &bits);
        assert!(found.is_of(&content), "{bits:?}: something is not as it was written");
        assert_eq!(
            [salvaged.parts, salvaged.events, salvaged.lists, salvaged.origins].map(|table| table.whole),
            [found.parts.len(), found.events.len(), found.lists.len(), found.origins.len()].map(|count| count as u64)
        );
        assert!(!salvaged.is_complete() || found == content, "{bits:?}: {salvaged:?}");
        (lost, complete) = (lost + u32::from(!salvaged.is_complete()), complete + u32::from(salvaged.is_complete()));
    }
    assert!(lost > 5 && complete > 5, "{lost} and {complete}");
}

#[test]
fn a_file_that_is_cut_off_or_none_at_all_is_reported_and_nothing_is_overwritten() {
    let (from, to) = (Folder::new("cut"), Folder::new("cut-salvaged"));
    let content = store(&from, 9_000);
    let file = fs::read(from.file()).unwrap();
    for length in (0..file.len()).step_by(60_001).chain([1, 63, 64, 319, 320, 4_096]) {
        fs::write(from.file(), &file[..length]).unwrap();
        to.empty();
        let salvaged = salvage(&from.0, &to.0).unwrap();
        let found = Content::of(&to);
        assert!(found.is_of(&content), "{length}");
        assert!(!salvaged.is_complete());
    }
    let refused = salvage(&from.0, &to.0).unwrap_err();
    assert!(matches!(refused, OfflineStoreError::NotEmpty(_)), "{refused}");
    let refused = salvage(&from.0.join("nowhere"), &to.0).unwrap_err();
    assert!(matches!(refused, OfflineStoreError::Missing(_)), "{refused}");
}

#[test]
fn a_store_that_is_made_smaller_elsewhere_has_all_of_it_and_is_the_same_services() {
    let (from, to) = (Folder::new("large"), Folder::new("small"));
    let content = store(&from, 9_000);
    OfflineStore::open(&from.0).unwrap().compact_to(&to.0).unwrap();
    assert!(Content::of(&to) == content);
}

/// A disk that was full, or a damaged page behind others, left part of a store in the new folder: a service began with it as if it were
/// all, and the command refused to be run again, since there was something in the folder.
#[test]
fn a_new_store_is_there_when_it_is_whole_and_leaves_nothing_behind_when_it_is_not_finished() {
    let (from, to) = (Folder::new("whole-from"), Folder::new("whole-to"));
    let content = store(&from, 9_000);
    for is_there in [false, true] {
        to.empty();
        if is_there {
            fs::create_dir(&to.0).unwrap();
        }
        let mut target = Target::new(&to.0).unwrap();
        for number in 0..100 {
            target.event(number, vec![7; 1 << 20]).unwrap();
        }
        assert!(matches!(OfflineStore::open(&to.0), Err(OfflineStoreError::Missing(_))), "part of one is none");
        drop(target);
        assert_eq!(to.0.exists(), is_there, "what was there stays");
        // With a folder in the place of its file it cannot be finished.
        let target = Target::new(&to.0).unwrap();
        fs::create_dir(to.file()).unwrap();
        target.finish(&from.0).unwrap_err();
        assert!(!to.0.join(UNFINISHED).exists());
        fs::remove_dir(to.file()).unwrap();
    }
    salvage(&from.0, &to.0).unwrap();
    assert!(Content::of(&to) == content);
    let files: Vec<_> = fs::read_dir(&to.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, [disk::FILE]);
}
