//! Threads that stand between the main lane and far ends which a lane cannot reach by a socket ([`Gateway`]).
//!
//! To the lane such a thread is the other side of a link, over a connection within the process: it reports that the far end is there, with
//! the lane's end of a connection, or why it is not. So windows, acknowledgements, what is kept, loops, pauses and the status are those of
//! all links ([`session`](super::session)).

use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use super::session::{Connection, State};
use super::{Links, Protocol, iiop, zenoh};
use crate::config::Carrier;
use crate::counters::Counter;
use crate::lane::io::stream::Stream;

/// What all gateways together may take to take leave when the service ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
/// Reports that the lane may have yet to take.
const REPORTS: usize = 8;

/// The thread of a link, as the lane has it.
pub(super) struct Gateway {
    control: Arc<Control>,
    reports: Receiver<Report>,
}

/// What a gateway's thread tells the lane.
pub(super) enum Report {
    /// The far service is ready: the lane's end of the connection.
    Up(TcpStream),
    /// The reason for which it is not.
    Down(String),
}

#[derive(Default)]
pub(super) struct Control {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Orders {
    pub(super) is_paused: bool,
    /// The link is over: the far service is left.
    pub(super) is_over: bool,
    /// It has been left.
    has_left: bool,
}

impl Control {
    pub(super) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders());
        self.changed.notify_all();
    }

    /// Waits until the orders are as `holds` says, for no longer than that.
    pub(super) fn wait(&self, limit: Duration, holds: impl Fn(Orders) -> bool) -> Orders {
        let ends = self.changed.wait_timeout_while(self.orders(), limit, |orders| !holds(*orders));
        *ends.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Gateway {
    /// Begins the thread of a link, which does this.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(super) fn begin<F>(name: &str, run: F) -> io::Result<Self>
    where
        F: FnOnce(&Control, &SyncSender<Report>) + Send + 'static,
    {
        let control = Arc::new(Control::default());
        let (report, reports) = sync_channel(REPORTS);
        let its = Arc::clone(&control);
        Builder::new().name(name.to_owned()).spawn(move || {
            run(&its, &report);
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

/// Both ends of a connection within the process.
pub(super) fn pair() -> io::Result<(TcpStream, TcpStream)> {
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
    /// Has the thread of a link that has one begin, and takes what it reports.
    pub(super) fn keep_up_gateway(&mut self, number: usize, is_draining: bool) {
        let link = &mut self.core.protocols.link;
        if link.links.get(number).is_some_and(|link| link.gateway.is_none()) && !is_draining {
            let is_zenoh = link.links.get(number).is_some_and(|link| link.entry.carrier == Carrier::Zenoh);
            let begun = if is_zenoh { zenoh::begin(link, number) } else { iiop::begin(link, number) };
            let Some(link) = link.links.get_mut(number) else { return };
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

    /// The far side of a link's thread is ready.
    fn gateway_up(&mut self, number: usize, tcp: TcpStream) {
        let now = self.core.cx.clock.now;
        let Protocol { links, connections, own, settings, .. } = &mut self.core.protocols.link;
        let Some(link) = links.get_mut(number) else { return };
        let quota = self.core.cx.io.quotas.arrive(own.ip());
        let host = (link.entry.carrier == Carrier::Zenoh && link.entry.tls).then(|| link.entry.to.clone());
        let mut connection = Connection::made_by_us(number, Arc::clone(own), quota, (settings.limits, now));
        connection.state = State::Shaking;
        let token = connections.insert(connection);
        link.connection = Some(token);
        match (host, Stream::from(tcp)) {
            (Some(host), Stream::Plain(tcp)) => self.secure_link(token, tcp, host),
            (_, stream) => self.link_secured(token, Ok(stream)),
        }
    }

    /// It is not ready. One line an episode, and for each other reason, some times.
    fn gateway_down(&mut self, number: usize, why: String) {
        let now = self.core.cx.clock.now;
        let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
        if link.connection.is_some() || link.why.as_ref() == Some(&why) {
            return;
        }
        if link.why.replace(why.clone()).is_none() {
            link.since = now;
        }
        self.core.cx.counters.add(Counter::LinksLost, 1);
        if !link.episode.takes_reason(now) {
            return;
        }
        let name = link.entry.name.clone();
        let again = if link.entry.carrier == Carrier::Zenoh { "each second" } else { "each 30 s in the end" };
        self.core.cx.log(log::Level::Warn, || {
            format!("link {name:?} is down: {why}; events wait for it, and it is tried again, {again}")
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
