//! What a request has made, so that it can be taken back: where the disk does not take it in time, the client gets no reference to it, and
//! no other client knows its owner.

use super::clients::Tell;
use super::{Protocol, Thing};

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
                Thing::Filter(filter) => self.objects.destroy_filter(filter),
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
        let _ = self.take_delayed_reply();
    }
}
