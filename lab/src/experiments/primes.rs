//! The load: primes, computed in proportion to a number that every event carries.
//!
//! Paper 000, 4.2: "The 'load' is a positive count that is supplied with the event payload. A prime number calculation is
//! performed proportional to the supplied load value." Here a unit of load is a fixed number of trial divisions of
//! one large prime, which have to be carried out to the last: none of them ends the search. How many make a unit is found
//! at the beginning of each run, so that a unit takes about the same time on every machine, and is given to all consumers,
//! so that it is the same work for both services.

use std::hint::black_box;

use crate::clock;

/// A prime: no division ends the search. The root of 2^61 − 1 is far above any number of divisions asked for here.
const PRIME: u64 = (1 << 61) - 1;

/// How long a unit of load is to take, in nanoseconds. Three paths of 100 events a second, each with load 25, then ask one
/// core for 1.5 s in a second, as in the paper the low path has failed at 25; and a path alone fills it at 50.
const UNIT: u64 = 200_000;

/// Divisions that are timed to find how many make a unit.
const TRIAL: u64 = 100_000;

/// Of so many timings the shortest counts: what came between in the others is not the work.
const TRIALS: u32 = 9;

/// Whether `number` is a prime, as far as divisors up to `divisions + 1` tell.
fn is_prime(number: u64, divisions: u64) -> bool {
    let mut prime = number > 1;
    for divisor in 2..divisions.saturating_add(2).min(number.max(2)) {
        prime &= !number.is_multiple_of(black_box(divisor));
    }
    prime
}

pub(super) fn compute(load: u32, divisions_per_unit: u64) {
    for _ in 0..load {
        black_box(is_prime(black_box(PRIME), divisions_per_unit));
    }
}

/// How many divisions make a unit of load on the core that this runs on.
pub(super) fn divisions_per_unit() -> u64 {
    let shortest = (0..TRIALS).map(|_| time(1, TRIAL)).min().unwrap_or(1).max(1);
    TRIAL.saturating_mul(UNIT) / shortest
}

/// Nanoseconds that a unit of load takes on the core that this runs on: the shortest of several timings.
pub(super) fn unit_ns(divisions_per_unit: u64) -> u64 {
    (0..TRIALS).map(|_| time(10, divisions_per_unit) / 10).min().unwrap_or(0)
}

fn time(load: u32, divisions_per_unit: u64) -> u64 {
    let began = clock::now();
    compute(load, divisions_per_unit);
    clock::now() - began
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_primes_by_dividing() {
        let primes: Vec<u64> = (0..30).filter(|&number| is_prime(number, 100)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(is_prime(PRIME, 10_000));
    }

    #[test]
    fn looks_no_further_than_it_is_asked() {
        assert!(is_prime(49, 5), "divisors 2 to 6");
        assert!(!is_prime(49, 6), "divisors 2 to 7");
    }

    #[test]
    fn more_load_is_more_work() {
        let work = |load| {
            let before = clock::thread_cpu();
            compute(load, 100_000);
            clock::thread_cpu() - before
        };
        let (one, sixteen) = (work(1), work(16));
        assert!(sixteen > one, "{one} and {sixteen} ns");
        assert!(divisions_per_unit() > 0);
        assert!(unit_ns(100_000) > 0);
    }
}
