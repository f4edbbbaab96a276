//! Channels that keep their past, on a service in this process: a consumer that comes late gets what was, then what is, each once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::SystemTime;

use client::notify::{
    ClientType, ConstraintExp, Property, QosErrorCode, StructuredEvent, StructuredProxyPushConsumer,
    StructuredProxyPushSupplier, ThreadPoolLanes, property_errors,
};
use client::{ConsumerOptions, Orb, OrbOptions, Received, SimpleConsumer};
use giop::realtime::PriorityModel;
use giop::value::Value;
use service::{Config, Counter, Service};
use testing::NextInTime;

use crate::peers::{Bare, Link, await_count, numbered, subscribe_to, wait_until};
use crate::persistent::{Folder, factory, number, supplier};

const HOUR: u64 = 3_600 * 10_000_000;

/// A channel that stores its history.
fn channel(service: &Service, qos: &[Property]) -> i32 {
    factory(service).create_channel(qos, &[]).unwrap().1
}

fn events(count: u64) -> Property {
    Property::new("HistoryEvents", count)
}

fn start_from(place: &str) -> Property {
    Property::new("StartFrom", place)
}

/// The number that the service gave it.
fn event_number(event: &StructuredEvent) -> Option<u64> {
    let property = event.variable_header.iter().find(|property| property.name == "EventNumber")?;
    match property.value.value {
        Value::ULongLong(number) => Some(number),
        ref other => panic!("{other:?} is no number"),
    }
}

/// Subscribes from a place on.
fn begin(service: &Service, id: i32, place: &str) -> Link {
    let bare = Bare::new();
    subscribe_to(service, Some(id), bare.reference(), &[start_from(place)]);
    bare.accept()
}

/// What the next events say, and their numbers.
fn take(link: &mut Link, count: usize) -> Vec<(i32, Option<u64>)> {
    let next = |_| {
        let event = link.accept_push();
        (number(&event), event_number(&event))
    };
    (0..count).map(next).collect()
}

/// The same on a consumer's only connection.
fn take_all(bare: &Bare, count: usize) -> Vec<(i32, Option<u64>)> {
    take(&mut bare.accept(), count)
}

/// When the service got it.
fn event_time(event: &StructuredEvent) -> u64 {
    let property = event.variable_header.iter().find(|property| property.name == "EventTime").unwrap();
    match property.value.value {
        Value::ULongLong(time) => time,
        ref other => panic!("{other:?} is no time"),
    }
}

/// What time it is, as a `TimeBase::TimeT`.
fn time_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    0x01b2_1dd2_1381_4000 + u64::try_from(since_1970.as_nanos() / 100).unwrap()
}

/// Subscribes from a place on to what fits a constraint.
fn filtered(service: &Service, id: i32, constraint: &str, place: &str) -> Bare {
    let bare = Bare::new();
    let channel = crate::persistent::channel(service, id);
    let filter = channel.default_filter_factory().unwrap().unwrap().create_filter("EXTENDED_TCL").unwrap();
    filter.add_constraints(&[ConstraintExp::new(constraint)]).unwrap();
    let admin = channel.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.set_qos(&[start_from(place)]).unwrap();
    proxy.add_filter(&filter).unwrap();
    StructuredProxyPushSupplier::unchecked(proxy.object().clone())
        .connect_structured_push_consumer(&Orb::new(OrbOptions::default()).object(bare.reference()))
        .unwrap();
    bare
}

/// The first that is kept.
fn first(service: &Service, id: i32) -> i32 {
    number(&begin(service, id, "first").accept_push())
}

/// Those that say so, numbered from 1 in the channel.
fn expected(says: impl IntoIterator<Item = i32>) -> Vec<(i32, Option<u64>)> {
    says.into_iter().map(|says| (says, Some(u64::try_from(says).unwrap() + 1))).collect()
}

