//! The `campanile` binary from outside: serve, ls, pub and sub as a user runs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod access;
mod bad_disk;
mod bad_network;
mod checks;
mod completion;
mod data_folder;
mod dead;
mod demo;
mod deploy;
mod descriptors;
mod disconnect;
mod disk;
mod doctor;
mod documents;
mod filter;
mod foreign_clients;
mod full_disk;
mod history;
mod info;
mod json_connections;
mod leaving;
mod lines;
mod measure;
mod mistakes;
mod namespaces;
mod naming;
mod nodes;
mod objects;
mod offered;
mod on_demand;
mod packages;
mod persistent;
mod plan;
mod restart;
mod several_nodes;
mod standby;
mod standby_record;
mod stats;
mod stopping;
mod store;
mod storm;
mod support;
mod tao_notify;
mod tempo;
mod tls;
mod top;
mod topology;

use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use support::{PROGRAM, Serve, TempPath, nobodys_address, text};
use testing::{AcceptInTime, EndInTime, output_in_time};

fn json(line: &str) -> Json {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn campanile(arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).args(arguments).stdin(Stdio::null()))
}

/// What a command that has to fail says, with its status.
fn refusal(arguments: &[&str]) -> (String, i32) {
    let output = campanile(arguments);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (text(&output.stderr), output.status.code().unwrap())
}

#[test]
fn serve_stops_on_a_signal_and_says_what_it_did() {
    for signal in ["INT", "TERM"] {
        let serve = Serve::start();
        serve.print("pub", &["--count", "3", "i={n}"]);
        let (printed, code) = serve.stop(signal);
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.starts_with("campanile: stopped after "), "{printed}");
        assert!(printed.contains("lane_events_in 3\n"), "{printed}");
    }
}

/// A service was started in a terminal, and ended with it when the terminal was closed.
#[test]
fn a_terminal_that_is_closed_does_not_end_the_service() {
    let serve = Serve::start();
    serve.signal("HUP");
    serve.print("pub", &["x=1"]);
    serve.signal("HUP");
    let (printed, code) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("lane_events_in 1\n"), "{printed}");
}

/// A search for a client that did not get its events, with all log lines there are, found none that said that it had come.
#[test]
fn debug_lines_name_clients_that_come_and_go() {
    let log = TempPath::file("debug.log", "");
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "debug"]);
    let serve = Serve::spawn(serve.stderr(std::fs::File::create(log.path()).unwrap()));
    let sub = serve.subscribe(&["-n", "1"]);
    serve.print("pub", &["x=1"]);
    assert_eq!(sub.wait().code, Some(0));
    let count = |begin: &str, end: &str| {
        let is_one = |line: &&str| line.contains(" DEBUG ") && line.contains(begin) && line.ends_with(end);
        std::fs::read_to_string(log.path()).unwrap().lines().filter(is_one).count()
    };
    testing::wait_until("the last connection is closed", || count("the connection from 127.0.0.1:", "; 0 open") > 0);
    serve.stop("TERM");
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(count("accepted a connection from 127.0.0.1:", "; 1 open") >= 1, "{log}");
    assert_eq!(count(" consumer proxy ", ") is connected from 127.0.0.1"), 1, "{log}");
    assert_eq!(count(" consumer proxy ", ") is gone"), 1, "{log}");
    assert_eq!(count(" supplier proxy ", ") is connected from 127.0.0.1"), 1, "{log}");
    assert_eq!(count(" supplier proxy ", ") is gone"), 1, "{log}");
}

/// Once the pipe was full the service answered no client.
#[test]
fn a_log_without_a_reader_holds_no_thread_up_and_says_how_many_lines_it_lacks() {
    let (log, of_service) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&log, 4_096).unwrap();
    let mut serve = Command::new(PROGRAM);
    let serve = Serve::spawn(serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "debug"]).stderr(of_service));
    let come_and_go = || drop(TcpStream::connect(&serve.address).unwrap());
    (0..200).for_each(|_| come_and_go());
    serve.print("ls", &[]);
    let read = testing::lines_of(log);
    let mut told = Vec::new();
    testing::wait_until("the log to say what it lacks", || {
        come_and_go();
        told.extend(read.try_iter());
        told.iter().any(|line| line.contains(" lines are left out: the log was not read for a while"))
    });
    let whole = |line: &String| line.contains(" DEBUG ") || line.contains(" INFO ") || line.contains(" WARN ");
    assert!(told.iter().all(whole), "{told:#?}");
    serve.stop("TERM");
}

