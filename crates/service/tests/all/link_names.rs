//! One name for many: clients of one service are led to the channels of services that are linked to it.

use std::io::{Read, Write};
use std::net::TcpStream;

use client::naming::{NameComponent, NamingContext};
use client::notify::{ClientType, EventChannel};
use client::{Orb, OrbOptions};
use giop::cdr::{CharSet, Endian, Version};
use giop::ior::Ior;
use giop::message::{self, Header, LocateReply, LocateStatus};
use links::Limits;
use links::wire::{Frame, Hello, NameEntries, NameEntry};
use service::{Config, Counter, Json, LinkEntry, LinkNames, Links, Service};
use testing::{own_loopback, patient, unless_closed};

use crate::json::Lines;
use crate::kinds::{Consumer, Model, Supplier};
use crate::peers::{await_count, read_message, wait_until};
use crate::persistent::factory;

/// The channel that is joined, which each service has.
const LINKED: &str = "Weather";

/// A service at an address of its own, linked to another.
fn start(at: &str, names: LinkNames, to: Option<&str>) -> Service {
    let link = to.map(|to| LinkEntry {
        name: "lab".into(),
        to: format!("{to}:2816"),
        channels: vec![LINKED.into()],
        ..LinkEntry::default()
    });
    let links = Links {
        listen: Some(format!("{at}:2816")),
        name: at.to_owned(),
        names,
        names_forgotten_after_s: 0,
        ..Links::default()
    };
    let json = Json { listen: Some("0".into()), ..Json::default() };
    let link = link.into_iter().collect();
    Service::start(Config { listen: format!("{at}:0"), links, link, json, ..Config::default() }).unwrap()
}

fn places<const N: usize>() -> [String; N] {
    core::array::from_fn(|_| own_loopback().to_string())
}

fn naming(service: &Service) -> NamingContext {
    let orb = Orb::new(OrbOptions::default());
    NamingContext::unchecked(orb.resolve_at(&service.address().to_string(), "NameService").unwrap())
}

/// The name under which clients of ALMA look for a channel.
fn of_events(name: &str) -> [NameComponent; 1] {
    [NameComponent { id: format!("{name}@DEFAULTDOMAIN"), kind: "channels".into() }]
}

fn make(service: &Service, name: &str) -> EventChannel {
    factory(service).create_named_channel(&[], &[], name).unwrap().0
}

fn key(channel: &EventChannel) -> Vec<u8> {
    channel.object().ior().iiop().unwrap().key.clone()
}

