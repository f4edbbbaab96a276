//! WebSockets on real sockets: what is sent are octets that are written down here.

use std::io::{Read, Write};

use serde_json::{Value, json};
use service::{ClientCertificates, Config, Counter, Http, Service};
use testing::certificates::Authority;
use testing::{unless_closed, wait_until};

use crate::access::{OWN, READER, config};
use crate::secure::{secure, trusting};
use crate::support::{Answer, Connection, NOBODY, Rig, TOKEN, Who, numbered, start, start_by, start_with};

/// The key of RFC 6455's example, and its answer.
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const ACCEPTED: &str = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

/// An open WebSocket.
struct WebSocket {
    stream: Box<dyn Connection>,
    head: String,
}

/// What a client sends: masked, if its protocol is kept to.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | u8::try_from(short).unwrap()),
        long @ 126..65_536 => frame.extend([&[0xfe][..], &u16::try_from(long).unwrap().to_be_bytes()].concat()),
        longest => frame.extend([&[0xff][..], &(longest as u64).to_be_bytes()].concat()),
    }
    let mask = [1, 2, 3, 4];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(octet, mask)| octet ^ mask));
    frame
}

/// Asks for a WebSocket, with these fields.
fn ask(rig: &Rig, who: Who<'_>, fields: &str) -> Box<dyn Connection> {
    let mut stream = rig.connect_as(who);
    let (address, shown) = (rig.console.address().or(rig.console.secure_address()).unwrap(), who.fields());
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{shown}{fields}\r\n").unwrap();
    stream
}

/// Asks for one and gets it.
fn open_with(rig: &Rig, who: Who<'_>, fields: &str) -> WebSocket {
    let mut stream = ask(rig, who, &format!("{UPGRADE}{KEY}{fields}"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut octet = [0];
        assert_eq!(stream.read(&mut octet).unwrap(), 1, "{head}");
        head.push(char::from(octet[0]));
    }
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    WebSocket { stream, head: head.to_ascii_lowercase() }
}

fn open(rig: &Rig, who: Who<'_>) -> WebSocket {
    open_with(rig, who, "")
}

/// Asks for one and is refused.
fn refused(rig: &Rig, who: Who<'_>, fields: &str) -> Answer {
    Rig::send_on(ask(rig, who, &format!("{fields}Connection: close\r\n")), "")
}

impl WebSocket {
    fn send(&mut self, line: &Value) {
        self.write(&frame(0x81, line.to_string().as_bytes()));
    }

    fn write(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    /// The next frame: its first octet, and its payload. Nothing at the end.
    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        unless_closed(self.stream.read_exact(&mut head))?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).unwrap();
                u16::from_be_bytes(length).into()
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).unwrap();
                usize::try_from(u64::from_be_bytes(length)).unwrap()
            }
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).unwrap();
        Some((head[0], payload))
    }

    /// The next line, as JSON. Pings are answered.
    fn line(&mut self) -> Value {
        let mut line = Vec::new();
        loop {
            let (first, payload) = self.frame().unwrap();
            match first {
                0x89 => self.write(&frame(0x8a, &payload)),
                0x01 | 0x00 | 0x81 | 0x80 => {
                    line.extend(payload);
                    if first & 0x80 != 0 {
                        return serde_json::from_slice(&line).unwrap();
                    }
                }
                other => panic!("{other:#x}: {payload:?}"),
            }
        }
    }

    /// The code with which it is closed, then nothing more.
    fn end(mut self) -> (u16, String) {
        loop {
            let (first, payload) = self.frame().unwrap();
            if first == 0x88 {
                assert_eq!(self.frame(), None);
                let why = String::from_utf8(payload[2..].to_vec()).unwrap();
                return (u16::from_be_bytes([payload[0], payload[1]]), why);
            }
        }
    }
}

