//! The load of the service: suppliers that each wait for their answer, one that keeps to a schedule, and consumers.

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use client::notify::Property;
use giop::connection::Side;
use load::callers::Callers;
use load::campanile::{Channel, NAME, listen};
use load::peer::Peer;
use load::poll::Poll;
use load::wire::PushMessage;
use load::{CarriageOptions, Form};

use crate::latency::Recorder;
use crate::{BenchError, clock};

/// How long a consumer waits before it looks whether it is to end.
const LOOK_EVERY: u64 = clock::SECOND / 10;

/// A supplier's connection, with its pushes that are unanswered.
struct Supplier {
    number: u64,
    /// Unanswered pushes, each with when it was sent.
    peer: Peer<u64>,
    message: PushMessage,
    /// Events pushed before the next one: its number.
    pushed: u64,
    /// What is to be written at one go.
    output: Vec<u8>,
}

impl Supplier {
    fn connect(channel: &Channel, payload: usize, number: u64, qos: &[Property]) -> Result<Self, BenchError> {
        let carriage = CarriageOptions { form: Form::Structured, ..CarriageOptions::default() };
        let proxy = channel.add_supplier_with(carriage, qos)?;
        let peer = Peer::new(NAME, Side::Caller, proxy.connect()?)?;
        let message = PushMessage::of(Form::Structured, &proxy.key, payload);
        Ok(Self { number, peer, message, pushed: 0, output: Vec::new() })
    }

    /// Has an event written with the next [`write`](Self::write): with the time, its supplier's number and its own in its payload.
    fn push(&mut self) {
        let now = clock::now();
        let words = [now, self.number, self.pushed].map(u64::to_ne_bytes);
        self.message.fill(self.peer.requests.next_id(), words.as_flattened());
        self.pushed += 1;
        self.output.extend_from_slice(self.message.bytes());
        self.peer.requests.sent(Some(now));
    }

    fn write(&mut self) -> Result<(), BenchError> {
        self.peer.stream.write_all(&self.output).map_err(BenchError::io("pushing an event"))?;
        self.output.clear();
        Ok(())
    }

    /// Reads once. Tells when each push was sent that is answered.
    fn read(&mut self, mut answered: impl FnMut(u64)) -> Result<(), BenchError> {
        self.peer.read()?;
        while let Some((sent, ..)) = self.peer.next_reply()? {
            answered(sent);
        }
        Ok(())
    }
}

/// Suppliers that each push as soon as they are answered, or when they are due.
pub(crate) struct Flood {
    suppliers: Vec<Supplier>,
    poll: Poll,
    /// Pushes of one supplier that may be unanswered.
    window: usize,
}

impl Flood {
    /// So many, each with one unanswered push at most.
    pub(crate) fn connect(channel: &Channel, suppliers: u32, payload: usize) -> Result<Self, BenchError> {
        Self::with_window(channel, suppliers, payload, 1)
    }

    /// So many, each with so many unanswered pushes at most.
    pub(crate) fn with_window(
        channel: &Channel,
        suppliers: u32,
        payload: usize,
        window: usize,
    ) -> Result<Self, BenchError> {
        Self::of(channel, 0..suppliers.into(), payload, window, &[])
    }

    /// Those with these numbers, each with so many unanswered pushes at most, at proxies of these qualities.
    pub(crate) fn of(
        channel: &Channel,
        numbers: Range<u64>,
        payload: usize,
        window: usize,
        qos: &[Property],
    ) -> Result<Self, BenchError> {
        let poll = Poll::new()?;
        let suppliers =
            numbers.map(|number| Supplier::connect(channel, payload, number, qos)).collect::<Result<Vec<_>, _>>()?;
        for (supplier, at) in suppliers.iter().zip(0..) {
            poll.add(&supplier.peer.stream, at)?;
        }
        Ok(Self { suppliers, poll, window })
    }

    /// Has them push for so long, at so many a second altogether if that is said, and waits for all answers. Says how long each took.
    pub(crate) fn run(&mut self, turn_ns: u64, rate: Option<u64>) -> Result<Recorder, BenchError> {
        self.run_at_most(u64::MAX, turn_ns, rate)
    }

