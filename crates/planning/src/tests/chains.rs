//! Chains of stages on lanes: known examples, and schedules that are played through.

use super::*;
use crate::{Stage, StageFinding, TIME_MAX, Why, respond};
use std::collections::VecDeque;

fn first(period: u64, execution_time: u64, priority: i32) -> Stage {
    Stage { period, execution_time, priority, after: None }
}

fn then(after: usize, stages: &[Stage], execution_time: u64, priority: i32) -> Stage {
    Stage { period: stages[after].period, execution_time, priority, after: Some(after) }
}

fn found(stages: &[Stage]) -> Vec<StageFinding> {
    respond(stages, &AnalysisLimits::SERVICE).unwrap()
}

fn responses_of(stages: &[Stage]) -> Vec<Response> {
    found(stages).iter().map(|finding| finding.response).collect()
}

/// Burns and Wellings, process set D (13.5), and Sha, Klein and Goodenough's completion time test: priorities that are given are
/// those of rate monotonic here.
#[test]
fn lanes_preempt_each_other_as_in_the_text_books() {
    let of = |times: &[u64]| times.iter().copied().map(Response::Worst).collect::<Vec<_>>();
    assert_eq!(responses_of(&[first(7, 3, 3), first(12, 3, 2), first(20, 5, 1)]), of(&[3, 6, 20]));
    assert_eq!(responses_of(&[first(100, 40, 3), first(150, 40, 2), first(350, 100, 1)]), of(&[40, 80, 300]));
    // Lehoczky: a later event of the busy period takes longest.
    assert_eq!(responses_of(&[first(70, 26, 2), first(100, 62, 1)]), of(&[26, 118]));
    // The same set with priorities the other way round misses: they are given, not assigned.
    assert_eq!(responses_of(&[first(7, 3, 1), first(12, 3, 2), first(20, 5, 3)])[0], Response::Worst(11));
}

/// Jeffay, Stanat and Martel's example: on one lane the short one waits for all of the long one, on two it does not.
#[test]
fn one_lane_is_not_preempted_by_its_own_events() {
    assert_eq!(responses_of(&[first(4, 2, 1), first(12, 3, 1)])[0], Response::Worst(5));
    assert_eq!(responses_of(&[first(4, 2, 2), first(12, 3, 1)])[0], Response::Worst(2));
}

#[test]
fn responses_are_counted_over_all_stages_of_the_chain() {
    let mut stages = vec![first(100, 10, 40)];
    stages.push(then(0, &stages, 20, 80));
    stages.push(then(1, &stages, 5, 40));
    // The second stage preempts the third, and both belong to one period.
    assert_eq!(responses_of(&stages), [Response::Worst(35); 3]);
    // What is less urgent than all of them waits for a whole period, what is more urgent does not matter to it.
    stages.push(first(400, 50, 20));
    stages.push(first(50, 10, 90));
    let findings = found(&stages);
    assert_eq!(findings[3].response, Response::Worst(50 + 35 + 2 * 10 + 35 + 10));
    assert_eq!(findings[3].priority_min, 20);
    assert_eq!((findings[4].response, findings[4].priority_min), (Response::Worst(10), 90));
    assert_eq!(findings[2].response, Response::Worst(45));
}

/// The trigger on the low lane may be late by 115, and a second processor may run it beside the others: two events of the high lane
/// come close together.
#[test]
fn a_less_urgent_stage_on_the_way_is_the_jitter_of_those_behind_it() {
    let mut stages = vec![first(100, 50, 1)];
    stages.push(then(0, &stages, 10, 3));
    stages.push(first(200, 45, 2));
    let findings = found(&stages);
    assert_eq!(findings[0].response, Response::Worst(50 + 2 * 10 + 45));
    // In 65 and a jitter of 115 there are two events of the high lane.
    assert_eq!(findings[2].response, Response::Worst(45 + 2 * 10));
    assert_eq!(findings[2].priority_min, 1, "it depends on the low lane by the jitter");
    assert_eq!((findings[0].busiest, findings[2].busiest), (Some((0, 1)), Some((2, 1))));
    stages[1].execution_time = 26;
    assert_eq!(found(&stages)[2].busiest, Some((1, 3)), "three times 26 are more than 45");
}

