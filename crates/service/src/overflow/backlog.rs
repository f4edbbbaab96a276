//! The backlog on disk of one channel's slow consumers on one lane: a [log](crate::log).
//!
//! A record names its consumers. Each consumer has a cursor, which passes over records for others; a segment is removed once no consumer
//! has unread records in it. Damaged records are reported as lost, and never delivered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use engine::{Away, Event, ProxyId};

use super::encode;
use crate::log::{Cursor, Desk, Log, Segment, SegmentLimits, Step, give, segment_bytes};

/// The backlog of a channel on a lane.
pub(crate) struct Backlog {
    log: Log<Claims>,
    readers: HashMap<ProxyId, Cursor>,
    /// The number up to which all readers were reported to have read; `has_moved`: a reader may have come further since.
    reported: u64,
    has_moved: bool,
}

/// The unread records of a segment.
#[derive(Default)]
struct Claims {
    /// Octets of the budget that its records use.
    cost: u64,
    /// Number of unread records of each consumer, without zeros.
    left: HashMap<ProxyId, u64>,
}

/// The result of a read: [consecutive records](crate::log::first_of), and how many are lost.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) records: Vec<u8>,
    pub(crate) lost: u64,
    /// The reason for the loss or for the failed read.
    pub(crate) why: Option<io::Error>,
}

/// Freed events, which all consumers have read, and freed octets: those of removed segments.
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
    /// Creates an empty backlog, with this prefix of its files' paths.
    pub(crate) fn new(name: PathBuf, desk: &Desk) -> Self {
        let log = Log::new(name, None, Arc::clone(desk.files()));
        Self { reported: log.next(), log, readers: HashMap::new(), has_moved: false }
    }

    /// Appends an event.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        let next = self.log.next();
        for away in event.away() {
            self.readers.entry(away.consumer).or_insert(Cursor::at(next));
        }
        self.log.push(next, event);
    }

    /// Whether events are yet to be written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.log.pending().is_empty()
    }

    /// Whether no consumer has a backlog, and nothing is yet to be written.
    pub(crate) fn is_over(&self) -> bool {
        self.readers.is_empty() && !self.is_pending()
    }

    /// Drops the backlog of a consumer.
    pub(crate) fn forget(&mut self, consumer: ProxyId) {
        self.readers.remove(&consumer);
        self.has_moved = true;
        self.log.each(|claims| _ = claims.left.remove(&consumer));
    }

    /// Writes pending events, and returns them. `budget_bytes` is the budget of the whole backlog.
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

    /// Removes and returns pending events that no consumer is yet to read, for when writes fail. Called before [`free`](Self::free).
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

    /// Returns the number of events that all consumers have read since the last call, and removes segments without unread records.
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

    /// The events and octets that [`free`](Self::free) has yet to report.
    pub(crate) fn stored(&self) -> Freed {
        let pending = self.log.pending().iter().map(|(_, event)| event.stored_bytes());
        let bytes = self.log.segments().iter().map(|segment| segment.data.cost).chain(pending).sum();
        Freed { events: self.log.next() - self.reported, bytes }
    }

    /// Reads a consumer's next records: about this many octets, at least one record. After a temporary failure the caller tries again; with
    /// `gives_up`, what cannot be read is lost.
    pub(crate) fn read(&mut self, consumer: ProxyId, (bytes, gives_up): (usize, bool), desk: &mut Desk) -> Read {
        let Read { mut records, mut lost, mut why } = Read::default();
        let Some(cursor) = self.readers.get_mut(&consumer) else { return Read::default() };
        self.has_moved = true;
        while records.len() < bytes {
            // Segments without unread records of the consumer are passed over.
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

/// Whether the consumer has yet to read the record with this number.
fn is_awaited(readers: &HashMap<ProxyId, Cursor>, away: &Away, number: u64) -> bool {
    readers.get(&away.consumer).is_some_and(|reader| reader.next <= number)
}

/// Encodes an event, behind its consumers in ascending order. Returns 0, since backlogs use no times.
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

/// The consumer's `ask` octet, and the event. `None` if the record is not for the consumer.
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
