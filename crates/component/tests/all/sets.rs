//! Sets of events: what sinks of an instance get of several sources that belong together.

use crate::objects::Stand;
use crate::parts::{Camera, Frame, Guider, Offset, note, noted};
use campanile_component::{
    Error, Failure, Plan, PlanFile, PortSettings, Ports, Registry, SendOptions, Server, Sink, Source, Tick, Timer,
    component,
};
use std::time::Duration;
use testing::{TempPath, allocations, shared_object, shared_object_in_cpp, wait_until};
use toml::toml;

/// Sends an offset each 70 ms, which may wait for so many milliseconds.
#[component]
struct Slow {
    #[timer("70ms")]
    tick: Timer,
    #[source]
    offset: Source<Offset>,
    #[property(default)]
    timeout_ms: Option<u64>,
    #[state]
    sent: u64,
}

impl Slow {
    fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        self.sent += 1;
        let timeout = self.timeout_ms.map(Duration::from_millis);
        let offset = Offset { number: self.sent, x: 0.5 };
        Ok(self.offset.send_with(&offset, SendOptions { timeout, ..SendOptions::default() })?)
    }
}

/// Notes the sets that it gets, and panics at a frame.
#[component]
struct Pairs {
    #[sink]
    frame: Sink<Frame>,
    #[sink]
    offset: Sink<Offset>,
    #[property(default)]
    panics_at: u64,
}

impl Pairs {
    fn on_frame(&mut self, frame: &Frame, ports: &Ports) {
        Self::note(frame.number, ports);
        assert!(frame.number != self.panics_at, "frame {} is too much", frame.number);
    }

    fn on_offset(&mut self, offset: &Offset, ports: &Ports) {
        Self::note(offset.number, ports);
    }

    fn note(number: u64, ports: &Ports) {
        let set = ports.set().unwrap();
        assert_eq!(set.is_last(), set.index + 1 == set.size);
        note(format!("{} {number}, set {} {}/{}", ports.source(), set.number, set.index, set.size));
    }
}

/// A camera with a frame each 100 ms, a slow source of offsets, and what gets sets of both.
fn server(pairs: toml::Table, slow: toml::Table, correlation: &str) -> Server {
    let mut server = Server::manual("main");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Slow>("slow", slow).unwrap();
    server.configure::<Pairs>("pairs", pairs).unwrap();
    server.correlate(&["pairs.frame", "pairs.offset"], correlation).unwrap();
    server.connect("camera.frame", "pairs.frame").unwrap();
    server.connect("slow.offset", "pairs.offset").unwrap();
    server.start().unwrap();
    server
}

/// Events of the two sinks that were in no set.
fn uncorrelated(server: &Server) -> [u64; 2] {
    ["pairs.frame", "pairs.offset"].map(|port| server.port(port).unwrap().uncorrelated)
}

#[test]
fn two_sinks_of_a_component_get_the_events_that_belong_together_in_the_order_in_which_they_were_sent() {
    let mut server = server(toml::Table::new(), toml::Table::new(), "camera.frame and slow.offset within 25ms");
    server.advance(Duration::from_millis(430));
    let expected = [
        "camera.frame 2, set 1 0/2",
        "slow.offset 3, set 1 1/2",
        "slow.offset 4, set 2 0/2",
        "camera.frame 3, set 2 1/2",
        "camera.frame 4, set 3 0/2",
        "slow.offset 6, set 3 1/2",
    ];
    assert_eq!(noted(), expected);
    assert_eq!(uncorrelated(&server), [1, 3]);
    // What waits is dropped at its time, whether anything else comes or not.
    server.advance(Duration::from_millis(65));
    assert_eq!((noted().len(), uncorrelated(&server)), (0, [1, 3]));
    server.passivate("slow").unwrap();
    server.passivate("camera").unwrap();
    server.advance(Duration::from_millis(100));
    assert_eq!(uncorrelated(&server), [1, 4]);
}

#[test]
fn constraints_in_brackets_fields_after_same_and_the_number_that_wait_are_those_of_the_language() {
    let text = "camera.frame[$number > 2] and slow.offset same number keep 3";
    let mut server = server(toml::Table::new(), toml::Table::new(), text);
    server.advance(Duration::from_millis(620));
    // Of the offsets 1 to 8 the last three wait.
    let expected = [
        "slow.offset 3, set 1 0/2",
        "camera.frame 3, set 1 1/2",
        "slow.offset 4, set 2 0/2",
        "camera.frame 4, set 2 1/2",
    ];
    assert_eq!(noted()[..4], expected);
    assert_eq!(uncorrelated(&server)[0], 2);
}

