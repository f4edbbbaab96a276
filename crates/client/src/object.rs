//! A reference to a remote object, and calls on it.

use crate::connection::{Call, CallError, RawReply, SharedConnection};
use crate::error::{FORWARDS_MAX, InvokeError, UserException};
use crate::{Orb, lock};
use core::fmt;
use giop::cdr::{CharSet, Encoding, Lacking, Reader, Writer};
use giop::exception::{Completed, SystemException, parse_detail_context};
use giop::ior::Ior;
use giop::message::{Reply, ReplyStatus, Response, ServiceContexts};
use giop::realtime::PriorityModel;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A remote object. Cheap to clone; a clone shares the connection and the object's known location.
///
/// ```no_run
/// use campanile_client::{Orb, OrbOptions};
///
/// let orb = Orb::new(OrbOptions::default());
/// let service = orb.resolve("corbaloc::127.0.0.1:2809/NotificationService")?;
/// let reply = service.invoke("get_all_channels", |_| ())?;
/// let channels = reply.reader().u32();
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
#[derive(Clone)]
pub struct ObjectRef {
    inner: Arc<Inner>,
}

struct Inner {
    orb: Orb,
    ior: Ior,
    reply_timeout: Option<Duration>,
    private: bool,
    /// The priority sent with each request.
    priority: Option<i16>,
    route: Mutex<Route>,
    /// Number of broken connections that were replaced.
    replaced: AtomicU64,
}

impl Inner {
    fn new(orb: Orb, ior: Ior, reply_timeout: Option<Duration>) -> Self {
        Self {
            orb,
            ior,
            reply_timeout,
            private: false,
            priority: None,
            route: Mutex::default(),
            replaced: AtomicU64::new(0),
        }
    }

    /// The same object without its connection.
    fn unconnected(&self) -> Self {
        let Self { orb, ior, reply_timeout, private, priority, route: _, replaced: _ } = self;
        let route = Mutex::default();
        Self {
            orb: orb.clone(),
            ior: ior.clone(),
            reply_timeout: *reply_timeout,
            private: *private,
            priority: *priority,
            route,
            replaced: AtomicU64::new(0),
        }
    }
}

#[derive(Default)]
struct Route {
    /// The current destination of calls; looked up again once its connection is broken.
    target: Option<Target>,
    /// The location given by `LOCATION_FORWARD`. The reference itself stays the fallback.
    forwarded: Option<Ior>,
}

/// Destination of calls: a connection and the object's key there.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) connection: SharedConnection,
    pub(crate) key: Arc<[u8]>,
}

/// Result of a closure that writes arguments: nothing, or the reason why it could not.
pub trait Arguments {
    /// `Err` with the reason if the arguments could not be written.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn outcome(self) -> Result<(), String>;
}

/// Checks written arguments: an error if the connection's code set lacks one of their characters.
pub(crate) fn sayable(written: Result<(), String>, writer: &Writer<'_>) -> Result<(), String> {
    let lacking = |character| Err(Lacking::in_encoding(character).to_string());
    written.and_then(|()| writer.lacking().map_or(Ok(()), lacking))
}

