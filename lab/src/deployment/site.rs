//! A node of `deployment`: its network, its node manager, and what runs and is left there, found in `/proc` and in files: not by the words of
//! node managers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use load::process::Process;
use load::system;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::Kill;
use super::parts::{NAME, PartServer, Parts};
use crate::BenchError;
use crate::campanile::setup;
use crate::links::nodes::Node;

const PORT: u16 = 2810;

/// Who signs the certificates of all nodes.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

/// The contents of a certificate.
fn contents(name: &str, hosts: Vec<String>) -> Result<(CertificateParams, KeyPair), rcgen::Error> {
    let mut contents = CertificateParams::new(hosts)?;
    contents.distinguished_name = DistinguishedName::new();
    contents.distinguished_name.push(DnType::OrganizationName, "Bench");
    contents.distinguished_name.push(DnType::CommonName, name);
    Ok((contents, KeyPair::generate()?))
}

impl Authority {
    pub(super) fn new(file: PathBuf) -> Result<Self, BenchError> {
        let make = || {
            let (mut contents, key) = contents("nodes", Vec::new())?;
            contents.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(contents, key)
        };
        let issuer = make().map_err(setup("making certificates"))?;
        fs::write(&file, issuer.pem()).map_err(BenchError::io("writing a certificate"))?;
        Ok(Self { issuer, file })
    }

    /// Writes a certificate and its key.
    fn certify(&self, host: &str, certificate: &Path, key: &Path) -> Result<(), BenchError> {
        let make = || {
            let (contents, pair) = contents(host, vec![host.to_owned()])?;
            Ok::<_, rcgen::Error>((contents.signed_by(&pair, &self.issuer)?.pem(), pair.serialize_pem()))
        };
        let (signed, pair) = make().map_err(setup("making certificates"))?;
        fs::write(certificate, signed).map_err(BenchError::io("writing a certificate"))?;
        fs::write(key, pair).map_err(BenchError::io("writing a key"))
    }
}

/// A node.
pub(super) struct Site {
    folder: PathBuf,
    /// By which others find its node manager.
    pub(super) address: String,
    /// Its network, where it has one of its own.
    network: Option<Node>,
    manager: Option<Process>,
    /// Servers of the plan, each with the number of its instances.
    servers: BTreeMap<String, usize>,
}

/// The processes of a site.
#[derive(Default)]
pub(super) struct Processes {
    /// Those of servers, with the version of which all their instances were activated, if they were.
    pub(super) servers: Vec<(String, u32, Option<u64>)>,
    /// All others but the node manager: programs that describe themselves.
    others: usize,
    /// Those that have ended, and of which the node manager has not taken note.
    zombies: usize,
}

/// What nothing should be of.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct LeftBehind {
    pub(super) processes: usize,
    pub(super) zombies: usize,
    pub(super) files: usize,
    /// More threads and descriptors of a node manager than when its first plan had come up.
    pub(super) threads: u64,
    pub(super) descriptors: u64,
}

impl LeftBehind {
    pub(super) fn is_none(&self) -> bool {
        self.processes + self.zombies + self.files == 0 && self.threads + self.descriptors == 0
    }

    /// The same with what another node or try left.
    pub(super) fn and(mut self, more: &Self) -> Self {
        self.processes += more.processes;
        self.zombies += more.zombies;
        self.files += more.files;
        self
    }
}

