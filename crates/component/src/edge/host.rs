//! Shared objects, as the server that loads them sees them: their tables, and the calls in both directions.

use super::abi::{self, Append, Event, Host, SendOptions, Table};
use super::c_string;
use crate::declaration::{EventType, PortKind, PropertyDeclaration, Setup};
use crate::error::{Error, Failure, SendError};
use crate::plan::INSTANCE_KEYS;
use crate::port;
use crate::route::Route;
use crate::server::check_name;
use campanile::Declared;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use log::Level;
use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::Read;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

/// Components of one object.
const COMPONENTS_MAX: usize = 256;
/// Ports, or properties, of one component.
const PORTS_MAX: usize = 256;
/// Octets of a name, or of the word for a property's type.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// Octets of a type in IDL.
const IDL_BYTES_MAX: usize = 64 * 1024;
/// The longest interval of a timer: an hour.
const INTERVAL_NS_MAX: u64 = 3_600_000_000_000;
/// Characters of a line of the log, or of a failure's reason, that are kept.
const TEXT_CHARACTERS_MAX: usize = 400;

const SYMBOL: &CStr = c"campanile_component_v1";

type Handler = unsafe extern "C" fn(*mut c_void, *const Event) -> i32;
type Create = unsafe extern "C" fn(*const Host, *const c_char, *mut *mut c_void) -> i32;
type Destroy = unsafe extern "C" fn(*mut c_void);
type TakeStep = unsafe extern "C" fn(*mut c_void, u32) -> i32;
type WriteNative = unsafe extern "C" fn(*const c_void, *mut c_void, Append) -> i32;

