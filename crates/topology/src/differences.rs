//! Differences of two topologies, as text.

use super::Topology;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Differences of `now` from `before`: a line for each thing that was added, removed or changed, in the order of the
/// topology. None if both are equal, but for the random numbers in object keys.
///
/// Numbered things are compared by number, names by identifier and kind in their context, and other elements of lists
/// by index.
#[must_use]
pub fn differences(before: &Topology, now: &Topology) -> Vec<String> {
    let mut lines = Vec::new();
    // A topology can always be written, so errors are ignored.
    if let (Ok(before), Ok(now)) = (serde_json::to_value(before), serde_json::to_value(now)) {
        compare("", &before, &now, &mut lines);
    }
    lines
}

/// Fields that keys are made of. They change if a store is from before keys had 128 bits, and are not for a terminal.
const KEYS: [&str; 2] = ["objects_nonce", "former"];

fn compare(place: &str, before: &Value, now: &Value, lines: &mut Vec<String>) {
    match (before, now) {
        _ if before == now => {}
        (Value::Object(before), Value::Object(now)) => compare_parts(place, before, now, lines),
        (Value::Array(before), Value::Array(now)) => compare_lists(place, before, now, lines),
        _ => lines.push(format!("{place}: {now}, was {before}")),
    }
}

fn compare_parts(place: &str, before: &Map<String, Value>, now: &Map<String, Value>, lines: &mut Vec<String>) {
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    for name in names.filter(|name| !KEYS.contains(&name.as_str())) {
        let is_list = |value: Option<&Value>| value.is_some_and(Value::is_array);
        let is_thing = |map: &Map<String, Value>| {
            map.get(name).and_then(Value::as_array).is_some_and(|list| list.iter().any(has_label))
        };
        // The word for one of them is in its label.
        let inner = if is_thing(before) || is_thing(now) {
            format!("{place}\u{0}{}", singular(name))
        } else {
            joined(place, name)
        };
        match (before.get(name), now.get(name)) {
            (Some(before), Some(now)) => compare(&inner, before, now, lines),
            (Some(list), None) if is_list(Some(list)) => compare(&inner, list, &Value::Array(Vec::new()), lines),
            (None, Some(list)) if is_list(Some(list)) => compare(&inner, &Value::Array(Vec::new()), list, lines),
            (Some(gone), None) => lines.push(format!("{inner}: not set, was {gone}")),
            (None, Some(new)) => lines.push(format!("{inner}: {new}, was not set")),
            (None, None) => {}
        }
    }
}

fn compare_lists(place: &str, before: &[Value], now: &[Value], lines: &mut Vec<String>) {
    let (place, word) = place.split_once('\u{0}').unwrap_or((place, ""));
    if !before.iter().chain(now).all(has_label) {
        lines.push(format!("{place}: {}, was {}", shown(now), shown(before)));
        return;
    }
    let labelled = |list: &[Value]| -> BTreeMap<(String, u64, String), Value> {
        list.iter().map(|thing| (label(thing), thing.clone())).collect()
    };
    let (before, now) = (labelled(before), labelled(now));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    for key in keys {
        let (side, id, name) = key;
        let number = if name.is_empty() { id.to_string() } else { name.clone() };
        let side = if side.is_empty() { String::new() } else { format!("{} ", side.to_lowercase()) };
        let thing = joined(place, &format!("{side}{word} {number}"));
        match (before.get(key), now.get(key)) {
            (Some(before), Some(now)) => compare(&thing, before, now, lines),
            (Some(_), None) => lines.push(format!("{thing}: is gone")),
            (None, Some(_)) => lines.push(format!("{thing}: is new")),
            (None, None) => {}
        }
    }
}

/// Identity of a thing in a list: its side, its number, its name.
fn label(thing: &Value) -> (String, u64, String) {
    let text = |name: &str| thing.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = thing.get("id").and_then(Value::as_u64);
    // A proxy's number identifies it, whatever its side.
    let side = if thing.get("admin").is_some() { String::new() } else { text("side") };
    match id {
        Some(id) => (side, id, String::new()),
        None if text("kind").is_empty() => (side, 0, format!("{:?}", text("name"))),
        None => (side, 0, format!("{:?}.{:?}", text("name"), text("kind"))),
    }
}

fn has_label(thing: &Value) -> bool {
    thing.get("id").is_some() || thing.get("bound").is_some()
}

fn joined(place: &str, more: &str) -> String {
    if place.is_empty() { more.to_owned() } else { format!("{place}, {more}") }
}

fn shown(list: &[Value]) -> String {
    let event_type = |thing: &Value| {
        let part = |name| thing.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(format!("{}/{}", part("domain")?, part("name")?))
    };
    let shown: Vec<String> = list.iter().map(|thing| event_type(thing).unwrap_or_else(|| thing.to_string())).collect();
    format!("[{}]", shown.join(", "))
}

fn singular(name: &str) -> &str {
    match name {
        "proxies" => "proxy",
        "attached" => "attached filter",
        _ => name.strip_suffix('s').unwrap_or(name),
    }
}
