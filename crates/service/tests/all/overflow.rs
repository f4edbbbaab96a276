//! Backlogs that go on on disk, on a service in this process.

use client::notify::{Property, StructuredProxyPushSupplier};
use service::{Counter, Service};

use crate::peers::{Bare, await_count, numbered, subscribe_to, wait_until};
use crate::persistent::{Folder, factory, number, persistent, supplier, suspend};

/// A channel with little memory.
fn small_channel(service: &Service, more: &[Property]) -> i32 {
    let mut qos = vec![Property::new("MemoryBudget", 200_000_u64)];
    qos.extend_from_slice(more);
    factory(service).create_channel(&qos, &[]).unwrap().1
}

/// Files of backlogs.
fn files(folder: &Folder) -> usize {
    std::fs::read_dir(folder.path().join("overflow")).unwrap().count()
}

fn large(number: i32) -> client::notify::StructuredEvent {
    let mut event = numbered(number);
    event.remainder = "x".repeat(1_000).as_str().into();
    event
}

#[test]
fn a_consumer_that_sleeps_blocks_no_supplier_and_gets_everything_in_order_afterwards() {
    let folder = Folder::new("asleep");
    let service = folder.start(&folder.config(), None);
    let id = small_channel(&service, &[]);
    let [slow, quick] = [(); 2].map(|()| Bare::new());
    let held = suspend(&subscribe_to(&service, Some(id), slow.reference(), &[]));
    subscribe_to(&service, Some(id), quick.reference(), &[]);
    let from = supplier(&service, id);
    let mut link = None;
    for sent in 0..1_000 {
        from.push_structured_event(&large(sent)).unwrap();
        let link = link.get_or_insert_with(|| quick.accept());
        assert_eq!(number(&link.accept_push()), sent);
    }
    wait_until("what there is no memory for to be on disk", || service.counters().read(Counter::OverflowEvents) > 800);
    let read = |counter| service.counters().read(counter);
    assert!(files(&folder) > 0 && read(Counter::OverflowBytes) > 800_000);
    wait_until("that to be counted", || read(Counter::Overflowed) > 800);
    held.resume_connection().unwrap();
    let mut link = slow.accept();
    for expected in 0..1_000 {
        assert_eq!(number(&link.accept_push()), expected);
    }
    await_count(&service, Counter::OverflowEvents, 0);
    wait_until("the files to be removed", || files(&folder) == 0);
    assert_eq!(service.counters().read(Counter::Dropped), 0);
    // What comes then goes as ever.
    from.push_structured_event(&large(1_000)).unwrap();
    assert_eq!(number(&link.accept_push()), 1_000);
}

#[test]
fn persistent_events_of_a_backlog_on_disk_survive_a_stop_and_come_in_order() {
    let folder = Folder::new("asleep-persistent");
    let config = folder.config();
    let service = folder.start(&config, None);
    let id = small_channel(&service, &[persistent()]);
    let slow = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), slow.reference(), &[]));
    let from = supplier(&service, id);
    // More than are read at a time, and than there is memory for.
    (0..1_300).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    await_count(&service, Counter::EventsStored, 1_300);
    let service = folder.start(&config, Some(service));
    await_count(&service, Counter::EventsRestored, 1_300);
    let _ = held.resume_connection().or_else(|_| held.resume_connection());
    let mut link = slow.accept();
    for expected in 0..1_300 {
        assert_eq!(number(&link.accept_push()), expected);
    }
    await_count(&service, Counter::EventsStored, 0);
    await_count(&service, Counter::OverflowEvents, 0);
}

#[test]
fn when_the_disk_budget_is_spent_suppliers_are_blocked_until_there_is_room() {
    let folder = Folder::new("asleep-full");
    let service = folder.start(&folder.config(), None);
    let id = small_channel(&service, &[Property::new("OverflowBudget", 300_000_u64)]);
    let slow = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), slow.reference(), &[]));
    let from = supplier(&service, id);
    let pushing = std::thread::spawn(move || {
        (0..1_000).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    });
    wait_until("a supplier to be blocked", || service.counters().read(Counter::SuppliersBlocked) > 0);
    held.resume_connection().unwrap();
    let mut link = slow.accept();
    for expected in 0..1_000 {
        assert_eq!(number(&link.accept_push()), expected);
    }
    pushing.join().unwrap();
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

