//! The formulas applied to all topics of a system.

use super::{
    Arrivals, ForecastRequest, ForecastRequestError, Probability, Queue, SERVER_NAME, TopicRate, guaranteed_rate,
    wait_for_service_s,
};
use crate::{Activity, Analysis, AnalysisLimits, Outcome, Policy, Request, analyse};

/// Forecast of one topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicForecast {
    /// μ_j: rate guaranteed while the system runs, in messages per second.
    pub guaranteed_while_running: f64,
    /// Rate guaranteed over all time: multiplied by T/P where the system is time-driven.
    pub guaranteed: f64,
    /// ρ = λ/μ_j, with the rate over all time.
    pub intensity: f64,
    /// Whether ρ is below 1.
    pub is_stable: bool,
    /// Mean time from arrival until served, in seconds. Load-driven and Poisson: M/M/1. Load-driven and periodic: one
    /// service. Time-driven and periodic: P/2. Time-driven and Poisson: M/M/1 at the reduced rate, without the wait
    /// for the release, which is P/2 on average and at most P. `None` if unbounded.
    pub mean_response_s: Option<f64>,
    /// Times that the requested percentages of messages do not exceed, in that order; of the same distribution. Empty
    /// where only the longest is known, as with time-driven and periodic.
    pub percentiles_s: Vec<f64>,
    /// Longest time, if bounded: for periodic arrivals.
    pub longest_response_s: Option<f64>,
    /// Time-driven and Poisson: probability that no message is carried over into another period. `None` also if it
    /// would take too many steps.
    pub nothing_carried_over: Option<Probability>,
    /// Time for which a message waits for its topic's turn while all other topics have messages waiting, in seconds.
    pub wait_for_service_s: f64,
    /// Limit that `wait_for_service_s` must stay below: 1/r.
    pub wait_for_service_below_s: f64,
}

impl TopicForecast {
    /// Whether the topic's turn comes often enough for its rate.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        self.wait_for_service_s < self.wait_for_service_below_s
    }
}

/// Result of a forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Forecast of each topic, in the order of the request.
    pub topics: Vec<TopicForecast>,
    /// Total arrival rate over total service rate.
    pub intensity: f64,
    /// The server's thread first, then the applications, by rate monotonic priorities; `None` where it is load-driven.
    pub threads: Option<(Vec<Activity>, Analysis)>,
}

impl Forecast {
    /// Whether every topic is stable and has its turns in time, and every thread ends within its period. Inconclusive
    /// if the analysis of the threads is.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if self.topics.iter().any(|topic| !topic.is_stable || !topic.is_in_time()) {
            return Outcome::Infeasible;
        }
        self.threads.as_ref().map_or(Outcome::Feasible, |(_, analysis)| analysis.outcome)
    }
}

/// Forecasts delays and rates. `percentages` (each above 0 and below 100) are those of the percentiles wanted.
///
/// ```
/// use planning::tempo::{Arrivals, ForecastRequest, Topic, forecast};
/// let topic = |name: &str, rate, arrival| {
///     Topic { name: name.to_owned(), rate, arrival, deadline_s: None, arrivals: Arrivals::Poisson }
/// };
/// let request = ForecastRequest {
///     service_rate: 40_000.0,
///     topics: vec![topic("orders", 1000.0, 250.0), topic("prices", 3000.0, 3000.0)],
///     server: None,
///     applications: Vec::new(),
/// };
/// let found = forecast(&request, &[99.9], &planning::AnalysisLimits::COMMAND)?;
/// // The paper's example: 0.1 ms on average, 99.9 % within 0.7 ms.
/// assert_eq!(found.topics[0].guaranteed, 10_000.0);
/// assert!((found.topics[0].percentiles_s[0] - 0.000_708_5).abs() < 1e-7);
/// # Ok::<(), planning::tempo::ForecastRequestError>(())
/// ```
///
/// # Errors
/// [`ForecastRequestError`] for what makes no sense.
pub fn forecast(
    request: &ForecastRequest,
    percentages: &[f64],
    limits: &AnalysisLimits,
) -> Result<Forecast, ForecastRequestError> {
    request.check()?;
    if let Some(percentage) = percentages.iter().find(|percentage| !(**percentage > 0.0 && **percentage < 100.0)) {
        return Err(ForecastRequestError::Whole(format!(
            "{percentage} is no percentage of messages: between 0 and 100, without them"
        )));
    }
    let threads = threads(request, limits)?;
    let topic_rates: Vec<TopicRate> =
        request.topics.iter().map(|topic| TopicRate { rate: topic.rate, deadline_s: topic.deadline_s }).collect();
    let mut steps = limits.steps_max;
    let topics = (0..topic_rates.len())
        .filter_map(|index| of_topic(request, &topic_rates, index, percentages, &mut steps))
        .collect();
    let reduced = request.server.map_or(1.0, |server| server.polling().fraction()) * request.service_rate;
    let arrivals: f64 = request.topics.iter().map(|topic| topic.arrival).sum();
    Ok(Forecast { topics, intensity: arrivals / reduced, threads })
}

