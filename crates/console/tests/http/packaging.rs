//! Alert rules and the dashboard speak of metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::grammar;
use crate::support::{numbered, start};

/// Words that begin with `campanile_`.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("campanile_")).map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_a_service_tells_of() {
    let rig = start();
    let (_proxy, _mute) = rig.mute_consumer(None, &[]);
    rig.supplier(None).publish(&numbered(1)).unwrap();
    let text = rig.scrape().body;
    // Of some there are no samples yet, but there is always their family; as a counter's, with `_total` behind it.
    let families =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(|line| line.split_once(' ').unwrap());
    let mut known: BTreeSet<String> = grammar::read(&text).into_iter().map(|sample| sample.name).collect();
    for (name, kind) in families {
        match kind {
            "counter" => _ = known.insert(format!("{name}_total")),
            "histogram" => known.extend(["_bucket", "_count", "_sum"].map(|suffix| format!("{name}{suffix}"))),
            _ => _ = known.insert(name.to_owned()),
        }
    }
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for file in ["prometheus/campanile.rules.yml", "grafana/campanile.json"] {
        let named = metrics(&fs::read_to_string(packaging.join(file)).unwrap());
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let dashboard = fs::read_to_string(packaging.join("grafana/campanile.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}
