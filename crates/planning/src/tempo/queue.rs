//! One topic as a queue (section IV.E): guaranteed rate, intensity, response times.

/// Service rate guaranteed to a topic: its fraction of all shares (section IV.E). `rate_share` is one of those that
/// `rate_shares_sum` adds up.
///
/// ```
/// // 40,000 messages a second by itself, and a quarter of the shares.
/// assert_eq!(planning::tempo::guaranteed_rate(40_000.0, 100.0, 400.0), 10_000.0);
/// ```
#[must_use]
pub fn guaranteed_rate(service_rate: f64, rate_share: f64, rate_shares_sum: f64) -> f64 {
    service_rate * rate_share / rate_shares_sum
}

/// A queue with independent arrivals, served one at a time with exponentially distributed service times (M/M/1). Rates
/// are in messages per second, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// λ: arrival rate.
    pub arrival_rate: f64,
    /// μ: service rate.
    pub service_rate: f64,
}

impl Queue {
    /// ρ = λ/μ, the fraction of time in which a message is being served. The paper prints μ/λ, with which its own
    /// formula for the response time would be negative wherever the queue is stable.
    #[must_use]
    pub fn intensity(&self) -> f64 {
        self.arrival_rate / self.service_rate
    }

    /// Whether the queue stays bounded: fewer messages arrive than can be served.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.intensity() < 1.0
    }

    /// Mean time from a message's arrival until it is served, in seconds: (1/μ)/(1−ρ). `None` if the queue is unstable.
    ///
    /// ```
    /// let queue = planning::tempo::Queue { arrival_rate: 250.0, service_rate: 10_000.0 };
    /// assert!((queue.mean_response_s().unwrap() - 0.000_102_564).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn mean_response_s(&self) -> Option<f64> {
        self.is_stable().then(|| 1.0 / self.service_rate / (1.0 - self.intensity()))
    }

    /// Time that `percent` of all messages do not exceed, in seconds: the mean × ln(100/(100−q)). `None` if the queue
    /// is unstable, or `percent` is not between 0 and 100.
    #[must_use]
    pub fn response_percentile_s(&self, percent: f64) -> Option<f64> {
        let is_one = percent > 0.0 && percent < 100.0;
        Some(self.mean_response_s()? * (100.0 / (100.0 - percent)).ln()).filter(|_| is_one)
    }
}

/// Rate and deadline of a topic, which decide when its messages have their turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopicRate {
    /// r: rate of the topic, its share, in messages per second.
    pub rate: f64,
    /// d: time within which a message is to be served, in seconds; at most 1/r, which is the default.
    pub deadline_s: Option<f64>,
}

impl TopicRate {
    /// w = min(d, 1/r): interval between the turns of two messages, in seconds of virtual time.
    #[must_use]
    pub fn interval_s(&self) -> f64 {
        self.deadline_s.map_or(1.0 / self.rate, |deadline| deadline.min(1.0 / self.rate))
    }
}

/// Tolerance above a whole number, since intervals are quotients of decimal rates such as 0.1.
const WHOLE: f64 = 1e-9;

/// Time for which a message of the topic at `index` waits for its turn, in seconds, while all other topics have messages
/// waiting: Σ ⌊w_i/w_k⌋ / μ over the others whose interval is not longer (section IV.E). It has to be below 1/r_i
/// ([`TopicRate::rate`]). `None` if there is no such topic.
///
/// The paper prints [w_i/w_k], which means the whole part: the number of turns of k up to the deadline of i if both begin
/// together. Figure 5 (a) agrees: with rates 2 and 3 the quotient is 1.5, and one message of the second topic goes before the
/// first message of the first, not two. If they do not begin together, one more message of each k may go before.
#[must_use]
pub fn wait_for_service_s(topics: &[TopicRate], index: usize, service_rate: f64) -> Option<f64> {
    let own = topics.get(index)?.interval_s();
    let others = topics.iter().enumerate().filter(|(other, _)| *other != index);
    let before = others.map(|(_, topic)| (own / topic.interval_s() * (1.0 + WHOLE)).floor());
    // Topics with a longer interval have no turn before: their quotient is below 1.
    Some(before.sum::<f64>() / service_rate)
}
