//! `campanile-bench overflow`: a consumer that sleeps while events go on coming.
//!
//! Suppliers keep to a rate; one consumer keeps up, another one takes nothing for a while, and then everything. Shown is that no
//! supplier waits for it, that the other does not notice, that the service's memory stays what its budget is, and that the sleeper gets
//! every event, each supplier's in order.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use client::notify::Property;
use load::Form;
use load::callers::Callers;
use load::campanile::{NAME, listen};
use load::table::Table;
use rustix::fs::OFlags;
use serde::Serialize;

use crate::durable::load::{Consumer, Flood};
use crate::durable::median;
use crate::latency::{Recorder, ratio};
use crate::output::write_json;
use crate::persistent::{Folder, Serving, Setting};
use crate::report::{Aim, judge, table_of_aims};
use crate::{BenchError, Machine, Output, ReportOptions, clock};

pub(crate) const EXAMPLES: &str = "\
Examples:
  campanile-bench overflow --quick                        5 s asleep
  campanile-bench overflow --seconds 600 --budget-gib 16  ten minutes: 12 million events
  campanile-bench overflow --seconds 120 --awake 120 --writer
                                                          beside as long without a sleeper, while another program writes as much
  campanile-bench overflow --on /var/lib                  on the disk that this folder is on";

/// Suppliers.
pub(crate) const SUPPLIERS: u32 = 64;
/// In units of 100 ns.
const HOUR: u64 = 36_000_000_000;
/// The other consumer's p99 while one sleeps, of that while none does.
const P99_MAX: f64 = 1.3;
/// What the service's memory may be, beside the channel's budget of 256 MiB.
const RESIDENT_MAX: u64 = 512 << 20;

/// Options of `campanile-bench overflow`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OverflowOptions {
    /// Asleep for 5 s
    #[arg(long)]
    quick: bool,
    /// How long a consumer sleeps
    #[arg(long, value_name = "N", default_value_t = 60, conflicts_with = "quick")]
    seconds: u64,
    /// How many seconds everybody keeps up first, to compare with
    #[arg(long, value_name = "N", default_value_t = 5)]
    awake: u64,
    /// Meanwhile another process writes as many octets a second to the same disk: what is compared then is where the writing comes from
    #[arg(long)]
    writer: bool,
    /// Events a second
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rate: u64,
    /// Octets of an event's payload
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    payload: usize,
    /// The channel's `OverflowBudget`
    #[arg(long, value_name = "N", default_value_t = 4)]
    budget_gib: u64,
    /// Where the store's folder is made: on the disk that is to be measured
    #[arg(long, value_name = "DIR")]
    on: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOptions,
}

/// The whole report: the one JSON object.
#[derive(Debug, Serialize)]
struct Report {
    /// Always `overflow`.
    benchmark: &'static str,
    machine: Machine,
    seconds: u64,
    awake_seconds: u64,
    /// Octets written beside the service while all consumers kept up.
    written_beside: u64,
    /// Events a second that were answered while one consumer slept.
    per_second: f64,
    /// Events published while it slept and after, what the sleeper got of them, and how many out of their supplier's order.
    published: u64,
    received: u64,
    disordered: u64,
    /// Suppliers' answers that were withheld.
    held: u64,
    /// What was on disk at most, and the service's memory then.
    overflow_bytes_max: u64,
    resident_bytes_max: u64,
    /// The other consumer's 99th percentile, in µs.
    p99_before_us: f64,
    p99_during_us: f64,
    ratio: f64,
    /// The same of each second before and while one slept, and the longest that one event took while one did: what happens once, and what
    /// grows. And the middle ones of the seconds' p99.
    p99_middle_before_us: f64,
    p99_middle_during_us: f64,
    p99_each_second_before_us: Vec<f64>,
    p99_each_second_us: Vec<f64>,
    longest_each_second_us: Vec<f64>,
    /// Events a second that the sleeper got when it was awake again.
    caught_up_per_second: f64,
    aims: Vec<Aim>,
}

/// A consumer that takes nothing until `take` is called.
pub(crate) struct Sleeper {
    callers: Callers,
    /// The last event of each supplier, by the time in it.
    last: Vec<u64>,
    pub(crate) received: u64,
    pub(crate) disordered: u64,
}

impl Sleeper {
    pub(crate) fn connect(channel: &load::campanile::Channel, qos: &[Property]) -> Result<Self, BenchError> {
        let callers = Callers::new(NAME, listen()?)?.answering_at_once();
        let qos = [&[Property::new("PushWindow", 256_u16)], qos].concat();
        channel.connect_consumer(callers.address()?, b"overflow-sleeper", Form::Structured, &qos)?;
        let last = vec![0; usize::try_from(SUPPLIERS).unwrap_or(0)];
        Ok(Self { callers, last, received: 0, disordered: 0 })
    }

