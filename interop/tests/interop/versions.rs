//! Clients that speak older versions of GIOP. 1.0 has no wide characters, and omniORB refuses to send or read them in 1.1.

use interop::{Orb, first_consumer, service, supplier};

const EVENTS: u32 = 28;

/// The same events in every pairing, with options for the supplier and for the consumer.
fn cross(scenario: &str, of_suppliers: &str, of_consumers: &str, pairings: &[(Orb, Orb)]) {
    let service = service();
    for &(of_supplier, of_consumer) in pairings {
        let words = format!("--form structured --scenario {scenario} --count {EVENTS} {of_consumers}");
        let (consumer, channel) = first_consumer(of_consumer, &service, &words);
        let words = format!("--form structured --scenario {scenario} --count {EVENTS} {of_suppliers}");
        supplier(of_supplier, &service, &channel, &words).end().well();
        consumer.end().received_all(EVENTS);
    }
}

#[test]
fn suppliers_that_speak_giop_1_0_reach_consumers_that_speak_1_2() {
    cross("narrow", "--giop 1.0", "", &Orb::PAIRINGS);
}

/// Among the events is one that omniORB sends in fragments, which in 1.1 omniORB itself cannot read.
#[test]
fn suppliers_that_speak_giop_1_1_reach_consumers_that_speak_1_2() {
    cross("narrow", "--giop 1.1", "", &Orb::PAIRINGS);
}

#[test]
fn suppliers_that_speak_giop_1_2_reach_consumers_that_speak_1_0() {
    cross("narrow", "", "--giop 1.0", &Orb::PAIRINGS);
}

#[test]
fn suppliers_that_speak_giop_1_2_reach_consumers_that_speak_1_1() {
    cross("narrow", "", "--giop 1.1", &Orb::PAIRINGS);
}

#[test]
fn wide_strings_cross_between_giop_1_1_and_1_2() {
    // JacORB cannot read in 1.1 the single wide characters it writes there, so only strings go that way.
    cross("word,anys", "", "--giop 1.1", &[(Orb::JacOrb, Orb::JacOrb), (Orb::OmniOrb, Orb::JacOrb)]);
    cross("wide,anys,word", "--giop 1.1", "", &[(Orb::JacOrb, Orb::JacOrb), (Orb::JacOrb, Orb::OmniOrb)]);
}
