//! Connections: by reference, in order, and what is refused.

use crate::parts::{Camera, Frame, Guider, Recorder, noted};
use campanile::Event;
use campanile_component::{Error, Failure, Life, Ports, SendError, Server, Sink, Source, Tick, Timer, component};
use std::cell::Cell;
use std::time::Duration;
use toml::toml;

const TENTH: Duration = Duration::from_millis(100);

#[test]
fn a_pipeline_of_three_handles_each_event_before_the_next() {
    let mut server = Server::manual("control");
    server.configure::<Recorder>("recorder", toml::Table::new()).unwrap();
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 0.25 }).unwrap();
    server.connect("camera.frame", "guider.frame").unwrap();
    server.connect("guider.offset", "recorder.offset").unwrap();
    server.connect("camera.frame", "recorder.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH * 2);
    let expected = [
        "recorder.offset < guider.offset: 1 0.5",
        "recorder.frame < camera.frame: 1",
        "recorder.offset < guider.offset: 2 0.5",
        "recorder.frame < camera.frame: 2",
    ];
    assert_eq!(noted(), expected);
    assert_eq!(server.port("camera.shutter").map(|port| (port.sent, port.delivered)), Some((2, 2)));
    assert_eq!(server.port("camera.frame").map(|port| port.sent), Some(2));
    assert_eq!(server.port("guider.frame").map(|port| port.delivered), Some(2));
}

thread_local! {
    static ADDRESS: Cell<usize> = const { Cell::new(0) };
}

/// An event that cannot be copied.
#[derive(Event)]
struct Heavy {
    pixels: Vec<f32>,
}

#[component]
struct Heap {
    #[timer("1s")]
    tick: Timer,
    #[source]
    heavy: Source<Heavy>,
}

impl Heap {
    fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        let heavy = Heavy { pixels: vec![1.0; 1000] };
        self.heavy.send(&heavy)?;
        assert_eq!(ADDRESS.get(), std::ptr::from_ref(&heavy).addr(), "the sink has seen this very event");
        ADDRESS.set(0);
        Ok(())
    }
}

#[component]
struct Scale {
    #[sink]
    heavy: Sink<Heavy>,
}

impl Scale {
    fn on_heavy(&mut self, heavy: &Heavy, _: &Ports) {
        assert_eq!(heavy.pixels.len(), 1000);
        ADDRESS.set(std::ptr::from_ref(heavy).addr());
    }
}

#[test]
fn a_sink_is_handed_the_very_event_that_the_source_has() {
    let mut server = Server::manual("control");
    server.configure::<Heap>("heap", toml::Table::new()).unwrap();
    server.configure::<Scale>("scale", toml::Table::new()).unwrap();
    server.connect("heap.heavy", "scale.heavy").unwrap();
    server.start().unwrap();
    server.advance(Duration::from_secs(3));
    assert_eq!(server.port("scale.heavy").map(|port| (port.delivered, port.failed)), Some((3, 0)));
    assert_eq!(server.port("heap.tick").map(|port| (port.delivered, port.failed)), Some((3, 0)));
}

#[test]
fn what_is_not_there_or_does_not_fit_is_refused_with_what_is_there() {
    let mut server = Server::manual("control");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 0.25 }).unwrap();
    server.configure::<Recorder>("recorder", toml::Table::new()).unwrap();
    for (source, sink, refusal) in [
        ("camera.frame", "guider.picture", "guider has no port picture; it has: frame, offset"),
        ("camera", "guider.frame", "camera has no port ; it has: shutter, frame"),
        ("kamera.frame", "guider.frame", "there is no instance kamera; there are: camera, guider, recorder"),
        (
            "guider.frame",
            "camera.frame",
            "guider.frame is a sink, and here a source is needed: connections go from a source to a sink",
        ),
        (
            "camera.shutter",
            "guider.frame",
            "camera.shutter is a timer, and here a source is needed: connections go from a source to a sink",
        ),
        (
            "camera.frame",
            "recorder.offset",
            "camera.frame gives struct Frame { unsigned long long number; double brightness; }, recorder.offset takes \
             struct Offset { unsigned long long number; double x; }: both ports need one type, or a component between \
             them",
        ),
    ] {
        assert_eq!(server.connect(source, sink).unwrap_err().to_string(), refusal);
    }
    server.connect("camera.frame", "guider.frame").unwrap();
    let refusal = server.connect("camera.frame", "guider.frame").unwrap_err();
    assert!(matches!(refusal, Error::Connected { .. }), "{refusal}");
    let refusal = server.configure::<Camera>("camera", toml::Table::new()).unwrap_err();
    assert_eq!(refusal, Error::Exists { name: "camera".into() });
    for name in ["", "a.b", "a b", "ä", &"x".repeat(65)] {
        let refusal = server.configure::<Camera>(name, toml::Table::new()).unwrap_err();
        assert!(matches!(refusal, Error::Name { .. }), "{refusal}");
    }
}

