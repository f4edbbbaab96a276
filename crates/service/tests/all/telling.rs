//! What the service calls on its clients beside events: changes of offers and subscriptions, and probes. And what it calls
//! on itself, where one channel supplies another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use client::notify::{
    ClientType, EventType, Property, ProxyPullConsumer, ProxyPullSupplier, SequenceProxyPushConsumer,
    SequenceProxyPushSupplier, StructuredEvent, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
    SupplierCallbacks, SupplierServant,
};
use client::{Activation, InvokeError, ObjectRef, Orb, OrbOptions};
use giop::exception::{Kind, OMG_MINOR, SystemException};
use giop::message::{MessageKind, Request};
use service::{Compatibility, Config, Counter};
use testing::NextInTime;

use crate::kinds::{Consumer, Model, Supplier, new_channel};
use crate::peers::{Bare, Link, numbered, start, start_with, subscribe, supply, wait_until};

/// Passes on the calls to a supplier's object.
struct Teller(std::sync::Mutex<Sender<(Vec<EventType>, Vec<EventType>)>>);

impl SupplierCallbacks for Teller {
    fn subscription_change(&self, added: &[EventType], removed: &[EventType]) {
        // The test may have heard enough.
        let _ = self.0.lock().unwrap().send((added.to_vec(), removed.to_vec()));
    }
}

type Changes = Receiver<(Vec<EventType>, Vec<EventType>)>;

/// A structured push supplier that hears of subscriptions.
fn listening_supplier(proxy: &ObjectRef) -> (StructuredProxyPushConsumer, Changes, Activation) {
    let (sender, changes) = channel();
    let servant = SupplierServant::structured(Teller(sender.into()));
    let activation = Orb::new(OrbOptions::default()).activate(Arc::new(servant)).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.clone());
    proxy.connect_structured_push_supplier(Some(activation.reference())).unwrap();
    (proxy, changes, activation)
}

#[test]
fn a_supplier_learns_which_consumers_listen_and_that_none_does() {
    let service = start();
    let channel = new_channel(&service);
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let (_supplier, changes, _servant) = listening_supplier(proxy.object());
    let consumer = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
    let wants = StructuredProxyPushSupplier::unchecked(consumer.clone());
    wants.subscription_change(&[EventType::new("Test", "Pair")], &[EventType::any()]).unwrap();
    let _consumer = Consumer::connect(consumer, ClientType::Structured, Model::Push);
    assert_eq!(changes.next_in_time(), (vec![EventType::new("Test", "Pair")], vec![]));
    wants.disconnect_structured_push_supplier().unwrap();
    assert_eq!(changes.next_in_time(), (vec![], vec![EventType::new("Test", "Pair")]));
}

/// TAO's suppliers hear of types and never of everything: a consumer that has types and adds `*` takes them away, for its suppliers. Here
/// they heard of `*`, under `tao-notify` as well.
#[test]
fn a_supplier_is_notified_of_everything_but_where_taos_way_is_asked_for() {
    for is_on in [false, true] {
        let compatibility = Compatibility { tao_event_types: is_on, ..Compatibility::default() };
        let service = start_with(Config { compatibility, ..Config::default() });
        let channel = new_channel(&service);
        let admin = channel.default_supplier_admin().unwrap();
        let supply = || {
            let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
            listening_supplier(proxy.object())
        };
        let (_supplier, changes, _servant) = supply();
        let consumer = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
        let wants = StructuredProxyPushSupplier::unchecked(consumer.clone());
        let _consumer = Consumer::connect(consumer, ClientType::Structured, Model::Push);
        let (pair, any) = (EventType::new("Test", "Pair"), EventType::new("*", "*"));
        wants.subscription_change(std::slice::from_ref(&pair), &[]).unwrap();
        assert_eq!(changes.next_in_time(), (vec![pair.clone()], vec![]));
        // One that connects hears what there is, or what comes from then on.
        let (_other, others, _its) = supply();
        if is_on {
            assert_eq!(others.next_in_time(), (vec![pair.clone()], vec![]));
        }
        wants.subscription_change(std::slice::from_ref(&any), &[]).unwrap();
        let told = if is_on { (vec![], vec![pair]) } else { (vec![any], vec![pair]) };
        assert_eq!((changes.next_in_time(), others.next_in_time()), (told.clone(), told));
    }
}

