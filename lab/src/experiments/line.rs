//! One supplier and one consumer, each a process of its own, and whatever is between them.

use std::net::SocketAddr;

use super::ability::Seat;
use super::party::{Group, Piece, Recording, Run, Sample, Schedule, Sent, SupplierPath};
use super::samples::Window;
use crate::{BenchError, clock};

/// How long before the first event is due a run is ordered.
const LEAD: u64 = clock::SECOND / 50;

/// A supplier and a consumer, connected.
pub(super) struct Line {
    group: Group,
    runs: u32,
    /// One event in so many is recorded.
    every: u32,
}

impl Line {
    /// Starts the consumer, lets `connect` put something between, and starts the supplier, which pushes to where that says.
    pub(super) fn start(
        ends: Seat,
        connect: impl FnMut(SocketAddr) -> Result<SupplierPath, BenchError>,
    ) -> Result<Self, BenchError> {
        Ok(Self { group: Group::start(ends, 1, connect)?, runs: 0, every: 1 })
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
        self.group.record(Recording { number: self.runs, divisions: 0, work_until: 0, every: self.every })?;
        self.group.send(Run { number: self.runs, paths: vec![Schedule { load: 0, pieces }] })
    }

    /// Waits until the run that was begun is over; what was sent and what came.
    pub(super) fn end(&mut self) -> Result<(Sent, Vec<Sample>), BenchError> {
        let path = self.group.collect()?.pop();
        path.ok_or_else(|| BenchError::Process { name: "a party".into(), reason: "told of no path".into() })
    }

    /// One event after the other at this period (0: back to back) for `warm_up` and `window` nanoseconds; the window and what came.
    pub(super) fn run(&mut self, period: u64, warm_up: u64, window: u64) -> Result<(Window, Vec<Sample>), BenchError> {
        let from = Self::soon();
        let window = Window { from: from + warm_up, until: from + warm_up + window };
        self.begin(vec![Piece { from, until: window.until, period, events: 1 }])?;
        clock::sleep_until(window.until)?;
        Ok((window, self.end()?.1))
    }
}
