//! `campanile-bench timers`: how even the intervals of a channel's timer are at 1 kHz.
//!
//! A consumer of the timer's events notes when each comes. Beside it, in turns within the same run: a thread that waits for a `timerfd` of
//! the same interval, and one whose every expiration crosses a socket, as an event does. The jitter is by how much an interval between two
//! arrivals differs from a millisecond.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use client::{ConsumerOptions, SimpleConsumer};
use load::campanile::setup;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use serde_json::json;

use crate::latency::Recorder;
use crate::persistent::{Folder, Setting};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

/// The interval, in nanoseconds.
const INTERVAL: u64 = 1_000_000;
/// Time of one turn of each contender.
const TURN: u64 = 2 * clock::SECOND;
/// Most that the timer's jitter may be of that of a `timerfd`, at the 99th percentile.
const RATIO_MAX: f64 = 1.3;
const CONFIG: &str = "[[channels]]\nname = \"Clock\"\n[[channels.timers]]\nname = \"tick\"\nevery = \"1ms\"\n";

/// The arrivals of one contender: by how much the intervals between them differ from what they should be.
#[derive(Default)]
struct Jitter {
    last: Option<u64>,
    recorded: Recorder,
}

impl Jitter {
    fn arrive(&mut self, now: u64) {
        if let Some(last) = self.last.replace(now) {
            self.recorded.record((now - last).abs_diff(INTERVAL));
        }
    }
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let folder = Folder::new("timers", None)?;
    let (serving, _) = Setting::new(&folder, CONFIG)?.start()?;
    let arrivals = Arc::new(Mutex::new(Jitter::default()));
    let of_consumer = Arc::clone(&arrivals);
    let address = serving.service.address().to_string();
    let connected = SimpleConsumer::connect(&address, Some(1), ConsumerOptions::default(), move |_| {
        of_consumer.lock().unwrap_or_else(PoisonError::into_inner).arrive(clock::now());
        Ok(())
    });
    let _consumer = connected.map_err(setup("connecting a consumer of timers"))?;
    let [mut service, mut alone, mut crossing] = [(); 3].map(|()| Recorder::default());
    let (mut service_missed, mut alone_missed) = (0, 0);
    let missed_so_far = || serving.service.counter("lane_timer_intervals_missed");
    for round in 1..=options.rounds {
        out.progress(&format!("round {round} of {}", options.rounds))?;
        let before = missed_so_far()?;
        *arrivals.lock().unwrap_or_else(PoisonError::into_inner) = Jitter::default();
        clock::sleep_until(clock::now() + TURN)?;
        service_missed += missed_so_far()? - before;
        service.merge(&arrivals.lock().unwrap_or_else(PoisonError::into_inner).recorded);
        let mut jitter = Jitter::default();
        alone_missed += expire_for(TURN, |now| {
            jitter.arrive(now);
            Ok(())
        })?;
        alone.merge(&jitter.recorded);
        crossing.merge(&across_a_socket()?);
    }
    let p99 = |of: &Recorder| of.quantile_us(0.99);
    let ratio = p99(&service) / p99(&alone);
    let aims = [Aim::new(
        format!("jitter of a timer at 1 kHz, 99th percentile: at most {RATIO_MAX} × a timerfd alone"),
        format!("{ratio:.2} ×"),
        ratio <= RATIO_MAX,
    )];
    let found = json!({
        "jitter_us": { "service": service.percentiles(), "timerfd": alone.percentiles(), "timerfd_and_socket": crossing.percentiles() },
        "ratios": { "timerfd": ratio, "timerfd_and_socket": p99(&service) / p99(&crossing) },
        "missed": { "service": service_missed, "timerfd": alone_missed },
    });
    Ok((aims.into(), found))
}

/// Waits for the expirations of a `timerfd` for so long, and calls something at each wake-up. Returns how many came together with others.
fn expire_for(nanoseconds: u64, mut each: impl FnMut(u64) -> Result<(), BenchError>) -> Result<u64, BenchError> {
    let failed = |errno| BenchError::errno("waiting for a timerfd")(errno);
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).map_err(failed)?;
    let interval = clock::to_timespec(INTERVAL);
    let every = Itimerspec { it_interval: interval, it_value: interval };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every).map_err(failed)?;
    let (end, mut missed) = (clock::now() + nanoseconds, 0);
    loop {
        let mut expired = [0; 8];
        rustix::io::read(&timer, &mut expired).map_err(failed)?;
        missed += u64::from_ne_bytes(expired).saturating_sub(1);
        let now = clock::now();
        if now >= end {
            return Ok(missed);
        }
        each(now)?;
    }
}

/// The jitter where each expiration crosses a socket to another thread.
fn across_a_socket() -> Result<Recorder, BenchError> {
    let failed = BenchError::io("crossing a socket");
    let connect = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        sender.set_nodelay(true)?;
        Ok((sender, listener.accept()?.0))
    };
    let (mut sender, mut receiver) = connect().map_err(failed)?;
    let receiving = std::thread::spawn(move || {
        let mut jitter = Jitter::default();
        while matches!(receiver.read(&mut [0]), Ok(1)) {
            jitter.arrive(clock::now());
        }
        jitter.recorded
    });
    expire_for(TURN, |_| sender.write_all(&[1]).map_err(BenchError::io("crossing a socket")))?;
    drop(sender);
    let ended = |_| BenchError::Process { name: "the receiver".into(), reason: "its thread ended".into() };
    receiving.join().map_err(ended)
}
