//! What clients are called, whichever way they get their names.

use ::tempo::wire::Payload;
use client::notify::{ClientType, EventChannelFactory, StructuredProxyPushSupplier};
use client::{Orb, OrbOptions};
use giop::cdr::{CharSet, Version};
use giop::client_name;
use giop::message::{Reply, ReplyStatus, RequestHead, ServiceContexts};
use service::{Answer, ClientEntry, Config, Counter, Json, Query, Service};

use crate::access::{rule, start as start_by};
use crate::json::Lines;
use crate::logged::{await_line, begin};
use crate::peers::{Bare, REQUEST, await_count, read_message, request_with, start_with, subscribe_to, wait_until};
use crate::persistent::Folder;
use crate::tempo::peers::{Datagrams, EndPoint, frame};

const SUBSCRIBE: &str = r#"{"op":"subscribe","id":1}"#;

fn start(client: Vec<ClientEntry>) -> Service {
    start_with(Config { client, json: Json { listen: Some("0".into()), ..Json::default() }, ..Config::default() })
}

/// What the consumers are called that there are.
fn consumers(service: &Service) -> Vec<String> {
    let Ok(Answer::Consumers(consumers)) = service.ask(Query::Consumers) else { panic!("consumers") };
    let mut names: Vec<String> = consumers.into_iter().map(|consumer| consumer.name).collect();
    names.sort();
    names
}

fn entry(who: &str, name: &str) -> ClientEntry {
    ClientEntry { who: vec![who.into()], address: None, name: name.into() }
}

