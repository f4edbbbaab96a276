//! What goes between threads: letters, and events that another lane has consumers for.

pub(crate) mod lines;
pub(crate) mod mail;
pub(crate) mod post;
pub(crate) mod roster;

use self::lines::{HeldForPeer, Line, Lines};
use self::post::Inbox;
use crate::lane::io::slots::Slots;

/// A lane's links to the others.
pub(crate) struct Links {
    /// The other lanes, and those that are yet to be taken in.
    pub(crate) lines: Lines,
    introductions: Inbox<Line>,
    /// Events of other lanes that are held.
    pub(crate) held_for_peers: Slots<HeldForPeer>,
}

impl Links {
    pub(crate) fn new(lines: Vec<Line>, introductions: Inbox<Line>) -> Self {
        Self { lines: Lines::new(lines), introductions, held_for_peers: Slots::new() }
    }

    /// Takes in the lanes that were started lately.
    pub(crate) fn meet_introduced(&mut self) {
        while let Some(line) = self.introductions.take() {
            self.lines.meet(line);
        }
    }
}
