//! Who gets an event.

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
        let draft = rig.lane.begin_event();
        assert_eq!(rig.lane.handle_event(key, draft, &NoFields, rig.now), Admission::Refused(refusal));
    }
    assert_eq!(rig.lane.counters().events_refused, 3);
}

#[test]
fn an_event_goes_only_to_those_who_want_its_type() {
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
fn an_event_that_nobody_wants_takes_no_memory() {
    let mut rig = Rig::plain();
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 0 });
    assert_eq!((rig.memory(), rig.lane.counters().events_unwanted), (0, 1));
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
        let mut draft = rig.lane.begin_event();
        rig.lane.classify(&mut draft, b"d", name.as_bytes());
        let admission = rig.lane.handle_event(rig.source, draft, &NoFields, rig.now);
        assert_eq!(admission, Admission::Accepted { destinations }, "{name}");
    }
    assert_eq!(rig.lane.counters().types_not_interned, 4);
}
