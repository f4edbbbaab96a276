//! Links whose events go in datagrams.

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use service::{Carrier, Config, Counter, LinkDatagrams, LinkDirection, LinkDirections, LinkEntry, Service, Tls};
use testing::certificates::{Authority, Certified};
use testing::{carries_multicast, free_udp_port, own_loopback};

use crate::json::Lines;
use crate::links::{
    PERSISTENT, Places, Said, await_flows, await_subscribed, flows, next, numbers, publish, subscribed,
};
use crate::peers::{Bare, subscribe_to, wait_until};
use crate::persistent::{Folder, factory, number, persistent, suspend};

fn unauthenticated() -> LinkDatagrams {
    LinkDatagrams { unauthenticated: true, ..LinkDatagrams::default() }
}

fn start(places: &Places, number: usize, link: Vec<LinkEntry>, datagrams: LinkDatagrams) -> Service {
    let mut config = places.config(number, link, None);
    config.links.datagrams = datagrams;
    Service::start(config).unwrap()
}

fn by_udp(places: &Places, number: usize) -> LinkEntry {
    LinkEntry { carrier: Carrier::Udp, direction: LinkDirections::Out, ..places.link_to(number) }
}

/// Links to all others in one group, which no other test has.
fn by_multicast(places: &Places) -> Vec<LinkEntry> {
    let group = format!("239.255.77.7:{}", free_udp_port());
    let link = |number: usize| LinkEntry {
        name: format!("site {number}"),
        carrier: Carrier::Multicast,
        group: Some(group.clone()),
        ..by_udp(places, number)
    };
    (1..places.0.len()).map(link).collect()
}

fn carriers(service: &Service) -> Vec<String> {
    let out = flows(service).into_iter().filter(|flow| flow.direction == LinkDirection::Out);
    out.map(|flow| flow.carrier).collect()
}

/// Publishes until all links of a service have the carrier, from a number on. The number of the next event.
#[track_caller]
fn publish_until(service: &Service, carrier: &str, from: &mut Lines, first: u32) -> u32 {
    let (sent, last) = (RefCell::new(first), RefCell::new(Vec::new()));
    let is_so = || {
        *last.borrow_mut() = carriers(service);
        if last.borrow().iter().all(|of| of == carrier) {
            return true;
        }
        publish(from, *sent.borrow(), PERSISTENT);
        *sent.borrow_mut() += 1;
        false
    };
    wait_until(Said(&|f| write!(f, "all links to have {carrier}: {:?}", last.borrow())), is_so);
    sent.into_inner()
}

fn read(service: &Service, counter: Counter) -> u64 {
    service.counters().read(counter)
}

#[test]
fn over_udp_each_event_comes_once_and_in_order_and_a_long_one_too() {
    let places = Places::new(2);
    let far = start(&places, 1, Vec::new(), unauthenticated());
    let mut at_far = subscribed(&far);
    let near = start(&places, 0, vec![by_udp(&places, 1)], unauthenticated());
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "udp", &mut from, 0);
    let before = read(&near, Counter::LinkDatagramsSent);
    for number in first..first + 200 {
        // It does not fit into a datagram.
        let long = format!(r#","header":{{"EventReliability":1,"note":"{}"}}"#, "x".repeat(3_000));
        publish(&mut from, number, if number % 10 == 3 { &long } else { PERSISTENT });
    }
    assert_eq!(numbers(&mut at_far, first as usize + 200), (0..first + 200).collect::<Vec<_>>());
    // On a machine that stands still for seconds the link may have fallen back.
    assert!(read(&near, Counter::LinkDatagramsSent) >= before + 180 || read(&near, Counter::LinkFallBacks) > 0);
    assert_eq!(read(&far, Counter::LinkDatagramsRefused), 0);
    wait_until("all to be acknowledged", || flows(&near).iter().all(|flow| flow.in_flight_events == 0));
    let flow = &flows(&near)[0];
    assert_eq!((flow.acknowledged, flow.lost), (u64::from(first) + 200, 0), "{flow:?}");
}

