//! Acts, for the audit log: operations of an account beyond its own objects, whether successful or not.
//!
//! An act is an operation that needs the right to administer, or changes or ends another owner's object. Reads are no acts. Each is logged
//! once, whatever its outcome.

use super::{Guard, Needs, Objects, needs};
use crate::exceptions::{ACCESS_DENIED, Raised};
use crate::qos;
use crate::table::Target;
use accounts::Account;
use giop::cdr::Reader;
use std::sync::Arc;

/// Maximum acts stored until they are polled: a request is one at most.
const ACTS_MAX: usize = 16;

/// An operation done or attempted, for the audit log.
#[derive(Clone, Debug)]
pub struct Act {
    /// Account of the client.
    pub by: Arc<Account>,
    /// The act and its object.
    pub what: String,
    /// The outcome.
    pub outcome: ActOutcome,
}

/// The outcome of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActOutcome {
    /// Done; with the object that it made, if any.
    Done(Option<String>),
    /// Denied by this rule of access.
    Denied(String),
    /// Refused for this reason.
    Failed(String),
}

impl core::fmt::Display for ActOutcome {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Done(None) => f.write_str("done"),
            Self::Done(Some(made)) => write!(f, "done, {made}"),
            Self::Denied(rule) => write!(f, "denied, {rule}"),
            Self::Failed(why) => write!(f, "failed, {why}"),
        }
    }
}

impl Guard {
    /// The name of an operation as an act; `None` if it is no act. Call it before the operation, which may remove the object.
    pub(in crate::protocol) fn act(
        &self,
        objects: &Objects,
        target: Target,
        operation: &str,
        args: &Reader<'_>,
    ) -> Option<String> {
        let account = objects.ledger.principal.as_ref()?;
        let is_act = match needs(target, operation) {
            Needs::Administers => !is_look(target, operation),
            Needs::Owns(_) => !self.is_own(objects, target, account),
            Needs::KnowsAny => matches!(operation, "create_channel" | "create_named_channel" | "create_object"),
            Needs::Nothing | Needs::Knows | Needs::Uses(_) => false,
        };
        if !is_act || !log::log_enabled!(target: "audit", log::Level::Info) {
            return None;
        }
        let is_setting = matches!(operation, "set_qos" | "set_admin");
        let set = if is_setting { qos::reported(&mut args.clone()) } else { None };
        let set = set.map_or_else(String::new, |set| format!(": {set}"));
        Some(format!("{operation} on {}{set}", objects.describe_target(target)))
    }

    /// Notes the outcome of an act.
    pub(in crate::protocol) fn note_act(&mut self, objects: &Objects, what: String, result: Result<(), &Raised>) {
        let Some(by) = objects.ledger.principal.clone().filter(|_| self.acts.len() < ACTS_MAX) else {
            return;
        };
        let outcome = match result {
            Ok(()) => ActOutcome::Done(objects.made_by_act()),
            Err(Raised::System(ACCESS_DENIED)) => {
                ActOutcome::Denied(self.why.take().unwrap_or_else(|| "no access rule allows it".to_owned()))
            }
            Err(raised) => ActOutcome::Failed(raised.to_string()),
        };
        self.acts.push_back(Act { by, what, outcome });
    }

    /// Takes the next act, to be logged.
    pub fn poll_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// The rules that caused the last denial.
    pub fn take_why(&mut self) -> Option<String> {
        self.why.take()
    }
}

/// Whether an operation that needs the right to administer only reads.
fn is_look(target: Target, operation: &str) -> bool {
    let looks = operation.starts_with("get_") || operation.starts_with("_get_");
    looks && !(matches!(target, Target::MonitorControl) && operation.contains("clear"))
}
