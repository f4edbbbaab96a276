//! Components that panic, and their neighbours.

use crate::parts::{Camera, Frame, Guider, Recorder, Reported, noted};
use campanile_component::{
    Error, Failure, Life, Lifecycle, Notice, Ports, RestartPolicy, SendError, Server, ServerSettings, Sink, Source,
    Tick, Timer, component,
};
use std::cell::Cell;
use std::time::Duration;
use toml::toml;

const TENTH: Duration = Duration::from_millis(100);

/// Panics at each frame whose number is divisible by what it was configured with.
#[component]
struct Brittle {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    passed: Source<Frame>,
    every: u64,
    #[state]
    seen: u64,
}

impl Brittle {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) -> Result<(), SendError> {
        self.seen += 1;
        assert!(!frame.number.is_multiple_of(self.every), "frame {} is too much", frame.number);
        self.passed.send(&Frame { number: self.seen, brightness: 0.0 })
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        // Sends from here are refused, and a second panic is contained, too.
        assert_eq!(self.passed.send(&Frame { number: 0, brightness: 0.0 }), Err(SendError::Inactive));
        let is_contained = !std::thread::panicking();
        assert!(self.seen != 2 || !is_contained, "the destructor panics, too");
    }
}

#[test]
fn one_thousand_panics_leave_the_neighbours_unharmed() {
    let never = RestartPolicy { pause_max: TENTH / 2, pause_first: TENTH / 2, restarts_max: u32::MAX, within: TENTH };
    let mut server = Server::manual_with("control", ServerSettings::default().restart(never));
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Brittle>("brittle", toml! { every = 2 }).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 0.5 }).unwrap();
    server.configure::<Recorder>("recorder", toml::Table::new()).unwrap();
    for (source, sink) in [
        ("camera.frame", "brittle.frame"),
        ("camera.frame", "guider.frame"),
        ("brittle.passed", "recorder.frame"),
        ("guider.offset", "recorder.offset"),
    ] {
        server.connect(source, sink).unwrap();
    }
    server.start().unwrap();
    server.advance(TENTH * 2_000);
    let brittle = server.port("brittle.frame").unwrap();
    assert_eq!((brittle.delivered, brittle.failed, brittle.inactive), (1_000, 1_000, 0));
    let guider = server.port("guider.frame").unwrap();
    assert_eq!((guider.delivered, guider.failed, guider.inactive), (2_000, 0, 0));
    let recorder = server.port("recorder.offset").unwrap();
    assert_eq!((recorder.delivered, recorder.inactive), (2_000, 0));
    let status = server.status();
    let restarts = status.iter().map(|status| (status.name.as_str(), status.restarts)).collect::<Vec<_>>();
    // The last panic is that of the last frame; its pause is not over.
    assert_eq!(restarts, [("brittle", 999), ("camera", 0), ("guider", 0), ("recorder", 0)]);
    // Its state began anew each time, and its property was there.
    let lines = noted();
    assert_eq!(lines.iter().filter(|line| *line == "recorder.frame < brittle.passed: 1").count(), 1_000);
    let told = lines.iter().filter(|line| line.starts_with("brittle failed frame")).count();
    assert_eq!(told, 1_000, "the neighbour got an event each time");
    assert_eq!(lines.iter().filter(|line| *line == "brittle restarted").count(), 999);
}

#[test]
fn restarts_wait_longer_each_time_and_end_at_their_limit() {
    let reported = Reported::default();
    let listener = reported.clone();
    let policy = RestartPolicy { restarts_max: 3, ..RestartPolicy::default() };
    let settings = ServerSettings::default().restart(policy).on_notice(move |notice: &Notice| {
        listener.lock().unwrap().push(format!("{:?}", notice.change));
    });
    let mut server = Server::manual_with("control", settings);
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Brittle>("brittle", toml! { every = 1 }).unwrap();
    server.configure::<Recorder>("recorder", toml::Table::new()).unwrap();
    server.connect("camera.frame", "brittle.frame").unwrap();
    server.connect("brittle.passed", "recorder.frame").unwrap();
    server.start().unwrap();
    reported.lock().unwrap().clear();
    server.advance(TENTH * 100);
    let failed =
        |after: &str, number| format!("Failed {{ reason: \"frame {number} is too much\", restart_after: {after} }}");
    let expected = [
        failed("Some(100ms)", 1),
        "Restarted".into(),
        failed("Some(200ms)", 2),
        "Restarted".into(),
        failed("Some(400ms)", 4),
        "Restarted".into(),
        failed("None", 8),
    ];
    assert_eq!(*reported.lock().unwrap(), expected);
    assert_eq!(server.life("brittle"), Some(Life::Failed));
    assert!(noted().contains(&"brittle given up frame 8 is too much".to_owned()));
    let seen = server.port("brittle.frame").unwrap();
    assert_eq!(seen.delivered + seen.failed + seen.inactive, 100, "all others are counted");
    // By hand it comes back at once.
    server.activate("brittle").unwrap();
    assert_eq!(server.life("brittle"), Some(Life::Activated));
    assert!(matches!(server.passivate("brittle"), Ok(())));
}

