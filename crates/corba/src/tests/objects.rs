//! Every operation of every kind of object, in every version and byte order, with every exception.

use super::changes;
use super::dialogue::{Dialogue, Expect, STYLES, Style, client, key_of, somebody, write_types};
use super::filters;
use super::proxies::{self, every_proxy};
use super::scheduling;
use super::{monitor, notify_ext};
use crate::table;
use crate::{conformance, keys};
use giop::cdr::{Endian, Version};
use giop::ior::Ior;
use std::collections::BTreeSet;

const MONITORING: &str = "IDL:sandia.gov/NotifyMonitoringExt";
const AND: u32 = 0;
const OR: u32 = 1;
const ANY_EVENT: u32 = 0;
const STRUCTURED_EVENT: u32 = 1;
const SEQUENCE_EVENT: u32 = 2;

type Case = (&'static str, fn(&mut Dialogue));

/// One row for each thing that a client can go through.
const CASES: &[Case] = &[
    ("the factory makes, lists and finds channels", factory),
    ("a channel gives its factory, its admins and its default admins", channel),
    ("an admin knows its channel, id and operator and gives proxies", admins),
    ("the default admins cannot be destroyed", default_admins),
    ("every kind of client connects, is suspended and resumed where it can be, and disconnects", proxies::connections),
    ("clients of the plain Event Service are of it and nothing more", event_service),
    ("references to the wrong kind of object, or back to the service, are refused", proxies::wrong_references),
    ("a consumer without a reference, or with a useless one, cannot connect", useless_consumers),
    ("a channel's factory makes filters and mapping filters of the grammar asked for", filters::factories),
    ("a filter's constraints are added, changed, given and taken away, all or none", filters::constraints),
    ("a mapping filter's constraints likewise, with their values", filters::mapping_constraints),
    ("a filter is asked about events of every form", filters::matching),
    ("a filter reads what is in an event", filters::fields),
    ("a mapping filter gives the best value that an event can have", filters::mapping),
    ("a filter is asked with a limit on how long it may take", filters::time_limits),
    ("callbacks are notified when a filter's event types change", filters::callbacks),
    ("admins and proxies have filters, this service's and others'", filters::attachments),
    ("consumers' admins and proxies have mapping filters", filters::mapping_attachments),
    ("limits on filters hold", filters::limits),
    ("subscriptions and offers are taken, wildcards in the middle are not", subscriptions),
    ("every proxy tells what the other side of its channel offers or wants", changes::obtaining),
    ("limits of a channel are reported with the proxy", admin_limits),
    ("properties are had, set and checked at every level", properties),
    ("activities are analysed, and refused with their place", scheduling::analyses),
    ("every object answers for itself", object_operations),
    ("names are bound, resolved, listed and unbound", naming),
    ("names are written and read", naming_ext),
    ("factory, channels and admins are of TAO's types", notify_ext::types),
    ("channels, admins and proxies have names of their own", notify_ext::names),
    ("callbacks are registered for when the service is there again", notify_ext::registry),
    ("a filter factory knows its filters by number", notify_ext::filter_numbers),
    ("statistics are read under the names that TAO has for them", monitor::statistics),
    ("a client that may not control gets a refusal", monitor::refusals),
    ("a channel is made and found by name, as at omniEvents", notify_ext::generic_factory),
];

#[test]
fn every_operation_of_every_object_answers_in_every_style() {
    for style in STYLES {
        let mut called = BTreeSet::new();
        let mut raised = BTreeSet::new();
        for (_, case) in CASES {
            let mut dialogue = Dialogue::new(style);
            case(&mut dialogue);
            called.append(&mut dialogue.called);
            raised.append(&mut dialogue.raised);
        }
        let mut missing = Vec::new();
        for servant in SERVANTS {
            let id = table::type_id(servant);
            for operation in servant.iter().flat_map(|interface| interface.operations) {
                if !called.contains(&(id, operation.name.to_owned())) {
                    missing.push(format!("{id} {}", operation.name));
                }
            }
        }
        assert_eq!(missing, Vec::<String>::new(), "never called in {style:?}");
        let expected: BTreeSet<String> = EXCEPTIONS.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(raised, expected, "{style:?}");
    }
}

/// Every kind of object that there is.
const SERVANTS: &[table::Servant] = &[
    table::FACTORY,
    table::CHANNEL,
    table::DEFAULT_CHANNEL,
    table::GENERIC_FACTORY,
    table::MONITOR_CONTROL,
    table::CONSUMER_ADMIN,
    table::SUPPLIER_ADMIN,
    table::STRUCTURED_PROXY_PUSH_CONSUMER,
    table::PROXY_PUSH_CONSUMER,
    table::STRUCTURED_PROXY_PUSH_SUPPLIER,
    table::PROXY_PUSH_SUPPLIER,
    table::SEQUENCE_PROXY_PUSH_CONSUMER,
    table::SEQUENCE_PROXY_PUSH_SUPPLIER,
    table::PROXY_PULL_CONSUMER,
    table::STRUCTURED_PROXY_PULL_CONSUMER,
    table::SEQUENCE_PROXY_PULL_CONSUMER,
    table::PROXY_PULL_SUPPLIER,
    table::STRUCTURED_PROXY_PULL_SUPPLIER,
    table::SEQUENCE_PROXY_PULL_SUPPLIER,
    table::PLAIN_PROXY_PUSH_CONSUMER,
    table::PLAIN_PROXY_PUSH_SUPPLIER,
    table::PLAIN_PROXY_PULL_CONSUMER,
    table::PLAIN_PROXY_PULL_SUPPLIER,
    table::FILTER_FACTORY,
    table::FILTER,
    table::MAPPING_FILTER,
    table::NAMING_CONTEXT,
    table::BINDING_ITERATOR,
    table::SCHEDULING_SERVICE,
];

/// Every exception that the cases provoke. `MARSHAL` comes with every single call and is not counted here.
const EXCEPTIONS: &[&str] = &[
    "IDL:Campanile/InvalidActivity:1.0",
    "IDL:Campanile/InvalidRequest:1.0",
    "IDL:omg.org/CORBA/BAD_OPERATION:1.0",
    "IDL:omg.org/CORBA/BAD_PARAM:1.0",
    "IDL:omg.org/CORBA/CODESET_INCOMPATIBLE:1.0",
    "IDL:omg.org/CORBA/IMP_LIMIT:1.0",
    "IDL:omg.org/CORBA/INTF_REPOS:1.0",
    "IDL:omg.org/CORBA/MARSHAL:1.0",
    "IDL:omg.org/CORBA/NO_IMPLEMENT:1.0",
    "IDL:omg.org/CORBA/NO_PERMISSION:1.0",
    "IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0",
    "IDL:omg.org/CORBA/TRANSIENT:1.0",
    "IDL:omg.org/CosEventChannelAdmin/AlreadyConnected:1.0",
    "IDL:omg.org/CosEventChannelAdmin/TypeError:1.0",
    "IDL:omg.org/CosEventComm/Disconnected:1.0",
    "IDL:omg.org/CosLifeCycle/InvalidCriteria:1.0",
    "IDL:omg.org/CosLifeCycle/NoFactory:1.0",
    "IDL:omg.org/CosNaming/NamingContext/AlreadyBound:1.0",
    "IDL:omg.org/CosNaming/NamingContext/CannotProceed:1.0",
    "IDL:omg.org/CosNaming/NamingContext/InvalidName:1.0",
    "IDL:omg.org/CosNaming/NamingContext/NotEmpty:1.0",
    "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0",
    "IDL:omg.org/CosNaming/NamingContextExt/InvalidAddress:1.0",
    "IDL:omg.org/CosNotification/UnsupportedAdmin:1.0",
    "IDL:omg.org/CosNotification/UnsupportedQoS:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/AdminLimitExceeded:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/AdminNotFound:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/ChannelNotFound:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/ConnectionAlreadyActive:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/ConnectionAlreadyInactive:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/NotConnected:1.0",
    "IDL:omg.org/CosNotifyChannelAdmin/ProxyNotFound:1.0",
    "IDL:omg.org/CosNotifyFilter/CallbackNotFound:1.0",
    "IDL:omg.org/CosNotifyFilter/ConstraintNotFound:1.0",
    "IDL:omg.org/CosNotifyFilter/FilterNotFound:1.0",
    "IDL:omg.org/CosNotifyFilter/InvalidConstraint:1.0",
    "IDL:omg.org/CosNotifyFilter/InvalidGrammar:1.0",
    "IDL:omg.org/CosNotifyFilter/InvalidValue:1.0",
    "IDL:omg.org/CosNotifyFilter/UnsupportedFilterableData:1.0",
    "IDL:sandia.gov/CosNotification/NotificationServiceMonitorControl/InvalidName:1.0",
    "IDL:sandia.gov/NotifyMonitoringExt/NameAlreadyUsed:1.0",
    "IDL:sandia.gov/NotifyMonitoringExt/NameMapError:1.0",
];

pub(super) fn new_channel(d: &mut Dialogue) -> (Ior, i32) {
    let factory = d.bootstrap(keys::FACTORY_TAO);
    let body = d.call(&factory, "create_channel", |w| {
        w.u32(0);
        w.u32(0);
    });
    body.unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap()))
}

