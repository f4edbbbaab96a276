//! Threads that keep the cores awake and get in no other thread's way.
//!
//! On a virtual machine, a core that has nothing to do is given back to the host, and waking it takes tens of
//! microseconds: at low rates this, and not the contender, is what a latency shows. One spinning thread on each core,
//! of the class that any other thread displaces at once, takes the host's part out of the figures. They do take
//! electricity and, on shared cores, some of the neighbour thread's speed: this is why every figure is taken without
//! them too.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::places::Place;
use crate::{BenchError, system};

/// Where the kernel takes wishes for how fast a core must be awake again (`Documentation/power/pm_qos_interface.rst`).
const WISHES: &str = "/dev/cpu_dma_latency";

/// Cores that do not doze off, until dropped.
#[derive(Debug)]
pub(crate) enum Awake {
    /// The kernel was asked for it; it holds as long as the file is open. Idle cores then poll, and no thread is in the way.
    Asked(#[expect(dead_code, reason = "kept open")] File),
    /// Threads keep them awake.
    Spinning(#[expect(dead_code, reason = "kept running")] Spinners),
}

impl Awake {
    /// Asks the kernel, or else has a thread spin on each of these cores.
    pub(crate) fn keep(cores: &[Option<usize>]) -> Result<Self, BenchError> {
        let ask = || {
            let mut wishes = File::options().write(true).open(WISHES)?;
            wishes.write_all(&0_i32.to_ne_bytes())?;
            Ok::<File, std::io::Error>(wishes)
        };
        if let Ok(wishes) = ask() {
            return Ok(Self::Asked(wishes));
        }
        let mut cores: Vec<usize> = cores.iter().copied().flatten().collect();
        cores.dedup();
        Spinners::start(&cores).map(Self::Spinning)
    }

    /// How, for a report.
    pub(crate) const fn how(&self) -> &'static str {
        match self {
            Self::Asked(_) => "cpu_dma_latency",
            Self::Spinning(_) => "spinning threads",
        }
    }
}

/// Spinning threads, one for each core, until dropped.
#[derive(Debug)]
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Starts one thread on each of these cores; returns when all of them spin.
    pub(crate) fn start(cores: &[usize]) -> Result<Self, BenchError> {
        let (ready, started) = mpsc::channel();
        let mut spinners = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for &core in cores {
            let stop = Arc::clone(&spinners.stop);
            let ready = ready.clone();
            let thread = thread::Builder::new()
                .name(format!("spinner {core}"))
                .spawn(move || {
                    // Behind everything else there.
                    let idle =
                        system::run_only_when_idle().map_err(BenchError::io("giving a spinning thread the idle class"));
                    let settled = idle.and_then(|()| Place::only(core).take());
                    let failed = settled.is_err();
                    // The receiver is gone only when starting has been given up, and then `stop` says so too.
                    let _ = ready.send(settled);
                    while !failed && !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
                .map_err(BenchError::io("starting a spinning thread"))?;
            spinners.threads.push(thread);
        }
        for settled in started.iter().take(spinners.threads.len()) {
            settled?;
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        // Relaxed: nothing is handed over with it, and the threads are joined.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A spinner cannot panic; were it to, there would be nothing left to stop.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_on_a_core_and_stops() {
        let core = crate::places::Places::anywhere().unwrap().middle.cores()[0];
        let spinners = Spinners::start(&[core]).unwrap();
        assert_eq!(spinners.threads.len(), 1);
        drop(spinners);
    }
}
