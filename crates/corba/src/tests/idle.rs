//! Suppliers without a sign of life: which are listed, and which are disconnected.

use super::dialogue::{Dialogue, PULL_CONSUMER, STYLES, client, key_of, settings};
use super::proxies::new_channel;
use super::topology::with_store;
use crate::keys::ObjectKey;
use crate::{ClientAnswer, Effect, ObjectRequest, ProtocolSettings};
use accounts::{Account, Accounts, Ceilings, Charge, Resource};
use engine::{Lane, NoFields, ProxyKey, Time};
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::ior::Ior;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 10_000_000;

struct Scene {
    d: Dialogue,
    channel: Ior,
    lane: Lane,
    now: Time,
}

impl Scene {
    fn new() -> Self {
        Self::of(settings(1))
    }

    fn of(settings: ProtocolSettings) -> Self {
        let mut d = Dialogue::with(STYLES[5], settings);
        let channel = new_channel(&mut d);
        Self { d, channel, lane: Lane::new(Time(0)), now: Time(0) }
    }

    /// A push supplier's proxy, connected by a client.
    fn supplier(&mut self, who: &Arc<Account>, reference: &Ior) -> Ior {
        let channel = self.channel.clone();
        let admin = self.d.object(&channel, "for_suppliers");
        let proxy = self.d.made(&admin, "obtain_notification_push_consumer", 1).0;
        let (mut bytes, encoding) = (Vec::new(), Encoding::new(Endian::NATIVE));
        reference.write(&mut Writer::new(&mut bytes, encoding));
        let (key, operation) = (&proxy.iiop().unwrap().key[..], "connect_structured_push_supplier");
        let call = ObjectRequest { key, operation, args: Reader::new(&bytes, encoding), principal: who };
        self.d.protocol.handle(&call, &mut Writer::new(&mut Vec::new(), encoding)).unwrap();
        proxy
    }

    fn push(&mut self, proxy: &Ior) {
        if let Some(published) = self.d.protocol.publish() {
            self.lane.handle_snapshot(published.routing, self.now);
        }
        let pending_event = self.lane.begin_event();
        self.lane.handle_event(proxy_key(proxy), pending_event, &NoFields, self.now);
    }

    /// Lets time pass, and gives the proxies that are gone then with their suppliers' addresses.
    fn after(&mut self, seconds: u64) -> Vec<(ProxyKey, Option<IpAddr>, u64)> {
        self.now = self.now + Duration::from_secs(seconds);
        self.d.protocol.handle_time(self.now);
        assert!(self.d.protocol.poll_timeout().is_none_or(|due| due > self.now), "the next look lies ahead");
        let disconnect_idle_client = self.d.effects().into_iter().filter_map(|effect| match effect {
            Effect::IdleDisconnected { proxy, address, idle, .. } => Some((proxy, address, idle.as_secs())),
            Effect::Ask { client_call, .. } => {
                self.d.protocol.handle_answer(client_call, ClientAnswer::Unreachable);
                None
            }
            _ => None,
        });
        disconnect_idle_client.collect()
    }

    /// Events and seconds since the last, of all suppliers.
    fn status(&self) -> Vec<(u64, u64)> {
        let suppliers = self.d.protocol.idle.suppliers(&self.d.protocol.objects, None);
        suppliers.map(|supplier| (supplier.events, supplier.idle.as_secs())).collect()
    }
}

pub(super) fn proxy_key(proxy: &Ior) -> ProxyKey {
    let ObjectKey::Proxy { channel, proxy, .. } = key_of(proxy) else { panic!("a proxy") };
    ProxyKey { channel, proxy }
}

/// A client with a connection.
fn connected() -> (Arc<Account>, Charge) {
    let account = Accounts::new(Ceilings::new(100)).account_of(IpAddr::from([127, 0, 0, 7]));
    let connection = account.charge(Resource::Connections, 1).unwrap();
    (account, connection)
}

