//! What can be asked of a service that is to run.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  campanile serve
  campanile serve --listen 192.0.2.10:2809
  campanile serve --listen 0.0.0.0:2809 --advertise notify.example.org
  campanile serve --json-listen 2810
  campanile serve --tempo-listen 2811
  campanile serve --http 2812
  campanile serve --config campanile.toml --ior-file /run/campanile.ior
  campanile serve --topology plant.json
  campanile serve --data /var/lib/campanile
  campanile serve --data none
  campanile serve --config campanile.toml --check

Clients find the service at corbaloc::HOST:PORT/NotificationService, through its
own naming service at corbaloc::HOST:PORT/NameService, or by the IOR file.
Ctrl-C or SIGTERM stops it; SIGHUP has it read FILE again: [log] and [[channels]]
count from then on, and what needs a restart is logged. A service that is stopped
takes no more events, and delivers those that it has, for shutdown_drain_ms (10 s)
at most; a second signal ends it at once. The exit status is 3 if events were lost,
and the log names their consumers; 134 (SIGABRT), with a line in the log, means an
error in Campanile itself.";

pub(super) const DEMO_EXAMPLES: &str = "\
Examples:
  campanile demo
  campanile demo --listen 127.0.0.1:2810 --http 8080

Four suppliers (mount, weather, dome, camera) and two consumers (archive, which is
slow on purpose, and alarms, which filters) on the default channel, which stores its
last 10,000 events. Where the usual ports are taken it takes free ones, and says
which. Nothing of it is left when it ends.
Exit status: 0 stopped by a signal; 1 it could not serve; 2 wrong usage.";

pub(super) const TAO_NOTIFY_EXAMPLES: &str = "\
Examples:
  campanile tao-notify -ORBEndpoint iiop://10.0.0.5:3000 -ORBDottedDecimalAddresses 1 -Boot
  campanile tao-notify -ORBEndpoint iiop://:3000 -ORBInitRef NameService=corbaloc::names:2809/NameService -IORoutput n.ior
  campanile tao-notify --data /var/lib/notify -ORBSvcConf svc.conf -Factory LoggingNotifyEventChannelFactory

With it are on: compatibility.ignore_unknown_properties, timeout_never_expires, limits_as_imp_limit and default_admins_or.";

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:2809]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Host, or host and port, that references carry [default: the listening address]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) advertise: Option<String>,
    /// Configuration file, of several the last; options on the command line come before it
    #[arg(long, value_name = "FILE", overrides_with = "config")]
    pub(crate) config: Option<PathBuf>,
    /// Write the factory's stringified reference to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) ior_file: Option<PathBuf>,
    /// Make what this file has, as `campanile topology export` wrote it
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
    /// Store what outlives the service in this folder; "none" stores nothing [default: $STATE_DIRECTORY, else
    /// ~/.local/state/campanile/PORT]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Also bind the factory as NotifyEventChannelFactory in this naming service, a corbaloc or IOR
    #[arg(long, value_name = "URL")]
    pub(crate) naming: Option<String>,
    /// Also take lines of JSON here; a port alone is on the loopback address, which is as much as is safe
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) json_listen: Option<String>,
    /// Also take publishers and subscribers of Tempo here, over UDP and TCP; a port alone is on the loopback address
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) tempo_listen: Option<String>,
    /// Also serve metrics, the API and the console here, over HTTP; a port alone is on the loopback address
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) http: Option<String>,
    /// Serve CORBA clients over TLS at this address, too; needs --tls-certificate and --tls-key
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) tls_listen: Option<String>,
    /// PEM file with the service's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// PEM file with its key
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let clients in only over TLS, with certificates signed by the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Call consumers over TLS if their references say so and their certificates are signed by the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The least serious messages to log on standard error [default: info]
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) log: Option<LogLevel>,
    /// How to log: a line of text, or of JSON, for each message [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Read the whole configuration, say what is wrong with it or that nothing is, and end; nothing is opened
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Address and port to serve at [default: 127.0.0.1:2809, or a free port if that is taken]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the console is [default: 2812, or a free port if that is taken]
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) http: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaoNotifyOptions {
    /// Store what is configured in this folder [default: nothing, unless svc.conf has a Topology_Factory]; "none" stores nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// What tao_cosnotification takes: -ORBEndpoint iiop://HOST:PORT, -ORBInitRef NameService=URL, -IORoutput FILE,
    /// -ORBDottedDecimalAddresses 1, -ORBSvcConf FILE, -Factory NAME, -Boot, -[No]NameSvc, -Channel, -ChannelName NAME, -Timeout MS, …;
    /// what is left aside is said at the start, with the reason
    #[arg(value_name = "TAO OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// What keeps the service from doing its work
    Error,
    /// What an operator should look at
    Warn,
    /// What happens to clients
    Info,
    /// What helps to find a mistake
    Debug,
    /// Everything
    Trace,
}

impl From<LogLevel> for service::LogLevel {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::Off,
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
            LogLevel::Trace => Self::Trace,
        }
    }
}

/// How it is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level and message
    Text,
    /// An object with time, level, target and message
    Json,
}

impl From<LogFormat> for service::LogFormat {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}
