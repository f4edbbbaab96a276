//! A consumer that does not keep up costs the others nothing: they get every event before it has got its next one.

use interop::{Orb, Peer, first_consumer, further_consumer, service, supplier};

const EVENTS: u32 = 600;

fn all() -> String {
    format!("--form structured --scenario small --count {EVENTS}")
}

/// Everything the good one receives, it receives while the other stands still; then the other goes on and misses nothing.
fn cross(good: Orb, slow: Orb, of_supplier: Orb) {
    let service = service();
    let (good, channel) = first_consumer(good, &service, &all());
    let mut slow = further_consumer(slow, &service, &channel, &format!("{} --stall-at 5", all()));
    let supplier = supplier(of_supplier, &service, &channel, &all());
    slow.wait_for("stalled 5");
    good.end().received_all(EVENTS);
    supplier.end().well();
    // Not one event more in all that time.
    assert_eq!(slow.count("ok "), 5);
    slow.tell("resume");
    slow.end().received_all(EVENTS);
}

#[test]
fn a_consumer_that_does_not_answer_holds_up_no_other() {
    for (good, slow) in Orb::PAIRINGS {
        cross(good, slow, good);
    }
}

/// Frozen, not merely silent: nothing reads its socket. 34 KB each, as in the CARMA monitor.
fn freeze(of_slow: Orb, qos: &str) {
    let service = service();
    let words = format!("{} --payload 34000", all());
    let (good, channel) = first_consumer(Orb::OmniOrb, &service, &words);
    let slow = further_consumer(of_slow, &service, &channel, &format!("{words} {qos}"));
    slow.freeze();
    let supplier = supplier(Orb::OmniOrb, &service, &channel, &words);
    good.end().received_all(EVENTS);
    supplier.end().well();
    slow.thaw();
    slow.end().received_all(EVENTS);
}

#[test]
fn a_consumer_that_stops_reading_holds_up_no_other_and_misses_nothing() {
    freeze(Orb::OmniOrb, "");
    freeze(Orb::JacOrb, "");
}

/// An orb that hands the requests of one connection to several threads mixes up what comes without waiting for a reply.
/// omniORB can be told not to; JacORB cannot.
const ONE_THREAD: &str = "--orb maxServerThreadPerConnection=1";

/// One-way pushes fill the socket's buffers and then wait in the outbox.
#[test]
fn a_consumer_of_one_way_pushes_that_stops_reading_misses_nothing() {
    freeze(Orb::OmniOrb, &format!("--qos PushOneWay=boolean:true {ONE_THREAD}"));
}

#[test]
fn a_window_of_several_pushes_keeps_the_order() {
    let service = service();
    let words = format!("{} --qos PushWindow=ushort:16 {ONE_THREAD}", all());
    let (consumer, channel) = first_consumer(Orb::OmniOrb, &service, &words);
    supplier(Orb::JacOrb, &service, &channel, &all()).end().well();
    consumer.end().received_all(EVENTS);
}

#[test]
fn a_subscription_to_one_type_gets_only_that() {
    let service = service();
    let words = "--form structured --scenario nested --count 3 --add Campanile:nested --remove *:*";
    let (consumer, channel) = first_consumer(Orb::JacOrb, &service, words);
    let mut supplier: Peer = supplier(Orb::OmniOrb, &service, &channel, "--form structured --scenario colour --step");
    supplier.tell("push 5");
    supplier.wait_for("pushed 5");
    let other = interop::supplier(Orb::OmniOrb, &service, &channel, "--form structured --scenario nested --count 3");
    other.end().well();
    consumer.end().received_all(3);
    supplier.quit().well();
}