impl Arguments for () {
    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> Arguments for Result<(), E> {
    fn outcome(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

impl ObjectRef {
    /// Makes an object of a reference. Connects on the first call.
    pub(crate) fn new(orb: Orb, ior: Ior) -> Self {
        let reply_timeout = orb.options().reply_timeout;
        Self { inner: Arc::new(Inner::new(orb, ior, reply_timeout)) }
    }

    /// The same object over a connection of its own, so that a supplier that pushes much does not wait for other callers.
    #[must_use]
    pub fn with_private_connection(&self) -> Self {
        Self { inner: Arc::new(Inner { private: true, ..self.inner.unconnected() }) }
    }

    /// The same object with another limit on the time to a reply; `None` waits for ever. The default is
    /// [`OrbOptions::reply_timeout`](crate::OrbOptions::reply_timeout).
    #[must_use]
    pub fn with_reply_timeout(&self, reply_timeout: Option<Duration>) -> Self {
        Self { inner: Arc::new(Inner { reply_timeout, ..self.inner.unconnected() }) }
    }

    /// The same object called at a Real-time CORBA priority, from 0 to 32767.
    ///
    /// The priority is sent with each request, as the service context `RTCorbaPriority`, if the reference says that priorities are
    /// propagated by clients ([`giop::realtime::PriorityModel::ClientPropagated`]); otherwise, as the standard has it, none is. The
    /// thread that calls keeps the scheduling it has.
    #[must_use]
    pub fn with_priority(&self, priority: i16) -> Self {
        let is_told = self.ior().priority_model().is_some_and(|policy| policy.model == PriorityModel::ClientPropagated);
        let priority = is_told.then_some(priority.max(0));
        Self { inner: Arc::new(Inner { priority, ..self.inner.unconnected() }) }
    }

    pub(crate) fn reply_timeout(&self) -> Option<Duration> {
        self.inner.reply_timeout
    }

    /// The address in the reference, for messages.
    pub(crate) fn address_text(&self) -> String {
        self.ior().iiop().map_or_else(String::new, |profile| format!("{}:{}", profile.host, profile.port))
    }

    /// The priority sent with each request; `None` for none.
    #[must_use]
    pub fn priority(&self) -> Option<i16> {
        self.inner.priority
    }

    /// The reference as it was resolved or received.
    #[must_use]
    pub fn ior(&self) -> &Ior {
        &self.inner.ior
    }

    /// The orb it belongs to.
    #[must_use]
    pub fn orb(&self) -> &Orb {
        &self.inner.orb
    }

    /// The repository id the reference carries; empty for one made from a `corbaloc`.
    #[must_use]
    pub fn type_id(&self) -> &str {
        &self.inner.ior.type_id
    }

    /// Calls an operation and waits for its reply.
    ///
    /// `write` writes the arguments in the order of the IDL, in and inout ones only. It is called again when the request
    /// has to be written for another connection, so it must write the same each time.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn invoke<A: Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<ReplyBody, InvokeError> {
        let write = |writer: &mut Writer<'_>| write(writer).outcome();
        match self.call(operation, Response::Expected, &write)? {
            Some(body) => Ok(body),
            None => Err(InvokeError::BadReply {
                address: String::new(),
                operation: operation.to_owned(),
                reason: "there is none".to_owned(),
            }),
        }
    }

    /// Sends a request without a reply: whether it arrives is not known. Requests on one connection keep their order.
    ///
    /// # Errors
    /// If the request could not be written.
    pub fn invoke_oneway<A: Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(), InvokeError> {
        let write = |writer: &mut Writer<'_>| write(writer).outcome();
        self.call(operation, Response::None, &write).map(|_| ())
    }

    /// Whether the object supports the interface of that repository id.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn is_a(&self, repository_id: &str) -> Result<bool, InvokeError> {
        if !repository_id.is_empty() && self.type_id() == repository_id {
            return Ok(true);
        }
        let reply = self.invoke("_is_a", |w| w.string(repository_id))?;
        reply.read("_is_a", Reader::bool)
    }

    /// Whether the object is known to be gone. A server that cannot be reached is an error, not an answer.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn non_existent(&self) -> Result<bool, InvokeError> {
        match self.invoke("_non_existent", |_| ()) {
            Ok(reply) => reply.read("_non_existent", Reader::bool),
            Err(error) if error.object_is_gone() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Connects now rather than on the first call, and returns the address.
    ///
    /// # Errors
    /// If no address of the reference can be reached.
    pub fn connect(&self) -> Result<String, InvokeError> {
        self.target().map(|target| target.connection.address().to_owned())
    }

    /// Calls an operation without arguments when closing: over the existing connection or else a new one, once, and for no longer than
    /// `limit`, whatever the object's own limits are.
    pub(crate) fn take_leave(&self, operation: &str, limit: Duration) -> Result<(), InvokeError> {
        let ends = Instant::now() + limit;
        let known = lock(&self.inner.route).target.clone();
        let target = match known.filter(|target| !target.connection.is_broken()) {
            Some(target) => target,
            None => self.inner.orb.connect_within(&self.inner.ior, limit)?,
        };
        let limit = Some(ends.saturating_duration_since(Instant::now()));
        let call = Call { key: &target.key, operation, response: Response::Expected, limit, priority: None };
        match target.connection.call(&call, &|_| Ok(())) {
            Ok(Some(raw)) if raw.status == ReplyStatus::SystemException => {
                Err(system_error(&ReplyBody { raw, home: target.connection }, operation))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(invoke_error(error, target.connection.address(), operation)),
        }
    }

    fn call(
        &self,
        operation: &str,
        response: Response,
        write: &dyn Fn(&mut Writer<'_>) -> Result<(), String>,
    ) -> Result<Option<ReplyBody>, InvokeError> {
        let mut forwards = 0;
        let mut repeated = false;
        loop {
            let target = self.target()?;
            let Inner { reply_timeout: limit, priority, .. } = *self.inner;
            let call = Call { key: &target.key, operation, response, limit, priority };
            let reply = match target.connection.call(&call, write) {
                Ok(None) => return Ok(None),
                Ok(Some(raw)) => ReplyBody { raw, home: target.connection },
                // The connection had been closed by the server, which has not carried the request out (CORBA 3.3 part 2, 9.4.7): it
                // goes once more, over a new one.
                Err(CallError::NotSent { .. } | CallError::Lost { completed: Completed::No, .. }) if !repeated => {
                    repeated = true;
                    continue;
                }
                Err(error) => return Err(invoke_error(error, target.connection.address(), operation)),
            };
            match reply.raw.status {
                ReplyStatus::NoException => return Ok(Some(reply)),
                ReplyStatus::UserException => return Err(user_error(reply, operation)),
                ReplyStatus::SystemException => {
                    let error = system_error(&reply, operation);
                    if repeated || !self.leave_forwarded(&error) {
                        return Err(error);
                    }
                    repeated = true;
                }
                ReplyStatus::LocationForward | ReplyStatus::LocationForwardPerm => {
                    forwards += 1;
                    if forwards > FORWARDS_MAX {
                        return Err(InvokeError::TooManyForwards);
                    }
                    let ior = reply.read(operation, Ior::read)?;
                    *lock(&self.inner.route) = Route { target: None, forwarded: Some(ior) };
                }
                ReplyStatus::NeedsAddressingMode => {
                    return Err(
                        reply.bad(operation, "it asks to be addressed by profile, which this client does not do")
                    );
                }
            }
        }
    }

    /// Returns to the original reference if the object is not where a forward pointed. CORBA 3.3 part 2, 9.6.
    fn leave_forwarded(&self, error: &InvokeError) -> bool {
        let mut route = lock(&self.inner.route);
        let leave = route.forwarded.is_some() && error.object_is_gone();
        if leave {
            *route = Route::default();
        }
        leave
    }

    /// Number of broken connections that were replaced.
    pub(crate) fn connections_replaced(&self) -> u64 {
        self.inner.replaced.load(Ordering::Relaxed)
    }

    fn target(&self) -> Result<Target, InvokeError> {
        let mut route = lock(&self.inner.route);
        if let Some(target) = &route.target
            && !target.connection.is_broken()
        {
            return Ok(target.clone());
        }
        let found = match &route.forwarded {
            Some(ior) => match self.inner.orb.connect(ior, self.inner.private) {
                Err(_) => {
                    route.forwarded = None;
                    self.inner.orb.connect(&self.inner.ior, self.inner.private)
                }
                found => found,
            },
            None => self.inner.orb.connect(&self.inner.ior, self.inner.private),
        };
        let target = found?;
        let replaced = route.target.replace(target.clone());
        self.inner.replaced.fetch_add(u64::from(replaced.is_some()), Ordering::Relaxed);
        Ok(target)
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectRef").field("ior", &self.inner.ior).finish_non_exhaustive()
    }
}

/// The body of a reply: return value first, then out and inout arguments.
///
/// Dropping it returns its buffer to the connection.
pub struct ReplyBody {
    raw: RawReply,
    home: SharedConnection,
}

impl ReplyBody {
    /// A reader at the first value.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        let offset = self.raw.body_offset;
        let body = self.raw.bytes.get(offset..).unwrap_or_default();
        let encoding =
            Encoding { endian: self.raw.header.endian, version: self.raw.header.version, chars: self.home.chars() };
        Reader::with_phase(body, offset, encoding).with_origin(offset)
    }

    /// The char set of the connection it came over.
    #[must_use]
    pub fn chars(&self) -> CharSet {
        self.home.chars()
    }

    /// Reads the whole body with `read` and refuses bytes left over.
    ///
    /// # Errors
    /// [`InvokeError::BadReply`] naming `operation`.
    pub fn read<'a, T, E: fmt::Display>(
        &'a self,
        operation: &str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, E>,
    ) -> Result<T, InvokeError> {
        let mut reader = self.reader();
        let value = read(&mut reader).map_err(|error| self.bad(operation, &error.to_string()))?;
        reader.finish("reply").map_err(|error| self.bad(operation, &error.to_string()))?;
        Ok(value)
    }

    pub(crate) fn bad(&self, operation: &str, reason: &str) -> InvokeError {
        InvokeError::BadReply {
            address: self.home.address().to_owned(),
            operation: operation.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.home.recycle(core::mem::take(&mut self.raw.bytes));
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody").field("status", &self.raw.status).field("bytes", &self.raw.bytes.len()).finish()
    }
}

fn user_error(reply: ReplyBody, operation: &str) -> InvokeError {
    let id = match reply.reader().text() {
        Ok(id) => id,
        Err(error) => return reply.bad(operation, &error.to_string()),
    };
    InvokeError::User(Box::new(UserException { id, operation: operation.to_owned(), body: reply }))
}

fn system_error(reply: &ReplyBody, operation: &str) -> InvokeError {
    match reply.read(operation, SystemException::read) {
        Ok(exception) => {
            InvokeError::System { operation: operation.to_owned(), exception, detail: detail_of(&reply.raw) }
        }
        Err(error) => error,
    }
}

/// The explanation of the exception in a reply.
fn detail_of(raw: &RawReply) -> Option<String> {
    let reply = Reply::parse(&raw.bytes, &raw.header).ok()?;
    parse_detail_context(reply.contexts.find(ServiceContexts::EXCEPTION_DETAIL_MESSAGE)?)
}

fn invoke_error(error: CallError, address: &str, operation: &str) -> InvokeError {
    let address = address.to_owned();
    let operation = operation.to_owned();
    match error {
        CallError::NotSent { reason } => InvokeError::Lost { address, operation, reason, completed: Completed::No },
        CallError::Lost { reason, completed } => InvokeError::Lost { address, operation, reason, completed },
        CallError::TimedOut { limit } => InvokeError::TimedOut { address, operation, limit },
        CallError::Bad { reason } => InvokeError::BadReply { address, operation, reason },
        CallError::Arguments { reason } => InvokeError::BadArguments { operation, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OrbOptions;
    use std::net::TcpListener;

    /// A program that ended while its service was stopped (Ctrl-Z, a debugger, a machine that went away) hung in the destructor
    /// of its consumer for the whole reply timeout, a minute by default.
    #[test]
    fn taking_leave_of_a_mute_service_ends_in_time() {
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = OrbOptions { reply_timeout: None, ..OrbOptions::default() };
        let object = Orb::new(options).resolve_service(&mute.local_addr().unwrap().to_string()).unwrap();
        let error = object.take_leave("disconnect", Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, InvokeError::TimedOut { .. }), "{error}");
        // Over a connection that is there, too.
        object.connect().unwrap();
        let error = object.take_leave("disconnect", Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, InvokeError::TimedOut { .. }), "{error}");
    }
}
