//! The simple supplier and consumer against a service in the same process, which comes and goes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use client::notify::EventChannel;
use client::notify::{CallbackConsumer, ClientType, EventType, Property, StructuredEvent};
use client::{
    Answers, ConsumerOptions, Fate, Health, Orb, OrbOptions, Publisher, PublisherOptions, Received, SimpleConsumer,
    SimpleSupplier, SupplierOptions,
};
use giop::value::AnyValue;
use service::{Config, Service};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testing::{NextInTime, own_loopback, wait_until};

fn start_at(listen: &str) -> Service {
    Service::start(Config { listen: listen.into(), ..Config::default() }).unwrap()
}

/// Where a service can be started again, since no other process takes its port meanwhile.
fn own_address() -> String {
    format!("{}:0", own_loopback())
}

fn numbered(i: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Number", "");
    event.filterable_data.push(Property::new("i", i));
    event
}

/// A consumer that hands on every event.
fn consume(address: &str, options: ConsumerOptions) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (sender, receiver) = channel();
    let callback = move |received: Received<'_>| {
        sender.send(received.event()?).unwrap();
        Ok(())
    };
    (SimpleConsumer::connect(address, None, options, callback).unwrap(), receiver)
}

/// Calls `step` until it gives something.
fn until<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = step();
        found.is_some()
    });
    found.unwrap()
}

/// The channel that programs without settings get.
fn channel_of(service: &Service) -> EventChannel {
    let orb = Orb::new(OrbOptions::default());
    let object = orb.resolve_service(&service.address().to_string()).unwrap();
    client::notify::find_channel(&object, None).unwrap().0
}

/// How many proxies the channel has for consumers and for suppliers that push.
fn proxies(service: &Service) -> (usize, usize) {
    let channel = channel_of(service);
    let consumers = channel.default_consumer_admin().unwrap().push_suppliers().unwrap();
    (consumers.len(), channel.default_supplier_admin().unwrap().push_consumers().unwrap().len())
}

#[test]
fn events_arrive_in_order() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let (consumer, events) = consume(&address, ConsumerOptions::default());
    let supplier = SimpleSupplier::connect(&address, Some(0)).unwrap();
    for i in 0..500 {
        supplier.publish(&numbered(i)).unwrap();
    }
    for i in 0..500 {
        assert_eq!(events.next_in_time(), numbered(i));
    }
    assert_eq!(consumer.check().unwrap(), Health::Connected);
    supplier.close().unwrap();
    consumer.close().unwrap();
    assert!(events.recv().is_err(), "the callback is gone with the consumer");
}

#[test]
fn types_and_forms_are_chosen() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let types = vec![EventType::new("Test", "Num*")];
    let (_typed, typed_events) = consume(&address, ConsumerOptions { types, ..ConsumerOptions::default() });
    let form = ClientType::Any;
    let (_any, any_events) = consume(&address, ConsumerOptions { form, ..ConsumerOptions::default() });
    let structured = SimpleSupplier::connect(&address, None).unwrap();
    let any =
        SimpleSupplier::connect_with(&address, None, SupplierOptions { form, ..SupplierOptions::default() }).unwrap();
    any.publish_any(&AnyValue::from(7)).unwrap();
    structured.publish(&numbered(1)).unwrap();
    assert_eq!(typed_events.next_in_time(), numbered(1));
    assert_eq!(any_events.next_in_time().remainder, AnyValue::from(7));
    let translated = any_events.next_in_time().remainder;
    assert_eq!(translated.type_code.name(), "StructuredEvent");
}

/// `check` said `Connected` to a program after the library's own thread had renewed its subscription a moment before, so that whether
/// it learned of the restart was a matter of chance.
#[test]
fn supplier_and_consumer_find_back_to_a_service_that_was_restarted() {
    // The program looks itself; or the library does, before.
    for check_every in [None, Some(Duration::from_millis(1))] {
        find_back_to_a_service_that_was_restarted(check_every);
    }
}

fn find_back_to_a_service_that_was_restarted(check_every: Option<Duration>) {
    let service = start_at(&own_address());
    let address = service.address().to_string();
    let (consumer, events) = consume(&address, ConsumerOptions { check_every, ..ConsumerOptions::default() });
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(events.next_in_time(), numbered(1));
    service.shutdown();
    assert!(supplier.publish(&numbered(2)).unwrap_err().is_connection_failure());
    assert!(consumer.check().unwrap_err().is_connection_failure());

    let service = start_at(&address);
    if check_every.is_some() {
        until("the library to subscribe anew", || consumer.next_gap());
    }
    assert_eq!(consumer.check().unwrap(), Health::Reconnected);
    assert_eq!(consumer.check().unwrap(), Health::Connected);
    supplier.publish(&numbered(3)).unwrap();
    assert_eq!(events.next_in_time(), numbered(3));
    assert_eq!(supplier.reconnections(), 1);
    service.shutdown();
}

