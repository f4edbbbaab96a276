//! Effects of changes to the objects, beside the publication and the answer.

use core::time::Duration;
use std::net::IpAddr;

use engine::{ProxyKey, Side};

use crate::counters::Counter;
use crate::protocols::{Call, ToProtocol};

/// An effect that administration carries out.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The main lane makes a call with this number.
    Call(u64, Call),
    /// The main lane gets this message for a protocol.
    Tell(ToProtocol),
    /// A client could not be notified, as this line says.
    NotificationFailed(String),
    /// A client was found dead and its proxy is gone.
    Reaped { proxy: ProxyKey, name: String, unreachable_for: Option<Duration> },
    /// A client has been unreachable for a minute; its proxy stays.
    Unreachable { proxy: ProxyKey, name: String, unreachable_for: Duration, left: Option<Duration> },
    /// An unreachable client has answered again.
    Reached { proxy: ProxyKey, name: String, after: Duration },
    /// A client that cannot be probed was silent for so long that it was disconnected.
    IdleDisconnected { proxy: ProxyKey, side: Side, address: Option<IpAddr>, idle: Duration },
    /// An operator has disconnected a client.
    Dismissed { name: String, by: String },
    /// `Persistent` was set without a store, for the first time or again.
    WithoutStore { of: String, by: Option<IpAddr>, is_first: bool },
    /// A client has connected that can hardly be called: a line for the log, if none was logged of it yet.
    Hidden(Option<String>),
    /// A client with that right has requested the end of the service.
    End { by: IpAddr },
    /// A client came or went: a line for debugging.
    DebugLine(String),
}

/// A line for the log about an effect: its level, its text, and what it is counted as.
pub(super) struct LogLine {
    pub(super) level: log::Level,
    pub(super) counter: Option<Counter>,
    pub(super) text: String,
}

impl Effect {
    /// The log line, if the effect is only logged.
    pub(super) fn line(&self) -> Option<LogLine> {
        let (counter, text) = match self {
            Self::Call(..)
            | Self::Tell(_)
            | Self::DebugLine(_)
            | Self::WithoutStore { is_first: false, .. }
            | Self::Hidden(None) => return None,
            Self::WithoutStore { of, by, is_first: true } => {
                let by = by.map_or_else(String::new, |by| format!(" ({by})"));
                let text =
                    format!("Persistent of {of}{by} has no effect: there is no store; further ones are only counted");
                return Some(LogLine { level: log::Level::Info, counter: None, text });
            }
            Self::NotificationFailed(text) | Self::Hidden(Some(text)) => {
                return Some(LogLine { level: log::Level::Info, counter: None, text: text.clone() });
            }
            Self::Reaped { proxy, name, unreachable_for } => {
                let why = match unreachable_for {
                    Some(time) => format!("it could not be reached for {} ms", time.as_millis()),
                    None => "it does not exist any more".into(),
                };
                (Counter::ClientsReaped, format!("disconnected {name} from {proxy}: {why}"))
            }
            Self::Unreachable { proxy, name, unreachable_for, left } => {
                let end = match left {
                    Some(left) => format!("it is disconnected after {} s more", left.as_secs()),
                    None => "it stays until an operator disconnects it".into(),
                };
                let seconds = unreachable_for.as_secs();
                (
                    Counter::ClientsFoundUnreachable,
                    format!("{name} of {proxy} cannot be reached for {seconds} s: {end}"),
                )
            }
            Self::Reached { proxy, name, after } => {
                let text = format!("{name} of {proxy} is reached again, after {} s", after.as_secs());
                return Some(LogLine { level: log::Level::Info, counter: None, text });
            }
            Self::IdleDisconnected { proxy, side, address, idle } => {
                let (counter, what) = match side {
                    Side::Suppliers => (Counter::SuppliersIdle, "supplier"),
                    Side::Consumers => (Counter::ClientsReaped, "consumer"),
                };
                let whose = address.map_or_else(String::new, |address| format!(" of {address}"));
                let idle = idle.as_millis();
                (counter, format!("disconnected {what} {proxy}{whose}: idle for {idle} ms"))
            }
            Self::End { by } => {
                let text = format!("a client at {by} requested the end of the service (shutdown)");
                return Some(LogLine { level: log::Level::Warn, counter: None, text });
            }
            Self::Dismissed { name, by } => {
                (Counter::ClientsDismissed, format!("disconnected {name}: an operator disconnected it ({by})"))
            }
        };
        Some(LogLine { level: log::Level::Warn, counter: Some(counter), text })
    }
}

#[cfg(test)]
mod tests {
    use engine::{ChannelId, ProxyId};

    use super::*;

    #[test]
    fn a_client_out_of_reach_is_announced_as_the_handbook_says_and_counted() {
        let handbook = include_str!("../../../../docs/operating-reference.md");
        let (proxy, name) =
            (ProxyKey { channel: ChannelId(0), proxy: ProxyId(12) }, "10.0.0.7:4711 Consumer7".to_owned());
        let minute = Duration::from_secs(60);
        let of =
            |left| Effect::Unreachable { proxy, name: name.clone(), unreachable_for: minute, left }.line().unwrap();
        let (limited, endless) = (of(Some(minute)), of(None));
        assert_eq!(limited.counter, Some(Counter::ClientsFoundUnreachable));
        let (_, said) = limited.text.split_once(" cannot be reached for 60 s: ").unwrap();
        assert_eq!(said, "it is disconnected after 60 s more");
        assert!(endless.text.ends_with(" cannot be reached for 60 s: it stays until an operator disconnects it"));
        let again = Effect::Reached { proxy, name, after: minute }.line().unwrap();
        assert_eq!((again.level, again.counter), (log::Level::Info, None));
        assert!(again.text.ends_with(" is reached again, after 60 s"), "{}", again.text);
        let without = |is_first| Effect::WithoutStore { of: "channel 7".into(), by: None, is_first }.line();
        let line = without(true).unwrap();
        assert_eq!(
            line.text,
            "Persistent of channel 7 has no effect: there is no store; further ones are only counted"
        );
        assert!(without(false).is_none());
        assert!(handbook.contains("| `Persistent of … has no effect: there is no store; …` |"));
        for form in ["| `… cannot be reached for … s: …` |", "| `… is reached again, after … s` |"] {
            assert!(handbook.contains(form), "{form}");
        }
    }
}
