//! Two to five linked services in trees, rings and meshes, on lines that are cut and stand still, with processes that are killed and hosts
//! that lose their power at any moment: whole services, with their stores on simulated disks, on one network and clock.
//!
//! The results are [checked](checks) from outside: by suppliers' replies, by consumers' events, and by the services' counters.

mod checks;
mod clients;
mod site;

use core::time::Duration;

use fastrand::Rng;

use self::clients::{Consumer, Supplier};
use self::site::{Part, Site, host};
use super::network::{self, Net};
use super::wire::net;
use super::world::{Over, weather};
use super::{BROKEN, Break, SPARED};
use crate::counters::Counter;

/// Maximum steps of a run: one that takes more does not come to rest.
const STEPS_MAX: u64 = 2_000_000;
/// Time limit until links and subscriptions exist, at both ends.
const SETTING_UP: Duration = Duration::from_secs(30);
/// Time limit until all events are pushed, and all faults are over.
const WORK: Duration = Duration::from_secs(120);
/// Time limit until everything is delivered: a service that lost its power is silent, and deliveries to it are tried again, with growing
/// pauses.
const COMING: Duration = Duration::from_secs(300);
/// Time in which repeats still arrive.
const REST: Duration = Duration::from_secs(15);
/// Steps between two checks of a condition.
const STEPS_UNCHECKED: u64 = 128;

/// Result of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) steps: u64,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    /// Events that consumers got again from a process started later.
    pub(super) again: u64,
    pub(super) kills: u64,
    pub(super) cuts: u64,
    pub(super) repeats: u64,
    pub(super) loops: u64,
    /// Best-effort events that were counted as lost, and those that consumers did not get.
    pub(super) lost: u64,
    pub(super) missing: u64,
    /// Checksum over all steps: which part ran, and when.
    pub(super) trace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Site(usize, Part),
    Supplier(usize),
    Consumer(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Kill a process; also cut its host's power if the flag is set.
    Kill(usize, bool),
    Start(usize),
    Cut(usize, usize),
    /// Deliver nothing on a line for so long.
    Stall(usize, usize, Duration),
}

struct World {
    rng: Rng,
    sites: Vec<Site>,
    /// Linked pairs, the dialling service first.
    lines: Vec<(usize, usize)>,
    is_tree: bool,
    has_stores: bool,
    suppliers: Vec<Supplier>,
    consumers: Vec<Consumer>,
    /// Faults to come, the last first.
    faults: Vec<(Duration, Fault)>,
    summary: Summary,
}

/// Executes a run.
///
/// # Errors
/// The violated condition.
pub(super) fn run(seed: u64, broken: Option<Break>) -> Result<Summary, String> {
    let mut rng = Rng::with_seed(seed ^ 0x11_4B ^ 0x7E4D_0000_0000);
    let weather = weather(&mut rng);
    network::set(Some(Net::new(rng.u64(..), weather)));
    let over = Over;
    // The services' own random numbers.
    fastrand::seed(seed);
    BROKEN.set(broken);
    SPARED.set(0);
    let mut world = World::new(rng)?;
    let ran = world.run();
    let summary = world.summary;
    drop(world);
    drop(over);
    ran.map(|()| summary)
}

impl World {
    fn new(mut rng: Rng) -> Result<Self, String> {
        let count = rng.usize(2..=5);
        let (shape, has_stores) = (rng.u8(0..4), rng.u8(0..4) > 0);
        let mut lines: Vec<(usize, usize)> = match shape {
            0 => (1..count).map(|at| (at - 1, at)).collect(),
            1 => (1..count).map(|at| (rng.usize(..at), at)).collect(),
            2 => (0..count).map(|at| (at, (at + 1) % count)).collect(),
            _ => (0..count).flat_map(|at| (0..at).map(move |other| (other, at))).collect(),
        };
        if shape == 3 && rng.bool() {
            // Two links between the same pair.
            lines.push((1, 0));
        }
        if shape < 2 {
            // Either side of a pair may dial.
            lines.iter_mut().filter(|_| rng.bool()).for_each(|line| *line = (line.1, line.0));
        }
        let dials = |number: usize| lines.iter().filter(|(from, _)| *from == number).map(|(_, to)| *to).collect();
        let mut sites: Vec<Site> =
            (0..count).map(|number| Site::new(number, dials(number), has_stores, &mut rng)).collect();
        sites.iter_mut().try_for_each(Site::start)?;
        let consumers =
            (0..rng.usize(1..4)).map(|number| Consumer::new(number, rng.usize(..count), &mut rng)).collect();
        Ok(Self {
            rng,
            sites,
            lines,
            is_tree: shape < 2,
            has_stores,
            suppliers: Vec::new(),
            consumers,
            faults: Vec::new(),
            summary: Summary::default(),
        })
    }

