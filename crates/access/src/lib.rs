//! Rights of clients on channels and event types.
//!
//! An operator writes [`Rules`] in the configuration. The first rule that speaks of a client, a right, a channel and an event type decides;
//! where there are rules and none speaks, the answer is no. Where there are no rules this crate is not asked. Rules are looked through once
//! for each client, right and channel: what comes out is a [`Grant`], which says all that there is to know of event types, so that nothing
//! but that is looked at for an event.
//!
//! Nothing here knows a socket, a clock or a protocol. That of several rules some can never decide is found before they are used
//! ([`Rules::warnings`]).

mod addresses;
mod certificate;
mod grant;
mod outgoing;
mod overlap;
mod rules;
mod tokens;
mod who;

pub use addresses::{AddressRange, AddressRanges};
pub use certificate::CertificatePattern;
pub use grant::{Grant, Part, Scope, Why};
pub use outgoing::{CalledFor, OutgoingPolicy};
pub use rules::{BadRule, LIST_MAX, RULES_MAX, RuleText, Rules};
pub use tokens::{BadToken, Tokens, digest_of};
pub use who::{BadWho, ClientNames, Who, WhoPattern};

use engine::ChannelId;

/// Right that rules grant to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Supply events to a channel.
    Publish,
    /// Get a channel's events.
    Subscribe,
    /// Make, change and destroy channels and what others have in them, and look at everything.
    Administer,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Subscribe, Self::Administer];

    /// What it is called in the configuration and in log lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Administer => "administer",
        }
    }

    /// The right of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

impl core::fmt::Display for Right {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// A channel as rules know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel<'a> {
    /// Its number. None of one that is about to be made, and of the whole service.
    pub id: Option<ChannelId>,
    /// Its name: the one under which the configuration declares it, else the one that its creator gave it.
    pub name: Option<&'a str>,
}

impl Channel<'_> {
    /// What concerns no one channel: only rules on all channels (`*`) speak of it.
    pub const SERVICE: Self = Self { id: None, name: None };
}

impl core::fmt::Display for Channel<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.id, self.name) {
            (Some(id), Some(name)) => write!(f, "channel {} \"{}\"", id.0, name.escape_debug()),
            (Some(id), None) => write!(f, "channel {}", id.0),
            (None, Some(name)) => write!(f, "channel \"{}\"", name.escape_debug()),
            (None, None) => f.write_str("the service"),
        }
    }
}

/// A rule by its number, counted from 1 in the order of the configuration; 0 is none: nothing spoke, and so the answer is no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleNumber(pub u32);

impl RuleNumber {
    /// No rule spoke.
    pub const NONE: Self = Self(0);
}

/// An answer, and the rule that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be.
    pub allowed: bool,
    /// Which rule says so.
    pub rule: RuleNumber,
}

#[cfg(test)]
mod tests;
