//! Campanile as a contender: a service in a process of its own, and channels in it with suppliers and consumers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use client::notify::{
    ClientType, ConsumerAdmin, EventChannel, EventChannelFactory, EventType, Property, ProxyPullSupplier,
    ProxyPushConsumer, ProxyPushSupplier, SequenceProxyPullSupplier, SequenceProxyPushConsumer,
    SequenceProxyPushSupplier, StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
    ThreadPoolLanes,
};
use client::{ObjectRef, Orb, OrbOptions};
use giop::cdr::Version;
use giop::ior::{CodeSetInfo, Component, IiopProfile, Ior};
use giop::realtime::PriorityModel;

use crate::process::{Process, arguments, ready_address};
use crate::{BenchError, CarriageOptions, DeliveryOptions, Form, clock};

/// Its name in reports.
pub const NAME: &str = "Campanile";

impl Form {
    const fn client_type(self) -> ClientType {
        match self {
            Self::Any => ClientType::Any,
            Self::Structured => ClientType::Structured,
            Self::Sequence => ClientType::Sequence,
        }
    }

    /// The type id in a push consumer's reference.
    pub const fn consumer_type(self) -> &'static str {
        match self {
            Self::Any => "IDL:omg.org/CosNotifyComm/PushConsumer:1.0",
            Self::Structured => "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0",
            Self::Sequence => "IDL:omg.org/CosNotifyComm/SequencePushConsumer:1.0",
        }
    }
}

/// Name of the service's program.
const PROGRAM: &str = "campanile";

/// The OMG's unit of time, 100 ns, in nanoseconds.
const TIME_UNIT: u64 = 100;

/// A service started for this program.
pub struct Campanile {
    process: Process,
    service: Service,
}

impl Deref for Campanile {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

/// Addresses of a service's other protocols, if enabled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports {
    /// Lines of JSON.
    pub json: Option<SocketAddr>,
    /// Tempo.
    pub tempo: Option<SocketAddr>,
    /// HTTP.
    pub http: Option<SocketAddr>,
}

/// A running service, started by this program or not.
pub struct Service {
    address: SocketAddr,
    /// Address of this machine, as seen by the service.
    here: IpAddr,
    orb: Orb,
    /// Default properties of new channels.
    channel_qos: Vec<Property>,
}

/// Address of a proxy that a supplier pushes to, or a consumer pulls from.
#[derive(Debug, Clone)]
pub struct ProxyAddress {
    /// Address of the service.
    pub address: SocketAddr,
    /// The object key of the proxy.
    pub key: Vec<u8>,
}

impl ProxyAddress {
    /// The address in the proxy's reference; `doing` is for the error without one.
    pub fn of(proxy: &ObjectRef, doing: &'static str) -> Result<Self, BenchError> {
        let profile = proxy.ior().iiop().ok_or_else(|| setup(doing)("the proxy has no IIOP profile"))?;
        let mut addresses = (profile.host.as_str(), profile.port).to_socket_addrs().map_err(setup(doing))?;
        let address = addresses.next().ok_or_else(|| setup(doing)("the proxy's host has no address"))?;
        Ok(Self { address, key: profile.key.clone() })
    }

    /// Opens a connection of the client's own.
    pub fn connect(&self) -> Result<TcpStream, BenchError> {
        TcpStream::connect(self.address).map_err(BenchError::io("connecting to Campanile"))
    }
}

impl Campanile {
    /// Starts a service on a free port of loopback.
    pub fn start() -> Result<Self, BenchError> {
        Self::start_with(&arguments(["serve", "--data", "none", "--listen", "127.0.0.1:0"]))
    }

    /// Starts a service on a free port of loopback, configured by this file if there is one.
    pub fn start_configured(config: Option<&Path>) -> Result<Self, BenchError> {
        Self::start_with(&configured(config))
    }

    /// Starts a service with a free port for each protocol. `program` is another version to compare with, instead of the one beside this
    /// program.
    pub fn start_with_ports(program: Option<&Path>, config: Option<&Path>) -> Result<(Self, Ports), BenchError> {
        let any = "127.0.0.1:0";
        let mut serve = configured(config);
        serve.extend(arguments(["--json-listen", any, "--tempo-listen", any, "--http", any]));
        Self::start_open(program, (None, None), &serve)
    }

