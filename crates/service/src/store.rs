//! What outlives the process: the image of the topology, on disk.
//!
//! A thread of its own writes it, so that neither lanes nor administration wait for a disk. What has been handed to it is written
//! in that order, each batch whole or not at all, and is on the medium when it says so. While the disk fails, the thread tries again
//! each second, and nothing is lost meanwhile but time: whoever waits for something to be kept goes on waiting.

mod disk;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::counters::{Block, Counter};
use crate::lane::io::net::Bell;
use crate::time;

pub(crate) use self::disk::{Disk, StoreError};

/// What is to be kept under which keys from now on; nothing where what was there is to go.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// How long after a failure it is tried again.
const AGAIN_IN: Duration = Duration::from_secs(1);
/// How long the end of the service waits for the disk.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A batch, and its number.
type Batch = (u64, Changes);

/// The thread that writes.
pub(crate) struct Store {
    batches: Sender<Batch>,
    /// The number of the last batch that is on the medium.
    written: Arc<AtomicU64>,
    handed: u64,
    thread: JoinHandle<()>,
    bell: Arc<Bell>,
}

impl Store {
    /// Starts the thread, which rings when something is written.
    pub(crate) fn start(disk: Disk, bell: &Arc<Bell>, counters: Arc<Block>) -> io::Result<Self> {
        let (batches, handed) = channel();
        let written = Arc::new(AtomicU64::new(0));
        let writer = Writer { disk, handed, written: Arc::clone(&written), bell: Arc::clone(bell), counters };
        let thread = Builder::new().name("store".into()).spawn(move || writer.run())?;
        Ok(Self { batches, written, handed: 0, thread, bell: Arc::clone(bell) })
    }

    /// The number of the last batch that is on the medium.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether it has nothing to write.
    pub(crate) fn is_free(&self) -> bool {
        self.written() >= self.handed
    }

    /// Has a batch written. Its number is greater than those before.
    pub(crate) fn write(&mut self, number: u64, changes: Changes) {
        self.handed = number;
        // The thread ends when this is dropped, and not before.
        let _ = self.batches.send((number, changes));
    }

    /// Has a last batch written, and ends. Says what is on the medium then; it is not waited for for ever.
    pub(crate) fn end(mut self, (number, last): Batch) -> u64 {
        if !last.is_empty() {
            self.write(number, last);
        }
        let Self { batches, written, thread, bell, .. } = self;
        drop(batches);
        let began = time::now();
        while !thread.is_finished() && time::since(began) < ENDS_WITHIN {
            bell.wait(Some(Duration::from_millis(20)));
        }
        written.load(Ordering::Acquire)
    }
}

/// What the thread has.
struct Writer {
    disk: Disk,
    handed: Receiver<Batch>,
    written: Arc<AtomicU64>,
    bell: Arc<Bell>,
    counters: Arc<Block>,
}

impl Writer {
    fn run(mut self) {
        let (mut number, mut changes) = (0, Changes::new());
        let (mut failures, mut ending) = (0_u64, None);
        loop {
            let next = match ending {
                Some(_) => Err(RecvTimeoutError::Disconnected),
                None if changes.is_empty() => self.handed.recv().map_err(|_| RecvTimeoutError::Disconnected),
                None => self.handed.recv_timeout(AGAIN_IN),
            };
            match next {
                // Nothing comes while something is not written, but the last of all.
                Ok((last, more)) => {
                    number = last;
                    changes.extend(more);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let began = *ending.get_or_insert_with(time::now);
                    if changes.is_empty() || time::since(began) >= ENDS_WITHIN {
                        return;
                    }
                    std::thread::park_timeout(AGAIN_IN);
                }
            }
            if self.write(&changes, &mut failures) {
                changes.clear();
                self.written.store(number, Ordering::Release);
                self.bell.ring();
            }
        }
    }

    /// Tries to write. Says whether it is done.
    fn write(&mut self, changes: &Changes, failures: &mut u64) -> bool {
        match self.disk.write(changes) {
            Ok(octets) => {
                self.counters.add(Counter::StoreWrites, 1);
                self.counters.add(Counter::StoreBytes, octets);
                if core::mem::take(failures) > 0 {
                    log::warn!("store: it can be written to again, and nothing was lost");
                }
                true
            }
            Err(error) => {
                self.counters.add(Counter::StoreFailures, 1);
                if *failures == 0 {
                    log::error!(
                        "store: {error}; what clients change is answered when it is written, which is tried each second"
                    );
                }
                *failures += 1;
                false
            }
        }
    }
}

/// Opens a store, and reads what is in it.
pub(crate) fn open(directory: &Path) -> Result<(Disk, corba::Image), StoreError> {
    let mut disk = Disk::open(directory)?;
    let image = disk.image()?;
    Ok((disk, image))
}

#[cfg(test)]
pub(crate) mod tests;
