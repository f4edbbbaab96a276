//! Response times of plans: text-book examples, chains over lanes, what a plan says too little of.

use crate::parts::{Camera, Guider, Recorder};
use campanile_component::{Descriptions, Plan, PortTime, Processors, Registry, ResponseTimes, Server, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A component: its name, timers with intervals in milliseconds, sinks and sources.
type Component<'c> = (&'c str, &'c [(&'c str, u64)], &'c [&'c str], &'c [&'c str]);

/// Components as programs describe them.
fn describe(components: &[Component<'_>]) -> BTreeMap<String, Descriptions> {
    let list = |names: &[&str]| names.iter().map(|name| format!("{name} = \"T\"")).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    for (name, timers, sinks, sources) in components {
        let others: Vec<_> = timers.iter().map(|(timer, _)| format!("{timer} = \"timer\"")).collect();
        let intervals: Vec<_> = timers.iter().map(|(timer, ms)| format!("{timer} = {}", ms * 1_000_000)).collect();
        let (others, intervals) = (others.join(", "), intervals.join(", "));
        let (sinks, sources) = (list(sinks), list(sources));
        writeln!(
            text,
            "[{name}]\nsinks = {{ {sinks} }}\nsources = {{ {sources} }}\nothers = {{ {others} }}\n\
             timers_ns = {{ {intervals} }}\nproperties = {{}}\noptional = []"
        )
        .unwrap();
    }
    let described: Descriptions = toml::from_str(&text).unwrap();
    ["main", "other"].map(|server| (server.to_owned(), described.clone())).into()
}

/// A task set: a component with a timer for each, an instance of the same name, its lane and its time.
fn tasks(tasks: &[(&str, u64, &str, u64, u64)]) -> ResponseTimes {
    let mut plan = "[containers.rt]\npool = { lanes = [80, 60, 40, 20] }\n".to_owned();
    let timers: Vec<_> = tasks.iter().map(|(_, period, ..)| [("tick", *period)]).collect();
    let described: Vec<Component<'_>> = tasks
        .iter()
        .zip(&timers)
        .map(|(task, timer)| (task.0, timer.as_slice(), [].as_slice(), [].as_slice()))
        .collect();
    for (name, _, lane, time, deadline) in tasks {
        writeln!(plan, "[instances.{name}]\ncomponent = \"{name}\"\n{lane}").unwrap();
        writeln!(plan, "[ports.\"{name}.tick\"]\ntime = \"{time}ms\"\ndeadline = \"{deadline}ms\"").unwrap();
    }
    computed(&plan, &describe(&described))
}

fn computed(plan: &str, components: &BTreeMap<String, Descriptions>) -> ResponseTimes {
    Plan::parse(plan).unwrap().response_times(components, Processors::One).unwrap().unwrap()
}

fn port<'t>(times: &'t ResponseTimes, name: &str) -> &'t PortTime {
    times.ports.iter().find(|port| port.port == name).unwrap_or_else(|| panic!("{name} in {times:#?}"))
}

/// The response in milliseconds, and the verdict.
fn found(times: &ResponseTimes, name: &str) -> (Option<u64>, Option<Verdict>) {
    let port = port(times, name);
    assert!(port.response_ns.is_none_or(|ns| ns % 1_000_000 == 0), "{port:?}");
    (port.response_ns.map(|ns| ns / 1_000_000), port.verdict)
}

fn problems(times: &ResponseTimes) -> Vec<String> {
    times.problems.iter().map(ToString::to_string).collect()
}

const HOLDS: Option<Verdict> = Some(Verdict::Holds);
const MISSED: Option<Verdict> = Some(Verdict::Missed);
const UNKNOWN: Option<Verdict> = Some(Verdict::Unknown);

fn lane(priority: i32) -> String {
    format!("container = \"rt\"\nlane = {priority}")
}

