//! HTTP over TLS: the same answers, to clients that are known by their certificates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use service::{ClientCertificates, Config, Counter, Http, Tls};
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::{patient, unless_closed, wait_until};

use crate::access::rule;
use crate::support::{Answer, Rig, secured, start_by};

/// Settings for HTTP over TLS alone, and the clients that may connect.
pub(crate) fn secure(authority: &Authority, clients: ClientCertificates) -> Tls {
    let Certified { certificate, key, .. } = authority.certify("service");
    Tls {
        http_listen: Some("0".into()),
        certificate: Some(certificate),
        key: Some(key),
        client_ca: (clients != ClientCertificates::None).then(|| authority.file()),
        clients: Some(clients),
        ..Tls::default()
    }
}

fn start(tls: Tls) -> Rig {
    start_by(Config { tls, ..Config::default() })
}

/// A browser's side.
pub(crate) fn trusting(authority: &Path, identity: Option<&Certified>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificates = |path: &Path| CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap);
    certificates(authority).for_each(|certificate| roots.add(certificate).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(Certified { certificate, key, .. }) => {
            let key = PrivateKeyDer::from_pem_file(key).unwrap();
            builder.with_client_auth_cert(certificates(certificate).collect(), key).unwrap()
        }
    };
    Arc::new(config)
}

fn connect(rig: &Rig) -> TcpStream {
    let stream = TcpStream::connect(rig.console.secure_address().unwrap()).unwrap();
    patient(&stream);
    stream
}

