//! What a supplier's answer means: that consumers have its event (`AcknowledgeAfter` `Delivered`), or that a consumer which keeps up gets
//! what is new (`LatencyBound`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use client::notify::{ClientType, Property, SequenceProxyPushConsumer, StructuredProxyPushConsumer, ThreadPoolLanes};
use giop::message::ReplyStatus;
use giop::realtime::PriorityModel;
use service::{Counter, Service};
use testing::EndInTime;

use crate::peers::{Bare, await_count, numbered, start, subscribe_to, wait_until};
use crate::persistent::{Folder, channel, factory, persistent, supplier};

/// A push that another thread waits for the answer of.
struct Pushing {
    thread: JoinHandle<()>,
    is_answered: Arc<AtomicBool>,
}

fn push(from: &StructuredProxyPushConsumer, number: i32) -> Pushing {
    let (from, is_answered) =
        (StructuredProxyPushConsumer::unchecked(from.object().clone()), Arc::<AtomicBool>::default());
    let told = Arc::clone(&is_answered);
    let thread = thread::spawn(move || {
        from.push_structured_event(&numbered(number)).unwrap();
        told.store(true, Ordering::Release);
    });
    Pushing { thread, is_answered }
}

impl Pushing {
    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }
}

fn channel_with(service: &Service, qos: &[Property]) -> i32 {
    factory(service).create_channel(qos, &[]).unwrap().1
}

fn delivered(more: &[Property]) -> Vec<Property> {
    let mut qos = vec![Property::new("AcknowledgeAfter", "Delivered")];
    qos.extend_from_slice(more);
    qos
}

/// In units of 100 ns.
fn time(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / 100).unwrap()
}

/// The answer comes when the last of two consumers has answered, and not when the first has.
fn comes_when_both_have_it(service: &Service, id: i32, lanes: &[Property]) {
    let [first, second] = [(); 2].map(|()| Bare::new());
    subscribe_to(service, Some(id), first.reference(), &[]);
    subscribe_to(service, Some(id), second.reference(), lanes);
    let from = supplier(service, id);
    let (mut links, mut number) = (None, 0);
    for slow in [0, 1, 0, 1] {
        let pushing = push(&from, number);
        let links = links.get_or_insert_with(|| [first.accept(), second.accept()]);
        let ids = [0, 1].map(|at| links[at].push().0);
        let before = service.counters().read(Counter::Delivered);
        links[1 - slow].reply(ids[1 - slow], ReplyStatus::NoException, None);
        wait_until("the quick one's answer", || service.counters().read(Counter::Delivered) > before);
        assert!(!pushing.is_answered(), "the other has not answered");
        links[slow].reply(ids[slow], ReplyStatus::NoException, None);
        pushing.thread.end_in_time();
        number += 1;
    }
    assert_eq!(service.counters().read(Counter::AcknowledgedEarly), 0);
}

#[test]
fn a_supplier_is_answered_when_every_consumer_has_its_event() {
    let service = start();
    let id = channel_with(&service, &delivered(&[]));
    comes_when_both_have_it(&service, id, &[]);
}

/// Two of its events had one number, and it was never answered.
#[test]
fn a_sequence_is_answered_when_its_consumer_has_all_of_it() {
    let service = start();
    let id = channel_with(&service, &delivered(&[]));
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[]);
    let admin = channel(&service, id).default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Sequence).unwrap();
    let proxy = SequenceProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_sequence_push_supplier(None).unwrap();
    let mut link = None;
    for count in [1, 2, 3, 20] {
        let from = SequenceProxyPushConsumer::unchecked(proxy.object().clone());
        let pushing = thread::spawn(move || {
            let events: Vec<_> = (0..count).map(numbered).collect();
            from.push_structured_events(&events).unwrap();
        });
        let link = link.get_or_insert_with(|| bare.accept());
        (0..count).for_each(|_| _ = link.accept_push());
        pushing.end_in_time();
    }
    assert_eq!(service.counters().read(Counter::AcknowledgedEarly), 0);
}

#[test]
fn consumers_of_another_lane_are_waited_for() {
    let service = start();
    let id = channel_with(&service, &delivered(&[]));
    let lanes = ThreadPoolLanes::new(PriorityModel::ServerDeclared, 5, &[(5, 1)]);
    comes_when_both_have_it(&service, id, &[lanes.into()]);
}

#[test]
fn so_is_one_whose_event_is_on_disk_first() {
    let folder = Folder::new("delivered");
    let service = folder.start(&folder.config(), None);
    let id = channel_with(&service, &delivered(&[persistent()]));
    let lanes = ThreadPoolLanes::new(PriorityModel::ServerDeclared, 5, &[(5, 1)]);
    comes_when_both_have_it(&service, id, &[lanes.into()]);
}

#[test]
fn an_answer_waits_no_longer_than_it_may_and_that_is_counted() {
    let service = start();
    let within = Property::new("AcknowledgeWithin", time(Duration::from_millis(20)));
    let id = channel_with(&service, &delivered(&[within]));
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[]);
    let from = supplier(&service, id);
    let pushing = push(&from, 1);
    let mut link = bare.accept();
    let (request, _) = link.push();
    pushing.thread.end_in_time();
    await_count(&service, Counter::AcknowledgedEarly, 1);
    // What the consumer says then concerns no supplier any more.
    link.reply(request, ReplyStatus::NoException, None);
    let pushing = push(&from, 2);
    link.accept_push();
    pushing.thread.end_in_time();
}

#[test]
fn an_event_without_consumers_is_answered_at_once_and_one_that_is_refused_so() {
    let service = start();
    let id = channel_with(&service, &delivered(&[Property::new("MemoryBudget", 65_536_u64)]));
    let from = supplier(&service, id);
    from.push_structured_event(&numbered(1)).unwrap();
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[]);
    let mut large = numbered(2);
    large.remainder = "x".repeat(100_000).as_str().into();
    assert!(from.push_structured_event(&large).is_err());
    let pushing = push(&from, 3);
    bare.accept().accept_push();
    pushing.thread.end_in_time();
}

#[test]
fn stored_is_for_events_that_are() {
    let service = start();
    let stored = Property::new("AcknowledgeAfter", "Stored");
    let error = factory(&service).create_channel(core::slice::from_ref(&stored), &[]).unwrap_err();
    assert!(error.to_string().contains("AcknowledgeAfter"), "{error}");
    let folder = Folder::new("stored");
    let service = folder.start(&folder.config(), None);
    let id = channel_with(&service, &[stored, persistent()]);
    supplier(&service, id).push_structured_event(&numbered(1)).unwrap();
}

#[test]
fn a_supplier_at_full_speed_goes_at_its_consumers_pace_where_latency_is_bounded() {
    let service = start();
    let bound = Property::new("LatencyBound", time(Duration::from_millis(1)));
    let id = channel_with(&service, &[bound]);
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[]);
    let from = supplier(&service, id);
    let pushing =
        thread::spawn(move || (0..200).for_each(|number| from.push_structured_event(&numbered(number)).unwrap()));
    let mut link = bare.accept();
    for _ in 0..200 {
        link.accept_push();
    }
    pushing.end_in_time();
    await_count(&service, Counter::Delivered, 200);
}
