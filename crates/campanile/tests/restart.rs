//! Suppliers that publish while their service is restarted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::raw::{PublishOptions, RawSupplier, channel_finder};
use campanile::{Consumer, Declared, Error, ErrorCode, Event, EventForm, Settings, Supplier};
use client::{ConsumerOptions, Fate, Received, SimpleConsumer};
use giop::value::Value;
use service::{Config, Limits, Service};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use testing::{EndInTime, NextInTime, PATIENCE, own_loopback, patient, wait_until};

#[derive(Event, Clone, Debug, PartialEq)]
struct Rain {
    mm: u32,
}

fn begin_at(listen: &str) -> (Service, Settings) {
    let service = Service::start(Config { listen: listen.to_owned(), ..Config::default() }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    (service, settings)
}

fn begin() -> (Service, Settings) {
    begin_at(&format!("{}:0", own_loopback()))
}

/// The numbers that ALMA's suppliers give their events, as they come.
fn counts(channel_name: &str, settings: &Settings) -> (SimpleConsumer, Receiver<u64>) {
    let (sender, counts) = channel();
    let finder = channel_finder(channel_name, settings).unwrap();
    let consumer = SimpleConsumer::connect_by(&settings.server, finder, ConsumerOptions::default(), move |received| {
        let event = Received::event(&received)?;
        let Value::Struct { fields, .. } = event.remainder.value else { panic!("{event:?}") };
        let Some((_, Value::ULongLong(count))) = fields.last() else { panic!("{fields:?}") };
        sender.send(*count).unwrap();
        Ok(())
    });
    (consumer.unwrap(), counts)
}

/// Publishes until the outcome is certain, and says how many calls it took. A call that meets the very end of a service may not know whether
/// the event was taken: what closes the connection can overtake what the service said last.
fn publish_surely(mut publish: impl FnMut() -> Result<(), Error>) -> Result<u64, Error> {
    let mut calls = 1;
    loop {
        match publish() {
            Err(error) if !error.was_not_carried_out() => calls += 1,
            outcome => return outcome.map(|()| calls),
        }
    }
}

/// A waiting caller that says when it waits, and goes on waiting at a message.
fn caller(waits: Sender<()>, go_on: Receiver<()>) -> impl FnMut() -> bool {
    let mut has_said = false;
    move || {
        if !core::mem::replace(&mut has_said, true) {
            waits.send(()).unwrap();
            go_on.next_in_time();
        }
        true
    }
}

/// A program that published while its service was restarted got an error, which ended it, though the tutorial said that it goes on. And
/// the event is one, however often it is tried: to ALMA's consumers each number that is left out is an event that was lost.
#[test]
fn an_event_that_is_published_while_the_service_restarts_arrives_once_it_is_back() {
    let (service, settings) = begin();
    let settings = Settings { event_form: EventForm::Alma, ..settings };
    let supplier = Arc::new(RawSupplier::new("Weather", &settings).unwrap());
    let declared = Declared::new(Rain::event_type(), None, None).unwrap();
    supplier.publish(&declared, &0_u32.to_ne_bytes()).unwrap();
    service.shutdown();

    let ((waits, waiting), (tell, told)) = (channel(), channel());
    let publishing = thread::spawn({
        let (supplier, declared) = (supplier.clone(), declared.clone());
        move || {
            let mut goes_on = caller(waits, told);
            publish_surely(|| supplier.publish_while(&declared, &1_u32.to_ne_bytes(), &mut goes_on))
        }
    });
    waiting.next_in_time();
    assert_eq!(supplier.waiting(), 1);
    let (_service, _) = begin_at(&settings.server);
    let (_consumer, counts) = counts("Weather", &settings);
    let (sender, events) = channel();
    let consumer = Consumer::new("Weather").settings(settings.clone());
    let _typed = consumer.on(move |rain: Rain| _ = sender.send(rain.mm)).unwrap().ready().unwrap();
    tell.send(()).unwrap();
    let count = publishing.end_in_time().unwrap();
    supplier.publish(&declared, &2_u32.to_ne_bytes()).unwrap();
    assert_eq!([events.next_in_time(), events.next_in_time()], [1, 2]);
    assert_eq!([counts.next_in_time(), counts.next_in_time()], [count, count + 1]);
    assert_eq!((supplier.waiting(), supplier.reconnections()), (0, 1));
}

#[test]
fn threads_that_share_a_supplier_all_wait_and_all_go_on() {
    let (service, settings) = begin();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    service.shutdown();
    thread::scope(|scope| {
        let publishing = [1, 2, 3, 4].map(|mm| {
            scope.spawn({
                let supplier = &supplier;
                move || publish_surely(|| supplier.publish(&Rain { mm }))
            })
        });
        wait_until("all to wait", || supplier.waiting() == 4);
        let (service, _) = begin_at(&settings.server);
        for publishing in publishing {
            publishing.end_in_time().unwrap();
        }
        // One proxy is made for all.
        assert_eq!((supplier.reconnections(), supplier.waiting()), (1, 0));
        drop(service);
    });
}

/// One that closed its supplier could not end before a thread that published with it had waited to the end.
#[test]
fn a_wait_for_a_restart_is_ended_from_another_thread() {
    let (service, settings) = begin();
    let settings = Settings { wait_for_restart: Duration::MAX, ..settings };
    let supplier = Arc::new(Supplier::with("Weather", &settings).unwrap());
    service.shutdown();
    let publishing = thread::spawn({
        let supplier = supplier.clone();
        move || publish_surely(|| supplier.publish(&Rain { mm: 1 }))
    });
    wait_until("the supplier to wait", || supplier.waiting() == 1);
    supplier.stop_waiting();
    for error in [publishing.end_in_time().unwrap_err(), supplier.publish(&Rain { mm: 2 }).unwrap_err()] {
        assert_eq!((error.code(), error.was_not_carried_out()), (ErrorCode::Unreachable, true), "{error}");
    }
}

#[derive(Event)]
struct Report {
    text: String,
}

/// An event beyond the service's message limit was tried again for half a minute: a connection that is closed looked like a restart.
#[test]
fn an_event_beyond_the_services_limit_is_refused_at_once_with_its_size_and_the_limit() {
    let limits = Limits { message_bytes_max: 64 << 10, ..Limits::default() };
    let listen = format!("{}:0", own_loopback());
    let service = Service::start(Config { listen, limits, ..Config::default() }).unwrap();
    let server = service.address().to_string();
    let settings = Settings { server, wait_for_restart: Duration::MAX, ..Settings::default() };
    let supplier = Arc::new(Supplier::with("Weather", &settings).unwrap());
    // What sockets take at once, and far more than that.
    for octets in [65 << 10, 1 << 20, 20 << 20] {
        let report = Report { text: "x".repeat(octets) };
        let publishing = thread::spawn({
            let supplier = supplier.clone();
            move || supplier.publish(&report)
        });
        let error = publishing.end_in_time().unwrap_err();
        assert_eq!((error.code(), error.was_not_carried_out()), (ErrorCode::Refused, true), "{error}");
        let said = error.to_string();
        let size = said.split_once("the request has ").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        // The text is a field, and in the body.
        assert!((2 * octets..2 * octets + 1_000).contains(&size.parse().unwrap()), "{said}");
        assert!(said.contains("limits.message_bytes_max of the service is 65536"), "{said}");
        supplier.publish(&Report { text: String::new() }).unwrap();
    }
    // What does not wait for each event learns which one it was.
    let publisher = supplier.publisher(PublishOptions::default()).unwrap();
    publisher.publish(&Report { text: String::new() }).unwrap();
    assert_eq!(publisher.sync().confirmed, 1);
    publisher.publish(&Report { text: "x".repeat(20 << 20) }).unwrap();
    let counters = publisher.sync();
    assert_eq!((counters.refused, counters.lost()), (1, 1), "{counters:?}");
    let loss = publisher.next_loss().unwrap();
    assert_eq!((loss.events, loss.fate), (1..2, Fate::Refused("IDL:omg.org/CORBA/IMP_LIMIT:1.0".to_owned())));
}

/// Between a service and its clients: hands on what they say, and cuts a connection instead of handing on a reply, when it is to.
struct Relay {
    cuts_replies: AtomicBool,
    service: SocketAddr,
}

impl Relay {
    fn begin(address: SocketAddr, service: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind(address).unwrap();
        let relay = Arc::new(Self { cuts_replies: AtomicBool::new(false), service });
        let this = relay.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let service = TcpStream::connect(this.service).unwrap();
                patient(&service);
                let (to, from) = (service.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || hand_on(from, to, || false));
                let this = this.clone();
                thread::spawn(move || hand_on(service, client, || this.cuts_replies.load(Ordering::SeqCst)));
            }
        });
        relay
    }
}

