//! How much history a channel stores, and where in it a consumer begins.

use core::time::Duration;

use crate::Refusal;

/// Limits of a channel's stored history; the strictest one counts. No history is stored unless one of them is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HistoryLimits {
    /// `HistoryEvents`: most events stored. 0, the default: no limit.
    pub events: u64,
    /// `HistoryAge`: greatest age of a stored event. Zero, the default: no limit.
    pub age: Duration,
    /// `HistoryBytes`: most bytes stored. 0, the default: [`BYTES`](Self::BYTES).
    pub bytes: u64,
}

impl HistoryLimits {
    /// Default limit in bytes.
    pub const BYTES: u64 = 4 << 30;

    /// Whether the channel stores any history.
    #[must_use]
    pub fn keeps(&self) -> bool {
        *self != Self::default()
    }

    /// The limit in bytes, its default applied.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        if self.bytes == 0 { Self::BYTES } else { self.bytes }
    }
}

/// `StartFrom`: first event of a consumer that connects to a channel with a stored history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StartFrom {
    /// New events only. The default.
    #[default]
    New,
    /// The oldest stored event.
    First,
    /// The event of this number, or the first stored one after it; a number yet to be assigned is waited for.
    Number(u64),
    /// The event after this number; new events if no event had the number.
    After(u64),
    /// The last so many events, of whatever type.
    Last(u64),
    /// Events no older than this.
    Since(Duration),
    /// Events from this time on, in 100 ns since 15 October 1582; a time in the future is waited for.
    Time(u64),
    /// The last event of each type.
    LastOfEachType,
    /// The last event for each value of this field of the filterable data.
    LastOfEach(FieldName),
}

/// A short field name, stored inline so that it is `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldName {
    octets: [u8; Self::OCTETS_MAX],
    length: u8,
}

impl FieldName {
    /// Longest name, in octets.
    pub const OCTETS_MAX: usize = 47;

    /// Makes a field name.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] if it is empty or longer than [`OCTETS_MAX`](Self::OCTETS_MAX).
    pub fn new(name: &str) -> Result<Self, Refusal> {
        let mut octets = [0; Self::OCTETS_MAX];
        let place = octets.get_mut(..name.len()).filter(|_| !name.is_empty());
        let place = place.ok_or(Refusal::BadSetting { setting: "start_from", range: "a field of 1 to 47 octets" })?;
        place.copy_from_slice(name.as_bytes());
        Ok(Self { octets, length: u8::try_from(name.len()).unwrap_or(0) })
    }

    /// The name as text.
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
