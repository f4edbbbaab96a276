//! Quality of service of the channels of a container's sources: properties of plans, by the OMG's names.

use super::{Kind, SourceQos};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a plan writes for a property.
enum Form {
    /// A number in this range.
    Number(i64, i64),
    /// A time, such as `20ms`.
    Time,
    /// A word, which stands for its place: the OMG's number of it.
    Word(&'static [&'static str]),
}

const RELIABILITIES: Form = Form::Word(&["BestEffort", "Persistent"]);

/// The properties, each with what a plan writes. What a service makes of each stands in its file.
static PROPERTIES: [(&str, Form); 9] = [
    ("ConnectionReliability", RELIABILITIES),
    ("DiscardPolicy", Form::Word(&["Any", "Fifo", "Priority", "Deadline", "Lifo"])),
    ("DispatchPriority", Form::Number(0, 7)),
    ("EventReliability", RELIABILITIES),
    ("MaxEventsPerConsumer", Form::Number(1, i32::MAX as i64)),
    ("MaxQueueLength", Form::Number(0, i32::MAX as i64)),
    ("OrderPolicy", Form::Word(&["Any", "Fifo", "Priority", "Deadline"])),
    ("Priority", Form::Number(-32_767, 32_767)),
    ("Timeout", Form::Time),
];

/// The numbers of words that services' tables name.
pub(super) const BEST_EFFORT: i64 = 0;
pub(super) const FIFO: i64 = 1;
pub(super) const PRIORITY: i64 = 2;

/// Quality of service of channels: properties with their values, of times nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, toml::Value>")]
pub struct ChannelQos(BTreeMap<&'static str, i64>);

impl TryFrom<BTreeMap<String, toml::Value>> for ChannelQos {
    type Error = String;

    fn try_from(of: BTreeMap<String, toml::Value>) -> Result<Self, String> {
        of.iter().map(|(name, value)| read(name, value)).collect::<Result<_, _>>().map(Self)
    }
}

fn read(name: &str, value: &toml::Value) -> Result<(&'static str, i64), String> {
    let Some((name, form)) = PROPERTIES.iter().find(|(known, _)| *known == name) else {
        let known = PROPERTIES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no property {name} of channels; there are: {known}"));
    };
    let (number, what) = match form {
        Form::Number(low, high) => {
            let number = value.as_integer().filter(|number| (*low..=*high).contains(number));
            (number, format!("a number from {low} to {high}"))
        }
        Form::Time => {
            let time = value.as_str().and_then(|text| planning::parse_time(text).ok());
            let time = time.filter(|ns| (1..=planning::TIME_MAX).contains(ns));
            (time.and_then(|ns| i64::try_from(ns).ok()), "a time, such as \"20ms\"".to_owned())
        }
        Form::Word(words) => {
            let place = value.as_str().and_then(|text| words.iter().position(|word| *word == text));
            (place.and_then(|place| i64::try_from(place).ok()), format!("one of {}", words.join(", ")))
        }
    };
    number.map(|number| (*name, number)).ok_or_else(|| format!("{name} is {value}: give {what}"))
}

impl ChannelQos {
    /// Sets what a service has for each property; answers for each that it does not have why, and the nearest.
    pub(super) fn set(&self, kind: &Kind, qos: &mut SourceQos) -> Vec<String> {
        let always = kind.always.iter().copied().filter(|(property, _)| !self.0.contains_key(property));
        let all = always.chain(self.0.iter().map(|(property, value)| (*property, *value)));
        let set = |(property, value): (&'static str, i64)| {
            let refused = (kind.set)(qos, property, value).err()?;
            Some(format!("qos: {} does not have this {property}: {refused}", kind.name))
        };
        all.filter_map(set).collect()
    }
}
