//! Output of `info` for people.

use super::status::{ConsumerStatus, Drops};
use super::{Admin, Constraint, Contents, Filtering, Info, Proxy};
use crate::color;
use crate::show::{self, clean};
use client::notify::Property;
use giop::value::AnyValue;
use std::fmt::Write;

/// Maximum event types shown; the rest is counted.
const TYPES_SHOWN: usize = 16;
/// Maximum lines of drops for a consumer; the rest is counted.
const DROPS_SHOWN: usize = 16;

/// Maximum backlog of a consumer that keeps up, in events: they arrive in bursts.
const KEEPS_UP_EVENTS_MAX: u64 = 16;
/// Maximum slow consumers shown; the rest is counted.
const SLOW_SHOWN: usize = 5;

pub(super) fn write(out: &mut String, info: &Info) {
    let channel = info.id.map_or_else(|| "channel".to_owned(), |id| format!("channel {id}"));
    let name = info.name.as_ref().map_or_else(String::new, |name| format!(" ({})", clean(name)));
    let _ = writeln!(out, "{channel}{name} at {}", clean(&info.address));
    write_slow(out, info);
    if !info.type_id.is_empty() {
        let _ = writeln!(out, "  {}", clean(&info.type_id));
    }
    table(out, "QoS", &info.qos);
    table(out, "admin properties", &info.admin_properties);
    for (what, types) in [("offered", &info.offered), ("subscribed", &info.subscribed)] {
        if let Some(types) = types {
            let _ = writeln!(out, "  {what:10}  {}", type_list(types));
        }
    }
    if let Some(history) = &info.history {
        let _ = writeln!(out, "  history     {}", history.describe());
    }
    info.dds_joins.iter().for_each(|join| join.write(out));
    info.timers.iter().for_each(|timer| timer.write(out));
    summary(out, info);
    for (side, admins) in [("consumer", &info.consumer_admins), ("supplier", &info.supplier_admins)] {
        admins.iter().for_each(|admin| write_admin(out, side, admin));
    }
}

/// Writes the slow consumers, the slowest first, before anything else; or that all keep up.
fn write_slow(out: &mut String, info: &Info) {
    let proxies = info.consumer_admins.iter().flat_map(|admin| &admin.proxies);
    let mut all: Vec<(i32, &ConsumerStatus)> =
        proxies.filter_map(|proxy| Some((proxy.id, proxy.status.as_ref()?))).collect();
    let connected = all.len();
    if connected == 0 {
        return;
    }
    let waiting = |status: &ConsumerStatus| status.backlog_events.saturating_sub(status.delayed);
    all.retain(|(_, status)| {
        waiting(status) > KEEPS_UP_EVENTS_MAX || status.state.holds.is_some() || status.state.doing != "keeping up"
    });
    if all.is_empty() {
        let _ = writeln!(out, "  {} up", number(connected, "consumer, which keeps", "consumers, which all keep"));
        return;
    }
    all.sort_by_key(|(_, status)| std::cmp::Reverse((status.state.holds.is_some(), waiting(status))));
    let _ = writeln!(out, "  {} of {} not keep up:", all.len(), number(connected, "consumer does", "consumers do"));
    for (id, status) in all.iter().take(SLOW_SHOWN) {
        let label = status.label().unwrap_or_default();
        let state = color::paint(&status.describe(), Some(status.tone()));
        let _ = writeln!(out, "    proxy {id}  {label}  {state}: {}", amounts(status));
    }
}

fn summary(out: &mut String, info: &Info) {
    let (consumers, suppliers) = [&info.consumer_admins, &info.supplier_admins]
        .map(|admins| admins.iter().flat_map(|admin| &admin.proxies))
        .into();
    let _ = write!(
        out,
        "  {} for consumers, {} for suppliers",
        number(consumers.clone().count(), "proxy", "proxies"),
        number(suppliers.count(), "proxy", "proxies")
    );
    if info.has_statuses {
        let mut total = ConsumerStatus::default();
        for status in consumers.filter_map(|proxy| proxy.status.as_ref()) {
            total.backlog_events += status.backlog_events;
            total.backlog_bytes += status.backlog_bytes;
            total.delivered += status.delivered;
            total.dropped += status.dropped;
            total.reasons.extend_from_slice(&status.reasons);
        }
        let mut reasons: Vec<(String, u64)> = Vec::new();
        for (reason, count) in &total.reasons {
            match reasons.iter_mut().find(|(name, _)| name == reason) {
                Some((_, sum)) => *sum += count,
                None => reasons.push((reason.clone(), *count)),
            }
        }
        total.reasons = reasons;
        let _ = write!(out, "; {}", amounts(&total));
    }
    out.push('\n');
}

