//! Rules of access: which client may do what, by whichever protocol it comes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use client::notify::{
    ClientType, EventChannel, EventChannelFactory, EventType, ProxyPushSupplier, StructuredEvent,
    StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier, ThreadPool, find_channel,
};
use client::{ConsumerOptions, InvokeError, Orb, OrbOptions, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::exception::{Kind, SystemException};
use giop::realtime::PriorityModel;
use service::{AccessRule, Config, Counter, DeclaredChannel, Json, Lanes, OutgoingConfig, Scheduling, Service, Tempo};
use tempo::wire::Role;
use testing::NextInTime;

use crate::json::Lines;
use crate::peers::{Bare, await_count, read, start_with, wait_until};
use crate::persistent::Folder;
use crate::tempo::peers::{Datagrams, EndPoint};

pub(crate) fn rule(who: &[&str], may: &[&str], on: &[&str], types: &[&str], allow: bool) -> AccessRule {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    AccessRule { name: None, who: list(who), may: list(may), on: list(on), types: list(types), allow }
}

pub(crate) const ALL: [&str; 3] = ["publish", "subscribe", "administer"];

/// Channels 1 to 4; beside them there is the default channel.
const DECLARED: [&str; 4] = ["Weather", "Radar-1", "Radar-2", "Secret"];

pub(crate) const WRITER: &str = "127.0.0.2";
const READER: &str = "127.0.0.3";
pub(crate) const OPERATOR: &str = "127.0.0.4";
const STRANGER: &str = "127.0.0.5";

/// Rules on some of them. The tokens are other names for the same principals, from another address.
fn rules() -> Vec<AccessRule> {
    vec![
        rule(&["*"], &["publish", "subscribe"], &["Secret"], &[], false),
        rule(&[OPERATOR, "token:operator"], &ALL, &["*"], &[], true),
        rule(&[WRITER, "token:writer"], &["publish"], &["Weather", "Radar-*"], &[], true),
        rule(&["127.0.0.2/31", "token:writer", "token:reader"], &["subscribe"], &["0", "Radar-1"], &[], true),
        rule(&[READER, "token:reader"], &["administer"], &["Radar-2"], &[], true),
        rule(&["*"], &["subscribe"], &["Weather"], &[], true),
    ]
}

fn config(access: Vec<AccessRule>) -> Config {
    let declared = |name: &&str| DeclaredChannel {
        name: (*name).into(),
        properties: BTreeMap::new(),
        lane: Vec::new(),
        timers: Vec::new(),
    };
    let token = |name: &&str| ((*name).to_owned(), format!("sha256:{}", hash(&secret(name))));
    Config {
        access,
        channels: DECLARED.iter().map(declared).collect(),
        tokens: ["writer", "reader", "operator", "stranger"].iter().map(token).collect(),
        json: Json { listen: Some("0".into()), ..Json::default() },
        tempo: Tempo { listen: Some("0".into()), period_ms: 50, ..Tempo::default() },
        ..Config::default()
    }
}

fn secret(name: &str) -> String {
    format!("the secret of {name}")
}

fn hash(secret: &str) -> String {
    access::digest_of(secret.as_bytes()).iter().map(|octet| format!("{octet:02x}")).collect()
}

pub(crate) fn start(access: Vec<AccessRule>) -> Service {
    start_with(config(access))
}

fn options(who: &str) -> OrbOptions {
    // Without a name, which would stand before the address in the lines that tests look for.
    OrbOptions { from: Some(who.parse::<IpAddr>().unwrap()), name: Some(String::new()), ..OrbOptions::default() }
}

pub(crate) fn orb(who: &str) -> Orb {
    Orb::new(options(who))
}

pub(crate) fn url(service: &Service) -> String {
    service.corbaloc("NotificationService")
}

/// A channel as a client has its reference, wherever that came from.
pub(crate) fn channel_of(service: &Service, orb: &Orb, id: i32) -> EventChannel {
    let operator = orb_of_operator();
    let (channel, _) = find_channel(&operator.resolve(&url(service)).unwrap(), Some(id)).unwrap();
    EventChannel::unchecked(orb.object(channel.object().ior().clone()))
}

pub(crate) fn orb_of_operator() -> Orb {
    orb(OPERATOR)
}

/// Whether something was done. If not, it was not permitted, and no other reason.
#[track_caller]
pub(crate) fn permitted<T>(result: Result<T, InvokeError>) -> bool {
    match result {
        Ok(_) => true,
        Err(InvokeError::System { exception, .. }) => {
            assert_eq!(exception, SystemException::new(Kind::NoPermission, corba::ACCESS_MINOR));
            false
        }
        Err(other) => panic!("{other}"),
    }
}

pub(crate) fn event(domain: &str, name: &str) -> StructuredEvent {
    StructuredEvent::new(domain, name, "")
}

/// A supplier's proxy of the client that has this channel.
pub(crate) fn proxy_for(channel: &EventChannel) -> Result<StructuredProxyPushConsumer, InvokeError> {
    let admin = client::notify::SupplierAdmin::unchecked(channel.default_supplier_admin()?.object().clone());
    let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured)?;
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None)?;
    Ok(proxy)
}

