//! How a running service is found.

use crate::environment;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::time::Duration;

/// The service that a command talks to: the one that is named, or the environment's, or the local one.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    /// As it is named.
    pub(crate) server: String,
    /// For each answer.
    pub(crate) timeout: Duration,
}

/// What may be said of it.
#[derive(Debug, Clone, Args)]
struct Given {
    /// The service: HOST, HOST:PORT, corbaloc:…, corbaname:…, IOR:… or an IOR file; a factory or a channel [default:
    /// $CAMPANILE_SERVER, or the local service]
    #[arg(long, short = 's', value_name = "ADDRESS")]
    server: Option<String>,
    /// Seconds to wait for each answer of the service
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = super::seconds)]
    timeout: Duration,
}

impl FromArgMatches for ServerOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Given { server, timeout } = Given::from_arg_matches(matches)?;
        let server = match server {
            Some(server) => server,
            None => {
                environment::server().map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))?
            }
        };
        Ok(Self { server, timeout })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServerOptions {
    fn augment_args(command: Command) -> Command {
        Given::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args_for_update(command)
    }
}