#[test]
fn lines_of_json_go_both_ways_and_the_end_is_said_by_both() {
    let rig = start();
    let mut client = open(&rig, OWN);
    assert!(client.head.contains(ACCEPTED) && !client.head.contains("sec-websocket-protocol"), "{}", client.head);
    assert_eq!(rig.count(Counter::HttpWebSocketsOpen), 1);
    client.send(&json!({ "op": "hello", "name": "dashboard", "id": 0 }));
    client.send(&json!({ "op": "subscribe", "id": 1, "types": ["Test/*"], "where": "$number > 1" }));
    assert_eq!([client.line(), client.line()], [json!({ "ok": 0 }), json!({ "ok": 1 })]);
    let name = rig.get_json("/api/v1/consumers")["entries"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.contains("dashboard"), "{name}");
    let supplier = rig.supplier(None);
    (0..3).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    assert_eq!(client.line()["event"]["fields"]["number"], 2);
    // In two frames, with a ping between them, and an event that is more than what is read at once.
    let text = "x".repeat(100_000);
    let line =
        json!({ "op": "publish", "id": 2, "type": "Test/T", "fields": { "number": 7, "text": text } }).to_string();
    let (first, second) = line.as_bytes().split_at(33_333);
    client.write(&[frame(0x01, first), frame(0x89, b"there?"), frame(0x80, second)].concat());
    assert_eq!(client.frame(), Some((0x8a, b"there?".to_vec())));
    let mut heard = [client.line(), client.line()];
    heard.sort_by_key(|line| line.get("ok").is_none());
    assert_eq!((&heard[0], &heard[1]["event"]["fields"]["text"]), (&json!({ "ok": 2 }), &json!(text)));
    // What is asked for last is carried out, although its sender goes at once.
    let line = json!({ "op": "publish", "type": "Test/Last" }).to_string();
    let mut other = open(&rig, OWN);
    other.write(&[frame(0x81, line.as_bytes()), frame(0x88, &1000_u16.to_be_bytes())].concat());
    assert_eq!(other.end().0, 1000);
    rig.await_count(Counter::EventsIn, 5);
    client.write(&frame(0x88, &[]));
    assert_eq!(client.frame(), Some((0x88, Vec::new())));
    assert_eq!(client.frame(), None);
    for counter in [Counter::HttpWebSocketsOpen, Counter::JsonConnectionsOpen, Counter::HttpConnectionsOpen] {
        rig.await_count(counter, 0);
    }
    wait_until("no consumer to be left", || rig.get_json("/api/v1/consumers")["total"] == 0);
}

#[test]
fn without_the_token_it_looks_on_and_with_it_publishes() {
    let rig = start();
    let mut onlooker = open(&rig, NOBODY);
    let publish = json!({ "op": "publish", "id": 1, "type": "A/B" });
    onlooker.send(&publish);
    let told = onlooker.line();
    assert!(told["error"] == 1 && told["reason"].as_str().unwrap().contains("http.token_file"), "{told}");
    // Nor does it make what outlives it.
    onlooker.send(&json!({ "op": "subscribe", "id": 2, "channel": "Lasting", "create": true }));
    let told = onlooker.line();
    assert!(told["error"] == 2 && told["reason"].as_str().unwrap().contains("making channels"), "{told}");
    assert_eq!(rig.get_json("/api/v1/channels")["total"], 1);
    onlooker.send(&json!({ "op": "subscribe", "id": 2 }));
    assert_eq!(onlooker.line(), json!({ "ok": 2 }));
    // As a browser shows a token.
    let encoded: String = data_encoding::BASE64URL_NOPAD.encode(TOKEN.as_bytes());
    let offered = format!("Sec-WebSocket-Protocol: campanile.json, campanile.bearer.{encoded}\r\n");
    let mut publisher = open_with(&rig, NOBODY, &offered);
    assert!(publisher.head.contains("sec-websocket-protocol: campanile.json\r\n"), "{}", publisher.head);
    publisher.send(&publish);
    assert_eq!(publisher.line(), json!({ "ok": 1 }));
    assert_eq!(onlooker.line()["event"]["type"], "A/B");
    assert_eq!(rig.count(Counter::JsonLinesRefused), 2);
}

