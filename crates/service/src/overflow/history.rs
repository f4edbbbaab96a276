//! Channels' history: the last events of each channel that stores them, in a [log](crate::log) that outlives the process.
//!
//! A history has its own folder. Its records have the numbers of the events and their arrival times.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{ChannelId, Event, HistoryLimits, ProxyKey};

use self::reader::Reader;
pub(crate) use self::reader::{Chunk, HistoryRequest};
use crate::log::files::{EntryKind, Files};
use crate::log::{Cursor, Desk, Log, SegmentLimits, segment_bytes};
use crate::store::record::Record;
use crate::time::UtcClock;

mod reader;
mod status;
pub(crate) mod stored;

const SEGMENT_EVENTS_MIN: u64 = 256;

/// The histories of all channels.
pub(super) struct Histories {
    folder: PathBuf,
    files: Arc<dyn Files>,
    channels: BTreeMap<ChannelId, History>,
    boot: [u8; 16],
    /// Maximum octets of all histories.
    bytes_max: u64,
}

impl Histories {
    /// Opens the histories in a folder, and removes those of channels that no longer exist. `boot`: the machine's boot id. Returns each
    /// next number.
    pub(super) fn open(
        folder: PathBuf,
        bytes_max: u64,
        boot: [u8; 16],
        is_there: impl Fn(ChannelId) -> bool,
        desk: &mut Desk,
    ) -> io::Result<(Self, Vec<(ChannelId, NonZeroU64)>)> {
        let files = Arc::clone(desk.files());
        create_folder(&folder, &*files)?;
        // A log synchronises its own folder.
        folder.parent().map_or(Ok(()), |parent| files.sync_folder(parent))?;
        let (mut channels, mut numbers) = (BTreeMap::new(), Vec::new());
        for path in files.entries(&folder, EntryKind::Folder)? {
            let Some(id) = channel_of(&path) else { continue };
            if !is_there(id) {
                files.remove_folder(&path)?;
                continue;
            }
            let log = Log::open(path, boot, "history", desk)?;
            numbers.extend(NonZeroU64::new(log.next()).map(|next| (id, next)));
            channels.insert(id, History::new(log));
        }
        Ok((Self { folder, files, channels, boot, bytes_max }, numbers))
    }

    /// Appends an event to its channel's history.
    pub(super) fn push(&mut self, event: Arc<Event>, limits: HistoryLimits) {
        let Some(number) = event.number() else { return };
        let Self { folder, files, channels, boot, .. } = self;
        let channel = event.source.channel;
        let log = || Log::new(folder.join(format!("channel-{}/", channel.0)), Some(*boot), Arc::clone(files));
        let history = channels.entry(channel).or_insert_with(|| History::new(log()));
        history.limits = limits;
        history.log.push(number.get(), event);
    }

    /// The histories with events yet to be written.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = &mut History> {
        self.channels.values_mut().filter(|history| !history.log.pending().is_empty())
    }

    /// Maximum octets of all histories.
    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(super) fn get(&mut self, channel: ChannelId) -> Option<&mut History> {
        self.channels.get_mut(&channel)
    }

    /// Removes a channel's history, and returns the events yet to be written.
    pub(super) fn drop_channel(&mut self, channel: ChannelId) -> Vec<Arc<Event>> {
        let Some(mut history) = self.channels.remove(&channel) else { return Vec::new() };
        let _ = self.files.remove_folder(history.log.name());
        history.log.pending_mut().drain(..).map(|(_, event)| event).collect()
    }

    /// Removes segments beyond the limits. Returns how many were removed since all histories together were too large.
    pub(super) fn trim(&mut self, now: u64) -> u64 {
        self.channels.values_mut().for_each(|history| history.trim(now));
        let mut cut = 0;
        while self.bytes() > self.bytes_max {
            let largest = self.channels.values_mut().filter(|history| history.log.segments().len() > 1);
            let Some(largest) = largest.max_by_key(|history| history.log.bytes()) else { break };
            largest.log.remove_first();
            cut += 1;
        }
        cut
    }

    /// Whether a history has a limit of age, so that it must be trimmed without new events as well.
    pub(super) fn has_ages(&self) -> bool {
        self.channels.values().any(|history| !history.limits.age.is_zero() && !history.log.segments().is_empty())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.channels.values().map(|history| history.log.bytes()).sum()
    }

    pub(super) fn events(&self) -> u64 {
        self.channels.values().flat_map(|history| history.log.segments()).map(|segment| segment.records).sum()
    }

    /// Writes all pending events, and finishes all segments.
    pub(super) fn finish(&mut self, clock: &UtcClock, desk: &mut Desk) -> io::Result<()> {
        for history in self.channels.values_mut() {
            while !history.log.pending().is_empty() {
                history.write(self.bytes_max, clock, desk)?;
            }
            history.log.finish(true, desk)?;
        }
        Ok(())
    }
}

