//! Changes of plans, in the node manager's thread: `up` and `down`, and the steps of a change of a plan over several nodes, on which another
//! one decides.
//!
//! A change makes new servers beside the old ones, ends those, and starts the new ones. It is undone as long as it has not been decided: here
//! alone by the plan's file, which takes the place of the old one, and over several nodes by the record of the node where the plan is
//! brought up.

use crate::node::manager::{Deployed, Manager, State, Vote};
use crate::node::protocol::{Changed, NodeAnswer};
use crate::node::release::{Release, SERVERS_MAX};
use crate::node::store::{NEXT, PLAN, VOTE};
use crate::plan::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// A change that was prepared, and is not decided.
pub(crate) struct Pending {
    pub(crate) release: Arc<Release>,
    /// Servers that run on, new ones, and old ones that are to end.
    unchanged: BTreeMap<String, u64>,
    incoming: BTreeMap<String, u64>,
    outgoing: BTreeMap<String, u64>,
    /// Where another node decides.
    pub(crate) vote: Option<Vote>,
    pub(crate) has_voted: bool,
}

impl Pending {
    fn changed(&self) -> Changed {
        let names = |of: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>, is_there: bool| {
            of.keys().filter(|server| other.contains_key(*server) == is_there).cloned().collect()
        };
        Changed {
            unchanged: self.unchanged.keys().cloned().collect(),
            replaced: names(&self.incoming, &self.outgoing, true),
            started: names(&self.incoming, &self.outgoing, false),
            ended: names(&self.outgoing, &self.incoming, false),
        }
    }

    /// The numbers of the servers that there are when it is decided.
    pub(crate) fn servers(&self) -> impl Iterator<Item = u64> {
        self.unchanged.values().chain(self.incoming.values()).copied()
    }

    fn new_ids(&self) -> Vec<u64> {
        self.incoming.values().copied().collect()
    }

    fn old_ids(&self) -> Vec<u64> {
        self.outgoing.values().copied().collect()
    }
}

impl Manager {
    /// Brings a plan up, in place of the one of that name, if there is one.
    pub(crate) fn up(&mut self, release: Arc<Release>) -> NodeAnswer {
        let outcome = self.prepare(release, None).and_then(|pending| {
            let name = pending.release.plan.name.clone();
            let carried_out = self.configure(&pending).and_then(|()| self.exchange(&pending));
            match carried_out.and_then(|()| self.store.commit(&name)) {
                Ok(()) => Ok(self.finish(pending)),
                Err(mut problem) => {
                    let outcome = match self.undo(&pending) {
                        None => return Err(problem),
                        Some(Ok(())) => "and run again".to_owned(),
                        Some(Err(other)) => format!("and do not all run again: {other}"),
                    };
                    problem.reason =
                        format!("{}; the servers that it was to replace were ended, {outcome}", problem.reason);
                    Err(problem)
                }
            }
        });
        match outcome {
            Ok(changed) => NodeAnswer::Changed(changed),
            Err(problem) => NodeAnswer::Refused(vec![problem]),
        }
    }

    /// Writes a plan that is to come up, and says what that means for the servers. None is touched.
    fn prepare(&mut self, release: Arc<Release>, vote: Option<Vote>) -> Result<Pending, Problem> {
        let name = release.plan.name.clone();
        self.check_name(&release)?;
        let running = self.plans.get(&name).map(|plan| plan.servers.clone()).unwrap_or_default();
        // One that does not run is replaced, so that all run when the plan is up.
        let runs_on = |server: &String, id: &u64| {
            self.not_started(*id).is_none()
                && self.servers.get(id).is_some_and(|of| of.release.parts.get(server) == release.parts.get(server))
        };
        let (unchanged, outgoing): (BTreeMap<_, _>, BTreeMap<_, _>) =
            running.into_iter().partition(|(server, id)| runs_on(server, id));
        let names: Vec<String> =
            release.parts.keys().filter(|server| !unchanged.contains_key(*server)).cloned().collect();
        let count = self.servers.len() - outgoing.len() + names.len();
        if count > SERVERS_MAX {
            let reason = format!("there would be {count} on this node: at most {SERVERS_MAX} are taken");
            return Err(Problem::new("servers", reason));
        }
        self.store.write_next(&name, &release.text)?;
        let incoming = names.into_iter().map(|server| (server.clone(), self.make(&release, &server, false))).collect();
        Ok(Pending { release, unchanged, incoming, outgoing, vote, has_voted: false })
    }

