//! Sequences of events that are refused in the middle, or tried again; and what events say of themselves.

use std::sync::Arc;
use std::sync::mpsc;

use client::notify::{
    CallbackConsumer, ClientType, Delivery, Property, ProxySupplier, SequenceProxyPushConsumer,
    SequenceProxyPushSupplier, StructuredEvent, StructuredProxyPushConsumer,
};
use client::{InvokeError, Orb, OrbOptions, ServantError};
use giop::exception::Kind;
use giop::ior::Profile;
use service::Counter;
use testing::NextInTime;

use crate::kinds::{Consumer, Got, Model, Supplier, connect_pulling, event_of, new_channel, try_pull};
use crate::peers::{await_count, start, wait_until};
use crate::persistent::factory;

fn events(numbers: core::ops::Range<i32>) -> Vec<StructuredEvent> {
    numbers.map(|number| event_of("Sequence", number)).collect()
}

#[test]
fn an_event_that_is_refused_ends_its_sequence_and_those_before_it_stay() {
    let service = start();
    let admin = [Property::new("MaxQueueLength", 3_i32), Property::new("RejectNewEvents", true)];
    let (channel, _) = factory(&service).create_channel(&[], &admin).unwrap();
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    connect_pulling(&proxy, ClientType::Structured);
    let Supplier::Sequence(supplier) = Supplier::new(&channel, ClientType::Sequence, Model::Push) else {
        unreachable!()
    };
    let refused = supplier.push_structured_events(&events(0..5));
    let is_limit = |error: &InvokeError| matches!(error, InvokeError::System { exception, .. } if exception.kind == Kind::ImpLimit);
    assert!(refused.as_ref().is_err_and(is_limit), "{refused:?}");
    let got: Vec<i32> =
        (0..4).flat_map(|_| try_pull(&proxy, ClientType::Structured).unwrap()).map(|got| got.number).collect();
    assert_eq!(got, [0, 1, 2]);
    await_count(&service, Counter::EventsRefused, 1);
}

#[test]
fn a_sequence_that_cannot_be_read_brings_no_event() {
    let service = start();
    let channel = new_channel(&service);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let Supplier::Sequence(supplier) = Supplier::new(&channel, ClientType::Sequence, Model::Push) else {
        unreachable!()
    };
    let refused = supplier.push_written(|w| {
        w.u32(2);
        event_of("Sequence", 0).write(w).unwrap();
        w.u32(7);
    });
    assert!(refused.is_err());
    supplier.push_structured_events(&[]).unwrap();
    supplier.push_structured_events(&events(1..2)).unwrap();
    assert_eq!(consumer.numbers(1), [1]);
}

/// It was tried again whole: where one event in it was the reason, it failed again.
#[test]
fn a_sequence_that_fails_is_tried_again_in_order_and_in_parts_that_grow() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Push);
    let qos = [Property::new("MaximumBatchSize", 10_i32), Property::new("PacingInterval", 10_000_000_u64)];
    ProxySupplier::unchecked(proxy.clone()).set_qos(&qos).unwrap();
    let (sender, batches) = mpsc::channel::<Vec<i32>>();
    let mut failures = 2;
    let consumer = CallbackConsumer::sequence(move |delivery| {
        let Delivery::Batch(mut reader) = delivery else { return Ok(()) };
        let count = reader.seq_len(24)?;
        let numbers = (0..count).map(|_| Ok(Got::from(StructuredEvent::read(&mut reader)?).number));
        sender.send(numbers.collect::<Result<Vec<i32>, ServantError>>()?).unwrap();
        failures -= 1;
        if failures >= 0 { Err(ServantError::system(Kind::Transient)) } else { Ok(()) }
    });
    let servant = Orb::new(OrbOptions::default()).activate(Arc::new(consumer)).unwrap();
    SequenceProxyPushSupplier::unchecked(proxy).connect_sequence_push_consumer(servant.reference()).unwrap();
    let supplier = Supplier::new(&channel, ClientType::Sequence, Model::Push);
    let Supplier::Sequence(supplier) = supplier else { unreachable!() };
    SequenceProxyPushConsumer::push_structured_events(&supplier, &events(0..20)).unwrap();
    let batches: Vec<Vec<i32>> = (0..7).map(|_| batches.next_in_time()).collect();
    let expected = [0..10, 0..1, 0..1, 1..3, 3..7, 7..10, 10..20].map(Iterator::collect::<Vec<i32>>);
    assert_eq!(batches, expected);
}

/// An event with a character that its consumer's code set lacks was left out of the sequence, and counted as delivered with the others.
#[test]
fn an_event_that_cannot_be_put_into_a_sequence_is_dropped_and_the_others_are_delivered() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Push);
    let qos = [Property::new("MaximumBatchSize", 3_i32), Property::new("PacingInterval", 600_000_000_u64)];
    ProxySupplier::unchecked(proxy.clone()).set_qos(&qos).unwrap();
    let (sender, batches) = mpsc::channel::<Vec<i32>>();
    let consumer = CallbackConsumer::sequence(move |delivery| {
        let Delivery::Batch(mut reader) = delivery else { return Ok(()) };
        let count = reader.seq_len(24)?;
        let numbers = (0..count).map(|_| Ok(Got::from(StructuredEvent::read(&mut reader)?).number));
        sender.send(numbers.collect::<Result<Vec<i32>, ServantError>>()?).unwrap();
        Ok(())
    });
    let orb = Orb::new(OrbOptions::default());
    let servant = orb.activate(Arc::new(consumer)).unwrap();
    // It says of no code set that it knows it, and is sent ISO 8859-1.
    let mut reference = servant.reference().ior().clone();
    if let Some(Profile::Iiop(profile)) = reference.profiles.first_mut() {
        profile.components.clear();
    }
    let proxy = SequenceProxyPushSupplier::unchecked(proxy);
    proxy.connect_sequence_push_consumer(&orb.object(reference)).unwrap();
    let Supplier::Sequence(supplier) = Supplier::new(&channel, ClientType::Sequence, Model::Push) else {
        unreachable!()
    };
    let mut all = events(0..6);
    all[1].event_name = "東".into();
    SequenceProxyPushConsumer::push_structured_events(&supplier, &all).unwrap();
    assert_eq!([batches.next_in_time(), batches.next_in_time()], [vec![0, 2], vec![3, 4, 5]]);
    await_count(&service, Counter::Delivered, 5);
    assert_eq!(service.counters().read(Counter::DroppedUntranslatable), 1);
    assert_eq!(service.counters().read(Counter::LeftOut), 1);
}

