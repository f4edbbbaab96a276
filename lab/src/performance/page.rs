//! The page: tables and charts, between two marks, so that what people wrote around them stays.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::aims::Growth;
use super::cells::Cell;
use super::endurance;
use super::experiments::{SIDE_BY_SIDE, SIDE_BY_SIDE_RATE};
use super::whole::{About, Report};
use crate::report::chart::{Axis, Bars, Chart, Group, Labels, Mark, Series};
use crate::report::{self, at, number, rows, text};
use crate::table::{Cell as Field, Table, counted};
use crate::{BenchError, Machine};

/// Writes the charts and the page of tables into this folder.
pub(super) fn write(report: &Report, folder: &Path) -> Result<(), BenchError> {
    let charts = draw(&report::value_of(report)?, folder)?;
    let tables = format!(
        "# Performance: all tables\n\nThe summary is [performance.md](../performance.md). This page is written by `campanile-bench \
         performance`; edits are lost.\n\n{}",
        measured(report, &charts)
    );
    fs::write(folder.join("tables.md"), tables).map_err(BenchError::io("writing the page"))
}

/// Draws the charts of a report into this folder; their names.
pub(super) fn draw(report: &Value, folder: &Path) -> Result<Vec<String>, BenchError> {
    let charts = charts(report);
    report::write_charts(&charts, folder)?;
    Ok(charts.into_iter().map(|(name, _)| name).collect())
}

/// Writes the page about endurance into this folder.
pub(super) fn write_endurance(report: &endurance::Report, folder: &Path) -> Result<(), BenchError> {
    let mut text = format!(
        "# Performance: half an hour\n\nWhere each event that took more than 1 ms waited, and for whom. This page is written by \
         `campanile-bench endurance`; edits are lost.\n\n{}.\n\n",
        circumstances(&report.date, &report.machine)
    );
    for run in &report.runs {
        if let Some(why) = &run.untraced {
            let _ = writeln!(text, "At {} nothing could be explained: {why}.\n", report.which(run));
        }
    }
    for (title, table) in endurance::tables(report) {
        let _ = writeln!(text, "## {title}\n\n{}", table.markdown());
    }
    fs::create_dir_all(folder).map_err(BenchError::io("making the folder of --page"))?;
    fs::write(folder.join("endurance.md"), text.trim_end().to_owned() + "\n")
        .map_err(BenchError::io("writing the page"))
}

/// When and where it was run.
fn circumstances(date: &str, machine: &Machine) -> String {
    let Machine { processor, cores, kernel, load_average_before, stolen_seconds, commit, .. } = machine;
    format!(
        "Run on {date} at commit {}: {processor}, {cores} cores, Linux {kernel}; load average before {load_average_before:.2}, \
         {stolen_seconds:.2} s of processor time taken by the host meanwhile",
        commit.unwrap_or("unknown")
    )
}

/// The tables, below the charts of these names.
fn measured(report: &Report, charts: &[String]) -> String {
    let Report { date, machine, quick, seconds, .. } = report;
    let mut text = circumstances(date, machine);
    let _ = writeln!(
        text,
        "; {:.0} minutes{}.\nFigures are medians over the rounds and ratios are taken round by round, except \
         latencies\nof 128 B with the parties pinned, which are those of many short rounds together, and latencies of two at the same \
         time, which\nare those of all rounds together. [lab/README.md](../../lab/README.md) says what each figure is.\n",
        seconds / 60.0,
        if *quick { ", with `--quick`, which is a check and no measurement" } else { "" }
    );
    for name in charts {
        let _ = writeln!(text, "![{name}]({name}.svg)\n");
    }
    for (title, table) in tables(report) {
        let _ = writeln!(text, "## {title}\n\n{}", table.markdown());
    }
    for (of, note) in notes(&report.cells) {
        let _ = writeln!(text, "- {of}: {note}");
    }
    if let Some(missing) = &report.memory_missing {
        let _ = writeln!(text, "- What the service keeps for consumers that wait was not measured: {missing}");
    }
    text
}

/// The notes, each with all cells that have it: their contender, and what was measured.
fn notes(cells: &[Cell]) -> Vec<(String, String)> {
    let mut notes: Vec<((&str, &str), Vec<String>)> = Vec::new();
    for cell in cells {
        let Some(note) = cell.note.as_deref() else { continue };
        let what = format!("{}, {}", cell.experiment, describe(cell));
        match notes.iter_mut().find(|(of, _)| *of == (cell.contender, note)) {
            Some((_, all)) => all.push(what),
            None => notes.push(((cell.contender, note), vec![what])),
        }
    }
    let told = |((contender, note), all): ((&str, &str), Vec<String>)| {
        (format!("{contender} ({})", all.join("; ")), in_one_line(note))
    };
    notes.into_iter().map(told).collect()
}