    /// Refuses a name of which another one has the plan.
    fn check_name(&self, release: &Release) -> Result<(), Problem> {
        let name = &release.plan.name;
        let vote = self.pending.get(name).and_then(|pending| pending.vote.as_ref()).or(self.voted.get(name));
        if let Some(vote) = vote {
            return Err(Problem::new(name, format!("its last change {}: try again when that is known", vote.waits())));
        }
        let Some(plan) = self.plans.get(name) else { return Ok(()) };
        let (own, other) = (plan.release.coordinator(), release.coordinator());
        if own == other {
            return Ok(());
        }
        let origin = |coordinator: Option<&str>| {
            coordinator.map_or_else(|| "for this node alone".to_owned(), |at| format!("by the node manager at {at}"))
        };
        let reason = format!(
            "a plan of this name is up, brought up {}, and this comes {}: take that one down there, or give this one another name",
            origin(own),
            origin(other)
        );
        Err(Problem::new(name, reason))
    }

    /// Makes the new servers beside the old ones.
    fn configure(&mut self, pending: &Pending) -> Result<(), Problem> {
        let file = self.store.next_file(&pending.release.plan.name);
        for id in pending.incoming.values() {
            self.spawn(*id, &file);
        }
        self.wait_for(&pending.new_ids(), State::Configured)
    }

    /// Ends the old servers, and starts the new ones.
    fn exchange(&mut self, pending: &Pending) -> Result<(), Problem> {
        self.end(&pending.old_ids());
        self.begin(&pending.new_ids());
        self.wait_for(&pending.new_ids(), State::Started)
    }

    /// Makes a change what there is; its file is in its place.
    fn finish(&mut self, pending: Pending) -> Changed {
        let changed = pending.changed();
        let (new, old) = (pending.new_ids(), pending.old_ids());
        let Pending { release, unchanged, incoming, .. } = pending;
        let name = release.plan.name.clone();
        for id in unchanged.values() {
            if let Some(server) = self.servers.get_mut(id) {
                server.release = release.clone();
            }
        }
        self.forget(&old);
        self.refused.remove(&name);
        self.store.forget(&name, VOTE);
        if release.parts.is_empty() {
            self.plans.remove(&name);
        } else {
            let servers = unchanged.into_iter().chain(incoming).collect();
            let deployed = Deployed { release, servers, since: SystemTime::now(), unready: BTreeSet::new() };
            self.plans.insert(name.clone(), deployed);
        }
        for id in new {
            self.supervise(id);
        }
        log::info!("plan {name} is up: {changed}");
        changed
    }

    /// Ends the new servers, and has the old ones run. Says how that went if some of those were ended.
    fn undo(&mut self, pending: &Pending) -> Option<Result<(), Problem>> {
        let (name, new) = (&pending.release.plan.name, pending.new_ids());
        self.end(&new);
        self.forget(&new);
        self.store.discard_next(name);
        self.restore(name, &pending.old_ids())
    }

    /// Starts again those of the old servers that were ended.
    fn restore(&mut self, name: &str, old: &[u64]) -> Option<Result<(), Problem>> {
        let ended: Vec<u64> =
            old.iter().copied().filter(|id| self.servers.get(id).is_some_and(|it| !it.is_supervised)).collect();
        if ended.is_empty() || self.is_stopping {
            return None;
        }
        let file = self.store.file(name);
        for id in &ended {
            if let Some(server) = self.servers.get_mut(id) {
                server.is_supervised = true;
            }
            self.spawn(*id, &file);
        }
        Some(self.wait_for(&ended, State::Started))
    }

    fn forget(&mut self, ids: &[u64]) {
        self.servers.retain(|id, _| !ids.contains(id));
    }

    /// The first step of a change of a part of a plan.
    pub(crate) fn prepare_part(&mut self, release: Arc<Release>, vote: Vote) -> NodeAnswer {
        match self.prepare(release, Some(vote)) {
            Ok(pending) => {
                let changed = pending.changed();
                self.pending.insert(pending.release.plan.name.clone(), pending);
                NodeAnswer::Changed(changed)
            }
            Err(problem) => NodeAnswer::Refused(vec![problem]),
        }
    }

