//! Services between servers: the same components over each, by a word of the plan.

use crate::parts::{Frame, Offset};
use campanile::raw::{RawSupplier, find_channel, orb};
use campanile::{Declared, Settings, TypeCode};
use campanile_component::{
    Descriptions, Failure, Input, Plan, PlanFile, Ports, Registry, SendOptions, Server, ServerSettings, Sink, Source,
    component,
};
use giop::value::Value;
use service::{Config, Service, Tempo};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;
use testing::{TempPath, wait_until};

/// The program of the plan among the examples.
const PROGRAM: &str = env!("CARGO_BIN_EXE_observatory");

/// Each service, and the name of a thread of which it has one for each unit that subscribes.
const SERVICES: [(&str, &str); 4] =
    [("notification", "client-accept"), ("rtes", "client-accept"), ("tempo", "tempo"), ("dds", "campanile-dds")];

/// Sends what it is told to, with as much priority as its number.
#[component]
struct Caller {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    offset: Source<Offset>,
}

impl Caller {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) -> Result<(), Failure> {
        let timeout = (frame.brightness > 0.0).then(|| Duration::from_secs_f64(frame.brightness));
        let options = SendOptions { priority: i16::try_from(frame.number)?, timeout };
        Ok(self.offset.send_with(&Offset { number: frame.number, x: 0.5 }, options)?)
    }
}

/// What listeners got: their key, the event's number and priority, and its source.
static HEARD: Mutex<Vec<(String, u64, i16, String)>> = Mutex::new(Vec::new());

#[component]
struct Listener {
    #[sink]
    offset: Sink<Offset>,
    key: String,
}

impl Listener {
    fn on_offset(&mut self, offset: &Offset, ports: &Ports) {
        let heard = (self.key.clone(), offset.number, ports.priority(), ports.source().to_owned());
        HEARD.lock().unwrap().push(heard);
    }
}

/// A domain that no other process of tests has on this machine: as long as it has the listener, at the first port of the domain.
static DOMAIN: LazyLock<(u16, TcpListener)> = LazyLock::new(free_domain);

fn free_domain() -> (u16, TcpListener) {
    let listener = |domain: u16| Some((domain, TcpListener::bind(("127.0.0.1", 7400 + 250 * domain)).ok()?));
    (215..=232).find_map(listener).unwrap()
}

pub(crate) fn service() -> Service {
    let host = testing::own_loopback();
    let tempo = Tempo { listen: Some(format!("{host}:0")), period_ms: 50, ..Tempo::default() };
    Service::start(Config { listen: format!("{host}:0"), tempo, ..Config::default() }).unwrap()
}

/// The keys of a container for a service.
pub(crate) fn keys(name: &str, service: &Service) -> String {
    match name {
        "tempo" => format!("service = \"tempo\"\nat = \"udp://{}\"\n", service.tempo_address().unwrap()),
        "dds" => format!("service = \"dds\"\nat = \"127.0.0.1\"\ndomain = {}\n", DOMAIN.0),
        _ => format!("service = \"{name}\"\nat = \"{}\"\n", service.address()),
    }
}

fn registry() -> Registry {
    Registry::new().with::<Caller>().with::<Listener>()
}

fn components() -> BTreeMap<String, Descriptions> {
    ["one", "two"].map(|name| (name.to_owned(), registry().descriptions())).into()
}

/// A caller in a server, and a listener in another.
fn calling(container: &str, key: &str) -> String {
    format!(
        "name = \"{key}\"\n[containers.shared]\n{container}\n[instances.caller]\ncomponent = \"Caller\"\nserver = \"one\"\n\
         container = \"shared\"\n[instances.listener]\ncomponent = \"Listener\"\nserver = \"two\"\ncontainer = \"shared\"\n\
         key = \"{key}\"\n[connections]\n\"caller.offset\" = [\"listener.offset\"]\n"
    )
}