#[test]
fn a_filter_of_a_sink_and_the_timeout_of_an_event_count_before_its_set() {
    let mut server = Server::manual("main");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Slow>("slow", toml! { timeout_ms = 10 }).unwrap();
    server.configure::<Pairs>("pairs", toml::Table::new()).unwrap();
    let when = PortSettings { when: Some("$number != 2".to_owned()), ..PortSettings::default() };
    server.set_port("pairs.frame", when).unwrap();
    server.correlate(&["pairs.offset", "pairs.frame"], "slow.offset and camera.frame").unwrap();
    server.connect("camera.frame", "pairs.frame").unwrap();
    server.connect("slow.offset", "pairs.offset").unwrap();
    server.start().unwrap();
    server.advance(Duration::from_millis(230));
    // The offsets of 70 ms, and of 210 ms since frame 2 does not count, wait for 10 ms in vain.
    assert_eq!(noted(), ["camera.frame 1, set 1 0/2", "slow.offset 2, set 1 1/2"]);
    let counted = |port: &str| server.port(port).unwrap();
    assert_eq!((counted("pairs.offset").expired, counted("pairs.frame").filtered), (2, 1));
    assert_eq!(uncorrelated(&server), [0, 0]);
}

#[test]
fn events_of_a_passive_instance_wait_in_their_queues_and_a_panic_ends_its_set() {
    let mut server = server(toml! { panics_at = 2 }, toml::Table::new(), "camera.frame and slow.offset");
    server.advance(Duration::from_millis(110));
    assert_eq!(noted(), ["slow.offset 1, set 1 0/2", "camera.frame 1, set 1 1/2"]);
    server.passivate("pairs").unwrap();
    server.advance(Duration::from_millis(100));
    assert_eq!(noted(), [""; 0]);
    server.activate("pairs").unwrap();
    server.advance(Duration::from_millis(1));
    // The component is broken at the last event of the set.
    assert_eq!(noted(), ["slow.offset 2, set 2 0/2", "camera.frame 2, set 2 1/2"]);
    // What was sent until it was made again waits, and so do its numbers go on.
    server.advance(Duration::from_millis(150));
    let lines = noted();
    assert_eq!(lines[..2], ["slow.offset 3, set 3 0/2", "camera.frame 3, set 3 1/2"], "{lines:#?}");
    server.passivate("pairs").unwrap();
    server.remove("pairs").unwrap();
    server.advance(Duration::from_millis(200));
    assert_eq!(noted(), [""; 0]);
}

#[test]
fn an_event_that_expired_while_the_instance_was_passive_completes_no_set() {
    let mut server = server(toml::Table::new(), toml! { timeout_ms = 10 }, "camera.frame and slow.offset");
    server.passivate("pairs").unwrap();
    server.advance(Duration::from_millis(75));
    server.passivate("slow").unwrap();
    server.advance(Duration::from_millis(30));
    server.activate("pairs").unwrap();
    server.advance(Duration::from_millis(1));
    assert_eq!(noted(), [""; 0]);
    assert_eq!(server.port("pairs.offset").map(|port| port.expired), Some(1));
}

#[test]
fn what_cannot_have_sets_is_refused() {
    let mut server = Server::manual("main");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 1 }).unwrap();
    server.configure::<Pairs>("pairs", toml::Table::new()).unwrap();
    let mut refused = |sinks: &[&str], text: &str| server.correlate(sinks, text).unwrap_err().to_string();
    let end = "column 17: an event type must stand here, not the end";
    assert!(refused(&["pairs.frame"], "camera.frame and").ends_with(end));
    assert!(refused(&["pairs.frame"], "Dome/camera.frame").contains("has a slash: name a source, as instance.port"));
    assert!(refused(&["pairs.frame", "guider.frame"], "camera.frame").contains("is of another instance"));
    assert!(refused(&[], "camera.frame").contains("no instance"));
    assert!(refused(&["pairs.tick"], "camera.frame").contains("tick"));
    server.correlate(&["pairs.frame"], "camera.frame").unwrap();
    let again = server.correlate(&["pairs.offset", "pairs.frame"], "camera.frame").unwrap_err();
    assert!(matches!(&again, Error::Port { reason, .. } if reason.contains("pairs.frame has sets already")), "{again}");
    server.connect("guider.offset", "pairs.offset").unwrap();
    let late = server.correlate(&["pairs.offset"], "guider.offset").unwrap_err();
    assert!(late.to_string().contains("it is connected already: give it sets before"), "{late}");
}

