//! Carriers of events from publishers to subscribers: what every contender can do, of any author.
//!
//! A [`Contender`] starts a [`Server`] for one [`Scenario`]; the server says what ends are to be started and how they speak,
//! and the harness ([`Course`](super::course::Course)) starts them, has them send and record, and reads what the server's
//! processes used meanwhile. A contender that has no process in the middle has no process identifiers, and names its own
//! programs as ends.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Range;

use super::ends::{Publish, Subscribe};
use super::protocol::Protocol;
use crate::campanile::ProxyAddress;
use crate::floor::counting::Counting;
use crate::{BenchError, Form};

pub(super) mod campanile;
mod cyclonedds;
mod floors;
pub(crate) mod jacorb;
pub(super) mod json;
mod nats;
mod omnievents;
mod omniorb;
mod peers;

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
    /// It is not installed; how to install it.
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

/// An end that is to be started.
#[derive(Debug, Clone)]
pub(crate) struct End<T> {
    pub(crate) order: T,
    /// The program that understands it and answers it, with its arguments; `None` for this program's own end. See
    /// [`ends`](super::ends) for the orders and answers of such a program.
    pub(crate) program: Option<Vec<OsString>>,
}

impl<T> End<T> {
    /// One of this program's own ends.
    pub(crate) const fn own(order: T) -> Self {
        Self { order, program: None }
    }
}

/// The process of these consumers of a service with suppliers that push to that proxy. Their keys are as long as its, so that messages
/// are as long behind the service as they are before it.
fn consumers_behind(proxy: &ProxyAddress, protocol: Protocol, consumers: Range<u32>) -> End<Subscribe> {
    let key = |number| crate::campanile::consumer_key(number, proxy.key.len());
    End::own(Subscribe { protocol, address: None, targets: consumers.map(key).collect(), copies: false })
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
    pub(crate) start: fn(&Scenario) -> Result<Box<dyn Server>, Absence>,
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
    campanile::CONTENDER,
    floors::RELAY,
    floors::RELAY_AGAIN,
    floors::WRITEV,
    jacorb::CONTENDER,
    omnievents::CONTENDER,
    omniorb::CONTENDER,
    nats::CONTENDER,
    cyclonedds::CONTENDER,
];

/// A contender at work, for one scenario. The harness calls these in the order in which they stand here.
pub(crate) trait Server: Send {
    /// The order for a process with the consumers of these numbers.
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError>;

    /// That process now runs. It listens there if it does not connect itself; the pushing side gets that address.
    fn subscribed(&mut self, _subscribe: &Subscribe, _listening: Option<SocketAddr>) -> Result<(), BenchError> {
        Ok(())
    }

    /// The order for the publisher; all consumers are there.
    fn publish(&mut self) -> Result<End<Publish>, BenchError>;

    /// The processes in the middle, if there are any: their processor time, memory and system calls count.
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The server's own counters, where it has some, read so often that what a reading costs is known; for when nothing is
    /// under way.
    fn counting(&self) -> Result<Option<Counting>, BenchError> {
        Ok(None)
    }

    /// The same read once, while events pass.
    fn glance(&self) -> Result<Option<Counting>, BenchError> {
        Ok(None)
    }
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

    /// For tables.
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

    /// For tables.
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

    /// The order for a publisher that sends to this target there.
    fn publisher(&self, protocol: Protocol, address: SocketAddr, target: Vec<u8>) -> Publish {
        Publish { protocol, address, target, payload_bytes: self.payload(), window: self.supply.window() }
    }

    /// The numbers of the consumers that are in this process.
    pub(crate) fn consumers_of(&self, process: u32) -> Range<u32> {
        let first = |process: u32| {
            let first = u64::from(self.consumers) * u64::from(process) / u64::from(self.processes.max(1));
            u32::try_from(first).unwrap_or(self.consumers)
        };
        first(process)..first(process + 1)
    }

    /// For tables.
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
