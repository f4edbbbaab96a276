//! Durable local consumers: they stay when connections end and when the process does, and go when nothing has their names.

use super::dialogue::somebody;
use super::topology::with_store;
use crate::{Effect, LocalChannel, LocalProxy, Part, Protocol, RegisterError, Subscribed};
use engine::{
    ChannelId, ConsumerRoute, EventType, FullOutbox, OutboxSettings, OutputForm, Peer, ProxyKey, ProxyState,
    Reliability, Time,
};
use std::sync::Arc;
use std::time::Duration;
use topology::{Image, Topology};

const DEFAULT: ChannelId = ChannelId(0);
const FORM: OutputForm = OutputForm(4 << 16);

fn peer(number: u64) -> Peer {
    Peer(LocalProxy::FIRST_PEER.0 + number)
}

/// A consumer of this name, whose client has that number.
fn durable(name: &str, number: u64) -> LocalProxy {
    let part = Part::Consumer {
        types: vec![EventType::new("Weather", "*")],
        constraint: "$speed > 10".to_owned(),
        output_form: FORM,
        start: None,
        correlation: None,
        looks_on: false,
        durable: Some(name.to_owned()),
        confirms: true,
        refuses: false,
        backlog_bytes_max: None,
    };
    LocalProxy { channel: DEFAULT.into(), peer: peer(number), name: format!("link {number}"), part, about: None }
}

fn with_part(name: &str, number: u64, change: impl FnOnce(&mut Vec<EventType>, &mut String, &mut bool)) -> LocalProxy {
    let mut local_proxy = durable(name, number);
    if let Part::Consumer { types, constraint, refuses, .. } = &mut local_proxy.part {
        change(types, constraint, refuses);
    }
    local_proxy
}

fn protocol(seed: u64) -> Protocol {
    Protocol::new(with_store(seed))
}

fn register(protocol: &mut Protocol, local_proxy: LocalProxy) -> Result<ProxyKey, RegisterError> {
    protocol.register_local_proxy(local_proxy, somebody())
}

fn route(protocol: &mut Protocol, key: ProxyKey) -> ConsumerRoute {
    protocol.publish();
    let snapshot = protocol.objects.hierarchy.snapshot();
    snapshot.channel(key.channel).unwrap().consumer(key.proxy).expect("it is routed").clone()
}

fn restored(image: &Image, seed: u64) -> Protocol {
    let mut protocol = protocol(seed);
    assert_eq!(protocol.restore_image(image, somebody(), |_| {}), Ok(true));
    protocol
}

#[test]
fn it_keeps_what_comes_while_its_client_is_away_and_is_found_again_by_its_name() {
    let mut protocol = protocol(1);
    let key = register(&mut protocol, durable("north", 1)).unwrap();
    let of = |route: &ConsumerRoute| (route.peer, route.suspended, route.connection, route.output_form);
    let before = of(&route(&mut protocol, key));
    assert_eq!((before.0, before.1, before.3), (Some(peer(1)), false, FORM));
    // The end of a connection that had it before, or of none, is none of its.
    protocol.disconnect_local_proxy(key, peer(7));
    assert_eq!(of(&route(&mut protocol, key)), before);
    protocol.disconnect_local_proxy(key, peer(1));
    assert_eq!(of(&route(&mut protocol, key)), (None, true, before.2, FORM));
    let other = durable("south", 2);
    assert_ne!(register(&mut protocol, other).unwrap(), key);
    assert_eq!(register(&mut protocol, durable("north", 3)), Ok(key));
    assert_eq!(of(&route(&mut protocol, key)), (Some(peer(3)), false, before.2, FORM));
    protocol.disconnect_local_proxy(key, peer(1));
    assert_eq!(route(&mut protocol, key).peer, Some(peer(3)));
    assert!(protocol.objects.name("consumer", key).ends_with("(link 3)"));
}

