//! Waiting for readers.

use std::sync::Arc;
use std::time::Duration;

use crate::endpoints::Reader;
use crate::error::{Code, Error};
use crate::participant::Participant;
use crate::qos::nanoseconds;
use crate::raw::Entity;

/// The token of the waker, which no reader has.
const WOKEN: u64 = u64::MAX;
/// The token of what is discovered.
const DISCOVERED: u64 = u64::MAX - 1;
/// How many tokens one wait reports.
const REPORTED_MAX: usize = 64;

/// Waits until one of several readers has something to take, or somebody wakes it.
#[derive(Debug)]
pub struct WaitSet {
    // In the order in which they are to go.
    conditions: Vec<Entity>,
    /// Readers of who has come and gone, for nothing but that this is news.
    news: Vec<Entity>,
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
        // Fails only when the set is gone, and then nobody waits.
        let _gone = self.0.entity.set_guard(true);
    }
}

/// Why a wait returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// Somebody has called [`Waker::wake`].
    pub by_waker: bool,
    /// Somebody in the domain has come, changed or gone: [`Participant::endpoints`].
    pub by_discovery: bool,
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
        self.set.attach(&condition, token.min(DISCOVERED - 1)).map_err(failed())?;
        self.conditions.push(condition);
        Ok(())
    }

    /// Waits for changes in who is there, too. Those until then are reported once; so is who is there now.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn attach_discovery(&mut self) -> Result<(), Error> {
        let failed = || Error::cyclone("wait for discovery");
        // Of its own: what another has read, who asks for all that there are, too, is no news any more.
        for is_writers in [true, false] {
            let builtin = self.guard.participant.raw().builtin(is_writers).map_err(failed())?;
            let condition = builtin.news_condition().map_err(failed())?;
            self.set.attach(&condition, DISCOVERED).map_err(failed())?;
            self.conditions.push(condition);
            self.news.push(builtin);
        }
        Ok(())
    }

    /// Waits, for ever without a `timeout`, and puts the tokens of readers that have something into `tokens`, at most 60.
    ///
    /// # Errors
    /// Cyclone could not.
    pub fn wait(&self, timeout: Option<Duration>, tokens: &mut Vec<u64>) -> Result<Woken, Error> {
        tokens.clear();
        let mut reported = [0; REPORTED_MAX];
        let count = match self.set.wait(&mut reported, timeout.map_or(i64::MAX, nanoseconds)) {
            Ok(count) => count,
            Err(Code::TIMEOUT) => 0,
            Err(code) => return Err(Error::Cyclone { what: "wait", code }),
        };
        let mut woken = Woken::default();
        for &token in reported.iter().take(count) {
            match token {
                WOKEN => woken.by_waker = true,
                DISCOVERED => woken.by_discovery = true,
                token => tokens.push(token),
            }
        }
        if woken.by_discovery {
            self.news.iter().try_for_each(Entity::take_news).map_err(Error::cyclone("wait for discovery"))?;
        }
        if woken.by_waker {
            self.guard.entity.set_guard(false).map_err(Error::cyclone("wait"))?;
        }
        Ok(woken)
    }
}
