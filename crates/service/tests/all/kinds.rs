//! Suppliers and consumers of every kind: Anys, structured events and sequences, pushed and pulled.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use client::notify::{
    CallbackConsumer, ClientType, Delivery, EventChannel, EventChannelFactory, ProxyPullConsumer, ProxyPullSupplier,
    ProxyPushConsumer, ProxyPushSupplier, QueueSupplier, SequenceProxyPullConsumer, SequenceProxyPullSupplier,
    SequenceProxyPushConsumer, SequenceProxyPushSupplier, StructuredEvent, StructuredProxyPullConsumer,
    StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
use client::{Activation, ObjectRef, Orb, OrbOptions, Servant, ServantError};
use giop::cdr::Reader;
use giop::typecode::Work;
use giop::value::{AnyValue, Value};
use service::Service;
use testing::NextInTime;

pub(crate) const FORMS: [ClientType; 3] = [ClientType::Any, ClientType::Structured, ClientType::Sequence];

/// How events travel between a client and its proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Push,
    Pull,
}

pub(crate) fn factory(service: &Service) -> EventChannelFactory {
    let orb = Orb::new(OrbOptions::default());
    EventChannelFactory::narrow(orb.resolve(&service.corbaloc("NotificationService")).unwrap()).unwrap()
}

pub(crate) fn new_channel(service: &Service) -> EventChannel {
    factory(service).create_channel(&[], &[]).unwrap().0
}

/// The event with this number, of a type.
pub(crate) fn event_of(type_name: &str, number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", type_name, "name");
    event.remainder = AnyValue::from(number);
    event
}

/// What a consumer got, whatever its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    /// Domain, type and event name; nothing of an Any that is not a structured event.
    pub(crate) names: Option<[String; 3]>,
    pub(crate) number: i32,
}

impl From<StructuredEvent> for Got {
    fn from(event: StructuredEvent) -> Self {
        let Value::Long(number) = event.remainder.value else { panic!("not a number: {event:?}") };
        Self { names: Some([event.domain, event.type_name, event.event_name]), number }
    }
}

impl From<AnyValue> for Got {
    fn from(any: AnyValue) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => panic!("not a text: {other:?}"),
        };
        let member = |value: &Value, at: usize| match value {
            Value::Struct { fields, .. } => fields[at].1.clone(),
            other => panic!("not a struct: {other:?}"),
        };
        if let Value::Long(number) = any.value {
            return Self { names: None, number };
        }
        let fixed = member(&member(&any.value, 0), 0);
        let kind = member(&fixed, 0);
        let names = [text(&member(&kind, 0)), text(&member(&kind, 1)), text(&member(&fixed, 1))];
        let Value::Any(remainder) = member(&any.value, 2) else { panic!("no remainder: {any:?}") };
        let Value::Long(number) = remainder.value else { panic!("not a number: {any:?}") };
        Self { names: Some(names), number }
    }
}

/// A supplier of one kind.
pub(crate) enum Supplier {
    Any(ProxyPushConsumer),
    Structured(StructuredProxyPushConsumer),
    Sequence(SequenceProxyPushConsumer),
    /// One that is pulled lives as long as its servant.
    PulledAny(Arc<QueueSupplier<AnyValue>>, ObjectRef, Activation),
    Pulled(Arc<QueueSupplier<StructuredEvent>>, ObjectRef, #[expect(dead_code, reason = "kept")] Activation),
}

impl Supplier {
    pub(crate) fn new(channel: &EventChannel, form: ClientType, model: Model) -> Self {
        let admin = channel.default_supplier_admin().unwrap();
        if model == Model::Pull {
            return Self::pulled(admin.obtain_notification_pull_consumer(form).unwrap().0.object(), form);
        }
        let proxy = admin.obtain_notification_push_consumer(form).unwrap().0.object().clone();
        match form {
            ClientType::Any => {
                let proxy = ProxyPushConsumer::unchecked(proxy);
                proxy.connect_any_push_supplier(None).unwrap();
                Self::Any(proxy)
            }
            ClientType::Structured => {
                let proxy = StructuredProxyPushConsumer::unchecked(proxy);
                proxy.connect_structured_push_supplier(None).unwrap();
                Self::Structured(proxy)
            }
            ClientType::Sequence => {
                let proxy = SequenceProxyPushConsumer::unchecked(proxy);
                proxy.connect_sequence_push_supplier(None).unwrap();
                Self::Sequence(proxy)
            }
        }
    }

