//! Safe wrappers of the functions in C (`shim/shim.h`), so that no other module needs `unsafe`.
//!
//! Rules throughout: Cyclone's entities are numbers that it checks, from any thread; using a deleted one is just an error. Cyclone copies
//! text and arrays before a call returns. Data passed to a visitor is valid until the visitor returns.
#![expect(unsafe_code, reason = "the one module that calls C")]

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::endpoints::ReliableReader;
use crate::error::Code;
use crate::participant::Guid;

mod making;

pub(crate) use making::Type;

/// Quality of service as in `shim.h`. Each call sets the pointers, whatever they were before.
#[repr(C)]
pub(crate) struct RawQos {
    pub(crate) reliable: i32,
    pub(crate) blocking_max: i64,
    pub(crate) keep_all: i32,
    pub(crate) depth: i32,
    pub(crate) samples_max: i32,
    pub(crate) transient_local: i32,
    pub(crate) late_depth: i32,
    pub(crate) deadline: i64,
    pub(crate) lifespan: i64,
    pub(crate) transport_priority: i32,
    pub(crate) ignore_own: i32,
    pub(crate) representations: i32,
    pub(crate) partitions: *const *const c_char,
    pub(crate) partition_count: u32,
    pub(crate) user_data: *const u8,
    pub(crate) user_data_length: usize,
}

impl RawQos {
    /// No requirements.
    pub(crate) const NOTHING: Self = Self {
        reliable: 0,
        blocking_max: 0,
        keep_all: 0,
        depth: 1,
        samples_max: -1,
        transient_local: 0,
        late_depth: 0,
        deadline: 0,
        lifespan: 0,
        transport_priority: 0,
        ignore_own: 0,
        representations: 1,
        partitions: std::ptr::null(),
        partition_count: 0,
        user_data: std::ptr::null(),
        user_data_length: 0,
    };
}

/// Policies as in `shim.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawPolicies {
    pub(crate) reliability: i32,
    pub(crate) durability: i32,
    pub(crate) ownership: i32,
    pub(crate) destination_order: i32,
    pub(crate) liveliness: i32,
    pub(crate) presentation: i32,
    pub(crate) representation: i32,
    pub(crate) representations: i32,
    pub(crate) deadline: i64,
    pub(crate) latency_budget: i64,
    pub(crate) lease: i64,
}

#[repr(C)]
struct RawEndpoint {
    key: [u8; 16],
    participant: [u8; 16],
    handle: u64,
    participant_handle: u64,
    is_gone: i32,
    topic: *const c_char,
    type_name: *const c_char,
    partitions: *const *const c_char,
    partition_count: u32,
    user_data: *const u8,
    user_data_length: usize,
    policies: RawPolicies,
    is_typed: i32,
    type_id: [c_char; 64],
}

#[repr(C)]
struct RawParticipant {
    name: *const c_char,
    addresses: *const c_char,
    host: *const c_char,
    process: *const c_char,
    pid: *const c_char,
}

#[repr(C)]
struct RawSample {
    bytes: *const u8,
    length: usize,
    encapsulation: u16,
    is_valid: i32,
    source_timestamp: i64,
    publication: u64,
}

/// Status as in `shim.h`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawStatus {
    pub(crate) matched_now: u32,
    pub(crate) matched_total: u32,
    pub(crate) incompatible_total: u32,
    pub(crate) lost_total: u32,
    pub(crate) rejected_total: u32,
}

#[repr(C)]
struct RawReliable {
    key: [u8; 16],
    participant: [u8; 16],
    confirmed: u64,
    written: u64,
    address: *const c_char,
    host: *const c_char,
    process: *const c_char,
    pid: *const c_char,
}

#[repr(C)]
struct RawType {
    _opaque: [u8; 0],
}

type VisitEndpoint = unsafe extern "C" fn(*mut c_void, *const RawEndpoint);
type VisitParticipant = unsafe extern "C" fn(*mut c_void, *const RawParticipant);
type VisitReliable = unsafe extern "C" fn(*mut c_void, *const RawReliable);
type VisitSample = unsafe extern "C" fn(*mut c_void, *const RawSample);

type Hear = unsafe extern "C" fn(*const c_char, usize);

