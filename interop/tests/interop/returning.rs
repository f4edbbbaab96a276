//! Consumers of another ORB that die and are started again, and whose proxies are disconnected by others.

use crate::addresses::free;
use client::notify::{ConsumerAdmin, StructuredProxyPushSupplier, find_channel};
use client::{Orb as Client, OrbOptions};
use interop::{Orb, first_consumer, further_consumer, service, supplier};
use service::Service;

const WORDS: &str = "--form structured --scenario small";

/// The proxies of a channel's consumers.
fn proxies(service: &Service, channel: &str) -> Vec<StructuredProxyPushSupplier> {
    let found =
        Client::new(OrbOptions::default()).resolve(&service.corbaloc("NotificationService")).expect("the factory");
    let (channel, _) = find_channel(&found, channel.parse().ok()).expect("the channel");
    let admins = channel.get_all_consumeradmins().expect("admins");
    let admins = admins.into_iter().map(|id| channel.get_consumeradmin(id).expect("an admin"));
    let of = |admin: ConsumerAdmin| -> Vec<_> {
        let ids = admin.push_suppliers().expect("proxies");
        ids.into_iter().map(|id| admin.get_proxy_supplier(id).expect("a proxy").object().clone()).collect()
    };
    admins.flat_map(of).map(StructuredProxyPushSupplier::unchecked).collect()
}

/// Programs that keep their references when they are started again (`PERSISTENT`, a port of their own): each life connected to a proxy of its
/// own, and each event came once for each.
#[test]
fn a_consumer_that_is_killed_and_started_again_gets_each_event_once() {
    for orb in Orb::ALL {
        let service = service();
        let place = free(testing::own_loopback());
        let words = format!("{WORDS} --persistent --endpoint {place}");
        let (mut consumer, channel) = first_consumer(orb, &service, &words);
        let mut supplier = supplier(Orb::OmniOrb, &service, &channel, &format!("{WORDS} --step"));
        supplier.tell("push 10");
        consumer.wait_for("ok 9");
        for life in 1..4 {
            consumer.kill();
            consumer = further_consumer(orb, &service, &channel, &words);
            supplier.tell("push 10");
            consumer.wait_for(&format!("ok {}", life * 10 + 9));
        }
        assert_eq!(proxies(&service, &channel).len(), 1, "its reference was the same each time");
        // It may have been killed before it had answered for event 29, which is delivered again then.
        let (last, all) = (consumer.quit(), (30..40).collect::<Vec<_>>());
        let numbers = last.numbers();
        assert_eq!(numbers.strip_prefix(&[29]).unwrap_or(&numbers), all);
        supplier.quit().well();
    }
}

/// A channel for one consumer, whose place the consumer's own earlier life filled; and what comes while it is away waits for it.
#[test]
fn a_consumer_that_is_started_again_finds_its_place_and_what_came_meanwhile_at_a_channel_that_is_full() {
    for orb in Orb::ALL {
        let service = service();
        let place = free(testing::own_loopback());
        let words = format!("{WORDS} --persistent --endpoint {place}");
        let full = format!("{words} --channel-admin MaxConsumers=long:1");
        let (mut consumer, channel) = first_consumer(orb, &service, &full);
        let mut supplier = supplier(Orb::JacOrb, &service, &channel, &format!("{WORDS} --step"));
        supplier.tell("push 10");
        consumer.wait_for("ok 9");
        consumer.kill();
        supplier.tell("push 10");
        supplier.wait_for("pushed 20");
        let mut consumer = further_consumer(orb, &service, &channel, &words);
        supplier.tell("push 10");
        consumer.wait_for("ok 29");
        let (last, all) = (consumer.quit(), (10..30).collect::<Vec<_>>());
        let numbers = last.numbers();
        assert_eq!(numbers.strip_prefix(&[9]).unwrap_or(&numbers), all);
        supplier.quit().well();
    }
}

/// What was connected to a proxy was never called when its client disconnected that, of whichever kind it was.
#[test]
fn clients_that_disconnect_their_proxies_are_notified_once() {
    const KINDS: [&str; 8] = [
        "--form any",
        "--form structured",
        "--form sequence",
        "--form cosevent",
        "--form any --pull",
        "--form structured --pull",
        "--form sequence --pull",
        "--form cosevent --pull",
    ];
    for orb in Orb::ALL {
        for kind in KINDS {
            let service = service();
            let words = format!("{kind} --scenario small --count 1 --linger");
            let (consumer, channel) = first_consumer(orb, &service, &words);
            let mut clients = [consumer, supplier(orb, &service, &channel, &words)];
            for client in &mut clients {
                client.wait_for("done");
                client.wait_for("disconnected");
            }
            // It has nobody left to be told when it ends.
            service.shutdown();
            for client in clients {
                let ended = client.quit().well();
                assert_eq!(
                    ended.lines.iter().filter(|line| *line == "disconnected").count(),
                    1,
                    "{orb:?} {kind}: {ended}"
                );
            }
        }
    }
}

/// A supervisor disconnects a program's proxy, and the program is told.
#[test]
fn a_consumer_whose_proxy_another_one_disconnects_is_notified() {
    for orb in Orb::ALL {
        let service = service();
        let (mut consumer, channel) = first_consumer(orb, &service, WORDS);
        for proxy in proxies(&service, &channel) {
            proxy.disconnect_structured_push_supplier().expect("it is disconnected");
        }
        consumer.wait_for("disconnected");
    }
}