#[test]
fn it_answers_deliveries_outlives_the_process_and_never_has_suppliers_wait() {
    let mut protocol = protocol(1);
    let key = register(&mut protocol, durable("north", 1)).unwrap();
    let settings = route(&mut protocol, key).settings;
    let OutboxSettings { push_window, one_way, connection_reliability, full_outbox, .. } = *settings;
    assert_eq!((push_window, one_way), (1_024, false));
    assert_eq!((connection_reliability, full_outbox), (Reliability::Persistent, Some(FullOutbox::Discard)));
    assert_eq!((settings.gives_up_after(), settings.reply_timeout), (Duration::ZERO, Duration::ZERO));
    assert_eq!((settings.blocking, settings.latency_bound), (Duration::ZERO, Duration::ZERO));
    protocol.disconnect_local_proxy(key, peer(1));
    register(&mut protocol, with_part("north", 2, |_, _, refuses| *refuses = true)).unwrap();
    let settings = route(&mut protocol, key).settings;
    assert!(settings.full_outbox == Some(FullOutbox::Reject) && !settings.own_bound, "it is granted");
}

#[test]
fn a_second_client_is_refused_and_so_is_a_name_that_is_empty_or_long() {
    let mut protocol = protocol(1);
    register(&mut protocol, durable("north", 1)).unwrap();
    let refused = register(&mut protocol, durable("north", 2)).unwrap_err();
    assert_eq!(refused.to_string(), "a client is connected already as the durable consumer of this name");
    for name in [String::new(), "x".repeat(256)] {
        assert_eq!(register(&mut protocol, durable(&name, 3)), Err(RegisterError::DurableName));
    }
    assert!(register(&mut protocol, durable(&"x".repeat(255), 4)).is_ok());
    // A name is one in each channel.
    let elsewhere = LocalChannel::Name { name: "Weather".to_owned(), create: true };
    assert!(register(&mut protocol, LocalProxy { channel: elsewhere, ..durable("north", 5) }).is_ok());
}

#[test]
fn a_client_that_comes_again_may_want_other_events() {
    let mut protocol = protocol(1);
    let key = register(&mut protocol, durable("north", 1)).unwrap();
    let filters = |protocol: &Protocol| {
        let attached = &protocol.objects.hierarchy.proxy(key).unwrap().attached;
        let attached: Vec<_> = attached.filters().iter().map(|(_, filter)| *filter).collect();
        (attached, protocol.objects.filters.numbers().len())
    };
    let before = filters(&protocol);
    assert_eq!((before.0.len(), before.1), (1, 1));
    let again = |protocol: &mut Protocol, local_proxy: LocalProxy| {
        let of = protocol.objects.hierarchy.proxy(key).unwrap().peer.unwrap();
        protocol.disconnect_local_proxy(key, of);
        assert_eq!(register(protocol, local_proxy), Ok(key));
        protocol.objects.hierarchy.proxy(key).unwrap().subscription.types().to_vec()
    };
    assert_eq!(again(&mut protocol, durable("north", 2)), [EventType::new("Weather", "*")]);
    assert_eq!(filters(&protocol), before, "the filter is the same");
    let all = with_part("north", 3, |types, constraint, _| {
        types.clear();
        constraint.clear();
    });
    assert_eq!(again(&mut protocol, all), [EventType::everything()]);
    assert_eq!(filters(&protocol), (vec![], 0));
    let few = with_part("north", 4, |types, constraint, _| {
        *types = vec![EventType::new("Wind", "Gust")];
        "$speed > 30".clone_into(constraint);
    });
    assert_eq!(again(&mut protocol, few), [EventType::new("Wind", "Gust")]);
    assert_eq!((filters(&protocol).0.len(), filters(&protocol).1), (1, 1));
}

