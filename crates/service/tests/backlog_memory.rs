//! Holds the service to its promise that what waits on disk takes no memory for each event, however long its consumer or link is away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use core::sync::atomic::{AtomicI64, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};

use client::naming::{NameComponent, NamingContext};
use client::notify::{
    ClientType, EventChannel, SequenceProxyPushConsumer, StructuredEvent, StructuredProxyPullSupplier,
};
use client::{Orb, OrbOptions};
use service::{Config, Counter, DeclaredChannel, DeclaredValue, LinkEntry, Service, StoreConfig};
use testing::{TempPath, own_loopback, wait_until};

/// Octets that are allocated.
static LIVE: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

fn add(octets: usize, sign: i64) {
    LIVE.fetch_add(sign * i64::try_from(octets).unwrap_or(0), Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "a global allocator cannot be written without it")]
// SAFETY: every call is passed unchanged to the system's allocator, which keeps GlobalAlloc's contract; the counter is a static.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: the caller keeps `alloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(layout.size(), -1);
        // SAFETY: as above; the pointer came from this allocator, hence from the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const FEW: u64 = 20_000;
const MANY: u64 = 100_000;
/// What the others may add: 105 octets each, of which half is for the store's cache of 4 MiB that fills meanwhile.
const MORE_OCTETS: i64 = 8 << 20;
/// Events that may be in memory. Half of the channel's budget has place for 7,800.
const IN_MEMORY: u64 = 10_000;
const AT_ONCE: usize = 500;

/// One after the other, since memory is counted of all threads.
#[test]
fn events_on_disk_take_no_memory_whoever_is_away_and_whatever_was_promised_of_them() {
    for is_persistent in [false, true] {
        for is_link in [false, true] {
            holds_for(is_persistent, is_link);
        }
    }
}

fn holds_for(is_persistent: bool, is_link: bool) {
    let of = format!("persistent {is_persistent}, link {is_link}");
    let folder = TempPath::new("backlog-memory");
    let properties = [("MemoryBudget", 4 << 20), ("EventReliability", i64::from(is_persistent))];
    let properties = properties.map(|(name, value)| (name.to_owned(), DeclaredValue::Number(value))).into();
    let place = own_loopback();
    // No service is there.
    let link = LinkEntry {
        name: "away".into(),
        to: format!("{place}:2816"),
        channels: vec!["Kept".into()],
        ..LinkEntry::default()
    };
    let service = Service::start(Config {
        listen: format!("{place}:0"),
        store: StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() },
        channels: vec![DeclaredChannel { name: "Kept".into(), properties, lane: Vec::new(), timers: Vec::new() }],
        link: if is_link { vec![link] } else { Vec::new() },
        ..Config::default()
    })
    .unwrap();
    let naming = Orb::new(OrbOptions::default()).resolve_at(&service.address().to_string(), "NameService").unwrap();
    let kept = NamingContext::unchecked(naming).resolve(&[NameComponent::new("Kept")]).unwrap();
    let channel = EventChannel::unchecked(kept);
    let consumer = (!is_link).then(|| {
        let admin = channel.default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_pull_consumer(None).unwrap();
        proxy
    });
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Sequence).unwrap();
    let supplier = SequenceProxyPushConsumer::unchecked(proxy.object().clone());
    supplier.connect_sequence_push_supplier(None).unwrap();
    let events = vec![StructuredEvent::new("Plant", "Alarm", ""); AT_ONCE];
    let read = |counter| service.counters().read(counter);
    let live = || LIVE.load(Ordering::Relaxed);
    let publish = |from: u64, until: u64| {
        for sent in (from..until).step_by(AT_ONCE) {
            supplier.push_structured_events(&events).unwrap();
            // A link drops what comes faster than the disk takes it.
            wait_until(format_args!("{sent} events, {of}: {} are on disk", read(Counter::OverflowEvents)), || {
                read(Counter::OverflowEvents) + read(Counter::Dropped) + IN_MEMORY >= sent
            });
        }
        let stored = || read(Counter::EventsStored) + read(Counter::Dropped);
        wait_until(format_args!("{until} events to be stored, {of}: {}", stored()), || {
            !is_persistent || stored() == until
        });
    };
    publish(0, FEW);
    let few = live();
    publish(FEW, MANY);
    wait_until(format_args!("memory to be as before, {of}: {} octets more", live() - few), || {
        live() <= few + MORE_OCTETS
    });
    assert!(read(Counter::OverflowEvents) > MANY / 2, "{of}");
    let Some(consumer) = consumer else { return };
    assert_eq!(read(Counter::Dropped), 0);
    assert!(consumer.try_pull_structured_event().unwrap().is_some(), "what waits is given to its consumer");
    consumer.disconnect_structured_pull_supplier().unwrap();
    wait_until(format_args!("nothing to be kept any more, {of}"), || {
        [Counter::EventsStored, Counter::OverflowEvents].map(read) == [0, 0]
    });
    assert_eq!(read(Counter::Dropped), MANY - 1);
}
