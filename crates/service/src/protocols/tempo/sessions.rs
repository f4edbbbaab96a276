//! Sessions of end points at proven addresses, and the *parts* that each has announced. All of it is soft state: a part that is not
//! announced again is removed, and a session with its last part.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use engine::{ChannelId, OutboxId, Peer};
use hashbrown::HashMap;
use tempo::Nanos;
use tempo::presence::Presence;
use tempo::reassembly::Reassembly;
use tempo::sequence::Sequence;
use tempo::wire::{Probe, Report, Role};

use super::delivery::Packets;
use super::input::Queued;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::unread::Unread;
use accounts::{Account, Charge};

/// Place of an end point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Source address of its datagrams.
    Datagram(SocketAddr),
    /// Connection of the end point.
    Stream(Token),
}

/// How an end point was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// The end point has sent to the service directly.
    #[default]
    Single,
    /// The end point has announced itself to the group: others there get its messages directly.
    Group,
}

impl Way {
    /// The number for which a session's cookie is made. It differs between the ways, since nothing is stored of an end point before it
    /// returns its cookie.
    pub(crate) const fn proof_of(self, session: u32) -> u32 {
        match self {
            Self::Single => session,
            Self::Group => !session,
        }
    }
}

/// A session of an end point, at one place.
pub(crate) struct Session {
    pub(crate) number: u32,
    pub(crate) place: Place,
    pub(crate) account: Arc<Account>,
    /// The end point's address on this lane, for its quota.
    pub(crate) quota: Token,
    pub(crate) way: Way,
    /// The cookie that the end point gave last, to be returned to it.
    pub(crate) given: u64,
    /// Address to which the end point may have moved: it has returned the former address's cookie from there.
    pub(crate) moving: Option<SocketAddr>,
    /// Parts by number and role.
    parts: Vec<(u32, Role, Token)>,
    /// Number of parts, including those given up with items waiting.
    parts_left: usize,
    /// Parts given up before their proxy was open, with items waiting.
    pub(crate) early: Vec<Token>,
    /// Proxies for publishing, by channel, with the number of parts that need each.
    suppliers: Vec<(ChannelId, Peer, u32)>,
    /// Datagrams to be sent to it.
    pub(crate) packets: Packets,
    pub(crate) unread: Unread,
    /// Whether it is queued to be sent to when the round ends.
    pub(crate) is_due: bool,
    /// Consumers' proxies with outboxes that wait for room.
    pub(crate) blocked: Vec<Peer>,
}

/// A session's role on one topic.
pub(crate) struct Part {
    pub(crate) session: Token,
    /// The session's number for the topic.
    pub(crate) number: u32,
    pub(crate) topic: Token,
    /// Place among the topic's parts of that role.
    pub(crate) at: usize,
    pub(crate) presence: Presence,
    /// Charge for the announcement.
    pub(crate) _charge: Charge,
    /// Whether it puts `@0/` before the name.
    pub(crate) says_first: bool,
    /// Time of the next announcement of its counterparts to it.
    pub(crate) next_announcement: Nanos,
    /// Time of its next work.
    pub(crate) timer: Nanos,
    pub(crate) is: Is,
}

/// State by role.
pub(crate) enum Is {
    Publisher(Box<Publisher>),
    Subscriber(Box<Subscriber>),
}

/// A publisher on a topic.
#[derive(Default)]
pub(crate) struct Publisher {
    /// Handle of the proxy through which it publishes, which its session has for the channel.
    pub(crate) proxy: Option<Peer>,
    pub(crate) sequence: Sequence,
    pub(crate) unfinished: Option<Unfinished>,
    /// Numbers of its messages that were taken, without probes, and that were discarded here.
    pub(crate) received: u64,
    pub(crate) discarded: u64,
    /// Number of its messages not yet handed in, or being handed in.
    pub(crate) waiting: u32,
    /// The publisher's waiting items in the topic's input.
    pub(crate) queued: Queued,
    /// Whether it has said bye, or its number means another topic now: it is removed when none of its messages waits any more.
    pub(crate) is_leaving: bool,
    /// Time from which it may probe again.
    pub(crate) may_probe: Nanos,
    /// Number of echoes that may still be passed on to it.
    pub(crate) echoes_left: u32,
}

/// A message with some of its fragments received.
pub(crate) struct Unfinished {
    pub(crate) fragments: Reassembly<Vec<u8>, Vec<u64>>,
    /// Octets for which there is room.
    pub(crate) octets: usize,
    pub(crate) _charge: Charge,
}

/// A subscriber to a topic.
pub(crate) struct Subscriber {
    /// Handle of its proxy.
    pub(crate) peer: Peer,
    /// Whether its proxy is open, so that it gets what is published. Only then is it announced to publishers.
    pub(crate) is_open: bool,
    /// Number of the last message, or probe, sent to it.
    pub(crate) sequence: u32,
    /// The subscriber's last report.
    pub(crate) report: Report,
    /// A probe to be sent behind the messages that wait for it, and its priority.
    pub(crate) probe: Option<(Probe, i16)>,
}

