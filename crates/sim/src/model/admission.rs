//! Admission of events, and the limits of outboxes and channels.

use engine::{
    Admission, BlockedBy, ChannelId, DiscardPolicy, DiscardReason, DisconnectReason, FullOutbox, Mapping, Notice,
    OrderPolicy, OutboxSettings, ProxyKey, ProxyState, Refusal, Side, Ticket,
};

use super::filters::Says;
use super::waiting::{Header, Waiting};
use super::{Event, Hold, Model, Reason, Said, Withheld};

/// Charge of an event for each of its consumers; the second where events are sorted or expire.
const CONSUMER_BYTES: u64 = 32;
const SORTED_CONSUMER_BYTES: u64 = 128;

impl Model {
    // ---- events in ----

    pub(super) fn admit(&mut self, source: ProxyKey, approved: bool, first: &[ProxyKey]) -> Result<Said, Refusal> {
        let event = self.events.len() - 1;
        let channel = source.channel;
        let budget = self.routed.channel(channel)?.limits.memory_budget_bytes;
        let supplier = self.routed.proxy(source)?;
        if supplier.side != Side::Suppliers {
            return Err(Refusal::ProxyNotFound { proxy: source });
        }
        if supplier.state == ProxyState::Unconnected {
            return Err(Refusal::NotConnected { proxy: source });
        }
        let nowhere = Said::Decided(Admission::Accepted { destinations: 0 });
        match self.routed.says(source, &self.events[event].content) {
            _ if approved => {}
            (Says::Yes, _) => {}
            (Says::Ask, filter_groups) => return Ok(Said::AwaitingFilter(filter_groups)),
            (Says::No, _) => {
                self.counts.filtered_in += 1;
                return Ok(nowhere);
            }
        }
        let destinations = self.destinations(event);
        if destinations.is_empty() {
            self.counts.unwanted += 1;
            return Ok(nowhere);
        }
        let Header { timeout, start, stop, .. } = self.events[event].header;
        let has_times = timeout.is_some() || start.is_some() || stop.is_some();
        let consumer_bytes = if has_times || self.sorts(channel) { SORTED_CONSUMER_BYTES } else { CONSUMER_BYTES };
        let charge = |destinations: &[usize], weight: u64| weight + consumer_bytes * destinations.len() as u64;
        let weight = self.events[event].weight;
        let charged_bytes = charge(&destinations, weight);
        if charged_bytes > budget {
            return Err(Refusal::EventTooLarge { charged_bytes, budget_bytes: budget });
        }
        for at in destinations {
            let (settings, outbox) = (self.settings(at), &self.outboxes[at]);
            if let Some(max) = settings.max_events_per_consumer
                && granted(&settings, true) == Some(FullOutbox::Reject)
                && self.is_full(at)
            {
                return Err(Refusal::OutboxFull { proxy: outbox.key, capacity_events: max.get() });
            }
        }
        let hold = self.make_room(channel, charged_bytes)?;
        let destinations = self.destinations(event);
        if destinations.is_empty() {
            self.counts.unwanted += 1;
            return Ok(nowhere);
        }
        self.events[event].charge = charge(&destinations, weight);
        self.events[event].serial = self.admitted;
        self.admitted += 1;

        Ok(Said::Decided(self.fan_out(event, destinations, hold, first)))
    }

