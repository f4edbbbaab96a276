//! Clients that mean harm, or do it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use service::{Counter, Http};
use testing::{unless_closed, wait_until};

use crate::support::{NOBODY, Rig, TOKEN, Who, numbered, start, start_with};

/// Reads until the other side has closed.
fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Some(count) = unless_closed(stream.read(&mut buffer)).filter(|count| *count > 0) {
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn impatient() -> Rig {
    start_with(Http { request_within_ms: 2_000, answer_within_ms: 2_000, ..Http::default() })
}

#[test]
fn a_name_that_is_not_this_hosts_is_refused_whatever_is_asked() {
    let rig = start_with(Http { hosts: vec!["gateway.example".into()], ..Http::default() });
    let ask =
        |host: &str| rig.send(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status;
    let port = rig.address().port();
    assert_eq!([ask("localhost"), ask(&format!("127.0.0.1:{port}")), ask("gateway.example")], [200, 200, 200]);
    assert_eq!(
        [ask("evil.example"), ask(&format!("evil.example:{port}")), ask("127.0.0.1.evil.example")],
        [421, 421, 421]
    );
    assert_eq!(rig.send("GET /metrics HTTP/1.0\r\n\r\n").status, 421, "no name at all");
    assert_eq!(rig.count(Counter::HttpHostsRefused), 4);
}

#[test]
fn nothing_is_changed_without_the_token_or_by_another_sites_page() {
    let rig = start();
    let (_proxy, _mute) = rig.mute_consumer(None, &[]);
    let (json, token) = ("Content-Type: application/json\r\n", format!("Authorization: Bearer {TOKEN}\r\n"));
    let ask = |fields: &str| rig.post_with("/api/v1/disconnect", fields, r#"{"channel":0,"proxy":0}"#);
    let answer = ask(json);
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    assert_eq!(ask(&format!("{json}Authorization: Bearer {}\r\n", TOKEN.replace('0', "1"))).status, 401);
    assert_eq!(ask(&format!("{json}Cookie: token={TOKEN}\r\n")).status, 401, "a browser sends cookies unasked");
    for page in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(ask(&format!("{json}{token}{page}")).status, 403);
    }
    // What a form of another site's page can send without asking first.
    assert_eq!(ask(&format!("{token}Content-Type: text/plain\r\n")).status, 400);
    let in_path = rig.get("/api/v1/disconnect?channel=0&proxy=0");
    assert_eq!(in_path.status, 404, "what is asked changes nothing");
    assert_eq!(rig.count(Counter::ClientsDismissed), 0);
    assert_eq!((rig.count(Counter::HttpUnauthorized), rig.count(Counter::HttpCrossSiteRefused)), (3, 3));
    assert_eq!(
        ask(&format!("{json}{token}Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", rig.address())).status,
        200
    );
    rig.await_count(Counter::ClientsDismissed, 1);
    let preflight = format!(
        "OPTIONS /api/v1/disconnect HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n",
        rig.address()
    );
    let answer = rig.send(&preflight);
    assert!(answer.status == 405 && !answer.head.contains("access-control"), "{answer:?}");
}

#[test]
fn paths_are_what_they_are() {
    let rig = start();
    for path in [
        "/../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/metrics/",
        "//metrics",
        "/metrics/..",
        "/%6detrics",
        "/api/v1/../../metrics",
        "/api/v1/channels/+0",
        "/api/v1/channels/00",
        "/api/v1/channels/-1",
        "/api/v1/channels/4294967296",
        "/api/v1/",
        "/api/v2/service",
        "/api/v1/channels/0/",
        "/nothing\\..\\metrics",
    ] {
        assert_eq!(rig.get(path).status, 404, "{path}");
    }
    assert_eq!(rig.count(Counter::HttpNotFound), 15);
    let methods = ["PUT", "DELETE", "TRACE", "BREW"];
    for method in methods {
        let ask =
            |path: &str| rig.send(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        let answer = ask("/metrics");
        assert!(answer.status == 405 && answer.head.contains("allow: get, head"), "{answer:?}");
        assert_eq!(ask("/api/v1/disconnect").status, 405);
    }
    assert_eq!(rig.count(Counter::HttpNotFound), 23);
}

#[test]
fn a_hundred_megabytes_of_header_are_not_read() {
    let rig = start();
    let mut stream = rig.connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    let piece = [b'x'; 64 << 10];
    let mut written = 0_u64;
    while written < 100 << 20 {
        match stream.write(&piece) {
            Ok(count) => written += count as u64,
            Err(error) => {
                assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()), "{error}");
                break;
            }
        }
    }
    // What the system keeps of it, on both sides, is a few of these.
    assert!(written < 32 << 20, "{written} octets were taken");
    rig.await_count(Counter::HttpMalformed, 1);
    let many: String = (0..1_000).map(|number| format!("X-{number}: 1\r\n")).collect();
    let answer = rig.send(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"));
    assert_eq!(answer.status, 431);
    rig.await_count(Counter::HttpMalformed, 2);
    assert_eq!(rig.send("\u{17}\u{3}\u{1} what is this\r\n\r\n").status, 400);
    rig.await_count(Counter::HttpMalformed, 3);
    assert_eq!(rig.get("/healthz").status, 200);
}

#[test]
fn a_request_that_does_not_come_is_not_waited_for() {
    let rig = impatient();
    // Nothing at all, the half of a head, the half of a second one, and the half of a body.
    let mut silent = rig.connect();
    let mut half = rig.connect();
    half.write_all(b"GET /metrics HTT").unwrap();
    let mut second = rig.connect();
    second.write_all(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        assert_eq!(second.read(&mut octet).unwrap(), 1);
        answer.push(octet[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    second.write_all(b"GET").unwrap();
    assert_eq!([read_all(&mut silent), read_all(&mut half), read_all(&mut second)], ["", "", ""].map(str::to_owned));
    rig.await_count(Counter::HttpSlowRequests, 3);
    let mut body = rig.connect();
    let head = format!(
        "POST /api/v1/qos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: 100\r\n\r\n{{\"chan"
    );
    body.write_all(head.as_bytes()).unwrap();
    let answer = read_all(&mut body);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not come in time"), "{answer}");
    rig.await_count(Counter::HttpSlowRequests, 4);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let rig = start();
    let body = format!("{{\"channel\":0,\"proxy\":0{}}}", " ".repeat(65 << 10));
    let answer = rig.post("/api/v1/disconnect", &body);
    assert!(answer.status == 400 && answer.body.contains("64 KiB"), "{answer:?}");
    assert_eq!(rig.count(Counter::HttpBodiesRefused), 1);
}

#[test]
fn a_scraper_that_reads_an_octet_now_and_then_is_closed() {
    let rig = start_with(Http { answer_within_ms: 3_000, consumers_max: 1_000, ..Http::default() });
    // So that the answer is more than the system keeps for a client that does not read.
    rig.idle_consumers(1_000);
    rig.supplier(None).publish(&numbered(1)).unwrap();
    let mut stream = rig.connect();
    rustix_small_window(&stream);
    let mut octets = 0_u64;
    wait_until("1,000 consumers to be listed", || rig.get("/metrics").body.len() > 1 << 20);
    let before = rig.count(Counter::HttpSlowReaders);
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    wait_until("it to be closed", || {
        // So few that the answer does not come to its end, however fast they are read.
        if octets < 400_000 {
            octets += u64::from(unless_closed(stream.read(&mut [0])) == Some(1));
        }
        rig.count(Counter::HttpSlowReaders) == before + 1
    });
    assert!(octets > 0);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
}

/// Has the system keep little for a client that does not read. What was announced already cannot be taken back.
fn rustix_small_window(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, 4_096).unwrap();
}

#[test]
fn where_all_connections_are_being_answered_there_are_places_for_health_and_administration() {
    let rig = start_with(Http { connections_max: 3, ..Http::default() });
    let watch = || {
        let mut stream = rig.connect();
        write!(stream, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let open: Vec<TcpStream> = (0..3).map(|_| watch()).collect();
    rig.await_count(Counter::HttpStreamsOpen, 3);
    // They are asked one after the other; more that ask nothing give way to each other, and to those that do.
    let idle: Vec<TcpStream> = (0..9).map(|_| rig.connect()).collect();
    for _ in 0..6 {
        assert_eq!([rig.get("/healthz").status, rig.get("/readyz").status], [200, 200]);
    }
    assert_eq!(rig.get("/metrics").status, 503, "all that can wait does");
    let administered = rig.post("/api/v1/disconnect-idle", r#"{"idle_ms":3600000}"#);
    assert_eq!(administered.status, 200, "{administered:?}");
    assert_eq!(rig.count(Counter::HttpConnectionsGaveWay), 0, "a connection that is being answered does not give way");
    assert!(rig.count(Counter::HttpConnectionsLimit) > 9);
    drop((open, idle));
    rig.await_count(Counter::HttpConnectionsOpen, 0);
    assert_eq!(rig.get("/metrics").status, 200);
}

/// A few places are every address's, whatever its share: three addresses held all 64, and a fourth found `/healthz` closed, by which an
/// orchestrator takes a healthy service for a dead one.
#[test]
fn three_addresses_that_hold_all_connections_and_ask_nothing_give_way() {
    let rig = start();
    let hold = |from: u8| {
        let who = Who { from: [127, 0, 0, from], ..NOBODY };
        let mut held = Vec::new();
        let refused = |rig: &Rig| rig.count(Counter::HttpConnectionsQuota);
        let before = (refused(&rig), rig.count(Counter::HttpConnectionsGaveWay));
        while (refused(&rig), rig.count(Counter::HttpConnectionsGaveWay)) == before {
            let accepted = rig.count(Counter::HttpConnectionsAccepted);
            held.push(rig.connect_as(who));
            rig.await_count(Counter::HttpConnectionsAccepted, accepted + 1);
        }
        held
    };
    let held = [hold(2), hold(3), hold(4)];
    assert_eq!(rig.count(Counter::HttpConnectionsOpen), 64, "{:?}", held.each_ref().map(Vec::len));
    // Some have asked for half of something.
    let gave_way = rig.count(Counter::HttpConnectionsGaveWay);
    let fourth = Who { from: [127, 0, 0, 5], ..NOBODY };
    for _ in 0..3 {
        assert_eq!(rig.get_as(fourth, "/healthz").status, 200);
        assert_eq!(rig.get_as(fourth, "/metrics").status, 200);
    }
    // Of the six one gave way at least to the first, and it was of the address with most.
    assert!(rig.count(Counter::HttpConnectionsGaveWay) > gave_way);
    assert_eq!(rig.count(Counter::HttpConnectionsLimit), 0);
    let [mut most, ..] = held;
    assert!(unless_closed(most[0].read(&mut [0; 16])).is_none_or(|count| count == 0), "the longest idle one of it");
}

/// A target in the absolute form that named another host was answered, and of two `Origin` fields the first counted.
#[test]
fn a_request_for_another_host_is_refused_in_whichever_form_it_comes() {
    let rig = start();
    let get = |target: &str| {
        rig.send(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).status
    };
    assert_eq!([get("/metrics"), get("http://localhost/metrics")], [200, 200]);
    assert_eq!([get("http://evil.example/metrics"), get("http://evil.example/healthz")], [421, 421]);
    let fields = format!("Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n");
    let own = format!("Origin: http://{}\r\n", rig.address());
    let post = |more: &str| {
        rig.post_with("/api/v1/disconnect-idle", &format!("{fields}{more}"), r#"{"idle_ms":3600000}"#).status
    };
    assert_eq!(post(&own), 200);
    assert_eq!(post(&format!("{own}Origin: http://evil.example\r\n")), 403);
    assert_eq!(post(&format!("{own}{own}")), 403);
    assert_eq!(post("Authorization: Bearer another\r\n"), 401);
}

#[test]
fn one_address_leaves_room_for_others() {
    let rig = start_with(Http { connections_max: 16, ..Http::default() });
    // Three quarters: what is the most that one may have.
    let open: Vec<TcpStream> = (0..12).map(|_| rig.connect()).collect();
    rig.await_count(Counter::HttpConnectionsOpen, 12);
    let mut beyond = rig.connect();
    assert_eq!(read_all(&mut beyond), "");
    assert_eq!(
        [Counter::HttpConnectionsQuota, Counter::HttpConnectionsLimit].map(|counter| rig.count(counter)),
        [1, 0]
    );
    let other = Who { from: [127, 0, 0, 2], ..NOBODY };
    assert_eq!(rig.get_as(other, "/healthz").status, 200);
    drop(open);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
    assert_eq!(rig.get("/healthz").status, 200);
}

#[test]
fn a_live_stream_reports_and_ends_with_its_reader_and_their_number_is_bounded() {
    let rig = start();
    let watch = || {
        let mut stream = rig.connect();
        write!(stream, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..32).map(|_| watch()).collect();
    rig.await_count(Counter::HttpStreamsOpen, 32);
    assert_eq!(rig.get("/api/v1/live").status, 503);
    assert_eq!(rig.count(Counter::HttpStreamsRefused), 1);
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while text.matches("event: standing").count() < 2 {
        let count = streams[0].read(&mut buffer).unwrap();
        assert!(count > 0);
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    streams.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
    drop(streams);
    rig.await_count(Counter::HttpStreamsOpen, 0);
}

#[test]
fn http_ends_while_others_read() {
    let rig = start();
    let mut stream = rig.connect();
    write!(stream, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    rig.await_count(Counter::HttpStreamsOpen, 1);
    drop(rig);
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 200"));
}
