//! Consumers that share a thread, and those that do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::{Consumer, Event, Settings, Subscription, Supplier};
use service::{Config, Service};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use testing::wait_until;

#[derive(Event, Clone, Debug, PartialEq)]
struct Number {
    number: u32,
}

/// Each transport, with the setting and a domain of each test's own.
fn everywhere(test: u16, shared_thread: bool, run: impl Fn(&Settings)) {
    let service =
        Service::start(Config { listen: format!("{}:0", testing::own_loopback()), ..Config::default() }).unwrap();
    run(&Settings { server: service.address().to_string(), shared_thread, ..Settings::default() });
    #[cfg(feature = "dds")]
    {
        let transport = campanile::Transport::Dds;
        let mut settings = Settings { transport, shared_thread, ..Settings::default() };
        settings.dds.domain_default = 2 + test + u16::try_from(std::process::id() % 20).unwrap() * 10;
        settings.dds.interface = Some("127.0.0.1".into());
        settings.dds.peers = vec!["127.0.0.1".into()];
        run(&settings);
    }
    #[cfg(not(feature = "dds"))]
    let _ = test;
}

/// What came to a consumer, and on which threads.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<(Vec<u32>, HashSet<ThreadId>)>>);

impl Arrivals {
    fn take(&self, number: u32) {
        let mut came = self.0.lock().unwrap();
        came.0.push(number);
        came.1.insert(thread::current().id());
    }

    fn numbers(&self) -> Vec<u32> {
        self.0.lock().unwrap().0.clone()
    }

    /// Waits for the numbers below that, once each and in order.
    fn wait_for(&self, count: u32) {
        let due: Vec<u32> = (0..count).collect();
        wait_until(format_args!("{count} events"), || self.numbers().len() >= due.len());
        assert_eq!(self.numbers(), due);
    }
}

/// A consumer that calls `more`, too, with each number.
fn consumer(settings: &Settings, arrivals: &Arrivals, mut more: impl FnMut(u32) + Send + 'static) -> Subscription {
    let arrivals = arrivals.clone();
    let consumer = Consumer::new("Numbers").settings(settings.clone()).on(move |event: Number| {
        arrivals.take(event.number);
        more(event.number);
    });
    consumer.unwrap().ready().unwrap()
}

fn publish(supplier: &Supplier, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| supplier.publish(&Number { number }).unwrap());
}

const CONSUMERS: usize = 10;

fn all() -> Vec<Arrivals> {
    std::iter::repeat_with(Arrivals::default).take(CONSUMERS).collect()
}

#[test]
fn consumers_that_share_have_one_thread_and_each_gets_all_in_order() {
    for is_shared in [true, false] {
        everywhere(0, is_shared, |settings| {
            let all = all();
            let _consumers: Vec<_> = all.iter().map(|arrivals| consumer(settings, arrivals, |_| {})).collect();
            publish(&Supplier::with("Numbers", settings).unwrap(), 0..50);
            all.iter().for_each(|arrivals| arrivals.wait_for(50));
            let threads: HashSet<ThreadId> =
                all.iter().flat_map(|arrivals| arrivals.0.lock().unwrap().1.clone()).collect();
            assert_eq!(threads.len(), if is_shared { 1 } else { CONSUMERS }, "{:?}", settings.transport);
            assert!(!threads.contains(&thread::current().id()));
        });
    }
}

#[test]
fn one_that_is_closed_leaves_the_others_as_they_are_and_others_come() {
    everywhere(3, true, |settings| {
        let all = all();
        let mut consumers: Vec<_> = all.iter().map(|arrivals| consumer(settings, arrivals, |_| {})).collect();
        let supplier = Supplier::with("Numbers", settings).unwrap();
        publish(&supplier, 0..20);
        all.iter().for_each(|arrivals| arrivals.wait_for(20));
        consumers.remove(3).close();
        publish(&supplier, 20..40);
        all.iter().enumerate().for_each(|(place, arrivals)| arrivals.wait_for(if place == 3 { 20 } else { 40 }));
        consumers.into_iter().for_each(Subscription::close);
        publish(&supplier, 40..60);
        // The thread is another one now, if it is one of the library's that had ended.
        let late = Arrivals::default();
        let _late = consumer(settings, &late, |_| {});
        wait_until("an event for a later consumer", || {
            publish(&supplier, 60..61);
            late.numbers().first() == Some(&60)
        });
        let came: Vec<_> = all.iter().map(|arrivals| arrivals.numbers().len()).collect();
        assert_eq!(came, [40, 40, 40, 20, 40, 40, 40, 40, 40, 40]);
    });
}

#[test]
fn a_callback_may_drop_another_consumer() {
    for is_shared in [true, false] {
        everywhere(6, is_shared, |settings| {
            let all = all();
            let victim = Arc::new(Mutex::new(None));
            let of_first = victim.clone();
            let drops = move |number| {
                if number == 10 {
                    drop::<Option<Subscription>>(of_first.lock().unwrap().take());
                }
            };
            // It is there before the one that drops it gets anything.
            *victim.lock().unwrap() = Some(consumer(settings, &all[5], |_| {}));
            let first = consumer(settings, &all[0], drops);
            let others = [1, 2, 3, 4, 6, 7, 8, 9];
            let consumers = others.map(|place| consumer(settings, &all[place], |_| {}));
            let supplier = Supplier::with("Numbers", settings).unwrap();
            publish(&supplier, 0..20);
            all[0].wait_for(20);
            assert!(victim.lock().unwrap().is_none());
            publish(&supplier, 20..40);
            others.iter().chain(&[0]).for_each(|place| all[*place].wait_for(40));
            assert!(all[5].numbers().iter().all(|number| *number < 20), "{:?}", all[5].numbers());
            drop((first, consumers));
        });
    }
}
