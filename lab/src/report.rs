//! Reports: each is one JSON object. It is printed, stored and judged here, whatever it tells of.

use std::io::Write;

use load::output::{today, write_json, write_result};
use load::table::{Cell, Table};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{BenchError, Machine, Options, Output};

/// What an experiment is to show, and whether it did.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Aim {
    pub(crate) aim: String,
    pub(crate) found: String,
    pub(crate) met: Option<bool>,
}

impl Aim {
    pub(crate) fn new(aim: impl Into<String>, found: impl ToString, met: impl Into<Option<bool>>) -> Self {
        Self { aim: aim.into(), found: found.to_string(), met: met.into() }
    }
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

/// Makes an enumeration of kinds of something with their names, which are those in reports.
macro_rules! kinds {
    ($(#[$of_kind:meta])* $visible:vis enum $kind:ident { $($(#[$of_one:meta])* $one:ident = $name:literal,)+ }) => {
        $(#[$of_kind])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $visible enum $kind { $($(#[$of_one])* $one),+ }

        impl $kind {
            pub(crate) const ALL: [Self; [$($name),+].len()] = [$(Self::$one),+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$one => $name),+ }
            }
        }

        // Of some, single ones alone are named.
        const _: [$kind; [$($name),+].len()] = $kind::ALL;

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

pub(crate) use kinds;

/// What a scenario finds: what was to be shown, and the JSON object with everything else.
pub(crate) type Reported = Result<(Vec<Aim>, Value), BenchError>;

/// Runs a scenario, and reports what it found to wherever the options want it. Fails if an aim was missed.
pub(crate) fn run(
    name: &str,
    options: &Options,
    out: &mut Output<'_>,
    scenario: impl FnOnce(&mut Output<'_>) -> Reported,
) -> Result<(), BenchError> {
    let mut machine = Machine::describe();
    let (aims, mut found) = scenario(out)?;
    out.end_progress()?;
    machine.note_stolen();
    let commit = machine.commit;
    add(&mut found, json!({"benchmark": name, "machine": machine}));
    if !aims.is_empty() {
        add(&mut found, json!({"aims": aims}));
    }
    write_json(&found, &options.report, out)?;
    if let Some(folder) = &options.results {
        let lifted = found.pointer("/real_time/throttling_lifted") == Some(&Value::Bool(true));
        let name = format!("{name}{}", if lifted { "-without-throttling" } else { "" });
        let path = write_result(&found, folder, &name, &today(), commit)?;
        if !options.report.json {
            writeln!(out, "{}", path.display())?;
        }
    }
    if !options.report.json {
        print(&found, out)?;
        let mut table = Table::new(["aim", "found", "met"]);
        for Aim { aim, found, met } in &aims {
            let met = met.map_or("–", |met| if met { "yes" } else { "no" });
            table.row([aim.as_str().into(), found.as_str().into(), met.into()]);
        }
        table.write(out)?;
    }
    judge(&aims)
}

pub(crate) fn add(to: &mut Value, members: Value) {
    if let (Value::Object(to), Value::Object(members)) = (to, members) {
        to.extend(members);
    }
}

/// Figures by name.
type Figures = Vec<(String, Cell)>;

/// Figures that stand together, under the names that lead to them.
type Records = Vec<(String, Figures)>;

/// Prints any report: what stands alone as a list, what has the same figures as a table. Single rounds are left out.
fn print(report: &Value, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut records = Records::new();
    collect("", report, &mut records);
    let mut records = records.into_iter().peekable();
    while let Some((name, figures)) = records.next() {
        let names: Vec<String> = figures.iter().map(|(name, _)| name.clone()).collect();
        let mut alike = vec![(name, figures)];
        while let Some(next) = records.next_if(|(_, next)| next.iter().map(|(name, _)| name).eq(&names)) {
            alike.push(next);
        }
        if let [(name, figures)] = alike.as_slice() {
            let mut table = Table::new(["figure", "value"]);
            let dotted = |figure: &str| if name.is_empty() { figure.to_owned() } else { format!("{name}.{figure}") };
            figures.iter().for_each(|(figure, cell)| table.row([dotted(figure).into(), cell.clone()]));
            table.write(out)?;
        } else {
            let mut table = Table::new([String::new()].into_iter().chain(names));
            for (name, figures) in alike {
                table.row([name.into()].into_iter().chain(figures.into_iter().map(|(_, cell)| cell)));
            }
            table.write(out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Takes the figures of a value, and then of those within it.
fn collect(name: &str, value: &Value, into: &mut Records) {
    let within = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(members) => {
            let mut figures = Figures::new();
            let (flat, deep): (Vec<_>, Vec<_>) = members
                .iter()
                .filter(|(key, _)| !["aims", "rounds"].contains(&key.as_str()) || !members[*key].is_array())
                .partition(|(_, value)| is_flat(value));
            flat.into_iter().for_each(|(key, value)| flatten(key, value, &mut figures));
            if !figures.is_empty() {
                into.push((name.to_owned(), figures));
            }
            deep.into_iter().for_each(|(key, value)| collect(&within(key), value, into));
        }
        Value::Array(rows) => rows.iter().for_each(|row| collect(name, row, into)),
        _ => {}
    }
}

/// Whether a value is a figure, or an object or a short list of nothing but figures.
fn is_flat(value: &Value) -> bool {
    let is_figure = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Object(members) => !members.is_empty() && members.values().all(is_figure),
        Value::Array(values) => values.len() <= 10 && values.iter().all(is_figure),
        _ => true,
    }
}

/// Takes the figures of such a value; of a spread over rounds the median.
fn flatten(name: &str, value: &Value, into: &mut Figures) {
    match value {
        Value::Object(members) => match members.get("median") {
            Some(median) if members.len() == 3 => into.push((name.to_owned(), cell(median))),
            _ => members.iter().for_each(|(key, value)| into.push((format!("{name}.{key}"), cell(value)))),
        },
        Value::Array(values) => {
            let texts = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            into.push((name.to_owned(), texts.collect::<Vec<String>>().join(", ").into()));
        }
        _ => into.push((name.to_owned(), cell(value))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_printed_whatever_it_tells_of() {
        let report = json!({
            "benchmark": "paths-load",
            "aims": [{"aim": "a", "found": "b", "met": true}],
            "ratio": {"median": 1.5, "min": 1.0, "max": 2.0},
            "rows": [
                {"service": "plain", "load": 5, "fits": true, "latency": {"p99_us": 2.0}, "rounds": [{"p99_us": 1.0}]},
                {"service": "plain", "load": 6, "fits": false, "latency": {"p99_us": null}, "rounds": []},
            ],
            "floors": {"relay": {"rate": 7, "text": ["a", "b"]}},
        });
        let mut bytes = Vec::new();
        print(&report, &mut Output::new(&mut bytes, false)).unwrap();
        let lines = [
            "figure\tvalue",
            "benchmark\tpaths-load",
            "ratio\t1.500",
            "",
            "figure\tvalue",
            "floors.relay.rate\t7",
            "floors.relay.text\ta, b",
            "",
            "\tfits\tlatency.p99_us\tload\tservice",
            "rows\tyes\t2.000\t5\tplain",
            "rows\tno\t\t6\tplain",
            "",
            "",
        ];
        assert_eq!(String::from_utf8(bytes).unwrap(), lines.join("\n"));
    }

    #[test]
    fn missed_aims_are_reported_and_those_that_could_not_be_judged_are_not_counted() {
        let aim = |met: Option<bool>| Aim::new("fast", "slow", met);
        assert!(judge(&[aim(Some(true)), aim(None)]).is_ok());
        let missed = judge(&[aim(Some(true)), aim(None), aim(Some(false))]).unwrap_err();
        assert_eq!(missed.to_string(), "1 of 2 aims missed:\n  fast: found slow");
    }
}
