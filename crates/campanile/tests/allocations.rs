//! Publishing a struct and receiving its octets allocates nothing in the steady state.

use campanile::raw::RawConsumer;
use campanile::{Declared, Event, EventForm, Settings, Supplier};
use service::{Config, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testing::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Event, Clone)]
struct Place {
    x: f64,
    y: f64,
}

#[derive(Event, Clone)]
struct Wind {
    speed: f64,
    station: String,
    history: Vec<Place>,
    gusts: Vec<f32>,
    calm: Option<bool>,
}

#[derive(Event, Clone)]
struct Rain {
    mm: u32,
}

/// The same with less: it is made anew.
mod narrow {
    #[derive(campanile::Event)]
    pub(crate) struct Wind {
        pub(crate) station: String,
    }
}

#[test]
fn publishing_structs_and_receiving_octets_allocate_nothing() {
    let listen = format!("{}:0", testing::own_loopback());
    let service = Service::start(Config { listen, ..Config::default() }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    let place = Place { x: 1.0, y: 2.0 };
    let wind = Wind {
        speed: 11.5,
        station: "Überlingen".into(),
        history: vec![place.clone(), place],
        gusts: vec![1.0; 100],
        calm: Some(true),
    };
    let rain = Rain { mm: 7 };
    for event_form in [EventForm::Body, EventForm::Alma] {
        let settings = Settings { event_form, ..settings.clone() };
        let (arrived, at_consumer) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut consumer = RawConsumer::new("Allocations").settings(settings.clone());
        for of in [Wind::event_type(), narrow::Wind::event_type(), Rain::event_type()] {
            let (arrived, at_consumer) = (arrived.clone(), at_consumer.clone());
            consumer = consumer.on(&Declared::new(of, None, None).unwrap(), move |_| {
                at_consumer.store(allocations(), Ordering::Relaxed);
                arrived.fetch_add(1, Ordering::Release);
                Ok(())
            });
        }
        let _consumer = consumer.ready().unwrap();
        let supplier = Supplier::with("Allocations", &settings).unwrap();
        let mut published = 0;
        let mut pass = |count: u64| {
            for _ in 0..count {
                supplier.publish(&wind).unwrap();
                supplier.publish(&rain).unwrap();
            }
            published += count;
            testing::wait_until("all to arrive", || arrived.load(Ordering::Acquire) == 3 * published);
            (allocations(), at_consumer.load(Ordering::Relaxed))
        };
        // Buffers double a few times at most; what costs something in each pass is found all the same.
        let mut before = pass(100);
        let is_free = (0..10).any(|_| {
            let after = pass(1000);
            after == core::mem::replace(&mut before, after)
        });
        assert!(is_free, "each of 10 passes costs: {before:?} with the form {event_form}");
    }
}
