//! Context of every part of a lane: clock, sockets, counters and reports, and the engine's lane.
//!
//! [`Context`] is handed to the parts that own state: connections to clients and what is sent on them
//! ([`Protocols::outgoing`](crate::protocols::Protocols::outgoing)), the clients of JSON and of Tempo, events' forms
//! ([`Protocols`](crate::protocols::Protocols)), rules of access, backlogs. A part sees its own fields and the context's, and no other
//! part's: delivery knows neither the rules nor the intake. Admission needs all of them, and is with [`Core`](crate::lane::run::Core).

use core::time::Duration;
use std::sync::Arc;

use engine::{ConsumerRoute, Delivery, DiscardReason, Event, Lane, LaneId, Outcome, ProxyKey};

use crate::allocations;
use crate::counters::{Block, Counter};
use crate::handshakes::{Unsecured, Whose};
use crate::lane::clock::Clock;
use crate::lane::intake::origins::Origins;
use crate::lane::io::Io;
use crate::lane::io::net::Tcp;
use crate::lane::io::slots::Token;
use crate::lane::io::system;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::{LaneThread, Lookup};
use crate::lane::reporting::Reporting;
use crate::protocols::Tag;
use crate::time;
use access::ClientNames;
use accounts::{Account, Resource, Spent};
use arc_swap::ArcSwap;

/// Number of event lists allocated in advance for deliveries, and the initial capacity of each in events.
const LISTS: usize = 64;
const LIST_EVENTS: usize = 16;

/// Event lists that deliveries reuse, and whether more deliveries are due.
pub(crate) struct Deliveries {
    /// The engine may have more deliveries due than were begun at one go.
    pub(crate) undelivered: bool,
    /// Lists for the events of deliveries: as many as are usually in use at once, so that none has to be made on an event's path.
    lists: Vec<Vec<Arc<Event>>>,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { undelivered: false, lists: (0..LISTS).map(|_| Vec::with_capacity(LIST_EVENTS)).collect() }
    }
}

/// Context that every part of a lane uses.
pub(crate) struct Context {
    pub(crate) identity: Identity,
    pub(crate) clock: Clock,
    pub(crate) io: Io,
    pub(crate) lane: Lane,
    pub(crate) deliveries: Deliveries,
    pub(crate) reporting: Reporting,
    /// Mailbox to the thread that makes TLS handshakes.
    pub(crate) unsecured: Option<Mailbox<Unsecured>>,
    /// Mailbox to the resolver of host names.
    pub(crate) lookups: Mailbox<Lookup>,
    pub(crate) counters: Arc<Block>,
    /// Names that the configuration gives to clients.
    pub(crate) client_names: Arc<ArcSwap<ClientNames>>,
    /// Origins for the events admitted here.
    pub(crate) origins: Origins,
}

/// Identity of a lane.
pub(crate) struct Identity {
    pub(crate) id: LaneId,
    pub(crate) thread: LaneThread,
    /// The lane's priority, from 0 to 32,767. The main lane may have none, and is then less important than all others.
    pub(crate) priority: Option<i16>,
    /// The lane's name in the log.
    pub(crate) name: Arc<str>,
}

impl Context {
    /// Has a host name looked up for a protocol's connection. The client is charged until the lookup is answered.
    ///
    /// # Errors
    /// The reason why it is not looked up.
    pub(crate) fn look_up(
        &mut self,
        connection: (Tag, Token),
        (host, port): (String, u16),
        timeout: Duration,
        account: &Arc<Account>,
    ) -> Result<(), String> {
        let charge = account.charge(Resource::Lookups, 1).map_err(|spent| {
            self.counters.add(Counter::of_refusal(spent), 1);
            format!("its host name is not looked up: {spent}")
        })?;
        let lookup = Lookup { connection, host, port, until: time::now() + timeout, charge };
        self.lookups.send(lookup).map_err(|_| "too many host names are being looked up".to_owned())
    }

    /// Hands a connection that a protocol has made over for its TLS handshake.
    ///
    /// # Errors
    /// The reason why no handshake is made.
    pub(crate) fn begin_handshake(
        &mut self,
        (protocol, token): (Tag, Token),
        tcp: Tcp,
        host: String,
        account: &Arc<Account>,
    ) -> Result<(), String> {
        // Should that fail, the poll would report the descriptor's end for a connection that is none yet.
        let _ = self.io.poll.remove(&tcp);
        let charge = account.charge(Resource::Handshakes, 1).map_err(|spent| {
            self.counters.add(Counter::of_refusal(spent), 1);
            spent.to_string()
        })?;
        let address = tcp.peer_addr().map_err(|error| error.to_string())?;
        let unsecured = Unsecured { tcp, address, whose: Whose::Called(protocol, token, host), charge };
        let posted = self.unsecured.as_mut().map(|mailbox| mailbox.send(unsecured));
        if matches!(posted, Some(Ok(()))) { Ok(()) } else { Err("too many TLS handshakes wait".to_owned()) }
    }

