//! What the lowest layer promises about the path of an event: no allocation in the steady state, at either end.

use campanile_client::notify::{CallbackConsumer, ClientType, Delivery, Property, StructuredEvent, events_of};
use campanile_client::{Answers, Orb, OrbOptions, Publisher, PublisherOptions, Servant, ServantError};
use giop::cdr::{Reader, Writer};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testing::{Counting, allocations, wait_until};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Consumer {
    bytes: AtomicU64,
    /// Of the thread that serves the connection, as of the last event.
    allocations: AtomicU64,
}

impl Servant for Consumer {
    fn type_id(&self) -> &str {
        "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0"
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _: &mut Writer<'_>) -> Result<(), ServantError> {
        assert_eq!(operation, "push_structured_event");
        self.bytes.fetch_add(args.rest().len() as u64, Ordering::Relaxed);
        self.allocations.store(allocations(), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn push_with_its_priority_and_its_reply_allocate_nothing() {
    const EVENTS: u64 = 1000;
    let consumer = Arc::new(Consumer::default());
    let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 0 };
    let activation = Orb::new(OrbOptions::default()).activate_at(consumer.clone(), Some(policy)).unwrap();
    let reference = activation.reference().ior().to_string();
    let object =
        Orb::new(OrbOptions::default()).resolve(&reference).unwrap().with_private_connection().with_priority(5);
    let payload = [7; 368];
    let push = || drop(object.invoke("push_structured_event", |w| w.raw(&payload)).unwrap());
    for _ in 0..10 {
        push();
    }
    let before = (allocations(), consumer.allocations.load(Ordering::Relaxed));
    for _ in 0..EVENTS {
        push();
    }
    let after = (allocations(), consumer.allocations.load(Ordering::Relaxed));
    assert_eq!(after, before, "at the supplier's end, at the consumer's end");
    assert_eq!(consumer.bytes.load(Ordering::Relaxed), (EVENTS + 10) * 368);
}

/// How often the buffers of both ends can grow: the publisher has three, of requests, of those unanswered and of where each ends,
/// and the consumer one of replies and one of those answered early. Each doubles from at least 64 octets to 256 KiB at most.
const GROWTHS_MAX: u64 = 5 * 12;

#[test]
fn events_published_without_waiting_allocate_nothing_at_either_end() {
    const EVENTS: u64 = 20_000;
    let windowed = Answers::Windowed { unanswered_max: 128 };
    for (form, answers, early) in [
        (ClientType::Structured, windowed, false),
        (ClientType::Structured, windowed, true),
        (ClientType::Structured, Answers::OneWay, false),
        (ClientType::Sequence, windowed, false),
        (ClientType::Sequence, Answers::OneWay, false),
    ] {
        let (pushes, at_consumer) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, of_thread) = (pushes.clone(), at_consumer.clone());
        let consumer = CallbackConsumer::new(form, move |delivery: Delivery<'_>| {
            let count = match delivery {
                Delivery::Batch(batch) => events_of(batch)?.map(|event| event.map(|_| 1)).sum::<Result<u64, _>>()?,
                _ => 1,
            };
            of_thread.store(allocations(), Ordering::Relaxed);
            counted.fetch_add(count, Ordering::Release);
            Ok(())
        });
        let consumer = Arc::new(consumer.answering_early(early));
        let activation = Orb::new(OrbOptions::default()).activate(consumer).unwrap();
        let options = PublisherOptions { answers, gather_events_max: 32, ..PublisherOptions::default() };
        let mut publisher = Publisher::new(activation.reference(), form, options).unwrap();
        let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        event.filterable_data.push(Property::new("celsius", 11.5_f64));
        event.filterable_data.push(Property::new("site", "north"));
        let mut pass = |count: u64| {
            for number in 0..count {
                // By hand, and of a struct.
                if number % 2 == 0 {
                    publisher.publish_written(|w| event.write(w)).unwrap();
                } else {
                    publisher.publish(&event).unwrap();
                }
            }
            let counters = publisher.sync();
            assert_eq!(counters.lost(), 0);
            // Those that are answered early are handled a little later.
            wait_until("all events to be handled", || pushes.load(Ordering::Acquire) >= counters.published);
            (allocations(), at_consumer.load(Ordering::Relaxed))
        };
        // It used to be the third pass that was to allocate nothing, and beside other work it did now and then: how many pushes
        // are under way at once, and how far a socket fills, is up to the scheduling of threads, and may be more in any
        // pass than in those before. Buffers double, so that this happens a few times at most. What costs something in
        // each pass is found all the same, since then there is none that costs nothing.
        let mut before = pass(EVENTS);
        let mut grown = 0;
        loop {
            let after = pass(EVENTS);
            let costs = (after.0 - before.0) + (after.1 - before.1);
            if costs == 0 {
                break;
            }
            grown += costs;
            assert!(grown <= GROWTHS_MAX, "{grown} allocations and no end: {form:?} {answers:?}, early {early}");
            before = after;
        }
    }
}
