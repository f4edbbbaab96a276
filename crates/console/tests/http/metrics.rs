//! What scrapers get.

use client::notify::{Property, StructuredEvent};
use client::{ConsumerOptions, OrbOptions, SimpleConsumer};
use service::{Answer, Counter, Http, Query};
use testing::wait_until;

use crate::grammar::{self, Sample, value};
use crate::support::{Rig, nameless, numbered, start, start_with};

fn scrape(rig: &Rig) -> Vec<Sample> {
    let answer = rig.scrape();
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{}",
        answer.head
    );
    grammar::read(&answer.body)
}

/// What is scraped when it is no longer what was scraped before.
fn scrape_until(rig: &Rig, what: &str, fits: impl Fn(&[Sample]) -> bool) -> Vec<Sample> {
    let mut last = Vec::new();
    wait_until(what, || {
        last = scrape(rig);
        fits(&last)
    });
    last
}

/// A counter's metric, found without the console's own rule.
fn metric(samples: &[Sample], counter: Counter) -> Option<f64> {
    let name = match counter {
        Counter::EventBytesIn => "events_in_bytes",
        Counter::CycleMax => "longest_round_seconds",
        Counter::EventBytesStored => "events_stored_bytes",
        Counter::StoreBytes => "store_written_bytes",
        Counter::StandbyLagTime => "standby_lag_seconds",
        Counter::StandbyRecordAge => "standby_record_age_seconds",
        other => other.name().trim_start_matches("lane_"),
    };
    let find = |suffix: &str| value(samples, &format!("campanile_{name}{suffix}"), &[]);
    find("_total").or_else(|| find(""))
}

#[test]
fn every_number_equals_that_of_the_statistics() {
    let rig = start();
    let (_proxy, _mute) = rig.mute_consumer(None, &[Property::new("MaxEventsPerConsumer", 5_i32)]);
    let url = rig.service.corbaloc("NotificationService");
    let options = ConsumerOptions { orb: nameless(), ..ConsumerOptions::default() };
    let _consumer = SimpleConsumer::connect(&url, None, options, |_| Ok(())).unwrap();
    let supplier = rig.supplier(None);
    (0..5).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    rig.await_count(Counter::Delivered, 5);
    // These move also while nothing is asked, and by being asked for.
    let moves = |counter: Counter| {
        use Counter::{
            Allocations, CycleMax, Cycles, HttpConnectionsAccepted, HttpConnectionsOpen, HttpRequests, SystemCalls,
        };
        [Allocations, CycleMax, Cycles, HttpConnectionsAccepted, HttpConnectionsOpen, HttpRequests, SystemCalls]
            .contains(&counter)
    };
    let samples = scrape_until(&rig, "both to say the same", |samples| {
        let Ok(Answer::Counters(told)) = rig.service.ask(Query::Counters) else { panic!("no answer") };
        let same = |(counter, (_, told)): (&Counter, &(&str, u64))| {
            moves(*counter) || metric(samples, *counter) == Some(*told as f64)
        };
        Counter::ALL.iter().zip(&told).all(same)
    });
    assert!(Counter::ALL.iter().all(|counter| metric(&samples, *counter).is_some()), "each is there");
    // Dashboards may ask for the names that counters and the gauge of a channel had before.
    let both = |name: &str, former: &str, labels: &[(&str, &str)]| {
        let found = value(&samples, &format!("campanile_{name}"), labels);
        found.is_some() && found == value(&samples, &format!("campanile_{former}"), labels)
    };
    assert!(both("suppliers_blocked_total", "suppliers_held_total", &[]) && both("events_stored", "events_kept", &[]));
    assert!(both("events_stored_bytes", "events_kept_bytes", &[]));
    assert!(both("channel_blocked_suppliers", "channel_held_suppliers", &[("channel", "0")]));
    assert!(both("lane_events_queued_total", "lane_turns_waited_total", &[("lane", "lane")]));
    assert_eq!(value(&samples, "campanile_events_in_total", &[]), Some(5.0));
    // Each lane, and its totals.
    assert_eq!(value(&samples, "campanile_lane_events_in_total", &[("lane", "lane")]), Some(5.0));
    assert!(value(&samples, "campanile_lane_rounds_total", &[("lane", "lane")]).is_none(), "it has the counter's name");
    assert!(value(&samples, "campanile_lane_cycles_total", &[("lane", "lane")]).unwrap() > 0.0);
    // Each consumer, as `Consumers` tells of it.
    let Ok(Answer::Consumers(consumers)) = rig.service.ask(Query::Consumers) else { panic!("no answer") };
    assert_eq!(consumers.len(), 2);
    for consumer in consumers {
        let proxy = consumer.outbox.key.proxy.0.to_string();
        let labels = [("channel", "0"), ("proxy", proxy.as_str()), ("consumer", consumer.name.as_str())];
        let of = |name: &str| value(&samples, &format!("campanile_consumer_{name}"), &labels);
        assert_eq!(of("delivered_total"), Some(consumer.outbox.delivered as f64));
        assert_eq!(of("backlog_events"), Some(consumer.outbox.backlog_events as f64));
        assert_eq!(of("unanswered"), Some(f64::from(consumer.outbox.in_flight)));
        assert_eq!(of("delivery_latency_seconds_count").unwrap_or(0.0), consumer.outbox.delivered as f64);
    }
}

