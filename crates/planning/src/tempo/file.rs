//! The files of `campanile plan tempo`. Errors are reported with their line.

use super::{Application, Arrivals, ForecastRequest, ForecastRequestError, Server, TIME_US_MAX, TOPICS_MAX, Topic};
use crate::file::{FileError, line_of};
use serde::Deserialize;
use toml::Spanned;

/// Largest file, in octets: [`TOPICS_MAX`] topics of a thousand each. Larger ones are not even parsed.
const FILE_BYTES_MAX: usize = TOPICS_MAX * 1024;

/// An error in a file of topics.
pub type TempoFileError = FileError;

/// A file of topics.
#[derive(Clone, Debug, PartialEq)]
pub struct TempoFile {
    /// The request in the file.
    pub request: ForecastRequest,
    /// The line at which each topic begins, counted from 1.
    topic_lines: Vec<usize>,
    application_lines: Vec<usize>,
    server_line: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    mu: Option<f64>,
    service_time_us: Option<Spanned<f64>>,
    #[serde(rename = "topic", default)]
    topics: Vec<Spanned<RawTopic>>,
    server: Option<Spanned<RawServer>>,
    #[serde(rename = "application", default)]
    applications: Vec<Spanned<RawApplication>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTopic {
    name: String,
    rate: f64,
    arrival: Option<f64>,
    deadline_us: Option<f64>,
    #[serde(default)]
    arrivals: RawArrivals,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawArrivals {
    #[default]
    Poisson,
    Periodic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    period_us: f64,
    budget_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApplication {
    name: String,
    period_us: f64,
    execution_us: f64,
}

impl TempoFile {
    /// Parses a file of topics.
    ///
    /// # Errors
    /// [`TempoFileError`] with the line and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, TempoFileError> {
        let whole = |why: String| FileError { line: None, why };
        if text.len() > FILE_BYTES_MAX {
            return Err(whole(format!(
                "the file has {} octets, and may have {FILE_BYTES_MAX}, enough for the {TOPICS_MAX} topics that may be analysed \
                 together: put those that are alike into one, with the sum of their rates",
                text.len()
            )));
        }
        let raw: RawFile = toml::from_str(text).map_err(|error| FileError::new(text, &error))?;
        let service_rate = match (raw.mu, &raw.service_time_us) {
            (Some(mu), None) => mu,
            (None, Some(time)) if *time.get_ref() > 0.0 => 1e6 / time.get_ref(),
            (None, Some(time)) => {
                let why = format!("service_time_us is {}, and has to be more than 0", time.get_ref());
                return Err(FileError { line: Some(line_of(text, time.span().start)), why });
            }
            (Some(_), Some(_)) => {
                return Err(whole("mu and service_time_us say the same; leave one of them out".into()));
            }
            (None, None) => {
                let why = "write mu, the messages per second that the system carries by itself, or service_time_us, the time that \
                           one takes";
                return Err(whole(why.into()));
            }
        };
        let lines = |starts: Vec<usize>| starts.into_iter().map(|start| line_of(text, start)).collect::<Vec<_>>();
        let topic_lines = lines(raw.topics.iter().take(TOPICS_MAX).map(|topic| topic.span().start).collect());
        let application_lines = lines(raw.applications.iter().take(TOPICS_MAX).map(|each| each.span().start).collect());
        let server_line = raw.server.as_ref().map(|server| line_of(text, server.span().start));
        let at = |line: Option<usize>| move |why: String| FileError { line, why };
        let server = raw.server.map(|server| server.into_inner().made()).transpose().map_err(at(server_line))?;
        let topics = raw.topics.into_iter().map(|topic| topic.into_inner().made()).collect();
        let mut applications = Vec::new();
        for (index, application) in raw.applications.into_iter().enumerate() {
            let line = application_lines.get(index).copied();
            applications.push(application.into_inner().made().map_err(at(line))?);
        }
        let request = ForecastRequest { service_rate, topics, server, applications };
        Ok(Self { request, topic_lines, application_lines, server_line })
    }

    /// An error of the request, with the line concerned.
    #[must_use]
    pub fn locate(&self, error: ForecastRequestError) -> TempoFileError {
        let (line, why) = match error {
            ForecastRequestError::Topic { index, why } => (self.topic_lines.get(index).copied(), why),
            ForecastRequestError::Application { index, why } => (self.application_lines.get(index).copied(), why),
            ForecastRequestError::Server(why) => (self.server_line, why),
            ForecastRequestError::Whole(why) => (None, why),
        };
        FileError { line, why }
    }
}

impl RawTopic {
    fn made(self) -> Topic {
        let Self { name, rate, arrival, deadline_us, arrivals } = self;
        let arrivals = match arrivals {
            RawArrivals::Poisson => Arrivals::Poisson,
            RawArrivals::Periodic => Arrivals::Periodic,
        };
        Topic { name, rate, arrival: arrival.unwrap_or(rate), deadline_s: deadline_us.map(|time| time / 1e6), arrivals }
    }
}

impl RawServer {
    fn made(self) -> Result<Server, String> {
        Ok(Server {
            period: nanoseconds("period_us", self.period_us)?,
            budget: nanoseconds("budget_us", self.budget_us)?,
        })
    }
}

impl RawApplication {
    fn made(self) -> Result<Application, String> {
        let Self { name, period_us, execution_us } = self;
        let period = nanoseconds("period_us", period_us)?;
        Ok(Application { name, period, execution_time: nanoseconds("execution_us", execution_us)? })
    }
}

/// Converts microseconds of a file to the nearest nanosecond.
fn nanoseconds(what: &str, time_us: f64) -> Result<u64, String> {
    if !(0.001..=TIME_US_MAX).contains(&time_us) {
        return Err(format!("{what} is {time_us}, and has to be from 0.001 to {TIME_US_MAX:.0} microseconds"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 1e17")]
    let time = (time_us * 1e3).round() as u64;
    Ok(time)
}
