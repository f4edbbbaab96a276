//! A plan: the lanes to set on each channel, from an analysis.

use super::file::{self, FileError};
use super::{Activity, Analysis, Policy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most threads of lanes that a service grants by default.
const LANE_THREADS_MAX: usize = 64;
/// The range of `Share`, in events a second.
const SHARE_MAX: u64 = 1_000_000;
/// Most event types that a channel's `Topics` lists.
const TOPICS_MAX: usize = 256;
const SECOND: u64 = 1_000_000_000;

/// Lanes for every channel, as a file that can be saved and read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `rm`, `dm`, `edf`, `llf` or `muf`.
    pub policy: String,
    /// Whether the analysis showed that every deadline is met.
    pub feasible: bool,
    /// Warnings to read before the plan is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The channels, by number.
    #[serde(rename = "channel")]
    pub channels: Vec<PlannedChannel>,
}

/// Settings of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChannel {
    /// The channel's number.
    pub id: u32,
    /// Priority model of `ThreadPoolLanes`: `CLIENT_PROPAGATED`.
    pub priority_model: String,
    /// Value of `Discipline`: `Shares`, `EarliestDeadline`, `LeastLaxity` or `MaximumUrgency`.
    pub discipline: String,
    /// Lanes of `ThreadPoolLanes`, by rising priority.
    #[serde(rename = "lane")]
    pub lanes: Vec<PlannedLane>,
    /// Event types, the most urgent first.
    #[serde(rename = "topic", default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<PlannedTopic>,
}

/// One lane of a `ThreadPoolLanes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLane {
    /// Real-time CORBA priority, 0 to 32,767.
    pub priority: i16,
    /// Number of static threads: 1.
    pub static_threads: u16,
    /// Processor in the analysis, counted from 0: with more than one, the thread has to be pinned there.
    pub cpu: u16,
    /// Names of its activities, the most urgent first.
    pub activities: Vec<String>,
}

/// The settings of one event type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTopic {
    /// `DOMAIN/NAME`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Priority that the events have to carry: as `RTCorbaPriority`, or as `Priority` in their headers. The highest,
    /// if several activities send the type.
    pub priority: i16,
    /// `Share`: events a second.
    pub share: u32,
    /// `Deadline`, if shorter than one over `share`.
    #[serde(default, with = "file::optional_time", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Time for which an event occupies its lane, up to 1 s.
    #[serde(with = "file::time")]
    pub execution_time: u64,
    /// Criticality, for `MaximumUrgency`.
    pub criticality: i16,
}

impl Plan {
    /// Makes a plan from the analysis of these activities.
    #[must_use]
    pub fn new(activities: &[Activity], analysis: &Analysis) -> Self {
        let mut channels: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for index in analysis.by_urgency() {
            if let Some(activity) = activities.get(index) {
                channels.entry(activity.channel).or_default().push(index);
            }
        }
        let channels: Vec<PlannedChannel> =
            channels.iter().map(|(id, members)| planned_channel(*id, members, activities, analysis)).collect();
        let policy = analysis.policy.short_name().to_owned();
        let feasible = analysis.outcome == super::Outcome::Feasible;
        Self { policy, feasible, notes: notes(activities, analysis, &channels), channels }
    }

    /// Formats the plan as a file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).unwrap_or_default();
        format!(
            "# Lanes as `campanile plan` assigned them. Set `ThreadPoolLanes`, `Discipline` and, for each event type, its\n\
             # topic (`Share`, `Deadline`) on each channel; events carry the priority of their type.\n{body}"
        )
    }

    /// Parses a plan.
    ///
    /// # Errors
    /// [`FileError`] with the line and what is wrong there.
    pub fn from_toml(text: &str) -> Result<Self, FileError> {
        toml::from_str(text).map_err(|error| FileError::new(text, &error))
    }
}

