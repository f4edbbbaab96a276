//! Plans: what is wrong with them is said before anything runs; then they are carried out.

use crate::parts::{Camera, Guider, Recorder, noted};
use campanile_component::{Descriptions, Plan, Registry, Server};
use std::collections::BTreeMap;
use std::time::Duration;

const PLAN: &str = r#"
    [containers.fast]
    pool = { lanes = [80, 40] }
    [instances.camera]
    component = "Camera"
    [instances.guider]
    component = "Guider"
    container = "fast"
    lane = 40
    gain = 0.25
    [instances.recorder]
    component = "Recorder"
    container = "fast"
    lane = 40
    [connections]
    "camera.frame" = ["guider.frame"]
    "guider.offset" = ["recorder.offset"]
    [ports."guider.frame"]
    qos = { MaxEventsPerConsumer = 4, FullOutbox = "Discard" }
    when = "$number >= 2"
"#;

fn registry() -> Registry {
    Registry::new().with::<Camera>().with::<Guider>().with::<Recorder>()
}

fn components() -> BTreeMap<String, Descriptions> {
    [("main", registry()), ("other", registry())].map(|(name, of)| (name.to_owned(), of.descriptions())).into()
}

#[test]
fn a_plan_is_carried_out_as_it_says() {
    let plan = Plan::parse(PLAN).unwrap();
    assert_eq!(plan.check(&components()), []);
    let mut server = Server::manual("main");
    server.deploy_here(&plan, "main", &registry()).unwrap();
    server.start().unwrap();
    server.advance(Duration::from_millis(300));
    assert_eq!(noted(), ["recorder.offset < guider.offset: 2 0.5", "recorder.offset < guider.offset: 3 0.5"]);
    let lanes: Vec<_> = server.status().into_iter().map(|status| status.lane).collect();
    assert_eq!(lanes, ["main", "fast/40", "fast/40"]);
}

/// What is written, instead of what, and what is said then.
const MISTAKES: [(&str, &str, &str); 16] = [
    (
        "\"Kamera\"",
        "\"Camera\"",
        "instances.camera: the server main has no component Kamera; it has: Camera, Guider, Recorder",
    ),
    ("gian = 0.25", "gain = 0.25", "instances.guider: the component Guider has no property gian; it has: gain"),
    ("", "gain = 0.25", "instances.guider: the property gain is missing: give it, a f64"),
    ("container = \"slow\"", "container = \"fast\"", "instances.guider: there is no container slow; there are: fast"),
    ("lane = 41", "lane = 40", "instances.guider: fast has no lane 41; it has: [80, 40]"),
    (
        "lanes = [80, 40, 100]",
        "lanes = [80, 40]",
        "containers.fast: its lanes are [80, 40, 100]: priorities go from 1 to 99",
    ),
    (
        "lanes = [80, 40, 80]",
        "lanes = [80, 40]",
        "containers.fast: its lanes are [80, 40, 80]: give each priority once",
    ),
    (
        "server = \"x\"\ngain = 0.25",
        "gain = 0.25",
        "instances.guider: there is no server x: add [servers.x] with its program",
    ),
    (
        "[\"guider.picture\"]",
        "[\"guider.frame\"]",
        "connections.\"camera.frame\": guider has no port picture; it has: frame, offset",
    ),
    (
        "[\"gyder.frame\"]",
        "[\"guider.frame\"]",
        "connections.\"camera.frame\": there is no instance gyder; there are: camera, guider, recorder",
    ),
    (
        "[\"guider.offset\"]",
        "[\"guider.frame\"]",
        "connections.\"camera.frame\": guider.offset is a source, and here a sink is needed",
    ),
    (
        "[\"recorder.offset\"]",
        "[\"guider.frame\"]",
        "connections.\"camera.frame\": camera.frame gives struct Frame { unsigned long long number; double brightness; }, \
         recorder.offset takes struct Offset { unsigned long long number; double x; }: put a component between that \
         makes one of the other",
    ),
    ("[\"guider.frame\", \"guider.frame\"]", "[\"guider.frame\"]", "connected already"),
    (
        "MaxEventsPerConsumer = 0",
        "MaxEventsPerConsumer = 4",
        "ports.\"guider.frame\": MaxEventsPerConsumer is 0: give 1 to 65536",
    ),
    (
        "\"Hold\"",
        "\"Discard\"",
        "ports.\"guider.frame\": FullOutbox is Hold, and no component waits: give Discard or Reject",
    ),
    (
        "server = \"other\"\ngain = 0.25",
        "gain = 0.25",
        "put the instance of camera.frame into a container with service = \"notification\"",
    ),
];

