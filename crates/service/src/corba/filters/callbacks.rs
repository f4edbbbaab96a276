//! Callbacks: who is told when the event types that a filter's constraints are for change.

use super::expression::write_types;
use super::store::{Constraints, Filter, Role};
use crate::corba::door::Door;
use crate::corba::exceptions::{Raised, UserException};
use crate::corba::table::Target;
use crate::corba::wire::{read_id, read_reference, write_id, write_ids};
use engine::{EventType, FilterId};
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::ior::Ior;
use std::collections::{BTreeMap, BTreeSet};

/// Most callbacks of one filter.
const CALLBACKS_MAX: usize = 256;

/// A filter's callbacks by id. Ids are not used again.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    by_id: BTreeMap<u32, Ior>,
    next: u32,
}

/// The event types of a filter's constraints, each once. A constraint for none in particular is for all.
pub(super) fn types_of(constraints: &Constraints) -> BTreeSet<EventType> {
    let mut types = BTreeSet::new();
    for installed in constraints.iter() {
        if installed.types.is_empty() {
            types.insert(EventType::everything());
        }
        types.extend(
            installed.types.iter().map(
                |kind| {
                    if kind.is_everything() { EventType::everything() } else { kind.clone() }
                },
            ),
        );
    }
    types
}

impl Door {
    /// Has a filter's callbacks told that its event types are others now.
    pub(super) fn tell_callbacks(&mut self, id: FilterId, before: &BTreeSet<EventType>, after: &BTreeSet<EventType>) {
        let Ok(Filter { role: Role::Decides(callbacks), .. }) = self.filters.get(id) else { return };
        if callbacks.by_id.is_empty() {
            return;
        }
        let added: Vec<_> = after.difference(before).cloned().collect();
        let removed: Vec<_> = before.difference(after).cloned().collect();
        let mut body = Vec::new();
        let mut out = Writer::new(&mut body, Encoding::new(Endian::NATIVE));
        write_types(&added, &mut out);
        write_types(&removed, &mut out);
        let told: Vec<Ior> = callbacks.by_id.values().cloned().collect();
        for to in told {
            self.call_client(to, "subscription_change", body.clone());
        }
    }
}

pub(super) fn attach(door: &mut Door, on: Target, mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    let callback = read_reference(&mut args)?;
    args.finish("the arguments of attach_callback")?;
    if callback.iiop().is_none() {
        return Err(Raised::bad_param());
    }
    let callbacks = door.callbacks(on)?;
    if callbacks.by_id.len() >= CALLBACKS_MAX {
        log::info!(target: "campanile::corba", "a callback is refused: a filter has at most {CALLBACKS_MAX}");
        return Err(Raised::limit());
    }
    let id = callbacks.next;
    callbacks.next = id.checked_add(1).ok_or_else(Raised::limit)?;
    callbacks.by_id.insert(id, callback);
    write_id(id, reply);
    Ok(())
}

pub(super) fn detach(door: &mut Door, on: Target, mut args: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of detach_callback")?;
    let callbacks = door.callbacks(on)?;
    let gone = id.and_then(|id| callbacks.by_id.remove(&id));
    gone.map(drop).ok_or_else(|| UserException::CallbackNotFound.into())
}

pub(super) fn list(door: &mut Door, on: Target, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of get_callbacks")?;
    write_ids(door.callbacks(on)?.by_id.keys().copied(), reply);
    Ok(())
}

impl Door {
    fn callbacks(&mut self, on: Target) -> Result<&mut Callbacks, Raised> {
        match &mut self.filters.get_mut(on.filter()?)?.role {
            Role::Decides(callbacks) => Ok(callbacks),
            Role::Maps(_) => Err(Raised::internal()),
        }
    }
}
