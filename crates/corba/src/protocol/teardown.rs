//! Channels and admins that are destroyed: they and all that is in them are gone at once for all clients, and are taken apart a piece at a
//! time, between other clients' requests. The request that destroyed one is answered when nothing is left of it, or after a second, as long
//! as [delayed replies](super::delayed_replies) are waited for.
//!
//! What a request has made can be taken back likewise: where the disk does not take it in time, the client gets no reference to it, and no
//! other client knows its owner.

use super::clients::Tell;
use super::delayed_replies::DelayedReply;
use super::{Named, Protocol, Thing};
use crate::exceptions::Raised;
use crate::table::AdminKey;
use engine::{ChannelId, FilterTarget, Hierarchy, Removal};
use std::collections::VecDeque;

/// Proxies, filters and admins that are taken from what was destroyed before other requests are served.
const BATCH: usize = 256;

/// What was destroyed and is not all gone.
#[derive(Debug, Default)]
pub(super) struct Teardowns {
    /// Requests waiting for each, in the order in which they were destroyed.
    waiting: VecDeque<DelayedReply>,
    /// Requests waiting until it is published that nothing is left.
    ended: Vec<(DelayedReply, Unpublished)>,
}

/// What a request has changed that the event path has to know: which channels, and the number of each one's last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpublished(Vec<(ChannelId, u64)>);

impl Unpublished {
    /// Whether what [`publish`](Protocol::publish) gave last has all of it.
    #[must_use]
    pub fn is_published(&self, hierarchy: &Hierarchy) -> bool {
        self.0.iter().all(|(channel, number)| hierarchy.is_published(*channel, *number))
    }
}

/// Channels, admins, proxies and filters that a request has made. Opaque.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Creations(Vec<Thing>);

impl Creations {
    /// Whether it is nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it.
    pub(super) fn things(&self) -> impl Iterator<Item = &Thing> {
        self.0.iter()
    }

    /// This was made, too.
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

    /// Takes a piece of what was destroyed apart.
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

    /// Ends the waits for what is published now.
    pub(super) fn end_teardowns(&mut self) {
        for (delayed_reply, changed) in core::mem::take(&mut self.teardowns.ended) {
            if changed.is_published(&self.objects.hierarchy) {
                self.delayed_replies.notified(delayed_reply);
            } else {
                self.teardowns.ended.push((delayed_reply, changed));
            }
        }
    }

    /// What the last request has changed that the event path has to know: its reply is to be kept until
    /// [`is_published`](Unpublished::is_published) says so. `None` if nothing.
    pub fn take_unpublished(&mut self) -> Option<Unpublished> {
        Some(core::mem::take(&mut self.unpublished)).filter(|changed| !changed.0.is_empty())
    }

    /// Notes what the request that is being executed has changed.
    pub(super) fn note_unpublished(&mut self) {
        self.unpublished = Unpublished(self.objects.hierarchy.take_touched());
    }

    /// What the last [`Protocol::handle`] has made.
    pub fn take_made(&mut self) -> Creations {
        core::mem::take(&mut self.objects.made)
    }

    /// Destroys what a request has made, with all that others have made or done in it since: none of that is kept either. What is gone
    /// already is no mistake. [`Protocol::publish`] and what belongs to it come after this as after [`Protocol::handle`].
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
