//! Topics take turns: one that floods does not keep the others waiting. Counted in events, not in time.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use client::SimpleSupplier;
use client::notify::{
    ClientType, EventChannel, Property, SequenceProxyPushConsumer, StructuredEvent, ThreadPool, Topic, Topics,
};
use giop::cdr::CharSet;
use giop::message::{Request, RequestHead, Response};
use giop::realtime::PriorityModel;
use service::{Config, Counter, Discipline, Lanes, Limits, Service};
use testing::NextInTime;

use crate::kinds::{Consumer, Model, Supplier, connect_pulling, event_of, new_channel, try_pull};
use crate::peers::{
    Bare, BareSupplier, Link, REQUEST, await_count, request_with, start, start_with, subscribe_to, wait_until,
};
use crate::persistent::factory;

fn make_channel(service: &Service, qos: &[Property]) -> i32 {
    factory(service).create_channel(qos, &[]).unwrap().1
}

fn event(name: &str) -> StructuredEvent {
    StructuredEvent::new("Plant", name, "")
}

/// A push that is not answered.
fn one_way(supplier: &BareSupplier, name: &str) -> Vec<u8> {
    one_way_of(supplier, &event(name))
}

fn one_way_of(supplier: &BareSupplier, event: &StructuredEvent) -> Vec<u8> {
    supplier.push_message(&RequestHead { response: Response::None, ..REQUEST }, CharSet::Latin1, event)
}

/// A supplier that writes as much as its socket takes.
struct Flood {
    stream: TcpStream,
    events: Vec<u8>,
    /// How far into `events` it is.
    at: usize,
}

impl Flood {
    fn new(service: &Service, channel: i32, name: &str) -> Self {
        let supplier = BareSupplier::new(service, Some(channel));
        supplier.stream.set_nonblocking(true).unwrap();
        Self { events: one_way(&supplier, name).repeat(100), stream: supplier.stream, at: 0 }
    }

