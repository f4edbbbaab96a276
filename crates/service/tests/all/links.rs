//! Links: one channel across services.

mod added;
mod found;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use client::notify::StructuredProxyPushSupplier;
use service::{
    Answer, Command, Config, Counter, Json, LinkDirection, LinkDirections, LinkEntry, LinkState, LinkStatus, Links,
    Query, Service, Tls,
};
use testing::certificates::{Authority, Certified};
use testing::{own_loopback, patient, unless_closed};

use crate::json::Lines;
use crate::peers::{Bare, await_count, subscribe_to, wait_until};
use crate::persistent::{Folder, factory, number, persistent, suspend};

/// The places of some services: each has an address of its own, so that a service which begins again is where it was.
pub(crate) struct Places(pub(crate) Vec<String>);

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| own_loopback().to_string()).collect())
    }

    pub(crate) fn links_at(&self, number: usize) -> String {
        format!("{}:2816", self.0[number])
    }

    /// A link named `lab` to the service at a place.
    pub(crate) fn link_to(&self, number: usize) -> LinkEntry {
        LinkEntry {
            name: "lab".into(),
            to: self.links_at(number),
            channels: vec!["Weather".into()],
            ..LinkEntry::default()
        }
    }

    /// The service at a place, with links to others.
    pub(crate) fn config(&self, number: usize, link: Vec<LinkEntry>, folder: Option<&Folder>) -> Config {
        let links = Links { listen: Some(self.links_at(number)), name: format!("site {number}"), ..Links::default() };
        let json = Json { listen: Some("0".into()), ..Json::default() };
        let base = folder.map(Folder::config).unwrap_or_default();
        Config { listen: format!("{}:0", self.0[number]), links, link, json, ..base }
    }

    pub(crate) fn start(&self, number: usize, link: Vec<LinkEntry>) -> Service {
        Service::start(self.config(number, link, None)).unwrap()
    }
}

