//! The client's typed stubs against a service in the same process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use client::naming::{NameComponent, NamingContext, parse_name};
use client::notify::{
    CallbackConsumer, ClientType, Delivery, EventChannelFactory, EventType, FilterGroupOperator, Property,
    ProxyPushConsumer, ProxyPushSupplier, ProxyType, QosErrorCode, StructuredEvent, StructuredProxyPushConsumer,
    StructuredProxyPushSupplier, property_errors,
};
use client::{Activation, InvokeError, Orb, OrbOptions, event_service};
use giop::typecode::Work;
use giop::value::AnyValue;
use service::{Config, Service};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use testing::NextInTime;

fn start() -> Service {
    Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap()
}

fn factory(service: &Service) -> EventChannelFactory {
    let orb = Orb::new(OrbOptions::default());
    EventChannelFactory::narrow(orb.resolve(&service.corbaloc("NotificationService")).unwrap()).unwrap()
}

/// A consumer that hands on what it is given.
fn structured_consumer(orb: &Orb) -> (Activation, Receiver<StructuredEvent>) {
    let (sender, receiver) = channel();
    let consumer = CallbackConsumer::structured(move |delivery: Delivery<'_>| {
        if let Delivery::Structured(mut reader) = delivery {
            sender.send(StructuredEvent::read(&mut reader)?).unwrap();
        }
        Ok(())
    });
    (orb.activate(Arc::new(consumer)).unwrap(), receiver)
}

fn any_consumer(orb: &Orb) -> (Activation, Receiver<AnyValue>) {
    let (sender, receiver) = channel();
    let consumer = CallbackConsumer::any(move |delivery: Delivery<'_>| {
        if let Delivery::Any(mut reader) = delivery {
            sender.send(AnyValue::read(&mut reader, &mut Work::default())?).unwrap();
        }
        Ok(())
    });
    (orb.activate(Arc::new(consumer)).unwrap(), receiver)
}

#[test]
fn hierarchy_is_built_and_walked_from_everywhere() {
    let service = start();
    let factory = factory(&service);
    assert_eq!(factory.get_all_channels().unwrap(), [0]);
    let (channel, id) = factory.create_channel(&[], &[]).unwrap();
    assert!(factory.get_all_channels().unwrap().contains(&id));
    assert!(channel.my_factory().unwrap().get_all_channels().unwrap().contains(&id));

    let (admin, admin_id) = channel.new_for_consumers(FilterGroupOperator::Or).unwrap();
    assert_eq!(admin.my_id().unwrap(), admin_id);
    assert_eq!(admin.my_operator().unwrap(), FilterGroupOperator::Or);
    assert!(admin.my_channel().unwrap().get_all_consumeradmins().unwrap().contains(&admin_id));
    let (proxy, proxy_id) = admin.obtain_notification_push_supplier(ClientType::Any).unwrap();
    assert_eq!(admin.push_suppliers().unwrap(), [proxy_id]);
    assert_eq!(proxy.my_type().unwrap(), ProxyType::PushAny);
    assert_eq!(proxy.my_admin().unwrap().my_id().unwrap(), admin_id);
    assert_eq!(admin.get_proxy_supplier(proxy_id).unwrap().my_type().unwrap(), ProxyType::PushAny);
    assert!(admin.get_proxy_supplier(proxy_id + 100).unwrap_err().is("ProxyNotFound"));

    let (admin, admin_id) = channel.new_for_suppliers(FilterGroupOperator::And).unwrap();
    let (proxy, proxy_id) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    assert_eq!(admin.push_consumers().unwrap(), [proxy_id]);
    assert_eq!(proxy.my_type().unwrap(), ProxyType::PushStructured);
    assert_eq!(channel.get_supplieradmin(admin_id).unwrap().my_id().unwrap(), admin_id);
    assert!(channel.get_supplieradmin(admin_id + 100).unwrap_err().is("AdminNotFound"));
    admin.destroy().unwrap();
    assert!(admin.my_id().unwrap_err().object_is_gone());
    assert!(proxy.my_type().unwrap_err().object_is_gone());

    channel.destroy().unwrap();
    assert!(factory.get_event_channel(id).unwrap_err().is("ChannelNotFound"));
    service.shutdown();
}

#[test]
fn refused_properties_are_named() {
    let service = start();
    let factory = factory(&service);
    let channel = factory.get_event_channel(0).unwrap();
    channel.set_qos(&[Property::new("PushWindow", 8_u16)]).unwrap();
    let qos = channel.get_qos().unwrap();
    assert!(qos.contains(&Property::new("PushWindow", 8_u16)), "{qos:?}");
    channel.validate_qos(&[Property::new("PushWindow", 2_u16)]).unwrap();

    let error = channel.set_qos(&[Property::new("NoSuchProperty", 1)]).unwrap_err();
    assert!(error.is("UnsupportedQoS"), "{error}");
    let refused = property_errors(&error).unwrap();
    assert_eq!(refused[0].name, "NoSuchProperty");
    assert!(matches!(refused[0].code, QosErrorCode::BadProperty | QosErrorCode::UnsupportedProperty));
    assert!(error.to_string().contains("NoSuchProperty"), "{error}");

    let error = factory.create_channel(&[], &[Property::new("NoSuchLimit", 1)]).unwrap_err();
    assert!(error.is("UnsupportedAdmin"), "{error}");
    assert!(error.to_string().contains("NoSuchLimit"), "{error}");
}

