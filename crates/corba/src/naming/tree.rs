//! The tree of naming contexts.
//!
//! A context binds name components to references. Local contexts are followed; at a context that is remote or was destroyed, the client
//! gets a reference to continue by itself ([`UserException::CannotProceed`]).

use super::NamingLimits;
use super::name::NameComponent;
use crate::exceptions::{NotFoundReason, Raised, UserException};
use accounts::Charge;
use giop::ior::Ior;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// The object bound to a name component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Any object; a leaf of the tree.
    Object(Ior),
    /// A naming context; names lead on.
    Context {
        /// The reference as it was bound.
        reference: Ior,
        /// Its number if the context is in this tree.
        here: Option<u32>,
    },
}

impl Binding {
    pub(super) fn reference(&self) -> &Ior {
        match self {
            Self::Object(reference) | Self::Context { reference, .. } => reference,
        }
    }

    /// `CosNaming::BindingType`.
    pub(super) fn kind(&self) -> BindingKind {
        match self {
            Self::Object(_) => BindingKind::Object,
            Self::Context { .. } => BindingKind::Context,
        }
    }
}

/// `CosNaming::BindingType`, as numbered there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingKind {
    Object = 0,
    Context = 1,
}

/// A binding, and the charge for it.
#[derive(Debug)]
struct Bound {
    binding: Binding,
    _charge: Option<Charge>,
}

/// A naming context.
#[derive(Debug, Default)]
struct Context {
    bindings: BTreeMap<NameComponent, Bound>,
    _charge: Option<Charge>,
}

/// One entry of a listing.
pub(super) type Entry = (NameComponent, BindingKind);

/// Number of the root context.
pub(super) const ROOT: u32 = 0;

/// All contexts, and their iterators.
#[derive(Debug)]
pub(super) struct Tree {
    contexts: BTreeMap<u32, Context>,
    context_next: u32,
    /// Bindings in all contexts together.
    bindings: usize,
    iterators: BTreeMap<u32, Cursor>,
    iterator_next: u32,
    limits: NamingLimits,
    /// The recorded changes, if recording is on.
    changed: Option<BTreeSet<Place>>,
    noted: u64,
}

/// A part of a tree that its image stores separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The next context's number.
    Numbers,
    /// The existence of a context.
    Context(u32),
    /// The binding of a name in a context.
    Name(u32, NameComponent),
}

/// The position of an iterator. It has no copy of the context, so that many of them cost little; changes behind the position in the
/// meantime may be seen or not.
#[derive(Debug)]
struct Cursor {
    context: u32,
    /// The last component returned; `None` before the first.
    after: Option<NameComponent>,
}

impl Tree {
    /// A tree of one empty context, the root.
    pub(super) fn new(limits: NamingLimits) -> Self {
        Self {
            contexts: BTreeMap::from([(ROOT, Context::default())]),
            context_next: ROOT + 1,
            bindings: 0,
            iterators: BTreeMap::new(),
            iterator_next: 0,
            limits,
            changed: None,
            noted: 0,
        }
    }

    pub(super) fn limits(&self) -> &NamingLimits {
        &self.limits
    }

    /// All contexts, by rising number, with their bindings.
    pub(super) fn contexts(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = (&NameComponent, &Binding)>)> {
        self.contexts
            .iter()
            .map(|(id, context)| (*id, context.bindings.iter().map(|(name, bound)| (name, &bound.binding))))
    }

    /// Number of contexts and bindings.
    pub(super) fn size(&self) -> usize {
        self.contexts.len() + self.bindings
    }

    /// The next context's number.
    pub(super) fn next_context(&self) -> u32 {
        self.context_next
    }

    /// Raises the next context's number to at least this one.
    pub(super) fn skip_contexts(&mut self, next: u32) {
        self.context_next = self.context_next.max(next);
    }