/// A port of a component in a shared object.
pub(crate) struct ForeignPort {
    pub(crate) name: &'static str,
    pub(crate) kind: PortKind,
    /// The type of a sink's or a source's events.
    pub(crate) event: Option<(EventType, &'static Declared)>,
    handler: Option<Handler>,
}

/// A type of components in a shared object.
pub(crate) struct ForeignType {
    pub(crate) name: &'static str,
    pub(crate) ports: Vec<ForeignPort>,
    pub(crate) properties: Vec<PropertyDeclaration>,
    /// The address of the object's table, by which objects are told apart.
    object: usize,
    create: Create,
    destroy: Destroy,
    step: Option<TakeStep>,
    write_native: Option<WriteNative>,
}

/// Loads a shared object, and reads its table. The object is never unloaded: its code may run until the process ends.
///
/// # Errors
/// What is wrong with the object, and what to do.
pub(crate) fn load(path: &Path) -> Result<Vec<ForeignType>, String> {
    if cfg!(target_feature = "crt-static") {
        return Err("this program is a static one, which loads no shared objects: use one that is not".to_owned());
    }
    // A name without a slash would be searched for where the system's libraries are.
    let path = &std::path::absolute(path).map_err(|error| error.to_string())?;
    check_machine(path)?;
    // SAFETY: what runs when the object is loaded is its own, as of any library that a program is linked with: its user asks for it.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| format!("{error}: build it with -shared and all libraries that it needs"))?;
    let library = ManuallyDrop::new(library);
    // SAFETY: the address is taken here, and what it points to is not looked at.
    let table = unsafe { library.get::<*const Table>(SYMBOL.to_bytes_with_nul()) }.map(|symbol| *symbol);
    let table = table.ok().filter(|table| !table.is_null()).ok_or(
        "it exports no campanile_component_v1: end it with CAMPANILE_COMPONENTS(…) in C, CAMPANILE_EXPORT(…) in C++, or campanile_component::export!(…) in Rust",
    )?;
    // SAFETY: what an object exports by this name is a table, by the header, and the object stays.
    unsafe { read(table) }
}

/// Reads a table.
///
/// # Errors
/// What is wrong with it, and what to do.
///
/// # Safety
/// The pointer is that of a table of some version, which stays for as long as the process.
pub(super) unsafe fn read(table: *const Table) -> Result<Vec<ForeignType>, String> {
    if table.is_null() || !table.is_aligned() {
        return Err("its campanile_component_v1 is no table: it is not aligned".to_owned());
    }
    let numbers = table.cast::<u32>();
    // SAFETY: what has this name begins with two numbers in every version of the interface.
    let (version, size) = unsafe { (numbers.read(), numbers.add(1).read()) };
    if version != abi::CAMPANILE_COMPONENT_ABI {
        let ours = abi::CAMPANILE_COMPONENT_ABI;
        return Err(format!(
            "it has version {version} of the interface, and this program {ours}: build both with headers or crates of one version"
        ));
    }
    if usize::try_from(size) != Ok(size_of::<Table>()) {
        let ours = size_of::<Table>();
        return Err(format!(
            "its table has {size} octets, and that of version {version} has {ours}: build it with the header, and without -fpack-struct"
        ));
    }
    // SAFETY: version and size are those of a table, which stays for as long as the process.
    let table = unsafe { &*table };
    let components =
        table.components.ok_or("the function for its components is a null pointer: use CAMPANILE_COMPONENTS")?;
    let mut count = 0_usize;
    // SAFETY: the function is one of a table, and the pointer is that of a number.
    let first = unsafe { components(&raw mut count) };
    // SAFETY: the header asks for so many.
    let components = unsafe { elements(first, count, COMPONENTS_MAX, "components") }?;
    let mut read = Vec::<ForeignType>::new();
    for component in components {
        let of = read_component(component, table)?;
        if read.iter().any(|known| known.name == of.name) {
            return Err(format!("two of its components are called {}: give one another name", of.name));
        }
        read.push(of);
    }
    if read.is_empty() { Err("it has no components: name them in CAMPANILE_COMPONENTS".to_owned()) } else { Ok(read) }
}

/// Refuses what is no shared object of this machine, for which the loader's words are few.
fn check_machine(path: &Path) -> Result<(), String> {
    let header = |path: &Path| {
        let mut header = [0_u8; 20];
        std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)).map(|()| header)
    };
    let is_short = |error: &std::io::Error| error.kind() == std::io::ErrorKind::UnexpectedEof;
    let of = match header(path) {
        Err(error) if !is_short(&error) => {
            return Err(format!("{error}: build it, or correct the path, which begins at the plan's folder"));
        }
        Ok(header) if header.starts_with(b"\x7fELF") => header,
        _ => return Err("it is no shared object: build it with -shared".to_owned()),
    };
    // Octets 4 and 5 are the width of addresses and the byte order, 18 and 19 the machine.
    let machine = |header: [u8; 20]| [header[4], header[5], header[18], header[19]];
    match header(Path::new("/proc/self/exe")) {
        Ok(ours) if machine(ours) != machine(of) => {
            Err("it is built for another machine: build it for this one".to_owned())
        }
        _ => Ok(()),
    }
}

/// The elements of an array in a table.
///
/// # Safety
/// The pointer is null, or that of so many elements, which stay for as long as the process.
unsafe fn elements<T>(first: *const T, count: usize, max: usize, what: &str) -> Result<&'static [T], String> {
    if count > max {
        return Err(format!("it says that there are {count} {what}: at most {max} are taken"));
    }
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() {
        return Err(format!("the pointer to its {count} {what} is null or not aligned: give that of an array"));
    }
    // SAFETY: the pointer is none of these, and the caller promises the rest.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// A copy of a text in a table, which stays.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a NUL.
unsafe fn text(pointer: *const c_char, max: usize, what: &str) -> Result<&'static str, String> {
    if pointer.is_null() {
        return Err(format!("{what} is a null pointer: give a text"));
    }
    let mut octets = Vec::new();
    while octets.len() <= max {
        // SAFETY: the text goes on: none of the octets before was its end.
        let octet = unsafe { pointer.cast::<u8>().add(octets.len()).read() };
        if octet == 0 {
            let text = String::from_utf8(octets).map_err(|error| format!("{what} is not UTF-8: {error}"))?;
            return Ok(text.leak());
        }
        octets.push(octet);
    }
    Err(format!("{what} has more than {max} octets: make it shorter, and end it with a NUL"))
}

/// A name in a table.
///
/// # Safety
/// As for [`text`].
unsafe fn name(pointer: *const c_char, what: &str) -> Result<&'static str, String> {
    // SAFETY: the caller promises it.
    let name = unsafe { text(pointer, NAME_BYTES_MAX, what) }?;
    check_name(name).map_err(|error| format!("{what}: {error}"))?;
    Ok(name)
}