/// Events that are supplied to a channel are taken from what may be another reference to it.
fn events_flow(channel: &EventChannel, found: &EventChannel) {
    let consumer = Consumer::new(found, ClientType::Structured, Model::Push);
    let supplier = Supplier::new(channel, ClientType::Structured, Model::Push);
    supplier.give("Wind", 0..20);
    assert_eq!(consumer.numbers(20), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_client_that_asks_one_service_for_a_channel_of_another_is_led_there() {
    let [near_at, far_at] = places();
    let far = start(&far_at, LinkNames::Out, None);
    let dome = make(&far, "Dome");
    let near = start(&near_at, LinkNames::In, Some(&far_at));
    await_count(&near, Counter::FederatedNames, 1);
    // By the naming service, as ALMA's clients look for it, and by its name alone.
    for name in [of_events("Dome"), [NameComponent::new("Dome")]] {
        let found = EventChannel::unchecked(naming(&near).resolve(&name).unwrap());
        assert_eq!(key(&found), key(&dome));
        events_flow(&dome, &found);
    }
    let (listed, _) = naming(&near).list(1_000).unwrap();
    assert_eq!(listed.iter().filter(|binding| binding.name == [NameComponent::new("Dome")]).count(), 1);
    // By `corbaloc`: the first request is answered by LOCATION_FORWARD, which this client follows.
    let orb = Orb::new(OrbOptions::default());
    let found = EventChannel::unchecked(orb.resolve_at(&near.address().to_string(), "Dome").unwrap());
    events_flow(&dome, &found);
    // A second one of the name is not made, and nothing was told the other way round.
    assert!(factory(&near).create_named_channel(&[], &[], "Dome").is_err());
    make(&near, "Office");
    make(&far, "Alarms");
    await_count(&near, Counter::FederatedNames, 2);
    assert!(naming(&far).resolve(&of_events("Office")).is_err());
    assert_eq!(far.counters().read(Counter::FederatedNames), 0);
}

#[test]
fn a_locate_request_for_a_name_of_a_linked_service_is_forwarded_in_each_version() {
    let [near_at, far_at] = places();
    let far = start(&far_at, LinkNames::Out, None);
    let dome = make(&far, "Dome");
    let near = start(&near_at, LinkNames::In, Some(&far_at));
    await_count(&near, Counter::FederatedNames, 1);
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for (name, status) in [("Dome", LocateStatus::ObjectForward), ("Doom", LocateStatus::UnknownObject)] {
            let mut stream = TcpStream::connect(near.address()).unwrap();
            let mut request = Vec::new();
            message::locate_request(&mut request, version, Endian::Little, 3, name.as_bytes());
            stream.write_all(&request).unwrap();
            let (header, bytes): (Header, _) = read_message(&mut stream).expect("an answer");
            let reply = LocateReply::parse(&bytes, &header).unwrap();
            assert_eq!(reply.status, status);
            if status == LocateStatus::ObjectForward {
                let led = Ior::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap();
                assert_eq!(led.iiop().unwrap().key, key(&dome));
            }
        }
    }
}

#[test]
fn what_a_service_has_itself_wins_and_the_other_is_led_to_when_it_is_gone() {
    let [near_at, far_at] = places();
    let far = start(&far_at, LinkNames::Both, None);
    let near = start(&near_at, LinkNames::Both, Some(&far_at));
    let own = make(&near, "Dome");
    let other = make(&far, "Dome");
    make(&far, "Alarms");
    await_count(&near, Counter::FederatedNames, 1);
    let found = |service| key(&EventChannel::unchecked(naming(service).resolve(&of_events("Dome")).unwrap()));
    assert_eq!((found(&near), found(&far)), (key(&own), key(&other)));
    own.destroy().unwrap();
    await_count(&near, Counter::FederatedNames, 2);
    assert_eq!(found(&near), key(&other));
}

#[test]
fn names_are_led_to_through_a_service_between_and_are_gone_with_their_service() {
    let [first_at, middle_at, last_at] = places();
    let middle = start(&middle_at, LinkNames::Both, None);
    let first = start(&first_at, LinkNames::Both, Some(&middle_at));
    let last = start(&last_at, LinkNames::Both, Some(&middle_at));
    let dome = make(&last, "Dome");
    for service in [&middle, &first] {
        await_count(service, Counter::FederatedNames, 1);
    }
    let found = EventChannel::unchecked(naming(&first).resolve(&of_events("Dome")).unwrap());
    assert_eq!(key(&found), key(&dome));
    events_flow(&dome, &found);
    // A client of JSON cannot be led: it is told where the channel is.
    let mut lines = Lines::connect(&first);
    let refused = lines.ask(r#"{"op":"subscribe","id":1,"channel":"Dome"}"#);
    assert!(refused.contains(&format!("is at {}", last.address())), "{refused}");
    drop(last);
    for service in [&middle, &first] {
        await_count(service, Counter::FederatedNames, 0);
    }
    assert!(naming(&first).resolve(&of_events("Dome")).is_err());
    assert!(lines.ask(r#"{"op":"subscribe","id":2,"channel":"Dome"}"#).contains("there is no channel"));
}

#[test]
fn names_are_neither_told_nor_taken_unless_the_configuration_says_so() {
    let [hub_at, out_at, off_at] = places();
    let hub = start(&hub_at, LinkNames::Off, None);
    let out = start(&out_at, LinkNames::Out, Some(&hub_at));
    let off = start(&off_at, LinkNames::Off, Some(&hub_at));
    for (service, name) in [(&hub, "Hub"), (&out, "Out"), (&off, "Off")] {
        make(service, name);
    }
    await_count(&hub, Counter::LinksUp, 2);
    // What is told after it has crossed as well: the line keeps the order.
    let mut lines = Lines::subscribed(&hub, r#","channel":"Weather","create":true"#);
    let publish = r#"{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/Wind","fields":{}}"#;
    let mut from = Lines::connect(&out);
    wait_until("an event to cross", || {
        assert_eq!(from.ask(publish), r#"{"ok":7}"#);
        hub.counters().read(Counter::LinkEventsReceived) > 0
    });
    assert!(lines.line().is_some());
    for service in [&hub, &out, &off] {
        assert_eq!(service.counters().read(Counter::FederatedNames), 0);
        assert_eq!(service.counters().read(Counter::FederatedNamesRejected), 0);
    }
    assert!(naming(&hub).resolve(&of_events("Out")).is_err());
}

/// A linked service that is only a socket: it greets.
fn far_side(at: &str) -> TcpStream {
    let mut stream = TcpStream::connect(format!("{at}:2816")).unwrap();
    patient(&stream);
    let (version_min, version_max) = links::VERSIONS;
    let limits = Limits::default();
    let hello = Hello {
        version_min,
        version_max,
        service: 9,
        incarnation: 1,
        limits,
        name: "far",
        has_store: false,
        token: "",
    };
    tell(&mut stream, Frame::Hello(hello));
    stream
}

fn tell(stream: &mut TcpStream, frame: Frame<'_>) {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    stream.write_all(&bytes).unwrap();
}

fn send_names(stream: &mut TcpStream, entries: &[NameEntry<'_>]) {
    tell(stream, Frame::Directory { more: false, names: NameEntries::new(entries).unwrap() });
}

#[test]
fn a_peer_that_tells_too_many_names_or_bad_ones_has_the_others_taken_until_it_is_gone() {
    const FRAMES: usize = 33;
    let [at, elsewhere] = places();
    let service = start(&at, LinkNames::Both, None);
    let other = start(&elsewhere, LinkNames::Off, None);
    let dome = make(&other, "Dome").object().ior().to_string();
    let mut far = far_side(&at);
    let names: Vec<String> = (0..FRAMES * 128).map(|number| format!("{number:04}")).collect();
    let entry = |name| NameEntry { distance: 0, service: 9, name, reference: &dome };
    for names in names.chunks(128) {
        send_names(&mut far, &names.iter().map(|name| entry(name.as_str())).collect::<Vec<_>>());
    }
    await_count(&service, Counter::FederatedNames, 4_096);
    await_count(&service, Counter::FederatedNamesRejected, 128);
    let gone = NameEntry { reference: "", ..entry("0000") };
    send_names(&mut far, &[gone, entry("con\ntrol")]);
    await_count(&service, Counter::FederatedNames, 4_095);
    await_count(&service, Counter::FederatedNamesRejected, 129);
    let found = naming(&service).resolve(&[NameComponent::new("4095")]).unwrap();
    assert_eq!(found.ior().to_string(), dome);
    // A reference of ten megabytes is none: the connection is closed before it is there.
    let mut frame = vec![14, 0, 1, 0, 0, 0, 0];
    frame.extend(9_u64.to_le_bytes());
    frame.extend([1, 0, 0, 0, b'x']);
    frame.extend((10_u32 << 20).to_le_bytes());
    far.write_all(&[&u32::try_from(frame.len()).unwrap().to_le_bytes()[..], &frame].concat()).unwrap();
    let mut rest = Vec::new();
    unless_closed(far.read_to_end(&mut rest));
    let last = String::from_utf8_lossy(&rest).into_owned();
    assert!(last.contains("reference"), "{last}");
    await_count(&service, Counter::FederatedNames, 0);
    assert!(naming(&service).resolve(&[NameComponent::new("4095")]).is_err());
}