fn planned_channel(id: u32, members: &[usize], activities: &[Activity], analysis: &Analysis) -> PlannedChannel {
    let mut lanes: Vec<PlannedLane> = Vec::new();
    let mut topics: Vec<PlannedTopic> = Vec::new();
    for index in members {
        let (Some(activity), Some(finding)) = (activities.get(*index), analysis.findings.get(*index)) else { continue };
        let name = activity.name.clone();
        match lanes.iter_mut().find(|lane| lane.priority == finding.priority) {
            Some(lane) => lane.activities.push(name),
            None => lanes.push(PlannedLane {
                priority: finding.priority,
                static_threads: 1,
                cpu: finding.cpu,
                activities: vec![name],
            }),
        }
        if !activity.type_name.is_empty() {
            let event_type = format!("{}/{}", activity.domain, activity.type_name);
            let own = topic(activity, finding.priority, analysis.policy, event_type);
            match topics.iter_mut().find(|topic| topic.event_type == own.event_type) {
                Some(topic) => merge(topic, &own),
                None => topics.push(own),
            }
        }
    }
    lanes.sort_by_key(|lane| lane.priority);
    let discipline = match analysis.policy {
        Policy::RateMonotonic | Policy::DeadlineMonotonic => "Shares",
        Policy::EarliestDeadline => "EarliestDeadline",
        Policy::LeastLaxity => "LeastLaxity",
        Policy::MaximumUrgency => "MaximumUrgency",
    };
    let priority_model = "CLIENT_PROPAGATED".to_owned();
    PlannedChannel { id, priority_model, discipline: discipline.to_owned(), lanes, topics }
}

fn topic(activity: &Activity, priority: i16, policy: Policy, event_type: String) -> PlannedTopic {
    // Without a deadline of its own, a topic's is one over its share: the share of a dynamic policy must not make it shorter.
    let per = if policy.is_dynamic() { activity.deadline.max(activity.period) } else { activity.period };
    let share = if policy.is_dynamic() { SECOND / per } else { SECOND.div_ceil(per) };
    let share = share.clamp(1, SHARE_MAX);
    let deadline = Some(activity.deadline).filter(|deadline| deadline.saturating_mul(share) < SECOND);
    PlannedTopic {
        event_type,
        priority,
        share: u32::try_from(share).unwrap_or(u32::MAX),
        deadline,
        execution_time: activity.execution_time.min(SECOND),
        criticality: activity.criticality,
    }
}

/// Merges the settings of a type that several activities send: the sum of their shares, and the shorter deadline.
fn merge(topic: &mut PlannedTopic, other: &PlannedTopic) {
    let interval = |topic: &PlannedTopic| topic.deadline.unwrap_or(SECOND / u64::from(topic.share.max(1)));
    let deadline = interval(topic).min(interval(other));
    topic.share = topic.share.saturating_add(other.share).min(1_000_000);
    topic.deadline = Some(deadline).filter(|deadline| deadline.saturating_mul(u64::from(topic.share)) < SECOND);
    topic.execution_time = topic.execution_time.max(other.execution_time);
    topic.criticality = topic.criticality.max(other.criticality);
}

fn notes(activities: &[Activity], analysis: &Analysis, channels: &[PlannedChannel]) -> Vec<String> {
    let mut notes = Vec::new();
    let threads: usize = channels.iter().map(|channel| channel.lanes.len()).sum();
    if threads > LANE_THREADS_MAX {
        notes.push(format!(
            "{threads} threads are needed, and a service grants {LANE_THREADS_MAX} unless lanes.threads_max says otherwise: lower \
             lanes_max, or use fewer channels"
        ));
    }
    if channels.iter().flat_map(|channel| &channel.lanes).any(|lane| lane.activities.len() > 1)
        && !analysis.policy.is_dynamic()
    {
        notes.push("some activities share a lane: their response times are bounds for any order in it".to_owned());
    }
    if analysis.utilisation.len() > 1 {
        notes.push(
            "each lane was analysed on one processor: keep its thread there, by its name, with taskset".to_owned(),
        );
    }
    if let Some(channel) = channels.iter().find(|channel| channel.topics.len() > TOPICS_MAX) {
        notes.push(format!(
            "channel {} has {} event types with settings, and Topics lists {TOPICS_MAX} at most: the others share one topic",
            channel.id,
            channel.topics.len()
        ));
    }
    let long = |activity: &&Activity| activity.execution_time > SECOND && !activity.type_name.is_empty();
    if let Some(activity) = activities.iter().find(long) {
        notes.push(format!("an event of {:?} takes longer than a second, which no topic can say", activity.name));
    }
    let late = |activity: &&Activity| activity.deadline > SECOND && !activity.type_name.is_empty();
    if let Some(activity) = activities.iter().find(late).filter(|_| analysis.policy.is_dynamic()) {
        notes.push(format!(
            "the deadline of {:?} is longer than a second, which no topic can say: it is carried as if it were a second",
            activity.name
        ));
    }
    notes
}
