//! The supplier and the subscribers of each transport.

use std::sync::Arc;

use ::campanile::{Consumer, Error, Event, PublishOptions, Publisher, Settings, Subscription, Supplier};

use super::{Arrivals, OCTETS, Transport, Way, relay, setup};
use crate::BenchError;

#[derive(Event, Clone, Debug)]
pub(super) struct Block {
    sent_ns: u64,
    octets: Vec<u8>,
}

fn settings(way: &Way) -> Settings {
    let Way { transport, server, naming, .. } = way.clone();
    let shared_thread = matches!(transport, Transport::NotificationShared | Transport::DdsShared);
    let mut settings = Settings { server, naming, shared_thread, ..Settings::default() };
    if matches!(transport, Transport::Dds | Transport::DdsShared) {
        settings.transport = ::campanile::Transport::Dds;
        settings.dds.domain_default = 73;
        settings.dds.interface = Some("127.0.0.1".to_owned());
        settings.dds.peers = vec!["127.0.0.1".to_owned()];
    }
    settings
}

/// The publisher.
pub(super) enum Source {
    Simple(Box<Supplier>, Block),
    /// Without waiting for each.
    Gathered(Box<Publisher>, Block),
    Relay(relay::Source),
    #[cfg(feature = "dds")]
    Bare(super::bare::Source),
}

impl Source {
    #[cfg_attr(not(feature = "dds"), expect(unused_variables, reason = "whom only DDS waits for"))]
    pub(super) fn connect(way: &Way, subscribers: u32) -> Result<Self, BenchError> {
        match way.transport {
            Transport::Relay => return relay::Source::connect(&way.server).map(Self::Relay),
            #[cfg(feature = "dds")]
            Transport::Cyclone => return Ok(Self::Bare(super::bare::Source::connect(&way.channel, subscribers)?)),
            _ => {}
        }
        let supplier = Supplier::with(&way.channel, &settings(way)).map_err(setup("connecting a supplier"))?;
        let block = Block { sent_ns: 0, octets: vec![1; OCTETS] };
        if way.transport == Transport::Gathered {
            let publisher = supplier.publisher(PublishOptions::default()).map_err(setup("making a publisher"))?;
            return Ok(Self::Gathered(Box::new(publisher), block));
        }
        Ok(Self::Simple(Box::new(supplier), block))
    }

    /// Publishes an event that says it was sent then; is slowed as often as that takes.
    pub(super) fn publish(&mut self, sent_ns: u64) -> Result<(), BenchError> {
        match self {
            Self::Simple(supplier, block) => {
                block.sent_ns = sent_ns;
                loop {
                    match supplier.publish(block) {
                        Err(Error::Slowed { .. }) => {}
                        done => return done.map_err(setup("publishing")),
                    }
                }
            }
            Self::Gathered(publisher, block) => {
                block.sent_ns = sent_ns;
                publisher.publish(block).map(drop).map_err(setup("publishing"))
            }
            Self::Relay(source) => source.publish(sent_ns),
            #[cfg(feature = "dds")]
            Self::Bare(source) => source.publish(sent_ns),
        }
    }
}

/// The subscriber, as long as it is there.
pub(super) enum Sink {
    Simple(#[expect(dead_code, reason = "kept connected")] Subscription),
    Relay(#[expect(dead_code, reason = "kept reading")] relay::Sink),
    #[cfg(feature = "dds")]
    Bare(#[expect(dead_code, reason = "kept reading")] super::bare::Sink),
}

impl Sink {
    /// One for each of these.
    pub(super) fn connect(way: &Way, all: &[Arc<Arrivals>]) -> Result<Vec<Self>, BenchError> {
        match way.transport {
            Transport::Relay => {
                let connect = |arrivals| relay::Sink::connect(&way.server, arrivals).map(Self::Relay);
                return all.iter().map(connect).collect();
            }
            #[cfg(feature = "dds")]
            Transport::Cyclone => {
                return Ok(super::bare::Sink::connect(&way.channel, all)?.into_iter().map(Self::Bare).collect());
            }
            _ => {}
        }
        let settings = settings(way);
        let one = |arrivals: &Arc<Arrivals>| {
            let arrivals = Arc::clone(arrivals);
            let consumer = Consumer::new(&way.channel).settings(settings.clone());
            let ready = consumer.on(move |block: Block| arrivals.take(block.sent_ns)).and_then(Consumer::ready);
            ready.map(Self::Simple).map_err(setup("connecting a subscriber"))
        };
        all.iter().map(one).collect()
    }
}
