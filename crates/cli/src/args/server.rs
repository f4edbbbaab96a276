//! How a running service is found.

use super::{TlsOptions, TransportArg};
use campanile::{Settings, SettingsError, TlsSettings, Transport};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::str::FromStr;
use std::time::Duration;

/// A channel, as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelArg {
    /// By its number in its factory.
    Number(i32),
    /// By a name that the naming service has for it.
    Name(String),
}

impl FromStr for ChannelArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) if text.is_empty() => Err("a channel has a number or a name"),
            Err(_) => Ok(Self::Name(text.to_owned())),
        }
    }
}

/// The service that a command talks to: the one that is named, or that of a context or of the environment, or the local one.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    /// As it is named.
    pub(crate) server: String,
    /// For each answer.
    pub(crate) timeout: Duration,
    /// What else the environment or a context says.
    pub(crate) settings: Settings,
}

/// What may be said of it.
#[derive(Debug, Clone, Default, Args)]
struct Given {
    /// The service: HOST, HOST:PORT, corbaloc:…, corbaname:…, IOR:… or an IOR file; a factory or a channel [default:
    /// $CAMPANILE_SERVER, that of the context in use, or the local service]
    #[arg(long, short = 's', value_name = "ADDRESS")]
    server: Option<String>,
    /// The saved context of the service, with the settings that count
    #[arg(long, value_name = "CONTEXT", hide_short_help = true)]
    context: Option<String>,
    /// Seconds to wait for each answer of the service
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = super::seconds, hide_short_help = true)]
    timeout: Duration,
    /// What the service calls this command in its logs and lists; an empty text: nothing [default: its program and host]
    #[arg(long, value_name = "NAME", value_parser = client_name, hide_short_help = true)]
    client_name: Option<String>,
    #[command(flatten)]
    tls: TlsOptions,
}

/// A name that a client may have, or the empty text.
pub(super) fn client_name(text: &str) -> Result<String, String> {
    Settings::default().set_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// The service that is named, or else that of the environment, of the context in use, or the local one.
pub(crate) fn service_of(server: Option<&str>) -> Result<String, String> {
    let given = Given { server: server.map(str::to_owned), timeout: Duration::MAX, ..Given::default() };
    given.resolve(None).map(|options| options.server)
}

impl Given {
    /// `transport` is `None` for a command without a choice of transports, `Some(None)` if the choice was left open.
    fn resolve(self, transport: Option<Option<TransportArg>>) -> Result<ServerOptions, String> {
        let Self { server, context, timeout, client_name, tls } = self;
        let wrong = |error: SettingsError| error.to_string();
        let mut settings = match &context {
            Some(name) => Settings::of_context(name).map_err(wrong)?,
            // A service that is named needs nothing else: a default context that cannot be read does not stop the command.
            None if server.is_some() => Settings::load().unwrap_or_default(),
            None => Settings::load().map_err(wrong)?,
        };
        if client_name.is_some() {
            settings.name = client_name;
        }
        match transport {
            Some(Some(said)) => settings.transport = said.into(),
            _ if server.is_some() => settings.transport = Transport::Notification,
            None if settings.transport == Transport::Dds => {
                return Err(
                    "the transport that is set is dds, which has no service: this command talks to one; name it with --server, or \
                     choose another context"
                        .to_owned(),
                );
            }
            Some(None) | None => {}
        }
        if server.is_some() && context.is_none() {
            // That of the context in use is for another service.
            settings.tls = TlsSettings::default();
        }
        let said = [tls.tls_ca, tls.tls_certificate, tls.tls_key];
        let TlsSettings { ca, certificate, key, .. } = &mut settings.tls;
        for (file, said) in [ca, certificate, key].into_iter().zip(said) {
            *file = said.or(file.take());
        }
        settings.tls.check().map_err(wrong)?;
        let is_local = settings.server == Settings::default().server;
        let otherwise = || if is_local { client::LOCAL_SERVICE.to_owned() } else { settings.server.clone() };
        let server = server.unwrap_or_else(otherwise);
        Ok(ServerOptions { server, timeout, settings })
    }
}

impl FromArgMatches for ServerOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = Given::from_arg_matches(matches)?;
        let transport = matches.try_get_one::<TransportArg>("transport").ok();
        given
            .resolve(transport.map(Option::<&_>::copied))
            .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))
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