/// A `HoldTimeout` of 30 s ended connections that only their consumers, an expiry or an operator are to end.
#[test]
fn a_persistent_consumer_that_takes_nothing_stays_and_loses_what_there_is_no_room_for_and_suppliers_go_on() {
    let folder = Folder::new("asleep-waited-out");
    let service = folder.start(&folder.config(), None);
    let id = small_channel(&service, &[persistent(), Property::new("OverflowBudget", 300_000_u64)]);
    let mute = Bare::new();
    let hasty = Property::new("HoldTimeout", 1_000_000_u64);
    subscribe_to(&service, Some(id), mute.reference(), &[hasty]);
    let from = supplier(&service, id);
    (0..1_000).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    let read = |counter| service.counters().read(counter);
    await_count(&service, Counter::ConsumersWaitedOut, 1);
    let dropped = || i32::try_from(read(Counter::DroppedWaitedOut)).unwrap();
    // The store's thread learns of those in its own time.
    wait_until("what was dropped to be forgotten", || {
        read(Counter::EventsStored) + u64::from(dropped().unsigned_abs()) == 1_000
    });
    assert!((300..900).contains(&dropped()), "{}", dropped());
    let lost = dropped();
    let mut link = mute.accept();
    let mut last = -1;
    for _ in 0..1_000 - lost {
        let next = number(&link.accept_push());
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    await_count(&service, Counter::EventsStored, 0);
    assert_eq!([Counter::ConsumersGivenUp, Counter::ConsumersHolding].map(read), [0, 0]);
    // What comes then goes as ever.
    from.push_structured_event(&large(1_000)).unwrap();
    assert_eq!(number(&link.accept_push()), 1_000);
}

/// A client could have a channel's `OverflowBudget` set to all there is on the disk, and others' persistent events were refused.
#[test]
fn backlogs_of_all_channels_together_keep_to_a_bound_whatever_their_budgets() {
    let folder = Folder::new("asleep-all");
    let mut config = folder.config();
    config.store.overflow_bytes_max = 1 << 20;
    let service = folder.start(&config, None);
    let id = small_channel(&service, &[Property::new("OverflowBudget", 1_u64 << 40)]);
    let slow = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), slow.reference(), &[]));
    let from = supplier(&service, id);
    let pushing = std::thread::spawn(move || {
        (0..1_500).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    });
    let read = |counter| service.counters().read(counter);
    wait_until("there to be no room on the disk", || read(Counter::ChannelsShortOfDisk) > 0);
    wait_until("a supplier to be blocked", || read(Counter::SuppliersBlocked) > 0);
    assert!(read(Counter::OverflowBytes) <= 1 << 20, "{}", read(Counter::OverflowBytes));
    held.resume_connection().unwrap();
    let mut link = slow.accept();
    for expected in 0..1_500 {
        assert_eq!(number(&link.accept_push()), expected);
    }
    pushing.join().unwrap();
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

/// Its proxy is gone, and so is what waited for it.
#[test]
fn what_waits_on_disk_for_a_consumer_that_disconnects_is_dropped_and_counted() {
    let folder = Folder::new("asleep-gone");
    let service = folder.start(&folder.config(), None);
    let id = small_channel(&service, &[persistent()]);
    let slow = Bare::new();
    let held = suspend(&subscribe_to(&service, Some(id), slow.reference(), &[]));
    let from = supplier(&service, id);
    (0..400).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    await_count(&service, Counter::EventsStored, 400);
    StructuredProxyPushSupplier::unchecked(held.object().clone()).disconnect_structured_push_supplier().unwrap();
    await_count(&service, Counter::DroppedRemoved, 400);
    await_count(&service, Counter::EventsStored, 0);
    await_count(&service, Counter::OverflowEvents, 0);
}
