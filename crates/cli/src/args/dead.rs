//! What an operator does with events that consumers never took.

use super::{ChannelArg, ServerOptions};
use clap::{Args, Subcommand};

pub(super) const DEAD_EXAMPLES: &str = "\
Examples:
  campanile dead ls
  campanile dead replay -c 3 4711
  campanile dead rm -c 3 --consumer 12

A persistent event that a consumer never takes (docs/qos.md) is stored as a
dead letter, if its channel names no DeadLetterChannel: 1,000 of each channel at most ([store] dead_letters_max). Only for Campanile.";

const LS_EXAMPLES: &str = "\
Examples:
  campanile dead ls
  campanile dead ls -c 3 --consumer 12
  campanile dead ls --json | jq '.dead_letters[] | select(.octets > 2097152)'

A line for each: channel, proxy, NUMBER, type, size, since when, why, and what
the consumer is called, which may be gone.
Exit status: 0 shown, or there is none; 1 not; 2 wrong usage.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  campanile dead replay                    all dead letters
  campanile dead replay -c 3 4711 4712     two events of channel 3
  campanile dead replay -c 3 --consumer 12 all that proxy 12 never took

An event is delivered to the consumer that never took it, and to no other; if
that is not connected any more, anew to all of the channel that want it. It has
no Timeout, StartTime or StopTime of its own then. If it is not taken once more,
it is a dead letter again, with a new number.
Exit status: 0 done, or there was none; 1 not, or one that is named was not
there; 2 wrong usage.";

const RM_EXAMPLES: &str = "\
Examples:
  campanile dead rm -c 3 4711
  campanile dead rm -c 3 --consumer 12 --yes
  campanile dead rm --all --yes

Asks for confirmation; without a terminal that needs --yes.
Exit status: 0 gone, or there was none; 1 not, or one that is named was not
there; 2 wrong usage.";

/// `campanile dead …`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Show the dead letters
    #[command(after_help = LS_EXAMPLES)]
    Ls(DeadOptions),
    /// Deliver some of them once more
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(DeadOptions),
    /// Remove some of them
    #[command(after_help = RM_EXAMPLES)]
    Rm(DeadRmOptions),
}

/// Which are meant: all conditions must hold.
#[derive(Debug, Args)]
pub(crate) struct DeadSelection {
    /// Only of this channel
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Only of the consumer at this proxy
    #[arg(long, value_name = "PROXY")]
    pub(crate) consumer: Option<u32>,
    /// Only these events, by their numbers in `campanile dead ls`
    #[arg(value_name = "NUMBER")]
    pub(crate) numbers: Vec<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) which: DeadSelection,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["channel", "consumer", "numbers", "all"]))]
pub(crate) struct DeadRmOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) which: DeadSelection,
    /// All dead letters
    #[arg(long, conflicts_with_all = ["channel", "consumer", "numbers"])]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
