//! Sessions of end points at addresses that have proven themselves, and what each has announced, its *parts*. All of it is soft state: a
//! part that is not announced again is forgotten, and a session with its last part.

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

/// Where an end point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// It sends datagrams from there.
    Datagram(SocketAddr),
    /// It has connected.
    Stream(Token),
}

/// How an end point was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// It has turned to the service.
    #[default]
    Single,
    /// It has announced itself to the group: whatever it publishes, all others there have from itself.
    Group,
}

impl Way {
    /// The number that a cookie for such a session is made for. It tells the ways apart, since nothing is kept of an end point before it
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
    /// The address that is charged for what is done for it, among those of the lane.
    pub(crate) quota: Token,
    pub(crate) way: Way,
    /// The cookie that it gave last, to be returned to it.
    pub(crate) given: u64,
    /// An address that may be where it has moved: it has returned the cookie for the former one from there.
    pub(crate) moving: Option<SocketAddr>,
    /// Its parts, by number and role.
    parts: Vec<(u32, Role, Token)>,
    /// How many there are, those included that have been given up and have something waiting.
    parts_left: usize,
    /// Those that were given up before their proxy was there, for which something waits.
    pub(crate) early: Vec<Token>,
    /// Proxies through which it publishes, by channel, and how many of its parts need each.
    suppliers: Vec<(ChannelId, Peer, u32)>,
    /// What is to be sent to it in datagrams.
    pub(crate) packets: Packets,
    pub(crate) unread: Unread,
    /// It is among those that are sent to when the round ends.
    pub(crate) is_due: bool,
    /// Consumers' proxies with outboxes that wait for room.
    pub(crate) blocked: Vec<Peer>,
}

/// What a session is on one topic.
pub(crate) struct Part {
    pub(crate) session: Token,
    /// The session's number for the topic.
    pub(crate) number: u32,
    pub(crate) topic: Token,
    /// Its place among those of its role on the topic.
    pub(crate) at: usize,
    pub(crate) presence: Presence,
    /// Its place among what clients may announce.
    pub(crate) _charge: Charge,
    /// It puts `@0/` before the name.
    pub(crate) says_first: bool,
    /// When its counterparts are announced to it next.
    pub(crate) next_announcement: Nanos,
    /// When it is looked at next.
    pub(crate) timer: Nanos,
    pub(crate) is: Is,
}

/// By role.
pub(crate) enum Is {
    Publisher(Box<Publisher>),
    Subscriber(Box<Subscriber>),
}

/// A publisher on a topic.
#[derive(Default)]
pub(crate) struct Publisher {
    /// The handle of the proxy through which it publishes, which its session has for the channel.
    pub(crate) proxy: Option<Peer>,
    pub(crate) sequence: Sequence,
    pub(crate) unfinished: Option<Unfinished>,
    /// Messages of it that were taken, without probes, and that were discarded here.
    pub(crate) received: u64,
    pub(crate) discarded: u64,
    /// Messages of it that were not handed in yet, or are being so.
    pub(crate) waiting: u32,
    /// What of it waits in its topic's input.
    pub(crate) queued: Queued,
    /// It has said bye, or its number means another topic now: it goes when none of its messages waits any more.
    pub(crate) is_leaving: bool,
    /// When it may probe again.
    pub(crate) may_probe: Nanos,
    /// Echoes that may be passed on to it yet.
    pub(crate) echoes_left: u32,
}

/// A message of which fragments have come.
pub(crate) struct Unfinished {
    pub(crate) fragments: Reassembly<Vec<u8>, Vec<u64>>,
    /// Octets that there is room for.
    pub(crate) octets: usize,
    pub(crate) _charge: Charge,
}

/// A subscriber to a topic.
pub(crate) struct Subscriber {
    /// Its proxy's handle.
    pub(crate) peer: Peer,
    /// The number of the last message, or probe, that was sent to it.
    pub(crate) sequence: u32,
    /// Its last report.
    pub(crate) report: Report,
    /// A probe that is to go behind what waits for it, and when it was sent.
    pub(crate) probe: Option<(Probe, i16)>,
}

/// A proxy of a session's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proxy {
    pub(crate) session: Token,
    pub(crate) purpose: Purpose,
    /// Its key, once administration has said that it is there.
    pub(crate) key: Option<engine::ProxyKey>,
    /// A consumer's outbox that waits for room, or for the proxy to be there.
    pub(crate) blocked: Option<OutboxId>,
}

