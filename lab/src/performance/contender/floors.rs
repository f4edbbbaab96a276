//! The floors: programs that understand nothing but where a message ends, and carry the same octets.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Range;

use super::{Absence, Consume, Contender, End, Scenario, Server, Supply};
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::fan_out;
use crate::process::Process;
use crate::{BenchError, campanile, relay};

/// The length of object keys, which is that of the service's.
const KEY_BYTES: usize = 40;

/// The bare relay ([`crate::relay`]): what any process between one supplier and one consumer costs at least. The reply
/// to a push is the consumer's.
pub(super) const RELAY: Contender =
    Contender { key: "relay", name: "bare relay", about: about_relay, warm_up_times: 1, start: start_relay };

/// The same a second time.
pub(super) const RELAY_AGAIN: Contender = Contender { key: "relay-again", name: "bare relay, again", ..RELAY };

/// One that writes each event to many consumers ([`fan_out`]), and answers the supplier itself.
pub(super) const WRITEV: Contender =
    Contender { key: "writev", name: "writev", about: about_writev, warm_up_times: 1, start: start_writev };

fn about_relay() -> String {
    "one thread, level-triggered epoll; whole messages are passed on in both directions; the reply to a push is the \
     consumer's"
        .to_owned()
}

fn start_relay(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if scenario.consumers != 1 {
        return Err(Absence::NotOffered("it has one consumer"));
    }
    if scenario.supply.window() == 0 && matches!(scenario.consume, Consume::TwoWay(_)) {
        return Err(Absence::NotOffered("what is one-way before it is one-way behind it"));
    }
    Ok(Box::new(Floor::new(relay::COMMAND, relay::READY, scenario)))
}

fn about_writev() -> String {
    "one thread, level-triggered epoll; each event goes to each process of consumers in one `writev`, as often as there are \
     consumers in it; then the supplier is answered; consumers' replies are read and thrown away"
        .to_owned()
}

fn start_writev(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if matches!(scenario.supply, Supply::OneWay) && matches!(scenario.consume, Consume::TwoWay(_)) {
        return Err(Absence::NotOffered("what is one-way before it is one-way behind it"));
    }
    Ok(Box::new(Floor::new(fan_out::COMMAND, fan_out::READY, scenario)))
}

/// A floor at work. Its process starts when all consumers are there, since it connects to them.
struct Floor {
    scenario: Scenario,
    command: &'static str,
    ready: &'static str,
    consumers: Vec<(SocketAddr, usize)>,
    process: Option<Process>,
}

impl Floor {
    fn new(command: &'static str, ready: &'static str, scenario: &Scenario) -> Self {
        Self { scenario: *scenario, command, ready, consumers: Vec::new(), process: None }
    }

    /// The key in every message, which is passed on as it is.
    fn key() -> Vec<u8> {
        campanile::consumer_key(0, KEY_BYTES)
    }
}

impl Server for Floor {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        let targets = consumers.map(|_| Self::key()).collect();
        Ok(End::own(Subscribe { protocol: self.scenario.giop(), address: None, targets, copies: true }))
    }

    fn subscribed(&mut self, subscribe: &Subscribe, listening: Option<SocketAddr>) -> Result<(), BenchError> {
        self.consumers.extend(listening.map(|address| (address, subscribe.targets.len())));
        Ok(())
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        let mut arguments = vec![OsString::from(self.command)];
        for (address, copies) in &self.consumers {
            let consumer = if *copies == 1 { address.to_string() } else { format!("{address}x{copies}") };
            arguments.extend([OsString::from("--consumer"), OsString::from(consumer)]);
        }
        let ready = self.ready;
        let ready = |line: &str| line.strip_prefix(ready)?.parse::<SocketAddr>().ok();
        let core = self.scenario.server_core;
        let (process, address) = Process::start_confined(self.command, None, (core, None), &arguments, ready)?;
        self.process = Some(process);
        Ok(End::own(self.scenario.publisher(self.scenario.giop(), address, Self::key())))
    }

    fn pids(&self) -> Vec<u32> {
        self.process.iter().map(Process::pid).collect()
    }
}
