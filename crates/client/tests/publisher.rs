//! Publishing without waiting for each event, against a service that is only a socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::notify::{ClientType, StructuredEvent};
use campanile_client::{
    Answers, Fate, InvokeError, Loss, Orb, OrbOptions, Publisher, PublisherCounters, PublisherOptions,
};
use giop::cdr::{CharSet, Endian, Reader, Version};
use giop::exception::{Completed, Kind, SystemException};
use giop::framing::{Inbound, Limits};
use giop::ior::{CodeSetInfo, IiopProfile, Ior};
use giop::message::{self, MessageKind, ReplyHead, ReplyStatus, Request, Response, ServiceContexts};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use testing::{AcceptInTime, EndInTime, wait_until};

const KEY: &[u8] = b"proxy";

/// Where publishers connect.
struct Service(TcpListener);

impl Service {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn publisher(&self, form: ClientType, options: PublisherOptions) -> Publisher {
        self.publisher_of(Version::V1_2, form, options)
    }

    fn publisher_of(&self, version: Version, form: ClientType, options: PublisherOptions) -> Publisher {
        let address = self.0.local_addr().unwrap();
        let profile = IiopProfile {
            version,
            host: address.ip().to_string(),
            port: address.port(),
            key: KEY.to_vec(),
            components: vec![CodeSetInfo::campanile().to_component()],
        };
        let orb = OrbOptions { reply_timeout: Some(Duration::from_secs(20)), ..OrbOptions::default() };
        Publisher::new(&Orb::new(orb).object(Ior::new("", profile)), form, options).unwrap()
    }

    fn accept(&self) -> Peer {
        Peer { stream: self.0.accept_in_time(), inbound: Inbound::new(Limits::default()) }
    }
}

/// The service's end of a connection.
struct Peer {
    stream: TcpStream,
    inbound: Inbound,
}

/// A request as the service sees it.
#[derive(Debug)]
struct ReceivedRequest {
    id: u32,
    operation: String,
    response: Response,
    has_code_sets: bool,
    /// The events' `event_name`s.
    events: Vec<String>,
}

impl Peer {
    /// The next request; `None` when the publisher has ended the connection.
    fn next(&mut self) -> Option<ReceivedRequest> {
        loop {
            if let Some(message) = self.inbound.poll_message().unwrap() {
                if message.header.kind == MessageKind::CloseConnection {
                    return None;
                }
                let request = Request::parse(message.bytes, &message.header).unwrap();
                assert_eq!(request.target.key(), Some(KEY));
                let body = request.body(message.bytes, &message.header, CharSet::Utf8);
                return Some(ReceivedRequest {
                    id: request.request_id,
                    operation: String::from_utf8(request.operation.to_vec()).unwrap(),
                    response: request.response,
                    has_code_sets: request.contexts.find(ServiceContexts::CODE_SETS).is_some(),
                    events: events(request.operation, body),
                });
            }
            match self.stream.read(self.inbound.space()).unwrap() {
                0 => return None,
                count => self.inbound.filled(count),
            }
        }
    }

    fn reply(&mut self, id: u32, raised: Option<Kind>) {
        let status = if raised.is_some() { ReplyStatus::SystemException } else { ReplyStatus::NoException };
        self.reply_with(id, status, |w| {
            if let Some(kind) = raised {
                SystemException { kind, minor: 0, completed: Completed::No }.write(w);
            }
        });
    }

