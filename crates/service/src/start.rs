//! Starting and stopping a service.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use arc_swap::ArcSwap;
use engine::{ChannelLimits, HierarchyLimits, SettingsPatch, SharedMemory};
use giop::cdr::CharSet;
use giop::framing;

use crate::admin::analyses::Analyses;
use crate::admin::client_lines::ClientLines;
use crate::admin::drain::Undone;
use crate::admin::inquiry::Inquiry;
use crate::admin::keeping::Keeping;
use crate::admin::program;
use crate::admin::publishing::Publishing;
use crate::admin::refusals::Refusals;
use crate::admin::run::{Administration, Ending, LINES, Log, Withheld};
use crate::admin::turns::Turns;
use crate::announcement::Announcement;
use crate::config::{Config, ConfigError, DeclaredChannel, DeclaredValue, Limits, NarrowCodeSet};
use crate::counters::Counters;
use crate::doors::giop::outside_naming::OutsideNaming;
use crate::doors::{self, Listeners, Objects};
use crate::lane::io::net::{self, Bell};
use crate::lane::io::unfinished::Reserve;
use crate::lane::links::mail::ToAdministration;
use crate::lane::links::post::{Post, post_to};
use crate::lane::links::roster::{Roster, RosterOptions};
use crate::lane::reports::Allowance;
use crate::lane::run::Common;
use crate::lane::scheduling;
use crate::memory::Memory;
use crate::published::Published;
use crate::resolver::{self, Asking, Resolver};
use crate::store::{self, Changes, Disk, Store};
use crate::time;
use accounts::{Accounts, Ceilings, Resource};
use corba::naming::NamingLimits;
use corba::{Declared, Door, DoorSettings};

