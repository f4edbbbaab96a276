//! Probes: which clients are asked when, and which are taken for dead.

use super::dialogue::{Dialogue, Expect, PULL_CONSUMER, PUSH_CONSUMER, PUSH_SUPPLIER, STYLES, client, settings};
use super::idle::proxy_key;
use super::proxies::new_channel;
use super::topology::with_store;
use crate::{ClientAnswer, ClientCall, Effect, ProtocolSettings};
use accounts::{Accounts, Ceilings, Charge, Resource};
use engine::{Activity, ProxyKey, Time};
use giop::ior::Ior;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const SECOND: u64 = 10_000_000;

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
        Self { d, channel, now: Time(0) }
    }

    /// A push consumer; it has to be reachable.
    fn consumer(&mut self, name: &str) -> Ior {
        let admin = self.d.object(&self.channel, "for_consumers");
        self.d.connected(&admin, PUSH_CONSUMER, &client(name))
    }

    /// A push supplier; it need not be reachable.
    fn supplier(&mut self, reference: &Ior) -> Ior {
        let admin = self.d.object(&self.channel, "for_suppliers");
        self.d.connected(&admin, PUSH_SUPPLIER, reference)
    }

    /// A pull consumer; it need not be reachable.
    fn puller(&mut self, reference: &Ior) -> Ior {
        let admin = self.d.object(&self.channel, "for_consumers");
        self.d.connected(&admin, PULL_CONSUMER, reference)
    }

    /// Where lanes note the calls of the client that has just connected to this proxy.
    fn activity(&mut self, proxy: &Ior) -> Activity {
        let routing = self.d.protocol.publish().unwrap().routing;
        let key = proxy_key(proxy);
        let of_supplier = routing.supplier(key).map(|route| route.activity.clone());
        of_supplier.or_else(|| routing.channel(key.channel)?.consumer(key.proxy)?.activity.clone()).unwrap()
    }

    /// Clients that connect from now on do so on a connection of their own, which is open until it is dropped.
    fn on_a_connection(&mut self) -> Charge {
        let account = Accounts::new(Ceilings::new(100)).account_of(IpAddr::from([127, 0, 0, 7]));
        let connection = account.charge(Resource::Connections, 1).unwrap();
        self.d.principal = account;
        connection
    }

    /// Lets time pass in which no client is reached. Gives how many were found dead.
    fn unreached_for(&mut self, seconds: u64) -> usize {
        let mut dead = 0;
        for _ in 0..seconds.div_ceil(60) {
            for (_, client_call) in self.after(60) {
                self.answer(client_call, ClientAnswer::Unreachable);
            }
            dead += self.reaped().len();
        }
        dead
    }

    /// Lets time pass, and gives the clients that are asked then.
    fn after(&mut self, seconds: u64) -> Vec<(String, ClientCall)> {
        self.now = self.now + Duration::from_secs(seconds);
        self.d.protocol.handle_time(self.now);
        self.probed()
    }

    fn probed(&mut self) -> Vec<(String, ClientCall)> {
        let probed = self.d.effects().into_iter().filter_map(|effect| match effect {
            Effect::Ask { client_call, to, operation: "_non_existent", body, .. } => {
                assert!(body.is_empty());
                Some((String::from_utf8(to.iiop().unwrap().key.clone()).unwrap(), client_call))
            }
            _ => None,
        });
        probed.collect()
    }

    fn answer(&mut self, client_call: ClientCall, answer: ClientAnswer) {
        self.d.protocol.handle_answer(client_call, answer);
    }

    /// Clients that were found dead, and for how long each could not be reached.
    fn reaped(&mut self) -> Vec<(ProxyKey, String, Option<Duration>)> {
        let reaped = self.d.effects().into_iter().filter_map(|effect| match effect {
            Effect::Reaped { proxy, name, unreachable_for } => Some((proxy, name, unreachable_for)),
            Effect::Call { .. } => panic!("a dead client is not notified"),
            _ => None,
        });
        reaped.collect()
    }

    fn is_there(&mut self, proxy: &Ior) -> bool {
        self.d.call(proxy, "_non_existent", |_| {}).is_ok()
    }

    fn next(&self) -> Option<u64> {
        self.d.protocol.poll_timeout().map(|due| due.since(Time(0)).as_secs())
    }
}

fn names(probed: &[(String, ClientCall)]) -> Vec<&str> {
    probed.iter().map(|(name, _)| name.as_str()).collect()
}

