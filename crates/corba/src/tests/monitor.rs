//! TAO's monitor and control object.

use super::dialogue::{Body, Dialogue, Expect, STYLES, Thrown, client, settings};
use crate::{ChannelFigures, Compatibility, Effect, Monitor, ProtocolSettings};
use engine::{ChannelId, ProxyId, ProxyKey};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use giop::typecode::Work;
use giop::value::AnyValue;
use std::time::Duration;

const FACTORY: &str = "NotifyEventChannelFactory";

/// A statistic as it was returned.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// Count, average, sum of squares, minimum, maximum and last.
    Numeric(u32, [f64; 5]),
    Text(Vec<String>),
}

fn read_names(r: &mut Reader<'_>) -> Vec<String> {
    (0..r.u32().unwrap()).map(|_| r.text().unwrap()).collect()
}

fn read_value(r: &mut Reader<'_>) -> (String, Value) {
    let name = r.text().unwrap();
    let value = match r.u32().unwrap() {
        0 => {
            assert_eq!(r.u32().unwrap(), 1, "the last value, with its time");
            r.u64().unwrap();
            let last = r.f64().unwrap();
            let (count, reported) = (r.u32().unwrap(), [0; 5].map(|_| r.f64().unwrap()));
            assert_eq!(reported[4].to_bits(), last.to_bits());
            Value::Numeric(count, reported)
        }
        _ => Value::Text(read_names(r)),
    };
    (name, value)
}

fn statistic(d: &mut Dialogue, name: &str) -> Result<Value, Thrown> {
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    // Once only: each time it is asked for counts.
    let reported = d.quick(&monitor, "get_statistic", |w| w.string(name))?.read(read_value);
    assert_eq!(reported.0, name);
    Ok(reported.1)
}

fn last(d: &mut Dialogue, name: &str) -> f64 {
    match statistic(d, name).unwrap() {
        Value::Numeric(_, [.., last]) => last,
        text => panic!("{text:?}"),
    }
}

fn names(d: &mut Dialogue, name: &str) -> Vec<String> {
    match statistic(d, name).unwrap() {
        Value::Text(names) => names,
        number => panic!("{number:?}"),
    }
}

fn named_channel(d: &mut Dialogue, name: &str) -> Ior {
    let factory = d.bootstrap(FACTORY);
    let made = d.quick(&factory, "create_named_channel", |w| {
        w.u64(0);
        w.string(name);
    });
    Ior::read(&mut made.unwrap().reader()).unwrap()
}

fn obtain(d: &mut Dialogue, admin: &Ior, what: &str, name: &str) -> Ior {
    let made = d.quick(admin, &format!("obtain_named_notification_push_{what}"), |w| {
        w.u32(1);
        w.string(name);
    });
    Ior::read(&mut made.unwrap().reader()).unwrap()
}

fn write_names(names: &[&str], w: &mut Writer<'_>) {
    w.length(names.len());
    names.iter().for_each(|name| w.string(name));
}

/// A channel called `C/1` with a supplier and two consumers, and one admin more than it has from the start.
fn scene(d: &mut Dialogue) -> Ior {
    let channel = named_channel(d, "C/1");
    let (consumers, suppliers) = (d.object(&channel, "for_consumers"), d.object(&channel, "for_suppliers"));
    obtain(d, &suppliers, "consumer", "s");
    for who in ["one", "two"] {
        let proxy = obtain(d, &consumers, "supplier", who);
        d.give(&proxy, "connect_structured_push_consumer", &client(who)).unwrap();
    }
    d.quick(&channel, "named_new_for_consumers", |w| {
        w.u32(0);
        w.string("a");
    })
    .unwrap();
    channel
}

