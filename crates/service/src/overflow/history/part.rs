//! A file of a channel's history: what it begins and ends with, and where in it an event is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::Event;

use super::reader::Reader;
use crate::overflow::records::{self, HEAD, NO_RECORD, Stretch, damaged, is_for_good, walk};
use crate::overflow::uncached::{Desk, UncachedFile};
use crate::store::record::Record;
use crate::time::UtcClock;

/// A file begins with this, the version of what follows, and the number of the machine's start.
const MAGIC: &[u8; 8] = b"CAMPHIST";
const VERSION: u32 = 1;
const HEADER: u64 = 32;
/// Before each event: its number, and when it came, in 100 ns since 15 October 1582.
const PREFIX: usize = 16;
/// What a finished file says at its end, behind a length that no record has.
pub(super) const FOOTER: usize = HEAD + 40;
/// So often in a file it is noted where an event is.
const MARK_EVERY: u64 = 256 << 10;

/// A file.
pub(super) struct Part {
    /// Up to the end of the last record.
    pub(super) file: UncachedFile,
    /// The numbers of its first and its last event, and how many it has: some may never have been kept.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) records: u64,
    /// When the first and the last of its events came.
    pub(super) begins: u64,
    pub(super) ends: u64,
    /// Positions of some of its records, by number. Nothing for a former process's file that has not been read yet.
    pub(super) marks: Option<Vec<(u64, u64)>>,
}

