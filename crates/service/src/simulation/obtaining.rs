//! Obtaining of proxies by simulated CORBA consumers: from the admin, with or without a filter of their own.

use client::notify::ClientType;
use giop::ior::Ior;
use giop::message::ReplyStatus;

use super::suppliers::{key_of, write_qos};
use super::wire::{Answered, Asker};

/// Answer that a consumer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Channel,
    Admin,
    Proxy,
    Factory,
    Filter,
    Constrained,
    Filtered,
    Connected,
    /// Events: the maximum number, and whether the pull waits for one.
    Events(u32, bool),
    Gone,
}

/// Progress on the way to a proxy.
pub(super) struct Obtaining {
    pub(super) is_pull: bool,
    pub(super) is_sequence: bool,
    /// Thread pool for its events, if they are pushed.
    pub(super) pool: Option<i16>,
    pub(super) constraint: Option<String>,
    /// The only event type of the constraint, if there is one.
    pub(super) event_type: Option<(&'static str, &'static str)>,
    /// Key of the channel.
    channel: Vec<u8>,
    /// Reference for events; null for a client that pulls.
    pub(super) reference: Ior,
    /// Keys of the proxy and of the filter.
    pub(super) proxy: Vec<u8>,
    filter: Vec<u8>,
}

impl Obtaining {
    pub(super) fn new(is_pull: bool, is_sequence: bool, pool: Option<i16>, constraint: Option<String>) -> Self {
        let (proxy, filter) = (Vec::new(), Vec::new());
        let (event_type, channel) = (None, b"DefaultEventChannel".to_vec());
        Self { is_pull, is_sequence, pool, constraint, event_type, channel, reference: Ior::nil(), proxy, filter }
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.is_sequence { "sequence" } else { "structured" }
    }

    fn way(&self) -> &'static str {
        if self.is_pull { "pull" } else { "push" }
    }

    pub(super) fn begin(&self, asker: &mut Asker<Awaited>) {
        asker.ask(Some(Awaited::Admin), &self.channel, "_get_default_consumer_admin", |_| ());
    }

    /// Begins as [`Self::begin`] does, in the channel with that number.
    pub(super) fn begin_in(channel: i32, asker: &mut Asker<Awaited>) {
        asker.ask(Some(Awaited::Channel), b"NotificationService", "get_event_channel", |w| w.i32(channel));
    }

    pub(super) fn leave(&self, asker: &mut Asker<Awaited>) {
        let operation = format!("disconnect_{}_{}_supplier", self.kind(), self.way());
        asker.ask(Some(Awaited::Gone), &self.proxy, &operation, |_| ());
    }

    fn connect(&self, asker: &mut Asker<Awaited>) {
        let operation = format!("connect_{}_{}_consumer", self.kind(), self.way());
        asker.ask(Some(Awaited::Connected), &self.proxy, &operation, |w| self.reference.write(w));
    }

    /// Continues with an answer. True if the consumer is connected.
    ///
    /// # Errors
    /// The answer is not the expected one.
    pub(super) fn go_on(&mut self, answered: &Answered<Awaited>, asker: &mut Asker<Awaited>) -> Result<bool, String> {
        if answered.status != ReplyStatus::NoException {
            return Err(format!("{:?} ends with {:?}", answered.what, answered.status));
        }
        match answered.what {
            Awaited::Channel => {
                self.channel = key_of(answered)?;
                self.begin(asker);
            }
            Awaited::Admin => {
                let form = if self.is_sequence { ClientType::Sequence } else { ClientType::Structured };
                let with_qos = if self.is_pull { "" } else { "_with_qos" };
                let operation = format!("obtain_notification_{}_supplier{with_qos}", self.way());
                asker.ask(Some(Awaited::Proxy), &key_of(answered)?, &operation, |w| {
                    w.u32(form.to_cdr());
                    if !self.is_pull {
                        write_qos(self.pool, w);
                    }
                });
            }
            Awaited::Proxy => {
                self.proxy = key_of(answered)?;
                if self.constraint.is_none() {
                    self.connect(asker);
                    return Ok(false);
                }
                asker.ask(Some(Awaited::Factory), &self.channel, "_get_default_filter_factory", |_| ());
            }
            Awaited::Factory => {
                let factory = key_of(answered)?;
                asker.ask(Some(Awaited::Filter), &factory, "create_filter", |w| w.string("EXTENDED_TCL"));
            }
            Awaited::Filter => {
                self.filter = key_of(answered)?;
                let constraint = self.constraint.clone().unwrap_or_default();
                asker.ask(Some(Awaited::Constrained), &self.filter, "add_constraints", |w| {
                    w.length(1);
                    w.length(self.event_type.iter().count());
                    if let Some((domain, name)) = self.event_type {
                        w.string(domain);
                        w.string(name);
                    }
                    w.string(&constraint);
                });
                let filter = answered.read(Ior::read).map_err(|error| format!("no filter: {error:?}"))?;
                asker.ask(Some(Awaited::Filtered), &self.proxy, "add_filter", |w| filter.write(w));
            }
            Awaited::Constrained | Awaited::Events(..) | Awaited::Gone => {}
            Awaited::Filtered => self.connect(asker),
            Awaited::Connected => return Ok(true),
        }
        Ok(false)
    }
}
