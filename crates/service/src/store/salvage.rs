//! Salvage of a damaged store: whatever is undamaged is copied into a new one.
//!
//! The database either refuses a file with a single wrong bit, or trusts it altogether. So this module reads the pages itself, as the
//! [design](https://github.com/cberner/redb/blob/master/docs/design.md) describes them: from the roots in a commit, with each page verified
//! against the checksum in its parent. A page with one wrong bit is corrected, since only one bit makes the checksum right. Below an inner
//! page that is damaged further, the children are read nevertheless, each by its own checksum; a leaf that is damaged further is left out
//! as a whole: all that is salvaged is as it was written.

use std::collections::BTreeSet;
use std::path::Path;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_128;

use super::copy_on_write::CopyOnWriteFile;
use super::disk::FILE;
use super::origins::SeenOrigin;
use super::record::Record;
use super::stored::{OfflineStoreError, explain};
use super::target::Target;
use crate::start;

/// Octets of the smallest page, and of the space before the first region.
const PAGE: u64 = 4_096;
/// Offset in the header of two numbers: pages of a region's header, and pages of its data; and their values in a database with default
/// settings.
const REGION: usize = 16;
const REGION_DEFAULT: (u32, u32) = (0, 1 << 20);
/// Offsets of the slots of the last two commits, and octets of each.
const SLOTS: [usize; 2] = [64, 192];
const SLOT: usize = 128;
/// Maximum octets of a page in which every bit is tried, and of all hashing for that.
const CORRECTED_MAX: usize = 64 << 10;
const TRIED_MAX: u64 = 64 << 30;
/// Maximum depth of a tree, far beyond that of a file of any size.
const DEPTH_MAX: usize = 24;
/// Maximum descriptions of single damages; beyond that, one more says that there are others.
const NOTES_MAX: usize = 20;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// Counts of one table's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// Undamaged records, which are in the new store.
    pub whole: u64,
    /// Missing records.
    pub missing: u64,
}

/// The result of a salvage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Parts of the configuration.
    pub parts: SalvagedTable,
    /// Events.
    pub events: SalvagedTable,
    /// Lists of unconfirmed consumers. An event without its list goes to each subscriber.
    pub lists: SalvagedTable,
    /// Origins of events from links. An event without its origin is admitted again if it arrives again.
    pub origins: SalvagedTable,
    /// Pages that were corrected, since one bit was wrong in them or in their checksum.
    pub corrected: u64,
    /// Descriptions of the damage; empty if the new store has everything.
    pub damaged: Vec<String>,
}

impl Salvaged {
    /// Whether the new store has everything that the damaged one had.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.damaged.is_empty() && self.missing() == 0
    }

    const fn missing(&self) -> u64 {
        self.parts.missing + self.events.missing + self.lists.missing + self.origins.missing
    }

    fn note(&mut self, why: String) {
        if self.damaged.len() < NOTES_MAX {
            self.damaged.push(why);
        } else if self.damaged.len() == NOTES_MAX {
            self.damaged.push("there is more of the kind".to_owned());
        }
    }
}

/// A reference to a page in its parent.
#[derive(Debug, Clone, Copy)]
struct Link {
    page: u64,
    checksum: u128,
}

/// A table's form of keys: of 8 octets each, or of any length. Values are of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Numbers,
    Texts,
}

/// The slot of a commit.
#[derive(Clone, Copy)]
struct Commit {
    number: u64,
    /// The root of the tree of tables. `None` without tables.
    root: Option<Link>,
    /// Whether one wrong bit was corrected.
    was_corrected: bool,
    /// Whether the other commit's slot cannot be read.
    is_one_lost: bool,
    /// Pages of a region's header, and of its data, by which pages are located.
    region: (u32, u32),
}

/// An entry of one of the tables.
enum Entry {
    Part(Vec<u8>, Vec<u8>),
    Event(u64, Vec<u8>),
    List(u64, Vec<u8>),
    Service(u64),
    Origin(u64, SeenOrigin),
}

/// The result of reading a commit.
struct Read {
    found: Salvaged,
    /// Whether a table was found, even without entries.
    has_root: bool,
}

