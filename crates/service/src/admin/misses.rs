//! Requests for objects that do not exist, by address: `LocateRequest`s answered `UNKNOWN_OBJECT`, and requests answered
//! `OBJECT_NOT_EXIST`.
//!
//! Each address has a budget of [`AT_ONCE`] of these, and regains one each [`INTERVAL`]. Clients that have outlived their proxies use far
//! less: a program with thousands of proxies, started again with its old references, or beside a service that has lost its store, asks once
//! or twice for each. Beyond the budget an answer waits until the budget has grown, so that an address can test 50 keys a second; its
//! requests that find their objects are answered as ever. If more than [`WAITING_MAX`] answers of an address would wait, the connection of
//! the next such request is closed. No program that waits for its answers has so many.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::Time;
use hashbrown::HashMap;

use crate::admin::run::Administration;
use crate::counters::Counter;
use crate::protocols::{Answered, Fault, Request};

/// Budget of an address: requests without an object answered at once.
const AT_ONCE: u32 = 5_000;
/// Time in which one request is regained.
const INTERVAL: Duration = Duration::from_millis(20);
/// Time in which the whole budget is regained.
const WINDOW: Duration = Duration::from_secs(100);
/// Approximate maximum of waiting answers of one address.
const WAITING_MAX: u32 = 256;
/// Maximum waiting answers of all addresses.
const ALL_WAITING_MAX: usize = 4_096;
/// Maximum addresses with a budget of their own, among those that have spent some of it. All others share one.
const ADDRESSES_MAX: usize = 1_024;
/// Administration's time charged for such a request beyond the budget.
const COST: Duration = Duration::from_millis(2);

/// Treatment of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    AtOnce,
    WaitsUntil(Time),
    ConnectionCloses,
}

/// Budget, as the time at which it is whole again.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    whole_at: Time,
}

impl Budget {
    /// Spends one request. If no answer is expected, none is made to wait.
    fn spend(&mut self, now: Time, is_answered: bool) -> Verdict {
        let whole_at = self.whole_at.max(now) + INTERVAL;
        let wait = whole_at.since(now).saturating_sub(WINDOW);
        if wait > INTERVAL * WAITING_MAX {
            return Verdict::ConnectionCloses;
        }
        if is_answered || wait.is_zero() {
            self.whole_at = whole_at;
        }
        if wait.is_zero() { Verdict::AtOnce } else { Verdict::WaitsUntil(now + wait) }
    }
}

/// Budgets of addresses, and the answers that wait.
#[derive(Default)]
pub(crate) struct Misses {
    budgets: HashMap<IpAddr, Budget>,
    shared: Budget,
    /// Requests with delayed answers, by the time at which these are due.
    waiting: BTreeMap<(Time, u64), (Request, Answered)>,
    serial: u64,
}

impl Misses {
    /// Notes a request of an address that found no object.
    fn note(&mut self, address: IpAddr, now: Time, is_answered: bool) -> Verdict {
        if self.budgets.len() >= ADDRESSES_MAX && !self.budgets.contains_key(&address) {
            self.budgets.retain(|_, budget| budget.whole_at > now);
        }
        let budget = match self.budgets.len() {
            ADDRESSES_MAX.. if !self.budgets.contains_key(&address) => &mut self.shared,
            _ => self.budgets.entry(address).or_default(),
        };
        match budget.spend(now, is_answered) {
            Verdict::WaitsUntil(_) if is_answered && self.waiting.len() >= ALL_WAITING_MAX => Verdict::ConnectionCloses,
            verdict => verdict,
        }
    }

    fn wait(&mut self, until: Time, request: Request, answered: Answered) {
        self.waiting.insert((until, self.serial), (request, answered));
        self.serial += 1;
    }

    /// When the next answer is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next answer that is due by `until`.
    fn poll(&mut self, until: Time) -> Option<(Request, Answered)> {
        self.next_due().filter(|due| *due <= until)?;
        self.waiting.pop_first().map(|(_, answer)| answer)
    }
}