#[test]
fn structured_event_goes_from_supplier_to_consumer() {
    let service = start();
    let factory = factory(&service);
    let channel = factory.get_event_channel(0).unwrap();
    let (consumer, events) = structured_consumer(channel.object().orb());

    let (proxy, _) =
        channel.default_consumer_admin().unwrap().obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let out = StructuredProxyPushSupplier::narrow(proxy.object().clone()).unwrap();
    out.subscription_change(&[EventType::new("A", "*")], &[EventType::any()]).unwrap();
    out.connect_structured_push_consumer(consumer.reference()).unwrap();
    assert!(out.connect_structured_push_consumer(consumer.reference()).unwrap_err().is("AlreadyConnected"));

    let (proxy, _) =
        channel.default_supplier_admin().unwrap().obtain_notification_push_consumer(ClientType::Structured).unwrap();
    let into = StructuredProxyPushConsumer::narrow(proxy.object().clone()).unwrap();
    let mut event = StructuredEvent::new("A", "B", "c");
    event.filterable_data.push(Property::new("x", "Grüße"));
    assert!(into.push_structured_event(&event).unwrap_err().is("Disconnected"));
    into.connect_structured_push_supplier(None).unwrap();
    into.offer_change(&[EventType::new("A", "B")], &[]).unwrap();

    into.push_structured_event(&StructuredEvent::new("B", "B", "not subscribed to")).unwrap();
    into.push_structured_event(&event).unwrap();
    assert_eq!(events.next_in_time(), event);

    out.suspend_connection().unwrap();
    assert!(out.suspend_connection().unwrap_err().is("ConnectionAlreadyInactive"));
    let held = StructuredEvent::new("A", "B", "held");
    into.push_structured_event(&held).unwrap();
    assert!(events.try_recv().is_err());
    out.resume_connection().unwrap();
    assert_eq!(events.next_in_time(), held);

    into.disconnect_structured_push_consumer().unwrap();
    assert!(into.object().non_existent().unwrap());
    out.disconnect_structured_push_supplier().unwrap();
}

#[test]
fn any_goes_from_supplier_to_consumer() {
    let service = start();
    let channel = factory(&service).get_event_channel(0).unwrap();
    let (consumer, events) = any_consumer(channel.object().orb());
    let (proxy, _) =
        channel.default_consumer_admin().unwrap().obtain_notification_push_supplier(ClientType::Any).unwrap();
    let out = ProxyPushSupplier::narrow(proxy.object().clone()).unwrap();
    out.connect_any_push_consumer(consumer.reference()).unwrap();
    let (proxy, _) =
        channel.default_supplier_admin().unwrap().obtain_notification_push_consumer(ClientType::Any).unwrap();
    let into = ProxyPushConsumer::narrow(proxy.object().clone()).unwrap();
    into.connect_any_push_supplier(None).unwrap();
    let event = AnyValue::from(11.5);
    into.push(&event).unwrap();
    assert_eq!(events.next_in_time(), event);
    into.disconnect_push_consumer().unwrap();
    out.disconnect_push_supplier().unwrap();
}

#[test]
fn event_service_clients_meet() {
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let channel = event_service::EventChannel::narrow(orb.resolve(&service.corbaloc("EventService")).unwrap()).unwrap();
    let (consumer, events) = any_consumer(&orb);
    let out = channel.for_consumers().unwrap().obtain_push_supplier().unwrap();
    out.connect_push_consumer(consumer.reference()).unwrap();
    let into = channel.for_suppliers().unwrap().obtain_push_consumer().unwrap();
    into.connect_push_supplier(None).unwrap();
    for i in 0..100 {
        into.push(&AnyValue::from(i)).unwrap();
    }
    for i in 0..100 {
        assert_eq!(events.next_in_time(), AnyValue::from(i));
    }
    into.disconnect_push_consumer().unwrap();
    out.disconnect_push_supplier().unwrap();
}

#[test]
fn names_are_bound_and_resolved() {
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let root = NamingContext::narrow(orb.resolve(&service.corbaloc("NameService")).unwrap()).unwrap();
    let factory = root.resolve_text("NotifyEventChannelFactory").unwrap();
    assert!(factory.is_a(EventChannelFactory::REPOSITORY_ID).unwrap());

    root.bind_new_context(&[NameComponent::new("site")]).unwrap();
    let name = parse_name("site/factory.notify").unwrap();
    root.bind(&name, &factory).unwrap();
    assert!(root.bind(&name, &factory).unwrap_err().is("AlreadyBound"));
    root.rebind(&name, &factory).unwrap();
    assert_eq!(root.resolve(&name).unwrap().ior(), factory.ior());
    let (bindings, more) = root.list(100).unwrap();
    let found = |id: &str| bindings.iter().find(|binding| binding.name[0].id == id).unwrap();
    assert!(found("site").is_context && !found("NotifyEventChannelFactory").is_context);
    assert!(!more);
    assert!(root.list(1).unwrap().1);
    root.unbind(&name).unwrap();
    let error = root.resolve(&name).unwrap_err();
    assert!(error.is("NotFound"), "{error}");
    assert!(matches!(root.resolve_text("a//b").unwrap_err(), InvokeError::BadAddress { .. }));

    let corbaname = format!("corbaname::{}#NotifyEventChannelFactory", service.address());
    assert_eq!(orb.resolve(&corbaname).unwrap().ior(), factory.ior());
}
