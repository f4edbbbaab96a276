//! A main lane that runs by the clock, moment by moment: when it takes in events, and when not.

use core::time::Duration;
use std::net::IpAddr;

use client::notify::{ClientType, Property, StructuredEvent};
use giop::cdr::Endian;
use giop::ior::Ior;
use giop::message::ReplyStatus;

use super::network::{self, Net, Weather};
use super::suppliers::{key_of, write_qos};
use super::wire::{Asker, net};
use super::world::Over;
use super::{LANES, RESOLVER, run_lane, sockets};
use crate::admin::run::Administration;
use crate::config::{Config, Lanes, Limits, Scheduling};
use crate::counters::{Counter, Counters};
use crate::lane::io::net::Listener;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::ToAdministration;
use crate::protocols::Listeners;
use crate::start::{Assembled, simulated};

const PERIOD: Duration = Duration::from_millis(1);
const BUDGET: Duration = Duration::from_micros(100);
/// Time until octets have arrived, and a little more.
const ARRIVAL: Duration = Duration::from_micros(20);

/// A service with a connected supplier.
struct Timed {
    administration: Administration,
    counters: Counters,
    supplier: Asker<&'static str>,
    proxy: Vec<u8>,
    // Administration ends, and the simulation with it, when these do.
    _orders: Mailbox<ToAdministration>,
    _over: Over,
}

/// Time until the main lane has work and may do it.
fn until_due() -> Option<Duration> {
    LANES.with_borrow_mut(|lanes| lanes[0].as_mut().and_then(|lane| lane.until_due()))
}

/// Whether its poll has found sockets that it has not served.
fn has_found() -> bool {
    LANES.with_borrow(|lanes| lanes[0].as_ref().is_some_and(|lane| lane.core.cx.io.poll.len() > 0))
}

fn time() -> Duration {
    net(|net| net.time())
}

fn go_to(then: Duration) {
    net(|net| net.go_to(then));
}

/// The first release from now on.
fn next_release() -> Duration {
    let periods = time().as_nanos().div_ceil(PERIOD.as_nanos());
    PERIOD * u32::try_from(periods).unwrap()
}

impl Timed {
    /// Starts with a clock of which each reading takes `reading`.
    fn new(reading: Duration) -> Self {
        // The lane takes for time 0 what the simulation does: nothing reads the clock before it that makes it go on.
        network::set(Some(Net::new(1, Weather { reading: Duration::ZERO, ..Weather::FAIR })));
        let over = Over;
        let lanes = Lanes {
            scheduling: Scheduling::Ordinary,
            main_period_us: u32::try_from(PERIOD.as_micros()).unwrap(),
            main_budget_us: u32::try_from(BUDGET.as_micros()).unwrap(),
            ..Lanes::default()
        };
        // In a simulation a message takes no time, and readings of the clock do.
        let limits = Limits { memory_bytes: Some(1 << 30), round_messages: 32, ..Limits::default() };
        let listeners = Listeners::of_giop(Listener::simulated(sockets::SERVICE).unwrap());
        let config = Config { lanes, limits, ..Config::default() };
        let Assembled { administrator, administration, counters, .. } =
            simulated(&config, listeners, sockets::SERVICE).unwrap();
        assert!(RESOLVER.take().is_some());
        net(|net| net.weather.reading = reading);
        let supplier = Asker::connect(IpAddr::from([10, 0, 2, 1]), sockets::SERVICE, Endian::Little);
        let (proxy, _orders, _over) = (Vec::new(), administration, over);
        let mut timed = Self { administration: administrator, counters, supplier, proxy, _orders, _over };
        timed.connect();
        timed
    }

    /// Asks for a supplier's proxy, and connects to it.
    fn connect(&mut self) {
        self.supplier.ask(Some("admin"), b"DefaultEventChannel", "_get_default_supplier_admin", |_| ());
        loop {
            for answered in self.supplier.answers().unwrap() {
                assert_eq!(answered.status, ReplyStatus::NoException, "{}", answered.what);
                match answered.what {
                    "admin" => {
                        let operation = "obtain_notification_push_consumer_with_qos";
                        self.supplier.ask(Some("proxy"), &key_of(&answered).unwrap(), operation, |w| {
                            w.u32(ClientType::Structured.to_cdr());
                            write_qos(None, w);
                        });
                    }
                    "proxy" => {
                        self.proxy = key_of(&answered).unwrap();
                        let operation = "connect_structured_push_supplier";
                        self.supplier.ask(Some("connected"), &self.proxy, operation, |w| Ior::nil().write(w));
                    }
                    _ => return self.rest(),
                }
            }
            self.go_on();
        }
    }

