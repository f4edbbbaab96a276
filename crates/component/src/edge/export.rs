//! Components in Rust behind the C ABI, in the shared object that has them.

use super::abi::{self, Append, Host, Table};
use super::{NATIVE, c_string};
use crate::declaration::{Component, Declaring, EventType, PortKind, Setup};
use crate::error::{Failure, SendError};
use crate::instance::{InstanceState, Shown, text_of};
use crate::lane::{Clock, LaneContext};
use crate::life::Life;
use crate::notice::Notices;
use crate::port::{EventSet, Ports, Tick};
use crate::route::{AnyRoute, Deliver, Origin, Route};
use crate::settings::RestartPolicy;
use campanile::Event;
use giop::cdr::{Reader, Writer};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Makes the components of a library of Rust (`crate-type = ["cdylib"]`) those of a shared object, which plans can name:
/// `component = "libguider.so#Guider"`.
///
/// ```standalone_crate
/// use campanile::Event;
/// use campanile_component::{Ports, Sink, component};
///
/// #[derive(Event)]
/// struct Frame {
///     brightness: f64,
/// }
///
/// #[component]
/// struct Guider {
///     #[sink]
///     frame: Sink<Frame>,
///     gain: f64,
/// }
///
/// impl Guider {
///     fn on_frame(&mut self, frame: &Frame, _: &Ports) {
///         println!("{}", self.gain * frame.brightness);
///     }
/// }
///
/// campanile_component::export!(Guider);
/// ```
///
/// A panic ends at the edge, and has the component made again, in a profile that unwinds. Lines for the crate `log` go to the server.
#[macro_export]
macro_rules! export {
    ($($component:ty),+ $(,)?) => {
        #[allow(unsafe_code, non_upper_case_globals, missing_docs)]
        #[unsafe(no_mangle)]
        pub static campanile_component_v1: $crate::edge::abi::Table = {
            extern "C" fn components(count: *mut usize) -> *const $crate::edge::abi::Component {
                static COMPONENTS: $crate::edge::export::Components = $crate::edge::export::Components::new();
                // SAFETY: the server gives the pointer of a number.
                unsafe { COMPONENTS.list(count, || vec![$($crate::edge::export::describe::<$component>()),+]) }
            }
            $crate::edge::export::table(components)
        };
    };
}

/// The table of an object in Rust.
#[must_use]
pub const fn table(components: unsafe extern "C" fn(*mut usize) -> *const abi::Component) -> Table {
    #[expect(clippy::cast_possible_truncation, reason = "it has a few pointers")]
    let size = size_of::<Table>() as u32;
    Table { abi: abi::CAMPANILE_COMPONENT_ABI, size, components: Some(components), write_native: Some(write_native) }
}

// SAFETY: what it points to was made for this, stays, and is never changed.
unsafe impl Send for abi::Component {}
// SAFETY: as above.
unsafe impl Sync for abi::Component {}

/// The descriptions of an object's components, which are made once.
#[derive(Debug, Default)]
pub struct Components(OnceLock<Vec<abi::Component>>);

impl Components {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The first of them; `count` gets how many there are. A null pointer if they cannot be described.
    ///
    /// # Safety
    /// The pointer is that of a number.
    pub unsafe fn list(&self, count: *mut usize, describe: fn() -> Vec<abi::Component>) -> *const abi::Component {
        let list = catch_unwind(AssertUnwindSafe(|| self.0.get_or_init(describe)));
        // SAFETY: the caller promises it.
        unsafe { count.write(list.as_ref().map_or(0, |list| list.len())) };
        list.map_or(ptr::null(), |list| list.as_ptr())
    }
}

/// A text of a table, which stays.
fn stays(text: &str) -> *const c_char {
    c_string(text).into_raw()
}

/// As much of the word for a property's type, which is for people, as a table may have.
fn cut(what: &str) -> &str {
    what.get(..what.floor_char_boundary(super::host::NAME_BYTES_MAX)).unwrap_or(what)
}

/// A list of a table, which stays.
fn list<T: 'static>(all: Vec<T>) -> (*const T, usize) {
    let all: &'static [T] = all.leak();
    (all.as_ptr(), all.len())
}