impl Site {
    /// Makes a node with these servers of the plan, and starts its node manager.
    pub(super) fn start(
        folder: PathBuf,
        (network, host): (Option<Node>, String),
        (parts, authority): (&Parts, &Authority),
        servers: &[&PartServer],
    ) -> Result<Self, BenchError> {
        fs::create_dir_all(folder.join("active")).map_err(BenchError::io("making a folder for a node"))?;
        let file = |name: &str| folder.join(name);
        parts.install(&file("opt"))?;
        authority.certify(&host, &file("certificate.pem"), &file("key.pem"))?;
        let address = format!("{host}:{PORT}");
        let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
        let settings = format!(
            "socket = {:?}\nstate = {:?}\nartifacts = [{:?}]\npython = {:?}\n{user}[tls]\nlisten = \"{address}\"\ncertificate = {:?}\n\
             key = {:?}\nca = {:?}\ndeploy = [\"CN=*,O=Bench\"]\n",
            file("socket"),
            file("state"),
            file("opt"),
            parts.folder.join("interpreter"),
            file("certificate.pem"),
            file("key.pem"),
            authority.file
        );
        fs::write(file("node.toml"), settings).map_err(BenchError::io("writing a node's settings"))?;
        let servers = servers.iter().map(|server| (server.name.clone(), server.instances)).collect();
        let mut site = Self { folder, address, network, manager: None, servers };
        site.revive()?;
        Ok(site)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Where its components write files.
    pub(super) fn active(&self) -> PathBuf {
        self.folder.join("active")
    }

    /// Starts its node manager, with its cable plugged in.
    pub(super) fn revive(&mut self) -> Result<(), BenchError> {
        self.network.as_ref().map_or(Ok(()), |node| node.set_cable(true))?;
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        let program = this.with_file_name("campanile");
        if !program.is_file() {
            return Err(BenchError::NoService { program });
        }
        let mut words = self.network.as_ref().map(Node::words).unwrap_or_default();
        words.extend([program.into(), OsString::from("node"), "--config".into(), self.folder.join("node.toml").into()]);
        let program = words.remove(0);
        let ready = |line: &str| line.starts_with("campanile: node manager ready at ").then_some(());
        let (manager, ()) = Process::start_confined("campanile node", Some(&program), (None, None), &words, ready)?;
        self.manager = Some(manager);
        Ok(())
    }

    /// Kills its node manager, and what else the kind says.
    pub(super) fn kill(&mut self, kind: Kill) -> Result<(), BenchError> {
        if kind == Kill::Cable
            && let Some(node) = &self.network
        {
            node.set_cable(false)?;
        }
        if let Some(manager) = self.manager.take() {
            manager.end_with(Signal::KILL);
        }
        if kind != Kill::Manager {
            for pid in pids()?.into_iter().filter(|pid| self.has(&words_of(*pid))) {
                // It may have ended by itself.
                let _ = Pid::from_raw(pid.cast_signed()).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
        Ok(())
    }

    pub(super) fn is_alive(&self) -> bool {
        self.manager.is_some()
    }

    /// Whether it has voted, and waits for the decision of another node.
    pub(super) fn waits(&self) -> bool {
        self.folder.join("state").join(format!("{NAME}.vote")).exists()
    }

    /// Whether a process with these words is one of this site.
    fn has(&self, words: &[String]) -> bool {
        words.iter().any(|word| Path::new(word).starts_with(&self.folder))
    }

    /// Whether each of its servers is one process, activated with the version that a plan says.
    pub(super) fn runs(&self, processes: &Processes, versions: &BTreeMap<&str, u64>) -> bool {
        let is_planned = |(name, _, version): &(String, u32, Option<u64>)| {
            version.is_some() && *version == versions.get(name.as_str()).copied()
        };
        let names: BTreeSet<_> = processes.servers.iter().map(|(name, ..)| name).collect();
        processes.servers.len() == self.servers.len()
            && names.len() == self.servers.len()
            && processes.servers.iter().all(is_planned)
    }

    /// The version of which all instances of a server's process were activated.
    fn version(&self, server: &str, pid: u32) -> Option<u64> {
        let text = fs::read_to_string(self.active().join(pid.to_string())).ok()?;
        let versions: Vec<u64> = text.lines().map_while(|line| line.parse().ok()).collect();
        let first = *versions.first()?;
        let is_whole = Some(&versions.len()) == self.servers.get(server);
        (is_whole && versions.iter().all(|version| *version == first)).then_some(first)
    }

    /// Removes what processes have written that are no more: their numbers may come again.
    pub(super) fn forget_ended(&self) -> Result<(), BenchError> {
        for entry in fs::read_dir(self.active()).map_err(BenchError::io("reading a folder"))?.flatten() {
            let name = entry.file_name();
            if !Path::new("/proc").join(&name).exists() {
                fs::remove_file(entry.path()).map_err(BenchError::io("removing a file"))?;
            }
        }
        Ok(())
    }

    /// What is left at this site, where nothing goes on; `is_first` is that of the node where the plan is brought up.
    pub(super) fn left_behind(&self, processes: &Processes, is_first: bool) -> LeftBehind {
        let record = format!("{NAME}.nodes");
        let names = fs::read_dir(self.folder.join("state")).into_iter().flatten().flatten().map(|it| it.file_name());
        let is_known =
            |name: &OsString| *name == *"lock" || *name == *format!("{NAME}.toml") || (is_first && *name == *record);
        LeftBehind {
            processes: processes.others + processes.servers.len().saturating_sub(self.servers.len()),
            zombies: processes.zombies,
            files: names.filter(|name| !is_known(name)).count(),
            ..LeftBehind::default()
        }
    }

    /// Threads and descriptors of its node manager.
    pub(super) fn resources(&self) -> Result<[u64; 2], BenchError> {
        let Some(manager) = &self.manager else { return Ok([0; 2]) };
        let descriptors = system::descriptors(manager.pid()).map_err(BenchError::io("counting descriptors"))?;
        Ok([manager.threads()?, descriptors])
    }
}

/// The numbers of all processes.
fn pids() -> Result<Vec<u32>, BenchError> {
    let all = fs::read_dir("/proc").map_err(BenchError::io("listing processes"))?.flatten();
    Ok(all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The words of a process's command line. One that has ended has none.
fn words_of(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|octet| *octet == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Looks at the processes of all sites.
pub(super) fn look(sites: &[Site]) -> Result<Vec<Processes>, BenchError> {
    let managers: Vec<Option<u32>> = sites.iter().map(|site| site.manager.as_ref().map(Process::pid)).collect();
    let mut all: Vec<Processes> = sites.iter().map(|_| Processes::default()).collect();
    for pid in pids()? {
        let words = words_of(pid);
        for ((site, of_site), manager) in sites.iter().zip(&mut all).zip(&managers) {
            let server = words.iter().skip_while(|word| *word != "--server").nth(1);
            match server {
                _ if Some(pid) == *manager => {}
                Some(server) if site.has(&words) => {
                    of_site.servers.push((server.clone(), pid, site.version(server, pid)));
                }
                _ if site.has(&words) => of_site.others += 1,
                _ if manager.is_some() && zombie_of(pid) == *manager => of_site.zombies += 1,
                _ => {}
            }
        }
    }
    Ok(all)
}

/// The parent of a process that has ended and was not waited for.
fn zombie_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut figures = stat.rsplit_once(") ")?.1.split(' ');
    (figures.next()? == "Z").then(|| figures.next()?.parse().ok())?
}
