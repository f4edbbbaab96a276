//! The same as [`federation`] with NATS: a hub at this node, and leaf nodes at others, where `nats-server` is installed.
//!
//! Its publisher has as many unanswered messages as there are suppliers of ours; the server answers each as soon as it has it (`verbose`).

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use load::process::{Process, Subordinate};
use serde_json::Value;

use super::federation::{self, Point, Site};
use super::nodes::{HERE, on_the_wire};
use super::subscribers::Turns;
use crate::latency::ratio;
use crate::performance::ends::{self, Order, Publish, Received, Recording, Run, Sent, Subscribe};
use crate::performance::protocol::Protocol;
use crate::persistent::Folder;
use crate::{BenchError, Losses, clock};

const PORT: u16 = 4222;
const WINDOW: u32 = 64;
/// After so long without a message, the rest is lost.
const QUIET: u64 = 2 * clock::SECOND;

/// A hub, and leaf nodes in the order of their nodes.
pub(super) struct Nats {
    hub: Process,
    leaves: Vec<Process>,
    _folder: Folder,
}

impl Nats {
    /// Its name and version, where it is installed.
    pub(super) fn version() -> Option<String> {
        let said = Command::new("nats-server").arg("--version").output().ok()?;
        String::from_utf8(said.stdout).ok().map(|version| version.trim().to_owned())
    }

    pub(super) fn start(sites: &[Site<'_>]) -> Result<Self, BenchError> {
        let folder = Folder::new("federation-nats", None)?;
        let beside = "max_pending: 256MB\n";
        let leafnodes = format!("leafnodes {{ listen: \"{HERE}:7422\", no_advertise: true }}\n");
        let hub = format!("listen: \"{HERE}:{PORT}\"\n{beside}{leafnodes}");
        let hub = server(&[], &folder.file("hub"), &hub)?;
        let mut leaves = Vec::new();
        for (number, site) in sites.iter().enumerate() {
            let remote = format!("leafnodes {{ remotes = [{{ url: \"nats-leaf://{HERE}:7422\" }}] }}\n");
            let config = format!("listen: \"{}:{PORT}\"\n{beside}{remote}", site.node.address);
            leaves.push(server(&site.node.words(), &folder.file(&format!("leaf-{number}")), &config)?);
        }
        Ok(Self { hub, leaves, _folder: folder })
    }
}

/// Starts a server, behind these words if there are any, with what it is configured with, which is written to that path.
pub(super) fn server(words: &[OsString], path: &Path, config: &str) -> Result<Process, BenchError> {
    fs::write(path, config).map_err(BenchError::io("writing the configuration of NATS"))?;
    let words = [words, &["nats-server".into(), "--config".into(), path.into()]].concat();
    let (program, arguments) = words.split_first().map(|(program, rest)| (program.clone(), rest.to_vec())).unzip();
    let ready = |line: &str| line.contains("Server is ready").then_some(());
    let arguments: Vec<OsString> = arguments.unwrap_or_default();
    let (process, ()) = Process::start_confined("nats-server", program.as_deref(), (None, None), &arguments, ready)?;
    Ok(process)
}

/// A publisher at the hub, subscribers there or at leaf nodes, and what their turns came to.
pub(super) struct NatsWay<'s> {
    name: &'static str,
    services: Vec<&'s Process>,
    publisher: Subordinate,
    subscribers: Vec<Subordinate>,
    run: u32,
    losses: Losses,
    counted: [u64; 3],
    /// The near service is the hub.
    turns: Turns,
}