/// After its program had been killed, a consumer with a persistent connection was kept for ever with its backlog, and nothing said so.
#[test]
fn a_client_that_is_kept_out_of_reach_is_announced_after_a_minute_and_again_when_it_answers() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "GiveUpAfter", 600 * SECOND);
    let proxy = scene.consumer("killed");
    let key = proxy_key(&proxy);
    let mut announced = Vec::new();
    for _ in 0..4 {
        for (_, client_call) in scene.after(60) {
            scene.answer(client_call, ClientAnswer::Unreachable);
        }
        announced.extend(scene.d.effects().into_iter().filter_map(|effect| match effect {
            Effect::Unreachable { proxy, name, unreachable_for, left } => Some((proxy, name, unreachable_for, left)),
            _ => None,
        }));
    }
    let seconds = Duration::from_secs;
    let [(of, name, unreachable_for, left)] = announced.as_slice() else { panic!("{announced:?}") };
    assert_eq!((*of, *unreachable_for, *left), (key, seconds(60), Some(seconds(540))));
    assert!(name.contains("killed"), "{name}");
    assert_eq!(scene.d.protocol.probes.unreachable_clients(), 1);
    assert_eq!(scene.d.protocol.objects.unreachable_for(key), Some(seconds(180)));

    for (_, client_call) in scene.after(60) {
        scene.answer(client_call, ClientAnswer::Returned(Some(false)));
    }
    let reached = scene.d.effects().into_iter().filter(|effect| matches!(effect, Effect::Reached { .. })).count();
    assert_eq!(
        (reached, scene.d.protocol.probes.unreachable_clients(), scene.d.protocol.objects.unreachable_for(key)),
        (1, 0, None)
    );

    // One that goes while it is announced is not counted any more.
    assert_eq!(scene.unreached_for(300), 0);
    assert_eq!(scene.d.protocol.probes.unreachable_clients(), 1);
    assert_eq!(scene.unreached_for(600), 1);
    assert_eq!(scene.d.protocol.probes.unreachable_clients(), 0);
}

/// With a store connections are persistent by default: then the client has days, and nothing said that it was using them up.
#[test]
fn a_persistent_consumer_out_of_reach_is_announced_with_what_is_left_of_its_expiry_and_goes_when_that_is_over() {
    let mut scene = Scene::of(with_store(1));
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "GiveUpAfter", 120 * SECOND);
    scene.d.set_qos(&channel, "ConnectionExpiry", 600 * SECOND);
    let proxy = scene.consumer("killed");
    let (mut announced, mut reaped) = (Vec::new(), Vec::new());
    for minute in 1..=12 {
        for (_, client_call) in scene.after(60) {
            scene.answer(client_call, ClientAnswer::Unreachable);
        }
        for effect in scene.d.effects() {
            match effect {
                Effect::Unreachable { left, .. } => announced.push((minute, left)),
                Effect::Reaped { unreachable_for, .. } => reaped.push((minute, unreachable_for)),
                _ => {}
            }
        }
        let never_given_up = !announced.is_empty() && reaped.is_empty();
        assert_eq!(scene.d.protocol.probes.unreachable_clients(), usize::from(never_given_up), "{minute}");
    }
    let seconds = Duration::from_secs;
    assert_eq!(announced, [(2, Some(seconds(540)))]);
    assert_eq!((reaped, scene.is_there(&proxy)), (vec![(11, Some(seconds(600)))], false));
}

/// One that only calls, and does, need not be reachable.
#[test]
fn a_client_that_calls_is_not_announced_to_be_out_of_reach() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "GiveUpAfter", 0);
    let _connection = scene.on_a_connection();
    scene.supplier(&client("behind a wall"));
    assert_eq!(scene.unreached_for(600), 0);
    assert_eq!(scene.d.protocol.probes.unreachable_clients(), 0);
}

#[test]
fn every_client_with_a_reference_is_asked_at_its_interval() {
    let mut scene = Scene::new();
    assert_eq!(scene.next(), None);
    scene.consumer("consumer");
    scene.after(10);
    scene.supplier(&client("supplier"));
    scene.supplier(&Ior::nil());
    assert_eq!(scene.next(), Some(60));
    assert_eq!(names(&scene.after(49)), Vec::<&str>::new());
    let probed = scene.after(1);
    assert_eq!(names(&probed), ["consumer"]);
    // One question at a time.
    assert_eq!(scene.next(), Some(70));
    assert_eq!(names(&scene.after(10)), ["supplier"]);
    assert_eq!(scene.next(), None);
    scene.answer(probed[0].1, ClientAnswer::Returned(Some(false)));
    assert_eq!(scene.next(), Some(120));
    assert!(scene.reaped().is_empty());
}

