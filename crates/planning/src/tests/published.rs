//! Task sets with the response times that were published for them.

use super::*;
use crate::{Outcome, Overload};

/// Burns and Wellings, "Real-Time Systems and Programming Languages" (3rd ed. 2001), process set A, 13.3 and 13.5: 0.82 of
/// the processor, above the bound, and `a` misses its deadline at 50.
#[test]
fn process_set_a_of_burns_and_wellings_misses_its_deadline() {
    let set = [activity("a", 50, 12), activity("b", 40, 10), activity("c", 30, 10)];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!(analysis.outcome, Outcome::Infeasible);
    assert_eq!(responses(&analysis), [52, 20, 10]);
    let late: Vec<_> = analysis.findings.iter().map(|finding| finding.late_by).collect();
    assert_eq!(late, [Some(2), None, None]);
    assert!((analysis.utilisation[0] - 0.823).abs() < 0.001, "{analysis:?}");
    assert!((analysis.liu_layland_bound - 0.780).abs() < 0.001, "{analysis:?}");
}

/// The same, process set B: 0.775, below the bound.
#[test]
fn process_set_b_of_burns_and_wellings_is_below_the_bound_of_liu_and_layland() {
    let set = [activity("a", 80, 32), activity("b", 40, 5), activity("c", 16, 4)];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!(analysis.outcome, Outcome::Feasible);
    assert!((analysis.utilisation[0] - 0.775).abs() < 1e-9 && analysis.utilisation[0] < analysis.liu_layland_bound);
    assert!(analysis.hyperbolic_product <= 2.0);
}

/// The same, process set C: all of the processor, and every deadline met. The bound is sufficient, not necessary.
#[test]
fn process_set_c_of_burns_and_wellings_uses_all_of_the_processor() {
    let set = [activity("a", 80, 40), activity("b", 40, 10), activity("c", 20, 5)];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!(analysis.outcome, Outcome::Feasible);
    assert_eq!(responses(&analysis), [80, 15, 5]);
    assert!(analysis.utilisation[0] > analysis.liu_layland_bound);
}

/// The same, process set D, 13.5: the worked example of response time analysis.
#[test]
fn process_set_d_of_burns_and_wellings_has_its_response_times() {
    let set = [activity("a", 7, 3), activity("b", 12, 3), activity("c", 20, 5)];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!(analysis.outcome, Outcome::Feasible);
    assert_eq!(responses(&analysis), [3, 6, 20]);
}

/// The same, table 13.10: deadlines before the end of the period. Deadline monotonic priorities meet them, rate monotonic
/// ones do not.
#[test]
fn deadline_monotonic_example_of_burns_and_wellings_is_missed_by_rate_monotonic() {
    let with_deadline =
        |name, period, deadline, execution_time| Activity { deadline, ..activity(name, period, execution_time) };
    let set = [
        with_deadline("a", 20, 5, 3),
        with_deadline("b", 15, 7, 3),
        with_deadline("c", 10, 10, 4),
        with_deadline("d", 20, 20, 3),
    ];
    assert_eq!(Policy::automatic(&set), Policy::DeadlineMonotonic);
    let analysis = analysed(&set, Policy::DeadlineMonotonic);
    assert_eq!((analysis.outcome, responses(&analysis)), (Outcome::Feasible, vec![3, 6, 10, 20]));
    let order: Vec<_> = analysis.by_urgency().iter().map(|index| set[*index].name.clone()).collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    assert_eq!(analysed(&set, Policy::RateMonotonic).outcome, Outcome::Infeasible);
}

/// Sha, Klein and Goodenough, "Rate Monotonic Analysis for Real-Time Systems" (CMU/SEI-91-TR-6), the completion time test:
/// with 20 for the first the set is below the bound; with 40 it is not, and the third completes at 300.
#[test]
fn completion_time_test_of_sha_klein_and_goodenough_ends_at_300() {
    let set = |first| [activity("1", 100, first), activity("2", 150, 40), activity("3", 350, 100)];
    let below = analysed(&set(20), Policy::RateMonotonic);
    assert!(below.utilisation[0] < below.liu_layland_bound, "{below:?}");
    let above = analysed(&set(40), Policy::RateMonotonic);
    assert!(above.utilisation[0] > above.liu_layland_bound, "{above:?}");
    assert_eq!((above.outcome, responses(&above)[2]), (Outcome::Feasible, 300));
}

