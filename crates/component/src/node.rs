//! The node manager: runs plans that outlive the command, on one machine, in a process of its own.
//!
//! - One thread owns all plans and processes ([`manager`], [`changes`]): it starts, supervises and ends them.
//! - Each client has a thread ([`clients`], [`protocol`], [`connection`]), which reads and checks its plan ([`release`]) before that thread
//!   gets it.
//! - Plans over several nodes are brought up by one of them ([`coordinator`]), over TLS ([`network`]).
//! - A plan that is up is a file in a folder ([`store`]), replaced as a whole when all its servers have started. The next node manager brings
//!   up what it finds there.
//! - Launchers of CORBA find it over GIOP, where its settings say so ([`omg`]).
//!
//! Its servers end when it does, since their standard input does; the next one waits for them ([`orphans`]).

mod changes;
mod clients;
mod connection;
mod coordinator;
mod manager;
mod network;
pub(crate) mod omg;
mod orphans;
mod protocol;
mod release;
mod settings;
mod store;

pub use network::NodeTls;
pub use omg::GiopSettings;
pub use protocol::{Changed, NodeAnswer, NodeRequest, NodeStatus, PlanStatus, ServerStatus};
pub use release::Difference;
pub use settings::{Digests, NodeSettings};

use self::clients::{Clients, Listener};
use self::coordinator::Coordinator;
use self::manager::{Event, Manager};
use self::network::Network;
use self::omg::EndPoint;
use self::settings::Policy;
use self::store::{RECORD, Store};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// A node manager that runs. It ends all servers when it is dropped; their plans stay up for the next one.
pub struct Node {
    socket: PathBuf,
    listeners: Vec<Arc<Listener>>,
    clients: Arc<Clients>,
    manager: Sender<Event>,
    threads: Vec<JoinHandle<()>>,
    giop: Option<EndPoint>,
}

impl Node {
    /// Starts a node manager, and the plans that were up when the last one ended.
    ///
    /// `socket` is where it is found unless the settings say so; `objects` is a program with its first arguments, which is the component server
    /// where a plan names none, as for [`PlanFile::read_with_objects`](crate::PlanFile::read_with_objects).
    ///
    /// # Errors
    /// Settings that cannot be, or another node manager at the same socket or with the same folder.
    pub fn start(settings: &NodeSettings, socket: &Path, objects: Vec<OsString>) -> Result<Self, String> {
        let policy = Arc::new(Policy::new(settings, objects)?);
        let store = Arc::new(Store::open(&settings.state, policy.run_as.as_ref().map(|of| of.group))?);
        orphans::await_end(&settings.state, policy.run_as.as_ref().map_or(geteuid().as_raw(), |of| of.user));
        let socket = settings.socket.clone().unwrap_or_else(|| socket.to_owned());
        // Others than the user of the socket's file are told apart when they connect.
        let mode = if settings.users.is_empty() { 0o600 } else { 0o666 };
        let (network, tcp) = settings.tls.as_ref().map(Network::listen).transpose()?.unzip();
        let (network, tcp) = (network.map(Arc::new), tcp.flatten());
        let listener = listen(&socket, mode).map_err(|error| format!("socket, {}: {error}", socket.display()))?;
        let of_state = |error: &dyn std::fmt::Display| format!("state, {}: {error}", settings.state.display());
        let nodes = network.clone().filter(|_| tcp.is_some()).map(|network| Coordinator::new(network, store.clone()));
        let nodes = nodes.transpose().map_err(|error| of_state(&error))?;
        let listeners = [Some(Listener::Unix(listener)), tcp.map(Listener::Tls)].into_iter().flatten().map(Arc::new);
        let has_records = !store.all(RECORD).map_err(|error| of_state(&error))?.is_empty();
        let (sender, events) = channel();
        let mut manager = Manager::new(policy.clone(), store, (sender.clone(), events));
        manager.restart().map_err(|error| of_state(&error))?;
        let voted = manager.voted.clone();
        if nodes.is_none() && (!voted.is_empty() || has_records) {
            log::error!(
                "there are plans over several nodes in {}, and no [tls] with listen: add it again",
                settings.state.display()
            );
        }
        let clients = Arc::new(Clients::new(policy, sender.clone(), nodes));
        let mut node = Self {
            socket,
            listeners: listeners.collect(),
            clients: clients.clone(),
            manager: sender,
            threads: Vec::new(),
            giop: None,
        };
        let named = |name: &str| Builder::new().name(name.to_owned());
        let failed = |error: io::Error| error.to_string();
        node.threads.push(named("node").spawn(move || manager.run()).map_err(failed)?);
        for listener in &node.listeners {
            let (clients, listener) = (clients.clone(), listener.clone());
            node.threads.push(named("clients").spawn(move || clients.accept(&listener)).map_err(failed)?);
        }
        for (name, vote) in voted {
            clients.await_decision(name, vote);
        }
        if let Some(giop) = &settings.giop {
            let folder = settings.artifacts.first().map_or(Path::new("/"), PathBuf::as_path);
            node.giop = Some(EndPoint::start(giop, folder, network, clients)?);
        }
        Ok(node)
    }

    /// The path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The `corbaloc` of the OMG's execution manager, if the settings have it.
    #[must_use]
    pub fn execution_manager(&self) -> Option<&str> {
        self.giop.as_ref().map(|giop| giop.address.as_str())
    }
}

/// Listens at a path. A socket there at which nothing listens any more is replaced.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another node manager listens there: end it, or name another socket",
        ));
    }
    let is_socket = |about: fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&about.file_type());
    if fs::symlink_metadata(path).is_ok_and(is_socket) {
        fs::remove_file(path)?;
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

impl Drop for Node {
    fn drop(&mut self) {
        self.clients.is_stopping.store(true, Ordering::Relaxed);
        self.giop = None;
        // All threads wake up.
        let _ = self.manager.send(Event::Stop);
        self.listeners.iter().for_each(|listener| listener.close());
        let _ = fs::remove_file(&self.socket);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("socket", &self.socket).finish_non_exhaustive()
    }
}