impl<'s> NatsWay<'s> {
    /// Connects subscribers, so many at each of these nodes: to the hub, or to the node's own server.
    pub(super) fn open(
        nats: &'s Nats,
        sites: &[Site<'_>],
        each: u32,
        is_direct: bool,
        payload: u32,
    ) -> Result<Self, BenchError> {
        // Ways have subjects of their own: each has its turns alone.
        let (name, subject) =
            if is_direct { ("NATS, direct", &b"direct"[..]) } else { ("NATS, leaf nodes", &b"leaves"[..]) };
        let payload_bytes = payload as usize;
        let (protocol, target, address) = (Protocol::Nats, subject.to_vec(), (HERE, PORT).into());
        let publish = Publish { protocol, address, target, payload_bytes, window: WINDOW };
        let (publisher, _) = ends::start(&Order::Publish(publish), None, None)?;
        let (mut services, mut subscribers) = (vec![&nats.hub], Vec::new());
        for (site, leaf) in sites.iter().zip(&nats.leaves) {
            let host = if is_direct { HERE } else { site.node.address };
            let targets = (0..each).map(|_| subject.to_vec()).collect();
            let address = Some((host, PORT).into());
            let subscribe = Subscribe { protocol, address, targets, copies: false };
            subscribers.push(ends::start(&Order::Subscribe(subscribe), Some(site.words(ends::COMMAND)?), None)?.0);
            services.extend((!is_direct).then_some(leaf));
        }
        let (losses, turns) = Default::default();
        let mut way = Self { name, services, publisher, subscribers, run: 0, losses, counted: [0; 3], turns };
        // Subscriptions have to come to the hub.
        let give_up = clock::now() + 20 * clock::SECOND;
        while way.send(clock::SECOND / 20, clock::SECOND / 100)?.1.iter().any(|received| received.losses.lost > 0)
            && clock::now() < give_up
        {}
        Ok(way)
    }

    /// Has the publisher send for so long. Says what it sent, and what came.
    fn send(&mut self, turn_ns: u64, period: u64) -> Result<(Sent, Vec<Received>), BenchError> {
        self.run += 1;
        let (from, run) = (clock::now() + clock::SECOND / 20, self.run);
        let until = from + turn_ns;
        ends::record(&mut self.subscribers, Recording { run, from, until, spans: false, late: 0 })?;
        self.publisher.order(&Order::Send(Run { number: run, from, until, period }))?;
        ends::collect(&self.publisher, &mut self.subscribers, QUIET)
    }

    /// A turn at an even pace, and one at full speed.
    pub(super) fn turn(&mut self, turn_ns: u64, rate: u64) -> Result<(), BenchError> {
        let (_, came) = self.send(turn_ns, clock::SECOND / rate)?;
        came.iter().for_each(|received| self.losses.add(received.losses));
        let latency = Received::recorder(came.iter().map(|received| &*received.since_sent));
        let cpu = |services: &[&Process]| services.iter().map(|service| service.cpu()).collect::<Result<Vec<u64>, _>>();
        let (before, [octets, packets]) = (cpu(&self.services)?, on_the_wire()?);
        let (sent, came) = self.send(turn_ns, 0)?;
        let [octets_now, packets_now] = on_the_wire()?;
        let used: Vec<u64> = cpu(&self.services)?.iter().zip(before).map(|(now, before)| now - before).collect();
        came.iter().for_each(|received| self.losses.add(received.losses));
        let ended = came.iter().map(|received| received.ended).max().unwrap_or(0);
        let per_event = |ns: u64| ratio(ns, sent.events.max(1)) / 1e3;
        let took = clock::seconds(ended.saturating_sub(sent.began).max(1));
        let hub = used.first().copied().unwrap_or(0);
        self.turns.p50_us.push(latency.quantile_us(0.5));
        self.turns.p99_us.push(latency.quantile_us(0.99));
        self.turns.per_second.push(ratio(sent.events, 1) / took);
        self.turns.near_cpu_us.push(per_event(hub));
        self.turns.all_cpu_us.push(per_event(used.iter().sum()));
        let more = [sent.events, octets_now - octets, packets_now - packets];
        self.counted.iter_mut().zip(more).for_each(|(counted, more)| *counted += more);
        Ok(())
    }

    /// Its medians, and those of its ratios to the first way.
    pub(super) fn row(&self, point: Point, direct: &Self) -> Value {
        let row = self.turns.row(self.name, self.losses);
        federation::row(point, (row, &self.turns, &direct.turns), self.counted, None)
    }
}
