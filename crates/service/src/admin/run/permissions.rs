//! Permissions of principals that query administration: the rules of access decide, as for clients. Without rules, HTTP has demanded its
//! token before. Through the object `Statistics` every command also needs the right to administer the service.

use engine::ChannelId;

use crate::admin::operators::VisitPurpose;
use crate::admin::run::{Administration, Answers};
use crate::admin::values::{Answer, Command, Query};
use crate::admin::waiting::Sending;
use crate::lane::links::messages::{LaneThread, ToLane, Visit};
use crate::protocols::{ActOutcome, Forbidden, Settable, dead_letter_channels};
use access::Right;
use accounts::Principal;

impl Administration {
    /// Why a query is denied to a principal, if it is. Counters and lists are open to every principal that HTTP admits.
    pub(super) fn forbids_query(&mut self, query: &Query, by: &Principal) -> Option<Forbidden> {
        let (right, channel, what) = match query {
            Query::DeadLetters { .. } => (Some(Right::Administer), None, "a look at dead letters"),
            Query::Topology => (Some(Right::Administer), None, "a look at all that is configured"),
            Query::Channel { channel, .. } => (None, Some(*channel), "a look at what is configured"),
            Query::Timers { channel: Some(channel), .. } => (None, Some(*channel), "a look at timers"),
            Query::Timers { channel: None, .. } => (Some(Right::Administer), None, "a look at all timers"),
            // Open to every principal that may ask at all: protocols find that out.
            Query::Counters
            | Query::Lanes
            | Query::Consumers
            | Query::Channels(_)
            | Query::History(_)
            | Query::Drops
            | Query::Types
            | Query::Suppliers { .. }
            | Query::Restored { .. }
            | Query::DdsJoins
            | Query::Links
            | Query::Federation
            | Query::Progress
            | Query::Figures
            | Query::Names(_)
            | Query::ChannelList { .. } => return None,
        };
        self.forbids(by, right, channel, what)
    }

    /// Why a command is denied to a principal, if it is.
    pub(super) fn forbids_command(&mut self, command: &Command, by: &Principal) -> Option<Forbidden> {
        let (channel, what) = match command {
            Command::Disconnect(key) => (Some(key.channel), "disconnect"),
            Command::Suspend { key, suspended } => (Some(key.channel), if *suspended { "suspend" } else { "resume" }),
            Command::SetQos { on, .. } => {
                let (Settable::Channel(channel)
                | Settable::Admin { channel, .. }
                | Settable::Proxy(engine::ProxyKey { channel, .. })) = on;
                (Some(*channel), "to set the quality of service")
            }
            Command::DeadLetters { channel, .. } => (Some(*channel), "to replay or remove dead letters"),
            Command::DisconnectIdle(_) => (None, "disconnect-idle"),
            Command::PauseLink { paused, .. } => (None, if *paused { "to pause a link" } else { "to resume a link" }),
            Command::AddLink(_) => (None, "to add a link"),
            Command::RemoveLink { .. } => (None, "to remove a link"),
            Command::ApplyTopology(_)
            | Command::SetAccess(_)
            | Command::SetClientNames(_)
            | Command::DeclareChannel(_) => (None, "to configure the service"),
        };
        let forbidden = self.forbids(by, Some(Right::Administer), channel, what);
        let Command::SetQos { properties, .. } = command else { return forbidden };
        // The service itself puts dead letters into the channel that is named for them.
        forbidden.or_else(|| {
            let what = "to have another channel's dead letters go there";
            dead_letter_channels(properties).find_map(|to| self.forbids(by, Some(Right::Administer), Some(to), what))
        })
    }

    /// Admits an operator to a channel, if it may look at its events, or publish there. Requests in lines of JSON are decided line by line.
    pub(super) fn receive_visit(&mut self, visit: Visit, answers: &mut Answers) {
        let Visit { visitor, purpose, to } = visit;
        let by = Principal::Operator(visitor.account.clone());
        let forbidden = match purpose {
            VisitPurpose::Look(channel) => {
                self.forbids(&by, Some(Right::Subscribe), Some(channel), "to look at events")
            }
            VisitPurpose::Publish(channel) => {
                let forbidden = self.forbids(&by, Some(Right::Publish), Some(channel), "to publish an event");
                let outcome = forbidden.as_ref().map(|forbidden| ActOutcome::Denied(forbidden.rule.clone()));
                let what = format!("publish on channel {}", channel.0);
                self.audit(&by, &what, &outcome.unwrap_or(ActOutcome::Done(Some("admitted".to_owned()))));
                forbidden
            }
            VisitPurpose::Lines { .. } => None,
        };
        let answer = forbidden.map_or(Answer::Done(Ok(())), Answer::Denied);
        if let Answer::Done(_) = answer {
            self.lane_registry.send(LaneThread::MAIN, ToLane::Visitor(Box::new(visitor)));
        }
        answers.push(Sending::ToProgram(to, Ok(answer)));
    }

    fn forbids(
        &mut self,
        by: &Principal,
        right: Option<Right>,
        channel: Option<ChannelId>,
        what: &str,
    ) -> Option<Forbidden> {
        // Clients were asked when their requests came, and the service may everything.
        let Principal::Operator(account) = by else { return None };
        let forbidden = self.objects.permits(account, right, channel, what).err();
        self.note_denials();
        forbidden
    }
}
