//! A link's proxies at the far service: for each channel one to push to, and one that pushes to the link.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::naming::{NamingContext, names_of_channel};
use client::notify::{
    CallbackConsumer, ClientType, ConstraintExp, Delivery, EXTENDED_TCL, EventChannel, EventChannelFactory, EventType,
    Filter, StructuredEvent, StructuredProxyPushConsumer, StructuredProxyPushSupplier, SupplierServant, find_channel,
};
use client::{Activation, InvokeError, ObjectRef, Orb, OrbOptions, ServantError};
use giop::exception::Kind;
use links::{Origin, Seen};

use super::Setup;
use super::events::Incoming;
use super::session::{Fate, Outlet, Shared};
use crate::config::is_reference;
use crate::random;

/// Maximum duration of a call other than a push, since a service may block suppliers for a slow consumer.
const CALL_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const PUSH_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time that the far service's push waits for the lane.
const TAKE_WITHIN: Duration = Duration::from_secs(10);
/// Interval between checks of a far service, and failed checks after which it is given up.
const LOOKED_AT: Duration = Duration::from_secs(3);
const SILENT_MAX: u32 = 2;
/// Maximum duration of the disconnection of each proxy.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// Maximum connections of the far service to this link.
const CONNECTIONS_MAX: usize = 8;

/// The proxies of a link at the far service.
pub(super) struct Far {
    setup: Arc<Setup>,
    orb: Orb,
    channels: Vec<Channel>,
    inlet: Arc<Inlet>,
    is_suspended: bool,
}

#[derive(Default)]
struct Channel {
    out: Option<Out>,
    into: Option<In>,
    taken: Arc<Mutex<Seen>>,
    is_refusing: Arc<AtomicBool>,
    is_rejecting: Arc<AtomicBool>,
}

/// The proxy to which the link pushes.
struct Out {
    proxy: StructuredProxyPushConsumer,
    is_gone: Arc<AtomicBool>,
    _own: Activation,
}

/// The proxy that pushes to the link.
struct In {
    proxy: StructuredProxyPushSupplier,
    filter: Option<Filter>,
    is_gone: Arc<AtomicBool>,
    _own: Activation,
}

/// The current session, for calls of the far service.
struct Inlet {
    setup: Arc<Setup>,
    session: Mutex<Option<Arc<Shared>>>,
    changed: Condvar,
    /// Whether events of the far service are rejected, which is logged once until one is taken.
    is_rejecting: AtomicBool,
}

impl Far {
    pub(super) fn new(setup: Arc<Setup>) -> Self {
        let options = OrbOptions {
            connect_timeout: CONNECT_WITHIN,
            reply_timeout: Some(CALL_WITHIN),
            message_bytes_max: setup.options.message_bytes_max,
            connections_max: CONNECTIONS_MAX,
            tls: setup.options.tls.clone().filter(|_| setup.entry.tls),
            ..OrbOptions::default()
        };
        let channels = setup.entry.channels.iter();
        let channels = channels.map(|_| Channel::default()).collect();
        let (session, changed, is_rejecting) = (Mutex::new(None), Condvar::new(), AtomicBool::new(false));
        let inlet = Inlet { setup: Arc::clone(&setup), session, changed, is_rejecting };
        Self { setup, orb: Orb::new(options), channels, inlet: Arc::new(inlet), is_suspended: false }
    }

    /// Connects the missing proxies of each channel and direction, and keeps those that still exist.
    ///
    /// # Errors
    /// The proxy or service that is missing.
    pub(super) fn reach(&mut self) -> Result<(), String> {
        let setup = Arc::clone(&self.setup);
        if setup.entry.tls && setup.options.tls.is_none() {
            return Err(
                "tls = true takes tls.ca, with the authorities that sign the far service's certificate".to_owned()
            );
        }
        // After a restart elsewhere, the far service may have another reference.
        let former = self.forget_gone();
        let direction = setup.entry.direction;
        let mut service = None;
        for (place, channel) in self.channels.iter_mut().enumerate() {
            let lacks_out = direction.sends() && channel.out.is_none();
            let lacks_in = direction.receives() && channel.into.is_none();
            if former.is_ok() && !lacks_out && !lacks_in {
                continue;
            }
            let found = find(&self.orb, &setup, place, &mut service)?;
            if former.is_err() {
                (channel.out, channel.into) = (None, None);
            }
            let to = &setup.entry.to;
            let failed = |error: InvokeError| format!("{to}, the channel {:?}: {error}", setup.channel(place));
            if direction.sends() && channel.out.is_none() {
                channel.out = Some(Out::connect(&self.orb, &found).map_err(failed)?);
            }
            if direction.receives() && channel.into.is_none() {
                channel.into = Some(In::connect(&self.orb, &found, &self.inlet, place).map_err(failed)?);
            }
        }
        if core::mem::take(&mut self.is_suspended) {
            for into in self.channels.iter().filter_map(|channel| channel.into.as_ref()) {
                // A new proxy is not suspended, and returns an error.
                let _active = into.proxy.resume_connection();
            }
        }
        Ok(())
    }

