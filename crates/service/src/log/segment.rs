//! Segments: the files of a log.
//!
//! | octets | what |
//! |---|---|
//! | header, 48 | `CAMPHIST`, version (4), checksum of what is behind it in the header (4), the machine's start (16), epoch (8), first number (8) |
//! | record, 24 and its body | length of what is behind the checksum (4), checksum (4), number (8), time (8), body |
//! | footer, 48 | one of two lengths that no record has (4), checksum (4), first number, last number, count of records, first time, last time (8 each) |
//!
//! Only a finished segment has a footer, whose length field says whether another segment follows or the process ended in order. One without
//! a footer is read when it is opened, up to its last whole record. Numbers ascend, with gaps. Version 1, which releases up to 0.1 wrote
//! for history, has 32 octets of header, without epoch and number. The first octets are the same, so that such a release refuses a newer
//! segment, and does not remove it.

use std::io;
use std::path::{Path, PathBuf};

use super::files::{Access, OpenFile};
use super::uncached::{Desk, UncachedFile};
use super::{Cursor, is_for_good};

const MAGIC: &[u8; 8] = b"CAMPHIST";
const VERSION: u32 = 2;
pub(crate) const HEADER: usize = 48;
const HEADER_1: usize = 32;
/// Octets before each record's body: `HEAD` is length and checksum, `PREFIX` number and time, which both of these cover.
const HEAD: usize = 8;
const PREFIX: usize = 16;
/// Length fields that mark a footer: of a process's last segment, and of any other.
const LAST: u32 = u32::MAX - 1;
const NO_RECORD: u32 = u32::MAX;
pub(crate) const FOOTER: usize = HEAD + 40;
/// Minimum octets of one read.
const READ_BYTES: usize = 64 << 10;
/// Octets between two marked positions in a segment.
const MARK_EVERY: u64 = 256 << 10;

/// A record as read from a segment.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'r> {
    pub(crate) number: u64,
    /// Time in 100 ns since 15 October 1582, in logs that use times.
    pub(crate) time: u64,
    pub(crate) body: &'r [u8],
}

/// The machine's boot id when a segment was begun, and its epoch: no number occurs in two epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) boot: [u8; 16],
    pub(crate) epoch: u64,
}

/// A segment, with data of its log's user.
pub(crate) struct Segment<D> {
    /// The file. Its length counts up to the end of the last record.
    pub(super) file: UncachedFile,
    header: u64,
    /// First and last record's number, and the count of records.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) records: u64,
    /// Times of the first and the last record.
    pub(crate) begins: u64,
    pub(crate) ends: u64,
    /// Marked positions of some records, by number. `None` for an earlier process's segment that has not been read yet.
    marks: Option<Vec<(u64, u64)>>,
    pub(crate) data: D,
}

/// The contents of a file.
pub(crate) enum Look<D> {
    Segment(Found<D>),
    /// The file has no readable record. The reason, unless the process just ended before its first record.
    Nothing(Option<&'static str>),
}

/// A segment that an earlier process wrote.
pub(crate) struct Found<D> {
    pub(crate) segment: Segment<D>,
    /// The default if the header is damaged.
    pub(crate) origin: Origin,
    pub(crate) is_finished: bool,
    /// Whether the process ended in order with this segment. In version 1 every finished segment counts as the last.
    pub(crate) is_last: bool,
    /// Octets behind the last whole record, and their damage; `None` if they only fill up the last block.
    pub(crate) cut: u64,
    pub(crate) damage: Option<String>,
}

impl<D: Default> Segment<D> {
    /// Creates an empty segment that begins with the record of this number.
    pub(crate) fn create(path: PathBuf, first: u64, origin: Origin, desk: &mut Desk) -> io::Result<Self> {
        let mut file = UncachedFile::create(path, desk)?;
        let rest = [&origin.boot[..], &origin.epoch.to_le_bytes(), &first.to_le_bytes()].concat();
        let sum = crc32fast::hash(&rest);
        let header = [&MAGIC[..], &VERSION.to_le_bytes(), &sum.to_le_bytes(), &rest].concat();
        file.append(&header, desk)?;
        Ok(Self { first, last: first, marks: Some(Vec::new()), ..Self::unread(file, HEADER) })
    }

