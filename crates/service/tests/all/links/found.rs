//! Services that find each other.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;

use client::notify::ThreadPool;
use giop::realtime::PriorityModel;
use links::announce::{Announcement, Channels};
use links::group::Key;
use service::{
    Answer, Config, Counter, Federation, FederationMember, Lanes, LinkDirection, LinkOrigin, LinkState, Query,
    Scheduling, Service,
};
use testing::TempPath;

use super::{PERSISTENT, Places, await_flows, await_subscribed, flows, numbers, publish, subscribed};
use crate::json::Lines;
use crate::peers::{await_count, wait_until};
use crate::persistent::{Folder, factory};

/// Places of services, and the group of a test's own in which they announce themselves.
struct Site {
    places: Places,
    group: String,
    key: TempPath,
}

impl Site {
    fn new(count: usize) -> Self {
        let places = Places::new(count);
        let [_, one, two, three] = places.0[0].parse::<Ipv4Addr>().unwrap().octets();
        let key = TempPath::new("federation-key");
        std::fs::write(&key, "the key that these services share.\n").unwrap();
        Self { places, group: format!("239.{one}.{two}.{three}:2818"), key }
    }

    fn federation(&self, name: &str) -> Federation {
        Federation {
            name: Some(name.to_owned()),
            group: self.group.clone(),
            interface: Some("127.0.0.1".to_owned()),
            key_file: Some(PathBuf::from(self.key.as_os_str())),
            ..Federation::default()
        }
    }

    fn start(&self, number: usize, federation: Federation) -> Service {
        Service::start(Config { federation, ..self.places.config(number, Vec::new(), None) }).unwrap()
    }
}

