//! Simulated end points of Tempo: each subscribes, publishes or does both, in datagrams or on a connection, and leaves.
//!
//! They publish structured events, so that all consumers' checks hold for them as for others' events.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use client::notify::{Property, StructuredEvent};
use fastrand::Rng;
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::value::AnyValue;
use tempo::endpoint::{
    Channel, Endpoint, Message, Notice, Order, Place, Receive, Refused, Settings, SubscriberReport, To, TopicId,
    TopicSettings,
};
use tempo::wire::{Content, DATAGRAM, Frame, Payload, Role};

use super::network::{Id, Weather};
use super::sockets::TEMPO;
use super::suppliers::Pushed;
use super::taken::Taken;
use super::wire::{Wire, net};

/// Interval of an end point's announcements, in milliseconds.
pub(super) const PERIOD_MS: u16 = 2_000;
/// The topic: the event type of all simulated events.
const TOPIC: &str = "Test/Numbered";
/// The number of the one connection.
const STREAM: u32 = 0;

/// How an end point behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Healthy,
    /// Reads a few octets, or a datagram, now and then.
    Slow,
    /// Ends without a message.
    Vanishes,
}

/// Connection of an end point.
enum Line {
    Datagrams(Id),
    Connection(Wire),
}

/// A machine with room for the largest events that are published.
type Machine = Endpoint<2, 8, 96, 70_000, 2>;

/// Input received.
#[derive(Default)]
struct Came {
    /// Names of events, or why a message was no event.
    events: Vec<Result<String, String>>,
    /// Topics for which the broker speaks.
    found: Vec<TopicId>,
}

pub(super) struct EndPoint {
    ip: IpAddr,
    /// Number of the end point in the names of its events.
    supplier: usize,
    has_datagrams: bool,
    pub(super) nature: Manner,
    pub(super) subscribes: bool,
    line: Option<Line>,
    machine: Box<Machine>,
    publisher: Option<TopicId>,
    subscriber: Option<TopicId>,
    /// Number of events that it publishes, and whether it may begin.
    events: u32,
    next: u32,
    is_heard: bool,
    bytes_max: usize,
    begins_at: Duration,
    due: Duration,
    pause: Duration,
    reads_at: Duration,
    vanishes_at: Duration,
    /// When the datagram with the last message arrived. A slow end point reads it much later.
    came_at: Duration,
    is_leaving: bool,
    is_gone: bool,
    pub(super) taken: Taken,
    pub(super) pushed: Pushed,
    pub(super) messages: u64,
}

impl Receive for Came {
    fn message(&mut self, message: Message<'_>) {
        self.events.push(name_of(&message));
    }

    fn noticed(&mut self, notice: Notice) {
        if let Notice::Found { topic, .. } = notice {
            self.found.push(topic);
        }
    }
}

/// Name of the event in a message.
fn name_of(message: &Message<'_>) -> Result<String, String> {
    if message.content != Content::Structured {
        return Err(format!("a message of content {:?}", message.content));
    }
    let (order, event) = message.octets.split_at_checked(8).ok_or("a message of less than 8 octets")?;
    let endian = if order[0] == 1 { Endian::Little } else { Endian::Big };
    let event = StructuredEvent::read(&mut Reader::new(event, Encoding::new(endian)));
    event.map(|event| event.event_name).map_err(|error| format!("a message that is no event: {error:?}"))
}

