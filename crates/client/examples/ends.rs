//! A publisher and a consumer with nothing between them, to be counted: what the client itself costs for each event.
//!
//! ```text
//! cargo build --release -p campanile-client --example ends
//! valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file=ends.out target/release/examples/ends windowed 100000
//! ```
//!
//! Thread 1 publishes, the one that is called `client-servant` consumes. Two runs of different lengths give the cost of an event as their
//! difference. Ways: `two-way`, `windowed`, `early` (windowed, answered before it is handled), `one-way`, `sequence`, and
//! `typed`, windowed with events that are structs and are decoded.

#![expect(clippy::print_stdout, reason = "it is a program")]

use campanile_client::notify::{CallbackConsumer, ClientType, Delivery, Property, StructuredEvent, events_of};
use campanile_client::{Answers, InvokeError, Orb, OrbOptions, Publisher, PublisherOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn main() -> Result<(), InvokeError> {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().unwrap_or_else(|| "windowed".to_owned());
    let events = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000_u64);
    let form = if way == "sequence" { ClientType::Sequence } else { ClientType::Structured };
    let handled = Arc::new(AtomicU64::new(0));
    let counting = handled.clone();
    let decodes = way == "typed";
    let consumer = CallbackConsumer::new(form, move |delivery: Delivery<'_>| {
        let count = match delivery {
            Delivery::Batch(batch) => events_of(batch)?.map(|event| event.map(|_| 1)).sum::<Result<u64, _>>()?,
            Delivery::Structured(mut event) if decodes => {
                u64::from(!StructuredEvent::read(&mut event)?.domain.is_empty())
            }
            _ => 1,
        };
        counting.fetch_add(count, Ordering::Relaxed);
        Ok(())
    });
    let activation = Orb::new(OrbOptions::default()).activate(Arc::new(consumer.answering_early(way == "early")))?;
    let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
    event.filterable_data.push(Property::new("celsius", 11.5_f64));
    let began = Instant::now();
    if way == "two-way" {
        let object = activation.reference().with_private_connection();
        for _ in 0..events {
            object.invoke("push_structured_event", |w| w.raw(&[7; 128]))?;
        }
    } else {
        let answers = if way == "one-way" { Answers::OneWay } else { Answers::Windowed { unanswered_max: 256 } };
        let options = PublisherOptions {
            answers,
            gather_events_max: 64,
            gather_time_max: Duration::MAX,
            ..PublisherOptions::default()
        };
        let mut publisher = Publisher::new(activation.reference(), form, options)?;
        for _ in 0..events {
            if decodes || form == ClientType::Sequence {
                publisher.publish(&event)?;
            } else {
                publisher.publish_written(|w| w.raw(&[7; 128]))?;
            }
        }
        let counters = publisher.close();
        println!("{counters:?}");
    }
    let took = began.elapsed();
    println!(
        "{way}: {events} events, {} handled, {:.0} ns each",
        handled.load(Ordering::Relaxed),
        took.as_secs_f64() * 1e9 / events as f64
    );
    Ok(())
}
