//! What follows from what was done to the objects, beside what is published and answered.

use core::time::Duration;
use std::net::IpAddr;

use engine::{ProxyKey, Side};

use crate::counters::Counter;
use crate::doors::{Call, ToDoor};

/// Something for administration to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The main lane is to make a call, under this number.
    Call(u64, Call),
    /// The main lane is to know this.
    Tell(ToDoor),
    /// A client could not be told something, as this line says.
    NotTold(String),
    /// A client was found dead and its proxy is gone.
    Reaped { proxy: ProxyKey, name: String, unreachable_for: Option<Duration> },
    /// A client that cannot be asked was not heard of for so long that it was disconnected.
    LetGo { proxy: ProxyKey, side: Side, address: Option<IpAddr>, idle: Duration },
    /// An operator has disconnected a client.
    Dismissed { name: String, by: String },
    /// A client that may has asked for the end of the service.
    End { by: IpAddr },
    /// A client came or went: a line for those who look for a mistake.
    Remark(String),
}

/// A line for the log about an effect: its level, its text, and what it is counted as.
pub(super) struct LogLine {
    pub(super) level: log::Level,
    pub(super) counter: Option<Counter>,
    pub(super) text: String,
}

impl Effect {
    /// What is said of it in the log, if that is all there is to do.
    pub(super) fn line(&self) -> Option<LogLine> {
        let (counter, text) = match self {
            Self::Call(..) | Self::Tell(_) | Self::Remark(_) => return None,
            Self::NotTold(text) => return Some(LogLine { level: log::Level::Info, counter: None, text: text.clone() }),
            Self::Reaped { proxy, name, unreachable_for } => {
                let why = match unreachable_for {
                    Some(time) => format!("it could not be reached for {} ms", time.as_millis()),
                    None => "it does not exist any more".into(),
                };
                (Counter::ClientsReaped, format!("disconnected {name} from {proxy}: {why}"))
            }
            Self::LetGo { proxy, side, address, idle } => {
                let (counter, what) = match side {
                    Side::Suppliers => (Counter::SuppliersIdle, "supplier"),
                    Side::Consumers => (Counter::ClientsReaped, "consumer"),
                };
                let whose = address.map_or_else(String::new, |address| format!(" of {address}"));
                let idle = idle.as_millis();
                (counter, format!("disconnected {what} {proxy}{whose}: idle for {idle} ms"))
            }
            Self::End { by } => {
                let text = format!("a client at {by} has asked for the end of the service (shutdown)");
                return Some(LogLine { level: log::Level::Warn, counter: None, text });
            }
            Self::Dismissed { name, by } => {
                (Counter::ClientsDismissed, format!("disconnected {name}: an operator has let it go ({by})"))
            }
        };
        Some(LogLine { level: log::Level::Warn, counter: Some(counter), text })
    }
}