/// A caller that was started, and what has it send.
fn caller(plan: &Plan) -> (Server, Input<Frame>) {
    let mut server = Server::deploy(plan, "one", &registry(), ServerSettings::default()).unwrap();
    let input = server.input::<Frame>("caller.frame").unwrap();
    server.start().unwrap();
    (server, input)
}

/// The threads of a process that have this name.
fn threads(process: u32, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let is_it = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    tasks.filter_map(Result::ok).filter(is_it).count()
}

/// Sockets of a process, beside what it has for input and output.
fn sockets(process: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let is_socket = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    let is_own = |file: &std::fs::DirEntry| !["0", "1", "2"].map(Some).contains(&file.file_name().to_str());
    files.filter_map(Result::ok).filter(|file| is_own(file) && is_socket(file)).count()
}

/// A camera in the dome, and three guiders in two containers of another server, each with a mount.
fn observatory(folder: &Path, container: &str, guiding: &str) -> String {
    let mut plan = format!(
        "name = \"observatory\"\n[servers.dome]\nprogram = \"{PROGRAM}\"\n[servers.control]\nprogram = \"{PROGRAM}\"\n\
         [containers.first]\n{container}\n[containers.second]\n{container}\n[instances.camera]\ncomponent = \"Camera\"\n\
         server = \"dome\"\ncontainer = \"first\"\n"
    );
    for (number, container) in [(1, "first"), (2, "first"), (3, "second")] {
        let log = folder.join(format!("mount{number}.log"));
        write!(
            plan,
            "[instances.guider{number}]\ncomponent = \"Guider\"\nserver = \"{guiding}\"\ncontainer = \"{container}\"\ngain = 0.3\n\
             [instances.mount{number}]\ncomponent = \"Mount\"\nserver = \"{guiding}\"\ncontainer = \"{container}\"\nlog = {log:?}\n"
        )
        .unwrap();
    }
    plan + "[connections]\n\"camera.frame\" = [\"guider1.frame\", \"guider2.frame\", \"guider3.frame\"]\n\
            \"guider1.offset\" = [\"mount1.offset\"]\n\"guider2.offset\" = [\"mount2.offset\"]\n\
            \"guider3.offset\" = [\"mount3.offset\"]\n"
}

/// Runs a plan of the observatory until all mounts have moved three times, and hands the processes over, by their servers' names.
fn run(text: &str, folder: &Path, look: impl FnOnce(&BTreeMap<&str, u32>)) {
    let path = folder.join("plan.toml");
    std::fs::write(&path, text).unwrap();
    let running = PlanFile::read(&path).unwrap().run().unwrap();
    let logs = [1, 2, 3].map(|number| folder.join(format!("mount{number}.log")));
    wait_until("the mounts to have moved three times", || {
        logs.iter().all(|log| {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            text.split_once(' ').is_some_and(|(number, _)| number.parse::<u64>().is_ok_and(|number| number >= 3))
        })
    });
    look(&running.processes().into_iter().collect());
}

#[test]
fn one_program_runs_over_each_service_in_each_place() {
    let service = service();
    for (name, thread) in SERVICES {
        if name == "dds" && !cfg!(feature = "dds") {
            continue;
        }
        for (placed, units) in [("server", 1), ("container", 2), ("component", 3)] {
            let folder = TempPath::folder("services");
            let container = format!("{}placed = \"{placed}\"", keys(name, &service));
            run(&observatory(&folder, &container, "control"), &folder, |processes| {
                let control = processes["control"];
                wait_until(format_args!("{units} threads {thread}, placed {placed}"), || {
                    threads(control, thread) == units
                });
                // What no container names is not there.
                for (other, others) in SERVICES.iter().filter(|(_, others)| *others != thread) {
                    assert_eq!(threads(control, others), 0, "{other} beside {name}");
                }
            });
        }
    }
}

#[test]
fn a_group_takes_the_place_of_a_broker() {
    let folder = TempPath::folder("services");
    let container = format!("service = \"tempo\"\nat = \"udp://127.255.255.255:{}\"", testing::free_udp_port());
    run(&observatory(&folder, &container, "control"), &folder, |processes| {
        wait_until("one thread of the group", || threads(processes["control"], "tempo") == 1);
    });
}

