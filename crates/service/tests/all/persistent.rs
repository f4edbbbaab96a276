//! Events that outlive the process, on a service in this one: what is promised, what is refused, and what comes after a stop.

use client::notify::{
    ClientType, EventChannel, Property, StructuredEvent, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
    ThreadPool, ThreadPoolLanes, find_channel,
};
use client::{InvokeError, ObjectRef, Orb, OrbOptions};
use giop::exception::Kind;
use giop::realtime::PriorityModel;
use giop::value::Value;
use service::{Config, Counter, Delivery, Lanes, Limits, OfflineStore, Scheduling, Service, StoreConfig};
use testing::{TempPath, own_loopback};

pub(crate) use crate::kinds::factory;
use crate::peers::{Bare, await_count, numbered, start, subscribe_to, wait_until};

/// A folder that goes with the test.
pub(crate) struct Folder(TempPath);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(TempPath::new(name))
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn config(&self) -> Config {
        let store = StoreConfig { directory: Some(self.0.to_path_buf()), ..StoreConfig::default() };
        // So that consumers are called for events only.
        let delivery = Delivery { probe_interval_ms: 0, ..Delivery::default() };
        Config { listen: format!("{}:0", own_loopback()), store, delivery, ..Config::default() }
    }

    /// A service that is found where the last one was.
    pub(crate) fn start(&self, config: &Config, last: Option<Service>) -> Service {
        let listen = last.map(|last| {
            let address = last.address().to_string();
            last.shutdown();
            address
        });
        let listen = listen.unwrap_or_else(|| config.listen.clone());
        Service::start(Config { listen, ..config.clone() }).unwrap()
    }
}

pub(crate) fn persistent() -> Property {
    Property::new("EventReliability", 1_i16)
}

pub(crate) fn channel(service: &Service, id: i32) -> EventChannel {
    let orb = Orb::new(OrbOptions::default());
    find_channel(&orb.resolve(&service.corbaloc("NotificationService")).unwrap(), Some(id)).unwrap().0
}

pub(crate) fn supplier(service: &Service, id: i32) -> StructuredProxyPushConsumer {
    let admin = channel(service, id).default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None).unwrap();
    proxy
}

pub(crate) fn suspend(proxy: &ObjectRef) -> StructuredProxyPushSupplier {
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.clone());
    proxy.suspend_connection().unwrap();
    proxy
}

pub(crate) fn number(event: &StructuredEvent) -> i32 {
    match event.field("number") {
        Some(Value::Long(number)) => *number,
        other => panic!("{other:?}"),
    }
}

/// Takes so many events from a consumer's only connection.
fn take(bare: &Bare, count: usize) -> Vec<i32> {
    let mut link = bare.accept();
    (0..count).map(|_| number(&link.accept_push())).collect()
}

