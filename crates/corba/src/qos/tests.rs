//! Properties as clients see them.

mod correlation;
mod pools;
mod real_time;
mod topics;

use crate::qos::Most;
use crate::tests::dialogue::{Dialogue, Expect, STYLES, somebody};
use engine::{ChannelLimits, DiscardPolicy, FullOutbox, OrderPolicy, OutboxSettings, ProxyKey, SettingsPatch};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::{AnyValue, Value};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

const UNAVAILABLE_PROPERTY: u32 = 1;
const UNSUPPORTED_VALUE: u32 = 2;
const BAD_PROPERTY: u32 = 4;
const BAD_TYPE: u32 = 5;
const BAD_VALUE: u32 = 6;

fn write(properties: &[(&str, AnyValue)], w: &mut Writer<'_>) {
    w.length(properties.len());
    for (name, value) in properties {
        w.string(name);
        value.write(w).unwrap();
    }
}

fn read_value(r: &mut Reader<'_>) -> Value {
    AnyValue::read(r, &mut Work::default()).unwrap().value
}

fn read(r: &mut Reader<'_>) -> BTreeMap<String, Value> {
    (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), read_value(r))).collect()
}

/// Code, name and range of each error.
fn read_errors(r: &mut Reader<'_>) -> Vec<(u32, String, Value, Value)> {
    (0..r.u32().unwrap()).map(|_| (r.u32().unwrap(), r.text().unwrap(), read_value(r), read_value(r))).collect()
}

struct Scene {
    d: Dialogue,
    channel: Ior,
    consumers: Ior,
    suppliers: Ior,
    to_consumer: Ior,
    from_supplier: Ior,
}

impl Scene {
    fn new() -> Self {
        Self::with(crate::tests::dialogue::settings(1))
    }

    fn with(settings: crate::ProtocolSettings) -> Self {
        let mut d = Dialogue::with(STYLES[5], settings);
        let channel = d.bootstrap("DefaultEventChannel");
        let consumers = d.object(&channel, "for_consumers");
        let suppliers = d.object(&channel, "for_suppliers");
        let to_consumer = d.made(&consumers, "obtain_notification_push_supplier", 1).0;
        let from_supplier = d.made(&suppliers, "obtain_notification_push_consumer", 1).0;
        Self { d, channel, consumers, suppliers, to_consumer, from_supplier }
    }

    fn set(&mut self, object: &Ior, properties: &[(&str, AnyValue)]) {
        self.d.call(object, "set_qos", |w| write(properties, w)).unwrap();
    }

    #[track_caller]
    fn errors(&mut self, object: &Ior, properties: &[(&str, AnyValue)]) -> Vec<(u32, String, Value, Value)> {
        let refused = self.d.call(object, "set_qos", |w| write(properties, w)).raises("UnsupportedQoS");
        let validated = self.d.call(object, "validate_qos", |w| write(properties, w)).raises("UnsupportedQoS");
        let errors = refused.read(read_errors);
        assert_eq!(validated.read(read_errors), errors);
        errors
    }

    fn qos(&mut self, object: &Ior) -> BTreeMap<String, Value> {
        self.d.get(object, "get_qos").read(read)
    }

    /// What is in effect for the consumer's outbox.
    fn settings(&mut self) -> OutboxSettings {
        let key = crate::tests::dialogue::key_of(&self.to_consumer);
        let crate::keys::ObjectKey::Proxy { channel, proxy, .. } = key else { panic!() };
        self.d.protocol.objects.hierarchy().effective(ProxyKey { channel, proxy }).unwrap()
    }

    /// What a proxy says of itself.
    fn patch(&mut self, proxy: &Ior) -> SettingsPatch {
        let key = crate::tests::dialogue::key_of(proxy);
        let crate::keys::ObjectKey::Proxy { channel, proxy, .. } = key else { panic!() };
        *self.d.protocol.objects.hierarchy().proxy(ProxyKey { channel, proxy }).unwrap().patch
    }
}

/// The longest `Timeout`.
const CENTURY: u64 = 36_525 * 24 * 3_600 * 10_000_000;

/// A `TimeBase::UtcT`.
fn utc(time: u64) -> AnyValue {
    let time_type = TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong));
    let members = [
        ("time", time_type),
        ("inacclo", TypeCode::primitive(Kind::ULong)),
        ("inacchi", TypeCode::primitive(Kind::UShort)),
        ("tdf", TypeCode::primitive(Kind::Short)),
    ];
    let values = [Value::ULongLong(time), Value::ULong(0), Value::UShort(0), Value::Short(0)];
    let fields = members.iter().map(|(name, _)| (*name).to_owned()).zip(values).collect();
    let value = Value::Struct { type_name: "UtcT".into(), fields };
    AnyValue::new(TypeCode::structure("IDL:omg.org/TimeBase/UtcT:1.0", "UtcT", &members), value)
}

fn text(value: &str) -> Value {
    Value::String(value.into())
}