#[test]
fn more_than_a_processor_has_no_bound_and_spares_what_is_more_urgent() {
    let mut stages = vec![first(10, 6, 1), first(20, 12, 1), first(20, 4, 5)];
    let findings = found(&stages);
    assert_eq!(findings[0].response, Response::Unbounded);
    assert_eq!(findings[0].busiest, Some((1, 0)));
    assert_eq!(findings[2].response, Response::Worst(4));
    // Behind the overload, on a lane above the third: when that comes is not known.
    stages.push(then(0, &stages, 1, 9));
    let findings = found(&stages);
    assert_eq!((findings[2].response, findings[2].why), (Response::Unknown, Some(Why::Follows)));
    assert_eq!(findings[3].response, Response::Unbounded);
}

#[test]
fn stages_that_make_no_sense_are_refused_and_ends_of_ranges_are_not() {
    let refused = |stages: &[Stage]| respond(stages, &AnalysisLimits::SERVICE).unwrap_err().to_string();
    assert_eq!(
        refused(&[first(0, 1, 1)]),
        format!("activity 0: the period is 0 ns, and has to be from 1 to {TIME_MAX}")
    );
    let itself = Stage { after: Some(0), ..first(1, 1, 1) };
    assert!(refused(&[itself]).contains("which does not stand before it"));
    assert!(refused(&vec![first(1, 0, 1); 4097]).contains("4097"));
    assert_eq!(found(&[]), []);
    assert_eq!(
        responses_of(&[first(1, 0, 1), first(TIME_MAX, TIME_MAX, 0)]),
        [Response::Worst(0), Response::Worst(TIME_MAX)]
    );
    assert_eq!(responses_of(&[first(TIME_MAX, u64::MAX, i32::MIN)]), [Response::Unbounded]);
    let mut stages = vec![first(TIME_MAX, TIME_MAX / 2, 1)];
    stages.push(then(0, &stages, TIME_MAX / 2, 2));
    assert_eq!(responses_of(&stages), [Response::Worst(TIME_MAX); 2]);
}

#[test]
fn an_analysis_that_takes_too_long_says_so() {
    let stages = [first(1_000_000_007, 500_000_003, 1), first(700_000_001, 350_000_000, 1)];
    let limits = AnalysisLimits { steps_max: 10_000, ..AnalysisLimits::SERVICE };
    let findings = respond(&stages, &limits).unwrap();
    assert_eq!((findings[0].response, findings[0].why), (Response::Unknown, Some(Why::StepsSpent)));
}

/// The least urgent stage is computed first, so that there may be steps for it and none for those before it.
#[test]
fn nothing_is_said_of_a_stage_behind_one_of_which_nothing_is_known() {
    let mut stages = vec![first(100, 5, 9)];
    stages.push(then(0, &stages, 5, 5));
    stages.push(then(1, &stages, 5, 1));
    let known: Vec<usize> = (0..30)
        .map(|steps_max| {
            let findings = respond(&stages, &AnalysisLimits { steps_max, ..AnalysisLimits::SERVICE }).unwrap();
            let known = findings.iter().take_while(|finding| matches!(finding.response, Response::Worst(_))).count();
            for finding in &findings[known..] {
                assert_eq!((finding.response, finding.why), (Response::Unknown, Some(Why::StepsSpent)), "{steps_max}");
            }
            known
        })
        .collect();
    assert_eq!((known[0], known[29]), (0, 3), "{known:?}");
}

