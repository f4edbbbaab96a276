//! Campanile again, by its door for lines of JSON.

use std::net::SocketAddr;
use std::ops::Range;

use super::{Absence, Contender, End, Scenario, Server, Supply};
use crate::BenchError;
use crate::campanile::Campanile;
use crate::floor::counting::Counting;
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::protocol::Protocol;

/// The channel that is there without configuration.
const CHANNEL: &[u8] = b"0";

/// The service with its default settings, in a process of its own.
pub(crate) const CONTENDER: Contender =
    Contender { key: "json", name: "Campanile, lines of JSON", about, warm_up_times: 1, start };

fn about() -> String {
    "`campanile serve --json-listen`; the payload is the event's body, a text".to_owned()
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if matches!(scenario.supply, Supply::Sequences(..)) || scenario.anys {
        return Err(Absence::NotOffered("a line is one structured event"));
    }
    let (service, address) = Campanile::start_with_json(scenario.server_core)?;
    Ok(Box::new(JsonServer { scenario: *scenario, service, address }))
}

struct JsonServer {
    scenario: Scenario,
    service: Campanile,
    address: SocketAddr,
}

impl Server for JsonServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        let targets: Vec<Vec<u8>> = consumers.map(|_| CHANNEL.to_vec()).collect();
        let copies = targets.len() > 1;
        Ok(End::own(Subscribe { protocol: Protocol::Json, address: Some(self.address), targets, copies }))
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        Ok(End::own(self.scenario.publisher(Protocol::Json, self.address, CHANNEL.to_vec())))
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
