//! Queues of events that await remote filters: one for each proxy, in order, until there is a verdict on each event.

use std::collections::VecDeque;

use engine::{PendingEvent, ProxyKey};
use hashbrown::HashMap;

use crate::lane::io::slots::Token;

/// Maximum events of one proxy that wait for remote filters, and maximum octets of them.
const AWAITING_FILTER_MAX: usize = 1024;
const AWAITING_FILTER_BYTES_MAX: usize = 16 << 20;

/// An event that awaits remote filters, or follows one that does.
pub(crate) struct AwaitingFilter {
    pub(crate) pending_event: PendingEvent,
    pub(crate) pending_ack: Token,
}

/// All such events, by the proxy through which they came.
#[derive(Default)]
pub(crate) struct AwaitingFilterQueues {
    queues: HashMap<ProxyKey, Queue>,
    /// Proxies with waiting events that need no filter and are looked at in the next round.
    again: VecDeque<ProxyKey>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<AwaitingFilter>,
    bytes: usize,
}

impl AwaitingFilterQueues {
    pub(crate) fn is_waiting(&self, source: ProxyKey) -> bool {
        self.queues.get(&source).is_some_and(|queue| !queue.events.is_empty())
    }

    pub(crate) fn has_room(&self, source: ProxyKey, pending_event: &PendingEvent) -> bool {
        self.queues.get(&source).is_none_or(|queue| {
            queue.events.len() < AWAITING_FILTER_MAX
                && queue.bytes.saturating_add(pending_event.bytes.len()) <= AWAITING_FILTER_BYTES_MAX
        })
    }

    pub(crate) fn wait(&mut self, source: ProxyKey, pending_event: PendingEvent, pending_ack: Token) {
        let queue = self.queues.entry(source).or_default();
        queue.bytes += pending_event.bytes.len();
        queue.events.push_back(AwaitingFilter { pending_event, pending_ack });
    }

    /// Notes that further events of a proxy may need no filter.
    pub(crate) fn look_again(&mut self, source: ProxyKey) {
        if self.is_waiting(source) {
            self.again.push_back(source);
        }
    }

    /// Removes the next proxy with events to look at again.
    pub(crate) fn next_again(&mut self) -> Option<ProxyKey> {
        self.again.pop_front()
    }

    /// Whether proxies have events to look at again.
    pub(crate) fn has_to_go_on(&self) -> bool {
        !self.again.is_empty()
    }

    pub(crate) fn first(&self, source: ProxyKey) -> Option<&AwaitingFilter> {
        self.queues.get(&source)?.events.front()
    }

    /// Removes the first event of a proxy.
    pub(crate) fn next(&mut self, source: ProxyKey) -> Option<AwaitingFilter> {
        let queue = self.queues.get_mut(&source)?;
        let first = queue.events.pop_front()?;
        queue.bytes = queue.bytes.saturating_sub(first.pending_event.bytes.len());
        Some(first)
    }

    /// Puts back the event that was taken out last.
    pub(crate) fn put_back(&mut self, source: ProxyKey, first: AwaitingFilter) {
        if let Some(queue) = self.queues.get_mut(&source) {
            queue.bytes += first.pending_event.bytes.len();
            queue.events.push_front(first);
        }
    }

    /// Forgets the empty queues of proxies that are gone.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.queues.retain(|key, queue| !queue.events.is_empty() || is_there(*key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, Lane, ProxyId, Time};

    const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(1), proxy: ProxyId(1) };

    fn pending_event(lane: &mut Lane, bytes: usize) -> PendingEvent {
        let mut pending_event = lane.begin_event_for(bytes);
        pending_event.bytes.resize(bytes, 0);
        pending_event
    }

    #[test]
    fn events_of_a_proxy_keep_their_order_and_the_one_that_is_asked_about_its_place() {
        let mut lane = Lane::new(Time(0));
        let mut awaiting_filter = AwaitingFilterQueues::default();
        for bytes in 1..=3 {
            awaiting_filter.wait(SOURCE, pending_event(&mut lane, bytes), Token::from_bits(bytes as u64));
        }
        let first = awaiting_filter.next(SOURCE).unwrap();
        awaiting_filter.put_back(SOURCE, first);
        let order: Vec<usize> =
            core::iter::from_fn(|| awaiting_filter.next(SOURCE)).map(|one| one.pending_event.bytes.len()).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(!awaiting_filter.is_waiting(SOURCE) && awaiting_filter.first(SOURCE).is_none());
    }

    #[test]
    fn there_is_room_for_so_many_and_so_large_ones_of_a_proxy_and_again_when_one_has_gone_on() {
        let mut lane = Lane::new(Time(0));
        let mut awaiting_filter = AwaitingFilterQueues::default();
        while awaiting_filter.has_room(SOURCE, &pending_event(&mut lane, 1)) {
            awaiting_filter.wait(SOURCE, pending_event(&mut lane, 1), Token::from_bits(0));
        }
        assert_eq!(core::iter::from_fn(|| awaiting_filter.next(SOURCE)).count(), AWAITING_FILTER_MAX);
        awaiting_filter.wait(SOURCE, pending_event(&mut lane, AWAITING_FILTER_BYTES_MAX), Token::from_bits(0));
        assert!(!awaiting_filter.has_room(SOURCE, &pending_event(&mut lane, 1)));
        awaiting_filter.next(SOURCE);
        assert!(awaiting_filter.has_room(SOURCE, &pending_event(&mut lane, 1)));
    }

    #[test]
    fn a_proxy_is_looked_at_again_while_events_of_it_wait_and_forgotten_when_it_is_gone_and_none_do() {
        let mut lane = Lane::new(Time(0));
        let mut awaiting_filter = AwaitingFilterQueues::default();
        awaiting_filter.look_again(SOURCE);
        assert!(!awaiting_filter.has_to_go_on());
        awaiting_filter.wait(SOURCE, pending_event(&mut lane, 1), Token::from_bits(0));
        awaiting_filter.look_again(SOURCE);
        assert_eq!((awaiting_filter.next_again(), awaiting_filter.next_again()), (Some(SOURCE), None));
        awaiting_filter.forget_but(|_| false);
        assert!(awaiting_filter.is_waiting(SOURCE));
        awaiting_filter.next(SOURCE);
        awaiting_filter.forget_but(|_| false);
        assert!(awaiting_filter.queues.is_empty());
    }
}