    fn reply_with(&mut self, id: u32, status: ReplyStatus, write: impl FnOnce(&mut giop::cdr::Writer<'_>)) {
        let mut buffer = Vec::new();
        let head = ReplyHead { version: Version::V1_2, endian: Endian::Big, request_id: id, status, contexts: &[] };
        let open = message::begin_reply(&mut buffer, &head);
        write(&mut open.body(&mut buffer, CharSet::Utf8));
        open.finish(&mut buffer);
        self.stream.write_all(&buffer).unwrap();
    }
}

fn events(operation: &[u8], mut body: Reader<'_>) -> Vec<String> {
    let count = match operation {
        b"push_structured_events" => body.u32().unwrap(),
        b"push_structured_event" => 1,
        _ => 0,
    };
    let names = (0..count).map(|_| StructuredEvent::read(&mut body).unwrap().event_name).collect();
    body.finish("arguments").unwrap();
    names
}

fn event(number: u64) -> StructuredEvent {
    StructuredEvent::new("Test", "Number", &number.to_string())
}

fn windowed(unanswered_max: u32, gather_events_max: u32) -> PublisherOptions {
    PublisherOptions {
        answers: Answers::Windowed { unanswered_max },
        gather_events_max,
        gather_time_max: Duration::MAX,
        ..PublisherOptions::default()
    }
}

fn one_way(gather_events_max: u32) -> PublisherOptions {
    PublisherOptions { answers: Answers::OneWay, ..windowed(1, gather_events_max) }
}

fn publish(publisher: &mut Publisher, numbers: core::ops::Range<u64>) {
    for number in numbers {
        publisher.publish(&event(number)).unwrap();
    }
}

fn losses(publisher: &mut Publisher) -> Vec<Loss> {
    core::iter::from_fn(|| publisher.next_loss()).collect()
}

#[test]
fn events_are_on_their_way_together_and_what_is_refused_is_named() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, windowed(8, 1));
    let mut peer = service.accept();
    for number in 0..8 {
        assert_eq!(publisher.publish(&event(number)).unwrap(), number);
    }
    let asked: Vec<ReceivedRequest> = (0..8).map(|_| peer.next().unwrap()).collect();
    for (number, asked) in asked.iter().enumerate() {
        assert_eq!(asked.events, [number.to_string()]);
        assert_eq!(asked.response, Response::Expected);
        assert_eq!(asked.has_code_sets, number == 0, "they are reported once");
    }
    // Answers may come in another order.
    for at in [1, 0, 3, 2, 4, 5, 7, 6] {
        peer.reply(asked[at].id, [3, 4].contains(&at).then_some(Kind::ImpLimit));
    }
    let counters = publisher.sync();
    assert_eq!((counters.published, counters.confirmed, counters.refused, counters.outstanding()), (8, 6, 2, 0));
    let mut refused: Vec<u64> = losses(&mut publisher).into_iter().flat_map(|loss| loss.events).collect();
    refused.sort_unstable();
    assert_eq!(refused, [3, 4]);
}

#[test]
fn a_full_window_is_reported_to_callers_that_do_not_wait() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, windowed(4, 1));
    let mut peer = service.accept();
    for number in 0..4 {
        assert_eq!(publisher.try_publish(&event(number)).unwrap(), Some(number));
    }
    assert_eq!(publisher.try_publish(&event(4)).unwrap(), None);
    let first = peer.next().unwrap();
    peer.reply(first.id, None);
    wait_until("an answer", || {
        publisher.poll();
        publisher.counters().confirmed > 0
    });
    assert_eq!(publisher.try_publish(&event(4)).unwrap(), Some(4));
    assert_eq!(publisher.try_publish(&event(5)).unwrap(), None);
    std::thread::spawn(move || {
        while let Some(asked) = peer.next() {
            peer.reply(asked.id, None);
        }
    });
    // A waiting publisher gets on.
    for number in 5..200 {
        assert_eq!(publisher.publish(&event(number)).unwrap(), number);
    }
    assert_eq!(publisher.close(), PublisherCounters { published: 200, confirmed: 200, ..PublisherCounters::default() });
}

