//! Plans as drawings.

use crate::parts::{Camera, Guider, Recorder};
use campanile_component::{Plan, Registry};
use std::collections::BTreeMap;

const PLAN: &str = r#"
    name = "guiding"
    [servers.control]
    program = "./control"
    [servers.dome]
    [containers.fast]
    service = "notification"
    at = "localhost:2809"
    pool = { lanes = [80, 40] }
    [containers.slow]
    service = "notification"
    [instances.camera]
    component = "Camera"
    server = "dome"
    container = "slow"
    [instances.guider]
    component = "Guider"
    server = "control"
    container = "fast"
    lane = 40
    gain = 0.25
    [instances.recorder]
    component = "Recorder"
    server = "control"
    [connections]
    "camera.frame" = ["guider.frame", "recorder.frame"]
    "guider.offset" = ["recorder.offset"]
    [ports."guider.frame"]
    qos = { MaxEventsPerConsumer = 4 }
    when = "$filter == 'a\"b'"
"#;

const DRAWN: &str = r#"digraph "guiding" {
    rankdir=LR
    node [shape=record, style=filled, fillcolor=white]
    edge [fontsize=10]
    subgraph cluster_0 {
        label="control\n./control"
        "recorder" [label="{{<i0> frame|<i1> offset|<i2> peers}|recorder\nRecorder}"]
        subgraph cluster_0_1 {
        style=dashed
        label="container fast\nnotification at localhost:2809\nlanes 80, 40"
        "guider" [label="{{<i0> frame}|guider\nGuider\nlane 40|{<o0> offset}}"]
        }
    }
    subgraph cluster_1 {
        label="dome"
        subgraph cluster_1_0 {
        style=dashed
        label="container slow\nnotification"
        "camera" [label="{{<i0> shutter}|camera\nCamera|{<o0> frame}}"]
        }
    }
    "channel guiding.camera.frame" [shape=cylinder, label="guiding.camera.frame"]
    "camera":o0 -> "channel guiding.camera.frame" [label="Frame"]
    "channel guiding.camera.frame" -> "guider":i0 [label="queue of 4\nwhen $filter == 'a\"b'", style=dashed]
    "channel guiding.camera.frame" -> "recorder":i0 [label=""]
    "guider":o0 -> "recorder":i1 [label="Offset\nqueue of 64", style=dashed]
}
"#;

#[test]
fn a_plan_is_drawn_with_its_ports_queues_filters_and_channels() {
    let plan = Plan::parse(PLAN).unwrap();
    let known = Registry::new().with::<Camera>().with::<Guider>().with::<Recorder>().descriptions();
    let components = ["control", "dome"].map(|server| (server.to_owned(), known.clone())).into();
    assert_eq!(plan.to_dot(&components), DRAWN);
    // Of components that are not known only what the plan names is drawn.
    let drawn = DRAWN
        .replace("|<i2> peers", "")
        .replace("{<i0> shutter}|", "")
        .replace("Frame\"", "\"")
        .replace("Offset\\n", "");
    assert_eq!(plan.to_dot(&BTreeMap::new()), drawn);
}

#[test]
fn names_do_not_end_what_they_stand_in() {
    let plan = r#"
        name = 'a"]; b'
        [instances.'x"{|}<>\']
        component = "line\nline\u001b"
        [connections]
        'y"' = ['x"{|}<>\.in|put']
    "#;
    let drawn = Plan::parse(plan).unwrap().to_dot(&BTreeMap::new());
    for line in [
        r#"digraph "a\"]; b" {"#,
        r#"        "x\"{|}<>\\" [label="{{<i0> in\|put}|x\"\{\|\}\<\>\\\nline\nline }"]"#,
        r#"    "channel a\"]; b.y\"" -> "x\"{|}<>\\":i0 [label=""]"#,
    ] {
        assert!(drawn.lines().any(|other| other == line), "{line}: {drawn}");
    }
}