    fn fan_out(&mut self, event: usize, destinations: Vec<usize>, hold: Option<Hold>, first: &[ProxyKey]) -> Admission {
        let channel = self.events[event].channel;
        let mut reasons = vec![];
        let mut doomed = vec![];
        let mut taken = 0;
        self.events[event].consumers = destinations.iter().map(|at| self.outboxes[*at].key).collect();
        for at in destinations {
            let waiting = self.waiting(at, event);
            if self.has_expired(waiting) {
                self.count_discards(at, DiscardReason::Expired, 1);
                continue;
            }
            if self.is_full(at) && !self.make_place(at, waiting, &mut doomed) {
                continue;
            }
            if !self.can_take(at) {
                self.outboxes[at].silent_since = self.now;
            }
            self.outboxes[at].waiting.push(waiting);
            taken += 1;
            let (outbox, exceeds) = (&self.outboxes[at], self.exceeds_bound(at));
            if outbox.late && !exceeds {
                self.end_outbox_hold(at);
            } else if !outbox.holding && exceeds {
                let outbox = &mut self.outboxes[at];
                (outbox.holding, outbox.late, outbox.holding_since) = (true, true, self.now);
                self.late += 1;
            }
            let yet = self.still_blocked(at);
            if self.outboxes[at].holding
                && (self.outboxes[at].late || self.count_blocked(None, Reason::Outbox(at)) < yet)
            {
                reasons.push(Reason::Outbox(at));
                self.outboxes[at].blocked_events += 1;
            }
        }
        self.counts.queued += u64::from(taken);
        for at in self.in_order_of(first).into_iter().filter(|at| doomed.contains(at)) {
            self.disconnect(at, DisconnectReason::OutboxFull);
        }
        self.look_for_room();
        if let Some(hold) = hold {
            self.begin_hold(hold);
        }
        let yet = self.blocked_for_room(channel);
        let holds_one_more = self.count_blocked(Some(channel), Reason::Channel) < yet;
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.channel == channel).filter(|_| holds_one_more) {
            reasons.push(Reason::Channel);
            hold.blocked_events += 1;
        }
        if reasons.is_empty() {
            return Admission::Accepted { destinations: taken };
        }
        let ticket = Ticket(self.tickets_issued);
        self.tickets_issued += 1;
        self.tickets.push(Withheld { ticket, channel, reasons });
        Admission::Withheld(ticket)
    }

    fn destinations(&self, event: usize) -> Vec<usize> {
        let mut found = self.present();
        let Event { channel, content, .. } = &self.events[event];
        found.retain(|at| {
            let outbox = &self.outboxes[*at];
            outbox.key.channel == *channel && !outbox.dead && self.routed.says(outbox.key, content).0 != Says::No
        });
        found
    }

    /// Whether a channel's consumers sort events, or let them expire.
    fn sorts(&self, channel: ChannelId) -> bool {
        let mut present = self.present();
        present.retain(|at| self.outboxes[*at].key.channel == channel);
        let maps = |at: &usize| {
            let mapping_of = |mapping| self.routed.mapping_of(self.outboxes[*at].key, mapping);
            mapping_of(Mapping::Priority).is_some() || mapping_of(Mapping::Lifetime).is_some()
        };
        present.iter().any(maps)
            || present.into_iter().map(|at| self.settings(at)).any(|settings| {
                settings.timeout.is_some()
                    || [OrderPolicy::Priority, OrderPolicy::Deadline].contains(&settings.order_policy)
                    || [DiscardPolicy::Priority, DiscardPolicy::Deadline].contains(&settings.discard_policy)
            })
    }

    pub(super) fn is_full(&self, at: usize) -> bool {
        let max = self.settings(at).max_events_per_consumer;
        max.is_some_and(|max| self.outboxes[at].waiting.len() >= max.get() as usize)
    }

    /// Makes room in a full outbox. Returns whether the arriving event goes in.
    pub(super) fn make_place(&mut self, at: usize, arriving: Waiting, doomed: &mut Vec<usize>) -> bool {
        let settings = self.settings(at);
        let (policy, reason) = match granted(&settings, true).unwrap_or(FullOutbox::Discard) {
            policy if policy != FullOutbox::Hold && !self.blocks(at) => (policy, DiscardReason::OutboxFull),
            _ if self.outboxes[at].waited_out.is_some() => (FullOutbox::Discard, DiscardReason::WaitedOut),
            _ => (FullOutbox::Hold, DiscardReason::OutboxFull),
        };
        if policy == FullOutbox::Disconnect {
            doomed.push(at);
            return false;
        }
        if policy == FullOutbox::Hold && (!self.outboxes[at].holding || self.outboxes[at].late) {
            (self.outboxes[at].holding, self.outboxes[at].late) = (true, false);
            self.outboxes[at].holding_since = self.now;
            let by = Some(BlockedBy::Consumer(self.outboxes[at].key));
            self.notices.push(Notice::SuppliersBlocked { channel: self.outboxes[at].key.channel, by });
        }
        self.note_full(at, policy, granted(&settings, true) != settings.full_outbox);
        self.outboxes[at].full_at_bound = true;
        if policy == FullOutbox::Hold {
            return true;
        }
        while self.is_full(at) {
            let mut all = self.outboxes[at].waiting.clone();
            all.push(arriving);
            if Self::victim(settings.discard_policy, &all) == Some(arriving.event) {
                self.count_discards(at, reason, 1);
                self.outboxes[at].dropped_while_full += 1;
                return false;
            }
            self.discard_one(at, reason);
        }
        true
    }

    // ---- limits of a channel ----

    pub(super) fn make_room(&mut self, channel: ChannelId, charge: u64) -> Result<Option<Hold>, Refusal> {
        let limits = self.routed.channel(channel)?.limits;
        let budget = limits.memory_budget_bytes;
        let max_queue = limits.max_queue_length.map(|max| u64::from(max.get()));
        let refusal = |queue: bool| match limits.max_queue_length {
            Some(max) if queue => Refusal::QueueFull { channel, capacity_events: max.get() },
            _ => Refusal::MemorySpent { channel, budget_bytes: budget },
        };
        if self.holds.iter().any(|hold| hold.channel == channel) {
            let (events, bytes, _) = self.usage(channel);
            let queue = max_queue.is_some_and(|max| events + 1 > 2 * max);
            let is_one =
                |withheld: &Withheld| withheld.channel == channel && withheld.reasons.contains(&Reason::Channel);
            if !self.tickets.iter().any(is_one) {
                return Ok(None);
            }
            return if queue || bytes + charge > 2 * budget { Err(refusal(queue)) } else { Ok(None) };
        }
        let mut passed = vec![];
        loop {
            let (events, bytes, _) = self.usage(channel);
            let memory = bytes + charge > budget;
            let queue = max_queue.is_some_and(|max| events + 1 > max);
            if !memory && !queue {
                return Ok(None);
            }
            if let Some(place) = self.orphaned_events.iter().position(|event| self.events[*event].channel == channel) {
                self.orphaned_events.remove(place);
                continue;
            }
            if queue && limits.reject_new_events {
                return Err(refusal(true));
            }
            let mut laggard: Option<usize> = None;
            for at in self.present() {
                let counts = self.outboxes[at].key.channel == channel && self.weight(at) > 0 && !passed.contains(&at);
                if counts && laggard.is_none_or(|largest| self.weight(at) > self.weight(largest)) {
                    laggard = Some(at);
                }
            }
            let hold = |by| Hold { channel, by, since: self.now, memory, queue, blocked_events: 0, look_at: None };
            let Some(at) = laggard else { return Ok(memory.then(|| hold(None))) };
            let unset = if memory { FullOutbox::Hold } else { FullOutbox::Discard };
            let policy = granted(&self.settings(at), false).unwrap_or(unset);
            let holds = policy == FullOutbox::Hold || self.blocks(at);
            match policy {
                _ if holds && self.outboxes[at].waited_out.is_none() => return Ok(Some(hold(Some(at)))),
                FullOutbox::Reject => {
                    self.note_full(at, FullOutbox::Reject, false);
                    self.outboxes[at].full_as_slow_consumer = true;
                    return Err(refusal(queue));
                }
                FullOutbox::Disconnect => {
                    let reason = if memory { DisconnectReason::MemorySpent } else { DisconnectReason::QueueFull };
                    self.disconnect(at, reason);
                }
                _ if self.outboxes[at].waiting.is_empty() => passed.push(at),
                FullOutbox::Hold | FullOutbox::Discard => {
                    self.note_full(at, FullOutbox::Discard, false);
                    self.outboxes[at].full_as_slow_consumer = true;
                    let reason = if memory { DiscardReason::MemorySpent } else { DiscardReason::QueueFull };
                    self.discard_one(at, if holds { DiscardReason::WaitedOut } else { reason });
                }
            }
        }
    }

    pub(super) fn begin_hold(&mut self, hold: Hold) {
        let Ok(channel) = self.routed.channel(hold.channel) else { return };
        let limits = channel.limits;
        let (events, bytes, _) = self.usage(hold.channel);
        let memory = hold.memory && bytes > limits.memory_budget_bytes;
        let queue = hold.queue && limits.max_queue_length.is_some_and(|max| events > u64::from(max.get()));
        if !memory && !queue {
            return;
        }
        let by = hold.by.map(|at| BlockedBy::Consumer(self.outboxes[at].key));
        self.notices.push(Notice::SuppliersBlocked { channel: hold.channel, by });
        if let Some(at) = hold.by {
            self.note_full(at, FullOutbox::Hold, false);
            self.outboxes[at].full_as_slow_consumer = true;
        }
        if !self.pressed.iter().any(|(channel, _)| *channel == hold.channel) {
            self.pressed.push((hold.channel, self.now));
        }
        let since = hold.by.map_or(self.now, |at| self.waited_for_since(at));
        let look_at = hold.by.and_then(|at| self.blocked_until(at, since));
        self.holds.push(Hold { since, look_at, ..hold });
    }

    pub(super) fn end_hold(&mut self, channel: ChannelId) {
        let Some(place) = self.holds.iter().position(|hold| hold.channel == channel) else { return };
        let Hold { by, blocked_events, .. } = self.holds.remove(place);
        let by = by.map(|at| BlockedBy::Consumer(self.outboxes[at].key));
        self.notices.push(Notice::SuppliersReleased { channel, by, blocked_events });
        self.end_reason(Some(channel), Reason::Channel);
    }

    pub(super) fn end_outbox_hold(&mut self, at: usize) {
        if !self.outboxes[at].holding {
            return;
        }
        self.outboxes[at].holding = false;
        let was_late = std::mem::take(&mut self.outboxes[at].late);
        let blocked_events = std::mem::take(&mut self.outboxes[at].blocked_events);
        let key = self.outboxes[at].key;
        let by = Some(BlockedBy::Consumer(key));
        if !was_late {
            self.notices.push(Notice::SuppliersReleased { channel: key.channel, by, blocked_events });
        }
        self.end_reason(None, Reason::Outbox(at));
    }

    pub(super) fn end_reason(&mut self, channel: Option<ChannelId>, reason: Reason) {
        for withheld in
            self.tickets.iter_mut().filter(|withheld| channel.is_none_or(|channel| withheld.channel == channel))
        {
            withheld.reasons.retain(|other| *other != reason);
        }
        let done = self.tickets.iter().filter(|withheld| withheld.reasons.is_empty());
        self.released.extend(done.map(|withheld| withheld.ticket));
        self.tickets.retain(|withheld| !withheld.reasons.is_empty());
    }

    /// Number of events in excess of a consumer's bound, including one about to come in.
    fn still_blocked(&self, at: usize) -> usize {
        let max = self.settings(at).max_events_per_consumer;
        max.map_or(usize::MAX, |max| (self.outboxes[at].waiting.len() + 1).saturating_sub(max.get() as usize))
    }

    /// Number of events in excess of the limits of a channel that blocks its suppliers.
    fn blocked_for_room(&self, channel: ChannelId) -> usize {
        let Some(hold) = self.holds.iter().find(|hold| hold.channel == channel) else { return 0 };
        let Ok(limits) = self.routed.channel(channel).map(|channel| channel.limits) else { return 0 };
        let (events, bytes, _) = self.usage(channel);
        let mean = bytes / events.max(1);
        let free_from = limits.memory_budget_bytes.saturating_sub(mean);
        let by_memory = if hold.memory { bytes.saturating_sub(free_from).div_ceil(mean.max(1)) } else { 0 };
        let max = limits.max_queue_length.filter(|_| hold.queue);
        let by_queue = max.map_or(0, |max| (events + 1).saturating_sub(max.get().into()));
        by_memory.max(by_queue).try_into().unwrap_or(usize::MAX)
    }

    fn count_blocked(&self, channel: Option<ChannelId>, reason: Reason) -> usize {
        let is_one = |withheld: &&Withheld| {
            channel.is_none_or(|channel| withheld.channel == channel) && withheld.reasons.contains(&reason)
        };
        self.tickets.iter().filter(is_one).count()
    }

    /// Releases suppliers blocked for a reason, the first ones first, until so many are left.
    fn release_but(&mut self, channel: Option<ChannelId>, reason: Reason, left: usize) {
        let is_one = |withheld: &Withheld| {
            channel.is_none_or(|channel| withheld.channel == channel) && withheld.reasons.contains(&reason)
        };
        let count = self.tickets.iter().filter(|withheld| is_one(withheld)).count();
        for withheld in self.tickets.iter_mut().filter(|withheld| is_one(withheld)).take(count.saturating_sub(left)) {
            withheld.reasons.retain(|other| *other != reason);
        }
        let done = self.tickets.iter().filter(|withheld| withheld.reasons.is_empty());
        self.released.extend(done.map(|withheld| withheld.ticket));
        self.tickets.retain(|withheld| !withheld.reasons.is_empty());
    }

    /// Checks whether everything that is full or blocked still is.
    pub(super) fn look_for_room(&mut self) {
        for at in self.present() {
            let settings = self.settings(at);
            let waiting = self.outboxes[at].waiting.len();
            let has_room = settings.max_events_per_consumer.is_none_or(|max| {
                let eighth = max.get().div_ceil(8);
                waiting <= (max.get() - eighth) as usize
            });
            let goes_on = if self.outboxes[at].late {
                self.exceeds_bound(at)
            } else {
                let holds = granted(&settings, true) == Some(FullOutbox::Hold) || self.blocks(at);
                !has_room && holds && self.outboxes[at].waited_out.is_none()
            };
            if !goes_on {
                self.end_outbox_hold(at);
            } else if !self.outboxes[at].late {
                // Suppliers go on if there is a place for their events.
                self.release_but(None, Reason::Outbox(at), self.still_blocked(at));
            }
            if has_room && self.outboxes[at].full_at_bound {
                self.outboxes[at].full_at_bound = false;
                self.note_recovered(at);
            }
        }
        for channel in self.channels() {
            let Ok(limits) = self.routed.channel(channel).map(|channel| channel.limits) else { continue };
            let (events, bytes, _) = self.usage(channel);
            let budget = limits.memory_budget_bytes;
            let memory_has_room = bytes <= budget - budget / 8;
            let queue_has_room = limits.max_queue_length.is_none_or(|max| {
                let eighth = max.get().div_ceil(8);
                events <= u64::from(max.get() - eighth)
            });
            if let Some(hold) = self.holds.iter().find(|hold| hold.channel == channel) {
                let has_room = (memory_has_room || !hold.memory) && (queue_has_room || !hold.queue);
                let no_reason = hold.by.is_some_and(|at| {
                    let unset = if hold.memory { FullOutbox::Hold } else { FullOutbox::Discard };
                    let policy = granted(&self.settings(at), false).unwrap_or(unset);
                    let holds = policy == FullOutbox::Hold || self.blocks(at);
                    !holds || self.outboxes[at].waited_out.is_some()
                });
                if has_room || no_reason {
                    self.end_hold(channel);
                } else {
                    self.release_but(Some(channel), Reason::Channel, self.blocked_for_room(channel));
                }
            }
            if memory_has_room && queue_has_room {
                self.pressed.retain(|(pressed, _)| *pressed != channel);
                for at in self.present() {
                    if self.outboxes[at].key.channel == channel && self.outboxes[at].full_as_slow_consumer {
                        self.outboxes[at].full_as_slow_consumer = false;
                        self.note_recovered(at);
                    }
                }
            }
        }
    }

    pub(super) fn note_full(&mut self, at: usize, policy: FullOutbox, not_granted: bool) {
        let (backlog_events, _, backlog_bytes) = self.backlog(at);
        let outbox = &mut self.outboxes[at];
        if !outbox.full_at_bound && !outbox.full_as_slow_consumer {
            outbox.dropped_while_full = 0;
            let key = outbox.key;
            self.notices.push(Notice::OutboxFull { key, policy, not_granted, backlog_events, backlog_bytes });
        }
    }

    pub(super) fn note_recovered(&mut self, at: usize) {
        let outbox = &mut self.outboxes[at];
        if !outbox.full_at_bound && !outbox.full_as_slow_consumer {
            let dropped = outbox.dropped_while_full;
            self.notices.push(Notice::OutboxRecovered { key: outbox.key, dropped });
        }
    }
}

/// Policy of a consumer where there is no room, at its own bound or its channel's limits: one that costs others must be granted.
fn granted(settings: &OutboxSettings, at_bound: bool) -> Option<FullOutbox> {
    let costs_others = |policy: &FullOutbox| match policy {
        FullOutbox::Hold => at_bound,
        FullOutbox::Reject => true,
        FullOutbox::Discard | FullOutbox::Disconnect => false,
    };
    settings.full_outbox.filter(|policy| !settings.own_bound || !costs_others(policy))
}
