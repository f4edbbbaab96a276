//! Simulated network: connections with latency, full buffers, short reads and writes, ends and resets; and the clock, which stands still
//! unless it is set forward or read.

mod datagrams;
mod lines;
#[cfg(test)]
mod tests;

use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use fastrand::Rng;

use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::simulation::network::datagrams::Bound;
use crate::simulation::sockets::SERVICE;

thread_local! {
    static NET: RefCell<Option<Net>> = const { RefCell::new(None) };
}

/// Calls `what` with this thread's network, if there is one.
pub(crate) fn with<T>(what: impl FnOnce(&mut Net) -> T) -> Option<T> {
    // While the thread ends there is none.
    NET.try_with(|net| net.borrow_mut().as_mut().map(what)).ok().flatten()
}

/// Sets or removes this thread's network.
pub(crate) fn set(net: Option<Net>) {
    NET.with(|place| *place.borrow_mut() = net);
}

/// Identifies an object of the network: an end of a connection, a listener, a waker, a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u64);

/// Why a socket operation is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The operation would block.
    WouldBlock,
    /// The peer has reset the connection.
    Reset,
    /// No listener is there.
    Refused,
}

/// How an address answers attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// Accepts connections, for the listener with this number.
    Listens(Id),
    /// Refuses connections: the host has no listener.
    Refuses,
    /// Does not answer.
    Silent,
}

/// Disturbances of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Percentage of reads and writes that are short without need.
    pub(crate) short_percent: u8,
    /// Time for which octets are under way.
    pub(crate) latency: Duration,
    /// Variation of the latency.
    pub(crate) jitter: Duration,
    /// Maximum unread octets of an end; some keep much less.
    pub(crate) window_bytes: usize,
    /// Time that each reading of the clock takes.
    pub(crate) reading: Duration,
    /// Frequencies with which a datagram is lost, doubled, or delayed behind later ones, per 1,000.
    pub(crate) lost: u16,
    pub(crate) doubled: u16,
    pub(crate) delayed: u16,
    /// Frequency with which a socket for datagrams is found full, per 1,000, and the maximum time for which it stays so.
    pub(crate) full: u16,
    pub(crate) full_for: Duration,
}

impl Weather {
    /// No disturbances: nothing is late, short or full.
    pub(crate) const FAIR: Self = Self {
        short_percent: 0,
        latency: Duration::from_micros(10),
        jitter: Duration::ZERO,
        window_bytes: 256 << 10,
        reading: Duration::from_nanos(100),
        lost: 0,
        doubled: 0,
        delayed: 0,
        full: 0,
        full_for: Duration::ZERO,
    };

    /// Maximum delay of datagrams that arrive behind later ones.
    pub(crate) const DELAYED_BY: Duration = Duration::from_millis(5);
}

/// Data under way to an end.
#[derive(Debug)]
enum Packet {
    Bytes(Vec<u8>),
    /// Result of the attempt to connect.
    Connected,
    Refused,
    /// End of the stream.
    End,
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Refused,
    Open,
    Reset,
}

/// One end of a connection.
#[derive(Debug)]
struct End {
    other: Id,
    peer: SocketAddr,
    phase: Phase,
    arrived: VecDeque<u8>,
    /// Packets in order, with their times of arrival.
    under_way: VecDeque<(Duration, Packet)>,
    bytes_under_way: usize,
    window_bytes: usize,
    /// Whether the peer's stream has ended.
    has_ended: bool,
    /// Whether the stream to the peer has ended.
    is_shut: bool,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    waiting: VecDeque<(Id, SocketAddr)>,
}

#[derive(Debug, Default)]
struct Notifying {
    notifications: u64,
    /// Time limit of the thread's wait, after it found the waker silent.
    until: Option<Duration>,
}

