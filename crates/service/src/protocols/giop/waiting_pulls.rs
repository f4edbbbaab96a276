//! Pulls that wait for events at a proxy, in the order in which they came.
//!
//! A wait is removed in constant time: each has a place that names its neighbours. Work for many waits at a time (a client goes with all
//! its waits, a proxy with all waits at it) is noted here and done step by step in the lane's rounds. Until then the waits of a client that
//! is gone are skipped.

use std::collections::VecDeque;

use engine::{ProxyKey, Time, WaitingPull};
use hashbrown::{HashMap, HashSet};

use crate::lane::io::slots::{Slots, Token};
use crate::protocols::giop::pull_consumers::Waiter;

/// Maximum waits of clients that are gone that are skipped for one delivery.
const PASSED_OVER_MAX: usize = 64;

/// Waits at one proxy.
struct Queue {
    key: ProxyKey,
    first: Option<Token>,
    last: Option<Token>,
    length: usize,
    /// Number of waits known to the engine: the first, and those with a failed delivery.
    announced: usize,
    /// Whether the proxy is gone: the waiting clients are to be answered so.
    is_over: bool,
}

/// A waiting pull of a client.
struct Wait {
    waiter: Waiter,
    place: Place,
    /// Shows administration meanwhile that the proxy's client lives.
    heard: Option<WaitingPull>,
}

#[derive(Clone, Copy)]
enum Place {
    /// Handed events, or to be answered.
    Away,
    Queued {
        queue: Token,
        before: Option<Token>,
        behind: Option<Token>,
    },
    /// Remote filters are asked about its events.
    AwaitingFilter(Token),
}

/// State of a wait that was removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing has to be reported.
    Quietly,
    /// The wait was in a queue: the engine is to know that one less waits.
    Unannounced(ProxyKey),
    /// Remote filters are being asked on its behalf.
    AwaitingFilter(Token),
}

/// All requests that wait for events.
#[derive(Default)]
pub(crate) struct WaitingPulls {
    waits: Slots<Wait>,
    queues: Slots<Queue>,
    by_proxy: HashMap<ProxyKey, Token>,
    /// Clients that are gone with waits not yet removed.
    gone: HashSet<Token>,
    leaving: VecDeque<(Token, Vec<Token>)>,
    /// Queues of proxies that are gone.
    over: VecDeque<Token>,
}

impl WaitingPulls {
    /// Whether waits are to be removed, or answered because their proxy is gone.
    pub(crate) fn is_moving(&self) -> bool {
        !self.leaving.is_empty() || !self.over.is_empty()
    }

