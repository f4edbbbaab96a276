//! Channels that are joined to DDS.
#![cfg_attr(not(feature = "dds"), expect(dead_code, reason = "only the threads that talk to DDS use it all"))]

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{ConfigError, Undeclarable};
use crate::protocols::dds::JOINS_MAX;
use giop::typecode::TypeCode;

/// Channels that are joined to DDS, which a program has that was built with it (the feature `dds`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dds {
    /// The network interface, by its name or its address. Default: the one that Cyclone DDS likes best.
    pub interface: Option<String>,
    /// Whether there is multicast. Default `automatic`: as the interface says.
    pub multicast: DdsMulticast,
    /// Hosts that may have participants, by name or address: needed without multicast. Default: none.
    pub peers: Vec<String>,
    /// Participants that a host may have where they are found by port, 1 to 119. Default 32.
    pub peer_participants_max: u32,
    /// Octets that a writer keeps for readers that are behind, 16 KiB to 1 GiB. Default 1 MiB. When they are spent the join waits for its
    /// readers, and then the channel for the join.
    pub writer_bytes_max: u32,
    /// How long a reader in DDS may take nothing while its join waits for it, in milliseconds, 0 to 604,800,000 (a week); looked at each
    /// second. Default 20,000, less than `delivery.hold_timeout_ms`, after which the channel would not wait for the join. Then the join waits
    /// for it no more, and tries it again later; 0 is never.
    pub hold_timeout_ms: u32,
    /// More of Cyclone's own configuration, as `CYCLONEDDS_URI` has it. Default: none.
    pub cyclone: Option<String>,
    /// Which channels are joined, and to what; 32 at most. Default: none, and the service takes no part in DDS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<DdsJoin>,
}

/// Whether multicast is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdsMulticast {
    /// As the interface says.
    #[default]
    Automatic,
    /// For finding each other only.
    Discovery,
    /// Not at all.
    Never,
}

/// A channel that is joined to a partition of a DDS domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdsJoin {
    /// The channel's name, which it has at the start, or its number.
    pub channel: String,
    /// The DDS domain, 0 to 232. Default 0.
    #[serde(default)]
    pub domain: u32,
    /// The partition; `""` is the one without a name. Default: what `channel` says, or the one without a name with `preset = "ros2"`.
    #[serde(default)]
    pub partition: Option<String>,
    /// Which way events go. Default `both`.
    #[serde(default)]
    pub direction: DdsDirection,
    /// How topics and types are called. Default `plain`.
    #[serde(default)]
    pub preset: DdsPreset,
    /// The event domain that this DDS domain is: events of others do not go there, and samples come in in it. Default: events of all
    /// domains go, and samples come in without a domain.
    #[serde(default)]
    pub event_domain: Option<String>,
    /// Topics by the event types that they are. Default: a topic is called like its event type, or `rt/` and that with `preset = "ros2"`.
    #[serde(default)]
    pub topics: BTreeMap<String, String>,
    /// Which topics are read, by name, or by how the name begins and a `*`. Default: all.
    #[serde(default = "all_topics")]
    pub read: Vec<String>,
    /// Types of topics of which others do not say them, or not so that Cyclone reads it: these meet by the type's name. Default: none; such a
    /// topic is not read.
    #[serde(default)]
    pub types: Vec<DdsType>,
    /// Which of the channel's events go to DDS, in the filter language. Default: all.
    #[serde(default)]
    pub constraint: String,
    /// Where in an event the struct is. Default `body`.
    #[serde(default)]
    pub value: DdsValue,
    /// Whether what is missed is sent again. Default true; a reader that is reliable does not read writers that are not.
    #[serde(default = "yes")]
    pub reliable: bool,
    /// How many of the latest samples of each topic are kept for readers that come later; above 0, those of others are asked for, and writers
    /// that keep none are not read. Default 0.
    #[serde(default)]
    pub late_joiners: u32,
    /// The longest between two samples, in milliseconds. Default 0: none is promised, and none asked for.
    #[serde(default)]
    pub deadline_ms: u32,
    /// How long samples are of use, in milliseconds. Default 0: for ever.
    #[serde(default)]
    pub lifespan_ms: u32,
    /// The transport priority. Default 0.
    #[serde(default)]
    pub transport_priority: i32,
    /// Samples for which a reader has room, 1 to 1,048,576. Default 4096.
    #[serde(default = "samples_max")]
    pub samples_max: u32,
}

/// Which way events go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdsDirection {
    /// Both ways.
    #[default]
    Both,
    /// From DDS into the channel.
    FromDds,
    /// From the channel to DDS.
    ToDds,
}

/// How topics and types are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdsPreset {
    /// As in IDL.
    #[default]
    Plain,
    /// As ROS 2 does: topics `rt/NAME`, types `package::msg::dds_::Type_`.
    Ros2,
}

/// Where in an event the struct is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdsValue {
    /// In `remainder_of_body`.
    #[default]
    Body,
    /// The first of `filterable_data`, as ALMA has it.
    FilterableData,
}

/// The type of a topic of which others do not say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdsType {
    /// The topic, as DDS has it.
    pub topic: String,
    /// What the type is called in IDL: `std_msgs::msg::String`. Default: as its struct.
    #[serde(default)]
    pub name: Option<String>,
    /// A `struct` in a small IDL, see docs/tempo.md.
    #[serde(rename = "type")]
    pub definition: String,
}

fn all_topics() -> Vec<String> {
    vec!["*".into()]
}

const fn yes() -> bool {
    true
}

const fn samples_max() -> u32 {
    4096
}

