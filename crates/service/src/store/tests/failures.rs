//! What is configured, and events, when the power goes or the block device fails.

use super::*;

fn random_changes(random: &mut fastrand::Rng) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..random.u32(1..20) {
        let key = random.u16(..200).to_be_bytes().to_vec();
        let length = if random.u32(..10) == 0 { random.usize(..20_000) } else { random.usize(..300) };
        let value = random.bool().then(|| (0..length).map(|_| random.u8(..)).collect());
        changes.insert(key, value);
    }
    changes
}

fn with(image: &corba::Image, changes: &Changes) -> corba::Image {
    let mut after = image.clone();
    for (key, value) in changes {
        match value {
            Some(value) => after.insert(key.clone(), value.clone()),
            None => after.remove(key),
        };
    }
    after
}

#[test]
fn a_power_cut_at_any_moment_leaves_each_batch_whole_or_none_of_it_and_what_was_reported_is_there() {
    let mut cut_short = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut device = SimulatedDevice::default();
        let mut stored = corba::Image::new();
        for _ in 0..8 {
            let opened = device.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            assert!(disk.image().unwrap() == stored, "what was there before");
            let mut under_way = None;
            let until = random.u32(1..12);
            for batch in 0..until {
                if batch + 1 == until {
                    device.fail_after(Some(random.u32(..60)));
                }
                let changes = random_changes(&mut random);
                let after = with(&stored, &changes);
                match disk.write(&changes) {
                    Ok(_) => stored = after,
                    Err(_) => {
                        cut_short += 1;
                        under_way = Some(after);
                        break;
                    }
                }
            }
            device.fail_after(Some(0));
            drop(disk);
            device.lose_power(&mut random);
            let opened = device.clone();
            let found = Disk::on(move || opened.clone()).unwrap().image().unwrap();
            if Some(&found) == under_way.as_ref() {
                stored = found;
            } else {
                assert!(found == stored, "what was reported to be there");
            }
        }
    }
    assert!(cut_short > 50, "{cut_short} batches were cut short");
}

/// What a synchronisation that failed was to write was in the tree that the next ones, which went well, were built upon: a power cut then
/// took the store with everything in it.
#[test]
fn what_was_promised_after_a_synchronisation_that_failed_is_there_after_a_power_cut() {
    let mut failed = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut device = SimulatedDevice::default();
        let mut stored = BTreeMap::new();
        // Those of batches that failed: each may be there or not.
        let mut unsure = Vec::new();
        let mut number = 0;
        for _ in 0..3 {
            let opened = device.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            for _ in 0..random.u32(1..12) {
                if random.u32(..3) == 0 {
                    device.with(|state| state.syncs_left = Some(random.u32(..3)));
                }
                let events: Vec<(u64, Vec<u8>)> = (0..random.usize(1..20))
                    .map(|_| {
                        number += 1;
                        (number, vec![random.u8(..); random.usize(..3_000)])
                    })
                    .collect();
                let phases = random.choice([Phases::One, Phases::Two]).unwrap();
                let written = disk.write_batch(phases, |batch| {
                    events.iter().try_for_each(|(number, record)| batch.keep_event(*number, record))
                });
                match written {
                    Ok(_) => stored.extend(events),
                    Err(_) => {
                        failed += 1;
                        unsure.extend(events);
                    }
                }
            }
            device.with(|state| state.syncs_left = None);
            device.fail_after(Some(0));
            drop(disk);
            device.lose_power(&mut random);
            let opened = device.clone();
            let mut disk = Disk::on(move || opened.clone()).unwrap();
            let mut found = BTreeMap::new();
            let look = |number, _: Option<&[u8]>, record: &[u8]| {
                found.insert(number, record.to_vec());
                ControlFlow::Continue(())
            };
            disk.each_event(0, look).unwrap();
            for (number, record) in &stored {
                assert_eq!(found.get(number), Some(record), "event {number}, which was promised");
            }
            for (number, record) in &found {
                assert!(stored.get(number) == Some(record) || unsure.contains(&(*number, record.clone())), "{number}");
            }
            stored = found;
        }
    }
    assert!(failed > 100, "{failed} batches failed");
}