    /// Whether no pull waits or has waited at any proxy.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_proxy.is_empty()
    }

    /// Whether a pull waits at a proxy.
    pub(crate) fn has_line(&self, key: ProxyKey) -> bool {
        let queue = self.by_proxy.get(&key).and_then(|queue| self.queues.get(*queue));
        queue.is_some_and(|queue| queue.first.is_some())
    }

    /// Adds a wait of a request that is not answered at once. It is in no queue yet.
    pub(crate) fn begin(&mut self, waiter: Waiter, heard: Option<WaitingPull>) -> Token {
        let wait = self.waits.insert(Wait { waiter, place: Place::Away, heard });
        if let Some(entry) = self.waits.get_mut(wait) {
            entry.waiter.wait = Some(wait);
        }
        wait
    }

    /// Notes that the client of a wait was alive until now.
    pub(crate) fn note_heard(&mut self, wait: Token, now: Time) {
        if let Some(heard) = self.waits.get_mut(wait).and_then(|wait| wait.heard.take()) {
            heard.end(now);
        }
    }

    /// Ends the wait of a request that is answered.
    pub(crate) fn end(&mut self, wait: Token, now: Time) {
        if let Some(heard) = self.waits.remove(wait).and_then(|wait| wait.heard) {
            heard.end(now);
        }
    }

    /// The waiting client, if it is in a queue.
    pub(crate) fn in_line(&self, wait: Token) -> Option<&Waiter> {
        let wait = self.waits.get(wait)?;
        matches!(wait.place, Place::Queued { .. }).then_some(&wait.waiter)
    }

    /// Notes that remote filters are asked about the events of a wait.
    pub(crate) fn note_filter_call(&mut self, wait: Token, filter_call: Token) {
        if let Some(wait) = self.waits.get_mut(wait) {
            wait.place = Place::AwaitingFilter(filter_call);
        }
    }

    /// Queues a wait behind all others at its proxy.
    pub(crate) fn join_last(&mut self, wait: Token) {
        let Some(key) = self.waits.get(wait).map(|wait| wait.waiter.pull.key) else { return };
        let queue = self.queue_of(key);
        let Some(entry) = self.queues.get_mut(queue) else { return };
        let before = entry.last.replace(wait);
        entry.length += 1;
        if before.is_none() {
            entry.first = Some(wait);
        }
        self.put(wait, Place::Queued { queue, before, behind: None });
        self.link(before, |place| place.1 = Some(wait));
    }

    /// Queues a wait in front of all others at its proxy. `is_announced` says whether the engine knows of it. False if its client is gone,
    /// and the wait with it.
    pub(crate) fn join_first(&mut self, wait: Token, is_announced: bool) -> bool {
        let Some(key) = self.waits.get(wait).map(|wait| wait.waiter.pull.key) else { return false };
        let queue = self.queue_of(key);
        let Some(entry) = self.queues.get_mut(queue) else { return false };
        let behind = entry.first.replace(wait);
        entry.length += 1;
        entry.announced += usize::from(is_announced);
        if behind.is_none() {
            entry.last = Some(wait);
        }
        self.put(wait, Place::Queued { queue, before: None, behind });
        self.link(behind, |place| place.0 = Some(wait));
        true
    }

    /// Maximum events for the first wait at a proxy, if there is one and the engine knows of none.
    pub(crate) fn unannounced(&self, key: ProxyKey) -> Option<u32> {
        let queue = self.queues.get(*self.by_proxy.get(&key)?)?;
        let first = self.waits.get(queue.first?)?;
        (queue.announced == 0).then_some(first.waiter.max)
    }

    /// Notes that the engine knows of a wait at a proxy.
    pub(crate) fn note_announced(&mut self, key: ProxyKey) {
        if let Some(queue) = self.by_proxy.get(&key).and_then(|queue| self.queues.get_mut(*queue)) {
            queue.announced += 1;
        }
    }

    /// Removes the first wait at a proxy from its queue, to get `events` events, if it takes that many.
    pub(crate) fn take_first(&mut self, key: ProxyKey, events: usize) -> Option<Waiter> {
        let queue = *self.by_proxy.get(&key)?;
        let entry = self.queues.get_mut(queue)?;
        entry.announced = entry.announced.saturating_sub(1);
        for _ in 0..PASSED_OVER_MAX {
            let first = self.queues.get(queue)?.first?;
            let waiter = self.waits.get(first)?.waiter;
            let is_gone = !self.gone.is_empty() && self.gone.contains(&waiter.connection);
            if !is_gone && (waiter.max as usize) < events {
                return None;
            }
            self.unlink(first);
            if !is_gone {
                return Some(waiter);
            }
        }
        None
    }

    /// Removes a wait for good.
    pub(crate) fn leave(&mut self, wait: Token) -> Left {
        let place = self.waits.get(wait).map(|wait| wait.place);
        let left = match place {
            None | Some(Place::Away) => Left::Quietly,
            Some(Place::AwaitingFilter(filter_call)) => Left::AwaitingFilter(filter_call),
            Some(Place::Queued { queue, before, .. }) => {
                self.unlink(wait);
                let queue = self.queues.get_mut(queue).filter(|queue| !queue.is_over && queue.announced > 0);
                // The engine knows how many events the first takes; of the others it only has to know how many they are.
                match queue.filter(|queue| before.is_none() || queue.announced > queue.length) {
                    Some(queue) => {
                        queue.announced -= 1;
                        Left::Unannounced(queue.key)
                    }
                    None => Left::Quietly,
                }
            }
        };
        self.waits.remove(wait);
        left
    }

    /// Notes that the client with these waits is gone: they are removed in the next rounds.
    pub(crate) fn client_gone(&mut self, connection: Token, waits: Vec<Token>) {
        self.gone.insert(connection);
        self.leaving.push_back((connection, waits));
    }

    /// The next wait of a client that is gone.
    pub(crate) fn next_leaving(&mut self) -> Option<Token> {
        loop {
            let (connection, waits) = self.leaving.front_mut()?;
            if let Some(wait) = waits.pop() {
                return Some(wait);
            }
            self.gone.remove(connection);
            self.leaving.pop_front();
        }
    }

    /// Notes that a proxy is gone. The clients that wait there are answered in the next rounds.
    pub(crate) fn proxy_gone(&mut self, key: ProxyKey) {
        let Some(queue) = self.by_proxy.remove(&key) else { return };
        if let Some(entry) = self.queues.get_mut(queue) {
            entry.is_over = true;
            self.over.push_back(queue);
        }
    }

    /// The next client to be answered because its proxy is gone.
    pub(crate) fn next_over(&mut self) -> Option<Waiter> {
        loop {
            let queue = *self.over.front()?;
            if let Some(first) = self.queues.get(queue).and_then(|queue| queue.first) {
                self.unlink(first);
                return self.waits.get(first).map(|wait| wait.waiter);
            }
            self.queues.remove(queue);
            self.over.pop_front();
        }
    }

    fn queue_of(&mut self, key: ProxyKey) -> Token {
        let Self { queues, by_proxy, .. } = self;
        let new = Queue { key, first: None, last: None, length: 0, announced: 0, is_over: false };
        *by_proxy.entry(key).or_insert_with(|| queues.insert(new))
    }

    fn put(&mut self, wait: Token, place: Place) {
        if let Some(wait) = self.waits.get_mut(wait) {
            wait.place = place;
        }
    }

    /// Changes the links of a neighbouring wait.
    fn link(&mut self, neighbour: Option<Token>, change: impl FnOnce(&mut (Option<Token>, Option<Token>))) {
        if let Some(Wait { place: Place::Queued { before, behind, .. }, .. }) =
            neighbour.and_then(|neighbour| self.waits.get_mut(neighbour))
        {
            let mut both = (*before, *behind);
            change(&mut both);
            (*before, *behind) = both;
        }
    }

    fn unlink(&mut self, wait: Token) {
        let Some(entry) = self.waits.get_mut(wait) else { return };
        let Place::Queued { queue, before, behind } = core::mem::replace(&mut entry.place, Place::Away) else { return };
        self.link(before, |place| place.1 = behind);
        self.link(behind, |place| place.0 = before);
        let Some(queue) = self.queues.get_mut(queue) else { return };
        queue.length -= 1;
        if before.is_none() {
            queue.first = behind;
        }
        if behind.is_none() {
            queue.last = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, ProxyId};

    const AT: ProxyKey = ProxyKey { channel: ChannelId(1), proxy: ProxyId(1) };

    fn connection(number: u64) -> Token {
        Token::from_bits(number)
    }

    fn waiter(client: u64, max: u32) -> Waiter {
        Waiter::for_test(connection(client), AT, max)
    }

    /// Adds a wait, of which the engine is notified if it knows of none.
    fn wait(waiting: &mut WaitingPulls, client: u64) -> Token {
        let wait = waiting.begin(waiter(client, 1), None);
        waiting.join_last(wait);
        if waiting.unannounced(AT).is_some() {
            waiting.note_announced(AT);
        }
        wait
    }

    fn served(waiting: &mut WaitingPulls) -> Vec<u64> {
        core::iter::from_fn(|| waiting.take_first(AT, 1)).map(|waiter| waiter.connection.to_bits()).collect()
    }

    #[test]
    fn the_first_that_came_is_served_first_and_one_that_left_is_not() {
        let mut waiting = WaitingPulls::default();
        let waits: Vec<Token> = (0..6).map(|client| wait(&mut waiting, client)).collect();
        assert_eq!(waiting.leave(waits[3]), Left::Quietly);
        assert_eq!(waiting.leave(waits[5]), Left::Quietly);
        // The engine knows how many events this one takes.
        assert_eq!(waiting.leave(waits[0]), Left::Unannounced(AT));
        assert_eq!(waiting.leave(waits[0]), Left::Quietly, "it is not there any more");
        assert_eq!(waiting.unannounced(AT), Some(1));
        assert_eq!(served(&mut waiting), [1, 2, 4]);
        assert!(!waiting.has_line(AT));
    }

    #[test]
    fn a_client_that_takes_fewer_events_than_there_are_goes_on_waiting() {
        let mut waiting = WaitingPulls::default();
        wait(&mut waiting, 1);
        assert!(waiting.take_first(AT, 2).is_none());
        assert_eq!(waiting.unannounced(AT), Some(1));
        assert_eq!(served(&mut waiting), [1]);
    }

    /// A consumer with a pull that had waited for long counted, when its connection was cut, as silent since the pull began: it was
    /// taken for dead before it could call again.
    #[test]
    fn a_client_whose_pull_is_cut_off_was_there_until_then() {
        let (mut waiting, activity) = (WaitingPulls::default(), engine::Activity::default());
        activity.note(Time(1));
        let wait = waiting.begin(waiter(0, 1), Some(activity.begin_wait()));
        waiting.note_heard(wait, Time(600));
        assert_eq!(waiting.leave(wait), Left::Quietly);
        assert_eq!((activity.waits(), activity.last()), (false, Time(600)));
    }

    #[test]
    fn a_client_that_was_served_in_vain_waits_before_all_others() {
        let mut waiting = WaitingPulls::default();
        let waits: Vec<Token> = (0..3).map(|client| wait(&mut waiting, client)).collect();
        let first = waiting.take_first(AT, 1).unwrap();
        assert_eq!(first.wait, Some(waits[0]));
        assert!(waiting.join_first(waits[0], true));
        assert_eq!(served(&mut waiting), [0, 1, 2]);
    }

    #[test]
    fn the_engine_never_knows_of_more_than_wait() {
        let mut waiting = WaitingPulls::default();
        let waits: Vec<Token> = (0..2).map(|client| wait(&mut waiting, client)).collect();
        assert!(waiting.take_first(AT, 1).is_some());
        waiting.note_announced(AT);
        assert!(waiting.join_first(waits[0], true));
        // It knows of two, of which the second leaves.
        assert_eq!(waiting.leave(waits[1]), Left::Unannounced(AT));
        assert_eq!(waiting.leave(waits[0]), Left::Unannounced(AT));
        assert_eq!(waiting.unannounced(AT), None);
    }

    #[test]
    fn many_waits_of_clients_that_are_gone_leave_in_chunks_and_no_other_client_waits_for_that() {
        // Each wait that left was looked for among all others and those behind it were moved up: 1,500 connections with 256
        // waits each at one proxy took 25 s to close, in one go.
        let mut waiting = WaitingPulls::default();
        let clients: Vec<(u64, Vec<Token>)> =
            (0..1_500).map(|client| (client, (0..256).map(|_| wait(&mut waiting, client)).collect())).collect();
        let lives = wait(&mut waiting, 9_999);
        for (client, waits) in clients {
            waiting.client_gone(connection(client), waits);
        }
        assert!(waiting.is_moving());
        // Before any has left: events pass a few waits of gone clients at a time, and none is given to them.
        let mut deliveries = 0;
        let served = loop {
            deliveries += 1;
            if let Some(waiter) = waiting.take_first(AT, 1) {
                break waiter;
            }
        };
        assert_eq!((served.wait, deliveries), (Some(lives), 1_500 * 256 / PASSED_OVER_MAX + 1));
        let mut left = 0;
        while let Some(wait) = waiting.next_leaving() {
            assert_eq!(waiting.leave(wait), Left::Quietly);
            left += 1;
        }
        waiting.end(lives, Time(0));
        assert_eq!((left, waiting.is_moving(), waiting.waits.is_empty()), (1_500 * 256, false, true));
    }

    #[test]
    fn all_that_wait_at_a_proxy_that_goes_are_notified_one_by_one_and_not_later_ones() {
        let mut waiting = WaitingPulls::default();
        let waits: Vec<Token> = (0..3).map(|client| wait(&mut waiting, client)).collect();
        waiting.proxy_gone(AT);
        let after = wait(&mut waiting, 7);
        assert_eq!(waiting.leave(waits[1]), Left::Quietly, "the engine has forgotten the proxy");
        let announced: Vec<u64> =
            core::iter::from_fn(|| waiting.next_over()).map(|one| one.connection.to_bits()).collect();
        assert_eq!(announced, [0, 2]);
        assert!(!waiting.is_moving());
        assert_eq!(waiting.leave(after), Left::Unannounced(AT));
    }

    #[test]
    fn remote_filters_that_are_called_for_a_leaving_consumer_are_named() {
        let mut waiting = WaitingPulls::default();
        let one = wait(&mut waiting, 1);
        waiting.take_first(AT, 1).unwrap();
        waiting.note_filter_call(one, connection(77));
        assert_eq!(waiting.leave(one), Left::AwaitingFilter(connection(77)));
        assert!(!waiting.join_first(one, true));
    }
}
