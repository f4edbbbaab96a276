//! The simple supplier and consumer against a service in the same process, which comes and goes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use client::notify::{CallbackConsumer, ClientType, EventType, Property, StructuredEvent};
use client::{ConsumerOptions, Health, OrbOptions, Received, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::value::AnyValue;
use service::{Config, Service};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testing::{NextInTime, wait_until};

fn start_at(listen: &str) -> Service {
    Service::start(Config { listen: listen.into(), ..Config::default() }).unwrap()
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

#[test]
fn supplier_and_consumer_find_back_to_a_service_that_was_restarted() {
    let service = start_at("127.0.0.1:0");
    let address = service.address().to_string();
    let (consumer, events) = consume(&address, ConsumerOptions::default());
    let supplier = SimpleSupplier::connect(&address, None).unwrap();
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(events.next_in_time(), numbered(1));
    service.shutdown();
    assert!(supplier.publish(&numbered(2)).unwrap_err().is_connection_failure());
    assert!(consumer.check().unwrap_err().is_connection_failure());

    let service = start_at(&address);
    assert_eq!(consumer.check().unwrap(), Health::Reconnected);
    assert_eq!(consumer.check().unwrap(), Health::Connected);
    supplier.publish(&numbered(3)).unwrap();
    assert_eq!(events.next_in_time(), numbered(3));
    service.shutdown();
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
}

#[test]
fn nobody_there_is_told_within_the_time_limit() {
    // A socket that takes connections and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let orb = OrbOptions { reply_timeout: Some(Duration::from_millis(50)), ..OrbOptions::default() };
    let options = SupplierOptions { orb, ..SupplierOptions::default() };
    let error = SimpleSupplier::connect_with(&address, None, options).unwrap_err();
    assert!(error.is("TIMEOUT"), "{error}");
}
