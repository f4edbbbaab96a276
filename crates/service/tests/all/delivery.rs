//! Events through a whole service, between our own client's suppliers and consumers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use client::notify::{ClientType, EventType, Property, StructuredEvent, StructuredProxyPushSupplier};
use client::{
    ConsumerOptions, InvokeError, Orb, OrbOptions, ServantError, SimpleConsumer, SimpleSupplier, SupplierOptions,
};
use giop::exception::Kind;
use giop::message::ReplyStatus;
use giop::value::Value;
use service::{Counter, Service};
use testing::{EndInTime, NextInTime};

use crate::peers::{Bare, await_count, start, subscribe, wait_until};
use crate::persistent::{factory, number};

/// Makes a channel with these properties and gives its id.
fn make_channel(service: &Service, qos: &[Property], admin: &[Property]) -> i32 {
    factory(service).create_channel(qos, admin).unwrap().1
}

fn event(source: &str, number: i32, padding: usize) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", source, "");
    event.filterable_data.push(Property::new("number", number));
    event.filterable_data.push(Property::new("padding", "x".repeat(padding).as_str()));
    event
}

/// A consumer that gives its events to a queue; before each, it waits for the gate to let it through.
struct Watched {
    consumer: SimpleConsumer,
    events: Receiver<StructuredEvent>,
}

impl Watched {
    fn numbers(&self, count: usize) -> Vec<i32> {
        (0..count).map(|_| number(&self.events.next_in_time())).collect()
    }
}

fn consume_with(
    service: &Service,
    channel_id: Option<i32>,
    options: ConsumerOptions,
    mut before: impl FnMut(&StructuredEvent) -> Result<(), ServantError> + Send + 'static,
) -> Watched {
    let (sender, events) = channel();
    let url = service.corbaloc("NotificationService");
    let consumer = SimpleConsumer::connect(&url, channel_id, options, move |received| {
        let event = received.event().unwrap();
        before(&event)?;
        // The test may have seen enough.
        let _ = sender.send(event);
        Ok(())
    });
    Watched { consumer: consumer.unwrap(), events }
}

fn consume(service: &Service, channel_id: Option<i32>) -> Watched {
    consume_with(service, channel_id, ConsumerOptions::default(), |_| Ok(()))
}

/// A consumer that waits for a token at every event.
fn consume_gated(service: &Service, channel_id: Option<i32>, qos: &[Property]) -> (Watched, Sender<()>) {
    let (tokens, gate) = channel();
    let options = ConsumerOptions { qos: qos.to_vec(), ..ConsumerOptions::default() };
    let watched = consume_with(service, channel_id, options, move |_| {
        // With the test's end there are no more tokens, and what passes does not matter.
        let _ = gate.recv();
        Ok(())
    });
    (watched, tokens)
}

fn supply(service: &Service, channel_id: Option<i32>) -> SimpleSupplier {
    SimpleSupplier::connect(&service.corbaloc("NotificationService"), channel_id).unwrap()
}

/// Publishes an event of each of these numbers, with so much padding.
fn publish(supplier: &SimpleSupplier, numbers: Range<i32>, padding: usize) {
    numbers.for_each(|number| supplier.publish(&event("s", number, padding)).unwrap());
}

