//! Callbacks notified when the service is available again: `NotifyExt::ReconnectionRegistry`, as in TAO.
//!
//! After a restart each callback gets the factory's reference (`reconnect`), a few at a time. A client with a persistent connection does
//! not need that, but clients written for TAO wait for it. A callback that raises an exception, or has no such operation, counts as
//! notified; one that does not exist any more (`OBJECT_NOT_EXIST`) is forgotten; an unreachable one is tried again with growing pauses, and
//! forgotten after a day, restarts included. When the registry is full, a new callback replaces an unreachable one; without any, some are
//! asked whether they still exist, so that there is room once the dead ones are forgotten. The same applies to an address that has used its
//! quota, among its own callbacks.

use super::{CallPurpose, ClientAnswer, ClientCall, Effect, InContext, Thing, octets_of_reference, weights};
use crate::exceptions::Raised;
use crate::log_lines::log_line;
use crate::references::log_name;
use accounts::{Account, Charge, Resource};
use engine::Time;
use giop::cdr::{Encoding, Endian, Writer};
use giop::ior::Ior;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use topology as t;

/// Maximum number of callbacks. A further one is refused with `IMP_LIMIT`, unless one of them is unreachable.
pub const CALLBACKS_MAX: usize = 4_096;
/// Maximum callbacks called at once; others wait.
const AT_ONCE: usize = 64;
/// Initial pause before an unreachable callback is tried again; doubled each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum of that pause.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(300);
/// Time after which an unreachable callback is forgotten.
const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A registered callback.
#[derive(Debug)]
struct Callback {
    to: Ior,
    by: Option<Arc<Account>>,
    /// Whether it was notified that the service is available. Such a callback is only asked whether it exists.
    knows: bool,
    /// When it is called next; `None` if not needed.
    due: Option<Due>,
    /// Unreachable state of the last call, if it failed.
    unreachable: Option<Unreachable>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    at: Time,
    pause: Duration,
}

/// Time for which a callback has been unreachable.
#[derive(Clone, Copy, Debug)]
struct Unreachable {
    since: Time,
    /// In earlier runs of the service.
    before: Duration,
    /// In total, at the last failure.
    so_far: Duration,
}

impl Callback {
    /// Whether it came from this address; `None` matches any.
    fn is_of(&self, address: Option<IpAddr>) -> bool {
        address.is_none_or(|address| self.by.as_ref().is_some_and(|by| by.ip() == address))
    }
}

/// Registered callbacks, by number. Numbers are never reused.
#[derive(Debug, Default)]
pub(crate) struct Reconnection {
    callbacks: BTreeMap<u32, Callback>,
    next: u32,
    /// Callbacks to call, by time.
    due: BTreeSet<(Time, u32)>,
    pending_calls: usize,
    /// The callback last asked whether it exists because the registry was full.
    last_probed: u32,
    /// Numbers of changed callbacks, if changes are recorded, and whether the next number has changed.
    changed: Option<BTreeSet<u32>>,
    numbers_changed: bool,
    noted: u64,
}

impl Reconnection {
    fn note(&mut self, id: u32) {
        self.noted += 1;
        self.changed.as_mut().into_iter().for_each(|changed| _ = changed.insert(id));
    }

    /// Number of changes recorded so far.
    pub(super) const fn changes_noted(&self) -> u64 {
        self.noted
    }

    fn is_full(&self) -> bool {
        self.callbacks.len() >= CALLBACKS_MAX
    }

    /// Schedules a call of a callback.
    fn schedule(&mut self, id: u32, due: Due) {
        let Some(callback) = self.callbacks.get_mut(&id) else { return };
        callback.due = Some(due);
        self.due.insert((due.at, id));
    }

    /// The callback unreachable for the longest time, of those from one address or of all.
    fn longest_unreachable(&self, of: Option<IpAddr>) -> Option<u32> {
        let of_these = self.callbacks.iter().filter(|(_, callback)| callback.is_of(of));
        let since = |(id, callback): (&u32, &Callback)| Some((callback.unreachable?.so_far, *id));
        of_these.filter_map(since).max_by_key(|(so_far, _)| *so_far).map(|(_, id)| id)
    }