#[test]
fn an_interval_of_zero_asks_never_and_a_new_one_counts_at_once() {
    let mut scene = Scene::new();
    let (channel, proxy) = (scene.channel.clone(), scene.consumer("consumer"));
    scene.d.set_qos(&channel, "ProbeInterval", 0);
    assert_eq!(scene.next(), None);
    assert!(scene.after(1_000).is_empty());
    scene.d.set_qos(&proxy, "ProbeInterval", 5 * SECOND);
    assert_eq!(names(&scene.after(0)), ["consumer"], "its last probe is long ago");
    let other = scene.consumer("other");
    assert_eq!(scene.next(), None);
    let admin = scene.d.object(&other, "_get_MyAdmin");
    scene.d.set_qos(&admin, "ProbeInterval", 7 * SECOND);
    assert_eq!(scene.next(), Some(1_007));
    scene.d.set_qos(&admin, "ProbeInterval", 1);
    let probed = scene.after(1);
    assert_eq!(names(&probed), ["other"]);
    scene.answer(probed[0].1, ClientAnswer::Raised);
    assert!(scene.after(0).is_empty(), "never more often than every 100 ms");
}

#[test]
fn a_client_that_says_that_it_does_not_exist_is_gone_at_once() {
    for dead in [ClientAnswer::Returned(Some(true)), ClientAnswer::Gone] {
        let mut scene = Scene::new();
        let (consumer, supplier) = (scene.consumer("consumer"), scene.supplier(&client("supplier")));
        for (name, client_call) in scene.after(60) {
            scene.answer(client_call, dead);
            let reaped = scene.reaped();
            assert_eq!(reaped.len(), 1);
            assert_eq!((reaped[0].1.as_str(), reaped[0].2), (format!("client.example:4711 {name}").as_str(), None));
        }
        assert!(!scene.is_there(&consumer) && !scene.is_there(&supplier));
        assert!(scene.d.protocol.publish().unwrap().directory.peers.is_empty());
        assert_eq!(scene.next(), None);
    }
}

#[test]
fn any_other_answer_is_life() {
    let mut scene = Scene::new();
    let proxy = scene.consumer("consumer");
    let alive = [
        ClientAnswer::Returned(Some(false)),
        ClientAnswer::Returned(None),
        ClientAnswer::NotImplemented,
        ClientAnswer::Raised,
        ClientAnswer::TimedOut,
    ];
    for answer in alive.iter().cycle().take(50) {
        let probed = scene.after(60);
        scene.answer(probed[0].1, *answer);
    }
    assert!(scene.reaped().is_empty() && scene.is_there(&proxy));
}

#[test]
fn a_client_that_cannot_be_reached_for_long_enough_is_given_up() {
    let mut scene = Scene::new();
    let proxy = scene.consumer("consumer");
    scene.d.set_qos(&proxy, "GiveUpAfter", 90 * SECOND);
    let miss = |scene: &mut Scene, seconds: u64, answer: ClientAnswer| {
        let probed = scene.after(seconds);
        assert_eq!(probed.len(), 1, "{:?}", scene.now);
        scene.answer(probed[0].1, answer);
        scene.is_there(&proxy)
    };
    assert!(miss(&mut scene, 60, ClientAnswer::Unreachable));
    assert!(miss(&mut scene, 60, ClientAnswer::Unreachable));
    // In between it was there.
    assert!(miss(&mut scene, 60, ClientAnswer::Raised));
    assert!(miss(&mut scene, 60, ClientAnswer::Unreachable));
    assert!(miss(&mut scene, 60, ClientAnswer::TimedOut));
    // The time is over after 90 seconds; it is asked once more when its interval is, and not before.
    assert!(scene.after(59).is_empty());
    assert!(!miss(&mut scene, 1, ClientAnswer::Unreachable));
    let reaped = scene.reaped();
    assert_eq!((reaped.len(), reaped[0].2), (1, Some(Duration::from_secs(120))));
}