/// Why a service did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// The reference file cannot be written.
    IorFile {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// What is to be configured cannot be read, or not be made.
    Topology {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What outlives the process cannot be had, or not be kept.
    Store {
        /// The folder.
        directory: PathBuf,
        /// Why not.
        why: String,
    },
    /// A channel that the configuration declares cannot be had.
    Channel {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// The outside naming service's address cannot be understood.
    OutsideNaming {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Lanes can run on none of the processors that the configuration names.
    Processors {
        /// `lanes.cpus`.
        processors: Vec<u16>,
        /// What the operating system says.
        error: io::Error,
    },
    /// A thread, a poll or a bell cannot be made.
    Resources(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { address, error } if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address} is in use: another service listens there; stop it, or choose another port with --listen {}:PORT",
                address.ip()
            ),
            Self::Listen { address, error } if error.kind() == io::ErrorKind::AddrNotAvailable => {
                write!(f, "{address} is not an address of this host; choose one with --listen HOST:PORT")
            }
            Self::Listen { address, error } if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot listen on {address}: {error}; ports below 1024 are for privileged programs: choose one above with \
                 --listen {}:PORT, or give the program cap_net_bind_service",
                address.ip()
            ),
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::IorFile { path, error } => write!(
                f,
                "cannot write the reference file {}: {error}; name a file in a folder that there is and that this user may \
                 write to with --ior-file, or ior_file in the configuration",
                path.display()
            ),
            Self::Topology { path, why } => {
                write!(
                    f,
                    "the topology of {} cannot be made: {why}; see `campanile topology export --help`",
                    path.display()
                )
            }
            Self::Store { directory, why } => write!(
                f,
                "the store in {} cannot be used: {why}; name another folder with --data, or keep nothing with --data none",
                directory.display()
            ),
            Self::Channel { name, why } => write!(f, "channels, name = \"{name}\": {why}"),
            Self::OutsideNaming { url, why } => {
                write!(f, "naming.outside = \"{url}\": {why}; write for example corbaloc::host:2809/NameService")
            }
            Self::Processors { processors, error } => write!(
                f,
                "lanes.cpus = {processors:?}: this process may run on none of these processors ({error}); \
                 Cpus_allowed_list in /proc/self/status names those that it may"
            ),
            Self::Resources(error) => write!(f, "the operating system refuses what the service needs: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Resources(error)
    }
}

/// A running service. Dropping it stops it.
pub struct Service {
    address: SocketAddr,
    json_address: Option<SocketAddr>,
    advertised: (String, u16),
    reference: String,
    counters: Counters,
    remarks: Vec<String>,
    announcement: Arc<Announcement>,
    /// For what the program asks, and for whoever stops the service.
    pub(crate) administration: Mutex<Post<ToAdministration>>,
    administration_thread: Option<JoinHandle<Undone>>,
    stopper: Stopper,
}

/// Has a service that [delivers what it has taken](Service::drain) end at once.
#[derive(Debug, Clone)]
pub struct Stopper {
    hurry: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

impl Stopper {
    /// Ends it. What is left to deliver is lost, and counted and logged.
    pub fn stop_now(&self) {
        self.hurry.store(true, Ordering::Relaxed);
        self.bell.ring();
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Descriptors that are neither clients' nor consumers': the poll, the bell, the standard streams.
const OWN_DESCRIPTORS: u64 = 16;

impl Service {
    /// Starts a service. It answers requests from the moment this returns.
    ///
    /// # Errors
    /// When the configuration cannot be used, the port is taken, or the operating system refuses a thread or a file.
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        check_processors(&config.lanes.cpus)?;
        let (listener, address) = listen(config.listen_address()?)?;
        let json = config.json_listen_address()?.map(listen).transpose()?;
        let (host, port) = config.advertised(address)?;
        let connections_max = connections_that_fit(&config.limits, raise_descriptor_limit());
        make_room_for_descriptors(&listener, connections_max);
        let json_address = json.as_ref().map(|(_, address)| *address);

        let listeners =
            Listeners { giop: net::listener(listener), json: json.map(|(listener, _)| net::listener(listener)) };
        let assembled = assemble(&config, listeners, (&host, port), connections_max)?;
        let Assembled { administrator, administration, reference, counters, mut remarks, announcement, is_outside } =
            assembled;
        remarks.extend(json_address.and_then(remark_on_json));
        let stopper = Stopper { hurry: Arc::clone(&administrator.ending.hurry), bell: Arc::clone(&administrator.bell) };
        // From here on a failure drops it, which stops what has been started.
        let mut service = Self {
            address,
            json_address,
            advertised: (host, port),
            reference,
            counters,
            remarks,
            announcement,
            administration: Mutex::new(administration),
            administration_thread: None,
            stopper,
        };
        service.administration_thread = Some(begin(administrator)?);
        service.announce(is_outside)?;
        Ok(service)
    }

    /// The address it listens on, with the real port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it takes lines of JSON, with the real port, if it does.
    #[must_use]
    pub const fn json_address(&self) -> Option<SocketAddr> {
        self.json_address
    }

    /// The stringified reference of the event channel factory.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// A `corbaloc` URL for one of the bootstrap keys, such as `NotificationService` or `NameService`.
    #[must_use]
    pub fn corbaloc(&self, key: &str) -> String {
        let (host, port) = &self.advertised;
        if host.contains(':') {
            return format!("corbaloc::1.2@[{host}]:{port}/{key}");
        }
        format!("corbaloc::1.2@{host}:{port}/{key}")
    }

    /// The service's counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What of `[lanes]` is not as it was asked for, or leaves the system unreachable: a line for each, for whoever starts
    /// the service.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Has somebody told, on whichever thread, when clients may look for the service: when the outside naming service has its name,
    /// and the reference file is written. At once where there is no such naming service, or it has it already.
    pub fn when_announced(&self, tell: impl FnOnce() + Send + 'static) {
        self.announcement.when_made(tell);
    }

    /// Whether that moment has come.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.announcement.is_made()
    }

    /// Announces the service, unless that is for an outside naming service to occasion.
    fn announce(&self, is_outside: bool) -> Result<(), StartError> {
        let done = if is_outside { Ok(()) } else { self.announcement.make(&self.reference) };
        done.map_err(|error| not_written(&self.announcement, error))
    }

    /// Stops the service at once: what it was asked before is answered, clients are told that their connections close, and
    /// its threads end. Events that consumers have yet to get are lost.
    pub fn shutdown(mut self) {
        self.stop(None);
    }

    /// Stops the service when it has delivered what it has taken, or `limit` is over, and says what was not delivered. From now
    /// on it accepts no connections, and answers what suppliers push with `TRANSIENT`.
    ///
    /// What consumers do not take is not waited for: what suspended ones have, those events whose `StartTime` is to come, and
    /// what a consumer could fetch that has not fetched anything for a second. What is not delivered is counted
    /// ([`Counter::Undelivered`](crate::Counter::Undelivered)) and logged by consumer.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Undone {
        self.stop(Some(limit))
    }

    /// What ends [`drain`](Self::drain) at once.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn stop(&mut self, limit: Option<Duration>) -> Undone {
        let Some(thread) = self.administration_thread.take() else { return Undone::default() };
        // There is room: nobody asks at the same time. Administration ends the lanes when it has answered.
        if let Ok(administration) = self.administration.get_mut() {
            let _ = administration.post(ToAdministration::Stop(limit));
        }
        // A thread that panicked has said so on standard error already.
        thread.join().unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop(None);
    }
}

