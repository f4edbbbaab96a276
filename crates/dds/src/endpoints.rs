//! Writers and readers.

use std::fmt;
use std::time::Duration;

use crate::error::{Code, Error, WriteError};
use crate::participant::{Guid, Topic};
use crate::qos::{Qos, nanoseconds};
use crate::raw::{Entity, RawTaken, ReaderEntity};

/// Writes values of a topic.
#[derive(Debug)]
pub struct Writer {
    entity: Entity,
    guid: Guid,
    topic: Topic,
}

/// Status of a writer. Totals count from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStatus {
    /// Matched readers.
    pub readers: u32,
    /// Readers that requested more than the writer offers.
    pub incompatible_total: u32,
}

impl Writer {
    pub(crate) fn new(topic: Topic, qos: &Qos) -> Result<Self, Error> {
        let participant = topic.participant().raw();
        let entity = participant
            .writer(&topic.entity, qos.raw_of_writer(), &qos.c_partitions()?, &qos.user_data)
            .map_err(Error::cyclone("make a writer"))?;
        let guid = Guid(entity.guid().map_err(Error::cyclone("make a writer"))?);
        Ok(Self { entity, guid, topic })
    }

    /// The writer's topic.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The writer's identifier.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// Writes a value, which begins at position 0 for alignment, in this machine's byte order. Waits for room if the quality of service
    /// says so.
    ///
    /// # Errors
    /// See [`WriteError`]: only [`WriteError::Slowed`] may be tried again.
    pub fn write(&self, cdr: &[u8]) -> Result<(), WriteError> {
        self.entity.write(cdr, -1).map_err(write_error)
    }

    /// Writes a value as [`Writer::write`] does, with the time of its making, in nanoseconds since 1970.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write_made_at(&self, cdr: &[u8], nanoseconds: i64) -> Result<(), WriteError> {
        self.entity.write(cdr, nanoseconds.max(0)).map_err(write_error)
    }

    /// Waits until the current readers have confirmed everything written. Returns whether they have.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<bool, Error> {
        match self.entity.wait_for_acknowledgments(nanoseconds(timeout)) {
            Ok(()) => Ok(true),
            Err(Code::TIMEOUT) => Ok(false),
            Err(code) => Err(Error::Cyclone { what: "wait for acknowledgments", code }),
        }
    }

    /// The remote readers that the writer waits for, with their confirmed samples. When the writer is [slowed](WriteError::Slowed), those
    /// that are behind are the reason, or about to confirm.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn reliable_readers(&self) -> Result<Vec<ReliableReader>, Error> {
        let mut readers = Vec::new();
        self.entity.reliable_readers(|reader| readers.push(reader)).map_err(Error::cyclone("list slow readers"))?;
        Ok(readers)
    }

    /// Ignores a reader from now on: the writer sends it nothing and does not wait for it. The reader is not notified, and loses what it
    /// misses until it is [matched again](Writer::match_again). Returns whether it was matched.
    ///
    /// If one reader of a participant has no room, none of that participant confirms anything: all of them are behind.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn unmatch(&self, reader: Guid) -> Result<bool, Error> {
        is_there(self.entity.unmatch(&reader.0), "unmatch a reader")
    }

    /// Matches an [unmatched](Writer::unmatch) reader again: it gets what is written from now on, and the writer waits for it as for
    /// others. Until it confirms something new, its count is that of all samples written before. Returns whether the reader still exists.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn match_again(&self, reader: Guid) -> Result<bool, Error> {
        is_there(self.entity.match_again(&reader.0), "match a reader again")
    }

    /// The writer's status.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn status(&self) -> Result<WriterStatus, Error> {
        let raw = self.entity.writer_status().map_err(Error::cyclone("say how a writer stands"))?;
        Ok(WriterStatus { readers: raw.matched_now, incompatible_total: raw.incompatible_total })
    }
}

fn is_there(result: Result<(), Code>, what: &'static str) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(Code::NO_DATA) => Ok(false),
        Err(code) => Err(Error::Cyclone { what, code }),
    }
}