#[test]
fn each_mistake_is_said_with_its_place_and_what_to_do() {
    for (instead, of, expected) in MISTAKES {
        let plan = Plan::parse(&PLAN.replace(of, instead)).unwrap();
        let problems: Vec<_> = plan.check(&components()).iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{instead}: {problems:#?}");
    }
}

#[test]
fn a_property_that_is_called_as_a_key_of_instances_is_refused() {
    let mut components = components();
    let camera = components.get_mut("main").unwrap().get_mut("Camera").unwrap();
    camera.properties.insert("node".to_owned(), "String".to_owned());
    let problems: Vec<_> = Plan::parse(PLAN).unwrap().check(&components).iter().map(ToString::to_string).collect();
    let key = "instances.camera: plans have the key node for themselves: give the property another name";
    assert_eq!(problems, [key]);
}

#[test]
fn what_is_no_plan_is_refused_by_line() {
    for (text, expected) in [
        ("[instances.a]\ncomponent = 3", "line 2"),
        ("[instances.a]\ncomponent = \"A\"\n[instances.a]\ncomponent = \"B\"", "duplicate key"),
        ("[containers.a]\nservice = \"mqtt\"", "no service \"mqtt\"; there are: notification, dds, tempo, rtes"),
        (
            "[containers.a]\nplaced = \"lane\"",
            "unknown variant `lane`, expected one of `server`, `container`, `component`",
        ),
        ("[[federate]]\nchannel = \"a.b\"", "missing field `between`"),
        ("[[federated]]\nchannel = \"a.b\"", "unknown field `federated`"),
        ("[ports.\"a.b\"]\nqos = { Deadline = \"20ms\" }", "unknown field `Deadline`"),
        ("[connections", "line 1"),
    ] {
        let problem = Plan::parse(text).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
    let large = format!("name = \"{}\"", "x".repeat(campanile_component::PLAN_BYTES_MAX));
    assert!(Plan::parse(&large).unwrap_err().to_string().contains("octets: at most"));
}

#[test]
fn a_server_has_components_of_one_kind() {
    let plan = "[servers.main]\n[instances.camera]\ncomponent = 'libdome.so#Camera'\n\
                [instances.guider]\ncomponent = 'guider.py#Guider'\n";
    let said = |plan: &str| {
        let problems = Plan::parse(plan).unwrap().check(&components());
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let both = "instances.camera: libdome.so#Camera is in a shared object, and the server main has instances in Python: give one of both kinds another server";
    assert!(said(plan).contains(both), "{}", said(plan));
    // A server that there is not is no other kind of one.
    let nowhere = "instances.guider: there is no server far: add [servers.far]";
    assert!(said("[instances.guider]\ncomponent = 'guider.py#Guider'\nserver = 'far'").ends_with(nowhere));
    let with_program = plan.replace("[servers.main]", "[servers.main]\nprogram = './control'\npython = 'python3'");
    let said = said(&with_program);
    assert!(said.contains("servers.main: it has `python`, and a program or no instance in Python: leave out `python`"));
    assert!(
        said.contains("instances.guider: guider.py#Guider is in Python, and the server main has a program"),
        "{said}"
    );
}

#[test]
fn a_server_of_python_has_one_folder_and_no_priorities() {
    let said = |first: &str, second: &str, more: &str| {
        let plan = format!(
            "[servers.main]\n[servers.other]\n[containers.fast]\npool = {{ lanes = [80] }}\n[containers.plain]\n\
             [instances.camera]\ncomponent = '{first}#Camera'\ncontainer = 'plain'\n\
             [instances.guider]\ncomponent = '{second}#Guider'\n{more}"
        );
        let problems = Plan::parse(&plan).unwrap().check(&components());
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let folders = "instances.guider: dome/camera.py and control/guider.py are in two folders, and the server main imports from one: move one of the files, or give the instance another server";
    assert!(said("dome/camera.py", "control/guider.py", "").contains(folders));
    let lanes = "instances.guider: threads of Python have no priorities, and its container fast has lanes: give it a container without";
    assert!(said("camera.py", "./guider.py", "container = 'fast'").contains(lanes));
    for (first, second, more) in [
        ("camera.py", "./guider.py", ""),
        ("dome/camera.py", "./dome/guider.py", ""),
        ("dome/camera.py", "control/guider.py", "server = 'other'"),
        ("camera.so", "control/guider.so", "container = 'fast'"),
    ] {
        let said = said(first, second, more);
        assert!(!said.contains("two folders") && !said.contains("priorities"), "{said}");
    }
}

#[test]
fn servers_that_are_connected_name_one_service() {
    let plan = r#"
        [containers.here]
        service = "notification"
        at = "one:2809"
        [containers.there]
        service = "notification"
        at = "two:2809"
        [instances.camera]
        component = "Camera"
        container = "here"
        [instances.guider]
        component = "Guider"
        container = "there"
        server = "other"
        gain = 1
        [connections]
        "camera.frame" = ["guider.frame"]
    "#;
    let problems = Plan::parse(plan).unwrap().check(&components());
    assert_eq!(problems.len(), 1, "{problems:?}");
    let said = "camera.frame gives to the service at one:2809, guider.frame takes from that at two:2809";
    assert!(problems[0].reason.starts_with(said), "{}", problems[0]);
    assert_eq!(Plan::parse(&plan.replace("two:", "one:")).unwrap().check(&components()), []);
}

#[test]
fn a_circle_of_calls_is_found_before_anything_runs() {
    let plan = r#"
        [instances.a]
        component = "Guider"
        gain = 1
        [instances.b]
        component = "Turner"
        [connections]
        "a.offset" = ["b.offset"]
        "b.frame" = ["a.frame"]
    "#;
    let mut components = components();
    let main = components.get_mut("main").unwrap();
    let mut turner = main["Recorder"].clone();
    turner.sources.insert("frame".into(), turner.sinks.remove("frame").unwrap());
    main.insert("Turner".into(), turner);
    let problems = Plan::parse(plan).unwrap().check(&components);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().contains("b -> a -> b would call themselves in a circle"), "{}", problems[0]);
    let queued = format!("{plan}[ports.\"a.frame\"]\nqos = {{}}");
    assert_eq!(Plan::parse(&queued).unwrap().check(&components), []);
}
