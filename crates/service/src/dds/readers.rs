//! Readers in DDS that take nothing: for how long a join waits for them, and what becomes of them then.
//!
//! A reliable writer waits for all its readers, so that one that is alive and takes nothing would hold all others of its join, and then the
//! channel. After `dds.hold_timeout_ms` without a confirmation, while the join waits, such a reader is let go: the writer goes on as if it were
//! not there. After a pause it is tried again: it gets what is written from then on, and when it confirms some of that, it is a reader as any
//! other. If instead the join waits for it once more, it is let go at once, and the next pause is twice as long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ::dds::{Guid, ReliableReader, Writer};

use crate::config::DdsJoin;

/// The longest pause until a reader is tried again, unless `dds.hold_timeout_ms` itself is longer.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// How often it is looked whether a pause is over, and whether a reader that is tried has confirmed something.
const LOOKS_AFTER: Duration = Duration::from_secs(1);

/// The readers of a join that were let go.
pub(super) struct LetGo {
    /// How long a reader may confirm nothing while the join waits. Nothing: for ever.
    hold_timeout: Option<Duration>,
    /// By the writer, as the join counts them.
    readers: BTreeMap<(usize, Guid), Pause>,
    next_look: Option<Instant>,
}

struct Pause {
    length: Duration,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// It is not matched until then.
    Out(Instant),
    /// It is matched again; so much it was held to have confirmed at that moment.
    Tried(u64),
}

/// The readers for which an event waits: what they had confirmed when it was looked first, and when that was.
pub(super) type Waiting = BTreeMap<Guid, (u64, Instant)>;

impl LetGo {
    pub(super) fn new(hold_timeout: Option<Duration>) -> Self {
        Self { hold_timeout, readers: BTreeMap::new(), next_look: None }
    }

    /// An event has waited for readers of a writer, and goes on waiting. Returns how many are let go, and says which.
    pub(super) fn slowed(&mut self, join: &DdsJoin, at: usize, writer: &Writer, waiting: &mut Waiting) -> u64 {
        let Some(hold_timeout) = self.hold_timeout else { return 0 };
        let Ok(readers) = writer.reliable_readers() else { return 0 };
        let now = Instant::now();
        let mut count = 0;
        for reader in readers.iter().filter(|reader| reader.is_behind()) {
            let (confirmed, since) = waiting.entry(reader.guid).or_insert((reader.confirmed, now));
            if *confirmed != reader.confirmed {
                (*confirmed, *since) = (reader.confirmed, now);
            }
            let held_for = now.saturating_duration_since(*since);
            let known = self.readers.get(&(at, reader.guid));
            let is_tried =
                matches!(known, Some(Pause { state: State::Tried(confirmed), .. }) if reader.confirmed <= *confirmed);
            if (is_tried || held_for >= hold_timeout) && writer.unmatch(reader.guid).is_ok() {
                waiting.remove(&reader.guid);
                count += 1;
                self.let_go(join, (at, writer), reader, (hold_timeout, held_for));
            }
        }
        count
    }

    fn let_go(
        &mut self,
        join: &DdsJoin,
        (at, writer): (usize, &Writer),
        reader: &ReliableReader,
        (hold_timeout, held_for): (Duration, Duration),
    ) {
        let (join, topic) = (join.described(), writer.topic().name());
        let known = self.readers.get(&(at, reader.guid)).map(|pause| pause.length);
        let length = known.map_or(hold_timeout, |length| (2 * length).min(hold_timeout.max(PAUSE_MAX)));
        let pause = length.as_millis();
        if known.is_none() {
            let missed = reader.written - reader.confirmed;
            log::warn!(
                "{join}: topic {topic:?} waits no more for {reader}: it took nothing for {} ms while others waited for it. The {missed} samples \
                 that it has not confirmed and what comes are not for it; it is tried again in {pause} ms",
                held_for.as_millis()
            );
        } else {
            log::info!("{join}: topic {topic:?}: {reader} takes nothing still; it is tried again in {pause} ms");
        }
        self.readers.insert((at, reader.guid), Pause { length, state: State::Out(Instant::now() + length) });
        self.next_look.get_or_insert(Instant::now() + LOOKS_AFTER);
    }

    /// Tries again those whose pause is over. Returns how many of those that were tried take something again, and says which.
    pub(super) fn look(&mut self, join: &DdsJoin, writers: &[Writer]) -> u64 {
        let Some(next_look) = self.next_look else { return 0 };
        let now = Instant::now();
        if now < next_look {
            return 0;
        }
        let mut back = 0;
        self.readers.retain(|(at, guid), pause| {
            let Some(writer) = writers.get(*at) else { return false };
            match pause.state {
                State::Out(until) if now < until => true,
                State::Out(_) => {
                    if writer.match_again(*guid) != Ok(true) {
                        return false; // it is gone
                    }
                    let Some(reader) = reader_of(writer, *guid) else { return false };
                    pause.state = State::Tried(reader.confirmed);
                    true
                }
                State::Tried(confirmed) => {
                    let Some(reader) = reader_of(writer, *guid) else { return false };
                    if reader.confirmed <= confirmed {
                        return true;
                    }
                    let (join, topic) = (join.described(), writer.topic().name());
                    log::info!(
                        "{join}: topic {topic:?}: {reader} takes something again, and is waited for as others are"
                    );
                    back += 1;
                    false
                }
            }
        });
        self.next_look = (!self.readers.is_empty()).then(|| now + LOOKS_AFTER);
        back
    }
}

fn reader_of(writer: &Writer, guid: Guid) -> Option<ReliableReader> {
    writer.reliable_readers().ok()?.into_iter().find(|reader| reader.guid == guid)
}
