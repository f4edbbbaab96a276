//! `campanile filter`: constraints explained and tried on events, with the code of the service.

use crate::args::{FilterCheckOptions, FilterCommand, FilterTestOptions};
use crate::event_line::{EventLine, Names};
use crate::failure::Failure;
use crate::{json, select, show};
use client::notify::StructuredEvent;
use corba::event::{EventFields, fields_of_any, fields_of_structured};
use filter::{Constraint, ConstraintError, Limits, Steps, Verdict};
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::value::AnyValue;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum steps of an evaluation: a channel's default for each event.
const STEPS: u32 = 250_000;

/// The beginning of 1970 in the OMG's time: 100 ns since 15 October 1582.
const UNIX_TIME: u64 = 0x01b2_1dd2_1381_4000;

/// Runs one of the sub-commands.
pub(crate) fn run(command: &FilterCommand) -> Result<(), Failure> {
    match command {
        FilterCommand::Check(options) => check(options),
        FilterCommand::Test(options) => test(options),
    }
}

/// Characters shown before and behind an error's position.
const SHOWN_BEFORE: usize = 60;
const SHOWN_BEHIND: usize = 20;

/// Explains an invalid constraint in three lines: the reason, the constraint around the position, a mark below it.
pub(crate) fn explain_error(error: &ConstraintError) -> String {
    let caret = error.caret().to_string();
    let line = caret.lines().next().unwrap_or_default();
    let column = error.column();
    let skipped = column.saturating_sub(SHOWN_BEFORE + 1);
    let mut shown: String = line.chars().skip(skipped).take(column - skipped + SHOWN_BEHIND).collect();
    let more = line.chars().count() > column + SHOWN_BEHIND;
    if more {
        shown.push('…');
    }
    let (ellipsis, mark) = if skipped > 0 { ("…", column - skipped + 1) } else { ("", column) };
    format!("not a constraint: {error}\n  {ellipsis}{}\n  {:>mark$}", show::clean(&shown), "^")
}

