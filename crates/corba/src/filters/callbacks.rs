//! Callbacks: clients notified of changes of the event types in a filter's constraints.

use super::store::{Constraints, Filter, Filters, Role};
use super::topology::callback_to;
use crate::exceptions::{Raised, UserException};
use crate::log_lines::log_line;
use crate::protocol::{
    CallPurpose, ClientAnswer, ClientCall, Effect, InContext, Thing, code_set, difference, octets_of_reference, weights,
};
use crate::table::Call;
use crate::wire::{read_id, read_reference, write_id, write_ids};
use engine::{EventType, FilterId, HierarchyPart};
use giop::ior::Ior;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of callbacks of one filter.
const CALLBACKS_MAX: usize = 256;

/// A filter's callbacks by id. Ids are not used again.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    by_id: BTreeMap<u32, Callback>,
    next: u32,
    /// Memory of the callbacks and their references, in octets.
    octets: u64,
}

impl Callbacks {
    /// Octets that they take.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    pub(super) fn exported(&self) -> topology::Role {
        let callbacks = self.by_id.iter().map(|(id, callback)| callback_to(*id, &callback.to));
        topology::Role::Decides { next_callback: self.next, callbacks: callbacks.collect() }
    }

    fn insert(&mut self, id: u32, callback: Callback) {
        self.octets += callback.octets();
        self.by_id.insert(id, callback);
    }

    fn remove(&mut self, id: u32) -> Option<Callback> {
        let gone = self.by_id.remove(&id)?;
        self.octets -= gone.octets();
        Some(gone)
    }
}

/// A registered callback. At most one call is unanswered, so that a slow callback delays no other; changes meanwhile are merged into one
/// call.
#[derive(Debug)]
struct Callback {
    to: Ior,
    /// The event types it has been sent, including those of the unanswered call.
    known: Arc<[EventType]>,
    /// The event types it knew before that call.
    before: Option<Arc<[EventType]>>,
    /// Whether it supports the operation, as far as known. One without it is not called again.
    hears: bool,
}

impl Callback {
    fn octets(&self) -> u64 {
        weights::CALLBACK + octets_of_reference(&self.to)
    }
}

/// The event types of a filter's constraints, each once, sorted. A constraint without types applies to all.
fn types_of(constraints: &Constraints) -> Arc<[EventType]> {
    let mut types = BTreeSet::new();
    for installed in constraints.iter() {
        let is_for_all = installed.types.is_empty() || installed.types.iter().any(EventType::is_everything);
        if is_for_all {
            types.insert(EventType::everything());
        }
        types.extend(installed.types.iter().filter(|kind| !kind.is_everything()).cloned());
    }
    types.into_iter().collect()
}

impl Filters {
    fn callbacks(&mut self, id: FilterId) -> Result<&mut Callbacks, Raised> {
        match &mut self.get_mut(id)?.role {
            Role::Decides(callbacks) => Ok(callbacks),
            Role::Maps(_) => Err(Raised::internal()),
        }
    }
}