/// The network and the clock.
#[derive(Debug)]
pub(crate) struct Net {
    rng: Rng,
    pub(super) weather: Weather,
    now: Duration,
    began: Instant,
    next: u64,
    ends: BTreeMap<Id, End>,
    listeners: BTreeMap<Id, Listening>,
    bound: BTreeMap<Id, Bound>,
    wakers: BTreeMap<Id, Notifying>,
    polls: BTreeMap<Id, BTreeMap<Id, (Socket, Interest)>>,
    hosts: BTreeMap<SocketAddr, Host>,
    /// Host of the running service.
    pub(super) here: IpAddr,
    /// Pairs of hosts with a line on which nothing arrives before a time.
    stalls: Vec<(IpAddr, IpAddr, Duration)>,
    /// Number of calls of polls.
    waits: u64,
}

impl Net {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            weather,
            now: Duration::ZERO,
            began: Instant::now(),
            next: 0,
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            bound: BTreeMap::new(),
            wakers: BTreeMap::new(),
            polls: BTreeMap::new(),
            hosts: BTreeMap::new(),
            here: SERVICE.ip(),
            stalls: Vec::new(),
            waits: 0,
        }
    }

    /// Time since the simulation began.
    pub(crate) const fn time(&self) -> Duration {
        self.now
    }

    /// Reads the clock. That takes a moment, so that work until a given time ends.
    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now += self.weather.reading;
        self.began + self.now
    }

    /// Sets the clock forward, and delivers all packets due by then.
    pub(crate) fn go_to(&mut self, time: Duration) {
        self.now = self.now.max(time);
        let now = self.now;
        for end in self.ends.values_mut() {
            while end.under_way.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, packet)) = end.under_way.pop_front() else { break };
                end.take_in(packet);
            }
        }
        for socket in self.bound.values_mut() {
            let mut due: Vec<_> = socket.under_way.extract_if(.., |(due, ..)| *due <= now).collect();
            due.sort_by_key(|(due, ..)| *due);
            socket.arrived.extend(due);
        }
    }

    /// Time of the next arrival, or when a full socket has room again.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let of_ends = self.ends.values().filter_map(|end| end.under_way.front()).map(|(due, _)| *due);
        let of_sockets = self.bound.values().flat_map(|socket| &socket.under_way).map(|(due, ..)| *due);
        let room = self.bound.values().filter(|socket| socket.is_full(self.now)).map(|socket| socket.full_until);
        of_ends.chain(of_sockets).chain(room).min()
    }

    fn id(&mut self) -> Id {
        self.next += 1;
        Id(self.next)
    }

    /// Sets how an address answers.
    pub(crate) fn set_host(&mut self, address: SocketAddr, host: Host) {
        self.hosts.insert(address, host);
    }

    /// Listens at an address.
    pub(crate) fn listen(&mut self, address: SocketAddr) -> Id {
        let id = self.id();
        self.listeners.insert(id, Listening { address, waiting: VecDeque::new() });
        self.set_host(address, Host::Listens(id));
        id
    }

    /// Stops listening. Connections that wait to be taken are reset.
    pub(crate) fn close_listener(&mut self, listener: Id) {
        let Some(Listening { address, waiting }) = self.listeners.remove(&listener) else { return };
        self.hosts.insert(address, Host::Refuses);
        waiting.into_iter().for_each(|(end, _)| self.reset(end));
    }

    pub(crate) fn local_addr(&self, listener: Id) -> Option<SocketAddr> {
        self.listeners.get(&listener).map(|listening| listening.address)
    }

    /// Starts to connect.
    pub(crate) fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Id {
        let (ours, theirs) = (self.id(), self.id());
        let window_bytes = self.weather.window_bytes;
        self.ends.insert(ours, End::new(theirs, to, Phase::Connecting, window_bytes));
        match self.hosts.get(&to).copied() {
            Some(Host::Listens(listener)) if self.listeners.contains_key(&listener) => {
                self.ends.insert(theirs, End::new(ours, from, Phase::Open, window_bytes));
                if let Some(listening) = self.listeners.get_mut(&listener) {
                    listening.waiting.push_back((theirs, from));
                }
                self.send(ours, Packet::Connected);
            }
            Some(Host::Silent) => {}
            _ => self.send(ours, Packet::Refused),
        }
        ours
    }

    /// Accepts a connection.
    pub(crate) fn accept(&mut self, listener: Id) -> Option<(Id, SocketAddr)> {
        let (end, from) = self.listeners.get_mut(&listener)?.waiting.pop_front()?;
        Some((end, from))
    }

    /// Sends a packet to an end, behind all that are under way there.
    fn send(&mut self, to: Id, packet: Packet) {
        let jitter = self.rng.u64(0..=u64::try_from(self.weather.jitter.as_nanos()).unwrap_or(0));
        let due = self.stalled_until(to).max(self.now) + self.weather.latency + Duration::from_nanos(jitter);
        let Some(end) = self.ends.get_mut(&to) else { return };
        if let Packet::Bytes(bytes) = &packet {
            end.bytes_under_way += bytes.len();
        }
        let due = end.under_way.back().map_or(due, |(last, _)| due.max(*last));
        end.under_way.push_back((due, packet));
    }

    /// Number of octets read or written at once, of `most` possible.
    fn transfer_size(&mut self, most: usize) -> usize {
        if most > 1 && self.rng.u8(0..100) < self.weather.short_percent { self.rng.usize(1..most) } else { most }
    }

    /// Appends input to `buffer`, up to `most` octets. 0 at the end of the stream.
    pub(crate) fn read(&mut self, end: Id, buffer: &mut Vec<u8>, most: usize) -> Result<usize, Trouble> {
        let there = self.ends.get(&end).map_or(0, |end| end.arrived.len()).min(most);
        let count = self.transfer_size(there);
        let Some(end) = self.ends.get_mut(&end) else { return Err(Trouble::Reset) };
        match end.phase {
            Phase::Connecting => return Err(Trouble::WouldBlock),
            Phase::Refused => return Err(Trouble::Refused),
            Phase::Reset => return Err(Trouble::Reset),
            Phase::Open => {}
        }
        if end.arrived.is_empty() {
            return if end.has_ended { Ok(0) } else { Err(Trouble::WouldBlock) };
        }
        let (first, second) = end.arrived.as_slices();
        let of_first = count.min(first.len());
        buffer.extend_from_slice(first.get(..of_first).unwrap_or_default());
        buffer.extend_from_slice(second.get(..count - of_first).unwrap_or_default());
        end.arrived.drain(..count);
        Ok(count)
    }

    /// Whether there is unread input.
    pub(crate) fn has_unread(&self, end: Id) -> bool {
        self.ends.get(&end).is_some_and(|end| end.phase == Phase::Open && !end.arrived.is_empty())
    }

    /// Writes as many octets as there is room for, or less.
    pub(crate) fn write(&mut self, end: Id, bytes: &[u8]) -> Result<usize, Trouble> {
        let Some(ours) = self.ends.get(&end) else { return Err(Trouble::Reset) };
        let other = ours.other;
        match ours.phase {
            Phase::Connecting => return Err(Trouble::WouldBlock),
            Phase::Refused => return Err(Trouble::Refused),
            Phase::Reset => return Err(Trouble::Reset),
            Phase::Open => {}
        }
        let Some(theirs) = self.ends.get(&other) else {
            // The other end is gone, which a reset reports once the bytes have been there.
            self.send(end, Packet::Reset);
            return Ok(bytes.len());
        };
        let room = theirs.room().min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return Err(Trouble::WouldBlock);
        }
        let count = self.transfer_size(room);
        let sent = bytes.get(..count).unwrap_or_default().to_vec();
        self.send(other, Packet::Bytes(sent));
        Ok(count)
    }

    /// Ends the stream to the peer.
    pub(crate) fn shut(&mut self, end: Id) {
        let Some(ours) = self.ends.get_mut(&end) else { return };
        if !core::mem::replace(&mut ours.is_shut, true) {
            let other = ours.other;
            self.send(other, Packet::End);
        }
    }

    /// Closes an end. If input was not read, the peer gets a reset.
    pub(crate) fn close(&mut self, end: Id) {
        let Some(ours) = self.ends.remove(&end) else { return };
        let in_vain = !ours.arrived.is_empty() || ours.phase == Phase::Reset;
        if in_vain {
            self.send(ours.other, Packet::Reset);
        } else if !ours.is_shut {
            self.send(ours.other, Packet::End);
        }
    }

    /// Resets an end. Packets under way from it are lost.
    pub(crate) fn reset(&mut self, end: Id) {
        let Some(ours) = self.ends.remove(&end) else { return };
        if let Some(other) = self.ends.get_mut(&ours.other) {
            other.under_way.retain(|(_, packet)| matches!(packet, Packet::Connected));
            other.bytes_under_way = 0;
        }
        self.send(ours.other, Packet::Reset);
    }

    /// Result of an attempt to connect, if it has ended.
    pub(crate) fn connected(&self, end: Id) -> Option<Result<(), Trouble>> {
        match self.ends.get(&end)?.phase {
            Phase::Connecting => None,
            Phase::Open => Some(Ok(())),
            Phase::Refused => Some(Err(Trouble::Refused)),
            Phase::Reset => Some(Err(Trouble::Reset)),
        }
    }

    pub(crate) fn peer_ip(&self, end: Id) -> Option<SocketAddr> {
        self.ends.get(&end).map(|end| end.peer)
    }

    /// Number of ends.
    pub(crate) fn open_ends(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is input, or an end or failure to report.
    pub(crate) fn is_readable(&self, end: Id) -> bool {
        let Some(end) = self.ends.get(&end) else { return false };
        !end.arrived.is_empty() || end.has_ended || matches!(end.phase, Phase::Reset | Phase::Refused)
    }

    /// Whether a write would transfer octets, or report a failure.
    pub(crate) fn has_room(&self, end: Id) -> bool {
        let Some(end) = self.ends.get(&end) else { return true };
        match end.phase {
            Phase::Connecting => false,
            Phase::Open => self.ends.get(&end.other).is_none_or(|other| other.room() > 0),
            Phase::Refused | Phase::Reset => true,
        }
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn has_callers(&self, listener: Id) -> bool {
        self.listeners.get(&listener).is_some_and(|listening| !listening.waiting.is_empty())
    }

    pub(crate) fn new_waker(&mut self) -> Id {
        let id = self.id();
        self.wakers.insert(id, Notifying::default());
        id
    }

    pub(crate) fn notify(&mut self, waker: Id) {
        if let Some(notifying) = self.wakers.get_mut(&waker) {
            notifying.notifications += 1;
        }
    }

    /// Resets a waker. Returns the number of its notifications.
    pub(crate) fn clear(&mut self, waker: Id) -> u64 {
        self.wakers.get_mut(&waker).map_or(0, |notifying| core::mem::take(&mut notifying.notifications))
    }

    /// Waits for a waker only. If it was not notified, the end of the wait is noted.
    pub(crate) fn wait_for(&mut self, waker: Id, timeout: Option<Duration>) {
        let until = self.now + timeout.unwrap_or(Duration::from_secs(1 << 40));
        if let Some(notifying) = self.wakers.get_mut(&waker) {
            notifying.until = (notifying.notifications == 0).then_some(until);
            notifying.notifications = 0;
        }
    }

    /// Ends the wait for this waker.
    pub(crate) fn wake(&mut self, waker: Id) {
        if let Some(notifying) = self.wakers.get_mut(&waker) {
            notifying.until = None;
        }
    }

    /// When the wait for this waker ends; `None` if it was notified.
    pub(crate) fn waits_until(&self, waker: Id) -> Option<Duration> {
        self.wakers.get(&waker).and_then(|notifying| if notifying.notifications > 0 { None } else { notifying.until })
    }

    pub(crate) fn new_poll(&mut self) -> Id {
        let id = self.id();
        self.polls.insert(id, BTreeMap::new());
        id
    }

    pub(crate) fn close_poll(&mut self, poll: Id) {
        self.polls.remove(&poll);
    }

    /// Adds an object to a poll, or changes its interest.
    pub(crate) fn register(&mut self, poll: Id, what: Id, socket: Socket, interest: Interest) {
        if let Some(registered) = self.polls.get_mut(&poll) {
            registered.insert(what, (socket, interest));
        }
    }

    pub(crate) fn unregister(&mut self, poll: Id, what: Id) {
        if let Some(registered) = self.polls.get_mut(&poll) {
            registered.remove(&what);
        }
    }

    /// Number of calls of polls.
    pub(crate) const fn waits(&self) -> u64 {
        self.waits
    }

    /// Events of a poll, in random order.
    pub(crate) fn poll(&mut self, poll: Id) -> Vec<Ready> {
        self.waits += 1;
        let mut ready: Vec<_> = self.ready(poll).collect();
        self.rng.shuffle(&mut ready);
        ready
    }

    /// Whether a poll has events.
    pub(crate) fn is_ready(&self, poll: Id) -> bool {
        self.ready(poll).next().is_some()
    }

    fn ready(&self, poll: Id) -> impl Iterator<Item = Ready> {
        let registered = self.polls.get(&poll).into_iter().flatten();
        registered.filter_map(|(what, (socket, interest))| self.state(*what, *socket, *interest))
    }

    /// The event of one object in a poll, if there is any.
    fn state(&self, what: Id, socket: Socket, interest: Interest) -> Option<Ready> {
        let silent = Ready { socket, readable: false, writable: false, ended: false, broken: false };
        if let Some(notifying) = self.wakers.get(&what) {
            return (interest.read && notifying.notifications > 0).then_some(Ready { readable: true, ..silent });
        }
        if self.listeners.contains_key(&what) {
            return (interest.read && self.has_callers(what)).then_some(Ready { readable: true, ..silent });
        }
        if let Some(bound) = self.bound.get(&what) {
            let readable = interest.read && !bound.arrived.is_empty();
            let writable = interest.write && !bound.is_full(self.now);
            return (readable || writable).then_some(Ready { readable, writable, ..silent });
        }
        let end = self.ends.get(&what)?;
        let is_broken = matches!(end.phase, Phase::Reset | Phase::Refused) || (end.has_ended && end.is_shut);
        let has_room = self.has_room(what);
        let something = !end.arrived.is_empty() || end.has_ended;
        let reports_end = end.has_ended && interest.end;
        let ready = Ready {
            readable: is_broken || reports_end || (interest.read && something),
            writable: is_broken || (interest.write && has_room),
            ended: is_broken || reports_end,
            broken: is_broken,
            socket,
        };
        (ready != silent).then_some(ready)
    }

    /// An address of this host with a new port, to connect from.
    pub(crate) fn address_of(&mut self, ip: IpAddr) -> SocketAddr {
        self.next += 1;
        SocketAddr::new(ip, 10_000 + u16::try_from(self.next % 50_000).unwrap_or(0))
    }
}

impl End {
    const fn new(other: Id, peer: SocketAddr, phase: Phase, window_bytes: usize) -> Self {
        Self {
            other,
            peer,
            phase,
            arrived: VecDeque::new(),
            under_way: VecDeque::new(),
            bytes_under_way: 0,
            window_bytes,
            has_ended: false,
            is_shut: false,
        }
    }

    /// Octets for which the end has room.
    fn room(&self) -> usize {
        self.window_bytes.saturating_sub(self.arrived.len() + self.bytes_under_way)
    }

    fn take_in(&mut self, packet: Packet) {
        match packet {
            Packet::Bytes(bytes) => {
                self.bytes_under_way = self.bytes_under_way.saturating_sub(bytes.len());
                self.arrived.extend(bytes);
            }
            Packet::Connected => self.phase = Phase::Open,
            Packet::Refused => self.phase = Phase::Refused,
            Packet::End => self.has_ended = true,
            Packet::Reset => {
                self.phase = Phase::Reset;
                self.arrived.clear();
            }
        }
    }
}
