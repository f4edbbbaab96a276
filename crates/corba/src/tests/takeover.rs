//! Take-over: a program that comes back, and connects its object anew, is served once.

use super::dialogue::{Dialogue, Expect, STYLES, client, key_of, settings, write_types};
use super::idle::proxy_key;
use super::proxies::new_channel;
use crate::{Effect, Offer, ProtocolSettings};
use accounts::{Accounts, Ceilings};
use engine::{DisconnectReason, Time};
use giop::bidirectional::ListenPoint;
use giop::ior::{Ior, Profile};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

struct Scene {
    d: Dialogue,
    channel: Ior,
    now: Time,
}

impl Scene {
    fn new() -> Self {
        Self::of(settings(1))
    }

    fn of(settings: ProtocolSettings) -> Self {
        let mut d = Dialogue::with(STYLES[5], settings);
        let channel = new_channel(&mut d);
        let now = Time(1_000);
        d.protocol.handle_time(now);
        Self { d, channel, now }
    }

    fn admin(&mut self) -> Ior {
        let channel = self.channel.clone();
        self.d.object(&channel, "for_consumers")
    }

    /// A proxy without a connected client.
    fn proxy(&mut self) -> (Ior, i32) {
        let admin = self.admin();
        self.d.made(&admin, "obtain_notification_push_supplier", 1)
    }

    fn connect(&mut self, proxy: &Ior) {
        self.d.give(proxy, "connect_structured_push_consumer", &client("one")).unwrap();
    }

    fn filter(&mut self, proxy: &Ior, constraint: &str) {
        let channel = self.channel.clone();
        let filter = self.d.filter_of(&channel);
        let write = |w: &mut giop::cdr::Writer<'_>| {
            w.u32(1);
            write_types(&[], w);
            w.string(constraint);
        };
        self.d.call(&filter, "add_constraints", write).unwrap();
        self.d.give(proxy, "add_filter", &filter).unwrap();
    }

    /// The client's process dies: the connection on which it is called ends.
    fn dies(&mut self) {
        self.passes(1);
        self.d.protocol.lives.note_death(&self.d.protocol.objects, "client.example".into(), 4711);
        self.passes(1);
    }

    fn passes(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.d.protocol.handle_time(self.now);
    }

    /// The numbers of the channel's proxies that have a client.
    fn connected(&self) -> Vec<u32> {
        let topology = self.d.protocol.objects.topology();
        let proxies = topology.channels.iter().flat_map(|channel| &channel.proxies);
        proxies.filter(|proxy| proxy.client.is_some()).map(|proxy| proxy.id).collect()
    }
}

/// A consumer that died and came back four times got each event five times, since the proxy of each life called the same object.
#[test]
fn a_program_that_comes_back_is_served_once_whichever_of_its_keys_is_used() {
    let mut scene = Scene::new();
    let (first, _) = scene.proxy();
    scene.connect(&first);
    let mut keys = vec![first.clone()];
    for _ in 0..4 {
        scene.dies();
        let (proxy, id) = scene.proxy();
        scene.connect(&proxy);
        assert_eq!(scene.connected(), [0], "what waits there is not lost");
        let admin = scene.admin();
        let found = scene.d.look_up(&admin, "get_proxy_supplier", id).unwrap();
        assert_eq!(proxy_key(&found), proxy_key(&first));
        keys.push(proxy);
    }
    let published = scene.d.protocol.publish().unwrap().directory;
    for key in &keys {
        assert_eq!(published.proxy(&key_of(key)), Some(proxy_key(&first)), "on the event path");
        assert_eq!(scene.d.number(key, "_get_MyType"), 2);
        scene.d.call(key, "connect_structured_push_consumer", |w| client("one").write(w)).raises("AlreadyConnected");
    }
    // They are kept with the proxy, and end with it.
    let mut after = Dialogue::with(STYLES[5], settings(7));
    after.protocol.restore(&scene.d.protocol.objects.topology()).unwrap();
    for d in [&mut scene.d, &mut after] {
        d.get(&keys[2], "disconnect_structured_push_supplier");
        for key in &keys {
            d.call(key, "_get_MyType", |_| {}).raises("OBJECT_NOT_EXIST");
        }
    }
}

