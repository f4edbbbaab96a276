//! The built-in naming service: `CosNaming::NamingContext`, `NamingContextExt` and `BindingIterator`, in memory.
//!
//! It is complete, so that a site without a naming service needs no other, but small and bounded ([`NamingLimits`]). Clients' bindings are
//! part of the topology, which a store saves; without a store they are lost when the service ends. Names of the service itself are bound at
//! each start ([`WELL_KNOWN`]), under all names that clients of other servers look for.

mod name;
mod topology;
mod tree;

#[cfg(test)]
pub(super) mod tests;

pub use self::name::NameComponent;
use self::name::check;
pub(super) use self::name::write as write_name;
use self::tree::{Binding, BindingKind, Entry, Tree};
use super::exceptions::{Raised, UserException};
use super::keys::ObjectKey;
use super::protocol::{Protocol, octets_of_reference, weights};
use super::references::References;
use super::table::{self, Call, Interface, Operation, Target};
use super::wire::read_reference;
use crate::log_lines::log_line;
use accounts::Charge;
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use giop::url::Url;

/// Limits of the naming service. Beyond each of the first two a client gets `IMP_LIMIT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamingLimits {
    /// Maximum number of naming contexts, the root included. Default 4,096.
    pub contexts_max: usize,
    /// Maximum number of bindings in all contexts together. Default 65,536.
    pub bindings_max: usize,
    /// Maximum iterators open at once. Default 64; one more closes the oldest.
    pub iterators_max: usize,
    /// Maximum components of one name. Default 64; a longer name is `InvalidName`.
    pub components_max: usize,
    /// Maximum octets, in UTF-8, of identifier and kind of one component together. Default 1,024; a longer one is `InvalidName`.
    pub component_bytes_max: usize,
    /// Maximum bindings in one answer; an iterator returns the others. Default 1,024.
    pub listing_max: usize,
}

impl Default for NamingLimits {
    fn default() -> Self {
        Self {
            contexts_max: 4_096,
            bindings_max: 65_536,
            iterators_max: 64,
            components_max: 64,
            component_bytes_max: 1_024,
            listing_max: 1_024,
        }
    }
}

/// Names bound in the root context at each start, unless a client has bound them to something reachable: identifier, kind, object.
pub const WELL_KNOWN: &[(&str, &str, ObjectKey)] = &[
    // TAO's clients.
    ("NotifyEventChannelFactory", "", ObjectKey::Factory),
    // JacORB's, and clients that name the initial reference.
    ("NotificationService", "", ObjectKey::Factory),
    // omniNotify's daemon binds its factory and its channel with the kind equal to the identifier.
    ("ChannelFactory", "ChannelFactory", ObjectKey::Factory),
    ("EventChannel", "EventChannel", ObjectKey::DEFAULT_CHANNEL),
    // omniEvents', by which REDHAWK's domain manager makes its channels.
    ("EventChannelFactory", "", ObjectKey::GenericFactory),
    // Clients of the plain Event Service: TAO's, omniEvents', ORBacus's.
    ("EventService", "", ObjectKey::DEFAULT_CHANNEL),
    ("CosEventService", "", ObjectKey::DEFAULT_CHANNEL),
    ("DefaultEventChannel", "", ObjectKey::DEFAULT_CHANNEL),
];

/// The kind of event channels' names in the root context, as ALMA's clients and those of the library `campanile` bind them: `{id
/// "Weather@DOMAIN", kind "channels"}`.
pub(crate) const CHANNELS_KIND: &str = "channels";

/// The bindings of [`WELL_KNOWN`]: identifier, kind, reference.
pub(super) fn well_known(references: &References) -> impl Iterator<Item = (&'static str, &'static str, Ior)> {
    WELL_KNOWN.iter().map(|(id, kind, key)| {
        let servant = match key {
            ObjectKey::Factory => table::FACTORY,
            ObjectKey::GenericFactory => table::GENERIC_FACTORY,
            _ => table::DEFAULT_CHANNEL,
        };
        (*id, *kind, references.ior(table::type_id(servant), key))
    })
}

