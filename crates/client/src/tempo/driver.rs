//! The loop of an end point: waits for sockets, reads without the lock, calls the state machine with it, calls back without it.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempo::Nanos;
use tempo::endpoint::{Message as Came, Notice, Place, Receive, TopicId};
use tempo::wire::Content;

use super::datagrams::{Datagrams, Received};
use super::handler::{Handler, Publishing, Subscribing};
use super::message::Message;
use super::now;
use super::report::{PublisherReport, SubscriberReport};
use super::shared::{Shared, State};
use super::streams::{CHANNEL, Change, Streams};
use crate::backoff::Backoff;
use crate::lock;

/// Longest wait between two attempts to connect.
const ATTEMPTS_EVERY_MAX: Duration = Duration::from_secs(2);
/// Maximum reads of a socket before others have their turn.
const READS_IN_A_ROW: usize = 4;
/// Longest time spent on pending output when an end point is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the loop.
pub(super) struct Driver {
    shared: Arc<Shared>,
    received: Received,
    streams: Streams,
    changes: Vec<Change>,
    channel: Option<Reconnect>,
    inbox: Inbox,
    topics: Topics,
    /// A tap that sees all input before the state machine does.
    tap: Option<Tap>,
    ready: Ready,
    /// When this pass began. Callbacks may take long: a peer's input meanwhile is processed before the peer counts as silent.
    began: Nanos,
    wakes_at: Nanos,
    /// Whether datagrams wait for their socket.
    is_blocked: bool,
    /// Streams to be awaited for writing.
    writers: Vec<u32>,
}

/// The result of a wait.
#[derive(Default)]
struct Ready {
    /// Whether another thread has work for this one.
    is_woken: bool,
    /// A bit for each readable socket.
    datagrams: u32,
    is_unblocked: bool,
    is_listener: bool,
    readable: Vec<u32>,
    writable: Vec<u32>,
}

/// Called with a peer's octets: a datagram, or the unconsumed input of a stream.
pub(super) type Tap = Box<dyn FnMut(SocketAddr, &[u8]) + Send>;

/// Reconnection to the peer at the channel's address.
struct Reconnect {
    to: Vec<SocketAddr>,
    /// The address that is next.
    next: usize,
    backoff: Backoff,
    /// Time of the next attempt.
    at: Nanos,
    /// Whether an attempt is under way, or has succeeded.
    is_tried: bool,
}

/// Received messages and notices, until they are handed on.
#[derive(Default)]
struct Inbox {
    deliveries: Vec<Delivery>,
    /// Messages reassembled from fragments, which are not in the input.
    copied: Vec<u8>,
    reports_due: Vec<TopicId>,
    has_met: bool,
}

struct Delivery {
    topic: TopicId,
    at: At,
    content: Content,
    priority: i16,
    sequence: u32,
    sent: Nanos,
    from: u32,
}

/// Place of a message's octets.
enum At {
    /// In the input.
    Came(Range<usize>),
    /// In [`Inbox::copied`].
    Copied(Range<usize>),
}

/// Collects the state machine's output for some octets.
pub(super) struct Sink<'i> {
    inbox: &'i mut Inbox,
    bytes: &'i [u8],
    /// Position where `bytes` begin.
    begin: usize,
}

