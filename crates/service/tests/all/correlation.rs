//! Consumers of sequences with `When`: each sequence is a set of events that belong together.

use client::notify::{
    ClientType, EventChannel, Property, ProxySupplier, SequenceProxyPullSupplier, StructuredEvent,
    StructuredProxyPushConsumer,
};
use client::{Orb, OrbOptions};
use service::Counter;

use crate::kinds::{Consumer, Model, new_channel};
use crate::peers::{await_count, start};
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