#[test]
fn three_services_find_each_other_and_link_channels_of_one_name_and_one_leaves_and_comes_back() {
    if !testing::carries_multicast(41) {
        return;
    }
    let site = Site::new(3);
    let start = |number| {
        let service = site.start(number, site.federation("observatory"));
        // The channel is made after the start, and one of which the others have none beside it.
        let own = format!(r#","channel":"Dome {number}","create":true"#);
        (subscribed(&service), Lines::subscribed(&service, &own), service)
    };
    let mut all: Vec<_> = (0..3).map(start).collect();
    let await_mesh = |all: &[(Lines, Lines, Service)]| {
        for (.., service) in all {
            await_count(service, Counter::FederationServices, 2);
        }
        await_flows(&all.iter().map(|(.., service)| service).collect::<Vec<_>>(), 4);
        for (.., service) in all {
            await_subscribed(service, "everything");
        }
    };
    await_mesh(&all);
    for (.., service) in &all {
        let flows = flows(service);
        assert!(flows.iter().all(|flow| flow.channel == "Weather"), "{flows:?}");
        assert!(flows.iter().all(|flow| matches!(flow.origin, LinkOrigin::Found | LinkOrigin::Peer)), "{flows:?}");
    }
    let exchange = |all: &mut [(Lines, Lines, Service)], from: u32| {
        for (number, (.., service)) in (0_u32..).zip(all.iter()) {
            let mut lines = Lines::connect(service);
            let first = from + 100 * number;
            (first..first + 20).for_each(|number| publish(&mut lines, number, ""));
        }
        for (lines, ..) in all {
            let mut got = numbers(lines, 60);
            got.sort_unstable();
            let expected: Vec<u32> = (0..3).flat_map(|number| from + 100 * number..from + 100 * number + 20).collect();
            assert_eq!(got, expected, "everyone gets each event once");
        }
    };
    let is_as_it_is = |service: &FederationMember| {
        let number = if service.name == "site 1" { 1 } else { 2 };
        service.state == LinkState::Up
            && service.linked == ["Weather"]
            && service.channels == [format!("Dome {number}"), "Weather".to_owned()]
            && service.address == site.places.links_at(number)
    };
    // The side that is dialled may yet have to hear which channels the other one has.
    wait_until("the federation as it is", || {
        let services = federation(&all[0].2);
        let is_self = services.iter().map(|service| service.is_self);
        is_self.eq([true, false, false]) && services[1..].iter().all(is_as_it_is)
    });
    exchange(&mut all, 1_000);
    drop(all.remove(1));
    for (.., service) in &all {
        await_count(service, Counter::FederationServices, 1);
        wait_until("the flows of the service that has left to be gone", || {
            let flows = flows(service);
            flows.iter().filter(|flow| flow.state == LinkState::Up).count() == 2
                && flows.iter().all(|flow| flow.state == LinkState::Up || flow.origin == LinkOrigin::Peer)
        });
    }
    all.insert(1, start(1));
    await_mesh_again(&all);
    exchange(&mut all, 2_000);
}

/// The services of a federation.
fn federation(service: &Service) -> Vec<FederationMember> {
    let Ok(Answer::Federation(services)) = service.ask(Query::Federation) else { panic!("a federation") };
    services
}

/// Waits until each has four flows that are up; what the others keep for a service that was another process stays beside them.
fn await_mesh_again(all: &[(Lines, Lines, Service)]) {
    for (.., service) in all {
        await_count(service, Counter::FederationServices, 2);
    }
    await_flows(&all.iter().map(|(.., service)| service).collect::<Vec<_>>(), 4);
    for (.., service) in all {
        wait_until("the subscriptions of those that are there", || {
            let mut flows = flows(service).into_iter().filter(|flow| flow.state == LinkState::Up);
            flows.all(|flow| flow.direction == LinkDirection::In || flow.subscriptions == "everything")
        });
    }
}

#[test]
fn a_service_with_another_key_or_of_another_federation_is_not_linked() {
    if !testing::carries_multicast(42) {
        return;
    }
    let site = Site::new(4);
    let weather = |federation| Federation { channels: vec!["Weather".to_owned()], ..federation };
    let wrong = TempPath::new("federation-key");
    std::fs::write(&wrong, [7; 32]).unwrap();
    let forger =
        Federation { key_file: Some(PathBuf::from(wrong.as_os_str())), ..weather(site.federation("observatory")) };
    let forger = site.start(0, forger);
    let foreign = site.start(1, weather(site.federation("telescope")));
    let near = site.start(2, weather(site.federation("observatory")));
    let far = site.start(3, weather(site.federation("observatory")));
    await_flows(&[&near, &far], 2);
    for service in [&near, &far] {
        wait_until("announcements of both others", || service.counters().read(Counter::FederationRejected) >= 4);
        assert_eq!(service.counters().read(Counter::FederationServices), 1);
        wait_until("that to be said", || federation(service)[0].reason.contains("not made with the shared key"));
    }
    for service in [&forger, &foreign] {
        wait_until("announcements", || service.counters().read(Counter::FederationRejected) >= 2);
        assert_eq!(service.counters().read(Counter::FederationServices), 0);
        assert!(flows(service).is_empty());
    }
    // One channel that has its name is enough: that which is announced is made where it is not there.
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    publish(&mut Lines::connect(&near), 7, "");
    assert_eq!(numbers(&mut lines, 1), [7]);
}

#[test]
fn services_beyond_the_bound_are_not_taken_and_counted() {
    if !testing::carries_multicast(44) {
        return;
    }
    let site = Site::new(1);
    let near = site.start(0, site.federation("observatory"));
    let key = Key::new(b"the key that these services share.");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut counter = 0;
    wait_until("as many services as may be", || {
        counter += 1;
        for service in 1..=65 {
            let (revision, port, tls_port, channels) = (1, 2_816, 0, Channels::default());
            let (part, parts, incarnation, federation) = (0, 1, 1, "observatory");
            let of = Announcement {
                service,
                incarnation,
                counter,
                part,
                parts,
                revision,
                port,
                tls_port,
                federation,
                name: "",
                host: "127.0.0.1",
                channels,
            };
            let mut datagram = Vec::new();
            of.write(&[], &mut datagram);
            datagram.extend(key.code(&datagram));
            socket.send_to(&datagram, &site.group).unwrap();
        }
        near.counters().read(Counter::FederationServices) == 64
    });
    wait_until("the bound to be counted", || near.counters().read(Counter::FederationLimits) > 0);
    assert_eq!(near.counters().read(Counter::FederationServices), 64);
}

/// What waited for a service that was found was dropped when the service that makes the link began again.
#[test]
fn what_waits_for_a_found_service_is_kept_over_a_restart_whichever_side_makes_the_link() {
    if !testing::carries_multicast(43) {
        return;
    }
    let site = Site::new(2);
    let folders = [Folder::new("found-near"), Folder::new("found-far")];
    let start = |number: usize| {
        let federation = Federation { channels: vec!["Weather".to_owned()], ..site.federation("observatory") };
        let config = site.places.config(number, Vec::new(), Some(&folders[number]));
        Service::start(Config { federation, ..config }).unwrap()
    };
    let mut services = [start(0), start(1)].map(Some);
    for (near, far) in [(0, 1), (1, 0)] {
        let [here, there] = [near, far].map(|number| services[number].as_ref().unwrap());
        await_flows(&[here, there], 2);
        await_subscribed(here, "nothing");
        let _lines = subscribed(there);
        await_subscribed(here, "everything");
        drop(services[far].take());
        let here = services[near].as_ref().unwrap();
        await_count(here, Counter::LinksUp, 0);
        (0..5).for_each(|number| publish(&mut Lines::connect(here), number, PERSISTENT));
        await_count(here, Counter::EventsStored, 5);
        drop(services[near].take());
        services[near] = Some(start(near));
        await_count(services[far].insert(start(far)), Counter::LinkEventsReceived, 5);
        await_count(services[near].as_ref().unwrap(), Counter::EventsStored, 0);
    }
}

/// Each lane of a pool once had the links of the configuration, and dialled, so that connections took each other's places.
#[test]
fn a_link_is_dialled_by_the_main_lane_alone() {
    let places = Places::new(2);
    let far = places.start(1, Vec::new());
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    let near = Service::start(Config { lanes, ..places.config(0, vec![places.link_to(1)], None) }).unwrap();
    await_flows(&[&near, &far], 2);
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    let channel = factory(&near).get_event_channel(0).unwrap();
    channel.set_qos(&[ThreadPool::new(PriorityModel::ServerDeclared, 10, 2).into()]).unwrap();
    let mut from = Lines::connect(&near);
    (0..200).for_each(|number| publish(&mut from, number, ""));
    assert_eq!(numbers(&mut lines, 200), (0..200).collect::<Vec<_>>());
    assert_eq!(near.counters().read(Counter::LinksLost), 0);
    assert!(flows(&near).iter().all(|flow| flow.state == LinkState::Up));
}

/// The link made a destroyed channel anew, whichever side it was at.
#[test]
fn a_channel_that_is_destroyed_at_one_side_is_not_linked_any_more() {
    if !testing::carries_multicast(45) {
        return;
    }
    let site = Site::new(2);
    let services = [0, 1].map(|number| site.start(number, site.federation("observatory")));
    let [one, other] = &services;
    let channels = |service| factory(service).get_all_channels().unwrap().len();
    let before = channels(one);
    for (number, (here, there)) in [(one, other), (other, one)].into_iter().enumerate() {
        let dome = format!(r#","channel":"Dome {number}","create":true"#);
        let lines = services.each_ref().map(|service| Lines::subscribed(service, &dome));
        await_flows(&[here, there], 2);
        let factory = factory(here);
        let id = *factory.get_all_channels().unwrap().iter().max().unwrap();
        factory.get_event_channel(id).unwrap().destroy().unwrap();
        await_flows(&[here, there], 0);
        drop(lines);
        // One that is linked after it: announcements have come and gone by then.
        let sky = format!(r#","channel":"Sky {number}","create":true"#);
        let _lines = services.each_ref().map(|service| Lines::subscribed(service, &sky));
        await_flows(&[here, there], 2);
        let linked = flows(here).into_iter().chain(flows(there)).filter(|flow| flow.state == LinkState::Up);
        assert!(linked.clone().all(|flow| flow.channel.starts_with("Sky")), "{:?}", linked.collect::<Vec<_>>());
        assert_eq!(channels(here), before + 1 + 2 * number, "it was not made again");
        let factory = self::factory(here);
        for id in factory.get_all_channels().unwrap().into_iter().filter(|id| *id > 0) {
            factory.get_event_channel(id).unwrap().destroy().unwrap();
        }
        await_flows(&[here, there], 0);
    }
}
