//! Lines of JSON: a protocol beside CORBA's, through which the same channels are reached.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use client::notify::{EventType, Property, StructuredEvent};
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier};
use giop::value::{AnyValue, Value};
use service::{Config, Counter, Json, Limits, Service};
use testing::{Leash, NextInTime, patient, unless_closed};

use crate::peers::{await_count, start_with, wait_until};
use crate::persistent::{Folder, factory};

pub(crate) fn start() -> Service {
    start_limited(Limits::default())
}

pub(crate) fn start_limited(limits: Limits) -> Service {
    start_with(Config { limits, json: Json { listen: Some("0".into()), ..Json::default() }, ..Config::default() })
}

fn address(service: &Service) -> SocketAddr {
    service.json_address().unwrap()
}

/// A client that sends lines and reads lines.
pub(crate) struct Lines {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Lines {
    pub(crate) fn connect(service: &Service) -> Self {
        let stream = TcpStream::connect(address(service)).unwrap();
        patient(&stream);
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    /// The same from an address of this host.
    pub(crate) fn connect_from(service: &Service, from: &str) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
        connect(&socket, &address(service)).unwrap();
        let stream = TcpStream::from(socket);
        patient(&stream);
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line; nothing at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = unless_closed(self.reader.read_line(&mut line))?;
        (count > 0).then(|| line.trim_end().to_owned())
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line().expect("an answer")
    }

