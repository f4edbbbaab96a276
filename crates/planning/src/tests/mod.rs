//! The analysis against published task sets, against a simulation, and at its limits.

mod chains;
mod files;
mod limits;
mod published;
mod simulated;
mod tempo;

use super::{Activity, Analysis, AnalysisLimits, Policy, Request, Response, analyse};

/// An activity with its deadline at the end of its period.
fn activity(name: &str, period: u64, execution_time: u64) -> Activity {
    Activity {
        name: name.to_owned(),
        channel: 0,
        domain: "Test".to_owned(),
        type_name: name.to_owned(),
        period,
        execution_time,
        deadline: period,
        jitter: 0,
        blocking: 0,
        criticality: 0,
    }
}

fn request_with(policy: Policy) -> Request {
    Request { policy: Some(policy), ..Request::default() }
}

fn analysed(activities: &[Activity], policy: Policy) -> Analysis {
    analyse(activities, &request_with(policy), &AnalysisLimits::SERVICE).unwrap()
}

/// The responses in the order of the activities, which all have to be known.
fn responses(analysis: &Analysis) -> Vec<u64> {
    let known = |response| match response {
        Response::Worst(time) => time,
        other => panic!("{other:?}"),
    };
    analysis.findings.iter().map(|finding| known(finding.response)).collect()
}