#[test]
fn a_client_that_comes_late_gets_what_was_and_then_what_comes() {
    let folder = Folder::new("history");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(10_000)]);
    let from = supplier(&service, id);
    let push = |says| from.push_structured_event(&numbered(says)).unwrap();
    (0..100).for_each(push);
    let places = [
        ("first", 0),
        ("last:10", 90),
        ("last:1000", 0),
        ("number:31", 30),
        ("number:0", 0),
        ("since:10m", 0),
        ("time:0", 0),
        ("last:0", 100),
        ("number:101", 100),
        ("after:30", 30),
        ("after:100", 100),
        ("after:5000", 100),
        ("new", 100),
        ("since:0s", 100),
    ];
    let mut links: Vec<(Bare, i32)> = Vec::new();
    for (place, begins) in places {
        let bare = Bare::new();
        subscribe_to(&service, Some(id), bare.reference(), &[start_from(place)]);
        links.push((bare, begins));
    }
    // A consumer that says nothing gets what comes, as it came.
    let plain = Bare::new();
    subscribe_to(&service, Some(id), plain.reference(), &[]);
    let from_past = |(bare, begins): &(Bare, i32)| {
        let mut link = bare.accept();
        assert_eq!(take(&mut link, usize::try_from(100 - begins).unwrap()), expected(*begins..100));
        link
    };
    let (early, late): (Vec<_>, Vec<_>) = links.iter().partition(|(_, begins)| *begins < 100);
    let mut early: Vec<Link> = early.into_iter().map(from_past).collect();
    (100..110).for_each(push);
    early.extend(late.into_iter().map(|(bare, _)| bare.accept()));
    for link in &mut early {
        assert_eq!(take(link, 10), expected(100..110));
    }
    let mut plain = plain.accept();
    assert_eq!(plain.accept_push(), numbered(100));
    await_count(&service, Counter::HistoryStored, 110);
    let read = |counter| service.counters().read(counter);
    assert_eq!((read(Counter::HistoryMissed), read(Counter::Dropped)), (0, 0));
    await_count(&service, Counter::HistoryEvents, 110);
}

