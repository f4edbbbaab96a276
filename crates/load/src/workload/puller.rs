//! Pull consumers: each a thread with its own connection, which waits for the next event as soon as it has taken the previous one, like the
//! consumer of the papers' monitor system.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use giop::connection::{Connection, Side};
use giop::framing::{Inbound, Limits};

use super::intake::Intake;
use super::{CatcherShared, Shared};
use crate::wire::{self, Stamp};
use crate::{BenchError, clock};

/// Maximum time between checks whether everything sent has arrived.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// One pull consumer.
pub(super) struct Puller {
    pub(super) intake: Intake,
    stream: TcpStream,
    inbound: Inbound,
    requests: Connection<()>,
    /// The key of its proxy.
    key: Vec<u8>,
    request: Vec<u8>,
    found: Vec<Stamp>,
}

impl Puller {
    /// A consumer that pulls from the proxy of this key over this connection.
    pub(super) fn new(intake: Intake, stream: TcpStream, key: Vec<u8>) -> Result<Self, BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        stream.set_read_timeout(Some(LOOK_UP_EVERY)).map_err(BenchError::io("limiting a consumer's reads"))?;
        let (inbound, requests) = (Inbound::new(Limits::default()), Connection::new(Side::Caller));
        Ok(Self { intake, stream, inbound, requests, key, request: Vec::new(), found: Vec::new() })
    }

    /// Pulls until everything sent has arrived, or nothing has for a while. The last pull is left unanswered.
    pub(super) fn run(mut self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
        self.ask()?;
        while !self.intake.is_done(shared) {
            match self.stream.read(self.inbound.space()) {
                Ok(0) => return Err(self.intake.broken("closed the connection of a consumer that pulls".to_owned())),
                Ok(count) => self.inbound.filled(count),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(source) => return Err(BenchError::Io { doing: "reading from a contender", source }),
            }
            self.take(clock::now(), own)?;
        }
        Ok(self)
    }

    /// Handles complete messages, and asks for more.
    fn take(&mut self, at: u64, own: &CatcherShared) -> Result<(), BenchError> {
        loop {
            let Self { intake, inbound, requests, found, .. } = &mut *self;
            if !wire::next_pulled(intake.contender, requests, inbound, intake.form, &mut |stamp| found.push(stamp))? {
                return Ok(());
            }
            for stamp in self.found.drain(..) {
                self.intake.take(stamp, at, own)?;
            }
            self.ask()?;
        }
    }

    fn ask(&mut self) -> Result<(), BenchError> {
        self.request.clear();
        wire::write_pull(&mut self.request, self.intake.form, &self.key, self.requests.next_id());
        self.requests.sent(Some(()));
        self.stream.write_all(&self.request).map_err(BenchError::io("asking a contender for an event"))
    }
}