#[test]
fn where_there_are_rules_each_line_has_the_rights_of_its_client() {
    let rig = start_by(config());
    let mut reader = open(&rig, READER);
    let subscribe = |id: u32, channel: u32| json!({ "op": "subscribe", "id": id, "channel": channel });
    reader.send(&subscribe(1, 1));
    reader.send(&subscribe(2, 2));
    // A refusal waits for nothing, and may come first.
    let mut told = [reader.line(), reader.line()];
    told.sort_by_key(|line| line.get("ok").is_none());
    assert_eq!((&told[0]["ok"], &told[1]["error"]), (&json!(1), &json!(2)), "{told:?}");
    // A browser that has shown nothing says by a line who it is.
    let mut browser = open(&rig, NOBODY);
    browser.send(&subscribe(1, 1));
    assert_eq!(browser.line()["error"], 1);
    let mut browser = open(&rig, NOBODY);
    browser.send(&json!({ "op": "hello", "token": READER.token, "id": 1 }));
    browser.send(&subscribe(2, 1));
    assert_eq!([browser.line(), browser.line()], [json!({ "ok": 1 }), json!({ "ok": 2 })]);
    // From 127.0.0.1 every client may publish.
    let mut publisher = open(&rig, NOBODY);
    for of in ["Secret/Plan", "Test/Numbered"] {
        publisher.send(&json!({ "op": "publish", "id": 1, "channel": 1, "type": of }));
        assert_eq!(publisher.line(), json!({ "ok": 1 }));
    }
    assert_eq!(reader.line()["event"]["type"], "Test/Numbered");
    assert_eq!(browser.line()["event"]["type"], "Test/Numbered");
    // A token that is none ends it, as over the protocol's own port.
    let mut guessing = open(&rig, NOBODY);
    guessing.send(&json!({ "op": "hello", "token": "no token of anybody" }));
    assert_eq!(guessing.line()["reason"], "there is no such token");
    assert_eq!(guessing.end().0, 1001);
    let wrong = Who { token: "no token of anybody", ..NOBODY };
    assert_eq!(refused(&rig, wrong, &format!("{UPGRADE}{KEY}")).status, 401);
}

#[test]
fn a_page_of_another_site_gets_none_unless_it_is_named() {
    let rig = start_with(Http { origins: vec!["https://dash.example".into()], ..Http::default() });
    let own = format!("Origin: http://{}\r\n", rig.address());
    for fields in [own.as_str(), "Origin: https://dash.example\r\nSec-Fetch-Site: cross-site\r\n", ""] {
        open_with(&rig, NOBODY, fields);
    }
    for fields in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: https://dash.example:444\r\n",
        "Origin: https://dash.example\r\nOrigin: https://dash.example\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        let mut stream = ask(&rig, OWN, &format!("{UPGRADE}{KEY}{fields}"));
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 403", "{fields}");
    }
    assert_eq!(rig.count(Counter::HttpCrossSiteRefused), 5);
    // Streams and changes are as before: of this host's pages.
    assert_eq!(refused(&rig, NOBODY, "Origin: https://dash.example\r\n").status, 403);
}

#[test]
fn a_handshake_that_is_none_is_refused() {
    let rig = start();
    let version = |version| KEY.replace("13", version);
    for (name, fields, status) in [
        ("an old version", format!("{UPGRADE}{}", version("8")), 426),
        ("no version", format!("{UPGRADE}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), 426),
        ("no key", format!("{UPGRADE}Sec-WebSocket-Version: 13\r\n"), 400),
        ("a short key", format!("{UPGRADE}{}", KEY.replace("bXBs", "")), 400),
        ("no connection", format!("Upgrade: websocket\r\n{KEY}"), 400),
        ("another protocol", format!("{UPGRADE}{KEY}Sec-WebSocket-Protocol: mqtt\r\n"), 400),
    ] {
        let mut stream = ask(&rig, NOBODY, &fields);
        let mut head = vec![0; 16 << 10];
        let count = stream.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..count]).to_ascii_lowercase();
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{name}: {head}");
        assert_eq!(head.contains("sec-websocket-version: 13"), status == 426, "{name}: {head}");
    }
    let body = format!("{UPGRADE}{KEY}Content-Length: 2\r\n\r\n{{}}");
    let mut stream = ask(&rig, NOBODY, &body);
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 400");
    assert_eq!(rig.count(Counter::HttpBodiesRefused), 7);
    assert_eq!(rig.count(Counter::HttpWebSocketsOpen), 0);
    // Without the wish to upgrade it is a stream of server-sent events, which no proxy keeps back.
    let watched =
        rig.send(&format!("HEAD /api/v1/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", rig.address()));
    for field in ["text/event-stream", "x-accel-buffering: no", "cache-control: no-store"] {
        assert!(watched.head.contains(field), "{watched:?}");
    }
}

#[test]
fn as_many_are_open_as_may_be() {
    let rig = start_with(Http { websockets_max: 2, ..Http::default() });
    let both = [open(&rig, NOBODY), open(&rig, NOBODY)];
    let answer = refused(&rig, NOBODY, &format!("{UPGRADE}{KEY}"));
    assert!(answer.status == 503 && answer.body.contains("http.websockets_max"), "{answer:?}");
    assert_eq!(rig.count(Counter::HttpWebSocketsRefused), 1);
    drop(both);
    rig.await_count(Counter::HttpWebSocketsOpen, 0);
    open(&rig, NOBODY);
    let none = start_with(Http { websockets_max: 0, ..Http::default() });
    assert_eq!(refused(&none, NOBODY, &format!("{UPGRADE}{KEY}")).status, 503);
}

