//! Placement of activities on processors and lanes.

use super::fixed::response;
use super::{Activity, Request, Response, Steps, bounds};
use core::cmp::Reverse;

/// Processor and lane of each activity. Lanes count from 0, the least urgent, over all processors.
pub(super) struct Placement {
    pub(super) cpus: Vec<u16>,
    pub(super) lanes: Vec<u16>,
}

/// Places activities, given from the most urgent down: first on processors, then in lanes.
pub(super) fn place(activities: &[Activity], order: &[usize], request: &Request, steps: &mut Steps) -> Placement {
    let cpus =
        if request.cpus == 1 { vec![0; activities.len()] } else { first_fit(activities, order, request.cpus, steps) };
    let lanes = assign_cpus(order, &cpus, request);
    Placement { cpus, lanes }
}

/// The activity with the highest utilisation goes first, each to the first processor on which all still meet their deadlines,
/// else to the one with the lowest utilisation. A processor is never chosen because the analysis had no steps left.
fn first_fit(activities: &[Activity], order: &[usize], cpus: u16, steps: &mut Steps) -> Vec<u16> {
    let mut rank = vec![0; activities.len()];
    for (place, index) in order.iter().enumerate() {
        if let Some(slot) = rank.get_mut(*index) {
            *slot = place;
        }
    }
    let rank = |index: usize| rank.get(index).copied().unwrap_or(usize::MAX);
    let load = |index: usize| bounds::utilisation_floor(activities.get(index).into_iter());
    let mut by_load = order.to_vec();
    by_load.sort_by_key(|index| Reverse(load(*index)));
    // Activities on each processor, from the most urgent down.
    let mut there: Vec<Vec<usize>> = vec![Vec::new(); usize::from(cpus)];
    let mut chosen = vec![0; activities.len()];
    for index in by_load {
        let fitting = there.iter().position(|here| fits(activities, here, index, &rank, steps));
        let idlest = || {
            let loads = there.iter().enumerate();
            loads.min_by_key(|(_, here)| here.iter().map(|index| load(*index)).fold(0, u128::saturating_add))
        };
        let cpu = fitting.or_else(|| idlest().map(|(cpu, _)| cpu)).unwrap_or(0);
        if let Some(here) = there.get_mut(cpu) {
            let at = here.partition_point(|other| rank(*other) < rank(index));
            here.insert(at, index);
        }
        if let Some(slot) = chosen.get_mut(index) {
            *slot = u16::try_from(cpu).unwrap_or(0);
        }
    }
    chosen
}

/// Whether a further activity and all less urgent ones meet their deadlines.
fn fits(
    activities: &[Activity],
    here: &[usize],
    further: usize,
    rank: &impl Fn(usize) -> usize,
    steps: &mut Steps,
) -> bool {
    let mut all = here.to_vec();
    let at = all.partition_point(|other| rank(*other) < rank(further));
    all.insert(at, further);
    let all: Vec<&Activity> = all.iter().filter_map(|index| activities.get(*index)).collect();
    (at..all.len()).all(|place| {
        let (Some(activity), Some(first)) = (all.get(place), all.get(..place)) else { return false };
        matches!(response(activity, first, steps).0, Response::Worst(time) if time <= activity.deadline)
    })
}

/// A lane for each activity if there are enough; else neighbours in urgency on one processor share one, the most
/// urgent ones last.
fn assign_cpus(order: &[usize], cpus: &[u16], request: &Request) -> Vec<u16> {
    let on = |cpu: u16| order.iter().copied().filter(move |index| cpus.get(*index) == Some(&cpu));
    let used = (0..request.cpus).filter(|cpu| on(*cpu).next().is_some()).count().max(1);
    let enough = order.len() <= usize::from(request.lanes_max);
    let for_each_cpu = if enough { order.len() } else { usize::from(request.lanes_max) / used };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for cpu in 0..request.cpus {
        let here: Vec<usize> = on(cpu).collect();
        groups.extend(split(&here, for_each_cpu));
    }
    // Over all processors, the groups are in the order of their most urgent members.
    let place = |index: &usize| order.iter().position(|other| other == index);
    groups.sort_by_key(|group| group.first().and_then(place));
    let mut lanes = vec![0; order.len()];
    for (lane, group) in groups.iter().rev().enumerate() {
        for index in group {
            if let Some(slot) = lanes.get_mut(*index) {
                *slot = u16::try_from(lane).unwrap_or(u16::MAX);
            }
        }
    }
    lanes
}

/// Splits into at most `count` runs of lengths that differ by at most one, the longer ones at the end.
fn split(activities: &[usize], count: usize) -> Vec<Vec<usize>> {
    let count = count.clamp(1, activities.len().max(1));
    let (length, longer) = (activities.len() / count, activities.len() % count);
    let mut rest = activities;
    let mut runs = Vec::new();
    for run in 0..count {
        let (own, others) = rest.split_at(length + usize::from(run >= count - longer));
        runs.push(own.to_vec());
        rest = others;
    }
    runs.retain(|run| !run.is_empty());
    runs
}