/// A disk that is full for a while costs nothing but time.
#[test]
fn what_cannot_be_written_is_written_when_it_can_be() {
    let device = SimulatedDevice::default();
    let waker = Arc::new(Waker::new().unwrap());
    let counters = Counters::new(1);
    let mut store = device.store(&waker, &counters);
    let batch = |key: u8| Changes::from([(vec![key], Some(vec![key; 100]))]);
    store.write(1, batch(1));
    wait_until("the first batch", || store.written() == 1);
    device.fail_after(Some(3));
    store.write(2, batch(2));
    wait_until("a failure", || counters.read(Counter::StoreFailures) > 0);
    assert_eq!((store.written(), store.is_free()), (1, false));
    device.fail_after(None);
    wait_until("the second batch", || store.written() == 2);
    store.write(3, batch(3));
    assert_eq!(store.wait(), 3);
    store.end();
    assert_eq!(counters.read(Counter::StoreWrites), 3);
    let found = device.image();
    assert_eq!(found.keys().map(|key| key[0]).collect::<Vec<u8>>(), [1, 2, 3]);
}

/// Each would have had the file opened anew, and looked through.
#[test]
fn events_that_come_right_behind_a_failure_are_refused_without_trying_and_those_that_come_later_are_kept() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    device.fail_after(Some(0));
    let began = time::now();
    for _ in 0..20 {
        lane.send(vec![1; 10]);
        assert_eq!(lane.answer(), Err(StoreRefusal::Failed));
    }
    let failures = lane.counters.read(Counter::StoreFailures);
    assert!(failures == 1 || time::since(began) >= crate::log::AGAIN_IN, "{failures} failures");
    device.fail_after(None);
    wait_until("the store to be tried again", || {
        lane.send(vec![3; 10]);
        lane.answer().is_ok()
    });
    wait_until("it to be counted", || lane.counters.read(Counter::EventsStored) == 1);
    lane.end();
}

/// Each event that was refused was noted, to be removed when the disk works again: in hours, many millions.
#[test]
fn events_that_are_refused_while_the_disk_fails_leave_nothing_behind_but_what_may_be_there() {
    let (store, lane) = [(); 2].map(|()| Arc::new(Waker::new().unwrap())).into();
    let (introductions, introduced) = mailbox(&store, 1);
    let mut reception = Reception { waker: store, introductions, restored: None, origins_seen: Vec::new(), desk: None };
    let (mut link, slot) = journal::link(LaneThread::MAIN, &lane, &mut reception);
    reception.introductions.send(slot).ok().unwrap();
    let mut journal = Journal::new(introduced, 1, (1 << 30, limits(0).dead_letters));
    let mut send = |journal: &mut Journal| {
        for posting in 0..1_000 {
            let pending_event = pending_event(SOURCE, vec![1; 10]);
            link.messages.send(ToStore::Event(Posting { pending_event, posting, is_awaited: true })).ok().unwrap();
        }
        journal.receive();
        assert_eq!(journal.stored(), (1_000, 74_000));
    };
    send(&mut journal);
    assert_eq!((journal.refuse(), journal.stored()), (1_000, (0, 0)));
    assert!(!journal.has_some(), "nothing of them was tried");
    send(&mut journal);
    assert_eq!((journal.note_failed(), journal.stored()), (1_000, (0, 0)));
    assert!(journal.has_some());
    // They are to go, and what is written with one that is delivered once more, should they be there.
    let gone: Vec<_> = journal.gone(usize::MAX).collect();
    assert!(gone.into_iter().eq((1_001..=2_000).map(|number| (number, true))));
    let answers = core::iter::from_fn(|| link.answers.take());
    assert_eq!(
        answers.filter(|answer| matches!(answer, FromStore::NotStored(.., StoreRefusal::Failed))).count(),
        2_000
    );
    journal.note_tidied(usize::MAX);
    assert!(!journal.has_some());
}
