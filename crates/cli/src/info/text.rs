//! What `info --json` prints: one object with everything.

use super::{Admin, FilterInfo, Filtering, Info, MappingInfo, Proxy, Side};
use crate::json::{self, list};
use client::notify::{ConstraintExp, EventType};
use std::fmt::Write;

pub(super) fn write_json(out: &mut String, info: &Info) {
    out.push_str("{\"address\":");
    json::text(out, &info.address);
    let id = info.id.map_or_else(|| "null".to_owned(), |id| id.to_string());
    let _ = write!(out, ",\"id\":{id},\"name\":");
    match &info.name {
        Some(name) => json::text(out, name),
        None => out.push_str("null"),
    }
    out.push_str(",\"interface\":");
    json::text(out, &info.type_id);
    out.push_str(",\"reference\":");
    json::text(out, &info.reference);
    out.push_str(",\"qos\":");
    json::properties(out, &info.qos);
    out.push_str(",\"admin\":");
    json::properties(out, &info.admin_properties);
    for (key, types) in [("offered", &info.offered), ("subscribed", &info.subscribed)] {
        let _ = write!(out, ",\"{key}\":");
        match types {
            Some(types) => write_types(out, types),
            None => out.push_str("null"),
        }
    }
    out.push_str(",\"history\":");
    match &info.history {
        Some(history) => history.write_json(out),
        None => out.push_str("null"),
    }
    for (key, side) in [("consumer_admins", Side::Consumers), ("supplier_admins", Side::Suppliers)] {
        let admins: Vec<&Admin> = info.admins.iter().filter(|admin| admin.side == side).collect();
        let _ = write!(out, ",\"{key}\":");
        list(out, &admins, |out, admin| write_admin(out, admin));
    }
    out.push('}');
}

fn write_admin(out: &mut String, admin: &Admin) {
    let _ = write!(out, "{{\"id\":{},\"operator\":\"{}\",\"qos\":", admin.id, admin.operator);
    json::properties(out, &admin.qos);
    write_filtering(out, &admin.filtering);
    out.push_str(",\"proxies\":");
    list(out, &admin.proxies, write_proxy);
    out.push('}');
}

fn write_proxy(out: &mut String, proxy: &Proxy) {
    let _ = write!(out, "{{\"id\":{},\"type\":\"{}\",\"qos\":", proxy.id, proxy.kind);
    json::properties(out, &proxy.qos);
    write_filtering(out, &proxy.filtering);
    if let Some(status) = &proxy.status {
        out.push_str(",\"consumer\":");
        json::text(out, &status.name);
        status.write_state(out);
        let _ = write!(
            out,
            ",\"backlog_events\":{},\"backlog_bytes\":{},\"delayed\":{},\"pulls_waiting\":{},\"delivered\":{},\"in_flight\":{},\"failures\":{},\"dropped\":{}",
            status.backlog_events,
            status.backlog_bytes,
            status.delayed,
            status.pulls_waiting,
            status.delivered,
            status.in_flight,
            status.failures,
            status.dropped
        );
        out.push_str(",\"dropped_by_reason\":");
        json::object(out, status.reasons.iter().map(|(reason, count)| (reason.as_str(), *count)), |out, count| {
            let _ = write!(out, "{count}");
        });
        out.push_str(",\"dropped_by_type\":");
        list(out, &status.drops, |out, drops| {
            out.push_str("{\"type\":");
            json::text(out, &drops.event_type.to_string());
            out.push_str(",\"reason\":");
            json::text(out, &drops.reason);
            let _ = write!(out, ",\"events\":{}}}", drops.events);
        });
    }
    if let Some(supplier) = &proxy.supplier {
        supplier.write_json(out);
    }
    out.push('}');
}

fn write_filtering(out: &mut String, filtering: &Filtering) {
    out.push_str(",\"filters\":");
    list(out, &filtering.filters, write_filter);
    for (key, mapping) in [("priority_filter", &filtering.priority), ("lifetime_filter", &filtering.lifetime)] {
        if let Some(mapping) = mapping {
            let _ = write!(out, ",\"{key}\":");
            write_mapping(out, mapping);
        }
    }
}

fn write_filter(out: &mut String, filter: &FilterInfo) {
    let _ = write!(out, "{{\"id\":{}", filter.id);
    match &filter.contents {
        Err(reason) => write_error(out, reason),
        Ok((grammar, constraints)) => {
            out.push_str(",\"grammar\":");
            json::text(out, grammar);
            out.push_str(",\"constraints\":");
            list(out, constraints, |out, info| {
                let _ = write!(out, "{{\"id\":{}", info.constraint_id);
                write_constraint(out, &info.constraint_expression);
                out.push('}');
            });
        }
    }
    out.push('}');
}

fn write_mapping(out: &mut String, mapping: &MappingInfo) {
    match &mapping.contents {
        Err(reason) => {
            out.push_str("{\"error\":");
            json::text(out, reason);
        }
        Ok((default, constraints)) => {
            out.push_str("{\"default\":");
            json::value(out, &default.value);
            out.push_str(",\"constraints\":");
            list(out, constraints, |out, info| {
                let _ = write!(out, "{{\"id\":{}", info.constraint_id);
                write_constraint(out, &info.constraint_expression);
                out.push_str(",\"value\":");
                json::value(out, &info.value.value);
                out.push('}');
            });
        }
    }
    out.push('}');
}

fn write_error(out: &mut String, reason: &str) {
    out.push_str(",\"error\":");
    json::text(out, reason);
}

fn write_constraint(out: &mut String, constraint: &ConstraintExp) {
    out.push_str(",\"constraint\":");
    json::text(out, &constraint.constraint_expr);
    out.push_str(",\"types\":");
    write_types(out, &constraint.event_types);
}

fn write_types(out: &mut String, types: &[EventType]) {
    list(out, types, |out, event_type| json::text(out, &event_type.to_string()));
}

#[cfg(test)]
mod tests {
    use super::super::tests::info;
    use super::*;

    #[test]
    fn json_has_everything() {
        let mut out = String::new();
        write_json(&mut out, &info());
        let parsed: serde_json::Value = serde_json::from_str(&out).expect(&out);
        assert_eq!(parsed["id"], 3);
        assert_eq!(parsed["admin"]["MaxConsumers"], 5);
        assert_eq!(parsed["offered"][0], "Telescope/Temperature");
        assert_eq!(parsed["history"]["first"]["number"], 41);
        let admin = &parsed["consumer_admins"][0];
        assert_eq!(admin["filters"][0]["constraints"][0]["constraint"], "$celsius > 30");
        assert_eq!(admin["filters"][0]["constraints"][0]["types"][0], "Telescope/*");
        let proxy = &admin["proxies"][0];
        assert_eq!(proxy["dropped_by_reason"]["outbox_full"], 2);
        let drops = &proxy["dropped_by_type"][1];
        assert_eq!(drops["type"], "Telescope/Pressure");
        assert_eq!((&drops["reason"], &drops["events"]), (&"expired".into(), &1.into()));
        assert_eq!(proxy["filters"][0]["error"], "gone");
        assert_eq!(proxy["priority_filter"]["constraints"][0]["value"], 9);
        assert_eq!(parsed["supplier_admins"][0]["operator"], "OR_OP");
        let supplier = &parsed["supplier_admins"][0]["proxies"][0];
        assert_eq!((&supplier["supplier"], &supplier["idle_ms"]), (&"10.0.0.7".into(), &604_800_000.into()));
    }
}