fn factory(d: &mut Dialogue) {
    let factory = d.bootstrap("NotificationService");
    assert_eq!(d.ids(&factory, "get_all_channels"), [0]);
    let (first, id) = new_channel(d);
    assert_eq!((id, first.type_id.as_str()), (1, "IDL:sandia.gov/NotifyMonitoringExt/EventChannel:1.0"));
    let (second, id) = new_channel(d);
    assert_eq!(id, 2);
    assert_ne!(first, second);
    assert_eq!(d.ids(&factory, "get_all_channels"), [0, 1, 2]);
    assert_eq!(d.look_up(&factory, "get_event_channel", 1).unwrap(), first);
    let default = d.look_up(&factory, "get_event_channel", 0).unwrap();
    assert_eq!(default.iiop().unwrap().key, b"DefaultEventChannel");
    for unknown in [3, -1, i32::MAX, i32::MIN] {
        d.call(&factory, "get_event_channel", |w| w.i32(unknown)).raises("ChannelNotFound");
    }
    d.get(&first, "destroy");
    d.call(&factory, "get_event_channel", |w| w.i32(1)).raises("ChannelNotFound");
    d.call(&first, "for_consumers", |_| {}).raises("OBJECT_NOT_EXIST");
    assert_eq!(d.ids(&factory, "get_all_channels"), [0, 2]);
    let (third, id) = new_channel(d);
    assert_eq!(id, 3, "ids are not used again");
    assert_eq!(d.object(&third, "_get_MyFactory"), d.protocol.objects.factory_reference());
}

