//! What clients written for TAO's service expect beside the standard: names, the reconnection registry, filters' numbers; and omniEvents'
//! factory.

use super::dialogue::{Body, Dialogue, Expect, STYLES, Thrown, client, settings};
use super::objects::new_channel;
use crate::{ClientAnswer, ClientCall, Effect};
use engine::Time;
use giop::ior::Ior;
use giop::typecode::Work;
use giop::value::AnyValue;
use std::collections::BTreeSet;
use std::time::Duration;

const STRUCTURED_EVENT: u32 = 1;
const EXT: &str = "IDL:NotifyExt";
const MONITORING: &str = "IDL:sandia.gov/NotifyMonitoringExt";

fn create_named(d: &mut Dialogue, name: &str) -> Result<(Ior, i32), Thrown> {
    let factory = d.bootstrap("NotifyEventChannelFactory");
    let made = d.call(&factory, "create_named_channel", |w| {
        w.u32(0);
        w.u32(0);
        w.string(name);
    });
    Ok(made?.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())))
}

fn obtain_named(d: &mut Dialogue, admin: &Ior, what: &str, name: &str) -> Result<(Ior, i32), Thrown> {
    let made = d.call(admin, &format!("obtain_named_notification_push_{what}"), |w| {
        w.u32(STRUCTURED_EVENT);
        w.string(name);
    });
    Ok(made?.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())))
}

fn register(d: &mut Dialogue, callback: &Ior) -> Result<i32, Thrown> {
    let factory = d.bootstrap("NotifyEventChannelFactory");
    Ok(d.give(&factory, "register_callback", callback)?.read(|r| r.i32().unwrap()))
}

fn is_a(d: &mut Dialogue, object: &Ior, id: &str) -> bool {
    d.call(object, "_is_a", |w| w.string(id)).unwrap().read(|r| r.bool().unwrap())
}

pub(super) fn types(d: &mut Dialogue) {
    let factory = d.bootstrap("NotifyEventChannelFactory");
    let (channel, _) = new_channel(d);
    let default = d.bootstrap("DefaultEventChannel");
    let mut objects = vec![(d.protocol.objects.factory_reference(), "EventChannelFactory")];
    for channel in [channel, default] {
        objects.push((d.object(&channel, "_get_default_consumer_admin"), "ConsumerAdmin"));
        objects.push((d.object(&channel, "_get_default_supplier_admin"), "SupplierAdmin"));
        objects.push((d.made(&channel, "new_for_consumers", 0).0, "ConsumerAdmin"));
        objects.push((d.object(&objects[objects.len() - 1].0.clone(), "_get_MyChannel"), "EventChannel"));
    }
    for (object, kind) in &objects {
        assert_eq!(object.type_id, format!("{MONITORING}/{kind}:1.0"), "the most derived type");
        let of_omg = format!("IDL:omg.org/CosNotifyChannelAdmin/{kind}:1.0");
        assert!(is_a(d, object, &object.type_id) && is_a(d, object, &of_omg), "{kind}");
        assert_eq!(is_a(d, object, &format!("{EXT}/{kind}:1.0")), *kind != "EventChannel", "TAO has none for channels");
        assert!(!is_a(d, object, "IDL:sandia.gov/NotifyMonitoringExt/Other:1.0"));
    }
    assert!(is_a(d, &factory, &format!("{EXT}/ReconnectionRegistry:1.0")));
    d.get(&factory, "save_topology");
    d.call(&factory, "destroy", |_| {}).raises("NO_PERMISSION");
    assert!(d.get(&factory, "is_alive").read(|r| r.bool().unwrap()));
    d.get(&factory, "get_all_channels");
}