    fn start_open(
        other: Option<&Path>,
        confined: (Option<usize>, Option<u8>),
        serve: &[std::ffi::OsString],
    ) -> Result<(Self, Ports), BenchError> {
        let ready = |line: &str| {
            let of = |protocol: &str| line.split_once(protocol)?.1.split([';', ' ', ',']).next()?.parse().ok();
            let (json, tempo, http) = (of("; lines of JSON at "), of("; Tempo at "), of("; HTTP at http://"));
            Some((ready_address(line)?, Ports { json, tempo, http }))
        };
        let program = other.map_or_else(program, |other| Ok(other.to_path_buf()))?;
        let (process, (address, ports)) =
            Process::start_confined("campanile serve", Some(program.as_os_str()), confined, serve, ready)?;
        Ok((Self { process, service: Service::at(address, Ipv4Addr::LOCALHOST.into()) }, ports))
    }

    /// Starts a service on a free port of loopback, all of it on this core if there is one.
    pub fn start_on(core: Option<usize>) -> Result<Self, BenchError> {
        Self::start_at(core, None)
    }

    /// Starts a service as [`start_on`](Self::start_on) does, all its threads at this `SCHED_FIFO` priority if given.
    pub fn start_at(core: Option<usize>, fifo: Option<u8>) -> Result<Self, BenchError> {
        Self::start_confined(core, fifo, &arguments(["serve", "--data", "none", "--listen", "127.0.0.1:0"]))
    }

    /// Starts a service on a free port of loopback that is a Tempo broker at this address, all of it on this core if there is one, configured by
    /// this file if there is one.
    pub fn start_with_tempo(core: Option<usize>, tempo: &str, config: Option<&Path>) -> Result<Self, BenchError> {
        let mut serve = arguments(["serve", "--data", "none", "--listen", "127.0.0.1:0", "--tempo-listen", tempo]);
        serve.extend(config.iter().flat_map(|path| ["--config".into(), path.into()]));
        Self::start_confined(core, None, &serve)
    }

    /// Starts a service on free ports of loopback, all of it on this core if given. Also returns its address for lines of JSON.
    pub fn start_with_json(core: Option<usize>) -> Result<(Self, SocketAddr), BenchError> {
        let any = "127.0.0.1:0";
        let serve = arguments(["serve", "--data", "none", "--listen", any, "--json-listen", any]);
        let (service, ports) = Self::start_open(None, (core, None), &serve)?;
        let (name, reason) = ("campanile serve".to_owned(), "it names no port for lines of JSON".to_owned());
        Ok((service, ports.json.ok_or(BenchError::Process { name, reason })?))
    }

    fn start_with(serve: &[std::ffi::OsString]) -> Result<Self, BenchError> {
        Self::start_confined(None, None, serve)
    }

    fn start_confined(core: Option<usize>, fifo: Option<u8>, serve: &[std::ffi::OsString]) -> Result<Self, BenchError> {
        Ok(Self::start_open(None, (core, fifo), serve)?.0)
    }

    /// Has later channels served by a pool of one thread with this priority.
    pub fn pool_for_channels(&mut self, priority: i16) {
        let pool = ThreadPoolLanes::new(PriorityModel::ServerDeclared, priority, &[(priority, 1)]);
        self.service.channel_qos = vec![pool.into()];
    }

    /// The service's process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Service {
    fn at(address: SocketAddr, here: IpAddr) -> Self {
        Self { address, here, orb: Orb::new(OrbOptions::default()), channel_qos: Vec::new() }
    }

