//! `campanile check`: status of a service, in the form of plug-ins for Nagios and Icinga.

use crate::args::{CheckOptions, Threshold};
use crate::channels;
use crate::failure::Failure;
use crate::info::dds::Join;
use crate::info::status::ConsumerStatus;
use crate::show;
use crate::statistics::Statistics;
use client::{InvokeError, Orb, Unmarshal};
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use service::Counter;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum consumers named.
const NAMED_MAX: usize = 10;

/// Status of the service or of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl From<State> for ExitCode {
    fn from(state: State) -> Self {
        Self::from(state as u8)
    }
}

/// Seconds that a follower may lack something, and that a record may be old: as long as the longest lease.
const STANDBY_LAG_S: f64 = 10.0;
const RECORD_AGE_S: f64 = 60.0;

/// A figure with its thresholds.
struct Figure {
    label: &'static str,
    value: f64,
    /// Unit behind the value in performance data: `s` for seconds, `B` for octets, `c` for counters that only grow.
    unit: &'static str,
    threshold: Option<Threshold>,
    /// Text if the status is not OK.
    said: String,
}

impl Figure {
    fn state(&self) -> State {
        let reached = |limit: f64| self.value >= limit && (self.value > 0.0 || limit > 0.0);
        match self.threshold {
            Some(Threshold { critical: Some(critical), .. }) if reached(critical) => State::Critical,
            Some(Threshold { warning, .. }) if reached(warning) => State::Warning,
            _ => State::Ok,
        }
    }

    /// Performance data, `label=value[unit];warning;critical;min`. Here a value that reaches the threshold alerts; in the usual notation it
    /// has to exceed it. The exact notation would begin with `@`, which few tools read.
    fn performance(&self) -> String {
        let number = |value: f64| format!("{}", (value * 1e3).round() / 1e3);
        let (warning, critical) = match self.threshold {
            Some(Threshold { warning, critical }) => (number(warning), critical.map(number).unwrap_or_default()),
            None => (String::new(), String::new()),
        };
        format!("{}={}{};{warning};{critical};0", self.label, number(self.value), self.unit)
    }
}

/// Prints the status of the service. Returns the exit status.
pub(crate) fn run(options: &CheckOptions) -> ExitCode {
    let (state, text) = match examine(options) {
        Ok(reported) => reported,
        Err((state, why)) => (state, format!("CAMPANILE {} - {}\n", state.word(), why.replace(['|', '\n'], " "))),
    };
    // The reader may have gone; the status is what counts.
    let _ = io::stdout().write_all(text.as_bytes());
    state.into()
}

fn examine(options: &CheckOptions) -> Result<(State, String), (State, String)> {
    // A service that cannot be reached is the worst there is, and not unknown.
    let failed = |error: &InvokeError| {
        let state = match error {
            InvokeError::BadAddress { .. } | InvokeError::NoChannel { .. } => State::Unknown,
            _ => State::Critical,
        };
        let (Failure::Message(said) | Failure::Usage(said)) = Failure::remote(error, &options.server) else {
            return (state, error.to_string());
        };
        (state, said)
    };
    let began = Instant::now();
    let statistics = Statistics::find(&options.server).map_err(|error| failed(&error))?;
    let channel = channels::unsigned(options.channel.as_ref(), &options.server).map_err(|failure| match failure {
        Failure::Message(why) | Failure::Usage(why) => (State::Unknown, why),
        _ => (State::Unknown, "there is no such channel".to_owned()),
    })?;
    statistics.check_channel(&options.server, channel).map_err(|error| failed(&error))?;
    // Another service has no such object.
    let reported = |error: InvokeError| match error.object_is_gone() || error.is("BAD_OPERATION") {
        true => (
            State::Unknown,
            format!("the service at {} does not show its consumers: it is not Campanile", statistics.address),
        ),
        false => failed(&error),
    };
    let before = statistics.consumers().map_err(reported)?;
    let answered = began.elapsed();
    let (nobody, clock) = mpsc::channel::<()>();
    let _ = clock.recv_timeout(options.interval);
    drop(nobody);
    let now = statistics.consumers().map_err(reported)?;
    let oldest = oldest(&statistics, channel);
    let keep = |all: Vec<ConsumerStatus>| -> Vec<ConsumerStatus> {
        all.into_iter().filter(|consumer| channel.is_none_or(|channel| channel == consumer.channel)).collect()
    };
    let (before, now) = (keep(before), keep(now));
    if options.oldest.is_some() && oldest.is_none() {
        return Err((State::Unknown, "the service does not say how long its oldest event waits".to_owned()));
    }
    let dead_letters = dead_letters(&statistics, channel);
    let mut figures = figures(options, (&before, &now), (oldest, dead_letters), answered.as_secs_f64());
    let mut joins = Join::read(&statistics);
    joins.retain(|join| channel.is_none_or(|channel| channel == join.channel));
    figures.extend(incompatible_figure(&joins));
    figures.extend(standby_figures(&statistics.counters().unwrap_or_default()));
    let (state, mut text) = tell(options, &figures, &now);
    for (join, found) in
        joins.iter().flat_map(|join| join.incompatible.iter().map(move |found| (join, found))).take(NAMED_MAX)
    {
        let _ = writeln!(text, "{}", format!("{}: {}", show::clean(&join.name), found.describe()).replace('|', "¦"));
    }
    Ok((state, text))
}

