//! Channels' past: the last events of each channel that keeps them, in files of a bounded size that outlive the process.
//!
//! A history has a folder, and in it files that are named by the number of their first event and that are only appended to. A record has a
//! checksum, its event's number and when it came. A file that is finished says at its end what is in it; one that is not is looked through
//! at the next start, and cut off where a record is damaged or not all there. Nothing is synchronised while events come: a process that is
//! killed loses nothing of what was written, a machine that loses its power may lose the last seconds. So that no number is given twice
//! then, numbers go on far behind the last that was found if the machine was started since.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{ChannelId, Event, HistoryLimits, ProxyKey};

use self::part::{Found, Look, Part, append};
use self::reader::Reader;
pub(crate) use self::reader::{Chunk, first_of};
use super::uncached::Desk;
use crate::time::UtcClock;

mod part;
mod reader;
mod status;
pub(crate) mod stored;

/// A file has about this part of what may be kept altogether, so that not much more is kept than is to be.
const PARTS: u64 = 64;
const PART_BYTES_MIN: u64 = 64 << 10;
const PART_BYTES_MAX: u64 = 64 << 20;
const PART_EVENTS_MIN: u64 = 256;
/// What is written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// How far numbers go on behind the last one if some may have been lost.
const SKIPPED: u64 = 1 << 24;

/// The histories of all channels.
pub(super) struct Histories {
    folder: PathBuf,
    channels: BTreeMap<ChannelId, History>,
    boot: [u8; 16],
    /// What all may take together.
    bytes_max: u64,
}

impl Histories {
    /// Those in a folder, but for those of channels that are no more. Says with which numbers they go on.
    pub(super) fn open(
        folder: PathBuf,
        bytes_max: u64,
        is_there: impl Fn(ChannelId) -> bool,
        desk: &mut Desk,
    ) -> io::Result<(Self, Vec<(ChannelId, NonZeroU64)>)> {
        DirBuilder::new().mode(0o700).recursive(true).create(&folder)?;
        let (mut channels, mut numbers, boot) = (BTreeMap::new(), Vec::new(), boot_id());
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let Some(id) = channel_of(&entry) else { continue };
            if !is_there(id) {
                fs::remove_dir_all(entry.path())?;
                continue;
            }
            let (history, next) = History::open(entry.path(), &boot, desk)?;
            numbers.push((id, next));
            channels.insert(id, history);
        }
        Ok((Self { folder, channels, boot, bytes_max }, numbers))
    }

    /// An event is to be kept, behind all others of its channel.
    pub(super) fn push(&mut self, event: Arc<Event>, limits: HistoryLimits) {
        let Some(number) = event.number() else { return };
        let Self { folder, channels, boot, .. } = self;
        let channel = event.source.channel;
        let history = channels
            .entry(channel)
            .or_insert_with(|| History::new(folder.join(format!("channel-{}", channel.0)), *boot));
        (history.limits, history.last) = (limits, number.get());
        history.pending.push_back(event);
    }

    /// Those of which something is to be written.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = &mut History> {
        self.channels.values_mut().filter(|history| !history.pending.is_empty())
    }

    /// What all may take together.
    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(super) fn get(&mut self, channel: ChannelId) -> Option<&mut History> {
        self.channels.get_mut(&channel)
    }

    /// A channel keeps nothing any more.
    pub(super) fn drop_channel(&mut self, channel: ChannelId) -> Vec<Arc<Event>> {
        let Some(history) = self.channels.remove(&channel) else { return Vec::new() };
        let _ = fs::remove_dir_all(&history.folder);
        history.pending.into()
    }

    /// Removes what is older than is to be kept, or too much. Says how many files went because all together were too much.
    pub(super) fn trim(&mut self, now: u64) -> u64 {
        self.channels.values_mut().for_each(|history| history.trim(now));
        let mut cut = 0;
        while self.bytes() > self.bytes_max {
            let largest = self.channels.values_mut().filter(|history| history.parts.len() > 1);
            let Some(largest) = largest.max_by_key(|history| history.bytes()) else { break };
            largest.remove_first();
            cut += 1;
        }
        cut
    }

    /// Whether some are to be trimmed though nothing comes.
    pub(super) fn has_ages(&self) -> bool {
        self.channels.values().any(|history| !history.limits.age.is_zero() && !history.parts.is_empty())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.channels.values().map(History::bytes).sum()
    }

    pub(super) fn events(&self) -> u64 {
        self.channels.values().flat_map(|history| &history.parts).map(|part| part.records).sum()
    }

    /// Finishes all files, at the end.
    pub(super) fn finish(&mut self, clock: &UtcClock, desk: &mut Desk) -> io::Result<()> {
        for history in self.channels.values_mut() {
            while !history.pending.is_empty() {
                history.write(self.bytes_max, clock, desk)?;
            }
            history.finish_part(true, desk)?;
        }
        Ok(())
    }
}

