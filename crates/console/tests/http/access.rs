//! Rules of access hold for clients over HTTP as for all others.

use std::collections::BTreeMap;
use std::sync::Mutex;

use client::notify::StructuredEvent;
use client::{OrbOptions, OrbTls, SimpleSupplier, SupplierOptions};
use serde_json::json;
use service::{AccessRule, Config, Counter, DeclaredChannel, Http};
use testing::certificates::{Authority, Certified};
use testing::wait_until;

use crate::support::{NOBODY, Rig, TOKEN, Who, numbered, start_by, start_with};

const ALL: [&str; 3] = ["publish", "subscribe", "administer"];

pub(crate) fn rule(who: &[&str], may: &[&str], on: &[&str], types: &[&str], allow: bool) -> AccessRule {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    AccessRule { name: None, who: list(who), may: list(may), on: list(on), types: list(types), allow }
}

pub(crate) const OPERATOR: Who<'static> = Who { token: "the secret of the operator", ..NOBODY };
pub(crate) const READER: Who<'static> = Who { token: "the secret of the reader", ..NOBODY };
pub(crate) const NEIGHBOUR: Who<'static> = Who { from: [127, 0, 0, 2], ..NOBODY };
pub(crate) const OWN: Who<'static> = Who { token: TOKEN, ..NOBODY };

/// Channels 0, 1 and 2. Clients of CORBA may publish and connect consumers from 127.0.0.9, as this test's own do.
pub(crate) fn config() -> Config {
    let channel = |name: &str| DeclaredChannel {
        name: name.into(),
        properties: BTreeMap::new(),
        lane: Vec::new(),
        timers: Vec::new(),
    };
    let token = |name: &str| {
        let digest = access::digest_of(format!("the secret of the {name}").as_bytes());
        (name.to_owned(), format!("sha256:{}", digest.map(|octet| format!("{octet:02x}")).concat()))
    };
    let mut rules = vec![
        rule(&["token:operator"], &ALL, &["*"], &[], true),
        rule(&["token:reader"], &["subscribe"], &["Plant"], &["Test/*"], true),
        rule(&["127.0.0.2"], &["administer"], &["Radar"], &[], true),
        rule(&["token:http"], &["administer"], &["0"], &[], true),
        rule(&["127.0.0.1"], &["publish"], &["*"], &[], true),
    ];
    rules[1].name = Some("readers".into());
    Config {
        access: rules,
        channels: vec![channel("Plant"), channel("Radar")],
        tokens: ["operator", "reader"].map(token).into(),
        ..Config::default()
    }
}

