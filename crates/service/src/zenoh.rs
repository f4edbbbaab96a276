//! The service's session in Zenoh, and the thread that takes links which other services make through it.
//!
//! Each process has one session, opened at the start if the configuration has `[links.zenoh]`. Links are dialled by threads of their own
//! (see [`crate::protocols::link`]); what others dial is taken by one thread, which hands the main lane one end of a connection within the
//! process and has the other carried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use zenoh_streams::{Carried, Incoming, Options, Session, TlsFiles};

use crate::config::Config;
use crate::lane::io::socket::Layer;
use crate::protocols::link::{FromZenoh, ZenohEnds, narrow_pair};

/// How long it is waited for a link until it is looked whether the service has ended.
const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// Links that may wait for the lane to take them.
const TAKEN_MAX: usize = 16;

/// The session and its thread. They end when the lanes have.
#[derive(Default)]
pub(crate) struct Bridge {
    _session: Option<Arc<Session>>,
    taker: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(taker) = self.taker.take() {
            // One that panicked has said so on standard error already.
            let _panicked = taker.join();
        }
    }
}

/// Opens the session that is configured, if one is.
///
/// # Errors
/// Says why that cannot be: an end point to listen at is in use, or a file cannot be read.
pub(crate) fn begin(config: &Config) -> Result<(Bridge, ZenohEnds), String> {
    let zenoh = &config.links.zenoh;
    if !zenoh.is_used() {
        return Ok(Default::default());
    }
    let tls = &config.tls;
    let files = tls.ca.clone().zip(tls.certificate.clone()).zip(tls.key.clone());
    let tls_files =
        files.map(|((ca, certificate), key)| TlsFiles { ca, certificate, key, check_names: tls.check_names });
    let options = Options {
        realm: zenoh.realm.clone(),
        name: zenoh.name.clone(),
        listen: zenoh.listen.clone(),
        connect: zenoh.connect.clone(),
        scouting: zenoh.scouting,
        tls: tls_files,
        window_bytes: zenoh.window_bytes,
        accepts: zenoh.accept,
        absent_for: None,
    };
    let (session, incoming) = Session::open(options).map_err(|error| error.to_string())?;
    let session = Arc::new(session);
    let mut bridge = Bridge::default();
    bridge._session = Some(Arc::clone(&session));
    let mut ends = ZenohEnds { session: Some(session), taken: None };
    if zenoh.accept {
        let (lane, taken) = sync_channel(TAKEN_MAX);
        let taker = Taker {
            has_certificate: tls.is_used() && tls.certificate.is_some(),
            takes_plain: !tls.required,
            lane,
            is_over: Arc::clone(&bridge.is_over),
            carried: Vec::new(),
        };
        let thread = Builder::new().name("zenoh-takes".to_owned()).spawn(move || taker.run(&incoming));
        bridge.taker = Some(thread.map_err(|error| error.to_string())?);
        ends.taken = Some(taken);
    }
    Ok((bridge, ends))
}

/// What takes the links of others.
struct Taker {
    /// Whether TLS can be spoken, and whether links without are taken.
    has_certificate: bool,
    takes_plain: bool,
    lane: SyncSender<FromZenoh>,
    is_over: Arc<AtomicBool>,
    carried: Vec<Carried>,
}

impl Taker {
    fn run(mut self, incoming: &Receiver<Incoming>) {
        loop {
            match incoming.recv_timeout(LOOKS_AFTER) {
                Ok(incoming) => self.take(incoming),
                Err(RecvTimeoutError::Timeout) if !self.is_over.load(Ordering::Relaxed) => {}
                Err(_) => return,
            }
            self.carried.retain(|carried| carried.ended_within(Duration::ZERO).is_none());
        }
    }

    fn take(&mut self, incoming: Incoming) {
        let layer = if incoming.is_secure() { Layer::Tls } else { Layer::Plain };
        match layer {
            Layer::Tls if !self.has_certificate => {
                return incoming.refuse("it has no certificate: make the link without tls");
            }
            Layer::Plain if !self.takes_plain => {
                return incoming.refuse("it takes links over TLS alone: make the link with tls = true");
            }
            _ => {}
        }
        let far = incoming.far().to_owned();
        let taken = narrow_pair().and_then(|(own, tcp)| {
            let carried = incoming.carry(own)?;
            Ok((carried, FromZenoh { tcp, layer }))
        });
        match taken {
            Ok((carried, taken)) => match self.lane.try_send(taken) {
                Ok(()) => self.carried.push(carried),
                Err(TrySendError::Full(_)) => carried.end("too many links over Zenoh wait to be taken"),
                Err(TrySendError::Disconnected(_)) => carried.end("the service ends"),
            },
            Err(error) => log::warn!("a link of {far:?} over Zenoh cannot be taken: {error}"),
        }
    }
}
