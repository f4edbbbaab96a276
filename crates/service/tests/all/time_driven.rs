//! Lanes that run by the clock, as whole services have them: nothing is lost, and what is too much waits.

use std::sync::mpsc::{Receiver, channel};

use client::notify::{Property, ThreadPool};
use client::{ConsumerOptions, PublisherOptions, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::realtime::PriorityModel;
use service::{Config, Counter, Lanes, Scheduling, Service, TimeDriven};
use testing::NextInTime;

use crate::kinds::{Got, event_of};
use crate::peers::{start_with, wait_until};
use crate::persistent::factory;

fn start(lanes: Lanes) -> Service {
    start_with(Config { lanes: Lanes { scheduling: Scheduling::Ordinary, ..lanes }, ..Config::default() })
}

fn by_the_clock(main_period_us: u32, main_budget_us: u32) -> Lanes {
    Lanes { main_period_us, main_budget_us, ..Lanes::default() }
}

fn consume(service: &Service, channel_id: Option<i32>) -> (SimpleConsumer, Receiver<i32>) {
    let (sender, numbers) = channel();
    let url = service.corbaloc("NotificationService");
    let consumer = SimpleConsumer::connect(&url, channel_id, ConsumerOptions::default(), move |received| {
        // The test may have seen enough.
        let _ = sender.send(Got::from(received.event().unwrap()).number);
        Ok(())
    });
    (consumer.unwrap(), numbers)
}

fn supply(service: &Service, channel: Option<i32>) -> SimpleSupplier {
    let url = service.corbaloc("NotificationService");
    SimpleSupplier::connect_with(&url, channel, SupplierOptions::default()).unwrap()
}

#[test]
fn event_gets_through_a_main_lane_that_runs_by_the_clock() {
    let service = start(by_the_clock(5_000, 1_000));
    let (_consumer, numbers) = consume(&service, None);
    let supplier = supply(&service, None);
    for number in 0..20 {
        supplier.publish(&event_of("Test", number)).unwrap();
        assert_eq!(numbers.next_in_time(), number);
    }
    // How many periods that takes depends on the machine: what comes while the lane still runs goes with what came before.
    assert!(service.counters().read(Counter::LanePeriods) > 0);
}

#[test]
fn nothing_is_lost_or_out_of_order_under_more_load_than_the_budget_has_room_for() {
    const SUPPLIERS: i32 = 4;
    const EVENTS: i32 = 2_000;
    // A round takes longer than such a budget.
    let service = start(by_the_clock(500, 10));
    let (_consumer, numbers) = consume(&service, None);
    std::thread::scope(|scope| {
        for supplier in 0..SUPPLIERS {
            let service = &service;
            scope.spawn(move || {
                let own = supply(service, None);
                let mut publisher = own.publisher(PublisherOptions::default()).unwrap();
                for number in 0..EVENTS {
                    publisher.publish(&event_of("Test", supplier * EVENTS + number)).unwrap();
                }
                let tally = publisher.sync();
                assert_eq!((tally.confirmed, tally.lost()), (2_000, 0));
            });
        }
    });
    let mut next = [0; SUPPLIERS as usize];
    for _ in 0..SUPPLIERS * EVENTS {
        let number = numbers.next_in_time();
        let own = &mut next[usize::try_from(number / EVENTS).unwrap()];
        assert_eq!(number % EVENTS, *own);
        *own += 1;
    }
    assert_eq!(next, [EVENTS; SUPPLIERS as usize]);
    assert!(service.counters().read(Counter::LaneBudgetsSpent) > 0, "events waited for another period");
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn lanes_of_a_pool_run_by_the_clock_of_their_priority() {
    const EVENTS: i32 = 200;
    let timed = TimeDriven { priority: 100, period_us: 1_000, budget_us: 500 };
    let service = start(Lanes { time_driven: vec![timed], ..Lanes::default() });
    let factory = factory(&service);
    for (priority, is_timed) in [(100, true), (101, false)] {
        let pool: Property = ThreadPool::new(PriorityModel::ServerDeclared, priority, 1).into();
        let (_events, id) = factory.create_channel(&[pool], &[]).unwrap();
        let (_consumer, numbers) = consume(&service, Some(id));
        let supplier = supply(&service, Some(id));
        for number in 0..EVENTS {
            supplier.publish(&event_of("Test", number)).unwrap();
        }
        assert!((0..EVENTS).all(|number| numbers.next_in_time() == number));
        let periods = || {
            let lanes = service.counters().lanes();
            let own = lanes.iter().find(|lane| lane.priority() == Some(priority)).unwrap();
            (own.read(Counter::EventsIn), own.read(Counter::LanePeriods))
        };
        wait_until("the rounds to end", || periods().0 == u64::try_from(EVENTS).unwrap());
        assert_eq!(periods().1 > 0, is_timed, "lane of priority {priority}");
    }
    let main = service.counters().lanes();
    let main = main.iter().find(|lane| lane.priority().is_none()).unwrap();
    assert_eq!(main.read(Counter::LanePeriods), 0, "the main lane has none");
}

#[test]
fn service_whose_main_lane_runs_by_the_clock_ends_at_the_signal() {
    let service = start(by_the_clock(1_000_000, 1_000));
    assert_eq!(service.drain(core::time::Duration::from_secs(60)).events, 0);
}