fn is_slow(consumer: &ConsumerStatus, options: &CheckOptions) -> bool {
    let is_stuck = matches!(consumer.state.doing.as_str(), "retrying" | "socket full") && consumer.backlog_events > 0;
    is_stuck || consumer.backlog_events >= options.slow_events
}

fn figures(
    options: &CheckOptions,
    (before, now): (&[ConsumerStatus], &[ConsumerStatus]),
    (oldest, dead_letters): (Option<f64>, Option<u64>),
    answered: f64,
) -> Vec<Figure> {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let number = |value: u64| value as f64;
    let count = |test: &dyn Fn(&&ConsumerStatus) -> bool| number(now.iter().filter(test).count() as u64);
    let dropped_before = |consumer: &ConsumerStatus| {
        let same = |other: &&ConsumerStatus| (other.channel, other.proxy) == (consumer.channel, consumer.proxy);
        before.iter().find(same).map_or(consumer.dropped, |before| before.dropped)
    };
    let dropped: u64 = now.iter().map(|consumer| consumer.dropped.saturating_sub(dropped_before(consumer))).sum();
    let dropped_in_all: u64 = now.iter().map(|consumer| consumer.dropped).sum();
    let backlog: u64 = now.iter().map(|consumer| consumer.backlog_events).sum();
    let octets: u64 = now.iter().map(|consumer| consumer.backlog_bytes).sum();
    let (slow, blocked) =
        (count(&|consumer| is_slow(consumer, options)), count(&|consumer| consumer.state.holds.is_some()));
    let unreachable = count(&|consumer| consumer.state.unreachable_s.is_some());
    let plain = |label, value, unit| Figure { label, value, unit, threshold: None, said: String::new() };
    let mut figures = vec![
        Figure { threshold: Some(options.slow), said: format!("{slow} slow"), ..plain("slow", slow, "") },
        Figure {
            threshold: Some(options.blocked),
            said: format!("{blocked} block suppliers"),
            ..plain("held", blocked, "")
        },
        Figure {
            threshold: Some(options.unreachable),
            said: format!("{unreachable} cannot be reached"),
            ..plain("unreachable", unreachable, "")
        },
        Figure {
            threshold: options.backlog,
            said: format!("{} events wait", show::count(backlog)),
            ..plain("backlog", number(backlog), "")
        },
    ];
    if let Some(oldest) = oldest {
        figures.push(Figure {
            threshold: options.oldest,
            said: format!("the oldest waits for {oldest:.1} s"),
            ..plain("oldest", oldest, "s")
        });
    }
    if let Some(dead_letters) = dead_letters {
        figures.push(Figure {
            threshold: Some(options.dead_letters),
            said: format!("{} dead letters (campanile dead ls)", show::count(dead_letters)),
            ..plain("dead_letters", number(dead_letters), "")
        });
    }
    figures.push(Figure {
        threshold: Some(options.dropped),
        said: format!("{} dropped in {:?}", show::count(dropped), options.interval),
        ..plain("dropped", number(dropped), "")
    });
    figures.extend([
        plain("dropped_total", number(dropped_in_all), "c"),
        plain("backlog_octets", number(octets), "B"),
        plain("consumers", number(now.len() as u64), ""),
        plain("time", answered, "s"),
    ]);
    figures
}

/// Figure of endpoints in DDS that do not match, if channels are joined to DDS.
fn incompatible_figure(joins: &[Join]) -> Option<Figure> {
    let count: u32 = joins.iter().map(|join| u32::try_from(join.incompatible.len()).unwrap_or(u32::MAX)).sum();
    let label = "dds_incompatible";
    (!joins.is_empty()).then(|| Figure { label, value: count.into(), unit: "", threshold: None, said: String::new() })
}

