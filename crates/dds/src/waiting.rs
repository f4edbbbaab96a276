//! Waiting for readers.

use std::sync::Arc;
use std::time::Duration;

use crate::endpoints::Reader;
use crate::error::{Code, Error};
use crate::participant::{BUILT_IN_PARTITION, Endpoint, Guid, Participant, Role};
use crate::qos::nanoseconds;
use crate::raw::{Builtin, Entity};

/// The token of the waker, which no reader has.
const WOKEN: u64 = u64::MAX;
/// The token of what is discovered.
const DISCOVERED: u64 = u64::MAX - 1;

/// Waits until one of several readers has something to take, or until it is woken.
#[derive(Debug)]
pub struct WaitSet {
    // In the order in which they are to go.
    /// Of readers, with their tokens.
    conditions: Vec<(u64, Entity)>,
    /// Conditions for news of endpoints that have come or gone, and readers for nothing but that, with the role of the endpoints.
    news: Vec<(Entity, Entity, Role)>,
    set: Entity,
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    entity: Entity,
    /// Which outlives what is part of it.
    participant: Participant,
}

/// Wakes a [`WaitSet`], from any thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Guard>);

impl Waker {
    /// Has the wait that goes on, or else the next, return at once.
    pub fn wake(&self) {
        // Fails only when the set is gone, and then no thread waits.
        let _gone = self.0.entity.set_guard(true);
    }
}

/// Why a wait returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// [`Waker::wake`] was called.
    pub by_waker: bool,
    /// An endpoint in the domain has come, changed or gone: [`Participant::endpoints`].
    pub by_discovery: bool,
}

/// What is new of an endpoint.
#[derive(Clone, Debug)]
pub enum News {
    /// It has come, or changed.
    Found(Box<Endpoint>),
    /// It is gone.
    Gone(Guid),
}

impl WaitSet {
    pub(crate) fn new(participant: Participant) -> Result<Self, Error> {
        let failed = || Error::cyclone("make a wait set");
        let set = participant.raw().waitset().map_err(failed())?;
        let entity = participant.raw().guard().map_err(failed())?;
        set.attach(&entity, WOKEN).map_err(failed())?;
        Ok(Self { conditions: Vec::new(), news: Vec::new(), set, guard: Arc::new(Guard { entity, participant }) })
    }

    /// What wakes it.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.guard))
    }

    /// Waits for this reader, too, and reports `token` when it has something, until all of it is taken. The two highest
    /// numbers are not for readers.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn attach(&mut self, reader: &Reader, token: u64) -> Result<(), Error> {
        let failed = || Error::cyclone("wait for a reader");
        let condition = reader.entity.data_condition().map_err(failed())?;
        let token = token.min(DISCOVERED - 1);
        self.set.attach(&condition, token).map_err(failed())?;
        self.conditions.push((token, condition));
        Ok(())
    }

    /// Waits no more for the readers with this token.
    pub fn detach(&mut self, token: u64) {
        // A condition that goes leaves the set.
        self.conditions.retain(|(of, _)| *of != token);
    }

    /// Waits for endpoints that come, change or go, too. Those until then are reported once, and so are those that are
    /// there now.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn attach_discovery(&mut self) -> Result<(), Error> {
        let failed = || Error::cyclone("wait for discovery");
        // Readers of its own: what another has read, in listing all endpoints, is no news any more.
        for (of, role) in [(Builtin::Writers, Role::Writer), (Builtin::Readers, Role::Reader)] {
            let builtin = self.guard.participant.raw().builtin(of).map_err(failed())?;
            let condition = builtin.news_condition().map_err(failed())?;
            self.set.attach(&condition, DISCOVERED).map_err(failed())?;
            self.news.push((condition, builtin, role));
        }
        Ok(())
    }

    /// Waits, for ever without a `timeout`, and puts the tokens of all readers that have something into `tokens`.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn wait(&self, timeout: Option<Duration>, tokens: &mut Vec<u64>) -> Result<Woken, Error> {
        self.wait_for_news(timeout, tokens, |_| ())
    }

    /// The same, and shows each endpoint that has come, changed or gone since the last time, applications' alone: each once, however many there
    /// are.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for_news(
        &self,
        timeout: Option<Duration>,
        tokens: &mut Vec<u64>,
        mut visit: impl FnMut(News),
    ) -> Result<Woken, Error> {
        // Room for all: of those that always have something, the same ones would be reported each time.
        tokens.resize(self.conditions.len() + self.news.len() + 1, 0);
        let outcome = self.set.wait(tokens, timeout.map_or(i64::MAX, nanoseconds));
        tokens.truncate(*outcome.as_ref().unwrap_or(&0));
        if let Err(code) = outcome
            && code != Code::TIMEOUT
        {
            return Err(Error::Cyclone { what: "wait", code });
        }
        let mut woken = Woken::default();
        tokens.retain(|token| {
            woken.by_waker |= *token == WOKEN;
            woken.by_discovery |= *token == DISCOVERED;
            *token < DISCOVERED
        });
        if woken.by_discovery {
            for (_, builtin, role) in &self.news {
                let show = |found: crate::raw::RawFound<'_>| {
                    if found.is_gone {
                        visit(News::Gone(Guid(found.key)));
                    } else if !found.partitions.iter().any(|partition| partition == BUILT_IN_PARTITION) {
                        visit(News::Found(Box::new(Endpoint::of(*role, found))));
                    }
                };
                builtin.take_news(show).map_err(Error::cyclone("wait for discovery"))?;
            }
        }
        if woken.by_waker {
            self.guard.entity.set_guard(false).map_err(Error::cyclone("wait"))?;
        }
        Ok(woken)
    }
}
