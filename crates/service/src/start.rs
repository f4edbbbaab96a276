//! Starting and stopping a service.

mod dds;
mod error;
mod federation;
mod group;
mod limits;
mod ports;
mod running;
mod storage;
mod zenoh;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use arc_swap::ArcSwap;
use engine::{ChannelLimits, HierarchyLimits, LaneChange, MemoryPool, Reliability, SettingsPatch};
use giop::cdr::CharSet;
use giop::ior::SecureTransport;

pub use self::error::StartError;
use self::federation::{StartedLinks, furnish_linked};
pub use self::limits::raise_descriptor_limit;
use self::limits::{ConnectionsMax, ceilings, connections_that_fit, reserve_bytes};
use self::ports::{Ports, bind_ports, open_port_warning};
pub(crate) use self::storage::try_restore;
use self::storage::{FoundStore, Keepers, find_store, furnish, start_keepers};
use crate::admin::analyses::Analyses;
use crate::admin::dead_letters::DeadLetterInquiry;
use crate::admin::drain::Undone;
use crate::admin::fair_queue::FairQueue;
use crate::admin::inquiry::{HistoryInquiry, Inquiry};
use crate::admin::misses::Misses;
use crate::admin::operators::Known;
use crate::admin::persistence::Persistence;
use crate::admin::program;
use crate::admin::publishing::Publishing;
use crate::admin::run::{Administration, Ending, Log, Withheld};
use crate::announcement::Announcement;
use crate::config::{ClientCertificates, Config, ConnectionReliability, Ends, NarrowCodeSet, Tls};
use crate::counters::{Counter, Counters};
use crate::handshakes::{self, Handshakes};
use crate::lane::intake::origins::Origins;
use crate::lane::io::net::{self, Waker};
use crate::lane::io::socket::Layer;
use crate::lane::io::unfinished::Reserve;
use crate::lane::links::lane_registry::{LaneRegistry, LaneRegistryOptions};
use crate::lane::links::mailbox::{Mailbox, mailbox};
use crate::lane::links::messages::ToAdministration;
use crate::lane::run::Common;
use crate::lane::scheduling;
use crate::memory::Memory;
use crate::protocols::dds::Board;
use crate::protocols::giop::outside_naming::OutsideNaming;
use crate::protocols::tempo::types::DeclaredTypes;
use crate::protocols::{self, Given, Listeners, Objects, Tag, WireProtocol, by_tag};
use crate::published::Published;
use crate::random;
use crate::resolver::{self, Asking, Resolver};
use crate::shutdown_request::ShutdownRequest;
use crate::standby::{Shipped, StandbyFollower};
use crate::time;
use access::{ClientNames, OutgoingPolicy, Tokens};
use accounts::{Accounts, Resource};
use corba::naming::NamingLimits;
use corba::{Protocol, ProtocolSettings};

/// Sockets that listen already.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For CORBA clients. Default: none, and the service listens at `listen`.
    pub giop: Option<TcpListener>,
    /// For lines of JSON. Default: none, and the service listens at `json.listen`, if it is to.
    pub json: Option<TcpListener>,
    /// For clients of Tempo: connections and datagrams, at one address and port. Default: none, and the service listens at `tempo.listen`,
    /// if it is to.
    pub tempo: Option<(TcpListener, UdpSocket)>,
}

/// A running service. Dropping it stops it.
pub struct Service {
    address: SocketAddr,
    json_address: Option<SocketAddr>,
    tempo_address: Option<SocketAddr>,
    links_address: Option<SocketAddr>,
    tls_addresses: [Option<SocketAddr>; 4],
    tls: Option<(Tls, Arc<ArcSwap<Ends>>)>,
    store_directory: Option<PathBuf>,
    advertised: (String, u16),
    secure: Option<SecureTransport>,
    reference: String,
    counters: Counters,
    warnings: Vec<String>,
    announcement: Arc<Announcement>,
    /// For what the program asks, and for the thread that stops the service.
    pub(crate) administration: Arc<Mutex<Mailbox<ToAdministration>>>,
    administration_thread: Option<JoinHandle<Undone>>,
    /// Ends when the lanes have.
    _dds: dds::Threads,
    _zenoh: zenoh::Threads,
    /// Ends when the store has.
    standby: Option<Shipped>,
    stopper: Stopper,
    shutdown_request: Arc<ShutdownRequest>,
    pub(crate) known: Known,
}