/// Burns and Wellings, "Real-Time Systems and Programming Languages" (3rd ed. 2001), process set D, 13.5.
#[test]
fn rate_monotonic_lanes_have_the_response_times_of_the_text_book() {
    let times = tasks(&[("c", 20, &lane(40), 5, 20), ("a", 7, &lane(80), 3, 7), ("b", 12, &lane(60), 3, 12)]);
    assert_eq!(problems(&times), [""; 0]);
    for (name, response) in [("a.tick", 3), ("b.tick", 6), ("c.tick", 20)] {
        assert_eq!(found(&times, name), (Some(response), HOLDS), "{name}");
    }
    let order: Vec<_> = times.ports.iter().map(|port| (&*port.port, &*port.lane, port.periods_ns.as_slice())).collect();
    assert_eq!(
        order,
        [
            ("a.tick", "rt/80", [7_000_000].as_slice()),
            ("b.tick", "rt/60", &[12_000_000]),
            ("c.tick", "rt/40", &[20_000_000])
        ]
    );
    assert!((times.processors[0].utilisation - (3.0 / 7.0 + 3.0 / 12.0 + 5.0 / 20.0)).abs() < 1e-9);
    assert!(!times.processors[0].is_partial);
    assert_eq!(times.notes, [""; 0]);
}

/// The same, process set A: `a` misses its deadline by 2.
#[test]
fn a_missed_deadline_is_named_with_by_how_much_and_what_is_in_the_way() {
    let times = tasks(&[("a", 50, &lane(40), 12, 50), ("b", 40, &lane(60), 10, 40), ("c", 30, &lane(80), 10, 30)]);
    assert_eq!(found(&times, "a.tick"), (Some(52), MISSED));
    assert_eq!((found(&times, "b.tick"), found(&times, "c.tick")), ((Some(20), HOLDS), (Some(10), HOLDS)));
    assert_eq!(
        problems(&times),
        [
            "ports.\"a.tick\": up to 52ms pass until a.tick has ended, 2ms more than its deadline of 50ms; the largest part is \
          c.tick on rt/80 (2 times 10ms): have that take less time, or put a on a lane of a higher priority"
        ]
    );
}

/// Jeffay, Stanat and Martel, "On non-preemptive scheduling of periodic and sporadic tasks" (RTSS 1991): the short one is blocked
/// by the whole of the long one where both are on one lane.
#[test]
fn handlers_of_one_lane_block_each_other_and_those_of_two_do_not() {
    let one = tasks(&[("short", 4, &lane(40), 2, 4), ("long", 12, &lane(40), 3, 12)]);
    assert_eq!(found(&one, "short.tick"), (Some(5), MISSED));
    assert_eq!(found(&one, "long.tick"), (Some(7), HOLDS));
    let two = tasks(&[("short", 4, &lane(60), 2, 4), ("long", 12, &lane(40), 3, 12)]);
    assert_eq!(found(&two, "short.tick"), (Some(2), HOLDS));
    // Any priority is above an ordinary lane, which runs beside all other programs.
    let ordinary = tasks(&[("short", 4, "", 2, 4), ("long", 12, "container = \"rt\"\nlane = 20", 3, 12)]);
    assert_eq!(found(&ordinary, "short.tick"), (Some(5), MISSED));
    assert_eq!(port(&ordinary, "short.tick").priority, None);
    assert!(
        ordinary.notes[0].ends_with("hold as long as nothing else runs on the processor: short.tick"),
        "{ordinary:?}"
    );
}

fn registry() -> Registry {
    Registry::new().with::<Camera>().with::<Guider>().with::<Recorder>()
}

fn parts() -> BTreeMap<String, Descriptions> {
    [("main", registry()), ("other", registry())].map(|(name, of)| (name.to_owned(), of.descriptions())).into()
}

