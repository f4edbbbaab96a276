//! A log of events that are kept until they are confirmed: batches in [segments](super::segment), each on the disk when it is acknowledged.
//!
//! A batch is a record of a segment: it is there whole, or not at all, and is known by its epoch and its number. It says which events are
//! kept and which are gone, which consumers are yet to confirm one, and which origins came from other services.
//!
//! **Epochs.** Where a batch could not be written or synchronised, it is not known what the disk has of it. So its segment is not gone on
//! with: the next batch has its number, in a segment of the next epoch. A record is void where a segment of a later epoch begins with its
//! number or a smaller one. A process begins with an epoch of its own, and writes the last batch that it finds once more: of that one alone
//! it cannot know whether it is on the disk, or only in the memory of a system that could not write it.
//!
//! **What is gone.** A segment of which little is live is [condensed](EventLog::condense): it is written anew without the rest, and takes the
//! name of the former. That an event is gone is said as long as any file may have the event. What is void is cut off, and segments without a
//! record are removed, before any segment that says so may go ([`seal`](EventLog::seal)).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Access, EntryKind, Files};
use super::segment::{self, Origin};
use super::uncached::UncachedFile;
use super::{Desk, Found, Look, SUFFIX, Segment, Stored, is_for_good};

/// Octets from which on a segment is not gone on with.
pub(crate) const SEGMENT_BYTES: u64 = 8 << 20;
/// Octets of an origin's key.
pub(crate) const KEY_BYTES: usize = 28;
/// What names of files end with that are not whole yet.
const UNFINISHED: &str = "new";

const EVENT: u8 = 1;
const LIST: u8 = 2;
const GONE: u8 = 3;
const ORIGIN: u8 = 4;
const ORIGINS_GONE: u8 = 5;

/// What a batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'b> {
    /// An event is kept.
    Event(u64, &'b [u8]),
    /// The consumers that are yet to confirm one.
    List(u64, &'b [u8]),
    /// Events from the first to the last number are gone.
    Gone(u64, u64),
    /// Origin of an event.
    Origin(u64, &'b [u8; KEY_BYTES]),
    /// Origins of events from the first to the last number are not to be known any more.
    OriginsGone(u64, u64),
}

/// A batch that is being filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch(Vec<u8>);

impl Batch {
    pub(crate) fn add(&mut self, entry: Entry<'_>) {
        let Self(out) = self;
        let mut head = |tag: u8, number: u64| {
            out.push(tag);
            out.extend(number.to_le_bytes());
        };
        match entry {
            Entry::Event(number, octets) | Entry::List(number, octets) => {
                head(if matches!(entry, Entry::Event(..)) { EVENT } else { LIST }, number);
                out.extend(u32::try_from(octets.len()).unwrap_or(u32::MAX).to_le_bytes());
                out.extend_from_slice(octets);
            }
            Entry::Gone(first, last) | Entry::OriginsGone(first, last) => {
                head(if matches!(entry, Entry::Gone(..)) { GONE } else { ORIGINS_GONE }, first);
                out.extend(last.to_le_bytes());
            }
            Entry::Origin(number, key) => {
                head(ORIGIN, number);
                out.extend_from_slice(key);
            }
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What it says, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        Entries(&self.0).map_while(Result::ok)
    }
}

/// Entries of a batch, one behind the other.
struct Entries<'b>(&'b [u8]);

impl<'b> Entries<'b> {
    fn read(&mut self) -> Option<Entry<'b>> {
        let (tag, rest) = self.0.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*number);
        let (entry, behind) = match *tag {
            EVENT | LIST => {
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let (octets, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
                (if *tag == EVENT { Entry::Event(number, octets) } else { Entry::List(number, octets) }, behind)
            }
            GONE | ORIGINS_GONE => {
                let (last, behind) = rest.split_first_chunk::<8>()?;
                let last = u64::from_le_bytes(*last);
                (if *tag == GONE { Entry::Gone(number, last) } else { Entry::OriginsGone(number, last) }, behind)
            }
            ORIGIN => {
                let (key, behind) = rest.split_first_chunk::<KEY_BYTES>()?;
                (Entry::Origin(number, key), behind)
            }
            _ => return None,
        };
        self.0 = behind;
        Some(entry)
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = io::Result<Entry<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a batch says what is not known here")))
    }
}

/// The number of the next event, and the entries, of a batch as it was written.
fn read_body(body: &[u8]) -> Option<(u64, Entries<'_>)> {
    let (next, entries) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*next), Entries(entries)))
}

