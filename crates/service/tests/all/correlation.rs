//! Consumers with `When`: a sequence is a set of events that belong together, and single events tell theirs.

use client::notify::{
    ClientType, EventChannel, Property, ProxySupplier, SequenceProxyPullSupplier, StructuredEvent,
    StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
use client::{Orb, OrbOptions};
use giop::value::Value;
use service::Counter;

use crate::json;
use crate::kinds::{Consumer, Model, new_channel};
use crate::peers::{Bare, await_count, start};
use crate::persistent::{Folder, channel, factory, number, persistent, supplier};

fn event(name: &str, antenna: &str, number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Site", name, "");
    event.filterable_data.push(Property::new("antenna", antenna));
    event.filterable_data.push(Property::new("number", number));
    event
}

/// A consumer that pulls sets.
fn consumer(channel: &EventChannel, when: &str) -> SequenceProxyPullSupplier {
    let proxy = Consumer::obtain(channel, ClientType::Sequence, Model::Pull);
    ProxySupplier::unchecked(proxy.clone()).set_qos(&[Property::new("When", when)]).unwrap();
    let proxy = SequenceProxyPullSupplier::unchecked(proxy);
    proxy.connect_sequence_pull_consumer(None).unwrap();
    proxy
}

/// The numbers of the next set's events.
fn set(proxy: &SequenceProxyPullSupplier) -> Vec<i32> {
    proxy.pull_structured_events(10).unwrap().iter().map(number).collect()
}

fn publish(supplier: &StructuredProxyPushConsumer, events: &[(&str, &str, i32)]) {
    for (name, antenna, number) in events {
        supplier.push_structured_event(&event(name, antenna, *number)).unwrap();
    }
}

fn supplier_of(channel: &EventChannel) -> StructuredProxyPushConsumer {
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None).unwrap();
    proxy
}

#[test]
fn a_consumer_of_sequences_gets_sets_of_events_and_what_is_in_none_is_counted() {
    let service = start();
    let channel = new_channel(&service);
    let sets = consumer(&channel, "Site/Position and Weather[$number < 100] same antenna keep 3");
    let supplier = supplier_of(&channel);
    publish(&supplier, &[("Position", "DV01", 1), ("Position", "DV02", 2), ("Weather", "DV02", 900)]);
    publish(&supplier, &[("Other", "DV02", 3), ("Weather", "DV02", 4), ("Weather", "DV01", 5)]);
    assert_eq!([set(&sets), set(&sets)], [[2, 4], [1, 5]]);
    assert_eq!(sets.try_pull_structured_events(10).unwrap(), None);
    publish(
        &supplier,
        &[("Weather", "DV01", 6), ("Weather", "DV02", 7), ("Weather", "DV03", 8), ("Weather", "DV04", 9)],
    );
    await_count(&service, Counter::DroppedUncorrelated, 1);
    publish(&supplier, &[("Position", "DV04", 10)]);
    assert_eq!(set(&sets), [9, 10]);
}

#[test]
fn persistent_events_that_wait_for_others_and_sets_not_taken_are_there_after_a_restart() {
    let folder = Folder::new("correlation");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let sets = consumer(&channel(&service, id), "A and B same antenna");
    publish(&supplier(&service, id), &[("A", "DV01", 1), ("A", "DV02", 2), ("A", "DV03", 3)]);
    publish(&supplier(&service, id), &[("B", "DV02", 4), ("B", "DV01", 5)]);
    assert_eq!(set(&sets), [2, 4]);
    let sets = again(&sets);
    let service = folder.start(&config, Some(service));
    assert_eq!(set(&sets), [1, 5]);
    publish(&supplier(&service, id), &[("B", "DV03", 6)]);
    assert_eq!(set(&sets), [3, 6]);
    assert_eq!(sets.try_pull_structured_events(10).unwrap(), None);
}

