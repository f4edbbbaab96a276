//! A supervisor such as systemd: the sockets that it passes, and notifications to it (`sd_listen_fds`(3), `sd_notify`(3)).
//!
//! The supervisor opens the sockets before there is a service, and keeps them open when it ends: the first client's connection starts the
//! service, and clients that connect during a restart wait.

use crate::environment::Environment;
use crate::failure::Failure;
use listenfd::ListenFd;
use service::{Liveness, Sockets};
use std::ffi::OsStr;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Name of the socket for lines of JSON (`FileDescriptorName=json`).
const JSON: &str = "json";
/// Name of the two sockets for clients of Tempo.
const TEMPO: &str = "tempo";

/// Takes over the sockets passed to this process. It changes the environment, and is called before there is another thread.
pub(crate) fn sockets(environment: &Environment) -> Result<Sockets, Failure> {
    let mut passed = ListenFd::from_env();
    let mut names = environment.socket_names.as_deref().unwrap_or_default().split(':');
    let mut sockets = Sockets::default();
    let (mut connections, mut datagrams) = (None, None);
    for at in 0..passed.len() {
        let name = names.next().unwrap_or_default();
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Usage(format!(
                "socket {at} that was passed ({name}) cannot be listened on: {why}; write ListenStream=HOST:PORT"
            ))
        };
        if name == TEMPO
            && let Ok(Some(socket)) = passed.take_udp_socket(at)
        {
            datagrams = Some(socket);
            continue;
        }
        let socket = passed.take_tcp_listener(at).and_then(listening).map_err(|error| wrong(&error))?;
        let place = match name {
            JSON => &mut sockets.json,
            TEMPO => &mut connections,
            _ => &mut sockets.giop,
        };
        if place.is_some() {
            return Err(Failure::Usage(format!(
                "more sockets were passed than can be listened on: one for lines of JSON (FileDescriptorName={JSON}), two for Tempo \
                 (FileDescriptorName={TEMPO}), and one for CORBA"
            )));
        }
        *place = socket;
    }
    sockets.tempo = both(connections, datagrams)?;
    Ok(sockets)
}

/// The two sockets for Tempo, which must have the same address.
fn both(
    connections: Option<TcpListener>,
    datagrams: Option<UdpSocket>,
) -> Result<Option<(TcpListener, UdpSocket)>, Failure> {
    let both = match (connections, datagrams) {
        (None, None) => return Ok(None),
        (Some(connections), Some(datagrams)) => Some((connections, datagrams)),
        _ => None,
    };
    let is_one = |(connections, datagrams): &(TcpListener, UdpSocket)| {
        connections
            .local_addr()
            .ok()
            .filter(|address| datagrams.local_addr().is_ok_and(|other| other == *address))
            .is_some()
    };
    both.filter(is_one).map(Some).ok_or_else(|| {
        Failure::Usage(format!(
            "Tempo (FileDescriptorName={TEMPO}) has two sockets of one address and port: write ListenStream=HOST:PORT and \
             ListenDatagram=HOST:PORT"
        ))
    })
}

/// Checks that the socket listens. A connected one, as `Accept=yes` passes it, is refused.
fn listening(socket: Option<TcpListener>) -> io::Result<Option<TcpListener>> {
    match &socket {
        Some(socket) if !rustix::net::sockopt::socket_acceptconn(socket)? => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen (Accept=yes)"))
        }
        _ => Ok(socket),
    }
}

/// The supervisor to notify, if the environment names one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supervisor {
    socket: Option<Arc<UnixDatagram>>,
    /// Maximum interval of keep-alives.
    watchdog: Option<Duration>,
}

impl Supervisor {
    pub(crate) fn of(environment: &Environment) -> Self {
        let Some(name) = &environment.notify_socket else { return Self::default() };
        let socket = connect(name).inspect_err(|error| log::warn!("NOTIFY_SOCKET cannot be written to: {error}"));
        Self { socket: socket.ok().map(Arc::new), watchdog: environment.watchdog }
    }

    /// Sends messages of `sd_notify`(3), a line each.
    pub(crate) fn tell(&self, lines: &[&str]) {
        if let Some(socket) = &self.socket {
            // A notification that cannot be sent now is dropped: the next one follows.
            let _ = socket.send(lines.join("\n").as_bytes());
        }
    }

    /// Sends the status, for people.
    pub(crate) fn tell_status(&self, more: &[&str], status: &str) {
        let status = format!("STATUS={}", status.replace('\n', " "));
        self.tell(&[more, &[status.as_str()]].concat());
    }