/// Buttazzo, "Hard Real-Time Computing Systems" (3rd ed. 2011), 4.5.2: the response of the fourth is 10, its deadline.
#[test]
fn response_time_example_of_buttazzo_ends_at_its_deadline() {
    let with_deadline =
        |name, execution_time, period, deadline| Activity { deadline, ..activity(name, period, execution_time) };
    let set = [
        with_deadline("1", 1, 4, 3),
        with_deadline("2", 1, 5, 4),
        with_deadline("3", 2, 6, 5),
        with_deadline("4", 1, 11, 10),
    ];
    let analysis = analysed(&set, Policy::DeadlineMonotonic);
    assert_eq!((analysis.outcome, responses(&analysis)[3]), (Outcome::Feasible, 10));
}

/// Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary deadlines" (RTSS 1990): the first event of the
/// second task is not the one that takes longest. The busy period ends at 694, and its events take 114, 102, 116, 104, 118,
/// 106 and 94.
#[test]
fn later_event_of_a_busy_period_takes_longest_in_the_example_of_lehoczky() {
    let set = [activity("1", 70, 26), Activity { deadline: 118, ..activity("2", 100, 62) }];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!((analysis.outcome, responses(&analysis)), (Outcome::Feasible, vec![26, 118]));
    let set = [activity("1", 70, 26), Activity { deadline: 117, ..activity("2", 100, 62) }];
    assert_eq!(analysed(&set, Policy::RateMonotonic).findings[1].late_by, Some(1));
}

/// Diemer, Axer and Ernst, "Compositional Performance Analysis in Python with pyCPA" (WATERS 2012), resource R1 of the example
/// with static priorities and jitter, as in pyCPA's own test: 10 for T11 and 13 for T12. pyCPA counts a response from when an
/// event comes, this analysis from when it was due: they differ by the jitter.
#[test]
fn jitter_delays_others_as_in_the_example_of_pycpa() {
    let set = [
        Activity { jitter: 5, deadline: 20, ..activity("T11", 30, 10) },
        Activity { jitter: 6, deadline: 21, ..activity("T12", 15, 3) },
    ];
    let analysis = analysed(&set, Policy::DeadlineMonotonic);
    assert_eq!((analysis.outcome, responses(&analysis)), (Outcome::Feasible, vec![10 + 5, 13 + 6]));
}

/// Blocking and jitter together, the worked example of the analysis library dy-wcet: 335.
#[test]
fn blocking_and_jitter_add_up_as_in_the_example_of_dy_wcet() {
    let set = [activity("sensor", 400, 100), Activity { blocking: 20, jitter: 15, ..activity("control", 1000, 200) }];
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_eq!((analysis.outcome, responses(&analysis)), (Outcome::Feasible, vec![100, 335]));
}

/// Jeffay, Stanat and Martel, "On non-preemptive scheduling of periodic and sporadic tasks" (RTSS 1991), theorem 3.2: beside
/// utilisation, an interval just shorter than a later deadline must hold that task's whole execution.
#[test]
fn long_event_makes_a_short_deadline_impossible_without_preemption() {
    let feasible = [activity("short", 4, 2), activity("long", 12, 3)];
    assert_eq!(analysed(&feasible, Policy::EarliestDeadline).outcome, Outcome::Feasible);
    let infeasible = [activity("short", 4, 2), activity("long", 12, 4)];
    let analysis = analysed(&infeasible, Policy::EarliestDeadline);
    assert_eq!(analysis.outcome, Outcome::Infeasible);
    assert_eq!(analysis.overload, Some(Overload { interval: 4, demand: 5, activity: 0 }));
    // Lanes of their own preempt each other.
    assert_eq!(analysed(&infeasible, Policy::RateMonotonic).outcome, Outcome::Feasible);
}
