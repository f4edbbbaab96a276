//! The consumers of a process: each a thread that takes what comes, does the work that it asks for, and answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use load::callers::Callers;

use super::{Payload, Recording, Sample};
use crate::experiments::primes;
use crate::{BenchError, campanile, clock};

/// The pushing peer, in error messages.
const PEER: &str = "the one that pushes to a consumer";

/// Room for the events of one run, taken in advance so that recording one takes no memory.
const SAMPLES_FIRST: usize = 1 << 12;

/// How long a path may take to come to its end, once the suppliers are done.
const END_WITHIN: Duration = Duration::from_secs(60);

pub(super) struct Consumers {
    recording: Arc<Mutex<Recording>>,
    /// What each path's consumer got in the run that is recorded; or why it has ended.
    ended: Vec<mpsc::Receiver<Result<Vec<Sample>, BenchError>>>,
}

impl Consumers {
    /// Starts so many consumers, and says where they listen.
    pub(super) fn listen(count: usize) -> Result<(Self, Vec<SocketAddr>), BenchError> {
        let recording = Arc::new(Mutex::new(Recording { number: 0, divisions: 0, work_until: 0, every: 1 }));
        let mut consumers = Self { recording, ended: Vec::new() };
        let mut addresses = Vec::new();
        for _ in 0..count {
            let callers = Callers::new(PEER, campanile::listen()?)?;
            addresses.push(callers.address()?);
            let (tell, ended) = mpsc::channel();
            let (recording, samples) = (Arc::clone(&consumers.recording), Vec::with_capacity(SAMPLES_FIRST));
            let mut consumer = Consumer { callers, recording, samples, ended: tell.clone() };
            let consume = move || {
                if let Err(error) = consumer.run() {
                    // The receiver is gone only when the process is about to end.
                    let _ = tell.send(Err(error));
                }
            };
            thread::Builder::new().spawn(consume).map_err(BenchError::io("starting a consumer"))?;
            consumers.ended.push(ended);
        }
        Ok((consumers, addresses))
    }

    /// From now on, events of this run are recorded.
    pub(super) fn record(&self, recording: Recording) {
        *self.recording.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }

    /// What came on each path, once all have come to their end.
    pub(super) fn collect(&self) -> Result<Vec<Vec<Sample>>, BenchError> {
        let late = |_| broken("did not deliver the last event of a run within 60 s".to_owned());
        self.ended.iter().map(|ended| ended.recv_timeout(END_WITHIN).map_err(late)?).collect()
    }
}

struct Consumer {
    callers: Callers,
    recording: Arc<Mutex<Recording>>,
    samples: Vec<Sample>,
    ended: mpsc::Sender<Result<Vec<Sample>, BenchError>>,
}

impl Consumer {
    /// Takes events until the process ends.
    fn run(&mut self) -> Result<(), BenchError> {
        let Self { callers, recording, samples, ended } = self;
        let look = || *recording.lock().unwrap_or_else(PoisonError::into_inner);
        // What is recorded, as it was when something was read last: many events come with one read.
        let mut latest = (0, look());
        loop {
            callers.wait(None, true, |payload, received| {
                if latest.0 != received {
                    latest = (received, look());
                }
                if let Some(payload) = Payload::read(payload) {
                    take(latest.1, payload, received, samples, ended);
                }
                Ok(())
            })?;
        }
    }
}

/// Does an event's work and records it.
fn take(
    Recording { number, divisions, work_until, every }: Recording,
    Payload { due, sent, run, load, end, number: event }: Payload,
    received: u64,
    samples: &mut Vec<Sample>,
    ended: &mpsc::Sender<Result<Vec<Sample>, BenchError>>,
) {
    if run != number {
        return;
    }
    if end {
        let samples = std::mem::replace(samples, Vec::with_capacity(SAMPLES_FIRST));
        // The receiver is gone only when the process is about to end.
        let _ = ended.send(Ok(samples));
        return;
    }
    if received < work_until {
        primes::compute(load, divisions);
    }
    if event.is_multiple_of(every.max(1)) {
        samples.push(Sample { due, sent, received, processed: clock::now() });
    }
}

fn broken(reason: String) -> BenchError {
    BenchError::Protocol { contender: PEER.to_owned(), reason }
}
