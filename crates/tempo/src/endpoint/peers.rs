//! Known counterparts, verified by cookie: one entry for each session and topic.

use super::queue::Progress;
use super::reports::{Delays, Peer, Place};
use crate::Nanos;
use crate::presence::Presence;
use crate::sequence::Sequence;
use crate::wire::Role;

/// Frames pending for a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) announcement: bool,
    pub(super) report: bool,
    pub(super) bye: bool,
    pub(super) name: bool,
}

impl Due {
    pub(super) const NOTHING: Self = Self { announcement: false, report: false, bye: false, name: false };

    pub(super) fn is_any(self) -> bool {
        self != Self::NOTHING
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            announcement: self.announcement || other.announcement,
            report: self.report || other.report,
            bye: self.bye || other.bye,
            name: self.name || other.name,
        }
    }
}

/// Reception state of a publisher's messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Heard {
    pub(super) sequence: Sequence,
    /// Messages received, probes excluded.
    pub(super) messages: u64,
    /// The received count last reported, and when.
    pub(super) reported: u64,
    pub(super) reported_at: Nanos,
}

/// Transmission state of a subscriber, and its last report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listener {
    /// The current message of its topic has been sent to it, or is not meant for it.
    pub(super) is_served: bool,
    /// Progress of the current message, if partly sent, and the fragment size used.
    pub(super) progress: Option<(Progress, usize)>,
    pub(super) delays: Delays,
    pub(super) echoed: Option<u32>,
    pub(super) received: u64,
    pub(super) lost: u64,
}

impl Listener {
    pub(super) fn new() -> Self {
        Self { is_served: true, progress: None, delays: Delays::default(), echoed: None, received: 0, lost: 0 }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Publisher(Heard),
    Subscriber(Listener),
}

/// One session on one topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Index of our topic.
    pub(super) topic: usize,
    pub(super) session: u32,
    /// The session's number for the topic.
    pub(super) number: u32,
    pub(super) place: Place,
    pub(super) is_broker: bool,
    pub(super) presence: Presence,
    /// The cookie that the peer gave us to return.
    pub(super) cookie: u64,
    pub(super) due: Due,
    /// Announcements still to carry our name to it, repeated since datagrams are lost.
    pub(super) names_left: u8,
    /// Frames to send as soon as its connection has room.
    pub(super) due_later: Due,
    pub(super) kind: Kind,
}

impl Entry {
    pub(super) fn described(&self) -> Peer {
        let (role, delay, received, lost) = match &self.kind {
            Kind::Publisher(heard) => (Role::Publisher, None, heard.messages, heard.sequence.lost()),
            Kind::Subscriber(listener) => {
                (Role::Subscriber, listener.delays.described(), listener.received, listener.lost)
            }
        };
        Peer {
            session: self.session,
            place: self.place,
            role,
            is_broker: self.is_broker,
            announced: *self.presence.announced(),
            delay,
            received,
            lost,
        }
    }
}

/// All known peers.
#[derive(Debug)]
pub(super) struct Peers<const N: usize> {
    entries: [Option<Entry>; N],
    /// Entries from this index on were never used, so that searches stop here.
    untouched: usize,
    /// Index of the last lookup's peer, which is often the next lookup's as well.
    last_found: usize,
    /// No peer expires before this time.
    next_gone: Nanos,
    /// Whether a frame may be pending for a peer.
    pub(super) is_due: bool,
}

impl<const N: usize> Peers<N> {
    pub(super) const fn new() -> Self {
        Self { entries: [None; N], untouched: 0, last_found: 0, next_gone: Nanos::MAX, is_due: false }
    }

    pub(super) fn get(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Entry> {
        self.entries.get_mut(at)?.as_mut()
    }

    /// Index of a session on one of our topics.
    pub(super) fn find(&self, topic: usize, session: u32) -> Option<usize> {
        self.position(|entry| entry.topic == topic && entry.session == session)
    }

    /// Index of a publisher by its own number for its topic.
    pub(super) fn publisher(&mut self, session: u32, number: u32) -> Option<usize> {
        let is_it = |entry: &Entry| {
            entry.session == session && entry.number == number && matches!(entry.kind, Kind::Publisher(_))
        };
        let last = self.last_found;
        let at = if self.get(last).is_some_and(is_it) { last } else { self.position(is_it)? };
        self.last_found = at;
        Some(at)
    }

    fn touched(&self) -> &[Option<Entry>] {
        self.entries.get(..self.untouched).unwrap_or_default()
    }

    fn touched_mut(&mut self) -> &mut [Option<Entry>] {
        self.entries.get_mut(..self.untouched).unwrap_or_default()
    }

    pub(super) fn position(&self, is_it: impl Fn(&Entry) -> bool) -> Option<usize> {
        self.touched().iter().position(|entry| entry.as_ref().is_some_and(&is_it))
    }

    /// Index of the first matching entry at or behind `from`.
    pub(super) fn next(&self, from: usize, is_it: impl Fn(&Entry) -> bool) -> Option<usize> {
        let behind = self.touched().get(from..)?;
        behind.iter().position(|entry| entry.as_ref().is_some_and(&is_it)).map(|at| from + at)
    }

    pub(super) fn insert(&mut self, entry: Entry) -> Option<usize> {
        let at = self.entries.iter().position(Option::is_none)?;
        self.next_gone = self.next_gone.min(entry.presence.until());
        *self.entries.get_mut(at)? = Some(entry);
        self.untouched = self.untouched.max(at + 1);
        Some(at)
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Entry> {
        self.entries.get_mut(at)?.take()
    }

    pub(super) fn of(&self, topic: usize) -> impl Iterator<Item = &Entry> {
        self.touched().iter().flatten().filter(move |entry| entry.topic == topic)
    }

    pub(super) fn of_mut(&mut self, topic: usize) -> impl Iterator<Item = &mut Entry> {
        self.touched_mut().iter_mut().flatten().filter(move |entry| entry.topic == topic)
    }

    pub(super) fn at_mut(&mut self, place: Place) -> impl Iterator<Item = &mut Entry> {
        self.touched_mut().iter_mut().flatten().filter(move |entry| entry.place == place)
    }

    /// Notes that an announcement is valid until this time, which may be sooner than before.
    pub(super) fn renewed(&mut self, until: Nanos) {
        self.next_gone = self.next_gone.min(until);
    }

    pub(super) const fn next_gone(&self) -> Nanos {
        self.next_gone
    }

    /// Recomputes when the next peer expires.
    pub(super) fn look_ahead(&mut self) {
        self.next_gone =
            self.touched().iter().flatten().map(|entry| entry.presence.until()).min().unwrap_or(Nanos::MAX);
    }
}
