//! Links between threads: messages, and events handed over to lanes that have consumers for them.

pub(crate) mod lane_registry;
pub(crate) mod lanes;
pub(crate) mod mailbox;
pub(crate) mod messages;

use self::lanes::{LaneLinks, Link, TakenForPeer};
use self::mailbox::Inbox;
use crate::lane::io::slots::Slots;

/// A lane's links to the others.
pub(crate) struct Links {
    /// Links to the other lanes.
    pub(crate) lanes: LaneLinks,
    introductions: Inbox<Link>,
    /// Events of other lanes that wait for their turn, or are blocked.
    pub(crate) taken_for_peers: Slots<TakenForPeer>,
    /// Whether the lane is retiring: no route leads here any more.
    pub(crate) retiring: bool,
}

impl Links {
    pub(crate) fn new(links: Vec<Link>, introductions: Inbox<Link>) -> Self {
        Self { lanes: LaneLinks::new(links), introductions, taken_for_peers: Slots::new(), retiring: false }
    }

    /// Takes in the links to lanes that were started lately.
    pub(crate) fn meet_introduced(&mut self) {
        while let Some(link) = self.introductions.take() {
            self.lanes.meet(link);
        }
    }
}
