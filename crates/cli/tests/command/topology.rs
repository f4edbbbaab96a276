//! `campanile topology` and `campanile channel`: what is configured, made, kept, compared and made again.

use crate::restart::Folder;
use crate::support::{PROGRAM, Serve, TempPath, text};
use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testing::output_in_time;

fn run(serve: &Serve, words: [&str; 2], more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(words).args(["--server", &serve.address]).args(more).stdin(Stdio::null());
    output_in_time(&mut command)
}

/// What it prints when it succeeds.
fn print(serve: &Serve, words: [&str; 2], more: &[&str]) -> String {
    let output = run(serve, words, more);
    assert!(output.status.success(), "{words:?} {more:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn differences(serve: &Serve, before: &Path, now: Option<&Path>) -> (Vec<String>, Option<i32>) {
    let files = [Some(before), now].into_iter().flatten().map(|file| file.to_str().unwrap());
    let output = run(serve, ["topology", "diff"], &files.collect::<Vec<_>>());
    assert_eq!(text(&output.stderr), "");
    (text(&output.stdout).lines().map(str::to_owned).collect(), output.status.code())
}

fn made(serve: &Serve, properties: &[&str]) -> String {
    print(serve, ["channel", "create"], properties).trim().to_owned()
}

/// A property of channel 1, as `info` shows it.
fn shown(serve: &Serve, property: &str) -> String {
    let info = serve.print("info", &["1"]);
    let line = info.lines().find_map(|line| line.trim().strip_prefix(property)).unwrap_or_else(|| panic!("{info}"));
    line.trim().trim_matches('"').to_owned()
}

#[test]
fn channels_are_made_set_and_destroyed() {
    let serve = Serve::start();
    let channel = made(&serve, &["FullOutbox=Discard", "MaxEventsPerConsumer=7", "Timeout=2s", "MaxConsumers=3"]);
    assert_eq!(channel, "1");
    for (name, value) in
        [("FullOutbox", "Discard"), ("MaxEventsPerConsumer", "7"), ("MaxConsumers", "3"), ("Timeout", "2 s")]
    {
        assert_eq!(shown(&serve, name), value);
    }
    assert_eq!(print(&serve, ["channel", "set"], &["1", "MaxEventsPerConsumer=8"]), "");
    assert_eq!(shown(&serve, "MaxEventsPerConsumer"), "8");
    // What is wrong is said, and nothing is made.
    let wrong = run(&serve, ["channel", "create"], &["FullOutbox=Never"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("FullOutbox"), "{}", text(&wrong.stderr));
    let wrong = run(&serve, ["channel", "set"], &["1", "MaxEventsPerConsumer=many"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("a whole number"), "{}", text(&wrong.stderr));
    assert_eq!(run(&serve, ["channel", "rm"], &["1"]).status.code(), Some(2), "there is no terminal to ask on");
    assert_eq!(print(&serve, ["channel", "rm"], &["1", "--yes"]), "destroyed channel 1\n");
    assert_eq!(run(&serve, ["channel", "rm"], &["1", "--yes"]).status.code(), Some(1));
    let listed: Json = serde_json::from_str(&serve.print("ls", &["--json"])).unwrap();
    assert_eq!(listed["channels"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_configured_is_kept_compared_and_made_again() {
    let (serve, kept) = (Serve::start(), TempPath::new("kept.json"));
    let channel = made(&serve, &["FullOutbox=Reject"]);
    assert_eq!(print(&serve, ["topology", "export"], &[kept.path()]), "");
    assert_eq!(differences(&serve, &kept, None), (Vec::new(), Some(0)));
    print(&serve, ["channel", "set"], &[&channel, "FullOutbox=Hold"]);
    let consumer = serve.subscribe(&["-c", &channel, "-n", "1", "--type", "A/B"]);
    let (lines, status) = differences(&serve, &kept, None);
    assert_eq!(status, Some(1));
    let has = |wanted: &str| lines.iter().any(|line| line == wanted);
    assert!(has("channel 1, settings, full_outbox: \"Hold\", was \"Reject\""), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("channel 1, proxy ") && line.ends_with(": is new")), "{lines:?}");
    drop(consumer);

    // Another service has the same then, if it is unused.
    let other = Serve::start();
    assert_eq!(print(&other, ["topology", "apply"], &[kept.path()]), "");
    assert_eq!(differences(&other, &kept, None), (Vec::new(), Some(0)));
    assert!(other.print("info", &["1"]).contains("Reject"));
    let again = run(&other, ["topology", "apply"], &[kept.path()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("has been used"), "{}", text(&again.stderr));
    let wrong = run(&other, ["topology", "apply"], &["/nowhere.json"]);
    assert_eq!(wrong.status.code(), Some(2));

    // So has one that begins with it.
    let third = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--topology", kept.path()]);
    assert_eq!(differences(&third, &kept, None), (Vec::new(), Some(0)));
}

/// A supervisor started the service again and again, though no start could go better than the one before.
#[test]
fn what_is_configured_wrongly_ends_the_service_with_status_2() {
    let folder = Folder::made("wrong");
    let file = |name: &str, text: &str| {
        let path = folder.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let channel = "[[channels]]\nname = \"Plant\"\nproperties = { Colour = \"red\" }\n";
    for (option, path, what) in [
        ("--config", file("key.toml", "nonsense = 1\n"), "nonsense"),
        ("--config", file("channel.toml", channel), "no property Colour"),
        ("--config", file("cpus.toml", "[lanes]\ncpus = [1023]\n"), "1023"),
        ("--topology", file("topology.json", "{"), "topology.json"),
        ("--topology", "/nowhere.json".to_owned(), "/nowhere.json"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data", "none", option, &path]);
        let output = output_in_time(&mut command);
        assert!(text(&output.stderr).contains(what), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{what}");
    }
}
