//! Lines of JSON on channels with thread pools: their clients are on the main lane, beside CORBA's on lanes of their own.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use client::notify::{EventChannel, Property, ThreadPool, ThreadPoolLanes};
use client::{ConsumerOptions, ServantError, SimpleConsumer, SimpleSupplier};
use giop::realtime::PriorityModel;
use service::{Config, Counter, Json, Lanes, Scheduling, Service};
use testing::NextInTime;

use crate::json::{Lines, PING, PONG};
use crate::kinds::{Got, event_of};
use crate::lanes::by_priority;
use crate::peers::{read, start_with, wait_until};
use crate::persistent::factory;

fn start() -> Service {
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    start_with(Config { lanes, json: Json { listen: Some("0".into()), ..Json::default() }, ..Config::default() })
}

fn pool(priority: i16) -> Property {
    ThreadPool::new(PriorityModel::ServerDeclared, priority, 1).into()
}

fn by_priorities() -> Property {
    ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &[(0, 1), (100, 1), (200, 1)]).into()
}

fn new_channel(service: &Service, qos: &[Property]) -> (EventChannel, i32) {
    factory(service).create_channel(qos, &[]).unwrap()
}

fn supply(service: &Service, id: i32) -> SimpleSupplier {
    SimpleSupplier::connect(&service.corbaloc("NotificationService"), Some(id)).unwrap()
}

/// A CORBA consumer, and the numbers that it gets.
fn consume(service: &Service, id: i32) -> (SimpleConsumer, Receiver<i32>) {
    let (sender, numbers) = channel();
    let url = service.corbaloc("NotificationService");
    let consumer = SimpleConsumer::connect(&url, Some(id), ConsumerOptions::default(), move |received| {
        let event = received.event().map_err(|_| ServantError::bad_operation())?;
        // The test may have seen enough.
        let _ = sender.send(Got::from(event).number);
        Ok(())
    });
    (consumer.unwrap(), numbers)
}

fn take(numbers: &Receiver<i32>, count: usize) -> Vec<i32> {
    (0..count).map(|_| numbers.next_in_time()).collect()
}

