//! Links to notification services that know nothing of links. The far one is Campanile, used by its standard interfaces alone.

use std::cell::RefCell;
use std::net::TcpListener;

use client::notify::{EventChannel, Property, StructuredProxyPushSupplier};
use service::{
    Answer, Carrier, Command, Config, Counter, Json, LinkDirections, LinkEntry, LinkState, LinkStatus, Query, Service,
};
use testing::own_loopback;

use crate::json::Lines;
use crate::peers::{Bare, await_count, subscribe_to, wait_until};
use crate::persistent::{Folder, factory, number, persistent, suspend};

/// Where the far service is, and is again.
struct Place(String);

impl Place {
    fn new() -> Self {
        Self(format!("{}:2809", own_loopback()))
    }

    fn link(&self) -> LinkEntry {
        LinkEntry {
            name: "old".into(),
            to: format!("corbaloc:iiop:{}/NotifyEventChannelFactory", self.0),
            channels: vec!["Weather".into()],
            carrier: Carrier::Iiop,
            ..LinkEntry::default()
        }
    }

    /// The far service: it has no links.
    fn start(&self, folder: Option<&Folder>) -> Service {
        let base = folder.map(Folder::config).unwrap_or_default();
        Service::start(Config { listen: self.0.clone(), json: json(), ..base }).unwrap()
    }
}

fn json() -> Json {
    Json { listen: Some("0".into()), ..Json::default() }
}

fn near(link: LinkEntry, folder: Option<&Folder>) -> Service {
    let base = folder.map(Folder::config).unwrap_or_default();
    Service::start(Config { listen: "127.0.0.1:0".into(), link: vec![link], json: json(), ..base }).unwrap()
}

