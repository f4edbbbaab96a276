//! Thread pools as properties: read, stored, returned, refused; and what the references of proxies then say.

use super::*;
use crate::qos::pools::QUEUE_EVENTS_MAX;
use crate::tests::dialogue::{client, settings};
use client::notify::{ThreadPool, ThreadPoolLanes};
use engine::{Discipline, HierarchyLimits, LaneSpec, PoolSpec};
use giop::realtime::{PriorityModel, PriorityModelPolicy};

const UNAVAILABLE_VALUE: u32 = 3;

const PROPAGATED: PriorityModel = PriorityModel::ClientPropagated;
const DECLARED: PriorityModel = PriorityModel::ServerDeclared;

fn pool(pool: ThreadPool) -> (&'static str, AnyValue) {
    ("ThreadPool", pool.into())
}

fn lanes(pool: ThreadPoolLanes) -> (&'static str, AnyValue) {
    ("ThreadPoolLanes", pool.into())
}

/// One with so few threads that they are soon spent.
fn scene(lane_threads_max: u32) -> Scene {
    let hierarchy = HierarchyLimits { lane_threads_max, ..HierarchyLimits::default() };
    Scene::with(crate::ProtocolSettings { hierarchy, ..settings(1) })
}

impl Scene {
    /// The pool that an object itself has.
    fn spec(&mut self, object: &Ior) -> Option<PoolSpec> {
        use crate::keys::ObjectKey;
        let hierarchy = self.d.protocol.objects.hierarchy();
        let patch = match crate::tests::dialogue::key_of(object) {
            ObjectKey::Channel { channel, .. } => *hierarchy.channel(channel).unwrap().patch(),
            ObjectKey::Admin { channel, side, admin, .. } => hierarchy.admin(channel, side, admin).unwrap().patch,
            ObjectKey::Proxy { channel, proxy, .. } => *hierarchy.proxy(ProxyKey { channel, proxy }).unwrap().patch,
            other => panic!("{other:?}"),
        };
        patch.pool.map(|pool| hierarchy.pool(pool).unwrap().clone())
    }

    #[track_caller]
    fn refuses(&mut self, object: &Ior, properties: &[(&str, AnyValue)], code: u32) -> (Value, Value) {
        let mut errors = self.errors(object, properties);
        assert_eq!(errors.len(), 1, "{errors:?}");
        let (found, name, low, high) = errors.remove(0);
        assert_eq!((found, name.as_str()), (code, properties[0].0));
        (low, high)
    }

    fn connect(&mut self, proxy: &Ior) {
        self.d.give(proxy, "connect_structured_push_consumer", &client("consumer")).unwrap();
    }
}

fn threads_of(value: &Value) -> &Value {
    let Value::Struct { fields, .. } = value else { panic!("{value:?}") };
    let (_, lanes) = fields.iter().find(|(name, _)| name == "static_threads" || name == "lanes").unwrap();
    match lanes {
        Value::Sequence(lanes) => threads_of(&lanes[0]),
        threads => threads,
    }
}

#[test]
fn pool_becomes_one_lane_at_the_priority_that_its_model_gives_it() {
    let mut scene = scene(8);
    let admin = scene.consumers.clone();
    for (model, priority) in [(DECLARED, 500), (PROPAGATED, 30)] {
        scene.set(&admin, &[pool(ThreadPool { default_priority: 30, ..ThreadPool::new(model, 500, 3) })]);
        let spec = scene.spec(&admin).unwrap();
        assert_eq!(spec.lanes, [LaneSpec { priority, threads: 3 }]);
        assert_eq!((spec.server_priority, spec.discipline), (500, Discipline::default()));
        assert_eq!(spec.queue_events_max, QUEUE_EVENTS_MAX);
        scene.d.protocol.publish();
    }
}

#[test]
fn lanes_are_taken_in_any_order_and_reported_by_rising_priority() {
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let asked = ThreadPoolLanes::new(PROPAGATED, 7, &[(20_000, 1), (0, 2), (10_000, 1)]);
    scene.set(&channel, &[lanes(ThreadPoolLanes { max_buffered_requests: 100, ..asked.clone() })]);
    let spec = scene.spec(&channel).unwrap();
    let rising = [(0, 2), (10_000, 1), (20_000, 1)];
    assert_eq!(spec.lanes, rising.map(|(priority, threads)| LaneSpec { priority, threads }));
    assert_eq!((spec.model, spec.queue_events_max), (engine::PriorityModel::ClientPropagated, 100));
    let reported = scene.qos(&channel);
    let rising = rising.map(|(priority, threads)| (priority, u32::from(threads)));
    let expected = ThreadPoolLanes { max_buffered_requests: 100, ..ThreadPoolLanes::new(PROPAGATED, 7, &rising) };
    assert_eq!(reported["ThreadPoolLanes"], AnyValue::from(expected).value);
    assert!(!reported.contains_key("ThreadPool"));
}