    /// The service at this address, `HOST:PORT`.
    pub fn find(server: &str) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(server).map_err(|error| BenchError::Setup {
            doing: format!("connecting to {server}"),
            reason: format!(
                "{error}; start a service with `campanile serve`, or name another one with --server HOST:PORT"
            ),
        })?;
        let address =
            |found: std::io::Result<SocketAddr>| found.map_err(BenchError::io("reading a connection's address"));
        Ok(Self::at(address(stream.peer_addr())?, address(stream.local_addr())?.ip()))
    }

    /// A listener for one consumer, reachable by the service.
    pub fn listener(&self) -> Result<TcpListener, BenchError> {
        TcpListener::bind(SocketAddr::new(self.here, 0)).map_err(BenchError::io("listening for a consumer"))
    }

    /// The service's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a channel without clients.
    pub fn new_channel(&self) -> Result<Channel, BenchError> {
        self.new_channel_with(&self.channel_qos)
    }

    /// Makes a channel with these properties, without clients.
    pub fn new_channel_with(&self, qos: &[Property]) -> Result<Channel, BenchError> {
        let doing = "making a channel in Campanile";
        let factory = self.orb.resolve(&self.corbaloc("NotificationService")).map_err(setup(doing))?;
        let factory = EventChannelFactory::unchecked(factory);
        let (channel, _) = factory.create_channel(qos, &[]).map_err(setup(doing))?;
        Ok(Channel { channel })
    }

    /// The default channel.
    pub fn default_channel(&self) -> Result<Channel, BenchError> {
        let doing = "finding Campanile's default channel";
        let channel = self.orb.resolve(&self.corbaloc("DefaultEventChannel")).map_err(setup(doing))?;
        Ok(Channel { channel: EventChannel::unchecked(channel) })
    }

    /// The service's own counters, by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>, BenchError> {
        let doing = "reading Campanile's counters";
        let counters: Vec<Counted> = self.statistics()?.request("get_statistics", &()).map_err(setup(doing))?;
        Ok(counters.into_iter().collect())
    }

    /// One of the service's counters; 0 if it does not exist.
    pub fn counter(&self, name: &str) -> Result<u64, BenchError> {
        Ok(self.counters()?.get(name).copied().unwrap_or(0))
    }

    /// Its factory of channels.
    pub fn factory(&self) -> Result<EventChannelFactory, BenchError> {
        let factory = self.orb.resolve(&self.corbaloc("NotificationService"));
        factory.map(EventChannelFactory::unchecked).map_err(setup("finding Campanile's factory"))
    }

    /// The object with the service's counters.
    pub fn statistics(&self) -> Result<ObjectRef, BenchError> {
        self.orb.resolve(&self.corbaloc("Statistics")).map_err(setup("finding Campanile's statistics"))
    }

    /// The counters of each lane.
    pub fn lane_counters(&self) -> Result<Vec<LaneCounters>, BenchError> {
        let doing = "reading the counters of Campanile's lanes";
        // A lane's number is in its name.
        let lanes: Vec<((u32, String), Vec<Counted>)> =
            self.statistics()?.request("get_lanes", &()).map_err(setup(doing))?;
        let lane =
            |((_, name), counters): ((_, _), Vec<_>)| LaneCounters { name, counters: counters.into_iter().collect() };
        Ok(lanes.into_iter().map(lane).collect())
    }

    fn corbaloc(&self, key: &str) -> String {
        format!("corbaloc::1.2@{}/{key}", self.address)
    }
}

/// The arguments of a service on a free port of loopback.
fn configured(config: Option<&Path>) -> Vec<std::ffi::OsString> {
    let mut serve = arguments(["serve", "--listen", "127.0.0.1:0"]);
    serve.extend(config.iter().flat_map(|path| ["--config".into(), path.into()]));
    serve
}

/// Path of the service's program: `campanile` in the folder of the running program, which may be that itself.
fn program() -> Result<PathBuf, BenchError> {
    let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
    let program = this.with_file_name(PROGRAM);
    if program.is_file() { Ok(program) } else { Err(BenchError::NoService { program }) }
}

/// A counter with its value.
type Counted = (String, u64);

