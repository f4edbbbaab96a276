//! What TAO's real-time event service does, over a channel of a notification service.
//!
//! Its pushes are one-way and are not repeated, nothing outlives a process, and of the events that wait for a consumer the one with the
//! highest priority goes first. A filter by source and type is a connection here, a disjunction several connections to one sink, an interval
//! timeout a timer of a component, a dispatch priority `DispatchPriority`. A conjunction, which hands over a set of events, has no form here.

use super::qos::{BEST_EFFORT, PRIORITY};
use super::{Kind, domain_problem, notification};

pub(super) static KIND: Kind = Kind {
    name: "rtes",
    is_built: true,
    has_links: true,
    problem: domain_problem,
    set: |qos, property, value| match property {
        "EventReliability" | "ConnectionReliability" if value != BEST_EFFORT => {
            Err("nothing outlives a process, as with BestEffort; the service notification has it")
        }
        _ => notification::set(qos, property, value),
    },
    always: &[
        ("PushOneWay", 1),
        ("OrderPolicy", PRIORITY),
        ("EventReliability", BEST_EFFORT),
        ("ConnectionReliability", BEST_EFFORT),
    ],
    open: notification::open,
};