fn write_admin(out: &mut String, side: &str, admin: &Admin) {
    let _ = writeln!(out, "\n{side} admin {}  {}", admin.id, admin.operator);
    differences(out, "  ", &admin.qos);
    write_filtering(out, "  ", &admin.filtering);
    for proxy in &admin.proxies {
        write_proxy(out, proxy);
    }
}

fn write_proxy(out: &mut String, proxy: &Proxy) {
    let _ = write!(out, "  proxy {}  {}", proxy.id, proxy.kind);
    if let Some(status) = &proxy.status {
        if let Some(label) = status.label() {
            let _ = write!(out, "  {label}");
        }
        let _ = write!(out, "  {}", color::paint(&status.describe(), Some(status.tone())));
        let _ = write!(out, "\n    {}", amounts(status));
        if status.in_flight > 0 {
            let _ = write!(out, "; {} under way", show::count(status.in_flight));
        }
        if status.delayed > 0 {
            let _ = write!(out, "; {} before their StartTime", show::count(status.delayed));
        }
        if status.pulls_waiting > 0 {
            let _ = write!(out, "; {} waiting", number(status.pulls_waiting, "pull", "pulls"));
        }
        if status.failures > 0 {
            let _ = write!(out, "; {} in a row", number(status.failures, "failure", "failures"));
        }
        write_drops(out, &status.drops);
    }
    if let Some(supplier) = &proxy.supplier {
        let _ = write!(out, "  {}", clean(&supplier.describe()));
    }
    out.push('\n');
    differences(out, "    ", &proxy.qos);
    write_filtering(out, "    ", &proxy.filtering);
}

/// Writes drops by event type and reason, a line each.
fn write_drops(out: &mut String, drops: &[Drops]) {
    for Drops { event_type, reason, events } in drops.iter().take(DROPS_SHOWN) {
        let reason = clean(reason).replace('_', " ");
        let _ = write!(out, "\n      {} {reason}  {}", show::count(*events), clean(&event_type.to_string()));
    }
    if let Some(more) = drops.len().checked_sub(DROPS_SHOWN).filter(|more| *more > 0) {
        let _ = write!(out, "\n      … {more} more");
    }
}

fn amounts(status: &ConsumerStatus) -> String {
    let mut text = format!(
        "{} ({}) waiting, {} delivered, {} dropped",
        number(status.backlog_events, "event", "events"),
        show::bytes(status.backlog_bytes),
        show::count(status.delivered),
        show::count(status.dropped)
    );
    for (index, (reason, count)) in status.reasons.iter().enumerate() {
        let _ = write!(
            text,
            "{} {} {}",
            if index == 0 { ":" } else { "," },
            show::count(count),
            clean(reason).replace('_', " ")
        );
    }
    text
}

fn number(number: impl std::fmt::Display, one: &str, many: &str) -> String {
    let number = show::count(number);
    let what = if number == "1" { one } else { many };
    format!("{number} {what}")
}

fn write_filtering(out: &mut String, indent: &str, filtering: &Filtering) {
    for filter in &filtering.filters {
        write_contents(out, indent, &format!("filter {}", filter.id), &filter.contents);
    }
    for (what, mapping) in [("priority", &filtering.priority), ("lifetime", &filtering.lifetime)] {
        if let Some(mapping) = mapping {
            write_contents(out, indent, &format!("{what} filter"), mapping);
        }
    }
}

fn write_contents(out: &mut String, indent: &str, what: &str, contents: &Contents) {
    let _ = write!(out, "{indent}{what}  ");
    let constraints = match contents {
        Contents::Unreadable { error } => {
            let _ = writeln!(out, "cannot be read: {}", clean(error));
            return;
        }
        Contents::Filter { grammar, constraints } => {
            let _ = writeln!(out, "{}", clean(grammar));
            if constraints.is_empty() {
                let _ = writeln!(out, "{indent}  no constraints");
            }
            constraints
        }
        Contents::Mapping { default, constraints } => {
            let _ = writeln!(out, "default {}", shown(default.as_ref()));
            constraints
        }
    };
    for info in constraints {
        let value = info.value.as_ref().map_or_else(String::new, |value| format!("{} if ", shown(Some(value))));
        let _ = writeln!(out, "{indent}  {}  {value}{}", info.id, constraint(info));
    }
}

