//! Filters that clients implement, on either side of a channel.

use std::sync::Arc;

use client::notify::{
    ClientType, Filter, FilterServant, Property, ProxyConsumer, ProxySupplier, StructuredProxyPushConsumer,
};
use client::{Activation, ObjectRef, Orb, OrbOptions, ServantError};
use giop::exception::Kind;
use giop::ior::Ior;
use service::Counter;
use testing::EndInTime;

use crate::kinds::{Consumer, FORMS, Got, Model, Supplier, connect_pulling, new_channel, try_pull};
use crate::peers::{Bare, await_count, start, wait_until};

/// A filter that lets even numbers pass, and fails at 13.
fn even() -> Activation {
    let filter = FilterServant::new(|question| {
        let number = Got::from(question.event()?).number;
        if number == 13 { Err(ServantError::system(Kind::Internal)) } else { Ok(number % 2 == 0) }
    });
    Orb::new(OrbOptions::default()).activate(Arc::new(filter)).unwrap()
}

/// A filter that is only a listening socket.
fn bare_filter(bare: &Bare) -> Filter {
    let type_id = "IDL:omg.org/CosNotifyFilter/Filter:1.0".into();
    let ior = Ior { type_id, ..bare.reference() };
    Filter::unchecked(Orb::new(OrbOptions::default()).object(ior))
}

fn filter_of(activation: &Activation) -> Filter {
    Filter::unchecked(activation.reference().clone())
}

fn filter_consumer(proxy: &ObjectRef, filter: &Filter) {
    ProxySupplier::unchecked(proxy.clone()).add_filter(filter).unwrap();
}

fn filter_supplier(proxy: &ObjectRef, filter: &Filter) {
    ProxyConsumer::unchecked(proxy.clone()).add_filter(filter).unwrap();
}

fn evens(below: i32) -> Vec<i32> {
    (0..below).filter(|number| number % 2 == 0).collect()
}

#[test]
fn a_clients_filter_decides_what_each_kind_of_consumer_gets() {
    let service = start();
    let channel = new_channel(&service);
    let filter = even();
    let kinds = FORMS.into_iter().flat_map(|form| [Model::Push, Model::Pull].map(|model| (form, model)));
    let consumers: Vec<Consumer> = kinds
        .map(|(form, model)| {
            let proxy = Consumer::obtain(&channel, form, model);
            filter_consumer(&proxy, &filter_of(&filter));
            Consumer::connect(proxy, form, model)
        })
        .collect();
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    supplier.give("Filtered", 0..21);
    for consumer in &consumers {
        assert_eq!(consumer.numbers(11), evens(21));
    }
    await_count(&service, Counter::DroppedFilterFailed, 6);
    assert_eq!(service.counters().read(Counter::Dropped), 6);
}

#[test]
fn a_clients_filter_decides_what_is_taken_from_each_kind_of_supplier() {
    let service = start();
    let filter = even();
    for form in FORMS {
        for model in [Model::Push, Model::Pull] {
            let channel = new_channel(&service);
            let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
            let supplier = Supplier::new(&channel, form, model);
            filter_supplier(supplier.proxy(), &filter_of(&filter));
            supplier.give("Filtered", 0..21);
            assert_eq!(consumer.numbers(11), evens(21), "{form:?} {model:?}");
        }
    }
    assert_eq!(service.counters().read(Counter::FilteredIn), 9 * 6);
    assert_eq!(service.counters().read(Counter::FilteredInFailed), 6);
}

/// So many milliseconds as a `TimeT`.
fn millis(name: &str, millis: u64) -> Property {
    Property::new(name, millis * 10_000)
}

#[test]
fn a_filter_that_hangs_delays_only_its_own_consumer() {
    let service = start();
    let channel = new_channel(&service);
    let bare = Bare::new();
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
    filter_consumer(&proxy, &bare_filter(&bare));
    ProxySupplier::unchecked(proxy.clone()).set_qos(&[millis("FilterTimeout", 50)]).unwrap();
    let filtered = Consumer::connect(proxy.clone(), ClientType::Structured, Model::Push);
    let other = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    supplier.give("Filtered", 0..3);
    assert_eq!(other.numbers(3), [0, 1, 2]);
    let mut link = bare.accept();
    assert!(link.message().is_some(), "it is asked");
    wait_until("the events are dropped", || service.counters().read(Counter::DroppedFilterFailed) == 3);
    ProxySupplier::unchecked(proxy).remove_all_filters().unwrap();
    supplier.give("Filtered", 3..4);
    assert_eq!(filtered.numbers(1), [3]);
}

