//! Destruction of channels and admins: they disappear at once for all clients with everything in them, and are removed in chunks, between
//! other clients' requests. The request is answered when nothing is left and the clients of its proxies have been notified, or after a
//! second ([`DelayedReplies`]).
//!
//! Programs destroy a channel and check at once whether their consumers were disconnected, or end: JacORB's own tests do, and its service
//! and TAO's notify the clients first. A client that does not answer delays the reply by a second at most.
//!
//! Objects made by a request can be removed again in the same way: if the disk does not take them in time, the client gets no reference to
//! them, and no other client knows their owner.

use super::clients::Tell;
use super::{Named, Protocol, Thing};
use crate::exceptions::Raised;
use crate::table::AdminKey;
use engine::{ChannelId, FilterTarget, Hierarchy, Removal, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Longest wait for clients to be notified.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum requests that wait at once; further ones are answered without waiting.
const WAITING_MAX: usize = 256;

/// A request answered after clients have been notified of its effect. Opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayedReply(u64);

/// The clients that requests wait for.
#[derive(Debug, Default)]
pub struct DelayedReplies {
    now: Time,
    next: u64,
    /// The wait of the current request, and its number of items.
    begun: Option<(DelayedReply, usize)>,
    /// Waiting requests. They end in the order of their beginning, because time only goes forward.
    waiting: BTreeMap<DelayedReply, Waiting>,
    over: VecDeque<(DelayedReply, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    unnotified: usize,
}

impl DelayedReplies {
    /// Begins a request, without anything to wait for yet.
    pub(super) fn begin(&mut self) {
        self.begun = None;
    }

    /// Adds an item to wait for to the current request.
    pub(super) fn hold(&mut self) -> DelayedReply {
        let next = &mut self.next;
        let (delayed_reply, count) = self.begun.get_or_insert_with(|| {
            *next += 1;
            (DelayedReply(*next), 0)
        });
        *count += 1;
        *delayed_reply
    }

    /// Adds a client that a request waits for, unless the request has been answered.
    pub(super) fn one_more(&mut self, delayed_reply: DelayedReply) -> Option<DelayedReply> {
        let begun = self.begun.as_mut().filter(|(begun, _)| *begun == delayed_reply).map(|(_, count)| count);
        let count = begun.or_else(|| self.waiting.get_mut(&delayed_reply).map(|waiting| &mut waiting.unnotified))?;
        *count += 1;
        Some(delayed_reply)
    }

    /// Returns, after [`Protocol::handle`](super::Protocol::handle), whether the request's reply has to be withheld until
    /// [`DelayedReplies::poll`] names it.
    pub fn take(&mut self) -> Option<DelayedReply> {
        let (delayed_reply, unnotified) = self.begun.take().filter(|(_, unnotified)| *unnotified > 0)?;
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(delayed_reply, Waiting { until: self.now + WAIT_MAX, unnotified });
        } else {
            self.over.push_back((delayed_reply, false));
        }
        Some(delayed_reply)
    }

    /// Counts off an item: a client that has answered an [`Effect::Call`](super::Effect::Call) or cannot be reached, or another one.
    pub fn notified(&mut self, delayed_reply: DelayedReply) {
        if let Some((_, count)) = self.begun.as_mut().filter(|(begun, _)| *begun == delayed_reply) {
            *count = count.saturating_sub(1);
            return;
        }
        let Some(waiting) = self.waiting.get_mut(&delayed_reply) else { return };
        waiting.unnotified = waiting.unnotified.saturating_sub(1);
        if waiting.unnotified == 0 {
            self.waiting.remove(&delayed_reply);
            self.over.push_back((delayed_reply, true));
        }
    }

    /// Takes the next request that need not wait any longer, and whether all its clients have been notified.
    pub fn poll(&mut self) -> Option<(DelayedReply, bool)> {
        self.over.pop_front()
    }

    /// Ends the waits that took too long.
    pub(super) fn handle_time(&mut self, now: Time) {
        self.now = now;
        while let Some(first) = self.waiting.first_entry().filter(|first| first.get().until <= now) {
            self.over.push_back((first.remove_entry().0, false));
        }
    }

    /// When the first wait times out.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.values().next().map(|waiting| waiting.until)
    }
}

