//! What a connection has of its lane's rounds.

use crate::lane::io::round_budget::RoundUsage;
use crate::lane::io::slots::Token;
use crate::lane::io::system::Interest;

/// A connection's part in its lane's rounds: its address, what it has had of the latest round, and what is still to come.
pub(crate) struct Rounds {
    /// The address that is charged for what is done for it, among those of the lane.
    pub(crate) slice: Token,
    /// Its socket is ready, and waits for the turn of that address.
    pub(crate) is_deferred: bool,
    /// It has had its share of a round, and whole messages of it may wait for the next.
    pub(crate) has_backlog: bool,
    /// What it has had of the latest round.
    pub(crate) usage: RoundUsage,
    /// It is among those that are written to when the round ends.
    pub(crate) is_due: bool,
    /// What the poll was last asked to report.
    pub(crate) interest: Interest,
}

impl Rounds {
    /// Of a connection that has had nothing yet, and of which the poll is to report this.
    pub(crate) fn new(slice: Token, interest: Interest) -> Self {
        Self { slice, is_deferred: false, has_backlog: false, usage: RoundUsage::default(), is_due: false, interest }
    }

    /// The address that is charged for what is done for it, and whether it waits for the turn of that.
    pub(crate) const fn defer(&mut self) -> (Token, &mut bool) {
        (self.slice, &mut self.is_deferred)
    }
}