#[test]
fn a_filter_that_hangs_holds_only_its_own_supplier() {
    let service = start();
    let channel = new_channel(&service);
    let bare = Bare::new();
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let held = Supplier::new(&channel, ClientType::Structured, Model::Push);
    filter_supplier(held.proxy(), &bare_filter(&bare));
    ProxyConsumer::unchecked(held.proxy().clone()).set_qos(&[millis("FilterTimeout", 200)]).unwrap();
    let private = StructuredProxyPushConsumer::unchecked(held.proxy().with_private_connection());
    let waits = std::thread::spawn(move || private.push_structured_event(&crate::kinds::event_of("Filtered", 0)));
    let mut link = bare.accept();
    assert!(link.message().is_some(), "it is asked");
    let other = Supplier::new(&channel, ClientType::Structured, Model::Push);
    other.give("Other", 1..3);
    assert_eq!(consumer.numbers(2), [1, 2]);
    // A push succeeds whether or not a filter lets its event pass.
    waits.end_in_time().unwrap();
    assert_eq!(service.counters().read(Counter::FilteredInFailed), 1);
}

#[test]
fn try_pull_waits_for_the_filter_and_says_then_that_there_is_nothing() {
    let service = start();
    let channel = new_channel(&service);
    let filter = even();
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    filter_consumer(&proxy, &filter_of(&filter));
    connect_pulling(&proxy, ClientType::Structured);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    supplier.give("Filtered", 1..2);
    assert_eq!(try_pull(&proxy, ClientType::Structured).unwrap(), []);
    supplier.give("Filtered", 3..5);
    let got = try_pull(&proxy, ClientType::Structured).unwrap();
    assert_eq!(got.into_iter().map(|got| got.number).collect::<Vec<i32>>(), [4]);
}

#[test]
fn a_filter_that_is_gone_counts_as_one_that_says_no() {
    let service = start();
    let channel = new_channel(&service);
    let gone = even();
    let reference = filter_of(&gone);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
    // One that says yes is enough for the group.
    let alive = even();
    filter_consumer(&proxy, &reference);
    filter_consumer(&proxy, &filter_of(&alive));
    let consumer = Consumer::connect(proxy, ClientType::Structured, Model::Push);
    drop(gone);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Filtered", 0..5);
    assert_eq!(consumer.numbers(3), [0, 2, 4]);
    assert!(service.counters().read(Counter::RemoteFilterFailures) >= 5);
}

/// All filters of a client were programs of their own, on one host that died. A proxy that is notified of one lost connection delivers,
/// which may find the next one lost: each was notified within the notification of the one before, as deep as there were filters.
#[test]
fn very_many_filters_that_are_lost_at_once_are_reported_one_after_the_other() {
    const FILTERS: usize = 200;
    let service = start();
    let channel = new_channel(&service);
    let all: Vec<(Bare, Consumer)> = (0..FILTERS)
        .map(|_| {
            let bare = Bare::new();
            let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
            filter_consumer(&proxy, &bare_filter(&bare));
            (bare, Consumer::connect(proxy, ClientType::Structured, Model::Pull))
        })
        .collect();
    let other = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    supplier.give("Filtered", 0..10);
    assert_eq!(other.numbers(10), (0..10).collect::<Vec<i32>>());
    // Each has been asked about its first event, and has the others behind it.
    let links: Vec<_> = all
        .iter()
        .map(|(bare, _)| {
            let mut link = bare.accept();
            assert!(link.message().is_some());
            link
        })
        .collect();
    let (bares, _consumers): (Vec<Bare>, Vec<Consumer>) = all.into_iter().unzip();
    drop((links, bares));
    let failed = || service.counters().read(Counter::DroppedFilterFailed);
    wait_until("none of their events to pass", || failed() == 10 * FILTERS as u64);
    supplier.give("Filtered", 10..20);
    assert_eq!(other.numbers(10), (10..20).collect::<Vec<i32>>());
}
