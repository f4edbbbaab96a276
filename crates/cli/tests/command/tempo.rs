//! `campanile tempo` as a user runs it, from peer to peer.

use crate::support::{Ended, PROGRAM, Serve, text};
use crate::{campanile, json, refusal};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::process::{ChildStderr, ChildStdout, Command, Stdio};
use testing::{Killed, Leash, output_in_time, own_loopback};

/// A running command, of which something is awaited on standard error before anything else.
pub(crate) struct Running {
    child: Killed,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    /// What it said first.
    said: String,
}

impl Running {
    /// It has said a line.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("tempo").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let leash = Leash::new(&child, format_args!("{arguments:?} to say something"));
        stderr.read_line(&mut said).unwrap();
        drop(leash);
        Self { child: Killed(child), stdout, stderr, said }
    }

    /// The address at which it waits, for others.
    fn address(&self) -> String {
        let (_, rest) = self.said.split_once(" at ").unwrap_or_else(|| panic!("{}", self.said));
        rest.split_once(';').unwrap().0.replacen('@', "", 1)
    }

    pub(crate) fn line(&mut self) -> String {
        let _leash = Leash::new(&self.child, "a line of output");
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn line_of_stderr(&mut self, has: &str) -> String {
        let _leash = Leash::new(&self.child, format_args!("a line of standard error with {has:?}"));
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "it ended without having said {has:?}");
            if line.contains(has) {
                return line;
            }
        }
    }

    fn signal(&self, signal: &str) {
        crate::support::send_signal(&self.child, signal);
    }

    fn wait(mut self) -> Ended {
        let _leash = Leash::new(&self.child, "the end of a command");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended { stdout, stderr, code: self.child.wait().unwrap().code() }
    }
}

fn publish(arguments: &[&str]) -> std::process::Output {
    campanile(&[&["tempo", "pub"], arguments].concat())
}

#[test]
fn a_message_goes_from_one_terminal_to_another_over_either_transport() {
    for transport in ["udp", "tcp"] {
        let waiting = format!("{transport}://@127.0.0.1:0");
        let mut sub = Running::start(&["sub", "Weather/Wind", "--from", &waiting, "-n", "2"]);
        assert!(sub.said.starts_with("campanile: waits for publishers at "), "{}", sub.said);
        let to = sub.address();
        for (message, line) in [("11.5 m/s", "11.5 m/s\n"), ("-3{n}", "-31\n")] {
            let output = publish(&["Weather/Wind", message, "--to", &to]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stdout), "");
            assert_eq!(sub.line(), line);
        }
        let ended = sub.wait();
        assert_eq!((ended.stdout.as_str(), ended.code), ("", Some(0)), "{}", ended.stderr);
    }
}

#[test]
fn a_publisher_that_has_left_is_not_missed() {
    let mut sub = Running::start(&["sub", "A/B", "--from", "udp://@127.0.0.1:0", "--wait", "8"]);
    assert!(publish(&["A/B", "x", "--to", &sub.address()]).status.success());
    assert_eq!(sub.line(), "x\n");
    let ended = sub.wait();
    assert!(!ended.stderr.contains("publish"), "{}", ended.stderr);
}

#[test]
fn whichever_command_waits_the_other_finds_it() {
    let at = format!("udp://{}:2811", own_loopback());
    let waiting = at.replacen("udp://", "udp://@", 1);
    // The subscriber is there first, and no publisher has an address yet.
    let sub = Running::start(&["sub", "A/B", "--from", &at, "-n", "3", "--json", "--period", "0.25"]);
    let output =
        publish(&["A/B", "--to", &waiting, "--count", "3", "--priority", "-7", "--wait", "60", "--period", "0.25"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("published 3 messages in "), "{}", text(&output.stderr));
    let ended = sub.wait();
    assert_eq!(ended.code, Some(0));
    let lines: Vec<_> = ended.stdout.lines().map(json).collect();
    let texts: Vec<_> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["1", "2", "3"]);
    assert!(lines.iter().all(|line| line["topic"] == "A/B" && line["priority"] == -7));
    assert_eq!(lines[0]["publisher"].as_str().unwrap().len(), 8);
}

