//! Lookup of the channel of a supplier or consumer, initially and whenever it is gone.

use crate::notify::{EventChannel, find_channel};
use crate::{InvokeError, ObjectRef, Orb};
use core::fmt;
use std::sync::Arc;

/// Finds a channel, or makes it; called at the start, and again whenever the found channel is gone.
///
/// It is also called on threads of the library, and may take as long as calls to a service do.
#[derive(Clone)]
pub struct ChannelFinder(Find);

type Find = Arc<dyn Fn(&Orb) -> Result<EventChannel, InvokeError> + Send + Sync>;

impl ChannelFinder {
    /// A finder that calls `find`.
    #[must_use]
    pub fn new(find: impl Fn(&Orb) -> Result<EventChannel, InvokeError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// A finder of the channel of that id, by [`find_channel`].
    pub(super) fn by_id(service: ObjectRef, channel: Option<i32>) -> Self {
        Self::new(move |_| find_channel(&service, channel).map(|(channel, _)| channel))
    }

    /// Finds the channel.
    ///
    /// # Errors
    /// The error of the search.
    pub fn find(&self, orb: &Orb) -> Result<EventChannel, InvokeError> {
        (self.0)(orb)
    }
}

impl fmt::Debug for ChannelFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelFinder").finish_non_exhaustive()
    }
}
