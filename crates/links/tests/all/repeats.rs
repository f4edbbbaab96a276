//! What a channel has had.

use std::collections::HashSet;

use links::{Origin, Seen, Verdict};

fn of(number: u64) -> Origin {
    Origin { service: 1, era: 10, number }
}

#[test]
fn a_seen_event_is_a_repeat_by_service_era_and_number() {
    let mut seen = Seen::new();
    seen.commit(of(5));
    assert_eq!(seen.check(of(5)), Verdict::Repeat);
    for origin in [of(4), of(6), Origin { service: 2, ..of(5) }, Origin { era: 11, ..of(5) }] {
        assert_eq!(seen.check(origin), Verdict::Fresh);
    }
}

#[test]
fn an_event_on_its_way_is_neither_fresh_nor_a_repeat_until_it_is_known_what_becomes_of_it() {
    let mut seen = Seen::new();
    seen.begin(of(1));
    seen.begin(of(2));
    assert_eq!([seen.check(of(1)), seen.check(of(2))], [Verdict::InFlight; 2]);
    seen.commit(of(2));
    seen.abandon(of(1));
    assert_eq!([seen.check(of(1)), seen.check(of(2))], [Verdict::Fresh, Verdict::Repeat]);
}

#[test]
fn numbers_in_random_order_are_as_in_a_naive_set_and_become_the_mark_when_all_are_there() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut numbers: Vec<u64> = (1..=500).collect();
        random.shuffle(&mut numbers);
        let (mut seen, mut naive) = (Seen::new(), HashSet::new());
        for number in numbers {
            match random.u8(..4) {
                0 => seen.restore(of(number)),
                1 => seen.commit(of(number)),
                _ => {
                    seen.begin(of(number));
                    assert_eq!(seen.check(of(number)), Verdict::InFlight);
                    seen.commit(of(number));
                }
            }
            naive.insert(number);
            for number in (0..10).map(|_| random.u64(1..520)) {
                let expected = if naive.contains(&number) { Verdict::Repeat } else { Verdict::Fresh };
                assert_eq!(seen.check(of(number)), expected, "seed {seed}, number {number}");
            }
        }
        assert_eq!((seen.mark(1, 10), seen.forgotten().gaps), (500, 0));
    }
}

#[test]
fn numbers_at_the_ends_of_their_range_do_no_harm() {
    let mut seen = Seen::new();
    for number in [u64::MAX, u64::MAX - 1, 1 << 63, 1, 0] {
        seen.begin(of(number));
        seen.commit(of(number));
        seen.abandon(of(number));
        assert_eq!(seen.check(of(number)), Verdict::Repeat, "{number}");
    }
    assert_eq!(seen.check(of(2)), Verdict::Fresh);
    seen.restore_mark(of(u64::MAX));
    assert_ne!(seen.check(of(2)), Verdict::Fresh);
}

#[test]
fn gaps_beyond_the_limit_are_forgotten_and_counted_and_never_taken_for_fresh() {
    let mut seen = Seen::new();
    let last = 2 * (Seen::RANGES_MAX as u64 + 3);
    for number in (2..=last).step_by(2) {
        seen.commit(of(number));
    }
    assert_eq!((seen.mark(1, 10), seen.forgotten().gaps), (6, 3));
    assert_eq!(
        [seen.check(of(6)), seen.check(of(5)), seen.check(of(7))],
        [Verdict::Stale, Verdict::Stale, Verdict::Fresh]
    );
    // A long run of numbers is one range.
    let mut seen = Seen::new();
    (2..=200_000).for_each(|number| seen.commit(of(number)));
    assert_eq!((seen.mark(1, 10), seen.forgotten().gaps, seen.check(of(1))), (0, 0, Verdict::Fresh));
    seen.commit(of(1));
    assert_eq!((seen.mark(1, 10), seen.check(of(1))), (200_000, Verdict::Repeat));
}

#[test]
fn what_is_in_flight_below_the_mark_stays_known_and_is_fresh_when_it_is_abandoned() {
    let mut seen = Seen::new();
    seen.begin(of(1));
    seen.begin(of(3));
    for number in (6..).step_by(2).take(Seen::RANGES_MAX + 1) {
        seen.commit(of(number));
    }
    assert_eq!(seen.mark(1, 10), 6);
    assert_eq!(
        [seen.check(of(1)), seen.check(of(3)), seen.check(of(5))],
        [Verdict::InFlight, Verdict::InFlight, Verdict::Stale]
    );
    seen.abandon(of(1));
    seen.commit(of(3));
    assert_eq!([seen.check(of(1)), seen.check(of(3))], [Verdict::Fresh, Verdict::Stale]);
    seen.begin(of(1));
    assert_eq!(seen.check(of(1)), Verdict::InFlight);
    seen.commit(of(1));
    assert_ne!(seen.check(of(1)), Verdict::Fresh);
}

#[test]
fn marks_and_numbers_above_them_restore_what_was_seen() {
    let mut seen = Seen::new();
    (1..=10).chain([12, 14]).for_each(|number| seen.commit(of(number)));
    let marks: Vec<Origin> = seen.marks().collect();
    assert_eq!(marks, [of(10)]);
    let mut restored = Seen::new();
    [14, 3, 12].into_iter().for_each(|number| restored.restore(of(number)));
    marks.into_iter().for_each(|mark| restored.restore_mark(mark));
    for number in 1..=15 {
        assert_eq!(restored.check(of(number)) == Verdict::Fresh, seen.check(of(number)) == Verdict::Fresh, "{number}");
    }
}

#[test]
fn the_era_used_longest_ago_gives_way_but_never_one_with_something_in_flight() {
    let mut seen = Seen::new();
    seen.begin(Origin { era: 0, ..of(1) });
    for era in 1..=Seen::ERAS_MAX as u64 {
        seen.commit(Origin { era, ..of(1) });
    }
    assert_eq!(seen.forgotten().eras, 1);
    assert_eq!(seen.check(Origin { era: 0, ..of(1) }), Verdict::InFlight);
    assert_eq!(seen.check(Origin { era: 1, ..of(1) }), Verdict::Fresh, "forgotten");
    assert_eq!(seen.check(Origin { era: 2, ..of(1) }), Verdict::Repeat);
}

#[test]
fn services_beyond_the_limit_are_forgotten_and_counted() {
    let mut seen = Seen::new();
    let services = Seen::SERVICES_MAX as u64 + 5;
    for service in 1..=services {
        seen.commit(Origin { service, ..of(1) });
    }
    assert_eq!((seen.forgotten().services, seen.marks().count()), (5, Seen::SERVICES_MAX));
    assert_eq!(seen.check(Origin { service: services, ..of(1) }), Verdict::Repeat);
}

#[test]
fn a_peer_that_invents_services_eras_and_gaps_takes_no_more_than_the_limit_of_all() {
    let mut seen = Seen::new();
    let mut committed = 0;
    for service in 1..=4 {
        for era in 1..=4 {
            for number in (2..20_002).step_by(2) {
                seen.commit(Origin { service, era, number });
                committed += 1;
            }
        }
    }
    assert_eq!(committed, 160_000);
    assert!(seen.forgotten().gaps >= committed - Seen::ALL_RANGES_MAX as u64);
    assert_eq!(seen.check(Origin { service: 4, era: 4, number: 3 }), Verdict::Fresh, "the last era is whole");
    assert_eq!(seen.check(Origin { service: 1, era: 1, number: 3 }), Verdict::Stale);
}
