//! With TLS: which peers are spoken to and which are not, and what is said of it.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

use campanile_client::OrbTls;
use campanile_client::tempo::{Error, Node, NodeBuilder};
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::{patient, wait_until};

use crate::support::{Heard, PERIOD, address, meets};

fn tls(authority: &Authority, certified: &Certified) -> OrbTls {
    OrbTls::trusting(authority.file()).with_identity(&certified.certificate, &certified.key)
}

fn builder(address: &str, tls: OrbTls) -> NodeBuilder {
    Node::builder(address).unwrap().period(PERIOD).tls(tls)
}

fn waits(tls: OrbTls) -> Node {
    builder("tls://@127.0.0.1:0", tls).open().unwrap()
}

/// Why there is no connection.
fn trouble(node: &Node) -> String {
    wait_until("something is known to be wrong", || node.trouble().is_some());
    node.trouble().unwrap()
}

#[test]
fn a_peer_that_is_not_what_the_address_says_is_not_spoken_to_and_the_reason_is_given() {
    let (authority, other) = (Authority::new("tempo-tls"), Authority::new("tempo-other"));
    let good = authority.certify("good");
    let elsewhere = authority.certify_as(&CertificateSpec {
        name: "elsewhere",
        hosts: &["example.org"],
        ..CertificateSpec::default()
    });
    let expired =
        authority.certify_as(&CertificateSpec { name: "expired", expired: true, ..CertificateSpec::default() });
    let strange = other.certify("strange");
    for (certified, said) in [(&elsewhere, "example.org"), (&expired, "expired"), (&strange, "authorities")] {
        let waiting = waits(tls(&authority, certified));
        let publisher = waiting.publisher("A/B").open().unwrap();
        let node = builder(&address("tls", &waiting), tls(&authority, &good)).open().unwrap();
        let _heard = Heard::of(&node, "A/B");
        let trouble = trouble(&node);
        assert!(trouble.contains(said), "{trouble}");
        assert!(publisher.subscribers().is_empty());
    }
    // An end point without a certificate, or with one of a stranger, is not let in.
    let waiting = waits(tls(&authority, &good));
    let publisher = waiting.publisher("A/B").open().unwrap();
    let at = address("tls", &waiting);
    let nobody = builder(&at, OrbTls::trusting(authority.file())).open().unwrap();
    let stranger = builder(&at, tls(&authority, &strange)).open().unwrap();
    let _unheard = [&nobody, &stranger].map(|node| Heard::of(node, "A/B"));
    assert!(!trouble(&nobody).is_empty() && !trouble(&stranger).is_empty());
    let node = builder(&at, tls(&authority, &good)).open().unwrap();
    let heard = Heard::of(&node, "A/B");
    meets(&publisher, 1);
    publisher.publish(b"said to one").unwrap();
    assert_eq!(heard.next(), b"said to one");
    assert_eq!((publisher.subscribers().len(), node.trouble()), (1, None));
}

#[test]
fn what_tls_is_made_with_has_to_be_there() {
    let authority = Authority::new("tempo-unset");
    let refused = |address: &str, tls: Option<OrbTls>| {
        let builder = Node::builder(address).unwrap();
        tls.map_or_else(|| Node::open(address), |tls| builder.tls(tls).open()).unwrap_err()
    };
    assert!(matches!(refused("tls://localhost", None), Error::TlsUnset));
    let trusting = OrbTls::trusting(authority.file());
    assert!(matches!(refused("tls://@:0", Some(trusting)), Error::NoCertificate));
    let error = refused("tls://localhost", Some(OrbTls::trusting("/nowhere.pem")));
    assert!(error.to_string().contains("/nowhere.pem"), "{error}");
}

#[test]
fn clients_that_do_not_speak_tls_or_say_nothing_keep_no_other_waiting() {
    let authority = Authority::new("tempo-mute");
    let certified = authority.certify("end point");
    let waiting = waits(tls(&authority, &certified));
    let at = waiting.local_address().unwrap();
    let mute: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(at).unwrap()).collect();
    let plain = Node::builder(&format!("tcp://{at}")).unwrap().period(PERIOD).open().unwrap();
    let _unheard = Heard::of(&plain, "A/B");
    let publisher = waiting.publisher("A/B").open().unwrap();
    let node = builder(&address("tls", &waiting), tls(&authority, &certified)).open().unwrap();
    let heard = Heard::of(&node, "A/B");
    meets(&publisher, 1);
    publisher.publish(b"heard").unwrap();
    assert_eq!(heard.next(), b"heard");
    assert!(!trouble(&plain).is_empty());
    assert_eq!(publisher.subscribers().len(), 1);
    drop(mute);
    // The other way round: the peer that is connected to speaks something else, or nothing and goes.
    for says in [&b"hello, this is no TLS\n"[..], b""] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tls://{}", listener.local_addr().unwrap());
        let node = builder(&address, tls(&authority, &certified)).open().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        patient(&stream);
        std::io::Write::write_all(&mut stream, says).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        drop(stream);
        assert!(!trouble(&node).is_empty());
    }
}
