//! A consumer that stopped held all suppliers of its channel for 86 seconds, until it was given up: 30 s for its answer, and 60 s
//! of failing. Two ORBs' clients had given up meanwhile.

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What two events need.
fn room_for_two() -> ChannelLimits {
    budget(2 * charge(1) + 2 * HOLDER_OVERHEAD_BYTES)
}

fn held_for(time: Duration) -> DisconnectReason {
    DisconnectReason::HeldSuppliers { held_for: time }
}

impl Rig {
    /// Publishes until suppliers are held.
    fn fill(&mut self) -> Ticket {
        (0..100)
            .find_map(|number| match self.publish(number) {
                Admission::Held(ticket) => Some(ticket),
                _ => None,
            })
            .expect("suppliers to be held")
    }

    fn disconnected(&mut self) -> Vec<(ProxyKey, DisconnectReason)> {
        let notices = self.notices().into_iter();
        let disconnected = notices.filter_map(|notice| match notice {
            Notice::ConsumerDisconnected { key, reason, .. } => Some((key, reason)),
            _ => None,
        });
        disconnected.collect()
    }
}

#[test]
fn who_takes_nothing_while_suppliers_wait_for_it_is_disconnected_after_its_hold_timeout() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumer = rig.consumer(SettingsPatch::default());
    let ticket = rig.fill();
    assert!(rig.poll().is_some(), "it is sent an event, and does not answer");
    rig.advance(seconds(29));
    assert_eq!(rig.disconnected(), []);
    let since = Time(1_000_000_000);
    assert_eq!(rig.stats(consumer).holds, Some(Holding { since, until: Some(since + seconds(30)) }));
    rig.advance(seconds(1));
    assert_eq!(rig.disconnected(), [(consumer, held_for(seconds(30)))]);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn who_takes_an_event_now_and_then_is_waited_for_and_whoever_does_not_is_not() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let (slow, mute) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    // Both have the same backlog. That of the slow one is looked at first.
    let ticket = rig.fill();
    let mut under_way = Vec::new();
    for _ in 0..2 {
        under_way.extend(rig.poll());
    }
    rig.advance(seconds(20));
    let (.., outbox, serial) = *under_way.iter().find(|(key, ..)| *key == slow).unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.advance(seconds(10));
    assert_eq!(rig.disconnected(), [(mute, held_for(seconds(30)))]);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn the_same_holds_for_one_that_is_full_and_its_own_hold_timeout_counts() {
    let hold = SettingsPatch { hold_timeout: Some(seconds(5)), ..full(FullOutbox::Hold) };
    let patch = SettingsPatch { max_events_per_consumer: max_events(1).max_events_per_consumer, ..hold };
    let mut rig = Rig::plain();
    let consumer = rig.consumer(patch);
    rig.fill();
    rig.advance(seconds(5));
    assert_eq!(rig.disconnected(), [(consumer, held_for(seconds(5)))]);
}

#[test]
fn several_that_are_silent_go_together_as_suppliers_go_on() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumers = [rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default())];
    rig.fill();
    rig.advance(seconds(30));
    assert_eq!(rig.disconnected(), [(consumers[0], held_for(seconds(30)))]);
    // Suppliers go on; the channel has had no room since, so that they wait for the second no longer than for the first.
    rig.fill();
    rig.advance(Duration::ZERO);
    assert_eq!(rig.disconnected(), [(consumers[1], held_for(seconds(30)))]);
}

#[test]
fn who_cannot_take_anything_is_named_and_stays() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumer = rig.consumer(SettingsPatch::default());
    rig.hierarchy.suspend(consumer).unwrap();
    rig.route();
    rig.fill();
    for round in 1..3 {
        rig.advance(seconds(30));
        let goes_on = Notice::HoldGoesOn { key: consumer, held_for: seconds(30 * round), suspended: true };
        assert!(rig.notices().contains(&goes_on));
    }
    rig.advance(seconds(29));
    rig.hierarchy.resume(consumer).unwrap();
    rig.route();
    rig.advance(seconds(29));
    assert_eq!(rig.disconnected(), [], "its time begins when it is resumed");
    rig.advance(seconds(1));
    assert_eq!(rig.disconnected(), [(consumer, held_for(seconds(119)))]);
}

#[test]
fn a_hold_timeout_of_0_is_for_ever() {
    let patch = SettingsPatch {
        hold_timeout: Some(Duration::ZERO),
        reply_timeout: Some(Duration::ZERO),
        ..full(FullOutbox::Hold)
    };
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    rig.consumer(patch);
    rig.fill();
    rig.advance(seconds(86_400));
    assert_eq!(rig.disconnected(), []);
}
