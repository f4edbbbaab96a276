//! What happens when a consumer's backlog meets its bound: `MaxEventsPerConsumer`, or the channel's memory budget with each of the
//! choices of `FullOutbox`.

use service::{Counter, Service};

use interop::{Ended, Orb, Peer, first_consumer, further_consumer, service, supplier, wait_for_count};

/// 1 MB of budget holds about 30 events of 34 KB.
const TIGHT: &str = "--channel-qos MemoryBudget=time:1000000";
const EVENTS: u32 = 200;
const STEPS: &str = "--form structured --scenario small --payload 34000 --step";

fn large() -> String {
    format!("--form structured --scenario small --payload 34000 --count {EVENTS}")
}

/// A consumer that stands still at its first event, on a channel with little memory.
fn stalled(of_slow: Orb, service: &Service, full_outbox: &str, words: &str) -> (Peer, String) {
    let words = format!("{TIGHT} --channel-qos FullOutbox=string:{full_outbox} {} --stall-at 0 {words}", large());
    first_consumer(of_slow, service, &words)
}

#[test]
fn hold_withholds_the_suppliers_replies_and_loses_nothing() {
    for (of_supplier, of_slow) in Orb::PAIRINGS {
        let service = service();
        let (mut slow, channel) = stalled(of_slow, &service, "Hold", "");
        let supplier = supplier(of_supplier, &service, &channel, &large());
        slow.wait_for("stalled");
        wait_for_count(&service, Counter::SuppliersBlocked, 1);
        slow.tell("resume");
        slow.end().received_all(EVENTS);
        supplier.end().well();
    }
}

/// Pushes all events, a few at a time, each few only once `good` has the last: without that a supplier faster than it would
/// make it the laggard.
fn push_all(supplier: &mut Peer, good: &mut Peer) {
    const FEW: u32 = 10;
    for sent in (0..EVENTS).step_by(FEW as usize) {
        supplier.tell(&format!("push {FEW}"));
        good.wait_for(&format!("ok {}", sent + FEW - 1));
    }
}

#[test]
fn discard_drops_the_slow_consumers_own_backlog() {
    for of_slow in Orb::ALL {
        let service = service();
        let (mut slow, channel) = stalled(of_slow, &service, "Discard", "--gaps --qos DiscardPolicy=short:1");
        let mut good = further_consumer(Orb::OmniOrb, &service, &channel, &large());
        let mut supplier = supplier(Orb::OmniOrb, &service, &channel, STEPS);
        push_all(&mut supplier, &mut good);
        good.end().received_all(EVENTS);
        slow.wait_for("stalled");
        slow.tell("resume");
        // It never gets all it was asked to wait for; the last event is the sign that there is no more.
        slow.wait_for(&format!("ok {}", EVENTS - 1));
        let Ended { lines, .. } = slow.quit();
        let bad: Vec<_> = lines.iter().filter(|line| line.starts_with("bad ")).collect();
        assert!(bad.is_empty(), "{bad:?}");
        assert!(service.counters().read(Counter::DroppedMemorySpent) > 0);
        supplier.quit().well();
    }
}

#[test]
fn reject_tells_the_supplier() {
    for of_supplier in Orb::ALL {
        let service = service();
        let (mut slow, channel) = stalled(Orb::OmniOrb, &service, "Reject", "");
        let mut supplier = supplier(of_supplier, &service, &channel, &large());
        let refused = supplier.wait_for("failed ");
        assert!(refused.contains("IMP_LIMIT"), "{refused}");
        slow.wait_for("stalled");
        slow.tell("resume");
        drop(slow);
    }
}

#[test]
fn disconnect_disconnects_the_slow_consumer_and_notifies_it() {
    for of_slow in Orb::ALL {
        let service = service();
        let (mut slow, channel) = stalled(of_slow, &service, "Disconnect", "");
        let mut good = further_consumer(Orb::JacOrb, &service, &channel, &large());
        let mut supplier = supplier(Orb::JacOrb, &service, &channel, STEPS);
        push_all(&mut supplier, &mut good);
        good.end().received_all(EVENTS);
        slow.wait_for("stalled");
        slow.tell("resume");
        slow.wait_for("disconnected");
    }
}

#[test]
fn max_events_per_consumer_discards_the_oldest_by_fifo_and_the_newest_by_lifo() {
    // FifoOrder is 1, LifoOrder 4. Event 0 is with the consumer already and takes no place.
    for (policy, expected) in [(1, vec![0, 95, 96, 97, 98, 99]), (4, vec![0, 1, 2, 3, 4, 5])] {
        let service = service();
        let words = format!(
            "--form structured --scenario small --gaps --stall-at 0 --qos MaxEventsPerConsumer=long:5 \
             --qos DiscardPolicy=short:{policy}"
        );
        let (mut slow, channel) = first_consumer(Orb::OmniOrb, &service, &words);
        let mut supplier = supplier(Orb::OmniOrb, &service, &channel, "--form structured --scenario small --step");
        supplier.tell("push 1");
        slow.wait_for("stalled");
        supplier.tell("push 99");
        supplier.wait_for("pushed 100");
        slow.tell("resume");
        slow.wait_for(&format!("ok {}", expected[5]));
        assert_eq!(slow.quit().numbers(), expected, "DiscardPolicy {policy}");
        supplier.quit().well();
    }
}
