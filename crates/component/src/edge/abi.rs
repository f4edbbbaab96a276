//! The types of the C ABI, of which `include/campanile_component.h` is made.

use std::ffi::{c_char, c_void};

/// The version of this interface: `abi` of a table and of a host.
pub const CAMPANILE_COMPONENT_ABI: u32 = 1;

/// Success.
pub const CAMPANILE_COMPONENT_OK: i32 = 0;
/// Of a component: the call failed. The failure is logged once for each port and counted; a step of the life cycle is refused.
pub const CAMPANILE_COMPONENT_FAILED: i32 = 1;
/// Of a component: its state cannot be trusted any more. It is destroyed, and made again after a pause.
pub const CAMPANILE_COMPONENT_BROKEN: i32 = 2;
/// Of `send`: no sink got the event, since the instance is not active.
pub const CAMPANILE_COMPONENT_INACTIVE: i32 = 3;
/// Of `send`: a sink did not get the event, since its instance is in a handler already.
pub const CAMPANILE_COMPONENT_REENTRANT: i32 = 4;
/// Of `send`: a sink did not get the event, since its queue is full.
pub const CAMPANILE_COMPONENT_FULL: i32 = 5;
/// Of `send`: the octets are no value of the source's type. The reason is logged once for each source.
pub const CAMPANILE_COMPONENT_VALUE: i32 = 6;
/// Of a host's function: a null pointer, no such source or property, or a call from another thread than the instance's.
pub const CAMPANILE_COMPONENT_ARGUMENT: i32 = 7;

/// A port that takes events.
pub const CAMPANILE_PORT_SINK: u32 = 1;
/// A port that gives events.
pub const CAMPANILE_PORT_SOURCE: u32 = 2;
/// A port that takes ticks.
pub const CAMPANILE_PORT_TIMER: u32 = 3;
/// A port that takes what happens to connected instances, as `struct NeighbourChange { string instance; string change; string reason; }`.
pub const CAMPANILE_PORT_NEIGHBOURS: u32 = 4;

/// The component is made and has its properties.
pub const CAMPANILE_STEP_CONFIGURE: u32 = 1;
/// The connections are made.
pub const CAMPANILE_STEP_CONNECT: u32 = 2;
/// Events come from now on, and can be sent.
pub const CAMPANILE_STEP_ACTIVATE: u32 = 3;
/// No more events come. The last ones can be sent from here.
pub const CAMPANILE_STEP_PASSIVATE: u32 = 4;
/// The component is destroyed next, whatever it answers.
pub const CAMPANILE_STEP_REMOVE: u32 = 5;

/// Levels of `log`.
pub const CAMPANILE_LOG_ERROR: u32 = 1;
/// A warning.
pub const CAMPANILE_LOG_WARN: u32 = 2;
/// An information.
pub const CAMPANILE_LOG_INFO: u32 = 3;
/// A detail.
pub const CAMPANILE_LOG_DEBUG: u32 = 4;

/// What a handler takes. Its pointers are valid until the handler returns.
#[derive(Debug)]
#[repr(C)]
pub struct Event {
    /// The place of the port in the component's ports.
    pub port: u32,
    /// The priority with which the event was sent.
    pub priority: i32,
    /// The value, of the port's type; a null pointer for a tick. Not aligned: use `memcpy` to read numbers.
    pub cdr: *const u8,
    /// Octets of the value.
    pub cdr_size: usize,
    /// The source, as `camera.frame`, without a NUL at its end.
    pub source: *const c_char,
    /// Octets of the source's name.
    pub source_size: usize,
    /// Nanoseconds since the event was sent.
    pub age_ns: u64,
    /// Of a tick: nanoseconds since it was due.
    pub late_ns: u64,
    /// Of a tick: ticks before it that were left out, since the lane was busy for more than an interval.
    pub missed: u64,
    /// Private to bindings of other languages.
    pub native: *const c_void,
    /// The number of the set that the event belongs to, from 1; 0 where the port has no sets.
    pub set: u64,
    /// The event's place in its set, from 0.
    pub set_index: u32,
    /// Number of events in the set.
    pub set_size: u32,
}

/// What an event may have beside its value. It matters where a sink has a queue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SendOptions {
    /// From -32767 to 32767.
    pub priority: i32,
    /// Nanoseconds that the event may wait before it is discarded; 0 for no end. Where no time is left, give 1, as C++ and Python do.
    pub timeout_ns: u64,
}

