//! Backlogs on a disk that is full, fails, and flips bits. None outlives its process, so that a power cut leaves nothing that is read.

use std::sync::Arc;

use super::*;
use crate::simulation::disk::SimulatedDisk;

/// Events for three consumers.
fn events() -> (Vec<ProxyId>, Vec<Arc<Event>>) {
    let rig = Rig::new("disk", &mut fastrand::Rng::with_seed(8), 400, 3);
    (rig.consumers.clone(), rig.coming.as_slice().to_vec())
}

#[test]
fn whatever_becomes_of_a_disk_each_consumer_gets_its_events_once_in_order_but_for_those_that_count_as_lost() {
    let (consumers, events) = events();
    let all: Vec<u32> = events.iter().map(|event| number_in(&event.bytes)).collect();
    for seed in 0..100 {
        let (mut random, disk) = (fastrand::Rng::with_seed(seed), SimulatedDisk::default());
        let mut desk = Desk::on(Arc::new(disk.clone()), random.bool());
        let mut backlog = Backlog::new("/log-".into(), &desk);
        let (mut got, mut lost) = (vec![Vec::new(); consumers.len()], vec![0; consumers.len()]);
        let (mut coming, mut is_damaged, mut has_failed, mut freed) = (events.iter(), false, false, 0);
        let mut at_once = 0;
        while coming.len() > 0 || got.iter().zip(&lost).any(|(got, lost)| got.len() as u64 + lost < all.len() as u64) {
            at_once += 1;
            assert!(at_once < 100_000, "seed {seed}: it does not come to rest: {lost:?}");
            match random.u32(..100) {
                0..30 => coming.by_ref().take(random.usize(..20)).for_each(|event| backlog.push(Arc::clone(event))),
                30..33 => disk.set_room(Some(random.usize(..200_000))),
                33..40 => disk.set_room(None),
                40..42 => {
                    disk.set_failing(random.u32(1..500), random.u64(..));
                    has_failed = true;
                }
                42..50 => disk.set_failing(0, 0),
                50 if seed % 4 == 0 => is_damaged |= disk.flip_a_bit(&mut random).is_some(),
                51..75 => _ = backlog.write(1 << 20, &mut desk),
                75..80 => freed += backlog.free().events,
                _ => {
                    let consumer = random.usize(..consumers.len());
                    let read = backlog.read(consumers[consumer], (random.usize(1..20_000), false), &mut desk);
                    got[consumer].extend(numbers(&read));
                    lost[consumer] += read.lost;
                }
            }
        }
        for (got, lost) in got.iter().zip(&lost) {
            assert!(is_damaged || *lost == 0, "seed {seed}: {lost} lost");
            assert!(got.is_sorted_by(|before, after| before < after), "seed {seed}: once, in order");
            assert!(is_damaged || *got == all, "seed {seed}");
            assert!(got.iter().all(|number| all.binary_search(number).is_ok()), "seed {seed}");
        }
        disk.set_room(None);
        disk.set_failing(0, 0);
        while backlog.is_pending() {
            backlog.write(1 << 20, &mut desk).unwrap();
        }
        freed += backlog.free().events;
        assert!(freed == all.len() as u64, "seed {seed}: {freed} events are free");
        assert!(has_failed || disk.files().is_empty(), "seed {seed}: {:?}", disk.files());
    }
}
