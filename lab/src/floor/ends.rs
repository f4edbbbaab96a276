//! The two ends of the exchange: a supplier and a consumer of our own, the same for every contender.
//!
//! Both block: a request or reply of this size comes and goes with one system call each, and nothing but the
//! contender and the kernel stands between the two stamps.

use std::convert::Infallible;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use giop::connection::Side;
use load::peer::Peer;

use crate::latency::Recorder;
use crate::loss::Ledger;
use crate::wire::{self, Phase, PushMessage, Stamp};
use crate::{BenchError, clock};

/// How long an end waits for the other one before it gives the contender up.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// That side of a connection.
fn peer<W: std::fmt::Debug>(name: &'static str, side: Side, stream: TcpStream) -> Result<Peer<W>, BenchError> {
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(BenchError::io("limiting how long a read may take"))?;
    Peer::new(name, side, stream)
}

#[derive(Debug)]
pub(super) struct Supplier {
    peer: Peer<()>,
    message: PushMessage,
}

/// What the supplier has seen of its turn.
#[derive(Debug)]
pub(super) struct Pushes {
    /// How many events it sent, warm-up aside.
    pub(super) sent: u64,
    /// From before the write of a push until its reply was read.
    pub(super) round_trip: Recorder,
    /// Pushes that left late because the one before had not returned yet.
    pub(super) late: u64,
    /// When the first was sent.
    pub(super) began: u64,
    /// Processor time of the supplier's thread.
    pub(super) cpu: u64,
}

impl Supplier {
    pub(super) fn new(contender: &'static str, stream: TcpStream, message: PushMessage) -> Result<Self, BenchError> {
        Ok(Self { peer: peer(contender, Side::Caller, stream)?, message })
    }

    /// Octets of the request as the supplier sends it.
    pub(super) fn request_bytes(&self) -> usize {
        self.message.bytes().len()
    }

    /// Sends one event that is not recorded and does not wait for the reply, so that a contender that connects to its
    /// consumer only when there is something to push has a reason to.
    pub(super) fn send_without_waiting(&mut self) -> Result<(), BenchError> {
        self.send(clock::now(), 0, Phase::WarmUp).map(|_| ())
    }

    /// Closes the connection: the turn has failed, and no end should wait for more.
    pub(super) fn close(&self) {
        // It may be closed already, and then this has been achieved.
        let _ = self.peer.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Sends `count` events that are not recorded.
    pub(super) fn warm_up(&mut self, count: u64) -> Result<(), BenchError> {
        for number in 0..count {
            let phase = if number + 1 == count { Phase::WarmUpEnd } else { Phase::WarmUp };
            self.push(clock::now(), number, phase)?;
        }
        Ok(())
    }

    /// Sends `count` events, each at its time.
    pub(super) fn paced(&mut self, count: u64, rate: f64) -> Result<Pushes, BenchError> {
        let cpu = clock::thread_cpu();
        let period = clock::nanoseconds(1.0 / rate);
        let start = clock::now() + period;
        let mut pushes = Pushes { sent: count, round_trip: Recorder::default(), late: 0, began: start, cpu: 0 };
        for number in 0..count {
            let due = start + number * period;
            if clock::now() > due {
                pushes.late += 1;
            } else {
                clock::sleep_until(due)?;
            }
            let phase = if number + 1 == count { Phase::MeasuredEnd } else { Phase::Measured };
            pushes.round_trip.record(self.push(due, number, phase)?);
        }
        pushes.cpu = clock::thread_cpu() - cpu;
        Ok(pushes)
    }

    /// Sends the next event as soon as the one before was answered, for `duration` nanoseconds.
    pub(super) fn back_to_back(&mut self, duration: u64) -> Result<Pushes, BenchError> {
        let cpu = clock::thread_cpu();
        let began = clock::now();
        let mut pushes = Pushes { sent: 0, round_trip: Recorder::default(), late: 0, began, cpu: 0 };
        loop {
            let due = clock::now();
            let last = due >= began + duration;
            let phase = if last { Phase::MeasuredEnd } else { Phase::Measured };
            pushes.round_trip.record(self.push(due, pushes.sent, phase)?);
            pushes.sent += 1;
            if last {
                pushes.cpu = clock::thread_cpu() - cpu;
                return Ok(pushes);
            }
        }
    }

    /// Pushes one event and waits for the reply; how long that took.
    fn push(&mut self, due: u64, number: u64, phase: Phase) -> Result<u64, BenchError> {
        let sent = self.send(due, number, phase)?;
        self.wait_for_replies(sent)
    }

    /// Waits until every push is answered; how long after `sent` that was.
    fn wait_for_replies(&mut self, sent: u64) -> Result<u64, BenchError> {
        Ok(self.peer.await_replies(0)?.saturating_sub(sent))
    }

    /// Stamps and sends one event; the stamp's time.
    fn send(&mut self, due: u64, number: u64, phase: Phase) -> Result<u64, BenchError> {
        let sent = clock::now();
        self.message.stamp(self.peer.requests.next_id(), Stamp { sent, due, number, supplier: 0, phase });
        self.peer.send(self.message.bytes(), ())?;
        Ok(sent)
    }
}

#[derive(Debug)]
pub(super) struct Consumer {
    peer: Peer<Infallible>,
    reply: Vec<u8>,
}

/// What the consumer has seen of its turn.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// From the supplier's stamp to the end of the consumer's read.
    pub(super) latency: Recorder,
    /// From when the event was due to the end of the consumer's read.
    pub(super) since_due: Recorder,
    /// Which events came.
    pub(super) ledger: Ledger,
    /// When the last came.
    pub(super) ended: u64,
    /// Processor time of the consumer's thread.
    pub(super) cpu: u64,
    /// Octets of the request as the consumer receives it, and of its reply.
    pub(super) message_bytes: (usize, usize),
}