pub(super) fn statistics(d: &mut Dialogue) {
    scene(d);
    let path = |rest: &str| format!("{FACTORY}/{rest}");
    assert_eq!(names(d, "FactoryNames"), [FACTORY]);
    assert_eq!(names(d, &path("ActiveEventChannelNames")), [path("C/1")]);
    assert_eq!(names(d, &path("InactiveEventChannelNames")), [path("0")], "the default channel, by its number");
    assert_eq!((last(d, &path("ActiveEventChannelCount")), last(d, &path("InactiveEventChannelCount"))), (1.0, 1.0));
    // By its name and by its number.
    for channel in ["C/1", "1"] {
        let of = |rest: &str| path(&format!("{channel}/{rest}"));
        assert_eq!((last(d, &of("ConsumerCount")), last(d, &of("SupplierCount"))), (2.0, 1.0));
        assert_eq!(names(d, &of("ConsumerNames")), [path("C/1/one"), path("C/1/two")]);
        assert_eq!(names(d, &of("SupplierNames")), [path("C/1/s")]);
        assert_eq!((last(d, &of("ConsumerAdminCount")), last(d, &of("SupplierAdminCount"))), (1.0, 0.0));
        // The default ones were made by no client, and TAO does not count them.
        assert_eq!(names(d, &of("ConsumerAdminNames")), [path("C/1/a")]);
        assert_eq!(names(d, &of("SupplierAdminNames")), Vec::<String>::new());
    }
    lanes(d, &path("C/1/"));
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    let all = d.get(&monitor, "get_statistic_names").read(read_names);
    assert_eq!(all.len(), 1 + 4 + 2 * 13);
    for name in &all {
        statistic(d, name).unwrap();
    }
    for (unknown, valid) in [
        ("", all.clone()),
        ("Other/ActiveEventChannelCount", all.clone()),
        (&*path("C/2/ConsumerCount"), all.clone()),
        (&*path("C/1/ConsumerCounts"), all.iter().filter(|name| name.contains("C/1/")).cloned().collect()),
    ] {
        let raised = d.call(&monitor, "get_statistic", |w| w.string(unknown)).raises("InvalidName");
        assert_eq!(raised.read(read_names), valid, "{unknown}");
        for many in ["get_statistics", "get_and_clear_statistics", "clear_statistics"] {
            d.call(&monitor, many, |w| write_names(&[&all[0], unknown], w)).raises("InvalidName");
        }
    }
    d.quick(&monitor, "get_statistics", |w| w.length(1_025)).raises("MARSHAL");
    d.quick(&monitor, "get_statistics", |w| write_names(&["x"; 1_025], w)).raises("IMP_LIMIT");
}

/// What only lanes know, as it is handed in; and that numbers are remembered until they are cleared.
fn lanes(d: &mut Dialogue, path: &str) {
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    let key = monitor.iiop().unwrap().key.clone();
    let size = format!("{path}QueueSize");
    let asks = |d: &Dialogue, operation: &str, name: &str, many: bool| {
        let (mut body, encoding) = (Vec::new(), giop::cdr::Encoding::new(giop::cdr::Endian::Big));
        let mut w = Writer::new(&mut body, encoding);
        if many {
            write_names(&[name, name], &mut w)
        } else {
            w.string(name)
        }
        Monitor::channels_queried(&d.protocol.objects, &key, operation, Reader::new(&body, encoding))
    };
    let channel = ChannelId(1);
    assert_eq!(asks(d, "get_statistic", &size, false), Some(vec![channel]));
    assert_eq!(asks(d, "get_statistics", &size, true), Some(vec![channel]));
    assert_eq!(asks(d, "clear_statistics", &size, true), None);
    assert_eq!(
        asks(d, "get_statistic", &format!("{path}ConsumerCount"), false),
        None,
        "the protocol knows that itself"
    );
    assert_eq!(asks(d, "get_statistic", "nothing", false), None);
    let slowest = vec![ProxyKey { channel, proxy: ProxyId(2) }, ProxyKey { channel, proxy: ProxyId(1) }];
    let figures = |backlog_bytes| ChannelFigures {
        backlog_events: 7,
        backlog_bytes,
        oldest: Some(Duration::from_secs(3)),
        slowest: slowest.clone(),
        overflows: 5,
    };
    // 13 July 2017, 02:40:00 UTC.
    d.protocol.objects.handle_utc(0x01B2_1DD2_1381_4000 + 1_499_913_600 * 10_000_000);
    let reported = |d: &mut Dialogue, bytes: u64, statistic_name: &str| {
        d.protocol.monitor.handle_figures([(channel, figures(bytes))]);
        statistic(d, &format!("{path}{statistic_name}")).unwrap()
    };
    assert!(matches!(reported(d, 0, "QueueElementCount"), Value::Numeric(1, [.., last]) if last == 7.0));
    assert!(matches!(reported(d, 0, "QueueOverflows"), Value::Numeric(1, [.., last]) if last == 5.0));
    assert!(matches!(reported(d, 0, "OldestEvent"), Value::Numeric(1, [.., last]) if last == 1_499_913_597.0));
    let slowest = [path.to_owned() + "two", path.to_owned() + "one"];
    assert_eq!(reported(d, 0, "SlowestConsumers"), Value::Text(slowest.to_vec()));
    assert_eq!(reported(d, 10, "QueueSize"), Value::Numeric(1, [10.0, 100.0, 10.0, 10.0, 10.0]));
    assert_eq!(reported(d, 30, "QueueSize"), Value::Numeric(2, [20.0, 1000.0, 10.0, 30.0, 30.0]));
    assert_eq!(reported(d, 20, "QueueSize"), Value::Numeric(3, [20.0, 1400.0, 10.0, 30.0, 20.0]));
    let all = |d: &mut Dialogue, operation: &str| {
        d.protocol.monitor.handle_figures([(channel, figures(4))]);
        let reported = d.quick(&monitor, operation, |w| write_names(&[&size], w)).unwrap();
        reported.read(|r| (r.u32().unwrap(), read_value(r)))
    };
    let (one, (name, value)) = all(d, "get_and_clear_statistics");
    assert_eq!((one, name), (1, size.clone()));
    assert_eq!(value, Value::Numeric(4, [16.0, 1416.0, 4.0, 30.0, 4.0]));
    assert_eq!(all(d, "get_statistics").1.1, Value::Numeric(1, [4.0, 16.0, 4.0, 4.0, 4.0]));
    d.call(&monitor, "clear_statistics", |w| write_names(&[&size], w)).unwrap();
    assert_eq!(reported(d, 9, "QueueSize"), Value::Numeric(1, [9.0, 81.0, 9.0, 9.0, 9.0]));
    assert_eq!(last(d, &size), 0.0, "what was handed in was for one request");
}

