//! Thread pools: which thread serves what, and how events and connections get there.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use client::notify::{
    ClientType, EventChannel, FilterGroupOperator, Property, ProxyConsumer, ProxySupplier, StructuredProxyPullSupplier,
    StructuredProxyPushConsumer, ThreadPool, ThreadPoolLanes, find_channel,
};
use client::{ConsumerOptions, Orb, OrbOptions, ServantError, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::cdr::{CharSet, Endian};
use giop::message::{RequestHead, Response, ServiceContexts};
use giop::realtime::{self, PriorityModel};
use service::{Config, Counter, DeclaredChannel, DeclaredLane, LaneCounters, Lanes, Scheduling, Service};
use testing::{EndInTime, NextInTime};

use crate::access::url;
use crate::kinds::{Consumer, FORMS, Got, Model, event_of};
use crate::peers::{BareSupplier, REQUEST, numbered, read, start_with, wait_until};
use crate::persistent::factory;

/// A service with ordinary threads for its lanes, so that tests do not keep each other from running.
fn start() -> Service {
    start_with(Config { lanes: ordinary(), ..Config::default() })
}

fn ordinary() -> Lanes {
    Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() }
}

fn pool(priority: i16) -> Property {
    ThreadPool::new(PriorityModel::ServerDeclared, priority, 1).into()
}

fn new_channel(service: &Service, qos: &[Property]) -> (EventChannel, i32) {
    factory(service).create_channel(qos, &[]).unwrap()
}

fn supply(service: &Service, channel: i32, qos: &[Property]) -> SimpleSupplier {
    let options = SupplierOptions { qos: qos.to_vec(), ..SupplierOptions::default() };
    SimpleSupplier::connect_with(&url(service), Some(channel), options).unwrap()
}

/// A consumer that gives the numbers of its events to a queue.
struct Numbers {
    _consumer: SimpleConsumer,
    numbers: Receiver<i32>,
}

fn consume(service: &Service, channel_id: i32, qos: &[Property]) -> Numbers {
    let (sender, numbers) = channel();
    let options = ConsumerOptions { qos: qos.to_vec(), ..ConsumerOptions::default() };
    let consumer = SimpleConsumer::connect(&url(service), Some(channel_id), options, move |received| {
        let event = received.event().map_err(|_| ServantError::bad_operation())?;
        // The test may have seen enough.
        let _ = sender.send(Got::from(event).number);
        Ok(())
    });
    Numbers { _consumer: consumer.unwrap(), numbers }
}

impl Numbers {
    fn take(&self, count: usize) -> Vec<i32> {
        (0..count).map(|_| self.numbers.next_in_time()).collect()
    }
}

/// What the lanes of pools have counted, by their CORBA priority.
pub(crate) fn by_priority(service: &Service, counter: Counter) -> BTreeMap<i16, u64> {
    let lanes = service.counters().lanes();
    lanes.iter().filter_map(|lane| Some((lane.priority()?, lane.read(counter)))).collect()
}

/// Waits until the lanes have counted so much: they do at the end of each round, when replies are out.
fn await_counts(service: &Service, counter: Counter, expected: &BTreeMap<i16, u64>) {
    wait_until("the rounds to end", || by_priority(service, counter) == *expected);
}

fn publish(supplier: &SimpleSupplier, numbers: core::ops::Range<i32>) {
    numbers.for_each(|number| supplier.publish(&event_of("Test", number)).unwrap());
}

