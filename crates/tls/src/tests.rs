//! Two sessions that are handed each other's octets.

use testing::certificates::{Authority, CertificateSpec, Certified};

use super::*;

fn identity(certified: &Certified) -> Identity {
    Identity::read(&certified.certificate, &certified.key).unwrap()
}

fn trust(authority: &Authority) -> Trust {
    Trust::read(&authority.file(), None).unwrap()
}

/// A client and a server.
struct Pair {
    client: Session,
    server: Session,
    /// What is under way to each.
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Pair {
    fn new(server: &ServerEnd, client: &ClientEnd, host: &str) -> Self {
        let mut pair = Self {
            client: client.session(host).unwrap(),
            server: server.session().unwrap(),
            to_client: Vec::new(),
            to_server: Vec::new(),
        };
        pair.client.take_in(&mut [], |_| (), &mut pair.to_server).unwrap();
        pair
    }

    /// Passes on what is under way, so many octets at a time, until nothing is. What went wrong at the server, and at the client.
    fn pass(&mut self, at_once: usize) -> (Option<Trouble>, Option<Trouble>) {
        let (mut at_server, mut at_client) = (None, None);
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            for mut piece in core::mem::take(&mut self.to_server).chunks(at_once).map(<[u8]>::to_vec) {
                if at_server.is_none() {
                    at_server = self.server.take_in(&mut piece, |_| (), &mut self.to_client).err();
                }
            }
            for mut piece in core::mem::take(&mut self.to_client).chunks(at_once).map(<[u8]>::to_vec) {
                if at_client.is_none() {
                    at_client = self.client.take_in(&mut piece, |_| (), &mut self.to_server).err();
                }
            }
        }
        (at_server, at_client)
    }

    fn shaken(server: &ServerEnd, client: &ClientEnd) -> Self {
        let mut pair = Self::new(server, client, "localhost");
        assert_eq!(pair.pass(usize::MAX), (None, None));
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        pair
    }
}

/// Both ends, each with a certificate that the other asks for.
fn ends(authority: &Authority) -> (ServerEnd, ClientEnd) {
    let server = ServerEnd::new(identity(&authority.certify("server")), Clients::Required(trust(authority))).unwrap();
    let client = ClientEnd::new(trust(authority), true, Some(identity(&authority.certify("plant 7")))).unwrap();
    (server, client)
}

fn seal(session: &mut Session, plain: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0; sealed_bytes_max(plain.len())];
    let octets = session.seal(plain, &mut sealed).unwrap();
    sealed.truncate(octets);
    sealed
}

#[test]
fn a_certificate_is_for_the_hosts_among_its_alternative_names() {
    let identity = identity(&Authority::new("hosts").certify("plant 7"));
    let is_for = ["localhost", "127.0.0.1", "127.0.0.2", "plant 7", ""].map(|host| identity.is_for(host));
    assert_eq!(is_for, [true, true, false, false, false]);
}

