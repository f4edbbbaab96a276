//! Filters as both ORBs see them: every operation, the language against one event, and filters that clients are themselves.

use std::path::Path;

use service::Counter;

use interop::{Orb, Peer, at, first_consumer, further_consumer, service, supplier, wait_for_count};

const CONSTRAINTS: &str = include_str!("constraints.txt");

#[test]
fn constraints_match_or_not_as_written_down() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/constraints.txt");
    assert!(!file.to_string_lossy().contains(' '), "the programs' words are split at spaces");
    for orb in Orb::ALL {
        let service = service();
        let words = format!("filters {} --channel new --constraints {}", at(&service), file.display());
        let ended = Peer::start(orb, &words).end().well();
        let mut wrong = Vec::new();
        for line in CONSTRAINTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (verdict, text) = line.split_once(' ').expect("a verdict and a constraint");
            // Whether the event comes as itself or inside an Any.
            let answer = match verdict {
                "invalid" => "InvalidConstraint".to_owned(),
                "unsupported" => "IDL:omg.org/CosNotifyFilter/UnsupportedFilterableData:1.0".to_owned(),
                verdict => format!("{verdict} {verdict}"),
            };
            let said = format!("{text}: {answer}");
            if !ended.lines.iter().any(|found| found.starts_with(&said)) {
                let instead = ended.lines.iter().find(|found| found.starts_with(&format!("{text}: ")));
                wrong.push(format!("{said}; {orb:?} found {instead:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Numbers that a consumer with these words gets of 20 `small` events, of which the last one is certain to come.
fn numbers(orb: Orb, words: &str) -> Vec<u32> {
    let service = service();
    let (consumer, channel) = first_consumer(orb, &service, words);
    supplier(Orb::OmniOrb, &service, &channel, "--form structured --scenario small --count 20").end().well();
    consumer.end().well().numbers()
}

#[test]
fn a_consumers_filter_lets_through_what_matches() {
    for orb in Orb::ALL {
        for kind in ["--form structured", "--form any --from structured", "--form structured --pull"] {
            let words = format!("{kind} --scenario small --gaps --count 4 --where $.remainder_of_body.number>15");
            assert_eq!(numbers(orb, &words), [16, 17, 18, 19], "{orb:?} {kind}");
        }
        let words = "--form structured --scenario small --gaps --count 3 --where $.remainder_of_body.number==2 \
                     --where $.remainder_of_body.number==3 --where $.remainder_of_body.number==19 --filter-at admin";
        assert_eq!(numbers(orb, words), [2, 3, 19]);
    }
}

#[test]
fn a_filter_that_the_client_is_itself_is_asked() {
    for orb in Orb::ALL {
        let words = "--form structured --scenario small --gaps --count 10 --own-filter even";
        assert_eq!(numbers(orb, words), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    }
}

#[test]
fn a_filter_that_hangs_delays_only_those_that_use_it() {
    for orb in Orb::ALL {
        let service = service();
        let words = "--form structured --scenario small --own-filter hang";
        let (mut hanging, channel) = first_consumer(orb, &service, words);
        let words = "--form structured --scenario small --count 20";
        let other = further_consumer(orb, &service, &channel, words);
        let feeding = supplier(Orb::OmniOrb, &service, &channel, words);
        hanging.wait_for("asked");
        feeding.end().well();
        other.end().received_all(20);
        hanging.kill();
    }
}

#[test]
fn what_a_filter_fails_to_answer_is_no_match_and_counted() {
    for orb in Orb::ALL {
        let service = service();
        let words = "--form structured --scenario small --own-filter raise";
        let (consumer, channel) = first_consumer(orb, &service, words);
        let words = "--form structured --scenario small --count 5";
        supplier(Orb::OmniOrb, &service, &channel, words).end().well();
        wait_for_count(&service, Counter::Dropped, 5);
        assert_eq!(consumer.quit().numbers(), Vec::<u32>::new());
    }
}