    /// Writes until the socket is full.
    fn fill(&mut self) {
        loop {
            match self.stream.write(&self.events[self.at..]) {
                Ok(written) => self.at = (self.at + written) % self.events.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The type name of the next event that is pushed one-way.
fn next_name(link: &mut Link) -> String {
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap().type_name
}

/// In which order a channel's events are served while several suppliers flood the topic `Flood` and one pushes `count`
/// events of another topic all at once: the names of the events from its first to its last.
fn order_under_flood(discipline: Discipline, topics: Vec<Topic>, name: &str, count: usize) -> Vec<String> {
    order_for(&[], discipline, topics, name, count)
}

/// The same for a consumer with these properties.
fn order_for(qos: &[Property], discipline: Discipline, topics: Vec<Topic>, name: &str, count: usize) -> Vec<String> {
    let lanes = Lanes { discipline, ..Lanes::default() };
    // Fewer than are pushed at once, so that without turns the flood's connections would have theirs in between.
    let limits = Limits { round_messages: 16, ..Limits::default() };
    let service = start_with(Config { lanes, limits, ..Config::default() });
    let channel = make_channel(&service, &[Topics(topics).into()]);
    let consumer = Bare::new();
    let qos = [qos, &[Property::new("PushOneWay", true)]].concat();
    subscribe_to(&service, Some(channel), consumer.reference(), &qos);
    let mut floods: Vec<Flood> = (0..5).map(|_| Flood::new(&service, channel, "Flood")).collect();
    let mut other = BareSupplier::new(&service, Some(channel));
    floods.iter_mut().for_each(Flood::fill);
    let mut link = consumer.accept();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                floods.iter_mut().for_each(Flood::fill);
                std::thread::yield_now();
            }
        });
        // In one piece, and less than a segment of the loopback device, so that it arrives in one piece.
        let all = one_way(&other, name).repeat(count);
        assert!(all.len() < 60_000);
        other.stream.write_all(&all).unwrap();
        let mut names = Vec::new();
        while names.iter().filter(|seen| *seen == name).count() < count {
            let next = next_name(&mut link);
            if next == name || !names.is_empty() {
                names.push(next);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        names
    })
}

/// The longest run of events of other names.
fn longest_gap(names: &[String], name: &str) -> usize {
    names.split(|seen| seen == name).map(<[String]>::len).max().unwrap()
}

#[test]
fn a_flood_on_one_topic_takes_no_more_than_its_turns_between_the_events_of_another() {
    // Without turns, all that the flooding suppliers have sent comes between what is read of the other at a time.
    let topics = vec![Topic::new("Plant", "Flood", 1_000), Topic::new("Plant", "Reading", 1_000)];
    let names = order_under_flood(Discipline::Shares, topics, "Reading", 200);
    assert!(longest_gap(&names, "Reading") <= 2, "{names:?}");
}

#[test]
fn a_flood_that_is_handed_over_to_another_lane_takes_its_turns_there() {
    let pool = ThreadPool::new(PriorityModel::ServerDeclared, 10, 1).into();
    let topics = vec![Topic::new("Plant", "Flood", 1_000), Topic::new("Plant", "Reading", 1_000)];
    let names = order_for(&[pool], Discipline::Shares, topics, "Reading", 200);
    // What was handed over before the first reading, 64 events at most, is served whenever the other lane has no reading:
    // when that is, is up to the system's scheduling. Without turns, several times that would come between.
    assert!(names.len() <= 2 * 200 + 64 + 8, "{} events: {names:?}", names.len());
}

#[test]
fn a_topic_with_a_third_of_the_share_has_a_quarter_of_the_turns() {
    let topics = vec![Topic::new("Plant", "Flood", 3_000), Topic::new("Plant", "Reading", 1_000)];
    let names = order_under_flood(Discipline::Shares, topics, "Reading", 100);
    let gap = longest_gap(&names, "Reading");
    assert!((3..=4).contains(&gap), "{gap}: {names:?}");
    assert!(names.len() <= 1 + 99 * 4 + 4, "{} events", names.len());
}

#[test]
fn under_maximum_urgency_a_critical_topic_comes_before_a_flood() {
    let critical = Topic { criticality: 1, ..Topic::new("Plant", "Alarm", 1) };
    let topics = vec![Topic::new("Plant", "Flood", 1_000_000), critical];
    let names = order_under_flood(Discipline::MaximumUrgency, topics, "Alarm", 200);
    // What a round serves, where only a part of the alarms had been read.
    assert!(longest_gap(&names, "Alarm") <= 8, "{names:?}");
}

#[test]
fn within_a_topic_an_alarm_goes_before_what_came_with_it_where_its_supplier_orders_by_priority() {
    const PRIORITY_ORDER: i16 = 2;
    const FIFO_ORDER: i16 = 1;
    // A connection's turn of 100 µs ended before the alarm on a machine with much else to do, and readings were served before
    // it was read. Here the turn lasts until all that came is read.
    let limits = Limits { round_us: 1_000_000, ..Limits::default() };
    for (order, first) in [(PRIORITY_ORDER, "Alarm"), (FIFO_ORDER, "Reading")] {
        let service = start_with(Config { limits: limits.clone(), ..Config::default() });
        let topics = Topics(vec![Topic::new("Office", "*", 1)]).into();
        let channel = make_channel(&service, &[topics, Property::new("OrderPolicy", order)]);
        let consumer = Bare::new();
        let qos = [Property::new("PushOneWay", true), Property::new("OrderPolicy", FIFO_ORDER)];
        subscribe_to(&service, Some(channel), consumer.reference(), &qos);
        let mut supplier = BareSupplier::new(&service, Some(channel));
        let mut alarm = event("Alarm");
        alarm.variable_header.push(Property::new("Priority", 5_i16));
        // In one piece, and less than a segment of the loopback device, so that they are read together.
        let all = [one_way(&supplier, "Reading").repeat(30), one_way_of(&supplier, &alarm)].concat();
        supplier.stream.write_all(&all).unwrap();
        let mut link = consumer.accept();
        let names: Vec<String> = (0..31).map(|_| next_name(&mut link)).collect();
        assert_eq!(names[0], first);
        assert_eq!(names.iter().filter(|name| *name == "Alarm").count(), 1);
    }
}

#[test]
fn what_waits_for_its_turn_arrives_complete_and_in_order() {
    const EVENTS: i32 = 500;
    let service = start();
    let channels = [make_channel(&service, &[Property::new("Share", 1_u32)]), make_channel(&service, &[])];
    let url = service.corbaloc("NotificationService");
    let (sender, received) = std::sync::mpsc::channel();
    let _consumers = channels.map(|channel| {
        let sender = sender.clone();
        client::SimpleConsumer::connect(&url, Some(channel), client::ConsumerOptions::default(), move |received| {
            // The test may have seen enough.
            let _ = sender.send((channel, received.event().unwrap()));
            Ok(())
        })
        .unwrap()
    });
    std::thread::scope(|scope| {
        for channel in channels {
            for source in ["a", "b"] {
                let url = &url;
                scope.spawn(move || {
                    let supplier = SimpleSupplier::connect(url, Some(channel)).unwrap();
                    for number in 0..EVENTS {
                        let mut event = StructuredEvent::new("Plant", source, "");
                        event.filterable_data.push(Property::new("number", number));
                        supplier.publish(&event).unwrap();
                    }
                });
            }
        }
        let mut next = std::collections::HashMap::new();
        for _ in 0..4 * EVENTS {
            let (channel, event) = received.next_in_time();
            let expected: &mut i32 = next.entry((channel, event.type_name.clone())).or_default();
            assert_eq!(event.field("number"), Some(&giop::value::Value::Long(*expected)));
            *expected += 1;
        }
    });
    await_count(&service, Counter::EventsIn, 4 * u64::from(EVENTS.unsigned_abs()));
}

#[test]
fn a_topic_whose_channel_is_blocked_does_not_keep_the_others_waiting() {
    let service = start();
    let held = make_channel(&service, &[Property::new("MemoryBudget", 100_000_u64)]);
    let stuck = Bare::new();
    subscribe_to(&service, Some(held), stuck.reference(), &[]);
    let mut flood = Flood::new(&service, held, "Flood");
    let url = service.corbaloc("NotificationService");
    let other = SimpleSupplier::connect(&url, Some(make_channel(&service, &[]))).unwrap();
    flood.fill();
    // As many as may be unanswered on its connection: it is not read any more.
    wait_until("its supplier to be blocked", || service.counters().read(Counter::SuppliersBlocked) >= 64);
    flood.fill();
    for _ in 0..1_000 {
        other.publish(&event("Reading")).unwrap();
    }
    // And when there is room again, the flood goes on.
    let before = service.counters().read(Counter::SuppliersBlocked);
    let mut link = stuck.accept();
    wait_until("more of the flood to come in", || {
        link.accept_push();
        service.counters().read(Counter::SuppliersBlocked) > before
    });
    assert_eq!(service.counters().read(Counter::EventsRefused), 0);
}

#[test]
fn a_supplier_that_is_refused_is_answered_when_its_turn_has_come() {
    let service = start();
    let admin = [Property::new("MaxQueueLength", 1_i32), Property::new("RejectNewEvents", true)];
    let full = make_channel(&service, &admin);
    let stuck = Bare::new();
    subscribe_to(&service, Some(full), stuck.reference(), &[]);
    let url = service.corbaloc("NotificationService");
    let supplier = SimpleSupplier::connect(&url, Some(full)).unwrap();
    let _other = SimpleSupplier::connect(&url, Some(make_channel(&service, &[]))).unwrap();
    let refused = (0..10).find_map(|_| supplier.publish(&event("Reading")).err()).unwrap();
    assert!(refused.to_string().contains("IMP_LIMIT"), "{refused}");
}

/// A channel of two topics, and a supplier of sequences of one of them.
fn supplier_of_sequences(service: &Service, limit: Option<i32>) -> (EventChannel, SequenceProxyPushConsumer) {
    let channel = new_channel(service);
    let mut qos = vec![Topics(vec![Topic::new("Test", "Sequence", 1)]).into()];
    channel.set_qos(&qos).unwrap();
    if let Some(limit) = limit {
        qos = vec![Property::new("MaxQueueLength", limit), Property::new("RejectNewEvents", true)];
        channel.set_admin(&qos).unwrap();
    }
    match Supplier::new(&channel, ClientType::Sequence, Model::Push) {
        Supplier::Sequence(supplier) => (channel, supplier),
        _ => unreachable!(),
    }
}

fn numbered(numbers: core::ops::Range<i32>) -> Vec<StructuredEvent> {
    numbers.map(|number| event_of("Sequence", number)).collect()
}

#[test]
fn a_long_sequence_is_taken_in_in_parts_complete_and_in_its_order() {
    const EVENTS: i32 = 1_000;
    let service = start();
    let (channel, supplier) = supplier_of_sequences(&service, None);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    supplier.push_structured_events(&numbered(0..EVENTS)).unwrap();
    supplier.push_structured_events(&numbered(EVENTS..EVENTS + 3)).unwrap();
    assert_eq!(consumer.numbers(1_003), (0..EVENTS + 3).collect::<Vec<i32>>());
    // All of them would have waited at once, had they been taken in before the first had its turn. A round takes in eight
    // and serves one at least.
    let waiting = service.counters().read(Counter::EventsQueuedMax);
    assert!((1..=900).contains(&waiting), "{waiting}");
}

#[test]
fn a_sequence_whose_supplier_has_gone_is_taken_in_to_its_end() {
    let service = start();
    let (channel, supplier) = supplier_of_sequences(&service, None);
    let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
    let key = &supplier.object().ior().iiop().unwrap().key;
    let head = RequestHead { key, operation: b"push_structured_events", response: Response::None, ..REQUEST };
    let message = request_with(&head, CharSet::Latin1, |w| {
        w.u32(500);
        numbered(0..500).iter().for_each(|event| event.write(w).unwrap());
    });
    TcpStream::connect(service.address()).unwrap().write_all(&message).unwrap();
    assert_eq!(consumer.numbers(500), (0..500).collect::<Vec<i32>>());
}

#[test]
fn an_event_of_a_long_sequence_that_is_refused_is_reported() {
    let service = start();
    let (channel, supplier) = supplier_of_sequences(&service, Some(20));
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    connect_pulling(&proxy, ClientType::Structured);
    let refused = supplier.push_structured_events(&numbered(0..100)).unwrap_err();
    assert!(refused.to_string().contains("IMP_LIMIT"), "{refused}");
    let got = (0..21).flat_map(|_| try_pull(&proxy, ClientType::Structured).unwrap()).map(|got| got.number);
    assert_eq!(got.collect::<Vec<i32>>(), (0..20).collect::<Vec<i32>>());
}
