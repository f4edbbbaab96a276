//! Pull consumers that wait, die, or ask too much, and pull suppliers that hang or are gone.

use std::io::Write;
use std::net::TcpStream;

use client::notify::{
    ClientType, EventChannel, Property, SequenceProxyPullConsumer, SequenceProxyPullSupplier,
    StructuredProxyPullSupplier,
};
use client::{InvokeError, ObjectRef, Orb, OrbOptions};
use giop::cdr::{CharSet, Endian, Version};
use giop::exception::Kind;
use giop::ior::Ior;
use giop::message::{self, Reply, ReplyHead, ReplyStatus, Request, RequestHead};
use service::{Counter, Service};
use testing::EndInTime;

use crate::kinds::{Consumer, FORMS, Model, Supplier, connect_pulling, event_of, new_channel, pull, try_pull};
use crate::peers::{Bare, Link, REQUEST, read_message, request_with, start, wait_until};

/// A client that pulls and is only a socket.
struct BarePuller {
    stream: TcpStream,
    key: Vec<u8>,
}

impl BarePuller {
    fn new(service: &Service, proxy: &ObjectRef) -> Self {
        let key = proxy.ior().iiop().unwrap().key.clone();
        Self { stream: TcpStream::connect(service.address()).unwrap(), key }
    }

    fn send(&mut self, request_id: u32, operation: &str) {
        let head = RequestHead { request_id, key: &self.key, operation: operation.as_bytes(), ..REQUEST };
        self.stream.write_all(&request_with(&head, CharSet::Latin1, |_| ())).unwrap();
    }

    /// The next reply: to which request, how it ended, and the number of the event.
    fn reply(&mut self) -> (u32, ReplyStatus, Option<i32>) {
        let (header, bytes) = read_message(&mut self.stream).unwrap();
        let reply = Reply::parse(&bytes, &header).unwrap();
        let mut body = reply.body(&bytes, &header, CharSet::Latin1);
        let event = (reply.status == ReplyStatus::NoException && body.remaining() >= 24)
            .then(|| client::notify::StructuredEvent::read(&mut body).unwrap());
        (reply.request_id, reply.status, event.map(|event| crate::kinds::Got::from(event).number))
    }
}

/// A service, a channel of it, and a proxy from which structured events are pulled.
fn start_pulled() -> (Service, EventChannel, ObjectRef) {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    connect_pulling(&proxy, ClientType::Structured);
    (service, channel, proxy)
}

#[test]
fn try_pull_says_at_once_that_there_is_nothing() {
    let service = start();
    let channel = new_channel(&service);
    for form in FORMS {
        let proxy = Consumer::obtain(&channel, form, Model::Pull);
        assert!(matches!(try_pull(&proxy, form), Err(InvokeError::User(_))), "not connected: {form:?}");
        connect_pulling(&proxy, form);
        assert_eq!(try_pull(&proxy, form).unwrap(), []);
    }
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    connect_pulling(&proxy, ClientType::Structured);
    supplier.give("Pull", 0..2);
    let numbers = (0..2).flat_map(|_| try_pull(&proxy, ClientType::Structured).unwrap()).map(|got| got.number);
    assert_eq!(numbers.collect::<Vec<i32>>(), [0, 1]);
    assert_eq!(try_pull(&proxy, ClientType::Structured).unwrap(), []);
}

#[test]
fn a_pull_that_waits_does_not_keep_other_requests_on_its_connection() {
    let (service, channel, proxy) = start_pulled();
    let mut client = BarePuller::new(&service, &proxy);
    client.send(1, "pull_structured_event");
    client.send(2, "pull_structured_event");
    client.send(3, "_get_MyType");
    let (request_id, status, _) = client.reply();
    assert_eq!((request_id, status), (3, ReplyStatus::NoException));
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Pull", 0..2);
    // The client that began to wait first is served first.
    assert_eq!(client.reply(), (1, ReplyStatus::NoException, Some(0)));
    assert_eq!(client.reply(), (2, ReplyStatus::NoException, Some(1)));
}

#[test]
fn the_event_of_a_client_that_died_waiting_goes_to_the_next() {
    let (service, channel, proxy) = start_pulled();
    let mut dies = BarePuller::new(&service, &proxy);
    let mut lives = BarePuller::new(&service, &proxy);
    dies.send(1, "pull_structured_event");
    wait_until("the first waits", || service.counters().read(Counter::Pulls) == 1);
    lives.send(2, "pull_structured_event");
    wait_until("the second waits", || service.counters().read(Counter::Pulls) == 2);
    let open = service.counters().read(Counter::ConnectionsOpen);
    drop(dies);
    wait_until("the first is gone", || service.counters().read(Counter::ConnectionsOpen) < open);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Pull", 0..1);
    assert_eq!(lives.reply(), (2, ReplyStatus::NoException, Some(0)));
}