    /// Takes all there is, until it has so many or none has come for ten seconds.
    pub(crate) fn take(&mut self, until: u64) -> Result<(), BenchError> {
        let Self { callers, last, received, disordered } = self;
        let mut came = clock::now();
        while *received < until && clock::now() - came < 10 * clock::SECOND {
            callers.wait(Some(clock::SECOND / 10), true, |payload, now| {
                came = now;
                let number =
                    |at: usize| payload.get(at..).and_then(|rest| rest.first_chunk()).map(|n| u64::from_ne_bytes(*n));
                let (Some(sent), Some(supplier)) = (number(0), number(8)) else { return Ok(()) };
                let Some(last) = usize::try_from(supplier).ok().and_then(|at| last.get_mut(at)) else { return Ok(()) };
                *disordered += u64::from(sent <= *last);
                *last = sent;
                *received += 1;
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &OverflowOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let seconds = if options.quick { 5 } else { options.seconds };
    let mut machine = Machine::describe();
    let folder = Folder::new("overflow", options.on.as_deref())?;
    // The channel has its budget whatever all backlogs may take: one has a share of that.
    let all = format!("[store]\noverflow_bytes_max = {}\n", (options.budget_gib << 31).max(1 << 20));
    let (serving, _) = Setting::new(&folder, &all)?.start()?;
    // Of a sleeper no answer is missed, or it would be sent the same events again, on another connection.
    let qos = [Property::new("OverflowBudget", options.budget_gib << 30), Property::new("ReplyTimeout", HOUR)];
    let channel = serving.service.new_channel_with(&qos)?;
    let consumer = Consumer::connect(&channel)?;
    let mut flood = Flood::connect(&channel, SUPPLIERS, options.payload)?;
    out.progress("everybody keeps up")?;
    let (mut before, mut each_before) = (Recorder::default(), Vec::new());
    flood.run(clock::SECOND, Some(options.rate))?;
    consumer.take_latency(&mut Recorder::default());
    let bytes_per_second = options.rate * options.payload as u64;
    let writer = options.writer.then(|| Writer::begin(folder.file("beside"), bytes_per_second)).transpose()?;
    for second in 0..options.awake {
        out.progress(&format!("everybody keeps up: {second} of {} s", options.awake))?;
        each_before.push(of_a_second(&mut flood, &consumer, options.rate, &mut before)?.1);
    }
    let written_beside = writer.map_or(Ok(0), Writer::end)?;
    let mut sleeper = Sleeper::connect(&channel, &[])?;
    let (mut during, mut published, mut report) = (Recorder::default(), 0, Peak::default());
    let mut each = Vec::new();
    for second in 0..seconds {
        out.progress(&format!("one consumer sleeps: {second} of {seconds} s"))?;
        let (count, latency) = of_a_second(&mut flood, &consumer, options.rate, &mut during)?;
        published += count;
        each.push(latency);
        report.look(&serving)?;
    }
    out.progress("it is awake again")?;
    let (began, held) = (clock::now(), counter(&serving, "lane_suppliers_blocked")?);
    sleeper.take(published)?;
    let took = clock::seconds(clock::now() - began);
    out.end_progress()?;
    machine.note_stolen();
    let (p99_before_us, p99_during_us) = (before.quantile_us(0.99), during.quantile_us(0.99));
    let report = Report {
        benchmark: "overflow",
        machine,
        seconds,
        awake_seconds: options.awake,
        written_beside,
        per_second: ratio(published, seconds.max(1)),
        published,
        received: sleeper.received,
        disordered: sleeper.disordered,
        held,
        overflow_bytes_max: report.overflow_bytes,
        resident_bytes_max: report.resident_bytes,
        p99_before_us,
        p99_during_us,
        ratio: p99_during_us / p99_before_us,
        p99_middle_before_us: median(each_before.iter().map(|(p99, _)| *p99)),
        p99_middle_during_us: median(each.iter().map(|(p99, _)| *p99)),
        p99_each_second_before_us: each_before.iter().map(|(p99, _)| *p99).collect(),
        p99_each_second_us: each.iter().map(|(p99, _)| *p99).collect(),
        longest_each_second_us: each.iter().map(|(_, longest)| *longest).collect(),
        caught_up_per_second: ratio(sleeper.received, 1) / took,
        aims: Vec::new(),
    };
    let report = Report { aims: aims(&report), ..report };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_text(&report, out)?;
    }
    judge(&report.aims)
}

/// Has suppliers push for a second. Says how many events were answered, and the other consumer's p99 and longest in µs.
fn of_a_second(
    flood: &mut Flood,
    consumer: &Consumer,
    rate: u64,
    into: &mut Recorder,
) -> Result<(u64, (f64, f64)), BenchError> {
    let count = flood.run(clock::SECOND, Some(rate))?.count();
    let mut this = Recorder::default();
    consumer.take_latency(&mut this);
    into.merge(&this);
    Ok((count, (this.quantile_us(0.99), this.quantile_us(1.0))))
}

/// A writer beside the service: as much a second to the disk as a backlog takes, and past the page cache as well.
struct Writer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64, BenchError>>,
}

/// What memory, places and lengths are multiples of with `O_DIRECT` (open(2)).
const BLOCK: usize = 4_096;
/// How often it writes, and how long its file gets until it begins again.
const WRITES_PER_SECOND: u64 = 100;
const WRITTEN_MAX: u64 = 64 << 20;

impl Writer {
    fn begin(path: PathBuf, bytes_per_second: u64) -> Result<Self, BenchError> {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(direct).open(path);
        let file = file.map_err(BenchError::io("making a file past the page cache"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let length = usize::try_from(bytes_per_second / WRITES_PER_SECOND).unwrap_or(0).next_multiple_of(BLOCK);
            let memory = vec![0x5a; length + BLOCK];
            let octets = memory.get(memory.as_ptr().align_offset(BLOCK)..).and_then(|octets| octets.get(..length));
            let (octets, mut written, mut due) = (octets.unwrap_or_default(), 0, clock::now());
            while !over.load(Ordering::Relaxed) {
                let wrote = file.write_all_at(octets, written % WRITTEN_MAX);
                wrote.map_err(BenchError::io("writing beside the service"))?;
                written += octets.len() as u64;
                due += clock::SECOND / WRITES_PER_SECOND;
                clock::sleep_until(due)?;
            }
            Ok(written)
        });
        Ok(Self { is_over, thread })
    }

    /// Says how many octets it has written.
    fn end(self) -> Result<u64, BenchError> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = |_| BenchError::Process { name: "the other program".into(), reason: "its thread ended".into() };
        self.thread.join().map_err(ended)?
    }
}

/// The most that there was.
#[derive(Default)]
struct Peak {
    overflow_bytes: u64,
    resident_bytes: u64,
}

impl Peak {
    fn look(&mut self, serving: &Serving) -> Result<(), BenchError> {
        self.overflow_bytes = self.overflow_bytes.max(counter(serving, "overflow_bytes")?);
        self.resident_bytes = self.resident_bytes.max(serving.process.resident_bytes()?);
        Ok(())
    }
}

pub(crate) fn counter(serving: &Serving, name: &str) -> Result<u64, BenchError> {
    Ok(serving.service.counters()?.get(name).copied().unwrap_or(0))
}

fn aims(report: &Report) -> Vec<Aim> {
    let Report { published, received, disordered, held, resident_bytes_max, ratio, .. } = report;
    let aim = |aim: String, found: String, met| Aim { aim, found, met: Some(met) };
    vec![
        aim("the sleeper gets every event".into(), format!("{received} of {published}"), received == published),
        aim("each supplier's in order".into(), format!("{disordered} out of order"), *disordered == 0),
        aim("no supplier is held".into(), format!("{held}"), *held == 0),
        aim(
            format!("the service's memory: at most {} MiB", RESIDENT_MAX >> 20),
            format!("{} MiB", resident_bytes_max >> 20),
            *resident_bytes_max <= RESIDENT_MAX,
        ),
        aim(format!("the other consumer's p99: at most {P99_MAX} ×"), format!("{ratio:.2}"), *ratio <= P99_MAX),
    ]
}

fn write_text(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut table = Table::new(["", ""]);
    table.row(["events/s while one consumer slept".into(), report.per_second.into()]);
    table.row(["published meanwhile".into(), report.published.into()]);
    table.row(["on disk at most (MiB)".into(), (report.overflow_bytes_max >> 20).into()]);
    table.row(["the service's memory at most (MiB)".into(), (report.resident_bytes_max >> 20).into()]);
    table.row(["the other consumer's p99 before (µs)".into(), report.p99_before_us.into()]);
    table.row(["the same while one slept (µs)".into(), report.p99_during_us.into()]);
    table.row(["of the seconds' p99 the middle one before (µs)".into(), report.p99_middle_before_us.into()]);
    table.row(["the same while one slept (µs)".into(), report.p99_middle_during_us.into()]);
    table.row(["events/s that the sleeper got afterwards".into(), report.caught_up_per_second.into()]);
    table.write(out)?;
    writeln!(out)?;
    table_of_aims(&report.aims).write(out)?;
    report.machine.write_remarks(out)?;
    Ok(())
}