/// The new life's own settings and filters count, under the numbers that it was given.
#[test]
fn what_the_new_life_has_set_is_what_counts() {
    let mut scene = Scene::new();
    let (first, _) = scene.proxy();
    scene.filter(&first, "$x > 1");
    scene.connect(&first);
    scene.d.get(&first, "suspend_connection");
    scene.dies();
    let (second, _) = scene.proxy();
    scene.filter(&second, "$x > 1");
    let write = |w: &mut giop::cdr::Writer<'_>| {
        w.u32(1);
        w.string("PushWindow");
        w.u32(4); // tk_ushort
        w.u16(9);
    };
    scene.d.call(&second, "set_qos", write).unwrap();
    scene.connect(&second);
    assert_eq!(scene.connected(), [0]);
    let topology = scene.d.protocol.objects.topology();
    let proxy = &topology.channels[1].proxies[0];
    assert_eq!(proxy.settings.push_window, Some(9));
    assert!(!proxy.client.as_ref().unwrap().suspended);
    let attached: Vec<u32> = proxy.selection.attached.iter().map(|attached| attached.id).collect();
    let filters = scene.d.get(&second, "get_all_filters").read(|r| (r.u32().unwrap(), r.u32().unwrap()));
    assert_eq!((attached, filters.0), (vec![filters.1], 1));
    scene.d.call(&second, "remove_filter", |w| w.u32(filters.1)).unwrap();
}

/// A client that is alive, or wants something else, keeps what there is.
#[test]
fn a_second_connection_that_is_meant_stays_beside_the_first() {
    // Nothing says that the first life is over; ORBs close idle connections.
    let mut scene = Scene::new();
    for _ in 0..2 {
        let (proxy, _) = scene.proxy();
        scene.connect(&proxy);
        scene.passes(1_000);
    }
    assert_eq!(scene.connected(), [0, 1]);
    let key = proxy_key(&scene.proxy().0);
    let of = |number: u32| engine::ProxyKey { proxy: engine::ProxyId(number), ..key };
    assert_eq!(
        scene.d.protocol.lives.duplicate_of(&scene.d.protocol.objects, of(0)),
        Some(of(1)),
        "but it is notified"
    );
    assert_eq!(scene.d.protocol.lives.duplicate_of(&scene.d.protocol.objects, of(1)), Some(of(0)));

    let differs = |change: &dyn Fn(&mut Scene, &Ior) -> Ior| {
        let mut scene = Scene::new();
        let (first, _) = scene.proxy();
        scene.connect(&first);
        scene.dies();
        let (second, _) = scene.proxy();
        let second = change(&mut scene, &second);
        scene.connect(&second);
        scene.connected().len()
    };
    assert_eq!(differs(&|_, second| second.clone()), 1);
    assert_eq!(
        differs(&|scene, second| {
            scene.filter(second, "$x > 1");
            second.clone()
        }),
        2,
        "another filter"
    );
    assert_eq!(
        differs(&|scene, second| {
            let write = |w: &mut giop::cdr::Writer<'_>| {
                write_types(&[("A", "B")], w);
                write_types(&[("*", "*")], w);
            };
            scene.d.call(second, "subscription_change", write).unwrap();
            second.clone()
        }),
        2,
        "other types"
    );
    assert_eq!(
        differs(&|scene, _| {
            let channel = scene.channel.clone();
            let admin = scene.d.made(&channel, "new_for_consumers", 0).0;
            scene.d.made(&admin, "obtain_notification_push_supplier", 1).0
        }),
        2,
        "another admin"
    );

    let mut settings = settings(1);
    settings.compatibility.take_over = false;
    let mut scene = Scene::of(settings);
    for _ in 0..2 {
        let (proxy, _) = scene.proxy();
        scene.connect(&proxy);
        scene.dies();
    }
    assert_eq!(scene.connected(), [0, 1], "switched off");
}

/// Deliveries that fail say as much as a connection, as long as they fail.
#[test]
fn deliveries_that_fail_are_evidence_until_they_go_on() {
    for (goes_on, left) in [(false, 1), (true, 2)] {
        let mut scene = Scene::new();
        let (first, _) = scene.proxy();
        scene.connect(&first);
        scene.passes(1);
        scene.d.protocol.lives.note_failing(&mut scene.d.protocol.objects, proxy_key(&first), true);
        if goes_on {
            scene.d.protocol.lives.note_failing(&mut scene.d.protocol.objects, proxy_key(&first), false);
        }
        let (second, _) = scene.proxy();
        scene.connect(&second);
        assert_eq!(scene.connected().len(), left);
    }
}

