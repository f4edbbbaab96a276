//! Services that the simple API has: a notification service, and DDS.

use super::qos::FIFO;
use super::{Lost, Publisher, Service, SourceQos, Take};
use campanile::raw::{EventQos, PublishOptions, RawConsumer, RawPublisher, RawSupplier, find_channel, orb};
use campanile::{Declared, EventForm, Settings, Transport, Trouble};
use client::notify::Property;
use client::{Fate, ObjectRef, Orb, PublisherCounters};
use giop::value::Value;
use std::any::Any;
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a service is asked again to remove a link for which events wait.
const UNLINK_EVERY: Duration = Duration::from_millis(100);

/// A service by the simple API.
pub(crate) struct Simple {
    settings: Settings,
    /// For the properties of channels.
    orb: OnceCell<Orb>,
    /// For its links.
    statistics: OnceCell<ObjectRef>,
}

impl Simple {
    /// The service that the settings say.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, orb: OnceCell::new(), statistics: OnceCell::new() }
    }

    /// The same for a unit of a plan: its consumers share a thread, and the connections beneath.
    pub(super) fn shared(settings: Settings) -> Self {
        Self::new(Settings { shared_thread: true, ..settings })
    }

    /// The settings of a source.
    pub(super) fn of_writers(&self, qos: &SourceQos) -> Settings {
        let mut settings = self.settings.clone();
        let dds = &mut settings.dds;
        dds.lifespan_ms = qos.lifespan_ms.unwrap_or(dds.lifespan_ms);
        dds.history_depth = qos.history_depth.unwrap_or(dds.history_depth);
        dds.priority = qos.transport_priority.unwrap_or(dds.priority);
        settings
    }

    /// What the service says, for people.
    fn refusal(&self, error: &campanile::Error) -> String {
        let text = error.to_string();
        // What `dds::Error::Domain` says of a host that is full, and of other reasons.
        let advice = if text.contains("could not take part in domain") {
            " (a host has room for 32 processes in a domain: put instances into fewer servers, or those that are not connected into another \
             `domain`)"
        } else {
            ""
        };
        format!("{text}{advice}")
    }

    /// What requests to the service go by.
    fn orb(&self) -> Result<&Orb, String> {
        if self.orb.get().is_none() {
            let _ = self.orb.set(orb(&self.settings).map_err(|error| error.to_string())?);
        }
        self.orb.get().ok_or_else(|| "there is no ORB".to_owned())
    }

    /// The object of a Campanile by which links are made.
    fn statistics(&self) -> Result<&ObjectRef, String> {
        if self.statistics.get().is_none() {
            let (orb, server) = (self.orb()?, &self.settings.server);
            let address = orb.resolve_service(server).and_then(|service| service.connect());
            let object = address.and_then(|address| orb.resolve_at(&address, "Statistics"));
            let _ = self.statistics.set(object.map_err(|error| format!("the service at {server}: {error}"))?);
        }
        self.statistics.get().ok_or_else(|| "there is no ORB".to_owned())
    }

    /// Gives a channel its properties.
    fn set_channel(&self, channel: &str, of: &SourceQos) -> Result<(), String> {
        let SourceQos { admin, is_reset, .. } = of;
        let mut qos = of.qos.clone();
        if qos.is_empty() && admin.is_empty() && !is_reset {
            return Ok(());
        }
        let orb = self.orb()?;
        let found = find_channel(channel, &self.settings, orb).map_err(|error| error.to_string())?;
        if *is_reset {
            // Where it has this property at all, `rtes` has set it, and the order with it.
            let has = found.get_qos().map_err(|error| error.to_string())?;
            if has.iter().any(|it| it.name == "PushOneWay" && it.value.value == Value::Bool(true)) {
                qos.push(Property::new("PushOneWay", false));
                if !qos.iter().any(|it| it.name == "OrderPolicy") {
                    qos.push(Property::new("OrderPolicy", i16::try_from(FIFO).unwrap_or_default()));
                }
            }
        }
        let given: Vec<_> = qos.iter().chain(admin).map(|it| it.name.clone()).collect();
        let set_qos = || if qos.is_empty() { Ok(()) } else { found.set_qos(&qos) };
        let set_admin = || if admin.is_empty() { Ok(()) } else { found.set_admin(admin) };
        set_qos()
            .and_then(|()| set_admin())
            .map_err(|error| format!("the channel {channel} does not take {}: {error}", given.join(", ")))
    }
}

impl Service for Simple {
    fn publisher(&self, channel: &str, of: &Declared, qos: &SourceQos) -> Result<Box<dyn Publisher>, String> {
        let settings = self.of_writers(qos);
        self.set_channel(channel, qos)?;
        let supplier = RawSupplier::new(channel, &settings).map_err(|error| self.refusal(&error))?;
        let publisher = supplier.publisher(PublishOptions::default()).map_err(|error| error.to_string())?;
        let declared = of.clone();
        Ok(Box::new(SimplePublisher {
            publisher: Some(publisher),
            _supplier: supplier,
            declared,
            end: None,
            counted: 0,
        }))
    }