#[test]
fn what_a_lane_has_no_use_for_is_taken_and_reported_as_what_is_in_effect() {
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let asked = ThreadPool {
        stacksize: 1 << 20,
        dynamic_threads: 5,
        max_buffered_requests: u32::MAX,
        max_request_buffer_size: 9,
        ..ThreadPool::new(DECLARED, 100, 1)
    };
    scene.set(&channel, &[pool(asked)]);
    let in_effect = ThreadPool { max_buffered_requests: QUEUE_EVENTS_MAX, ..ThreadPool::new(DECLARED, 100, 1) };
    assert_eq!(scene.qos(&channel)["ThreadPool"], AnyValue::from(in_effect).value);
    // Without buffering its bound counts for nothing.
    let asked =
        ThreadPool { allow_request_buffering: false, max_buffered_requests: 3, ..ThreadPool::new(DECLARED, 1, 1) };
    scene.set(&channel, &[pool(asked)]);
    assert_eq!(scene.spec(&channel).unwrap().queue_events_max, QUEUE_EVENTS_MAX);
}

#[test]
fn each_level_has_its_own_pool_or_the_nearest_above() {
    let mut scene = scene(8);
    let (channel, admin, proxy) = (scene.channel.clone(), scene.consumers.clone(), scene.to_consumer.clone());
    let other = scene.from_supplier.clone();
    let priority = |scene: &mut Scene, object: &Ior| match scene.qos(object).get("ThreadPool") {
        Some(Value::Struct { fields, .. }) => fields[1].1.clone(),
        other => panic!("{other:?}"),
    };
    for (number, level) in [&channel, &admin, &proxy].into_iter().enumerate() {
        let declared = i16::try_from(number).unwrap();
        scene.set(level, &[pool(ThreadPool::new(DECLARED, declared, 1))]);
        let own: Vec<Value> = [&channel, &admin, &proxy].map(|object| priority(&mut scene, object)).to_vec();
        assert_eq!(own, [0, declared.min(1), declared].map(Value::Short));
    }
    assert_eq!(priority(&mut scene, &other), Value::Short(0), "the other side has the channel's");
}

#[test]
fn same_pool_set_again_stays_even_while_clients_are_connected() {
    let mut scene = scene(3);
    let (channel, proxy) = (scene.channel.clone(), scene.to_consumer.clone());
    let three = lanes(ThreadPoolLanes::new(PROPAGATED, 0, &[(1, 1), (2, 1), (3, 1)]));
    scene.set(&channel, std::slice::from_ref(&three));
    let id = scene.d.protocol.objects.hierarchy().channels().next().unwrap().patch().pool;
    assert!(id.is_some());
    scene.connect(&proxy);
    // There is no thread left for another one.
    scene.set(&channel, &[three]);
    let body = scene.d.get(&channel, "get_qos");
    scene.d.call(&channel, "set_qos", |w| w.raw(body.reader().rest())).unwrap();
    assert_eq!(scene.d.protocol.objects.hierarchy().channels().next().unwrap().patch().pool, id);
}

#[test]
fn pool_is_refused_while_anybody_is_connected_beneath() {
    let mut scene = scene(8);
    let (channel, proxy) = (scene.channel.clone(), scene.to_consumer.clone());
    let (consumers, suppliers) = (scene.consumers.clone(), scene.suppliers.clone());
    scene.connect(&proxy);
    let one = || [pool(ThreadPool::new(DECLARED, 1, 1))];
    for object in [&channel, &consumers, &proxy] {
        assert_eq!(scene.refuses(object, &one(), UNAVAILABLE_PROPERTY), (Value::Null, Value::Null));
        assert_eq!(scene.spec(object), None);
    }
    scene.set(&suppliers, &one());
    scene.d.get(&proxy, "disconnect_structured_push_supplier");
    scene.set(&consumers, &one());
}

