//! What the compiler does not keep: that lanes and administration know no protocol, and that the map is right.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn files(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push((path.display().to_string(), fs::read_to_string(&path).unwrap().to_lowercase()));
        }
    }
}

#[test]
fn lanes_and_administration_have_no_word_of_a_protocol() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    ["lane", "admin"].iter().for_each(|folder| files(&source.join(folder), &mut all));
    assert!(all.len() > 40, "{}", all.len());
    let words = ["giop", "corba"];
    let wrong: Vec<&str> = all
        .iter()
        .filter(|(_, text)| words.iter().any(|word| text.contains(word)))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(wrong, [""; 0]);
}

/// Crates of ours on which one stands: always, and with a feature.
type Needed = [BTreeSet<String>; 2];

#[test]
fn the_arrows_of_the_architecture_are_those_of_the_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = |folder: &str| -> toml::Table {
        fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap().parse().unwrap()
    };
    let workspace = manifest("");
    let folders = workspace["workspace"]["dependencies"].as_table().unwrap().iter();
    let folders: BTreeMap<&str, &str> =
        folders.filter_map(|(name, entry)| Some((name.as_str(), entry.get("path")?.as_str()?))).collect();
    // On these nothing stands.
    let tops =
        [("cli", "crates/cli"), ("ffi", "crates/ffi"), ("fuzz", "fuzz"), ("lab", "lab"), ("python", "crates/python")];
    let mut wanted: BTreeMap<String, Needed> = BTreeMap::new();
    for (name, folder) in folders.iter().map(|(name, folder)| (*name, *folder)).chain(tops) {
        let mut needed = Needed::default();
        for (other, entry) in manifest(folder).get("dependencies").and_then(toml::Value::as_table).into_iter().flatten()
        {
            let is_optional = entry.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
            if folders.contains_key(other.as_str()) {
                needed[usize::from(is_optional)].insert(other.clone());
            }
        }
        if needed != Needed::default() {
            wanted.insert(name.to_owned(), needed);
        }
    }
    assert_eq!(arrows(&fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap()), wanted);
}

/// What the page says, a line for each crate.
fn arrows(page: &str) -> BTreeMap<String, Needed> {
    let block = page.split_once("Arrows (").unwrap().1.split_once("\n\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = |list: &str| list.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let line = |line: &str| {
        let (name, needed) = line.trim().split_once(" → ").unwrap();
        let (always, with_feature) = needed.trim_end_matches(')').split_once(" (").unwrap_or((needed, ""));
        (name.to_owned(), [names(always), names(with_feature)])
    };
    block.lines().map(line).collect()
}
