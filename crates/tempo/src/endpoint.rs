//! Publishers and subscribers of one process, as a state machine that allocates nothing.
//!
//! Its driver [passes](Endpoint::handle) received octets, calls [`Endpoint::handle_timeout`] at [`Endpoint::next_timeout`], and after each
//! call sends what [`Endpoint::poll_transmit`] returns until that is `None`. It [reports](Endpoint::set_ready) a connection without room,
//! and again when the connection has some.
//!
//! **No state for unverified senders.** An announcement from an address that has not proven itself is answered from its own content, with a
//! cookie, and forgotten. Only a sender that returns the cookie becomes a peer; so the `PEERS` are at the addresses they claim, and when
//! all entries are taken, others are refused and counted.
//!
//! **Turns.** Topics take turns by fair shares in virtual time, a message to all its subscribers at a time. Messages of a topic wait
//! by priority and then arrival in blocks of 256 octets that the topics share: half of them are divided up among the topics, so
//! that one that cannot send leaves room to the others.
//!
//! ```
//! use tempo::endpoint::{Channel, Endpoint, Message, Order, Place, Receive, Settings, To, TopicSettings};
//! use tempo::wire::{Content, Role};
//!
//! struct Print;
//!
//! impl Receive for Print {
//!     fn message(&mut self, message: Message<'_>) {
//!         println!("{} octets", message.octets.len());
//!     }
//! }
//!
//! // A connection with the number 0 at either end; what one sends is handed to the other.
//! let mut publisher = Endpoint::<1, 4, 16, 0, 0>::new(Settings::new(1, (5, 6), Channel::Peer(Place::Stream(0))));
//! let mut subscriber = Endpoint::<1, 4, 0, 2048, 1>::new(Settings::new(2, (7, 8), Channel::None));
//! let wind = TopicSettings {
//!     name: "Weather/Wind",
//!     role: Role::Publisher,
//!     rate: 10_000,
//!     deadline_us: 0,
//!     largest: 0,
//!     order: Order::Priorities,
//! };
//! let topic = publisher.add_topic(0, wind)?;
//! let subscription = subscriber.add_topic(0, TopicSettings { role: Role::Subscriber, ..wind })?;
//! publisher.stream_opened(0, 0);
//! subscriber.stream_opened(0, 0);
//! let mut out = [0; 1472];
//! for now in 0..10 {
//!     publisher.handle_timeout(now, &mut Print);
//!     subscriber.handle_timeout(now, &mut Print);
//!     publisher.publish(now, topic, 0, Content::Octets, b"11.5 m/s")?;
//!     while let Some(transmit) = publisher.poll_transmit(now, &mut out) {
//!         assert_eq!(transmit.to, To::Place(Place::Stream(0)));
//!         subscriber.handle(now, Place::Stream(0), &out[..transmit.octets], &mut Print);
//!     }
//!     while let Some(transmit) = subscriber.poll_transmit(now, &mut out) {
//!         publisher.handle(now, Place::Stream(0), &out[..transmit.octets], &mut Print);
//!     }
//! }
//! assert!(subscriber.subscribed(subscription).received >= 8);
//! # Ok::<(), tempo::endpoint::Refused>(())
//! ```
//!
//! Its size is in its type: `size_of::<Endpoint<8, 16, 96, 4096, 2>>()` is less than 64 KiB.

mod peers;
mod queue;
mod receiving;
mod replies;
mod reports;
mod sending;
mod settings;
mod streams;
mod topics;
mod unfinished;

use turns::VirtualTime;

use crate::Nanos;
use crate::cookies::Cookies;
use crate::presence::{Chance, PERIODS_UNTIL_GONE, Summary, period_nanos};
use crate::wire::{self, Content, Role};

use peers::{Due, Entry, Kind, Peers};
use queue::{Blocks, Waiting};
use replies::{Replies, Reply};
use streams::Streams;
use topics::Topics;
use unfinished::Unfinished;

pub use queue::BLOCK;
pub use receiving::Handled;
pub use reports::{
    Counters, Delay, Gone, Message, Notice, Peer, Place, PublisherReport, Receive, SubscriberReport, To, Transmit,
};
pub use settings::{Channel, Name, Refused, Settings};
pub use topics::{Order, TopicSettings};

/// A topic of an end point, in one role. Invalid once the topic is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId {
    at: u16,
    number: u32,
}