unsafe extern "C" {
    fn campanile_dds_listen(hear: Hear);
    fn campanile_dds_domain_create(id: u32, configuration: *const c_char) -> i32;
    fn campanile_dds_participant_create(domain: u32, name: *const c_char) -> i32;
    fn campanile_dds_delete(entity: i32) -> i32;
    fn campanile_dds_error_text(result: i32) -> *const c_char;
    fn campanile_dds_guid(entity: i32, guid: *mut u8) -> i32;
    fn campanile_dds_writer_create(participant: i32, topic: i32, qos: *const RawQos) -> i32;
    fn campanile_dds_reader_create(participant: i32, topic: i32, qos: *const RawQos, is_over: *const u8) -> i32;
    fn campanile_dds_write(writer: i32, cdr: *const u8, length: usize, source_timestamp: i64) -> i32;
    fn campanile_dds_wait_for_acknowledgments(writer: i32, timeout: i64) -> i32;
    fn campanile_dds_take(reader: i32, count: u32, visit: VisitSample, context: *mut c_void) -> i32;
    fn campanile_dds_writer_status(writer: i32, status: *mut RawStatus) -> i32;
    fn campanile_dds_reader_status(reader: i32, status: *mut RawStatus) -> i32;
    fn campanile_dds_reliable_readers(writer: i32, visit: VisitReliable, context: *mut c_void) -> i32;
    fn campanile_dds_unmatch(writer: i32, reader: *const u8) -> i32;
    fn campanile_dds_match_again(writer: i32, reader: *const u8) -> i32;
    fn campanile_dds_waitset_create(participant: i32) -> i32;
    fn campanile_dds_guard_create(participant: i32) -> i32;
    fn campanile_dds_guard_set(guard: i32, is_set: i32) -> i32;
    fn campanile_dds_waitset_attach(waitset: i32, entity: i32, token: u64) -> i32;
    fn campanile_dds_data_condition_create(reader: i32) -> i32;
    fn campanile_dds_news_condition_create(reader: i32) -> i32;
    fn campanile_dds_news_take(reader: i32, visit: VisitEndpoint, context: *mut c_void) -> i32;
    fn campanile_dds_waitset_wait(waitset: i32, tokens: *mut u64, count: usize, timeout: i64) -> i32;
    fn campanile_dds_builtin_create(participant: i32, kind: i32) -> i32;
    fn campanile_dds_participant_of(builtin: i32, handle: u64, visit: VisitParticipant, context: *mut c_void) -> i32;
    fn campanile_dds_endpoints(builtin: i32, visit: VisitEndpoint, context: *mut c_void) -> i32;
    fn campanile_dds_endpoint_describe(
        participant: i32,
        builtin: i32,
        handle: u64,
        timeout: i64,
        bytes: *mut *mut u8,
        length: *mut usize,
    ) -> i32;
    fn campanile_dds_endpoint_topic(
        participant: i32,
        builtin: i32,
        handle: u64,
        timeout: i64,
        name: *const c_char,
    ) -> i32;
    fn campanile_dds_topic_type_id(topic: i32, text: *mut c_char, capacity: usize) -> i32;
    fn campanile_dds_type_primitive(kind: u32) -> *mut RawType;
    fn campanile_dds_type_string(participant: i32, wide: c_int, bound: u32, error: *mut i32) -> *mut RawType;
    fn campanile_dds_type_enumeration(participant: i32, name: *const c_char, error: *mut i32) -> *mut RawType;
    fn campanile_dds_type_add_literal(of: *mut RawType, name: *const c_char, value: i32) -> i32;
    fn campanile_dds_type_alias(
        participant: i32,
        name: *const c_char,
        original: *mut RawType,
        error: *mut i32,
    ) -> *mut RawType;
    fn campanile_dds_type_sequence(
        participant: i32,
        name: *const c_char,
        element: *mut RawType,
        bound: u32,
        error: *mut i32,
    ) -> *mut RawType;
    fn campanile_dds_type_array(
        participant: i32,
        name: *const c_char,
        element: *mut RawType,
        dimensions: u32,
        lengths: *const u32,
        error: *mut i32,
    ) -> *mut RawType;
    fn campanile_dds_type_structure(participant: i32, name: *const c_char, error: *mut i32) -> *mut RawType;
    fn campanile_dds_type_union(
        participant: i32,
        name: *const c_char,
        discriminator: *mut RawType,
        error: *mut i32,
    ) -> *mut RawType;
    fn campanile_dds_type_add_member(of: *mut RawType, name: *const c_char, member: *mut RawType) -> i32;
    fn campanile_dds_type_add_case(
        of: *mut RawType,
        name: *const c_char,
        member: *mut RawType,
        count: u32,
        labels: *const i32,
        is_default: c_int,
    ) -> i32;
    fn campanile_dds_type_free(of: *mut RawType);
    fn campanile_dds_topic_create(participant: i32, name: *const c_char, of: *mut RawType, is_announced: c_int) -> i32;
    fn campanile_dds_bytes_free(bytes: *mut u8);
}