pub(super) fn names(d: &mut Dialogue) {
    let (channel, id) = create_named(d, "CONTROL_SYSTEM").unwrap();
    create_named(d, "CONTROL_SYSTEM").raises("NameAlreadyUsed");
    create_named(d, "").raises("NameMapError");
    let factory = d.bootstrap("NotifyEventChannelFactory");
    assert_eq!(d.look_up(&factory, "get_event_channel", id).unwrap(), channel);
    let (longest, _) = create_named(d, &"x".repeat(1024)).unwrap();
    d.get(&longest, "destroy");
    create_named(d, &"x".repeat(1025)).raises("NameMapError");

    for (side, what) in [("consumers", "supplier"), ("suppliers", "consumer")] {
        let named_new = |d: &mut Dialogue, name: &str| {
            let made = d.call(&channel, &format!("named_new_for_{side}"), |w| {
                w.u32(1);
                w.string(name);
            });
            Ok::<_, Thrown>(made?.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())))
        };
        let (admin, _) = named_new(d, "an admin").unwrap();
        assert_eq!(d.number(&admin, "_get_MyOperator"), 1);
        named_new(d, "an admin").raises("NameAlreadyUsed");
        named_new(d, "").raises("NameMapError");
        let other = d.object(&channel, &format!("for_{side}"));
        let (proxy, number) = obtain_named(d, &admin, what, "dish-17").unwrap();
        assert_eq!(d.look_up(&admin, &format!("get_proxy_{what}"), number).unwrap(), proxy);
        for admin in [&admin, &other] {
            obtain_named(d, admin, what, "dish-17").raises("NameAlreadyUsed");
            obtain_named(d, admin, what, "").raises("NameMapError");
        }
        // The name is free when the proxy is gone, and so is the admin's with the admin.
        d.get(&proxy, &format!("disconnect_structured_push_{what}"));
        obtain_named(d, &other, what, "dish-17").unwrap();
        d.get(&admin, "destroy");
        named_new(d, "an admin").unwrap();
    }
    d.get(&channel, "destroy");
    let (again, other) = create_named(d, "CONTROL_SYSTEM").unwrap();
    assert_ne!((&again, other), (&channel, id));
    let admin = d.object(&again, "for_consumers");
    obtain_named(d, &admin, "supplier", "dish-17").unwrap();
}

pub(super) fn registry(d: &mut Dialogue) {
    assert_eq!(register(d, &client("one")).unwrap(), 0);
    assert_eq!(register(d, &client("other")).unwrap(), 1);
    assert_eq!(register(d, &client("one")).unwrap(), 0, "it is registered already");
    register(d, &Ior::nil()).raises("BAD_PARAM");
    let own = d.protocol.objects.factory_reference();
    register(d, &own).raises("BAD_PARAM");
    let factory = d.bootstrap("NotifyEventChannelFactory");
    for id in [0, 0, 99, -1] {
        d.call(&factory, "unregister_callback", |w| w.i32(id)).unwrap();
    }
    assert_eq!(register(d, &client("one")).unwrap(), 2, "numbers are not used again");
}

