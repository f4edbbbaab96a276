//! What the bridge to DDS may publish and get, in every channel and of every event type, is what the rules of access say: as a judge reads
//! them that knows nothing of the service ([`testing::rulebook`]). There is no administration from DDS.

use std::collections::BTreeSet;

use ::dds::{Qos, Reader, Writer};
use client::notify::{ClientType, EventChannelFactory, StructuredEvent, StructuredProxyPullSupplier};
use client::{Orb, OrbOptions, SimpleSupplier, SupplierOptions};
use giop::cdr;
use giop::value::{AnyValue, Value};
use service::{Answer, Config, Counter, Dds, DdsJoin, DdsMulticast, Query, Service};
use testing::rulebook::{CHANNELS, OPERATOR, Rulebook, TYPES, bridge, rulebooks, surroundings};
use testing::wait_until;

use super::{count, join, participant, partition, wind};
use interop::service_with;

/// The test's number, by which its domain and its partitions are called.
const TEST: u32 = 11;

/// Samples that are kept for who comes later: more than there are of a topic.
const HISTORY_DEPTH: u32 = 64;

/// A service with channels that are all joined, a program in DDS, and who publishes and watches beside.
struct Rig {
    service: Service,
    suppliers: Vec<SimpleSupplier>,
    watched: Vec<StructuredProxyPullSupplier>,
    /// The program's, by channel and type.
    topics: Vec<Vec<(Writer, Reader)>>,
    title: String,
    book: Rulebook,
}

fn numbered() -> impl Iterator<Item = u32> {
    (0..).take(CHANNELS.len())
}

fn partition_of(channel: u32) -> String {
    format!("{}_{channel}", partition(TEST))
}

/// What a configuration file with these rules says.
fn config(rules: &str) -> Config {
    let file = std::env::temp_dir().join(format!("campanile-dds-access-{}.toml", std::process::id()));
    std::fs::write(&file, rules.to_owned() + &surroundings()).unwrap();
    let config = Config::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let joins = numbered().zip(CHANNELS).map(|(channel, name)| DdsJoin {
        channel: name.unwrap_or("0").to_owned(),
        partition: Some(partition_of(channel)),
        late_joiners: HISTORY_DEPTH,
        ..join(TEST)
    });
    let dds = Dds {
        interface: Some("127.0.0.1".into()),
        multicast: DdsMulticast::Never,
        peers: vec!["127.0.0.1".into()],
        joins: joins.collect(),
        ..Dds::default()
    };
    Config { dds, ..config }
}

/// An event with a struct whose first field tells it from others.
fn event((domain, name): (&str, &str), mark: &str) -> StructuredEvent {
    let fields = vec![("station".into(), Value::String(mark.into())), ("speed".into(), Value::Double(0.0))];
    let value = Value::Struct { type_name: "Wind".into(), fields };
    StructuredEvent { remainder: AnyValue { type_code: wind(), value }, ..StructuredEvent::new(domain, name, "") }
}

fn mark_of(event: &StructuredEvent) -> String {
    let Value::Struct { fields, .. } = &event.remainder.value else { panic!("{event:?}") };
    let Value::String(mark) = &fields[0].1 else { panic!("{event:?}") };
    mark.clone()
}

fn sample(mark: &str) -> Vec<u8> {
    let mut sample = Vec::new();
    let mut w = cdr::Writer::new(&mut sample, ::dds::encoding());
    w.string(mark);
    w.f64(0.0);
    sample
}

/// The event type that a topic's samples are of: they come in without a domain.
fn from_dds((_, name): (&'static str, &'static str)) -> (&'static str, &'static str) {
    ("", name)
}

impl Rig {
    fn start(title: String, book: Rulebook) -> Self {
        let service = service_with(config(&book.text()));
        let orb = OrbOptions { from: Some(OPERATOR.parse().unwrap()), ..OrbOptions::default() };
        let url = service.corbaloc("NotificationService");
        let factory = EventChannelFactory::unchecked(Orb::new(orb.clone()).resolve(&url).unwrap());
        let supply = |channel| {
            let options = SupplierOptions { orb: orb.clone(), ..SupplierOptions::default() };
            SimpleSupplier::connect_with(&url, Some(i32::try_from(channel).unwrap()), options).unwrap()
        };
        let watch = |channel| {
            let channel = factory.get_event_channel(i32::try_from(channel).unwrap()).unwrap();
            let admin = channel.default_consumer_admin().unwrap();
            let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
            let proxy = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
            proxy.connect_structured_pull_consumer(None).unwrap();
            proxy
        };
        let program = participant(TEST);
        let topics = numbered().map(|channel| {
            let partitions = vec![partition_of(channel)];
            let qos = Qos { partitions, ignore_own: true, late_joiners: HISTORY_DEPTH, ..Qos::default() };
            let ends = TYPES.map(|(_, name)| {
                let topic = program.topic(name, &wind()).unwrap();
                (topic.writer(&qos).unwrap(), topic.reader(&qos).unwrap())
            });
            Vec::from(ends)
        });
        Self {
            suppliers: numbered().map(supply).collect(),
            watched: numbered().map(watch).collect(),
            topics: topics.collect(),
            service,
            title,
            book,
        }
    }

    fn reload(&self, rules: &str) {
        self.service.reload_access(&config(rules)).unwrap();
    }

    fn may(&self, right: &str, channel: u32, of: (&str, &str)) -> bool {
        self.book.decide(&bridge(), right, (Some(channel), CHANNELS[channel as usize]), of).0
    }

    fn lets_in(&self, right: &str, channel: u32) -> bool {
        self.book.lets_in(&bridge(), right, (Some(channel), CHANNELS[channel as usize]))
    }

