//! `campanile-bench tls`: what TLS costs one event, beside a bare relay.
//!
//! One supplier publishes an event, waits until it is answered and until the consumer has it, and goes on; both are this process. Between
//! them is a service in the clear, a service over TLS, or a process that knows nothing but records and passes on what is in them: the least
//! that a process in the middle that speaks TLS with both sides does. Blocks of events take turns, so that all have the same machine; the
//! process in the middle has a core, this process another one, and both cores are kept awake: what a wake-up costs else depends on where
//! the scheduler happens to put a thread, and is several times what is to be measured.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use ::tls::{ClientEnd, Clients, Identity, ServerEnd, Session, Trust, sealed_bytes_max};
use client::notify::{StructuredEvent, StructuredProxyPushConsumer};
use client::{
    Activation, ConsumerOptions, InvokeError, Orb, OrbOptions, OrbTls, Servant, ServantError, SimpleConsumer,
    SimpleSupplier, SupplierOptions,
};
use giop::cdr::{Reader, Writer};
use giop::ior::{Profile, SecureTransport};
use giop::value::AnyValue;
use load::poll::Poll;
use serde::Serialize;
use serde_json::json;

use crate::campanile::Campanile;
use crate::hop::{self, accept_supplier};
use crate::latency::ratio;
use crate::persistent::Folder;
use crate::places::Places;
use crate::process::{Process, arguments};
use crate::report::{Aim, Reported};
use crate::spin::Spinners;
use crate::{BenchError, Options, Output, clock};

/// What TLS may make of the latency in the clear, and the service of that of a bare relay.
const OF_CLEAR_MAX: f64 = 1.35;
const OF_RELAY_MAX: f64 = 1.1;
/// Events of one block.
const BLOCK: usize = 250;
/// Events of the first block of each that are not counted.
const WARM_UP: usize = 500;

/// Of one contender.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Figures {
    p50_ns: u64,
    p99_ns: u64,
}

pub(crate) fn run(options: &Options, _: &mut Output<'_>) -> Reported {
    let events = usize::try_from(options.events).unwrap_or(usize::MAX);
    let folder = Folder::new("tls", None)?;
    let files = Files::write(&folder)?;
    let anywhere = Places::anywhere()?;
    let places = anywhere.pinned();
    // Before there are threads that call and are called, for those run where the thread that starts them does.
    places.supplier.take()?;
    let service = Campanile::start_configured(Some(&files.config))?;
    // The whole reference, which names the port for TLS, too.
    let reference = files.reference.display().to_string();
    let event = StructuredEvent {
        remainder: AnyValue::from("x".repeat(options.payload as usize).as_str()),
        ..StructuredEvent::new("Bench", "Tls", "")
    };
    // Each has a channel of its own, since what one publishes is not to come to the other.
    let (_channel, second) = service.factory()?.create_channel(&[], &[]).map_err(setup("making a channel"))?;
    let mut contenders = [
        Contender::service(&reference, None, OrbOptions::default())?,
        Contender::service(&reference, Some(second), files.orb())?,
        Contender::relay(&files, places)?,
    ];
    places.middle.give(service.process().pid())?;
    let _awake = Spinners::start(&anywhere.middle.cores())?;
    take_turns(&mut contenders, &event, events, options.rate)?;
    let [clear, tls, relay] = contenders.each_mut().map(Contender::figures);
    let (of_clear, of_relay) = (ratio(tls.p50_ns, clear.p50_ns), ratio(tls.p50_ns, relay.p50_ns));
    let aim = |aim: String, found: f64, most: f64| Aim::new(aim, format!("{found:.2}"), found <= most);
    let aims = vec![
        aim(format!("p50 over TLS at most {OF_CLEAR_MAX} × that in the clear"), of_clear, OF_CLEAR_MAX),
        aim(format!("p50 over TLS at most {OF_RELAY_MAX} × that of a bare relay over TLS"), of_relay, OF_RELAY_MAX),
    ];
    let report = json!({
        "payload": options.payload,
        "events": events,
        "rate": options.rate,
        "clear": clear,
        "tls": tls,
        "relay": relay,
        "of_clear": of_clear,
        "of_relay": of_relay,
    });
    Ok((aims, report))
}

/// Has each pass so many events, block by block.
fn take_turns(
    contenders: &mut [Contender],
    event: &StructuredEvent,
    events: usize,
    rate: f64,
) -> Result<(), BenchError> {
    for contender in contenders.iter_mut() {
        for _ in 0..WARM_UP {
            contender.pass(event)?;
        }
        contender.taken.clear();
    }
    let period = (rate > 0.0).then(|| clock::nanoseconds(1.0 / rate));
    let mut due = clock::now();
    for _ in 0..events.div_ceil(BLOCK) {
        for contender in contenders.iter_mut() {
            for _ in 0..BLOCK {
                if let Some(period) = period {
                    clock::sleep_until(due)?;
                    due = clock::now() + period;
                }
                contender.pass(event)?;
            }
        }
    }
    Ok(())
}