/// What there is in a file.
pub(super) enum Look {
    Part(Found),
    /// Nothing that can be read; why, unless it is just that a process ended before it wrote the first event.
    Nothing(Option<&'static str>),
}

/// A file that a former process wrote.
pub(super) struct Found {
    pub(super) part: Part,
    /// The machine's start in which that was.
    pub(super) boot: [u8; 16],
    pub(super) is_finished: bool,
    pub(super) cut: Option<Cut>,
}

/// What is behind the last whole record.
pub(super) struct Cut {
    pub(super) octets: u64,
    /// Nothing if it is only what fills its last block up.
    pub(super) why: Option<String>,
}

impl Part {
    /// Creates an empty file that begins with the event of this number.
    pub(super) fn begin(folder: &Path, first: u64, boot: &[u8; 16], desk: &mut Desk) -> io::Result<Self> {
        let mut file = UncachedFile::create(folder.join(format!("{first:020}.events")), desk)?;
        let mut header = Vec::with_capacity(32);
        header.extend_from_slice(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend([0; 4]);
        header.extend_from_slice(boot);
        file.append(&header, desk)?;
        Ok(Self { file, first, last: first, records: 0, begins: 0, ends: 0, marks: Some(Vec::new()) })
    }

    /// Says at the end what is in it. It is not written to any more.
    pub(super) fn finish(&mut self, syncs: bool, desk: &mut Desk) -> io::Result<()> {
        let mut footer = Vec::with_capacity(FOOTER);
        let mut body = Vec::with_capacity(FOOTER - HEAD);
        for number in [self.first, self.last, self.records, self.begins, self.ends] {
            body.extend(number.to_le_bytes());
        }
        footer.extend(NO_RECORD.to_le_bytes());
        footer.extend(crc32fast::hash(&body).to_le_bytes());
        footer.extend(body);
        self.file.finish(&footer, syncs, desk)
    }

    /// One that a former process wrote. What is behind its last whole record is cut off.
    pub(super) fn open(path: &Path, desk: &mut Desk) -> io::Result<Look> {
        let look = Self::look(path, desk)?;
        if let Look::Part(Found { part, cut: Some(cut), .. }) = &look {
            if let Some(why) = &cut.why {
                ::log::warn!("history: {} octets at the end of {} are cut off ({why})", cut.octets, path.display());
            }
            OpenOptions::new().write(true).open(path)?.set_len(part.file.bytes)?;
        }
        Ok(look)
    }

    /// The same, left as it is.
    pub(super) fn look(path: &Path, desk: &mut Desk) -> io::Result<Look> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = [0; 32];
        if length < HEADER {
            return Ok(Look::Nothing(Some("it ends before its first event")));
        }
        file.read_exact_at(&mut header, 0)?;
        if !header.starts_with(MAGIC) {
            return Ok(Look::Nothing(Some("it does not begin as such files do")));
        }
        if let Some(version) = header.get(8..12).filter(|version| *version != VERSION.to_le_bytes()) {
            let version = version.first_chunk().map_or(0, |version| u32::from_le_bytes(*version));
            let why = format!(
                "{} is of version {version}, and this release knows {VERSION}: it needs the release that has written it",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let boot = header.last_chunk().copied().unwrap_or_default();
        let unread = UncachedFile::that_is_there(path.into(), HEADER, desk);
        let mut part = Self { file: unread, first: u64::MAX, last: 0, records: 0, begins: 0, ends: 0, marks: None };
        if part.read_footer(&file, length) {
            return Ok(Look::Part(Found { part, boot, is_finished: true, cut: None }));
        }
        part.marks = Some(Vec::new());
        let whole = UncachedFile::that_is_there(path.into(), length, desk);
        let all = Stretch { from: HEADER, octets: u64::MAX };
        let walked = walk(&whole, desk, all, |at, body| {
            let (number, came, _) = parts_of(body?)?;
            part.first = part.first.min(number);
            part.note(number, at, came);
            Ok(true)
        });
        let (bytes, why) = walked.map_or_else(|(at, why)| (at, Some(why)), |at| (at, None));
        if let Some(why) = why.as_ref().filter(|why| !is_for_good(why)) {
            // It is not damaged because the disk does not answer now.
            return Err(io::Error::new(why.kind(), format!("{}: {why}", path.display())));
        }
        part.file.bytes = bytes;
        let cut = (bytes < length).then(|| Cut {
            octets: length - bytes,
            why: why.filter(|_| !whole.is_filled_up_from(bytes, desk)).map(|why| why.to_string()),
        });
        if part.records == 0 {
            let is_damaged = cut.is_some_and(|cut| cut.why.is_some());
            return Ok(Look::Nothing(is_damaged.then_some("it has no whole event")));
        }
        Ok(Look::Part(Found { part, boot, is_finished: false, cut }))
    }

    /// Looks at every record of a finished one. Says what is wrong, if anything is.
    pub(super) fn verify(&self, desk: &mut Desk) -> io::Result<Option<String>> {
        let (mut records, mut last) = (0, 0);
        let all = Stretch { from: HEADER, octets: u64::MAX };
        let walked = walk(&self.file, desk, all, |_, body| {
            last = parts_of(body?)?.0;
            records += 1;
            Ok(true)
        });
        match walked {
            Err((_, why)) if !is_for_good(&why) => Err(why),
            Err((_, why)) => {
                let left = self.last.saturating_sub(last.max(self.first.saturating_sub(1)));
                Ok(Some(format!("{why}: up to {left} events from there on are lost")))
            }
            Ok(_) if (records, last) != (self.records, self.last) => {
                Ok(Some("it says that it has other events".into()))
            }
            Ok(_) => Ok(None),
        }
    }

    fn read_footer(&mut self, file: &File, length: u64) -> bool {
        let Some(at) = length.checked_sub(FOOTER as u64).filter(|at| *at >= HEADER) else { return false };
        let mut footer = [0; FOOTER];
        if file.read_exact_at(&mut footer, at).is_err() {
            return false;
        }
        let Some((head, body)) = footer.split_first_chunk::<HEAD>() else { return false };
        let (marker, sum) = head.split_at(4);
        if marker != NO_RECORD.to_le_bytes() || sum != crc32fast::hash(body).to_le_bytes() {
            return false;
        }
        let numbers: Vec<u64> = body.as_chunks::<8>().0.iter().map(|octets| u64::from_le_bytes(*octets)).collect();
        let [first, last, records, begins, ends] = *numbers else { return false };
        (self.first, self.last, self.records, self.begins, self.ends) = (first, last, records, begins, ends);
        self.file.bytes = at;
        true
    }

    /// A record is there.
    pub(super) fn note(&mut self, number: u64, at: u64, came: u64) {
        if self.records == 0 {
            self.begins = came;
        }
        (self.last, self.ends) = (number, came);
        self.records += 1;
        if let Some(marks) = &mut self.marks {
            mark(marks, number, at);
        }
    }

    /// Looks at records from where a reader is, at so many octets at most, as long as `take` says so.
    pub(super) fn walk(
        &mut self,
        reader: &mut Reader,
        octets: u64,
        desk: &mut Desk,
        mut take: impl FnMut(&mut Reader, u64, u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let known = reader.place.filter(|(first, _)| *first == self.first).map(|(_, offset)| offset);
        let from = match known {
            Some(offset) => offset,
            None => self.find(reader.next, desk)?,
        };
        let until = self.file.bytes;
        let walked = walk(&self.file, desk, Stretch { from, octets }, |_, body| {
            let (number, came, event) = parts_of(body?)?;
            if number < reader.next {
                return Ok(true);
            }
            let goes_on = take(reader, number, came, event);
            reader.next = number + 1;
            Ok(goes_on)
        });
        let walked = walked.map_err(|(_, why)| why)?;
        reader.place = Some((self.first, walked));
        if walked >= until {
            (reader.next, reader.place) = (reader.next.max(self.last + 1), None);
        }
        Ok(())
    }

    /// About where an event is: not behind it.
    fn find(&mut self, number: u64, desk: &mut Desk) -> io::Result<u64> {
        if number <= self.first {
            return Ok(HEADER);
        }
        if self.marks.is_none() {
            let mut marks: Vec<(u64, u64)> = Vec::new();
            let all = Stretch { from: HEADER, octets: u64::MAX };
            let walked = walk(&self.file, desk, all, |at, body| {
                mark(&mut marks, parts_of(body?)?.0, at);
                Ok(true)
            });
            walked.map_err(|(_, why)| why)?;
            self.marks = Some(marks);
        }
        let marks = self.marks.as_deref().unwrap_or_default();
        let behind = marks.partition_point(|(marked, _)| *marked <= number);
        Ok(behind.checked_sub(1).and_then(|at| marks.get(at)).map_or(HEADER, |(_, offset)| *offset))
    }
}

/// Notes now and then where a record is.
fn mark(marks: &mut Vec<(u64, u64)>, number: u64, at: u64) {
    if marks.last().is_none_or(|(_, last)| at >= *last + MARK_EVERY) {
        marks.push((number, at));
    }
}

/// The number of an event, when it came, and its record.
fn parts_of(body: &[u8]) -> io::Result<(u64, u64, &[u8])> {
    let parts = || {
        let (number, rest) = body.split_first_chunk::<8>()?;
        let (came, event) = rest.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*number), u64::from_le_bytes(*came), event))
    };
    parts().ok_or_else(|| damaged("a record is too short"))
}

/// Appends the record of an event. Says when that came.
pub(super) fn append(event: &Event, number: u64, clock: &UtcClock, out: &mut Vec<u8>) -> u64 {
    let came = clock.utc_time(event.arrived);
    records::append(out, |out| {
        out.extend(number.to_le_bytes());
        out.extend(came.to_le_bytes());
        Record::of(event, event.arrived, clock).write(out);
    });
    came
}

/// The event's own record in that.
pub(super) fn event_in(record: &[u8]) -> &[u8] {
    record.get(HEAD + PREFIX..).unwrap_or_default()
}
