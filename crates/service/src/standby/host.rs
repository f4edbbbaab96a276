//! The threads of both leader and follower: one for the port at which a leader calls, one for the operator's socket on this machine.

use core::time::Duration;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::net;

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

    /// Calls it. `connected` is called with the connection before the handshake.
    pub(crate) fn connect(&self, connected: impl FnOnce(&TcpStream) -> io::Result<()>) -> io::Result<Stream> {
        Stream::connect(&self.address, self.ends.as_deref(), self.silent, connected)
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
    /// The port, and the operator's socket with its path.
    peers: TcpListener,
    operators: UnixListener,
    socket: PathBuf,
    /// Ends the waits of the other threads.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.over.end();
        (self.wake)();
        // A thread that accepts gets an error, and sees that it is the end.
        let _ = net::shutdown(&self.peers, net::Shutdown::Both);
        let _ = net::shutdown(&self.operators, net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            // A panic has been reported by its thread.
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

/// The process behind the port and the socket: a leader or a follower.
pub(crate) trait Host: Send + Sync + 'static {
    /// A peer has called. Returns when the connection has ended, or why it is refused.
    fn take_call(&self, stream: Stream, hello: Hello) -> io::Result<()>;

    /// Answers an operator's line.
    fn answer(&self, line: &str) -> String;

    /// Called when an answer was written.
    fn answered(&self) {}
}

/// Begins to listen. `wake` ends the waits of threads that are added.
pub(crate) fn start<H: Host>(
    host: &Arc<H>,
    (listener, directory): (TcpListener, &Path),
    peer: &Peer,
    over: &Arc<Over>,
    wake: impl Fn() + Send + Sync + 'static,
) -> io::Result<Threads> {
    let socket = directory.join(SOCKET);
    let listens = bind_socket(&socket)?;
    let (peers, operators) = (listener.try_clone()?, listens.try_clone()?);
    let (over_of, wake) = (Arc::clone(over), Box::new(wake));
    let mut threads = Threads { over: over_of, threads: Vec::new(), peers, operators, socket, wake };
    let (of_host, of_peer, until) = (Arc::clone(host), peer.clone(), Arc::clone(over));
    threads.add("standby-listen", move || accept_peers(&listener, &of_host, &of_peer, &until))?;
    let (of_host, until) = (Arc::clone(host), Arc::clone(over));
    threads.add("standby-control", move || accept_operators(&listens, &*of_host, &until))?;
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
    let said = Arc::new(Mutex::new(String::new()));
    let mut calls: Vec<(JoinHandle<()>, TcpStream)> = Vec::new();
    loop {
        let accepted = listener.accept();
        if over.is_over() {
            break;
        }
        calls.retain(|(call, _)| !call.is_finished());
        let begun = accepted.and_then(|(tcp, from)| {
            if calls.len() == PEERS_MAX {
                say(&said, format!("connection from {}: closed, since {PEERS_MAX} are there", from.ip()));
                return Ok(None);
            }
            let closer = tcp.try_clone()?;
            let (host, peer, said) = (Arc::clone(host), peer.clone(), Arc::clone(&said));
            let call = Builder::new().name("standby-call".to_owned()).spawn(move || {
                let called = peer.greeted(tcp).and_then(|(stream, hello)| host.take_call(stream, hello));
                if let Err(error) = called {
                    say(&said, format!("connection from {}: {error}", from.ip()));
                }
            })?;
            Ok(Some((call, closer)))
        });
        match begun {
            Ok(call) => calls.extend(call),
            Err(error) => {
                log::warn!("standby: no connection can be accepted: {error}");
                over.wait(AGAIN_IN);
            }
        }
    }
    // Mute ones as well.
    for (_, connection) in &calls {
        let _ = connection.shutdown(Shutdown::Both);
    }
    for (call, _) in calls {
        let _ = call.join();
    }
}

/// Logs a line, unless it is the last one again: a peer that is refused calls again.
fn say(said: &Mutex<String>, line: String) {
    let mut said = lock(said);
    if *said != line {
        log::warn!("standby: {line}");
        *said = line;
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
