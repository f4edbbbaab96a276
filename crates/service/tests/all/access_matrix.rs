//! Every client, right and channel, and every event type, at each protocol of the service's own: what the rules say is what comes of it.
//!
//! What they say is read by a judge that knows nothing of the service ([`testing::rulebook`]), from the text that the configuration file
//! has. The protocols of HTTP (`console/tests/http`), of DDS (`interop`) and the command that explains rules (`cli/tests/command`) are held
//! against the same rules.
//!
//! - CORBA has no tokens: there the token's holder is an address. Datagrams of Tempo have neither tokens nor certificates; its
//!   connections with TLS have certificates.
//! - JSON and Tempo have no administration: there is no request for it.

mod by_corba;
mod in_json;
mod over_tempo;

use std::collections::BTreeSet;

use client::notify::{
    ClientType, ConsumerAdmin, EventChannel, EventChannelFactory, StructuredEvent, StructuredProxyPullSupplier,
};
use client::{InvokeError, Orb, OrbOptions, SimpleSupplier, SupplierOptions};
use giop::value::Value;
use service::{Config, Counter, Json, Service, Tempo};
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::rulebook::{CERTIFIED, CHANNELS, HOST, OPERATOR, Principal, Rulebook, TYPES, clients, surroundings};

use crate::peers::start_with;
use crate::tls;

/// A service with one rulebook, and its operator, which watches what comes of it.
struct Rig {
    service: Service,
    authority: Authority,
    certified: Certified,
    book: Rulebook,
    title: String,
    /// The channels as the operator has them, and what it gets of each.
    channels: Vec<EventChannel>,
    watched: Vec<Pulled>,
    suppliers: Vec<SimpleSupplier>,
}

/// One client at one protocol, with what it can show there.
struct Client {
    title: String,
    who: Principal,
}

/// All that was tried, and how much of it was allowed.
#[derive(Default)]
struct Tried {
    allowed: usize,
    denied: usize,
}

impl Tried {
    /// Notes what came of a cell, which is what the rules say.
    #[track_caller]
    fn note(&mut self, rig: &Rig, cell: &str, came: bool, said: bool) {
        assert_eq!(came, said, "{}: {cell}\n{}", rig.title, rig.book.text());
        *(if said { &mut self.allowed } else { &mut self.denied }) += 1;
    }

    /// Enough of both, or the rules show nothing.
    fn is_telling(&self) {
        assert!(self.allowed > 50 && self.denied > 50, "{} allowed, {} denied", self.allowed, self.denied);
    }
}

fn from(address: &str) -> OrbOptions {
    OrbOptions { from: Some(address.parse().unwrap()), ..OrbOptions::default() }
}

fn numbered() -> impl Iterator<Item = u32> {
    (0..).take(CHANNELS.len())
}

/// What tells events apart: their names, or those of Tempo's messages, which have none, their octets.
fn mark_of(event: &StructuredEvent) -> String {
    match &event.remainder.value {
        Value::Octets(octets) => String::from_utf8(octets.clone()).unwrap(),
        _ => event.event_name.clone(),
    }
}

fn event((domain, name): (&str, &str), mark: &str) -> StructuredEvent {
    StructuredEvent::new(domain, name, mark)
}

/// The mark of what the operator publishes.
fn published(time: u32, channel: u32, of: (&str, &str)) -> String {
    format!("{time} {channel} {}/{}", of.0, of.1)
}

