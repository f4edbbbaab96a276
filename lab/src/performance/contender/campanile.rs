//! Campanile itself.

use std::net::SocketAddr;
use std::ops::Range;

use client::notify::Property;
use giop::ior::{Component, ORB_TYPE_CAMPANILE};

use super::{Absence, Consume, Contender, End, OURS, Scenario, Server, consumers_behind};
use crate::campanile::{self, Campanile, Channel, Consumer, ProxyAddress};
use crate::floor::counting::Counting;
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::protocol::Protocol;
use crate::{BenchError, CarriageOptions};

/// The service with its default settings, in a process of its own.
pub(crate) const CONTENDER: Contender = Contender { key: OURS, name: campanile::NAME, about, warm_up_times: 1, start };

fn about() -> String {
    "`campanile serve` as it is installed; structured events or sequences of them, GIOP 1.2; consumers' references say, as \
     those of this repository's client do, that they keep order, so that several pushes may be unanswered; where as many \
     events are sent as get through, at most 4,096 wait for a consumer, then the supplier does"
        .to_owned()
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    let service = Campanile::start_on(scenario.server_core)?;
    // Publishers that are faster than the service wait at this, and its memory stays bounded.
    let queue = i32::try_from(scenario.queue).unwrap_or(i32::MAX);
    let bounded = [
        Property::new("MaxEventsPerConsumer", queue),
        Property::new("FullOutbox", "Hold"),
        Property::new("HoldGranted", true),
    ];
    let channel = service.new_channel_with(if queue > 0 { &bounded } else { &[] })?;
    let carriage = CarriageOptions { form: scenario.form_in(), ..CarriageOptions::default() };
    let proxy = channel.add_supplier(carriage)?;
    Ok(Box::new(CampanileServer { scenario: *scenario, service, channel, proxy }))
}

struct CampanileServer {
    scenario: Scenario,
    service: Campanile,
    channel: Channel,
    proxy: ProxyAddress,
}

impl Server for CampanileServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        Ok(consumers_behind(&self.proxy, Protocol::Giop(self.scenario.form_out()), consumers))
    }

    fn subscribed(&mut self, subscribe: &Subscribe, listening: Option<SocketAddr>) -> Result<(), BenchError> {
        let Some(address) = listening else { return Ok(()) };
        let (window, other) = match self.scenario.consume {
            Consume::TwoWay(window) => (window, None),
            Consume::OneWay => (None, Some(Property::new("PushOneWay", true))),
            Consume::Sequences(events, window) => {
                let events = i32::try_from(events).unwrap_or(i32::MAX);
                (window, Some(Property::new("MaximumBatchSize", events)))
            }
        };
        let window = window.map(|window| Property::new("PushWindow", window));
        let qos: Vec<Property> = window.into_iter().chain(other).collect();
        let form = self.scenario.form_out();
        let in_order = [Component::orb_type(ORB_TYPE_CAMPANILE)];
        for key in &subscribe.targets {
            let consumer = Consumer { address, key, form, qos: &qos, event_type: None, components: &in_order };
            self.channel.connect(&consumer)?;
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        let ProxyAddress { address, key } = self.proxy.clone();
        Ok(End::own(self.scenario.publisher(self.scenario.giop(), address, key)))
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.service.process().pid()]
    }

    fn counting(&self) -> Result<Option<Counting>, BenchError> {
        Counting::take(&self.service).map(Some)
    }

    fn glance(&self) -> Result<Option<Counting>, BenchError> {
        Counting::glance(&self.service).map(Some)
    }
}
