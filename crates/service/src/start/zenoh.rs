//! The session in Zenoh, at the start.

use super::StartError;
use crate::config::Config;
use crate::protocols::link::ZenohEnds;

/// The session and its thread; dropping it waits for their end.
#[cfg(feature = "zenoh")]
pub(super) type Threads = crate::zenoh::Bridge;
/// There are none in a program that was built without Zenoh.
#[cfg(not(feature = "zenoh"))]
pub(super) type Threads = ();

/// Opens the session, if one is configured. Gives what the main lane has of it.
#[cfg(feature = "zenoh")]
pub(super) fn open(config: &Config) -> Result<(Threads, ZenohEnds), StartError> {
    crate::zenoh::begin(config).map_err(|why| StartError::Zenoh { why })
}

/// The same in a program that was built without Zenoh: the configuration was checked to have none.
#[cfg(not(feature = "zenoh"))]
pub(super) fn open(_: &Config) -> Result<(Threads, ZenohEnds), StartError> {
    Ok(((), ZenohEnds::default()))
}