pub(super) fn filter_numbers(d: &mut Dialogue) {
    let ((one, _), (other, _)) = (new_channel(d), new_channel(d));
    let (factory, elsewhere) =
        (d.object(&one, "_get_default_filter_factory"), d.object(&other, "_get_default_filter_factory"));
    assert_eq!(factory.type_id, "IDL:CosNotifyFilterExt/FilterFactory:1.0");
    let make = |d: &mut Dialogue| {
        let made = d.call(&factory, "create_filter", |w| w.string("ETCL")).unwrap();
        made.read(|r| Ior::read(r).unwrap())
    };
    let filter = make(d);
    let id = d.give(&factory, "get_filterid", &filter).unwrap().read(|r| r.i32().unwrap());
    assert_eq!(d.look_up(&factory, "get_filter", id).unwrap(), filter);
    assert_eq!(d.look_up(&elsewhere, "get_filter", id).unwrap(), Ior::nil());
    d.give(&elsewhere, "get_filterid", &filter).raises("BAD_PARAM");
    d.give(&elsewhere, "remove_filter", &filter).raises("FilterNotFound");
    d.give(&factory, "remove_filter", &filter).unwrap();
    d.give(&factory, "remove_filter", &filter).raises("FilterNotFound");
    d.call(&filter, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
}

pub(super) fn generic_factory(d: &mut Dialogue) {
    let key = |parts: &[(&str, &str)], w: &mut giop::cdr::Writer<'_>| {
        w.length(parts.len());
        for (id, kind) in parts {
            w.string(id);
            w.string(kind);
        }
    };
    let event_channel = [("EventChannel", "object interface")];
    for factory in ["EventChannelFactory", "omniEvents", "EventService"].map(|key| d.bootstrap(key)) {
        // What clients of omniEvents narrow to was said not to be there.
        for id in [
            "IDL:omg.org/CosLifeCycle/GenericFactory:1.0",
            "IDL:omni/omniEvents/EventChannelFactory:1.0",
            "IDL:EventChannelAdmin/EventChannelFactory:1.0",
        ] {
            assert!(is_a(d, &factory, id), "{id}");
        }
        for (parts, is_made) in [(&event_channel[..], true), (&[("EventChannel", "")][..], false), (&[][..], false)] {
            let supported = d.call(&factory, "supports", |w| key(parts, w)).unwrap();
            assert_eq!(supported.read(|r| r.bool().unwrap()), is_made, "{parts:?}");
        }
        let make = |d: &mut Dialogue, name: &str| -> Result<Ior, Thrown> {
            let made = d.call(&factory, "create_object", |w| {
                key(&event_channel, w);
                w.u32(1);
                w.string("InsName");
                w.u32(18);
                w.u32(0);
                w.string(name);
            });
            Ok(made?.read(|r| Ior::read(r).unwrap()))
        };
        let made = make(d, "IDM_Channel").unwrap();
        assert_eq!(make(d, "IDM_Channel").unwrap(), made, "one that is there is given");
        let (count, name, value) = make(d, "").raises("InvalidCriteria").read(|r| {
            let (count, name) = (r.u32().unwrap(), r.text().unwrap());
            (count, name, AnyValue::read(r, &mut Work::default()).unwrap())
        });
        // The value was null, which said nothing of what was wrong with it.
        assert_eq!((count, &*name, value), (1, "InsName", "".into()));
        // By `corbaloc::HOST:PORT/IDM_Channel`.
        let found = d.bootstrap("IDM_Channel");
        assert!(is_a(d, &found, "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0"));
        assert!(is_a(d, &found, "IDL:omni/omniEvents/EventChannel:1.0"));
        // A client's ORB takes the two references for the same object: they differ in nothing that it looks at.
        let address = |reference: &Ior| reference.iiop().map(|at| (at.host.clone(), at.port, at.key.clone())).unwrap();
        assert_eq!(address(&made).2, b"IDM_Channel");
        assert_eq!(d.object(&found, "for_consumers"), d.object(&made, "for_consumers"));
        d.get(&made, "destroy");
        d.call(&found, "for_consumers", |_| {}).raises("OBJECT_NOT_EXIST");
        let unnamed = d.call(&factory, "create_object", |w| {
            key(&event_channel, w);
            w.u32(0);
        });
        let unnamed = unnamed.unwrap().read(|r| Ior::read(r).unwrap());
        d.get(&unnamed, "destroy");
        let wrong = |d: &mut Dialogue, parts: &[(&str, &str)]| {
            d.quick(&factory, "create_object", |w| {
                key(parts, w);
                w.u32(0);
            })
        };
        wrong(d, &[("Nothing", "")]).raises("NoFactory");
        wrong(d, &[("Nothing", ""); 65]).raises("IMP_LIMIT");
    }
}