#[test]
fn a_client_that_need_not_be_reachable_is_given_up_only_if_it_once_was() {
    let mut scene = Scene::new();
    let proxy = scene.supplier(&client("supplier"));
    for _ in 0..100 {
        let probed = scene.after(60);
        scene.answer(probed[0].1, ClientAnswer::Unreachable);
    }
    assert!(scene.is_there(&proxy));
    let probed = scene.after(60);
    scene.answer(probed[0].1, ClientAnswer::Returned(Some(false)));
    for _ in 0..2 {
        assert!(scene.is_there(&proxy));
        let probed = scene.after(60);
        scene.answer(probed[0].1, ClientAnswer::Unreachable);
    }
    assert!(!scene.is_there(&proxy));
    // Zero is for ever.
    let (channel, patient) = (scene.channel.clone(), scene.consumer("patient"));
    scene.d.set_qos(&channel, "GiveUpAfter", 0);
    for _ in 0..100 {
        let probed = scene.after(60);
        scene.answer(probed[0].1, ClientAnswer::Unreachable);
    }
    assert!(scene.is_there(&patient));
}

/// Pull consumers that gave a reference at which they never were reached stayed for ever when their programs died: after long attacks
/// a channel had them by the ten thousand, and each event went to all of them.
#[test]
fn a_pull_consumer_that_was_never_reached_is_found_dead_by_its_silence() {
    let mut scene = Scene::new();
    let connection = scene.on_a_connection();
    let proxy = scene.puller(&client("behind a wall"));
    let activity = scene.activity(&proxy);
    scene.d.set_qos(&proxy, "GiveUpAfter", 90 * SECOND);
    // Its connection is open, whatever it does.
    assert_eq!(scene.unreached_for(600), 0);
    drop(connection);
    // It calls on others.
    for _ in 0..10 {
        activity.note(scene.now);
        assert_eq!(scene.unreached_for(60), 0);
    }
    // One of its pulls waits, for an hour.
    let pull = activity.begin_wait();
    assert_eq!(scene.unreached_for(3_600), 0);
    pull.end(scene.now);
    assert_eq!(scene.unreached_for(120), 1);
    assert!(!scene.is_there(&proxy));
    assert_eq!(scene.next(), None);
}

/// One that gave no reference stayed for ever, too: it cannot be asked, and events were kept for it, though it did not call any more.
#[test]
fn a_pull_consumer_without_a_reference_is_found_dead_by_its_silence() {
    let mut scene = Scene::new();
    let connection = scene.on_a_connection();
    let proxy = scene.puller(&Ior::nil());
    let activity = scene.activity(&proxy);
    let after = |scene: &mut Scene, seconds: u64| {
        scene.after(seconds);
        assert!(scene.d.protocol.poll_timeout().is_none_or(|due| due > scene.now), "the next look lies ahead");
        scene.is_there(&proxy)
    };
    // Its `GiveUpAfter` is a minute; its connection is open, whatever it does.
    (0..10).for_each(|_| assert!(after(&mut scene, 60)));
    drop(connection);
    for _ in 0..10 {
        activity.note(scene.now);
        assert!(after(&mut scene, 59));
    }
    // One of its pulls waits, for an hour.
    let pull = activity.begin_wait();
    (0..60).for_each(|_| assert!(after(&mut scene, 60)));
    pull.end(scene.now);
    assert!(after(&mut scene, 59));
    // Zero is for ever, and what is set later counts for those that are there.
    scene.d.set_qos(&proxy, "GiveUpAfter", 0);
    (0..10).for_each(|_| assert!(after(&mut scene, 3_600)));
    scene.d.set_qos(&proxy, "GiveUpAfter", 90 * SECOND);
    assert!(!after(&mut scene, 1));
    assert_eq!(scene.next(), None);
}

#[test]
fn a_supplier_behind_a_wall_may_push_once_a_day() {
    const DAY: u64 = 24 * 3_600;
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "ProbeInterval", 3_600 * SECOND);
    let proxy = scene.supplier(&client("behind a wall"));
    let activity = scene.activity(&proxy);
    for _ in 0..10 {
        assert_eq!(scene.unreached_for(DAY), 0);
        activity.note(scene.now);
    }
    assert_eq!(scene.unreached_for(6 * DAY), 0);
    assert_eq!(scene.unreached_for(DAY + 3_600), 1);
    // `GiveUpAfter` of 0 is for ever.
    scene.d.set_qos(&channel, "GiveUpAfter", 0);
    let proxies = [scene.supplier(&client("supplier")), scene.puller(&client("consumer"))];
    assert_eq!(scene.unreached_for(20 * DAY), 0);
    assert!(proxies.iter().all(|proxy| scene.is_there(proxy)));
}

