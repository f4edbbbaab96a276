//! Events that are kept: the consumers yet to confirm them, what there is room for, and when the block device is synchronised.

use super::*;

/// What was found of each event: the consumers yet to confirm it, and its octets.
fn found(lane: &Lane) -> BTreeMap<u64, (Option<Vec<u32>>, Vec<u8>)> {
    let all = lane.restored.iter().map(|restored| {
        let record = Record::read(&restored.record).unwrap();
        assert_eq!(record.source, SOURCE);
        let mut event = Event::default();
        record.fill(&mut event, &UtcClock::default());
        let consumers = restored.consumers.as_ref().map(|list| list.iter().map(|proxy| proxy.0).collect());
        (restored.number, (consumers, event.bytes))
    });
    all.collect()
}

#[test]
fn an_event_that_was_accepted_survives_a_power_cut_at_any_moment_until_all_have_it() {
    let (mut accepted, mut refused, mut completed) = (0, 0, 0);
    for seed in 0..25 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut device = SimulatedDevice::default();
        // Of those that were accepted: what they say, and whether all have them.
        let mut stored: BTreeMap<u64, (Vec<u8>, bool)> = BTreeMap::new();
        let mut unsure: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            let mut lane = device.lane(1 << 30);
            let there = found(&lane);
            for (number, (octets, is_delivered)) in &stored {
                match there.get(number) {
                    Some((_, found)) => assert_eq!(found, octets),
                    None => assert!(is_delivered, "event {number}"),
                }
            }
            let unknown = there.iter().filter(|(number, _)| !stored.contains_key(number));
            unknown.for_each(|(number, (_, octets))| assert!(unsure.contains(octets), "event {number}"));
            // Those go on as they were; whether they were accepted is unknown.
            stored = there.into_iter().map(|(number, (_, octets))| (number, (octets, false))).collect();
            unsure.clear();
            device.fail_after(Some(random.u32(20..400)));
            'power: loop {
                let burst = random.usize(1..12);
                let events: Vec<Vec<u8>> = (0..burst).map(|_| vec![random.u8(..); random.usize(..3_000)]).collect();
                events.iter().for_each(|octets| lane.send(octets.clone()));
                let mut fails = false;
                for octets in events {
                    match lane.answer() {
                        Ok(number) => {
                            accepted += 1;
                            stored.insert(number.get(), (octets, false));
                        }
                        Err(why) => {
                            assert_eq!(why, StoreRefusal::Failed);
                            refused += 1;
                            unsure.push(octets);
                            fails = true;
                        }
                    }
                }
                if fails {
                    break 'power;
                }
                for (number, (_, is_delivered)) in &mut stored {
                    if !*is_delivered && random.bool() {
                        lane.complete(NonZeroU64::new(*number).unwrap());
                        *is_delivered = true;
                        completed += 1;
                    }
                }
            }
            device.lose_power(&mut random);
        }
    }
    assert!(accepted > 1_000 && refused > 100 && completed > 500, "{accepted}, {refused}, {completed}");
}

#[test]
fn the_unconfirmed_consumers_of_an_event_are_stored_when_they_are_known() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let numbers: Vec<NonZeroU64> = (0..4)
        .map(|number| {
            lane.send(vec![number; 10]);
            lane.answer().unwrap()
        })
        .collect();
    let consumer = |proxy| ProxyKey { channel: SOURCE.channel, proxy: ProxyId(proxy) };
    for (watch, bridges) in numbers.iter().copied().zip([0, 0, 1, 1]) {
        [9, 7, 8].into_iter().for_each(|proxy| lane.tell(Completion::Begins { watch, consumer: consumer(proxy) }));
        // Another lane has yet to name the third's consumers.
        lane.tell(Completion::Begun { watch, bridges });
    }
    // The fourth was dropped where it was to be handed over. For its consumers here it is kept elsewhere.
    lane.tell(Completion::ForAll { watch: numbers[3] });
    let how = engine::Disposition::Delivered;
    lane.tell(Completion::ForConsumer { watch: numbers[1], consumer: consumer(9), how });
    lane.end();
    let lane = device.lane(1 << 30);
    let lists: Vec<Option<Vec<u32>>> = found(&lane).into_values().map(|(list, _)| list).collect();
    assert_eq!(lists, [Some(vec![7, 8, 9]), Some(vec![7, 8]), None, Some(vec![7, 8, 9])]);
    // It is known of them again from now on, and they go when all have them.
    let mut lane = lane;
    numbers.iter().for_each(|number| lane.complete(*number));
    lane.end();
    assert!(device.lane(1 << 30).restored.is_empty());
}