pub(crate) fn subscribed(service: &Service) -> Lines {
    Lines::subscribed(service, r#","channel":"Weather","create":true"#)
}

pub(crate) fn publish(lines: &mut Lines, number: u32, header: &str) {
    let line = format!(
        r#"{{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/Wind"{header},"fields":{{"number":{number}}}}}"#
    );
    assert_eq!(lines.ask(&line), r#"{"ok":7}"#);
}

/// It outlives the processes that it passes through.
pub(crate) const PERSISTENT: &str = r#","header":{"EventReliability":1}"#;

/// The number of the next event.
pub(crate) fn next(lines: &mut Lines) -> u32 {
    let line = lines.line().unwrap();
    let rest = line.split_once(r#""number":"#).unwrap_or_else(|| panic!("{line}")).1;
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

pub(crate) fn numbers(lines: &mut Lines, count: usize) -> Vec<u32> {
    (0..count).map(|_| next(lines)).collect()
}

/// How the flows of a service's links stand.
pub(crate) fn flows(service: &Service) -> Vec<LinkStatus> {
    let Ok(Answer::Links(links)) = service.ask(Query::Links) else { panic!("links") };
    links
}

/// Waits until so many flows are up at each of the services.
#[track_caller]
pub(crate) fn await_flows(services: &[&Service], count: usize) {
    for service in services {
        let last = RefCell::new(Vec::new());
        let up = || {
            *last.borrow_mut() = flows(service);
            last.borrow().iter().filter(|flow| flow.state == LinkState::Up).count() == count
        };
        wait_until(Said(&|f| write!(f, "{count} flows to be up: {:?}", last.borrow())), up);
    }
}

/// What is said when it is asked for.
pub(crate) struct Said<'a>(pub(crate) &'a dyn Fn(&mut core::fmt::Formatter<'_>) -> core::fmt::Result);

impl core::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0(f)
    }
}

/// Waits until the far sides of a service's flows out want this.
#[track_caller]
pub(crate) fn await_subscribed(service: &Service, wanted: &str) {
    let last = RefCell::new(Vec::new());
    let out = |flow: &&LinkStatus| flow.direction == LinkDirection::Out;
    let is_wanted = || {
        *last.borrow_mut() = flows(service);
        last.borrow().iter().filter(out).all(|flow| flow.subscriptions == wanted)
    };
    wait_until(Said(&|f| write!(f, "{wanted:?} to be wanted: {:?}", last.borrow())), is_wanted);
}

#[test]
fn an_event_reaches_the_channel_of_that_name_at_the_other_service_once_and_does_not_come_back() {
    let places = Places::new(2);
    let far = places.start(1, Vec::new());
    let near = places.start(0, vec![places.link_to(1)]);
    let [mut at_near, mut at_far] = [&near, &far].map(subscribed);
    await_flows(&[&near, &far], 2);
    for service in [&near, &far] {
        await_subscribed(service, "everything");
    }
    let [mut from_near, mut from_far] = [&near, &far].map(Lines::connect);
    for number in 0..50 {
        publish(&mut from_near, number, "");
    }
    for lines in [&mut at_near, &mut at_far] {
        assert_eq!(numbers(lines, 50), (0..50).collect::<Vec<_>>());
    }
    for number in 50..100 {
        publish(&mut from_far, number, "");
    }
    for lines in [&mut at_near, &mut at_far] {
        assert_eq!(numbers(lines, 50), (50..100).collect::<Vec<_>>());
    }
    await_count(&near, Counter::LinkEventsSent, 50);
    await_count(&far, Counter::LinkEventsSent, 50);
    // What came by the link was not sent back.
    await_count(&near, Counter::LinkLoops, 50);
    await_count(&far, Counter::LinkLoops, 50);
    assert_eq!(near.counters().read(Counter::LinkEventsReceived), 50);
}

#[test]
fn in_a_ring_of_three_everyone_gets_each_event_once() {
    let places = Places::new(3);
    let services: Vec<Service> =
        (0..3).map(|number| places.start(number, vec![places.link_to((number + 1) % 3)])).collect();
    await_flows(&services.iter().collect::<Vec<_>>(), 4);
    let mut subscribers: Vec<Lines> = services.iter().map(subscribed).collect();
    for service in &services {
        await_subscribed(service, "everything");
    }
    for (service, from) in services.iter().zip([0, 100, 200]) {
        let mut lines = Lines::connect(service);
        (from..from + 30).for_each(|number| publish(&mut lines, number, ""));
    }
    for lines in &mut subscribers {
        let mut got = numbers(lines, 90);
        // The order of each supplier is kept; the suppliers' orders mix.
        for from in [0, 100, 200] {
            let of_one: Vec<u32> = got.iter().copied().filter(|number| number / 100 * 100 == from).collect();
            assert_eq!(of_one, (from..from + 30).collect::<Vec<_>>());
        }
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), 90);
    }
    for (service, lines) in services.iter().zip(&mut subscribers) {
        let mut last = Lines::connect(service);
        publish(&mut last, 900, "");
        // Nothing came between: each was delivered once.
        wait_until("the last event", || next(lines) == 900);
    }
}

#[test]
fn events_wait_for_a_line_that_is_down_and_come_in_order_when_it_is_back() {
    let places = Places::new(2);
    let near = places.start(0, vec![places.link_to(1)]);
    let mut from = Lines::connect(&near);
    for number in 0..100 {
        publish(&mut from, number, "");
    }
    let far = places.start(1, Vec::new());
    await_count(&far, Counter::LinkEventsReceived, 100);
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    for number in 100..150 {
        publish(&mut from, number, "");
    }
    assert_eq!(numbers(&mut lines, 50), (100..150).collect::<Vec<_>>());
    drop(far);
    await_count(&near, Counter::LinksUp, 0);
    for number in 150..200 {
        publish(&mut from, number, "");
    }
    let far = places.start(1, Vec::new());
    await_count(&far, Counter::LinkEventsReceived, 50);
    assert_eq!(near.counters().read(Counter::LinkEventsLost), 0);
}

#[test]
fn what_nobody_wants_over_there_does_not_cross_and_what_is_wanted_beyond_does() {
    let places = Places::new(3);
    let middle = places.start(1, vec![places.link_to(2)]);
    let end = places.start(2, Vec::new());
    let begin = places.start(0, vec![places.link_to(1)]);
    await_flows(&[&begin, &end], 2);
    await_flows(&[&middle], 4);
    await_subscribed(&begin, "nothing");
    let mut from = Lines::connect(&begin);
    publish(&mut from, 1, "");
    let mut lines = Lines::subscribed(&end, r#","channel":"Weather","types":["Weather/Wind"]"#);
    await_subscribed(&begin, "1 type");
    let other = r#"{"op":"publish","id":7,"channel":"Weather","type":"Weather/Rain","fields":{"number":2}}"#;
    assert_eq!(from.ask(other), r#"{"ok":7}"#);
    publish(&mut from, 3, "");
    assert_eq!(next(&mut lines), 3);
    assert_eq!(begin.counters().read(Counter::LinkEventsSent), 1);
    assert_eq!(lines.ask(r#"{"op":"unsubscribe","id":3,"subscription":1}"#), r#"{"ok":3}"#);
    await_subscribed(&begin, "nothing");
}

#[test]
fn a_link_passes_through_tls_and_one_without_a_certificate_does_not() {
    let authority = Authority::new("service-links");
    let tls = |name: &str| {
        let Certified { certificate, key, .. } = authority.certify(name);
        let (certificate, key) = (Some(certificate), Some(key));
        Tls { certificate, key, client_ca: Some(authority.file()), ca: Some(authority.file()), ..Tls::default() }
    };
    let json = || Json { listen: Some("0".into()), ..Json::default() };
    let far = Service::start(Config {
        listen: "127.0.0.1:0".into(),
        tls: Tls { links_listen: Some("127.0.0.1:0".into()), ..tls("far") },
        json: json(),
        ..Config::default()
    });
    let far = far.unwrap();
    let [.., Some(address)] = far.tls_addresses() else { panic!("an address for links") };
    let link = |tls| LinkEntry { to: format!("localhost:{}", address.port()), tls, ..Places::new(1).link_to(0) };
    let start = |tls, link| {
        let config = Config { listen: "127.0.0.1:0".into(), tls, link: vec![link], json: json(), ..Config::default() };
        Service::start(config).unwrap()
    };
    let plain = start(Tls::default(), link(false));
    wait_until("the refusal", || plain.counters().read(Counter::LinksLost) > 0);
    assert_eq!(plain.counters().read(Counter::LinksUp), 0);
    let near = start(tls("near"), link(true));
    await_flows(&[&near, &far], 2);
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    publish(&mut Lines::connect(&near), 5, "");
    assert_eq!(next(&mut lines), 5);
}

#[test]
fn a_link_that_is_paused_collects_and_one_that_the_configuration_has_no_more_goes() {
    let places = Places::new(2);
    let folder = Folder::new("links-paused");
    let far = places.start(1, Vec::new());
    let near = Service::start(places.config(0, vec![places.link_to(1)], Some(&folder))).unwrap();
    await_flows(&[&near, &far], 2);
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    let order = |paused| match near.command(Command::PauseLink { name: "lab".into(), paused }) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    assert_eq!(order(true), Ok(()));
    await_count(&far, Counter::LinksUp, 0);
    let mut from = Lines::connect(&near);
    (0..20).for_each(|number| publish(&mut from, number, PERSISTENT));
    let (paused, lags): (Vec<_>, Vec<_>) =
        flows(&near).iter().map(|flow| (flow.state, (flow.direction, flow.lag_events))).unzip();
    assert_eq!(paused, [LinkState::Paused; 2]);
    assert_eq!(lags, [(LinkDirection::Out, 20), (LinkDirection::In, 0)], "what is to come in is listed, too");
    assert!(order(true).is_err(), "it is paused already");
    assert_eq!(order(false), Ok(()));
    assert_eq!(numbers(&mut lines, 20), (0..20).collect::<Vec<_>>());
    // They are acknowledged before the pause.
    await_count(&near, Counter::EventsStored, 0);
    assert_eq!(order(true), Ok(()));
    publish(&mut from, 20, PERSISTENT);
    await_count(&near, Counter::EventsStored, 1);
    drop(near);
    let near = Service::start(places.config(0, Vec::new(), Some(&folder))).unwrap();
    await_count(&near, Counter::EventsStored, 0);
    assert!(flows(&near).is_empty());
}

#[test]
fn persistent_events_cross_exactly_once_whichever_side_begins_again() {
    let places = Places::new(2);
    let folders = [Folder::new("links-near"), Folder::new("links-far")];
    let start = |number: usize| {
        let link = if number == 0 { vec![places.link_to(1)] } else { Vec::new() };
        let config = places.config(number, link, Some(&folders[number]));
        let listen = format!("{}:2809", places.0[number]);
        Service::start(Config { listen, ..config }).unwrap()
    };
    let mut services = [start(0), start(1)].map(Some);
    let far = services[1].as_ref().unwrap();
    let (_, id) = factory(far).create_named_channel(&[persistent()], &[], "Weather").unwrap();
    let consumer = Bare::new();
    let held = subscribe_to(far, Some(id), consumer.reference(), &[]);
    suspend(&held);
    let mut sent = 0;
    for round in 0..8 {
        let mut from = Lines::connect(services[0].as_ref().unwrap());
        for _ in 0..20 {
            publish(&mut from, sent, PERSISTENT);
            sent += 1;
        }
        if round % 2 == 0 {
            // The far side has some of them, and the near one may not know yet.
            let far = services[1].as_ref().unwrap();
            wait_until("an event to cross", || far.counters().read(Counter::LinkEventsReceived) > 0);
        }
        let which = round / 2 % 2;
        drop(services[which].take());
        services[which] = Some(start(which));
    }
    let [near, far] = services.map(Option::unwrap);
    await_count(&near, Counter::EventsStored, 0);
    StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
    let mut link = consumer.accept();
    let got: Vec<i32> = (0..sent).map(|_| number(&link.accept_push())).collect();
    assert_eq!(got, (0..i32::try_from(sent).unwrap()).collect::<Vec<_>>(), "each once, and in order");
    publish(&mut Lines::connect(&far), 9_999, PERSISTENT);
    assert_eq!(number(&link.accept_push()), 9_999, "nothing came behind");
}

/// The service in the middle said that nothing was subscribed, until the one behind it was connected again.
#[test]
fn what_is_subscribed_beyond_a_service_that_begins_again_is_kept_for_it() {
    let places = Places::new(3);
    let folders: Vec<Folder> = ["links-a", "links-b", "links-c"].map(Folder::new).into();
    let start = |number: usize| {
        let link = if number == 1 {
            vec![places.link_to(0), LinkEntry { name: "end".into(), ..places.link_to(2) }]
        } else {
            Vec::new()
        };
        let config = places.config(number, link, Some(&folders[number]));
        Service::start(Config { listen: format!("{}:2809", places.0[number]), ..config }).unwrap()
    };
    let (begin, middle, end) = (start(0), start(1), start(2));
    let (_, id) = factory(&end).create_named_channel(&[persistent()], &[], "Weather").unwrap();
    let consumer = Bare::new();
    let held = subscribe_to(&end, Some(id), consumer.reference(), &[]);
    suspend(&held);
    await_flows(&[&begin, &end], 2);
    await_subscribed(&begin, "everything");
    drop(end);
    await_count(&middle, Counter::LinksUp, 1);
    drop(middle);
    let middle = start(1);
    await_flows(&[&begin], 2);
    publish(&mut Lines::connect(&begin), 5, PERSISTENT);
    let end = start(2);
    await_count(&middle, Counter::EventsStored, 0);
    StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
    assert_eq!(number(&consumer.accept().accept_push()), 5);
    assert_eq!(end.counters().read(Counter::LinkEventsReceived), 1);
}

/// What the first process of a service asked for was what each later one got.
#[test]
fn a_link_that_comes_again_with_other_types_gets_these() {
    let places = Places::new(2);
    let folder = Folder::new("links-types");
    let far = places.start(1, Vec::new());
    let start = |of_type: &str| {
        let link =
            LinkEntry { direction: LinkDirections::In, types: vec![format!("Weather/{of_type}")], ..places.link_to(1) };
        let near = Service::start(places.config(0, vec![link], Some(&folder))).unwrap();
        await_flows(&[&near], 1);
        let lines = subscribed(&near);
        await_subscribed(&far, "everything");
        (near, lines)
    };
    let mut from = Lines::connect(&far);
    let mut rain = |number: u32| {
        let line = format!(
            r#"{{"op":"publish","id":7,"channel":"Weather","type":"Weather/Rain","fields":{{"number":{number}}}}}"#
        );
        assert_eq!(from.ask(&line), r#"{"ok":7}"#);
    };
    let mut wind = Lines::connect(&far);
    let (near, mut lines) = start("Wind");
    rain(1);
    publish(&mut wind, 2, "");
    assert_eq!(next(&mut lines), 2);
    drop(near);
    await_count(&far, Counter::LinksUp, 0);
    let (_near, mut lines) = start("Rain");
    publish(&mut wind, 3, "");
    rain(4);
    assert_eq!(next(&mut lines), 4);
}

#[test]
fn only_what_the_configuration_names_crosses_and_only_that_way() {
    let places = Places::new(2);
    let far = places.start(1, Vec::new());
    let link = LinkEntry {
        direction: LinkDirections::Out,
        types: vec!["Weather/Wind".into()],
        constraint: "$number > 10".into(),
        ..places.link_to(1)
    };
    let near = places.start(0, vec![link]);
    let [mut at_near, mut at_far] = [&near, &far].map(subscribed);
    await_flows(&[&near, &far], 1);
    await_subscribed(&near, "everything");
    let [mut from_near, mut from_far] = [&near, &far].map(Lines::connect);
    publish(&mut from_far, 40, "");
    assert_eq!(next(&mut at_far), 40);
    let other = r#"{"op":"publish","id":7,"channel":"Weather","type":"Weather/Rain","fields":{"number":30}}"#;
    assert_eq!(from_near.ask(other), r#"{"ok":7}"#);
    for number in 9..13 {
        publish(&mut from_near, number, "");
    }
    assert_eq!(numbers(&mut at_far, 2), [11, 12]);
    assert_eq!(numbers(&mut at_near, 5), [30, 9, 10, 11, 12]);
    assert_eq!(near.counters().read(Counter::LinkEventsReceived), 0);
}

#[test]
fn a_service_is_not_linked_to_itself() {
    let places = Places::new(1);
    let service = places.start(0, vec![places.link_to(0)]);
    wait_until("the refusal", || service.counters().read(Counter::LinksLost) > 0);
    let mut from = Lines::connect(&service);
    let mut lines = subscribed(&service);
    publish(&mut from, 1, "");
    assert_eq!(next(&mut lines), 1);
    assert_eq!(service.counters().read(Counter::LinkEventsSent), 0);
}

/// Copies a store whose service has ended.
pub(crate) fn copy_files(from: &Folder, to: &Folder) {
    std::fs::create_dir_all(to.path()).unwrap();
    for file in std::fs::read_dir(from.path()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn two_services_of_one_identity_are_not_both_linked() {
    let places = Places::new(3);
    let folders = [Folder::new("links-one"), Folder::new("links-copy")];
    let hub = places.start(0, Vec::new());
    let start = |number: usize| {
        let folder = &folders[number - 1];
        Service::start(places.config(number, vec![places.link_to(0)], Some(folder))).unwrap()
    };
    drop(start(1));
    copy_files(&folders[0], &folders[1]);
    let one = start(1);
    await_flows(&[&one], 2);
    let copy = start(2);
    wait_until("the refusal", || copy.counters().read(Counter::LinksLost) > 0);
    let why = || flows(&copy).into_iter().map(|flow| flow.reason).next().unwrap_or_default();
    wait_until("the reason", || why().contains("a data folder that was copied?"));
    assert_eq!(hub.counters().read(Counter::LinksUp), 1);
    let mut lines = subscribed(&hub);
    await_subscribed(&one, "everything");
    publish(&mut Lines::connect(&one), 5, "");
    assert_eq!(next(&mut lines), 5);
}

#[test]
fn what_is_no_link_is_told_why_and_closed_and_no_other_link_is_harmed() {
    let places = Places::new(2);
    let far = places.start(1, Vec::new());
    let near = places.start(0, vec![places.link_to(1)]);
    await_count(&far, Counter::LinksUp, 1);
    let address: SocketAddr = places.links_at(1).parse().unwrap();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"GIOP\x01\x02\x01\x00\x00\x00\x00\x00",
        &[0xff; 64],
        &[0; 64],
        // An event before a greeting.
        &[1, 0, 0, 0, 5],
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        patient(&stream);
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        unless_closed(stream.read_to_end(&mut answer));
    }
    let mut lines = subscribed(&far);
    await_subscribed(&near, "everything");
    publish(&mut Lines::connect(&near), 5, "");
    assert_eq!(next(&mut lines), 5);
    assert!(far.counters().read(Counter::ProtocolErrors) > 0);
}
