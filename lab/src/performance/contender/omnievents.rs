//! omniEvents, an event service: Anys only.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use client::event_service::EventChannel;
use client::{Orb, OrbOptions};
use giop::cdr::Writer;
use giop::ior::Ior;

use super::peers::{self, Installed, free_address, silent};
use super::{Absence, Consume, Contender, End, Scenario, Server, Supply, consumers_behind};
use crate::campanile::{ProxyAddress, consumer_reference, setup};
use crate::performance::ends::{Publish, Subscribe};
use crate::performance::protocol::Protocol;
use crate::process::Process;
use crate::{BenchError, Form};

/// The folder it is in.
const FOLDER: &str = "omnievents";

/// What a consumer's reference says it is.
const CONSUMER_TYPE: &str = "IDL:omg.org/CosEventComm/PushConsumer:1.0";

/// `TCKind` of an unsigned long (CORBA 3.3 part 2, table 9.2), which the criteria are; the manual says long.
const TK_ULONG: u32 = 5;

/// What the manual calls the key under which the factory makes channels: the id and the kind of its one component.
const CHANNEL_KEY: (&str, &str) = ("EventChannel", "object interface");

/// How long a channel waits before it carries on what has come, in nanoseconds (`CyclePeriod_ns`; default 100 ms): as short as can be
/// without one of its threads never sleeping, which would take a core from the contender with the next turn.
const CYCLE_PERIOD_NS: u32 = 1_000_000;

/// Events that may wait for a consumer (`MaxQueueLength`); beyond, the oldest is discarded.
const QUEUE_LENGTH: u32 = 10_000_000;

/// The service in a process of its own.
pub(crate) const CONTENDER: Contender =
    Contender { key: "omnievents", name: "omniEvents", about, warm_up_times: 1, start };

fn about() -> String {
    let name = peers::name_and_version("omniEvents", FOLDER);
    format!(
        "{name}, the same ends, with Anys in place of structured events; its cycle is 1 ms, and it pushes to consumers \
         two-way in every case; see lab/peers/README.md"
    )
}

fn start(scenario: &Scenario) -> Result<Box<dyn Server>, Absence> {
    if matches!(scenario.supply, Supply::Sequences(..)) || matches!(scenario.consume, Consume::Sequences(..)) {
        return Err(Absence::NotOffered("it has no sequences of events"));
    }
    if scenario.supply == Supply::OneWay {
        // Seen: a second's pushes are not delivered within 30 s.
        return Err(Absence::NotOffered("it holds no supplier back, and queues one-way pushes without bound"));
    }
    let installed = Installed::find(FOLDER)?;
    let (service, address) = Service::spawn(&installed, scenario.server_core)?;
    let channel = new_channel(address)?;
    let doing = "connecting a supplier to omniEvents";
    let proxy = channel.for_suppliers().and_then(|admin| admin.obtain_push_consumer()).map_err(setup(doing))?;
    proxy.connect_push_supplier(None).map_err(setup(doing))?;
    let proxy = ProxyAddress::of(proxy.object(), doing)?;
    Ok(Box::new(OmniEventsServer { scenario: *scenario, service, channel, proxy }))
}

/// A running service.
struct Service {
    process: Process,
    /// Where it keeps its channels; removed at the end.
    state: PathBuf,
}

impl Service {
    /// Starts a service on a free port of loopback.
    fn spawn(installed: &Installed, core: Option<usize>) -> Result<(Self, SocketAddr), BenchError> {
        let address = free_address()?;
        let port = address.port().to_string();
        let state = installed.file(format!("run-{port}"));
        std::fs::create_dir_all(&state).map_err(BenchError::io("making a folder for omniEvents"))?;
        let variables = [
            ("LD_LIBRARY_PATH", installed.file("root/usr/lib").into()),
            ("OMNIORB_CONFIG", installed.file("omniORB.cfg").into()),
        ];
        // What it writes into references; it would take an address of the network.
        let published = format!("giop:tcp:{address}");
        let arguments = ["-f", "-v", "-t", "/dev/stderr", "-p", &port, "-ORBendPointPublish", &published, "-l"];
        let arguments = arguments.into_iter().map(OsStr::new).chain([state.as_os_str()]);
        let words = peers::command(core, &variables, &installed.file("root/usr/sbin/omniEvents"), arguments)?;
        let ready = |line: &str| line.contains(" IOR:").then_some(());
        let (process, ()) = Process::spawn("omniEvents", peers::to_command(&words), ready)?;
        Ok((Self { process, state }, address))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It only frees some kilobytes, and what cannot be removed is in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// Makes a channel without clients.
fn new_channel(address: SocketAddr) -> Result<EventChannel, BenchError> {
    let doing = "making a channel in omniEvents";
    let factory = Orb::new(OrbOptions::default()).resolve(&format!("corbaloc::1.2@{address}/omniEvents"));
    let factory = factory.map_err(setup(doing))?;
    let reply = factory.invoke("create_object", write_channel_wanted).map_err(setup(doing))?;
    let channel = reply.read("create_object", Ior::read).map_err(setup(doing))?;
    Ok(EventChannel::unchecked(factory.orb().object(channel)))
}

/// `GenericFactory::create_object(in Key k, in Criteria the_criteria)` of the OMG's Life Cycle Service 1.2.
fn write_channel_wanted(writer: &mut Writer<'_>) {
    writer.u32(1);
    writer.string(CHANNEL_KEY.0);
    writer.string(CHANNEL_KEY.1);
    let criteria = [("CyclePeriod_ns", CYCLE_PERIOD_NS), ("MaxQueueLength", QUEUE_LENGTH)];
    writer.u32(2);
    for (name, value) in criteria {
        writer.string(name);
        writer.u32(TK_ULONG);
        writer.u32(value);
    }
}

struct OmniEventsServer {
    scenario: Scenario,
    service: Service,
    channel: EventChannel,
    proxy: ProxyAddress,
}

impl Server for OmniEventsServer {
    fn subscribe(&mut self, consumers: Range<u32>) -> Result<End<Subscribe>, BenchError> {
        Ok(consumers_behind(&self.proxy, Protocol::Giop(Form::Any), consumers))
    }

    fn subscribed(&mut self, subscribe: &Subscribe, listening: Option<SocketAddr>) -> Result<(), BenchError> {
        let doing = "connecting a consumer to omniEvents";
        let address = listening.ok_or_else(silent)?;
        let admin = self.channel.for_consumers().map_err(setup(doing))?;
        for key in &subscribe.targets {
            let consumer = self.channel.object().orb().object(consumer_reference(CONSUMER_TYPE, address, key, &[]));
            let proxy = admin.obtain_push_supplier().map_err(setup(doing))?;
            proxy.connect_push_consumer(&consumer).map_err(setup(doing))?;
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<End<Publish>, BenchError> {
        let ProxyAddress { address, key } = self.proxy.clone();
        Ok(End::own(self.scenario.publisher(Protocol::Giop(Form::Any), address, key)))
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.service.process.pid()]
    }
}
