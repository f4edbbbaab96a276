//! Pull consumers: each a thread with its own connection, which waits for the next event as soon as it has taken the previous one, like the
//! consumer of the papers' monitor system.

use std::net::TcpStream;
use std::time::Duration;

use giop::connection::Side;

use super::intake::Intake;
use super::{CatcherShared, Shared};
use crate::peer::Peer;
use crate::wire::{self, Stamp};
use crate::{BenchError, Form};

/// Maximum time between checks whether everything sent has arrived.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// One pull consumer.
pub(super) struct Puller {
    pub(super) intake: Intake,
    peer: Peer<()>,
    /// The key of its proxy.
    key: Vec<u8>,
    request: Vec<u8>,
    found: Vec<Stamp>,
}

impl Puller {
    /// A consumer that pulls from the proxy of this key over this connection.
    pub(super) fn new(intake: Intake, stream: TcpStream, key: Vec<u8>) -> Result<Self, BenchError> {
        stream.set_read_timeout(Some(LOOK_UP_EVERY)).map_err(BenchError::io("limiting a consumer's reads"))?;
        let peer = Peer::new(intake.contender, Side::Caller, stream)?;
        Ok(Self { intake, peer, key, request: Vec::new(), found: Vec::new() })
    }

    /// Pulls until everything sent has arrived, or nothing has for a while. The last pull is left unanswered.
    pub(super) fn run(mut self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
        ask(&mut self.peer, self.intake.form, &self.key, &mut self.request)?;
        while !self.intake.is_done(shared) {
            if let Some(at) = self.peer.read()? {
                self.take(at, own)?;
            }
        }
        Ok(self)
    }

    /// Handles complete messages, and asks for more.
    fn take(&mut self, at: u64, own: &CatcherShared) -> Result<(), BenchError> {
        let Self { intake, peer, key, request, found } = self;
        while peer.next_pulled(intake.form, &mut |stamp| found.push(stamp))? {
            for stamp in found.drain(..) {
                intake.take(stamp, at, own)?;
            }
            ask(peer, intake.form, key, request)?;
        }
        Ok(())
    }
}

fn ask(peer: &mut Peer<()>, form: Form, key: &[u8], request: &mut Vec<u8>) -> Result<(), BenchError> {
    request.clear();
    wire::write_pull(request, form, key, peer.requests.next_id());
    peer.send(request, ())
}