    fn unread(file: UncachedFile, header: usize) -> Self {
        let data = D::default();
        Self {
            file,
            header: header as u64,
            first: u64::MAX,
            last: 0,
            records: 0,
            begins: 0,
            ends: 0,
            marks: None,
            data,
        }
    }

    /// Opens an earlier process's segment, and cuts off octets behind its last whole record.
    pub(crate) fn open(path: &Path, of: &str, desk: &mut Desk) -> io::Result<Look<D>> {
        let look = Self::look(path, desk)?;
        if let Look::Segment(Found { segment, cut: cut @ 1.., damage, .. }) = &look {
            if let Some(why) = damage {
                ::log::warn!("{of}: {cut} octets at the end of {} are cut off ({why})", path.display());
            }
            desk.files().open(path, Access::WRITE)?.set_length(segment.file.bytes)?;
        }
        Ok(look)
    }

    /// Inspects an earlier process's segment without changing it.
    pub(crate) fn look(path: &Path, desk: &mut Desk) -> io::Result<Look<D>> {
        let file = desk.files().open(path, Access::READ)?;
        let length = file.length()?;
        let mut header = vec![0; HEADER.min(usize::try_from(length).unwrap_or(HEADER))];
        if header.len() < HEADER_1 {
            return Ok(Look::Nothing(Some("it ends before its first event")));
        }
        file.read_exact_at(&mut header, 0)?;
        let Some((octets, origin)) = read_header(&header, path)? else {
            return Ok(Look::Nothing(Some("it does not begin as such files do")));
        };
        let unread = UncachedFile::that_is_there(path.into(), octets as u64, desk);
        let mut segment = Self::unread(unread, octets);
        if let Some(marker) = segment.read_footer(&*file, length) {
            let is_last = marker == LAST || octets == HEADER_1;
            return Ok(Look::Segment(Found { segment, origin, is_finished: true, is_last, cut: 0, damage: None }));
        }
        segment.marks = Some(Vec::new());
        let whole = UncachedFile::that_is_there(path.into(), length, desk);
        let walked = walk(&whole, desk, (segment.header, u64::MAX), |at, Stored { number, time, .. }| {
            segment.first = segment.first.min(number);
            segment.note(number, at, time);
            true
        });
        let (bytes, why) = walked.map_or_else(|(at, why)| (at, Some(why)), |at| (at, None));
        if let Some(why) = why.as_ref().filter(|why| !is_for_good(why)) {
            // A disk that does not answer now is no damage.
            return Err(io::Error::new(why.kind(), format!("{}: {why}", path.display())));
        }
        segment.file.bytes = bytes;
        let (cut, is_filled_up) = (length.saturating_sub(bytes), whole.is_filled_up_from(bytes, desk));
        let damage = why.filter(|_| cut > 0 && !is_filled_up).map(|why| why.to_string());
        if segment.records == 0 {
            return Ok(Look::Nothing(damage.map(|_| "it has no whole event")));
        }
        Ok(Look::Segment(Found { segment, origin, is_finished: false, is_last: false, cut, damage }))
    }
}

impl<D> Segment<D> {
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The number behind the last record.
    pub(super) const fn next(&self) -> u64 {
        if self.records > 0 { self.last + 1 } else { self.first }
    }

    /// Appends the footer, after which nothing is written to the segment. `is_last`: it is synchronised.
    pub(super) fn finish(&mut self, is_last: bool, desk: &mut Desk) -> io::Result<()> {
        let body = [self.first, self.last, self.records, self.begins, self.ends].map(u64::to_le_bytes).concat();
        let marker = if is_last { LAST } else { NO_RECORD };
        let head = [marker.to_le_bytes(), crc32fast::hash(&body).to_le_bytes()].concat();
        self.file.finish(&[head, body].concat(), is_last, desk)
    }