/// What is answered, or why nothing is.
fn ask(rig: &Rig, config: &Arc<ClientConfig>, request: &str) -> std::io::Result<Answer> {
    let mut stream = secured(connect(rig), config);
    stream.write_all(request.as_bytes())?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    Ok(Answer::of(all))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

#[test]
fn what_is_answered_over_tls_is_what_is_answered_in_the_clear() {
    let authority = Authority::new("https-same");
    let tls = secure(&authority, ClientCertificates::None);
    let http = Http { listen: Some("0".into()), ..Http::default() };
    let rig = start_by(Config { tls, http, ..Config::default() });
    let browser = trusting(&authority.file(), None);
    for path in ["/", "/healthz", "/api/v1/channels", "/nothing"] {
        let (secret, plain) = (ask(&rig, &browser, &get(path)).unwrap(), rig.get(path));
        assert_eq!((secret.status, secret.body), (plain.status, plain.body), "{path}");
    }
    assert_eq!(rig.count(Counter::TlsHandshakes), 4);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
    assert_eq!(rig.count(Counter::TlsHandshakesUnderWay), 0);
    // A page of the same host is one over TLS, too.
    let origin = |site: &str| {
        format!("GET /api/v1/channels HTTP/1.1\r\nHost: localhost\r\nOrigin: {site}\r\nConnection: close\r\n\r\n")
    };
    assert_eq!(ask(&rig, &browser, &origin("https://localhost")).unwrap().status, 200);
    assert_eq!(ask(&rig, &browser, &origin("https://evil.example")).unwrap().status, 403);
}

#[test]
fn a_certificate_is_what_rules_know_a_client_by() {
    let authority = Authority::new("https-rules");
    let rule = rule(&["certificate:CN=operator,O=Tests"], &["administer"], &[], &[], true);
    let tls = secure(&authority, ClientCertificates::Requested);
    let rig = start_by(Config { tls, access: vec![rule], ..Config::default() });
    let body = r#"{"channel":0,"proxy":0}"#;
    let post = format!(
        "POST /api/v1/disconnect HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\n\r\n{body}",
        body.len()
    );
    let as_whom = |name: &str| ask(&rig, &trusting(&authority.file(), Some(&authority.certify(name))), &post).unwrap();
    assert_eq!(as_whom("operator").status, 409, "there is no such proxy, as it may know");
    assert_eq!(as_whom("somebody").status, 403);
    assert_eq!(ask(&rig, &trusting(&authority.file(), None), &post).unwrap().status, 403);
    rig.await_count(Counter::DeniedAdminister, 2);
}

#[test]
fn a_client_that_has_no_certificate_that_counts_is_let_in_nowhere() {
    let authority = Authority::new("https-required");
    let stranger = Authority::new("https-stranger");
    let rig = start(secure(&authority, ClientCertificates::Required));
    let own = authority.certify("plant");
    assert_eq!(ask(&rig, &trusting(&authority.file(), Some(&own)), &get("/healthz")).unwrap().status, 200);
    let expired = authority.certify_as(&CertificateSpec { name: "late", expired: true, ..CertificateSpec::default() });
    let by_itself =
        authority.certify_as(&CertificateSpec { name: "self", by_itself: true, ..CertificateSpec::default() });
    for wrong in [None, Some(&expired), Some(&by_itself), Some(&stranger.certify("plant"))] {
        ask(&rig, &trusting(&authority.file(), wrong), &get("/healthz")).unwrap_err();
    }
    rig.await_count(Counter::TlsCertificatesRefused, 4);
    assert_eq!(rig.count(Counter::TlsHandshakesFailed), 4);
    // And a browser that does not trust the service says so.
    ask(&rig, &trusting(&stranger.file(), Some(&own)), &get("/healthz")).unwrap_err();
    rig.await_count(Counter::TlsHandshakesFailed, 5);
    assert_eq!(rig.count(Counter::HttpRequests), 1);
}

#[test]
fn other_certificates_count_from_the_next_handshake_on() {
    let (former, later) = (Authority::new("https-former"), Authority::new("https-later"));
    let tls = secure(&former, ClientCertificates::None);
    let (certificate, key) = (tls.certificate.clone().unwrap(), tls.key.clone().unwrap());
    let rig = start(tls);
    let of = |authority: &Authority| ask(&rig, &trusting(&authority.file(), None), &get("/healthz"));
    assert_eq!(of(&former).unwrap().status, 200);
    let renewed = later.certify("service");
    std::fs::copy(renewed.certificate, certificate).unwrap();
    std::fs::copy(renewed.key, key).unwrap();
    rig.service.reload_tls().unwrap();
    of(&former).unwrap_err();
    assert_eq!(of(&later).unwrap().status, 200);
}

#[test]
fn a_client_that_speaks_in_the_clear_to_tls_gets_a_refusal_and_the_reverse_is_noticed() {
    let authority = Authority::new("https-plain");
    let tls = secure(&authority, ClientCertificates::None);
    let http = Http { listen: Some("0".into()), ..Http::default() };
    let rig = start_by(Config { tls, http, ..Config::default() });
    let mut plain = connect(&rig);
    plain.write_all(get("/metrics").as_bytes()).unwrap();
    let mut told = Vec::new();
    plain.read_to_end(&mut told).unwrap();
    let told = Answer::of(told);
    assert!(told.status == 400 && told.body.contains("write https://"), "{told:?}");
    rig.await_count(Counter::TlsPlain, 1);
    assert_eq!(rig.count(Counter::TlsHandshakesFailed), 1, "as at the other ports");

    let mut mistaken = secured(rig.connect(), &trusting(&authority.file(), None));
    assert!(mistaken.write_all(get("/metrics").as_bytes()).and_then(|()| mistaken.read(&mut [0; 16])).is_err());
    rig.await_count(Counter::TlsAtPlainPort, 1);
    assert_eq!(rig.count(Counter::HttpMalformed), 0);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
}

#[test]
fn a_handshake_that_does_not_go_on_ends_and_others_are_served_meanwhile() {
    let authority = Authority::new("https-mute");
    let tls = Tls { handshake_ms: 2_000, ..secure(&authority, ClientCertificates::None) };
    let rig = start(tls);
    // One says nothing, one begins, one is gone at once.
    let mute = connect(&rig);
    let mut begun = connect(&rig);
    begun.write_all(&[0x16, 0x03, 0x01, 0x02]).unwrap();
    drop(connect(&rig));
    assert_eq!(ask(&rig, &trusting(&authority.file(), None), &get("/healthz")).unwrap().status, 200);
    for mut stream in [mute, begun] {
        while unless_closed(stream.read(&mut [0; 64])).is_some_and(|octets| octets > 0) {}
    }
    rig.await_count(Counter::TlsHandshakesOverdue, 2);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
    assert_eq!(rig.count(Counter::TlsHandshakesFailed), 3);
    // One that is over is bounded as any connection is.
    let mut slow = secured(connect(&rig), &trusting(&authority.file(), None));
    slow.write_all(b"GET / HTTP/1.1\r\nHost: lo").unwrap();
    wait_until("its connection to be there", || rig.count(Counter::HttpConnectionsOpen) == 1);
    drop(slow);
    rig.await_count(Counter::HttpConnectionsOpen, 0);
}