fn read_component(component: &abi::Component, table: &'static Table) -> Result<ForeignType, String> {
    // SAFETY: the header asks for it.
    let name = unsafe { name(component.name, "the name of a component") }?;
    let within = |reason: String| format!("component {name}: {reason}");
    let missing = |what: &str| within(format!("its {what} is a null pointer: give the function"));
    // SAFETY: the header asks for it.
    let (ports, properties) = unsafe {
        (
            elements(component.ports, component.port_count, PORTS_MAX, "ports").map_err(within)?,
            elements(component.properties, component.property_count, PORTS_MAX, "properties").map_err(within)?,
        )
    };
    let mut of = ForeignType {
        name,
        ports: Vec::new(),
        properties: Vec::new(),
        object: ptr::from_ref(table).addr(),
        create: component.create.ok_or_else(|| missing("create"))?,
        destroy: component.destroy.ok_or_else(|| missing("destroy"))?,
        step: component.step,
        write_native: table.write_native,
    };
    for port in ports {
        let port = read_port(port).map_err(within)?;
        if of.ports.iter().any(|known| known.name == port.name) {
            return Err(within(format!("two of its ports are called {}: give one another name", port.name)));
        }
        of.ports.push(port);
    }
    for property in properties {
        // SAFETY: the header asks for it.
        let (name, what) = unsafe {
            let name = self::name(property.name, "the name of a property").map_err(within)?;
            (name, text(property.what, NAME_BYTES_MAX, &format!("the type of the property {name}")).map_err(within)?)
        };
        if INSTANCE_KEYS.contains(&name) {
            return Err(within(format!("plans have the key {name} for themselves: give the property another name")));
        }
        if of.properties.iter().any(|known| known.name == name) {
            return Err(within(format!("two of its properties are called {name}: give one another name")));
        }
        of.properties.push(PropertyDeclaration { name, of: what, has_default: property.has_default != 0 });
    }
    Ok(of)
}

fn read_port(port: &abi::Port) -> Result<ForeignPort, String> {
    // SAFETY: the header asks for it.
    let name = unsafe { name(port.name, "the name of a port") }?;
    let within = |reason: String| format!("port {name}: {reason}");
    let kind = match port.kind {
        abi::CAMPANILE_PORT_SINK => PortKind::Sink,
        abi::CAMPANILE_PORT_SOURCE => PortKind::Source,
        abi::CAMPANILE_PORT_TIMER if (1..=INTERVAL_NS_MAX).contains(&port.interval_ns) => {
            PortKind::Timer(Duration::from_nanos(port.interval_ns))
        }
        abi::CAMPANILE_PORT_TIMER => {
            let interval = port.interval_ns;
            return Err(within(format!("its interval is {interval} ns: give 1 to {INTERVAL_NS_MAX}, an hour")));
        }
        abi::CAMPANILE_PORT_NEIGHBOURS => PortKind::Neighbours,
        other => return Err(within(format!("its kind is {other}: give one of CAMPANILE_PORT_…"))),
    };
    if kind != PortKind::Source && port.handler.is_none() {
        return Err(within("its handler is a null pointer: give the function".to_owned()));
    }
    let has_type = matches!(kind, PortKind::Sink | PortKind::Source);
    // SAFETY: the header asks for it.
    let event = if has_type { Some(unsafe { read_type(port) }.map_err(within)?) } else { None };
    Ok(ForeignPort { name, kind, event, handler: port.handler })
}

/// The type of a port's events.
///
/// # Safety
/// Its texts are as [`text`] asks.
unsafe fn read_type(port: &abi::Port) -> Result<(EventType, &'static Declared), String> {
    // SAFETY: the caller promises it.
    let idl = unsafe { text(port.idl, IDL_BYTES_MAX, "its type") }?;
    let domain = if port.domain.is_null() {
        None
    } else {
        // SAFETY: the caller promises it.
        Some(unsafe { text(port.domain, NAME_BYTES_MAX, "the domain of its type") }?)
    };
    let all = ::idl::read(idl).map_err(|error| format!("its type has a mistake: {error}"))?;
    let code = all.last().ok_or("its type defines nothing: give a struct in IDL")?.code();
    let declared = Declared::new(code, domain, None)
        .map_err(|error| format!("{error}; the last definition is the type: put the struct last"))?;
    let code = Box::leak(Box::new(code.clone()));
    Ok((EventType::described::<Crossing>(code, domain), Box::leak(Box::new(declared))))
}