/// The counters of a lane.
#[derive(Debug)]
pub struct LaneCounters {
    /// `lane` for the main one; lanes of pools are called `lane-ID-pPRIORITY`.
    pub name: String,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// A consumer to be connected.
#[derive(Debug, Clone, Copy)]
pub struct Consumer<'a> {
    /// Address of its listener.
    pub address: SocketAddr,
    /// Its object key.
    pub key: &'a [u8],
    /// The form of its events.
    pub form: Form,
    /// Properties of its proxy.
    pub qos: &'a [Property],
    /// The only event type it receives; all if `None`.
    pub event_type: Option<&'a EventType>,
    /// Components of its reference beside the code sets.
    pub components: &'a [Component],
}

/// A channel of the service.
pub struct Channel {
    channel: EventChannel,
}

impl Channel {
    /// A channel of any notification service.
    pub const fn of(channel: EventChannel) -> Self {
        Self { channel }
    }

    /// The same channel, over another client's connection.
    pub fn seen_by(&self, orb: &Orb) -> Self {
        Self { channel: EventChannel::unchecked(orb.object(self.channel.object().ior().clone())) }
    }

    /// Its default admin for consumers.
    pub fn consumer_admin(&self) -> Result<ConsumerAdmin, BenchError> {
        self.channel.default_consumer_admin().map_err(setup("finding the consumers' admin of Campanile's channel"))
    }

    /// Destroys it with everything in it.
    pub fn destroy(self) -> Result<(), BenchError> {
        self.channel.destroy().map_err(setup("destroying a channel of Campanile"))
    }

    /// Makes a proxy for one more supplier and connects it.
    pub fn add_supplier(&self, carriage: CarriageOptions) -> Result<ProxyAddress, BenchError> {
        self.add_supplier_with(carriage, &[])
    }

    /// Makes a proxy with these properties for one more supplier and connects it.
    pub fn add_supplier_with(&self, carriage: CarriageOptions, qos: &[Property]) -> Result<ProxyAddress, BenchError> {
        let doing = "connecting a supplier to Campanile";
        let admin = self.channel.default_supplier_admin().map_err(setup(doing))?;
        let form = carriage.form;
        let (proxy, _) = admin.obtain_notification_push_consumer(form.client_type()).map_err(setup(doing))?;
        if let Some(seconds) = carriage.timeout {
            let timeout = clock::nanoseconds(seconds) / TIME_UNIT;
            proxy
                .set_qos(&[Property::new("Timeout", timeout)])
                .map_err(setup("setting the `Timeout` of a supplier"))?;
        }
        if !qos.is_empty() {
            proxy.set_qos(qos).map_err(setup("setting the qualities of a supplier's proxy"))?;
        }
        let object = proxy.object().clone();
        match form {
            Form::Any => ProxyPushConsumer::unchecked(object.clone()).connect_any_push_supplier(None),
            Form::Structured => {
                StructuredProxyPushConsumer::unchecked(object.clone()).connect_structured_push_supplier(None)
            }
            Form::Sequence => SequenceProxyPushConsumer::unchecked(object.clone()).connect_sequence_push_supplier(None),
        }
        .map_err(setup(doing))?;
        ProxyAddress::of(&object, doing)
    }

    /// Makes a proxy for one more consumer that pulls, and connects it.
    pub fn add_puller(&self, form: Form) -> Result<ProxyAddress, BenchError> {
        let doing = "connecting a consumer that pulls to Campanile";
        let admin = self.channel.default_consumer_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_pull_supplier(form.client_type()).map_err(setup(doing))?;
        let object = proxy.object().clone();
        match form {
            Form::Any => ProxyPullSupplier::unchecked(object.clone()).connect_any_pull_consumer(None),
            Form::Structured => {
                StructuredProxyPullSupplier::unchecked(object.clone()).connect_structured_pull_consumer(None)
            }
            Form::Sequence => SequenceProxyPullSupplier::unchecked(object.clone()).connect_sequence_pull_consumer(None),
        }
        .map_err(setup(doing))?;
        ProxyAddress::of(&object, doing)
    }