/// Suppliers without a reference cannot be asked whether they exist, and their proxies stayed for ever when their programs ended:
/// after a year of restarts a channel was full of them.
#[test]
fn a_supplier_that_is_not_heard_of_is_disconnected_when_its_connection_is_closed_too() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "SupplierLinger", 100 * SECOND);
    let (who, connection) = connected();
    let proxy = scene.supplier(&who, &Ior::nil());
    for _ in 0..5 {
        assert_eq!(scene.after(90), []);
        scene.push(&proxy);
    }
    // Its connection is open: it may have nothing to say.
    assert_eq!(scene.after(1_000), []);
    drop(connection);
    scene.push(&proxy);
    assert_eq!(scene.after(99), []);
    assert_eq!(scene.after(101), [(proxy_key(&proxy), Some(who.ip()), 200)]);
    assert_eq!(scene.status(), []);
    assert_eq!(scene.d.protocol.poll_timeout(), None);
}

#[test]
fn by_default_every_supplier_stays() {
    let mut scene = Scene::new();
    let (who, connection) = connected();
    scene.supplier(&who, &Ior::nil());
    drop(connection);
    assert_eq!(scene.after(1 << 30), []);
    // What is set later counts for those that are there.
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "SupplierLinger", 1);
    assert_eq!(scene.after(1).len(), 1);
}

#[test]
fn one_that_can_be_asked_is_left_to_its_probes() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.d.set_qos(&channel, "SupplierLinger", 100 * SECOND);
    let (who, connection) = connected();
    let reached = scene.supplier(&who, &client("reached"));
    drop(connection);
    scene.now = scene.now + Duration::from_secs(60);
    scene.d.protocol.handle_time(scene.now);
    for effect in scene.d.effects() {
        let Effect::Ask { client_call, .. } = effect else { continue };
        scene.d.protocol.handle_answer(client_call, ClientAnswer::Returned(Some(false)));
    }
    assert_eq!(scene.after(59), []);
    assert_eq!(scene.status().len(), 1);
    // One behind a wall that was never reached is as good as one without a reference.
    scene.d.get(&reached, "disconnect_structured_push_consumer");
    scene.supplier(&who, &client("behind a wall"));
    assert_eq!(scene.after(60), []);
    assert_eq!(scene.after(60).len(), 1);
}

/// A minute after a start, each consumer that pulls and had not come yet was gone, with the events that were kept for it.
#[test]
fn a_pull_consumer_whose_connection_is_persistent_stays_until_an_expiry_that_is_set() {
    let mut scene = Scene::of(with_store(1));
    let channel = scene.channel.clone();
    let admin = scene.d.object(&channel, "for_consumers");
    scene.d.connected(&admin, PULL_CONSUMER, &Ior::nil());
    assert_eq!(scene.after(1 << 20), []);
    let mut after =
        Scene { d: Dialogue::with(STYLES[5], with_store(2)), lane: Lane::new(Time(0)), now: Time(0), channel };
    after.d.protocol.restore(&scene.d.protocol.objects.topology()).unwrap();
    assert_eq!(after.after(1 << 20), []);
    let channel = after.channel.clone();
    after.d.set_qos(&channel, "ConnectionExpiry", 100 * SECOND);
    assert_eq!(after.after(1).len(), 1);
}

/// `ConnectionExpiry` was 0 where nothing was said, so that what was dead stayed for ever with its backlog. What was connected then keeps
/// that; a client that connects now has what channels say now.
#[test]
fn connections_that_were_restored_keep_their_expiry_and_those_made_from_now_on_have_the_new_one() {
    let days = Duration::from_secs(3 * 24 * 3600);
    let mut scene = Scene::of(with_store(1));
    let channel = scene.channel.clone();
    let pulls = |scene: &mut Scene, channel: &Ior| {
        let admin = scene.d.object(channel, "for_consumers");
        scene.d.connected(&admin, PULL_CONSUMER, &Ior::nil())
    };
    let old = pulls(&mut scene, &channel);
    let mut settings = with_store(2);
    settings.delivery.connection_expiry = Some(days);
    let mut after = Scene { d: Dialogue::with(STYLES[5], settings), lane: Lane::new(Time(0)), now: Time(0), channel };
    after.d.protocol.restore(&scene.d.protocol.objects.topology()).unwrap();
    let channel = after.channel.clone();
    let new = pulls(&mut after, &channel);
    let expiry = |scene: &Scene, proxy: &Ior| {
        scene.d.protocol.objects.hierarchy().effective(proxy_key(proxy)).unwrap().connection_expiry
    };
    assert_eq!((expiry(&after, &old), expiry(&after, &new)), (Duration::ZERO, days));
    assert_eq!(after.after(3 * 24 * 3600 - 10), []);
    assert_eq!(after.after(20).len(), 1);

    // A restart later each still has its own.
    let topology = after.d.protocol.objects.topology();
    let mut settings = with_store(3);
    settings.delivery.connection_expiry = Some(days * 2);
    let mut later = Scene { d: Dialogue::with(STYLES[5], settings), lane: Lane::new(Time(0)), now: Time(0), channel };
    later.d.protocol.restore(&topology).unwrap();
    assert_eq!(expiry(&later, &old), Duration::ZERO);
}

