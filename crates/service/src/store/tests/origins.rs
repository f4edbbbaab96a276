//! Origins of events that came from other services: each is there if its event was, whatever became of that since.

use std::collections::BTreeSet;

use super::*;

const OTHER: u64 = 2;

fn origin(number: u64) -> SeenOrigin {
    SeenOrigin { channel: SOURCE.channel, service: OTHER, era: 7, number }
}

impl Lane {
    /// Has an event kept that came from a service.
    fn send_with(&mut self, origin: SeenOrigin) {
        let source = ProxyKey { channel: origin.channel, ..SOURCE };
        let mut pending_event = pending_event(source, vec![1; 100]);
        pending_event.set_origin(origin.service, origin.era, origin.number, &[5]);
        self.send_event(pending_event);
    }

    /// Origins that were there when the store began.
    fn origins(&self) -> BTreeSet<SeenOrigin> {
        self.link.origins_seen.iter().copied().collect()
    }

    /// Origins of the events that were there when the store began.
    fn of_events(&self) -> Vec<SeenOrigin> {
        let origin_of = |restored: &Restored| {
            let record = Record::read(&restored.record).unwrap();
            let origin = record.origin.unwrap();
            assert_eq!(*origin.hops, [5]);
            let engine::Origin { service, era, number, .. } = origin;
            SeenOrigin { channel: record.source.channel, service, era, number }
        };
        self.restored.iter().map(origin_of).collect()
    }
}

/// As a link sends it: what was not confirmed comes again, and is an event only if it is not known.
#[test]
fn an_event_from_another_service_is_there_once_with_its_origin_whenever_the_power_goes() {
    let (mut known_unconfirmed, mut unknown) = (0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut device = SimulatedDevice::default();
        let (mut next, mut under_way, mut confirmed) = (1, Vec::new(), BTreeSet::new());
        for _ in 0..6 {
            let mut lane = device.lane(1 << 30);
            let (known, there) = (lane.origins(), lane.of_events());
            assert_eq!(there.iter().copied().collect::<BTreeSet<_>>(), known, "both are there or neither is");
            assert_eq!(there.len(), known.len(), "no event is there twice");
            assert!(confirmed.is_subset(&known), "what was confirmed is there");
            let before = under_way.len();
            under_way.retain(|origin| !known.contains(origin));
            (known_unconfirmed, unknown) = (known_unconfirmed + before - under_way.len(), unknown + under_way.len());
            confirmed = known;
            match random.bool() {
                true => device.fail_after(Some(random.u32(20..300))),
                false => device.with(|state| state.late_in = Some(random.u32(..30))),
            }
            let mut fails = false;
            while !fails {
                while under_way.len() < 10 {
                    under_way.push(origin(next));
                    next += 1;
                }
                let burst = random.usize(1..=10);
                under_way[..burst].iter().for_each(|origin| lane.send_with(*origin));
                let mut answers: VecDeque<bool> = (0..burst).map(|_| lane.answer().is_ok()).collect();
                fails = answers.contains(&false);
                under_way.retain(|origin| {
                    let is_stored = answers.pop_front().unwrap_or(false);
                    confirmed.extend(is_stored.then_some(*origin));
                    !is_stored
                });
            }
            device.fail_after(Some(0));
            device.lose_power(&mut random);
        }
    }
    assert!(known_unconfirmed > 100 && unknown > 100, "{known_unconfirmed} and {unknown}");
}

/// What is on the disk although its synchronisation failed was given back, and comes again while the process goes on.
#[test]
fn what_was_given_back_although_it_is_on_the_disk_is_there_once_when_it_has_come_again() {
    for is_new in [false, true] {
        let mut device = SimulatedDevice::default();
        let mut lane = device.lane(1 << 30);
        lane.send_with(origin(1));
        lane.answer().unwrap();
        device.with(|state| state.late_in = Some(0));
        lane.send_with(origin(2));
        assert_eq!(lane.answer(), Err(StoreRefusal::Failed));
        let again = origin(if is_new { 3 } else { 2 });
        wait_until("the disk to be written to again", || {
            lane.send_with(again);
            lane.answer().is_ok()
        });
        device.fail_after(Some(0));
        device.lose_power(&mut fastrand::Rng::with_seed(1));
        let lane = device.lane(1 << 30);
        assert_eq!(
            (lane.of_events(), lane.link.origins_seen.clone()),
            (vec![origin(1), again], vec![origin(1), again])
        );
    }
}

