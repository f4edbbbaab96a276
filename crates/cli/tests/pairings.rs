//! Each of the six kinds of supplier with each of the six kinds of consumer, through a real service: every event
//! arrives, in order, translated as the Notification Service 1.1 has it (2.1.4).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use client::notify::{
    CallbackConsumer, ClientType, Delivery, EventChannel, EventChannelFactory, Property, ProxyPullConsumer,
    ProxyPullSupplier, ProxyPushConsumer, ProxyPushSupplier, QueueSupplier, SequenceProxyPullConsumer,
    SequenceProxyPullSupplier, SequenceProxyPushConsumer, SequenceProxyPushSupplier, StructuredEvent,
    StructuredProxyPullConsumer, StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
use client::{Activation, Orb, OrbOptions};
use giop::typecode::Work;
use giop::value::{AnyValue, Value};
use service::{Config, Service};
use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use testing::NextInTime;

const FORMS: [ClientType; 3] = [ClientType::Any, ClientType::Structured, ClientType::Sequence];
const EVENTS: i32 = 20;

fn structured(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
    event.variable_header.push(Property::new("Priority", 3_i16));
    event.filterable_data.push(Property::new("number", number));
    event.remainder = AnyValue::from("body");
    event
}

/// An event as a consumer gets it.
#[derive(Debug, PartialEq)]
enum Got {
    Any(AnyValue),
    Structured(StructuredEvent),
}

impl Got {
    /// The number it was given, having checked that it is what becomes of a supplier's event of that form.
    fn number(&self, of_supplier: ClientType) -> i32 {
        let number = match (of_supplier, self) {
            (ClientType::Any, Self::Any(any)) => any.value.clone(),
            (ClientType::Any, Self::Structured(event)) => {
                assert_eq!((event.domain.as_str(), event.type_name.as_str()), ("", "%ANY"));
                event.remainder.value.clone()
            }
            (_, Self::Structured(event)) => event.field("number").unwrap().clone(),
            (_, Self::Any(any)) => {
                assert_eq!(any.type_code.id(), "IDL:omg.org/CosNotification/StructuredEvent:1.0");
                number_within(&any.value)
            }
        };
        let Value::Long(number) = number else { panic!("{number:?}") };
        if of_supplier != ClientType::Any
            && let Self::Structured(event) = self
        {
            assert_eq!(*event, structured(number));
        }
        number
    }
}

/// `filterable_data[0].value` of a structured event in an Any.
fn number_within(event: &Value) -> Value {
    let member = |value: &Value, name: &str| {
        let Value::Struct { fields, .. } = value else { panic!("{value:?}") };
        fields.iter().find(|(field, _)| field == name).unwrap().1.clone()
    };
    let Value::Sequence(properties) = member(event, "filterable_data") else { panic!("{event:?}") };
    let Value::Any(number) = member(properties.first().unwrap(), "value") else { panic!("{event:?}") };
    number.value
}

/// Something that events can be taken from.
enum Consumer {
    Pushed(mpsc::Receiver<Got>, #[expect(dead_code, reason = "it is called as long as it lives")] Activation),
    Any(ProxyPullSupplier),
    Structured(StructuredProxyPullSupplier),
    Sequence(SequenceProxyPullSupplier, VecDeque<StructuredEvent>),
}

impl Consumer {
    fn new(orb: &Orb, channel: &EventChannel, form: ClientType, pull: bool) -> Self {
        let admin = channel.default_consumer_admin().unwrap();
        if pull {
            let object = admin.obtain_notification_pull_supplier(form).unwrap().0.object().with_private_connection();
            return match form {
                ClientType::Any => {
                    let proxy = ProxyPullSupplier::unchecked(object);
                    proxy.connect_any_pull_consumer(None).unwrap();
                    Self::Any(proxy)
                }
                ClientType::Structured => {
                    let proxy = StructuredProxyPullSupplier::unchecked(object);
                    proxy.connect_structured_pull_consumer(None).unwrap();
                    Self::Structured(proxy)
                }
                ClientType::Sequence => {
                    let proxy = SequenceProxyPullSupplier::unchecked(object);
                    proxy.connect_sequence_pull_consumer(None).unwrap();
                    Self::Sequence(proxy, VecDeque::new())
                }
            };
        }
        let (sender, receiver) = mpsc::channel();
        let servant = CallbackConsumer::new(form, move |delivery| {
            let got = match delivery {
                Delivery::Any(mut reader) => vec![Got::Any(AnyValue::read(&mut reader, &mut Work::default())?)],
                Delivery::Structured(mut reader) => vec![Got::Structured(StructuredEvent::read(&mut reader)?)],
                Delivery::Batch(mut reader) => {
                    let count = reader.seq_len(1)?;
                    let read = (0..count).map(|_| StructuredEvent::read(&mut reader).map(Got::Structured));
                    read.collect::<Result<_, _>>()?
                }
                _ => Vec::new(),
            };
            got.into_iter().for_each(|got| sender.send(got).unwrap());
            Ok(())
        });
        let activation = orb.activate(Arc::new(servant)).unwrap();
        let object = admin.obtain_notification_push_supplier(form).unwrap().0.object().clone();
        let reference = activation.reference();
        match form {
            ClientType::Any => ProxyPushSupplier::unchecked(object).connect_any_push_consumer(reference),
            ClientType::Structured => {
                StructuredProxyPushSupplier::unchecked(object).connect_structured_push_consumer(reference)
            }
            ClientType::Sequence => {
                let proxy = SequenceProxyPushSupplier::unchecked(object);
                proxy.set_qos(&[Property::new("MaximumBatchSize", 7_i32)]).unwrap();
                proxy.connect_sequence_push_consumer(reference)
            }
        }
        .unwrap();
        Self::Pushed(receiver, activation)
    }