pub(super) static NAMING_CONTEXT: Interface = Interface {
    name: "CosNaming::NamingContext",
    id: "IDL:omg.org/CosNaming/NamingContext:1.0",
    operations: &[
        Operation::done("bind", bind),
        Operation::done("rebind", rebind),
        Operation::done("bind_context", bind_context),
        Operation::done("rebind_context", rebind_context),
        Operation::done("resolve", resolve),
        Operation::done("unbind", unbind),
        Operation::done("new_context", new_context),
        Operation::done("bind_new_context", bind_new_context),
        Operation::done("destroy", destroy),
        Operation::done("list", list),
    ],
};

pub(super) static BINDING_ITERATOR: Interface = Interface {
    name: "CosNaming::BindingIterator",
    id: "IDL:omg.org/CosNaming/BindingIterator:1.0",
    operations: &[
        Operation::done("next_one", next_one),
        Operation::done("next_n", next_n),
        Operation::done("destroy", destroy_iterator),
    ],
};

pub(super) static NAMING_CONTEXT_EXT: Interface = Interface {
    name: "CosNaming::NamingContextExt",
    id: "IDL:omg.org/CosNaming/NamingContextExt:1.0",
    operations: &[
        Operation::done("to_string", to_string),
        Operation::done("to_name", to_name),
        Operation::done("to_url", to_url),
        Operation::done("resolve_str", resolve_str),
    ],
};

/// Every interface of the module, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[&NAMING_CONTEXT, &BINDING_ITERATOR, &NAMING_CONTEXT_EXT];

/// The naming service of one protocol.
#[derive(Debug)]
pub(super) struct Naming {
    tree: Tree,
    /// The number in the keys of all contexts but the root.
    nonce: u128,
    /// The number in the keys of all iterators, none of which outlives the process.
    of_iterators: u128,
}

impl Naming {
    /// A naming service with the well-known names bound.
    pub(super) fn new(limits: NamingLimits, mut draw: impl FnMut() -> u128, references: &References) -> Self {
        let mut tree = Tree::new(limits);
        for (id, kind, reference) in well_known(references) {
            let name = [NameComponent::with_kind(id, kind)];
            if let Err(refused) = tree.bind(tree::ROOT, &name, Binding::Object(reference), None) {
                log_line!(Warn, "the naming service has no room for {id}: {refused:?}");
            }
        }
        Self { tree, nonce: draw(), of_iterators: draw() }
    }

    /// The context with that number, if its key is of this run.
    pub(super) fn context(&self, id: u32, nonce: u128) -> Option<u32> {
        let is_ours = if id == tree::ROOT { nonce == 0 } else { nonce == self.nonce };
        (is_ours && self.tree.has_context(id)).then_some(id)
    }

    /// The iterator with that number, if its key is of this run.
    pub(super) fn iterator(&self, id: u32, nonce: u128) -> Option<u32> {
        (nonce == self.of_iterators && self.tree.has_iterator(id)).then_some(id)
    }

    pub(super) fn context_key(&self, id: u32) -> ObjectKey {
        ObjectKey::NamingContext { id, nonce: if id == tree::ROOT { 0 } else { self.nonce } }
    }

    pub(super) fn iterator_key(&self, id: u32) -> ObjectKey {
        ObjectKey::BindingIterator { id, nonce: self.of_iterators }
    }
}

type Name = Vec<NameComponent>;

pub(super) fn read_name(protocol: &Protocol, args: &mut Reader<'_>) -> Result<Name, Raised> {
    name::read(args, protocol.objects.naming.tree.limits())
}

/// Checks a name after all arguments were read.
fn checked(protocol: &Protocol, name: &[NameComponent]) -> Result<(), Raised> {
    check(name, protocol.objects.naming.tree.limits())
}

fn bind(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let (name, object) = read_binding(protocol, args, "the arguments of bind")?;
    let charge = charge(protocol, &name, &object)?;
    protocol.objects.naming.tree.bind(on.naming_context()?, &name, Binding::Object(object), charge)
}

fn rebind(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let (name, object) = read_binding(protocol, args, "the arguments of rebind")?;
    let charge = charge(protocol, &name, &object)?;
    protocol.objects.naming.tree.rebind(on.naming_context()?, &name, Binding::Object(object), charge)
}

fn bind_context(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let (name, context) = read_binding(protocol, args, "the arguments of bind_context")?;
    let charge = charge(protocol, &name, &context)?;
    let binding = context_binding(protocol, context)?;
    protocol.objects.naming.tree.bind(on.naming_context()?, &name, binding, charge)
}