#[test]
fn lines_of_input_and_octets_come_as_they_were_given() {
    let sub = Running::start(&["sub", "A/B", "--from", "tcp://@127.0.0.1:0", "-n", "3"]);
    let mut publish = Command::new(PROGRAM);
    publish.args(["tempo", "pub", "A/B", "-", "--to", &sub.address()]);
    let mut publish = publish.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    publish.stdin.take().unwrap().write_all("one\ntwo\nthr\u{1b}ee\n".as_bytes()).unwrap();
    let leash = Leash::new(&publish, "a publisher of lines to end");
    let output = publish.wait_with_output().unwrap();
    drop(leash);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(sub.wait().stdout, "one\ntwo\nthr\\u{1b}ee\n");

    let mut raw = Running::start(&["sub", "A/B", "--from", "tcp://@127.0.0.1:0", "-n", "1", "--raw"]);
    let to = raw.address();
    let output = campanile(&["tempo", "pub", "A/B", "--size", "1048576", "--to", &to]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let leash = Leash::new(&raw.child, "a message of a mebibyte");
    let mut octets = Vec::new();
    raw.stdout.read_to_end(&mut octets).unwrap();
    drop(leash);
    let expected: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    assert!(octets == expected, "{} octets", octets.len());
}

#[test]
fn reports_tell_delays_wishes_and_losses() {
    let mut sub = Running::start(&[
        "sub",
        "A/B",
        "--from",
        "udp://@127.0.0.1:0",
        "--quiet",
        "--rate",
        "100",
        "--report",
        "--period",
        "0.25",
    ]);
    let to = sub.address();
    let mut publisher = Command::new(PROGRAM);
    publisher.args(["tempo", "pub", "A/B", "x", "--to", &to, "-n", "0", "--rate", "250", "--period", "0.25"]);
    publisher.args(["--deadline", "0.002", "--report"]);
    let mut child = publisher.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let leash = Leash::new(&child, "a report of a delay");
    let report = loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0);
        if line.contains("delay at most") {
            break line;
        }
    };
    assert!(report.starts_with("campanile: 1 subscriber, wish for 100/s to 100/s; delay at most "), "{report}");
    assert!(report.contains(", lost 0"), "{report}");
    let said = sub.line_of_stderr("announce 250/s");
    assert!(said.starts_with("campanile: 1 publisher, announce 250/s, deadline 2.00 ms; received "), "{said}");
    // Ctrl-C is how it ends.
    crate::support::send_signal(&child, "INT");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(leash);
    assert!(rest.contains("published "), "{rest}");
    sub.signal("INT");
    let ended = sub.wait();
    assert_eq!((ended.stdout.as_str(), ended.code), ("", Some(0)));
    let summary = ended.stderr.lines().last().unwrap();
    assert!(summary.contains(" messages, ") && summary.contains("/s)"), "{summary}");
}

#[test]
fn topics_shows_announcers_and_their_topics() {
    let at = format!("udp://{}:2811", own_loopback());
    let _sub = Running::start(&["sub", "Weather/Rain", "--from", &at, "--rate", "10", "--period", "0.25"]);
    let _pub = publisher_of(&["pub", "Weather/Wind", "x", "--to", &at, "-n", "0", "--rate", "250", "--period", "0.25"]);
    let mut lines = Vec::new();
    testing::wait_until("both are heard", || {
        let output = campanile(&["tempo", "topics", &at, "--seconds", "1", "--json"]);
        lines = text(&output.stdout).lines().map(json).collect();
        lines.len() == 2
    });
    assert_eq!((&lines[0]["topic"], &lines[0]["role"]), (&"Weather/Rain".into(), &"subscriber".into()));
    assert_eq!((&lines[0]["rate"], &lines[0]["period_ms"]), (&10.into(), &250.into()));
    assert_eq!((&lines[1]["topic"], &lines[1]["role"]), (&"Weather/Wind".into(), &"publisher".into()));
    assert_eq!((&lines[1]["rate"], &lines[1]["broker"]), (&250.into(), &false.into()));
}

/// A command that says nothing until it ends.
fn publisher_of(arguments: &[&str]) -> Killed {
    let mut command = Command::new(PROGRAM);
    command.arg("tempo").args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    Killed(command.spawn().unwrap())
}