    /// Waits for the next event.
    fn next(&mut self) -> Got {
        match self {
            Self::Pushed(receiver, _) => receiver.next_in_time(),
            Self::Any(proxy) => Got::Any(proxy.pull().unwrap()),
            Self::Structured(proxy) => Got::Structured(proxy.pull_structured_event().unwrap()),
            Self::Sequence(proxy, events) => {
                if events.is_empty() {
                    events.extend(proxy.pull_structured_events(3).unwrap());
                }
                Got::Structured(events.pop_front().unwrap())
            }
        }
    }

    /// Whether nothing more has come.
    fn is_empty(&mut self) -> bool {
        match self {
            Self::Pushed(receiver, _) => receiver.try_recv().is_err(),
            Self::Any(proxy) => proxy.try_pull().unwrap().is_none(),
            Self::Structured(proxy) => proxy.try_pull_structured_event().unwrap().is_none(),
            Self::Sequence(proxy, events) => {
                events.is_empty() && proxy.try_pull_structured_events(1).unwrap().is_none()
            }
        }
    }
}

/// Pushes the events.
fn push(channel: &EventChannel, form: ClientType) {
    let admin = channel.default_supplier_admin().unwrap();
    let object = admin.obtain_notification_push_consumer(form).unwrap().0.object().clone();
    match form {
        ClientType::Any => {
            let proxy = ProxyPushConsumer::unchecked(object);
            proxy.connect_any_push_supplier(None).unwrap();
            (0..EVENTS).for_each(|number| proxy.push(&number.into()).unwrap());
        }
        ClientType::Structured => {
            let proxy = StructuredProxyPushConsumer::unchecked(object);
            proxy.connect_structured_push_supplier(None).unwrap();
            (0..EVENTS).for_each(|number| proxy.push_structured_event(&structured(number)).unwrap());
        }
        ClientType::Sequence => {
            let proxy = SequenceProxyPushConsumer::unchecked(object);
            proxy.connect_sequence_push_supplier(None).unwrap();
            let events: Vec<_> = (0..EVENTS).map(structured).collect();
            events.chunks(6).for_each(|events| proxy.push_structured_events(events).unwrap());
        }
    }
}

/// Lets the service pull the events.
fn be_pulled(orb: &Orb, channel: &EventChannel, form: ClientType) -> Activation {
    let capacity = usize::try_from(EVENTS).unwrap();
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_pull_consumer(form).unwrap();
    // 1 ms.
    proxy.set_qos(&[Property::new("PullInterval", 10_000_u64)]).unwrap();
    let object = proxy.object().clone();
    if form == ClientType::Any {
        let queue = Arc::new(QueueSupplier::any(capacity, ()));
        (0..EVENTS).for_each(|number| queue.offer(number.into()).unwrap());
        let activation = orb.activate(queue).unwrap();
        ProxyPullConsumer::unchecked(object).connect_any_pull_supplier(activation.reference()).unwrap();
        return activation;
    }
    let queue = match form {
        ClientType::Sequence => QueueSupplier::sequence(capacity, ()),
        _ => QueueSupplier::structured(capacity, ()),
    };
    (0..EVENTS).for_each(|number| queue.offer(structured(number)).unwrap());
    let activation = orb.activate(Arc::new(queue)).unwrap();
    let supplier = activation.reference();
    match form {
        ClientType::Sequence => {
            SequenceProxyPullConsumer::unchecked(object).connect_sequence_pull_supplier(supplier).unwrap();
        }
        _ => StructuredProxyPullConsumer::unchecked(object).connect_structured_pull_supplier(supplier).unwrap(),
    }
    activation
}

#[test]
fn every_kind_of_supplier_reaches_every_kind_of_consumer() {
    let config = Config { listen: "127.0.0.1:0".into(), ..Config::default() };
    let service = Service::start(config).unwrap();
    let orb = Orb::new(OrbOptions::default());
    let object = orb.resolve(&format!("corbaloc::1.2@{}/NotificationService", service.address())).unwrap();
    let factory = EventChannelFactory::unchecked(object);
    for of_supplier in FORMS {
        for pulled in [false, true] {
            let (channel, _) = factory.create_channel(&[], &[]).unwrap();
            let kinds = FORMS.into_iter().flat_map(|form| [(form, false), (form, true)]);
            let consumers: Vec<_> =
                kinds.map(|(form, pull)| (form, pull, Consumer::new(&orb, &channel, form, pull))).collect();
            let activation = pulled.then(|| be_pulled(&orb, &channel, of_supplier));
            if !pulled {
                push(&channel, of_supplier);
            }
            for (form, pull, mut consumer) in consumers {
                let numbers: Vec<i32> = (0..EVENTS).map(|_| consumer.next().number(of_supplier)).collect();
                let pairing = format!("{of_supplier} (pulled: {pulled}) to {form} (pulling: {pull})");
                assert_eq!(numbers, (0..EVENTS).collect::<Vec<_>>(), "{pairing}");
                assert!(consumer.is_empty(), "{pairing}");
            }
            drop(activation);
        }
    }
}
