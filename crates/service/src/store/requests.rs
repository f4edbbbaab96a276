//! What administration asks the store's thread, and has done there: about [dead letters](super::dead_letters).
//!
//! What is only asked is answered at once, from the disk. What changes something is answered when that is on the disk, or has failed to
//! get there: what was to go goes nevertheless, when the disk takes it; what was to be delivered once more stays as it was.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::{ProxyId, ProxyKey};

use super::Writer;
use super::dead_letters::DeadLetterId;
use super::record::Record;
use crate::counters::Counter;
use crate::lane::io::net::Waker;
use crate::time;

/// Events that are listed at a time, and octets that are read for that: the first may be of any size.
const LISTED_MAX: usize = 256;
const READ_MAX: usize = 4 << 20;

/// What is asked, or to be done.
#[derive(Debug)]
pub(crate) enum StoreRequest {
    /// Dead letters, behind one, by number and consumer.
    List((u64, ProxyId)),
    /// These are to go.
    Remove(Vec<DeadLetterId>),
    /// These are to be delivered once more.
    Replay(Vec<DeadLetterId>),
}

/// Dead letter of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The number by which the store knows the event.
    pub number: u64,
    /// The consumer's proxy, which may be gone.
    pub consumer: ProxyKey,
    /// The event type's domain, and
    pub domain: String,
    /// its name.
    pub event_type: String,
    /// Octets of the event.
    pub bytes: u64,
    /// When the event came to its channel, in 100 ns since 15 October 1582, UTC.
    pub arrived: u64,
    /// Since when it is a dead letter: likewise.
    pub since: u64,
    /// Why: `undeliverable`.
    pub reason: &'static str,
}

/// What was found or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreReply {
    Listed(Vec<DeadLetter>),
    /// Of the first of those that were named so many were there, and so many were not. The others are to be named again.
    Done {
        done: u32,
        missing: u32,
    },
    /// The disk fails. What was to be done is done, and not written yet.
    NotWritten,
    /// The disk fails, or is full. Nothing was found or done.
    Failed,
}

/// Administration's end.
pub(crate) struct StoreDesk {
    requests: Sender<(u64, StoreRequest)>,
    replies: Receiver<(u64, StoreReply)>,
    waker: Arc<Waker>,
}

/// The store's end.
pub(super) struct Counterpart {
    requests: Receiver<(u64, StoreRequest)>,
    replies: Sender<(u64, StoreReply)>,
    /// Replies that wait until what they speak of is written, and what is said instead if it cannot be.
    waiting: Vec<(u64, StoreReply, StoreReply)>,
}

/// Both ends. The waker is the store's.
pub(super) fn desk(waker: &Arc<Waker>) -> (StoreDesk, Counterpart) {
    let ((requests, requested), (replies, replied)) = (channel(), channel());
    let desk = StoreDesk { requests, replies: replied, waker: Arc::clone(waker) };
    (desk, Counterpart { requests: requested, replies, waiting: Vec::new() })
}

impl StoreDesk {
    /// Asks. The reply has the same number.
    pub(crate) fn ask(&self, number: u64, request: StoreRequest) {
        // The thread ends after administration.
        let _ = self.requests.send((number, request));
        self.waker.notify();
    }

    /// The next reply, for which administration's waker was called.
    pub(crate) fn poll(&self) -> Option<(u64, StoreReply)> {
        self.replies.try_recv().ok()
    }
}

impl Counterpart {
    /// Whether a reply waits for what is written next.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Writer {
    /// Serves the next request of administration, if there is one.
    pub(super) fn serve_request(&mut self) {
        let Ok((number, request)) = self.desk.requests.try_recv() else { return };
        // It may take long to read: what is to be written has its turn before the next.
        self.waker.notify();
        match request {
            StoreRequest::List(behind) => {
                let reply = self.list_dead_letters(behind);
                self.reply(number, reply);
            }
            StoreRequest::Remove(dead_letters) => {
                let journal = &mut self.journal;
                let remove = |dead_letter: &&DeadLetterId| {
                    journal.is_aside(**dead_letter) && journal.remove_dead_letter(**dead_letter)
                };
                let there = dead_letters.iter().filter(remove).count();
                self.reply_when_written(number, (there, dead_letters.len() - there), StoreReply::NotWritten);
            }
            StoreRequest::Replay(dead_letters) => self.replay(number, dead_letters),
        }
    }

