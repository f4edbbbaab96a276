//! What `info` prints for people.

use super::status::{ConsumerStatus, Drops};
use super::{Admin, FilterInfo, Filtering, Info, MappingInfo, Proxy, Side};
use crate::show::{self, clean};
use client::notify::{ConstraintExp, EventType, Property};
use std::fmt::Write;

/// Event types shown before the rest is only counted.
const TYPES_SHOWN: usize = 16;
/// Lines of what was dropped for a consumer before the rest is only counted.
const DROPS_SHOWN: usize = 16;

pub(super) fn write(out: &mut String, info: &Info) {
    let channel = info.id.map_or_else(|| "channel".to_owned(), |id| format!("channel {id}"));
    let name = info.name.as_ref().map_or_else(String::new, |name| format!(" ({})", clean(name)));
    let _ = writeln!(out, "{channel}{name} at {}", clean(&info.address));
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
    summary(out, info);
    for admin in &info.admins {
        write_admin(out, admin);
    }
}

fn summary(out: &mut String, info: &Info) {
    let proxies = |side| info.admins.iter().filter(move |admin| admin.side == side).flat_map(|admin| &admin.proxies);
    let _ = write!(
        out,
        "  {} for consumers, {} for suppliers",
        number(proxies(Side::Consumers).count(), "proxy", "proxies"),
        number(proxies(Side::Suppliers).count(), "proxy", "proxies")
    );
    if info.has_statuses {
        let mut total = ConsumerStatus::default();
        for status in proxies(Side::Consumers).filter_map(|proxy| proxy.status.as_ref()) {
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

fn write_admin(out: &mut String, admin: &Admin) {
    let side = match admin.side {
        Side::Consumers => "consumer",
        Side::Suppliers => "supplier",
    };
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
        if let Some(client) = status.client() {
            let _ = write!(out, "  {}", clean(client));
        }
        let _ = write!(out, "  {}", status.describe());
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

/// What was dropped by event type and reason, a line each.
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
        write_filter(out, indent, filter);
    }
    for (what, mapping) in [("priority", &filtering.priority), ("lifetime", &filtering.lifetime)] {
        if let Some(mapping) = mapping {
            write_mapping(out, indent, what, mapping);
        }
    }
}

fn write_filter(out: &mut String, indent: &str, filter: &FilterInfo) {
    let _ = write!(out, "{indent}filter {}", filter.id);
    match &filter.contents {
        Err(reason) => {
            let _ = writeln!(out, "  cannot be read: {}", clean(reason));
        }
        Ok((grammar, constraints)) => {
            let _ = writeln!(out, "  {}", clean(grammar));
            if constraints.is_empty() {
                let _ = writeln!(out, "{indent}  no constraints");
            }
            for info in constraints {
                let constraint = constraint(&info.constraint_expression);
                let _ = writeln!(out, "{indent}  {}  {constraint}", info.constraint_id);
            }
        }
    }
}

fn write_mapping(out: &mut String, indent: &str, what: &str, mapping: &MappingInfo) {
    let _ = write!(out, "{indent}{what} filter");
    match &mapping.contents {
        Err(reason) => {
            let _ = writeln!(out, "  cannot be read: {}", clean(reason));
        }
        Ok((default, constraints)) => {
            let mut value = String::new();
            show::value(&mut value, &default.value);
            let _ = writeln!(out, "  default {value}");
            for info in constraints {
                value.clear();
                show::value(&mut value, &info.value.value);
                let constraint = constraint(&info.constraint_expression);
                let _ = writeln!(out, "{indent}  {}  {value} if {constraint}", info.constraint_id);
            }
        }
    }
}

/// A constraint, and behind it the types it is about if not all.
fn constraint(constraint: &ConstraintExp) -> String {
    let text = clean(&constraint.constraint_expr);
    let text = if text.trim().is_empty() { "TRUE".to_owned() } else { text };
    if constraint.event_types.is_empty() {
        return text;
    }
    format!("{text}  for {}", type_list(&constraint.event_types))
}

fn type_list(types: &[EventType]) -> String {
    if types.is_empty() {
        return "none".to_owned();
    }
    let mut shown: Vec<String> = types.iter().take(TYPES_SHOWN).map(|t| clean(&t.to_string())).collect();
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
  proxy 2  PUSH_STRUCTURED  127.0.0.1:4711  active
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
}
