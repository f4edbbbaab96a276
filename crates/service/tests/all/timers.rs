//! Timers of channels, as clients of several protocols, operators and linked services meet them.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use client::notify::StructuredEvent;
use client::{ConsumerOptions, SimpleConsumer};
use giop::value::Value;
use service::{
    Answer, Command, Config, Counter, DeclaredChannel, DeclaredTimer, DeclaredValue, Json, Query, Service, TimerStatus,
};
use testing::NextInTime;

use crate::json::Lines;
use crate::links::{Places, await_flows, await_subscribed};
use crate::logged;
use crate::peers::{read, start_with, wait_until};
use crate::persistent::Folder;

fn every(name: &str, time: &str) -> DeclaredTimer {
    DeclaredTimer { name: name.into(), every: Some(time.into()), ..DeclaredTimer::default() }
}

fn after(name: &str, time: &str) -> DeclaredTimer {
    DeclaredTimer { name: name.into(), after: Some(time.into()), ..DeclaredTimer::default() }
}

fn silence(name: &str, time: &str, types: &[&str]) -> DeclaredTimer {
    let types = types.iter().map(|text| (*text).to_owned()).collect();
    DeclaredTimer { name: name.into(), silence: Some(time.into()), types, ..DeclaredTimer::default() }
}

fn declared(timers: Vec<DeclaredTimer>) -> DeclaredChannel {
    DeclaredChannel { name: "Weather".into(), properties: BTreeMap::new(), lane: Vec::new(), timers }
}

fn config(timers: Vec<DeclaredTimer>) -> Config {
    let json = Json { listen: Some("0".into()), ..Json::default() };
    Config { channels: vec![declared(timers)], json, ..Config::default() }
}

