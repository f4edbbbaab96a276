//! The process's participants, shared by suppliers and consumers.

use super::options;
use crate::error::Error;
use crate::settings::Settings;
use dds::{Options, Participant, Topic};
use giop::typecode::TypeCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static PARTICIPANTS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

struct Known {
    number: u64,
    /// Id of the process that made it.
    process: u32,
    domain: u32,
    options: Options,
    /// The name by which others see it.
    name: String,
    participant: Participant,
    since: Instant,
    users: usize,
}

/// A participant, while in use.
#[derive(Debug)]
pub(super) struct ParticipantHandle {
    number: u64,
    pub(super) participant: Participant,
    since: Instant,
}

fn known() -> MutexGuard<'static, Vec<Known>> {
    PARTICIPANTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ParticipantHandle {
    /// The process's participant in a domain.
    ///
    /// # Errors
    /// DDS cannot join it, or was started before the process was forked.
    pub(super) fn new(domain: u16, settings: &Settings) -> Result<Self, Error> {
        Self::with(domain, settings, |_| Ok(())).map(|(handle, ())| handle)
    }

    /// A topic of a type, from the participant that has it or can have it.
    ///
    /// # Errors
    /// The same as of [`new`](Self::new), and if DDS does not support the type.
    pub(super) fn with_topic(
        domain: u16,
        settings: &Settings,
        name: &str,
        of: &TypeCode,
    ) -> Result<(Self, Topic), Error> {
        Self::with(domain, settings, |participant| participant.topic(name, of))
    }

    /// The result of `make` for the first participant without a conflicting topic of that name.
    pub(super) fn with<T>(
        domain: u16,
        settings: &Settings,
        make: impl Fn(&Participant) -> Result<T, dds::Error>,
    ) -> Result<(Self, T), Error> {
        let (domain, options, process) = (u32::from(domain), options(settings), std::process::id());
        let name = settings.name.clone().unwrap_or_else(client::default_name);
        let mut known = known();
        if known.iter().any(|known| known.process != process) {
            return Err(Error::Forked);
        }
        let is_it = |known: &&mut Known| known.domain == domain && known.options == options && known.name == name;
        for known in known.iter_mut().filter(is_it) {
            match make(&known.participant) {
                Ok(made) => return Ok((known.handle(), made)),
                Err(dds::Error::TopicType { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let participant = Participant::called(domain, &options, &name)?;
        let made = make(&participant)?;
        let number = known.iter().map(|known| known.number + 1).max().unwrap_or(0);
        let since = Instant::now();
        let mut fresh = Known { number, process, domain, options, name, participant, since, users: 0 };
        let handle = fresh.handle();
        known.push(fresh);
        Ok((handle, made))
    }

    /// Waits until the existing participants have been found.
    pub(super) fn await_discovery(&self, settings: &Settings) {
        let needed = Duration::from_millis(settings.dds.discovery_ms.into());
        loop {
            let left = needed.saturating_sub(self.since.elapsed());
            if left.is_zero() {
                return;
            }
            super::pause(left);
        }
    }
}

impl Known {
    fn handle(&mut self) -> ParticipantHandle {
        self.users += 1;
        ParticipantHandle { number: self.number, participant: self.participant.clone(), since: self.since }
    }
}

impl Drop for ParticipantHandle {
    fn drop(&mut self) {
        let mut known = known();
        if let Some(place) = known.iter().position(|known| known.number == self.number)
            && let Some(found) = known.get_mut(place)
        {
            found.users -= 1;
            if found.users == 0 {
                known.swap_remove(place);
            }
        }
    }
}