fn hello(name: &str) -> String {
    let escaped: String = name.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    format!(r#"{{"op":"hello","id":7,"name":"{escaped}"}}"#)
}

/// A consumer of a CORBA client of that name.
fn corba_consumer(service: &Service, name: &str, bare: &Bare) -> StructuredProxyPushSupplier {
    let orb = Orb::new(OrbOptions { name: Some(name.to_owned()), ..OrbOptions::default() });
    let factory = EventChannelFactory::unchecked(orb.resolve(&service.corbaloc("NotificationService")).unwrap());
    let admin = factory.get_event_channel(0).unwrap().default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
    proxy.connect_structured_push_consumer(&orb.object(bare.reference())).unwrap();
    proxy
}

#[test]
fn clients_of_two_protocols_are_shown_by_the_names_that_they_say_and_two_may_have_one() {
    let service = start(Vec::new());
    let mut clients = [Lines::connect(&service), Lines::connect(&service)];
    for lines in &mut clients {
        assert_eq!(lines.ask(&hello("archive")), r#"{"ok":7}"#);
        assert_eq!(lines.ask(&hello("archive")), r#"{"ok":7}"#, "it may say so again");
        assert_eq!(lines.ask(SUBSCRIBE), r#"{"ok":1}"#);
        assert!(lines.ask(&hello("archive")).contains("before anything is published"));
    }
    let bare = Bare::new();
    let _proxy = corba_consumer(&service, "mount \"7\"", &bare);
    let names = consumers(&service);
    let begins =
        ["\"archive\": consumer proxy ", "\"archive\": consumer proxy ", "\"mount \\\"7\\\"\": consumer proxy "];
    assert!(names.len() == 3 && names.iter().zip(begins).all(|(name, begin)| name.starts_with(begin)), "{names:?}");
    assert_ne!(names[0], names[1], "their proxies' numbers tell them apart");
}

#[test]
fn a_client_that_says_nothing_is_called_as_the_configuration_calls_its_address() {
    // The former key says the same.
    let dome = ClientEntry { who: Vec::new(), address: Some("127.0.8.1".into()), name: "dome".into() };
    let service = start(vec![dome, entry("127.0.8.0/24", "hall"), entry("127.0.8.3", "late")]);
    for (from, says, called) in [
        ("127.0.8.1", None, "\"dome\": "),
        ("127.0.8.3", None, "\"hall\": "),
        ("127.0.8.1", Some("camera"), "\"camera\": "),
        ("127.0.7.1", None, "consumer proxy "),
    ] {
        let mut lines = Lines::connect_from(&service, from);
        says.into_iter().for_each(|name| assert_eq!(lines.ask(&hello(name)), r#"{"ok":7}"#));
        assert_eq!(lines.ask(SUBSCRIBE), r#"{"ok":1}"#);
        let names = consumers(&service);
        assert!(names.iter().any(|name| name.starts_with(called) && name.contains(from)), "{names:?}");
    }
}

#[test]
fn an_end_point_of_tempo_is_shown_by_the_name_that_it_tells_and_served_all_the_same_without() {
    let service = crate::tempo::start();
    let named = |session: u32, names: &[&str]| {
        let mut end = Datagrams::subscribed(&service, session, "A/B");
        names.iter().for_each(|name| end.send(&frame(end.header(0, 0), Payload::Name(name))));
        end
    };
    let long = "x".repeat(65);
    let _ends = [
        named(21, &["mast", "mast"]),
        named(22, &["mast", "other"]),
        named(23, &["evil\u{202e}txt"]),
        named(24, &[&long]),
        named(25, &["4711"]),
        named(26, &[]),
    ];
    await_count(&service, Counter::ClientNamesRefused, 3);
    // The program's own end point; a session that nobody knows is told nothing of.
    let address = format!("udp://{}", service.tempo_address().unwrap());
    let node = client::tempo::Node::builder(&address).unwrap().name("dome \"1\"").open().unwrap();
    let _subscriber = node.subscriber("A/B").on(|_| {}).unwrap();
    let beginnings =
        ["\"4711\": ", "\"dome \\\"1\\\"\": ", "\"mast\": ", "\"mast\": ", "consumer", "consumer", "consumer"];
    wait_until("all to have their names", || {
        let names = consumers(&service);
        names.len() == 7 && names.iter().zip(beginnings).all(|(name, beginning)| name.starts_with(beginning))
    });
    let mut unknown = Datagrams::new(&service, 99);
    let unproven = service.counters().read(Counter::TempoUnproven);
    unknown.send(&frame(unknown.header(0, 0), Payload::Name("nobody")));
    await_count(&service, Counter::TempoUnproven, unproven + 1);
}

/// Whoever shows an identity is called by it from then on; an entry that comes first counts.
#[test]
fn entries_are_about_clients_as_rules_are_and_are_read_again_for_those_that_are_connected() {
    let token = |name: &str| format!("the secret token of {name}");
    let hash = |name: &str| {
        let digest = access::digest_of(token(name).as_bytes());
        (name.to_owned(), format!("sha256:{}", digest.map(|octet| format!("{octet:02x}")).concat()))
    };
    let config = Config {
        client: vec![entry("token:archive*", "archive"), entry("127.0.8.7", "dome"), entry("anonymous", "stranger")],
        tokens: ["archive-1", "other"].map(hash).into(),
        json: Json { listen: Some("0".into()), ..Json::default() },
        ..Config::default()
    };
    let service = start_with(config.clone());
    let mut clients = Vec::new();
    for (from, shows, says) in [
        ("127.0.8.7", Some("archive-1"), None),
        ("127.0.8.7", Some("other"), None),
        ("127.0.8.8", None, None),
        ("127.0.8.8", Some("other"), None),
        ("127.0.8.7", None, Some("camera")),
    ] {
        let mut lines = Lines::connect_from(&service, from);
        if let Some(name) = shows {
            let hello = format!(r#"{{"op":"hello","id":7,"token":"{}"}}"#, token(name));
            assert_eq!(lines.ask(&hello), r#"{"ok":7}"#);
        }
        says.into_iter().for_each(|name| assert_eq!(lines.ask(&hello(name)), r#"{"ok":7}"#));
        assert_eq!(lines.ask(SUBSCRIBE), r#"{"ok":1}"#);
        clients.push(lines);
    }
    let called = || {
        let mut names: Vec<String> = consumers(&service)
            .iter()
            .map(|name| name.split_once(": consumer").map_or("", |(name, _)| name).to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(called(), ["", "\"archive\"", "\"camera\"", "\"dome\"", "\"stranger\""]);
    let read = |client: Vec<ClientEntry>| Config { client, ..config.clone() };
    service.reload_client_names(&read(vec![entry("127.0.8.0/24", "hall"), entry("*", "late")])).unwrap();
    assert_eq!(called(), ["\"camera\"", "\"hall\"", "\"hall\"", "\"hall\"", "\"hall\""]);
    for (bad, why) in [
        (entry("10.0.0.0/33", "x"), "client: entry 1: \"10.0.0.0/33\" names no client: "),
        (entry("certificate:plant", "x"), "says its kind"),
        (entry("10.0.0.1", ""), "client: entry 1: a client's name is not empty"),
        (entry("10.0.0.1", "evil\u{202e}txt"), "U+202E"),
        (ClientEntry { who: Vec::new(), address: None, name: "x".into() }, "it needs clients"),
        (ClientEntry { who: vec!["*".into(); 1_025], address: None, name: "x".into() }, "1024 entries at most"),
    ] {
        let refused = service.reload_client_names(&read(vec![bad])).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(called().len(), 5);
    service.reload_client_names(&read(Vec::new())).unwrap();
    assert_eq!(called(), ["", "", "", "", "\"camera\""]);
    let mut late = Lines::connect_from(&service, "127.0.8.7");
    assert_eq!(late.ask(SUBSCRIBE), r#"{"ok":1}"#);
    assert_eq!(called().len(), 6);
    assert_eq!(called().iter().filter(|name| name.is_empty()).count(), 5);
}

/// It had no name before the configuration was read again.
#[test]
fn a_restored_client_is_called_as_the_configuration_calls_it_from_the_start() {
    let folder = Folder::new("client-names");
    let service = folder.start(&folder.config(), None);
    let bare = Bare::new();
    subscribe_to(&service, Some(0), bare.reference(), &[]);
    let config = Config { client: vec![entry("127.0.0.0/8", "archive")], ..folder.config() };
    let service = folder.start(&config, Some(service));
    let names = consumers(&service);
    assert!(names.len() == 1 && names[0].starts_with("\"archive\": consumer proxy "), "{names:?}");
}

#[test]
fn a_bad_name_is_refused_and_its_client_served_all_the_same() {
    let service = start(Vec::new());
    let long = "x".repeat(10 << 10);
    let bad = ["", "a\nb", "\u{1b}[2J", "evil\u{202e}txt", &long];
    for (name, count) in bad.iter().zip(1..) {
        let mut lines = Lines::connect(&service);
        let answer = lines.ask(&hello(name));
        assert!(answer.contains("a client's name"), "{answer}");
        await_count(&service, Counter::ClientNamesRefused, count);
        assert_eq!(lines.ask(SUBSCRIBE), r#"{"ok":1}"#);
    }
    // CORBA has the context, and nothing of what it holds: the request is answered as ever.
    let count = u64::try_from(bad.len()).unwrap();
    let contexts =
        [client_name::context("evil\u{202e}txt"), client_name::context(&long), b"\x01\xff".to_vec(), Vec::new()];
    for (data, more) in contexts.iter().zip(1..) {
        let contexts = [(ServiceContexts::CLIENT_NAME, data.as_slice())];
        let head = RequestHead {
            version: Version::V1_2,
            key: b"NotificationService",
            operation: b"_non_existent",
            contexts: &contexts,
            ..REQUEST
        };
        let mut stream = std::net::TcpStream::connect(service.address()).unwrap();
        std::io::Write::write_all(&mut stream, &request_with(&head, CharSet::Latin1, |_| {})).unwrap();
        let (header, bytes) = read_message(&mut stream).unwrap();
        assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::NoException);
        await_count(&service, Counter::ClientNamesRefused, count + more);
    }
    let mut changed = Lines::connect(&service);
    assert_eq!(changed.ask(&hello("one")), r#"{"ok":7}"#);
    assert!(changed.ask(&hello("other")).contains("another name before"));
    assert!(consumers(&service).iter().all(|name| name.starts_with("consumer proxy ")));
}

/// A name stands in the line of a denial, and decides nothing: the client that calls itself like an allowed one is refused.
#[test]
fn a_name_gives_no_right() {
    begin();
    let service = start_by(vec![rule(&["token:archive", "127.0.9.40"], &["subscribe"], &["*"], &[], true)]);
    let mut lines = Lines::connect_from(&service, "127.0.9.41");
    assert_eq!(lines.ask(&hello("token:archive")), r#"{"ok":7}"#);
    assert!(lines.ask(SUBSCRIBE).contains("not permitted"));
    await_line(&["denied \"token:archive\", 127.0.9.41: "]);
}
