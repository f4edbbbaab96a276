//! Audit lines: one for each act that concerns others, done or refused, with a bound for each principal.
//!
//! Each line names the principal, the act, its object and its outcome. Each principal has a limit of its own, apart from all other lines of
//! the log, so that no principal acts unseen because another has used up the lines; refused acts count apart from acts that were done.
//! Omitted lines are counted, and their number is logged in the principal's next line, or a second later.

use std::borrow::Cow;
use std::net::IpAddr;

use engine::Time;
use hashbrown::HashMap;

use crate::admin::run::Administration;
use crate::admin::values::{Answer, Command, DeadLetterAct};
use crate::counters::Counter;
use crate::lane::reports::Allowance;
use crate::protocols::{ActOutcome, Declared, Settable};
use access::Who;
use accounts::Principal;

/// Maximum lines per second about acts that one principal has done. A script that sets up a plant takes a few seconds.
const DONE_LINES: u32 = 100;
/// Maximum lines per second about acts that one principal was refused. A principal without rights can try without end.
const REFUSED_LINES: u32 = 5;
/// Maximum principals with a limit of their own, among those with acts in the last second, and among those with refused acts. All others
/// share one.
const PRINCIPALS_MAX: usize = 64;

/// Maximum characters of the description of an act.
const WHAT_CHARS: usize = 400;

/// Limits of audit lines, by principal.
pub(crate) struct Audit {
    done: Allowances,
    refused: Allowances,
}

/// Limits of principals.
struct Allowances {
    per_second: u32,
    own: HashMap<Key, Entry>,
    /// Limit shared by principals that have none of their own.
    shared: Entry,
}

/// The part of a principal's identity that it cannot choose: the charged address, and the token or certificate that was shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(Option<IpAddr>, String);

struct Entry {
    lines: Allowance,
    /// The principal's name, for the line about omitted lines.
    who: String,
    left_out: u64,
}

impl Entry {
    const fn new(who: String, per_second: u32) -> Self {
        Self { lines: Allowance::new("", per_second), who, left_out: 0 }
    }

    /// Text of the line, if the limit allows one.
    fn take(&mut self, who: &str, text: &str, now: Time) -> Option<String> {
        if !self.lines.take(now, true) {
            self.left_out += 1;
            return None;
        }
        let behind = match core::mem::take(&mut self.left_out) {
            0 => String::new(),
            count => format!(" ({count} acts before it were left out)"),
        };
        Some(format!("audit: {who}: {text}{behind}"))
    }

    fn sum_up(&mut self, now: Time) -> Option<String> {
        self.lines.sum_up(now)?;
        let count = core::mem::take(&mut self.left_out);
        (count > 0).then(|| format!("audit: {}: {count} more acts were left out", self.who))
    }
}

impl Allowances {
    fn new(per_second: u32) -> Self {
        Self { per_second, own: HashMap::new(), shared: Entry::new("others".to_owned(), per_second) }
    }

    fn entry(&mut self, key: Key, who: &str, now: Time) -> &mut Entry {
        if self.own.len() >= PRINCIPALS_MAX && !self.own.contains_key(&key) {
            // An entry of an earlier second has all its lines again, and need not be remembered.
            let per_second = self.per_second;
            self.own.retain(|_, entry| entry.left_out > 0 || entry.lines.left(now) < per_second);
            if self.own.len() >= PRINCIPALS_MAX {
                return &mut self.shared;
            }
        }
        let per_second = self.per_second;
        self.own.entry(key).or_insert_with(|| Entry::new(who.to_owned(), per_second))
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.own.values_mut().chain([&mut self.shared])
    }
}

impl Audit {
    pub(crate) fn new() -> Self {
        Self { done: Allowances::new(DONE_LINES), refused: Allowances::new(REFUSED_LINES) }
    }

    /// The audit line about an act; `None` if it is left out.
    pub(crate) fn line(&mut self, by: &Principal, what: &str, outcome: &ActOutcome, now: Time) -> Option<String> {
        let who = match by {
            Principal::Client(account) => Who::of(account).to_string(),
            other => other.to_string(),
        };
        let allowances = match outcome {
            ActOutcome::Done(_) => &mut self.done,
            ActOutcome::Denied(_) | ActOutcome::Failed(_) => &mut self.refused,
        };
        allowances.entry(Key::of(by), &who, now).take(&who, &format!("{}: {outcome}", shortened(what)), now)
    }

