//! What can be asked of `campanile`, as plain structs that clap fills.

mod access;
mod anywhere;
mod check;
mod configure;
mod context;
mod dead;
mod deploy;
#[cfg(test)]
mod documents;
mod history;
mod link;
mod measure;
mod operate;
mod plan;
mod publish;
mod serve;
mod server;
mod standby;
mod store;
mod tempo;

pub(crate) use access::{AccessCheckOptions, AccessCommand, AccessLsOptions, WhichRight};
pub(crate) use anywhere::arrange;
pub(crate) use check::{CheckOptions, Threshold};
pub(crate) use configure::{
    ApplyOptions, ChannelCommand, ChannelLsOptions, CreateOptions, DiffOptions, ExportOptions, RmOptions, SetOptions,
    TopologyCommand,
};
pub(crate) use context::{ContextAddOptions, ContextCommand, TransportArg};
pub(crate) use dead::{DeadCommand, DeadOptions, DeadRmOptions, DeadSelection};
pub(crate) use deploy::{
    DeployCheckOptions, DeployCommand, DeployDownOptions, DeployGraphOptions, DeployImportOptions, DeployNodeOptions,
    DeployOptions, DeployReplayOptions, DeployRunOptions, DeployServeOptions, DeployStatusOptions, NodeArg,
    NodeOptions,
};
pub(crate) use history::{RecordOptions, ReplayOptions, Selection, Speed, Until};
pub(crate) use link::{LinkAddOptions, LinkCommand, LinkLsOptions, LinkOptions, LinkRmOptions};
pub(crate) use measure::{GaugeOptions, LatencyOptions, TypesOptions};
pub(crate) use operate::{ConsumersOptions, DisconnectOptions, PingOptions, StatsOptions};
pub(crate) use plan::{PlanCommand, PlanOptions, PlanPolicy, PlanRequest, TempoOptions};
pub(crate) use publish::{EventForm, PubOptions};
pub(crate) use serve::{DemoOptions, LogLevel, ServeOptions, TaoNotifyOptions};
pub(crate) use server::{ChannelArg, ServerOptions, service_of};
pub(crate) use standby::{PromoteOptions, StandbyCommand, StandbyOptions};
pub(crate) use store::{CompactOptions, SalvageOptions, StoreCommand, StoreOptions};
pub(crate) use tempo::{
    MeetOptions, TempoCommand, TempoGaugeOptions, TempoProbeOptions, TempoPubOptions, TempoSubOptions,
    TempoTopicsOptions,
};

use self::serve::{DEMO_EXAMPLES, SERVE_EXAMPLES, TAO_NOTIFY_EXAMPLES};
use crate::bench;
use crate::color::ColorArg;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::time::Duration;

const ABOUT: &str = "A real-time notification service for CORBA, and tools to look at one";

// Lines of at most 80 characters, so that a narrow terminal does not break them again.
const EXAMPLES: &str = "\
Examples:
  campanile serve              serve on 127.0.0.1:2809
  campanile ls                 show what the local service has
  campanile info               show the default channel in full
  campanile stats --nonzero    show what it has counted
  campanile sub                print every event of the default channel
  campanile pub celsius=11.5   publish one event

Commands that talk to a service find the one that $CAMPANILE_SERVER names, or the
local one. Options of a command may also stand before it: campanile -s HOST ls
Exit status: 0 done, 1 failed, 2 wrong usage.";

const LS_EXAMPLES: &str = "\
Examples:
  campanile ls
  campanile ls --long --channel 0
  campanile ls --tree | less
  campanile ls --json | jq '.channels[].id'
  campanile ls --server corbaloc::old.example.org:9999/NotifyEventChannelFactory

Works with any OMG notification service. In a pipe, each object is one line. Only
Campanile shows the client of a proxy, behind a tab in a pipe: a consumer's address
and object key with its state; of a supplier the address, and for how long nothing
has come from it. `campanile disconnect` takes the numbers.";

const INFO_EXAMPLES: &str = "\
Examples:
  campanile info
  campanile info 3
  campanile info --json | jq '.consumer_admins[].proxies[] | select(.dropped > 0)'

QoS of admins and proxies is shown where it differs from the level above. Only
Campanile shows where consumers are, what waits for them and what was dropped; the
rest works with any OMG notification service.";

