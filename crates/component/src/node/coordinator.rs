//! Plans over several nodes, at the node manager where they are brought up.
//!
//! A change goes in steps, each at all nodes at once: the parts are prepared, the plan is checked as a whole, new servers are made beside the
//! old ones, those end, and the new ones start. A node that has done so has voted. When all have, a record in the store decides that the
//! change stays; until it is written, whatever goes wrong undoes all. So a change of which there is no record is undone (presumed abort), and
//! a node that does not learn what was decided asks for it.
//!
//! A record stays until the next one of its plan, for which all nodes of both have to vote, or until the plan is down. None of them waits for
//! the decision of the former one then. Nodes that a plan leaves out are in its record, by their addresses, until they have acknowledged.

use crate::node::clients::Changing;
use crate::node::connection::{CLIENT_LIMIT, Connection};
use crate::node::manager::Vote;
use crate::node::network::Network;
use crate::node::protocol::{Changed, NodeAnswer, NodeStatus, PeerAnswer, PeerRequest, PlanStatus};
use crate::node::release::{Assignment, Release};
use crate::node::store::{NEXT, PLAN, RECORD, Store, VOTE};
use crate::plan::{Descriptions, Plan, Problem};
use crate::server::check_name;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How long a node may take to prepare its part, in which its programs describe their components.
const PREPARE_LIMIT: Duration = Duration::from_secs(180);

/// How long a node may take for each other step: to end old servers, and to start others, twice where it undoes that.
const STEP_LIMIT: Duration = Duration::from_secs(200);

/// How long a node waits for the next step, in which another one may take as long.
pub(crate) const STEPS_LIMIT: Duration = Duration::from_secs(240);

/// What was decided last of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    transaction: String,
    nodes: BTreeMap<String, String>,
}

/// The node manager where plans over several nodes are brought up.
pub(crate) struct Coordinator {
    pub(crate) network: Arc<Network>,
    store: Arc<Store>,
    records: Mutex<BTreeMap<String, Record>>,
    /// Whether all could be read: otherwise a change may have been decided of which there is none.
    has_all: bool,
    /// Changes whose records were written, and may be lost at a power cut: the next node manager knows.
    unknown: Mutex<BTreeSet<String>>,
    changing: Changing,
}