#[test]
fn more_threads_than_there_are_is_refused_with_how_many_there_are() {
    let mut scene = scene(4);
    let (channel, admin) = (scene.channel.clone(), scene.consumers.clone());
    let (_, high) = scene.refuses(&channel, &[pool(ThreadPool::new(DECLARED, 1, 5))], UNSUPPORTED_VALUE);
    assert_eq!(*threads_of(&high), Value::ULong(4));
    let five = lanes(ThreadPoolLanes::new(PROPAGATED, 0, &[(1, 2), (2, 3)]));
    let (low, high) = scene.refuses(&channel, &[five], UNSUPPORTED_VALUE);
    assert_eq!((threads_of(&low), threads_of(&high)), (&Value::ULong(1), &Value::ULong(4)));
    scene.set(&channel, &[pool(ThreadPool::new(DECLARED, 1, 3))]);
    let two = || pool(ThreadPool::new(DECLARED, 1, 2));
    let (_, high) = scene.refuses(&admin, &[two()], UNAVAILABLE_VALUE);
    assert_eq!(*threads_of(&high), Value::ULong(1));
    scene.set(&admin, &[pool(ThreadPool::new(DECLARED, 1, 1))]);
    let proxy = scene.from_supplier.clone();
    assert_eq!(scene.refuses(&proxy, &[two()], UNAVAILABLE_VALUE), (Value::Null, Value::Null));
    // One that replaces another needs its threads beside the other's, which end later.
    scene.refuses(&admin, &[pool(ThreadPool::new(DECLARED, 2, 1))], UNAVAILABLE_VALUE);
}

