//! Operators' orders for links: the main lane carries them out, and its report is the answer. Links that operators add are stored with the
//! configured objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::admin::audit::outcome_of;
use crate::admin::run::Administration;
use crate::admin::values::{Answer, Declined, FederationMember};
use crate::admin::waiting::Waiting;
use crate::config::LinkEntry;
use crate::counters::Counter;
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::protocols::link::own_durable;
use crate::protocols::{ActOutcome, LinkAct, LinkOrder, ToProtocol};

/// Maximum orders that the main lane has yet to report on.
const ORDERS_MAX: usize = 256;

/// Number of orders without an answer.
const UNANSWERED: u64 = 0;

/// Orders that wait for the main lane's report.
#[derive(Default)]
pub(crate) struct LinkOrders {
    last: u64,
    /// Waiting orders by number.
    waiting: BTreeMap<u64, Pending>,
    /// Channel names last sent to the main lane.
    federated: Vec<String>,
}

/// A waiting order.
struct Pending {
    /// The receiver of the answer, and the description of the order for its audit line.
    order: (Waiting, String),
    then: Then,
}

/// Action after an order is carried out.
enum Then {
    Nothing,
    /// Federation members were listed, which is not audited.
    Listed,
    /// The link was added. It was stored before.
    Added,
    /// The link of this name is to be removed from the store, with its backlog if the flag is set.
    Removed(String, bool),
}

impl Administration {
    /// Pauses or resumes a link.
    pub(super) fn pause_link(&mut self, name: &str, paused: bool, order: (Waiting, String)) {
        self.order_link(LinkAct::Pause { name: name.to_owned(), paused }, Pending { order, then: Then::Nothing });
    }

    /// Adds a link that is valid beside all others. The same one again changes nothing.
    pub(super) fn add_link(&mut self, entry: &LinkEntry, order: (Waiting, String)) {
        let (mut all, _) = self.config.with_links(self.objects.added_links());
        if all.link.contains(entry) {
            let is_removed = |of: &Pending| matches!(&of.then, Then::Removed(name, _) if *name == entry.name);
            if self.answers.link_orders.waiting.values().any(is_removed) {
                let why = "the link is being removed: add it again when it is gone".to_owned();
                return self.conclude_order(order, Ok(Answer::LinkAdded(Err(why))));
            }
            let is_kept = self.persistence.has_store() || self.config.link.contains(entry);
            return self.conclude_order(order, Ok(Answer::LinkAdded(Ok(is_kept))));
        }
        all.link.push(entry.clone());
        match all.check() {
            Err(why) => self.conclude_order(order, Ok(Answer::LinkAdded(Err(why.to_string())))),
            Ok(()) if self.has_too_many_orders() => self.refuse_order(order),
            Ok(()) => {
                self.objects.add_link(entry);
                self.order_link(LinkAct::Add(Box::new(entry.clone())), Pending { order, then: Then::Added });
            }
        }
    }

    /// Removes an added link.
    pub(super) fn remove_link(&mut self, name: &str, drop_backlog: bool, order: (Waiting, String)) {
        let act = LinkAct::Remove { name: name.to_owned(), drop_backlog };
        self.order_link(act, Pending { order, then: Then::Removed(name.to_owned(), drop_backlog) });
    }

    /// Lists the services of the federation.
    pub(super) fn list_federation(&mut self, waiting: Waiting) {
        self.order_link(LinkAct::ListFederation, Pending { order: (waiting, String::new()), then: Then::Listed });
    }

    /// Applies a topology in text form.
    pub(super) fn apply_topology(&mut self, text: &str) -> Result<(), String> {
        let before: BTreeSet<String> = self.objects.added_links().into_iter().map(|link| link.name).collect();
        self.objects.apply_topology(text)?;
        let (all, left_out) = self.config.with_links(self.objects.added_links());
        for (name, why) in left_out {
            log::warn!("link {name:?}: it is not made: {why}");
        }
        let added = all.link.into_iter().skip(self.config.link.len());
        for entry in added.filter(|entry| !before.contains(&entry.name)) {
            self.send_order(LinkOrder { number: UNANSWERED, act: LinkAct::Add(Box::new(entry)) });
        }
        Ok(())
    }