/// A camera at 10 Hz, a guider, a recorder, each on a lane that its test says.
const PLAN: &str = r#"
    [containers.rt]
    pool = { lanes = [80, 40] }
    service = "notification"
    [instances.camera]
    component = "Camera"
    container = "rt"
    CAMERA
    [instances.guider]
    component = "Guider"
    container = "rt"
    gain = 0.25
    GUIDER
    [instances.recorder]
    component = "Recorder"
    container = "rt"
    RECORDER
    [connections]
    "camera.frame" = ["guider.frame"]
    "guider.offset" = ["recorder.offset"]
    [ports."camera.shutter"]
    time = "1ms"
    [ports."guider.frame"]
    time = "20ms"
    PORT
    [ports."recorder.offset"]
    time = "4ms"
    deadline = "30ms"
"#;

fn plan(camera: &str, guider: &str, recorder: &str, port: &str) -> String {
    PLAN.replace("CAMERA", camera).replace("GUIDER", guider).replace("RECORDER", recorder).replace("PORT", port)
}

#[test]
fn times_of_handlers_that_call_each_other_add_up() {
    let text = plan("", "", "", "");
    let times = computed(&text, &parts());
    for name in ["camera.shutter", "guider.frame", "recorder.offset"] {
        assert_eq!(port(&times, name).response_ns, Some(25_000_000), "{name}");
        assert_eq!(port(&times, name).periods_ns, [100_000_000], "{name}");
    }
    assert_eq!(found(&times, "recorder.offset"), (Some(25), HOLDS));
    let times = computed(&text.replace("\"30ms\"", "\"24ms\""), &parts());
    assert_eq!(
        problems(&times),
        [
            "ports.\"recorder.offset\": up to 25ms pass until recorder.offset has ended, 1ms more than its deadline of 24ms; \
          the largest part is camera.shutter with what it calls on rt/80 (25ms): have that take less time"
        ]
    );
}

#[test]
fn a_queue_begins_an_activity_with_the_period_of_its_source() {
    // By a queue on one lane, by two lanes, and by a lane in between that is less urgent: each frame is handled in 25 ms.
    let queue = "qos = {}";
    for text in
        [plan("", "", "", queue), plan("lane = 40", "lane = 80", "lane = 40", ""), plan("", "lane = 40", "", "")]
    {
        let times = computed(&text, &parts());
        assert_eq!(problems(&times), [""; 0], "{text}");
        assert_eq!(found(&times, "recorder.offset"), (Some(25), HOLDS), "{text}");
        assert_eq!(port(&times, "recorder.offset").periods_ns, [100_000_000]);
        assert!((times.processors[0].utilisation - 0.25).abs() < 1e-9);
    }
    // What is more urgent does not wait for what follows on a lower lane.
    let times = computed(&plan("", "lane = 40", "lane = 40", ""), &parts());
    assert_eq!(found(&times, "camera.shutter").0, Some(1));
}

#[test]
fn what_a_handler_sends_can_be_said() {
    let sends = |list: &str| plan("", "lane = 40", "lane = 40", &format!("sends = {list}"));
    // Two offsets for each frame.
    let times = computed(&sends("[\"offset\", \"offset\"]"), &parts());
    assert_eq!(found(&times, "recorder.offset"), (Some(29), HOLDS));
    let times = computed(&sends("[]"), &parts());
    assert_eq!(
        problems(&times),
        [
            "ports.\"recorder.offset\": no timer of the plan leads to it: connect it, or write period = \"…\", the shortest time \
          between two events from the program; if none come, sends = [] and no time; until then nothing is known of recorder.offset"
        ]
    );
    assert_eq!(found(&times, "recorder.offset"), (None, UNKNOWN));
    let problems = Plan::parse(&sends("[\"ofset\"]")).unwrap().response_times(&parts(), Processors::One).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "ports.\"guider.frame\": sends names ofset, and guider has these sources: offset"
    );
}