/// Each life of a client made 38 series, for a proxy that never came again.
#[test]
fn a_client_with_a_name_has_one_series_that_goes_on_when_it_connects_again() {
    let rig = start();
    let url = rig.service.corbaloc("NotificationService");
    let supplier = rig.supplier(None);
    for life in 1..=3_u32 {
        let orb = OrbOptions { name: Some("archive".into()), ..OrbOptions::default() };
        let options = ConsumerOptions { orb, ..ConsumerOptions::default() };
        let consumer = SimpleConsumer::connect(&url, None, options, |_| Ok(())).unwrap();
        (0..2).for_each(|number| supplier.publish(&numbered(number)).unwrap());
        let name = "campanile_consumer_delivered_total";
        let samples = scrape_until(&rig, "the deliveries of all lives", |samples| {
            value(samples, name, &[("channel", "0"), ("consumer", "archive")]) == Some(f64::from(2 * life))
        });
        let of_name: Vec<_> = samples.iter().filter(|sample| sample.name == name).collect();
        assert!(of_name.len() == 1 && !of_name[0].labels.contains_key("proxy"), "{}", of_name.len());
        drop(consumer);
        scrape_until(&rig, "the consumer to go", |samples| {
            value(samples, "campanile_channel_consumers", &[("channel", "0")]) == Some(0.0)
        });
    }
}

#[test]
fn a_channel_reports_what_came_and_went_and_was_dropped_for_which_consumer() {
    let rig = start();
    let channel = rig.new_channel();
    let qos = [Property::new("MaxEventsPerConsumer", 3_i32), Property::new("FullOutbox", "Discard")];
    let (_proxy, _mute) = rig.mute_consumer(Some(channel), &qos);
    let supplier = rig.supplier(Some(channel));
    (0..10).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    let id = channel.to_string();
    let labels = [("channel", id.as_str())];
    let of = |samples: &[Sample], name: &str| value(samples, &format!("campanile_channel_{name}"), &labels);
    let by_full_outbox = |samples: &[Sample], name: &str| value(samples, name, &[labels[0], ("reason", "outbox_full")]);
    // The consumers are asked before the channels, and may not have dropped all yet.
    let samples = scrape_until(&rig, "all to be in", |samples| {
        let dropped = ["campanile_channel_dropped_total", "campanile_consumer_dropped_total"];
        let [of_channel, of_consumer] = dropped.map(|name| by_full_outbox(samples, name));
        of(samples, "events_in_total") == Some(10.0)
            && of(samples, "consumers_behind") == Some(1.0)
            && (of_channel.is_some() && of_channel == of_consumer)
    });
    assert_eq!(of(&samples, "delivered_total"), Some(0.0));
    assert_eq!((of(&samples, "consumers"), of(&samples, "consumers_behind")), (Some(1.0), Some(1.0)));
    assert!(of(&samples, "events_in_bytes_total").unwrap() > 10.0 * 40.0);
    assert!(of(&samples, "oldest_event_age_seconds").unwrap() > 0.0);
    let dropped = by_full_outbox(&samples, "campanile_channel_dropped_total").unwrap();
    assert_eq!(dropped + of(&samples, "backlog_events").unwrap(), 10.0);
    assert_eq!(value(&samples, "campanile_dropped_outbox_full_total", &[]), Some(dropped));
    let state = |state| value(&samples, "campanile_consumer_state", &[labels[0], ("campanile_consumer_state", state)]);
    assert_eq!((state("behind"), state("keeping_up")), (Some(1.0), Some(0.0)));
    // The other channel has nothing to do with it.
    assert_eq!(value(&samples, "campanile_channel_events_in_total", &[("channel", "0")]), Some(0.0));
}

