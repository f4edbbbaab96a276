//! Notifications of clients when something ends.

use super::dialogue::{Dialogue, Expect, STYLES, client, key_of, settings};
use super::proxies::{new_channel, sorts};
use crate::{Effect, Parting};
use engine::{DisconnectReason, ProxyKey, Time};
use giop::ior::Ior;
use std::time::Duration;

/// A channel with one connected client of each kind, and one proxy without a client.
struct Scene {
    d: Dialogue,
    channel: Ior,
    consumers: Ior,
    suppliers: Ior,
    proxies: Vec<Ior>,
}

const CLIENTS: [(&str, &str); 6] = [
    ("any consumer", "disconnect_push_consumer"),
    ("structured consumer", "disconnect_structured_push_consumer"),
    ("plain consumer", "disconnect_push_consumer"),
    ("any supplier", "disconnect_push_supplier"),
    ("structured supplier", "disconnect_structured_push_supplier"),
    ("plain supplier", "disconnect_push_supplier"),
];

impl Scene {
    fn new() -> Self {
        let mut d = Dialogue::new(STYLES[5]);
        let factory = d.bootstrap("NotificationService");
        let made = d.call(&factory, "create_channel", |w| w.u64(0)).unwrap();
        let channel = Ior::read(&mut made.reader()).unwrap();
        let consumers = d.made(&channel, "new_for_consumers", 0).0;
        let suppliers = d.made(&channel, "new_for_suppliers", 0).0;
        let mut proxies = Vec::new();
        for (admin, proxy, peer) in [(&consumers, "supplier", "consumer"), (&suppliers, "consumer", "supplier")] {
            for (word, form) in [("any", 0), ("structured", 1)] {
                let obtained = d.made(admin, &format!("obtain_notification_push_{proxy}"), form).0;
                let connect = format!("connect_{word}_push_{peer}");
                d.give(&obtained, &connect, &client(&format!("{word} {peer}"))).unwrap();
                proxies.push(obtained);
            }
            let plain = d.object(admin, &format!("obtain_push_{proxy}"));
            d.give(&plain, &format!("connect_push_{peer}"), &client(&format!("plain {peer}"))).unwrap();
            proxies.push(plain);
            // No client to notify: a proxy without a client, and for suppliers one without a reference.
            let idle = d.made(admin, &format!("obtain_notification_push_{proxy}"), 0).0;
            if peer == "supplier" {
                d.give(&idle, "connect_any_push_supplier", &Ior::nil()).unwrap();
            }
        }
        assert_eq!(d.effects(), []);
        Self { d, channel, consumers, suppliers, proxies }
    }

    fn notified(&mut self) -> Vec<(String, &'static str)> {
        self.d.notified()
    }

    fn proxy_key(&mut self, index: usize) -> ProxyKey {
        let published = self.d.protocol.publish().expect("something changed");
        published.directory.proxy(&key_of(&self.proxies[index])).unwrap()
    }
}

fn expected(clients: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    clients.iter().map(|(name, operation)| ((*name).to_owned(), *operation)).collect()
}

#[test]
fn destroying_a_channel_tells_all_its_clients() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.get(&channel, "destroy");
    assert_eq!(scene.notified(), expected(&CLIENTS));
    for proxy in &scene.proxies {
        scene.d.call(proxy, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    }
    assert!(scene.d.protocol.publish().unwrap().directory.peers.is_empty());
}