// ---- which channels a client sees ----

#[test]
fn a_client_with_a_right_in_a_channel_sees_it_and_one_without_does_not() {
    let service = start(rules());
    for (who, seen) in [(WRITER, "++++-"), (READER, "++++-"), (OPERATOR, "+++++"), (STRANGER, "-+---")] {
        for (id, knows) in (0..).zip(seen.bytes().map(|seen| seen == b'+')) {
            let channel = channel_of(&service, &orb(who), id);
            assert_eq!(permitted(channel.get_qos()), knows, "{who} in channel {id}");
            let factory = EventChannelFactory::unchecked(orb(who).resolve(&url(&service)).unwrap());
            assert_eq!(factory.get_all_channels().unwrap().contains(&id), knows, "{who} in channel {id}");
            assert_eq!(factory.get_event_channel(id).is_ok(), knows, "{who} in channel {id}");
            assert_eq!(permitted(factory.create_channel(&[], &[])), who == OPERATOR, "{who}");
        }
    }
    let channels = EventChannelFactory::unchecked(orb_of_operator().resolve(&url(&service)).unwrap());
    channels.get_event_channel(3).unwrap().destroy().unwrap();
    assert!(!permitted(channel_of(&service, &orb(READER), 2).destroy()));
}

/// The answer to a line, whether it was done.
#[track_caller]
fn done(answer: &str) -> bool {
    assert!(answer.starts_with("{\"ok\"") || answer.contains("not permitted"), "{answer}");
    answer.starts_with("{\"ok\"")
}

// ---- event types ----

/// One client may publish some types, and another get some.
fn by_types() -> Vec<AccessRule> {
    vec![
        rule(&[WRITER, READER], &["publish", "subscribe"], &["0"], &["Weather/Secret*"], false),
        rule(&[WRITER], &["publish"], &["0"], &["Weather/*", "Sea/Tide"], true),
        rule(&[READER], &["subscribe"], &["0"], &["Weather/*"], true),
        rule(&[OPERATOR], &ALL, &["*"], &[], true),
    ]
}

fn consumer(service: &Service, who: &str) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (sender, received) = channel();
    let options = ConsumerOptions { orb: options(who), ..ConsumerOptions::default() };
    let consumer = SimpleConsumer::connect(&url(service), None, options, move |event| {
        let _ = sender.send(event.event().unwrap());
        Ok(())
    });
    (consumer.unwrap(), received)
}

fn supplier(service: &Service, who: &str, form: ClientType) -> SimpleSupplier {
    let options = SupplierOptions { orb: options(who), form, ..SupplierOptions::default() };
    SimpleSupplier::connect_with(&url(service), None, options).unwrap()
}