impl InContext<'_, Filters> {
    /// Notifies a filter's callbacks if its event types differ from what they know.
    pub(super) fn tell_callbacks(&mut self, id: FilterId) {
        let Ok(Filter { role: Role::Decides(callbacks), constraints, .. }) = self.own.get_mut(id) else { return };
        if callbacks.by_id.is_empty() {
            return;
        }
        let now = types_of(constraints);
        let mut calls = Vec::new();
        for (number, callback) in &mut callbacks.by_id {
            if callback.hears && callback.before.is_none() && *callback.known != *now {
                let body = difference(&callback.known, &now, code_set(&callback.to));
                callback.before = Some(core::mem::replace(&mut callback.known, Arc::clone(&now)));
                calls.push((*number, callback.to.clone(), body));
            }
        }
        for (number, to, body) in calls {
            let client_call = ClientCall(CallPurpose::FilterChange { filter: id, callback: number });
            let (by, offered, operation) = (None, None, "subscription_change");
            self.effects.push_back(Effect::Ask { client_call, to, by, offered, operation, body });
        }
    }

    /// A callback has answered, or not.
    pub(crate) fn callback_answered(&mut self, id: FilterId, number: u32, answer: ClientAnswer) {
        let Ok(Filter { role: Role::Decides(callbacks), .. }) = self.own.get_mut(id) else { return };
        let Some(callback) = callbacks.by_id.get_mut(&number) else { return };
        let before = callback.before.take();
        match answer {
            ClientAnswer::NotImplemented => callback.hears = false,
            ClientAnswer::Gone => {
                log_line!(Info, "callback {number} of filter {} does not exist any more", id.0);
                callbacks.remove(number);
                self.ledger.adjust(Thing::Filter(id), self.own.weight(id), None);
                self.hierarchy.note_changed_part(HierarchyPart::Filter(id));
            }
            // The callback may have missed it: the next change includes it.
            ClientAnswer::Unreachable | ClientAnswer::TimedOut => callback.known = before.unwrap_or_default(),
            ClientAnswer::Returned(_) | ClientAnswer::Raised => self.tell_callbacks(id),
        }
    }

    /// Adds a callback. It is not notified of earlier changes.
    fn add_callback(&mut self, filter: FilterId, to: Ior) -> Result<u32, Raised> {
        let now = types_of(&self.own.get(filter)?.constraints);
        let callbacks = self.own.callbacks(filter)?;
        if callbacks.by_id.len() >= CALLBACKS_MAX {
            log_line!(Info, "a callback is refused: a filter has at most {CALLBACKS_MAX}");
            return Err(Raised::limit());
        }
        // Those that know the same have one list.
        let last = callbacks.by_id.values().next_back().map(|last| &last.known).filter(|known| **known == now);
        let known = last.map_or(now, Arc::clone);
        let id = callbacks.next;
        callbacks.next = id.checked_add(1).ok_or_else(Raised::limit)?;
        callbacks.insert(id, Callback { to, known, before: None, hears: true });
        self.hierarchy.note_changed_part(HierarchyPart::Filter(filter));
        Ok(id)
    }

    /// Restores a filter's callbacks. They are not notified of earlier changes.
    pub(super) fn restore_callbacks(
        &mut self,
        filter: FilterId,
        all: Vec<(u32, Ior)>,
        next: u32,
    ) -> Result<(), Raised> {
        for (id, to) in all {
            let callbacks = self.own.callbacks(filter)?;
            callbacks.next = callbacks.next.max(id);
            if self.add_callback(filter, to)? != id {
                return Err(Raised::bad_param());
            }
        }
        let callbacks = self.own.callbacks(filter)?;
        callbacks.next = callbacks.next.max(next);
        self.ledger.adjust(Thing::Filter(filter), self.own.weight(filter), None);
        Ok(())
    }
}

pub(super) fn attach(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let callback = read_reference(&mut args)?;
    args.finish("the arguments of attach_callback")?;
    if callback.iiop().is_none() {
        return Err(Raised::bad_param());
    }
    let (filter, octets) = (on.filter()?, weights::CALLBACK + octets_of_reference(&callback));
    let id = protocol.objects.filters().change(filter, octets, |filters| filters.add_callback(filter, callback))?;
    write_id(id, reply);
    Ok(())
}

pub(super) fn detach(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of detach_callback")?;
    let callbacks = protocol.objects.filters.callbacks(on.filter()?)?;
    let gone = id.and_then(|id| callbacks.remove(id));
    gone.map(drop).ok_or(UserException::CallbackNotFound)?;
    protocol.objects.adjust(Thing::Filter(on.filter()?), None);
    protocol.objects.hierarchy.note_changed_part(HierarchyPart::Filter(on.filter()?));
    Ok(())
}

pub(super) fn list(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_callbacks")?;
    write_ids(protocol.objects.filters.callbacks(on.filter()?)?.by_id.keys().copied(), reply);
    Ok(())
}
