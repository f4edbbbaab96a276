//! Requested host names, their order, and the results.
//!
//! [`Names`] has no clock and no threads: [`Names::ask`] requests a name, [`Names::poll`] returns the next to look up, and [`Names::found`]
//! takes the result. Each call is given the time.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::Found;
use accounts::{Account, Charge, Resource, Spent, SpentBy};

/// How long a result is reused: for simultaneous lookups, such as those for a host's consumers that have just gone. Nothing announces that
/// a host moves, so each later attempt to connect looks its name up anew; attempts are up to 5 s apart (`backoff_max`).
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Maximum results stored. Beyond it the oldest is removed.
const KNOWN_MAX: usize = 1_024;

/// A lookup that waits for a name.
pub(super) struct Waiter<W> {
    pub(super) who: W,
    /// Time after which the result is of no use.
    pub(super) until: Instant,
    /// Charge on the client while it waits.
    pub(super) charge: Charge,
}

/// A requested name.
struct PendingName<W> {
    waiters: Vec<Waiter<W>>,
    /// Charge while the name is being looked up.
    under_way: Option<Charge>,
}

/// A name that waits to be looked up, for a client.
struct Waiting {
    host: Arc<str>,
    account: Arc<Account>,
    /// Whether it was counted that it has to wait.
    is_counted: bool,
}

/// Requested and known host names.
pub(super) struct Names<W> {
    pending: HashMap<Arc<str>, PendingName<W>>,
    /// Waiting names by address, and the addresses in the order of their turns.
    queues: HashMap<IpAddr, VecDeque<Waiting>>,
    round_robin: VecDeque<IpAddr>,
    known: HashMap<Arc<str>, (Found, Instant)>,
    /// Known names, some of them expired, in the order in which they were found.
    order: VecDeque<(Arc<str>, Instant)>,
    /// Refused claims that are not counted yet.
    spent: Vec<Spent>,
}

impl<W> Default for Names<W> {
    fn default() -> Self {
        Self {
            pending: HashMap::new(),
            queues: HashMap::new(),
            round_robin: VecDeque::new(),
            known: HashMap::new(),
            order: VecDeque::new(),
            spent: Vec::new(),
        }
    }
}

impl<W> Names<W> {
    /// Requests a name. Returns the waiter with the result if that is known.
    pub(super) fn ask(&mut self, host: &str, waiter: Waiter<W>, now: Instant) -> Option<(W, Found)> {
        let host: Arc<str> = host.to_ascii_lowercase().into();
        if let Some((found, until)) = self.known.get(&host)
            && now < *until
        {
            return Some((waiter.who, found.clone()));
        }
        let account = Arc::clone(waiter.charge.account());
        let pending = self.pending.entry(Arc::clone(&host));
        let pending = pending.or_insert_with(|| PendingName { waiters: Vec::new(), under_way: None });
        pending.waiters.push(waiter);
        if pending.under_way.is_none() {
            let ip = account.ip();
            let queue = self.queues.entry(ip).or_insert_with(|| {
                self.round_robin.push_back(ip);
                VecDeque::new()
            });
            queue.push_back(Waiting { host, account, is_counted: false });
        }
        None
    }

