//! Timers of channels in a whole service, on a clock that the test sets.

use core::time::Duration;

use super::network::{self, Net, Weather};
use super::wire::net;
use super::world::Over;
use super::{LANES, RESOLVER, run_lane, sockets};
use crate::admin::run::Administration;
use crate::admin::values::TimerStatus;
use crate::config::{Config, DeclaredChannel, DeclaredTimer, Limits};
use crate::counters::{Counter, Counters};
use crate::lane::io::net::Listener;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::ToAdministration;
use crate::protocols::Listeners;
use crate::start::{Assembled, simulated};

/// A service with timers.
struct Clocked {
    administration: Administration,
    counters: Counters,
    // Administration ends, and the simulation with it, when these do.
    _orders: Mailbox<ToAdministration>,
    _over: Over,
}

fn time() -> Duration {
    net(|net| net.time())
}

fn until_due() -> Option<Duration> {
    LANES.with_borrow_mut(|lanes| lanes[0].as_mut().and_then(|lane| lane.until_due()))
}

fn timer(name: &str) -> DeclaredTimer {
    DeclaredTimer { name: name.into(), ..DeclaredTimer::default() }
}

impl Clocked {
    fn new(timers: Vec<DeclaredTimer>) -> Self {
        Self::with(vec![timers])
    }

    /// A service with a channel for each of these lists of timers.
    fn with(timers: Vec<Vec<DeclaredTimer>>) -> Self {
        network::set(Some(Net::new(1, Weather { reading: Duration::ZERO, ..Weather::FAIR })));
        let over = Over;
        let listeners = Listeners::of_giop(Listener::simulated(sockets::SERVICE).unwrap());
        let limits = Limits { memory_bytes: Some(1 << 30), ..Limits::default() };
        let channel = |(at, timers): (u32, Vec<DeclaredTimer>)| DeclaredChannel {
            name: format!("Plant{at}"),
            properties: [].into(),
            lane: Vec::new(),
            timers,
        };
        let config = Config { limits, channels: (0..).zip(timers).map(channel).collect(), ..Config::default() };
        let Assembled { administrator, administration, counters, .. } =
            simulated(&config, listeners, sockets::SERVICE).unwrap();
        assert!(RESOLVER.take().is_some());
        Self { administration: administrator, counters, _orders: administration, _over: over }
    }

    /// Runs administration, and the lane whenever it has work, until so much time has passed. Returns how often the lane ran.
    fn run(&mut self, millis: u64) -> u64 {
        let (end, mut rounds) = (time() + Duration::from_millis(millis), 0);
        loop {
            self.administration.round();
            match until_due() {
                Some(until) if until.is_zero() => {
                    assert!(run_lane(0));
                    rounds += 1;
                }
                until => match until.map(|until| time() + until).filter(|then| *then <= end) {
                    Some(then) => net(|net| net.go_to(then)),
                    None => break,
                },
            }
        }
        net(|net| net.go_to(end));
        rounds
    }

    /// Lets time pass without running anything.
    fn stall(millis: u64) {
        let then = time() + Duration::from_millis(millis);
        net(|net| net.go_to(then));
    }

    fn counted(&self) -> [u64; 3] {
        [Counter::TimerEvents, Counter::TimerIntervalsMissed, Counter::TimerEventsDropped]
            .map(|counter| self.counters.read(counter))
    }

    fn status(&self) -> Vec<TimerStatus> {
        self.administration.timers(None, None)
    }
}

#[test]
fn intervals_fire_at_their_times_and_what_a_stall_passes_over_is_counted() {
    let tick = DeclaredTimer { every: Some("10ms".into()), ..timer("tick") };
    let mut clocked = Clocked::new(vec![tick]);
    clocked.run(95);
    assert_eq!(clocked.counted(), [9, 0, 0]);
    Clocked::stall(1_000);
    assert!(run_lane(0));
    assert_eq!(clocked.counted(), [10, 99, 0], "no burst");
    assert_eq!(clocked.status()[0].next, Some(Duration::from_millis(5)), "the phase is as before");
    clocked.run(5);
    assert_eq!(clocked.counted(), [11, 99, 0]);
}

#[test]
fn a_service_without_timers_that_fire_sleeps() {
    let mut clocked = Clocked::new(vec![
        DeclaredTimer { after: Some("1s".into()), ..timer("begun") },
        DeclaredTimer { silence: Some("2s".into()), ..timer("quiet") },
    ]);
    clocked.run(999);
    assert_eq!(clocked.counted(), [0, 0, 0]);
    clocked.run(1);
    assert_eq!(clocked.counted(), [1, 0, 0]);
    clocked.run(10_000);
    assert_eq!(clocked.counted(), [2, 0, 0], "each once, however long nothing comes");
    let next: Vec<_> = clocked.status().iter().map(|timer| (timer.fired, timer.next)).collect();
    assert_eq!(next, [(1, None), (1, None)]);
    // Beside probes and sweeps, the lane wakes once in each period of the silence.
    let rounds = clocked.run(20_000);
    assert!(rounds <= 40, "{rounds}");
}

#[test]
fn timers_of_many_channels_fire_within_the_bound_of_a_round_and_the_others_in_the_next() {
    let every = |at: u32| DeclaredTimer { every: Some("5ms".into()), ..timer(&format!("t{at}")) };
    let mut clocked = Clocked::with((0..5).map(|_| (0..64).map(every).collect()).collect());
    clocked.run(1);
    Clocked::stall(5);
    assert!(run_lane(0));
    assert_eq!(clocked.counted(), [256, 0, 0]);
    assert!(run_lane(0));
    assert_eq!(clocked.counted(), [320, 0, 0]);
}

#[test]
fn timers_fire_no_more_once_the_service_is_about_to_end() {
    let mut clocked = Clocked::new(vec![DeclaredTimer { every: Some("10ms".into()), ..timer("tick") }]);
    clocked.run(50);
    LANES.with_borrow_mut(|lanes| lanes[0].as_mut().unwrap().drain());
    clocked.run(1_000);
    assert_eq!(clocked.counted(), [5, 0, 0]);
}