/// A supplier goes on by a proxy that it uses, whatever has become of a connection.
#[test]
fn a_proxy_that_was_used_since_is_left_alone() {
    for (used, left) in [(false, 1), (true, 2)] {
        let mut scene = Scene::new();
        let channel = scene.channel.clone();
        let admin = scene.d.object(&channel, "for_suppliers");
        let mut proxies = Vec::new();
        for _ in 0..2 {
            let proxy = scene.d.made(&admin, "obtain_notification_push_consumer", 1).0;
            proxies.push(proxy);
        }
        scene.d.give(&proxies[0], "connect_structured_push_supplier", &client("one")).unwrap();
        scene.dies();
        if used {
            scene.passes(1);
            let proxy = scene.d.protocol.objects.hierarchy.proxy(proxy_key(&proxies[0])).unwrap();
            proxy.activity.as_ref().unwrap().note(scene.now);
        }
        scene.d.give(&proxies[1], "connect_structured_push_supplier", &client("one")).unwrap();
        assert_eq!(scene.connected().len(), left);
    }
}

/// At a channel that had reached `MaxConsumers`, a consumer that came back was refused, since its own earlier life still filled a place.
#[test]
fn one_that_comes_back_is_not_refused_for_the_place_of_its_own_earlier_life() {
    let full = |settings: ProtocolSettings| {
        let mut scene = Scene::of(settings);
        let channel = scene.channel.clone();
        let one = |w: &mut giop::cdr::Writer<'_>| {
            w.u32(1);
            w.string("MaxConsumers");
            w.u32(3); // tk_long
            w.i32(1);
        };
        scene.d.call(&channel, "set_admin", one).unwrap();
        let (first, _) = scene.proxy();
        scene.connect(&first);
        (scene, first)
    };
    let refused = |scene: &mut Scene, proxy: &Ior, who: &str| {
        scene.d.give(proxy, "connect_structured_push_consumer", &client(who)).raises("IMP_LIMIT");
    };
    let no_proxy = |scene: &mut Scene| {
        let admin = scene.admin();
        scene.d.call(&admin, "obtain_notification_push_supplier", |w| w.u32(1)).raises("AdminLimitExceeded");
    };
    // It goes on where it was.
    let (mut scene, _) = full(settings(1));
    no_proxy(&mut scene);
    scene.dies();
    let (second, _) = scene.proxy();
    refused(&mut scene, &second, "another");
    scene.connect(&second);
    assert_eq!(scene.connected(), [0]);
    // It cannot, since it says where in the history it begins: the earlier proxy makes room for the new one.
    let (mut scene, first) = full(settings(1));
    no_proxy(&mut scene);
    scene.dies();
    let begins_anew = |scene: &mut Scene| {
        let (second, _) = scene.proxy();
        let begin = |w: &mut giop::cdr::Writer<'_>| {
            w.u32(1);
            w.string("StartFrom");
            w.u32(18); // tk_string
            w.u32(0);
            w.string("new");
        };
        scene.d.call(&second, "set_qos", begin).unwrap();
        second
    };
    let second = begins_anew(&mut scene);
    refused(&mut scene, &second, "another");
    scene.connect(&second);
    assert_eq!(scene.connected(), [1]);
    assert_eq!(scene.d.number(&first, "_get_MyType"), 2, "by either key");
    // The service itself was started again, and has everything connected as it was.
    let mut after = Dialogue::with(STYLES[5], settings(7));
    after.protocol.restore(&scene.d.protocol.objects.topology()).unwrap();
    scene.d = after;
    let (third, _) = scene.proxy();
    refused(&mut scene, &third, "another");
    scene.connect(&third);
    assert_eq!(scene.connected(), [2]);
    // Where taking over is switched off, a place is a place.
    let mut switched_off = settings(1);
    switched_off.compatibility.take_over = false;
    let (mut scene, _) = full(switched_off);
    scene.dies();
    no_proxy(&mut scene);
}