#[test]
fn after_a_restart_it_is_there_without_a_client_and_keeps_its_key() {
    let mut before = protocol(1);
    let passing = LocalProxy { peer: peer(9), part: Part::Supplier, ..durable("", 9) };
    register(&mut before, passing).unwrap();
    let key = register(&mut before, durable("north", 1)).unwrap();
    before.objects.note_changed_parts();
    let image = before.objects.image();
    let mut after = restored(&image, 2);
    let stored = |protocol: &Protocol| {
        let proxies = protocol.objects.topology().channels.remove(0).proxies.into_iter();
        // Nothing knows its owner here, since there are no accounts.
        proxies.filter(|proxy| proxy.durable.is_some()).map(|proxy| topology::Proxy { client: None, ..proxy })
    };
    assert_eq!(stored(&after).collect::<Vec<_>>(), stored(&before).collect::<Vec<_>>());
    let routed = route(&mut after, key);
    assert_eq!((routed.peer, routed.suspended, routed.durable, routed.output_form), (None, true, true, FORM));
    assert_eq!(routed.places, route(&mut before, key).places);
    assert!(routed.resumes && routed.settings.connection_reliability == Reliability::Persistent);
    let proxy = after.objects.hierarchy.proxy(key).unwrap();
    assert_eq!((proxy.state, proxy.attached.filters().len()), (ProxyState::Active, 1));
    assert_eq!(proxy.subscription.types(), [EventType::new("Weather", "*")]);
    assert!(after.objects.name("consumer", key).ends_with("(north)"));
    assert_eq!(after.objects.hierarchy.channel(DEFAULT).unwrap().proxies().count(), 1, "others are gone");
    assert_eq!(register(&mut after, durable("north", 4)), Ok(key));
    assert_eq!(route(&mut after, key).peer, Some(peer(4)));
    assert_eq!(after.objects.filters.numbers().len(), 1, "its filter is the one that it had");
}

#[test]
fn a_topology_with_a_durable_consumer_that_cannot_be_one_is_refused() {
    let mut protocol = protocol(1);
    register(&mut protocol, durable("north", 1)).unwrap();
    register(&mut protocol, durable("south", 2)).unwrap();
    let topology = protocol.objects.topology();
    let refused = |change: fn(&mut topology::Proxy)| {
        let mut topology: Topology = topology.clone();
        change(&mut topology.channels[0].proxies[0]);
        Protocol::new(with_store(2)).restore(&topology).is_err()
    };
    assert!(!refused(|_| {}));
    assert!(refused(|proxy| proxy.pull = true));
    assert!(refused(|proxy| proxy.side = engine::Side::Suppliers));
    assert!(refused(|proxy| proxy.events = topology::Events::Any));
    assert!(refused(|proxy| proxy.durable.as_mut().unwrap().name.clear()));
    assert!(refused(|proxy| "south".clone_into(&mut proxy.durable.as_mut().unwrap().name)), "twice the same");
}

#[test]
fn those_that_no_link_has_are_destroyed_and_known_by_what_they_were_called() {
    let mut protocol = protocol(1);
    let channel = LocalChannel::Name { name: "Weather".to_owned(), create: true };
    let of = |name: &str, number| LocalProxy { channel: channel.clone(), ..durable(name, number) };
    let keys =
        ["stays", "stale", "connected"].map(|name| register(&mut protocol, of(name, name.len() as u64)).unwrap());
    protocol.disconnect_local_proxy(keys[0], peer(5));
    protocol.disconnect_local_proxy(keys[1], peer(5));
    while protocol.poll_effect().is_some() {}
    protocol.retain_durable(&[("Weather".to_owned(), "stays".to_owned()), ("Wind".to_owned(), "stale".to_owned())]);
    let is_there = |key: &ProxyKey| protocol.objects.hierarchy.proxy(*key).is_ok();
    assert_eq!(keys.each_ref().map(is_there), [true, false, false]);
    let gone =
        core::iter::from_fn(|| protocol.poll_effect()).filter(|effect| matches!(effect, Effect::LocalProxyGone(_)));
    assert_eq!(gone.collect::<Vec<_>>(), [Effect::LocalProxyGone(peer(9))]);
    let name = protocol.objects.take_gone_durable(keys[1]).unwrap();
    assert!(name.starts_with("consumer proxy ") && name.ends_with(" of channel 1 \"Weather\" (link 5)"), "{name}");
    assert_eq!(protocol.objects.take_gone_durable(keys[1]), None);
    // Its name is free again.
    assert_ne!(register(&mut protocol, of("stale", 6)).unwrap(), keys[1]);
}