#[test]
fn over_multicast_an_event_is_one_datagram_for_three_services() {
    if !carries_multicast(4) {
        return;
    }
    let places = Places::new(4);
    let far: Vec<Service> = (1..4).map(|number| start(&places, number, Vec::new(), unauthenticated())).collect();
    let mut subscribers: Vec<Lines> = far.iter().map(subscribed).collect();
    let near = start(&places, 0, by_multicast(&places), unauthenticated());
    await_flows(&[&near], 3);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "multicast", &mut from, 0);
    let before = read(&near, Counter::LinkDatagramsSent);
    for number in first..first + 300 {
        publish(&mut from, number, PERSISTENT);
    }
    for lines in &mut subscribers {
        assert_eq!(numbers(lines, first as usize + 300), (0..first + 300).collect::<Vec<_>>());
    }
    let sent = read(&near, Counter::LinkDatagramsSent) - before;
    let came: u64 = far.iter().map(|far| read(far, Counter::LinkDatagramsReceived)).sum();
    assert!(sent >= 300 || read(&near, Counter::LinkFallBacks) > 0, "{sent}");
    assert!(came >= 2 * sent, "{came} of {sent}");
    publish(&mut from, 999_999, "");
    for lines in &mut subscribers {
        assert_eq!(next(lines), 999_999, "nothing came twice");
    }
}

/// One wants only wind, and one rain as well: each has the order of the supplier.
#[test]
fn services_of_a_group_that_want_different_types_have_the_order_of_the_supplier() {
    if !carries_multicast(5) {
        return;
    }
    let places = Places::new(3);
    let far: Vec<Service> = (1..3).map(|number| start(&places, number, Vec::new(), unauthenticated())).collect();
    let mut wind = Lines::subscribed(&far[0], r#","channel":"Weather","create":true,"types":["Weather/Wind"]"#);
    let mut all = subscribed(&far[1]);
    let near = start(&places, 0, by_multicast(&places), unauthenticated());
    await_flows(&[&near], 2);
    let is_wanted = || {
        let mut wanted: Vec<String> = flows(&near).into_iter().map(|flow| flow.subscriptions).collect();
        wanted.sort_unstable();
        wanted == ["1 type", "everything"]
    };
    wait_until("both to want something", is_wanted);
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "multicast", &mut from, 0);
    for number in first..first + 100 {
        let of_type = if number % 2 == 0 { "Wind" } else { "Rain" };
        let line = format!(
            r#"{{"op":"publish","id":7,"channel":"Weather","type":"Weather/{of_type}","fields":{{"number":{number}}}}}"#
        );
        assert_eq!(from.ask(&line), r#"{"ok":7}"#);
    }
    assert_eq!(numbers(&mut all, first as usize + 100), (0..first + 100).collect::<Vec<_>>());
    let expected: Vec<u32> = (0..first).chain((first..first + 100).filter(|number| number % 2 == 0)).collect();
    assert_eq!(numbers(&mut wind, expected.len()), expected);
}

#[test]
fn persistent_events_cross_in_datagrams_exactly_once_when_a_service_begins_again() {
    if !carries_multicast(6) {
        return;
    }
    let places = Places::new(3);
    let folders = ["links-group-a", "links-group-b", "links-group-c"].map(Folder::new);
    let links = by_multicast(&places);
    let start = |number: usize| {
        let link = if number == 0 { links.clone() } else { Vec::new() };
        let mut config = places.config(number, link, Some(&folders[number]));
        config.links.datagrams = unauthenticated();
        Service::start(Config { listen: format!("{}:2809", places.0[number]), ..config }).unwrap()
    };
    let mut services = [None, Some(start(1)), Some(start(2))];
    let mut consumers = Vec::new();
    for far in services.iter().flatten() {
        let (_, id) = factory(far).create_named_channel(&[persistent()], &[], "Weather").unwrap();
        let consumer = Bare::new();
        let held = subscribe_to(far, Some(id), consumer.reference(), &[]);
        suspend(&held);
        consumers.push((consumer, held));
    }
    services[0] = Some(start(0));
    let mut sent = 0;
    for which in [1, 2, 0, 1, 2] {
        let near = services[0].as_ref().unwrap();
        await_flows(&[near], 2);
        await_subscribed(near, "everything");
        let mut from = Lines::connect(near);
        sent = publish_until(near, "multicast", &mut from, sent);
        for _ in 0..30 {
            publish(&mut from, sent, PERSISTENT);
            sent += 1;
        }
        drop(services[which].take());
        if which != 0 {
            // The other one has what it is sent, whatever this one does.
            for _ in 0..10 {
                publish(&mut from, sent, PERSISTENT);
                sent += 1;
            }
        }
        services[which] = Some(start(which));
    }
    let [near, ..] = &services;
    let near = near.as_ref().unwrap();
    wait_until("all to be acknowledged", || read(near, Counter::EventsStored) == 0);
    for (consumer, held) in consumers {
        client::notify::StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
        let mut link = consumer.accept();
        let got: Vec<i32> = (0..sent).map(|_| number(&link.accept_push())).collect();
        assert_eq!(got, (0..i32::try_from(sent).unwrap()).collect::<Vec<_>>(), "each once, and in order");
    }
}

#[test]
fn over_tls_each_channel_has_a_key_of_its_own_and_none_is_configured() {
    let authority = Authority::new("service-link-datagrams");
    let tls = |name: &str| {
        let Certified { certificate, key, .. } = authority.certify(name);
        let (certificate, key) = (Some(certificate), Some(key));
        Tls { certificate, key, client_ca: Some(authority.file()), ca: Some(authority.file()), ..Tls::default() }
    };
    let places = Places::new(2);
    let mut config = places.config(1, Vec::new(), None);
    config.tls = Tls { links_listen: Some("127.0.0.1:0".into()), ..tls("far") };
    let far = Service::start(config).unwrap();
    let mut at_far = subscribed(&far);
    let [.., Some(address)] = far.tls_addresses() else { panic!("an address for links") };
    let link = LinkEntry { to: format!("localhost:{}", address.port()), tls: true, ..by_udp(&places, 1) };
    let mut config = places.config(0, vec![link], None);
    config.tls = tls("near");
    let near = Service::start(config).unwrap();
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "udp", &mut from, 0);
    for number in first..first + 20 {
        publish(&mut from, number, PERSISTENT);
    }
    assert_eq!(numbers(&mut at_far, first as usize + 20), (0..first + 20).collect::<Vec<_>>());
    assert!(read(&far, Counter::LinkDatagramsReceived) > 0);
    assert_eq!(read(&far, Counter::LinkDatagramsRefused), 0);
}