#[test]
fn a_pull_that_is_cancelled_gets_no_event() {
    let (service, channel, proxy) = start_pulled();
    let mut client = BarePuller::new(&service, &proxy);
    client.send(1, "pull_structured_event");
    let mut cancel = Vec::new();
    message::cancel_request(&mut cancel, Version::V1_2, REQUEST.endian, 1);
    client.stream.write_all(&cancel).unwrap();
    client.send(2, "pull_structured_event");
    wait_until("the second waits", || service.counters().read(Counter::Pulls) == 2);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Pull", 0..1);
    assert_eq!(client.reply(), (2, ReplyStatus::NoException, Some(0)));
}

#[test]
fn a_waiting_client_is_notified_when_the_proxy_goes() {
    let service = start();
    let channel = new_channel(&service);
    for form in FORMS {
        let proxy = Consumer::obtain(&channel, form, Model::Pull);
        connect_pulling(&proxy, form);
        let waits = proxy.with_private_connection();
        let before = service.counters().read(Counter::Pulls);
        let thread = std::thread::spawn(move || pull(&waits, form));
        wait_until("it waits", || service.counters().read(Counter::Pulls) > before);
        let admin = channel.default_consumer_admin().unwrap();
        let _ = admin.get_proxy_supplier(0);
        disconnect(&proxy, form);
        let told = thread.end_in_time();
        assert!(matches!(told, Err(InvokeError::User(_))), "{told:?}");
    }
}

fn disconnect(proxy: &ObjectRef, form: ClientType) {
    let object = proxy.clone();
    match form {
        ClientType::Any => client::notify::ProxyPullSupplier::unchecked(object).disconnect_pull_supplier(),
        ClientType::Structured => StructuredProxyPullSupplier::unchecked(object).disconnect_structured_pull_supplier(),
        ClientType::Sequence => SequenceProxyPullSupplier::unchecked(object).disconnect_sequence_pull_supplier(),
    }
    .unwrap();
}

#[test]
fn refuses_pulls_that_cannot_be_meant() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Pull);
    connect_pulling(&proxy, ClientType::Sequence);
    let sequence = SequenceProxyPullSupplier::unchecked(proxy.clone());
    for number in [-1, i32::MIN] {
        let refused = sequence.try_pull_structured_events(number);
        assert!(is_system(&refused, Kind::BadParam), "{refused:?}");
    }
    // The operations of another form are not there.
    let refused = StructuredProxyPullSupplier::unchecked(proxy).try_pull_structured_event();
    assert!(is_system(&refused, Kind::BadOperation), "{refused:?}");
}

/// A client that asked for no event was answered `BAD_PARAM`; there is nothing wrong with it, and TAO's service answers it.
#[test]
fn a_client_that_asks_for_no_event_gets_none_at_once() {
    let service = start();
    let channel = new_channel(&service);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Pull);
    connect_pulling(&proxy, ClientType::Sequence);
    let sequence = SequenceProxyPullSupplier::unchecked(proxy);
    for waiting in 0..2 {
        assert_eq!(sequence.try_pull_structured_events(0).unwrap(), None, "{waiting} waiting");
        assert_eq!(sequence.pull_structured_events(0).unwrap(), [], "{waiting} waiting");
        supplier.give("Pull", 0..1);
    }
    let events = sequence.pull_structured_events(2).unwrap();
    assert_eq!(events.len(), 2, "none was taken before");
}

fn is_system<T>(result: &Result<T, InvokeError>, kind: Kind) -> bool {
    matches!(result, Err(InvokeError::System { exception, .. }) if exception.kind == kind)
}

#[test]
fn more_pulls_than_may_wait_on_a_connection_are_refused_one_by_one() {
    let (service, channel, proxy) = start_pulled();
    let mut client = BarePuller::new(&service, &proxy);
    for request_id in 0..257 {
        client.send(request_id, "pull_structured_event");
    }
    assert_eq!(client.reply(), (256, ReplyStatus::SystemException, None));
    assert_eq!(service.counters().read(Counter::PullsRefused), 1);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Pull", 0..1);
    assert_eq!(client.reply(), (0, ReplyStatus::NoException, Some(0)));
}

