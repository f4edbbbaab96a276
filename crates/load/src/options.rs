//! Options of traffic and reports, as plain structs that `clap` fills.

use std::path::PathBuf;

use crate::BenchError;

/// What every benchmark understands.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ReportOptions {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write the JSON object to this file
    #[arg(long, value_name = "PATH")]
    pub json_file: Option<PathBuf>,
}

/// How the service is asked to deliver.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct DeliveryOptions {
    /// Pushes that may be unanswered on one consumer (QoS `PushWindow`) [default: the service's, which is 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub push_window: Option<u16>,
}

/// The form in which events travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Anys
    Any,
    /// Structured events
    #[default]
    Structured,
    /// Sequences of structured events: each push has one, a consumer gets as many as the service gives
    Sequence,
}

/// How events travel through the service.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct CarriageOptions {
    /// The form in which suppliers push and consumers get events
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Structured)]
    pub form: Form,
    /// Consumers pull: each asks for the next event when it has the one before
    #[arg(long)]
    pub pull: bool,
    /// Seconds after which an event is no longer wanted (QoS `Timeout` of the suppliers) [default: none]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Refuses an invalid `Timeout`.
    #[command(flatten)]
    pub delivery: DeliveryOptions,
}

impl CarriageOptions {
    /// Refuses a `Timeout` that is none.
    pub fn check(&self) -> Result<(), BenchError> {
        match self.timeout {
            Some(seconds) if !(0.001..=1e6).contains(&seconds) => {
                Err(BenchError::Option { name: "--timeout", must_be: "from 0.001 to 1000000 seconds".into() })
            }
            _ => Ok(()),
        }
    }
}

/// Options of the hidden leashed process.
#[derive(Debug, Clone, clap::Args)]
pub struct LeashedOptions {
    /// The only core it may use
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Its real-time priority (`SCHED_FIFO`)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Another program to run than this one
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// The arguments to run it with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}
