//! All twelve kinds of proxies: what a supplier of any kind supplies, a consumer of any kind gets, as the standard translates it.

use interop::{Orb, Peer, first_consumer, further_consumer, service, supplier};

/// Two rounds of all shapes.
const EVENTS: u32 = 34;

const KINDS: [&str; 6] = [
    "--form any",
    "--form structured",
    "--form sequence",
    "--form any --pull",
    "--form structured --pull",
    "--form sequence --pull",
];

/// One supplier of each kind into one consumer of each kind, 36 pairings; `first` says whose the first supplier is, and they
/// take turns, so that each kind's events go to both ORBs.
fn every_pairing(first: Orb) {
    let service = service();
    let orb =
        |index: usize| if (index.is_multiple_of(2)) == (first == Orb::OmniOrb) { Orb::OmniOrb } else { Orb::JacOrb };
    for (at, kind) in KINDS.into_iter().enumerate() {
        let from = if kind.starts_with("--form any") { "any" } else { "structured" };
        let words = |kind: &str| format!("{kind} --from {from} --scenario all --count {EVENTS}");
        let (consumer, channel) = first_consumer(orb(at), &service, &words(KINDS[0]));
        let mut consumers = vec![consumer];
        for (index, kind) in KINDS.into_iter().enumerate().skip(1) {
            consumers.push(further_consumer(orb(at + index), &service, &channel, &words(kind)));
        }
        let words = format!("{kind} --scenario all --count {EVENTS}");
        supplier(orb(at / 2), &service, &channel, &words).end().well();
        for consumer in consumers {
            consumer.end().received_all(EVENTS);
        }
    }
}

#[test]
fn suppliers_of_every_kind_reach_consumers_of_every_kind() {
    every_pairing(Orb::OmniOrb);
}

#[test]
fn suppliers_of_every_kind_reach_consumers_of_every_kind_the_other_way_round() {
    every_pairing(Orb::JacOrb);
}

#[test]
fn plain_event_service_clients_pull_and_are_pulled_from() {
    let service = service();
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let words = format!("--form cosevent --pull --scenario narrow --count {EVENTS}");
        let (consumer, channel) = first_consumer(of_consumer, &service, &words);
        let words = format!("--form cosevent --pull --scenario narrow --count {EVENTS}");
        supplier(of_supplier, &service, &channel, &words).end().well();
        consumer.end().received_all(EVENTS);
    }
}

#[test]
fn consumers_that_only_try_get_every_event() {
    let service = service();
    for kind in ["any", "structured", "sequence"] {
        for orb in Orb::ALL {
            let words = format!("--form {kind} --pull --try --from structured --scenario small --count 20");
            let (consumer, channel) = first_consumer(orb, &service, &words);
            supplier(orb, &service, &channel, "--form structured --scenario small --count 20").end().well();
            consumer.end().received_all(20);
        }
    }
}

#[test]
fn a_sequence_consumer_gets_batches_no_larger_than_it_asked_for() {
    let service = service();
    let words = "--form sequence --batch 8 --scenario small --count 40 --qos MaximumBatchSize=long:8 --qos PacingInterval=time:20000000";
    let (consumer, channel) = first_consumer(Orb::JacOrb, &service, words);
    let words = "--form sequence --batch 5 --scenario small --count 40";
    supplier(Orb::OmniOrb, &service, &channel, words).end().well();
    consumer.end().received_all(40);
}

#[test]
fn pulling_consumers_that_wait_are_notified_when_their_channel_goes() {
    let service = service();
    for orb in Orb::ALL {
        let (consumer, channel) = first_consumer(orb, &service, "--form structured --pull --scenario small");
        let gone = Peer::start(orb, &format!("destroy {} --channel {channel}", interop::at(&service)));
        gone.end().well();
        let ended = consumer.end();
        assert!(
            ended.lines.iter().any(|line| line == "disconnected" || line.starts_with("pull IDL:")),
            "the one that waits hears of it: {ended}"
        );
    }
}