impl Administration {
    /// Delays the answer to a request that found no object, if its address has spent its budget. Returns an answer that is due at once.
    pub(super) fn defer_miss(&mut self, request: Request, answered: Answered) -> Option<(Request, Answered)> {
        if !answered.fault.is_some_and(Fault::is_miss) {
            return Some((request, answered));
        }
        let (address, now) = (request.account().ip(), self.now());
        let is_answered = !answered.bytes.is_empty();
        let verdict = self.misses.note(address, now, is_answered);
        if verdict == Verdict::AtOnce {
            return Some((request, answered));
        }
        self.requests.charge(address, COST);
        if self.log.misses.is_news(address, now) {
            let (window, rate) = (WINDOW.as_secs(), 1_000 / INTERVAL.as_millis());
            self.say(
                log::Level::Warn,
                &format!(
                    "{address} has asked for {AT_ONCE} objects that do not exist within {window} s, as clients do that guess object keys: \
                     answers to more such requests of this address wait, {rate} go each second"
                ),
            );
        }
        match verdict {
            Verdict::ConnectionCloses if is_answered => {
                self.counters.add(Counter::KeyGuessersClosed, 1);
                let (lane, message) = request.closing();
                self.lane_registry.send(lane, message);
                None
            }
            Verdict::WaitsUntil(due) if is_answered => {
                self.counters.add(Counter::KeyMissesDelayed, 1);
                self.misses.wait(due, request, answered);
                None
            }
            _ => Some((request, answered)),
        }
    }

    /// Sends the delayed answers that are due.
    pub(super) fn answer_misses(&mut self) {
        let now = self.now();
        while let Some((request, answered)) = self.misses.poll(now) {
            let answer = self.concluded(request, answered, None);
            self.send(answer);
        }
    }

    /// Sends all delayed answers, since the service ends.
    pub(super) fn answer_all_misses(&mut self) {
        while let Some((request, answered)) = self.misses.poll(Time(u64::MAX)) {
            let answer = self.concluded(request, answered, None);
            self.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn the_window_is_that_of_the_whole_budget() {
        assert_eq!(INTERVAL * AT_ONCE, WINDOW);
    }

    /// A program with hundreds of proxies comes back with the references of its former life: it is answered as ever.
    #[test]
    fn thousands_of_misses_are_answered_at_once_and_more_in_their_turns() {
        let mut misses = Misses::default();
        let guesser = address(1);
        for number in 0..AT_ONCE {
            assert_eq!(misses.note(guesser, at(0), true), Verdict::AtOnce, "{number}");
        }
        for number in 1..=u64::from(WAITING_MAX) {
            assert_eq!(misses.note(guesser, at(0), true), Verdict::WaitsUntil(at(20 * number)));
        }
        for _ in 0..10_000 {
            assert_eq!(misses.note(guesser, at(0), true), Verdict::ConnectionCloses);
        }
        assert_eq!(misses.note(address(2), at(0), true), Verdict::AtOnce);
        // What was refused is not held against it, and the budget comes back.
        assert_eq!(misses.note(guesser, at(5_120), true), Verdict::WaitsUntil(at(5_140)));
        assert_eq!(misses.note(guesser, at(5_160), true), Verdict::AtOnce);
        assert_eq!(misses.note(guesser, at(5_160), true), Verdict::WaitsUntil(at(5_180)));
        assert!((0..AT_ONCE).all(|_| misses.note(guesser, at(200_000), true) == Verdict::AtOnce));
        assert_ne!(misses.note(guesser, at(200_000), true), Verdict::AtOnce);
    }

    /// A supplier that pushes one-way events to a proxy that is gone waits for nothing, and has nothing else wait longer.
    #[test]
    fn requests_that_nothing_answers_spend_the_budget_and_no_more() {
        let mut misses = Misses::default();
        (0..100_000).for_each(|_| _ = misses.note(address(1), at(0), false));
        assert_eq!(misses.note(address(1), at(0), true), Verdict::WaitsUntil(at(20)));
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded() {
        let mut misses = Misses::default();
        let verdicts: Vec<Verdict> = (0..10_000).map(|number| misses.note(address(number), at(0), true)).collect();
        let at_once = verdicts.iter().filter(|verdict| **verdict == Verdict::AtOnce).count();
        assert_eq!((at_once, misses.budgets.len()), (ADDRESSES_MAX + AT_ONCE as usize, ADDRESSES_MAX));
        assert_ne!(
            misses.note(address(20_000), at(0), true),
            Verdict::AtOnce,
            "one budget for all that have none of their own"
        );
        assert_eq!(misses.note(address(20_000), at(40), true), Verdict::AtOnce, "those of the others are whole again");
        assert_eq!(misses.budgets.len(), 1);
    }
}