/// The operations of control that take a name.
const CONTROL: [&str; 5] =
    ["shutdown_event_channel", "remove_consumer", "remove_supplier", "remove_consumeradmin", "remove_supplieradmin"];

pub(super) fn refusals(d: &mut Dialogue) {
    scene(d);
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    for operation in CONTROL {
        for name in ["C/1", "C/1/one", "C/1/s", "C/1/a", "nobody"] {
            let name = format!("{FACTORY}/{name}");
            d.call(&monitor, operation, |w| w.string(&name)).raises("NO_PERMISSION");
        }
    }
    d.call(&monitor, "shutdown", |_| {}).raises("NO_PERMISSION");
    assert_eq!(last(d, &format!("{FACTORY}/C/1/ConsumerCount")), 2.0);
}

fn controlled() -> Dialogue {
    let compatibility =
        Compatibility { monitor_control: true, factory_name: "Logging".into(), ..Compatibility::default() };
    Dialogue::with(STYLES[5], ProtocolSettings { compatibility, ..settings(1) })
}

#[test]
fn a_client_that_may_control_removes_clients_admins_and_channels() {
    let mut d = controlled();
    let channel = scene(&mut d);
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    let ask = |d: &mut Dialogue, operation: &str, name: &str| -> Result<Body, Thrown> {
        d.quick(&monitor, operation, |w| w.string(name))
    };
    for operation in CONTROL {
        for nobody in ["Logging/C/1/nobody", "Logging/nobody", "C/1", "NotifyEventChannelFactory/C/1", ""] {
            let raised = ask(&mut d, operation, nobody).raises("InvalidName");
            assert_eq!(raised.read(read_names), [nobody]);
        }
    }
    ask(&mut d, "remove_supplier", "Logging/C/1/one").raises("InvalidName");
    d.effects();
    ask(&mut d, "remove_consumer", "Logging/C/1/one").unwrap();
    let effects = d.effects();
    let is_notification =
        |effect: &&Effect| matches!(effect, Effect::Call { operation: "disconnect_structured_push_consumer", .. });
    assert_eq!(effects.iter().filter(is_notification).count(), 1, "{effects:?}");
    let is_logged = |effect: &&Effect| matches!(effect, Effect::Dismissed { name, .. } if name.contains("\"one\""));
    assert_eq!(effects.iter().filter(is_logged).count(), 1, "{effects:?}");
    ask(&mut d, "remove_supplier", "Logging/C/1/0").unwrap();
    assert_eq!((last(&mut d, "Logging/C/1/ConsumerCount"), last(&mut d, "Logging/C/1/SupplierCount")), (1.0, 0.0));
    ask(&mut d, "remove_consumeradmin", "Logging/C/1/a").unwrap();
    assert_eq!(last(&mut d, "Logging/C/1/ConsumerAdminCount"), 0.0);
    ask(&mut d, "remove_consumeradmin", "Logging/C/1/0").raises("NO_PERMISSION");
    ask(&mut d, "shutdown_event_channel", "Logging/C/1").unwrap();
    d.call(&channel, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    d.effects();
    d.quick(&monitor, "shutdown", |_| {}).unwrap();
    assert!(matches!(d.effects()[..], [Effect::End { .. }]));
}

#[test]
fn a_factory_of_another_name_is_found_by_it() {
    let mut d = controlled();
    d.protocol.objects.bind_own_names();
    let factory = d.protocol.objects.factory_reference();
    for key in ["Logging", FACTORY, "NotificationService"] {
        let found = d.bootstrap(key);
        assert_eq!(
            d.quick(&found, "get_event_channel", |w| w.i32(0)).unwrap().read(|r| Ior::read(r).unwrap()).type_id,
            "IDL:sandia.gov/NotifyMonitoringExt/EventChannel:1.0"
        );
    }
    let naming = d.bootstrap("NameService");
    let found = d.call(&naming, "resolve_str", |w| w.string("Logging"));
    assert_eq!(found.unwrap().read(|r| Ior::read(r).unwrap()), factory);
}

#[test]
fn what_old_servers_do_is_done_where_it_is_asked_for_and_not_otherwise() {
    for is_on in [false, true] {
        let compatibility = Compatibility {
            ignore_unknown_properties: is_on,
            limits_as_imp_limit: is_on,
            default_admins_or: is_on,
            ..Compatibility::default()
        };
        let mut d = Dialogue::with(STYLES[5], ProtocolSettings { compatibility, ..settings(1) });
        let unknown = |w: &mut Writer<'_>| {
            w.u32(2);
            for (name, value) in [("MaxConsumers", 1), ("SomethingOfTheirs", 2)] {
                w.string(name);
                w.u32(3);
                w.i32(value);
            }
        };
        let factory = d.bootstrap(FACTORY);
        let made = d.quick(&factory, "create_channel", |w| {
            w.u32(0);
            unknown(w);
        });
        if !is_on {
            made.raises("UnsupportedAdmin");
            let default = d.bootstrap("DefaultEventChannel");
            d.call(&default, "set_qos", unknown).raises("UnsupportedQoS");
            let admin = d.object(&default, "for_consumers");
            assert_eq!(d.number(&admin, "_get_MyOperator"), 0);
            continue;
        }
        let channel = Ior::read(&mut made.unwrap().reader()).unwrap();
        d.call(&channel, "set_qos", unknown).unwrap();
        for channel in [&channel, &d.bootstrap("DefaultEventChannel")] {
            for side in ["consumers", "suppliers"] {
                let admin = d.object(channel, &format!("for_{side}"));
                assert_eq!(d.number(&admin, "_get_MyOperator"), 1);
            }
        }
        let admin = d.object(&channel, "for_consumers");
        let (proxy, _) = d.made(&admin, "obtain_notification_push_supplier", 1);
        d.give(&proxy, "connect_structured_push_consumer", &client("one")).unwrap();
        d.call(&admin, "obtain_notification_push_supplier", |w| w.u32(1)).raises("IMP_LIMIT");
    }
}

