//! The hierarchy's commands and the snapshots they end in.

use super::*;
use crate::OrderPolicy;
use core::num::NonZeroU32;

fn channel(hierarchy: &mut Hierarchy) -> ChannelId {
    hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap()
}

fn proxy(hierarchy: &mut Hierarchy, channel: ChannelId, side: Side) -> ProxyKey {
    let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
    ProxyKey { channel, proxy }
}

#[test]
fn ids_begin_at_0_and_are_never_used_again() {
    let mut hierarchy = Hierarchy::default();
    let first = channel(&mut hierarchy);
    assert_eq!(first, ChannelId(0));
    let key = proxy(&mut hierarchy, first, Side::Consumers);
    hierarchy.destroy_proxy(key).unwrap();
    assert_ne!(proxy(&mut hierarchy, first, Side::Suppliers), key);
    let admin = hierarchy.create_admin(first, Side::Suppliers, Operator::Or).unwrap();
    hierarchy.destroy_admin(first, Side::Suppliers, admin).unwrap();
    assert_ne!(hierarchy.create_admin(first, Side::Suppliers, Operator::Or).unwrap(), admin);
    hierarchy.destroy_channel(first).unwrap();
    assert_eq!(channel(&mut hierarchy), ChannelId(1));
}

#[test]
fn default_admins_have_id_0_and_live_as_long_as_their_channel() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    for side in [Side::Consumers, Side::Suppliers] {
        hierarchy.create_admin(channel, side, Operator::And).unwrap();
        let ids: Vec<AdminId> = hierarchy.admins(channel, side).unwrap().map(|admin| admin.id).collect();
        assert_eq!((ids.len(), ids[0]), (2, AdminId(0)));
        let refused = hierarchy.destroy_admin(channel, side, AdminId(0));
        assert_eq!(refused, Err(Refusal::DefaultAdmin { channel, side }));
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let mut hierarchy = Hierarchy::default();
    let nowhere = ChannelId(4);
    assert_eq!(hierarchy.channel(nowhere).err(), Some(Refusal::ChannelNotFound { channel: nowhere }));
    let channel = channel(&mut hierarchy);
    let (side, admin) = (Side::Consumers, AdminId(9));
    let no_admin = Refusal::AdminNotFound { channel, side, admin };
    assert_eq!(hierarchy.create_proxy(channel, side, admin, Form(1), ProxyKind::default()), Err(no_admin));
    assert_eq!(hierarchy.proxies(channel, side, admin).err(), Some(no_admin));
    let key = ProxyKey { channel, proxy: ProxyId(7) };
    assert_eq!(hierarchy.connect(key, None, OutputForm(0)), Err(Refusal::ProxyNotFound { proxy: key }));
    assert_eq!(hierarchy.destroy_proxy(key), Err(Refusal::ProxyNotFound { proxy: key }));
}

#[test]
fn a_connection_goes_through_its_states_and_no_others() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    let key = proxy(&mut hierarchy, channel, Side::Consumers);
    let not_connected = Err(Refusal::NotConnected { proxy: key });
    assert_eq!(hierarchy.suspend(key), not_connected);
    assert_eq!(hierarchy.resume(key), not_connected);
    assert_eq!(hierarchy.disconnect(key), Err(Refusal::NotConnected { proxy: key }));
    hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
    assert_eq!(hierarchy.connect(key, Some(Peer(2)), OutputForm(0)), Err(Refusal::AlreadyConnected { proxy: key }));
    assert_eq!(hierarchy.resume(key), Err(Refusal::AlreadyActive { proxy: key }));
    hierarchy.suspend(key).unwrap();
    assert_eq!(hierarchy.suspend(key), Err(Refusal::AlreadyInactive { proxy: key }));
    hierarchy.resume(key).unwrap();
    assert_eq!(hierarchy.disconnect(key), Ok(Some(Peer(1))));
    hierarchy.connect(key, Some(Peer(2)), OutputForm(0)).unwrap();
    assert_eq!(hierarchy.proxy(key).unwrap().peer, Some(Peer(2)));
}