    /// The second step: new servers are made.
    pub(crate) fn configure_part(&mut self, name: &str) -> NodeAnswer {
        self.step(name, |this, pending| this.configure(pending))
    }

    /// The third step: the old servers end, at all nodes before any has new ones started.
    pub(crate) fn end_part(&mut self, name: &str) -> NodeAnswer {
        self.step(name, |this, pending| {
            this.end(&pending.old_ids());
            Ok(())
        })
    }

    /// The fourth step: the new servers are started.
    pub(crate) fn start_part(&mut self, name: &str) -> NodeAnswer {
        self.step(name, |this, pending| this.exchange(pending))
    }

    /// The vote, from which on another node decides: it is written before it is given.
    pub(crate) fn vote(&mut self, name: &str) -> NodeAnswer {
        self.step(name, |this, pending| {
            // One that may be lost at a power cut is none.
            this.store.replace(name, VOTE, &pending.vote).inspect_err(|_| this.store.forget(name, VOTE))?;
            pending.has_voted = true;
            Ok(())
        })
    }

    /// A step of a change, which is undone if that fails.
    fn step(
        &mut self,
        name: &str,
        carry_out: impl FnOnce(&mut Self, &mut Pending) -> Result<(), Problem>,
    ) -> NodeAnswer {
        let Some(mut pending) = self.pending.remove(name) else { return self.unknown(name) };
        if let Some(vote) = pending.vote.clone().filter(|_| pending.has_voted) {
            self.pending.insert(name.to_owned(), pending);
            return NodeAnswer::refused(name, format!("this node has voted, and {}", vote.waits()));
        }
        if let Err(problem) = carry_out(self, &mut pending) {
            let undone = self.undo(&pending).and_then(Result::err);
            return NodeAnswer::Refused(std::iter::once(problem).chain(undone).collect());
        }
        let changed = pending.changed();
        self.pending.insert(name.to_owned(), pending);
        NodeAnswer::Changed(changed)
    }

    /// Has a change stay, or undoes it. One that is not known was decided before.
    pub(crate) fn decide(&mut self, name: &str, transaction: &str, is_commit: bool) -> NodeAnswer {
        let is_it = |vote: &Vote| vote.transaction == transaction;
        let outcome = if self.voted.get(name).is_some_and(is_it) {
            self.conclude(name, is_commit).map(|()| {
                self.voted.remove(name);
                self.refused.remove(name);
                if let Some(text) = self.store.text(name, PLAN) {
                    self.bring(name, text);
                }
                Changed::default()
            })
        } else if let Some(pending) = self.pending.remove(name) {
            let is_meant = pending.vote.as_ref().is_some_and(is_it) && (pending.has_voted || !is_commit);
            if !is_meant {
                self.pending.insert(name.to_owned(), pending);
                return NodeAnswer::refused(name, "another change goes on");
            }
            if is_commit {
                match self.conclude(name, true) {
                    Ok(()) => Ok(self.finish(pending)),
                    Err(problem) => {
                        self.pending.insert(name.to_owned(), pending);
                        Err(problem)
                    }
                }
            } else {
                let outcome = self.undo(&pending);
                self.store.forget(name, VOTE);
                log::info!("plan {name}: a change was undone");
                outcome.unwrap_or(Ok(())).map(|()| Changed::default())
            }
        } else {
            Ok(Changed::default())
        };
        match outcome {
            Ok(changed) => NodeAnswer::Changed(changed),
            Err(problem) => NodeAnswer::Refused(vec![problem]),
        }
    }

    /// Does with the files of a plan what was decided. After a power cut it may have been done in part.
    fn conclude(&self, name: &str, is_commit: bool) -> Result<(), Problem> {
        if let Some(text) = self.store.text(name, NEXT).filter(|_| is_commit) {
            let release = text.map_err(|reason| Problem::new(name, reason)).and_then(Release::of_text)?;
            // Of a plan that has left this node out there is nothing to store.
            if release.parts.is_empty() { self.store.remove(name)? } else { self.store.commit(name)? }
        }
        self.store.discard_next(name);
        self.store.forget(name, VOTE);
        Ok(())
    }