    fn pulled(proxy: &ObjectRef, form: ClientType) -> Self {
        let activate = |servant: Arc<dyn Servant>| Orb::new(OrbOptions::default()).activate(servant).unwrap();
        match form {
            ClientType::Any => {
                let queue = Arc::new(QueueSupplier::any(1000, ()));
                let servant = activate(Arc::clone(&queue) as Arc<dyn Servant>);
                let pulls = ProxyPullConsumer::unchecked(proxy.clone());
                pulls.connect_any_pull_supplier(servant.reference()).unwrap();
                Self::PulledAny(queue, proxy.clone(), servant)
            }
            ClientType::Structured => {
                let queue = Arc::new(QueueSupplier::structured(1000, ()));
                let servant = activate(Arc::clone(&queue) as Arc<dyn Servant>);
                let pulls = StructuredProxyPullConsumer::unchecked(proxy.clone());
                pulls.connect_structured_pull_supplier(servant.reference()).unwrap();
                Self::Pulled(queue, proxy.clone(), servant)
            }
            ClientType::Sequence => {
                let queue = Arc::new(QueueSupplier::sequence(1000, ()));
                let servant = activate(Arc::clone(&queue) as Arc<dyn Servant>);
                let pulls = SequenceProxyPullConsumer::unchecked(proxy.clone());
                pulls.connect_sequence_pull_supplier(servant.reference()).unwrap();
                Self::Pulled(queue, proxy.clone(), servant)
            }
        }
    }

    /// Its proxy.
    pub(crate) fn proxy(&self) -> &ObjectRef {
        match self {
            Self::Any(proxy) => proxy.object(),
            Self::Structured(proxy) => proxy.object(),
            Self::Sequence(proxy) => proxy.object(),
            Self::PulledAny(_, proxy, _) | Self::Pulled(_, proxy, _) => proxy,
        }
    }

    /// Gives events with these numbers, of a type.
    pub(crate) fn give(&self, type_name: &str, numbers: core::ops::Range<i32>) {
        let events = numbers.clone().map(|number| event_of(type_name, number));
        match self {
            Self::Any(proxy) => numbers.for_each(|number| proxy.push(&AnyValue::from(number)).unwrap()),
            Self::Structured(proxy) => events.for_each(|event| proxy.push_structured_event(&event).unwrap()),
            Self::Sequence(proxy) => {
                let events: Vec<StructuredEvent> = events.collect();
                events.chunks(7).for_each(|events| proxy.push_structured_events(events).unwrap());
            }
            Self::PulledAny(queue, ..) => numbers.for_each(|number| queue.offer(AnyValue::from(number)).unwrap()),
            Self::Pulled(queue, ..) => events.for_each(|event| queue.offer(event).unwrap()),
        }
    }
}

impl Supplier {
    /// Gives one event. False when it cannot any more.
    pub(crate) fn try_give(&self, type_name: &str, number: i32) -> bool {
        let event = event_of(type_name, number);
        match self {
            Self::Any(proxy) => proxy.push(&AnyValue::from(number)).is_ok(),
            Self::Structured(proxy) => proxy.push_structured_event(&event).is_ok(),
            Self::Sequence(proxy) => proxy.push_structured_events(&[event]).is_ok(),
            // What there is no room for is left out.
            Self::PulledAny(queue, ..) => queue.offer(AnyValue::from(number)).is_ok() || !queue.is_disconnected(),
            Self::Pulled(queue, ..) => queue.offer(event).is_ok() || !queue.is_disconnected(),
        }
    }
}

/// A consumer of one kind that collects what it gets.
pub(crate) struct Consumer {
    pub(crate) events: Receiver<Got>,
    _servant: Option<Activation>,
    _thread: Option<JoinHandle<()>>,
}

impl Consumer {
    pub(crate) fn new(channel: &EventChannel, form: ClientType, model: Model) -> Self {
        Self::connect(Self::obtain(channel, form, model), form, model)
    }

    /// A proxy that nothing is connected to.
    pub(crate) fn obtain(channel: &EventChannel, form: ClientType, model: Model) -> ObjectRef {
        let admin = channel.default_consumer_admin().unwrap();
        let obtained = match model {
            Model::Push => admin.obtain_notification_push_supplier(form),
            Model::Pull => admin.obtain_notification_pull_supplier(form),
        };
        obtained.unwrap().0.object().clone()
    }

    pub(crate) fn connect(proxy: ObjectRef, form: ClientType, model: Model) -> Self {
        match model {
            Model::Push => Self::pushed(proxy, form),
            Model::Pull => Self::pulling(proxy, form),
        }
    }

