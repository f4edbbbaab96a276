//! One supplier and one consumer, each a process of its own, and whatever is between them.

use std::net::SocketAddr;

use super::party::{self, Answer, Order, Piece, Recording, Run, Sample, Schedule, Sent, SupplierPath};
use super::samples::Window;
use crate::process::Subordinate;
use crate::{BenchError, clock};

/// How long before the first event is due a run is ordered.
const LEAD: u64 = clock::SECOND / 50;

/// A supplier and a consumer, connected. Ended in this order.
pub(super) struct Line {
    supplier: Subordinate,
    consumer: Subordinate,
    runs: u32,
    /// One event in so many is recorded.
    every: u32,
}

/// Where its two processes run and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// The only core they use, if there is one.
    pub(super) core: Option<usize>,
    /// Their `SCHED_FIFO` priority, if they have one.
    pub(super) fifo: Option<u8>,
}

impl Line {
    /// Starts the consumer, lets `connect` put something between, and starts the supplier, which pushes to where that says.
    pub(super) fn start(
        ends: Ends,
        connect: impl FnOnce(SocketAddr) -> Result<SupplierPath, BenchError>,
    ) -> Result<Self, BenchError> {
        let (consumer, answer) = party::start("the consumer's process", ends.core, ends.fifo, &Order::Consume(1))?;
        let Answer::Listening(addresses) = &answer else { return Err(consumer.confused(&answer)) };
        let Some(&address) = addresses.first() else { return Err(consumer.confused(&answer)) };
        let order = Order::Supply(vec![connect(address)?]);
        let (supplier, answer) = party::start("the supplier's process", ends.core, ends.fifo, &order)?;
        let Answer::Ready = answer else { return Err(supplier.confused(&answer)) };
        Ok(Self { supplier, consumer, runs: 0, every: 1 })
    }

    /// Records one event in so many only: the numbers of the events that came are then multiples of it.
    pub(super) fn recording_one_in(self, every: u32) -> Self {
        Self { every, ..self }
    }

    /// When the first event of a run that is ordered now may be due.
    pub(super) fn soon() -> u64 {
        clock::now() + LEAD
    }

    /// Orders a run of events without work; returns at once.
    pub(super) fn begin(&mut self, pieces: Vec<Piece>) -> Result<(), BenchError> {
        self.runs += 1;
        let recording = Recording { number: self.runs, divisions: 0, work_until: 0, every: self.every };
        let answer = self.consumer.ask(&Order::Record(recording))?;
        let Answer::Ready = answer else { return Err(self.consumer.confused(&answer)) };
        let run = Run { number: self.runs, paths: vec![Schedule { load: 0, pieces }] };
        self.supplier.order(&Order::Send(run))
    }

    /// Waits until the run that was begun is over; what was sent and what came.
    pub(super) fn end(&mut self) -> Result<(Sent, Vec<Sample>), BenchError> {
        let answer = self.supplier.answer()?;
        let Answer::Sent(sent) = &answer else { return Err(self.supplier.confused(&answer)) };
        let Some(&sent) = sent.first() else { return Err(self.supplier.confused(&answer)) };
        let answer = self.consumer.ask(&Order::Collect)?;
        match answer {
            Answer::Received(mut paths) if paths.len() == 1 => Ok((sent, paths.swap_remove(0))),
            other => Err(self.consumer.confused(&other)),
        }
    }

    /// One event after the other at this period (0: back to back) for `warm_up` and `window` nanoseconds; the window and what came.
    pub(super) fn run(&mut self, period: u64, warm_up: u64, window: u64) -> Result<(Window, Vec<Sample>), BenchError> {
        let from = Self::soon();
        let window = Window { from: from + warm_up, until: from + warm_up + window };
        self.begin(vec![Piece { from, until: window.until, period, events: 1 }])?;
        super::ability::pause(window.until.saturating_sub(clock::now()))?;
        let (_, samples) = self.end()?;
        Ok((window, samples))
    }
}