/// What both sides show each other, and the service's configuration.
struct Files {
    /// It vouches for itself, so it is its own authority.
    certificate: PathBuf,
    key: PathBuf,
    config: PathBuf,
    /// What the service writes.
    reference: PathBuf,
}

impl Files {
    fn write(folder: &Folder) -> Result<Self, BenchError> {
        let wrong = |why: String| BenchError::Io { doing: "making certificates", source: std::io::Error::other(why) };
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let certified = certified.map_err(|error| wrong(error.to_string()))?;
        let files = Self {
            certificate: folder.file("certificate.pem"),
            key: folder.file("key.pem"),
            config: folder.file("tls.toml"),
            reference: folder.file("service.ior"),
        };
        let config = format!(
            "ior_file = {:?}\n[store]\ndirectory = \"none\"\n[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nca = {:?}\n",
            files.reference, files.certificate, files.key, files.certificate, files.certificate
        );
        for (path, text) in [
            (&files.certificate, certified.cert.pem()),
            (&files.key, certified.signing_key.serialize_pem()),
            (&files.config, config),
        ] {
            std::fs::write(path, text).map_err(BenchError::io("writing certificates"))?;
        }
        Ok(files)
    }

    fn orb(&self) -> OrbOptions {
        let tls = OrbTls::trusting(&self.certificate).with_identity(&self.certificate, &self.key);
        OrbOptions { tls: Some(tls), ..OrbOptions::default() }
    }
}

fn setup(doing: &'static str) -> impl Fn(InvokeError) -> BenchError {
    move |error| BenchError::Setup { doing: doing.into(), reason: error.to_string() }
}

/// How a supplier pushes, and what keeps its consumer there.
enum Way {
    Service(SimpleSupplier, #[expect(dead_code, reason = "it is the consumer")] SimpleConsumer),
    Relay(
        StructuredProxyPushConsumer,
        #[expect(dead_code, reason = "the consumer, and the relay")] (Activation, Process),
    ),
}

struct Contender {
    way: Way,
    arrived: Receiver<Instant>,
    taken: Vec<u64>,
}

/// A consumer that only says when it was pushed to.
struct Stamps(Sender<Instant>);

impl Servant for Stamps {
    fn type_id(&self) -> &str {
        "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0"
    }

    fn invoke(&self, operation: &str, _: &mut Reader<'_>, _: &mut Writer<'_>) -> Result<(), ServantError> {
        if operation == "push_structured_event" {
            let _ = self.0.send(Instant::now());
        }
        Ok(())
    }
}

impl Contender {
    fn service(reference: &str, channel_id: Option<i32>, orb: OrbOptions) -> Result<Self, BenchError> {
        let (sender, arrived) = channel();
        let wrong = setup("connecting to the service");
        let options = ConsumerOptions { orb: orb.clone(), ..ConsumerOptions::default() };
        let consumer = SimpleConsumer::connect(reference, channel_id, options, move |_| {
            let _ = sender.send(Instant::now());
            Ok(())
        });
        let consumer = consumer.map_err(&wrong)?;
        let options = SupplierOptions { orb, ..SupplierOptions::default() };
        let supplier = SimpleSupplier::connect_with(reference, channel_id, options).map_err(&wrong)?;
        Ok(Self { way: Way::Service(supplier, consumer), arrived, taken: Vec::new() })
    }

    fn relay(files: &Files, places: Places) -> Result<Self, BenchError> {
        let (sender, arrived) = channel();
        let orb = Orb::new(files.orb());
        let wrong = setup("connecting to the relay");
        let activation = orb.activate(Arc::new(Stamps(sender))).map_err(&wrong)?;
        let mut reference = activation.reference().ior().clone();
        let consumer = reference.iiop().and_then(|profile| profile.secure_transport()).map_or(0, |secure| secure.port);
        let (process, port) = start_relay(files, consumer)?;
        places.middle.give(process.pid())?;
        for profile in &mut reference.profiles {
            if let Profile::Iiop(profile) = profile {
                profile.host = Ipv4Addr::LOCALHOST.to_string();
                profile.components.retain(|component| component.tag != giop::ior::tag::SSL_SEC_TRANS);
                let options = SecureTransport::PROTECTION;
                let secure = SecureTransport { supports: options, requires: options, port };
                profile.components.push(secure.to_component());
            }
        }
        let proxy = StructuredProxyPushConsumer::unchecked(Orb::new(files.orb()).object(reference));
        Ok(Self { way: Way::Relay(proxy, (activation, process)), arrived, taken: Vec::new() })
    }

    fn pass(&mut self, event: &StructuredEvent) -> Result<(), BenchError> {
        let began = Instant::now();
        match &self.way {
            Way::Service(supplier, _) => supplier.publish(event),
            Way::Relay(proxy, _) => proxy.push_structured_event(event),
        }
        .map_err(setup("publishing"))?;
        let arrived = self.arrived.recv().unwrap_or(began);
        let taken = arrived.saturating_duration_since(began).as_nanos();
        self.taken.push(u64::try_from(taken).unwrap_or(u64::MAX));
        Ok(())
    }

