//! What is written is read back, and differences are reported.

use super::*;

fn empty() -> Topology {
    let limits = Limits {
        overflow_budget_bytes: Some(0),
        memory_budget_bytes: Some(1 << 28),
        history_events: 0,
        history_age_ns: 0,
        history_bytes: 0,
        max_consumers: None,
        max_suppliers: Some(9),
        max_queue_length: None,
        reject_new_events: false,
        dead_letters: None,
        constraint_bytes_max: 1,
        constraint_nodes_max: 2,
        constraints_per_filter_max: 3,
        filters_per_object_max: 4,
        filters_max: 5,
        filter_steps_max: 6,
    };
    let rest = TopicSettings { share: 1_000, deadline_ns: None, execution_time_ns: 0, criticality: 0 };
    let admin = |side| Admin {
        side,
        id: 0,
        name: None,
        operator: Operator::And,
        settings: Settings::default(),
        owner: None,
        selection: Selection::default(),
    };
    let channel = Channel {
        id: 0,
        name: Some("CONTROL".into()),
        former_name: None,
        declared: false,
        nonce: 0,
        objects_nonce: 77,
        former: None,
        profile: Profile::Standard,
        limits,
        settings: Settings::default(),
        topics: Topics { rest, by_type: Vec::new() },
        next_admin: 1,
        next_proxy: 0,
        admins: vec![admin(Side::Consumers), admin(Side::Suppliers)],
        proxies: Vec::new(),
        filters: Vec::new(),
    };
    let naming = Naming { nonce: 5, next_context: 1, contexts: vec![Context { id: 0, bindings: Vec::new() }] };
    Topology {
        version: VERSION,
        next_channel: 1,
        next_filter: 0,
        next_registration: 2,
        registrations: vec![Callback { id: 1, reference: "IOR:01".into(), unreachable_s: 0 }],
        channels: vec![channel],
        links: Vec::new(),
        naming,
    }
}

fn proxy(id: u32) -> Proxy {
    Proxy {
        id,
        name: None,
        side: Side::Consumers,
        admin: 0,
        events: Events::Structured,
        pull: false,
        settings: Settings { timeout_ns: Some(0), ..Settings::default() },
        when: Some("A and B within 50ms".into()),
        selection: Selection {
            types: Some(vec![EventType { domain: "Weather".into(), name: "*".into() }]),
            attached: vec![
                Attached { id: 0, filter: FilterRef::Filter(3) },
                Attached { id: 2, filter: FilterRef::Reference("IOR:00".into()) },
            ],
            next_attached: 3,
            ..Selection::default()
        },
        silenced: false,
        aliases: vec![9],
        owner: Some(Principal { address: None, certificate: None, token: Some("sensor".into()) }),
        durable: None,
        client: Some(Client { reference: None, suspended: true, of: None }),
    }
}

fn filter(id: u32) -> Filter {
    let constraint =
        Constraint { id: 1, types: Vec::new(), expression: "$a == 1".into(), value: Some(Value::of(&[0, 0xff])) };
    let role = Role::Maps { default: Value::of(&[1]), for_priority: true, for_lifetime: None };
    Filter { id, grammar: "EXTENDED_TCL".into(), role, next_constraint: 2, constraints: vec![constraint], owner: None }
}

/// A store from before keys had 128 bits is what it was, though new objects have other keys; and no output shows what keys are made of.
#[test]
fn what_keys_are_made_of_is_no_difference() {
    let before = empty();
    let mut now = before.clone();
    now.channels[0].objects_nonce = 1 << 100;
    now.channels[0].former = Some(Former { nonce: 77, admins: 1, proxies: 0, filters: 0 });
    assert_eq!(differences(&before, &now), Vec::<String>::new());
    let text = serde_json::to_string(&now).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), now);
}

#[test]
fn what_is_written_is_read_back_and_written_the_same() {
    let mut topology = empty();
    topology.channels[0].proxies = vec![proxy(4), proxy(9)];
    topology.channels[0].filters = vec![filter(3)];
    let root = &mut topology.naming.contexts[0].bindings;
    root.push(Binding { name: "a".into(), kind: String::new(), bound: Bound::Object("IOR:00".into()) });
    let here = Bound::Context { reference: "IOR:01".into(), here: Some(0) };
    root.push(Binding { name: "b".into(), kind: "k".into(), bound: here });
    let entry = serde_json::json!({ "name": "lab", "to": "lab.obs:2816", "channels": ["Weather"] });
    topology.links.extend(Link::of_entry(&entry));
    assert_eq!(topology.links[0].entry::<serde_json::Value>().unwrap(), entry);
    let text = topology.to_json();
    let read = Topology::from_json(&text).unwrap();
    assert_eq!(read, topology);
    assert_eq!(read.to_json(), text);
    assert_eq!(differences(&read, &topology), Vec::<String>::new());
}

#[test]
fn a_durable_consumer_is_read_back_and_a_proxy_from_before_there_were_any_is_none() {
    let durable = Some(Durable { name: "north to south".into(), output_form: 4 << 16 });
    let proxy = Proxy { durable, ..proxy(4) };
    let text = serde_json::to_string(&proxy).unwrap();
    assert_eq!(serde_json::from_str::<Proxy>(&text).unwrap(), proxy);
    let former = text.replacen(r#""durable":{"name":"north to south","output_form":262144},"#, "", 1);
    let read: Proxy = serde_json::from_str(&former).unwrap();
    assert_eq!(read, Proxy { durable: None, ..proxy });
    assert_eq!(serde_json::to_string(&read).unwrap(), former);
}

#[test]
fn what_is_no_topology_is_refused() {
    let text = empty().to_json();
    let other = text.replacen("\"version\": 1", "\"version\": 2", 1);
    assert!(matches!(Topology::from_json(&other), Err(ParseError::Version(2))));
    let unknown = text.replacen("\"next_channel\"", "\"colour\": 1, \"next_channel\"", 1);
    for bad in ["", "{}", &unknown, &text[..text.len() - 3]] {
        assert!(matches!(Topology::from_json(bad), Err(ParseError::Form(_))));
    }
}

#[test]
fn octets_are_digits() {
    let octets: Vec<u8> = (0..=255).collect();
    assert_eq!(Value::of(&octets).octets(), Some(octets));
    assert_eq!(Value("0g".into()).octets(), None);
    assert_eq!(Value("000".into()).octets(), None);
}

#[test]
fn differences_are_reported_by_name() {
    let before = empty();
    let mut now = before.clone();
    now.channels.push(Channel { id: 1, ..before.channels[0].clone() });
    let first = &mut now.channels[0];
    first.settings.full_outbox = Some(engine::FullOutbox::Discard);
    first.limits.max_suppliers = None;
    first.admins[1].selection.types = Some(vec![EventType { domain: "a".into(), name: "b".into() }]);
    first.proxies.push(proxy(4));
    now.naming.contexts[0].bindings.push(Binding {
        name: "a".into(),
        kind: String::new(),
        bound: Bound::Object("IOR:00".into()),
    });
    let mut lines = differences(&before, &now);
    lines.sort();
    let expected = [
        "channel 0, limits, max_suppliers: not set, was 9",
        "channel 0, proxy 4: is new",
        "channel 0, settings, full_outbox: \"Discard\", was not set",
        "channel 0, suppliers admin 0, types: [a/b], was []",
        "channel 1: is new",
        "naming, context 0, binding \"a\": is new",
    ];
    assert_eq!(lines, expected);
    let back = differences(&now, &before);
    assert!(back.contains(&"channel 1: is gone".to_owned()) && back.len() == expected.len());
}
