//! The peers: where `lab/peers/install.sh` has left them, with the files that configure them.
//!
//! Each is found in the folder `target/peers`, beside which the benchmarks are run. What each setting is for, and where it is
//! recommended, is said in `lab/peers/README.md`.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use client::event_service::EventChannel;
use client::notify::{EventChannelFactory, Property};
use client::{Marshal, Orb, OrbOptions};
use giop::ior::Ior;

use super::{Absence, Consume, Contender, Scenario, Server, Supply, batches_of};
use crate::campanile::{self, Channel, ProxyAddress, consumer_reference, setup};
use crate::performance::protocol::Protocol;
use crate::persistent::Folder;
use crate::process::Process;
use crate::{BenchError, CarriageOptions, Form, leash};

const FOLDER: &str = "target/peers";

/// The subject or topic of the events, or the key of their consumer, by default.
const SUBJECT: &[u8] = b"bench";

#[derive(Debug, Clone)]
struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Finds a peer.
    fn find(name: &str) -> Result<Self, Absence> {
        let folder = Path::new(FOLDER).join(name);
        let state = std::fs::read_to_string(folder.join("state")).map_err(|_| {
            Absence::NotInstalled(format!("{} is not there: run lab/peers/install.sh", folder.display()))
        })?;
        version(&state).map_err(Absence::NotInstalled)?;
        let folder = folder.canonicalize().map_err(BenchError::io("finding a peer"))?;
        Ok(Self { folder })
    }

    fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// A text with the path of a file of it at its end.
    fn text(&self, before: &str, name: &str) -> OsString {
        let mut text = OsString::from(before);
        text.push(self.file(name));
        text
    }
}

/// A peer's name and version, for the report; the name alone where it is not installed.
fn name_and_version(name: &str, folder: &str) -> String {
    let state = std::fs::read_to_string(Path::new(FOLDER).join(folder).join("state")).unwrap_or_default();
    version(&state).map_or_else(|_| name.to_owned(), |version| format!("{name} {version}"))
}

/// What the state of a peer says: `ready VERSION`, or `missing REASON`.
fn version(state: &str) -> Result<&str, String> {
    match state.trim().split_once(' ') {
        Some(("ready", version)) => Ok(version),
        Some(("missing", reason)) => Err(reason.to_owned()),
        _ => Err(format!("its state is not understood: {state}")),
    }
}

/// The command, with its program first, that runs a program with these arguments and variables of the environment, on that core
/// if there is one, and has it end when the benchmark does.
fn command<'a>(
    core: Option<usize>,
    variables: &[(&str, OsString)],
    program: &Path,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<Vec<OsString>, BenchError> {
    let mut words = leash::words(Some(OsStr::new("env")), core, None)?;
    for (name, value) in variables {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        words.push(variable);
    }
    words.push(program.into());
    words.extend(arguments.into_iter().map(OsStr::to_owned));
    Ok(words)
}

/// Starts such a command, and waits for the line for which `ready` returns something.
fn spawn<R>(
    name: &'static str,
    words: &[OsString],
    ready: impl Fn(&str) -> Option<R>,
) -> Result<(Process, R), BenchError> {
    let mut command = std::process::Command::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words.iter().skip(1));
    Process::spawn(name, command, ready)
}

const NO_SEQUENCES: Absence = Absence::NotOffered("it has no sequences of events");

fn has_sequences(scenario: &Scenario) -> bool {
    matches!(scenario.supply, Supply::Sequences(..)) || matches!(scenario.consume, Consume::Sequences(..))
}

// ---- omniORB: its suppliers push to its consumers without a service, by the program of `lab/peers/omniorb` ----

/// A supplier and a consumer, both of them omniORB's.
pub(super) const OMNIORB: Contender =
    Contender { key: "omniorb", name: "omniORB direct", about: about_omniorb, warm_up_times: 1, start: start_omniorb };

fn about_omniorb() -> String {
    let name = name_and_version("omniORB", "omniorb");
    format!("{name} at both ends and nothing between them: one hop, so no process in the middle")
}