/// What handshakes with clients are made with, as the files of `[tls]` say it. Clones share it.
#[derive(Debug, Clone)]
pub struct TlsServer(Arc<ArcSwap<Ends>>);

impl TlsServer {
    /// For the next handshake, by what the files had when they were read last.
    #[must_use]
    pub fn end(&self) -> Option<tls::ServerEnd> {
        self.0.load().server.clone()
    }
}

/// Has a service that [delivers what it has taken](Service::drain) end at once.
#[derive(Debug, Clone)]
pub struct Stopper {
    hurry: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Ends it. What is left to deliver is lost, and counted and logged.
    pub fn stop_now(&self) {
        self.hurry.store(true, Ordering::Relaxed);
        self.waker.notify();
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts a service. It answers requests from the moment this returns.
    ///
    /// # Errors
    /// When the configuration cannot be used, the port is taken, or the operating system refuses a thread or a file.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_on(config, Sockets::default())
    }

    /// Reads all that a configuration says, and the files that it names, as the start of a service does, and opens nothing: neither a
    /// socket nor the store. `giop` is whether the socket for CORBA clients is there already.
    ///
    /// # Errors
    /// When a service could not start with it, whatever the machine has to give.
    pub fn check(config: &Config, giop: Option<SocketAddr>) -> Result<(), StartError> {
        config.check()?;
        check_processors(&config.lanes.cpus)?;
        let address = giop.map_or_else(|| config.listen_address(), Ok)?;
        for (protocol, layer) in Tag::ALL.into_iter().flat_map(|protocol| Layer::ALL.map(|layer| (protocol, layer))) {
            if (protocol, layer) != (Tag::Giop, Layer::Plain) {
                by_tag!(protocol, P => P::LISTEN_ADDRESS(config, layer))?;
            }
        }
        config.http_listen_address()?;
        config.https_listen_address()?;
        let (host, port) = config.advertised(address)?;
        config.naming.outside.as_deref().map(naming_context).transpose()?;
        let memory = config.limits.memory_bytes.map_or_else(Memory::of_machine, Memory::new);
        let connections_max = connections_that_fit(config, u64::MAX);
        if config.tls.is_used() {
            config.tls.read()?;
        }
        config.read_tokens()?;
        let place = Place { host: &host, port, secure: None };
        let mut protocol = Protocol::new(protocol_settings(config, memory, place, false));
        let accounts = Accounts::new(ceilings(config, memory, connections_max));
        let policy = Arc::new(config.outgoing_policy()?);
        guard(&mut protocol, config, &accounts, &policy, &mut Vec::new())?;
        config.federation.read_key()?;
        furnish(&mut protocol, config, &accounts, None).map(|_| ())
    }

