//! End points: settings, sockets, start and end.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempo::endpoint::{Channel, Counters, Name, Place, Settings};
use tempo::wire::{DATAGRAM, HEADER, PAYLOAD_MAX, PERIODS_MS};

use super::address::{Address, Transport, is_broadcast};
use super::core::{self, Core, Large, MESSAGE_MAX, MESSAGE_USUAL, PEERS_MAX};
use super::datagrams::{Datagrams, GroupOptions, any_port_like, datagram_towards};
use super::driver::{Driver, Tap};
use super::error::Error;
use super::publisher::PublisherBuilder;
use super::shared::Shared;
use super::streams::{CHANNEL, StreamTls, Streams};
use super::subscriber::SubscriberBuilder;
use crate::lock;
use crate::orb::default_name;
use crate::wire::OrbTls;

/// Default room for each connection's pending output, in octets.
const STREAM_ROOM: usize = 256 * 1024;
/// Smallest datagram size that can be set, in octets: an announcement of the longest name has to fit.
const DATAGRAM_MIN: usize = 512;

/// An end point: one session at one address, for as many publishers and subscribers as there are topics.
///
/// It has a thread of its own, which runs callbacks and ends when the node and everything made from it are dropped. Clones are the same end
/// point. Publishers and subscribers of one end point do not hear each other.
///
/// ```no_run
/// use campanile_client::tempo::Node;
///
/// let node = Node::open("udp://239.1.2.3:2811")?;
/// let wind = node.publisher("Weather/Wind").rate(10.0).open()?;
/// let rain = node.subscriber("Weather/Rain").on(|message| println!("{} octets", message.octets.len()))?;
/// wind.publish(b"11.5 m/s")?;
/// # Ok::<(), campanile_client::tempo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) inner: Arc<Inner>,
}

/// An end point, which ends when its last owner drops it.
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: Option<u32>,
    local: Vec<SocketAddr>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The loop; `None` if the end point's thread runs it.
    driver: Mutex<Option<Driver>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("channel", &self.channel).field("local", &self.local).finish_non_exhaustive()
    }
}

impl Node {
    /// Opens an end point at an address: `udp://HOST:PORT[/CHANNEL]`, `tcp://…` or `tls://…`, with `@` before the host to listen there. For
    /// TLS there are [settings](NodeBuilder::tls). A multicast group, or a network's broadcast address, is recognised as one.
    ///
    /// # Errors
    /// If the address cannot be read or found, or there is no socket for it.
    pub fn open(address: &str) -> Result<Self, Error> {
        Self::builder(address)?.open()
    }

    /// Settings for an end point at an address.
    ///
    /// # Errors
    /// If the address cannot be read.
    pub fn builder(address: &str) -> Result<NodeBuilder, Error> {
        Ok(NodeBuilder {
            address: address.parse()?,
            bind: None,
            group: GroupOptions { interface: None, ttl: 1 },
            datagram: None,
            message_max: MESSAGE_USUAL,
            period: Duration::from_secs(1),
            stream_room: STREAM_ROOM,
            streams_max: PEERS_MAX,
            tls: None,
            has_thread: true,
            tap: None,
            name: None,
        })
    }

    /// The end point's session number.
    #[must_use]
    pub fn session(&self) -> u32 {
        self.inner.shared.state().core.session()
    }

