//! Rights of clients on channels and event types.
//!
//! An operator writes [`Rules`] in the configuration. The first rule that applies to a client, a right, a channel and
//! an event type decides; if there are rules and none applies, the request is denied. Without rules this crate is not
//! used. Rules are evaluated once for each client, right and channel. The result is a [`Grant`], which has the
//! decision for every event type, so that an event only needs a look-up there.
//!
//! Nothing here knows a socket, a clock or a protocol. Rules that can never decide are found before they are used
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
    /// To supply events to a channel.
    Publish,
    /// To receive a channel's events.
    Subscribe,
    /// To create, change and destroy channels and other clients' objects in them, and to read everything.
    Administer,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Subscribe, Self::Administer];

    /// Name in the configuration and in log lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Administer => "administer",
        }
    }

    /// The right with this name.
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

/// A channel as rules see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel<'a> {
    /// The number. `None` for a channel to be created, and for the whole service.
    pub id: Option<ChannelId>,
    /// The name: the one under which the configuration declares the channel, else the one that its creator gave it.
    pub name: Option<&'a str>,
}

impl Channel<'_> {
    /// Stands for requests that concern no one channel: only rules on all channels (`*`) apply.
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

/// Number of a rule, counted from 1 in the order of the configuration; 0 if no rule applied, so that the decision is no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleNumber(pub u32);

impl RuleNumber {
    /// No rule applied.
    pub const NONE: Self = Self(0);
}

/// A decision, and the rule that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The rule that decided.
    pub rule: RuleNumber,
}

#[cfg(test)]
mod tests;
