//! All contenders in one scenario: in each round, one after the other has its turn, or two have it at the same time.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use super::cells::{Cell, Figures};
use super::contender::{Absence, Contender, Scenario};
use super::course::{Course, LEAD, Outcome, Plan};
use super::experiments::{latencies, plan};
use super::perf;
use super::pool::{Kept, Pool};
use crate::latency::ratio;
use crate::spin::Awake;
use crate::{BenchError, Output, clock};

/// Deliveries in each second of a longer warm-up.
const WARM_UP_DELIVERIES: u64 = 5000;

/// Warm-ups at most, where one is repeated until the server takes no more memory.
const WARM_UPS_MAX: u32 = 6;

pub(super) struct Race {
    /// For reports.
    pub(super) experiment: &'static str,
    /// The contenders that take part.
    pub(super) contenders: Vec<&'static Contender>,
    pub(super) scenario: Scenario,
    pub(super) rounds: u32,
    /// Those that are judged by each other, and how many rounds they have: those beyond the others' they have by themselves.
    pub(super) judged: (&'static [&'static str], u32),
    /// Events that are not recorded, before the first round: caches fill, and virtual machines compile. Where the server's own
    /// counters are read meanwhile, they are sent again until it has allocated nothing, so and so often at most.
    pub(super) warm_up: Plan,
    /// Which latencies are taken together over turns, where one turn alone has too few for a 99.9th percentile.
    pub(super) pooled: Option<Kept>,
    /// Whether the contenders, which then are two, have each turn at the same time, so that what the machine does falls on both.
    pub(super) at_once: bool,
    /// Whether this is a check only, without a longer warm-up.
    pub(super) quick: bool,
    /// What is sent in each turn, one after the other.
    pub(super) plans: Vec<Plan>,
    /// What is made of an outcome.
    pub(super) figures: fn(&Scenario, &Outcome) -> Figures,
    /// Whether system calls are counted too, in a turn of their own.
    pub(super) system_calls: Option<Plan>,
}

/// Why contenders are not there, by key.
pub(super) type Missing = BTreeMap<&'static str, String>;

impl Race {
    /// One of these contenders, with so many seconds of warm-up and one round, nothing pooled or counted, and no plans yet.
    pub(super) fn new(
        experiment: &'static str,
        (quick, warm_up): (bool, f64),
        contenders: Vec<&'static Contender>,
        scenario: Scenario,
    ) -> Self {
        Self {
            experiment,
            contenders,
            scenario,
            rounds: 1,
            judged: (&[], 0),
            warm_up: plan(0.0, 0.0, warm_up),
            pooled: None,
            at_once: false,
            quick,
            plans: Vec::new(),
            figures: latencies,
            system_calls: None,
        }
    }

    /// Runs it; the cells of each contender, for each plan.
    pub(super) fn run(&self, missing: &mut Missing, out: &mut Output<'_>) -> Result<Vec<Cell>, BenchError> {
        let cores = [self.scenario.server_core, self.scenario.ends_core];
        let _awake = self.pinned().then(|| Awake::keep(&cores)).transpose()?;
        let mut lanes = self.lanes(missing, out)?;
        if self.at_once && lanes.len() < 2 {
            return Ok(Vec::new());
        }
        for lane in &mut lanes {
            if let Some(plan) = self.longer_warm_up(lane.warm_up_times) {
                lane.act(|course, _| course.run(&plan).map(|_| ()));
            }
            lane.act(|course, _| self.warm_up(course));
        }
        let (judged, rounds) = self.judged;
        let rounds = self.rounds.max(rounds);
        for round in 1..=rounds {
            out.progress(&format!("{}: round {round} of {rounds}", self.title()))?;
            let takes_part = |lane: &&mut Lane| round <= self.rounds || judged.contains(&lane.key);
            for plan in 0..self.plans.len() {
                let mut turns: Vec<&mut Lane> = lanes.iter_mut().filter(takes_part).collect();
                if self.at_once {
                    self.turn_at_once(plan, (round, rounds), turns);
                    continue;
                }
                // What the machine does changes from second to second: no contender is always the later one.
                if round % 2 == 0 {
                    turns.reverse();
                }
                for lane in turns {
                    lane.act(|course, cells| self.turn(plan, course, cells));
                }
            }
        }
        if let Some(plan) = &self.system_calls {
            for lane in &mut lanes {
                lane.act(|course, cells| self.count_system_calls(plan, course, cells));
            }
        }
        Ok(lanes.into_iter().flat_map(|lane| lane.cells).collect())
    }

    /// Starts all contenders that are there.
    fn lanes(&self, missing: &mut Missing, out: &mut Output<'_>) -> Result<Vec<Lane>, BenchError> {
        let mut lanes: Vec<Lane> = Vec::new();
        for contender in &self.contenders {
            if missing.contains_key(contender.key) {
                continue;
            }
            out.progress(&format!("{}: starting {}", self.title(), contender.name))?;
            match Course::lay(contender, &self.scenario) {
                Ok(course) => lanes.push(self.lane(contender, Some(course))),
                Err(Absence::NotInstalled(how)) => drop(missing.insert(contender.key, how)),
                Err(Absence::NotOffered(_)) => {}
                Err(Absence::Failed(error)) => {
                    let mut lane = self.lane(contender, None);
                    lane.fail(&error);
                    lanes.push(lane);
                }
            }
        }
        Ok(lanes)
    }

    fn lane(&self, contender: &'static Contender, course: Option<Course>) -> Lane {
        let key = contender.key;
        Lane { key, course, cells: self.cells(contender), warm_up_times: contender.warm_up_times }
    }

