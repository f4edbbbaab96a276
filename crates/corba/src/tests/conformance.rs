//! `docs/conformance.md` against the tables that answer requests.

use crate::conformance::operations;
use crate::naming::WELL_KNOWN;
use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md"));

/// The rows of the document's tables of operations: interface, operation, state.
fn documented() -> Vec<(String, String, String)> {
    let mut interface = String::new();
    let mut rows = Vec::new();
    for line in DOCUMENT.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            interface = heading.trim_start_matches('#').trim().trim_matches('`').to_owned();
        } else if let Some(row) = line.strip_prefix("| `")
            && interface.contains("::")
        {
            let mut cells = row.split('|').map(str::trim);
            let operation = cells.next().unwrap().trim_end_matches('`').to_owned();
            rows.push((interface.clone(), operation, cells.next().unwrap().to_owned()));
        }
    }
    rows
}

#[test]
fn the_document_lists_every_operation_that_is_answered() {
    let expected: Vec<(String, String, String)> =
        operations().map(|row| (row.interface.to_owned(), row.operation.to_owned(), "done".to_owned())).collect();
    let documented = documented();
    for (expected, documented) in expected.iter().zip(&documented) {
        assert_eq!(documented, expected);
    }
    assert_eq!(documented.len(), expected.len());
}

#[test]
fn the_document_lists_every_name_that_is_bound_from_the_start() {
    for (id, kind, key) in WELL_KNOWN {
        let kind = if kind.is_empty() { String::new() } else { format!("`{kind}` ") };
        let row = format!("| `{id}` | {kind}| `{key}` |");
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}

#[test]
fn the_document_counts_right() {
    let sentence = format!("There are {} operations, and all are done.", operations().count());
    assert!(DOCUMENT.contains(&sentence), "{sentence}");
}

#[test]
fn no_two_interfaces_have_one_name() {
    let rows: BTreeSet<_> = operations().map(|row| (row.interface, row.operation)).collect();
    assert_eq!(rows.len(), operations().count());
}