/// Disconnects the client of the channel's only proxy for consumers, as an operator does.
fn disconnect_the_consumer(service: &Service) {
    let proxies = channel_of(service).default_consumer_admin().unwrap().push_suppliers().unwrap();
    let proxy = *proxies.first().unwrap();
    let statistics = Orb::new(OrbOptions::default()).resolve(&service.corbaloc("Statistics")).unwrap();
    let was_there: bool = statistics.request("disconnect", &(0_u32, u32::try_from(proxy).unwrap())).unwrap();
    assert!(was_there);
}

/// A consumer that the service had disconnected, with notice, subscribed again up to five seconds later.
#[test]
fn a_consumer_that_is_disconnected_comes_back_at_once_or_ends_as_it_was_asked_to() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    // Nothing but what the service says makes it look.
    let check_every = Some(Duration::from_secs(1_000_000));
    let (consumer, events) = consume(&address, ConsumerOptions { check_every, ..ConsumerOptions::default() });
    disconnect_the_consumer(&service);
    until("the consumer to be back", || consumer.next_gap());
    assert_eq!(consumer.check().unwrap(), Health::Reconnected);
    assert_eq!((consumer.check().unwrap(), consumer.has_ended()), (Health::Connected, false));
    assert_eq!(proxies(&service), (1, 0), "it is back once");
    SimpleSupplier::connect(&address, None).unwrap().publish(&numbered(1)).unwrap();
    assert_eq!(events.next_in_time(), numbered(1));
    drop(consumer);

    let options = ConsumerOptions { ends_when_disconnected: true, ..ConsumerOptions::default() };
    let (consumer, _events) = consume(&address, options);
    disconnect_the_consumer(&service);
    wait_until("the consumer to hear of it", || consumer.has_ended());
    assert_eq!((consumer.check().unwrap(), consumer.next_gap()), (Health::Ended, None));
    assert_eq!(proxies(&service), (0, 0));
}

/// A publisher went on after a restart of its service, over a new connection to a proxy that no longer was: `publish` said `Ok`, and
/// every event was refused, for as long as the program ran.
#[test]
fn a_publisher_finds_back_to_a_service_that_was_restarted() {
    let windowed = Answers::Windowed { unanswered_max: 8 };
    for (form, answers, gather_events_max) in [
        (ClientType::Structured, windowed, 1),
        (ClientType::Sequence, windowed, 4),
        (ClientType::Structured, Answers::OneWay, 1),
    ] {
        let service = start_at(&own_address());
        let address = service.address().to_string();
        let options = SupplierOptions { form, ..SupplierOptions::default() };
        let supplier = SimpleSupplier::connect_with(&address, None, options).unwrap();
        let options = PublisherOptions { answers, gather_events_max, ..PublisherOptions::default() };
        let mut publisher = supplier.publisher(options).unwrap();
        // The publisher is all that is kept.
        drop(supplier);
        publisher.publish(&numbered(0)).unwrap();
        assert_eq!(publisher.sync().confirmed, 1);
        service.shutdown();

        // With no service, events are counted as lost until that is known, and not taken from then on.
        let error = until("publishing to fail", || publisher.publish(&numbered(1)).err());
        assert!(error.is_connection_failure(), "{error}");
        let before = publisher.sync();
        assert_eq!((before.confirmed, before.outstanding()), (1, 0), "{before:?}");

        let service = start_at(&address);
        let (_consumer, events) = consume(&address, ConsumerOptions::default());
        let number = until("an event to be taken", || publisher.publish(&numbered(2)).ok());
        let counters = publisher.sync();
        assert_eq!(
            (counters.confirmed, counters.lost(), counters.outstanding()),
            (2, before.lost(), 0),
            "{form:?} {answers:?}"
        );
        assert_eq!((number, counters.reconnections), (before.published, 1));
        assert_eq!(events.next_in_time(), numbered(2));
        assert_eq!(proxies(&service), (1, 1));
        drop(publisher);
        assert_eq!(proxies(&service), (1, 0));
        service.shutdown();
    }
}

fn until_refused_and_back(publisher: &mut Publisher) -> u64 {
    until("an event to be confirmed", || {
        let before = publisher.counters().confirmed;
        let _ = publisher.publish(&numbered(1));
        let counters = publisher.sync();
        (counters.confirmed > before).then_some(counters.refused)
    })
}

/// A disconnected proxy, or a supplier that the service gives up, leaves the connection as it is: the publisher is to learn it from
/// the answers.
#[test]
fn a_publisher_whose_proxy_was_disconnected_obtains_another_one() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    let mut publisher = supplier.publisher(PublisherOptions::default()).unwrap();
    for round in 1..4 {
        assert_eq!(until_refused_and_back(&mut publisher), round - 1);
        supplier.proxy().invoke("disconnect_structured_push_consumer", |_| ()).unwrap();
    }
    assert_eq!(until_refused_and_back(&mut publisher), 3);
    let refused = publisher.next_loss().unwrap();
    assert!(matches!(&refused.fate, Fate::Refused(id) if id.contains("OBJECT_NOT_EXIST")), "{refused:?}");
    assert_eq!((supplier.reconnections(), publisher.counters().reconnections), (3, 3));
    // And a publisher of a closed supplier is not brought back.
    supplier.close().unwrap();
    until("publishing to fail", || publisher.publish(&numbered(1)).err());
    assert_eq!(proxies(&service), (0, 0));
}