const SUB_EXAMPLES: &str = "\
Examples:
  campanile sub
  campanile sub 'Telescope/*' '*/Alarm' Wind
  campanile sub --channel Weather
  campanile sub -n 1 --wait 10 && echo an event came
  campanile sub --where '$celsius > 30 and $dome == 3'
  campanile sub --field celsius -n 100 | sort -n
  campanile sub --json | jq .fields
  campanile sub --last 100
  campanile sub --since 10m --type '*'/Alarm

Wind stands for the type in any domain or none, as /Wind does. Where a channel is
called Wind, say /Wind, or which channel by --channel.

--where: the service applies the condition, other events do not travel.
`campanile filter check` explains a condition. --field prints one field of each
event: NAME, or a path such as tags[0], .remainder_of_body.x, or any other of
the filter language; text is printed as it is, with --json as JSON. Events
without the field are left out, also from the count of -n.

With --json each event is one line with the members received, type (such as
Weather/Wind), name, header, fields and body; with --any, received and body. A struct is an
object; a union {\"discriminator\":…, member: value}; an enum its label; an octet
sequence a hexadecimal string; an any {\"type\":…, \"value\":…}. Whole numbers are
written out in full, also beyond 2^53; NaN and infinities are strings. A field
with the name of an earlier one gets #2, #3 … behind its name.

--first, --last, --since, --from and --last-of-each begin in the history of a channel
that stores it (QoS HistoryEvents, HistoryAge or HistoryBytes); what comes follows.
Events have their number and time in the header then.

With --create a channel of that name is made if there is none. With --transport dds,
events come from other programs without a service, and have no domain: that is one
of DDS there.

A service that goes away is waited for, and what was missed meanwhile is reported;
one that says it has disconnected this consumer (`campanile disconnect`) ends it.
Exit status: 0 after -n events, or when stopped without -n; 1 if fewer than -n
came, or the service failed or disconnected it; 2 wrong usage.";

const FILTER_EXAMPLES: &str = "\
Examples:
  campanile filter check '$celsius > 30 and $dome == 3'
  campanile sub --json -n 100 > events.json
  campanile filter test '$celsius > 30' < events.json

The constraints are those of CORBA's filters (EXTENDED_TCL). They are read and
tried by the same code as in the service.";

const FILTER_CHECK_EXAMPLES: &str = "\
Examples:
  campanile filter check '$celsius > 30 and not exist $simulated'
  campanile filter check --json '3 * $x == 12' | jq .steps_worst

Shows the conditions as a tree, what ends the evaluation early, the steps it
takes and the fields it reads. Exit status: 0 a constraint; 1 not one, with its
column and the reason; 2 wrong usage.";

const FILTER_TEST_EXAMPLES: &str = "\
Examples:
  campanile sub --json -n 1 | campanile filter test '$celsius > 30'
  echo '{\"fields\":{\"celsius\":31}}' | campanile filter test '$celsius > 30'

Each line of standard input is an event as `campanile sub --json` prints it; what
is missing is empty. Types follow from the JSON as in `campanile pub`: an enum's
label is a string here, a union an object. For each event one line says whether
it matches, with the values that were looked at.
Exit status: 0 one of the events matches; 1 none does; 2 wrong usage.";

const BENCH_EXAMPLES: &str = "\
Examples:
  campanile bench latency            how long events take through the local service
  campanile bench monitor            a telescope's monitor system, for 10 s

The papers' experiments, and the service beside floors, peers and attacks, are
another program: campanile-bench.";

const TOP_EXAMPLES: &str = "\
Examples:
  campanile top
  campanile top --interval 5 --rows 50
  campanile top --once | head
  campanile top --json | jq '.consumers[] | select(.backlog_events > 1000)'
  campanile top --json | jq '.consumers[] | select(.holds_suppliers) | .name'

Refreshed in place on a terminal, until q or Ctrl-C; in a pipe, with --once or
with --json it is shown once. Rates are those of one interval. Only for
Campanile.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  campanile doctor
  campanile doctor --seconds 600
  campanile doctor --no-latency --json | jq '.findings[] | select(.state != \"well\")'
  campanile doctor notify.ior
  campanile doctor corbaloc::notify.example.org:2809/NotificationService

Run it as the user that runs the service, under the load that there will be.
Wake-up latency: a thread on each processor, at SCHED_FIFO if that is allowed,
sleeps until the next millisecond and notes how late it wakes up.

Of a REFERENCE it shows the content, whether it can be reached, and what would
keep programs elsewhere from it: loopback or wildcard addresses, names that are
not known, code sets in which text is lost.
Exit status: 0 nothing stands in the way; 1 something does; 2 wrong usage.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  campanile completions fish | source
  campanile completions bash > ~/.local/share/bash-completion/completions/campanile

Channels, event types and contexts are completed, too, by what the service that a
command line names answers within two seconds.";

const VERSION_EXAMPLES: &str = "\
Examples:
  campanile version";

const MAN_EXAMPLES: &str = "\
Examples:
  campanile man ~/.local/share/man/man1 && man campanile-sub";

/// What `campanile -h` prints: a screen of 24 lines, by purpose. `--help` has everything.
pub(crate) const SHORT_HELP: &str = "\
A real-time notification service for CORBA, and tools to look at one

Usage: campanile COMMAND …

To try it        demo
To serve         serve, tao-notify, doctor, check, deploy, node, standby
Events           pub, sub (echo), record, replay, filter, tempo
To look          ls, info, consumers, top, types, hz, bw, stats, ping
To administer    channel, link, topology, dead, disconnect, access, store
To measure       latency, bench, plan
This program     context, version, completions, man

  campanile demo                            a small observatory to look at
  campanile sub 'Weather/*'                 print events as they come
  campanile pub Weather/Wind speed=12.5     publish one
  campanile top                             which consumers are slow

campanile COMMAND -h    its options and examples
campanile COMMAND --help, campanile --help     everything
";

/// The whole command line. Of each command, `-h` has the examples, and `--help` what stands behind them as well.
pub(crate) fn program() -> clap::Command {
    fn shaped(command: clap::Command) -> clap::Command {
        let command = command.mut_subcommands(shaped);
        let Some(text) = command.get_after_help().map(|text| text.ansi().to_string()) else { return command };
        match text.split_once("\n\n") {
            Some((examples, _)) => command.after_help(format!("{examples}\n\n--help says more.")).after_long_help(text),
            None => command,
        }
    }
    shaped(Cli::command())
}

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "campanile", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to colour what is printed
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", global = true, hide_short_help = true)]
    pub(crate) color: ColorArg,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the notification service
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeOptions),
    /// Run a small observatory through a service of its own, with the console, until Ctrl-C
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoOptions),
    /// Serve with the options and svc.conf directives of TAO's tao_cosnotification
    #[command(after_help = TAO_NOTIFY_EXAMPLES)]
    TaoNotify(TaoNotifyOptions),
    /// Show the channels, admins and proxies of a service
    #[command(after_help = LS_EXAMPLES)]
    Ls(LsOptions),
    /// Show a channel: settings, filters, clients, what waits, what was dropped
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoOptions),
    /// Watch consumers by backlog, lanes, rates and drops
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopOptions),
    /// List consumers: what waits for each, what it lost, and its state
    #[command(after_help = operate::CONSUMERS_EXAMPLES)]
    Consumers(ConsumersOptions),
    /// Ask a service for a sign of life, and show how long it takes
    #[command(after_help = operate::PING_EXAMPLES)]
    Ping(PingOptions),
    /// Show what the service counts
    #[command(after_help = operate::STATS_EXAMPLES)]
    Stats(StatsOptions),
    /// Disconnect clients: some by their proxies, all of an address, or suppliers not heard of for long
    #[command(after_help = operate::DISCONNECT_EXAMPLES)]
    Disconnect(DisconnectOptions),
    /// Make, set and destroy channels
    #[command(subcommand, after_help = configure::CHANNEL_EXAMPLES)]
    Channel(ChannelCommand),
    /// Show links to other services, pause and resume them
    #[command(subcommand, after_help = link::LINK_EXAMPLES)]
    Link(LinkCommand),
    /// Keep, compare and restore everything that is configured
    #[command(subcommand, after_help = configure::TOPOLOGY_EXAMPLES)]
    Topology(TopologyCommand),
    /// Look at what a service that does not run has stored, check it, make it smaller
    #[command(subcommand, after_help = store::STORE_EXAMPLES)]
    Store(StoreCommand),
    /// Show how the two machines of [standby] stand; have the follower take over (experimental)
    #[command(subcommand, after_help = standby::STANDBY_EXAMPLES)]
    Standby(StandbyCommand),
    /// Show dead letters, the events that consumers never took; deliver them once more, remove them
    #[command(subcommand, after_help = dead::DEAD_EXAMPLES)]
    Dead(DeadCommand),
    /// Ask what the rules of access of a configuration say
    #[command(subcommand, after_help = access::ACCESS_EXAMPLES)]
    Access(AccessCommand),
    /// Publish events
    #[command(after_help = publish::PUB_EXAMPLES)]
    Pub(PubOptions),
    /// Subscribe to events and print them
    #[command(after_help = SUB_EXAMPLES, visible_alias = "echo")]
    Sub(SubOptions),
    /// Show how often events come
    #[command(after_help = measure::HZ_EXAMPLES)]
    Hz(GaugeOptions),
    /// Show how much comes
    #[command(after_help = measure::BW_EXAMPLES)]
    Bw(GaugeOptions),
    /// Show the event types of a channel: seen, offered, subscribed to, with their IDL
    #[command(after_help = measure::TYPES_EXAMPLES)]
    Types(TypesOptions),
    /// Measure how long events take through a channel as it is
    #[command(after_help = measure::LATENCY_EXAMPLES)]
    Latency(LatencyOptions),
    /// Keep a channel's events in a file
    #[command(after_help = history::RECORD_EXAMPLES)]
    Record(RecordOptions),
    /// Publish again what was recorded, or a channel's history
    #[command(after_help = history::REPLAY_EXAMPLES)]
    Replay(ReplayOptions),
    /// Publish and subscribe by the small protocol, over UDP or TCP, with or without a service
    #[command(subcommand, after_help = tempo::EXAMPLES)]
    Tempo(TempoCommand),
    /// Keep services, and how to talk to them, by name
    #[command(subcommand, after_help = context::EXAMPLES)]
    Context(ContextCommand),
    /// Explain a filter's constraint, or try it on events
    #[command(subcommand, after_help = FILTER_EXAMPLES)]
    Filter(FilterCommand),
    /// Put a service under load, and measure
    #[command(subcommand, after_help = BENCH_EXAMPLES)]
    Bench(bench::Command),
    /// Become a service that ends when the process that started it does
    #[command(hide = true, name = load::leash::COMMAND)]
    LeashedProcess(load::LeashedOptions),
    /// Assign priorities to declared activities, and say whether they meet their deadlines
    #[command(after_help = plan::PLAN_EXAMPLES)]
    Plan(PlanRequest),
    /// Make, check, draw and run plans of components
    #[command(subcommand, after_help = deploy::DEPLOY_EXAMPLES)]
    Deploy(DeployCommand),
    /// Be the node manager of this machine, which runs plans of components that outlive the command
    #[command(after_help = deploy::NODE_EXAMPLES)]
    Node(NodeOptions),
    /// Check a service for monitoring: exit status 0 to 3 and performance data, as Nagios plug-ins have them
    #[command(after_help = check::CHECK_EXAMPLES)]
    Check(CheckOptions),
    /// Find what stands between this machine and real time, or between here and an object, with what mends it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorOptions),
    /// Print the version of this program
    #[command(after_help = VERSION_EXAMPLES)]
    Version,
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write a man page for each command
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The folder to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// How the service is spoken to over TLS.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsOptions {
    /// Speak TLS, and nothing else, with services that have certificates signed by the authorities in this PEM file
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "TLS",
        hide_short_help = true,
        env = "CAMPANILE_TLS_CA",
        hide_env_values = true
    )]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show the certificate in this PEM file to services that ask for one
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "TLS",
        hide_short_help = true,
        env = "CAMPANILE_TLS_CERTIFICATE",
        hide_env_values = true,
        requires = "tls_key"
    )]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of that certificate, a PEM file without a passphrase
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "TLS",
        hide_short_help = true,
        env = "CAMPANILE_TLS_KEY",
        hide_env_values = true,
        requires = "tls_certificate"
    )]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Only this channel
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Show the services of the federation and their channels instead
    #[arg(long, conflicts_with_all = ["channel", "long", "tree"])]
    pub(crate) federation: bool,
    /// Also show quality of service and references
    #[arg(long, short = 'l')]
    pub(crate) long: bool,
    /// Print a tree also where the output is not a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) tree: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InfoOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channel [default: the default channel]
    #[arg(value_name = "CHANNEL", allow_negative_numbers = true)]
    pub(crate) channel: Option<ChannelArg>,
    /// The same, as for other commands
    #[arg(long = "channel", short = 'c', value_name = "CHANNEL", conflicts_with = "channel")]
    pub(crate) named_channel: Option<ChannelArg>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Only consumers of this channel
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Seconds from one refresh to the next, over which rates are taken
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Consumers shown at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) rows: usize,
    /// Show it once, after one interval
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one JSON object, after one interval, with all consumers
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SubOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Event types to receive, as --type
    #[arg(value_name = "DOMAIN/NAME", value_parser = event_type)]
    pub(crate) other_types: Vec<EventTypeArg>,
    /// Make the channel if there is none of that name
    #[arg(long, requires = "channel")]
    pub(crate) create: bool,
    /// What carries events [default: that of the context, or notification]
    #[arg(long, value_enum)]
    pub(crate) transport: Option<TransportArg>,
    /// Receive Anys instead of structured events
    #[arg(long)]
    pub(crate) any: bool,
    /// Print one field of each event
    #[arg(long, value_name = "PATH", value_parser = crate::select::path, conflicts_with = "quiet")]
    pub(crate) field: Option<filter::Path>,
    /// Print each event as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no events, only the summary
    #[arg(long, short = 'q', conflicts_with = "json")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) until: Until,
    /// Address to receive events at [default: a free port of the address towards the service]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Host name written into the reference that the service calls back [default: the listening address]
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,
}