fn check(options: &FilterCheckOptions) -> Result<(), Failure> {
    let constraint = match Constraint::parse(&options.constraint, &Limits::default()) {
        Ok(constraint) => constraint,
        Err(error) if options.json => {
            let mut line = String::new();
            let object = json::Object::new(&mut line).member("valid", false).member("column", error.column());
            object.member("reason", error.reason().to_string()).end();
            line.push('\n');
            io::stdout().write_all(line.as_bytes())?;
            return Err(Failure::Quiet);
        }
        Err(error) => return Err(Failure::Message(explain_error(&error))),
    };
    let mut text = String::new();
    if options.json {
        let cost = constraint.cost();
        json::Object::new(&mut text)
            .member("valid", true)
            .member("nodes", constraint.nodes())
            .member("steps_best", cost.best)
            .member("steps_worst", cost.worst)
            .member("always", constraint.always())
            .member("reads", constraint.paths().iter().map(ToString::to_string).collect::<Vec<_>>())
            .end();
    } else {
        let _ = write!(text, "{}", constraint.explain());
    }
    text.push('\n');
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Tries a constraint on each event of standard input. Succeeds if one of them matches.
fn test(options: &FilterTestOptions) -> Result<(), Failure> {
    let constraint = Constraint::parse(&options.constraint, &Limits::default())
        .map_err(|error| Failure::Usage(explain_error(&error)))?;
    let mut any = false;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|error| Failure::Usage(format!("cannot read events from standard input: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let event = Sample::from_json(&line)
            .map_err(|reason| Failure::Usage(format!("line {}: {reason}", number.saturating_add(1))))?;
        let (matches, mut text) = event.judge(&constraint);
        any |= matches;
        text.push('\n');
        io::stdout().write_all(text.as_bytes())?;
    }
    if any { Ok(()) } else { Err(Failure::Quiet) }
}

/// An event made from JSON.
enum Sample {
    Structured(StructuredEvent),
    Any(AnyValue),
}

impl Sample {
    /// Reads an event as `sub --json` prints it. Types follow from the JSON as in `pub`.
    fn from_json(line: &str) -> Result<Self, String> {
        let (line, names) = (EventLine::parse(line)?, Names::default());
        if line.is_any() {
            return line.body(&names).map(Self::Any);
        }
        line.structured(StructuredEvent::new("", "", ""), &names).map(Self::Structured)
    }

    /// Whether the constraint matches, and why.
    fn judge(&self, constraint: &Constraint) -> (bool, String) {
        let mut bytes = Vec::new();
        let encoding = Encoding::new(Endian::NATIVE);
        let mut writer = Writer::new(&mut bytes, encoding);
        // Values made from JSON fit the types made with them.
        let written = match self {
            Self::Structured(event) => event.write(&mut writer),
            Self::Any(event) => event.write(&mut writer),
        };
        if let Err(error) = written {
            return (false, format!("no match: the event cannot be encoded: {error}"));
        }
        let source = Reader::new(&bytes, encoding);
        let fields = match self {
            Self::Structured(_) => fields_of_structured(source, now()),
            Self::Any(_) => fields_of_any(source, now()),
        };
        let verdict = constraint.matches(&fields, &mut Steps::new(STEPS));
        let mut text = match verdict {
            Verdict::Match => "match".to_owned(),
            Verdict::NoMatch => "no match".to_owned(),
            Verdict::Failed(failure) => {
                format!("no match: column {}: {}", constraint.column(failure), failure.kind)
            }
            Verdict::Cut => format!("no match: cut after {STEPS} steps"),
        };
        values(&mut text, constraint, &fields);
        (verdict == Verdict::Match, text)
    }
}

/// Adds the values that the constraint reads from the event.
fn values(text: &mut String, constraint: &Constraint, fields: &EventFields<'_>) {
    for (index, path) in constraint.paths().iter().enumerate() {
        let _ = write!(text, "{} {path} ", if index == 0 { ":" } else { "," });
        match filter::Fields::field(fields, path, &mut Steps::new(STEPS)) {
            Some(value) => {
                let _ = write!(text, "= {}", show::clean(&select::scalar(&value)));
            }
            None => text.push_str("is not there"),
        }
    }
}

/// Current value of `$curtime`.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let units = u64::try_from(since.as_nanos() / 100).unwrap_or(u64::MAX);
    UNIX_TIME.saturating_add(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = concat!(
        r#"{"received":"2026-01-01T00:00:00.000Z","domain":"Telescope","type":"Temperature","name":"dome-3","#,
        r#""header":{"Priority":3},"fields":{"celsius":11.5,"tags":["a","b"],"site":"north"},"#,
        r#""body":{"type":"Object","value":{"x":7}}}"#
    );

    fn judged(constraint: &str, event: &str) -> (bool, String) {
        let constraint = Constraint::parse(constraint, &Limits::default()).unwrap();
        Sample::from_json(event).unwrap().judge(&constraint)
    }

    #[test]
    fn constraints_are_tried_on_printed_events() {
        for (constraint, expected) in [
            ("$celsius > 11", "match: $celsius = 11.5"),
            ("$celsius > 30 and $site == 'north'", "no match: $celsius = 11.5, $site = \"north\""),
            ("'a' in $tags", "match: $tags = […]"),
            ("$type_name == 'Temperature'", "match: $type_name = \"Temperature\""),
            ("$priority == 3", "match: $priority = 3"),
            ("$.remainder_of_body.x == 7", "match: $.remainder_of_body.x = 7"),
            ("$pressure > 3", "no match: column 1: the event has no such field: $pressure is not there"),
            (
                "$site > 3",
                "no match: column 7: the operator does not apply to values of these types: $site = \"north\"",
            ),
        ] {
            let (matches, text) = judged(constraint, EVENT);
            assert_eq!(text, expected);
            assert_eq!(matches, text.starts_with("match"));
        }
    }

    #[test]
    fn events_in_anys_are_understood() {
        let (matches, text) = judged("$.x > 6", r#"{"received":"…","body":{"type":"Object","value":{"x":7}}}"#);
        assert!(matches, "{text}");
        let (matches, text) = judged("$ == 11.5", r#"{"received":"…","body":{"type":"double","value":11.5}}"#);
        assert!(matches, "{text}");
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for (line, reason) in [
            ("[]", "a JSON object"),
            ("{", "not JSON"),
            (r#"{"domain":3,"type":"B"}"#, "`domain` is not text"),
            (r#"{"fields":[1]}"#, "`fields` is not an object"),
            (r#"{"received":"…","error":"cut","octets":""}"#, "could not be read"),
        ] {
            let error = Sample::from_json(line).err().unwrap();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn mistake_in_a_long_constraint_is_shown_with_what_is_around_it() {
        let text = format!("{}$celsius >> 3{}", "$a == 1 and ".repeat(1000), " and $b == 2".repeat(1000));
        let limits = Limits { bytes_max: u32::MAX, nodes_max: u32::MAX, ..Limits::default() };
        let text = explain_error(&Constraint::parse(&text, &limits).unwrap_err());
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("  …") && lines[1].ends_with('…'), "{text}");
        assert!(lines[1].chars().count() < 90, "{text}");
        let mark = lines[2].chars().count() - 1;
        assert_eq!(lines[1].chars().nth(mark), Some('>'), "{text}");
        assert_eq!(lines[1].chars().nth(mark - 1), Some('>'), "{text}");
    }

    #[test]
    fn error_shows_its_place() {
        let error = Constraint::parse("$celsius >> 3", &Limits::default()).unwrap_err();
        let text = explain_error(&error);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("not a constraint: column "), "{text}");
        assert_eq!(lines[1], "  $celsius >> 3");
        assert_eq!(lines[2].trim(), "^");
    }
}