#[test]
fn a_handler_without_a_time_is_named_where_a_deadline_waits_for_it() {
    let text = plan("", "", "", "").replace("time = \"1ms\"", "");
    let times = computed(&text, &parts());
    assert_eq!(found(&times, "recorder.offset"), (None, UNKNOWN));
    assert_eq!(
        problems(&times),
        [
            "ports.\"camera.shutter\": it has no time: write time = \"…\", the longest that its handler takes without those that \
          it calls; until then nothing is known of recorder.offset"
        ]
    );
    assert!(times.processors[0].is_partial);
    // One that is less urgent than all of them makes no difference.
    let idle = "[instances.idle]\ncomponent = \"Camera\"\ncontainer = \"rt\"\n";
    let times = computed(&format!("{}{idle}lane = 40", plan("", "", "", "")), &parts());
    assert_eq!((problems(&times).len(), found(&times, "recorder.offset")), (0, (Some(25), HOLDS)));
    assert_eq!(found(&times, "idle.shutter"), (None, None));
    let times = computed(&format!("{}{idle}", plan("", "", "", "")), &parts());
    assert!(problems(&times)[0].starts_with("ports.\"idle.shutter\": it has no time"), "{times:#?}");
}

#[test]
fn events_of_another_server_have_the_period_that_the_plan_says() {
    let text = plan("", "server = \"other\"", "", "");
    let times = computed(&text, &parts());
    let said = problems(&times);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_eq!(
        said[0],
        "ports.\"guider.frame\": how often events come from camera.frame in another server is not known here: write period = \
         \"…\", the shortest time between two of them; until then nothing is known of recorder.offset"
    );
    assert!(said[1].starts_with("ports.\"recorder.offset\": how often events come from guider.offset"), "{said:#?}");
    let text = plan("", "server = \"other\"", "", "period = \"90ms\"") + "period = \"90ms\"";
    let times = computed(&text, &parts());
    assert_eq!(problems(&times), [""; 0]);
    // All share one processor, so that it waits for the guider; its own time is counted from when the event comes.
    assert_eq!(found(&times, "recorder.offset"), (Some(25), HOLDS));
    assert_eq!(port(&times, "guider.frame").server, "other");
    let times = Plan::parse(&text).unwrap().response_times(&parts(), Processors::PerServer).unwrap().unwrap();
    assert_eq!(found(&times, "recorder.offset"), (Some(5), HOLDS));
    let each: Vec<_> = times.processors.iter().map(|it| it.server.as_deref().unwrap()).collect();
    assert_eq!(each, ["main", "other"]);
}

/// A timer of 100 ms with a source, a sink with a source, and a sink: instances with their components and lanes, and the rest of a plan.
fn sporadic(instances: &[(&str, &str, i32)], rest: &str) -> ResponseTimes {
    let components = describe(&[
        ("Timer", &[("tick", 100)], &[], &["out"]),
        ("Relay", &[], &["in"], &["out"]),
        ("End", &[], &["in"], &[]),
    ]);
    let mut text = "[containers.rt]\npool = { lanes = [80, 60, 40, 20] }\n".to_owned();
    for (name, component, priority) in instances {
        writeln!(text, "[instances.{name}]\ncomponent = \"{component}\"\n{}", lane(*priority)).unwrap();
    }
    computed(&(text + rest), &components)
}

fn no_timer(port: &str, waiting: &str) -> String {
    format!(
        "ports.\"{port}\": no timer of the plan leads to it: connect it, or write period = \"…\", the shortest time between two \
         events from the program; if none come, sends = [] and no time; until then nothing is known of {waiting}"
    )
}

