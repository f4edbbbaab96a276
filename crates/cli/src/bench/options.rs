//! What a person can ask of `campanile bench`.

use load::{CarriageOptions, ReportOptions};

/// `campanile bench …`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run a telescope's monitor system: 50 suppliers of 34 KB at 2 Hz, beside plain sockets
    #[command(after_help = MONITOR_EXAMPLES)]
    Monitor(MonitorOptions),
    /// Send events through a running service, on a channel of their own, and measure how long they take
    #[command(after_help = LATENCY_EXAMPLES)]
    Latency(LatencyOptions),
}

const LATENCY_EXAMPLES: &str = "\
Examples:
  campanile bench latency                         the local service: 250 events a second of 128 B, for 10 s
  campanile bench latency --rate 10000 --bytes 8192 --consumers 10
  campanile bench latency --suppliers 20 --rate 100000        as many as get through, each push answered
  campanile bench latency --server events.example.org:2809 --json | jq '.run.traffics[0].latency'

Suppliers and consumers are here, so that one clock tells both ends; a service on
another machine has to reach this one. The channel is destroyed at the end.
Exit status: 0 every event came to every consumer; 1 one did not; 2 wrong usage.";

/// Options of `campanile bench latency`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LatencyOptions {
    /// The service, as for other commands [default: $CAMPANILE_SERVER, that of the context in use, or the local service]
    #[arg(long, short = 's', value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// Suppliers, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) suppliers: u32,
    /// Consumers, each given every event
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) consumers: u32,
    /// Events per second of each supplier; the next leaves when the push before has returned, whatever is asked for
    #[arg(long, value_name = "HZ", default_value_t = 250.0)]
    pub(crate) rate: f64,
    /// Payload of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=8_388_608))]
    pub(crate) bytes: u32,
    /// Seconds that are measured, after one that is not
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) duration: f64,
    /// How events travel
    #[command(flatten)]
    pub(crate) carriage: CarriageOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

pub(crate) const MONITOR_EXAMPLES: &str = "\
Examples:
  campanile bench monitor                         one consumer, staggered by 5 ms, 10 s
  campanile bench monitor --consumers 3 --bytes 23552
  campanile bench monitor --pull --timeout 1      as the memorandum's consumer: it pulls, and events expire
  campanile bench monitor --paper                 every case of the CARMA memorandum's tables 1 to 3
  campanile bench monitor --json > monitor.json";

/// Options of `campanile bench monitor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MonitorOptions {
    /// Suppliers, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) suppliers: u32,
    /// Payload of an event in bytes (34 KB is 34 816, 23 KB is 23 552)
    #[arg(long, value_name = "BYTES", default_value_t = 34 * 1024, value_parser = clap::value_parser!(u32).range(64..=8_388_608))]
    pub(crate) bytes: u32,
    /// Events per second of each supplier
    #[arg(long, value_name = "HZ", default_value_t = 2.0)]
    pub(crate) rate: f64,
    /// Milliseconds from one supplier's turn to the next one's; 0 lets all push at the same moment
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    pub(crate) stagger_ms: f64,
    /// Consumers, each given every event
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) consumers: u32,
    /// Seconds of traffic for each row of the table
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) duration: f64,
    /// Run each case of the CARMA memorandum's tables 1 to 3 (staggered or not; 1 to 3 consumers; 34 and 23 KB)
    #[arg(long, conflicts_with_all = ["consumers", "bytes", "stagger_ms"])]
    pub(crate) paper: bool,
    /// Leave out the same traffic over plain sockets
    #[arg(long)]
    pub(crate) no_sockets: bool,
    /// How events travel
    #[command(flatten)]
    pub(crate) carriage: CarriageOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}
