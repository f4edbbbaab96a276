//! Services that the simple API has: a notification service, and DDS.

use super::{Publisher, Service, SourceQos, Take};
use campanile::raw::{EventQos, PublishOptions, RawConsumer, RawPublisher, RawSupplier, channel_finder};
use campanile::{Declared, EventForm, Settings, Transport};
use client::{Orb, OrbOptions};
use std::any::Any;

/// A service by the simple API.
pub(crate) struct Simple {
    settings: Settings,
}

impl Simple {
    /// The service that the settings say.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// The same for a unit of a plan: its consumers share a thread, and the connections beneath.
    pub(super) fn shared(settings: Settings) -> Self {
        Self { settings: Settings { shared_thread: true, ..settings } }
    }

    /// Gives a channel its properties.
    fn set_channel(&self, channel: &str, SourceQos { qos, admin, .. }: &SourceQos) -> Result<(), String> {
        if qos.is_empty() && admin.is_empty() {
            return Ok(());
        }
        let finder = channel_finder(channel, &self.settings).map_err(|error| error.to_string())?;
        let tls = self.settings.tls.of_orb();
        let orb = Orb::new(OrbOptions { name: self.settings.name.clone(), tls, ..OrbOptions::default() });
        let found = finder.find(&orb).map_err(|error| error.to_string())?;
        found.set_qos(qos).and_then(|()| found.set_admin(admin)).map_err(|error| {
            let properties: Vec<_> = qos.iter().chain(admin).map(|it| it.name.as_str()).collect();
            format!("the channel {channel} does not take {}: {error}", properties.join(", "))
        })
    }
}

impl Service for Simple {
    fn publisher(&self, channel: &str, of: &Declared, qos: &SourceQos) -> Result<Box<dyn Publisher>, String> {
        let mut settings = self.settings.clone();
        let dds = &mut settings.dds;
        dds.lifespan_ms = qos.lifespan_ms.unwrap_or(dds.lifespan_ms);
        dds.history_depth = qos.history_depth.unwrap_or(dds.history_depth);
        dds.priority = qos.transport_priority.unwrap_or(dds.priority);
        self.set_channel(channel, qos)?;
        let supplier = RawSupplier::new(channel, &settings).map_err(|error| error.to_string())?;
        let publisher = supplier.publisher(PublishOptions::default()).map_err(|error| error.to_string())?;
        Ok(Box::new(SimplePublisher { publisher, _supplier: supplier, declared: of.clone() }))
    }

    fn subscribe(
        &self,
        channel: &str,
        of: &Declared,
        when: Option<&str>,
        mut take: Take,
    ) -> Result<Box<dyn Any>, String> {
        let mut consumer = RawConsumer::new(channel).settings(self.settings.clone()).on(of, move |event| {
            take(Ok(event.cdr), event.qos);
            Ok(())
        });
        // Elsewhere the sink's own filter is all there is: DDS would apply this one where the sink is, too, and in ALMA's form members
        // have other names.
        let is_filtered_there =
            self.settings.transport == Transport::Notification && self.settings.event_form == EventForm::Body;
        if let Some(when) = when.filter(|_| is_filtered_there) {
            consumer = consumer.filter(when);
        }
        Ok(Box::new(consumer.ready().map_err(|error| error.to_string())?))
    }
}

struct SimplePublisher {
    // It ends before its supplier.
    publisher: RawPublisher,
    _supplier: RawSupplier,
    declared: Declared,
}

impl Publisher for SimplePublisher {
    fn publish(&mut self, value: &[u8], qos: EventQos) -> Result<(), String> {
        self.publisher.publish_with(&self.declared, value, qos).map(drop).map_err(|error| error.to_string())
    }

    fn publish_at_once(&mut self, value: &[u8], qos: EventQos) -> Result<bool, String> {
        self.publisher.publish_at_once(&self.declared, value, qos).map_err(|error| error.to_string())
    }

    fn flush(&mut self) {
        self.publisher.flush();
    }
}