#[test]
fn every_property_reaches_the_engine() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    scene.set(
        &channel,
        &[
            ("EventReliability", 0_i16.into()),
            ("ConnectionReliability", 0_i16.into()),
            ("Priority", (-7_i16).into()),
            ("Timeout", 50_000_000_u64.into()),
            ("OrderPolicy", 2_i16.into()),
            ("DiscardPolicy", 4_i16.into()),
            ("StartTimeSupported", true.into()),
            ("StopTimeSupported", true.into()),
            ("MaxEventsPerConsumer", 10_000_i32.into()),
            ("MaximumBatchSize", 12_i32.into()),
            ("PacingInterval", 2_000_000_u64.into()),
            ("FullOutbox", "Reject".into()),
            ("PushWindow", 16_u16.into()),
            ("PushOneWay", true.into()),
            ("MarkRepeats", true.into()),
            ("MemoryBudget", 1_000_000_u64.into()),
            ("ReplyTimeout", 20_000_000_u64.into()),
            ("ConnectTimeout", 10_000_u64.into()),
            ("GiveUpAfter", 0_u64.into()),
            ("HoldTimeout", 50_000_000_u64.into()),
            ("HoldGranted", true.into()),
            ("PullInterval", 3_000_000_u64.into()),
            ("FilterTimeout", 4_000_000_u64.into()),
            ("ProbeInterval", 0_u64.into()),
            ("SupplierLinger", 6_000_000_000_u64.into()),
            ("DispatchPriority", 7_u16.into()),
            ("ThreadPool", client::notify::ThreadPool::new(giop::realtime::PriorityModel::ServerDeclared, 5, 1).into()),
            ("Discipline", "EarliestDeadline".into()),
            ("Share", 40_u32.into()),
            ("Deadline", 250_000_u64.into()),
            ("Topics", client::notify::Topics(vec![client::notify::Topic::new("Plant", "Alarm", 9)]).into()),
            ("Profile", "Standard".into()),
        ],
    );
    let settings = scene.settings();
    assert_eq!(settings.order_policy, OrderPolicy::Priority);
    assert_eq!(settings.timeout, Some(Duration::from_secs(5)));
    assert!(settings.start_time_supported && settings.stop_time_supported);
    assert_eq!((settings.batch_size_max.get(), settings.pacing_interval), (12, Duration::from_millis(200)));
    assert_eq!((settings.filter_timeout, settings.probe_interval), (Duration::from_millis(400), Duration::ZERO));
    let channels: Vec<_> = scene.d.protocol.objects.hierarchy().channels().collect();
    let patch = *channels[0].patch();
    let times = (patch.pull_interval, patch.supplier_linger);
    assert_eq!((patch.priority, times), (Some(-7), (Some(Duration::from_millis(300)), Some(Duration::from_secs(600)))));
    let bounds = (settings.discard_policy, settings.max_events_per_consumer);
    assert_eq!(bounds, (DiscardPolicy::Lifo, NonZeroU32::new(10_000)));
    assert_eq!(settings.full_outbox, Some(FullOutbox::Reject));
    assert_eq!((settings.push_window, settings.one_way, settings.mark_repeats), (16, true, true));
    let times = [settings.reply_timeout, settings.connect_timeout, settings.give_up_after, settings.max_blocked_time()];
    let expected = [Duration::from_secs(2), Duration::from_millis(1), Duration::ZERO, Duration::from_secs(5)];
    assert_eq!(times, expected);
    assert_eq!(channels[0].limits().memory_budget_bytes, 1_000_000);

    let qos = scene.qos(&channel);
    assert_eq!((qos.len(), &qos["DispatchPriority"]), (42, &Value::UShort(7)));
    assert_eq!(qos["Profile"], text("Standard"));
    assert_eq!((&qos["DiscardPolicy"], &qos["OrderPolicy"]), (&Value::Short(4), &Value::Short(2)));
    assert_eq!((&qos["Priority"], &qos["Timeout"]), (&Value::Short(-7), &Value::ULongLong(50_000_000)));
    assert_eq!((&qos["MaximumBatchSize"], &qos["PacingInterval"]), (&Value::Long(12), &Value::ULongLong(2_000_000)));
    let times = ["PullInterval", "FilterTimeout", "ProbeInterval"].map(|name| qos[name].clone());
    assert_eq!(times, [3_000_000, 4_000_000, 0].map(Value::ULongLong));
    assert!(!qos.contains_key("StartTime") && !qos.contains_key("StopTime"));
    assert_eq!(qos["MaxEventsPerConsumer"], Value::Long(10_000));
    assert_eq!((&qos["FullOutbox"], &qos["PushWindow"]), (&text("Reject"), &Value::UShort(16)));
    assert_eq!(qos["MemoryBudget"], Value::ULongLong(1_000_000));
    assert_eq!((&qos["ReplyTimeout"], &qos["StopTimeSupported"]), (&Value::ULongLong(20_000_000), &Value::Bool(true)));
}

#[test]
fn every_policy_reaches_the_engine() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    for (name, policy) in
        [("Hold", FullOutbox::Hold), ("Discard", FullOutbox::Discard), ("Disconnect", FullOutbox::Disconnect)]
    {
        scene.set(&channel, &[("FullOutbox", name.into())]);
        assert_eq!(scene.settings().full_outbox, Some(policy));
        assert_eq!(scene.qos(&channel)["FullOutbox"], text(name));
    }
    for (number, policy) in [
        (0, DiscardPolicy::Any),
        (1, DiscardPolicy::Fifo),
        (2, DiscardPolicy::Priority),
        (3, DiscardPolicy::Deadline),
        (4, DiscardPolicy::Lifo),
    ] {
        scene.set(&channel, &[("DiscardPolicy", i16::into(number))]);
        assert_eq!(scene.settings().discard_policy, policy);
        assert_eq!(scene.qos(&channel)["DiscardPolicy"], Value::Short(number));
    }
    let orders = [OrderPolicy::Any, OrderPolicy::Fifo, OrderPolicy::Priority, OrderPolicy::Deadline];
    for (number, policy) in (0_i16..).zip(orders) {
        scene.set(&channel, &[("OrderPolicy", number.into())]);
        assert_eq!(scene.settings().order_policy, policy);
        assert_eq!(scene.qos(&channel)["OrderPolicy"], Value::Short(number));
    }
    scene.set(&channel, &[("Timeout", 0_u64.into())]);
    assert_eq!(scene.settings().timeout, None);
    scene.set(&channel, &[("MaxEventsPerConsumer", 0_i32.into())]);
    assert_eq!(scene.settings().max_events_per_consumer, None);
}

