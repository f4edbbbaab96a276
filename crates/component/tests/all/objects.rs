//! Components in shared objects, in C and in Rust, on a clock that the tests advance.

use campanile_component::{Error, Plan, PortStatus, Registry, Server, ServerSettings};
use service::{Config, Service};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testing::{TempPath, shared_object, wait_until};

const GUIDER: &str = include_str!("../c/guider.c");

/// A camera and a recorder in Rust, and a guider in C, connected both ways.
const PLAN: &str = r#"
    [servers.main]
    [instances.camera]
    component = "DOME#Camera"
    [instances.guider]
    component = "libguider.so#Guider"
    gain = 2
    #guider
    [instances.recorder]
    component = "DOME#Recorder"
    log = "LOG"
    #recorder
    [connections]
    "camera.frame" = ["guider.frame", "recorder.frame"]
    "guider.offset" = ["recorder.offset"]
"#;

/// The library that Cargo makes of the example `dome`.
fn dome() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let dome = test.parent().unwrap().with_file_name("examples").join("libdome.so");
    assert!(dome.exists(), "{}: cargo build -p campanile-component --examples", dome.display());
    dome
}

/// The guider in C, in a folder.
fn in_c(folder: &Path) {
    shared_object(folder, "libguider.so", GUIDER, &Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
}

pub(crate) struct Stand {
    folder: TempPath,
    pub(crate) server: Server,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Stand {
    /// A server, and a folder with a guider.
    pub(crate) fn new(build: fn(&Path)) -> Self {
        let notices = Arc::<Mutex<Vec<String>>>::default();
        let noted = notices.clone();
        let settings =
            ServerSettings::default().on_notice(move |notice| noted.lock().unwrap().push(notice.to_string()));
        let folder = TempPath::folder("objects");
        build(&folder);
        Self { folder, server: Server::manual_with("main", settings), notices }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The plan, with other text for these.
    pub(crate) fn plan(&self, changes: &[(&str, &str)]) -> Plan {
        let mut text = PLAN.replace("DOME", dome().to_str().unwrap()).replace("LOG", self.log().to_str().unwrap());
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        Plan::parse(&text).unwrap()
    }

    pub(crate) fn deploy(&mut self, plan: &Plan) -> Result<(), String> {
        let registry = Registry::new().with_objects(plan, "main", &self.folder).unwrap();
        let components = [("main".to_owned(), registry.descriptions())].into();
        if let Some(problem) = plan.check(&components).first() {
            return Err(problem.to_string());
        }
        self.server.deploy_here(plan, "main", &registry).map_err(|problem| problem.to_string())
    }

    /// Deploys the plan, and runs it for so long.
    pub(crate) fn run(build: fn(&Path), changes: &[(&str, &str)], ms: u64) -> Self {
        let mut stand = Self::new(build);
        let plan = stand.plan(changes);
        stand.deploy(&plan).unwrap();
        stand.server.start().unwrap();
        stand.server.advance(Duration::from_millis(ms));
        stand
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn port(&self, port: &str) -> PortStatus {
        self.server.port(port).unwrap()
    }
}

#[test]
fn components_in_c_and_in_rust_are_connected_both_ways() {
    let stand = Stand::run(in_c, &[], 30);
    assert_eq!(
        stand.lines(),
        [
            "recorder is active",
            "guider.offset 1 1",
            "camera.frame 1 0.5 red 7 in place",
            "guider.offset 2 1",
            "camera.frame 2 0.5 red 7 in place",
            "guider.offset 3 1",
            "camera.frame 3 0.5 red 7 in place",
        ]
    );
    assert_eq!((stand.port("camera.frame").sent, stand.port("guider.frame").delivered), (3, 3));
    assert_eq!((stand.port("guider.offset").sent, stand.port("recorder.offset").delivered), (3, 3));
}

#[test]
fn queues_and_filters_stand_before_ports_of_shared_objects() {
    let settings = r#"
    [ports."recorder.frame"]
    qos = { MaxEventsPerConsumer = 4 }
    when = "$number >= 2 and $.remainder_of_body.filters._length == 1"
    [ports."guider.frame"]
    when = "$number == 3"
    [connections]"#;
    let stand = Stand::run(in_c, &[("[connections]", settings)], 30);
    assert_eq!(
        stand.lines(),
        [
            "recorder is active",
            "camera.frame 2 0.5 red 7 copied",
            "guider.offset 3 1",
            "camera.frame 3 0.5 red 7 copied",
        ]
    );
    assert_eq!((stand.port("recorder.frame").filtered, stand.port("guider.frame").filtered), (1, 2));
    let mut stand = Stand::new(in_c);
    let plan = stand.plan(&[("[connections]", "[ports.\"guider.frame\"]\nwhen = \"$numbr == 3\"\n[connections]")]);
    let refused = stand.deploy(&plan).unwrap_err();
    assert!(refused.contains("no event has numbr; Frame has number, brightness, filters"), "{refused}");
}

#[test]
fn what_a_component_in_c_does_wrong_is_answered_and_counted() {
    let does = |what: &str| Stand::run(in_c, &[("#guider", &format!("does = \"{what}\""))], 30);
    // A handler that fails.
    let stand = does("fail");
    let frames = ["camera.frame 1 0.5 red 7 in place", "camera.frame 2 0.5 red 7 in place"];
    assert_eq!(stand.lines()[1..3], frames);
    assert_eq!((stand.port("guider.frame").failed, stand.port("guider.frame").delivered), (3, 0));
    // Octets that are no value of the type: CAMPANILE_COMPONENT_VALUE.
    let stand = does("send octets");
    assert_eq!(stand.lines()[1], "guider.offset 1 6");
    assert_eq!((stand.port("guider.offset").failed, stand.port("guider.offset").sent), (3, 3));
    // No such port, a sink, a null pointer, a value of no binding: CAMPANILE_COMPONENT_ARGUMENT, four times.
    assert_eq!(does("send to nowhere").lines()[1], "guider.offset 1 28");
    // Another thread: the same.
    assert_eq!(does("send elsewhere").lines()[1], "guider.offset 1 7");
}

#[test]
fn timers_of_components_in_c_tick() {
    let stand = Stand::run(in_c, &[("#guider", "does = \"rest\""), ("\"guider.frame\", ", "")], 2_000);
    let offsets = stand.lines().into_iter().filter(|line| line.starts_with("guider.offset")).count();
    assert_eq!((offsets, stand.port("guider.rest").delivered), (2, 2));
}

#[test]
fn a_component_in_c_that_is_broken_is_made_again() {
    let stand = Stand::run(in_c, &[("#guider", "does = \"break\"")], 140);
    let lines = stand.lines();
    let of_guider: Vec<_> = lines.iter().filter(|line| line.starts_with("guider")).map(String::as_str).collect();
    // Frame 13 is the first after the pause of 100 ms.
    assert_eq!(
        of_guider[..5],
        [
            "guider.offset 1 1",
            "guider.offset 2 1",
            "guider failed: the shutter is stuck",
            "guider.offset 13 1",
            "guider restarted: ",
        ],
        "{lines:#?}"
    );
    let notices = stand.notices.lock().unwrap();
    let failed = "component guider of server main failed and is made again after 100 ms: the shutter is stuck";
    assert!(notices.iter().any(|notice| notice == failed), "{notices:#?}");
}

#[test]
fn a_panic_ends_at_the_edge_of_its_shared_object() {
    let stand = Stand::run(in_c, &[("#recorder", "panics_at = 3")], 140);
    let lines = stand.lines();
    let notices = stand.notices.lock().unwrap();
    let failed = "component recorder of server main failed and is made again after 100 ms: frame 3 is too much";
    assert!(notices.iter().any(|notice| notice == failed), "{notices:#?}");
    assert_eq!(lines.iter().filter(|line| *line == "recorder is active").count(), 2, "{lines:#?}");
    assert!(lines.iter().any(|line| line == "camera.frame 13 0.5 red 7 in place"), "{lines:#?}");
    // The guider in C sends how many octets it got about its neighbour.
    assert!(lines.iter().any(|line| line == "guider.offset 0 37"), "{lines:#?}");
    assert_eq!(stand.server.status().iter().map(|status| status.restarts).sum::<u64>(), 1);
}

#[test]
fn a_shared_object_refuses_to_be_made_and_to_be_activated() {
    let mut stand = Stand::new(in_c);
    let plan = stand.plan(&[("#guider", "does = \"refuse\"")]);
    stand.deploy(&plan).unwrap();
    let refused = stand.server.start().unwrap_err();
    assert_eq!(refused, Error::Failed { instance: "guider".to_owned(), reason: "not today".to_owned() });
    let mut stand = Stand::new(in_c);
    let plan = stand.plan(&[("#guider", "does = \"break in a step\"")]);
    stand.deploy(&plan).unwrap();
    let refused = stand.server.start().unwrap_err();
    assert_eq!(refused, Error::Failed { instance: "guider".to_owned(), reason: "the mirror is gone".to_owned() });
    let mut stand = Stand::new(in_c);
    let plan = stand.plan(&[("gain = 2", "gain = \"much\"")]);
    let refused = stand.deploy(&plan).unwrap_err();
    assert!(refused.contains("guider failed: there is no gain"), "{refused}");
    let mut stand = Stand::new(in_c);
    let plan = stand.plan(&[("log = ", "panics_at = \"soon\"\nlog = ")]);
    let refused = stand.deploy(&plan).unwrap_err();
    assert!(refused.contains("recorder, property panics_at: invalid type"), "{refused}");
}

#[test]
fn ports_of_shared_objects_in_two_servers_are_connected_by_a_channel() {
    let listen = format!("{}:0", testing::own_loopback());
    let service = Service::start(Config { listen, ..Config::default() }).unwrap();
    let stand = Stand::new(in_c);
    let shared = format!(
        "[containers.shared]\nservice = \"notification\"\nat = \"{}\"\n[servers.main]\n[servers.far]",
        service.address()
    );
    let plan = stand.plan(&[
        ("[servers.main]", &shared),
        ("gain = 2", "gain = 2\nserver = \"far\"\ncontainer = \"shared\""),
        ("Camera\"", "Camera\"\ncontainer = \"shared\""),
        ("Recorder\"", "Recorder\"\ncontainer = \"shared\""),
    ]);
    let deploy = |name| {
        let registry = Registry::new().with_objects(&plan, name, &stand.folder).unwrap();
        Server::deploy(&plan, name, &registry, ServerSettings::default()).unwrap()
    };
    let (mut far, mut main) = (deploy("far"), deploy("main"));
    far.start().unwrap();
    main.start().unwrap();
    wait_until("offsets of frames that went to the other server", || {
        main.port("recorder.offset").is_some_and(|port| port.delivered >= 3)
    });
    let lines = stand.lines();
    assert!(lines.iter().any(|line| line.starts_with("guider.offset ") && line.ends_with(" 1")), "{lines:#?}");
}

#[test]
fn the_header_is_one_for_cpp_too() {
    let folder = TempPath::folder("objects");
    let source = folder.join("nothing.cpp");
    let text = "#include <campanile_component.h>\n\
                static const campanile_component components[] = { { \"Nothing\", nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr } };\n\
                CAMPANILE_COMPONENTS(components)\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = std::process::Command::new("c++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC", "-I"]);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg("-o").arg(folder.join("libnothing.so"));
    let output = testing::output_of_suite(compiler.arg(&source));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan = Plan::parse("[servers.main]\n[instances.nothing]\ncomponent = \"libnothing.so#Nothing\"\n").unwrap();
    let refused = Registry::new().with_objects(&plan, "main", &folder).unwrap_err().to_string();
    assert_eq!(
        refused,
        "instances.nothing: libnothing.so: component Nothing: its create is a null pointer: give the function"
    );
}
