//! Permissions of clients that ask through no object, such as operators: the same rules decide.

use super::{Denied, Protocol, denial_text};
use access::{Channel, Right, Who, Why};
use accounts::Account;
use engine::ChannelId;

/// A refused permission, and the rule that refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Account, operation, channel and rule, in a sentence.
    pub why: String,
    /// The rule that says so, by number and name, or the rules where each decides of some event types; `no rule` if none speaks of it.
    pub rule: String,
}

impl Protocol {
    /// Checks that an account may do something on a channel or, without a channel, on the whole service. Without a right, checks that it
    /// may know that the channel is there. A denial is noted.
    ///
    /// # Errors
    /// What it may not, and which rule says so.
    pub fn permits(
        &mut self,
        account: &Account,
        right: Option<Right>,
        channel: Option<ChannelId>,
        what: &str,
    ) -> Result<(), Forbidden> {
        let Some(access) = &self.guard.access else { return Ok(()) };
        let who = Who::of(account);
        let on = channel.map_or(Channel::SERVICE, |id| access.channel(id));
        let needed = right.unwrap_or(Right::Administer);
        let grant = access.rules.grant(&who, needed, on);
        if grant.is_any() || right.is_none() && access.rules.knows(&who, on) {
            return Ok(());
        }
        let reason = grant.scope().why(None);
        let denial = access.rules.denial(reason);
        let text = denial_text(&who, &format!("{what} ({needed})"), on, &denial);
        let why = format!("{who} is not permitted {what} ({needed}) on {on}: {denial}");
        let rule = match reason {
            Why::Rule(rule) => access.rules.title(rule),
            Why::Parts(_) => denial,
        };
        self.note_denied(Denied { right: Some(needed), ip: account.ip(), text });
        Err(Forbidden { why, rule })
    }
}