#[test]
fn each_command_needs_the_right_to_administer_the_channel() {
    let rig = start_by(config());
    let matrix = [(OPERATOR, "+++"), (OWN, "+--"), (READER, "---"), (NEIGHBOUR, "--+"), (NOBODY, "---")];
    for (who, may) in matrix {
        for (channel, may) in may.bytes().enumerate() {
            let set = json!({ "channel": channel, "properties": { "MaxQueueLength": 1_000 } }).to_string();
            let answer = rig.post_as(who, "/api/v1/qos", &set);
            assert_eq!(answer.status, if may == b'+' { 200 } else { 403 }, "{who:?} on {channel}: {answer:?}");
            // Of a proxy that is not there only those with the right learn that.
            let which = json!({ "channel": channel, "proxy": 77 }).to_string();
            for path in ["disconnect", "suspend", "resume"] {
                let answer = rig.post_as(who, &format!("/api/v1/{path}"), &which);
                assert_eq!(answer.status, if may == b'+' { 409 } else { 403 }, "{who:?}: {path} {channel}: {answer:?}");
            }
        }
        // That concerns all channels.
        let answer = rig.post_as(who, "/api/v1/disconnect-idle", r#"{"idle_ms":600000}"#);
        let may = who.token == OPERATOR.token;
        assert_eq!(answer.status, if may { 200 } else { 403 }, "{who:?}: {answer:?}");
        assert_eq!(rig.get_as(who, "/api/v1/topology").status, if may { 200 } else { 403 }, "{who:?}");
        for path in ["log", "protocols"] {
            assert_eq!(
                rig.get_as(who, &format!("/api/v1/{path}")).status,
                if may { 200 } else { 403 },
                "{who:?}: {path}"
            );
        }
    }
    // Five principals on three channels by four commands, of which 20 cells are allowed, and two that concern all channels.
    assert_eq!(rig.count(Counter::DeniedAdminister), 5 * 3 * 4 - 20 + 4 + 4);
}

/// A principal that administered one channel could have events put into any other: the service puts dead letters in itself.
#[test]
fn a_channel_gets_another_ones_dead_letters_only_by_an_administrator_of_both() {
    let rig = start_by(config());
    let set = |who, to: i64| {
        let body = json!({ "channel": 2, "properties": { "DeadLetterChannel": to } }).to_string();
        rig.post_as(who, "/api/v1/qos", &body).status
    };
    assert_eq!([set(NEIGHBOUR, 0), set(NEIGHBOUR, 1), set(NEIGHBOUR, 99), set(NEIGHBOUR, -1)], [403, 403, 403, 200]);
    assert_eq!([set(OPERATOR, 1), set(OPERATOR, 99)], [200, 409]);
}

#[test]
fn a_denial_names_the_rule() {
    let rig = start_by(config());
    let answer = rig.post_as(READER, "/api/v1/disconnect", r#"{"channel":1,"proxy":0}"#);
    let why = "127.0.0.1, token:reader is not permitted disconnect (administer) on channel 1 \"Plant\": no access rule allows it";
    assert_eq!((answer.status, answer.json()), (403, json!({ "error": why, "rule": "no rule" })));
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let mut config = config();
    let forbids =
        AccessRule { name: Some("hands off".into()), ..rule(&["token:*"], &["administer"], &["1"], &[], false) };
    config.access.insert(0, forbids);
    let rig = start_by(config);
    let answer = rig.post_as(OPERATOR, "/api/v1/disconnect", r#"{"channel":1,"proxy":0}"#);
    assert_eq!(answer.json()["rule"], "access rule 1 \"hands off\"", "{answer:?}");
}

#[test]
fn a_client_that_looks_at_events_sees_those_that_it_may_have() {
    let rig = start_by(config());
    let (mut all, mut some) =
        (rig.watch_as(OPERATOR, "channel=1").unwrap(), rig.watch_as(READER, "channel=1").unwrap());
    for (who, channel) in [(READER, 0), (READER, 2), (NEIGHBOUR, 2), (NOBODY, 1), (OWN, 0)] {
        let answer = rig.watch_as(who, &format!("channel={channel}")).err().unwrap();
        assert_eq!(answer.status, 403, "{who:?} on {channel}: {answer:?}");
        assert_eq!(answer.json()["rule"], "no rule");
        assert_eq!(rig.get_as(who, &format!("/api/v1/history?channel={channel}")).status, 403, "{who:?} on {channel}");
    }
    assert_eq!(rig.count(Counter::DeniedSubscribe), 2 * 5);
    let supplier = rig.supplier(Some(1));
    supplier.publish(&StructuredEvent::new("Secret", "Plan", "")).unwrap();
    supplier.publish(&numbered(7)).unwrap();
    let types = |(name, event): (String, serde_json::Value)| (name, event["type"].clone(), event["fields"].clone());
    let number = ("event".to_owned(), json!("Test/Numbered"), json!({ "number": 7 }));
    assert_eq!(types(some.next().unwrap()), number);
    assert_eq!(types(all.next().unwrap()).1, json!("Secret/Plan"));
    assert_eq!(types(all.next().unwrap()), number);
}

#[test]
fn events_are_looked_at_where_nothing_is_called() {
    // No calls are made to loopback addresses, which is where such a consumer was before.
    let outgoing = service::OutgoingConfig { allow: Some(vec!["192.0.2.1".into()]) };
    let rig = start_by(Config { outgoing, ..Config::default() });
    let mut watched = rig.watch_as(NOBODY, "constraint=%24number%20%3E%201").unwrap();
    let name = rig.get_json("/api/v1/consumers")["entries"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.contains("Onlooker over HTTP at 127.0.0.1:"), "{name}");
    let supplier = rig.supplier(None);
    (0..4).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    let (_, event) = watched.next().unwrap();
    assert_eq!((&event["fields"]["number"], &event["left_out"]), (&json!(2), &json!(0)));
    assert!(event["at_ms"].as_u64().unwrap() > 0 && event["channel"] == 0 && event["body"].is_null(), "{event}");
    // Disconnecting it ends the stream, and the stream says so.
    let proxy = rig.get_json("/api/v1/consumers")["entries"][0]["proxy"].clone();
    let which = json!({ "channel": 0, "proxy": proxy }).to_string();
    assert_eq!(rig.post("/api/v1/disconnect", &which).status, 200);
    assert_eq!(watched.next().unwrap().1["fields"]["number"], 3);
    let (name, told) = watched.next().unwrap();
    assert_eq!(name, "ended");
    assert!(told["error"].as_str().unwrap().contains("the subscription has ended"), "{told}");
    assert!(watched.next().is_none());
}

/// The watching consumer was a client in the clear before, which no client may be there.
#[test]
fn events_are_looked_at_where_tls_is_required() {
    let authority = Authority::new("console-required");
    let Certified { certificate, key, .. } = authority.certify("service");
    let tls = service::Tls {
        listen: Some("127.0.0.1:0".into()),
        required: true,
        certificate: Some(certificate),
        key: Some(key),
        client_ca: Some(authority.file()),
        ca: Some(authority.file()),
        ..service::Tls::default()
    };
    let rig = start_by(Config { tls, ..Config::default() });
    let mut watched = rig.watch_as(NOBODY, "channel=0").unwrap();
    rig.await_count(Counter::JsonConnectionsOpen, 1);
    let Certified { certificate, key, .. } = authority.certify("supplier");
    let tls = Some(OrbTls::trusting(authority.file()).with_identity(certificate, key));
    let options = SupplierOptions { orb: OrbOptions { tls, ..OrbOptions::default() }, ..SupplierOptions::default() };
    let url = rig.service.corbaloc("NotificationService");
    SimpleSupplier::connect_with(&url, None, options).unwrap().publish(&numbered(7)).unwrap();
    assert_eq!(watched.next().unwrap().1["fields"]["number"], 7);
}

#[test]
fn an_onlooker_goes_with_its_browser_and_holds_no_suppliers_meanwhile() {
    let rig = start_with(Http::default());
    let watched = rig.watch_as(NOBODY, "channel=0").unwrap();
    rig.await_count(Counter::JsonConnectionsOpen, 1);
    // It reads nothing: what is beyond its socket and its outbox is dropped.
    let supplier = rig.supplier(None);
    let mut event = numbered(0);
    event.filterable_data.push(client::notify::Property::new("much", "x".repeat(10_000)));
    wait_until("events to be left out", || {
        supplier.publish(&event).unwrap();
        rig.count(Counter::Delivered) >= 2_000
    });
    assert_eq!(rig.count(Counter::SuppliersBlocked), 0);
    drop(watched);
    rig.await_count(Counter::JsonConnectionsOpen, 0);
    wait_until("no consumer to be left", || rig.get_json("/api/v1/consumers")["total"] == 0);
    let answer = rig.watch_as(NOBODY, "channel=77").err().unwrap();
    assert_eq!(answer.status, 409, "{answer:?}");
    let answer = rig.watch_as(NOBODY, "constraint=%24a%20%3C").err().unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[test]
fn a_client_that_shows_an_unknown_token_is_refused_where_there_are_rules() {
    let rig = start_by(config());
    let wrong = Who { token: "no token of anybody", ..NOBODY };
    for path in ["/metrics", "/api/v1/service", "/api/v1/events"] {
        let answer = rig.get_as(wrong, path);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
    }
    assert_eq!(rig.post_as(wrong, "/api/v1/disconnect", r#"{"channel":0,"proxy":0}"#).status, 401);
    assert_eq!(rig.count(Counter::DeniedTokens), 4);
    for path in ["/healthz", "/"] {
        assert_eq!(rig.get_as(wrong, path).status, 200);
    }
    // Where there are none, it is a token like none.
    let rig = start_with(Http::default());
    assert_eq!(rig.get_as(wrong, "/metrics").status, 200);
}

#[test]
fn what_is_counted_is_shown_on_this_host_and_what_is_configured_to_clients_with_a_right() {
    let rig = start_by(config());
    let paths = [
        "service",
        "counters",
        "lanes",
        "channels",
        "consumers",
        "suppliers",
        "types",
        "figures",
        "search?find=x",
        "drops",
    ];
    for who in [NOBODY, READER, NEIGHBOUR, OPERATOR] {
        assert_eq!(rig.get_as(who, "/metrics").status, 200);
        for path in paths {
            assert_eq!(rig.get_as(who, &format!("/api/v1/{path}")).status, 200, "{who:?}: {path}");
        }
    }
    let configured = |who| [0, 1, 2].map(|channel| rig.get_as(who, &format!("/api/v1/channels/{channel}")).status);
    assert_eq!(configured(READER), [200, 200, 200], "from 127.0.0.1 it may publish everywhere");
    assert_eq!(configured(NEIGHBOUR), [403, 403, 200]);
    assert_eq!(configured(OPERATOR), [200, 200, 200]);
    let told = rig.get_json("/api/v1/service");
    assert_eq!((&told["has_rules"], &told["can_change"]), (&json!(true), &json!(true)));
}

#[test]
fn from_elsewhere_only_clients_with_a_right_somewhere_get_answers() {
    let http = Http { listen: Some("0.0.0.0:0".into()), hosts: vec!["127.0.0.1".into()], ..Http::default() };
    let mut config = config();
    config.access.retain(|rule| !rule.who.contains(&"127.0.0.1".to_owned()));
    let rig = start_by(Config { http, ..config });
    for (who, status) in [(NOBODY, 401), (NEIGHBOUR, 200), (READER, 200), (OPERATOR, 200), (OWN, 200)] {
        for path in ["/metrics", "/api/v1/channels"] {
            assert_eq!(rig.get_as(who, path).status, status, "{who:?}: {path}");
        }
        // Which names there are is shown to no others either.
        for (path, rest) in [("suspend", r#""proxy":0"#), ("publish", r#""type":"A/B""#)] {
            let named = |name: &str| {
                let body = format!(r#"{{"channel":"{name}",{rest}}}"#);
                rig.post_as(who, &format!("/api/v1/{path}"), &body)
            };
            for (name, otherwise) in [("Plant", &[200, 403, 409][..]), ("Plnt", &[404])] {
                let found = named(name).status;
                let is_right = if status == 401 { found == 401 } else { otherwise.contains(&found) };
                assert!(is_right, "{who:?}: {path}: {name}: {found}");
            }
        }
        assert_eq!(rig.get_as(who, "/readyz").status, 200);
    }
}

#[test]
fn rules_that_are_replaced_hold_for_the_next_request_and_for_streams_under_way() {
    let rig = start_by(config());
    let mut watched = rig.watch_as(OPERATOR, "channel=0").unwrap();
    let set = r#"{"channel":0,"properties":{"MaxQueueLength":1000}}"#;
    assert_eq!(rig.post_as(NEIGHBOUR, "/api/v1/qos", set).status, 403);
    let mut changed = rig.config.clone();
    changed.access = vec![
        rule(&["*"], &["subscribe"], &["*"], &["Secret/*"], false),
        rule(&["token:operator"], &["subscribe"], &["*"], &[], true),
        rule(&["127.0.0.2"], &["administer"], &["0"], &[], true),
        rule(&["127.0.0.1"], &["publish"], &["*"], &[], true),
    ];
    rig.service.reload_access(&changed).unwrap();
    assert_eq!(rig.post_as(NEIGHBOUR, "/api/v1/qos", set).status, 200);
    assert_eq!(rig.post_as(OPERATOR, "/api/v1/qos", set).status, 403);
    let supplier = rig.supplier(None);
    supplier.publish(&StructuredEvent::new("Secret", "Plan", "")).unwrap();
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(watched.next().unwrap().1["type"], "Test/Numbered");
    // With none, HTTP's own token is what counts again.
    rig.service.reload_access(&Config { access: Vec::new(), ..changed }).unwrap();
    assert_eq!(rig.post_as(NEIGHBOUR, "/api/v1/qos", set).status, 401);
    assert_eq!(rig.post_as(OWN, "/api/v1/qos", set).status, 200);
}

#[test]
fn the_token_of_http_is_read_again() {
    let rig: Rig = start_with(Http::default());
    let new = Who { token: "another token than the one before", ..NOBODY };
    let set = r#"{"channel":0,"properties":{"MaxQueueLength":1000}}"#;
    assert_eq!((rig.post_as(OWN, "/api/v1/qos", set).status, rig.post_as(new, "/api/v1/qos", set).status), (200, 401));
    std::fs::write(&rig.token, new.token.replace(' ', "-")).unwrap();
    assert!(rig.console.reload(&rig.config).unwrap() && !rig.console.reload(&rig.config).unwrap());
    let token = new.token.replace(' ', "-");
    let new = Who { token: &token, ..NOBODY };
    assert_eq!((rig.post_as(OWN, "/api/v1/qos", set).status, rig.post_as(new, "/api/v1/qos", set).status), (401, 200));
    // One that is none changes nothing.
    std::fs::write(&rig.token, "short").unwrap();
    assert!(rig.console.reload(&rig.config).is_err());
    assert_eq!(rig.post_as(new, "/api/v1/qos", set).status, 200);
}

/// Lines that name an address of these tests alone: all services of all of them log to the same place.
struct Logger(Mutex<Vec<String>>);

static LOGGED: Logger = Logger(Mutex::new(Vec::new()));

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.contains("127.0.9.") {
            self.0.lock().unwrap().push(line);
        }
    }

    fn flush(&self) {}
}

/// Clients that tried to change something without the token left no trace but a count.
#[test]
fn what_is_refused_for_want_of_a_token_is_audited_and_looks_are_not() {
    log::set_logger(&LOGGED).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let lines = || LOGGED.0.lock().unwrap().clone();
    let (open, ruled) = (start_with(Http::default()), start_by(config()));
    let nobody = Who { from: [127, 0, 9, 1], ..NOBODY };
    let guessing = Who { from: [127, 0, 9, 2], token: "no token of anybody", ..NOBODY };
    let which = r#"{"channel":0,"proxy":0}"#;
    assert_eq!(ruled.get_as(guessing, "/api/v1/topology").status, 401);
    assert_eq!(open.post_as(nobody, "/api/v1/disconnect", which).status, 401);
    assert_eq!(ruled.post_as(guessing, "/api/v1/suspend", which).status, 401);
    wait_until("both lines", || lines().len() >= 2);
    let mut told = lines();
    told.sort();
    let expected = [
        "audit: 127.0.9.1 over HTTP: disconnect: denied, it has not shown the token",
        "audit: 127.0.9.2 over HTTP: suspend: denied, the token is unknown",
    ];
    assert_eq!(told, expected);
    // However often it is tried, there are five lines in a second, and a count of the others.
    wait_until("lines to be left out", || {
        assert_eq!(open.post_as(nobody, "/api/v1/disconnect", which).status, 401);
        open.count(Counter::AuditLeftOut) > 0
    });
}