fn refused(result: Result<(), InvokeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn persistent_is_refused_where_nothing_is_kept_and_beside_connections_that_are_not() {
    let service = start();
    let (made, _) = factory(&service).create_channel(&[], &[]).unwrap();
    for name in ["EventReliability", "ConnectionReliability"] {
        assert!(refused(made.set_qos(&[Property::new(name, 1_i16)])).contains(name));
    }
    let folder = Folder::new("refused");
    let service = folder.start(&folder.config(), None);
    let best_effort = Property::new("ConnectionReliability", 0_i16);
    let (made, id) = factory(&service).create_channel(&[], &[]).unwrap();
    made.set_qos(&[persistent()]).unwrap();
    // Beneath a channel with events that are to be kept.
    let admin = made.default_consumer_admin().unwrap();
    assert!(refused(admin.set_qos(core::slice::from_ref(&best_effort))).contains("ConnectionReliability"));
    assert!(refused(made.set_qos(core::slice::from_ref(&best_effort))).contains("EventReliability"));
    made.set_qos(&[best_effort, Property::new("EventReliability", 0_i16)]).unwrap();
    let of_supplier = channel(&service, id).default_supplier_admin().unwrap();
    assert!(refused(of_supplier.set_qos(&[persistent()])).contains("EventReliability"));
}

#[test]
fn what_a_consumer_has_not_got_is_there_after_a_stop_and_comes_in_its_order_before_what_is_new() {
    let folder = Folder::new("order");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let [slow, quick] = [(); 2].map(|()| Bare::new());
    let held = subscribe_to(&service, Some(id), slow.reference(), &[]);
    suspend(&held);
    subscribe_to(&service, Some(id), quick.reference(), &[]);
    let from = supplier(&service, id);
    (0..20).for_each(|number| from.push_structured_event(&numbered(number)).unwrap());
    assert_eq!(take(&quick, 20), (0..20).collect::<Vec<_>>());
    await_count(&service, Counter::EventsStored, 20);
    // Once more than need be: a consumer that has confirmed is not sent anything twice.
    let service = folder.start(&config, Some(service));
    let service = folder.start(&config, Some(service));
    await_count(&service, Counter::EventsRestored, 20);
    // A supplier's next push simply works, and comes behind what there was.
    from.push_structured_event(&numbered(20)).or_else(|_| from.push_structured_event(&numbered(20))).unwrap();
    StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
    let mut all = take(&slow, 21);
    all.dedup();
    assert_eq!(all, (0..=20).collect::<Vec<_>>());
    assert_eq!(take(&quick, 1), [20]);
    await_count(&service, Counter::EventsStored, 0);
}

#[test]
fn an_event_says_itself_whether_it_is_to_be_kept_and_its_suppliers_order_stays() {
    let folder = Folder::new("mixed");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[], &[]).unwrap();
    let bare = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), bare.reference(), &[]));
    let from = supplier(&service, id);
    for number in 0..30 {
        let mut event = numbered(number);
        if number % 3 == 0 {
            event.variable_header.push(persistent());
        }
        from.push_structured_event(&event).unwrap();
    }
    held.resume_connection().unwrap();
    assert_eq!(take(&bare, 30), (0..30).collect::<Vec<_>>());
    held.suspend_connection().unwrap();
    for number in 30..60 {
        let mut event = numbered(number);
        if number % 3 == 0 {
            event.variable_header.push(persistent());
        }
        from.push_structured_event(&event).unwrap();
    }
    let service = folder.start(&config, Some(service));
    let _ = held.resume_connection().or_else(|_| held.resume_connection());
    assert_eq!(take(&bare, 10), (30..60).step_by(3).collect::<Vec<_>>());
    await_count(&service, Counter::EventsStored, 0);
}

#[test]
fn an_event_for_consumers_on_several_lanes_is_kept_until_all_of_them_have_it() {
    let folder = Folder::new("lanes");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let lanes = ThreadPoolLanes::new(PriorityModel::ServerDeclared, 5, &[(5, 1)]);
    let [here, there] = [(); 2].map(|()| Bare::new());
    let of_main = suspend(&subscribe_to(&service, Some(id), here.reference(), &[]));
    let of_pool = suspend(&subscribe_to(&service, Some(id), there.reference(), &[lanes.into()]));
    let from = supplier(&service, id);
    (0..10).for_each(|number| from.push_structured_event(&numbered(number)).unwrap());
    of_main.resume_connection().unwrap();
    assert_eq!(take(&here, 10), (0..10).collect::<Vec<_>>());
    await_count(&service, Counter::EventsStored, 10);
    let service = folder.start(&config, Some(service));
    await_count(&service, Counter::EventsRestored, 10);
    let _ = of_pool.resume_connection().or_else(|_| of_pool.resume_connection());
    assert_eq!(take(&there, 10), (0..10).collect::<Vec<_>>());
    await_count(&service, Counter::EventsStored, 0);
}

/// Its supplier was answered that each was taken.
#[test]
fn beyond_the_limit_of_what_is_stored_suppliers_are_notified_and_room_comes_back() {
    let folder = Folder::new("limit");
    let mut config = folder.config();
    config.store.event_bytes_max = 1 << 20;
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let bare = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), bare.reference(), &[]));
    let from = supplier(&service, id);
    let mut event = numbered(0);
    event.remainder = "x".repeat(100 << 10).as_str().into();
    let mut accepted = 0;
    let error = loop {
        match from.push_structured_event(&event) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    let InvokeError::System { exception, .. } = &error else { panic!("{error}") };
    assert_eq!((exception.kind, accepted), (Kind::ImpLimit, 10));
    await_count(&service, Counter::EventsNotStored, 1);
    held.resume_connection().unwrap();
    assert_eq!(take(&bare, 10).len(), 10);
    await_count(&service, Counter::EventsStored, 0);
    wait_until("room", || from.push_structured_event(&event).is_ok());
}

