//! Clients of other protocols: their proxies, what is refused, and which protocols are notified when these end.

use super::charges::write_pool;
use super::dialogue::{Dialogue, STYLES, settings, somebody};
use super::objects::new_channel;
use crate::{Effect, LocalProxy, Part, Protocol, RegisterError};
use accounts::{Accounts, Ceilings, Resource};
use engine::{
    ChannelId, DiscardPolicy, DisconnectReason, EventType, FullOutbox, OutputForm, Peer, Place, ProxyState, Refusal,
    Side,
};

const DEFAULT: ChannelId = ChannelId(0);

fn peer(number: u64) -> Peer {
    Peer(LocalProxy::FIRST_PEER.0 + number)
}

fn consumer(channel: ChannelId, constraint: &str) -> LocalProxy {
    let types = vec![EventType::new("Weather", "*")];
    let constraint = constraint.to_owned();
    let part = Part::Consumer {
        types,
        constraint,
        output_form: OutputForm(3 << 8),
        start: None,
        correlation: None,
        looks_on: false,
        durable: None,
        confirms: false,
        refuses: false,
        backlog_bytes_max: None,
    };
    LocalProxy { channel: channel.into(), peer: peer(1), name: "somebody's socket".to_owned(), part, about: None }
}

fn supplier(channel: ChannelId) -> LocalProxy {
    let (channel, name) = (channel.into(), "another socket".to_owned());
    LocalProxy { channel, peer: peer(2), name, part: Part::Supplier, about: None }
}

fn gone(protocol: &mut Protocol) -> Vec<Peer> {
    let effects = core::iter::from_fn(|| protocol.poll_effect());
    effects.filter_map(|effect| if let Effect::LocalProxyGone(peer) = effect { Some(peer) } else { None }).collect()
}

#[test]
fn a_local_proxy_is_known_to_the_event_path_and_seen_by_all_clients() {
    let mut protocol = Protocol::new(settings(1));
    let key = protocol.register_local_proxy(consumer(DEFAULT, "$speed > 10"), somebody()).unwrap();
    let other = protocol.register_local_proxy(supplier(DEFAULT), somebody()).unwrap();
    let published = protocol.publish().expect("something changed");
    let channel = published.routing.channel(DEFAULT).unwrap();
    let routed: Vec<_> = channel.consumers().filter(|consumer| consumer.key == key).collect();
    assert!(
        matches!(&routed[..], [one] if one.output_form == OutputForm(3 << 8) && one.settings.one_way && one.client_address.is_some())
    );
    assert!(published.routing.supplier(other).is_some());
    assert_eq!(
        protocol.objects.name("consumer", key),
        format!("consumer proxy {} of channel 0 (somebody's socket)", key.proxy.0)
    );
    let proxy = protocol.objects.hierarchy().proxy(key).unwrap();
    assert_eq!((proxy.side, proxy.attached.filters().len()), (Side::Consumers, 1));
    assert_eq!(proxy.subscription.types(), [EventType::new("Weather", "*")]);
    // It goes of its own accord, and its filter with it: its protocol need not be notified.
    protocol.remove_local_proxy(key);
    protocol.remove_local_proxy(key);
    assert!(protocol.objects.hierarchy().proxy(key).is_err());
    assert_eq!(gone(&mut protocol), []);
    assert_eq!(protocol.objects.hierarchy().proxy(other).unwrap().state, ProxyState::Active);
}

#[test]
fn a_consumer_that_only_looks_loses_the_oldest_instead_of_blocking_suppliers() {
    let mut protocol = Protocol::new(settings(1));
    let mut local_proxy = consumer(DEFAULT, "");
    if let Part::Consumer { looks_on, .. } = &mut local_proxy.part {
        *looks_on = true;
    }
    let key = protocol.register_local_proxy(local_proxy, somebody()).unwrap();
    let published = protocol.publish().unwrap();
    let channel = published.routing.channel(DEFAULT).unwrap();
    let routed: Vec<_> = channel.consumers().filter(|consumer| consumer.key == key).collect();
    let settings = &routed[0].settings;
    assert_eq!((settings.full_outbox, settings.discard_policy), (Some(FullOutbox::Discard), DiscardPolicy::Fifo));
    assert_eq!(settings.max_events_per_consumer.map(std::num::NonZeroU32::get), Some(256));
}