impl Rig {
    fn start(protocol: &str, title: String, book: Rulebook) -> Self {
        let authority = Authority::new(&format!("access-matrix-{protocol}"));
        let hosts = &["localhost", "127.0.0.1", HOST];
        let certified = authority.certify_as(&CertificateSpec { name: CERTIFIED, hosts, ..CertificateSpec::default() });
        let file = authority.folder().join("campanile.toml");
        std::fs::write(&file, book.text() + &surroundings()).unwrap();
        let service = start_with(Config {
            tls: tls::settings(&authority),
            json: Json { listen: Some("0".into()), ..Json::default() },
            tempo: Tempo { listen: Some("0".into()), ..Tempo::default() },
            ..Config::read(&file).unwrap()
        });
        let url = service.corbaloc("NotificationService");
        let factory = EventChannelFactory::unchecked(Orb::new(from(OPERATOR)).resolve(&url).unwrap());
        let ids = || numbered().map(|number| i32::try_from(number).unwrap());
        let supply = |id| {
            let options = SupplierOptions { orb: from(OPERATOR), ..SupplierOptions::default() };
            SimpleSupplier::connect_with(&url, Some(id), options).unwrap()
        };
        let channels: Vec<_> = ids().map(|id| factory.get_event_channel(id).unwrap()).collect();
        let watch = |channel: &EventChannel| Pulled::from(&channel.default_consumer_admin().unwrap()).unwrap();
        Self {
            watched: channels.iter().map(watch).collect(),
            channels,
            suppliers: ids().map(supply).collect(),
            service,
            authority,
            certified,
            book,
            title,
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.service.counters().read(counter)
    }

    /// Whether the rules let a principal do something with events of a type.
    fn may(&self, who: &Principal, right: &str, channel: u32, of: (&str, &str)) -> bool {
        self.book.decide(who, right, (Some(channel), CHANNELS[channel as usize]), of).0
    }

    /// Whether they let it do that at all.
    fn lets_in(&self, who: &Principal, right: &str, channel: u32) -> bool {
        self.book.lets_in(who, right, (Some(channel), CHANNELS[channel as usize]))
    }

    /// All that has come in a channel before events that the operator publishes now: one of each type, since it is only events of one type
    /// that come in their order.
    fn came(&self, channel: u32) -> BTreeSet<String> {
        let (supplier, watched) = (&self.suppliers[channel as usize], &self.watched[channel as usize]);
        TYPES.iter().for_each(|of| supplier.publish(&event(*of, "the end")).unwrap());
        let (mut came, mut ends) = (BTreeSet::new(), 0);
        while ends < TYPES.len() {
            let mark = watched.next();
            if mark == "the end" {
                ends += 1;
            } else {
                came.insert(mark);
            }
        }
        came
    }

    /// What is to come of what all clients have published is what has.
    fn compare(&self, tried: &mut Tried, cells: &[(String, u32, bool)]) {
        for channel in numbered() {
            let came = self.came(channel);
            for (mark, _, said) in cells.iter().filter(|(_, of, _)| *of == channel) {
                tried.note(self, mark, came.contains(mark), *said);
            }
            let known = |mark: &String| cells.iter().any(|(known, ..)| known == mark);
            assert!(came.iter().all(known), "{}: {came:?}", self.title);
        }
    }

    /// Publishes each type twice in each channel, the second time when the first has come.
    fn publish_twice(&self) {
        for (time, channel) in [1, 2].into_iter().flat_map(|time| numbered().map(move |channel| (time, channel))) {
            for of in TYPES {
                self.suppliers[channel as usize].publish(&event(of, &published(time, channel, of))).unwrap();
            }
            assert_eq!(self.came(channel).len(), TYPES.len());
        }
    }

    /// What a client that is let in gets of channels; `next` gives the marks of what comes. It may have some type: when the second of each
    /// of these has come, there is no first one of another to come.
    fn received(&self, client: &Client, channels: &[u32], mut next: impl FnMut() -> String) -> BTreeSet<String> {
        let mut last: BTreeSet<String> = channels.iter().flat_map(|channel| self.marks(client, 2, *channel)).collect();
        let mut came = BTreeSet::new();
        while !last.is_empty() {
            let mark = next();
            if !last.remove(&mark) && mark != "the end" {
                came.insert(mark);
            }
        }
        came
    }

    /// What a client may have of a channel.
    fn marks(&self, client: &Client, time: u32, channel: u32) -> BTreeSet<String> {
        let may = TYPES.into_iter().filter(|of| self.may(&client.who, "subscribe", channel, *of));
        may.map(|of| published(time, channel, of)).collect()
    }

    /// Holds against the rules what a client has got of a channel.
    fn compare_received(&self, tried: &mut Tried, client: &Client, channel: u32, mut came: BTreeSet<String>) {
        let may = self.marks(client, 1, channel);
        for mark in TYPES.map(|of| published(1, channel, of)) {
            tried.note(self, &format!("{} gets {mark}", client.title), came.remove(&mark), may.contains(&mark));
        }
        assert_eq!(came, BTreeSet::new(), "{}: {}", self.title, client.title);
    }

    /// The clients at a protocol at which some of what they have can be shown.
    fn clients(&self, has_tokens: bool, has_certificates: bool) -> Vec<Client> {
        let shown = |(title, who): (&str, Principal)| Client {
            title: title.to_owned(),
            who: Principal {
                token: who.token.filter(|_| has_tokens),
                certificate: who.certificate.filter(|_| has_certificates),
                ..who
            },
        };
        clients().into_iter().map(shown).collect()
    }
}

/// A consumer that pulls.
struct Pulled(StructuredProxyPullSupplier);

impl Pulled {
    fn from(admin: &ConsumerAdmin) -> Result<Self, InvokeError> {
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured)?;
        let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_pull_consumer(None)?;
        Ok(Self(proxy))
    }

    fn next(&self) -> String {
        mark_of(&self.0.pull_structured_event().unwrap())
    }
}
