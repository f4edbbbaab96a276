//! The stored history of channels, inspected for an operator while the service does not run.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::channel_of;
use crate::log::files::{Access, EntryKind};
use crate::log::{Desk, Found, Look, Segment, segments_in};
use crate::overflow::HISTORY_FOLDER;

/// Stored history of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredHistory {
    /// The channel's number.
    pub channel: u32,
    /// Number of files.
    pub files: u64,
    /// Number of readable events.
    pub events: u64,
    /// Octets of the files.
    pub bytes: u64,
    /// The numbers of the first and the last event. `None` if there is none.
    pub numbers: Option<(u64, u64)>,
}

/// Inspects the histories in a store's folder, and returns descriptions of damage. `verifies`: each record is read.
pub(crate) fn look(directory: &Path, verifies: bool) -> io::Result<(Vec<StoredHistory>, Vec<String>)> {
    let folder = directory.join(HISTORY_FOLDER);
    let (mut channels, mut damaged, mut desk) = (Vec::new(), Vec::new(), Desk::through_cache());
    let files = Arc::clone(desk.files());
    let entries = match files.entries(&folder, EntryKind::Folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((channels, damaged)),
        Err(error) => return Err(error),
    };
    for folder in entries {
        let Some(channel) = channel_of(&folder) else { continue };
        let mut history = StoredHistory { channel: channel.0, ..StoredHistory::default() };
        for path in segments_in(&folder, &*files)? {
            let file = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
            history.files += 1;
            history.bytes += files.open(&path, Access::READ)?.length()?;
            match Segment::<()>::look(&path, &mut desk)? {
                Look::Nothing(None) => {}
                Look::Nothing(Some(why)) => {
                    damaged
                        .push(format!("{file} has nothing that can be read ({why}); a service that begins removes it"));
                }
                Look::Segment(Found { segment, is_finished, cut, damage, .. }) => {
                    history.events += segment.records;
                    if segment.records > 0 {
                        let first = history.numbers.map_or(segment.first, |(first, _)| first);
                        history.numbers = Some((first, segment.last));
                    }
                    if let Some(why) = damage {
                        damaged.push(format!(
                            "{file}: {why}; the {cut} octets behind event {} are cut off by a service that begins",
                            segment.last
                        ));
                    }
                    if verifies
                        && is_finished
                        && let Some(why) = segment.verify(&mut desk)?
                    {
                        damaged.push(format!("{file}: {why}; they are passed over, and never delivered"));
                    }
                }
            }
        }
        channels.push(history);
    }
    channels.sort_unstable_by_key(|history| history.channel);
    damaged.sort_unstable();
    Ok((channels, damaged))
}