/// An event on its way between two components of which one at least is in a shared object.
pub(crate) struct Crossing {
    lent: Lent,
    /// The value, where it is not lent as octets: written once it is asked for, or why it is none.
    written: OnceCell<Result<Box<[u8]>, String>>,
}

/// A value of the component that sends, for as long as its call of `send` lasts. Whatever outlives that call is a clone, which has none.
enum Lent {
    Nothing,
    /// Octets, by their address and number.
    Octets(usize, usize),
    /// A value as the object has it, by its address and that of the object's table, and the type of what is written of it.
    Native(usize, usize, WriteNative, &'static Declared),
}

impl Crossing {
    /// An event of its own octets.
    pub(crate) fn of(octets: &[u8]) -> Self {
        Self { lent: Lent::Nothing, written: OnceCell::from(Ok(Box::from(octets))) }
    }

    /// The value in CDR.
    ///
    /// # Errors
    /// The object has not written it, or has written none of its type.
    pub(crate) fn octets(&self) -> Result<&[u8], Failure> {
        let written = match self.lent {
            // SAFETY: they were given to `send`, whose call lasts, or this would be a clone.
            Lent::Octets(address, size) => unsafe {
                return Ok(slice::from_raw_parts(ptr::with_exposed_provenance(address), size));
            },
            Lent::Native(address, _, write, declared) => Some(self.written.get_or_init(|| {
                let mut octets = Vec::<u8>::new();
                // SAFETY: the value was given to `send_native`, whose call lasts, by the object of this function, which calls `append`
                // with the vector.
                let status = unsafe { write(ptr::with_exposed_provenance(address), (&raw mut octets).cast(), append) };
                if status != abi::CAMPANILE_COMPONENT_OK {
                    return Err(format!("the value was not written: its object answered the status {status}"));
                }
                declared.check_strictly(&octets).map_err(|error| error.to_string())?;
                Ok(octets.into())
            })),
            Lent::Nothing => self.written.get(),
        };
        match written {
            Some(Ok(octets)) => Ok(octets),
            Some(Err(reason)) => Err(Failure::new(reason.clone())),
            None => Ok(&[]),
        }
    }
}

impl Clone for Crossing {
    fn clone(&self) -> Self {
        let written = self.octets().map(Box::from).map_err(|failure| failure.to_string());
        Self { lent: Lent::Nothing, written: OnceCell::from(written) }
    }
}

unsafe extern "C" fn append(to: *mut c_void, octets: *const u8, size: usize) {
    if !octets.is_null() {
        // SAFETY: `Crossing::octets` gave the vector, which nothing else uses meanwhile; the octets are the caller's.
        unsafe { (*to.cast::<Vec<u8>>()).extend_from_slice(slice::from_raw_parts(octets, size)) };
    }
}

/// What an instance's component is given to call its server.
#[repr(C)]
struct HostData {
    /// First, so that its address is that of the whole.
    host: Host,
    thread: ThreadId,
    of: Arc<ForeignType>,
    /// The connections of each port that is a source.
    routes: Vec<Option<Rc<Route<Crossing>>>>,
    instance: CString,
    /// Each with its text, and its number, if it is one.
    properties: Vec<(String, CString, Option<f64>)>,
    /// Why the call that is about to return fails.
    reason: RefCell<Option<String>>,
}

impl HostData {
    fn new(of: &Arc<ForeignType>, setup: &Setup<'_>) -> Rc<Self> {
        let host = Host {
            abi: abi::CAMPANILE_COMPONENT_ABI,
            size: u32::try_from(size_of::<Host>()).unwrap_or(u32::MAX),
            log_level: log::max_level() as u32,
            instance: ptr::null(),
            send,
            send_native,
            property_number,
            property_text,
            log,
            fail,
        };
        let property = |(name, value): (&String, &toml::Value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), c_string(&text), number_of(value))
        };
        let mut data = Self {
            host,
            thread: std::thread::current().id(),
            of: of.clone(),
            routes: of.ports.iter().map(|port| setup.route(port.name)).collect(),
            instance: c_string(setup.instance),
            properties: setup.properties.iter().map(property).collect(),
            reason: RefCell::default(),
        };
        data.host.instance = data.instance.as_ptr();
        Rc::new(data)
    }

    /// What a component gives back to a function of the host; `None` for a null pointer, and on another thread.
    ///
    /// # Safety
    /// The pointer is null, or what `create` was given, of a component that is not destroyed.
    unsafe fn of<'h>(host: *const Host) -> Option<&'h Self> {
        // SAFETY: a host that `create` was given is the first member of these.
        let data = unsafe { host.cast::<Self>().as_ref() }?;
        // The thread's number alone may be read on any thread.
        (data.thread == std::thread::current().id()).then_some(data)
    }

    /// The type of the port at this place.
    fn declared(&self, place: usize) -> Option<&'static Declared> {
        self.of.ports.get(place)?.event.as_ref().map(|(_, declared)| *declared)
    }

    /// Sends an event of the port at this place.
    fn send(&self, port: u32, event: &Crossing, options: Option<&SendOptions>) -> i32 {
        let place = usize::try_from(port).unwrap_or(usize::MAX);
        let Some(Some(route)) = self.routes.get(place) else { return abi::CAMPANILE_COMPONENT_ARGUMENT };
        if let (Lent::Octets(..), Some(declared)) = (&event.lent, self.declared(place))
            && let Ok(octets) = event.octets()
            && let Err(error) = declared.check_strictly(octets)
        {
            if route.count_failure() {
                let (instance, port) =
                    (self.instance.to_string_lossy(), self.of.ports.get(place).map_or("", |port| port.name));
                log::warn!("component {instance}, port {port}: {error}; further failures are counted");
            }
            return abi::CAMPANILE_COMPONENT_VALUE;
        }
        let options = options.map_or_else(port::SendOptions::default, |options| port::SendOptions {
            priority: i16::try_from(options.priority.clamp(-32_767, 32_767)).unwrap_or_default(),
            timeout: (options.timeout_ns > 0).then(|| Duration::from_nanos(options.timeout_ns)),
        });
        match route.send(event, options) {
            Ok(()) => abi::CAMPANILE_COMPONENT_OK,
            Err(SendError::Inactive) => abi::CAMPANILE_COMPONENT_INACTIVE,
            Err(SendError::Reentrant) => abi::CAMPANILE_COMPONENT_REENTRANT,
            Err(SendError::Full) => abi::CAMPANILE_COMPONENT_FULL,
        }
    }

    /// What a call of the component came to.
    fn outcome(&self, status: i32) -> Result<(), Failure> {
        let reason = self.reason.take();
        if status == abi::CAMPANILE_COMPONENT_OK {
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| format!("it answered the status {status}"));
        Err(if status == abi::CAMPANILE_COMPONENT_BROKEN { Failure::broken(reason) } else { Failure::new(reason) })
    }
}