/// A consumer heard nothing any more after its service had been restarted, unless the program called `check` again and again.
#[test]
fn a_consumer_finds_back_by_itself_and_tells_that_it_missed_something() {
    let service = start_at(&own_address());
    let address = service.address().to_string();
    for shared_end_point in [false, true] {
        let options = ConsumerOptions { shared_end_point, ..ConsumerOptions::default() };
        let (consumer, events) = consume(&address, options);
        SimpleSupplier::connect(&address, None).unwrap().publish(&numbered(1)).unwrap();
        assert_eq!(events.next_in_time(), numbered(1));
        assert_eq!((consumer.next_gap(), consumer.trouble()), (None, None));
    }
    let both = [false, true]
        .map(|shared_end_point| consume(&address, ConsumerOptions { shared_end_point, ..ConsumerOptions::default() }));
    // Whom the service has called notices at once that it ends.
    SimpleSupplier::connect(&address, None).unwrap().publish(&numbered(1)).unwrap();
    both.iter().for_each(|(_, events)| assert_eq!(events.next_in_time(), numbered(1)));
    service.shutdown();
    let service = start_at(&address);
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    for (consumer, events) in &both {
        until("an event to arrive", || {
            supplier.publish(&numbered(2)).unwrap();
            events.try_recv().ok()
        });
        let gap = until("the gap to be reported", || consumer.next_gap());
        assert!(gap.since <= gap.until);
        assert_eq!(consumer.next_gap(), None);
    }
    assert_eq!(proxies(&service), (2, 1));
    service.shutdown();
}

/// Programs that ended without a word, or relied on destructors, left a proxy each; a service had thousands
/// after a year.
#[test]
fn suppliers_and_consumers_that_are_dropped_leave_no_proxy() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    for form in [ClientType::Structured, ClientType::Any, ClientType::Sequence] {
        let constraint = (form != ClientType::Any).then(|| "$i > 3".to_owned());
        let options = ConsumerOptions { form, constraint, ..ConsumerOptions::default() };
        let (consumer, _events) = consume(&address, options);
        let options = SupplierOptions { form, ..SupplierOptions::default() };
        let supplier = SimpleSupplier::connect_with(&address, None, options).unwrap();
        let publisher = supplier.publisher(PublisherOptions::default()).unwrap();
        assert_eq!(proxies(&service), (1, 1));
        drop(supplier);
        assert_eq!(proxies(&service), (1, 1), "its publisher goes on");
        drop(publisher);
        assert_eq!(proxies(&service), (1, 0));
        drop(consumer);
        assert_eq!(proxies(&service), (0, 0));
    }
}

/// What was published one-way is still under way when its publisher is dropped, and the proxy's end must not overtake it.
#[test]
fn one_way_events_arrive_though_their_publisher_is_dropped() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let (_consumer, events) = consume(&address, ConsumerOptions::default());
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    let options = PublisherOptions { answers: Answers::OneWay, gather_events_max: 7, ..PublisherOptions::default() };
    let mut publisher = supplier.publisher(options).unwrap();
    drop(supplier);
    for i in 0..1000 {
        publisher.publish(&numbered(i)).unwrap();
    }
    drop(publisher);
    for i in 0..1000 {
        assert_eq!(events.next_in_time(), numbered(i));
    }
}

#[test]
fn consumer_that_wants_no_more_is_disconnected() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let (sender, receiver) = channel();
    let consumer = SimpleConsumer::connect(&address, None, ConsumerOptions::default(), move |_| {
        sender.send(()).unwrap();
        Err(CallbackConsumer::disconnected())
    })
    .unwrap();
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    supplier.publish(&numbered(1)).unwrap();
    receiver.next_in_time();
    // The service acts on the exception when it has read it.
    wait_until("the proxy to be gone", || consumer.proxy().unwrap().non_existent().unwrap());
    supplier.publish(&numbered(2)).unwrap();
    assert!(receiver.try_recv().is_err());
    // It is not brought back against its will.
    assert_eq!(consumer.check().unwrap(), Health::Ended);
}

#[test]
fn a_missing_peer_is_reported_within_the_time_limit() {
    // A socket that takes connections and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let orb = OrbOptions { reply_timeout: Some(Duration::from_millis(50)), ..OrbOptions::default() };
    let options = SupplierOptions { orb, ..SupplierOptions::default() };
    let error = SimpleSupplier::connect_with(&address, None, options).unwrap_err();
    assert!(error.is("TIMEOUT"), "{error}");
}