    /// The next name to look up, if a thread is free: the clients take turns, each within its quota.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Arc<str>> {
        for _ in 0..self.round_robin.len() {
            let ip = self.round_robin.pop_front()?;
            let Some(mut queue) = self.queues.remove(&ip) else { continue };
            let next = self.next_of(&mut queue, now);
            if !queue.is_empty() {
                self.round_robin.push_back(ip);
                self.queues.insert(ip, queue);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// The first of these names that has waiters, is not being looked up yet, and is granted a thread.
    fn next_of(&mut self, queue: &mut VecDeque<Waiting>, now: Instant) -> Option<Arc<str>> {
        queue.retain(|waiting| self.is_waited_for(&waiting.host, now));
        for at in 0..queue.len() {
            let waiting = queue.get_mut(at)?;
            match waiting.account.charge(Resource::LookupThreads, 1) {
                Ok(charge) => {
                    let host = queue.remove(at)?.host;
                    self.pending.get_mut(&host)?.under_way = Some(charge);
                    return Some(host);
                }
                Err(spent) => {
                    if !core::mem::replace(&mut waiting.is_counted, true) {
                        self.spent.push(spent);
                    }
                    if spent.by == SpentBy::All {
                        return None;
                    }
                    // Another connection of the same address may have quota left.
                }
            }
        }
        None
    }

    /// Whether a name has yet to be looked up for a waiter. Waiters may expire while other names are being looked up.
    fn is_waited_for(&mut self, host: &Arc<str>, now: Instant) -> bool {
        let Some(pending) = self.pending.get_mut(host) else { return false };
        if pending.under_way.is_some() {
            return false;
        }
        pending.waiters.retain(|waiter| now < waiter.until);
        let is_waited_for = !pending.waiters.is_empty();
        if !is_waited_for {
            self.pending.remove(host);
        }
        is_waited_for
    }

    /// Takes the result of a lookup. Returns all waiters of the name.
    pub(super) fn found(&mut self, host: &Arc<str>, found: Found, now: Instant) -> Vec<W> {
        let until = now + KNOWN_FOR;
        while self.order.len() >= KNOWN_MAX
            && let Some((oldest, kept_until)) = self.order.pop_front()
        {
            if self.known.get(&oldest).is_some_and(|(_, until)| *until == kept_until) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(Arc::clone(host), (found, until));
        self.order.push_back((Arc::clone(host), until));
        let pending = self.pending.remove(host);
        pending.into_iter().flat_map(|pending| pending.waiters).map(|waiter| waiter.who).collect()
    }

    /// Removes the refused claims since the last call.
    pub(super) fn take_spent(&mut self) -> Vec<Spent> {
        core::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::{Accounts, Ceilings};

    struct Bench {
        names: Names<u32>,
        accounts: Arc<Accounts>,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let ceilings = Ceilings::new(75).with(Resource::Lookups, 256, 4).with(Resource::LookupThreads, 8, 1);
            Self { names: Names::default(), accounts: Accounts::new(ceilings), now: Instant::now() }
        }

        fn client(&self, last: u8) -> Arc<Account> {
            self.accounts.account_of([127, 0, 0, last].into())
        }

        fn ask(&mut self, by: &Arc<Account>, host: &str, who: u32) -> Option<(u32, Found)> {
            let charge = by.charge(Resource::Lookups, 1).unwrap();
            let until = self.now + Duration::from_secs(5);
            self.names.ask(host, Waiter { who, until, charge }, self.now)
        }

        fn begun(&mut self) -> Vec<String> {
            core::iter::from_fn(|| self.names.poll(self.now)).map(|host| host.to_string()).collect()
        }
    }

    fn here() -> Found {
        Ok(vec![[10, 0, 0, 1].into()])
    }

    /// A consumer that had moved was looked for at its former address for a minute.
    #[test]
    fn a_client_that_tries_again_has_a_name_looked_up_anew() {
        let mut bench = Bench::new();
        let client = bench.client(2);
        let host = "moved.example";
        let answers = [Ok(vec![[10, 0, 0, 1].into()]), Err("has no address".to_owned()), here()];
        for (who, answer) in (0..).zip(answers) {
            assert_eq!(bench.ask(&client, host, who), None);
            assert_eq!(bench.begun(), [host]);
            assert_eq!(bench.names.found(&host.into(), answer.clone(), bench.now), [who]);
            // Lookups that coincide have one answer.
            assert_eq!(bench.ask(&client, host, 10), Some((10, answer)));
            bench.now += KNOWN_FOR;
        }
    }

    #[test]
    fn a_client_whose_names_take_long_does_not_keep_anothers_waiting() {
        // Four names that took 10 s each kept the consumer of another client unreached for 100 s, until it was disconnected.
        let mut bench = Bench::new();
        let (slow, other) = (bench.client(2), bench.client(3));
        for who in 0..100 {
            assert_eq!(bench.ask(&slow, &format!("slow-{who}.example"), who), None);
        }
        let under_way = bench.begun();
        assert!((4..8).contains(&under_way.len()), "{under_way:?}");
        assert_eq!(bench.ask(&other, "other.example", 1_000), None);
        assert_eq!(bench.begun(), ["other.example"]);
        let spent = bench.names.take_spent();
        assert_eq!(spent.len(), 100 - under_way.len(), "each that waits is counted once");
        assert!(spent.iter().all(|spent| spent.by == SpentBy::Client));
        assert_eq!(bench.names.found(&"other.example".into(), here(), bench.now), [1_000]);
        // What it may have is its own again when a name of its is answered.
        bench.names.found(&under_way[0].as_str().into(), here(), bench.now);
        assert_eq!(bench.begun().len(), 1);
    }

    #[test]
    fn without_quotas_the_threads_are_all_that_there_is() {
        let mut bench = Bench::new();
        bench.accounts = Accounts::new(Ceilings::new(100).with(Resource::LookupThreads, 8, 1));
        let client = bench.client(2);
        for who in 0..20 {
            bench.ask(&client, &format!("{who}.example"), who);
        }
        assert_eq!(bench.begun().len(), 8);
        let spent = bench.names.take_spent();
        assert_eq!(spent, [Spent { resource: Resource::LookupThreads, by: SpentBy::All }]);
    }

    #[test]
    fn clients_take_turns() {
        let mut bench = Bench::new();
        let clients = [bench.client(2), bench.client(3)];
        for (number, client) in (1..).zip(&clients) {
            for who in 0..20 {
                bench.ask(client, &format!("{who}.of-{number}.example"), who);
            }
        }
        let begun = bench.begun();
        let of = |end: &str| begun.iter().filter(|host| host.ends_with(end)).count();
        assert!(of("of-1.example") >= 3 && of("of-2.example") >= 3, "{begun:?}");
        assert!(begun.len() < 8, "something is left for a third");
    }

    #[test]
    fn a_name_that_several_ask_for_is_looked_up_once_for_all_of_them() {
        let mut bench = Bench::new();
        let (one, two) = (bench.client(2), bench.client(3));
        bench.ask(&one, "Host.example", 1);
        bench.ask(&two, "host.EXAMPLE", 2);
        assert_eq!(bench.begun(), ["host.example"]);
        bench.ask(&two, "host.example", 3);
        assert_eq!(bench.begun(), [""; 0]);
        assert_eq!(bench.names.found(&"host.example".into(), here(), bench.now), [1, 2, 3]);
        assert_eq!(bench.ask(&one, "host.example", 4), Some((4, here())));
        let (resources, none) = ([Resource::Lookups, Resource::LookupThreads], [0, 0]);
        assert_eq!(resources.map(|resource| bench.accounts.used(resource)), none);
    }

    #[test]
    fn a_name_of_a_client_without_a_quota_left_is_looked_up_for_another_that_requests_it() {
        let mut bench = Bench::new();
        let (slow, other) = (bench.client(2), bench.client(3));
        for who in 0..10 {
            bench.ask(&slow, &format!("slow-{who}.example"), who);
        }
        bench.ask(&slow, "wanted.example", 10);
        bench.begun();
        bench.ask(&other, "wanted.example", 11);
        assert_eq!(bench.begun(), ["wanted.example"]);
        assert_eq!(bench.names.found(&"wanted.example".into(), here(), bench.now), [10, 11]);
    }

    #[test]
    fn no_more_is_kept_than_is_said() {
        let mut bench = Bench::new();
        let client = bench.client(2);
        for number in 0..3 * KNOWN_MAX {
            let host = format!("{number}.example");
            bench.ask(&client, &host, 0);
            bench.begun();
            bench.names.found(&host.as_str().into(), here(), bench.now);
        }
        assert_eq!((bench.names.known.len(), bench.names.order.len()), (KNOWN_MAX, KNOWN_MAX));
        assert_eq!((bench.names.pending.len(), bench.names.queues.len(), bench.names.round_robin.len()), (0, 0, 0));
    }

    #[test]
    fn a_name_for_which_no_call_waits_any_more_is_not_looked_up() {
        let mut bench = Bench::new();
        let client = bench.client(2);
        bench.ask(&client, "late.example", 1);
        bench.now += Duration::from_secs(5);
        assert_eq!(bench.begun(), [""; 0]);
        assert_eq!((bench.names.pending.len(), bench.accounts.used(Resource::Lookups)), (0, 0));
    }
}
