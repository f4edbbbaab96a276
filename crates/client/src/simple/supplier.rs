//! A supplier connected with one call.

use super::{ChannelFinder, DISCONNECT_TIMEOUT, Reconnections, gone_is_fine, named};
use crate::notify::{
    ClientType, EventChannel, Property, ProxyConsumer, StructuredEvent, SupplierAdmin, SupplierServant, push_consumer,
};
use crate::orb::Role;
use crate::publisher::operation;
use crate::{Activation, InvokeError, Marshal, ObjectRef, Orb, OrbOptions, Publisher, PublisherOptions, lock};
use giop::cdr::Writer;
use giop::value::AnyValue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Settings of a [`SimpleSupplier`].
#[derive(Clone, Debug)]
pub struct SupplierOptions {
    /// Settings of the orb beneath. `reply_timeout` is the longest a `publish` takes.
    pub orb: OrbOptions,
    /// The form in which events travel. Default [`ClientType::Structured`].
    pub form: ClientType,
    /// Name of the proxy, which Campanile and TAO's service show in their lists and logs. Default none. A service that has no names, or
    /// has given this one to another proxy of the channel, makes a proxy without.
    pub name: Option<String>,
    /// Quality of service of the proxy. Default none: that of the channel.
    pub qos: Vec<Property>,
    /// Real-time CORBA priority of the events, from 0 to 32767, sent to a proxy if its reference says that clients propagate
    /// priorities ([`ObjectRef::with_priority`]). Default none.
    pub priority: Option<i16>,
}

impl Default for SupplierOptions {
    fn default() -> Self {
        Self { orb: OrbOptions::default(), form: ClientType::Structured, name: None, qos: Vec::new(), priority: None }
    }
}

/// Pushes events into a channel, over a connection of its own.
///
/// `publish` returns once the service has taken the event. If the connection was closed in between, it is opened again; if the proxy is
/// gone, because the service was restarted or disconnected the supplier, a new one is obtained for the event. An event with an unknown
/// outcome, because the connection broke or time ran out after it was written, is not sent again: the error says so
/// ([`InvokeError::was_not_carried_out`]) and the caller decides. While the service is away, `publish` returns an error.
///
/// When the last of a supplier and its [publishers](Self::publisher) is dropped, the proxy is disconnected, waiting at most a second for
/// the service. The service notices a program that ends without that: from time to time it queries an object of the program. All suppliers
/// of a process that were connected to the same address with the same [`OrbOptions`] share one end point for that object.
///
/// ```no_run
/// use campanile_client::notify::{Property, StructuredEvent};
/// use campanile_client::{LOCAL_SERVICE, SimpleSupplier};
///
/// let supplier = SimpleSupplier::connect(LOCAL_SERVICE, None)?;
/// let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
/// event.filterable_data.push(Property::new("celsius", 11.5_f64));
/// supplier.publish(&event)?;
/// supplier.close()?;
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
#[derive(Debug)]
pub struct SimpleSupplier {
    source: Arc<Source>,
}

/// A supplier's proxy, and the means to obtain another one. Shared with its publishers; the last one disconnects.
#[derive(Debug)]
pub(crate) struct Source {
    orb: Orb,
    finder: ChannelFinder,
    options: SupplierOptions,
    /// The object by which the service finds out whether the program still exists; `None` if no socket could be opened.
    own: Option<Activation>,
    proxy: Mutex<ObjectRef>,
    /// Locked while a proxy is obtained, so that a lost one is replaced once.
    renewing: Mutex<()>,
    reconnections: Reconnections,
    is_closed: AtomicBool,
}

impl SimpleSupplier {
    /// Connects to a channel, with default settings. `address` is what
    /// [`Orb::resolve_service`] understands and names a factory or a channel; `channel` is the id of a channel of that
    /// factory, `None` for the default one.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn connect(address: &str, channel: Option<i32>) -> Result<Self, InvokeError> {
        Self::connect_with(address, channel, SupplierOptions::default())
    }

    /// Connects as [`connect`](Self::connect) does, with settings.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn connect_with(address: &str, channel: Option<i32>, options: SupplierOptions) -> Result<Self, InvokeError> {
        let orb = Orb::of_process(Role::Suppliers, address.trim(), &options.orb);
        let finder = ChannelFinder::by_id(orb.resolve_service(address)?, channel);
        Source::connect(orb, finder, options).map(|source| Self { source: Arc::new(source) })
    }

    /// Connects as [`connect_with`](Self::connect_with) does, to the channel that `finder` finds, initially and whenever that is gone.
    /// `address` only determines the suppliers that share an end point.
    ///
    /// # Errors
    /// Errors of `finder`, and see [`InvokeError`].
    pub fn connect_by(address: &str, finder: ChannelFinder, options: SupplierOptions) -> Result<Self, InvokeError> {
        let orb = Orb::of_process(Role::Suppliers, address.trim(), &options.orb);
        Source::connect(orb, finder, options).map(|source| Self { source: Arc::new(source) })
    }

    /// Pushes a structured event and waits until the service has taken it. Not if connected with [`ClientType::Any`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish(&self, event: &StructuredEvent) -> Result<(), InvokeError> {
        match self.source.options.form {
            ClientType::Sequence => self.publish_all(std::slice::from_ref(event)),
            _ => self.push("push_structured_event", |w| event.write(w)),
        }
    }

    /// Pushes several events, in order, in one call, and waits until the service has taken them. Only if connected with
    /// [`ClientType::Sequence`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish_all(&self, events: &[StructuredEvent]) -> Result<(), InvokeError> {
        self.push("push_structured_events", |w| events.marshal(w))
    }

    /// Pushes an Any and waits until the service has taken it. Only if connected with [`ClientType::Any`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish_any(&self, event: &AnyValue) -> Result<(), InvokeError> {
        self.push("push", |w| event.write(w))
    }

    /// Pushes an event written by hand: a `StructuredEvent`, an `any` or an `EventBatch`.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish_written<A: crate::Arguments>(
        &self,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(), InvokeError> {
        self.push(operation(self.source.options.form), write)
    }

    /// Publishes through the same proxy without waiting for each event. Events published here and there have no mutual order. A lost proxy
    /// is replaced, as for [`publish`](Self::publish).
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publisher(&self, options: PublisherOptions) -> Result<Publisher, InvokeError> {
        let proxy = self.source.living(&self.proxy())?;
        Publisher::of(&proxy, self.source.options.form, options, Some(self.source.clone()))
    }

    /// The current proxy.
    #[must_use]
    pub fn proxy(&self) -> ObjectRef {
        lock(&self.source.proxy).clone()
    }

    /// Times that the supplier reconnected: the service was restarted, with its store or without, or had disconnected the supplier.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        self.source.reconnections.all(Some(&self.proxy()))
    }

    /// Disconnects from the service: the proxy ends, for publishers, too.
    ///
    /// # Errors
    /// If the service could not be notified; a proxy that is gone already is no error.
    pub fn close(self) -> Result<(), InvokeError> {
        self.source.is_closed.store(true, Ordering::Release);
        gone_is_fine(self.proxy().request(self.source.disconnect_operation(), &()))
    }

    fn push<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(), InvokeError> {
        let proxy = self.proxy();
        match proxy.invoke(operation, &write) {
            Err(error) if error.object_is_gone() || error.is("Disconnected") => {
                let renewed = self.source.renew(&proxy).map_err(InvokeError::of_renewal)?;
                renewed.invoke(operation, &write).map(|_| ())
            }
            outcome => outcome.map(|_| ()),
        }
    }
}