#[test]
fn refuses_connections_beyond_the_channels_limits_and_says_the_limit() {
    let mut hierarchy = Hierarchy::default();
    let limits = ChannelLimits { max_consumers: NonZeroU32::new(1), ..ChannelLimits::default() };
    let channel = hierarchy.create_channel(SettingsPatch::default(), limits).unwrap();
    let first = proxy(&mut hierarchy, channel, Side::Consumers);
    let second = proxy(&mut hierarchy, channel, Side::Consumers);
    hierarchy.connect(first, Some(Peer(1)), OutputForm(0)).unwrap();
    let refusal = Refusal::AdminLimit { side: Side::Consumers, limit: 1 };
    assert_eq!(hierarchy.connect(second, Some(Peer(2)), OutputForm(0)), Err(refusal));
    assert_eq!(
        hierarchy.create_proxy(channel, Side::Consumers, AdminId(0), Form(1), ProxyKind::default()),
        Err(refusal)
    );
    let supplier = proxy(&mut hierarchy, channel, Side::Suppliers);
    hierarchy.connect(supplier, None, OutputForm(0)).unwrap();
    hierarchy.destroy_proxy(first).unwrap();
    hierarchy.connect(second, Some(Peer(2)), OutputForm(0)).unwrap();
    assert_eq!(hierarchy.channel(channel).unwrap().connected(Side::Consumers), 1);
}

#[test]
fn refuses_more_than_it_may_hold_and_says_the_limit() {
    let limits = HierarchyLimits {
        channels_max: 1,
        admins_max: 3,
        proxies_max: 2,
        event_types_max: 2,
        ..HierarchyLimits::default()
    };
    let mut hierarchy = Hierarchy::new(limits);
    let channel = channel(&mut hierarchy);
    let more = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default());
    assert_eq!(more, Err(Refusal::TooManyChannels { limit: 1 }));
    hierarchy.create_admin(channel, Side::Consumers, Operator::And).unwrap();
    let more = hierarchy.create_admin(channel, Side::Suppliers, Operator::And);
    assert_eq!(more, Err(Refusal::TooManyAdmins { limit: 3 }));
    let key = proxy(&mut hierarchy, channel, Side::Consumers);
    proxy(&mut hierarchy, channel, Side::Suppliers);
    let more = hierarchy.create_proxy(channel, Side::Suppliers, AdminId(0), Form(1), ProxyKind::default());
    assert_eq!(more, Err(Refusal::TooManyProxies { limit: 2 }));
    let types = [EventType::new("a", "x"), EventType::new("b", "x"), EventType::new("c", "x")];
    let more = hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[]);
    assert_eq!(more, Err(Refusal::TooManyEventTypes { limit: 2 }));
    assert!(!hierarchy.proxy(key).unwrap().subscription.is_changed(), "a refused command changes nothing");
}

#[test]
fn refuses_settings_out_of_range_at_every_level() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    let key = proxy(&mut hierarchy, channel, Side::Consumers);
    let bad = SettingsPatch { push_window: Some(0), ..SettingsPatch::default() };
    let is_bad =
        |result: Result<(), Refusal>| matches!(result, Err(Refusal::BadSetting { setting: "push_window", .. }));
    assert!(is_bad(hierarchy.set_channel_settings(channel, bad)));
    assert!(is_bad(hierarchy.set_admin_settings(channel, Side::Consumers, AdminId(0), bad)));
    assert!(is_bad(hierarchy.set_proxy_settings(key, bad)));
    assert!(is_bad(hierarchy.create_channel(bad, ChannelLimits::default()).map(|_| ())));
    let no_memory = ChannelLimits { memory_budget_bytes: 0, ..ChannelLimits::default() };
    assert!(matches!(hierarchy.set_limits(channel, no_memory), Err(Refusal::BadSetting { .. })));
}

#[test]
fn settings_are_inherited_and_overridden_level_by_level() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    let key = proxy(&mut hierarchy, channel, Side::Consumers);
    let window = |window| SettingsPatch { push_window: Some(window), ..SettingsPatch::default() };
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 1);
    hierarchy.set_channel_settings(channel, window(2)).unwrap();
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 2);
    hierarchy.set_admin_settings(channel, Side::Suppliers, AdminId(0), window(9)).unwrap();
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 2, "the other side's admin is not above it");
    hierarchy.set_admin_settings(channel, Side::Consumers, AdminId(0), window(3)).unwrap();
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 3);
    hierarchy.set_proxy_settings(key, window(4)).unwrap();
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 4);
    hierarchy.set_proxy_settings(key, SettingsPatch::default()).unwrap();
    assert_eq!(hierarchy.effective(key).unwrap().push_window, 3);
}