fn subscribed(service: &Service, rest: &str) -> Lines {
    Lines::subscribed(service, &format!(r#","channel":"Weather"{rest}"#))
}

fn publish(lines: &mut Lines, kind: &str) {
    let line =
        format!(r#"{{"op":"publish","id":7,"channel":"Weather","type":"Weather/{kind}","fields":{{"speed":1}}}}"#);
    assert_eq!(lines.ask(&line), r#"{"ok":7}"#);
}

fn corba_consumer(service: &Service) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (sender, received) = channel();
    let (url, options) = (service.corbaloc("NotificationService"), ConsumerOptions::default());
    let consumer = SimpleConsumer::connect(&url, Some(1), options, move |event| {
        let _ = sender.send(event.event().unwrap());
        Ok(())
    });
    (consumer.unwrap(), received)
}

/// A number in an event's line.
fn number(line: &str, field: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{line}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn status(service: &Service) -> Vec<TimerStatus> {
    let Ok(Answer::Timers(timers)) = service.ask(Query::Timers { channel: None, behind: None }) else {
        panic!("timers")
    };
    timers
}

#[test]
fn json_and_corba_consumers_get_timers_events_beside_ordinary_ones() {
    let tick = DeclaredTimer { priority: Some(5), ..every("tick", "20ms") };
    let service = start_with(config(vec![tick]));
    let mut subscriber = subscribed(&service, "");
    let (_consumer, received) = corba_consumer(&service);
    let first = subscriber.line().unwrap();
    let (count, missed) = (number(&first, "count"), number(&first, "missed"));
    let expected = format!(
        r#"{{"event":{{"channel":1,"type":"Campanile/Timer","name":"tick","header":{{"Priority":5}},"fields":{{"kind":"every","count":{count},"missed":{missed}}},"body":null}}}}"#
    );
    assert_eq!(first, expected);
    assert!(read(&service, Counter::TimerIntervalsMissed) >= missed);
    let mut publisher = Lines::connect(&service);
    publish(&mut publisher, "Wind");
    let (mut last, mut ticks, mut winds) = (count, 0, 0);
    while winds == 0 || ticks < 3 {
        let line = subscriber.line().unwrap();
        if line.contains("Weather/Wind") {
            winds += 1;
            continue;
        }
        assert_eq!(number(&line, "count"), last + 1);
        (last, ticks) = (last + 1, ticks + 1);
    }
    let (mut counts, mut winds) = (Vec::new(), 0);
    while winds == 0 || counts.len() < 3 {
        let event = received.next_in_time();
        if event.event_type().to_string() == "Weather/Wind" {
            winds += 1;
            continue;
        }
        assert_eq!((event.event_type().to_string().as_str(), event.event_name.as_str()), ("Campanile/Timer", "tick"));
        assert_eq!(event.field("kind"), Some(&Value::String("every".into())));
        let Some(Value::ULongLong(count)) = event.field("count") else { panic!("{event:?}") };
        counts.push(*count);
    }
    assert!(counts.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{counts:?}");
}

#[test]
fn filters_and_histories_treat_timers_events_as_any_others() {
    let mut config = config(vec![every("tick", "5ms"), every("tock", "5ms")]);
    let folder = Folder::new("timers-history");
    config.store = folder.config().store;
    config.channels[0].properties.insert("HistoryEvents".into(), DeclaredValue::Number(1_000_000));
    let service = start_with(config);
    let filtered = r#","types":["Campanile/Timer"],"where":"$event_name == 'tock' and $count > 2""#;
    let mut subscriber = subscribed(&service, filtered);
    for _ in 0..3 {
        let line = subscriber.line().unwrap();
        assert!(line.contains("\"name\":\"tock\"") && number(&line, "count") > 2, "{line}");
    }
    let mut late = subscribed(&service, r#","types":["Campanile/Timer"],"from":"first""#);
    let line = late.line().unwrap();
    assert_eq!(number(&line, "count"), 1, "the first is in the channel's history: {line}");
}

#[test]
fn a_silence_is_published_once_until_the_next_event_of_its_types() {
    let service = start_with(config(vec![silence("quiet", "30ms", &["Weather/Wind"]), every("tick", "10ms")]));
    let mut subscriber = subscribed(&service, r#","types":["Campanile/Timer"],"where":"$event_name == 'quiet'""#);
    let mut publisher = Lines::connect(&service);
    let waits = || status(&service)[0].next.is_none();
    wait_until("the first silence to be over", waits);
    let fired = status(&service)[0].fired;
    assert_eq!(fired, 1);
    publish(&mut publisher, "Rain");
    // Ten more periods pass, by the other timer, and nothing is said: the timer still waits.
    let ticks = status(&service)[1].fired;
    wait_until("time to pass", || status(&service)[1].fired > ticks + 30);
    assert_eq!((status(&service)[0].fired, waits()), (1, true));
    publish(&mut publisher, "Wind");
    wait_until("the second silence", || status(&service)[0].fired == 2);
    let mut last = number(&subscriber.line().unwrap(), "count");
    if last == 1 {
        last = number(&subscriber.line().unwrap(), "count");
    }
    assert_eq!(last, 2);
}

/// What a restart does: all timers begin anew.
#[test]
fn a_restart_begins_timers_anew_and_a_timer_of_once_fires_once_in_each_process() {
    let folder = Folder::new("timers-restart");
    let declared = config(vec![after("begun", "1ms"), every("tick", "2ms")]);
    let config = Config { channels: declared.channels, ..folder.config() };
    let mut service = folder.start(&config, None);
    for _ in 0..2 {
        wait_until("the timers to fire", || status(&service)[0].fired == 1 && status(&service)[1].fired > 20);
        let [begun, _] = &status(&service)[..] else { panic!("two timers") };
        assert_eq!((begun.name.as_str(), begun.kind, begun.fired, begun.next), ("begun", "after", 1, None));
        service = folder.start(&config, Some(service));
    }
    // Those that the configuration does not have any more are gone, and the channel is there.
    let config = Config { channels: Vec::new(), ..config };
    let service = folder.start(&config, Some(service));
    assert_eq!(status(&service), []);
    let Ok(Answer::ChannelList(channels)) = service.ask(Query::ChannelList { behind: None }) else {
        panic!("channels")
    };
    assert_eq!(channels.len(), 2);
}

#[test]
fn timers_are_declared_changed_and_removed_while_the_service_runs() {
    let service = start_with(config(vec![every("tick", "1ms"), every("slow", "43200min")]));
    wait_until("the timer to fire", || read(&service, Counter::TimerEvents) > 5);
    let declare = |timers| match service.command(Command::DeclareChannel(declared(timers))) {
        Ok(Answer::Applied(done)) => done,
        other => panic!("{other:?}"),
    };
    let slow = status(&service)[1].next.unwrap();
    declare(vec![every("slow", "43200min"), after("once", "1ms")]).unwrap();
    wait_until("the new timer to fire", || status(&service)[1].fired == 1);
    let now = status(&service);
    assert_eq!(now.iter().map(|timer| timer.name.as_str()).collect::<Vec<_>>(), ["slow", "once"]);
    assert!(now[0].next.unwrap() < slow, "it goes on");
    let refused = declare(vec![every("slow", "0s")]).unwrap_err();
    assert!(refused.starts_with("timer \"slow\": every = \"0s\": write a time from \"1ms\" to \"30d\""), "{refused}");
    assert_eq!(status(&service).len(), 2, "nothing is changed");
    declare(Vec::new()).unwrap();
    assert_eq!(status(&service), []);
}

#[test]
fn what_cannot_be_a_timer_is_refused_at_the_start() {
    let config = Config { listen: "127.0.0.1:0".into(), ..config(vec![every("a\u{1b}[31m", "5s")]) };
    let refused = Service::start(config).unwrap_err().to_string();
    assert!(
        refused.contains("[[channels]] \"Weather\": timer \"a\\u{1b}[31m\": its name has the character U+001B"),
        "{refused}"
    );
}

#[test]
fn a_full_channel_drops_timers_events_counts_them_and_says_so_once() {
    logged::begin();
    let mut config = config(vec![every("full-127.0.9.211", "1ms")]);
    let properties = &mut config.channels[0].properties;
    properties.insert("MaxQueueLength".into(), DeclaredValue::Number(4));
    properties.insert("RejectNewEvents".into(), DeclaredValue::Flag(true));
    let service = start_with(config);
    let found = crate::persistent::channel(&service, 1);
    let (consumer, received) = corba_consumer(&service);
    received.next_in_time();
    let admin = found.default_consumer_admin().unwrap();
    let suspended = admin.push_suppliers().unwrap();
    let key = engine::ProxyKey {
        channel: engine::ChannelId(1),
        proxy: engine::ProxyId(u32::try_from(suspended[0]).unwrap()),
    };
    let suspend =
        |suspended| assert!(matches!(service.command(Command::Suspend { key, suspended }), Ok(Answer::Done(Ok(())))));
    suspend(true);
    wait_until("events to be dropped", || read(&service, Counter::TimerEventsDropped) > 50);
    assert_eq!(read(&service, Counter::SuppliersBlocked), 0, "no supplier waits for the consumer");
    assert_eq!(read(&service, Counter::EventsRefused), 0, "no supplier was refused an event");
    let timer = &status(&service)[0];
    assert!(timer.dropped > 50 && timer.next.is_some(), "{timer:?}");
    // The channel goes on when there is room again.
    suspend(false);
    let fired = status(&service)[0].fired;
    wait_until("events to be published", || status(&service)[0].fired > fired + 20);
    let lines = logged::lines(&["full-127.0.9.211", "is dropped"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("lane_timer_events_dropped"), "{lines:?}");
    drop(consumer);
}

/// Where both sides declared a timer, each consumer would have had the events of both.
#[test]
fn a_timer_of_one_side_of_a_link_reaches_the_other_and_one_of_both_sides_comes_once() {
    let places = Places::new(2);
    let start = |number: usize, link, timers| {
        Service::start(Config { channels: vec![declared(timers)], ..places.config(number, link, None) }).unwrap()
    };
    let far = start(1, Vec::new(), vec![every("both", "10ms"), every("alone", "10ms")]);
    let near = start(0, vec![places.link_to(1)], vec![every("both", "10ms")]);
    let mut at_near = subscribed(&near, "");
    let _at_far = subscribed(&far, "");
    await_flows(&[&near, &far], 2);
    for service in [&near, &far] {
        await_subscribed(service, "everything");
    }
    let mut last = BTreeMap::<String, u64>::new();
    let mut seen = BTreeMap::<String, u32>::new();
    while ["both", "alone"].iter().any(|name| seen.get(*name).is_none_or(|seen| *seen < 20)) {
        let line = at_near.line().unwrap();
        let name = ["both", "alone"].into_iter().find(|name| line.contains(&format!("\"name\":\"{name}\""))).unwrap();
        let count = number(&line, "count");
        let last = last.insert(name.to_owned(), count);
        assert!(last.is_none_or(|last| count == last + 1), "{name}: {count} behind {last:?}");
        *seen.entry(name.to_owned()).or_default() += 1;
    }
    wait_until("events of the far timer to be left out", || read(&near, Counter::TimerEventsLeftOut) > 0);
    assert_eq!(read(&far, Counter::LinkEventsRejected), 0);
}