/// omniEvents refuses its numbers with another type, and says which; here they were not looked at.
#[test]
fn a_criterion_of_another_type_is_invalid_and_named() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = d.bootstrap("omniEvents");
    for name in ["CyclePeriod_ns", "MaxNumProxies", "MaxQueueLength", "PullRetryPeriod", "PullRetryPeriod_ms"] {
        let mut make = |value: &AnyValue| {
            d.quick(&factory, "create_object", |w| {
                w.length(1);
                w.string("EventChannel");
                w.string("object interface");
                w.u32(1);
                w.string(name);
                value.write(w).unwrap();
            })
        };
        for wrong in [AnyValue::from("7"), AnyValue::from(-1_i32), AnyValue::from(1_u64 << 32)] {
            let notified = make(&wrong).raises("InvalidCriteria").read(|r| {
                let (count, name) = (r.u32().unwrap(), r.text().unwrap());
                (count, name, AnyValue::read(r, &mut Work::default()).unwrap())
            });
            assert_eq!(notified, (1, name.to_owned(), wrong));
        }
        let made = Ior::read(&mut make(&AnyValue::from(7_u32)).unwrap().reader()).unwrap();
        d.get(&made, "destroy");
    }
}

/// Two protocols: one that was used, and one that begins with what it kept.
fn restarted(before: &Dialogue, nonce_seed: u64) -> Dialogue {
    let mut after = Dialogue::with(STYLES[5], settings(nonce_seed));
    after.protocol.restore(&before.protocol.objects.topology()).unwrap();
    after.effects();
    after
}

fn connect(d: &mut Dialogue, proxy: &Ior, who: &str) -> Result<Body, Thrown> {
    d.give(proxy, "connect_structured_push_consumer", &client(who))
}

#[test]
fn names_outlive_the_process() {
    let mut d = Dialogue::new(STYLES[5]);
    let (channel, _) = create_named(&mut d, "A").unwrap();
    let admin = d.object(&channel, "for_suppliers");
    let (proxy, _) = obtain_named(&mut d, &admin, "consumer", "p").unwrap();
    let mut after = restarted(&d, 9);
    create_named(&mut after, "A").raises("NameAlreadyUsed");
    // No client was connected to it, so none is taken for the former one.
    obtain_named(&mut after, &admin, "consumer", "p").raises("NameAlreadyUsed");
    after.call(&proxy, "_non_existent", |_| {}).unwrap();
    create_named(&mut after, "B").unwrap();
}

/// ALMA's clients make their proxies anew when they hear of a restart, and would get each event twice.
#[test]
fn a_client_that_asks_for_its_name_after_a_restart_is_not_there_twice() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let admin = d.object(&channel, "for_consumers");
    let (former, _) = obtain_named(&mut d, &admin, "supplier", "p").unwrap();
    connect(&mut d, &former, "before").unwrap();
    obtain_named(&mut d, &admin, "supplier", "p").raises("NameAlreadyUsed");
    let mut after = restarted(&d, 9);
    let (anew, _) = obtain_named(&mut after, &admin, "supplier", "p").unwrap();
    assert_ne!(anew, former);
    after.call(&former, "_non_existent", |_| {}).unwrap();
    obtain_named(&mut after, &admin, "supplier", "p").raises("NameAlreadyUsed");
    // Its reference is another one than before.
    connect(&mut after, &anew, "after").unwrap();
    after.call(&former, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    assert_eq!(after.protocol.objects.topology().channels[0].proxies.len(), 1);
    assert_eq!(after.notified(), [], "no client is notified of a disconnection");
}