#[test]
fn each_level_of_a_channel_may_have_threads_of_its_own() {
    // Figure 7 of the paper: pools at the channel, at admins and at proxies, on both sides.
    let service = start();
    let (events, id) = new_channel(&service, &[pool(50)]);
    let (supplier_admin, _) = events.new_for_suppliers(FilterGroupOperator::And).unwrap();
    supplier_admin.set_qos(&[pool(20)]).unwrap();
    let (consumer_admin, _) = events.new_for_consumers(FilterGroupOperator::And).unwrap();
    consumer_admin.set_qos(&[pool(30)]).unwrap();

    let of_proxy = consume(&service, id, &[pool(40)]);
    let of_channel = consume(&service, id, &[]);
    let proxy: ProxySupplier = consumer_admin.obtain_notification_push_supplier(ClientType::Structured).unwrap().0;
    let of_admin = Consumer::connect(proxy.object().clone(), ClientType::Structured, Model::Push);

    let from_proxy = supply(&service, id, &[pool(10)]);
    let from_channel = supply(&service, id, &[]);
    let proxy: ProxyConsumer = supplier_admin.obtain_notification_push_consumer(ClientType::Structured).unwrap().0;
    let from_admin = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    from_admin.connect_structured_push_supplier(None).unwrap();

    publish(&from_proxy, 0..10);
    (10..20).for_each(|number| from_admin.push_structured_event(&event_of("Test", number)).unwrap());
    publish(&from_channel, 20..30);
    let all = |mut numbers: Vec<i32>| {
        numbers.sort_unstable();
        assert_eq!(numbers, (0..30).collect::<Vec<i32>>());
    };
    all(of_proxy.take(30));
    all(of_channel.take(30));
    all((0..30).map(|_| of_admin.events.next_in_time().number).collect());

    wait_until("all replies", || read(&service, Counter::Delivered) == 90);
    let map = |counts: [u64; 5]| BTreeMap::from_iter([10, 20, 30, 40, 50].into_iter().zip(counts));
    await_counts(&service, Counter::EventsIn, &map([10, 10, 0, 0, 10]));
    assert_eq!(by_priority(&service, Counter::Delivered), map([0, 0, 30, 30, 30]));
    // Once to each other lane that has consumers.
    await_counts(&service, Counter::HandedOver, &map([30, 30, 0, 0, 20]));
    assert_eq!(by_priority(&service, Counter::TakenOver), map([0, 0, 30, 30, 20]));
}

#[test]
fn an_event_is_handed_over_once_between_two_pools_and_not_at_all_within_one() {
    let service = start();
    let (_within, id) = new_channel(&service, &[pool(10)]);
    let consumers: Vec<Numbers> = (0..3).map(|_| consume(&service, id, &[])).collect();
    publish(&supply(&service, id, &[]), 0..20);
    consumers.iter().for_each(|consumer| assert_eq!(consumer.take(20), (0..20).collect::<Vec<i32>>()));
    assert_eq!(read(&service, Counter::HandedOver), 0);

    let (between, id) = new_channel(&service, &[]);
    between.default_consumer_admin().unwrap().set_qos(&[pool(30)]).unwrap();
    between.default_supplier_admin().unwrap().set_qos(&[pool(20)]).unwrap();
    let consumers: Vec<Numbers> = (0..3).map(|_| consume(&service, id, &[])).collect();
    publish(&supply(&service, id, &[]), 0..20);
    consumers.iter().for_each(|consumer| assert_eq!(consumer.take(20), (0..20).collect::<Vec<i32>>()));
    await_counts(&service, Counter::HandedOver, &BTreeMap::from([(10, 0), (20, 20), (30, 0)]));
    assert_eq!(by_priority(&service, Counter::TakenOver), BTreeMap::from([(10, 0), (20, 0), (30, 20)]));
}

/// Two proxies of one channel with one connection, in pools of their own.
fn two_on_one_connection(service: &Service, low: i16, high: i16) -> [StructuredProxyPushConsumer; 2] {
    let (events, _) = new_channel(service, &[]);
    let admin = events.default_supplier_admin().unwrap();
    [low, high].map(|priority| {
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        proxy.set_qos(&[pool(priority)]).unwrap();
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).unwrap();
        proxy
    })
}

#[test]
fn a_connection_moves_up_at_the_first_push_and_down_after_many_in_a_row() {
    let service = start();
    let [low, high] = two_on_one_connection(&service, 10, 20);
    let counts = || [Counter::PushesPassed, Counter::ConnectionsMoved].map(|counter| read(&service, counter));
    let push = |proxy: &StructuredProxyPushConsumer| proxy.push_structured_event(&numbered(1)).unwrap();
    push(&high);
    (0..10).for_each(|_| push(&high));
    // From the main lane, which has accepted it.
    assert_eq!(counts(), [1, 1]);
    (0..63).for_each(|_| push(&low));
    push(&high);
    (0..63).for_each(|_| push(&low));
    assert_eq!(counts(), [127, 1], "never as many in a row");
    push(&low);
    (0..10).for_each(|_| push(&low));
    assert_eq!(counts(), [128, 2]);
    await_counts(&service, Counter::EventsIn, &BTreeMap::from([(10, 63 + 63 + 11), (20, 12)]));
    push(&high);
    push(&high);
    assert_eq!(counts(), [129, 3]);
}

