//! The log on disk: numbered records of events in [segments](segment), read with cursors.
//!
//! Backlogs and channels' history are logs; they differ in the records that a cursor takes and in when a segment is removed. Pending
//! records are in memory, where cursors that have come so far read them, and are written past the page cache or through it, as the
//! [desk](Desk) is set. Events are not synchronised one by one: a killed process loses nothing that was written, a power failure may lose
//! the last seconds. So that no number is given twice, a log opened after a power failure continues far behind the last number found, in
//! another epoch. Two things are synchronised to detect that: one segment of each process with its name, its [anchor](Log::anchor), and the
//! end of the last segment when a process ends in order. A segment can be copied by another process: it states its epoch and first number,
//! and changes only by appending.
//!
//! One rule each, for all logs (the [store](crate::store) uses the same retry interval):
//! - *A failed write* leaves its records in memory, and is [tried again](Attempts) each second; a removed segment is not continued.
//! - *A failed read* is tried again in the same way, up to [`READ_TRIES`] times, unless the data is damaged or gone. Then the rest of the
//!   segment is passed over, and its user counts the lost events; reading continues behind it.
//! - *A segment of an earlier process* is cut off behind its last whole record; one without any is removed.

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

/// Segments that a full log has: so many that room comes back early, and little more than the budget is stored.
const SEGMENTS: u64 = 64;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Maximum octets of one write.
const WRITE_BYTES: u64 = 1 << 20;
/// Distance from the last number found to the next one, if records may have been lost.
pub(crate) const SKIPPED: u64 = 1 << 24;
/// Interval between attempts after a failure.
pub(crate) const AGAIN_IN: Duration = Duration::from_secs(1);
/// Failed reads after which data counts as lost, unless it is known to be lost at once.
const READ_TRIES: u32 = 60;
/// Suffix of segments' file names, behind the number of the first record.
const SUFFIX: &str = ".events";

/// A log, with data of its user for each segment.
pub(crate) struct Log<D> {
    /// Prefix of segments' paths, before the number: a folder, or a folder and the beginning of a file name.
    name: PathBuf,
    files: Arc<dyn Files>,
    /// Whether the log outlives the process.
    is_lasting: bool,
    /// First number of a synchronised segment of this process. Without one, the next segment is synchronised before its first record.
    anchor: Option<u64>,
    origin: Origin,
    segments: VecDeque<Segment<D>>,
    /// Whether the last segment is being appended to. Its file is opened for each write, so that there may be many logs.
    is_open: bool,
    /// Records yet to be written, with their numbers.
    pending: VecDeque<(u64, Arc<Event>)>,
    /// The number of the next record.
    next: u64,
    /// A buffer for encoded records.
    buffer: Vec<u8>,
}

/// The position of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// A number at or below that of the next record to read.
    pub(crate) next: u64,
    /// Position of that record, if known: the first number of its segment, and the offset in octets.
    place: Option<(u64, u64)>,
}

/// Limits at which a segment is finished.
pub(crate) struct SegmentLimits {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// Earliest permitted time of the segment's first record.
    pub(crate) oldest: u64,
}

/// The result of a read.
pub(crate) enum Step<'l, D> {
    /// Records of a segment were read.
    Segment,
    /// The pending records were read: there are no more.
    End,
    /// The rest of a segment, from this number on, is passed over.
    PassedOver { segment: &'l mut Segment<D>, from: u64, why: io::Error },
}

/// Octets at which a segment is finished, in a log with this budget.
pub(crate) fn segment_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / SEGMENTS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

impl<D: Default> Log<D> {
    /// Creates an empty log. Its first number is 1. `boot`: the machine's boot id, if the log outlives the process.
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