#[test]
fn what_only_the_program_sends_to_delays_all_that_is_less_urgent() {
    let on = |priority: i32, period: &str| {
        let ports = "[ports.\"a.tick\"]\ntime = \"50ms\"\ndeadline = \"60ms\"\n[ports.\"b.in\"]\ntime = \"20ms\"\n";
        sporadic(&[("a", "Timer", 40), ("b", "End", priority)], &format!("{ports}{period}"))
    };
    let times = on(80, "");
    assert_eq!(problems(&times), [no_timer("b.in", "a.tick")]);
    assert_eq!((found(&times, "a.tick"), found(&times, "b.in")), ((None, UNKNOWN), (None, None)));
    assert!(times.processors[0].is_partial);
    assert_eq!(found(&on(80, "period = \"100ms\""), "a.tick"), (Some(70), MISSED));
    let times = on(20, "");
    assert_eq!((problems(&times).len(), found(&times, "a.tick")), (0, (Some(50), HOLDS)));
    assert!(times.processors[0].is_partial, "the utilisation is not known");
    // What it triggers may be more urgent than it is.
    let text = r#"
        [connections]
        "s.out" = ["y.in"]
        [ports."y.in"]
        time = "40ms"
        [ports."z.tick"]
        time = "10ms"
        deadline = "20ms"
    "#;
    let times = sporadic(&[("s", "Relay", 20), ("y", "End", 80), ("z", "Timer", 60)], text);
    assert_eq!((problems(&times), found(&times, "z.tick")), (vec![no_timer("s.in", "z.tick")], (None, UNKNOWN)));
    let known = text.to_owned() + "[ports.\"s.in\"]\ntime = \"1ms\"\nperiod = \"100ms\"";
    let times = sporadic(&[("s", "Relay", 20), ("y", "End", 80), ("z", "Timer", 60)], &known);
    // The low lane may delay one of them until the next one comes.
    assert_eq!(found(&times, "z.tick"), (Some(2 * 40 + 10), MISSED));
}

#[test]
fn what_only_the_program_sends_to_is_named_where_it_leads_to_what_is_asked_for() {
    let text = r#"
        [connections]
        "t.out" = ["r.in"]
        "x.out" = ["r.in"]
        [ports."t.tick"]
        time = "1ms"
        [ports."r.in"]
        time = "1ms"
        deadline = "20ms"
        [ports."x.in"]
    "#;
    for lane in [20, 40, 80] {
        let instances = [("t", "Timer", 40), ("x", "Relay", lane), ("r", "End", 40)];
        let times = sporadic(&instances, text);
        assert_eq!((problems(&times), found(&times, "r.in")), (vec![no_timer("x.in", "r.in")], (None, UNKNOWN)));
        let times = sporadic(&instances, &format!("{text}sends = []"));
        assert_eq!((problems(&times).len(), found(&times, "r.in")), (0, (Some(2), HOLDS)));
    }
    // One of those that lead to each other is enough; of those that wait three are named.
    let round = r#"
        [connections]
        "m.out" = ["n.in"]
        "n.out" = ["m.in"]
        [ports."n.in"]
        time = "1ms"
    "#;
    let names = ["a", "b", "c", "d", "e"];
    let timers: Vec<_> = names.iter().map(|name| (*name, "Timer", 20)).collect();
    let judged = names.map(|name| format!("[ports.\"{name}.tick\"]\ntime = \"1ms\"\ndeadline = \"20ms\"\n")).concat();
    let times =
        sporadic(&[&timers[..], &[("m", "Relay", 80), ("n", "Relay", 60)]].concat(), &format!("{round}{judged}"));
    assert_eq!(problems(&times), [no_timer("m.in", "a.tick, b.tick, c.tick, 2 more")]);
}

#[test]
fn sources_of_other_servers_have_one_period_together() {
    let components = describe(&[("Timer", &[("tick", 100)], &[], &["out"]), ("End", &[], &["in"], &[])]);
    let text = r#"
        containers.net.service = "notification"
        instances.a = { component = "Timer", server = "other", container = "net" }
        instances.b = { component = "Timer", server = "other", container = "net" }
        instances.end = { component = "End", container = "net" }
        connections = { "a.out" = ["end.in"], "b.out" = ["end.in"] }
        [ports."end.in"]
        time = "1ms"
    "#;
    let plan = Plan::parse(text).unwrap();
    let times = plan.response_times(&components, Processors::PerServer).unwrap().unwrap();
    assert_eq!(
        problems(&times),
        [
            "ports.\"end.in\": how often events come from a.out, b.out in other servers is not known here: write period = \"…\", \
          the shortest time between two of them, of all sources together; until then nothing is known of end.in"
        ]
    );
}

