//! SSLIOP: programs of both orbs over TLS, in all pairings, with a service that serves and calls nobody in the clear.

use std::path::Path;
use std::process::Command;

use service::{Config, Counter, Service, Tls};
use testing::certificates::{Authority, Certified};

use interop::{Ended, Orb, Peer, service_with};

/// Two rounds of all shapes.
const EVENTS: u32 = 34;
/// What the key stores of Java are locked with; they go with the test.
const PASSWORD: &str = "changeit";

fn start(authority: &Authority, required: bool) -> Service {
    service_with(Config { tls: settings(authority, required), ..Config::default() })
}

pub(crate) fn settings(authority: &Authority, required: bool) -> Tls {
    let Certified { certificate, key, .. } = authority.certify("service");
    Tls {
        listen: Some("127.0.0.1:0".into()),
        certificate: Some(certificate),
        key: Some(key),
        client_ca: Some(authority.file()),
        ca: Some(authority.file()),
        required,
        ..Tls::default()
    }
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have names in UTF-8")
}

/// The words with which a program of an orb speaks TLS alone and shows a certificate that is called so.
pub(crate) fn words(orb: Orb, authority: &Authority, trusted: &Authority, name: &str) -> String {
    let Certified { certificate, key, .. } = authority.certify(name);
    match orb {
        Orb::OmniOrb => {
            let both = authority.folder().join(format!("{name}.both.pem"));
            let pem = [&certificate, &key].map(|file| std::fs::read_to_string(file).expect("a file of the test"));
            std::fs::write(&both, pem.concat()).expect("a file of the test");
            format!(
                "--transport ssl --orb sslCAFile={} --orb sslKeyFile={} --orb sslKeyPassword= --orb sslVerifyMode=peer,fail",
                text(&trusted.file()),
                text(&both)
            )
        }
        Orb::JacOrb => {
            let (bundle, store) =
                (authority.folder().join(format!("{name}.p12")), authority.folder().join(format!("{name}.jks")));
            let _ = std::fs::remove_file(&store);
            let pass = format!("pass:{PASSWORD}");
            run(
                "openssl",
                &[
                    "pkcs12",
                    "-export",
                    "-in",
                    text(&certificate),
                    "-inkey",
                    text(&key),
                    "-name",
                    name,
                    "-out",
                    text(&bundle),
                    "-passout",
                    &pass,
                ],
            );
            let keytool = |rest: &[&str]| {
                let common = ["-noprompt", "-storepass", PASSWORD, "-keystore", text(&store)];
                run("keytool", &[rest, &common].concat());
            };
            let source = ["-srckeystore", text(&bundle), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD];
            let into =
                ["-deststoretype", "JKS", "-deststorepass", PASSWORD, "-destkeystore", text(&store), "-noprompt"];
            run("keytool", &[&["-importkeystore"][..], &source, &into].concat());
            keytool(&["-importcert", "-alias", "authority", "-file", text(&trusted.file())]);
            let factory = "org.jacorb.security.ssl.sun_jsse";
            // Options are hexadecimal: what TLS does, and both sides' certificates.
            [
                "jacorb.security.support_ssl=on".to_owned(),
                format!("jacorb.ssl.socket_factory={factory}.SSLSocketFactory"),
                format!("jacorb.ssl.server_socket_factory={factory}.SSLServerSocketFactory"),
                format!("jacorb.security.keystore={}", text(&store)),
                format!("jacorb.security.keystore_password={PASSWORD}"),
                "jacorb.security.jsse.trustees_from_ks=on".to_owned(),
                "jacorb.security.ssl.client.supported_options=60".to_owned(),
                "jacorb.security.ssl.client.required_options=60".to_owned(),
                "jacorb.security.ssl.server.supported_options=60".to_owned(),
                "jacorb.security.ssl.server.required_options=60".to_owned(),
            ]
            .map(|property| format!("--orb {property}"))
            .join(" ")
        }
    }
}

/// One supplier and one consumer in each pairing.
pub(crate) fn cross(service: &Service, tls: impl Fn(Orb, &str) -> String) {
    let at = format!("--factory {}", service.reference());
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let form = format!("--form structured --from structured --scenario all --count {EVENTS}");
        let tls_of_consumer = tls(of_consumer, "consumer");
        let mut consumer = Peer::start(of_consumer, &format!("consumer {at} --channel new {form} {tls_of_consumer}"));
        let channel = consumer.wait_for("channel ");
        let consumer = consumer.ready();
        let form = format!("--form structured --scenario all --count {EVENTS}");
        let tls_of_supplier = tls(of_supplier, "supplier");
        Peer::start(of_supplier, &format!("supplier {at} --channel {channel} {form} {tls_of_supplier}"))
            .ready()
            .end()
            .well();
        consumer.end().received_all(EVENTS);
    }
}

#[test]
fn events_pass_between_both_orbs_in_all_pairings_with_nothing_in_the_clear() {
    let authority = Authority::new("interop-tls");
    let service = start(&authority, true);
    cross(&service, |orb, name| words(orb, &authority, &authority, name));
    let counters = service.counters();
    assert_eq!(counters.read(Counter::TlsCertificatesRefused), 0);
    // Each of the eight programs that disconnects is called once for that (`tell_on_disconnect`), and may have ended before.
    assert!(counters.read(Counter::TlsHandshakesFailed) <= 8, "{}", counters.read(Counter::TlsHandshakesFailed));
    // Each supplier and each consumer connects, and each consumer is called.
    assert!(counters.read(Counter::TlsHandshakes) >= 12, "{}", counters.read(Counter::TlsHandshakes));
}

#[test]
fn an_orb_whose_certificate_is_of_another_authority_is_not_let_in() {
    let (authority, other) = (Authority::new("interop-right"), Authority::new("interop-wrong"));
    let service = start(&authority, true);
    for (orb, count) in Orb::ALL.into_iter().zip(1..) {
        let words = words(orb, &other, &authority, "stranger");
        let at = format!("--factory {}", service.reference());
        let ended: Ended =
            Peer::start(orb, &format!("supplier {at} --channel 0 --form structured --count 1 {words}")).end();
        assert!(!ended.lines.iter().any(|line| line.starts_with("ready")), "{ended}");
        interop::wait_for_count(&service, Counter::TlsCertificatesRefused, count);
    }
}