#[test]
fn a_service_that_no_connection_needs_is_not_opened() {
    let service = service();
    for (name, _) in SERVICES {
        let folder = TempPath::folder("services");
        run(&observatory(&folder, &keys(name, &service), "dome"), &folder, |processes| {
            assert_eq!(sockets(processes["dome"]), 0, "{name}");
            for (_, thread) in SERVICES {
                assert_eq!(threads(processes["dome"], thread), 0, "{name}");
            }
        });
    }
}

#[test]
fn a_priority_travels_with_its_event_where_the_service_has_them() {
    let service = service();
    for name in ["notification", "rtes", "tempo"] {
        let key = format!("priority-{name}");
        let plan = Plan::parse(&calling(&keys(name, &service), &key)).unwrap();
        assert_eq!(plan.check(&components()), []);
        let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
        two.start().unwrap();
        let (one, input) = caller(&plan);
        let status = |server: &Server| {
            let services = server.services();
            let [status] = services.as_slice() else { panic!("{services:?}") };
            (status.service, status.name.clone(), status.sources, status.sinks)
        };
        assert_eq!(status(&one), (name, format!("{key}/one"), 1, 0));
        assert_eq!(status(&two), (name, format!("{key}/two"), 0, 1));
        let heard = || HEARD.lock().unwrap().iter().filter(|heard| heard.0 == key).cloned().collect::<Vec<_>>();
        // A first one of Tempo's may be before its subscriber is known.
        let mut number = 0;
        wait_until("an event in the other server", || {
            number += 1;
            input.send(&Frame { number, brightness: 0.0 }).unwrap();
            !heard().is_empty()
        });
        let (_, number, priority, source) = heard().swap_remove(0);
        assert_eq!((priority, source.as_str()), (i16::try_from(number).unwrap(), "caller.offset"), "{name}");
    }
}

#[test]
fn a_timeout_goes_on_behind_the_service() {
    let service = service();
    let plan = calling(&keys("notification", &service), "timeout")
        + "[ports.\"listener.offset\"]\nqos = { MaxEventsPerConsumer = 2, DiscardPolicy = \"Lifo\" }\n";
    let plan = Plan::parse(&plan).unwrap();
    let mut two = Server::manual("two");
    two.deploy_here(&plan, "two", &registry()).unwrap();
    let (one, input) = caller(&plan);
    // One that expires before it is published; one that does within the hour; one that does not; and one for which there is no room.
    for (number, timeout_s) in [(1, 1e-9), (2, 3_600.0), (3, 0.0), (4, 0.0)] {
        input.send(&Frame { number, brightness: timeout_s }).unwrap();
    }
    let port = |server: &Server, name: &str| server.port(name).unwrap();
    wait_until("the queue to be full", || port(&two, "listener.offset").discarded == 1);
    assert_eq!(port(&one, "caller.offset").expired, 1);
    two.advance(Duration::from_secs(7_200));
    two.start().unwrap();
    two.advance(Duration::ZERO);
    let port = port(&two, "listener.offset");
    assert_eq!((port.expired, port.delivered), (1, 1));
    let heard =
        HEARD.lock().unwrap().iter().filter(|heard| heard.0 == "timeout").map(|heard| heard.1).collect::<Vec<_>>();
    assert_eq!(heard, [3]);
}

#[test]
fn a_filter_of_a_sink_is_applied_by_the_notification_service() {
    let service = service();
    let plan =
        calling(&keys("notification", &service), "when") + "[ports.\"listener.offset\"]\nwhen = \"$number >= 3\"\n";
    let plan = Plan::parse(&plan).unwrap();
    let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
    two.start().unwrap();
    let (_one, input) = caller(&plan);
    (1..=4).for_each(|number| input.send(&Frame { number, brightness: 0.0 }).unwrap());
    let port = || two.port("listener.offset").unwrap();
    wait_until("two events in the other server", || port().delivered == 2);
    assert_eq!(port().filtered, 0, "the others were left out before");
}

