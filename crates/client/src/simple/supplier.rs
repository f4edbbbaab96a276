//! A supplier that is connected with one call.

use super::gone_is_fine;
use crate::notify::{ClientType, Property, StructuredEvent, connect, find_channel, write_batch};
use crate::publisher::operation;
use crate::{InvokeError, ObjectRef, Orb, OrbOptions, Publisher, PublisherOptions, lock};
use giop::cdr::Writer;
use giop::value::AnyValue;
use std::sync::Mutex;

/// Settings of a [`SimpleSupplier`].
#[derive(Clone, Debug)]
pub struct SupplierOptions {
    /// Settings of the orb beneath. `reply_timeout` is the longest a `publish` takes.
    pub orb: OrbOptions,
    /// The form in which events travel. Default [`ClientType::Structured`].
    pub form: ClientType,
    /// Quality of service of the proxy. Default none: the channel's.
    pub qos: Vec<Property>,
    /// Real-time CORBA priority of the events, from 0 to 32767, told to a proxy whose reference says that clients propagate
    /// priorities ([`ObjectRef::with_priority`]). Default none.
    pub priority: Option<i16>,
}

impl Default for SupplierOptions {
    fn default() -> Self {
        Self { orb: OrbOptions::default(), form: ClientType::Structured, qos: Vec::new(), priority: None }
    }
}

/// Pushes events into a channel, over a connection of its own.
///
/// `publish` returns once the service has taken the event. If the connection was closed in between, it is opened again;
/// if the proxy is gone, because the service was restarted or disconnected the supplier, a new one is obtained and the
/// event pushed there. An event whose fate is unknown, because the connection broke or time ran out after it was
/// written, is not sent again: the error says so ([`InvokeError::was_not_carried_out`]) and the caller decides.
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
    service: ObjectRef,
    channel: Option<i32>,
    options: SupplierOptions,
    proxy: Mutex<ObjectRef>,
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

    /// As [`connect`](Self::connect), with settings.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn connect_with(address: &str, channel: Option<i32>, options: SupplierOptions) -> Result<Self, InvokeError> {
        let service = Orb::new(options.orb.clone()).resolve_service(address)?;
        let proxy = Mutex::new(Self::obtain(&service, channel, &options)?);
        Ok(Self { service, channel, options, proxy })
    }

    fn obtain(service: &ObjectRef, channel: Option<i32>, options: &SupplierOptions) -> Result<ObjectRef, InvokeError> {
        let (channel, _) = find_channel(service, channel)?;
        let admin = channel.default_supplier_admin()?;
        let (mut proxy, id) = admin.obtain_notification_push_consumer(options.form)?;
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
        connect(&object, operation, None)?;
        Ok(object)
    }

    /// Pushes a structured event and waits until the service has taken it. Not if connected with [`ClientType::Any`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish(&self, event: &StructuredEvent) -> Result<(), InvokeError> {
        match self.options.form {
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
        self.push("push_structured_events", |w| write_batch(events, w))
    }

    /// Pushes an Any and waits until the service has taken it. Only if connected with [`ClientType::Any`].
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish_any(&self, event: &AnyValue) -> Result<(), InvokeError> {
        self.push("push", |w| event.write(w))
    }

    /// Pushes an event whose argument, a `StructuredEvent`, an `any` or an `EventBatch`, is written by hand.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publish_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.push(operation(self.options.form), write)
    }

    /// Publishes through the same proxy without waiting for each event. Events published here and there have no order among
    /// them. A proxy that is gone is made anew, as for [`publish`](Self::publish), but not later: a publisher whose proxy goes
    /// has its events refused (`OBJECT_NOT_EXIST`), and is to be replaced by another one from here.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn publisher(&self, options: PublisherOptions) -> Result<Publisher, InvokeError> {
        let mut proxy = self.proxy();
        if proxy.non_existent()? {
            proxy = Self::obtain(&self.service, self.channel, &self.options)?;
            *lock(&self.proxy) = proxy.clone();
        }
        Publisher::new(&proxy, self.options.form, options)
    }

    /// The proxy it is connected to now.
    #[must_use]
    pub fn proxy(&self) -> ObjectRef {
        lock(&self.proxy).clone()
    }

    /// Takes leave of the service: the proxy ends.
    ///
    /// # Errors
    /// If the service could not be told; a proxy that is gone already is no error.
    pub fn close(self) -> Result<(), InvokeError> {
        let operation = match self.options.form {
            ClientType::Any => "disconnect_push_consumer",
            ClientType::Structured => "disconnect_structured_push_consumer",
            ClientType::Sequence => "disconnect_sequence_push_consumer",
        };
        gone_is_fine(self.proxy().call_void(operation, |_| ()))
    }

    fn push<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(), InvokeError> {
        let proxy = self.proxy();
        match proxy.invoke(operation, &write) {
            Err(error) if error.object_is_gone() || error.is("Disconnected") => {
                let renewed = Self::obtain(&self.service, self.channel, &self.options)?;
                *lock(&self.proxy) = renewed.clone();
                renewed.invoke(operation, &write).map(|_| ())
            }
            outcome => outcome.map(|_| ()),
        }
    }
}
