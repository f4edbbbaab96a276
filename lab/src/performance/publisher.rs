//! A publisher: one connection, one thread, messages that were built before.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::ends::{Answer, Order, Publish, Run, Sent, not_its_part};
use super::lines::Lines;
use super::protocol::{Prepared, Publishing, broken, unreachable_peer, write_digits};
use crate::process::say_answer;
use crate::wire::{Phase, Stamp};
use crate::{BenchError, Output, clock};

/// Octets of messages that are written at once, where that many may be sent.
const BLOCK_BYTES: usize = 64 * 1024;

/// Octets of acknowledgements that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// How long an acknowledgement may take.
const SILENCE_MAX: Duration = Duration::from_secs(25);

/// A publisher that is connected.
pub(super) struct Publisher {
    stream: TcpStream,
    protocol: Box<dyn Publishing>,
    block: Block,
    /// Messages that may be unacknowledged; 0: none is acknowledged.
    window: u32,
    unacknowledged: u32,
    next_id: u32,
    /// What was read and not understood yet begins at the start.
    buffer: Vec<u8>,
    filled: usize,
    answers: Vec<u8>,
}

/// Messages, one right behind the other.
struct Block {
    bytes: Vec<u8>,
    message: Prepared,
    messages: u32,
}

impl Block {
    fn new(message: Prepared) -> Self {
        let count = (BLOCK_BYTES / message.bytes.len().max(1)).max(1);
        Self { bytes: message.bytes.repeat(count), messages: u32::try_from(count).unwrap_or(1), message }
    }

    /// Events of one message.
    fn events(&self) -> u64 {
        u64::try_from(self.message.payloads.len()).unwrap_or(1)
    }

    /// Makes the first `count` messages those of the events from this number on; their octets.
    fn stamp(&mut self, count: u32, mut id: u32, mut stamp: Stamp) -> &[u8] {
        let Self { bytes, message, .. } = self;
        let length = message.bytes.len();
        let count = usize::try_from(count).unwrap_or(0);
        for one in bytes.chunks_exact_mut(length).take(count) {
            if let Some(field) = message.id.and_then(|at| one.get_mut(at..at + 4)) {
                field.copy_from_slice(&id.to_ne_bytes());
                id = id.wrapping_add(1);
            }
            for &payload in &message.payloads {
                let Some(rest) = one.get_mut(payload..) else { continue };
                if message.is_text {
                    write_digits(&stamp.to_bytes(), rest);
                } else if let Some(octets) = rest.first_chunk_mut() {
                    *octets = stamp.to_bytes();
                }
                stamp.number += 1;
            }
        }
        bytes.get(..count * length).unwrap_or_default()
    }
}

impl Publisher {
    pub(super) fn connect(publish: &Publish) -> Result<Self, BenchError> {
        let address = publish.address;
        let mut stream = TcpStream::connect(address).map_err(|source| unreachable_peer(address, &source))?;
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(BenchError::io("limiting how long a read may take"))?;
        let protocol = publish.protocol.publishing();
        stream.write_all(&protocol.greeting(&publish.settings())).map_err(BenchError::io("greeting a contender"))?;
        let block = Block::new(protocol.message(&publish.settings()));
        Ok(Self {
            stream,
            protocol,
            block,
            window: publish.window,
            unacknowledged: 0,
            next_id: 1,
            buffer: vec![0; READ_BYTES],
            filled: 0,
            answers: Vec::new(),
        })
    }

    /// Carries out orders until there are no more.
    pub(super) fn obey(mut self, mut orders: Lines, out: &mut Output<'_>) -> Result<(), BenchError> {
        clock::wake_on_time();
        say_answer(out, &Answer::Ready)?;
        while let Some(order) = orders.wait()? {
            match order {
                Order::Send(run) => say_answer(out, &Answer::Sent(self.send(run)?))?,
                order => return Err(not_its_part(&order)),
            }
        }
        Ok(())
    }

    fn send(&mut self, run: Run) -> Result<Sent, BenchError> {
        let cpu = clock::thread_cpu();
        let mut sent = if run.period == 0 { self.saturate(run) } else { self.pace(run) }?;
        self.await_unacknowledged(0)?;
        sent.ended = clock::now();
        sent.cpu = clock::thread_cpu() - cpu;
        Ok(sent)
    }

    /// Sends as many events as get through.
    fn saturate(&mut self, run: Run) -> Result<Sent, BenchError> {
        clock::sleep_until(run.from)?;
        let mut sent = Sent { began: clock::now(), ..Sent::default() };
        loop {
            let now = clock::now();
            if now >= run.until {
                return Ok(sent);
            }
            let free = if self.window == 0 { u32::MAX } else { self.window - self.unacknowledged };
            self.write(free.min(self.block.messages), now, run.number, &mut sent)?;
            // Not for every single acknowledgement: half a window at once makes large writes of them.
            self.await_unacknowledged(self.window / 2)?;
        }
    }

    /// Sends events when they are due; what is late leaves at once.
    fn pace(&mut self, run: Run) -> Result<Sent, BenchError> {
        let mut sent = Sent { began: run.from, ..Sent::default() };
        let mut due = run.from;
        while due < run.until {
            if clock::now() < due {
                clock::sleep_until(due)?;
            } else if clock::now() - due > run.period {
                sent.late += 1;
            }
            self.write(1, due, run.number, &mut sent)?;
            self.await_unacknowledged(self.window.saturating_sub(1))?;
            due += run.period;
        }
        Ok(sent)
    }

    /// Sends so many messages, due at that time.
    fn write(&mut self, messages: u32, due: u64, run: u32, sent: &mut Sent) -> Result<(), BenchError> {
        let stamp = Stamp { sent: clock::now(), due, number: sent.events, supplier: run, phase: Phase::Measured };
        let bytes = self.block.stamp(messages, self.next_id, stamp);
        self.stream.write_all(bytes).map_err(BenchError::io("writing events"))?;
        self.next_id = self.next_id.wrapping_add(messages);
        sent.events += u64::from(messages) * self.block.events();
        if self.window > 0 {
            self.unacknowledged += messages;
        }
        Ok(())
    }

    /// Waits until no more than so many messages are unacknowledged.
    fn await_unacknowledged(&mut self, count: u32) -> Result<(), BenchError> {
        while self.unacknowledged > count {
            match self.stream.read(self.buffer.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) => return Err(broken("closed the connection of a publisher")),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(BenchError::Io { doing: "waiting for an acknowledgement", source }),
            }
            let read = self.buffer.get(..self.filled).unwrap_or_default();
            let acknowledged = self.protocol.acknowledged(read, &mut self.answers)?;
            self.buffer.copy_within(acknowledged.consumed..self.filled, 0);
            self.filled -= acknowledged.consumed;
            self.unacknowledged = self
                .unacknowledged
                .checked_sub(acknowledged.messages)
                .ok_or_else(|| broken("acknowledged what was not sent"))?;
            if !self.answers.is_empty() {
                self.stream.write_all(&self.answers).map_err(BenchError::io("answering a contender"))?;
                self.answers.clear();
            }
        }
        Ok(())
    }
}