    /// The same on sockets that another process has opened, and keeps open when the service ends: clients that connect before it begins
    /// again wait. For a given socket, the configured address to listen on does not count.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(config: Config, sockets: Sockets) -> Result<Self, StartError> {
        Self::start_as(config, sockets, None)
    }

    /// The same with the store of a follower that was promoted. Until the service has begun, the follower's process tells former leaders
    /// that call that they are none any more.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn take_over(config: Config, promoted: StandbyFollower) -> Result<Self, StartError> {
        Self::start_as(config, Sockets::default(), Some(promoted))
    }

    fn start_as(config: Config, sockets: Sockets, promoted: Option<StandbyFollower>) -> Result<Self, StartError> {
        config.check()?;
        check_processors(&config.lanes.cpus)?;
        let ends = if config.tls.is_used() { Some(config.tls.read()?) } else { None };
        let ends = ends.map(|ends| Arc::new(ArcSwap::from_pointee(ends)));
        // The address of clients may be the leader's.
        let found = config.standby.listen.as_ref().map(|_| find_store(&config, promoted)).transpose()?;
        let mut ports = Ports::default();
        let connections_max = connections_that_fit(&config, raise_descriptor_limit());
        let (mut listeners, mut addresses) = bind_ports(&config, sockets, connections_max, &mut ports)?;
        let [[plain, secure], [json_address, json_tls], [tempo_address, tempo_tls], [links_address, links_tls]] =
            [Tag::Giop, Tag::Json, Tag::Tempo, Tag::Link].map(|protocol| *addresses.of(protocol));
        let Some(address) = plain.or(secure) else {
            return Err(StartError::Resources(io::ErrorKind::AddrNotAvailable.into()));
        };
        let (host, port) = config.advertised(address)?;
        let port = if config.tls.required { 0 } else { port };
        let tls_addresses = [secure, json_tls, tempo_tls, links_tls];
        let secure = secure.map(|address| secure_transport(&config.tls, address.port()));

        let http = config.http_listen_address()?.into_iter().chain(config.https_listen_address()?);
        let of_others = Tag::ALL.into_iter().filter(|protocol| *protocol != Tag::Giop);
        let of_others = of_others.flat_map(|protocol| *addresses.of(protocol)).flatten();
        listeners.own = of_others.chain(http.filter(|address| address.port() != 0)).collect();
        let place = Place { host: &host, port, secure };
        let assembled = assemble(&config, (listeners, ports, found), place, ends.as_ref(), connections_max)?;
        let Assembled { administrator, administration, reference, counters, mut warnings, announcement, .. } =
            assembled;
        let Assembled { is_outside, store_directory, known, dds, zenoh, standby, .. } = assembled;
        warnings.extend(json_address.and_then(|address| open_port_warning("json.listen", address)));
        warnings.extend(tempo_address.and_then(|address| open_port_warning("tempo.listen", address)));
        warnings.extend(links_address.and_then(|address| open_port_warning("links.listen", address)));
        let shutdown_request = Arc::clone(&administrator.ending.shutdown_request);
        if let Some(standby) = &standby {
            standby.shipping.end_when_superseded(Arc::clone(&shutdown_request));
        }
        let stopper =
            Stopper { hurry: Arc::clone(&administrator.ending.hurry), waker: Arc::clone(&administrator.waker) };
        // From here on a failure drops it, which stops what has been started.
        let mut service = Self {
            address,
            json_address,
            tempo_address,
            links_address,
            tls_addresses,
            tls: ends.map(|ends| (config.tls.clone(), ends)),
            store_directory,
            advertised: (host, port),
            secure,
            reference,
            counters,
            warnings,
            announcement,
            administration: Arc::new(Mutex::new(administration)),
            administration_thread: None,
            _dds: dds,
            _zenoh: zenoh,
            standby,
            stopper,
            shutdown_request,
            known,
        };
        service.administration_thread = Some(begin(administrator)?);
        service.announce(is_outside)?;
        Ok(service)
    }
}

fn not_written(announcement: &Announcement, error: io::Error) -> StartError {
    StartError::IorFile { path: announcement.file().map(PathBuf::from).unwrap_or_default(), error }
}

/// Starts the administration thread.
fn begin(administrator: Administration) -> io::Result<JoinHandle<Undone>> {
    Builder::new().name("administration".into()).spawn(move || {
        scheduling::give_way(scheduling::BEHIND_LANES);
        administrator.run()
    })
}

