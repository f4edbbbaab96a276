//! An outside naming service in which the factory is to be bound, and declared channels beside it: tried again until it takes the names.

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
    /// Names of declared channels that are bound there in front of the factory.
    channels: Vec<String>,
    /// How many of these are bound.
    bound: usize,
    pub(super) context: Ior,
    /// When to try next; nothing while a try is under way or after it succeeded.
    pub(super) due: Option<Time>,
    /// To be made when the name is bound.
    announcement: Arc<Announcement>,
}

impl OutsideNaming {
    /// One that is to be tried at once.
    pub(crate) fn new(
        url: String,
        (name, channels): (String, Vec<String>),
        context: Ior,
        announcement: Arc<Announcement>,
    ) -> Self {
        Self { url, name, channels, bound: 0, context, due: Some(Time(0)), announcement }
    }

    /// The name of the channel that is to be bound next; nothing where it is the factory's turn.
    pub(super) fn channel(&self) -> Option<&str> {
        self.channels.get(self.bound).map(String::as_str)
    }

    /// The name that is to be bound next.
    pub(super) fn name(&self) -> &str {
        self.channel().unwrap_or(&self.name)
    }

    /// Leaves a channel out that is no longer there.
    pub(super) fn pass(&mut self) {
        self.bound += 1;
    }

    /// A try has ended; if it failed, by this.
    pub(super) fn tried(&mut self, failure: Option<&dyn core::fmt::Display>, factory: &Ior, now: Time) {
        match failure {
            None if self.channel().is_some() => {
                log::info!("bound {} in {}", self.name(), self.url);
                self.bound += 1;
                self.due = Some(now);
            }
            None => {
                log::info!("bound {} in {}", self.name, self.url);
                if let Err(error) = self.announcement.make(&factory.to_string()) {
                    log::error!("cannot write the reference file: {error}");
                }
            }
            Some(failure) => {
                let (url, name, retry) = (&self.url, self.name(), RETRY.as_secs());
                log::warn!("cannot bind {name} in {url} ({failure}); next try in {retry} s");
                self.due = Some(now + RETRY);
            }
        }
    }
}
