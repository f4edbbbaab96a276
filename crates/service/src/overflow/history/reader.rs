//! Consumers in a channel's history: where each is, and what it gets next.

use core::num::NonZeroU64;
use std::collections::{HashMap, VecDeque};
use std::io;

use engine::{Event, FieldName, ProxyKey, StartFrom};

use super::part::{Part, append, event_in};
use super::{History, ticks};
use crate::overflow::records::is_for_good;
use crate::overflow::uncached::Desk;
use crate::store::record::Record;
use crate::time::UtcClock;

/// What is read, and looked through, at a time.
pub(super) const READ_BYTES: u64 = 256 << 10;
const LOOK_BYTES: u64 = 4 << 20;
/// Values of a field, or types, of which the last event can be found, and how long such a value may be.
const KEYS_MAX: usize = 16_384;
const KEY_OCTETS_MAX: usize = 1_024;

/// How an event is read for the last of each.
pub(crate) type KeyOf<'k> = &'k dyn Fn(&Event, &str) -> Option<Vec<u8>>;

/// What is read for a consumer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// [One behind the other](first_of).
    pub(crate) records: Vec<u8>,
    pub(crate) fetched: engine::FetchedHistory,
}

/// A consumer that is in the history.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The number of the event that it looks at next.
    pub(super) next: u64,
    /// Where that is: the first number of its file, and the octets before it.
    pub(super) place: Option<(u64, u64)>,
    /// What came before is passed over, until something is found that did not.
    since: Option<u64>,
    /// Of the events up to this number only these are given.
    only: VecDeque<u64>,
    only_through: u64,
    /// What is looked for: the last event of each.
    looking: Option<Looking>,
    /// Its starting point has been set.
    has_begun: bool,
}

/// The last event of each type, or of each value of a field, as far as it has been looked.
#[derive(Debug)]
struct Looking {
    field: Option<FieldName>,
    found: HashMap<Vec<u8>, u64>,
}

impl History {
    /// The number of the first event that is kept.
    pub(super) fn first(&self) -> u64 {
        let of_pending = self.pending.front().and_then(|event| event.number()).map(NonZeroU64::get);
        let there = self.parts.front().map(|part| part.first).or(of_pending).unwrap_or(self.last + 1);
        match self.limits.events {
            0 => there,
            events => there.max((self.last + 1).saturating_sub(events)),
        }
    }

    /// A consumer begins.
    pub(in crate::overflow) fn begin(&mut self, consumer: ProxyKey, start: StartFrom, now: u64) {
        let (first, behind) = (self.first(), self.last + 1);
        let oldest = (!self.limits.age.is_zero()).then(|| self.oldest(now));
        let mut reader = Reader { next: first, since: oldest, ..Reader::default() };
        let since = |time: u64| Some(oldest.map_or(time, |oldest| oldest.max(time)));
        match start {
            StartFrom::New => reader.next = behind,
            StartFrom::First => {}
            StartFrom::Number(number) => reader.next = number.max(first),
            StartFrom::After(number) => reader.next = number.saturating_add(1).clamp(first, behind),
            StartFrom::Last(count) => reader.next = behind.saturating_sub(count).max(first),
            StartFrom::Since(time) => reader.since = since(now.saturating_sub(ticks(time))),
            StartFrom::Time(time) => reader.since = since(time),
            StartFrom::LastOfEachType => reader.looking = Some(Looking { field: None, found: HashMap::new() }),
            StartFrom::LastOfEach(field) => {
                reader.looking = Some(Looking { field: Some(field), found: HashMap::new() });
            }
        }
        if let (Some(since), None) = (reader.since, &reader.looking) {
            // Files of which all is older are passed over.
            let newer = self.parts.iter().find(|part| part.ends >= since);
            let written = self.parts.back().map_or(first, |part| part.last + 1);
            reader.next = reader.next.max(newer.map_or(written, |part| part.first));
        }
        self.readers.insert(consumer, reader);
    }