/// What a component declares, for the table.
#[must_use]
pub fn describe<C: Component>() -> abi::Component {
    let mut declaring = Declaring::<C>::describing(C::NAME);
    C::declare(&mut declaring);
    let ports = declaring.declaration.ports.iter().map(|port| {
        let of = port.event.filter(|_| matches!(port.kind, PortKind::Sink | PortKind::Source));
        let (kind, interval_ns) = match port.kind {
            PortKind::Sink => (abi::CAMPANILE_PORT_SINK, 0),
            PortKind::Source => (abi::CAMPANILE_PORT_SOURCE, 0),
            PortKind::Timer(interval) => (abi::CAMPANILE_PORT_TIMER, super::host::nanoseconds(interval)),
            PortKind::Neighbours => (abi::CAMPANILE_PORT_NEIGHBOURS, 0),
        };
        let idl = |of: EventType| stays(&::idl::text(of.type_code()));
        abi::Port {
            kind,
            name: stays(port.name),
            idl: of.map_or(ptr::null(), idl),
            domain: of.and_then(|of| of.domain).map_or(ptr::null(), stays),
            interval_ns,
            handler: (port.kind != PortKind::Source).then_some(handle::<C> as _),
        }
    });
    let (ports, port_count) = list(ports.collect());
    let properties = declaring.declaration.properties.iter().map(|property| abi::Property {
        name: stays(property.name),
        what: stays(cut(property.of)),
        has_default: property.has_default.into(),
    });
    let (properties, property_count) = list(properties.collect());
    abi::Component {
        name: stays(C::NAME),
        ports,
        port_count,
        properties,
        property_count,
        create: Some(create::<C>),
        destroy: Some(destroy::<C>),
        step: Some(step::<C>),
    }
}

/// What a port of a component in a shared object does.
pub(crate) enum Entry<C> {
    Handler(Box<Handler<C>>),
    Source(fn(&Rc<InstanceState>, &'static str, Outlet) -> Rc<dyn AnyRoute>),
}

type Handler<C> = dyn Fn(&mut C, &abi::Event, &Ports<'_>) -> Result<(), Failure>;

/// A value that stays within its object: the sink finds it as it was sent.
trait Native {
    fn as_any(&self) -> &dyn Any;

    fn write_to(&self, octets: &mut Vec<u8>);
}

impl<T: Event> Native for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn write_to(&self, octets: &mut Vec<u8>) {
        self.write(&mut Writer::new(octets, NATIVE));
    }
}

/// The entry of a sink.
pub(crate) fn sink<C: 'static, T: Event, F>(handler: F) -> Entry<C>
where
    F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static,
{
    Entry::Handler(Box::new(move |component: &mut C, event: &abi::Event, ports: &Ports<'_>| {
        let mut written = Vec::new();
        let octets = if event.native.is_null() {
            octets_of(event)
        } else {
            // SAFETY: the server hands on what `Outlet` sent from this object, while that call lasts.
            let native = unsafe { *event.native.cast::<&dyn Native>() };
            if let Some(value) = native.as_any().downcast_ref::<T>() {
                return handler(component, value, ports);
            }
            native.write_to(&mut written);
            written.as_slice()
        };
        let value = T::read(&mut Reader::new(octets, NATIVE))
            .map_err(|error| Failure::new(format!("the event is no {}: {}", T::NAME, error.kind)))?;
        handler(component, &value, ports)
    }))
}

/// The octets of an event's value.
fn octets_of(event: &abi::Event) -> &[u8] {
    if event.cdr.is_null() {
        return &[];
    }
    // SAFETY: the server gives so many octets, which stay as long as the event.
    unsafe { slice::from_raw_parts(event.cdr, event.cdr_size) }
}

/// The entry of a timer.
pub(crate) fn timer<C: 'static, F>(handler: F) -> Entry<C>
where
    F: Fn(&mut C, &Tick, &Ports<'_>) -> Result<(), Failure> + 'static,
{
    Entry::Handler(Box::new(move |component: &mut C, event: &abi::Event, ports: &Ports<'_>| {
        handler(component, &Tick { due: ago(event.late_ns), missed: event.missed }, ports)
    }))
}

/// The entry of a source.
pub(crate) fn source<C, T: Event>() -> Entry<C> {
    Entry::Source(|owner, port, outlet| {
        let route = Rc::new(Route::<T>::new(owner.clone(), port, Arc::default()));
        let end: Rc<dyn Deliver<T>> = Rc::new(outlet);
        route.connect(&Arc::from("server"), Box::new(end));
        route
    })
}

/// The end of a source's only connection: the server.
#[derive(Clone, Copy)]
pub(crate) struct Outlet {
    host: *const Host,
    port: u32,
}

impl<T: Event> Deliver<T> for Outlet {
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        let native: &dyn Native = event;
        let timeout = origin.expires.map(|expires| expires.saturating_duration_since(origin.sent));
        let options = abi::SendOptions {
            priority: origin.priority.into(),
            timeout_ns: timeout.map_or(0, |timeout| super::host::nanoseconds(timeout).max(1)),
        };
        let native = ptr::from_ref(&native).cast();
        // SAFETY: the host stays until the component is destroyed, with which this ends; the others stay for the call.
        match unsafe { ((*self.host).send_native)(self.host, self.port, native, &raw const options) } {
            abi::CAMPANILE_COMPONENT_OK => Ok(()),
            abi::CAMPANILE_COMPONENT_REENTRANT => Err(SendError::Reentrant),
            abi::CAMPANILE_COMPONENT_FULL => Err(SendError::Full),
            _ => Err(SendError::Inactive),
        }
    }
}

