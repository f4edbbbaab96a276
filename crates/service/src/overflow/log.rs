//! What is kept of one channel's events for the consumers of one lane that are behind: records, one behind the other, in files of a
//! bounded size.
//!
//! A record names the consumers that it is for. Each of these reads the files from where it is, and passes over what is not its own; a file
//! in which no consumer has anything left is removed. Nothing is synchronised, since what is here does not outlive the process. A record
//! has a checksum: what is damaged is reported as lost, and never delivered.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use engine::{Away, Event, ProxyId};

use super::records::{self, HEAD, Stretch, is_for_good, walk};
use super::uncached::{Desk, UncachedFile};

/// A file has about this part of what may be kept altogether, so that room comes back before all is read.
const PARTS: u64 = 64;
const FILE_BYTES_MIN: u64 = 64 << 10;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// What is written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// So often in a file it is noted where a record is.
const MARK_EVERY: u64 = 256 << 10;

/// Has an event's record appended: what it takes to make the event again.
pub(crate) type Encode = fn(&Event, &mut Vec<u8>);

/// What is kept of a channel on a lane.
pub(crate) struct Log {
    /// The files' names but for their numbers.
    name: PathBuf,
    files: VecDeque<Part>,
    next_file: u64,
    /// Whether the last is written to. It is opened for each time, so that there may be many logs.
    is_open: bool,
    /// Events that are to be written, and the number of the first of them: records are numbered by their order. Nothing in place of an
    /// event that no consumer is yet to read.
    pending: VecDeque<Option<Arc<Event>>>,
    first_pending: u64,
    readers: HashMap<ProxyId, Reader>,
    /// Number of records that all readers have read, as far as was reported; and whether a reader may have got further.
    reported: u64,
    has_moved: bool,
    /// Working space.
    buffer: Vec<u8>,
}

/// A file.
struct Part {
    number: u64,
    file: UncachedFile,
    /// The number of its first record, and how many it has.
    first: u64,
    records: u64,
    /// Where some of its records are, by number: a consumer that begins in the middle of it does not look through what is before.
    marks: Vec<(u64, u64)>,
    /// What these records cost the room that there is.
    cost: u64,
    /// How many records each consumer has yet to read, of those that have any.
    left: HashMap<ProxyId, u64>,
}

/// A consumer that is behind.
#[derive(Clone, Copy)]
struct Reader {
    /// The number of the record that it looks at next.
    next: u64,
    /// The file that has it, and where it is in there, if that is known.
    place: Option<(u64, u64)>,
}

/// What was read for a consumer: [one record behind the other](first_of), and how many are lost.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) records: Vec<u8>,
    pub(crate) lost: u64,
    /// Why some are lost, or could not be read now.
    pub(crate) why: Option<io::Error>,
}

/// Events that no consumer is yet to read, and room that came back: that of a file when no consumer has anything left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl Freed {
    pub(crate) const fn remove(&mut self, freed: Self) {
        self.events = self.events.saturating_sub(freed.events);
        self.bytes = self.bytes.saturating_sub(freed.bytes);
    }
}

impl Log {
    /// Creates an empty log. Its files have this name and numbers behind it.
    pub(crate) fn new(name: PathBuf) -> Self {
        Self {
            name,
            files: VecDeque::new(),
            next_file: 0,
            is_open: false,
            pending: VecDeque::new(),
            first_pending: 0,
            readers: HashMap::new(),
            reported: 0,
            has_moved: false,
            buffer: Vec::new(),
        }
    }

