//! Links whose far end is any CosNotification service (`carrier = "iiop"`).
//!
//! The far service knows nothing of links. A thread stands between ([`Gateway`]): to the main lane it is the other side of a link, over a
//! connection within the process, with an identity that is made of the link's `to`; to the far service it is a supplier and a consumer
//! ([`far`]). So windows, acknowledgements, what is kept, loops, pauses and the status are those of all links ([`session`]). What the far
//! service does not carry, an event's origin, goes as a property of its header ([`events`]).
//!
//! Each link has threads of its own: a far service that is mute has no other link wait.

mod events;
mod far;
mod session;

use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use client::OrbTls;
use links::Limits;
use xxhash_rust::xxh3::xxh3_64;

use self::far::Far;
use self::session::Session;
use super::session::{Connection, State};
use super::{Links, Protocol};
use crate::config::{Config, LinkEntry};
use crate::counters::Counter;
use crate::lane::io::stream::Stream;

/// A far service that is not reached is tried again after so long at first, each time twice as long, and at most.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// A session that lasted so long begins the waiting anew.
const LASTED: Duration = Duration::from_secs(10);
/// What all gateways together may take to take leave when the service ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
/// Events in flight in one channel and direction.
const OUTSTANDING_MAX: u32 = 256;
/// Reports that the lane may have yet to take.
const REPORTS: usize = 8;
/// What a wait for the session's end looks up for.
const LOOKS_UP: Duration = Duration::from_millis(250);

/// What holds for all gateways.
#[derive(Debug, Clone)]
pub(super) struct Options {
    message_bytes_max: usize,
    tls: Option<OrbTls>,
}

impl Options {
    pub(super) fn new(config: &Config) -> Self {
        let tls = config.tls.ca.clone().map(|ca| OrbTls {
            ca,
            identity: config.tls.certificate.clone().zip(config.tls.key.clone()),
            crl: config.tls.crl.clone(),
            check_names: config.tls.check_names,
        });
        Self { message_bytes_max: config.limits.message_bytes_max as usize, tls }
    }
}

/// What a gateway is made with.
#[derive(Debug)]
struct Setup {
    entry: LinkEntry,
    options: Options,
    /// The far service, as if it were one with links: it has no identity of its own.
    service: u64,
    /// This service.
    own: u64,
    incarnation: u64,
    limits: Limits,
}

impl Setup {
    /// The channel at a place of the configuration's list.
    fn channel(&self, place: usize) -> &str {
        self.entry.channels.get(place).map_or("", String::as_str)
    }
}

/// The thread of a link, as the lane has it.
pub(super) struct Gateway {
    control: Arc<Control>,
    reports: Receiver<Report>,
}

/// What a gateway's thread tells the lane.
enum Report {
    /// The far service is ready: the lane's end of the connection.
    Up(TcpStream),
    /// The reason for which it is not.
    Down(String),
}

#[derive(Default)]
struct Control {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, Default)]
struct Orders {
    is_paused: bool,
    /// The link is over: the far service is left.
    is_over: bool,
    /// It has been left.
    has_left: bool,
}

impl Control {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders());
        self.changed.notify_all();
    }

    /// Waits until the orders are as `holds` says, for no longer than that.
    fn wait(&self, limit: Duration, holds: impl Fn(Orders) -> bool) -> Orders {
        let ends = self.changed.wait_timeout_while(self.orders(), limit, |orders| !holds(*orders));
        *ends.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Gateway {
    /// Begins the thread of a link.
    ///
    /// # Errors
    /// If the system refuses it.
    fn begin(setup: Setup) -> io::Result<Self> {
        let control = Arc::new(Control::default());
        let (report, reports) = sync_channel(REPORTS);
        let its = Arc::clone(&control);
        Builder::new().name("link-iiop".to_owned()).spawn(move || {
            run(Arc::new(setup), &its, &report);
            its.set(|orders| orders.has_left = true);
        })?;
        Ok(Self { control, reports })
    }

    /// Has the thread take leave of its far service, and end.
    pub(super) fn leave(&self) {
        self.control.set(|orders| orders.is_over = true);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.control.set(|orders| orders.is_over = true);
    }
}

/// The thread of a link: has its ends at the far service, and sessions with the lane one after the other.
fn run(setup: Arc<Setup>, control: &Control, report: &SyncSender<Report>) {
    let mut far = Far::new(Arc::clone(&setup));
    let mut again = AGAIN_FIRST;
    loop {
        let orders = *control.orders();
        if orders.is_over {
            break;
        }
        if orders.is_paused {
            far.suspend();
            control.wait(AGAIN_MAX, |orders| !orders.is_paused || orders.is_over);
            continue;
        }
        let began = Instant::now();
        let served = far.reach().and_then(|()| serve(&setup, &mut far, control, report));
        if let Err(why) = served {
            // A report for which there is no room is one of many that say the same.
            let _full = report.try_send(Report::Down(why));
            if began.elapsed() >= LASTED {
                again = AGAIN_FIRST;
            }
            control.wait(again, |orders| orders.is_over);
            again = (again * 2).min(AGAIN_MAX);
        } else {
            again = AGAIN_FIRST;
            control.wait(again, |orders| orders.is_over);
        }
    }
    far.leave();
}

/// One session with the lane, to its end.
///
/// # Errors
/// Says why the far service is not served any more; nothing if it was the lane that ended it.
fn serve(setup: &Arc<Setup>, far: &mut Far, control: &Control, report: &SyncSender<Report>) -> Result<(), String> {
    let (own, lanes) = pair().map_err(|error| format!("no connection within the process: {error}"))?;
    let session = Session::begin(setup, own, far.outlets()).map_err(|error| error.to_string())?;
    if report.try_send(Report::Up(lanes)).is_err() {
        session.end("the lane does not take it");
        return Ok(());
    }
    far.serve(Some(session.shared()));
    let mut ended = Ok(());
    let mut watch = far.watch();
    while !session.has_ended_within(LOOKS_UP) {
        let orders = *control.orders();
        if orders.is_over || orders.is_paused {
            session.end("the link is paused, or over");
        } else if let Err(why) = watch.look(far) {
            session.end(&why);
            ended = Err(why);
        }
    }
    far.serve(None);
    let is_over = control.orders().is_over;
    ended.and_then(|()| session.outcome(!is_over))
}

/// Both ends of a connection within the process.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let lanes = TcpStream::connect(listener.local_addr()?)?;
    let (own, peer) = listener.accept()?;
    // Anyone on this host may have connected first.
    if peer != lanes.local_addr()? {
        return Err(io::Error::other("another program has connected to it"));
    }
    own.set_nodelay(true)?;
    lanes.set_nodelay(true)?;
    lanes.set_nonblocking(true)?;
    Ok((own, lanes))
}

