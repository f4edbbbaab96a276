//! Events from publishers that do not wait for each, to consumers that are sent some ahead.

use std::sync::mpsc::{Receiver, channel};

use client::notify::{ClientType, Property, StructuredEvent};
use client::{
    Answers, ConsumerOptions, Fate, Publisher, PublisherOptions, SimpleConsumer, SimpleSupplier, SupplierOptions,
};
use giop::value::Value;
use service::{Counter, Service};

use crate::peers::{start, wait_until};

fn event(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Number", "");
    event.filterable_data.push(Property::new("number", number));
    event
}

fn consume(service: &Service, options: ConsumerOptions) -> (SimpleConsumer, Receiver<i32>) {
    let (sender, numbers) = channel();
    let consumer = SimpleConsumer::connect(&service.corbaloc("NotificationService"), None, options, move |received| {
        let Some(Value::Long(number)) = received.event()?.field("number").cloned() else { panic!("no number") };
        // The test may have seen enough.
        let _ = sender.send(number);
        Ok(())
    });
    (consumer.unwrap(), numbers)
}

fn publisher(service: &Service, form: ClientType, options: PublisherOptions) -> (SimpleSupplier, Publisher) {
    let supplier_options = SupplierOptions { form, ..SupplierOptions::default() };
    let url = service.corbaloc("NotificationService");
    let supplier = SimpleSupplier::connect_with(&url, None, supplier_options).unwrap();
    let publisher = supplier.publisher(options).unwrap();
    (supplier, publisher)
}

#[test]
fn all_that_is_published_arrives_once_and_in_order() {
    const EVENTS: i32 = 5_000;
    let windowed = Answers::Windowed { unanswered_max: 200 };
    let ways = [ClientType::Structured, ClientType::Sequence]
        .into_iter()
        .flat_map(|form| [windowed, Answers::OneWay].map(|answers| (form, answers)));
    for (form, answers) in ways {
        let service = start();
        // A sequence consumer gets several at a time, too, and one answers before it has handled them.
        let batch = vec![Property::new("MaximumBatchSize", 50_i32)];
        let consumers = [
            ConsumerOptions::default(),
            ConsumerOptions { answer_early: true, ..ConsumerOptions::default() },
            ConsumerOptions { form: ClientType::Sequence, qos: batch, ..ConsumerOptions::default() },
        ]
        .map(|options| consume(&service, options));
        let options = PublisherOptions { answers, gather_events_max: 40, ..PublisherOptions::default() };
        let (_supplier, mut publisher) = publisher(&service, form, options);
        for number in 0..EVENTS {
            publisher.publish(&event(number)).unwrap();
        }
        let tally = publisher.sync();
        assert_eq!((tally.confirmed, tally.lost()), (5_000, 0), "{form:?} {answers:?}");
        for (_, numbers) in &consumers {
            assert!(numbers.iter().take(5_000).eq(0..EVENTS), "{form:?} {answers:?}");
        }
    }
}

#[test]
fn what_the_service_refuses_is_reported_by_event() {
    let service = start();
    let (supplier, mut publisher) = publisher(&service, ClientType::Structured, PublisherOptions::default());
    let number = publisher.publish(&event(0)).unwrap();
    assert_eq!((number, publisher.sync().confirmed), (0, 1));
    supplier.close().unwrap();
    publisher.publish(&event(1)).unwrap();
    assert_eq!(publisher.sync().refused, 1);
    let loss = publisher.next_loss().unwrap();
    assert_eq!(loss.events, 1..2);
    assert_eq!(loss.fate, Fate::Refused("IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0".to_owned()));
}

#[test]
fn a_service_that_ends_leaves_no_event_untold() {
    let service = start();
    let options = PublisherOptions { gather_events_max: 10, ..PublisherOptions::default() };
    let (_supplier, mut publisher) = publisher(&service, ClientType::Structured, options);
    for number in 0..1_005 {
        publisher.publish(&event(number)).unwrap();
    }
    drop(service);
    let tally = publisher.sync();
    assert_eq!((tally.published, tally.outstanding()), (1_005, 0));
    let told: u64 = core::iter::from_fn(|| publisher.next_loss()).map(|loss| loss.events.end - loss.events.start).sum();
    assert_eq!(told, tally.lost());
}

#[test]
fn consumers_that_share_an_end_point_share_the_services_connection() {
    let service = start();
    let shared = ConsumerOptions { shared_end_point: true, ..ConsumerOptions::default() };
    let consumers: Vec<_> = (0..10).map(|_| consume(&service, shared.clone())).collect();
    let (_supplier, mut publisher) = publisher(&service, ClientType::Structured, PublisherOptions::default());
    for number in 0..100 {
        publisher.publish(&event(number)).unwrap();
    }
    assert_eq!(publisher.close().confirmed, 100);
    for (_, numbers) in &consumers {
        assert!(numbers.iter().take(100).eq(0..100));
    }
    wait_until("the answers", || service.counters().read(Counter::Delivered) == 1_000);
    assert_eq!(service.counters().read(Counter::ConnectsBegun), 1);
    wait_until("the counts", || consumers.iter().all(|(consumer, _)| consumer.served().requests >= 1_000));
}
