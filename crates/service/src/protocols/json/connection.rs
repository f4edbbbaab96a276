//! One connection of a client: what has arrived, what is to be written, and the proxies that are its.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::{ChannelId, Peer, Time};
use hashbrown::HashMap;
use json::{Limits, Publish, Session};

use crate::lane::io::entrance::Arrival;
use crate::lane::io::output::Output;
use crate::lane::io::slots::Token;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::lane::io::unread::Unread;
use accounts::{Account, Charge, Resource, Spent};

/// Requests that may be unanswered before the connection is not read any more, and octets of them.
const UNANSWERED_MAX: u32 = 64;
const UNANSWERED_BYTES_MAX: usize = 1 << 20;
/// Octets of output that a client may leave unread before its requests are not read any more.
const UNREAD_MAX: usize = 1 << 20;
/// Octets of events gathered for a connection before its outboxes wait.
const GATHERED_BYTES_MAX: usize = 128 << 10;
/// Octets of the beginning of a line that are not charged: they are bounded by the number of connections.
const UNCHARGED: usize = 16 << 10;

/// A connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    /// Its subscriptions are an observer's.
    pub(super) looks_on: bool,
    /// Its place among the connections, and with that its client's account.
    place: Charge,
    pub(crate) input: Input,
    pub(crate) output: Output,
    unread: Unread,
    pub(crate) proxies: Proxies,
    /// The address that is charged for what is done for it, among those of the lane.
    pub(super) slice: Token,
    /// Its socket is ready, and waits for the turn of its address.
    pub(super) is_deferred: bool,
    /// It is among those that are written to when the round ends.
    pub(super) is_due: bool,
    /// The interest that the poll knows.
    pub(super) interest: Interest,
    /// To be closed once its output is written, since then.
    pub(super) closing: Option<Time>,
    /// When something came from it last.
    pub(super) heard: Time,
}

/// What a client has sent.
pub(crate) struct Input {
    pub(super) session: Session,
    /// What is charged for the beginning of a line.
    incomplete: Option<Charge>,
    /// Since when the rest of a line is pending.
    pub(super) began: Option<Time>,
    /// Requests that are answered later, and octets of them.
    unanswered: u32,
    unanswered_bytes: usize,
    /// Lines may have been read and not looked at.
    pub(super) is_stalled: bool,
    /// They wait for a turn of its address.
    pub(super) has_backlog: bool,
    /// It sends nothing more.
    pub(super) has_ended: bool,
}

/// The proxies of a connection, open or asked for.
#[derive(Default)]
pub(crate) struct Proxies {
    /// Subscriptions by their ids.
    pub(super) subscriptions: HashMap<u64, Peer>,
    /// For publishing, by channel.
    pub(super) suppliers: HashMap<ChannelId, Peer>,
    /// An event that waits for such a proxy to be there.
    pub(super) waiting: Option<Box<Publish>>,
    /// Consumers with outboxes that wait for room.
    pub(super) blocked: Vec<Peer>,
}

impl Proxies {
    /// Whether its client has asked for nothing yet.
    pub(super) fn is_new(&self) -> bool {
        self.subscriptions.is_empty() && self.suppliers.is_empty() && self.waiting.is_none()
    }
}

impl Connection {
    pub(super) fn new(arrival: Arrival, limits: Limits) -> Self {
        let Arrival { stream, address, place, slice, looks_on, at } = arrival;
        Self {
            stream,
            address,
            looks_on,
            place,
            input: Input {
                session: Session::new(limits),
                incomplete: None,
                began: None,
                unanswered: 0,
                unanswered_bytes: 0,
                is_stalled: false,
                has_backlog: false,
                has_ended: false,
            },
            output: Output::default(),
            unread: Unread::default(),
            proxies: Proxies::default(),
            slice,
            is_deferred: false,
            is_due: false,
            interest: Interest::READ,
            closing: None,
            heard: at,
        }
    }

    /// Since when nothing is asked or pending; nothing if something is. A client that publishes or subscribes has a proxy.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        let Proxies { subscriptions, suppliers, waiting, .. } = &self.proxies;
        let has_proxies = !subscriptions.is_empty() || !suppliers.is_empty() || waiting.is_some();
        let is_busy = self.input.unanswered > 0 || !self.output.is_empty() || self.closing.is_some();
        (!has_proxies && !is_busy).then_some(self.heard)
    }

    /// The account that is charged for what it makes the service keep.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Whether its lines are left unread for now, so that what it is owed stays bounded.
    pub(super) fn is_paused(&self) -> bool {
        self.closing.is_some()
            || self.proxies.waiting.is_some()
            || self.input.unanswered >= UNANSWERED_MAX
            || self.input.unanswered_bytes > UNANSWERED_BYTES_MAX
            || self.output.queued_bytes() > UNREAD_MAX
            || self.unread.waits()
    }

    /// Whether events may be written for it: the socket had taken everything, and not too much was gathered since.
    pub(super) fn has_room(&self) -> bool {
        !self.interest.write
            && self.closing.is_none()
            && !self.unread.waits()
            && self.output.queued_bytes() < GATHERED_BYTES_MAX
    }

    /// A request of so many octets is to be answered later.
    pub(super) fn await_answer(&mut self, bytes: usize) {
        self.input.unanswered += 1;
        self.input.unanswered_bytes += bytes;
    }

    /// One is answered.
    pub(super) fn note_answer(&mut self, bytes: usize) {
        self.input.unanswered = self.input.unanswered.saturating_sub(1);
        self.input.unanswered_bytes = self.input.unanswered_bytes.saturating_sub(bytes);
    }

    /// Whether it has sent all that it will, has been answered, and is sent nothing more.
    pub(super) fn is_done(&self) -> bool {
        self.input.has_ended
            && !self.input.is_stalled
            && self.input.unanswered == 0
            && self.proxies.waiting.is_none()
            && self.proxies.subscriptions.is_empty()
            && self.output.is_empty()
    }

    /// Charges what it has yet to read.
    ///
    /// # Errors
    /// When it has to wait from now on.
    pub(super) fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Charges what was read of a line that is not complete, and notes since when the rest is pending.
    ///
    /// # Errors
    /// When that is too much.
    pub(super) fn charge_incomplete(&mut self, now: Time) -> Result<(), Spent> {
        let incomplete = self.input.session.retained_bytes();
        let is_incomplete = incomplete > 0 && !self.input.is_stalled;
        self.input.began = if is_incomplete { self.input.began.or(Some(now)) } else { None };
        if incomplete <= UNCHARGED {
            self.input.incomplete = None;
            return Ok(());
        }
        match &mut self.input.incomplete {
            Some(charge) => charge.resize(incomplete as u64),
            None => {
                self.input.incomplete =
                    Some(self.place.account().charge(Resource::IncompleteBytes, incomplete as u64)?);
                Ok(())
            }
        }
    }

    /// A line has come whole: the next one has its time.
    pub(super) fn note_line(&mut self) {
        self.input.began = None;
    }
}
