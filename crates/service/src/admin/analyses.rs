//! Scheduling analyses, which take up to a second each: one at a time, on a thread of their own that is started with the first of them. The
//! others wait in fair order, each client's within its quota.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use super::fair_queue::{Client, FairQueue};
use crate::lane::io::net::Waker;
use crate::lane::scheduling;
use crate::protocols::{Answered, Request};
use accounts::{Charge, Resource, Spent};

/// A requested analysis.
struct Job {
    request: Request,
    /// Charge on the client until it is answered.
    charge: Charge,
}

/// A finished analysis.
struct Done {
    job: Job,
    answered: Answered,
}

/// All analyses that are not answered yet.
pub(crate) struct Analyses {
    waiting: FairQueue<Job>,
    thread: Option<Sender<Job>>,
    is_busy: bool,
    done: Receiver<Done>,
    to_done: Sender<Done>,
    waker: Arc<Waker>,
}

impl Analyses {
    /// No analyses yet. `waker` is notified when one is finished.
    pub(crate) fn new(waker: &Arc<Waker>) -> Self {
        let (to_done, done) = channel();
        Self { waiting: FairQueue::default(), thread: None, is_busy: false, done, to_done, waker: Arc::clone(waker) }
    }

    /// Queues an analysis.
    ///
    /// # Errors
    /// The client has as many as its quota allows. The request is returned.
    pub(super) fn add(&mut self, request: Request) -> Result<(), (Request, Spent)> {
        match request.account().charge(Resource::Analyses, 1) {
            Ok(charge) => {
                let of = Client::of_request(&request);
                self.waiting.push(of, Job { request, charge });
                Ok(())
            }
            Err(spent) => Err((request, spent)),
        }
    }

    /// Returns a finished analysis with its answer, and starts the next.
    pub(super) fn poll(&mut self) -> Option<(Request, Answered)> {
        let done = self.done.try_recv().ok();
        self.is_busy &= done.is_none();
        self.begin();
        done.map(|Done { job: Job { request, charge }, answered }| {
            drop(charge);
            (request, answered)
        })
    }

    /// Removes an analysis that has not begun and is not needed any more.
    pub(super) fn take_waiting(&mut self) -> Option<Request> {
        self.waiting.pop().map(|(_, job)| job.request)
    }

    fn begin(&mut self) {
        while !self.is_busy
            && let Some((_, job)) = self.waiting.pop()
        {
            self.is_busy = true;
            if let Err(job) = self.hand_over(job) {
                // The system has no thread for it, or the thread is gone: then it takes administration's time.
                self.thread = None;
                let _ = self.to_done.send(done(job));
            }
        }
    }

    fn hand_over(&mut self, job: Job) -> Result<(), Job> {
        if self.thread.is_none() {
            self.thread = self.start().inspect_err(|error| log::error!("analyses have no thread: {error}")).ok();
        }
        let Some(thread) = &self.thread else { return Err(job) };
        thread.send(job).map_err(|unsent| unsent.0)
    }

    /// Starts the thread. It ends when `Analyses` is dropped, after the analysis under way.
    fn start(&self) -> io::Result<Sender<Job>> {
        let (orders, ordered) = channel::<Job>();
        let (to_done, waker) = (self.to_done.clone(), Arc::clone(&self.waker));
        Builder::new().name("analysis".into()).spawn(move || {
            scheduling::give_way(scheduling::BEHIND_ALL);
            while let Ok(job) = ordered.recv() {
                if to_done.send(done(job)).is_err() {
                    return;
                }
                waker.notify();
            }
        })?;
        Ok(orders)
    }
}

fn done(job: Job) -> Done {
    let answered = job.request.analyse();
    Done { job, answered }
}