fn subscribed(service: &Service) -> Lines {
    Lines::subscribed(service, r#","channel":"Weather","create":true"#)
}

fn publish_as(lines: &mut Lines, of_type: &str, number: u32, header: &str) {
    let line = format!(
        r#"{{"op":"publish","id":7,"channel":"Weather","create":true,"type":"Weather/{of_type}"{header},"fields":{{"number":{number}}}}}"#
    );
    assert_eq!(lines.ask(&line), r#"{"ok":7}"#);
}

fn publish(service: &Service, numbers: core::ops::Range<u32>) {
    let mut lines = Lines::connect(service);
    numbers.for_each(|number| publish_as(&mut lines, "Wind", number, ""));
}

/// It outlives the processes that it passes through.
const PERSISTENT: &str = r#","header":{"EventReliability":1}"#;

fn number_in(line: &str) -> u32 {
    let rest = line.split_once(r#""number":"#).unwrap_or_else(|| panic!("{line}")).1;
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn numbers(lines: &mut Lines, count: usize) -> Vec<u32> {
    (0..count).map(|_| number_in(&lines.line().unwrap())).collect()
}

fn flows(service: &Service) -> Vec<LinkStatus> {
    let Ok(Answer::Links(links)) = service.ask(Query::Links) else { panic!("links") };
    links
}

#[track_caller]
fn await_flows(near: &Service, what: &str, are: impl Fn(&[LinkStatus]) -> bool) {
    let last = RefCell::new(Vec::new());
    let hold = || {
        *last.borrow_mut() = flows(near);
        are(&last.borrow())
    };
    wait_until(Said(&|f| write!(f, "{what}: {:?}", last.borrow())), hold);
}

struct Said<'a>(&'a dyn Fn(&mut core::fmt::Formatter<'_>) -> core::fmt::Result);

impl core::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0(f)
    }
}

#[track_caller]
fn await_up(near: &Service, count: usize) {
    let are_up = |flows: &[LinkStatus]| flows.iter().filter(|flow| flow.state == LinkState::Up).count() == count;
    await_flows(near, "the flows to be up", are_up);
}

#[track_caller]
fn await_down(near: &Service, reason: &str) {
    let is_down = |flow: &LinkStatus| flow.state == LinkState::Down && flow.reason.contains(reason);
    await_flows(near, reason, |flows| flows.iter().any(is_down));
}

/// The channel at the far service.
fn weather(far: &Service) -> EventChannel {
    let factory = factory(far);
    let ids = factory.get_all_channels().unwrap();
    factory.get_event_channel(*ids.last().unwrap()).unwrap()
}

#[test]
fn events_cross_both_ways_once_and_do_not_come_back() {
    let place = Place::new();
    let far = place.start(None);
    let mut there = subscribed(&far);
    let near = near(place.link(), None);
    let mut here = subscribed(&near);
    await_up(&near, 2);
    publish(&near, 0..20);
    let from_near: Vec<u32> = (0..20).collect();
    assert_eq!(numbers(&mut there, 20), from_near);
    assert_eq!(numbers(&mut here, 20), from_near);
    // The far channel's own consumers are many, and the link is one: it gets back what it sent.
    await_count(&near, Counter::LinkLoops, 20);
    publish(&far, 100..120);
    let from_far: Vec<u32> = (100..120).collect();
    assert_eq!(numbers(&mut there, 20), from_far);
    assert_eq!(numbers(&mut here, 20), from_far);
    await_count(&near, Counter::LinkLoops, 40);
    publish(&near, 200..201);
    assert_eq!((numbers(&mut here, 1), numbers(&mut there, 1)), (vec![200], vec![200]), "nothing came between");
}

#[test]
fn a_link_without_its_far_service_says_why_and_what_came_meanwhile_crosses_when_it_is_there() {
    let place = Place::new();
    let near = near(place.link(), None);
    await_down(&near, &place.0);
    publish(&near, 0..10);
    let far = place.start(None);
    await_down(&near, "has no channel named \"Weather\": create it there");
    let mut there = subscribed(&far);
    assert_eq!(numbers(&mut there, 10), (0..10).collect::<Vec<_>>());
    drop((there, far));
    await_down(&near, "");
    publish(&near, 10..20);
    // It remembers nothing: the proxies are made anew.
    let far = place.start(None);
    let mut there = subscribed(&far);
    assert_eq!(numbers(&mut there, 10), (10..20).collect::<Vec<_>>());
    let mut here = subscribed(&near);
    publish(&far, 20..21);
    assert_eq!(numbers(&mut here, 1), [20]);
}

#[test]
fn persistent_events_cross_at_least_once_whichever_side_begins_again() {
    let place = Place::new();
    let folders = [Folder::new("iiop-near"), Folder::new("iiop-far")];
    let mut far = place.start(Some(&folders[1]));
    let (_, id) = factory(&far).create_named_channel(&[persistent()], &[], "Weather").unwrap();
    let consumer = Bare::new();
    let held = subscribe_to(&far, Some(id), consumer.reference(), &[]);
    suspend(&held);
    let link = LinkEntry { direction: LinkDirections::Out, ..place.link() };
    let mut near_service = near(link.clone(), Some(&folders[0]));
    let mut sent = 0;
    for round in 0..4 {
        let mut lines = Lines::connect(&near_service);
        for _ in 0..20 {
            publish_as(&mut lines, "Wind", sent, PERSISTENT);
            sent += 1;
        }
        drop(lines);
        if round % 2 == 0 {
            drop(far);
            far = place.start(Some(&folders[1]));
        } else {
            drop(near_service);
            near_service = near(link.clone(), Some(&folders[0]));
        }
    }
    await_count(&near_service, Counter::EventsStored, 0);
    StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
    let mut pushed = consumer.accept();
    let (mut got, mut repeats) = (Vec::new(), 0);
    while got.len() < sent as usize {
        let number = number(&pushed.accept_push());
        if got.contains(&number) { repeats += 1 } else { got.push(number) }
    }
    assert_eq!(got, (0..i32::try_from(sent).unwrap()).collect::<Vec<_>>(), "in order, {repeats} repeated");
}

#[test]
fn a_mute_far_service_is_given_up_with_the_reason_and_its_events_wait() {
    let place = Place::new();
    let _mute = TcpListener::bind(&place.0).unwrap();
    let near = near(place.link(), None);
    publish(&near, 0..3);
    await_down(&near, &place.0);
    await_flows(&near, "the events to wait", |flows| flows.iter().any(|flow| flow.lag_events == 3));
}

#[test]
fn what_the_far_service_refuses_for_now_is_pushed_until_it_is_taken() {
    let place = Place::new();
    let far = place.start(None);
    let admin = [Property::new("MaxQueueLength", 2_i32), Property::new("RejectNewEvents", true)];
    let (_, id) = factory(&far).create_named_channel(&[], &admin, "Weather").unwrap();
    let consumer = Bare::new();
    let held = subscribe_to(&far, Some(id), consumer.reference(), &[]);
    suspend(&held);
    let near = near(LinkEntry { direction: LinkDirections::Out, ..place.link() }, None);
    await_up(&near, 1);
    publish(&near, 0..6);
    wait_until("the far service to refuse one", || far.counters().read(Counter::EventsRefused) > 0);
    await_flows(&near, "the others to wait", |flows| flows[0].acknowledged == 2 && flows[0].in_flight_events > 0);
    StructuredProxyPushSupplier::unchecked(held).resume_connection().unwrap();
    let mut pushed = consumer.accept();
    let got: Vec<i32> = (0..6).map(|_| number(&pushed.accept_push())).collect();
    assert_eq!(got, [0, 1, 2, 3, 4, 5]);
    assert_eq!(near.counters().read(Counter::LinksLost), 0, "the link stayed up");
}

#[test]
fn nothing_is_left_at_the_far_service_when_the_near_one_ends() {
    let place = Place::new();
    let far = place.start(None);
    let _there = subscribed(&far);
    let link = LinkEntry { constraint: "$number > 0".into(), ..place.link() };
    let near = near(link, None);
    await_up(&near, 2);
    let channel = weather(&far);
    let proxies = || {
        let consumers = channel.default_consumer_admin().unwrap().push_suppliers().unwrap().len();
        (channel.default_supplier_admin().unwrap().push_consumers().unwrap().len(), consumers)
    };
    let (suppliers, consumers) = proxies();
    drop(near);
    wait_until("the link's proxies to be gone", || proxies() == (suppliers - 1, consumers - 1));
}

#[test]
fn only_what_the_link_is_for_crosses_and_what_comes_while_it_is_paused_is_kept_there() {
    let place = Place::new();
    let far = place.start(None);
    let mut there = subscribed(&far);
    let ids = factory(&far).get_all_channels().unwrap();
    let link = LinkEntry {
        direction: LinkDirections::In,
        types: vec!["Weather/Wind".into()],
        constraint: "$number < 1000".into(),
        far_channels: vec![ids.last().unwrap().to_string()],
        channels: vec!["Sky".into()],
        ..place.link()
    };
    let near = near(link, None);
    let mut here = Lines::subscribed(&near, r#","channel":"Sky","create":true"#);
    await_up(&near, 1);
    let mut from = Lines::connect(&far);
    for (of_type, number) in [("Rain", 1), ("Wind", 2_000), ("Wind", 2), ("Wind", 3)] {
        publish_as(&mut from, of_type, number, "");
    }
    assert_eq!(numbers(&mut here, 2), [2, 3]);
    let order = |paused| match near.command(Command::PauseLink { name: "old".into(), paused }) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    assert_eq!(order(true), Ok(()));
    await_count(&near, Counter::LinksUp, 0);
    publish_as(&mut from, "Wind", 4, "");
    assert_eq!(order(false), Ok(()));
    assert_eq!(numbers(&mut here, 1), [4]);
    assert_eq!(numbers(&mut there, 5), [1, 2_000, 2, 3, 4]);
}

#[test]
fn a_link_to_a_notification_service_is_added_and_removed_while_the_service_runs() {
    let place = Place::new();
    let far = place.start(None);
    let mut there = subscribed(&far);
    let near = Service::start(Config { listen: "127.0.0.1:0".into(), json: json(), ..Config::default() }).unwrap();
    let channel = weather(&far);
    let proxies = || {
        let consumers = channel.default_consumer_admin().unwrap().push_suppliers().unwrap().len();
        (channel.default_supplier_admin().unwrap().push_consumers().unwrap().len(), consumers)
    };
    let before = proxies();
    for sent in 0..2 {
        let added = near.command(Command::AddLink(Box::new(place.link())));
        assert!(matches!(added, Ok(Answer::LinkAdded(Ok(false)))), "{added:?}");
        await_up(&near, 2);
        publish(&near, sent..sent + 1);
        assert_eq!(numbers(&mut there, 1), [sent]);
        await_flows(&near, "nothing to wait", |flows| flows.iter().all(|flow| flow.lag_events == 0));
        let removed = near.command(Command::RemoveLink { name: "old".into(), drop_backlog: false });
        assert!(matches!(removed, Ok(Answer::Done(Ok(())))), "{removed:?}");
        await_flows(&near, "the link to be gone", <[LinkStatus]>::is_empty);
        wait_until("its proxies to be gone", || proxies() == before);
    }
}