/// A service that is killed leaves its suppliers connected; those of programs that are gone by then would stay for ever, too.
#[test]
fn a_supplier_that_was_restored_is_disconnected_as_others_are_unless_it_goes_on() {
    for by_default in [false, true] {
        let mut settings = with_store(2);
        if by_default {
            settings.delivery.supplier_linger = Some(Duration::from_secs(100));
        }
        let mut scene = Scene::of(settings.clone());
        if !by_default {
            let channel = scene.channel.clone();
            scene.d.set_qos(&channel, "SupplierLinger", 100 * SECOND);
        }
        let (who, _connection) = connected();
        let (gone, goes_on) = (scene.supplier(&who, &Ior::nil()), scene.supplier(&who, &Ior::nil()));
        // It was reached, and is not any more.
        let unreachable = scene.supplier(&who, &client("gone"));
        scene.after(1_000);
        let (channel, topology) = (scene.channel.clone(), scene.d.protocol.objects.topology());
        let mut after =
            Scene { d: Dialogue::with(STYLES[5], settings), lane: Lane::new(Time(0)), now: Time(0), channel };
        after.d.protocol.restore(&topology).unwrap();
        assert_eq!(after.after(60), []);
        after.push(&goes_on);
        assert_eq!(after.after(39), []);
        // From which address it was connected is not known any more.
        let disconnect_idle_client = after.after(1);
        assert_eq!(
            disconnect_idle_client.iter().map(|(proxy, _, idle)| (*proxy, *idle)).collect::<Vec<_>>(),
            [(proxy_key(&gone), 100), (proxy_key(&unreachable), 100)]
        );
        assert_eq!(after.after(59), []);
        let disconnect_idle_client = after.after(1);
        assert_eq!(
            disconnect_idle_client.iter().map(|(proxy, _, idle)| (*proxy, *idle)).collect::<Vec<_>>(),
            [(proxy_key(&goes_on), 100)]
        );
        assert_eq!(after.status(), []);
    }
}

#[test]
fn an_operator_sees_which_clients_are_idle_since_when_and_disconnects_one_or_all_of_them() {
    let mut scene = Scene::new();
    let (who, _connection) = connected();
    let proxies: Vec<Ior> = (0..3).map(|_| scene.supplier(&who, &Ior::nil())).collect();
    scene.after(10);
    (0..4).for_each(|_| scene.push(&proxies[1]));
    scene.after(5);
    assert_eq!(scene.status(), [(0, 15), (4, 5), (0, 15)]);
    let first = scene.d.protocol.idle.suppliers(&scene.d.protocol.objects, None).next().unwrap();
    assert_eq!((first.address, first.is_open, first.is_probed, first.is_pulled), (Some(who.ip()), true, false, false));
    let behind = scene.d.protocol.idle.suppliers(&scene.d.protocol.objects, Some(proxy_key(&proxies[1])));
    assert_eq!(behind.map(|supplier| supplier.key).collect::<Vec<_>>(), [proxy_key(&proxies[2])]);
    let named = scene.d.protocol.dismiss(proxy_key(&proxies[0])).unwrap();
    assert!(named.starts_with("supplier proxy "), "{named}");
    assert_eq!(scene.d.protocol.dismiss(proxy_key(&proxies[0])), None, "it is gone");
    assert_eq!(scene.d.protocol.disconnect_idle(Duration::from_secs(10)), 1);
    assert_eq!(scene.status(), [(4, 5)]);
}
