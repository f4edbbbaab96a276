//! Links to services that are alive and break what they promise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use links::wire::{Event, Frame, Hello};
use links::{Framer, Limits, Origin};
use service::{
    Answer, Config, Counter, Json, LinkDirections, LinkEntry, LinkState, LinkStatus, Links, Query, Service, WhenFull,
};
use testing::{AcceptInTime, own_loopback, unless_closed, wait_until};

use crate::json::Lines;

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
        let ((version_min, version_max), limits) = (links::VERSIONS, Limits::default());
        let (service, name, token) = (77, "far", "");
        self.send(&Frame::Hello(Hello { version_min, version_max, service, incarnation, limits, name, token }));
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
        types: Vec::new(),
        constraint: String::new(),
        when_full: WhenFull::Drop,
        tls: false,
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

fn publish(service: &Service, count: usize) {
    let mut lines = Lines::connect(service);
    for _ in 0..count {
        let line =
            r#"{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/Wind","fields":{"a":1}}"#;
        assert_eq!(lines.ask(line), r#"{"ok":7}"#);
    }
}

fn flow(service: &Service) -> LinkStatus {
    let Ok(Answer::Links(links)) = service.ask(Query::Links) else { panic!("links") };
    links.into_iter().next().unwrap()
}

/// "Acknowledgements that stop while the carrier says it is up: the session is reopened."
#[test]
fn a_far_side_that_acknowledges_nothing_is_connected_anew_and_gets_the_events_again() {
    let (near, listener) = linked(1);
    let mut far = FarSide::accept(&listener, 1);
    publish(&near, 3);
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
    publish(&near, 1);
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