    /// Has events delivered once more: so many of the first as may be read at a time. They may be more than may be kept: those that are
    /// dead letters have bounds of their own, and each goes as it is kept anew.
    fn replay(&mut self, request: u64, dead_letters: Vec<DeadLetterId>) {
        let (mut octets, mut done, mut missing) = (0, 0, 0);
        for dead_letter in dead_letters {
            if octets >= READ_MAX {
                break;
            }
            if !self.journal.is_aside(dead_letter) {
                missing += 1;
                continue;
            }
            let mut anew = Vec::new();
            let read = self.disk.event(dead_letter.0, |octets| {
                if let Some(record) = Record::read(octets) {
                    record.anew(time::utc()).write(&mut anew);
                }
            });
            if read.is_err() {
                self.counters.add(Counter::StoreFailures, 1);
                if done + missing == 0 {
                    return self.reply(request, StoreReply::Failed);
                }
                break;
            }
            if anew.is_empty() {
                missing += 1;
                continue;
            }
            octets += anew.len();
            done += 1;
            self.journal.replay(dead_letter, anew);
        }
        self.reply_when_written(request, (done, missing), StoreReply::Failed);
    }

    fn list_dead_letters(&mut self, behind: (u64, ProxyId)) -> StoreReply {
        let Self { disk, journal, counters, .. } = self;
        let (mut listed, mut read) = (Vec::new(), 0);
        for ((number, consumer), since) in journal.dead_letters().behind(behind).take(LISTED_MAX) {
            if read >= READ_MAX {
                break;
            }
            let outcome = disk.event(number, |octets| {
                read += octets.len();
                let record = Record::read(octets)?;
                let text = |octets| String::from_utf8_lossy(octets).into_owned();
                Some(DeadLetter {
                    number,
                    consumer,
                    domain: text(record.domain),
                    event_type: text(record.name),
                    bytes: record.length() as u64,
                    arrived: record.arrived(),
                    since,
                    reason: "undeliverable",
                })
            });
            let Ok(dead_letter) = outcome else {
                counters.add(Counter::StoreFailures, 1);
                return StoreReply::Failed;
            };
            listed.extend(dead_letter.flatten());
        }
        StoreReply::Listed(listed)
    }

    fn reply(&self, number: u64, reply: StoreReply) {
        // Administration may have ended.
        let _ = self.desk.replies.send((number, reply));
        self.waiting.notify();
    }

    fn reply_when_written(&mut self, number: u64, (done, missing): (usize, usize), instead: StoreReply) {
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let reply = StoreReply::Done { done: count(done), missing: count(missing) };
        if done == 0 {
            return self.reply(number, reply);
        }
        self.desk.waiting.push((number, reply, instead));
    }

    /// What was to be written is, or cannot be: the replies go that waited for that.
    pub(super) fn reply_written(&mut self, is_written: bool) {
        self.count_dead_letters();
        for (number, reply, instead) in core::mem::take(&mut self.desk.waiting) {
            self.reply(number, if is_written { reply } else { instead });
        }
    }

    /// What was to be delivered once more is not, since it cannot be written.
    pub(super) fn decline_replays(&mut self) {
        let waiting = core::mem::take(&mut self.desk.waiting);
        let (declined, waiting) = waiting.into_iter().partition(|(.., instead)| *instead == StoreReply::Failed);
        self.desk.waiting = waiting;
        let declined: Vec<_> = declined;
        declined.into_iter().for_each(|(number, _, instead)| self.reply(number, instead));
    }
}
