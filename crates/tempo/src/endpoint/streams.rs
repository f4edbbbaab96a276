//! Connections without room, and since when.

use crate::Nanos;

#[derive(Debug)]
pub(super) struct Streams<const N: usize> {
    /// The connections, each with the time at which it was first checked.
    without_room: [Option<(u32, Option<Nanos>)>; N],
    count: usize,
}

impl<const N: usize> Streams<N> {
    pub(super) const fn new() -> Self {
        Self { without_room: [None; N], count: 0 }
    }

    pub(super) fn have_all_room(&self) -> bool {
        self.count == 0
    }

    pub(super) fn has_room(&self, stream: u32) -> bool {
        self.count == 0 || !self.without_room.iter().flatten().any(|&(other, _)| other == stream)
    }

    /// Notes whether a connection has room; returns whether this is a change.
    pub(super) fn set(&mut self, stream: u32, has_room: bool) -> bool {
        if has_room == self.has_room(stream) {
            return false;
        }
        let place = if has_room {
            self.without_room.iter_mut().find(|place| place.is_some_and(|(other, _)| other == stream))
        } else {
            self.without_room.iter_mut().find(|place| place.is_none())
        };
        // With more of them than peers, one that belongs to no peer goes unnoticed.
        let Some(place) = place else { return false };
        if has_room {
            *place = None;
            self.count -= 1;
        } else {
            *place = Some((stream, None));
            self.count += 1;
        }
        true
    }

    /// The connection in this slot, if it has had no room for `longest`. The time of a new one begins now.
    pub(super) fn stalled(&mut self, at: usize, now: Nanos, longest: Nanos) -> Option<u32> {
        let (stream, since) = self.without_room.get_mut(at)?.as_mut()?;
        let since = *since.get_or_insert(now);
        (now.saturating_sub(since) >= longest).then_some(*stream)
    }
}
