//! `campanile tempo …`: the Tempo protocol on the command line.

mod gauge;
mod meeting;
mod probe;
mod publish;
mod subscribe;
mod topics;

use crate::args::TempoCommand;
use crate::failure::Failure;
use crate::gauge::What;

/// Runs one of the sub-commands.
pub(crate) fn run(command: &TempoCommand) -> Result<(), Failure> {
    match command {
        TempoCommand::Pub(options) => publish::run(options),
        TempoCommand::Sub(options) => subscribe::run(options),
        TempoCommand::Topics(options) => topics::run(options),
        TempoCommand::Probe(options) => probe::run(options),
        TempoCommand::Hz(options) => gauge::run(options, What::Rate),
        TempoCommand::Bw(options) => gauge::run(options, What::Octets),
    }
}
