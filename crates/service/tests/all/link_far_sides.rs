//! Links to services that are alive and break what they promise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use links::wire::{Event, Frame, Hello, Origins};
use links::{Framer, Limits, Origin};
use service::{
    Config, Counter, Json, LinkDirection, LinkDirections, LinkEntry, LinkState, LinkStatus, Links, Service, WhenFull,
};
use testing::{AcceptInTime, own_loopback, unless_closed, wait_until};

use crate::json::Lines;
use crate::links::{PERSISTENT, Places, await_flows, await_subscribed, copy_files, flows, next, publish, subscribed};
use crate::logged;
use crate::peers::await_count;
use crate::persistent::Folder;

/// What speaks the protocol of links, and nothing else.
struct FarSide {
    stream: TcpStream,
    framer: Framer,
}

impl FarSide {
    /// Waits for a link to be made, and greets. Each incarnation is a process of one service.
    fn accept(listener: &TcpListener, incarnation: u64) -> Self {
        let stream = listener.accept_in_time();
        let mut far = Self { stream, framer: Framer::new(Limits::default()) };
        far.greet(incarnation);
        far
    }

    fn greet(&mut self, incarnation: u64) {
        self.greet_as("far", incarnation);
    }

    fn greet_as(&mut self, name: &str, incarnation: u64) {
        let ((version_min, version_max), limits) = (links::VERSIONS, Limits::default());
        let (service, has_store, token) = (77, false, "");
        let hello = Hello { version_min, version_max, service, incarnation, limits, has_store, name, token };
        self.send(&Frame::Hello(hello));
    }

    fn send(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        // It may have been closed.
        let _ = self.stream.write_all(&bytes);
    }

    /// Reads until something comes that is waited for. Flows are opened and signs of life given meanwhile. Nothing if it is closed.
    fn wait_for<T>(&mut self, mut is_it: impl FnMut(&Frame<'_>) -> Option<T>) -> Option<T> {
        let mut input = Vec::new();
        loop {
            let (frame, taken) = self.framer.next(&input).unwrap();
            let mut answer = Vec::new();
            let found = frame.as_ref().and_then(|frame| {
                match *frame {
                    Frame::Open(open) => Frame::Opened { flow: open.flow }.write(&mut answer),
                    Frame::Ping { number } => Frame::Pong { number }.write(&mut answer),
                    _ => {}
                }
                is_it(frame)
            });
            let is_none = frame.is_none();
            input.drain(..taken);
            let _ = self.stream.write_all(&answer);
            if found.is_some() {
                self.framer.retain(&input);
                return found;
            }
            if is_none {
                let mut more = [0; 4_096];
                let count = unless_closed(self.stream.read(&mut more)).filter(|count| *count > 0)?;
                input.extend_from_slice(&more[..count]);
            }
        }
    }

    /// The flow, the number and the origin of the next event.
    fn event(&mut self) -> (u32, u64, Origin) {
        let event = |frame: &Frame<'_>| match *frame {
            Frame::Event(Event { flow, sequence, origin, .. }) => Some((flow, sequence, origin)),
            _ => None,
        };
        self.wait_for(event).unwrap()
    }

    /// Why the link ends.
    fn goodbye(&mut self) -> String {
        let reason = |frame: &Frame<'_>| match *frame {
            Frame::Goodbye { reason } => Some(reason.to_owned()),
            _ => None,
        };
        self.wait_for(reason).unwrap()
    }
}

/// A service with a link of one direction to a far side that is to be accepted.
fn linked(stalled_after_s: u32) -> (Service, TcpListener) {
    let listener = TcpListener::bind((own_loopback(), 0)).unwrap();
    let link = LinkEntry {
        name: "far".into(),
        to: listener.local_addr().unwrap().to_string(),
        channels: vec!["Weather".into()],
        direction: LinkDirections::Out,
        ..LinkEntry::default()
    };
    let config = Config {
        listen: "127.0.0.1:0".into(),
        json: Json { listen: Some("0".into()), ..Json::default() },
        link: vec![link],
        links: Links { stalled_after_s, ..Links::default() },
        ..Config::default()
    };
    (Service::start(config).unwrap(), listener)
}

