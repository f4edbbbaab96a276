//! `campanile plan tempo`: guarantees of topics with shares, and the times of their messages.

use super::{read, response_parts};
use crate::args::TempoOptions;
use crate::failure::Failure;
use crate::show;
use planning::tempo::{Forecast, ForecastRequest, TempoFile, Topic, TopicForecast, forecast};
use planning::{Activity, Analysis, AnalysisLimits, Finding, Outcome, Response, format_time};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Maximum topics named in an explanation; the others are counted.
const NAMED: usize = 8;

/// Analyses a file of topics. Succeeds if nothing is in the way.
pub(super) fn run(options: &TempoOptions) -> Result<(), Failure> {
    let TempoOptions { file, percentiles, json } = options;
    let text = read(file)?;
    let wrong = |error| Failure::Usage(format!("{}: {error}", file.display()));
    let asked = TempoFile::parse(&text).map_err(wrong)?;
    let found =
        forecast(&asked.request, percentiles, &AnalysisLimits::COMMAND).map_err(|error| wrong(asked.locate(error)))?;
    let said = if *json {
        format!("{}\n", report(&asked.request, &found, percentiles))
    } else {
        describe(&asked.request, &found, percentiles)
    };
    io::stdout().write_all(said.as_bytes())?;
    if found.outcome() == Outcome::Feasible { Ok(()) } else { Err(Failure::Quiet) }
}

/// JSON object, with times in microseconds and rates in messages per second.
fn report(request: &ForecastRequest, found: &Forecast, percentages: &[f64]) -> Json {
    let us = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e6);
    let topic = |(topic, own): (&Topic, &TopicForecast)| {
        let each = percentages.iter().zip(&own.percentiles_s);
        json!({
            "name": topic.name,
            "rate": topic.rate,
            "arrival": topic.arrival,
            "arrivals": topic.arrivals.name(),
            "deadline_us": us(topic.deadline_s),
            "guaranteed_rate": own.guaranteed,
            "guaranteed_rate_while_running": own.guaranteed_while_running,
            "intensity": own.intensity,
            "stable": own.is_stable,
            "mean_response_us": us(own.mean_response_s),
            "percentiles": each.map(|(q, time)| json!({ "q": q, "response_us": time * 1e6 })).collect::<Vec<_>>(),
            "longest_response_us": us(own.longest_response_s),
            "nothing_carried_over": own.nothing_carried_over.map(|probability| probability.value),
            "nothing_carried_over_error_max": own.nothing_carried_over.map(|probability| probability.error_max),
            "wait_for_turn_us": own.wait_for_service_s * 1e6,
            "wait_for_turn_below_us": own.wait_for_service_below_s * 1e6,
            "in_time": own.is_in_time(),
        })
    };
    let server = request.server.map(|server| {
        let polling = server.polling();
        json!({
            "period_us": polling.period_s * 1e6,
            "budget_us": polling.budget_s * 1e6,
            "fraction": polling.fraction(),
            "mean_wait_for_release_us": polling.mean_wait_s() * 1e6,
            "longest_wait_for_release_us": polling.longest_wait_s() * 1e6,
        })
    });
    json!({
        "service_rate": request.service_rate,
        "intensity": found.intensity,
        "feasible": match found.outcome() {
            Outcome::Feasible => Json::Bool(true),
            Outcome::Infeasible => Json::Bool(false),
            Outcome::Inconclusive(_) => Json::Null,
        },
        "explanation": explain(request, found),
        "server": server,
        "topics": request.topics.iter().zip(&found.topics).map(topic).collect::<Vec<_>>(),
        "threads": found.threads.as_ref().map(threads_report),
    })
}

fn threads_report((threads, analysis): &(Vec<Activity>, Analysis)) -> Json {
    let thread = |index: &usize| {
        let (thread, finding) = (threads.get(*index)?, analysis.findings.get(*index)?);
        let (kind, response) = response_parts(finding.response);
        Some(json!({
            "name": thread.name,
            "priority": finding.priority,
            "period_ns": thread.period,
            "execution_time_ns": thread.execution_time,
            "response": kind,
            "response_ns": response,
            "late_by_ns": finding.late_by,
        }))
    };
    json!({
        "policy": analysis.policy.short_name(),
        "explanation": analysis.explain(threads),
        "utilisation": analysis.utilisation.first(),
        "liu_layland_bound": analysis.liu_layland_bound,
        "by_urgency": analysis.by_urgency().iter().filter_map(thread).collect::<Vec<_>>(),
    })
}

/// The answer in a few sentences.
fn explain(request: &ForecastRequest, found: &Forecast) -> String {
    let each = || request.topics.iter().zip(&found.topics);
    let unstable = each().filter(|(_, own)| !own.is_stable).map(|(topic, own)| {
        let (name, arrival, guaranteed) = (&topic.name, topic.arrival, rate(own.guaranteed));
        format!(
            "{name:?} falls behind by what it is guaranteed: {arrival} messages/s come, and it may have {guaranteed}"
        )
    });
    let late = each().filter(|(_, own)| !own.is_in_time()).map(|(topic, own)| {
        let (wait, below) = (time(own.wait_for_service_s), time(own.wait_for_service_below_s));
        format!("{:?} waits {wait} for its turn, and has to wait less than {below}, 1/rate", topic.name)
    });
    let mut said: Vec<String> = unstable.chain(late).collect();
    let others = said.len().saturating_sub(NAMED);
    said.truncate(NAMED);
    if others > 0 {
        said.push(format!("and {others} more"));
    }
    if let Some((threads, analysis)) = &found.threads
        && analysis.outcome != Outcome::Feasible
    {
        said.push(analysis.explain(threads));
    }
    if said.is_empty() { "every topic is stable and has its turns in time".to_owned() } else { said.join("; ") }
}

