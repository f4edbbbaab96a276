//! Runs the examples of `spec/*.md`.
//!
//! A fence `event NAME` defines an event. A fence `filter` or `filter NAME` has one example a line: a constraint, ` # `,
//! and what is to happen with the event (or none). A fence `explain` has a constraint and, after an empty line, what
//! [`filter::Constraint::explain`] prints. What is to happen:
//!
//! ```text
//! match                  no match               always match           never match
//! missing                wrong type             division by zero       not a sequence        … at column 3
//! match in 5 steps       and the same of the others: with one step less, it is cut
//! cost 3 to 8            constants are calculated; the constraint parses and costs that much
//! column 7: …            the text is refused, with exactly these words
//! ```

#![expect(clippy::unwrap_used, reason = "a test")]

mod event;

use event::Event;
use filter::{Constraint, Failure, FailureKind, Limits, Steps, Verdict};
use std::collections::HashMap;
use std::path::PathBuf;

const BUDGET: u32 = 250_000;

fn pages() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("spec");
    let mut pages: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

struct Fence {
    place: String,
    kind: String,
    name: String,
    lines: Vec<String>,
}

fn fences() -> Vec<Fence> {
    let mut fences: Vec<Fence> = Vec::new();
    for page in pages() {
        let mut open = false;
        for (number, line) in std::fs::read_to_string(&page).unwrap().lines().enumerate() {
            match line.strip_prefix("```") {
                Some(_) if open => open = false,
                Some(info) => {
                    let (kind, name) = info.split_once(' ').unwrap_or((info, ""));
                    let place = format!("{}:{}", page.file_name().unwrap().display(), number + 2);
                    fences.push(Fence { place, kind: kind.into(), name: name.into(), lines: Vec::new() });
                    open = true;
                }
                None if open => fences.last_mut().unwrap().lines.push(line.to_owned()),
                None => {}
            }
        }
        assert!(!open, "a fence of {} is not closed", page.display());
    }
    fences
}

fn describe(constraint: &Constraint, event: &Event, budget: u32) -> String {
    match constraint.matches(event, &mut Steps::new(budget)) {
        Verdict::Match => "match".into(),
        Verdict::NoMatch => "no match".into(),
        Verdict::Cut => "cut".into(),
        Verdict::Failed(failure @ Failure { kind, .. }) => {
            let kind = match kind {
                FailureKind::Missing => "missing",
                FailureKind::WrongType => "wrong type",
                FailureKind::DivisionByZero => "division by zero",
                FailureKind::NotASequence => "not a sequence",
                _ => "another failure",
            };
            format!("{kind} at column {}", constraint.column(failure))
        }
    }
}

/// What is wrong with an example, if anything.
fn check(text: &str, expected: &str, event: &Event) -> Option<String> {
    let constraint = match Constraint::parse(text, &Limits::default()) {
        Ok(constraint) => constraint,
        Err(error) => {
            let refused = error.to_string();
            return (refused != expected).then_some(refused);
        }
    };
    if let Some(always) = constraint.always() {
        let found = if always { "always match" } else { "never match" };
        return (found != expected && found.split_once(' ').unwrap().1 != expected).then(|| found.into());
    }
    if let Some(cost) = expected.strip_prefix("cost ") {
        let found = format!("{} to {}", constraint.cost().best, constraint.cost().worst);
        return (found != cost).then_some(found);
    }
    let found = describe(&constraint, event, BUDGET);
    if let Some((expected, steps)) = expected.strip_suffix(" steps").and_then(|rest| rest.rsplit_once(" in ")) {
        let steps: u32 = steps.parse().unwrap();
        let (exact, less) = (describe(&constraint, event, steps + 1), describe(&constraint, event, steps - 1));
        let mut left = Steps::new(BUDGET);
        constraint.matches(event, &mut left);
        let taken = BUDGET - left.left;
        return (exact != expected || less != "cut" || taken != steps)
            .then(|| format!("{found} in {taken} steps; {exact} and {less}"));
    }
    let brief = found.split(" at column").next().unwrap();
    (found != expected && brief != expected).then_some(found)
}

#[test]
fn the_examples_of_the_specification_hold() {
    let mut events = HashMap::new();
    let (mut examples, mut wrong) = (0, Vec::new());
    for fence in fences() {
        let (page, line) = fence.place.split_once(':').unwrap();
        let line: usize = line.parse().unwrap();
        match fence.kind.as_str() {
            "event" => {
                let known = events.insert(fence.name.clone(), Event::parse(&fence.lines.join("\n")));
                assert!(known.is_none(), "{}: the event {} is defined twice", fence.place, fence.name);
            }
            "filter" => {
                let nothing = Event::nothing();
                let event = match fence.name.as_str() {
                    "" => &nothing,
                    name => events.get(name).unwrap_or_else(|| panic!("{}: no event {name}", fence.place)),
                };
                for (number, example) in fence.lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                    let place = format!("{page}:{}", line + number);
                    let Some((text, expected)) = example.rsplit_once("# ") else { panic!("{place}: no expectation") };
                    examples += 1;
                    if let Some(found) = check(text.trim_end(), expected.trim(), event) {
                        wrong.push(format!(
                            "{place}: {}\n    expected: {expected}\n    found:    {found}",
                            text.trim_end()
                        ));
                    }
                }
            }
            "explain" => {
                let (text, expected) = (&fence.lines[0], fence.lines[2..].join("\n"));
                examples += 1;
                let found = Constraint::parse(text, &Limits::default()).unwrap().explain().to_string();
                if found != expected {
                    wrong.push(format!("{}: found\n{found}", fence.place));
                }
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {examples} examples do not hold\n{}", wrong.len(), wrong.join("\n"));
    assert!(examples >= 850, "only {examples} examples were found");
    println!("{examples} examples");
}

#[test]
fn the_conformance_document_lists_each_section_and_no_other() {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md"));
    let mut listed = Vec::new();
    for row in document.lines().filter(|row| row.contains("(../crates/filter/spec/") && row.starts_with('|')) {
        assert!(row.contains("| done |"), "{row}");
        let (_, link) = row.rsplit_once('[').unwrap();
        let (section, page) = link.split_once("](../crates/filter/spec/").unwrap();
        listed.push((page.split_once(')').unwrap().0.to_owned(), section.to_owned()));
    }
    let mut written = Vec::new();
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap().to_owned();
        for line in std::fs::read_to_string(&page).unwrap().lines().filter(|_| !name.starts_with('7')) {
            if let Some((section, _)) = line.strip_prefix("## ").and_then(|heading| heading.split_once(' '))
                && section.contains('.')
            {
                written.push((name.clone(), section.to_owned()));
            }
        }
    }
    assert_eq!(listed, written);
}