#[test]
fn what_may_not_come_closes_it_with_a_code_and_is_counted() {
    let json = service::Json { line_bytes_max: 2_000, ..service::Json::default() };
    let rig = start_by(Config { json, ..Config::default() });
    let mut unmasked = frame(0x81, b"{}");
    unmasked.drain(2..6);
    unmasked[1] &= 0x7f;
    let too_long = frame(0x81, &[b' '; 2_001]);
    let cases = [
        ("no mask", unmasked, 1002),
        ("octets", frame(0x82, b"{}"), 1003),
        ("too long", too_long.clone(), 1009),
        ("announced to be too long", too_long[..8].to_vec(), 1009),
        ("too long in fragments", [frame(0x01, &[b' '; 1_500]), frame(0x80, &[b' '; 501])].concat(), 1009),
        ("no UTF-8", frame(0x81, b"\"\xff\""), 1007),
        ("a long ping", frame(0x89, &[0; 126]), 1002),
    ];
    let count = cases.len() as u64;
    for (name, octets, code) in cases {
        let mut client = open(&rig, NOBODY);
        client.write(&octets);
        assert_eq!(client.end().0, code, "{name}");
    }
    assert_eq!(rig.count(Counter::HttpWebSocketsBroken), count);
    // The longest that may be is a line like any other.
    let mut client = open(&rig, NOBODY);
    let longest = format!("{{\"op\":\"ping\",\"id\":1{}}}", " ".repeat(2_000 - 20));
    client.write(&frame(0x81, longest.as_bytes()));
    assert_eq!(client.line(), json!({ "ok": 1 }));
    // Two in one message are none.
    client.write(&frame(0x81, b"{\"op\":\"ping\",\"id\":2}\n{\"op\":\"ping\",\"id\":3}"));
    assert_eq!(client.line()["error"], Value::Null);
    rig.await_count(Counter::HttpWebSocketsBroken, count);
}

#[test]
fn a_message_that_is_not_ended_is_not_waited_for() {
    let rig = start_with(Http { request_within_ms: 2_000, ..Http::default() });
    let line = json!({ "op": "ping", "id": 1 }).to_string();
    let whole = frame(0x81, line.as_bytes());
    let mut halves = [open(&rig, NOBODY), open(&rig, NOBODY)];
    // Behind a whole one; and one with more fragments to come, and pongs meanwhile.
    halves[0].write(&[&whole[..], &whole[..5]].concat());
    assert_eq!(halves[0].line(), json!({ "ok": 1 }));
    halves[1].write(&[frame(0x01, b"{"), frame(0x8a, b"")].concat());
    let mut idle = open(&rig, NOBODY);
    for half in halves {
        let (code, why) = half.end();
        assert!(code == 1008 && why.contains("http.request_within_ms"), "{code} {why}");
    }
    // So many octets as it likes to send, but no end of them: of one frame, and in fragments.
    let (mut slow, mut fragments) = (open(&rig, NOBODY), open(&rig, NOBODY));
    slow.write(&frame(0x81, &[b' '; 60_000])[..8]);
    fragments.write(&frame(0x01, b"{"));
    let mut octets = 0..50_000;
    wait_until("both to be closed", || {
        // However fast they are sent, the frame has no end.
        if octets.next().is_some() {
            let _ = slow.stream.write(b" ");
        }
        let _ = fragments.stream.write(&frame(0x00, b""));
        rig.count(Counter::HttpSlowRequests) == 4
    });
    idle.send(&json!({ "op": "ping", "id": 2 }));
    assert_eq!(idle.line(), json!({ "ok": 2 }), "nothing was asked of it");
}

#[test]
fn a_client_that_does_not_answer_pings_is_closed_and_one_that_does_stays() {
    let rig = start_with(Http { websocket_ping_ms: 1_500, ..Http::default() });
    let (mut answers, silent) = (open(&rig, NOBODY), open(&rig, NOBODY));
    for _ in 0..2 {
        assert_eq!(answers.frame(), Some((0x89, Vec::new())));
        answers.write(&frame(0x8a, b""));
    }
    let (code, why) = silent.end();
    assert!(code == 1008 && why.contains("http.websocket_ping_ms"), "{code} {why}");
    assert_eq!(rig.count(Counter::HttpWebSocketsSilent), 1);
    assert_eq!(rig.count(Counter::HttpIdleClosed), 0);
}