/// Redirects Cyclone's complaints to `complaints::hear`.
pub(crate) fn listen() {
    unsafe extern "C" fn hear(message: *const c_char, length: usize) {
        crate::complaints::hear(octets(message.cast(), length));
    }
    static LISTENING: Once = Once::new();
    // SAFETY: the function is there for ever, and set before any domain is made.
    LISTENING.call_once(|| unsafe { campanile_dds_listen(hear) });
}

/// Cyclone's text for a negative result.
pub(crate) fn error_text(code: i32) -> &'static str {
    // SAFETY: Cyclone answers any number with a text that it has for ever.
    let text = unsafe { CStr::from_ptr(campanile_dds_error_text(code)) };
    text.to_str().unwrap_or("unknown")
}

fn checked(result: i32) -> Result<i32, Code> {
    if result < 0 { Err(Code(result)) } else { Ok(result) }
}

/// Cyclone's number for a domain, participant, topic, writer, reader or condition. Dropping it deletes that.
#[derive(Debug)]
pub(crate) struct Entity(i32);

impl Entity {
    fn of(result: i32) -> Result<Self, Code> {
        checked(result).map(Self)
    }

    /// Creates a domain of this process with this configuration.
    pub(crate) fn domain(id: u32, configuration: &CStr) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_domain_create(id, configuration.as_ptr()) })
    }

    pub(crate) fn participant(domain: u32, name: &CStr) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_participant_create(domain, name.as_ptr()) })
    }

    pub(crate) fn writer(
        &self,
        topic: &Self,
        qos: RawQos,
        partitions: &[CString],
        user_data: &[u8],
    ) -> Result<Self, Code> {
        with_lists(qos, partitions, user_data, |qos| {
            // SAFETY: `qos` and what it points to live until the call returns.
            Self::of(unsafe { campanile_dds_writer_create(self.0, topic.0, qos) })
        })
    }

    pub(crate) fn reader(
        &self,
        topic: &Self,
        qos: RawQos,
        partitions: &[CString],
        user_data: &[u8],
    ) -> Result<ReaderEntity, Code> {
        let is_over = Box::new(AtomicU8::new(0));
        let entity = with_lists(qos, partitions, user_data, |qos| {
            // SAFETY: `qos` and what it points to live until the call returns, `is_over` until the reader has been deleted.
            Self::of(unsafe { campanile_dds_reader_create(self.0, topic.0, qos, is_over.as_ptr()) })
        })?;
        Ok(ReaderEntity { entity, is_over })
    }

    pub(crate) fn topic(&self, name: &CStr, of: &Type, is_announced: bool) -> Result<Self, Code> {
        // SAFETY: the type is whole and stays ours; see the module.
        Self::of(unsafe { campanile_dds_topic_create(self.0, name.as_ptr(), of.0.as_ptr(), c_int::from(is_announced)) })
    }

    pub(crate) fn topic_of_endpoint(
        &self,
        builtin: &Self,
        handle: u64,
        timeout: i64,
        name: &CStr,
    ) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_endpoint_topic(self.0, builtin.0, handle, timeout, name.as_ptr()) })
    }

    pub(crate) fn waitset(&self) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_waitset_create(self.0) })
    }

    pub(crate) fn guard(&self) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_guard_create(self.0) })
    }

    /// A reader of discovered participants or endpoints.
    pub(crate) fn builtin(&self, of: Builtin) -> Result<Self, Code> {
        // SAFETY: see the module; there is a topic for each of these.
        Self::of(unsafe { campanile_dds_builtin_create(self.0, of as i32) })
    }

    pub(crate) fn data_condition(&self) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_data_condition_create(self.0) })
    }

    /// A condition for unread samples.
    pub(crate) fn news_condition(&self) -> Result<Self, Code> {
        // SAFETY: see the module.
        Self::of(unsafe { campanile_dds_news_condition_create(self.0) })
    }

    /// Takes discovery news; what is gone has only its key.
    pub(crate) fn take_news(&self, visit: impl FnMut(RawFound<'_>)) -> Result<(), Code> {
        let mut visitor = Visitor { visit, panic: None };
        let context = std::ptr::from_mut(&mut visitor).cast();
        let trampoline = endpoint_trampoline_of(&visitor);
        // SAFETY: the trampoline is the one for this visitor, which outlives the call.
        let result = unsafe { campanile_dds_news_take(self.0, trampoline, context) };
        visitor.finish();
        checked(result).map(drop)
    }

    /// A participant's self-description: its name, addresses, host, process and the process's number.
    pub(crate) fn participant_of(&self, handle: u64) -> Option<[String; 5]> {
        unsafe extern "C" fn copy(context: *mut c_void, found: *const RawParticipant) {
            // SAFETY: the context is what is passed below, and the participant lives until we return.
            let (into, found) = unsafe { (&mut *context.cast::<Option<[String; 5]>>(), &*found) };
            *into = Some([found.name, found.addresses, found.host, found.process, found.pid].map(name));
        }
        let mut found: Option<[String; 5]> = None;
        // SAFETY: `copy` casts the context to what it is, which outlives the call.
        let result =
            unsafe { campanile_dds_participant_of(self.0, handle, copy, std::ptr::from_mut(&mut found).cast()) };
        checked(result).ok().and(found)
    }

    pub(crate) fn set_guard(&self, is_set: bool) -> Result<(), Code> {
        // SAFETY: see the module.
        checked(unsafe { campanile_dds_guard_set(self.0, i32::from(is_set)) }).map(drop)
    }

    pub(crate) fn attach(&self, entity: &Self, token: u64) -> Result<(), Code> {
        // SAFETY: see the module.
        checked(unsafe { campanile_dds_waitset_attach(self.0, entity.0, token) }).map(drop)
    }

    /// Waits, and returns how many of `tokens` were written.
    pub(crate) fn wait(&self, tokens: &mut [u64], timeout: i64) -> Result<usize, Code> {
        // SAFETY: at most as many tokens are written as there is room for.
        let written =
            checked(unsafe { campanile_dds_waitset_wait(self.0, tokens.as_mut_ptr(), tokens.len(), timeout) })?;
        Ok(usize::try_from(written).unwrap_or(0))
    }

    pub(crate) fn guid(&self) -> Result<[u8; 16], Code> {
        let mut guid = [0; 16];
        // SAFETY: 16 octets are written.
        checked(unsafe { campanile_dds_guid(self.0, guid.as_mut_ptr()) })?;
        Ok(guid)
    }

    /// Writes a value. `source_timestamp` below 0 is the present.
    pub(crate) fn write(&self, cdr: &[u8], source_timestamp: i64) -> Result<(), Code> {
        // SAFETY: the octets are read and copied before the call returns.
        checked(unsafe { campanile_dds_write(self.0, cdr.as_ptr(), cdr.len(), source_timestamp) }).map(drop)
    }

    pub(crate) fn wait_for_acknowledgments(&self, timeout: i64) -> Result<(), Code> {
        // SAFETY: see the module.
        checked(unsafe { campanile_dds_wait_for_acknowledgments(self.0, timeout) }).map(drop)
    }

    pub(crate) fn take(&self, count: u32, visit: impl FnMut(RawTaken<'_>)) -> Result<usize, Code> {
        let mut visitor = Visitor { visit, panic: None };
        let context = std::ptr::from_mut(&mut visitor).cast();
        let trampoline = sample_trampoline_of(&visitor);
        // SAFETY: the trampoline is the one for this visitor, which outlives the call.
        let taken = unsafe { campanile_dds_take(self.0, count, trampoline, context) };
        visitor.finish();
        Ok(usize::try_from(checked(taken)?).unwrap_or(0))
    }

    pub(crate) fn writer_status(&self) -> Result<RawStatus, Code> {
        let mut status = RawStatus::default();
        // SAFETY: a status is written.
        checked(unsafe { campanile_dds_writer_status(self.0, &raw mut status) }).map(|_| status)
    }

    pub(crate) fn reader_status(&self) -> Result<RawStatus, Code> {
        let mut status = RawStatus::default();
        // SAFETY: a status is written.
        checked(unsafe { campanile_dds_reader_status(self.0, &raw mut status) }).map(|_| status)
    }

    pub(crate) fn endpoints(&self, visit: impl FnMut(RawFound<'_>)) -> Result<(), Code> {
        let mut visitor = Visitor { visit, panic: None };
        let context = std::ptr::from_mut(&mut visitor).cast();
        let trampoline = endpoint_trampoline_of(&visitor);
        // SAFETY: the trampoline is the one for this visitor, which outlives the call.
        let result = unsafe { campanile_dds_endpoints(self.0, trampoline, context) };
        visitor.finish();
        checked(result).map(drop)
    }

    pub(crate) fn reliable_readers(&self, visit: impl FnMut(ReliableReader)) -> Result<(), Code> {
        let mut visitor = Visitor { visit, panic: None };
        let context = std::ptr::from_mut(&mut visitor).cast();
        let trampoline = reliable_trampoline_of(&visitor);
        // SAFETY: the trampoline is the one for this visitor, which outlives the call.
        let result = unsafe { campanile_dds_reliable_readers(self.0, trampoline, context) };
        visitor.finish();
        checked(result).map(drop)
    }

    pub(crate) fn unmatch(&self, reader: &[u8; 16]) -> Result<(), Code> {
        // SAFETY: 16 octets are read.
        checked(unsafe { campanile_dds_unmatch(self.0, reader.as_ptr()) }).map(drop)
    }

    pub(crate) fn match_again(&self, reader: &[u8; 16]) -> Result<(), Code> {
        // SAFETY: 16 octets are read.
        checked(unsafe { campanile_dds_match_again(self.0, reader.as_ptr()) }).map(drop)
    }

    /// The type description of a discovered endpoint, in the format that `discovered.rs` reads.
    pub(crate) fn describe(&self, builtin: &Self, handle: u64, timeout: i64) -> Result<Vec<u8>, Code> {
        let mut bytes = std::ptr::null_mut();
        let mut length = 0;
        // SAFETY: a pointer and a length are written if the result says so.
        let result = unsafe {
            campanile_dds_endpoint_describe(self.0, builtin.0, handle, timeout, &raw mut bytes, &raw mut length)
        };
        checked(result)?;
        if bytes.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the octets were allocated for us, that many, and are freed once, here.
        unsafe {
            let copy = std::slice::from_raw_parts(bytes, length).to_vec();
            campanile_dds_bytes_free(bytes);
            Ok(copy)
        }
    }

    /// The hash of a topic's type, as text.
    pub(crate) fn type_id(&self) -> Result<String, Code> {
        let mut text: [c_char; 64] = [0; 64];
        // SAFETY: at most as many octets are written as there is room for, and the last is 0.
        checked(unsafe { campanile_dds_topic_type_id(self.0, text.as_mut_ptr(), text.len()) })?;
        // SAFETY: the text ends with a 0 within the array.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }
}

impl Drop for Entity {
    fn drop(&mut self) {
        // SAFETY: see the module. If its participant is gone, so is this, and the call says so.
        let _gone_already = unsafe { campanile_dds_delete(self.0) };
    }
}

/// A reader. It marks itself as over before it is deleted: otherwise the deletion would wait until the reader has room.
#[derive(Debug)]
pub(crate) struct ReaderEntity {
    // In the order in which they are to go.
    entity: Entity,
    /// Read by the filter of its topic (`shim.c`).
    is_over: Box<AtomicU8>,
}

impl ReaderEntity {
    pub(crate) fn keep_nothing(&self) {
        self.is_over.store(1, Ordering::Release);
    }
}

impl Deref for ReaderEntity {
    type Target = Entity;

    fn deref(&self) -> &Entity {
        &self.entity
    }
}

impl Drop for ReaderEntity {
    fn drop(&mut self) {
        self.keep_nothing();
    }
}

fn with_lists<T>(
    mut qos: RawQos,
    partitions: &[CString],
    user_data: &[u8],
    act: impl FnOnce(*const RawQos) -> Result<T, Code>,
) -> Result<T, Code> {
    let pointers: Vec<*const c_char> = partitions.iter().map(|partition| partition.as_ptr()).collect();
    qos.partitions = pointers.as_ptr();
    qos.partition_count = u32::try_from(pointers.len()).unwrap_or(0);
    qos.user_data = user_data.as_ptr();
    qos.user_data_length = user_data.len();
    act(&raw const qos)
}

/// A closure that C calls, and its panic, which must not unwind through C.
struct Visitor<F> {
    visit: F,
    panic: Option<Box<dyn Any + Send>>,
}

impl<F> Visitor<F> {
    fn call<T>(&mut self, act: impl FnOnce(&mut F) -> T) {
        if self.panic.is_none() {
            self.panic = catch_unwind(AssertUnwindSafe(|| act(&mut self.visit))).err();
        }
    }

    fn finish(self) {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
    }
}

/// A sample, valid during the visit.
pub(crate) struct RawTaken<'a> {
    /// The value; `None` if the sample only says that an instance or a writer is gone.
    pub(crate) cdr: Option<&'a [u8]>,
    pub(crate) encapsulation: u16,
    pub(crate) source_timestamp: i64,
    pub(crate) publication: u64,
}

fn sample_trampoline_of<F: FnMut(RawTaken<'_>)>(_visitor: &Visitor<F>) -> VisitSample {
    unsafe extern "C" fn trampoline<F: FnMut(RawTaken<'_>)>(context: *mut c_void, sample: *const RawSample) {
        // SAFETY: `take` passes its own visitor, and no other code has it meanwhile; the sample lives until we return.
        let (visitor, sample) = unsafe { (&mut *context.cast::<Visitor<F>>(), &*sample) };
        let cdr = (sample.is_valid != 0).then(|| octets(sample.bytes, sample.length));
        let taken = RawTaken {
            cdr,
            encapsulation: sample.encapsulation,
            source_timestamp: sample.source_timestamp,
            publication: sample.publication,
        };
        visitor.call(|visit| visit(taken));
    }
    trampoline::<F>
}

/// Kinds of discovery readers, by the numbers of `shim.h`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Builtin {
    Readers = 0,
    Writers = 1,
    Participants = 2,
}

/// A discovered endpoint, valid during the visit.
#[derive(Default)]
pub(crate) struct RawFound<'a> {
    pub(crate) key: [u8; 16],
    pub(crate) participant: [u8; 16],
    pub(crate) handle: u64,
    pub(crate) participant_handle: u64,
    pub(crate) is_gone: bool,
    pub(crate) topic: String,
    pub(crate) type_name: String,
    pub(crate) partitions: Vec<String>,
    pub(crate) user_data: &'a [u8],
    pub(crate) policies: RawPolicies,
    pub(crate) type_id: Option<String>,
}

