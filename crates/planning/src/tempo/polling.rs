//! The messaging system as a polling server (section IV.A): it runs in each period, until its budget is spent.

use super::Queue;

/// A thread that is released each period, and then runs for at most its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollingServer {
    /// P: period, in seconds.
    pub period_s: f64,
    /// T: budget, in seconds; at most P.
    pub budget_s: f64,
}

/// A computed probability, with its error bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability {
    /// Computed value.
    pub value: f64,
    /// Largest distance of the exact value.
    pub error_max: f64,
}

impl PollingServer {
    /// T/P: fraction of a processor that the server has.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.budget_s / self.period_s
    }

    /// Guaranteed service rate over all time: μ·T/P.
    #[must_use]
    pub fn reduced(&self, service_rate: f64) -> f64 {
        service_rate * self.fraction()
    }

    /// Mean time for which a message waits for the release that serves it, if it comes at a random moment: P/2. With
    /// periodic arrivals and services, and a stable queue, that is the whole time in the system (D/D/1).
    #[must_use]
    pub fn mean_wait_s(&self) -> f64 {
        self.period_s / 2.0
    }

    /// Longest such wait: P.
    #[must_use]
    pub fn longest_wait_s(&self) -> f64 {
        self.period_s
    }

    /// Probability that no message waits at the end of a budget, so that none is carried over to the next period, if none was
    /// carried over from the period before. `queue` has the service rate while the server runs: not reduced.
    ///
    /// As in the paper: k messages arrive while the server does not run, Poisson with mean λ(P−T). With these an M/M/1 queue
    /// begins, and runs for T. Exactly: let n messages arrive in T, and let m services complete, or have completed if a
    /// message had waited; both are Poisson (λT, μT). None waits at the end if, backwards from there, services are never fewer
    /// than arrivals, and suffice for k too. As all orders of the n + m are equally likely, the former has the probability
    /// (m−n+1)/(m+1) (the ballot theorem), so that
    ///
    /// P = Σ_m Σ_{n≤m} Poisson(m; μT) Poisson(n; λT) (m−n+1)/(m+1) Pr[k ≤ m−n].
    ///
    /// All terms are positive. The sum leaves out the ends of the distributions; their probability, and the rounding error, add
    /// up to [`Probability::error_max`], some 1e-12.
    ///
    /// `None` if that takes more than `steps` terms; the number taken is subtracted from `steps`. A thousand messages in each
    /// budget take some 400,000, a million of them some 400 million.
    #[must_use]
    pub fn nothing_carried_over(&self, queue: &Queue, steps: &mut u64) -> Option<Probability> {
        let mean = |rate: f64, time: f64| (rate * time).max(0.0);
        let services = Poisson::new(mean(queue.service_rate, self.budget_s), steps)?;
        let arrivals = Poisson::new(mean(queue.arrival_rate, self.budget_s), steps)?;
        let backlog = Poisson::new(mean(queue.arrival_rate, self.period_s - self.budget_s), steps)?;
        let terms = (services.weights.len() as u64).checked_mul(arrivals.weights.len() as u64)?;
        *steps = steps.checked_sub(terms)?;
        let at_most = backlog.cumulated();
        let mut value = 0.0;
        for (m, of_m) in services.counted() {
            let mut given = 0.0;
            for (n, of_n) in arrivals.counted().take_while(|(n, _)| *n <= m) {
                let spare = m - n;
                given += of_n * whole(spare + 1) * backlog.cumulative(&at_most, spare);
            }
            value += of_m * given / whole(m + 1);
        }
        let additions = [&services, &arrivals, &backlog].iter().map(|each| each.weights.len() as u64).sum();
        let rounding = 4.0 * f64::EPSILON * whole(additions);
        let error_max = services.left_out + arrivals.left_out + backlog.left_out + rounding;
        Some(Probability { value: value.clamp(0.0, 1.0), error_max })
    }
}

/// Weights below this fraction of the largest are left out.
const NEGLIGIBLE: f64 = 1e-18;

/// The probabilities of each number of events, where not negligible. Computed outwards from the most likely number, so
/// that neither the factorial nor exp(−mean) is needed, which exceed a float's range.
struct Poisson {
    first: u64,
    weights: Vec<f64>,
    /// Upper bound of the probability of all numbers left out.
    left_out: f64,
}

impl Poisson {
    fn new(mean: f64, steps: &mut u64) -> Option<Self> {
        // Beyond it numbers of events are no longer whole; it would be too many steps long before.
        if mean >= 1e15 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1e15")]
        let mode = mean as u64;
        let mut weights = Vec::new();
        let (mut number, mut weight) = (mode, 1.0);
        while number > 0 && weight > NEGLIGIBLE {
            *steps = steps.checked_sub(1)?;
            weight *= whole(number) / mean;
            number -= 1;
            weights.push(weight);
        }
        // Each further weight is less than the one before by the factor of this one at least, so that their sum is less than a
        // geometric series's.
        let below = if number == 0 { 0.0 } else { tail(weight, whole(number) / mean) };
        let first = number;
        weights.reverse();
        weights.push(1.0);
        (number, weight) = (mode, 1.0);
        while weight > NEGLIGIBLE {
            *steps = steps.checked_sub(1)?;
            number += 1;
            weight *= mean / whole(number);
            weights.push(weight);
        }
        let above = tail(weight, mean / whole(number + 1));
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Some(Self { first, weights, left_out: (below + above) / sum })
    }

    fn counted(&self) -> impl Iterator<Item = (u64, f64)> {
        (self.first..).zip(self.weights.iter().copied())
    }

    /// Cumulative sums of the weights.
    fn cumulated(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let up_to = |weight: &f64| {
            sum += weight;
            sum
        };
        self.weights.iter().map(up_to).collect()
    }

    /// Probability of `number` or fewer events, from the cumulative sums.
    fn cumulative(&self, cumulated: &[f64], number: u64) -> f64 {
        let Some(place) = number.checked_sub(self.first) else { return 0.0 };
        usize::try_from(place).ok().and_then(|place| cumulated.get(place)).copied().unwrap_or(1.0)
    }
}

/// Upper bound of the sum of all weights after one, if each is smaller than the one before by this factor.
fn tail(weight: f64, factor: f64) -> f64 {
    weight * factor / (1.0 - factor)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of messages are below 2^53")]
fn whole(number: u64) -> f64 {
    number as f64
}