/// A sequence consumer that answered `MARSHAL` to a batch of ten because of one event in it lost all ten, persistent ones too, without
/// a log line. `UNKNOWN`, a runtime exception in Java, is tried three times for the event alone.
#[test]
fn of_a_sequence_that_is_rejected_only_the_event_is_dropped_that_is_the_reason() {
    for (kind, tries) in [(Kind::Marshal, 1), (Kind::BadParam, 1), (Kind::Unknown, 3)] {
        let service = start();
        let channel = new_channel(&service);
        let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Push);
        let qos = [
            Property::new("MaximumBatchSize", 10_i32),
            Property::new("PacingInterval", 10_000_000_u64),
            Property::new("MarkRepeats", true),
        ];
        ProxySupplier::unchecked(proxy.clone()).set_qos(&qos).unwrap();
        let (sender, batches) = mpsc::channel::<(Vec<i32>, bool, bool)>();
        let consumer = CallbackConsumer::sequence(move |delivery| {
            let Delivery::Batch(mut reader) = delivery else { return Ok(()) };
            let (mut numbers, mut marks) = (Vec::new(), Vec::new());
            for _ in 0..reader.seq_len(24)? {
                let event = StructuredEvent::read(&mut reader)?;
                marks.push(event.variable_header.iter().any(|property| property.name == "PossiblyRepeated"));
                numbers.push(Got::from(event).number);
            }
            let is_taken = !numbers.contains(&6);
            assert!(marks.iter().all(|mark| *mark == marks[0]));
            sender.send((numbers, marks[0], is_taken)).unwrap();
            if is_taken { Ok(()) } else { Err(ServantError::system(kind)) }
        });
        let servant = Orb::new(OrbOptions::default()).activate(Arc::new(consumer)).unwrap();
        SequenceProxyPushSupplier::unchecked(proxy).connect_sequence_push_consumer(servant.reference()).unwrap();
        let Supplier::Sequence(supplier) = Supplier::new(&channel, ClientType::Sequence, Model::Push) else {
            unreachable!()
        };
        SequenceProxyPushConsumer::push_structured_events(&supplier, &events(0..10)).unwrap();
        let (mut taken, mut alone, mut calls) = (Vec::new(), 0, 0);
        while taken.len() < 9 {
            let (numbers, is_marked, is_taken) = batches.next_in_time();
            assert_eq!(is_marked, calls > 0, "{numbers:?}: all but the first are repeats");
            calls += 1;
            alone += u32::from(numbers == [6]);
            if is_taken {
                taken.extend(numbers);
            }
        }
        assert_eq!((taken, alone), ([0, 1, 2, 3, 4, 5, 7, 8, 9].to_vec(), tries), "{kind:?}");
        await_count(&service, Counter::Delivered, 9);
        await_count(&service, Counter::DroppedRejected, 1);
    }
}

#[test]
fn an_event_expires_by_what_its_header_says() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    connect_pulling(&proxy, ClientType::Structured);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    let proxy_consumer = StructuredProxyPushConsumer::unchecked(supplier.proxy().clone());
    let mut short = event_of("Timed", 0);
    // 10 ms.
    short.variable_header.push(Property::new("Timeout", 100_000_u64));
    proxy_consumer.push_structured_event(&short).unwrap();
    let mut odd = event_of("Timed", 1);
    odd.variable_header.push(Property::new("Timeout", "soon"));
    proxy_consumer.push_structured_event(&odd).unwrap();
    wait_until("it has expired", || service.counters().read(Counter::DroppedExpired) == 1);
    let got = try_pull(&proxy, ClientType::Structured).unwrap();
    assert_eq!(got.into_iter().map(|got| got.number).collect::<Vec<i32>>(), [1]);
    assert_eq!(service.counters().read(Counter::WrongHeaderFields), 1);
}

#[test]
fn events_leave_in_the_order_of_their_priorities() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    // PriorityOrder.
    ProxySupplier::unchecked(proxy.clone()).set_qos(&[Property::new("OrderPolicy", 2_i16)]).unwrap();
    connect_pulling(&proxy, ClientType::Structured);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    let proxy_consumer = StructuredProxyPushConsumer::unchecked(supplier.proxy().clone());
    for (number, priority) in [(0, 1_i16), (1, 5), (2, -3), (3, 5)] {
        let mut event = event_of("Important", number);
        event.variable_header.push(Property::new("Priority", priority));
        proxy_consumer.push_structured_event(&event).unwrap();
    }
    let got: Vec<i32> =
        (0..4).flat_map(|_| try_pull(&proxy, ClientType::Structured).unwrap()).map(|got| got.number).collect();
    assert_eq!(got, [1, 3, 0, 2]);
}
