//! Servants: the program's own objects, which servers call. A consumer is one.

use crate::{ObjectRef, Orb};
use giop::cdr::{Reader, Writer};
use giop::exception::{Completed, Kind, SystemException};
use std::sync::Arc;

/// An object that can be called from outside.
///
/// `_is_a` and `_non_existent` are answered for it; every other operation goes to [`invoke`](Self::invoke), on the thread of
/// the connection that brought it, so calls on one connection come one after another and calls on several connections at the
/// same time.
///
/// ```
/// use campanile_client::{Servant, ServantError};
/// use giop::cdr::{Reader, Writer};
///
/// struct Adder;
///
/// impl Servant for Adder {
///     fn type_id(&self) -> &str {
///         "IDL:Example/Adder:1.0"
///     }
///
///     fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
///         match operation {
///             "add" => {
///                 let sum = args.i32()?.wrapping_add(args.i32()?);
///                 reply.i32(sum);
///                 Ok(())
///             }
///             _ => Err(ServantError::bad_operation()),
///         }
///     }
/// }
/// ```
pub trait Servant: Send + Sync + 'static {
    /// The repository id of its most derived interface, written into its reference.
    fn type_id(&self) -> &str;

    /// Whether the object supports an interface beside its own and `CORBA::Object`.
    fn supports(&self, repository_id: &str) -> bool {
        let _ = repository_id;
        false
    }

    /// Operations answered as soon as they have been read, before they are carried out: the client does not wait for the servant, nor get
    /// its exceptions. Default: none.
    ///
    /// Not for operations with results, since their caller would get none. Queried once, when the servant is activated.
    fn early_operations(&self) -> &'static [&'static str] {
        &[]
    }

    /// Carries out one operation: reads the arguments, writes return value and out arguments. On an error the written part is discarded.
    /// `args` borrows the message itself: nothing is copied for the call.
    ///
    /// # Errors
    /// The exception for the caller; a [`ReadError`](giop::cdr::ReadError) becomes `MARSHAL`.
    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError>;

    /// Carries out one operation with the Real-time CORBA priority that the caller sent (`RTCorbaPriority`), from 0 to 32767; `None`
    /// without one. By default calls [`invoke`](Self::invoke).
    ///
    /// # Errors
    /// The same as of [`invoke`](Self::invoke).
    fn invoke_at(
        &self,
        priority: Option<i16>,
        operation: &str,
        args: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<(), ServantError> {
        let _ = priority;
        self.invoke(operation, args, reply)
    }
}

/// The exception a servant raises.
#[derive(Clone)]
#[non_exhaustive]
pub enum ServantError {
    /// A system exception.
    System(SystemException),
    /// A user exception without members, by repository id.
    User(&'static str),
    /// A user exception with members: its repository id, and what writes them.
    UserWith(&'static str, Arc<dyn Fn(&mut Writer<'_>) + Send + Sync>),
}

impl ServantError {
    /// `BAD_OPERATION`: there is no such operation.
    #[must_use]
    pub fn bad_operation() -> Self {
        Self::system(Kind::BadOperation)
    }

    /// A user exception with the members that `write` writes.
    #[must_use]
    pub fn user_with(id: &'static str, write: impl Fn(&mut Writer<'_>) + Send + Sync + 'static) -> Self {
        Self::UserWith(id, Arc::new(write))
    }

    /// A system exception of that kind, raised before anything was done.
    #[must_use]
    pub fn system(kind: Kind) -> Self {
        Self::System(SystemException { kind, minor: 0, completed: Completed::No })
    }
}

impl core::fmt::Debug for ServantError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::System(exception) => f.debug_tuple("System").field(exception).finish(),
            Self::User(id) | Self::UserWith(id, _) => f.debug_tuple("User").field(id).finish(),
        }
    }
}

impl From<giop::cdr::ReadError> for ServantError {
    fn from(_: giop::cdr::ReadError) -> Self {
        Self::system(Kind::Marshal)
    }
}

/// An activated servant; dropping it deactivates the servant.
#[must_use = "the servant is callable only as long as this lives"]
pub struct Activation {
    pub(crate) orb: Orb,
    pub(crate) table: Arc<crate::server::Table>,
    pub(crate) key: Vec<u8>,
    pub(crate) reference: ObjectRef,
}

impl Activation {
    /// The reference to pass to others.
    #[must_use]
    pub fn reference(&self) -> &ObjectRef {
        &self.reference
    }

    /// The servant's orb.
    #[must_use]
    pub fn orb(&self) -> &Orb {
        &self.orb
    }
}

impl Drop for Activation {
    fn drop(&mut self) {
        self.table.remove(&self.key);
    }
}

impl core::fmt::Debug for Activation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Activation").field("reference", &self.reference).finish_non_exhaustive()
    }
}