#[test]
fn handshake_and_records_pass_whatever_pieces_they_come_in() {
    let authority = Authority::new("pieces");
    let (server, client) = ends(&authority);
    let sent: Vec<u8> = (0..70_000_u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    for at_once in [1, 7, 1_000, 100_000] {
        let mut pair = Pair::new(&server, &client, "localhost");
        assert_eq!(pair.pass(at_once), (None, None), "{at_once} octets at once");
        let names = pair.server.peer_names().unwrap();
        assert_eq!(names.subject, "CN=plant 7,O=Tests");
        assert_eq!(names.sans, ["DNS:localhost", "IP:127.0.0.1"]);
        for length in [0, 1, 16 << 10, (16 << 10) + 1, sent.len()] {
            let sealed = seal(&mut pair.client, &sent[..length]);
            let (mut got, mut out) = (Vec::new(), Vec::new());
            for piece in sealed.chunks(at_once) {
                pair.server.take_in(&mut piece.to_vec(), |plain| got.extend_from_slice(plain), &mut out).unwrap();
                assert!(pair.server.retained_bytes() <= (16 << 10) + 64);
            }
            assert!(got == sent[..length], "{length} octets, {at_once} at once");
            assert_eq!((out.len(), pair.server.retained_bytes()), (0, 0));
        }
        let mut end = Vec::new();
        pair.client.close(&mut end);
        pair.server.take_in(&mut end, |_| panic!("nothing more"), &mut Vec::new()).unwrap();
        assert!(pair.server.has_ended() && !pair.client.has_ended());
        // The other direction is still open.
        let mut got = Vec::new();
        pair.client
            .take_in(&mut seal(&mut pair.server, b"last"), |plain| got.extend_from_slice(plain), &mut Vec::new())
            .unwrap();
        assert_eq!(got, b"last");
    }
}

#[test]
fn what_was_cut_or_changed_is_noticed() {
    let authority = Authority::new("changed");
    let (server, client) = ends(&authority);
    let mut pair = Pair::shaken(&server, &client);
    let mut sealed = seal(&mut pair.client, b"an event");
    let last = sealed.len() - 1;
    sealed[last] ^= 1;
    let mut out = Vec::new();
    let error = pair.server.take_in(&mut sealed, |_| panic!("it was changed"), &mut out).unwrap_err();
    assert!(matches!(error, Trouble::Protocol(_)), "{error:?}");
    assert!(!out.is_empty(), "the peer is notified");
}

#[test]
fn wrong_certificates_of_clients_are_named() {
    let authority = Authority::new("clients");
    let other = Authority::new("other-clients");
    let revoked = authority.certify("revoked");
    let list = authority.revoke(&[&revoked]);
    let with_list = Trust::read(&authority.file(), Some(&list)).unwrap();
    let own = identity(&authority.certify("server"));
    let server = |clients| ServerEnd::new(own.clone(), clients).unwrap();
    let required = server(Clients::Required(with_list.clone()));
    let attempt = |server: &ServerEnd, certified: Option<&Certified>| {
        let client = ClientEnd::new(trust(&authority), true, certified.map(identity)).unwrap();
        Pair::new(server, &client, "localhost").pass(usize::MAX).0.map(|trouble| trouble.to_string())
    };
    let issue = |wanted: CertificateSpec<'_>| authority.certify_as(&wanted);
    assert_eq!(attempt(&required, Some(&authority.certify("good"))), None);
    let expired = issue(CertificateSpec { name: "expired", expired: true, ..CertificateSpec::default() });
    assert_eq!(attempt(&required, Some(&expired)).unwrap(), "its certificate has expired");
    assert_eq!(attempt(&required, Some(&revoked)).unwrap(), "its certificate is revoked");
    let by_itself = issue(CertificateSpec { name: "itself", by_itself: true, ..CertificateSpec::default() });
    let unknown = "its certificate is signed by none of the authorities that are trusted here, or by itself";
    for stranger in [by_itself, other.certify("stranger")] {
        assert_eq!(attempt(&required, Some(&stranger)).unwrap(), unknown);
        assert_eq!(attempt(&server(Clients::Requested(with_list.clone())), Some(&stranger)).unwrap(), unknown);
    }
    assert_eq!(attempt(&required, None).unwrap(), "it presented no certificate, and has to");
    assert_eq!(attempt(&server(Clients::Requested(with_list)), None), None);
    assert_eq!(attempt(&server(Clients::NotRequested), Some(&revoked)), None, "it is not asked");
}

#[test]
fn wrong_certificates_of_servers_are_named_and_the_host_only_where_it_counts() {
    let authority = Authority::new("servers");
    let attempt = |wanted: CertificateSpec<'_>, checks_names| {
        let server = ServerEnd::new(identity(&authority.certify_as(&wanted)), Clients::NotRequested).unwrap();
        let client = ClientEnd::new(trust(&authority), checks_names, None).unwrap();
        Pair::new(&server, &client, "localhost").pass(usize::MAX).1.map(|trouble| trouble.to_string())
    };
    assert_eq!(attempt(CertificateSpec::default(), true), None);
    let elsewhere = CertificateSpec { hosts: &["elsewhere.example"], ..CertificateSpec::default() };
    let why = attempt(elsewhere, true).unwrap();
    assert!(why.starts_with("its certificate is not for the host localhost, but for"), "{why}");
    assert_eq!(attempt(elsewhere, false), None);
    for checks_names in [false, true] {
        let expired = attempt(CertificateSpec { expired: true, ..elsewhere }, checks_names);
        assert_eq!(expired.unwrap(), "its certificate has expired");
        assert!(attempt(CertificateSpec { by_itself: true, ..elsewhere }, checks_names).is_some());
    }
}

#[test]
fn a_client_that_does_not_speak_tls_is_recognised() {
    let authority = Authority::new("plain");
    let (server, _) = ends(&authority);
    for first in [&b"GIOP\x01\x02\x00\x00\x00\x00\x00\x10"[..], b"{\"op\":\"publish\"}\n", b"GET / HTTP/1.1\r\n"] {
        let error = server.session().unwrap().take_in(&mut first.to_vec(), |_| (), &mut Vec::new()).unwrap_err();
        assert_eq!(error, Trouble::NotTls, "{first:?}");
        assert!(is_plain(first) && !is_hello(first));
    }
    let mut hello = Vec::new();
    ends(&authority).1.session("localhost").unwrap().take_in(&mut [], |_| (), &mut hello).unwrap();
    assert!(is_hello(&hello) && !is_plain(&hello) && !is_plain(&[]) && !is_plain(&hello[..1]));
}

#[test]
fn names_are_escaped_so_that_none_looks_like_another() {
    let authority = Authority::new("escaped");
    let certified = authority.certify_as(&CertificateSpec { name: " a, O=Admin#\\ü", ..CertificateSpec::default() });
    let pem = std::fs::read(&certified.certificate).unwrap();
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let names = CertificateNames::of(&CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    assert_eq!(names.subject, "CN=\\ a\\, O=Admin#\\\\ü,O=Tests");
    assert_eq!(CertificateNames::of(b"no certificate"), None);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("files");
    let (one, two) = (authority.certify("one"), authority.certify("two"));
    let text = |error: LoadError| error.to_string();
    let missing = authority.folder().join("missing.pem");
    assert!(text(Identity::read(&missing, &one.key).unwrap_err()).contains("missing.pem: no certificate"));
    assert!(text(Identity::read(&one.certificate, &one.certificate).unwrap_err()).contains("no private key"));
    assert!(text(Identity::read(&one.key, &one.key).unwrap_err()).contains("it has no certificate in PEM"));
    assert!(text(Trust::read(&authority.file(), Some(&one.key)).unwrap_err()).contains("no list of revoked"));
    let mixed = Identity::read(&one.certificate, &two.key).unwrap();
    assert!(ServerEnd::new(mixed, Clients::NotRequested).is_err());
}