/// Properties of the channel of the caller, by their names.
fn properties(plan: &Plan, service: &Service) -> BTreeMap<String, Value> {
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    let channel = find_channel(&plan.channel("caller.offset"), &settings, &orb(&settings).unwrap()).unwrap();
    let all = channel.get_qos().unwrap().into_iter().chain(channel.get_admin().unwrap());
    all.map(|it| (it.name, it.value.value)).collect()
}

#[test]
fn channels_have_the_properties_of_their_sources_container() {
    let service = service();
    for name in ["notification", "rtes"] {
        let container = keys(name, &service) + "qos = { Timeout = \"2s\", MaxQueueLength = 100, DispatchPriority = 3 }";
        let key = format!("qos-{name}");
        let plan = Plan::parse(&calling(&container, &key)).unwrap();
        assert_eq!(plan.check(&components()), []);
        let _one = caller(&plan);
        let properties = properties(&plan, &service);
        assert_eq!(properties["Timeout"], Value::ULongLong(20_000_000), "in units of 100 ns");
        assert_eq!(properties["MaxQueueLength"], Value::Long(100));
        assert_eq!(properties["DispatchPriority"], Value::UShort(3));
        assert_eq!(properties["PushOneWay"], Value::Bool(name == "rtes"));
        assert_eq!(
            properties["OrderPolicy"],
            Value::Short(if name == "rtes" { 2 } else { 1 }),
            "rtes goes by priority"
        );
        assert_eq!(properties["EventReliability"], Value::Short(0));
        assert_eq!(properties["ConnectionReliability"], Value::Short(0));
    }
}

#[test]
fn a_channel_that_rtes_had_is_an_ordinary_one_again() {
    let service = service();
    for (qos, order) in [("", 1), ("qos = { OrderPolicy = \"Deadline\" }", 3)] {
        for (name, one_way, order) in
            [("rtes", true, if qos.is_empty() { 2 } else { order }), ("notification", false, order)]
        {
            let plan = Plan::parse(&calling(&(keys(name, &service) + qos), "moved")).unwrap();
            drop(caller(&plan));
            let properties = properties(&plan, &service);
            assert_eq!(
                (&properties["PushOneWay"], &properties["OrderPolicy"]),
                (&Value::Bool(one_way), &Value::Short(order))
            );
        }
    }
}

#[test]
fn events_without_a_priority_have_that_of_their_container_over_tempo() {
    let service = service();
    let plan = Plan::parse(&calling(&(keys("tempo", &service) + "qos = { Priority = 7 }"), "tempo-qos")).unwrap();
    assert_eq!(plan.check(&components()), []);
    let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
    two.start().unwrap();
    let (_one, input) = caller(&plan);
    let heard = || HEARD.lock().unwrap().iter().find(|heard| heard.0 == "tempo-qos").cloned();
    wait_until("an event in the other server", || {
        input.send(&Frame { number: 0, brightness: 0.0 }).unwrap();
        heard().is_some()
    });
    assert_eq!(heard().unwrap().2, 7);
}

/// The service goes while events are sent: each that is sent behind that is counted.
#[test]
fn what_a_service_that_ended_does_not_take_is_counted() {
    for name in ["notification", "rtes", "tempo"] {
        let service = service();
        let plan = Plan::parse(&calling(&keys(name, &service), &format!("ended-{name}"))).unwrap();
        let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
        two.start().unwrap();
        let (one, input) = caller(&plan);
        let send = || input.send(&Frame { number: 1, brightness: 0.0 }).unwrap();
        let port = || one.port("caller.offset").unwrap();
        let arrived = || {
            let to = two.port("listener.offset").unwrap();
            to.delivered + to.discarded
        };
        let settle = || {
            let (there, from) = (arrived(), port());
            from.failed + from.discarded + there >= from.sent
        };
        if name == "tempo" {
            // The first may have no subscriber.
            wait_until("an event in the other server", || {
                send();
                arrived() > 0
            });
        } else {
            // One: what a service has taken is lost with it, and not the source's to count.
            send();
            wait_until("the event in the other server", || arrived() == 1);
        }
        let before = port().sent;
        drop(service);
        wait_until("the source to miss its service", || {
            send();
            port().failed > before
        });
        let before = port();
        (0..5).for_each(|_| send());
        wait_until("the next five to have failed", || {
            let now = port();
            now.failed + now.discarded >= before.failed + before.discarded + 5
        });
        if name != "tempo" {
            wait_until("each to have an outcome", settle);
        }
    }
}

