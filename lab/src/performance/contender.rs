//! Carriers of events from publishers to subscribers: what every contender can do, of any author.
//!
//! A [`Contender`] starts a [`Server`] for one [`Scenario`]; the server says what ends are to be started and how they speak,
//! and the harness ([`Course`](super::course::Course)) starts them, has them send and record, and reads what the server's
//! processes used meanwhile. A contender that has no process in the middle has no process identifiers, and names its own
//! programs as ends.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Range;

use client::notify::Property;
use giop::ior::{Component, ORB_TYPE_CAMPANILE};

use super::ends::{Publish, Subscribe};
use super::fan_out;
use super::protocol::Protocol;
use crate::campanile::{self, Campanile, Consumer, ProxyAddress, consumer_key};
use crate::floor::counting::Counting;
use crate::persistent::Folder;
use crate::process::Process;
use crate::{BenchError, CarriageOptions, Form, hop, relay};

pub(crate) mod peers;

/// What is to be carried, and between which ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// Octets of payload of an event.
    pub(crate) payload_bytes: u32,
    /// How the one publisher sends.
    pub(crate) supply: Supply,
    /// How consumers are given their events.
    pub(crate) consume: Consume,
    /// Whether single events are Anys and not structured, for contenders with both.
    pub(crate) anys: bool,
    /// Consumers, each given every event,
    pub(crate) consumers: u32,
    /// in so many processes.
    pub(crate) processes: u32,
    /// Events that may wait for a consumer until the publisher has to; 0: the server's default.
    pub(crate) queue: u32,
    /// The core for the server's processes, where it is not to be left to the scheduler,
    pub(crate) server_core: Option<usize>,
    /// and that for the ends.
    pub(crate) ends_core: Option<usize>,
}

/// How a publisher sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Each message is acknowledged before the next leaves.
    TwoWay,
    /// So many messages may be unacknowledged.
    Windowed(u32),
    /// None is acknowledged.
    OneWay,
    /// So many events in a message, so many messages unacknowledged.
    Sequences(u32, u32),
}

/// How consumers are given their events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consume {
    /// Each message is answered; so many may be unanswered, or as many as the server has by default.
    TwoWay(Option<u16>),
    /// None is answered.
    OneWay,
    /// Up to so many events in a message; so many messages may be unanswered, or as many as the server has by default.
    Sequences(u32, Option<u16>),
}

