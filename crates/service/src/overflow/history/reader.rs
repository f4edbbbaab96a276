//! Consumers in a channel's history: where each is, and what it gets next.

use std::collections::{HashMap, VecDeque};
use std::io;

use engine::{Event, FieldName, ProxyKey, StartFrom};

use super::{History, encode, ticks};
use crate::log::{Cursor, Desk, Segment, Step, Stored, first_of, give};
use crate::store::record::Record;
use crate::time::UtcClock;

/// What is read, and looked through, at a time.
pub(super) const READ_BYTES: u64 = 256 << 10;
const LOOK_BYTES: u64 = 4 << 20;
/// Values of a field, or types, of which the last event can be found, and how long such a value may be.
const KEYS_MAX: usize = 16_384;
const KEY_OCTETS_MAX: usize = 1_024;

/// What is asked for a consumer.
#[derive(Clone, Copy)]
pub(crate) struct HistoryRequest<'a> {
    /// About so many octets.
    pub(crate) bytes: usize,
    /// Whether what cannot be read is lost.
    pub(crate) gives_up: bool,
    pub(crate) clock: &'a UtcClock,
    /// How an event is read for the last of each.
    pub(crate) key_of: &'a dyn Fn(&Event, &str) -> Option<Vec<u8>>,
}

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
    cursor: Cursor,
    selection: Selection,
    /// What is looked for: the last event of each.
    looking: Option<Looking>,
    /// Its starting point has been set.
    has_begun: bool,
}