fn publish_to(service: &Service, count: usize) {
    let mut lines = Lines::connect(service);
    for _ in 0..count {
        let line =
            r#"{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/Wind","fields":{"a":1}}"#;
        assert_eq!(lines.ask(line), r#"{"ok":7}"#);
    }
}

fn flow(service: &Service) -> LinkStatus {
    flows(service).remove(0)
}

/// "Acknowledgements that stop while the carrier says it is up: the session is reopened."
#[test]
fn a_far_side_that_acknowledges_nothing_is_connected_anew_and_gets_the_events_again() {
    let (near, listener) = linked(1);
    let mut far = FarSide::accept(&listener, 1);
    publish_to(&near, 3);
    let origins: Vec<Origin> = (0..3).map(|_| far.event().2).collect();
    assert_eq!(far.goodbye(), "nothing of the channel \"Weather\" was acknowledged for 1 s");
    let mut far = FarSide::accept(&listener, 1);
    let again: Vec<(u32, u64, Origin)> = (0..3).map(|_| far.event()).collect();
    assert_eq!(again.iter().map(|(.., origin)| *origin).collect::<Vec<_>>(), origins);
    let (flow_number, up_to, _) = again[2];
    far.send(&Frame::Ack { flow: flow_number, up_to });
    wait_until("the acknowledgement", || flow(&near).acknowledged == 3);
    assert!(near.counters().read(Counter::LinksStalled) >= 1);
    assert_eq!(near.counters().read(Counter::LinkEventsLost), 0);
}

#[test]
fn a_far_side_that_acknowledges_nothing_is_shown_as_stalled_until_it_does() {
    let (near, listener) = linked(0);
    let mut far = FarSide::accept(&listener, 1);
    publish_to(&near, 1);
    let (number, up_to, _) = far.event();
    let mut stream = far.stream.try_clone().unwrap();
    // It reads, and answers that it lives.
    let reader = std::thread::spawn(move || far.wait_for(|_| None::<()>));
    wait_until("the link to be stalled", || flow(&near).state == LinkState::Stalled);
    let status = flow(&near);
    assert_eq!(status.reason, "1 events are in flight, and the other service acknowledges none");
    assert!(status.since_ms >= 3_000 && status.is_in_trouble());
    assert_eq!(near.counters().read(Counter::LinksStalled), 0, "it is never connected anew");
    let mut acknowledged = Vec::new();
    Frame::Ack { flow: number, up_to }.write(&mut acknowledged);
    stream.write_all(&acknowledged).unwrap();
    wait_until("the link to be up", || flow(&near).state == LinkState::Up);
    drop(near);
    assert_eq!(reader.join().unwrap(), None);
}

/// A far side with a store that was restored from a backup had acknowledged what it did not know any more: nobody noticed.
#[test]
fn a_far_side_that_was_restored_from_an_older_copy_has_forgotten_and_both_say_so() {
    let places = Places::new(2);
    let folders = [Folder::new("links-remembers"), Folder::new("links-forgets")];
    let near = Service::start(places.config(0, vec![places.link_to(1)], Some(&folders[0]))).unwrap();
    let start = || Service::start(places.config(1, Vec::new(), Some(&folders[1]))).unwrap();
    let mut from = Lines::connect(&near);
    let mut sent = 0;
    let mut cross = |far: &Service, events: u64| {
        for _ in 0..events {
            publish(&mut from, sent, PERSISTENT);
            sent += 1;
        }
        await_count(&near, Counter::EventsStored, 0);
        await_count(far, Counter::LinkEventsReceived, events);
    };
    let far = start();
    await_flows(&[&near], 2);
    let _lines = subscribed(&far);
    await_subscribed(&near, "everything");
    cross(&far, 3);
    far.shutdown();
    let copy = Folder::new("links-copied");
    copy_files(&folders[1], &copy);
    let far = start();
    let _lines = subscribed(&far);
    await_subscribed(&near, "everything");
    cross(&far, 4);
    assert_eq!(far.counters().read(Counter::LinkEventsForgotten), 0, "a process that begins again remembers");
    far.shutdown();
    copy_files(&copy, &folders[1]);
    let far = start();
    await_count(&near, Counter::LinkEventsForgotten, 4);
    await_count(&far, Counter::LinkEventsForgotten, 4);
    for (service, direction) in [(&near, LinkDirection::Out), (&far, LinkDirection::In)] {
        let forgotten = flows(service).into_iter().find(|flow| flow.direction == direction).unwrap().forgotten;
        assert_eq!(forgotten, 4);
    }
}

/// A link that was down took all the room that its channel had, and had suppliers of best-effort events refused.
#[test]
fn what_waits_for_a_link_has_a_budget_of_its_own_beyond_which_only_persistent_events_are_refused() {
    for when_full in [WhenFull::Drop, WhenFull::Refuse] {
        let (places, folder) = (Places::new(1), Folder::new("links-budget"));
        // Nothing listens there.
        let link = LinkEntry { backlog_bytes_max: 1 << 20, when_full, ..places.link_to(0) };
        let json = Json { listen: Some("0".into()), ..Json::default() };
        let near = Service::start(Config { link: vec![link], json, ..folder.config() }).unwrap();
        wait_until("the link's consumer", || !flows(&near).is_empty());
        let mut lines = Lines::connect(&near);
        let text = "x".repeat(60_000);
        let mut is_taken = |header: &str| {
            let line = format!(
                r#"{{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/Wind"{header},"fields":{{"text":"{text}"}}}}"#
            );
            lines.ask(&line) == r#"{"ok":7}"#
        };
        let taken = (0..40).filter(|_| is_taken(PERSISTENT)).count();
        let is_refused = when_full == WhenFull::Refuse;
        assert!(if is_refused { taken < 40 } else { taken == 40 }, "{when_full:?}: {taken}");
        assert!((0..10).all(|_| is_taken("")), "best-effort events are not refused");
        let status = flow(&near);
        assert!(status.dropped >= if is_refused { 10 } else { 20 } && status.is_in_trouble(), "{status:?}");
    }
}

#[test]
fn a_far_side_that_has_forgotten_what_it_was_not_asked_about_is_not_believed() {
    let (near, listener) = linked(0);
    let mut far = FarSide::accept(&listener, 1);
    publish_to(&near, 1);
    let (flow, ..) = far.event();
    far.send(&Frame::Forgotten { flow, events: 1 });
    assert_eq!(far.goodbye(), "it has forgotten 1 events, of which it was not asked");
    let mut far = FarSide::accept(&listener, 1);
    let (flow, ..) = far.event();
    far.send(&Frame::Acknowledged { flow, origins: Origins::new(&[]).unwrap() });
    assert_eq!(far.goodbye(), format!("it says what was acknowledged in the flow {flow}, which takes no events"));
    assert_eq!(near.counters().read(Counter::LinkEventsForgotten), 0);
}

/// What was kept for a process without a store stayed for a week, and its next process never asked for it.
#[test]
fn what_is_kept_for_a_process_without_a_store_goes_when_the_next_one_comes() {
    let places = Places::new(2);
    let folder = Folder::new("links-storeless");
    let far = Service::start(places.config(1, Vec::new(), Some(&folder))).unwrap();
    let start = || {
        let link = LinkEntry { direction: LinkDirections::In, ..places.link_to(1) };
        let near = places.start(0, vec![link]);
        let lines = subscribed(&near);
        await_flows(&[&near], 1);
        await_subscribed(&far, "everything");
        (near, lines)
    };
    let mut from = Lines::connect(&far);
    drop(start());
    await_count(&far, Counter::LinksUp, 0);
    (0..5).for_each(|number| publish(&mut from, number, PERSISTENT));
    assert!(flows(&far).iter().all(|flow| (flow.state, flow.lag_events) == (LinkState::Down, 5)));
    let (_near, mut lines) = start();
    await_count(&far, Counter::LinksForgotten, 1);
    await_count(&far, Counter::EventsStored, 0);
    assert_eq!(flows(&far).len(), 1);
    publish(&mut from, 5, PERSISTENT);
    assert_eq!(next(&mut lines), 5);
}

/// A service that acknowledges nothing was connected to each 30 s, with two lines each time.
#[test]
fn a_link_that_is_closed_again_and_again_for_one_reason_is_logged_once() {
    const NAME: &str = "127.0.9.87, far";
    logged::begin();
    let places = Places::new(1);
    let near = places.start(0, Vec::new());
    for reason in ["mute"; 6].into_iter().chain(["tired"]) {
        let stream = TcpStream::connect(places.links_at(0)).unwrap();
        let mut far = FarSide { stream, framer: Framer::new(Limits::default()) };
        far.greet_as(NAME, 1);
        let greeted = far.wait_for(|frame| matches!(frame, Frame::Hello(_)).then_some(()));
        assert_eq!(greeted, Some(()));
        far.send(&Frame::Goodbye { reason });
        assert_eq!(far.wait_for(|_| None::<()>), None);
    }
    await_count(&near, Counter::LinksUp, 0);
    logged::await_line(&[NAME, "is closed: the other side ends it: tired"]);
    assert_eq!(logged::lines(&[NAME, "is closed: the other side ends it: mute"]).len(), 1);
    assert_eq!(logged::lines(&[NAME, "is connected"]).len(), 2, "{:?}", logged::lines(&[NAME]));
}
