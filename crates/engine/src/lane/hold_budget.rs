//! Limits how long the consumers of one client address may block others: their `hold_budget` of time in any ten
//! minutes, however they take events meanwhile and however many they are, at once or in succession. A consumer of
//! unknown address has a budget of its own. All addresses of a channel together have twice the budget of one, so that
//! many block suppliers no longer than two do.
//!
//! The budget is spent while a consumer blocks suppliers and another consumer of a blocked event has taken all its
//! events. Of the other consumers of an event, the one with the smallest backlog is observed. Time in which several
//! consumers of an address block suppliers counts once. Where no other consumer could go on, as where the only
//! consumer is slow, nothing is spent.
//!
//! When the budget is spent, the consumer is disconnected, or stops blocking suppliers: events without room are dropped for it until it
//! takes something and half of the budget is available again. A new connection from the same address does not block suppliers either.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::channel::{ELSEWHERE, Whose};
use super::queue::Entry;
use super::suppliers::Supplier;
use super::{Lane, Outbox};
use crate::{ClientAddress, DiscardReason, DisconnectReason, Notice, ProxyId, Time};

const MINUTE_NANOS: u64 = 60_000_000_000;
/// Ten full minutes, and the current one.
const MINUTES: usize = 11;
/// Shortest interval between two checks of a budget, so that another consumer that is busy at the moment does not cause one all the time.
const LOOK_AT_LEAST: Duration = Duration::from_millis(10);
/// Budget of all addresses together, as a multiple of one address's.
const TIMES_FOR_ALL: u32 = 2;
/// Most budgets of one channel with time spent. Beyond it the one with the least spent is removed.
const BUDGETS_MAX: usize = 1_024;

/// Time spent in each of the last minutes, in nanoseconds. A span counts in the minute in which it ended.
#[derive(Debug, Default)]
pub(super) struct Spent {
    nanos: [u64; MINUTES],
    minute: u64,
}

impl Spent {
    fn of_minute(&mut self, minute: u64) -> Option<&mut u64> {
        self.nanos.get_mut(usize::try_from(minute % MINUTES as u64).ok()?)
    }

    /// Removes time spent more than ten minutes ago.
    fn roll(&mut self, now: Time) {
        let minute = now.0 / MINUTE_NANOS;
        let passed = minute.saturating_sub(self.minute);
        for past in 1..=passed.min(MINUTES as u64) {
            if let Some(nanos) = self.of_minute(self.minute + past) {
                *nanos = 0;
            }
        }
        self.minute = self.minute.max(minute);
    }

    fn add(&mut self, time: Duration, now: Time) {
        self.roll(now);
        if let Some(nanos) = self.of_minute(self.minute) {
            *nanos = nanos.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Time spent in the last ten to eleven minutes.
    fn total(&mut self, now: Time) -> Duration {
        self.roll(now);
        Duration::from_nanos(self.nanos.iter().fold(0, |sum, nanos| sum.saturating_add(*nanos)))
    }
}

/// Consumers that share a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BudgetOf {
    Address(ClientAddress),
    Proxy(ProxyId),
}

#[derive(Debug, Default)]
struct Budget {
    spent: Spent,
    /// Time up to which spending was counted.
    until: Time,
    /// Whether it was noted as spent.
    is_noted: bool,
}

impl Budget {
    /// Spends the time from `since` until now, without any part counted before.
    fn spend(&mut self, since: Time, now: Time) {
        self.spent.add(now.since(since.max(self.until)), now);
        self.until = now;
    }
}

/// Budgets of a channel's consumers.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    each: BTreeMap<BudgetOf, Budget>,
    /// Budget of all addresses together.
    all: Budget,
    /// Largest budget among the consumers that spent something lately.
    largest: Duration,
}

impl Budgets {
    /// Rest of a budget, and at most that of all addresses together.
    fn left(&mut self, of: BudgetOf, budget: Duration, now: Time) -> Duration {
        let spent = self.each.get_mut(&of).map_or(Duration::ZERO, |budget| budget.spent.total(now));
        budget.saturating_sub(spent).min(self.left_for_all(budget, now))
    }