fn subscribe(service: &Service, id: i32) -> Lines {
    Lines::subscribed(service, &format!(r#","channel":{id}"#))
}

/// Publishes an event with a number and a priority, and waits until it is taken in.
fn publish(client: &mut Lines, id: i32, number: i32, priority: i16) {
    let header = format!(r#""header":{{"Priority:short":{priority}}}"#);
    let line =
        format!(r#"{{"op":"publish","id":{number},"channel":{id},"type":"Test/Test",{header},"body":{number}}}"#);
    assert_eq!(client.ask(&line), format!(r#"{{"ok":{number}}}"#));
}

/// The number of the next event.
fn number_of(client: &mut Lines) -> i32 {
    let line = client.line().expect("an event");
    let value = line.rsplit_once("\"value\":").unwrap_or_else(|| panic!("no event: {line}")).1;
    value.trim_end_matches('}').parse().unwrap()
}

fn numbers_of(client: &mut Lines, count: usize) -> Vec<i32> {
    (0..count).map(|_| number_of(client)).collect()
}

#[test]
fn json_and_corba_clients_share_a_channel_whatever_level_has_a_pool() {
    for level in ["channel", "suppliers' admin", "consumers' admin", "both admins"] {
        let service = start();
        let of_channel: Vec<Property> = (level == "channel").then(|| pool(10)).into_iter().collect();
        let (events, id) = new_channel(&service, &of_channel);
        if ["suppliers' admin", "both admins"].contains(&level) {
            events.default_supplier_admin().unwrap().set_qos(&[pool(20)]).unwrap();
        }
        if ["consumers' admin", "both admins"].contains(&level) {
            events.default_consumer_admin().unwrap().set_qos(&[pool(30)]).unwrap();
        }
        let (_consumer, numbers) = consume(&service, id);
        let mut subscriber = subscribe(&service, id);
        let mut publisher = Lines::connect(&service);
        (0..20).for_each(|number| publish(&mut publisher, id, number, 0));
        let supplier = supply(&service, id);
        (20..40).for_each(|number| supplier.publish(&event_of("Test", number)).unwrap());
        // Each supplier's in its order.
        for mut got in [take(&numbers, 40), numbers_of(&mut subscriber, 40)] {
            let of = |got: &[i32], ours: fn(&i32) -> bool| got.iter().copied().filter(ours).collect::<Vec<i32>>();
            assert_eq!(of(&got, |number| *number < 20), (0..20).collect::<Vec<i32>>(), "{level}");
            got.retain(|number| *number >= 20);
            assert_eq!(got, (20..40).collect::<Vec<i32>>(), "{level}");
        }
        assert!(read(&service, Counter::TakenOver) > 0, "{level}: nothing was handed over");
        // Lines are made on the main lane, and on no other.
        wait_until("the rounds to end", || read(&service, Counter::Translations) == 40);
        assert!(by_priority(&service, Counter::Translations).values().all(|count| *count == 0), "{level}");
    }
}

#[test]
fn what_json_publishes_goes_to_the_lane_of_its_priority_and_comes_from_there() {
    let service = start();
    let (_events, id) = new_channel(&service, &[by_priorities()]);
    let (_consumer, numbers) = consume(&service, id);
    let mut subscriber = subscribe(&service, id);
    let mut publisher = Lines::connect(&service);
    for (priority, lane) in [(50, 0), (100, 100), (199, 100), (250, 200)] {
        let before = by_priority(&service, Counter::TakenOver);
        publish(&mut publisher, id, i32::from(priority), priority);
        assert_eq!(numbers.next_in_time(), i32::from(priority));
        assert_eq!(number_of(&mut subscriber), i32::from(priority));
        let after = before.into_iter().map(|(at, count)| (at, count + u64::from(at == lane))).collect();
        wait_until("the round to end", || by_priority(&service, Counter::TakenOver) == after);
    }
    let supplier = supply(&service, id);
    for priority in [50_i16, 150, 250] {
        let mut event = event_of("Test", priority.into());
        event.variable_header.push(Property::new("Priority", priority));
        supplier.publish(&event).unwrap();
        assert_eq!((numbers.next_in_time(), number_of(&mut subscriber)), (priority.into(), priority.into()));
    }
    // From each of them once, to the main lane.
    wait_until("the rounds to end", || {
        by_priority(&service, Counter::HandedOver) == BTreeMap::from([(0, 1), (100, 1), (200, 1)])
    });
}

/// Events, and octets of each, of which sockets hold a part only.
const LARGE: usize = 100_000;
const LOW: i32 = 300;

fn large(number: i32) -> client::notify::StructuredEvent {
    let mut event = event_of("Test", number);
    event.filterable_data.push(Property::new("ballast", "x".repeat(LARGE).as_str()));
    event
}

#[test]
fn what_waits_for_a_json_subscriber_goes_by_priority_and_delays_no_consumer_on_the_lanes() {
    let service = start();
    let by_priority = Property::new("OrderPolicy", 2_i16);
    let (_events, id) = new_channel(&service, &[by_priorities(), by_priority]);
    let mut slow = subscribe(&service, id);
    let (_consumer, numbers) = consume(&service, id);
    let supplier = supply(&service, id);
    for number in 0..LOW {
        supplier.publish(&large(number)).unwrap();
        assert_eq!(numbers.next_in_time(), number, "it has to wait for a client that does not read");
    }
    let mut urgent = event_of("Test", LOW);
    urgent.variable_header.push(Property::new("Priority", 250_i16));
    supplier.publish(&urgent).unwrap();
    assert_eq!(numbers.next_in_time(), LOW);
    wait_until("all to be in its outbox", || read(&service, Counter::TakenOver) == 301);
    let got = numbers_of(&mut slow, 301);
    let place = got.iter().position(|number| *number == LOW).unwrap();
    assert!(place < 300, "it came behind all that waited");
    let low: Vec<i32> = got.into_iter().filter(|number| *number != LOW).collect();
    assert_eq!(low, (0..LOW).collect::<Vec<i32>>());
}

#[test]
fn a_json_subscriber_that_does_not_read_has_a_pools_suppliers_blocked_at_the_budget_and_loses_nothing() {
    let service = start();
    let budget = Property::new("MemoryBudget", 1_000_000_u64);
    let (_events, id) = new_channel(&service, &[by_priorities(), budget]);
    let mut slow = subscribe(&service, id);
    let (_consumer, numbers) = consume(&service, id);
    let supplier = supply(&service, id);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..LOW).for_each(|number| supplier.publish(&large(number)).unwrap()));
        wait_until("its supplier to be blocked", || read(&service, Counter::SuppliersBlocked) > 0);
        assert_eq!(numbers_of(&mut slow, 300), (0..LOW).collect::<Vec<i32>>());
        assert_eq!(take(&numbers, 300), (0..LOW).collect::<Vec<i32>>());
    });
    assert_eq!(read(&service, Counter::Dropped), 0);
}

#[test]
fn a_json_subscribers_limit_of_events_holds_on_a_channel_with_a_pool_and_for_no_other() {
    let service = start();
    let few = Property::new("MaxEventsPerConsumer", 5_i32);
    let (_events, id) = new_channel(&service, &[by_priorities(), few]);
    let mut slow = subscribe(&service, id);
    let (_consumer, numbers) = consume(&service, id);
    let supplier = supply(&service, id);
    for number in 0..LOW {
        supplier.publish(&large(number)).unwrap();
        assert_eq!(numbers.next_in_time(), number);
    }
    wait_until("all to be handed over", || read(&service, Counter::TakenOver) == 300);
    // What the engine dropped is counted before any request is answered.
    assert_eq!(Lines::connect(&service).ask(PING), PONG);
    let dropped = usize::try_from(read(&service, Counter::Dropped)).unwrap();
    assert!((1..295).contains(&dropped), "{dropped}");
    let got = numbers_of(&mut slow, 300 - dropped);
    assert!(got.is_sorted() && got[0] == 0, "{got:?}");
    assert_eq!(slow.ask(PING), PONG, "and nothing more");
}

#[test]
fn a_pool_comes_and_goes_only_while_no_json_client_is_connected_and_its_lanes_end_beside_them() {
    let service = start();
    let (events, id) = new_channel(&service, &[]);
    let mut subscriber = subscribe(&service, id);
    assert!(events.set_qos(&[pool(10)]).is_err(), "a client is connected");
    assert_eq!(subscriber.ask(r#"{"op":"unsubscribe","id":2,"subscription":1}"#), r#"{"ok":2}"#);
    wait_until("its proxy to be gone", || events.set_qos(&[pool(10)]).is_ok());
    let mut subscriber = subscribe(&service, id);
    let (other, other_id) = new_channel(&service, &[pool(20)]);
    let mut publisher = subscribe(&service, other_id);
    publish(&mut publisher, id, 1, 0);
    assert_eq!(number_of(&mut subscriber), 1);
    // Its lane ends, and the subscriptions that it had; the connection is the main lane's and stays.
    other.destroy().unwrap();
    assert!(publisher.line().unwrap().contains("the subscription has ended"));
    wait_until("the lane's end", || read(&service, Counter::LanesEnded) == 1);
    publish(&mut publisher, id, 2, 0);
    assert_eq!(number_of(&mut subscriber), 2);
}