    /// Discarded and refused items, by reason.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *self.inner.shared.state().core.counters()
    }

    /// The local address: of UDP, or where it listens by TCP. `None` if it only connects.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.inner.local.first().copied()
    }

    /// Why the peer or broker is not connected over TCP or TLS: the error of the last attempt. `None` if it is connected, if nothing is
    /// known yet, and over UDP.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.inner.shared.state().outputs.trouble().map(str::to_owned)
    }

    /// A publisher on a topic. A topic's name is by convention `Domain/Name`.
    #[must_use]
    pub fn publisher(&self, topic: &str) -> PublisherBuilder {
        PublisherBuilder::new(self.clone(), topic)
    }

    /// A subscriber to a topic.
    #[must_use]
    pub fn subscriber(&self, topic: &str) -> SubscriberBuilder {
        SubscriberBuilder::new(self.clone(), topic)
    }

    /// Runs the loop once, waiting for at most the timeout. For end points [without a thread](NodeBuilder::without_thread); callbacks run
    /// on the caller's. No effect on others.
    pub fn poll(&self, timeout: Duration) {
        if let Some(driver) = &mut *lock(&self.inner.driver) {
            driver.run_once(Some(timeout));
        }
    }

    /// Waits until published messages have left this process. Returns false on timeout, and, [without a
    /// thread](NodeBuilder::without_thread), whenever they cannot leave at once.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.inner.shared.wait_until_sent(timeout)
    }

    /// The topic's full name, as for a broker.
    pub(super) fn full_name(&self, topic: &str) -> String {
        match self.inner.channel {
            None | Some(0) => topic.to_owned(),
            Some(channel) => format!("@{channel}/{topic}"),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(driver) = &mut *lock(&self.driver) {
            driver.shut_down();
        }
        if let Some(thread) = lock(&self.thread).take()
            // A callback may have had the last of it; its thread ends when it returns.
            && thread.thread().id() != thread::current().id()
        {
            // A callback's panic has been reported already.
            let _ = thread.join();
        }
    }
}

/// Settings of an end point.
pub struct NodeBuilder {
    address: Address,
    bind: Option<SocketAddr>,
    group: GroupOptions,
    datagram: Option<usize>,
    message_max: usize,
    period: Duration,
    stream_room: usize,
    streams_max: usize,
    tls: Option<OrbTls>,
    has_thread: bool,
    tap: Option<Tap>,
    name: Option<String>,
}

impl fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder").field("address", &self.address).field("bind", &self.bind).finish_non_exhaustive()
    }
}

impl NodeBuilder {
    /// The end point's name in brokers' logs, statistics and metrics: 64 octets at most, without control characters. An invalid or empty
    /// one is not sent. Default: the program's name, `@` and the host's. It gives no rights.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Binds a local address, beside the address of the counterpart: over UDP it sends from there, over TCP it listens there. Default: over
    /// UDP a free port, over TCP none.
    #[must_use]
    pub fn bind(mut self, at: SocketAddr) -> Self {
        self.bind = Some(at);
        self
    }

    /// The network of a group, by this machine's address there. Default: the system's choice. For IPv6 groups the number is in the address,
    /// as in `udp://[ff02::7%2]:2811`.
    #[must_use]
    pub const fn interface(mut self, interface: IpAddr) -> Self {
        self.group.interface = Some(interface);
        self
    }

    /// Hop limit of datagrams to the group: 0 stays on this machine, 1 on its network, each router takes one more. Default 1.
    #[must_use]
    pub const fn ttl(mut self, ttl: u8) -> Self {
        self.group.ttl = ttl as u32;
        self
    }

    /// Maximum octets of a datagram, 512 to 65,507. Default: 1,472, or what the path takes if that is less. IP fragments larger ones, which
    /// are lost if one fragment is.
    #[must_use]
    pub const fn datagram(mut self, octets: usize) -> Self {
        self.datagram = Some(octets);
        self
    }

    /// Octets of the largest message accepted, at most 1 MiB. Default 64 KiB. Above that the end point takes 10 MB of memory instead of 1
    /// MB, with more room for queued messages. Subscribers announce this limit to publishers, and get nothing larger.
    #[must_use]
    pub const fn messages_up_to(mut self, octets: usize) -> Self {
        self.message_max = octets;
        self
    }

    /// Announcement period, 10 ms to 60 s. Default 1 s. Reports and probes are as frequent; a peer that is silent for three of its periods
    /// is gone.
    #[must_use]
    pub const fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Octets that may be pending for each TCP connection, at least 131,014. Default 256 KiB. Beyond that the messages of the topic wait in
    /// its queue.
    #[must_use]
    pub const fn stream_room(mut self, octets: usize) -> Self {
        self.stream_room = octets;
        self
    }