impl EndPoint {
    pub(super) fn new(number: usize, supplier: usize, rng: &mut Rng) -> Self {
        let nature = match rng.u8(0..6) {
            0 => Manner::Vanishes,
            1 => Manner::Slow,
            _ => Manner::Healthy,
        };
        let has_datagrams = rng.bool();
        let (part, session) = (rng.u8(0..3), rng.u32(1..));
        let place = if has_datagrams { Place::Datagram(TEMPO) } else { Place::Stream(STREAM) };
        let settings = Settings {
            period_ms: PERIOD_MS,
            ..Settings::new(session, (rng.u64(..), rng.u64(..)), Channel::Peer(place))
        };
        let how = if has_datagrams { "datagrams" } else { "connection" };
        Self {
            ip: IpAddr::from([10, 0, 5, u8::try_from(number).unwrap()]),
            supplier,
            has_datagrams,
            nature,
            subscribes: part != 0,
            line: None,
            machine: Box::new(Machine::new(settings)),
            publisher: None,
            subscriber: None,
            events: if part == 1 { 0 } else { rng.u32(1..60) },
            next: 0,
            is_heard: false,
            bytes_max: if rng.u8(0..4) == 0 { 6_000 } else { 200 },
            begins_at: Duration::from_micros(rng.u64(0..20_000)),
            due: Duration::ZERO,
            pause: Duration::from_micros(rng.u64(1..2_000)),
            reads_at: Duration::ZERO,
            vanishes_at: Duration::from_micros(rng.u64(5_000..60_000)),
            came_at: Duration::ZERO,
            is_leaving: false,
            is_gone: false,
            taken: Taken {
                name: format!("end point {number} ({nature:?}, {how})"),
                is_in_order: true,
                ..Taken::default()
            },
            pushed: Pushed { may_be_lost: has_datagrams, ..Pushed::default() },
            messages: 0,
        }
    }

    fn begins(&self) -> bool {
        self.line.is_none() && !self.is_gone
    }

    fn may_publish(&self) -> bool {
        self.is_heard && !self.is_leaving && !self.is_gone && self.next < self.events
    }

    fn vanishes(&self) -> Option<Duration> {
        (self.nature == Manner::Vanishes && self.line.is_some()).then_some(self.vanishes_at)
    }

    fn timeout(&self) -> Option<Duration> {
        self.line.as_ref().and_then(|_| self.machine.next_timeout()).map(Duration::from_nanos)
    }

    /// Whether input has arrived, or there is room for output.
    fn has_come(&self) -> bool {
        match &self.line {
            Some(Line::Datagrams(socket)) => net(|net| net.has_datagrams(*socket)),
            Some(Line::Connection(wire)) => wire.is_ready(),
            None => false,
        }
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        let due = [self.begins().then_some(self.begins_at), self.may_publish().then_some(self.due), self.timeout()];
        let is_due = due.into_iter().flatten().chain(self.vanishes()).any(|due| due <= now);
        is_due || (self.reads_at <= now && self.has_come())
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let due = [self.begins().then_some(self.begins_at), self.may_publish().then_some(self.due), self.timeout()];
        let reads = self.has_come().then_some(self.reads_at);
        due.into_iter().flatten().chain(self.vanishes()).chain(reads).min()
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.begins() {
            if self.begins_at <= now {
                self.begin(now);
            }
            return Ok(());
        }
        if self.vanishes().is_some_and(|at| at <= now) {
            self.vanish();
            return Ok(());
        }
        let mut came = Came::default();
        if self.reads_at <= now {
            self.receive(now, rng, &mut came)?;
        }
        self.machine.handle_timeout(nanos(now), &mut came);
        self.take(came, now)?;
        if self.may_publish() && self.due <= now {
            self.publish(now, rng);
        }
        self.transmit(now);
        if self.is_leaving && !matches!(&self.line, Some(Line::Connection(wire)) if wire.has_due() && !wire.is_gone) {
            self.close();
        }
        Ok(())
    }

    fn begin(&mut self, now: Duration) {
        let settings =
            |role| TopicSettings { name: TOPIC, role, rate: 0, deadline_us: 0, largest: 0, order: Order::Arrival };
        let line = if self.has_datagrams {
            Line::Datagrams(net(|net| net.bind(SocketAddr::new(self.ip, 4_711))))
        } else {
            Line::Connection(Wire::connect(self.ip, TEMPO))
        };
        self.line = Some(line);
        if !self.has_datagrams {
            self.machine.stream_opened(nanos(now), STREAM);
        }
        if self.events > 0 {
            self.publisher = self.machine.add_topic(nanos(now), settings(Role::Publisher)).ok();
        }
        if self.subscribes {
            self.subscriber = self.machine.add_topic(nanos(now), settings(Role::Subscriber)).ok();
        }
    }

