//! The analysis against schedules that are played through, moment by moment.

use super::*;
use crate::Outcome;

/// The key by which the next job is chosen: less is first.
type Key = fn(&Activity, usize, u64) -> i64;

/// Plays the schedule in which all come at once and as often as they may, and gives the longest response of each.
fn play(set: &[Activity], preemptive: bool, until: u64, key: Key) -> Vec<u64> {
    struct Job {
        of: usize,
        came: u64,
        left: u64,
    }
    let mut jobs: Vec<Job> = Vec::new();
    let mut worst = vec![0; set.len()];
    let mut begun: Option<usize> = None;
    for now in 0..until {
        for (of, activity) in set.iter().enumerate() {
            if now % activity.period == 0 {
                jobs.push(Job { of, came: now, left: activity.execution_time });
            }
        }
        let next = (0..jobs.len()).min_by_key(|job| (key(&set[jobs[*job].of], jobs[*job].of, jobs[*job].came), *job));
        let Some(turn) = begun.filter(|_| !preemptive).or(next) else { continue };
        jobs[turn].left -= 1;
        begun = Some(turn);
        if jobs[turn].left == 0 {
            let done = jobs.remove(turn);
            worst[done.of] = worst[done.of].max(now + 1 - done.came);
            begun = None;
        }
    }
    for job in jobs {
        worst[job.of] = worst[job.of].max(until - job.came);
    }
    worst
}

fn random_set(random: &mut fastrand::Rng) -> Vec<Activity> {
    let periods = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];
    let count = random.usize(1..=4);
    (0..count)
        .map(|index| {
            let period = periods[random.usize(..periods.len())];
            let execution_time = random.u64(1..=(period / 2).max(2));
            let deadline = random.u64(execution_time..=2 * period);
            let criticality = random.i16(0..3);
            Activity { deadline, criticality, ..activity(&index.to_string(), period, execution_time) }
        })
        .collect()
}

/// The least common multiple of all periods above is 120; twice that shows whatever repeats.
const UNTIL: u64 = 240;

#[test]
fn responses_under_fixed_priorities_are_exactly_those_of_the_schedule() {
    let mut compared = 0;
    for seed in 0..4000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let set = random_set(&mut random);
        let mut ordered = set.clone();
        ordered.sort_by(|a, b| (a.deadline, -a.criticality, &a.name).cmp(&(b.deadline, -b.criticality, &b.name)));
        let analysis = analysed(&ordered, Policy::DeadlineMonotonic);
        if analysis.findings.iter().any(|finding| finding.response == Response::Unbounded) {
            assert_eq!(analysis.outcome, Outcome::Infeasible, "seed {seed}");
            continue;
        }
        compared += 1;
        let played = play(&ordered, true, UNTIL, |_, place, _| i64::try_from(place).unwrap());
        assert_eq!(responses(&analysis), played, "seed {seed}: {ordered:?}");
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn whatever_is_called_feasible_under_a_dynamic_policy_meets_its_deadlines() {
    let latest: Key = |activity, _, came| i64::try_from(came + activity.deadline).unwrap();
    let laxity: Key = |activity, _, came| i64::try_from(came + activity.deadline - activity.execution_time).unwrap();
    let urgency: Key = |activity, _, came| {
        let laxity = i64::try_from(came + activity.deadline - activity.execution_time).unwrap();
        laxity - 1_000_000 * i64::from(activity.criticality)
    };
    for (policy, key) in
        [(Policy::EarliestDeadline, latest), (Policy::LeastLaxity, laxity), (Policy::MaximumUrgency, urgency)]
    {
        let mut feasible = 0;
        for seed in 0..4000 {
            let set = random_set(&mut fastrand::Rng::with_seed(seed));
            // Where all of the processor is used, a busy period need not end.
            let limits = AnalysisLimits { steps_max: 20_000, ..AnalysisLimits::SERVICE };
            if analyse(&set, &request_with(policy), &limits).unwrap().outcome != Outcome::Feasible {
                continue;
            }
            feasible += 1;
            let played = play(&set, false, UNTIL, key);
            let met = played.iter().zip(&set).all(|(response, activity)| *response <= activity.deadline);
            assert!(met, "{policy}, seed {seed}: {played:?} {set:?}");
        }
        assert!(feasible > 300, "{policy}: {feasible}");
    }
}

/// The schedule that the criterion describes: one event with a later deadline was begun a moment before all others come.
#[test]
fn whatever_is_called_infeasible_without_preemption_misses_in_some_schedule() {
    let mut infeasible = 0;
    for seed in 0..2000 {
        let set = random_set(&mut fastrand::Rng::with_seed(seed));
        let analysis = analysed(&set, Policy::EarliestDeadline);
        let Some(overload) = analysis.overload else { continue };
        infeasible += 1;
        let of = |blocker: Option<usize>| -> u64 {
            let left = |index: usize| if blocker == Some(index) { set[index].execution_time - 1 } else { 0 };
            let fresh = |activity: &Activity| match overload.interval.checked_sub(activity.deadline) {
                Some(behind) => (behind / activity.period + 1) * activity.execution_time,
                None => 0,
            };
            set.iter().enumerate().map(|(index, activity)| left(index) + fresh(activity)).sum()
        };
        let later = (0..set.len()).filter(|index| set[*index].deadline > overload.interval).map(Some);
        let demands: Vec<u64> = later.chain([None]).map(of).collect();
        assert!(demands.iter().any(|demand| *demand > overload.interval), "seed {seed}: {set:?} {overload:?}");
    }
    assert!(infeasible > 300, "{infeasible}");
}

#[test]
fn activities_that_share_a_lane_are_never_quicker_than_with_lanes_of_their_own() {
    for seed in 0..1000 {
        let set = random_set(&mut fastrand::Rng::with_seed(seed));
        let own = analysed(&set, Policy::DeadlineMonotonic);
        let request = Request { lanes_max: 2, ..request_with(Policy::DeadlineMonotonic) };
        let shared = analyse(&set, &request, &AnalysisLimits::SERVICE).unwrap();
        for (own, shared) in own.findings.iter().zip(&shared.findings) {
            assert!(shared.lane < 2);
            match (own.response, shared.response) {
                (Response::Worst(own), Response::Worst(shared)) => assert!(shared >= own, "seed {seed}"),
                (Response::Worst(_), Response::Unbounded) | (Response::Unbounded, Response::Unbounded) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }
}