#[test]
fn hierarchy_is_listed() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["-n", "1"]);
    let listed = serve.print("ls", &[]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines[0], "channel 0");
    assert_eq!(lines[1], "channel 0 consumer-admin 0 AND_OP");
    assert!(lines[2].starts_with("channel 0 consumer-admin 0 proxy "), "{listed}");
    // A new user had read that `ls` shows connected clients, and it did not.
    let (_, client) = lines[2].split_once(" PUSH_STRUCTURED\t").unwrap();
    assert!(client.starts_with("campanile@") && client.contains("  127.0.0.1:"), "{listed}");
    assert!(client.ends_with("  keeping up"), "{listed}");
    assert_eq!(lines[3], "channel 0 supplier-admin 0 AND_OP");
    assert_eq!(lines.len(), 4);

    let listed = json(&serve.print("ls", &["--json", "--long"]));
    assert_eq!(listed["address"], serve.address);
    let channel = &listed["channels"][0];
    assert_eq!(channel["id"], 0);
    assert_eq!(channel["qos"]["PushWindow"], 1);
    let proxy = &channel["consumer_admins"][0]["proxies"][0];
    assert_eq!((&proxy["type"], &proxy["connected"]), (&"PUSH_STRUCTURED".into(), &true.into()));
    assert!(proxy["consumer"].as_str().unwrap().starts_with("127.0.0.1:"), "{proxy}");
    assert!(channel["reference"].as_str().unwrap().starts_with("IOR:"));

    serve.print("pub", &[]);
    assert_eq!(sub.wait().code, Some(0));
    // The consumer took leave, so its proxy is gone.
    assert_eq!(serve.print("ls", &[]).lines().count(), 3);
}

#[test]
fn event_arrives_as_it_was_published() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "1"]);
    let options = ["--type", "Telescope/Temperature", "--name", "dome-3", "--header", "Priority:short=3"];
    let fields = ["celsius=11.5", "n=7", "on=true", "site=Grüße", "w:wstring=鐘", "raw:octets=cafe", "tags=[\"a\"]"];
    serve.print("pub", &[&options[..], &["--body", "{\"x\":1}"], &fields].concat());
    let ended = sub.wait();
    assert_eq!(ended.code, Some(0));
    let event = json(&ended.stdout);
    assert_eq!(event["type"], "Telescope/Temperature");
    assert_eq!(event["name"], "dome-3");
    assert_eq!(event["header"]["Priority"], 3);
    assert_eq!(
        event["fields"],
        json(r#"{"celsius":11.5,"n":7,"on":true,"site":"Grüße","w":"鐘","raw":"cafe","tags":["a"]}"#)
    );
    assert_eq!(event["body"], json(r#"{"type":"Object","value":{"x":1}}"#));
    assert!(event["received"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn people_get_a_line_for_each_field() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["-n", "1"]);
    serve.print("pub", &["--type", "A/B", "--name", "c", "x=1", "long_name=y"]);
    let ended = sub.wait();
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].ends_with("Z  A/B  c"), "{}", ended.stdout);
    assert_eq!(lines[1..], ["    x          1", "    long_name  \"y\""]);
    assert_eq!(ended.stderr, "", "no summary when what was asked for came");
}

#[test]
fn events_keep_their_order_and_none_is_lost() {
    const EVENTS: usize = 2000;
    let serve = Serve::start();
    let subs = [serve.subscribe(&["--json", "-n", "2000"]), serve.subscribe(&["--json", "-n", "2000"])];
    serve.print("pub", &["--count", "2000", "i={n}"]);
    for sub in subs {
        let ended = sub.wait();
        let numbers: Vec<u64> = ended.stdout.lines().map(|line| json(line)["fields"]["i"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=EVENTS as u64).collect::<Vec<_>>());
    }
}

#[test]
fn only_the_types_asked_for_arrive() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "3", "--type", "A/*", "--type", "*/Alarm"]);
    for event_type in ["B/Temperature", "A/Temperature", "C/Alarm", "C/Other", "A/Alarm"] {
        serve.print("pub", &["--type", event_type]);
    }
    let ended = sub.wait();
    let types: Vec<String> = ended.stdout.lines().map(|line| json(line)["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types, ["A/Temperature", "C/Alarm", "A/Alarm"]);
}

#[test]
fn anys_and_structured_events_reach_each_other() {
    let serve = Serve::start();
    let structured = serve.subscribe(&["--json", "-n", "2"]);
    let any = serve.subscribe(&["--json", "-n", "2", "--any"]);
    serve.print("pub", &["--any", "11.5"]);
    serve.print("pub", &["--type", "A/B", "x=1"]);
    let ended = structured.wait();
    let lines: Vec<_> = ended.stdout.lines().map(json).collect();
    assert_eq!(lines[0]["type"], "%ANY");
    assert_eq!(lines[0]["body"]["value"], 11.5);
    assert_eq!(lines[1]["fields"]["x"], 1);
    let ended = any.wait();
    let lines: Vec<_> = ended.stdout.lines().map(json).collect();
    assert_eq!(lines[0]["body"], json(r#"{"type":"double","value":11.5}"#));
    assert_eq!(lines[1]["body"]["type"], "StructuredEvent");
    assert_eq!(lines[1]["body"]["value"]["header"]["fixed_header"]["event_type"]["domain_name"], "A");
}

#[test]
fn large_event_arrives_whole() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "1"]);
    serve.print("pub", &["--size", "1048576"]);
    let ended = sub.wait();
    let body = json(&ended.stdout)["body"]["value"].as_str().unwrap().to_owned();
    assert_eq!(body.len(), 2 * 1_048_576);
    assert!(body.starts_with("000102") && body.ends_with("fdfeff"));
}