#[test]
fn a_connection_on_which_events_are_pulled_goes_to_the_main_lane_and_stays() {
    let service = start();
    let (events, _) = new_channel(&service, &[]);
    let admin = events.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    proxy.set_qos(&[pool(10)]).unwrap();
    let supplier = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    supplier.connect_structured_push_supplier(None).unwrap();
    let admin = events.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
    let consumer = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
    consumer.connect_structured_pull_consumer(None).unwrap();

    supplier.push_structured_event(&event_of("Test", 1)).unwrap();
    supplier.push_structured_event(&event_of("Test", 2)).unwrap();
    assert_eq!(read(&service, Counter::ConnectionsMoved), 1);
    let numbers = [(); 2].map(|()| Got::from(consumer.pull_structured_event().unwrap()).number);
    assert_eq!(numbers, [1, 2]);
    assert_eq!(read(&service, Counter::ConnectionsMoved), 2);
    (0..100).for_each(|number| supplier.push_structured_event(&event_of("Test", number)).unwrap());
    assert_eq!(read(&service, Counter::ConnectionsMoved), 2);
    assert_eq!(read(&service, Counter::PushesPassed), 1 + 100);
}

#[test]
fn what_is_pushed_before_a_connection_moves_stays_before_what_comes_after() {
    let service = start();
    let (channel, _) = find_channel(&Orb::new(OrbOptions::default()).resolve(&url(&service)).unwrap(), None).unwrap();
    channel.default_supplier_admin().unwrap().set_qos(&[pool(10)]).unwrap();
    channel.default_consumer_admin().unwrap().set_qos(&[pool(20)]).unwrap();
    let consumer = consume(&service, 0, &[]);
    let mut supplier = BareSupplier::new(&service, None);
    let one_way = RequestHead { response: Response::None, ..REQUEST };
    // All at once, and none of them is answered.
    let messages = (0..2000).map(|number| supplier.push_message(&one_way, CharSet::Latin1, &event_of("Test", number)));
    let messages: Vec<u8> = messages.flatten().collect();
    supplier.stream.write_all(&messages).unwrap();
    assert_eq!(consumer.take(2000), (0..2000).collect::<Vec<i32>>());
    assert_eq!(read(&service, Counter::ConnectionsMoved), 1);
    assert!(read(&service, Counter::PushesPassed) < 2000);
}

#[test]
fn an_event_takes_the_lane_of_its_priority_all_the_way() {
    let service = start();
    let lanes = ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &[(0, 1), (100, 1), (200, 1)]);
    let (channel, _) = find_channel(&Orb::new(OrbOptions::default()).resolve(&url(&service)).unwrap(), None).unwrap();
    channel.set_qos(&[lanes.into()]).unwrap();
    let consumer = consume(&service, 0, &[]);
    // By the priority that its supplier tells ...
    let mut supplier = BareSupplier::new(&service, None);
    for priority in [0, 99, 100, 199, 200, 32_767] {
        let context = realtime::priority_context(priority, Endian::Little);
        let contexts: &[(u32, &[u8])] = &[(ServiceContexts::RT_CORBA_PRIORITY, &context)];
        let head = RequestHead { contexts, ..REQUEST };
        let message = supplier.push_message(&head, CharSet::Latin1, &event_of("Test", priority.into()));
        supplier.stream.write_all(&message).unwrap();
        assert_eq!(consumer.take(1), [i32::from(priority)]);
        crate::peers::read_message(&mut supplier.stream).unwrap();
    }
    // ... and else by that in its header.
    let supplier = supply(&service, 0, &[]);
    for priority in [50_i16, 150, 250] {
        let mut event = event_of("Test", priority.into());
        event.variable_header.push(Property::new("Priority", priority));
        supplier.publish(&event).unwrap();
        assert_eq!(consumer.take(1), [i32::from(priority)]);
    }
    wait_until("all replies", || read(&service, Counter::Delivered) == 9);
    let three = BTreeMap::from([(0, 3), (100, 3), (200, 3)]);
    await_counts(&service, Counter::EventsIn, &three);
    assert_eq!(by_priority(&service, Counter::Delivered), three);
    assert_eq!(read(&service, Counter::HandedOver), 0);
}