impl Arrivals {
    fn none_yet() -> Self {
        Self {
            latency: Recorder::default(),
            since_due: Recorder::default(),
            ledger: Ledger::default(),
            ended: 0,
            cpu: clock::thread_cpu(),
            message_bytes: (0, 0),
        }
    }
}

impl Consumer {
    /// A consumer that is pushed to on this connection.
    pub(super) fn new(contender: &'static str, stream: TcpStream) -> Result<Self, BenchError> {
        Ok(Self { peer: peer(contender, Side::Server, stream)?, reply: Vec::new() })
    }

    /// Takes and answers events until the last of the turn; says so on `progress` when the warm-up is over, and again
    /// at the end.
    pub(super) fn turn(&mut self, progress: &mpsc::Sender<()>) -> Result<Arrivals, BenchError> {
        let mut arrivals = Arrivals::none_yet();
        loop {
            let at = self.read()?;
            while let Some(received) = self.answer(at, &mut arrivals)? {
                let Some(stamp) = received else { continue };
                match stamp.phase {
                    Phase::WarmUp | Phase::Measured => {}
                    Phase::WarmUpEnd => {
                        arrivals.cpu = clock::thread_cpu();
                        // The receiver is gone only when the supplier has failed, which it reports itself.
                        let _ = progress.send(());
                    }
                    Phase::MeasuredEnd => {
                        arrivals.cpu = clock::thread_cpu().saturating_sub(arrivals.cpu);
                        let _ = progress.send(());
                        return Ok(arrivals);
                    }
                }
            }
        }
    }

    fn read(&mut self) -> Result<u64, BenchError> {
        self.peer.read()?.ok_or_else(|| self.peer.broken("kept silent for 20 s in the middle of a turn"))
    }

    /// Answers the next message that has been read whole; the stamp of the event that it brought, if it did; `None` when there is no
    /// such message.
    fn answer(&mut self, at: u64, arrivals: &mut Arrivals) -> Result<Option<Option<Stamp>>, BenchError> {
        let contender = self.peer.name;
        let broken = |reason| BenchError::Protocol { contender: contender.into(), reason };
        let Some(message) = self.peer.next_request()? else { return Ok(None) };
        let (mut stamp, header, length) = (None, message.header, message.bytes.len());
        let request = wire::read_push(message.bytes, &header, &mut |payload| stamp = Stamp::read(payload))
            .map_err(|error| broken(format!("sent a request that cannot be read: {error}")))?;
        if let Some(Stamp { phase: Phase::Measured | Phase::MeasuredEnd, sent, due, number, .. }) = stamp {
            arrivals.latency.record(at.saturating_sub(sent));
            arrivals.since_due.record(at.saturating_sub(due));
            arrivals.ledger.enter(number).map_err(|_| broken("delivered an event with an impossible number".into()))?;
            arrivals.ended = at;
        }
        self.reply.clear();
        if request.response != giop::message::Response::None {
            wire::write_reply(&mut self.reply, &header, request.request_id);
            arrivals.message_bytes = (length, self.reply.len());
            self.peer.stream.write_all(&self.reply).map_err(BenchError::io("answering a contender"))?;
        }
        Ok(Some(stamp))
    }

    /// Takes and answers the next event, and whatever else comes before it.
    fn take_one(&mut self, arrivals: &mut Arrivals) -> Result<(), BenchError> {
        loop {
            let at = self.read()?;
            while let Some(received) = self.answer(at, arrivals)? {
                if received.is_some() {
                    return Ok(());
                }
            }
        }
    }
}

/// Plays both ends on one thread: the next event leaves when the consumer has answered the one before and its push has
/// returned, so that never more than one event is under way, and the process in the middle has a core for itself.
///
/// Sends `warm_up` events that do not count, calls `begin`, and goes on for `duration` nanoseconds. The thread's processor
/// time is that of both ends, and is reported as the supplier's.
pub(super) fn lockstep<T>(
    supplier: &mut Supplier,
    consumer: &mut Consumer,
    warm_up: u64,
    duration: u64,
    begin: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Pushes, Arrivals), BenchError> {
    let mut arrivals = Arrivals::none_yet();
    for number in 0..warm_up {
        let sent = supplier.send(clock::now(), number, Phase::WarmUp)?;
        consumer.take_one(&mut arrivals)?;
        supplier.wait_for_replies(sent)?;
    }
    let begun = begin()?;
    let cpu = clock::thread_cpu();
    let began = clock::now();
    let mut pushes = Pushes { sent: 0, round_trip: Recorder::default(), late: 0, began, cpu: 0 };
    loop {
        let due = clock::now();
        if due >= began + duration && pushes.sent > 0 {
            pushes.cpu = clock::thread_cpu() - cpu;
            arrivals.cpu = 0;
            return Ok((begun, pushes, arrivals));
        }
        let sent = supplier.send(due, pushes.sent, Phase::Measured)?;
        consumer.take_one(&mut arrivals)?;
        pushes.round_trip.record(supplier.wait_for_replies(sent)?);
        pushes.sent += 1;
    }
}
