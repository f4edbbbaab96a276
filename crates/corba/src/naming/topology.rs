//! The naming service's part of a topology.

use super::Naming;
use super::name::NameComponent;
use super::tree::{Binding, ROOT, Tree};
use crate::door::convert::{reference_from, reference_to};
use crate::exceptions::Raised;
use crate::references::References;
use giop::ior::Ior;
use topology as t;

impl Naming {
    /// What a name of one component without a kind stands for in the root context.
    pub(crate) fn bound_in_root(&self, name: &str) -> Option<&Ior> {
        self.tree.resolve(ROOT, &[NameComponent::new(name)]).ok().map(Binding::reference)
    }

    /// Gives an object such a name.
    pub(crate) fn bind_in_root(&mut self, name: &str, object: Ior) -> Result<(), Raised> {
        self.tree.bind(ROOT, &[NameComponent::new(name)], Binding::Object(object), None)
    }

    /// How many names and contexts there are.
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

    /// Has what there was take the place of what there is.
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
        self.tree = tree;
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
