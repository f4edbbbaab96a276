//! The log on disk: numbered records of events in [segments](segment), with cursors.
//!
//! Backlogs and channels' history are logs; what differs is which records a cursor takes, and when a segment goes. What is to be written
//! waits in memory, is read from there by cursors that have got so far, and is written past the page cache or through it, as the
//! [desk](Desk) says. Events are not synchronised as they come: a process that is killed loses nothing of what was written, a machine that
//! loses its power may lose the last seconds. So that no number is given twice then, a log that is opened after such an end goes on with
//! numbers far behind the last one that was found, in another epoch. By what it is found out that there was such an end is synchronised:
//! of each process one segment with its name, its [anchor](Log::anchor), and the end of the last segment where a process ends in order.
//! A segment is what another process would copy: it says its epoch and its first number, and its octets never change but at its end.
//!
//! One rule each, for all logs (when it is tried again, the [store](crate::store) has from here, too):
//! - *What cannot be written* stays in memory, and is [tried again](Attempts) each second; a segment that was removed is not gone on with.
//! - *What cannot be read* is tried again likewise, up to [`READ_TRIES`] times; what is damaged or gone is not. Its segment's rest is passed
//!   over then, and its user counts what is lost; what is behind it goes on.
//! - *A former process's segments* are cut off behind the last whole record; one without any is removed.

pub(crate) mod files;
mod segment;
mod uncached;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Event;

use self::files::{Access, EntryKind, Files};
#[cfg(test)]
pub(crate) use self::segment::{FOOTER, HEADER};
pub(crate) use self::segment::{Found, Look, Origin, Segment, Stored};
pub(crate) use self::uncached::Desk;
use crate::time;

/// A segment has about this part of what may be kept altogether, so that room comes back before all is read, and little more is kept.
const SEGMENTS: u64 = 64;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// What is written at a time.
const WRITE_BYTES: u64 = 1 << 20;
/// How far numbers go on behind the last one if some may have been lost.
pub(crate) const SKIPPED: u64 = 1 << 24;
/// How long after a failure it is tried again.
pub(crate) const AGAIN_IN: Duration = Duration::from_secs(1);
/// How often it is tried to read something before that is lost, unless it is clear at once that it is.
const READ_TRIES: u32 = 60;
/// What segments' names end with, behind the number of the first record.
const SUFFIX: &str = ".events";

/// A log, with what its user keeps for each segment.
pub(crate) struct Log<D> {
    /// Of segments' paths, what is before the number: a folder, or the beginning of a file's name, too.
    name: PathBuf,
    files: Arc<dyn Files>,
    /// Whether it outlives the process.
    is_lasting: bool,
    /// The first number of a segment of this process that is on the disk whatever comes. A segment that is begun without there being any is
    /// synchronised before it has a record.
    anchor: Option<u64>,
    origin: Origin,
    segments: VecDeque<Segment<D>>,
    /// Whether the last is written to. It is opened for each time, so that there may be many logs.
    is_open: bool,
    /// What is to be written, with its numbers.
    pending: VecDeque<(u64, Arc<Event>)>,
    /// The number that follows.
    next: u64,
    /// Working space.
    buffer: Vec<u8>,
}

/// A reader's place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The number of the record that it looks at next, or of one before that.
    pub(crate) next: u64,
    /// Where that is, if it is known: the first number of its segment, and the octets before it.
    place: Option<(u64, u64)>,
}

/// When a segment is not gone on with.
pub(crate) struct SegmentLimits {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// If it began before this.
    pub(crate) oldest: u64,
}

/// What was read.
pub(crate) enum Step<'l, D> {
    /// Records of a segment.
    Segment,
    /// What is yet to be written: there is no more.
    End,
    /// A segment's rest is passed over: from a number on.
    PassedOver { segment: &'l mut Segment<D>, from: u64, why: io::Error },
}

/// About how large a segment is, where a log may have so many octets.
pub(crate) fn segment_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / SEGMENTS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

