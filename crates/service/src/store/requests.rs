//! Administration's requests to the store's thread, about [dead letters](super::dead_letters).
//!
//! A query is answered at once, from the disk. A change is answered once it is on the disk or the write has failed: then removals are still
//! written later, and replays are cancelled.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::{ProxyId, ProxyKey};

use super::Writer;
use super::dead_letters::DeadLetterId;
use super::record::Record;
use crate::counters::Counter;
use crate::lane::io::net::Waker;
use crate::time;

/// Maximum events in one list, and octets read for it: the first may be of any size.
const LISTED_MAX: usize = 256;
const READ_MAX: usize = 4 << 20;

/// A request of administration.
#[derive(Debug)]
pub(crate) enum StoreRequest {
    /// Lists the dead letters behind this one, by number and consumer.
    List((u64, ProxyId)),
    /// Removes dead letters.
    Remove(Vec<DeadLetterId>),
    /// Delivers dead letters once more.
    Replay(Vec<DeadLetterId>),
}

/// A dead letter of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The event's number in the store.
    pub number: u64,
    /// The consumer's proxy, which may no longer exist.
    pub consumer: ProxyKey,
    /// The domain of the event's type.
    pub domain: String,
    /// The name of the event's type.
    pub event_type: String,
    /// Octets of the event.
    pub bytes: u64,
    /// Arrival of the event at its channel, in 100 ns since 15 October 1582, UTC.
    pub arrived: u64,
    /// Time at which it became a dead letter, in 100 ns since 15 October 1582, UTC.
    pub since: u64,
    /// The reason: `undeliverable`.
    pub reason: &'static str,
}

/// A reply to administration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreReply {
    Listed(Vec<DeadLetter>),
    /// Numbers of existing and missing ones among the first of the named dead letters. The caller names the others again.
    Done {
        done: u32,
        missing: u32,
    },
    /// The disk fails. The change is made in memory, and not written yet.
    NotWritten,
    /// The disk fails, or is full. The request had no effect.
    Failed,
}

/// Administration's end of the request channel.
pub(crate) struct StoreDesk {
    requests: Sender<(u64, StoreRequest)>,
    replies: Receiver<(u64, StoreReply)>,
    waker: Arc<Waker>,
}

/// The store's end of the request channel.
pub(super) struct Counterpart {
    requests: Receiver<(u64, StoreRequest)>,
    replies: Sender<(u64, StoreReply)>,
    /// Replies that wait for a write, and those to send instead if it fails.
    waiting: Vec<(u64, StoreReply, StoreReply)>,
}

/// Creates both ends. The waker is the store's.
pub(super) fn desk(waker: &Arc<Waker>) -> (StoreDesk, Counterpart) {
    let ((requests, requested), (replies, replied)) = (channel(), channel());
    let desk = StoreDesk { requests, replies: replied, waker: Arc::clone(waker) };
    (desk, Counterpart { requests: requested, replies, waiting: Vec::new() })
}

impl StoreDesk {
    /// Sends a request. The reply has the same number.
    pub(crate) fn ask(&self, number: u64, request: StoreRequest) {
        // The thread ends after administration.
        let _ = self.requests.send((number, request));
        self.waker.notify();
    }

    /// The next reply. Administration's waker was called for it.
    pub(crate) fn poll(&self) -> Option<(u64, StoreReply)> {
        self.replies.try_recv().ok()
    }
}

impl Counterpart {
    /// Whether a reply waits for the next write.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Writer {
    /// Serves administration's next request, if there is one.
    pub(super) fn serve_request(&mut self) {
        let Ok((number, request)) = self.desk.requests.try_recv() else { return };
        // Reading may take long, so pending writes come before the next request.
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

    /// Delivers dead letters once more: the first of them, as many as may be read at a time. They may exceed the budget of stored events:
    /// dead letters have limits of their own, and each is removed as it is stored anew.
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

    /// Sends the replies that wait for a write that succeeded or failed.
    pub(super) fn reply_written(&mut self, is_written: bool) {
        self.count_dead_letters();
        for (number, reply, instead) in core::mem::take(&mut self.desk.waiting) {
            self.reply(number, if is_written { reply } else { instead });
        }
    }

    /// Answers replays that were cancelled, since they cannot be written.
    pub(super) fn decline_replays(&mut self) {
        let waiting = core::mem::take(&mut self.desk.waiting);
        let (declined, waiting) = waiting.into_iter().partition(|(.., instead)| *instead == StoreReply::Failed);
        self.desk.waiting = waiting;
        let declined: Vec<_> = declined;
        declined.into_iter().for_each(|(number, _, instead)| self.reply(number, instead));
    }
}