/// Numbers, as runs: the first and the last of each. No two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub(crate) fn insert(&mut self, number: u64) {
        let (mut first, mut last) = (number, number);
        if let Some((begins, ends)) = self.0.range(..=number).next_back().map(|(begins, ends)| (*begins, *ends)) {
            if ends >= number {
                return;
            }
            if ends + 1 == number {
                self.0.remove(&begins);
                first = begins;
            }
        }
        if let Some(ends) = number.checked_add(1).and_then(|next| self.0.remove(&next)) {
            last = ends;
        }
        self.0.insert(first, last);
    }

    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        let touched = self.0.range(..=last).rev().take_while(|(_, ends)| **ends >= first);
        let touched: Vec<(u64, u64)> = touched.map(|(begins, ends)| (*begins, *ends)).collect();
        for (begins, ends) in touched {
            self.0.remove(&begins);
            if begins < first {
                self.0.insert(begins, first - 1);
            }
            if ends > last {
                self.0.insert(last + 1, ends);
            }
        }
    }

    pub(crate) fn has_any(&self, first: u64, last: u64) -> bool {
        self.0.range(..=last).next_back().is_some_and(|(_, ends)| *ends >= first)
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.has_any(number, number)
    }

    /// How many there are from the first to the last number.
    pub(crate) fn count(&self, first: u64, last: u64) -> u64 {
        let touched = self.0.range(..=last).rev().take_while(|(_, ends)| **ends >= first);
        touched.map(|(begins, ends)| (*ends).min(last) - (*begins).max(first) + 1).sum()
    }
}

/// The least and the greatest of some numbers; none without any.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(u64, u64)>);

impl Span {
    fn add(&mut self, first: u64, last: u64) {
        self.0 = Some(self.0.map_or((first, last), |(least, greatest)| (least.min(first), greatest.max(last))));
    }

    fn meets(self, first: u64, last: u64) -> bool {
        self.0.is_some_and(|(least, greatest)| least <= last && first <= greatest)
    }
}

/// What a segment's file has.
#[derive(Debug, Default)]
struct Contents {
    origin: Origin,
    /// Numbers of events, and of those that origins are of; how many there are of both, and whether some of these may be gone.
    events: Span,
    origins: Span,
    count: u64,
    has_dead: bool,
    /// Events of which it says which consumers are yet to confirm them, and those of which it says that they are gone.
    lists: Span,
    gone: Span,
    origins_gone: Span,
    /// Whether the file ends with a footer, and the disk has that.
    is_sealed: bool,
}

/// The log.
pub(crate) struct EventLog {
    folder: PathBuf,
    files: Arc<dyn Files>,
    origin: Origin,
    segments: VecDeque<Segment<Contents>>,
    /// Whether the last is written to.
    is_open: bool,
    next_batch: u64,
    next_event: u64,
    live: Runs,
    /// Events of which the origins are known.
    live_origins: Runs,
    /// Events with a smaller number than others before them.
    strays: BTreeSet<u64>,
    last_event: u64,
    /// The last batch of a former process, and its place, until it is written once more.
    unsure: Option<(Vec<u8>, u64)>,
    segment_bytes: u64,
    /// Working space.
    buffer: Vec<u8>,
}