/// A relay of a link that loses nearly a third of the datagrams, and doubles some.
struct Relay {
    ip: String,
}

impl Relay {
    fn to(far: &str, port: u16) -> Self {
        let ip = own_loopback().to_string();
        let listener = TcpListener::bind(format!("{ip}:2816")).unwrap();
        let datagrams = UdpSocket::bind(format!("{ip}:{port}")).unwrap();
        let (own, to) = (ip.clone(), format!("{far}:2816"));
        // Both threads end with the process: nothing is left to them when the services have gone.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Ok(far) = connect_from(&own, &to) else { continue };
                for (mut one, mut other) in [(stream.try_clone().unwrap(), far.try_clone().unwrap()), (far, stream)] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut one, &mut other);
                        let _ = other.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        let far: SocketAddr = format!("{far}:{port}").parse().unwrap();
        thread::spawn(move || {
            let (mut octets, mut count) = ([0; 2_000], 0_u64);
            while let Ok(length) = datagrams.recv(&mut octets) {
                count += 1;
                let copies = match count % 13 {
                    1 | 5 | 6 | 11 => 0,
                    3 => 2,
                    _ => 1,
                };
                (0..copies).for_each(|_| _ = datagrams.send_to(&octets[..length], far));
            }
        });
        Self { ip }
    }
}

/// Connects from an address of this host, by which the far side knows the datagrams' sender.
fn connect_from(own: &str, to: &str) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &format!("{own}:0").parse::<SocketAddr>().unwrap())?;
    connect(&socket, &to.parse::<SocketAddr>().unwrap())?;
    Ok(socket.into())
}

#[test]
fn what_a_line_loses_is_asked_for_and_comes_in_order() {
    let places = Places::new(2);
    let port = free_udp_port();
    let far = start(&places, 1, Vec::new(), LinkDatagrams { port, ..unauthenticated() });
    let relay = Relay::to(&places.0[1], port);
    let link = LinkEntry { to: format!("{}:2816", relay.ip), ..by_udp(&places, 1) };
    let mut at_far = subscribed(&far);
    let near = start(&places, 0, vec![link], unauthenticated());
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "udp", &mut from, 0);
    for number in first..first + 500 {
        publish(&mut from, number, PERSISTENT);
    }
    assert_eq!(numbers(&mut at_far, first as usize + 500), (0..first + 500).collect::<Vec<_>>());
    let has_fallen_back = read(&near, Counter::LinkFallBacks) > 0;
    assert!(read(&far, Counter::LinkDatagramsRequested) >= 100 || has_fallen_back);
    assert!(read(&near, Counter::LinkEventsRepaired) >= 100 || has_fallen_back);
    assert!(read(&far, Counter::LinkDatagramsIgnored) > 0, "those that came twice");
    publish(&mut from, 999_999, "");
    assert_eq!(next(&mut at_far), 999_999, "nothing came twice");
}

