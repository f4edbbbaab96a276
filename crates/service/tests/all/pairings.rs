//! Each kind of supplier with each kind of consumer.

use client::notify::ClientType;
use service::Counter;

use crate::kinds::{Consumer, FORMS, Got, Model, Supplier, new_channel};
use crate::peers::{start, wait_until};

const MODELS: [Model; 2] = [Model::Push, Model::Pull];
const EVENTS: i32 = 50;

#[test]
fn all_36_pairings_deliver_the_same_events_in_order() {
    let service = start();
    let mut delivered = 0;
    for supplies in FORMS.into_iter().flat_map(|form| MODELS.map(|model| (form, model))) {
        let channel = new_channel(&service);
        // All six kinds of consumers of one channel at once.
        let consumes = FORMS.into_iter().flat_map(|form| MODELS.map(|model| (form, model)));
        let consumers: Vec<_> =
            consumes.map(|(form, model)| (form, model, Consumer::new(&channel, form, model))).collect();
        let supplier = Supplier::new(&channel, supplies.0, supplies.1);
        supplier.give("Pair", 0..EVENTS);
        for (form, model, consumer) in &consumers {
            let wanted = |number| Got { names: names(supplies.0, *form), number };
            let wanted: Vec<Got> = (0..EVENTS).map(wanted).collect();
            let got = consumer.take(wanted.len());
            assert_eq!(got, wanted, "from {supplies:?} to {:?}", (form, model));
        }
        // The last replies may be on their way; what is unanswered when the channel goes is dropped with it.
        delivered += 6 * EVENTS.unsigned_abs();
        wait_until("all replies are there", || service.counters().read(Counter::Delivered) == u64::from(delivered));
        channel.destroy().unwrap();
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
    assert_eq!(service.counters().read(Counter::LeftOut), 0);
}

/// What the standard makes of the event's names on its way.
fn names(from: ClientType, to: ClientType) -> Option<[String; 3]> {
    match (from, to) {
        (ClientType::Any, ClientType::Any) => None,
        (ClientType::Any, _) => Some(["", "%ANY", ""].map(str::to_owned)),
        _ => Some(["Test", "Pair", "name"].map(str::to_owned)),
    }
}

#[test]
fn a_suppliers_sequences_and_a_consumers_need_not_be_the_same() {
    let service = start();
    let channel = new_channel(&service);
    let consumer = Consumer::new(&channel, ClientType::Sequence, Model::Push);
    let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
    supplier.give("Pair", 0..EVENTS);
    assert_eq!(consumer.numbers(50), (0..EVENTS).collect::<Vec<i32>>());
    // The last reply may be on its way.
    wait_until("all events are counted", || service.counters().read(Counter::SequenceEventsSent) == 50);
}