#[test]
fn a_consumer_that_keeps_order_gets_a_window_where_no_level_sets_one() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    let key = proxy(&mut hierarchy, channel, Side::Consumers);
    let other = proxy(&mut hierarchy, channel, Side::Consumers);
    assert!(matches!(hierarchy.note_in_order(key), Err(Refusal::NotConnected { .. })));
    for key in [key, other] {
        hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
    }
    hierarchy.note_in_order(key).unwrap();
    // The settings that administration reports and those that the lanes get must be the same.
    let windows = |hierarchy: &mut Hierarchy| {
        let told = [key, other].map(|key| hierarchy.effective(key).unwrap().push_window);
        let snapshot = hierarchy.snapshot();
        let routes = snapshot.channel(channel).unwrap();
        let routed = [key, other].map(|key| routes.consumer(key.proxy).unwrap().settings.push_window);
        assert_eq!(told, routed);
        told
    };
    let window = |window| SettingsPatch { push_window: Some(window), ..SettingsPatch::default() };
    assert_eq!(windows(&mut hierarchy), [64, 1]);
    hierarchy.set_proxy_settings(key, window(1)).unwrap();
    assert_eq!(windows(&mut hierarchy), [1, 1]);
    hierarchy.set_proxy_settings(key, SettingsPatch::default()).unwrap();
    hierarchy.set_admin_settings(channel, Side::Consumers, AdminId(0), window(2)).unwrap();
    assert_eq!(windows(&mut hierarchy), [2, 2]);
    hierarchy.set_admin_settings(channel, Side::Consumers, AdminId(0), SettingsPatch::default()).unwrap();
    hierarchy.set_channel_settings(channel, window(3)).unwrap();
    assert_eq!(windows(&mut hierarchy), [3, 3]);
    hierarchy.set_channel_settings(channel, SettingsPatch::default()).unwrap();
    let sorted = SettingsPatch { order_policy: Some(OrderPolicy::Priority), ..SettingsPatch::default() };
    hierarchy.set_proxy_settings(key, sorted).unwrap();
    assert_eq!(windows(&mut hierarchy), [1, 1], "an important event would stand behind all that are under way");
    for (max, window) in [(10, 1), (320, 20), (1_000_000, 64)] {
        let bounded = SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(max)), ..SettingsPatch::default() };
        hierarchy.set_proxy_settings(key, bounded).unwrap();
        assert_eq!(windows(&mut hierarchy), [window, 1], "of {max} events");
    }
    hierarchy.set_proxy_settings(key, SettingsPatch::default()).unwrap();
    hierarchy.disconnect(key).unwrap();
    hierarchy.connect(key, Some(Peer(2)), OutputForm(0)).unwrap();
    assert_eq!(windows(&mut hierarchy), [1, 1], "the next client may be another");
}

#[test]
fn destroying_says_which_proxies_went() {
    let mut hierarchy = Hierarchy::default();
    let channel = channel(&mut hierarchy);
    let admin = hierarchy.create_admin(channel, Side::Consumers, Operator::And).unwrap();
    let proxy_of_admin =
        hierarchy.create_proxy(channel, Side::Consumers, admin, Form(2), ProxyKind::default()).unwrap();
    let key = ProxyKey { channel, proxy: proxy_of_admin };
    hierarchy.connect(key, Some(Peer(5)), OutputForm(0)).unwrap();
    let other = proxy(&mut hierarchy, channel, Side::Consumers);
    hierarchy.destroy_admin(channel, Side::Consumers, admin).unwrap();
    let gone = Removed { key, side: Side::Consumers, admin, form: Form(2), peer: Some(Peer(5)) };
    assert_eq!(taken_apart(&mut hierarchy), [Removal::Proxy(gone), Removal::End(channel)]);
    assert_eq!(hierarchy.channel(channel).unwrap().connected(Side::Consumers), 0);
    hierarchy.destroy_channel(channel).unwrap();
    let gone = taken_apart(&mut hierarchy);
    assert!(matches!(gone[0], Removal::Proxy(gone) if gone.key == other));
    let admins = gone.iter().filter(|gone| matches!(gone, Removal::Admin { .. }));
    assert_eq!((admins.count(), gone.last()), (2, Some(&Removal::End(channel))));
}

