//! Values and events as text for people: short, and harmless to a terminal even if the sender is malicious.

use crate::color::{self, Tone};
use crate::moment;
use client::notify::{Property, StructuredEvent};
use giop::value::{AnyValue, Value};
use std::fmt::{Display, Write};
use std::time::Duration;

/// Maximum octets and elements shown; the rest is counted.
const OCTETS_SHOWN: usize = 32;
const ELEMENTS_SHOWN: usize = 16;

/// Writes an event in lines: time, type and name, then a line for each field.
pub(crate) fn event(out: &mut String, time: &str, event: &StructuredEvent) {
    let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
    let _ = write!(out, "{time}  {}", clean(&self::type_name(domain, type_name)));
    if !event_name.is_empty() {
        let _ = write!(out, "  {}", clean(event_name));
    }
    out.push('\n');
    let width = filterable_data.iter().chain(variable_header).map(|property| property.name.chars().count()).max();
    let width = width.unwrap_or(0).clamp(4, 24);
    for property in variable_header {
        line(out, "  : ", width, property);
    }
    // A typed event has members of its body as fields, too: each is shown once.
    let members = if let Value::Struct { fields, .. } = &remainder.value { fields.as_slice() } else { &[] };
    let is_field = |(name, value): &(String, Value)| {
        filterable_data.iter().any(|property| property.name == *name && property.value.value == *value)
    };
    let are_fields = !members.is_empty() && members.iter().all(is_field);
    let is_member = |property: &Property| {
        members.iter().any(|(name, value)| property.name == *name && property.value.value == *value)
    };
    for property in filterable_data.iter().filter(|property| are_fields || !is_member(property)) {
        line(out, "    ", width, property);
    }
    if !matches!(remainder.value, Value::Null) && !are_fields {
        let _ = write!(out, "    {:width$}  ", "body");
        any(out, remainder);
        out.push('\n');
    }
}

/// Name of a type: `Weather/Wind`, or `Wind` without a domain.
pub(crate) fn type_name(domain: &str, name: &str) -> String {
    if domain.is_empty() { name.to_owned() } else { format!("{domain}/{name}") }
}

/// An event in an Any, in one line.
pub(crate) fn any_event(out: &mut String, time: &str, event: &AnyValue) {
    let _ = write!(out, "{time}  ");
    any(out, event);
    out.push('\n');
}

fn line(out: &mut String, indent: &str, width: usize, property: &Property) {
    let _ = write!(out, "{indent}{:width$}  ", clean(&property.name));
    value(out, &property.value.value);
    out.push('\n');
}

/// Writes a value behind its type, if the type has a name.
fn any(out: &mut String, any: &AnyValue) {
    let name = any.type_code.name();
    if !name.is_empty() {
        let _ = write!(out, "{} ", clean(name));
    }
    value(out, &any.value);
}

/// A value in one line.
pub(crate) fn value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) | Value::Wstring(text) => {
            let _ = write!(out, "{text:?}");
        }
        Value::LongDouble(octets) => {
            let _ = write!(out, "{}", crate::json::quadruple(octets));
        }
        Value::Enum { label, .. } => out.push_str(&clean(label)),
        Value::Struct { fields, .. } | Value::Exception { fields, .. } => {
            let fields = fields.iter().map(|(name, field)| (Some(name.as_str()), field));
            elements(out, ['{', '}'], fields);
        }
        Value::Union { member: Some((name, member)), .. } => {
            elements(out, ['{', '}'], std::iter::once((Some(name.as_str()), &**member)));
        }
        Value::Sequence(values) | Value::Array(values) => {
            elements(out, ['[', ']'], values.iter().take(ELEMENTS_SHOWN).map(|element| (None, element)));
            if values.len() > ELEMENTS_SHOWN {
                out.pop();
                let _ = write!(out, ", … {} in all]", count(values.len()));
            }
        }
        Value::Octets(octets) => {
            let (shown, rest) = octets.split_at_checked(OCTETS_SHOWN).unwrap_or((octets, &[]));
            out.push_str("0x");
            crate::json::hex(out, shown);
            if !rest.is_empty() {
                let _ = write!(out, "… {} octets", count(octets.len()));
            }
        }
        Value::Any(nested) => any(out, nested),
        other => {
            let _ = write!(out, "{}", clean(&other.to_string()));
        }
    }
}

fn elements<'a>(
    out: &mut String,
    [open, close]: [char; 2],
    elements: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
) {
    out.push(open);
    for (index, (name, element)) in elements.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if let Some(name) = name {
            let _ = write!(out, "{}: ", clean(name));
        }
        value(out, element);
    }
    out.push(close);
}