    /// Asks some of the callbacks whether they exist, different ones each time.
    fn ask_some(&mut self, of: Option<IpAddr>, now: Time) {
        let behind = (Bound::Excluded(self.last_probed), Bound::Unbounded);
        let in_turn = self.callbacks.range(behind).chain(self.callbacks.range(..=self.last_probed));
        let idle = in_turn.filter(|(_, callback)| callback.due.is_none() && callback.is_of(of)).map(|(id, _)| *id);
        let some: Vec<u32> = idle.take(AT_ONCE.saturating_sub(self.pending_calls + self.due.len())).collect();
        for id in &some {
            self.schedule(*id, Due { at: now, pause: AGAIN_AFTER });
        }
        self.last_probed = some.last().copied().unwrap_or(self.last_probed);
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some(Callback { due, .. }) = self.callbacks.remove(&id) else { return false };
        due.into_iter().for_each(|due| _ = self.due.remove(&(due.at, id)));
        self.note(id);
        true
    }

    /// The next callback's number.
    pub(super) const fn next_number(&self) -> u32 {
        self.next
    }

    /// Octets that one takes.
    pub(super) fn weight(&self, id: u32) -> Option<u64> {
        self.callbacks.get(&id).map(|callback| octets(&callback.to))
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.callbacks.keys().copied().collect()
    }

    pub(super) fn exported(&self) -> Vec<t::Callback> {
        self.callbacks.keys().filter_map(|id| self.exported_one(*id)).collect()
    }