#[test]
fn each_suppliers_events_arrive_complete_and_in_order() {
    let service = start();
    let consumers = [consume(&service, None), consume(&service, None), consume(&service, None)];
    std::thread::scope(|scope| {
        for source in ["a", "b", "c"] {
            let service = &service;
            scope.spawn(move || {
                let supplier = supply(service, None);
                for number in 0..500 {
                    supplier.publish(&event(source, number, 10)).unwrap();
                }
            });
        }
        for consumer in &consumers {
            let mut next: HashMap<String, i32> = HashMap::new();
            for _ in 0..1500 {
                let event = consumer.events.next_in_time();
                let expected = next.entry(event.type_name.clone()).or_default();
                assert_eq!(number(&event), *expected);
                *expected += 1;
            }
        }
    });
    await_count(&service, Counter::EventsIn, 1500);
    wait_until("the last replies", || service.counters().read(Counter::Delivered) == 4500);
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn anys_and_structured_events_become_each_other() {
    let service = start();
    let structured = consume(&service, None);
    let (sender, anys) = channel();
    let options = ConsumerOptions { form: ClientType::Any, ..ConsumerOptions::default() };
    let url = service.corbaloc("NotificationService");
    let _any_consumer = SimpleConsumer::connect(&url, None, options, move |received| {
        let _ = sender.send(received.any().unwrap());
        Ok(())
    })
    .unwrap();
    let options = SupplierOptions { form: ClientType::Any, ..SupplierOptions::default() };
    let any_supplier = SimpleSupplier::connect_with(&url, None, options).unwrap();

    any_supplier.publish_any(&2.5_f64.into()).unwrap();
    let event_of_any = structured.events.next_in_time();
    assert_eq!((event_of_any.domain.as_str(), event_of_any.type_name.as_str()), ("", "%ANY"));
    assert_eq!(event_of_any.remainder.value, Value::Double(2.5));
    assert_eq!(anys.next_in_time().value, Value::Double(2.5));

    let sent = event("s", 4, 3);
    supply(&service, None).publish(&sent).unwrap();
    assert_eq!(structured.events.next_in_time(), sent);
    let any_of_event = anys.next_in_time();
    assert_eq!(any_of_event.type_code.id(), "IDL:omg.org/CosNotification/StructuredEvent:1.0");
}

#[test]
fn a_subscription_keeps_other_types_away() {
    let service = start();
    let options = ConsumerOptions { types: vec![EventType::new("Test", "wanted")], ..ConsumerOptions::default() };
    let consumer = consume_with(&service, None, options, |_| Ok(()));
    let supplier = supply(&service, None);
    for (source, number) in [("other", 1), ("wanted", 2), ("other", 3), ("wanted", 4)] {
        supplier.publish(&event(source, number, 0)).unwrap();
    }
    assert_eq!(consumer.numbers(2), [2, 4]);
}

#[test]
fn a_consumer_that_hangs_costs_the_others_nothing_and_loses_nothing() {
    let service = start();
    let (hanging, tokens) = consume_gated(&service, None, &[]);
    let good = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..1000, 100);
    // All of them, while the other one has not let a single one through.
    assert_eq!(good.numbers(1000), (0..1000).collect::<Vec<_>>());
    assert!(hanging.events.try_recv().is_err());
    (0..1000).for_each(|_| tokens.send(()).unwrap());
    assert_eq!(hanging.numbers(1000), (0..1000).collect::<Vec<_>>());
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn suppliers_wait_when_the_memory_budget_is_spent_and_nothing_is_lost() {
    let service = start();
    let id = make_channel(&service, &[Property::new("MemoryBudget", 1_u64 << 20)], &[]);
    let (hanging, tokens) = consume_gated(&service, Some(id), &[]);
    let supplier = supply(&service, Some(id));
    let sent = std::thread::spawn(move || {
        publish(&supplier, 0..300, 10_000);
    });
    wait_until("the supplier to be blocked", || service.counters().read(Counter::SuppliersBlocked) == 1);
    // One event of 10 kB each: the budget of 1 MiB holds about a hundred; the supplier waits with the rest.
    assert!(service.counters().read(Counter::EventsIn) < 120);
    (0..300).for_each(|_| tokens.send(()).unwrap());
    sent.end_in_time();
    assert_eq!(hanging.numbers(300), (0..300).collect::<Vec<_>>());
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn a_full_outbox_discards_its_own_backlog_when_set_so() {
    let service = start();
    let limits = [Property::new("MaxEventsPerConsumer", 10_i32), Property::new("FullOutbox", "Discard")];
    let (hanging, tokens) = consume_gated(&service, None, &limits);
    let good = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..100, 0);
    assert_eq!(good.numbers(100), (0..100).collect::<Vec<_>>());
    (0..11).for_each(|_| tokens.send(()).unwrap());
    // The one that was being pushed, and the ten newest.
    let mut expected = vec![0];
    expected.extend(90..100);
    assert_eq!(hanging.numbers(11), expected);
    await_count(&service, Counter::DroppedOutboxFull, 89);
}

#[test]
fn a_full_outbox_refuses_events_when_set_so() {
    let service = start();
    let limits = [Property::new("MaxEventsPerConsumer", 5_i32), Property::new("FullOutbox", "Reject")];
    let granted = [Property::new("HoldGranted", true)];
    let (_, id) = factory(&service).create_channel(&granted, &[]).unwrap();
    let (hanging, tokens) = consume_gated(&service, Some(id), &limits);
    let supplier = supply(&service, Some(id));
    let mut taken = 0;
    let refusal = loop {
        match supplier.publish(&event("s", taken, 0)) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, InvokeError::System { exception, .. } if exception.kind == Kind::ImpLimit), "{refusal}");
    (0..taken).for_each(|_| tokens.send(()).unwrap());
    assert_eq!(hanging.numbers(taken as usize), (0..taken).collect::<Vec<_>>());
    await_count(&service, Counter::EventsRefused, 1);
}

