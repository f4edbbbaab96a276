//! The naming service's part of a topology.

use super::name::NameComponent;
use super::tree::{Binding, Place, ROOT, Tree};
use super::{CHANNELS_KIND, Naming, octets_of_binding};
use crate::exceptions::Raised;
use crate::protocol::convert::{reference_from, reference_to};
use crate::protocol::weights;
use crate::references::References;
use accounts::{Account, Resource};
use giop::ior::Ior;
use std::sync::Arc;
use topology as t;

impl Naming {
    /// The object bound to a name of one component in the root context.
    pub(crate) fn bound_in_root(&self, name: &str, kind: &str) -> Option<&Ior> {
        self.tree.resolve(ROOT, &[NameComponent::with_kind(name, kind)]).ok().map(Binding::reference)
    }

    /// The names in the root context for an event channel of this name, in any naming domain.
    pub(crate) fn channels_in_root(&self, name: &str) -> Vec<NameComponent> {
        let with_domain = format!("{name}@");
        let behind = NameComponent::new(&with_domain);
        let found = self.tree.names_from(ROOT, &behind).take_while(|found| found.id.starts_with(&with_domain));
        let alone = NameComponent::with_kind(name, CHANNELS_KIND);
        let alone = self.tree.bound(ROOT, &alone).is_some().then_some(alone);
        let is_meant = |found: &&NameComponent| found.kind == CHANNELS_KIND && found.channel() == Some(name);
        alone.into_iter().chain(found.filter(is_meant).cloned()).collect()
    }

    /// Binds such a name to an object, replacing any other.
    pub(crate) fn rebind_in_root(&mut self, name: &str, kind: &str, object: Ior) -> Result<(), Raised> {
        let name = [NameComponent::with_kind(name, kind)];
        // It may be bound as a context, which an object does not replace.
        let _ = self.tree.unbind(ROOT, &name);
        self.tree.bind(ROOT, &name, Binding::Object(object), None)
    }

    /// Number of names and contexts.
    pub(crate) fn bindings_count(&self) -> usize {
        self.tree.size()
    }

    pub(crate) fn exported(&self, references: &References) -> t::Naming {
        let contexts = self.tree.contexts().map(|(id, bindings)| t::Context {
            id,
            bindings: bindings.map(|(name, binding)| binding_to(references, name, binding)).collect(),
        });
        t::Naming { nonce: self.nonce, next_context: self.tree.next_context(), contexts: contexts.collect() }
    }

    /// The number in contexts' keys, and that of the next context.
    pub(crate) fn numbers(&self) -> (u128, u32) {
        (self.nonce, self.tree.next_context())
    }

    /// Records changes from now on, for [`poll_changed_part`](Self::poll_changed_part).
    pub(crate) fn note_changed_parts(&mut self) {
        self.tree.note_changed();
    }

    /// Number of changes recorded so far.
    pub(crate) const fn changes_noted(&self) -> u64 {
        self.tree.changes_noted()
    }

    /// A part that may have changed, with its current content; `None` if it is gone. Also for the numbers.
    pub(crate) fn poll_changed_part(&mut self, references: &References) -> Option<(t::Part, Option<Vec<u8>>)> {
        Some(match self.tree.poll_changed()? {
            Place::Numbers => (t::Part::Numbers, None),
            Place::Context(id) => (t::Part::Context(id), self.tree.has_context(id).then(|| b"{}".to_vec())),
            Place::Name(context, name) => {
                let bound = self.tree.bound(context, &name);
                let stored = bound.map(|bound| t::written(&binding_to(references, &name, bound)));
                let NameComponent { id: name, kind } = name;
                (t::Part::Binding { context, name, kind }, stored)
            }
        })
    }

    /// Charges all contents to an account, even beyond its quota.
    pub(crate) fn charge_all_to(&mut self, account: &Arc<Account>) {
        self.tree.charge(|bound| {
            let octets = bound.map_or(weights::CONTEXT, |(name, binding)| octets_of_binding(name, binding.reference()));
            Some(account.charge_anyway(Resource::RetainedBytes, octets))
        });
    }

    /// Replaces the contents by stored ones.
    pub(crate) fn restore(&mut self, naming: &t::Naming, references: &References) -> Result<(), Raised> {
        let mut tree = Tree::new(self.tree.limits().clone());
        for context in naming.contexts.iter().filter(|context| context.id != ROOT) {
            tree.skip_contexts(context.id);
            if tree.new_context(None)? != context.id {
                return Err(Raised::bad_param());
            }
        }
        tree.skip_contexts(naming.next_context);
        for context in &naming.contexts {
            for t::Binding { name, kind, bound } in &context.bindings {
                let name = [NameComponent::with_kind(name, kind)];
                tree.bind(context.id, &name, binding_from(references, bound)?, None)?;
            }
        }
        tree.replace(&mut self.tree);
        self.nonce = naming.nonce;
        Ok(())
    }
}

fn binding_to(references: &References, name: &NameComponent, binding: &Binding) -> t::Binding {
    let NameComponent { id, kind } = name;
    let bound = match binding {
        Binding::Object(reference) => t::Bound::Object(reference_to(references, reference)),
        Binding::Context { reference, here } => {
            t::Bound::Context { reference: reference_to(references, reference), here: *here }
        }
    };
    t::Binding { name: id.clone(), kind: kind.clone(), bound }
}

fn binding_from(references: &References, bound: &t::Bound) -> Result<Binding, Raised> {
    let read = |reference: &str| reference_from(references, reference);
    Ok(match bound {
        t::Bound::Object(reference) => Binding::Object(read(reference)?),
        t::Bound::Context { reference, here } => Binding::Context { reference: read(reference)?, here: *here },
    })
}