    /// An event is to be kept, behind all others.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        let next = self.end();
        for away in event.away() {
            self.readers.entry(away.consumer).or_insert(Reader { next, place: None });
        }
        self.pending.push_back(Some(event));
    }

    /// The number that is next.
    fn end(&self) -> u64 {
        self.first_pending + self.pending.len() as u64
    }

    /// Whether something is to be written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether no consumer is behind.
    pub(crate) fn is_over(&self) -> bool {
        self.readers.is_empty() && self.pending.is_empty()
    }

    /// Nothing is to be read any more for a consumer.
    pub(crate) fn forget(&mut self, consumer: ProxyId) {
        self.readers.remove(&consumer);
        self.has_moved = true;
        for part in &mut self.files {
            part.left.remove(&consumer);
        }
    }

    /// Writes some of what is to be written, of a log that may have so many octets altogether. Gives back the events that are.
    pub(crate) fn write(&mut self, budget_bytes: u64, encode: Encode, desk: &mut Desk) -> io::Result<Vec<Arc<Event>>> {
        let file_bytes = (budget_bytes / PARTS).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
        if !self.is_open || self.files.back().is_none_or(|last| last.file.bytes >= file_bytes) {
            self.begin_file(desk)?;
        }
        let Some(part) = self.files.back_mut() else { return Ok(Vec::new()) };
        self.buffer.clear();
        let mut count = 0;
        let (mut marks, mut marked) = (Vec::new(), part.marks.last().map(|(_, at)| *at));
        for (event, number) in self.pending.iter().zip(self.first_pending..) {
            let at = part.file.bytes + self.buffer.len() as u64;
            if marked.is_none_or(|last| at >= last + MARK_EVERY) {
                marks.push((number, at));
                marked = Some(at);
            }
            match event {
                Some(event) => append(event, &mut self.buffer, encode),
                None => append_with(&[], &mut self.buffer, |_| ()),
            }
            count += 1;
            if self.buffer.len() >= WRITE_BYTES {
                break;
            }
        }
        if let Err(error) = part.file.append(&self.buffer, desk) {
            if error.kind() == io::ErrorKind::NotFound {
                // The file has been removed. Should it come back, what is in it is read; what is next goes into another one.
                self.is_open = false;
                self.files.pop_back_if(|part| part.records == 0);
            }
            return Err(error);
        }
        part.marks.extend(marks);
        let mut written = Vec::with_capacity(count);
        for event in self.pending.drain(..count) {
            let number = self.first_pending;
            self.first_pending += 1;
            part.records += 1;
            let Some(event) = event else { continue };
            part.cost += event.stored_bytes();
            for away in event.away() {
                if self.readers.get(&away.consumer).is_some_and(|reader| reader.next <= number) {
                    *part.left.entry(away.consumer).or_default() += 1;
                }
            }
            written.push(event);
        }
        Ok(written)
    }

    /// Octets of a file that count.
    #[cfg(test)]
    pub(super) fn file_bytes(&self, number: u64) -> u64 {
        self.files.iter().find(|part| part.number == number).map_or(0, |part| part.file.bytes)
    }

    fn begin_file(&mut self, desk: &mut Desk) -> io::Result<()> {
        let number = self.next_file;
        let mut path = self.name.clone().into_os_string();
        path.push(format!("-{number}"));
        let file = UncachedFile::create(path.into(), desk)?;
        if let Some(last) = self.files.back_mut() {
            last.file.close();
        }
        self.is_open = true;
        self.next_file += 1;
        let first = self.first_pending;
        self.files.push_back(Part {
            number,
            file,
            first,
            records: 0,
            marks: Vec::new(),
            cost: 0,
            left: HashMap::new(),
        });
        Ok(())
    }

    /// Removes from what cannot be written now, and returns, the events that no consumer is yet to read. Called before
    /// [`free`](Self::free), if at all.
    pub(crate) fn release(&mut self) -> Vec<Arc<Event>> {
        if !self.has_moved {
            return Vec::new();
        }
        let (mut unwanted, readers) = (Vec::new(), &self.readers);
        for (event, number) in self.pending.iter_mut().zip(self.first_pending..) {
            let is_its = |away: &Away| readers.get(&away.consumer).is_some_and(|reader| reader.next <= number);
            unwanted.extend(event.take_if(|event| !event.away().iter().any(is_its)));
        }
        let first = self.pending.iter().position(Option::is_some).unwrap_or(self.pending.len());
        if first > 0 {
            // What is behind these has numbers that do not follow those in the last file.
            self.pending.drain(..first);
            self.first_pending += first as u64;
            self.is_open = false;
        }
        unwanted
    }

    /// Returns how many events all consumers have read since the last call, and removes the files in which no consumer has anything left.
    pub(crate) fn free(&mut self) -> Freed {
        let mut freed = Freed::default();
        if core::mem::take(&mut self.has_moved) {
            let behind = self.readers.values().map(|reader| reader.next).min().unwrap_or(self.end());
            freed.events = behind.saturating_sub(self.reported);
            self.reported = self.reported.max(behind);
        }
        let is_quiet = self.pending.is_empty();
        let last = self.files.back().map(|last| last.number);
        let mut closes = false;
        self.files.retain(|part| {
            let is_last = Some(part.number) == last;
            if !part.left.is_empty() || part.records == 0 || (is_last && !is_quiet) {
                return true;
            }
            closes |= is_last;
            freed.bytes += part.cost;
            // One that stays takes room on the disk until the next start, which removes it.
            let _ = fs::remove_file(&part.file.path);
            false
        });
        if closes {
            self.is_open = false;
        }
        freed
    }

    /// What [`free`](Self::free) has yet to tell.
    pub(crate) fn stored(&self) -> Freed {
        let pending = self.pending.iter().flatten().map(|event| event.stored_bytes());
        let bytes = self.files.iter().map(|part| part.cost).chain(pending).sum();
        Freed { events: self.end() - self.reported, bytes }
    }

    /// Reads what is next for a consumer: about so many octets, but one record if there is one. What cannot be read now is to be tried
    /// again if the failure seems temporary; after too many attempts it is lost.
    pub(crate) fn read(
        &mut self,
        consumer: ProxyId,
        (bytes, gives_up): (usize, bool),
        encode: Encode,
        desk: &mut Desk,
    ) -> Read {
        let mut read = Read::default();
        let Some(mut reader) = self.readers.get(&consumer).copied() else { return read };
        self.has_moved = true;
        while read.records.len() < bytes && reader.next < self.first_pending {
            // Files in which it has nothing left are passed over.
            let has_some = |part: &&mut Part| reader.next < part.end() && part.left.contains_key(&consumer);
            let Some(part) = self.files.iter_mut().find(has_some) else {
                reader = Reader { next: self.first_pending, place: None };
                break;
            };
            reader.next = reader.next.max(part.first);
            if let Err(error) = part.read((&mut reader, consumer), bytes, desk, &mut read.records) {
                let is_lost = gives_up || is_for_good(&error);
                read.why = Some(error);
                if !is_lost {
                    self.readers.insert(consumer, Reader { place: None, ..reader });
                    return read;
                }
                read.lost += part.left.remove(&consumer).unwrap_or(0);
                reader = Reader { next: part.end(), place: None };
            }
        }
        // What could not be written yet is here.
        while read.records.len() < bytes
            && reader.next >= self.first_pending
            && let Some(event) =
                usize::try_from(reader.next - self.first_pending).ok().and_then(|at| self.pending.get(at))
        {
            // Where it will be in a file is not known.
            reader = Reader { next: reader.next + 1, place: None };
            let Some(event) = event else { continue };
            if let Some(away) = event.away().iter().find(|away| away.consumer == consumer) {
                self.buffer.clear();
                append(event, &mut self.buffer, encode);
                give(self.buffer.get(HEAD..).unwrap_or_default(), away.ask, &mut read.records);
            }
        }
        self.readers.insert(consumer, reader);
        read
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for part in &self.files {
            let _ = fs::remove_file(&part.file.path);
        }
    }
}