    /// Takes in the input, or some of it.
    fn receive(&mut self, now: Duration, rng: &mut Rng, came: &mut Came) -> Result<(), String> {
        let is_slow = self.nature == Manner::Slow && !self.is_leaving;
        if is_slow {
            self.reads_at = now + Duration::from_micros(rng.u64(100..10_000));
        }
        match &mut self.line {
            Some(Line::Datagrams(socket)) => {
                let most = if is_slow { 1 } else { usize::MAX };
                for _ in 0..most {
                    let Some((arrived, from, datagram)) = net(|net| net.receive_datagram(*socket)) else { break };
                    let before = came.events.len();
                    self.machine.handle(nanos(now), Place::Datagram(from), &datagram, came);
                    if came.events.len() > before {
                        self.came_at = arrived;
                    }
                }
            }
            Some(Line::Connection(wire)) => {
                wire.flush();
                let octets = wire.read_octets(if is_slow { 2_000 } else { usize::MAX });
                let handled = self.machine.handle(nanos(now), Place::Stream(STREAM), octets, came);
                wire.use_up(handled.consumed);
                if let Some(why) = handled.close {
                    return Err(format!("{}: {why:?}", self.taken.name));
                }
                if wire.is_gone && !self.is_leaving {
                    return Err(format!("{} has lost its connection", self.taken.name));
                }
                let has_room = !wire.has_due();
                self.machine.set_ready(Place::Stream(STREAM), has_room);
            }
            None => {}
        }
        Ok(())
    }

    fn take(&mut self, came: Came, now: Duration) -> Result<(), String> {
        for topic in came.found {
            if Some(topic) == self.publisher {
                self.is_heard = true;
            } else {
                self.taken.since = self.taken.since.or(Some(now));
            }
        }
        for name in came.events {
            let name = name.map_err(|wrong| format!("{} gets {wrong}", self.taken.name))?;
            if self.messages == 0 && self.has_datagrams {
                // Losses before the first message are unknown.
                self.taken.since = Some(now);
            }
            self.messages += 1;
            self.taken.add_next(&name)?;
        }
        Ok(())
    }

    fn publish(&mut self, now: Duration, rng: &mut Rng) {
        let Some(topic) = self.publisher else { return };
        let (number, supplier) = (self.next, self.supplier);
        let mut event = StructuredEvent::new("Test", "Numbered", &format!("{supplier}:{number}"));
        event.filterable_data.push(Property::new("number", number));
        event.remainder = AnyValue::from("x".repeat(rng.usize(0..self.bytes_max)).as_str());
        let mut bytes = Vec::new();
        event.write(&mut Writer::new(&mut bytes, Encoding::new(Endian::Little))).unwrap();
        let message = [&[1, 0, 0, 0, 0, 0, 0, 0], &bytes[..]].concat();
        let is_heard = self.machine.subscribers(topic).next().is_some();
        match self.machine.publish(nanos(now), topic, 0, Content::Structured, &message) {
            Ok(()) if is_heard => {
                self.pushed.doubtful.insert(number, now);
                self.next += 1;
            }
            Ok(()) | Err(Refused::Full) => {}
            Err(refused) => unreachable!("{refused}"),
        }
        self.due = now + Duration::from_nanos(rng.u64(1..=u64::try_from(2 * self.pause.as_nanos()).unwrap()));
    }

