//! The floor of a broker: a process that forwards what it reads and understands nothing.
//!
//! Over TCP it reads what is there, up to 64 KiB, and writes it; over UDP it receives up to 64 datagrams with a call and sends them with
//! another. One thread, no waiting but for the next octets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use load::system::datagrams::Datagrams;

use super::ends::{GATHERED, MESSAGE, Transport, bind};
use crate::hop::{self, accept_supplier, say_ready};
use crate::process::{Process, arguments};
use crate::{BenchError, Output};

pub(crate) const COMMAND: &str = "tempo-relay-process";

/// Options of the hidden relay process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TempoRelayOptions {
    /// Where the receiver is
    #[arg(long, value_name = "HOST:PORT")]
    to: SocketAddr,
    /// Whether it forwards datagrams
    #[arg(long)]
    udp: bool,
}

/// Starts one on this core, and says where it takes messages.
pub(super) fn start(
    transport: Transport,
    to: SocketAddr,
    core: Option<usize>,
) -> Result<(Process, SocketAddr), BenchError> {
    let mut words = arguments([COMMAND, "--to", &to.to_string()]);
    if transport == Transport::Udp {
        words.push("--udp".into());
    }
    hop::start(&words, (core, None))
}

/// Runs it until the publisher closes its connection, or for ever.
pub(crate) fn run_process(options: &TempoRelayOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if options.udp { forward_datagrams(options.to, out) } else { forward_stream(options.to, out) }
}

fn forward_datagrams(to: SocketAddr, out: &mut Output<'_>) -> Result<(), BenchError> {
    let (input, output) = (bind()?, bind()?);
    output.connect(to).map_err(BenchError::io("connecting to the receiver"))?;
    say_ready(input.local_addr(), out)?;
    let mut datagrams = Datagrams::new(MESSAGE);
    loop {
        datagrams.receive(&input).map_err(BenchError::io("receiving datagrams"))?;
        datagrams.send(&output).map_err(BenchError::io("sending datagrams"))?;
    }
}

fn forward_stream(to: SocketAddr, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut output = TcpStream::connect(to).map_err(BenchError::io("connecting to the receiver"))?;
    output.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
    let mut input = accept_supplier(out)?;
    let mut buffer = vec![0; GATHERED];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => output
                .write_all(buffer.get(..count).unwrap_or_default())
                .map_err(BenchError::io("writing to the receiver"))?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(BenchError::Io { doing: "reading from the publisher", source }),
        }
    }
}