fn channel(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    let consumers = d.object(&channel, "_get_default_consumer_admin");
    let suppliers = d.object(&channel, "_get_default_supplier_admin");
    assert_eq!(consumers.type_id, format!("{MONITORING}/ConsumerAdmin:1.0"));
    assert_eq!(suppliers.type_id, format!("{MONITORING}/SupplierAdmin:1.0"));
    assert_eq!(d.object(&channel, "for_consumers"), consumers);
    assert_eq!(d.object(&channel, "for_suppliers"), suppliers);
    assert_eq!((d.number(&consumers, "_get_MyID"), d.number(&suppliers, "_get_MyID")), (0, 0));

    let (consumer_admin, consumer_id) = d.made(&channel, "new_for_consumers", AND);
    let (supplier_admin, supplier_id) = d.made(&channel, "new_for_suppliers", OR);
    assert_eq!(d.ids(&channel, "get_all_consumeradmins"), [0, consumer_id]);
    assert_eq!(d.ids(&channel, "get_all_supplieradmins"), [0, supplier_id]);
    assert_eq!(d.look_up(&channel, "get_consumeradmin", consumer_id).unwrap(), consumer_admin);
    assert_eq!(d.look_up(&channel, "get_supplieradmin", supplier_id).unwrap(), supplier_admin);
    assert_eq!(d.look_up(&channel, "get_consumeradmin", 0).unwrap(), consumers);
    for unknown in [99, -1] {
        d.call(&channel, "get_consumeradmin", |w| w.i32(unknown)).raises("AdminNotFound");
        d.call(&channel, "get_supplieradmin", |w| w.i32(unknown)).raises("AdminNotFound");
    }
    d.call(&channel, "new_for_consumers", |w| w.u32(2)).raises("MARSHAL");
    d.get(&channel, "destroy");
    for gone in [&channel, &consumers, &suppliers, &consumer_admin, &supplier_admin] {
        d.call(gone, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    }
}

fn admins(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    for (side, operator) in [("consumer", AND), ("supplier", OR)] {
        let client_of_proxy = if side == "consumer" { "supplier" } else { "consumer" };
        let (admin, id) = d.made(&channel, &format!("new_for_{side}s"), operator);
        assert_eq!(d.number(&admin, "_get_MyID"), u32::try_from(id).unwrap());
        assert_eq!(d.number(&admin, "_get_MyOperator"), operator);
        assert_eq!(d.object(&admin, "_get_MyChannel"), channel);
        let look_up = format!("get_proxy_{client_of_proxy}");
        let mut objects = vec![admin.clone()];
        let mut last = 0;
        for (direction, first_type) in [("push", 0), ("pull", 1)] {
            let obtain = format!("obtain_notification_{direction}_{client_of_proxy}");
            let made = [ANY_EVENT, STRUCTURED_EVENT, SEQUENCE_EVENT].map(|form| d.made(&admin, &obtain, form));
            d.call(&admin, &obtain, |w| w.u32(3)).raises("MARSHAL");
            if direction == "push" {
                let with_qos = d.call(&admin, &format!("{obtain}_with_qos"), |w| {
                    w.u32(ANY_EVENT);
                    w.u32(0);
                });
                let (proxy, _) = with_qos.unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap()));
                d.get(&proxy, &format!("disconnect_push_{client_of_proxy}"));
            }
            let plain = d.object(&admin, &format!("obtain_{direction}_{client_of_proxy}"));
            assert_eq!(plain.type_id, plain_type(direction, client_of_proxy));
            d.call(&plain, "_get_MyType", |_| {}).raises("BAD_OPERATION");
            objects.push(plain);
            let ids = d.ids(&admin, &format!("_get_{direction}_{client_of_proxy}s"));
            assert_eq!(ids, made.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "those of one direction only");
            for (number, (proxy, id)) in made.into_iter().enumerate() {
                assert_eq!(d.look_up(&admin, &look_up, id).unwrap(), proxy);
                assert_eq!(d.object(&proxy, "_get_MyAdmin"), admin);
                assert_eq!(d.number(&proxy, "_get_MyType"), first_type + 2 * u32::try_from(number).unwrap());
                objects.push(proxy);
                last = id;
            }
        }
        // The last of all was one of the Event Service, which have no ids that clients get.
        for unknown in [last + 1, 4711, -1, i32::MIN] {
            d.call(&admin, &look_up, |w| w.i32(unknown)).raises("ProxyNotFound");
        }
        d.get(&admin, "destroy");
        for gone in &objects {
            d.call(gone, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
        }
    }
}