impl SubOptions {
    /// The same with all types in one place, whichever way they were said.
    pub(crate) fn arranged(mut self) -> Self {
        self.selection.types.append(&mut self.other_types);
        self
    }
}

/// `campanile filter …`.
#[derive(Debug, Subcommand)]
pub(crate) enum FilterCommand {
    /// Check a constraint and explain it: conditions, cost, fields it reads
    #[command(after_help = FILTER_CHECK_EXAMPLES)]
    Check(FilterCheckOptions),
    /// Try a constraint on events in JSON, one a line on standard input
    #[command(after_help = FILTER_TEST_EXAMPLES)]
    Test(FilterTestOptions),
}

#[derive(Debug, Args)]
pub(crate) struct FilterCheckOptions {
    /// The constraint
    #[arg(value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) constraint: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FilterTestOptions {
    /// The constraint
    #[arg(value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) constraint: String,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Look at an object instead: HOST:PORT of a service, corbaloc:…, corbaname:…, IOR:…, or an IOR file (also as file:PATH)
    #[arg(value_name = "REFERENCE", conflicts_with_all = ["seconds", "no_latency"])]
    pub(crate) reference: Option<String>,
    /// Seconds to wait for the object
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, requires = "reference")]
    pub(crate) timeout: Duration,
    /// Seconds to measure wake-up latency for
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Measure nothing
    #[arg(long)]
    pub(crate) no_latency: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `DOMAIN/NAME`, or `NAME` without a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventTypeArg {
    /// `None` where there is no `/`: a domain that is not said.
    pub(crate) domain: Option<String>,
    pub(crate) name: String,
}