#[test]
fn every_kind_of_supplier_reaches_every_kind_of_consumer_on_other_lanes() {
    let service = start();
    let (events, _) = new_channel(&service, &[]);
    events.default_supplier_admin().unwrap().set_qos(&[pool(10)]).unwrap();
    events.default_consumer_admin().unwrap().set_qos(&[pool(20)]).unwrap();
    for model in [Model::Push, Model::Pull] {
        let consumers: Vec<Consumer> = FORMS.into_iter().map(|form| Consumer::new(&events, form, model)).collect();
        for form in FORMS {
            for from in [Model::Push, Model::Pull] {
                let supplier = crate::kinds::Supplier::new(&events, form, from);
                supplier.give("Test", 0..20);
                for consumer in &consumers {
                    let numbers: Vec<i32> = (0..20).map(|_| consumer.events.next_in_time().number).collect();
                    assert_eq!(numbers, (0..20).collect::<Vec<i32>>(), "{form:?} {from:?} to {model:?}");
                }
            }
        }
    }
}

#[test]
fn lanes_that_hand_over_wait_while_the_queue_is_full() {
    let service = start();
    let (events, id) = new_channel(&service, &[]);
    // One may wait there.
    let narrow = ThreadPool { max_buffered_requests: 1, ..ThreadPool::new(PriorityModel::ServerDeclared, 20, 1) };
    events.default_consumer_admin().unwrap().set_qos(&[narrow.into()]).unwrap();
    let consumer = consume(&service, id, &[]);
    let supplier = crate::kinds::Supplier::new(&events, ClientType::Sequence, Model::Push);
    supplier.give("Test", 0..700);
    assert_eq!(consumer.take(700), (0..700).collect::<Vec<i32>>());
    // Those of one sequence are all handed over at once.
    assert!(read(&service, Counter::HandoverFull) > 0);
    assert_eq!(read(&service, Counter::Dropped), 0);
}

#[test]
fn pushes_for_a_lane_whose_queue_is_full_wait_in_order() {
    let service = start();
    let (_high, high) = new_channel(&service, &[pool(20)]);
    let narrow = ThreadPool { max_buffered_requests: 1, ..ThreadPool::new(PriorityModel::ServerDeclared, 10, 1) };
    let (_low, low) = new_channel(&service, &[narrow.into()]);
    let consumer = consume(&service, low, &[]);
    let mut supplier = BareSupplier::new(&service, Some(high));
    supplier.push(&numbered(1));
    crate::peers::read_message(&mut supplier.stream).unwrap();
    // On the connection that is the more important lane's now: too few to have it move, and all at once.
    supplier.key = BareSupplier::new(&service, Some(low)).key;
    let one_way = RequestHead { response: Response::None, ..REQUEST };
    let messages = (0..50).map(|number| supplier.push_message(&one_way, CharSet::Latin1, &event_of("Test", number)));
    let messages: Vec<u8> = messages.flatten().collect();
    supplier.stream.write_all(&messages).unwrap();
    assert_eq!(consumer.take(50), (0..50).collect::<Vec<i32>>());
    assert_eq!(read(&service, Counter::PushesPassed), 51);
    assert!(read(&service, Counter::HandoverFull) > 0);
}

#[test]
fn no_more_threads_than_the_configuration_allows() {
    let service = start_with(Config { lanes: Lanes { threads_max: 2, ..ordinary() }, ..Config::default() });
    let (first, _) = new_channel(&service, &[pool(10)]);
    let (_second, id) = new_channel(&service, &[pool(20)]);
    let (third, _) = new_channel(&service, &[]);
    assert!(third.set_qos(&[pool(30)]).is_err());
    first.destroy().unwrap();
    wait_until("an end", || read(&service, Counter::LanesEnded) == 1);
    third.set_qos(&[pool(30)]).unwrap();
    let names: Vec<String> = service.counters().lanes().iter().map(LaneCounters::name).collect();
    assert_eq!(names, ["lane", "lane-1-p30", "lane-2-p20"], "the number of the one that has ended is used again");
    let consumer = consume(&service, id, &[]);
    publish(&supply(&service, id, &[]), 0..3);
    assert_eq!(consumer.take(3), [0, 1, 2]);
}