/// JacORB's `testDestroyChannelDisconnectsClients` looks at its clients when `destroy` has returned; they were notified later.
#[test]
fn a_client_that_destroys_is_answered_when_the_clients_have_been_notified_and_after_a_second_at_most() {
    for (all_answer, admin) in [(true, false), (false, false), (true, true)] {
        let mut scene = Scene::new();
        let gone = if admin { scene.suppliers.clone() } else { scene.channel.clone() };
        scene.d.protocol.handle_time(Time(7));
        scene.d.get(&gone, "destroy");
        let delayed_reply = scene.d.protocol.delayed_replies.take().unwrap();
        let effects = scene.d.effects();
        let calls = effects.into_iter().filter_map(|effect| match effect {
            Effect::Call { delayed_reply, .. } => delayed_reply,
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls, vec![delayed_reply; if admin { 3 } else { CLIENTS.len() }]);
        for notified in calls.iter().skip(usize::from(!all_answer)) {
            assert_eq!(scene.d.protocol.delayed_replies.poll(), None);
            scene.d.protocol.delayed_replies.notified(*notified);
        }
        let second = Time(7) + Duration::from_secs(1);
        if !all_answer {
            assert_eq!(scene.d.protocol.delayed_replies.poll(), None);
            assert!(scene.d.protocol.poll_timeout().unwrap() <= second);
            scene.d.protocol.handle_time(second);
        }
        assert_eq!(scene.d.protocol.delayed_replies.poll(), Some((delayed_reply, all_answer)));
    }
    // Nothing to wait for: there is no client, or the client itself disconnects, or a lane gave it up before.
    let mut scene = Scene::new();
    let key = scene.proxy_key(1);
    scene.d.protocol.handle_disconnected(key, DisconnectReason::OutboxFull);
    scene.d.get(&scene.proxies[0].clone(), "disconnect_push_supplier");
    assert_eq!(scene.d.protocol.delayed_replies.take(), None);
    let empty = scene.d.made(&scene.channel.clone(), "new_for_consumers", 0).0;
    scene.d.get(&empty, "destroy");
    assert_eq!(scene.d.protocol.delayed_replies.take(), None);
}

#[test]
fn destroying_an_admin_tells_its_clients_only() {
    let mut scene = Scene::new();
    let (consumers, suppliers) = (scene.consumers.clone(), scene.suppliers.clone());
    scene.d.get(&consumers, "destroy");
    assert_eq!(scene.notified(), expected(&CLIENTS[..3]));
    scene.d.get(&suppliers, "destroy");
    assert_eq!(scene.notified(), expected(&CLIENTS[3..]));
}

/// The client that disconnected a proxy was answered, and the object that had been connected to it never heard of it: a supervisor that
/// disconnects others' proxies left their programs waiting for events. Event Service 1.2, 2.1: the counterpart is called; omniEvents and
/// JacORB do so.
#[test]
fn the_counterpart_of_a_proxy_that_is_disconnected_is_notified_behind_the_reply_for_every_kind() {
    for tells in [true, false] {
        for sort in sorts() {
            let mut settings = settings(1);
            settings.compatibility.tell_on_disconnect = tells;
            let mut d = Dialogue::with(STYLES[5], settings);
            let channel = new_channel(&mut d);
            let counterpart = client("counterpart");
            for is_known in [true, false] {
                let proxy = sort.obtain(&mut d, &channel);
                let needs_one = sort.is_called();
                let given = if is_known || needs_one { counterpart.clone() } else { Ior::nil() };
                d.give(&proxy, &sort.connect(), &given).unwrap();
                let own = if sort.client == "supplier" { "consumer" } else { "supplier" };
                d.get(&proxy, &sort.disconnect(own));
                assert_eq!(d.protocol.delayed_replies.take(), None, "nothing is waited for");
                let notified: Vec<Parting> = std::iter::from_fn(|| d.protocol.poll_parting()).collect();
                let is_notified = tells && (is_known || needs_one);
                let operation = sort.disconnect(sort.client);
                let notified: Vec<_> =
                    notified.iter().map(|Parting { to, operation, .. }| (to, (*operation).to_owned())).collect();
                assert_eq!(notified, if is_notified { vec![(&counterpart, operation)] } else { vec![] }, "{sort:?}");
                assert!(!d.effects().iter().any(|effect| matches!(effect, Effect::Call { .. })), "{sort:?}");
                d.call(&proxy, &sort.disconnect(own), |_| {}).raises("OBJECT_NOT_EXIST");
                assert_eq!(d.protocol.poll_parting(), None);
            }
        }
    }
}

#[test]
fn a_client_that_disconnects_is_not_called_before_the_reply() {
    let mut scene = Scene::new();
    let operations = [
        "disconnect_push_supplier",
        "disconnect_structured_push_supplier",
        "disconnect_push_supplier",
        "disconnect_push_consumer",
        "disconnect_structured_push_consumer",
        "disconnect_push_consumer",
    ];
    for (proxy, operation) in scene.proxies.clone().iter().zip(operations) {
        scene.d.get(proxy, operation);
        scene.d.call(proxy, operation, |_| {}).raises("OBJECT_NOT_EXIST");
    }
    assert_eq!(scene.notified(), []);
}

#[test]
fn every_consumer_that_goes_is_released() {
    let mut scene = Scene::new();
    let before = scene.d.protocol.publish().unwrap();
    let channel = scene.channel.clone();
    scene.d.get(&channel, "destroy");
    let mut released: Vec<_> = scene
        .d
        .effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::ReleasePeer(peer) => Some(peer),
            _ => None,
        })
        .collect();
    released.sort_unstable();
    let mut peers: Vec<_> = before.directory.peers.iter().map(|(peer, _)| peer).collect();
    peers.sort_unstable();
    assert_eq!(released, peers);
    assert_eq!(peers.len(), 3);
}

