//! Real-time CORBA's priorities with ORBs that know them only by interceptors: told by a supplier, carried by the service,
//! heard by a consumer; pools of threads set in the types of TAO's `NotifyExt`; and the references that ask for priorities.

use interop::{Ended, Orb, Peer, at, first_consumer, service};

/// What follows `beginning` in the lines that begin with it.
fn said(ended: &Ended, beginning: &str) -> Vec<String> {
    ended.lines.iter().filter_map(|line| line.strip_prefix(beginning)).map(|rest| rest.trim().to_owned()).collect()
}

const LANES: &str = "--channel-qos ThreadPoolLanes=lanes:propagated/40/20000x1+0x1+10000x1";

#[test]
fn each_priority_goes_from_the_supplier_through_its_lane_to_the_consumer() {
    for (from, to) in Orb::PAIRINGS {
        let service = service();
        let words = format!("--form structured --scenario small --count 4 --priorities {LANES}");
        let (mut consumer, channel) = first_consumer(to, &service, &words);
        let place = format!("{} --channel {channel}", at(&service));
        let words = "--form structured --scenario small --step --priority 0,12345,20000,32767";
        let mut supplier = Peer::start(from, &format!("supplier {place} {words}")).ready();
        for (number, priority) in [0, 12_345, 20_000, 32_767].into_iter().enumerate() {
            // One after the other: lanes do not wait for each other.
            supplier.tell("push 1");
            assert_eq!(consumer.wait_for("ok "), format!("{number} priority {priority}"), "{from:?} to {to:?}");
        }
        let supplier = supplier.quit().well();
        assert_eq!(said(&supplier, "model "), ["propagated 40"], "what {from:?} reads in the proxy's reference");
        assert_eq!(said(&supplier, "echo "), ["0", "12345", "20000", "32767"], "{from:?}");
        let consumer = consumer.end().received_all(4);
        // Told back by rising priority.
        assert_eq!(said(&consumer, "lanes "), ["propagated/40/0x1+10000x1+20000x1"], "{to:?}");
    }
}

#[test]
fn consumer_gets_its_lanes_priority_when_the_supplier_sends_none() {
    for orb in Orb::ALL {
        let service = service();
        let words = format!("--form any --scenario small --count 1 --priorities {LANES}");
        let (mut consumer, channel) = first_consumer(orb, &service, &words);
        let place = format!("{} --channel {channel}", at(&service));
        Peer::start(orb, &format!("supplier {place} --form any --scenario small --count 1")).end().well();
        assert_eq!(consumer.wait_for("ok "), "0 priority 0", "{orb:?}");
    }
}

#[test]
fn declared_priority_counts_whatever_the_supplier_would_tell() {
    for (from, to) in Orb::PAIRINGS {
        let service = service();
        let pool = "--channel-qos ThreadPool=pool:declared/700/1";
        let words = format!("--form structured --scenario small --count 2 --priorities {pool}");
        let (mut consumer, channel) = first_consumer(to, &service, &words);
        let place = format!("{} --channel {channel}", at(&service));
        let words = "--form structured --scenario small --count 2 --priority 5,6";
        let supplier = Peer::start(from, &format!("supplier {place} {words}")).end().well();
        assert_eq!(said(&supplier, "model "), ["declared 700"]);
        assert_eq!(said(&supplier, "echo "), [""; 0]);
        for number in 0..2 {
            assert_eq!(consumer.wait_for("ok "), format!("{number} priority 700"), "{from:?} to {to:?}");
        }
        assert_eq!(said(&consumer.end().received_all(2), "pool "), ["declared/700/1"]);
    }
}

#[test]
fn nothing_is_sent_to_clients_that_do_not_ask() {
    for (from, to) in Orb::PAIRINGS {
        let service = service();
        let words = format!("--form structured --scenario small --count 1 {LANES}");
        let (mut consumer, channel) = first_consumer(to, &service, &words);
        let place = format!("{} --channel {channel}", at(&service));
        let words = "--form structured --scenario small --count 1 --priority 9";
        let supplier = Peer::start(from, &format!("supplier {place} {words}")).end().well();
        assert_eq!(said(&supplier, "echo "), ["9"]);
        assert_eq!(consumer.wait_for("ok "), "0");
        // Without a pool neither does the proxy.
        let words = "--form structured --scenario small --count 1 --priorities";
        let (mut consumer, channel) = first_consumer(to, &service, words);
        let place = format!("{} --channel {channel}", at(&service));
        let words = "--form structured --scenario small --count 1 --priority 9";
        let supplier = Peer::start(from, &format!("supplier {place} {words}")).end().well();
        assert_eq!(said(&supplier, "model "), [""; 0]);
        assert_eq!(said(&supplier, "echo "), [""; 0]);
        assert_eq!(consumer.wait_for("ok "), "0");
    }
}

#[test]
fn pool_that_cannot_be_had_is_refused_with_the_channel() {
    let service = service();
    for orb in Orb::ALL {
        for pool in [
            "ThreadPool=pool:declared/0/0",
            "ThreadPool=pool:declared/-1/1",
            "ThreadPoolLanes=lanes:propagated/0/5x1+5x1",
            "ThreadPool=pool:declared/0/65",
        ] {
            let words = format!("consumer {} --channel new --form any --channel-qos {pool}", at(&service));
            let refused = Peer::start(orb, &words).end();
            let error = said(&refused, "error ");
            assert_eq!(error, ["IDL:omg.org/CosNotification/UnsupportedQoS:1.0"], "{orb:?} {pool}: {refused}");
        }
    }
}
