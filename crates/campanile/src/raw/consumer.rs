//! Consumers of events as octets.

use super::Own;
use super::desk::{Desk, Teller};
use crate::channel::{check_name, finder, orb_options, patiently};
use crate::constraint;
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::form::EventQos;
use crate::settings::{Settings, SettingsError, Transport};
use crate::start::StartFrom;
use client::notify::EventType;
use client::{ConsumerOptions, EventNumber, NewsReader, SimpleConsumer};
use giop::cdr::Reader;
use giop::typecode::TypeCode;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Properties of an event beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header<'a> {
    /// The domain of its type; empty for an event that arrived as an Any.
    pub domain: &'a str,
    /// The name of its type; for an event that arrived as an Any, its struct's.
    pub name: &'a str,
    /// The name of the event itself; usually empty.
    pub event_name: &'a str,
    /// Its number and time of arrival at the service, for a consumer with a [start](RawConsumer::start_from) in a channel with a history.
    pub number: Option<EventNumber>,
    /// The quality of service that its header says. Not over DDS.
    pub qos: EventQos,
}

/// An event, with its value's octets as [the module](crate::raw) describes them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RawEvent<'a> {
    /// The domain of its type; empty for an event that arrived as an Any.
    pub domain: &'a str,
    /// The name of its type; for an event that arrived as an Any, its struct's.
    pub name: &'a str,
    /// The name of the event itself; usually empty.
    pub event_name: &'a str,
    /// Its number and time of arrival at the service, for a consumer with a [start](RawConsumer::start_from) in a channel with a history.
    pub number: Option<EventNumber>,
    /// The quality of service that its header says. Not over DDS.
    pub qos: EventQos,
    /// The type of the value: the declared one, or else the received one. The same type usually comes as the same `Arc`: results for it can
    /// be cached by address as long as the `Arc` is stored.
    pub type_code: &'a Arc<TypeCode>,
    /// The value.
    pub cdr: &'a [u8],
}

/// Error of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackError {
    /// The event could not be handled, for this reason: reported as [`Trouble::Callback`]; the next event follows.
    Failed(String),
    /// No more events, please: the subscription ends.
    Enough,
}

/// A callback for events as octets.
pub(super) type OnRaw = Box<dyn FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send>;
/// A callback that reads a value of the declared type itself, from its first argument.
pub(crate) type OnReader = Box<dyn FnMut(&mut Reader<'_>, Header<'_>) -> Result<(), Handling> + Send>;
pub(crate) type OnTrouble = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// Why a typed callback did not handle an event.
pub(crate) enum Handling {
    /// The octets are not a value of the type.
    Unreadable(String),
    Callback(CallbackError),
}

/// A callback, in one of its forms.
pub(crate) enum Handler {
    Octets(OnRaw),
    Reader(OnReader),
}

/// Receives events: configured first, and started with [`ready`](Self::ready). See [the module](crate::raw).
#[must_use = "it receives nothing until it is ready"]
pub struct RawConsumer {
    channel: String,
    settings: Option<Settings>,
    filter: Option<String>,
    start_from: Option<StartFrom>,
    declared: Vec<(Declared, Handler)>,
    others: Option<OnRaw>,
    on_trouble: Option<OnTrouble>,
    slow_after: Duration,
}