#[test]
fn a_declared_channel_has_the_lanes_that_a_plan_gave_it() {
    let lane =
        |priority| DeclaredLane { priority, static_threads: 1, cpu: Some(0), activities: vec!["control".into()] };
    let plant = |lane| DeclaredChannel { name: "Plant".into(), properties: BTreeMap::new(), lane, timers: Vec::new() };
    let config = |lanes| Config { lanes: ordinary(), channels: vec![plant(lanes)], ..Config::default() };
    let service = start_with(config(vec![lane(20), lane(10)]));
    let channels = factory(&service).get_all_channels().unwrap();
    let id = *channels.last().unwrap();
    let consumer = consume(&service, id, &[]);
    publish(&supply(&service, id, &[]), 0..3);
    assert_eq!(consumer.take(3), [0, 1, 2]);
    let mut priorities: Vec<_> = service.counters().lanes().iter().map(LaneCounters::priority).collect();
    priorities.sort_unstable();
    assert_eq!(priorities, [None, Some(10), Some(20)]);
    let twice = Config { listen: "127.0.0.1:0".into(), ..config(vec![lane(10), lane(10)]) };
    let refused = Service::start(twice).err().unwrap().to_string();
    assert!(refused.contains("Plant") && refused.contains("different priorities"), "{refused}");
}

#[test]
fn a_lane_that_ends_gives_its_connections_back_and_disturbs_no_client() {
    let service = start();
    let (events, id) = new_channel(&service, &[pool(10)]);
    events.default_consumer_admin().unwrap().set_qos(&[pool(20)]).unwrap();
    let consumer = consume(&service, id, &[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pushed = scope.spawn(|| {
            let supplier = supply(&service, id, &[]);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                supplier.publish(&event_of("Test", number)).unwrap();
                number += 1;
            }
            number
        });
        for round in 1..=20 {
            // Another channel's lane comes, gets a connection, and goes, while it is pushed to.
            let (other, _) = new_channel(&service, &[pool(30)]);
            let admin = other.default_supplier_admin().unwrap();
            let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
            let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
            proxy.connect_structured_push_supplier(None).unwrap();
            (0..3).for_each(|_| proxy.push_structured_event(&numbered(1)).unwrap());
            other.destroy().unwrap();
            // The connection is the same, and has gone back.
            assert!(proxy.push_structured_event(&numbered(1)).is_err());
            assert!(proxy.object().non_existent().unwrap());
            wait_until("its end", || read(&service, Counter::LanesEnded) == round);
        }
        stop.store(true, Ordering::Relaxed);
        let pushed = pushed.end_in_time();
        assert_eq!(consumer.take(pushed.try_into().unwrap()), (0..pushed).collect::<Vec<i32>>());
        // What the lanes that have ended counted is still in the totals.
        let all = u64::try_from(pushed).unwrap() + 60;
        wait_until("the rounds to end", || read(&service, Counter::EventsIn) == all);
    });
}

/// What the threads of this process that are called so have for a scheduling policy and a real-time priority (proc_pid_stat(5)).
fn scheduling_of(name: &str) -> Vec<(u32, u32)> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).ok();
    let all = threads.filter_map(|thread| stat(thread.ok()?)).filter_map(|stat| {
        let (called, rest) = stat.split_once(" (")?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        (called == name).then(|| (fields[38].parse().unwrap(), fields[37].parse().unwrap()))
    });
    all.collect()
}

#[test]
fn lanes_of_pools_run_at_real_time_priorities_where_they_may() {
    const FIFO: u32 = 1;
    let main_priority = Some(15);
    let service = start_with(Config { lanes: Lanes { main_priority, ..Lanes::default() }, ..Config::default() });
    let (_first, _) = new_channel(&service, &[pool(4711)]);
    // Merged by the mapping, and kept apart.
    let (_second, _) = new_channel(&service, &[pool(4712)]);
    let (_third, _) = new_channel(&service, &[pool(4713)]);
    let all = ["lane-1-p4711", "lane-2-p4712", "lane-3-p4713"].map(|name| scheduling_of(name)[0]);
    if service.warnings().iter().any(|warning| warning.contains("ordinary")) {
        assert_eq!(all, [(0, 0); 3]);
        assert!(read(&service, Counter::LanesWithoutPriority) > 0);
    } else {
        assert_eq!(all, [(FIFO, 14), (FIFO, 15), (FIFO, 16)]);
        assert!(scheduling_of("lane").contains(&(FIFO, 1)));
        assert_eq!(read(&service, Counter::LanesWithoutPriority), 0);
    }
}