fn not_written(announcement: &Announcement, error: io::Error) -> StartError {
    StartError::IorFile { path: announcement.file().map(PathBuf::from).unwrap_or_default(), error }
}

/// Starts the administration thread.
fn begin(administrator: Administration) -> io::Result<JoinHandle<Undone>> {
    Builder::new().name("administration".into()).spawn(move || {
        lower_priority();
        administrator.run()
    })
}

/// A service whose lanes run, and whose administration has yet to begin.
pub(crate) struct Assembled {
    pub(crate) administrator: Administration,
    /// For what the service itself wants of it.
    pub(crate) administration: Post<ToAdministration>,
    /// Of the factory.
    reference: String,
    pub(crate) counters: Counters,
    remarks: Vec<String>,
    announcement: Arc<Announcement>,
    /// An outside naming service occasions the announcement.
    is_outside: bool,
}

/// Makes a service that is reached at `host` and `port`, and starts its lanes.
fn assemble(
    config: &Config,
    listeners: Listeners,
    (host, port): (&str, u16),
    connections_max: ConnectionsMax,
) -> Result<Assembled, StartError> {
    let memory = config.memory();
    let mut door = Door::new(door_settings(config, memory, host, port));
    let accounts = Accounts::new(ceilings(config, memory, connections_max));
    let disk = furnish(&mut door, config, &accounts)?;
    let announcement = Arc::new(Announcement::new(config.ior_file.clone()));
    let (factory, outside_naming) = (door.factory_reference(), outside_naming(config, &announcement)?);
    let is_outside = outside_naming.is_some();
    let Some(published) = door.publish() else { return Err(StartError::Resources(io::ErrorKind::Other.into())) };
    let published = Arc::new(ArcSwap::from_pointee(Published::from(published)));

    let counters = Counters::new(config.lanes.threads_max.into());
    let bell = Arc::new(Bell::new()?);
    let (administration, orders) = post_to(&bell, program::LETTERS);
    let (origin, mut remarks) = (time::now(), remarks_on_memory(config));
    let common = common(config, memory, &published, accounts, origin);
    let roster = roster(config, common, &counters, &bell, listeners)?;
    let store = disk.map(|disk| Store::start(disk, &bell, counters.of_store())).transpose()?;
    remarks.extend(roster.remarks());
    let administrator = Administration {
        objects: Objects::new(door, outside_naming),
        publishing: Publishing::new(published),
        roster,
        requests: Turns::default(),
        analyses: Analyses::new(&bell),
        orders,
        bell,
        counters: counters.of_administration(),
        registry: counters.clone(),
        answers: Withheld::default(),
        keeping: Keeping::new(store),
        inquiry: Inquiry::default(),
        leaving: Vec::new(),
        ending: Ending::default(),
        origin,
        log: Log {
            lines: Allowance::new("disconnected clients", LINES),
            client_lines: ClientLines::new(),
            refusals: Refusals::default(),
            remarks: Allowance::new("clients that come and go", LINES),
        },
    };
    let reference = factory.to_string();
    Ok(Assembled { administrator, administration, reference, counters, remarks, announcement, is_outside })
}

/// The same in a simulation, where there are no descriptors.
#[cfg(test)]
pub(crate) fn simulated(
    config: &Config,
    listener: net::Listener,
    address: SocketAddr,
) -> Result<Assembled, StartError> {
    let connections_max = ConnectionsMax { from_clients: 1_000, to_clients: 1_000 };
    let listeners = Listeners { giop: listener, json: None };
    assemble(config, listeners, (&address.ip().to_string(), address.port()), connections_max)
}

