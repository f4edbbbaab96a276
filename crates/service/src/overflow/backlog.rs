//! What is kept of one channel's events for the consumers of one lane that are behind: a [log](crate::log).
//!
//! A record names the consumers that it is for. Each of these reads the segments from where it is, and passes over what is not its own; a
//! segment in which no consumer has anything left is removed. What is damaged is reported as lost, and never delivered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use engine::{Away, Event, ProxyId};

use super::encode;
use crate::log::{Cursor, Desk, Log, Segment, SegmentLimits, Step, give, segment_bytes};

/// What is kept of a channel on a lane.
pub(crate) struct Backlog {
    log: Log<Claims>,
    readers: HashMap<ProxyId, Cursor>,
    /// The number behind the records that all readers have read, as far as was reported; and whether a reader may have got further.
    reported: u64,
    has_moved: bool,
}

/// What there is to do with a segment.
#[derive(Default)]
struct Claims {
    /// What its records cost the room that there is.
    cost: u64,
    /// How many records each consumer has yet to read, of those that have any.
    left: HashMap<ProxyId, u64>,
}

/// What was read for a consumer: [one record behind the other](crate::log::first_of), and how many are lost.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) records: Vec<u8>,
    pub(crate) lost: u64,
    /// Why some are lost, or could not be read now.
    pub(crate) why: Option<io::Error>,
}

/// Events that no consumer is yet to read, and room that came back: that of a segment when no consumer has anything left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl Freed {
    pub(crate) const fn remove(&mut self, freed: Self) {
        self.events = self.events.saturating_sub(freed.events);
        self.bytes = self.bytes.saturating_sub(freed.bytes);
    }
}

impl Backlog {
    /// Creates an empty one. Its files' names begin with this one.
    pub(crate) fn new(name: PathBuf, desk: &Desk) -> Self {
        let log = Log::new(name, None, Arc::clone(desk.files()));
        Self { reported: log.next(), log, readers: HashMap::new(), has_moved: false }
    }