    fn figures(&mut self) -> Figures {
        self.taken.sort_unstable();
        let at = |per_cent: usize| self.taken.get(self.taken.len() * per_cent / 100).copied().unwrap_or(0);
        Figures { p50_ns: at(50), p99_ns: at(99) }
    }
}

/// Starts the relay in front of the consumer at that port. Says where it listens.
fn start_relay(files: &Files, consumer: u16) -> Result<(Process, u16), BenchError> {
    let consumer = SocketAddr::from((Ipv4Addr::LOCALHOST, consumer)).to_string();
    let mut words = arguments([COMMAND, "--consumer", &consumer]);
    for (name, file) in [("--certificate", &files.certificate), ("--key", &files.key)] {
        words.extend([name.into(), file.into()]);
    }
    let (process, address) = hop::start(&words, (None, None))?;
    Ok((process, address.port()))
}

pub(crate) const COMMAND: &str = "tls-relay-process";

/// Options of the hidden relay process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TlsRelayOptions {
    /// Where the consumer listens
    #[arg(long, value_name = "HOST:PORT")]
    consumer: SocketAddr,
    /// What it shows both, and what vouches for them
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Passes on what is in the records between the first client and the consumer, until one of the two closes.
pub(crate) fn run_process(options: &TlsRelayOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let unsecured = |error: &dyn core::error::Error| BenchError::Io {
        doing: "securing a connection",
        source: std::io::Error::other(error.to_string()),
    };
    let identity = || Identity::read(&options.certificate, &options.key).map_err(|error| unsecured(&error));
    let trust = Trust::read(&options.certificate, None).map_err(|error| unsecured(&error))?;
    let server = ServerEnd::new(identity()?, Clients::Required(trust.clone())).map_err(|error| unsecured(&error))?;
    let client = ClientEnd::new(trust, true, Some(identity()?)).map_err(|error| unsecured(&error))?;
    let supplier = accept_supplier(out)?;
    let session = server.session().map_err(|error| unsecured(&error))?;
    let mut supplier = Side::shaken(supplier, session).map_err(|error| unsecured(&*error))?;
    let consumer = TcpStream::connect(options.consumer).map_err(BenchError::io("connecting to the consumer"))?;
    let session = client.session("127.0.0.1").map_err(|error| unsecured(&error))?;
    let mut consumer = Side::shaken(consumer, session).map_err(|error| unsecured(&*error))?;
    let peers = Poll::new()?;
    peers.add(&supplier.tcp, 0)?;
    peers.add(&consumer.tcp, 1)?;
    let (mut read, mut plain, mut sealed) = (vec![0; 64 << 10], Vec::new(), vec![0; sealed_bytes_max(64 << 10)]);
    if !supplier.early.is_empty() {
        let octets = consumer.session.seal(&supplier.early, &mut sealed).map_err(|error| unsecured(&error))?;
        let record = sealed.get(..octets).unwrap_or_default();
        consumer.tcp.write_all(record).map_err(BenchError::io("writing to the consumer"))?;
    }
    peers.serve(|from| {
        let (from, to) = if from == 0 { (&mut supplier, &mut consumer) } else { (&mut consumer, &mut supplier) };
        let count = match from.tcp.read(&mut read) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(_) => return Ok(false),
        };
        plain.clear();
        let arrived = read.get_mut(..count).unwrap_or_default();
        let opened = from.session.take_in(arrived, |octets| plain.extend_from_slice(octets), &mut Vec::new());
        if opened.is_err() || plain.is_empty() {
            return Ok(opened.is_ok());
        }
        let Ok(octets) = to.session.seal(&plain, &mut sealed) else { return Ok(false) };
        Ok(to.tcp.write_all(sealed.get(..octets).unwrap_or_default()).is_ok())
    })
}

struct Side {
    tcp: TcpStream,
    session: Session,
    /// What came together with the end of the handshake.
    early: Vec<u8>,
}

impl Side {
    fn shaken(mut tcp: TcpStream, mut session: Session) -> Result<Self, Box<dyn core::error::Error>> {
        tcp.set_nodelay(true)?;
        let (mut read, mut count, mut out, mut early) = (vec![0; 16 << 10], 0, Vec::new(), Vec::new());
        loop {
            let arrived = read.get_mut(..count).unwrap_or_default();
            session.take_in(arrived, |plain| early.extend_from_slice(plain), &mut out)?;
            tcp.write_all(&out)?;
            out.clear();
            if !session.is_handshaking() {
                return Ok(Self { tcp, session, early });
            }
            count = tcp.read(&mut read)?;
            if count == 0 {
                return Err("the handshake was broken off".into());
            }
        }
    }
}
