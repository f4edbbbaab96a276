//! The life of an instance: its states, the steps between them, and what a component does at each.

use crate::error::Failure;
use crate::port::Ports;
use std::fmt;

/// The state of an instance.
///
/// | from | [`Connect`](Step::Connect) | [`Activate`](Step::Activate) | [`Passivate`](Step::Passivate) | [`Remove`](Step::Remove) |
/// |---|---|---|---|---|
/// | configured | connected | | | removed |
/// | connected | | activated | | removed |
/// | activated | | | passivated | |
/// | passivated | | activated | | removed |
/// | failed | | activated | | removed |
///
/// What has no entry is refused with [`Error::Life`](crate::Error::Life), and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Life {
    /// The component is there and has its properties.
    Configured,
    /// All connections that were to be made before the start are made.
    Connected,
    /// Events are delivered, and may be sent.
    Activated,
    /// No events are delivered, and none may be sent, until the instance is activated again.
    Passivated,
    /// The component panicked. It is made again after a pause, unless it did so too often.
    Failed,
    /// The component is gone.
    Removed,
}

/// A step in the life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// From configured to connected.
    Connect,
    /// To activated: from connected or passivated, or from failed, without waiting for the pause.
    Activate,
    /// From activated to passivated.
    Passivate,
    /// To removed, from all but activated.
    Remove,
}

impl Life {
    /// The state after a step; `None` if the step cannot be taken.
    #[must_use]
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Configured, Step::Connect) => Some(Self::Connected),
            (Self::Connected | Self::Passivated | Self::Failed, Step::Activate) => Some(Self::Activated),
            (Self::Activated, Step::Passivate) => Some(Self::Passivated),
            (Self::Configured | Self::Connected | Self::Passivated | Self::Failed, Step::Remove) => Some(Self::Removed),
            _ => None,
        }
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured",
            Self::Connected => "connected",
            Self::Activated => "activated",
            Self::Passivated => "passivated",
            Self::Failed => "failed",
            Self::Removed => "removed",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Activate => "activate",
            Self::Passivate => "passivate",
            Self::Remove => "remove",
        })
    }
}

/// What a component does at the steps of its life. Each default does nothing.
///
/// `#[component]` implements this trait without any code; `#[component(lifecycle)]` leaves that to the component. Each method runs on the
/// lane of the instance. One that answers a failure has the step refused, and the instance stays in the state before.
pub trait Lifecycle {
    /// The properties are there; connections are not.
    ///
    /// # Errors
    /// The instance is not made.
    fn on_configured(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Connections are made; nothing can be sent.
    ///
    /// # Errors
    /// The instance stays configured.
    fn on_connected(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Events come from now on, and can be sent.
    ///
    /// # Errors
    /// The instance stays as it was.
    fn on_activated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// No more events come. The last ones can be sent from here.
    ///
    /// # Errors
    /// The instance stays active.
    fn on_passivated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// The component is dropped next, whatever is answered. Nothing can be sent.
    ///
    /// # Errors
    /// The failure is logged.
    fn on_removed(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        Ok(())
    }
}
