//! The OMG's deployment interfaces over GIOP (D&C 4.0, module `Deployment`), so that a plan launcher of CORBA deploys on a node manager.
//!
//! An `ExecutionManager` and a `NodeManager` have keys that launchers know. Managers of applications and applications are made for each plan
//! ([`managers`]), and are gone with the process; the plans are those of the node manager, and go on. A plan that comes as a struct
//! ([`plan`]) becomes one of ours by the mapping of `deploy import`.
//!
//! All operations take the right `deploy`, which `[tls]` of the settings gives to certificates. In the clear nothing tells the programs of the
//! machine apart, so that it takes a setting of its own, and loopback.

mod managers;
pub(crate) mod plan;
mod servants;
#[cfg(test)]
mod tests;

use crate::node::clients::Clients;
use crate::node::network::{Network, NodeTls};
use client::{Activation, InvokeError, Orb, OrbOptions, ServantTls};
use managers::{Managers, Role};
use serde::Deserialize;
use servants::Root;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most octets of a message: a plan with what it names.
const MESSAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 16;

/// How long a connection may send nothing, or take no reply. A launcher connects again.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Settings of a node manager's end point for the OMG's deployment interfaces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GiopSettings {
    /// Address and port, in digits; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Host name or address in references. Default: the address of `listen`.
    pub advertise: Option<String>,
    /// Name of this node, as in the key `NAME.NodeManager`. Default: the host's.
    pub name: Option<String>,
    /// Folder of the files `ExecutionManager.ior` and `NodeManager.ior`. Default: none are written.
    pub ior_folder: Option<PathBuf>,
    /// Whether it is in the clear, so that every program of this machine may deploy. Default: false.
    #[serde(default)]
    pub plain: bool,
}

impl GiopSettings {
    /// Refuses settings that say too little of what may deploy.
    pub(crate) fn check(&self, tls: Option<&NodeTls>) -> Result<(), String> {
        let address = self.listen.ip();
        let reason = match tls {
            _ if self.plain && address.is_loopback() => return Ok(()),
            _ if self.plain => "`listen` in the clear takes an address of loopback: others take [tls]",
            None => {
                "what may deploy is not said: add [tls], or plain = true, with which every program of this machine may"
            }
            Some(tls) if tls.deploy.is_empty() => "tls.deploy names no certificate: nothing could deploy",
            Some(_) if address.is_unspecified() && self.advertise.is_none() => {
                "references cannot name the address of `listen`: say the host by `advertise`"
            }
            Some(_) => return Ok(()),
        };
        Err(format!("giop: {reason}"))
    }

    fn options(&self) -> OrbOptions {
        OrbOptions {
            listen: Some(self.listen.to_string()),
            advertise: self.advertise.clone(),
            message_bytes_max: MESSAGE_BYTES_MAX,
            connections_max: CONNECTIONS_MAX,
            idle_limit: Some(IDLE_LIMIT),
            ..OrbOptions::default()
        }
    }
}

/// The end point. It is closed when this is dropped.
pub(crate) struct EndPoint {
    managers: Arc<Managers>,
    clients: Arc<Clients>,
    roots: Vec<Activation>,
    files: Vec<PathBuf>,
    /// Where the execution manager is found, as `corbaloc`.
    pub(crate) address: String,
}

impl EndPoint {
    /// Listens, with the TLS of the network's side unless it is in the clear. `folder` is where relative locations of artifacts begin.
    pub(crate) fn start(
        settings: &GiopSettings,
        folder: &Path,
        network: Option<Arc<Network>>,
        clients: Arc<Clients>,
    ) -> Result<Self, String> {
        let tls = network.filter(|_| !settings.plain).map(|network| -> Arc<dyn ServantTls> { network });
        let orb = Orb::with_servant_tls(settings.options(), tls);
        let managers = Arc::new(Managers::new(orb.clone(), clients.clone(), folder.to_owned()));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let node = settings.name.clone().unwrap_or(host);
        let keys = [(Role::Domain, "ExecutionManager".to_owned()), (Role::Node, format!("{node}.NodeManager"))];
        let mut roots = Vec::new();
        for (role, key) in keys {
            let root = orb.activate_as(&key, Arc::new(Root { role, managers: managers.clone() }));
            roots.push(root.map_err(|error: InvokeError| format!("giop.listen: {error}"))?);
        }
        clients.serve_by(Some(orb));
        let mut point = Self { managers, clients, roots, files: Vec::new(), address: String::new() };
        point.announce(settings)?;
        Ok(point)
    }

    /// Writes the references' files.
    fn announce(&mut self, settings: &GiopSettings) -> Result<(), String> {
        for (root, name) in self.roots.iter().zip(["ExecutionManager", "NodeManager"]) {
            let ior = root.reference().ior();
            if let Some(folder) = &settings.ior_folder {
                let path = folder.join(format!("{name}.ior"));
                let failed = |error: std::io::Error| format!("giop.ior_folder: {}: {error}", path.display());
                fs::create_dir_all(folder).and_then(|()| fs::write(&path, format!("{ior}\n"))).map_err(failed)?;
                self.files.push(path);
            }
            let (Some(profile), true) = (ior.iiop(), self.address.is_empty()) else { continue };
            let host = if profile.host.contains(':') { format!("[{}]", profile.host) } else { profile.host.clone() };
            let secure = profile.secure_transport().map(|secure| secure.port);
            let (protocol, port) = secure.map_or((":", profile.port), |port| ("ssliop:1.2@", port));
            self.address = format!("corbaloc:{protocol}{host}:{port}/{name}");
        }
        Ok(())
    }
}

impl Drop for EndPoint {
    fn drop(&mut self) {
        // Servants have the orb, and it has them.
        self.clients.serve_by(None);
        self.roots.clear();
        self.managers.stop();
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
    }
}
