//! A consumer that is connected with one call.

use super::{FAREWELL_TIMEOUT, gone_is_fine};
use crate::notify::{
    ClientType, ConstraintExp, ConsumerAdmin, Delivery, EXTENDED_TCL, EventChannel, EventType, Filter,
    PrioritizedConsumer, Property, ProxyPushSupplier, SequenceProxyPushSupplier, StructuredEvent,
    StructuredProxyPushSupplier, events_of, find_channel,
};
use crate::{Activation, InvokeError, ObjectRef, Orb, OrbOptions, Servant, ServantError, Served, lock};
use giop::cdr::{ReadError, Reader};
use giop::realtime::PriorityModelPolicy;
use giop::typecode::Work;
use giop::value::AnyValue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Settings of a [`SimpleConsumer`].
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Settings of the orb beneath: where to listen for events, time limits.
    pub orb: OrbOptions,
    /// The form in which events travel. Default [`ClientType::Structured`]; the callback gets the events of a
    /// [`ClientType::Sequence`] one by one, too.
    pub form: ClientType,
    /// Event types to receive; `*` stands for all. Default none, which means all types.
    pub types: Vec<EventType>,
    /// A condition in the Extended Trader Constraint Language that the service applies, such as
    /// `$celsius > 30 and $site == 'north'`: other events do not travel. Default none.
    pub constraint: Option<String>,
    /// Quality of service of the proxy. Default none: the channel's.
    pub qos: Vec<Property>,
    /// The Real-time CORBA priority model that the consumer's reference names. Under
    /// [`PriorityModel::ClientPropagated`](giop::realtime::PriorityModel::ClientPropagated) the service tells the priority of each
    /// event ([`Received::priority`]). Default none: no priorities.
    pub priority_model: Option<PriorityModelPolicy>,
    /// Whether an event is answered as soon as it has been read, before the callback ran. The service then sends on without
    /// waiting for the callback, and events wait in this process (up to 128 KiB of them) and its socket rather than in the
    /// service. Given up for it: the callback's errors reach nobody, so that nothing is sent again and the subscription is not
    /// ended by them; and what was answered and not yet handled is lost if the process ends. Default false: an event is
    /// answered when the callback has returned.
    pub answer_early: bool,
    /// Whether the consumer shares its end point with the others of the process that ask for it, too, and were connected to the
    /// same address with the same [`OrbOptions`]. The service then has one connection to all of them, and what is due there goes
    /// with one system call: for processes with many consumers. Their callbacks run on one thread, one after the other, so
    /// that one that takes long delays the others'. Default false: an end point, connections and a thread of its own.
    pub shared_end_point: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            orb: OrbOptions::default(),
            form: ClientType::Structured,
            types: Vec::new(),
            constraint: None,
            qos: Vec::new(),
            priority_model: None,
            answer_early: false,
            shared_end_point: false,
        }
    }
}

/// An event as it arrived, borrowed from the message.
#[derive(Clone, Debug)]
pub struct Received<'a> {
    body: ReceivedBody<'a>,
    priority: Option<i16>,
}

/// Which form an event arrived in; each reader stands at its first octet.
#[derive(Clone, Debug)]
pub enum ReceivedBody<'a> {
    /// A `CosNotification::StructuredEvent`.
    Structured(Reader<'a>),
    /// An `any`.
    Any(Reader<'a>),
}

impl<'a> Received<'a> {
    /// The form with a reader at its first octet.
    #[must_use]
    pub fn body(&self) -> ReceivedBody<'a> {
        self.body.clone()
    }

    /// The Real-time CORBA priority that the service told with it, from 0 to 32767; `None` if it told none, as it does unless
    /// [`ConsumerOptions::priority_model`] asks for it.
    #[must_use]
    pub const fn priority(&self) -> Option<i16> {
        self.priority
    }

    /// The event's octets as they travelled.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match &self.body {
            ReceivedBody::Structured(reader) | ReceivedBody::Any(reader) => reader.rest(),
        }
    }

    /// The event decoded; an Any becomes the remainder of a structured event of type `%ANY`, as the OMG's translation
    /// has it (Notification Service 1.1, 2.1.4).
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn event(&self) -> Result<StructuredEvent, ReadError> {
        match &self.body {
            ReceivedBody::Structured(reader) => StructuredEvent::read(&mut reader.clone()),
            ReceivedBody::Any(_) => {
                let mut event = StructuredEvent::new("", "%ANY", "");
                event.remainder = self.any()?;
                Ok(event)
            }
        }
    }

    /// The Any of an event in an Any; the remainder of the body of a structured one.
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn any(&self) -> Result<AnyValue, ReadError> {
        match &self.body {
            ReceivedBody::Any(reader) => AnyValue::read(&mut reader.clone(), &mut Work::default()),
            ReceivedBody::Structured(_) => self.event().map(|event| event.remainder),
        }
    }
}