/// A service with running lanes, and administration that has yet to begin.
pub(crate) struct Assembled {
    pub(crate) administrator: Administration,
    /// For what the service itself wants of it.
    pub(crate) administration: Mailbox<ToAdministration>,
    /// Of the factory.
    reference: String,
    pub(crate) counters: Counters,
    warnings: Vec<String>,
    announcement: Arc<Announcement>,
    /// An outside naming service occasions the announcement.
    is_outside: bool,
    /// Where things are kept.
    store_directory: Option<PathBuf>,
    dds: dds::Threads,
    zenoh: zenoh::Threads,
    standby: Option<Shipped>,
    known: Known,
}

/// Where a service is reached, as references say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) host: &'a str,
    /// 0 where nothing is in the clear.
    pub(crate) port: u16,
    pub(crate) secure: Option<SecureTransport>,
}

/// What references say of TLS at that port.
fn secure_transport(tls: &Tls, port: u16) -> SecureTransport {
    let asks = tls.clients() != ClientCertificates::None;
    let needs = tls.clients() == ClientCertificates::Required;
    let trust_in_client = |said: bool| if said { SecureTransport::TRUST_IN_CLIENT } else { 0 };
    let protection = SecureTransport::PROTECTION;
    let supports = protection | SecureTransport::TRUST_IN_TARGET | trust_in_client(asks);
    let requires = protection | trust_in_client(needs);
    let (supports, requires) = match tls.required {
        true => (supports, requires),
        false => (supports | SecureTransport::NO_PROTECTION, SecureTransport::NO_PROTECTION),
    };
    SecureTransport { supports, requires, port }
}

/// Makes a service that is reached at a place, and starts its lanes. Its ports are opened when what outlives the process was found good.
fn assemble(
    config: &Config,
    (mut listeners, ports, found): (Listeners, Ports, Option<FoundStore>),
    place: Place<'_>,
    ends: Option<&Arc<ArcSwap<Ends>>>,
    connections_max: ConnectionsMax,
) -> Result<Assembled, StartError> {
    let memory = config.memory();
    let (found, mut warnings) = found.map_or_else(|| find_store(config, None), Ok)?;
    let (store_directory, service) = found.as_ref().map(|found| (found.directory.clone(), found.service)).unzip();
    let mut protocol = Protocol::new(protocol_settings(config, memory, place, found.is_some()));
    protocol.objects.handle_utc(time::utc());
    let accounts = Accounts::new(ceilings(config, memory, connections_max));
    let policy = Arc::new(config.outgoing_policy()?.but(listeners.own.iter().copied()));
    guard(&mut protocol, config, &accounts, &policy, &mut warnings)?;
    let tokens = Arc::new(ArcSwap::from_pointee(config.read_tokens()?));
    let (opened, links) = furnish_linked(&mut protocol, config, &accounts, found, &mut warnings)?;
    let (dds, dds_joins, zenoh) = start_bridges(config, &protocol, &mut listeners, &mut warnings)?;
    let announcement = Arc::new(Announcement::new(config.ior_file.clone()));
    let (factory, outside_naming) = (protocol.objects.factory_reference(), outside_naming(config, &announcement)?);
    let Some(published) = protocol.publish() else { return Err(StartError::Resources(io::ErrorKind::Other.into())) };
    let published = Arc::new(ArcSwap::from_pointee(Published::from(published)));

    let (counters, waker) = (Counters::new(config.lanes.threads_max.into()), Arc::new(Waker::new()?));
    let (administration, orders) = mailbox(&waker, program::MESSAGES_MAX);
    warnings.extend(memory_warnings(config));
    let (origin, types) = (time::now(), Arc::new(config.tempo_types()?));
    let start = |(opened, directory)| start_keepers(opened, directory, (config, &types), (&waker, &counters), origin);
    let (store, keepers) = opened.zip(store_directory.as_deref()).map(start).transpose()?.unzip();
    let client_names = Arc::new(ArcSwap::from_pointee(config.client_names()?));
    let known = Known { accounts: Arc::clone(&accounts), tokens, client_names, published: Arc::clone(&published) };
    let guarding = (policy, Arc::clone(&known.tokens), Arc::clone(&known.client_names));
    let began = (origin, service, links);
    let common = common((config, types), memory, &published, accounts, began, listeners.outlive, guarding);
    let handshakes = ends.map(|ends| start_handshakes(config, ends, &counters)).transpose()?;
    let mut keepers = keepers.unwrap_or_default();
    let (standby, histories) = (keepers.standby.take(), HistoryInquiry::new(keepers.inquirer.take()));
    let dead_letters = DeadLetterInquiry::new(keepers.store.as_mut().and_then(|store| store.desk.take()));
    ports.open()?;
    let mut lanes = lane_registry((config, handshakes), common, &counters, &waker, listeners, keepers)?;
    warnings.extend(start_lanes(&mut protocol, &mut lanes, &published, &counters, config));
    let administrator = Administration {
        objects: Objects::new(protocol, outside_naming),
        publishing: Publishing::new(published),
        lane_registry: lanes,
        requests: FairQueue::default(),
        analyses: Analyses::new(&waker),
        orders,
        waker,
        counters: counters.of_administration(),
        registry: counters.clone(),
        answers: Withheld::default(),
        misses: Misses::default(),
        persistence: Persistence::new(store, Duration::from_millis(config.store.answer_within_ms.into())),
        inquiry: Inquiry::default(),
        histories,
        dead_letters,
        dds_joins,
        leaving: Vec::new(),
        ending: Ending::default(),
        config: Box::new(config.clone()),
        origin,
        log: Log::new(),
    };
    Ok(Assembled {
        administrator,
        administration,
        reference: factory.to_string(),
        counters,
        warnings,
        announcement,
        is_outside: config.naming.outside.is_some(),
        store_directory,
        dds,
        zenoh,
        standby,
        known,
    })
}