/// A property's value as a number; its text has all digits of a long one.
fn number_of(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(number) => Some(*number as f64),
        toml::Value::Float(number) => Some(*number),
        toml::Value::Boolean(is_so) => Some(f64::from(u8::from(*is_so))),
        _ => None,
    }
}

unsafe extern "C" fn send(
    host: *const Host,
    port: u32,
    cdr: *const u8,
    cdr_size: usize,
    options: *const SendOptions,
) -> i32 {
    // SAFETY: the header asks for it.
    let (data, options) = unsafe { (HostData::of(host), options.as_ref()) };
    let is_usable = !cdr.is_null() && isize::try_from(cdr_size).is_ok();
    let Some(data) = data.filter(|_| is_usable) else { return abi::CAMPANILE_COMPONENT_ARGUMENT };
    let lent = Lent::Octets(cdr.expose_provenance(), cdr_size);
    data.send(port, &Crossing { lent, written: OnceCell::new() }, options)
}

unsafe extern "C" fn send_native(
    host: *const Host,
    port: u32,
    native: *const c_void,
    options: *const SendOptions,
) -> i32 {
    // SAFETY: the header asks for it.
    let (data, options) = unsafe { (HostData::of(host), options.as_ref()) };
    let Some(data) = data.filter(|_| !native.is_null()) else { return abi::CAMPANILE_COMPONENT_ARGUMENT };
    let declared = usize::try_from(port).ok().and_then(|place| data.declared(place));
    let (Some(write), Some(declared)) = (data.of.write_native, declared) else {
        return abi::CAMPANILE_COMPONENT_ARGUMENT;
    };
    let lent = Lent::Native(native.expose_provenance(), data.of.object, write, declared);
    data.send(port, &Crossing { lent, written: OnceCell::new() }, options)
}