/// Copies all undamaged records of the store in one folder into a new store in another.
///
/// # Errors
/// `from` has no store, or another process has it open; or `to` is not empty, or cannot be written to.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, OfflineStoreError> {
    let file = from.join(FILE);
    if !file.is_file() {
        return Err(OfflineStoreError::Missing(from.into()));
    }
    let copy_on_write = CopyOnWriteFile::of(&file).map_err(|error| explain(from, &error.into()))?;
    let mut target = Target::new(to)?;
    let mut reader = Reader::new(&copy_on_write);
    let Some(best) = reader.best() else {
        target.finish(from)?;
        let why = "neither of its last commits can be read: nothing can be brought out".to_owned();
        return Ok(Salvaged { damaged: vec![why], ..Salvaged::default() });
    };
    let (mut salvaged, mut written) = (SalvagedData::default(), Ok(()));
    let Read { mut found, .. } = reader.tables(best, &mut |entry| {
        if written.is_ok() {
            written = salvaged.keep(entry, &mut target);
        }
    });
    written?;
    target.finish(from)?;
    drop(copy_on_write);
    if let Err(why) = start::try_restore(&salvaged.image) {
        found.note(format!("what is configured cannot be restored: {why}"));
    }
    salvaged.unread.iter().for_each(|number| found.note(format!("event {number} cannot be read")));
    salvaged.sort();
    found.parts.whole = salvaged.image.len() as u64;
    (found.events.whole, found.lists.whole) = (salvaged.numbers.len() as u64, salvaged.lists);
    found.origins.whole = salvaged.origins;
    found.events.missing += salvaged.unread.len() as u64;
    Ok(found)
}

/// The salvaged records.
#[derive(Default)]
struct SalvagedData {
    /// Kept in memory, as a service keeps it.
    image: corba::Image,
    /// Numbers of the events, sorted and unique once `is_sorted`.
    numbers: Vec<u64>,
    is_sorted: bool,
    lists: u64,
    origins: u64,
    /// Numbers of events that cannot be decoded.
    unread: Vec<u64>,
}

impl SalvagedData {
    fn keep(&mut self, entry: Entry, target: &mut Target) -> Result<(), OfflineStoreError> {
        match entry {
            Entry::Part(key, value) => {
                self.image.insert(key.clone(), value.clone());
                target.part(key, value)
            }
            Entry::Event(number, record) if Record::read(&record).is_none() => {
                self.unread.push(number);
                Ok(())
            }
            Entry::Event(number, record) => {
                self.numbers.push(number);
                target.event(number, record)
            }
            // Lists follow after all events.
            Entry::List(number, list) => {
                self.sort();
                if !list.len().is_multiple_of(size_of::<u32>()) || self.numbers.binary_search(&number).is_err() {
                    return Ok(());
                }
                self.lists += 1;
                target.list(number, list)
            }
            Entry::Service(service) => target.service(service),
            Entry::Origin(number, origin) => {
                self.origins += 1;
                target.origin(number, origin)
            }
        }
    }

    fn sort(&mut self) {
        if !core::mem::replace(&mut self.is_sorted, true) {
            self.numbers.sort_unstable();
            self.numbers.dedup();
        }
    }
}

/// A reader of pages.
struct Reader<'o> {
    file: &'o CopyOnWriteFile,
    length: u64,
    /// Pages of a region's header, and of its data.
    region: (u32, u32),
    /// Octets hashed so far to find wrong bits.
    tried: u64,
}

impl<'o> Reader<'o> {
    fn new(file: &'o CopyOnWriteFile) -> Self {
        Self { file, length: file.len().unwrap_or(0), region: REGION_DEFAULT, tried: 0 }
    }

    fn read(&self, at: u64, octets: usize) -> Option<Vec<u8>> {
        if at.checked_add(octets as u64)? > self.length {
            return None;
        }
        let mut read = Vec::new();
        read.try_reserve_exact(octets).ok()?;
        read.resize(octets, 0);
        self.file.read(at, &mut read).ok()?;
        Some(read)
    }

