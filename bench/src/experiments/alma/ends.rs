//! The supplier and the subscribers of each transport.

use std::sync::Arc;

use ::campanile::{Consumer, Error, Event, Settings, Subscription, Supplier};

use super::{Arrivals, OCTETS, Transport, setup};
use crate::BenchError;

const CHANNEL: &str = "Alma";

#[derive(Event, Clone, Debug)]
pub(super) struct Block {
    sent_ns: u64,
    octets: Vec<u8>,
}

fn settings(transport: Transport, server: &str) -> Settings {
    let mut settings = Settings { server: server.to_owned(), ..Settings::default() };
    if transport == Transport::Dds {
        settings.transport = ::campanile::Transport::Dds;
        settings.dds.domain_default = 73;
        settings.dds.interface = Some("127.0.0.1".to_owned());
        settings.dds.peers = vec!["127.0.0.1".to_owned()];
    }
    settings
}

/// Who publishes.
pub(super) enum Source {
    Simple(Box<Supplier>, Block),
    #[cfg(feature = "dds")]
    Bare(super::bare::Source),
}

impl Source {
    #[cfg_attr(not(feature = "dds"), expect(unused_variables, reason = "whom only DDS waits for"))]
    pub(super) fn connect(transport: Transport, server: &str, subscribers: u32) -> Result<Self, BenchError> {
        #[cfg(feature = "dds")]
        if transport == Transport::Cyclone {
            return Ok(Self::Bare(super::bare::Source::connect(subscribers)?));
        }
        let supplier = Supplier::with(CHANNEL, &settings(transport, server)).map_err(setup("connecting a supplier"))?;
        Ok(Self::Simple(Box::new(supplier), Block { sent_ns: 0, octets: vec![1; OCTETS] }))
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
            #[cfg(feature = "dds")]
            Self::Bare(source) => source.publish(sent_ns),
        }
    }
}

/// Who subscribes, as long as it is there.
pub(super) enum Sink {
    Simple(#[expect(dead_code, reason = "kept connected")] Subscription),
    #[cfg(feature = "dds")]
    Bare(#[expect(dead_code, reason = "kept reading")] super::bare::Sink),
}

impl Sink {
    /// So many.
    pub(super) fn connect(
        transport: Transport,
        server: &str,
        count: u32,
        arrivals: &Arc<Arrivals>,
    ) -> Result<Vec<Self>, BenchError> {
        #[cfg(feature = "dds")]
        if transport == Transport::Cyclone {
            return Ok(vec![Self::Bare(super::bare::Sink::connect(count, arrivals)?)]);
        }
        let settings = settings(transport, server);
        let one = |_| {
            let arrivals = Arc::clone(arrivals);
            let consumer = Consumer::new(CHANNEL).settings(settings.clone());
            let ready = consumer.on(move |block: Block| arrivals.take(block.sent_ns)).and_then(Consumer::ready);
            ready.map(Self::Simple).map_err(setup("connecting a subscriber"))
        };
        (0..count).map(one).collect()
    }
}