fn start_omniorb(scenario: &Scenario) -> Result<Server, Absence> {
    if scenario.consumers != 1 {
        return Err(Absence::NotOffered("without a service there is one consumer"));
    }
    // What the supplier pushes is what the consumer gets.
    let fits = match (scenario.supply, scenario.consume) {
        (Supply::TwoWay, Consume::TwoWay(_)) => true,
        (Supply::OneWay, _) => !matches!(scenario.consume, Consume::Sequences(..)),
        (Supply::Sequences(_, 0 | 1), Consume::Sequences(..)) => true,
        _ => false,
    };
    if !fits {
        return Err(Absence::NotOffered("a thread has one unanswered call at most, and what is pushed is what comes"));
    }
    let installed = Installed::find("omniorb")?;
    let variables = [("OMNIORB_CONFIG", installed.file("omniORB.cfg").into())];
    let program = Some(command(scenario.ends_core, &variables, &installed.file("peer"), [])?);
    Ok(Server { program, ..Server::new(scenario, scenario.giop(), SUBJECT.to_vec()) })
}

// ---- Cyclone DDS: its writers reach its readers without a service, by the program of `lab/peers/cyclonedds` ----

/// A writer and its readers.
pub(super) const CYCLONEDDS: Contender = Contender {
    key: "cyclonedds",
    name: "Cyclone DDS",
    about: about_cyclonedds,
    warm_up_times: 1,
    start: start_cyclonedds,
};

/// Domains that one is chosen of, so that benchmarks beside each other do not meet: each takes 250 ports.
const DOMAINS: u32 = 200;

fn about_cyclonedds() -> String {
    let name = name_and_version("Cyclone DDS", "cyclonedds");
    format!(
        "{name}, reliable, all samples kept, over UDP; its writer sends to each reader's process itself: one hop, so no \
         process in the middle. Samples are acknowledged in the background and no writer waits for that; two-way means \
         that each leaves at once in a packet of its own, one-way that small ones share packets; see lab/peers/README.md"
    )
}

fn start_cyclonedds(scenario: &Scenario) -> Result<Server, Absence> {
    if has_sequences(scenario) {
        return Err(NO_SEQUENCES);
    }
    if matches!(scenario.supply, Supply::Windowed(_)) {
        return Err(Absence::NotOffered("its writers know no windows"));
    }
    let installed = Installed::find("cyclonedds")?;
    let domain = (std::process::id() % DOMAINS).to_string();
    let consumers = scenario.consumers.to_string();
    let batch = if scenario.supply == Supply::OneWay { "1" } else { "0" };
    let arguments = ["--domain", &domain, "--consumers", &consumers, "--batch", batch].map(OsStr::new);
    let variables = [("CYCLONEDDS_URI", installed.text("file://", "cyclonedds.xml"))];
    let program = Some(command(scenario.ends_core, &variables, &installed.file("peer"), arguments)?);
    // DDS finds readers by their topic, and its program has a protocol of its own.
    let nowhere = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let server = Server::new(scenario, Protocol::Giop(Form::Structured), SUBJECT.to_vec());
    Ok(Server { address: nowhere, program, ..server })
}

// ---- JacORB's Notification Service ----

/// The service in a Java machine of its own.
pub(super) const JACORB: Contender = Contender {
    key: "jacorb",
    name: "JacORB Notification",
    about: about_jacorb,
    // Its Java machine compiles: 30,000 events/s in the second after the first half, 45,000 some seconds later.
    warm_up_times: 7,
    start: start_jacorb,
};

fn about_jacorb() -> String {
    let name = name_and_version("JacORB", "jacorb-notification");
    format!(
        "{name}, the same ends; its queues are unbounded and FIFO, and it pushes two-way in every case; see lab/peers/README.md"
    )
}

fn start_jacorb(scenario: &Scenario) -> Result<Server, Absence> {
    let (process, reference) = spawn_jacorb(scenario.server_core, scenario.consumers)?;
    let doing = "making a channel in JacORB";
    let factory = Orb::new(OrbOptions::default()).resolve(&reference).map_err(setup(doing))?;
    let (channel, _) = EventChannelFactory::unchecked(factory).create_channel(&[], &[]).map_err(setup(doing))?;
    let channel = Channel::of(channel);
    let proxy = channel.add_supplier(CarriageOptions { form: scenario.form_in(), ..CarriageOptions::default() })?;
    // The window is what it knows nothing of: one push is unanswered at a time.
    let qos = match scenario.consume {
        Consume::Sequences(events, _) => Some(batches_of(events)),
        Consume::TwoWay(_) | Consume::OneWay => None,
    };
    let form = scenario.form_out();
    let connect = move |address, key: &[u8]| channel.connect_consumer(address, key, form, qos.as_slice());
    let server = Server::behind(scenario, [scenario.giop(), Protocol::Giop(form)], proxy, connect);
    Ok(Server { processes: vec![process], ..server })
}