#[test]
fn what_get_qos_gives_set_qos_takes() {
    let mut scene = Scene::new();
    for object in [&scene.channel, &scene.consumers, &scene.to_consumer, &scene.suppliers, &scene.from_supplier] {
        let body = scene.d.get(object, "get_qos");
        scene.d.call(object, "set_qos", |w| w.raw(body.reader().rest())).unwrap();
    }
    let channel = scene.channel.clone();
    let body = scene.d.get(&channel, "get_admin");
    scene.d.call(&channel, "set_admin", |w| w.raw(body.reader().rest())).unwrap();
}

/// C++ programs make a sequence of properties longer than what they put into it; the entries that are left over have no name
/// and an empty Any. TAO's service takes them; here they were unknown properties, and nothing was set.
#[test]
fn entries_without_name_and_value_are_passed_over_wherever_properties_are_taken() {
    let mut scene = Scene::new();
    let nothing = || ("", AnyValue::default());
    let given = [nothing(), ("PushWindow", 4_u16.into()), nothing()];
    for object in [&scene.channel, &scene.consumers, &scene.to_consumer] {
        scene.d.call(object, "set_qos", |w| write(&given, w)).unwrap();
        scene.d.call(object, "validate_qos", |w| write(&given, w)).unwrap();
    }
    assert_eq!(scene.settings().push_window, 4);
    let limit = [nothing(), ("MaxConsumers", 3_i32.into())];
    let channel = scene.channel.clone();
    scene.d.call(&channel, "set_admin", |w| write(&limit, w)).unwrap();
    let of_event = [nothing(), ("Priority", 3_i16.into())];
    for proxy in [&scene.to_consumer, &scene.from_supplier] {
        scene.d.call(proxy, "validate_event_qos", |w| write(&of_event, w)).unwrap();
    }
    let factory = scene.d.bootstrap("NotificationService");
    let write_both = |w: &mut Writer<'_>| {
        write(&given, w);
        write(&limit, w);
    };
    scene.d.call(&factory, "create_channel", write_both).unwrap();
    // A name without a value, or a value without a name, is something.
    for (name, value) in [("", 4_u16.into()), ("PushWindow", nothing().1)] {
        let errors = scene.errors(&channel, &[(name, value)]);
        assert_eq!(errors.len(), 1, "{name:?}");
    }
}

fn taking_unknown() -> crate::ProtocolSettings {
    let compatibility = crate::Compatibility { ignore_unknown_properties: true, ..crate::Compatibility::default() };
    crate::ProtocolSettings { compatibility, ..crate::tests::dialogue::settings(1) }
}

/// TAO stores what it does not know, and tells it; its clients set properties of their own at every level, and some ask for them.
#[test]
fn what_is_unknown_is_stored_and_reported_where_it_is_taken() {
    let mut scene = Scene::with(taking_unknown());
    let mine = |text: &str| ("Mine", AnyValue::from(text));
    let channel = scene.channel.clone();
    for (object, text) in
        [(scene.channel.clone(), "channel"), (scene.consumers.clone(), "admin"), (scene.to_consumer.clone(), "proxy")]
    {
        scene.set(&object, &[mine(text), ("PushWindow", 4_u16.into())]);
        let reported = scene.qos(&object);
        assert_eq!((&reported["Mine"], &reported["PushWindow"]), (&Value::String(text.into()), &Value::UShort(4)));
        scene.d.call(&object, "validate_qos", |w| write(&[mine("x")], w)).unwrap();
        assert_eq!(scene.qos(&object)["Mine"], Value::String(text.into()), "it was only asked about");
    }
    let suppliers = scene.suppliers.clone();
    assert!(!scene.qos(&suppliers).contains_key("Mine"), "what is unknown is not inherited");
    // Of one name the last counts, of any type; what is set beside stays.
    scene.set(&channel, &[("Other", true.into())]);
    scene.set(&channel, &[("Mine", 7_i32.into())]);
    let reported = scene.qos(&channel);
    assert_eq!((&reported["Mine"], &reported["Other"]), (&Value::Long(7), &Value::Bool(true)));
    // Administrative ones are by themselves.
    scene.d.call(&channel, "set_admin", |w| write(&[("Theirs", 8_i32.into())], w)).unwrap();
    let admin = scene.d.get(&channel, "get_admin").read(read);
    assert_eq!((admin.get("Theirs"), admin.get("Mine")), (Some(&Value::Long(8)), None));
    assert!(!scene.qos(&channel).contains_key("Theirs"));
    // A new channel has what it was made with.
    let factory = scene.d.bootstrap("NotificationService");
    let made = scene.d.call(&factory, "create_channel", |w| {
        write(&[mine("new")], w);
        write(&[("Theirs", 9_i32.into())], w);
    });
    let made = made.unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
    assert_eq!(scene.qos(&made)["Mine"], Value::String("new".into()));
    // It outlives the process; proxies do only where they are said to.
    let parts = |protocol: &crate::Protocol| {
        let image = protocol.objects.image();
        let with_it = |part: &&Vec<u8>| part.windows(6).any(|octets| octets == b"\"Mine\"");
        (image.values().filter(with_it).count(), image)
    };
    let (count, image) = parts(&scene.d.protocol);
    assert_eq!(count, 3);
    let mut restored = crate::Protocol::new(taking_unknown());
    restored.restore_image(&image, somebody(), |_| {}).unwrap();
    assert_eq!(restored.objects.image(), image);
    scene.d.call(&made, "destroy", |_| {}).unwrap();
    assert_eq!(parts(&scene.d.protocol).0, 2);
}

