//! Narrow text in the code sets of the two ends.

use interop::{Orb, first_consumer, service_with, supplier};
use service::{Config, NarrowCodeSet};

const EVENTS: u32 = 20;

fn cross(native: NarrowCodeSet, scenario: &str, of_suppliers: &str, of_consumers: &str) {
    let service = service_with(Config { narrow_code_set: native, ..Config::default() });
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        for form in ["structured", "any"] {
            let words = format!("--form {form} --scenario {scenario} --count {EVENTS} {of_consumers}");
            let (consumer, channel) = first_consumer(of_consumer, &service, &words);
            let words = format!("--form {form} --scenario {scenario} --count {EVENTS} {of_suppliers}");
            supplier(of_supplier, &service, &channel, &words).end().well();
            consumer.end().received_all(EVENTS);
        }
    }
}

#[test]
fn text_beyond_latin_1_crosses_between_clients_whose_native_code_set_is_utf_8() {
    // Clients that know both sets use the one that the service names first, and ISO 8859-1 cannot say all that they say.
    cross(NarrowCodeSet::Utf8, "unicode", "--chars utf-8", "--chars utf-8");
}

#[test]
fn latin_1_text_of_utf_8_suppliers_reaches_latin_1_consumers() {
    for native in [NarrowCodeSet::Latin1, NarrowCodeSet::Utf8] {
        cross(native, "latin", "--chars utf-8", "");
    }
}

#[test]
fn latin_1_text_of_latin_1_suppliers_reaches_utf_8_consumers() {
    for native in [NarrowCodeSet::Latin1, NarrowCodeSet::Utf8] {
        cross(native, "latin", "", "--chars utf-8");
    }
}