/// Text with tables and a few sentences.
fn describe(request: &ForecastRequest, found: &Forecast, percentages: &[f64]) -> String {
    let mut text = String::new();
    describe_topics(&mut text, request, found, percentages);
    let _ = writeln!(text, "\n{}", explain(request, found));
    let _ = writeln!(text, "intensity (arrivals/service, lambda/mu) of all topics: {:.1} %", found.intensity * 100.0);
    if let Some(server) = request.server {
        let polling = server.polling();
        let (period, budget) = (format_time(server.period), format_time(server.budget));
        let _ = writeln!(
            text,
            "time-driven: {budget} of each {period}, {:.1} % of every rate; a message waits for the release, {} on average and {} \
             at most, which for poisson arrivals is not in the figures above",
            polling.fraction() * 100.0,
            time(polling.mean_wait_s()),
            time(polling.longest_wait_s()),
        );
    }
    if let Some((threads, analysis)) = &found.threads {
        describe_threads(&mut text, threads, analysis);
    }
    text
}

fn describe_topics(text: &mut String, request: &ForecastRequest, found: &Forecast, percentages: &[f64]) {
    let percentiles: Vec<String> = percentages.iter().map(|q| format!("{q} %")).collect();
    let row = |(topic, own): (&Topic, &TopicForecast)| {
        let unstable = if own.is_stable { "" } else { "UNSTABLE" };
        let late = if own.is_in_time() { "" } else { "LATE" };
        let remarks: Vec<&str> = [unstable, late].into_iter().filter(|remark| !remark.is_empty()).collect();
        let mut cells = vec![
            show::clean(&topic.name),
            rate(topic.rate),
            rate(topic.arrival),
            rate(own.guaranteed),
            format!("{:.1} %", own.intensity * 100.0),
            own.mean_response_s.map_or_else(|| "without end".to_owned(), time),
        ];
        cells.extend((0..percentages.len()).map(|index| {
            let longest = own.longest_response_s.map(|longest| format!("≤ {}", time(longest)));
            own.percentiles_s.get(index).map(|own| time(*own)).or(longest).unwrap_or_default()
        }));
        cells.push(own.nothing_carried_over.map(|own| probability(own.value)).unwrap_or_default());
        cells.push(time(own.wait_for_service_s));
        cells.push(format!("< {}", time(own.wait_for_service_below_s)));
        cells.push(remarks.join(", "));
        cells
    };
    let rows: Vec<Vec<String>> = request.topics.iter().zip(&found.topics).map(row).collect();
    let mut headings = vec!["topic", "share", "arrive", "guaranteed", "intensity", "mean"];
    headings.extend(percentiles.iter().map(String::as_str));
    headings.extend(["none left", "turn after", "has to be", ""]);
    let last = headings.len() - 1;
    show::table(text, (&headings, false), &[0, last], &rows);
}

fn describe_threads(text: &mut String, threads: &[Activity], analysis: &Analysis) {
    let row = |index: &usize| {
        let (thread, finding) = (threads.get(*index)?, analysis.findings.get(*index)?);
        let response = match finding.response {
            Response::Worst(time) => format_time(time),
            Response::AtLeast(time) => format!("≥ {}", format_time(time)),
            Response::Unbounded => "without end".to_owned(),
            Response::Unknown => String::new(),
        };
        Some(vec![
            show::clean(&thread.name),
            finding.priority.to_string(),
            format_time(thread.period),
            format_time(thread.execution_time),
            response,
            if misses(finding) { "MISSES".to_owned() } else { String::new() },
        ])
    };
    let rows: Vec<Vec<String>> = analysis.by_urgency().iter().filter_map(row).collect();
    let _ = writeln!(text);
    show::table(text, (&["thread", "priority", "period", "execution", "response", ""], false), &[0, 5], &rows);
    let utilisation = analysis.utilisation.first().copied().unwrap_or_default() * 100.0;
    let _ = writeln!(text, "\n{}: {}", analysis.policy, analysis.explain(threads));
    let _ = writeln!(
        text,
        "utilisation: {utilisation:.1} %; up to {:.1} % suffices (Liu and Layland)",
        analysis.liu_layland_bound * 100.0
    );
}

fn misses(finding: &Finding) -> bool {
    finding.late_by.is_some() || finding.response == Response::Unbounded
}

/// A time for people, with three significant digits.
fn time(seconds: f64) -> String {
    let (unit, name) = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")]
        .into_iter()
        .find(|(unit, _)| seconds >= *unit * 0.9995)
        .unwrap_or((1e-9, "ns"));
    format!("{}{name}", digits(seconds / unit))
}

/// A rate for people, with three significant digits.
fn rate(per_second: f64) -> String {
    digits(per_second)
}

fn digits(value: f64) -> String {
    let decimals = match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A probability for people; never rounded to certainty.
fn probability(value: f64) -> String {
    match value * 100.0 {
        percent if percent > 99.99 => "> 99.99 %".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_three_digits_that_count() {
        let said = [0.0, 1.234e-9, 9.996e-7, 1.025_64e-4, 0.000_708, 0.012_5, 0.999_6, 61.0].map(time);
        assert_eq!(said, ["0ns", "1.23ns", "1us", "103us", "708us", "12.5ms", "1s", "61s"]);
        assert_eq!([0.05, 5.5, 250.0, 10_000.0].map(rate), ["0.05", "5.5", "250", "10000"]);
    }

    #[test]
    fn probabilities_are_never_rounded_to_certainty() {
        assert_eq!([1.0, 0.999_95, 0.5, 0.0].map(probability), ["> 99.99 %", "> 99.99 %", "50.00 %", "< 0.01 %"]);
    }
}
