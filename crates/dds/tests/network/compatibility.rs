//! Writers and readers elsewhere that do not match: by which policy, who they are, and how many are looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use dds::{Difference, Endpoint, Guid, Incompatibilities, News, Options, Participant, Policy, Qos, WaitSet};
use giop::typecode::{Kind, TypeCode};
use testing::rtps::{Parameter, RawPeer, policies};
use testing::wait_until;

use crate::support::{PATIENCE, domain_of, named, number_type, pair, side};

/// What a participant has learnt: how often of each endpoint, and what it is.
struct Learnt {
    set: WaitSet,
    found: BTreeMap<Guid, (u32, Endpoint)>,
    gone: Vec<Guid>,
}

impl Learnt {
    fn new(by: &Participant) -> Self {
        let mut set = by.wait_set().unwrap();
        set.attach_discovery().unwrap();
        Self { set, found: BTreeMap::new(), gone: Vec::new() }
    }

    fn look(&mut self) {
        let Self { set, found, gone } = self;
        let take = |news| match news {
            News::Found(endpoint) => found.entry(endpoint.guid).or_insert_with(|| (0, *endpoint)).0 += 1,
            News::Gone(guid) => gone.push(guid),
        };
        set.wait_for_news(Some(Duration::from_millis(20)), &mut Vec::new(), take).unwrap();
    }

    fn until(&mut self, peer: &RawPeer, guid: [u8; 16]) -> Endpoint {
        wait_until("an endpoint is discovered", || {
            peer.speak();
            self.look();
            self.found.contains_key(&Guid(guid))
        });
        self.found[&Guid(guid)].1.clone()
    }
}

/// Each policy, by packets: what is found is what Cyclone itself counts, and what matches is matched there, too.
#[test]
fn each_policy_of_a_raw_peer_is_found_as_cyclone_has_it() {
    type Case = (bool, fn() -> Vec<Parameter>, Option<(Policy, &'static str, &'static str)>);
    let cases: [Case; 14] = [
        (true, || vec![policies::reliability(true)], None),
        (true, || vec![policies::reliability(false)], Some((Policy::Reliability, "best effort", "reliable"))),
        (false, || vec![policies::durability(1)], Some((Policy::Durability, "volatile", "transient local"))),
        (false, || vec![policies::durability(3)], Some((Policy::Durability, "volatile", "persistent"))),
        (true, || vec![policies::durability(1)], None),
        (false, || vec![policies::deadline(2)], Some((Policy::Deadline, "for ever", "2s"))),
        (true, || vec![policies::latency_budget(3)], Some((Policy::LatencyBudget, "3s", "0ns"))),
        (true, || vec![policies::ownership(1)], Some((Policy::Ownership, "exclusive", "shared"))),
        (
            false,
            || vec![policies::liveliness(2, 9)],
            Some((Policy::Liveliness, "automatic within for ever", "manual by topic within 9s")),
        ),
        (false, || vec![policies::destination_order(1)], Some((Policy::DestinationOrder, "by reception", "by source"))),
        (false, || vec![policies::presentation(1)], Some((Policy::Presentation, "instance", "topic"))),
        (true, || vec![policies::representations(&[2])], Some((Policy::DataRepresentation, "XCDR2", "XCDR1"))),
        (false, || vec![policies::representations(&[2])], Some((Policy::DataRepresentation, "XCDR1", "XCDR2"))),
        (false, || vec![policies::representations(&[2, 0])], None),
    ];
    let us = side(60, 0, Options::loopback());
    let mut learnt = Learnt::new(&us);
    let mut peer = RawPeer::new(domain_of(60), "raw");
    for (number, (is_writer, its, expected)) in cases.into_iter().enumerate() {
        let name = named(&format!("raw_{number}"));
        // Its type is not said: so names count.
        let topic = us.topic_unannounced(&name, &number_type()).unwrap();
        let (writer, reader) = (
            topic.writer(&Qos::default()).unwrap(),
            topic.reader(&Qos { ignore_own: true, ..Qos::default() }).unwrap(),
        );
        let mut its = its();
        if its.iter().all(|(id, _)| *id != policies::reliability(true).0) {
            its.push(policies::reliability(is_writer));
        }
        let at = peer.announce(is_writer, (&name, "test::Number"), &its);
        let endpoint = learnt.until(&peer, peer.guid(is_writer, at));
        let found = Difference::all(&Qos::default(), &endpoint).unwrap();
        let difference = |(policy, offered, requested): (_, &str, &str)| Difference {
            policy,
            offered: offered.to_owned(),
            requested: requested.to_owned(),
        };
        assert_eq!(found, expected.map(difference).into_iter().collect::<Vec<_>>(), "case {number}");
        assert_eq!(topic.conflict(&endpoint, Duration::ZERO), None);
        wait_until(format_args!("Cyclone's own count in case {number}"), || {
            let (writers, readers) = (reader.status().unwrap(), writer.status().unwrap());
            let [matched, not] = if is_writer {
                [writers.writers, writers.incompatible_total]
            } else {
                [readers.readers, readers.incompatible_total]
            };
            [matched, not] == if expected.is_some() { [0, 1] } else { [1, 0] }
        });
        assert!(us.describe(&endpoint).contains("named \"raw\""), "{}", us.describe(&endpoint));
    }
}