#[test]
fn sets_allocate_nothing_in_the_steady_state() {
    let mut server = Server::manual("main");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 1 }).unwrap();
    server.configure::<Quiet>("quiet", toml::Table::new()).unwrap();
    server
        .correlate(&["quiet.frame", "quiet.offset"], "camera.frame and guider.offset within 50ms same number")
        .unwrap();
    server.connect("camera.frame", "guider.frame").unwrap();
    server.connect("camera.frame", "quiet.frame").unwrap();
    server.connect("guider.offset", "quiet.offset").unwrap();
    server.start().unwrap();
    server.advance(Duration::from_secs(1));
    let before = allocations();
    server.advance(Duration::from_secs(10));
    assert_eq!(allocations() - before, 0);
    assert_eq!(server.port("quiet.offset").map(|port| port.delivered), Some(110));
}

/// Takes sets.
#[component]
struct Quiet {
    #[sink]
    frame: Sink<Frame>,
    #[sink]
    offset: Sink<Offset>,
}

impl Quiet {
    fn on_frame(&mut self, _: &Frame, _: &Ports) {}

    fn on_offset(&mut self, _: &Offset, _: &Ports) {}
}

/// A plan with sets of a camera and a guider; the text of `when` stands for `WHEN`.
const PLAN: &str = r#"
    [servers.main]
    [instances.camera]
    component = "Camera"
    [instances.guider]
    component = "Guider"
    gain = 1
    [instances.pairs]
    component = "Pairs"
    [connections]
    "camera.frame" = ["guider.frame", "pairs.frame"]
    "guider.offset" = ["pairs.offset"]
    [ports."pairs.frame"]
    when = "WHEN"
"#;

#[test]
fn a_plan_says_which_sets_and_check_what_is_wrong_with_them() {
    let registry = Registry::new().with::<Camera>().with::<Guider>().with::<Pairs>().with::<Slow>();
    let components = [("main".to_owned(), registry.descriptions())].into();
    let text = PLAN.replace("WHEN", "camera.frame and guider.* within 50ms same number");
    let plan = Plan::parse(&text).unwrap();
    assert_eq!(plan.check(&components), []);
    let mut server = Server::manual("main");
    server.deploy_here(&plan, "main", &registry).unwrap();
    server.start().unwrap();
    server.advance(Duration::from_millis(100));
    assert_eq!(noted(), ["camera.frame 1, set 1 0/2", "guider.offset 1, set 1 1/2"]);
    let more = "\n[instances.slow]\ncomponent = \"Slow\"\n[ports.\"pairs.offset\"]\nwhen = \"guider.offset\"";
    for (when, instead, of, expected) in [
        ("camera.frame and", "", "", "\"camera.frame and\": column 17: an event type must stand here, not the end"),
        (
            "camera.frame adn guider.offset",
            "",
            "",
            "column 14: and, or, within, same, keep or the end must stand here, not adn",
        ),
        (
            "camera.frame and guider.offset within 50",
            "",
            "",
            "column 41: a time ends with us, ms, s, min or h, not the end",
        ),
        (
            "camera.frmae and guider.offset",
            "",
            "",
            "when names camera.frmae, from which no connection leads to pairs; from these there are: camera.frame, guider.offset",
        ),
        (
            "camera.frame[$nmber > 1] and guider.offset",
            "",
            "",
            "when: of camera.frame no event has nmber; Frame has number, brightness",
        ),
        ("camera.frame and guider.offset same x", "", "", "when: of camera.frame no event has x"),
        (
            "guider.offset",
            "",
            "",
            "when names no source that is connected with pairs.frame: give it to one of: pairs.offset",
        ),
        (
            "camera.frame and guider.offset",
            "[\"pairs.offset\"]\n\"slow.offset\" = [\"pairs.offset\"]",
            "[\"pairs.offset\"]",
            "when does not name slow.offset, which is connected with pairs.offset, too",
        ),
        (
            "camera.frame and guider.offset",
            more,
            "",
            "pairs.offset has the sets of pairs.offset as well: say both in one, with `or`",
        ),
        ("$nmber > 1", "", "", "no event has nmber; Frame has number, brightness"),
        ("$number >", "", "", "column"),
    ] {
        let mut text = PLAN.replace("WHEN", when);
        text = if of.is_empty() { text + instead } else { text.replace(of, instead) };
        if instead.contains("slow.offset") {
            text += "\n[instances.slow]\ncomponent = \"Slow\"";
        }
        let problems = Plan::parse(&text).unwrap().check(&components);
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let starts = |problem: &String| problem.starts_with("ports.\"pairs.") && problem.contains(expected);
        assert!(said.iter().any(starts), "{when}: {said:#?}");
    }
}

