//! What a channel keeps of its history, and where in it a consumer begins.

use core::time::Duration;

use crate::Refusal;

/// How much history a channel keeps: as much as none of these forbids. It keeps nothing unless one of them is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HistoryLimits {
    /// `HistoryEvents`: how many events. 0, the default: that does not count.
    pub events: u64,
    /// `HistoryAge`: how long ago they came. Zero, the default: that does not count.
    pub age: Duration,
    /// `HistoryBytes`: how many bytes they take where they are kept. 0, the default: [`BYTES`](Self::BYTES).
    pub bytes: u64,
}

impl HistoryLimits {
    /// How many bytes a history may have of which nothing else is said.
    pub const BYTES: u64 = 4 << 30;

    /// Whether the channel keeps anything of its history.
    #[must_use]
    pub fn keeps(&self) -> bool {
        *self != Self::default()
    }

    /// How many bytes it may take.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        if self.bytes == 0 { Self::BYTES } else { self.bytes }
    }
}

/// `StartFrom`: where a consumer begins that connects to a channel which stores its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StartFrom {
    /// With what comes. The default.
    #[default]
    New,
    /// With the oldest event that is kept.
    First,
    /// With the event of this number, or the first behind it that is kept; one that is yet to come is waited for.
    Number(u64),
    /// Behind the event of this number: with what comes, if no event had it.
    After(u64),
    /// With the last so many events, of whatever type.
    Last(u64),
    /// With those that came no longer ago than this.
    Since(Duration),
    /// With those that came from a moment on, in 100 ns since 15 October 1582; one that is yet to come is waited for.
    Time(u64),
    /// With the last event of each type.
    LastOfEachType,
    /// With the last event of each value that this field of the filterable data has.
    LastOfEach(FieldName),
}

/// A short name, which can be copied as a number can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldName {
    octets: [u8; Self::OCTETS_MAX],
    length: u8,
}

impl FieldName {
    /// The most octets that a name may have.
    pub const OCTETS_MAX: usize = 47;

    /// The name of these octets.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] if there are none, or more than [`OCTETS_MAX`](Self::OCTETS_MAX).
    pub fn new(name: &str) -> Result<Self, Refusal> {
        let mut octets = [0; Self::OCTETS_MAX];
        let place = octets.get_mut(..name.len()).filter(|_| !name.is_empty());
        let place = place.ok_or(Refusal::BadSetting { setting: "start_from", range: "a field of 1 to 47 octets" })?;
        place.copy_from_slice(name.as_bytes());
        Ok(Self { octets, length: u8::try_from(name.len()).unwrap_or(0) })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let octets = self.octets.get(..self.length.into()).unwrap_or_default();
        core::str::from_utf8(octets).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_was_made_of_and_neither_empty_nor_long() {
        let long = "x".repeat(FieldName::OCTETS_MAX);
        for name in ["a", "antenna", long.as_str()] {
            assert_eq!(FieldName::new(name).unwrap().as_str(), name);
        }
        assert!(FieldName::new("").is_err() && FieldName::new(&(long + "x")).is_err());
    }
}
