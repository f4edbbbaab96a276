//! Lanes with threads of their own.

use crate::parts::{Frame, Offset, Reported};
use campanile_component::{
    Blueprint, Change, Error, Failure, Life, Lifecycle, NeighbourChange, Neighbours, Notice, Placement, Ports, Server,
    ServerSettings, Sink, Source, component,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testing::{NextInTime, wait_until};

#[component]
struct Doubler {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    offset: Source<Offset>,
}

impl Doubler {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) {
        let x = 2.0 * frame.brightness;
        self.offset.send(&Offset { number: frame.number, x }).unwrap();
    }
}

#[component]
struct Collector {
    #[sink]
    offset: Sink<Offset>,
    #[source]
    seen: Source<Offset>,
    #[neighbours]
    peers: Neighbours,
    #[source]
    change: Source<NeighbourChange>,
}

impl Collector {
    fn on_offset(&mut self, offset: &Offset, _: &Ports) {
        assert_ne!(offset.number, 1_000_000, "a million");
        self.seen.send(offset).unwrap();
    }

    fn on_peers(&mut self, change: &NeighbourChange, _: &Ports) {
        self.change.send(change).unwrap();
    }
}

fn place(server: &mut Server, name: &str, blueprint: &Blueprint, container: &str, lane: Option<i32>) {
    let placement = Placement { container: Some(container), lane };
    server.place(name, blueprint, placement, toml::Table::new()).unwrap();
}

#[test]
fn events_cross_lanes_in_order_and_a_component_stays_on_its_thread() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let priorities = asked.clone();
    let settings = ServerSettings::default().priorities(move |priority| {
        priorities.lock().unwrap().push((priority, std::thread::current().name().map(str::to_owned)));
        Ok(())
    });
    let mut server = Server::new("control", settings).unwrap();
    server.container("fast", &[80, 40]).unwrap();
    server.container("slow", &[]).unwrap();
    assert!(matches!(server.container("slow", &[]), Err(Error::Exists { .. })));
    place(&mut server, "first", &Blueprint::of::<Doubler>(), "fast", Some(80));
    place(&mut server, "second", &Blueprint::of::<Collector>(), "fast", Some(40));
    place(&mut server, "third", &Blueprint::of::<Collector>(), "slow", None);
    let nowhere = Placement { container: Some("fast"), lane: Some(1) };
    let refusal = server.place("x", &Blueprint::of::<Doubler>(), nowhere, toml::Table::new()).unwrap_err();
    assert_eq!(refusal.to_string(), "there is no container or lane fast/1; there are: fast/80, fast/40, slow");
    server.connect("first.offset", "second.offset").unwrap();
    server.connect("second.seen", "third.offset").unwrap();
    let input = server.input::<Frame>("first.frame").unwrap();
    let (sender, received) = channel();
    server
        .output("third.seen", move |offset: &Offset| {
            let name = std::thread::current().name().map(str::to_owned);
            sender.send((offset.number, offset.x, name)).unwrap();
        })
        .unwrap();
    server.start().unwrap();
    // No more than the queues hold at a time.
    for number in 0..1_000 {
        input.send(&Frame { number, brightness: 1.5 }).unwrap();
        assert_eq!(received.next_in_time(), (number, 3.0, Some("slow".to_owned())));
    }
    let lanes: Vec<_> = server.status().into_iter().map(|status| status.lane).collect();
    assert_eq!(lanes, ["fast/80", "fast/40", "slow"]);
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, [(40, Some("fast/40".to_owned())), (80, Some("fast/80".to_owned()))]);
}

#[test]
fn a_panic_on_one_lane_is_told_to_the_neighbour_on_another() {
    let mut server = Server::new("control", ServerSettings::default()).unwrap();
    server.container("one", &[]).unwrap();
    server.container("two", &[]).unwrap();
    place(&mut server, "first", &Blueprint::of::<Collector>(), "one", None);
    place(&mut server, "second", &Blueprint::of::<Collector>(), "two", None);
    server.connect("first.seen", "second.offset").unwrap();
    let (sender, received) = channel();
    server.output("second.change", move |change: &NeighbourChange| sender.send(change.clone()).unwrap()).unwrap();
    let input = server.input::<Offset>("first.offset").unwrap();
    server.start().unwrap();
    input.send(&Offset { number: 1_000_000, x: 0.0 }).unwrap();
    let change = received.next_in_time();
    assert_eq!((change.instance.as_str(), change.change.as_str()), ("first", "failed"));
    assert!(change.reason.contains("a million"), "{}", change.reason);
    assert_eq!(received.next_in_time().change, "restarted");
    server.passivate("first").unwrap();
    server.remove("first").unwrap();
    assert_eq!(received.next_in_time().change, "removed");
}