#[test]
fn what_is_unknown_is_bounded_in_number_and_in_octets_and_what_is_beyond_is_refused() {
    let mut scene = Scene::with(taking_unknown());
    let (channel, consumers) = (scene.channel.clone(), scene.consumers.clone());
    let names: Vec<String> = (0..65).map(|number| format!("Mine{number}")).collect();
    let given: Vec<(&str, AnyValue)> = names.iter().map(|name| (name.as_str(), 1_i32.into())).collect();
    let errors = scene.errors(&channel, &given);
    assert_eq!(errors, [(BAD_PROPERTY, "Mine64".to_owned(), Value::Null, Value::Null)]);
    assert!(!scene.qos(&channel).contains_key("Mine0"), "nothing of it is set");
    scene.set(&channel, &given[..64]);
    assert_eq!(scene.errors(&channel, &given[64..]).len(), 1);
    scene.set(&channel, &[("Mine3", 2_i32.into())]);
    assert_eq!(scene.qos(&channel)["Mine3"], Value::Long(2));
    let long = "x".repeat(8 << 10);
    assert_eq!(scene.errors(&consumers, &[("Long", long.as_str().into())]).len(), 1);
    scene.set(&consumers, &[("Long", long[..8_000].into())]);
    assert_eq!(scene.errors(&consumers, &[("More", long[..200].into())]).len(), 1);
}

#[test]
fn a_level_inherits_what_it_does_not_set() {
    let mut scene = Scene::new();
    let (channel, consumers, proxy) = (scene.channel.clone(), scene.consumers.clone(), scene.to_consumer.clone());
    let window = |scene: &mut Scene, object: &Ior| scene.qos(object)["PushWindow"].clone();
    let all = |scene: &mut Scene| [&channel, &consumers, &proxy].map(|object| window(scene, object));
    assert_eq!(all(&mut scene), [1, 1, 1].map(Value::UShort));
    scene.set(&channel, &[("PushWindow", 4_u16.into())]);
    assert_eq!(all(&mut scene), [4, 4, 4].map(Value::UShort));
    scene.set(&consumers, &[("PushWindow", 5_u16.into())]);
    assert_eq!(all(&mut scene), [4, 5, 5].map(Value::UShort));
    scene.set(&proxy, &[("PushWindow", 6_u16.into())]);
    assert_eq!(all(&mut scene), [4, 5, 6].map(Value::UShort));
    scene.set(&channel, &[("PushWindow", 7_u16.into())]);
    assert_eq!(all(&mut scene), [7, 5, 6].map(Value::UShort));
    assert_eq!(scene.settings().push_window, 6);
}

#[test]
fn every_bad_property_is_named_with_its_code_and_range() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let short = |low: i16, high: i16| (Value::Short(low), Value::Short(high));
    let none = (Value::Null, Value::Null);
    let long = (Value::Long(0), Value::Long(i32::MAX));
    let times = |low: u64, high: u64| (Value::ULongLong(low), Value::ULongLong(high));
    let choices = text("Hold|Discard|Reject|Disconnect");
    let cases: Vec<(&str, AnyValue, u32, (Value, Value))> = vec![
        ("EventReliability", 1_i16.into(), UNSUPPORTED_VALUE, short(0, 0)),
        ("ConnectionReliability", 1_i16.into(), UNSUPPORTED_VALUE, short(0, 0)),
        ("EventReliability", 2_i16.into(), BAD_VALUE, short(0, 0)),
        ("OrderPolicy", 4_i16.into(), BAD_VALUE, short(0, 3)),
        ("OrderPolicy", (-1_i16).into(), BAD_VALUE, short(0, 3)),
        ("DiscardPolicy", 5_i16.into(), BAD_VALUE, short(0, 4)),
        ("StopTimeSupported", 0_i16.into(), BAD_TYPE, (Value::Bool(false), Value::Bool(true))),
        ("Priority", (-32_768_i16).into(), BAD_VALUE, short(-32_767, 32_767)),
        ("Priority", 32_768_i32.into(), BAD_VALUE, short(-32_767, 32_767)),
        ("Timeout", (-1_i64).into(), BAD_VALUE, times(0, CENTURY)),
        ("Timeout", u64::MAX.into(), UNSUPPORTED_VALUE, times(0, CENTURY)),
        ("Timeout", utc(1), BAD_TYPE, times(0, CENTURY)),
        ("MaximumBatchSize", 0_i32.into(), BAD_VALUE, (Value::Long(1), Value::Long(65_536))),
        ("MaximumBatchSize", (-5_i32).into(), BAD_VALUE, (Value::Long(1), Value::Long(65_536))),
        ("MaximumBatchSize", 65_537_i32.into(), UNSUPPORTED_VALUE, (Value::Long(1), Value::Long(65_536))),
        ("PacingInterval", 36_000_000_001_u64.into(), UNSUPPORTED_VALUE, times(0, 36_000_000_000)),
        ("PullInterval", 9_999_u64.into(), BAD_VALUE, times(10_000, 36_000_000_000)),
        ("FilterTimeout", 0_u64.into(), BAD_VALUE, times(10_000, 36_000_000_000)),
        ("ProbeInterval", (-1_i16).into(), BAD_VALUE, times(0, 6_048_000_000_000)),
        ("MaxEventsPerConsumer", (-1_i32).into(), BAD_VALUE, long.clone()),
        ("MaxEventsPerConsumer", 0x8000_0000_u32.into(), BAD_VALUE, long.clone()),
        ("MaxEventsPerConsumer", u64::MAX.into(), BAD_VALUE, long.clone()),
        ("MaxEventsPerConsumer", "many".into(), BAD_TYPE, long.clone()),
        ("MaxEventsPerConsumer", 1.5_f64.into(), BAD_TYPE, long),
        ("FullOutbox", "hold".into(), BAD_VALUE, (choices.clone(), choices.clone())),
        ("FullOutbox", 1_i16.into(), BAD_TYPE, (choices.clone(), choices)),
        ("PushWindow", 0_u16.into(), BAD_VALUE, (Value::UShort(1), Value::UShort(1024))),
        ("PushWindow", 1025_u16.into(), BAD_VALUE, (Value::UShort(1), Value::UShort(1024))),
        ("PushOneWay", AnyValue::default(), BAD_TYPE, (Value::Bool(false), Value::Bool(true))),
        ("MemoryBudget", 1_u64.into(), BAD_VALUE, (Value::ULongLong(64 << 10), Value::ULongLong(1 << 40))),
        ("ConnectTimeout", 0_u64.into(), BAD_VALUE, (Value::ULongLong(10_000), Value::ULongLong(36_000_000_000))),
        ("MaxConsumers", true.into(), BAD_TYPE, (Value::Long(0), Value::Long(i32::MAX))),
        ("MaxConstraintLength", 0_i32.into(), BAD_VALUE, (Value::Long(1), Value::Long(1 << 20))),
        ("StartTime", utc(1), UNAVAILABLE_PROPERTY, none.clone()),
        ("StopTime", AnyValue::default(), UNAVAILABLE_PROPERTY, none.clone()),
        ("NobodysPolicy", AnyValue::default(), BAD_PROPERTY, none.clone()),
        ("Profile", "realtime".into(), BAD_VALUE, (text("Standard|RealTime"), text("Standard|RealTime"))),
        ("eventreliability", 0_i16.into(), BAD_PROPERTY, none.clone()),
        ("", 0_i16.into(), BAD_PROPERTY, none),
    ];
    let given: Vec<(&str, AnyValue)> = cases.iter().map(|(name, value, ..)| (*name, value.clone())).collect();
    let expected: Vec<_> =
        cases.into_iter().map(|(name, _, code, (low, high))| (code, name.to_owned(), low, high)).collect();
    assert_eq!(scene.errors(&channel, &given), expected);
    // One by one as well, among good ones.
    for ((name, value), expected) in given.iter().zip(expected) {
        let some = [("PushWindow", 9_u16.into()), (*name, value.clone()), ("PushOneWay", true.into())];
        assert_eq!(scene.errors(&channel, &some), [expected]);
    }
    assert_eq!(scene.settings(), OutboxSettings::default(), "nothing of it was done");
}