    /// Logs a line about a connection, unless there are too many.
    pub(crate) fn log(&mut self, level: log::Level, text: impl FnOnce() -> String) {
        if !self.reporting.reports.log(level, text, self.clock.now) {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    /// Logs a line about a connection that comes or goes, if such lines are enabled and not too many.
    pub(crate) fn log_debug(&mut self, text: impl FnOnce() -> String) {
        if log::log_enabled!(log::Level::Debug) && !self.reporting.reports.log_debug(text, self.clock.now) {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    /// Copies figures counted elsewhere into the registry of counters: at the end of each round, and before a request that may read them.
    pub(crate) fn update_counters(&self) {
        let counters = &self.counters;
        let engine = self.lane.counters();
        counters.set(Counter::EventsIn, engine.taken.accepted);
        counters.set(Counter::Delivered, engine.deliveries.delivered);
        counters.set(Counter::EventsRefused, engine.taken.refused);
        counters.set(Counter::SuppliersBlocked, engine.taken.withheld);
        counters.set(Counter::ChannelsShort, engine.taken.channels_short);
        counters.set(Counter::ChannelsShortOfDisk, engine.overflow.channels_short);
        counters.set(Counter::Dropped, engine.discards.total());
        for reason in DiscardReason::ALL {
            counters.set(Counter::of_discard(reason), engine.discards.of(reason));
        }
        counters.set(Counter::Overflowed, engine.overflow.stored);
        counters.set(Counter::BroughtBack, engine.overflow.brought_back);
        counters.set(Counter::HistoryStored, engine.history.stored);
        counters.set(Counter::HistoryMissed, engine.history.missed);
        counters.set(Counter::HistoryRecalled, engine.history.recalled);
        counters.set(Counter::FilterEvaluations, engine.filters.evaluations);
        counters.set(Counter::FilterFailures, engine.filters.failures);
        counters.set(Counter::FilterCuts, engine.filters.cuts);
        counters.set(Counter::FilteredAtSuppliers, engine.taken.filtered);
        counters.set(Counter::HandoversRefused, engine.handovers.refused);
        counters.set(Counter::HandoversDropped, engine.handovers.dropped);
        counters.set(Counter::FilteredRemotely, engine.deliveries.filtered);
        counters.set(Counter::EventsQueued, engine.taken.queued);
        counters.set(Counter::EventsQueuedMax, engine.taken.queued_max);
        counters.set(Counter::Allocations, allocations::of_this_thread());
        counters.set(Counter::SystemCalls, system::calls_of_this_thread());
    }

    /// Leaves a delivery in its outbox while remote filters are asked about an earlier event, so that the order stays.
    #[cold]
    pub(crate) fn leave_waiting(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        self.release_events(events);
        self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::NoRoom, self.clock.now);
    }

    pub(crate) fn take_events(&mut self) -> Vec<Arc<Event>> {
        self.deliveries.lists.pop().unwrap_or_default()
    }

    /// Releases events and keeps their list.
    pub(crate) fn recycle(&mut self, mut events: Vec<Arc<Event>>) {
        self.release_events(&mut events);
        if self.deliveries.lists.len() < LISTS {
            self.deliveries.lists.push(events);
        }
    }

    /// Releases the events that sockets have taken.
    pub(crate) fn release_written(&mut self) {
        while let Some(event) = self.io.spares.events.pop() {
            self.lane.release(event);
        }
    }

    /// Releases events.
    pub(crate) fn release_events(&mut self, events: &mut Vec<Arc<Event>>) {
        for event in events.drain(..) {
            self.lane.release(event);
        }
    }

    /// Counts that a connection has to wait until its client has read.
    #[inline]
    pub(crate) fn count_unread(&self, noted: Result<(), Spent>) {
        if let Err(spent) = noted {
            self.counters.add(Counter::of_refusal(spent), 1);
            self.counters.add(Counter::UnreadWaited, 1);
        }
    }

    /// A connected consumer's route.
    pub(crate) fn consumer(&self, key: ProxyKey) -> Option<&ConsumerRoute> {
        self.lane.snapshot().channel(key.channel)?.consumer(key.proxy)
    }
}
