//! The suppliers of a process: each a thread, a connection, and a schedule.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use giop::connection::Side;
use giop::message::ServiceContexts;
use load::peer::Peer;

use super::{PAYLOAD_LEN, Payload, Piece, Run, Schedule, Sent, SupplierPath};
use crate::wire::{PushMessage, Shape};
use crate::{BenchError, Form, clock};

/// Whom it pushes to, in error messages.
const PEER: &str = "the one that a supplier pushes to";

/// How long a reply may take. A path of low priority waits until those above it leave it processor time.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Suppliers {
    suppliers: Vec<Supplier>,
}

impl Suppliers {
    pub(super) fn connect(paths: Vec<SupplierPath>) -> Result<Self, BenchError> {
        Ok(Self { suppliers: paths.into_iter().map(Supplier::connect).collect::<Result<_, _>>()? })
    }

    /// Sends what each path has in this run; returns when the last is over.
    pub(super) fn send(&mut self, run: &Run) -> Result<Vec<Sent>, BenchError> {
        if run.paths.len() != self.suppliers.len() {
            return Err(BenchError::Process {
                name: super::COMMAND.to_owned(),
                reason: format!("was told {} schedules for {} suppliers", run.paths.len(), self.suppliers.len()),
            });
        }
        let paths = self.suppliers.iter_mut().zip(&run.paths);
        thread::scope(|scope| {
            let running: Vec<_> =
                paths.map(|(supplier, schedule)| scope.spawn(move || supplier.run(run.number, schedule))).collect();
            let joined = running.into_iter();
            joined.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}

struct Supplier {
    peer: Peer<()>,
    /// A push of one event, and one of as many as were last asked for.
    message: PushMessage,
    batch: (u32, PushMessage),
    path: SupplierPath,
}

impl Supplier {
    fn connect(path: SupplierPath) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(path.address).map_err(BenchError::io("connecting a supplier"))?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(BenchError::io("limiting how long a read may take"))?;
        let context = path.priority.map(priority_context);
        let contexts: Vec<(u32, &[u8])> =
            context.iter().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, &data[..])).collect();
        let message = if path.sequences {
            sequence(&path, 1)
        } else {
            PushMessage::of_type(&path.key, &path.event_type, path.payload_bytes.max(PAYLOAD_LEN), &contexts)
        };
        let peer = Peer::new(PEER, Side::Caller, stream)?;
        Ok(Self { peer, batch: (1, message.clone()), message, path })
    }

    /// Sends the events of a run, and behind them one that says that it is over.
    fn run(&mut self, run: u32, schedule: &Schedule) -> Result<Sent, BenchError> {
        clock::wake_on_time();
        let mut sent = Sent { events: 0, late: 0 };
        let mut payload = Payload { due: 0, sent: 0, number: 0, run, load: schedule.load, end: false };
        for piece in &schedule.pieces {
            self.send_piece(piece, &mut payload, &mut sent)?;
        }
        // What says that it is over comes no closer behind the last event than another would.
        if let Some(last) = schedule.pieces.last().filter(|last| last.period > 0 && last.until > clock::now()) {
            clock::sleep_until(last.until)?;
        }
        payload.load = 0;
        payload.end = true;
        self.push(payload, 1)?;
        self.peer.await_replies(0)?;
        Ok(sent)
    }

    fn send_piece(&mut self, piece: &Piece, payload: &mut Payload, sent: &mut Sent) -> Result<(), BenchError> {
        let events = if self.path.sequences { piece.events.max(1) } else { 1 };
        if self.batch.0 != events && events > 1 {
            self.batch = (events, sequence(&self.path, events));
        }
        let mut due = piece.from;
        loop {
            let now = clock::now();
            if due >= piece.until || now >= piece.until {
                return Ok(());
            }
            if now < due {
                clock::sleep_until(due)?;
            } else if piece.period > 0 && now - due > piece.period {
                sent.late += 1;
            }
            // Back to back, it is due when it can leave, but not before the piece begins.
            payload.due = if piece.period == 0 { due.max(now) } else { due };
            self.push(*payload, events)?;
            payload.number = payload.number.wrapping_add(events);
            sent.events += u64::from(events);
            due += piece.period;
        }
    }

    /// Sends one event, or the last batch's number of them; returns when no more than `unanswered_max` − 1 pushes are unanswered.
    fn push(&mut self, payload: Payload, events: u32) -> Result<(), BenchError> {
        let message = if events > 1 { &mut self.batch.1 } else { &mut self.message };
        let mut payload = Payload { sent: clock::now(), ..payload };
        message.fill(self.peer.requests.next_id(), &payload.to_bytes());
        for index in 1..events {
            payload.number = payload.number.wrapping_add(1);
            message.fill_payload(usize::try_from(index).unwrap_or(usize::MAX), &payload.to_bytes());
        }
        self.peer.send(message.bytes(), ())?;
        let unanswered_max = usize::try_from(self.path.unanswered_max).unwrap_or(usize::MAX);
        self.peer.await_replies(unanswered_max.max(1) - 1).map(drop)
    }
}

fn sequence(path: &SupplierPath, events: u32) -> PushMessage {
    let shape = Shape::new(Form::Sequence, &path.key, path.payload_bytes.max(PAYLOAD_LEN));
    PushMessage::build(&Shape { event_type: &path.event_type, events, ..shape })
}

/// Data of the service context `RTCorbaPriority`: an encapsulated `short` (Real-time CORBA 1.2, 5.5).
fn priority_context(priority: i16) -> [u8; 4] {
    let [low, high] = priority.to_le_bytes();
    [1, 0, low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encapsulates_the_priority_in_little_endian() {
        assert_eq!(priority_context(8000), [1, 0, 0x40, 0x1f]);
    }
}
