//! Tests of URLs.

use super::*;
use alloc::string::ToString;
use alloc::{format, vec};

fn corbaloc(text: &str) -> Corbaloc {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> ParseUrlError {
    text.parse::<Url>().expect_err(text)
}

fn address(version: Version, host: &str, port: u16) -> Address {
    Address { version, host: host.into(), port, tls: false }
}

#[test]
fn reads_addresses() {
    for (text, expected) in [
        ("corbaloc::host/k", address(Version::V1_0, "host", 2809)),
        ("corbaloc:iiop:host/k", address(Version::V1_0, "host", 2809)),
        ("CORBALOC:IIOP:host/k", address(Version::V1_0, "host", 2809)),
        ("corbaloc::host:1/k", address(Version::V1_0, "host", 1)),
        ("corbaloc::host:/k", address(Version::V1_0, "host", 2809)),
        ("corbaloc:iiop:1.2@host:65535/k", address(Version::V1_2, "host", 65535)),
        ("corbaloc::1.1@10.0.0.1:99/k", address(Version::V1_1, "10.0.0.1", 99)),
        ("corbaloc::1.7@host/k", address(Version::V1_2, "host", 2809)),
        ("corbaloc::[::1]/k", address(Version::V1_0, "::1", 2809)),
        ("corbaloc:iiop:1.2@[fe80::1:2]:88/k", address(Version::V1_2, "fe80::1:2", 88)),
        ("\n corbaloc::host/k \n", address(Version::V1_0, "host", 2809)),
    ] {
        assert_eq!(corbaloc(text), Corbaloc::new(expected, "k"), "{text}");
    }
}

#[test]
fn reads_several_addresses_in_their_order() {
    let url = corbaloc("corbaloc::a,iiop:1.2@b:7,:[::1]:8/Key");
    let expected =
        [address(Version::V1_0, "a", 2809), address(Version::V1_2, "b", 7), address(Version::V1_0, "::1", 8)];
    assert_eq!(url.addresses, expected);
    assert_eq!(url.to_string(), "corbaloc:iiop:1.0@a:2809,iiop:1.2@b:7,iiop:1.0@[::1]:8/Key");
}

#[test]
fn reads_keys_with_everything_in_them() {
    assert_eq!(corbaloc("corbaloc::h/a%00b%fF/c,:@?").key, b"a\x00b\xFF/c,:@?");
    assert_eq!(corbaloc("corbaloc::h/").key, b"");
    assert_eq!(corbaloc("corbaloc::h").key, b"");
    assert_eq!(corbaloc("corbaloc::h/schlüssel").key, "schlüssel".as_bytes());
}

#[test]
fn reads_initial_references() {
    let initial = |key: &str| Corbaloc { addresses: vec![], rir: true, key: key.into() };
    assert_eq!(corbaloc("corbaloc:rir:/TradingService"), initial("TradingService"));
    assert_eq!(corbaloc("corbaloc:rir:"), initial("NameService"));
    assert_eq!(corbaloc("corbaloc:rir:/"), initial("NameService"));
    assert!(initial("x").to_ior("").is_nil());
}

#[test]
fn reads_names() {
    let name_of = |text: &str| match text.parse().unwrap() {
        Url::Corbaname { location, name } => (location, name),
        other => panic!("{other:?}"),
    };
    let (location, name) = name_of("corbaname::host:77#a/b.kind%20x");
    assert_eq!(location, Corbaloc::new(address(Version::V1_0, "host", 77), "NameService"));
    assert_eq!(name, "a/b.kind x");
    assert_eq!(name_of("corbaname::host/Root#").1, "");
    assert_eq!(name_of("corbaname::host/Root").0.key, b"Root");
    assert!(name_of("corbaname:rir:#channels").0.rir);
    assert_eq!(refused("corbaname::host#%ff"), ParseUrlError::NameNotText);
    assert_eq!(refused("corbaname::host#%f"), ParseUrlError::BadEscape { at: 0 });
}

#[test]
fn what_is_written_reads_as_the_same() {
    let mut key: Vec<u8> = (0..=255).collect();
    key.extend(b"//%41");
    let mut urls = vec![
        Url::Corbaloc(Corbaloc::new(address(Version::V1_2, "host", 1), key)),
        Url::Corbaloc(Corbaloc { addresses: vec![], rir: true, key: "NotificationService".into() }),
        Url::Ior(Ior::nil()),
    ];
    for name in ["", "a b/c\\/d.e#f%g", "Größe"] {
        let location = Corbaloc::new(address(Version::V1_1, "::1", 2809), "NameService");
        urls.push(Url::Corbaname { location, name: name.into() });
    }
    for url in urls {
        let text = url.to_string();
        assert!(text.is_ascii());
        assert_eq!(text.parse::<Url>().unwrap(), url, "{text}");
    }
}

#[test]
fn becomes_a_reference_with_a_profile_for_each_address() {
    let ior = corbaloc("corbaloc::1.2@a:1,:b/Key").to_ior("IDL:X:1.0");
    assert_eq!((ior.type_id.as_str(), ior.profiles.len()), ("IDL:X:1.0", 2));
    let first = ior.iiop().unwrap();
    assert_eq!((first.version, first.host.as_str(), first.port), (Version::V1_2, "a", 1));
    assert_eq!(first.key, b"Key");
}

#[test]
fn refuses_what_is_wrong_and_says_what() {
    for (text, expected) in [
        ("", ParseUrlError::NoScheme),
        ("host:2809/key", ParseUrlError::NoScheme),
        ("http://host/key", ParseUrlError::NoScheme),
        ("corbaloc:", ParseUrlError::NoAddress),
        ("corbaloc:/key", ParseUrlError::NoAddress),
        ("corbaloc:host/key", ParseUrlError::BadAddress { address: "host".into() }),
        ("corbaloc::/key", ParseUrlError::BadAddress { address: ":".into() }),
        ("corbaloc::a,/key", ParseUrlError::BadAddress { address: "".into() }),
        ("corbaloc::[::1/key", ParseUrlError::BadAddress { address: ":[::1".into() }),
        ("corbaloc::[::1]x/key", ParseUrlError::BadAddress { address: ":[::1]x".into() }),
        ("corbaloc::[]:1/key", ParseUrlError::BadAddress { address: ":[]:1".into() }),
        ("corbaloc::a b/key", ParseUrlError::BadAddress { address: ":a b".into() }),
        ("corbaloc:shmiop:host/key", ParseUrlError::UnsupportedProtocol { protocol: "shmiop".into() }),
        ("corbaloc:rir:,:host/key", ParseUrlError::UnsupportedProtocol { protocol: "rir".into() }),
        ("corbaloc:rir:host/key", ParseUrlError::UnsupportedProtocol { protocol: "rir".into() }),
        ("corbaloc::2.0@host/key", ParseUrlError::BadVersion { version: "2.0".into() }),
        ("corbaloc::1@host/key", ParseUrlError::BadVersion { version: "1".into() }),
        ("corbaloc::1.+2@host/key", ParseUrlError::BadVersion { version: "1.+2".into() }),
        ("corbaloc::1.@host/key", ParseUrlError::BadVersion { version: "1.".into() }),
        ("corbaloc::1.999@host/key", ParseUrlError::BadVersion { version: "1.999".into() }),
        ("corbaloc::host:65536/key", ParseUrlError::BadPort { port: "65536".into() }),
        ("corbaloc::host:+1/key", ParseUrlError::BadPort { port: "+1".into() }),
        ("corbaloc:::1:1/key", ParseUrlError::BadAddress { address: "::1:1".into() }),
        ("corbaloc::host/a%4", ParseUrlError::BadEscape { at: 1 }),
        ("corbaloc::host/ab%zz", ParseUrlError::BadEscape { at: 2 }),
        ("corbaloc::host/%%41", ParseUrlError::BadEscape { at: 0 }),
    ] {
        let error = refused(text);
        assert_eq!(error, expected, "{text}");
        assert!(error.to_string().contains(' '));
    }
    assert!(matches!(refused("IOR:12"), ParseUrlError::Ior(_)));
    assert_eq!("corbaname::h#x".parse::<Corbaloc>(), Err(ParseUrlError::NotCorbaloc));
}

#[test]
fn refuses_what_is_too_long() {
    let list = |count: usize| format!("corbaloc:{}/k", vec![":h"; count].join(","));
    assert_eq!(corbaloc(&list(64)).addresses.len(), 64);
    assert_eq!(refused(&list(65)), ParseUrlError::TooManyAddresses { count: 65, max: 64 });
    let long = format!("corbaloc::h/{}", "k".repeat(65536));
    assert_eq!(refused(&long), ParseUrlError::TooLong { length: 65539, max: 65536 });
}

#[test]
fn random_text_ends_in_urls_or_errors() {
    let mut random = fastrand::Rng::with_seed(17);
    let pieces =
        [":", ",", "/", "@", "[", "]", "%", "#", "1.2", "rir", "iiop", "h", "80", "4", "\u{e4}", " ", "%41", "::"];
    for _ in 0..50_000 {
        let mut text: String = ["corbaloc:", "corbaname:", "IOR:", ""][random.usize(0..4)].into();
        for _ in 0..random.usize(0..10) {
            text.push_str(pieces[random.usize(0..pieces.len())]);
        }
        if let Ok(url) = text.parse::<Url>() {
            assert_eq!(url.to_string().parse::<Url>().as_ref(), Ok(&url), "{text}");
        }
    }
}

/// `corbaloc:ssliop:` is no standard; omniORB and JacORB have it.
#[test]
fn an_address_at_which_tls_is_spoken_is_a_profile_without_a_port_in_the_clear() {
    let location: Corbaloc = "corbaloc:SSLIOP:1.2@host:4711/key".parse().unwrap();
    assert_eq!(location.to_string(), "corbaloc:ssliop:1.2@host:4711/key");
    let reference = location.to_ior("IDL:x:1.0");
    let profile = reference.iiop().unwrap();
    assert_eq!((profile.host.as_str(), profile.port, profile.version), ("host", 0, Version::V1_2));
    assert_eq!(profile.secure_transport().unwrap().port, 4711);
    let oldest: Corbaloc = "corbaloc:ssliop:host:1/key".parse().unwrap();
    assert_eq!(oldest.to_ior("").iiop().unwrap().version, Version::V1_1, "1.0 has no components");
    assert_eq!("corbaloc::host:1/key".parse::<Corbaloc>().unwrap().to_ior("").iiop().unwrap().secure_transport(), None);
}

/// Start scripts of TAO's servers that are older than `corbaloc:` name the naming service so.
#[test]
fn an_iioploc_is_read_as_the_corbaloc_that_it_means() {
    for (old, new) in [
        ("iioploc://1.1@host:4000/NameService", "corbaloc::1.1@host:4000/NameService"),
        ("IIOPLOC://host/a%20b", "corbaloc::host/a%20b"),
        ("iioploc://one:1,1.2@two:2/K", "corbaloc::one:1,:1.2@two:2/K"),
    ] {
        assert_eq!(old.parse::<Corbaloc>(), new.parse::<Corbaloc>(), "{old}");
        assert!(old.parse::<Corbaloc>().is_ok());
    }
    assert!("iioploc:///K".parse::<Corbaloc>().is_err());
}
