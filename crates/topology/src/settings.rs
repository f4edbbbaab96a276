//! Settings, limits, pools and topics, as in the engine, in plain numbers. Times are in nanoseconds.

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
        /// Settings of one level; omitted ones are inherited.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $(
                #[doc = concat!("`", stringify!($field), "`", $(", the property `", $name, "`",)? ".")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$stored>,
            )*
            /// Thread pool of this level.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub pool: Option<Pool>,
            /// Properties that the service does not know, where it accepts such.
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
    /// Name of the property.
    pub name: String,
    /// Whether it was set as an administrative (admin) property.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_administrative: bool,
    /// Type and value: an `Any` in CDR, big-endian, texts in UTF-8, in hexadecimal digits.
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
    /// Property by which it was set.
    pub property: PoolProperty,
    /// How an event's priority chooses one of its lanes.
    pub model: PriorityModel,
    /// Priority at which everything is served under the server-declared model.
    pub server_priority: i16,
    /// Lanes, by rising priority.
    pub lanes: Vec<LaneSpec>,
    /// Which topic is served next in each lane.
    pub discipline: Discipline,
    /// Capacity of each thread's hand-over queue, in events.
    pub queue_events_max: u32,
}

/// Property by which a pool was set.
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
    /// `MemoryBudget`; omitted if it is the configuration's for all channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_budget_bytes: Option<u64>,
    /// `OverflowBudget`; omitted if it is the configuration's for all channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow_budget_bytes: Option<u64>,
    /// `HistoryEvents`; here and in the next two, 0 for no limit or the default.
    #[serde(default)]
    pub history_events: u64,
    /// `HistoryAge`.
    #[serde(default)]
    pub history_age_ns: u64,
    /// `HistoryBytes`.
    #[serde(default)]
    pub history_bytes: u64,
    /// `MaxConsumers`; omitted if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consumers: Option<u32>,
    /// `MaxSuppliers`; omitted if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_suppliers: Option<u32>,
    /// `MaxQueueLength`; omitted if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queue_length: Option<u32>,
    /// `RejectNewEvents`.
    pub reject_new_events: bool,
    /// `DeadLetterChannel`, by its number; omitted if none.
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
    /// Most filters of the channel.
    pub filters_max: u32,
    /// `FilterSteps`.
    pub filter_steps_max: u32,
}

/// Topics of a channel, with their shares of the lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// Settings of the topic of all types not listed below.
    pub rest: TopicSettings,
    /// Event types that are topics of their own; the first that matches an event counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_type: Vec<TypeTopic>,
}

/// An event type that is a topic of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTopic {
    /// The event type.
    #[serde(flatten)]
    pub event_type: EventType,
    /// Settings of the topic.
    pub settings: TopicSettings,
}

/// Settings of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// `Share`.
    pub share: u32,
    /// `Deadline`; omitted if it is that of the share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// Worst-case time to serve one message.
    pub execution_time_ns: u64,
    /// Importance of keeping the topic's deadlines; higher is more critical.
    pub criticality: i16,
}