#[test]
fn probe_hz_and_bw_measure() {
    let at = format!("udp://{}:2811", own_loopback());
    let waiting = at.replacen("udp://", "udp://@", 1);
    let mut probe = Running::start(&["probe", "A/B", "--to", &waiting, "-n", "3", "-i", "0.05", "--json"]);
    {
        let _sub = Running::start(&["sub", "A/B", "--from", &at, "--period", "0.25"]);
        let echo = json(&probe.line());
        assert_eq!(echo["subscriber"].as_str().unwrap().len(), 8);
        assert!(echo["delay_us"].as_u64().is_some() && echo["number"].as_u64().is_some(), "{echo}");
        let ended = probe.wait();
        assert_eq!((ended.stdout.lines().count(), ended.code), (2, Some(0)), "{}", ended.stderr);
        assert!(ended.stderr.contains("echoes 3, least "), "{}", ended.stderr);
    }
    let _pub =
        publisher_of(&["pub", "A/B", "--size", "100", "--to", &at, "-n", "0", "--rate", "200", "--period", "0.25"]);
    let measure = |what: &str| {
        let output = campanile(&["tempo", what, "A/B", "--from", &waiting, "-n", "2", "-i", "1", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(json).collect::<Vec<_>>()
    };
    let hz = measure("hz");
    assert!(hz.len() == 2 && hz.iter().all(|line| line["messages"].as_u64().is_some_and(|count| count > 0)), "{hz:?}");
    let bw = measure("bw");
    assert_eq!((bw.len(), &bw[1]["smallest"], &bw[1]["largest"]), (2, &100.into(), &100.into()));
}

#[test]
fn a_broker_stands_between_many_and_only_the_address_differs() {
    let options = ["--listen", "127.0.0.1:0", "--tempo-listen", "127.0.0.1:0", "--log", "error"];
    let serve = Serve::start_with(&options);
    for transport in ["udp", "tcp"] {
        let at = format!("{transport}://{}", serve.tempo);
        let topic = format!("Weather/{transport}");
        let subs: Vec<Running> = ["-n3", "-n3"]
            .map(|count| Running::start(&["sub", &topic, "--from", &at, count, "--json", "--period", "0.25"]))
            .into();
        assert!(subs[0].said.starts_with("campanile: subscribed at "), "{}", subs[0].said);
        // The broker knows both, and each of them sends probes back.
        let probe = campanile(&["tempo", "probe", &topic, "--to", &at, "-i", "0.05", "-n", "20", "--json"]);
        assert!(probe.status.success(), "{}", text(&probe.stderr));
        let echoed: std::collections::BTreeSet<String> =
            text(&probe.stdout).lines().map(|line| json(line)["subscriber"].to_string()).collect();
        assert_eq!(echoed.len(), 2, "{echoed:?}");
        let output = publish(&[&topic, "n{n}", "--to", &at, "--count", "3", "--period", "0.25"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for sub in subs {
            let ended = sub.wait();
            let texts: Vec<_> = ended.stdout.lines().map(|line| json(line)["text"].to_string()).collect();
            assert_eq!((texts, ended.code), (["\"n1\"", "\"n2\"", "\"n3\""].map(str::to_owned).into(), Some(0)));
        }
    }
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let at = format!("udp://{}:2811", own_loopback());
    let (said, code) = refusal(&["tempo", "pub", "A/B", "x", "--to", &at, "--wait", "0.1"]);
    assert_eq!(code, 1);
    assert!(said.contains("no end point subscribes to A/B at ") && said.contains("--wait"), "{said}");
    let output = campanile(&["tempo", "sub", "A/B", "--from", &at, "-n", "1", "--wait", "0.1"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(1)));
    assert!(text(&output.stderr).contains("no messages in "), "{}", text(&output.stderr));
    for (arguments, says) in [
        (vec!["sub", "A/B", "--from", "localhost:2811"], "udp://HOST:PORT"),
        (vec!["sub", "A/B", "--from", "tcp://239.1.2.3:2811"], "write udp://239.1.2.3:2811"),
        (vec!["pub", "A/B", "x", "--period", "100"], "from 10 ms to 60 s"),
        (vec!["pub", "A/B", "x", "--size", "3"], "--size"),
        (vec!["hz", "A/B", "-n", "0"], "1.."),
    ] {
        let (said, code) = refusal(&[&["tempo"], &arguments[..]].concat());
        assert!(code == 2 && said.contains(says), "{arguments:?}: {code} {said}");
    }
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = format!("udp://{}", taken.local_addr().unwrap());
    let (said, code) = refusal(&["tempo", "topics", &taken, "--seconds", "0.1"]);
    assert!(code == 1 && said.contains("another end point waits at "), "{said}");
    let (said, code) = refusal(&["tempo", "topics", &at, "--seconds", "0.1"]);
    assert!(code == 1 && said.contains("nothing was announced"), "{said}");
    // Each takes the address the same way.
    for command in
        [&["topics", "--seconds", "0.1"][..], &["sub", "T"], &["pub", "T"], &["probe", "T"], &["hz", "T"], &["bw", "T"]]
    {
        for option in ["--at", "-a", "--to", "--from"] {
            let (said, code) = refusal(&[&["tempo"], command, &[option, "nonsense://"]].concat());
            assert!(code == 2 && said.contains("--at <ADDRESS>"), "{command:?} {option}: {said}");
        }
    }
    for command in [&["tempo"][..], &["tempo", "pub"], &["tempo", "sub"], &["tempo", "topics"], &["tempo", "probe"]] {
        let help = output_in_time(Command::new(PROGRAM).args(command).arg("--help"));
        assert!(text(&help.stdout).contains("Examples:\n  campanile tempo "), "{command:?}");
    }
}