    /// The last commit, or the one before if more is missing of the last. `None` if neither can be read.
    fn best(&mut self) -> Option<Commit> {
        let header = self.read(0, SLOTS[1] + SLOT).unwrap_or_default();
        let slots = SLOTS.iter().filter_map(|at| header.get(*at..*at + SLOT));
        let mut commits: Vec<Commit> = slots.filter_map(commit_of).collect();
        let is_one_lost = commits.len() < SLOTS.len();
        commits.sort_unstable_by_key(|commit| core::cmp::Reverse(commit.number));
        let said = number(&header, REGION).zip(number(&header, REGION + 4));
        // The header has no checksum: its numbers are right if they locate the pages.
        for region in said.into_iter().chain([REGION_DEFAULT]) {
            let mut best: Option<((u64, usize), Commit)> = None;
            for commit in &commits {
                let commit = Commit { is_one_lost, region, ..*commit };
                let Read { found, has_root } = self.tables(commit, &mut |_| {});
                let loss = (found.missing(), found.damaged.len());
                if has_root && best.as_ref().is_none_or(|(least, _)| loss < *least) {
                    best = Some((loss, commit));
                }
                if best.as_ref().is_some_and(|((missing, _), _)| *missing == 0) {
                    break;
                }
            }
            if let Some((_, commit)) = best {
                return Some(commit);
            }
        }
        None
    }

    /// Passes each undamaged entry of a commit's tables to `take`.
    fn tables(&mut self, commit: Commit, take: &mut dyn FnMut(Entry)) -> Read {
        (self.region, self.tried) = (commit.region, 0);
        let mut found = Salvaged { corrected: commit.was_corrected.into(), ..Salvaged::default() };
        if commit.is_one_lost {
            let why = "what is noted of one of the last two commits is damaged: if it was the last, what it changed is missing";
            found.note(why.to_owned());
        }
        let Some(root) = commit.root else { return Read { found, has_root: true } };
        let mut walk = Walk { of: "the list of tables", keys: Keys::Texts, found, seen: BTreeSet::new() };
        let mut definitions = Vec::new();
        self.walk(&mut walk, root, 0, &mut |name, definition| definitions.push((name, definition)));
        let (mut found, has_root) = (walk.found, !definitions.is_empty());
        let definition = |name: &str| {
            let definition = definitions.iter().find(|(found, _)| found == name.as_bytes());
            definition.and_then(|(_, definition)| definition_of(definition))
        };
        let numbered = |key: &[u8]| array(key, 0).map(u64::from_le_bytes);
        found.parts.missing = self.table(("parts", Keys::Texts), definition("parts"), &mut found, &mut |key, value| {
            take(Entry::Part(key, value));
        });
        let of_events = ("events", Keys::Numbers);
        found.events.missing = self.table(of_events, definition("events"), &mut found, &mut |key, value| {
            numbered(&key).map(|number| Entry::Event(number, value)).into_iter().for_each(&mut *take);
        });
        let of_lists = ("consumers", Keys::Numbers);
        found.lists.missing = self.table(of_lists, definition("consumers"), &mut found, &mut |key, value| {
            numbered(&key).map(|number| Entry::List(number, value)).into_iter().for_each(&mut *take);
        });
        // Earlier versions have neither of these tables.
        if let Some(identity) = definition("identity") {
            self.table(("the service's number", Keys::Texts), Some(identity), &mut found, &mut |_, value| {
                numbered(&value).map(Entry::Service).into_iter().for_each(&mut *take);
            });
        }
        if let Some(origins) = definition("origins_seen") {
            let of_origins = ("origins", Keys::Texts);
            found.origins.missing = self.table(of_origins, Some(origins), &mut found, &mut |key, value| {
                let entry = numbered(&value).zip(SeenOrigin::of_key(&key));
                entry.map(|(number, origin)| Entry::Origin(number, origin)).into_iter().for_each(&mut *take);
            });
        }
        Read { found, has_root }
    }

