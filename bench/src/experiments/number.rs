//! `campanile-bench paths-number`: the high path beside ever more low ones (paper 000, 4.3, figure 14).

use serde::Serialize;

use super::chart::{Axis, Chart, Labels, Mark, Series};
use super::rig::{Plan, Rig};
use super::{Aim, Bed, Class, Head, Latency, Service};
use crate::table::Table;
use crate::{BenchError, ExperimentOptions, Output};

/// The load in units: the paper's. The high path alone then takes three fifths of a core.
const LOAD: u32 = 30;

/// Low paths: the paper's 1 to 20, and beyond.
const LOW_PATHS: [usize; 6] = [1, 5, 10, 20, 50, 100];

/// Events a second of a path that keeps up, and how near a rate must be to count as that.
const RATE: f64 = 100.0;
const RATE_TOLERANCE: f64 = 0.1;

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// What it was, where and how it was run, and what was shown.
    #[serde(flatten)]
    pub(crate) head: Head,
    /// The load that every event carried, in units.
    pub(crate) load: u32,
    /// Seconds for which events counted in each run.
    pub(crate) window_seconds: f64,
    /// One for each number of low paths and service.
    pub(crate) rows: Vec<Row>,
}

/// What happened beside so many low paths.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// How the service and its clients were scheduled.
    pub(crate) service: Service,
    /// How many low paths there were, each with 100 events a second.
    pub(crate) low_paths: usize,
    /// Events delivered and processed a second on the high path.
    pub(crate) high_rate: f64,
    /// The same on the medium path.
    pub(crate) medium_rate: f64,
    /// The same on all low paths together.
    pub(crate) low_rate_sum: f64,
    /// From the supplier's stamp to the consumer's read, on the high path.
    pub(crate) high_latency: Option<Latency>,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    super::conduct(options, out, |bed, out| measure(bed, options, out))
}

pub(super) fn measure(bed: &Bed, options: &ExperimentOptions, out: &mut Output<'_>) -> Result<Report, BenchError> {
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let load = options.loads.first().copied().unwrap_or(LOAD);
    let mut rows = Vec::new();
    for low_paths in LOW_PATHS {
        for service in Service::ALL {
            out.progress(&format!("{low_paths} low paths: {}", service.name()))?;
            let paths = [(Class::High, 1), (Class::Medium, 1), (Class::Low, low_paths)];
            let divisions = bed.circumstances.divisions_per_unit;
            let mut rig = Rig::start(service, &paths, bed.cores, bed.real_time(), divisions)?;
            let outcome = rig.run(Plan::at_100_hz(warm_up, window), |_| Some(load))?;
            rows.push(Row {
                service,
                low_paths,
                high_rate: outcome.rate(Class::High),
                medium_rate: outcome.rate(Class::Medium),
                low_rate_sum: outcome.rate(Class::Low) * super::samples::whole(low_paths),
                high_latency: outcome.latency(Class::High),
            });
        }
    }
    Ok(Report {
        head: bed.head(
            "paths-number",
            &format!("one high, one medium and many low paths, each 100 events/s of load {load}"),
            vec![keeps_its_rate(&rows)],
        ),
        load,
        window_seconds: window,
        rows,
    })
}

fn keeps_its_rate(rows: &[Row]) -> Aim {
    let real_time = || rows.iter().filter(|row| row.service == Service::RealTime);
    let lowest = real_time().map(|row| row.high_rate).fold(f64::INFINITY, f64::min);
    let most = real_time().map(|row| row.low_paths).max().unwrap_or(0);
    Aim {
        aim: format!("real-time: 100 events/s on the high path beside 1 to {most} low paths"),
        found: format!("at least {lowest:.1} events/s"),
        met: real_time().next().map(|_| (lowest - RATE).abs() <= RATE_TOLERANCE),
    }
}

impl super::Report for Report {
    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn tables(&self) -> Vec<(String, Table)> {
        let mut table = Table::new([
            "service",
            "low paths",
            "high events/s",
            "medium events/s",
            "low events/s in all",
            "high median µs",
            "high p99 µs",
        ]);
        for row in &self.rows {
            table.row([
                row.service.name().into(),
                u64::try_from(row.low_paths).unwrap_or(u64::MAX).into(),
                row.high_rate.into(),
                row.medium_rate.into(),
                row.low_rate_sum.into(),
                row.high_latency.map(|latency| latency.median_us).into(),
                row.high_latency.map(|latency| latency.p99_us).into(),
            ]);
        }
        vec![(format!("A high and a medium path beside many low ones, 100 events/s of load {} each", self.load), table)]
    }

    fn charts(&self) -> Vec<(String, String)> {
        let series = |name: &str, service: Service, colour, rate: fn(&Row) -> f64| Series {
            name: name.to_owned(),
            points: self
                .rows
                .iter()
                .filter(|row| row.service == service)
                .map(|row| (super::samples::whole(row.low_paths), rate(row)))
                .collect(),
            mark: Mark::Line,
            colour,
        };
        let chart = Chart {
            title: "Number of low paths and throughput".to_owned(),
            subtitle: self.head.subtitle.clone(),
            x: Axis::logarithmic("low paths", Labels::Numbers),
            y: Axis::from_zero("events processed per second"),
            series: vec![
                series("real-time: high", Service::RealTime, 0, |row| row.high_rate),
                series("real-time: medium", Service::RealTime, 3, |row| row.medium_rate),
                series("plain: high", Service::Plain, 2, |row| row.high_rate),
                series("plain: medium", Service::Plain, 1, |row| row.medium_rate),
            ],
        };
        vec![("paths-number".to_owned(), chart.to_svg())]
    }
}