    fn exported_one(&self, id: u32) -> Option<t::Callback> {
        self.callbacks.get(&id).map(|Callback { to, unreachable, .. }| t::Callback {
            id,
            reference: to.to_string(),
            unreachable_s: u32::try_from(unreachable.map_or(0, |found| found.so_far.as_secs())).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn note_changed_parts(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// A part that may have changed, with its current content; `None` if it is gone. Also for the numbers.
    pub(super) fn poll_changed_part(&mut self) -> Option<(t::Part, Option<Vec<u8>>)> {
        let changed = self.changed.as_mut()?;
        if core::mem::take(&mut self.numbers_changed) {
            return Some((t::Part::Numbers, None));
        }
        let id = changed.pop_first()?;
        Some((t::Part::Registration(id), self.exported_one(id).as_ref().map(t::written)))
    }

    /// When the next callback is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().filter(|_| self.pending_calls < AT_ONCE).map(|(at, _)| *at)
    }
}

fn octets(reference: &Ior) -> u64 {
    weights::CALLBACK + octets_of_reference(reference)
}

impl InContext<'_, Reconnection> {
    /// Registers a callback. One that is registered already, as by a client after a restart, keeps its number.
    pub(crate) fn register(&mut self, to: Ior) -> Result<u32, Raised> {
        let Some(profile) = to.iiop() else { return Err(Raised::bad_param()) };
        if self.references.is_here(profile) {
            log_line!(Info, "a reconnection callback is refused: it is an object of this service");
            return Err(Raised::bad_param());
        }
        if let Some((id, _)) = self.own.callbacks.iter().find(|(_, callback)| callback.to == to) {
            return Ok(*id);
        }
        let id = self.own.next;
        let next = id.checked_add(1).filter(|next| i32::try_from(*next).is_ok()).ok_or_else(Raised::limit)?;
        let claim = self.ledger.charge_octets(octets(&to))?;
        let one = self.make_room()?;
        let by = self.ledger.principal();
        self.own.next = next;
        self.own.numbers_changed = true;
        self.own.callbacks.insert(id, Callback { to, by, knows: true, due: None, unreachable: None });
        self.own.note(id);
        self.ledger.entry(Thing::Registration(id)).one = one;
        self.ledger.adjust(Thing::Registration(id), self.own.weight(id), claim);
        Ok(id)
    }

    /// Removes an unreachable callback if the registry, or the quota of the requesting address, is full.
    fn make_room(&mut self) -> Result<Option<Charge>, Raised> {
        let is_full = self.own.is_full();
        let principal = self.ledger.principal();
        let granted = match &principal {
            Some(principal) => principal.charge(Resource::Registrations, 1).map(Some),
            None => Ok(None),
        };
        let granted = match granted {
            Ok(one) if !is_full => return Ok(one),
            other => other,
        };
        let of = principal.map(|principal| principal.ip()).filter(|_| granted.is_err());
        if let Some(unreachable) = self.own.longest_unreachable(of) {
            self.forget(unreachable, "cannot be reached, and gives way to another one");
            return granted.or_else(|_| self.ledger.charge(Resource::Registrations, 1));
        }
        self.own.ask_some(of, self.clock.time);
        self.call_due();
        Err(match granted {
            Err(spent) => self.ledger.note_spent(spent),
            Ok(_) => {
                log_line!(Info, "a reconnection callback is refused: there are at most {CALLBACKS_MAX}");
                Raised::limit()
            }
        })
    }

    /// Removes a callback, if the number exists.
    pub(crate) fn unregister(&mut self, id: u32) {
        if self.own.remove(id) {
            self.ledger.remove(Thing::Registration(id));
        }
    }

    /// Restores the callbacks, to be notified that the service is available again.
    pub(super) fn restore(&mut self, all: &[t::Callback], next: u32) -> Result<(), Raised> {
        let now = self.clock.time;
        for t::Callback { id, reference, unreachable_s } in all {
            let to: Ior = reference.parse().map_err(|_| Raised::bad_param())?;
            let before = Duration::from_secs((*unreachable_s).into());
            let unreachable = Unreachable { since: now, before, so_far: before };
            let unreachable = Some(unreachable).filter(|unreachable| !unreachable.before.is_zero());
            self.own.callbacks.insert(*id, Callback { to, by: None, knows: false, due: None, unreachable });
            self.own.schedule(*id, Due { at: now, pause: AGAIN_AFTER });
            self.own.next = self.own.next.max(id.saturating_add(1));
            self.own.note(*id);
            self.ledger.adjust(Thing::Registration(*id), self.own.weight(*id), None);
        }
        self.own.next = self.own.next.max(next);
        self.own.numbers_changed = true;
        Ok(())
    }

    /// Calls the due callbacks.
    pub(super) fn call_due(&mut self) {
        while self.own.next().is_some_and(|at| at <= self.clock.time) {
            let Some((_, id)) = self.own.due.pop_first() else { return };
            let Some(Callback { to, by, knows, .. }) = self.own.callbacks.get(&id) else { continue };
            let (to, by, knows) = (to.clone(), by.clone(), *knows);
            let mut body = Vec::new();
            let (purpose, operation) = if knows {
                (CallPurpose::Registered(id), "_non_existent")
            } else {
                self.references.factory().write(&mut Writer::new(&mut body, Encoding::new(Endian::NATIVE)));
                (CallPurpose::Reconnect(id), "reconnect")
            };
            let client_call = ClientCall(purpose);
            self.effects.push_back(Effect::Ask { client_call, to, by, offered: None, operation, body });
            self.own.pending_calls += 1;
        }
    }

    /// A callback has answered whether it exists, or not.
    pub(super) fn probed(&mut self, id: u32, answer: ClientAnswer) {
        let says_no = answer == ClientAnswer::Returned(Some(true));
        self.answered(id, if says_no { ClientAnswer::Gone } else { answer });
    }

    /// A callback has answered, or not.
    pub(super) fn answered(&mut self, id: u32, answer: ClientAnswer) {
        self.own.pending_calls = self.own.pending_calls.saturating_sub(1);
        let now = self.clock.time;
        let Some(callback) = self.own.callbacks.get_mut(&id) else { return };
        match answer {
            // Whatever it says, it has heard it.
            ClientAnswer::Returned(_) | ClientAnswer::Raised | ClientAnswer::NotImplemented => {
                (callback.knows, callback.due) = (true, None);
                if callback.unreachable.take().is_some() {
                    self.own.note(id);
                }
            }
            ClientAnswer::Gone => self.forget(id, "does not exist any more"),
            ClientAnswer::Unreachable | ClientAnswer::TimedOut => {
                let Some(Due { pause, .. }) = callback.due else { return };
                let first = Unreachable { since: now, before: Duration::ZERO, so_far: Duration::ZERO };
                let unreachable = callback.unreachable.get_or_insert(first);
                unreachable.so_far = unreachable.before + now.since(unreachable.since);
                if unreachable.so_far >= GIVE_UP_AFTER {
                    self.forget(id, "could not be reached for a day");
                } else {
                    self.own.note(id);
                    let due = Due { at: now + pause, pause: AGAIN_AFTER_MAX.min(pause * 2) };
                    self.own.schedule(id, due);
                }
            }
        }
        self.call_due();
    }

    fn forget(&mut self, id: u32, why: &str) {
        let to = self.own.callbacks.get(&id).and_then(|callback| callback.to.iiop()).map(log_name);
        log::info!(target: "campanile::corba", "reconnection callback {} {why}", to.unwrap_or_default());
        self.unregister(id);
    }
}