    /// An event is to be kept, behind all others.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        let next = self.log.next();
        for away in event.away() {
            self.readers.entry(away.consumer).or_insert(Cursor::at(next));
        }
        self.log.push(next, event);
    }

    /// Whether something is to be written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.log.pending().is_empty()
    }

    /// Whether no consumer is behind.
    pub(crate) fn is_over(&self) -> bool {
        self.readers.is_empty() && !self.is_pending()
    }

    /// Nothing is to be read any more for a consumer.
    pub(crate) fn forget(&mut self, consumer: ProxyId) {
        self.readers.remove(&consumer);
        self.has_moved = true;
        self.log.each(|claims| _ = claims.left.remove(&consumer));
    }

    /// Writes some of what is to be written, of a backlog that may have so many octets altogether. Gives back the events that are.
    pub(crate) fn write(&mut self, budget_bytes: u64, desk: &mut Desk) -> io::Result<Vec<Arc<Event>>> {
        let limits = SegmentLimits { bytes: segment_bytes(budget_bytes), records: u64::MAX, oldest: 0 };
        let Self { log, readers, .. } = self;
        log.write(&limits, append, desk, |claims, number, event| {
            claims.cost += event.stored_bytes();
            for away in event.away().iter().filter(|away| is_awaited(readers, away, number)) {
                *claims.left.entry(away.consumer).or_default() += 1;
            }
        })
    }

    /// Removes from what cannot be written now, and returns, the events that no consumer is yet to read. Called before
    /// [`free`](Self::free), if at all.
    pub(crate) fn release(&mut self) -> Vec<Arc<Event>> {
        if !self.has_moved {
            return Vec::new();
        }
        let Self { log, readers, .. } = self;
        let mut unwanted = Vec::new();
        log.pending_mut().retain(|(number, event)| {
            let is_wanted = event.away().iter().any(|away| is_awaited(readers, away, *number));
            unwanted.extend((!is_wanted).then(|| Arc::clone(event)));
            is_wanted
        });
        unwanted
    }

    /// Returns how many events all consumers have read since the last call, and removes the segments in which no consumer has anything left.
    pub(crate) fn free(&mut self) -> Freed {
        let mut freed = Freed::default();
        if core::mem::take(&mut self.has_moved) {
            let behind = self.readers.values().map(|reader| reader.next).min().unwrap_or(self.log.next());
            freed.events = behind.saturating_sub(self.reported);
            self.reported = self.reported.max(behind);
        }
        let is_pending = self.is_pending();
        self.log.remove(|segment, is_last| {
            let goes = segment.records > 0 && segment.data.left.is_empty() && !(is_last && is_pending);
            freed.bytes += if goes { segment.data.cost } else { 0 };
            goes
        });
        freed
    }

    /// What [`free`](Self::free) has yet to tell.
    pub(crate) fn stored(&self) -> Freed {
        let pending = self.log.pending().iter().map(|(_, event)| event.stored_bytes());
        let bytes = self.log.segments().iter().map(|segment| segment.data.cost).chain(pending).sum();
        Freed { events: self.log.next() - self.reported, bytes }
    }

    /// Reads what is next for a consumer: about so many octets, but one record if there is one. What cannot be read now is to be tried
    /// again if the failure seems temporary; after too many attempts it is lost.
    pub(crate) fn read(&mut self, consumer: ProxyId, (bytes, gives_up): (usize, bool), desk: &mut Desk) -> Read {
        let Read { mut records, mut lost, mut why } = Read::default();
        let Some(cursor) = self.readers.get_mut(&consumer) else { return Read::default() };
        self.has_moved = true;
        while records.len() < bytes {
            // Segments in which it has nothing left are passed over.
            let is_its =
                |segment: &&Segment<Claims>| cursor.next <= segment.last && segment.data.left.contains_key(&consumer);
            let segment = self.log.segments().iter().find(is_its);
            cursor.next = cursor.next.max(segment.map_or(self.log.unwritten(), |segment| segment.first));
            let step = self.log.read(cursor, (u64::MAX, gives_up), (append, &mut *desk), |claims, record| {
                if let Some((ask, event)) = of_consumer(record.body, consumer) {
                    give([ask], event, &mut records);
                    if let Some(Entry::Occupied(mut left)) = claims.map(|claims| claims.left.entry(consumer)) {
                        *left.get_mut() -= 1;
                        if *left.get() == 0 {
                            left.remove();
                        }
                    }
                }
                records.len() < bytes
            });
            match step {
                Ok(Step::Segment) => {}
                Ok(Step::End) => break,
                Ok(Step::PassedOver { segment, why: of_segment, .. }) => {
                    lost += segment.data.left.remove(&consumer).unwrap_or(0);
                    why = Some(of_segment);
                }
                Err(for_now) => {
                    why = Some(for_now);
                    break;
                }
            }
        }
        Read { records, lost, why }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.log.remove(|_, _| true);
    }
}

/// Whether a record of this number is yet to be read for a consumer that it is for.
fn is_awaited(readers: &HashMap<ProxyId, Cursor>, away: &Away, number: u64) -> bool {
    readers.get(&away.consumer).is_some_and(|reader| reader.next <= number)
}

/// Appends an event's record, with the consumers that it is for by rising number. Its time is not asked for.
fn append(event: &Event, out: &mut Vec<u8>) -> u64 {
    let for_whom = event.away();
    // There are at most as many as proxies, far below 2^32.
    out.extend(u32::try_from(for_whom.len()).unwrap_or(0).to_le_bytes());
    for away in for_whom {
        out.extend(away.consumer.0.to_le_bytes());
        out.push(away.ask);
    }
    encode(event, out);
    0
}

/// What is to be asked about a record for this consumer, and its event; nothing if it is not its own.
fn of_consumer(body: &[u8], consumer: ProxyId) -> Option<(u8, &[u8])> {
    let (count, rest) = body.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(5)?;
    let (consumers, event) = rest.split_at_checked(length)?;
    let consumers = consumers.as_chunks::<5>().0;
    let number = |[a, b, c, d, _]: &[u8; 5]| u32::from_le_bytes([*a, *b, *c, *d]);
    let at = consumers.binary_search_by_key(&consumer.0, number).ok()?;
    consumers.get(at).map(|[.., ask]| (*ask, event))
}

#[cfg(test)]
mod tests;
