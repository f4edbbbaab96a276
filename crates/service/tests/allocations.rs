//! Holds the lane to its promise: in the steady state an event costs no allocation, whichever consumers it goes to.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "all/kinds.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod kinds;

#[path = "all/tempo/peers.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod tempo_peers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::notify::{
    ClientType, EventChannel, Property, ProxyConsumer, StructuredEvent, ThreadPool, ThreadPoolLanes, Topic, Topics,
    find_channel,
};
use client::{ConsumerOptions, Orb, OrbOptions, OrbTls, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use service::allocations::CountingAllocator;
use service::{Config, Counter, DeclaredChannel, DeclaredTimer, Lanes, Links, Scheduling, Service, Tempo, Tls};

use tempo::wire::Role;
use tempo_peers::{Datagrams, EndPoint, Stream};

use kinds::{Consumer, FORMS, Model, Supplier, new_channel};
use testing::NextInTime;
use testing::certificates::{Authority, Certified};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[track_caller]
fn wait_until(condition: impl FnMut() -> bool) {
    testing::wait_until("what the next line needs", condition);
}

/// Events that the consumers let gather before counting begins, so that buffers and tables have grown to what they need.
const WARM_UP: u64 = 200;
/// Events by which the supplier may be before the consumers while counting: fewer than have gathered before.
const AHEAD: u64 = 10;
const COUNTED: u64 = 20_000;

/// Asserts that so many events cost no allocation. A connection keeps what it has not handled in a buffer of its own when a round is over
/// or the end of a message is yet to come. That buffer is made when it is needed first, and grows a few times at most. When that is, is up
/// to the scheduling of threads: it may be while events are counted.
#[track_caller]
fn assert_steady(allocated: u64, events: u64, connections: u64) {
    let buffers = 4 * connections;
    assert!(5 * buffers < events, "{connections} connections are too many for {events} events");
    assert!(allocated <= buffers, "{allocated} allocations for {events} events, and {connections} connections");
}

/// Connections of CORBA: those that clients made, and as many to clients at most.
fn connections(service: &Service) -> u64 {
    2 * service.counters().read(Counter::ConnectionsAccepted)
}

#[test]
fn an_event_costs_no_allocation_in_the_steady_state() {
    costs_no_allocation(Config { listen: "127.0.0.1:0".into(), ..Config::default() });
}

#[test]
fn an_event_with_an_origin_costs_no_allocation_in_the_steady_state() {
    costs_no_allocation(Config {
        listen: "127.0.0.1:0".into(),
        links: Links { listen: Some("0".into()), ..Links::default() },
        ..Config::default()
    });
}

fn costs_no_allocation(config: Config) {
    let service = Service::start(config).unwrap();
    let url = service.corbaloc("NotificationService");
    let received = Arc::new(AtomicU64::new(0));
    let open = Arc::new(AtomicBool::new(false));
    // Two that take it as it comes, one for which it is translated.
    let consumers: Vec<SimpleConsumer> = [ClientType::Structured, ClientType::Structured, ClientType::Any]
        .into_iter()
        .map(|form| {
            let (received, open) = (Arc::clone(&received), Arc::clone(&open));
            let options = ConsumerOptions { form, check_every: None, ..ConsumerOptions::default() };
            SimpleConsumer::connect(&url, None, options, move |_| {
                wait_until(|| open.load(Ordering::Relaxed));
                received.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .unwrap()
        })
        .collect();
    let supplier = SimpleSupplier::connect(&url, None).unwrap();
    let event = StructuredEvent::new("Test", "Steady", "");
    let allocations = || service.counters().read(Counter::Allocations);
    let all_delivered = |events: u64| {
        wait_until(|| service.counters().read(Counter::Delivered) == 3 * events);
    };
    for _ in 0..WARM_UP {
        supplier.publish(&event).unwrap();
    }
    open.store(true, Ordering::Relaxed);
    all_delivered(WARM_UP);

    assert!(allocations() > 0, "the counting allocator counts");
    let before = allocations();
    for number in 0..COUNTED {
        supplier.publish(&event).unwrap();
        wait_until(|| received.load(Ordering::Relaxed) + 3 * AHEAD >= 3 * (WARM_UP + number));
    }
    all_delivered(WARM_UP + COUNTED);
    assert_steady(allocations() - before, COUNTED, connections(&service));
    drop(consumers);
}

#[test]
fn a_timers_event_costs_no_allocation_in_the_steady_state() {
    const TIMERS: u64 = 32;
    // Two seconds' events gather before counting begins: a machine that is busy with other things leaves consumers behind, too.
    const GATHERED: u64 = 3_200;
    const EVENTS: u64 = 2_000;
    let timer =
        |at| DeclaredTimer { name: format!("timer {at}"), every: Some("20ms".into()), ..DeclaredTimer::default() };
    let timers = (0..TIMERS).map(timer).collect();
    let channel = DeclaredChannel { name: "Timed".into(), properties: [].into(), lane: Vec::new(), timers };
    let config = Config { listen: "127.0.0.1:0".into(), channels: vec![channel], ..Config::default() };
    let service = Service::start(config).unwrap();
    let url = service.corbaloc("NotificationService");
    let open = Arc::new(AtomicBool::new(false));
    let consumers = [ClientType::Structured, ClientType::Any].map(|form| {
        let (open, options) =
            (Arc::clone(&open), ConsumerOptions { form, check_every: None, ..ConsumerOptions::default() });
        SimpleConsumer::connect(&url, Some(1), options, move |_| {
            wait_until(|| open.load(Ordering::Relaxed));
            Ok(())
        })
        .unwrap()
    });
    let delivered = || service.counters().read(Counter::Delivered);
    wait_until(|| service.counters().read(Counter::TimerEvents) > GATHERED);
    open.store(true, Ordering::Relaxed);
    wait_until(|| delivered() > 2 * GATHERED);
    let (before, until) = (service.counters().read(Counter::Allocations), delivered() + 2 * EVENTS);
    wait_until(|| delivered() >= until);
    assert_steady(service.counters().read(Counter::Allocations) - before, EVENTS, connections(&service));
    drop(consumers);
}

/// rustls allocates one vector for each record: with its plaintext when it comes, with its ciphertext when it goes. Four records are what
/// an event is that goes to one consumer: the push, its reply, the push to the consumer, and the reply to that.
const RECORDS: u64 = 4;

#[test]
fn over_tls_an_event_costs_what_rustls_allocates_for_its_records_and_nothing_else() {
    let authority = Authority::new("allocations");
    let Certified { certificate, key, .. } = authority.certify("service");
    let (listen, ca) = (Some("127.0.0.1:0".into()), Some(authority.file()));
    let tls = Tls { listen, certificate: Some(certificate), key: Some(key), ca, required: true, ..Tls::default() };
    let service = Service::start(Config { tls, ..Config::default() }).unwrap();
    let url = service.corbaloc("NotificationService");
    let Certified { certificate, key, .. } = authority.certify("client");
    let tls = Some(OrbTls::trusting(authority.file()).with_identity(certificate, key));
    let orb = OrbOptions { tls, ..OrbOptions::default() };
    let received = Arc::new(AtomicU64::new(0));
    let open = Arc::new(AtomicBool::new(false));
    let (counts, gate) = (Arc::clone(&received), Arc::clone(&open));
    let options = ConsumerOptions { orb: orb.clone(), check_every: None, ..ConsumerOptions::default() };
    let consumer = SimpleConsumer::connect(&url, None, options, move |_| {
        wait_until(|| gate.load(Ordering::Relaxed));
        counts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let options = SupplierOptions { orb, ..SupplierOptions::default() };
    let supplier = SimpleSupplier::connect_with(&url, None, options).unwrap();
    let event = StructuredEvent::new("Test", "Steady", "");
    let pass = |events: u64| {
        for _ in 0..events {
            let expected = received.load(Ordering::Relaxed) + 1;
            supplier.publish(&event).unwrap();
            wait_until(|| received.load(Ordering::Relaxed) == expected);
        }
    };
    // An event is received before its reply is sent, so the next one may come while it is still held: they gather first.
    (0..WARM_UP).for_each(|_| supplier.publish(&event).unwrap());
    open.store(true, Ordering::Relaxed);
    wait_until(|| received.load(Ordering::Relaxed) == WARM_UP);
    pass(WARM_UP);
    let before = service.counters().read(Counter::Allocations);
    pass(COUNTED);
    let allocated = service.counters().read(Counter::Allocations) - before;
    assert!(allocated > 0, "the counting allocator counts");
    assert!(allocated <= RECORDS * (COUNTED + 1), "{allocated} allocations for {COUNTED} events");
    drop(consumer);
}

/// Events of the second test in each pairing: far more than anything grows by, and few enough for 36 pairings.
const COUNTED_EACH: i32 = 500;
/// Those that gather before them, at a consumer that takes none: more than are under way at once while counting, however
/// the threads are scheduled.
const GATHERED_EACH: i32 = 200;

#[test]
fn no_kind_of_proxy_costs_an_allocation_in_the_steady_state() {
    let kinds = || FORMS.into_iter().flat_map(|form| [Model::Push, Model::Pull].map(|model| (form, model)));
    for (form, model) in kinds() {
        let service = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
        let allocations = || service.counters().read(Counter::Allocations);
        let channel = new_channel(&service);
        let consumers: Vec<Consumer> = kinds().map(|(form, model)| Consumer::new(&channel, form, model)).collect();
        let supplier = Supplier::new(&channel, form, model);
        // A pull supplier is asked every millisecond.
        ProxyConsumer::unchecked(supplier.proxy().clone())
            .set_qos(&[Property::new("PullInterval", 10_000_u64)])
            .unwrap();
        let pass = |numbers: core::ops::Range<i32>| {
            let count = numbers.len();
            supplier.give("Steady", numbers);
            for consumer in &consumers {
                consumer.take(count);
            }
        };
        gather(&service, &channel, pass);
        (0..GATHERED_EACH).for_each(|number| pass(number..number + 1));
        let before = allocations();
        (0..COUNTED_EACH).for_each(|number| pass(number..number + 1));
        assert_steady(allocations() - before, COUNTED_EACH.unsigned_abs().into(), connections(&service));
    }
}

/// Lets events gather at a suspended consumer, so that buffers and tables have grown to what they need. One at a time, as they come
/// when they are counted: an event further on in a sequence lies otherwise and is translated otherwise, so the memory it leaves would not
/// fit one that comes alone.
fn gather(service: &Service, channel: &EventChannel, pass: impl Fn(core::ops::Range<i32>)) {
    let idle = Consumer::obtain(channel, ClientType::Structured, Model::Push);
    let _connected = Consumer::connect(idle.clone(), ClientType::Structured, Model::Push);
    idle.invoke("suspend_connection", |_| {}).unwrap();
    let taken_in = service.counters().read(Counter::EventsIn);
    (0..GATHERED_EACH).for_each(|number| pass(number..number + 1));
    // Counted at the end of the lane's round.
    wait_until(|| service.counters().read(Counter::EventsIn) - taken_in == u64::from(GATHERED_EACH.unsigned_abs()));
    idle.invoke("disconnect_structured_push_supplier", |_| {}).unwrap();
}

/// Events that pass while counting, and those before.
const COUNTED_ACROSS: i32 = 2_000;

#[test]
fn neither_a_pool_nor_a_hand_over_costs_an_allocation_in_the_steady_state() {
    let pool = |priority| Property::from(ThreadPool::new(PriorityModel::ServerDeclared, priority, 1));
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    for (suppliers, consumers) in [(10, 10), (10, 20)] {
        let config = Config { listen: "127.0.0.1:0".into(), lanes: lanes.clone(), ..Config::default() };
        let service = Service::start(config).unwrap();
        let channel = new_channel(&service);
        // Two pools of the same priority are two pools, so one for both is set at the channel.
        if suppliers == consumers {
            channel.set_qos(&[pool(suppliers)]).unwrap();
        } else {
            channel.default_supplier_admin().unwrap().set_qos(&[pool(suppliers)]).unwrap();
            channel.default_consumer_admin().unwrap().set_qos(&[pool(consumers)]).unwrap();
        }
        let takers = [ClientType::Structured, ClientType::Any].map(|form| Consumer::new(&channel, form, Model::Push));
        let settled = Supplier::new(&channel, ClientType::Structured, Model::Push);
        let pass = |numbers: core::ops::Range<i32>| {
            let count = numbers.len();
            settled.give("Steady", numbers);
            for taker in &takers {
                taker.take(count);
            }
        };
        // All at once, so that as many as may be are under way to a taker.
        pass(0..GATHERED_EACH);
        gather(&service, &channel, pass);
        (0..GATHERED_EACH).for_each(|number| pass(number..number + 1));
        // The main lane has no part in it and takes over what was routed last when something else wakes it: now, and not while counting. It
        // may do so behind its answer; with the second one that is over.
        (0..2).for_each(|_| drop(channel.default_supplier_admin().unwrap()));
        let before = service.counters().read(Counter::Allocations);
        (0..COUNTED_ACROSS).for_each(|number| pass(number..number + 1));
        let allocated = service.counters().read(Counter::Allocations) - before;
        assert_steady(allocated, COUNTED_ACROSS.unsigned_abs().into(), connections(&service));
        let handed_over = service.counters().read(Counter::HandedOver);
        assert_eq!(handed_over > 0, suppliers != consumers);
    }
}

#[test]
fn turns_cost_no_allocation_in_the_steady_state() {
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
    let channel = new_channel(&service);
    channel.set_qos(&[Topics(vec![Topic::new("Test", "Steady", 10)]).into()]).unwrap();
    // With a larger window, how many are under way at most, and how far lists have grown, is up to the threads' scheduling.
    channel.set_qos(&[Property::new("PushWindow", 1_u16)]).unwrap();
    let takers = [ClientType::Structured, ClientType::Any].map(|form| Consumer::new(&channel, form, Model::Push));
    let suppliers = [(); 2].map(|()| Supplier::new(&channel, ClientType::Structured, Model::Push));
    // Of two topics and from two suppliers at once, so that some wait beside others.
    let pass = |numbers: core::ops::Range<i32>| {
        std::thread::scope(|scope| {
            for (supplier, topic) in suppliers.iter().zip(["Steady", "Other"]) {
                let numbers = numbers.clone();
                scope.spawn(move || supplier.give(topic, numbers));
            }
        });
        for taker in &takers {
            taker.take(2 * numbers.len());
        }
    };
    let waiting_max = || service.counters().read(Counter::EventsQueuedMax);
    // Single ones need not meet each other, and then the lists of those that wait would grow while counting.
    testing::wait_until("two to meet", || {
        pass(0..GATHERED_EACH);
        waiting_max() > 0
    });
    (0..GATHERED_EACH).for_each(|number| pass(number..number + 1));
    let before = service.counters().read(Counter::Allocations);
    (0..COUNTED_ACROSS).for_each(|number| pass(number..number + 1));
    let allocated = service.counters().read(Counter::Allocations) - before;
    assert_steady(allocated, 2 * u64::from(COUNTED_ACROSS.unsigned_abs()), connections(&service));
}

#[test]
fn priorities_cost_no_allocation_in_the_steady_state() {
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), lanes, ..Config::default() }).unwrap();
    let url = service.corbaloc("NotificationService");
    let channel = find_channel(&Orb::new(OrbOptions::default()).resolve(&url).unwrap(), None).unwrap().0;
    channel.set_qos(&[ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &[(0, 1), (100, 1)]).into()]).unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    let open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&open);
    let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 0 };
    let options = ConsumerOptions { priority_model: Some(policy), check_every: None, ..ConsumerOptions::default() };
    let _consumer = SimpleConsumer::connect(&url, None, options, move |received| {
        wait_until(|| gate.load(Ordering::Relaxed));
        // The test may have seen enough.
        let _ = sender.send(received.priority());
        Ok(())
    })
    .unwrap();
    let suppliers = [50, 150].map(|priority| {
        let options = SupplierOptions { priority: Some(priority), ..SupplierOptions::default() };
        (priority, SimpleSupplier::connect_with(&url, None, options).unwrap())
    });
    let event = StructuredEvent::new("Test", "Steady", "");
    // Gathering first, so that buffers and tables have grown to what they need.
    for (_, supplier) in &suppliers {
        (0..WARM_UP).for_each(|_| supplier.publish(&event).unwrap());
    }
    open.store(true, Ordering::Relaxed);
    (0..2 * WARM_UP).for_each(|_| assert!(told.next_in_time().is_some()));
    let pass = |count: u64| {
        for _ in 0..count {
            for (priority, supplier) in &suppliers {
                supplier.publish(&event).unwrap();
                assert_eq!(told.next_in_time(), Some(*priority));
            }
        }
    };
    pass(WARM_UP);
    let before = service.counters().read(Counter::Allocations);
    pass(2_000);
    let allocated = service.counters().read(Counter::Allocations) - before;
    assert_steady(allocated, 4_000, connections(&service));
}