/// Proxies, filters and admins removed before other requests are served.
const BATCH: usize = 256;

/// Destroyed objects that are not completely removed.
#[derive(Debug, Default)]
pub(super) struct Teardowns {
    /// Requests waiting for each, in the order of destruction.
    waiting: VecDeque<DelayedReply>,
    /// Requests waiting until the complete removal is published.
    ended: Vec<(DelayedReply, Unpublished)>,
}

/// Changes of a request that the event path has to learn: the channels, each with the number of its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpublished(Vec<(ChannelId, u64)>);

impl Unpublished {
    /// Whether the last result of [`publish`](Protocol::publish) includes all changes.
    #[must_use]
    pub fn is_published(&self, hierarchy: &Hierarchy) -> bool {
        self.0.iter().all(|(channel, number)| hierarchy.is_published(*channel, *number))
    }
}

/// Channels, admins, proxies and filters made by a request. Opaque.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Creations(Vec<Thing>);

impl Creations {
    /// Whether nothing was made.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// All objects made.
    pub(super) fn things(&self) -> impl Iterator<Item = &Thing> {
        self.0.iter()
    }

    /// Adds an object made.
    pub(crate) fn note(&mut self, thing: Thing) {
        self.0.push(thing);
    }
}

impl Protocol {
    pub(crate) fn destroy_channel(&mut self, channel: ChannelId) -> Result<(), Raised> {
        self.objects.hierarchy.destroy_channel(channel)?;
        self.objects.keys.nonces.remove(&channel);
        self.objects.names.forget_channel(channel);
        self.guard.forget_channel(channel);
        self.monitor.forget_channel(channel);
        self.objects.keys.has_changed = true;
        self.objects.forget_thing(Thing::Channel(channel));
        self.objects.properties.real_time.remove(&channel);
        self.objects.filters.forget_channel(channel);
        self.changes.forget_channel(channel);
        self.begin_taking_apart();
        Ok(())
    }

    pub(crate) fn destroy_admin(&mut self, key: AdminKey) -> Result<(), Raised> {
        let AdminKey { channel, side, admin } = key;
        self.objects.hierarchy.destroy_admin(channel, side, admin)?;
        self.objects.forget_thing(Thing::Admin(key));
        self.objects.names.take(Named::Admin(key));
        self.objects.forget_filters_of(FilterTarget::Admin { channel, side, admin });
        self.begin_taking_apart();
        Ok(())
    }

    fn begin_taking_apart(&mut self) {
        let delayed_reply = self.delayed_replies.hold();
        self.teardowns.waiting.push_back(delayed_reply);
        self.go_on_taking_apart();
        // Its answer is not given before that is published in any case.
        if self.teardowns.waiting.back() != Some(&delayed_reply) {
            self.teardowns.ended.retain(|(ended, _)| *ended != delayed_reply);
            self.delayed_replies.notified(delayed_reply);
        }
    }

    /// Removes a chunk of the destroyed objects.
    pub(super) fn go_on_taking_apart(&mut self) {
        for _ in 0..BATCH {
            let Some(removal) = self.objects.hierarchy.poll_removed() else { return };
            match removal {
                Removal::Proxy(removed) => {
                    let tell =
                        self.teardowns.waiting.front().map_or(Tell::Yes, |delayed_reply| Tell::AndWait(*delayed_reply));
                    self.forget(&removed, tell);
                }
                Removal::Filter(filter) => self.objects.filters().forget(filter),
                Removal::Admin { channel, side, admin } => {
                    let thing = Thing::Admin(AdminKey { channel, side, admin });
                    self.objects.forget_thing(thing);
                    self.objects.forget_filters_of(FilterTarget::Admin { channel, side, admin });
                }
                Removal::Routes => {}
                Removal::End(channel) => {
                    let changed = Unpublished(self.objects.hierarchy.noted(channel).into_iter().collect());
                    self.teardowns.ended.extend(self.teardowns.waiting.pop_front().map(|ended| (ended, changed)));
                }
            }
        }
    }