#[test]
fn a_supplier_that_cannot_be_reached_any_more_lives_while_it_pushes() {
    let mut scene = Scene::new();
    let proxy = scene.supplier(&client("supplier"));
    let activity = scene.activity(&proxy);
    let probed = scene.after(60);
    scene.answer(probed[0].1, ClientAnswer::Returned(Some(false)));
    scene.d.set_qos(&proxy, "GiveUpAfter", 90 * SECOND);
    for _ in 0..100 {
        activity.note(scene.now);
        assert_eq!(scene.unreached_for(60), 0);
    }
    assert_eq!(scene.unreached_for(60), 1);
}

#[test]
fn only_so_many_are_asked_at_once() {
    let mut scene = Scene::new();
    for number in 0..150 {
        scene.consumer(&format!("consumer {number}"));
    }
    let mut probed = scene.after(60);
    assert_eq!(probed.len(), 64);
    assert_eq!(scene.next(), None, "the next answer is waited for");
    let mut total = 0;
    while let Some((_, client_call)) = probed.pop() {
        total += 1;
        scene.answer(client_call, ClientAnswer::Returned(Some(false)));
        probed.extend(scene.probed());
    }
    assert_eq!(total, 150);
    assert_eq!(scene.next(), Some(120));
}

#[test]
fn a_client_that_leaves_while_being_asked_leaves_room_for_another() {
    let mut scene = Scene::new();
    let proxies: Vec<Ior> = (0..100).map(|number| scene.consumer(&format!("consumer {number}"))).collect();
    let probed = scene.after(60);
    for proxy in &proxies[..64] {
        scene.d.get(proxy, "disconnect_structured_push_supplier");
    }
    assert_eq!(scene.after(0).len(), 36);
    for (_, client_call) in probed {
        scene.answer(client_call, ClientAnswer::Gone);
    }
    assert!(scene.reaped().is_empty());
    let channel = scene.channel.clone();
    scene.d.get(&channel, "destroy");
    assert_eq!(scene.next(), None);
    scene.d.call(&channel, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
}

/// What a client's host does when it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Peer {
    Dead,
    Mute,
    Slow,
    /// Another program answers where it was.
    Moved,
    Alive,
    /// It cannot be reached, but it calls.
    Walled,
}

/// How events come to a client, or from it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    /// It is called, so that it has to be reachable.
    Consumer,
    Puller,
    Supplier,
}

/// A client of the model.
struct Modelled {
    proxy: Ior,
    peer: Peer,
    interval: Duration,
    role: Role,
    /// It gave no reference, and cannot be asked.
    is_nameless: bool,
    /// Its `GiveUpAfter` is 0.
    never_given_up: bool,
    probed: Option<Time>,
    /// Where its calls are noted.
    activity: Option<Activity>,
    /// The connection on which it connected, while it is open.
    connection: Option<Charge>,
    /// It has ever been what looks like dead.
    may_be_gone: bool,
}

impl Modelled {
    fn become_one(&mut self, peer: Peer) {
        self.peer = peer;
        if peer == Peer::Dead {
            self.connection = None;
        }
        self.may_be_gone |= peer == Peer::Dead || (peer == Peer::Walled && self.role == Role::Consumer);
        self.note_silence();
    }

    fn lose_connection(&mut self) {
        self.connection = None;
        self.note_silence();
    }

    /// A client that cannot be asked, has no connection and does not call looks like dead.
    fn note_silence(&mut self) {
        self.may_be_gone |= self.is_nameless && self.connection.is_none() && self.peer != Peer::Walled;
    }

    /// If it cannot be reached and lives, it calls.
    fn call(&mut self, now: Time) {
        if let Some(activity) = self.activity.as_ref().filter(|_| self.peer == Peer::Walled) {
            activity.note(now);
        }
    }
}

/// Clients that die, fall silent, become slow, move and come back, as chance will have it.
struct Model {
    scene: Scene,
    random: fastrand::Rng,
    clients: BTreeMap<String, Modelled>,
    /// What is under way: when it ends, and how.
    answers: Vec<(Time, ClientCall, ClientAnswer)>,
    joined: u32,
}

