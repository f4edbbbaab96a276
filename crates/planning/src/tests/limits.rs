//! Bad input, ends of ranges, many activities, several processors.

use super::*;
use crate::{Outcome, Plan, PlanError, TIME_MAX, Why};

fn refused(activities: &[Activity], request: &Request) -> String {
    analyse(activities, request, &AnalysisLimits::SERVICE).unwrap_err().to_string()
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place_and_what_it_has_to_be() {
    let good = || activity("good", 10, 1);
    let request = Request::default();
    for (bad, said) in [
        (Activity { period: 0, ..good() }, "activity 1: the period of \"good\" is 0; it has to be at least 1 ns"),
        (Activity { execution_time: 0, ..good() }, "execution time"),
        (Activity { deadline: 0, ..good() }, "deadline"),
        (Activity { jitter: TIME_MAX + 1, ..good() }, "three years"),
        (Activity { name: String::new(), ..good() }, "no name"),
        (activity("first", 10, 1), "another activity is called \"first\""),
    ] {
        let error = refused(&[activity("first", 10, 1), bad], &request);
        assert!(error.starts_with("activity 1: ") && error.contains(said), "{error}");
    }
    assert_eq!(refused(&[], &request), "there are no activities");
    assert!(refused(&[good()], &Request { cpus: 0, ..request }).contains("cpus is 0"));
    assert!(refused(&[good()], &Request { lanes_max: 65, ..request }).contains("from 1 to 64"));
    assert!(refused(&[good()], &Request { cpus: 3, lanes_max: 2, ..request }).contains("each processor needs a lane"));
    let many: Vec<_> = (0..4097).map(|index| activity(&index.to_string(), 10, 1)).collect();
    assert!(refused(&many, &request).contains("4097"));
}

#[test]
fn dynamic_policy_on_more_channels_than_processors_is_refused() {
    let set = [activity("a", 10, 1), Activity { channel: 1, ..activity("b", 10, 1) }];
    let error = refused(&set, &request_with(Policy::EarliestDeadline));
    assert!(error.contains("2 channels need 2 processors"), "{error}");
    let two = Request { cpus: 2, ..request_with(Policy::EarliestDeadline) };
    let analysis = analyse(&set, &two, &AnalysisLimits::SERVICE).unwrap();
    assert_eq!(analysis.findings.iter().map(|finding| finding.cpu).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn ends_of_the_ranges_overflow_into_no_wrong_answer() {
    let widest = Activity { jitter: TIME_MAX, blocking: TIME_MAX, ..activity("widest", TIME_MAX, TIME_MAX) };
    for policy in [Policy::RateMonotonic, Policy::EarliestDeadline, Policy::LeastLaxity, Policy::MaximumUrgency] {
        let set = [widest.clone(), activity("quickest", 1, 1)];
        assert_eq!(analysed(&set, policy).outcome, Outcome::Infeasible, "{policy}");
        let set = [activity("a", 1, TIME_MAX), activity("b", 1, TIME_MAX)];
        assert_eq!(analysed(&set, policy).outcome, Outcome::Infeasible, "{policy}");
        let set = [activity("all", TIME_MAX, TIME_MAX)];
        assert_eq!(analysed(&set, policy).outcome, Outcome::Feasible, "{policy}");
    }
    // A billionth more than the processor has: too much for ever, whether or not the first miss can be found.
    let set = [activity("a", 1_000_000_007, 500_000_004), activity("b", 1_000_000_009, 500_000_005)];
    for policy in [Policy::RateMonotonic, Policy::EarliestDeadline] {
        assert_eq!(analysed(&set, policy).outcome, Outcome::Infeasible, "{policy}");
    }
}

#[test]
fn analysis_without_steps_left_says_that_it_cannot_say() {
    let set: Vec<_> = (0..50_u64).map(|index| activity(&format!("{index:02}"), 1000 + index, 10)).collect();
    for policy in [Policy::RateMonotonic, Policy::EarliestDeadline, Policy::LeastLaxity] {
        let limits = AnalysisLimits { steps_max: 60, ..AnalysisLimits::SERVICE };
        let analysis = analyse(&set, &request_with(policy), &limits).unwrap();
        assert_eq!(analysis.outcome, Outcome::Inconclusive(Why::StepsSpent), "{policy}");
        assert_eq!(analysed(&set, policy).outcome, Outcome::Feasible, "{policy}");
    }
}

#[test]
fn a_miss_that_was_found_counts_though_the_analysis_had_to_end() {
    // The busy period never ends: all of the processor is used, and something blocks.
    let set = [activity("a", 4, 2), Activity { blocking: 1, deadline: 100, ..activity("b", 8, 4) }];
    let limits = AnalysisLimits { steps_max: 10_000, ..AnalysisLimits::SERVICE };
    let analysis = analyse(&set, &request_with(Policy::RateMonotonic), &limits).unwrap();
    assert_eq!(analysis.outcome, Outcome::Inconclusive(Why::StepsSpent));
    let set = [set[0].clone(), Activity { deadline: 8, ..set[1].clone() }];
    let analysis = analyse(&set, &request_with(Policy::RateMonotonic), &limits).unwrap();
    assert_eq!(analysis.outcome, Outcome::Infeasible);
    assert!(matches!(analysis.findings[1].response, Response::AtLeast(time) if time > 8), "{analysis:?}");
}

#[test]
fn as_many_activities_as_may_be_are_analysed_within_the_services_steps() {
    let set: Vec<_> =
        (0..4096_u64).map(|index| activity(&format!("{index:04}"), 10_000_000 + 1000 * index, 1500)).collect();
    let analysis = analysed(&set, Policy::RateMonotonic);
    assert_ne!(analysis.outcome, Outcome::Infeasible);
    assert_eq!(analysis.findings.iter().map(|finding| finding.lane).max(), Some(63));
    let plan = Plan::new(&set, &analysis);
    assert_eq!(plan.channels[0].lanes.len(), 64);
    assert_eq!(plan.channels[0].lanes.iter().map(|lane| lane.activities.len()).sum::<usize>(), 4096);
}

#[test]
fn priorities_are_spread_over_all_that_there_are() {
    let set = [activity("slow", 30, 1), activity("quick", 10, 1), activity("middle", 20, 1)];
    let analysis = analysed(&set, Policy::RateMonotonic);
    let priorities: Vec<_> = analysis.findings.iter().map(|finding| finding.priority).collect();
    assert_eq!(priorities, [0, 32_767, 16_383]);
    assert_eq!(analysis.by_urgency(), [1, 2, 0]);
}

#[test]
fn ties_are_broken_by_criticality_and_then_by_name() {
    let set = [activity("b", 10, 1), activity("a", 10, 1), Activity { criticality: 1, ..activity("c", 10, 1) }];
    assert_eq!(analysed(&set, Policy::RateMonotonic).by_urgency(), [2, 1, 0]);
}

#[test]
fn what_does_not_fit_one_processor_is_placed_on_two() {
    let set = [activity("a", 10, 6), activity("b", 10, 6), activity("c", 20, 6), activity("d", 20, 6)];
    assert_eq!(analysed(&set, Policy::RateMonotonic).outcome, Outcome::Infeasible);
    let request = Request { cpus: 2, ..request_with(Policy::RateMonotonic) };
    let analysis = analyse(&set, &request, &AnalysisLimits::SERVICE).unwrap();
    assert_eq!(analysis.outcome, Outcome::Feasible, "{analysis:?}");
    assert!(analysis.utilisation.iter().all(|load| (load - 0.9).abs() < 1e-9), "{analysis:?}");
    let plan = Plan::new(&set, &analysis);
    assert!(plan.notes.iter().any(|note| note.contains("one processor")), "{plan:?}");
    // Three of the larger ones cannot be on two.
    let set = [activity("a", 10, 6), activity("b", 10, 6), activity("c", 10, 6)];
    let analysis = analyse(&set, &request, &AnalysisLimits::SERVICE).unwrap();
    assert_eq!(analysis.outcome, Outcome::Infeasible);
}

#[test]
fn refusal_of_a_request_is_reported_in_words() {
    assert_eq!(PlanError::Request("no".to_owned()).to_string(), "no");
    assert!(Why::Overflow.to_string().contains("64 bits"));
}
