//! DDS for Campanile: [Eclipse Cyclone DDS](https://cyclonedds.io) behind a safe interface in which types are made at run
//! time and values go in and out as CDR, as they do everywhere else here.
//!
//! A [`Participant`] joins a domain; a [`Topic`] has a name and a type, made from a [`TypeCode`] so that DDS's own tools see its fields; a
//! [`Writer`] writes CDR, a [`Reader`] takes it. A [`WaitSet`] waits for readers. Remote endpoints are discovered
//! ([`Participant::endpoints`]), with their types.
//!
//! Values are in this machine's byte order, begin at position 0 for alignment, and are encoded as in CORBA's CDR 1.2 with UTF-8
//! ([`encoding`]); samples of participants with another byte order are converted. Cyclone checks each value against its topic's type:
//! malformed octets are refused when written and dropped when received.
//!
//! Cyclone has its own threads, about seven for each domain. This crate starts none.
//!
//! ```no_run
//! use giop::typecode::{Kind, TypeCode};
//! use dds::{Options, Participant, Qos};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let wind = TypeCode::structure("IDL:demo/Wind:1.0", "Wind", &[("speed", TypeCode::primitive(Kind::Double))]);
//! let participant = Participant::new(0, &Options::default())?;
//! let topic = participant.topic("Wind", &wind)?;
//! let writer = topic.writer(&Qos::default())?;
//! writer.write(&7.5f64.to_ne_bytes())?;
//! # Ok(()) }
//! ```
//!
//! [`TypeCode`]: giop::typecode::TypeCode

mod compatibility;
mod complaints;
mod discovered;
mod endpoints;
mod error;
mod options;
mod participant;
mod qos;
mod raw;
mod suspended_readers;
mod types;
mod waiting;

pub use compatibility::{Difference, Incompatibilities, Incompatibility, Policy, WrittenTopics};
pub use complaints::{Complaints, complaints};
pub use endpoints::{Publisher, Reader, ReaderStatus, ReliableReader, Sample, Writer, WriterStatus};
pub use error::{Code, Error, WriteError};
pub use options::{Multicast, Options};
pub use participant::{Conflict, Endpoint, Guid, Participant, Role, Topic};
pub use qos::{History, Qos};
pub use suspended_readers::SuspendedReaders;
pub use types::{Naming, agree, type_name};
pub use waiting::{News, WaitSet, Waker, Woken};

/// User data of the endpoints of the service's joins, and of programs of the library.
pub const OWN_USER_DATA: &[u8] = b"campanile";

use giop::cdr::{CharSet, Encoding, Endian, Version};

/// Encoding of values: XCDR1 in this machine's byte order, and UTF-8.
#[must_use]
pub const fn encoding() -> Encoding {
    let endian = if cfg!(target_endian = "little") { Endian::Little } else { Endian::Big };
    Encoding { endian, version: Version::Xcdr1, chars: CharSet::Utf8 }
}
