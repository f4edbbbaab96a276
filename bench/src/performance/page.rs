//! The page: tables and charts, between two marks, so that what people wrote around them stays.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::aims::Growth;
use super::cells::Cell;
use super::endurance;
use super::experiments::{SIDE_BY_SIDE, SIDE_BY_SIDE_RATE};
use super::whole::{About, Report};
use crate::experiments::chart::{Axis, Bars, Chart, Labels, Mark, Series};
use crate::experiments::{Aim, verdict};
use crate::table::{Cell as Field, Table, counted};
use crate::{BenchError, Machine};

/// What stands between marks is written here.
const MEASURED: &str = "measured";
const ENDURANCE: &str = "endurance";

/// Writes the charts into the folder beside the page that has its name, and the measured part of the page.
pub(super) fn write(report: &Report, page: &Path) -> Result<(), BenchError> {
    let folder = page.with_extension("");
    fs::create_dir_all(&folder).map_err(BenchError::io("making the folder for charts"))?;
    let charts = charts(report);
    for (name, svg) in &charts {
        fs::write(folder.join(format!("{name}.svg")), svg).map_err(BenchError::io("writing a chart"))?;
    }
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let before = fs::read_to_string(page).unwrap_or_else(|_| "# Performance\n".to_owned());
    let measured = measured(report, &folder, &charts);
    fs::write(page, replaced(&before, MEASURED, &measured)).map_err(BenchError::io("writing the page"))
}

