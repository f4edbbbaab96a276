//! The analysis of "Tempo: A Simple Time-Sensitive Messaging System" (Bauer, Garcés-Erice and Rooney), section IV.E:
//! guaranteed rates and delays of topics that have shares of one messaging system.
//!
//! [`Queue`], [`PollingServer`], [`guaranteed_rate`] and [`wait_for_service_s`] are the formulas, with numbers in seconds and
//! messages per second; [`forecast`] applies them to a [`ForecastRequest`], which [`TempoFile`] reads from a file.

mod file;
mod forecast;
mod polling;
mod queue;

pub use file::{TempoFile, TempoFileError};
pub use forecast::{Forecast, TopicForecast, forecast};
pub use polling::{PollingServer, Probability};
pub use queue::{Queue, TopicRate, guaranteed_rate, wait_for_service_s};

use core::fmt;

/// Most topics analysed together.
pub const TOPICS_MAX: usize = 4096;
/// Most other applications beside a polling server.
pub const APPLICATIONS_MAX: usize = 63;
/// Highest rate, in messages per second, and inverse of the lowest.
pub const RATE_MAX: f64 = 1e9;
/// Longest time in a file, in microseconds: about three years, as [`crate::TIME_MAX`].
const TIME_US_MAX: f64 = 1e14;
/// Name of the server among the other applications.
pub const SERVER_NAME: &str = "polling server";

/// Arrival pattern of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent of each other; service times are distributed exponentially (M/M/1).
    #[default]
    Poisson,
    /// At equal intervals; service times are constant (D/D/1).
    Periodic,
}

impl Arrivals {
    /// `poisson` or `periodic`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Periodic => "periodic",
        }
    }
}

/// A topic of the messaging system.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// Name; unique.
    pub name: String,
    /// S: share, in messages per second.
    pub rate: f64,
    /// λ: arrival rate, in messages per second.
    pub arrival: f64,
    /// d: time within which a message is to be served, in seconds, at most 1/`rate`, which is the default.
    pub deadline_s: Option<f64>,
    /// Arrival pattern.
    pub arrivals: Arrivals,
}

/// A periodic thread beside the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Name; unique.
    pub name: String,
    /// Period, which is also the deadline, in nanoseconds.
    pub period: u64,
    /// Execution time in each period, in nanoseconds.
    pub execution_time: u64,
}

/// Input of a forecast: a messaging system, its topics, and the threads beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastRequest {
    /// μ: rate of the messaging system if it ran alone, in messages per second.
    pub service_rate: f64,
    /// The topics.
    pub topics: Vec<Topic>,
    /// Time-driven server; `None` for a load-driven system, which runs whenever there is work.
    pub server: Option<Server>,
    /// Other threads on the processor. Only beside a server: a load-driven system is more urgent than everything else,
    /// and nothing bounds the time it takes.
    pub applications: Vec<Application>,
}

/// The messaging system's thread in the analysis of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// P: period, in nanoseconds.
    pub period: u64,
    /// T: budget, in nanoseconds, from 1 to P.
    pub budget: u64,
}

impl Server {
    /// The server in the analysis of queues.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a part in 10^15 of a time")]
    pub fn polling(self) -> PollingServer {
        PollingServer { period_s: self.period as f64 / 1e9, budget_s: self.budget as f64 / 1e9 }
    }
}

/// An invalid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForecastRequestError {
    /// An invalid topic.
    Topic {
        /// Index, counted from 0.
        index: usize,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// An invalid application.
    Application {
        /// Index, counted from 0.
        index: usize,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// An invalid server.
    Server(String),
    /// A request that is invalid as a whole.
    Whole(String),
}

impl fmt::Display for ForecastRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { index, why } => write!(f, "topic {index}: {why}"),
            Self::Application { index, why } => write!(f, "application {index}: {why}"),
            Self::Server(why) | Self::Whole(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for ForecastRequestError {}

impl ForecastRequest {
    /// Checks the request.
    ///
    /// # Errors
    /// [`ForecastRequestError`] with what is wrong and what is expected.
    pub fn check(&self) -> Result<(), ForecastRequestError> {
        if self.topics.is_empty() {
            return Err(ForecastRequestError::Whole(
                "there are no topics; write at least one [[topic]] with a name and a rate".into(),
            ));
        }
        if self.topics.len() > TOPICS_MAX {
            return Err(ForecastRequestError::Whole(format!(
                "there are {} topics, and {TOPICS_MAX} may be analysed together: put those that are alike into one, with the sum \
                 of their rates",
                self.topics.len()
            )));
        }
        check_rate("mu, the service rate,", self.service_rate).map_err(ForecastRequestError::Whole)?;
        let mut names = std::collections::BTreeSet::new();
        for (index, topic) in self.topics.iter().enumerate() {
            let is_new = names.insert(topic.name.as_str());
            topic.check(is_new).map_err(|why| ForecastRequestError::Topic { index, why })?;
        }
        self.check_threads()
    }

    fn check_threads(&self) -> Result<(), ForecastRequestError> {
        let Some(server) = self.server else {
            let none = "other applications are judged beside a time-driven system: add [server] with period_us and budget_us, or \
                        leave them out";
            return if self.applications.is_empty() { Ok(()) } else { Err(ForecastRequestError::Whole(none.into())) };
        };
        let us = |time: u64| format!("{} us", Server { period: time, budget: 0 }.polling().period_s * 1e6);
        if server.budget == 0 || server.budget > server.period {
            return Err(ForecastRequestError::Server(format!(
                "the server's budget is {}, and has to be more than 0 and at most its period, which is {}",
                us(server.budget),
                us(server.period)
            )));
        }
        if self.applications.len() > APPLICATIONS_MAX {
            return Err(ForecastRequestError::Whole(format!(
                "there are {} applications, and {APPLICATIONS_MAX} may be analysed beside the server: leave out those on other \
                 processors, or put those with the same period into one",
                self.applications.len()
            )));
        }
        let mut names = std::collections::BTreeSet::from([SERVER_NAME]);
        for (index, application) in self.applications.iter().enumerate() {
            let name = application.name.as_str();
            if name.is_empty() || !names.insert(name) {
                let why = format!("its name is {name:?}; it has to have one, and one that nothing else has");
                return Err(ForecastRequestError::Application { index, why });
            }
        }
        Ok(())
    }
}

impl Topic {
    fn check(&self, is_new: bool) -> Result<(), String> {
        let Self { name, rate, arrival, deadline_s, arrivals: _ } = self;
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        if !is_new {
            return Err(format!("another topic is called {name:?}, too; names have to differ"));
        }
        check_rate(&format!("the rate of {name:?}"), *rate)?;
        check_rate(&format!("the arrival of {name:?}"), *arrival)?;
        let Some(deadline_s) = deadline_s else { return Ok(()) };
        // A deadline that is 1/rate, as far as people write it, is one.
        if *deadline_s > 0.0 && deadline_s * rate <= 1.0 + 1e-6 {
            return Ok(());
        }
        Err(format!(
            "the deadline of {name:?} is {} us, and has to be more than 0 and at most 1/rate, {:.3} us: shorten it, or lower the \
             rate",
            deadline_s * 1e6,
            1e6 / rate
        ))
    }
}

fn check_rate(what: &str, rate: f64) -> Result<(), String> {
    if (1.0 / RATE_MAX..=RATE_MAX).contains(&rate) {
        return Ok(());
    }
    Err(format!(
        "{what} is {rate}, and has to be a number of messages per second, from {} to {RATE_MAX}",
        1.0 / RATE_MAX
    ))
}