/// What is found beside the events when a log is opened.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Consumers that are yet to confirm an event, by its number.
    pub(crate) lists: BTreeMap<u64, Arc<[u8]>>,
    /// Origins, by the numbers of their events.
    pub(crate) origins: BTreeMap<u64, [u8; KEY_BYTES]>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl EventLog {
    /// Opens the one in a folder, which is there. An error of the kind [`io::ErrorKind::InvalidData`] says what is damaged.
    pub(crate) fn open(
        folder: PathBuf,
        boot: [u8; 16],
        segment_bytes: u64,
        desk: &mut Desk,
    ) -> io::Result<(Self, Recovered)> {
        let mut log = Self {
            folder,
            files: Arc::clone(desk.files()),
            origin: Origin { boot, epoch: 1 },
            segments: VecDeque::new(),
            is_open: false,
            next_batch: 1,
            next_event: 1,
            live: Runs::default(),
            live_origins: Runs::default(),
            strays: BTreeSet::new(),
            last_event: 0,
            unsure: None,
            segment_bytes,
            buffer: Vec::new(),
        };
        let mut found = Vec::new();
        for path in log.files.entries(&log.folder, EntryKind::File)? {
            if path.extension().is_some_and(|extension| extension == UNFINISHED) {
                let _ = log.files.remove(&path);
            } else if let Some(position) = position_of(&path) {
                log.origin.epoch = log.origin.epoch.max(position.epoch + 1);
                found.push((position, log.look(path, position, desk)?));
            }
        }
        found.sort_by_key(|(position, _)| *position);
        Self::void(&mut found, desk)?;
        log.segments = found.into_iter().map(|(_, (segment, _))| segment).collect();
        let recovered = log.recover(desk)?;
        if log.unsure.is_some() {
            // Before anything is built upon it: what is known of it by then may be acknowledged elsewhere.
            log.append(&Batch::default(), desk)?;
        }
        Ok((log, recovered))
    }

    /// What there is of a segment, and the numbers and places of its records.
    fn look(
        &self,
        path: PathBuf,
        position: Position,
        desk: &mut Desk,
    ) -> io::Result<(Segment<Contents>, Vec<(u64, u64)>)> {
        let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
        let (mut segment, is_finished) = match Segment::<Contents>::look(&path, desk)? {
            Look::Segment(Found { segment, is_finished, .. }) => (segment, is_finished),
            // Its name says what its header does not.
            Look::Nothing(_) => {
                let length = self.files.open(&path, Access::READ)?.length()?;
                (Segment::of_file(UncachedFile::that_is_there(path.clone(), length, desk), position.number), false)
            }
        };
        let mut places = Vec::new();
        let walked = segment.each_place(desk, |number, at| places.push((number, at)));
        if is_finished && (walked.is_err() || places.len() as u64 != segment.records) {
            return Err(damaged("a record is damaged"));
        }
        walked.or_else(|why| if is_for_good(&why) { Ok(()) } else { Err(why) })?;
        segment.data.origin = Origin { boot: self.origin.boot, epoch: position.epoch };
        segment.data.is_sealed = is_finished;
        segment.first = position.number;
        Ok((segment, places))
    }

    /// Takes away what is void, and finds out whether all is there that was not.
    fn void(found: &mut [(Position, (Segment<Contents>, Vec<(u64, u64)>))], desk: &mut Desk) -> io::Result<()> {
        // From the last on: the first number of a segment of a later epoch.
        let mut void_from: Vec<(u64, u64)> = Vec::new();
        let mut follower: Option<u64> = None;
        for (position, (segment, places)) in found.iter_mut().rev() {
            let limit = void_from.iter().filter(|(epoch, _)| *epoch > position.epoch).map(|(_, first)| *first).min();
            let kept = places.partition_point(|(number, _)| limit.is_none_or(|limit| *number < limit));
            if let Some((_, at)) = places.get(kept) {
                segment.file.cut(*at, desk);
                segment.data.is_sealed = false;
            }
            places.truncate(kept);
            if !segment.data.is_sealed {
                segment.last = places.last().map_or(segment.first, |(number, _)| *number);
            }
            segment.records = kept as u64;
            if segment.records == 0 {
                continue;
            }
            let is_followed = follower.is_none_or(|follower| segment.last + 1 >= follower);
            if !segment.data.is_sealed && !is_followed {
                let path = segment.path().display();
                let why = format!("{path}: batches behind {} are damaged, and others follow", segment.last);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            void_from.push((position.epoch, position.number));
            follower = Some(position.number);
        }
        Ok(())
    }

    /// Takes in what the segments say.
    fn recover(&mut self, desk: &mut Desk) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        let last = self.segments.iter().rposition(|segment| segment.records > 0);
        for at in 0..self.segments.len() {
            let Some(mut segment) = self.segments.get_mut(at).filter(|segment| segment.records > 0).map(take) else {
                continue;
            };
            let mut unreadable = None;
            let mut at_last = (Vec::new(), 0);
            let read = segment.each(desk, |contents, place, record| {
                if last == Some(at) {
                    at_last = (record.body.to_vec(), place);
                }
                unreadable = self.take_in(contents, record.body, Some(&mut recovered)).err();
                unreadable.is_none()
            });
            if last == Some(at) {
                self.unsure = Some(at_last);
            }
            self.next_batch = self.next_batch.max(segment.last + 1);
            if let Some(place) = self.segments.get_mut(at) {
                *place = segment;
            }
            unreadable.map_or(read, Err)?;
        }
        let (live, live_origins) = (&self.live, &self.live_origins);
        recovered.lists.retain(|number, _| live.has(*number));
        recovered.origins.retain(|number, _| live_origins.has(*number));
        self.strays.retain(|number| live.has(*number));
        Ok(recovered)
    }

    /// Takes in what a batch says, which is in the segment of these contents.
    fn take_in(
        &mut self,
        contents: &mut Contents,
        body: &[u8],
        mut recovered: Option<&mut Recovered>,
    ) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a batch is too short");
        let (next, entries) = read_body(body).ok_or_else(damaged)?;
        self.next_event = self.next_event.max(next);
        for entry in entries {
            match entry? {
                Entry::Event(number, _) => {
                    self.live.insert(number);
                    contents.events.add(number, number);
                    contents.count += 1;
                    if number < self.last_event {
                        self.strays.insert(number);
                    }
                    self.last_event = self.last_event.max(number);
                    self.next_event = self.next_event.max(number + 1);
                }
                Entry::List(number, list) => {
                    contents.lists.add(number, number);
                    if let Some(recovered) = &mut recovered {
                        recovered.lists.insert(number, list.into());
                    }
                }
                Entry::Gone(first, last) => {
                    self.live.remove(first, last);
                    contents.gone.add(first, last);
                    self.note_dead(contents, |contents| contents.events, (first, last));
                }
                Entry::Origin(number, key) => {
                    self.live_origins.insert(number);
                    contents.origins.add(number, number);
                    contents.count += 1;
                    self.next_event = self.next_event.max(number + 1);
                    if let Some(recovered) = &mut recovered {
                        recovered.origins.insert(number, *key);
                    }
                }
                Entry::OriginsGone(first, last) => {
                    self.live_origins.remove(first, last);
                    contents.origins_gone.add(first, last);
                    self.note_dead(contents, |contents| contents.origins, (first, last));
                }
            }
        }
        Ok(())
    }

    /// Notes which segments may have something that is gone.
    fn note_dead(&mut self, written: &mut Contents, of: impl Fn(&Contents) -> Span, (first, last): (u64, u64)) {
        let all = self.segments.iter_mut().map(|segment| &mut segment.data).chain([written]);
        all.for_each(|contents| contents.has_dead |= of(contents).meets(first, last));
        self.next_event = self.next_event.max(last + 1);
    }

    /// The number behind that of the last event that it ever had.
    pub(crate) const fn next_event(&self) -> u64 {
        self.next_event
    }

    /// Whether it has no batch.
    pub(crate) fn is_new(&self) -> bool {
        self.segments.iter().all(|segment| segment.records == 0)
    }

    pub(crate) const fn live(&self) -> &Runs {
        &self.live
    }

    /// Octets of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    // ---- written ----

    /// Keeps a batch: it is on the disk when this returns. After an error it is not, as far as any later batch or process is concerned,
    /// unless the process ends before the next batch is kept.
    pub(crate) fn append(&mut self, batch: &Batch, desk: &mut Desk) -> io::Result<Position> {
        if self.segments.back().is_some_and(|segment| segment.bytes() >= self.segment_bytes) {
            self.is_open = false;
        }
        let (begins, segments) = (!self.is_open, self.segments.len());
        let ends = self.segments.back().map_or(0, Segment::bytes);
        let appended = self.try_append(batch, desk);
        if appended.is_err() {
            // One that was to begin is begun again in its place, and another is not gone on with.
            self.segments.truncate(segments);
            if !begins && let Some(segment) = self.segments.back_mut() {
                segment.file.cut(ends, desk);
                self.origin.epoch += 1;
            }
            self.is_open = false;
            return appended;
        }
        if begins {
            // What is not sealed now is tried again with the next segment.
            let _ = self.seal(desk);
        }
        appended
    }

    fn try_append(&mut self, batch: &Batch, desk: &mut Desk) -> io::Result<Position> {
        let (begins, number) = (!self.is_open, self.next_batch);
        let again = self.unsure.as_ref().filter(|_| begins);
        let mut records = Vec::with_capacity(2);
        self.buffer.clear();
        if let Some((body, _)) = again {
            records.push((number - 1, 0, body.clone()));
            segment::append(&mut self.buffer, number - 1, |out| {
                out.extend_from_slice(body);
                0
            });
        }
        let (second, next_event) = (self.buffer.len() as u64, self.next_event);
        segment::append(&mut self.buffer, number, |out| {
            out.extend(next_event.to_le_bytes());
            out.extend_from_slice(&batch.0);
            0
        });
        let body = [&next_event.to_le_bytes()[..], &batch.0].concat();
        records.push((number, second, body));
        if begins {
            let first = number - u64::from(again.is_some());
            // In place of one that was begun in vain, if there is one: nothing that is synchronised later is in it.
            let path = path_of(&self.folder, Position { epoch: self.origin.epoch, number: first });
            let mut segment = Segment::create(path, first, self.origin, desk)?;
            segment.data = Contents { origin: self.origin, ..Contents::default() };
            self.segments.push_back(segment);
        }
        let Some(segment) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let at = segment.bytes();
        segment.file.append(&self.buffer, desk)?;
        self.files.open(segment.path(), Access::WRITE)?.sync()?;
        if begins {
            self.files.sync_folder(&self.folder)?;
        }
        let Some(mut segment) = self.segments.pop_back() else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some((_, place)) = self.unsure.take_if(|_| begins) {
            // It is void where it was.
            let former = self.segments.iter_mut().rev().find(|segment| segment.records > 0);
            if let Some(former) = former {
                former.file.cut(place, desk);
                former.records -= 1;
                former.last = number.saturating_sub(2).max(former.first);
                former.data.is_sealed = false;
            }
        }
        for (of, place, body) in records {
            segment.note(of, at + place, 0);
            if of == number {
                self.take_in(&mut segment.data, &body, None)?;
            } else {
                segment.data.note(&body);
                segment.data.has_dead = true;
            }
        }
        self.segments.push_back(segment);
        (self.is_open, self.next_batch) = (true, number + 1);
        Ok(Position { epoch: self.origin.epoch, number })
    }

    /// Has what is void gone from the disk, and the ends of all segments on it but of the last.
    fn seal(&mut self, desk: &mut Desk) -> io::Result<()> {
        let mut at = 0;
        while at + 1 < self.segments.len() {
            let Some(segment) = self.segments.get_mut(at) else { break };
            if segment.records == 0 {
                remove(segment.path(), &*self.files)?;
                self.files.sync_folder(&self.folder)?;
                self.segments.remove(at);
                continue;
            }
            if !segment.data.is_sealed {
                segment.finish(true, desk)?;
                segment.data.is_sealed = true;
            }
            at += 1;
        }
        Ok(())
    }

    /// Removes, or writes anew, one segment of which little is live, if there is one. Says whether there was.
    pub(crate) fn condense(&mut self, desk: &mut Desk) -> io::Result<bool> {
        let last = self.segments.len().saturating_sub(1);
        let is_due = |(at, segment): &(usize, &Segment<Contents>)| *at < last && self.is_due(*at, segment);
        let Some((at, _)) = self.segments.iter().enumerate().find(is_due) else { return Ok(false) };
        self.seal(desk)?;
        // Sealing may have removed some before it.
        if self.segments.get(at).is_none_or(|segment| !segment.data.is_sealed) {
            return Ok(true);
        }
        let kept = self.survivors(at, desk)?;
        let Some(former) = self.segments.get(at) else { return Ok(false) };
        let path = former.path().to_owned();
        if kept.is_empty() {
            remove(&path, &*self.files)?;
            self.files.sync_folder(&self.folder)?;
            self.segments.remove(at);
            return Ok(true);
        }
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(format!(".{UNFINISHED}"));
        let unfinished = PathBuf::from(unfinished);
        let (first, last, origin) = (former.first, former.last, former.data.origin);
        let mut segment = Segment::create(unfinished.clone(), first, origin, desk)?;
        segment.data = Contents { origin, is_sealed: true, ..Contents::default() };
        for (number, body) in &kept {
            self.buffer.clear();
            segment::append(&mut self.buffer, *number, |out| {
                out.extend_from_slice(body);
                0
            });
            let place = segment.bytes();
            segment.file.append(&self.buffer, desk)?;
            segment.note(*number, place, 0);
            segment.data.note(body);
        }
        segment.last = last;
        segment.finish(true, desk)?;
        self.files.rename(&unfinished, &path)?;
        segment.file.path = path;
        // Until its name is synchronised the former may come back, with what was in it.
        segment.data.has_dead = true;
        if let Some(place) = self.segments.get_mut(at) {
            *place = segment;
        }
        self.files.sync_folder(&self.folder)?;
        if let Some(segment) = self.segments.get_mut(at) {
            segment.data.has_dead = false;
        }
        Ok(true)
    }

    /// Whether a segment has much that nothing needs any more.
    fn is_due(&self, at: usize, segment: &Segment<Contents>) -> bool {
        let Contents { events, origins, count, has_dead, lists, gone, origins_gone, .. } = &segment.data;
        if segment.records == 0 {
            return false;
        }
        let live = |span: &Span, of: &Runs| span.0.map_or(0, |(first, last)| of.count(first, last));
        if *has_dead {
            return live(events, &self.live) + live(origins, &self.live_origins) <= count / 4;
        }
        // Only what it says of others is left in it.
        let is_needed = |span: &Span, of: fn(&Contents) -> Span| {
            span.0.is_some_and(|(first, last)| self.may_have(at, of, (first, last)))
        };
        let says_more =
            is_needed(gone, |contents| contents.events) || is_needed(origins_gone, |contents| contents.origins);
        *count == 0 && live(lists, &self.live) == 0 && !says_more
    }

    /// Whether a file other than that of one segment may have something that is gone, of these numbers.
    fn may_have(&self, except: usize, of: fn(&Contents) -> Span, (first, last): (u64, u64)) -> bool {
        let others = self.segments.iter().enumerate().filter(|(at, _)| *at != except).map(|(_, segment)| &segment.data);
        others.into_iter().any(|contents| contents.has_dead && of(contents).meets(first, last))
    }

    /// Of a segment's batches what is still needed, with their numbers.
    fn survivors(&mut self, at: usize, desk: &mut Desk) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let Some(mut segment) = self.segments.get_mut(at).map(take) else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        let read = segment.each(desk, |_, _, Stored { number, body, .. }| {
            let Some((next, entries)) = read_body(body) else { return false };
            let mut batch = Batch::default();
            for entry in entries.map_while(Result::ok) {
                match entry {
                    Entry::Event(number, _) | Entry::List(number, _) if !self.live.has(number) => {}
                    Entry::Origin(number, _) if !self.live_origins.has(number) => {}
                    Entry::Gone(first, last) if !self.may_have(at, |contents| contents.events, (first, last)) => {}
                    Entry::OriginsGone(first, last)
                        if !self.may_have(at, |contents| contents.origins, (first, last)) => {}
                    entry => batch.add(entry),
                }
            }
            if !batch.is_empty() {
                kept.push((number, [&next.to_le_bytes()[..], &batch.0].concat()));
            }
            true
        });
        if let Some(place) = self.segments.get_mut(at) {
            *place = segment;
        }
        read?;
        Ok(kept)
    }

    // ---- read ----

    /// Passes each event that is kept, from this number on, by rising number, to `tell`, until that returns false.
    pub(crate) fn each_event(
        &mut self,
        from: u64,
        desk: &mut Desk,
        mut tell: impl FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let strays: Vec<u64> = self.strays.range(from..).copied().filter(|number| self.live.has(*number)).collect();
        let mut strayed = BTreeMap::new();
        for number in strays {
            if let Some(record) = self.event(number, desk, <[u8]>::to_vec)? {
                strayed.insert(number, record);
            }
        }
        let (mut goes_on, live, strays) = (true, &self.live, &self.strays);
        for segment in &mut self.segments {
            let is_wanted =
                segment.data.events.0.is_some_and(|(first, last)| last >= from && live.has_any(first, last));
            if !goes_on || segment.records == 0 || !is_wanted {
                continue;
            }
            segment.each(desk, |_, _, record| {
                for entry in read_body(record.body).into_iter().flat_map(|(_, entries)| entries).map_while(Result::ok) {
                    let Entry::Event(number, octets) = entry else { continue };
                    if number < from || !live.has(number) || strays.contains(&number) {
                        continue;
                    }
                    while let Some(stray) = strayed.first_entry().filter(|stray| goes_on && *stray.key() < number) {
                        let (number, record) = stray.remove_entry();
                        goes_on = tell(number, &record);
                    }
                    goes_on = goes_on && tell(number, octets);
                }
                goes_on
            })?;
        }
        for (number, record) in strayed {
            goes_on = goes_on && tell(number, &record);
        }
        Ok(())
    }

    /// What is kept of one event; nothing if it is not there.
    pub(crate) fn event<R>(
        &mut self,
        number: u64,
        desk: &mut Desk,
        read: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<Option<R>> {
        let (mut read, mut found) = (Some(read), None);
        if !self.live.has(number) {
            return Ok(None);
        }
        for segment in self.segments.iter_mut().filter(|segment| segment.data.events.meets(number, number)) {
            segment.each(desk, |_, _, record| {
                let mut entries = read_body(record.body).into_iter().flat_map(|(_, entries)| entries);
                let event = entries.find_map(|entry| match entry {
                    Ok(Entry::Event(of, octets)) if of == number => Some(octets),
                    _ => None,
                });
                found = event.and_then(|octets| read.take().map(|read| read(octets)));
                found.is_none()
            })?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }
}

impl Contents {
    /// A condensed batch is in the file.
    fn note(&mut self, body: &[u8]) {
        for entry in read_body(body).into_iter().flat_map(|(_, entries)| entries).map_while(Result::ok) {
            match entry {
                Entry::Event(number, _) => {
                    self.events.add(number, number);
                    self.count += 1;
                }
                Entry::List(number, _) => self.lists.add(number, number),
                Entry::Gone(first, last) => self.gone.add(first, last),
                Entry::Origin(number, _) => {
                    self.origins.add(number, number);
                    self.count += 1;
                }
                Entry::OriginsGone(first, last) => self.origins_gone.add(first, last),
            }
        }
    }
}

impl Segment<Contents> {
    /// Passes each record with its place to `take`, as long as that returns true.
    fn each(
        &mut self,
        desk: &mut Desk,
        mut take: impl FnMut(&mut Contents, u64, Stored<'_>) -> bool,
    ) -> io::Result<()> {
        let Self { file, data, .. } = self;
        let walked = segment::walk(file, desk, (segment::HEADER as u64, u64::MAX), |at, record| take(data, at, record));
        walked.map(drop).map_err(|(_, why)| why)
    }

    /// The same of those that are whole: what is behind them is cut off.
    fn each_place(&mut self, desk: &mut Desk, mut take: impl FnMut(u64, u64)) -> io::Result<()> {
        let walked = segment::walk(&self.file, desk, (segment::HEADER as u64, u64::MAX), |at, record| {
            take(record.number, at);
            true
        });
        match walked {
            Err((at, why)) if is_for_good(&why) => {
                self.file.cut(at, desk);
                Err(why)
            }
            walked => walked.map(drop).map_err(|(_, why)| why),
        }
    }
}

/// Takes a segment out of its place, for as long as it is read.
fn take(segment: &mut Segment<Contents>) -> Segment<Contents> {
    core::mem::replace(segment, Segment::of_file(UncachedFile::default(), 0))
}

/// Removes a file that may have been removed before.
fn remove(path: &Path, files: &dyn Files) -> io::Result<()> {
    match files.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path_of(folder: &Path, Position { epoch, number }: Position) -> PathBuf {
    folder.join(format!("{epoch:020}-{number:020}{SUFFIX}"))
}

fn position_of(path: &Path) -> Option<Position> {
    let (epoch, number) = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.split_once('-')?;
    let number_in = |text: &str| (text.len() == 20).then(|| text.parse().ok())?;
    Some(Position { epoch: number_in(epoch)?, number: number_in(number)? })
}

#[cfg(test)]
mod tests;