/// What there was no room for was dropped, so that the lane took the next answer for that of the event before it.
#[test]
fn a_lane_that_takes_no_messages_has_every_answer_in_the_end() {
    const EVENTS: u64 = 14_000;
    const ANSWERS_MAX: usize = journal::EVENTS_MAX + journal::NEWS_MAX;
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let consumer = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(7) };
    let (mut stored, mut completed) = (Vec::new(), 0);
    let mut take = |lane: &mut Lane, count: u64| {
        for _ in 0..count {
            let mut answer = None;
            wait_until("an answer", || {
                answer = lane.link.answers.take();
                answer.is_some()
            });
            match answer.unwrap() {
                FromStore::Stored(pending_event, posting) => {
                    let watch = pending_event.watch.unwrap();
                    lane.tell(Completion::Begins { watch, consumer });
                    lane.tell(Completion::ForAll { watch });
                    stored.push(posting);
                }
                FromStore::NotStored(..) => panic!("there is room"),
                FromStore::Completion(_) => completed += 1,
                FromStore::Again(_) => panic!("no consumer requested it"),
            }
        }
    };
    let send = |lane: &mut Lane, posting| {
        let pending_event = pending_event(SOURCE, vec![1; 10]);
        lane.link.messages.send(ToStore::Event(Posting { pending_event, posting, is_awaited: true })).ok().unwrap();
    };
    for first in (0..EVENTS).step_by(1_000) {
        (first..first + 1_000).for_each(|posting| send(&mut lane, posting));
        take(&mut lane, 1_000);
    }
    // All that were kept have gone, and the lane is notified of each.
    lane.tell(Completion::Gone { consumer });
    send(&mut lane, EVENTS);
    wait_until("the store to have no room for its answers", || lane.link.answers.waiting() == ANSWERS_MAX);
    take(&mut lane, EVENTS + 1);
    assert!(stored.is_sorted() && stored.len() as u64 == EVENTS + 1 && completed == EVENTS);
    lane.end();
}

/// Each channel numbers its proxies itself: that one was gone was taken for all that had its number, and their events were forgotten.
#[test]
fn a_consumer_that_is_gone_takes_nothing_from_one_of_the_same_number_in_another_channel() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let consumers = [3, 4].map(|channel| ProxyKey { channel: ChannelId(channel), proxy: ProxyId(7) });
    let numbers = consumers.map(|consumer| {
        lane.send_from(ProxyKey { proxy: ProxyId(5), ..consumer }, vec![1; 10]);
        let watch = lane.answer().unwrap();
        // There is no memory for it, so that no consumer on the lane has it.
        lane.tell(Completion::Begins { watch, consumer });
        lane.tell(Completion::Begun { watch, bridges: 0 });
        lane.tell(Completion::ForAll { watch });
        watch
    });
    lane.tell(Completion::Gone { consumer: consumers[0] });
    lane.end();
    let lane = device.lane(1 << 30);
    let left: Vec<_> = lane.restored.iter().map(|event| (event.number, event.consumers.as_deref())).collect();
    assert_eq!(left, [(numbers[1].get(), Some(&[ProxyId(7)][..]))]);
}

