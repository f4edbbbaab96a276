//! A service that keeps things on disk: in a folder that goes with the benchmark, and at an address where it is found again.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use load::campanile::Service;
use load::process::{Process, ready_address};
use rustix::process::Signal;

use crate::{BenchError, clock};

/// A folder that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// One in the folder for what is temporary, or in another, which then decides on which disk it is.
    pub(crate) fn new(name: &str, on: Option<&Path>) -> Result<Self, BenchError> {
        let parent = on.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let folder = parent.join(format!("campanile-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(BenchError::io("making a folder for the store"))?;
        Ok(Self(folder))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Octets that the files of a folder have, without those of folders in it.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// An address of the loopback that no other benchmark has.
pub(crate) fn own_address() -> Ipv4Addr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 77, high, low.max(1))
}

/// What a service is started with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// `HOST:PORT`; port 0 until it has begun once.
    pub(crate) listen: String,
    /// Where it keeps things.
    pub(crate) data: PathBuf,
    /// A file with its configuration.
    pub(crate) config: PathBuf,
    /// What begins its command, where it does not run as this program does.
    pub(crate) within: Vec<OsString>,
}

impl Setting {
    /// One in this folder, with this configuration, at this benchmark's address.
    pub(crate) fn new(folder: &Folder, config: &str) -> Result<Self, BenchError> {
        let path = folder.file("campanile.toml");
        fs::write(&path, config).map_err(BenchError::io("writing the service's configuration"))?;
        let listen = format!("{}:0", own_address());
        Ok(Self { listen, data: folder.file("store"), config: path, within: Vec::new() })
    }

    /// Starts a service, the next one where the last one was. Says how many nanoseconds it took until it had answered.
    pub(crate) fn start(&mut self) -> Result<(Serving, u64), BenchError> {
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        let program = this.with_file_name("campanile");
        if !program.is_file() {
            return Err(BenchError::NoService { program });
        }
        let mut words = [&*self.within, &[program.into()]].concat();
        words.extend(["serve", "--listen", &self.listen, "--config"].map(OsString::from));
        words.extend([self.config.clone().into(), "--data".into(), self.data.clone().into()]);
        let program = words.remove(0);
        let began = clock::now();
        let (process, address): (Process, SocketAddr) =
            Process::start_confined("campanile serve", Some(&program), (None, None), &words, ready_address)?;
        self.listen = address.to_string();
        let service = Service::find(&self.listen)?;
        service.counters()?;
        Ok((Serving { process, service }, clock::now().saturating_sub(began)))
    }
}

/// A running service.
pub(crate) struct Serving {
    pub(crate) process: Process,
    pub(crate) service: Service,
}

impl Serving {
    /// Kills it as the kernel does when memory runs out.
    pub(crate) fn kill(self) {
        self.process.end_with(Signal::KILL);
    }
}
