//! `campanile disconnect`, and how `ls` and `info` show whom.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking, in its helpers too")]

use crate::support::{Serve, text};
use client::notify::{ClientType, StructuredEvent, StructuredProxyPushConsumer, find_channel};
use client::{Orb, OrbOptions};
use serde_json::Value as Json;
use testing::wait_until;

/// A supplier without a reference of its own; its program ends without a word.
fn dead_supplier(serve: &Serve) -> i32 {
    let orb = Orb::new(OrbOptions::default());
    let (channel, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, id) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None).unwrap();
    proxy.push_structured_event(&StructuredEvent::new("A", "B", "")).unwrap();
    id
}

fn supplier_proxies(serve: &Serve) -> Vec<Json> {
    let listed: Json = serde_json::from_str(&serve.print("ls", &["--json"])).unwrap();
    listed["channels"][0]["supplier_admins"][0]["proxies"].as_array().unwrap().clone()
}

/// A supplier's program had ended a week ago; its proxy was there, and there was no way to see its owner, or to remove it.
#[test]
fn suppliers_that_are_gone_are_shown_and_disconnected() {
    let serve = Serve::start();
    let id = dead_supplier(&serve);
    wait_until("its connection is closed", || supplier_proxies(&serve)[0]["connection_open"] == false);
    let shown = &supplier_proxies(&serve)[0];
    assert_eq!((&shown["id"], &shown["supplier"], &shown["events"]), (&id.into(), &"127.0.0.1".into(), &1.into()));
    assert_eq!(shown["has_reference"], false);
    let wanted = "127.0.0.1  1 event, idle for ";
    for listed in [serve.print("ls", &[]), serve.print("info", &[])] {
        assert!(listed.contains(wanted) && listed.contains(", its connection is closed, no reference"), "{listed}");
    }

    // It is not that long ago.
    assert_eq!(serve.print("disconnect", &["--idle-for", "7d", "--yes"]), "");
    let dry = serve.print("disconnect", &["--idle-for", "0s", "--dry-run"]);
    assert!(dry.starts_with(&format!("channel 0 proxy {id}  supplier  command-")) && dry.contains(wanted), "{dry}");
    assert_eq!(supplier_proxies(&serve).len(), 1);
    let unasked = serve.run("disconnect", &["--idle-for", "0s"]);
    assert_eq!(unasked.status.code(), Some(2));
    assert!(text(&unasked.stderr).contains("--yes"), "{}", text(&unasked.stderr));
    let done = serve.print("disconnect", &["--idle-for", "0s", "--yes"]);
    assert!(
        done.starts_with(&format!("disconnected proxy {id} of channel 0: supplier  command-")) && done.contains(wanted),
        "{done}"
    );
    assert!(supplier_proxies(&serve).is_empty());
}

#[test]
fn consumers_are_disconnected_by_number_and_by_address() {
    let serve = Serve::start();
    let subs = [serve.subscribe(&["-n", "1"]), serve.subscribe(&["-n", "1"])];
    let proxies = || {
        let listed: Json = serde_json::from_str(&serve.print("ls", &["--json"])).unwrap();
        listed["channels"][0]["consumer_admins"][0]["proxies"].as_array().unwrap().clone()
    };
    let before = proxies();
    let first = before[0]["id"].to_string();
    let done = serve.print("disconnect", &[&first]);
    assert!(done.starts_with(&format!("disconnected proxy {first} of channel 0: consumer  127.0.0.1:")), "{done}");
    let again = serve.run("disconnect", &[&first, "4711"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("there is no proxy 4711 in channel 0"), "{}", text(&again.stderr));
    let client = before[1]["consumer"].as_str().unwrap().split(' ').next().unwrap();
    let done = serve.print("disconnect", &["--client", client, "-c", "0", "--yes"]);
    assert_eq!(done.lines().count(), 1, "{done}");
    // The disconnected clients were notified, and do not come again: they did, up to five seconds later.
    for sub in subs {
        let ended = sub.wait();
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert!(said[0].starts_with("no events in "), "{said:?}");
        assert!(said[1].starts_with("campanile: the service has disconnected this consumer: "), "{said:?}");
        assert_eq!((said.len(), ended.code), (2, Some(1)));
    }
    assert_eq!(proxies().len(), 0);
}

/// The service tells of 1,024 suppliers at a time.
#[test]
fn more_suppliers_than_are_listed_at_a_time_are_all_shown_and_disconnected() {
    const SUPPLIERS: usize = 1_030;
    let serve = Serve::start();
    let orb = Orb::new(OrbOptions::default());
    let (channel, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    let admin = channel.default_supplier_admin().unwrap();
    for _ in 0..SUPPLIERS {
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).unwrap();
    }
    let listed = serve.print("ls", &[]);
    assert_eq!(listed.lines().filter(|line| line.contains("  0 events, idle for ")).count(), SUPPLIERS);
    let done = serve.print("disconnect", &["--client", "127.0.0.1", "--idle-for", "0s", "--yes"]);
    assert_eq!(done.lines().count(), SUPPLIERS);
    assert!(supplier_proxies(&serve).is_empty());
}