/// TAO's `-AllowReconnect` was left aside: a program that came back by the reference of its proxy was refused by `AlreadyConnected`.
#[test]
fn a_client_takes_the_place_of_one_that_is_connected_where_that_is_allowed() {
    let mut scene = Scene::new();
    let (proxy, _) = scene.proxy();
    scene.connect(&proxy);
    scene.d.give(&proxy, "connect_structured_push_consumer", &client("other")).raises("AlreadyConnected");

    let mut allowed = settings(1);
    allowed.compatibility.allow_reconnect = true;
    let mut scene = Scene::of(allowed);
    let (proxy, _) = scene.proxy();
    scene.connect(&proxy);
    let called = |scene: &mut Scene| {
        let peer = scene.d.protocol.objects.hierarchy.proxy(proxy_key(&proxy)).unwrap().peer.unwrap();
        let peers = scene.d.protocol.publish().unwrap().directory.peers;
        let key = peers.get(peer).unwrap().ior.iiop().unwrap().key.clone();
        (peer, String::from_utf8(key).unwrap())
    };
    let (before, first) = called(&mut scene);
    scene.d.get(&proxy, "suspend_connection");
    scene.d.give(&proxy, "connect_structured_push_consumer", &client("other")).unwrap();
    let (after, second) = called(&mut scene);
    assert_eq!((first.as_str(), second.as_str()), ("one", "other"));
    assert_ne!(before, after);
    assert!(scene.d.notified().is_empty(), "the former client is not called: it may be the same program");
    assert_eq!(scene.connected(), [0]);
    // It is active, and is disconnected as the one that it is.
    scene.d.call(&proxy, "resume_connection", |_| {}).raises("ConnectionAlreadyActive");
    scene.d.get(&proxy, "disconnect_structured_push_supplier");
    assert!(scene.connected().is_empty());
    // The same object connects anew to the same proxy, and what cannot be called does not take its place.
    let (proxy, _) = scene.proxy();
    scene.connect(&proxy);
    scene.connect(&proxy);
    scene.d.give(&proxy, "connect_structured_push_consumer", &Ior::nil()).raises("BAD_PARAM");
    assert_eq!(scene.connected().len(), 1);
}

/// What follows when a lane gives a consumer up waits for the turn of its client's address. A program that came back meanwhile went on at
/// the proxy that its lane had given up, with a dead outbox: it was disconnected, or got nothing, when that turn came.
#[test]
fn a_client_that_comes_back_does_not_go_on_at_a_proxy_that_its_lane_has_given_up() {
    let mut scene = Scene::new();
    let (first, _) = scene.proxy();
    scene.connect(&first);
    scene.d.protocol.lives.note_failing(&mut scene.d.protocol.objects, proxy_key(&first), true);
    scene.passes(1);
    scene.d.protocol.lives.note_given_up(&scene.d.protocol.objects, proxy_key(&first));
    let (second, _) = scene.proxy();
    scene.connect(&second);
    assert_eq!(scene.connected(), [1]);
    assert_eq!(scene.d.number(&first, "_get_MyType"), 2, "by either key");
    scene.d.protocol.handle_disconnected(proxy_key(&first), DisconnectReason::OutboxFull);
    assert_eq!(scene.connected(), [1]);
    assert!(scene.d.notified().is_empty());
    // Nor does anything connect to such a proxy, where that is allowed for one that is connected.
    let mut allowed = settings(1);
    allowed.compatibility.allow_reconnect = true;
    let mut scene = Scene::of(allowed);
    let (proxy, _) = scene.proxy();
    scene.connect(&proxy);
    scene.d.protocol.lives.note_given_up(&scene.d.protocol.objects, proxy_key(&proxy));
    scene.d.give(&proxy, "connect_structured_push_consumer", &client("other")).raises("OBJECT_NOT_EXIST");
    scene.d.protocol.handle_disconnected(proxy_key(&proxy), DisconnectReason::OutboxFull);
    assert!(scene.connected().is_empty());
}

/// The log said nothing before the first event, and then only that an address could not be reached.
#[test]
fn a_client_that_can_hardly_be_called_is_reported_once_until_one_from_there_offers_its_connection() {
    let mut scene = Scene::new();
    scene.d.principal = Accounts::new(Ceilings::new(100)).account_of([198, 51, 100, 7].into());
    let mut reference = client("one");
    for profile in &mut reference.profiles {
        if let Profile::Iiop(profile) = profile {
            profile.host = "10.0.0.5".into();
        }
    }
    let port = reference.iiop().unwrap().port;
    let listed = [ListenPoint { host: "10.0.0.5".into(), port }].into();
    let offer = Arc::new(Offer { connection: NonZeroU64::MIN, is_secure: false, listed });
    for (offer, reported) in [(None, Some(true)), (None, Some(false)), (Some(&offer), None), (None, Some(true))] {
        let (proxy, _) = scene.proxy();
        scene.d.protocol.lives.on_line(None, offer);
        scene.d.give(&proxy, "connect_structured_push_consumer", &reference).unwrap();
        let effects = core::iter::from_fn(|| scene.d.protocol.poll_effect());
        let told = effects.filter_map(|effect| match effect {
            Effect::Hidden { is_first, .. } => Some(is_first),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), Vec::from_iter(reported));
    }
}
