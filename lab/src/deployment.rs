//! `campanile-bench deployment`: a plan over twenty nodes is changed, and while that goes on one of them is killed.
//!
//! Nodes are network namespaces, or else addresses of the loopback. On each a node manager runs servers in Rust, C++ and Python, which are
//! connected around all nodes. What runs is found in `/proc`, and of which version of the plan it is, in what components write when they are
//! activated. After each kill either all nodes run the new plan, or the living are as before, and the dead one is, too, when it is back.

pub(crate) mod parts;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use component::{NodeAnswer, NodeRequest};
use serde::Serialize;
use serde_json::json;

use self::parts::{PartServer, Parts};
use self::site::{Authority, LeftBehind, Processes, Site};
use crate::campanile::setup;
use crate::latency::ratio;
use crate::links::nodes::{HERE, Node, may_have_own_network, own_network};
use crate::persistent::{Folder, Serving, Setting, own_address};
use crate::report::{Aim, Reported, kinds};
use crate::{BenchError, Options, Output, clock};

/// Moments of kills go beyond the end of a change, as a part of the time that one takes.
const MOMENTS: f64 = 1.1;
/// Interval between looks at processes.
const LOOK_EVERY: u64 = clock::SECOND / 50;
/// How long nodes may take until they run one plan: a machine that is gone without a word is missed after 25 s.
const SETTLED_WITHIN: u64 = 90 * clock::SECOND;
/// How long it may take until node managers say what runs, and until nothing is left behind.
const STATED_WITHIN: u64 = 10 * clock::SECOND;
const ANSWERED_WITHIN: Duration = Duration::from_secs(300);
/// The aim: milliseconds that `up` takes.
const UP_MS_MAX: f64 = 10_000.0;

kinds! {
    /// What of a node is killed.
    pub(crate) enum Kill {
        /// Its node manager: the servers end by themselves.
        Manager = "manager",
        /// All its processes.
        Machine = "machine",
        /// All its processes, with the cable pulled before: the others hear nothing.
        Cable = "cable",
    }
}

/// What the nodes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Runs {
    All,
    AsBefore,
    /// Some living ones wait for the decision of the dead one, where the plan was brought up.
    Open,
    Neither,
}

/// A change in which a node was killed.
#[derive(Debug, Serialize)]
struct Try {
    kill: Kill,
    node: usize,
    /// From the beginning of the change.
    killed_ms: f64,
    /// What the living ran, and how long after the kill at first.
    living: Runs,
    living_ms: f64,
    /// What all ran when the dead one was there again, and how long after that at first.
    whole: Runs,
    whole_ms: f64,
    /// What was answered, where the answer came.
    answer: Option<String>,
    left_behind: LeftBehind,
}

impl Try {
    fn outcome(&self) -> Runs {
        if self.living == Runs::Open || self.living == self.whole { self.whole } else { Runs::Neither }
    }
}

/// The nodes, and the plan that they run.
struct Stand {
    sites: Vec<Site>,
    servers: Vec<PartServer>,
    /// Of each server.
    versions: Vec<u64>,
    service: Serving,
    folder: Folder,
}

/// Milliseconds since a moment.
fn since(began: u64) -> f64 {
    ratio(clock::now().saturating_sub(began), 1_000_000)
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let is_networked = may_have_own_network()?;
    if is_networked {
        own_network()?;
    }
    let began = clock::now();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut stand, parts) = Stand::start(options, is_networked, out)?;
    out.progress("the plan comes up")?;
    let up_ms = stand.change(vec![1; stand.servers.len()])?;
    let resources = stand.resources_at_rest()?;
    let replaced = stand.next_versions(&mut random);
    let change_ms = stand.change(replaced)?;
    let mut tries = Vec::new();
    while tries.len() < options.tries as usize {
        out.progress(&format!("{} of {} tries", tries.len(), options.tries))?;
        let kill = match random.u8(if is_networked && !options.quick { 0..20 } else { 0..18 }) {
            0..9 => Kill::Manager,
            9..18 => Kill::Machine,
            _ => Kill::Cable,
        };
        let (node, moment) = (random.usize(..stand.sites.len()), random.f64() * MOMENTS * change_ms);
        let tried = stand.take_try((kill, node, moment), &mut random)?;
        tries.push(tried);
        // What comes then would not be told from what was there before.
        if tries.last().is_some_and(|tried| tried.outcome() == Runs::Neither) {
            break;
        }
    }
    let left_behind = stand.left_behind_of(&tries, &resources)?;
    let (aims, counts) = judge((up_ms, &parts), &tries, &left_behind);
    let build = if cfg!(debug_assertions) { "development" } else { "release" };
    let mut report = json!({
        "quick": options.quick, "build": build, "seed": seed, "nodes_are": if is_networked { "network namespaces" } else { "addresses of loopback" },
        "nodes": stand.sites.len(), "servers": stand.servers.len(), "instances": options.instances, "languages": parts.languages,
        "skipped": parts.skipped, "up_ms": up_ms, "change_ms": change_ms, "tries": tries.len(), "left_behind": left_behind,
        "rows": rows(&tries), "rounds": tries, "seconds": clock::seconds(clock::now() - began),
    });
    crate::report::add(&mut report, counts);
    Ok((aims, report))
}