    fn left_for_all(&mut self, budget: Duration, now: Time) -> Duration {
        let spent = self.all.spent.total(now);
        if spent.is_zero() {
            self.largest = Duration::ZERO;
        }
        self.largest.max(budget).saturating_mul(TIMES_FOR_ALL).saturating_sub(spent)
    }

    /// Spends the time from `since` until now, without any part counted before.
    fn spend(&mut self, of: BudgetOf, budget: Duration, since: Time, now: Time) {
        self.budget(of, now).spend(since, now);
        self.all.spend(since, now);
        self.largest = self.largest.max(budget);
    }

    /// Notes that a budget, or the one of all addresses, is spent. Returns whether that is new.
    fn note_spent(&mut self, of: BudgetOf, budget: Duration, now: Time) -> bool {
        let is_of_all = self.left_for_all(budget, now).is_zero();
        let spent = if is_of_all { &mut self.all } else { self.budget(of, now) };
        !core::mem::replace(&mut spent.is_noted, true)
    }

    /// Notes that half of a budget is available again.
    fn end_spent(&mut self, of: BudgetOf) {
        self.all.is_noted = false;
        if let Some(budget) = self.each.get_mut(&of) {
            budget.is_noted = false;
        }
    }

    fn budget(&mut self, of: BudgetOf, now: Time) -> &mut Budget {
        if self.each.len() >= BUDGETS_MAX && !self.each.contains_key(&of) {
            self.each.retain(|_, budget| !budget.spent.total(now).is_zero());
            let spent = self.each.iter_mut().map(|(of, budget)| (budget.spent.total(now), *of));
            let least = spent.min().map(|(_, of)| of);
            if let Some(least) = least.filter(|_| self.each.len() >= BUDGETS_MAX) {
                self.each.remove(&least);
            }
        }
        self.each.entry(of).or_default()
    }
}

/// Charge of a consumer that blocks suppliers while others could go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charging {
    /// Time up to which it is charged.
    since: Time,
    /// When the budget may be spent.
    due: Time,
    /// Slot of the other consumer; [`ELSEWHERE`] for consumers on other lanes.
    other: u32,
}

impl Outbox {
    /// When the outbox's budget may be spent; [`Entry::NEVER`] if it is not being charged.
    pub(super) fn budget_due(&self) -> Time {
        self.hold.charging.map_or(Entry::NEVER, |charging| charging.due)
    }

    /// Whether the time for which the outbox blocks suppliers is charged to it.
    fn is_charged(&self) -> bool {
        let settings = &self.terms.settings;
        let is_own = !self.hold.is_late || settings.own_latency_bound;
        let is_bridge = self.bridge.is_some();
        !settings.hold_budget.is_zero() && !self.dead && !is_bridge && self.hold.waited_out.is_none() && is_own
    }

    /// The budget that the consumer spends.
    fn budget_of(&self) -> BudgetOf {
        self.terms.client_address.map_or(BudgetOf::Proxy(self.key.proxy), BudgetOf::Address)
    }

    /// Since when the consumer has had nothing to take, if it keeps up.
    fn idle_since(&self) -> Option<Time> {
        let takes = !self.dead && !self.suspended && self.trouble.failures == 0 && self.catch_up.is_none();
        (takes && self.backlog() == 0 && self.elsewhere.events == 0).then_some(self.flight.answered_at)
    }
}

impl Lane {
    /// Charges the consumers that block an event's suppliers, if the event is for others as well. Called once it is admitted.
    #[cold]
    pub(super) fn charge_holders(&mut self, supplier: &Supplier) {
        let (channel, whose) = (supplier.channel, supplier.whose());
        let mut holders = core::mem::take(&mut self.space.holders);
        let slow_consumer = self.channels.get(channel).and_then(|state| state.room(whose).hold?.by);
        if let Some((slot, _)) = slow_consumer.filter(|(slot, _)| !holders.contains(slot)) {
            holders.push(slot);
        }
        let least = self.least_backlogs(supplier);
        for slot in holders.drain(..) {
            let other = least.into_iter().flatten().find(|other| *other != slot);
            let is_elsewhere = || supplier.handed_over && self.has_consumers_elsewhere(channel);
            if let Some(other) = other.or_else(|| is_elsewhere().then_some(ELSEWHERE)) {
                self.begin_charge(slot, other);
            }
        }
        self.space.holders = holders;
    }