#[test]
fn an_event_that_has_expired_meanwhile_is_not_delivered_after_a_restart() {
    let folder = Folder::new("expired");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let bare = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), bare.reference(), &[]));
    let from = supplier(&service, id);
    for number in 0..4 {
        let mut event = numbered(number);
        // 1 ms, or a day, in units of 100 ns.
        let timeout: u64 = if number % 2 == 0 { 10_000 } else { 24 * 3_600 * 10_000_000 };
        event.variable_header.push(Property::new("Timeout", timeout));
        from.push_structured_event(&event).unwrap();
    }
    let service = folder.start(&config, Some(service));
    let _ = held.resume_connection().or_else(|_| held.resume_connection());
    assert_eq!(take(&bare, 2), [1, 3]);
    await_count(&service, Counter::EventsStored, 0);
}

/// A program that books what it gets must not book it twice, and would have to look each event up if it could not tell them apart.
#[test]
fn a_client_that_asks_for_it_can_tell_events_that_may_have_come_before_from_new_ones() {
    let folder = Folder::new("repeats");
    let config = folder.config();
    let service = folder.start(&config, None);
    let (_, id) = factory(&service).create_channel(&[persistent()], &[]).unwrap();
    let marks = || Property::new("MarkRepeats", true);
    let consumers = [Some(marks()), Some(marks()), None, None].map(|qos| {
        let bare = Bare::new();
        let proxy = subscribe_to(&service, Some(id), bare.reference(), qos.as_slice());
        (suspend(&proxy), bare)
    });
    let from = supplier(&service, id);
    (0..5).for_each(|number| from.push_structured_event(&numbered(number)).unwrap());
    let service = folder.start(&config, Some(service));
    await_count(&service, Counter::EventsRestored, 5);
    from.push_structured_event(&numbered(5)).or_else(|_| from.push_structured_event(&numbered(5))).unwrap();
    // The last one asks while it waits, and has what was made for the others.
    let late = &consumers[3].0;
    late.set_qos(&[marks()]).or_else(|_| late.set_qos(&[marks()])).unwrap();
    for (at, (proxy, bare)) in consumers.iter().enumerate() {
        proxy.resume_connection().or_else(|_| proxy.resume_connection()).unwrap();
        let mut link = bare.accept();
        for number in 0..6 {
            let mut expected = numbered(number);
            if at != 2 && number < 5 {
                expected.variable_header.push(Property::new("PossiblyRepeated", true));
            }
            assert_eq!(link.accept_push(), expected, "consumer {at}");
        }
    }
    await_count(&service, Counter::EventsStored, 0);
    // The supplier writes UTF-8, and consumers that name no code set take ISO 8859-1, with marks or without: two forms of six events.
    assert_eq!(service.counters().read(Counter::Translations), 12, "once for all");
}

/// A service with a lowered `lanes.threads_max` did not start with what it had kept, and a store with more threads than by default was
/// called damaged.
#[test]
fn threads_that_there_are_not_any_more_are_served_by_the_main_lane() {
    let folder = Folder::new("threads");
    let with = |threads_max| {
        let lanes = Lanes { threads_max, scheduling: Scheduling::Ordinary, ..Lanes::default() };
        Config { lanes, limits: Limits { client_quota_percent: 100, ..Limits::default() }, ..folder.config() }
    };
    let many = folder.start(&with(80), None);
    let pool = ThreadPool::new(PriorityModel::ServerDeclared, 10, 70);
    let (_, id) = factory(&many).create_channel(&[pool.into()], &[]).unwrap();
    let address = many.address().to_string();
    many.shutdown();
    assert_eq!(OfflineStore::open(folder.path()).unwrap().check().unwrap(), Vec::<String>::new());
    let few = folder.start(&Config { listen: address, ..with(2) }, None);
    assert!(few.warnings().iter().any(|warning| warning.contains("68 threads more")), "{:?}", few.warnings());
    assert_eq!([Counter::LanesStarted, Counter::LanesRefused].map(|counter| few.counters().read(counter)), [2, 68]);
    let bare = Bare::new();
    subscribe_to(&few, Some(id), bare.reference(), &[]);
    let from = supplier(&few, id);
    (0..10).for_each(|number| from.push_structured_event(&numbered(number)).unwrap());
    assert_eq!(take(&bare, 10), (0..10).collect::<Vec<_>>());
}