/// Counts of tries by their outcome.
fn judge((up_ms, parts): (f64, &Parts), tries: &[Try], left_behind: &LeftBehind) -> (Vec<Aim>, serde_json::Value) {
    let count = |outcome: Runs| tries.iter().filter(|tried| tried.outcome() == outcome).count();
    let (all, as_before, neither) = (count(Runs::All), count(Runs::AsBefore), count(Runs::Neither));
    let open = tries.iter().filter(|tried| tried.living == Runs::Open).count();
    // Of a development build times mean little.
    let is_in_time = (!cfg!(debug_assertions)).then_some(up_ms <= UP_MS_MAX);
    let aims = vec![
        Aim::new("`up` of the whole plan within 10 s", format!("{up_ms:.0} ms"), is_in_time),
        Aim::new("components in three languages", parts.languages.join(", "), parts.languages.len() == 3),
        Aim::new(
            "whatever node is killed, all runs, or the living are as before and the dead when it is back",
            format!("{all} all, {as_before} as before, {neither} neither"),
            neither == 0,
        ),
        Aim::new("nothing is left behind", format!("{left_behind:?}"), left_behind.is_none()),
    ];
    (aims, json!({"all": all, "as_before": as_before, "neither": neither, "open": open}))
}

/// The tries of each kind.
fn rows(tries: &[Try]) -> Vec<serde_json::Value> {
    let row = |kill: Kill| {
        let of_it: Vec<&Try> = tries.iter().filter(|tried| tried.kill == kill).collect();
        let count = |outcome: Runs| of_it.iter().filter(|tried| tried.outcome() == outcome).count();
        let most = |of: fn(&Try) -> f64| of_it.iter().map(|tried| of(tried)).fold(0.0, f64::max);
        json!({
            "kill": kill, "tries": of_it.len(), "all": count(Runs::All), "as_before": count(Runs::AsBefore),
            "living_ms_max": most(|tried| tried.living_ms), "whole_ms_max": most(|tried| tried.whole_ms),
        })
    };
    Kill::ALL.into_iter().map(row).collect()
}

impl Stand {
    fn start(options: &Options, is_networked: bool, out: &mut Output<'_>) -> Result<(Self, Parts), BenchError> {
        let (nodes, instances) = (usize::from(options.nodes), options.instances as usize);
        let least = 3 * nodes;
        if instances < least {
            let must_be = format!("at least {least}, one of each language on each of {nodes} nodes");
            return Err(BenchError::Option { name: "--instances", must_be });
        }
        out.progress("building the components")?;
        let folder = Folder::new("deployment", options.on.as_deref())?;
        let parts = Parts::build(folder.file("parts"))?;
        let mut setting = Setting::new(&folder, "")?;
        if is_networked {
            setting.listen = format!("{HERE}:0");
        }
        let (service, _) = setting.start()?;
        let authority = Authority::new(folder.file("ca.pem"))?;
        let servers = parts::servers(&parts, nodes, instances);
        let [_, _, third, _] = own_address().octets();
        let mut sites = Vec::new();
        for number in 0..options.nodes {
            out.progress(&format!("{number} of {nodes} nodes"))?;
            let network = is_networked.then(|| Node::start(number)).transpose()?;
            let host = network.as_ref().map_or(Ipv4Addr::new(127, 78, third, number + 1), |node| node.address);
            let here: Vec<_> = servers.iter().filter(|server| server.node == usize::from(number)).collect();
            let place = (network, host.to_string());
            sites.push(Site::start(folder.file(&format!("n{number}")), place, (&parts, &authority), &here)?);
        }
        Ok((Self { sites, servers, versions: Vec::new(), service, folder }, parts))
    }

