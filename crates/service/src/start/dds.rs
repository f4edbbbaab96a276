//! The joins of channels to DDS, at the start.

use super::StartError;
use crate::config::Config;
use crate::protocols::dds::JoinSetup;
use corba::Protocol;

/// The threads between the main lane and DDS; dropping them waits for their end, which is the lane's.
#[cfg(feature = "dds")]
pub(super) type Threads = crate::dds::Bridge;
/// There are none in a program that was built without DDS.
#[cfg(not(feature = "dds"))]
pub(super) type Threads = ();

/// Starts the threads of all joins. Gives, for the main lane, what each join begins with.
#[cfg(feature = "dds")]
pub(super) fn join(config: &Config, protocol: &Protocol) -> Result<(Threads, Vec<JoinSetup>), StartError> {
    let joins = &config.dds.joins;
    if joins.is_empty() {
        return Ok((Threads::default(), Vec::new()));
    }
    let missing =
        |channel: &str| StartError::Dds { why: format!("there is no channel {channel:?}: declare it ([[channels]])") };
    let channels =
        joins.iter().map(|join| protocol.objects.channel_called(&join.channel).ok_or_else(|| missing(&join.channel)));
    let channels = channels.collect::<Result<Vec<_>, _>>()?;
    let message_bytes_max = config.limits.message_bytes_max as usize;
    let begun = crate::dds::begin(&config.dds, message_bytes_max).map_err(|why| StartError::Dds { why })?;
    let setups = joins.iter().zip(channels).zip(begun.introductions).map(|((join, channel), introduce)| JoinSetup {
        channel,
        name: join.described(),
        to_dds: join.goes_to_dds().then(|| join.constraint.clone()),
        from_dds: join.comes_from_dds(),
        introduce,
    });
    Ok((begun.bridge, setups.collect()))
}

/// The same in a program that was built without DDS: there may be no joins.
#[cfg(not(feature = "dds"))]
pub(super) fn join(config: &Config, _protocol: &Protocol) -> Result<(Threads, Vec<JoinSetup>), StartError> {
    if config.dds.joins.is_empty() {
        return Ok(((), Vec::new()));
    }
    Err(StartError::Dds { why: "this program was built without DDS: build it with the feature `dds`".into() })
}