impl Coordinator {
    pub(crate) fn new(network: Arc<Network>, store: Arc<Store>) -> Result<Self, String> {
        let (mut records, mut has_all) = (BTreeMap::new(), true);
        for (name, text) in store.all(RECORD).map_err(|error| error.to_string())? {
            match text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
                Ok(record) => drop(records.insert(name, record)),
                Err(reason) => {
                    log::error!("plan {name}: which nodes it has is not known, bring it up again: {reason}");
                    has_all = false;
                }
            }
        }
        let (records, unknown) = (Mutex::new(records), Mutex::default());
        Ok(Self { network, store, records, has_all, unknown, changing: Changing::default() })
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a plan is up over several nodes, brought up here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.records().contains_key(name)
    }

    /// The change that goes on.
    pub(crate) fn changing(&self) -> Option<String> {
        self.changing.current()
    }

    /// What was decided of a change; `None` while that is open.
    pub(crate) fn decision(&self, transaction: &str) -> Option<bool> {
        if self.changing.is(transaction) || self.unknown().contains(transaction) {
            return None;
        }
        let is_commit = self.records().values().any(|record| record.transaction == transaction);
        (is_commit || self.has_all).then_some(is_commit)
    }

    /// What another node has decided. If it does not answer, the others that take part are asked: what one has done was decided, and one that
    /// has not voted has undone all.
    pub(crate) fn ask(&self, name: &str, vote: &Vote) -> Option<bool> {
        let Vote { transaction, coordinator } = vote.clone();
        if coordinator == self.network.address {
            return self.decision(&transaction);
        }
        let decided = self.ask_at(&coordinator, &PeerRequest::Decision { transaction: transaction.clone() });
        decided.unwrap_or_else(|_| {
            let plan = Plan::parse(&self.store.text(name, NEXT)?.ok()?).ok()?;
            let others = plan.nodes.into_values().filter(|at| *at != coordinator && *at != self.network.address);
            let request = PeerRequest::Outcome { name: name.to_owned(), transaction, coordinator: coordinator.clone() };
            others.into_iter().find_map(|at| self.ask_at(&at, &request).ok()?)
        })
    }

    fn ask_at(&self, address: &str, request: &PeerRequest<'_>) -> Result<Option<bool>, String> {
        match call(&mut self.open(address)?, request, CLIENT_LIMIT)? {
            PeerAnswer::Decided(decision) => Ok(decision),
            other => Err(format!("it answered something else: {other:?}")),
        }
    }

    /// What has become here of a change on which another node decides; `None` while it goes on, and where that is not known.
    pub(crate) fn outcome(&self, name: &str, transaction: &str, coordinator: &str) -> Option<bool> {
        // It is a part of a path.
        if check_name(name).is_err() || [NEXT, VOTE].iter().any(|ending| self.store.text(name, ending).is_some()) {
            return None;
        }
        let assignment = Release::of_text(self.store.text(name, PLAN)?.ok()?).ok()?.assignment?;
        // Of a version before, of which nothing is known.
        let assignment = Some(assignment).filter(|of| !of.transaction.is_empty())?;
        (assignment.coordinator == coordinator).then(|| assignment.transaction == transaction)
    }

    /// Brings a plan up at all its nodes, or leaves all as they are.
    pub(crate) fn up(&self, text: &str, plan: &Plan, client: &str) -> NodeAnswer {
        let problems = plan.node_problems();
        if !problems.is_empty() {
            return NodeAnswer::Refused(problems);
        }
        let transaction = match transaction() {
            Ok(transaction) => transaction,
            Err(error) => return NodeAnswer::refused("node", error.to_string()),
        };
        let _change = match self.changing.begin(&plan.name, client, &transaction) {
            Ok(change) => change,
            Err(busy) => return busy,
        };
        let nodes = self.nodes(plan);
        let (peers, problems) = each(nodes.clone(), |_, address| self.open(&address).map_err(of_connection));
        if !problems.is_empty() {
            return NodeAnswer::Refused(problems);
        }
        let client = format!("{client}, at {}", self.network.address);
        let (prepared, mut problems) = each(peers, |node, mut connection| {
            let (transaction, assignment) = (transaction.clone(), self.assignment(node));
            let request =
                PeerRequest::Prepare { transaction, assignment, client: client.clone(), plan: Cow::Borrowed(text) };
            match call(&mut connection, &request, PREPARE_LIMIT) {
                Ok(PeerAnswer::Prepared { components, .. }) => Ok((connection, components)),
                other => Err(refusal(other)),
            }
        });
        let (mut peers, mut components) = (BTreeMap::new(), BTreeMap::<String, Descriptions>::new());
        for (node, (connection, of)) in prepared {
            peers.insert(node, connection);
            components.extend(of);
        }
        if problems.is_empty() {
            problems = plan.check(&components);
        }
        let mut changed = Changed::default();
        for request in [PeerRequest::Configure, PeerRequest::End, PeerRequest::Start] {
            if problems.is_empty() {
                (peers, changed, problems) = step(peers, &request);
            }
        }
        if problems.is_empty() {
            problems.extend(self.decide(plan, &transaction, nodes).err());
            if self.unknown().contains(&transaction) {
                return NodeAnswer::Refused(problems);
            }
        }
        let is_commit = problems.is_empty();
        let (acknowledged, _, late) = step(peers, if is_commit { &PeerRequest::Commit } else { &PeerRequest::Abort });
        if is_commit {
            self.drop_left_out(plan, |node| acknowledged.contains_key(node));
            log::info!("plan {} is up on {} nodes: {changed}", plan.name, plan.nodes.len());
            let asks = "; the plan is up, and this node carries that out when it asks";
            NodeAnswer::Changed(changed).beside(late.into_iter().map(|it| with(it, asks)).collect())
        } else {
            problems.extend(late);
            NodeAnswer::Refused(problems)
        }
    }

    /// The addresses of a plan's nodes, and of those that had a part of it before, which are called by them.
    fn nodes(&self, plan: &Plan) -> BTreeMap<String, String> {
        let mut nodes = plan.nodes.clone();
        let before = self.records().get(&plan.name).map(|record| record.nodes.clone()).unwrap_or_default();
        for address in before.into_values() {
            if !nodes.values().any(|it| *it == address) {
                nodes.insert(address.clone(), address);
            }
        }
        nodes
    }

    fn assignment(&self, node: &str) -> Assignment {
        let (node, coordinator) = (node.to_owned(), self.network.address.clone());
        Assignment { node, coordinator, transaction: String::new() }
    }

    /// Decides that a change of these nodes stays.
    fn decide(&self, plan: &Plan, transaction: &str, nodes: BTreeMap<String, String>) -> Result<(), Problem> {
        self.write(&plan.name, Record { transaction: transaction.to_owned(), nodes }).map_err(|problem| {
            let text = self.store.text(&plan.name, RECORD);
            if !text.is_some_and(|text| text.is_ok_and(|text| text.contains(transaction))) {
                return problem;
            }
            self.unknown().insert(transaction.to_owned());
            let open = "; whether the change stays is not known until the node manager is started again, and its nodes wait for that";
            with(problem, open)
        })
    }

    fn write(&self, name: &str, record: Record) -> Result<(), Problem> {
        self.store.replace(name, RECORD, &record)?;
        self.records().insert(name.to_owned(), record);
        Ok(())
    }

    /// Drops nodes from a record that its plan has left out, and that know it.
    fn drop_left_out(&self, plan: &Plan, knows: impl Fn(&str) -> bool) {
        let Some(mut record) = self.records().get(&plan.name).cloned() else { return };
        let all = record.nodes.len();
        record.nodes.retain(|node, _| plan.nodes.contains_key(node) || !knows(node));
        if record.nodes.len() < all
            && let Err(problem) = self.write(&plan.name, record)
        {
            log::error!("plan {}: nodes that it has left out take part in its next change: {problem}", plan.name);
        }
    }

    /// Says what `up` would change at the nodes that answer.
    pub(crate) fn diff(&self, text: &str, plan: &Plan) -> NodeAnswer {
        let problems = plan.node_problems();
        if !problems.is_empty() {
            return NodeAnswer::Refused(problems);
        }
        let (found, mut problems) = each(self.nodes(plan), |node, address| {
            let request = PeerRequest::Diff { assignment: self.assignment(node), plan: Cow::Borrowed(text) };
            let mut connection = self.open(&address).map_err(of_connection)?;
            match call(&mut connection, &request, PREPARE_LIMIT) {
                Ok(PeerAnswer::Prepared { components, differences }) => Ok((components, differences)),
                other => Err(refusal(other)),
            }
        });
        let (components, differences): (Vec<_>, Vec<_>) = found.into_values().unzip();
        if problems.is_empty() {
            problems = plan.check(&components.into_iter().flatten().collect());
        }
        NodeAnswer::Differences(differences.into_iter().flatten().collect()).beside(problems)
    }

    /// Adds the plans that were brought up here, as their nodes have them, to those of this node.
    pub(crate) fn status(&self, wanted: Option<&str>, local: NodeAnswer) -> NodeAnswer {
        let mut records = self.records().clone();
        records.retain(|name, _| wanted.is_none_or(|wanted| wanted == name));
        let mut status = match local {
            NodeAnswer::Status(status) => status,
            other if records.is_empty() => return other,
            _ => NodeStatus::default(),
        };
        let (own, local): (Vec<_>, _) = status.plans.into_iter().partition(|plan| records.contains_key(&plan.name));
        status.plans = local;
        let mut problems = Vec::new();
        for (name, record) in records {
            let request = PeerRequest::Status { name: name.clone() };
            let (found, more) = each(record.nodes, |node, address| {
                let here: Vec<_> = own.iter().filter(|plan| plan.name == name).cloned().collect();
                if address == self.network.address && !here.is_empty() {
                    return Ok(here);
                }
                let mut connection = self.open(&address).map_err(of_connection)?;
                match call(&mut connection, &request, CLIENT_LIMIT) {
                    Ok(PeerAnswer::Node(NodeAnswer::Status(status))) => Ok(status.plans),
                    // The plan has left it out.
                    Ok(PeerAnswer::Node(NodeAnswer::Refused(_))) if node == address => Ok(Vec::new()),
                    other => Err(refusal(other)),
                }
            });
            problems.extend(more);
            let mut whole = PlanStatus { name, since_ms: 0, servers: Vec::new(), refused: None };
            for (node, part) in
                found.into_iter().flat_map(|(node, of)| of.into_iter().map(move |it| (node.clone(), it)))
            {
                whole.since_ms = whole.since_ms.max(part.since_ms);
                whole.servers.extend(part.servers);
                whole.refused = part.refused.map(|reason| format!("{node}: {reason}")).or(whole.refused);
            }
            status.plans.push(whole);
        }
        NodeAnswer::Status(status).beside(problems)
    }

    /// Takes a plan down at the nodes that answer. The others have it as long as they do not, but for those without which it is to go down.
    pub(crate) fn down(&self, name: &str, without: &[String], client: &str) -> NodeAnswer {
        let _change = match self.changing.begin(name, client, "") {
            Ok(change) => change,
            Err(busy) => return busy,
        };
        let Some(mut record) = self.records().get(name).cloned() else {
            return NodeAnswer::refused(name, "no such plan is up");
        };
        let mut dropped = Vec::new();
        for node in without {
            let Some(address) = record.nodes.remove(node) else {
                let names: Vec<_> = record.nodes.into_keys().collect();
                return NodeAnswer::refused(name, format!("it has no node {node}; there are: {}", names.join(", ")));
            };
            let reason =
                format!("the node manager at {address} is not called: if it returns, take {name} down there as well");
            dropped.push(Problem::new(format!("nodes.{node}"), reason));
        }
        let client = format!("{client}, at {}", self.network.address);
        let (found, problems) = each(record.nodes.clone(), |_, address| {
            let (name, coordinator) = (name.to_owned(), self.network.address.clone());
            let request = PeerRequest::Down { name, coordinator, client: client.clone() };
            let mut connection = self.open(&address).map_err(of_connection)?;
            match call(&mut connection, &request, STEP_LIMIT) {
                Ok(PeerAnswer::Node(NodeAnswer::Changed(changed))) => Ok(changed),
                other => Err(refusal(other)),
            }
        });
        record.nodes.retain(|node, _| !found.contains_key(node));
        if record.nodes.is_empty() {
            self.records().remove(name);
            self.store.forget(name, RECORD);
        } else if let Err(problem) = self.write(name, record) {
            return NodeAnswer::Refused(vec![problem]);
        }
        let again = "; it has the plan until it is taken down again, --without it if it is gone for good";
        let problems = problems.into_iter().map(|it| with(it, again)).chain(dropped).collect();
        NodeAnswer::Changed(merged(found.into_values())).beside(problems)
    }

    /// Connects with another node manager, which waits for a request then.
    fn open(&self, address: &str) -> Result<Connection, String> {
        let opened = self.network.connect(address).and_then(|mut connection| {
            connection.receive(CLIENT_LIMIT).and_then(|answer| match answer {
                PeerAnswer::Ready => Ok(connection),
                other => Err(format!("it answered something else: {other:?}")),
            })
        });
        opened.map_err(|reason| format!("the node manager at {address}: {reason}"))
    }
}