/// Hands on what comes until either end closes, or something comes and `cuts` says so.
fn hand_on(mut from: TcpStream, mut to: TcpStream, cuts: impl Fn() -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer)
        && let Some(octets) = buffer.get(..count).filter(|octets| !octets.is_empty())
        && !cuts()
        && to.write_all(octets).is_ok()
    {}
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// What was sent and not answered may have been taken: tried again, it would be there twice.
#[test]
fn an_event_that_may_have_been_taken_is_not_published_again() {
    let (inside, outside) = (own_loopback(), own_loopback());
    let config = Config { listen: format!("{inside}:0"), advertise: Some(outside.to_string()), ..Config::default() };
    let service = Service::start(config).unwrap();
    let outside = SocketAddr::from((outside, service.address().port()));
    let relay = Relay::begin(outside, service.address());
    let settings = Settings { server: outside.to_string(), wait_for_restart: PATIENCE, ..Settings::default() };
    let (sender, events) = channel();
    let consumer = Consumer::new("Weather").settings(settings.clone());
    let _consumer = consumer.on(move |rain: Rain| _ = sender.send(rain.mm)).unwrap().ready().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    supplier.publish(&Rain { mm: 0 }).unwrap();
    relay.cuts_replies.store(true, Ordering::SeqCst);
    let error = supplier.publish(&Rain { mm: 1 }).unwrap_err();
    assert_eq!((error.code(), error.was_not_carried_out()), (ErrorCode::Unreachable, false), "{error}");
    relay.cuts_replies.store(false, Ordering::SeqCst);
    supplier.publish(&Rain { mm: 2 }).unwrap();
    assert_eq!([events.next_in_time(), events.next_in_time(), events.next_in_time()], [0, 1, 2]);
}