#[test]
fn integers_of_any_width_are_taken_if_they_fit() {
    let mut scene = Scene::new();
    let proxy = scene.to_consumer.clone();
    let values: [AnyValue; 7] =
        [7_u8.into(), 7_i16.into(), 7_u16.into(), 7_i32.into(), 7_u32.into(), 7_i64.into(), 7_u64.into()];
    for value in values {
        scene.set(&proxy, &[("PushWindow", 1_u16.into()), ("MaxEventsPerConsumer", 1_i32.into())]);
        scene.set(&proxy, &[("PushWindow", value.clone()), ("MaxEventsPerConsumer", value.clone())]);
        let settings = scene.settings();
        assert_eq!((settings.push_window, settings.max_events_per_consumer), (7, NonZeroU32::new(7)));
        scene.set(&proxy, &[("GiveUpAfter", value)]);
        assert_eq!(scene.settings().give_up_after, Duration::from_nanos(700));
    }
}

#[test]
fn types_under_other_names_are_looked_through() {
    let mut scene = Scene::new();
    let proxy = scene.to_consumer.clone();
    let time = TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong));
    let time = TypeCode::alias("IDL:x/Again:1.0", "Again", time);
    scene.set(&proxy, &[("ReplyTimeout", AnyValue::new(time, Value::ULongLong(10_000_000)))]);
    assert_eq!(scene.settings().reply_timeout, Duration::from_secs(1));
    let name = TypeCode::alias("IDL:x/Name:1.0", "Name", TypeCode::string());
    scene.set(&proxy, &[("FullOutbox", AnyValue::new(name, text("Hold")))]);
    assert_eq!(scene.settings().full_outbox, Some(FullOutbox::Hold));
}

#[test]
fn of_two_with_one_name_the_later_counts() {
    let mut scene = Scene::new();
    let proxy = scene.to_consumer.clone();
    scene.set(&proxy, &[("PushWindow", 3_u16.into()), ("PushWindow", 5_u16.into())]);
    assert_eq!(scene.settings().push_window, 5);
}

#[test]
fn what_is_a_channels_or_a_consumers_cannot_be_set_elsewhere() {
    let mut scene = Scene::new();
    for object in [scene.consumers.clone(), scene.to_consumer.clone()] {
        for (name, value) in [("MemoryBudget", 1_000_000_u64.into()), ("MaxConsumers", AnyValue::from(3_i32))] {
            let errors = scene.errors(&object, &[(name, value)]);
            let code = if name == "MemoryBudget" { UNAVAILABLE_PROPERTY } else { BAD_PROPERTY };
            assert_eq!(errors, [(code, name.to_owned(), Value::Null, Value::Null)]);
        }
        assert!(!scene.qos(&object).contains_key("MemoryBudget"));
    }
    for object in [scene.suppliers.clone(), scene.from_supplier.clone()] {
        for (name, value) in [
            ("MaxEventsPerConsumer", AnyValue::from(3_i32)),
            ("FullOutbox", "Hold".into()),
            ("PushWindow", 1_u16.into()),
            ("PushOneWay", true.into()),
            ("MarkRepeats", true.into()),
        ] {
            let errors = scene.errors(&object, &[(name, value)]);
            assert_eq!(errors, [(UNAVAILABLE_PROPERTY, name.to_owned(), Value::Null, Value::Null)]);
        }
        scene.set(&object, &[("OrderPolicy", 0_i16.into()), ("DiscardPolicy", 1_i16.into())]);
        let names: Vec<String> = scene.qos(&object).into_keys().collect();
        let expected = [
            "AcknowledgeAfter",
            "AcknowledgeWithin",
            "ConnectTimeout",
            "ConnectionExpiry",
            "ConnectionReliability",
            "DiscardPolicy",
            "EventReliability",
            "FilterTimeout",
            "GiveUpAfter",
            "MaximumBatchSize",
            "OrderPolicy",
            "PacingInterval",
            "Priority",
            "ProbeInterval",
            "PullInterval",
            "ReplyTimeout",
            "StartTimeSupported",
            "StopTimeSupported",
            "SupplierLinger",
            "Timeout",
        ];
        assert_eq!(names, expected);
    }
    for object in [scene.consumers.clone(), scene.to_consumer.clone()] {
        let errors = scene.errors(&object, &[("PullInterval", 10_000_u64.into())]);
        assert_eq!(errors, [(UNAVAILABLE_PROPERTY, "PullInterval".to_owned(), Value::Null, Value::Null)]);
    }
}

