//! Where clients connect, whichever door they come to: so many are let in a round, each with a place that its address is charged for.

use core::time::Duration;
use std::net::SocketAddr;

use crate::counters::Counter;
use crate::doors::Tag;
use crate::lane::io::net::{self, Listener, Stream};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::Interest;
use crate::lane::run::Worker;
use accounts::{Charge, Resource, SpentBy};

/// Connections accepted in one round: a storm of them must not delay the events of those that are there.
const ACCEPTED_PER_ROUND: usize = 16;
/// The time in which they are, where others may wait.
const ACCEPTING_FOR: Duration = Duration::from_micros(100);

/// A socket that listens.
pub(crate) struct Entrance {
    pub(crate) listener: Option<Listener>,
    /// Connections are being refused; that has been logged.
    refusing: bool,
    /// Not listening for connections, for want of descriptors.
    deaf: bool,
}

/// Somebody who has connected and may stay.
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    /// Its place among the connections, and with that who it is.
    pub(crate) place: Charge,
    /// Whom what is done for it is charged to: its address, among those of the lane.
    pub(crate) slice: Token,
}

impl Entrance {
    /// One that is open, or none.
    pub(crate) const fn new(listener: Option<Listener>) -> Self {
        Self { listener, refusing: false, deaf: false }
    }

    /// Closes it: whoever connects from now on is refused by the system.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.deaf = false;
    }
}

impl Worker {
    /// Lets in who has connected to a door.
    #[cold]
    pub(crate) fn accept(&mut self, door: Tag) {
        let mut began = self.core.clock.time();
        let until = began + ACCEPTING_FOR;
        for _ in 0..ACCEPTED_PER_ROUND {
            let Some(listener) = &self.clients.entrance(door).listener else { return };
            let (stream, address) = match net::accept(listener) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) => {
                    self.core.counters.add(Counter::ConnectionsRefused, 1);
                    self.note_refusal(door, || format!("cannot accept a connection: {error}"));
                    return self.listen(door, false);
                }
            };
            let Some(place) = self.place_for(door, address) else { continue };
            let slice = self.core.io.slices.arrive(place.account().ip());
            let Some(open) = self.let_in(door, Arrival { stream, address, place, slice }) else {
                self.core.io.slices.leave(slice);
                continue;
            };
            self.clients.entrance(door).refusing = false;
            self.core.remark(|| format!("accepted a connection from {address} for {door}; {open} open"));
            if self.core.io.slices.binds() {
                let now = self.core.clock.time();
                self.core.io.slices.charge(slice, now.since(began));
                if now >= until {
                    return;
                }
                began = now;
            }
        }
    }

    /// A place for a connection from there, if there is one for it.
    fn place_for(&mut self, door: Tag, address: SocketAddr) -> Option<Charge> {
        let account = self.clients.addresses.as_mut()?.open(address.ip());
        let spent = match account.charge(Resource::Connections, 1) {
            Ok(place) => return Some(place),
            Err(spent) => spent,
        };
        self.core.counters.add(Counter::ConnectionsRefused, 1);
        self.core.counters.add(Counter::of_refusal(spent), 1);
        let open = account.used_by_address(Resource::Connections);
        let max = account.accounts().limit(Resource::Connections);
        self.note_refusal(door, || match spent.by {
            SpentBy::All => format!("closed a connection from {address}: limits.connections_max = {max} are open"),
            SpentBy::Client => {
                format!("closed a connection from {address}: {open} from there are open, its share of {max}")
            }
        });
        None
    }

    /// Logs the first refusal of an episode; the counter has the others.
    fn note_refusal(&mut self, door: Tag, text: impl FnOnce() -> String) {
        if !core::mem::replace(&mut self.clients.entrance(door).refusing, true) {
            self.core.log(log::Level::Warn, text);
        }
    }

    /// Begins or stops to listen for connections.
    fn listen(&mut self, door: Tag, listening: bool) {
        let interest = if listening { Interest::READ } else { Interest::NONE };
        let entrance = self.clients.entrance(door);
        let Some(listener) = &entrance.listener else { return };
        if self.core.io.poll.change(listener, Socket::Listener(door), interest).is_ok() {
            entrance.deaf = !listening;
        }
        if entrance.deaf {
            self.core.clock.plan_sweep();
        }
    }

    /// Listens again where there were no descriptors.
    pub(crate) fn listen_again(&mut self) {
        for door in Tag::ALL {
            if self.clients.entrance(door).deaf {
                self.listen(door, true);
            }
        }
    }
}
