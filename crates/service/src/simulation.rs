//! A whole service without sockets, clocks and threads: lanes and administration, round by round, on a network and a clock that
//! are simulated, in an order that a seed decides.
//!
//! It exists in this crate's own tests only. A simulation belongs to the thread that runs it: where there is one,
//! [`crate::lane::io::net`] gives its sockets and [`crate::time`] its clock, and what is around it is the real thing.

mod consumers;
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
mod tests;
mod timed;
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
    /// The lanes that were started; a place is empty while its lane has its turn, and when it has ended.
    static LANES: RefCell<Vec<Option<Worker>>> = const { RefCell::new(Vec::new()) };
    static RESOLVER: RefCell<Option<Inbox<Asking>>> = const { RefCell::new(None) };
    /// The disk of the service that is being started, if it is to have a store, and then its store.
    static DEVICE: RefCell<Option<SimulatedDevice>> = const { RefCell::new(None) };
    static STORE: RefCell<Option<Writer>> = const { RefCell::new(None) };
    static BROKEN: Cell<Option<Break>> = const { Cell::new(None) };
    static SPARED: Cell<u32> = const { Cell::new(0) };
}

/// Something that is broken on purpose, to show that it would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// A push is not answered.
    MissingAnswer,
    /// A push is answered as if it were another.
    WrongAnswer,
    /// Events that were under way on a connection that is lost are not put back.
    ForgottenEvents,
    /// An event is given to a consumer a second time.
    SecondDelivery,
    /// What a socket did not take is taken for written.
    LostRest,
    /// A thread is posted to, and not woken.
    MissedWakeUp,
    /// A client that is gone is still charged for its connection.
    LeakedCharge,
    /// A filter does not find a field that is there.
    LostField,
    /// A filter finds another value in a field than is there.
    WrongField,
    /// A client that waits for an event is not given it, and it counts as delivered.
    ForgottenPull,
    /// Events that a client has pulled are put back.
    PulledAgain,
    /// An event's line is not written, and it counts as delivered.
    LostLine,
    /// A client's request in JSON is not answered.
    MissingLine,
    /// A message of Tempo is discarded, and not counted.
    LostMessage,
    /// A message of Tempo that is late, or came before, is handed on.
    LateMessage,
    /// A connection of Tempo that waits for room in its topic's input is not read when there is some.
    ForgottenWait,
    /// A message of Tempo is still charged for when it has had its topic's turn.
    LeakedRoom,
    /// A subscriber that waits for room on the socket for datagrams is not woken when there is some.
    ForgottenRoom,
    /// An event that came over a link is taken once more.
    TakenTwice,
    /// The origin of an event that came over a link is not on disk with it.
    ForgottenOrigin,
    /// What was under way over a link that was cut is not sent again.
    LostOnItsWay,
    /// A link is sent events that its far side does not want.
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

    /// Those that take services which are linked.
    pub(crate) const OF_LINKS: [Self; 4] =
        [Self::TakenTwice, Self::ForgottenOrigin, Self::LostOnItsWay, Self::SentUnwanted];
}

/// Whether this is to go wrong now. It does every few times, and each time where there is seldom an occasion.
pub(crate) fn goes_wrong(what: Break) -> bool {
    const SPARED_TIMES: u32 = 5;
    if BROKEN.get() != Some(what) {
        return false;
    }
    SPARED.set((SPARED.get() + 1) % SPARED_TIMES);
    SPARED.get() == 0
        || matches!(what, Break::ForgottenRoom | Break::LateMessage | Break::ForgottenOrigin | Break::SentUnwanted)
}

/// What time it is in this thread's simulation.
pub(crate) fn now() -> Option<Instant> {
    network::with(network::Net::read_clock)
}

/// The same by the world's clock.
pub(crate) fn since_1970() -> Option<Duration> {
    /// Some day in 2023: what it is does not matter, but that it is always the same.
    const BEGAN: Duration = Duration::from_secs(1_700_000_000);
    network::with(|net| BEGAN + net.time())
}

/// Whether this thread has a simulation.
fn is_on() -> bool {
    network::with(|_| ()).is_some()
}

/// The simulation starts a lane instead of a thread that does. Gives back what it is made with where there is none.
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

/// The simulation looks host names up, where there is one.
pub(crate) fn take_resolver(introductions: Inbox<Asking>) -> Option<Inbox<Asking>> {
    if !is_on() {
        return Some(introductions);
    }
    RESOLVER.set(Some(introductions));
    None
}

/// What stands for the disk of the service that is being started, where there is one.
pub(crate) fn device() -> Option<SimulatedDevice> {
    DEVICE.with_borrow(Option::clone)
}

/// The simulation has a store's turns, instead of a thread. Gives back what begins it where there is none.
pub(crate) fn take_store<F: FnOnce() -> Writer>(begin: F) -> Option<F> {
    if device().is_none() {
        return Some(begin);
    }
    STORE.set(Some(begin()));
    None
}

/// Has a lane have its turn. False if it has ended.
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

/// Has the lanes go on while administration waits for one of them to read, as they would beside it.
pub(crate) fn let_a_lane_go_on() {
    if is_on() {
        (0..LANES.with_borrow(Vec::len)).for_each(|at| _ = run_lane(at));
    }
}