#[test]
fn what_each_lane_counts_is_reported_by_name() {
    let service = start();
    let (_events, id) = new_channel(&service, &[pool(10)]);
    let consumer = consume(&service, id, &[]);
    publish(&supply(&service, id, &[]), 0..3);
    consumer.take(3);
    await_counts(&service, Counter::EventsIn, &BTreeMap::from([(10, 3)]));
    let statistics = Orb::new(OrbOptions::default()).resolve(&service.corbaloc("Statistics")).unwrap();
    let body = statistics.invoke("get_lanes", |_| ()).unwrap();
    let mut reader = body.reader();
    let lanes: Vec<(u32, String, BTreeMap<String, u64>)> = (0..reader.u32().unwrap())
        .map(|_| {
            let (id, name) = (reader.u32().unwrap(), reader.text().unwrap());
            let counters = (0..reader.u32().unwrap()).map(|_| (reader.text().unwrap(), reader.u64().unwrap()));
            (id, name, counters.collect())
        })
        .collect();
    let names: Vec<(u32, &str)> = lanes.iter().map(|(id, name, _)| (*id, name.as_str())).collect();
    assert_eq!(names, [(0, "lane"), (1, "lane-1-p10")]);
    assert_eq!(lanes[1].2["lane_events_in"], 3);
    assert!(!lanes[0].2.contains_key("lane_events_in"));
}

#[test]
fn a_lane_with_work_without_end_is_reported() {
    let service = start();
    let (events, id) = new_channel(&service, &[pool(10)]);
    // One that takes its time for each event.
    let condition = (0..200).map(|number| format!("'{number}xyz' ~ $name")).collect::<Vec<_>>().join(" or ");
    let options = ConsumerOptions { constraint: Some(condition), ..ConsumerOptions::default() };
    let _consumer = SimpleConsumer::connect(&url(&service), Some(id), options, |_| Ok(())).unwrap();
    drop(events);
    let mut supplier = BareSupplier::new(&service, Some(id));
    let mut event = numbered(1);
    event.filterable_data.push(Property::new("name", "a long text in which nothing of that is found ".repeat(40)));
    let one_way = RequestHead { response: Response::None, ..REQUEST };
    let many = supplier.push_message(&one_way, CharSet::Latin1, &event).repeat(64);
    wait_until("saturation", || {
        supplier.stream.write_all(&many).unwrap();
        by_priority(&service, Counter::LaneSaturated)[&10] > 0
    });
    drop(supplier);
}

#[test]
fn an_event_costs_no_more_system_calls_in_a_pool_than_on_the_main_lane() {
    const EVENTS: i32 = 500;
    let service = start();
    for (qos, priority) in [(vec![], None), (vec![pool(10)], Some(10))] {
        let (_events, id) = new_channel(&service, &qos);
        let consumer = consume(&service, id, &[]);
        let supplier = supply(&service, id, &[]);
        let calls = || {
            let lanes = service.counters().lanes();
            lanes.iter().find(|lane| lane.priority() == priority).unwrap().read(Counter::SystemCalls)
        };
        let pass = |numbers: core::ops::Range<i32>| {
            for number in numbers {
                supplier.publish(&event_of("Test", number)).unwrap();
                consumer.take(1);
            }
        };
        pass(0..10);
        let before = calls();
        pass(0..EVENTS);
        // Six, fewer where the next event and the reply to the last are found together; one in a second asks whether the lane
        // has waited, and the counters are of the last round that has ended.
        let per_event = (calls() - before) as f64 / f64::from(EVENTS);
        assert!(per_event > 3.0 && per_event < 6.1, "{per_event} system calls for an event at {priority:?}");
    }
}

/// A watchdog is notified that the service goes on while administration and all lanes do, also while it ends and when it has.
#[test]
fn a_service_goes_on_when_all_lanes_have_said_so_until_it_has_ended() {
    let service = start();
    let (_, id) = new_channel(&service, &[pool(10)]);
    let (supplier, consumer) = (supply(&service, id, &[]), consume(&service, id, &[]));
    publish(&supplier, 0..1);
    assert_eq!((consumer.take(1), service.counters().lanes().len()), (vec![0], 2));
    let liveness = service.liveness();
    let rounds = |service: &Service| by_priority(service, Counter::Cycles)[&10];
    for _ in 0..3 {
        let before = rounds(&service);
        assert!(liveness.ask(Duration::from_secs(60)));
        wait_until("the round to be counted", || rounds(&service) > before);
    }
    service.shutdown();
    assert!(liveness.ask(Duration::from_secs(60)));
}