impl Model {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { scene: Scene::new(), random, clients: BTreeMap::new(), answers: Vec::new(), joined: 0 }
    }

    /// A client connects.
    fn join(&mut self) {
        self.joined += 1;
        let name = format!("client {}", self.joined);
        let role = *self.random.choice(&[Role::Consumer, Role::Puller, Role::Supplier]).unwrap();
        let is_nameless = role == Role::Puller && self.random.bool();
        let connection = self.scene.on_a_connection();
        let proxy = match role {
            Role::Consumer => self.scene.consumer(&name),
            Role::Puller if is_nameless => self.scene.puller(&Ior::nil()),
            Role::Puller => self.scene.puller(&client(&name)),
            Role::Supplier => self.scene.supplier(&client(&name)),
        };
        let activity = (role != Role::Consumer).then(|| self.scene.activity(&proxy));
        let interval = Duration::from_millis(self.random.u64(1..5_000));
        self.scene.d.set_qos(&proxy, "ProbeInterval", u64::try_from(interval.as_nanos() / 100).unwrap());
        let seconds = self.random.u64(0..3);
        self.scene.d.set_qos(&proxy, "GiveUpAfter", seconds * SECOND);
        let interval = interval.max(Duration::from_millis(100));
        let mut client = Modelled {
            proxy,
            peer: Peer::Alive,
            interval,
            role,
            is_nameless,
            never_given_up: seconds == 0,
            probed: None,
            activity,
            connection: Some(connection),
            may_be_gone: false,
        };
        client.become_one(self.any_peer());
        self.clients.insert(name, client);
    }

    fn any_peer(&mut self) -> Peer {
        *self.random.choice(&[Peer::Dead, Peer::Mute, Peer::Slow, Peer::Moved, Peer::Alive, Peer::Walled]).unwrap()
    }

    /// A supplier offers something new, of which all consumers are notified.
    fn offer(&mut self) {
        let Some(supplier) =
            self.clients.values().find(|client| client.role == Role::Supplier).map(|it| it.proxy.clone())
        else {
            return;
        };
        let (now, name) = (self.scene.now, self.random.u32(..).to_string());
        let offer = |w: &mut giop::cdr::Writer<'_>| {
            super::dialogue::write_types(&[("model", &name)], w);
            w.u32(0);
        };
        let _ = self.scene.d.call(&supplier, "offer_change", offer);
        self.scene.d.protocol.publish();
        self.drain(now);
    }

    /// Sends out what is to be sent, and notes what each client is asked.
    fn drain(&mut self, now: Time) {
        for effect in self.scene.d.effects() {
            if let Effect::Reaped { name, .. } = &effect {
                let name = name.trim_start_matches("client.example:4711 ");
                assert!(
                    self.clients.get(name).is_some_and(|client| client.may_be_gone),
                    "{name} lives, and was removed"
                );
            }
            if let Effect::IdleDisconnected { proxy, .. } = &effect {
                let gone = self.clients.iter().find(|(_, client)| proxy_key(&client.proxy) == *proxy);
                assert!(gone.is_some_and(|(_, client)| client.may_be_gone), "{proxy} lives, and was removed");
            }
            let Effect::Ask { client_call, to, operation, .. } = effect else { continue };
            let name = String::from_utf8(to.iiop().unwrap().key.clone()).unwrap();
            let Some(client) = self.clients.get_mut(&name) else { continue };
            if operation == "_non_existent"
                && let Some(before) = client.probed.replace(now)
            {
                assert!(now.since(before) >= client.interval, "{name} is asked after {:?}", now.since(before));
            }
            let (after, answer) = match client.peer {
                Peer::Dead | Peer::Walled => (self.random.u64(0..50), ClientAnswer::Unreachable),
                Peer::Mute => (10_000, ClientAnswer::TimedOut),
                Peer::Slow => (self.random.u64(0..9_999), ClientAnswer::Returned(Some(false))),
                Peer::Moved => (1, ClientAnswer::Raised),
                Peer::Alive => (1, ClientAnswer::Returned(Some(false))),
            };
            self.answers.push((now + Duration::from_millis(after), client_call, answer));
        }
    }

    /// Lets the protocol do what is due, and checks that it finishes: that what it waits for next lies ahead.
    fn run_until_idle(&mut self) {
        let now = self.scene.now;
        let mut steps = 0;
        loop {
            self.scene.d.protocol.handle_time(now);
            self.drain(now);
            if self.scene.d.protocol.poll_timeout().is_none_or(|due| due > now) {
                return;
            }
            steps += 1;
            assert!(steps <= self.clients.len(), "it does not come to rest at {now:?}");
        }
    }

    /// Goes to the next time at which anything happens.
    fn step(&mut self) {
        self.run_until_idle();
        let answered = self.answers.iter().map(|(at, ..)| *at).min();
        let chance = self.scene.now + Duration::from_millis(self.random.u64(1..500));
        let next = answered.into_iter().chain(self.scene.d.protocol.poll_timeout()).chain([chance]).min();
        self.scene.now = self.scene.now.max(next.unwrap_or(chance));
        let now = self.scene.now;
        self.clients.values_mut().for_each(|client| client.call(now));
        self.scene.d.protocol.handle_time(now);
        self.drain(now);
        let due: Vec<_> = self.answers.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, client_call, answer) in due {
            self.scene.answer(client_call, answer);
            self.drain(now);
        }
    }

    fn meddle(&mut self) {
        match self.random.u32(0..20) {
            0 if self.clients.len() < 100 => self.join(),
            1 => self.offer(),
            2 | 3 => {
                let peer = self.any_peer();
                let clients: Vec<String> = self.clients.keys().cloned().collect();
                if let Some(client) = self.random.choice(&clients).and_then(|name| self.clients.get_mut(name)) {
                    client.become_one(peer);
                }
            }
            4 => {
                let clients: Vec<String> = self.clients.keys().cloned().collect();
                if let Some(client) = self.random.choice(&clients).and_then(|name| self.clients.get_mut(name)) {
                    client.lose_connection();
                }
            }
            _ => {}
        }
    }
}