    /// Passes each entry of a table to `take`, and returns how many are missing.
    fn table(
        &mut self,
        (of, keys): (&'static str, Keys),
        definition: Option<(u64, Option<Link>)>,
        found: &mut Salvaged,
        take: &mut dyn FnMut(Vec<u8>, Vec<u8>),
    ) -> u64 {
        let Some((length, root)) = definition else {
            found.note(format!("the table of {of} is not found: how much was in it is not known"));
            return 0;
        };
        let mut walk = Walk { of, keys, found: core::mem::take(found), seen: BTreeSet::new() };
        let mut count = 0;
        if let Some(root) = root {
            self.walk(&mut walk, root, 0, &mut |key, value| {
                count += 1;
                take(key, value);
            });
        }
        *found = walk.found;
        length.saturating_sub(count)
    }

    /// Reads a page by its number, damaged or not.
    fn page(&self, page: u64) -> Option<Vec<u8>> {
        let order = u32::try_from(page >> 59).ok().filter(|order| *order <= 20)?;
        let (index, region) = (page & (0xf_ffff >> order), (page >> 20) & 0xf_ffff);
        let (of_header, of_data) = (u64::from(self.region.0), u64::from(self.region.1));
        let octets = PAGE << order;
        // A damaged page may have the number, and a damaged header the regions.
        let before = region.checked_mul(of_header + of_data)?.checked_add(of_header + 1)?.checked_mul(PAGE)?;
        self.read(before.checked_add(index * octets)?, usize::try_from(octets).ok()?)
    }

    /// Passes each entry below a page to `take`.
    fn walk(&mut self, walk: &mut Walk, at: Link, depth: usize, take: &mut dyn FnMut(Vec<u8>, Vec<u8>)) {
        if depth > DEPTH_MAX || !walk.seen.insert(at.page) {
            return;
        }
        let Some(mut page) = self.page(at.page) else {
            return walk.found.note(format!("{}: a page lies beyond the end of the file", walk.of));
        };
        let is_whole = match self.agrees(&mut page, at.checksum, walk.keys) {
            Agreement::Whole => true,
            Agreement::Corrected => {
                walk.found.corrected += 1;
                true
            }
            Agreement::No => false,
        };
        match page.first() {
            Some(&LEAF) if is_whole => entries(&page, walk.keys).into_iter().for_each(|(key, value)| take(key, value)),
            Some(&BRANCH) => {
                if !is_whole {
                    walk.found.note(format!("{}: an inner page is damaged, and pages beneath may be lost", walk.of));
                }
                for child in children(&page) {
                    self.walk(walk, child, depth + 1, take);
                }
            }
            _ => walk.found.note(format!("{}: a page is damaged, and what was in it is lost", walk.of)),
        }
    }

    /// Verifies a page against its checksum, and corrects one wrong bit.
    fn agrees(&mut self, page: &mut [u8], checksum: u128, keys: Keys) -> Agreement {
        let sum = |page: &[u8]| Some(xxh3_128(page.get(..used(page, keys)?)?));
        match sum(page) {
            Some(found) if found == checksum => return Agreement::Whole,
            // One wrong bit in the checksum.
            Some(found) if (found ^ checksum).count_ones() == 1 => return Agreement::Corrected,
            _ => {}
        }
        if page.len() > CORRECTED_MAX {
            return Agreement::No;
        }
        let cost = (page.len() * page.len() * 8) as u64;
        if self.tried + cost > TRIED_MAX {
            return Agreement::No;
        }
        self.tried += cost;
        let length = page.len();
        if flip_until(page, length, |page| sum(page) == Some(checksum)) { Agreement::Corrected } else { Agreement::No }
    }
}

/// Decodes a commit's slot, and corrects one wrong bit.
fn commit_of(slot: &[u8]) -> Option<Commit> {
    const SUM: usize = SLOT - 16;
    let mut slot = slot.to_vec();
    let noted = u128::from_le_bytes(array(&slot, SUM)?);
    let found = xxh3_128(slot.get(..SUM)?);
    let is_near = (found ^ noted).count_ones() <= 1;
    if !is_near && !flip_until(&mut slot, SUM, |slot| xxh3_128(slot) == noted) {
        return None;
    }
    let root = link(&slot, 8).filter(|_| slot.get(1).is_some_and(|is_there| *is_there != 0));
    let number = u64::from_le_bytes(array(&slot, 104)?);
    let was_corrected = found != noted;
    Some(Commit { number, root, was_corrected, is_one_lost: false, region: REGION_DEFAULT })
}

/// The result of verifying a page.
enum Agreement {
    Whole,
    Corrected,
    No,
}

/// The state of a walk through one tree.
struct Walk {
    of: &'static str,
    keys: Keys,
    found: Salvaged,
    /// Visited pages: a damaged one may refer back.
    seen: BTreeSet<u64>,
}

/// Flips each bit of the first `length` octets until `is_right`. Without success the octets are unchanged.
fn flip_until(octets: &mut [u8], length: usize, is_right: impl Fn(&[u8]) -> bool) -> bool {
    for at in 0..length.min(octets.len()) {
        for bit in 0..8 {
            let flip = |octets: &mut [u8]| octets.get_mut(at).into_iter().for_each(|octet| *octet ^= 1 << bit);
            flip(octets);
            if is_right(octets.get(..length).unwrap_or_default()) {
                return true;
            }
            flip(octets);
        }
    }
    false
}

fn array<const N: usize>(octets: &[u8], at: usize) -> Option<[u8; N]> {
    octets.get(at..)?.first_chunk().copied()
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    array(octets, at).map(u32::from_le_bytes)
}

/// Decodes a page's number with the checksum behind it.
fn link(octets: &[u8], at: usize) -> Option<Link> {
    let page = u64::from_le_bytes(array(octets, at)?);
    Some(Link { page, checksum: u128::from_le_bytes(array(octets, at + 8)?) })
}

/// Decodes a table's definition: its number of entries, and its root if it has any.
fn definition_of(octets: &[u8]) -> Option<(u64, Option<Link>)> {
    let length = u64::from_le_bytes(array(octets, 1)?);
    Some((length, if *octets.get(9)? == 0 { None } else { Some(link(octets, 10)?) }))
}

/// Number of entries or keys in a page.
fn count(page: &[u8]) -> Option<usize> {
    array(page, 2).map(u16::from_le_bytes).map(usize::from)
}

fn offset(page: &[u8], at: usize) -> Option<usize> {
    number(page, at).and_then(|offset| usize::try_from(offset).ok())
}

/// Octets of a page that its checksum covers.
fn used(page: &[u8], keys: Keys) -> Option<usize> {
    let count = count(page)?;
    let last = count.checked_sub(1)?;
    match (*page.first()?, keys) {
        (LEAF, Keys::Numbers) => offset(page, 4 + 4 * last),
        (LEAF, Keys::Texts) => offset(page, 4 + 4 * count + 4 * last),
        (BRANCH, Keys::Numbers) => Some(8 + 24 * (count + 1) + 8 * count),
        (BRANCH, Keys::Texts) => offset(page, 8 + 24 * (count + 1) + 4 * last),
        _ => None,
    }
}

fn entries(page: &[u8], keys: Keys) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Some(count) = count(page) else { return Vec::new() };
    let table = 4 * count;
    let (keys_at, key_end): (usize, Box<dyn Fn(usize) -> Option<usize>>) = match keys {
        Keys::Numbers => (4 + table, Box::new(move |at| Some(4 + table + 8 * (at + 1)))),
        Keys::Texts => (4 + 2 * table, Box::new(|at| offset(page, 4 + 4 * at))),
    };
    let value_ends = if keys == Keys::Numbers { 4 } else { 4 + table };
    let entry = |at: usize| {
        let key_from = if at == 0 { keys_at } else { key_end(at - 1)? };
        let value_from = if at == 0 { key_end(count - 1)? } else { offset(page, value_ends + 4 * (at - 1))? };
        let value_to = offset(page, value_ends + 4 * at)?;
        Some((page.get(key_from..key_end(at)?)?.to_vec(), page.get(value_from..value_to)?.to_vec()))
    };
    (0..count).filter_map(entry).collect()
}