impl RawConsumer {
    /// A consumer of a channel's events, with the settings of the environment.
    pub fn new(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            settings: None,
            filter: None,
            start_from: None,
            declared: Vec::new(),
            others: None,
            on_trouble: None,
            slow_after: Duration::from_secs(1),
        }
    }

    /// Sets the settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Limits the subscription to events that match a filter, in the Extended Trader Constraint Language: `$speed > 10 and $station ==
    /// 'north'`. The service applies it, so that other events do not travel.
    pub fn filter(mut self, constraint: &str) -> Self {
        self.filter = Some(constraint.to_owned());
        self
    }

    /// Begins in the channel's history, if it has one, and adds numbers to events. A subscription that is made anew continues behind the
    /// last received event. Not over DDS.
    pub fn start_from(mut self, start: StartFrom) -> Self {
        self.start_from = Some(start);
        self
    }

    /// Has `callback` called for events of a declared type; events of its name are converted: members by name, numbers widened. Several
    /// types may be declared, one name several times.
    pub fn on(
        self,
        declared: &Declared,
        callback: impl FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send + 'static,
    ) -> Self {
        self.handler(declared, Handler::Octets(Box::new(callback)))
    }

    pub(crate) fn handler(mut self, declared: &Declared, handler: Handler) -> Self {
        self.declared.push((declared.clone(), handler));
        self
    }

    /// Has `callback` called for events of undeclared types, in the type they arrive with.
    pub fn on_any(mut self, callback: impl FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send + 'static) -> Self {
        self.others = Some(Box::new(callback));
        self
    }

    /// Has `callback` called for all trouble: gaps, types that do not fit, callbacks that fail or are slow. It may be called on several
    /// threads. Default: trouble is logged.
    pub fn on_trouble(mut self, callback: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.on_trouble = Some(Arc::new(callback));
        self
    }

    /// Duration from which a callback is reported as [`Trouble::Slow`]. Default 1 s.
    pub fn slow_after(mut self, limit: Duration) -> Self {
        self.slow_after = limit;
        self
    }

    /// Subscribes to events published from now on. The channel is made if it does not exist.
    ///
    /// # Errors
    /// The settings are wrong, the name is invalid, the filter is refused, or the service cannot be reached or refuses.
    pub fn ready(self) -> Result<RawSubscription, Error> {
        let Self { channel, settings, filter, start_from, declared, others, on_trouble, slow_after } = self;
        check_name(&channel)?;
        let settings = match settings {
            Some(settings) => settings,
            None => Settings::load()?,
        };
        let tell = Teller::new(format!("consumer of {channel}"), on_trouble);
        if let Some(text) = filter.as_deref().filter(|_| others.is_none()) {
            let unknown = constraint::unknown_names(text, declared.iter().map(|(declared, _)| declared));
            unknown.iter().for_each(|trouble| tell.tell(trouble));
        }
        if settings.transport == Transport::Dds {
            if let Some(start) = start_from {
                let wanted =
                    "nothing over DDS, where `dds.late_joiners` says how many of the latest events late joiners get";
                return Err(SettingsError::Value { setting: "start_from", value: start.to_string(), wanted }.into());
            }
            let desk = Desk::new(declared, others, tell, slow_after);
            return crate::link::receive(&channel, &settings, filter.as_deref(), desk)
                .map(|way| RawSubscription { way, channel });
        }
        settings.tls.check()?;
        let news = tell.clone();
        let options = ConsumerOptions {
            orb: orb_options(&settings),
            constraint: filter.clone(),
            start_from: start_from.as_ref().map(ToString::to_string),
            types: if others.is_some() { Vec::new() } else { subscribed_types(&declared, &settings) },
            news: Some(NewsReader::new(move |told| news.tell_news(told))),
            shared_end_point: settings.shared_thread,
            ..ConsumerOptions::default()
        };
        // Behind a lock because an attempt that fails must leave it for the next; it is never waited for.
        let desk = Arc::new(Mutex::new(Desk::new(declared, others, tell, slow_after)));
        let is_numbered = start_from.is_some();
        let consumer = patiently(&settings, || {
            let desk = desk.clone();
            SimpleConsumer::connect_by(
                &settings.server,
                finder(&channel, &settings),
                options.clone(),
                move |received| desk.lock().unwrap_or_else(PoisonError::into_inner).take(&received, is_numbered),
            )
        })
        .map_err(|error| constraint::refused(error, filter.as_deref()))?;
        Ok(RawSubscription { way: Way::Notification(Own::new(consumer)), channel })
    }
}

impl fmt::Debug for RawConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConsumer").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// The types to subscribe to. Includes events in an Any, since their structs have names.
fn subscribed_types(declared: &[(Declared, Handler)], settings: &Settings) -> Vec<EventType> {
    let domain = |declared: &Declared| match declared.domain() {
        Some(domain) => domain.to_owned(),
        None if settings.event_domain.is_empty() => "*".to_owned(),
        None => settings.event_domain.clone(),
    };
    let mut types: Vec<EventType> =
        declared.iter().map(|(declared, _)| EventType::new(&domain(declared), declared.name())).collect();
    types.push(EventType::new("*", "%ANY"));
    types.dedup();
    types
}

/// A subscribed consumer. Dropping it ends the subscription.
#[derive(Debug)]
#[must_use = "the subscription ends when this is dropped"]
pub struct RawSubscription {
    way: Way,
    channel: String,
}

/// The transport of the events.
#[derive(Debug)]
pub(crate) enum Way {
    Notification(Own<SimpleConsumer>),
    #[cfg(feature = "dds")]
    Dds(Own<crate::peer_to_peer::Listeners>),
}

impl RawSubscription {
    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Whether a callback has ended the subscription.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match &self.way {
            Way::Notification(consumer) => consumer.here().is_ok_and(SimpleConsumer::has_ended),
            #[cfg(feature = "dds")]
            Way::Dds(listeners) => listeners.here().is_ok_and(crate::peer_to_peer::Listeners::have_ended),
        }
    }

    /// Times that the subscription was restored: the service was restarted, or had disconnected the consumer. Always 0 over DDS.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        match &self.way {
            Way::Notification(consumer) => consumer.here().map_or(0, SimpleConsumer::reconnections),
            #[cfg(feature = "dds")]
            Way::Dds(_) => 0,
        }
    }

    /// Asks the service now whether the subscription exists, and makes it anew if not, as happens every few seconds by itself.
    ///
    /// # Errors
    /// The service cannot be reached.
    pub fn check(&self) -> Result<(), Error> {
        match &self.way {
            Way::Notification(consumer) => consumer.here()?.check().map(drop).map_err(Error::Service),
            #[cfg(feature = "dds")]
            Way::Dds(listeners) => listeners.here().map(drop),
        }
    }

    /// Ends the subscription. A callback may still be running for a last event.
    pub fn close(self) {
        drop(self);
    }
}
