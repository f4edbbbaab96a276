//! The scheduling analysis of a running service, asked by a client.

use crate::peers::start;
use client::scheduling::{Activity, Feasibility, Policy, Response, SchedulingService, invalid_activity};
use client::{InvokeError, Orb, OrbOptions};
use std::time::Duration;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn client_gets_the_response_times_of_a_textbook() {
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let scheduling = SchedulingService::narrow(orb.resolve(&service.corbaloc("SchedulingService")).unwrap()).unwrap();
    // Burns and Wellings, "Real-Time Systems and Programming Languages", process set D.
    let set = [Activity::new("a", ms(7), ms(3)), Activity::new("b", ms(12), ms(3)), Activity::new("c", ms(20), ms(5))];
    let analysis = scheduling.analyse(&set, Policy::Automatic, 1).unwrap();
    assert_eq!((analysis.policy, analysis.feasibility), (Policy::RateMonotonic, Feasibility::Feasible));
    let responses: Vec<_> = analysis.assignments.iter().map(|each| (each.name.as_str(), each.response)).collect();
    let published = [("a", 3), ("b", 6), ("c", 20)].map(|(name, time)| (name, Response::Worst(ms(time))));
    assert_eq!(responses, published);
    assert!(service::planning::Plan::from_toml(&analysis.lanes).unwrap().feasible);

    let infeasible = scheduling.analyse(&set, Policy::EarliestDeadline, 1).unwrap();
    assert_eq!(infeasible.feasibility, Feasibility::Infeasible, "{}", infeasible.explanation);

    let wrong = [set[0].clone(), Activity { period: Duration::ZERO, ..set[1].clone() }];
    let Err(InvokeError::User(exception)) = scheduling.analyse(&wrong, Policy::Automatic, 1) else { panic!() };
    let (index, why) = invalid_activity(&exception).unwrap();
    assert!(index == 1 && why.contains("period of \"b\""), "{index} {why}");

    let many: Vec<_> = (0..4097).map(|index| Activity::new(&index.to_string(), ms(10), ms(1))).collect();
    let Err(InvokeError::System { exception, .. }) = scheduling.analyse(&many, Policy::Automatic, 1) else { panic!() };
    assert_eq!(exception.kind, giop::exception::Kind::ImpLimit);
}
