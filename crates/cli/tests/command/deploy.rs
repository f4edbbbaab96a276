//! `campanile deploy`. Plans that run are in the tests of `crates/component`, whose example is their program.

use crate::support::{PROGRAM, TempPath, send_signal, text};
use serde_json::{Value as Json, json};
use std::process::{Command, Output, Stdio};
use testing::{output_in_time, shared_object, wait_until};

fn deploy(arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).arg("deploy").args(arguments))
}

/// What `check --json` prints of a plan that is wrong.
fn wrong(plan: &TempPath) -> Json {
    let output = deploy(&["check", plan.path(), "--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plan_that_does_not_fit_is_refused_by_check_and_run_alike() {
    let plan = TempPath::file(
        "plan.toml",
        "[servers.a]\nprogram = '/nowhere/a'\n[servers.b]\nprogram = '/bin/false'\n[instances.x]\ncomponent = 'X'\n",
    );
    for command in ["check", "run"] {
        let output = deploy(&[command, plan.path()]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert!(lines[0].starts_with("campanile: servers.a: /nowhere/a --describe: No such file"), "{said}");
        assert!(
            lines[1].starts_with("campanile: servers.b: /bin/false --describe: it ended with exit status: 1"),
            "{said}"
        );
    }
    let told = wrong(&plan);
    assert_eq!(
        (&told["problems"][0]["place"], &told["problems"][1]["place"]),
        (&"servers.a".into(), &"servers.b".into())
    );
    let plan = TempPath::file("plan.toml", "[instances.x]\ncomponent = 'X'\ngain = 1\n");
    let output = deploy(&["check", plan.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "campanile: instances.x: there is no server main: add [servers.main] with its program\n"
    );
    assert!(output.stdout.is_empty());
    let reason = "there is no server main: add [servers.main] with its program";
    let problems = json!([{ "place": "instances.x", "reason": reason }]);
    assert_eq!(wrong(&plan), json!({ "plan": plan.path(), "problems": problems }));
}

#[test]
fn a_plan_without_instances_is_well() {
    let plan = TempPath::file("plan.toml", "name = 'empty'\n");
    let output = deploy(&["check", plan.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("plan.toml: 0 instances, nothing stands in the way\n"));
}

/// What the program of the plan among the examples says of its components.
const DESCRIPTION: &str = r#"#!/bin/sh
cat <<'END'
[Camera]
sinks = {}
sources = { frame = "struct Frame" }
others = { shutter = "timer" }
timers_ns = { shutter = 100000000 }
properties = {}
optional = []
[Guider]
sinks = { frame = "struct Frame" }
sources = { offset = "struct Offset" }
others = {}
timers_ns = {}
properties = { gain = "f64" }
optional = []
[Mount]
sinks = { offset = "struct Offset" }
sources = {}
others = {}
timers_ns = {}
properties = { log = "String" }
optional = []
END
"#;

/// The plan among the examples, with a program that only describes itself.
fn example(folder: &TempPath) -> String {
    let script = TempPath::file("program.sh", DESCRIPTION);
    // Written by another process: one that another test forks meanwhile would have it open.
    let installed = Command::new("install").args(["-m", "755", script.path()]).arg(folder.join("program")).status();
    assert!(installed.unwrap().success());
    include_str!("../../../component/examples/observatory.toml").replace("../../../target/debug/observatory", "program")
}

#[test]
fn check_prints_response_times_and_whether_deadlines_hold() {
    let folder = TempPath::folder("deadlines");
    let plan = folder.join("plan.toml");
    let example = example(&folder);
    let check = |text: &str, options: &[&str]| {
        std::fs::write(&plan, text).unwrap();
        deploy(&[&["check", plan.to_str().unwrap()][..], options].concat())
    };
    let output = check(&example, &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let page = include_str!("../../../../docs/deployment.md");
    let shown = page.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    assert!(said.starts_with(shown), "{said}");
    assert!(
        said.contains("\nnote: times that depend on lanes at ordinary priority hold as long as nothing else runs"),
        "{said}"
    );
    assert!(said.ends_with("plan.toml: 3 instances, nothing stands in the way\n"), "{said}");

    let late = example.replacen("deadline = \"20ms\"", "deadline = \"5ms\"", 1);
    let output = check(&late, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "campanile: ports.\"guider.frame\": up to 8ms pass until guider.frame has ended, 3ms more than its deadline of 5ms; the \
         largest part is guider.frame with what it calls on shared (7ms): have that take less time\n"
    );
    let said = text(&output.stdout);
    assert!(said.contains("8ms       5ms  MISSED\n") && !said.contains("nothing stands in the way"), "{said}");

    let output = check(&late, &["-o", "json", "--cpu-per-server"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let times = &told["response_times"];
    assert_eq!(
        (&times["ports"][0]["port"], &times["ports"][0]["response_ns"]),
        (&"guider.frame".into(), &7_000_000.into())
    );
    assert_eq!((&times["ports"][0]["verdict"], &times["ports"][1]["verdict"]), (&"missed".into(), &"holds".into()));
    assert_eq!((&times["ports"][2]["verdict"], &times["processors"][1]["server"]), (&Json::Null, &"dome".into()));
    assert_eq!(times["problems"][0]["place"], "ports.\"guider.frame\"");

    let output = check(&example.replace("time = \"5ms\"", "time = \"95ms\""), &[]);
    let said = text(&output.stdout);
    assert!(said.contains("utilisation: 108.8 %, more than one processor has\n"), "{said}");
    assert!(said.contains("        ?      20ms  MISSED\n"), "{said}");
}

#[test]
fn check_names_what_it_lacks_for_response_times() {
    let folder = TempPath::folder("deadlines");
    let plan = folder.join("plan.toml");
    let example = example(&folder);
    std::fs::write(&plan, example.replace("period = ", "# ")).unwrap();
    let output = deploy(&["check", plan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.starts_with(
            "campanile: ports.\"guider.frame\": how often events come from camera.frame in another server"
        ),
        "{said}"
    );
    assert!(text(&output.stdout).contains("utilisation: at least 1.0 %\n"), "{}", text(&output.stdout));
    // A plan without times is as before.
    std::fs::write(&plan, example.split_once("# By when").unwrap().0).unwrap();
    let output = deploy(&["check", plan.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("response times were not computed: no port has a time\n"), "{said}");
    assert!(said.ends_with(": 3 instances, nothing stands in the way\n"), "{said}");
    let output = deploy(&["check", plan.to_str().unwrap(), "--json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["instances"], &told["response_times"]), (&3.into(), &Json::Null));
}

/// A file of the tests of `crates/component`.
fn descriptor(name: &str) -> String {
    format!("{}/../component/tests/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn import_writes_a_plan_and_says_what_it_goes_without() {
    let (plan, events) = (descriptor("observatory.cdp"), descriptor("observatory.ced"));
    let output = deploy(&["import", &plan, "--events", &events]);
    let (made, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with(&format!("campanile: note: {plan}:8: label: left out: ")), "{said}");
    assert!(made.contains("\n[instances.Dome_Camera]\ncomponent = \"libcamera.so#Camera\"\n"), "{made}");

    let folder = TempPath::folder("import");
    let file = folder.join("plan.toml");
    let output = deploy(&["import", &plan, "--events", &events, "-o", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), made);

    // What somebody wrote is not written over.
    std::fs::write(&file, "mine").unwrap();
    let output = deploy(&["import", &plan, "--events", &events, "-o", file.to_str().unwrap()]);
    let expected =
        format!("campanile: cannot write {}: it is there already: remove it, or choose another file\n", file.display());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).ends_with(&expected), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");

    // Nothing is written of what is refused.
    std::fs::remove_file(&file).unwrap();
    let output = deploy(&["import", &plan, "-o", file.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.starts_with(&format!("campanile: {plan}:166: infoProperty: event services are in a descriptor")),
        "{said}"
    );
    assert!(!file.exists());
    let output = deploy(&["import", &descriptor("none.cdp")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).ends_with("none.cdp: No such file or directory (os error 2)\n"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn graph_draws_a_plan_with_the_types_that_its_programs_say() {
    let folder = TempPath::folder("graph");
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, example(&folder)).unwrap();
    let graph = |options: &[&str]| deploy(&[&["graph", plan.to_str().unwrap()][..], options].concat());
    let output = graph(&[]);
    let drawn = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(drawn.contains("\"guider\":o0 -> \"mount\":i0 [label=\"struct Offset\"]\n"), "{drawn}");
    let output = graph(&["-o", "json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let frames = json!({
        "source": "camera.frame", "sink": "guider.frame", "type": "struct Frame", "channel": "observatory.camera.frame",
        "queue_events": 4, "when": "$brightness > 0.1",
    });
    assert_eq!(told["connections"][0], frames);
    // The program is not needed for the rest.
    std::fs::remove_file(folder.join("program")).unwrap();
    assert_eq!(graph(&[]).status.code(), Some(1));
    let output = graph(&["--no-types"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\"guider\":o0 -> \"mount\":i0 [label=\"\"]\n"), "{}", text(&output.stdout));
    std::fs::write(&plan, " ".repeat(4 * 1024 * 1024 + 1)).unwrap();
    let output = graph(&["--no-types"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it has more than 4194304 octets"), "{}", text(&output.stderr));
}

/// A camera and a guider in C, which makes an offset of each frame.
const OBSERVATORY: &str = r#"
#include <campanile_component.h>
#include <stdlib.h>
#include <string.h>
struct frame { uint64_t number; double brightness; };
static const char frame_idl[] = "struct Frame { unsigned long long number; double brightness; };";
static const char offset_idl[] = "struct Offset { unsigned long long number; double x; };";
struct part { const campanile_component_host *host; uint64_t taken; };
static int32_t create(const campanile_component_host *host, const char *properties, void **component) {
    struct part *part = calloc(1, sizeof *part);
    (void)properties;
    if (part == NULL) return CAMPANILE_COMPONENT_FAILED;
    part->host = host;
    *component = part;
    return CAMPANILE_COMPONENT_OK;
}
static int32_t on_shutter(void *component, const campanile_component_event *tick) {
    struct part *camera = component;
    struct frame frame = { ++camera->taken, 0.5 };
    (void)tick;
    return camera->host->send(camera->host, 1, (const uint8_t *)&frame, sizeof frame, NULL);
}
static int32_t on_frame(void *component, const campanile_component_event *event) {
    struct part *guider = component;
    struct frame frame;
    memcpy(&frame, event->cdr, sizeof frame);
    frame.brightness *= 3;
    return guider->host->send(guider->host, 1, (const uint8_t *)&frame, sizeof frame, NULL);
}
static const campanile_component_port camera_ports[] = {
    { .kind = CAMPANILE_PORT_TIMER, .name = "shutter", .interval_ns = 10000000, .handler = on_shutter },
    { .kind = CAMPANILE_PORT_SOURCE, .name = "frame", .idl = frame_idl },
};
static const campanile_component_port guider_ports[] = {
    { .kind = CAMPANILE_PORT_SINK, .name = "frame", .idl = frame_idl, .handler = on_frame },
    { .kind = CAMPANILE_PORT_SOURCE, .name = "offset", .idl = offset_idl },
};
static const campanile_component components[] = {
    { .name = "Camera", .ports = camera_ports, .port_count = 2, .create = create, .destroy = free },
    { .name = "Guider", .ports = guider_ports, .port_count = 2, .create = create, .destroy = free },
};
CAMPANILE_COMPONENTS(components)
"#;

const RECORDED: &str = "[servers.main]\n[instances.camera]\ncomponent = 'libguider.so#Camera'\n[instances.guider]\n\
                        component = 'libguider.so#Guider'\n[connections]\n'camera.frame' = ['guider.frame']\n";

/// It does not go on to the next events, each in 10 s, when its standard output is closed.
fn replay_ends_with_its_reader(file: &str) {
    let mut cut = Command::new(PROGRAM)
        .args(["deploy", "replay", file, "--into", "guider", "--speed", "0.001"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(cut.stdout.take());
    let mut status = None;
    wait_until("the replay to end", || {
        status = cut.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}

#[test]
fn what_run_records_replay_gives_to_a_component_alone() {
    let folder = TempPath::folder("recorded");
    let headers = format!("{}/../component/include", env!("CARGO_MANIFEST_DIR"));
    shared_object(&folder, "libguider.so", OBSERVATORY, headers.as_ref());
    let (plan, file) = (folder.join("plan.toml"), folder.join("night.jsonl"));
    std::fs::write(&plan, RECORDED).unwrap();
    let (plan, file) = (plan.to_str().unwrap(), file.to_str().unwrap());
    let run = Command::new(PROGRAM)
        .args(["deploy", "run", plan, "--record", file])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let events = || std::fs::read_to_string(file).unwrap_or_default().matches("{\"came\"").count();
    wait_until("five frames in the recording", || events() >= 5);
    send_signal(&run, "TERM");
    let output = run.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let recorded = events();
    assert!(said.ends_with(&format!("campanile: {recorded} events recorded\n")), "{said}");

    for pace in [["--speed", "max"], ["--speed", "10"]] {
        let output = deploy(&[&["replay", file, "--into", "guider"][..], &pace].concat());
        let (sent, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(
            said.ends_with(&format!("campanile: {recorded} events given to guider, {recorded} handled\n")),
            "{said}"
        );
        let sent: Vec<Json> = sent.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = |number: usize| json!({ "source": "guider.offset", "type": "Offset", "priority": 0, "event": { "number": number, "x": 1.5 } });
        assert_eq!(sent, (1..=recorded).map(expected).collect::<Vec<_>>());
    }
    replay_ends_with_its_reader(file);
    let replay = |more: &[&str]| {
        let output = deploy(&[&["replay", file][..], more].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = replay(&["--into", "camera"]);
    assert_eq!(code, Some(1));
    assert!(said.ends_with(&format!("campanile: {file} has no event for camera\n")), "{said}");
    let (code, said) = replay(&["--into", "mount"]);
    assert!(
        code == Some(1) && said.contains("instances.mount: there is no such instance; there are: camera, guider"),
        "{said}"
    );

    // A recording that ends within a line, and a component that takes another type now.
    let whole = std::fs::read(file).unwrap();
    std::fs::write(file, &whole[..whole.len() - 5]).unwrap();
    let (code, said) = replay(&["--into", "guider", "--speed", "max"]);
    assert_eq!(code, Some(1));
    assert!(said.contains(&format!("campanile: {} events given", recorded - 1)), "{said}");
    assert!(
        said.contains("is damaged from line") && said.contains("it is cut short: what is before that was given"),
        "{said}"
    );
    let other = OBSERVATORY.replace("double brightness; };\";", "double light; };\";");
    shared_object(&folder, "libguider.so", &other, headers.as_ref());
    let (code, said) = replay(&["--into", "guider"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("guider.frame took struct Frame { unsigned long long number; double brightness; };"),
        "{said}"
    );
    let output = deploy(&["run", plan, "--record", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).ends_with("is there already: remove it, or choose another file\n"));
}
