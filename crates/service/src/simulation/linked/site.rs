//! One of several services: its host, its disk, and its process, if one is running.

use core::mem::swap;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use fastrand::Rng;

use crate::admin::run::Administration;
use crate::admin::values::{LinkDirection, LinkStatus};
use crate::config::{Config, DeclaredChannel, Delivery, Limits, LinkEntry, Links, StoreConfig};
use crate::counters::{Counter, Counters};
use crate::lane::io::net::Listener;
use crate::lane::io::socket::Layer;
use crate::lane::links::mailbox::{Inbox, Mailbox};
use crate::lane::links::messages::{Resolved, ToAdministration};
use crate::lane::run::Worker;
use crate::protocols::{Listeners, Tag, WireProtocol, link};
use crate::resolver::{Asking, known_without_asking};
use crate::simulation::network::Id;
use crate::simulation::wire::net;
use crate::simulation::{DEVICE, LANES, RESOLVER, STORE, run_lane};
use crate::start::{Assembled, simulated};
use crate::store::Writer;
use crate::store::tests::SimulatedDevice;

/// The linked channel, and the number that a service gives the first channel beside its own.
const CHANNEL: &str = "Weather";
pub(super) const CHANNEL_NUMBER: i32 = 1;

/// A part of a process that takes steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Lane(usize),
    Administration,
    Resolver,
    Store,
}

pub(super) struct Site {
    number: usize,
    /// Services that it dials.
    dials: Vec<usize>,
    device: Option<SimulatedDevice>,
    /// Maximum time of a disk operation.
    disk_takes: Duration,
    running: Option<Process>,
    /// Number of processes so far.
    pub(super) starts: u32,
}

/// Parts of a process. The lanes end first: administration would order them to.
struct Process {
    lanes: Vec<Option<Worker>>,
    store: Option<Writer>,
    /// End of the disk's current operation.
    store_due: Duration,
    administration: Administration,
    _orders: Mailbox<ToAdministration>,
    waker: Id,
    introductions: Inbox<Asking>,
    asking: Vec<Asking>,
    counters: Counters,
}

pub(super) fn host(number: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(number + 1).unwrap()).into()
}

impl Site {
    pub(super) fn new(number: usize, dials: Vec<usize>, has_store: bool, rng: &mut Rng) -> Self {
        let disk_takes = Duration::from_micros([10, 3_000, 30_000][rng.usize(..3)]);
        let device = has_store.then(SimulatedDevice::default);
        Self { number, dials, device, disk_takes, running: None, starts: 0 }
    }