/// The same proxy, for a client that has no connection yet.
fn again(proxy: &SequenceProxyPullSupplier) -> SequenceProxyPullSupplier {
    let orb = Orb::new(OrbOptions::default());
    SequenceProxyPullSupplier::unchecked(orb.object(proxy.object().ior().clone()))
}

/// An event's number, its set and its place there.
fn placed(event: &StructuredEvent) -> (i32, u64, u32) {
    let value = |name: &str| {
        let mut found = event.variable_header.iter().filter(|property| property.name == name);
        let value = found.next().unwrap_or_else(|| panic!("{event:?} has no {name}")).value.value.clone();
        assert!(found.next().is_none(), "{event:?}");
        value
    };
    match (value("CorrelationSet"), value("CorrelationIndex")) {
        (Value::ULongLong(set), Value::ULong(index)) => (number(event), set, index),
        other => panic!("{other:?}"),
    }
}

#[test]
fn single_events_tell_their_set_and_their_place_whether_pushed_or_pulled() {
    let service = start();
    let channel = new_channel(&service);
    let pulled = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    let when = [Property::new("When", "A and B or C same antenna")];
    ProxySupplier::unchecked(pulled.clone()).set_qos(&when).unwrap();
    let pulled = StructuredProxyPullSupplier::unchecked(pulled);
    pulled.connect_structured_pull_consumer(None).unwrap();
    let bare = Bare::new();
    let pushed = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
    ProxySupplier::unchecked(pushed.clone()).set_qos(&when).unwrap();
    let reference = channel.object().orb().object(bare.reference());
    StructuredProxyPushSupplier::unchecked(pushed).connect_structured_push_consumer(&reference).unwrap();
    let supplier = supplier_of(&channel);
    publish(&supplier, &[("A", "DV01", 1), ("A", "DV02", 2), ("C", "DV01", 3), ("B", "DV02", 4)]);
    // What another service wrote there is not believed.
    let mut forged = event("B", "DV01", 5);
    forged.variable_header.push(Property::new("CorrelationSet", 7_u64));
    supplier.push_structured_event(&forged).unwrap();
    let expected = [(3, 1, 0), (2, 2, 0), (4, 2, 1), (1, 3, 0), (5, 3, 1)];
    let mut link = bare.accept();
    for expected in expected {
        assert_eq!(placed(&pulled.pull_structured_event().unwrap()), expected);
        assert_eq!(placed(&link.accept_push()), expected);
    }
}

#[test]
fn a_subscription_in_json_says_when_and_its_lines_tell_their_set() {
    let service = json::start();
    let mut sets = json::Lines::subscribed(&service, r#","types":["Site/*"],"when":"A and B same antenna""#);
    let mut publisher = json::Lines::connect(&service);
    for (id, (name, antenna)) in (1..).zip([("A", 1), ("A", 2), ("C", 2), ("B", 2), ("B", 1)]) {
        let line = format!(
            r#"{{"op":"publish","id":{id},"type":"Site/{name}","fields":{{"antenna":{antenna},"number":{id}}}}}"#
        );
        assert_eq!(publisher.ask(&line), format!(r#"{{"ok":{id}}}"#));
    }
    for (name, antenna, number, set, index) in
        [("A", 2, 2, 1, 0), ("B", 2, 4, 1, 1), ("A", 1, 1, 2, 0), ("B", 1, 5, 2, 1)]
    {
        let event = format!(
            r#"{{"channel":0,"type":"Site/{name}","name":"","fields":{{"antenna":{antenna},"number":{number}}},"body":null}}"#
        );
        let line = format!(r#"{{"event":{event},"set":{{"number":{set},"index":{index}}}}}"#);
        assert_eq!(sets.line(), Some(line));
    }
    let refused = sets.ask(r#"{"op":"subscribe","id":2,"when":"A and not B"}"#);
    assert!(refused.starts_with(r#"{"error":2,"reason":"\"when\" is no correlation: column 7"#), "{refused}");
    assert_eq!(sets.ask(json::PING), json::PONG);
}