fn plain_type(direction: &str, what: &str) -> String {
    let what = if what == "consumer" { "Consumer" } else { "Supplier" };
    let direction = if direction == "push" { "Push" } else { "Pull" };
    format!("IDL:omg.org/CosEventChannelAdmin/Proxy{direction}{what}:1.0")
}

fn default_admins(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    for attribute in ["_get_default_consumer_admin", "_get_default_supplier_admin"] {
        let admin = d.object(&channel, attribute);
        d.call(&admin, "destroy", |_| {}).raises("NO_PERMISSION");
        assert_eq!(d.object(&channel, attribute), admin);
    }
}

fn proxy(d: &mut Dialogue, side: &str, form: u32) -> Ior {
    let (channel, _) = new_channel(d);
    let admin = d.object(&channel, &format!("for_{side}s"));
    let other = if side == "consumer" { "supplier" } else { "consumer" };
    d.made(&admin, &format!("obtain_notification_push_{other}"), form).0
}

fn event_service(d: &mut Dialogue) {
    let channel = d.bootstrap("EventService");
    let consumers = d.object(&channel, "for_consumers");
    let suppliers = d.object(&channel, "for_suppliers");
    let to_consumer = d.object(&consumers, "obtain_push_supplier");
    let from_supplier = d.object(&suppliers, "obtain_push_consumer");
    // They are of the Event Service and nothing more.
    d.give(&from_supplier, "connect_any_push_supplier", &Ior::nil()).raises("BAD_OPERATION");
    d.call(&to_consumer, "get_qos", |_| {}).raises("BAD_OPERATION");
}