#[test]
fn a_sink_counts_what_strangers_publish_in_its_channel() {
    let service = service();
    let plan = Plan::parse(&calling(&keys("notification", &service), "strange")).unwrap();
    let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
    two.start().unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    let supplier = RawSupplier::new(&plan.channel("caller.offset"), &settings).unwrap();
    let other = TypeCode::structure("IDL:Offset:1.0", "Offset", &[("number", TypeCode::string())]);
    supplier.publish(&Declared::new(&other, None, None).unwrap(), b"\x02\0\0\0x\0").unwrap();
    wait_until("the event of another type to be counted", || two.port("listener.offset").unwrap().failed == 1);
}

#[test]
fn a_filter_sees_what_an_event_was_sent_with() {
    let plan = calling("", "with").replace("server = \"two\"", "server = \"one\"");
    for (when, delivered) in [("$priority >= 3", 2), ("$timeout == 20000000", 1), ("not exist $priority", 1)] {
        let plan = format!("{plan}[ports.\"listener.offset\"]\nwhen = \"{when}\"\n");
        let mut server = Server::manual("one");
        server.deploy_here(&Plan::parse(&plan).unwrap(), "one", &registry()).unwrap();
        server.start().unwrap();
        let input = server.input::<Frame>("caller.frame").unwrap();
        for (number, brightness) in [(0, 2.0), (2, 0.0), (3, 0.0), (4, 1.0)] {
            input.send(&Frame { number, brightness }).unwrap();
        }
        server.advance(Duration::ZERO);
        let port = server.port("listener.offset").unwrap();
        assert_eq!((port.delivered, port.filtered), (delivered, 4 - delivered), "{when}");
    }
}

#[test]
fn a_message_that_is_no_event_is_counted_and_left_out() {
    let service = service();
    let plan = Plan::parse(&calling(&keys("tempo", &service), "stranger")).unwrap();
    let mut two = Server::deploy(&plan, "two", &registry(), ServerSettings::default()).unwrap();
    two.start().unwrap();
    let at = format!("udp://{}", service.tempo_address().unwrap());
    let stranger = client::tempo::Publisher::new(&plan.channel("caller.offset"), &at).unwrap();
    wait_until("a message of a stranger", || {
        stranger.publish(b"gust").unwrap();
        two.port("listener.offset").is_some_and(|port| port.failed > 0)
    });
    assert_eq!(two.port("listener.offset").unwrap().delivered, 0);
}

/// Callers in one server, each with a listener in another.
fn callers(container: &str, count: usize) -> Plan {
    let mut plan = format!("[containers.shared]\n{container}\n");
    let mut connections = "[connections]\n".to_owned();
    for number in 0..count {
        for (name, component, server) in [("from", "Caller", "one"), ("to", "Listener\"\nkey = \"x", "two")] {
            write!(
                plan,
                "[instances.{name}{number}]\ncomponent = \"{component}\"\nserver = \"{server}\"\ncontainer = \"shared\"\n"
            )
            .unwrap();
        }
        writeln!(connections, "\"from{number}.offset\" = [\"to{number}.offset\"]").unwrap();
    }
    let plan = Plan::parse(&(plan + &connections)).unwrap();
    assert_eq!(plan.check(&components()), []);
    plan
}

#[test]
fn an_end_point_without_room_for_a_topic_says_how_to_have_more() {
    let plan = callers(&keys("tempo", &service()), client::tempo::TOPICS_MAX + 1);
    let refused = Server::deploy(&plan, "one", &registry(), ServerSettings::default()).unwrap_err().to_string();
    assert!(refused.contains("with placed = \"component\" each instance has an end point of its own"), "{refused}");
}