    /// The same, until so many were pushed.
    pub(crate) fn run_at_most(
        &mut self,
        mut left: u64,
        turn_ns: u64,
        rate: Option<u64>,
    ) -> Result<Recorder, BenchError> {
        let (mut took, began) = (Recorder::default(), clock::now());
        let (until, step) = (began + turn_ns, rate.map_or(0, |rate| clock::SECOND / rate.max(1)));
        // Pushes that there may be, by supplier: each is in it as often as it may push.
        let all = self.suppliers.len();
        let mut free: Vec<usize> = (0..all).flat_map(|at| std::iter::repeat_n(at, self.window)).collect();
        let most = free.len();
        let mut due = began;
        loop {
            let now = clock::now();
            let mut pushing = None;
            while now < until && left > 0 && due <= now {
                let Some(at) = free.pop() else { break };
                left -= 1;
                if pushing != Some(at) {
                    self.write(pushing.replace(at))?;
                }
                self.suppliers.get_mut(at).into_iter().for_each(Supplier::push);
                due = if step == 0 { now } else { due + step };
            }
            self.write(pushing)?;
            let is_idle = free.len() == most;
            if is_idle && (now >= until || left == 0) {
                return Ok(took);
            }
            // One that has no supplier free waits for an answer; one that has, for the next event to be due as well.
            let within = (step > 0 && !free.is_empty() && now < until).then(|| due.saturating_sub(now));
            self.take_answers(within, &mut took, &mut free)?;
        }
    }

    fn write(&mut self, supplier: Option<usize>) -> Result<(), BenchError> {
        supplier.and_then(|at| self.suppliers.get_mut(at)).map_or(Ok(()), Supplier::write)
    }

    fn take_answers(
        &mut self,
        within: Option<u64>,
        took: &mut Recorder,
        free: &mut Vec<usize>,
    ) -> Result<(), BenchError> {
        for key in self.poll.wait(within)? {
            let at = usize::try_from(key).unwrap_or(usize::MAX);
            let Some(supplier) = self.suppliers.get_mut(at) else { continue };
            supplier.read(|sent| {
                took.record(clock::now().saturating_sub(sent));
                free.push(at);
            })?;
        }
        Ok(())
    }
}

/// A consumer, on a thread of its own, that answers everything.
pub(crate) struct Consumer {
    is_over: Arc<AtomicBool>,
    /// From the event's payload to its arrival, since the latencies were last taken out.
    latency: Arc<Mutex<Recorder>>,
    thread: Option<JoinHandle<()>>,
}

impl Consumer {
    pub(crate) fn connect(channel: &Channel) -> Result<Self, BenchError> {
        let mut callers = Callers::new(NAME, listen()?)?.answering_at_once();
        // So that it is never the consumer that is waited for.
        let qos = [Property::new("PushWindow", 256_u16)];
        channel.connect_consumer(callers.address()?, b"durable-consumer", Form::Structured, &qos)?;
        let (is_over, latency) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Recorder::default())));
        let (over, recorded) = (Arc::clone(&is_over), Arc::clone(&latency));
        let thread = thread::spawn(move || {
            let mut take = |payload: &[u8], now: u64| {
                let sent = payload.first_chunk::<8>().map_or(now, |sent| u64::from_ne_bytes(*sent));
                recorded.lock().unwrap_or_else(PoisonError::into_inner).record(now.saturating_sub(sent));
                Ok(())
            };
            while !over.load(Ordering::Relaxed) && callers.wait(Some(LOOK_EVERY), true, &mut take).is_ok() {}
        });
        Ok(Self { is_over, latency, thread: Some(thread) })
    }

    pub(crate) fn take_latency(&self, into: &mut Recorder) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        into.merge(&latency);
        latency.clear();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A supplier that keeps to a schedule, and its consumer.
pub(crate) struct Paced {
    flood: Flood,
    consumer: Consumer,
}

impl Paced {
    pub(crate) fn connect(channel: &Channel) -> Result<Self, BenchError> {
        Ok(Self { consumer: Consumer::connect(channel)?, flood: Flood::connect(channel, 8, super::PAYLOAD)? })
    }

    /// Pushes at so many a second for so long, and records how long events took to arrive.
    pub(crate) fn run(&mut self, turn_ns: u64, rate: u64, latency: &mut Recorder) -> Result<(), BenchError> {
        self.consumer.take_latency(&mut Recorder::default());
        self.flood.run(turn_ns, Some(rate))?;
        self.consumer.take_latency(latency);
        Ok(())
    }
}
