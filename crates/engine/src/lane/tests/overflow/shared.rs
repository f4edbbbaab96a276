//! The room elsewhere that all channels have together.

use super::*;

/// A client could have a channel's room elsewhere set as large as it liked, and take all there is.
#[test]
fn channels_together_keep_to_the_room_elsewhere_and_go_on_when_others_release_some() {
    const MIB: u64 = 1 << 20;
    let shared = Arc::new(MemoryPool::new(8 * MIB, 75));
    let mut rig = Rig::new(SettingsPatch::default(), ChannelLimits::default());
    rig.lane = Lane::new(rig.now);
    rig.lane.allow_overflow();
    rig.lane.set_overflow_pool(Arc::clone(&shared));
    let limits = ChannelLimits { overflow_budget_bytes: 1 << 40, ..budget(20_000) };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    let mut other_lane = Part::default();
    other_lane.set_shared(Arc::clone(&shared));
    other_lane.add(7 * MIB);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(SettingsPatch::default());
    let mut number = 0;
    let mut until_held = |rig: &mut Rig, shelf: &mut Shelf| loop {
        let admission = rig.publish_number(number);
        number += 1;
        shelf.work_until_quiet(rig);
        match admission {
            Admission::Withheld(ticket) => break ticket,
            Admission::Accepted { .. } => assert!(number < 100_000),
            other => panic!("{other:?}"),
        }
    };
    let ticket = until_held(&mut rig, &mut shelf);
    let has = |rig: &Rig| rig.stats(sleeper).elsewhere_events;
    assert!((150..600).contains(&has(&rig)), "it has little, as each channel may: {}", has(&rig));
    assert_eq!(rig.lane.counters().overflow.channels_short, 1);
    rig.advance(Duration::from_millis(5));
    assert_eq!(rig.lane.poll_release(), None, "nothing has changed");
    other_lane.remove(7 * MIB);
    rig.advance(Duration::from_millis(5));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    until_held(&mut rig, &mut shelf);
    assert!((5 * MIB..6 * MIB).contains(&shared.taken_bytes()), "three quarters of seven: {}", shared.taken_bytes());
    // What its consumer takes comes in order, and with it the room comes back.
    rig.suspended(sleeper, false);
    for expected in 0..number {
        assert_eq!(rig.take(None), Some((sleeper, expected)));
        shelf.work_until_quiet(&mut rig);
    }
    assert!(shared.taken_bytes() <= MIB, "{}", shared.taken_bytes());
    // A channel that is gone gives its room back when the keeper of its events says so.
    rig.suspended(sleeper, true);
    let mut shelf = Shelf { frees_nothing: true, ..Shelf::default() };
    for number in 0..2_000 {
        rig.publish_number(number);
        shelf.work_until_quiet(&mut rig);
    }
    rig.hierarchy.destroy_channel(rig.channel).unwrap();
    rig.route();
    shelf.frees_nothing = false;
    shelf.work_until_quiet(&mut rig);
    shelf.work(&mut rig.lane, rig.now);
    drop((other_lane, rig));
    assert_eq!(shared.taken_bytes(), 0);
}