#[test]
fn a_consumer_given_up_is_notified_and_its_proxy_is_gone() {
    let mut scene = Scene::new();
    let key = scene.proxy_key(1);
    let reason = DisconnectReason::GivenUp { failures: 9, failing_for: Duration::from_secs(60) };
    scene.d.protocol.handle_disconnected(key, reason);
    assert_eq!(scene.notified(), expected(&CLIENTS[1..2]));
    let proxy = scene.proxies[1].clone();
    scene.d.call(&proxy, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    let published = scene.d.protocol.publish().unwrap();
    assert_eq!(published.directory.peers.len(), 2);
    // The lane may say so again; there is nothing left to do.
    scene.d.protocol.handle_disconnected(key, reason);
    assert_eq!(scene.d.effects(), []);
    assert!(scene.d.protocol.publish().is_none());
}

#[test]
fn a_consumer_that_says_it_is_gone_is_not_called_again() {
    let mut scene = Scene::new();
    let key = scene.proxy_key(0);
    scene.d.protocol.handle_disconnected(key, DisconnectReason::Gone);
    assert_eq!(scene.notified(), []);
    let proxy = scene.proxies[0].clone();
    scene.d.call(&proxy, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
}

/// A channel with an admin of so many connected push consumers.
fn crowd(count: usize) -> (Dialogue, Ior, Ior, Vec<Ior>) {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = new_channel(&mut d);
    let admin = d.made(&channel, "new_for_consumers", 0).0;
    let mut proxies = Vec::new();
    for number in 0..count {
        let made = d.quick(&admin, "obtain_notification_push_supplier", |w| w.u32(1)).unwrap();
        let proxy = made.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
        let consumer = client(&format!("consumer {number}"));
        d.quick(&proxy, "connect_structured_push_consumer", |w| consumer.write(w)).unwrap();
        proxies.push(proxy);
    }
    assert_eq!(d.effects(), []);
    run_to_completion(&mut d, Time(1));
    (d, channel, admin, proxies)
}

/// Lets administration go on until it has nothing left to do. Says how many pieces that took.
fn run_to_completion(d: &mut Dialogue, now: Time) -> usize {
    for batches in 0.. {
        d.protocol.handle_time(now);
        d.protocol.publish();
        if d.protocol.poll_timeout().is_none_or(|due| due > now) {
            return batches;
        }
    }
    unreachable!()
}

/// `destroy` of a channel or an admin with 65,536 consumers notified all of them, and forgot each, before another request was looked at:
/// 300 ms, and 180 ms more to publish it.
#[test]
fn clients_of_what_is_destroyed_are_notified_in_chunks_and_its_objects_are_gone_at_once() {
    for whole in [true, false] {
        let (mut d, channel, admin, proxies) = crowd(1_000);
        d.protocol.handle_time(Time(1));
        d.quick(if whole { &channel } else { &admin }, "destroy", |_| {}).unwrap();
        let delayed_reply = d.protocol.delayed_replies.take().unwrap();
        for gone in proxies.iter().chain([&admin]) {
            d.quick(gone, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
        }
        let mut notified = 0;
        let mut batches = 0;
        while notified < proxies.len() {
            let calls = d.effects().into_iter().filter(|effect| matches!(effect, Effect::Call { .. })).count();
            assert!(calls <= 256, "{calls} in one go");
            assert_eq!(d.protocol.delayed_replies.poll(), None);
            (0..calls).for_each(|_| d.protocol.delayed_replies.notified(delayed_reply));
            (notified, batches) = (notified + calls, batches + 1);
            // Others are served meanwhile.
            let factory = d.bootstrap("NotificationService");
            assert!(d.quick(&factory, "get_all_channels", |_| {}).is_ok());
            d.protocol.handle_time(Time(1));
            d.protocol.publish();
        }
        assert!(batches >= 4);
        run_to_completion(&mut d, Time(1));
        assert_eq!(
            d.protocol.delayed_replies.poll(),
            Some((delayed_reply, true)),
            "when all is published and all are notified"
        );
        assert!(d.protocol.publish().is_none() && d.effects().iter().all(|left| !matches!(left, Effect::Call { .. })));
    }
}

/// `set_qos` on a channel with 65,536 consumers worked out anew, in one go, when each of them is probed, for 150 ms, and then the
/// routes of each, for 130 ms.
#[test]
fn a_property_of_very_many_counts_for_each_of_them_when_it_is_answered() {
    let (mut d, channel, _, proxies) = crowd(2_500);
    let set = |d: &mut Dialogue, name: &str, value: u64| {
        d.set_qos(&channel, name, value);
        d.protocol.take_unpublished().unwrap()
    };
    let changed = set(&mut d, "ProbeInterval", 70_000_000);
    assert!(d.protocol.publish().is_none() && !changed.is_published(d.protocol.objects.hierarchy()));
    // A proxy says at once what is in effect there.
    let qos = d.quick(&proxies[2_499], "get_qos", |_| {});
    assert!(qos.is_ok());
    assert!(run_to_completion(&mut d, Time(1)) >= 8, "some at a time");
    assert!(changed.is_published(d.protocol.objects.hierarchy()));
    let mut asked = 0;
    let due = Time(1) + Duration::from_secs(7);
    for _ in 0..100 {
        d.protocol.handle_time(due);
        for effect in d.effects() {
            let Effect::Ask { client_call, .. } = effect else { continue };
            d.protocol.handle_answer(client_call, crate::ClientAnswer::Returned(Some(false)));
            asked += 1;
        }
    }
    assert_eq!(asked, proxies.len());
    // Two in a row are as good as one, and a small change of another client is published with the next.
    let first = set(&mut d, "ProbeInterval", 80_000_000);
    d.protocol.publish();
    let second = set(&mut d, "ProbeInterval", 90_000_000);
    d.quick(&proxies[0], "disconnect_structured_push_supplier", |_| {}).unwrap();
    let third = d.protocol.take_unpublished().unwrap();
    run_to_completion(&mut d, due);
    assert!([&first, &second, &third].iter().all(|changed| changed.is_published(d.protocol.objects.hierarchy())));
}

/// What is undone where the disk takes nothing: not what was there before, though no client had asked for it.
#[test]
fn what_a_request_has_made_is_destroyed_again_and_nothing_else() {
    let mut d = Dialogue::new(STYLES[5]);
    d.protocol.declare_channel("Plant", &[]).unwrap();
    let factory = d.bootstrap("NotificationService");
    let channels = |d: &mut Dialogue| {
        let listed = d.call(&factory, "get_all_channels", |_| {}).unwrap();
        listed.read(|r| (0..r.u32().unwrap()).map(|_| r.i32().unwrap()).collect::<Vec<_>>())
    };
    let before = channels(&mut d);
    assert_eq!((before.len(), d.protocol.take_made().is_nothing()), (2, true));
    d.quick(&factory, "create_channel", |w| w.u64(0)).unwrap();
    let made = d.protocol.take_made();
    assert!(!made.is_nothing() && d.protocol.take_made().is_nothing());
    assert_eq!(channels(&mut d).len(), 3);
    d.protocol.unmake(made.clone());
    assert_eq!(channels(&mut d), before);
    // Once more makes no difference.
    d.protocol.unmake(made);
    assert_eq!(channels(&mut d), before);
    // One that was refused has made nothing.
    d.quick(&factory, "create_channel", |w| w.u32(0)).unwrap_err();
    assert!(d.protocol.take_made().is_nothing());
}