/// `destroy` of an admin or a channel with 65,536 consumers took 300 ms in one go, and publishing that 180 more: each of them was
/// forgotten, and its client notified, before any other request was looked at.
#[test]
fn what_is_destroyed_is_gone_at_once_and_taken_apart_in_chunks() {
    const COUNT: u32 = 3_000;
    for whole in [false, true] {
        let mut hierarchy = Hierarchy::default();
        let channel = channel(&mut hierarchy);
        let side = Side::Consumers;
        let admin = hierarchy.create_admin(channel, side, Operator::And).unwrap();
        let mut keys = Vec::new();
        for number in 0..COUNT {
            let proxy = hierarchy.create_proxy(channel, side, admin, Form(1), ProxyKind::default()).unwrap();
            keys.push(ProxyKey { channel, proxy });
            hierarchy.connect(keys[number as usize], Some(Peer(number.into())), OutputForm(0)).unwrap();
        }
        apply_all(&mut hierarchy);
        if whole {
            hierarchy.destroy_channel(channel).unwrap();
        } else {
            hierarchy.destroy_admin(channel, side, admin).unwrap();
            assert_eq!(
                hierarchy.proxies(channel, side, admin).err(),
                Some(Refusal::AdminNotFound { channel, side, admin })
            );
            let left = hierarchy.channel(channel).unwrap();
            assert_eq!((left.connected(side), left.proxies().count()), (0, 0));
            assert_eq!(hierarchy.subscribed_types(channel).unwrap(), []);
        }
        for key in &keys {
            assert!(hierarchy.proxy(*key).is_err() && hierarchy.destroy_proxy(*key).is_err());
            assert!(hierarchy.set_proxy_settings(*key, SettingsPatch::default()).is_err());
        }
        let routed =
            |hierarchy: &mut Hierarchy| hierarchy.snapshot().channel(channel).map_or(0, |c| c.consumers().count());
        for number in 0..COUNT {
            assert!(hierarchy.has_work());
            if number == 1_000 {
                assert_eq!(routed(&mut hierarchy), if whole { 0 } else { 2_000 });
            }
            let Some(Removal::Proxy(removed)) = hierarchy.poll_removed() else { panic!("a proxy") };
            assert_eq!((removed.key, removed.peer), (keys[number as usize], Some(Peer(number.into()))));
        }
        let rest = taken_apart(&mut hierarchy);
        assert!(rest.len() < 256 && rest.last() == Some(&Removal::End(channel)));
        apply_all(&mut hierarchy);
        assert_eq!(routed(&mut hierarchy), 0);
    }
}

/// `set_qos` on a channel with 65,536 consumers took 150 ms in one go, and publishing that 130 more.
#[test]
fn a_change_that_concerns_very_many_is_taken_in_in_chunks_and_published_whole() {
    const COUNT: u64 = 3_000;
    let mut hierarchy = Hierarchy::default();
    let (channel, other) = (channel(&mut hierarchy), channel(&mut hierarchy));
    let connected = |hierarchy: &mut Hierarchy, channel, peer| {
        let key = proxy(hierarchy, channel, Side::Consumers);
        hierarchy.connect(key, Some(Peer(peer)), OutputForm(0)).unwrap();
        key
    };
    let first = connected(&mut hierarchy, channel, 0);
    (1..COUNT).for_each(|peer| _ = connected(&mut hierarchy, channel, peer));
    apply_all(&mut hierarchy);
    hierarchy.take_touched();
    let window = |snapshot: &Snapshot, channel| {
        let consumers = snapshot.channel(channel).unwrap().consumers();
        let windows: Vec<u16> = consumers.map(|route| route.settings.push_window).collect();
        (*windows.iter().min().unwrap(), *windows.iter().max().unwrap(), windows.len())
    };
    let patch = |window| SettingsPatch { push_window: Some(window), ..SettingsPatch::default() };
    hierarchy.set_channel_settings(channel, patch(7)).unwrap();
    let change = hierarchy.take_touched();
    let is_published = |hierarchy: &Hierarchy, change: &[(ChannelId, u64)]| {
        change.iter().all(|(at, number)| hierarchy.is_published(*at, *number))
    };
    assert_eq!(window(&hierarchy.snapshot(), channel), (1, 1, 3_000));
    // What others change meanwhile comes with the next part, and in other channels at once.
    hierarchy.set_channel_settings(channel, patch(8)).unwrap();
    hierarchy.disconnect(first).unwrap();
    let later = hierarchy.take_touched();
    let elsewhere = connected(&mut hierarchy, other, 9);
    let at_once = hierarchy.take_touched();
    let snapshot = hierarchy.snapshot();
    assert_eq!(window(&snapshot, channel), (1, 1, 3_000));
    assert!(snapshot.channel(other).unwrap().consumer(elsewhere.proxy).is_some());
    assert!(is_published(&hierarchy, &at_once) && !is_published(&hierarchy, &change));
    let mut found = BTreeSet::new();
    while !is_published(&hierarchy, &change) {
        found.insert(window(&hierarchy.snapshot(), channel));
    }
    assert!(found.into_iter().eq([(1, 1, 3_000), (7, 7, 3_000)]), "all of them at once");
    assert!(is_published(&hierarchy, &change) && !is_published(&hierarchy, &later) && hierarchy.has_work());
    assert_eq!(window(&hierarchy.snapshot(), channel), (7, 7, 3_000));
    drop(snapshot);
    apply_all(&mut hierarchy);
    assert_eq!(window(&hierarchy.snapshot(), channel), (8, 8, 2_999));
    assert!(is_published(&hierarchy, &later) && !hierarchy.has_work());
}