/// A note without its line ends: what happened, then what a process said, line after line.
fn in_one_line(note: &str) -> String {
    let mut lines = note.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let said: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    format!("{first} {}", said.join(" / ")).trim_end().to_owned()
}

/// All tables, with their titles.
pub(super) fn tables(report: &Report) -> Vec<(String, Table)> {
    let mut tables = vec![("What was to be shown".to_owned(), report::table_of_aims(&report.aims))];
    tables.push(("Contenders".to_owned(), contenders(&report.contenders)));
    let names: BTreeMap<&str, &str> = report.contenders.iter().map(|about| (about.key, about.name)).collect();
    let named = |key: &'static str| Field::from(names.get(key).copied().unwrap_or(key));
    let name = |cell: &Cell| named(cell.contender);
    for (rate, pinned) in
        [(250.0, true), (1000.0, true), (10_000.0, true), (250.0, false), (1000.0, false), (10_000.0, false)]
    {
        let of_rate =
            |cell: &&Cell| cell.experiment == "latency" && (cell.rate - rate).abs() < 0.5 && cell.pinned == pinned;
        let how = if pinned { "cores awake, parties pinned" } else { "the machine as it is" };
        let table = latencies(report.cells.iter().filter(of_rate), &name);
        tables.extend(
            table.map(|table| (format!("Latency at {rate}/s, in µs from when an event was due; {how}"), table)),
        );
        if pinned && (rate - SIDE_BY_SIDE_RATE).abs() < 0.5 {
            tables.extend(side_by_side(report, &named));
        }
    }
    let throughput = |consumers: u32| {
        let cells =
            report.cells.iter().filter(move |cell| cell.experiment == "throughput" && cell.consumers == consumers);
        throughputs(cells, &name)
    };
    tables.extend(throughput(1).map(|table| ("Throughput, 1 → 1".to_owned(), table)));
    tables.extend(throughput(100).map(|table| ("Throughput, 1 → 100 in 10 processes".to_owned(), table)));
    let cells = report.cells.iter().filter(|cell| cell.experiment == "fan-out");
    tables.extend(
        arrivals(cells, &name)
            .map(|table| ("Fan-out, 8 KB at 10 Hz, in µs from when an event was due".to_owned(), table)),
    );
    if !report.growth.is_empty() {
        tables.push(("How the time to the last consumer grows".to_owned(), growth(&report.growth)));
    }
    if let Some(found) = &report.memory {
        let title = format!(
            "What the service keeps for consumers that wait: {} clients with {} proxies each",
            found.connections, found.proxies_per_connection
        );
        tables.push((title, found.table()));
    }
    tables
}

fn contenders(contenders: &[About]) -> Table {
    let mut table = Table::new(["contender", "what it is, and how it is configured"]);
    for About { name, about, missing, .. } in contenders {
        let about = missing.as_ref().map_or_else(|| about.clone(), |missing| format!("not there: {missing}"));
        table.row([(*name).into(), about.into()]);
    }
    table
}

/// A table with a row for each cell: what it is, then the medians of these figures, each after its heading. None without cells.
fn of_cells<'a, const N: usize>(
    cells: impl Iterator<Item = &'a Cell>,
    headings: [&str; N],
    what: impl Fn(&Cell) -> [Field; N],
    figures: &[(&str, &str)],
) -> Option<Table> {
    let mut cells = cells.peekable();
    cells.peek()?;
    let mut table = Table::new(headings.into_iter().chain(figures.iter().map(|(heading, _)| *heading)));
    for cell in cells {
        table.row(what(cell).into_iter().chain(figures.iter().map(|(_, figure)| cell.figure(figure).into())));
    }
    Some(table)
}

/// Figures of latency, each after its heading, and of what went wrong.
const PERCENTILES: [(&str, &str); 5] =
    [("p50", "p50_us"), ("p90", "p90_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us")];
const MISSED: [(&str, &str); 2] = [("late", "late_pushes"), ("lost", "lost")];

fn latencies<'a>(cells: impl Iterator<Item = &'a Cell>, name: &impl Fn(&Cell) -> Field) -> Option<Table> {
    let what = |cell: &Cell| [u64::from(cell.payload_bytes).into(), name(cell)];
    let server = [("CPU µs/event", "cpu_us_per_event"), ("switches/event", "switches_per_event")];
    let figures = [&PERCENTILES[..], &server, &MISSED].concat();
    of_cells(cells, ["payload B", "contender"], what, &figures)
}