    /// Ends a plan, and forgets it. The node where a plan over several is brought up may end its part only of its own, which need not be
    /// there; a client of this node may end a part without that one, which may be gone for good.
    pub(crate) fn down(&mut self, name: &str, coordinator: Option<&str>) -> NodeAnswer {
        let own = self.plans.get(name).and_then(|plan| plan.release.coordinator()).map(str::to_owned);
        let vote = self.pending.get(name).and_then(|pending| pending.vote.as_ref()).or(self.voted.get(name));
        let own = own.or(vote.map(|vote| vote.coordinator.clone()));
        let is_known = vote.is_some() || self.plans.contains_key(name) || self.refused.contains_key(name);
        match coordinator {
            None if !is_known => return self.unknown(name),
            Some(_) if !is_known => return NodeAnswer::Changed(Changed::default()),
            // The name is another one's meanwhile.
            Some(at) if own.as_deref().map_or(!self.refused.contains_key(name), |own| own != at) => {
                return NodeAnswer::Changed(Changed::default());
            }
            _ => {}
        }
        if let Err(problem) = self.store.remove(name) {
            return NodeAnswer::Refused(vec![problem]);
        }
        self.store.discard_next(name);
        self.store.forget(name, VOTE);
        self.voted.remove(name);
        self.refused.remove(name);
        let mut servers = self.plans.remove(name).map(|plan| plan.servers).unwrap_or_default();
        if let Some(pending) = self.pending.remove(name) {
            self.end(&pending.old_ids());
            self.forget(&pending.old_ids());
            servers = pending.unchanged.into_iter().chain(pending.incoming).collect();
        }
        let ids: Vec<u64> = servers.values().copied().collect();
        self.end(&ids);
        self.forget(&ids);
        log::info!("plan {name} is down");
        let changed = NodeAnswer::Changed(Changed { ended: servers.into_keys().collect(), ..Changed::default() });
        let alone = own.filter(|_| coordinator.is_none()).map(|at| {
            Problem::new("nodes", format!("only the part of this node is down: the plan was brought up at {at}"))
        });
        changed.beside(alone.into_iter().collect())
    }

    /// Starts the plans that were up when the last node manager ended. Those of which a change waits for a decision are started when that is
    /// known.
    pub(crate) fn restart(&mut self) -> std::io::Result<()> {
        self.store.clean()?;
        for (name, text) in self.store.all(VOTE)? {
            let vote = text.and_then(|text| serde_json::from_str::<Vote>(&text).map_err(|error| error.to_string()));
            let waits = match vote {
                Ok(vote) => {
                    let waits = vote.waits();
                    self.voted.insert(name.clone(), vote);
                    waits
                }
                Err(reason) => format!("it is not known what its last change waits for: {reason}"),
            };
            self.refused.insert(name, waits);
        }
        for (name, text) in self.store.all(PLAN)? {
            if !self.refused.contains_key(&name) {
                self.bring(&name, text);
            }
        }
        Ok(())
    }

    /// Starts a plan that was stored.
    fn bring(&mut self, name: &str, text: Result<String, String>) {
        let release = text.and_then(|text| Release::of_text(text).map_err(|problem| problem.to_string()));
        let release = release.and_then(|release| match release.plan.name == name {
            true => Ok(Arc::new(release)),
            false => Err(format!("the file has the plan {}: give it that name", release.plan.name)),
        });
        match release {
            Ok(release) => self.start(name, release),
            Err(reason) => {
                log::error!("plan {name} does not come up: {}: {reason}", self.store.file(name).display());
                self.refused.insert(name.to_owned(), reason);
            }
        }
    }

    fn start(&mut self, name: &str, release: Arc<Release>) {
        let servers: BTreeMap<String, u64> =
            release.parts.keys().map(|server| (server.clone(), self.make(&release, server, true))).collect();
        let unready: BTreeSet<u64> = servers.values().copied().collect();
        let ids: Vec<u64> = servers.values().copied().collect();
        self.plans.insert(name.to_owned(), Deployed { release, servers, since: SystemTime::now(), unready });
        let file = self.store.file(name);
        for id in ids {
            self.spawn(id, &file);
        }
    }
}