/// Lanes that the resolver may have to be told of before it looks.
const INTRODUCTIONS: usize = 256;

/// Starts the resolver and the main lane.
fn roster(
    config: &Config,
    common: Common,
    counters: &Counters,
    bell: &Arc<Bell>,
    listeners: Listeners,
) -> io::Result<Roster> {
    let (resolver_bell, resolver) = start_resolver(counters)?;
    let options = RosterOptions {
        common,
        lanes: config.lanes.clone(),
        administration_queue: config.limits.administration_queue as usize,
        registry: counters.clone(),
        bell: Arc::clone(bell),
        resolver_bell,
        resolver,
    };
    Roster::new(options, listeners)
}

/// Starts the resolver, to which lanes are introduced. Nobody waits for its end, since a look-up can take a minute; it ends when
/// the lanes have.
fn start_resolver(counters: &Counters) -> io::Result<(Arc<Bell>, Post<Asking>)> {
    let bell = Arc::new(Bell::new()?);
    let (post, introductions) = post_to(&bell, INTRODUCTIONS);
    #[cfg(test)]
    let Some(introductions) = crate::simulation::take_resolver(introductions) else { return Ok((bell, post)) };
    let resolver =
        Resolver::new(Arc::clone(&bell), introductions, Arc::new(resolver::by_system), counters.of_resolver());
    Builder::new().name("resolver".into()).spawn(move || resolver.run())?;
    Ok((bell, post))
}

/// Listens, and says on which address.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).map_err(|error| StartError::Listen { address, error })?;
    // The standard library asks for room for 128 that are not accepted yet. Each that finds none tries again after a
    // second, which a storm of connections would cost everybody. The system takes off what is beyond its own limit.
    rustix::net::listen(&listener, BACKLOG).map_err(io::Error::from)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Lines of JSON are for programs of this host: where others can connect, everybody who reads the log is to know.
fn remark_on_json(address: SocketAddr) -> Option<String> {
    let remark = format!(
        "json.listen: whoever can reach {address} can publish and read events there; nothing is encrypted, and nobody is asked who \
         it is"
    );
    (!address.ip().is_loopback()).then(|| {
        log::warn!("{remark}");
        remark
    })
}

/// What is the same for all lanes.
fn common(
    config: &Config,
    memory: Memory,
    published: &Arc<ArcSwap<Published>>,
    accounts: Arc<Accounts>,
    origin: Instant,
) -> Common {
    // As many of the smallest as there is room for in the queue come to the limit.
    let request_bytes_min = accounts.limit(Resource::RequestBytes) / u64::from(config.limits.administration_queue);
    Common {
        published: Arc::clone(published),
        doors: doors::Settings {
            giop: doors::giop::Settings {
                framing: framing_limits(config),
                request_bytes_min,
                connect_timeout: Duration::from_millis(config.delivery.connect_timeout_ms.into()),
                silence: Duration::from_millis(config.delivery.reply_timeout_ms.into()),
            },
            json: doors::json::Settings { limits: config.json_limits(), request_bytes_min },
        },
        accounts,
        reserve: Arc::new(Reserve::new(reserve_bytes(config, memory))),
        memory: Arc::new(SharedMemory::new(memory.of_channels(), config.limits.client_share_percent)),
        message_completion: config.message_completion(),
        share: config.share(),
        main_discipline: config.lanes.discipline.of_lane(),
        origin,
    }
}

/// What an address may have whatever its share: what a few ordinary clients need.
const CONNECTIONS_MIN: u64 = 16;
const INCOMPLETE_BYTES_MIN: u64 = 1 << 20;
const REPLY_BYTES_MIN: u64 = 1 << 20;
const REQUEST_BYTES_MIN: u64 = 256 << 10;
const CHANNELS_MIN: u64 = 4;
const KEPT_BYTES_MIN: u64 = 1 << 20;
const PROXIES_MIN: u64 = 1_024;
const EVENT_TYPES_MIN: u64 = 1_024;
const THREADS_MIN: u64 = 8;
/// Host names that may be looked up for an address whatever its share.
const LOOKUPS_MIN: u64 = 4;
/// Analyses under way, of all.
const ANALYSES_MAX: u64 = 64;
/// Requests that administration has, of all.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// What of the memory for connections lets a message be completed where the rest is spent: as much as four of the largest, but a quarter
/// at most; and always two of the largest, of which one gets half.
fn reserve_bytes(config: &Config, memory: Memory) -> u64 {
    let message = u64::from(config.limits.message_bytes_max);
    (memory.of_connections() / 4).clamp(2 * message, 4 * message)
}

