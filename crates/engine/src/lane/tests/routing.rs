//! Which consumers get an event.

use super::*;

#[test]
fn delivers_to_every_consumer_in_their_order() {
    let mut rig = Rig::plain();
    let keys: Vec<ProxyKey> = (0..3).map(|_| rig.consumer(SettingsPatch::default())).collect();
    assert_eq!(rig.publish(7), Admission::Accepted { destinations: 3 });
    let got: Vec<ProxyKey> = core::iter::from_fn(|| rig.poll().map(|(key, ..)| key)).collect();
    assert_eq!(got, keys);
}

#[test]
fn refuses_events_of_suppliers_that_are_not_there_or_not_connected() {
    let mut rig = Rig::plain();
    let stranger = ProxyKey { channel: rig.channel, proxy: ProxyId(99) };
    let nowhere = ProxyKey { channel: ChannelId(9), proxy: ProxyId(0) };
    rig.hierarchy.disconnect(rig.source).unwrap();
    rig.route();
    let source = rig.source;
    for (key, refusal) in [
        (stranger, Refusal::ProxyNotFound { proxy: stranger }),
        (nowhere, Refusal::ChannelNotFound { channel: ChannelId(9) }),
        (source, Refusal::NotConnected { proxy: source }),
    ] {
        let pending_event = rig.lane.begin_event();
        assert_eq!(rig.lane.handle_event(key, pending_event, &NoFields, rig.now), Admission::Refused(refusal));
    }
    assert_eq!(rig.lane.counters().taken.refused, 3);
}

#[test]
fn an_event_goes_only_to_those_that_want_its_type() {
    let mut rig = Rig::plain();
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    let wanted = [EventType::new("domain", "other")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(a), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 1 });
    assert_eq!(rig.poll().unwrap().0, b);
    assert!(rig.poll().is_none());
}

#[test]
fn an_event_without_consumers_takes_no_memory() {
    let mut rig = Rig::plain();
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 0 });
    assert_eq!((rig.memory(), rig.lane.counters().taken.unwanted), (0, 1));
}

#[test]
fn types_beyond_the_table_are_still_matched_by_name() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let wanted = [EventType::new("d", "late"), EventType::new("d", "1*")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    for number in 0..65_536 {
        rig.lane.intern(b"d", format!("{number}").as_bytes());
    }
    for (name, destinations) in [("late", 1), ("later", 0), ("1x", 1), ("late", 1), ("2", 0)] {
        let mut pending_event = rig.lane.begin_event();
        rig.lane.classify(&mut pending_event, b"d", name.as_bytes());
        let admission = rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
        assert_eq!(admission, Admission::Accepted { destinations }, "{name}");
    }
    assert_eq!(rig.lane.counters().routing.types_not_interned, 4);
}

/// Suppliers name types, and what the lane knew of those of channels that had been destroyed stayed for ever: after 65,536 of
/// them every further type of every channel was matched by its names.
#[test]
fn the_types_of_channels_that_are_gone_make_room() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    let publish = |rig: &mut Rig, name: &str| {
        let mut pending_event = rig.lane.begin_event();
        rig.lane.classify(&mut pending_event, b"d", name.as_bytes());
        let event_type = pending_event.event_type;
        (rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now), event_type)
    };
    let (_, kept) = publish(&mut rig, "shared");
    let lasting = (rig.channel, rig.source);
    for round in 0..3 {
        let channel = rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let kind = ProxyKind::default();
        let proxy = rig.hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), kind).unwrap();
        (rig.channel, rig.source) = (channel, ProxyKey { channel, proxy });
        rig.hierarchy.connect(rig.source, None, OutputForm(0)).unwrap();
        // Its events wait when the channel goes.
        let consumer = rig.consumer(SettingsPatch::default());
        for number in 0..5_000 {
            let (admission, event_type) = publish(&mut rig, &format!("{round}/{number}"));
            assert_eq!(admission, Admission::Accepted { destinations: 1 });
            assert_ne!(event_type, TypeId::OTHER);
        }
        assert_eq!(publish(&mut rig, "shared").1, kept);
        assert_eq!(rig.lane.types_known(), 5_001);
        rig.hierarchy.destroy_channel(channel).unwrap();
        rig.route();
        let mut rounds = 0;
        while rig.lane.next_timeout() == Some(rig.now) {
            rig.lane.handle_timeout(rig.now);
            rounds += 1;
        }
        assert!(rounds > 5_000 / 256, "a little at a time: {rounds}");
        (rig.channel, rig.source) = lasting;
        // The names of types with reported drops are known as long as these are.
        assert_eq!(rig.lane.types_known(), 1 + Rig::DROPS);
        let dropped = rig.lane.type_drops().filter(|drops| drops.key == consumer);
        assert!(dropped.into_iter().all(|drops| rig.lane.type_names(drops.event_type).is_some()));
        assert_eq!(publish(&mut rig, "shared"), (Admission::Accepted { destinations: 1 }, kept));
    }
}

/// A supplier that makes names up filled the table for as long as its channel lived, the default channel for ever.
#[test]
fn the_types_that_a_living_channel_does_not_remember_make_room() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    for number in 0..150_000_u32 {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(1);
        rig.lane.classify(&mut pending_event, b"d", format!("{number}").as_bytes());
        let admission = rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
        assert_eq!(admission, Admission::Accepted { destinations: 1 });
        assert_eq!(rig.answer(Outcome::Delivered), Some(1));
        rig.lane.handle_timeout(rig.now);
        assert!(rig.lane.types_known() <= 3 * 4_096, "{}", rig.lane.types_known());
    }
    assert_eq!(rig.lane.counters().routing.types_not_interned, 0);
}
