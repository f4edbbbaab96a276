//! What leader and follower have in common: the port at which a leader calls, and the socket for the operator on this machine.

use core::time::Duration;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::frame::{FIRST_BYTES_MAX, Frame, Hello};
use super::stream::Stream;
use crate::config::Ends;

/// Name of the operator's socket in the store's folder.
pub const SOCKET: &str = "standby.sock";
/// Maximum connections of peers at once.
const PEERS_MAX: usize = 8;
/// Maximum octets of an operator's line, and time for it.
const LINE_BYTES_MAX: u64 = 4_096;
const LINE_WITHIN: Duration = Duration::from_secs(5);
/// Interval between attempts to accept connections after a failure.
const AGAIN_IN: Duration = Duration::from_secs(1);

/// A lock that panics elsewhere do not spoil.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a peer is reached and recognised.
#[derive(Clone)]
pub(crate) struct Peer {
    /// `HOST:PORT`.
    pub(crate) address: String,
    pub(crate) ends: Option<Arc<Ends>>,
    /// Maximum time for an answer.
    pub(crate) silent: Duration,
}

impl Peer {
    pub(crate) fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn connect(&self) -> io::Result<Stream> {
        Stream::connect(&self.address, self.ends.as_deref(), self.silent)
    }

    /// Performs the handshake with a connected peer, and takes its hello.
    fn greeted(&self, tcp: TcpStream) -> io::Result<(Stream, Hello)> {
        let mut stream = Stream::accept(tcp, self.ends.as_deref(), self.silent)?;
        let is_its =
            |name: &String| name.split_once(':').is_some_and(|(_, name)| name.eq_ignore_ascii_case(self.host()));
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if let Some(names) = stream.peer_names().filter(|names| !names.iter().any(is_its)) {
            return refuse(format!("its certificate is for {names:?}, and standby.peer is {}", self.address));
        }
        match stream.frame(FIRST_BYTES_MAX, self.silent)? {
            Frame::Hello(hello) => Ok((stream, hello)),
            other => refuse(format!("it begins with {}", other.name())),
        }
    }
}

/// Whether the threads are to end, which a waiting thread notices at once.
#[derive(Default)]
pub(crate) struct Over {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    pub(crate) fn is_over(&self) -> bool {
        *lock(&self.is_over)
    }

    /// Waits for that long, or the end. Returns whether it is the end.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(lock(&self.is_over), at_most, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn end(&self) {
        *lock(&self.is_over) = true;
        self.changed.notify_all();
    }
}

/// Threads that end when this is dropped.
pub(crate) struct Threads {
    over: Arc<Over>,
    threads: Vec<JoinHandle<()>>,
    /// The port and the socket, to which a connection wakes the threads that accept.
    address: SocketAddr,
    socket: PathBuf,
    /// What else has to be woken.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.over.end();
        (self.wake)();
        let _ = TcpStream::connect(self.address);
        let _ = UnixStream::connect(&self.socket);
        for thread in self.threads.drain(..) {
            // A panic has been reported by its thread.
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

/// What a host does with a peer's connection, and with an operator's line.
pub(crate) trait Host: Send + Sync + 'static {
    /// A peer has called. Returns when the connection has ended, or why it is refused.
    fn take_call(&self, stream: Stream, hello: Hello) -> io::Result<()>;

    /// Answers an operator's line.
    fn answer(&self, line: &str) -> String;

    /// Called when an answer was written.
    fn answered(&self) {}
}

/// Begins to listen. `beside`: other threads of the host.
pub(crate) fn start<H: Host>(
    host: &Arc<H>,
    (listener, directory): (TcpListener, &Path),
    peer: &Peer,
    over: &Arc<Over>,
    wake: impl Fn() + Send + Sync + 'static,
) -> io::Result<Threads> {
    let (address, socket) = (listener.local_addr()?, directory.join(SOCKET));
    let operators = bind_socket(&socket)?;
    let mut threads = Threads { over: Arc::clone(over), threads: Vec::new(), address, socket, wake: Box::new(wake) };
    let (of_host, of_peer, until) = (Arc::clone(host), peer.clone(), Arc::clone(over));
    threads.add("standby-listen", move || accept_peers(&listener, &of_host, &of_peer, &until))?;
    let (of_host, until) = (Arc::clone(host), Arc::clone(over));
    threads.add("standby-control", move || accept_operators(&operators, &*of_host, &until))?;
    Ok(threads)
}

impl Threads {
    /// Adds a thread, which has to end with the others.
    pub(crate) fn add(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }
}

fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    // The store's lock says that no other process has it.
    let _ = fs::remove_file(path);
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

fn accept_peers<H: Host>(listener: &TcpListener, host: &Arc<H>, peer: &Peer, over: &Arc<Over>) {
    let (connected, said) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let mut calls: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let accepted = listener.accept();
        if over.is_over() {
            break;
        }
        calls.retain(|call| !call.is_finished());
        let tcp = match accepted {
            Ok((tcp, _)) if connected.load(Ordering::Relaxed) < PEERS_MAX => tcp,
            Ok(_) => continue,
            Err(error) => {
                log::warn!("standby: no connection can be accepted: {error}");
                over.wait(AGAIN_IN);
                continue;
            }
        };
        connected.fetch_add(1, Ordering::Relaxed);
        let (host, peer) = (Arc::clone(host), peer.clone());
        let (connected, said) = (Arc::clone(&connected), Arc::clone(&said));
        let call = Builder::new().name("standby-call".to_owned()).spawn(move || {
            let from = tcp.peer_addr();
            let called = peer.greeted(tcp).and_then(|(stream, hello)| host.take_call(stream, hello));
            if let Err(error) = called {
                let from = from.map_or_else(|_| "a peer".to_owned(), |from| from.ip().to_string());
                let line = format!("standby: connection from {from}: {error}");
                // A peer that is refused calls again.
                if *lock(&said) != line {
                    log::warn!("{line}");
                    *lock(&said) = line;
                }
            }
            connected.fetch_sub(1, Ordering::Relaxed);
        });
        calls.extend(call);
    }
    for call in calls {
        let _ = call.join();
    }
}

fn accept_operators(listener: &UnixListener, host: &dyn Host, over: &Over) {
    loop {
        let accepted = listener.accept();
        if over.is_over() {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                // An operator that goes away needs no answer.
                let _ = answer_operator(&stream, host);
                host.answered();
            }
            Err(error) => {
                log::warn!("standby: its socket: {error}");
                over.wait(AGAIN_IN);
            }
        }
    }
}

fn answer_operator(mut stream: &UnixStream, host: &dyn Host) -> io::Result<()> {
    stream.set_read_timeout(Some(LINE_WITHIN))?;
    stream.set_write_timeout(Some(LINE_WITHIN))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    stream.write_all(host.answer(line.trim_end()).as_bytes())
}
