//! Plans over several processes, with a notification service between.

use crate::parts::{Camera, Frame, Guider, Offset, Recorder};
use campanile::{Consumer, Settings};
use campanile_component::{Plan, PlanFile, Processors, Registry, Server, ServerSettings};
use service::{Config, Service};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use testing::{NextInTime, TempPath, wait_until};

fn service() -> Service {
    let listen = format!("{}:0", testing::own_loopback());
    Service::start(Config { listen, ..Config::default() }).unwrap()
}

#[test]
fn ports_of_two_servers_are_connected_by_a_channel() {
    let service = service();
    let plan = format!(
        r#"
        [containers.shared]
        service = "notification"
        at = "{}"
        [instances.guider]
        component = "Guider"
        container = "shared"
        server = "one"
        gain = 2
        [instances.far]
        component = "Guider"
        container = "shared"
        server = "two"
        gain = 3
        [instances.recorder]
        component = "Recorder"
        container = "shared"
        server = "two"
        [connections]
        "guider.offset" = ["recorder.offset"]
        "#,
        service.address()
    );
    let plan = Plan::parse(&plan).unwrap();
    let registry = Registry::new().with::<Camera>().with::<Guider>().with::<Recorder>();
    let components = ["one", "two"].map(|name| (name.to_owned(), registry.descriptions())).into();
    assert_eq!(plan.check(&components), []);
    let mut two = Server::deploy(&plan, "two", &registry, ServerSettings::default()).unwrap();
    let mut one = Server::deploy(&plan, "one", &registry, ServerSettings::default()).unwrap();
    let input = one.input::<Frame>("guider.frame").unwrap();
    let (sender, local) = channel();
    one.output("guider.offset", move |offset: &Offset| sender.send(offset.number).unwrap()).unwrap();
    two.start().unwrap();
    one.start().unwrap();
    for number in 0..20 {
        input.send(&Frame { number, brightness: 1.0 }).unwrap();
        assert_eq!(local.next_in_time(), number);
    }
    wait_until("the events in the other server", || {
        two.port("recorder.offset").is_some_and(|port| port.delivered == 20)
    });
    assert_eq!(one.port("guider.offset").map(|port| (port.sent, port.failed, port.discarded)), Some((20, 0, 0)));
}

/// Events leave on the lane or by the queue behind it, by what else goes on; and the lane goes on where nothing leaves.
#[test]
fn a_source_keeps_its_order_and_waits_for_no_service() {
    let service = service();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    let (sender, came) = channel();
    let consumer = Consumer::new("offsets").settings(settings.clone());
    let _subscribed =
        consumer.on(move |offset: Offset| sender.send(offset.number).unwrap()).and_then(Consumer::ready).unwrap();
    let mut server = Server::new("one", ServerSettings::default()).unwrap();
    server.configure::<Guider>("guider", toml::toml! { gain = 2 }).unwrap();
    server.publish("guider.offset", "offsets", &settings).unwrap();
    let (sender, local) = channel();
    server.output("guider.offset", move |offset: &Offset| sender.send(offset.number).unwrap()).unwrap();
    let input = server.input::<Frame>("guider.frame").unwrap();
    server.start().unwrap();
    let counted = || server.port("guider.offset").unwrap();
    let send = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            input.send(&Frame { number, brightness: 1.0 }).unwrap();
            assert_eq!(local.next_in_time(), number);
        }
    };
    send(0..3_000);
    let mut numbers = Vec::new();
    while numbers.last() != Some(&2_999) {
        numbers.push(came.next_in_time());
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(numbers.len() as u64 + counted().discarded, 3_000);
    drop(service);
    send(3_000..3_100);
    wait_until("what had nowhere to go to be counted", || counted().failed > 0);
}

/// The program of the plan among the examples.
const PROGRAM: &str = env!("CARGO_BIN_EXE_observatory");

fn write_plan(folder: &Path, address: std::net::SocketAddr, program: &Path, gain: &str) -> PathBuf {
    let text = include_str!("../../examples/observatory.toml")
        .replace("../../../target/debug/observatory", program.to_str().unwrap())
        .replace("service = \"notification\"", &format!("service = \"notification\"\nat = \"{address}\""))
        .replace("gain = 0.3", gain)
        .replace("/tmp/mount.log", folder.join("mount.log").to_str().unwrap());
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, text).unwrap();
    plan
}

#[test]
fn a_plan_of_two_processes_runs_and_leaves_none_behind() {
    let service = service();
    let folder = TempPath::folder("components");
    let plan = write_plan(&folder, service.address(), Path::new(PROGRAM), "gain = 0.3");
    let file = PlanFile::read(&plan).unwrap();
    let times = file.plan().response_times(file.components(), Processors::One).unwrap().unwrap();
    let periods: Vec<_> = times.ports.iter().map(|port| (port.port.as_str(), port.periods_ns.as_slice())).collect();
    assert_eq!(times.problems, []);
    assert!(periods.contains(&("camera.shutter", &[100_000_000])), "the program says its timers: {periods:?}");
    let running = file.run().unwrap();
    let names: Vec<_> = running.processes().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["control", "dome"]);
    let log = folder.join("mount.log");
    wait_until("the mount to have moved three times", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.split_once(' ').is_some_and(|(number, _)| number.parse::<u64>().is_ok_and(|number| number >= 3))
    });
    let processes: Vec<_> =
        running.processes().into_iter().map(|(_, id)| PathBuf::from(format!("/proc/{id}"))).collect();
    assert!(processes.iter().all(|process| process.exists()));
    drop(running);
    assert!(processes.iter().all(|process| !process.exists()));
}

#[test]
fn a_server_that_cannot_be_configured_ends_all_of_the_plan() {
    let service = service();
    let folder = TempPath::folder("components");
    // The type of a property is known to its program only.
    let plan = write_plan(&folder, service.address(), Path::new(PROGRAM), "gain = \"high\"");
    let problem = PlanFile::read(&plan).unwrap().run().unwrap_err();
    assert_eq!(problem.place, "servers.control");
    assert!(problem.reason.contains("before it was configured"), "{problem}");
    // A program that is not there, and one that is none of components.
    for (program, expected) in [("/nowhere/observatory", "No such file"), ("/bin/false", "does it call run_program?")] {
        let plan = write_plan(&folder, service.address(), Path::new(program), "gain = 0.3");
        let problems = PlanFile::read(&plan).unwrap_err();
        assert_eq!(problems.len(), 2, "one for each server");
        assert!(problems[0].to_string().contains(expected), "{}", problems[0]);
    }
}