unsafe extern "C" fn write_native(native: *const c_void, to: *mut c_void, append: Append) -> i32 {
    let write = || {
        // SAFETY: the server hands on what `Outlet` sent from this object, while that call lasts.
        let native = unsafe { *native.cast::<&dyn Native>() };
        let mut octets = Vec::new();
        native.write_to(&mut octets);
        octets
    };
    let Ok(octets) = catch_unwind(AssertUnwindSafe(write)) else { return abi::CAMPANILE_COMPONENT_BROKEN };
    // SAFETY: the server asks for it with this function and its argument.
    unsafe { append(to, octets.as_ptr(), octets.len()) };
    abi::CAMPANILE_COMPONENT_OK
}

/// A component with what it needs at the edge.
struct Exported<C> {
    /// First, so that it is dropped before the others.
    component: C,
    entries: Vec<Entry<C>>,
    /// The names of the ports.
    ports: Vec<&'static str>,
    instance: String,
    /// The source of the event before, which usually sends the next one, too.
    source: Arc<str>,
    no_source: Arc<str>,
    /// The owner of the routes of its sources.
    owner: Rc<InstanceState>,
    host: *const Host,
}

impl<C> Drop for Exported<C> {
    fn drop(&mut self) {
        // The host ends with this: a source that went elsewhere sends nothing there.
        self.owner.may_send.set(false);
    }
}

impl<C: Component> Exported<C> {
    fn new(instance: String, properties: &toml::Table, host: *const Host) -> Result<Self, Failure> {
        let mut declaring = Declaring::<C>::exporting(C::NAME);
        C::declare(&mut declaring);
        let ports: Vec<_> = declaring.declaration.ports.iter().map(|port| port.name).collect();
        let entries = declaring.entries.unwrap_or_default();
        let owner = own_state(&instance);
        let mut routes = Vec::new();
        for (place, (entry, name)) in (0_u32..).zip(entries.iter().zip(&ports)) {
            if let Entry::Source(make) = entry {
                routes.push((*name, make(&owner, name, Outlet { host, port: place })));
            }
        }
        let component = C::build(&Setup { instance: &instance, routes: &routes, properties })?;
        let no_source = Arc::<str>::from("");
        Ok(Self { component, entries, ports, instance, source: no_source.clone(), no_source, owner, host })
    }

    fn handle(&mut self, event: &abi::Event) -> Result<(), Failure> {
        let place = usize::try_from(event.port).unwrap_or(usize::MAX);
        let (Some(Entry::Handler(handler)), Some(port)) = (self.entries.get(place), self.ports.get(place)) else {
            return Err(Failure::new("the server hands an event to a port that there is not"));
        };
        // SAFETY: the server gives so many octets of a name, which stay as long as the event.
        let source = unsafe { slice::from_raw_parts(event.source.cast::<u8>(), event.source_size) };
        if *self.source.as_bytes() != *source {
            self.source = String::from_utf8_lossy(source).into();
        }
        let priority = i16::try_from(event.priority).unwrap_or_default();
        let origin = Origin {
            source: &self.source,
            sent: ago(event.age_ns),
            priority,
            expires: None,
            set: (event.set > 0).then_some(EventSet {
                number: event.set,
                index: event.set_index,
                size: event.set_size,
            }),
        };
        let ports = Ports { instance: &self.instance, port, origin: &origin };
        handler(&mut self.component, event, &ports)
    }

    fn step(&mut self, step: u32) -> Result<(), Failure> {
        let origin = Origin { source: &self.no_source, sent: Instant::now(), priority: 0, expires: None, set: None };
        let ports = Ports { instance: &self.instance, port: "", origin: &origin };
        let component = &mut self.component;
        match step {
            abi::CAMPANILE_STEP_CONFIGURE => component.on_configured(&ports),
            abi::CAMPANILE_STEP_CONNECT => component.on_connected(&ports),
            abi::CAMPANILE_STEP_ACTIVATE => component.on_activated(&ports),
            abi::CAMPANILE_STEP_PASSIVATE => component.on_passivated(&ports),
            abi::CAMPANILE_STEP_REMOVE => component.on_removed(&ports),
            _ => Ok(()),
        }
    }
}

/// The time so many nanoseconds ago.
fn ago(ns: u64) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(ns)).unwrap_or(now)
}