fn useless_consumers(d: &mut Dialogue) {
    let proxy = proxy(d, "consumer", STRUCTURED_EVENT);
    let connect = "connect_structured_push_consumer";
    d.give(&proxy, connect, &Ior::nil()).raises("BAD_PARAM");
    let elsewhere = giop::ior::Profile::Other { tag: 4711, data: vec![1, 2, 3] };
    d.give(&proxy, connect, &Ior { type_id: String::new(), profiles: vec![elsewhere] }).raises("BAD_PARAM");
    let mut ebcdic = client("c");
    if let Some(giop::ior::Profile::Iiop(profile)) = ebcdic.profiles.first_mut() {
        let info = giop::codeset::CodeSetInfo {
            char_native: 0x1002_0417,
            char_conversions: vec![],
            ..giop::codeset::CodeSetInfo::campanile()
        };
        profile.components = vec![info.to_component()];
    }
    d.give(&proxy, connect, &ebcdic).raises("CODESET_INCOMPATIBLE");
    let mut huge = client("c");
    if let Some(giop::ior::Profile::Iiop(profile)) = huge.profiles.first_mut() {
        profile.key = vec![b'x'; 70_000];
    }
    // Its arguments are far too long to be cut at every length, so this call goes without.
    let mut args = Vec::new();
    let encoding = giop::cdr::Encoding::new(d.style.endian);
    huge.write(&mut giop::cdr::Writer::new(&mut args, encoding));
    let key = &proxy.iiop().unwrap().key;
    let call = crate::ObjectRequest {
        key,
        operation: connect,
        args: giop::cdr::Reader::new(&args, encoding),
        principal: somebody(),
    };
    let refused = d.protocol.handle(&call, &mut giop::cdr::Writer::new(&mut Vec::new(), encoding)).unwrap_err();
    let crate::Exception::System(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.kind, giop::exception::Kind::ImpLimit);
    assert!(!d.protocol.publish().unwrap().routing.channels().iter().any(|channel| channel.connected_consumers() > 0));
}