#[test]
fn lines_of_input_become_events() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "3"]);
    let mut publish = serve.command("pub", &["--lines"]);
    let mut child = publish.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("one\ntwo\ndrei\n".as_bytes()).unwrap();
    let leash = testing::Leash::new(&child, "a publisher to end");
    let output = child.wait_with_output().unwrap();
    drop(leash);
    assert!(output.status.success());
    assert!(text(&output.stderr).starts_with("published 3 events in "));
    let bodies: Vec<_> = sub.wait().stdout.lines().map(|line| json(line)["body"]["value"].clone()).collect();
    assert_eq!(bodies, ["one", "two", "drei"]);
}

#[test]
fn sub_tells_a_summary_when_it_is_stopped() {
    let serve = Serve::start();
    let mut sub = serve.subscribe(&["--json"]);
    serve.print("pub", &["--count", "2", "i={n}"]);
    for i in [1, 2] {
        assert_eq!(json(&sub.line())["fields"]["i"], i);
    }
    sub.signal("INT");
    let ended = sub.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.starts_with("2 events, "), "{}", ended.stderr);
}

#[test]
fn sub_fails_when_too_few_events_came_in_time() {
    let serve = Serve::start();
    let ended = serve.subscribe(&["-n", "1", "--wait", "0.2"]).wait();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("no events in "), "{}", ended.stderr);
    let ended = serve.subscribe(&["--quiet", "--wait", "0.2"]).wait();
    assert_eq!(ended.code, Some(0));
}

#[test]
fn sub_ends_quietly_when_its_output_is_closed() {
    let serve = Serve::start();
    let mut sub = serve.subscribe(&["--json"]);
    sub.close_output();
    serve.print("pub", &[]);
    let ended = sub.wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn pub_waits_between_events_and_stops_on_a_signal() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "3"]);
    let mut publish = serve.command("pub", &["--count", "0", "--rate", "50", "i={n}"]);
    let child = publish.stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(sub.wait().code, Some(0));
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let leash = testing::Leash::new(&child, "a publisher to end");
    let output = child.wait_with_output().unwrap();
    drop(leash);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("published "), "{}", text(&output.stderr));
}

#[test]
fn service_is_found_by_its_reference_file_and_by_name() {
    let file = TempPath::new("test.ior");
    let file = file.path();
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--ior-file", file]);
    let corbaname = format!("corbaname::{}#NotifyEventChannelFactory", serve.address);
    let channel = format!("corbaloc::{}/DefaultEventChannel", serve.address);
    for server in [file, &corbaname, &channel] {
        let output = campanile(&["ls", "--server", server]);
        let listed = text(&output.stdout);
        assert!(listed.contains("supplier-admin 0"), "{server}: {listed}{}", text(&output.stderr));
    }
}

#[test]
fn a_missing_listener_is_reported_with_what_to_do() {
    let address = nobodys_address();
    for command in ["ls", "pub", "sub"] {
        let (said, status) = refusal(&[command, "--server", &address]);
        assert_eq!(status, 1);
        assert!(said.starts_with(&format!("campanile: cannot connect to {address}: ")), "{said}");
        assert!(said.contains("--server"), "{said}");
    }
}