#[test]
fn a_lost_connection_says_which_events_are_unknown_and_which_were_never_sent() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, windowed(64, 3));
    let mut peer = service.accept();
    // Two times three are sent, and the last two gathered.
    publish(&mut publisher, 0..8);
    let ids: Vec<u32> = (0..6).map(|_| peer.next().unwrap().id).collect();
    peer.reply(ids[0], None);
    peer.reply(ids[2], None);
    wait_until("two answers", || {
        publisher.poll();
        publisher.counters().confirmed == 2
    });
    drop(peer);
    wait_until("the loss to be found", || {
        publisher.poll();
        publisher.counters().lost() > 0
    });
    let fates: Vec<_> = losses(&mut publisher)
        .into_iter()
        .map(|Loss { events, fate }| (events, matches!(fate, Fate::Unknown(_)), matches!(fate, Fate::NotSent(_))))
        .collect();
    assert_eq!(fates, [(1..2, true, false), (3..6, true, false), (6..8, false, true)]);
    // The next event goes over a new connection.
    assert_eq!(publisher.publish(&event(8)).unwrap(), 8);
    publisher.flush();
    let mut peer = service.accept();
    let asked = peer.next().unwrap();
    assert_eq!((asked.events, asked.has_code_sets), (vec!["8".to_owned()], true));
    peer.reply(asked.id, None);
    let counters = publisher.sync();
    assert_eq!((counters.confirmed, counters.unknown, counters.not_sent, counters.outstanding()), (3, 4, 2, 0));
}

#[test]
fn a_service_that_takes_leave_has_done_nothing_that_it_did_not_answer() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, windowed(64, 1));
    let mut peer = service.accept();
    publish(&mut publisher, 0..3);
    let first = peer.next().unwrap();
    peer.reply(first.id, None);
    let mut farewell = Vec::new();
    message::close_connection(&mut farewell, Version::V1_2);
    peer.stream.write_all(&farewell).unwrap();
    let counters = publisher.sync();
    assert_eq!((counters.confirmed, counters.not_sent, counters.unknown), (1, 2, 0));
}

#[test]
fn one_way_events_are_known_to_have_arrived_after_a_sync() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, one_way(10));
    let mut peer = service.accept();
    let receiver = std::thread::spawn(move || {
        for number in 0..25 {
            let asked = peer.next().unwrap();
            assert_eq!((asked.response, asked.events), (Response::None, vec![number.to_string()]));
        }
        let question = peer.next().unwrap();
        assert_eq!(question.operation, "_non_existent");
        peer.reply_with(question.id, ReplyStatus::NoException, |w| w.bool(false));
        peer
    });
    publish(&mut publisher, 0..25);
    assert_eq!(publisher.counters().outstanding(), 25);
    assert_eq!(publisher.sync(), PublisherCounters { published: 25, confirmed: 25, ..PublisherCounters::default() });
    let mut peer = receiver.end_in_time();
    // Now the proxy is gone: what was sent to it went nowhere.
    let receiver = std::thread::spawn(move || {
        assert_eq!(peer.next().unwrap().events, ["25"]);
        let question = peer.next().unwrap();
        peer.reply_with(question.id, ReplyStatus::NoException, |w| w.bool(true));
        peer
    });
    publisher.publish(&event(25)).unwrap();
    assert_eq!(publisher.sync().unknown, 1);
    // And now the connection.
    drop(receiver.end_in_time());
    publisher.publish(&event(26)).unwrap();
    let counters = publisher.sync();
    assert_eq!((counters.confirmed, counters.unknown, counters.outstanding()), (25, 2, 0));
}

#[test]
fn a_sequence_has_as_many_events_as_were_gathered() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Sequence, windowed(2, 4));
    let mut peer = service.accept();
    let events: Vec<_> = (0..6).map(event).collect();
    assert_eq!(publisher.publish_all(&events).unwrap(), 0..6);
    let asked = peer.next().unwrap();
    assert_eq!((asked.operation.as_str(), asked.events), ("push_structured_events", names(0..4)));
    peer.reply(asked.id, None);
    publisher.flush();
    let asked = peer.next().unwrap();
    assert_eq!(asked.events, names(4..6), "what there is, when it is asked for");
    peer.reply(asked.id, Some(Kind::Transient));
    let counters = publisher.sync();
    assert_eq!((counters.confirmed, counters.refused), (4, 2));
    let transient = Fate::Refused("IDL:omg.org/CORBA/TRANSIENT:1.0".to_owned());
    assert_eq!(losses(&mut publisher), [Loss { events: 4..6, fate: transient }]);
}

