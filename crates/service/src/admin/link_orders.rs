//! Operators' orders for links: passed on to the main lane, which has them, and answered with its report.

use std::collections::BTreeMap;

use crate::admin::audit::outcome_of;
use crate::admin::run::Administration;
use crate::admin::values::{Answer, Declined};
use crate::admin::waiting::Waiting;
use crate::counters::Counter;
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::protocols::{ActOutcome, LinkOrder, ToProtocol};

/// Orders that the main lane may have yet to report on.
const ORDERS_MAX: usize = 256;

/// Orders that wait for the main lane's report.
#[derive(Default)]
pub(crate) struct LinkOrders {
    last: u64,
    /// By the order's number: the receiver of the answer, and the description of the order for its audit line.
    waiting: BTreeMap<u64, (Waiting, String)>,
}

impl Administration {
    /// Orders that a link pauses or goes on. The answer goes when the main lane has reported.
    pub(super) fn order_link(&mut self, name: &str, paused: bool, (waiting, what): (Waiting, String)) {
        if self.answers.link_orders.waiting.len() >= ORDERS_MAX {
            self.counters.add(Counter::AdministrationFull, 1);
            return self.conclude_order((waiting, what), Err(Declined::NoResources));
        }
        self.answers.link_orders.last += 1;
        let number = self.answers.link_orders.last;
        self.answers.link_orders.waiting.insert(number, (waiting, what));
        let order = LinkOrder { number, name: name.to_owned(), paused };
        self.lane_registry.send(LaneThread::MAIN, ToLane::Protocol(ToProtocol::Link(order)));
    }

    /// The main lane has carried out an order, or says why not.
    pub(super) fn link_ordered(&mut self, number: u64, done: Result<(), String>) {
        if let Some(order) = self.answers.link_orders.waiting.remove(&number) {
            self.conclude_order(order, Ok(Answer::Done(done)));
        }
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