    pub(crate) fn subscribed(service: &Service, rest: &str) -> Self {
        let mut lines = Self::connect(service);
        assert_eq!(lines.ask(&format!("{{\"op\":\"subscribe\",\"id\":1{rest}}}")), "{\"ok\":1}");
        lines
    }
}

pub(crate) const PING: &str = r#"{"op":"ping","id":9}"#;
pub(crate) const PONG: &str = r#"{"ok":9}"#;

fn wind(speed: u32) -> String {
    format!(r#"{{"op":"publish","id":{speed},"type":"Weather/Wind","fields":{{"speed":{speed}}}}}"#)
}

fn wind_event(speed: u32) -> String {
    format!(r#"{{"event":{{"channel":0,"type":"Weather/Wind","name":"","fields":{{"speed":{speed}}},"body":null}}}}"#)
}

/// A CORBA consumer of everything in the default channel, and what it gets.
fn corba_consumer(service: &Service) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (sender, received) = channel();
    let options = ConsumerOptions::default();
    let consumer = SimpleConsumer::connect(&service.corbaloc("NotificationService"), None, options, move |event| {
        let _ = sender.send(event.event().unwrap());
        Ok(())
    });
    (consumer.unwrap(), received)
}

fn corba_supplier(service: &Service) -> SimpleSupplier {
    SimpleSupplier::connect(&service.corbaloc("NotificationService"), None).unwrap()
}

/// A service that keeps things.
fn start_with_store(folder: &Folder) -> Service {
    start_with(Config { json: Json { listen: Some("0".into()), ..Json::default() }, ..folder.config() })
}

/// What an event's line says of its number and its speed.
fn number_and_speed(line: &str) -> (u64, u32) {
    let value = |member: &str| {
        let (_, rest) = line.split_once(&format!("\"{member}\":")).unwrap_or_else(|| panic!("{line}"));
        rest.trim_start().split([',', '}']).next().unwrap().to_owned()
    };
    assert!(value("time").parse::<u64>().unwrap() > 139_000_000_000_000_000, "{line}");
    (value("number").parse().unwrap(), value("speed").parse().unwrap())
}

// ---- what it is for ----

#[test]
fn a_connection_with_more_lines_than_its_budget_of_a_round_gives_way_to_the_others() {
    let service = start_limited(Limits { round_messages: 2, ..Limits::default() });
    let mut lines = Lines::connect(&service);
    lines.send(&[PING; 10].join("\n"));
    (0..10).for_each(|_| assert_eq!(lines.line().as_deref(), Some(PONG)));
    assert!(service.counters().read(Counter::RoundBudgetsSpent) >= 1);
}

#[test]
fn what_is_published_in_json_reaches_json_and_corba_consumers_with_corbas_types() {
    let service = start();
    let (_consumer, received) = corba_consumer(&service);
    let mut subscriber = Lines::subscribed(&service, "");
    let mut publisher = Lines::connect(&service);
    let line = r#"{"op":"publish","id":2,"channel":0,"type":"Weather/Wind","name":"mast",
        "header":{"Priority:short":3},"fields":{"speed":12.5,"gusts":[1,2.5],"site":"north"},"body":{"x":1}}"#;
    assert_eq!(publisher.ask(&line.replace('\n', "")), r#"{"ok":2}"#);
    let event = subscriber.line().unwrap();
    let expected = concat!(
        r#"{"event":{"channel":0,"type":"Weather/Wind","name":"mast","header":{"Priority":3},"#,
        r#""fields":{"gusts":[1.0,2.5],"site":"north","speed":12.5},"#,
        r#""body":{"type":"Object","value":{"x":1}}}}"#
    );
    assert_eq!(event, expected);
    let event = received.next_in_time();
    assert_eq!((event.event_type(), event.event_name.as_str()), (EventType::new("Weather", "Wind"), "mast"));
    assert_eq!(event.variable_header, [Property::new("Priority", 3_i16)]);
    assert_eq!(event.field("speed"), Some(&Value::Double(12.5)));
    assert_eq!(event.field("gusts"), Some(&Value::Sequence(vec![Value::Double(1.0), Value::Double(2.5)])));
    assert!(matches!(event.remainder.value, Value::Struct { .. }));
}

#[test]
fn what_corba_suppliers_push_reaches_json_consumers_that_want_it_and_any_events_too() {
    let service = start();
    let supplier = corba_supplier(&service);
    let mut fast = Lines::subscribed(&service, r#","types":["Weather/*"],"where":"$speed > 10""#);
    let mut all = Lines::subscribed(&service, "");
    for speed in [5, 15] {
        let mut event = StructuredEvent::new("Weather", "Wind", "");
        event.filterable_data.push(Property::new("speed", speed));
        supplier.publish(&event).unwrap();
    }
    supplier.publish(&StructuredEvent::new("Alarm", "Fire", "")).unwrap();
    assert_eq!(fast.line().unwrap(), wind_event(15));
    assert_eq!([all.line().unwrap(), all.line().unwrap()], [5, 15].map(wind_event));
    let fire = r#"{"event":{"channel":0,"type":"Alarm/Fire","name":"","fields":{},"body":null}}"#;
    assert_eq!(all.line().unwrap(), fire);
    let options =
        client::SupplierOptions { form: client::notify::ClientType::Any, ..client::SupplierOptions::default() };
    let url = service.corbaloc("NotificationService");
    SimpleSupplier::connect_with(&url, None, options).unwrap().publish_any(&AnyValue::from(7_i32)).unwrap();
    let any = r#"{"event":{"channel":0,"type":"%ANY","name":"","fields":{},"body":{"type":"long","value":7}}}"#;
    assert_eq!(all.line().unwrap(), any);
    // The one with a constraint got nothing of that.
    assert_eq!(fast.ask(PING), PONG);
}

#[test]
fn a_subscription_ends_when_its_client_says_so_or_its_channel_is_destroyed() {
    let service = start();
    let (channel, id) = factory(&service).create_channel(&[], &[]).unwrap();
    let mut client = Lines::subscribed(&service, "");
    assert_eq!(client.ask(&format!(r#"{{"op":"subscribe","id":2,"channel":{id}}}"#)), r#"{"ok":2}"#);
    client.send(&wind(1));
    let mut both = [client.line().unwrap(), client.line().unwrap()];
    both.sort();
    assert_eq!(both, [wind_event(1), r#"{"ok":1}"#.to_owned()]);
    assert_eq!(client.ask(r#"{"op":"unsubscribe","id":3,"subscription":1}"#), r#"{"ok":3}"#);
    assert_eq!(client.ask(&wind(2)), r#"{"ok":2}"#, "and no event");
    assert!(client.ask(r#"{"op":"unsubscribe","id":4,"subscription":1}"#).starts_with(r#"{"error":4,"#));
    channel.destroy().unwrap();
    let told = client.line().unwrap();
    assert!(told.starts_with(r#"{"error":2,"reason":"the subscription has ended"#), "{told}");
    // The proxy for publishing is there still; one of a channel that is not there cannot be had.
    let gone = format!(r#"{{"op":"publish","id":5,"channel":{id},"type":"A/B"}}"#);
    assert_eq!(client.ask(&gone), format!(r#"{{"error":5,"reason":"there is no channel {id}"}}"#));
}

/// A channel asks for marks for all its consumers. Its subscribers were taken for consumers of CORBA's, and got nothing.
#[test]
fn subscribers_get_events_in_a_channel_that_has_repeats_marked() {
    let service = start();
    let factory = factory(&service);
    let (_, id) = factory.create_channel(&[Property::new("MarkRepeats", true)], &[]).unwrap();
    let mut client = Lines::connect(&service);
    assert_eq!(client.ask(&format!(r#"{{"op":"subscribe","id":1,"channel":{id}}}"#)), r#"{"ok":1}"#);
    client.send(&format!(r#"{{"op":"publish","id":2,"channel":{id},"type":"A/B"}}"#));
    let mut both = [client.line().unwrap(), client.line().unwrap()];
    both.sort();
    let event = format!(r#"{{"event":{{"channel":{id},"type":"A/B","name":"","fields":{{}},"body":null}}}}"#);
    assert_eq!(both, [event, r#"{"ok":2}"#.to_owned()]);
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let service = start();
    let mut client = Lines::subscribed(&service, "");
    for (line, reason) in [
        (r#"{"op":"subscribe","id":2,"where":"$speed >"}"#, "the constraint cannot be read: "),
        (r#"{"op":"subscribe","id":2,"channel":77}"#, "there is no channel 77"),
        (r#"{"op":"subscribe","id":1}"#, "there is a subscription with this id"),
        (r#"{"op":"publish","id":2,"type":"A/B","fields":{"c:char":"鐘"}}"#, "the value is not in the range of char"),
        (r#"{"op":"publish","id":2,"type":"A/B","fileds":{}}"#, "publish has no member `fileds`"),
        (r#"{"op":"publish","id":2,"type":"A/B","body":"a\u0000b"}"#, "text cannot have the character"),
        (r#"{"op":"fly","id":2}"#, "there is no op `fly`"),
        ("garbage", "the line is not JSON"),
    ] {
        let answer = client.ask(line);
        assert!(answer.starts_with("{\"error\":") && answer.contains(reason), "{line}: {answer}");
    }
    // None of that has ended the connection.
    assert_eq!(client.ask(PING), PONG);
    assert_eq!(service.counters().read(Counter::JsonLinesRefused), 4);
}

// ---- clients with a standard program only ----

/// A verdict on one of several lines that come together is not one on the others.
#[test]
fn of_lines_that_come_together_only_the_bad_ones_are_refused() {
    let service = start();
    let mut subscriber = Lines::subscribed(&service, "");
    let mut publisher = Lines::connect(&service);
    let bad = r#"{"op":"publish","id":2,"type":"Weather/Wind","fields":[1,{"speed":2}]}"#;
    publisher.send(&[&wind(1), bad, &wind(3), r#"{"op":"publish","id":4"#, &wind(5)].join("\n"));
    let answers: Vec<String> = (0..5).map(|_| publisher.line().expect("an answer each")).collect();
    assert_eq!([&answers[0], &answers[2], &answers[4]], [r#"{"ok":1}"#, r#"{"ok":3}"#, r#"{"ok":5}"#]);
    assert!(answers[1].contains("error") && answers[3].contains("error"), "{answers:?}");
    for speed in [1, 3, 5] {
        assert_eq!(subscriber.line().unwrap(), wind_event(speed));
    }
}

#[test]
fn half_a_connection_is_enough_for_a_client_that_sends_and_then_listens() {
    // As `printf … | nc` has it: nothing more is sent, and the answers are waited for.
    let service = start();
    let mut client = Lines::connect(&service);
    client.send(PING);
    client.send(&wind(4));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!([client.line(), client.line(), client.line()], [Some(PONG.into()), Some(r#"{"ok":4}"#.into()), None]);
    // A client that has subscribed listens on.
    let mut subscriber = Lines::subscribed(&service, "");
    subscriber.stream.shutdown(Shutdown::Write).unwrap();
    let mut publisher = Lines::connect(&service);
    assert_eq!(publisher.ask(&wind(5)), r#"{"ok":5}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(5));
}

/// The programs of the document, which users copy.
fn programs() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let document = std::fs::read_to_string(path).unwrap();
    let blocks = document.split("```python\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_python_programs_of_the_document_share_a_channel_with_corba_clients() {
    let service = start();
    let [subscriber, publisher] = &programs()[..] else { panic!("two programs") };
    for program in [subscriber, publisher] {
        assert!(program.lines().count() <= 10, "ten lines are promised:\n{program}");
    }
    let port = address(&service).port().to_string();
    let run = |program: &str| program.replace("2810", &port);
    let (_consumer, received) = corba_consumer(&service);
    let mut python = Command::new("python3");
    python.args(["-u", "-c", &run(subscriber)]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3");
    let leash = Leash::new(&python, "what a Python subscriber prints");
    let mut printed = BufReader::new(python.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    await_count(&service, Counter::JsonConnectionsOpen, 1);
    wait_until("the subscription", || {
        let mut probe = Lines::connect(&service);
        probe.ask(PING) == PONG && service.counters().read(Counter::Requests) > 0
    });
    let published = testing::output_in_time(Command::new("python3").args(["-c", &run(publisher)]));
    assert!(published.status.success(), "{}", String::from_utf8_lossy(&published.stderr));
    assert_eq!(line(), "Weather/Wind 12.5");
    assert_eq!(received.next_in_time().field("speed"), Some(&Value::Double(12.5)));
    let mut event = StructuredEvent::new("Weather", "Wind", "");
    event.filterable_data.push(Property::new("speed", 25));
    corba_supplier(&service).publish(&event).unwrap();
    assert_eq!(line(), "Weather/Wind 25");
    python.kill().unwrap();
    drop(leash);
    python.wait().unwrap();
}

// ---- clients that mean harm, or do not read ----

#[test]
fn a_client_that_begins_with_anything_but_json_is_not_heard() {
    let service = start();
    let mut subscriber = Lines::subscribed(&service, "");
    let post = format!("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{}", wind(1));
    for garbage in [&post, "garbage", "GIOP\u{1}\u{2}", "[]"] {
        let mut client = Lines::connect(&service);
        client.send(garbage);
        let told = client.line();
        assert!(told.is_none_or(|told| told.starts_with(r#"{"error":null,"reason":""#)));
        assert_eq!(client.line(), None);
    }
    await_count(&service, Counter::ProtocolErrors, 4);
    // Nothing of that was carried out.
    assert_eq!(subscriber.ask(PING), PONG);
}

#[test]
fn a_line_of_a_hundred_megabytes_is_refused_before_it_is_kept() {
    let service = start();
    let mut client = Lines::connect(&service);
    assert_eq!(client.ask(PING), PONG);
    let piece = vec![b'x'; 1 << 20];
    let sent = (0..100).take_while(|_| client.stream.write_all(&piece).is_ok()).count();
    assert!(sent < 100, "the service has read it all");
    await_count(&service, Counter::ProtocolErrors, 1);
    await_count(&service, Counter::JsonConnectionsOpen, 0);
    assert_eq!(Lines::connect(&service).ask(PING), PONG);
}

#[test]
fn half_a_line_may_take_its_time_and_no_longer() {
    let service = start();
    let mut client = Lines::connect(&service);
    for octet in format!("{PING}\n").as_bytes() {
        client.stream.write_all(&[*octet]).unwrap();
    }
    assert_eq!(client.line().unwrap(), PONG);
    let service = start_limited(Limits { message_completion_ms: 100, ..Limits::default() });
    let mut client = Lines::connect(&service);
    client.stream.write_all(b"{\"op\":").unwrap();
    let told = client.line().unwrap();
    assert!(told.contains("message_completion_ms"), "{told}");
    assert_eq!(client.line(), None);
    await_count(&service, Counter::IncompleteMessages, 1);
}

/// Time that is given anew with each octet would let a client keep half a line for good.
#[test]
fn octets_that_trickle_in_give_a_line_no_more_time() {
    let service = start_limited(Limits { message_completion_ms: 1_000, ..Limits::default() });
    let mut client = Lines::connect(&service);
    client.send(PING);
    assert_eq!(client.line().unwrap(), PONG);
    client.stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    wait_until("half a line to have had its time", || {
        // An octet for each look at the counter, and so few that the line does not become too long.
        sent += usize::from(sent < 10_000 && client.stream.write(b"{").is_ok());
        service.counters().read(Counter::IncompleteMessages) == 1
    });
    client.stream.set_nonblocking(false).unwrap();
    let told = client.line().unwrap();
    assert!(told.starts_with(r#"{"error":null,"reason":""#) && told.contains("message_completion_ms"), "{told}");
    assert_eq!(client.line(), None);
    assert!(sent > 1, "{sent}");
    await_count(&service, Counter::JsonConnectionsOpen, 0);
}

#[test]
fn a_client_that_sends_an_octet_at_a_time_is_served_and_so_are_the_others_meanwhile() {
    let service = start();
    let (_consumer, received) = corba_consumer(&service);
    let mut subscriber = Lines::subscribed(&service, "");
    let mut other = Lines::connect(&service);
    let mut slow = Lines::connect(&service);
    for (number, octet) in (1..).zip(format!("{}\n", wind(1_000)).as_bytes()) {
        slow.stream.write_all(&[*octet]).unwrap();
        assert_eq!(other.ask(&wind(number)), format!("{{\"ok\":{number}}}"));
        if *octet != b'\n' {
            assert_eq!(subscriber.line().unwrap(), wind_event(number));
            assert_eq!(received.next_in_time().field("speed"), Some(&Value::Long(i32::try_from(number).unwrap())));
        }
    }
    assert_eq!(slow.line().unwrap(), r#"{"ok":1000}"#);
    let last = [subscriber.line().unwrap(), subscriber.line().unwrap()];
    assert!(last.contains(&wind_event(1_000)), "{last:?}");
}

/// What was cut off without its end was dropped without a word: to users of `printf … | nc`, that looked as if it were carried out.
#[test]
fn half_a_line_is_never_carried_out_wherever_its_connection_ends() {
    let service = start();
    let mut subscriber = Lines::subscribed(&service, "");
    let line = wind(7);
    let mut refused = 0;
    for cut in 1..=line.len() {
        // A client that listens on is answered,
        let mut polite = Lines::connect(&service);
        polite.stream.write_all(&line.as_bytes()[..cut]).unwrap();
        polite.stream.shutdown(Shutdown::Write).unwrap();
        let told = polite.line().unwrap();
        assert_eq!(
            told, r#"{"error":null,"reason":"the last line has no end, and was not carried out"}"#,
            "cut at {cut}"
        );
        assert_eq!(polite.line(), None, "cut at {cut}");
        refused += 1;
        await_count(&service, Counter::JsonLinesRefused, refused);
        // and one that has gone is not waited for.
        let mut rude = Lines::connect(&service);
        assert_eq!(rude.ask(PING), PONG);
        rude.stream.write_all(&line.as_bytes()[..cut]).unwrap();
        drop(rude);
        refused += 1;
        await_count(&service, Counter::JsonLinesRefused, refused);
        await_count(&service, Counter::JsonConnectionsOpen, 1);
    }
    // None of it came to anything, and the line is good if it is whole.
    assert_eq!(Lines::connect(&service).ask(&line), r#"{"ok":7}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(7));
    assert_eq!(subscriber.ask(PING), PONG);
}

#[test]
fn a_subscriber_that_ends_in_the_middle_of_a_line_is_reported_and_listens_on() {
    let service = start();
    let mut subscriber = Lines::subscribed(&service, "");
    subscriber.stream.write_all(b"{\"op\":\"ping\",\"id\":3}").unwrap();
    subscriber.stream.shutdown(Shutdown::Write).unwrap();
    assert!(subscriber.line().unwrap().starts_with(r#"{"error":null,"reason":"the last line has no end"#));
    assert_eq!(Lines::connect(&service).ask(&wind(5)), r#"{"ok":5}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(5));
    assert_eq!(service.counters().read(Counter::IncompleteMessages), 0, "nothing is waited for");
}

#[test]
fn a_reader_that_does_not_read_delays_no_other_and_gets_all_when_it_does() {
    const EVENTS: u32 = 2_000;
    let service = start();
    let mut slow = Lines::subscribed(&service, "");
    let mut other = Lines::subscribed(&service, "");
    let mut publisher = Lines::connect(&service);
    let ballast = "x".repeat(4_000);
    for number in 0..EVENTS {
        let line = format!(r#"{{"op":"publish","id":{number},"type":"A/B","name":"{number}","body":"{ballast}"}}"#);
        assert_eq!(publisher.ask(&line), format!("{{\"ok\":{number}}}"));
        assert!(other.line().unwrap().contains(&format!(r#""name":"{number}""#)));
    }
    assert!(service.counters().read(Counter::JsonConnectionsOpen) == 3);
    for number in 0..EVENTS {
        assert!(slow.line().unwrap().contains(&format!(r#""name":"{number}""#)));
    }
}

#[test]
fn what_json_subscribers_have_does_not_count_towards_a_channels_memory_any_more() {
    // Events that were too large to be copied were released only when something was written to a CORBA consumer, too: in a channel
    // without any, their suppliers were blocked for good when its memory was spent.
    let service = start();
    let budget = Property::new("MemoryBudget", 1_000_000_u64);
    let (_, id) = factory(&service).create_channel(&[budget], &[]).unwrap();
    let mut subscriber = Lines::subscribed(&service, &format!(r#","channel":{id}"#));
    let mut publisher = Lines::connect(&service);
    let ballast = "x".repeat(100_000);
    for number in 0..50 {
        let line = format!(r#"{{"op":"publish","id":{number},"channel":{id},"type":"A/B","body":"{ballast}"}}"#);
        assert_eq!(publisher.ask(&line), format!("{{\"ok\":{number}}}"));
        assert!(subscriber.line().unwrap().contains(&ballast));
    }
}

#[test]
fn a_flood_of_requests_whose_answers_are_not_read_stops_in_its_own_socket() {
    let service = start();
    let mut client = Lines::connect(&service);
    client.stream.set_nonblocking(true).unwrap();
    let lines = format!("{PING}\n").repeat(1_000);
    let mut is_full = 0;
    // The service reads no more when so much waits to be read by the client.
    wait_until("the socket to be full for good", || {
        is_full = if client.stream.write(lines.as_bytes()).is_err() { is_full + 1 } else { 0 };
        is_full > 1_000
    });
    assert_eq!(Lines::connect(&service).ask(PING), PONG);
    client.stream.set_nonblocking(false).unwrap();
    assert_eq!(client.line().unwrap(), PONG);
}

#[test]
fn a_thousand_idle_connections_cost_the_others_nothing() {
    let service = start_limited(Limits { client_quota_percent: 100, ..Limits::default() });
    let idle: Vec<Lines> = (0..1_000).map(|_| Lines::connect(&service)).collect();
    await_count(&service, Counter::JsonConnectionsOpen, 1_000);
    let mut subscriber = Lines::subscribed(&service, "");
    let (_consumer, received) = corba_consumer(&service);
    let before = service.counters().read(Counter::Cycles);
    assert_eq!(Lines::connect(&service).ask(&wind(1)), r#"{"ok":1}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(1));
    assert_eq!(received.next_in_time().field("speed"), Some(&Value::Long(1)));
    assert!(service.counters().read(Counter::Cycles) - before < 100, "the lane goes round for nothing");
    drop(idle);
    await_count(&service, Counter::JsonConnectionsOpen, 1);
}

#[test]
fn one_connection_more_than_may_be_gets_a_refusal_and_there_is_room_when_another_one_goes() {
    let limits = Limits { connections_max: 100, client_quota_percent: 100, ..Limits::default() };
    let service = start_limited(limits);
    let mut subscriber = Lines::subscribed(&service, "");
    let mut idle: Vec<Lines> = (1..100).map(|_| Lines::subscribed(&service, r#","where":"false""#)).collect();
    await_count(&service, Counter::JsonConnectionsOpen, 100);
    let mut beyond = Lines::connect(&service);
    assert_eq!(
        beyond.line().unwrap(),
        r#"{"error":null,"reason":"as many connections are open as may be (limits.connections_max)"}"#
    );
    assert_eq!(beyond.line(), None);
    assert_eq!(service.counters().read(Counter::ConnectionsRefused), 1);
    assert_eq!(service.counters().read(Counter::ConnectionsLimit), 1);
    // Those that are there are served as before, and so is one that comes when one of them has gone.
    let mut publisher = idle.pop().unwrap();
    assert_eq!(publisher.ask(&wind(1)), r#"{"ok":1}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(1));
    assert_eq!(idle.pop().unwrap().ask(r#"{"op":"unsubscribe","id":2,"subscription":1}"#), r#"{"ok":2}"#);
    await_count(&service, Counter::JsonConnectionsOpen, 99);
    assert_eq!(Lines::connect(&service).ask(PING), PONG);
}

#[test]
fn a_client_that_neither_publishes_nor_subscribes_gives_way_to_others_at_the_limit() {
    let limits = Limits { connections_max: 20, client_quota_percent: 100, ..Limits::default() };
    let service = start_limited(limits);
    let mut subscriber = Lines::subscribed(&service, "");
    let mut idle: Vec<Lines> = (1..20).map(|_| Lines::connect(&service)).collect();
    // The first of them is heard of once more.
    await_count(&service, Counter::JsonConnectionsOpen, 20);
    assert_eq!(idle[0].ask(PING), PONG);
    let mut others: Vec<Lines> = (0..5).map(|_| Lines::connect(&service)).collect();
    others.iter_mut().for_each(|other| assert_eq!(other.ask(PING), PONG));
    assert_eq!(idle[0].ask(PING), PONG);
    let ended = (1..6).filter(|at| idle[*at].line().is_none()).count();
    assert_eq!((ended, service.counters().read(Counter::ConnectionsGaveWay)), (5, 5));
    assert_eq!(others[0].ask(&wind(1)), r#"{"ok":1}"#);
    assert_eq!(subscriber.line().unwrap(), wind_event(1));
    assert_eq!(service.counters().read(Counter::ConnectionsRefused), 0);
}

#[test]
fn connections_count_with_corbas_and_reach_the_same_quota() {
    let service = start_limited(Limits { connections_max: 40, ..Limits::default() });
    let mut open = Vec::new();
    let told = loop {
        let mut client = Lines::connect(&service);
        // It may be closed before it has said anything.
        let _ = client.stream.write_all(format!("{PING}\n").as_bytes());
        match client.line() {
            Some(line) if line == PONG => open.push(client),
            told => break told,
        }
    };
    assert_eq!(open.len(), 30);
    assert!(told.is_some_and(|told| told.contains("from this address")));
    assert!(service.counters().read(Counter::ConnectionsQuota) >= 1);
}

#[test]
fn subscriptions_of_one_connection_have_a_limit_and_end_with_it() {
    let service = start_limited(Limits { client_quota_percent: 100, ..Limits::default() });
    let mut client = Lines::connect(&service);
    let all: Vec<String> = (0..256).map(|id| format!(r#"{{"op":"subscribe","id":{id},"types":["A/B"]}}"#)).collect();
    client.send(&all.join("\n"));
    for id in 0..256 {
        assert_eq!(client.line().unwrap(), format!("{{\"ok\":{id}}}"));
    }
    assert!(client.ask(r#"{"op":"subscribe","id":5000}"#).contains("256 subscriptions"));
    assert_eq!(service.counters().read(Counter::JsonSubscriptionsRefused), 1);
    drop(client);
    // A client that has subscribed may have closed its sending half only: that it is gone is found out with the next event.
    let mut next = Lines::connect(&service);
    assert_eq!(next.ask(r#"{"op":"publish","id":1,"type":"A/B"}"#), r#"{"ok":1}"#);
    await_count(&service, Counter::JsonConnectionsOpen, 1);
}

#[test]
fn the_service_listens_for_json_only_where_it_was_asked_to_and_says_what_that_means() {
    let service = start_with(Config::default());
    assert_eq!(service.json_address(), None);
    let service = start();
    assert!(address(&service).ip().is_loopback());
    assert!(service.warnings().iter().all(|warning| !warning.contains("json.listen")));
    let json = Json { listen: Some("0.0.0.0:0".into()), ..Json::default() };
    let service = start_with(Config { json, ..Config::default() });
    assert!(service.warnings().iter().any(|warning| warning.contains("json.listen")), "{:?}", service.warnings());
    let json = Json { listen: Some("nonsense".into()), ..Json::default() };
    assert!(Service::start(Config { listen: "127.0.0.1:0".into(), json, ..Config::default() }).is_err());
}

#[test]
fn a_service_that_stops_delivers_to_json_consumers_what_it_has() {
    let service = start();
    let mut subscriber = Lines::subscribed(&service, "");
    let mut publisher = Lines::connect(&service);
    for number in 0..100 {
        assert_eq!(publisher.ask(&wind(number)), format!("{{\"ok\":{number}}}"));
    }
    let undone = service.drain(std::time::Duration::from_secs(60));
    assert!(!undone.is_loss());
    for number in 0..100 {
        assert_eq!(subscriber.line().unwrap(), wind_event(number));
    }
    let mut rest = Vec::new();
    let _ = subscriber.reader.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

// ---- the history ----

#[test]
fn a_subscription_can_begin_in_the_history_and_its_events_say_their_numbers() {
    let folder = Folder::new("json-past");
    let service = start_with_store(&folder);
    let (_, id) = factory(&service).create_channel(&[Property::new("HistoryEvents", 1_000_u64)], &[]).unwrap();
    let mut publisher = Lines::connect(&service);
    let mut publish = |speed: u32| {
        let line = wind(speed).replacen('{', &format!("{{\"channel\":{id},"), 1);
        assert_eq!(publisher.ask(&line), format!("{{\"ok\":{speed}}}"));
    };
    let mut as_ever = Lines::subscribed(&service, &format!(",\"channel\":{id}"));
    (1..=10).for_each(&mut publish);
    for (from, first) in [("\"last:3\"", 8), ("\"first\"", 1), ("5", 5), ("\"since:1h\"", 1), ("\"time:0\"", 1)] {
        let mut late = Lines::subscribed(&service, &format!(",\"channel\":{id},\"from\":{from}"));
        for number in first..=10 {
            let line = late.line().unwrap();
            assert_eq!(number_and_speed(&line), (number, u32::try_from(number).unwrap()), "{from}: {line}");
        }
        // It is one like any other from then on.
        assert_eq!(late.ask(PING), PONG, "{from}");
    }
    let mut late =
        Lines::subscribed(&service, &format!(",\"channel\":{id},\"from\":\"last:1\",\"where\":\"$speed > 9\""));
    publish(11);
    assert_eq!([late.line(), late.line()].map(|line| number_and_speed(&line.unwrap())), [(10, 10), (11, 11)]);
    // What is yet to come is waited for, and nothing is sent before.
    let mut ahead = Lines::subscribed(&service, &format!(",\"channel\":{id},\"from\":15"));
    (12..=16).for_each(&mut publish);
    assert_eq!([ahead.line(), ahead.line()].map(|line| number_and_speed(&line.unwrap())), [(15, 15), (16, 16)]);
    for speed in 1..=16 {
        let line = as_ever.line().unwrap();
        assert_eq!(line, wind_event(speed).replace("\"channel\":0", &format!("\"channel\":{id}")), "it asked for none");
    }
}

#[test]
fn a_place_that_there_is_not_is_refused() {
    let folder = Folder::new("json-no-past");
    let service = start_with_store(&folder);
    let mut lines = Lines::connect(&service);
    let refused = lines.ask(r#"{"op":"subscribe","id":1,"from":"yesterday"}"#);
    assert!(refused.starts_with(r#"{"error":1,"#) && refused.contains("last:N"), "{refused}");
    let refused = lines.ask(r#"{"op":"subscribe","id":1,"from":"first"}"#);
    assert!(refused.starts_with(r#"{"error":1,"#) && refused.contains("stores no history"), "{refused}");
}

/// The engine's mark made of a protocol's number another one: no line could be made, and each event was dropped.
#[test]
fn lines_come_also_where_repeats_are_marked() {
    let folder = Folder::new("json-marks");
    let service = start_with_store(&folder);
    let (_, id) = factory(&service).create_channel(&[Property::new("MarkRepeats", true)], &[]).unwrap();
    let mut subscriber = Lines::subscribed(&service, &format!(",\"channel\":{id}"));
    let mut publisher = Lines::connect(&service);
    publisher.ask(&wind(3).replacen('{', &format!("{{\"channel\":{id},"), 1));
    assert!(subscriber.line().unwrap().contains("\"speed\":3"));
}