fn rebind_context(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let (name, context) = read_binding(protocol, args, "the arguments of rebind_context")?;
    let charge = charge(protocol, &name, &context)?;
    let binding = context_binding(protocol, context)?;
    protocol.objects.naming.tree.rebind(on.naming_context()?, &name, binding, charge)
}

fn read_binding(protocol: &Protocol, mut args: Reader<'_>, what: &'static str) -> Result<(Name, Ior), Raised> {
    let name = read_name(protocol, &mut args)?;
    let object = read_reference(&mut args)?;
    args.finish(what)?;
    checked(protocol, &name)?;
    Ok((name, object))
}

/// Charges the requesting client for a name and its object.
fn charge(protocol: &mut Protocol, name: &[NameComponent], object: &Ior) -> Result<Option<Charge>, Raised> {
    protocol.objects.ledger.charge_octets(name.last().map_or(0, |last| octets_of_binding(last, object)))
}

/// The charge for a name and its object, in octets.
fn octets_of_binding(name: &NameComponent, object: &Ior) -> u64 {
    weights::BINDING + (name.id.len() + name.kind.len()) as u64 + octets_of_reference(object)
}

/// The binding of a context: one of this service's, or any other server's.
fn context_binding(protocol: &Protocol, reference: Ior) -> Result<Binding, Raised> {
    if reference.is_nil() {
        return Err(Raised::bad_param());
    }
    let here = match protocol.objects.references.own_key(&reference) {
        Some(ObjectKey::NamingContext { id, nonce }) => protocol.objects.naming.context(id, nonce),
        _ => None,
    };
    Ok(Binding::Context { reference, here })
}

fn resolve(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let name = read_name(protocol, &mut args)?;
    args.finish("the arguments of resolve")?;
    checked(protocol, &name)?;
    write_resolved(protocol, on, &name, reply)
}

/// Writes the object bound to a name; if that is gone, or nothing is bound, the channel with the name.
fn write_resolved(
    protocol: &Protocol,
    on: Target,
    name: &[NameComponent],
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let context = on.naming_context()?;
    let bound = protocol.objects.naming.tree.resolve(context, name).map(Binding::reference);
    let channel = match name {
        [name] if context == tree::ROOT => protocol.channel_behind(name, bound.as_ref().ok().copied()),
        _ => None,
    };
    match channel {
        Some(channel) => channel.write(reply),
        None => match (bound, name) {
            // What is bound nowhere may be the name of a linked service's channel.
            (Err(_), [name])
                if context == tree::ROOT
                    && let Some(channel) = federated(protocol, name) =>
            {
                channel.write(reply);
            }
            (bound, _) => bound?.write(reply),
        },
    }
    Ok(())
}

/// A linked service's channel that a name in the root context stands for.
fn federated<'a>(protocol: &'a Protocol, name: &NameComponent) -> Option<&'a Ior> {
    protocol.federated(name.channel()?)
}

fn unbind(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let name = read_name(protocol, &mut args)?;
    args.finish("the arguments of unbind")?;
    checked(protocol, &name)?;
    protocol.objects.naming.tree.unbind(on.naming_context()?, &name)
}

fn new_context(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of new_context")?;
    let charge = protocol.objects.ledger.charge_octets(weights::CONTEXT)?;
    let context = protocol.objects.naming.tree.new_context(charge)?;
    protocol.objects.reference(Target::NamingContext(context))?.write(reply);
    Ok(())
}

fn bind_new_context(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let name = read_name(protocol, &mut args)?;
    args.finish("the arguments of bind_new_context")?;
    checked(protocol, &name)?;
    let of_context = protocol.objects.ledger.charge_octets(weights::CONTEXT)?;
    let context = protocol.objects.naming.tree.new_context(of_context)?;
    let reference = protocol.objects.reference(Target::NamingContext(context))?;
    let binding = Binding::Context { reference: reference.clone(), here: Some(context) };
    let bound = charge(protocol, &name, &reference)
        .and_then(|charge| protocol.objects.naming.tree.bind(on.naming_context()?, &name, binding, charge));
    if bound.is_err() {
        // A context that no client will ever hear of.
        protocol.objects.naming.tree.destroy_context(context)?;
    }
    bound?;
    reference.write(reply);
    Ok(())
}

fn destroy(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    protocol.objects.naming.tree.destroy_context(on.naming_context()?)
}