/// Starts the threads between the main lane and what is beyond sockets, DDS and Zenoh. Gives what ends them, and where joins to DDS say how
/// they stand.
fn start_bridges(
    config: &Config,
    protocol: &Protocol,
    listeners: &mut Listeners,
    warnings: &mut Vec<String>,
) -> Result<(dds::Threads, Vec<Board>, zenoh::Threads), StartError> {
    let (dds, joins, boards) = dds::join(config, protocol)?;
    let (zenoh, ends) = zenoh::open(config)?;
    (listeners.sockets.dds, listeners.sockets.link) = (joins, ends);
    warnings.extend(config.links.zenoh.open_end_points().map(open_zenoh_warning));
    Ok((dds, boards, zenoh))
}

/// Starts the lanes that routing names from the start, before anything can be handed over to them: so many of them at most, since what was
/// restored may be of a service that could have more. Gives a line if they are not all, and what of the scheduling is not as requested.
fn start_lanes(
    protocol: &mut Protocol,
    lane_registry: &mut LaneRegistry,
    published: &ArcSwap<Published>,
    counters: &Counters,
    config: &Config,
) -> Vec<String> {
    let (counters, threads_max) = (counters.of_administration(), u32::from(config.lanes.threads_max));
    let (mut started, mut beyond) = (0, 0);
    while let Some(change) = protocol.poll_lane() {
        let LaneChange::Started(info) = change else { continue };
        if started == threads_max {
            beyond += 1;
        } else if let Err(error) = lane_registry.start(&info) {
            log::error!("lane {} cannot be started: {error}; the main lane serves what is its", info.id.0);
        } else {
            started += 1;
            continue;
        }
        protocol.lane_unavailable(info.id);
        counters.add(Counter::LanesRefused, 1);
    }
    if let Some(again) = protocol.publish() {
        published.store(Arc::new(Published::from(again)));
    }
    lane_registry.open();
    let warning = (beyond > 0).then(|| {
        let warning = format!(
            "lanes.threads_max = {threads_max}: pools that were configured before have {beyond} threads more, and the main lane serves \
             what is theirs"
        );
        log::warn!("{warning}");
        warning
    });
    warning.into_iter().chain(lane_registry.warnings()).collect()
}

