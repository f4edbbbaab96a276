//! Settings, limits, pools and topics: each as the engine has them, in plain numbers. Times are in nanoseconds.

use super::EventType;
use engine::{
    AcknowledgeAfter, DiscardPolicy, Discipline, FullOutbox, LaneSpec, OrderPolicy, PriorityModel, Reliability,
};
use serde::{Deserialize, Serialize};

macro_rules! settings {
    ($({
        $(#[$doc:meta])* $side:ident $field:ident: $type:tt stored [$key:ident: $stored:ty] property [$($name:literal $($rest:tt)*)?]
        $($drawn:tt)*
    })*) => {
        /// What a level says of its own settings; what is left out is inherited.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $(
                #[doc = concat!("`", stringify!($field), "`", $(", the property `", $name, "`",)? ".")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$stored>,
            )*
            /// Its own threads.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub pool: Option<Pool>,
            /// Properties that the service does not know, where it takes such.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub unknown: Vec<UnknownProperty>,
        }
    };
}

engine::properties!(settings);

/// A property that the service does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnknownProperty {
    /// What it is called.
    pub name: String,
    /// Whether it was set as an administrative property.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_administrative: bool,
    /// Its type and value: an `Any` in CDR, big-endian, texts in UTF-8, in hexadecimal digits.
    pub value: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
pub(crate) const fn is_false(is: &bool) -> bool {
    !*is
}

/// `Profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/real-time.md says what each promises")]
pub enum Profile {
    Standard,
    RealTime,
}

/// A pool of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// By which property it was set.
    pub property: PoolProperty,
    /// How an event's priority chooses among its lanes.
    pub model: PriorityModel,
    /// The priority at which everything is served where it is declared.
    pub server_priority: i16,
    /// By rising priority.
    pub lanes: Vec<LaneSpec>,
    /// The order of events within each lane.
    pub discipline: Discipline,
    /// How many events may wait to be handed over to each thread.
    pub queue_events_max: u32,
}

/// By which property a pool was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the properties' names")]
pub enum PoolProperty {
    ThreadPool,
    ThreadPoolLanes,
}

/// A channel's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// `MemoryBudget`; left out where it is what the configuration says for all channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_budget_bytes: Option<u64>,
    /// `OverflowBudget`; left out where it is what the configuration says for all channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow_budget_bytes: Option<u64>,
    /// `HistoryEvents`; 0 where it does not count, as the next two.
    #[serde(default)]
    pub history_events: u64,
    /// `HistoryAge`.
    #[serde(default)]
    pub history_age_ns: u64,
    /// `HistoryBytes`.
    #[serde(default)]
    pub history_bytes: u64,
    /// `MaxConsumers`; left out for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consumers: Option<u32>,
    /// `MaxSuppliers`; left out for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_suppliers: Option<u32>,
    /// `MaxQueueLength`; left out for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queue_length: Option<u32>,
    /// `RejectNewEvents`.
    pub reject_new_events: bool,
    /// `DeadLetterChannel`, by its number; left out for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<u32>,
    /// `MaxConstraintLength`.
    pub constraint_bytes_max: u32,
    /// `MaxConstraintNodes`.
    pub constraint_nodes_max: u32,
    /// `MaxConstraintsPerFilter`.
    pub constraints_per_filter_max: u32,
    /// `MaxFiltersPerObject`.
    pub filters_per_object_max: u32,
    /// Filters of the channel.
    pub filters_max: u32,
    /// `FilterSteps`.
    pub filter_steps_max: u32,
}

/// What a channel's events may claim of their lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// All that are not of the types below.
    pub rest: TopicSettings,
    /// Event types that are topics of their own, in the order in which they are looked through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_type: Vec<TypeTopic>,
}

/// An event type that is a topic of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTopic {
    /// Which.
    #[serde(flatten)]
    pub event_type: EventType,
    /// What it may claim.
    pub settings: TopicSettings,
}

/// What a topic may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// `Share`.
    pub share: u32,
    /// `Deadline`; left out for that of the share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// How long serving one message takes at the worst.
    pub execution_time_ns: u64,
    /// How much it matters that deadlines are kept.
    pub criticality: i16,
}
