//! The joins of channels to DDS, at the start.

use super::StartError;
use crate::config::Config;
use crate::protocols::dds::{Board, JoinSetup};
use corba::Protocol;

/// The threads between the main lane and DDS; dropping them waits for their end, which is the lane's.
#[cfg(feature = "dds")]
pub(super) type Threads = crate::dds::Bridge;
/// There are none in a program that was built without DDS.
#[cfg(not(feature = "dds"))]
pub(super) type Threads = ();

/// The threads, what each join begins with, and where it says how it stands.
type Joined = (Threads, Vec<JoinSetup>, Vec<Board>);

/// Starts the threads of all joins. Gives, for the main lane, what each join begins with, and for administration, how each stands.
#[cfg(feature = "dds")]
pub(super) fn join(config: &Config, protocol: &Protocol) -> Result<Joined, StartError> {
    let joins = &config.dds.joins;
    if joins.is_empty() {
        return Ok(Joined::default());
    }
    let missing =
        |channel: &str| StartError::Dds { why: format!("there is no channel {channel:?}: declare it ([[channels]])") };
    let channels =
        joins.iter().map(|join| protocol.objects.channel_called(&join.channel).ok_or_else(|| missing(&join.channel)));
    let channels = channels.collect::<Result<Vec<_>, _>>()?;
    let message_bytes_max = config.limits.message_bytes_max as usize;
    let begun = crate::dds::begin(&config.dds, message_bytes_max).map_err(|why| StartError::Dds { why })?;
    for ((board, channel), join) in begun.boards.iter().zip(&channels).zip(joins) {
        let mut board = board.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (board.channel, board.name) = (*channel, join.described());
    }
    let setups = joins.iter().zip(channels).zip(begun.introductions).map(|((join, channel), introduce)| JoinSetup {
        channel,
        name: join.described(),
        to_dds: join.goes_to_dds().then(|| join.constraint.clone()),
        from_dds: join.comes_from_dds(),
        introduce,
    });
    Ok((begun.bridge, setups.collect(), begun.boards))
}

/// The same in a program that was built without DDS: there may be no joins.
#[cfg(not(feature = "dds"))]
pub(super) fn join(config: &Config, _protocol: &Protocol) -> Result<Joined, StartError> {
    if config.dds.joins.is_empty() {
        return Ok(Joined::default());
    }
    Err(StartError::Dds { why: "this program was built without DDS: build it with the feature `dds`".into() })
}