/// TAO's server without persistence takes `Persistent`, and clients that ask for it were refused here.
#[test]
fn what_only_a_store_can_do_is_taken_without_one_where_that_is_asked_for() {
    for is_on in [false, true] {
        let compatibility = Compatibility { persistent_without_store: is_on, ..Compatibility::default() };
        let mut d = Dialogue::with(STYLES[5], ProtocolSettings { compatibility, ..settings(1) });
        let persistent = |value: i16| {
            move |w: &mut Writer<'_>| {
                w.u32(2);
                for name in ["EventReliability", "ConnectionReliability"] {
                    w.string(name);
                    w.u32(2); // tk_short
                    w.i16(value);
                }
            }
        };
        let factory = d.bootstrap(FACTORY);
        let made = d.quick(&factory, "create_channel", |w| {
            persistent(1)(w);
            w.u32(0);
        });
        if !is_on {
            made.raises("UnsupportedQoS");
            continue;
        }
        let channel = Ior::read(&mut made.unwrap().reader()).unwrap();
        let reported = |d: &mut Dialogue| {
            let properties = d.get(&channel, "get_qos").read(|r| {
                let read = |r: &mut Reader<'_>| (r.text().unwrap(), AnyValue::read(r, &mut Work::default()).unwrap());
                (0..r.u32().unwrap()).map(|_| read(r)).collect::<Vec<_>>()
            });
            let mut of: Vec<_> = properties.into_iter().filter(|(name, _)| name.ends_with("Reliability")).collect();
            of.sort_by(|one, other| one.0.cmp(&other.0));
            of
        };
        let both = |value: i16| {
            ["ConnectionReliability", "EventReliability"].map(|name| (name.to_owned(), AnyValue::from(value))).to_vec()
        };
        assert_eq!(reported(&mut d), both(1), "once each");
        d.call(&channel, "set_qos", persistent(0)).unwrap();
        assert_eq!(reported(&mut d), both(0));
        d.call(&channel, "set_qos", persistent(1)).unwrap();
        d.call(&channel, "set_qos", persistent(7)).raises("UnsupportedQoS");
        assert_eq!(reported(&mut d), both(1));
    }
}

