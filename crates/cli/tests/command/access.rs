//! `campanile access`.

use std::process::{Command, Output};

use serde_json::Value as Json;
use testing::output_in_time;
use testing::rulebook::{CHANNELS, Principal, RIGHTS, bridge, clients, rulebooks, surroundings};

use crate::support::{PROGRAM, TempPath, text};

const RULES: &str = r#"
[[access]]
name = "no secrets"
who = ["*"]
may = ["publish", "subscribe"]
types = ["*/Secret*"]
allow = false
[[access]]
who = ["10.1.0.0/16", "token:sensor"]
may = ["publish"]
on = ["Plant", "3"]
[[access]]
who = ["certificate:CN=console"]
may = ["publish", "subscribe", "administer"]
[[access]]
who = ["10.1.2.3"]
may = ["publish"]
on = ["3"]
allow = false
"#;

fn access(command: &str, config: &TempPath, arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).args(["access", command, "--config", config.path()]).args(arguments))
}

#[test]
fn rights_are_shown_with_the_rule_that_decides_and_by_the_status() {
    let config = TempPath::file("access.toml", RULES);
    for (arguments, status, said) in [
        (
            &["10.1.2.3", "publish", "Plant", "A/B"][..],
            0,
            "10.1.2.3, publish on channel \"Plant\": allowed by access rule 2: 10.1.",
        ),
        (
            &["10.1.2.3", "publish", "3", "A/Secret"],
            1,
            "denied by access rule 1 \"no secrets\": * may not publish, subscribe",
        ),
        // A rule on some event types says nothing of the others: of these none speaks.
        (
            &["10.2.2.3", "publish", "3"],
            1,
            "denied for all event types; in this order decide:\n  */Secret*: denied by access rule 1 \"no secrets\": * may \
             not publish, subscribe on *, event types */Secret*\n  all others: denied by no rule: what none speaks of is denied",
        ),
        (&["10.2.2.3", "publish", "3", "A/B"], 1, "publish on channel 3: denied by no rule"),
        (&["10.2.2.3", "publish", "3", "A/Secret"], 1, "publish on channel 3: denied by access rule 1"),
        (&["10.2.2.3,token:sensor", "publish", "7", "A/B", "--name", "Plant"], 0, "allowed by access rule 2"),
        (
            &["certificate:console", "administer", "*"],
            0,
            "certificate:CN=console, administer on the service: allowed by access rule 3",
        ),
        (
            &["certificate:console", "subscribe", "0"],
            0,
            "allowed for some event types; in this order decide:\n  */Secret*: denied by access rule 1",
        ),
        (&["anonymous", "administer", "*"], 1, "denied by no rule"),
    ] {
        let output = access("check", &config, arguments);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {told}");
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
    let output = access("check", &config, &["10.1.2.3", "publish", "3", "A/B", "--json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["allowed"], &told["rule"]), (&true.into(), &2.into()));
    let output = access("check", &config, &["10.1.2.3", "publish", "3", "--json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["allowed"], &told["some_event_types"], &told["rule"]), (&true.into(), &true.into(), &Json::Null));
    let parts = serde_json::json!([
        {"types": ["*/Secret*"], "allowed": false, "rule": 1},
        {"types": null, "allowed": true, "rule": 2},
    ]);
    assert_eq!(told["parts"], parts);
}

/// The same rules, principals and channels as all protocols are tried with, and the same judge.
#[test]
fn what_is_shown_of_each_client_is_what_the_rules_say() {
    let shown = |who: &Principal| {
        let address = who.address.map(|address| address.to_string());
        let named = |kind: &str, name: &Option<String>| name.as_ref().map(|name| format!("{kind}:{name}"));
        // A certificate comes last. Of one that is written here only the subject is known.
        let subject = who.certificate.as_ref().map(|(subject, _)| subject.clone());
        let all = [address, named("token", &who.token), named("door", &who.protocol), named("certificate", &subject)];
        all.into_iter().flatten().collect::<Vec<_>>().join(",")
    };
    let mut allowed = 0;
    for (title, book) in rulebooks() {
        let config = TempPath::file("access-matrix.toml", &(book.text() + &surroundings()));
        let clients = clients().into_iter().chain([("the bridge", bridge())]);
        for (client, who) in clients {
            let subject = who.certificate.map(|(subject, _)| (subject, Vec::new()));
            let who = Principal { certificate: subject, ..who };
            for ((channel, name), right) in (0..).zip(CHANNELS).flat_map(|on| RIGHTS.map(|right| (on, right))) {
                let number = channel.to_string();
                let mut arguments = vec![shown(&who), right.to_owned(), number, "--json".to_owned()];
                arguments.extend(name.iter().flat_map(|name| ["--name".to_owned(), (*name).to_owned()]));
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = access("check", &config, &arguments);
                let told: Json = serde_json::from_slice(&output.stdout).unwrap();
                let parts = book.parts(&who, right, (Some(channel), name));
                let cell = format!("{title}: {client} {right} {channel}: {told}\n{}", book.text());
                let may = parts.iter().any(|(_, allowed)| *allowed);
                assert_eq!(output.status.code(), Some(i32::from(!may)), "{cell}");
                assert_eq!(told["allowed"], may, "{cell}");
                let numbered = |rule: usize| if rule == 0 { Json::Null } else { rule.into() };
                if let [(rule, _)] = parts[..] {
                    assert_eq!(told["rule"], numbered(rule), "{cell}");
                } else {
                    let told = told["parts"].as_array().unwrap().iter();
                    let told: Vec<_> = told.map(|part| (part["rule"].clone(), part["allowed"].clone())).collect();
                    let parts = parts.iter().map(|(rule, allowed)| (numbered(*rule), Json::from(*allowed)));
                    assert_eq!(told, parts.collect::<Vec<_>>(), "{cell}");
                }
                allowed += usize::from(may);
            }
        }
    }
    assert!((50..400).contains(&allowed), "{allowed} of 450");
}

#[test]
fn rules_are_shown_in_their_order_with_those_that_never_decide() {
    let config = TempPath::file("access-ls.toml", RULES);
    let output = access("ls", &config, &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[4], "what none speaks of is denied");
    assert!(
        lines[0].starts_with("access rule 1 \"no secrets\": * may not publish, subscribe on *, event types */Secret*")
    );
    assert!(lines[5].starts_with("warning: access rule 4 (10.1.2.3 may not publish on 3) contradicts"), "{said}");
    assert!(lines[6].contains("token \"sensor\""), "{said}");
    let told: Json = serde_json::from_slice(&access("ls", &config, &["--json"]).stdout).unwrap();
    assert_eq!((told["rules"].as_array().unwrap().len(), told["remarks"].as_array().unwrap().len()), (4, 2));
    let none = TempPath::file("access-none.toml", "");
    assert!(text(&access("ls", &none, &[]).stdout).contains("there are no rules of access"));
    assert_eq!(access("check", &none, &["10.0.0.1", "administer", "*"]).status.code(), Some(0));
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let config = TempPath::file("access-good.toml", RULES);
    for (arguments, said) in [
        (&["nobody", "publish", "0"][..], "WHO: \"nobody\" names no client"),
        (&["10.0.0.1", "publish", "4294967296"], "CHANNEL: there is no channel"),
        (&["10.0.0.1", "publish", "0", "Wind"], "TYPE: \"Wind\" is no event type"),
        (&["10.0.0.1", "read", "0"], "invalid value 'read'"),
    ] {
        let output = access("check", &config, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    for (wrong, said) in [
        ("[[access]]\nwho = [\"nobody\"]\nmay = [\"publish\"]", "access rule 1: \"nobody\" names no client"),
        ("[[access]]\nmay = [\"publish\"]", "missing field `who`"),
        ("[tokens]\nsensor = \"the token itself\"", "tokens: the token \"sensor\" is \"sha256:HASH\" or \"file:PATH\""),
        ("[tokens]\nsensor = \"sha256:12\"", "64 hexadecimal digits"),
        ("[outgoing]\nallow = [\"host\"]", "outgoing.allow: \"host\" is no address"),
    ] {
        let config = TempPath::file("access-wrong.toml", wrong);
        let output = access("ls", &config, &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let told = text(&output.stderr);
        assert!(told.contains(said) && !told.contains("the token itself"), "{told}");
    }
}
