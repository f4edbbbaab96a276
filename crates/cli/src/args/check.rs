//! Options of `campanile check`.

use super::{ChannelArg, ServerOptions, seconds};
use clap::Args;
use std::str::FromStr;
use std::time::Duration;

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  campanile check
  campanile check --slow 1,10 --backlog 1000,100000 --oldest 10,60
  campanile check --server notify.example.org --held 1 --dropped 1,100 --timeout 10

As a command of Nagios or Icinga:
  define command {
    command_name  check_campanile
    command_line  /usr/bin/campanile check --server $HOSTADDRESS$ --slow 1,10 --held 1
  }

Each threshold is WARNING or WARNING,CRITICAL: reached is enough. The first line
says what is wrong, and behind the bar all figures as performance data; lines
below it name the consumers, those with the most waiting first.
Exit status: 0 well; 1 warning; 2 critical, also if the service does not answer;
3 unknown, also for wrong usage and for services that are not Campanile.";

/// From which figure on a check warns, and from which on it is critical.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) warning: f64,
    pub(crate) critical: Option<f64>,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err("expected WARNING or WARNING,CRITICAL, two numbers".to_owned()),
        };
        let (warning, critical) = match text.split_once(',') {
            Some((warning, critical)) => (number(warning)?, Some(number(critical)?)),
            None => (number(text)?, None),
        };
        if critical.is_some_and(|critical| critical < warning) {
            return Err("the critical figure is below the warning".to_owned());
        }
        Ok(Self { warning, critical })
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Only this channel
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Consumers that are behind: with --slow-events waiting or more, or retrying, or with a full socket
    #[arg(long, value_name = "W[,C]", default_value = "1")]
    pub(crate) slow: Threshold,
    /// From how many waiting events on a consumer counts as slow
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) slow_events: u64,
    /// Consumers that block suppliers
    #[arg(long = "held", value_name = "W[,C]", default_value = "1,1")]
    pub(crate) blocked: Threshold,
    /// Consumers that cannot be reached for more than a minute, and stay
    #[arg(long, value_name = "W[,C]", default_value = "1")]
    pub(crate) unreachable: Threshold,
    /// Dead letters: events that a consumer never took (`campanile dead ls`)
    #[arg(long, value_name = "W[,C]", default_value = "1")]
    pub(crate) dead_letters: Threshold,
    /// Events that wait, of all consumers
    #[arg(long, value_name = "W[,C]")]
    pub(crate) backlog: Option<Threshold>,
    /// Age of the oldest event that waits, in seconds
    #[arg(long, value_name = "W[,C]")]
    pub(crate) oldest: Option<Threshold>,
    /// Events dropped within the interval
    #[arg(long, value_name = "W[,C]", default_value = "1")]
    pub(crate) dropped: Threshold,
    /// Seconds over which what is dropped is counted
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
}