#[cfg(feature = "dds")]
#[test]
fn a_host_without_room_for_a_process_in_a_domain_says_what_to_do() {
    // Where 32 processes would be found.
    let (domain, _listener) = free_domain();
    let taken: Vec<_> = (0..32)
        .map(|index| std::net::UdpSocket::bind(("127.0.0.1", 7410 + 250 * domain + 2 * index)).unwrap())
        .collect();
    let plan = callers(&format!("service = \"dds\"\nat = \"127.0.0.1\"\ndomain = {domain}"), 1);
    let refused = Server::deploy(&plan, "one", &registry(), ServerSettings::default()).unwrap_err().to_string();
    assert!(
        refused.contains("a host has room for 32 processes in a domain: put instances into fewer servers"),
        "{refused}"
    );
    drop(taken);
    // Units of one process are one there.
    let plan = callers(&(keys("dds", &service()) + "placed = \"component\""), 33);
    let server = Server::deploy(&plan, "one", &registry(), ServerSettings::default()).unwrap();
    assert_eq!(server.services().len(), 33);
}

/// The keys of both containers, and what is said of them.
const MISTAKES: [(&str, &str); 17] = [
    ("service = \"tempo\"", "containers.shared: tempo needs an address: give `at`, a broker's udp://HOST:PORT"),
    ("service = \"tempo\"\nat = \"localhost\"", "\"localhost\" is no address: it is written udp://HOST:PORT"),
    (
        "service = \"tempo\"\nat = \"udp://:2811\"",
        "which has no host: give a broker's udp://HOST:PORT or tcp://HOST:PORT",
    ),
    ("service = \"tempo\"\nat = \"udp://@:2811\"", "at is udp://@:2811, where only one server can wait"),
    ("service = \"rtes\"\ndomain = 1", "containers.shared: domain is 1, and only dds has domains: leave it out"),
    ("service = \"dds\"\ndomain = 233", "containers.shared: domain is 233: give 0 to 232"),
    (
        "service = \"rtes\"\nqos = { EventReliability = \"Persistent\" }",
        "containers.shared: qos: rtes does not have this EventReliability: nothing outlives a process",
    ),
    (
        "service = \"dds\"\nqos = { EventReliability = \"Persistent\" }",
        "qos: dds does not have this EventReliability: what was not taken ends with its writer",
    ),
    (
        "service = \"dds\"\nqos = { DiscardPolicy = \"Priority\" }",
        "qos: dds does not have this DiscardPolicy: with MaxEventsPerConsumer it keeps the latest",
    ),
    (
        "service = \"dds\"\nqos = { MaxQueueLength = 5 }",
        "qos: dds does not have this MaxQueueLength: it has MaxEventsPer",
    ),
    (
        "service = \"tempo\"\nat = \"udp://h\"\nqos = { Timeout = \"2ms\" }",
        "qos: tempo does not have this Timeout: an event with a timeout by `send_with`",
    ),
    (
        "service = \"tempo\"\nat = \"udp://h\"\nqos = { OrderPolicy = \"Deadline\" }",
        "qos: tempo does not have this OrderPolicy: a topic has Priority or Fifo",
    ),
    (
        "service = \"dds\"\nqos = { Timeout = \"72000min\" }",
        "qos: dds does not have this Timeout: a lifespan is 49 days at most",
    ),
    ("service = \"dds\"\nat = \"a,,b\"", "at is \"a,,b\": give the servers' hosts, with commas between"),
    (
        "at = \"localhost:2809\"",
        "containers.shared: at, domain, placed and qos are of a service: name one by `service`",
    ),
    ("placed = \"component\"", "containers.shared: at, domain, placed and qos are of a service: name one by `service`"),
    ("placed = \"component\"", "put the instance of caller.offset into a container with service = \"notification\""),
];