#[test]
fn beyond_what_may_be_kept_events_are_refused_until_some_have_gone() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(10_000);
    let mut numbers = Vec::new();
    let refused = loop {
        lane.send(vec![0; 1_000]);
        match lane.answer() {
            Ok(number) => numbers.push(number),
            Err(why) => break why,
        }
    };
    assert_eq!((refused, numbers.len()), (StoreRefusal::Full, 9));
    lane.complete(numbers[4]);
    let mut outcome = Err(StoreRefusal::Full);
    wait_until("room for another", || {
        lane.send(vec![0; 1_000]);
        outcome = lane.answer();
        outcome.is_ok()
    });
    assert!(outcome.unwrap() > numbers[8]);
    wait_until("it to be counted", || lane.counters.read(Counter::EventsStored) == 9);
    lane.end();
}

#[test]
fn beyond_what_may_be_on_disk_events_are_refused_until_those_that_are_kept_have_a_quarter_of_it() {
    let device = SimulatedDevice::default();
    let disk_bytes_max = 16 << 20;
    let mut lane = device.limited(StoreLimits { disk_bytes_max, ..limits(1 << 30) });
    let mut numbers = VecDeque::new();
    let refused = loop {
        lane.send(vec![0; 100_000]);
        match lane.answer() {
            Ok(number) => numbers.push_back(number),
            Err(why) => break why,
        }
    };
    assert_eq!(refused, StoreRefusal::Full);
    assert!(numbers.len() > 42, "{}", numbers.len());
    let on_disk = |lane: &Lane| lane.counters.read(Counter::StoreDiskBytes);
    assert!(on_disk(&lane) >= disk_bytes_max);
    let most = on_disk(&lane);
    // As they go there is room again, and not before.
    while numbers.len() > 40 {
        lane.complete(numbers.pop_front().unwrap());
    }
    let mut outcome = Err(StoreRefusal::Full);
    wait_until("room for another", || {
        lane.send(vec![0; 100_000]);
        outcome = lane.answer();
        outcome.is_ok()
    });
    numbers.push_back(outcome.unwrap());
    for _ in 0..500 {
        lane.complete(numbers.pop_front().unwrap());
        wait_until("room for another", || {
            lane.send(vec![0; 100_000]);
            lane.answer().is_ok_and(|number| {
                numbers.push_back(number);
                true
            })
        });
    }
    assert!(on_disk(&lane) < 2 * most, "{} after {most}", on_disk(&lane));
    lane.end();
}

/// The lane that was woken by an answer ran before the store went on: by the time that looked, the supplier, alone as it was, had pushed
/// again, and was taken for another. The store then waited in vain, in one event of ten, for half of what a batch takes.
#[test]
fn a_supplier_that_has_pushed_again_is_not_waited_for() {
    let waker = Arc::new(Waker::new().unwrap());
    let (introductions, introduced) = mailbox(&waker, 1);
    let mut reception =
        Reception { waker: Arc::clone(&waker), introductions, restored: None, origins_seen: Vec::new(), desk: None };
    let (mut link, slot) = journal::link(LaneThread::MAIN, &waker, &mut reception);
    reception.introductions.send(slot).ok().unwrap();
    let mut journal = Journal::new(introduced, 1, (1 << 30, limits(0).dead_letters));
    let mut send = || {
        let posting = Posting { pending_event: pending_event(SOURCE, vec![1; 10]), posting: 0, is_awaited: false };
        link.messages.send(ToStore::Event(posting)).ok().unwrap();
    };
    let gathering = Gathering { answered: 1, until: time::now() + testing::PATIENCE };
    let missing = |journal: &Journal| {
        gathering.waits(journal.awaited(), journal.posted_before_answers()).map(|(missing, _)| missing)
    };
    send();
    journal.receive();
    journal.note_written();
    send();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (1, None));
    // Another one has pushed while that was written, so the one that is answered now is waited for, until it has pushed, too.
    send();
    journal.note_written();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (1, Some(1)));
    send();
    journal.receive();
    assert_eq!((journal.awaited(), missing(&journal)), (2, None));
}