#[test]
fn events_that_go_round_and_queues_that_sort_are_refused_by_name() {
    let components =
        describe(&[("Asker", &[("tick", 100)], &["reply"], &["request"]), ("Answerer", &[], &["request"], &["reply"])]);
    let text = r#"
        [containers.rt]
        pool = { lanes = [80, 40] }
        [instances.asker]
        component = "Asker"
        container = "rt"
        [instances.answerer]
        component = "Answerer"
        container = "rt"
        lane = 40
        [connections]
        "asker.request" = ["answerer.request"]
        "answerer.reply" = ["asker.reply"]
        [ports."asker.tick"]
        time = "1ms"
        [ports."answerer.request"]
        time = "5ms"
        QUEUE
        [ports."asker.reply"]
        time = "2ms"
        deadline = "20ms"
        SENDS
    "#;
    let times = computed(&text.replace("SENDS", "").replace("QUEUE", ""), &components);
    assert_eq!(found(&times, "asker.reply"), (None, UNKNOWN));
    let said = problems(&times);
    assert!(said[0].starts_with("ports.\"asker.tick\": its events lead round by queues without end"), "{said:#?}");
    assert!(said[0].contains("write sends = [\"…\"]") && said.len() == 1, "{said:#?}");
    let text = text.replace("SENDS", "sends = []");
    let times = computed(&text.replace("QUEUE", ""), &components);
    assert_eq!((problems(&times).len(), found(&times, "asker.reply")), (0, (Some(8), HOLDS)));
    let times = computed(&text.replace("QUEUE", "qos = { OrderPolicy = \"Priority\" }"), &components);
    let said = problems(&times);
    assert!(said[0].starts_with("ports.\"answerer.request\": its queue sorts events under a lock"), "{said:#?}");
}

#[test]
fn work_beyond_the_processor_is_told_and_spares_what_is_more_urgent() {
    let times = tasks(&[("a", 10, &lane(80), 4, 10), ("b", 20, &lane(40), 8, 20), ("c", 20, &lane(40), 8, 100)]);
    assert_eq!(found(&times, "a.tick"), (Some(4), HOLDS));
    assert_eq!((found(&times, "b.tick"), found(&times, "c.tick")), ((None, MISSED), (None, MISSED)));
    assert!((times.processors[0].utilisation - 1.2).abs() < 1e-9);
    let said = problems(&times);
    assert!(
        said[0].starts_with(
            "ports.\"b.tick\": it falls behind without end: what runs at its priority and above takes 120.0 % of a processor; \
             the largest part is c.tick on rt/40 (8ms): have that take less time, or put b on a lane of a higher priority"
        ),
        "{said:#?}"
    );
}

#[test]
fn events_that_a_queue_may_discard_and_ticks_that_are_left_out_are_told() {
    // Two offsets come at once.
    let text = plan("", "lane = 40", "lane = 40", "sends = [\"offset\", \"offset\"]");
    let full = text.clone() + "qos = { MaxEventsPerConsumer = 1 }";
    let times = computed(&full, &parts());
    assert_eq!(found(&times, "recorder.offset"), (Some(29), Some(Verdict::Lost)));
    assert_eq!(
        problems(&times),
        ["ports.\"recorder.offset\": its queue of 1 may be full: 2 events may wait, and deadlines missed \
          then: recorder.offset; give MaxEventsPerConsumer = 2"]
    );
    let times = computed(&full.replace("Consumer = 1", "Consumer = 2"), &parts());
    assert_eq!(found(&times, "recorder.offset"), (Some(29), HOLDS));
    // Without a deadline behind it, it is worth a note.
    let times = computed(&full.replace("deadline = \"30ms\"", ""), &parts());
    assert_eq!(problems(&times), [""; 0]);
    assert_eq!(
        times.notes,
        ["ports.\"recorder.offset\": its queue of 1 may be full: 2 events may wait; give MaxEventsPerConsumer = 2"]
    );
    // A tick that begins an interval late is left out, however long its deadline.
    let times = tasks(&[("slow", 100, &lane(80), 60, 100), ("fast", 20, &lane(40), 2, 200)]);
    assert_eq!(found(&times, "fast.tick").1, Some(Verdict::Lost));
    let said = problems(&times);
    assert!(
        said[0]
            .starts_with("ports.\"fast.tick\": ticks may be left out: one may begin 60ms, an interval or more, late"),
        "{said:#?}"
    );
}

