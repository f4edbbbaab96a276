//! What each client may over HTTP, in every channel and of every event type, is what the rules of access say: as a judge reads them that
//! knows nothing of the service ([`testing::rulebook`]).
//!
//! Nothing is published over HTTP: there is no request for it. Nobody shows a certificate here, whose holder is an address then.

use std::collections::BTreeSet;

use client::notify::{EventChannel, EventChannelFactory, Property, StructuredEvent};
use client::{Orb, OrbOptions, SimpleSupplier, SupplierOptions};
use serde_json::json;
use service::Config;
use testing::rulebook::{CHANNELS, OPERATOR, Principal, Rulebook, SECRET, TYPES, clients, rulebooks, surroundings};

use crate::support::{Rig, Watched, Who, start_by};

/// The four clients, with what they show over HTTP.
fn clients_of_http() -> Vec<(&'static str, Principal, Who<'static>)> {
    let shown = |(title, who): (&'static str, Principal)| {
        let Some(std::net::IpAddr::V4(from)) = who.address else { panic!("{title}") };
        let asks = Who { from: from.octets(), token: if who.token.is_some() { SECRET } else { "" } };
        (title, Principal { certificate: None, ..who }, asks)
    };
    clients().into_iter().map(shown).collect()
}

fn numbered() -> impl Iterator<Item = u32> {
    (0..).take(CHANNELS.len())
}

/// What a configuration file with these rules says.
fn config(book: &Rulebook) -> Config {
    let file = std::env::temp_dir().join(format!("campanile-http-matrix-{}.toml", std::process::id()));
    std::fs::write(&file, book.text() + &surroundings()).unwrap();
    let config = Config::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    config
}

/// Whoever sets everything up, by CORBA.
struct Operator {
    channels: Vec<EventChannel>,
    suppliers: Vec<SimpleSupplier>,
}

impl Operator {
    fn of(rig: &Rig) -> Self {
        let orb = OrbOptions { from: Some(OPERATOR.parse().unwrap()), ..OrbOptions::default() };
        let url = rig.service.corbaloc("NotificationService");
        let factory = EventChannelFactory::unchecked(Orb::new(orb.clone()).resolve(&url).unwrap());
        let ids = || numbered().map(|channel| i32::try_from(channel).unwrap());
        let supply = |id| {
            let options = SupplierOptions { orb: orb.clone(), ..SupplierOptions::default() };
            SimpleSupplier::connect_with(&url, Some(id), options).unwrap()
        };
        Self {
            channels: ids().map(|id| factory.get_event_channel(id).unwrap()).collect(),
            suppliers: ids().map(supply).collect(),
        }
    }
}

/// How many cells were denied, and how many allowed.
type Tried = [usize; 2];

#[test]
fn what_each_client_may_over_http_is_what_the_rules_say() {
    let (mut seen, mut administered) = ([0; 2], [0; 2]);
    for (title, book) in rulebooks() {
        let rig = start_by(config(&book));
        let operator = Operator::of(&rig);
        watch(&rig, &operator, (&title, &book), &mut seen);
        administer(&rig, &operator, (&title, &book), &mut administered);
    }
    assert!(seen.iter().chain(&administered).all(|count| *count > 20), "{seen:?} {administered:?}");
}

/// The marks of what the operator publishes in a channel, with their types.
fn marks(time: u32, channel: u32) -> impl Iterator<Item = (String, (&'static str, &'static str))> {
    TYPES.into_iter().map(move |of| (format!("{time} {channel} {}/{}", of.0, of.1), of))
}

fn watch(rig: &Rig, operator: &Operator, (title, book): (&str, &Rulebook), tried: &mut Tried) {
    let mut all: Vec<(&str, Principal, u32, Option<Watched>)> = Vec::new();
    for (client, who, asks) in clients_of_http() {
        for channel in numbered() {
            let on = (Some(channel), CHANNELS[channel as usize]);
            let watched = rig.watch_as(asks, &format!("channel={channel}"));
            let cell = format!("{title}: {client} watches {channel}\n{}", book.text());
            assert_eq!(watched.is_ok(), book.lets_in(&who, "subscribe", on), "{cell}");
            let watched = watched.map_err(|answer| assert_eq!(answer.status, 403, "{answer:?}: {cell}")).ok();
            all.push((client, who.clone(), channel, watched));
        }
    }
    // Only events of one type come in their order; but the first ones of all have gone to everybody before the second ones come.
    let mut everything = numbered().map(|channel| rig.watch_as(OF_OPERATOR, &format!("channel={channel}")).unwrap());
    let mut everything: Vec<Watched> = everything.by_ref().collect();
    for time in [1, 2] {
        for channel in numbered() {
            for (mark, (domain, name)) in marks(time, channel) {
                operator.suppliers[channel as usize].publish(&StructuredEvent::new(domain, name, mark)).unwrap();
            }
            TYPES.iter().for_each(|_| drop(name_of(&mut everything[channel as usize])));
        }
    }
    for (client, who, channel, watched) in &mut all {
        let on = (Some(*channel), CHANNELS[*channel as usize]);
        let may = |of: &(&str, &str)| book.decide(who, "subscribe", on, *of).0;
        let mut came = BTreeSet::new();
        let mut last: BTreeSet<String> = marks(2, *channel).filter(|(_, of)| may(of)).map(|(mark, _)| mark).collect();
        while let Some(watched) = watched.as_mut().filter(|_| !last.is_empty()) {
            let mark = name_of(watched);
            if !last.remove(&mark) {
                came.insert(mark);
            }
        }
        for (mark, of) in marks(1, *channel) {
            assert_eq!(came.remove(&mark), may(&of), "{title}: {client} gets {mark}\n{}", book.text());
            tried[usize::from(may(&of))] += 1;
        }
        assert_eq!(came, BTreeSet::new(), "{title}: {client} in {channel}");
    }
}

const OF_OPERATOR: Who<'static> = Who { from: [127, 0, 0, 9], token: "" };

/// The name of the next event.
fn name_of(watched: &mut Watched) -> String {
    let (kind, event) = watched.next().expect("an event");
    assert_eq!(kind, "event");
    event["name"].as_str().unwrap().to_owned()
}

fn administer(rig: &Rig, operator: &Operator, (title, book): (&str, &Rulebook), tried: &mut Tried) {
    const NAME: &str = "MaxEventsPerConsumer";
    let mut value = 100_000;
    for (client, who, asks) in clients_of_http() {
        for channel in numbered() {
            value += 1;
            let on = (Some(channel), CHANNELS[channel as usize]);
            let said = book.lets_in(&who, "administer", on);
            let body = json!({ "channel": channel, "properties": { NAME: value } }).to_string();
            let answer = rig.post_as(asks, "/api/v1/qos", &body);
            let cell = format!("{title}: {client} administers {channel}: {answer:?}\n{}", book.text());
            assert_eq!(answer.status, if said { 200 } else { 403 }, "{cell}");
            let set = operator.channels[channel as usize].get_qos().unwrap();
            assert_eq!(set.contains(&Property::new(NAME, value)), said, "{cell}");
            tried[usize::from(said)] += 1;
        }
    }
}