/// What messages that are not complete may take beside the reserve: with it half of what connections have, but always an eighth.
fn incomplete_bytes_max(config: &Config, memory: Memory) -> u64 {
    let connections = memory.of_connections();
    let part = (connections / 2).saturating_sub(reserve_bytes(config, memory)).max(connections / 8);
    config.limits.incomplete_bytes_max.min(part)
}

/// The limit of each thing that clients can have.
fn ceilings(config: &Config, memory: Memory, connections_max: ConnectionsMax) -> Ceilings {
    let (limits, connections) = (&config.limits, memory.of_connections());
    Ceilings::new(limits.client_share_percent)
        .with(Resource::Connections, connections_max.from_clients, CONNECTIONS_MIN)
        .with(Resource::Outgoing, connections_max.to_clients, CONNECTIONS_MIN)
        .with(Resource::IncompleteBytes, incomplete_bytes_max(config, memory), INCOMPLETE_BYTES_MIN)
        .with(Resource::ReplyBytes, limits.unread_reply_bytes_max.min(connections / 4), REPLY_BYTES_MIN)
        .with(Resource::RequestBytes, REQUEST_BYTES_MAX.min(connections / 4), REQUEST_BYTES_MIN)
        .with(Resource::KeptBytes, memory.of_administration(), KEPT_BYTES_MIN)
        .with(Resource::Proxies, limits.proxies_max.into(), PROXIES_MIN)
        .with(Resource::EventTypes, limits.event_types_max.into(), EVENT_TYPES_MIN)
        .with(Resource::Threads, config.lanes.threads_max.into(), THREADS_MIN)
        .with(Resource::Channels, channels_max(), CHANNELS_MIN)
        .with(Resource::Lookups, resolver::QUEUE as u64, LOOKUPS_MIN)
        .with(Resource::LookupThreads, resolver::THREADS_MAX as u64, 1)
        .with(Resource::Analyses, ANALYSES_MAX, 1)
}

/// Channels that clients make. The default one is nobody's.
fn channels_max() -> u64 {
    u64::from(HierarchyLimits::default().channels_max) - 1
}

/// Locks memory if that is asked for, and says if it cannot be.
fn remarks_on_memory(config: &Config) -> Vec<String> {
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

fn door_settings(config: &Config, memory: Memory, host: &str, port: u16) -> DoorSettings {
    let millis = |value: u32| Some(Duration::from_millis(value.into()));
    DoorSettings {
        host: host.to_owned(),
        port,
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
            ..SettingsPatch::default()
        },
        limits: ChannelLimits {
            memory_budget_bytes: config.channel.memory_budget_bytes.min(memory.of_channels()),
            filter_steps_max: ChannelLimits::default().filter_steps_max.min(config.limits.filter_steps_max),
            ..ChannelLimits::default()
        },
        hierarchy: HierarchyLimits {
            lane_threads_max: config.lanes.threads_max.into(),
            filter_steps_max: config.limits.filter_steps_max,
            ..HierarchyLimits::default()
        },
        memory_bytes_max: memory.of_channels(),
        naming: NamingLimits::default(),
        nonce_seed: fastrand::u64(..),
    }
}

/// Makes the channels that the configuration declares, or sets those that are there already.
fn declare_channels(door: &mut Door, channels: &[DeclaredChannel]) -> Result<(), StartError> {
    for DeclaredChannel { name, properties, lane } in channels {
        let value = |value: &DeclaredValue| match value {
            DeclaredValue::Flag(flag) => Declared::Flag(*flag),
            DeclaredValue::Number(number) => Declared::Number(*number),
            DeclaredValue::Text(text) => Declared::Text(text.clone()),
        };
        let mut properties: Vec<(String, Declared)> =
            properties.iter().map(|(name, given)| (name.clone(), value(given))).collect();
        if !lane.is_empty() {
            let lanes = lane.iter().map(|lane| (lane.priority, lane.static_threads)).collect();
            properties.push(("ThreadPoolLanes".to_owned(), Declared::Lanes(lanes)));
        }
        door.declare_channel(name, &properties).map_err(|why| StartError::Channel { name: name.clone(), why })?;
    }
    Ok(())
}