/// Passes frames on.
#[component]
struct Relay {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    passed: Source<Frame>,
}

impl Relay {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) -> Result<(), SendError> {
        self.passed.send(frame)
    }
}

#[test]
fn a_component_is_not_connected_with_itself_nor_in_a_circle() {
    let mut server = Server::manual("control");
    for name in ["a", "b", "c"] {
        server.configure::<Relay>(name, toml::Table::new()).unwrap();
    }
    let refusal = server.connect("a.passed", "a.frame").unwrap_err();
    assert_eq!(refusal, Error::Cycle { path: vec!["a".into(), "a".into()] });
    server.connect("a.passed", "b.frame").unwrap();
    server.connect("b.passed", "c.frame").unwrap();
    let refusal = server.connect("c.passed", "a.frame").unwrap_err();
    assert!(refusal.to_string().starts_with("c -> a -> b -> c would call themselves in a circle"), "{refusal}");
    server.remove("b").unwrap();
    server.connect("c.passed", "a.frame").unwrap();
}

#[test]
fn a_chain_of_calls_is_as_long_as_its_limit_and_no_longer() {
    let mut server = Server::manual("control");
    let name = |place: usize| format!("relay-{place}");
    for place in 0..65 {
        server.configure::<Relay>(&name(place), toml::Table::new()).unwrap();
    }
    let connect = |server: &mut Server, place: usize| {
        server.connect(&format!("{}.passed", name(place)), &format!("{}.frame", name(place + 1)))
    };
    // From both ends, so that the last connection joins two chains.
    for place in (0..31).chain(32..63) {
        connect(&mut server, place).unwrap();
    }
    connect(&mut server, 31).unwrap();
    let refusal = connect(&mut server, 63).unwrap_err();
    assert!(matches!(refusal, Error::Depth { max: 64, .. }), "{refusal}");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.connect("camera.frame", "relay-1.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    assert_eq!(server.port("relay-63.frame").map(|port| port.delivered), Some(1));
}

#[test]
fn connections_are_made_and_ended_while_others_run() {
    let mut server = Server::manual("control");
    server.configure::<Camera>("camera", toml::Table::new()).unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    server.configure::<Recorder>("recorder", toml::Table::new()).unwrap();
    server.connect("camera.frame", "recorder.frame").unwrap();
    server.advance(TENTH);
    assert_eq!(noted(), [""; 0]);
    assert_eq!(server.port("recorder.frame").map(|port| port.inactive), Some(1), "it is not active yet");
    server.start().unwrap();
    server.advance(TENTH);
    assert_eq!(noted(), ["recorder.frame < camera.frame: 3"]);
    server.passivate("recorder").unwrap();
    server.remove("recorder").unwrap();
    server.advance(TENTH);
    assert_eq!(server.port("camera.frame").map(|port| port.sent), Some(4));
    assert_eq!((server.life("camera"), server.life("recorder")), (Some(Life::Activated), None));
    assert_eq!(noted(), [""; 0]);
}

#[test]
fn a_timer_leaves_out_ticks_that_it_cannot_send_in_time() {
    #[component]
    struct Late {
        #[timer("10ms")]
        tick: Timer,
        #[timer("25ms")]
        other: Timer,
    }

    impl Late {
        fn on_tick(&mut self, tick: &Tick, ports: &Ports) {
            assert_eq!(ports.sent(), tick.due);
            assert_eq!(tick.missed, 0);
        }

        fn on_other(&mut self, _: &Tick, _: &Ports) {}
    }

    let mut server = Server::manual("control");
    server.configure::<Late>("late", toml::Table::new()).unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    let ticks = |server: &Server, port| server.port(port).map(|port| (port.delivered, port.failed));
    assert_eq!(ticks(&server, "late.tick"), Some((10, 0)));
    assert_eq!(ticks(&server, "late.other"), Some((4, 0)));
    server.passivate("late").unwrap();
    server.advance(TENTH);
    assert_eq!(ticks(&server, "late.tick"), Some((10, 0)));
}