fn shown(any: Option<&AnyValue>) -> String {
    let mut value = String::new();
    any.iter().for_each(|any| show::value(&mut value, &any.value));
    value
}

/// A constraint, with its event types unless they are all.
fn constraint(info: &Constraint) -> String {
    let text = clean(&info.constraint);
    let text = if text.trim().is_empty() { "TRUE".to_owned() } else { text };
    if info.types.is_empty() {
        return text;
    }
    format!("{text}  for {}", type_list(&info.types))
}

fn type_list(types: &[String]) -> String {
    if types.is_empty() {
        return "none".to_owned();
    }
    let mut shown: Vec<String> = types.iter().take(TYPES_SHOWN).map(|name| clean(name)).collect();
    if types.len() > TYPES_SHOWN {
        shown.push(format!("… {} in all", show::count(types.len())));
    }
    shown.join(", ")
}

fn table(out: &mut String, what: &str, properties: &[Property]) {
    if properties.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {what}");
    let width = properties.iter().map(|property| property.name.chars().count()).max().unwrap_or(0).min(32);
    for property in properties {
        let _ = write!(out, "    {:width$}  ", clean(&property.name));
        show::property_value(out, property);
        out.push('\n');
    }
}

fn differences(out: &mut String, indent: &str, properties: &[Property]) {
    if properties.is_empty() {
        return;
    }
    let _ = write!(out, "{indent}QoS");
    for property in properties {
        let _ = write!(out, "  {}=", clean(&property.name));
        show::property_value(out, property);
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::info;
    use super::*;

    #[test]
    fn people_see_settings_filters_backlogs_and_drops() {
        let mut out = String::new();
        write(&mut out, &info());
        let expected = "\
channel 3 (Weather) at 127.0.0.1:2809
  1 consumer, which keeps up
  IDL:C:1.0
  QoS
    Priority     0
    OrderPolicy  FifoOrder
  admin properties
    MaxConsumers  5
  offered     Telescope/Temperature
  subscribed  none
  history     10 events, 41 of 2026-11-20T21:43:05.000Z to 50 of 2026-11-20T21:43:05.000Z; 65.5 kB on disk
  1 proxy for consumers, 1 proxy for suppliers; 12 events (3.4 kB) waiting, 1,234 delivered, 3 dropped: 2 outbox full, 1 expired

consumer admin 0  AND_OP
  filter 1  EXTENDED_TCL
    7  $celsius > 30  for Telescope/*
    8  TRUE
  proxy 2  PUSH_STRUCTURED  127.0.0.1:4711  keeping up
    12 events (3.4 kB) waiting, 1,234 delivered, 3 dropped: 2 outbox full, 1 expired; 1 under way; 5 before their StartTime; 1 pull waiting
      2 outbox full  Telescope/Temperature
      1 expired  Telescope/Pressure
    QoS  Priority=4
    filter 1  cannot be read: gone
    priority filter  default 0
      1  9 if $site == 'north'

supplier admin 0  OR_OP
  proxy 1  PULL_ANY  10.0.0.7  3 events, idle for 7 d 0 h, its connection is closed, no reference
";
        assert_eq!(out, expected);
    }

    #[test]
    fn the_slow_come_first() {
        let mut info = info();
        let status = info.consumer_admins[0].proxies[0].status.as_mut().unwrap();
        (status.backlog_events, status.name) = (100, r#"consumer proxy 2 "archive" of channel 3 (h:1 k)"#.into());
        let mut out = String::new();
        write(&mut out, &info);
        let lines: Vec<&str> = out.lines().skip(1).take(2).collect();
        assert_eq!(lines[0], "  1 of 1 consumer does not keep up:");
        assert!(lines[1].starts_with("    proxy 2  archive  h:1 k  keeping up: 100 events (3.4 kB) waiting"), "{out}");
    }
}
