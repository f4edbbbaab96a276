//! Components in C++, in shared objects.

use crate::objects::Stand;
use campanile_component::Error;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use testing::{TempPath, shared_object_in_cpp};

const GUIDER: &str = include_str!("../cpp/guider.cpp");

/// Puts the guider into a folder. It is compiled once.
fn build(folder: &Path) {
    static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let folder = TempPath::folder("objects");
        std::fs::read(shared_object_in_cpp(&folder, "libguider.so", GUIDER)).unwrap()
    });
    std::fs::write(folder.join("libguider.so"), &*OBJECT).unwrap();
}

/// The offsets that came of the plan with a guider in C++ that does this, within so many milliseconds.
fn run(does: &str, ms: u64) -> Stand {
    Stand::run(build, &[("#guider", &format!("does = \"{does}\""))], ms)
}

fn of_guider(stand: &Stand) -> Vec<String> {
    stand.lines().into_iter().filter(|line| line.starts_with("guider")).collect()
}

#[test]
fn components_in_cpp_and_in_rust_are_connected_both_ways() {
    let stand = run("nothing", 30);
    assert_eq!(of_guider(&stand), ["guider.offset 1 1", "guider.offset 2 1", "guider.offset 3 1"]);
    assert_eq!((stand.port("camera.frame").sent, stand.port("guider.frame").delivered), (3, 3));
    assert_eq!((stand.port("guider.offset").sent, stand.port("recorder.offset").delivered), (3, 3));
    // What comes beside an event, and what is in a sequence of texts.
    assert_eq!(of_guider(&run("look", 10)), ["guider.offset 1 7"]);
}

#[test]
fn what_a_component_in_cpp_throws_is_a_failure_or_has_it_made_again() {
    let stand = run("fail", 30);
    assert_eq!(of_guider(&stand), [""; 0]);
    assert_eq!((stand.port("guider.frame").failed, stand.port("guider.frame").delivered), (3, 0));
    for (does, reason) in [
        ("break", "the shutter is stuck"),
        ("send from its destructor", "the shutter is stuck"),
        ("throw a number", "it has thrown what is no std::exception"),
    ] {
        let stand = run(does, 140);
        let failed = format!("guider failed: {reason}");
        // Frame 13 is the first after the pause of 100 ms.
        let expected = ["guider.offset 1 1", "guider.offset 2 1", &failed, "guider.offset 13 1", "guider restarted: "];
        assert_eq!(of_guider(&stand)[..5], expected);
        assert_eq!(stand.port("guider.frame").failed, 1);
    }
}

#[test]
fn a_component_in_cpp_refuses_to_be_made_and_to_be_activated() {
    for (does, reason) in [("refuse", "not today"), ("break in a step", "the mirror is gone")] {
        let mut stand = Stand::new(build);
        let plan = stand.plan(&[("#guider", &format!("does = \"{does}\""))]);
        stand.deploy(&plan).unwrap();
        let refused = stand.server.start().unwrap_err();
        assert_eq!(refused, Error::Failed { instance: "guider".to_owned(), reason: reason.to_owned() });
    }
    for (gain, expected) in [
        ("-1", "a gain is not negative"),
        ("\"much\"", "the property gain is much: give it, a double"),
        ("true", "the property gain is true: give it, a double"),
        ("2\ndoes = 1", "the property does is 1: give it, a string"),
        ("2\nsteps = 128", "the property steps is 128: give it, a int8_t"),
        ("2\nsteps = 1.0", "the property steps is 1.0: give it, a int8_t"),
        ("2\nsteps = \"1\"", "the property steps is 1: give it, a int8_t"),
        ("2\nserial = -1", "the property serial is -1: give it, a uint64_t"),
        ("2\nis_quiet = 1", "the property is_quiet is 1: give it, a bool"),
        ("2\ndoes = \"send from its destructor\"\nsteps = 128", "the property steps is 128: give it, a int8_t"),
        ("2\nis_quiet = \"true\"", "the property is_quiet is true: give it, a bool"),
    ] {
        let mut stand = Stand::new(build);
        let plan = stand.plan(&[("gain = 2", &format!("gain = {gain}"))]);
        let refused = stand.deploy(&plan).unwrap_err();
        assert!(refused.ends_with(&format!("guider failed: {expected}")), "{refused}");
    }
}

/// In spite of `RTLD_LOCAL`, a static local of a template is one for all objects, unless it is hidden.
#[test]
fn two_objects_in_cpp_have_classes_and_events_of_one_name() {
    fn build_both(folder: &Path) {
        build(folder);
        shared_object_in_cpp(folder, "libtracker.so", include_str!("../cpp/tracker.cpp"));
    }
    let changes = [
        (
            "#recorder",
            "[instances.tracker]\ncomponent = \"libtracker.so#Guider\"\n[ports.\"tracker.light\"]\nqos = { MaxEventsPerConsumer = 4 }",
        ),
        (
            "[connections]",
            "[connections]\n\"tracker.star\" = [\"tracker.light\"]\n\"tracker.offset\" = [\"recorder.offset\"]",
        ),
    ];
    let stand = Stand::run(build_both, &changes, 30);
    assert_eq!(of_guider(&stand), ["guider.offset 1 1", "guider.offset 2 1", "guider.offset 3 1"]);
    let lines = stand.lines();
    let of_tracker: Vec<_> = lines.iter().filter(|line| line.starts_with("tracker")).collect();
    assert_eq!(of_tracker, ["tracker.offset 3 4"; 3]);
}

#[test]
fn an_event_in_cpp_for_which_no_time_is_left_does_not_wait() {
    for (does, expected) in [("nothing", (0, 3)), ("send late", (3, 0))] {
        let queue = "[ports.\"recorder.offset\"]\nqos = { MaxEventsPerConsumer = 4 }\n[connections]";
        let mut stand = Stand::new(build);
        let plan = stand.plan(&[("#guider", &format!("does = \"{does}\"")), ("[connections]", queue)]);
        stand.deploy(&plan).unwrap();
        stand.server.start().unwrap();
        stand.server.passivate("recorder").unwrap();
        stand.server.advance(Duration::from_millis(35));
        stand.server.activate("recorder").unwrap();
        stand.server.advance(Duration::from_millis(1));
        let port = stand.port("recorder.offset");
        assert_eq!((port.expired, port.delivered), expected, "{does}");
    }
}

#[test]
fn timers_and_sources_in_cpp_are_those_that_are_declared() {
    let changes = [("#guider", "does = \"rest\""), ("\"guider.frame\", ", "")];
    let stand = Stand::run(build, &changes, 2_000);
    // Before there was a server, and after: CAMPANILE_COMPONENT_ARGUMENT.
    assert_eq!(of_guider(&stand), ["guider.offset 7 -0", "guider.offset 7 -0"]);
    assert_eq!(of_guider(&run("send to nowhere", 10)), ["guider.offset 1 7"]);
    assert_eq!(of_guider(&run("send elsewhere", 10)), ["guider.offset 1 7"]);
}

#[test]
fn neighbours_and_properties_come_to_components_in_cpp() {
    let stand = Stand::run(build, &[("#recorder", "panics_at = 3"), ("gain = 2", "gain = 2\nsteps = -2")], 140);
    let lines = of_guider(&stand);
    assert_eq!(lines[0], "guider.offset 1 -2");
    // The letters of `recorder` and `restarted`.
    assert!(lines.iter().any(|line| line == "guider.offset 0 17"), "{lines:#?}");
}