#[test]
fn a_plan_without_times_is_not_computed_and_one_with_them_runs() {
    let text = plan("", "", "", "").replace("time = ", "# ").replace("deadline = ", "# ");
    assert_eq!(Plan::parse(&text).unwrap().response_times(&parts(), Processors::One), Ok(None));
    // A server has no use for times, those of timers among them.
    let plan = Plan::parse(&plan("", "", "", "when = \"$number >= 1\"").replace("[80, 40]", "[]")).unwrap();
    let mut server = Server::manual("main");
    server.deploy_here(&plan, "main", &registry()).unwrap();
    server.start().unwrap();
    server.advance(std::time::Duration::from_millis(300));
    assert_eq!(server.port("recorder.offset").map(|port| port.delivered), Some(3));
}

#[test]
fn times_that_are_none_are_refused_by_line_and_port() {
    for (settings, expected) in [
        ("time = \"2\"", "\"2\" is no time: write a number and a unit"),
        ("deadline = \"0ms\"", "\"0ms\" is out of range: give 1ns to three years"),
        ("period = \"9999999min\"", "is out of range"),
        ("time = 2", "line 2"),
    ] {
        let problem = Plan::parse(&format!("[ports.\"a.b\"]\n{settings}")).unwrap_err().to_string();
        assert!(problem.contains(expected) && problem.contains("line 2"), "{problem}");
    }
    for settings in ["qos = {}", "when = \"$x > 1\"", "period = \"1ms\""] {
        let text = plan("", "", "", "").replace("time = \"1ms\"", settings);
        let problems = Plan::parse(&text).unwrap().check(&parts());
        assert_eq!(
            problems[0].to_string(),
            "ports.\"camera.shutter\": camera.shutter is a timer, and here a sink is needed"
        );
    }
    let text = plan("", "", "", "").replace("camera.shutter", "camera.shuter");
    let problems = Plan::parse(&text).unwrap().check(&parts());
    assert!(problems[0].to_string().contains("camera has no port shuter; it has: frame, shutter"), "{problems:?}");
}

/// Forty layers of two, each with a queue: every event doubles at each.
#[test]
fn activities_without_number_are_refused_and_take_no_time() {
    let components = describe(&[("Source", &[("tick", 100)], &[], &["out"]), ("Layer", &[], &["in"], &["out"])]);
    let mut text =
        "[instances.s]\ncomponent = \"Source\"\n[ports.\"s.tick\"]\ntime = \"1ns\"\ndeadline = \"1s\"\n".to_owned();
    let mut connections = String::from("[connections]\n\"s.out\" = [\"a0.in\", \"b0.in\"]\n");
    for layer in 0..40 {
        for side in ["a", "b"] {
            writeln!(text, "[instances.{side}{layer}]\ncomponent = \"Layer\"").unwrap();
            writeln!(text, "[ports.\"{side}{layer}.in\"]\nqos = {{}}\ntime = \"1ns\"").unwrap();
            if layer < 39 {
                let next = layer + 1;
                writeln!(connections, "\"{side}{layer}.out\" = [\"a{next}.in\", \"b{next}.in\"]").unwrap();
            }
        }
    }
    let times = computed(&format!("{text}{connections}"), &components);
    let said = problems(&times);
    assert!(said[0].starts_with("ports.\"s.tick\": fewer than 4096 activities are analysed together"), "{said:#?}");
    assert_eq!((said.len(), found(&times, "s.tick")), (1, (None, UNKNOWN)));
}
