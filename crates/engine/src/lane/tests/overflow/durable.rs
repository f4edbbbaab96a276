//! What is stored elsewhere for consumers that stay when their clients go.

use super::*;

/// A burst that was faster than the disk cost a link whose line was down persistent events.
#[test]
fn what_is_slow_to_keep_events_costs_a_durable_consumer_no_persistent_ones() {
    for persistent in [true, false] {
        let mut rig = Rig::overflowing(20_000, 1 << 20);
        let key = rig.consumer(full(FullOutbox::Discard));
        rig.hierarchy.make_durable(key).unwrap();
        rig.hierarchy.leave(key).unwrap();
        rig.route();
        let mut shelf = Shelf::default();
        let mut published = 0;
        let mut publish = |rig: &mut Rig| {
            let mut pending_event = rig.lane.begin_event();
            pending_event.bytes.resize(100, 0);
            pending_event.bytes[..4].copy_from_slice(&u32::to_le_bytes(published));
            published += 1;
            pending_event.watch = NonZeroU64::new(published.into()).filter(|_| persistent);
            pending_event.watch_each = persistent;
            rig.lane.classify(&mut pending_event, b"domain", b"name");
            rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now)
        };
        let (mut tickets, mut refused) = (0, 0);
        for _ in 0..200 {
            let admission = publish(&mut rig);
            shelf.look(&mut rig.lane);
            match admission {
                Admission::Accepted { .. } => {}
                Admission::Withheld(ticket) => {
                    shelf.work_until_quiet(&mut rig);
                    assert!(!persistent || rig.lane.poll_release() == Some(ticket), "the disk goes on");
                    tickets += 1;
                }
                Admission::Refused(_) if !persistent => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        let lost = |rig: &Rig| rig.stats(key).discards.of(DiscardReason::MemorySpent);
        if persistent {
            // The disk stops: suppliers do not wait for it without end.
            let ticket = (0..200).find_map(|_| match publish(&mut rig) {
                Admission::Withheld(ticket) => Some(ticket),
                _ => None,
            });
            assert_eq!((rig.lane.poll_release(), lost(&rig)), (None, 0));
            rig.now = rig.now + Duration::from_secs(1);
            rig.lane.handle_timeout(rig.now);
            assert_eq!(rig.lane.poll_release(), ticket);
            continue;
        }
        shelf.work_until_quiet(&mut rig);
        let lost = lost(&rig);
        assert!((lost == 0) == persistent && tickets > 0, "{lost} lost, {tickets} times held");
        assert_eq!(rig.stats(key).backlog_events, 200 - lost - refused);
    }
}