/// Contenders that ran at the same time, two by two.
fn side_by_side(report: &Report, named: &impl Fn(&'static str) -> Field) -> Option<(String, Table)> {
    let cells = report.cells.iter().filter(|cell| cell.experiment == SIDE_BY_SIDE);
    let what = |cell: &Cell| [named(cell.contender), named(cell.beside.unwrap_or_default())];
    let figures = [&PERCENTILES[..], &MISSED].concat();
    let table = of_cells(cells, ["contender", "at the same time"], what, &figures)?;
    let title = format!(
        "Latency of two at the same time, 128 B, each at {SIDE_BY_SIDE_RATE}/s, in µs from when an event was due; cores awake, parties \
         pinned, all rounds together and none left out"
    );
    Some((title, table))
}

fn throughputs<'a>(cells: impl Iterator<Item = &'a Cell>, name: &impl Fn(&Cell) -> Field) -> Option<Table> {
    let headings = ["payload B", "supplier", "consumers", "contender", "events/s", "least and most"];
    let what = |cell: &Cell| {
        let spread = cell.figures.get("events_per_second");
        let spread = spread.map(|spread| format!("{:.0} to {:.0}", spread.min, spread.max));
        [
            u64::from(cell.payload_bytes).into(),
            cell.supplier.as_str().into(),
            cell.consumer.as_str().into(),
            name(cell),
            cell.figure("events_per_second").into(),
            spread.into(),
        ]
    };
    let figures = [
        ("CPU µs/event", "cpu_us_per_event"),
        ("CPU µs/delivery", "cpu_us_per_delivery"),
        ("system calls/event", "system_calls_per_event"),
        ("switches/event", "switches_per_event"),
        ("allocations/event", "allocations_per_event"),
        ("resident MB", "resident_mb"),
        ("threads", "threads"),
        ("lost", "lost"),
    ];
    of_cells(cells, headings, what, &figures)
}

fn arrivals<'a>(cells: impl Iterator<Item = &'a Cell>, name: &impl Fn(&Cell) -> Field) -> Option<Table> {
    let what = |cell: &Cell| [u64::from(cell.consumers).into(), u64::from(cell.processes).into(), name(cell)];
    let figures = [
        ("first", "first_us"),
        ("last", "last_us"),
        ("last, p90", "last_p90_us"),
        ("last, max", "last_max_us"),
        ("CPU µs/delivery", "cpu_us_per_delivery"),
        ("resident MB", "resident_mb"),
        ("threads", "threads"),
        ("lost", "lost"),
    ];
    of_cells(cells, ["consumers", "processes", "contender"], what, &figures)
}

fn growth(growth: &[Growth]) -> Table {
    let mut table = Table::new(["contender", "processes", "consumers", "µs", "µs per consumer", "r²"]);
    for Growth { contender, processes, consumers, line } in growth {
        table.row([
            (*contender).into(),
            u64::from(*processes).into(),
            format!("{} to {}", consumers.0, consumers.1).into(),
            line.intercept.into(),
            line.slope.into(),
            line.r_squared.into(),
        ]);
    }
    table
}

fn describe(cell: &Cell) -> String {
    let consumers = counted(cell.consumers, "consumer");
    let rate = if cell.rate > 0.0 { format!(", {}/s", cell.rate) } else { String::new() };
    let beside = cell.beside.map_or_else(String::new, |other| format!(", at the same time as {other}"));
    format!("{} B, {}, {consumers}{rate}{beside}", cell.payload_bytes, cell.supplier)
}

/// The charts of a report: names of files without their ending, and documents.
fn charts(report: &Value) -> report::Charts {
    let commit = at(report, "machine.commit").as_str().unwrap_or("unknown");
    let subtitle = format!("{}, commit {commit}", text(report, "machine.processor"));
    let due = || Axis::logarithmic("from when an event was due", Labels::Microseconds);
    let lines = |title: &str, x: &str, series| {
        Chart {
            title: title.to_owned(),
            subtitle: subtitle.clone(),
            x: Axis::logarithmic(x, Labels::Numbers),
            y: due(),
            series,
        }
        .to_svg()
    };
    let fast = |cell: &Value| {
        text(cell, "experiment") == "latency" && cell["pinned"] == true && number(cell, "rate") >= Some(9999.0)
    };
    let crowd = |cell: &Value| {
        let consumers = number(cell, "consumers").unwrap_or(0.0);
        text(cell, "experiment") == "fan-out" && number(cell, "processes") == Some(consumers.min(10.0))
    };
    let median = series(report, fast, "payload_bytes", "p50_us");
    let p999 = series(report, fast, "payload_bytes", "p999_us");
    let last = series(report, crowd, "consumers", "last_us");
    let payload = "payload, bytes";
    let delivery = "Processor time of a delivery, 1 to 100, 64 B";
    let mut charts = Vec::new();
    for (name, title, x, series) in [
        ("latency-median", "Median latency, 1 to 1, at 10,000 events/s", payload, median),
        ("latency-p999", "99.9th percentile of latency, 1 to 1, at 10,000 events/s", payload, p999),
        ("fan-out", "Time to the last consumer, 8 KB", "consumers, in up to 10 processes", last),
    ] {
        if !series.is_empty() {
            charts.push((name.to_owned(), lines(title, x, series)));
        }
    }
    for (name, title, label, consumers, figure) in [
        ("throughput", "Throughput, 1 to 1, 64 B", "events/s", 1.0, "events_per_second"),
        ("delivery", delivery, "µs per delivery", 100.0, "cpu_us_per_delivery"),
    ] {
        let (title, subtitle, label) = (title.to_owned(), subtitle.clone(), label.to_owned());
        let groups = groups(report, consumers, figure);
        if !groups.is_empty() {
            charts.push((name.to_owned(), Bars { title, subtitle, label, groups }.to_svg()));
        }
    }
    charts
}

