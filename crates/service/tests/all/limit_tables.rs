//! The tables of limits in docs/operating-reference.md, held against the tests: each counter that they name is read by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The sources of all tests under a folder of crates.
fn tests_under(folder: &Path, found: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if !path.ends_with("target") {
                tests_under(&path, found);
            }
        } else if path.ends_with("service/src/counters.rs") {
            // Its tests say how counters are called, all of them, and provoke none.
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
            let begins = if is_test { Some(0) } else { source.find("#[cfg(test)]") };
            found.extend(begins.map(|begins| &source[begins..]));
        }
    }
}

/// Words of letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_counter_in_the_tables_of_limits_is_read_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/operating-reference.md")).unwrap();
    let limits = document.split_once("\n## Limits").unwrap().1;
    let limits = limits.split_once("\n## Back-pressure").unwrap().0;
    // As the source calls them: `ConnectionsRefused = "connections_refused"`.
    let counters = fs::read_to_string(root.join("crates/service/src/counters.rs")).unwrap();
    let variants: BTreeMap<&str, &str> = counters
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(" = \""))
        .filter_map(|(variant, name)| Some((name.split('"').next()?, variant)))
        .collect();
    assert!(variants.len() > 50, "{variants:?}");
    let mut tests = String::new();
    for folder in ["crates", "interop", "lab"] {
        tests_under(&root.join(folder), &mut tests);
    }
    let read: BTreeSet<&str> = words(&tests).collect();
    // Some are the engine's, in groups: `counters.set(Counter::HandoversDropped, engine.handovers.dropped);`
    let context = fs::read_to_string(root.join("crates/service/src/lane/context.rs")).unwrap();
    let of_engine: BTreeMap<&str, &str> = context
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix("counters.set(Counter::")?.strip_suffix(");")?.split_once(", engine.")
        })
        .collect();
    assert!(of_engine.len() > 15, "{of_engine:?}");
    let rows = limits.lines().filter(|line| line.starts_with('|'));
    let last_cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
    let named: Vec<&str> = last_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 40, "{named:?}");
    let unread: Vec<&str> = named
        .into_iter()
        .filter(|name| {
            let Some(variant) = variants.get(name) else {
                // Neither an exception nor an operation.
                return name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name.contains('_')
                    && !name.starts_with("get_")
                    && !name.starts_with("limits.");
            };
            let is_read_there = of_engine.get(variant).is_some_and(|place| tests.contains(*place));
            !is_read_there && ![*variant, *name].iter().any(|word| read.contains(word))
        })
        .collect();
    assert!(unread.is_empty(), "counters of limits that no test reads, or that there are not: {unread:?}");
}
