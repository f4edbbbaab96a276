//! Which connections to clients make room for others: those that have been idle for longest.

use std::net::IpAddr;

use engine::Time;

use crate::doors::giop::outgoing::Outgoing;
use crate::lane::io::slots::{Slots, Token};

/// The connections that have been idle for longest. All are looked through once in a round at most, and as many as are
/// found then are closed one by one, as room is needed.
#[derive(Default)]
pub(crate) struct LongestIdle {
    /// Since when, and which; the longest idle one last.
    found: Vec<(Time, Token)>,
    /// Whose they are, and when they were looked for.
    of: Option<IpAddr>,
    looked_at: Option<Time>,
}

/// How many are found at once.
const FOUND_MAX: usize = 256;

impl LongestIdle {
    /// The longest idle one of those that an address has, or of all.
    pub(crate) fn next(&mut self, connections: &Slots<Outgoing>, of: Option<IpAddr>, now: Time) -> Option<Token> {
        if self.of == of
            && let Some(token) = self.take(connections)
        {
            return Some(token);
        }
        if self.looked_at == Some(now) {
            return None;
        }
        (self.of, self.looked_at) = (of, Some(now));
        let is_meant = |connection: &Outgoing| of.is_none_or(|ip| connection.account().ip() == ip);
        let meant = connections.iter().filter(|(_, connection)| is_meant(connection));
        self.found.clear();
        self.found.extend(meant.filter_map(|(token, connection)| Some((connection.idle_since()?, token))));
        self.found.sort_unstable_by_key(|(since, _)| core::cmp::Reverse(*since));
        let shorter_idle = self.found.len().saturating_sub(FOUND_MAX);
        self.found.drain(..shorter_idle);
        self.take(connections)
    }

    fn take(&mut self, connections: &Slots<Outgoing>) -> Option<Token> {
        while let Some((since, token)) = self.found.pop() {
            if connections.get(token).is_some_and(|connection| connection.idle_since() == Some(since)) {
                return Some(token);
            }
        }
        None
    }
}