    /// The two outboxes with the smallest backlogs among an event's destinations.
    fn least_backlogs(&self, supplier: &Supplier) -> [Option<u32>; 2] {
        let bridged = if supplier.parted { &self.space.bridged[..] } else { &[] };
        let slots = self.space.filters.chosen.iter().map(|chosen| chosen.slot).chain(bridged.iter().copied());
        let mut least: [Option<(u64, ProxyId, u32)>; 2] = [None, None];
        for slot in slots {
            let Some(outbox) = self.outboxes.get(slot).filter(|outbox| !outbox.dead) else { continue };
            let this = (outbox.backlog() as u64 + outbox.elsewhere.events, outbox.key.proxy, slot);
            let [first, second] = least;
            if first.is_none_or(|first| this < first) {
                least = [Some(this), first];
            } else if second.is_none_or(|second| this < second) {
                least = [first, Some(this)];
            }
        }
        least.map(|found| found.map(|(.., slot)| slot))
    }

    /// Whether other lanes have consumers of a channel.
    fn has_consumers_elsewhere(&self, channel: u32) -> bool {
        self.channels.get(channel).is_some_and(|state| state.members.contains(&ELSEWHERE))
    }

    /// Rest of a consumer's budget.
    fn budget_left(&mut self, slot: u32) -> Duration {
        let Some(outbox) = self.outboxes.get(slot) else { return Duration::ZERO };
        let (budget, budget_of) = (outbox.terms.settings.hold_budget, outbox.budget_of());
        let Some(state) = self.channels.get_mut(outbox.channel) else { return Duration::ZERO };
        let left = state.hold_budgets.left(budget_of, budget, self.now);
        if left >= budget / 2 {
            state.hold_budgets.end_spent(budget_of);
        }
        left
    }

    /// When a consumer's budget may be spent: now, if it is spent already.
    fn budget_spent_at(&mut self, slot: u32) -> Time {
        let left = self.budget_left(slot);
        if left.is_zero() { self.now } else { self.now + left.max(LOOK_AT_LEAST) }
    }

    fn begin_charge(&mut self, slot: u32, other: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.is_charged()) else { return };
        if let Some(charging) = &mut outbox.hold.charging {
            charging.other = other;
            return;
        }
        let due = self.budget_spent_at(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        outbox.hold.charging = Some(Charging { since: self.now, due, other });
        outbox.look_at(due, &mut self.agenda.timers);
        let channel = outbox.channel;
        if let Some(state) = self.channels.get_mut(channel) {
            state.charged.push(slot);
        }
    }

    /// Charges a channel's consumers for the time until now, before others of them get something to take.
    #[cold]
    pub(super) fn charge_until_now(&mut self, channel: u32) {
        for index in 0.. {
            let slot = self.channels.get(channel).and_then(|state| state.charged.get(index).copied());
            let Some(slot) = slot else { break };
            self.charge(slot);
        }
    }

