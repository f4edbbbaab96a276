//! The stubs of the Notification Service against hand-made objects, and the servants against the stubs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::notify::{
    CallbackConsumer, ClientType, ConstraintExp, ConstraintInfo, ConsumerAdmin, ConsumerCallbacks, ConsumerServant,
    Delivery, EXTENDED_TCL, EventChannel, EventType, Filter, FilterCall, FilterFactory, FilterRefusal, FilterServant,
    MappingConstraintInfo, MappingConstraintPair, MappingFilter, ObtainInfoMode, Property, ProxyPullConsumer,
    ProxyPullSupplier, ProxyPushConsumer, ProxyPushSupplier, QueueSupplier, SequenceProxyPullConsumer,
    SequenceProxyPullSupplier, SequenceProxyPushConsumer, SequenceProxyPushSupplier, StructuredEvent,
    StructuredProxyPullConsumer, StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
    SupplierAdmin, SupplierCallbacks, SupplierServant, admin_limit, filter_refusal, invalid_event_type,
};
use campanile_client::{
    Activation, ConsumerOptions, InvokeError, ObjectRef, Orb, OrbOptions, Servant, ServantError, SimpleConsumer,
    SimpleSupplier, SupplierOptions, Unmarshal,
};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use giop::typecode::{Kind, Work};
use giop::value::{AnyValue, Value};
use std::sync::{Arc, Mutex};
use std::thread;
use testing::EndInTime;

type Answer = dyn Fn(&str, &mut Reader<'_>, &mut Writer<'_>) -> Result<(), ServantError> + Send + Sync;

/// An object that remembers what it was asked and answers by a closure.
struct HandMade {
    type_id: &'static str,
    requests: Mutex<Vec<String>>,
    answer: Box<Answer>,
}

impl Servant for HandMade {
    fn type_id(&self) -> &str {
        self.type_id
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        self.requests.lock().unwrap().push(operation.to_owned());
        (self.answer)(operation, args, reply)
    }
}