#[test]
fn something_else_listening_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept_in_time();
        let _ = Read::read(&mut stream, &mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let (said, status) = refusal(&["ls", "--server", &address]);
    assert_eq!(status, 1);
    assert!(said.contains("cannot be read"), "{said}");
    server.end_in_time();
}

#[test]
fn channel_that_does_not_exist_is_reported_with_those_that_do() {
    let serve = Serve::start();
    let all = [
        &["ls", "-c", "77"][..],
        &["pub", "-c", "77"],
        &["sub", "-c", "77"],
        &["info", "-c", "77"],
        &["info", "77"],
        // Both showed nothing, and ended as if all were well.
        &["top", "-c", "77", "--once"],
        &["top", "-c", "77", "--json"],
        &["disconnect", "-c", "77", "3"],
        &["disconnect", "-c", "77", "--client", "127.0.0.1", "--yes"],
    ];
    for command in all {
        let output = serve.run(command[0], &command[1..]);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert_eq!(
            text(&output.stderr),
            "campanile: there is no channel 77; there are: 0 (`campanile ls` lists them)\n",
            "{command:?}"
        );
    }
}

#[test]
fn object_of_another_kind_is_reported() {
    let serve = Serve::start();
    let (said, status) = refusal(&["ls", "--server", &format!("corbaloc::{}/NameService", serve.address)]);
    assert_eq!(status, 1);
    assert!(said.contains("not of type EventChannelFactory"), "{said}");
    let (said, status) = refusal(&["ls", "--server", &format!("corbaloc::{}/Nothing", serve.address)]);
    assert_eq!(status, 1);
    assert!(said.contains("OBJECT_NOT_EXIST"), "{said}");
}

#[test]
fn wrong_usage_has_its_own_status() {
    for arguments in [&["ls", "--server", "no such file"][..], &["pub", "no.type"], &["sub", "--type", "3"], &["fly"]] {
        let (said, status) = refusal(arguments);
        assert_eq!(status, 2, "{said}");
    }
}

#[test]
fn port_in_use_is_reported_with_what_to_do() {
    let serve = Serve::start();
    let (said, status) = refusal(&["serve", "--listen", &serve.address]);
    assert_eq!(status, 1);
    assert!(said.contains("in use") && said.contains("--listen"), "{said}");
}

