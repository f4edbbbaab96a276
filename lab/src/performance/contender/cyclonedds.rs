//! Cyclone DDS: its writers reach its readers without a service, by the program of `lab/peers/cyclonedds`.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

use super::peers::{self, Installed, SUBJECT};
use super::{Absence, Consume, Contender, End, Scenario, Server, Supply};
use crate::performance::ends::{Publish, Subscribe};
use crate::{BenchError, Form, performance::protocol::Protocol};

/// The folder it is in.
const FOLDER: &str = "cyclonedds";

/// Domains that one is chosen of, so that benchmarks beside each other do not meet: each takes 250 ports.
const DOMAINS: u32 = 200;

/// A writer and its readers.
pub(crate) const CONTENDER: Contender =
    Contender { key: "cyclonedds", name: "Cyclone DDS", about, warm_up_times: 1, start };

fn about() -> String {
    let name = peers::name_and_version("Cyclone DDS", FOLDER);
    format!(
        "{name}, reliable, all samples kept, over UDP; its writer sends to each reader's process itself: one hop, so no \
         process in the middle. Samples are acknowledged in the background and no writer waits for that; two-way means \
         that each leaves at once in a packet of its own, one-way that small ones share packets; see lab/peers/README.md"
    )
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if matches!(scenario.supply, Supply::Sequences(..)) || matches!(scenario.consume, Consume::Sequences(..)) {
        return Err(Absence::NotOffered("it has no sequences of events"));
    }
    if matches!(scenario.supply, Supply::Windowed(_)) {
        return Err(Absence::NotOffered("its writers know no windows"));
    }
    let installed = Installed::find(FOLDER)?;
    Ok(Box::new(CycloneDdsServer { scenario: *scenario, installed }))
}

struct CycloneDdsServer {
    scenario: Scenario,
    installed: Installed,
}

impl CycloneDdsServer {
    /// An end: a writer or readers, as the first order says.
    fn program(&self) -> Result<Option<Vec<OsString>>, BenchError> {
        let domain = (std::process::id() % DOMAINS).to_string();
        let consumers = self.scenario.consumers.to_string();
        let batch = if self.scenario.supply == Supply::OneWay { "1" } else { "0" };
        let arguments = ["--domain", &domain, "--consumers", &consumers, "--batch", batch].map(OsStr::new);
        let variables = [("CYCLONEDDS_URI", self.installed.text("file://", "cyclonedds.xml"))];
        peers::command(self.scenario.ends_core, &variables, &self.installed.file("peer"), arguments).map(Some)
    }
}

impl Server for CycloneDdsServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        Ok(End { order: peers::subscribers(PROTOCOL, None, consumers), program: self.program()? })
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        // DDS finds readers by their topic.
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let order = self.scenario.publisher(PROTOCOL, nowhere, SUBJECT.to_vec());
        Ok(End { order, program: self.program()? })
    }
}

/// Its program reads nothing of this; it has a protocol of its own.
const PROTOCOL: Protocol = Protocol::Giop(Form::Structured);
