//! What is planned before it runs: activities with deadlines, topics with shares.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  campanile plan activities.toml
  campanile plan activities.toml --policy edf
  campanile plan activities.toml --json | jq '.activities[] | select(.late_by_ns)'
  campanile plan activities.toml --out lanes.toml
  campanile plan tempo topics.toml    topics with shares: see its own --help

A file of activities, each a stream of events of one type on one channel:
  [[activity]]
  name = \"trigger\"
  type = \"Telescope/Trigger\"
  channel = 0                 # default: 0
  period = \"10ms\"           # or minimum_interval; ns, us, ms, s, min
  execution_time = \"200us\"  # the longest that an event occupies its lane
  deadline = \"2ms\"          # default: the period
  jitter = \"1ms\"            # how late an event may come; default: 0
  blocking = \"50us\"         # by what is less urgent; default: 0
  criticality = 1             # larger is more; default: 0
Before them may stand policy, cpus and lanes_max. config/plan.toml is one.

rm and dm give each activity a lane with a priority; edf, llf and muf are the
discipline of one lane, which takes events one at a time.
Exit status: 0 every deadline is met; 1 one may be missed, or that cannot be
said; 2 the file, or what is asked, makes no sense.";

pub(super) const TEMPO_EXAMPLES: &str = "\
Examples:
  campanile plan tempo config/tempo.toml
  campanile plan tempo topics.toml --percentiles 50,95,99.99
  campanile plan tempo topics.toml --json | jq '.topics[].mean_response_us'

A file of topics, each with a share of what the messaging system can carry:
  mu = 10000                  # messages/s by itself; or service_time_us = 100
  [[topic]]
  name = \"alarm\"
  rate = 100                  # its share S, messages/s
  arrival = 5                 # lambda, messages/s; default: the rate
  arrivals = \"poisson\"       # or \"periodic\"; default: poisson
  deadline_us = 500           # at most 1/rate; default: 1/rate
  [server]                    # time-driven; without it load-driven
  period_us = 10000
  budget_us = 4000
  [[application]]             # what else runs; needs [server]
  name = \"control\"
  period_us = 5000
  execution_us = 1000

The analysis is that of the paper \"Tempo: A Simple Time-Sensitive Messaging
System\", section IV.E. The intensity is lambda/mu; the paper prints mu/lambda,
with which its own response time would be negative. docs/tempo-planning.md
says what each figure means, and what it leaves out.
Exit status: 0 nothing stands in the way; 1 something does; 2 wrong usage.";

/// What is planned: activities, or something else by its name.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PlanRequest {
    #[command(subcommand)]
    pub(crate) command: Option<PlanCommand>,
    #[command(flatten)]
    pub(crate) options: Option<PlanOptions>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Say what topics with shares are guaranteed, and how long their messages take
    #[command(after_help = TEMPO_EXAMPLES)]
    Tempo(TempoOptions),
}

#[derive(Debug, Args)]
pub(crate) struct TempoOptions {
    /// The topics, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The percentages of messages for which it is said how long they take at most
    #[arg(long, value_name = "Q,…", value_delimiter = ',', default_value = "50,90,99,99.9")]
    pub(crate) percentiles: Vec<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// The activities, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which events come first [default: the file's, else dm where a deadline is shorter than its period, else rm]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) policy: Option<PlanPolicy>,
    /// Processors on which lanes may be pinned, 1 to 64 [default: the file's, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u16>,
    /// Write the lanes and the settings of event types to this file, in TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Policies of `campanile plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanPolicy {
    /// dm where a deadline is shorter than its period, else rm
    Auto,
    /// Rate monotonic: the shortest period first
    Rm,
    /// Deadline monotonic: the shortest deadline first
    Dm,
    /// Earliest deadline first
    Edf,
    /// Least laxity first
    Llf,
    /// Maximum urgency first: criticality, then laxity
    Muf,
}