#[test]
fn validating_tells_what_else_there_is_and_changes_nothing() {
    let mut scene = Scene::new();
    let proxy = scene.to_consumer.clone();
    let named = [("PushWindow", 9_u16.into()), ("EventReliability", 0_i16.into())];
    let body = scene.d.call(&proxy, "validate_qos", |w| write(&named, w)).unwrap();
    let ranges: BTreeMap<String, (Value, Value)> =
        body.read(|r| (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), (read_value(r), read_value(r)))).collect());
    assert!(!ranges.contains_key("PushWindow") && !ranges.contains_key("EventReliability"));
    assert_eq!(ranges["MaxEventsPerConsumer"], (Value::Long(0), Value::Long(i32::MAX)));
    assert_eq!(ranges["OrderPolicy"], (Value::Short(0), Value::Short(3)));
    assert_eq!(ranges.len(), 30);
    assert_eq!(scene.settings(), OutboxSettings::default());
}

#[test]
fn what_an_event_may_ask_for_depends_on_what_its_proxy_heeds() {
    let mut scene = Scene::new();
    for proxy in [scene.to_consumer.clone(), scene.from_supplier.clone()] {
        let available = |scene: &mut Scene, named: &[(&str, AnyValue)]| -> Vec<String> {
            let body = scene.d.call(&proxy, "validate_event_qos", |w| write(named, w)).unwrap();
            body.read(|r| (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), read_value(r), read_value(r)).0).collect())
        };
        let errors = |scene: &mut Scene, named: &[(&str, AnyValue)]| -> Vec<(u32, String)> {
            let refused = scene.d.call(&proxy, "validate_event_qos", |w| write(named, w)).raises("UnsupportedQoS");
            refused.read(read_errors).into_iter().map(|(code, name, ..)| (code, name)).collect()
        };
        let all = ["EventReliability", "Priority", "StartTime", "StopTime", "Timeout"];
        assert_eq!(available(&mut scene, &[]), all);
        scene.set(&proxy, &[("StartTimeSupported", false.into()), ("StopTimeSupported", false.into())]);
        assert_eq!(available(&mut scene, &[]), ["EventReliability", "Priority", "Timeout"]);
        assert_eq!(available(&mut scene, &[("Priority", 1_i32.into())]), ["EventReliability", "Timeout"]);
        let asked = [
            ("StartTime", utc(1)),
            ("Priority", 40_000_i32.into()),
            ("PushWindow", 1_u16.into()),
            ("Nonsense", 1_u16.into()),
            ("EventReliability", 1_i16.into()),
            ("Timeout", 1_i32.into()),
        ];
        let expected = [
            (UNAVAILABLE_PROPERTY, "StartTime"),
            (BAD_VALUE, "Priority"),
            (UNAVAILABLE_PROPERTY, "PushWindow"),
            (BAD_PROPERTY, "Nonsense"),
            (UNSUPPORTED_VALUE, "EventReliability"),
        ];
        assert_eq!(errors(&mut scene, &asked), expected.map(|(code, name)| (code, name.to_owned())));
        scene.set(&proxy, &[("StartTimeSupported", true.into()), ("StopTimeSupported", true.into())]);
        assert_eq!(available(&mut scene, &[]), all);
        assert_eq!(
            available(&mut scene, &[("StartTime", utc(u64::MAX)), ("StopTime", utc(0))]),
            [all[0], all[1], all[4]]
        );
        assert_eq!(errors(&mut scene, &[("StopTime", 3_u64.into())]), [(BAD_TYPE, "StopTime".to_owned())]);
        let before = scene.patch(&proxy);
        scene.d.call(&proxy, "validate_event_qos", |w| write(&[("Priority", 9_i16.into())], w)).unwrap();
        assert_eq!(scene.patch(&proxy), before, "an event's properties are its own");
    }
}

#[test]
fn four_levels_from_the_channel_to_the_event_agree_on_what_is_inherited() {
    let mut scene = Scene::new();
    let (channel, suppliers, proxy) = (scene.channel.clone(), scene.suppliers.clone(), scene.from_supplier.clone());
    let all = |scene: &mut Scene| {
        [&channel, &suppliers, &proxy].map(|object| match scene.qos(object)["Priority"] {
            Value::Short(priority) => priority,
            ref other => panic!("{other:?}"),
        })
    };
    assert_eq!(all(&mut scene), [0, 0, 0]);
    scene.set(&channel, &[("Priority", 1_i16.into()), ("Timeout", 7_u64.into())]);
    assert_eq!(all(&mut scene), [1, 1, 1]);
    scene.set(&proxy, &[("Priority", (-3_i16).into()), ("Timeout", 0_u64.into())]);
    assert_eq!(all(&mut scene), [1, 1, -3]);
    scene.set(&suppliers, &[("Priority", 2_i16.into())]);
    assert_eq!(all(&mut scene), [1, 2, -3]);
    assert_eq!(scene.qos(&suppliers)["Timeout"], Value::ULongLong(7));
    assert_eq!(scene.qos(&proxy)["Timeout"], Value::ULongLong(0), "no time-out, whatever the channel says");
    let to_consumer = scene.to_consumer.clone();
    assert_eq!(scene.qos(&to_consumer)["Timeout"], Value::ULongLong(7));
}