impl<D: Default> Log<D> {
    /// Creates an empty one. Its first number is 1. `boot`: the machine's start, if it outlives the process.
    pub(crate) fn new(name: PathBuf, boot: Option<[u8; 16]>, files: Arc<dyn Files>) -> Self {
        Self {
            name,
            files,
            is_lasting: boot.is_some(),
            anchor: None,
            origin: Origin { boot: boot.unwrap_or_default(), epoch: 1 },
            segments: VecDeque::new(),
            is_open: false,
            pending: VecDeque::new(),
            next: 1,
            buffer: Vec::new(),
        }
    }

    /// What a former process left in a folder. `of` names it in the process's log.
    pub(crate) fn open(folder: PathBuf, boot: [u8; 16], of: &str, desk: &mut Desk) -> io::Result<Self> {
        let mut log = Self::new(folder.join(""), Some(boot), Arc::clone(desk.files()));
        let (mut empty, mut skips) = (Vec::new(), false);
        for path in segments_in(&log.name, &*log.files)? {
            // A name says a number even where nothing else of its file is left.
            log.next = log.next.max(number_of(&path).unwrap_or_default());
            match Segment::open(&path, of, desk)? {
                Look::Segment(Found { segment, origin, is_last, .. }) => {
                    // Where another follows, that is what says how it ended.
                    skips = !is_last && origin.boot != boot;
                    log.origin.epoch = log.origin.epoch.max(origin.epoch);
                    log.next = log.next.max(segment.next());
                    log.segments.push_back(segment);
                }
                Look::Nothing(why) => empty.push((path, why)),
            }
        }
        if skips || !empty.is_empty() {
            log.next = log.next.saturating_add(SKIPPED - 1);
            log.origin.epoch += 1;
            log.begin_anew(of, &empty, desk);
        }
        Ok(log)
    }