    /// Maximum number of accepted connections, 1 to 1,023. Default 256. Others are closed.
    #[must_use]
    pub const fn connections_max(mut self, count: usize) -> Self {
        self.streams_max = count;
        self
    }

    /// Settings of TLS, for an address `tls://…`: the authorities to trust, and the own certificate, required for listening. The
    /// counterparts' certificates must name the host of the address. Read once, when the end point opens.
    #[must_use]
    pub fn tls(mut self, tls: OrbTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Runs without a thread: the program calls [`Node::poll`] repeatedly. Publishing then never waits for room.
    #[must_use]
    pub const fn without_thread(mut self) -> Self {
        self.has_thread = false;
        self
    }

    /// Sets a tap for all input before it is processed, on the end point's thread: the octets of a datagram, or the unconsumed octets of a
    /// connection, and their sender. For debugging the protocol.
    #[must_use]
    pub fn tap(mut self, tap: impl FnMut(SocketAddr, &[u8]) + Send + 'static) -> Self {
        self.tap = Some(Box::new(tap));
        self
    }

    /// Opens the sockets and starts the end point.
    ///
    /// # Errors
    /// If the address cannot be found, a setting is out of its range, or the system has no socket or thread.
    pub fn open(self) -> Result<Node, Error> {
        let period_ms = u16::try_from(self.period.as_millis()).ok().filter(|period| PERIODS_MS.contains(period));
        let period_ms = period_ms.ok_or(Error::Setting { name: "the period", range: "from 10 ms to 60 s" })?;
        let largest = HEADER + PAYLOAD_MAX;
        if self.datagram.is_some_and(|octets| !(DATAGRAM_MIN..=largest).contains(&octets)) {
            return Err(Error::Setting { name: "a datagram", range: "from 512 to 65,507 octets" });
        }
        if self.message_max > MESSAGE_MAX {
            return Err(Error::Setting { name: "the largest message", range: "1 MiB at most" });
        }
        let places = self.address.resolve().map_err(|error| Error::Host { address: self.address.clone(), error })?;
        let tls = self.read_tls()?;
        let sockets = Sockets::open(&self, &places)?;
        let settings = Settings {
            session: random_session()?,
            secret: (random()?, random()?),
            channel: sockets.channel,
            period_ms,
            datagram: self.datagram.unwrap_or(sockets.datagram),
            name: self.own_name(),
            seed: random()?,
        };
        let core = new_core(settings, self.message_max)?;
        let shared = Shared::new(core, sockets.datagrams, self.stream_room).map_err(Error::System)?;
        let shared = Arc::new(shared);
        let streams = Streams::new(sockets.listener, self.streams_max, tls);
        let driver = Driver::new(Arc::clone(&shared), streams, sockets.connects_to, self.tap);
        let (mut kept, mut running) = (None, None);
        if self.has_thread {
            let thread = thread::Builder::new().name("tempo".to_owned()).spawn(move || driver.run());
            running = Some(thread.map_err(Error::System)?);
        } else {
            kept = Some(driver);
        }
        let inner = Inner {
            shared,
            channel: self.address.channel,
            local: sockets.local,
            thread: Mutex::new(running),
            driver: Mutex::new(kept),
        };
        Ok(Node { inner: Arc::new(inner) })
    }

    /// The name sent to brokers. A default that is too long is truncated.
    fn own_name(&self) -> Name {
        match &self.name {
            Some(name) => Name::new(name).unwrap_or(Name::NONE),
            None => {
                let name = default_name();
                Name::new(&name[..name.floor_char_boundary(Name::OCTETS_MAX)]).unwrap_or(Name::NONE)
            }
        }
    }

    /// Reads the files for TLS, if it is used.
    fn read_tls(&self) -> Result<Option<StreamTls>, Error> {
        let Address { transport: Transport::Tls, host, waits, .. } = &self.address else { return Ok(None) };
        let ends = self.tls.as_ref().ok_or(Error::TlsUnset)?.read().map_err(Error::Tls)?;
        if ends.server.is_none() && (*waits || self.bind.is_some()) {
            return Err(Error::NoCertificate);
        }
        Ok(Some(StreamTls { ends, host: host.clone() }))
    }
}

/// The sockets for an address and the settings.
struct Sockets {
    channel: Channel,
    datagrams: Option<Datagrams>,
    datagram: usize,
    listener: Option<TcpListener>,
    connects_to: Vec<SocketAddr>,
    local: Vec<SocketAddr>,
}

impl Sockets {
    fn open(builder: &NodeBuilder, places: &[SocketAddr]) -> Result<Self, Error> {
        match builder.address.transport {
            Transport::Udp => Self::udp(builder, places),
            Transport::Tcp | Transport::Tls => Self::tcp(builder, places),
        }
    }

