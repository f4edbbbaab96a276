//! Unused connections to clients: users are looked through in chunks, and then the connections.
//!
//! Clients may have any number of consumers, and of connections to them. So a look, which begins when a user has stopped using a
//! connection, marks those in use chunk by chunk, and then closes the unmarked ones. A user that begins to use one meanwhile
//! [marks](Unused::number) it itself.

use core::ops::Range;
use core::time::Duration;

use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::protocols::giop::outgoing::{Outgoing, Outgoings, Upkeep};
use crate::protocols::giop::routes::Route;

/// Users and connections looked at in one step.
pub(crate) const LOOKED_AT_ONCE: usize = 4_096;

/// Position of an endless walk around the places of a table.
#[derive(Debug, Default)]
pub(crate) struct Around {
    at: usize,
}

impl Around {
    /// The places for this step, of `places` in all.
    pub(crate) const fn next(&mut self, places: usize) -> Range<usize> {
        let (first, end) = (self.at, self.at + LOOKED_AT_ONCE);
        self.at = if end < places { end } else { 0 };
        first..end
    }
}

/// Progress of a look.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    /// Number of the current look, or of the last one.
    number: u64,
    stage: Stage,
    /// Whether some connection is to be looked at again.
    again: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum Stage {
    #[default]
    Resting,
    /// Marks users; those below this index are done.
    Users(usize),
    /// Looks at connections; those below this index are done.
    Connections(usize),
}

/// Next places to look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Mark the connections of these users and, with the last chunk, those of all other users.
    Users { places: Range<usize>, is_last: bool },
    /// Close those that are not marked.
    Connections(Range<usize>),
}

impl Unused {
    /// Number of the look, with which connections in use are marked.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether a look has begun and not ended.
    pub(crate) const fn is_looking(&self) -> bool {
        !matches!(self.stage, Stage::Resting)
    }

    /// Begins a look.
    pub(crate) const fn begin(&mut self) {
        self.number += 1;
        self.stage = Stage::Users(0);
        self.again = false;
    }

    /// Has a connection looked at again later.
    pub(crate) const fn look_again(&mut self) {
        self.again = true;
    }

    /// The next places to look at, of so many users and connections; at most `left` in this step. `None` at the end of the step or of the
    /// look.
    pub(crate) fn next(&mut self, users: usize, connections: usize, left: &mut usize) -> Option<Chunk> {
        if *left == 0 {
            return None;
        }
        let mut take = |first: usize, places: usize| {
            let end = places.max(first).min(first + *left);
            *left -= end - first;
            first..end
        };
        match self.stage {
            Stage::Resting => None,
            Stage::Users(first) => {
                let places = take(first, users);
                let is_last = places.end >= users;
                self.stage = if is_last { Stage::Connections(0) } else { Stage::Users(places.end) };
                Some(Chunk::Users { places, is_last })
            }
            Stage::Connections(first) => {
                let places = take(first, connections);
                self.stage = if places.end >= connections { Stage::Resting } else { Stage::Connections(places.end) };
                Some(Chunk::Connections(places))
            }
        }
    }

    /// Whether another look is to follow this one, which has ended.
    pub(crate) const fn needs_another(&mut self) -> bool {
        !self.is_looking() && core::mem::replace(&mut self.again, false)
    }
}

/// Time for which an unused connection stays open: a consumer that disconnects during a push still answers, and one that returns finds it
/// open.
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

    /// Continues the look for unused connections.
    pub(crate) fn close_unused(&mut self, cx: &mut Context) {
        if !self.upkeep.unused.is_looking() && core::mem::take(&mut self.upkeep.stale) {
            self.upkeep.unused.begin();
        }
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
                        if connection.usage.used_in == look || connection.is_accepted() {
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
            self.lose(token, "it is not used any more", cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are looked at in one go.
    fn go(unused: &mut Unused, users: usize, connections: usize) -> Vec<Chunk> {
        let mut left = 1_000;
        core::iter::from_fn(|| unused.next(users, connections, &mut left)).collect()
    }

    fn users(places: Range<usize>, is_last: bool) -> Chunk {
        Chunk::Users { places, is_last }
    }

    /// Whether connections were made in time was looked at of all of them, twenty times a second, as long as there was one to be made.
    #[test]
    fn what_is_looked_at_all_the_time_is_looked_at_in_pieces_and_each_once_around() {
        let (mut around, places) = (Around::default(), 2 * LOOKED_AT_ONCE + 10);
        for _ in 0..2 {
            let chunks = [0; 3].map(|_| around.next(places));
            assert!(chunks.iter().all(|chunk| chunk.len() <= 4_096), "{chunks:?}");
            let all: Vec<usize> = chunks.into_iter().flatten().filter(|place| *place < places).collect();
            assert_eq!(all, (0..places).collect::<Vec<_>>());
        }
        // There may be fewer meanwhile, or none.
        around.next(places);
        assert_eq!([around.next(10).start, around.next(0).start, around.next(10).start], [LOOKED_AT_ONCE, 0, 0]);
    }

    #[test]
    fn a_few_are_looked_at_in_one_go() {
        let mut unused = Unused::default();
        assert!(go(&mut unused, 10, 20).is_empty() && !unused.is_looking());
        unused.begin();
        assert_eq!(go(&mut unused, 10, 20), [users(0..10, true), Chunk::Connections(0..20)]);
        assert!(!unused.is_looking() && !unused.needs_another());
        unused.begin();
        assert_eq!(go(&mut unused, 0, 0), [users(0..0, true), Chunk::Connections(0..0)]);
        assert!(!unused.is_looking());
    }

    /// With a consumer that came and went each second, fifty thousand others and their connections were looked at, all of them, twenty
    /// times a second: each time for ten milliseconds in which no event went anywhere.
    #[test]
    fn many_are_looked_at_a_thousand_in_one_go_and_each_once() {
        let mut unused = Unused::default();
        unused.begin();
        assert_eq!(unused.number(), 1);
        assert_eq!(go(&mut unused, 1_500, 2_200), [users(0..1_000, false)]);
        assert_eq!(go(&mut unused, 1_500, 2_200), [users(1_000..1_500, true), Chunk::Connections(0..500)]);
        assert_eq!(go(&mut unused, 1_500, 2_200), [Chunk::Connections(500..1_500)]);
        unused.look_again();
        // Some have gone meanwhile, and the tables with them.
        assert!(unused.is_looking() && !unused.needs_another());
        assert_eq!(go(&mut unused, 100, 1_400), [Chunk::Connections(1_500..1_500)]);
        assert!(unused.needs_another() && !unused.needs_another());
    }
}