    fn run(&mut self) -> Result<(), String> {
        if !self.go_on(SETTING_UP, Self::is_set_up)? {
            return Err("a link or a consumer is not connected".into());
        }
        // Subscriptions are announced over all links.
        self.go_on(Duration::from_secs(5), |_| false)?;
        let (count, may_persist) = (self.sites.len(), self.has_stores);
        for number in 0..self.rng.usize(1..4) {
            let site = self.rng.usize(..count);
            self.suppliers.push(Supplier::new(number, site, may_persist, &mut self.rng));
        }
        self.plan_faults();
        let is_over = |world: &Self| world.faults.is_empty() && world.suppliers.iter().all(Supplier::is_done);
        if !self.go_on(WORK, is_over)? {
            return Err("a supplier is never done".into());
        }
        self.go_on(COMING, |world| world.missing().is_none() && world.is_quiet())?;
        if let Some((consumer, (supplier, number))) = self.missing() {
            let pushed = &self.suppliers[supplier].pushed[number as usize];
            return Err(format!("consumer {consumer} misses event {number} of supplier {supplier}: {pushed:?}"));
        }
        self.go_on(REST, |_| false)?;
        self.sum_up();
        self.check()
    }

    /// Whether all links and consumers are connected.
    fn is_set_up(&self) -> bool {
        let ends: u64 = self.sites.iter().map(|site| site.count(Counter::LinksUp)).sum();
        ends == 2 * self.lines.len() as u64 && self.consumers.iter().all(|consumer| consumer.is_connected)
    }

    fn plan_faults(&mut self) {
        let now = net(|net| net.time());
        let (sites, lines) = (self.sites.len(), self.lines.len());
        let within = self.rng.u64(1..3_000);
        for _ in 0..self.rng.usize(..6) {
            let at = now + Duration::from_millis(self.rng.u64(..within));
            let (from, to) = self.lines[self.rng.usize(..lines)];
            let fault = match self.rng.u8(0..6) {
                0..2 => {
                    let site = self.rng.usize(..sites);
                    let comes_again = at + Duration::from_millis([10, 500, 4_000][self.rng.usize(..3)]);
                    self.faults.push((comes_again, Fault::Start(site)));
                    Fault::Kill(site, self.rng.bool())
                }
                2..4 => Fault::Cut(from, to),
                _ => Fault::Stall(from, to, Duration::from_millis([50, 2_000, 15_000][self.rng.usize(..3)])),
            };
            self.faults.push((at, fault));
        }
        self.faults.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
    }

    fn strike(&mut self, fault: Fault) -> Result<(), String> {
        log::info!("{fault:?}");
        match fault {
            Fault::Kill(site, power) => {
                if self.sites[site].is_running() {
                    self.summary.kills += 1;
                    let (consumers, suppliers) = (self.consumers.iter_mut(), self.suppliers.iter_mut());
                    let now = net(|net| net.time());
                    for consumer in consumers.filter(|consumer| consumer.site == site) {
                        consumer.accept(&self.sites[site]);
                        consumer.hang_up(&self.sites[site], now);
                    }
                    suppliers.filter(|supplier| supplier.site == site).for_each(|supplier| supplier.hang_up(now));
                    self.sites[site].kill(power.then_some(&mut self.rng));
                }
            }
            Fault::Start(site) if self.sites[site].is_running() => {}
            Fault::Start(site) => self.sites[site].start()?,
            Fault::Cut(from, to) => {
                self.summary.cuts += 1;
                net(|net| net.cut(host(from), host(to)));
            }
            Fault::Stall(from, to, lasts) => {
                // A connection ends that is silent for so long.
                self.summary.cuts += u64::from(lasts > Duration::from_secs(5));
                net(|net| net.stall(host(from), host(to), net.time() + lasts));
            }
        }
        Ok(())
    }