    /// Has an anchor in place of files of which nothing can be read: until there is one, they say which numbers were given.
    fn begin_anew(&mut self, of: &str, empty: &[(PathBuf, Option<&'static str>)], desk: &mut Desk) {
        if self.begin(self.next, desk).is_err() {
            // It is tried again with the first event.
            return;
        }
        for (path, why) in empty {
            if let Some(why) = why {
                let path = path.display();
                ::log::warn!("{of}: {path} has nothing that can be read, and is removed: {why}");
            }
            let _ = self.files.remove(path);
        }
    }

    /// An event is to be kept, behind all others.
    pub(crate) fn push(&mut self, number: u64, event: Arc<Event>) {
        self.next = number + 1;
        self.pending.push_back((number, event));
    }

    /// The number that follows that of the last record.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The number of the first record; that which follows if there is none.
    pub(crate) fn first(&self) -> u64 {
        let pending = self.pending.front().map(|(number, _)| *number);
        self.segments.front().map(|segment| segment.first).or(pending).unwrap_or(self.next)
    }

    /// The number behind that of the last record that is written.
    pub(crate) fn unwritten(&self) -> u64 {
        self.pending.front().map_or(self.next, |(number, _)| *number)
    }

    pub(crate) const fn segments(&self) -> &VecDeque<Segment<D>> {
        &self.segments
    }

    /// Changes what is kept for each segment.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut D)) {
        self.segments.iter_mut().map(|segment| &mut segment.data).for_each(change);
    }

    /// What is to be written, with its numbers.
    pub(crate) const fn pending(&self) -> &VecDeque<(u64, Arc<Event>)> {
        &self.pending
    }

    /// The same, so that some of it is not written.
    pub(crate) const fn pending_mut(&mut self) -> &mut VecDeque<(u64, Arc<Event>)> {
        &mut self.pending
    }

    /// Of a segment, what is before the number.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    // ---- written ----

    /// Writes some of what is to be written, as `encode` says, which returns the record's time. Passes each that is written to `note`.
    pub(crate) fn write(
        &mut self,
        limits: &SegmentLimits,
        encode: impl Fn(&Event, &mut Vec<u8>) -> u64,
        desk: &mut Desk,
        mut note: impl FnMut(&mut D, u64, &Event),
    ) -> io::Result<Vec<Arc<Event>>> {
        let is_full = |segment: &Segment<D>| {
            let is_enough = segment.bytes() >= limits.bytes || segment.records >= limits.records;
            segment.records > 0 && (is_enough || segment.begins < limits.oldest)
        };
        if self.is_open && self.segments.back().is_some_and(is_full) {
            self.finish(false, desk)?;
        }
        if let Some(first) = self.pending.front().map(|(number, _)| *number).filter(|_| !self.is_open) {
            self.begin(first, desk)?;
        }
        let Some(segment) = self.segments.back_mut() else { return Ok(Vec::new()) };
        let begins = segment.bytes();
        let room_bytes = limits.bytes.saturating_sub(begins).min(WRITE_BYTES);
        let room_records = limits.records.saturating_sub(segment.records);
        let mut places = Vec::new();
        self.buffer.clear();
        for (number, event) in &self.pending {
            let at = begins + self.buffer.len() as u64;
            places.push((at, segment::append(&mut self.buffer, *number, |out| encode(event, out))));
            if self.buffer.len() as u64 >= room_bytes || places.len() as u64 >= room_records {
                break;
            }
        }
        if let Err(error) = segment.file.append(&self.buffer, desk) {
            if error.kind() == io::ErrorKind::NotFound {
                // The file has been removed. Should it come back, what is in it is read; what is next goes into another one.
                (self.is_open, self.anchor) = (false, None);
                self.segments.pop_back_if(|segment| segment.records == 0);
            }
            return Err(error);
        }
        let mut written = Vec::with_capacity(places.len());
        for ((number, event), (at, time)) in self.pending.drain(..places.len()).zip(places) {
            segment.note(number, at, time);
            note(&mut segment.data, number, &event);
            written.push(event);
        }
        Ok(written)
    }

    fn begin(&mut self, first: u64, desk: &mut Desk) -> io::Result<()> {
        let mut path = self.name.clone().into_os_string();
        path.push(format!("{first:020}{SUFFIX}"));
        let segment = Segment::create(path.into(), first, self.origin, desk)?;
        if self.is_lasting && self.anchor.is_none() {
            self.synchronise(&segment)?;
            self.anchor = Some(first);
        }
        self.segments.push_back(segment);
        self.is_open = true;
        Ok(())
    }

    /// Has a segment on the disk, with its name and that of its folder.
    fn synchronise(&self, segment: &Segment<D>) -> io::Result<()> {
        self.files.open(segment.path(), Access::WRITE)?.sync()?;
        self.name.ancestors().take(2).try_for_each(|folder| self.files.sync_folder(folder))
    }

    /// Goes on in another segment, or in none if it is the process's last.
    pub(crate) fn finish(&mut self, is_last: bool, desk: &mut Desk) -> io::Result<()> {
        if let Some(segment) = self.segments.back_mut().filter(|_| self.is_open) {
            let finished = segment.finish(is_last, desk);
            // A removed file is not finished any more.
            if finished.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return finished;
            }
        }
        self.is_open = false;
        Ok(())
    }

    /// Removes the segments of which `goes`, which is also told whether it is the last, says so.
    pub(crate) fn remove(&mut self, mut goes: impl FnMut(&Segment<D>, bool) -> bool) {
        let mut left = self.segments.len();
        let Self { is_open, files, segments, .. } = self;
        segments.retain(|segment| {
            left -= 1;
            let goes = goes(segment, left == 0);
            if goes {
                *is_open &= left > 0;
                // One that stays takes room until the next start, which finds it again.
                let _ = files.remove(segment.path());
            }
            !goes
        });
    }

    pub(crate) fn remove_first(&mut self) {
        if self.anchor.is_some() && self.anchor == self.segments.front().map(|segment| segment.first) {
            // Without another, that which is begun next is one.
            let last = self.segments.back().filter(|_| self.segments.len() > 1);
            self.anchor = last.filter(|last| self.synchronise(last).is_ok()).map(|last| last.first);
        }
        let mut is_first = true;
        self.remove(|_, _| core::mem::take(&mut is_first));
    }

    // ---- read ----