    /// Reads every record of a finished segment. Returns a description of the damage, if there is any.
    pub(crate) fn verify(&self, desk: &mut Desk) -> io::Result<Option<String>> {
        let (mut records, mut last) = (0, 0);
        let walked = walk(&self.file, desk, (self.header, u64::MAX), |_, record| {
            last = record.number;
            records += 1;
            true
        });
        match walked {
            Err((_, why)) if !is_for_good(&why) => Err(why),
            Err((_, why)) => {
                let left = self.last.saturating_sub(last.max(self.first.saturating_sub(1)));
                Ok(Some(format!("{why}: up to {left} events from there on are lost")))
            }
            Ok(_) if records != self.records || (records > 0 && last != self.last) => {
                Ok(Some("it says that it has other events".into()))
            }
            Ok(_) => Ok(None),
        }
    }

    /// Applies the footer's figures, if there is a footer, and returns its length field.
    fn read_footer(&mut self, file: &dyn OpenFile, length: u64) -> Option<u32> {
        let at = length.checked_sub(FOOTER as u64).filter(|at| *at >= self.header)?;
        let mut footer = [0; FOOTER];
        file.read_exact_at(&mut footer, at).ok()?;
        let (marker, rest) = footer.split_first_chunk::<4>()?;
        let (sum, body) = rest.split_first_chunk::<4>()?;
        let marker = u32::from_le_bytes(*marker);
        if !matches!(marker, LAST | NO_RECORD) || *sum != crc32fast::hash(body).to_le_bytes() {
            return None;
        }
        let numbers: Vec<u64> = body.as_chunks::<8>().0.iter().map(|octets| u64::from_le_bytes(*octets)).collect();
        let [first, last, records, begins, ends] = *numbers else { return None };
        (self.first, self.last, self.records, self.begins, self.ends) = (first, last, records, begins, ends);
        self.file.bytes = at;
        Some(marker)
    }

    /// Notes an appended or found record.
    pub(super) fn note(&mut self, number: u64, at: u64, time: u64) {
        if self.records == 0 {
            self.begins = time;
        }
        (self.last, self.ends) = (number, time);
        self.records += 1;
        if let Some(marks) = &mut self.marks {
            mark(marks, number, at);
        }
    }

    /// Passes records from a cursor on to `take` while it returns true, up to this many octets.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor,
        octets: u64,
        desk: &mut Desk,
        mut take: impl FnMut(&mut D, Stored<'_>) -> bool,
    ) -> io::Result<()> {
        let known = cursor.place.take().filter(|(first, _)| *first == self.first);
        let from = known.map_or_else(|| self.find(cursor.next, desk), |(_, offset)| Ok(offset))?;
        let Self { file, data, .. } = self;
        let walked = walk(file, desk, (from, octets), |_, record| {
            if record.number < cursor.next {
                return true;
            }
            cursor.next = record.number + 1;
            take(data, record)
        });
        let walked = walked.map_err(|(_, why)| why)?;
        cursor.place = Some((self.first, walked));
        if walked >= self.file.bytes {
            cursor.next = cursor.next.max(self.last + 1);
        }
        Ok(())
    }