impl Receive for Sink<'_> {
    fn message(&mut self, message: Came<'_>) {
        let octets = message.octets;
        // Where they lie among the octets that came, if they do.
        let at = octets.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        let is_there = at.checked_add(octets.len()).is_some_and(|end| end <= self.bytes.len());
        let at = if is_there {
            At::Came(self.begin + at..self.begin + at + octets.len())
        } else {
            let begin = self.inbox.copied.len();
            self.inbox.copied.extend_from_slice(octets);
            At::Copied(begin..begin + octets.len())
        };
        self.inbox.deliveries.push(Delivery {
            topic: message.topic,
            at,
            content: message.content,
            priority: message.priority,
            sequence: message.sequence,
            sent: message.sent,
            from: message.publisher,
        });
    }

    fn noticed(&mut self, notice: Notice) {
        match notice {
            Notice::Period { topic } => {
                if !self.inbox.reports_due.contains(&topic) {
                    self.inbox.reports_due.push(topic);
                }
            }
            Notice::Lost { .. } => {}
            _ => self.inbox.has_met = true,
        }
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, streams: Streams, channel: Vec<SocketAddr>, tap: Option<Tap>) -> Self {
        let backoff = Backoff::up_to(ATTEMPTS_EVERY_MAX);
        let channel =
            (!channel.is_empty()).then_some(Reconnect { to: channel, next: 0, backoff, at: 0, is_tried: false });
        Self {
            shared,
            received: Received::new(),
            streams,
            changes: Vec::new(),
            channel,
            inbox: Inbox::default(),
            topics: Topics::default(),
            tap,
            ready: Ready::default(),
            began: 0,
            wakes_at: 0,
            is_blocked: false,
            writers: Vec::new(),
        }
    }

    /// Runs until the end point is dropped.
    pub(super) fn run(mut self) {
        self.shared.state().thread = Some(std::thread::current().id());
        while !self.shared.is_closing.load(Ordering::Acquire) {
            self.run_once(None);
        }
        self.shut_down();
    }

    /// Waits for work, for so long at most, and does it.
    pub(super) fn run_once(&mut self, timeout: Option<Duration>) {
        self.wait(timeout);
        self.began = now();
        // Reading what is not there would be a system call more for each message that comes alone.
        if self.ready.is_woken {
            self.shared.wake.take();
        }
        for socket in 0..2 {
            if self.ready.datagrams & (1 << socket) != 0 {
                self.read_datagrams(socket);
            }
        }
        self.use_streams();
        self.finish();
    }

    /// Sends pending output, for a limited time; then ends the streams, and reads them to their end.
    pub(super) fn shut_down(&mut self) {
        let began = Instant::now();
        let left = || CLOSE_TIMEOUT.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
        self.channel = None;
        self.streams.listen_no_more();
        self.began = now();
        self.finish();
        while let Some(left) = left()
            && !self.shared.state().has_left()
        {
            self.run_once(Some(left));
        }
        self.streams.say_end();
        // Unread input would have the system reset the connection, and what was sent be lost with it.
        while let Some(left) = left()
            && self.streams.inputs().next().is_some()
        {
            self.run_once(Some(left));
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let left = Duration::from_nanos(self.wakes_at.saturating_sub(now()));
        let left = Timespec::try_from(timeout.map_or(left, |timeout| timeout.min(left))).ok();
        let mut fds = vec![PollFd::new(self.shared.wake.reader(), PollFlags::IN)];
        let sockets = self.shared.datagrams.iter().flat_map(Datagrams::sockets).enumerate();
        fds.extend(sockets.map(|(number, socket)| {
            let out = if number == 0 && self.is_blocked { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(socket, PollFlags::IN | out)
        }));
        let datagrams = fds.len() - 1;
        fds.extend(self.streams.listener().map(|listener| PollFd::new(listener, PollFlags::IN)));
        let first_stream = fds.len();
        fds.extend(self.streams.inputs().map(|input| {
            let out = if self.writers.contains(&input.number) { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(input.socket(), PollFlags::IN | out)
        }));
        // A signal ends the wait, as if there were nothing; what there is to do is looked at anyway.
        let _ = poll(&mut fds, left.as_ref());

        let ready = &mut self.ready;
        let events = |number: usize| fds.get(number).map_or(PollFlags::empty(), PollFd::revents);
        let readable = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
        ready.is_woken = events(0).intersects(readable);
        ready.datagrams = (0..datagrams).filter(|n| events(1 + n).intersects(readable)).map(|n| 1 << n).sum();
        ready.is_unblocked = datagrams > 0 && events(1).contains(PollFlags::OUT);
        ready.is_listener = first_stream > 1 + datagrams && !events(1 + datagrams).is_empty();
        ready.readable.clear();
        ready.writable.clear();
        for (fd, input) in fds.iter().skip(first_stream).zip(self.streams.inputs()) {
            if fd.revents().intersects(readable) {
                ready.readable.push(input.number);
            }
            if fd.revents().intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
                ready.writable.push(input.number);
            }
        }
    }

    /// Reads datagrams, and hands on their messages.
    fn read_datagrams(&mut self, socket: usize) {
        let shared = Arc::clone(&self.shared);
        let Some(datagrams) = &shared.datagrams else { return };
        for _ in 0..READS_IN_A_ROW {
            // Nothing there, or an error of a peer that could not be reached.
            if datagrams.receive(socket, &mut self.received).is_err() {
                return;
            }
            if let Some(tap) = &mut self.tap {
                self.received.datagrams().for_each(|(from, _, octets)| tap(from, octets));
            }
            let now = now();
            let mut state = shared.state();
            for (from, begin, bytes) in self.received.datagrams() {
                let mut sink = Sink { inbox: &mut self.inbox, bytes, begin };
                state.core.handle(now, Place::Datagram(from), bytes, &mut sink);
            }
            state.transmit(now, Some(datagrams));
            self.topics.learn(&state);
            drop(state);
            self.inbox.hand_on(&self.topics.handlers, self.received.octets());
            if !self.received.is_full() {
                return;
            }
        }
    }

    fn use_streams(&mut self) {
        let shared = Arc::clone(&self.shared);
        if self.ready.is_listener || !self.ready.writable.is_empty() {
            let now = now();
            let mut state = shared.state();
            if self.ready.is_listener {
                self.streams.accept(now, &mut state.outputs, &mut self.changes);
            }
            for number in self.ready.writable.drain(..) {
                self.streams.writable(number, now, &mut state.outputs, &mut self.changes);
            }
            self.apply_changes(&mut state, now);
        }
        while let Some(number) = self.ready.readable.pop() {
            while self.read_stream(&shared, number) {}
        }
    }

    /// Reads a stream, and hands on its messages. Returns true if there is more that its socket does not report.
    fn read_stream(&mut self, shared: &Shared, number: u32) -> bool {
        let now = now();
        if self.streams.input_mut(number).is_some_and(|input| input.is_shaking()) {
            let mut state = shared.state();
            self.streams.shake(number, now, &mut state.outputs, &mut self.changes);
            self.apply_changes(&mut state, now);
        }
        let Some(input) = self.streams.input_mut(number).filter(|input| !input.is_shaking()) else { return false };
        let is_open = input.read(now);
        if let Some(tap) = &mut self.tap {
            tap(input.peer, input.octets());
        }
        let (mut begin, mut unreadable) = (0, None);
        let mut state = shared.state();
        while let Some(bytes) = input.octets().get(begin..).filter(|bytes| !bytes.is_empty()) {
            let mut sink = Sink { inbox: &mut self.inbox, bytes, begin };
            let handled = state.core.handle(now, Place::Stream(number), bytes, &mut sink);
            begin += handled.consumed;
            unreadable = handled.close;
            if handled.consumed == 0 || unreadable.is_some() {
                break;
            }
        }
        state.transmit(now, shared.datagrams.as_ref());
        self.topics.learn(&state);
        let is_understood = number == CHANNEL && begin > 0;
        if is_understood {
            state.outputs.note_trouble(number, None);
        }
        drop(state);
        self.inbox.hand_on(&self.topics.handlers, input.octets());
        input.consume(begin);
        let has_more = input.has_more();
        if is_understood && let Some(channel) = &mut self.channel {
            channel.backoff.succeeded();
        }
        let why = match (is_open, unreadable) {
            (Ok(()), None) => return has_more,
            (Err(error), _) => error,
            (Ok(()), Some(_)) => io::Error::other("what it says is not Tempo"),
        };
        let mut state = shared.state();
        self.streams.fail(number, &why, &mut state.outputs, &mut self.changes);
        self.apply_changes(&mut state, now);
        false
    }

    /// Does what is due, and applies changes of connections; then the time of the next wake-up is known.
    fn finish(&mut self) {
        let shared = Arc::clone(&self.shared);
        let now = self.began;
        let mut state = shared.state();
        if let Some(datagrams) = shared.datagrams.as_ref().filter(|_| self.ready.is_unblocked) {
            state.unblock(datagrams);
        }
        self.streams.sweep(now, &mut state.outputs, &mut self.changes);
        self.reconnect(&mut state, now);
        self.apply_changes(&mut state, now);
        if state.core.next_timeout().is_some_and(|due| due <= now) {
            let mut sink = Sink { inbox: &mut self.inbox, bytes: &[], begin: 0 };
            state.core.handle_timeout(now, &mut sink);
        }
        state.transmit(now, shared.datagrams.as_ref());
        self.topics.learn(&state);
        self.is_blocked = state.gather.is_blocked();
        self.writers.clear();
        for input in self.streams.inputs() {
            if Streams::waits_to_write(input, &mut state.outputs) {
                self.writers.push(input.number);
            }
        }
        let reconnects_at = self.channel.as_ref().filter(|channel| !channel.is_tried).map(|channel| channel.at);
        let due = [state.core.next_timeout(), self.streams.sweep_at(&state.outputs), reconnects_at];
        self.wakes_at = due.into_iter().flatten().min().unwrap_or(Nanos::MAX);
        state.wakes_at = self.wakes_at;
        shared.tell(&state, std::mem::take(&mut self.inbox.has_met));
        let reports: Vec<Report> =
            self.inbox.reports_due.drain(..).filter_map(|topic| Report::of(&state, topic)).collect();
        drop(state);
        for report in reports {
            report.hand_on();
        }
    }

    fn reconnect(&mut self, state: &mut State, now: Nanos) {
        let Some(channel) = self.channel.as_mut().filter(|channel| !channel.is_tried && channel.at <= now) else {
            return;
        };
        let Some(to) = channel.to.get(channel.next % channel.to.len().max(1)) else { return };
        channel.next = channel.next.wrapping_add(1);
        match self.streams.connect(*to, now, &mut state.outputs) {
            Ok(()) => channel.is_tried = true,
            Err(error) => {
                state.outputs.note_trouble(CHANNEL, Some(&error));
                channel.failed(now);
            }
        }
    }

    /// Tells the state machine about changes of streams.
    fn apply_changes(&mut self, state: &mut State, now: Nanos) {
        for change in self.changes.drain(..) {
            match change {
                Change::Opened(number) => state.core.stream_opened(now, number),
                Change::Ready(number) => state.core.set_ready(Place::Stream(number), true),
                Change::Closed(number) => {
                    let mut sink = Sink { inbox: &mut self.inbox, bytes: &[], begin: 0 };
                    state.core.stream_closed(number, &mut sink);
                    if let Some(channel) = self.channel.as_mut().filter(|_| number == CHANNEL) {
                        channel.failed(now);
                    }
                }
            }
        }
    }
}

/// A copy of the topics' handlers, so that callbacks need no lock.
#[derive(Default)]
struct Topics {
    handlers: Vec<(TopicId, Handler)>,
    version: u64,
}

impl Topics {
    fn learn(&mut self, state: &State) {
        if state.topics_version != self.version {
            self.handlers.clone_from(&state.topics);
            self.version = state.topics_version;
        }
    }
}

impl Reconnect {
    /// Notes a failed attempt, or the loss of the connection.
    fn failed(&mut self, now: Nanos) {
        let wait = self.backoff.failed(Instant::now());
        self.at = now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        self.is_tried = false;
    }
}

impl Inbox {
    /// Passes the messages to their topics' handlers.
    fn hand_on(&mut self, topics: &[(TopicId, Handler)], came: &[u8]) {
        let mut rest = self.deliveries.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.iter().position(|other| other.topic != first.topic).unwrap_or(rest.len());
            let (these, others) = rest.split_at(count);
            rest = others;
            let handler = topics.iter().find(|(topic, _)| *topic == first.topic).map(|(_, handler)| handler);
            if let Some(Handler::Subscriber(subscribing)) = handler {
                subscribing.take(these.iter().map(|delivery| delivery.message(came, &self.copied)));
            }
        }
        self.deliveries.clear();
        self.copied.clear();
    }
}