    /// Drops the proxies that no longer exist.
    ///
    /// # Errors
    /// The reason why the existence of one is unknown.
    fn forget_gone(&mut self) -> Result<(), String> {
        let to = &self.setup.entry.to;
        let is_gone = |flag: &AtomicBool, proxy: &ObjectRef| {
            Ok::<bool, String>(
                flag.load(Ordering::Acquire) || proxy.non_existent().map_err(|error| format!("{to}: {error}"))?,
            )
        };
        for channel in &mut self.channels {
            if let Some(out) = &channel.out
                && is_gone(&out.is_gone, out.proxy.object())?
            {
                channel.out = None;
            }
            if let Some(into) = &channel.into
                && is_gone(&into.is_gone, into.proxy.object())?
            {
                channel.into = None;
            }
        }
        Ok(())
    }

    /// The destinations of each channel's events.
    pub(super) fn outlets(&self) -> Vec<Outlet> {
        let outlet = |channel: &Channel| Outlet {
            proxy: channel.out.as_ref().map(Out::pushed_to),
            taken: Arc::clone(&channel.taken),
            receives: channel.into.is_some(),
            is_gone: channel.out.as_ref().map_or_else(Arc::default, |out| Arc::clone(&out.is_gone)),
            is_refusing: Arc::clone(&channel.is_refusing),
            is_rejecting: Arc::clone(&channel.is_rejecting),
        };
        self.channels.iter().map(outlet).collect()
    }

    /// Sets the session that gets the far service's events. `None`: they wait.
    pub(super) fn serve(&self, session: Option<Arc<Shared>>) {
        *self.inlet.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
        self.inlet.changed.notify_all();
    }

    /// Suspends the far service's pushes while the link is paused.
    pub(super) fn suspend(&mut self) {
        if core::mem::replace(&mut self.is_suspended, true) {
            return;
        }
        for into in self.channels.iter().filter_map(|channel| channel.into.as_ref()) {
            if let Err(error) = into.proxy.suspend_connection() {
                log::warn!(
                    "link {:?}: the notification service goes on pushing while the link is paused, and is refused: {error}",
                    self.setup.entry.name
                );
            }
        }
    }

    pub(super) fn watch(&self) -> Watch {
        Watch { looked: Instant::now(), silent: 0 }
    }

    /// Disconnects all proxies at the far service. A service that does not answer is not waited for long.
    pub(super) fn leave(&mut self) {
        let limit = Some(LEAVE_WITHIN);
        for channel in &mut self.channels {
            let out = channel.out.take().map(|out| {
                let proxy = out.proxy.object().with_reply_timeout(limit);
                StructuredProxyPushConsumer::unchecked(proxy).disconnect_structured_push_consumer()
            });
            let into = channel.into.take().map(|into| {
                let proxy = into.proxy.object().with_reply_timeout(limit);
                StructuredProxyPushSupplier::unchecked(proxy).disconnect_structured_push_supplier()?;
                into.filter.map_or(Ok(()), |filter| filter.destroy())
            });
            if let Some(error) = [out, into].into_iter().flatten().find_map(Result::err)
                && !error.object_is_gone()
            {
                let Setup { entry, .. } = &*self.setup;
                log::warn!("link {:?}: proxies at {} are left there: {error}", entry.name, entry.to);
                // After a timeout the other proxies are not tried.
                if !matches!(error, InvokeError::System { .. }) {
                    return;
                }
            }
        }
    }
}

/// The state of the checks of the far service.
pub(super) struct Watch {
    looked: Instant,
    silent: u32,
}