#[test]
fn latencies_are_those_of_delivered_events() {
    let rig = start();
    let url = rig.service.corbaloc("NotificationService");
    let options = ConsumerOptions { orb: nameless(), ..ConsumerOptions::default() };
    let _consumer = SimpleConsumer::connect(&url, None, options, |_| Ok(())).unwrap();
    let supplier = rig.supplier(None);
    (0..20).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    let of = |samples: &[Sample], name: &str| value(samples, name, &[("channel", "0")]);
    let whose = ["channel", "consumer"].map(|who| format!("campanile_{who}_delivery_latency_seconds"));
    // A lane is asked for its channels and for its consumers one after the other.
    let samples = scrape_until(&rig, "20 to be delivered", |samples| {
        whose.iter().all(|name| of(samples, &format!("{name}_count")) == Some(20.0))
    });
    let [channels, consumers] = whose.map(|name| of(&samples, &format!("{name}_sum")).unwrap());
    assert!(channels > 0.0);
    assert_eq!(channels, consumers, "there is one consumer");
    assert_eq!(
        of(&samples, "campanile_channel_delivered_bytes_total"),
        of(&samples, "campanile_channel_events_in_bytes_total")
    );
}

#[test]
fn the_slowest_are_reported_one_by_one_and_the_others_together() {
    let rig = start_with(Http { consumers_max: 3, channels_max: 2, ..Http::default() });
    rig.idle_consumers(40);
    (0..3).for_each(|_| _ = rig.new_channel());
    let (proxy, _mute) = rig.mute_consumer(None, &[]);
    let supplier = rig.supplier(None);
    (0..2).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    drop(proxy);
    let samples = scrape_until(&rig, "41 consumers", |samples| {
        value(samples, "campanile_other_consumers", &[]) == Some(38.0)
            && value(samples, "campanile_other_channels", &[]) == Some(2.0)
    });
    let named = samples.iter().filter(|sample| sample.name == "campanile_consumer_delivered_total").count();
    let channels = samples.iter().filter(|sample| sample.name == "campanile_channel_events_in_total").count();
    assert_eq!((named, channels), (3, 2));
    let states =
        samples.iter().filter(|sample| sample.name == "campanile_consumers").map(|sample| sample.value).sum::<f64>();
    assert_eq!(states, 41.0);
    // All that waits is somewhere.
    let sum_of =
        |name: &str| samples.iter().filter(|sample| sample.name == name).map(|sample| sample.value).sum::<f64>();
    let waiting = sum_of("campanile_consumer_backlog_events") + sum_of("campanile_other_consumers_backlog_events");
    assert_eq!(waiting, sum_of("campanile_channel_backlog_events"));
}

#[test]
fn a_name_of_quotes_and_lines_breaks_nothing() {
    let rig = start();
    let hostile = "x\" \\ {le=\"1\"} 7\n# EOF\n<script>alert(1)</script>";
    let channel = rig.named_channel(hostile);
    let (_proxy, _mute) = rig.mute_consumer_called(Some(channel), "<script>", &[]);
    let mut event = StructuredEvent::new("Test", hostile, hostile);
    event.filterable_data.push(Property::new("text", hostile));
    rig.supplier(Some(channel)).publish(&event).unwrap();
    let samples = scrape_until(&rig, "the event", |samples| {
        value(samples, "campanile_channel_events_in_total", &[("name", hostile)]) == Some(1.0)
    });
    let consumer = samples.iter().find_map(|sample| sample.labels.get("consumer")).unwrap();
    assert!(consumer.contains("<script>") && consumer.contains("\\n# EOF"), "{consumer}");
}

#[test]
fn queries_at_the_same_time_are_answered_with_one_answer() {
    let rig = start();
    rig.idle_consumers(200);
    let (before, began) = (rig.count(Counter::Cycles), std::time::Instant::now());
    let address = rig.address();
    let scrapers: Vec<_> = (0..16)
        .map(|_| {
            std::thread::spawn(move || {
                use std::io::{Read, Write};
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                testing::patient(&stream);
                for _ in 0..4 {
                    let accept = "Accept: application/openmetrics-text";
                    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}\r\n\r\n");
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut all = Vec::new();
                    let mut buffer = [0; 4096];
                    while !all.ends_with(b"# EOF\n") {
                        let count = stream.read(&mut buffer).unwrap();
                        assert!(count > 0);
                        all.extend_from_slice(&buffer[..count]);
                    }
                }
            })
        })
        .collect();
    scrapers.into_iter().for_each(testing::EndInTime::end_in_time);
    assert_eq!(rig.count(Counter::HttpRequests), 64);
    // 200 consumers are reported in 7 rounds and some; 64 times that would be 448 at least. It is asked for twice a second at most.
    let asked_max = began.elapsed().as_millis() / 500 + 2;
    let rounds = rig.count(Counter::Cycles) - before;
    assert!(u128::from(rounds) < 100 * asked_max, "{rounds} rounds");
}

#[test]
fn scrapers_that_do_not_ask_for_openmetrics_get_the_former_format() {
    let rig = start();
    let ask = |accept: &str| {
        rig.send(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"))
    };
    for accept in ["text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "*/*", ""] {
        let answer = ask(accept);
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        assert!(answer.body.contains("# TYPE campanile_events_in_total counter\n") && !answer.body.contains("# EOF"));
    }
    grammar::read(&ask("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1").body);
}