    /// Ends the waits for published changes.
    pub(super) fn end_teardowns(&mut self) {
        for (delayed_reply, changed) in core::mem::take(&mut self.teardowns.ended) {
            if changed.is_published(&self.objects.hierarchy) {
                self.delayed_replies.notified(delayed_reply);
            } else {
                self.teardowns.ended.push((delayed_reply, changed));
            }
        }
    }

    /// The last request's changes for the event path: its reply has to be withheld until [`is_published`](Unpublished::is_published)
    /// returns true. `None` without changes.
    pub fn take_unpublished(&mut self) -> Option<Unpublished> {
        Some(core::mem::take(&mut self.unpublished)).filter(|changed| !changed.0.is_empty())
    }

    /// Notes the changes of the current request.
    pub(super) fn note_unpublished(&mut self) {
        self.unpublished = Unpublished(self.objects.hierarchy.take_touched());
    }

    /// Objects made by the last [`Protocol::handle`].
    pub fn take_made(&mut self) -> Creations {
        core::mem::take(&mut self.objects.made)
    }

    /// Destroys the objects made by a request, with everything that others have made or done in them since. Objects that are gone already
    /// are ignored. Call [`Protocol::publish`] and the rest afterwards as after [`Protocol::handle`].
    pub fn unmake(&mut self, made: Creations) {
        self.delayed_replies.begin();
        for thing in made.0.into_iter().rev() {
            let gone = match thing {
                Thing::Channel(channel) => self.destroy_channel(channel),
                Thing::Admin(admin) => self.destroy_admin(admin),
                Thing::Filter(filter) => self.objects.filters().destroy(filter),
                Thing::Proxy(key) => {
                    if let Ok(removed) = self.objects.hierarchy.destroy_proxy(key) {
                        self.forget(&removed, Tell::Yes);
                    }
                    Ok(())
                }
                Thing::Remote(_) | Thing::Registration(_) => Ok(()),
            };
            if gone.is_err() {
                log::debug!(target: "campanile::corba", "{thing:?} need not be taken back: it is gone");
            }
        }
        // No request waits for clients to be notified of it.
        let _ = self.delayed_replies.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(delayed_replies: &mut DelayedReplies, clients: usize, now: Time) -> Option<DelayedReply> {
        delayed_replies.handle_time(now);
        delayed_replies.begin();
        (0..clients).for_each(|_| _ = delayed_replies.hold());
        delayed_replies.take()
    }

    #[test]
    fn a_request_waits_until_all_have_been_notified_or_a_second_is_over() {
        let mut delayed_replies = DelayedReplies::default();
        assert_eq!(begun(&mut delayed_replies, 0, Time(0)), None);
        let one = begun(&mut delayed_replies, 1, Time(0)).unwrap();
        let two = begun(&mut delayed_replies, 2, Time(0) + WAIT_MAX / 2).unwrap();
        delayed_replies.notified(two);
        delayed_replies.handle_time(Time(0) + WAIT_MAX / 2);
        assert!(delayed_replies.over.is_empty());
        assert_eq!(delayed_replies.next(), Some(Time(0) + WAIT_MAX));
        delayed_replies.notified(two);
        delayed_replies.handle_time(Time(0) + WAIT_MAX);
        assert_eq!(delayed_replies.over, [(two, true), (one, false)]);
        // An answer that comes too late changes nothing.
        delayed_replies.notified(one);
        assert_eq!((delayed_replies.over.len(), delayed_replies.next()), (2, None));
    }

    #[test]
    fn of_more_requests_than_may_wait_the_last_do_not() {
        let mut delayed_replies = DelayedReplies::default();
        let all: Vec<DelayedReply> =
            (0..=WAITING_MAX).filter_map(|_| begun(&mut delayed_replies, 1, Time(0))).collect();
        assert_eq!(delayed_replies.over, [(all[WAITING_MAX], false)]);
        delayed_replies.notified(all[0]);
        assert_eq!(delayed_replies.over.back(), Some(&(all[0], true)));
        assert!(begun(&mut delayed_replies, 1, Time(0)).is_some() && delayed_replies.over.len() == 2);
    }
}