/// At a channel that was full it could not be made anew: the proxy that had its name was counted, too.
#[test]
fn a_client_that_asks_for_its_name_after_a_restart_has_its_place_where_there_is_no_other() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let one = |w: &mut giop::cdr::Writer<'_>| {
        w.u32(1);
        w.string("MaxConsumers");
        w.u32(3); // tk_long
        w.i32(1);
    };
    d.call(&channel, "set_admin", one).unwrap();
    let admin = d.object(&channel, "for_consumers");
    let (former, _) = obtain_named(&mut d, &admin, "supplier", "p").unwrap();
    connect(&mut d, &former, "before").unwrap();
    let mut after = restarted(&d, 9);
    let (anew, _) = obtain_named(&mut after, &admin, "supplier", "p").unwrap();
    connect(&mut after, &anew, "after").unwrap();
    after.call(&former, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    obtain_named(&mut after, &admin, "supplier", "q").raises("AdminLimitExceeded");
}

/// What callbacks are asked, by their objects' keys.
fn called(d: &mut Dialogue) -> Vec<(String, ClientCall)> {
    let factory = d.protocol.objects.factory_reference();
    let called = d.effects().into_iter().filter_map(|effect| match effect {
        Effect::Ask { client_call, to, operation: "reconnect", body, .. } => {
            let encoding = giop::cdr::Encoding::new(giop::cdr::Endian::NATIVE);
            assert_eq!(Ior::read(&mut giop::cdr::Reader::new(&body, encoding)).unwrap(), factory);
            Some((String::from_utf8(to.iiop().unwrap().key.clone()).unwrap(), client_call))
        }
        _ => None,
    });
    called.collect()
}

fn registered(d: &Dialogue) -> Vec<u32> {
    d.protocol.objects.topology().registrations.iter().map(|callback| callback.id).collect()
}