    /// Sends waiting output.
    fn transmit(&mut self, now: Duration) {
        let mut out = [0; DATAGRAM];
        while let Some(transmit) = self.machine.poll_transmit(nanos(now), &mut out) {
            let octets = &out[..transmit.octets];
            match (&mut self.line, transmit.to) {
                (Some(Line::Datagrams(socket)), To::Place(Place::Datagram(to))) => {
                    net(|net| net.send_datagram(*socket, to, octets));
                }
                (Some(Line::Connection(wire)), To::Place(Place::Stream(_))) => {
                    wire.write(|bytes| bytes.extend_from_slice(octets));
                    if wire.has_due() {
                        self.machine.set_ready(Place::Stream(STREAM), false);
                    }
                }
                _ => {}
            }
        }
    }

    fn vanish(&mut self) {
        self.is_gone = true;
        match self.line.take() {
            Some(Line::Datagrams(socket)) => net(|net| net.unbind(socket)),
            Some(Line::Connection(mut wire)) => wire.reset(),
            None => {}
        }
    }

    /// Whether it still has events to publish, and a subscriber for them.
    pub(super) fn is_at_work(&self) -> bool {
        !self.is_gone && (self.may_publish() || self.is_sending())
    }

    fn is_sending(&self) -> bool {
        self.publisher.is_some_and(|topic| self.machine.published(topic).waiting > 0)
            || matches!(&self.line, Some(Line::Connection(wire)) if wire.has_due())
    }

    /// Counts all its published events as taken, when everything is done: in datagrams, unless they were lost.
    pub(super) fn finish(&mut self) {
        if self.nature != Manner::Vanishes {
            self.pushed.accepted.append(&mut self.pushed.doubtful);
        }
    }

    /// Whether it must have received the published events.
    pub(super) fn is_there(&self) -> bool {
        self.subscribes && !self.is_gone && self.taken.since.is_some()
    }

    /// Whether the service failed it: it is connected, and was sent nothing.
    pub(super) fn was_ignored(&self) -> bool {
        let unknown = (self.subscribes && self.taken.since.is_none()) || (self.events > 0 && !self.is_heard);
        unknown && !self.is_gone && !self.has_datagrams
    }

    /// Number of messages that it may have missed: those it counted as lost, and those lost after the last one that came. `None` if that is
    /// unknown, since it took the service for gone meanwhile.
    pub(super) fn lost(&self) -> Option<u64> {
        let Some(Line::Datagrams(socket)) = &self.line else { return Some(0) };
        if self.machine.counters().peers_expired > 0 {
            return None;
        }
        let report = self.subscriber.map_or_else(SubscriberReport::default, |topic| self.machine.subscribed(topic));
        let since = self.came_at.saturating_sub(Weather::DELAYED_BY * 2);
        let behind = net(|net| net.lost_since(*socket, since).map(messages_in).sum::<u64>());
        Some(report.lost + report.late + behind)
    }

    /// Number of its announcements that end only by its silence.
    pub(super) fn silent_parts(&self) -> u64 {
        if self.nature == Manner::Vanishes && self.has_datagrams { 2 } else { 0 }
    }

    /// Makes it say bye, and leave.
    pub(super) fn leave(&mut self) {
        for topic in [self.publisher, self.subscriber].into_iter().flatten() {
            self.machine.remove_topic(topic);
        }
        self.reads_at = Duration::ZERO;
        if self.line.is_some() {
            self.is_leaving = true;
            self.transmit(net(|net| net.time()));
            if !matches!(&self.line, Some(Line::Connection(wire)) if wire.has_due()) {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.is_gone = true;
        if let Some(Line::Datagrams(socket)) = self.line.take() {
            net(|net| net.unbind(socket));
        }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.is_gone
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

/// Number of messages, or fragments, in a datagram.
fn messages_in(mut datagram: &[u8]) -> u64 {
    let mut messages = 0;
    while let Ok((frame, octets)) = Frame::read(datagram) {
        messages += u64::from(matches!(frame.payload, Payload::Data(_)));
        datagram = &datagram[octets..];
    }
    messages
}