impl From<&EventTypeArg> for client::notify::EventType {
    fn from(arg: &EventTypeArg) -> Self {
        Self::new(arg.domain.as_deref().unwrap_or_default(), &arg.name)
    }
}

fn event_type(text: &str) -> Result<EventTypeArg, String> {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None if text == "*" => (Some("*"), text),
        None if is_type_name(&text.replace('*', "_")) => (None, text),
        None => return Err("expected DOMAIN/NAME, for example Telescope/Temperature or Telescope/*".to_owned()),
    };
    Ok(EventTypeArg { domain: domain.map(str::to_owned), name: name.to_owned() })
}

/// Whether a word by itself may be a type without a domain: a name as IDL has them, and no address, file or condition.
pub(crate) fn is_type_name(word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    word.chars().all(is_letter) && word.starts_with(|first: char| !first.is_numeric())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if !duration.is_zero() && value <= 1e9 => Ok(duration),
        _ => Err("expected a number of seconds from 0.000000001 to 1000000000".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("expected a number of events per second, above 0 and up to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_works_without_options() {
        let Command::Serve(options) = parse("campanile serve").unwrap() else { panic!() };
        assert_eq!(options.listen, None);
        assert_eq!((options.log, options.check), (None, false));
    }

    #[test]
    fn service_is_found_without_options() {
        let Command::Ls(options) = parse("campanile ls").unwrap() else { panic!() };
        assert_eq!(options.server.server, "corbaloc::127.0.0.1:2809/NotificationService");
        assert_eq!(options.server.timeout, Duration::from_secs(30));
    }

    #[test]
    fn event_types_are_domain_and_name() {
        let Command::Sub(options) = parse("campanile sub --type A/B* -t * -t Wi*").unwrap() else { panic!() };
        let types: Vec<_> = options.selection.types.iter().map(|t| (t.domain.as_deref(), t.name.as_str())).collect();
        assert_eq!(types, [(Some("A"), "B*"), (Some("*"), "*"), (None, "Wi*")]);
        for wrong in ["$celsius>3", "celsius=3", "localhost:2809", "events.json", "3", "-t="] {
            assert!(parse(&format!("campanile sub {wrong}")).is_err_and(|error| error.exit_code() == 2), "{wrong}");
        }
    }

    #[test]
    fn fields_may_be_negative_numbers() {
        let Command::Pub(options) = parse("campanile pub --any -4.5").unwrap() else { panic!() };
        assert_eq!(options.fields, ["-4.5"]);
    }

    /// `campanile pub --type A/B x=1 --count 3` took `--count` for a field, and said that it is not KEY=VALUE.
    #[test]
    fn options_may_stand_behind_fields() {
        let Command::Pub(options) = parse("campanile pub --type A/B x=1 --count 3 y=2").unwrap() else { panic!() };
        assert_eq!((options.count, options.fields), (3, vec!["x=1".to_owned(), "y=2".to_owned()]));
        let Command::Pub(options) = parse("campanile pub -n 3 -- -x=1 --y=2").unwrap() else { panic!() };
        assert_eq!(options.fields, ["-x=1", "--y=2"]);
        assert!(parse("campanile pub x=1 --cuont 3").is_err());
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for line in ["pub --rate 0", "pub --rate -1", "sub --wait 0", "sub -n 0", "sub --wait x", "pub --rate NaN"] {
            let error = parse(&format!("campanile {line}")).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_refused() {
        for line in ["pub --lines --count 3", "pub --body x --size 3", "sub --quiet --json", "pub --any --header a=1"] {
            assert!(parse(&format!("campanile {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn the_short_help_has_every_command_on_one_screen() {
        assert!(SHORT_HELP.lines().count() <= 24 && SHORT_HELP.lines().all(|line| line.chars().count() <= 80));
        let words: Vec<&str> = SHORT_HELP.split([' ', ',', '\n', '(', ')']).collect();
        for command in program().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(words.contains(&command.get_name()), "{}", command.get_name());
        }
    }

    /// Options of every kind stood under `TLS:`.
    #[test]
    fn a_heading_is_over_its_own_options_only() {
        let help = program().find_subcommand_mut("ls").unwrap().render_long_help().to_string();
        let (options, _examples) = help.split_once("Examples:").unwrap();
        let (others, of_tls) = options.split_once("TLS:").unwrap();
        assert!(of_tls.contains("--tls-ca") && !of_tls.contains("--channel"), "{help}");
        assert!(others.contains("--channel") && others.contains("--timeout"), "{help}");
        let short = program().find_subcommand_mut("ls").unwrap().render_help().to_string();
        assert!(
            !short.contains("--tls-") && short.contains("Examples:") && short.contains("--help says more"),
            "{short}"
        );
    }

    #[test]
    fn every_help_has_examples() {
        fn check(command: &clap::Command) {
            let has = command.get_after_help().is_some_and(|text| text.to_string().contains("Examples:"));
            assert!(has || command.is_hide_set(), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