impl Part {
    /// The number behind that of its last record.
    const fn end(&self) -> u64 {
        self.first + self.records
    }

    /// A record that is not behind this one, and not far before it: where it is, and its number.
    fn before(&self, number: u64) -> (u64, u64) {
        let behind = self.marks.partition_point(|(marked, _)| *marked <= number);
        let mark = behind.checked_sub(1).and_then(|at| self.marks.get(at));
        mark.map_or((0, self.first), |(marked, at)| (*at, *marked))
    }

    /// Reads from where a consumer is.
    fn read(
        &mut self,
        (reader, consumer): (&mut Reader, ProxyId),
        bytes: usize,
        desk: &mut Desk,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let known = reader.place.filter(|(number, _)| *number == self.number).map(|(_, offset)| offset);
        let (from, mut number) = known.map_or_else(|| self.before(reader.next), |offset| (offset, reader.next));
        let Self { file, left, .. } = self;
        let walked = walk(file, desk, Stretch { from, octets: u64::MAX }, |_, body| {
            if number >= reader.next {
                let body = body?;
                if let Some(ask) = ask_of(body, consumer) {
                    give(body, ask, out);
                    take_from(left, consumer);
                }
                reader.next = number + 1;
            }
            number += 1;
            Ok(out.len() < bytes)
        });
        reader.place = Some((self.number, walked.map_err(|(_, error)| error)?));
        Ok(())
    }
}

/// A consumer has read one.
fn take_from(left: &mut HashMap<ProxyId, u64>, consumer: ProxyId) {
    if let Some(count) = left.get_mut(&consumer) {
        *count -= 1;
        if *count == 0 {
            left.remove(&consumer);
        }
    }
}

/// Appends an event's record with its head, and the consumers that it is for.
fn append(event: &Event, out: &mut Vec<u8>, encode: Encode) {
    append_with(event.away(), out, |out| encode(event, out));
}

/// The same with what `encode` appends; the consumers that it is for come by rising number.
fn append_with(for_whom: &[Away], out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    records::append(out, |out| {
        // There are at most as many as proxies, far below 2^32.
        out.extend(u32::try_from(for_whom.len()).unwrap_or(0).to_le_bytes());
        for away in for_whom {
            out.extend(away.consumer.0.to_le_bytes());
            out.push(away.ask);
        }
        encode(out);
    });
}

/// The consumers that a record is for, one after the other, and what is behind.
fn parts(body: &[u8]) -> Option<(&[[u8; 5]], &[u8])> {
    let (count, rest) = body.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(5)?;
    let (consumers, event) = rest.split_at_checked(length)?;
    Some((consumers.as_chunks::<5>().0, event))
}

/// What is to be asked about a record for this consumer; nothing if it is not its own.
fn ask_of(body: &[u8], consumer: ProxyId) -> Option<u8> {
    let consumers = parts(body)?.0;
    let at =
        consumers.binary_search_by_key(&consumer.0, |[a, b, c, d, _]| u32::from_le_bytes([*a, *b, *c, *d])).ok()?;
    consumers.get(at).map(|[.., ask]| *ask)
}

/// Appends what a lane needs of a record.
fn give(body: &[u8], ask: u8, out: &mut Vec<u8>) {
    let event = parts(body).map(|(_, event)| event).unwrap_or_default();
    out.extend(u32::try_from(event.len()).unwrap_or(0).to_le_bytes());
    out.push(ask);
    out.extend_from_slice(event);
}

/// The first of the records that were read for a consumer: what is to be asked about it, and it; and what is behind it.
pub(crate) fn first_of(records: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (length, rest) = records.split_first_chunk::<4>()?;
    let (ask, rest) = rest.split_first()?;
    let (event, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((*ask, event, behind))
}