#[test]
fn a_client_gets_no_more_filter_steps_than_the_configuration_grants() {
    // A client could set 100 million, and one event then kept its lane for 0.39 s.
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let set = |scene: &mut Scene, steps: i32| {
        let properties: [(&str, AnyValue); 1] = [("FilterSteps", steps.into())];
        scene.d.call(&channel, "set_admin", |w| write(&properties, w))
    };
    set(&mut scene, 1_000_000).unwrap();
    for (steps, expected) in [(1_000_001, UNSUPPORTED_VALUE), (100_000_000, UNSUPPORTED_VALUE), (0, BAD_VALUE)] {
        let errors = set(&mut scene, steps).raises("UnsupportedAdmin").read(read_errors);
        let (code, name, low, high) = errors.into_iter().next().unwrap();
        assert_eq!((code, name.as_str()), (expected, "FilterSteps"));
        assert_eq!((low, high), (Value::Long(1), Value::Long(1_000_000)));
    }
    let errors = scene.errors(&channel, &[("FilterSteps", 2_000_000_i32.into())]);
    assert_eq!(errors.first().map(|(code, ..)| *code), Some(UNSUPPORTED_VALUE));
    // A filter that a client asks itself is bound by the same number, whatever time the client gives it.
    assert_eq!(scene.d.protocol.objects.hierarchy().channels().next().unwrap().limits().filter_steps_max, 1_000_000);
}

#[test]
fn administrative_properties_are_set_whole_or_not_at_all() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let good: [(&str, AnyValue); 9] = [
        ("MaxConstraintLength", 100_i32.into()),
        ("MaxConstraintNodes", 101_i16.into()),
        ("MaxConstraintsPerFilter", 102_u64.into()),
        ("MaxFiltersPerObject", 103_i32.into()),
        ("FilterSteps", 104_i32.into()),
        ("MaxQueueLength", 500_i32.into()),
        ("MaxConsumers", 3_i16.into()),
        ("MaxSuppliers", 4_u64.into()),
        ("RejectNewEvents", true.into()),
    ];
    scene.d.call(&channel, "set_admin", |w| write(&good, w)).unwrap();
    let read_admin = |scene: &mut Scene| scene.d.get(&channel, "get_admin").read(read);
    let admin = read_admin(&mut scene);
    assert_eq!(admin["MaxQueueLength"], Value::Long(500));
    assert_eq!(admin["MaxConsumers"], Value::Long(3));
    assert_eq!(admin["MaxSuppliers"], Value::Long(4));
    assert_eq!(admin["RejectNewEvents"], Value::Bool(true));
    let limits = *scene.d.protocol.objects.hierarchy().channels().next().unwrap().limits();
    let ChannelLimits { constraint_bytes_max, constraint_nodes_max, constraints_per_filter_max, .. } = limits;
    assert_eq!((constraint_bytes_max, constraint_nodes_max, constraints_per_filter_max), (100, 101, 102));
    assert_eq!((limits.filters_per_object_max, limits.filter_steps_max), (103, 104));
    assert_eq!((&admin["MaxFiltersPerObject"], &admin["FilterSteps"]), (&Value::Long(103), &Value::Long(104)));
    let mixed: [(&str, AnyValue); 4] = [
        ("MaxQueueLength", 7_i32.into()),
        ("MaxConsumers", (-3_i32).into()),
        ("RejectNewEvents", 1_i32.into()),
        ("PushWindow", 1_u16.into()),
    ];
    let errors = scene.d.call(&channel, "set_admin", |w| write(&mixed, w)).raises("UnsupportedAdmin").read(read_errors);
    let codes: Vec<(u32, &str)> = errors.iter().map(|(code, name, ..)| (*code, name.as_str())).collect();
    assert_eq!(codes, [(BAD_VALUE, "MaxConsumers"), (BAD_TYPE, "RejectNewEvents"), (BAD_PROPERTY, "PushWindow")]);
    assert_eq!(read_admin(&mut scene), admin);
    // Clients in the field set them as QoS when they reconnect.
    scene.set(&channel, &[("MaxConsumers", 0_i32.into()), ("PushWindow", 2_u16.into())]);
    assert_eq!(read_admin(&mut scene)["MaxConsumers"], Value::Long(0));
}

#[test]
fn a_channel_begins_with_what_its_creator_asks_for_or_not_at_all() {
    let mut scene = Scene::new();
    let factory = scene.d.bootstrap("NotificationService");
    let mut create = |qos: &[(&str, AnyValue)], admin: &[(&str, AnyValue)]| {
        scene.d.call(&factory, "create_channel", |w| {
            write(qos, w);
            write(admin, w);
        })
    };
    let channel = create(&[("PushWindow", 8_u16.into())], &[("MaxConsumers", 9_i32.into())]).unwrap();
    let channel = channel.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap()));
    assert_eq!(channel.1, 1);
    create(&[("PushWindow", 0_u16.into())], &[]).raises("UnsupportedQoS");
    create(&[], &[("MaxConsumers", "x".into())]).raises("UnsupportedAdmin");
    // Also where only what there is beside it speaks against it: it was UnsupportedQoS, about a property that is none of QoS.
    create(&[], &[("DeadLetterChannel", 99_i32.into())]).raises("UnsupportedAdmin");
    create(&[("DeadLetterChannel", 99_i32.into())], &[]).raises("UnsupportedQoS");
    let both = create(&[("Nonsense", 1_u16.into())], &[("Nonsense", "x".into())]);
    assert_eq!(both.raises("UnsupportedQoS").read(read_errors).len(), 1);
    assert_eq!(scene.qos(&channel.0)["PushWindow"], Value::UShort(8));
    assert_eq!(scene.d.get(&channel.0, "get_admin").read(read)["MaxConsumers"], Value::Long(9));
    assert_eq!(scene.d.ids(&factory, "get_all_channels"), [0, 1]);
}