#[test]
fn a_client_that_may_not_take_part_gets_the_reason_and_leaves_nothing() {
    let mut protocol = Protocol::new(settings(1));
    let refused =
        |protocol: &mut Protocol, local_proxy| protocol.register_local_proxy(local_proxy, somebody()).unwrap_err();
    let nowhere = ChannelId(77);
    for local_proxy in [consumer(nowhere, ""), supplier(nowhere)] {
        assert_eq!(
            refused(&mut protocol, local_proxy),
            RegisterError::Refused(Refusal::ChannelNotFound { channel: nowhere })
        );
    }
    let unreadable = refused(&mut protocol, consumer(DEFAULT, "$speed >"));
    assert!(matches!(&unreadable, RegisterError::Constraint(_)), "{unreadable:?}");
    assert!(unreadable.to_string().starts_with("the constraint cannot be read: "), "{unreadable}");
    let poor = Accounts::new(Ceilings::new(75).with(Resource::Proxies, 0, 0)).account_of([127, 0, 0, 9].into());
    assert_eq!(protocol.register_local_proxy(supplier(DEFAULT), &poor), Err(RegisterError::Spent));
    let poor = Accounts::new(Ceilings::new(75).with(Resource::RetainedBytes, 100, 0)).account_of([127, 0, 0, 9].into());
    assert_eq!(protocol.register_local_proxy(consumer(DEFAULT, ""), &poor), Err(RegisterError::Spent));
    assert!(protocol.publish().is_none_or(|after| after.routing.channel(DEFAULT).unwrap().consumers().count() == 0));
    assert_eq!(protocol.objects.hierarchy().channel(DEFAULT).unwrap().proxies().count(), 0);
    assert_eq!((poor.used(Resource::Proxies), poor.used(Resource::RetainedBytes)), (0, 0));
}

#[test]
fn local_proxies_are_on_the_main_lane_whatever_pools_there_are() {
    let mut d = Dialogue::new(STYLES[0]);
    let (object, id) = new_channel(&mut d);
    let channel = ChannelId(u32::try_from(id).unwrap());
    d.quick(&object, "set_qos", |w| write_pool(1, w)).unwrap();
    let keys = [consumer(channel, ""), supplier(channel)]
        .map(|local_proxy| d.protocol.register_local_proxy(local_proxy, somebody()).unwrap());
    let published = d.protocol.publish().unwrap();
    let places = published.routing.channel(channel).unwrap().consumers().map(|route| (route.key, &*route.places));
    assert_eq!(places.collect::<Vec<_>>(), [(keys[0], &[Place::MAIN][..])]);
    assert_eq!(&*published.routing.supplier(keys[1]).unwrap().places, [Place::MAIN]);
    assert!(published.routing.lanes().len() == 1, "there is a pool");
}

#[test]
fn a_local_proxy_that_others_end_is_notified() {
    for style in STYLES {
        let mut d = Dialogue::new(style);
        let (_, id) = new_channel(&mut d);
        let channel = ChannelId(u32::try_from(id).unwrap());
        d.protocol.register_local_proxy(consumer(channel, "TRUE and $x == 1"), somebody()).unwrap();
        let given_up =
            d.protocol.register_local_proxy(LocalProxy { peer: peer(7), ..consumer(DEFAULT, "") }, somebody()).unwrap();
        let left =
            d.protocol.register_local_proxy(LocalProxy { peer: peer(8), ..consumer(DEFAULT, "") }, somebody()).unwrap();
        d.protocol.handle_disconnected(given_up, DisconnectReason::OutboxFull);
        d.protocol.handle_disconnected(left, DisconnectReason::Gone);
        assert_eq!(gone(&mut d.protocol), [peer(7)]);
        d.protocol.destroy_channel(channel).unwrap();
        assert_eq!(gone(&mut d.protocol), [peer(1)]);
    }
}

#[test]
fn local_proxies_are_no_part_of_what_is_configured() {
    let mut d = Dialogue::new(STYLES[0]);
    let before = d.protocol.objects.topology();
    d.protocol.register_local_proxy(consumer(DEFAULT, ""), somebody()).unwrap();
    let after = d.protocol.objects.topology();
    let proxies = |topology: &topology::Topology| topology.channels.iter().map(|c| c.proxies.len()).sum::<usize>();
    assert_eq!(proxies(&after), proxies(&before));
}
