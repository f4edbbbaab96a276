//! Programs of components, by a plan.

use super::history::{Speed, speed};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const DEPLOY_EXAMPLES: &str = "\
Examples:
  campanile deploy check plan.toml
  campanile deploy run plan.toml
  campanile deploy replay night.jsonl --into guider
  campanile deploy graph plan.toml | dot -Tsvg > plan.svg
  campanile deploy import Observatory.cdp --events Observatory.ced -o plan.toml
  campanile deploy up plan.toml && campanile deploy status

A plan names processes, instances of components, connections and settings of
ports; docs/deployment.md says how. What `run` starts, on this machine, ends
with it; what `up` starts outlives it, by node managers: campanile node.";

const CHECK_EXAMPLES: &str = "\
Examples:
  campanile deploy check plan.toml
  campanile deploy check plan.toml --json | jq '(.problems, .response_times.problems)[]?'
  campanile deploy check plan.toml && campanile deploy run plan.toml

Asks each program, shared object and file of Python of the plan for its
components, and says all that does not fit, a line each. Nothing is started; a
shared object or file is loaded in a process of its own.

Where ports have times and deadlines, it computes by when their handlers have
ended at the latest, and says which deadlines may be missed, and by what:
  [ports.\"guider.frame\"]
  time = \"2ms\"         # what its handler takes at most
  deadline = \"20ms\"    # from when the timer is due that leads to it
docs/deployment.md says what is assumed.
Exit status: 0 it fits, and every deadline holds; 1 it does not, one may be
missed, or that cannot be said; 2 wrong usage.";

const RUN_EXAMPLES: &str = "\
Examples:
  campanile deploy run plan.toml
  campanile deploy run plan.toml --record night.jsonl --record-max 200

Starts a process for each server of the plan: all are configured before the
first one is started, and if one cannot be, all end. They end with this command,
at Ctrl-C; if one ends by itself, that is said, and all end.

With --record, what is handed to the components' sinks is written to a file, a
line of JSON for each event: campanile deploy replay. When the file has the size
of --record-max, or the disk is full, the recording ends, and the plan runs on.
Exit status: 0 ended by Ctrl-C; 1 a server failed; 2 wrong usage.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  campanile deploy replay night.jsonl --into guider
  campanile deploy replay night.jsonl --into guider --speed max | jq .event

Runs one instance of the plan alone, in a process of its server's program, gives
it what was recorded for its sinks, as fast as it came, and prints what it sends,
a line of JSON for each event. Filters, queues and sets are passed by: what they
let through was recorded. Timers tick as ever. A file that is damaged is read up
to there, which is said.
Exit status: 0 all that came was given; 1 some was not, or had not been recorded
(of any instance), the file is damaged or has nothing, or something that it sent
is missing; 2 wrong usage.";

const GRAPH_EXAMPLES: &str = "\
Examples:
  campanile deploy graph plan.toml | dot -Tsvg > plan.svg
  campanile deploy graph plan.toml --no-types
  campanile deploy graph plan.toml --json | jq -r '.connections[].channel // empty'

Prints the plan in DOT, for Graphviz: servers and containers as frames,
instances with their ports, and arrows with the types of events, dashed where a
queue is before the sink; channels between servers are cylinders.
Each program and shared object is asked for its components, as by check, and a
plan that does not fit is not drawn; with --no-types none is asked.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  campanile deploy import Observatory.cdp --events Observatory.ced -o plan.toml
  campanile deploy import Flat.cdp > plan.toml

Makes a plan of the OMG's flattened deployment plan (D&C), as DAnCE has it, and
CIAO's events descriptor. Components are those of shared objects, as
LOCATION#IMPLEMENTATION. What a plan says otherwise or goes without stands in it
as comments; what it cannot say is refused, a line each, with file, line and
element, and nothing is written. docs/deployment.md has a table of both.
Exit status: 0 written; 1 refused; 2 wrong usage.";

const UP_EXAMPLES: &str = "\
Examples:
  campanile deploy up plan.toml
  campanile deploy diff plan.toml; campanile deploy up plan.toml

Has the node manager run the plan, in place of the one of that name. Servers
of which the plan says what it said before run on; the processes of the others
are made and configured beside the old ones, which end before the new ones are
started. If anything fails, what ran before runs on, or again. The change goes
on if this command is ended. A plan with [nodes] comes up at all of them, or at
none.
Exit status: 0 the plan is up; 1 it is not; 2 wrong usage.";

const DIFF_EXAMPLES: &str = "\
Examples:
  campanile deploy diff plan.toml

Prints what `up` would change, a line for each server and key of the plan.
Exit status: 0 nothing; 1 something; 2 wrong usage, or that cannot be said.";

const STATUS_EXAMPLES: &str = "\
Examples:
  campanile deploy status
  campanile deploy status guiding --json | jq '.plans[].servers[].state'

Exit status: 0 all servers are started; 1 one is not, or that cannot be said;
2 wrong usage.";

const DOWN_EXAMPLES: &str = "\
Examples:
  campanile deploy down guiding
  campanile deploy down guiding --without lab

Passivates all instances of the plan, ends its processes, and forgets it.";

pub(super) const NODE_EXAMPLES: &str = "\
Examples:
  campanile node --config node.toml

Runs plans that outlive the command: campanile deploy up. All servers end with
it, and come up with it again. config/node.toml has all settings; under
systemd it is campanile-node.service. Ends at Ctrl-C.
Exit status: 0 ended by Ctrl-C; 1 it cannot run; 2 wrong usage or settings.";

/// What is done with a plan.
#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Say what is wrong with a plan, and whether its deadlines hold
    #[command(after_help = CHECK_EXAMPLES)]
    Check(DeployCheckOptions),
    /// Run a plan on this machine, until Ctrl-C
    #[command(after_help = RUN_EXAMPLES)]
    Run(DeployRunOptions),
    /// Run one instance of a plan alone, with what was recorded for it
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(DeployReplayOptions),
    /// Draw a plan, for Graphviz
    #[command(after_help = GRAPH_EXAMPLES)]
    Graph(DeployGraphOptions),
    /// Make a plan of the OMG's deployment plan
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(DeployImportOptions),
    /// Bring a plan up, which outlives this command
    #[command(after_help = UP_EXAMPLES)]
    Up(DeployNodeOptions),
    /// Say which plans are up, with their servers
    #[command(after_help = STATUS_EXAMPLES)]
    Status(DeployStatusOptions),
    /// Say what `up` would change
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DeployNodeOptions),
    /// Take a plan down
    #[command(after_help = DOWN_EXAMPLES)]
    Down(DeployDownOptions),
    /// Be a server of components in shared objects, for the others
    #[command(hide = true)]
    Serve(DeployServeOptions),
}