#[test]
fn the_account_of_the_client_that_comes_is_charged_for_the_proxy() {
    use accounts::{Accounts, Ceilings, Resource};
    let mut protocol = protocol(1);
    let accounts = Accounts::new(Ceilings::new(75).with(Resource::Proxies, 100, 0));
    let [first, second]: [Arc<_>; 2] = [[127, 0, 0, 8], [127, 0, 0, 9]].map(|ip| accounts.account_of(ip.into()));
    let durable = |number| with_part("north", number, |_, constraint, _| constraint.clear());
    let key = protocol.register_local_proxy(durable(1), &first).unwrap();
    assert_eq!([&first, &second].map(|account| account.used(Resource::Proxies)), [1, 0]);
    protocol.disconnect_local_proxy(key, peer(1));
    protocol.register_local_proxy(durable(2), &second).unwrap();
    assert_eq!([&first, &second].map(|account| account.used(Resource::Proxies)), [0, 1]);
    protocol.remove_local_proxy(key);
    for account in [first, second] {
        assert_eq!([Resource::Proxies, Resource::RetainedBytes].map(|resource| account.used(resource)), [0, 0]);
    }
}

#[test]
fn what_a_far_side_wants_takes_the_place_of_what_it_wanted_and_nothing_is_nothing() {
    for as_tao in [false, true] {
        let mut settings = with_store(1);
        settings.hierarchy.tao_event_types = as_tao;
        let mut protocol = Protocol::new(settings);
        let key = register(&mut protocol, durable("north", 1)).unwrap();
        let types = |names: &[&str]| names.iter().map(|name| EventType::new("Weather", *name)).collect::<Vec<_>>();
        let mut selects = |everything, types: &[EventType]| {
            protocol.subscribe_local_proxy(key, (everything, types), somebody());
            let interest = route(&mut protocol, key).interest;
            ["Wind", "Rain"].map(|name| interest.matches(b"Weather", name.as_bytes()))
        };
        assert_eq!(selects(false, &types(&["Wind"])), [true, false], "{as_tao}");
        assert_eq!(selects(false, &types(&["Rain"])), [false, true]);
        assert_eq!(selects(false, &[]), [false, false]);
        assert_eq!(selects(true, &[]), [true, true]);
        assert_eq!(selects(false, &types(&["Rain", "Snow"])), [false, true]);
        assert_eq!(selects(false, &[EventType::new("", "*"), EventType::new("Weather", "Rain")]), [true, true]);
        assert_eq!(protocol.objects.take_widened(), 0);
    }
}

#[test]
fn too_many_types_of_a_far_side_are_everything_and_counted() {
    use accounts::{Accounts, Ceilings, Resource};
    let mut protocol = protocol(1);
    let key = register(&mut protocol, durable("north", 1)).unwrap();
    let many: Vec<EventType> = (0..1_025).map(|number| EventType::new("Weather", number.to_string())).collect();
    protocol.subscribe_local_proxy(key, (false, &many), somebody());
    let matches = |protocol: &mut Protocol| route(protocol, key).interest.matches(b"x", b"y");
    assert!(matches(&mut protocol));
    assert_eq!(protocol.objects.take_widened(), 1);
    protocol.subscribe_local_proxy(key, (false, &many[..3]), somebody());
    assert!(!matches(&mut protocol));
    let poor = Accounts::new(Ceilings::new(75).with(Resource::EventTypes, 2, 0)).account_of([127, 0, 0, 9].into());
    protocol.subscribe_local_proxy(key, (false, &many[..4]), &poor);
    assert!(matches(&mut protocol), "it is not granted so many");
    assert_eq!((protocol.objects.take_widened(), poor.used(Resource::EventTypes)), (1, 0));
}

