//! Managers of applications, one for each plan that a launcher has prepared, and what has become of their applications.
//!
//! Plans are brought up and taken down as by other clients of the node manager. Launchers take one step at a time. A manager is a handle: if it goes, its plan is as it was, and to prepare the plan again gives another one.

use super::plan::{Connection, DeploymentPlan, Property};
use super::servants::{ApplicationServant, ManagerServant};
use crate::import::import_struct;
use crate::node::clients::Clients;
use crate::node::protocol::{Changed, NodeAnswer, NodeRequest};
use crate::plan::{Plan, Problem};
use client::{Activation, InvokeError, Orb, Servant};
use giop::ior::Ior;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The most managers at a time. Beyond it goes the oldest whose plan is not launched.
pub(crate) const MANAGERS_MAX: usize = 64;

/// The most octets of the plans of all managers, as they came.
const PLANS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The node manager's clients of these interfaces, for the log.
const CLIENT: &str = "a launcher over GIOP";

/// Which of the two interfaces has a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `ExecutionManager`, with `DomainApplicationManager` and `DomainApplication`.
    Domain,
    /// `NodeManager`, with `NodeApplicationManager` and `NodeApplication`.
    Node,
}

/// Exceptions with a name and a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Plan,
    Start,
    Stop,
    Property,
    Connection,
}

/// What is refused.
pub(crate) type Refused = (Fault, Problem);

fn refused<T>(fault: Fault, name: &str, reason: impl Into<String>) -> Result<T, Refused> {
    Err((fault, Problem::new(name, reason)))
}

/// How far an application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Launched by `startLaunch`.
    Launched,
    /// Connected by `finishLaunch`.
    Connected,
    /// Its plan is up.
    Started,
}

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Launched => "its launch is not finished: call finishLaunch",
            Self::Connected => "its launch is finished already: call start",
            Self::Started => "it is started already",
        }
    }
}

/// An application, and its servant.
struct Launched {
    stage: Stage,
    servant: Activation,
}

/// A plan that was prepared.
pub(crate) struct Prepared {
    pub(crate) role: Role,
    pub(crate) plan: DeploymentPlan,
    octets: usize,
    name: String,
    /// The plan of ours.
    text: String,
    application: Mutex<Option<Launched>>,
}

impl Prepared {
    fn name(&self) -> &str {
        &self.name
    }

    fn application(&self) -> MutexGuard<'_, Option<Launched>> {
        lock(&self.application)
    }

    /// The reference of the application, if there is one.
    pub(crate) fn reference(&self) -> Option<Ior> {
        self.application().as_ref().map(|of| of.servant.reference().ior().clone())
    }

    fn enter(&self, stage: Stage) {
        if let Some(application) = &mut *self.application() {
            application.stage = stage;
        }
    }
}

struct Entry {
    prepared: Arc<Prepared>,
    servant: Activation,
}

#[derive(Default)]
struct Table {
    is_stopping: bool,
    last: u64,
    /// By their age.
    all: BTreeMap<u64, Entry>,
}

/// All managers of a node manager.
pub(crate) struct Managers {
    /// `None` when it is to stop.
    orb: Mutex<Option<Orb>>,
    clients: Arc<Clients>,
    folder: PathBuf,
    /// One plan is read and checked at a time: it takes many times its octets.
    preparing: Mutex<()>,
    /// One application is changed at a time.
    changing: Mutex<()>,
    table: Mutex<Table>,
}

impl Managers {
    pub(crate) fn new(orb: Orb, clients: Arc<Clients>, folder: PathBuf) -> Self {
        let (preparing, changing, table) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { orb: Mutex::new(Some(orb)), clients, folder, preparing, changing, table }
    }