    /// Sends the main lane the names of channels, if all of them are federated.
    pub(super) fn federate_channels(&mut self) {
        if !self.config.federation.takes_all() {
            return;
        }
        let channels = self.objects.named_channels();
        if self.answers.link_orders.federated != channels {
            self.answers.link_orders.federated.clone_from(&channels);
            self.send_order(LinkOrder { number: UNANSWERED, act: LinkAct::Federate(channels) });
        }
    }

    /// Sets the counters of linked services' names.
    pub(super) fn count_federated_names(&mut self) {
        let federation = &mut self.objects.protocol().federation;
        let (names, rejected) = (federation.names_count(), federation.take_rejected());
        self.counters.set(Counter::FederatedNames, names as u64);
        self.counters.add(Counter::FederatedNamesRejected, rejected);
    }

    fn is_stored(&self, link: &str) -> bool {
        self.objects.added_links().iter().any(|of| of.name == link)
    }

    fn has_too_many_orders(&self) -> bool {
        self.answers.link_orders.waiting.len() >= ORDERS_MAX
    }

    fn refuse_order(&mut self, order: (Waiting, String)) {
        self.counters.add(Counter::AdministrationFull, 1);
        self.conclude_order(order, Err(Declined::NoResources));
    }

    /// Passes an order on. The answer is sent when the main lane has reported.
    fn order_link(&mut self, act: LinkAct, pending: Pending) {
        if self.has_too_many_orders() {
            return self.refuse_order(pending.order);
        }
        self.answers.link_orders.last += 1;
        let number = self.answers.link_orders.last;
        self.answers.link_orders.waiting.insert(number, pending);
        self.send_order(LinkOrder { number, act });
    }

    fn send_order(&mut self, order: LinkOrder) {
        self.lane_registry.send(LaneThread::MAIN, ToLane::Protocol(ToProtocol::Link(order)));
    }

    /// Handles the main lane's report on an order; `None` if it has no such link.
    pub(super) fn link_ordered(
        &mut self,
        number: u64,
        done: Option<Result<(), String>>,
        members: Vec<FederationMember>,
    ) {
        let Some(Pending { order, then }) = self.answers.link_orders.waiting.remove(&number) else { return };
        let none = || Err("there is no link of this name".to_owned());
        let answer = match then {
            Then::Listed => {
                let answer = self.answered(order.0, Ok(Answer::Federation(members)));
                return self.answers.done.push(answer);
            }
            Then::Nothing => Answer::Done(done.unwrap_or_else(none)),
            Then::Added => Answer::LinkAdded(done.unwrap_or_else(none).map(|()| self.persistence.has_store())),
            // A link that the configuration left no room for is stored but was not made.
            Then::Removed(name, drop_backlog) => Answer::Done(match done {
                // An added link is removed if the configuration has its name by now.
                Some(Err(why)) if self.config.link.iter().any(|link| link.name == name) => {
                    self.objects.remove_link(&name).then_some(()).ok_or(why)
                }
                Some(Err(why)) => Err(why),
                Some(Ok(())) => {
                    self.objects.remove_link(&name);
                    Ok(())
                }
                None if !drop_backlog && self.is_stored(&name) && self.objects.has_durable(&own_durable(&name)) => {
                    Err("it is not made, and what waited for it is kept: drop that (--drop-backlog, \"drop_backlog\": true)".to_owned())
                }
                None if self.objects.remove_link(&name) => {
                    self.objects.destroy_durable(&own_durable(&name));
                    Ok(())
                }
                None => none(),
            }),
        };
        self.conclude_order(order, Ok(answer));
    }

    fn conclude_order(&mut self, (waiting, what): (Waiting, String), answer: Result<Answer, Declined>) {
        let outcome = match &answer {
            Ok(answer) => outcome_of(answer),
            Err(why) => ActOutcome::Failed(why.to_string()),
        };
        self.audit(&waiting.principal(), &what, &outcome);
        let answer = self.answered(waiting, answer);
        self.answers.done.push(answer);
    }
}