#[test]
fn a_consumer_that_does_not_answer_a_change_gets_its_events_all_the_same() {
    let service = start();
    let bare = Bare::new();
    let _proxy = subscribe(&service, bare.reference(), &[]);
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("DefaultEventChannel")).unwrap();
    let channel = client::notify::EventChannel::unchecked(found);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    let offers = StructuredProxyPushConsumer::unchecked(supplier.proxy().clone());
    offers.offer_change(&[EventType::new("Test", "Pair")], &[EventType::any()]).unwrap();
    supplier.give("Pair", 0..1);
    // On the same connection, in either order; only the event is answered.
    let mut link = bare.accept();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (header, bytes) = link.message().unwrap();
        assert_eq!(header.kind, MessageKind::Request);
        let request = Request::parse(&bytes, &header).unwrap();
        seen.push(String::from_utf8(request.operation.to_vec()).unwrap());
        if request.operation == b"push_structured_event" {
            link.reply(request.request_id, giop::message::ReplyStatus::NoException, None);
        }
    }
    seen.sort();
    assert_eq!(seen, ["offer_change", "push_structured_event"]);
    wait_until("the event is delivered", || service.counters().read(Counter::Delivered) == 1);
}

#[test]
fn a_client_that_is_no_more_is_found_and_disconnected() {
    let service = start();
    let channel = new_channel(&service);
    // Often, so that the test need not wait long; it waits for what happens, not for a time.
    channel.set_qos(&[Property::new("ProbeInterval", 1_000_000_u64)]).unwrap();
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let orb = Orb::new(OrbOptions::default());
    let servant = |object: &ObjectRef| {
        let activation = orb.activate(Arc::new(SupplierServant::structured(()))).unwrap();
        let proxy = StructuredProxyPushConsumer::unchecked(object.clone());
        proxy.connect_structured_push_supplier(Some(activation.reference())).unwrap();
        activation
    };
    let (other, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let (dead, _alive) = (servant(proxy.object()), servant(other.object()));
    drop(dead);
    wait_until("it is found", || service.counters().read(Counter::ClientsReaped) == 1);
    assert!(is_gone(proxy.object()));
    assert!(!is_gone(other.object()));
}

fn is_gone(object: &ObjectRef) -> bool {
    match object.non_existent() {
        Ok(gone) => gone,
        Err(InvokeError::System { exception, .. }) => exception.kind == Kind::ObjectNotExist,
        Err(other) => panic!("{other}"),
    }
}

/// JacORB's tests destroy a channel and look at once whether their clients were disconnected.
#[test]
fn a_channel_is_destroyed_when_its_clients_know_it_and_a_mute_one_holds_that_up_for_a_second_only() {
    let service = start();
    let early = || service.counters().read(Counter::DestroysNotWaitedFor);
    for mute in [false, true] {
        let channel = new_channel(&service);
        let admin = channel.default_supplier_admin().unwrap();
        let orb = Orb::new(OrbOptions::default());
        let clients: Vec<_> = (0..5)
            .map(|_| {
                let told = Arc::new(AtomicBool::new(false));
                let servant = SupplierServant::structured(Arc::clone(&told));
                let activation = orb.activate(Arc::new(servant)).unwrap();
                let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
                let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
                proxy.connect_structured_push_supplier(Some(activation.reference())).unwrap();
                (told, activation)
            })
            .collect();
        let bare = Bare::new();
        if mute {
            let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
            let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
            let silent = orb.object(bare.reference());
            proxy.connect_structured_push_supplier(Some(&silent)).unwrap();
        }
        let before = early();
        channel.destroy().unwrap();
        if mute {
            assert_eq!(early(), before + 1);
        } else {
            // Where the machine has so much else to do that they cannot answer in a second, that is counted.
            assert!(clients.iter().all(|(told, _)| told.load(Ordering::Acquire)) || early() > before);
        }
    }
}

/// The operation of the next request on a connection.
fn next_operation(link: &mut Link) -> (u32, String) {
    let (header, bytes) = link.message().unwrap();
    assert_eq!(header.kind, MessageKind::Request);
    let request = Request::parse(&bytes, &header).unwrap();
    (request.request_id, String::from_utf8(request.operation.to_vec()).unwrap())
}

/// A supervisor disconnected another program's proxy, and that program waited for events for ever: its object was never called. Event
/// Service 1.2, 2.1: it is; once, behind the reply, which does not wait for it.
#[test]
fn the_object_that_was_connected_to_a_proxy_is_notified_when_the_proxy_is_disconnected() {
    let service = start();
    let consumer = Bare::new();
    let proxy = subscribe(&service, consumer.reference(), &[]);
    // It is not called before: nothing was supplied. It does not answer.
    StructuredProxyPushSupplier::unchecked(proxy.clone()).disconnect_structured_push_supplier().unwrap();
    assert!(is_gone(&proxy));
    let mut link = consumer.accept();
    assert_eq!(next_operation(&mut link).1, "disconnect_structured_push_consumer");
    // A supplier that pushes, on a connection of its own; and one that answers by disconnecting again.
    let channel = new_channel(&service);
    let supplier = Bare::new();
    let (proxy, _) =
        channel.default_supplier_admin().unwrap().obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    let orb = Orb::new(OrbOptions::default());
    proxy.connect_structured_push_supplier(Some(&orb.object(supplier.reference()))).unwrap();
    proxy.disconnect_structured_push_consumer().unwrap();
    let mut link = supplier.accept();
    let (request, operation) = next_operation(&mut link);
    assert_eq!(operation, "disconnect_structured_push_supplier");
    assert!(proxy.disconnect_structured_push_consumer().is_err(), "the proxy is gone");
    link.reply(request, giop::message::ReplyStatus::NoException, None);
    // An object of a program that has ended keeps nothing up, and nothing is tried again.
    let gone = Bare::new();
    let reference = gone.reference();
    let proxy = subscribe(&service, reference, &[]);
    drop(gone);
    StructuredProxyPushSupplier::unchecked(proxy.clone()).disconnect_structured_push_supplier().unwrap();
    assert!(is_gone(&proxy));
}

/// What TAO's clients do not expect is switched off for them.
#[test]
fn no_disconnection_is_notified_where_that_is_switched_off() {
    let compatibility = Compatibility { tell_on_disconnect: false, ..Compatibility::default() };
    let service = start_with(Config { compatibility, ..Config::default() });
    let consumer = Bare::new();
    let first = subscribe(&service, consumer.reference(), &[]);
    StructuredProxyPushSupplier::unchecked(first.clone()).disconnect_structured_push_supplier().unwrap();
    // The next thing that it hears is an event, by another proxy.
    let _second = subscribe(&service, consumer.reference(), &[]);
    supply(&service).publish(&numbered(7)).unwrap();
    assert_eq!(next_operation(&mut consumer.accept()).1, "push_structured_event");
}

/// TAO's service says `OBJECT_NOT_EXIST` with the OMG's minor code 2, which ALMA's suppliers look at; here it was 0.
#[test]
fn a_client_that_pushes_to_a_proxy_that_is_gone_gets_the_minor_code_of_the_omg() {
    let service = start();
    let channel = new_channel(&service);
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None).unwrap();
    let event = StructuredEvent::new("Test", "Gone", "");
    proxy.push_structured_event(&event).unwrap();
    proxy.disconnect_structured_push_consumer().unwrap();
    // On the lane and in administration.
    for refused in [proxy.push_structured_event(&event), proxy.disconnect_structured_push_consumer()] {
        let Err(InvokeError::System { exception, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(exception, SystemException::new(Kind::ObjectNotExist, OMG_MINOR | 2));
    }
}

#[test]
fn a_consumer_whose_process_has_ended_is_given_up_although_there_are_no_events() {
    let service = start();
    let bare = Bare::new();
    let qos = [Property::new("ProbeInterval", 1_000_000_u64), Property::new("GiveUpAfter", 2_000_000_u64)];
    let proxy = subscribe(&service, bare.reference(), &qos);
    drop(bare);
    wait_until("it is found", || service.counters().read(Counter::ClientsReaped) == 1);
    assert!(is_gone(&proxy));
}

/// What `get_suppliers` tells of each: channel and proxy, whether its connection is open, events.
fn suppliers(statistics: &ObjectRef) -> Vec<([u32; 2], bool, u64)> {
    let reply = statistics.invoke("get_suppliers", |_| ()).unwrap();
    let read = |r: &mut giop::cdr::Reader<'_>| -> Result<_, giop::cdr::ReadError> {
        let count = r.u32()?;
        let entries = (0..count).map(|_| {
            let (proxy, _name, client) = ([r.u32()?, r.u32()?], r.text()?, r.text()?);
            assert_eq!(client, "127.0.0.1");
            let [pulled, probed, open] = [r.bool()?, r.bool()?, r.bool()?];
            assert!(!pulled && !probed);
            let (events, _idle) = (r.u64()?, r.u64()?);
            Ok((proxy, open, events))
        });
        entries.collect()
    };
    reply.read("get_suppliers", read).unwrap()
}

/// A program without an object of its own pushed, and ended without a word. That could not be seen, and its proxy could be removed only
/// with the proxy's reference.
#[test]
fn a_supplier_whose_program_has_ended_is_listed_and_an_operator_disconnects_it() {
    let service = start();
    let channel = new_channel(&service);
    let admin = channel.default_supplier_admin().unwrap();
    let supplier = |program: &Orb, events: u32| {
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        let theirs = program.object(proxy.object().ior().clone());
        let proxy = StructuredProxyPushConsumer::unchecked(theirs);
        proxy.connect_structured_push_supplier(None).unwrap();
        for _ in 0..events {
            proxy.push_structured_event(&StructuredEvent::new("Test", "Idle", "")).unwrap();
        }
        proxy
    };
    let (ended, running) = (Orb::new(OrbOptions::default()), Orb::new(OrbOptions::default()));
    let (dead, alive) = (supplier(&ended, 3), supplier(&running, 2));
    drop((dead, ended));
    let statistics = running.resolve(&service.corbaloc("Statistics")).unwrap();
    let standing = || suppliers(&statistics).into_iter().map(|(_, open, events)| (open, events)).collect::<Vec<_>>();
    wait_until("its connection is closed", || standing() == [(false, 3), (true, 2)]);
    let disconnect = |proxy: [u32; 2]| {
        let write = |w: &mut giop::cdr::Writer<'_>| proxy.into_iter().for_each(|number| w.u32(number));
        statistics.invoke("disconnect", write).unwrap().read("disconnect", |r| r.bool()).unwrap()
    };
    let (first, ..) = suppliers(&statistics)[0];
    assert!(disconnect(first) && !disconnect(first));
    assert_eq!(standing(), [(true, 2)]);
    let idle =
        statistics.invoke("disconnect_idle", |w| w.u64(0)).unwrap().read("disconnect_idle", |r| r.u32()).unwrap();
    assert_eq!(idle, 1);
    assert!(is_gone(alive.object()));
    assert_eq!(service.counters().read(Counter::SuppliersIdle), 1);
}

#[test]
fn one_channel_supplies_another_and_that_a_third() {
    let service = start();
    let channels = [new_channel(&service), new_channel(&service), new_channel(&service)];
    let [first, second, third] = &channels;
    // Sequences are pushed from the first to the second, Anys are pulled from there to the third.
    let out = first.default_consumer_admin().unwrap().obtain_notification_push_supplier(ClientType::Sequence);
    let into = second.default_supplier_admin().unwrap().obtain_notification_push_consumer(ClientType::Sequence);
    let (out, into) = (out.unwrap().0.object().clone(), into.unwrap().0.object().clone());
    SequenceProxyPushSupplier::unchecked(out.clone()).connect_sequence_push_consumer(&into).unwrap();
    SequenceProxyPushConsumer::unchecked(into).connect_sequence_push_supplier(Some(&out)).unwrap();
    let out = second.default_consumer_admin().unwrap().obtain_notification_pull_supplier(ClientType::Any);
    let into = third.default_supplier_admin().unwrap().obtain_notification_pull_consumer(ClientType::Any);
    let (out, into) = (out.unwrap().0.object().clone(), into.unwrap().0.object().clone());
    ProxyPullSupplier::unchecked(out.clone()).connect_any_pull_consumer(None).unwrap();
    ProxyPullConsumer::unchecked(into).connect_any_pull_supplier(&out).unwrap();
    let consumer = Consumer::new(third, ClientType::Structured, Model::Push);
    let supplier = Supplier::new(first, ClientType::Structured, Model::Push);
    supplier.give("Pair", 0..30);
    assert_eq!(consumer.numbers(30), (0..30).collect::<Vec<i32>>());
    // What the second channel loses, the others lose: a disconnected client, no more.
    second.destroy().unwrap();
    supplier.give("Pair", 30..31);
    wait_until("the first channel's proxy is gone", || {
        first.default_consumer_admin().unwrap().push_suppliers().unwrap().is_empty()
    });
    wait_until("the third channel's proxy is gone", || {
        third.default_supplier_admin().unwrap().pull_consumers().unwrap().is_empty()
    });
}