#[test]
fn events_whose_replies_a_dead_client_did_not_take_go_to_the_next() {
    const EVENTS: u64 = 40;
    let (service, channel, proxy) = start_pulled();
    let Supplier::Structured(supplier) = Supplier::new(&channel, ClientType::Structured, Model::Push) else {
        unreachable!()
    };
    for number in 0..EVENTS {
        // Far more than the sockets' buffers hold.
        let mut event = event_of("Large", i32::try_from(number).unwrap());
        event.filterable_data.push(Property::new("padding", "x".repeat(512 << 10).as_str()));
        supplier.push_structured_event(&event).unwrap();
    }
    let mut dies = BarePuller::new(&service, &proxy);
    (0..40).for_each(|request_id| dies.send(request_id, "pull_structured_event"));
    let stands = || {
        let counters = service.counters();
        (counters.read(Counter::Delivered), counters.read(Counter::PullsAnswered))
    };
    wait_until("some replies wait for the socket", || stands().1 >= stands().0 + 2);
    let open = service.counters().read(Counter::ConnectionsOpen);
    drop(dies);
    wait_until("it is gone", || service.counters().read(Counter::ConnectionsOpen) < open);
    let delivered = stands().0;
    let taken = (0..).map_while(|_| try_pull(&proxy, ClientType::Structured).unwrap().pop()).count() as u64;
    assert_eq!(delivered + taken, EVENTS);
}

/// A supplier that is only a listening socket, and its proxy.
fn bare_supplier(channel: &EventChannel, bare: &Bare, qos: &[Property]) -> ObjectRef {
    let admin = channel.default_supplier_admin().unwrap();
    let proxy = admin.obtain_notification_pull_consumer(ClientType::Structured).unwrap().0;
    proxy.set_qos(qos).unwrap();
    let ior = Ior { type_id: "IDL:omg.org/CosNotifyComm/StructuredPullSupplier:1.0".into(), ..bare.reference() };
    let supplier = proxy.object().orb().object(ior);
    client::notify::StructuredProxyPullConsumer::unchecked(proxy.object().clone())
        .connect_structured_pull_supplier(&supplier)
        .unwrap();
    proxy.object().clone()
}

/// So many milliseconds as a `TimeT`.
fn millis(name: &str, millis: u64) -> Property {
    Property::new(name, millis * 10_000)
}

#[test]
fn a_supplier_that_hangs_delays_no_other_and_is_given_up() {
    let service = start();
    let channel = new_channel(&service);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let bare = Bare::new();
    let limits = [millis("ReplyTimeout", 100), millis("GiveUpAfter", 200)];
    let proxy = bare_supplier(&channel, &bare, &limits);
    let mut link = bare.accept();
    assert!(link.message().is_some(), "it is asked");
    let other = Supplier::new(&channel, ClientType::Structured, Model::Pull);
    other.give("Pull", 0..20);
    assert_eq!(consumer.numbers(20), (0..20).collect::<Vec<i32>>());
    wait_until("it is given up", || service.counters().read(Counter::SuppliersGivenUp) == 1);
    wait_until("its proxy to be gone", || proxy.non_existent().unwrap());
    assert!(service.counters().read(Counter::PollTimeouts) >= 1);
}

/// Answers the next question of a bare sequence supplier with so many events.
fn answer_with(link: &mut Link, events: i32) {
    let (header, bytes) = link.message().unwrap();
    let request_id = Request::parse(&bytes, &header).unwrap().request_id;
    let (version, endian, status) = (Version::V1_2, Endian::Big, ReplyStatus::NoException);
    let mut reply = Vec::new();
    let open = message::begin_reply(&mut reply, &ReplyHead { version, endian, request_id, status, contexts: &[] });
    let mut body = open.body(&mut reply, CharSet::Latin1);
    body.i32(events);
    (0..events).for_each(|number| event_of("Pull", number).write(&mut body).unwrap());
    body.bool(true);
    open.finish(&mut reply);
    link.stream.write_all(&reply).unwrap();
}

#[test]
fn a_supplier_that_gives_more_than_it_was_asked_for_has_failed() {
    // 465,000 events in one answer, where 64 were asked for, stopped the lane for 217 ms.
    let service = start();
    let channel = new_channel(&service);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let bare = Bare::new();
    let proxy = channel.default_supplier_admin().unwrap().obtain_notification_pull_consumer(ClientType::Sequence);
    let proxy = proxy.unwrap().0.object().clone();
    let supplier = proxy
        .orb()
        .object(Ior { type_id: "IDL:omg.org/CosNotifyComm/SequencePullSupplier:1.0".into(), ..bare.reference() });
    SequenceProxyPullConsumer::unchecked(proxy).connect_sequence_pull_supplier(&supplier).unwrap();
    let mut link = bare.accept();
    answer_with(&mut link, 65);
    wait_until("the answer to be refused", || service.counters().read(Counter::PollsFailed) == 1);
    answer_with(&mut link, 64);
    assert_eq!(consumer.numbers(64), (0..64).collect::<Vec<i32>>());
    assert_eq!(service.counters().read(Counter::EventsPolled), 64);
}

