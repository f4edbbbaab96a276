//! The principal of a connected consumer, as the publisher of the routing knows it.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

/// Opaque principal that the engine passes on to lanes. Clones share one value.
#[derive(Clone)]
pub struct Owner(Arc<dyn Any + Send + Sync>);

impl Owner {
    /// Wraps a principal of any type; [`get`](Self::get) returns it to a caller that names the same type.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(principal: Arc<T>) -> Self {
        Self(principal)
    }

    /// The wrapped principal; `None` if its type is another.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Equal if both wrap the same allocation, not only equal values.
impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&Arc::as_ptr(&self.0).cast::<()>()).finish()
    }
}
