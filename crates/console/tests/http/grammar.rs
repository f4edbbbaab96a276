//! OpenMetrics 1.0 as its specification has it, read strictly.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: its name, its labels, its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: String,
    samples: Vec<Sample>,
}

/// All samples, if the text is well-formed; it panics otherwise, and says at which line.
pub(crate) fn read(text: &str) -> Vec<Sample> {
    assert!(text.ends_with("\n# EOF\n"), "{}", text.lines().last().unwrap_or_default());
    let mut families: Vec<(String, Family)> = Vec::new();
    let mut seen = BTreeSet::new();
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let (what, rest) = rest.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(is_name(name), "{line}");
            if families.last().is_none_or(|(last, _)| last != name) {
                assert!(seen.insert(name.to_owned()), "a family is in two places: {line}");
                families.push((name.to_owned(), Family::default()));
            }
            let family = &mut families.last_mut().unwrap().1;
            assert!(family.samples.is_empty(), "metadata behind samples: {line}");
            match what {
                "TYPE" => family.kind = value.to_owned(),
                "UNIT" => {
                    assert!(name.ends_with(&format!("_{value}")), "{line}");
                    family.unit = value.to_owned();
                }
                "HELP" => drop(unescaped(value)),
                _ => panic!("{line}"),
            }
        } else {
            let sample = sample(line);
            let (name, family) = families.last_mut().unwrap();
            assert!(belongs(name, &family.kind, &sample), "{line}, a {}", family.kind);
            assert!(
                family.samples.iter().all(|other| (&other.name, &other.labels) != (&sample.name, &sample.labels)),
                "{line}"
            );
            family.samples.push(sample);
        }
    }
    families.iter().for_each(|(_, family)| check(family));
    families.into_iter().flat_map(|(_, family)| family.samples).collect()
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn belongs(family: &str, kind: &str, sample: &Sample) -> bool {
    let Some(suffix) = sample.name.strip_prefix(family) else { return false };
    match kind {
        "counter" => suffix == "_total" && sample.value >= 0.0,
        "gauge" => suffix.is_empty(),
        "info" => suffix == "_info" && sample.value == 1.0,
        "stateset" => suffix.is_empty() && sample.labels.contains_key(family) && [0.0, 1.0].contains(&sample.value),
        "histogram" => {
            ["_bucket", "_count", "_sum"].contains(&suffix) && (suffix == "_bucket") == sample.labels.contains_key("le")
        }
        _ => false,
    }
}

/// Bounds with what is below each, and how many there are.
type Histogram = (Vec<(f64, f64)>, Option<f64>);

/// Of each histogram the buckets rise, and the last is the count.
fn check(family: &Family) {
    if family.kind != "histogram" {
        return;
    }
    let mut of: BTreeMap<BTreeMap<String, String>, Histogram> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let le = labels.remove("le");
        let entry = of.entry(labels).or_default();
        match le {
            Some(le) => entry.0.push((if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() }, sample.value)),
            None if sample.name.ends_with("_count") => entry.1 = Some(sample.value),
            None => {}
        }
    }
    for (labels, (buckets, count)) in of {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{labels:?}: {buckets:?}");
        let (bound, all) = buckets.last().unwrap();
        assert!(bound.is_infinite() && Some(*all) == count, "{labels:?}");
    }
}

fn unescaped(text: &str) -> String {
    let (mut all, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        all.push(match c {
            '\\' => match chars.next() {
                Some('\\') => '\\',
                Some('"') => '"',
                Some('n') => '\n',
                other => panic!("\\{other:?} in {text}"),
            },
            c => c,
        });
    }
    all
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let mut escaped = false;
            let end = after
                .char_indices()
                .find(|(_, c)| {
                    let ends = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    ends
                })
                .unwrap()
                .0;
            assert!(labels.insert(label.to_owned(), unescaped(&after[..end])).is_none(), "{line}");
            rest = &after[end + 1..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    assert!(!value.contains(' '), "{line}");
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("{line}")) }
}

/// The value of a sample with these labels, among others.
pub(crate) fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |sample: &&Sample| {
        sample.name == name
            && labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|found| found == value))
    };
    samples.iter().find(fits).map(|sample| sample.value)
}
