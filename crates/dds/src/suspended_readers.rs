//! Readers that take nothing: how long a writer waits for them, and their suspension.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::endpoints::{ReliableReader, Writer};
use crate::participant::Guid;

/// Longest pause until a reader is tried again, unless the hold timeout itself is longer.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Interval of checks whether a pause is over and whether a tried reader has confirmed something; also the length of a trial.
const LOOKS_AFTER: Duration = Duration::from_secs(1);

/// The suspended readers of a writer.
///
/// A reliable writer waits for all its readers, so that a live one that takes nothing would block all others. After the hold timeout
/// without a confirmation, while the writer waits, such a reader is suspended: the writer goes on without it. After a pause the reader is
/// tried again: it gets what is written from then on, and is a normal reader once it confirms some of that. If instead the writer has to
/// wait for it for a second, it is suspended at once, and the next pause is twice as long.
///
/// Its methods do not wait: the owner has the writer block for about a second at most, calls [`SuspendedReaders::slowed`] after each
/// failure and [`SuspendedReaders::look`] before it writes.
#[derive(Debug)]
pub struct SuspendedReaders {
    /// Time that a reader may confirm nothing while the writer waits. `None`: for ever.
    hold_timeout: Option<Duration>,
    readers: BTreeMap<Guid, Pause>,
    /// The readers that the writer waits for: their confirmed samples at the first check, and its time.
    behind: BTreeMap<Guid, (u64, Instant)>,
    next_look: Option<Instant>,
}

#[derive(Debug)]
struct Pause {
    length: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Not matched until this time.
    Out(Instant),
    /// Matched again since this time, with the confirmed count assumed at that moment.
    Tried(u64, Instant),
}

impl SuspendedReaders {
    /// Makes a list with this hold timeout; `None`: for ever.
    #[must_use]
    pub const fn new(hold_timeout: Option<Duration>) -> Self {
        Self { hold_timeout, readers: BTreeMap::new(), behind: BTreeMap::new(), next_look: None }
    }

    /// Handles a write that was [slowed](crate::WriteError::Slowed) and has to wait on. Returns how many readers it suspended, and logs
    /// which, under the given name.
    pub fn slowed(&mut self, whose: impl Display, writer: &Writer) -> u64 {
        let Some(hold_timeout) = self.hold_timeout else { return 0 };
        let Ok(readers) = writer.reliable_readers() else { return 0 };
        let now = Instant::now();
        self.behind.retain(|guid, _| readers.iter().any(|reader| reader.guid == *guid && reader.is_behind()));
        let mut count = 0;
        for reader in readers.iter().filter(|reader| reader.is_behind()) {
            let (confirmed, since) = self.behind.entry(reader.guid).or_insert((reader.confirmed, now));
            if *confirmed != reader.confirmed {
                (*confirmed, *since) = (reader.confirmed, now);
            }
            let blocked_for = now.saturating_duration_since(*since);
            let is_tried_in_vain = self.readers.get(&reader.guid).is_some_and(|pause| match pause.state {
                State::Out(_) => false,
                State::Tried(confirmed, since) => reader.confirmed <= confirmed && now - since >= LOOKS_AFTER,
            });
            if (is_tried_in_vain || blocked_for >= hold_timeout) && writer.unmatch(reader.guid).is_ok() {
                self.behind.remove(&reader.guid);
                count += 1;
                self.suspend(&whose, writer, reader, (hold_timeout, blocked_for));
            }
        }
        count
    }

    fn suspend(
        &mut self,
        whose: &impl Display,
        writer: &Writer,
        reader: &ReliableReader,
        (hold_timeout, blocked_for): (Duration, Duration),
    ) {
        let topic = writer.topic().name();
        let known = self.readers.get(&reader.guid).map(|pause| pause.length);
        let length = known.map_or(hold_timeout, |length| (2 * length).min(hold_timeout.max(PAUSE_MAX)));
        let pause = length.as_millis();
        if known.is_none() {
            let missed = reader.written - reader.confirmed;
            log::warn!(
                "{whose}: topic {topic:?} waits no more for {reader}: it took nothing for {} ms while others waited for it. The {missed} \
                 samples that it has not confirmed and what comes are not for it; it is tried again in {pause} ms",
                blocked_for.as_millis()
            );
        } else {
            log::info!("{whose}: topic {topic:?}: {reader} takes nothing still; it is tried again in {pause} ms");
        }
        self.readers.insert(reader.guid, Pause { length, state: State::Out(Instant::now() + length) });
        self.next_look.get_or_insert(Instant::now() + LOOKS_AFTER);
    }

    /// Whether [`SuspendedReaders::look`] has something to do.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.next_look.is_some_and(|next_look| Instant::now() >= next_look)
    }

    /// Tries readers again after their pause. Returns how many of the tried ones take samples again, and logs which, under the given name.
    pub fn look(&mut self, whose: impl Display, writer: &Writer) -> u64 {
        if !self.is_due() {
            return 0;
        }
        let now = Instant::now();
        let mut back = 0;
        self.readers.retain(|guid, pause| match pause.state {
            State::Out(until) if now < until => true,
            State::Out(_) => {
                if writer.match_again(*guid) != Ok(true) {
                    return false; // it is gone
                }
                let Some(reader) = reader_of(writer, *guid) else { return false };
                pause.state = State::Tried(reader.confirmed, now);
                true
            }
            State::Tried(confirmed, _) => {
                let Some(reader) = reader_of(writer, *guid) else { return false };
                if reader.confirmed <= confirmed {
                    return true;
                }
                let topic = writer.topic().name();
                log::info!("{whose}: topic {topic:?}: {reader} takes something again, and is waited for as others are");
                back += 1;
                false
            }
        });
        self.next_look = (!self.readers.is_empty()).then(|| now + LOOKS_AFTER);
        back
    }
}

fn reader_of(writer: &Writer, guid: Guid) -> Option<ReliableReader> {
    writer.reliable_readers().ok()?.into_iter().find(|reader| reader.guid == guid)
}