/// An episode is reported once, whatever is said again, and ends when the endpoint is gone or another matches.
#[test]
fn an_episode_is_reported_once_and_ends_with_its_endpoint() {
    let us = side(61, 0, Options::loopback());
    let (mut learnt, mut peer) = (Learnt::new(&us), RawPeer::new(domain_of(61), "raw"));
    let name = named("episode");
    let at = peer.announce(true, (&name, "test::Number"), &[policies::reliability(false), policies::partition("A")]);
    let endpoint = learnt.until(&peer, peer.guid(true, at));
    let mut all = Incompatibilities::new("dds.");
    let mut reported = Vec::new();
    let qos = |partition: &str| Qos { late_joiners: 1, partitions: vec![partition.to_owned()], ..Qos::default() };
    for _ in 0..3 {
        let found = Difference::all(&qos("A"), &endpoint).unwrap();
        all.note("test", (&endpoint, || us.describe(&endpoint)), false, found, |found| {
            reported.push(found.to_string());
            true
        });
    }
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(
        reported[0].starts_with(&format!("topic {name:?}: writer {} of participant ", endpoint.guid)),
        "{reported:?}"
    );
    assert!(
        reported[0].ends_with(
            "does not match by reliability (offered: best effort; requested here: reliable), so that nothing of it is read: set \
             dds.reliable = false here, or have it write reliably"
        ),
        "{reported:?}"
    );
    assert!(reported[1].contains("by durability (offered: volatile; requested here: transient local)"), "{reported:?}");
    assert_eq!(all.totals().values().sum::<u64>(), 2);
    // A reader elsewhere has no business with partitions of others; one without a partition may have forgotten it.
    assert_eq!(Difference::all(&qos("B"), &endpoint), None);
    let found = Difference::all(&Qos::default(), &endpoint).unwrap();
    let expected = Difference { policy: Policy::Partition, offered: "[\"A\"]".into(), requested: "none".into() };
    assert_eq!(found, [expected]);
    // With less asked for here, one of the two is over.
    let found = Difference::all(&Qos { reliable: false, ..qos("A") }, &endpoint).unwrap();
    assert!(all.note("test", (&endpoint, String::new), false, found, |_| panic!("nothing is new")));
    assert_eq!(all.iter().map(|found| found.difference.policy).collect::<Vec<_>>(), [Policy::Durability]);
    peer.withdraw(true, at);
    wait_until("it is gone", || {
        peer.speak();
        learnt.look();
        learnt.gone.contains(&endpoint.guid)
    });
    assert!(all.gone("test", endpoint.guid) && !all.gone("test", endpoint.guid));
    assert_eq!(all.iter().count(), 0);
}

#[test]
fn a_thousand_topics_are_looked_at_once_each() {
    const TOPICS: usize = 1000;
    let us = side(62, 0, Options::loopback());
    let (mut learnt, mut peer) = (Learnt::new(&us), RawPeer::new(domain_of(62), "many"));
    for number in 0..TOPICS {
        peer.announce(true, (&named(&format!("many_{number}")), "test::Number"), &[policies::reliability(false)]);
    }
    let guids: Vec<Guid> = (0..TOPICS).map(|number| Guid(peer.guid(true, number))).collect();
    wait_until("all are discovered", || {
        peer.speak();
        learnt.look();
        guids.iter().all(|guid| learnt.found.contains_key(guid))
    });
    // They are said again, and are no news.
    peer.speak();
    learnt.look();
    let looks: u32 = guids.iter().map(|guid| learnt.found[guid].0).sum();
    assert_eq!(looks, u32::try_from(TOPICS).unwrap());
}

#[test]
fn another_type_is_a_difference_and_another_name_for_it_is_not_asked_for() {
    let (a, b) = pair(63);
    let name = named("typed");
    let other = TypeCode::structure("IDL:test/Number:1.0", "Number", &[("text", TypeCode::primitive(Kind::Double))]);
    let (ours, theirs) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &other).unwrap());
    let (_reader, writer) = (ours.reader(&Qos::default()).unwrap(), theirs.writer(&Qos::default()).unwrap());
    let mut learnt = Learnt::new(&a);
    wait_until("the writer is discovered", || {
        learnt.look();
        learnt.found.contains_key(&writer.guid())
    });
    let endpoint = &learnt.found[&writer.guid()].1;
    assert_eq!(Difference::all(&Qos::default(), endpoint).unwrap(), []);
    assert!(ours.needs_type(endpoint));
    let difference = Difference::of_types(&ours.conflict(endpoint, PATIENCE).unwrap());
    assert_eq!(difference.policy, Policy::Type);
    assert!(difference.offered.contains("double text") && difference.requested.contains("number"), "{difference:?}");
}
