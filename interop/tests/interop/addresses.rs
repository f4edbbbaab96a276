//! Consumers whose references have several addresses, of which the first leads nowhere.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use client::notify::{ClientType, StructuredProxyPushSupplier, find_channel};
use client::{Orb as Client, OrbOptions};
use giop::ior::{Ior, Profile};
use interop::{Orb, Peer, service, supplier, wait_for_count};
use service::Counter;

const WORDS: &str = "--form structured --scenario small";
const EVENTS: u32 = 50;

/// An address at which nothing listens, on a port that was free.
pub(crate) fn free(host: Ipv4Addr) -> SocketAddr {
    TcpListener::bind((host, 0)).expect("a port").local_addr().expect("its address")
}

/// The same where no program of the tests ever listens.
fn dead() -> SocketAddr {
    free(Ipv4Addr::new(127, 0, 0, 9))
}

/// Of references with a `TAG_ALTERNATE_IIOP_ADDRESS`, as machines with several networks have them, none of three events arrived where
/// another ORB finds the object.
#[test]
fn a_consumer_whose_first_address_leads_nowhere_is_called_at_its_alternative_one() {
    for orb in Orb::ALL {
        let service = service();
        let alive = free(testing::own_loopback());
        // By the factory's own reference: JacORB gives its alternative addresses to what it reads of a `corbaloc`, too.
        let factory = Client::new(OrbOptions::default()).resolve(&service.corbaloc("NotificationService"));
        let factory = factory.expect("the factory").ior().to_string();
        let addresses = format!("--endpoint {alive} --publish {} --publish {alive}", dead());
        let words = format!("consumer --factory {factory} --channel new {WORDS} --count {EVENTS} {addresses}");
        let mut consumer = Peer::start(orb, &words);
        let channel = consumer.wait_for("channel ");
        let consumer = consumer.ready();
        supplier(Orb::OmniOrb, &service, &channel, &format!("{WORDS} --count {EVENTS}")).end().well();
        consumer.end().received_all(EVENTS);
        assert!(service.counters().read(Counter::AlternativeAddresses) > 0, "{orb:?} has the dead address first");
    }
}

/// A reference with two profiles, of which the first leads nowhere.
fn behind_a_dead_profile(alive: &Ior) -> Ior {
    let mut profiles = alive.profiles.clone();
    if let Some(Profile::Iiop(first)) = profiles.first_mut() {
        let nowhere = dead();
        (first.host, first.port) = (nowhere.ip().to_string(), nowhere.port());
        first.components.clear();
    }
    profiles.extend(alive.profiles.iter().cloned());
    Ior { profiles, ..alive.clone() }
}

/// The same for a second profile; by that it is also told that its proxy is disconnected.
#[test]
fn a_consumer_whose_first_profile_leads_nowhere_is_called_by_its_second_one() {
    for orb in Orb::ALL {
        let service = service();
        let mut consumer = Peer::start(orb, &format!("consumer --direct {WORDS} --count {EVENTS}"));
        let reference = consumer.wait_for("ior ");
        let mut consumer = consumer.ready();
        let client = Client::new(OrbOptions::default());
        let reference = client.resolve(&reference).expect("the program's own reference").ior().clone();
        let found = client.resolve(&service.corbaloc("NotificationService")).expect("the factory");
        let (channel, _) = find_channel(&found, None).expect("the default channel");
        let admin = channel.default_consumer_admin().expect("an admin");
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).expect("a proxy");
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        let behind = client.object(behind_a_dead_profile(&reference));
        proxy.connect_structured_push_consumer(&behind).expect("it is connected");
        supplier(Orb::JacOrb, &service, "0", &format!("{WORDS} --count {EVENTS}")).end().well();
        consumer.wait_for("done");
        wait_for_count(&service, Counter::AlternativeAddresses, 1);
        proxy.disconnect_structured_push_supplier().expect("it is disconnected");
        consumer.wait_for("disconnected");
        consumer.end().received_all(EVENTS);
    }
}