/// A random name of a change.
fn transaction() -> std::io::Result<String> {
    let mut octets = [0; 16];
    match getrandom(&mut octets, GetRandomFlags::empty())? {
        16 => Ok(format!("{:032x}", u128::from_ne_bytes(octets))),
        _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

fn call(connection: &mut Connection, request: &PeerRequest<'_>, within: Duration) -> Result<PeerAnswer, String> {
    connection.send(request).and_then(|()| connection.receive(within))
}

/// What another node manager says instead of what was to come.
fn refusal(answer: Result<PeerAnswer, String>) -> Vec<String> {
    match answer {
        Ok(PeerAnswer::Node(NodeAnswer::Refused(problems))) => problems.iter().map(Problem::to_string).collect(),
        Ok(other) => vec![format!("it answered something else: {other:?}")],
        Err(reason) => vec![reason],
    }
}

fn of_connection(reason: String) -> Vec<String> {
    vec![reason]
}

fn with(mut problem: Problem, more: &str) -> Problem {
    problem.reason += more;
    problem
}

/// Does something at all nodes at once, each on a thread. Returns what has come of it, and what went wrong, by node.
fn each<P: Send, T: Send>(
    nodes: BTreeMap<String, P>,
    act: impl Fn(&str, P) -> Result<T, Vec<String>> + Sync,
) -> (BTreeMap<String, T>, Vec<Problem>) {
    let (mut done, mut problems) = (BTreeMap::new(), Vec::new());
    std::thread::scope(|scope| {
        let act = &act;
        let begin = |(node, of): (String, P)| {
            let name = node.clone();
            (node, Builder::new().name("node".to_owned()).spawn_scoped(scope, move || act(&name, of)))
        };
        let threads: Vec<_> = nodes.into_iter().map(begin).collect();
        for (node, thread) in threads {
            let outcome = match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(vec!["its thread has failed".to_owned()]),
                Err(error) => Err(vec![error.to_string()]),
            };
            match outcome {
                Ok(of) => drop(done.insert(node, of)),
                Err(reasons) => {
                    problems.extend(reasons.into_iter().map(|reason| Problem::new(format!("nodes.{node}"), reason)));
                }
            }
        }
    });
    (done, problems)
}

/// Has all nodes do a step. Returns those that have, what that changed, and what went wrong.
fn step(
    peers: BTreeMap<String, Connection>,
    request: &PeerRequest<'_>,
) -> (BTreeMap<String, Connection>, Changed, Vec<Problem>) {
    let (done, problems) = each(peers, |_, mut connection| match call(&mut connection, request, STEP_LIMIT) {
        Ok(PeerAnswer::Node(NodeAnswer::Changed(changed))) => Ok((connection, changed)),
        other => Err(refusal(other)),
    });
    let changed = merged(done.values().map(|(_, changed)| changed.clone()));
    (done.into_iter().map(|(node, (connection, _))| (node, connection)).collect(), changed, problems)
}

fn merged(all: impl Iterator<Item = Changed>) -> Changed {
    let mut merged = all.fold(Changed::default(), |mut whole, part| {
        whole.unchanged.extend(part.unchanged);
        whole.replaced.extend(part.replaced);
        whole.started.extend(part.started);
        whole.ended.extend(part.ended);
        whole
    });
    // Those that move from one node to another.
    let moved: BTreeSet<_> = merged.started.iter().filter(|server| merged.ended.contains(server)).cloned().collect();
    merged.started.retain(|server| !moved.contains(server));
    merged.ended.retain(|server| !moved.contains(server));
    merged.replaced.extend(moved);
    for servers in [&mut merged.unchanged, &mut merged.replaced, &mut merged.started, &mut merged.ended] {
        servers.sort_unstable();
    }
    merged
}