    fn link(&self, entry: &str) -> Result<(), String> {
        let added: Result<(String, bool), _> = self.statistics()?.request("add_link", &(entry,));
        match added {
            Ok((refused, _)) if refused.is_empty() => Ok(()),
            Ok((refused, _)) => Err(format!("the service at {} makes no link: {refused}", self.settings.server)),
            Err(error) => Err(format!("the service at {} makes no link: {error}", self.settings.server)),
        }
    }

    fn unlink(&self, name: &str, until: Instant) -> Result<(), String> {
        let mut refused = "the service was not asked in time".to_owned();
        while Instant::now() < until {
            let removed: Result<String, _> = self.statistics()?.request("remove_link", &(name, false));
            refused = removed.map_err(|error| error.to_string())?;
            if refused.is_empty() || refused.starts_with("there is no link") {
                return Ok(());
            }
            // What was published last is on its way.
            std::thread::park_timeout(UNLINK_EVERY);
        }
        Err(refused)
    }

    fn subscribe(&self, channel: &str, of: &Declared, when: Option<&str>, take: Take) -> Result<Box<dyn Any>, String> {
        let take = Arc::new(Mutex::new(take));
        let (taking, name) = (take.clone(), channel.to_owned());
        let on_trouble = move |trouble: &Trouble| {
            let events = match trouble {
                Trouble::Mismatch(_) | Trouble::Unreadable { .. } => 1,
                Trouble::Lost { events, .. } => *events,
                _ => return log::warn!("consumer of {name}: {trouble}"),
            };
            let lost = Lost { events, reason: trouble.to_string() };
            take.lock().unwrap_or_else(PoisonError::into_inner)(Err(lost));
        };
        let mut consumer = RawConsumer::new(channel)
            .settings(self.settings.clone())
            .on(of, move |event| {
                taking.lock().unwrap_or_else(PoisonError::into_inner)(Ok((event.cdr, event.qos)));
                Ok(())
            })
            .on_trouble(on_trouble);
        // Elsewhere the sink's own filter is all there is: DDS would apply this one where the sink is, too, and in ALMA's form members
        // have other names. A timeout is less on the way than it was when the event was sent.
        let is_filtered_there =
            self.settings.transport == Transport::Notification && self.settings.event_form == EventForm::Body;
        if let Some(when) = when.filter(|when| is_filtered_there && !when.contains("timeout")) {
            consumer = consumer.filter(when);
        }
        Ok(Box::new(consumer.ready().map_err(|error| self.refusal(&error))?))
    }
}

struct SimplePublisher {
    // It ends before its supplier. `None` once closed.
    publisher: Option<RawPublisher>,
    _supplier: RawSupplier,
    declared: Declared,
    /// What was known in the end.
    end: Option<PublisherCounters>,
    /// Lost events that `lost` has answered.
    counted: u64,
}

impl SimplePublisher {
    fn publisher(&self) -> Result<&RawPublisher, String> {
        self.publisher.as_ref().ok_or_else(|| "it is closed".to_owned())
    }
}

impl Publisher for SimplePublisher {
    fn publish(&mut self, value: &[u8], qos: EventQos) -> Result<(), String> {
        let published = self.publisher()?.publish_with(&self.declared, value, qos);
        published.map(drop).map_err(|error| error.to_string())
    }

    fn publish_at_once(&mut self, value: &[u8], qos: EventQos) -> Result<bool, String> {
        self.publisher()?.publish_at_once(&self.declared, value, qos).map_err(|error| error.to_string())
    }

    fn flush(&mut self) {
        if let Some(publisher) = &self.publisher {
            publisher.flush();
        }
    }

    fn lost(&mut self) -> Option<Lost> {
        let lost = match (&self.publisher, self.end) {
            (Some(publisher), _) => publisher.counters().lost(),
            (None, end) => end.map(|end| end.published - end.confirmed)?,
        };
        let events = lost - std::mem::replace(&mut self.counted, lost);
        if events == 0 {
            return None;
        }
        let losses = self.publisher.iter().flat_map(|publisher| std::iter::from_fn(|| publisher.next_loss()));
        let reason = losses.last().map_or_else(
            || "the service has not confirmed them".to_owned(),
            |loss| match loss.fate {
                Fate::Refused(exception) => format!("the service refused them: {exception}"),
                Fate::Unknown(reason) | Fate::NotSent(reason) => format!("the connection was lost: {reason}"),
                other => format!("{other:?}"),
            },
        );
        Some(Lost { events, reason })
    }

    fn close(&mut self, within: Duration) {
        self.end = self.publisher.take().and_then(|publisher| publisher.close_within(within));
    }
}
