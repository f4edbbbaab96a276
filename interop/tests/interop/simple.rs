//! The API of structs beside the orbs: each reads what it sends as their IDL's types, and what they send comes typed.

use campanile::raw::{RawConsumer, RawSupplier};
use campanile::{Consumer, Declared, Event, EventForm, Next, Settings, Supplier};
use service::{Config, NarrowCodeSet, Service};

use std::sync::Arc;
use std::time::Duration;

use interop::{Orb, Peer, channel_for_programs, further_consumer, service_with, supplier};

const CHANNEL: &str = "Simple";

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Colour:1.0")]
#[expect(non_camel_case_types, reason = "as in the IDL")]
enum Colour {
    red,
    green,
    blue,
    violet,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Point:1.0")]
struct Point {
    x: i32,
    y: i16,
    z: f64,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Line:1.0")]
struct Line {
    from: Point,
    weight: u8,
    to: Point,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Nested:1.0")]
struct Nested {
    name: String,
    outline: Line,
    tint: Colour,
    origin: Point,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Tree:1.0")]
struct Tree {
    leaf: i16,
    branches: Vec<Tree>,
    weight: f64,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(id = "IDL:campanile.org/CampanileTest/Block:1.0")]
struct Block {
    before: u8,
    data: Vec<u8>,
    after: u32,
}

/// The same as the orbs name it in structured events, where the type is the shape.
mod by_shape {
    use super::{Colour, Line, Point};

    #[derive(campanile::Event)]
    #[event(name = "nested", domain = "Campanile")]
    pub(crate) struct Nested {
        pub(crate) name: String,
        pub(crate) outline: Line,
        pub(crate) tint: Colour,
        pub(crate) origin: Point,
    }
}

fn settings(service: &Service, event_form: EventForm) -> Settings {
    let event_domain = if event_form == EventForm::Alma { "ALMA" } else { "" }.to_owned();
    Settings { server: service.address().to_string(), event_form, event_domain, ..Settings::default() }
}

/// A service with the channel of the API's making, and its id.
fn begin(config: Config) -> (Service, String) {
    let service = service_with(config);
    let id = channel_for_programs(&service, CHANNEL);
    (service, id)
}

/// A channel for what is published again, and its id.
fn second(service: &Service, form: EventForm) -> (Settings, String) {
    (settings(service, form), channel_for_programs(service, "Again"))
}

fn inside(form: EventForm) -> &'static str {
    if form == EventForm::Alma { "data" } else { "body" }
}

/// Each struct comes from one orb, is published again as the Rust struct that it has become, and the other orb finds each field of it
/// as the first made it.
#[test]
fn what_an_orb_sends_comes_as_structs_and_what_is_published_is_to_an_orb_what_its_idl_says() {
    for ((from, to), form) in Orb::PAIRINGS.into_iter().zip([EventForm::Body, EventForm::Alma].into_iter().cycle()) {
        let (service, channel) = begin(Config::default());
        let (again, other) = second(&service, form);
        let words =
            format!("--form structured --inside {} --scenario nested,tree,block --count 30 --block 4000", inside(form));
        let checks: Peer = further_consumer(to, &service, &other, &words);
        let publish = Arc::new(Supplier::with("Again", &again).unwrap());
        let (nested, tree, block) = (publish.clone(), publish.clone(), publish);
        let consumer = Consumer::new(CHANNEL).settings(settings(&service, form));
        let consumer = consumer.on_trouble(|trouble| panic!("{trouble}"));
        let consumer = consumer.on(move |event: Nested| nested.publish(&event).unwrap()).unwrap();
        let consumer = consumer.on(move |event: Tree| tree.publish(&event).unwrap()).unwrap();
        let _consumer = consumer.on(move |event: Block| block.publish(&event).unwrap()).unwrap().ready().unwrap();
        let sent = if form == EventForm::Alma { "structured --inside data" } else { "any" };
        let words = format!("--form {sent} --scenario nested,tree,block --count 30 --block 4000");
        supplier(from, &service, &channel, &words).end().well();
        checks.end().received_all(30);
    }
}

/// As octets, with the types that come: every shape that is a struct.
#[test]
fn every_type_of_an_orb_goes_through_as_octets() {
    const SHAPES: &str = "primitives,nested,unions,sequences,wide,unicode,block,anys,tree,arrays,references,typecodes";
    for (from, to) in Orb::PAIRINGS {
        let (service, channel) = begin(Config { narrow_code_set: NarrowCodeSet::Utf8, ..Config::default() });
        let (again, other) = second(&service, EventForm::Body);
        let words =
            format!("--form structured --inside body --chars utf-8 --scenario {SHAPES} --count 24 --block 4000");
        let checks = further_consumer(to, &service, &other, &words);
        let publish = RawSupplier::new("Again", &again).unwrap();
        let consumer = RawConsumer::new(CHANNEL).settings(again.clone()).on_trouble(|trouble| panic!("{trouble}"));
        let _consumer = consumer
            .on_any(move |event| {
                let declared = Declared::new(event.type_code, None, None).unwrap();
                publish.publish(&declared, event.cdr).unwrap();
                Ok(())
            })
            .ready()
            .unwrap();
        let words = format!("--form any --chars utf-8 --scenario {SHAPES} --count 24 --block 4000");
        supplier(from, &service, &channel, &words).end().well();
        checks.end().received_all(24);
    }
}

/// The same events as Anys, whose structs are named otherwise than their events, are what is expected.
#[test]
fn structured_events_of_an_orb_come_by_their_types_name_and_filters_reach_into_them() {
    for from in Orb::ALL {
        let (service, channel) = begin(Config::default());
        let consumer = || Consumer::new(CHANNEL).settings(settings(&service, EventForm::Body));
        let filtered = consumer().filter("$number < 4").on_trouble(|trouble| panic!("{trouble}"));
        let mut filtered = filtered.events::<by_shape::Nested>().unwrap();
        let mut all = consumer().events::<Nested>().unwrap();
        for form in ["any", "structured"] {
            let words = format!("--form {form} --scenario nested,small --count 8");
            supplier(from, &service, &channel, &words).end().well();
        }
        for _ in 0..2 {
            let by_shape::Nested { name, outline, tint, origin } = filtered.next().unwrap();
            assert_eq!(Nested { name, outline, tint, origin }, all.next().unwrap());
        }
        assert!(matches!(filtered.next_within(Duration::ZERO), Next::Late), "the others do not come");
    }
}
