//! Consumers that nobody can call, as those behind a firewall or NAT: they offer the connections that they made.

use interop::{Orb, first_consumer, service_with, supplier};
use service::{Config, Counter, OutgoingConfig, Service};
use testing::certificates::Authority;

use crate::tls;

const EVENTS: u32 = 20;

/// A service that may call no address of this machine, as if a firewall were between.
fn start(config: Config) -> Service {
    let outgoing = OutgoingConfig { allow: Some(vec!["192.0.2.0/24".into()]) };
    service_with(Config { outgoing, ..config })
}

/// Push consumers of a form: everything comes, and no push goes another way.
fn over_their_own(orbs: &[Orb], form: &str, options: &str) {
    let from = if form == "any" || form == "cosevent" { "any" } else { "structured" };
    for orb in orbs.iter().copied() {
        let service = start(Config::default());
        let words = format!("--form {form} --from {from} --scenario small --count {EVENTS} --bidirectional {options}");
        let (consumer, channel) = first_consumer(orb, &service, &words);
        let words = format!("--form {from} --scenario small --count {EVENTS}");
        supplier(Orb::OmniOrb, &service, &channel, &words).end().well();
        consumer.end().received_all(EVENTS);
        assert_no_other_way(&service);
    }
}

fn assert_no_other_way(service: &Service) {
    let read = |counter| service.counters().read(counter);
    let pushes = read(Counter::BidirectionalPushes);
    assert!(pushes > 0 && pushes == read(Counter::PushesSent), "{pushes}");
}

#[test]
fn structured_events_come_over_the_connection_that_the_consumer_made() {
    over_their_own(&Orb::ALL, "structured", "");
}

#[test]
fn anys_come_over_the_connection_that_the_consumer_made() {
    over_their_own(&Orb::ALL, "any", "");
    over_their_own(&Orb::ALL, "cosevent", "");
}

#[test]
fn sequences_come_over_the_connection_that_the_consumer_made() {
    over_their_own(&Orb::ALL, "sequence", "");
}

/// Nothing is routed to the address that references name. JacORB lists the address at which it listens, and not that one.
#[test]
fn a_consumer_with_an_address_that_leads_nowhere_gets_its_events() {
    over_their_own(&[Orb::OmniOrb], "structured", "--publish 192.0.2.1:9");
}

#[test]
fn over_tls_events_come_over_the_connection_that_the_consumer_made() {
    let authority = Authority::new("interop-bidirectional");
    let service = start(Config { tls: tls::settings(&authority, true), ..Config::default() });
    tls::cross(&service, |orb, name| {
        let offer = if name == "consumer" { "--bidirectional " } else { "" };
        offer.to_owned() + &tls::words(orb, &authority, &authority, name)
    });
    assert_no_other_way(&service);
}