static IS_RELEASED: AtomicBool = AtomicBool::new(false);

#[component]
struct Spinner {
    #[sink]
    frame: Sink<Frame>,
}

impl Spinner {
    fn on_frame(&mut self, _: &Frame, _: &Ports) {
        while !IS_RELEASED.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn a_handler_that_spins_is_reported_once_and_other_lanes_go_on() {
    let reported = Reported::default();
    let listener = reported.clone();
    let settings = ServerSettings::default().slow_after(Duration::from_millis(20)).on_notice(move |notice: &Notice| {
        let line = format!("{notice}");
        // A busy machine may make others slow, too.
        if line.starts_with("component spinner") && line.contains("not returned") {
            listener.lock().unwrap().push(line);
        }
    });
    let mut server = Server::new("control", settings).unwrap();
    server.container("stuck", &[]).unwrap();
    server.container("free", &[]).unwrap();
    place(&mut server, "spinner", &Blueprint::of::<Spinner>(), "stuck", None);
    place(&mut server, "doubler", &Blueprint::of::<Doubler>(), "free", None);
    place(&mut server, "near", &Blueprint::of::<Collector>(), "stuck", None);
    place(&mut server, "far", &Blueprint::of::<Collector>(), "free", None);
    let near = server.input::<Offset>("near.offset").unwrap();
    let (seen, far) = channel();
    server.output("far.seen", move |offset: &Offset| seen.send(offset.number).unwrap()).unwrap();
    let stuck = server.input::<Frame>("spinner.frame").unwrap();
    let free = server.input::<Frame>("doubler.frame").unwrap();
    let (sender, received) = channel();
    server.output("doubler.offset", move |offset: &Offset| sender.send(offset.number).unwrap()).unwrap();
    server.start().unwrap();
    for number in 0..3 {
        stuck.send(&Frame { number, brightness: 0.0 }).unwrap();
    }
    wait_until("the report of the handler", || !reported.lock().unwrap().is_empty());
    // The lane is stuck for certain.
    server.set_answer_within(Duration::from_millis(1));
    assert_eq!(server.passivate("spinner"), Err(Error::Busy { lane: "stuck".into() }));
    // On a busy machine the free lane may be the first that does not answer within 1 ms.
    assert!(matches!(server.connect("near.seen", "far.offset"), Err(Error::Busy { .. })));
    for number in 0..100 {
        free.send(&Frame { number, brightness: 0.0 }).unwrap();
        assert_eq!(received.next_in_time(), number);
    }
    {
        let reported = reported.lock().unwrap();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].starts_with("component spinner of server control has a handler"), "{reported:?}");
    }
    server.set_answer_within(testing::PATIENCE);
    IS_RELEASED.store(true, Ordering::Release);
    // The command that was not answered is never carried out: the next one finds the state before it.
    assert_eq!(server.passivate("spinner"), Ok(()));
    assert_eq!(server.life("spinner"), Some(Life::Passivated));
    server.connect("near.seen", "far.offset").unwrap();
    for number in 0..2 {
        near.send(&Offset { number, x: 0.0 }).unwrap();
    }
    assert_eq!((far.next_in_time(), far.next_in_time()), (0, 1), "each comes once");
}

static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static MAY_RETURN: AtomicBool = AtomicBool::new(false);

/// Does not return from `on_activated` until it may.
#[component(lifecycle)]
struct Hanging {}

impl Lifecycle for Hanging {
    fn on_activated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        HAS_BEGUN.store(true, Ordering::Release);
        while !MAY_RETURN.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

#[test]
fn a_step_that_does_not_return_is_reported_and_the_server_ends_without_it() {
    let reported = Arc::new(AtomicBool::new(false));
    let listener = reported.clone();
    let settings = ServerSettings::default().slow_after(Duration::from_millis(20)).on_notice(move |notice: &Notice| {
        if &*notice.instance == "hanging" && matches!(notice.change, Change::Slow { .. }) {
            listener.store(true, Ordering::Release);
        }
    });
    let mut server = Server::new("control", settings).unwrap();
    server.configure::<Hanging>("hanging", toml::Table::new()).unwrap();
    server.complete("hanging").unwrap();
    server.set_answer_within(Duration::from_millis(1));
    // A command that has not begun in time is left out: until one has begun.
    wait_until("the step to have begun", || {
        assert_eq!(server.activate("hanging"), Err(Error::Busy { lane: "main".into() }));
        HAS_BEGUN.load(Ordering::Acquire)
    });
    wait_until("the report of the step", || reported.load(Ordering::Acquire));
    drop(server);
    MAY_RETURN.store(true, Ordering::Release);
}
