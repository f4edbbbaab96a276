//! Changes of plans: `up` and `down`, in the node manager's thread.

use crate::node::manager::{Deployed, Manager, State};
use crate::node::protocol::{Changed, NodeAnswer};
use crate::node::release::{Release, SERVERS_MAX};
use crate::plan::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

impl Manager {
    /// Brings a plan up, in place of the one of that name, if there is one.
    pub(crate) fn up(&mut self, release: Arc<Release>) -> NodeAnswer {
        match self.replace(release) {
            Ok(changed) => NodeAnswer::Changed(changed),
            Err(problem) => NodeAnswer::Refused(vec![problem]),
        }
    }

    fn replace(&mut self, release: Arc<Release>) -> Result<Changed, Problem> {
        let name = release.plan.name.clone();
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
        let changed = Changed {
            unchanged: unchanged.keys().cloned().collect(),
            replaced: names.iter().filter(|server| outgoing.contains_key(*server)).cloned().collect(),
            started: names.iter().filter(|server| !outgoing.contains_key(*server)).cloned().collect(),
            ended: outgoing.keys().filter(|server| !names.contains(server)).cloned().collect(),
        };
        let incoming: BTreeMap<String, u64> =
            names.into_iter().map(|server| (server.clone(), self.make(&release, &server, false))).collect();
        let (new, old): (Vec<u64>, Vec<u64>) =
            (incoming.values().copied().collect(), outgoing.values().copied().collect());
        if let Err(problem) = self.carry_out(&release, &new, &old) {
            self.end(&new);
            self.forget(&new);
            self.store.discard_next(&name);
            return Err(self.restore(&name, &old, problem));
        }
        for id in unchanged.values() {
            if let Some(server) = self.servers.get_mut(id) {
                server.release = release.clone();
            }
        }
        self.forget(&old);
        self.refused.remove(&name);
        let servers = unchanged.into_iter().chain(incoming).collect();
        self.plans
            .insert(name.clone(), Deployed { release, servers, since: SystemTime::now(), unready: BTreeSet::new() });
        for id in new {
            self.supervise(id);
        }
        log::info!("plan {name} is up: {changed}");
        Ok(changed)
    }

    /// Prepares new servers beside the old ones, ends those, starts the new ones, and commits the plan.
    fn carry_out(&mut self, release: &Release, new: &[u64], old: &[u64]) -> Result<(), Problem> {
        let name = &release.plan.name;
        self.store.write_next(name, &release.text)?;
        let file = self.store.next_file(name);
        for id in new {
            self.spawn(*id, &file);
        }
        self.wait_for(new, State::Configured)?;
        self.end(old);
        self.begin(new);
        self.wait_for(new, State::Started)?;
        self.store.commit(name)
    }

    /// Starts again those of the old servers that were ended, and says so.
    fn restore(&mut self, name: &str, old: &[u64], mut problem: Problem) -> Problem {
        let ended: Vec<u64> =
            old.iter().copied().filter(|id| self.servers.get(id).is_some_and(|it| !it.is_supervised)).collect();
        if ended.is_empty() || self.is_stopping {
            return problem;
        }
        let file = self.store.file(name);
        for id in &ended {
            if let Some(server) = self.servers.get_mut(id) {
                server.is_supervised = true;
            }
            self.spawn(*id, &file);
        }
        let outcome = match self.wait_for(&ended, State::Started) {
            Ok(()) => "the servers that it was to replace were ended, and run again".to_owned(),
            Err(problem) => {
                format!("the servers that it was to replace were ended, and do not all run again: {problem}")
            }
        };
        problem.reason = format!("{}; {outcome}", problem.reason);
        problem
    }

    fn forget(&mut self, ids: &[u64]) {
        self.servers.retain(|id, _| !ids.contains(id));
    }

    /// Ends a plan, and forgets it.
    pub(crate) fn down(&mut self, name: &str) -> NodeAnswer {
        if !self.plans.contains_key(name) && !self.refused.contains_key(name) {
            return self.unknown(name);
        }
        if let Err(problem) = self.store.remove(name) {
            return NodeAnswer::Refused(vec![problem]);
        }
        self.refused.remove(name);
        let servers = self.plans.remove(name).map(|plan| plan.servers).unwrap_or_default();
        let ids: Vec<u64> = servers.values().copied().collect();
        self.end(&ids);
        self.forget(&ids);
        log::info!("plan {name} is down");
        NodeAnswer::Changed(Changed { ended: servers.into_keys().collect(), ..Changed::default() })
    }

    /// Starts the plans that were up when the last node manager ended.
    pub(crate) fn restart(&mut self) -> std::io::Result<()> {
        for (name, text) in self.store.read()? {
            let release = text.and_then(|text| Release::of_text(text).map_err(|problem| problem.to_string()));
            let release = release.and_then(|release| match release.plan.name == name {
                true => Ok(Arc::new(release)),
                false => Err(format!("the file has the plan {}: give it that name", release.plan.name)),
            });
            match release {
                Ok(release) => self.start(&name, release),
                Err(reason) => {
                    log::error!("plan {name} does not come up: {}: {reason}", self.store.file(&name).display());
                    self.refused.insert(name, reason);
                }
            }
        }
        Ok(())
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