    /// Summaries of the lines left out, due a second after the first of them.
    pub(crate) fn sum_up(&mut self, now: Time) -> Vec<String> {
        self.done.all().chain(self.refused.all()).filter_map(|entry| entry.sum_up(now)).collect()
    }

    /// Whether lines were left out since the last summary.
    pub(crate) fn has_summary(&mut self) -> bool {
        self.done.all().chain(self.refused.all()).any(|entry| entry.lines.has_summary())
    }
}

impl Key {
    fn of(by: &Principal) -> Self {
        let shown = match by {
            Principal::Client(account) => Who { address: None, name: None, ..Who::of(account) }.to_string(),
            other => other.to_string(),
        };
        Self(by.address(), shown)
    }
}

impl Administration {
    /// Logs an act of a principal that concerns others, done or refused.
    pub(crate) fn audit(&mut self, by: &Principal, what: &str, outcome: &ActOutcome) {
        let now = self.now();
        match self.log.audit.line(by, what, outcome, now) {
            Some(line) => log::info!(target: "audit", "{line}"),
            None => self.counters.add(Counter::AuditLeftOut, 1),
        }
    }

    /// Describes a command for its audit line. Called before the command is carried out: its target may be gone afterwards.
    pub(crate) fn describe_command(&self, command: &Command) -> String {
        match command {
            Command::Disconnect(key) => format!("disconnect on {}", self.name(*key)),
            Command::DisconnectIdle(idle) => {
                format!("disconnect suppliers idle for {} ms on the service", idle.as_millis())
            }
            Command::DeadLetters { act, channel, dead_letters } => {
                let act = match act {
                    DeadLetterAct::Replay => "replay",
                    DeadLetterAct::Remove => "remove",
                };
                format!("{act} {} dead letters on channel {}", dead_letters.len(), channel.0)
            }
            Command::ApplyTopology(_) => "make a topology on the service".to_owned(),
            Command::SetAccess(None) => "drop the rules of access on the service".to_owned(),
            Command::SetAccess(Some(rules)) => {
                format!("set {} rules of access on the service", rules.numbers().count())
            }
            Command::SetClientNames(names) => format!("set {} names of clients on the service", names.len()),
            Command::DeclareChannel(channel) => format!("declare on channel \"{}\"", channel.name.escape_debug()),
            Command::Suspend { key, suspended } => {
                format!("{} on {}", if *suspended { "suspend" } else { "resume" }, self.name(*key))
            }
            Command::PauseLink { name, paused } => {
                format!("{} on link \"{}\"", if *paused { "pause" } else { "resume" }, name.escape_debug())
            }
            Command::AddLink(entry) => {
                format!("add link \"{}\" to \"{}\"", entry.name.escape_debug(), entry.to.escape_debug())
            }
            Command::RemoveLink { name, drop_backlog } => {
                let how = if *drop_backlog { ", and drop what waits for it" } else { "" };
                format!("remove link \"{}\"{how}", name.escape_debug())
            }
            Command::SetQos { on, properties } => format!("set_qos on {}", describe_change(*on, properties)),
        }
    }
}

/// The outcome that an answer means for its command.
pub(crate) fn outcome_of(answer: &Answer) -> ActOutcome {
    match answer {
        Answer::Applied(Err(why)) | Answer::Done(Err(why)) | Answer::LinkAdded(Err(why)) => {
            ActOutcome::Failed(why.clone())
        }
        Answer::Disconnected(0) => ActOutcome::Failed("there is no client to disconnect".to_owned()),
        Answer::DeadLettersDone { done, .. } => ActOutcome::Done(Some(format!("{done} dead letters"))),
        Answer::Disconnected(count) => ActOutcome::Done(Some(format!("{count} disconnected"))),
        Answer::LinkAdded(Ok(false)) => ActOutcome::Done(Some("until the process ends".to_owned())),
        _ => ActOutcome::Done(None),
    }
}

/// Describes a change of quality of service: its target and the properties.
fn describe_change(on: Settable, properties: &[(String, Declared)]) -> String {
    let whose = match on {
        Settable::Channel(channel) => format!("channel {}", channel.0),
        Settable::Admin { channel, admin, .. } => format!("admin {} of channel {}", admin.0, channel.0),
        Settable::Proxy(key) => format!("proxy {} of channel {}", key.proxy.0, key.channel.0),
    };
    let set = properties.iter().map(|(name, value)| format!("{}={value}", name.escape_debug()));
    format!("{whose}: {}", set.collect::<Vec<_>>().join(", "))
}

