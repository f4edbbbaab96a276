//! Cyclone DDS without the simple API: samples as CDR, written and taken through `crates/dds`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ::dds::{Options, Participant, Qos, Topic, WaitSet, Waker, WriteError, Writer};
use giop::typecode::{Kind, TypeCode};

use super::{Arrivals, OCTETS, setup};
use crate::{BenchError, clock};

const DOMAIN: u32 = 74;
/// How long readers may take to be found.
const FOUND_WITHIN: u64 = 30 * clock::SECOND;

fn block() -> TypeCode {
    let members = [
        ("sent_ns", TypeCode::primitive(Kind::ULongLong)),
        ("octets", TypeCode::sequence(TypeCode::primitive(Kind::Octet))),
    ];
    TypeCode::structure("IDL:bench/Bare:1.0", "Bare", &members)
}

fn qos() -> Qos {
    Qos { blocking_max: Duration::from_secs(10), ..Qos::default() }
}

fn part() -> Result<Participant, BenchError> {
    Participant::new(DOMAIN, &Options::loopback()).map_err(setup("taking part in a DDS domain"))
}

/// The writer.
pub(super) struct Source {
    #[expect(dead_code, reason = "kept there")]
    participant: Participant,
    writer: Writer,
    value: Vec<u8>,
}

impl Source {
    /// Waits until it has found so many readers.
    pub(super) fn connect(topic: &str, readers: u32) -> Result<Self, BenchError> {
        let participant = part()?;
        let topic = participant.topic(topic, &block()).map_err(setup("making a topic"))?;
        let writer = topic.writer(&qos()).map_err(setup("making a writer"))?;
        let until = clock::now() + FOUND_WITHIN;
        while writer.status().map_err(setup("looking for readers"))?.readers < readers {
            if clock::now() > until {
                return Err(setup("looking for readers")("they were not found in 30 s"));
            }
            clock::sleep_until(clock::now() + clock::SECOND / 100)?;
        }
        let mut value = Vec::new();
        let mut w = giop::cdr::Writer::new(&mut value, ::dds::encoding());
        w.u64(0);
        w.u32(u32::try_from(OCTETS).unwrap_or(u32::MAX));
        (0..OCTETS).for_each(|_| w.u8(1));
        Ok(Self { participant, writer, value })
    }

    pub(super) fn publish(&mut self, sent_ns: u64) -> Result<(), BenchError> {
        if let Some(first) = self.value.first_chunk_mut() {
            *first = sent_ns.to_ne_bytes();
        }
        loop {
            match self.writer.write(&self.value) {
                Err(WriteError::Slowed) => {}
                done => return done.map_err(setup("writing")),
            }
        }
    }
}

/// A reader, and the thread that takes its samples.
pub(super) struct Sink {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// One for each of these, as parts of one participant, as the simple API's consumers are. Each has a thread of its own, as each of
    /// those has: a program that takes its time with one must not keep the others waiting.
    pub(super) fn connect(topic: &str, all: &[Arc<Arrivals>]) -> Result<Vec<Self>, BenchError> {
        let participant = part()?;
        let topic = participant.topic(topic, &block()).map_err(setup("making a topic"))?;
        all.iter().map(|arrivals| Self::one(&participant, &topic, Arc::clone(arrivals))).collect()
    }

    fn one(participant: &Participant, topic: &Topic, arrivals: Arc<Arrivals>) -> Result<Self, BenchError> {
        let mut set: WaitSet = participant.wait_set().map_err(setup("making a wait set"))?;
        let reader = topic.reader(&qos()).map_err(setup("making a reader"))?;
        set.attach(&reader, 0).map_err(setup("attaching a reader"))?;
        let waker = set.waker();
        let thread = std::thread::spawn(move || {
            let mut tokens = Vec::new();
            while let Ok(woken) = set.wait(None, &mut tokens) {
                if woken.by_waker {
                    break;
                }
                // The count shows what cannot be taken.
                let _ = reader.take(64, |sample| {
                    arrivals.take(sample.cdr.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first)));
                });
            }
            reader.keep_nothing();
        });
        Ok(Self { waker, thread: Some(thread) })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