/// A port of a component.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Port {
    /// One of `CAMPANILE_PORT_…`.
    pub kind: u32,
    /// The name: letters, digits, `_` and `-`.
    pub name: *const c_char,
    /// Of a sink and a source: the type in IDL, a struct, which is the last definition of the text. Else ignored.
    pub idl: *const c_char,
    /// Of a sink and a source: the domain of the type's events; a null pointer for that of the settings.
    pub domain: *const c_char,
    /// Of a timer: the interval in nanoseconds, of an hour at most.
    pub interval_ns: u64,
    /// Of all but a source: takes what comes. It answers `CAMPANILE_COMPONENT_OK`, `_FAILED` or `_BROKEN`; any other value is a failure.
    pub handler: Option<unsafe extern "C" fn(component: *mut c_void, event: *const Event) -> i32>,
}

/// A property of a component.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Property {
    /// The name: letters, digits, `_` and `-`; not `component`, `server`, `container` or `lane`, which plans have for themselves.
    pub name: *const c_char,
    /// The type, for people: `double`.
    pub what: *const c_char,
    /// Whether it need not be given: 0 or 1.
    pub has_default: u32,
}

/// What the server does for an instance. All is valid until `destroy` returns, and to be called on the thread of the component's calls, from
/// within them.
#[derive(Debug)]
#[repr(C)]
pub struct Host {
    /// `CAMPANILE_COMPONENT_ABI`.
    pub abi: u32,
    /// The size of this struct.
    pub size: u32,
    /// The most verbose level that is logged; 0 for none.
    pub log_level: u32,
    /// The name of the instance.
    pub instance: *const c_char,
    /// Sends a value of a source's type, by its place in the component's ports. The octets are checked, and used during the call only.
    /// `options` may be a null pointer. When it returns, sinks of the same lane without a queue have handled the event.
    pub send: unsafe extern "C" fn(
        host: *const Host,
        port: u32,
        cdr: *const u8,
        cdr_size: usize,
        options: *const SendOptions,
    ) -> i32,
    /// Private to bindings of other languages.
    pub send_native:
        unsafe extern "C" fn(host: *const Host, port: u32, native: *const c_void, options: *const SendOptions) -> i32,
    /// Reads a property that is a number, or true or false as 1 or 0. Leaves `value` as it is where the property is not given or no number.
    pub property_number: unsafe extern "C" fn(host: *const Host, name: *const c_char, value: *mut f64) -> i32,
    /// A property as text: a string as it is, another value as in TOML; a null pointer if it is not given, and on
    /// another thread. Valid until `destroy` returns.
    pub property_text: unsafe extern "C" fn(host: *const Host, name: *const c_char) -> *const c_char,
    /// Logs a line. `host` may be a null pointer here, and the thread any.
    pub log: unsafe extern "C" fn(host: *const Host, level: u32, text: *const c_char),
    /// Notes why the call of the component fails that is about to return, and answers `status`:
    /// `return host->fail(host, CAMPANILE_COMPONENT_FAILED, "no light");`
    pub fail: unsafe extern "C" fn(host: *const Host, status: i32, text: *const c_char) -> i32,
}

/// A type of components.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Component {
    /// The name: letters, digits, `_` and `-`.
    pub name: *const c_char,
    /// The ports.
    pub ports: *const Port,
    /// How many, 256 at most.
    pub port_count: usize,
    /// The properties.
    pub properties: *const Property,
    /// How many, 256 at most.
    pub property_count: usize,
    /// Makes an instance's component, of its properties in TOML, and puts what the other calls get into `*component`.
    /// Where it fails, `destroy` is not called, and `host` ends with the call.
    pub create:
        Option<unsafe extern "C" fn(host: *const Host, properties: *const c_char, component: *mut *mut c_void) -> i32>,
    /// Ends what `create` made. The component's other threads have ended when it returns.
    pub destroy: Option<unsafe extern "C" fn(component: *mut c_void)>,
    /// Does what is to do at a step of the life cycle, one of `CAMPANILE_STEP_…`; another answer than `CAMPANILE_COMPONENT_OK` refuses it.
    /// A null pointer for a component without such steps.
    pub step: Option<unsafe extern "C" fn(component: *mut c_void, step: u32) -> i32>,
}

/// Takes octets.
pub type Append = unsafe extern "C" fn(to: *mut c_void, octets: *const u8, size: usize);

/// What a shared object exports as `campanile_component_v1`; CAMPANILE_COMPONENTS makes it of an array.
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// `CAMPANILE_COMPONENT_ABI`.
    pub abi: u32,
    /// The size of this struct.
    pub size: u32,
    /// The components, 256 at most, which stay for as long as the process: their descriptions are read once.
    pub components: Option<unsafe extern "C" fn(count: *mut usize) -> *const Component>,
    /// Private to bindings of other languages; a null pointer in C.
    pub write_native: Option<unsafe extern "C" fn(native: *const c_void, to: *mut c_void, append: Append) -> i32>,
}
