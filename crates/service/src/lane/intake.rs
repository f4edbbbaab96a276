//! Events on their way into the engine: whose turn it is, and what suppliers are owed.

pub(crate) mod admission;
pub(crate) mod turns;

use std::collections::VecDeque;

use engine::Ticket;
use hashbrown::HashMap;

use self::admission::{Owed, UndecidedEvents};
use crate::lane::io::slots::{Slots, Token};

/// What suppliers are owed, and events that are not taken in yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// Replies withheld, by the engine's ticket.
    pub(crate) held: HashMap<Ticket, Token>,
    pub(crate) owed: Slots<Owed>,
    /// Withheld replies that are due now.
    pub(crate) released: VecDeque<Owed>,
    /// Events that came through a proxy while remote filters are asked about one of its events.
    pub(crate) undecided: UndecidedEvents,
}