fn of_topic(
    request: &ForecastRequest,
    topic_rates: &[TopicRate],
    index: usize,
    percentages: &[f64],
    steps: &mut u64,
) -> Option<TopicForecast> {
    let topic = request.topics.get(index)?;
    let server = request.server.map(super::Server::polling);
    let shares: f64 = topic_rates.iter().map(|topic_rates| topic_rates.rate).sum();
    let while_running = guaranteed_rate(request.service_rate, topic.rate, shares);
    let reduce = |rate: f64| server.map_or(rate, |server| server.reduced(rate));
    let queue = Queue { arrival_rate: topic.arrival, service_rate: reduce(while_running) };
    let is_stable = queue.is_stable();
    let (mut mean, mut longest, mut percentiles, mut nothing_carried_over) = (None, None, Vec::new(), None);
    match (topic.arrivals, server) {
        _ if !is_stable => {}
        (Arrivals::Poisson, _) => {
            mean = queue.mean_response_s();
            percentiles =
                percentages.iter().filter_map(|percentage| queue.response_percentile_s(*percentage)).collect();
        }
        (Arrivals::Periodic, None) => {
            mean = Some(1.0 / queue.service_rate);
            longest = mean;
        }
        (Arrivals::Periodic, Some(server)) => {
            mean = Some(server.mean_wait_s());
            longest = Some(server.longest_wait_s());
        }
    }
    if let (Arrivals::Poisson, Some(server)) = (topic.arrivals, server) {
        let running = Queue { service_rate: while_running, ..queue };
        nothing_carried_over = server.nothing_carried_over(&running, steps);
    }
    Some(TopicForecast {
        guaranteed_while_running: while_running,
        guaranteed: queue.service_rate,
        intensity: queue.intensity(),
        is_stable,
        mean_response_s: mean,
        percentiles_s: percentiles,
        longest_response_s: longest,
        nothing_carried_over,
        wait_for_service_s: wait_for_service_s(topic_rates, index, reduce(request.service_rate))?,
        wait_for_service_below_s: 1.0 / topic.rate,
    })
}

/// The server's thread and the applications as activities, the shortest period first.
fn threads(
    request: &ForecastRequest,
    limits: &AnalysisLimits,
) -> Result<Option<(Vec<Activity>, Analysis)>, ForecastRequestError> {
    let Some(server) = request.server else { return Ok(None) };
    let activity = |name: &str, period: u64, execution_time: u64| Activity {
        name: name.to_owned(),
        channel: 0,
        domain: String::new(),
        type_name: String::new(),
        period,
        execution_time,
        deadline: period,
        jitter: 0,
        blocking: 0,
        criticality: 0,
    };
    let own = activity(SERVER_NAME, server.period, server.budget);
    let others = request.applications.iter().map(|other| activity(&other.name, other.period, other.execution_time));
    let all: Vec<Activity> = core::iter::once(own).chain(others).collect();
    let request = Request { policy: Some(Policy::RateMonotonic), ..Request::default() };
    match analyse(&all, &request, limits) {
        Ok(analysis) => Ok(Some((all, analysis))),
        Err(crate::PlanError::Activity { index, why }) => Err(match index.checked_sub(1) {
            None => ForecastRequestError::Server(why),
            Some(index) => ForecastRequestError::Application { index, why },
        }),
        Err(crate::PlanError::Request(why)) => Err(ForecastRequestError::Whole(why)),
    }
}