/// Asked with each, the file had a new time of its last change, and each synchronisation took half as long again.
#[test]
fn how_large_the_file_is_is_not_asked_with_each_batch_of_events() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let size_queries = device.with(|state| state.size_queries);
    let writes = lane.counters.read(Counter::StoreWrites);
    for _ in 0..200 {
        lane.send(vec![1; 100]);
        lane.answer().unwrap();
    }
    wait_until("all to be counted", || lane.counters.read(Counter::EventsStored) == 200);
    assert_eq!(lane.counters.read(Counter::StoreWrites) - writes, 200);
    assert!(device.with(|state| state.size_queries) - size_queries < 20);
    lane.end();
}

/// With each batch of events that was written, too, it took as many pages again.
#[test]
fn an_event_that_all_have_goes_before_long_however_many_are_written_meanwhile() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    lane.send(vec![1; 10]);
    let first = lane.answer().unwrap();
    lane.complete(first);
    wait_until("the first event to be gone from the disk", || {
        lane.send(vec![2; 10]);
        lane.answer().unwrap();
        let device = device.stored();
        let mut disk = Disk::on(move || device.clone()).unwrap();
        let mut is_there = false;
        let look = |number, _: Option<&[u8]>, _: &[u8]| {
            is_there |= number == first.get();
            ControlFlow::Continue(())
        };
        disk.each_event(0, look).unwrap();
        !is_there
    });
    lane.end();
}

#[test]
fn the_disk_is_not_synchronised_more_often_than_it_may_be() {
    let device = SimulatedDevice::default();
    let sync_interval = Duration::from_millis(300);
    let mut lane = device.limited(StoreLimits { sync_interval, ..limits(1 << 30) });
    let (began, mut rounds) = (time::now(), 0);
    while time::since(began) < 4 * sync_interval {
        (0..3).for_each(|event| lane.send(vec![event; 100]));
        (0..3).for_each(|_| _ = lane.answer().unwrap());
        rounds += 1;
    }
    let writes = lane.counters.read(Counter::StoreWrites);
    assert!(time::since(began) >= sync_interval * u32::try_from(writes).unwrap(), "{writes} in {rounds} rounds");
    assert!(writes >= 1);
    lane.end();
}

#[test]
fn the_unconfirmed_consumers_of_a_restored_event_are_written_again_where_some_are_gone() {
    let device = SimulatedDevice::default();
    let consumer = |proxy| ProxyKey { channel: SOURCE.channel, proxy: ProxyId(proxy) };
    let mut lane = device.lane(1 << 30);
    let numbers = [(); 2].map(|()| {
        lane.send(vec![7; 10]);
        lane.answer().unwrap()
    });
    let tell = |lane: &mut Lane, watch, all: &[u32]| {
        all.iter().for_each(|proxy| lane.tell(Completion::Begins { watch, consumer: consumer(*proxy) }));
        lane.tell(Completion::Begun { watch, bridges: 0 });
    };
    numbers.iter().for_each(|watch| tell(&mut lane, *watch, &[7, 8]));
    lane.end();
    let mut lane = device.lane(1 << 30);
    tell(&mut lane, numbers[0], &[7, 8]);
    tell(&mut lane, numbers[1], &[8]);
    lane.end();
    let lane = device.lane(1 << 30);
    let lists: Vec<Option<Vec<u32>>> = found(&lane).into_values().map(|(list, _)| list).collect();
    assert_eq!(lists, [Some(vec![7, 8]), Some(vec![8])]);
    lane.end();
}

