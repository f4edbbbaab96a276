//! TLS: which clients are let in, what passes, and what is said of those that are not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use client::notify::StructuredEvent;
use client::{
    ConsumerOptions, Orb, OrbOptions, OrbTls, PublisherOptions, SimpleConsumer, SimpleSupplier, SupplierOptions,
};
use giop::ior::Ior;
use giop::value::AnyValue;
use service::{AccessRule, ClientCertificates, Config, Counter, Json, Limits, Service, Tls};
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::{NextInTime, patient};
use tls::{ClientEnd, Identity, Session, Trust};

use crate::json::{PING, PONG};
use crate::peers::{await_count, start_with, wait_until};

/// A connection with TLS and reads that wait.
pub(crate) struct Line {
    tcp: TcpStream,
    session: Session,
    plain: Vec<u8>,
}

impl Line {
    pub(crate) fn connect(address: SocketAddr, end: &ClientEnd) -> io::Result<Self> {
        let tcp = TcpStream::connect(address)?;
        patient(&tcp);
        let mut line = Self { tcp, session: end.session("localhost").unwrap(), plain: Vec::new() };
        let mut out = Vec::new();
        line.session.take_in(&mut [], |_| (), &mut out).map_err(io::Error::other)?;
        line.tcp.write_all(&out)?;
        while line.session.is_handshaking() {
            if line.take_in()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(line)
    }

    fn take_in(&mut self) -> io::Result<usize> {
        let (mut arrived, mut out) = ([0; 4096], Vec::new());
        let count = self.tcp.read(&mut arrived)?;
        let Self { session, plain, .. } = self;
        let result = session.take_in(&mut arrived[..count], |octets| plain.extend_from_slice(octets), &mut out);
        self.tcp.write_all(&out)?;
        result.map_err(io::Error::other)?;
        Ok(count)
    }

    /// What has come and is there.
    pub(crate) fn take_what_is_there(&mut self) -> Vec<u8> {
        self.tcp.set_nonblocking(true).unwrap();
        while self.take_in().is_ok_and(|count| count > 0) {}
        self.tcp.set_nonblocking(false).unwrap();
        std::mem::take(&mut self.plain)
    }

    pub(crate) fn send(&mut self, octets: &[u8]) {
        let mut sealed = vec![0; tls::sealed_bytes_max(octets.len())];
        let count = self.session.seal(octets, &mut sealed).unwrap();
        self.tcp.write_all(&sealed[..count]).unwrap();
    }

    /// The next octets that come.
    pub(crate) fn octets(&mut self, count: usize) -> Vec<u8> {
        while self.plain.len() < count {
            assert!(self.take_in().unwrap() > 0, "the end after {} octets of {count}", self.plain.len());
        }
        self.plain.drain(..count).collect()
    }

    /// The next line that comes; nothing at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.plain.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.plain.drain(..=at).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            match self.take_in() {
                Ok(count) if count > 0 && !self.session.has_ended() => {}
                _ => return None,
            }
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\n").as_bytes());
        self.line().expect("an answer")
    }
}

/// What a service has of an authority: its certificate and the authorities that it trusts.
pub(crate) fn settings(authority: &Authority) -> Tls {
    let Certified { certificate, key, .. } = authority.certify("service");
    Tls {
        listen: Some("127.0.0.1:0".into()),
        json_listen: Some("0".into()),
        tempo_listen: Some("0".into()),
        links_listen: Some("0".into()),
        certificate: Some(certificate),
        key: Some(key),
        client_ca: Some(authority.file()),
        ca: Some(authority.file()),
        ..Tls::default()
    }
}

pub(crate) fn end(authority: &Authority, certified: Option<&Certified>) -> ClientEnd {
    let identity = certified.map(|certified| Identity::read(&certified.certificate, &certified.key).unwrap());
    ClientEnd::new(Trust::read(&authority.file(), None).unwrap(), true, identity).unwrap()
}

fn json(service: &Service) -> SocketAddr {
    service.tls_addresses()[1].unwrap()
}

