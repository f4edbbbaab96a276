//! JacORB's Notification Service.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use client::notify::{EventChannelFactory, Property};
use client::{Orb, OrbOptions};

use super::peers::{self, Installed, silent};
use super::{Absence, Consume, Contender, End, Scenario, Server, consumers_behind};
use crate::campanile::{Channel, ProxyAddress, setup};
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::protocol::Protocol;
use crate::process::Process;
use crate::{BenchError, CarriageOptions};

/// The folder it is in.
const FOLDER: &str = "jacorb-notification";

/// The service in a Java machine of its own.
pub(crate) const CONTENDER: Contender = Contender {
    key: "jacorb",
    name: "JacORB Notification",
    about,
    // Its Java machine compiles: 30,000 events/s in the second after the first half, 45,000 some seconds later.
    warm_up_times: 7,
    start,
};

fn about() -> String {
    let name = peers::name_and_version("JacORB", FOLDER);
    format!(
        "{name}, the same ends; its queues are unbounded and FIFO, and it pushes two-way in every case; see lab/peers/README.md"
    )
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    let installed = Installed::find(FOLDER)?;
    let (process, reference) = spawn(&installed, scenario.server_core, threads_for(scenario.consumers))?;
    let doing = "making a channel in JacORB";
    let factory = Orb::new(OrbOptions::default()).resolve(&reference).map_err(setup(doing))?;
    let (channel, _) = EventChannelFactory::unchecked(factory).create_channel(&[], &[]).map_err(setup(doing))?;
    let channel = Channel::of(channel);
    let carriage = CarriageOptions { form: scenario.form_in(), ..CarriageOptions::default() };
    let proxy = channel.add_supplier(carriage)?;
    Ok(Box::new(JacOrbServer { scenario: *scenario, process, channel, proxy }))
}

/// Starts it for so many consumers; the reference to its factory.
pub(crate) fn start_for(consumers: u32) -> Result<(Process, String), Absence> {
    let installed = Installed::find(FOLDER)?;
    Ok(spawn(&installed, None, threads_for(consumers))?)
}

/// Threads that deliver. With several, more than one has a hand in each event for a single consumer (seen: 38,000 events/s with 4, the
/// default, and 47,000 with 1); many consumers are served faster by all of them.
const fn threads_for(consumers: u32) -> u32 {
    if consumers == 1 { 1 } else { 4 }
}

/// Starts a service on a free port of loopback; the reference to its factory.
fn spawn(installed: &Installed, core: Option<usize>, threads: u32) -> Result<(Process, String), BenchError> {
    let arguments = [
        installed.text("@", "java.options"),
        format!("-Djacorb.notification.proxysupplier.thread_pool_size={threads}").into(),
        installed.text("-Dcustom.props=", "service.properties"),
        "-cp".into(),
        installed.text("", "lib/*"),
        "org.jacorb.notification.ConsoleMain".into(),
        "-printIOR".into(),
    ];
    let words = peers::command(core, &[], Path::new("java"), arguments.iter().map(OsString::as_os_str))?;
    let reference = |line: &str| line.starts_with("IOR:").then(|| line.trim().to_owned());
    Process::spawn("JacORB Notification", peers::to_command(&words), reference)
}

struct JacOrbServer {
    scenario: Scenario,
    process: Process,
    channel: Channel,
    proxy: ProxyAddress,
}

impl Server for JacOrbServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        Ok(consumers_behind(&self.proxy, Protocol::Giop(self.scenario.form_out()), consumers))
    }

    fn subscribed(&mut self, subscribe: &Subscribe, listening: Option<SocketAddr>) -> Result<(), BenchError> {
        let address = listening.ok_or_else(silent)?;
        // The window is what it knows nothing of: one push is unanswered at a time.
        let qos = match self.scenario.consume {
            Consume::Sequences(events, _) => {
                Some(Property::new("MaximumBatchSize", i32::try_from(events).unwrap_or(i32::MAX)))
            }
            Consume::TwoWay(_) | Consume::OneWay => None,
        };
        for key in &subscribe.targets {
            self.channel.connect_consumer(address, key, self.scenario.form_out(), qos.as_slice())?;
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        let ProxyAddress { address, key } = self.proxy.clone();
        Ok(End::own(self.scenario.publisher(self.scenario.giop(), address, key)))
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.process.pid()]
    }
}
