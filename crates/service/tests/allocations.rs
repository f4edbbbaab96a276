//! Holds the lane to its promise: in the steady state an event costs no allocation, whoever it goes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::notify::{ClientType, StructuredEvent};
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier};
use service::allocations::CountingAllocator;
use service::{Config, Counter, Service};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Events pushed before counting begins, so that buffers and tables have grown to what they need.
const WARM_UP: u64 = 2_000;
const COUNTED: u64 = 20_000;

#[test]
fn an_event_costs_no_allocation_in_the_steady_state() {
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
    let url = service.corbaloc("NotificationService");
    let received = Arc::new(AtomicU64::new(0));
    // Two that take it as it comes, one for which it is translated.
    let consumers: Vec<SimpleConsumer> = [ClientType::Structured, ClientType::Structured, ClientType::Any]
        .into_iter()
        .map(|form| {
            let received = Arc::clone(&received);
            let options = ConsumerOptions { form, ..ConsumerOptions::default() };
            SimpleConsumer::connect(&url, None, options, move |_| {
                received.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .unwrap()
        })
        .collect();
    let supplier = SimpleSupplier::connect(&url, None).unwrap();
    let event = StructuredEvent::new("Test", "Steady", "");
    let allocations = || service.counters().read(Counter::Allocations);
    // The supplier stays at most `ahead` events before the slowest consumer: a backlog that grows takes memory, rightly.
    let push = |events: u64, ahead: u64| {
        let before = received.load(Ordering::Relaxed);
        for number in 0..events {
            supplier.publish(&event).unwrap();
            wait_until(|| received.load(Ordering::Relaxed) + 3 * ahead >= before + 3 * number);
        }
        wait_until(|| received.load(Ordering::Relaxed) == before + 3 * events);
        let done = service.counters().read(Counter::EventsIn) * 3;
        wait_until(|| service.counters().read(Counter::Delivered) == done);
    };
    push(WARM_UP, 100);
    assert!(allocations() > 0, "the counting allocator counts");
    let before = allocations();
    push(COUNTED, 10);
    let per_event = (allocations() - before) as f64 / COUNTED as f64;
    assert_eq!(per_event, 0.0, "{} allocations for {COUNTED} events", allocations() - before);
    drop(consumers);
}
