//! `campanile-bench overflow`: a consumer that sleeps while events go on coming.
//!
//! Suppliers keep to a rate; one consumer keeps up, another one takes nothing for a while, and then everything. Shown is that no
//! supplier waits for it, that the other does not notice, that the service's memory stays what its budget is, and that the sleeper gets
//! every event, each supplier's in order.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use client::notify::Property;
use load::Form;
use load::callers::Callers;
use load::campanile::{NAME, listen};
use rustix::fs::OFlags;
use serde_json::json;

use crate::durable::load::{Consumer, Flood};
use crate::durable::median;
use crate::latency::{Recorder, ratio};
use crate::persistent::{Folder, Serving, Setting};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

pub(crate) const SUPPLIERS: u32 = 64;
/// In units of 100 ns.
const HOUR: u64 = 36_000_000_000;
/// The other consumer's p99 while one sleeps, of that while none does.
const P99_MAX: f64 = 1.3;
/// What the service's memory may be, beside the channel's budget of 256 MiB.
const RESIDENT_MAX: u64 = 512 << 20;

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

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let [seconds, rate] = [options.seconds.unwrap_or_default(), options.rate].map(whole);
    let folder = Folder::new("overflow", options.on.as_deref())?;
    // The channel has its budget whatever all backlogs may take: one has a share of that.
    let all = format!("[store]\noverflow_bytes_max = {}\n", (options.budget_gib << 31).max(1 << 20));
    let (serving, _) = Setting::new(&folder, &all)?.start()?;
    // Of a sleeper no answer is missed, or it would be sent the same events again, on another connection.
    let qos = [Property::new("OverflowBudget", options.budget_gib << 30), Property::new("ReplyTimeout", HOUR)];
    let channel = serving.service.new_channel_with(&qos)?;
    let consumer = Consumer::connect(&channel)?;
    let mut flood = Flood::connect(&channel, SUPPLIERS, options.payload as usize)?;
    out.progress("everybody keeps up")?;
    let (mut before, mut each_before) = (Recorder::default(), Vec::new());
    flood.run(clock::SECOND, Some(rate))?;
    consumer.take_latency(&mut Recorder::default());
    let bytes_per_second = rate * u64::from(options.payload);
    let writer = options.writer.then(|| Writer::begin(folder.file("beside"), bytes_per_second)).transpose()?;
    for second in 0..options.awake {
        out.progress(&format!("everybody keeps up: {second} of {} s", options.awake))?;
        each_before.push(of_a_second(&mut flood, &consumer, rate, &mut before)?.1);
    }
    let written_beside = writer.map_or(Ok(0), Writer::end)?;
    let mut sleeper = Sleeper::connect(&channel, &[])?;
    let (mut during, mut published, mut peak) = (Recorder::default(), 0, Peak::default());
    let mut each = Vec::new();
    for second in 0..seconds {
        out.progress(&format!("one consumer sleeps: {second} of {seconds} s"))?;
        let (count, latency) = of_a_second(&mut flood, &consumer, rate, &mut during)?;
        published += count;
        each.push(latency);
        peak.look(&serving)?;
    }
    out.progress("it is awake again")?;
    let (began, held) = (clock::now(), serving.service.counter("lane_suppliers_blocked")?);
    sleeper.take(published)?;
    let took = clock::seconds(clock::now() - began);
    let (p99_before_us, p99_during_us) = (before.quantile_us(0.99), during.quantile_us(0.99));
    let (ratio_of_p99, Sleeper { received, disordered, .. }) = (p99_during_us / p99_before_us, sleeper);
    let Peak { overflow_bytes, resident_bytes } = peak;
    let aims = aims((published, received, disordered), held, resident_bytes, ratio_of_p99);
    let p99s = |each: &[(f64, f64)]| each.iter().map(|(p99, _)| *p99).collect::<Vec<f64>>();
    let [p99s_before, p99s_during] = [p99s(&each_before), p99s(&each)];
    let report = json!({
        "seconds": seconds,
        "awake_seconds": options.awake,
        "written_beside": written_beside,
        "per_second": ratio(published, seconds.max(1)),
        "published": published,
        "received": received,
        "disordered": disordered,
        "held": held,
        "overflow_bytes_max": overflow_bytes,
        "resident_bytes_max": resident_bytes,
        "p99_before_us": p99_before_us,
        "p99_during_us": p99_during_us,
        "ratio": ratio_of_p99,
        "p99_middle_before_us": median(p99s_before.iter().copied()),
        "p99_middle_during_us": median(p99s_during.iter().copied()),
        "p99_each_second_before_us": p99s_before,
        "p99_each_second_us": p99s_during,
        "longest_each_second_us": each.iter().map(|(_, longest)| *longest).collect::<Vec<f64>>(),
        "caught_up_per_second": ratio(received, 1) / took,
    });
    Ok((aims, report))
}

/// What is to be shown of events, of suppliers' answers that were withheld, of the service's memory and of the other consumer.
fn aims((published, received, disordered): (u64, u64, u64), held: u64, resident_bytes: u64, p99: f64) -> Vec<Aim> {
    vec![
        Aim::new("the sleeper gets every event", format!("{received} of {published}"), received == published),
        Aim::new("each supplier's in order", format!("{disordered} out of order"), disordered == 0),
        Aim::new("no supplier is held", held, held == 0),
        Aim::new(
            format!("the service's memory: at most {} MiB", RESIDENT_MAX >> 20),
            format!("{} MiB", resident_bytes >> 20),
            resident_bytes <= RESIDENT_MAX,
        ),
        Aim::new(format!("the other consumer's p99: at most {P99_MAX} ×"), format!("{p99:.2}"), p99 <= P99_MAX),
    ]
}

/// A number of the command line that counts something.
fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is not a count is the nearest one"
    )]
    let whole = number as u64;
    whole
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
        self.overflow_bytes = self.overflow_bytes.max(serving.service.counter("overflow_bytes")?);
        self.resident_bytes = self.resident_bytes.max(serving.process.resident_bytes()?);
        Ok(())
    }
}
