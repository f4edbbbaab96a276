//! The NATS server.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::ops::Range;

use super::peers::{self, Installed, SUBJECT};
use super::{Absence, Consume, Contender, End, Scenario, Server, Supply};
use crate::BenchError;
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::protocol::Protocol;
use crate::process::Process;

/// The folder it is in.
const FOLDER: &str = "nats";

/// The server in a process of its own.
pub(crate) const CONTENDER: Contender = Contender { key: "nats", name: "NATS", about, warm_up_times: 1, start };

fn about() -> String {
    let name = peers::name_and_version("nats-server", FOLDER);
    format!(
        "{name}, core NATS; messages of the same payload over its text protocol, by the same ends. It answers publishers in \
         its verbose mode only, which two-way and windowed mean here, and never hears of consumers; see lab/peers/README.md"
    )
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if matches!(scenario.supply, Supply::Sequences(..)) || matches!(scenario.consume, Consume::Sequences(..)) {
        return Err(Absence::NotOffered("it has no sequences of events"));
    }
    let installed = Installed::find(FOLDER)?;
    let config = installed.file("nats-server.conf");
    let arguments = [OsStr::new("--config"), config.as_os_str()];
    // Go's collector runs at four times what is in use and not at twice: 10 % more messages (measured; the default is 100).
    let variables = [("GOGC", "400".into())];
    let words = peers::command(scenario.server_core, &variables, &installed.file("nats-server"), arguments)?;
    let (process, address) = Process::spawn("nats-server", peers::to_command(&words), listening)?;
    Ok(Box::new(NatsServer { scenario: *scenario, process, address }))
}

/// The address in the line of its log that says where it listens.
fn listening(line: &str) -> Option<SocketAddr> {
    line.split_once("Listening for client connections on ")?.1.trim().parse().ok()
}

struct NatsServer {
    scenario: Scenario,
    process: Process,
    address: SocketAddr,
}

impl Server for NatsServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        // Consumers of a process share a connection, as those of a CORBA service do.
        Ok(End::own(peers::subscribers(Protocol::Nats, Some(self.address), consumers)))
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        Ok(End::own(self.scenario.publisher(Protocol::Nats, self.address, SUBJECT.to_vec())))
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.process.pid()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_address_in_the_line_that_says_where_it_listens() {
        let line = "[9662] [INF] Listening for client connections on 127.0.0.1:46045";
        assert_eq!(listening(line), Some("127.0.0.1:46045".parse().unwrap()));
        assert_eq!(listening("[9662] [INF] Server is ready"), None);
    }
}