    /// Address for its clients.
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::new(host(self.number), 2809)
    }

    pub(super) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) const fn has_store(&self) -> bool {
        self.device.is_some()
    }

    /// Whether any of its processes has ended.
    pub(super) const fn was_killed(&self) -> bool {
        self.starts > 1 || !self.is_running()
    }

    fn config(&self) -> Config {
        let link = |(at, to): (usize, &usize)| LinkEntry {
            name: format!("link {at}"),
            to: format!("{}:2816", host(*to)),
            channels: vec![CHANNEL.into()],
            ..LinkEntry::default()
        };
        // The folder does not matter: the disk is simulated.
        let directory = self.has_store().then(|| PathBuf::from("/"));
        Config {
            limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
            delivery: Delivery { give_up_after_ms: 600_000, ..Delivery::default() },
            links: Links { listen: Some("0".into()), name: format!("site {}", self.number), ..Links::default() },
            link: self.dials.iter().enumerate().map(link).collect(),
            channels: vec![DeclaredChannel {
                name: CHANNEL.into(),
                properties: BTreeMap::new(),
                lane: Vec::new(),
                timers: Vec::new(),
            }],
            store: StoreConfig { directory, ..StoreConfig::default() },
            ..Config::default()
        }
    }

    /// Starts a process.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let host = host(self.number);
        net(|net| net.here = host);
        DEVICE.set(self.device.clone());
        let listener = |port| Listener::simulated(SocketAddr::new(host, port)).ok_or("no simulation");
        let listeners = Listeners::of_giop(listener(2809)?).with(Tag::Link, Layer::Plain, Some(listener(2816)?));
        let started = simulated(&self.config(), listeners, self.address());
        DEVICE.set(None);
        let Assembled { administrator, administration, counters, .. } = started.map_err(|error| error.to_string())?;
        self.starts += 1;
        self.running = Some(Process {
            lanes: LANES.take(),
            store: STORE.take(),
            store_due: Duration::ZERO,
            waker: administrator.waker.simulated().ok_or("no simulation")?,
            administration: administrator,
            _orders: administration,
            introductions: RESOLVER.take().ok_or("no resolver")?,
            asking: Vec::new(),
            counters,
        });
        Ok(())
    }

    /// Ends the process as `kill -9` does; with `power`, as a loss of the host's power, which loses unsynchronised data.
    pub(super) fn kill(&mut self, power: Option<&mut Rng>) {
        if power.is_some() {
            net(|net| net.vanish(host(self.number)));
        }
        match (&mut self.device, power) {
            (Some(device), Some(rng)) => device.lose_power(rng),
            (Some(device), None) => device.lose_process(),
            (None, _) => {}
        }
        // The process's sockets are closed, as the system does.
        self.running = None;
    }

    /// Parts with work.
    pub(super) fn ready(&mut self, now: Duration) -> Vec<Part> {
        let Some(process) = &mut self.running else { return Vec::new() };
        let is_awake = |waker| net(|net| net.waits_until(waker).is_none_or(|until| until <= now));
        let works = |lane: &mut Worker| lane.until_due().is_some_and(|until| until.is_zero());
        let lanes = process.lanes.iter_mut().enumerate();
        let mut ready: Vec<Part> =
            lanes.filter_map(|(at, lane)| lane.as_mut().is_some_and(works).then_some(Part::Lane(at))).collect();
        ready.extend(is_awake(process.waker).then_some(Part::Administration));
        let asks = process.introductions.waiting() > 0 || process.asking.iter().any(|lane| lane.lookups.waiting() > 0);
        ready.extend(asks.then_some(Part::Resolver));
        let store = process.store.as_ref().filter(|_| process.store_due <= now);
        let store = store.and_then(|store| store.waker.simulated());
        ready.extend(store.filter(|waker| is_awake(*waker)).map(|_| Part::Store));
        ready
    }

    /// Time of the next work of any part.
    pub(super) fn next_due(&mut self, now: Duration) -> Option<Duration> {
        let process = self.running.as_mut()?;
        let lanes = process.lanes.iter_mut().flatten().filter_map(Worker::until_due).map(|until| now + until);
        let store = process.store.as_ref().and_then(|store| store.waker.simulated());
        let wakers = store.into_iter().chain([process.waker]);
        let disk = Some(process.store_due).filter(|due| *due > now);
        lanes.chain(wakers.filter_map(|waker| net(|net| net.waits_until(waker)))).chain(disk).min()
    }

    /// Executes one step of a part.
    pub(super) fn step(&mut self, part: Part, rng: &mut Rng) -> Result<(), String> {
        net(|net| net.here = host(self.number));
        let Some(process) = &mut self.running else { return Ok(()) };
        LANES.with_borrow_mut(|lanes| swap(lanes, &mut process.lanes));
        let goes_on = match part {
            Part::Lane(at) => run_lane(at),
            Part::Administration => {
                net(|net| net.wake(process.waker));
                process.administration.round()
            }
            Part::Resolver => {
                process.resolve();
                true
            }
            Part::Store => process.store.as_mut().is_some_and(|store| {
                let takes = rng.u64(..u64::try_from(self.disk_takes.as_nanos()).unwrap());
                process.store_due = net(|net| net.time()) + Duration::from_nanos(takes);
                store.waker.simulated().into_iter().for_each(|waker| net(|net| net.wake(waker)));
                store.live()
            }),
        };
        LANES.with_borrow_mut(|lanes| swap(lanes, &mut process.lanes));
        if goes_on { Ok(()) } else { Err(format!("{part:?} of site {} ends", self.number)) }
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.running.as_ref().map_or(0, |process| process.counters.read(counter))
    }

    /// Outgoing flows to other services.
    pub(super) fn flows_out(&self) -> Vec<LinkStatus> {
        let lanes = self.running.iter().flat_map(|process| process.lanes.iter().flatten());
        let flows = lanes.filter_map(|lane| {
            let cx = &lane.core.cx;
            link::Protocol::LINKS_AT(&lane.core.protocols, &cx.lane, cx.clock.now, 0..1_000)
        });
        flows.flatten().filter(|flow| flow.direction == LinkDirection::Out).collect()
    }
}

impl Process {
    /// Answers lookups: all names are addresses.
    fn resolve(&mut self) {
        self.introductions.look();
        self.asking.extend(core::iter::from_fn(|| self.introductions.take()));
        for lane in &mut self.asking {
            lane.lookups.look();
            while let Some(lookup) = lane.lookups.take() {
                let known = known_without_asking(&lookup.host).ok_or_else(|| "no such host".to_owned());
                let addresses = known.map(|ips| ips.iter().map(|ip| SocketAddr::new(*ip, lookup.port)).collect());
                let _ = lane.answers.send(Resolved { connection: lookup.connection, addresses });
            }
        }
    }
}