#[test]
fn components_in_c_and_cpp_get_the_number_of_the_set_and_the_place_in_it() {
    let sets = "[ports.\"guider.frame\"]\nwhen = \"camera.frame[$number > 1]\"\n[connections]";
    let in_c = |folder: &std::path::Path| {
        let headers = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        shared_object(folder, "libguider.so", include_str!("../c/guider.c"), &headers);
    };
    let in_cpp = |folder: &std::path::Path| {
        shared_object_in_cpp(folder, "libguider.so", include_str!("../cpp/guider.cpp"));
    };
    for build in [in_c as fn(&std::path::Path), in_cpp] {
        let stand = Stand::run(build, &[("#guider", "does = \"sets\""), ("[connections]", sets)], 30);
        let lines: Vec<_> = stand.lines().into_iter().filter(|line| line.starts_with("guider")).collect();
        // 100 times the number, 10 times the place, and the size.
        assert_eq!(lines, ["guider.offset 2 101", "guider.offset 3 201"]);
        assert_eq!(stand.port("guider.frame").uncorrelated, 1);
    }
}

#[test]
fn a_component_in_a_shared_object_of_rust_gets_sets_of_two_sinks() {
    let sets = "[ports.\"recorder.frame\"]\nwhen = \"camera.frame and guider.offset same number\"\n[connections]";
    let build = |folder: &std::path::Path| {
        shared_object_in_cpp(folder, "libguider.so", include_str!("../cpp/guider.cpp"));
    };
    let stand = Stand::run(build, &[("[connections]", sets)], 10);
    let lines = stand.lines();
    assert_eq!(lines[1..], ["camera.frame 1 0.5 red 7 copied, set 1 0/2", "guider.offset 1 1, set 1 1/2"]);
}

/// The lines of a file of the observatory's pairs, as word, number of the event, number of the set, and place.
fn pairs(log: &std::path::Path) -> Vec<(String, u64, u64, u32)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap();
        (next().to_owned(), next().parse().unwrap(), next().parse().unwrap(), next().parse().unwrap())
    };
    complete.lines().map(line).collect()
}

#[test]
fn one_word_of_the_plan_moves_a_component_with_sets_from_its_sources_server_to_another_and_from_service_to_service() {
    let service = crate::services::service();
    let services = ["notification", "rtes", "tempo", "dds"].into_iter();
    let services = services.filter(|name| *name != "dds" || cfg!(feature = "dds"));
    for (name, at) in services.map(|name| (name, "pairing")).chain([("notification", "dome")]) {
        let folder = TempPath::folder("sets");
        let (plan, log) = (folder.join("plan.toml"), folder.join("pairs.log"));
        let program = env!("CARGO_BIN_EXE_observatory");
        let servers =
            ["dome", "control", "pairing"].map(|server| format!("[servers.{server}]\nprogram = \"{program}\"\n"));
        let text = format!(
            "name = \"sets\"\n{}[containers.shared]\n{}[instances.camera]\ncomponent = \"Camera\"\nserver = \"dome\"\n\
             container = \"shared\"\n[instances.guider]\ncomponent = \"Guider\"\nserver = \"control\"\ncontainer = \"shared\"\n\
             gain = 1\n[instances.pairs]\ncomponent = \"Pairs\"\nserver = \"{at}\"\ncontainer = \"shared\"\nlog = {log:?}\n\
             [connections]\n\"camera.frame\" = [\"guider.frame\", \"pairs.frame\"]\n\"guider.offset\" = [\"pairs.offset\"]\n\
             [ports.\"pairs.frame\"]\nwhen = \"camera.frame and guider.offset within 10s same number\"\n",
            servers.concat(),
            crate::services::keys(name, &service),
        );
        std::fs::write(&plan, text).unwrap();
        let running = PlanFile::read(&plan).unwrap().run().unwrap();
        wait_until(format!("three sets over {name}, placed in {at}"), || pairs(&log).len() >= 6);
        drop(running);
        for (number, set) in (1..).zip(pairs(&log).chunks_exact(2)) {
            let (one, other) = (&set[0], &set[1]);
            assert_ne!(one.0, other.0, "a frame and an offset, over {name}");
            assert_eq!((one.1, one.2, one.3), (other.1, number, 0), "over {name}, placed in {at}");
            assert_eq!((other.2, other.3), (number, 1), "over {name}, placed in {at}");
        }
    }
}