/// Others use the service, too: the benchmark has a channel of its own, and leaves nothing behind.
#[test]
fn latency_of_a_running_service_is_reported_and_nothing_stays() {
    let serve = Serve::start();
    let options = ["--duration", "0.3", "--rate", "200", "--consumers", "2", "--json"];
    let output = campanile(&[&["bench", "latency", "--server", &serve.address], &options[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&text(&output.stdout));
    let traffic = &report["run"]["traffics"][0];
    assert!(traffic["latency"]["events"].as_u64().unwrap() > 0, "{traffic}");
    assert_eq!(traffic["losses"]["lost"], 0);
    let left = json(&text(&serve.run("ls", &["--json"]).stdout));
    assert_eq!(left["channels"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn latency_of_a_service_that_is_not_there_says_how_to_start_one() {
    let (said, status) = refusal(&["bench", "latency", "--server", &nobodys_address()]);
    assert_eq!(status, 1);
    assert!(said.contains("campanile serve"), "{said}");
}

#[test]
fn address_that_cannot_be_advertised_is_reported_with_what_to_do() {
    let (said, status) = refusal(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(status, 2);
    assert!(said.contains("--advertise"), "{said}");
    let (said, status) = refusal(&["serve", "--listen", "nonsense"]);
    assert_eq!(status, 2);
    assert!(said.contains("HOST:PORT"), "{said}");
}

#[test]
fn unknown_configuration_key_is_reported() {
    let file = TempPath::file("unknown-key.toml", "listen = \"127.0.0.1:0\"\nlisten_port = 3\n");
    let (said, status) = refusal(&["serve", "--config", file.path()]);
    assert_eq!(status, 2);
    assert!(said.contains("listen_port"), "{said}");
    let (said, status) = refusal(&["serve", "--config", "/does/not/exist.toml"]);
    assert_eq!(status, 2);
    assert!(said.contains("/does/not/exist.toml"), "{said}");
}

#[test]
fn advertised_name_is_what_clients_are_given() {
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--advertise", "localhost"]);
    let listed = json(&serve.print("ls", &["--long", "--json"]));
    let reference = listed["channels"][0]["reference"].as_str().unwrap().to_owned();
    let ior: giop::ior::Ior = reference.parse().unwrap();
    assert_eq!(ior.iiop().unwrap().host, "localhost");
}

#[test]
fn completions_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = campanile(&["completions", shell]);
        assert!(text(&output.stdout).contains("campanile"));
    }
}

#[test]
fn service_that_comes_back_gets_its_subscriber_back() {
    let serve = Serve::start();
    let address = serve.address.clone();
    let sub = serve.subscribe(&["--json", "-n", "1"]);
    serve.stop("TERM");
    let serve = Serve::start_with(&["--listen", &address, "--log", "error"]);
    // Published until the subscriber, which asks now and then, has noticed and one arrives.
    let mut publish = serve.command("pub", &["--count", "0", "--rate", "20", "i={n}"]);
    let mut child = publish.stderr(Stdio::null()).spawn().unwrap();
    let ended = sub.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("had forgotten"), "{}", ended.stderr);
}

/// `campanile pub -n 0`, left alone for a night, was found dead in the morning: the service had been restarted.
#[test]
fn pub_without_end_outlasts_a_restart() {
    let serve = Serve::start();
    let address = serve.address.clone();
    let mut publish = serve.command("pub", &["--count", "0", "--rate", "100", "i={n}"]);
    let mut child = publish.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let leash = testing::Leash::new(&child, "a publisher to find its service again, and to end");
    serve.subscribe(&["-n", "2"]).wait();
    serve.stop("TERM");
    // A service that is back before the next event is due is found again without a word.
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("trying again until Ctrl-C"), "{said}");
    let serve = Serve::start_with(&["--listen", &address, "--log", "error"]);
    assert_eq!(serve.subscribe(&["-n", "2"]).wait().code, Some(0));
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    stderr.read_to_string(&mut said).unwrap();
    drop(leash);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("published ") && last.contains("; connected again once, "), "{said}");
}

/// The service went away in the midst of a thousand events, and `pub` did not say with which to go on.
#[test]
fn pub_says_where_to_go_on() {
    let serve = Serve::start();
    let mut publish = serve.command("pub", &["--count", "100000", "--rate", "100", "i={n}"]);
    let mut child = publish.stderr(Stdio::piped()).spawn().unwrap();
    let leash = testing::Leash::new(&child, "a publisher to say that the service is gone");
    serve.subscribe(&["-n", "2"]).wait();
    drop(serve);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    drop(leash);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    let published: u64 = said.strip_prefix("published ").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(said.contains(&format!(". Number {} ", published + 1)), "{said}");
    assert!(said.ends_with(", and none behind it was sent\n"), "{said}");
}

/// `campanile sub --wait 60 && …` waited for a service that was not there any more, and ended as if there had been no events.
#[test]
fn sub_says_that_the_service_has_gone_meanwhile() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--wait", "5"]);
    drop(serve);
    let ended = sub.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("since the service went away"), "{}", ended.stderr);
}

/// A new user typed `campanile pub`, and nothing was said: had anything been published, and what?
#[test]
fn a_lone_pub_says_what_it_did_and_what_to_write() {
    let serve = Serve::start();
    let output = serve.run("pub", &[]);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("published 1 event of type Campanile/Test without any field"), "{said}");
    assert!(said.contains("campanile pub Weather/Wind speed=12.5"), "{said}");
    let said = text(&serve.run("pub", &["Weather/Wind", "speed=3"]).stderr);
    assert!(said.starts_with("published 1 event in ") && said.ends_with("; type Weather/Wind\n"), "{said}");
    // Scripts that say what they want can be left in peace.
    assert_eq!(text(&serve.run("pub", &["x=1", "--quiet"]).stderr), "");
}

/// `{n}` means a new line to what prints the help, so that the one word that cannot be guessed was missing there.
#[test]
fn help_of_pub_shows_the_place_of_the_number() {
    let help = text(&campanile(&["pub", "--help"]).stdout);
    assert!(help.contains("sequence={n}\n") && help.contains("\n{n} stands for"), "{help}");
}

#[test]
fn benchmark_refuses_a_timeout_that_is_none() {
    let (error, code) = refusal(&["bench", "monitor", "--timeout", "0"]);
    assert_eq!(code, 2);
    assert!(error.contains("--timeout must be from 0.001 to 1000000 seconds"), "{error}");
}