/// Clients of TAO make channels with `Persistent` where nothing is kept: each of them wrote a line, and `validate_qos` did, too.
#[test]
fn that_there_is_no_store_is_said_once_with_what_it_is_about_and_counted_from_then_on() {
    let compatibility = Compatibility { persistent_without_store: true, ..Compatibility::default() };
    let mut d = Dialogue::with(STYLES[5], ProtocolSettings { compatibility, ..settings(1) });
    let reliability = |value: i16| {
        move |w: &mut Writer<'_>| {
            w.u32(1);
            w.string("EventReliability");
            w.u32(2); // tk_short
            w.i16(value);
        }
    };
    let said = |d: &mut Dialogue| -> Vec<(String, bool)> {
        let effects = d.effects().into_iter().filter_map(|effect| match effect {
            Effect::WithoutStore { of, by, is_first } => {
                assert_eq!(by.map(|by| by.to_string()).as_deref(), Some("127.0.0.1"));
                Some((of, is_first))
            }
            _ => None,
        });
        effects.collect()
    };
    let default = d.bootstrap("DefaultEventChannel");
    d.quick(&default, "validate_qos", reliability(1)).unwrap();
    assert_eq!(said(&mut d), [], "nothing has been set");
    let factory = d.bootstrap(FACTORY);
    let make = |d: &mut Dialogue| {
        let made = d.quick(&factory, "create_channel", |w| {
            reliability(1)(w);
            w.u32(0);
        });
        Ior::read(&mut made.unwrap().reader()).unwrap()
    };
    make(&mut d);
    assert_eq!(said(&mut d), [("channel 1".to_owned(), true)]);
    let second = make(&mut d);
    assert_eq!(said(&mut d), [("channel 2".to_owned(), false)]);
    // It is set there already, is taken back, and is set again.
    for (value, expected) in [(1, vec![]), (0, vec![]), (1, vec![("channel 2".to_owned(), false)])] {
        d.quick(&second, "set_qos", reliability(value)).unwrap();
        assert_eq!(said(&mut d), expected, "{value}");
    }
    let admin = d.object(&second, "_get_default_consumer_admin");
    d.quick(&admin, "set_qos", |w| {
        w.u32(1);
        w.string("ConnectionReliability");
        w.u32(2);
        w.i16(1);
    })
    .unwrap();
    assert_eq!(said(&mut d), [("consumer admin 0 of channel 2".to_owned(), false)]);
}

/// TAO's filter factories say `INTERNAL` where they do not know a number, and clients wait for that.
#[test]
fn a_filter_of_another_factory_is_internal_where_that_is_asked_for() {
    for is_on in [false, true] {
        let compatibility = Compatibility { unknown_filter_internal: is_on, ..Compatibility::default() };
        let mut d = Dialogue::with(STYLES[5], ProtocolSettings { compatibility, ..settings(1) });
        let channel = d.bootstrap("DefaultEventChannel");
        let factory = d.object(&channel, "_get_default_filter_factory");
        if is_on {
            d.call(&factory, "get_filter", |w| w.i32(4711)).raises("INTERNAL");
        } else {
            assert_eq!(d.look_up(&factory, "get_filter", 4711).unwrap(), Ior::nil());
        }
    }
}

/// A thousand times the names of all consumers were gigabytes before their size was looked at.
#[test]
fn more_statistics_than_an_answer_has_room_for_are_refused() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let admin = d.object(&channel, "for_consumers");
    for number in 0..200 {
        let name = format!("{number:0200}");
        d.call(&admin, "obtain_named_notification_push_supplier", |w| {
            w.u32(1);
            w.string(&name);
        })
        .unwrap();
    }
    let monitor = d.bootstrap("TAO_MonitorAndControl");
    let mut ask = |operation: &str, count: usize| {
        d.quick(&monitor, operation, |w| {
            w.length(count);
            (0..count).for_each(|_| w.string(&format!("{FACTORY}/0/ConsumerNames")));
        })
    };
    for operation in ["get_statistics", "get_and_clear_statistics"] {
        ask(operation, 300).unwrap();
        ask(operation, 1_024).raises("IMP_LIMIT");
    }
}