/// The description of an act, cut short: the principal may have chosen how long it is.
fn shortened(what: &str) -> Cow<'_, str> {
    match what.char_indices().nth(WHAT_CHARS) {
        None => what.into(),
        Some((end, _)) => format!("{}…", what.get(..end).unwrap_or_default()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::{Accounts, Ceilings};
    use std::sync::Arc;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    fn client(accounts: &Arc<Accounts>, address: [u8; 4]) -> Principal {
        Principal::Client(accounts.account_of(address.into()))
    }

    fn denied() -> ActOutcome {
        ActOutcome::Denied("no access rule allows it".to_owned())
    }

    /// Audit lines shared their allowance with all other lines that a client causes: a client that used that up acted unseen.
    #[test]
    fn no_client_uses_up_anothers_lines_and_what_was_refused_none_of_what_is_done() {
        let accounts = Accounts::new(Ceilings::new(75));
        let (one, other) = (client(&accounts, [10, 0, 0, 1]), client(&accounts, [10, 0, 0, 2]));
        let mut audit = Audit::new();
        let mut lines = |by: &Principal, outcome: &ActOutcome, count: usize, millis| -> Vec<String> {
            (0..count).filter_map(|_| audit.line(by, "destroy on channel 3", outcome, at(millis))).collect()
        };
        let done = ActOutcome::Done(None);
        let refused = lines(&one, &denied(), 1_000, 10);
        assert_eq!(refused.len(), 5);
        assert_eq!(refused[0], "audit: 10.0.0.1: destroy on channel 3: denied, no access rule allows it");
        assert_eq!(lines(&other, &denied(), 1, 10).len(), 1);
        assert_eq!(lines(&one, &done, 1, 10), ["audit: 10.0.0.1: destroy on channel 3: done"]);
        assert_eq!(lines(&one, &done, 200, 20).len(), 99);
        assert_eq!(lines(&other, &done, 100, 20).len(), 100);
        let next = lines(&one, &denied(), 1, 1_011);
        assert_eq!(next[0].split_once(" (").unwrap().1, "995 acts before it were left out)");
    }

    #[test]
    fn what_was_left_out_is_said_a_second_later_where_no_other_line_says_it() {
        let accounts = Accounts::new(Ceilings::new(75));
        let by = client(&accounts, [10, 0, 0, 1]);
        let mut audit = Audit::new();
        assert!(!audit.has_summary());
        (0..12).for_each(|_| drop(audit.line(&by, "destroy on channel 3", &denied(), at(10))));
        assert!(audit.has_summary() && audit.sum_up(at(1_009)).is_empty());
        assert_eq!(audit.sum_up(at(1_010)), ["audit: 10.0.0.1: 7 more acts were left out"]);
        assert!(!audit.has_summary() && audit.sum_up(at(3_000)).is_empty());
        // What the next line has said already is not said again.
        (0..12).for_each(|_| drop(audit.line(&by, "destroy on channel 3", &denied(), at(4_000))));
        assert!(audit.line(&by, "set_qos on channel 3", &denied(), at(5_000)).unwrap().contains("7 acts before"));
        assert!(audit.sum_up(at(6_000)).is_empty() && !audit.has_summary());
    }

    #[test]
    fn very_many_principals_share_what_there_is_and_are_forgotten_when_a_second_is_over() {
        let accounts = Accounts::new(Ceilings::new(75));
        let mut audit = Audit::new();
        let mut ask = |first: u8, millis| {
            let one = |last| audit.line(&client(&accounts, [10, 0, first, last]), "destroy", &denied(), at(millis));
            (0..=255).filter_map(one).count()
        };
        assert_eq!(ask(1, 10), PRINCIPALS_MAX + 5);
        assert_eq!(ask(2, 20), 0);
        assert_eq!(ask(3, 1_020), PRINCIPALS_MAX + 5);
        assert!(audit.refused.own.len() <= PRINCIPALS_MAX);
        assert_eq!(
            audit.sum_up(at(3_000)),
            ["audit: others: 187 more acts were left out"],
            "the rest the first line said"
        );
    }
}
