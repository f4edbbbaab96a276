//! The resolver's threads, with look-ups that end when the test says so.

use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::counters::Counters;
use crate::lane::links::mailbox::mailbox;
use accounts::{Account, Accounts, Ceilings, Resource};

/// Names that are being looked up, and how to end each.
type Begun = Arc<Mutex<Vec<(String, Sender<Found>)>>>;

/// A resolver, a lane that asks it, and the look-ups that have begun and not ended.
struct Bench {
    lookups: Mailbox<Lookup>,
    answers: Inbox<Resolved>,
    accounts: Arc<Accounts>,
    counters: Counters,
    begun: Begun,
    _introductions: Mailbox<Asking>,
}

impl Bench {
    fn new() -> Self {
        let lane_waker = Arc::new(Waker::new().unwrap());
        let resolver_waker = Arc::new(Waker::new().unwrap());
        let (lookups, asked) = mailbox(&resolver_waker, QUEUE);
        let (told, answers) = mailbox(&lane_waker, QUEUE);
        let (mut introductions, introduced) = mailbox(&resolver_waker, 1);
        introductions.send(Asking { lookups: asked, answers: told }).ok().unwrap();
        let ceilings = Ceilings::new(75);
        let ceilings = ceilings.with(Resource::Lookups, QUEUE as u64, 4);
        let ceilings = ceilings.with(Resource::LookupThreads, THREADS_MAX as u64, 1);
        let counters = Counters::new(1);
        let begun: Begun = Arc::default();
        let of_thread = Arc::clone(&begun);
        let look_up = move |host: &str| {
            let (end, ended) = channel();
            of_thread.lock().unwrap().push((host.to_owned(), end));
            ended.recv().unwrap_or_else(|_| Err("was not looked up".into()))
        };
        let resolver = Resolver::new(resolver_waker, introduced, Arc::new(look_up), counters.of_resolver());
        Builder::new().spawn(move || resolver.run()).unwrap();
        let accounts = Accounts::new(ceilings);
        Self { lookups, answers, accounts, counters, begun, _introductions: introductions }
    }

    fn client(&self, last: u8) -> Arc<Account> {
        self.accounts.account_of([127, 0, 0, last].into())
    }

    fn ask(&mut self, by: &Arc<Account>, host: &str, connection: u64) {
        let charge = by.charge(Resource::Lookups, 1).unwrap();
        let until = Instant::now() + Duration::from_secs(3_600);
        let connection = Token::from_bits(connection);
        let lookup = Lookup { connection: (Tag::Giop, connection), host: host.into(), port: 7, until, charge };
        assert!(self.lookups.send(lookup).is_ok());
    }

    /// Waits until a name is being looked up, and ends that.
    fn end(&self, host: &str, found: Found) {
        let mut end = None;
        testing::wait_until(format!("{host} is looked up"), || {
            let mut begun = self.begun.lock().unwrap();
            let at = begun.iter().position(|(name, _)| name == host);
            end = at.map(|at| begun.swap_remove(at).1);
            end.is_some()
        });
        end.unwrap().send(found).unwrap();
    }

    fn answer(&mut self) -> (u64, Result<Vec<SocketAddr>, String>) {
        let mut answer = None;
        testing::wait_until("an answer of the resolver", || {
            answer = self.answers.take();
            answer.is_some()
        });
        let Resolved { connection, addresses } = answer.unwrap();
        (connection.1.to_bits(), addresses)
    }
}

#[test]
fn another_clients_name_is_answered_while_a_clients_hundred_are_being_looked_up() {
    // Four names that took 10 s each kept another client's consumer unreached for 100 s: there was one thread for all names.
    let mut bench = Bench::new();
    let (slow, other) = (bench.client(2), bench.client(3));
    for number in 0..100 {
        bench.ask(&slow, &format!("slow-{number}.example"), number);
    }
    bench.ask(&other, "other.example", 1_000);
    bench.end("other.example", Ok(vec![[10, 0, 0, 1].into()]));
    assert_eq!(bench.answer(), (1_000, Ok(vec![([10, 0, 0, 1], 7).into()])));
    let begun = bench.counters.read(Counter::LookupsBegun);
    assert!(begun <= THREADS_MAX as u64, "{begun} threads");
    assert!(bench.counters.read(Counter::LookupThreadsQuota) > 0);
    bench.end("slow-0.example", Err("cannot be resolved: nobody knows it".into()));
    let why = "the host name slow-0.example cannot be resolved: nobody knows it".to_owned();
    assert_eq!(bench.answer(), (0, Err(why)));
}

#[test]
fn names_of_many_clients_wait_where_all_threads_are_at_work() {
    let mut bench = Bench::new();
    for last in 2..22 {
        let client = bench.client(last);
        (0..2).for_each(|number| bench.ask(&client, &format!("slow-{last}-{number}.example"), last.into()));
    }
    testing::wait_until("one too many", || bench.counters.read(Counter::LookupThreadsLimit) > 0);
    assert!(bench.counters.read(Counter::LookupsBegun) <= THREADS_MAX as u64);
    // Each that ends makes room for the next.
    for _ in 0..40 {
        let mut end = None;
        testing::wait_until("a name to be looked up", || {
            end = bench.begun.lock().unwrap().pop();
            end.is_some()
        });
        end.unwrap().1.send(Ok(vec![[10, 0, 0, 1].into()])).unwrap();
    }
    let mut answered: Vec<u64> = (0..40).map(|_| bench.answer().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, (2..22).flat_map(|last| [last, last]).collect::<Vec<u64>>());
}

#[test]
fn a_name_that_was_found_is_not_looked_up_again_for_another_port_or_client() {
    let mut bench = Bench::new();
    let (one, two) = (bench.client(2), bench.client(3));
    bench.ask(&one, "host.example", 1);
    bench.end("host.example", Ok(vec![[10, 0, 0, 1].into()]));
    assert_eq!(bench.answer().0, 1);
    bench.ask(&two, "host.example", 2);
    assert_eq!(bench.answer(), (2, Ok(vec![([10, 0, 0, 1], 7).into()])));
    assert_eq!(bench.counters.read(Counter::LookupsBegun), 1);
    assert_eq!(bench.counters.read(Counter::LookupsShared), 1);
    bench.ask(&one, &"x".repeat(255), 3);
    assert!(bench.answer().1.is_err_and(|why| why.ends_with("is longer than any host name")));
    assert_eq!(bench.counters.read(Counter::LookupsBegun), 1);
}

#[test]
fn for_numbers_and_this_host_no_resolver_is_asked() {
    let ips =
        |host: &str| known_without_asking(host).map(|ips| ips.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(ips("10.0.0.1"), Some(vec!["10.0.0.1".into()]));
    assert_eq!(ips("fe80::1"), Some(vec!["fe80::1".into()]));
    for host in ["localhost", "LocalHost.", "a.localhost"] {
        assert_eq!(ips(host), Some(vec!["::1".into(), "127.0.0.1".into()]), "{host}");
    }
    assert_eq!(ips("localhost.example"), None);
    assert_eq!(ips("notlocalhost"), None);
}