#[test]
fn a_supplier_that_is_gone_is_disconnected_at_once() {
    let service = start();
    let channel = new_channel(&service);
    let supplier = Supplier::new(&channel, ClientType::Any, Model::Pull);
    let Supplier::PulledAny(queue, proxy, _servant) = supplier else { unreachable!() };
    // It raises Disconnected from now on.
    queue.close();
    wait_until("it is disconnected", || proxy.non_existent().unwrap());
    assert_eq!(service.counters().read(Counter::SuppliersGivenUp), 0);
}

#[test]
fn a_suspended_supplier_is_not_asked() {
    let service = start();
    let channel = new_channel(&service);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Pull);
    let proxy = client::notify::StructuredProxyPullConsumer::unchecked(supplier.proxy().clone());
    proxy.suspend_connection().unwrap();
    // One question may be under way, and be answered yet.
    let before = service.counters().read(Counter::Polls);
    supplier.give("Pull", 0..3);
    let other = Supplier::new(&channel, ClientType::Structured, Model::Push);
    other.give("Push", 10..11);
    let mut got = consumer.numbers(1);
    if got != [10] {
        got.extend(consumer.numbers(1));
    }
    assert!(got == [10] || got == [0, 10], "{got:?}");
    assert_eq!(service.counters().read(Counter::Polls), before);
    proxy.resume_connection().unwrap();
    got.extend(consumer.numbers(4 - got.len()));
    got.retain(|number| *number != 10);
    assert_eq!(got, [0, 1, 2]);
}

#[test]
fn suppliers_and_consumers_can_be_destroyed_while_events_flow() {
    let service = start();
    for _ in 0..10 {
        let channel = new_channel(&service);
        let kinds = FORMS.into_iter().flat_map(|form| [Model::Push, Model::Pull].map(|model| (form, model)));
        let consumers: Vec<Consumer> =
            kinds.clone().map(|(form, model)| Consumer::new(&channel, form, model)).collect();
        let suppliers: Vec<Supplier> = kinds.map(|(form, model)| Supplier::new(&channel, form, model)).collect();
        let flowing = std::thread::spawn(move || {
            for number in 0.. {
                for supplier in &suppliers {
                    if !supplier.try_give("Flow", number) {
                        return;
                    }
                }
            }
        });
        for consumer in &consumers {
            consumer.take(3);
        }
        channel.destroy().unwrap();
        flowing.end_in_time();
        drop(consumers);
    }
    crate::peers::assert_serves(&service);
}

#[test]
fn clients_of_the_event_service_pull_and_are_pulled_from() {
    let service = start();
    let channel = new_channel(&service).as_event_channel();
    let pulls = channel.for_consumers().unwrap().obtain_pull_supplier().unwrap();
    pulls.connect_pull_consumer(None).unwrap();
    assert_eq!(pulls.try_pull().unwrap(), None);
    let queue = std::sync::Arc::new(client::notify::QueueSupplier::any(10, ()));
    let servant = Orb::new(OrbOptions::default()).activate(queue.clone()).unwrap();
    let pulled_from = channel.for_suppliers().unwrap().obtain_pull_consumer().unwrap();
    pulled_from.connect_pull_supplier(servant.reference()).unwrap();
    queue.offer(41_i32.into()).unwrap();
    queue.offer(42_i32.into()).unwrap();
    assert_eq!(pulls.pull().unwrap(), 41_i32.into());
    assert_eq!(pulls.pull().unwrap(), 42_i32.into());
    pulls.disconnect_pull_supplier().unwrap();
    assert!(pulls.try_pull().is_err());
}

/// A pull consumer gave a reference at which it cannot be reached: a container's address, or a port behind a wall. It lives as long as
/// it calls, on whatever connection; when it dies, its proxy goes. It stayed for ever, with its events.
#[test]
fn a_consumer_that_cannot_be_reached_lives_while_its_pull_waits_and_not_longer() {
    let service = start();
    let channel = new_channel(&service);
    let bare = Bare::new();
    let reference = bare.reference();
    drop(bare);
    let admin = channel.default_consumer_admin().unwrap();
    let qos = [Property::new("ProbeInterval", 1_000_000_u64), Property::new("GiveUpAfter", 2_000_000_u64)];
    admin.set_qos(&qos).unwrap();
    let orb = Orb::new(OrbOptions::default());
    let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
    let theirs = StructuredProxyPullSupplier::unchecked(orb.object(proxy.object().ior().clone()));
    let mut puller = BarePuller::new(&service, proxy.object());
    theirs.connect_structured_pull_consumer(Some(&orb.object(reference))).unwrap();
    puller.send(1, "pull_structured_event");
    wait_until("its pull waits", || service.counters().read(Counter::Pulls) == 1);
    drop((theirs, orb));
    wait_until("it was not reached for long", || service.counters().read(Counter::ConnectsFailed) >= 8);
    assert_eq!(service.counters().read(Counter::ClientsReaped), 0);
    drop(puller);
    wait_until("it is found dead", || service.counters().read(Counter::ClientsReaped) == 1);
}
