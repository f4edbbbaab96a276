//! What is read out of a report, which is one JSON object: tables and charts, of one that was just made and of one that was stored.

use std::fs;
use std::path::Path;

use load::table::{Cell, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BenchError, Output};

pub(crate) mod chart;

use chart::{Mark, Series};

/// Tables, each with the line above it.
pub(crate) type Tables = Vec<(String, Table)>;

/// Charts: names of files without their ending, and documents.
pub(crate) type Charts = Vec<(String, String)>;

/// What an experiment is to show, and whether it did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Aim {
    /// What was to be shown.
    pub(crate) aim: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether that is what was to be shown; `null` where it could not be judged.
    pub(crate) met: Option<bool>,
}

/// Says which aims were missed, once all has been reported.
pub(crate) fn judge<'a>(aims: impl IntoIterator<Item = &'a Aim>) -> Result<(), BenchError> {
    let (mut judged, mut missed) = (0, Vec::new());
    for Aim { aim, found, met } in aims {
        judged += usize::from(met.is_some());
        if *met == Some(false) {
            missed.push(format!("\n  {aim}: found {found}"));
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(BenchError::NotShown { found: format!("{} of {judged} aims missed:{}", missed.len(), missed.concat()) })
}

/// The aims as a table.
pub(crate) fn table_of_aims(aims: &[Aim]) -> Table {
    let mut table = Table::new(["aim", "found", "met"]);
    for Aim { aim, found, met } in aims {
        table.row([aim.as_str().into(), found.as_str().into(), verdict(*met).into()]);
    }
    table
}

/// Whether an aim was met, in a word.
pub(crate) const fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

/// The aims of a report.
pub(crate) fn aims(report: &Value) -> Vec<Aim> {
    report.get("aims").and_then(|aims| Vec::deserialize(aims).ok()).unwrap_or_default()
}

/// A report as the JSON object that is stored.
pub(crate) fn value_of(report: &impl Serialize) -> Result<Value, BenchError> {
    serde_json::to_value(report).map_err(load::process::json("reading a report out"))
}

/// The latest report of a kind in a folder, with the day of its run; `None` where there is none.
pub(crate) fn latest(folder: &Path, kind: &str) -> Result<Option<(String, Value)>, BenchError> {
    let Some(path) = load::output::results(folder, kind)?.pop() else { return Ok(None) };
    let text = fs::read_to_string(&path).map_err(BenchError::io("reading a stored report"))?;
    let report = serde_json::from_str(&text).map_err(load::process::json("reading a stored report"))?;
    let day = path.file_name().and_then(|name| name.to_str()?.get(..10)).unwrap_or_default().to_owned();
    Ok(Some((day, report)))
}

/// What the names in this path, with dots between, lead to.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, name| {
        let place = || value.get(name.parse::<usize>().ok()?);
        value.get(name).or_else(place).unwrap_or(&Value::Null)
    })
}

/// The number there.
pub(crate) fn number(value: &Value, path: &str) -> Option<f64> {
    at(value, path).as_f64()
}

/// The text there.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The rows there.
pub(crate) fn rows<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// A table with a row for each of these, and these columns: what stands above one, and the path to its values.
pub(crate) fn table(rows: &[Value], columns: &[(&str, &str)]) -> Table {
    let mut table = Table::new(columns.iter().map(|(heading, _)| *heading));
    for row in rows {
        table.row(columns.iter().map(|(_, path)| cell(at(row, path))));
    }
    table
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Number(number) => match number.as_u64() {
            Some(count) => count.into(),
            None => number.as_f64().into(),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Cell::Absent,
    }
}

/// A line through the rows that have this text there, where one has both figures.
pub(crate) fn line(
    name: &str,
    rows: &[Value],
    (path, is): (&str, &str),
    figures: (&str, &str),
    colour: usize,
) -> Series {
    let rows = rows.iter().filter(|row| text(row, path) == is);
    let points = rows.filter_map(|row| number(row, figures.0).zip(number(row, figures.1))).collect();
    Series { name: name.to_owned(), points, mark: Mark::Line, colour }
}

/// Writes tables, each below its line.
pub(crate) fn write_tables(tables: &Tables, out: &mut Output<'_>) -> Result<(), BenchError> {
    use std::io::Write;
    for (title, table) in tables {
        writeln!(out, "{title}")?;
        table.write(out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes charts into a folder.
pub(crate) fn write_charts(charts: &Charts, folder: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::io("making the folder for charts"))?;
    for (name, svg) in charts {
        fs::write(folder.join(format!("{name}.svg")), svg).map_err(BenchError::io("writing a chart"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_read_out_of_rows() {
        let rows = [
            json!({"service": "plain", "load": 5, "fits": true, "latency": {"p99_us": 2.0}}),
            json!({"service": "plain", "load": 6, "fits": false, "latency": null}),
        ];
        let columns = [("service", "service"), ("load", "load"), ("fits", "fits"), ("p99 µs", "latency.p99_us")];
        let lines = [
            "| service | load | fits | p99 µs |",
            "| --- | ---: | --- | ---: |",
            "| plain | 5 | yes | 2.000 |",
            "| plain | 6 | no | – |",
            "",
        ];
        assert_eq!(table(&rows, &columns).markdown(), lines.join("\n"));
        let series = line("p99", &rows, ("service", "plain"), ("load", "latency.p99_us"), 0);
        assert_eq!(series.points, [(5.0, 2.0)]);
    }

    #[test]
    fn missed_aims_are_reported_and_those_that_could_not_be_judged_are_not_counted() {
        let aim = |met| Aim { aim: "fast".to_owned(), found: "slow".to_owned(), met };
        assert!(judge(&[aim(Some(true)), aim(None)]).is_ok());
        let missed = judge(&[aim(Some(true)), aim(None), aim(Some(false))]).unwrap_err();
        assert_eq!(missed.to_string(), "1 of 2 aims missed:\n  fast: found slow");
    }
}