/// What watches are reports.
fn reported(protocol: &mut Protocol) -> Vec<(Peer, Subscribed)> {
    protocol.publish();
    let effects = core::iter::from_fn(|| protocol.poll_effect());
    effects
        .filter_map(
            |effect| if let Effect::Subscribed(peer, subscribed) = effect { Some((peer, subscribed)) } else { None },
        )
        .collect()
}

fn only(types: &[(&str, &str)]) -> Subscribed {
    let types = types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect();
    Subscribed { everything: false, types }
}

#[test]
fn a_watch_is_told_what_all_but_its_own_consumers_want_and_what_changes_at_most_ten_times_in_a_second() {
    let mut protocol = protocol(1);
    let near = register(&mut protocol, durable("north", 1)).unwrap();
    protocol.watch_subscribed(peer(1), DEFAULT, vec![near]);
    assert_eq!(reported(&mut protocol), [(peer(1), only(&[]))]);
    assert_eq!((reported(&mut protocol), protocol.poll_timeout()), (vec![], None));
    let wind = |types: &mut Vec<EventType>, _: &mut String, _: &mut bool| *types = vec![EventType::new("Wind", "*")];
    let other = register(&mut protocol, with_part("south", 2, wind)).unwrap();
    // The first list was told at this very time.
    let due = Time(100_000_000);
    assert_eq!((reported(&mut protocol), protocol.poll_timeout()), (vec![], Some(due)));
    protocol.handle_time(due);
    assert_eq!(reported(&mut protocol), [(peer(1), only(&[("Wind", "*")]))]);
    // One that is away counts; what its own end wants does not.
    protocol.handle_time(Time(due.0 * 2));
    protocol.disconnect_local_proxy(other, peer(2));
    protocol.subscribe_local_proxy(near, (true, &[]), somebody());
    assert_eq!(reported(&mut protocol), []);
    protocol.handle_time(Time(due.0 * 3));
    protocol.subscribe_local_proxy(other, (true, &[]), somebody());
    assert_eq!(reported(&mut protocol), [(peer(1), Subscribed::everything())]);
    // It ends with the connection.
    protocol.handle_time(Time(due.0 * 4));
    protocol.disconnect_local_proxy(near, peer(1));
    protocol.subscribe_local_proxy(other, (false, &[]), somebody());
    assert_eq!((reported(&mut protocol), protocol.poll_timeout()), (vec![], None));
}

#[test]
fn a_channel_that_keeps_a_history_wants_everything_and_one_that_is_gone_nothing() {
    let mut protocol = protocol(1);
    let channel = LocalChannel::Name { name: "Weather".to_owned(), create: true };
    let near = register(&mut protocol, LocalProxy { channel, ..durable("north", 1) }).unwrap();
    protocol.watch_subscribed(peer(9), near.channel, vec![near]);
    assert_eq!(reported(&mut protocol), [(peer(9), only(&[]))]);
    let mut limits = *protocol.objects.hierarchy.channel(near.channel).unwrap().limits();
    limits.history.events = 100;
    protocol.objects.hierarchy.set_limits(near.channel, limits).unwrap();
    protocol.handle_time(Time(1_000_000_000));
    assert_eq!(reported(&mut protocol), [(peer(9), Subscribed::everything())]);
    protocol.destroy_channel(near.channel).unwrap();
    assert_eq!(reported(&mut protocol), [(peer(9), only(&[]))]);
}

#[test]
fn of_more_watches_than_there_may_be_the_last_is_told_that_everything_is_wanted() {
    let mut protocol = protocol(1);
    for number in 0..=1_024 {
        protocol.watch_subscribed(peer(number), DEFAULT, vec![]);
    }
    let reports = reported(&mut protocol);
    assert_eq!(reports.iter().filter(|(_, subscribed)| *subscribed == only(&[])).count(), 1_024);
    assert!(reports.contains(&(peer(1_024), Subscribed::everything())));
    assert_eq!(protocol.objects.take_widened(), 1);
}