/// `number:15` in a channel with 10 as its last event delivered 11, and one that had kept nothing yet its first.
#[test]
fn a_client_that_begins_with_a_number_that_is_yet_to_come_gets_nothing_before_it() {
    let folder = Folder::new("history-ahead");
    let service = folder.start(&folder.config(), None);
    // What is not answered yet when a consumer ends counts as dropped: they end last.
    let mut consumers = Vec::new();
    for kept in [0, 10] {
        let id = channel(&service, &[events(1_000)]);
        let from = supplier(&service, id);
        let push = |says| from.push_structured_event(&numbered(says)).unwrap();
        (0..kept).for_each(push);
        let ahead: Vec<Bare> = [start_from("number:15"), Property::new("StartFrom", 15_u64)]
            .into_iter()
            .map(|start| {
                let bare = Bare::new();
                subscribe_to(&service, Some(id), bare.reference(), &[start]);
                bare
            })
            .collect();
        let (sender, received) = mpsc::channel();
        let take = move |received: Received<'_>| {
            sender.send((number(&received.event().unwrap()), received.number().unwrap().map(|it| it.number))).unwrap();
            Ok(())
        };
        let options = ConsumerOptions { start_from: Some("number:15".into()), ..ConsumerOptions::default() };
        let url = service.corbaloc("NotificationService");
        let typed = SimpleConsumer::connect(&url, Some(id), options, take).unwrap();
        // Of what it begins with it wants some.
        let filtered = filtered(&service, id, "$number >= 17 or $number < 13", "number:15");
        let in_order = Bare::new();
        subscribe_to(&service, Some(id), in_order.reference(), &[start_from("first")]);
        (kept..20).for_each(push);
        // When this one has all, the others have had their turns.
        assert_eq!(take_all(&in_order, 20), expected(0..20));
        for bare in &ahead {
            assert_eq!(take_all(bare, 6), expected(14..20), "{kept}");
        }
        let typed_got: Vec<_> = (0..6).map(|_| received.next_in_time()).collect();
        assert_eq!(typed_got, expected(14..20), "{kept}");
        assert_eq!(take_all(&filtered, 3), expected(17..20), "{kept}");
        consumers.push(typed);
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

/// The same as [`a_client_that_begins_with_a_number_that_is_yet_to_come_gets_nothing_before_it`] for times, beside a restart while it
/// waits.
#[test]
fn a_client_that_begins_with_what_is_yet_to_come_waits_for_it_over_a_restart() {
    let folder = Folder::new("history-ahead-restart");
    let config = folder.config();
    let mut service = folder.start(&config, None);
    let id = channel(&service, &[events(100_000)]);
    (0..10).for_each(|says| supplier(&service, id).push_structured_event(&numbered(says)).unwrap());
    let at = time_now() + 15_000_000;
    let (by_number, by_time, never) = (Bare::new(), Bare::new(), Bare::new());
    let starts = [
        (&by_number, "number:15".to_owned()),
        (&by_time, format!("time:{at}")),
        (&never, format!("time:{}", at + HOUR)),
    ];
    for (bare, start) in &starts {
        subscribe_to(&service, Some(id), bare.reference(), &[start_from(start)]);
    }
    service = folder.start(&config, Some(service));
    let from = supplier(&service, id);
    let mut says = 10;
    let mut push = || {
        from.push_structured_event(&numbered(says)).unwrap();
        says += 1;
        says
    };
    while push() < 20 {}
    // No more events than are taken from all while the last consumer's connection waits to be accepted.
    wait_until("that time has come", || time_now() > at);
    while push() < 30 {}
    let count = push();
    assert_eq!(take_all(&by_number, usize::try_from(count - 14).unwrap()), expected(14..count));
    // What came before that time is known by one that gets all.
    let all = Bare::new();
    subscribe_to(&service, Some(id), all.reference(), &[start_from("first")]);
    let mut all = all.accept();
    let came: Vec<u64> = (0..count).map(|_| event_time(&all.accept_push())).collect();
    let first = i32::try_from(came.iter().filter(|came| **came < at).count()).unwrap();
    assert_eq!(take_all(&by_time, usize::try_from(count - first).unwrap()), expected(first..count));
    // Once it has begun, it goes on after another restart, and does not begin once more.
    service = folder.start(&config, Some(service));
    supplier(&service, id).push_structured_event(&numbered(count)).unwrap();
    for bare in [&by_number, &by_time] {
        assert_eq!(take_all(bare, 1), expected([count]));
    }
    never.listener.set_nonblocking(true).unwrap();
    assert!(never.listener.accept().is_err(), "nothing is sent to one that is yet to begin");
}

/// The last piece of the history and the first event that comes meet while events come.
#[test]
fn nothing_is_missing_and_nothing_comes_twice_while_events_come() {
    let folder = Folder::new("history-live");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(1_000_000)]);
    let stop = Arc::new(AtomicBool::new(false));
    let pushing = {
        let (from, stop) = (supplier(&service, id), Arc::clone(&stop));
        thread::spawn(move || {
            let mut says = 0;
            while !stop.load(Ordering::Relaxed) {
                from.push_structured_event(&numbered(says)).unwrap();
                says += 1;
            }
            says
        })
    };
    let mut consumers: Vec<(Link, i32)> = Vec::new();
    for at in 1..=12_u64 {
        await_at_least(&service, Counter::HistoryStored, at * 500);
        let mut link = begin(&service, id, if at % 3 == 0 { "last:40" } else { "first" });
        let first = number(&link.accept_push());
        consumers.push((link, first + 1));
        for (link, next) in &mut consumers {
            for (says, _) in take(link, 300) {
                assert_eq!(says, *next);
                *next += 1;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let count = pushing.join().unwrap();
    // In turns: one that is left with a push for long is taken to be dead.
    while consumers.iter().any(|(_, next)| *next < count) {
        for (link, next) in &mut consumers {
            let until = count.min(*next + 300);
            assert_eq!(take(link, usize::try_from(until - *next).unwrap()), expected(*next..until));
            *next = until;
        }
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

fn await_at_least(service: &Service, counter: Counter, count: u64) {
    wait_until("events to be kept", || service.counters().read(counter) >= count);
}

#[test]
fn the_history_outlives_the_process_and_numbers_go_on() {
    let folder = Folder::new("history-restart");
    let config = folder.config();
    let mut service = folder.start(&config, None);
    let id = channel(&service, &[events(100_000)]);
    for round in 0..3 {
        let from = supplier(&service, id);
        (round * 50..round * 50 + 50).for_each(|says| from.push_structured_event(&numbered(says)).unwrap());
        service = folder.start(&config, Some(service));
    }
    let mut link = begin(&service, id, "first");
    assert_eq!(take(&mut link, 150), expected(0..150));
    let mut link = begin(&service, id, "last-of-each-type");
    assert_eq!(take(&mut link, 1), expected([149]));
    supplier(&service, id).push_structured_event(&numbered(150)).unwrap();
    assert_eq!(take(&mut link, 1), expected([150]));
    // A consumer that is connected again after a restart goes on, and does not begin once more.
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[start_from("first")]);
    assert_eq!(take(&mut bare.accept(), 151), expected(0..151));
    let service = folder.start(&config, Some(service));
    supplier(&service, id).push_structured_event(&numbered(151)).unwrap();
    assert_eq!(take(&mut bare.accept(), 1), expected([151]));
}

#[test]
fn the_last_of_each_type_and_of_each_value_of_a_field_come_in_order() {
    let folder = Folder::new("history-last");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(10_000)]);
    let from = supplier(&service, id);
    for says in 0..60 {
        let mut event = numbered(says);
        event.type_name = ["A", "B", "C"][usize::try_from(says % 3).unwrap()].into();
        if says < 40 {
            let antenna = ["north", "south"][usize::try_from(says % 2).unwrap()];
            event.filterable_data.push(Property::new("antenna", antenna));
        }
        from.push_structured_event(&event).unwrap();
    }
    assert_eq!(take(&mut begin(&service, id, "last-of-each-type"), 3), expected([57, 58, 59]));
    let mut link = begin(&service, id, "last-of-each:$antenna");
    assert_eq!(take(&mut link, 2), expected([38, 39]));
    // What has no such field is the last of none; but what comes, comes.
    from.push_structured_event(&numbered(60)).unwrap();
    assert_eq!(take(&mut link, 1), expected([60]));
}

#[test]
fn filters_choose_of_the_history_as_of_what_comes() {
    let folder = Folder::new("history-filter");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(10_000)]);
    let from = supplier(&service, id);
    (0..100).for_each(|says| from.push_structured_event(&numbered(says)).unwrap());
    let bare = filtered(&service, id, "($number >= 50 and $number < 60) or $number > 100", "first");
    let mut link = bare.accept();
    assert_eq!(take(&mut link, 10), expected(50..60));
    (100..103).for_each(|says| from.push_structured_event(&numbered(says)).unwrap());
    assert_eq!(take(&mut link, 2), expected([101, 102]));
}