impl Default for Dds {
    fn default() -> Self {
        Self {
            interface: None,
            multicast: DdsMulticast::Automatic,
            peers: Vec::new(),
            peer_participants_max: 32,
            writer_bytes_max: 1 << 20,
            hold_timeout_ms: 20_000,
            cyclone: None,
            joins: Vec::new(),
        }
    }
}

impl DdsJoin {
    /// The partition that it is.
    pub(crate) fn partition(&self) -> &str {
        let default = match self.preset {
            DdsPreset::Plain => &self.channel,
            DdsPreset::Ros2 => "",
        };
        self.partition.as_deref().unwrap_or(default)
    }

    /// What it is called in logs.
    pub(crate) fn described(&self) -> String {
        format!("DDS domain {}, partition {:?}, joined to channel {}", self.domain, self.partition(), self.channel)
    }

    pub(crate) fn goes_to_dds(&self) -> bool {
        self.direction != DdsDirection::FromDds
    }

    pub(crate) fn comes_from_dds(&self) -> bool {
        self.direction != DdsDirection::ToDds
    }

    pub(crate) fn millis(value: u32) -> Option<Duration> {
        (value > 0).then(|| Duration::from_millis(value.into()))
    }
}

impl DdsType {
    /// The type.
    ///
    /// # Errors
    /// Says where the text is none.
    pub(crate) fn read(&self) -> Result<TypeCode, Undeclarable> {
        let definitions = idl::read(&self.definition).map_err(Undeclarable::Text)?;
        definitions.last().map(|last| last.code().clone()).ok_or(Undeclarable::Empty)
    }
}

impl Dds {
    /// Checks it: what two joins would make one of is refused.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let in_range = |key, value: u32, min: u64, max: u64| {
            let value = u64::from(value);
            if (min..=max).contains(&value) { Ok(()) } else { Err(ConfigError::OutOfRange { key, value, min, max }) }
        };
        in_range("dds.joins (entries)", u32::try_from(self.joins.len()).unwrap_or(u32::MAX), 0, JOINS_MAX as u64)?;
        in_range("dds.peer_participants_max", self.peer_participants_max, 1, 119)?;
        in_range("dds.writer_bytes_max", self.writer_bytes_max, 16 << 10, 1 << 30)?;
        in_range("dds.hold_timeout_ms", self.hold_timeout_ms, 0, 604_800_000)?;
        for (at, join) in self.joins.iter().enumerate() {
            in_range("dds.joins.domain", join.domain, 0, 232)?;
            in_range("dds.joins.samples_max", join.samples_max, 1, 1 << 20)?;
            let bad = |why: String| ConfigError::BadJoin { channel: join.channel.clone(), why };
            if join.partition().contains(['*', '?', '[', ']']) {
                return Err(bad(format!("partition {:?} has wildcards, and a join is with one", join.partition())));
            }
            let topics: BTreeSet<_> = join.topics.values().collect();
            if topics.len() < join.topics.len() {
                return Err(bad("two event types are one topic".into()));
            }
            for declared in &join.types {
                declared.read().map_err(|why| bad(format!("the type of topic {:?}: {why}", declared.topic)))?;
            }
            for other in self.joins.iter().take(at) {
                if (other.domain, other.partition()) == (join.domain, join.partition()) {
                    let (domain, partition) = (join.domain, join.partition());
                    return Err(bad(format!("partition {partition:?} of domain {domain} is joined twice")));
                }
                let is_both = other.goes_to_dds() && join.goes_to_dds() && other.channel == join.channel;
                let is_apart = other.event_domain.is_some() && join.event_domain.is_some();
                if is_both && (!is_apart || other.event_domain == join.event_domain) {
                    return Err(bad(
                        "its events would go to two places: let each join have an event_domain of its own".into(),
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn checked(joins: &str) -> Result<(), String> {
        toml::from_str::<Config>(joins).map_err(|error| error.to_string())?.check().map_err(|error| error.to_string())
    }

    #[test]
    fn joins_that_would_be_one_are_refused() {
        let join = |rest: &str| format!("[[dds.joins]]\n{rest}\n");
        checked(&(join("channel = \"A\"") + &join("channel = \"B\""))).unwrap();
        checked(&(join("channel = \"A\"\npartition = \"\"") + &join("channel = \"B\"\npartition = \"\"\ndomain = 1")))
            .unwrap();
        let collision = checked(&(join("channel = \"A\"") + &join("channel = \"B\"\npartition = \"A\""))).unwrap_err();
        assert!(collision.contains("partition \"A\" of domain 0 is joined twice"), "{collision}");
        let twice = checked(&(join("channel = \"A\"") + &join("channel = \"A\"\ndomain = 1"))).unwrap_err();
        assert!(twice.contains("two places"), "{twice}");
        let apart =
            |domain: &str, id: u32| join(&format!("channel = \"A\"\ndomain = {id}\nevent_domain = \"{domain}\""));
        checked(&(apart("ALMA", 0) + &apart("APEX", 1))).unwrap();
        checked(&(apart("ALMA", 0) + &apart("ALMA", 1))).unwrap_err();
        checked(&join("channel = \"A\"\ndomain = 233")).unwrap_err();
        checked(&join("channel = \"A\"\ntopics = { Wind = \"w\", Rain = \"w\" }")).unwrap_err();
        checked(&join("channel = \"A\"\npartition = \"*\"")).unwrap_err();
        checked(&join("channel = \"A\"\ntypes = [{ topic = \"t\", type = \"struct\" }]")).unwrap_err();
    }
}