fn endpoint_trampoline_of<F: FnMut(RawFound<'_>)>(_visitor: &Visitor<F>) -> VisitEndpoint {
    unsafe extern "C" fn trampoline<F: FnMut(RawFound<'_>)>(context: *mut c_void, found: *const RawEndpoint) {
        // SAFETY: the caller passes its own visitor, and no other code has it meanwhile; the endpoint lives until we return.
        let (visitor, found) = unsafe { (&mut *context.cast::<Visitor<F>>(), &*found) };
        let count = usize::try_from(found.partition_count).unwrap_or(0);
        let partitions = if count == 0 {
            Vec::new()
        } else {
            // SAFETY: there are that many pointers, each to text.
            unsafe { std::slice::from_raw_parts(found.partitions, count) }.iter().map(|&name| text(name)).collect()
        };
        let endpoint = RawFound {
            key: found.key,
            participant: found.participant,
            handle: found.handle,
            participant_handle: found.participant_handle,
            is_gone: found.is_gone != 0,
            topic: text(found.topic),
            type_name: text(found.type_name),
            partitions,
            user_data: octets(found.user_data, found.user_data_length),
            policies: found.policies,
            type_id: (found.is_typed != 0).then(|| text(found.type_id.as_ptr())),
        };
        visitor.call(|visit| visit(endpoint));
    }
    trampoline::<F>
}

fn reliable_trampoline_of<F: FnMut(ReliableReader)>(_visitor: &Visitor<F>) -> VisitReliable {
    unsafe extern "C" fn trampoline<F: FnMut(ReliableReader)>(context: *mut c_void, found: *const RawReliable) {
        // SAFETY: `reliable_readers` passes its own visitor, and no other code has it meanwhile; the reader's texts live until we
        // return.
        let (visitor, found) = unsafe { (&mut *context.cast::<Visitor<F>>(), &*found) };
        let reader = ReliableReader {
            guid: Guid(found.key),
            participant: Guid(found.participant),
            confirmed: found.confirmed,
            written: found.written,
            address: text(found.address),
            host: name(found.host),
            process: name(found.process),
            pid: name(found.pid),
        };
        visitor.call(|visit| visit(reader));
    }
    trampoline::<F>
}

/// The octets behind a C pointer, which may be null.
fn octets<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if bytes.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: our functions in C say how many octets they point to; callers in this module look at them only while those live.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: texts of C's end with 0 and live until the visitor returns.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A name that a remote participant announces, at most 256 characters of it.
fn name(pointer: *const c_char) -> String {
    text(pointer).chars().take(256).collect()
}