#[test]
fn lines_of_json_pass_through_tls_however_long_they_are() {
    let authority = Authority::new("service-json");
    let service = start_with(Config { tls: settings(&authority), ..Config::default() });
    let client = end(&authority, Some(&authority.certify("client")));
    let mut subscriber = Line::connect(json(&service), &client).unwrap();
    assert_eq!(subscriber.ask(r#"{"op":"subscribe","id":1}"#), r#"{"ok":1}"#);
    let mut publisher = Line::connect(json(&service), &client).unwrap();
    for octets in [1, 100, 16_000, 60_000, 200_000] {
        let text = "x".repeat(octets);
        let answer = publisher.ask(&format!(r#"{{"op":"publish","id":2,"type":"A/B","fields":{{"text":"{text}"}}}}"#));
        assert_eq!(answer, r#"{"ok":2}"#);
        let event = subscriber.line().unwrap();
        assert!(event.contains(&text), "{octets} octets: {}", event.len());
    }
    // Many at once, more than a socket takes.
    for number in 0..2_000 {
        let text = "y".repeat(1_000);
        publisher.send(
            format!("{{\"op\":\"publish\",\"type\":\"A/B\",\"fields\":{{\"n\":{number},\"t\":\"{text}\"}}}}\n")
                .as_bytes(),
        );
    }
    for number in 0..2_000 {
        let event = subscriber.line().unwrap();
        assert!(event.contains(&format!("\"n\":{number},")), "{number}: {event}");
    }
    assert_eq!(service.counters().read(Counter::TlsHandshakes), 2);
}

#[test]
fn a_client_that_has_no_certificate_or_a_wrong_one_is_not_let_in_and_is_counted() {
    let (authority, other) = (Authority::new("service-wrong"), Authority::new("service-other"));
    let revoked = authority.certify("revoked");
    let tls = Tls { crl: Some(authority.revoke(&[&revoked])), ..settings(&authority) };
    let service = start_with(Config { tls, ..Config::default() });
    let expired =
        authority.certify_as(&CertificateSpec { name: "expired", expired: true, ..CertificateSpec::default() });
    let by_itself =
        authority.certify_as(&CertificateSpec { name: "itself", by_itself: true, ..CertificateSpec::default() });
    let stranger = other.certify("stranger");
    let wrong = [None, Some(&revoked), Some(&expired), Some(&by_itself), Some(&stranger)];
    for (certified, count) in wrong.into_iter().zip(1..) {
        // With TLS 1.3 a client's handshake is over before its certificate was looked at.
        if let Ok(mut line) = Line::connect(json(&service), &end(&authority, certified)) {
            assert_eq!(line.line(), None, "{certified:?}");
        }
        await_count(&service, Counter::TlsCertificatesRefused, count);
    }
    assert_eq!(service.counters().read(Counter::TlsHandshakesFailed), 5);
    let mut good = Line::connect(json(&service), &end(&authority, Some(&authority.certify("good")))).unwrap();
    assert_eq!(good.ask(PING), PONG);
    // All places are free again.
    drop(good);
    await_count(&service, Counter::JsonConnectionsOpen, 0);
    await_count(&service, Counter::TlsHandshakesUnderWay, 0);
}

#[test]
fn tls_at_the_plain_ports_and_the_clear_at_those_for_tls_is_closed_and_counted() {
    let authority = Authority::new("service-mixed");
    let json = Json { listen: Some("0".into()), ..Json::default() };
    let tempo = service::Tempo { listen: Some("0".into()), ..service::Tempo::default() };
    let links = service::Links { listen: Some("0".into()), ..service::Links::default() };
    let service = start_with(Config { tls: settings(&authority), json, tempo, links, ..Config::default() });
    let client = end(&authority, None);
    let plain = [Some(service.address()), service.json_address(), service.tempo_address(), service.links_address()];
    for (address, count) in plain.into_iter().zip(1..) {
        assert!(Line::connect(address.unwrap(), &client).is_err());
        await_count(&service, Counter::TlsAtPlainPort, count);
    }
    for (address, count) in service.tls_addresses().into_iter().zip(1..) {
        let mut tcp = TcpStream::connect(address.unwrap()).unwrap();
        patient(&tcp);
        tcp.write_all(b"GIOP\x01\x02\x01\x00\x00\x00\x00\x00").unwrap();
        let mut rest = Vec::new();
        let _ = tcp.read_to_end(&mut rest);
        await_count(&service, Counter::TlsPlain, count);
    }
}

#[test]
fn handshake_that_takes_too_long_ends_and_keeps_no_other_waiting() {
    let authority = Authority::new("service-slow");
    let tls = Tls { handshake_ms: 3_000, ..settings(&authority) };
    let service = start_with(Config { tls, ..Config::default() });
    let slow: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(json(&service)).unwrap()).collect();
    let mut good = Line::connect(json(&service), &end(&authority, Some(&authority.certify("good")))).unwrap();
    assert_eq!(good.ask(PING), PONG);
    await_count(&service, Counter::TlsHandshakesOverdue, 50);
    for mut tcp in slow {
        patient(&tcp);
        let _ = tcp.read(&mut [0; 8]);
    }
    assert_eq!(service.counters().read(Counter::TlsHandshakesUnderWay), 0);
}

#[test]
fn certificates_are_read_again_without_a_restart_and_connections_stay() {
    let (authority, next) = (Authority::new("service-first"), Authority::new("service-next"));
    let tls = Tls { clients: Some(ClientCertificates::None), client_ca: None, ca: None, ..settings(&authority) };
    let (certificate, key) = (tls.certificate.clone().unwrap(), tls.key.clone().unwrap());
    let service = start_with(Config { tls, ..Config::default() });
    let mut before = Line::connect(json(&service), &end(&authority, None)).unwrap();
    assert!(Line::connect(json(&service), &end(&next, None)).is_err());
    // What cannot be used changes nothing.
    std::fs::write(&certificate, "no certificate").unwrap();
    assert!(service.reload_tls().unwrap_err().to_string().contains("no certificate in PEM"));
    Line::connect(json(&service), &end(&authority, None)).unwrap();
    let new = next.certify("service");
    std::fs::copy(&new.certificate, &certificate).unwrap();
    std::fs::copy(&new.key, &key).unwrap();
    assert!(service.reload_tls().unwrap());
    assert!(Line::connect(json(&service), &end(&authority, None)).is_err());
    let mut after = Line::connect(json(&service), &end(&next, None)).unwrap();
    assert_eq!((before.ask(PING), after.ask(PING)), (PONG.to_owned(), PONG.to_owned()));
}

/// Settings of an orb that speaks TLS alone.
fn orb(authority: &Authority, name: &str) -> OrbOptions {
    let Certified { certificate, key, .. } = authority.certify(name);
    let tls = OrbTls::trusting(authority.file()).with_identity(certificate, key);
    OrbOptions { tls: Some(tls), ..OrbOptions::default() }
}

fn required(authority: &Authority) -> Service {
    let tls = Tls { required: true, ..settings(authority) };
    start_with(Config { tls, ..Config::default() })
}

/// A consumer of everything in the default channel, and the events that it gets.
fn consumer(service: &Service, orb: OrbOptions) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (sender, received) = channel();
    let options = ConsumerOptions { orb, ..ConsumerOptions::default() };
    let url = service.corbaloc("NotificationService");
    let consumer = SimpleConsumer::connect(&url, None, options, move |event| {
        let _ = sender.send(event.event().unwrap());
        Ok(())
    });
    (consumer.unwrap(), received)
}

fn supplier(service: &Service, orb: OrbOptions) -> SimpleSupplier {
    let options = SupplierOptions { orb, ..SupplierOptions::default() };
    SimpleSupplier::connect_with(&service.corbaloc("NotificationService"), None, options).unwrap()
}

fn event(octets: usize) -> StructuredEvent {
    StructuredEvent { remainder: AnyValue::from("x".repeat(octets).as_str()), ..StructuredEvent::new("A", "B", "") }
}

#[test]
fn with_tls_required_events_pass_from_supplier_to_consumer_and_nothing_is_in_the_clear() {
    let authority = Authority::new("service-required");
    let service = required(&authority);
    let reference: Ior = service.reference().parse().unwrap();
    let profile = reference.iiop().unwrap();
    let secure = profile.secure_transport().unwrap();
    assert_eq!((profile.port, Some(secure.port)), (0, service.tls_addresses()[0].map(|address| address.port())));
    assert!(service.corbaloc("NotificationService").starts_with("corbaloc:ssliop:"));
    let (_consumer, received) = consumer(&service, orb(&authority, "consumer"));
    let supplier = supplier(&service, orb(&authority, "supplier"));
    for octets in 0..500 {
        supplier.publish(&event(octets)).unwrap();
        assert_eq!(received.next_in_time(), event(octets));
    }
    // A client that speaks in the clear is answered why not.
    let plain = Orb::new(OrbOptions::default());
    let asked = plain.resolve(&service.corbaloc("NotificationService")).and_then(|object| object.is_a("IDL:x:1.0"));
    let error = asked.unwrap_err().to_string();
    assert!(error.contains("over TLS"), "{error}");
}

#[test]
fn large_events_pass_both_ways_through_tls() {
    let authority = Authority::new("service-large");
    let service = required(&authority);
    let (_consumer, received) = consumer(&service, orb(&authority, "consumer"));
    let supplier = supplier(&service, orb(&authority, "supplier"));
    for octets in [100, 16_000, 17_000, 70_000, 1_000_000, 5_000_000] {
        supplier.publish(&event(octets)).unwrap();
        assert!(received.next_in_time() == event(octets), "{octets} octets");
    }
}

#[test]
fn a_publisher_that_does_not_wait_loses_nothing_through_tls() {
    let authority = Authority::new("service-publisher");
    let service = required(&authority);
    let (_consumer, received) = consumer(&service, orb(&authority, "consumer"));
    let supplier = supplier(&service, orb(&authority, "supplier"));
    let mut publisher = supplier.publisher(PublisherOptions::default()).unwrap();
    for octets in (0..3_000).map(|number| number % 1_500) {
        publisher.publish(&event(octets)).unwrap();
    }
    publisher.flush();
    for octets in (0..3_000).map(|number| number % 1_500) {
        assert!(received.next_in_time() == event(octets), "{octets} octets");
    }
}

#[test]
fn consumer_in_the_clear_is_served_beside_one_over_tls_unless_tls_is_required() {
    let authority = Authority::new("service-both");
    let service = start_with(Config { tls: settings(&authority), ..Config::default() });
    let (_plain, in_the_clear) = consumer(&service, OrbOptions::default());
    let url = format!("corbaloc:ssliop:1.2@{}/NotificationService", service.tls_addresses()[0].unwrap());
    let (sender, over_tls) = channel();
    let options = ConsumerOptions { orb: orb(&authority, "consumer"), ..ConsumerOptions::default() };
    let _secure = SimpleConsumer::connect(&url, None, options, move |event| {
        let _ = sender.send(event.event().unwrap());
        Ok(())
    })
    .unwrap();
    supplier(&service, OrbOptions::default()).publish(&event(10)).unwrap();
    assert_eq!((in_the_clear.next_in_time(), over_tls.next_in_time()), (event(10), event(10)));
    // That of the client, and that of the call to the consumer.
    assert!(service.counters().read(Counter::TlsHandshakes) >= 2);
}

#[test]
fn consumer_whose_certificate_is_wrong_is_not_called_and_it_is_counted() {
    let (authority, other) = (Authority::new("service-calls"), Authority::new("service-calls-other"));
    let tls = Tls { client_ca: None, required: true, ..settings(&authority) };
    let service = start_with(Config { tls, ..Config::default() });
    // Whom it calls need not know it, but it shows them what they do not trust.
    let Certified { certificate, key, .. } = other.certify("consumer");
    let tls = Some(OrbTls::trusting(authority.file()).with_identity(certificate, key));
    let (_consumer, received) = consumer(&service, OrbOptions { tls, ..OrbOptions::default() });
    supplier(&service, orb(&authority, "supplier")).publish(&event(1)).unwrap();
    let counters = service.counters();
    wait_until("its certificate to be refused", || counters.read(Counter::TlsCertificatesRefused) > 0);
    wait_until("the connection to fail", || counters.read(Counter::ConnectsFailed) > 0);
    assert!(received.try_recv().is_err());
}

#[test]
fn handshakes_are_bounded_for_all_and_for_each_address_and_the_others_are_closed() {
    let authority = Authority::new("service-many");
    for (client_quota_percent, counter) in [(75, Counter::HandshakesQuota), (100, Counter::HandshakesLimit)] {
        let limits = Limits { client_quota_percent, ..Limits::default() };
        let service = start_with(Config { tls: settings(&authority), limits, ..Config::default() });
        let idle: Vec<TcpStream> = (0..1_100).map(|_| TcpStream::connect(json(&service)).unwrap()).collect();
        wait_until("the limit to be reached", || service.counters().read(counter) > 0);
        wait_until("them to have begun", || service.counters().read(Counter::TlsHandshakesUnderWay) > 700);
        // As soon as there is a place, another connection has it.
        drop(idle);
        wait_until("them to be gone", || service.counters().read(Counter::TlsHandshakesUnderWay) == 0);
        let mut good = Line::connect(json(&service), &end(&authority, Some(&authority.certify("good")))).unwrap();
        assert_eq!(good.ask(PING), PONG);
    }
}

/// A rule that allows all to one certificate.
fn all_to(who: &str) -> AccessRule {
    let may = ["publish", "subscribe", "administer"].map(str::to_owned).to_vec();
    AccessRule { name: None, who: vec![who.into()], may, on: vec![], types: vec![], allow: true }
}

#[test]
fn rules_of_access_know_clients_by_their_certificates_in_every_protocol() {
    let authority = Authority::new("service-access");
    let tls = Tls { required: true, ..settings(&authority) };
    let access = vec![all_to("certificate:CN=console,*"), all_to("certificate:CN=plant 7,*")];
    let service = start_with(Config { tls, access, ..Config::default() });
    for (name, is_allowed) in [("console", true), ("plant 7", true), ("plant 8", false)] {
        let mut line = Line::connect(json(&service), &end(&authority, Some(&authority.certify(name)))).unwrap();
        let answer = line.ask(r#"{"op":"publish","id":2,"type":"A/B","fields":{"x":1}}"#);
        assert_eq!(answer == r#"{"ok":2}"#, is_allowed, "{name}: {answer}");
        let options = SupplierOptions { orb: orb(&authority, name), ..SupplierOptions::default() };
        let url = service.corbaloc("NotificationService");
        let connected =
            SimpleSupplier::connect_with(&url, None, options).and_then(|supplier| supplier.publish(&event(1)));
        assert_eq!(connected.is_ok(), is_allowed, "{name}: {connected:?}");
    }
}

#[test]
fn where_nothing_may_be_in_the_clear_http_stays_on_this_host() {
    let authority = Authority::new("tls-http");
    let mut config = Config { tls: Tls { required: true, ..settings(&authority) }, ..Config::default() };
    config.http.token_file = Some("token".into());
    for (listen, may) in [("127.0.0.1:0", true), ("0.0.0.0:0", false), ("192.0.2.7:80", false)] {
        config.http.listen = Some(listen.into());
        let address = config.http_listen_address();
        assert_eq!(address.is_ok(), may, "{listen}");
        assert!(may || address.unwrap_err().to_string().contains("http.listen"));
    }
}
