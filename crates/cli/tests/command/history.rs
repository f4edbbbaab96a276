//! What was before one came: `sub --last` and its like, `record` and `replay`.

use crate::restart::{Folder, own_address};
use crate::support::{PROGRAM, Serve, text};
use std::process::Command;
use testing::output_in_time;

fn serve(folder: &Folder) -> Serve {
    folder.serve(&own_address())
}

/// What `campanile channel` prints.
fn channel(serve: &Serve, words: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    let output = output_in_time(command.arg("channel").args(words).args(["--server", &serve.address]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn numbers(output: &str) -> Vec<u64> {
    output.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_subscriber_gets_what_was_before_it_came() {
    let folder = Folder::new("history-sub");
    let serve = serve(&folder);
    let refused = serve.run("sub", &["--last", "3", "-n", "3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("campanile channel set 0 HistoryEvents"), "{}", text(&refused.stderr));
    channel(&serve, &["set", "0", "HistoryEvents=1000"]);
    serve.print("pub", &["--count", "50", "i={n}"]);
    let got = |options: &[&str]| numbers(&serve.print("sub", &[options, &["--field", "i"]].concat()));
    assert_eq!(got(&["--last", "3", "-n", "3"]), [48, 49, 50]);
    assert_eq!(got(&["--first", "-n", "50"]), (1..=50).collect::<Vec<_>>());
    assert_eq!(got(&["--from", "20", "-n", "2"]), [20, 21]);
    assert_eq!(got(&["--since", "1h", "-n", "2"]), [1, 2]);
    assert_eq!(got(&["--since", "2020-01-01T00:00:00Z", "-n", "2"]), [1, 2]);
    assert_eq!(got(&["--last-of-each-type", "-n", "1"]), [50]);
    assert_eq!(got(&["--last-of-each", "i", "-n", "50"]), (1..=50).collect::<Vec<_>>());
    assert_eq!(got(&["--first", "--where", "$i > 48", "-n", "2"]), [49, 50]);
    // The service is another one then.
    let sub = serve.run("sub", &["--from", "51", "-n", "1", "--wait", "0.2"]);
    assert_eq!(sub.status.code(), Some(1), "nothing came");
    // What is yet to come is waited for, and nothing before is printed.
    let ahead = serve.subscribe(&["--from", "55", "-n", "2", "--field", "i"]);
    serve.print("pub", &["--count", "7", "i={n}"]);
    let ended = ahead.wait();
    assert_eq!((numbers(&ended.stdout), ended.code), (vec![5, 6], Some(0)), "{}", ended.stderr);
    for wrong in [&["--last", "3", "--from", "4"][..], &["--since", "yesterday"], &["--last", "-1"]] {
        assert_eq!(serve.run("sub", wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_client_that_asks_for_what_is_no_longer_stored_is_notified() {
    let folder = Folder::new("history-missing");
    let serve = serve(&folder);
    channel(&serve, &["set", "0", "HistoryEvents=10"]);
    serve.print("pub", &["--count", "50", "i={n}"]);
    let sub = serve.run("sub", &["--from", "5", "-n", "1", "--field", "i"]);
    assert_eq!(numbers(&text(&sub.stdout)), [41]);
    assert!(text(&sub.stderr).contains("events 5 to 40 are no longer stored"), "{}", text(&sub.stderr));
}

#[test]
fn info_shows_where_a_channels_history_begins_and_ends() {
    let folder = Folder::new("history-info");
    let serve = serve(&folder);
    let history =
        || serde_json::from_str::<serde_json::Value>(&serve.print("info", &["--json"])).unwrap()["history"].take();
    assert!(history().is_null() && !serve.print("info", &[]).contains("  history "), "nothing is stored");
    channel(&serve, &["set", "0", "HistoryEvents=10"]);
    serve.print("pub", &["--count", "1", "i={n}"]);
    // It is on disk soon after it was taken.
    let until_last_is = |number: u64| {
        let mut told = history();
        testing::wait_until(format_args!("event {number} in the history"), || {
            told = history();
            told["last"]["number"] == number
        });
        told
    };
    let one = until_last_is(1);
    assert_eq!((&one["events"], &one["first"]), (&1.into(), &one["last"]));
    serve.print("pub", &["--count", "49", "i={n}"]);
    let history = until_last_is(50);
    assert_eq!((&history["events"], &history["first"]["number"]), (&10.into(), &41.into()));
    assert!(history["octets"].as_u64().unwrap() > 50 * 16, "the file has more than is to be kept: {history}");
    let [first, last] = ["first", "last"].map(|end| history[end]["time"].as_str().unwrap().to_owned());
    assert!(one["last"]["time"].as_str().unwrap() <= first.as_str() && first <= last, "{history}");
    let shown = serve.print("info", &[]);
    assert!(shown.contains(&format!("history     10 events, 41 of {first} to 50 of {last}; ")), "{shown}");
    // A subscriber gets just these.
    assert_eq!(numbers(&serve.print("sub", &["--first", "-n", "10", "--field", "i"])), (40..=49).collect::<Vec<_>>());
}

#[test]
fn what_was_recorded_is_replayed_as_it_was() {
    let folder = Folder::new("history-replay");
    let serve = serve(&folder);
    let other = channel(&serve, &["create"]);
    let other = other.trim();
    channel(&serve, &["set", "0", "HistoryEvents=1000"]);
    serve.print(
        "pub",
        &["--type", "Weather/Wind", "--name", "mast", "speed=12.5", "raw:octets=cafe", "--header", "Priority:short=7"],
    );
    serve.print("pub", &["--type", "Weather/Rain", "mm=3"]);
    let file = format!("{}-recording", folder.path());
    serve.print("record", &[&file, "--first", "-n", "2"]);
    let refused = serve.run("record", &[&file, "--first", "-n", "2"]);
    assert!(text(&refused.stderr).contains("--append adds to it"));
    serve.print("record", &[&file, "--first", "-n", "1", "--append"]);
    let sub = serve.subscribe(&["--json", "-n", "5", "-c", other]);
    serve.print("replay", &[&file, "-c", other, "--speed", "max"]);
    serve.print("replay", &["0", "-c", other, "--speed", "1000", "--first"]);
    let told: Vec<serde_json::Value> =
        sub.wait().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, event) in told.iter().enumerate() {
        if [1, 4].contains(&at) {
            assert_eq!((&event["type"], &event["fields"]), (&"Weather/Rain".into(), &serde_json::json!({"mm": 3})));
            continue;
        }
        assert_eq!((&event["type"], &event["name"]), (&"Weather/Wind".into(), &"mast".into()));
        assert_eq!(event["fields"], serde_json::json!({"speed": 12.5, "raw": "cafe"}));
        assert_eq!(event["header"], serde_json::json!({"Priority": 7}), "and no number");
    }
    let _ = std::fs::remove_file(&file);
    // Misuse.
    let told = |options: &[&str]| {
        let output = serve.run("replay", options);
        (output.status.code(), text(&output.stderr))
    };
    let into_itself = told(&["0"]);
    assert!(into_itself.0 == Some(2) && into_itself.1.contains("into itself"), "{into_itself:?}");
    assert!(told(&[other]).1.contains("stores no history"));
    assert!(told(&["no such file"]).1.contains("no such file cannot be read"));
    assert_eq!(told(&[&file, "--speed", "0"]).0, Some(2));
    let foreign = crate::support::TempPath::file("foreign", "{\"received\":\"now\"}\n");
    assert!(told(&[foreign.path()]).1.contains("line 1 of"), "which, and what is wrong");
}