/// The state of an instance whose server is on the other side: that decides what may be sent.
fn own_state(name: &str) -> Rc<InstanceState> {
    let context = LaneContext {
        clock: Clock::System,
        notices: Notices { server: "".into(), listener: None },
        restart: RestartPolicy::default(),
        waker: Arc::default(),
        busy: Arc::default(),
        base: Instant::now(),
        no_source: "".into(),
        failed: RefCell::default(),
    };
    Rc::new(InstanceState {
        name: name.into(),
        number: 1,
        context: Rc::new(context),
        shown: Arc::new(Shown::new()),
        takes_events: false.into(),
        may_send: true.into(),
        resume: Life::Configured.into(),
    })
}

/// Runs a part of a component for the server: failures and panics become a status with its reason.
fn guarded(host: *const Host, run: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let (status, reason) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return abi::CAMPANILE_COMPONENT_OK,
        Ok(Err(failure)) => (abi::CAMPANILE_COMPONENT_FAILED, failure.to_string()),
        Err(panic) => (abi::CAMPANILE_COMPONENT_BROKEN, text_of(panic)),
    };
    let reason = c_string(&reason);
    // SAFETY: the host stays until the component is destroyed, and the text for the call.
    unsafe { ((*host).fail)(host, status, reason.as_ptr()) }
}

unsafe extern "C" fn create<C: Component>(
    host: *const Host,
    properties: *const c_char,
    component: *mut *mut c_void,
) -> i32 {
    guarded(host, || {
        // SAFETY: the server gives a host, texts, and the place for a pointer.
        let (given, properties) = unsafe { (&*host, CStr::from_ptr(properties)) };
        forward_log(given);
        // SAFETY: as above.
        let instance = unsafe { CStr::from_ptr(given.instance) }.to_string_lossy().into_owned();
        let properties: toml::Table = toml::from_str(&properties.to_string_lossy())?;
        let made = Exported::<C>::new(instance, &properties, host)?;
        // SAFETY: as above.
        unsafe { component.write(Box::into_raw(Box::new(made)).cast()) };
        Ok(())
    })
}

unsafe extern "C" fn destroy<C: Component>(component: *mut c_void) {
    // SAFETY: the server gives what `create` made, once.
    let made = unsafe { Box::from_raw(component.cast::<Exported<C>>()) };
    let host = made.host;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(made))) {
        let text = c_string(&format!("it panicked while it was dropped: {}", text_of(panic)));
        // SAFETY: the host stays until this returns, and the text for the call.
        unsafe { ((*host).log)(host, abi::CAMPANILE_LOG_WARN, text.as_ptr()) };
    }
}

unsafe extern "C" fn handle<C: Component>(component: *mut c_void, event: *const abi::Event) -> i32 {
    // SAFETY: the server gives what `create` made, has one call at a time, and keeps the event for it.
    let (made, event) = unsafe { (&mut *component.cast::<Exported<C>>(), &*event) };
    guarded(made.host, || made.handle(event))
}

unsafe extern "C" fn step<C: Component>(component: *mut c_void, step: u32) -> i32 {
    // SAFETY: the server gives what `create` made, and has one call at a time.
    let made = unsafe { &mut *component.cast::<Exported<C>>() };
    guarded(made.host, || made.step(step))
}

/// Sends lines of this object's `log` to the server's.
struct ServerLog(unsafe extern "C" fn(*const Host, u32, *const c_char));

impl log::Log for ServerLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = c_string(&record.args().to_string());
            // SAFETY: the function takes any thread and no host, and the text stays for the call.
            unsafe { (self.0)(ptr::null(), record.level() as u32, text.as_ptr()) };
        }
    }

    fn flush(&self) {}
}

fn forward_log(host: &Host) {
    static LOG: OnceLock<ServerLog> = OnceLock::new();
    // The object may have a logger of its own.
    if log::set_logger(LOG.get_or_init(|| ServerLog(host.log))).is_ok() {
        log::set_max_level(match host.log_level {
            0 => log::LevelFilter::Off,
            abi::CAMPANILE_LOG_ERROR => log::LevelFilter::Error,
            abi::CAMPANILE_LOG_WARN => log::LevelFilter::Warn,
            abi::CAMPANILE_LOG_INFO => log::LevelFilter::Info,
            _ => log::LevelFilter::Debug,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_type_of_a_property_is_cut() {
        assert_eq!(cut("f64"), "f64");
        assert_eq!(cut(&"x".repeat(65)), "x".repeat(64));
        // A character that would end behind the limit goes as a whole.
        assert_eq!(cut(&("x".repeat(63) + "é")), "x".repeat(63));
    }
}