/// Makes what there was, or else what a file says, and what the configuration declares; and has the store have just that.
fn furnish(door: &mut Door, config: &Config, accounts: &Arc<Accounts>) -> Result<Option<Disk>, StartError> {
    let Some(directory) = &config.store.directory else {
        make_topology(door, config.topology.as_deref())?;
        declare_channels(door, &config.channels)?;
        return Ok(None);
    };
    let failed = |why: String| StartError::Store { directory: directory.clone(), why };
    let (mut disk, kept) = store::open(directory).map_err(|error| failed(error.to_string()))?;
    // What clients made is charged, though nobody knows to whom: or each restart would give them as much again.
    let account = accounts.account_of(Ipv4Addr::UNSPECIFIED.into());
    let is_restored = door.restore_image(&kept, &account).map_err(failed)?;
    if is_restored {
        log::info!("store: {} parts of what was configured are restored from {}", kept.len(), directory.display());
    } else {
        make_topology(door, config.topology.as_deref())?;
    }
    declare_channels(door, &config.channels)?;
    door.note_changed_parts();
    let now = door.image();
    let gone = kept.keys().filter(|key| !now.contains_key(*key)).map(|key| (key.clone(), None));
    let news = now.iter().filter(|(key, value)| kept.get(*key) != Some(value));
    let changes: Changes = news.map(|(key, value)| (key.clone(), Some(value.clone()))).chain(gone).collect();
    if !changes.is_empty() {
        disk.write(&changes).map_err(|error| failed(error.to_string()))?;
    }
    Ok(Some(disk))
}

/// Makes what is to be configured at the start.
fn make_topology(door: &mut Door, file: Option<&Path>) -> Result<(), StartError> {
    let Some(path) = file else { return Ok(()) };
    let made = std::fs::read_to_string(path).map_err(|error| error.to_string()).and_then(|text| door.apply_json(&text));
    made.map_err(|why| StartError::Topology { path: path.into(), why })
}

/// Bytes of memory that a connection keeps for its own use when nothing is under way on it.
const OWN_BYTES: usize = 4 << 10;

fn framing_limits(config: &Config) -> framing::Limits {
    framing::Limits {
        message_bytes_max: config.limits.message_bytes_max as usize,
        fragment_sets_max: config.limits.fragment_sets_max as usize,
        // What a connection has of its own is small: buffers are lent to it.
        read_bytes: OWN_BYTES,
        retained_bytes_max: OWN_BYTES,
        ..framing::Limits::default()
    }
}

fn outside_naming(config: &Config, announcement: &Arc<Announcement>) -> Result<Option<OutsideNaming>, StartError> {
    let Some(url) = &config.naming.outside else { return Ok(None) };
    let bad = |why: String| StartError::OutsideNaming { url: url.clone(), why };
    let context = match url.parse().map_err(|error| bad(format!("{error}")))? {
        giop::url::Url::Ior(ior) => ior,
        giop::url::Url::Corbaloc(location) => location.to_ior("IDL:omg.org/CosNaming/NamingContext:1.0"),
        _ => return Err(bad("a naming service is given by corbaloc: or IOR:".into())),
    };
    let announcement = Arc::clone(announcement);
    announcement.remove_file().map_err(|error| not_written(&announcement, error))?;
    Ok(Some(OutsideNaming::new(url.clone(), context, announcement)))
}

/// Each connection takes a descriptor; the soft limit is often 1024, far below what the service is allowed. Says what the
/// limit is then.
fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let mut limit = before;
    limit.current = limit.maximum;
    let in_force = if setrlimit(Resource::Nofile, limit).is_ok() { limit.current } else { before.current };
    in_force.unwrap_or(u64::MAX)
}