/// What a proxy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Publishing into a channel.
    Supplier,
    /// The subscriber that is that part.
    Consumer(Token),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: Slots<Session>,
    parts: Slots<Part>,
    /// One at each place: another that proves itself there replaces it.
    by_place: HashMap<Place, Token>,
    /// The first session with a number, of those that there are.
    by_number: HashMap<u32, Token>,
    /// Parts, by session, topic and role.
    by_topic: HashMap<(Token, Token, Role), Token>,
    count: usize,
    /// How many parts there are.
    pub(crate) announced: usize,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:08x}", self.number)
    }
}

impl Session {
    /// One that has announced nothing yet.
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

    /// Its part with that number and role.
    pub(crate) fn part(&self, number: u32, role: Role) -> Option<Token> {
        self.position(number, role).ok().and_then(|at| self.parts.get(at)).map(|(.., part)| *part)
    }

    /// All of its parts that have not been given up.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Token> {
        self.parts.iter().map(|(.., part)| *part)
    }

    /// How many those are.
    pub(crate) fn announced(&self) -> usize {
        self.parts.len()
    }

    /// Whether nothing is left of what it has announced.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts_left == 0
    }

    /// Its proxy for publishing into a channel.
    pub(crate) fn supplier(&self, channel: ChannelId) -> Option<Peer> {
        self.suppliers.iter().find(|(there, ..)| *there == channel).map(|(_, peer, _)| *peer)
    }

    /// One more of its parts needs that proxy.
    pub(crate) fn use_supplier(&mut self, channel: ChannelId, peer: Peer) {
        match self.suppliers.iter_mut().find(|(_, there, _)| *there == peer) {
            Some((.., parts)) => *parts += 1,
            None => self.suppliers.push((channel, peer, 1)),
        }
    }

    /// One less of its parts needs that proxy. True if it was the last: it is forgotten.
    pub(crate) fn leave_supplier(&mut self, peer: Peer) -> bool {
        let Some((.., parts)) = self.suppliers.iter_mut().find(|(_, there, _)| *there == peer) else { return false };
        *parts -= 1;
        let is_last = *parts == 0;
        if is_last {
            self.forget_supplier(peer);
        }
        is_last
    }

    /// There is no such proxy any more.
    pub(crate) fn forget_supplier(&mut self, peer: Peer) {
        self.suppliers.retain(|(_, there, _)| *there != peer);
    }
}

impl Subscriber {
    /// One to which nothing has been sent.
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, sequence: 0, report: Report::default(), probe: None }
    }
}

fn is_subscriber(role: Role) -> bool {
    role == Role::Subscriber
}

impl Part {
    /// What it is.
    pub(crate) const fn role(&self) -> Role {
        match self.is {
            Is::Publisher(_) => Role::Publisher,
            Is::Subscriber(_) => Role::Subscriber,
        }
    }

    /// What it has as a publisher.
    pub(crate) fn publisher(&mut self) -> Option<&mut Publisher> {
        if let Is::Publisher(publisher) = &mut self.is { Some(publisher) } else { None }
    }

    /// What of it waits in its topic's input, if it publishes.
    pub(crate) const fn queued(&self) -> Option<&Queued> {
        if let Is::Publisher(publisher) = &self.is { Some(&publisher.queued) } else { None }
    }

    /// What it has as a subscriber.
    pub(crate) fn subscriber(&mut self) -> Option<&mut Subscriber> {
        if let Is::Subscriber(subscriber) = &mut self.is { Some(subscriber) } else { None }
    }

    /// When there is something to do for it: to announce, or to forget it.
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

    /// Some session with that number.
    pub(crate) fn numbered(&self, number: u32) -> Option<Token> {
        self.by_number.get(&number).copied()
    }

    pub(crate) fn get(&self, token: Token) -> Option<&Session> {
        self.sessions.get(token)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Session> {
        self.sessions.get_mut(token)
    }

    /// How many there are.
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

    /// A session is at another address from now on. False if one is there already.
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

    /// All of them. (An allocation: it is when the service ends.)
    pub(crate) fn all(&self) -> Vec<Token> {
        self.sessions.iter().map(|(token, _)| token).collect()
    }

    /// Forgets a session, which has no parts.
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

    /// What waits to be sent in datagrams is there for one of the sessions in so many places from one on. Nothing if there are no places
    /// from there on.
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

    /// Keeps a session, whatever it has left, until it is released.
    pub(crate) fn hold(&mut self, session: Token) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.parts_left += 1;
        }
    }

    /// The end of a hold.
    pub(crate) fn release(&mut self, session: Token) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.parts_left -= 1;
        }
    }

    /// Takes a part out of its session.
    pub(crate) fn remove_part(&mut self, token: Token) -> Option<Part> {
        self.hide_part(token);
        let part = self.parts.remove(token)?;
        self.announced -= 1;
        if let Some(session) = self.sessions.get_mut(part.session) {
            session.parts_left -= 1;
        }
        Some(part)
    }

    /// A part is not found any more, though it is there yet.
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