/// The same in a simulation, where there are no descriptors.
#[cfg(test)]
pub(crate) fn simulated(config: &Config, listeners: Listeners, address: SocketAddr) -> Result<Assembled, StartError> {
    let connections_max = ConnectionsMax { from_clients: 1_000, to_clients: 1_000, http: 64 };
    let host = address.ip().to_string();
    let place = Place { host: &host, port: address.port(), secure: None };
    assemble(config, (listeners, Ports::default(), None), place, None, connections_max)
}

/// Lanes that may wait to be introduced to the resolver before it looks.
const INTRODUCTIONS: usize = 256;

/// Starts the resolver and the main lane.
fn lane_registry(
    (config, handshakes): (&Config, Option<handshakes::Reception>),
    common: Common,
    counters: &Counters,
    waker: &Arc<Waker>,
    listeners: Listeners,
    Keepers { store, overflow, .. }: Keepers,
) -> io::Result<LaneRegistry> {
    let (resolver_waker, resolver) = start_resolver(counters)?;
    let options = LaneRegistryOptions {
        common,
        lanes: config.lanes.clone(),
        administration_queue: config.limits.administration_queue as usize,
        registry: counters.clone(),
        waker: Arc::clone(waker),
        resolver_waker,
        resolver,
        store,
        handshakes,
        overflow,
    };
    LaneRegistry::new(options, listeners)
}

/// Starts the resolver, to which lanes are introduced. Its end is not waited for, since a look-up can take a minute; it ends when the lanes
/// have.
fn start_resolver(counters: &Counters) -> io::Result<(Arc<Waker>, Mailbox<Asking>)> {
    let waker = Arc::new(Waker::new()?);
    let (mailbox, introductions) = mailbox(&waker, INTRODUCTIONS);
    #[cfg(test)]
    let Some(introductions) = crate::simulation::take_resolver(introductions) else { return Ok((waker, mailbox)) };
    let resolver =
        Resolver::new(Arc::clone(&waker), introductions, Arc::new(resolver::by_system), counters.of_resolver());
    Builder::new().name("resolver".into()).spawn(move || resolver.run())?;
    Ok((waker, mailbox))
}

/// Starts the thread that makes TLS handshakes, to which lanes are introduced. It ends when the lanes have, and is not waited for.
fn start_handshakes(
    config: &Config,
    ends: &Arc<ArcSwap<Ends>>,
    counters: &Counters,
) -> io::Result<handshakes::Reception> {
    let waker = Arc::new(Waker::new()?);
    let (introductions, introduced) = mailbox(&waker, INTRODUCTIONS);
    let limit = Duration::from_millis(config.tls.handshake_ms.into());
    let (for_thread, ends, counters) = (Arc::clone(&waker), Arc::clone(ends), counters.of_handshakes());
    Builder::new().name("handshakes".into()).spawn(move || {
        scheduling::give_way(scheduling::BEHIND_LANES);
        // A poll is made by the thread that has it.
        match Handshakes::new(for_thread, introduced, ends, limit, counters) {
            Ok(handshakes) => handshakes.run(),
            Err(error) => log::error!("TLS handshakes cannot be made: {error}"),
        }
    })?;
    Ok(handshakes::Reception { waker, introductions })
}

/// Makes the warning for an end point of Zenoh without security that other hosts can reach.
fn open_zenoh_warning(end_point: &str) -> String {
    let warning = format!(
        "links.zenoh.listen: every Zenoh session that can reach {end_point} can take part in the realm, dial this service, and read what \
         crosses; use tls/ there, or tls = true in each [[link]]"
    );
    log::warn!("{warning}");
    warning
}

