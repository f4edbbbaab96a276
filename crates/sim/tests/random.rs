//! The engine against its naive model, over thousands of seeds.

use campanile_sim::{Summary, run};

const OPERATIONS: u32 = 400;

/// Seeds that once showed a difference, with what it was.
const REGRESSION_SEEDS: [u64; 0] = [];

fn agree(seed: u64) -> Summary {
    run(seed, OPERATIONS, &mut |_| ()).unwrap_or_else(|mismatch| panic!("{mismatch}"))
}

#[test]
fn the_engine_and_its_model_agree_on_seeds_that_once_showed_a_difference() {
    for seed in REGRESSION_SEEDS {
        agree(seed);
    }
}

#[test]
fn the_engine_and_its_model_agree_under_random_operations() {
    let mut reached = Summary::default();
    for seed in 0..1_500 {
        let summary = agree(seed);
        reached.accepted += summary.accepted;
        reached.held += summary.held;
        reached.refused += summary.refused;
        reached.deliveries += summary.deliveries;
        reached.delivered += summary.delivered;
        reached.failures += summary.failures;
        reached.timed_out += summary.timed_out;
        reached.disconnected += summary.disconnected;
        for (sum, count) in reached.discards.iter_mut().zip(summary.discards) {
            *sum += count;
        }
    }
    // Runs in which little happens would agree about little.
    let Summary { accepted, held, refused, deliveries, delivered, failures, timed_out, disconnected, discards } =
        reached;
    let all = [accepted, held, refused, deliveries, delivered, failures, timed_out, disconnected];
    // Nothing expires here yet, and no remote filter is asked.
    let discards = &discards[..7];
    assert!(all.iter().chain(discards).all(|count| *count > 1_000), "{reached:?}");
}

#[test]
fn a_seed_is_always_the_same_run() {
    let steps = || {
        let mut steps = vec![];
        let summary = run(7, 100, &mut |step| steps.push(step.to_owned()));
        (steps, summary.unwrap())
    };
    assert_eq!(steps(), steps());
}
