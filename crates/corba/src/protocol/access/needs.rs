//! Rights needed by operations.

use crate::table::Target;
use engine::Side;

/// The right that a client needs for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// None: the operation reveals no more than the reference.
    Nothing,
    /// Any right on any channel: to look names up.
    KnowsAny,
    /// Any right on the channel: to read it.
    Knows,
    /// The right to a side of the channel.
    Uses(Side),
    /// The right to a side of the channel, or to either, and ownership of the object; else to administer the channel.
    Owns(Option<Side>),
    /// The right to administer the channel, or the service if the object is in no channel.
    Administers,
}

/// The right that an operation on an object needs: to administer, unless listed here.
pub(super) fn needs(target: Target, operation: &str) -> Needs {
    if is_everybodys(operation) {
        return Needs::Nothing;
    }
    match target {
        Target::Factory => of_factory(operation),
        // Which channels can be made is said where one is.
        Target::GenericFactory => known(matches!(operation, "supports" | "create_object"), Needs::KnowsAny),
        Target::SchedulingService => Needs::KnowsAny,
        Target::NamingContext(_) => {
            let reads = matches!(operation, "resolve" | "resolve_str" | "list" | "to_name" | "to_string" | "to_url");
            known(reads, Needs::KnowsAny)
        }
        Target::BindingIterator(_) => Needs::KnowsAny,
        Target::Channel(_) => of_channel(operation),
        Target::Admin(admin) => of_admin(operation, admin.side),
        Target::Proxy(_, side) => of_proxy(operation, side),
        Target::FilterFactory(_) => known(matches!(operation, "create_filter" | "create_mapping_filter"), Needs::Knows),
        Target::Filter(_) | Target::MappingFilter(_) => {
            if is_look(operation) || operation.starts_with("match") {
                Needs::Knows
            } else {
                Needs::Owns(None)
            }
        }
        Target::MonitorControl => Needs::Administers,
    }
}

const fn known(is_known: bool, needs: Needs) -> Needs {
    if is_known { needs } else { Needs::Administers }
}

/// Whether every object supports the operation.
fn is_everybodys(operation: &str) -> bool {
    matches!(
        operation,
        "_is_a"
            | "_non_existent"
            | "_not_existent"
            | "_repository_id"
            | "_component"
            | "_interface"
            | "_domain_managers"
            | "_get_domain_managers"
            | "_get_policy"
            | "_implementation"
    )
}

/// Whether the operation only reads.
fn is_look(operation: &str) -> bool {
    operation.starts_with("_get_") || operation.starts_with("get_") || operation.starts_with("validate_")
}

fn of_factory(operation: &str) -> Needs {
    match operation {
        // The list has what one may know of; a channel is made if one may make that.
        "get_all_channels" | "get_event_channel" | "create_channel" | "create_named_channel" => Needs::KnowsAny,
        "register_callback" | "unregister_callback" | "is_alive" => Needs::KnowsAny,
        _ => Needs::Administers,
    }
}

fn of_channel(operation: &str) -> Needs {
    match operation {
        "new_for_consumers" | "named_new_for_consumers" => Needs::Uses(Side::Consumers),
        "new_for_suppliers" | "named_new_for_suppliers" => Needs::Uses(Side::Suppliers),
        "for_consumers" | "for_suppliers" => Needs::Knows,
        // The default channel is omniEvents' factory as well.
        "supports" | "create_object" => Needs::KnowsAny,
        _ => known(is_look(operation), Needs::Knows),
    }
}

fn of_admin(operation: &str, side: Side) -> Needs {
    match operation {
        _ if operation.starts_with("obtain_") => Needs::Uses(side),
        _ if is_look(operation) => Needs::Knows,
        _ => Needs::Owns(Some(side)),
    }
}

fn of_proxy(operation: &str, side: Side) -> Needs {
    match operation {
        _ if is_look(operation) => Needs::Knows,
        // A push by another owner's proxy needs the right of the client that pushes. An operation that takes events takes
        // them from the owner.
        _ if operation.starts_with("push") => Needs::Uses(side),
        _ => Needs::Owns(Some(side)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::AdminKey;
    use engine::{AdminId, ChannelId, FilterId, ProxyId, ProxyKey};

    const CHANNEL: ChannelId = ChannelId(3);

    #[test]
    fn what_is_not_known_needs_the_right_to_administer_or_to_own() {
        let admin = AdminKey { channel: CHANNEL, side: Side::Consumers, admin: AdminId(4) };
        let proxy = ProxyKey { channel: CHANNEL, proxy: ProxyId(5) };
        for (target, expected) in [
            (Target::Factory, Needs::Administers),
            (Target::Channel(CHANNEL), Needs::Administers),
            (Target::FilterFactory(CHANNEL), Needs::Administers),
            (Target::NamingContext(0), Needs::Administers),
            (Target::MonitorControl, Needs::Administers),
            (Target::GenericFactory, Needs::Administers),
            (Target::Admin(admin), Needs::Owns(Some(Side::Consumers))),
            (Target::Proxy(proxy, Side::Suppliers), Needs::Owns(Some(Side::Suppliers))),
            (Target::Filter(FilterId(1)), Needs::Owns(None)),
        ] {
            assert_eq!(needs(target, "some_operation_of_tomorrow"), expected, "{target:?}");
            assert_eq!(needs(target, "_is_a"), Needs::Nothing);
        }
    }

    #[test]
    fn a_client_that_destroys_or_sets_a_channel_administers_it() {
        for operation in ["destroy", "set_qos", "set_admin"] {
            assert_eq!(needs(Target::Channel(CHANNEL), operation), Needs::Administers, "{operation}");
        }
        for operation in ["get_qos", "get_admin", "_get_MyFactory", "get_all_consumeradmins", "validate_event_qos"] {
            assert_eq!(needs(Target::Channel(CHANNEL), operation), Needs::Knows, "{operation}");
        }
        assert_eq!(needs(Target::Channel(CHANNEL), "new_for_consumers"), Needs::Uses(Side::Consumers));
        assert_eq!(needs(Target::NamingContext(0), "rebind"), Needs::Administers);
        assert_eq!(needs(Target::NamingContext(0), "resolve"), Needs::KnowsAny);
    }
}