#[test]
fn an_event_of_a_type_that_its_supplier_may_not_push_is_refused_and_the_others_are_taken() {
    let service = start(by_types());
    let (_consumer, received) = consumer(&service, OPERATOR);
    let writer = supplier(&service, WRITER, ClientType::Structured);
    for _ in 0..3 {
        for (domain, name, may) in
            [("Weather", "Wind", true), ("Weather", "SecretWind", false), ("Sea", "Tide", true), ("Sea", "Salt", false)]
        {
            assert_eq!(permitted(writer.publish(&event(domain, name))), may, "{domain}/{name}");
            if may {
                assert_eq!(received.next_in_time().event_type(), EventType::new(domain, name));
            }
        }
    }
    // Of a sequence what comes before it is taken, as with any event that is refused.
    let sequences = supplier(&service, WRITER, ClientType::Sequence);
    let batch = [event("Sea", "Tide"), event("Sea", "Salt"), event("Weather", "Wind")];
    assert!(!permitted(sequences.publish_all(&batch)));
    assert_eq!(received.next_in_time().event_type(), EventType::new("Sea", "Tide"));
    assert!(permitted(sequences.publish_all(&batch[2..])));
    assert_eq!(received.next_in_time().event_type(), EventType::new("Weather", "Wind"));
    await_count(&service, Counter::DeniedPublish, 7);
    // The same by JSON and Tempo.
    let mut lines = Lines::connect_from(&service, WRITER);
    assert!(done(&lines.ask(r#"{"op":"publish","id":1,"type":"Weather/Wind"}"#)));
    assert!(!done(&lines.ask(r#"{"op":"publish","id":1,"type":"Weather/SecretWind"}"#)));
    let mut datagrams = Datagrams::at(&service, 7, format!("{WRITER}:0").parse().unwrap());
    datagrams.meet(1, Role::Publisher, "Sea/Salt");
    datagrams.publish(1, 1, b"salt");
    await_count(&service, Counter::DeniedPublish, 9);
    await_count(&service, Counter::TempoRefused, 1);
}

#[test]
fn a_consumer_gets_what_it_may_of_its_subscription_by_every_protocol() {
    let service = start(by_types());
    let (reader, received) = consumer(&service, READER);
    let mut lines = Lines::connect_from(&service, READER);
    assert_eq!(lines.ask(r#"{"op":"subscribe","id":1,"types":["*/*"]}"#), r#"{"ok":1}"#);
    let operator = supplier(&service, OPERATOR, ClientType::Structured);
    let pulling = orb(READER);
    let pulls = |orb: &Orb| {
        let admin = channel_of(&service, orb, 0).default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_pull_consumer(None).unwrap();
        proxy
    };
    let (own, others) = (pulls(&pulling), pulls(&orb_of_operator()));
    for _ in 0..2 {
        for (domain, name) in [("Sea", "Tide"), ("Weather", "SecretWind"), ("Weather", "Wind")] {
            operator.publish(&event(domain, name)).unwrap();
        }
        assert_eq!(received.next_in_time().event_type(), EventType::new("Weather", "Wind"));
        assert!(lines.line().unwrap().contains("\"Weather/Wind\""));
        assert_eq!(own.pull_structured_event().unwrap().event_type(), EventType::new("Weather", "Wind"));
    }
    // What another's proxy has, which is more, it does not get.
    let others = StructuredProxyPullSupplier::unchecked(pulling.object(others.object().ior().clone()));
    assert!(!permitted(others.pull_structured_event()));
    drop(reader);
}

// ---- the owners of proxies and admins ----

#[test]
fn what_a_client_made_others_change_only_if_they_administer_the_channel() {
    let service = start(vec![
        rule(&[WRITER, READER], &["publish", "subscribe"], &["*"], &[], true),
        rule(&[OPERATOR], &ALL, &["*"], &[], true),
    ]);
    let bare = Bare::new();
    let made = |who: &str| {
        let orb = orb(who);
        let admin = channel_of(&service, &orb, 0).default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_push_consumer(&orb.object(bare.reference())).unwrap();
        proxy
    };
    let as_seen_by = |who: &str, proxy: &StructuredProxyPushSupplier| {
        StructuredProxyPushSupplier::unchecked(orb(who).object(proxy.object().ior().clone()))
    };
    let (first, second) = (made(READER), made(READER));
    for proxy in [&first, &second] {
        let strange = as_seen_by(WRITER, proxy);
        assert!(!permitted(strange.suspend_connection()) && !permitted(strange.set_qos(&[])));
        assert!(!permitted(strange.subscription_change(&[EventType::new("A", "B")], &[])));
        assert!(!permitted(strange.disconnect_structured_push_supplier()));
        assert!(permitted(strange.get_qos()));
    }
    assert!(permitted(as_seen_by(READER, &first).disconnect_structured_push_supplier()), "over another connection");
    assert!(permitted(as_seen_by(OPERATOR, &second).disconnect_structured_push_supplier()));
    // The default admins have no owner.
    let admin = channel_of(&service, &orb(READER), 0).default_consumer_admin().unwrap();
    assert!(!permitted(admin.set_qos(&[])));
    let (own, _) =
        channel_of(&service, &orb(READER), 0).new_for_consumers(client::notify::FilterGroupOperator::And).unwrap();
    assert!(permitted(own.set_qos(&[])));
    await_count(&service, Counter::DeniedAdminister, 9);
}

/// With the right to subscribe and a key derived from its own, a client pulled what its sibling was to get: pulls are served by lanes,
/// which asked for the right to the channel only.
#[test]
fn a_sibling_pulls_nothing_from_anothers_proxy_and_connects_none() {
    const ONE: &str = "127.0.0.17";
    const OTHER: &str = "127.0.0.18";
    let folder = Folder::new("owners");
    let access = vec![
        rule(&[WRITER, READER, "127.0.0.16/28"], &["publish", "subscribe"], &["*"], &[], true),
        rule(&[OPERATOR], &ALL, &["*"], &[], true),
    ];
    let config = || Config { access: access.clone(), ..folder.config() };
    let seen_by = |who: &str, proxy: &StructuredProxyPullSupplier| {
        StructuredProxyPullSupplier::unchecked(orb(who).object(proxy.object().ior().clone()))
    };
    let service = folder.start(&config(), None);
    let made = |who: &str| {
        let admin = channel_of(&service, &orb(who), 0).default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
        StructuredProxyPullSupplier::unchecked(proxy.object().clone())
    };
    let (of_reader, of_one) = (made(READER), made(ONE));
    for (proxy, strange) in [(&of_reader, WRITER), (&of_one, READER)] {
        assert!(!permitted(seen_by(strange, proxy).connect_structured_pull_consumer(None)), "a fresh one");
    }
    // An address in the range is one client's next as well as another's.
    seen_by(READER, &of_reader).connect_structured_pull_consumer(None).unwrap();
    seen_by(OTHER, &of_one).connect_structured_pull_consumer(None).unwrap();
    let denied_of_siblings = |of_reader: &StructuredProxyPullSupplier, of_one: &StructuredProxyPullSupplier| {
        for (proxy, strange) in [(of_reader, WRITER), (of_reader, ONE), (of_one, READER), (of_one, WRITER)] {
            let strange = seen_by(strange, proxy);
            for _ in 0..2 {
                assert!(!permitted(strange.try_pull_structured_event()) && !permitted(strange.pull_structured_event()));
            }
        }
    };
    denied_of_siblings(&of_reader, &of_one);
    let writer = supplier(&service, WRITER, ClientType::Structured);
    let publish = |name: &str| writer.publish(&event("Weather", name)).unwrap();
    let pulled = |who: &str, proxy: &StructuredProxyPullSupplier| {
        seen_by(who, proxy).pull_structured_event().unwrap().event_type().name
    };
    ["first", "second", "third"].into_iter().for_each(publish);
    for (proxy, takers) in [(&of_reader, [READER, READER, OPERATOR]), (&of_one, [ONE, OTHER, OPERATOR])] {
        let came = takers.map(|who| pulled(who, proxy));
        assert_eq!(came, ["first", "second", "third"]);
    }
    drop(writer);
    // The same after a restart.
    let service = folder.start(&config(), Some(service));
    denied_of_siblings(&of_reader, &of_one);
    let writer = supplier(&service, WRITER, ClientType::Structured);
    writer.publish(&event("Weather", "fourth")).unwrap();
    for (who, proxy) in [(READER, &of_reader), (OTHER, &of_one)] {
        assert_eq!(pulled(who, proxy), "fourth");
    }
}

#[test]
fn what_concerns_the_whole_service_is_for_administrators_of_all_of_it() {
    let service =
        start(vec![rule(&[WRITER], &ALL, &["0"], &[], true), rule(&[OPERATOR], &["administer"], &["*"], &[], true)]);
    let statistics = |who: &str| {
        let object = orb(who).resolve(&service.corbaloc("Statistics")).unwrap();
        object.invoke("get_statistics", |_| {}).map(drop)
    };
    assert!(permitted(statistics(OPERATOR)));
    assert!(!permitted(statistics(WRITER)) && !permitted(statistics(STRANGER)));
    // Dead letters have what suppliers said.
    let dead_letters = |who: &str| {
        let object = orb(who).resolve(&service.corbaloc("Statistics")).unwrap();
        let behind = |w: &mut giop::cdr::Writer<'_>| {
            w.u64(0);
            w.u32(0);
        };
        let none = |w: &mut giop::cdr::Writer<'_>| [0, 0].into_iter().for_each(|number| w.u32(number));
        ["get_dead_letters_behind", "replay_dead_letters", "remove_dead_letters"].map(|operation| {
            let is_look = operation.starts_with("get");
            let asked = if is_look { object.invoke(operation, behind) } else { object.invoke(operation, none) };
            permitted(asked.map(drop))
        })
    };
    assert_eq!([OPERATOR, WRITER, STRANGER].map(dead_letters), [[true; 3], [false; 3], [false; 3]]);
    let names = |who: &str| {
        let object = orb(who).resolve(&service.corbaloc("NameService")).unwrap();
        let named = |w: &mut giop::cdr::Writer<'_>| {
            w.u32(1);
            w.string("Weather");
            w.string("");
        };
        (object.invoke("resolve", named).map(drop), object.invoke("unbind", named).map(drop))
    };
    let (resolved, unbound) = names(STRANGER);
    assert!(!permitted(resolved) && !permitted(unbound));
    let (resolved, unbound) = names(WRITER);
    assert!(permitted(resolved) && !permitted(unbound));
    assert!(permitted(names(OPERATOR).1));
}

// ---- rules that change ----

#[test]
fn other_rules_hold_at_once_for_connected_clients() {
    let everything = || vec![rule(&["*"], &ALL, &["*"], &[], true)];
    let service = start(everything());
    let writer = supplier(&service, WRITER, ClientType::Structured);
    let (reader, received) = consumer(&service, READER);
    let publish = |name: &str| permitted(writer.publish(&event("Weather", name)));
    assert!(publish("Wind"));
    assert_eq!(received.next_in_time().event_type().name, "Wind");
    assert_eq!(service.reload_access(&config(by_types())).unwrap(), [""; 0]);
    assert!(!publish("SecretWind") && publish("Rain"));
    assert_eq!(received.next_in_time().event_type().name, "Rain");
    let only_secrets = vec![
        rule(&[READER], &["subscribe"], &["*"], &["*/Secret*"], true),
        rule(&["*"], &["publish"], &["*"], &[], true),
    ];
    service.reload_access(&config(only_secrets)).unwrap();
    assert!(publish("Wind") && publish("SecretRain"));
    assert_eq!(received.next_in_time().event_type().name, "SecretRain");
    service.reload_access(&config(vec![rule(&[READER], &["subscribe"], &["*"], &[], true)])).unwrap();
    assert!(!publish("Wind"));
    service.reload_access(&config(Vec::new())).unwrap();
    assert!(publish("Snow"));
    assert_eq!(received.next_in_time().event_type().name, "Snow");
    let wrong = config(vec![rule(&["nobody"], &["publish"], &["*"], &[], true)]);
    assert!(service.reload_access(&wrong).unwrap_err().to_string().contains("access rule 1"));
    assert!(publish("Snow"), "the former rules are still in effect");
    drop(reader);
}

#[test]
fn pushes_for_a_lane_of_its_own_are_checked_against_the_rules_too() {
    let mut config = config(by_types());
    config.lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    let service = start_with(config);
    let operator = EventChannelFactory::unchecked(orb_of_operator().resolve(&url(&service)).unwrap());
    let channel = operator.get_event_channel(0).unwrap();
    channel.set_qos(&[ThreadPool::new(PriorityModel::ServerDeclared, 10, 1).into()]).unwrap();
    let writer = supplier(&service, WRITER, ClientType::Structured);
    for _ in 0..4 {
        assert!(permitted(writer.publish(&event("Weather", "Wind"))));
        assert!(!permitted(writer.publish(&event("Weather", "SecretWind"))));
    }
    // A connection follows its pushes to their lane; another one begins on the main lane.
    let proxy = proxy_for(&channel_of(&service, &orb(OPERATOR), 0)).unwrap();
    let strange = StructuredProxyPushConsumer::unchecked(orb(STRANGER).object(proxy.object().ior().clone()));
    assert!(!permitted(strange.push_structured_event(&event("Weather", "Wind"))));
    await_count(&service, Counter::DeniedPublish, 5);
}

#[test]
fn a_consumer_that_is_restored_may_what_it_might_before() {
    let folder = Folder::new("access");
    let with = |access: Vec<AccessRule>| Config { access, ..folder.config() };
    let bare = Bare::new();
    let ids = {
        let service = start_with(with(by_types()));
        let orb = orb(READER);
        let admin = channel_of(&service, &orb, 0).default_consumer_admin().unwrap();
        let (proxy, id) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        StructuredProxyPushSupplier::unchecked(proxy.object().clone())
            .connect_structured_push_consumer(&orb.object(bare.reference()))
            .unwrap();
        service.shutdown();
        id
    };
    let service = start_with(with(by_types()));
    let operator = supplier(&service, OPERATOR, ClientType::Structured);
    operator.publish(&event("Weather", "SecretWind")).unwrap();
    operator.publish(&event("Sea", "Tide")).unwrap();
    operator.publish(&event("Weather", "Wind")).unwrap();
    await_count(&service, Counter::PushesSent, 1);
    let admin = channel_of(&service, &orb(WRITER), 0).default_consumer_admin();
    let proxy = admin.unwrap().get_proxy_supplier(ids).unwrap();
    let strange = ProxyPushSupplier::unchecked(proxy.object().clone());
    assert!(!permitted(strange.set_qos(&[])), "it is its own yet");
    assert_eq!(read(&service, Counter::PushesSent), 1);
}

// ---- tokens ----

#[test]
fn a_token_that_is_none_ends_its_connection_and_one_that_comes_late_does_not_count() {
    let service = start(rules());
    let mut guessing = Lines::connect(&service);
    let answer = guessing.ask(r#"{"op":"hello","id":1,"token":"the secret of writes"}"#);
    assert!(answer.contains("there is no such token"), "{answer}");
    assert_eq!(guessing.line(), None);
    await_count(&service, Counter::DeniedTokens, 1);
    let mut late = Lines::connect(&service);
    assert!(done(&late.ask(r#"{"op":"subscribe","id":1,"channel":1}"#)));
    let hello = format!(r#"{{"op":"hello","id":2,"token":"{}"}}"#, secret("operator"));
    let answer = late.ask(&hello);
    assert!(answer.contains("before anything is published"), "{answer}");
    assert!(!done(&late.ask(r#"{"op":"publish","id":3,"type":"A/B"}"#)));
    let mut twice = Lines::connect(&service);
    assert_eq!(twice.ask(&hello), r#"{"ok":2}"#);
    assert!(twice.ask(&hello).contains("shown once"));
    assert!(done(&twice.ask(r#"{"op":"publish","id":3,"type":"A/B"}"#)));
    assert!(Lines::connect(&service).ask(r#"{"op":"hello","id":1}"#).contains("hello has a"));
}

// ---- addresses that the service calls ----

#[test]
fn no_call_goes_to_link_local_addresses_and_the_services_own_ports() {
    let service = start(Vec::new());
    let own = service.json_address().unwrap().port();
    let connect = |host: &str, port: u16| {
        let orb = orb(WRITER);
        let mut reference = Bare::new().reference();
        if let Some(giop::ior::Profile::Iiop(profile)) = reference.profiles.first_mut() {
            (profile.host, profile.port) = (host.to_owned(), port);
        }
        let (channel, _) = find_channel(&orb.resolve(&url(&service)).unwrap(), None).unwrap();
        let (proxy, _) = channel
            .default_consumer_admin()
            .unwrap()
            .obtain_notification_push_supplier(ClientType::Structured)
            .unwrap();
        StructuredProxyPushSupplier::unchecked(proxy.object().clone())
            .connect_structured_push_consumer(&orb.object(reference))
    };
    for (host, port, may) in [
        ("169.254.169.254", 80, false),
        ("fe80::1", 80, false),
        ("127.0.0.1", own, false),
        ("0.0.0.0", own, false),
        // There another program may have the same port.
        ("127.0.0.7", own, true),
        ("127.0.0.1", 9, true),
    ] {
        assert_eq!(permitted(connect(host, port)), may, "{host}:{port}");
    }
    await_count(&service, Counter::OutgoingRefused, 4);
    // A name says where it leads only when it is looked up.
    assert!(permitted(connect("localhost", own)));
    supplier(&service, WRITER, ClientType::Structured).publish(&event("A", "B")).unwrap();
    wait_until("it to be refused", || read(&service, Counter::OutgoingRefused) > 4);
}

#[test]
fn no_call_goes_to_addresses_that_are_not_named_where_some_are() {
    let outgoing = OutgoingConfig { allow: Some(vec!["127.0.0.64/26".into()]) };
    let service = start_with(Config { outgoing, ..config(Vec::new()) });
    let (sender, received) = channel();
    let connect = |listen: &str| {
        let orb = OrbOptions { listen: Some(format!("{listen}:0")), ..options(WRITER) };
        let options = ConsumerOptions { orb, ..ConsumerOptions::default() };
        let sender = sender.clone();
        SimpleConsumer::connect(&url(&service), None, options, move |event| {
            let _ = sender.send(event.event().unwrap());
            Ok(())
        })
    };
    let reached = Arc::new(connect("127.0.0.70").unwrap());
    assert!(!permitted(connect("127.0.0.1")));
    supplier(&service, WRITER, ClientType::Structured).publish(&event("A", "B")).unwrap();
    assert_eq!(received.next_in_time().event_type(), EventType::new("A", "B"));
    drop(reached);
}