    /// Versions of the next plan: one server in four is as it is.
    fn next_versions(&self, random: &mut fastrand::Rng) -> Vec<u64> {
        let next = self.versions.iter().max().map_or(1, |most| most + 1);
        self.versions.iter().map(|version| if random.u8(..4) == 0 { *version } else { next }).collect()
    }

    fn by_name(&self, versions: &[u64]) -> BTreeMap<&str, u64> {
        self.servers.iter().map(|server| server.name.as_str()).zip(versions.iter().copied()).collect()
    }

    /// Has the first node bring up a plan. The answer comes later.
    fn begin(&self, versions: &[u64]) -> Result<Receiver<Result<NodeAnswer, String>>, BenchError> {
        let addresses: Vec<String> = self.sites.iter().map(|site| site.address.clone()).collect();
        let folders: Vec<PathBuf> = self.sites.iter().map(Site::active).collect();
        let service = self.service.service.address().to_string();
        let plan = parts::plan(&self.servers, &addresses, &service, &folders, versions);
        let first = self.sites.first().map(Site::socket).ok_or_else(|| setup("bringing a plan up")("no node"))?;
        let request = NodeRequest::Up { plan, folder: self.folder.file("parts") };
        let (sender, answer) = channel();
        // The reader may have given up.
        thread::spawn(move || drop(sender.send(request.send(&first))));
        Ok(answer)
    }

    /// Changes the plan, and waits until it runs: milliseconds until the answer.
    fn change(&mut self, versions: Vec<u64>) -> Result<f64, BenchError> {
        let doing = "bringing a plan up";
        let began = clock::now();
        let answer = self.begin(&versions)?.recv_timeout(ANSWERED_WITHIN).map_err(setup(doing))?;
        let took = since(began);
        match answer.map_err(setup(doing))? {
            NodeAnswer::Changed(_) => {}
            other => return Err(setup(doing)(format!("{other:?}"))),
        }
        let runs = self.settle(&versions, &versions)?;
        self.versions = versions;
        if runs == Runs::All { Ok(took) } else { Err(setup(doing)("not all of it runs")) }
    }

    /// What the living nodes run.
    fn runs(&self, before: &[u64], after: &[u64]) -> Result<Runs, BenchError> {
        let all = site::look(&self.sites)?;
        let (of_before, of_after) = (self.by_name(before), self.by_name(after));
        let living = || self.sites.iter().zip(&all).filter(|(site, _)| site.is_alive());
        let all_run = |versions| living().all(|(site, of)| !site.waits() && site.runs(of, versions));
        let is_at_rest =
            |(site, of): (&Site, &Processes)| site.waits() || site.runs(of, &of_before) || site.runs(of, &of_after);
        Ok(if all_run(&of_after) {
            Runs::All
        } else if all_run(&of_before) {
            Runs::AsBefore
        } else if !self.sites.first().is_some_and(Site::is_alive) && living().all(is_at_rest) {
            Runs::Open
        } else {
            Runs::Neither
        })
    }

    /// Waits until the living nodes run one plan, or some wait: what they run then.
    fn settle(&self, before: &[u64], after: &[u64]) -> Result<Runs, BenchError> {
        let mut runs = Runs::Neither;
        poll(SETTLED_WITHIN, || {
            runs = self.runs(before, after)?;
            Ok(runs != Runs::Neither)
        })?;
        Ok(runs)
    }

