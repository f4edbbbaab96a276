//! What an operator asks about rules of access.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const ACCESS_EXAMPLES: &str = "\
Examples:
  campanile access ls --config campanile.toml
  campanile access check --config campanile.toml 10.0.0.7 publish 0

No service need run: the configuration is what counts.";

const CHECK_EXAMPLES: &str = "\
Examples:
  campanile access check --config campanile.toml 10.0.0.7 publish 0
  campanile access check --config campanile.toml certificate:console administer '*'
  campanile access check --config campanile.toml 10.0.0.7,token:sensor publish Weather Weather/Wind
  campanile access check --config campanile.toml anonymous subscribe 3 --name Weather && echo yes

WHO is an address, token:NAME, door:dds, door:zenoh or certificate:NAME (a subject, a common
name, or dns:, uri:, ip:, email: and a name), several of them with commas between,
the certificate last, or anonymous. CHANNEL is a number, a name, or * for the service
itself. Without TYPE the question is whether any event type is allowed.
Exit status: 0 allowed; 1 denied; 2 wrong usage, or a configuration that cannot
be used.";

const LS_EXAMPLES: &str = "\
Examples:
  campanile access ls --config campanile.toml
  campanile access ls --config campanile.toml --json | jq '.remarks[]'

The rules in their order, as the service reads them, and which can never decide.
Exit status: 0 shown; 2 wrong usage, or a configuration that cannot be used.";

/// `campanile access …`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Say whether a client may do something, and which rule decides
    #[command(after_help = CHECK_EXAMPLES)]
    Check(AccessCheckOptions),
    /// Show the rules, and which can never decide
    #[command(after_help = LS_EXAMPLES)]
    Ls(AccessLsOptions),
}

#[derive(Debug, Args)]
pub(crate) struct AccessCheckOptions {
    /// The service's configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The client that asks
    #[arg(value_name = "WHO")]
    pub(crate) who: String,
    /// For what
    #[arg(value_name = "WHAT")]
    pub(crate) what: WhichRight,
    /// On which channel
    #[arg(value_name = "CHANNEL")]
    pub(crate) channel: String,
    /// For events of which type, DOMAIN/NAME
    #[arg(value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// What the channel is called, beside its number
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A right, as the command line has it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WhichRight {
    Publish,
    Subscribe,
    Administer,
}

#[derive(Debug, Args)]
pub(crate) struct AccessLsOptions {
    /// The service's configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
