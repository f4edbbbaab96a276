//! `campanile access`.

use std::process::{Command, Output};

use serde_json::Value as Json;
use testing::output_in_time;

use crate::support::{File, PROGRAM, text};

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
who = ["certificate:console"]
may = ["publish", "subscribe", "administer"]
[[access]]
who = ["10.1.2.3"]
may = ["publish"]
on = ["3"]
allow = false
"#;

fn access(command: &str, config: &File, arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).args(["access", command, "--config", config.path()]).args(arguments))
}

#[test]
fn who_may_what_is_told_with_the_rule_that_decides_and_by_the_status() {
    let config = File::new("access.toml", RULES);
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

#[test]
fn rules_are_shown_in_their_order_with_those_that_never_decide() {
    let config = File::new("access-ls.toml", RULES);
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
    let none = File::new("access-none.toml", "");
    assert!(text(&access("ls", &none, &[]).stdout).contains("there are no rules of access"));
    assert_eq!(access("check", &none, &["10.0.0.1", "administer", "*"]).status.code(), Some(0));
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let config = File::new("access-good.toml", RULES);
    for (arguments, said) in [
        (&["nobody", "publish", "0"][..], "WHO: \"nobody\" is nobody"),
        (&["10.0.0.1", "publish", "4294967296"], "CHANNEL: there is no channel"),
        (&["10.0.0.1", "publish", "0", "Wind"], "TYPE: \"Wind\" is no event type"),
        (&["10.0.0.1", "read", "0"], "invalid value 'read'"),
    ] {
        let output = access("check", &config, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    for (wrong, said) in [
        ("[[access]]\nwho = [\"nobody\"]\nmay = [\"publish\"]", "access rule 1: \"nobody\" is nobody"),
        ("[[access]]\nmay = [\"publish\"]", "missing field `who`"),
        ("[tokens]\nsensor = \"the token itself\"", "tokens: the token \"sensor\" is \"sha256:HASH\" or \"file:PATH\""),
        ("[tokens]\nsensor = \"sha256:12\"", "64 hexadecimal digits"),
        ("[outgoing]\nallow = [\"host\"]", "outgoing.allow: \"host\" is no address"),
    ] {
        let config = File::new("access-wrong.toml", wrong);
        let output = access("ls", &config, &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let told = text(&output.stderr);
        assert!(told.contains(said) && !told.contains("the token itself"), "{told}");
    }
}
