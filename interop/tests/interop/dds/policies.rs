//! Writers and readers of Fast DDS (Debian's) and of Cyclone DDS for Python that do not match a join, and those that do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ::dds::{Qos, Reader};
use client::notify::StructuredEvent;
use console::Console;
use giop::value::{AnyValue, Value};
use service::{Answer, Config, Counter, DdsIncompatibility, DdsJoin, DdsJoinStatus, DdsType, Http, Query, Service};
use testing::rtps::{RawPeer, policies};
use testing::{Killed, Leash, NextInTime, lines_of, patient, wait_until};

use super::{URI, config, consumer, count, domain, join, joined, participant, partition, supplier, wind, wind_event};

/// Whose programs are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vendor {
    FastDds,
    Cyclone,
}

/// A running program. Dropping it ends it.
struct Peer {
    child: Killed,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What a reader got before it said that it was ready.
    early: Vec<String>,
    _leash: Leash,
}

impl Peer {
    /// One with the topic `Wind`.
    fn start(vendor: Vendor, test: u32, words: &[&str]) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = here.join("../target/interop");
        let mut command = match vendor {
            Vendor::FastDds => Command::new(built.join("fastdds/peer")),
            Vendor::Cyclone => Command::new(built.join("dds/bin/python3")),
        };
        if vendor == Vendor::Cyclone {
            command.arg(here.join("cyclonedds/peer.py")).env("CYCLONEDDS_URI", URI);
        }
        command.args([&domain(test).to_string(), &partition(test), "Wind"]).args(words);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{error}: run `make test` (or interop/install.sh)"));
        let leash = Leash::new(&child, "a program of DDS");
        let lines = lines_of(child.stdout.take().unwrap());
        let early = std::iter::from_fn(|| Some(lines.next_in_time()).filter(|line| line != "ready")).collect();
        Self { input: child.stdin.take(), child: Killed(child), lines, early, _leash: leash }
    }

    fn write(&mut self, count: u32) {
        writeln!(self.input.as_mut().unwrap(), "{count}").unwrap();
    }

    /// Ends by itself, as one that takes its leave.
    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// A join that does not need others to say their types: Fast DDS does not, so that Cyclone understood it.
fn declared(test: u32) -> DdsJoin {
    let definition = "module demo { struct Wind { string station; double speed; }; };".into();
    DdsJoin { types: vec![DdsType { topic: "Wind".into(), name: None, definition }], ..join(test) }
}

fn status(service: &Service) -> DdsJoinStatus {
    let Ok(Answer::DdsJoins(mut joins)) = service.ask(Query::DdsJoins) else { panic!("joins") };
    joins.remove(0)
}

/// The one that does not match.
fn incompatible(service: &Service, policy: &str) -> DdsIncompatibility {
    let mut found = Vec::new();
    wait_until(format_args!("one does not match by {policy}"), || {
        found = status(service).incompatible;
        !found.is_empty()
    });
    assert_eq!((found.len(), found[0].policy, found[0].topic.as_str()), (1, policy, "Wind"), "{found:?}");
    found.remove(0)
}

fn until_none(service: &Service) {
    wait_until("the episode is over", || status(service).incompatible.is_empty());
}

/// Each was silent once: the program ran, nothing came, and no line said why.
fn is_found(test: u32, vendor: Vendor) {
    let cases = [
        (&["writer", "best-effort"][..], "reliability", "best effort", "reliable", "set reliable = false here"),
        (&["writer", "xcdr2"], "data_representation", "XCDR2", "XCDR1", "have it write XCDR1"),
        (
            &["reader", "transient-local"],
            "durability",
            "volatile",
            "transient local",
            "set late_joiners to 1 or more here",
        ),
    ];
    let service = joined(declared(test));
    // Debian's Fast DDS writes XCDR1 alone.
    let cases = cases.into_iter().filter(|(words, ..)| vendor != Vendor::FastDds || !words.contains(&"xcdr2"));
    for (number, (words, policy, offered, requested, advice)) in (1..).zip(cases) {
        let peer = Peer::start(vendor, test, words);
        let found = incompatible(&service, policy);
        assert_eq!((found.offered.as_str(), found.requested.as_str()), (offered, requested));
        assert!(found.advice.starts_with(advice), "{found:?}");
        assert!(found.peer.starts_with(&format!("{} ", words[0])), "{found:?}");
        let known_by = if vendor == Vendor::FastDds { "named \"fast-peer\"" } else { "python" };
        assert!(found.peer.contains(known_by), "{found:?}");
        wait_until("it is counted", || count(&service, Counter::DdsIncompatible) == number);
        let totals = status(&service).totals;
        assert!(totals.contains(&("Wind".to_owned(), policy, 1)), "{totals:?}");
        peer.leave();
        until_none(&service);
    }
}

#[test]
fn what_does_not_match_of_fast_dds_is_found_counted_and_over_when_it_leaves() {
    is_found(15, Vendor::FastDds);
}

#[test]
fn what_does_not_match_of_cyclone_dds_is_found_counted_and_over_when_it_leaves() {
    is_found(16, Vendor::Cyclone);
}