    /// Opens the log that an earlier process left in a folder. `of` is its name in log messages.
    pub(crate) fn open(folder: PathBuf, boot: [u8; 16], of: &str, desk: &mut Desk) -> io::Result<Self> {
        let mut log = Self::new(folder.join(""), Some(boot), Arc::clone(desk.files()));
        let (mut empty, mut skips) = (Vec::new(), false);
        for path in segments_in(&log.name, &*log.files)? {
            // A file name states a number even where the file is unreadable.
            log.next = log.next.max(number_of(&path).unwrap_or_default());
            match Segment::open(&path, of, desk)? {
                Look::Segment(Found { segment, origin, is_last, .. }) => {
                    // Only the last segment says how the process ended.
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

    /// Replaces unreadable files with an anchor. Until there is one, their names are the record of the numbers given.
    fn begin_anew(&mut self, of: &str, empty: &[(PathBuf, Option<&'static str>)], desk: &mut Desk) {
        if self.begin(self.next, desk).is_err() {
            // The first event tries it again.
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

    /// Appends a record, which is pending until it is written.
    pub(crate) fn push(&mut self, number: u64, event: Arc<Event>) {
        self.next = number + 1;
        self.pending.push_back((number, event));
    }

    /// The number of the next record.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The number of the first record, or of the next one if the log is empty.
    pub(crate) fn first(&self) -> u64 {
        let pending = self.pending.front().map(|(number, _)| *number);
        self.segments.front().map(|segment| segment.first).or(pending).unwrap_or(self.next)
    }

    /// The number behind the last written record.
    pub(crate) fn unwritten(&self) -> u64 {
        self.pending.front().map_or(self.next, |(number, _)| *number)
    }

    pub(crate) const fn segments(&self) -> &VecDeque<Segment<D>> {
        &self.segments
    }

    /// Changes the data of each segment.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut D)) {
        self.segments.iter_mut().map(|segment| &mut segment.data).for_each(change);
    }

    /// Records yet to be written, with their numbers.
    pub(crate) const fn pending(&self) -> &VecDeque<(u64, Arc<Event>)> {
        &self.pending
    }

    /// Records yet to be written, for a caller that removes some.
    pub(crate) const fn pending_mut(&mut self) -> &mut VecDeque<(u64, Arc<Event>)> {
        &mut self.pending
    }

    /// Prefix of segments' paths, before the number.
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

    /// Writes pending records. `encode` appends a record's body and returns its time; `note` gets each written record.
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
                // The file was removed. If it comes back, its records are read; new ones go into another segment.
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

    /// Synchronises a segment, with its name and that of its folder.
    fn synchronise(&self, segment: &Segment<D>) -> io::Result<()> {
        self.files.open(segment.path(), Access::WRITE)?.sync()?;
        self.name.ancestors().take(2).try_for_each(|folder| self.files.sync_folder(folder))
    }

    /// Finishes the segment in use. `is_last`: no other follows in this process.
    pub(crate) fn finish(&mut self, is_last: bool, desk: &mut Desk) -> io::Result<()> {
        if let Some(segment) = self.segments.back_mut().filter(|_| self.is_open) {
            let finished = segment.finish(is_last, desk);
            // A removed file cannot be finished.
            if finished.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return finished;
            }
        }
        self.is_open = false;
        Ok(())
    }

    /// Removes the segments for which `goes` returns true. Its second argument says whether the segment is the last.
    pub(crate) fn remove(&mut self, mut goes: impl FnMut(&Segment<D>, bool) -> bool) {
        let mut left = self.segments.len();
        let Self { is_open, files, segments, .. } = self;
        segments.retain(|segment| {
            left -= 1;
            let goes = goes(segment, left == 0);
            if goes {
                *is_open &= left > 0;
                // A file that cannot be removed takes room until the next start finds it.
                let _ = files.remove(segment.path());
            }
            !goes
        });
    }

    pub(crate) fn remove_first(&mut self) {
        if self.anchor.is_some() && self.anchor == self.segments.front().map(|segment| segment.first) {
            // If no segment is synchronised here, the next one is.
            let last = self.segments.back().filter(|_| self.segments.len() > 1);
            self.anchor = last.filter(|last| self.synchronise(last).is_ok()).map(|last| last.first);
        }
        let mut is_first = true;
        self.remove(|_, _| core::mem::take(&mut is_first));
    }

    // ---- read ----

    /// Passes records from a cursor on to `take` while it returns true: about this many octets of a segment, or the pending records. After
    /// an error the caller tries again; with `gives_up` the rest of the segment is passed over instead.
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
            // The record's place in a segment is not known yet.
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
    /// A cursor before the record with this number.
    pub(crate) const fn at(next: u64) -> Self {
        Self { next, place: None }
    }
}

/// The paths of the segments in a folder, in order. Other files are ignored.
pub(crate) fn segments_in(folder: &Path, files: &dyn Files) -> io::Result<Vec<PathBuf>> {
    let mut paths = files.entries(folder, EntryKind::File)?;
    paths.retain(|path| number_of(path).is_some());
    Ok(paths)
}

/// The number in the name of a segment's file. `None` for other files.
fn number_of(path: &Path) -> Option<u64> {
    let number = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (number.len() == 20).then(|| number.parse().ok())?
}

/// Whether a read error is permanent: the data is damaged or gone. Other errors may be temporary.
fn is_for_good(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Attempts at an operation that may fail: how often it failed, and when the next attempt is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    failed: u32,
    again_at: Option<Instant>,
}

impl Attempts {
    /// Notes a failure. True if it is the first in a row.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed = self.failed.saturating_add(1);
        self.again_at = Some(time::now() + AGAIN_IN);
        self.failed == 1
    }

    /// Notes a success. True if it follows a failure.
    pub(crate) fn succeed(&mut self) -> bool {
        core::mem::take(self).failed > 0
    }

    /// Whether an attempt is due now.
    pub(crate) fn is_due(&self) -> bool {
        self.again_at.is_none_or(|again| again <= time::now())
    }

    /// Whether the last attempt failed.
    pub(crate) const fn fails(&self) -> bool {
        self.failed > 0
    }

    /// Time until the next attempt, if the last one failed.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.again_at.map(|again| again.saturating_duration_since(time::now()))
    }

    /// Whether data that could not be read counts as lost.
    pub(crate) const fn gives_up(&self) -> bool {
        self.failed >= READ_TRIES
    }
}

/// The identity of this start of the machine; zeros where the system has none.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default().to_be_bytes()
}

/// Appends a record for a lane: an event and the `beside` octets that go with it.
pub(crate) fn give<const N: usize>(beside: [u8; N], event: &[u8], out: &mut Vec<u8>) {
    out.extend(u32::try_from(event.len()).unwrap_or(0).to_le_bytes());
    out.extend(beside);
    out.extend_from_slice(event);
}

/// Splits off the first record for a lane: its `beside` octets, its event, and the remaining records.
pub(crate) fn first_of<const N: usize>(records: &[u8]) -> Option<([u8; N], &[u8], &[u8])> {
    let (length, rest) = records.split_first_chunk::<4>()?;
    let (beside, rest) = rest.split_first_chunk::<N>()?;
    let (event, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((*beside, event, behind))
}

#[cfg(test)]
pub(crate) mod tests;