/// Figures of the second machine, if the service is the leader of a pair.
fn standby_figures(counters: &[(String, u64)]) -> Vec<Figure> {
    let value = |counter: Counter| {
        counters.iter().find(|(name, _)| Counter::named(name) == Some(counter)).map_or(0, |(_, value)| *value)
    };
    if value(Counter::StandbyEpoch) == 0 {
        return Vec::new();
    }
    let seconds = |counter| Duration::from_nanos(value(counter)).as_secs_f64();
    let missing = f64::from(u8::from(value(Counter::StandbyInStep) == 0));
    let (lag, age) = (seconds(Counter::StandbyLagTime), seconds(Counter::StandbyRecordAge));
    let figure = |label, (value, unit), warning, said: String| {
        let threshold = Some(Threshold { warning, critical: None });
        Figure { label, value, unit, threshold, said: format!("{said} (campanile standby status)") }
    };
    vec![
        figure("standby_missing", (missing, ""), 1.0, "no follower is in step".to_owned()),
        figure("standby_lag", (lag, "s"), STANDBY_LAG_S, format!("the follower is {lag:.1} s behind")),
        figure("standby_record_age", (age, "s"), RECORD_AGE_S, format!("the record was not renewed for {age:.1} s")),
    ]
}

fn tell(options: &CheckOptions, figures: &[Figure], consumers: &[ConsumerStatus]) -> (State, String) {
    let state = figures.iter().map(Figure::state).max().unwrap_or(State::Ok);
    let wrong: Vec<&str> =
        figures.iter().filter(|figure| figure.state() > State::Ok).map(|figure| figure.said.as_str()).collect();
    let said = match wrong.as_slice() {
        [] => format!("{} consumers, none of them slow", show::count(consumers.len())),
        wrong => wrong.join(", "),
    };
    let performance: Vec<String> = figures.iter().map(Figure::performance).collect();
    let mut text = format!("CAMPANILE {} - {said} | {}\n", state.word(), performance.join(" "));
    let bad = consumers.iter().filter(|consumer| {
        is_slow(consumer, options) || consumer.state.holds.is_some() || consumer.state.unreachable_s.is_some()
    });
    for consumer in bad.clone().take(NAMED_MAX) {
        // Text behind a bar would be read as performance data.
        let name = show::clean(&consumer.name).replace('|', "¦");
        let _ = writeln!(text, "{name}: {}, {} wait", consumer.describe(), show::count(consumer.backlog_events));
    }
    let more = bad.count().saturating_sub(NAMED_MAX);
    if more > 0 {
        let _ = writeln!(text, "and {} more", show::count(more));
    }
    (state, text)
}

/// Number of dead letters, of all channels or of one. A service that does not report them has none.
fn dead_letters(statistics: &Statistics, channel: Option<u32>) -> Option<u64> {
    let Some(channel) = channel else {
        let counters = statistics.counters().ok()?;
        let is_stored = |name: &str| Counter::named(name) == Some(Counter::DeadLettersStored);
        return counters.into_iter().find(|(name, _)| is_stored(name)).map(|(_, value)| value);
    };
    let letters = statistics.dead_letters().ok()?;
    Some(letters.iter().filter(|letter| letter.channel == channel).count() as u64)
}