/// What matches is read and written, and a reader that comes late gets what the join keeps for it.
fn meets(test: u32, vendor: Vendor) {
    let service = joined(DdsJoin { late_joiners: 3, ..declared(test) });
    let (_consumer, events) = consumer(&service);
    let mut writer = Peer::start(vendor, test, &["writer", "transient-local"]);
    writer.write(2);
    let speed = |event: StructuredEvent| match event.remainder {
        AnyValue { value: Value::Struct { fields, .. }, .. } => fields[1].1.clone(),
        other => panic!("{other:?}"),
    };
    let came = [events.next_in_time(), events.next_in_time()].map(speed);
    assert_eq!(came, [Value::Double(1.0), Value::Double(2.0)]);
    // Of its own participant, so that it is known when the join has written all.
    let live: Reader = participant(test)
        .topic_unannounced("Wind", &wind())
        .unwrap()
        .reader(&Qos { late_joiners: 1, ..super::in_partition(test) })
        .unwrap();
    let supplier = supplier(&service);
    for number in 11..16 {
        supplier.publish(&wind_event("Wind", number.into())).unwrap();
    }
    let mut seen = 0;
    wait_until("all are written", || {
        live.take(64, |sample| seen += u32::from(sample.cdr.ends_with(&15.0_f64.to_ne_bytes()))).unwrap();
        seen > 0
    });
    let mut late = Peer::start(vendor, test, &["reader", "transient-local"]);
    // What its writer does not know yet to have arrived is kept, too, and the reader of the program's own writer has its two.
    let mut last = std::mem::take(&mut late.early);
    wait_until("the late joiner has the last", || {
        last.extend(late.lines.recv_timeout(Duration::from_millis(20)));
        ["got 13", "got 14", "got 15"].iter().all(|line| last.iter().any(|got| got == line))
    });
    assert_eq!(status(&service).incompatible, []);
}

#[test]
fn programs_of_fast_dds_and_late_joiners_meet_those_of_corba() {
    meets(17, Vendor::FastDds);
}

#[test]
fn programs_of_cyclone_dds_and_late_joiners_meet_those_of_corba() {
    meets(18, Vendor::Cyclone);
}

/// Of a thousand topics each endpoint is looked at once, and what is kept, counted by name and logged is bounded.
#[test]
fn a_thousand_topics_that_do_not_match_are_looked_at_once_each() {
    let service = joined(join(19));
    let mut peer = RawPeer::new(domain(19), "many");
    for number in 0..1000 {
        let policies = [policies::reliability(false), policies::partition(&partition(19))];
        peer.announce(true, (&format!("many_{number}"), "demo::Many"), &policies);
    }
    wait_until("all are looked at", || {
        peer.speak();
        count(&service, Counter::DdsIncompatible) == 1000
    });
    // Others take part in the domain only if another run has the same.
    assert_eq!(count(&service, Counter::DdsDiscovered), 1000);
    let status = status(&service);
    assert_eq!((status.incompatible.len(), status.beyond, status.totals.len()), (256, 744, 129));
    // None says its type, so that none is read, which is counted too.
    wait_until("none is read", || count(&service, Counter::DdsUntyped) == 1000);
    assert_eq!(status.topics_read, 0);
}

/// What the console answers.
fn got(console: &Console, path: &str) -> String {
    let mut stream = TcpStream::connect(console.address().unwrap()).unwrap();
    patient(&stream);
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A reader of everything in DDS's own partition is others' business, unless the join has its topic; and one that forgot the partition is told.
#[test]
fn a_partition_that_was_forgotten_is_found_and_other_partitions_are_not() {
    let config = config(declared(20));
    let config =
        Config { listen: "127.0.0.1:0".into(), http: Http { listen: Some("0".into()), ..Http::default() }, ..config };
    let service = Service::start(config.clone()).unwrap();
    let console = Console::start(&config, &service).unwrap().unwrap();
    let mut peer = RawPeer::new(domain(20), "apart");
    let reliable = policies::reliability(true);
    for (topic, partition) in [("Wind", "Elsewhere"), ("Rain", ""), ("Wind", "")] {
        peer.announce(true, (topic, "demo::Wind"), &[reliable.clone(), policies::partition(partition)]);
    }
    wait_until("all are looked at", || {
        peer.speak();
        count(&service, Counter::DdsDiscovered) == 3
    });
    let found = incompatible(&service, "partition");
    // So do metrics and the API say it, and what the command line asks.
    let of_policy = "campanile_dds_topic_incompatible_total{channel=\"0\",topic=\"Wind\",policy=\"partition\"} 1";
    wait_until("it is among the metrics", || got(&console, "/metrics").contains(of_policy));
    let api: serde_json::Value = serde_json::from_str(&got(&console, "/api/v1/dds")).unwrap();
    let of_api = &api["joins"][0]["incompatible"][0];
    assert_eq!((of_api["policy"].as_str(), of_api["peer"].as_str()), (Some("partition"), Some(found.peer.as_str())));
    let orb = client::Orb::new(client::OrbOptions::default());
    let statistics = orb.resolve(&service.corbaloc("Statistics")).unwrap();
    type Texts = ((String, String), ((String, String), (String, String)));
    type Join = ((u32, String), ((u32, u32), (Vec<Texts>, u64)));
    let joins: Vec<Join> = statistics.request("get_dds_joins", &()).unwrap();
    let ((0, _), ((1, 0), (of_object, 0))) = &joins[0] else { panic!("{joins:?}") };
    let ((topic, peer), ((policy, _), (_, advice))) = &of_object[0];
    assert_eq!((topic.as_str(), peer, policy.as_str(), advice), ("Wind", &found.peer, "partition", &found.advice));
    assert_eq!((found.offered.as_str(), found.requested), ("none", format!("[{:?}]", partition(20))));
    assert_eq!(found.advice, "set its partition, or partition here");
}