#[test]
fn an_origin_stays_when_all_have_its_event_and_goes_with_its_channel() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let own = SeenOrigin { service: OWN, ..origin(1) };
    let elsewhere = SeenOrigin { channel: ChannelId(9), ..origin(1) };
    for origin in [origin(2), own, origin(1), elsewhere] {
        lane.send_with(origin);
        let watch = lane.answer().unwrap();
        lane.complete(watch);
    }
    lane.send(vec![1; 10]);
    lane.answer().unwrap();
    wait_until("all to be counted", || lane.counters.read(Counter::OriginsStored) == 3);
    lane.end();
    let lane = device.lane(1 << 30);
    assert_eq!(lane.link.origins_seen, [origin(2), origin(1), elsewhere], "in their order, and none of its own");
    // The other channel was gone when this store began.
    wait_until("those of a channel that is gone to go", || lane.counters.read(Counter::OriginsStored) == 2);
    let mut lane = lane;
    lane.store.write(1, Changes::from([(StoredPart::Channel(SOURCE.channel.0).key(), None)]));
    wait_until("those of a channel to go with it", || lane.counters.read(Counter::OriginsStored) == 0);
    assert_eq!(lane.counters.read(Counter::OriginsDropped), 0);
    lane.end();
    assert!(device.lane(1 << 30).link.origins_seen.is_empty());
}

/// When no event was left, the next process began with number 1 again: an origin of that number was forgotten, and stayed on the disk.
#[test]
fn an_event_has_no_number_of_one_whose_origin_is_still_known() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    for number in 1..=3 {
        lane.send_with(origin(number));
        let watch = lane.answer().unwrap();
        lane.complete(watch);
    }
    lane.end();
    let mut lane = device.lane(1 << 30);
    assert!(lane.restored.is_empty());
    lane.send_with(origin(4));
    assert_eq!(lane.answer().unwrap().get(), 4);
    lane.end();
    assert_eq!(device.lane(1 << 30).link.origins_seen, [1, 2, 3, 4].map(origin));
}

#[test]
fn of_very_many_origins_those_written_last_are_on_the_disk() {
    const EVENTS: u64 = 20_000;
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    for first in (1..=EVENTS).step_by(1_000) {
        (first..first + 1_000).for_each(|number| lane.send_with(origin(number)));
        (0..1_000).for_each(|_| {
            let watch = lane.answer().unwrap();
            lane.complete(watch);
        });
    }
    wait_until("all to be counted", || lane.counters.read(Counter::OriginsDropped) == EVENTS - 16_384);
    assert_eq!(lane.counters.read(Counter::OriginsStored), 16_384);
    lane.end();
    let expected: Vec<SeenOrigin> = (EVENTS - 16_384 + 1..=EVENTS).map(origin).collect();
    assert!(device.lane(1 << 30).link.origins_seen == expected);
}

/// As releases before made it, each with what that had.
fn of_version(version: u32) -> SimulatedDevice {
    let device = SimulatedDevice::default();
    let database = redb::Database::builder().create_with_backend(device.clone()).unwrap();
    let begun = database.begin_write().unwrap();
    let parts: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("parts");
    let about: redb::TableDefinition<'_, &str, u32> = redb::TableDefinition::new("about");
    begun.open_table(parts).unwrap().insert(&b"key"[..], &b"value"[..]).unwrap();
    begun.open_table(about).unwrap().insert("version", version).unwrap();
    if version > 1 {
        let [events, consumers] = ["events", "consumers"].map(redb::TableDefinition::<'_, u64, &[u8]>::new);
        let mut record = Vec::new();
        Record::of(&pending_event(SOURCE, vec![1; 10]), Time(0), &UtcClock::default()).write(&mut record);
        begun.open_table(events).unwrap().insert(4, &record[..]).unwrap();
        begun.open_table(consumers).unwrap().insert(4, &[7, 0, 0, 0][..]).unwrap();
    }
    begun.commit().unwrap();
    drop(database);
    device
}

#[test]
fn a_store_of_an_earlier_version_has_all_it_had_and_an_identity_that_stays() {
    for version in 1..=3 {
        let device = of_version(version);
        let open = || {
            let device = device.clone();
            Disk::on(move || device.clone()).unwrap()
        };
        let mut disk = open();
        assert_eq!((disk.version(), disk.image().unwrap()[&b"key"[..]].as_slice()), (version, &b"value"[..]));
        assert_eq!(disk.events().unwrap().0, u64::from(version > 1));
        let service = disk.service().unwrap();
        drop(disk);
        let mut disk = open();
        assert_eq!((disk.version(), disk.service().unwrap()), (disk::VERSION, service));
        assert!(service != 0 && disk.origins_seen().unwrap().is_empty());
        drop(disk);
        let mut lane = device.lane(1 << 30);
        let restored: Vec<_> = lane.restored.iter().map(|event| (event.number, event.consumers.as_deref())).collect();
        assert_eq!(restored, [(4, Some(&[ProxyId(7)][..]))][..usize::from(version > 1)]);
        lane.send_with(origin(1));
        lane.answer().unwrap();
        lane.end();
        assert_eq!(device.lane(1 << 30).origins(), BTreeSet::from([origin(1)]));
    }
    let newer = of_version(disk::VERSION_REPLICATED + 1);
    let refused = Disk::on(move || newer.clone()).err().unwrap();
    assert!(matches!(refused, StoreError::Version(6)), "{refused}");
}