#[test]
fn no_more_is_kept_than_is_to_be() {
    let folder = Folder::new("history-limits");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(100)]);
    let from = supplier(&service, id);
    (0..2_000).for_each(|says| from.push_structured_event(&numbered(says)).unwrap());
    assert_eq!(take(&mut begin(&service, id, "first"), 100), expected(1_900..2_000));
    assert_eq!(take(&mut begin(&service, id, "number:5"), 1), expected([1_900]), "the first that there is");
    wait_until("files to be removed", || service.counters().read(Counter::HistoryEvents) < 700);
    // By octets: of 64 KiB a file at least, of which one is written to.
    let id = channel(&service, &[Property::new("HistoryBytes", 300_000_u64)]);
    let from = supplier(&service, id);
    for says in 0..2_000 {
        let mut event = numbered(says);
        event.remainder = "x".repeat(900).as_str().into();
        from.push_structured_event(&event).unwrap();
    }
    wait_until("the rest to be removed", || first(&service, id) > 1_500);
    assert!(first(&service, id) < 1_950);
}

#[test]
fn all_together_keep_no_more_than_the_service_lets_them() {
    let folder = Folder::new("history-all");
    let mut config: Config = folder.config();
    config.store.history_bytes_max = 1 << 20;
    let service = folder.start(&config, None);
    let id = channel(&service, &[events(1_000_000)]);
    let from = supplier(&service, id);
    for says in 0..1_500 {
        let mut event = numbered(says);
        event.remainder = "x".repeat(2_000).as_str().into();
        from.push_structured_event(&event).unwrap();
    }
    let read = |counter| service.counters().read(counter);
    wait_until("the rest to be removed", || first(&service, id) > 900);
    assert!(first(&service, id) < 1_300);
    wait_until("it to be notified", || read(Counter::HistoryCut) > 0 && read(Counter::HistoryBytes) <= 1 << 20);
}

#[test]
fn a_channel_that_is_gone_has_no_history_and_one_that_keeps_none_has_none() {
    let folder = Folder::new("history-gone");
    let service = folder.start(&folder.config(), None);
    let files = || std::fs::read_dir(folder.path().join("history")).unwrap().count();
    let id = channel(&service, &[events(100)]);
    supplier(&service, id).push_structured_event(&numbered(0)).unwrap();
    wait_until("it to be kept", || files() == 1);
    let object = crate::persistent::channel(&service, id);
    object.set_qos(&[events(0)]).unwrap();
    wait_until("it to be removed", || files() == 0);
    object.set_qos(&[events(100)]).unwrap();
    let from = supplier(&service, id);
    from.push_structured_event(&numbered(7)).unwrap();
    assert_eq!(take(&mut begin(&service, id, "first"), 1), [(7, Some(2))], "numbers go on");
    object.destroy().unwrap();
    wait_until("it to be removed", || files() == 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new("history-refused");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[]);
    let refused = |qos: &[Property]| {
        let object = crate::persistent::channel(&service, id);
        let errors = object.set_qos(qos).map_or_else(|error| property_errors(&error).unwrap(), |()| Vec::new());
        errors.into_iter().map(|error| error.code).collect::<Vec<_>>()
    };
    assert_eq!(refused(&[start_from("first")]), [QosErrorCode::UnavailableValue], "it stores no history");
    assert_eq!(refused(&[start_from("yesterday")]), [QosErrorCode::BadValue]);
    assert_eq!(refused(&[Property::new("StartFrom", true)]), [QosErrorCode::BadType]);
    assert_eq!(refused(&[Property::new("HistoryBytes", 1_u64 << 60)]), [QosErrorCode::BadValue]);
    assert_eq!(refused(&[start_from("first"), Property::new("HistoryAge", HOUR)]), []);
    // Where nothing is kept there is no history either.
    let service = crate::peers::start();
    let refused = factory(&service).create_channel(&[events(1)], &[]);
    assert!(refused.is_err());
}