/// Gives the protocol the access rules and the addresses not to be called; adds what is odd about them to `warnings`.
fn guard(
    protocol: &mut Protocol,
    config: &Config,
    accounts: &Arc<Accounts>,
    policy: &Arc<OutgoingPolicy>,
    warnings: &mut Vec<String>,
) -> Result<(), StartError> {
    protocol.guard.set_access(&mut protocol.objects, config.access_rules()?, accounts);
    protocol.guard.set_outgoing(Arc::clone(policy), net::is_here);
    for warning in config.access_warnings() {
        log::warn!("{warning}");
        warnings.push(warning);
    }
    Ok(())
}

/// What is the same for all lanes.
fn common(
    (config, types): (&Config, Arc<DeclaredTypes>),
    memory: Memory,
    published: &Arc<ArcSwap<Published>>,
    accounts: Arc<Accounts>,
    (origin, service, (served, added, federation)): (Instant, Option<u64>, StartedLinks),
    address_outlives: bool,
    (policy, tokens, client_names): (Arc<OutgoingPolicy>, Arc<ArcSwap<Tokens>>, Arc<ArcSwap<ClientNames>>),
) -> Common {
    // As many of the smallest as there is room for in the queue come to the limit.
    let request_bytes_min = accounts.limit(Resource::RequestBytes) / u64::from(config.limits.administration_queue);
    let given = Given { config, types, request_bytes_min, address_outlives, policy, tokens };
    let mut protocols = protocols::Settings::new(&given);
    let has_links = config.has_links() || !added.is_empty();
    (protocols.link.served, protocols.link.added, protocols.link.federation) = (served, added, federation);
    Common {
        published: Arc::clone(published),
        protocols,
        accounts,
        client_names,
        reserve: Arc::new(Reserve::new(reserve_bytes(config, memory))),
        memory: Arc::new(MemoryPool::new(memory.of_channels(), config.limits.client_quota_percent)),
        backlogs: Arc::new(MemoryPool::new(config.store.overflow_bytes_max, config.limits.client_quota_percent)),
        message_completion: config.message_completion(),
        connection_budget: config.connection_budget(),
        main_discipline: config.lanes.discipline.of_lane(),
        keeps_expired: config.compatibility.timeout_never_expires,
        origin,
        origins: Origins::new(service.unwrap_or_else(random::identity), has_links),
    }
}

/// Locks memory if that is asked for, and says if it cannot be.
fn memory_warnings(config: &Config) -> Vec<String> {
    if !config.lanes.lock_memory {
        return Vec::new();
    }
    let failed = scheduling::lock_memory().err();
    failed.map(|error| format!("lanes.lock_memory: memory is not locked: {error}")).into_iter().collect()
}

/// Tries on a thread of its own whether lanes can run on any of these processors.
fn check_processors(processors: &[u16]) -> Result<(), StartError> {
    let tried = std::thread::scope(|scope| scope.spawn(|| scheduling::bind_to(processors)).join());
    let error = |error| StartError::Processors { processors: processors.to_vec(), error };
    tried.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(error)
}