    /// Locks out other plans while one is read and checked.
    pub(crate) fn preparing(&self) -> Result<MutexGuard<'_, ()>, Refused> {
        alone(&self.preparing, Fault::Start, "plan")
    }

    /// Makes a manager of a plan, whose message had so many octets; or gives the one that the same plan has already.
    pub(crate) fn prepare(self: &Arc<Self>, role: Role, plan: DeploymentPlan, octets: usize) -> Result<Ior, Refused> {
        let made = import_struct(&plan).map_err(|problems| (Fault::Plan, one_of(problems)))?;
        let name = Plan::parse(&made.text).map_err(|problem| (Fault::Plan, problem))?.name;
        if let Some(first) = made.notes.first() {
            log::info!("plan {name}, from {CLIENT}: {} notes, such as: {first}", made.notes.len());
        }
        let is_up = self.is_up(&name);
        if let Some(known) = self.known(role, &name, &plan, is_up)? {
            return Ok(known);
        }
        let differences = match self.answer(NodeRequest::Diff { plan: made.text.clone(), folder: self.folder.clone() })
        {
            NodeAnswer::Differences(differences) => differences,
            NodeAnswer::Refused(problems) => return Err((Fault::Plan, one_of(problems))),
            other => return refused(Fault::Plan, &name, format!("the node manager answers {other:?}")),
        };
        if is_up {
            // A server that is being started again is none of the plan's.
            if let Some(first) = differences.iter().find(|it| it.key != "state") {
                let reason = format!(
                    "a plan of this name is up, and differs, as in {}: take that down first, or give this one another UUID",
                    first.key
                );
                return refused(Fault::Plan, &name, reason);
            }
        }
        let prepared =
            Prepared { role, plan, octets, name: name.clone(), text: made.text, application: Mutex::default() };
        let reference = self.add(Arc::new(prepared), is_up)?;
        log::info!("plan {name}: prepared by {CLIENT}{}", if is_up { ", and is up already" } else { "" });
        Ok(reference)
    }

    /// The manager that a plan has already. One that is not launched makes room for the same plan that is up.
    fn known(&self, role: Role, name: &str, plan: &DeploymentPlan, is_up: bool) -> Result<Option<Ior>, Refused> {
        let mut table = lock(&self.table);
        let known = table.all.iter().find(|(_, it)| it.prepared.name() == name);
        let Some((number, Entry { prepared, servant })) = known else { return Ok(None) };
        let is_launched = prepared.application().is_some();
        let is_same = (prepared.role, &prepared.plan) == (role, plan);
        if is_same && (is_launched || !is_up) {
            return Ok(Some(servant.reference().ior().clone()));
        }
        if is_same {
            let number = *number;
            table.all.remove(&number);
            return Ok(None);
        }
        let reason = "a plan of this name is prepared, and differs, or by the other of ExecutionManager and NodeManager: end it first, or \
                      give this one another UUID";
        refused(Fault::Plan, name, reason)
    }

    /// Adds a manager, if there is room.
    fn add(self: &Arc<Self>, prepared: Arc<Prepared>, is_up: bool) -> Result<Ior, Refused> {
        let name = prepared.name().to_owned();
        let servant = ManagerServant { managers: self.clone(), prepared: prepared.clone() };
        let servant = self.activate(&name, Arc::new(servant))?;
        if is_up {
            self.launch(&prepared, Stage::Started)?;
        }
        let reference = servant.reference().ior().clone();
        let mut table = lock(&self.table);
        let fits = |table: &Table| {
            let octets = table.all.values().map(|it| it.prepared.octets).sum::<usize>() + prepared.octets;
            table.all.len() < MANAGERS_MAX && octets <= PLANS_BYTES_MAX
        };
        while !fits(&table) && !table.is_stopping {
            let oldest =
                table.all.iter().find(|(_, it)| it.prepared.application().is_none()).map(|(number, _)| *number);
            let Some(entry) = oldest.and_then(|oldest| table.all.remove(&oldest)) else {
                clear(&prepared);
                let reason = format!(
                    "there are {MANAGERS_MAX} managers of launched plans, or their plans have {PLANS_BYTES_MAX} octets: end one of them first"
                );
                log::warn!("plan {name}: refused: {reason}");
                return refused(Fault::Start, &name, reason);
            };
            log::warn!("plan {}: its manager makes room for another one; prepare it again", entry.prepared.name());
        }
        if table.is_stopping {
            clear(&prepared);
            return refused(Fault::Start, "node", "the node manager is being ended");
        }
        table.last += 1;
        let number = table.last;
        table.all.insert(number, Entry { prepared, servant });
        Ok(reference)
    }

    /// References to all managers of an interface, the oldest first.
    pub(crate) fn references(&self, role: Role) -> Vec<Ior> {
        let table = lock(&self.table);
        let all = table.all.values().filter(|it| it.prepared.role == role);
        all.map(|it| it.servant.reference().ior().clone()).collect()
    }

    /// Destroys a manager whose plan is not launched.
    pub(crate) fn destroy(&self, role: Role, manager: &Ior) -> Result<(), Refused> {
        let is_it = |it: &Entry| it.prepared.role == role && is_same(it.servant.reference().ior(), manager);
        let mut table = lock(&self.table);
        let Some(number) = table.all.iter().find(|(_, it)| is_it(it)).map(|(number, _)| *number) else {
            return refused(
                Fault::Stop,
                "manager",
                "there is no such manager: it was destroyed, or is of another process",
            );
        };
        if let Some(entry) = table.all.get(&number)
            && entry.prepared.application().is_some()
        {
            return refused(Fault::Stop, entry.prepared.name(), "its plan is launched: call destroyApplication first");
        }
        table.all.remove(&number);
        Ok(())
    }

    /// Launches a plan: it has an application from now on, of which nothing runs yet.
    pub(crate) fn start_launch(
        self: &Arc<Self>,
        prepared: &Arc<Prepared>,
        properties: &[Property],
    ) -> Result<Ior, Refused> {
        if let Some(property) = properties.first() {
            let reason = "a plan has no properties of its own: give it to the instances, as a configProperty";
            return refused(Fault::Property, &property.name, reason);
        }
        self.change(prepared, Fault::Start, || {
            let other = prepared.application().as_ref().map(|of| of.stage);
            match other {
                Some(stage) => {
                    NodeAnswer::refused(prepared.name(), format!("it is launched already; {}", stage.name()))
                }
                None if self.is_up(prepared.name()) => {
                    NodeAnswer::refused(prepared.name(), "a plan of this name is up: take it down first")
                }
                None => match self.launch(prepared, Stage::Launched) {
                    Ok(()) => NodeAnswer::Changed(Changed::default()),
                    Err((_, problem)) => NodeAnswer::Refused(vec![problem]),
                },
            }
        })?;
        // A manager with an application stays.
        if !lock(&self.table).all.values().any(|it| Arc::ptr_eq(&it.prepared, prepared)) {
            clear(prepared);
        }
        let gone = || (Fault::Start, Problem::new(prepared.name(), "its manager was destroyed meanwhile"));
        prepared.reference().ok_or_else(gone)
    }

    fn activate(&self, name: &str, servant: Arc<dyn Servant>) -> Result<Activation, Refused> {
        let orb = lock(&self.orb).clone();
        let Some(orb) = orb else { return refused(Fault::Start, "node", "the node manager is being ended") };
        orb.activate(servant).map_err(|error: InvokeError| (Fault::Start, Problem::new(name, error.to_string())))
    }

    fn launch(self: &Arc<Self>, prepared: &Arc<Prepared>, stage: Stage) -> Result<(), Refused> {
        let servant = ApplicationServant { managers: self.clone(), prepared: prepared.clone() };
        let servant = self.activate(prepared.name(), Arc::new(servant))?;
        *prepared.application() = Some(Launched { stage, servant });
        Ok(())
    }

    /// Finishes a launch, and starts the application if that is asked for.
    pub(crate) fn finish_launch(
        &self,
        prepared: &Prepared,
        connections: &[Connection],
        is_start: bool,
    ) -> Result<(), Refused> {
        if let Some(connection) = connections.first() {
            let reason =
                "a plan has no ports of its own, and takes no references: pass what startLaunch gave, which is none";
            return refused(Fault::Connection, &connection.name, reason);
        }
        self.step(prepared, Stage::Launched, if is_start { Stage::Started } else { Stage::Connected })
    }

    /// Starts an application whose launch is finished.
    pub(crate) fn start(&self, prepared: &Prepared) -> Result<(), Refused> {
        self.step(prepared, Stage::Connected, Stage::Started)
    }

    /// Takes an application from one stage to another. If that fails, it stays where it is.
    fn step(&self, prepared: &Prepared, from: Stage, to: Stage) -> Result<(), Refused> {
        self.change(prepared, Fault::Start, || {
            let stage = prepared.application().as_ref().map(|of| of.stage);
            match stage {
                Some(stage) if stage == from => {}
                stage => {
                    let reason = stage.map_or("it was ended", Stage::name);
                    return NodeAnswer::refused(prepared.name(), reason);
                }
            }
            let answer = match to {
                Stage::Started if self.is_up(prepared.name()) => {
                    NodeAnswer::refused(prepared.name(), "a plan of this name is up: take it down first")
                }
                Stage::Started => {
                    self.answer(NodeRequest::Up { plan: prepared.text.clone(), folder: self.folder.clone() })
                }
                _ => NodeAnswer::Changed(Changed::default()),
            };
            if matches!(answer, NodeAnswer::Changed(_)) {
                prepared.enter(to);
            }
            answer
        })
    }

    /// Ends an application: its plan is down then.
    pub(crate) fn destroy_application(&self, prepared: &Prepared, application: &Ior) -> Result<(), Refused> {
        self.change(prepared, Fault::Stop, || {
            if !prepared.reference().is_some_and(|it| is_same(&it, application)) {
                let reason = "the manager has no such application: it was ended, or is of another manager";
                return NodeAnswer::refused("app", reason);
            }
            let stage = prepared.application().as_ref().map(|of| of.stage);
            // It may have been taken down by other means.
            let answer = match stage {
                Some(Stage::Started) if self.is_up(prepared.name()) => {
                    self.answer(NodeRequest::Down { name: prepared.name().to_owned(), without: Vec::new() })
                }
                _ => NodeAnswer::Changed(Changed::default()),
            };
            if matches!(answer, NodeAnswer::Changed(_)) {
                clear(prepared);
            }
            answer
        })
    }

    fn answer(&self, request: NodeRequest) -> NodeAnswer {
        self.clients.answer(request, CLIENT)
    }

    /// Changes an application, if no other one is being changed.
    fn change(&self, prepared: &Prepared, fault: Fault, carry_out: impl FnOnce() -> NodeAnswer) -> Result<(), Refused> {
        let _change = alone(&self.changing, fault, prepared.name())?;
        match carry_out() {
            NodeAnswer::Refused(problems) => Err((fault, one_of(problems))),
            _ => Ok(()),
        }
    }

    fn is_up(&self, name: &str) -> bool {
        match self.answer(NodeRequest::Status { name: Some(name.to_owned()) }) {
            NodeAnswer::Status(status) => status.plans.iter().any(|plan| plan.refused.is_none()),
            _ => false,
        }
    }

    /// Forgets all managers, and makes no more.
    pub(crate) fn stop(&self) {
        let mut table = lock(&self.table);
        table.is_stopping = true;
        let all = std::mem::take(&mut table.all);
        drop(table);
        all.values().for_each(|entry| clear(&entry.prepared));
        // Connections that are open have servants, which have this.
        let orb = lock(&self.orb).take();
        drop(orb);
    }
}

/// Ends the servant of an application: it has the plan, which has it.
fn clear(prepared: &Prepared) {
    let application = prepared.application().take();
    drop(application);
}

/// The first of several problems, which says how many more there are.
fn one_of(problems: Vec<Problem>) -> Problem {
    let more = problems.len().saturating_sub(1);
    let mut first = problems.into_iter().next().unwrap_or_else(|| Problem::new("plan", "it is refused"));
    if more > 0 {
        first.reason = format!("{}; and {more} more", first.reason);
    }
    first
}

/// Whether two references lead to the same object of this process.
fn is_same(one: &Ior, other: &Ior) -> bool {
    one.iiop().map(|profile| &profile.key) == other.iiop().map(|profile| &profile.key)
}

/// Locks out other launchers, which do not wait.
fn alone<'m>(mutex: &'m Mutex<()>, fault: Fault, name: &str) -> Result<MutexGuard<'m, ()>, Refused> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(TryLockError::WouldBlock) => refused(fault, name, "busy: another launcher is served; try again"),
    }
}

/// Locks a mutex: what it guards is whole at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