#[test]
fn events_that_cannot_be_read_at_the_start_are_read_when_they_can_be_each_once_and_in_order() {
    const EVENTS: u64 = 10_000;
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    (0..EVENTS).for_each(|event| lane.send(event.to_le_bytes().repeat(128)));
    let last = (0..EVENTS).map(|_| lane.answer().unwrap()).last().unwrap();
    lane.end();
    // More than what is read in advance, and than what the engine has in memory.
    let mut lane = device.limited(limits(1 << 30));
    assert!(lane.take_chunk());
    device.with(|state| state.left = Some(0));
    while lane.counters.read(Counter::StoreFailures) == 0 {
        lane.take_chunk_within(Duration::from_millis(1));
    }
    assert!(lane.restored.len() < 10_000, "{}", lane.restored.len());
    device.with(|state| state.left = None);
    let mut lane = lane.with_all();
    let numbers: Vec<u64> = lane.restored.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=EVENTS).collect::<Vec<_>>());
    assert!(lane.restored.iter().zip(0_u64..).all(|(event, at)| event.record.ends_with(&at.to_le_bytes())));
    // What is new has numbers behind those.
    lane.send(vec![1]);
    assert_eq!(lane.answer().unwrap().get(), last.get() + 1);
    lane.end();
}

/// Each had one of its own: of a million events that was a tenth of the memory, and of the time that a start took.
#[test]
fn events_that_the_same_are_yet_to_confirm_share_the_list_of_these() {
    let lists: [Option<&[u32]>; 7] = [None, Some(&[7]), Some(&[7]), None, Some(&[7]), Some(&[8, 7]), Some(&[])];
    let mut chunk = Chunk::default();
    for (list, number) in lists.iter().zip(1..) {
        let octets = list.map(|list| list.iter().flat_map(|proxy| proxy.to_le_bytes()).collect::<Vec<u8>>());
        chunk.push(number, octets.as_deref(), &[u8::try_from(number).unwrap(); 3]);
    }
    let mut found = Vec::new();
    chunk.each(|number, list, record| {
        assert_eq!(record, [u8::try_from(number).unwrap(); 3]);
        found.push(list);
    });
    let sorted = |list: &[u32]| {
        let mut list: Vec<ProxyId> = list.iter().map(|proxy| ProxyId(*proxy)).collect();
        list.sort_unstable();
        list
    };
    assert!(found.iter().zip(lists).all(|(found, list)| found.as_deref() == list.map(sorted).as_deref()));
    assert!(found[1].as_ref().zip(found[4].as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
}

/// However few octets the events themselves have.
#[test]
fn a_chunk_is_full_when_it_has_long_lists() {
    let mut chunk = Chunk::default();
    let mut count = 0_u64;
    while !chunk.is_full() {
        count += 1;
        chunk.push(count, Some(&u32::try_from(count).unwrap().to_le_bytes().repeat(10_000)), &[1]);
    }
    assert_eq!(count, 27);
}

#[test]
fn the_store_waits_for_those_it_has_answered_and_no_longer_than_it_may() {
    let hour = Duration::from_secs(3_600);
    let gathering = Gathering { answered: 3, until: time::now() + hour };
    // Two had come while it wrote.
    let waits: Vec<bool> = [2, 3, 4, 5, 6].map(|awaited| gathering.waits(awaited, 2).is_some()).into();
    assert_eq!(waits, [true, true, true, false, false]);
    // Where very many come, more are there before long than it pays to wait for: it waited for a third of the time.
    let gathering = Gathering { answered: 1_000, until: time::now() + hour };
    assert_eq!((gathering.waits(ENOUGH - 1, 0).is_some(), gathering.waits(ENOUGH, 0)), (true, None));
    // A supplier that is alone is not kept waiting.
    let gathering = Gathering { answered: 1, until: time::now() + hour };
    assert_eq!((gathering.waits(0, 0), gathering.waits(1, 0)), (None, None));
    let gathering = Gathering { answered: 3, until: time::now() };
    assert_eq!(gathering.waits(1, 0), None);
}
