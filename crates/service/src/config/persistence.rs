//! `[store]`, `[channel]`: what outlives the process, and what channels have unless they say otherwise.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What outlives the process: channels, admins, proxies and their clients, filters and names, under the references that clients have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Folder that is the service's own, and is made if it is not there; `none` keeps nothing. Default: none is named, and it is
    /// [`default_directory`](Self::default_directory).
    pub directory: Option<PathBuf>,
    /// Folder where `directory` names none; it is no key of the file. `campanile serve` has one in the user's home. Where it cannot be
    /// made, the service keeps nothing and [says so](crate::Service::warnings); what is there and cannot be used is an error. Default:
    /// none, and nothing outlives the process.
    #[serde(skip)]
    pub default_directory: Option<PathBuf>,
    /// Octets of events that are kept, of all channels, 1 MiB to 16 TiB. Default 4 GiB. What is beyond is refused (`IMP_LIMIT`).
    pub event_bytes_max: u64,
    /// Octets that the store may take on disk, 16 MiB to 16 TiB. Default 16 GiB. Where it takes as much, events are refused
    /// (`IMP_LIMIT`) until those that are kept have a quarter of that. What is configured counts, and is not refused for that: it is
    /// bounded by administration's part of `limits.memory_bytes`.
    pub disk_bytes_max: u64,
    /// Octets that backlogs (`OverflowBudget`) may take on disk, of all channels together, 1 MiB to 16 TiB. Default 16 GiB. One channel may
    /// have its share (`limits.client_quota_percent`) of what is left; beyond that it is as beyond its `OverflowBudget`.
    pub overflow_bytes_max: u64,
    /// Octets that channels' history (`HistoryEvents`, `HistoryAge`, `HistoryBytes`) may take on disk, of all channels together, 1 MiB to
    /// 16 TiB. Default 16 GiB. Of what is beyond the oldest of the channel that has the most goes.
    pub history_bytes_max: u64,
    /// Events of one channel that are dead letters since each was undeliverable for a consumer, 0 to 1,000,000, each counted for each such
    /// consumer. Default 1,000. At the bound the oldest goes. Only persistent events of channels without a
    /// `DeadLetterChannel` are dead letters; with 0 none is.
    pub dead_letters_max: u32,
    /// Octets of these, 64 KiB to 16 TiB. Default 64 MiB. They count in `event_bytes_max`, too.
    pub dead_letter_bytes_max: u64,
    /// Milliseconds from one synchronisation with the disk to the next at least, 0 to 10,000. Default 0: whatever waits is written as
    /// soon as the disk has taken what was before. Answers to persistent events and to changes wait for it.
    pub sync_interval_ms: u32,
    /// Milliseconds after which a change is answered (`PERSIST_STORE`) although the disk has not taken it, 100 to 600,000. Default
    /// 10,000. It is in effect, and written when the disk does.
    pub answer_within_ms: u32,
}

/// Whether clients' connections outlive the process where neither they nor their channel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionReliability {
    /// They do, where there is a store. Clients that were written for other services do not ask for it.
    #[default]
    Persistent,
    /// They end with the process.
    BestEffort,
}

/// What a new channel gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Channel {
    /// Bytes of events that a channel's consumers may have waiting, 64 KiB to 1 TiB. Default 256 MiB. QoS `MemoryBudget`.
    pub memory_budget_bytes: u64,
    /// Bytes of events that a channel may have waiting on disk, where there is a store, 0 to 16 TiB. Default 4 GiB. 0: what is too much for
    /// memory is no further than that. QoS `OverflowBudget`.
    pub overflow_budget_bytes: u64,
    /// Whether clients' connections outlive the process, where there is a store: `persistent` or `best-effort`. Default `persistent`.
    /// QoS `ConnectionReliability`.
    pub connection_reliability: ConnectionReliability,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            directory: None,
            default_directory: None,
            event_bytes_max: 4 << 30,
            disk_bytes_max: 16 << 30,
            overflow_bytes_max: 16 << 30,
            history_bytes_max: 16 << 30,
            dead_letters_max: 1_000,
            dead_letter_bytes_max: 64 << 20,
            sync_interval_ms: 0,
            answer_within_ms: 10_000,
        }
    }
}

impl StoreConfig {
    /// What stands for a folder where nothing is to be kept.
    pub const NOWHERE: &str = "none";

    /// Whether nothing is to be kept, whatever folder there may be.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.directory.as_deref().is_some_and(|named| named == Path::new(Self::NOWHERE))
    }

    /// The folder in which things are to be kept, and whether the configuration names it.
    pub(crate) fn folder(&self) -> Option<(&Path, bool)> {
        match &self.directory {
            Some(_) if self.is_off() => None,
            Some(named) => Some((named, true)),
            None => self.default_directory.as_deref().map(|folder| (folder, false)),
        }
    }
}

impl Default for Channel {
    fn default() -> Self {
        let connection_reliability = ConnectionReliability::default();
        Self { memory_budget_bytes: 256 << 20, overflow_budget_bytes: 4 << 30, connection_reliability }
    }
}