/// Has the system make its table of the process's descriptors as large as it may come to be. It doubles that as descriptors are taken,
/// and has a thread that takes one meanwhile wait until no processor looks at the table before: the main lane, for 10 to 50 ms each time.
fn make_room_for_descriptors(any: impl AsFd, max: ConnectionsMax) {
    let last = OWN_DESCRIPTORS.saturating_add(max.from_clients).saturating_add(max.to_clients);
    // The table stays so large when the highest descriptor is closed again. Where there is no room for it, it grows as it must.
    let _ = rustix::io::fcntl_dupfd_cloexec(any, i32::try_from(last).unwrap_or(i32::MAX) - 1);
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConnectionsMax {
    from_clients: u64,
    to_clients: u64,
}

/// How many connections are accepted and made: with all descriptors taken by the ones, there would be none for the others.
fn connections_that_fit(limits: &Limits, descriptors: u64) -> ConnectionsMax {
    let wanted = u64::from(limits.connections_max);
    let fit = descriptors.saturating_sub(descriptors / 4).saturating_sub(OWN_DESCRIPTORS).max(1);
    if fit < wanted {
        log::warn!(
            "limits.connections_max is {fit} and not {wanted}: the process may have {descriptors} descriptors, and a \
             quarter of them is kept for connections to consumers"
        );
    }
    let from_clients = fit.min(wanted);
    let rest = descriptors.saturating_sub(OWN_DESCRIPTORS).saturating_sub(from_clients).max(1);
    ConnectionsMax { from_clients, to_clients: rest.min(limits.outgoing_connections_max.into()) }
}

/// Administration runs at the lowest ordinary priority, so that it takes a processor only when no event needs it (R5).
fn lower_priority() {
    // On Linux the nice value belongs to the thread.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As connections came, the lane stood still for up to 50 ms when there were 64, 128, 256 and so on: a client that opened a thousand
    /// delayed everybody's events by that.
    #[test]
    fn the_table_of_descriptors_has_room_for_all_connections_from_the_start() {
        let max = ConnectionsMax { from_clients: 3_000, to_clients: 2_000 };
        assert!(raise_descriptor_limit() > 5_016, "the test needs descriptors");
        make_room_for_descriptors(io::stdin(), max);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size: u64 = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse().unwrap();
        assert!(size >= 5_016, "{size}");
    }

    /// The reserve for large messages was 64 MiB of each lane beside the budget.
    #[test]
    fn what_connections_may_have_is_their_quarter_of_the_budget_unless_two_large_messages_are_more() {
        let octets = |memory_bytes: u64, message_bytes_max: u32| {
            let limits = Limits { message_bytes_max, ..Limits::default() };
            let (config, memory) = (Config { limits, ..Config::default() }, Memory::new(memory_bytes));
            let max = ConnectionsMax { from_clients: 1, to_clients: 1 };
            let ceilings = Accounts::new(ceilings(&config, memory, max));
            let kinds = [Resource::IncompleteBytes, Resource::ReplyBytes, Resource::RequestBytes];
            let sum: u64 = kinds.iter().map(|kind| ceilings.limit(*kind)).sum();
            (sum + reserve_bytes(&config, memory), memory.of_connections())
        };
        for memory_bytes in [352_u64 << 20, 512 << 20, 1 << 30, 64 << 30] {
            let (sum, part) = octets(memory_bytes, 16 << 20);
            assert!(sum <= part, "{sum} of {part}");
        }
        assert_eq!(octets(64 << 20, 2 << 20), (16 << 20, 16 << 20));
        // What docs/operating.md says of the smallest.
        assert_eq!(octets(64 << 20, 16 << 20), (42 << 20, 16 << 20));
    }

    #[test]
    fn neither_way_takes_the_descriptors_that_the_other_needs() {
        let limits = Limits::default();
        let that_fit = |descriptors| {
            let ConnectionsMax { from_clients, to_clients } = connections_that_fit(&limits, descriptors);
            (from_clients, to_clients)
        };
        assert_eq!(that_fit(u64::MAX), (4096, 65_536));
        assert_eq!(that_fit(65_536), (4096, 61_424));
        assert_eq!(that_fit(1024), (752, 256));
        assert_eq!(that_fit(64), (32, 16));
        assert_eq!(that_fit(8), (1, 1));
    }

    #[test]
    fn processors_that_are_not_there_are_named() {
        check_processors(&[]).unwrap();
        let error = check_processors(&[1023]).unwrap_err();
        assert!(error.to_string().starts_with("lanes.cpus = [1023]: this process may run on none of"), "{error}");
    }
}
