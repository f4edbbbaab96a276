//! A whole service without sockets, clocks and threads: lanes and administration, round by round, on a network and a clock that are
//! simulated, in an order that a seed decides.
//!
//! It exists in this crate's own tests only. A simulation belongs to the thread that runs it: on that thread [`crate::lane::io::net`] has
//! simulated sockets and [`crate::time`] a simulated clock; everything else is the real code.

mod consumers;
pub(crate) mod disk;
mod end_points;
mod linked;
pub(crate) mod network;
mod obtaining;
mod out_of_reach;
mod pullers;
pub(crate) mod sockets;
mod suppliers;
mod taken;
mod talkers;
pub(crate) mod tests;
mod timed;
mod timers;
mod wire;
mod world;

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::io;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::Pid;

use crate::lane::links::mailbox::Inbox;
use crate::lane::run::{Worker, WorkerOptions};
use crate::resolver::Asking;
use crate::store::Writer;
use crate::store::tests::SimulatedDevice;

thread_local! {
    /// Lanes that were started; a place is empty while its lane runs, and when it has ended.
    static LANES: RefCell<Vec<Option<Worker>>> = const { RefCell::new(Vec::new()) };
    static RESOLVER: RefCell<Option<Inbox<Asking>>> = const { RefCell::new(None) };
    /// Disk of the service that is being started, if it is to have a store, and then its store.
    static DEVICE: RefCell<Option<SimulatedDevice>> = const { RefCell::new(None) };
    static STORE: RefCell<Option<Writer>> = const { RefCell::new(None) };
    static BROKEN: Cell<Option<Break>> = const { Cell::new(None) };
    static SPARED: Cell<u32> = const { Cell::new(0) };
}

/// A fault made on purpose, to show that it would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// A push is not answered.
    MissingAnswer,
    /// A push gets the answer of another.
    WrongAnswer,
    /// Events in flight on a lost connection are not put back.
    ForgottenEvents,
    /// An event is delivered to a consumer a second time.
    SecondDelivery,
    /// Octets that a socket did not take count as written.
    LostRest,
    /// A thread is not woken for a message.
    MissedWakeUp,
    /// A client that is gone is still charged for its connection.
    LeakedCharge,
    /// A filter does not find a field that is there.
    LostField,
    /// A filter finds another value in a field than is there.
    WrongField,
    /// A client that waits for an event does not get it, and it counts as delivered.
    ForgottenPull,
    /// Events that a client has pulled are put back.
    PulledAgain,
    /// An event's line is not written, and it counts as delivered.
    LostLine,
    /// A client's request in JSON is not answered.
    MissingLine,
    /// A message of Tempo is discarded, and not counted.
    LostMessage,
    /// A message of Tempo that is late, or a repeat, is handed on.
    LateMessage,
    /// A connection of Tempo that waits for room in its topic's input is not read when there is room.
    ForgottenWait,
    /// A message of Tempo is still charged after its topic's turn.
    LeakedRoom,
    /// A subscriber that waits for room on the datagram socket is not woken when there is room.
    ForgottenRoom,
    /// An event of a link is taken in twice.
    TakenTwice,
    /// The origin of a link's event is not stored with it.
    ForgottenOrigin,
    /// Events in flight over a link that was cut are not sent again.
    LostOnItsWay,
    /// A link sends events that its far side has not subscribed to.
    SentUnwanted,
}

impl Break {
    pub(crate) const ALL: [Self; 18] = [
        Self::MissingAnswer,
        Self::WrongAnswer,
        Self::ForgottenEvents,
        Self::SecondDelivery,
        Self::LostRest,
        Self::MissedWakeUp,
        Self::LeakedCharge,
        Self::LostField,
        Self::WrongField,
        Self::ForgottenPull,
        Self::PulledAgain,
        Self::LostLine,
        Self::MissingLine,
        Self::LostMessage,
        Self::LateMessage,
        Self::ForgottenWait,
        Self::LeakedRoom,
        Self::ForgottenRoom,
    ];

    /// Faults that need linked services.
    pub(crate) const OF_LINKS: [Self; 4] =
        [Self::TakenTwice, Self::ForgottenOrigin, Self::LostOnItsWay, Self::SentUnwanted];
}

/// Whether this fault happens now. It does every few times, and each time if occasions are rare.
pub(crate) fn goes_wrong(what: Break) -> bool {
    const SPARED_TIMES: u32 = 5;
    if BROKEN.get() != Some(what) {
        return false;
    }
    SPARED.set((SPARED.get() + 1) % SPARED_TIMES);
    SPARED.get() == 0
        || matches!(what, Break::ForgottenRoom | Break::LateMessage | Break::ForgottenOrigin | Break::SentUnwanted)
}

/// Current time of this thread's simulation.
pub(crate) fn now() -> Option<Instant> {
    network::with(network::Net::read_clock)
}

/// Simulated time since 1970.
pub(crate) fn since_1970() -> Option<Duration> {
    /// Start of the simulated world clock: some day in 2023, always the same.
    const BEGAN: Duration = Duration::from_secs(1_700_000_000);
    network::with(|net| BEGAN + net.time())
}

/// Whether this thread has a simulation.
fn is_on() -> bool {
    network::with(|_| ()).is_some()
}

/// Starts a lane in the simulation instead of a thread. Returns the options if there is no simulation.
pub(crate) fn take_lane(options: WorkerOptions) -> Result<io::Result<(JoinHandle<()>, Pid)>, Box<WorkerOptions>> {
    if !is_on() {
        return Err(Box::new(options));
    }
    Ok(Worker::new(options).map(|worker| {
        LANES.with_borrow_mut(|lanes| lanes.push(Some(worker)));
        // Administration waits for a lane's thread when the lane has ended.
        (std::thread::spawn(|| ()), rustix::thread::gettid())
    }))
}

/// Takes over the lookup of host names, if there is a simulation.
pub(crate) fn take_resolver(introductions: Inbox<Asking>) -> Option<Inbox<Asking>> {
    if !is_on() {
        return Some(introductions);
    }
    RESOLVER.set(Some(introductions));
    None
}

/// Simulated disk of the service that is being started, if there is one.
pub(crate) fn device() -> Option<SimulatedDevice> {
    DEVICE.with_borrow(Option::clone)
}

/// Runs a store in the simulation instead of a thread. Returns `begin` if there is no simulation.
pub(crate) fn take_store<F: FnOnce() -> Writer>(begin: F) -> Option<F> {
    if device().is_none() {
        return Some(begin);
    }
    STORE.set(Some(begin()));
    None
}

/// Runs a lane once. False if it has ended.
fn run_lane(at: usize) -> bool {
    let Some(mut lane) = LANES.with_borrow_mut(|lanes| lanes.get_mut(at).and_then(Option::take)) else { return false };
    let lives = lane.live();
    if lives {
        LANES.with_borrow_mut(|lanes| lanes[at] = Some(lane));
    } else {
        lane.end();
    }
    lives
}

/// Runs the lanes while administration waits for one of them to read, as they would beside it.
pub(crate) fn let_a_lane_go_on() {
    if is_on() {
        (0..LANES.with_borrow(Vec::len)).for_each(|at| _ = run_lane(at));
    }
}
