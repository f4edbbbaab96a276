//! Events on a lane without its thread: suppliers and consumers that administration has connected, and filters of clients.

use std::io::ErrorKind;

use client::notify::StructuredEvent;
use corba::keys::ObjectKey;
use engine::ProxyKey;
use giop::cdr::{Encoding, Reader, Writer};
use giop::message::{HEADER_LEN, Header, Request};
use testing::AcceptInTime;

use super::*;
use crate::lane::intake::Submission;
use crate::protocols::giop::pull_consumers::Written;
use crate::protocols::giop::push::Push;
use corba::event::FORM_STRUCTURED;

const ENCODING: Encoding = Encoding::new(Endian::Little);
/// `ClientType`'s `STRUCTURED_EVENT`.
const STRUCTURED: u32 = 1;

impl Bench {
    /// Has administration carry out what a client asks; what it answers is read by `read`. The lane learns of it with
    /// [`Bench::publish`].
    fn administer<T>(
        &mut self,
        object: &Ior,
        operation: &str,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let (mut arguments, mut reply) = (Vec::new(), Vec::new());
        write(&mut Writer::new(&mut arguments, ENCODING));
        let principal = self.accounts.account_of([127, 0, 0, 1].into());
        let args = Reader::with_phase(&arguments, 0, ENCODING);
        let call = corba::ObjectRequest { key: &object.iiop().unwrap().key, operation, args, principal: &principal };
        self.protocol.handle(&call, &mut Writer::new(&mut reply, ENCODING)).unwrap();
        read(&mut Reader::with_phase(&reply, 0, ENCODING))
    }

    /// An object that an attribute names.
    fn object(&mut self, of: &Ior, attribute: &str) -> Ior {
        self.administer(of, attribute, |_| (), |r| Ior::read(r).unwrap())
    }

    fn publish(&mut self) {
        // What concerns very many is taken in in pieces, and there are a few thousand.
        for published in (0..100).filter_map(|_| self.protocol.publish()) {
            self.published.store(Arc::new(published.into()));
        }
        self.lane.core.refresh();
    }

    fn channel() -> Ior {
        let location: Corbaloc = "corbaloc::1.2@127.0.0.1:1/DefaultEventChannel".parse().unwrap();
        location.to_ior("")
    }

    fn supplier_admin(&mut self) -> Ior {
        self.object(&Self::channel(), "_get_default_supplier_admin")
    }

    /// A supplier that is connected.
    fn supplier(&mut self) -> ProxyKey {
        let admin = self.supplier_admin();
        let obtain = "obtain_notification_push_consumer";
        let proxy = self.administer(&admin, obtain, |w| w.u32(STRUCTURED), |r| Ior::read(r).unwrap());
        let nobody = Ior { type_id: String::new(), profiles: Vec::new() };
        self.administer(&proxy, "connect_structured_push_supplier", |w| nobody.write(w), |_| ());
        self.published.load().giop.proxy(&ObjectKey::parse(&proxy.iiop().unwrap().key).unwrap()).unwrap()
    }

    /// Connects a consumer that is called there.
    fn consumer(&mut self, listener: &TcpListener) {
        let admin = self.object(&Self::channel(), "_get_default_consumer_admin");
        let obtain = "obtain_notification_push_supplier";
        let proxy = self.administer(&admin, obtain, |w| w.u32(STRUCTURED), |r| Ior::read(r).unwrap());
        self.administer(&proxy, "connect_structured_push_consumer", |w| reference(listener).write(w), |_| ());
        self.publish();
    }