/// Messages that pass while counting, and those before.
const COUNTED_OF_TEMPO: u32 = 2_000;

#[test]
fn a_message_of_tempo_costs_no_allocation_in_the_steady_state_nor_what_is_announced_meanwhile() {
    let tempo = Tempo { listen: Some("0".into()), period_ms: 20, ..Tempo::default() };
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), tempo, ..Config::default() }).unwrap();
    let mut subscribers: [Box<dyn EndPoint>; 3] = [
        Box::new(Datagrams::subscribed(&service, 21, "Test/Steady")),
        Box::new(Datagrams::subscribed(&service, 22, "Test/Steady")),
        Box::new(Stream::subscribed(&service, 23, "Test/Steady")),
    ];
    let mut publishers: [Box<dyn EndPoint>; 2] = [
        Box::new(Datagrams::publishing(&service, 31, "Test/Steady")),
        Box::new(Stream::publishing(&service, 32, "Test/Steady")),
    ];
    publishers[0].meet(2, Role::Publisher, "Test/Other");
    let mut sequence = 0;
    // Several at once, so that some wait for their turn, and one alone.
    let mut pass = |rounds: u32| {
        for _ in 0..rounds {
            for count in [1, 8] {
                for publisher in &mut publishers {
                    (0..count).for_each(|number| publisher.publish(1, sequence + number, &[7; 100]));
                }
                sequence += count;
                for subscriber in &mut subscribers {
                    (0..2 * count).for_each(|_| assert_eq!(subscriber.message().1.len(), 100));
                }
            }
        }
    };
    pass(COUNTED_OF_TEMPO / 10);
    let before = service.counters().read(Counter::Allocations);
    pass(COUNTED_OF_TEMPO / 10);
    let allocated = service.counters().read(Counter::Allocations) - before;
    let streams = 2;
    assert_steady(allocated, u64::from(COUNTED_OF_TEMPO / 10 * 9 * 2), streams);
}
