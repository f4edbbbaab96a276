//! Clients of other doors: their proxies, what is refused, and which doors are notified when these end.

use super::charges::write_pool;
use super::dialogue::{Dialogue, STYLES, settings, somebody};
use super::objects::new_channel;
use crate::{Door, Effect, Guest, Part, Unwelcome};
use accounts::{Accounts, Ceilings, Resource};
use engine::{
    ChannelId, DiscardPolicy, DisconnectReason, EventType, FullOutbox, Peer, Place, ProxyState, Refusal, Side, Want,
};

const DEFAULT: ChannelId = ChannelId(0);

fn peer(number: u64) -> Peer {
    Peer(Guest::FIRST_PEER.0 + number)
}

fn consumer(channel: ChannelId, constraint: &str) -> Guest {
    let types = vec![EventType::new("Weather", "*")];
    let constraint = constraint.to_owned();
    let part = Part::Consumer { types, constraint, want: Want(3 << 8), start: None, looks_on: false };
    Guest { channel, peer: peer(1), name: "somebody's socket".to_owned(), part, about: None }
}

fn supplier(channel: ChannelId) -> Guest {
    Guest { channel, peer: peer(2), name: "another socket".to_owned(), part: Part::Supplier, about: None }
}

fn gone(door: &mut Door) -> Vec<Peer> {
    let effects = core::iter::from_fn(|| door.poll_effect());
    effects.filter_map(|effect| if let Effect::GuestGone(peer) = effect { Some(peer) } else { None }).collect()
}

#[test]
fn a_guest_has_a_proxy_that_the_event_path_knows_and_everybody_sees() {
    let mut door = Door::new(settings(1));
    let key = door.welcome(consumer(DEFAULT, "$speed > 10"), somebody()).unwrap();
    let other = door.welcome(supplier(DEFAULT), somebody()).unwrap();
    let published = door.publish().expect("something changed");
    let channel = published.routing.channel(DEFAULT).unwrap();
    let routed: Vec<_> = channel.consumers().filter(|consumer| consumer.key == key).collect();
    assert!(matches!(&routed[..], [one] if one.want == Want(3 << 8) && one.settings.one_way));
    assert!(published.routing.supplier(other).is_some());
    assert_eq!(door.name("consumer", key), format!("consumer proxy {} of channel 0 (somebody's socket)", key.proxy.0));
    let proxy = door.hierarchy().proxy(key).unwrap();
    assert_eq!((proxy.side, proxy.attached.filters().len()), (Side::Consumers, 1));
    assert_eq!(proxy.subscription.types(), [EventType::new("Weather", "*")]);
    // It goes of its own accord, and its filter with it: its door need not be notified.
    door.dismiss_guest(key);
    door.dismiss_guest(key);
    assert!(door.hierarchy().proxy(key).is_err());
    assert_eq!(gone(&mut door), []);
    assert_eq!(door.hierarchy().proxy(other).unwrap().state, ProxyState::Active);
}

#[test]
fn whoever_only_looks_loses_the_oldest_instead_of_holding_suppliers() {
    let mut door = Door::new(settings(1));
    let mut guest = consumer(DEFAULT, "");
    if let Part::Consumer { looks_on, .. } = &mut guest.part {
        *looks_on = true;
    }
    let key = door.welcome(guest, somebody()).unwrap();
    let published = door.publish().unwrap();
    let channel = published.routing.channel(DEFAULT).unwrap();
    let routed: Vec<_> = channel.consumers().filter(|consumer| consumer.key == key).collect();
    let settings = &routed[0].settings;
    assert_eq!((settings.full_outbox, settings.discard_policy), (Some(FullOutbox::Discard), DiscardPolicy::Fifo));
    assert_eq!(settings.max_events_per_consumer.map(std::num::NonZeroU32::get), Some(256));
}