/// That of a channel.
pub(super) struct History {
    folder: PathBuf,
    boot: [u8; 16],
    parts: VecDeque<Part>,
    /// Whether the last is written to. It is opened for each time, so that there may be many histories.
    is_open: bool,
    limits: HistoryLimits,
    /// What is yet to be written, and the number of the last of it, or of what is written.
    pending: VecDeque<Arc<Event>>,
    last: u64,
    readers: HashMap<ProxyKey, Reader>,
    /// Position of the first event that can be had, as far as earlier queries searched; and its number, and when it came.
    beginning: Reader,
    begins: Option<(u64, u64)>,
    /// Working space.
    buffer: Vec<u8>,
}

impl History {
    fn new(folder: PathBuf, boot: [u8; 16]) -> Self {
        Self {
            folder,
            boot,
            parts: VecDeque::new(),
            is_open: false,
            limits: HistoryLimits::default(),
            pending: VecDeque::new(),
            last: 0,
            readers: HashMap::new(),
            beginning: Reader::default(),
            begins: None,
            buffer: Vec::new(),
        }
    }

    /// What a former process left. Says with which number it goes on.
    fn open(folder: PathBuf, boot: &[u8; 16], desk: &mut Desk) -> io::Result<(Self, NonZeroU64)> {
        let mut history = Self::new(folder, *boot);
        let mut skips = false;
        for path in files_in(&history.folder)? {
            let Found { part, boot: of_boot, is_finished, .. } = match Part::open(&path, desk)? {
                Look::Part(found) => found,
                Look::Nothing(why) => {
                    if let Some(why) = why {
                        let path = path.display();
                        ::log::warn!("history: {path} has nothing that can be read, and is removed: {why}");
                    }
                    fs::remove_file(&path)?;
                    skips = true;
                    continue;
                }
            };
            skips |= !is_finished && of_boot != *boot;
            history.last = history.last.max(part.last);
            history.parts.push_back(part);
        }
        let next = history.last + if skips { SKIPPED } else { 1 };
        history.last = next - 1;
        Ok((history, NonZeroU64::new(next).unwrap_or(NonZeroU64::MIN)))
    }