    /// Has a client be asked there about each event that suppliers send, for as long as a test may take.
    fn filter_suppliers(&mut self, listener: &TcpListener) {
        let timeout = |w: &mut Writer<'_>| {
            w.u32(1);
            w.string("FilterTimeout");
            // A TypeCode of `unsigned long long`, and 600 s in units of 100 ns.
            w.u32(24);
            w.u64(6_000_000_000);
        };
        self.administer(&Self::channel(), "set_qos", timeout, |_| ());
        let admin = self.supplier_admin();
        self.administer(&admin, "add_filter", |w| reference(listener).write(w), |r| r.u32().unwrap());
        self.publish();
    }

    fn forget_filters(&mut self) {
        let admin = self.supplier_admin();
        self.administer(&admin, "remove_all_filters", |_| (), |_| ());
        self.publish();
    }

    /// Takes in an event from a sender that does not wait for an answer.
    fn take_in(&mut self, source: ProxyKey, body: &[u8]) {
        self.take_in_as(source, body, ENCODING);
    }

    fn take_in_as(&mut self, source: ProxyKey, body: &[u8], encoding: Encoding) {
        self.lane.core.read_clock();
        let mut submission = Submission::new(source, crate::protocols::Claim::for_test(), None);
        let push = Push::new(source, FORM_STRUCTURED);
        let body = Reader::with_phase(body, 0, encoding);
        assert!(self.lane.core.take_in_body(&mut submission, &push, &body));
        assert!(!submission.is_refused());
        let _ = self.lane.core.finish_submission(&submission);
        self.lane.core.deliver();
    }

    /// Log lines since the last call.
    fn log_lines(&mut self) -> Vec<String> {
        self.lane.round_within(Duration::ZERO);
        let messages = core::iter::from_fn(|| self.administration.take());
        messages
            .filter_map(|message| if let ToAdministration::Log(_, line) = message { Some(line) } else { None })
            .collect()
    }

    /// Serves rounds until so many requests have come there; their numbers.
    fn requests_at(&mut self, stream: &mut TcpStream, count: usize) -> Vec<u32> {
        stream.set_nonblocking(true).unwrap();
        let (mut bytes, mut ids) = (Vec::new(), Vec::new());
        testing::wait_until(format_args!("{count} requests"), || {
            self.lane.round_within(Duration::from_millis(1));
            match stream.read_to_end(&mut bytes) {
                Ok(_) => panic!("the lane closed the connection"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            while let Some(head) = bytes.get(..HEADER_LEN) {
                let header = Header::parse(head).unwrap();
                if bytes.len() < header.message_len() {
                    break;
                }
                let message: Vec<u8> = bytes.drain(..header.message_len()).collect();
                ids.push(Request::parse(&message, &header).unwrap().request_id);
            }
            ids.len() >= count
        });
        stream.set_nonblocking(false).unwrap();
        assert_eq!(ids.len(), count);
        ids
    }

    /// Serves rounds until everything that was sent is answered.
    fn hear_answers(&mut self) {
        testing::wait_until("the answers to be heard", || {
            self.lane.round_within(Duration::from_millis(1));
            self.lane
                .core
                .protocols
                .giop
                .outgoing
                .connections
                .iter()
                .all(|(_, connection)| connection.pending.is_empty())
        });
    }

    /// Accepts a connection that the lane makes.
    fn accept(&mut self, listener: &TcpListener) -> TcpStream {
        let open = |bench: &Self| {
            let connections = bench.lane.core.protocols.giop.outgoing.connections.iter();
            connections.filter(|(_, connection)| connection.is_open()).count()
        };
        let before = open(self);
        // It may be for its turn that it waits.
        self.lane.round_within(Duration::ZERO);
        let mut stream = listener.accept_in_time();
        self.answer_probe(&mut stream);
        testing::wait_until("the lane to know that it is connected", || {
            self.lane.round_within(Duration::from_millis(1));
            open(self) > before
        });
        stream
    }
}

#[test]
fn each_event_gets_an_origin_where_it_is_admitted_first() {
    let (mut bench, listener) = (Bench::new(), listen());
    let source = bench.supplier();
    bench.consumer(&listener);
    let core = &mut bench.lane.core;
    core.read_clock();
    let mut origin_of_next = |origin: Option<(u64, u64, u64, &[u64])>| {
        let mut submission = Submission::new(source, crate::protocols::Claim::for_test(), None);
        let mut pending_event = core.cx.lane.begin_event();
        pending_event.form = FORM_STRUCTURED;
        core.cx.lane.classify(&mut pending_event, b"Test", b"Number");
        if let Some((service, era, number, hops)) = origin {
            pending_event.set_origin(service, era, number, hops);
        }
        core.admit(&mut submission, pending_event);
        let mut events = Vec::new();
        let delivery = core.cx.lane.poll_delivery(core.cx.clock.now, &mut events).unwrap();
        let origin = events[0].origin().map(|origin| (origin.service, origin.number, origin.hops.to_vec()));
        core.cx.release_events(&mut events);
        let (outbox, serial, now) = (delivery.outbox, delivery.serial, core.cx.clock.now);
        core.cx.lane.handle_outcome(outbox, serial, engine::Outcome::Delivered, now);
        origin.unwrap()
    };
    assert_eq!(origin_of_next(None), (7, 1, vec![]));
    assert_eq!(origin_of_next(Some((9, 8, 5, &[6]))), (9, 5, vec![6]), "it has one");
    assert_eq!(origin_of_next(None), (7, 2, vec![]), "its memory had another before");
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn reference(listener: &TcpListener) -> Ior {
    let location: Corbaloc = format!("corbaloc::1.2@{}/object", listener.local_addr().unwrap()).parse().unwrap();
    location.to_ior("IDL:x:1.0")
}

/// An event of that many octets, and a few.
fn event(octets: usize) -> Vec<u8> {
    let mut body = Vec::new();
    StructuredEvent::new("Test", "Number", &"x".repeat(octets)).write(&mut Writer::new(&mut body, ENCODING)).unwrap();
    body
}

/// The answers to these requests: that the event matches, or nothing but that it was taken.
fn answers(ids: &[u32], matches: Option<bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request_id in ids.iter().copied() {
        let (version, endian, status) = (Version::V1_2, Endian::Little, ReplyStatus::NoException);
        let open = message::begin_reply(&mut bytes, &ReplyHead { version, endian, request_id, status, contexts: &[] });
        if let Some(matches) = matches {
            open.body(&mut bytes, CharSet::Latin1).bool(matches);
        }
        open.finish(&mut bytes);
    }
    bytes
}

/// Each event about which a client's filter was asked was copied to its connection, also when it did not read: gigabytes, of which no
/// account was charged a byte once its socket was full.
#[test]
fn a_filter_that_does_not_read_is_not_asked_any_more_and_its_owner_is_charged_for_what_it_was_asked() {
    const EVENT: usize = 600_000;
    let mut bench = Bench::new();
    let listener = listen();
    bench.filter_suppliers(&listener);
    let source = bench.supplier();
    bench.publish();
    let mut unread = 0;
    let mut _filter = None;
    for number in 1..=40 {
        bench.take_in(source, &event(EVENT));
        if number == 1 {
            _filter = Some(bench.accept(&listener));
        }
        bench.lane.round_within(Duration::ZERO);
        let connections = bench.lane.core.protocols.giop.outgoing.connections.iter();
        unread = connections.map(|(_, connection)| connection.output.own_bytes() as u64).sum();
        let charged = bench.accounts.used(Resource::ReplyBytes);
        assert!(unread <= charged, "event {number}: {unread} octets are kept, and {charged} charged");
        // What it is asked has its time.
        bench.lane.core.cx.clock.set_forward(Duration::from_secs(700));
        bench.lane.round_within(Duration::ZERO);
        assert!(bench.lane.core.protocols.giop.outgoing.filter_calls.is_empty());
    }
    assert!(bench.counters.read(Counter::CallsNotMade) > 0, "{unread} octets were kept for it");
    assert!(unread <= (1 << 20) + EVENT as u64 + 10_000, "{unread}");
    assert_eq!(bench.counters.read(Counter::FilteredInFailed), 40);
}

/// An event of 60 KB was written to twenty consumers at one address at one go, whichever other consumers waited for their events: half a
/// millisecond, and again for the next event.
#[test]
fn consumers_at_one_address_are_sent_so_much_in_a_round_and_those_elsewhere_do_not_wait_for_it() {
    const EVENT: usize = 60_000;
    const CONSUMERS: usize = 20;
    let mut bench = Bench::new();
    let (listener, elsewhere) = (listen(), TcpListener::bind("127.0.0.2:0").unwrap());
    let source = bench.supplier();
    (0..CONSUMERS).for_each(|_| bench.consumer(&listener));
    bench.consumer(&elsewhere);
    bench.take_in(source, &event(1));
    let (mut many, mut other) = (bench.accept(&listener), bench.accept(&elsewhere));
    for (stream, count) in [(&mut many, CONSUMERS), (&mut other, 1)] {
        let ids = bench.requests_at(stream, count);
        stream.write_all(&answers(&ids, None)).unwrap();
    }
    bench.hear_answers();
    let sent = |bench: &Bench| bench.counters.read(Counter::PushesSent);
    let before = sent(&bench);
    bench.take_in(source, &event(EVENT));
    // A quarter of a MiB, and the consumer elsewhere.
    let first = sent(&bench) - before;
    assert!((2..=6).contains(&first), "{first} of {CONSUMERS} and one");
    assert!(bench.counters.read(Counter::AddressBudgetsSpent) > 0);
    bench.requests_at(&mut other, 1);
    bench.requests_at(&mut many, CONSUMERS);
    assert_eq!(sent(&bench) - before, CONSUMERS as u64 + 1);
    assert!(!bench.lane.core.protocols.giop.outgoing.have_resting());
}

/// An event for two hundred consumers, each at a port of its own, had two hundred connections begun at one go, and what was written to
/// them as well: 5 ms in which no other client was served.
#[test]
fn many_consumers_at_one_address_are_connected_and_written_to_in_turn_with_those_elsewhere() {
    const CONSUMERS: usize = 200;
    // A share that the first thing of a round uses up, whatever that is.
    let mut bench = Bench::with(256 << 20, Budget::of_connection(64, Duration::from_nanos(1)));
    let listeners: Vec<_> = (0..CONSUMERS).map(|_| listen()).collect();
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    let source = bench.supplier();
    bench.consumer(&elsewhere);
    bench.take_in(source, &event(1));
    let mut other = bench.accept(&elsewhere);
    let ids = bench.requests_at(&mut other, 1);
    other.write_all(&answers(&ids, None)).unwrap();
    listeners.iter().for_each(|listener| bench.consumer(listener));
    bench.take_in(source, &event(1));
    let begun = |bench: &Bench| {
        let connections = bench.lane.core.protocols.giop.outgoing.connections.iter();
        connections.filter(|(_, connection)| connection.is_begun()).count()
    };
    let mut before = begun(&bench);
    assert_eq!(before, 1, "while an event is taken in nothing is begun");
    testing::wait_until("all to be connected", || {
        bench.lane.round_within(Duration::ZERO);
        let now = begun(&bench);
        assert!(now <= before + 1, "{} in one round", now - before);
        before = now;
        now == CONSUMERS + 1
    });
    let mut streams: Vec<_> = listeners.iter().map(AcceptInTime::accept_in_time).collect();
    streams.iter_mut().for_each(|stream| bench.answer_probe(stream));
    streams.push(other);
    for stream in &mut streams {
        let ids = bench.requests_at(stream, 1);
        stream.write_all(&answers(&ids, None)).unwrap();
    }
    bench.hear_answers();
    bench.take_in(source, &event(1));
    let waiting = |bench: &Bench| {
        let connections = bench.lane.core.protocols.giop.outgoing.connections.iter();
        connections.filter(|(_, connection)| !connection.output.is_empty()).count()
    };
    let mut before = waiting(&bench);
    assert!(before >= CONSUMERS - 1, "{before} wait to be written");
    testing::wait_until("all to be written", || {
        bench.lane.round_within(Duration::ZERO);
        let now = waiting(&bench);
        // A few are not worth a look at turns.
        assert!(before - now <= 2 || before <= 10, "{} of {before} in one round", before - now);
        before = now;
        now == 0
    });
    for stream in &mut streams {
        bench.requests_at(stream, 1);
    }
}

/// Three thousand suppliers behind one filter that answers all at once.
struct Crowd {
    bench: Bench,
    filter: TcpStream,
    requested: Vec<u32>,
}

const CROWD: usize = 3_000;

impl Crowd {
    /// Each has sent so many events, the filter has been asked about the first of each, and has not answered.
    fn new(events: usize) -> Self {
        // All answers may be heard in one round.
        let connection_budget = Budget::of_connection(100_000, Duration::from_secs(1));
        let mut bench = Bench::with(256 << 20, connection_budget);
        let listener = listen();
        bench.filter_suppliers(&listener);
        let sources: Vec<ProxyKey> = (0..CROWD).map(|_| bench.supplier()).collect();
        bench.publish();
        let body = event(1);
        for source in sources {
            (0..events).for_each(|_| bench.take_in(source, &body));
        }
        let mut filter = bench.accept(&listener);
        let requested = bench.requests_at(&mut filter, CROWD);
        Self { bench, filter, requested }
    }

    /// The filter lets all of them pass.
    fn answer(&mut self) {
        let answers = answers(&self.requested, Some(true));
        self.filter.write_all(&answers).unwrap();
    }
}

/// The events that waited behind one about which filters were asked followed for 250 µs a round of each supplier: a thousand suppliers
/// that had their answers together kept the lane for a quarter of a second.
#[test]
fn events_that_waited_behind_one_that_was_asked_about_share_the_time_of_a_round_whosever_they_are() {
    let Crowd { mut bench, filter: mut stream, requested } = Crowd::new(2);
    let sent = answers(&requested, Some(true));
    stream.write_all(&sent).unwrap();
    // About the second of each it is asked as the lane gets to it.
    let requested_so_far = |bench: &Bench| bench.counters.read(Counter::RemoteFilterCalls);
    let mut most = 0;
    testing::wait_until("all to be looked at", || {
        let before = requested_so_far(&bench);
        bench.lane.round_within(Duration::ZERO);
        most = most.max(requested_so_far(&bench) - before);
        requested_so_far(&bench) == 2 * CROWD as u64
    });
    assert!(most < CROWD as u64 / 2, "{most} of {CROWD} suppliers' events in one round");
    // The others kept their order and their turns.
    let ids = bench.requests_at(&mut stream, CROWD);
    stream.write_all(&answers(&ids, Some(true))).unwrap();
    let accepted = |bench: &Bench| bench.lane.core.cx.lane.counters().taken.accepted;
    testing::wait_until("all to be taken", || {
        bench.lane.round_within(Duration::from_millis(1));
        accepted(&bench) == 2 * CROWD as u64
    });
}

/// A service that was to end took a lane without open questions for done, and forgot the events that only waited for the next round.
#[test]
fn a_lane_is_not_done_while_events_wait_only_for_the_next_round() {
    let mut crowd = Crowd::new(4);
    crowd.answer();
    let Crowd { mut bench, .. } = crowd;
    bench.forget_filters();
    let mut is_done = false;
    bench.from_administration.send(ToLane::Drain).unwrap();
    testing::wait_until("the lane to have delivered everything", || {
        bench.lane.round_within(Duration::ZERO);
        while let Some(message) = bench.administration.take() {
            let ToAdministration::Left { last: Some(last), .. } = message else { continue };
            is_done = !last.is_busy;
            if is_done {
                assert!(
                    !bench.lane.core.intake.awaiting_filter.has_to_go_on(),
                    "{} of {} were taken",
                    last.taken,
                    4 * CROWD
                );
            } else {
                bench.from_administration.send(ToLane::Drain).unwrap();
            }
        }
        is_done
    });
}

/// A lane to which no route led any more ended with the events of a pull supplier that waited for its next round.
#[test]
fn a_lane_that_is_to_end_does_so_when_no_events_wait_for_its_next_round() {
    let mut crowd = Crowd::new(4);
    crowd.answer();
    let Crowd { mut bench, .. } = crowd;
    bench.forget_filters();
    // It is heard that they match.
    testing::wait_until("events to wait for the next round, or for no consumer", || {
        bench.lane.round_within(Duration::ZERO);
        bench.lane.core.intake.awaiting_filter.has_to_go_on()
            || bench.lane.core.protocols.giop.outgoing.filter_calls.is_empty()
    });
    bench.from_administration.send(ToLane::Retire).unwrap();
    let mut has_ended = false;
    testing::wait_until("the lane to end", || {
        bench.lane.round_within(Duration::ZERO);
        has_ended |= core::iter::from_fn(|| bench.administration.take())
            .any(|message| matches!(message, ToAdministration::Ended));
        has_ended
    });
    assert!(!bench.lane.core.intake.awaiting_filter.has_to_go_on());
}

/// A lane to which no route led any more ended with the event of a supplier that waits for no answer, about which a client's filter was
/// being asked: it was accepted, and neither delivered nor counted.
#[test]
fn a_lane_that_is_to_end_waits_for_what_filters_say_of_the_events_that_it_has_taken() {
    let mut bench = Bench::new();
    let listener = listen();
    bench.filter_suppliers(&listener);
    let source = bench.supplier();
    bench.publish();
    bench.take_in(source, &event(1));
    let mut filter = bench.accept(&listener);
    let requested = bench.requests_at(&mut filter, 1);
    bench.from_administration.send(ToLane::Retire).unwrap();
    let has_ended = |bench: &mut Bench| {
        bench.lane.round_within(Duration::from_millis(1));
        core::iter::from_fn(|| bench.administration.take()).any(|message| matches!(message, ToAdministration::Ended))
    };
    assert!((0..20).all(|_| !has_ended(&mut bench)), "the filter has not answered");
    filter.write_all(&answers(&requested, Some(true))).unwrap();
    testing::wait_until("the lane to end", || has_ended(&mut bench));
    assert_eq!(bench.lane.core.cx.lane.counters().taken.accepted, 1);
}

/// What a client's answers hold goes back to its proxies in one go when it dies: of one that pulled and read nothing that was as much as
/// it had liked to ask for.
#[test]
fn a_client_that_has_not_taken_256_answers_with_events_is_not_read_before_it_has_taken_one() {
    let mut bench = Bench::new();
    let listener = listen();
    bench.consumer(&listener);
    let source = bench.supplier();
    bench.publish();
    bench.take_in(source, &event(1));
    let _consumer = bench.accept(&listener);
    let outbox = bench.lane.core.protocols.giop.outgoing.routes.range(0..1).next().unwrap().outbox;
    let mut client = bench.connect();
    let token = bench.lane.clients.giop.incoming.iter().next().unwrap().0;
    let written = |bench: &mut Bench, count| {
        let caller = &mut bench.lane.clients.giop.incoming.get_mut(token).unwrap().caller;
        caller.pulls.written.extend([Written { outbox, serial: u32::MAX, end: u64::MAX }].repeat(count));
    };
    let is_read = |bench: &mut Bench| {
        bench.lane.round_within(Duration::from_millis(1));
        !requests(bench).is_empty()
    };
    written(&mut bench, 255);
    client.write_all(&asking(1, "_is_a")).unwrap();
    testing::wait_until("it to be read", || is_read(&mut bench));
    written(&mut bench, 1);
    client.write_all(&asking(2, "_is_a")).unwrap();
    assert!((0..20).all(|_| !is_read(&mut bench)));
    bench.lane.clients.giop.incoming.get_mut(token).unwrap().caller.pulls.written.front_mut().unwrap().end = 0;
    bench.lane.clients.giop.flush_incoming(token, &mut bench.lane.core);
    testing::wait_until("it to be read on", || is_read(&mut bench));
}

/// A consumer that had waited for room on one connection and went on over another was notified of the loss of the first: its next push
/// failed for a connection that it did not use, and waited for a back-off.
#[test]
fn a_consumer_that_goes_on_elsewhere_is_not_notified_of_the_loss_of_a_connection_for_room_on_which_it_waited() {
    let mut bench = Bench::new();
    let (elsewhere, listener) = (listen(), listen());
    bench.consumer(&listener);
    let source = bench.supplier();
    bench.publish();
    bench.take_in(source, &event(1));
    let mut consumer = bench.accept(&listener);
    let ids = bench.requests_at(&mut consumer, 1);
    consumer.write_all(&answers(&ids, None)).unwrap();
    // It waits for room on another connection, as where its events have another code set, and goes on.
    bench.begin_call(7, call(reference(&elsewhere), None, Vec::new()));
    let other = bench.accept(&elsewhere);
    let connections = &bench.lane.core.protocols.giop.outgoing.connections;
    let port = elsewhere.local_addr().unwrap().port();
    let token = connections.iter().find(|(_, connection)| connection.endpoint.port == port).unwrap().0;
    let outbox = bench.lane.core.protocols.giop.outgoing.routes.range(0..1).next().unwrap().outbox;
    bench.lane.core.protocols.giop.outgoing.block(outbox, token);
    bench.take_in(source, &event(2));
    let ids = bench.requests_at(&mut consumer, 1);
    consumer.write_all(&answers(&ids, None)).unwrap();
    drop(other);
    testing::wait_until("the other connection to be lost", || {
        bench.lane.round_within(Duration::from_millis(1));
        bench.lane.core.protocols.giop.outgoing.connections.get(token).is_none()
            && bench.lane.core.protocols.giop.outgoing.losses.is_empty()
    });
    bench.take_in(source, &event(3));
    bench.requests_at(&mut consumer, 1);
    let route = bench.lane.core.protocols.giop.outgoing.routes.range(0..1).next().unwrap();
    assert!(!route.trouble.is_failing && route.waits_for.is_none());
}

/// A consumer of Latin-1 got `?` for what its code set lacks, and that was not reported.
#[test]
fn events_with_a_character_that_a_consumer_s_code_set_lacks_are_counted_and_announced_once_a_minute_with_the_character()
{
    let mut bench = Bench::new();
    let listener = listen();
    bench.consumer(&listener);
    let source = bench.supplier();
    bench.publish();
    let utf8 = Encoding { chars: CharSet::Utf8, ..ENCODING };
    let mut body = Vec::new();
    StructuredEvent::new("Test", "Number", "東京").write(&mut Writer::new(&mut body, utf8)).unwrap();
    bench.log_lines();
    for (later_s, announced) in [(0, 1), (0, 0), (58, 0), (3, 1), (0, 0)] {
        bench.lane.core.cx.clock.set_forward(Duration::from_secs(later_s));
        bench.take_in_as(source, &body, utf8);
        let lines = bench.log_lines();
        assert_eq!(lines.len(), announced, "{later_s} s: {lines:?}");
        for line in lines {
            let begin =
                format!("an event of supplier proxy {} of channel {} is dropped", source.proxy.0, source.channel.0);
            assert!(line.starts_with(&begin) && line.contains("'東' (U+6771)"), "{line}");
            assert!(line.contains("ISO 8859-1 lacks it") && line.contains("lane_untranslatable"), "{line}");
        }
    }
    assert_eq!(bench.counters.read(Counter::Untranslatable), 5);
    // What the code set has goes on.
    bench.take_in(source, &event(1));
    let mut consumer = bench.accept(&listener);
    bench.requests_at(&mut consumer, 1);
}