/// Why a contender does not take part.
#[derive(Debug)]
pub(crate) enum Absence {
    NotInstalled(String),
    /// It does not offer what the scenario asks for.
    NotOffered(&'static str),
    Failed(BenchError),
}

impl Absence {
    /// As an error, where that contender was asked for.
    pub(crate) fn into_error(self, name: &str) -> BenchError {
        let doing = format!("starting {name}");
        match self {
            Self::NotInstalled(how) => BenchError::Setup { doing, reason: format!("it is not installed: {how}") },
            Self::NotOffered(why) => BenchError::Setup { doing, reason: why.to_owned() },
            Self::Failed(error) => error,
        }
    }
}

impl From<BenchError> for Absence {
    fn from(error: BenchError) -> Self {
        Self::Failed(error)
    }
}

/// A carrier of events.
#[derive(Debug)]
pub(crate) struct Contender {
    /// The name on the command line and in JSON.
    pub(crate) key: &'static str,
    /// The name in tables.
    pub(crate) name: &'static str,
    /// What it is and how it is configured, in a sentence for the report.
    pub(crate) about: fn() -> String,
    /// How many times as long as others it has to be sent events until it is as fast as it gets.
    pub(crate) warm_up_times: u64,
    /// Starts its processes for a scenario; they end when the server is dropped.
    pub(crate) start: fn(&Scenario) -> Result<Server, Absence>,
}

/// The key of the service that all others are compared with.
pub(crate) const OURS: &str = "campanile";

/// Those of these contenders that have one of these keys, in the order of the tables. An error that names them all, if a key is
/// unknown.
pub(crate) fn named(
    all: &[&'static Contender],
    option: &'static str,
    keys: &[String],
) -> Result<Vec<&'static Contender>, BenchError> {
    if let Some(key) = keys.iter().find(|key| all.iter().all(|known| known.key != *key)) {
        let keys = all.iter().map(|contender| contender.key.to_owned()).collect();
        return Err(BenchError::NoContender { option, key: key.clone(), keys });
    }
    Ok(all.iter().copied().filter(|contender| keys.iter().any(|key| key == contender.key)).collect())
}

/// All contenders, in the order of the tables. What the two that are the same differ by, the harness cannot tell of others.
pub(crate) static ALL: [Contender; 9] = [
    CAMPANILE,
    RELAY,
    Contender { key: "relay-again", name: "bare relay, again", ..RELAY },
    WRITEV,
    peers::JACORB,
    peers::OMNIEVENTS,
    peers::OMNIORB,
    peers::NATS,
    peers::CYCLONEDDS,
];

/// The service with its default settings, in a process of its own.
pub(super) const CAMPANILE: Contender = Contender {
    key: OURS,
    name: campanile::NAME,
    about: || {
        "`campanile serve` as it is installed; structured events or sequences of them, GIOP 1.2; consumers' references say, as \
         those of this repository's client do, that they keep order, so that several pushes may be unanswered; where as many \
         events are sent as get through, at most 4,096 wait for a consumer, then the supplier does"
            .to_owned()
    },
    warm_up_times: 1,
    start: start_campanile,
};

/// The service again, by lines of JSON.
pub(super) const LINES_OF_JSON: Contender = Contender {
    key: "json",
    name: "Campanile, lines of JSON",
    about: || "`campanile serve --json-listen`; the payload is the event's body, a text".to_owned(),
    warm_up_times: 1,
    start: start_lines_of_json,
};

/// The bare relay ([`crate::relay`]): what any process between one supplier and one consumer costs at least. The reply
/// to a push is the consumer's.
const RELAY: Contender = Contender {
    key: "relay",
    name: "bare relay",
    about: || {
        "one thread, level-triggered epoll; whole messages are passed on in both directions; the reply to a push is the \
         consumer's"
            .to_owned()
    },
    warm_up_times: 1,
    start: |scenario| {
        if scenario.consumers != 1 {
            return Err(Absence::NotOffered("it has one consumer"));
        }
        floor(relay::COMMAND, scenario.supply.window() == 0, scenario)
    },
};

/// One that writes each event to many consumers ([`fan_out`]), and answers the supplier itself.
const WRITEV: Contender = Contender {
    key: "writev",
    name: "writev",
    about: || {
        "one thread, level-triggered epoll; each event goes to each process of consumers in one `writev`, as often as there are \
         consumers in it; then the supplier is answered; consumers' replies are read and thrown away"
            .to_owned()
    },
    warm_up_times: 1,
    start: |scenario| floor(fan_out::COMMAND, scenario.supply == Supply::OneWay, scenario),
};

/// Connects the consumer that goes by a name and listens there.
type Connect = Box<dyn Fn(SocketAddr, &[u8]) -> Result<(), BenchError> + Send>;

/// A contender at work, for one scenario. The harness calls its methods in the order in which they stand here.
pub(crate) struct Server {
    scenario: Scenario,
    /// How the publisher speaks, and how consumers do.
    speak: [Protocol; 2],
    /// Where the publisher sends; to the first consumer if that is not known.
    address: Option<SocketAddr>,
    /// Whether consumers connect to that address; else they listen.
    consumers_connect: bool,
    /// An object key or a subject, which all consumers go by as well, unless they are numbered: then their keys are as long, so that
    /// messages are as long behind the service as they are before it.
    target: Vec<u8>,
    is_numbered: bool,
    /// The server does not tell consumers of a process apart.
    copies: bool,
    /// The program of the ends, which understands the orders of [`ends`](super::ends), with its arguments; none for this program's own.
    program: Option<Vec<OsString>>,
    connect: Option<Connect>,
    /// A floor's sub-command, which starts when all consumers are there, since it connects to them.
    floor: Option<&'static str>,
    listening: Vec<(SocketAddr, usize)>,
    processes: Vec<Process>,
    service: Option<Campanile>,
    _state: Option<Folder>,
}

impl Server {
    /// One without processes, whose ends all speak in this way.
    fn new(scenario: &Scenario, protocol: Protocol, target: Vec<u8>) -> Self {
        Self {
            scenario: *scenario,
            speak: [protocol; 2],
            address: None,
            consumers_connect: false,
            target,
            is_numbered: false,
            copies: false,
            program: None,
            connect: None,
            floor: None,
            listening: Vec::new(),
            processes: Vec::new(),
            service: None,
            _state: None,
        }
    }