#[test]
fn who_may_not_take_part_is_told_why_and_leaves_nothing() {
    let mut door = Door::new(settings(1));
    let unwelcome = |door: &mut Door, guest| door.welcome(guest, somebody()).unwrap_err();
    let nowhere = ChannelId(77);
    for guest in [consumer(nowhere, ""), supplier(nowhere)] {
        assert_eq!(unwelcome(&mut door, guest), Unwelcome::Refused(Refusal::ChannelNotFound { channel: nowhere }));
    }
    let unreadable = unwelcome(&mut door, consumer(DEFAULT, "$speed >"));
    assert!(matches!(&unreadable, Unwelcome::Constraint(_)), "{unreadable:?}");
    assert!(unreadable.to_string().starts_with("the constraint cannot be read: "), "{unreadable}");
    let poor = Accounts::new(Ceilings::new(75).with(Resource::Proxies, 0, 0)).account_of([127, 0, 0, 9].into());
    assert_eq!(door.welcome(supplier(DEFAULT), &poor), Err(Unwelcome::Spent));
    let poor = Accounts::new(Ceilings::new(75).with(Resource::KeptBytes, 100, 0)).account_of([127, 0, 0, 9].into());
    assert_eq!(door.welcome(consumer(DEFAULT, ""), &poor), Err(Unwelcome::Spent));
    assert!(door.publish().is_none_or(|after| after.routing.channel(DEFAULT).unwrap().consumers().count() == 0));
    assert_eq!(door.hierarchy().channel(DEFAULT).unwrap().proxies().count(), 0);
    assert_eq!((poor.used(Resource::Proxies), poor.used(Resource::KeptBytes)), (0, 0));
}

#[test]
fn guests_are_on_the_main_lane_whatever_pools_there_are() {
    let mut d = Dialogue::new(STYLES[0]);
    let (object, id) = new_channel(&mut d);
    let channel = ChannelId(u32::try_from(id).unwrap());
    d.quick(&object, "set_qos", |w| write_pool(1, w)).unwrap();
    let keys = [consumer(channel, ""), supplier(channel)].map(|guest| d.door.welcome(guest, somebody()).unwrap());
    let published = d.door.publish().unwrap();
    let places = published.routing.channel(channel).unwrap().consumers().map(|route| (route.key, &*route.places));
    assert_eq!(places.collect::<Vec<_>>(), [(keys[0], &[Place::MAIN][..])]);
    assert_eq!(&*published.routing.supplier(keys[1]).unwrap().places, [Place::MAIN]);
    assert!(published.routing.lanes().len() == 1, "there is a pool");
}

#[test]
fn a_guest_whose_proxy_others_end_is_told() {
    for style in STYLES {
        let mut d = Dialogue::new(style);
        let (_, id) = new_channel(&mut d);
        let channel = ChannelId(u32::try_from(id).unwrap());
        d.door.welcome(consumer(channel, "TRUE and $x == 1"), somebody()).unwrap();
        let given_up = d.door.welcome(Guest { peer: peer(7), ..consumer(DEFAULT, "") }, somebody()).unwrap();
        let left = d.door.welcome(Guest { peer: peer(8), ..consumer(DEFAULT, "") }, somebody()).unwrap();
        d.door.handle_disconnected(given_up, DisconnectReason::OutboxFull);
        d.door.handle_disconnected(left, DisconnectReason::Gone);
        assert_eq!(gone(&mut d.door), [peer(7)]);
        d.door.destroy_channel(channel).unwrap();
        assert_eq!(gone(&mut d.door), [peer(1)]);
    }
}

#[test]
fn guests_are_no_part_of_what_is_configured() {
    let mut d = Dialogue::new(STYLES[0]);
    let before = d.door.topology();
    d.door.welcome(consumer(DEFAULT, ""), somebody()).unwrap();
    let after = d.door.topology();
    let proxies = |topology: &topology::Topology| topology.channels.iter().map(|c| c.proxies.len()).sum::<usize>();
    assert_eq!(proxies(&after), proxies(&before));
}