    /// Runs administration and the lane once, or lets time pass until something is due.
    fn go_on(&mut self) {
        self.administration.round();
        match until_due() {
            Some(until) if until.is_zero() => assert!(run_lane(0)),
            until => {
                let arrival = net(|net| net.next_arrival());
                let then = until.map(|until| time() + until).into_iter().chain(arrival).min();
                go_to(then.unwrap_or(time() + PERIOD));
            }
        }
    }

    /// Runs until nothing is under way and the lane sleeps.
    fn rest(&mut self) {
        while until_due().is_some_and(|until| until <= PERIOD) || net(|net| net.next_arrival()).is_some() {
            self.go_on();
        }
    }

    /// Pushes so many events, and lets them arrive.
    fn push(&mut self, events: u32) {
        for number in 0..events {
            let mut event = StructuredEvent::new("Test", "Numbered", "");
            event.filterable_data.push(Property::new("number", number));
            self.supplier.ask(None, &self.proxy, "push_structured_event", |w| event.write(w).unwrap());
        }
        self.supplier.answers().unwrap();
        go_to(time() + ARRIVAL);
    }

    /// Runs the lane until it sleeps.
    fn run_until_it_sleeps(&self) {
        while until_due().is_some_and(|until| until.is_zero()) {
            assert!(run_lane(0));
        }
    }

    /// Runs a period without work: a round, and a check that finds nothing more.
    fn have_quiet_period(&self) {
        assert!(run_lane(0));
        assert!(run_lane(0));
        assert!(until_due().is_none_or(|until| !until.is_zero()));
        assert_eq!(self.read(Counter::LaneBudgetsSpent), 0);
    }

    fn read(&self, counter: Counter) -> u64 {
        self.counters.read(counter)
    }
}

#[test]
fn event_that_comes_between_releases_is_taken_in_at_the_next() {
    let mut timed = Timed::new(Duration::from_nanos(100));
    let release = next_release() + PERIOD;
    go_to(release - PERIOD);
    timed.have_quiet_period();
    go_to(release - PERIOD / 2);
    timed.push(1);
    let asked = time();
    let until = until_due().unwrap();
    assert!(!until.is_zero() && asked + until <= release, "it waits for its release, and no longer: {until:?}");
    // Even if something wakes it before.
    assert!(run_lane(0));
    assert_eq!(timed.read(Counter::EventsIn), 0);
    go_to(release);
    timed.run_until_it_sleeps();
    assert_eq!(timed.read(Counter::EventsIn), 1);
    assert!(time() < release + BUDGET);
    assert_eq!(timed.read(Counter::LaneBudgetsSpent), 0);
}

#[test]
fn flood_is_cut_at_the_budget_and_goes_on_in_the_next_period() {
    const EVENTS: u32 = 1_000;
    // A round takes a few dozens of messages, and some readings of the clock.
    let mut timed = Timed::new(Duration::from_micros(2));
    timed.push(EVENTS);
    let mut taken = timed.read(Counter::EventsIn);
    assert_eq!(taken, 0);
    let mut periods = 0;
    while taken < u64::from(EVENTS) {
        let release = next_release();
        go_to(release);
        let (polls, has_found) = (net(|net| net.waits()), has_found());
        assert!(run_lane(0));
        assert_eq!(net(|net| net.waits()) == polls, has_found, "what the last look found comes first");
        timed.run_until_it_sleeps();
        let (used, now_taken) = (time() - release, timed.read(Counter::EventsIn));
        assert!(now_taken > taken, "each period takes some");
        assert!(used < BUDGET + PERIOD / 4, "the budget is exceeded by a round at most: {used:?}");
        assert!(until_due().is_none_or(|until| !until.is_zero()));
        periods += 1;
        taken = now_taken;
        let cut = timed.read(Counter::LaneBudgetsSpent);
        assert!(cut == periods || taken == u64::from(EVENTS), "{cut} of {periods} were cut");
    }
    assert!(periods >= 3, "{periods}");
}

#[test]
fn quiet_lane_wakes_once_in_a_period() {
    const PERIODS: u64 = 50;
    let timed = Timed::new(Duration::from_nanos(100));
    let counted = || (timed.read(Counter::LanePeriods), timed.read(Counter::Cycles), net(|net| net.waits()));
    // Between two releases.
    go_to(next_release() + PERIOD / 2);
    let (periods, rounds, polls) = counted();
    for _ in 0..PERIODS {
        go_to(next_release());
        timed.have_quiet_period();
    }
    assert_eq!(counted(), (periods + PERIODS, rounds + PERIODS, polls + 2 * PERIODS));
    assert_eq!(timed.read(Counter::LaneBudgetsSpent), 0);
}