/// Writes a property for people: enumerated values by name, times and sizes in units.
pub(crate) fn property_value(out: &mut String, property: &Property) {
    let value = &property.value.value;
    match known(&property.name, value) {
        Some(text) => out.push_str(&text),
        None => self::value(out, value),
    }
}

/// Meaning of a property's value, if it differs from the plain value.
fn known(name: &str, value: &Value) -> Option<String> {
    /// Parts of the names of times, of the OMG's and of this service's, in units of 100 ns.
    const TIMES: [&str; 9] =
        ["Timeout", "Interval", "Deadline", "After", "Within", "Linger", "Expiry", "Bound", "HistoryAge"];
    let chosen = |names: &[&str], choice: i16| names.get(usize::try_from(choice).ok()?).map(|name| (*name).to_owned());
    match (name, value) {
        ("EventReliability" | "ConnectionReliability", Value::Short(v)) => chosen(&["BestEffort", "Persistent"], *v),
        ("OrderPolicy" | "DiscardPolicy", Value::Short(v)) => {
            chosen(&["AnyOrder", "FifoOrder", "PriorityOrder", "DeadlineOrder", "LifoOrder"], *v)
        }
        ("MaxQueueLength" | "MaxConsumers" | "MaxSuppliers" | "MaxEventsPerConsumer", Value::Long(0)) => {
            Some("0 (no limit)".to_owned())
        }
        ("Timeout" | "GiveUpAfter" | "ConnectionExpiry" | "HoldTimeout" | "ProbeInterval", Value::ULongLong(0)) => {
            Some("0 (never)".to_owned())
        }
        ("ReplyTimeout" | "SupplierLinger", Value::ULongLong(0)) => Some("0 (for ever)".to_owned()),
        ("MemoryBudget" | "OverflowBudget" | "HistoryBytes", Value::ULongLong(octets)) => Some(bytes(*octets)),
        ("EventTime", Value::ULongLong(ticks)) => Some(moment::of_ticks(*ticks)),
        (_, Value::ULongLong(time @ 1..)) if TIMES.iter().any(|end| name.ends_with(end)) => Some(duration(*time)),
        _ => None,
    }
}

/// A time of 100 ns units, in a suitable unit.
pub(crate) fn duration(time: u64) -> String {
    let time = Duration::from_micros(time / 10) + Duration::from_nanos(time % 10 * 100);
    match (time.as_secs(), time.subsec_nanos()) {
        (seconds @ 1.., 0) if seconds.is_multiple_of(86_400) => format!("{} d", seconds / 86_400),
        (seconds @ 1.., 0) if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        (seconds @ 120.., 0) if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        (0, 0) => "0 s".to_owned(),
        _ => {
            let text = format!("{time:?}");
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            format!("{} {unit}", text.trim_end_matches(unit))
        }
    }
}

/// A time for people, with three digits at most.
pub(crate) fn short_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (unit, per_unit) = match nanos {
        0..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let hundredths = nanos * 100 / per_unit;
    match hundredths {
        0..1_000 if per_unit > 1 => format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100),
        0..10_000 if per_unit > 1 => format!("{}.{} {unit}", hundredths / 100, hundredths % 100 / 10),
        _ => format!("{} {unit}", count(hundredths / 100)),
    }
}

/// Text with control characters replaced by their escapes.
pub(crate) fn clean(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// A number with a comma at each thousand.
pub(crate) fn count(number: impl Display) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of octets in a suitable unit.
pub(crate) fn bytes(number: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = number as f64;
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

/// A rate with significant digits only.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        r if !r.is_finite() => "-".to_owned(),
        r if r < 10.0 => format!("{r:.2}"),
        r if r < 100.0 => format!("{r:.1}"),
        r => count(format!("{r:.0}")),
    }
}

/// Appends a table. Columns are as wide as their cells; empty ones are left out, unless `all` are wanted. Columns with names are aligned
/// left, figures right.
pub(crate) fn table<Row: AsRef<[String]>>(text: &mut String, headings: (&[&str], bool), names: &[usize], rows: &[Row]) {
    painted_table(text, headings, names, rows, |_, _| None);
}