#[test]
fn failures_count_no_more_after_a_while_without_one() {
    let policy = RestartPolicy { restarts_max: 1, within: TENTH * 5, ..RestartPolicy::default() };
    let mut server = Server::manual_with("control", ServerSettings::default().restart(policy));
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Brittle>("brittle", toml! { every = 10 }).unwrap();
    server.connect("camera.frame", "brittle.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH * 105);
    let restarts = server.status().into_iter().find(|status| status.name == "brittle").map(|status| status.restarts);
    assert_eq!((restarts, server.life("brittle")), (Some(10), Some(Life::Activated)));
}

#[test]
fn a_failed_instance_is_removed_and_its_name_is_free() {
    let mut server = Server::manual("control");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Brittle>("brittle", toml! { every = 1 }).unwrap();
    server.connect("camera.frame", "brittle.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    assert_eq!(server.life("brittle"), Some(Life::Failed));
    assert!(matches!(server.passivate("brittle"), Err(Error::Life { life: Life::Failed, .. })));
    server.remove("brittle").unwrap();
    server.configure::<Brittle>("brittle", toml! { every = 1000 }).unwrap();
    server.connect("camera.frame", "brittle.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH * 5);
    assert_eq!(server.port("brittle.frame").map(|port| port.delivered), Some(5));
}

#[test]
fn a_timer_of_a_component_that_panics_ticks_again_after_its_restart() {
    #[component]
    struct Moody {
        #[timer("100ms")]
        tick: Timer,
        #[state]
        ticks: u32,
    }

    impl Moody {
        fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
            self.ticks += 1;
            assert!(self.ticks < 5, "the fifth tick");
            if self.ticks == 2 { Err(Failure::new("the second tick")) } else { Ok(()) }
        }
    }

    let mut server = Server::manual("control");
    server.configure::<Moody>("moody", toml::Table::new()).unwrap();
    server.start().unwrap();
    server.advance(TENTH * 6);
    let tick = server.port("moody.tick").unwrap();
    assert_eq!((tick.delivered, tick.failed), (3, 2), "four ticks and the fifth, which panicked");
    server.advance(TENTH * 4);
    let tick = server.port("moody.tick").unwrap();
    assert_eq!((tick.delivered, tick.failed), (6, 3));
}

/// Panics at the first frame, and in `on_activated` of the restart that follows.
#[component(lifecycle)]
struct Shy {
    #[sink]
    frame: Sink<Frame>,
}

thread_local! {
    static ACTIVATIONS: Cell<u32> = const { Cell::new(0) };
}

impl Lifecycle for Shy {
    fn on_activated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        ACTIVATIONS.set(ACTIVATIONS.get() + 1);
        assert_ne!(ACTIVATIONS.get(), 2, "the first restart");
        Ok(())
    }
}

impl Shy {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) {
        assert_ne!(frame.number, 1, "the first frame");
    }
}

#[test]
fn a_panic_during_a_restart_leads_back_to_active_all_the_same() {
    let mut server = Server::manual("control");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Shy>("shy", toml::Table::new()).unwrap();
    server.connect("camera.frame", "shy.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH * 10);
    assert_eq!((ACTIVATIONS.get(), server.life("shy")), (3, Some(Life::Activated)));
    assert!(server.port("shy.frame").is_some_and(|port| port.delivered > 0));
}
