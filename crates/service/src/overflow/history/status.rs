//! What there is to tell of a channel's history: where it begins and ends, and what it takes.

use engine::ChannelId;

use super::History;
use super::reader::READ_BYTES;
use crate::admin::values::{HistoryEvent, HistoryStatus};
use crate::overflow::uncached::Desk;

impl History {
    /// What is on disk, for a consumer that begins now.
    pub(in crate::overflow) fn status(&mut self, channel: ChannelId, now: u64, desk: &mut Desk) -> HistoryStatus {
        let begins = self.begins(now, desk);
        let first = begins.map(|(number, came)| HistoryEvent { number, came });
        let ends = self.parts.iter().rev().find(|part| part.records > 0);
        let last = ends.filter(|_| first.is_some()).map(|part| HistoryEvent { number: part.last, came: part.ends });
        let from = begins.map_or(u64::MAX, |(number, _)| number);
        // Numbers leave nothing out within a file.
        let behind = |last: u64| (last + 1).saturating_sub(from);
        let events = self.parts.iter().map(|part| part.records.min(behind(part.last))).sum();
        HistoryStatus { channel, first, last, events, bytes: self.bytes() }
    }

    /// The first event that can be had, and when it came. Each is looked at once, however often it is asked: it is gone on from where the
    /// last search ended.
    fn begins(&mut self, now: u64, desk: &mut Desk) -> Option<(u64, u64)> {
        let (first, oldest) = (self.first(), self.oldest(now));
        if let Some(found) = self.begins.filter(|(number, came)| *number >= first && *came >= oldest) {
            return Some(found);
        }
        self.begins = None;
        let Self { parts, beginning: at, begins, .. } = self;
        if at.next < first {
            (at.next, at.place) = (first, None);
        }
        while let Some(part) = parts.iter_mut().find(|part| part.records > 0 && at.next <= part.last) {
            if part.ends < oldest {
                (at.next, at.place) = (part.last + 1, None);
                continue;
            }
            let walked = part.walk(at, READ_BYTES, desk, |_, number, came, _| {
                *begins = (came >= oldest).then_some((number, came));
                begins.is_none()
            });
            if walked.is_err() {
                // Approximate: the reader reports the loss, and the next query searches again.
                return Some((at.next.max(part.first), part.begins.max(oldest)));
            }
            if begins.is_some() {
                break;
            }
        }
        *begins
    }
}
