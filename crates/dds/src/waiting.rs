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
/// The token of discovery.
const DISCOVERED: u64 = u64::MAX - 1;

/// Waits until one of several readers has something to take, or until it is woken.
#[derive(Debug)]
pub struct WaitSet {
    // In the order in which they are to go.
    /// Conditions of the readers, with their tokens.
    conditions: Vec<(u64, Entity)>,
    /// Discovery: a condition, the reader that only serves it, and the role of the endpoints.
    news: Vec<(Entity, Entity, Role)>,
    set: Entity,
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    entity: Entity,
    /// The participant, which outlives its parts.
    participant: Participant,
}

/// Wakes a [`WaitSet`], from any thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Guard>);

impl Waker {
    /// Makes the current wait, or else the next, return at once.
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
    /// An endpoint in the domain has appeared, changed or gone: [`Participant::endpoints`].
    pub by_discovery: bool,
}

/// A change of an endpoint.
#[derive(Clone, Debug)]
pub enum News {
    /// The endpoint has appeared or changed.
    Found(Box<Endpoint>),
    /// The endpoint is gone.
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

    /// A waker of this wait set.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.guard))
    }

    /// Adds a reader to the wait, and reports `token` while it has untaken samples. The two highest numbers are reserved.
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

    /// Removes the readers with this token.
    pub fn detach(&mut self, token: u64) {
        // A condition that goes leaves the set.
        self.conditions.retain(|(of, _)| *of != token);
    }

    /// Adds discovery to the wait. Changes so far, the endpoints that exist now included, are reported once.
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

    /// Waits, for ever without a `timeout`, and puts the tokens of all readers with samples into `tokens`.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn wait(&self, timeout: Option<Duration>, tokens: &mut Vec<u64>) -> Result<Woken, Error> {
        self.wait_for_news(timeout, tokens, |_| ())
    }

    /// Waits as [`wait`](Self::wait) does, and shows each application's endpoint that has appeared, changed or gone since the last call,
    /// once each.
    ///
    /// # Errors
    /// The same as of [`wait`](Self::wait).
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