#[derive(Debug, Args)]
pub(crate) struct DeployOptions {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DeployRunOptions {
    #[command(flatten)]
    pub(crate) plan: DeployOptions,
    /// Record what is handed to components to a file, which is not there yet
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The most MiB of that file
    #[arg(long, value_name = "MIB", default_value_t = 1_024, requires = "record", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) record_max: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DeployReplayOptions {
    /// A file that `campanile deploy run --record` has written
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The instance
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) into: String,
    /// The plan [default: the one that was recorded, as it is now]
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<PathBuf>,
    /// How many times faster than it came; "max" for as fast as the component takes it
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub(crate) speed: Speed,
}

#[derive(Debug, Args)]
pub(crate) struct DeployCheckOptions {
    #[command(flatten)]
    pub(crate) plan: DeployOptions,
    /// Compute response times as if each server had a processor of its own [default: all share one]
    #[arg(long)]
    pub(crate) cpu_per_server: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeployGraphOptions {
    #[command(flatten)]
    pub(crate) plan: DeployOptions,
    /// Ask no program for its components: types, and ports without a connection, are left out
    #[arg(long)]
    pub(crate) no_types: bool,
    /// Print the connections as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeployImportOptions {
    /// The deployment plan
    #[arg(value_name = "PLAN.cdp")]
    pub(crate) plan: PathBuf,
    /// The events descriptor that it names, if it does
    #[arg(long, value_name = "EVENTS.ced")]
    pub(crate) events: Option<PathBuf>,
    /// The file to make, which is not there yet [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DeployServeOptions {
    /// Say what the components of a shared object declare
    #[arg(long, value_name = "OBJECT", conflicts_with_all = ["plan", "server"], required_unless_present = "plan")]
    pub(crate) describe: Option<PathBuf>,
    /// The plan
    #[arg(long, value_name = "PLAN", requires = "server")]
    pub(crate) plan: Option<PathBuf>,
    /// The server of the plan
    #[arg(long, value_name = "NAME", requires = "plan")]
    pub(crate) server: Option<String>,
}

/// Where the node manager is.
#[derive(Debug, Args)]
pub(crate) struct NodeArg {
    /// Socket of the node manager [default: /run/campanile-node/node.sock for root, else $XDG_RUNTIME_DIR/campanile-node.sock]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) node: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DeployNodeOptions {
    #[command(flatten)]
    pub(crate) plan: DeployOptions,
    #[command(flatten)]
    pub(crate) node: NodeArg,
}

#[derive(Debug, Args)]
pub(crate) struct DeployStatusOptions {
    /// The plan [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArg,
}

#[derive(Debug, Args)]
pub(crate) struct DeployDownOptions {
    /// The plan
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// A node of the plan that is gone for good, and is not called; may be repeated
    #[arg(long, value_name = "NODE")]
    pub(crate) without: Vec<String>,
    #[command(flatten)]
    pub(crate) node: NodeArg,
}

#[derive(Debug, Args)]
pub(crate) struct NodeOptions {
    /// Settings: config/node.toml has them all
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}