    /// What has come in a channel before events that the operator publishes now: one of each type of `of`, since it is only events of one
    /// type that come in their order.
    fn came(&self, channel: u32, of: &[(&str, &str)]) -> BTreeSet<String> {
        let at = channel as usize;
        of.iter().for_each(|of| self.suppliers[at].publish(&event(*of, "the end")).unwrap());
        let (mut came, mut ends) = (BTreeSet::new(), 0);
        while ends < of.len() {
            let mark = mark_of(&self.watched[at].pull_structured_event().unwrap());
            if mark == "the end" {
                ends += 1;
            } else {
                came.insert(mark);
            }
        }
        came
    }

    /// The program writes a sample of each topic in each partition. Each is taken in or refused, as the rules say.
    fn publish_from_dds(&self, tried: &mut [usize; 2]) {
        let looked_at = || count(&self.service, Counter::DdsIn) + count(&self.service, Counter::DdsRefused);
        let before =
            (looked_at(), count(&self.service, Counter::DdsRefused), count(&self.service, Counter::DeniedPublish));
        let mark = |channel: u32, (_, name): (&str, &str)| format!("{}: {channel} {name}", self.title);
        for channel in numbered() {
            for ((writer, _), of) in self.topics[channel as usize].iter().zip(TYPES) {
                writer.write(&sample(&mark(channel, of))).unwrap();
            }
        }
        let all = (CHANNELS.len() * TYPES.len()) as u64;
        wait_until(format_args!("{}: all samples to be looked at", self.title), || looked_at() - before.0 >= all);
        let mut refused = 0;
        for channel in numbered() {
            let mut came = self.came(channel, &TYPES.map(from_dds));
            for of in TYPES {
                let said = self.may("publish", channel, from_dds(of));
                let cell = mark(channel, of);
                assert_eq!(came.remove(&cell), said, "from DDS, {cell}\n{}", self.book.text());
                refused += u64::from(!said);
                tried[usize::from(said)] += 1;
            }
            assert_eq!(came, BTreeSet::new(), "{}", self.title);
        }
        assert_eq!(count(&self.service, Counter::DdsRefused) - before.1, refused, "{}", self.title);
        wait_until("the refusals to be counted as denials", || {
            count(&self.service, Counter::DeniedPublish) - before.2 >= refused
        });
    }

    /// The operator publishes an event of each type in each channel, and again when the rules let the bridge have all.
    fn subscribe_from_dds(&self, tried: &mut [usize; 2]) {
        let mark =
            |time: u32, channel: u32, (_, name): (&str, &str)| format!("{}, {time}: {channel} {name}", self.title);
        let publish = |time, channel: u32, of| {
            self.suppliers[channel as usize].publish(&event(of, &mark(time, channel, of))).unwrap();
        };
        for channel in numbered() {
            TYPES.iter().for_each(|of| publish(1, channel, *of));
            assert_eq!(self.came(channel, &TYPES).len(), TYPES.len());
        }
        self.reload("");
        // Where the bridge was not let in before, it is in a moment.
        let both = 2 * CHANNELS.len();
        wait_until(
            "all joins to be let in",
            || matches!(self.service.ask(Query::Consumers), Ok(Answer::Consumers(all)) if all.len() == both),
        );
        for channel in numbered() {
            TYPES.iter().for_each(|of| publish(2, channel, *of));
            for (of, (_, reader)) in TYPES.into_iter().zip(&self.topics[channel as usize]) {
                let (first, second) = (mark(1, channel, of), mark(2, channel, of));
                let mut came = BTreeSet::new();
                wait_until(format_args!("{second} in DDS"), || {
                    let take = |sample: ::dds::Sample<'_>| {
                        let mark = cdr::Reader::new(sample.cdr, ::dds::encoding()).string().unwrap();
                        came.insert(String::from_utf8(mark.to_vec()).unwrap());
                    };
                    reader.take(64, take).unwrap();
                    came.contains(&second)
                });
                let said = self.may("subscribe", channel, of);
                assert_eq!(came.contains(&first), said, "to DDS, {first}\n{}", self.book.text());
                tried[usize::from(said)] += 1;
            }
        }
        numbered().for_each(|channel| drop(self.came(channel, &TYPES)));
    }
}

/// What came from DDS was not held against the rules once its join had been let in.
#[test]
fn what_the_bridge_may_is_what_the_rules_say() {
    let mut books = rulebooks();
    let (title, book) = books.next().unwrap();
    let mut rig = Rig::start(title, book);
    // A join that is not let in is refused once, and not each time that it looks whether it is.
    let not_let_in = |right: &str| numbered().filter(|channel| !rig.lets_in(right, *channel)).count() as u64;
    for (right, counter) in [("publish", Counter::DeniedPublish), ("subscribe", Counter::DeniedSubscribe)] {
        let expected = not_let_in(right);
        wait_until(format_args!("{expected} joins not to be let in"), || count(&rig.service, counter) >= expected);
    }
    let (not_let_in, mut tried) = (not_let_in("subscribe"), [0; 2]);
    rig.publish_from_dds(&mut tried);
    assert_eq!(count(&rig.service, Counter::DeniedSubscribe), not_let_in);
    rig.subscribe_from_dds(&mut tried);
    for (title, book) in books {
        (rig.title, rig.book) = (title, book);
        rig.reload(&rig.book.text());
        rig.publish_from_dds(&mut tried);
        rig.subscribe_from_dds(&mut tried);
    }
    let [denied, allowed] = tried;
    assert!(denied > 50 && allowed > 50, "{denied} denied, {allowed} allowed");
}