/// What of the events from a reader's place on is given.
#[derive(Debug, Default)]
struct Selection {
    /// What came before is passed over, until something is found that did not.
    since: Option<u64>,
    /// Of the events up to this number only these are given.
    only: VecDeque<u64>,
    only_through: u64,
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
        match self.limits.events {
            0 => self.log.first(),
            events => self.first_of_last(events),
        }
    }

    /// The number from which on so many events, one at least, are in the log. Very many numbers may be left out before a segment; within
    /// one only those of events that could not be written, so that fewer events may be found by some.
    fn first_of_last(&self, events: u64) -> u64 {
        let pending = self.log.pending().len() as u64;
        if events <= pending {
            return self.log.next() - events;
        }
        let mut left = events - pending;
        let is_in = |segment: &&Segment<()>| {
            let is_in = segment.records >= left;
            left = left.saturating_sub(if is_in { 0 } else { segment.records });
            is_in
        };
        let segment = self.log.segments().iter().rev().find(is_in);
        segment.map_or(self.log.first(), |segment| segment.last + 1 - left)
    }

    /// A consumer begins.
    pub(in crate::overflow) fn begin(&mut self, consumer: ProxyKey, start: StartFrom, now: u64) {
        let (first, behind) = (self.first(), self.log.next());
        let oldest = (!self.limits.age.is_zero()).then(|| self.oldest(now));
        let (mut next, mut reader) = (first, Reader::default());
        reader.selection.since = oldest;
        let since = |time: u64| Some(oldest.map_or(time, |oldest| oldest.max(time)));
        match start {
            StartFrom::New => next = behind,
            StartFrom::First => {}
            StartFrom::Number(number) => next = number.max(first),
            StartFrom::After(number) => next = number.saturating_add(1).clamp(first, behind),
            StartFrom::Last(0) => next = behind,
            StartFrom::Last(count) => next = self.first_of_last(count).max(first),
            StartFrom::Since(time) => reader.selection.since = since(now.saturating_sub(ticks(time))),
            StartFrom::Time(time) => reader.selection.since = since(time),
            StartFrom::LastOfEachType => reader.looking = Some(Looking { field: None, found: HashMap::new() }),
            StartFrom::LastOfEach(field) => {
                reader.looking = Some(Looking { field: Some(field), found: HashMap::new() });
            }
        }
        if let (Some(since), None) = (reader.selection.since, &reader.looking) {
            // Segments of which all is older are passed over.
            let newer = self.log.segments().iter().find(|segment| segment.ends >= since);
            next = next.max(newer.map_or(self.log.unwritten(), |segment| segment.first));
        }
        reader.cursor = Cursor::at(next);
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
        request: HistoryRequest<'_>,
        desk: &mut Desk,
    ) -> io::Result<Option<Chunk>> {
        let mut chunk = Chunk::default();
        let Some(mut reader) = self.readers.remove(&consumer) else {
            chunk.fetched.through = Some(self.log.next() - 1);
            return Ok(Some(chunk));
        };
        let read = self.read_for(&mut reader, request, desk, &mut chunk);
        self.readers.insert(consumer, reader);
        Ok(read?.then_some(chunk))
    }

    /// False while it is looked for what was asked for.
    fn read_for(
        &mut self,
        reader: &mut Reader,
        request: HistoryRequest<'_>,
        desk: &mut Desk,
        chunk: &mut Chunk,
    ) -> io::Result<bool> {
        if reader.looking.is_some() && !self.look(reader, request, desk)? {
            return Ok(false);
        }
        let first = self.first();
        if reader.cursor.next < first && reader.selection.only_through == 0 {
            // It is so slow that what it was to get is no longer kept.
            chunk.fetched.lost += if reader.has_begun { first - reader.cursor.next } else { 0 };
            reader.cursor = Cursor::at(first);
        }
        let filled = self.fill(reader, request, desk, chunk);
        if chunk.records.is_empty() && chunk.fetched.lost == 0 {
            filled?;
        }
        if reader.cursor.next >= self.log.next() {
            chunk.fetched.through = Some(self.log.next() - 1);
        }
        let is_first = !reader.has_begun && (chunk.fetched.through.is_some() || !chunk.records.is_empty());
        if is_first {
            reader.has_begun = true;
            let given = first_of(&chunk.records).map(|(number, ..)| u64::from_le_bytes(number));
            chunk.fetched.begins = Some(given.unwrap_or(self.log.next()));
        }
        Ok(true)
    }

    fn fill(
        &mut self,
        reader: &mut Reader,
        HistoryRequest { bytes, gives_up, clock, .. }: HistoryRequest<'_>,
        desk: &mut Desk,
        chunk: &mut Chunk,
    ) -> io::Result<()> {
        let Reader { cursor, selection, .. } = reader;
        while chunk.records.len() < bytes.max(1) {
            selection.skip(cursor);
            let step = self.log.read(cursor, (READ_BYTES, gives_up), (encode(clock), &mut *desk), |_, record| {
                if selection.takes(record.number, record.time) {
                    give(record.number.to_le_bytes(), record.body, &mut chunk.records);
                }
                chunk.records.len() < bytes
            });
            match step? {
                Step::Segment => {}
                Step::End => break,
                Step::PassedOver { segment, from, why } => chunk.fetched.lost += passed_over(segment, from, &why),
            }
        }
        Ok(())
    }

    /// Looks for the last of each through some of what there is. True when all was looked through.
    fn look(
        &mut self,
        reader: &mut Reader,
        HistoryRequest { gives_up, clock, key_of, .. }: HistoryRequest<'_>,
        desk: &mut Desk,
    ) -> io::Result<bool> {
        let Some(mut looking) = reader.looking.take() else { return Ok(true) };
        let mut scratch = Event::default();
        let oldest = reader.selection.since.take();
        let mut note = |stored: Stored<'_>| {
            let is_old = oldest.is_some_and(|oldest| stored.time < oldest);
            let Some(record) = Record::read(stored.body).filter(|_| !is_old) else { return };
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
                looking.found.insert(key, stored.number);
            }
        };
        let step = self.log.read(&mut reader.cursor, (LOOK_BYTES, gives_up), (encode(clock), desk), |_, record| {
            note(record);
            true
        });
        let is_over = matches!(step, Ok(Step::End));
        if let Ok(Step::PassedOver { segment, from, why }) = &step {
            passed_over(segment, *from, why);
        }
        if !is_over {
            (reader.looking, reader.selection.since) = (Some(looking), oldest);
            return step.map(|_| false);
        }
        let mut only: Vec<u64> = looking.found.into_values().collect();
        only.sort_unstable();
        let selection = Selection { since: None, only: only.into(), only_through: self.log.next() - 1 };
        *reader = Reader { cursor: Cursor::at(self.first()), selection, ..Reader::default() };
        Ok(true)
    }
}

/// Says how many events of a segment a reader has not looked at.
fn passed_over(segment: &Segment<()>, from: u64, why: &io::Error) -> u64 {
    ::log::error!("history: the rest of {} cannot be read, and is passed over: {why}", segment.path().display());
    segment.last + 1 - from
}

impl Selection {
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
    fn skip(&mut self, cursor: &mut Cursor) {
        if cursor.next > self.only_through {
            return;
        }
        while self.only.front().is_some_and(|requested_number| *requested_number < cursor.next) {
            self.only.pop_front();
        }
        let next = self.only.front().copied().unwrap_or(self.only_through + 1);
        if next > cursor.next + 64 || self.only.is_empty() {
            *cursor = Cursor::at(next);
        }
    }
}