#[test]
fn what_a_service_does_not_have_is_refused_with_what_it_has() {
    for (container, expected) in MISTAKES {
        let problems = Plan::parse(&calling(container, "x")).unwrap().check(&components());
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{container}: {problems:#?}");
    }
    for (qos, expected) in [
        ("Deadline = 3", "there is no property Deadline of channels; there are: ConnectionReliability, DiscardPolicy"),
        ("DispatchPriority = 8", "DispatchPriority is 8: give a number from 0 to 7"),
        ("Timeout = 3", "Timeout is 3: give a time, such as \"20ms\""),
        ("OrderPolicy = \"Lifo\"", "OrderPolicy is \"Lifo\": give one of Any, Fifo, Priority, Deadline"),
    ] {
        let problem = Plan::parse(&calling(&format!("qos = {{ {qos} }}"), "x")).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn names_that_a_service_could_not_carry_are_refused() {
    let check = |text: &str| {
        let problems = Plan::parse(text).unwrap().check(&components());
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let long = "x".repeat(65);
    for name in ["a/b", "a@b", "", "\\u0007", "\\u0416", &*long] {
        let problems = check(&calling("service = \"rtes\"", name));
        assert!(
            problems.iter().any(|problem| problem.contains("is no name of channels: give 1 to 64")),
            "{problems:?}"
        );
    }
    let problems = check(&format!("{}[servers.\"o/ne\"]\n", calling("service = \"rtes\"", "x")));
    assert!(problems.iter().any(|problem| problem.starts_with("servers.o/ne: \"o/ne\" is no name")), "{problems:?}");
    assert!(check(&calling("service = \"rtes\"", "north tower.1")).is_empty());
}

#[test]
fn quality_of_service_of_channels_needs_a_source_with_a_channel() {
    let text = calling("service = \"rtes\"", "x").replacen("container = \"shared\"", "container = \"first\"", 1)
        + "[containers.first]\nservice = \"rtes\"\n";
    let refused = |text: String| {
        Plan::parse(&text).unwrap().check(&components()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let with = |container: &str| {
        let key = format!("[containers.{container}]\n");
        text.replacen(&key, &format!("{key}qos = {{ MaxEventsPerConsumer = 4 }}\n"), 1)
    };
    assert_eq!(refused(with("first")), [""; 0]);
    let problems = refused(with("shared"));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("containers.shared: its qos is of channels"), "{problems:?}");
    assert!(problems[0].contains("say the queue of a sink in [ports]"), "{problems:?}");
}

#[test]
fn a_service_that_a_program_does_not_have_is_refused_before_it_runs() {
    let plan = Plan::parse(&calling("service = \"dds\"", "x")).unwrap();
    let mut components = components();
    for description in components.get_mut("two").unwrap().values_mut() {
        description.services.retain(|service| service != "dds");
    }
    let problems: Vec<_> = plan.check(&components).iter().map(ToString::to_string).collect();
    let said = "the program of listener.offset has no dds: build it with that feature, or take one of: notification, tempo, rtes";
    assert!(problems.iter().any(|problem| problem.contains(said)), "{problems:#?}");
}

#[test]
fn two_servers_that_are_connected_have_one_service() {
    let wild = Plan::parse(&calling("service = \"rtes\"", "x*")).unwrap().check(&components());
    assert_eq!(
        wild[0].to_string(),
        "name: \"x*\" stands for other channels, too, in some services: leave out *, ? and ["
    );
    let plan = calling("service = \"notification\"\nat = \"one:1\"", "x")
        .replace("server = \"two\"\ncontainer = \"shared\"", "server = \"two\"\ncontainer = \"other\"");
    for (other, expected) in [
        (
            "service = \"tempo\"\nat = \"udp://h\"",
            "caller.offset gives to notification, listener.offset takes from tempo",
        ),
        ("service = \"notification\"", "listener.offset takes from that at the default: give both containers one `at`"),
    ] {
        let problems = Plan::parse(&format!("{plan}[containers.other]\n{other}\n")).unwrap().check(&components());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].reason.contains(expected), "{}", problems[0]);
    }
}