fn taken_apart(hierarchy: &mut Hierarchy) -> Vec<Removal> {
    core::iter::from_fn(|| hierarchy.poll_removed()).collect()
}

fn apply_all(hierarchy: &mut Hierarchy) {
    hierarchy.snapshot();
    while hierarchy.has_work() {
        hierarchy.snapshot();
    }
}

#[test]
fn a_snapshot_is_the_same_until_something_changes_that_the_event_path_must_know() {
    let mut hierarchy = Hierarchy::default();
    let quiet = channel(&mut hierarchy);
    let busy = channel(&mut hierarchy);
    let before = hierarchy.snapshot();
    let key = proxy(&mut hierarchy, busy, Side::Consumers);
    hierarchy.create_admin(busy, Side::Consumers, Operator::Or).unwrap();
    assert!(Arc::ptr_eq(&before, &hierarchy.snapshot()), "no client is connected yet");
    hierarchy.connect(key, Some(Peer(1)), OutputForm(3)).unwrap();
    let after = hierarchy.snapshot();
    assert_eq!(after.version, before.version + 1);
    let part = |snapshot: &Snapshot, channel: ChannelId| {
        let part = snapshot.channels().iter().find(|part| part.id() == channel);
        Arc::as_ptr(part.unwrap())
    };
    assert_eq!(part(&before, quiet), part(&after, quiet));
    assert_ne!(part(&before, busy), part(&after, busy));
}

#[test]
fn a_snapshot_lists_suppliers_and_consumers() {
    let mut hierarchy = Hierarchy::default();
    hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let channel = channel(&mut hierarchy);
    let supplier = proxy(&mut hierarchy, channel, Side::Suppliers);
    let consumers = [2, 1, 2].map(|output_form| {
        let key = proxy(&mut hierarchy, channel, Side::Consumers);
        hierarchy.connect(key, Some(Peer(u64::from(output_form))), OutputForm(output_form)).unwrap();
        key
    });
    let peerless = proxy(&mut hierarchy, channel, Side::Consumers);
    hierarchy.connect(peerless, None, OutputForm(0)).unwrap();
    hierarchy.suspend(consumers[1]).unwrap();
    let snapshot = hierarchy.snapshot();
    let route = snapshot.supplier(supplier).unwrap();
    assert_eq!((route.admin, route.form, route.state), (AdminId::DEFAULT, Form(1), ProxyState::Unconnected));
    assert_eq!(snapshot.supplier(consumers[0]), None);
    let routes = snapshot.channel(channel).unwrap();
    assert_eq!(routes.output_forms(), [OutputForm(1), OutputForm(2)]);
    let keys: Vec<ProxyKey> = routes.consumers().map(|consumer| consumer.key).collect();
    assert_eq!(keys, consumers);
    assert!(routes.consumers().nth(1).unwrap().suspended);
    assert!(snapshot.channel(ChannelId(9)).is_none());
}

#[test]
fn a_refusal_is_a_sentence_with_its_numbers() {
    let text = alloc::format!("{}", Refusal::AdminLimit { side: Side::Consumers, limit: 3 });
    assert_eq!(text, "3 consumers are connected, the most this channel takes");
}
