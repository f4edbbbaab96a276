//! The engine against its naive model, over thousands of seeds.

use std::collections::BTreeMap;

use campanile_sim::{LanesSummary, OverflowSummary, Summary, policies, run, run_lanes, run_overflow};
use engine::DiscardReason;

const OPERATIONS: u32 = 400;

/// Seeds that show what once was different, wherever it is so again: among outboxes that refuse an event, and among equal backlogs (of
/// which there are two kinds), the lowest proxy id counts and not the place among the channel's consumers (17, 20, 151); a `hold_timeout`
/// that is made shorter counts at once (19); when those before it are dropped an event has its pacing (10935), or is delivered, if it has
/// none (19413). A change in what is drawn makes other seeds show them: undo the mend, and look for those.
const REGRESSION_SEEDS: [u64; 7] = [17, 19, 20, 151, 435, 10_935, 19_413];

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
    let mut by_policies = BTreeMap::new();
    for seed in 0..1_500 {
        let summary = agree(seed);
        reached.accepted += summary.accepted;
        reached.withheld += summary.withheld;
        reached.refused += summary.refused;
        reached.deliveries += summary.deliveries;
        reached.delivered += summary.delivered;
        reached.failures += summary.failures;
        reached.timed_out += summary.timed_out;
        reached.disconnected += summary.disconnected;
        reached.pulled += summary.pulled;
        reached.batches += summary.batches;
        reached.filtered_in += summary.filtered_in;
        reached.remote_admissions += summary.remote_admissions;
        reached.remote_deliveries += summary.remote_deliveries;
        reached.evaluations += summary.evaluations;
        reached.cuts += summary.cuts;
        reached.completed += summary.completed;
        reached.late += summary.late;
        reached.blocked += summary.blocked;
        reached.waited_out += summary.waited_out;
        for (sum, count) in reached.discards.iter_mut().zip(summary.discards) {
            *sum += count;
        }
        let (delivered, dropped): &mut (u64, u64) = by_policies.entry(format!("{:?}", policies(seed))).or_default();
        *delivered += summary.delivered;
        *dropped += summary.discards[DiscardReason::OutboxFull as usize]
            + summary.discards[DiscardReason::MemorySpent as usize]
            + summary.discards[DiscardReason::QueueFull as usize];
    }
    // Runs in which little happens would agree about little.
    let Summary { accepted, withheld, refused, deliveries, delivered, failures, timed_out, disconnected, .. } = reached;
    let all = [accepted, withheld, refused, deliveries, delivered, failures, timed_out, disconnected];
    // Nothing is kept elsewhere here; and it takes many failures until an event is undeliverable.
    let rare = [DiscardReason::OverflowLost, DiscardReason::Undeliverable, DiscardReason::Uncorrelated];
    let dropped = DiscardReason::ALL.iter().zip(&reached.discards);
    let dropped = dropped.filter(|(reason, _)| !rare.contains(reason)).map(|(_, count)| count);
    let all =
        all.iter().chain([&reached.pulled, &reached.batches, &reached.completed, &reached.late, &reached.blocked]);
    let all = all.chain([&reached.waited_out]);
    let all = all.chain(dropped);
    let filters =
        [reached.filtered_in, reached.remote_admissions, reached.remote_deliveries, reached.evaluations, reached.cuts];
    let all = all.chain(&filters);
    assert!(all.copied().all(|count| count > 500), "{reached:?}");
    assert!(reached.discards[DiscardReason::Undeliverable as usize] > 100, "{reached:?}");
    assert_eq!(by_policies.len(), 20);
    let mut each = by_policies.values().flat_map(|(delivered, dropped)| [delivered, dropped]);
    assert!(each.all(|count| *count > 500), "{by_policies:?}");
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

/// Seeds of runs with several lanes that once showed something that must not be, with what it was.
const LANES_REGRESSION_SEEDS: [u64; 0] = [];

#[test]
fn several_lanes_give_each_consumer_what_is_its_own_once_and_in_order() {
    let run = |seed| run_lanes(seed, 600, &mut |_| ()).unwrap_or_else(|mismatch| panic!("{mismatch} lanes"));
    for seed in LANES_REGRESSION_SEEDS {
        run(seed);
    }
    let mut reached = LanesSummary::default();
    for seed in 0..900 {
        let summary = run(seed);
        reached.lanes += summary.lanes;
        reached.accepted += summary.accepted;
        reached.withheld += summary.withheld;
        reached.refused += summary.refused;
        reached.handed_over += summary.handed_over;
        reached.handed_and_withheld += summary.handed_and_withheld;
        reached.no_room += summary.no_room;
        reached.delivered += summary.delivered;
        reached.dropped += summary.dropped;
        reached.disconnected += summary.disconnected;
        reached.dropped_on_the_way += summary.dropped_on_the_way;
        reached.reconnected += summary.reconnected;
        reached.subscribed += summary.subscribed;
    }
    let LanesSummary { lanes, accepted, withheld, refused, handed_over, handed_and_withheld, no_room, .. } = reached;
    let all = [lanes, accepted, withheld, refused, handed_over, handed_and_withheld, no_room];
    let all = all.iter().chain([&reached.delivered, &reached.dropped, &reached.disconnected]);
    let mut all = all.chain([&reached.reconnected, &reached.subscribed, &reached.dropped_on_the_way]);
    assert!(all.all(|count| *count > 500), "{reached:?}");
}

/// Seeds of runs with backlogs elsewhere that show what once must not have been, wherever it is so again: what is elsewhere is brought back
/// also where all that stood before it was dropped (27); suppliers go on when what made a queue too long has been read elsewhere (296).
const OVERFLOW_REGRESSION_SEEDS: [u64; 2] = [27, 296];

#[test]
fn backlogs_that_go_on_elsewhere_come_back_whole_and_no_consumer_waits_for_ever() {
    let run = |seed| run_overflow(seed, 1_500, &mut |_| ()).unwrap_or_else(|mismatch| panic!("{mismatch} overflow"));
    let mut reached = OverflowSummary::default();
    for seed in (0..1_000).chain(OVERFLOW_REGRESSION_SEEDS) {
        let summary = run(seed);
        reached.accepted += summary.accepted;
        reached.withheld += summary.withheld;
        reached.refused += summary.refused;
        reached.stored += summary.stored;
        reached.brought_back += summary.brought_back;
        reached.lost += summary.lost;
        reached.delivered += summary.delivered;
        reached.dropped += summary.dropped;
        reached.failures += summary.failures;
        reached.gone += summary.gone;
        reached.waited_out += summary.waited_out;
        reached.completed += summary.completed;
    }
    let OverflowSummary {
        accepted,
        withheld,
        refused,
        stored,
        brought_back,
        lost,
        delivered,
        dropped,
        failures,
        gone,
        completed,
        waited_out,
    } = reached;
    let all = [accepted, withheld, refused, stored, brought_back, lost, delivered, dropped, failures, gone, completed];
    assert!(all.iter().all(|count| *count > 500) && waited_out > 100, "{reached:?}");
}