/// The history of a channel.
pub(super) struct History {
    log: Log<()>,
    limits: HistoryLimits,
    readers: HashMap<ProxyKey, Reader>,
    /// Position of the first event found by earlier queries; `begins` is its number and arrival time.
    beginning: Cursor,
    begins: Option<(u64, u64)>,
}

impl History {
    fn new(log: Log<()>) -> Self {
        let (limits, beginning) = (HistoryLimits::default(), Cursor::default());
        Self { log, limits, readers: HashMap::new(), beginning, begins: None }
    }

    pub(super) fn files(&self) -> usize {
        self.log.segments().len()
    }

    /// Writes pending events, and returns them. `bytes_max` is the budget of all histories.
    pub(super) fn write(&mut self, bytes_max: u64, clock: &UtcClock, desk: &mut Desk) -> io::Result<Vec<Arc<Event>>> {
        let records = match self.limits.events {
            0 => u64::MAX,
            events => (events / 8).max(SEGMENT_EVENTS_MIN),
        };
        let oldest = match ticks(self.limits.age) {
            0 => 0,
            age => clock.utc.saturating_sub((age / 8).max(ticks(Duration::from_secs(1)))),
        };
        if !self.log.is_open() {
            create_folder(self.log.name(), &**desk.files())?;
        }
        let limits = SegmentLimits { bytes: segment_bytes(self.limits.bytes_max().min(bytes_max)), records, oldest };
        self.log.write(&limits, encode(clock), desk, |(), _, _| ())
    }

    fn trim(&mut self, now: u64) {
        let (HistoryLimits { events, .. }, oldest) = (self.limits, self.oldest(now));
        // The last segment stays, so that numbers continue after a restart; readers skip events in it that are too old.
        while let (Some(first), Some(second)) = (self.log.segments().front(), self.log.segments().get(1)) {
            let is_beyond = events > 0 && self.first() >= second.first;
            let is_too_much = self.log.bytes() > self.limits.bytes_max();
            if !(first.ends < oldest || is_beyond || is_too_much) || self.limits == HistoryLimits::default() {
                return;
            }
            self.log.remove_first();
        }
    }

    /// The earliest arrival time within the limit of age, in 100 ns.
    fn oldest(&self, now: u64) -> u64 {
        let age = self.limits.age;
        if age.is_zero() { 0 } else { now.saturating_sub(ticks(age)) }
    }
}

/// Encodes an event, and returns its arrival time.
fn encode(clock: &UtcClock) -> impl Fn(&Event, &mut Vec<u8>) -> u64 {
    move |event, out| {
        Record::of(event, event.arrived, clock).write(out);
        clock.utc_time(event.arrived)
    }
}

/// The channel of a history's folder. `None` for other folders.
fn channel_of(folder: &Path) -> Option<ChannelId> {
    folder.file_name()?.to_str()?.strip_prefix("channel-")?.parse().ok().map(ChannelId)
}

/// Creates a folder unless it exists.
fn create_folder(path: &Path, files: &dyn Files) -> io::Result<()> {
    match files.create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Converts to 100 ns.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