/// It is so far behind that what it was to get next is not kept any more.
#[test]
fn a_consumer_that_is_too_slow_for_the_history_sees_by_the_numbers_what_is_missing() {
    let folder = Folder::new("history-slow");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[Property::new("HistoryBytes", 2_000_000_u64)]);
    let from = supplier(&service, id);
    let push = |says| {
        let mut event = numbered(says);
        event.remainder = "x".repeat(900).as_str().into();
        from.push_structured_event(&event).unwrap();
    };
    push(0);
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[start_from("first")]);
    let mut link = bare.accept();
    let (request, event) = link.push();
    assert_eq!((number(&event), event_number(&event)), (0, Some(1)));
    // That one has the history behind it. Another one stands still while it is in it: there is more than what comes at a time.
    (1..1_500).for_each(push);
    let held = Bare::new();
    subscribe_to(&service, Some(id), held.reference(), &[start_from("first")]);
    let mut held = held.accept();
    let (held_request, event) = held.push();
    let begun = number(&event);
    (1_500..5_000).for_each(push);
    held.reply(held_request, giop::message::ReplyStatus::NoException, None);
    let mut last = begun;
    let mut missing = 0;
    while last < 4_999 {
        let event = held.accept_push();
        let says = number(&event);
        assert!(says > last && event_number(&event) == Some(u64::try_from(says).unwrap() + 1), "{says} after {last}");
        missing += u64::try_from(says - last - 1).unwrap();
        last = says;
    }
    assert!(missing > 0);
    await_count(&service, Counter::DroppedOverflowLost, missing);
    link.reply(request, giop::message::ReplyStatus::NoException, None);
    assert_eq!(take(&mut link, 4_999), expected(1..5_000), "a consumer that keeps up has everything");
}

/// What suppliers push to a pool's thread is kept, too, and a consumer with a pool that begins in the history gets it with the rest.
#[test]
fn events_of_all_lanes_are_kept_in_one_order() {
    let folder = Folder::new("history-lanes");
    let service = folder.start(&folder.config(), None);
    let id = channel(&service, &[events(100_000)]);
    let pool = || Property::from(ThreadPoolLanes::new(PriorityModel::ServerDeclared, 5, &[(5, 1)]));
    let of_pool = {
        let channel = crate::persistent::channel(&service, id);
        let admin = channel.default_supplier_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        proxy.set_qos(&[pool()]).unwrap();
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).unwrap();
        proxy
    };
    let of_main = supplier(&service, id);
    let push = |says: i32| {
        let from = if says % 2 == 0 { &of_pool } else { &of_main };
        from.push_structured_event(&numbered(says)).unwrap();
    };
    (0..100).for_each(push);
    // A consumer on the pool's lane gets what comes there.
    let there = Bare::new();
    subscribe_to(&service, Some(id), there.reference(), &[pool()]);
    let bare = Bare::new();
    subscribe_to(&service, Some(id), bare.reference(), &[start_from("first"), pool()]);
    (100..300).for_each(push);
    let mut link = bare.accept();
    let (mut last, mut next) = ([-2, -1], 1);
    for (says, number) in take(&mut link, 300) {
        let of = &mut last[usize::try_from(says % 2).unwrap()];
        assert_eq!((says, number), (*of + 2, Some(next)));
        (*of, next) = (says, next + 1);
    }
    let mut there = there.accept();
    let mut last = [98, 99];
    for (says, _) in take(&mut there, 200) {
        let of = &mut last[usize::try_from(says % 2).unwrap()];
        assert_eq!(says, *of + 2);
        *of = says;
    }
    await_count(&service, Counter::HistoryStored, 300);
}