impl Source {
    fn connect(orb: Orb, finder: ChannelFinder, options: SupplierOptions) -> Result<Self, InvokeError> {
        // Connects before listening: the service is to call back at the address over which it was reached.
        let found = finder.find(&orb)?;
        // A program that may not listen supplies all the same; only its end is then not noticed.
        let own = orb.activate(Arc::new(SupplierServant::new(options.form, ()))).ok();
        let proxy = Mutex::new(obtain(&found, &options, own.as_ref().map(Activation::reference))?);
        Ok(Self {
            orb,
            finder,
            options,
            own,
            proxy,
            renewing: Mutex::default(),
            reconnections: Reconnections::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// An existing proxy: `known` if it exists, or a new one.
    ///
    /// # Errors
    /// The service cannot be reached, or refuses a proxy.
    pub(crate) fn living(&self, known: &ObjectRef) -> Result<ObjectRef, InvokeError> {
        if known.non_existent()? { self.renew(known) } else { Ok(known.clone()) }
    }

    /// Replaces a lost proxy: by the one that another thread has obtained meanwhile, or a new one.
    fn renew(&self, gone: &ObjectRef) -> Result<ObjectRef, InvokeError> {
        let _alone = lock(&self.renewing);
        let known = lock(&self.proxy).clone();
        if known.ior() != gone.ior() {
            return Ok(known);
        }
        if self.is_closed.load(Ordering::Acquire) {
            return Err(InvokeError::Closed);
        }
        let channel = self.finder.find(&self.orb)?;
        let renewed = obtain(&channel, &self.options, self.own.as_ref().map(Activation::reference))?;
        *lock(&self.proxy) = renewed.clone();
        self.reconnections.renewed(gone);
        Ok(renewed)
    }

    const fn disconnect_operation(&self) -> &'static str {
        push_consumer(self.options.form).disconnect
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Acquire) {
            // Best effort: a service that is not notified finds out when it asks.
            let _ = lock(&self.proxy).take_leave(self.disconnect_operation(), DISCONNECT_TIMEOUT);
        }
    }
}

/// Makes a proxy and connects to it.
fn obtain(
    channel: &EventChannel,
    options: &SupplierOptions,
    own: Option<&ObjectRef>,
) -> Result<ObjectRef, InvokeError> {
    let admin = channel.default_supplier_admin()?;
    let named = options
        .name
        .as_deref()
        .and_then(|name| named(admin.obtain_named_notification_push_consumer(options.form, name)));
    let (proxy, id) = named.unwrap_or_else(|| admin.obtain_notification_push_consumer(options.form))?;
    connect_to((&admin, &proxy, id), options, own).inspect_err(|_| {
        // No supplier would ever connect to it. The first error is the one to return.
        let _ = proxy.object().take_leave(push_consumer(options.form).disconnect, DISCONNECT_TIMEOUT);
    })
}

fn connect_to(
    (admin, proxy, id): (&SupplierAdmin, &ProxyConsumer, i32),
    options: &SupplierOptions,
    own: Option<&ObjectRef>,
) -> Result<ObjectRef, InvokeError> {
    let mut proxy = proxy.clone();
    if !options.qos.is_empty() {
        proxy.set_qos(&options.qos)?;
        if options.priority.is_some() {
            // What it was given may be a thread pool, and then its reference says another priority model.
            proxy = admin.get_proxy_consumer(id)?;
        }
    }
    let object = proxy.object().with_private_connection();
    let object = options.priority.map_or_else(|| object.clone(), |priority| object.with_priority(priority));
    let operation = match options.form {
        ClientType::Any => "connect_any_push_supplier",
        ClientType::Structured => "connect_structured_push_supplier",
        ClientType::Sequence => "connect_sequence_push_supplier",
    };
    object.request::<()>(operation, &(own,))?;
    Ok(object)
}