fn subscriptions(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    let mut objects = every_proxy(d, &channel);
    objects.extend(["for_consumers", "for_suppliers"].map(|admin| d.object(&channel, admin)));
    for object in &objects {
        let consumes = object.type_id.ends_with("Supplier:1.0") || object.type_id.contains("ConsumerAdmin");
        let change = if consumes { "subscription_change" } else { "offer_change" };
        {
            let mut changed = |added: &[(&str, &str)], removed: &[(&str, &str)]| {
                d.call(object, change, |w| {
                    write_types(added, w);
                    write_types(removed, w);
                })
            };
            changed(&[("ALMA", "Temperature"), ("*", "Al*")], &[("*", "%ALL")]).unwrap();
            changed(&[], &[]).unwrap();
            changed(&[], &[("never", "heard of")]).unwrap();
            changed(&[("a star", "anyw*here"), ("*MA", "x")], &[("x", "b**")]).unwrap();
        }
    }
}

fn admin_limits(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    d.call(&channel, "set_admin", |w| {
        w.u32(2);
        for name in ["MaxConsumers", "MaxSuppliers"] {
            w.string(name);
            w.u32(3); // tk_long
            w.i32(1);
        }
    })
    .unwrap();
    for (admin, obtain, plain, connect, limit) in [
        (
            "for_consumers",
            "obtain_notification_push_supplier",
            "obtain_push_supplier",
            "connect_structured_push_consumer",
            "MaxConsumers",
        ),
        (
            "for_suppliers",
            "obtain_notification_push_consumer",
            "obtain_push_consumer",
            "connect_structured_push_supplier",
            "MaxSuppliers",
        ),
    ] {
        let admin = d.object(&channel, admin);
        let first = d.made(&admin, obtain, STRUCTURED_EVENT).0;
        let second = d.made(&admin, obtain, STRUCTURED_EVENT).0;
        d.give(&first, connect, &client("first")).unwrap();
        d.give(&second, connect, &client("second")).raises("IMP_LIMIT");
        for refused in [d.call(&admin, obtain, |w| w.u32(STRUCTURED_EVENT)), d.call(&admin, plain, |_| {})] {
            refused.raises("AdminLimitExceeded").read(|r| {
                assert_eq!(r.text().unwrap(), limit);
                assert_eq!((r.u32().unwrap(), r.i32().unwrap()), (3, 1));
            });
        }
    }
}

fn properties(d: &mut Dialogue) {
    let (channel, _) = new_channel(d);
    let mut objects = every_proxy(d, &channel);
    for proxy in &objects {
        d.call(proxy, "validate_event_qos", |w| w.u32(0)).unwrap();
        let one = |w: &mut giop::cdr::Writer<'_>| {
            w.u32(1);
            w.string("MaximumBatchSize");
            w.u32(0);
        };
        d.call(proxy, "validate_event_qos", one).raises("UnsupportedQoS");
    }
    objects.extend(["for_consumers", "for_suppliers"].map(|admin| d.object(&channel, admin)));
    objects.push(channel.clone());
    for object in &objects {
        d.get(object, "get_qos");
        for operation in ["set_qos", "validate_qos"] {
            d.call(object, operation, |w| w.u32(0)).unwrap();
            d.call(object, operation, |w| {
                w.u32(1);
                w.string("NoSuchThing");
                w.u32(0);
            })
            .raises("UnsupportedQoS");
        }
    }
    d.get(&channel, "get_admin");
    d.call(&channel, "set_admin", |w| {
        w.u32(1);
        w.string("NoSuchThing");
        w.u32(0);
    })
    .raises("UnsupportedAdmin");
}