/// A proxy of a session's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proxy {
    pub(crate) session: Token,
    pub(crate) purpose: Purpose,
    /// Key, once administration has made the proxy.
    pub(crate) key: Option<engine::ProxyKey>,
    /// Consumer's outbox that waits for room, or for the proxy to be open.
    pub(crate) blocked: Option<OutboxId>,
}

/// Purpose of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Publishing into a channel.
    Supplier,
    /// Delivery to the subscriber with this part.
    Consumer(Token),
}

/// All sessions and their parts.
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: Slots<Session>,
    parts: Slots<Part>,
    /// Session at each place: another that proves itself there replaces it.
    by_place: HashMap<Place, Token>,
    /// First session of each number.
    by_number: HashMap<u32, Token>,
    /// Parts by session, topic and role.
    by_topic: HashMap<(Token, Token, Role), Token>,
    count: usize,
    /// Number of parts.
    pub(crate) announced: usize,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:08x}", self.number)
    }
}

impl Session {
    /// A session that has announced nothing yet.
    pub(crate) fn new(number: u32, place: Place, account: Arc<Account>, quota: Token) -> Self {
        Self {
            number,
            place,
            account,
            quota,
            way: Way::default(),
            given: 0,
            moving: None,
            parts: Vec::new(),
            parts_left: 0,
            early: Vec::new(),
            suppliers: Vec::new(),
            packets: Packets::default(),
            unread: Unread::default(),
            is_due: false,
            blocked: Vec::new(),
        }
    }

    fn position(&self, number: u32, role: Role) -> Result<usize, usize> {
        self.parts
            .binary_search_by_key(&(number, is_subscriber(role)), |(number, role, _)| (*number, is_subscriber(*role)))
    }

    /// The part with that number and role.
    pub(crate) fn part(&self, number: u32, role: Role) -> Option<Token> {
        self.position(number, role).ok().and_then(|at| self.parts.get(at)).map(|(.., part)| *part)
    }

    /// All parts that have not been given up.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Token> {
        self.parts.iter().map(|(.., part)| *part)
    }

    /// Number of parts that have not been given up.
    pub(crate) fn announced(&self) -> usize {
        self.parts.len()
    }

    /// Whether no parts are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts_left == 0
    }

    /// The proxy for publishing into a channel.
    pub(crate) fn supplier(&self, channel: ChannelId) -> Option<Peer> {
        self.suppliers.iter().find(|(there, ..)| *there == channel).map(|(_, peer, _)| *peer)
    }

    /// Notes that one more part needs that proxy.
    pub(crate) fn use_supplier(&mut self, channel: ChannelId, peer: Peer) {
        match self.suppliers.iter_mut().find(|(_, there, _)| *there == peer) {
            Some((.., parts)) => *parts += 1,
            None => self.suppliers.push((channel, peer, 1)),
        }
    }

    /// Notes that one part less needs that proxy. True if it was the last, and the proxy is removed.
    pub(crate) fn leave_supplier(&mut self, peer: Peer) -> bool {
        let Some((.., parts)) = self.suppliers.iter_mut().find(|(_, there, _)| *there == peer) else { return false };
        *parts -= 1;
        let is_last = *parts == 0;
        if is_last {
            self.forget_supplier(peer);
        }
        is_last
    }

    /// Removes a proxy that does not exist any more.
    pub(crate) fn forget_supplier(&mut self, peer: Peer) {
        self.suppliers.retain(|(_, there, _)| *there != peer);
    }
}

impl Subscriber {
    /// A subscriber to which nothing has been sent.
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, is_open: false, sequence: 0, report: Report::default(), probe: None }
    }
}

fn is_subscriber(role: Role) -> bool {
    role == Role::Subscriber
}

impl Part {
    pub(crate) const fn role(&self) -> Role {
        match self.is {
            Is::Publisher(_) => Role::Publisher,
            Is::Subscriber(_) => Role::Subscriber,
        }
    }

    /// State as a publisher.
    pub(crate) fn publisher(&mut self) -> Option<&mut Publisher> {
        if let Is::Publisher(publisher) = &mut self.is { Some(publisher) } else { None }
    }

    /// Waiting items in its topic's input, if it publishes.
    pub(crate) const fn queued(&self) -> Option<&Queued> {
        if let Is::Publisher(publisher) = &self.is { Some(&publisher.queued) } else { None }
    }

    /// State as a subscriber.
    pub(crate) fn subscriber(&mut self) -> Option<&mut Subscriber> {
        if let Is::Subscriber(subscriber) = &mut self.is { Some(subscriber) } else { None }
    }

    /// Time of the next work for it: to announce, or to remove it.
    pub(crate) fn due(&self) -> Nanos {
        self.next_announcement.min(self.presence.until())
    }
}