    /// One with suppliers that push to that proxy, and consumers of its own that are connected so.
    fn behind(
        scenario: &Scenario,
        speak: [Protocol; 2],
        proxy: ProxyAddress,
        connect: impl Fn(SocketAddr, &[u8]) -> Result<(), BenchError> + Send + 'static,
    ) -> Self {
        let connect: Option<Connect> = Some(Box::new(connect));
        let address = Some(proxy.address);
        Self { speak, address, is_numbered: true, connect, ..Self::new(scenario, speak[0], proxy.key) }
    }

    /// The order for a process with the consumers of these numbers, and the program that carries it out, if it is another one.
    pub(super) fn subscribe(&self, consumers: Range<u32>) -> (Subscribe, Option<Vec<OsString>>) {
        let key = |number| if self.is_numbered { consumer_key(number, self.target.len()) } else { self.target.clone() };
        let address = self.address.filter(|_| self.consumers_connect);
        let [_, protocol] = self.speak;
        let order = Subscribe { protocol, address, targets: consumers.map(key).collect(), copies: self.copies };
        (order, self.program.clone())
    }

    /// That process now runs. It listens there if it does not connect itself; the pushing side gets that address.
    pub(super) fn subscribed(
        &mut self,
        subscribe: &Subscribe,
        listening: Option<SocketAddr>,
    ) -> Result<(), BenchError> {
        self.listening.extend(listening.map(|address| (address, subscribe.targets.len())));
        let Some(connect) = &self.connect else { return Ok(()) };
        let address = listening.ok_or_else(silent)?;
        subscribe.targets.iter().try_for_each(|target| connect(address, target))
    }

    /// The order for the publisher, and its program; all consumers are there.
    pub(super) fn publish(&mut self) -> Result<(Publish, Option<Vec<OsString>>), BenchError> {
        if let Some(command) = self.floor {
            let mut words = vec![OsString::from(command)];
            for (address, copies) in &self.listening {
                let consumer = if *copies == 1 { address.to_string() } else { format!("{address}x{copies}") };
                words.extend([OsString::from("--consumer"), OsString::from(consumer)]);
            }
            let (process, address) = hop::start(&words, (self.scenario.server_core, None))?;
            self.processes.push(process);
            self.address = Some(address);
        }
        let first = self.listening.first().map(|(address, _)| *address);
        let address = self.address.or(first).ok_or_else(silent)?;
        let ([protocol, _], target, window) = (self.speak, self.target.clone(), self.scenario.supply.window());
        let order = Publish { protocol, address, target, payload_bytes: self.scenario.payload(), window };
        Ok((order, self.program.clone()))
    }

    /// The processes in the middle, if there are any: their processor time, memory and system calls count.
    pub(super) fn pids(&self) -> Vec<u32> {
        let service = self.service.iter().map(|service| service.process());
        service.chain(&self.processes).map(Process::pid).collect()
    }

