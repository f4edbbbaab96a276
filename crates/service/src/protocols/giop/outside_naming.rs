//! An outside naming service in which the factory is bound, and declared channels beside it: tried again until it takes the names.

use core::time::Duration;
use std::sync::Arc;

use engine::Time;
use giop::ior::Ior;

use crate::announcement::Announcement;

/// Interval of attempts at a service that cannot be reached.
const RETRY: Duration = Duration::from_secs(5);

/// An outside naming service.
#[derive(Debug)]
pub(crate) struct OutsideNaming {
    url: String,
    /// Name for the factory.
    name: String,
    /// Names of declared channels to bind before the factory.
    channels: Vec<String>,
    /// Number of these that are bound.
    bound: usize,
    pub(super) context: Ior,
    /// Time of the next attempt; `None` while one is under way or after success.
    pub(super) due: Option<Time>,
    /// Announcement to make when the factory is bound.
    announcement: Arc<Announcement>,
}

impl OutsideNaming {
    /// A service that is tried at once.
    pub(crate) fn new(
        url: String,
        (name, channels): (String, Vec<String>),
        context: Ior,
        announcement: Arc<Announcement>,
    ) -> Self {
        Self { url, name, channels, bound: 0, context, due: Some(Time(0)), announcement }
    }

    /// The name of the next channel to bind; `None` if the factory is next.
    pub(super) fn channel(&self) -> Option<&str> {
        self.channels.get(self.bound).map(String::as_str)
    }

    /// The next name to bind.
    pub(super) fn name(&self) -> &str {
        self.channel().unwrap_or(&self.name)
    }

    /// Skips a channel that does not exist any more.
    pub(super) fn pass(&mut self) {
        self.bound += 1;
    }

    /// Handles the end of an attempt; `failure` says why it failed.
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