impl HandMade {
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn hand_made(
    type_id: &'static str,
    answer: impl Fn(&str, &mut Reader<'_>, &mut Writer<'_>) -> Result<(), ServantError> + Send + Sync + 'static,
) -> (Activation, Arc<HandMade>, ObjectRef) {
    let servant = Arc::new(HandMade { type_id, requests: Mutex::default(), answer: Box::new(answer) });
    let (activation, object) = activate(servant.clone());
    (activation, servant, object)
}

/// The object as another program sees it: nothing but the socket is shared.
fn activate(servant: Arc<dyn Servant>) -> (Activation, ObjectRef) {
    let activation = Orb::new(OrbOptions::default()).activate(servant).unwrap();
    let object = Orb::new(OrbOptions::default()).resolve(&activation.reference().ior().to_string()).unwrap();
    (activation, object)
}

fn temperature(celsius: f64) -> StructuredEvent {
    let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
    event.variable_header.push(Property::new("Priority", 3_i16));
    event.filterable_data.push(Property::new("celsius", celsius));
    event.remainder = AnyValue::from("body");
    event
}

fn raise(id: &'static str) -> ServantError {
    ServantError::User(id)
}

/// Connecting with and without a client, disconnecting, and what else is in the interface of a proxy.
macro_rules! walk_proxy {
    ($proxy:ident, $connect:ident($peer:expr), $disconnect:ident, $change:ident, $obtain:ident) => {{
        let (_activation, requests, object) = hand_made($proxy::REPOSITORY_ID, |operation, args, reply| {
            match operation {
                stringify!($connect) => drop(Ior::read(args)?),
                stringify!($obtain) => {
                    assert_eq!(args.u32()?, 1);
                    reply.length(1);
                    reply.string("A");
                    reply.string("B");
                }
                stringify!($change) => {
                    assert_eq!((args.u32()?, args.text()?, args.text()?, args.u32()?), (1, "C".into(), "D".into(), 0));
                }
                "get_all_filters" => {
                    reply.length(2);
                    reply.i32(4);
                    reply.i32(5);
                }
                "add_filter" => {
                    Ior::read(args)?;
                    reply.i32(4);
                }
                "get_filter" => {
                    assert_eq!(args.i32()?, 4);
                    Ior::nil().write(reply);
                }
                "remove_filter" => return Err(raise("IDL:omg.org/CosNotifyFilter/FilterNotFound:1.0")),
                "remove_all_filters" | stringify!($disconnect) => {}
                _ => return Err(ServantError::bad_operation()),
            }
            Ok(())
        });
        let proxy = $proxy::narrow(object.clone()).unwrap();
        proxy.$connect($peer(&object)).unwrap();
        proxy.$change(&[EventType::new("C", "D")], &[]).unwrap();
        assert_eq!(proxy.$obtain(ObtainInfoMode::AllNowUpdatesOn).unwrap(), [EventType::new("A", "B")]);
        assert_eq!(proxy.add_filter(&Filter::unchecked(object.clone())).unwrap(), 4);
        assert_eq!(proxy.get_all_filters().unwrap(), [4, 5]);
        assert!(proxy.get_filter(4).unwrap().object().ior().is_nil());
        let error = proxy.remove_filter(9).unwrap_err();
        assert_eq!(filter_refusal(&error), Some(FilterRefusal::FilterNotFound));
        proxy.remove_all_filters().unwrap();
        proxy.$disconnect().unwrap();
        let requests = requests.requests();
        assert_eq!(requests[..3], [stringify!($connect), stringify!($change), stringify!($obtain)]);
        assert_eq!(requests.last().unwrap(), stringify!($disconnect));
    }};
}

#[test]
fn proxies_of_suppliers_call_the_operations_of_their_interfaces() {
    let none = |_: &ObjectRef| None;
    walk_proxy!(
        ProxyPushConsumer,
        connect_any_push_supplier(none),
        disconnect_push_consumer,
        offer_change,
        obtain_subscription_types
    );
    walk_proxy!(
        StructuredProxyPushConsumer,
        connect_structured_push_supplier(none),
        disconnect_structured_push_consumer,
        offer_change,
        obtain_subscription_types
    );
    walk_proxy!(
        SequenceProxyPushConsumer,
        connect_sequence_push_supplier(none),
        disconnect_sequence_push_consumer,
        offer_change,
        obtain_subscription_types
    );
    walk_proxy!(
        ProxyPullConsumer,
        connect_any_pull_supplier(std::convert::identity),
        disconnect_pull_consumer,
        offer_change,
        obtain_subscription_types
    );
    walk_proxy!(
        StructuredProxyPullConsumer,
        connect_structured_pull_supplier(std::convert::identity),
        disconnect_structured_pull_consumer,
        offer_change,
        obtain_subscription_types
    );
    walk_proxy!(
        SequenceProxyPullConsumer,
        connect_sequence_pull_supplier(std::convert::identity),
        disconnect_sequence_pull_consumer,
        offer_change,
        obtain_subscription_types
    );
}

#[test]
fn proxies_of_consumers_call_the_operations_of_their_interfaces() {
    let none = |_: &ObjectRef| None;
    walk_proxy!(
        ProxyPushSupplier,
        connect_any_push_consumer(std::convert::identity),
        disconnect_push_supplier,
        subscription_change,
        obtain_offered_types
    );
    walk_proxy!(
        StructuredProxyPushSupplier,
        connect_structured_push_consumer(std::convert::identity),
        disconnect_structured_push_supplier,
        subscription_change,
        obtain_offered_types
    );
    walk_proxy!(
        SequenceProxyPushSupplier,
        connect_sequence_push_consumer(std::convert::identity),
        disconnect_sequence_push_supplier,
        subscription_change,
        obtain_offered_types
    );
    walk_proxy!(
        ProxyPullSupplier,
        connect_any_pull_consumer(none),
        disconnect_pull_supplier,
        subscription_change,
        obtain_offered_types
    );
    walk_proxy!(
        StructuredProxyPullSupplier,
        connect_structured_pull_consumer(none),
        disconnect_structured_pull_supplier,
        subscription_change,
        obtain_offered_types
    );
    walk_proxy!(
        SequenceProxyPullSupplier,
        connect_sequence_pull_consumer(none),
        disconnect_sequence_pull_supplier,
        subscription_change,
        obtain_offered_types
    );
}

#[test]
fn proxies_that_call_their_client_can_be_suspended() {
    let (_activation, requests, object) = hand_made("IDL:Test/Proxy:1.0", |operation, _, _| match operation {
        "suspend_connection" => Err(raise("IDL:omg.org/CosNotifyChannelAdmin/ConnectionAlreadyInactive:1.0")),
        _ => Ok(()),
    });
    macro_rules! pause {
        ($($proxy:ident)*) => {$({
            let proxy = $proxy::unchecked(object.clone());
            assert!(proxy.suspend_connection().unwrap_err().is("ConnectionAlreadyInactive"));
            proxy.resume_connection().unwrap();
            assert_eq!(requests.requests(), ["suspend_connection", "resume_connection"]);
        })*};
    }
    pause!(ProxyPushSupplier StructuredProxyPushSupplier SequenceProxyPushSupplier);
    pause!(ProxyPullConsumer StructuredProxyPullConsumer SequenceProxyPullConsumer);
}

#[test]
fn admins_make_proxies_of_every_form_to_push_and_to_pull() {
    let (_activation, requests, object) = hand_made(ConsumerAdmin::REPOSITORY_ID, |operation, args, reply| {
        if operation.starts_with("_set") || operation.starts_with("_get_priority") {
            if operation.starts_with("_get") {
                Ior::nil().write(reply);
            }
            return Ok(());
        }
        if args.u32()? == 2 {
            return Err(ServantError::user_with("IDL:omg.org/CosNotifyChannelAdmin/AdminLimitExceeded:1.0", |w| {
                w.string("MaxConsumers");
                AnyValue::from(17_i32).write(w).unwrap();
            }));
        }
        Ior::nil().write(reply);
        reply.i32(8);
        Ok(())
    });
    let admin = ConsumerAdmin::unchecked(object.clone());
    assert_eq!(admin.obtain_notification_pull_supplier(ClientType::Any).unwrap().1, 8);
    let error = admin.obtain_notification_push_supplier(ClientType::Sequence).unwrap_err();
    assert_eq!(admin_limit(&error), Some(Property::new("MaxConsumers", 17_i32)));
    assert!(admin.priority_filter().unwrap().is_none());
    admin.set_lifetime_filter(None).unwrap();
    let admin = SupplierAdmin::unchecked(object);
    assert_eq!(admin.obtain_notification_pull_consumer(ClientType::Structured).unwrap().1, 8);
    let expected = [
        "obtain_notification_pull_supplier",
        "obtain_notification_push_supplier",
        "_get_priority_filter",
        "_set_lifetime_filter",
        "obtain_notification_pull_consumer",
    ];
    assert_eq!(requests.requests(), expected);
}

#[test]
fn event_type_that_is_refused_is_reported() {
    let (_activation, _, object) = hand_made("IDL:Test/Proxy:1.0", |_, _, _| {
        Err(ServantError::user_with("IDL:omg.org/CosNotifyComm/InvalidEventType:1.0", |w| {
            w.string("D");
            w.string("T");
        }))
    });
    let error = ProxyPushConsumer::unchecked(object).offer_change(&[EventType::new("D", "T")], &[]).unwrap_err();
    assert_eq!(invalid_event_type(&error), Some(EventType::new("D", "T")));
    assert_eq!(admin_limit(&error), None);
    assert_eq!(filter_refusal(&error), None);
}

#[test]
fn filter_has_every_operation() {
    let constraint = ConstraintExp::new("$celsius > 30").for_types(&[EventType::new("Telescope", "*")]);
    let (_activation, _, object) = hand_made(Filter::REPOSITORY_ID, |operation, args, reply| {
        match operation {
            "_get_constraint_grammar" => reply.string(EXTENDED_TCL),
            "add_constraints" => {
                assert_eq!(args.u32()?, 1);
                let constraint = ConstraintExp::read(args)?;
                reply.length(1);
                constraint.write(reply);
                reply.i32(1);
            }
            "get_all_constraints" => reply.length(0),
            "get_constraints" => {
                assert_eq!((args.u32()?, args.i32()?), (1, 7));
                return Err(ServantError::user_with("IDL:omg.org/CosNotifyFilter/ConstraintNotFound:1.0", |w| {
                    w.i32(7)
                }));
            }
            "modify_constraints" => {
                assert_eq!((args.u32()?, args.i32()?, args.u32()?), (1, 3, 1));
                let constraint = ConstraintExp::read(args)?;
                assert_eq!(args.i32()?, 1);
                return Err(ServantError::user_with("IDL:omg.org/CosNotifyFilter/InvalidConstraint:1.0", move |w| {
                    constraint.write(w);
                }));
            }
            "match" => reply.bool(AnyValue::read(args, &mut Work::default())?.value == Value::Long(1)),
            "match_structured" => reply.bool(StructuredEvent::read(args)?.domain == "Telescope"),
            "match_typed" => reply.bool(args.u32()? == 1 && args.text()? == "x"),
            "attach_callback" => {
                Ior::read(args)?;
                reply.i32(2);
            }
            "detach_callback" => return Err(raise("IDL:omg.org/CosNotifyFilter/CallbackNotFound:1.0")),
            "get_callbacks" => {
                reply.length(1);
                reply.i32(2);
            }
            "remove_all_constraints" | "destroy" => {}
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    });
    let filter = Filter::narrow(object.clone()).unwrap();
    assert_eq!(filter.constraint_grammar().unwrap(), EXTENDED_TCL);
    let info = ConstraintInfo { constraint_expression: constraint.clone(), constraint_id: 1 };
    assert_eq!(filter.add_constraints(std::slice::from_ref(&constraint)).unwrap(), std::slice::from_ref(&info));
    assert_eq!(filter.get_all_constraints().unwrap(), []);
    let error = filter.get_constraints(&[7]).unwrap_err();
    assert_eq!(filter_refusal(&error), Some(FilterRefusal::ConstraintNotFound(7)));
    let error = filter.modify_constraints(&[3], &[info]).unwrap_err();
    assert_eq!(filter_refusal(&error), Some(FilterRefusal::InvalidConstraint(constraint)));
    assert!(error.to_string().contains("`$celsius > 30` is not a constraint"), "{error}");
    assert!(filter.r#match(&AnyValue::from(1_i32)).unwrap());
    assert!(filter.match_structured(&temperature(31.0)).unwrap());
    assert!(!filter.match_typed(&[]).unwrap());
    assert_eq!(filter.attach_callback(&object).unwrap(), 2);
    assert_eq!(filter.get_callbacks().unwrap(), [2]);
    let error = filter.detach_callback(5).unwrap_err();
    assert_eq!(filter_refusal(&error), Some(FilterRefusal::CallbackNotFound));
    filter.remove_all_constraints().unwrap();
    filter.destroy().unwrap();
}

#[test]
fn mapping_filter_has_every_operation() {
    let (_activation, _, object) = hand_made(MappingFilter::REPOSITORY_ID, |operation, args, reply| {
        let value = AnyValue::from(5_i16);
        match operation {
            "_get_constraint_grammar" => reply.string("TCL"),
            "_get_value_type" => reply.u32(2),
            "_get_default_value" => value.write(reply).unwrap(),
            "add_mapping_constraints" => {
                assert_eq!(args.u32()?, 1);
                let constraint = ConstraintExp::read(args)?;
                let value = AnyValue::read(args, &mut Work::default())?;
                if value.value != Value::Short(9) {
                    return Err(ServantError::user_with("IDL:omg.org/CosNotifyFilter/InvalidValue:1.0", move |w| {
                        constraint.write(w);
                        value.write(w).unwrap();
                    }));
                }
                reply.length(1);
                constraint.write(reply);
                reply.i32(1);
                value.write(reply).unwrap();
            }
            "get_all_mapping_constraints" | "get_mapping_constraints" => reply.length(0),
            "match" | "match_structured" | "match_typed" => {
                reply.bool(operation == "match");
                value.write(reply).unwrap();
            }
            "modify_mapping_constraints" | "remove_all_mapping_constraints" | "destroy" => {}
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    });
    let filter = MappingFilter::narrow(object).unwrap();
    assert_eq!(filter.constraint_grammar().unwrap(), "TCL");
    assert_eq!(filter.value_type().unwrap().kind(), Kind::Short);
    assert_eq!(filter.default_value().unwrap(), AnyValue::from(5_i16));
    let pair = |value: AnyValue| MappingConstraintPair {
        constraint_expression: ConstraintExp::new("$site == 'north'"),
        result_to_set: value,
    };
    let info = MappingConstraintInfo {
        constraint_expression: ConstraintExp::new("$site == 'north'"),
        constraint_id: 1,
        value: AnyValue::from(9_i16),
    };
    assert_eq!(filter.add_mapping_constraints(&[pair(9_i16.into())]).unwrap(), std::slice::from_ref(&info));
    let error = filter.add_mapping_constraints(&[pair("high".into())]).unwrap_err();
    let expected = FilterRefusal::InvalidValue(ConstraintExp::new("$site == 'north'"), "high".into());
    assert_eq!(filter_refusal(&error), Some(expected));
    filter.modify_mapping_constraints(&[1], &[info]).unwrap();
    assert_eq!(filter.get_mapping_constraints(&[]).unwrap(), []);
    assert_eq!(filter.get_all_mapping_constraints().unwrap(), []);
    assert_eq!(filter.r#match(&AnyValue::from(1_i32)).unwrap(), (true, 5_i16.into()));
    assert_eq!(filter.match_structured(&temperature(1.0)).unwrap(), (false, 5_i16.into()));
    assert_eq!(filter.match_typed(&[Property::new("x", 1)]).unwrap(), (false, 5_i16.into()));
    filter.remove_all_mapping_constraints().unwrap();
    filter.destroy().unwrap();
}

#[test]
fn factory_makes_filters_of_grammars_it_knows() {
    let (_activation, _, object) = hand_made(FilterFactory::REPOSITORY_ID, |operation, args, reply| {
        match (operation, args.text()?.as_str()) {
            ("create_filter" | "create_mapping_filter", EXTENDED_TCL) => Ior::nil().write(reply),
            _ => return Err(raise("IDL:omg.org/CosNotifyFilter/InvalidGrammar:1.0")),
        }
        Ok(())
    });
    let factory = FilterFactory::narrow(object).unwrap();
    factory.create_filter(EXTENDED_TCL).unwrap();
    factory.create_mapping_filter(EXTENDED_TCL, &AnyValue::from(1_i16)).unwrap();
    let error = factory.create_filter("SQL92").unwrap_err();
    assert_eq!(filter_refusal(&error), Some(FilterRefusal::InvalidGrammar));
}

#[test]
fn queue_is_emptied_in_order_by_pulls_of_every_form() {
    let anys = Arc::new(QueueSupplier::any(2, ()));
    let (_activation, object) = activate(anys.clone());
    let proxy = ProxyPullSupplier::unchecked(object);
    assert_eq!(proxy.try_pull().unwrap(), None);
    for value in 1..=2 {
        anys.offer(AnyValue::from(value)).unwrap();
    }
    assert_eq!(anys.offer(AnyValue::from(3)), Err(AnyValue::from(3)));
    assert_eq!(anys.backlog(), 2);
    assert_eq!(proxy.pull().unwrap(), AnyValue::from(1));
    assert_eq!(proxy.try_pull().unwrap(), Some(AnyValue::from(2)));

    let structured = Arc::new(QueueSupplier::structured(2, ()));
    let (_activation, object) = activate(structured.clone());
    assert!(object.is_a("IDL:omg.org/CosNotifyComm/StructuredPullSupplier:1.0").unwrap());
    let proxy = StructuredProxyPullSupplier::unchecked(object);
    assert_eq!(proxy.try_pull_structured_event().unwrap(), None);
    structured.offer(temperature(1.0)).unwrap();
    structured.offer(temperature(2.0)).unwrap();
    assert_eq!(proxy.pull_structured_event().unwrap(), temperature(1.0));
    assert_eq!(proxy.try_pull_structured_event().unwrap(), Some(temperature(2.0)));

    let sequence = Arc::new(QueueSupplier::sequence(10, ()));
    let (_activation, object) = activate(sequence.clone());
    let proxy = SequenceProxyPullSupplier::unchecked(object);
    assert_eq!(proxy.try_pull_structured_events(5).unwrap(), None);
    for celsius in 0..4_u8 {
        sequence.offer(temperature(celsius.into())).unwrap();
    }
    assert_eq!(proxy.pull_structured_events(3).unwrap(), [0.0, 1.0, 2.0].map(temperature));
    assert_eq!(proxy.try_pull_structured_events(3).unwrap().unwrap(), [temperature(3.0)]);
    assert!(proxy.try_pull_structured_events(0).unwrap_err().is("BAD_PARAM"));
}

#[test]
fn event_service_has_its_pull_side() {
    use campanile_client::event_service as plain;
    let queue = Arc::new(QueueSupplier::any(1, ()));
    let (_activation, object) = activate(queue.clone());
    assert!(object.is_a("IDL:omg.org/CosEventComm/PullSupplier:1.0").unwrap());
    let proxy = plain::ProxyPullSupplier::unchecked(object);
    assert_eq!(proxy.try_pull().unwrap(), None);
    queue.offer(AnyValue::from(1)).unwrap();
    assert_eq!(proxy.pull().unwrap(), AnyValue::from(1));
    proxy.disconnect_pull_supplier().unwrap();
    assert!(proxy.pull().unwrap_err().is("Disconnected"));

    let (_activation, requests, object) = hand_made("IDL:Test/Admin:1.0", |operation, _, reply| {
        if operation.starts_with("obtain") {
            Ior::nil().write(reply);
        }
        Ok(())
    });
    plain::ConsumerAdmin::unchecked(object.clone()).obtain_pull_supplier().unwrap();
    plain::SupplierAdmin::unchecked(object.clone()).obtain_pull_consumer().unwrap();
    plain::ProxyPullSupplier::unchecked(object.clone()).connect_pull_consumer(None).unwrap();
    plain::ProxyPullConsumer::unchecked(object.clone()).connect_pull_supplier(&object).unwrap();
    plain::ProxyPullConsumer::unchecked(object).disconnect_pull_consumer().unwrap();
    let expected = [
        "obtain_pull_supplier",
        "obtain_pull_consumer",
        "connect_pull_consumer",
        "connect_pull_supplier",
        "disconnect_pull_consumer",
    ];
    assert_eq!(requests.requests(), expected);
}

#[test]
fn pull_waits_for_an_event_and_ends_with_the_connection() {
    let queue = Arc::new(QueueSupplier::structured(1, ()));
    let (_activation, object) = activate(queue.clone());
    let proxy = StructuredProxyPullSupplier::unchecked(object.with_private_connection());
    thread::scope(|scope| {
        let puller = scope.spawn(|| (proxy.pull_structured_event(), proxy.pull_structured_event()));
        queue.offer(temperature(1.0)).unwrap();
        StructuredProxyPullSupplier::unchecked(object).disconnect_structured_pull_supplier().unwrap();
        let (first, second) = puller.end_in_time();
        // The event may or may not have been taken before the disconnection.
        assert!(first.is_ok_and(|event| event == temperature(1.0)) || queue.backlog() == 1);
        assert!(second.unwrap_err().is("CosEventComm/Disconnected"));
    });
    assert!(queue.is_disconnected());
    assert!(queue.offer(temperature(2.0)).is_err());
}

#[test]
fn filter_of_the_program_decides_about_events_of_every_form() {
    let filter = FilterServant::new(|call: FilterCall<'_>| {
        let event = call.event()?;
        Ok(match call {
            FilterCall::Any(_) => event.remainder == AnyValue::from(1),
            FilterCall::Structured(_) => event.field("celsius") == Some(&Value::Double(31.0)),
            FilterCall::Typed(_) => event.filterable_data.len() == 1,
        })
    });
    let (_activation, object) = activate(Arc::new(filter));
    let filter = Filter::narrow(object.clone()).unwrap();
    assert!(filter.r#match(&AnyValue::from(1)).unwrap());
    assert!(!filter.r#match(&AnyValue::from(2)).unwrap());
    assert!(filter.match_structured(&temperature(31.0)).unwrap());
    assert!(!filter.match_structured(&temperature(30.0)).unwrap());
    assert!(filter.match_typed(&[Property::new("x", 1)]).unwrap());
    assert_eq!(filter.get_all_constraints().unwrap(), []);
    let error = filter.get_constraints(&[3]).unwrap_err();
    assert_eq!(filter_refusal(&error), Some(FilterRefusal::ConstraintNotFound(3)));
    assert!(filter.add_constraints(&[ConstraintExp::new("TRUE")]).unwrap_err().is("NO_IMPLEMENT"));
    let id = filter.attach_callback(&object).unwrap();
    assert_eq!(filter.get_callbacks().unwrap(), [id]);
    filter.detach_callback(id).unwrap();
    assert_eq!(filter_refusal(&filter.detach_callback(id).unwrap_err()), Some(FilterRefusal::CallbackNotFound));
}

/// Remembers what it was notified of.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn tell(&self, what: &str, added: &[EventType], removed: &[EventType]) {
        let types = |types: &[EventType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        self.0.lock().unwrap().push(format!("{what} +{} -{}", types(added), types(removed)));
    }
}

impl SupplierCallbacks for Recorder {
    fn subscription_change(&self, added: &[EventType], removed: &[EventType]) {
        self.tell("subscriptions", added, removed);
    }

    fn disconnected(&self) {
        self.tell("disconnected", &[], &[]);
    }
}

impl ConsumerCallbacks for Recorder {
    fn offer_change(&self, added: &[EventType], removed: &[EventType]) {
        self.tell("offers", added, removed);
    }

    fn disconnected(&self) {
        self.tell("disconnected", &[], &[]);
    }
}

#[test]
fn clients_are_notified_of_changes_and_of_their_end() {
    let (added, removed) = ([EventType::new("A", "B")], [EventType::any()]);
    for (form, disconnect) in [
        (ClientType::Any, "disconnect_push_supplier"),
        (ClientType::Structured, "disconnect_structured_push_supplier"),
        (ClientType::Sequence, "disconnect_sequence_push_supplier"),
    ] {
        let servant = Arc::new(SupplierServant::new(form, Recorder::default()));
        let (_activation, object) = activate(servant.clone());
        ProxyPushSupplier::unchecked(object.clone()).subscription_change(&added, &removed).unwrap();
        object.invoke(disconnect, |_| ()).unwrap();
        assert!(object.invoke("offer_change", |_| ()).unwrap_err().is("BAD_OPERATION"));
        assert_eq!(*servant.callbacks().0.lock().unwrap(), ["subscriptions +A/B -*/*", "disconnected + -"]);
    }
    for (form, disconnect) in [
        (ClientType::Any, "disconnect_pull_consumer"),
        (ClientType::Structured, "disconnect_structured_pull_consumer"),
        (ClientType::Sequence, "disconnect_sequence_pull_consumer"),
    ] {
        let servant = Arc::new(ConsumerServant::new(form, Recorder::default()));
        let (_activation, object) = activate(servant.clone());
        ProxyPushConsumer::unchecked(object.clone()).offer_change(&added, &removed).unwrap();
        object.invoke(disconnect, |_| ()).unwrap();
        assert!(object.is_a("IDL:omg.org/CosNotifyComm/NotifyPublish:1.0").unwrap());
        assert_eq!(*servant.callbacks().0.lock().unwrap(), ["offers +A/B -*/*", "disconnected + -"]);
    }
    let servant = Arc::new(SupplierServant::subscriptions(Recorder::default()));
    let (_activation, object) = activate(servant.clone());
    assert_eq!(object.type_id(), "IDL:omg.org/CosNotifyComm/NotifySubscribe:1.0");
    assert!(object.invoke("disconnect_push_supplier", |_| ()).unwrap_err().is("BAD_OPERATION"));
}

#[test]
fn batches_arrive_whole() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = seen.clone();
    let consumer = CallbackConsumer::sequence(move |delivery: Delivery<'_>| {
        let Delivery::Batch(mut reader) = delivery else { return Err(CallbackConsumer::disconnected()) };
        for _ in 0..reader.seq_len(1)? {
            events.lock().unwrap().push(StructuredEvent::read(&mut reader)?);
        }
        Ok(())
    });
    let (_activation, object) = activate(Arc::new(consumer));
    assert!(object.is_a("IDL:omg.org/CosNotifyComm/SequencePushConsumer:1.0").unwrap());
    let proxy = SequenceProxyPushConsumer::unchecked(object.clone());
    let sent = [1.0, 2.0, 3.0].map(temperature);
    proxy.push_structured_events(&sent).unwrap();
    assert_eq!(*seen.lock().unwrap(), sent);
    let error = object.invoke("disconnect_sequence_push_consumer", |_| ()).unwrap_err();
    assert!(error.is("Disconnected"), "{error}");
}

/// One object that is a channel with everything in it, and answers each operation with itself.
fn whole_service() -> (Activation, Arc<HandMade>, ObjectRef) {
    let this: Arc<Mutex<Ior>> = Arc::new(Mutex::new(Ior::nil()));
    let own = this.clone();
    let (activation, requests, object) = hand_made(EventChannel::REPOSITORY_ID, move |operation, args, reply| {
        match operation {
            "obtain_notification_push_supplier" | "obtain_notification_push_consumer" => {
                own.lock().unwrap().write(reply);
                reply.i32(1);
            }
            "add_filter" => reply.i32(1),
            "add_constraints" => {
                args.u32()?;
                let constraint = ConstraintExp::read(args)?;
                if constraint.constraint_expr.contains("((") {
                    return Err(ServantError::user_with(
                        "IDL:omg.org/CosNotifyFilter/InvalidConstraint:1.0",
                        move |w| constraint.write(w),
                    ));
                }
                reply.length(0);
            }
            "_get_default_filter_factory"
            | "_get_default_consumer_admin"
            | "_get_default_supplier_admin"
            | "create_filter" => own.lock().unwrap().write(reply),
            "connect_sequence_push_consumer" => {
                let consumer = Orb::new(OrbOptions::default()).object(Ior::read(args)?);
                let events = [temperature(1.0), temperature(2.0)];
                SequenceProxyPushConsumer::unchecked(consumer).push_structured_events(&events).unwrap();
            }
            "push_structured_events" => assert_eq!(args.u32()?, 1),
            _ => {}
        }
        Ok(())
    });
    *this.lock().unwrap() = activation.reference().ior().clone();
    (activation, requests, object)
}

#[test]
fn constraint_of_a_simple_consumer_is_in_place_before_its_first_event_and_goes_with_it() {
    let (_activation, requests, object) = whole_service();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = seen.clone();
    let options = ConsumerOptions {
        form: ClientType::Sequence,
        constraint: Some("$celsius > 0".to_owned()),
        types: vec![EventType::new("Telescope", "*")],
        ..ConsumerOptions::default()
    };
    let consumer = SimpleConsumer::connect(&object.ior().to_string(), None, options, move |received| {
        events.lock().unwrap().push(received.event()?);
        Ok(())
    });
    let consumer = consumer.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0].map(temperature));
    consumer.close().unwrap();
    let expected = [
        "_get_default_filter_factory",
        "create_filter",
        "add_constraints",
        "_get_default_consumer_admin",
        "obtain_notification_push_supplier",
        "add_filter",
        "subscription_change",
        "connect_sequence_push_consumer",
        "disconnect_sequence_push_supplier",
        "destroy",
    ];
    let requests: Vec<String> = requests.requests().into_iter().filter(|operation| operation != "_is_a").collect();
    assert_eq!(requests, expected);
}

#[test]
fn constraint_that_is_refused_leaves_nothing_behind() {
    let (_activation, requests, object) = whole_service();
    let options = ConsumerOptions { constraint: Some("((".to_owned()), ..ConsumerOptions::default() };
    let refused = SimpleConsumer::connect(&object.ior().to_string(), None, options, |_| Ok(()));
    let error: InvokeError = refused.unwrap_err();
    let expected = FilterRefusal::InvalidConstraint(ConstraintExp::new("(("));
    assert_eq!(filter_refusal(&error), Some(expected));
    assert_eq!(requests.requests().last().unwrap(), "destroy");
}

#[test]
fn simple_supplier_pushes_sequences() {
    let (_activation, requests, object) = whole_service();
    let options = SupplierOptions { form: ClientType::Sequence, ..SupplierOptions::default() };
    let supplier = SimpleSupplier::connect_with(&object.ior().to_string(), None, options).unwrap();
    supplier.publish(&temperature(1.0)).unwrap();
    supplier.close().unwrap();
    let requests = requests.requests();
    let expected = ["connect_sequence_push_supplier", "push_structured_events", "disconnect_sequence_push_consumer"];
    assert_eq!(requests[requests.len() - 3..], expected);
}