    /// The server's own counters, where it has some, read by this; [`Counting::take`] is for when nothing is under way.
    pub(super) fn count(
        &self,
        read: fn(&Campanile) -> Result<Counting, BenchError>,
    ) -> Result<Option<Counting>, BenchError> {
        self.service.as_ref().map(read).transpose()
    }
}

fn silent() -> BenchError {
    BenchError::Setup { doing: "starting consumers".to_owned(), reason: "they do not say where they listen".to_owned() }
}

fn start_campanile(scenario: &Scenario) -> Result<Server, Absence> {
    let service = Campanile::start_on(scenario.server_core)?;
    // Publishers that are faster than the service wait at this, and its memory stays bounded.
    let queue = i32::try_from(scenario.queue).unwrap_or(i32::MAX);
    let bounded = [
        Property::new("MaxEventsPerConsumer", queue),
        Property::new("FullOutbox", "Hold"),
        Property::new("HoldGranted", true),
    ];
    let channel = service.new_channel_with(if queue > 0 { &bounded } else { &[] })?;
    let proxy = channel.add_supplier(CarriageOptions { form: scenario.form_in(), ..CarriageOptions::default() })?;
    let (window, other) = match scenario.consume {
        Consume::TwoWay(window) => (window, None),
        Consume::OneWay => (None, Some(Property::new("PushOneWay", true))),
        Consume::Sequences(events, window) => (window, Some(batches_of(events))),
    };
    let window = window.map(|window| Property::new("PushWindow", window));
    let (qos, form) = (window.into_iter().chain(other).collect::<Vec<Property>>(), scenario.form_out());
    let in_order = [Component::orb_type(ORB_TYPE_CAMPANILE)];
    let connect = move |address, key: &[u8]| {
        channel.connect(&Consumer { address, key, form, qos: &qos, event_type: None, components: &in_order })
    };
    let server = Server::behind(scenario, [scenario.giop(), Protocol::Giop(form)], proxy, connect);
    Ok(Server { service: Some(service), ..server })
}

fn batches_of(events: u32) -> Property {
    Property::new("MaximumBatchSize", i32::try_from(events).unwrap_or(i32::MAX))
}

fn start_lines_of_json(scenario: &Scenario) -> Result<Server, Absence> {
    if matches!(scenario.supply, Supply::Sequences(..)) || scenario.anys {
        return Err(Absence::NotOffered("a line is one structured event"));
    }
    let (service, address) = Campanile::start_with_json(scenario.server_core)?;
    // The channel that is there without configuration.
    let server = Server::new(scenario, Protocol::Json, b"0".to_vec());
    let copies = scenario.consumers > 1;
    Ok(Server { address: Some(address), consumers_connect: true, copies, service: Some(service), ..server })
}

/// A program that understands nothing but where a message ends, and carries the same octets: all keys are those in every message.
fn floor(command: &'static str, is_one_way: bool, scenario: &Scenario) -> Result<Server, Absence> {
    if is_one_way && matches!(scenario.consume, Consume::TwoWay(_)) {
        return Err(Absence::NotOffered("what is one-way before it is one-way behind it"));
    }
    // As long as the service's.
    let server = Server::new(scenario, scenario.giop(), consumer_key(0, 40));
    Ok(Server { floor: Some(command), copies: true, ..server })
}

impl Supply {
    /// Messages that may be unacknowledged; 0: none is acknowledged.
    pub(crate) const fn window(self) -> u32 {
        match self {
            Self::TwoWay => 1,
            Self::Windowed(window) | Self::Sequences(_, window) => window,
            Self::OneWay => 0,
        }
    }

    /// The form of its pushes, where a service has forms.
    const fn form(self) -> Form {
        match self {
            Self::Sequences(..) => Form::Sequence,
            _ => Form::Structured,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::TwoWay => "two-way".to_owned(),
            Self::Windowed(window) => format!("window {window}"),
            Self::OneWay => "one-way".to_owned(),
            Self::Sequences(events, 0) => format!("sequences of {events}, one-way"),
            Self::Sequences(events, window) => format!("sequences of {events}, window {window}"),
        }
    }
}

impl Consume {
    /// The form of the pushes, where a service has forms.
    const fn form(self) -> Form {
        match self {
            Self::Sequences(..) => Form::Sequence,
            _ => Form::Structured,
        }
    }