/// Starts JacORB's service for so many consumers on a free port of loopback; the reference to its factory.
pub(crate) fn spawn_jacorb(core: Option<usize>, consumers: u32) -> Result<(Process, String), Absence> {
    let installed = Installed::find("jacorb-notification")?;
    // Threads that deliver. With several, more than one has a hand in each event for a single consumer (seen: 38,000 events/s with 4,
    // the default, and 47,000 with 1); many consumers are served faster by all of them.
    let threads = if consumers == 1 { 1 } else { 4 };
    let arguments = [
        installed.text("@", "java.options"),
        format!("-Djacorb.notification.proxysupplier.thread_pool_size={threads}").into(),
        installed.text("-Dcustom.props=", "service.properties"),
        "-cp".into(),
        installed.text("", "lib/*"),
        "org.jacorb.notification.ConsoleMain".into(),
        "-printIOR".into(),
    ];
    let words = command(core, &[], Path::new("java"), arguments.iter().map(OsString::as_os_str))?;
    let reference = |line: &str| line.starts_with("IOR:").then(|| line.trim().to_owned());
    Ok(spawn("JacORB Notification", &words, reference)?)
}

// ---- The NATS server ----

/// The server in a process of its own.
pub(super) const NATS: Contender =
    Contender { key: "nats", name: "NATS", about: about_nats, warm_up_times: 1, start: start_nats };

fn about_nats() -> String {
    let name = name_and_version("nats-server", "nats");
    format!(
        "{name}, core NATS; messages of the same payload over its text protocol, by the same ends. It answers publishers in \
         its verbose mode only, which two-way and windowed mean here, and never hears of consumers; see lab/peers/README.md"
    )
}

fn start_nats(scenario: &Scenario) -> Result<Server, Absence> {
    if has_sequences(scenario) {
        return Err(NO_SEQUENCES);
    }
    let installed = Installed::find("nats")?;
    let config = installed.file("nats-server.conf");
    let arguments = [OsStr::new("--config"), config.as_os_str()];
    // Go's collector runs at four times what is in use and not at twice: 10 % more messages (measured; the default is 100).
    let variables = [("GOGC", "400".into())];
    let words = command(scenario.server_core, &variables, &installed.file("nats-server"), arguments)?;
    let (process, address) = spawn("nats-server", &words, nats_address)?;
    // Consumers of a process share a connection, as those of a CORBA service do.
    let server = Server::new(scenario, Protocol::Nats, SUBJECT.to_vec());
    Ok(Server { address: Some(address), consumers_connect: true, processes: vec![process], ..server })
}

/// The address in the line of its log that says where it listens.
fn nats_address(line: &str) -> Option<SocketAddr> {
    line.split_once("Listening for client connections on ")?.1.trim().parse().ok()
}

// ---- omniEvents, an event service: Anys only ----

/// The service in a process of its own.
pub(super) const OMNIEVENTS: Contender = Contender {
    key: "omnievents",
    name: "omniEvents",
    about: about_omnievents,
    warm_up_times: 1,
    start: start_omnievents,
};

/// What a consumer's reference says it is.
const CONSUMER_TYPE: &str = "IDL:omg.org/CosEventComm/PushConsumer:1.0";

/// What the manual calls the key under which the factory makes channels: the id and the kind of its one component.
const CHANNEL_KEY: (&str, &str) = ("EventChannel", "object interface");

/// How long a channel waits before it carries on what has come, in nanoseconds (`CyclePeriod_ns`; default 100 ms): as short as can be
/// without one of its threads never sleeping, which would take a core from the contender with the next turn.
const CYCLE_PERIOD_NS: u32 = 1_000_000;

/// Events that may wait for a consumer (`MaxQueueLength`); beyond, the oldest is discarded.
const QUEUE_LENGTH: u32 = 10_000_000;

fn about_omnievents() -> String {
    let name = name_and_version("omniEvents", "omnievents");
    format!(
        "{name}, the same ends, with Anys in place of structured events; its cycle is 1 ms, and it pushes to consumers \
         two-way in every case; see lab/peers/README.md"
    )
}