/// A remote reader that a writer waits for. Texts that its participant does not announce are empty; Cyclone announces all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReliableReader {
    /// The reader's identifier.
    pub guid: Guid,
    /// Its participant.
    pub participant: Guid,
    /// Number of the writer's samples that the reader has confirmed, including those from before it appeared.
    pub confirmed: u64,
    /// Number of samples written.
    pub written: u64,
    /// Address for its samples: `udp/10.0.0.7:7411`.
    pub address: String,
    /// The host that its participant names.
    pub host: String,
    /// The program that its participant names.
    pub process: String,
    /// The process's number on that host.
    pub pid: String,
}

impl ReliableReader {
    /// Whether some samples are not confirmed.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.confirmed < self.written
    }
}

impl fmt::Display for ReliableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reader {} of participant {} at {}", self.guid, self.participant, self.address)?;
        if !self.pid.is_empty() {
            write!(f, " (process {} {:?} on host {:?})", self.pid, self.process, self.host)?;
        }
        Ok(())
    }
}

const fn write_error(code: Code) -> WriteError {
    match code {
        Code::TIMEOUT => WriteError::Slowed,
        Code::BAD_PARAMETER => WriteError::NotAValue,
        code => WriteError::Failed(code),
    }
}

/// Takes values of a topic.
#[derive(Debug)]
pub struct Reader {
    pub(crate) entity: ReaderEntity,
    guid: Guid,
    topic: Topic,
}

/// Status of a reader. Totals count from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Matched writers.
    pub writers: u32,
    /// Writers matched since the beginning.
    pub writers_total: u32,
    /// Writers that offer less than the reader requests.
    pub incompatible_total: u32,
    /// Samples that were lost.
    pub lost_total: u32,
    /// Samples rejected for want of room.
    pub rejected_total: u32,
}

/// The writer of a sample, as a number that all readers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Publisher(u64);

/// A sample, valid during the visit.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The value, which begins at position 0 for alignment, in this machine's byte order.
    pub cdr: &'a [u8],
    /// Time of writing at the writer, in nanoseconds since 1970.
    pub source_timestamp: i64,
    /// Writer of the sample.
    pub publisher: Publisher,
}

impl Reader {
    pub(crate) fn new(topic: Topic, qos: &Qos) -> Result<Self, Error> {
        let participant = topic.participant().raw();
        let entity = participant
            .reader(&topic.entity, qos.raw_of_reader(), &qos.c_partitions()?, &qos.user_data)
            .map_err(Error::cyclone("make a reader"))?;
        let guid = Guid(entity.guid().map_err(Error::cyclone("make a reader"))?);
        Ok(Self { entity, guid, topic })
    }

    /// The reader's topic.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The reader's identifier.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// Discards all samples from now on, as a dropped reader does. Dropping a reader waits while another one of this process in the same
    /// domain has no room: so call this on all of several readers before dropping the first.
    pub fn keep_nothing(&self) {
        self.entity.keep_nothing();
    }

    /// Takes received samples in order, at most `limit` and 64. Returns their number; samples without a value (by which a writer says that
    /// an instance is gone) are counted but not visited.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn take(&self, limit: usize, mut visit: impl FnMut(Sample<'_>)) -> Result<usize, Error> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let shown = |taken: RawTaken<'_>| {
            debug_assert!(taken.cdr.is_none() || taken.encapsulation <= 1, "only XCDR1 was asked for");
            if let Some(cdr) = taken.cdr {
                visit(Sample {
                    cdr,
                    source_timestamp: taken.source_timestamp,
                    publisher: Publisher(taken.publication),
                });
            }
        };
        self.entity.take(limit, shown).map_err(Error::cyclone("take samples"))
    }

    /// The reader's status.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn status(&self) -> Result<ReaderStatus, Error> {
        let raw = self.entity.reader_status().map_err(Error::cyclone("say how a reader stands"))?;
        Ok(ReaderStatus {
            writers: raw.matched_now,
            writers_total: raw.matched_total,
            incompatible_total: raw.incompatible_total,
            lost_total: raw.lost_total,
            rejected_total: raw.rejected_total,
        })
    }
}