pub(crate) fn protocol_settings(
    config: &Config,
    memory: Memory,
    place: Place<'_>,
    has_store: bool,
) -> ProtocolSettings {
    let millis = |value: u32| Some(Duration::from_millis(value.into()));
    ProtocolSettings {
        host: place.host.to_owned(),
        port: place.port,
        secure: place.secure,
        chars: match config.narrow_code_set {
            NarrowCodeSet::Latin1 => CharSet::Latin1,
            NarrowCodeSet::Utf8 => CharSet::Utf8,
        },
        delivery: SettingsPatch {
            push_window: config.delivery.push_window,
            connect_timeout: millis(config.delivery.connect_timeout_ms),
            reply_timeout: millis(config.delivery.reply_timeout_ms),
            give_up_after: millis(config.delivery.give_up_after_ms),
            hold_timeout: config.delivery.hold_timeout_ms.and_then(millis),
            probe_interval: millis(config.delivery.probe_interval_ms),
            supplier_linger: millis(config.delivery.supplier_linger_ms),
            // Said by each channel, so that it stays so when the default is another.
            connection_reliability: has_store.then_some(match config.channel.connection_reliability {
                ConnectionReliability::Persistent => Reliability::Persistent,
                ConnectionReliability::BestEffort => Reliability::BestEffort,
            }),
            connection_expiry: has_store.then_some(CONNECTION_EXPIRY),
            ..SettingsPatch::default()
        },
        limits: ChannelLimits {
            memory_budget_bytes: config.channel.memory_budget_bytes.min(memory.of_channels()),
            overflow_budget_bytes: if has_store { config.channel.overflow_budget_bytes } else { 0 },
            filter_steps_max: ChannelLimits::default().filter_steps_max.min(config.limits.filter_steps_max),
            constraint_bytes_max: ChannelLimits::default().constraint_bytes_max.min(config.limits.constraint_bytes_max),
            ..ChannelLimits::default()
        },
        hierarchy: HierarchyLimits {
            lane_threads_max: config.lanes.threads_max.into(),
            filter_steps_max: config.limits.filter_steps_max,
            constraint_bytes_max: config.limits.constraint_bytes_max,
            or_passes_without_filters: config.compatibility.or_passes_without_filters,
            tao_event_types: config.compatibility.tao_event_types,
            ..HierarchyLimits::default()
        },
        memory_bytes_max: memory.of_channels(),
        has_store,
        naming: NamingLimits::default(),
        compatibility: {
            let it = &config.compatibility;
            corba::Compatibility {
                ignore_unknown_properties: it.ignore_unknown_properties,
                limits_as_imp_limit: it.limits_as_imp_limit,
                default_admins_or: it.default_admins_or,
                monitor_control: it.monitor_control,
                tell_on_disconnect: it.tell_on_disconnect,
                take_over: it.take_over,
                allow_reconnect: it.allow_reconnect,
                persistent_without_store: it.persistent_without_store,
                unknown_filter_internal: it.unknown_filter_internal,
                factory_name: it.factory_name.clone(),
            }
        },
        key_numbers: key_numbers(),
    }
}

/// Where the random numbers in object keys come from.
fn key_numbers() -> corba::KeyNumbers {
    // A seed of a simulation has the same keys whenever it runs.
    #[cfg(test)]
    if crate::simulation::now().is_some() {
        return corba::KeyNumbers::Seeded(fastrand::u64(..));
    }
    corba::KeyNumbers::Drawn(random::unforeseeable)
}

/// How long a persistent connection may fail where nothing else is said: `ConnectionExpiry` of new channels. A long weekend.
const CONNECTION_EXPIRY: Duration = Duration::from_secs(3 * 24 * 3600);

fn outside_naming(config: &Config, announcement: &Arc<Announcement>) -> Result<Option<OutsideNaming>, StartError> {
    let Some(url) = &config.naming.outside else { return Ok(None) };
    let context = naming_context(url)?;
    let name = config.compatibility.factory_name.clone();
    let announcement = Arc::clone(announcement);
    announcement.remove_file().map_err(|error| not_written(&announcement, error))?;
    let channels = config.channels.iter().map(|channel| channel.name.clone()).collect();
    Ok(Some(OutsideNaming::new(url.clone(), (name, channels), context, announcement)))
}

/// Where a naming service is.
fn naming_context(url: &str) -> Result<giop::ior::Ior, StartError> {
    let bad = |why: String| StartError::OutsideNaming { url: url.to_owned(), why };
    match url.parse().map_err(|error| bad(format!("{error}")))? {
        giop::url::Url::Ior(ior) => Ok(ior),
        giop::url::Url::Corbaloc(location) => Ok(location.to_ior("IDL:omg.org/CosNaming/NamingContext:1.0")),
        _ => Err(bad("a naming service is given by corbaloc: or IOR:".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_are_not_there_are_named() {
        check_processors(&[]).unwrap();
        let error = check_processors(&[1023]).unwrap_err();
        assert!(error.to_string().starts_with("lanes.cpus = [1023]: this process may run on none of"), "{error}");
    }
}
