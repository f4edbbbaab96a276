//! Options of `campanile context …`.

use crate::args::EventForm;
use campanile::Transport;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  campanile context add lab --server lab.example.org --use
  campanile context ls
  campanile context use lab
  campanile sub --context field
  CAMPANILE_CONTEXT=field campanile pub x=1

A context is a name for a service and for how events travel, kept in
$XDG_CONFIG_HOME/campanile/contexts.toml, or ~/.config/campanile/contexts.toml;
programs that use the library `campanile` have the same ones. First --server
counts, then --context, then $CAMPANILE_SERVER, then the context that
$CAMPANILE_CONTEXT names, then the one in use, and else the local service.";

const ADD_EXAMPLES: &str = "\
Examples:
  campanile context add lab --server lab.example.org:2809
  campanile context add site --server site.example.org:2810 --tls-ca ca.pem
  campanile context add alma --server corbaloc::te1:3000/NotifyEventChannelFactory --event-form alma
  campanile context add field --transport dds";

const USE_EXAMPLES: &str = "\
Examples:
  campanile context use lab
  campanile context use --none";

const LS_EXAMPLES: &str = "\
Examples:
  campanile context ls
  campanile context ls --json | jq -r .selected";

const RM_EXAMPLES: &str = "\
Examples:
  campanile context rm lab";

/// `campanile context …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Save a context, or change the one of that name
    #[command(after_help = ADD_EXAMPLES)]
    Add(ContextAddOptions),
    /// Have a context count when nothing else is said
    #[command(after_help = USE_EXAMPLES)]
    Use {
        /// Its name
        #[arg(value_name = "CONTEXT", required_unless_present = "none")]
        name: Option<String>,
        /// None counts any more
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Show the saved contexts; the one in use has a star
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove a context
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// Its name
        #[arg(value_name = "CONTEXT")]
        name: String,
    },
}

/// What carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    /// A notification service
    Notification,
    /// DDS, without a service between
    Dds,
}

impl From<TransportArg> for Transport {
    fn from(said: TransportArg) -> Self {
        match said {
            TransportArg::Notification => Self::Notification,
            TransportArg::Dds => Self::Dds,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ContextAddOptions {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The service, as for other commands
    #[arg(long, short = 's', value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// What carries events [default: notification]
    #[arg(long, value_enum)]
    pub(crate) transport: Option<TransportArg>,
    /// Where in events structs are [default: body]
    #[arg(long, value_enum)]
    pub(crate) event_form: Option<EventForm>,
    /// The naming service in which channels are found [default: the service's own]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) naming: Option<String>,
    /// What stands behind the @ of a channel's name there [default: DEFAULTDOMAIN]
    #[arg(long, value_name = "NAME")]
    pub(crate) naming_domain: Option<String>,
    /// The domain of events that say none
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) event_domain: Option<String>,
    /// Have consumers of a program share a connection and a thread, where they are many [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) shared_thread: Option<bool>,
    /// Speak TLS with the service; the authorities in this PEM file have signed its certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of that certificate, a PEM file without a passphrase
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Have it count from now on
    #[arg(long = "use")]
    pub(crate) is_used: bool,
}