/// The property of a name that C gives.
///
/// # Safety
/// The host is as [`HostData::of`] asks; the name is null or a text.
unsafe fn property<'h>(host: *const Host, name: *const c_char) -> Option<&'h (String, CString, Option<f64>)> {
    // SAFETY: the caller promises it.
    let data = unsafe { HostData::of(host) }?;
    if name.is_null() {
        return None;
    }
    // SAFETY: it is none, and the caller promises the rest.
    let name = unsafe { CStr::from_ptr(name) };
    data.properties.iter().find(|(known, ..)| known.as_bytes() == name.to_bytes())
}

unsafe extern "C" fn property_number(host: *const Host, name: *const c_char, value: *mut f64) -> i32 {
    // SAFETY: the header asks for it.
    match unsafe { property(host, name) } {
        Some((_, _, Some(number))) if !value.is_null() => {
            // SAFETY: it is no null pointer, and the header asks for the rest.
            unsafe { value.write(*number) };
            abi::CAMPANILE_COMPONENT_OK
        }
        _ => abi::CAMPANILE_COMPONENT_ARGUMENT,
    }
}

unsafe extern "C" fn property_text(host: *const Host, name: *const c_char) -> *const c_char {
    // SAFETY: the header asks for it.
    unsafe { property(host, name) }.map_or(ptr::null(), |(_, text, _)| text.as_ptr())
}

/// A text that C gives, as far as it is used.
///
/// # Safety
/// The pointer is null, or that of a text.
unsafe fn shown(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is none, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().chars().take(TEXT_CHARACTERS_MAX).collect()
}

unsafe extern "C" fn log(host: *const Host, level: u32, text: *const c_char) {
    let level = match level {
        0 | abi::CAMPANILE_LOG_ERROR => Level::Error,
        abi::CAMPANILE_LOG_WARN => Level::Warn,
        abi::CAMPANILE_LOG_INFO => Level::Info,
        _ => Level::Debug,
    };
    if level <= log::max_level() {
        // SAFETY: the header asks for it.
        let (data, text) = unsafe { (HostData::of(host), shown(text)) };
        match data {
            Some(data) => log::log!(level, "component {}: {text}", data.instance.to_string_lossy()),
            None => log::log!(level, "{text}"),
        }
    }
}

unsafe extern "C" fn fail(host: *const Host, status: i32, text: *const c_char) -> i32 {
    // SAFETY: the header asks for it.
    let (data, text) = unsafe { (HostData::of(host), shown(text)) };
    if let Some(data) = data {
        data.reason.replace(Some(text));
    }
    status
}

/// A component in a shared object.
pub(crate) struct ForeignComponent {
    of: Arc<ForeignType>,
    host: Rc<HostData>,
    pointer: *mut c_void,
}

impl ForeignComponent {
    pub(crate) fn create(of: &Arc<ForeignType>, setup: &Setup<'_>) -> Result<Self, Error> {
        let failed = |reason| Error::Failed { instance: setup.instance.to_owned(), reason };
        let host = HostData::new(of, setup);
        let properties = toml::to_string(setup.properties).map_err(|error| failed(error.to_string()))?;
        let properties = c_string(&properties);
        let mut pointer = ptr::null_mut();
        // SAFETY: the host stays until the component is destroyed, and the texts for the call.
        let status = unsafe { (of.create)(Rc::as_ptr(&host).cast(), properties.as_ptr(), &raw mut pointer) };
        host.outcome(status).map_err(|failure| failed(failure.to_string()))?;
        Ok(Self { of: of.clone(), host, pointer })
    }