    /// Executes steps until a condition is true, or for `at_most`. Returns whether it is true.
    fn go_on(&mut self, at_most: Duration, is_so: impl Fn(&Self) -> bool) -> Result<bool, String> {
        let until = net(|net| net.time()) + at_most;
        let mut unchecked = 0;
        loop {
            self.summary.steps += 1;
            if self.summary.steps > STEPS_MAX {
                return Err(format!("no rest: {:?} go on for ever", self.ready()));
            }
            let passes = Duration::from_nanos(self.rng.u64(0..20_000));
            let now = net(|net| {
                net.go_to(net.time() + passes);
                net.time()
            });
            while let Some((_, fault)) = self.faults.pop_if(|(at, _)| *at <= now) {
                self.strike(fault)?;
            }
            let ready = self.ready();
            if (ready.is_empty() || unchecked >= STEPS_UNCHECKED) && is_so(self) {
                return Ok(true);
            }
            unchecked = if unchecked >= STEPS_UNCHECKED { 0 } else { unchecked + 1 };
            if now >= until {
                return Ok(false);
            }
            if ready.is_empty() {
                let due = self.next_due().map_or(until, |due| due.min(until));
                net(|net| net.go_to(due));
                continue;
            }
            let who = ready[self.rng.usize(0..ready.len())];
            self.note(who);
            self.step(who)?;
        }
    }

    fn note(&mut self, who: Who) {
        let (kind, at) = match who {
            Who::Site(at, Part::Lane(_)) => (1, at),
            Who::Site(at, Part::Administration) => (2, at),
            Who::Site(at, Part::Resolver) => (3, at),
            Who::Site(at, Part::Store) => (4, at),
            Who::Supplier(at) => (5, at),
            Who::Consumer(at) => (6, at),
        };
        let now = u64::try_from(net(|net| net.time()).as_nanos()).unwrap();
        let trace = self.summary.trace.rotate_left(7) ^ now ^ (kind << 56) ^ (at as u64) << 48;
        self.summary.trace = trace.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn ready(&mut self) -> Vec<Who> {
        let now = net(|net| net.time());
        let mut ready = Vec::new();
        for (at, site) in self.sites.iter_mut().enumerate() {
            ready.extend(site.ready(now).into_iter().map(|part| Who::Site(at, part)));
        }
        ready.extend((0..self.suppliers.len()).filter(|at| self.suppliers[*at].is_ready(now)).map(Who::Supplier));
        ready.extend((0..self.consumers.len()).filter(|at| self.consumers[*at].is_ready(now)).map(Who::Consumer));
        ready
    }

    /// Time of the next work of any part, or of the next fault.
    fn next_due(&mut self) -> Option<Duration> {
        let now = net(|net| net.time());
        let sites = self.sites.iter_mut().filter_map(|site| site.next_due(now));
        let clients = self.suppliers.iter().filter_map(Supplier::next_due);
        let clients = clients.chain(self.consumers.iter().filter_map(Consumer::next_due));
        let faults = self.faults.last().map(|(at, _)| *at);
        sites.chain(clients).chain(faults).chain(net(|net| net.next_arrival())).min()
    }

    fn step(&mut self, who: Who) -> Result<(), String> {
        match who {
            Who::Site(at, part) => self.sites[at].step(part, &mut self.rng),
            Who::Supplier(at) => {
                let supplier = &mut self.suppliers[at];
                supplier.step(&self.sites[supplier.site], &mut self.rng)
            }
            Who::Consumer(at) => {
                let consumer = &mut self.consumers[at];
                consumer.step(&self.sites[consumer.site], &mut self.rng)
            }
        }
    }
}