    fn pushed(proxy: ObjectRef, form: ClientType) -> Self {
        let (sender, events) = channel();
        let consumer = CallbackConsumer::new(form, move |delivery| {
            read(&delivery)?.into_iter().try_for_each(|got| sender.send(got)).map_err(|_| gone())
        });
        let servant = Orb::new(OrbOptions::default()).activate(Arc::new(consumer)).unwrap();
        let (object, reference) = (proxy.clone(), servant.reference());
        match form {
            ClientType::Any => ProxyPushSupplier::unchecked(object).connect_any_push_consumer(reference),
            ClientType::Structured => {
                StructuredProxyPushSupplier::unchecked(object).connect_structured_push_consumer(reference)
            }
            ClientType::Sequence => {
                SequenceProxyPushSupplier::unchecked(object).connect_sequence_push_consumer(reference)
            }
        }
        .unwrap();
        Self { events, _servant: Some(servant), _thread: None }
    }

    /// Pulls until its proxy is gone.
    fn pulling(proxy: ObjectRef, form: ClientType) -> Self {
        let (sender, events) = channel();
        connect_pulling(&proxy, form);
        let object = proxy.with_private_connection().with_reply_timeout(None);
        let thread = std::thread::spawn(move || {
            while let Ok(got) = pull(&object, form) {
                if got.into_iter().try_for_each(|got| sender.send(got)).is_err() {
                    return;
                }
            }
        });
        Self { events, _servant: None, _thread: Some(thread) }
    }

    pub(crate) fn take(&self, count: usize) -> Vec<Got> {
        (0..count).map(|_| self.events.next_in_time()).collect()
    }

    pub(crate) fn numbers(&self, count: usize) -> Vec<i32> {
        self.take(count).into_iter().map(|got| got.number).collect()
    }
}

/// Connects a pull consumer without a reference.
pub(crate) fn connect_pulling(proxy: &ObjectRef, form: ClientType) {
    let object = proxy.clone();
    match form {
        ClientType::Any => ProxyPullSupplier::unchecked(object).connect_any_pull_consumer(None),
        ClientType::Structured => StructuredProxyPullSupplier::unchecked(object).connect_structured_pull_consumer(None),
        ClientType::Sequence => SequenceProxyPullSupplier::unchecked(object).connect_sequence_pull_consumer(None),
    }
    .unwrap();
}

/// Waits for the next event or events.
pub(crate) fn pull(proxy: &ObjectRef, form: ClientType) -> Result<Vec<Got>, client::InvokeError> {
    let object = proxy.clone();
    Ok(match form {
        ClientType::Any => vec![ProxyPullSupplier::unchecked(object).pull()?.into()],
        ClientType::Structured => {
            vec![StructuredProxyPullSupplier::unchecked(object).pull_structured_event()?.into()]
        }
        ClientType::Sequence => {
            let events = SequenceProxyPullSupplier::unchecked(object).pull_structured_events(5)?;
            assert!(!events.is_empty() && events.len() <= 5);
            events.into_iter().map(Got::from).collect()
        }
    })
}

/// The next event or events, if there are some now.
pub(crate) fn try_pull(proxy: &ObjectRef, form: ClientType) -> Result<Vec<Got>, client::InvokeError> {
    let object = proxy.clone();
    Ok(match form {
        ClientType::Any => ProxyPullSupplier::unchecked(object).try_pull()?.into_iter().map(Got::from).collect(),
        ClientType::Structured => {
            let event = StructuredProxyPullSupplier::unchecked(object).try_pull_structured_event()?;
            event.into_iter().map(Got::from).collect()
        }
        ClientType::Sequence => {
            let events = SequenceProxyPullSupplier::unchecked(object).try_pull_structured_events(5)?;
            events.into_iter().flatten().map(Got::from).collect()
        }
    })
}

fn read(delivery: &Delivery<'_>) -> Result<Vec<Got>, ServantError> {
    let structured = |reader: &mut Reader<'_>| Ok::<_, ServantError>(Got::from(StructuredEvent::read(reader)?));
    match delivery {
        Delivery::Any(reader) => Ok(vec![AnyValue::read(&mut reader.clone(), &mut Work::default())?.into()]),
        Delivery::Structured(reader) => Ok(vec![structured(&mut reader.clone())?]),
        Delivery::Batch(reader) => {
            let mut reader = reader.clone();
            let count = reader.seq_len(24)?;
            (0..count).map(|_| structured(&mut reader)).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// The test has seen enough.
fn gone() -> ServantError {
    CallbackConsumer::disconnected()
}
