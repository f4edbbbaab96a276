//! What is looked after from time to time of the connections to clients, and of what is asked on them.

use core::time::Duration;

use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use crate::protocols::giop::outgoing::{Outgoing, Outgoings, Upkeep};
use crate::protocols::giop::routes::Route;
use crate::protocols::giop::unused::{Chunk, LOOKED_AT_ONCE};

/// A connection that is not used is kept for this long: a consumer that disconnects while it is pushed to still answers,
/// and one that comes back finds it open.
const LINGER: Duration = Duration::from_secs(1);

impl Core {
    /// Ends what has waited too long, and closes connections that are not used.
    pub(crate) fn sweep_outgoing(&mut self) {
        self.end_late_connects();
        self.end_late_calls();
        self.end_late_polls();
        self.end_late_filter_calls();
        if !self.protocols.giop.outgoing.upkeep.unused.is_looking()
            && core::mem::take(&mut self.protocols.giop.outgoing.upkeep.stale)
        {
            self.protocols.giop.outgoing.upkeep.unused.begin();
        }
        self.close_unused();
    }

    /// Gives up connections that could not be made in time, of those in the next places.
    fn end_late_connects(&mut self) {
        if self.protocols.giop.outgoing.upkeep.connecting == 0 {
            return;
        }
        let now = self.cx.clock.now;
        let Outgoings { connections, upkeep: Upkeep { connecting_at, .. }, .. } = &mut self.protocols.giop.outgoing;
        let places = connecting_at.next(connections.places());
        let is_late = |connection: &Outgoing| connection.connect_deadline.is_some_and(|due| due <= now);
        let late = connections.range_mut(places).filter(|(_, connection)| is_late(connection));
        let late: Vec<Token> = late.map(|(token, _)| token).collect();
        for token in late {
            self.connect_late(token);
        }
    }

    /// Goes on looking for connections that are not used.
    fn close_unused(&mut self) {
        let now = self.cx.clock.now;
        let Outgoings { connections, routes, calls, ways, upkeep: Upkeep { stale, unused, .. }, .. } =
            &mut self.protocols.giop.outgoing;
        let (look, mut left, mut closed) = (unused.number(), LOOKED_AT_ONCE, Vec::new());
        while let Some(range) = unused.next(routes.places(), connections.places(), &mut left) {
            match range {
                Chunk::Users { places, is_last } => {
                    let mut mark = |token| {
                        if let Some(connection) = connections.get_mut(token) {
                            connection.usage.used_in = look;
                        }
                    };
                    routes.range(places).flat_map(Route::connections).for_each(&mut mark);
                    if is_last {
                        ways.connections().for_each(&mut mark);
                        calls.values().for_each(|call| mark(call.connection));
                    }
                }
                Chunk::Connections(places) => {
                    for (token, connection) in connections.range_mut(places) {
                        if connection.usage.used_in == look {
                            connection.usage.unused_since = None;
                        } else if *connection.usage.unused_since.get_or_insert(now) + LINGER <= now {
                            closed.push(token);
                        } else {
                            unused.look_again();
                        }
                    }
                }
            }
        }
        *stale |= unused.needs_another();
        for token in closed {
            self.lose(token, "nobody uses it any more");
        }
    }
}