/// With `MaxEventsPerConsumer` 1, `FullOutbox` `Hold` and an answer every 4 s, one consumer had all suppliers of its channel fall from
/// 1,100 events a second to 0.3.
#[test]
fn a_consumer_whose_narrow_limit_is_not_granted_blocks_no_supplier_and_one_whose_is_paces_suppliers_without_loss() {
    let service = start();
    let narrow = [Property::new("MaxEventsPerConsumer", 1_i32), Property::new("FullOutbox", "Hold")];
    let (hanging, tokens) = consume_gated(&service, None, &narrow);
    let good = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..100, 0);
    assert_eq!(good.numbers(100), (0..100).collect::<Vec<_>>());
    await_count(&service, Counter::DroppedOutboxFull, 98);
    assert_eq!(service.counters().read(Counter::SuppliersBlocked), 0);
    // The one that was being pushed, and the newest.
    (0..2).for_each(|_| tokens.send(()).unwrap());
    assert_eq!(hanging.numbers(2), [0, 99]);

    let (_, id) = factory(&service).create_channel(&[Property::new("HoldGranted", true)], &[]).unwrap();
    let (hanging, tokens) = consume_gated(&service, Some(id), &narrow);
    let good = consume(&service, Some(id));
    let supplier = supply(&service, Some(id));
    std::thread::scope(|scope| {
        scope.spawn(|| publish(&supplier, 0..20, 0));
        await_count(&service, Counter::SuppliersBlocked, 1);
        (0..20).for_each(|_| tokens.send(()).unwrap());
    });
    assert_eq!(hanging.numbers(20), (0..20).collect::<Vec<_>>());
    assert_eq!(good.numbers(20), (0..20).collect::<Vec<_>>());
    assert_eq!(service.counters().read(Counter::DroppedOutboxFull), 98);
}

/// It held the channel's suppliers for as long as it took an event now and then: `HoldTimeout` looked for no progress at all.
#[test]
fn a_consumer_that_takes_an_event_now_and_then_holds_others_for_its_budget_and_then_loses_events() {
    let service = start();
    let qos = [Property::new("MemoryBudget", 100_000_u64), Property::new("HoldTimeout", 20_000_000_u64)];
    let (_, id) = factory(&service).create_channel(&qos, &[]).unwrap();
    // It would be waited for without end: that is not for it to say.
    let (hanging, tokens) = consume_gated(&service, Some(id), &[Property::new("HoldTimeout", 0_u64)]);
    let good = consume(&service, Some(id));
    let supplier = supply(&service, Some(id));
    let read = |counter| service.counters().read(counter);
    let count = std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut number = 0;
            while read(Counter::DroppedWaitedOut) == 0 {
                supplier.publish(&event("s", number, 0)).unwrap();
                number += 1;
            }
            number
        });
        wait_until("suppliers to be blocked", || read(Counter::SuppliersBlocked) > 0);
        (0..3).for_each(|_| tokens.send(()).unwrap());
        assert_eq!(hanging.numbers(3), [0, 1, 2]);
        publishing.join().unwrap()
    });
    await_count(&service, Counter::ConsumersHoldSpent, 1);
    assert_eq!((read(Counter::ConsumersGivenUp), read(Counter::ConsumersWaitedOut)), (0, 0));
    assert_eq!(good.numbers(count as usize), (0..count).collect::<Vec<_>>());
}

#[test]
fn a_full_outbox_disconnects_its_consumer_when_set_so() {
    let service = start();
    let limits = [Property::new("MaxEventsPerConsumer", 5_i32), Property::new("FullOutbox", "Disconnect")];
    let (hanging, _tokens) = consume_gated(&service, None, &limits);
    let good = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..20, 0);
    assert_eq!(good.numbers(20), (0..20).collect::<Vec<_>>());
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    let proxy = hanging.consumer.proxy().unwrap();
    wait_until("its proxy to be gone", || proxy.non_existent().unwrap());
}