/// What [`SimpleConsumer::check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The subscription is in place.
    Connected,
    /// The subscription was gone and has been made anew; events in between are lost.
    Reconnected,
}

/// Receives a channel's events by a callback.
///
/// The service connects to the program, so a broken connection is the service's to make again, and it does. What the
/// program must find out is whether its subscription still exists: a service that was restarted, or that gave the
/// consumer up, has forgotten it. [`check`](Self::check) does that and subscribes anew; call it every few seconds if
/// that matters.
///
/// The callback runs on a thread of the orb's, for one event at a time, in the order in which the channel has them. Campanile
/// sends some events ahead (64 unless the property `PushWindow` says otherwise), so that the next one is there when the
/// callback returns; other services wait for that before they send. The callback's error is raised to the service; one that
/// says "not now", such as `TRANSIENT`, has the event come again, before all later ones; others drop it;
/// [`CallbackConsumer::disconnected`](crate::notify::CallbackConsumer::disconnected) ends the subscription.
///
/// ```no_run
/// use campanile_client::{ConsumerOptions, LOCAL_SERVICE, SimpleConsumer};
///
/// let consumer = SimpleConsumer::connect(LOCAL_SERVICE, None, ConsumerOptions::default(), |received| {
///     println!("{:?}", received.event()?);
///     Ok(())
/// })?;
/// consumer.close()?;
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
///
/// Only some of a type's events, chosen by the service:
///
/// ```no_run
/// use campanile_client::notify::EventType;
/// use campanile_client::{ConsumerOptions, LOCAL_SERVICE, SimpleConsumer};
///
/// let options = ConsumerOptions {
///     types: vec![EventType::new("Telescope", "Temperature")],
///     constraint: Some("$celsius > 30 and $site == 'north'".into()),
///     ..ConsumerOptions::default()
/// };
/// let consumer = SimpleConsumer::connect(LOCAL_SERVICE, None, options, |_| Ok(()))?;
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
#[derive(Debug)]
pub struct SimpleConsumer {
    service: ObjectRef,
    channel: Option<i32>,
    options: ConsumerOptions,
    activation: Activation,
    disconnected: Arc<AtomicBool>,
    /// `None` once closed.
    subscription: Mutex<Option<Subscription>>,
}

/// What a consumer has at the service.
#[derive(Clone, Debug)]
struct Subscription {
    proxy: ObjectRef,
    /// Made for the proxy; it would outlive it.
    filter: Option<Filter>,
}

impl SimpleConsumer {
    /// Subscribes to a channel. `address` and `channel` as for [`SimpleSupplier::connect`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn connect(
        address: &str,
        channel: Option<i32>,
        options: ConsumerOptions,
        mut callback: impl FnMut(Received<'_>) -> Result<(), ServantError> + Send + 'static,
    ) -> Result<Self, InvokeError> {
        let orb = if options.shared_end_point {
            Orb::of_process(address.trim(), &options.orb)
        } else {
            Orb::new(options.orb.clone())
        };
        let service = orb.resolve_service(address)?;
        // Connects before listening: the service is to call back at the address over which it was reached.
        let (found, _) = find_channel(&service, channel)?;
        let disconnected = Arc::new(AtomicBool::new(false));
        let told = disconnected.clone();
        let deliver = move |delivery: Delivery<'_>, priority| match delivery {
            Delivery::Structured(reader) => callback(Received { body: ReceivedBody::Structured(reader), priority }),
            Delivery::Any(reader) => callback(Received { body: ReceivedBody::Any(reader), priority }),
            Delivery::Batch(reader) => each_of_batch(reader, priority, &mut callback),
            Delivery::OfferChange { .. } => Ok(()),
            Delivery::Disconnected => {
                told.store(true, Ordering::Release);
                Ok(())
            }
        };
        let servant: Arc<dyn Servant> =
            Arc::new(PrioritizedConsumer::new(options.form, deliver).answering_early(options.answer_early));
        let activation = orb.activate_at(servant, options.priority_model)?;
        let subscription = Mutex::new(Some(subscribe(&found, &options, activation.reference())?));
        Ok(Self { service, channel, options, activation, disconnected, subscription })
    }

    /// Asks the service whether the subscription is still there, and makes it anew if not.
    ///
    /// # Errors
    /// If the service cannot be reached: the service may be back later, so call again.
    pub fn check(&self) -> Result<Health, InvokeError> {
        let Some(old) = lock(&self.subscription).clone() else { return Ok(Health::Connected) };
        if !self.disconnected.load(Ordering::Acquire) && !old.proxy.non_existent()? {
            return Ok(Health::Connected);
        }
        let (channel, _) = find_channel(&self.service, self.channel)?;
        let renewed = subscribe(&channel, &self.options, self.activation.reference())?;
        self.disconnected.store(false, Ordering::Release);
        *lock(&self.subscription) = Some(renewed);
        // Gone already if the service was restarted; left alone otherwise, as the proxy was.
        let _ = old.filter.map(|filter| filter.destroy());
        Ok(Health::Reconnected)
    }

    /// What its end point was asked, in numbers: by this consumer's subscription alone, unless it is shared
    /// ([`ConsumerOptions::shared_end_point`]).
    #[must_use]
    pub fn served(&self) -> Served {
        self.activation.orb().served()
    }

    /// The proxy that pushes to it now; `None` once closed.
    #[must_use]
    pub fn proxy(&self) -> Option<ObjectRef> {
        lock(&self.subscription).as_ref().map(|subscription| subscription.proxy.clone())
    }

    /// Ends the subscription. The callback may still be running for a last event.
    ///
    /// # Errors
    /// If the service could not be told; a proxy that is gone already is no error.
    pub fn close(self) -> Result<(), InvokeError> {
        let timeout = self.options.orb.reply_timeout;
        self.unsubscribe(timeout)
    }

    fn unsubscribe(&self, timeout: Option<Duration>) -> Result<(), InvokeError> {
        let Some(Subscription { proxy, filter }) = lock(&self.subscription).take() else { return Ok(()) };
        let operation = match self.options.form {
            ClientType::Any => "disconnect_push_supplier",
            ClientType::Structured => "disconnect_structured_push_supplier",
            ClientType::Sequence => "disconnect_sequence_push_supplier",
        };
        gone_is_fine(proxy.with_reply_timeout(timeout).call_void(operation, |_| ()))?;
        match filter {
            Some(filter) => gone_is_fine(filter.object().with_reply_timeout(timeout).call_void("destroy", |_| ())),
            None => Ok(()),
        }
    }
}