    /// Charges a consumer for the time until now, if another had nothing to take.
    pub(super) fn charge(&mut self, slot: u32) {
        let now = self.now;
        let Some(Charging { since, other, .. }) = self.outboxes.get(slot).and_then(|outbox| outbox.hold.charging)
        else {
            return;
        };
        let idle_since = match other {
            ELSEWHERE => Some(since),
            other => self.outboxes.get(other).and_then(Outbox::idle_since),
        };
        let Some(outbox) = self.outboxes.get(slot) else { return };
        if let Some(idle_since) = idle_since
            && let Some(state) = self.channels.get_mut(outbox.channel)
        {
            let budget = outbox.terms.settings.hold_budget;
            state.hold_budgets.spend(outbox.budget_of(), budget, since.max(idle_since), now);
        }
        let due = self.budget_spent_at(slot);
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.hold.charging = Some(Charging { since: now, due, other });
        }
    }

    /// Ends the charge of a consumer once it blocks suppliers for no reason any more.
    pub(super) fn end_charge(&mut self, slot: u32) {
        self.charge(slot);
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.hold.charging.is_some()) else { return };
        let Some(state) = self.channels.get_mut(outbox.channel) else { return };
        let is_laggard = Whose::ALL.into_iter().filter_map(|whose| state.room(whose).hold).any(|hold| hold.is_by(slot));
        if is_laggard || outbox.hold.holding {
            return;
        }
        outbox.hold.charging = None;
        state.charged.retain(|charged| *charged != slot);
        let disconnects = outbox.terms.settings.spent_disconnects;
        if !disconnects && self.budget_left(slot).is_zero() {
            self.note_spent(slot);
        }
    }

    /// Notes that a budget is spent: the consumer does not block suppliers any more. One notice covers all consumers of an address.
    fn note_spent(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.dead && !outbox.hold.is_spent) else {
            return;
        };
        outbox.hold.is_spent = true;
        if outbox.hold.waited_out.is_some() {
            return;
        }
        outbox.hold.waited_out = Some(outbox.counters.discards.of(DiscardReason::WaitedOut));
        let (key, blocked_for) = (outbox.key, outbox.terms.settings.hold_budget);
        let budget_of = outbox.budget_of();
        let budgets = self.channels.get_mut(outbox.channel).map(|state| &mut state.hold_budgets);
        if budgets.is_some_and(|budgets| budgets.note_spent(budget_of, blocked_for, self.now)) {
            self.news.notices.push_back(Notice::HoldSpent { key, blocked_for });
        }
    }

    /// Disconnects a consumer that has spent its budget, or makes it lose events without room.
    pub(super) fn look_at_budget(&mut self, slot: u32) {
        if self.outboxes.get(slot).is_none_or(|outbox| outbox.budget_due() > self.now) {
            return;
        }
        self.charge(slot);
        if !self.budget_left(slot).is_zero() {
            return;
        }
        let Some(outbox) = self.outboxes.get(slot) else { return };
        let blocked_for = outbox.terms.settings.hold_budget;
        if outbox.terms.settings.spent_disconnects {
            return self.disconnect(slot, DisconnectReason::HoldSpent { blocked_for });
        }
        self.note_spent(slot);
        self.go_on_without(slot);
    }

    /// Whether a consumer must not begin to block suppliers, since its budget is spent.
    #[cold]
    pub(super) fn has_spent(&mut self, slot: u32) -> bool {
        let may_stay = |outbox: &Outbox| outbox.is_charged() && !outbox.terms.settings.spent_disconnects;
        let has_spent = self.outboxes.get(slot).is_some_and(may_stay) && self.budget_left(slot).is_zero();
        if has_spent {
            self.note_spent(slot);
        }
        has_spent
    }

    /// How long a consumer that has spent its budget has taken nothing while there was no room: if that reaches the
    /// time for which it would have blocked suppliers, and it could take something.
    pub(super) fn silent_beyond_budget(&mut self, slot: u32) -> Option<Duration> {
        let outbox = self.outboxes.get(slot).filter(|outbox| outbox.hold.is_spent && !outbox.suspended)?;
        if outbox.terms.settings.is_waited_out() || !outbox.can_take() {
            return None;
        }
        let pressed = *self.channels.get_mut(outbox.channel)?.pressed_since.get_or_insert(self.now);
        let since = outbox.waited_for_since(pressed, self.now);
        (outbox.blocked_until(since) <= self.now).then(|| self.now.since(since))
    }

    /// Whether a consumer's budget is spent, and less than half of it is available again.
    pub(super) fn is_spent(&mut self, slot: u32) -> bool {
        let Some(outbox) = self.outboxes.get(slot) else { return false };
        let budget = outbox.terms.settings.hold_budget;
        outbox.hold.is_spent && !budget.is_zero() && self.budget_left(slot) < budget / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_more_than_ten_minutes_ago_is_forgotten_and_nothing_sooner() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut spent = Spent::default();
        spent.add(Duration::from_secs(20), at(59));
        spent.add(Duration::from_secs(5), at(300));
        assert_eq!(spent.total(at(659)), Duration::from_secs(25));
        assert_eq!(spent.total(at(660)), Duration::from_secs(5));
        assert_eq!(spent.total(at(86_400)), Duration::ZERO);
    }
}