    /// A position at or before a record.
    fn find(&mut self, number: u64, desk: &mut Desk) -> io::Result<u64> {
        if number <= self.first {
            return Ok(self.header);
        }
        if self.marks.is_none() {
            let mut marks: Vec<(u64, u64)> = Vec::new();
            let walked = walk(&self.file, desk, (self.header, u64::MAX), |at, record| {
                mark(&mut marks, record.number, at);
                true
            });
            walked.map_err(|(_, why)| why)?;
            self.marks = Some(marks);
        }
        let marks = self.marks.as_deref().unwrap_or_default();
        let behind = marks.partition_point(|(marked, _)| *marked <= number);
        Ok(behind.checked_sub(1).and_then(|at| marks.get(at)).map_or(self.header, |(_, offset)| *offset))
    }
}

/// Length of a header in octets, and the segment's origin. `None` if it is not a header.
fn read_header(header: &[u8], path: &Path) -> io::Result<Option<(usize, Origin)>> {
    let Some((version, rest)) = header.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>()) else {
        return Ok(None);
    };
    let version = u32::from_le_bytes(*version);
    let Some((sum, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some((boot, numbers)) = rest.split_first_chunk::<16>() else { return Ok(None) };
    match (version, numbers.first_chunk::<8>()) {
        (1, _) => Ok(Some((HEADER_1, Origin { boot: *boot, epoch: 0 }))),
        (VERSION, Some(epoch)) if crc32fast::hash(rest) == u32::from_le_bytes(*sum) => {
            Ok(Some((HEADER, Origin { boot: *boot, epoch: u64::from_le_bytes(*epoch) })))
        }
        (VERSION, _) => Ok(Some((HEADER, Origin::default()))),
        _ => {
            let why = format!(
                "{} is of version {version}, and this release knows {VERSION}: it needs the release that has written it",
                path.display()
            );
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        }
    }
}

/// Marks a record's position if the last mark is [`MARK_EVERY`] away.
fn mark(marks: &mut Vec<(u64, u64)>, number: u64, at: u64) {
    if marks.last().is_none_or(|(_, last)| at >= *last + MARK_EVERY) {
        marks.push((number, at));
    }
}

/// Appends a record. `encode` appends its body and returns its time, which is returned.
pub(super) fn append(out: &mut Vec<u8>, number: u64, encode: impl FnOnce(&mut Vec<u8>) -> u64) -> u64 {
    let begins = out.len();
    out.extend([0; HEAD]);
    out.extend(number.to_le_bytes());
    out.extend([0; 8]);
    let time = encode(out);
    let record = out.get_mut(begins..).and_then(|record| record.split_at_mut_checked(HEAD));
    if let Some((head, covered)) = record {
        if let Some(of_time) = covered.get_mut(8..PREFIX) {
            of_time.copy_from_slice(&time.to_le_bytes());
        }
        let length = u32::try_from(covered.len()).unwrap_or(LAST - 1);
        let (of_length, of_sum) = head.split_at_mut(4);
        of_length.copy_from_slice(&length.to_le_bytes());
        of_sum.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
    }
    time
}

/// Splits off the first record. `None` if it is incomplete, an error if it is damaged.
pub(super) fn first(octets: &[u8]) -> Option<(io::Result<Stored<'_>>, &[u8])> {
    let (length, rest) = octets.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (covered, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    if crc32fast::hash(covered) != u32::from_le_bytes(*sum) {
        return Some((Err(damaged("a record is damaged")), behind));
    }
    let parts = || {
        let (number, rest) = covered.split_first_chunk::<8>()?;
        let (time, body) = rest.split_first_chunk::<8>()?;
        Some(Stored { number: u64::from_le_bytes(*number), time: u64::from_le_bytes(*time), body })
    };
    Some((parts().ok_or_else(|| damaged("a record is too short")), behind))
}

fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Passes records from a position on to `take` while it returns true, up to this many octets, with their positions. Returns the position of
/// the next record; after an error, with it.
fn walk(
    file: &UncachedFile,
    desk: &mut Desk,
    (from, octets): (u64, u64),
    mut take: impl FnMut(u64, Stored<'_>) -> bool,
) -> Result<u64, (u64, io::Error)> {
    let (mut offset, mut length) = (from, READ_BYTES);
    while offset < file.bytes && offset - from < octets {
        let chunk = file.read(offset, length, desk).map_err(|error| (offset, error))?;
        let mut rest = chunk;
        while let Some((record, behind)) = first(rest) {
            let goes_on = take(offset, record.map_err(|error| (offset, error))?);
            offset += (rest.len() - behind.len()) as u64;
            rest = behind;
            if !goes_on {
                return Ok(offset);
            }
        }
        if rest.len() == chunk.len() {
            if chunk.len() as u64 >= file.bytes - offset {
                return Err((offset, damaged("a record does not end")));
            }
            // The record is longer than the chunk.
            length = chunk.len().saturating_mul(4);
        }
    }
    Ok(offset)
}