/// A figure of a cell: of all rounds together where they are pooled, else the median over the rounds.
fn figure(cell: &Value, name: &str) -> Option<f64> {
    at(cell, "pooled").get(name).and_then(Value::as_f64).or_else(|| number(at(cell, "figures").get(name)?, "median"))
}

/// All contenders, each with its place among the colours, and its cells among these.
fn by_contender(report: &Value, take: impl Fn(&Value) -> bool) -> Vec<(usize, &str, Vec<&Value>)> {
    let contenders = rows(report, "contenders").iter().enumerate();
    let cells = |key: &str| {
        let all = rows(report, "cells").iter();
        all.filter(|cell| text(cell, "contender") == key && take(cell)).collect::<Vec<_>>()
    };
    contenders.map(|(colour, about)| (colour, text(about, "name"), cells(text(about, "key")))).collect()
}

/// One series for each contender that has points.
fn series(report: &Value, take: impl Fn(&Value) -> bool, x: &str, y: &str) -> Vec<Series> {
    let mut all = Vec::new();
    for (colour, name, cells) in by_contender(report, take) {
        let points: Vec<(f64, f64)> =
            cells.into_iter().filter_map(|cell| number(cell, x).zip(figure(cell, y))).collect();
        if points.len() > 1 {
            all.push(Series { name: name.to_owned(), points, mark: Mark::Line, colour });
        }
    }
    all
}

/// Bars of all contenders that send in the same way, way by way.
fn groups(report: &Value, consumers: f64, name: &str) -> Vec<Group> {
    let is_it = |cell: &Value| {
        text(cell, "experiment") == "throughput"
            && number(cell, "payload_bytes") == Some(64.0)
            && number(cell, "consumers") == Some(consumers)
    };
    let mut groups: Vec<Group> = Vec::new();
    for (colour, contender, cells) in by_contender(report, is_it) {
        for cell in cells {
            let Some(value) = figure(cell, name) else { continue };
            let supplier = text(cell, "supplier");
            let supplier = match supplier.split_once(", window") {
                Some((sequences, _)) if sequences.starts_with("sequences") => sequences,
                _ => supplier,
            };
            let bar = (contender.to_owned(), value, colour);
            match groups.iter_mut().find(|(group, _)| group == supplier) {
                Some((_, bars)) => bars.push(bar),
                None => groups.push((supplier.to_owned(), vec![bar])),
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::contender::Scenario;

    #[test]
    fn a_note_tells_in_one_line_what_was_said() {
        assert_eq!(in_one_line("it ended; it did not say why"), "it ended; it did not say why");
        assert_eq!(in_one_line("it ended; the last was:\n  one\n\n  two"), "it ended; the last was: one / two");
    }

    #[test]
    fn a_note_names_every_cell_that_has_it() {
        let cell = |contender, rate, note: Option<&str>| {
            let mut cell = Cell::new("latency", contender, &Scenario::one_to_one(128), rate, true);
            cell.note = note.map(ToOwned::to_owned);
            cell
        };
        let broken = Some("it ended;\nkilled");
        let mut pair = cell("nats", 250.0, broken);
        (pair.experiment, pair.beside) = ("side by side", Some("campanile"));
        let cells = [cell("nats", 250.0, broken), cell("relay", 250.0, None), cell("nats", 1000.0, broken), pair];
        let of = "nats (latency, 128 B, two-way, 1 consumer, 250/s; latency, 128 B, two-way, 1 consumer, 1000/s; \
                  side by side, 128 B, two-way, 1 consumer, 250/s, at the same time as campanile)";
        assert_eq!(notes(&cells), [(of.to_owned(), "it ended; killed".to_owned())]);
    }
}