/// Its connection is one for lines of JSON: its outbox fills, as `FullOutbox` says, and the limits of HTTP's answers are not for it.
#[test]
fn a_client_that_never_reads_fills_its_own_outbox_only() {
    let http = Http { answer_within_ms: 100, websocket_ping_ms: 1_000, ..Http::default() };
    let rig = start_with(http);
    let set = r#"{"channel":0,"properties":{"FullOutbox":"Discard","MaxEventsPerConsumer":50}}"#;
    assert_eq!(rig.post("/api/v1/qos", set).status, 200);
    let mut never = open(&rig, OWN);
    never.send(&json!({ "op": "subscribe", "id": 1 }));
    assert_eq!(never.line(), json!({ "ok": 1 }));
    let supplier = rig.supplier(None);
    let mut event = numbered(0);
    event.filterable_data.push(client::notify::Property::new("much", "x".repeat(60_000)));
    let mut published = 0_u64;
    wait_until("events to be dropped", || {
        supplier.publish(&event).unwrap();
        published += 1;
        rig.count(Counter::Dropped) > 0
    });
    // It asks for more, which is not read, and others are served meanwhile.
    never.send(&json!({ "op": "publish", "id": 2, "type": "Never/Read" }));
    let mut reads = open(&rig, OWN);
    for number in 0..20 {
        reads.send(&json!({ "op": "publish", "id": number, "type": "Is/Read" }));
        assert_eq!(reads.line(), json!({ "ok": number }));
    }
    // For longer than a ping and its answer may take: the other one is asked three times meanwhile.
    for _ in 0..3 {
        assert_eq!(reads.frame(), Some((0x89, Vec::new())));
        reads.write(&frame(0x8a, b""));
    }
    assert_eq!((rig.count(Counter::HttpSlowReaders), rig.count(Counter::HttpWebSocketsSilent)), (0, 0));
    assert_eq!(rig.count(Counter::HttpWebSocketsOpen), 2);
    // When it reads at last, it has what was kept, whole, and its own answer.
    let (mut events, mut is_answered) = (0, false);
    while events < 50 || !is_answered {
        let line = never.line();
        is_answered |= line["ok"] == 2;
        events += u64::from(line.get("event").is_some());
    }
    assert!(events < published + 20, "{events} of {published}");
}

#[test]
fn thousands_of_half_open_handshakes_are_no_bar_to_others() {
    let rig = start();
    let mut held: Vec<Box<dyn Connection>> = Vec::new();
    for number in 0..2_000_u16 {
        let who = Who { from: [127, 0, 0, u8::try_from(2 + number % 200).unwrap()], ..NOBODY };
        let mut stream = rig.connect_as(who);
        // It may be closed before that, for another.
        let _ = stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nUpgrade: webs");
        held.push(stream);
        if held.len() > 300 {
            held.remove(0);
        }
        if number % 500 == 499 {
            let mut client = open(&rig, NOBODY);
            client.send(&json!({ "op": "ping", "id": number }));
            assert_eq!(client.line(), json!({ "ok": number }));
        }
    }
    assert!(rig.count(Counter::HttpConnectionsGaveWay) > 1_000);
    assert_eq!(rig.count(Counter::HttpWebSocketsRefused), 0);
}

#[test]
fn it_is_spoken_over_tls() {
    let authority = Authority::new("console-websocket");
    let tls = secure(&authority, ClientCertificates::None);
    let rig = start_by(Config { tls, ..Config::default() });
    let trusting = trusting(&authority.file(), None);
    let mut client = open(&rig, Who { tls: Some(&trusting), ..OWN });
    client.send(&json!({ "op": "publish", "id": 1, "type": "A/B", "fields": { "text": "x".repeat(200_000) } }));
    assert_eq!(client.line(), json!({ "ok": 1 }));
    client.write(&frame(0x88, &1000_u16.to_be_bytes()));
    assert_eq!(client.frame(), Some((0x88, 1000_u16.to_be_bytes().to_vec())));
    assert_eq!(client.frame(), None);
    rig.await_count(Counter::HttpWebSocketsOpen, 0);
}

#[test]
fn a_service_that_ends_says_so() {
    let mut rig = start();
    let mut client = open(&rig, OWN);
    client.send(&json!({ "op": "ping", "id": 1 }));
    assert_eq!(client.line(), json!({ "ok": 1 }));
    let other = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
    drop(std::mem::replace(&mut rig.service, other));
    let (code, why) = client.end();
    assert!(code == 1001 && why.contains("service has ended"), "{code} {why}");
}