/// Age of the oldest waiting event, of all channels or of one, in seconds, from the monitor and control object.
fn oldest(statistics: &Statistics, channel: Option<u32>) -> Option<f64> {
    let orb: &Orb = statistics.object.orb();
    let monitor = orb.resolve(&format!("corbaloc::{}/TAO_MonitorAndControl", statistics.address)).ok()?;
    let mut names: Vec<String> = monitor.request("get_statistic_names", &()).ok()?;
    names.retain(|name| name.rsplit('/').next() == Some("OldestEvent"));
    if let Some(channel) = channel {
        // The number of a channel is another name for it there.
        let factory = names.first()?.split('/').next()?.to_owned();
        names = vec![format!("{factory}/{channel}/OldestEvent")];
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let ages = names.into_iter().filter_map(|name| {
        let Last(reported) = monitor.request("get_statistic", &name).ok()?;
        let reported = reported?;
        // 0 means that nothing waits.
        Some(if reported > 0.0 { (now - reported).max(0.0) } else { 0.0 })
    });
    ages.reduce(f64::max)
}

/// The value of a `Monitor::Data`, if it is a number.
struct Last(Option<f64>);

impl Unmarshal for Last {
    const BYTES_MIN: usize = 8;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        let (_name, kind) = (reader.text()?, reader.u32()?);
        if kind != 0 {
            return Ok(Self(None));
        }
        let (_values, _count) = (Vec::<(u64, f64)>::unmarshal(reader, work)?, reader.u32()?);
        let mut last = 0.0;
        for _ in ["average", "sum_of_squares", "minimum", "maximum", "last"] {
            last = reader.f64()?;
        }
        Ok(Self(Some(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::info::status::ConsumerState;
    use clap::Parser;

    fn options(line: &str) -> CheckOptions {
        match Cli::try_parse_from(format!("campanile check {line}").split_whitespace()).unwrap().command {
            Command::Check(options) => options,
            _ => panic!(),
        }
    }

    fn reported(line: &str, before: &[ConsumerStatus], now: &[ConsumerStatus], oldest: Option<f64>) -> (State, String) {
        let options = options(line);
        let figures = figures(&options, (before, now), (oldest, None), 0.012);
        tell(&options, &figures, now)
    }

    fn consumer(proxy: u32, backlog_events: u64, dropped: u64) -> ConsumerStatus {
        ConsumerStatus {
            proxy,
            backlog_events,
            dropped,
            name: format!("consumer {proxy}"),
            ..ConsumerStatus::default()
        }
    }

    fn with_state(doing: &str, unreachable_s: Option<u64>, consumer: ConsumerStatus) -> ConsumerStatus {
        let state = ConsumerState { doing: doing.into(), unreachable_s, ..ConsumerState::default() };
        ConsumerStatus { state, ..consumer }
    }

    #[test]
    fn thresholds_are_reached_by_what_they_say() {
        let well = [consumer(1, 999, 3)];
        let (state, text) = reported("--oldest 5,10", &well, &well, Some(4.5));
        assert_eq!(state, State::Ok);
        assert_eq!(
            text,
            "CAMPANILE OK - 1 consumers, none of them slow | slow=0;1;;0 held=0;1;1;0 unreachable=0;1;;0 backlog=999;;;0 oldest=4.5s;5;10;0 \
             dropped=0;1;;0 dropped_total=3c;;;0 backlog_octets=0B;;;0 consumers=1;;;0 time=0.012s;;;0\n"
        );
        let slow = [consumer(1, 1_000, 5), consumer(2, 0, 0)];
        let (state, text) = reported("--slow 1,2", &well, &slow, None);
        assert_eq!(state, State::Warning);
        assert!(text.starts_with("CAMPANILE WARNING - 1 slow, 2 dropped in 1s | slow=1;1;2;0 "), "{text}");
        assert!(text.ends_with("\nconsumer 1: , 1,000 wait\n"), "{text}");
        assert_eq!(reported("--slow 1,1", &well, &slow, None).0, State::Critical);
        assert_eq!(reported("--slow 2 --dropped 3", &well, &slow, None).0, State::Ok);
        assert_eq!(reported("--slow 2 --dropped 3 --oldest 5,10", &well, &slow, Some(10.0)).0, State::Critical);
        let failing = [with_state("retrying", None, consumer(1, 1, 0))];
        assert_eq!(reported("", &failing, &failing, None).0, State::Warning);
        let gone = [with_state("keeping up", Some(75), consumer(1, 0, 0))];
        let (state, text) = reported("", &gone, &gone, None);
        assert_eq!(state, State::Warning);
        assert!(text.starts_with("CAMPANILE WARNING - 1 cannot be reached | "), "{text}");
        assert!(text.ends_with("\nconsumer 1: keeping up, UNREACHABLE for 75 s, 0 wait\n"), "{text}");
        assert_eq!(reported("--unreachable 2", &gone, &gone, None).0, State::Ok);
        for (line, kept, state) in [("", 0, State::Ok), ("", 3, State::Warning), ("--dead-letters 4", 3, State::Ok)] {
            let options = options(line);
            let (found, text) = tell(&options, &figures(&options, (&well, &well), (None, Some(kept)), 0.012), &well);
            assert_eq!(found, state, "{text}");
            assert_eq!(text.contains(" 3 dead letters (campanile dead ls) |"), state == State::Warning, "{text}");
        }
    }

    #[test]
    fn a_name_cannot_add_performance_data() {
        let odd = [ConsumerStatus { name: "a | x=1\nb".into(), ..consumer(1, 2_000, 0) }];
        let (_, text) = reported("", &odd, &odd, None);
        assert_eq!(text.matches('|').count(), 1, "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn thresholds_that_make_no_sense_are_refused() {
        for text in ["x", "-1", "5,1", "1,2,3", "NaN", ""] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