    /// An event without a value, for the port at this place.
    pub(crate) fn event(place: usize, ports: &port::Ports<'_>) -> Event {
        Event {
            port: u32::try_from(place).unwrap_or(u32::MAX),
            priority: ports.priority().into(),
            cdr: ptr::null(),
            cdr_size: 0,
            source: ports.source().as_ptr().cast(),
            source_size: ports.source().len(),
            age_ns: nanoseconds(ports.sent().elapsed()),
            late_ns: 0,
            missed: 0,
            native: ptr::null(),
            set: ports.set().map_or(0, |set| set.number),
            set_index: ports.set().map_or(0, |set| set.index),
            set_size: ports.set().map_or(0, |set| set.size),
        }
    }

    /// Has an event handled, without its value, if that is not given otherwise.
    pub(crate) fn handle(&self, event: &Event) -> Result<(), Failure> {
        let port = usize::try_from(event.port).ok().and_then(|place| self.of.ports.get(place));
        let Some(handler) = port.and_then(|port| port.handler) else { return Ok(()) };
        // SAFETY: the component is one that `create` made and that is not destroyed; the event stays for the call.
        let status = unsafe { handler(self.pointer, event) };
        self.host.outcome(status)
    }

    /// Has a value handled.
    pub(crate) fn handle_value(&self, value: &Crossing, mut event: Event) -> Result<(), Failure> {
        match value.lent {
            // A filter may have found that the value cannot be written.
            Lent::Native(address, object, ..)
                if object == self.of.object && !matches!(value.written.get(), Some(Err(_))) =>
            {
                event.native = ptr::with_exposed_provenance(address);
            }
            _ => {
                let octets = value.octets()?;
                (event.cdr, event.cdr_size) = (octets.as_ptr(), octets.len());
            }
        }
        self.handle(&event)
    }

    /// Has the component do what is to do at a step.
    pub(crate) fn step(&self, step: u32) -> Result<(), Failure> {
        let Some(take) = self.of.step else { return Ok(()) };
        // SAFETY: the component is one that `create` made and that is not destroyed.
        let status = unsafe { take(self.pointer, step) };
        self.host.outcome(status)
    }
}

impl Drop for ForeignComponent {
    fn drop(&mut self) {
        // SAFETY: `create` made it, and nothing calls it from now on.
        unsafe { (self.of.destroy)(self.pointer) };
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Append, Crossing, Lent};
    use campanile::Declared;
    use std::cell::OnceCell;
    use std::ffi::c_void;

    unsafe extern "C" fn write_nothing(_: *const c_void, _: *mut c_void, _: Append) -> i32 {
        super::abi::CAMPANILE_COMPONENT_BROKEN
    }

    unsafe extern "C" fn write_three_octets(_: *const c_void, to: *mut c_void, append: Append) -> i32 {
        // SAFETY: the caller asks for it with its own function and argument.
        unsafe { append(to, [1, 2, 3].as_ptr(), 3) };
        super::abi::CAMPANILE_COMPONENT_OK
    }

    #[test]
    fn a_value_that_its_object_does_not_write_is_none() {
        let declare = |idl| Declared::new(idl::read(idl).unwrap().last().unwrap().code(), None, None).unwrap();
        let long: &'static Declared = Box::leak(Box::new(declare("struct Long { long x; };")));
        let three: &'static Declared = Box::leak(Box::new(declare("struct Three { octet x[3]; };")));
        let refused = |write, declared| {
            let event = Crossing { lent: Lent::Native(8, 8, write, declared), written: OnceCell::new() };
            // What is put into a queue is a clone.
            let queued = event.clone();
            assert_eq!(event.octets(), queued.octets());
            event.octets().map(<[u8]>::to_vec).map_err(|failure| failure.to_string())
        };
        assert_eq!(refused(write_three_octets, three), Ok(vec![1, 2, 3]));
        let reason = refused(write_nothing, three).unwrap_err();
        assert_eq!(reason, "the value was not written: its object answered the status 2");
        let reason = refused(write_three_octets, long).unwrap_err();
        assert!(reason.contains("Long"), "{reason}");
    }
}