    pub(super) fn files(&self) -> usize {
        self.parts.len()
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.file.bytes).sum()
    }

    // ---- written ----

    /// Writes some of what is to be written, where all may take so many octets. Gives back the events that are.
    pub(super) fn write(&mut self, bytes_max: u64, clock: &UtcClock, desk: &mut Desk) -> io::Result<Vec<Arc<Event>>> {
        let part_bytes = (self.limits.bytes_max().min(bytes_max) / PARTS).clamp(PART_BYTES_MIN, PART_BYTES_MAX);
        let part_events = match self.limits.events {
            0 => u64::MAX,
            events => (events / 8).max(PART_EVENTS_MIN),
        };
        let part_time = match ticks(self.limits.age) {
            0 => u64::MAX,
            age => (age / 8).max(ticks(Duration::from_secs(1))),
        };
        let is_enough = |part: &Part| {
            let is_long = clock.utc.saturating_sub(part.begins) >= part_time;
            part.file.bytes >= part_bytes || part.records >= part_events || is_long
        };
        if self.is_open && self.parts.back().is_some_and(is_enough) {
            self.finish_part(false, desk)?;
        }
        if !self.is_open {
            self.begin_part(desk)?;
        }
        let (has_bytes, has_events) = self.parts.back().map_or((0, 0), |part| (part.file.bytes, part.records));
        let room_bytes = part_bytes.saturating_sub(has_bytes).min(WRITE_BYTES as u64);
        let room_events = part_events.saturating_sub(has_events);
        let mut taken = Vec::new();
        self.buffer.clear();
        for event in &self.pending {
            let (number, at) = (event.number().map_or(0, NonZeroU64::get), self.buffer.len() as u64);
            let came = append(event, number, clock, &mut self.buffer);
            taken.push((number, at, came));
            if self.buffer.len() as u64 >= room_bytes || taken.len() as u64 >= room_events {
                break;
            }
        }
        let Some(part) = self.parts.back_mut() else { return Ok(Vec::new()) };
        let begins = part.file.bytes;
        if let Err(error) = part.file.append(&self.buffer, desk) {
            if error.kind() == io::ErrorKind::NotFound {
                // The file has been removed. Should it come back, what is in it is read; what is next goes into another one.
                self.is_open = false;
                self.parts.pop_back_if(|part| part.records == 0);
            }
            return Err(error);
        }
        for (number, at, came) in &taken {
            part.note(*number, begins + at, *came);
        }
        Ok(self.pending.drain(..taken.len()).collect())
    }

    fn begin_part(&mut self, desk: &mut Desk) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if let Some(first) = self.pending.front().and_then(|event| event.number()) {
            self.parts.push_back(Part::begin(&self.folder, first.get(), &self.boot, desk)?);
            self.is_open = true;
        }
        Ok(())
    }

    fn finish_part(&mut self, syncs: bool, desk: &mut Desk) -> io::Result<()> {
        if let Some(part) = self.parts.back_mut().filter(|_| self.is_open) {
            let finished = part.finish(syncs, desk);
            // A removed file is not finished any more.
            if finished.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return finished;
            }
        }
        self.is_open = false;
        Ok(())
    }

    fn trim(&mut self, now: u64) {
        let (HistoryLimits { events, .. }, oldest) = (self.limits, self.oldest(now));
        while let Some(first) = self.parts.front() {
            let is_last = self.parts.len() == 1;
            // The last one stays, so that numbers go on after a restart; what is too old in it is not read.
            let is_too_old = first.ends < oldest && !is_last;
            let behind = self.parts.get(1).map_or(self.last + 1, |next| next.first);
            let is_beyond = events > 0 && !is_last && self.last + 1 - behind >= events;
            let is_too_much = !is_last && self.bytes() > self.limits.bytes_max();
            if !(is_too_old || is_beyond || is_too_much) || self.limits == HistoryLimits::default() {
                return;
            }
            self.remove_first();
        }
    }

    /// What came before is too old to be kept.
    fn oldest(&self, now: u64) -> u64 {
        let age = self.limits.age;
        if age.is_zero() { 0 } else { now.saturating_sub(ticks(age)) }
    }

    fn remove_first(&mut self) {
        if let Some(gone) = self.parts.pop_front() {
            // One that stays is found again at the next start, and removed then.
            let _ = fs::remove_file(&gone.file.path);
        }
    }
}

/// Channel with its history in this folder. What else is beside it is left alone.
fn channel_of(entry: &fs::DirEntry) -> Option<ChannelId> {
    let name = entry.file_name();
    let id = name.to_str().and_then(|name| name.strip_prefix("channel-")?.parse().ok()).map(ChannelId);
    id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// The files of a channel's history, in their order. Other files in the folder are left alone.
fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_named_as_a_part(&entry.file_name()) && entry.file_type()?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn is_named_as_a_part(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_suffix(".events"));
    number.is_some_and(|number| number.len() == 20 && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// A time in 100 ns.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX)
}

/// What tells one start of the machine from another; nothing where the system does not say.
fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (octet, pair) in id.iter_mut().zip(digits.as_chunks::<2>().0) {
        let pair = core::str::from_utf8(pair).unwrap_or_default();
        *octet = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    id
}

#[cfg(test)]
mod tests;