/// One to three chains, whose stages are on five lanes with priorities from 1 to 3.
fn random_stages(random: &mut fastrand::Rng) -> (Vec<Stage>, Vec<usize>) {
    let lanes: Vec<i32> = (0..5).map(|_| random.i32(1..=3)).collect();
    let (mut stages, mut of_lane) = (Vec::new(), Vec::new());
    for _ in 0..random.usize(1..=3) {
        let begin = stages.len();
        let period = random.u64(6..=30);
        for place in 0..random.usize(1..=4) {
            let lane = random.usize(..lanes.len());
            let after = (place > 0).then(|| random.usize(begin..begin + place));
            stages.push(Stage { period, execution_time: random.u64(1..=4), priority: lanes[lane], after });
            of_lane.push(lane);
        }
    }
    (stages, of_lane)
}

struct Job {
    stage: usize,
    due: u64,
    left: u64,
    /// What is left when it triggers the stages behind it.
    sends_at: u64,
}

/// Plays chains through on lanes: the ready lane of the highest priority goes on with the event that it has begun, or takes one from
/// any of its queues. Gives the longest response of each stage.
fn play(stages: &[Stage], of_lane: &[usize], cpus: usize, random: &mut fastrand::Rng) -> Vec<u64> {
    let mut next: Vec<u64> = stages.iter().map(|stage| random.u64(0..=stage.period)).collect();
    let mut queues: Vec<VecDeque<u64>> = vec![VecDeque::new(); stages.len()];
    let mut begun: Vec<Option<Job>> = (0..5).map(|_| None).collect();
    let mut worst = vec![0; stages.len()];
    let spread = random.bool();
    for now in 0..400 {
        for (place, stage) in stages.iter().enumerate().filter(|(_, stage)| stage.after.is_none()) {
            if now == next[place] {
                queues[place].push_back(now);
                next[place] += stage.period + if spread { random.u64(0..=2) } else { 0 };
            }
        }
        let waiting = |lane: usize, queues: &[VecDeque<u64>]| -> Vec<usize> {
            (0..stages.len()).filter(|stage| of_lane[*stage] == lane && !queues[*stage].is_empty()).collect()
        };
        let mut ready: Vec<(i32, u32, usize)> = Vec::new();
        for (lane, job) in begun.iter().enumerate() {
            let at = job.as_ref().map(|job| job.stage).or_else(|| waiting(lane, &queues).first().copied());
            ready.extend(at.map(|stage| (-stages[stage].priority, random.u32(..), lane)));
        }
        ready.sort_unstable();
        for (_, _, lane) in ready.into_iter().take(cpus) {
            let mut job = begun[lane].take().unwrap_or_else(|| {
                let waiting = waiting(lane, &queues);
                let stage = waiting[random.usize(..waiting.len())];
                let due = queues[stage].pop_front().unwrap();
                let least = if random.u8(0..8) == 0 { 1 } else { stages[stage].execution_time };
                let left = random.u64(least..=stages[stage].execution_time);
                Job { stage, due, left, sends_at: random.u64(1..=left) }
            });
            if job.left == job.sends_at {
                for (place, _) in stages.iter().enumerate().filter(|(_, stage)| stage.after == Some(job.stage)) {
                    queues[place].push_back(job.due);
                }
            }
            job.left -= 1;
            if job.left == 0 {
                worst[job.stage] = worst[job.stage].max(now + 1 - job.due);
            } else {
                begun[lane] = Some(job);
            }
        }
    }
    worst
}

#[test]
fn no_schedule_takes_longer_than_the_analysis_says() {
    let (mut compared, mut exact) = (0, 0);
    for seed in 0..6000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (stages, of_lane) = random_stages(&mut random);
        let findings = found(&stages);
        let cpus = if seed % 4 == 0 { 2 } else { 1 };
        for (place, played) in play(&stages, &of_lane, cpus, &mut random).into_iter().enumerate() {
            if let Response::Worst(worst) = findings[place].response {
                compared += 1;
                exact += usize::from(worst == played);
                assert!(played <= worst, "seed {seed}, stage {place}: {played} > {worst}, {stages:?} {of_lane:?}");
            }
        }
    }
    assert!(compared > 10_000 && exact * 10 > compared, "{exact} of {compared} are exact");
}