#[test]
fn callbacks_are_notified_after_a_restart_that_the_service_is_there() {
    let mut d = Dialogue::new(STYLES[5]);
    for who in ["fine", "raises", "gone", "away", "mute", "unregistered"] {
        register(&mut d, &client(who)).unwrap();
    }
    d.protocol.handle_time(Time::default() + Duration::from_secs(1));
    assert_eq!(called(&mut d), [], "there was no restart");
    let factory = d.bootstrap("NotifyEventChannelFactory");
    d.call(&factory, "unregister_callback", |w| w.i32(5)).unwrap();

    let mut after = restarted(&d, 9);
    let mut now = Time::default() + Duration::from_secs(10);
    after.protocol.handle_time(now);
    let first = called(&mut after);
    assert_eq!(
        first.iter().map(|(who, _)| who.as_str()).collect::<Vec<_>>(),
        ["fine", "raises", "gone", "away", "mute"]
    );
    for (who, client_call) in first {
        let answer = match who.as_str() {
            "fine" => ClientAnswer::Returned(None),
            "raises" => ClientAnswer::Raised,
            "gone" => ClientAnswer::Gone,
            "away" => ClientAnswer::Unreachable,
            _ => ClientAnswer::TimedOut,
        };
        after.protocol.handle_answer(client_call, answer);
    }
    // One that raises an exception is not taken for dead.
    assert_eq!(registered(&after), [0, 1, 3, 4]);
    let mut pauses = Vec::new();
    let begun = now;
    while registered(&after).contains(&3) {
        let due = after.protocol.poll_timeout().unwrap();
        pauses.push(due.since(now).as_secs());
        now = due;
        after.protocol.handle_time(now);
        for (who, client_call) in called(&mut after) {
            let answer = if who == "away" { ClientAnswer::Unreachable } else { ClientAnswer::Returned(None) };
            assert!(who == "away" || who == "mute", "{who} was notified");
            after.protocol.handle_answer(client_call, answer);
        }
        assert!(pauses.len() < 1_000, "{pauses:?}");
    }
    assert_eq!(pauses[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!(now.since(begun).as_secs() / 3600, 24);
    assert_eq!(registered(&after), [0, 1, 4]);
    assert_eq!(register(&mut after, &client("another")).unwrap(), 6, "numbers are not used again");
}

#[test]
fn callbacks_are_notified_a_few_at_a_time_and_are_not_more_than_so_many() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = d.bootstrap("NotifyEventChannelFactory");
    for number in 0..4_096 {
        d.quick(&factory, "register_callback", |w| client(&number.to_string()).write(w)).unwrap();
    }
    d.quick(&factory, "register_callback", |w| client("one more").write(w)).raises("IMP_LIMIT");
    let mut after = restarted(&d, 9);
    after.protocol.handle_time(Time::default());
    let (mut notified, mut waiting) = (BTreeSet::new(), called(&mut after));
    assert_eq!(waiting.len(), 64);
    while let Some((who, client_call)) = waiting.pop() {
        assert!(notified.insert(who));
        after.protocol.handle_answer(client_call, ClientAnswer::Returned(None));
        waiting.extend(called(&mut after));
        assert!(waiting.len() <= 64);
    }
    assert_eq!(notified.len(), 4_096);
}

/// What programs that ended in the meantime had registered filled the registry for good.
#[test]
fn a_callback_that_is_gone_or_cannot_be_reached_gives_way_where_there_is_no_room() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = d.bootstrap("NotifyEventChannelFactory");
    let register = |d: &mut Dialogue, who: &str| d.quick(&factory, "register_callback", |w| client(who).write(w));
    for number in 0..4_096 {
        register(&mut d, &number.to_string()).unwrap();
    }
    let mut called = BTreeSet::new();
    // Some are asked each time, until all have been.
    for round in 1..=64 {
        register(&mut d, "one more").raises("IMP_LIMIT");
        for effect in d.effects() {
            let Effect::Ask { client_call, to, operation: "_non_existent", .. } = effect else { continue };
            called.insert(to.iiop().unwrap().key.clone());
            d.protocol.handle_answer(client_call, ClientAnswer::Returned(Some(false)));
        }
        assert_eq!(called.len(), 64 * round);
    }
    for (answer, number) in
        [(ClientAnswer::Gone, 4_096), (ClientAnswer::Returned(Some(true)), 4_097), (ClientAnswer::Unreachable, 4_098)]
    {
        register(&mut d, &number.to_string()).raises("IMP_LIMIT");
        for (at, effect) in d.effects().into_iter().enumerate() {
            let Effect::Ask { client_call, .. } = effect else { continue };
            d.protocol.handle_answer(client_call, if at == 5 { answer } else { ClientAnswer::Raised });
        }
        let made = register(&mut d, &number.to_string()).unwrap().read(|r| r.i32().unwrap());
        assert_eq!((made, registered(&d).len()), (number, 4_096));
    }
}

/// With a restart each night, what could not be reached was never forgotten.
#[test]
fn how_long_a_callback_could_not_be_reached_outlives_the_process() {
    let mut d = Dialogue::new(STYLES[5]);
    register(&mut d, &client("away")).unwrap();
    let fails = |d: &mut Dialogue, hours: u64| {
        let end = Time::default() + Duration::from_secs(hours * 3_600);
        while let Some(now) = d.protocol.poll_timeout().filter(|due| *due <= end) {
            d.protocol.handle_time(now);
            for (_, client_call) in called(d) {
                d.protocol.handle_answer(client_call, ClientAnswer::Unreachable);
            }
        }
    };
    let mut once = restarted(&d, 9);
    fails(&mut once, 20);
    assert_eq!(registered(&once), [0]);
    let mut twice = restarted(&once, 10);
    fails(&mut twice, 3);
    assert_eq!(registered(&twice), [0]);
    fails(&mut twice, 5);
    assert_eq!(registered(&twice), Vec::<u32>::new());
    // Of one that answers in between it begins anew.
    let mut other = restarted(&once, 10);
    other.protocol.handle_time(Time::default());
    for (_, client_call) in called(&mut other) {
        other.protocol.handle_answer(client_call, ClientAnswer::Returned(None));
    }
    assert_eq!(other.protocol.objects.topology().registrations[0].unreachable_s, 0);
}