impl Drop for SimpleConsumer {
    fn drop(&mut self) {
        // Best effort: a service that is not told finds out when it cannot deliver.
        let _ = self.unsubscribe(Some(FAREWELL_TIMEOUT));
    }
}

/// Makes a proxy for the consumer: quality of service, types and filter first, so that nothing unwanted comes before
/// them.
fn subscribe(
    channel: &EventChannel,
    options: &ConsumerOptions,
    consumer: &ObjectRef,
) -> Result<Subscription, InvokeError> {
    // The filter before the proxy: a constraint that is refused leaves nothing behind.
    let filter = options.constraint.as_deref().map(|constraint| make_filter(channel, constraint)).transpose()?;
    match attach(channel, options, filter.as_ref(), consumer) {
        Ok(proxy) => Ok(Subscription { proxy, filter }),
        Err(error) => {
            // The first error is the one to tell.
            let _ = filter.map(|filter| filter.destroy());
            Err(error)
        }
    }
}

fn attach(
    channel: &EventChannel,
    options: &ConsumerOptions,
    filter: Option<&Filter>,
    consumer: &ObjectRef,
) -> Result<ObjectRef, InvokeError> {
    let admin: ConsumerAdmin = channel.default_consumer_admin()?;
    let (proxy, _) = admin.obtain_notification_push_supplier(options.form)?;
    if !options.qos.is_empty() {
        proxy.set_qos(&options.qos)?;
    }
    if let Some(filter) = filter {
        proxy.add_filter(filter)?;
    }
    let proxy = proxy.object().clone();
    if !options.types.is_empty() {
        proxy.call_change("subscription_change", &options.types, &[EventType::any()])?;
    }
    match options.form {
        ClientType::Any => ProxyPushSupplier::unchecked(proxy.clone()).connect_any_push_consumer(consumer)?,
        ClientType::Structured => {
            StructuredProxyPushSupplier::unchecked(proxy.clone()).connect_structured_push_consumer(consumer)?;
        }
        ClientType::Sequence => {
            SequenceProxyPushSupplier::unchecked(proxy.clone()).connect_sequence_push_consumer(consumer)?;
        }
    }
    Ok(proxy)
}

fn make_filter(channel: &EventChannel, constraint: &str) -> Result<Filter, InvokeError> {
    let factory = channel.default_filter_factory()?.ok_or(InvokeError::NoFilters)?;
    let filter = factory.create_filter(EXTENDED_TCL)?;
    match filter.add_constraints(&[ConstraintExp::new(constraint)]) {
        Ok(_) => Ok(filter),
        Err(error) => {
            // The first error is the one to tell.
            let _ = filter.destroy();
            Err(error)
        }
    }
}

/// Calls back for each event of a batch; the first error ends it and is raised for the whole.
fn each_of_batch(
    batch: Reader<'_>,
    priority: Option<i16>,
    callback: &mut impl FnMut(Received<'_>) -> Result<(), ServantError>,
) -> Result<(), ServantError> {
    for event in events_of(batch)? {
        callback(Received { body: ReceivedBody::Structured(event?), priority })?;
    }
    Ok(())
}
