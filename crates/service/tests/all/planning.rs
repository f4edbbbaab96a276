//! The scheduling analysis of a running service, asked by a client.

use crate::peers::start;
use client::notify::{EventChannelFactory, Property, ThreadPoolLanes, Topic, Topics};
use client::scheduling::{Activity, Feasibility, Policy, Response, SchedulingService, invalid_activity};
use client::{InvokeError, Orb, OrbOptions};
use giop::realtime::PriorityModel;
use planning::{AnalysisLimits, Plan, PlannedChannel, PlannedTopic, PlanningFile};
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
    assert!(Plan::from_toml(&analysis.lanes).unwrap().feasible);

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

/// The channel's properties as a plan gives them.
fn properties(channel: &PlannedChannel) -> Vec<Property> {
    assert_eq!(channel.priority_model, "CLIENT_PROPAGATED");
    let lanes: Vec<_> = channel.lanes.iter().map(|lane| (lane.priority, u32::from(lane.static_threads))).collect();
    let topic = |planned: &PlannedTopic| {
        let (domain, name) = planned.event_type.split_once('/').unwrap();
        Topic {
            deadline: planned.deadline.map(Duration::from_nanos),
            execution_time: Duration::from_nanos(planned.execution_time),
            criticality: planned.criticality,
            ..Topic::new(domain, name, planned.share)
        }
    };
    vec![
        ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &lanes).into(),
        Property::new("Discipline", channel.discipline.as_str()),
        Topics(channel.topics.iter().map(topic).collect()).into(),
    ]
}

#[test]
fn what_is_planned_can_be_set() {
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let factory = EventChannelFactory::narrow(orb.resolve(&service.corbaloc("NotificationService")).unwrap()).unwrap();
    let text = include_str!("../../../../config/plan.toml");
    let file = PlanningFile::parse(text).unwrap();
    let long =
        planning::Activity { deadline: 3_000_000_000, execution_time: 2_000_000_000, ..file.activities[0].clone() };
    let long = planning::Activity { name: "long".into(), type_name: "Long".into(), period: 9_000_000_000, ..long };
    let set = [file.activities.as_slice(), &[long]].concat();
    for policy in ["rm", "dm", "edf", "llf", "muf"].map(planning::Policy::of_short_name) {
        let request = planning::Request { policy, ..file.request };
        let analysis = planning::analyse(&set, &request, &AnalysisLimits::SERVICE).unwrap();
        let plan = Plan::from_toml(&Plan::new(&set, &analysis).to_toml()).unwrap();
        let (channel, _) = factory.create_channel(&[], &[]).unwrap();
        channel.set_qos(&properties(&plan.channels[0])).unwrap();
        let told = channel.get_qos().unwrap();
        assert!(told.iter().any(|property| property.name == "ThreadPoolLanes"), "{told:?}");
        channel.destroy().unwrap();
    }
}