fn list(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let how_many = args.u32()?;
    args.finish("the arguments of list")?;
    let context = on.naming_context()?;
    let entries = listed(protocol, context, None, count(how_many));
    write_entries(&entries, reply);
    let last = entries.last().map(|(name, _)| name);
    let iterator = if !listed(protocol, context, last, 1).is_empty() {
        let after = entries.last().map(|(name, _)| name.clone());
        let iterator = protocol.objects.naming.tree.new_iterator(context, after);
        protocol.objects.reference(Target::BindingIterator(iterator))?
    } else {
        Ior::nil()
    };
    iterator.write(reply);
    Ok(())
}

/// Entries of a context in order; the root includes names of linked services.
fn listed(protocol: &Protocol, context: u32, after: Option<&NameComponent>, count: usize) -> Vec<Entry> {
    let tree = &protocol.objects.naming.tree;
    let mut entries = tree.list(context, after, count);
    if context == tree::ROOT {
        let count = count.min(tree.limits().listing_max);
        let others = protocol.federated_behind(after).take(count).map(|name| (name, BindingKind::Object));
        entries.extend(others);
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.truncate(count);
    }
    entries
}

/// The next entries of an iterator, at most `count` and at most the listing limit.
fn advance(protocol: &mut Protocol, iterator: u32, count: usize) -> Result<Vec<Entry>, Raised> {
    let (context, after) = protocol.objects.naming.tree.cursor(iterator)?;
    let entries = listed(protocol, context, after.as_ref(), count);
    if let Some((last, _)) = entries.last() {
        protocol.objects.naming.tree.move_cursor(iterator, last);
    }
    Ok(entries)
}

fn next_one(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of next_one")?;
    let entries = advance(protocol, on.binding_iterator()?, 1)?;
    reply.bool(!entries.is_empty());
    match entries.first() {
        Some(entry) => write_entry(entry, reply),
        // There is always a binding in the reply; what is in it means nothing where the result is FALSE.
        None => {
            write_name(&[], reply);
            reply.u32(0);
        }
    }
    Ok(())
}

fn next_n(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let how_many = args.u32()?;
    args.finish("the arguments of next_n")?;
    if how_many == 0 {
        // An answer of none would not tell whether there are more.
        return Err(Raised::bad_param());
    }
    let entries = advance(protocol, on.binding_iterator()?, count(how_many))?;
    reply.bool(!entries.is_empty());
    write_entries(&entries, reply);
    Ok(())
}

fn destroy_iterator(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    protocol.objects.naming.tree.destroy_iterator(on.binding_iterator()?)
}

fn to_string(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let name = read_name(protocol, &mut args)?;
    args.finish("the arguments of to_string")?;
    checked(protocol, &name)?;
    reply.string(&name::to_text(&name));
    Ok(())
}

fn to_name(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let text = args.text()?;
    args.finish("the arguments of to_name")?;
    write_name(&parsed(protocol, &text)?, reply);
    Ok(())
}

fn to_url(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let address = args.text()?;
    let text = args.text()?;
    args.finish("the arguments of to_url")?;
    // An address without a name leads to the root context itself.
    if !text.is_empty() {
        parsed(protocol, &text)?;
    }
    let is_address =
        !address.is_empty() && !address.contains('#') && format!("corbaname:{address}").parse::<Url>().is_ok();
    if !is_address {
        return Err(UserException::InvalidAddress.into());
    }
    reply.string(&format!("corbaname:{address}#{}", name::to_url_text(&text)));
    Ok(())
}

fn resolve_str(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let text = args.text()?;
    args.finish("the arguments of resolve_str")?;
    write_resolved(protocol, on, &parsed(protocol, &text)?, reply)
}

fn parsed(protocol: &Protocol, text: &str) -> Result<Name, Raised> {
    let name = name::from_text(text).ok_or(UserException::InvalidName)?;
    checked(protocol, &name)?;
    Ok(name)
}

fn count(how_many: u32) -> usize {
    usize::try_from(how_many).unwrap_or(usize::MAX)
}

fn write_entries(entries: &[Entry], out: &mut Writer<'_>) {
    out.length(entries.len());
    for entry in entries {
        write_entry(entry, out);
    }
}

/// Writes a `CosNaming::Binding`.
fn write_entry((name, kind): &Entry, out: &mut Writer<'_>) {
    write_name(std::slice::from_ref(name), out);
    out.u32(*kind as u32);
}