/// Appends a table, as [`table`] does, with each cell in the colour that `tone` returns for its row and column.
pub(crate) fn painted_table<Row: AsRef<[String]>>(
    text: &mut String,
    (headings, all): (&[&str], bool),
    names: &[usize],
    rows: &[Row],
    tone: impl Fn(usize, usize) -> Option<Tone>,
) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let heading = headings.get(column).map_or(0, |heading| heading.chars().count());
        if widest == 0 && !all { None } else { Some(widest.max(heading)) }
    };
    let widths: Vec<Option<usize>> = (0..headings.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>, row: Option<usize>| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let Some(width) = *width else { continue };
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            let cell = color::paint(cell, row.and_then(|row| tone(row, column)));
            let _ = match names.contains(&column) {
                true => write!(line, "{cell}{pad}  "),
                false => write!(line, "{pad}{cell}  "),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(&mut headings.iter().copied(), None);
    for (nth, row) in rows.iter().enumerate() {
        line(&mut row.as_ref().iter().map(String::as_str), Some(nth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(v: &Value) -> String {
        let mut out = String::new();
        value(&mut out, v);
        out
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(shown(&Value::String("\u{1b}]0;x\u{7}".into())), "\"\\u{1b}]0;x\\u{7}\"");
        let label = Value::Enum { type_name: "E".into(), label: "A\u{1b}".into(), index: 0 };
        assert_eq!(shown(&label), "A\\u{1b}");
        let mut out = String::new();
        event(&mut out, "t", &StructuredEvent::new("D\u{1b}", "T\r", "N\n"));
        assert!(!out.trim_end().contains(char::is_control), "{out:?}");
    }

    /// `campanile info` said `OrderPolicy 1`, and left it to the reader to find out what that is.
    #[test]
    fn properties_are_reported_by_name_and_in_units() {
        let shown = |property: Property| {
            let mut out = String::new();
            property_value(&mut out, &property);
            out
        };
        assert_eq!(shown(Property::new("OrderPolicy", 1_i16)), "FifoOrder");
        assert_eq!(shown(Property::new("DiscardPolicy", 4_i16)), "LifoOrder");
        assert_eq!(shown(Property::new("DiscardPolicy", 9_i16)), "9");
        assert_eq!(shown(Property::new("EventReliability", 0_i16)), "BestEffort");
        assert_eq!(shown(Property::new("MaxConsumers", 0)), "0 (no limit)");
        assert_eq!(shown(Property::new("MaxConsumers", 7)), "7");
        assert_eq!(shown(Property::new("Timeout", 0_u64)), "0 (never)");
        assert_eq!(shown(Property::new("SupplierLinger", 0_u64)), "0 (for ever)");
        assert_eq!(shown(Property::new("PacingInterval", 0_u64)), "0");
        assert_eq!(shown(Property::new("MemoryBudget", 10_000_000_u64)), "10.0 MB");
        for (time, text) in [
            (10_000_000_u64, "1 s"),
            (600_000_000, "60 s"),
            (1_200_000_000, "2 min"),
            (36_000_000_000, "1 h"),
            (864_000_000_000, "1 d"),
            (15_000_000, "1.5 s"),
            (1_000_001, "100.0001 ms"),
            (10, "1 µs"),
            (1, "100 ns"),
        ] {
            assert_eq!(shown(Property::new("PullInterval", time)), text);
        }
    }

    #[test]
    fn long_values_are_cut_and_counted() {
        let octets = shown(&Value::Octets(vec![0xab; 1_048_576]));
        assert!(octets.ends_with("ab… 1,048,576 octets"), "{octets}");
        assert!(octets.len() < 100);
        let values = shown(&Value::Sequence(vec![Value::Long(1); 1000]));
        assert!(values.ends_with("1, … 1,000 in all]"), "{values}");
        assert_eq!(shown(&Value::Array(vec![Value::Long(1), Value::Long(2)])), "[1, 2]");
    }

    #[test]
    fn event_has_a_line_for_each_field() {
        let mut source = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        source.variable_header.push(Property::new("Priority", 3_i16));
        source.filterable_data.push(Property::new("celsius", 11.5));
        source.filterable_data.push(Property::new("site", "north"));
        source.remainder = AnyValue::from(true);
        let mut out = String::new();
        event(&mut out, "12:00:00.000Z", &source);
        let expected = "12:00:00.000Z  Telescope/Temperature  dome-3\n  : Priority  3\n    celsius   11.5\n    \
                        site      \"north\"\n    body      true\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(34_816), "34.8 kB");
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
        assert_eq!(rate(0.5), "0.50");
        assert_eq!(rate(12_345.6), "12,346");
        assert_eq!(rate(f64::NAN), "-");
    }
}