/// Publishers and subscribers of one process.
///
/// Capacities: `TOPICS`; `PEERS`, sessions times topics; `BLOCKS` of 256 octets for queued messages; `MESSAGE`, octets of the largest
/// message received in fragments; `UNFINISHED`, how many of those at a time.
#[derive(Debug)]
pub struct Endpoint<
    const TOPICS: usize,
    const PEERS: usize,
    const BLOCKS: usize,
    const MESSAGE: usize,
    const UNFINISHED: usize,
> {
    settings: Settings,
    cookies: Cookies,
    chance: Chance,
    /// Whether the channel's connection exists, if the channel is a connection.
    is_channel_open: bool,
    topics: Topics<TOPICS>,
    peers: Peers<PEERS>,
    replies: Replies<PEERS>,
    streams: Streams<PEERS>,
    queue: Blocks<BLOCKS>,
    time: VirtualTime,
    /// The topic that sends next.
    current_topic: Option<usize>,
    unfinished: Unfinished<MESSAGE, UNFINISHED>,
    counters: Counters,
}

impl<const TOPICS: usize, const PEERS: usize, const BLOCKS: usize, const MESSAGE: usize, const UNFINISHED: usize>
    Endpoint<TOPICS, PEERS, BLOCKS, MESSAGE, UNFINISHED>
{
    /// An end point without topics. Settings are limited to their ranges.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        const { assert!(TOPICS < u16::MAX as usize, "topics are numbered in 16 bits") };
        let settings = settings.within_ranges();
        Self {
            settings,
            cookies: Cookies::new(settings.secret),
            chance: Chance::new(settings.seed),
            is_channel_open: !matches!(settings.channel, Channel::Peer(Place::Stream(_))),
            topics: Topics::new(BLOCKS),
            peers: Peers::new(),
            replies: Replies::new(),
            streams: Streams::new(),
            queue: Blocks::new(),
            time: VirtualTime::new(),
            current_topic: None,
            unfinished: Unfinished::new(),
            counters: Counters::new(),
        }
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> u32 {
        self.settings.session
    }

    // ---- what is wanted ----

    /// Adds a topic, which is announced at once.
    ///
    /// # Errors
    /// The name is invalid, the topic exists in this role, or there is no room for one more.
    pub fn add_topic(&mut self, now: Nanos, settings: TopicSettings<'_>) -> Result<TopicId, Refused> {
        if !wire::is_name(settings.name) {
            return Err(Refused::Name);
        }
        if self.topics.find(settings.name, settings.role).is_some() {
            return Err(Refused::Exists);
        }
        // Numbers begin anywhere, so that no receiver gets to rely on where.
        let first = u32::try_from(self.chance.below(1 << 32)).unwrap_or(0);
        self.topics.add(now, &settings, first).ok_or(Refused::TooManyTopics)
    }

    /// Removes a topic, and says goodbye. Its queued messages are discarded and counted.
    pub fn remove_topic(&mut self, topic: TopicId) {
        let Some(at) = self.topics.at(topic) else { return };
        self.discard_messages(at);
        let is_group = matches!(self.settings.channel, Channel::Group(_));
        // A peer that is the channel as well is notified as a peer.
        let is_due_to_channel = self.channel(at).is_some();
        let Some(topic) = self.topics.get_mut(at) else { return };
        topic.is_leaving = true;
        topic.announce_at = Nanos::MAX;
        topic.is_due_to_channel = is_due_to_channel;
        self.topics.is_due_to_channel = true;
        for entry in 0..PEERS {
            let Some(peer) = self.peers.get_mut(entry).filter(|peer| peer.topic == at) else { continue };
            let has_room = match peer.place {
                Place::Stream(stream) => self.streams.has_room(stream),
                Place::Datagram(_) => true,
            };
            if is_group || !has_room {
                // A group is notified once, and a peer without room notices the silence.
                self.peers.remove(entry);
                self.unfinished.release(entry);
            } else {
                peer.due = Due { bye: true, ..Due::NOTHING };
                peer.due_later = Due::NOTHING;
                self.peers.is_due = true;
            }
        }
    }

    /// Changes the rate, in messages in 1,000 s. It is announced at once.
    pub fn set_rate(&mut self, topic: TopicId, rate: u32) {
        self.change(topic, |topic| topic.rate = rate);
    }

    /// Changes the deadline, in microseconds. It is announced at once.
    pub fn set_deadline(&mut self, topic: TopicId, deadline_us: u32) {
        self.change(topic, |topic| topic.deadline_us = deadline_us);
    }

    fn change(&mut self, topic: TopicId, change: impl FnOnce(&mut topics::Topic)) {
        let Some(at) = self.topics.at(topic) else { return };
        let Some(topic) = self.topics.get_mut(at) else { return };
        let before = (topic.rate, topic.deadline_us);
        change(topic);
        if before != (topic.rate, topic.deadline_us) {
            topic.weigh();
            self.announce(at);
        }
    }

    /// Publishes a message to all current subscribers. Without any it is discarded and counted.
    ///
    /// # Errors
    /// The topic does not exist or is not a publisher's, the message is too large, or there is no room now.
    pub fn publish(
        &mut self,
        now: Nanos,
        topic: TopicId,
        priority: i16,
        content: Content,
        message: &[u8],
    ) -> Result<(), Refused> {
        let at = self.topics.at(topic).ok_or(Refused::UnknownTopic)?;
        let topic = self.topics.get(at).ok_or(Refused::UnknownTopic)?;
        if topic.role != Role::Publisher {
            return Err(Refused::Role);
        }
        let (described, listeners) = (topic.largest, topic.counterparts);
        let possible = self.topics.possible() * BLOCK;
        let largest = match usize::try_from(described) {
            Ok(0) | Err(_) => possible,
            Ok(largest) => largest.min(possible),
        };
        let largest = usize::try_from(wire::MESSAGE_MAX).map_or(largest, |most| largest.min(most));
        if message.len() > largest {
            return Err(Refused::TooLarge { largest });
        }
        let topic = self.topics.get_mut(at).ok_or(Refused::UnknownTopic)?;
        if listeners == 0 {
            topic.counts.unheard += 1;
            return Ok(());
        }
        if !self.enqueue(at, Waiting::new(queue::Kind::Message(content), now, priority), message) {
            if let Some(topic) = self.topics.get_mut(at) {
                topic.counts.refused += 1;
            }
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn enqueue(&mut self, at: usize, message: Waiting, octets: &[u8]) -> bool {
        if !self.topics.may_take(at, Blocks::<BLOCKS>::needed(octets.len())) {
            return false;
        }
        let Some(topic) = self.topics.get_mut(at) else { return false };
        let was_busy = topic.is_busy();
        let mut message = message;
        if topic.order == Order::Arrival {
            message.rank = 0;
        }
        if !self.queue.put(&mut topic.lane, message, octets) {
            return false;
        }
        if !was_busy {
            topic.share.awake(&self.time);
            self.topics.busy += 1;
        }
        true
    }

    fn discard_messages(&mut self, at: usize) {
        let Some(topic) = self.topics.get_mut(at) else { return };
        if !topic.is_busy() {
            return;
        }
        if let Some(sending) = topic.sending.take() {
            self.queue.release(&mut topic.lane, sending.message);
            self.counters.abandoned += 1;
        }
        while let Some(message) = self.queue.take(&mut topic.lane) {
            self.queue.release(&mut topic.lane, message);
            self.counters.abandoned += 1;
        }
        self.topic_rests();
    }

    /// Notes that a topic has nothing to send any more.
    fn topic_rests(&mut self) {
        self.topics.busy = self.topics.busy.saturating_sub(1);
        self.current_topic = None;
        if self.topics.busy == 0 {
            self.time.rest();
        }
    }

    // ---- connections ----

    /// Notes a new connection. If it is the channel, all topics are announced on it at once.
    pub fn stream_opened(&mut self, now: Nanos, stream: u32) {
        self.streams.set(stream, true);
        if self.settings.channel == Channel::Peer(Place::Stream(stream)) {
            self.is_channel_open = true;
            for topic in self.topics.iter_mut().filter(|topic| !topic.is_leaving) {
                topic.announce_at = now;
            }
        }
    }

    /// Notes the loss of a connection, and forgets its peers.
    pub fn stream_closed(&mut self, stream: u32, to: &mut impl Receive) {
        if self.settings.channel == Channel::Peer(Place::Stream(stream)) {
            self.is_channel_open = false;
        }
        self.streams.set(stream, true);
        self.forget_at(Place::Stream(stream), Gone::Closed, to, |_| true);
    }

    /// Notes whether a connection has room. Without room its frames wait, and so do later messages of its topics.
    pub fn set_ready(&mut self, place: Place, is_ready: bool) {
        let Place::Stream(stream) = place else { return };
        if !self.streams.set(stream, is_ready) || !is_ready {
            return;
        }
        for peer in self.peers.at_mut(place) {
            peer.due = peer.due.and(core::mem::take(&mut peer.due_later));
        }
        self.peers.is_due = true;
        self.topics.is_due_to_channel = true;
        for topic in self.topics.iter_mut().filter(|topic| topic.is_blocked) {
            topic.is_blocked = false;
            // It has not saved up the turns that others had meanwhile.
            if topic.share.deadline() < self.time.now() {
                topic.share.awake(&self.time);
            }
        }
    }

    fn has_room(&self, place: Place) -> bool {
        match place {
            Place::Datagram(_) => true,
            Place::Stream(stream) => self.streams.has_room(stream),
        }
    }

    // ---- time ----

    /// Time of the next call of [`Self::handle_timeout`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Nanos> {
        let announcements = self.topics.iter().map(|(_, topic)| topic.announce_at).min().unwrap_or(Nanos::MAX);
        let next = announcements.min(self.peers.next_gone());
        (next != Nanos::MAX).then_some(next)
    }

    /// Forgets silent peers, and schedules due announcements, probes and reports.
    pub fn handle_timeout(&mut self, now: Nanos, to: &mut impl Receive) {
        if self.peers.next_gone() <= now {
            for at in 0..PEERS {
                if self.peers.get(at).is_some_and(|peer| peer.presence.is_gone(now)) {
                    self.forget(at, Gone::Expired, to);
                }
            }
            self.peers.look_ahead();
        }
        let period = period_nanos(self.settings.period_ms);
        for at in 0..PEERS {
            if let Some(stream) = self.streams.stalled(at, now, PERIODS_UNTIL_GONE * period) {
                let is_subscriber = |peer: &Entry| matches!(peer.kind, Kind::Subscriber(_));
                self.forget_at(Place::Stream(stream), Gone::Stalled, to, is_subscriber);
            }
        }
        for at in 0..TOPICS {
            let Some(topic) = self.topics.get_mut(at).filter(|topic| !topic.is_leaving) else { continue };
            // A clock that was put back must not make it silent.
            if topic.announce_at > now && topic.announce_at - now <= period {
                continue;
            }
            topic.announce_at = self.chance.next_announcement(now, self.settings.period_ms);
            self.period_begins(now, at);
            to.noticed(Notice::Period { topic: self.topics.id(at) });
        }
    }

    /// Schedules the announcement of a topic to all its peers.
    fn announce(&mut self, at: usize) {
        let is_group = matches!(self.settings.channel, Channel::Group(_));
        for peer in self.peers.of_mut(at).filter(|_| !is_group) {
            peer.due.announcement = true;
        }
        self.peers.is_due = true;
        self.topics.is_due_to_channel = true;
        if let Some(topic) = self.topics.get_mut(at) {
            topic.is_due_to_channel = true;
        }
    }

    fn period_begins(&mut self, now: Nanos, at: usize) {
        self.announce(at);
        for peer in self.peers.of_mut(at) {
            peer.due.report |= matches!(peer.kind, Kind::Publisher(_));
        }
        let Some(topic) = self.topics.get(at) else { return };
        if topic.role == Role::Subscriber || topic.counterparts == 0 {
            return;
        }
        if topic.is_probe_waiting {
            self.counters.probes_left_out += 1;
            return;
        }
        let mut probes = topic.probes;
        let number = probes.begin(now);
        if self.enqueue(at, Waiting::new(queue::Kind::Probe { number }, now, 0), &[]) {
            if let Some(topic) = self.topics.get_mut(at) {
                topic.probes = probes;
                topic.is_probe_waiting = true;
            }
        } else {
            self.counters.probes_left_out += 1;
        }
    }

    // ---- peers that go ----

    fn forget_at(&mut self, place: Place, why: Gone, to: &mut impl Receive, is_it: impl Fn(&Entry) -> bool) {
        for at in 0..PEERS {
            if self.peers.get(at).is_some_and(|peer| peer.place == place && is_it(peer)) {
                self.forget(at, why, to);
            }
        }
    }

    fn forget(&mut self, at: usize, why: Gone, to: &mut impl Receive) {
        let Some(peer) = self.peers.remove(at) else { return };
        self.counters.unfinished += u64::from(self.unfinished.release(at));
        match why {
            Gone::Expired => self.counters.peers_expired += 1,
            Gone::Replaced => self.counters.peers_replaced += 1,
            Gone::Rebound => self.counters.peers_rebound += 1,
            Gone::Stalled => self.counters.peers_stalled += 1,
            Gone::Bye | Gone::Closed => {}
        }
        let Some(topic) = self.topics.get_mut(peer.topic) else { return };
        topic.counterparts = topic.counterparts.saturating_sub(1);
        // What is being sent may have waited for this peer alone.
        topic.is_blocked = false;
        if let Kind::Publisher(heard) = &peer.kind {
            topic.counts.add(heard);
        }
        if topic.is_leaving {
            self.topics.is_due_to_channel = true;
        }
        to.noticed(Notice::Gone { topic: self.topics.id(peer.topic), peer: peer.described(), why });
    }

    // ---- what is known ----

    /// The report on a publisher's topic; empty if it was removed.
    #[must_use]
    pub fn published(&self, topic: TopicId) -> PublisherReport {
        let mut report = PublisherReport::default();
        let Some((at, topic)) = self.topic_of(topic, Role::Publisher) else { return report };
        for peer in self.peers.of(at) {
            report.subscribers += 1;
            report.announced.add(peer.presence.announced());
            if let Kind::Subscriber(listener) = &peer.kind {
                report.received = report.received.saturating_add(listener.received);
                report.lost = report.lost.saturating_add(listener.lost);
            }
        }
        report.delay = topic.delays.described();
        report.slowest_ns = topic.probes.slowest();
        report.sent = topic.counts.sent;
        report.probes = topic.counts.probes;
        report.refused = topic.counts.refused;
        report.unheard = topic.counts.unheard;
        let waiting = topic.lane.messages() + usize::from(topic.sending.is_some());
        report.waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        report
    }

    /// The report on a subscriber's topic; empty if it was removed.
    #[must_use]
    pub fn subscribed(&self, topic: TopicId) -> SubscriberReport {
        let Some((at, topic)) = self.topic_of(topic, Role::Subscriber) else { return SubscriberReport::default() };
        let (mut counts, mut announced, mut publishers) = (topic.counts, Summary::default(), 0);
        for peer in self.peers.of(at) {
            publishers += 1;
            announced.add(peer.presence.announced());
            if let Kind::Publisher(heard) = &peer.kind {
                counts.add(heard);
            }
        }
        let topics::TopicCounts { received, lost, late, repeated, .. } = counts;
        SubscriberReport { publishers, announced, received, lost, late, repeated }
    }

    /// The known subscribers of a publisher's topic.
    pub fn subscribers(&self, topic: TopicId) -> impl Iterator<Item = Peer> {
        self.counterparts(topic, Role::Publisher)
    }

    /// The known publishers of a subscriber's topic.
    pub fn publishers(&self, topic: TopicId) -> impl Iterator<Item = Peer> {
        self.counterparts(topic, Role::Subscriber)
    }

    fn counterparts(&self, topic: TopicId, role: Role) -> impl Iterator<Item = Peer> {
        let at = self.topic_of(topic, role).map(|(at, _)| at);
        at.into_iter().flat_map(|at| self.peers.of(at)).map(Entry::described)
    }

    fn topic_of(&self, topic: TopicId, role: Role) -> Option<(usize, &topics::Topic)> {
        let at = self.topics.at(topic)?;
        self.topics.get(at).filter(|topic| topic.role == role).map(|topic| (at, topic))
    }

    /// Discarded and refused items by reason.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets of the largest message accepted on a topic, in fragments or in a datagram.
    fn largest_taken(&self, largest: u32) -> u32 {
        let possible = MESSAGE.max(self.settings.datagram - wire::HEADER);
        let possible = u32::try_from(possible).unwrap_or(u32::MAX).min(wire::MESSAGE_MAX);
        if largest == 0 { possible } else { largest.min(possible) }
    }

    fn reply(&mut self, reply: Reply) {
        if !self.replies.push(reply) {
            self.counters.replies_dropped += 1;
        }
    }
}