#[test]
fn a_consumer_that_is_dead_is_given_up_and_the_others_go_on() {
    let service = start();
    let qos = [Property::new("GiveUpAfter", 10_000_000_u64)];
    let orb = Orb::new(OrbOptions::default());
    let service_object = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let (channel, _) = client::notify::find_channel(&service_object, None).unwrap();
    let admin = channel.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.set_qos(&qos).unwrap();
    // Nothing listens there.
    let nowhere: giop::url::Corbaloc = "corbaloc::127.0.0.1:9/Nobody".parse().unwrap();
    let ior = nowhere.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0");
    StructuredProxyPushSupplier::unchecked(proxy.object().clone())
        .connect_structured_push_consumer(&orb.object(ior))
        .unwrap();

    let good = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..100, 0);
    assert_eq!(good.numbers(100), (0..100).collect::<Vec<_>>());
    wait_until("the dead one to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    wait_until("its proxy to be gone", || proxy.object().non_existent().unwrap());
    // All, unless it was given up before the last of them came.
    assert!((1..=100).contains(&service.counters().read(Counter::DroppedDisconnected)));
    assert!(service.counters().read(Counter::ConnectsFailed) > 1);
}

#[test]
fn an_exception_that_says_not_now_is_tried_again_and_one_that_says_never_is_not() {
    assert_eq!(tries_of(Kind::Transient, 2), (3, 0));
    assert_eq!(tries_of(Kind::BadParam, u32::MAX), (1, 1));
}

/// A runtime exception in a Java consumer is `UNKNOWN`. It was taken for "never", so that an event was lost because of a
/// mishap that was over at the next try.
#[test]
fn an_event_at_which_the_consumer_fails_is_tried_three_times_and_then_the_others_follow() {
    assert_eq!(tries_of(Kind::Unknown, 2), (3, 0));
    assert_eq!(tries_of(Kind::Unknown, u32::MAX), (3, 1));
}

/// A client may have thousands of consumers at one address. When its connection was lost all of them were notified in one go, and all
/// others on the lane waited; now so many are notified in a round, and each gets what it had not answered before anything that came
/// meanwhile.
#[test]
fn many_consumers_on_a_connection_that_is_lost_get_everything_in_order_over_the_next() {
    const CONSUMERS: usize = 600;
    let (service, bare) = (start(), Bare::new());
    let qos = [Property::new("PushWindow", 4_u16)];
    for number in 0..CONSUMERS {
        subscribe(&service, bare.reference_to(&number.to_string()), &qos);
    }
    let supplier = supply(&service, None);
    (0..3).for_each(|number| supplier.publish(&event("A", number, 0)).unwrap());
    let mut link = bare.accept();
    for _ in 0..3 * CONSUMERS {
        link.push_to();
    }
    drop(link);
    (3..6).for_each(|number| supplier.publish(&event("A", number, 0)).unwrap());
    let mut link = bare.accept();
    let mut got: HashMap<String, Vec<i32>> = HashMap::new();
    for _ in 0..6 * CONSUMERS {
        let (request_id, key, event) = link.push_to();
        link.reply(request_id, ReplyStatus::NoException, None);
        got.entry(key).or_default().push(number(&event));
    }
    assert_eq!(got.len(), CONSUMERS);
    assert!(got.values().all(|numbers| numbers == &[0, 1, 2, 3, 4, 5]));
}

/// Whatever the consumer's window is, its events come in order, and each once where it is not refused. How many times the one
/// is tried that is refused so many times, and how many are dropped.
fn tries_of(refused_with: Kind, times: u32) -> (u32, u64) {
    for window in [None, Some(1)] {
        let qos = window.map(|window: u16| Property::new("PushWindow", window)).into_iter().collect();
        tries_in_window(refused_with, times, ConsumerOptions { qos, ..ConsumerOptions::default() });
    }
    tries_in_window(refused_with, times, ConsumerOptions::default())
}

