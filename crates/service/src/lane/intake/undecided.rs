//! Events of proxies for which filters that are clients' objects are asked: they wait in their order until it is said of each
//! whether it passes.

use std::collections::VecDeque;

use engine::{Draft, ProxyKey};
use hashbrown::HashMap;

use crate::lane::io::slots::Token;

/// Events of one proxy that may wait for remote filters, and bytes of them.
const UNDECIDED_MAX: usize = 1024;
const UNDECIDED_BYTES_MAX: usize = 16 << 20;

/// An event that waits for remote filters, or behind one that does.
pub(crate) struct Undecided {
    pub(crate) draft: Draft,
    pub(crate) owed: Token,
}

/// All such events, by the proxy through which they came.
#[derive(Default)]
pub(crate) struct UndecidedEvents {
    queues: HashMap<ProxyKey, Queue>,
    /// Proxies with events that wait for no filter but for the next round.
    again: VecDeque<ProxyKey>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Undecided>,
    bytes: usize,
}

impl UndecidedEvents {
    pub(crate) fn is_waiting(&self, source: ProxyKey) -> bool {
        self.queues.get(&source).is_some_and(|queue| !queue.events.is_empty())
    }

    pub(crate) fn has_room(&self, source: ProxyKey, draft: &Draft) -> bool {
        self.queues.get(&source).is_none_or(|queue| {
            queue.events.len() < UNDECIDED_MAX && queue.bytes.saturating_add(draft.bytes.len()) <= UNDECIDED_BYTES_MAX
        })
    }

    pub(crate) fn wait(&mut self, source: ProxyKey, draft: Draft, owed: Token) {
        let queue = self.queues.entry(source).or_default();
        queue.bytes += draft.bytes.len();
        queue.events.push_back(Undecided { draft, owed });
    }

    /// There may be more of a proxy's events that need no filter.
    pub(crate) fn look_again(&mut self, source: ProxyKey) {
        if self.is_waiting(source) {
            self.again.push_back(source);
        }
    }

    /// The next proxy with events that wait for no filter.
    pub(crate) fn next_again(&mut self) -> Option<ProxyKey> {
        self.again.pop_front()
    }

    /// Whether there are events that wait for no filter.
    pub(crate) fn has_to_go_on(&self) -> bool {
        !self.again.is_empty()
    }

    /// The first event of a proxy.
    pub(crate) fn first(&self, source: ProxyKey) -> Option<&Undecided> {
        self.queues.get(&source)?.events.front()
    }

    /// Takes out the first event of a proxy.
    pub(crate) fn next(&mut self, source: ProxyKey) -> Option<Undecided> {
        let queue = self.queues.get_mut(&source)?;
        let first = queue.events.pop_front()?;
        queue.bytes = queue.bytes.saturating_sub(first.draft.bytes.len());
        Some(first)
    }

    /// Puts back the event that was taken out last.
    pub(crate) fn put_back(&mut self, source: ProxyKey, first: Undecided) {
        if let Some(queue) = self.queues.get_mut(&source) {
            queue.bytes += first.draft.bytes.len();
            queue.events.push_front(first);
        }
    }

    /// Forgets proxies that are gone and for which nothing waits.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.queues.retain(|key, queue| !queue.events.is_empty() || is_there(*key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, Lane, ProxyId, Time};

    const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(1), proxy: ProxyId(1) };

    fn draft(lane: &mut Lane, bytes: usize) -> Draft {
        let mut draft = lane.begin_event_for(bytes);
        draft.bytes.resize(bytes, 0);
        draft
    }

    #[test]
    fn events_of_a_proxy_keep_their_order_and_the_one_that_is_asked_about_its_place() {
        let mut lane = Lane::new(Time(0));
        let mut undecided = UndecidedEvents::default();
        for bytes in 1..=3 {
            undecided.wait(SOURCE, draft(&mut lane, bytes), Token::from_bits(bytes as u64));
        }
        let first = undecided.next(SOURCE).unwrap();
        undecided.put_back(SOURCE, first);
        let order: Vec<usize> =
            core::iter::from_fn(|| undecided.next(SOURCE)).map(|one| one.draft.bytes.len()).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(!undecided.is_waiting(SOURCE) && undecided.first(SOURCE).is_none());
    }

    #[test]
    fn there_is_room_for_so_many_and_so_large_ones_of_a_proxy_and_again_when_one_has_gone_on() {
        let mut lane = Lane::new(Time(0));
        let mut undecided = UndecidedEvents::default();
        while undecided.has_room(SOURCE, &draft(&mut lane, 1)) {
            undecided.wait(SOURCE, draft(&mut lane, 1), Token::from_bits(0));
        }
        assert_eq!(core::iter::from_fn(|| undecided.next(SOURCE)).count(), UNDECIDED_MAX);
        undecided.wait(SOURCE, draft(&mut lane, UNDECIDED_BYTES_MAX), Token::from_bits(0));
        assert!(!undecided.has_room(SOURCE, &draft(&mut lane, 1)));
        undecided.next(SOURCE);
        assert!(undecided.has_room(SOURCE, &draft(&mut lane, 1)));
    }

    #[test]
    fn a_proxy_is_looked_at_again_while_events_of_it_wait_and_forgotten_when_it_is_gone_and_none_do() {
        let mut lane = Lane::new(Time(0));
        let mut undecided = UndecidedEvents::default();
        undecided.look_again(SOURCE);
        assert!(!undecided.has_to_go_on());
        undecided.wait(SOURCE, draft(&mut lane, 1), Token::from_bits(0));
        undecided.look_again(SOURCE);
        assert_eq!((undecided.next_again(), undecided.next_again()), (Some(SOURCE), None));
        undecided.forget_but(|_| false);
        assert!(undecided.is_waiting(SOURCE));
        undecided.next(SOURCE);
        undecided.forget_but(|_| false);
        assert!(undecided.queues.is_empty());
    }
}