fn names(numbers: core::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

#[test]
fn what_was_gathered_leaves_after_its_time() {
    let service = Service::new();
    let options = PublisherOptions { gather_time_max: Duration::ZERO, ..one_way(1000) };
    let mut publisher = service.publisher(ClientType::Structured, options);
    let mut peer = service.accept();
    publisher.publish(&event(0)).unwrap();
    assert_eq!(peer.next().unwrap().events, ["0"]);
    let options = PublisherOptions { gather_time_max: Duration::from_micros(1), ..one_way(1000) };
    let mut publisher = service.publisher(ClientType::Structured, options);
    let mut peer = service.accept();
    publisher.publish(&event(0)).unwrap();
    publisher.poll();
    // The clock has gone on by now, or has with one of the next calls.
    let receiver = std::thread::spawn(move || peer.next().unwrap().events);
    wait_until("the event to leave", || {
        publisher.poll();
        receiver.is_finished()
    });
    assert_eq!(receiver.end_in_time(), ["0"]);
}

#[test]
fn a_socket_that_takes_nothing_bounds_what_is_kept() {
    let service = Service::new();
    let options = PublisherOptions { gather_bytes_max: 10_000, ..one_way(1) };
    let mut publisher = service.publisher(ClientType::Structured, options);
    let mut peer = service.accept();
    let large = StructuredEvent::new("Test", "Large", &"x".repeat(5_000));
    let mut taken = 0;
    while publisher.try_publish(&large).unwrap().is_some() {
        taken += 1;
    }
    // What the kernel holds on both sides is its own affair; it ends somewhere.
    let unsent = format!("{publisher:?}");
    let pending = unsent.split("pending_bytes: ").nth(1).unwrap();
    let pending: usize = pending.split(',').next().unwrap().parse().unwrap();
    assert!((10_000..16_000).contains(&pending), "{pending}");
    let reader = std::thread::spawn(move || core::iter::from_fn(|| peer.next()).count());
    // Waits for the room that is there now.
    publisher.publish(&large).unwrap();
    drop(publisher);
    assert_eq!(reader.end_in_time(), taken + 1);
}

#[test]
fn an_event_that_cannot_be_written_leaves_the_others_as_they_were() {
    for form in [ClientType::Structured, ClientType::Sequence] {
        let service = Service::new();
        let mut publisher = service.publisher(form, windowed(8, 8));
        let mut peer = service.accept();
        let bad = |publisher: &mut Publisher| {
            let error = publisher.publish_written(|w| {
                w.string("begun");
                Err::<(), _>("not a number")
            });
            assert!(matches!(error, Err(InvokeError::BadArguments { reason, .. }) if reason == "not a number"));
            let error = publisher.publish_written(|_| ());
            assert!(matches!(error, Err(InvokeError::BadArguments { .. })));
        };
        bad(&mut publisher);
        assert_eq!(publisher.publish(&event(0)).unwrap(), 0);
        bad(&mut publisher);
        assert_eq!(publisher.publish(&event(1)).unwrap(), 1);
        publisher.flush();
        let mut names = Vec::new();
        while names.len() < 2 {
            let asked = peer.next().unwrap();
            names.extend(asked.events);
            peer.reply(asked.id, None);
        }
        assert_eq!((names, publisher.sync().confirmed), (vec!["0".to_owned(), "1".to_owned()], 2));
    }
}

#[test]
fn every_version_of_giop_is_spoken() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let service = Service::new();
        let mut publisher = service.publisher_of(version, ClientType::Structured, windowed(8, 2));
        let mut peer = service.accept();
        publish(&mut publisher, 0..4);
        for number in 0..4 {
            let asked = peer.next().unwrap();
            assert_eq!(asked.events, [number.to_string()], "{version:?}");
            peer.reply(asked.id, None);
        }
        assert_eq!(publisher.sync().confirmed, 4);
    }
}

#[test]
fn an_answer_to_nothing_ends_the_connection() {
    let service = Service::new();
    let mut publisher = service.publisher(ClientType::Structured, windowed(8, 1));
    let mut peer = service.accept();
    publisher.publish(&event(0)).unwrap();
    let id = peer.next().unwrap().id;
    peer.reply(id.wrapping_add(1), None);
    assert_eq!(publisher.sync().unknown, 1);
}