fn object_operations(d: &mut Dialogue) {
    let factory = d.bootstrap("NotificationService");
    let (channel, _) = new_channel(d);
    let consumers = d.object(&channel, "for_consumers");
    let suppliers = d.object(&channel, "for_suppliers");
    let naming = d.bootstrap("NameService");
    let scheduling = d.bootstrap("SchedulingService");
    let mut objects = vec![factory, channel, consumers.clone(), suppliers.clone(), naming, scheduling];
    objects.extend(every_proxy(d, &objects[1].clone()));
    objects.push(d.object(&consumers, "obtain_push_supplier"));
    objects.push(d.object(&consumers, "obtain_pull_supplier"));
    objects.push(d.object(&suppliers, "obtain_push_consumer"));
    objects.push(d.object(&suppliers, "obtain_pull_consumer"));
    for object in &objects {
        let servant = super::dialogue::servant_of(&d.protocol, &object.iiop().unwrap().key).unwrap();
        let own: BTreeSet<&str> = servant.iter().map(|i| i.id).chain(["IDL:omg.org/CORBA/Object:1.0"]).collect();
        for (_, id) in conformance::interfaces() {
            let is_a = d.call(object, "_is_a", |w| w.string(id)).unwrap().read(|r| r.bool().unwrap());
            assert_eq!(is_a, own.contains(id), "{} is a {id}", table::type_id(servant));
        }
        assert!(!d.call(object, "_is_a", |w| w.string("IDL:x:1.0")).unwrap().read(|r| r.bool().unwrap()));
        assert!(!d.get(object, "_non_existent").read(|r| r.bool().unwrap()));
        assert!(!d.get(object, "_not_existent").read(|r| r.bool().unwrap()));
        assert_eq!(d.get(object, "_repository_id").read(|r| r.text().unwrap()), table::type_id(servant));
        assert!(d.object(object, "_component").is_nil());
        d.call(object, "_interface", |_| {}).raises("INTF_REPOS");
        for left_out in ["_domain_managers", "_get_domain_managers", "_implementation"] {
            d.call(object, left_out, |_| {}).raises("NO_IMPLEMENT");
        }
        d.call(object, "_get_policy", |w| w.u32(37)).raises("NO_IMPLEMENT");
        for unknown in ["", "get_QoS", "nonsense", "_get_", "destroy_all"] {
            d.call(object, unknown, |_| {}).raises("BAD_OPERATION");
        }
        assert!(d.protocol.objects.locate(&object.iiop().unwrap().key));
    }
    assert!(!d.protocol.objects.locate(b"nobody"));
    let nobody = d.bootstrap("nobody");
    d.call(&nobody, "_is_a", |w| w.string("IDL:x:1.0")).raises("OBJECT_NOT_EXIST");
}

fn naming(d: &mut Dialogue) {
    crate::naming::tests::every_operation(d);
}

fn naming_ext(d: &mut Dialogue) {
    crate::naming::tests::every_ext_operation(d);
}

#[test]
fn a_name_that_two_interfaces_declare_means_the_same_in_both() {
    // `destroy` of an event channel, for one, is inherited; nothing may be answered by whichever table comes first.
    for servant in SERVANTS {
        let mut seen = BTreeSet::new();
        for operation in servant.iter().flat_map(|interface| interface.operations) {
            assert!(seen.insert(operation.name), "{} twice in {}", operation.name, table::type_id(servant));
        }
    }
}

#[test]
fn subscriptions_reach_the_routing() {
    let mut d = Dialogue::new(Style { version: Version::V1_2, endian: Endian::Big });
    let proxy = proxy(&mut d, "consumer", STRUCTURED_EVENT);
    d.give(&proxy, "connect_structured_push_consumer", &client("c")).unwrap();
    d.call(&proxy, "subscription_change", |w| {
        write_types(&[("ALMA", "Temp*")], w);
        write_types(&[("*", "*")], w);
    })
    .unwrap();
    let published = d.protocol.publish().unwrap();
    let key = published.directory.proxy(&key_of(&proxy)).unwrap();
    assert_eq!(published.routing.channel(key.channel).unwrap().consumers().next().unwrap().key, key);
    let types = d.protocol.objects.hierarchy().subscribed_types(key.channel).unwrap();
    assert!(types.iter().any(|kind| kind.matches(b"ALMA", b"Temperature")));
    assert!(!types.iter().any(|kind| kind.matches(b"ALMA", b"Pressure")));
    assert!(d.protocol.publish().is_none(), "nothing has changed since");
}