    /// Makes a proxy for one more consumer, with its `listener` and object `key`, and connects it.
    ///
    /// The service connects to the listener at any time: at once, or for the first event.
    pub fn add_consumer(
        &self,
        listener: &TcpListener,
        key: &[u8],
        form: Form,
        delivery: DeliveryOptions,
    ) -> Result<(), BenchError> {
        let address = listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))?;
        let window = delivery.push_window.map(|window| Property::new("PushWindow", window));
        self.connect_consumer(address, key, form, window.as_slice())
    }

    /// Makes a proxy with these properties for one more consumer, with its address and object `key`, and connects it.
    pub fn connect_consumer(
        &self,
        address: SocketAddr,
        key: &[u8],
        form: Form,
        qos: &[Property],
    ) -> Result<(), BenchError> {
        self.connect(&Consumer { address, key, form, qos, event_type: None, components: &[] })
    }

    /// Makes a proxy for one more consumer, with its address and object `key`, and connects it; it receives structured events of this type
    /// only. Its reference has these components beside the usual one.
    pub fn add_consumer_of(
        &self,
        event_type: &EventType,
        address: SocketAddr,
        key: &[u8],
        components: &[Component],
    ) -> Result<(), BenchError> {
        let event_type = Some(event_type);
        self.connect(&Consumer { address, key, form: Form::Structured, qos: &[], event_type, components })
    }

    /// Makes a proxy for one more consumer and connects it.
    pub fn connect(&self, consumer: &Consumer<'_>) -> Result<(), BenchError> {
        let doing = "connecting a consumer to Campanile";
        let Consumer { address, key, form, qos, event_type, components } = *consumer;
        let reference = consumer_reference(form.consumer_type(), address, key, components);
        let consumer = self.channel.object().orb().object(reference);
        let admin = self.channel.default_consumer_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_push_supplier(form.client_type()).map_err(setup(doing))?;
        if !qos.is_empty() {
            proxy.set_qos(qos).map_err(setup(doing))?;
        }
        let object = proxy.object().clone();
        if let Some(event_type) = event_type {
            let proxy = StructuredProxyPushSupplier::unchecked(object.clone());
            proxy.subscription_change(std::slice::from_ref(event_type), &[EventType::any()]).map_err(setup(doing))?;
        }
        match form {
            Form::Any => ProxyPushSupplier::unchecked(object).connect_any_push_consumer(&consumer),
            Form::Structured => {
                StructuredProxyPushSupplier::unchecked(object).connect_structured_push_consumer(&consumer)
            }
            Form::Sequence => SequenceProxyPushSupplier::unchecked(object).connect_sequence_push_consumer(&consumer),
        }
        .map_err(setup(doing))
    }
}

/// A reference to a consumer with that address and object key, with these components beside the usual one.
pub fn consumer_reference(consumer_type: &str, address: SocketAddr, key: &[u8], components: &[Component]) -> Ior {
    let profile = IiopProfile {
        version: Version::V1_2,
        host: address.ip().to_string(),
        port: address.port(),
        key: key.to_vec(),
        components: [&[CodeSetInfo::campanile().to_component()], components].concat(),
    };
    Ior::new(consumer_type, profile)
}

/// A listener for one consumer, on loopback.
pub fn listen() -> Result<TcpListener, BenchError> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(BenchError::io("listening for a consumer"))
}

/// A consumer's object key with the length of the proxy's, so that a request has the same size before and behind the service, as it has
/// with a relay.
pub fn key_as_long_as(proxy_key: &[u8]) -> Vec<u8> {
    b"bench-consumer-".iter().copied().cycle().take(proxy_key.len().max(1)).collect()
}

/// The object key of the consumer with this number, with the length of the proxy's if the number fits.
pub fn consumer_key(number: u32, length: usize) -> Vec<u8> {
    let number = format!("{number:05}").into_bytes();
    let mut key = key_as_long_as(&vec![0; length.saturating_sub(number.len())]);
    key.extend(number);
    key
}

/// Wraps a contender's error with the action that failed.
pub fn setup<E: Display>(doing: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Setup { doing: doing.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_keys_of_the_wanted_length() {
        for length in [1, 15, 40] {
            assert_eq!(key_as_long_as(&vec![7; length]).len(), length);
        }
    }
}