    /// Sends keep-alives, if the supervisor expects them, until this is dropped: while no lanes run, as on a follower's machine, and in its
    /// take-over of a large store.
    pub(crate) fn keep_alive(&self) -> Option<Sender<()>> {
        let limit = self.watchdog.filter(|_| self.socket.is_some())?;
        let this = self.clone();
        let (sender, ended) = channel();
        let send = move || {
            this.tell(&["WATCHDOG=1"]);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(limit / 4) {
                this.tell(&["WATCHDOG=1"]);
            }
        };
        let begun = thread::Builder::new().name("keep-alive".to_owned()).spawn(send);
        begun.inspect_err(|error| log::warn!("the watchdog cannot be notified: {error}")).ok()?;
        Some(sender)
    }

    /// Sends keep-alives, as long as administration and all lanes are running, if the supervisor expects them.
    pub(crate) fn watch(&self, liveness: Liveness) {
        let Some(limit) = self.watchdog.filter(|_| self.socket.is_some()) else { return };
        let this = self.clone();
        let watch = move || {
            let mut watchdog = Watchdog { limit, is_stuck: false };
            loop {
                watchdog.tell(|within| liveness.ask(within), || this.tell(&["WATCHDOG=1"]));
                thread::park_timeout(limit / 4);
            }
        };
        // The thread ends with the process.
        let begun = thread::Builder::new().name("watchdog".to_owned()).spawn(watch);
        begun.err().into_iter().for_each(|error| log::warn!("the watchdog cannot be notified: {error}"));
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match name.as_bytes().split_first() {
        Some((b'@', name)) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(name)?,
    }
    Ok(socket)
}

/// Sender of keep-alives to the supervisor.
struct Watchdog {
    /// Maximum interval of keep-alives.
    limit: Duration,
    /// Whether the service does not answer, which has been logged.
    is_stuck: bool,
}

impl Watchdog {
    /// Sends one keep-alive, if the service answers in time.
    fn tell(&mut self, ask: impl FnOnce(Duration) -> bool, tell: impl FnOnce()) {
        let within = self.limit / 2;
        if ask(within) {
            self.is_stuck = false;
            return tell();
        }
        if !core::mem::replace(&mut self.is_stuck, true) {
            log::error!(
                "administration or a lane has not answered for {:.1} s; the supervisor starts the service again if that lasts",
                within.as_secs_f64()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_is_notified_that_a_service_goes_on_which_does_not() {
        let limit = Duration::from_secs(30);
        let mut watchdog = Watchdog { limit, is_stuck: false };
        let mut told = 0;
        for is_alive in [true, false, false, true, false] {
            let ask = |within| {
                assert_eq!(within, limit / 2);
                is_alive
            };
            watchdog.tell(ask, || told += 1);
            assert_eq!(watchdog.is_stuck, !is_alive);
        }
        assert_eq!(told, 2);
    }

    #[test]
    fn a_start_that_lasts_longer_than_the_watchdogs_limit_is_not_ended() {
        let path = std::env::temp_dir().join(format!("campanile-keep-alive-{}", std::process::id()));
        let ear = UnixDatagram::bind(&path).unwrap();
        ear.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let notify_socket = Some(path.clone().into_os_string());
        let watchdog = Some(Duration::from_millis(40));
        let environment = Environment { notify_socket: notify_socket.clone(), watchdog, ..Environment::default() };
        let starting = Supervisor::of(&environment).keep_alive();
        for _ in 0..3 {
            let mut heard = [0; 100];
            let length = ear.recv(&mut heard).unwrap();
            assert_eq!(std::str::from_utf8(&heard[..length]), Ok("WATCHDOG=1"));
        }
        drop(starting);
        std::fs::remove_file(path).unwrap();
        let environment = Environment { notify_socket, ..Environment::default() };
        assert!(Supervisor::of(&environment).keep_alive().is_none(), "none are expected");
    }

    #[test]
    fn a_supervisor_is_notified_at_a_path_or_an_abstract_name() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("campanile-notify-{}", std::process::id()));
        let of_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("campanile-notify-{}", std::process::id());
        let abstract_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (ear, address) in [(of_path, path.clone().into_os_string()), (abstract_name, format!("@{name}").into())] {
            let environment = Environment { notify_socket: Some(address), ..Environment::default() };
            Supervisor::of(&environment).tell_status(&["READY=1"], "serves\nwell");
            let mut heard = [0; 100];
            ear.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let length = ear.recv(&mut heard).unwrap();
            assert_eq!(std::str::from_utf8(&heard[..length]), Ok("READY=1\nSTATUS=serves well"));
        }
        std::fs::remove_file(path).unwrap();
        let nowhere = Environment { notify_socket: Some("/proc/nowhere".into()), ..Environment::default() };
        Supervisor::of(&nowhere).tell(&["READY=1"]);
    }
}
