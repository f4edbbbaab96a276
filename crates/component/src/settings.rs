//! Settings of servers, containers and ports.

use crate::notice::{Listener, Notice};
use crate::queue::QueueSettings;
use serde::Deserialize;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How a component that panicked is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The pause before the first restart; each further one doubles it. Default 100 ms.
    pub pause_first: Duration,
    /// The longest pause. Default 10 s.
    pub pause_max: Duration,
    /// Restarts before the instance stays failed. Default 10.
    pub restarts_max: u32,
    /// The time without a failure after which earlier ones do not count any more. Default 60 s.
    pub within: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
            restarts_max: 10,
            within: Duration::from_secs(60),
        }
    }
}

impl RestartPolicy {
    /// The pause after so many failures.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.pause_first.saturating_mul(doubled).min(self.pause_max)
    }
}

/// What gives the calling thread a real-time priority.
pub(crate) type Priorities = Arc<dyn Fn(i32) -> io::Result<()> + Send + Sync>;

/// Settings of a server.
#[derive(Clone)]
pub struct ServerSettings {
    pub(crate) restart: RestartPolicy,
    pub(crate) listener: Option<Listener>,
    pub(crate) priorities: Option<Priorities>,
    pub(crate) slow_after: Duration,
    pub(crate) answer_within: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            restart: RestartPolicy::default(),
            listener: None,
            priorities: None,
            slow_after: Duration::from_secs(1),
            answer_within: Duration::from_secs(10),
        }
    }
}

impl ServerSettings {
    /// With this restart policy.
    #[must_use]
    pub fn restart(mut self, restart: RestartPolicy) -> Self {
        self.restart = restart;
        self
    }

    /// With a function that is called for what happens to instances, beside the log. It runs on the instances' threads.
    #[must_use]
    pub fn on_notice(mut self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// With a function that gives the calling thread a real-time priority from 1 to 99, for lanes that have one. Without it, or where it
    /// fails, such lanes run at ordinary priority, and a line of the log says so.
    #[must_use]
    pub fn priorities(mut self, set: impl Fn(i32) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.priorities = Some(Arc::new(set));
        self
    }

    /// How long a handler may run before that is reported. Default 1 s.
    #[must_use]
    pub fn slow_after(mut self, limit: Duration) -> Self {
        self.slow_after = limit;
        self
    }

    /// How long a lane may take to answer a command: [`Error::Busy`](crate::Error::Busy). Default 10 s.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { restart, slow_after, answer_within, .. } = self;
        f.debug_struct("ServerSettings")
            .field("restart", restart)
            .field("slow_after", slow_after)
            .field("answer_within", answer_within)
            .finish_non_exhaustive()
    }
}

/// Settings of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortSettings {
    /// The queue: without one, events of the same lane are handled by their sender. Between lanes there is always one.
    #[serde(rename = "qos")]
    pub queue: Option<QueueSettings>,
    /// The filter, in the Extended Trader Constraint Language: `$brightness > 0.5`.
    pub when: Option<String>,
}

/// Where an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement<'p> {
    /// The container; `None` for the first one, which is made with one lane if there is none.
    pub container: Option<&'p str>,
    /// The lane, by its priority; `None` for the first one.
    pub lane: Option<i32>,
}
