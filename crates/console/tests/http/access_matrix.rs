//! What each client may over HTTP, in every channel and of every event type, is what the rules of access say: as a judge reads them that
//! knows nothing of the service ([`testing::rulebook`]).
//!
//! Nothing is published over HTTP: there is no request for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use client::notify::{
    ClientType, EventChannel, EventChannelFactory, Property, StructuredEvent, StructuredProxyPullSupplier,
};
use client::{Orb, OrbOptions, SimpleSupplier, SupplierOptions};
use rustls::ClientConfig;
use serde_json::json;
use service::{ClientCertificates, Config, Counter, Http};
use testing::EndInTime;
use testing::certificates::{Authority, CertificateSpec};
use testing::rulebook::{
    CERTIFIED, CHANNELS, HOST, OPERATOR, Principal, Rulebook, SECRET, TYPES, clients, rulebooks, surroundings,
};

use crate::secure::{secure, trusting};
use crate::support::{Rig, Watched, Who, start_by};

/// The four clients, with what they show over HTTP; one has a certificate, and comes over TLS.
fn clients_of_http(certified: &Arc<ClientConfig>) -> Vec<(&'static str, Principal, Who<'_>)> {
    let shown = |(title, who): (&'static str, Principal)| {
        let Some(std::net::IpAddr::V4(from)) = who.address else { panic!("{title}") };
        let token = if who.token.is_some() { SECRET } else { "" };
        let asks = Who { from: from.octets(), token, tls: who.certificate.as_ref().map(|_| certified) };
        (title, who, asks)
    };
    clients().into_iter().map(shown).collect()
}

fn numbered() -> impl Iterator<Item = u32> {
    (0..).take(CHANNELS.len())
}

/// What a configuration file with these rules says.
fn config(title: &str, book: &Rulebook, authority: &Authority) -> Config {
    let file = std::env::temp_dir().join(format!("campanile-http-{}-{title}.toml", std::process::id()));
    std::fs::write(&file, book.text() + &surroundings()).unwrap();
    let config = Config::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let http = Http { listen: Some("0".into()), ..config.http };
    Config { http, tls: secure(authority, ClientCertificates::Requested), ..config }
}

/// Client that sets everything up, by CORBA.
struct Operator {
    channels: Vec<EventChannel>,
    suppliers: Vec<SimpleSupplier>,
    watched: Vec<StructuredProxyPullSupplier>,
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
        let channels: Vec<_> = ids().map(|id| factory.get_event_channel(id).unwrap()).collect();
        let watch = |channel: &EventChannel| {
            let admin = channel.default_consumer_admin().unwrap();
            let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
            let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
            proxy.connect_structured_pull_consumer(None).unwrap();
            proxy
        };
        Self { watched: channels.iter().map(watch).collect(), channels, suppliers: ids().map(supply).collect() }
    }
}

/// Where they come, and what the certified one shows.
type Clients<'a> = (&'a Rig, &'a Arc<ClientConfig>);
/// How many cells were denied, and how many allowed.
type Tried = [usize; 2];

#[test]
fn what_each_client_may_over_http_is_what_the_rules_say() {
    let of_one = |title: String, book: Rulebook| {
        let (mut seen, mut administered) = ([0; 2], [0; 2]);
        let authority = Authority::new(&format!("http-matrix {title}"));
        let wanted = CertificateSpec { name: CERTIFIED, hosts: &[HOST, "localhost"], ..CertificateSpec::default() };
        let certified = trusting(&authority.file(), Some(&authority.certify_as(&wanted)));
        let rig = start_by(config(&title, &book, &authority));
        let operator = Operator::of(&rig);
        administer((&rig, &certified), &operator, (&title, &book), &mut administered);
        watch((&rig, &certified), &operator, (&title, &book), &mut seen);
        [seen, administered].concat()
    };
    let sums = thread::scope(|scope| {
        let all: Vec<_> = rulebooks().map(|(title, book)| scope.spawn(move || of_one(title, book))).collect();
        let all = all.into_iter().map(EndInTime::end_in_time);
        all.fold([0; 4], |sum, one| [0, 1, 2, 3].map(|at| sum[at] + one[at]))
    });
    assert!(sums.iter().all(|count| *count > 20), "{sums:?}");
}

/// The marks of what the operator publishes in a channel, with their types.
fn marks(time: u32, channel: u32) -> impl Iterator<Item = (String, (&'static str, &'static str))> {
    TYPES.into_iter().map(move |of| (format!("{time} {channel} {}/{}", of.0, of.1), of))
}

fn watch((rig, certified): Clients<'_>, operator: &Operator, (title, book): (&str, &Rulebook), tried: &mut Tried) {
    for channel in numbered() {
        // At most four clients can watch. One that goes is missed when there is something to send it, a second later at most.
        rig.await_count(Counter::JsonConnectionsOpen, 0);
        let on = (Some(channel), CHANNELS[channel as usize]);
        let mut all: Vec<(String, Principal, Option<Watched>)> = Vec::new();
        for (client, who, asks) in clients_of_http(certified) {
            let watched = rig.watch_as(asks, &format!("channel={channel}"));
            let cell = format!("{title}: {client} watches {channel}\n{}", book.text());
            assert_eq!(watched.is_ok(), book.lets_in(&who, "subscribe", on), "{cell}");
            let watched = watched.map_err(|answer| assert_eq!(answer.status, 403, "{answer:?}: {cell}")).ok();
            all.push((cell, who, watched));
        }
        // Only events of one type come in their order; but the first ones of all have gone to all clients before the second ones come.
        for time in [1, 2] {
            for (mark, (domain, name)) in marks(time, channel) {
                operator.suppliers[channel as usize].publish(&StructuredEvent::new(domain, name, &mark)).unwrap();
            }
            TYPES.iter().for_each(|_| drop(operator.watched[channel as usize].pull_structured_event().unwrap()));
        }
        for (cell, who, watched) in &mut all {
            let may = |of: &(&str, &str)| book.decide(who, "subscribe", on, *of).0;
            let mut came = BTreeSet::new();
            let last = marks(2, channel).filter(|(_, of)| may(of)).map(|(mark, _)| mark);
            let mut last: BTreeSet<String> = last.collect();
            while let Some(watched) = watched.as_mut().filter(|_| !last.is_empty()) {
                let mark = name_of(watched);
                if !last.remove(&mark) {
                    came.insert(mark);
                }
            }
            for (mark, of) in marks(1, channel) {
                assert_eq!(came.remove(&mark), may(&of), "{mark}: {cell}");
                tried[usize::from(may(&of))] += 1;
            }
            assert_eq!(came, BTreeSet::new(), "{cell}");
        }
    }
}

/// The name of the next event.
fn name_of(watched: &mut Watched) -> String {
    let (kind, event) = watched.next().expect("an event");
    assert_eq!(kind, "event");
    event["name"].as_str().unwrap().to_owned()
}

fn administer((rig, certified): Clients<'_>, operator: &Operator, (title, book): (&str, &Rulebook), tried: &mut Tried) {
    const NAME: &str = "MaxEventsPerConsumer";
    let mut value = 100_000;
    for (client, who, asks) in clients_of_http(certified) {
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