    /// Changes the plan, and kills a node at that moment, in milliseconds.
    fn take_try(
        &mut self,
        (kill, node, moment): (Kill, usize, f64),
        random: &mut fastrand::Rng,
    ) -> Result<Try, BenchError> {
        let (before, after) = (self.versions.clone(), self.next_versions(random));
        let began = clock::now();
        let answer = self.begin(&after)?;
        clock::sleep_until(began + clock::nanoseconds(moment / 1_000.0))?;
        let (killed, killed_ms) = (clock::now(), since(began));
        let site = self.sites.get_mut(node).ok_or_else(|| setup("killing a node")("there is none"))?;
        site.kill(kill)?;
        let answer = answer.recv_timeout(ANSWERED_WITHIN).map_err(setup("changing a plan"))?;
        let mut living = self.settle(&before, &after)?;
        let living_ms = since(killed);
        let (is_up, answer) = match answer {
            Ok(NodeAnswer::Changed(_)) => (Some(true), None),
            Ok(NodeAnswer::Partly(_, problems)) => (Some(true), problems.first().map(ToString::to_string)),
            Ok(NodeAnswer::Refused(problems)) => (Some(false), problems.first().map(ToString::to_string)),
            Ok(other) => return Err(setup("changing a plan")(format!("{other:?}"))),
            Err(reason) => (None, Some(reason)),
        };
        if is_up.is_some_and(|is_up| living != if is_up { Runs::All } else { Runs::AsBefore }) {
            living = Runs::Neither;
        }
        let revived = clock::now();
        self.sites.get_mut(node).map_or(Ok(()), Site::revive)?;
        let mut whole = self.settle(&before, &after)?;
        let whole_ms = since(revived);
        if !poll(STATED_WITHIN, || self.is_as_stated())? {
            whole = Runs::Neither;
        }
        self.versions = if whole == Runs::All { after } else { before };
        self.sites.iter().try_for_each(Site::forget_ended)?;
        poll(STATED_WITHIN, || Ok(self.left_behind()?.is_none()))?;
        let left_behind = self.left_behind()?;
        Ok(Try { kill, node, killed_ms, living, living_ms, whole, whole_ms, answer, left_behind })
    }

    /// Whether the node managers say that these processes are the plan's, and all started.
    fn is_as_stated(&self) -> Result<bool, BenchError> {
        let Some(first) = self.sites.first() else { return Ok(false) };
        let answer = NodeRequest::Status { name: None }.send(&first.socket()).map_err(setup("asking for a status"))?;
        let NodeAnswer::Status(status) = answer else { return Ok(false) };
        let servers = || status.plans.iter().flat_map(|plan| &plan.servers);
        let stated: BTreeSet<_> = servers().filter_map(|of| Some((of.name.clone(), of.pid?))).collect();
        let found = site::look(&self.sites)?.into_iter().flat_map(|of| of.servers);
        let found: BTreeSet<_> = found.map(|(name, pid, _)| (name, pid)).collect();
        Ok(stated == found && servers().all(|of| of.state == "started"))
    }

    fn left_behind(&self) -> Result<LeftBehind, BenchError> {
        let all = self.sites.iter().zip(site::look(&self.sites)?).enumerate();
        let all = all.map(|(number, (site, processes))| site.left_behind(&processes, number == 0));
        Ok(all.fold(LeftBehind::default(), |sum, more| sum.and(&more)))
    }

    /// Threads and descriptors of each node manager.
    fn resources(&self) -> Result<Vec<[u64; 2]>, BenchError> {
        self.sites.iter().map(Site::resources).collect()
    }

    /// The same, when they have stayed for a second.
    fn resources_at_rest(&self) -> Result<Vec<[u64; 2]>, BenchError> {
        let (mut last, mut stays) = (self.resources()?, 0);
        poll(SETTLED_WITHIN, || {
            let now = self.resources()?;
            stays = if now == last { stays + 1 } else { 0 };
            last = now;
            Ok(stays > clock::SECOND / LOOK_EVERY)
        })?;
        Ok(last)
    }

    /// What was left behind in all tries, and by how much a node manager has grown at most.
    fn left_behind_of(&self, tries: &[Try], before: &[[u64; 2]]) -> Result<LeftBehind, BenchError> {
        let growth = || {
            let all = self.resources()?.into_iter().zip(before);
            let more = all.map(|([threads, descriptors], [before, others])| {
                [threads.saturating_sub(*before), descriptors.saturating_sub(*others)]
            });
            Ok::<_, BenchError>(
                more.fold([0; 2], |[most, of_others], [more, others]| [most.max(more), of_others.max(others)]),
            )
        };
        poll(STATED_WITHIN, || Ok(growth()? == [0; 2]))?;
        let [threads, descriptors] = growth()?;
        let all = tries.iter().map(|tried| &tried.left_behind);
        Ok(all.fold(LeftBehind { threads, descriptors, ..LeftBehind::default() }, LeftBehind::and))
    }
}

/// Waits until something holds, for so long at most: whether it does.
fn poll(within: u64, mut holds: impl FnMut() -> Result<bool, BenchError>) -> Result<bool, BenchError> {
    let until = clock::now() + within;
    while !holds()? {
        if clock::now() > until {
            return Ok(false);
        }
        clock::sleep_until(clock::now() + LOOK_EVERY)?;
    }
    Ok(true)
}