fn start_omnievents(scenario: &Scenario) -> Result<Server, Absence> {
    if has_sequences(scenario) {
        return Err(NO_SEQUENCES);
    }
    if scenario.supply == Supply::OneWay {
        // Seen: a second's pushes are not delivered within 30 s.
        return Err(Absence::NotOffered("it holds no supplier back, and queues one-way pushes without bound"));
    }
    let (process, state, address) = spawn_omnievents(scenario.server_core)?;
    let channel = new_channel(address)?;
    let doing = "connecting a supplier to omniEvents";
    let proxy = channel.for_suppliers().and_then(|admin| admin.obtain_push_consumer()).map_err(setup(doing))?;
    proxy.connect_push_supplier(None).map_err(setup(doing))?;
    let proxy = ProxyAddress::of(proxy.object(), doing)?;
    let connect = move |address, key: &[u8]| {
        let doing = "connecting a consumer to omniEvents";
        let consumer = channel.object().orb().object(consumer_reference(CONSUMER_TYPE, address, key, &[]));
        let proxy = channel.for_consumers().and_then(|admin| admin.obtain_push_supplier()).map_err(setup(doing))?;
        proxy.connect_push_consumer(&consumer).map_err(setup(doing))
    };
    let server = Server::behind(scenario, [Protocol::Giop(Form::Any); 2], proxy, connect);
    Ok(Server { processes: vec![process], _state: Some(state), ..server })
}

/// Starts omniEvents on a free port of loopback; and where it keeps its channels.
fn spawn_omnievents(core: Option<usize>) -> Result<(Process, Folder, SocketAddr), Absence> {
    let installed = Installed::find("omnievents")?;
    let free = campanile::listen()?.local_addr().map_err(BenchError::io("looking for a free port"))?;
    let port = free.port().to_string();
    let state = Folder::new(&format!("omnievents-{port}"), None)?;
    let variables = [
        ("LD_LIBRARY_PATH", installed.file("root/usr/lib").into()),
        ("OMNIORB_CONFIG", installed.file("omniORB.cfg").into()),
    ];
    // What it writes into references; it would take an address of the network.
    let published = format!("giop:tcp:{free}");
    let arguments = ["-f", "-v", "-t", "/dev/stderr", "-p", &port, "-ORBendPointPublish", &published, "-l"];
    let folder = state.file("");
    let arguments = arguments.into_iter().map(OsStr::new).chain([folder.as_os_str()]);
    let words = command(core, &variables, &installed.file("root/usr/sbin/omniEvents"), arguments)?;
    let (process, ()) = spawn("omniEvents", &words, |line| line.contains(" IOR:").then_some(()))?;
    Ok((process, state, free))
}

/// Makes a channel of omniEvents without clients.
fn new_channel(address: SocketAddr) -> Result<EventChannel, BenchError> {
    let doing = "making a channel in omniEvents";
    let factory = Orb::new(OrbOptions::default()).resolve(&format!("corbaloc::1.2@{address}/omniEvents"));
    let factory = factory.map_err(setup(doing))?;
    // `GenericFactory::create_object(in Key k, in Criteria the_criteria)` of the OMG's Life Cycle Service 1.2.
    let criteria = [("CyclePeriod_ns", CYCLE_PERIOD_NS), ("MaxQueueLength", QUEUE_LENGTH)];
    let criteria = criteria.map(|(name, value)| Property::new(name, value));
    let wanted = (&[CHANNEL_KEY][..], &criteria[..]);
    let reply = factory.invoke("create_object", |writer| wanted.marshal(writer)).map_err(setup(doing))?;
    let channel = reply.read("create_object", Ior::read).map_err(setup(doing))?;
    Ok(EventChannel::unchecked(factory.orb().object(channel)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_there_or_says_why_not() {
        assert_eq!(version("ready 1:2.6.2-6\n"), Ok("1:2.6.2-6"));
        assert_eq!(version("missing there is no go\n"), Err("there is no go".to_owned()));
        assert!(version("").is_err());
    }

    #[test]
    fn a_command_has_its_variables_and_its_leash() {
        let words = command(Some(1), &[("A", "b c".into())], Path::new("/bin/peer"), [OsStr::new("--x")]).unwrap();
        let tail = ["--core", "1", "--program", "env", "--", "A=b c", "/bin/peer", "--x"].map(OsString::from);
        assert!(words.ends_with(&tail), "{words:?}");
    }

    #[test]
    fn finds_the_address_in_the_line_that_says_where_nats_listens() {
        let line = "[9662] [INF] Listening for client connections on 127.0.0.1:46045";
        assert_eq!(nats_address(line), Some("127.0.0.1:46045".parse().unwrap()));
        assert_eq!(nats_address("[9662] [INF] Server is ready"), None);
    }
}
