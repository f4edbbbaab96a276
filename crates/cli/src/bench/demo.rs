//! `campanile bench monitor --demo`: the service at its default address under a telescope's load, with a live table.

use std::io::Write;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use load::campanile::Campanile;
use load::latency::ratio;
use load::table::{Cell, Table, counted};
use load::workload::{self, Carrier, Lasting, Latency, Shared, Traffic, View};
use load::{BenchError, Output, clock};

use super::options::MonitorOptions;

/// Serves and shows until Ctrl-C.
pub(super) fn run(traffic: &Traffic, options: &MonitorOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&over)).map_err(BenchError::io("waiting for Ctrl-C"))?;
    }
    let service = Campanile::start_to_look_at(options.listen.as_deref()).map_err(advise)?;
    let Traffic { suppliers, payload_bytes, rate, consumers, .. } = traffic;
    let consumers = counted(*consumers, "consumer");
    writeln!(
        out,
        "Serving at {address}: corbaloc::{address}/NotificationService\n\
         {suppliers} suppliers push {payload_bytes} B {rate} times a second each, two-way, to {consumers} \
         on the default channel. Look at it from another terminal with `campanile ls{server}` or `campanile sub{server}`. \
         Ctrl-C ends.\n",
        address = service.address(),
        server = options.listen.as_ref().map_or_else(String::new, |_| format!(" --server {}", service.address())),
    )?;
    out.flush()?;
    let mut board = Board::new(&service);
    let report = workload::run(
        &Carrier::Campanile(&service, options.carriage),
        std::slice::from_ref(traffic),
        Lasting::until_stopped(),
        |view| {
            while !over.load(Ordering::Relaxed) && !view.shared.is_stopped() {
                board.tick(view, out)?;
            }
            Ok(())
        },
    )?;
    let Some(of_traffic) = report.traffics.first() else { return Ok(()) };
    let losses = of_traffic.losses;
    writeln!(
        out,
        "\n{} events sent, {} received, {} lost, {} repeated, {} out of order in {:.0} s",
        losses.sent, losses.received, losses.lost, losses.repeated, losses.out_of_order, report.seconds
    )?;
    if let Some(latency) = board.all.since_sent.percentiles() {
        writeln!(
            out,
            "latency: min {:.0} µs, median {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs",
            latency.min, latency.median, latency.p99, latency.p999, latency.max
        )?;
    }
    Ok(())
}

/// The service says what to do about an address in use; of `make` there is a way, too.
fn advise(error: BenchError) -> BenchError {
    match error {
        BenchError::Process { name, reason } if reason.contains(" is in use: ") => {
            let reason = format!("{reason}\n(`make run LISTEN=127.0.0.1:2810` does that.)");
            BenchError::Process { name, reason }
        }
        error => error,
    }
}

/// The live table, and what it remembers from one second to the next.
struct Board<'a> {
    service: &'a Campanile,
    /// When the last row was taken.
    last: u64,
    service_cpu: u64,
    sent: u64,
    received: u64,
    /// Latencies since the beginning.
    all: Latency,
    rows: u64,
}

impl<'a> Board<'a> {
    fn new(service: &'a Campanile) -> Self {
        Self { service, last: 0, service_cpu: 0, sent: 0, received: 0, all: Latency::default(), rows: 0 }
    }

    /// Waits for the next second and shows it.
    fn tick(&mut self, view: &View<'_>, out: &mut Output<'_>) -> Result<(), BenchError> {
        let from = if self.last == 0 { clock::now() } else { self.last };
        if self.last == 0 {
            // The figures of the first second start here, and not with the first event.
            self.take(view.shared, from)?;
        }
        clock::sleep_until(from + clock::SECOND)?;
        let now = clock::now();
        let before = (self.sent, self.received, self.service_cpu);
        let second = self.take(view.shared, now)?;
        let elapsed = clock::seconds(now.saturating_sub(from).max(1));
        let rate = |after: u64, before: u64| ratio(after.saturating_sub(before), 1) / elapsed;
        let latency = second.since_sent.percentiles();
        let due = self.sent.saturating_mul(u64::try_from(view.shared.catchers.len()).unwrap_or(1));
        let mut table = Table::new([
            "time s",
            "pushed/s",
            "received/s",
            "median µs",
            "p99 µs",
            "max µs",
            "under way",
            "lost",
            "service CPU %",
            "service MB",
        ]);
        table.row([
            Cell::Count((now.saturating_sub(view.schedule.start)) / clock::SECOND),
            rate(self.sent, before.0).into(),
            rate(self.received, before.1).into(),
            latency.map(|latency| latency.median).into(),
            latency.map(|latency| latency.p99).into(),
            latency.map(|latency| latency.max).into(),
            due.saturating_sub(self.received).into(),
            missing(view.shared).into(),
            (rate(self.service_cpu, before.2) / 1e7).into(),
            (ratio(self.service.process().resident_bytes()?, 1) / 1e6).into(),
        ]);
        self.show(&table, out)
    }

    /// Takes the counters of this moment and the latencies since the last one.
    fn take(&mut self, shared: &Shared, now: u64) -> Result<Latency, BenchError> {
        self.last = now;
        self.service_cpu = self.service.process().cpu()?;
        self.received = shared.catchers.iter().map(|catcher| catcher.received.load(Ordering::Relaxed)).sum();
        self.sent = shared.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).sum();
        let mut since = Latency::default();
        for catcher in &shared.catchers {
            let mut latency = catcher.latency.lock().unwrap_or_else(PoisonError::into_inner);
            since.take_from(&mut latency);
        }
        self.all.add(&since);
        Ok(since)
    }

    /// Over the row before for a person, below it in a pipe.
    fn show(&mut self, table: &Table, out: &mut Output<'_>) -> Result<(), BenchError> {
        if self.rows > 0 && out.is_terminal() {
            write!(out, "\x1b[2A\x1b[J")?;
        }
        if self.rows > 0 && !out.is_terminal() {
            table.write_rows(out)?;
        } else {
            table.write(out)?;
        }
        self.rows += 1;
        out.flush()?;
        Ok(())
    }
}

/// Events that never came although later ones of the same supplier did.
fn missing(shared: &Shared) -> u64 {
    shared.catchers.iter().map(|catcher| catcher.missing.load(Ordering::Relaxed)).sum()
}