impl Delivery {
    fn message<'m>(&self, came: &'m [u8], copied: &'m [u8]) -> Message<'m> {
        let octets = match &self.at {
            At::Came(range) => came.get(range.clone()),
            At::Copied(range) => copied.get(range.clone()),
        };
        Message {
            octets: octets.unwrap_or_default(),
            content: self.content,
            priority: self.priority,
            sequence: self.sequence,
            sent_ns: self.sent,
            from: self.from,
        }
    }
}

/// A report and its recipient.
enum Report {
    Publisher(PublisherReport, Arc<Publishing>),
    Subscriber(SubscriberReport, Arc<Subscribing>),
}

impl Report {
    fn of(state: &State, topic: TopicId) -> Option<Self> {
        let (_, handler) = state.topics.iter().find(|(other, _)| *other == topic)?;
        Some(match handler {
            Handler::Publisher(to) => Self::Publisher(PublisherReport::of(&*state.core, topic), Arc::clone(to)),
            Handler::Subscriber(to) => {
                Self::Subscriber(SubscriberReport::of(&*state.core, topic, &to.queue), Arc::clone(to))
            }
        })
    }

    fn hand_on(&self) {
        match self {
            Self::Publisher(report, to) => lock(&to.on_report).iter_mut().for_each(|told| told(report)),
            Self::Subscriber(report, to) => lock(&to.on_report).iter_mut().for_each(|told| told(report)),
        }
    }
}