fn tries_in_window(refused_with: Kind, times: u32, options: ConsumerOptions) -> (u32, u64) {
    let service = start();
    let tries = Arc::new(Mutex::new(HashMap::<i32, u32>::new()));
    let counting = Arc::clone(&tries);
    let consumer = consume_with(&service, None, options, move |event| {
        let number = number(event);
        let mut counting = counting.lock().unwrap();
        let tried = counting.entry(number).or_default();
        *tried += 1;
        if number == 5 && *tried <= times { Err(ServantError::system(refused_with)) } else { Ok(()) }
    });
    let supplier = supply(&service, None);
    publish(&supplier, 0..10, 0);
    let taken: Vec<i32> = (0..10).filter(|number| *number != 5 || times < 3).collect();
    assert_eq!(consumer.numbers(taken.len()), taken);
    wait_until("the answers", || {
        let count = |counter| service.counters().read(counter);
        count(Counter::Delivered) == taken.len() as u64 && count(Counter::DroppedRejected) == 10 - taken.len() as u64
    });
    let tries = tries.lock().unwrap();
    assert!(tries.iter().all(|(number, tried)| *number == 5 || *tried == 1), "{tries:?}");
    (tries[&5], service.counters().read(Counter::DroppedRejected))
}

/// What a consumer's proxy says of a property.
fn qos_of(consumer: &SimpleConsumer, name: &str) -> Value {
    let proxy = StructuredProxyPushSupplier::unchecked(consumer.proxy().unwrap());
    let qos = proxy.get_qos().unwrap();
    qos.into_iter().find(|property| property.name == name).unwrap().value.value
}

#[test]
fn our_own_client_gets_a_window_by_default() {
    let service = start();
    assert_eq!(qos_of(&consume(&service, None).consumer, "PushWindow"), Value::UShort(64));
    let with = |property| ConsumerOptions { qos: vec![property], ..ConsumerOptions::default() };
    let one = consume_with(&service, None, with(Property::new("PushWindow", 1_u16)), |_| Ok(()));
    assert_eq!(qos_of(&one.consumer, "PushWindow"), Value::UShort(1));
    // An important event would stand behind all that are under way.
    let sorted = consume_with(&service, None, with(Property::new("OrderPolicy", 2_i16)), |_| Ok(()));
    assert_eq!(qos_of(&sorted.consumer, "PushWindow"), Value::UShort(1));
    let channel = make_channel(&service, &[Property::new("PushWindow", 5_u16)], &[]);
    assert_eq!(qos_of(&consume(&service, Some(channel)).consumer, "PushWindow"), Value::UShort(5));
}

#[test]
fn an_event_refused_in_the_midst_of_a_window_comes_before_all_later_ones() {
    // The 64 pushes that were sent behind it are refused with it, without asking the callback, and come again behind it.
    let service = start();
    let (enter, entered) = channel();
    let (open, gate) = channel::<()>();
    let mut refusals = 0;
    let consumer = consume_with(&service, None, ConsumerOptions::default(), move |event| {
        let number = number(event);
        if number == 0 {
            enter.send(()).unwrap();
            let _ = gate.recv();
        }
        let refuses = number == 20 && refusals < 3;
        refusals += u32::from(refuses);
        if refuses { Err(ServantError::system(Kind::Transient)) } else { Ok(()) }
    });
    let supplier = supply(&service, None);
    supplier.publish(&event("s", 0, 0)).unwrap();
    entered.next_in_time();
    publish(&supplier, 1..500, 0);
    // A whole window is under way now.
    open.send(()).unwrap();
    assert_eq!(consumer.numbers(500), (0..500).collect::<Vec<_>>(), "each once, in order");
    wait_until("the last answer", || service.counters().read(Counter::Delivered) == 500);
    // The first refusal met events behind it; the others came alone.
    assert!(consumer.consumer.served().refused > 0);
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn a_larger_window_and_one_way_pushes_keep_the_order() {
    let service = start();
    let windowed = ConsumerOptions { qos: vec![Property::new("PushWindow", 16_u16)], ..ConsumerOptions::default() };
    let one_way = ConsumerOptions { qos: vec![Property::new("PushOneWay", true)], ..ConsumerOptions::default() };
    let consumers =
        [consume_with(&service, None, windowed, |_| Ok(())), consume_with(&service, None, one_way, |_| Ok(()))];
    let supplier = supply(&service, None);
    publish(&supplier, 0..2000, 1000);
    for consumer in &consumers {
        assert_eq!(consumer.numbers(2000), (0..2000).collect::<Vec<_>>());
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn large_events_pass() {
    let service = start();
    let consumer = consume(&service, None);
    let supplier = supply(&service, None);
    publish(&supplier, 0..5, 8 << 20);
    for number in 0..5 {
        assert_eq!(consumer.events.next_in_time(), event("s", number, 8 << 20));
    }
}