/// Writes the part of the page that is about endurance.
pub(super) fn write_endurance(report: &endurance::Report, page: &Path) -> Result<(), BenchError> {
    let mut text = circumstances(&report.date, &report.machine);
    text.push_str(".\n\n");
    for run in &report.runs {
        if let Some(why) = &run.untraced {
            let _ = writeln!(text, "At {} nothing could be explained: {why}.\n", report.which(run));
        }
    }
    for (title, table) in endurance::tables(report) {
        let _ = writeln!(text, "### {title}\n\n{}", table.markdown());
    }
    let before = fs::read_to_string(page).unwrap_or_else(|_| "# Performance\n".to_owned());
    fs::write(page, replaced(&before, ENDURANCE, &text)).map_err(BenchError::io("writing the page"))
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

/// The page with another part of this name; at the end, where it had none.
fn replaced(page: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- {name}: begin (written by `campanile-bench`; edits are lost) -->");
    let end = format!("<!-- {name}: end -->");
    let part = format!("{begin}\n\n{}\n\n{end}\n", text.trim());
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    match parts {
        Some((before, behind)) => format!("{before}{part}{}", behind.strip_prefix('\n').unwrap_or(behind)),
        None => format!("{}\n\n{part}", page.trim_end()),
    }
}

/// The measured part.
fn measured(report: &Report, folder: &str, charts: &[(&'static str, String)]) -> String {
    let Report { date, machine, quick, seconds, .. } = report;
    let mut text = circumstances(date, machine);
    let _ = writeln!(
        text,
        "; {:.0} minutes{}. Figures are medians over the rounds and ratios are taken round by round, except latencies of 128 B with the \
         parties pinned, which are those of many short rounds together, and latencies of two at the same time, which are those of all rounds together. \
         [bench/README.md](../bench/README.md) says what each figure is.\n",
        seconds / 60.0,
        if *quick { ", with `--quick`, which is a check and no measurement" } else { "" }
    );
    for (name, _) in charts {
        let _ = writeln!(text, "![{name}]({folder}/{name}.svg)\n");
    }
    for (title, table) in tables(report) {
        let _ = writeln!(text, "### {title}\n\n{}", table.markdown());
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
    let mut tables = vec![("What was to be shown".to_owned(), aims(&report.aims))];
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

fn aims(aims: &[Aim]) -> Table {
    let mut table = Table::new(["aim", "found", "met"]);
    for Aim { aim, found, met } in aims {
        table.row([aim.as_str().into(), found.as_str().into(), verdict(*met).into()]);
    }
    table
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

/// Those who ran at the same time, two by two.
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

/// The charts: names of files without their ending, and documents.
fn charts(report: &Report) -> Vec<(&'static str, String)> {
    let subtitle = format!("{}, commit {}", report.machine.processor, report.machine.commit.unwrap_or("unknown"));
    let mut charts = Vec::new();
    for (name, title, figure) in [
        ("latency-median", "Median latency, 1 to 1, at 10,000 events/s", "p50_us"),
        ("latency-p999", "99.9th percentile of latency, 1 to 1, at 10,000 events/s", "p999_us"),
    ] {
        let cells = |cell: &Cell| cell.experiment == "latency" && cell.pinned && cell.rate > 9999.0;
        let series = series(report, cells, |cell| (f64::from(cell.payload_bytes), cell.figure(figure)));
        let x = Axis::logarithmic("payload, bytes", Labels::Numbers);
        let y = Axis::logarithmic("from when an event was due", Labels::Microseconds);
        charts.extend(chart(name, title, &subtitle, x, y, series));
    }
    let cells = |cell: &Cell| cell.experiment == "fan-out" && cell.processes == cell.consumers.min(10);
    let series = series(report, cells, |cell| (f64::from(cell.consumers), cell.figure("last_us")));
    let x = Axis::logarithmic("consumers, in up to 10 processes", Labels::Numbers);
    let y = Axis::logarithmic("from when an event was due", Labels::Microseconds);
    charts.extend(chart("fan-out", "Time to the last consumer, 8 KB", &subtitle, x, y, series));
    charts.extend(bars(
        report,
        "throughput",
        "Throughput, 1 to 1, 64 B",
        "events/s",
        &subtitle,
        1,
        "events_per_second",
    ));
    let title = "Processor time of a delivery, 1 to 100, 64 B";
    charts.extend(bars(report, "delivery", title, "µs per delivery", &subtitle, 100, "cpu_us_per_delivery"));
    charts
}

/// One series for each contender that has points.
fn series(report: &Report, take: impl Fn(&Cell) -> bool, point: impl Fn(&Cell) -> (f64, Option<f64>)) -> Vec<Series> {
    let mut all = Vec::new();
    for (colour, About { key, name, .. }) in report.contenders.iter().enumerate() {
        let cells = report.cells.iter().filter(|cell| cell.contender == *key && take(cell));
        let points: Vec<(f64, f64)> = cells.map(&point).filter_map(|(x, y)| Some((x, y?))).collect();
        if points.len() > 1 {
            all.push(Series { name: (*name).to_owned(), points, mark: Mark::Line, colour });
        }
    }
    all
}

fn chart(
    name: &'static str,
    title: &str,
    subtitle: &str,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
) -> Option<(&'static str, String)> {
    if series.is_empty() {
        return None;
    }
    let chart = Chart { title: title.to_owned(), subtitle: subtitle.to_owned(), x, y, series };
    Some((name, chart.to_svg()))
}

fn bars(
    report: &Report,
    name: &'static str,
    title: &str,
    label: &str,
    subtitle: &str,
    consumers: u32,
    figure: &str,
) -> Option<(&'static str, String)> {
    let mut bars = Vec::new();
    for (colour, about) in report.contenders.iter().enumerate() {
        for cell in &report.cells {
            let is_it = cell.experiment == "throughput"
                && cell.contender == about.key
                && cell.payload_bytes == 64
                && cell.consumers == consumers;
            if let Some(value) = cell.figure(figure).filter(|_| is_it) {
                let supplier = match cell.supplier.split_once(", window") {
                    Some((sequences, _)) if sequences.starts_with("sequences") => sequences,
                    _ => cell.supplier.as_str(),
                };
                bars.push((format!("{}, {supplier}", about.name), value, colour));
            }
        }
    }
    let bars = Bars { title: title.to_owned(), subtitle: subtitle.to_owned(), label: label.to_owned(), bars };
    (!bars.bars.is_empty()).then(|| (name, bars.to_svg()))
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

    #[test]
    fn what_people_wrote_around_the_measured_part_stays() {
        let first = replaced("# Performance\n\nWhy.\n", MEASURED, "one");
        assert!(first.starts_with("# Performance\n\nWhy.\n\n") && first.contains("\none\n"));
        let behind = format!("{first}\n## What was tried\n");
        let second = replaced(&behind, MEASURED, "two");
        assert_eq!(second, behind.replace("\none\n", "\ntwo\n"));
        let third = replaced(&second, ENDURANCE, "three");
        assert!(third.starts_with(&second) && third.contains("\nthree\n"));
        assert_eq!(replaced(&second, MEASURED, "two"), second);
    }
}
