//! `CORBA::Object`: the operations that every object has beside its own interface.
//!
//! Of its operations only these travel; the others are the client ORB's own.

use super::exceptions::Raised;
use super::table::{Call, Interface, Operation, type_id};
use giop::ior::Ior;

pub(super) static OBJECT: Interface = Interface {
    name: "CORBA::Object",
    id: "IDL:omg.org/CORBA/Object:1.0",
    operations: &[
        Operation::done("_is_a", is_a),
        Operation::done("_non_existent", non_existent),
        // The spelling of GIOP 1.0 and 1.1, which some ORBs kept.
        Operation::done("_not_existent", non_existent),
        Operation::done("_repository_id", repository_id),
        Operation::done("_component", component),
        Operation::done("_interface", interface),
        Operation::done("_domain_managers", left_out),
        Operation::done("_get_domain_managers", left_out),
        Operation::done("_get_policy", policy),
        Operation::done("_implementation", left_out),
    ],
};

/// Whether the object's interface is, or inherits from, the one with that repository id.
fn is_a(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let id = args.string()?;
    args.finish("the arguments of _is_a")?;
    let servant = protocol.objects.servant(on)?;
    let known = servant.iter().any(|interface| interface.id.as_bytes() == id) || OBJECT.id.as_bytes() == id;
    reply.bool(known);
    Ok(())
}

/// Returns false: a missing object is detected before any operation is looked up, so this one exists.
fn non_existent(Call { args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of _non_existent")?;
    reply.bool(false);
    Ok(())
}

fn repository_id(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of _repository_id")?;
    reply.string(type_id(protocol.objects.servant(on)?));
    Ok(())
}

/// The component of which the object is a facet: none, hence nil.
fn component(Call { args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of _component")?;
    Ior::nil().write(reply);
    Ok(())
}

/// The interface definition: there is no Interface Repository.
fn interface(Call { args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of _interface")?;
    Err(Raised::no_interface_repository())
}

/// Optional operations: security domains, and the implementation definition of CORBA before 2.2. ORBs without them answer this.
fn left_out(Call { args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation of CORBA::Object")?;
    Err(Raised::no_implement())
}

/// The exception for policies: the client's own ORB answers for them.
fn policy(Call { mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.u32()?;
    args.finish("the arguments of get_policy")?;
    Err(Raised::no_implement())
}
