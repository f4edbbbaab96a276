//! Every pairing of the two orbs, in every form and across forms, with every kind of value.

use interop::{Orb, first_consumer, service, supplier};

/// Two rounds of all shapes: what depends on what came before shows in the second.
const EVENTS: u32 = 34;

/// One supplier and one consumer in each of the four pairings, on a service of their own.
fn cross(supplier_form: &str, consumer_form: &str) {
    let service = service();
    let from = if supplier_form == "structured" { "structured" } else { "any" };
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let words = format!("--form {consumer_form} --from {from} --scenario all --count {EVENTS}");
        let (consumer, channel) = first_consumer(of_consumer, &service, &words);
        let words = format!("--form {supplier_form} --scenario all --count {EVENTS}");
        supplier(of_supplier, &service, &channel, &words).end().well();
        consumer.end().received_all(EVENTS);
    }
}

#[test]
fn structured_events_arrive_unchanged_and_in_order() {
    cross("structured", "structured");
}

#[test]
fn anys_arrive_unchanged_and_in_order() {
    cross("any", "any");
}

#[test]
fn anys_reach_structured_consumers_inside_events_of_type_any() {
    cross("any", "structured");
}

#[test]
fn structured_events_reach_any_consumers_inside_anys() {
    cross("structured", "any");
}

#[test]
fn plain_event_service_clients_reach_each_other() {
    cross("cosevent", "cosevent");
}

#[test]
fn plain_event_service_clients_and_notification_clients_share_a_channel() {
    let service = service();
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let words = format!("--form cosevent --from structured --scenario narrow --count {EVENTS}");
        let (consumer, channel) = first_consumer(of_consumer, &service, &words);
        let words = format!("--form structured --scenario narrow --count {EVENTS}");
        supplier(of_supplier, &service, &channel, &words).end().well();
        consumer.end().received_all(EVENTS);
    }
}

#[test]
fn several_suppliers_each_keep_their_order() {
    let service = service();
    let (consumer, channel) =
        first_consumer(Orb::OmniOrb, &service, "--form structured --scenario small --count 800 --every 0");
    let also = interop::further_consumer(
        Orb::JacOrb,
        &service,
        &channel,
        "--form any --from structured --scenario small --count 800 --every 0",
    );
    let suppliers: Vec<_> = [(Orb::OmniOrb, 1), (Orb::JacOrb, 2), (Orb::OmniOrb, 3), (Orb::JacOrb, 4)]
        .into_iter()
        .map(|(orb, source)| {
            let words = format!("--form structured --scenario small --count 200 --source {source}");
            supplier(orb, &service, &channel, &words)
        })
        .collect();
    for supplier in suppliers {
        supplier.end().well();
    }
    consumer.end().well();
    also.end().well();
}