    /// Whether something is being looked for, for a consumer.
    pub(in crate::overflow) fn is_looking_for(&self, consumer: ProxyKey) -> bool {
        self.readers.get(&consumer).is_some_and(|reader| reader.looking.is_some())
    }

    pub(in crate::overflow) fn forget(&mut self, consumer: ProxyKey) {
        self.readers.remove(&consumer);
    }

    /// Reads what is next for a consumer: about so many octets, but one event if there is one. Nothing while the events that it asked for
    /// are searched, some in each call. What cannot be read now is to be tried again if the failure seems temporary; after too many
    /// attempts it is lost.
    pub(in crate::overflow) fn read(
        &mut self,
        consumer: ProxyKey,
        (bytes, gives_up): (usize, bool),
        (clock, key_of): (&UtcClock, KeyOf<'_>),
        desk: &mut Desk,
    ) -> io::Result<Option<Chunk>> {
        let mut chunk = Chunk::default();
        let Some(mut reader) = self.readers.remove(&consumer) else {
            chunk.fetched.through = Some(self.last);
            return Ok(Some(chunk));
        };
        let read = self.read_for(&mut reader, (bytes, gives_up), (clock, key_of, &mut *desk), &mut chunk);
        self.readers.insert(consumer, reader);
        Ok(read?.then_some(chunk))
    }

    /// False while it is looked for what was asked for.
    fn read_for(
        &mut self,
        reader: &mut Reader,
        (bytes, gives_up): (usize, bool),
        (clock, key_of, desk): (&UtcClock, KeyOf<'_>, &mut Desk),
        chunk: &mut Chunk,
    ) -> io::Result<bool> {
        if reader.looking.is_some() && !self.look(reader, gives_up, (clock, key_of), desk)? {
            return Ok(false);
        }
        let first = self.first();
        if reader.next < first && reader.only_through == 0 {
            // It is so slow that what it was to get is no longer kept.
            chunk.fetched.lost += if reader.has_begun { first - reader.next } else { 0 };
            (reader.next, reader.place) = (first, None);
        }
        let filled = self.fill(reader, (bytes.max(1), gives_up), (clock, desk), chunk);
        if chunk.records.is_empty() && chunk.fetched.lost == 0 {
            filled?;
        }
        if reader.next > self.last {
            chunk.fetched.through = Some(self.last);
        }
        let is_first = !reader.has_begun && (chunk.fetched.through.is_some() || !chunk.records.is_empty());
        if is_first {
            reader.has_begun = true;
            let given = first_of(&chunk.records).map(|(number, ..)| number);
            chunk.fetched.begins = Some(given.unwrap_or(self.last + 1));
        }
        Ok(true)
    }

    fn fill(
        &mut self,
        reader: &mut Reader,
        (bytes, gives_up): (usize, bool),
        (clock, desk): (&UtcClock, &mut Desk),
        chunk: &mut Chunk,
    ) -> io::Result<()> {
        while chunk.records.len() < bytes {
            reader.skip_unwanted();
            let Some(part) = self.parts.iter_mut().find(|part| part.records > 0 && reader.next <= part.last) else {
                break;
            };
            let done = part.walk(reader, READ_BYTES, desk, |reader, number, came, event| {
                if reader.takes(number, came) {
                    give(number, event, &mut chunk.records);
                }
                chunk.records.len() < bytes
            });
            if let Err(error) = done {
                chunk.fetched.lost += pass_over(part, reader, error, gives_up)?;
            }
        }
        // What could not be written yet is here.
        let from =
            self.pending.partition_point(|event| event.number().is_some_and(|number| number.get() < reader.next));
        let is_written = self.parts.back().is_none_or(|part| part.records == 0 || reader.next > part.last);
        for event in self.pending.iter().skip(from).take_while(|_| is_written) {
            if chunk.records.len() >= bytes {
                return Ok(());
            }
            let number = event.number().map_or(0, NonZeroU64::get);
            self.buffer.clear();
            let came = append(event, number, clock, &mut self.buffer);
            if reader.takes(number, came) {
                give(number, event_in(&self.buffer), &mut chunk.records);
            }
            (reader.next, reader.place) = (number + 1, None);
        }
        if is_written && chunk.records.len() < bytes {
            reader.next = reader.next.max(self.last + 1);
        }
        Ok(())
    }

    /// Looks for the last of each through some of what there is. True when all was looked through.
    fn look(
        &mut self,
        reader: &mut Reader,
        gives_up: bool,
        (clock, key_of): (&UtcClock, KeyOf<'_>),
        desk: &mut Desk,
    ) -> io::Result<bool> {
        let Some(mut looking) = reader.looking.take() else { return Ok(true) };
        let mut scratch = Event::default();
        let oldest = reader.since.take();
        let mut note = |number: u64, came: u64, event: &[u8]| {
            let Some(record) = Record::read(event).filter(|_| oldest.is_none_or(|oldest| came >= oldest)) else {
                return;
            };
            let key = match looking.field {
                None => Some([record.domain, b"\0", record.name].concat()),
                Some(field) => {
                    scratch.bytes.clear();
                    record.fill(&mut scratch, clock);
                    scratch.set_names(record.domain, record.name);
                    key_of(&scratch, field.as_str())
                }
            };
            if let Some(key) = key
                && key.len() <= KEY_OCTETS_MAX
                && (looking.found.len() < KEYS_MAX || looking.found.contains_key(&key))
            {
                looking.found.insert(key, number);
            }
        };
        let part = self.parts.iter_mut().find(|part| part.records > 0 && reader.next <= part.last);
        if let Some(part) = part {
            let done = part.walk(reader, LOOK_BYTES, desk, |_, number, came, event| {
                note(number, came, event);
                true
            });
            (reader.looking, reader.since) = (Some(looking), oldest);
            if let Err(error) = done {
                pass_over(part, reader, error, gives_up)?;
            }
            return Ok(false);
        }
        for event in &self.pending {
            let number = event.number().map_or(0, NonZeroU64::get);
            self.buffer.clear();
            let came = append(event, number, clock, &mut self.buffer);
            note(number, came, event_in(&self.buffer));
        }
        let mut only: Vec<u64> = looking.found.into_values().collect();
        only.sort_unstable();
        *reader = Reader { next: self.first(), only: only.into(), only_through: self.last, ..Reader::default() };
        Ok(true)
    }
}

/// A reader goes on behind a file that cannot be read, if that is for good. Says how many events it has not looked at.
fn pass_over(part: &Part, reader: &mut Reader, error: io::Error, gives_up: bool) -> io::Result<u64> {
    reader.place = None;
    if !gives_up && !is_for_good(&error) {
        return Err(error);
    }
    ::log::error!("history: the rest of {} cannot be read, and is passed over: {error}", part.file.path.display());
    let lost = part.last + 1 - reader.next.max(part.first);
    reader.next = part.last + 1;
    Ok(lost)
}

impl Reader {
    /// Whether this event is given.
    fn takes(&mut self, number: u64, came: u64) -> bool {
        if number <= self.only_through {
            return self.only.pop_front_if(|requested_number| *requested_number == number).is_some();
        }
        if self.since.is_some_and(|since| came < since) {
            return false;
        }
        self.since = None;
        true
    }

    /// Goes on where there is something that it takes, if that is known.
    fn skip_unwanted(&mut self) {
        if self.next > self.only_through {
            return;
        }
        while self.only.front().is_some_and(|requested_number| *requested_number < self.next) {
            self.only.pop_front();
        }
        let next = self.only.front().copied().unwrap_or(self.only_through + 1);
        if next > self.next + 64 || self.only.is_empty() {
            (self.next, self.place) = (next, None);
        }
    }
}

/// Appends what a lane needs of an event.
fn give(number: u64, event: &[u8], out: &mut Vec<u8>) {
    out.extend(u32::try_from(event.len()).unwrap_or(0).to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend_from_slice(event);
}

/// The first of the events that were read for a consumer: its number, and it; and what is behind it.
pub(crate) fn first_of(records: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (length, rest) = records.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (event, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((u64::from_le_bytes(*number), event, behind))
}
