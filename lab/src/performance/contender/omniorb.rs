//! omniORB: its suppliers push to its consumers without a service, by the program of `lab/peers/omniorb`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Range;

use super::peers::{self, Installed, SUBJECT, silent};
use super::{Absence, Consume, Contender, End, Scenario, Server, Supply};
use crate::BenchError;
use crate::performance::ends::{Publish, Subscribe};

/// The folder it is in.
const FOLDER: &str = "omniorb";

/// A supplier and a consumer, both of them omniORB's.
pub(crate) const CONTENDER: Contender =
    Contender { key: "omniorb", name: "omniORB direct", about, warm_up_times: 1, start };

fn about() -> String {
    let name = peers::name_and_version("omniORB", FOLDER);
    format!("{name} at both ends and nothing between them: one hop, so no process in the middle")
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if scenario.consumers != 1 {
        return Err(Absence::NotOffered("without a service there is one consumer"));
    }
    // What the supplier pushes is what the consumer gets.
    let fits = match (scenario.supply, scenario.consume) {
        (Supply::TwoWay | Supply::Sequences(_, 1), Consume::TwoWay(_)) => matches!(scenario.supply, Supply::TwoWay),
        (Supply::OneWay, _) => !matches!(scenario.consume, Consume::Sequences(..)),
        (Supply::Sequences(_, 0 | 1), Consume::Sequences(..)) => true,
        _ => false,
    };
    if !fits {
        return Err(Absence::NotOffered("a thread has one unanswered call at most, and what is pushed is what comes"));
    }
    let installed = Installed::find(FOLDER)?;
    Ok(Box::new(OmniOrbServer { scenario: *scenario, installed, consumer: None }))
}

struct OmniOrbServer {
    scenario: Scenario,
    installed: Installed,
    consumer: Option<SocketAddr>,
}

impl OmniOrbServer {
    /// An end: a publisher or consumers, as the first order says.
    fn program(&self) -> Result<Option<Vec<OsString>>, BenchError> {
        let variables = [("OMNIORB_CONFIG", self.installed.file("omniORB.cfg").into())];
        peers::command(self.scenario.ends_core, &variables, &self.installed.file("peer"), []).map(Some)
    }
}

impl Server for OmniOrbServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        let order = peers::subscribers(self.scenario.giop(), None, consumers);
        Ok(End { order, program: self.program()? })
    }

    fn subscribed(&mut self, _subscribe: &Subscribe, listening: Option<SocketAddr>) -> Result<(), BenchError> {
        self.consumer = listening;
        Ok(())
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        let address = self.consumer.ok_or_else(silent)?;
        let order = self.scenario.publisher(self.scenario.giop(), address, SUBJECT.to_vec());
        Ok(End { order, program: self.program()? })
    }
}
