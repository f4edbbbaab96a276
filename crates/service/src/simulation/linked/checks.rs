//! Checks of promises, against consumers' events and the services' counters.

use std::collections::BTreeMap;

use super::World;
use super::clients::{Key, Pushed};
use crate::admin::values::LinkStatus;
use crate::counters::Counter;

impl World {
    /// The next event that a consumer must still get, if there is one.
    pub(super) fn missing(&self) -> Option<(usize, Key)> {
        self.consumers.iter().enumerate().find_map(|(at, consumer)| {
            let reached = self.reached_without_a_kill(consumer.site);
            let is_missing = |&(key, pushed, site): &(Key, &Pushed, usize)| {
                let is_kept = pushed.is_persistent || reached[site];
                let is_promised = pushed.is_accepted && is_kept && consumer.subscribes_to(key.1, pushed);
                is_promised && !consumer.came.contains_key(&key)
            };
            self.events().find(is_missing).map(|(key, ..)| (at, key))
        })
    }

    /// All pushed events, with their services.
    fn events(&self) -> impl Iterator<Item = (Key, &Pushed, usize)> {
        self.suppliers.iter().flat_map(|supplier| {
            let numbered = (0..).zip(&supplier.pushed);
            numbered.map(|(number, pushed)| ((supplier.number, number), pushed, supplier.site))
        })
    }

    /// For each service, whether `from` reaches it over services that were never killed.
    fn reached_without_a_kill(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.sites.len()];
        reached[from] = !self.sites[from].was_killed();
        for _ in 0..self.sites.len() {
            for (one, other) in &self.lines {
                if reached[*one] || reached[*other] {
                    reached[*one] = !self.sites[*one].was_killed();
                    reached[*other] = !self.sites[*other].was_killed();
                }
            }
        }
        reached
    }

    /// Whether no event waits for a link or is in flight.
    pub(super) fn is_quiet(&self) -> bool {
        let mut flows = self.sites.iter().flat_map(|site| site.flows_out());
        flows.all(|flow| self.never_ends(&flow) || (flow.lag_events, flow.in_flight_events) == (0, 0))
    }

    /// Whether a flow may lead to a process that never returns: without a store the next process is another service.
    fn never_ends(&self, flow: &LinkStatus) -> bool {
        flow.peer_service == 0 && !self.has_stores
    }

    pub(super) fn sum_up(&mut self) {
        let sum = |counter| self.sites.iter().map(|site| site.count(counter)).sum();
        self.summary.repeats = sum(Counter::LinkRepeats);
        self.summary.loops = sum(Counter::LinkLoops);
        self.summary.lost = sum(Counter::LinkEventsLost);
        self.summary.accepted = self.events().filter(|(_, pushed, _)| pushed.is_accepted).count() as u64;
        for consumer in &self.consumers {
            self.summary.delivered += consumer.got.len() as u64;
            self.summary.again += consumer.came.values().map(|processes| processes.len() as u64 - 1).sum::<u64>();
        }
        let is_missing = |key: Key, pushed: &Pushed| {
            let mut consumers = self.consumers.iter();
            pushed.is_accepted && consumers.any(|of| of.subscribes_to(key.1, pushed) && !of.came.contains_key(&key))
        };
        self.summary.missing = self.events().filter(|(key, pushed, _)| is_missing(*key, pushed)).count() as u64;
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for consumer in 0..self.consumers.len() {
            self.check_consumer(consumer)?;
        }
        self.check_flows()?;
        // Events left unanswered on a connection that ends cross again.
        let is_undisturbed = (self.summary.kills, self.summary.cuts) == (0, 0);
        if self.is_tree && is_undisturbed { self.check_crossings() } else { Ok(()) }
    }

    /// Checks that a consumer got all accepted events of its subscriptions, each once and in the order of its supplier.
    fn check_consumer(&self, at: usize) -> Result<(), String> {
        let consumer = &self.consumers[at];
        let was_killed = self.sites[consumer.site].was_killed();
        let mut last = BTreeMap::<(usize, i16, bool), u32>::new();
        for key @ (supplier, number) in &consumer.got {
            let pushed = self.suppliers.get(*supplier).and_then(|of| of.pushed.get(*number as usize));
            let pushed = pushed.ok_or_else(|| format!("consumer {at} gets {key:?}, which was not pushed"))?;
            if !consumer.subscribes_to(*number, pushed) {
                return Err(format!("consumer {at} gets {key:?}, which it does not want"));
            }
            if consumer.came[key].len() > 1 && !was_killed {
                return Err(format!("consumer {at} gets {key:?} twice"));
            }
            // On two ways best-effort events may be quicker than persistent ones, and be lost on one.
            if !pushed.is_persistent && !self.is_tree {
                continue;
            }
            // After a process has ended, only persistent events come again.
            let is_persistent = pushed.is_persistent && self.summary.kills > 0;
            let before = last.insert((*supplier, pushed.priority, is_persistent), *number);
            if before.is_some_and(|before| before > *number) {
                return Err(format!("consumer {at} gets {key:?} behind {before:?}: {pushed:?}"));
            }
        }
        Ok(())
    }

    /// Checks that each event that a service sent over a link in its only process was acknowledged, or counted.
    fn check_flows(&self) -> Result<(), String> {
        for (at, site) in self.sites.iter().enumerate() {
            for flow in site.flows_out() {
                let is_its_only_process = site.starts == 1 && self.has_stores;
                let rest = (flow.lag_events, flow.in_flight_events, flow.rejected, flow.dropped, flow.forgotten);
                if !self.never_ends(&flow) && rest != (0, 0, 0, 0, 0) {
                    return Err(format!("of site {at} something is left, rejected or dropped: {flow:?}"));
                }
                if is_its_only_process && flow.sent != flow.acknowledged + flow.lost {
                    return Err(format!("of site {at} not all is accounted for: {flow:?}"));
                }
                if is_its_only_process && flow.lost > 0 && self.summary.kills == 0 {
                    return Err(format!("site {at} has lost events, and no process was killed: {flow:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that each event crosses a line once if a consumer behind it has subscribed to its type, and never otherwise.
    fn check_crossings(&self) -> Result<(), String> {
        let (mut expected, mut crossed) = (0, 0);
        for (one, other) in &self.lines {
            let is_on_side_of_one = self.is_on_side(*one, *other);
            for (_, pushed, site) in self.events() {
                let is_beyond = |of: usize| is_on_side_of_one[of] != is_on_side_of_one[site];
                let is_wanted = self.consumers.iter().any(|consumer| is_beyond(consumer.site));
                expected += u64::from(is_wanted && !pushed.is_unwanted);
            }
        }
        for site in &self.sites {
            crossed += site.count(Counter::LinkEventsReceived) - site.count(Counter::LinkRepeats);
        }
        if crossed != expected { Err(format!("{crossed} events have crossed, instead of {expected}")) } else { Ok(()) }
    }

    /// The services on one side of a line in a tree.
    fn is_on_side(&self, of: usize, beyond: usize) -> Vec<bool> {
        let mut reached = vec![false; self.sites.len()];
        reached[of] = true;
        for _ in 0..self.sites.len() {
            for (one, other) in self.lines.iter().filter(|line| **line != (of, beyond)) {
                let either = reached[*one] || reached[*other];
                (reached[*one], reached[*other]) = (either, either);
            }
        }
        reached
    }
}