fn children(page: &[u8]) -> Vec<Link> {
    let children = count(page).map_or(0, |keys| keys + 1);
    let child = |at: usize| {
        let checksum = u128::from_le_bytes(array(page, 8 + 16 * at)?);
        Some(Link { page: u64::from_le_bytes(array(page, 8 + 16 * children + 8 * at)?), checksum })
    };
    (0..children).map_while(child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The numbers of a damaged page's children, and what a damaged header says of regions, may be anything.
    #[test]
    fn whatever_a_page_is_called_it_is_one_of_the_file_or_none() {
        let path = testing::TempPath::new("pages");
        fs::write(&path, vec![1; 8 * 4_096]).unwrap();
        let copy_on_write = CopyOnWriteFile::of(&path).unwrap();
        let mut reader = Reader::new(&copy_on_write);
        for region in [(1, 1 << 20), (0, 0), (u32::MAX, u32::MAX), (0, u32::MAX), (u32::MAX, 0)] {
            reader.region = region;
            let numbers = (0..64).flat_map(|bit| [1 << bit, u64::MAX << bit, u64::MAX >> bit]);
            for page in numbers.flat_map(|page| [page, page & !(0x1f << 59)]) {
                let found = reader.page(page);
                assert!(found.is_none_or(|found| found.len() >= 4_096 && found.len() <= 8 * 4_096), "{page:x}");
            }
        }
    }
}
