//! How a supplier or consumer finds its channel, the first time and whenever it is gone.

use crate::notify::{EventChannel, find_channel};
use crate::{InvokeError, ObjectRef, Orb};
use core::fmt;
use std::sync::Arc;

/// Finds a channel, or makes it; asked at the start, and again whenever what was found is gone.
///
/// It is called on threads of the library's, too, and may take as long as calls to a service do.
#[derive(Clone)]
pub struct ChannelFinder(Find);

type Find = Arc<dyn Fn(&Orb) -> Result<EventChannel, InvokeError> + Send + Sync>;

impl ChannelFinder {
    /// One that asks `find`.
    #[must_use]
    pub fn new(find: impl Fn(&Orb) -> Result<EventChannel, InvokeError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// The channel of that id, as [`find_channel`] finds it.
    pub(super) fn by_id(service: ObjectRef, channel: Option<i32>) -> Self {
        Self::new(move |_| find_channel(&service, channel).map(|(channel, _)| channel))
    }

    /// The channel.
    ///
    /// # Errors
    /// What became of the search.
    pub fn find(&self, orb: &Orb) -> Result<EventChannel, InvokeError> {
        (self.0)(orb)
    }
}

impl fmt::Debug for ChannelFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelFinder").finish_non_exhaustive()
    }
}