/// A supplier that gave a reference and died before its first probe was due again and again at the very moment in which its probe had
/// failed: 20,000 connects in a second, and with a notice to it unanswered administration never left its loop. Whatever clients
/// do, administration has to come to rest, and to ask each of them once in its interval at most.
#[test]
fn administration_comes_to_rest_whatever_its_clients_do() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut model = Model::new(seed);
        (0..10).for_each(|_| model.join());
        for _ in 0..1_500 {
            model.meddle();
            model.step();
        }
        // All die, and are found dead: suppliers that were never reached after a week, the others at once.
        model.clients.values_mut().for_each(|client| client.become_one(Peer::Dead));
        for (wait_days, all) in [(0, false), (7, true)] {
            model.scene.now = model.scene.now + Duration::from_secs(wait_days * 24 * 3_600);
            let end = model.scene.now + Duration::from_secs(60);
            while model.scene.now < end {
                model.step();
            }
            let protocol = &mut model.scene.d;
            for (name, client) in &model.clients {
                let is_there = protocol.call(&client.proxy, "_non_existent", |_| {}).is_ok();
                let has_to_go = !client.never_given_up && (all || client.role != Role::Supplier);
                assert!(!has_to_go || !is_there, "{name} is dead and still there");
            }
        }
    }
}

/// The same, alone: a pull consumer or push supplier that gave a reference, was never reached, and does not answer a call.
#[test]
fn a_supplier_that_was_never_reached_is_asked_at_its_interval() {
    let mut scene = Scene::new();
    let proxy = scene.supplier(&client("supplier"));
    for probes in 1..=100 {
        let probed = scene.after(60);
        assert_eq!(probed.len(), 1);
        scene.answer(probed[0].1, ClientAnswer::Unreachable);
        assert_eq!(scene.next(), Some(60 * (probes + 1)));
    }
    // A notice to it is not answered either: a subscription changes.
    scene.consumer("consumer");
    let subscribed = scene.consumer("subscribed");
    scene.d.protocol.publish();
    let subscribe = |w: &mut giop::cdr::Writer<'_>| {
        super::dialogue::write_types(&[("*", "now")], w);
        super::dialogue::write_types(&[("*", "*")], w);
    };
    scene.d.call(&subscribed, "subscription_change", subscribe).unwrap();
    scene.d.protocol.publish();
    for _ in 0..10 {
        let now = scene.now + Duration::from_secs(60);
        scene.after(60);
        assert!(scene.d.protocol.poll_timeout().is_none_or(|due| due > now), "its next probe lies ahead");
    }
    assert!(scene.is_there(&proxy));
}
