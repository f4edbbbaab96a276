//! Links that are added and removed while the service runs.

use service::{
    Answer, Carrier, Command, Config, Counter, LinkDirections, LinkEntry, LinkOrigin, LinkState, Links, Service,
};

use super::{PERSISTENT, Places, await_flows, await_subscribed, flows, next, numbers, publish, subscribed};
use crate::json::Lines;
use crate::logged;
use crate::peers::{await_count, wait_until};
use crate::persistent::Folder;

fn add(service: &Service, entry: LinkEntry) -> Result<bool, String> {
    match service.command(Command::AddLink(Box::new(entry))) {
        Ok(Answer::LinkAdded(done)) => done,
        other => panic!("{other:?}"),
    }
}

fn remove(service: &Service, name: &str, drop_backlog: bool) -> Result<(), String> {
    match service.command(Command::RemoveLink { name: name.into(), drop_backlog }) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_is_added_while_the_service_runs_and_is_there_after_a_restart_with_what_waits_for_it() {
    let places = Places::new(2);
    let folder = Folder::new("links-added");
    // Nothing in its configuration says that it may have links.
    let config = || Config { links: Links::default(), ..places.config(0, Vec::new(), Some(&folder)) };
    let near = Service::start(config()).unwrap();
    let mut from = Lines::connect(&near);
    publish(&mut from, 0, "");
    let far = places.start(1, Vec::new());
    assert_eq!(add(&near, places.link_to(1)), Ok(true), "it is stored");
    await_flows(&[&near, &far], 2);
    assert!(flows(&near).iter().all(|flow| (&*flow.name, flow.origin) == ("lab", LinkOrigin::Added)));
    assert!(flows(&far).iter().all(|flow| flow.origin == LinkOrigin::Peer));
    let [mut at_near, mut at_far] = [&near, &far].map(subscribed);
    for service in [&near, &far] {
        await_subscribed(service, "everything");
    }
    publish(&mut from, 1, PERSISTENT);
    assert_eq!(next(&mut at_far), 1);
    publish(&mut Lines::connect(&far), 2, "");
    assert_eq!(numbers(&mut at_near, 2), [1, 2]);
    let paused = near.command(Command::PauseLink { name: "lab".into(), paused: true });
    assert!(matches!(paused, Ok(Answer::Done(Ok(())))), "{paused:?}");
    await_count(&far, Counter::LinksUp, 0);
    publish(&mut from, 3, PERSISTENT);
    await_count(&near, Counter::EventsStored, 1);
    drop(near);
    let near = Service::start(config()).unwrap();
    assert_eq!(numbers(&mut at_far, 2), [2, 3]);
    await_flows(&[&near, &far], 2);
    assert!(flows(&near).iter().all(|flow| flow.origin == LinkOrigin::Added));
    assert_eq!(remove(&near, "lab", false), Ok(()));
    await_flows(&[&near, &far], 0);
    drop(near);
    let near = Service::start(config()).unwrap();
    assert!(flows(&near).is_empty(), "{:?}", flows(&near));
    assert_eq!(remove(&near, "lab", false), Err("there is no link of this name".to_owned()));
}

#[test]
fn a_link_with_a_backlog_is_removed_only_if_that_is_dropped_and_its_name_is_free_then() {
    let places = Places::new(2);
    let near = places.start(0, Vec::new());
    assert_eq!(add(&near, places.link_to(1)), Ok(false), "it ends with the process: there is no store");
    let mut from = Lines::connect(&near);
    (0..20).for_each(|number| publish(&mut from, number, ""));
    wait_until("what waits", || flows(&near).iter().any(|flow| flow.lag_events == 20));
    let why = remove(&near, "lab", false).unwrap_err();
    assert!(why.starts_with("20 events wait for it") && why.contains("--drop-backlog"), "{why}");
    assert_eq!(flows(&near).len(), 2);
    assert_eq!(remove(&near, "lab", true), Ok(()));
    assert!(flows(&near).is_empty());
    let far = places.start(1, Vec::new());
    let mut lines = subscribed(&far);
    assert_eq!(add(&near, places.link_to(1)), Ok(false));
    await_flows(&[&near, &far], 2);
    await_subscribed(&near, "everything");
    publish(&mut from, 20, "");
    assert_eq!(next(&mut lines), 20, "what was dropped did not cross");
}

#[test]
fn an_added_link_has_to_be_as_valid_as_one_of_the_file_and_that_one_is_not_removed() {
    let places = Places::new(3);
    let near = places.start(0, vec![places.link_to(1)]);
    let why = |entry: LinkEntry| add(&near, entry).unwrap_err();
    assert!(why(places.link_to(2)).contains("another link has this name"));
    let other = || LinkEntry { name: "other".into(), ..places.link_to(2) };
    assert!(why(LinkEntry { to: "nowhere".into(), ..other() }).contains("is not HOST:PORT"));
    assert!(why(LinkEntry { channels: vec!["A".into(), "A".into()], ..other() }).contains("a channel is named twice"));
    assert!(why(LinkEntry { tls: true, ..other() }).contains("tls.ca"));
    for number in 0..63 {
        assert_eq!(add(&near, LinkEntry { name: number.to_string(), ..other() }), Ok(false));
    }
    assert!(why(other()).contains("link (entries)"), "64 are the bound");
    assert_eq!(remove(&near, "7", true), Ok(()));
    assert!(why(LinkEntry { name: "8".into(), ..places.link_to(1) }).contains("another link has this name"));
    assert_eq!(add(&near, LinkEntry { name: "8".into(), ..other() }), Ok(false), "it is there already");
    assert_eq!(add(&near, other()), Ok(false));
    assert!(remove(&near, "lab", true).unwrap_err().contains("the configuration file has it"));
}

/// The other side logged a line for each channel.
#[test]
fn the_other_side_of_a_link_that_is_removed_has_one_line_for_all_channels() {
    const NAME: &str = "127.0.9.88, removed";
    logged::begin();
    let places = Places::new(2);
    let [near, far] = [0, 1].map(|number| places.start(number, Vec::new()));
    let channels = (0..5).map(|number| format!("Dome {number}")).collect();
    assert_eq!(add(&near, LinkEntry { name: NAME.into(), channels, ..places.link_to(1) }), Ok(false));
    await_flows(&[&near, &far], 10);
    assert_eq!(remove(&near, NAME, true), Ok(()));
    logged::await_line(&["the link of", NAME, "is closed: the other side ends it: an operator has removed the link"]);
    assert_eq!(logged::lines(&["the link of", NAME]).len(), 1, "{:?}", logged::lines(&[NAME]));
}

/// The consumers of such a link collected until the next start, and those of channels that the file's link does not have for ever.
#[test]
fn an_added_link_that_is_not_made_collects_no_more_than_it_has() {
    let places = Places::new(2);
    let folder = Folder::new("links-shadowed");
    let start = |link, unauthenticated| {
        let mut config = places.config(0, link, Some(&folder));
        config.links.datagrams.unauthenticated = unauthenticated;
        Service::start(config).unwrap()
    };
    let near = start(Vec::new(), true);
    let publish_three = |near: &Service| {
        let mut lines = Lines::connect(near);
        (0..3).for_each(|number| publish(&mut lines, number, PERSISTENT));
        await_count(near, Counter::EventsStored, 3);
    };
    let udp = LinkEntry { carrier: Carrier::Udp, direction: LinkDirections::Out, ..places.link_to(1) };
    assert_eq!(add(&near, udp), Ok(true));
    wait_until("its consumer", || flows(&near).iter().any(|flow| flow.state == LinkState::Down));
    publish_three(&near);
    drop(near);
    // It is not valid any more, and what waits is kept until it is removed.
    let near = start(Vec::new(), false);
    assert!(flows(&near).is_empty());
    await_count(&near, Counter::EventsStored, 3);
    let why = remove(&near, "lab", false).unwrap_err();
    assert!(why.starts_with("it is not made") && why.contains("--drop-backlog"), "{why}");
    assert_eq!(remove(&near, "lab", true), Ok(()));
    await_count(&near, Counter::EventsStored, 0);
    assert_eq!(add(&near, places.link_to(1)), Ok(true));
    wait_until("its consumer", || flows(&near).iter().any(|flow| flow.state == LinkState::Down));
    publish_three(&near);
    drop(near);
    // The file has its name, for another channel.
    let sky = LinkEntry { channels: vec!["Sky".into()], ..places.link_to(1) };
    let near = start(vec![sky], false);
    await_count(&near, Counter::EventsStored, 0);
    assert!(flows(&near).iter().all(|flow| flow.channel == "Sky"), "{:?}", flows(&near));
    assert_eq!(remove(&near, "lab", false), Ok(()), "that which was added");
}