impl Sessions {
    /// A session's part on a topic.
    pub(crate) fn part_on(&self, session: Token, topic: Token, role: Role) -> Option<Token> {
        self.by_topic.get(&(session, topic, role)).copied()
    }

    /// The session with that number at a place.
    pub(crate) fn find(&self, number: u32, place: Place) -> Option<Token> {
        let there = self.at(place)?;
        self.sessions.get(there).filter(|session| session.number == number).map(|_| there)
    }

    /// The session at a place.
    pub(crate) fn at(&self, place: Place) -> Option<Token> {
        self.by_place.get(&place).copied()
    }

    /// The first session with that number.
    pub(crate) fn numbered(&self, number: u32) -> Option<Token> {
        self.by_number.get(&number).copied()
    }

    pub(crate) fn get(&self, token: Token) -> Option<&Session> {
        self.sessions.get(token)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Session> {
        self.sessions.get_mut(token)
    }

    /// Number of sessions.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn insert(&mut self, session: Session) -> Token {
        let (number, place) = (session.number, session.place);
        let token = self.sessions.insert(session);
        self.by_place.insert(place, token);
        self.count += 1;
        self.by_number.entry(number).or_insert(token);
        token
    }

    /// Moves a session to another address. False if another session is there.
    pub(crate) fn relocate(&mut self, token: Token, to: SocketAddr) -> bool {
        let Some(session) = self.sessions.get_mut(token) else { return false };
        let place = Place::Datagram(to);
        if self.by_place.contains_key(&place) {
            return false;
        }
        if self.by_place.get(&session.place) == Some(&token) {
            self.by_place.remove(&session.place);
        }
        self.by_place.insert(place, token);
        (session.place, session.moving) = (place, None);
        true
    }

    /// All sessions. (This allocates, but only when the service ends.)
    pub(crate) fn all(&self) -> Vec<Token> {
        self.sessions.iter().map(|(token, _)| token).collect()
    }

    /// Removes a session without parts.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Session> {
        let session = self.sessions.remove(token)?;
        self.count -= 1;
        if self.by_place.get(&session.place) == Some(&token) {
            self.by_place.remove(&session.place);
        }
        if self.by_number.get(&session.number) == Some(&token) {
            self.by_number.remove(&session.number);
        }
        Some(session)
    }

    /// The sessions in `places` places from `from` on, to look for unsent datagrams. `None` if there are no places from there on.
    pub(crate) fn range(&self, from: u32, places: u32) -> Option<impl Iterator<Item = &Session>> {
        self.sessions.range(from, places)
    }

    // ---- parts ----

    pub(crate) fn part(&self, token: Token) -> Option<&Part> {
        self.parts.get(token)
    }

    pub(crate) fn part_mut(&mut self, token: Token) -> Option<&mut Part> {
        self.parts.get_mut(token)
    }

    /// A part and its session.
    pub(crate) fn both(&mut self, part: Token) -> Option<(&mut Part, &mut Session)> {
        let Self { sessions, parts, .. } = self;
        let part = parts.get_mut(part)?;
        let session = sessions.get_mut(part.session)?;
        Some((part, session))
    }

    /// Adds a part to its session, which has none with that number and role.
    pub(crate) fn insert_part(&mut self, part: Part) -> Token {
        let (session, topic, number, role) = (part.session, part.topic, part.number, part.role());
        let token = self.parts.insert(part);
        self.by_topic.insert((session, topic, role), token);
        self.announced += 1;
        if let Some(session) = self.sessions.get_mut(session)
            && let Err(at) = session.position(number, role)
        {
            session.parts.insert(at, (number, role, token));
            session.parts_left += 1;
        }
        token
    }

    /// Holds a session, so that it stays without parts until it is released.
    pub(crate) fn hold(&mut self, session: Token) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.parts_left += 1;
        }
    }

    /// Releases a held session.
    pub(crate) fn release(&mut self, session: Token) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.parts_left -= 1;
        }
    }

    /// Removes a part from its session.
    pub(crate) fn remove_part(&mut self, token: Token) -> Option<Part> {
        self.hide_part(token);
        let part = self.parts.remove(token)?;
        self.announced -= 1;
        if let Some(session) = self.sessions.get_mut(part.session) {
            session.parts_left -= 1;
        }
        Some(part)
    }

    /// Hides a part from searches, while it still exists.
    pub(crate) fn hide_part(&mut self, token: Token) {
        let Some(part) = self.parts.get(token) else { return };
        let (session, number, role) = (part.session, part.number, part.role());
        let key = (session, part.topic, role);
        if self.by_topic.get(&key) == Some(&token) {
            self.by_topic.remove(&key);
        }
        if let Some(session) = self.sessions.get_mut(session)
            && let Ok(at) = session.position(number, role)
            && session.parts.get(at).is_some_and(|(.., there)| *there == token)
        {
            session.parts.remove(at);
        }
    }
}
