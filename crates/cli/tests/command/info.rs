//! `campanile info` of a channel with something in it.

use crate::support::{Serve, text};
use client::notify::{
    CallbackConsumer, ClientType, EventType, FilterGroupOperator, Property, StructuredEvent,
    StructuredProxyPullSupplier, StructuredProxyPushSupplier, find_channel,
};
use client::{Orb, OrbOptions, SimpleSupplier};
use serde_json::Value as Json;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use testing::{EndInTime, wait_until};

#[test]
fn channel_is_shown_with_its_settings_consumers_backlogs_and_drops() {
    let serve = Serve::start();
    let orb = Orb::new(OrbOptions { name: Some("archive".into()), ..OrbOptions::default() });
    let (channel, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    let (admin, _) = channel.new_for_consumers(FilterGroupOperator::Or).unwrap();
    let (proxy, id) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.set_qos(&[Property::new("MaxEventsPerConsumer", 1_i32)]).unwrap();
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
    proxy.subscription_change(&[EventType::new("A", "*")], &[EventType::any()]).unwrap();
    let activation = orb.activate(Arc::new(CallbackConsumer::structured(|_| Ok(())))).unwrap();
    proxy.connect_structured_push_consumer(activation.reference()).unwrap();
    proxy.suspend_connection().unwrap();
    let supplier = SimpleSupplier::connect(&serve.address, None).unwrap();
    for name in ["B", "Grüße", "B"] {
        supplier.publish(&StructuredEvent::new("A", name, "")).unwrap();
    }

    let info: Json = serde_json::from_str(&serve.print("info", &["--json", "0"])).unwrap();
    assert_eq!(info["id"], 0);
    assert!(info["reference"].as_str().unwrap().starts_with("IOR:"));
    let admin = &info["consumer_admins"][1];
    assert_eq!(admin["operator"], "OR_OP");
    let shown = &admin["proxies"][0];
    assert_eq!(shown["id"], id);
    assert_eq!(shown["qos"]["MaxEventsPerConsumer"], 1);
    assert_eq!(shown["state"], "suspended");
    assert_eq!((&shown["backlog_events"], &shown["dropped"]), (&1.into(), &2.into()));
    assert_eq!(shown["dropped_by_reason"]["outbox_full"], 2);
    let drops = shown["dropped_by_type"].as_array().unwrap();
    assert_eq!(drops.len(), 2);
    for (drops, event_type) in drops.iter().zip(["A/B", "A/Grüße"]) {
        assert_eq!(
            (&drops["type"], &drops["reason"], &drops["events"]),
            (&event_type.into(), &"outbox_full".into(), &1.into())
        );
    }

    let shown = serve.print("info", &[]);
    assert!(shown.starts_with(&format!("channel 0 at {}\n", serve.address)), "{shown}");
    assert!(shown.contains("1 event ("), "{shown}");
    assert!(shown.contains("waiting, 0 delivered, 2 dropped: 2 outbox full\n      1 outbox full  A/B\n"), "{shown}");
    assert!(shown.contains(&format!("  proxy {id}  PUSH_STRUCTURED  archive  127.0.0.1:")), "{shown}");
    let listed = serve.print("ls", &[]);
    assert!(listed.contains(&format!(" proxy {id} PUSH_STRUCTURED\tarchive  127.0.0.1:")), "{listed}");

    let refused = serve.run("info", &["17"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("there is no channel 17"), "{}", text(&refused.stderr));
}

#[test]
fn clients_that_wait_in_a_pull_are_counted() {
    let serve = Serve::start();
    let orb = Orb::new(OrbOptions::default());
    let (channel, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    let admin = channel.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().with_private_connection());
    proxy.connect_structured_pull_consumer(None).unwrap();
    let waiting = || {
        let info: Json = serde_json::from_str(&serve.print("info", &["--json"])).unwrap();
        info["consumer_admins"][0]["proxies"][0]["pulls_waiting"].clone()
    };
    assert_eq!(waiting(), 0);
    thread::scope(|scope| {
        let pull = scope.spawn(|| proxy.pull_structured_event().unwrap());
        wait_until("the pull to wait", || waiting() == 1);
        serve.print("pub", &["--type", "A/B"]);
        assert_eq!(pull.end_in_time(), StructuredEvent::new("A", "B", ""));
    });
    assert_eq!(waiting(), 0);

    // A pull that gave up waiting takes no event with it.
    let hasty = proxy.object().with_reply_timeout(Some(Duration::from_millis(20)));
    let given_up = StructuredProxyPullSupplier::unchecked(hasty).pull_structured_event().unwrap_err();
    assert!(given_up.is("TIMEOUT"), "{given_up}");
    wait_until("the pull to be answered", || waiting() == 0);
    serve.print("pub", &["--type", "A/C"]);
    assert_eq!(proxy.pull_structured_event().unwrap(), StructuredEvent::new("A", "C", ""));
}

#[test]
fn tree_can_be_had_in_a_pipe() {
    let serve = Serve::start();
    let tree = serve.print("ls", &["--tree"]);
    assert!(tree.contains("└─ channel 0\n   ├─ consumer admin 0  AND_OP\n"), "{tree}");
}
