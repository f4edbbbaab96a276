//! Requests of the embedding program to administration.

use core::fmt;
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::admin::operators::Operators;
use crate::admin::values::{Answer, Command, Declined, Query};
use crate::config::{Config, ConfigError};
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::ToAdministration;
use crate::start::Service;
use accounts::Principal;

/// Maximum messages of the program that wait for administration: one of each of its requesting threads.
pub(crate) const MESSAGES_MAX: usize = 64;

impl Service {
    /// Queries administration, and waits for the answer: a moment, or a few rounds if lanes are surveyed.
    ///
    /// # Errors
    /// The service is about to end, or too many threads ask.
    pub fn ask(&self, query: Query) -> Result<Answer, Declined> {
        self.asker().ask(&Principal::Service, query, None)
    }

    /// Has administration carry out a command, and waits until its effects are published, and until the clients that it concerns are
    /// notified, for a second at most.
    ///
    /// # Errors
    /// The service is about to end, or too many threads ask.
    pub fn command(&self, command: Command) -> Result<Answer, Declined> {
        self.asker().command(&Principal::Service, command, None)
    }

    /// Handle that says whether the service is alive, also while it ends.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        Liveness(Arc::clone(&self.administration))
    }

    /// Replaces the rules of access and the tokens by those of this configuration, also for connected clients. A client that has shown a
    /// token which is gone keeps its name until it disconnects. Returns warnings about them.
    ///
    /// # Errors
    /// The new rules are invalid, and the earlier ones stay; or the service is about to end.
    pub fn reload_access(&self, config: &Config) -> Result<Vec<String>, NotReloaded> {
        let (rules, tokens) = (config.access_rules()?, config.read_tokens()?);
        self.command(Command::SetAccess(rules)).map_err(NotReloaded::Declined)?;
        self.known.tokens.store(Arc::new(tokens));
        Ok(config.access_warnings())
    }

    /// Replaces the configured names of clients that give no name themselves, also of connected ones.
    ///
    /// # Errors
    /// A name is invalid, or administration does not take them; then nothing is changed.
    pub fn reload_client_names(&self, config: &Config) -> Result<(), NotReloaded> {
        let names = Arc::new(config.client_names()?);
        let before = self.known.client_names.swap(Arc::clone(&names));
        let renamed = self.command(Command::SetClientNames(names)).map_err(NotReloaded::Declined);
        renamed.map(drop).inspect_err(|_| self.known.client_names.store(before))
    }

    /// Identification of operators over HTTP, and their access to events.
    #[must_use]
    pub fn operators(&self) -> Operators {
        Operators { known: self.known.clone(), administration: Arc::clone(&self.administration) }
    }

    /// Handle that queries administration on behalf of any principal: on any thread, also while the service ends.
    #[must_use]
    pub fn asker(&self) -> Asker {
        Asker(Arc::clone(&self.administration))
    }
}

/// Handle that asks administration on behalf of a principal.
#[derive(Clone)]
pub struct Asker(Arc<Mutex<Mailbox<ToAdministration>>>);

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asker").finish_non_exhaustive()
    }
}

impl Asker {
    /// Queries administration as [`Service::ask`] does, for a principal and for a limited time.
    ///
    /// # Errors
    /// The service is about to end, or too many threads ask, or there is no answer in time.
    pub fn ask(&self, by: &Principal, query: Query, within: Option<Duration>) -> Result<Answer, Declined> {
        self.consult(within, |to| ToAdministration::Query(query, to, by.clone()))
    }

    /// Has a command carried out as [`Service::command`] does, for a principal and for a limited time.
    ///
    /// # Errors
    /// The service is about to end, or too many threads ask, or there is no answer in time.
    pub fn command(&self, by: &Principal, command: Command, within: Option<Duration>) -> Result<Answer, Declined> {
        self.consult(within, |to| ToAdministration::Command(command, to, by.clone()))
    }

    fn consult(
        &self,
        within: Option<Duration>,
        message: impl FnOnce(SyncSender<Result<Answer, Declined>>) -> ToAdministration,
    ) -> Result<Answer, Declined> {
        consult(&self.0, within, message)
    }
}

/// Posts a message and waits for its answer.
pub(crate) fn consult(
    administration: &Mutex<Mailbox<ToAdministration>>,
    within: Option<Duration>,
    message: impl FnOnce(SyncSender<Result<Answer, Declined>>) -> ToAdministration,
) -> Result<Answer, Declined> {
    let reply = send(administration, message)?;
    // Administration has ended if there is no answer and none to come.
    match within {
        None => reply.recv().unwrap_or(Err(Declined::Stopping)),
        Some(within) => reply.recv_timeout(within).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(Declined::NotInTime),
            RecvTimeoutError::Disconnected => Err(Declined::Stopping),
        }),
    }
}

/// Why the configuration was not replaced.
#[derive(Debug)]
pub enum NotReloaded {
    /// The new configuration is invalid.
    Config(ConfigError),
    /// Administration does not take it.
    Declined(Declined),
}

impl From<ConfigError> for NotReloaded {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl fmt::Display for NotReloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Declined(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for NotReloaded {}

type ReplyReceiver = Receiver<Result<Answer, Declined>>;

fn send(
    administration: &Mutex<Mailbox<ToAdministration>>,
    message: impl FnOnce(SyncSender<Result<Answer, Declined>>) -> ToAdministration,
) -> Result<ReplyReceiver, Declined> {
    let (to, reply) = sync_channel(1);
    let posted = administration.lock().unwrap_or_else(PoisonError::into_inner).send(message(to));
    posted.map_err(|_| Declined::NoResources)?;
    Ok(reply)
}

/// Handle that says whether a service is alive: for a watchdog.
#[derive(Clone)]
pub struct Liveness(Arc<Mutex<Mailbox<ToAdministration>>>);

impl fmt::Debug for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Liveness").finish_non_exhaustive()
    }
}

impl Liveness {
    /// Asks administration and, through it, each lane. True if all have answered within this time; or if the service has ended.
    #[must_use]
    pub fn ask(&self, within: Duration) -> bool {
        let has_ended = || self.0.lock().unwrap_or_else(PoisonError::into_inner).is_abandoned();
        if has_ended() {
            return true;
        }
        match send(&self.0, |to| ToAdministration::Query(Query::Progress, to, Principal::Service))
            .map(|reply| reply.recv_timeout(within))
        {
            Ok(Ok(_) | Err(RecvTimeoutError::Disconnected)) => true,
            // No answer, or no room, since what was posted long ago is not read.
            Ok(Err(RecvTimeoutError::Timeout)) | Err(_) => has_ended(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::io::net::Waker;
    use crate::lane::links::mailbox::mailbox;

    #[test]
    fn a_client_that_does_not_answer_in_time_does_not_go_on() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mailbox, mut inbox) = mailbox(&waker, MESSAGES_MAX);
        let liveness = Liveness(Arc::new(Mutex::new(mailbox)));
        // However often it is asked.
        (0..MESSAGES_MAX + 2).for_each(|_| assert!(!liveness.ask(Duration::from_millis(1))));
        while inbox.take().is_some() {}
        let asking = std::thread::spawn(move || liveness.ask(Duration::from_secs(60)));
        testing::wait_until("it to be asked", || match inbox.take() {
            Some(ToAdministration::Query(Query::Progress, to, _)) => to.send(Ok(Answer::Progress)).is_ok(),
            other => {
                assert!(other.is_none(), "{other:?}");
                false
            }
        });
        assert!(testing::EndInTime::end_in_time(asking));
    }
}
