//! The experiments of Bauer, Garcés-Erice and Rooney: *Tempo: A Simple Time-Sensitive Messaging System*, section VI, by the small protocol
//! itself: `tempo-latency` (tables I to III), `tempo-rates` (figure 10), `tempo-saturation`, `tempo-isolation` (figures 11 and 12),
//! `tempo-fan-out`, `tempo-churn`, and `tempo-predicted` (sections IV.A, IV.C and IV.E).
//!
//! Publishers and subscribers are threads of this process, on one core; what is between them, a broker or the floor of one, is a process
//! on another. The compared sides take turns.

pub(crate) mod churn;
pub(crate) mod fan_out;
pub(crate) mod isolation;
pub(crate) mod latency;
pub(crate) mod predicted;
pub(crate) mod rates;
pub(crate) mod relay;
pub(crate) mod saturation;

mod ends;
mod tempo_ends;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use super::Bed;
use super::ability::Seat;
use crate::campanile::Campanile;
use crate::latency::Recorder;
use crate::{BenchError, clock};
use ends::{Pair, Transport, Way};

/// A service that is a broker, and where.
pub(super) struct Broker {
    pub(super) service: Campanile,
    pub(super) address: SocketAddr,
}

impl Broker {
    /// Starts one on the core for what is between.
    pub(super) fn start(bed: &Bed) -> Result<Self, BenchError> {
        let address = free_address()?;
        let service = Campanile::start_with_tempo(bed.cores.middle, &address.to_string(), None)?;
        Ok(Self { service, address })
    }
}

/// An address that both transports can have.
fn free_address() -> Result<SocketAddr, BenchError> {
    let doing = "looking for a free port";
    for _ in 0..100 {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io(doing))?;
        let address = socket.local_addr().map_err(BenchError::io(doing))?;
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(BenchError::Setup { doing: doing.to_owned(), reason: "none of a hundred was free for UDP and TCP".to_owned() })
}

/// A pair of whichever way; the number names its topic among those of a broker.
fn pair(bed: &Bed, way: Way, transport: Transport, broker: &Broker, number: u32) -> Result<Pair, BenchError> {
    let seat = Seat { core: bed.cores.ends, fifo: None };
    match way {
        Way::Bare => Pair::bare(transport, None, seat),
        Way::Relay => Pair::bare(transport, Some(bed.cores.middle), seat),
        Way::Peer => Pair::tempo(transport, None, number, seat),
        Way::Broker => Pair::tempo(transport, Some(broker.address), number, seat),
    }
}

/// The calling thread publishes: it runs where the ends do.
fn take_seat(bed: &Bed) -> Result<(), BenchError> {
    Seat { core: bed.cores.ends, fifo: None }.take()
}

/// So long from now, in nanoseconds of the clock.
fn after(seconds: f64) -> u64 {
    clock::now() + clock::nanoseconds(seconds)
}

/// The mean of what was recorded, in microseconds.
fn mean_us(recorder: &Recorder) -> f64 {
    let sum = |(latency, count): (u64, u64)| crate::latency::ratio(latency, 1_000) * crate::latency::ratio(count, 1);
    recorder.counts().into_iter().map(sum).sum::<f64>() / crate::latency::ratio(recorder.count().max(1), 1)
}
