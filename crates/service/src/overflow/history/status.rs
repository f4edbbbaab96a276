//! The status of a channel's history: its first and last event, and its size.

use engine::ChannelId;

use super::History;
use super::reader::READ_BYTES;
use crate::admin::values::{HistoryEvent, HistoryStatus};
use crate::log::{Cursor, Desk, Step};

impl History {
    /// The stored events that a new consumer could read.
    pub(in crate::overflow) fn status(&mut self, channel: ChannelId, now: u64, desk: &mut Desk) -> HistoryStatus {
        let begins = self.begins(now, desk);
        let first = begins.map(|(number, came)| HistoryEvent { number, came });
        let ends = self.log.segments().iter().rev().find(|segment| segment.records > 0);
        let last = ends.filter(|_| first.is_some());
        let last = last.map(|segment| HistoryEvent { number: segment.last, came: segment.ends });
        let from = begins.map_or(u64::MAX, |(number, _)| number);
        // Numbers have no gaps within a segment.
        let behind = |last: u64| (last + 1).saturating_sub(from);
        let events = self.log.segments().iter().map(|segment| segment.records.min(behind(segment.last))).sum();
        HistoryStatus { channel, first, last, events, bytes: self.log.bytes() }
    }

    /// The first stored event within the limits, and its arrival time. Each search continues where the last one ended, so that each record
    /// is read once.
    fn begins(&mut self, now: u64, desk: &mut Desk) -> Option<(u64, u64)> {
        let (first, oldest) = (self.first(), self.oldest(now));
        if let Some(found) = self.begins.filter(|(number, came)| *number >= first && *came >= oldest) {
            return Some(found);
        }
        self.begins = None;
        let Self { log, beginning: at, begins, .. } = self;
        if at.next < first {
            *at = Cursor::at(first);
        }
        // Only written records count.
        while begins.is_none()
            && let Some(segment) = log.segments().iter().find(|segment| segment.records > 0 && at.next <= segment.last)
        {
            if segment.ends < oldest {
                *at = Cursor::at(segment.last + 1);
                continue;
            }
            // Approximate: the reader reports the loss, and the next query searches again.
            let about = (at.next.max(segment.first), segment.begins.max(oldest));
            let read = log.read(at, (READ_BYTES, false), (|_: &_, _: &mut _| 0, &mut *desk), |_, record| {
                *begins = (record.time >= oldest).then_some((record.number, record.time));
                begins.is_none()
            });
            if !matches!(read, Ok(Step::Segment)) {
                *at = Cursor::at(about.0);
                return Some(about);
            }
        }
        *begins
    }
}
