//! What is looked after from time to time of the connections to clients, and of what is asked on them.

use core::time::Duration;

use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::protocols::giop::outgoing::{Outgoing, Outgoings, Upkeep};
use crate::protocols::giop::routes::Route;
use crate::protocols::giop::unused::{Chunk, LOOKED_AT_ONCE};

/// A connection that is not used is kept for this long: a consumer that disconnects while it is pushed to still answers,
/// and one that comes back finds it open.
const LINGER: Duration = Duration::from_secs(1);

impl Outgoings {
    /// Gives up connections that could not be made in time, of those in the next places.
    pub(crate) fn end_late_connects(&mut self, cx: &mut Context) {
        if self.upkeep.connecting == 0 {
            return;
        }
        let now = cx.clock.now;
        let Outgoings { connections, upkeep: Upkeep { connecting_at, .. }, .. } = self;
        let places = connecting_at.next(connections.places());
        let is_late = |connection: &Outgoing| connection.connect_deadline.is_some_and(|due| due <= now);
        let late = connections.range_mut(places).filter(|(_, connection)| is_late(connection));
        let late: Vec<Token> = late.map(|(token, _)| token).collect();
        for token in late {
            self.connect_late(token, cx);
        }
    }

    /// Goes on looking for connections that are not used.
    pub(crate) fn close_unused(&mut self, cx: &mut Context) {
        let now = cx.clock.now;
        let Outgoings { connections, routes, calls, ways, upkeep: Upkeep { stale, unused, .. }, .. } = self;
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
            self.lose(token, "nobody uses it any more", cx);
        }
    }
}
