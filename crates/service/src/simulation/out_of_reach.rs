//! A client that becomes unreachable, and the service's log lines about it: minutes pass in a moment.

use core::cell::RefCell;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use client::notify::{ClientType, StructuredEvent};
use giop::cdr::{Endian, Writer};
use giop::ior::Ior;
use giop::message::ReplyStatus;
use giop::url::Corbaloc;

use super::network::{self, Host, Net, Weather};
use super::suppliers::key_of;
use super::wire::{Answered, Asker, net};
use super::world::Over;
use super::{LANES, RESOLVER, run_lane, sockets};
use crate::admin::run::Administration;
use crate::config::{Config, Delivery, Lanes, Limits, Scheduling};
use crate::counters::{Counter, Counters};
use crate::lane::io::net::Listener;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::ToAdministration;
use crate::protocols::Listeners;
use crate::start::{Assembled, simulated};

const CHANNEL: &[u8] = b"DefaultEventChannel";
const EVENTS: u64 = 3;

thread_local! {
    /// Lines of the log from this thread's simulation.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let _ = LINES.try_with(|lines| {
            if let Some(lines) = &mut *lines.borrow_mut() {
                lines.push(record.args().to_string());
            }
        });
    }

    fn flush(&self) {}
}

/// Stores log lines of this thread from now on.
fn begin_lines() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        log::set_logger(&Lines).expect("the only logger, where more than one seed is run");
        log::set_max_level(log::LevelFilter::Info);
    });
    LINES.set(Some(Vec::new()));
}

/// A service, and a client of it.
struct Rig {
    administration: Administration,
    counters: Counters,
    client: Asker<()>,
    // Administration ends, and the simulation with it, when these do.
    _orders: Mailbox<ToAdministration>,
    _over: Over,
}

impl Rig {
    fn new(give_up_after: Duration) -> Self {
        network::set(Some(Net::new(1, Weather::FAIR)));
        let over = Over;
        let listeners = Listeners::of_giop(Listener::simulated(sockets::SERVICE).unwrap());
        let give_up_after_ms = u32::try_from(give_up_after.as_millis()).unwrap();
        let config = Config {
            lanes: Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() },
            limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
            delivery: Delivery { give_up_after_ms, ..Delivery::default() },
            ..Config::default()
        };
        let Assembled { administrator, administration, counters, .. } =
            simulated(&config, listeners, sockets::SERVICE).unwrap();
        assert!(RESOLVER.take().is_some());
        let client = Asker::connect(IpAddr::from([10, 0, 2, 1]), sockets::SERVICE, Endian::Little);
        Self { administration: administrator, counters, client, _orders: administration, _over: over }
    }

    /// Runs administration and the lane until neither has work, and then lets so much time pass.
    fn pass(&mut self, time: Duration) {
        let end = net(|net| net.time()) + time;
        loop {
            self.administration.round();
            let until = LANES.with_borrow_mut(|lanes| lanes[0].as_mut().and_then(|lane| lane.until_due()));
            let now = net(|net| net.time());
            if until.is_some_and(|until| until.is_zero()) {
                assert!(run_lane(0));
            } else if now < end {
                // Administration looks by itself at what is due, and need not wait for longer than this.
                let step = Duration::from_millis(500);
                let due = until.into_iter().map(|until| now + until).chain(net(|net| net.next_arrival()));
                net(|net| net.go_to(due.chain([now + step, end]).min().unwrap_or(end)));
            } else {
                return;
            }
        }
    }

    fn ask(&mut self, key: &[u8], operation: &str, body: impl FnOnce(&mut Writer<'_>)) -> Answered<()> {
        self.client.ask(Some(()), key, operation, body);
        for _ in 0..1_000 {
            if let Some(answered) = self.client.answers().unwrap().pop() {
                assert_eq!(answered.status, ReplyStatus::NoException, "{operation}");
                return answered;
            }
            self.pass(Duration::from_millis(1));
        }
        panic!("{operation} is never answered");
    }

    /// Obtains a proxy, and connects a client to it.
    fn connect(&mut self, admin: &str, obtain: &str, connect: &str, reference: &Ior) -> Vec<u8> {
        let admin = self.ask(CHANNEL, admin, |_| ());
        let proxy = self.ask(&key_of(&admin).unwrap(), obtain, |w| w.u32(ClientType::Structured.to_cdr()));
        let proxy = key_of(&proxy).unwrap();
        self.ask(&proxy, connect, |w| reference.write(w));
        proxy
    }

    fn read(&self, counter: Counter) -> u64 {
        self.counters.read(counter)
    }
}

/// A consumer was called and counted after its program was killed, for as long as it was kept, and nothing said that it was in vain.
#[test]
fn a_client_that_cannot_be_reached_is_announced_after_a_minute_and_when_it_goes_what_waited_is_counted_as_dropped() {
    begin_lines();
    let mut rig = Rig::new(Duration::from_secs(600));
    let consumer = SocketAddr::from(([10, 0, 1, 9], 4_711));
    net(|net| net.set_host(consumer, Host::Refuses));
    let location: Corbaloc = format!("corbaloc::1.2@{consumer}/killed").parse().unwrap();
    let reference = location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0");
    let (admin, obtain) = ("_get_default_consumer_admin", "obtain_notification_push_supplier");
    rig.connect(admin, obtain, "connect_structured_push_consumer", &reference);
    let (admin, obtain) = ("_get_default_supplier_admin", "obtain_notification_push_consumer");
    let supplier = rig.connect(admin, obtain, "connect_structured_push_supplier", &Ior::nil());
    for _ in 0..EVENTS {
        let event = StructuredEvent::new("Test", "Numbered", "");
        rig.ask(&supplier, "push_structured_event", |w| event.write(w).unwrap());
    }
    let announced = |rig: &Rig| [Counter::ClientsFoundUnreachable, Counter::ClientsUnreachable].map(|of| rig.read(of));
    let lines = || LINES.with_borrow(|lines| lines.clone().unwrap_or_default());
    let told = || lines().iter().filter(|line| line.contains("cannot be reached") && line.contains("killed")).count();
    rig.pass(Duration::from_secs(45));
    assert_eq!((announced(&rig), told()), ([0, 0], 0), "{:?}", lines());
    // The client is probed once a minute.
    rig.pass(Duration::from_secs(150));
    assert_eq!((announced(&rig), told()), ([1, 1], 1), "{:?}", lines());
    rig.pass(Duration::from_secs(600));
    assert_eq!((announced(&rig), told()), ([1, 0], 1), "{:?}", lines());
    let dropped = [Counter::DroppedDisconnected, Counter::DroppedRemoved].map(|of| rig.read(of));
    assert_eq!(dropped.iter().sum::<u64>(), EVENTS, "{dropped:?}");
    LINES.set(None);
}