#[test]
fn a_value_too_intricate_to_read_is_refused() {
    let mut scene = Scene::new();
    let proxy = scene.to_consumer.clone();
    // An Any in an Any in an Any …: 40,000 deep.
    let key = &proxy.iiop().unwrap().key;
    let encoding = giop::cdr::Encoding::new(scene.d.style.endian);
    let mut args = Vec::new();
    let mut w = Writer::new(&mut args, encoding);
    w.u32(1);
    w.string("PushWindow");
    for _ in 0..40_000 {
        w.u32(Kind::Any.number());
    }
    w.u32(0);
    let call =
        crate::ObjectRequest { key, operation: "set_qos", args: Reader::new(&args, encoding), principal: somebody() };
    let refused = scene.d.protocol.handle(&call, &mut Writer::new(&mut Vec::new(), encoding)).unwrap_err();
    let crate::Exception::System(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.kind, giop::exception::Kind::Marshal);
}

#[test]
fn the_document_lists_every_property_with_its_range_and_places() {
    use super::property::{Place, PropertyValue};
    use super::tables::{ADMIN, QOS};
    const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md"));
    let shown = |value: &PropertyValue| match value {
        PropertyValue::Boolean(value) => ("boolean", value.to_string().to_uppercase()),
        PropertyValue::Short(value) => ("short", value.to_string()),
        PropertyValue::UShort(value) => ("unsigned short", value.to_string()),
        PropertyValue::Long(value) => ("long", value.to_string()),
        PropertyValue::ULong(value) => ("unsigned long", value.to_string()),
        PropertyValue::ULongLong(value) => ("unsigned long long", value.to_string()),
        PropertyValue::Utc(_) => ("TimeBase::UtcT", String::new()),
        PropertyValue::Text(value) => ("string", value.replace('|', "\\|")),
        PropertyValue::Structure(value) if value.type_code.name() == "ThreadPoolParams" => {
            ("NotifyExt::ThreadPoolParams", String::new())
        }
        PropertyValue::Structure(value) if value.type_code.name() == "TopicSeq" => {
            ("Campanile::TopicSeq", String::new())
        }
        PropertyValue::Structure(_) => ("NotifyExt::ThreadPoolLanesParams", String::new()),
    };
    for property in QOS.iter().chain(ADMIN) {
        let (low, high) = property.range(Most {
            threads: 64,
            filter_steps: 100_000_000,
            constraint_bytes: 1 << 20,
            memory_bytes: 1 << 40,
            has_store: true,
        });
        let ((kind, low), (_, high)) = (shown(&low), shown(&high));
        let range = match kind {
            "string" => format!(" {low}"),
            kind if kind.contains("::") => String::new(),
            _ => format!(" {low} to {high}"),
        };
        let places: Vec<&str> = property
            .places
            .iter()
            .map(|place| match place {
                Place::Channel => "channel",
                Place::Consumers => "consumers",
                Place::Suppliers => "suppliers",
                Place::Event => "event",
            })
            .collect();
        let row = format!("| `{}` | `{kind}`{range} | {} |", property.name, places.join(", "));
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}

/// `FullOutbox` `Hold` beside `MaxEventsPerConsumer` 1 had one consumer slow all suppliers of its channel down.
#[test]
fn a_proxy_cannot_grant_itself_what_its_channel_and_its_admin_can() {
    let mut scene = Scene::new();
    let (channel, proxy) = (scene.channel.clone(), scene.to_consumer.clone());
    let only = |value| (Value::Bool(value), Value::Bool(value));
    let (low, high) = only(false);
    // `UNAVAILABLE_VALUE`.
    let errors = scene.errors(&proxy, &[("HoldGranted", true.into())]);
    assert_eq!(errors, [(3, "HoldGranted".to_owned(), low, high)]);
    // What `get_qos` returned may be set.
    scene.set(&proxy, &[("HoldGranted", false.into()), ("FullOutbox", "Hold".into())]);
    assert!(scene.settings().own_bound && !scene.settings().hold_granted);
    scene.set(&channel, &[("HoldGranted", true.into())]);
    assert_eq!(scene.qos(&proxy)["HoldGranted"], Value::Bool(true));
    assert!(!scene.settings().own_bound && scene.settings().hold_budget.is_zero());
}

/// A `MemoryBudget` of 1 TiB was granted by a machine of 16 GiB.
#[test]
fn a_memory_budget_is_refused_that_is_more_than_all_channels_may_take() {
    let settings = crate::tests::dialogue::settings(1);
    let mut scene = Scene::with(crate::ProtocolSettings { memory_bytes_max: 1 << 30, ..settings });
    let channel = scene.channel.clone();
    let range = (Value::ULongLong(64 << 10), Value::ULongLong(1 << 30));
    let errors = scene.errors(&channel, &[("MemoryBudget", (1_u64 << 40).into())]);
    assert_eq!(errors, [(UNSUPPORTED_VALUE, "MemoryBudget".to_owned(), range.0, range.1)]);
    scene.set(&channel, &[("MemoryBudget", (1_u64 << 30).into())]);
    assert_eq!(scene.qos(&channel)["MemoryBudget"], Value::ULongLong(1 << 30));
}
