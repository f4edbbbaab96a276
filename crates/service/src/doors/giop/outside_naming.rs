//! An outside naming service in which the factory is to be bound: tried again until it takes the name.

use core::time::Duration;
use std::sync::Arc;

use engine::Time;
use giop::ior::Ior;

use crate::announcement::Announcement;

/// One that cannot be reached is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// An outside naming service.
#[derive(Debug)]
pub(crate) struct OutsideNaming {
    url: String,
    /// The name that the factory gets there.
    name: String,
    pub(super) context: Ior,
    /// When to try next; nothing while a try is under way or after it succeeded.
    pub(super) due: Option<Time>,
    /// To be made when the name is bound.
    announcement: Arc<Announcement>,
}

impl OutsideNaming {
    /// One that is to be tried at once.
    pub(crate) const fn new(url: String, name: String, context: Ior, announcement: Arc<Announcement>) -> Self {
        Self { url, name, context, due: Some(Time(0)), announcement }
    }

    /// The name that the factory gets there.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A try has ended; if it failed, by this.
    pub(super) fn tried(&mut self, failure: Option<&dyn core::fmt::Display>, factory: &Ior, now: Time) {
        match failure {
            None => {
                log::info!("bound {} in {}", self.name, self.url);
                if let Err(error) = self.announcement.make(&factory.to_string()) {
                    log::error!("cannot write the reference file: {error}");
                }
            }
            Some(failure) => {
                let (url, name, retry) = (&self.url, &self.name, RETRY.as_secs());
                log::warn!("cannot bind {name} in {url} ({failure}); next try in {retry} s");
                self.due = Some(now + RETRY);
            }
        }
    }
}