    /// Gives what is next for a cursor to `take`, as long as that returns true: about so many octets of
    /// a segment, or what is yet to be written. An error is to be tried again, unless it was often enough: then its segment is passed over.
    pub(crate) fn read(
        &mut self,
        cursor: &mut Cursor,
        (octets, gives_up): (u64, bool),
        (encode, desk): (impl Fn(&Event, &mut Vec<u8>) -> u64, &mut Desk),
        mut take: impl FnMut(Option<&mut D>, Stored<'_>) -> bool,
    ) -> io::Result<Step<'_, D>> {
        let is_next = |segment: &Segment<D>| segment.records > 0 && cursor.next <= segment.last;
        if let Some(at) = self.segments.iter().position(is_next)
            && let Some(segment) = self.segments.get_mut(at)
        {
            return match segment.read(cursor, octets, desk, |data, record| take(Some(data), record)) {
                Ok(()) => Ok(Step::Segment),
                Err(why) if gives_up || is_for_good(&why) => {
                    let from = cursor.next.max(segment.first);
                    *cursor = Cursor::at(segment.last + 1);
                    Ok(Step::PassedOver { segment, from, why })
                }
                Err(why) => Err(why),
            };
        }
        let from = self.pending.partition_point(|(number, _)| *number < cursor.next);
        for (number, event) in self.pending.iter().skip(from) {
            // Where it will be in a segment is not known.
            *cursor = Cursor::at(number + 1);
            self.buffer.clear();
            segment::append(&mut self.buffer, *number, |out| encode(event, out));
            if let Some((Ok(record), _)) = segment::first(&self.buffer)
                && !take(None, record)
            {
                return Ok(Step::End);
            }
        }
        cursor.next = cursor.next.max(self.next);
        Ok(Step::End)
    }
}

impl Cursor {
    /// Before the record of a number.
    pub(crate) const fn at(next: u64) -> Self {
        Self { next, place: None }
    }
}

/// The segments in a folder, in their order. Other files are left alone.
pub(crate) fn segments_in(folder: &Path, files: &dyn Files) -> io::Result<Vec<PathBuf>> {
    let mut paths = files.entries(folder, EntryKind::File)?;
    paths.retain(|path| number_of(path).is_some());
    Ok(paths)
}

/// The number in the name of a segment's file; nothing if it is none.
fn number_of(path: &Path) -> Option<u64> {
    let number = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (number.len() == 20).then(|| number.parse().ok())?
}

/// Whether what could not be read is damaged, or not there: anything else may be over before long.
fn is_for_good(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Attempts at something that fails: when it is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    failed: u32,
    again_at: Option<Instant>,
}

impl Attempts {
    /// It failed. True if it had not before.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed = self.failed.saturating_add(1);
        self.again_at = Some(time::now() + AGAIN_IN);
        self.failed == 1
    }

    /// It did not fail. True if it had before.
    pub(crate) fn succeed(&mut self) -> bool {
        core::mem::take(self).failed > 0
    }

    /// Whether it is to be tried now.
    pub(crate) fn is_due(&self) -> bool {
        self.again_at.is_none_or(|again| again <= time::now())
    }

    /// Whether it failed last.
    pub(crate) const fn fails(&self) -> bool {
        self.failed > 0
    }

    /// How long it is until it is tried again, if it failed.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.again_at.map(|again| again.saturating_duration_since(time::now()))
    }

    /// Whether what could not be read is lost.
    pub(crate) const fn gives_up(&self) -> bool {
        self.failed >= READ_TRIES
    }
}

/// What tells one start of the machine from another; nothing where the system does not say.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default().to_be_bytes()
}

/// Appends an event's record to those that a lane is given, with what it needs beside it.
pub(crate) fn give<const N: usize>(beside: [u8; N], event: &[u8], out: &mut Vec<u8>) {
    out.extend(u32::try_from(event.len()).unwrap_or(0).to_le_bytes());
    out.extend(beside);
    out.extend_from_slice(event);
}

/// The first of the records that a lane was given: what is beside it, and it; and what is behind it.
pub(crate) fn first_of<const N: usize>(records: &[u8]) -> Option<([u8; N], &[u8], &[u8])> {
    let (length, rest) = records.split_first_chunk::<4>()?;
    let (beside, rest) = rest.split_first_chunk::<N>()?;
    let (event, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((*beside, event, behind))
}

#[cfg(test)]
pub(crate) mod tests;