    /// Records changes from now on, for [`poll_changed`](Self::poll_changed).
    pub(super) fn note_changed(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Replaces another tree and takes over its record of changes: everything in either counts as changed.
    pub(super) fn replace(&mut self, other: &mut Self) {
        if let Some(mut changed) = other.changed.take() {
            changed.insert(Place::Numbers);
            for (id, context) in other.contexts.iter().chain(&self.contexts) {
                changed.insert(Place::Context(*id));
                changed.extend(context.bindings.keys().map(|name| Place::Name(*id, name.clone())));
            }
            self.changed = Some(changed);
        }
        core::mem::swap(self, other);
    }

    /// Takes a place that may have been changed, made or removed since it was last taken.
    pub(super) fn poll_changed(&mut self) -> Option<Place> {
        self.changed.as_mut()?.pop_first()
    }

    /// Charges contexts but the root, and all names, as `charge` says.
    pub(super) fn charge(&mut self, mut charge: impl FnMut(Option<(&NameComponent, &Binding)>) -> Option<Charge>) {
        for (id, context) in &mut self.contexts {
            if *id != ROOT {
                context._charge = charge(None);
            }
            for (name, bound) in &mut context.bindings {
                bound._charge = charge(Some((name, &bound.binding)));
            }
        }
    }

    /// The binding of a name in a context.
    pub(super) fn bound(&self, context: u32, name: &NameComponent) -> Option<&Binding> {
        Some(&self.contexts.get(&context)?.bindings.get(name)?.binding)
    }

    fn note(&mut self, place: impl FnOnce() -> Place) {
        if let Some(changed) = &mut self.changed {
            changed.insert(place());
            self.noted += 1;
        }
    }

    /// Number of changes recorded so far.
    pub(super) const fn changes_noted(&self) -> u64 {
        self.noted
    }

    pub(super) fn has_context(&self, id: u32) -> bool {
        self.contexts.contains_key(&id)
    }

    pub(super) fn has_iterator(&self, id: u32) -> bool {
        self.iterators.contains_key(&id)
    }

    /// Makes an unbound context.
    pub(super) fn new_context(&mut self, charge: Option<Charge>) -> Result<u32, Raised> {
        if self.contexts.len() >= self.limits.contexts_max {
            return Err(Raised::limit());
        }
        let id = self.context_next;
        self.context_next = id.checked_add(1).ok_or_else(Raised::limit)?;
        self.contexts.insert(id, Context { bindings: BTreeMap::new(), _charge: charge });
        self.note(|| Place::Numbers);
        self.note(|| Place::Context(id));
        Ok(id)
    }

    /// Removes an empty context. Existing bindings then lead nowhere.
    pub(super) fn destroy_context(&mut self, id: u32) -> Result<(), Raised> {
        match self.contexts.get(&id) {
            Some(context) if !context.bindings.is_empty() => Err(UserException::NotEmpty.into()),
            Some(_) if id == ROOT => Err(Raised::no_permission()),
            Some(_) => {
                self.contexts.remove(&id);
                self.note(|| Place::Context(id));
                Ok(())
            }
            None => Err(Raised::object_not_exist()),
        }
    }

    /// Binds a name that is not bound yet.
    pub(super) fn bind(
        &mut self,
        context: u32,
        name: &[NameComponent],
        binding: Binding,
        charge: Option<Charge>,
    ) -> Result<(), Raised> {
        let (context, last) = self.walk(context, name)?;
        if self.bindings_of(context)?.contains_key(last) {
            return Err(UserException::AlreadyBound.into());
        }
        self.insert(context, last, Bound { binding, _charge: charge })
    }

    /// Binds a name, replacing only a binding of the same kind.
    pub(super) fn rebind(
        &mut self,
        context: u32,
        name: &[NameComponent],
        binding: Binding,
        charge: Option<Charge>,
    ) -> Result<(), Raised> {
        let (context, last) = self.walk(context, name)?;
        if let Some(old) = self.bindings_of(context)?.get(last)
            && old.binding.kind() != binding.kind()
        {
            let why = match binding.kind() {
                BindingKind::Object => NotFoundReason::NotObject,
                BindingKind::Context => NotFoundReason::NotContext,
            };
            return Err(not_found(why, std::slice::from_ref(last)));
        }
        self.insert(context, last, Bound { binding, _charge: charge })
    }

    /// Resolves a name.
    pub(super) fn resolve(&self, context: u32, name: &[NameComponent]) -> Result<&Binding, Raised> {
        let (context, last) = self.walk(context, name)?;
        let found = self.bindings_of(context)?.get(last);
        let found = found.map(|bound| &bound.binding);
        found.ok_or_else(|| not_found(NotFoundReason::MissingNode, std::slice::from_ref(last)))
    }

    /// Removes the binding of a name.
    pub(super) fn unbind(&mut self, context: u32, name: &[NameComponent]) -> Result<(), Raised> {
        let (context, last) = self.walk(context, name)?;
        let removed = self.contexts.get_mut(&context).and_then(|context| context.bindings.remove(last));
        if removed.is_none() {
            return Err(not_found(NotFoundReason::MissingNode, std::slice::from_ref(last)));
        }
        self.bindings -= 1;
        self.note(|| Place::Name(context, last.clone()));
        Ok(())
    }

    /// Makes an iterator that begins behind `after`. At the limit the oldest one is removed: its client gets `OBJECT_NOT_EXIST`, which the
    /// Naming Service permits at any time.
    pub(super) fn new_iterator(&mut self, context: u32, after: Option<NameComponent>) -> u32 {
        while self.iterators.len() >= self.limits.iterators_max.max(1) {
            self.iterators.pop_first();
        }
        let id = self.iterator_next;
        // After 2^32 iterators the numbers begin again; those of the first ones are long gone.
        self.iterator_next = id.wrapping_add(1);
        self.iterators.insert(id, Cursor { context, after });
        id
    }

    /// The context of an iterator, and the name behind which it continues.
    pub(super) fn cursor(&self, iterator: u32) -> Result<(u32, Option<NameComponent>), Raised> {
        let Cursor { context, after } = self.iterators.get(&iterator).ok_or_else(Raised::object_not_exist)?;
        Ok((*context, after.clone()))
    }

    /// Moves an iterator behind a name.
    pub(super) fn move_cursor(&mut self, iterator: u32, after: &NameComponent) {
        if let Some(cursor) = self.iterators.get_mut(&iterator) {
            cursor.after = Some(after.clone());
        }
    }

    pub(super) fn destroy_iterator(&mut self, iterator: u32) -> Result<(), Raised> {
        self.iterators.remove(&iterator).map(drop).ok_or_else(Raised::object_not_exist)
    }

    /// Names bound in a context, in order, from one on.
    pub(super) fn names_from<'a>(
        &'a self,
        context: u32,
        from: &'a NameComponent,
    ) -> impl Iterator<Item = &'a NameComponent> {
        self.contexts
            .get(&context)
            .into_iter()
            .flat_map(move |found| found.bindings.range(from..))
            .map(|(name, _)| name)
    }

    /// Entries of a context in order, at most `count` and at most the listing limit.
    pub(super) fn list(&self, context: u32, after: Option<&NameComponent>, count: usize) -> Vec<Entry> {
        let from = after.map_or(Unbounded, Excluded);
        let bindings = self.contexts.get(&context).into_iter().flat_map(|c| c.bindings.range((from, Unbounded)));
        bindings
            .take(count.min(self.limits.listing_max))
            .map(|(name, bound)| (name.clone(), bound.binding.kind()))
            .collect()
    }

    /// Follows all components but the last, and returns the context to look that one up in.
    fn walk<'n>(&self, mut at: u32, name: &'n [NameComponent]) -> Result<(u32, &'n NameComponent), Raised> {
        let Some((last, path)) = name.split_last() else {
            return Err(UserException::InvalidName.into());
        };
        for (index, component) in path.iter().enumerate() {
            let (rest, behind) = (name.get(index..).unwrap_or_default(), name.get(index + 1..).unwrap_or_default());
            at = match self.bindings_of(at)?.get(component).map(|bound| &bound.binding) {
                None => return Err(not_found(NotFoundReason::MissingNode, rest)),
                Some(Binding::Object(_)) => return Err(not_found(NotFoundReason::NotContext, rest)),
                Some(Binding::Context { here: Some(id), .. }) if self.has_context(*id) => *id,
                Some(Binding::Context { reference, .. }) => {
                    let context = Box::new(reference.clone());
                    return Err(UserException::CannotProceed { context, rest: behind.to_vec() }.into());
                }
            };
        }
        Ok((at, last))
    }

    fn bindings_of(&self, context: u32) -> Result<&BTreeMap<NameComponent, Bound>, Raised> {
        self.contexts.get(&context).map(|context| &context.bindings).ok_or_else(Raised::object_not_exist)
    }

    fn insert(&mut self, context: u32, name: &NameComponent, new: Bound) -> Result<(), Raised> {
        let full = self.bindings >= self.limits.bindings_max;
        let bindings = &mut self.contexts.get_mut(&context).ok_or_else(Raised::object_not_exist)?.bindings;
        if let Some(bound) = bindings.get_mut(name) {
            *bound = new;
        } else if full {
            return Err(Raised::limit());
        } else {
            bindings.insert(name.clone(), new);
            self.bindings += 1;
        }
        self.note(|| Place::Name(context, name.clone()));
        Ok(())
    }
}

fn not_found(why: NotFoundReason, rest: &[NameComponent]) -> Raised {
    UserException::NotFound { why, rest: rest.to_vec() }.into()
}