    /// Events for a contender that takes so many times as long as others to be as fast as it gets; at a rate, so that none queue up.
    fn longer_warm_up(&self, times: u64) -> Option<Plan> {
        let window = self.warm_up.window.saturating_mul(times.saturating_sub(1));
        let period = clock::SECOND / WARM_UP_DELIVERIES * u64::from(self.scenario.consumers);
        (window > 0 && !self.quick).then_some(Plan { period, warm_up: 0, window, ..self.warm_up })
    }

    fn warm_up(&self, course: &mut Course) -> Result<(), BenchError> {
        for _ in 0..WARM_UPS_MAX {
            let outcome = course.run(&self.warm_up)?;
            if outcome.counted.is_none_or(|counted| counted.allocations == 0) {
                break;
            }
        }
        Ok(())
    }

    fn turn(&self, plan: usize, course: &mut Course, cells: &mut [Cell]) -> Result<(), BenchError> {
        let (Some(plan), Some(cell)) = (self.plans.get(plan), cells.get_mut(plan)) else { return Ok(()) };
        let outcome = course.run(plan)?;
        self.enter(&outcome, cell);
        Ok(())
    }

    fn enter(&self, outcome: &Outcome, cell: &mut Cell) {
        cell.rounds.push((self.figures)(&self.scenario, outcome));
        if let Some(kept) = self.pooled {
            cell.latencies.get_or_insert_with(|| Pool::new(kept)).push(outcome);
        }
        cell.sum_up();
    }

    /// Has all of them run at the same time. A turn in which one fails counts for none.
    fn turn_at_once(&self, number: usize, round: (u32, u32), mut turns: Vec<&mut Lane>) {
        let Some(plan) = self.plans.get(number) else { return };
        let lanes = turns.len();
        let courses: Vec<&mut Course> = turns.iter_mut().filter_map(|lane| lane.course.as_mut()).collect();
        if courses.len() < lanes {
            return;
        }
        let began = clock::now() + LEAD;
        let outcomes: Vec<Result<Outcome, BenchError>> = thread::scope(|scope| {
            let mut running = Vec::new();
            for (place, course) in (0..).zip(courses) {
                let began = began + later(plan.period, place, round);
                running.push(scope.spawn(move || course.run_beside(plan, began)));
            }
            running.into_iter().map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let complete = outcomes.iter().all(Result::is_ok);
        for (lane, outcome) in turns.into_iter().zip(outcomes) {
            match (outcome, lane.cells.get_mut(number)) {
                (Ok(outcome), Some(cell)) if complete => self.enter(&outcome, cell),
                (Err(error), _) => lane.fail(&error),
                _ => {}
            }
        }
    }

    fn count_system_calls(&self, plan: &Plan, course: &mut Course, cells: &mut [Cell]) -> Result<(), BenchError> {
        let pids = course.pids();
        let (outcome, calls) = perf::count_system_calls(&pids, || course.run(plan))?;
        for cell in cells {
            match calls {
                Some(calls) => {
                    let per_event = ratio(calls, outcome.sent.events.max(1));
                    let spread = crate::Spread { median: per_event, min: per_event, max: per_event };
                    cell.figures.insert("system_calls_per_event", spread);
                }
                None if pids.is_empty() => {}
                None => {
                    cell.note = Some("system calls not counted: `perf` is not there or may not count them".to_owned())
                }
            }
        }
        Ok(())
    }

    fn cells(&self, contender: &'static Contender) -> Vec<Cell> {
        let mut others = self.contenders.iter().map(|other| other.key).filter(|other| *other != contender.key);
        let beside = others.next().filter(|_| self.at_once);
        let cell = |plan: &Plan| {
            let rate = if plan.period == 0 { 0.0 } else { ratio(clock::SECOND, plan.period) };
            let mut cell = Cell::new(self.experiment, contender.key, &self.scenario, rate, self.pinned());
            cell.beside = beside;
            cell
        };
        self.plans.iter().map(cell).collect()
    }

    fn pinned(&self) -> bool {
        self.scenario.server_core.is_some()
    }

    fn title(&self) -> String {
        format!("{}: {}", self.experiment, self.scenario.describe())
    }
}

/// How much later the contender in this place begins than the first of those at the same time, in this round of so many. It is
/// another share of the period in each round, since with the same in all of them one would always come right behind the other. Of
/// two, each is as often behind the other by a share as it is ahead of it.
fn later(period: u64, place: u32, (round, rounds): (u32, u32)) -> u64 {
    let share = period * (2 * u64::from(round) - 1) / (2 * u64::from(rounds));
    share * u64::from(place) % period.max(1)
}

/// A contender in the race.
struct Lane {
    /// The contender's.
    key: &'static str,
    /// Gone once it has failed.
    course: Option<Course>,
    /// One for each plan.
    cells: Vec<Cell>,
    warm_up_times: u64,
}

impl Lane {
    /// Has it act, unless it has failed. A failure is written down, and the others go on.
    fn act(&mut self, act: impl FnOnce(&mut Course, &mut [Cell]) -> Result<(), BenchError>) {
        let Some(course) = &mut self.course else { return };
        if let Err(error) = act(course, &mut self.cells) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &BenchError) {
        self.course = None;
        for cell in &mut self.cells {
            let text: String = error.to_string().chars().take(500).collect();
            cell.note = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_at_the_same_time_each_is_behind_the_other_by_every_share_of_the_period() {
        let behind: Vec<u64> = (1..=4).map(|round| later(4000, 1, (round, 4))).collect();
        assert_eq!(behind, [500, 1500, 2500, 3500]);
        let ahead: Vec<u64> = behind.iter().rev().map(|behind| 4000 - behind).collect();
        assert_eq!(behind, ahead);
        assert_eq!((later(4000, 0, (3, 4)), later(0, 1, (1, 4))), (0, 0));
    }
}