#[test]
fn validating_tells_how_many_threads_there_may_be() {
    let mut scene = scene(5);
    let channel = scene.channel.clone();
    let body = scene.d.call(&channel, "validate_qos", |w| write(&[], w)).unwrap();
    let ranges: BTreeMap<String, (Value, Value)> =
        body.read(|r| (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), (read_value(r), read_value(r)))).collect());
    for name in ["ThreadPool", "ThreadPoolLanes"] {
        let (low, high) = &ranges[name];
        assert_eq!((threads_of(low), threads_of(high)), (&Value::ULong(1), &Value::ULong(5)), "{name}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let good = || ThreadPool::new(DECLARED, 1, 1);
    let bad_pools = [
        ThreadPool { static_threads: 0, ..good() },
        ThreadPool { static_threads: 0, dynamic_threads: 4, ..good() },
        ThreadPool { server_priority: -1, ..good() },
        ThreadPool { default_priority: i16::MIN, ..good() },
    ];
    for bad in bad_pools.into_iter().filter(|bad| bad.default_priority >= 0) {
        scene.refuses(&channel, &[pool(bad)], BAD_VALUE);
    }
    let propagated = ThreadPool { default_priority: -5, ..ThreadPool::new(PROPAGATED, 0, 1) };
    scene.refuses(&channel, &[pool(propagated)], BAD_VALUE);
    for bad in [&[][..], &[(1, 0)], &[(-1, 1)], &[(5, 1), (5, 1)], &[(5, 1), (9, 2), (5, 3)]] {
        scene.refuses(&channel, &[lanes(ThreadPoolLanes::new(PROPAGATED, 0, bad))], BAD_VALUE);
    }
    let many = ThreadPool { static_threads: 65_536, ..good() };
    let (_, high) = scene.refuses(&channel, &[pool(many)], UNSUPPORTED_VALUE);
    assert_eq!(*threads_of(&high), Value::ULong(8), "what the service may have, and not what the type bears");
    assert_eq!(scene.spec(&channel), None);
}

#[test]
fn values_of_other_types_are_refused() {
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let of_the_other = |name, value: AnyValue| (name, value);
    let one_lane = ThreadPoolLanes::new(PROPAGATED, 0, &[(1, 1)]);
    for (name, value) in [
        of_the_other("ThreadPool", one_lane.clone().into()),
        of_the_other("ThreadPoolLanes", ThreadPool::new(DECLARED, 1, 1).into()),
        ("ThreadPool", AnyValue::default()),
        ("ThreadPool", 3_u32.into()),
        ("ThreadPoolLanes", "lanes".into()),
        ("ThreadPoolLanes", utc(1)),
    ] {
        scene.refuses(&channel, &[(name, value)], BAD_TYPE);
    }
    // One member of another type, each in turn.
    let AnyValue { type_code: _, value: Value::Struct { fields, type_name } } = AnyValue::from(one_lane) else {
        panic!()
    };
    for at in [0, 1, 3, 5, 6] {
        let mut fields = fields.clone();
        fields[at].1 = Value::Double(1.0);
        let value = Value::Struct { type_name: type_name.clone(), fields };
        scene.refuses(&channel, &[("ThreadPoolLanes", untyped(value, true))], BAD_TYPE);
    }
}

/// A structure without the names of types, and where `named` is false without those of members.
fn untyped(value: Value, named: bool) -> AnyValue {
    fn unnamed(value: Value) -> Value {
        match value {
            Value::Struct { type_name, fields } => Value::Struct {
                type_name,
                fields: fields.into_iter().map(|(_, value)| (String::new(), unnamed(value))).collect(),
            },
            Value::Sequence(elements) => Value::Sequence(elements.into_iter().map(unnamed).collect()),
            value => value,
        }
    }
    let value = if named { value } else { unnamed(value) };
    fn type_of(value: &Value, named: bool) -> TypeCode {
        match value {
            Value::Struct { fields, .. } => {
                let members: Vec<(&str, TypeCode)> = fields
                    .iter()
                    .map(|(name, value)| (if named { name.as_str() } else { "" }, type_of(value, named)))
                    .collect();
                TypeCode::structure("", "", &members)
            }
            Value::Sequence(elements) => TypeCode::sequence(type_of(&elements[0], named)),
            Value::Enum { .. } => TypeCode::enumeration("", "", &["a", "b"]),
            Value::Short(_) => TypeCode::primitive(Kind::Short),
            Value::ULong(_) => TypeCode::primitive(Kind::ULong),
            Value::Bool(_) => TypeCode::primitive(Kind::Boolean),
            Value::Double(_) => TypeCode::primitive(Kind::Double),
            other => panic!("{other:?}"),
        }
    }
    AnyValue::new(type_of(&value, named), value)
}

#[test]
fn members_are_known_by_name_or_where_types_have_none_by_place() {
    let asked = ThreadPoolLanes { max_buffered_requests: 77, ..ThreadPoolLanes::new(PROPAGATED, 5, &[(3, 1), (4, 2)]) };
    for named in [true, false] {
        let mut scene = scene(8);
        let channel = scene.channel.clone();
        scene.set(&channel, &[("ThreadPoolLanes", untyped(AnyValue::from(asked.clone()).value, named))]);
        let spec = scene.spec(&channel).unwrap();
        assert_eq!((spec.lanes.len(), spec.queue_events_max, spec.server_priority), (2, 77, 5), "{named}");
    }
    // Of a structure with more or with fewer members, those count that there are.
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let Value::Struct { fields, .. } = AnyValue::from(ThreadPool::new(DECLARED, 9, 2)).value else { panic!() };
    let mut fields: Vec<_> = fields.into_iter().filter(|(name, _)| !name.contains("request")).collect();
    fields.insert(0, ("more".to_owned(), Value::Bool(true)));
    let value = Value::Struct { type_name: String::new(), fields };
    scene.set(&channel, &[("ThreadPool", untyped(value, true))]);
    assert_eq!(scene.spec(&channel).unwrap().lanes, [LaneSpec { priority: 9, threads: 2 }]);
}

#[test]
fn both_properties_at_once_are_refused() {
    let mut scene = scene(8);
    let channel = scene.channel.clone();
    let both = [pool(ThreadPool::new(DECLARED, 1, 1)), lanes(ThreadPoolLanes::new(PROPAGATED, 0, &[(1, 1)]))];
    let errors = scene.errors(&channel, &both);
    let named: Vec<_> = errors.iter().map(|(code, name, ..)| (*code, name.as_str())).collect();
    assert_eq!(named, [(UNAVAILABLE_PROPERTY, "ThreadPool"), (UNAVAILABLE_PROPERTY, "ThreadPoolLanes")]);
    // One after the other they replace each other.
    let [first, second] = both;
    scene.set(&channel, &[first]);
    scene.set(&channel, &[second]);
    let reported = scene.qos(&channel);
    assert!(reported.contains_key("ThreadPoolLanes") && !reported.contains_key("ThreadPool"));
}

#[test]
fn proxies_that_pull_or_are_pulled_from_have_no_pool() {
    let mut scene = scene(8);
    let (channel, consumers, suppliers) = (scene.channel.clone(), scene.consumers.clone(), scene.suppliers.clone());
    scene.set(&channel, &[pool(ThreadPool::new(DECLARED, 1, 1))]);
    let pulled = scene.d.made(&consumers, "obtain_notification_pull_supplier", 1).0;
    let pulling = scene.d.made(&suppliers, "obtain_notification_pull_consumer", 1).0;
    for proxy in [pulled, pulling] {
        assert!(!scene.qos(&proxy).contains_key("ThreadPool"));
        assert_eq!(proxy.priority_model(), None);
        let range = scene.refuses(&proxy, &[pool(ThreadPool::new(DECLARED, 2, 1))], UNAVAILABLE_PROPERTY);
        assert_eq!(range, (Value::Null, Value::Null));
    }
}

#[test]
fn references_of_proxies_tell_the_model_of_their_pool() {
    let mut scene = scene(8);
    let (channel, consumers, suppliers) = (scene.channel.clone(), scene.consumers.clone(), scene.suppliers.clone());
    assert_eq!(scene.to_consumer.priority_model(), None, "made before there was a pool");
    scene.set(&channel, &[lanes(ThreadPoolLanes::new(PROPAGATED, 40, &[(1, 1), (2, 1)]))]);
    scene.set(&consumers, &[pool(ThreadPool::new(DECLARED, 700, 1))]);
    let propagated = PriorityModelPolicy { model: PROPAGATED, server_priority: 40 };
    let declared = PriorityModelPolicy { model: DECLARED, server_priority: 700 };
    let (to_consumer, id) = scene.d.made(&consumers, "obtain_notification_push_supplier", 1);
    assert_eq!(to_consumer.priority_model(), Some(declared));
    assert_eq!(scene.d.look_up(&consumers, "get_proxy_supplier", id).unwrap(), to_consumer);
    for obtain in ["obtain_notification_push_consumer", "obtain_push_consumer"] {
        let from_supplier = scene.d.call(&suppliers, obtain, |w| {
            if obtain.contains("notification") {
                w.u32(0);
            }
        });
        let from_supplier = Ior::read(&mut from_supplier.unwrap().reader()).unwrap();
        assert_eq!(from_supplier.priority_model(), Some(propagated));
    }
    for object in [&channel, &consumers, &suppliers] {
        assert_eq!(object.priority_model(), None, "administration has no priority");
    }
    // An earlier one has the same priority model now.
    let id = 1;
    let again = scene.d.look_up(&suppliers, "get_proxy_consumer", id).unwrap();
    assert_eq!(again.priority_model(), Some(propagated));
}

#[test]
fn channel_is_made_with_its_pool_or_not_at_all() {
    let mut scene = scene(2);
    let factory = scene.d.bootstrap("NotificationService");
    let create = |scene: &mut Scene, threads: u32| {
        let qos = [pool(ThreadPool::new(DECLARED, 1, threads))];
        scene.d.call(&factory, "create_channel", |w| {
            write(&qos, w);
            write(&[], w);
        })
    };
    let refused = create(&mut scene, 3).raises("UnsupportedQoS");
    assert_eq!(refused.read(read_errors)[0].0, UNSUPPORTED_VALUE);
    let channel = create(&mut scene, 2).unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
    assert_eq!(scene.spec(&channel).unwrap().lanes, [LaneSpec { priority: 1, threads: 2 }]);
    let refused = create(&mut scene, 1).raises("UnsupportedQoS");
    assert_eq!(refused.read(read_errors)[0].0, UNAVAILABLE_VALUE);
    assert_eq!(scene.d.ids(&factory, "get_all_channels").len(), 2);
    // Threads come back with the channel's end.
    scene.d.get(&channel, "destroy");
    scene.d.protocol.publish();
    create(&mut scene, 2).unwrap();
}

#[test]
fn proxy_is_obtained_with_its_properties_or_not_at_all() {
    let mut scene = scene(8);
    for (admin, side, ids) in [
        (scene.consumers.clone(), "supplier", "_get_push_suppliers"),
        (scene.suppliers.clone(), "consumer", "_get_push_consumers"),
    ] {
        let id = format!("IDL:NotifyExt/{}Admin:1.0", if side == "supplier" { "Consumer" } else { "Supplier" });
        let knows = scene.d.call(&admin, "_is_a", |w| w.string(&id)).unwrap();
        assert!(knows.read(|r| r.bool().unwrap()));
        let operation = format!("obtain_notification_push_{side}_with_qos");
        let before = scene.d.ids(&admin, ids);
        let obtain = |scene: &mut Scene, qos: &[(&str, AnyValue)]| {
            scene.d.call(&admin, &operation, |w| {
                w.u32(1);
                write(qos, w);
            })
        };
        let bad = [("Priority", 5_i16.into()), pool(ThreadPool::new(DECLARED, 1, 0))];
        assert_eq!(obtain(&mut scene, &bad).raises("UnsupportedQoS").read(read_errors)[0].1, "ThreadPool");
        assert_eq!(scene.d.ids(&admin, ids), before);
        let good = [("Priority", 5_i16.into()), pool(ThreadPool::new(DECLARED, 9, 1))];
        let made = obtain(&mut scene, &good).unwrap();
        let (proxy, id) = made.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap()));
        assert_eq!(proxy.priority_model(), Some(PriorityModelPolicy { model: DECLARED, server_priority: 9 }));
        assert_eq!(scene.patch(&proxy).priority, Some(5));
        assert_eq!(scene.d.ids(&admin, ids), [before, vec![id]].concat());
    }
}