impl Watch {
    /// Checks that the proxies exist, if a check is due.
    ///
    /// # Errors
    /// The reason for giving up the far service.
    pub(super) fn look(&mut self, far: &mut Far) -> Result<(), String> {
        const GONE: &str = "the notification service has ended the link's proxy; it is made anew";
        let told = |channel: &Channel| {
            let out = channel.out.as_ref().is_some_and(|out| out.is_gone.load(Ordering::Acquire));
            out || channel.into.as_ref().is_some_and(|into| into.is_gone.load(Ordering::Acquire))
        };
        if far.channels.iter().any(told) {
            return Err(GONE.to_owned());
        }
        if self.looked.elapsed() < LOOKED_AT {
            return Ok(());
        }
        let answer = far.forget_gone();
        self.looked = Instant::now();
        let direction = far.setup.entry.direction;
        let lacks = |channel: &Channel| {
            direction.sends() && channel.out.is_none() || direction.receives() && channel.into.is_none()
        };
        match answer {
            Ok(()) if far.channels.iter().any(lacks) => Err(GONE.to_owned()),
            Ok(()) => {
                self.silent = 0;
                Ok(())
            }
            Err(why) => {
                self.silent += 1;
                if self.silent < SILENT_MAX { Ok(()) } else { Err(why) }
            }
        }
    }
}

impl Out {
    fn connect(orb: &Orb, channel: &EventChannel) -> Result<Self, InvokeError> {
        let (proxy, _) = channel.default_supplier_admin()?.obtain_notification_push_consumer(ClientType::Structured)?;
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        let is_gone = Arc::new(AtomicBool::new(false));
        let connected = orb.activate(Arc::new(SupplierServant::structured(Arc::clone(&is_gone)))).and_then(|own| {
            // By its reference the far service checks that this process exists.
            proxy.connect_structured_push_supplier(Some(own.reference()))?;
            Ok(own)
        });
        match connected {
            Ok(own) => Ok(Self { proxy, is_gone, _own: own }),
            Err(error) => {
                let _left = proxy.disconnect_structured_push_consumer();
                Err(error)
            }
        }
    }

    /// The proxy, over a connection of its own, with the timeout of pushes.
    fn pushed_to(&self) -> StructuredProxyPushConsumer {
        let proxy = self.proxy.object().with_private_connection().with_reply_timeout(Some(PUSH_WITHIN));
        StructuredProxyPushConsumer::unchecked(proxy)
    }
}

impl In {
    fn connect(orb: &Orb, channel: &EventChannel, inlet: &Arc<Inlet>, place: usize) -> Result<Self, InvokeError> {
        let (proxy, _) = channel.default_consumer_admin()?.obtain_notification_push_supplier(ClientType::Structured)?;
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        let is_gone = Arc::new(AtomicBool::new(false));
        let connected = filter(channel, inlet).and_then(|filter| {
            let connect = || {
                if let Some(filter) = &filter {
                    proxy.add_filter(filter)?;
                }
                let own = orb.activate(Arc::new(consumer(inlet, place, &is_gone)))?;
                proxy.connect_structured_push_consumer(own.reference())?;
                Ok(own)
            };
            match connect() {
                Ok(own) => Ok((filter, own)),
                Err(error) => {
                    let _left = filter.map(|filter| filter.destroy());
                    Err(error)
                }
            }
        });
        match connected {
            Ok((filter, own)) => Ok(Self { proxy, filter, is_gone, _own: own }),
            Err(error) => {
                let _left = proxy.disconnect_structured_push_supplier();
                Err(error)
            }
        }
    }
}

/// Creates a filter at the far service for the link's types and constraint. `None` if all events cross.
fn filter(channel: &EventChannel, inlet: &Inlet) -> Result<Option<Filter>, InvokeError> {
    let entry = &inlet.setup.entry;
    if entry.types.is_empty() && entry.constraint.trim().is_empty() {
        return Ok(None);
    }
    let Some(factory) = channel.default_filter_factory()? else {
        let reason = "it has no filters, and the link has types, or where: leave them out".to_owned();
        return Err(InvokeError::NoChannel { reason });
    };
    let types: Vec<EventType> = entry.event_types().iter().map(|of| EventType::new(&of.domain, &of.name)).collect();
    let constraint = if entry.constraint.trim().is_empty() { "TRUE" } else { entry.constraint.as_str() };
    let filter = factory.create_filter(EXTENDED_TCL)?;
    match filter.add_constraints(&[ConstraintExp::new(constraint).for_types(&types)]) {
        Ok(_) => Ok(Some(filter)),
        Err(error) => {
            let _left = filter.destroy();
            Err(error)
        }
    }
}

