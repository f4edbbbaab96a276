//! `campanile filter`, `sub --where` and `sub --field`.

use crate::support::{PROGRAM, Serve, text};
use serde_json::Value as Json;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A command with something on its standard input.
fn fed(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _leash = testing::Leash::new(&child, format_args!("the end of {command:?}"));
    // The command may have ended already, having refused its arguments.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn constraint_is_explained() {
    let output = fed(&["filter", "check", "celsius > 30 and site == 'north'"], "");
    assert_eq!(output.status.code(), Some(0));
    let explained = text(&output.stdout);
    assert!(explained.contains("├─ celsius > 30\n└─ site == 'north'\n"), "{explained}");
    assert!(explained.ends_with("reads $celsius, $site\n"), "{explained}");
    let output = fed(&["filter", "check", "--json", "-1 < $x"], "");
    let explained: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&explained["valid"], &explained["reads"][0]), (&true.into(), &"$x".into()));
}

#[test]
fn what_is_no_constraint_is_shown_with_its_place() {
    let output = fed(&["filter", "check", "celsius >> 30"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let error = text(&output.stderr);
    assert!(error.starts_with("campanile: not a constraint: column 10: "), "{error}");
    assert!(error.ends_with("\n  celsius >> 30\n           ^\n"), "{error}");
    let output = fed(&["filter", "check", "--json", "celsius >> 30"], "");
    assert_eq!(output.status.code(), Some(1));
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["valid"], &told["column"]), (&false.into(), &10.into()));
}

#[test]
fn constraint_is_tried_on_events() {
    let events = "{\"fields\":{\"celsius\":31}}\n\n{\"fields\":{\"celsius\":3}}\n{\"domain\":\"A\"}\n";
    let output = fed(&["filter", "test", "$celsius > 30"], events);
    assert_eq!(output.status.code(), Some(0));
    let expected = "match: $celsius = 31\nno match: $celsius = 3\n\
                    no match: column 1: the event has no such field: $celsius is not there\n";
    assert_eq!(text(&output.stdout), expected);
    let output = fed(&["filter", "test", "$celsius > 40"], events);
    assert_eq!(output.status.code(), Some(1));
    for (constraint, input, reason) in
        [("$celsius >", events, "not a constraint: column "), ("TRUE", "{}\nnonsense\n", "line 2: not JSON")]
    {
        let output = fed(&["filter", "test", constraint], input);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    }
}

#[test]
fn events_printed_by_sub_can_be_tried() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "1"]);
    serve.print("pub", &["--type", "A/B", "--body", "{\"x\":7}", "celsius=31", "tags=[\"a\",\"b\"]"]);
    let event = sub.wait().stdout;
    for constraint in ["celsius == 31", "'b' in tags", "$.remainder_of_body.x == 7", "type_name == 'B'", ""] {
        let output = fed(&["filter", "test", constraint], &event);
        assert_eq!(output.status.code(), Some(0), "{constraint}: {}", text(&output.stdout));
    }
}

#[test]
fn one_field_is_printed_of_the_events_that_have_it() {
    let serve = Serve::start();
    let plain = serve.subscribe(&["--field", "site", "-n", "2"]);
    let json = serve.subscribe(&["--field", "$.filterable_data(tags)[1]", "--json", "-n", "1"]);
    let any = serve.subscribe(&["--any", "--field", "place.x", "-n", "1"]);
    for fields in [&["site=north", "tags=[\"a\",\"b\"]"][..], &["celsius=3"], &["site=south"]] {
        serve.print("pub", &[&["--type", "A/B"], fields].concat());
    }
    serve.print("pub", &["--any", "place={\"x\":4}", "y=1"]);
    assert_eq!(plain.wait().stdout, "north\nsouth\n");
    assert_eq!(json.wait().stdout, "\"b\"\n");
    assert_eq!(any.wait().stdout, "4\n");
}

#[test]
fn service_applies_the_condition_of_a_subscription() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--where", "celsius > 30 and site == 'north'", "--field", "n", "-n", "2"]);
    for (celsius, site, n) in [("31", "north", "1"), ("3", "north", "2"), ("31.5", "south", "3")] {
        serve.print("pub", &[&format!("celsius={celsius}"), &format!("site={site}"), &format!("n={n}")]);
    }
    let info: Json = serde_json::from_str(&serve.print("info", &["--json"])).unwrap();
    let filter = &info["consumer_admins"][0]["proxies"][0]["filters"][0];
    assert_eq!(filter["constraints"][0]["constraint"], "celsius > 30 and site == 'north'");
    serve.print("pub", &["celsius=32", "site=north", "n=4"]);
    assert_eq!(sub.wait().stdout, "1\n4\n");

    let refused = serve.run("sub", &["--where", "celsius >> 30"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(error.starts_with("campanile: --where: not a constraint: column 10: "), "{error}");
    assert!(error.ends_with("\n  celsius >> 30\n           ^\n"), "{error}");
}