impl Links<'_> {
    /// Has the thread of a link to a notification service begin, and takes what it reports.
    pub(super) fn keep_up_gateway(&mut self, number: usize, is_draining: bool) {
        let Protocol { links, settings, service: own, incarnation, .. } = &mut self.core.protocols.link;
        let Some(link) = links.get_mut(number) else { return };
        if link.gateway.is_none() && !is_draining {
            let service = xxh3_64(link.entry.to.as_bytes()).max(1);
            let limits = Limits { outstanding_max: OUTSTANDING_MAX, ..settings.limits };
            let (entry, options) = (link.entry.clone(), settings.iiop.clone());
            let begun = Gateway::begin(Setup { entry, options, service, own: *own, incarnation: *incarnation, limits });
            match begun {
                Ok(gateway) => link.gateway = Some(gateway),
                Err(error) => self.gateway_down(number, format!("its thread does not begin: {error}")),
            }
        }
        loop {
            let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
            let Some(gateway) = &link.gateway else { return };
            let is_paused = link.is_paused;
            if gateway.control.orders().is_paused != is_paused {
                gateway.control.set(|orders| orders.is_paused = is_paused);
            }
            match gateway.reports.try_recv() {
                Ok(Report::Up(tcp)) if link.connection.is_none() && !is_paused && !is_draining => {
                    self.gateway_up(number, tcp)
                }
                // It finds its connection closed, and tries again.
                Ok(Report::Up(_)) => {}
                Ok(Report::Down(why)) => self.gateway_down(number, why),
                Err(_) => return,
            }
        }
    }

    /// The far service of a link is ready.
    fn gateway_up(&mut self, number: usize, tcp: TcpStream) {
        let now = self.core.cx.clock.now;
        let Protocol { links, connections, own, settings, .. } = &mut self.core.protocols.link;
        let Some(link) = links.get_mut(number) else { return };
        let quota = self.core.cx.io.quotas.arrive(own.ip());
        let mut connection = Connection::made_by_us(number, Arc::clone(own), quota, (settings.limits, now));
        connection.state = State::Shaking;
        let token = connections.insert(connection);
        link.connection = Some(token);
        self.link_secured(token, Ok(Stream::from(tcp)));
    }

    /// The far service of a link is not ready. One line an episode, and for each other reason.
    fn gateway_down(&mut self, number: usize, why: String) {
        let now = self.core.cx.clock.now;
        let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
        if link.connection.is_some() || link.why.as_ref() == Some(&why) {
            return;
        }
        if link.why.replace(why.clone()).is_none() {
            link.since = now;
        }
        let name = link.entry.name.clone();
        self.core.cx.counters.add(Counter::LinksLost, 1);
        self.core.cx.log(log::Level::Warn, || {
            format!("link {name:?} is down: {why}; events wait for it, and it is tried again, each 30 s in the end")
        });
    }

    /// Has the threads of links take leave of their far services, and waits for that, not for long.
    pub(super) fn end_gateways(&mut self) {
        let links = self.core.protocols.link.links.iter_mut();
        let gateways: Vec<Gateway> = links.filter_map(|link| link.gateway.take()).collect();
        gateways.iter().for_each(Gateway::leave);
        let ends = Instant::now() + LEAVE_WITHIN;
        for gateway in &gateways {
            let left = ends.saturating_duration_since(Instant::now());
            gateway.control.wait(left, |orders| orders.has_left);
        }
    }
}