type OnDelivery = Box<dyn FnMut(Delivery<'_>) -> Result<(), ServantError> + Send>;

/// The consumer to which the far service pushes.
fn consumer(inlet: &Arc<Inlet>, place: usize, is_gone: &Arc<AtomicBool>) -> CallbackConsumer<OnDelivery> {
    let (inlet, is_gone, mut number) = (Arc::clone(inlet), Arc::clone(is_gone), 0);
    // Its numbers restart at 1.
    let era = random::identity();
    CallbackConsumer::structured(Box::new(move |delivery: Delivery<'_>| match delivery {
        Delivery::Structured(mut args) => {
            let event = StructuredEvent::read(&mut args)?;
            number += 1;
            inlet.take(place, event, Origin { service: inlet.setup.service, era, number })
        }
        Delivery::Disconnected => {
            is_gone.store(true, Ordering::Release);
            Ok(())
        }
        _ => Ok(()),
    }))
}

impl Inlet {
    /// Takes an event, and returns once the lane has it.
    fn take(&self, place: usize, event: StructuredEvent, unknown: Origin) -> Result<(), ServantError> {
        let rejected = |why: &str| {
            let channel = self.setup.channel(place);
            if !self.is_rejecting.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "link {:?}: an event of {channel:?} is not taken, and dropped: {why}",
                    self.setup.entry.name
                );
            }
            Ok(())
        };
        let event = match Incoming::new(event, self.setup.service, unknown) {
            Ok(event) => event,
            Err(Some(why)) => return rejected(&why),
            // The event has passed through the maximum of services.
            Err(None) => return Ok(()),
        };
        let deadline = Instant::now() + TAKE_WITHIN;
        let mut former: Option<Arc<Shared>> = None;
        loop {
            let is_new = |session: &Option<Arc<Shared>>| match (session, &former) {
                (Some(session), Some(former)) => !Arc::ptr_eq(session, former),
                (session, _) => session.is_some(),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let session = self.changed.wait_timeout_while(session, left, |session| !is_new(session));
            let session = session.unwrap_or_else(PoisonError::into_inner).0;
            let found = session.clone().filter(|_| is_new(&session));
            drop(session);
            // The far service pushes it again.
            let Some(session) = found else { return Err(ServantError::system(Kind::Transient)) };
            match session.take_in(place, &event, deadline) {
                Fate::Taken => {
                    self.is_rejecting.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                Fate::Rejected(why) => return rejected(&why),
                Fate::Late => return Err(ServantError::system(Kind::Transient)),
                Fate::Ended => former = Some(session),
            }
        }
    }
}

/// Finds a channel of a link at the far service. `service` caches the object to which the link's `to` refers.
fn find(orb: &Orb, setup: &Setup, place: usize, service: &mut Option<ObjectRef>) -> Result<EventChannel, String> {
    let entry = &setup.entry;
    let far = entry.far_channels.get(place).or_else(|| entry.channels.get(place)).map_or("", String::as_str);
    let failed = |error: InvokeError| format!("{far:?} at {}: {error}", entry.to);
    if is_reference(far) {
        return orb.resolve(far).and_then(EventChannel::narrow).map_err(failed);
    }
    let object = match service {
        Some(object) => object.clone(),
        None => {
            service.insert(orb.resolve_service(&entry.to).map_err(|error| format!("{}: {error}", entry.to))?).clone()
        }
    };
    if !entry.far_channels.is_empty()
        && let Ok(id) = far.parse()
    {
        return find_channel(&object, Some(id)).map(|(channel, _)| channel).map_err(failed);
    }
    let is = |interface: &str| object.is_a(interface).map_err(|error| format!("{}: {error}", entry.to));
    if is(EventChannel::REPOSITORY_ID)? {
        return if entry.channels.len() == 1 {
            Ok(EventChannel::unchecked(object))
        } else {
            Err(format!("{} is a channel, and the link has several: far_channels says which", entry.to))
        };
    }
    let naming = if is(EventChannelFactory::REPOSITORY_ID)? {
        NamingContext::beside(&object)
    } else {
        NamingContext::unchecked(object)
    };
    let bound = names_of_channel(far, "DEFAULTDOMAIN")
        .into_iter()
        .find_map(|name| EventChannel::narrow(naming.resolve(&name).ok()?).ok());
    bound.ok_or_else(|| {
        format!(
            "{} has no channel named {far:?}: create it there, or have far_channels say its number, or its name or reference",
            entry.to
        )
    })
}