    fn udp(builder: &NodeBuilder, places: &[SocketAddr]) -> Result<Self, Error> {
        // A name may stand for several addresses; over UDP a missing listener does not show. IPv4 is the likelier.
        let place = places.iter().find(|place| place.is_ipv4()).or(places.first()).copied();
        let place = place
            .ok_or_else(|| Error::Host { address: builder.address.clone(), error: io::ErrorKind::NotFound.into() })?;
        let own = builder.bind.unwrap_or_else(|| any_port_like(place));
        let (at, channel, opened) = if builder.address.waits {
            (place, Channel::None, Datagrams::at(place))
        } else if place.ip().is_multicast() {
            (place, Channel::Group(place), Datagrams::of_multicast(place, own, builder.group))
        } else if is_broadcast(place) {
            (place, Channel::Group(place), Datagrams::of_broadcast(place, own))
        } else {
            (own, Channel::Peer(Place::Datagram(place)), Datagrams::at(own))
        };
        let datagrams = opened.map_err(|error| Error::Socket { at, error })?;
        let local = datagrams.local_address().map_err(|error| Error::Socket { at, error })?;
        let towards = if builder.address.waits { None } else { datagram_towards(place) };
        let datagram = towards.map_or(DATAGRAM, |octets| octets.clamp(DATAGRAM_MIN, DATAGRAM));
        Ok(Self {
            channel,
            datagrams: Some(datagrams),
            datagram,
            listener: None,
            connects_to: Vec::new(),
            local: vec![local],
        })
    }

    fn tcp(builder: &NodeBuilder, places: &[SocketAddr]) -> Result<Self, Error> {
        let listens_at = if builder.address.waits { places.first().copied() } else { builder.bind };
        let listener = match listens_at {
            Some(at) => Some(listen(at).map_err(|error| Error::Socket { at, error })?),
            None => None,
        };
        let local = listener.as_ref().and_then(|listener| listener.local_addr().ok()).into_iter().collect();
        let (channel, connects_to) = if builder.address.waits {
            (Channel::None, Vec::new())
        } else {
            (Channel::Peer(Place::Stream(CHANNEL)), places.to_vec())
        };
        Ok(Self { channel, datagrams: None, datagram: DATAGRAM, listener, connects_to, local })
    }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Makes a state machine, which is large, on a thread with enough stack: it may be built on the stack on its way to the heap.
fn new_core(settings: Settings, message_max: usize) -> Result<Box<dyn Core>, Error> {
    let stack = 3 * size_of::<Large>() + (1 << 20);
    let maker = thread::Builder::new().name("tempo-begins".to_owned()).stack_size(stack);
    let maker = maker.spawn(move || core::new(settings, message_max)).map_err(Error::System)?;
    maker.join().map_err(|_| Error::System(io::ErrorKind::OutOfMemory.into()))
}

fn random() -> Result<u64, Error> {
    crate::random::octets().map(u64::from_ne_bytes).map_err(Error::System)
}

/// A session's number; never 0.
fn random_session() -> Result<u32, Error> {
    Ok(u32::try_from(random()? >> 32).unwrap_or_default().max(1))
}