#[test]
fn without_the_same_key_at_both_sides_events_cross_over_the_connection_and_that_is_said() {
    let folder = Folder::new("links-keys");
    std::fs::create_dir_all(folder.path()).unwrap();
    let key = |name: &str, secret: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, secret.repeat(32)).unwrap();
        LinkDatagrams { key_file: Some(file), ..LinkDatagrams::default() }
    };
    let [one, other] = [key("one", "a"), key("other", "b")];
    let refused = |near: LinkDatagrams, far: LinkDatagrams, why: &str| {
        let places = Places::new(2);
        let far = start(&places, 1, Vec::new(), far);
        let mut at_far = subscribed(&far);
        let near = start(&places, 0, vec![by_udp(&places, 1)], near);
        await_flows(&[&near, &far], 1);
        await_subscribed(&near, "everything");
        let (mut from, mut sent) = (Lines::connect(&near), 0);
        let is_said = || {
            publish(&mut from, sent, PERSISTENT);
            sent += 1;
            carriers(&near)[0].contains(why)
        };
        wait_until(why, is_said);
        assert_eq!(numbers(&mut at_far, sent as usize), (0..sent).collect::<Vec<_>>());
        far.counters().read(Counter::LinkDatagramsRefused)
    };
    refused(one.clone(), LinkDatagrams::default(), "links.datagrams.key_file is not set at both sides");
    refused(unauthenticated(), one.clone(), "links.datagrams.unauthenticated is not set at both sides");
    assert!(refused(one.clone(), other, "it has acknowledged nothing for 3 s") > 0);
    // With the same key at both sides it is as it should be.
    let places = Places::new(2);
    let far = start(&places, 1, Vec::new(), one.clone());
    let mut at_far = subscribed(&far);
    let near = start(&places, 0, vec![by_udp(&places, 1)], one);
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "udp", &mut from, 0);
    publish(&mut from, first, PERSISTENT);
    assert_eq!(numbers(&mut at_far, first as usize + 1), (0..=first).collect::<Vec<_>>());
}

/// The links go by one network, and the datagrams by another.
#[test]
fn datagrams_to_a_group_take_the_network_that_is_configured() {
    let network = own_loopback().to_string();
    let at = |interface: &str| LinkDatagrams { interface: Some(interface.into()), ..unauthenticated() };
    let places = Places::new(2);
    for (interface, why) in [("nowhere", "is no IPv4 address"), ("192.0.2.1", "192.0.2.1 is no address of this host")] {
        let mut config = places.config(0, Vec::new(), None);
        config.links.datagrams = at(interface);
        let refused = Service::start(config).err().unwrap().to_string();
        assert!(refused.contains("links.datagrams.interface") && refused.contains(why), "{refused}");
    }
    if !carries_multicast(7) {
        return;
    }
    let far = start(&places, 1, Vec::new(), at(&network));
    let mut at_far = subscribed(&far);
    let near = start(&places, 0, by_multicast(&places), at(&network));
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let mut from = Lines::connect(&near);
    let first = publish_until(&near, "multicast", &mut from, 0);
    (first..first + 50).for_each(|number| publish(&mut from, number, PERSISTENT));
    let count = first as usize + 50;
    assert_eq!(numbers(&mut at_far, count), (0..first + 50).collect::<Vec<_>>());
    // From another address than the connection's, and taken.
    let came = read(&far, Counter::LinkDatagramsReceived) - read(&far, Counter::LinkDatagramsRefused);
    assert!(came > 0 || read(&near, Counter::LinkFallBacks) > 0, "{came}");
}

#[test]
fn a_link_whose_datagrams_never_come_tries_again_and_loses_nothing() {
    let folder = Folder::new("links-never");
    std::fs::create_dir_all(folder.path()).unwrap();
    // The far side refuses all of them.
    let [one, other] = ["one", "other"].map(|name| {
        let file = folder.path().join(name);
        std::fs::write(&file, name.repeat(32)).unwrap();
        LinkDatagrams { key_file: Some(file), ..LinkDatagrams::default() }
    });
    let places = Places::new(2);
    let far = start(&places, 1, Vec::new(), other);
    let mut at_far = subscribed(&far);
    let near = start(&places, 0, vec![by_udp(&places, 1)], one);
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let (mut from, mut sent) = (Lines::connect(&near), 0);
    let goes_on = || {
        publish(&mut from, sent, PERSISTENT);
        assert_eq!(next(&mut at_far), sent, "each once, in order, whichever way it went first");
        sent += 1;
        read(&near, Counter::LinkFallBacks) >= 2
    };
    wait_until("the second time that the link falls back", goes_on);
    assert!(read(&far, Counter::LinkDatagramsRefused) >= 2);
}
