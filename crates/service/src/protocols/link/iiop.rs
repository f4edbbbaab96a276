//! Links to any CosNotification service (`carrier = "iiop"`).
//!
//! The far service does not know links. A thread acts as a gateway ([`Gateway`]): to the main lane it is the other side of a link, with an
//! identity derived from the link's `to`; to the far service it is a supplier and a consumer ([`far`]). An event's origin, which the far
//! service does not carry, is a property of the event's header ([`events`]).
//!
//! Each link has threads of its own: a mute far service does not delay other links.

mod events;
mod far;
mod session;

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use client::OrbTls;
use links::Limits;
use xxhash_rust::xxh3::xxh3_64;

use self::far::Far;
use self::session::Session;
use super::Protocol;
use super::gateway::{Control, Gateway, Report, pair};
use crate::config::{Config, LinkEntry};

/// First and longest interval between attempts to reach a far service; it doubles each time.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// Duration of a session after which the interval starts anew.
const LASTED: Duration = Duration::from_secs(10);
/// Maximum events in flight in one channel and direction.
const OUTSTANDING_MAX: u32 = 256;
/// Interval at which a wait for the session's end checks its orders.
const LOOKS_UP: Duration = Duration::from_millis(250);

/// The settings of all gateways.
#[derive(Debug, Clone)]
pub(super) struct Options {
    message_bytes_max: usize,
    tls: Option<OrbTls>,
}

impl Options {
    pub(super) fn new(config: &Config) -> Self {
        let tls = config.tls.ca.clone().map(|ca| OrbTls {
            ca,
            identity: config.tls.certificate.clone().zip(config.tls.key.clone()),
            crl: config.tls.crl.clone(),
            check_names: config.tls.check_names,
        });
        Self { message_bytes_max: config.limits.message_bytes_max as usize, tls }
    }
}

/// The parameters of a gateway.
#[derive(Debug)]
struct Setup {
    entry: LinkEntry,
    options: Options,
    /// The identity that stands for the far service, which has none of its own.
    service: u64,
    /// The identity of this service.
    own: u64,
    incarnation: u64,
    limits: Limits,
}

impl Setup {
    /// The name of the channel at an index of the configured list.
    fn channel(&self, place: usize) -> &str {
        self.entry.channels.get(place).map_or("", String::as_str)
    }
}

/// Begins the thread of a link to a notification service.
///
/// # Errors
/// If the system refuses it.
pub(super) fn begin(protocol: &Protocol, number: usize) -> io::Result<Gateway> {
    let Protocol { links, settings, service: own, incarnation, .. } = protocol;
    let Some(link) = links.get(number) else { return Err(io::ErrorKind::NotFound.into()) };
    let service = xxh3_64(link.entry.to.as_bytes()).max(1);
    let limits = Limits { outstanding_max: OUTSTANDING_MAX, ..settings.limits };
    let (entry, options) = (link.entry.clone(), settings.iiop.clone());
    let setup = Arc::new(Setup { entry, options, service, own: *own, incarnation: *incarnation, limits });
    Gateway::begin("link-iiop", move |control, report| run(setup, control, report))
}

/// The gateway's thread: connects to the far service, and runs sessions with the lane one after the other.
fn run(setup: Arc<Setup>, control: &Control, report: &SyncSender<Report>) {
    let mut far = Far::new(Arc::clone(&setup));
    let mut again = AGAIN_FIRST;
    loop {
        let orders = *control.orders();
        if orders.is_over {
            break;
        }
        if orders.is_paused {
            far.suspend();
            control.wait(AGAIN_MAX, |orders| !orders.is_paused || orders.is_over);
            continue;
        }
        let began = Instant::now();
        let served = far.reach().and_then(|()| serve(&setup, &mut far, control, report));
        if let Err(why) = served {
            // A full channel has other reports of the same kind.
            let _full = report.try_send(Report::Down(why));
            if began.elapsed() >= LASTED {
                again = AGAIN_FIRST;
            }
            control.wait(again, |orders| orders.is_over);
            again = (again * 2).min(AGAIN_MAX);
        } else {
            again = AGAIN_FIRST;
            control.wait(again, |orders| orders.is_over);
        }
    }
    far.leave();
}

/// Serves one session with the lane, to its end.
///
/// # Errors
/// The reason why the far service is not served any longer, unless the lane ended the session.
fn serve(setup: &Arc<Setup>, far: &mut Far, control: &Control, report: &SyncSender<Report>) -> Result<(), String> {
    let (own, lanes) = pair().map_err(|error| format!("no connection within the process: {error}"))?;
    let session = Session::begin(setup, own, far.outlets()).map_err(|error| error.to_string())?;
    if report.try_send(Report::Up(lanes)).is_err() {
        session.end("the lane does not take it");
        return Ok(());
    }
    far.serve(Some(session.shared()));
    let mut ended = Ok(());
    let mut watch = far.watch();
    while !session.has_ended_within(LOOKS_UP) {
        let orders = *control.orders();
        if orders.is_over || orders.is_paused {
            session.end("the link is paused, or over");
        } else if let Err(why) = watch.look(far) {
            session.end(&why);
            ended = Err(why);
        }
    }
    far.serve(None);
    let is_over = control.orders().is_over;
    ended.and_then(|()| session.outcome(!is_over))
}