    pub(crate) fn describe(self) -> String {
        let window = |window: Option<u16>| window.map_or(String::new(), |window| format!(", window {window}"));
        match self {
            Self::TwoWay(push) => format!("two-way{}", window(push)),
            Self::OneWay => "one-way".to_owned(),
            Self::Sequences(events, push) => format!("sequences of up to {events}{}", window(push)),
        }
    }
}

impl Scenario {
    /// One publisher, one consumer, two-way: where others begin.
    pub(crate) const fn one_to_one(payload_bytes: u32) -> Self {
        Self {
            payload_bytes,
            supply: Supply::TwoWay,
            consume: Consume::TwoWay(None),
            anys: false,
            consumers: 1,
            processes: 1,
            queue: 0,
            server_core: None,
            ends_core: None,
        }
    }

    /// The same with the ends on the first of these cores, and the server's processes on the other.
    pub(super) fn on(self, cores: Option<(usize, usize)>) -> Self {
        Self { ends_core: cores.map(|cores| cores.0), server_core: cores.map(|cores| cores.1), ..self }
    }

    /// The form in which the service gets events, where it has forms.
    pub(crate) const fn form_in(&self) -> Form {
        self.form(self.supply.form())
    }

    /// The form in which it passes them on.
    pub(crate) const fn form_out(&self) -> Form {
        self.form(self.consume.form())
    }

    const fn form(&self, form: Form) -> Form {
        match form {
            Form::Structured if self.anys => Form::Any,
            form => form,
        }
    }

    /// How a supplier of a notification service speaks.
    pub(crate) const fn giop(&self) -> Protocol {
        match self.supply {
            Supply::Sequences(events, _) => Protocol::GiopBatch(events),
            _ => Protocol::Giop(self.form_in()),
        }
    }

    /// How the publisher sends, for tables.
    pub(crate) fn supplier(&self) -> String {
        let anys = if self.anys { "Anys, " } else { "" };
        format!("{anys}{}", self.supply.describe())
    }

    /// The payload, as lengths in memory are.
    pub(crate) fn payload(&self) -> usize {
        usize::try_from(self.payload_bytes).unwrap_or(usize::MAX)
    }

    pub(crate) fn consumers_of(&self, process: u32) -> Range<u32> {
        let first = |process: u32| {
            let first = u64::from(self.consumers) * u64::from(process) / u64::from(self.processes.max(1));
            u32::try_from(first).unwrap_or(self.consumers)
        };
        first(process)..first(process + 1)
    }

    pub(crate) fn describe(&self) -> String {
        let processes = if self.processes == 1 { "process" } else { "processes" };
        format!(
            "{} B; supplier {}; {} in {} {processes}, {}",
            self.payload_bytes,
            self.supplier(),
            load::table::counted(self.consumers, "consumer"),
            self.processes,
            self.consume.describe()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_chosen_by_their_keys_and_an_unknown_key_is_answered_with_all() {
        let all: Vec<&'static Contender> = ALL.iter().collect();
        let named = |keys: &[&str]| named(&all, "--only", &keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        let chosen: Vec<&str> = named(&["nats", "relay", "nats"]).unwrap().iter().map(|one| one.key).collect();
        assert_eq!(chosen, ["relay", "nats"]);
        assert!(named(&[]).unwrap().is_empty());
        assert_eq!(
            named(&["relay", "nuts"]).err().unwrap().to_string(),
            "--only: there is no contender `nuts`; there are campanile, relay, relay-again, writev, jacorb, omnievents, omniorb, \
             nats, cyclonedds"
        );
    }

    #[test]
    fn shares_consumers_evenly_and_completely() {
        for (consumers, processes) in [(1, 1), (10, 3), (100, 10), (1000, 100)] {
            let scenario = Scenario { consumers, processes, ..Scenario::one_to_one(64) };
            let shares: Vec<_> = (0..processes).map(|process| scenario.consumers_of(process)).collect();
            assert_eq!(shares.iter().map(ExactSizeIterator::len).sum::<usize>(), consumers as usize);
            let even = |pair: &[Range<u32>]| pair[0].end == pair[1].start && pair[0].len().abs_diff(pair[1].len()) <= 1;
            assert!(shares.windows(2).all(even));
        }
    }
}
