//! Why a service does not start, and what to do about it.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::ConfigError;
use tls::LoadError;

/// Why a service did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// The address cannot be listened on.
    Listen {
        /// What says which address it is to be: an option of `campanile serve`, or a key of the configuration.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// The reference file cannot be written.
    IorFile {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// What is to be configured cannot be read, or not be made.
    Topology {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What outlives the process cannot be had, or not be kept.
    Store {
        /// The folder.
        directory: PathBuf,
        /// Why not.
        why: String,
    },
    /// A channel that the configuration declares cannot be had.
    Channel {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// Channels cannot be joined to DDS.
    Dds {
        /// Why not.
        why: String,
    },
    /// The session in Zenoh cannot be opened.
    Zenoh {
        /// Why not.
        why: String,
    },
    /// The outside naming service's address cannot be understood.
    OutsideNaming {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Certificates, keys or lists of revoked certificates cannot be used.
    Tls(LoadError),
    /// There can be no pair of machines as it is configured.
    Standby {
        /// Why not.
        why: String,
    },
    /// The store is a follower's: it is for a [`StandbyFollower`](crate::StandbyFollower), until that is promoted.
    Follower,
    /// Lanes can run on none of the processors that the configuration names.
    Processors {
        /// `lanes.cpus`.
        processors: Vec<u16>,
        /// What the operating system says.
        error: io::Error,
    },
    /// A thread, a poll or a waker cannot be made.
    Resources(io::Error),
}

impl StartError {
    /// Whether it was asked for something that cannot be had: then it does not start the next time either, unless it is asked for something
    /// else. What is on the disk, and what the system refuses, can be better then.
    #[must_use]
    pub const fn is_of_configuration(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Tls(_)
            | Self::Topology { .. }
            | Self::Channel { .. }
            | Self::OutsideNaming { .. }
            | Self::Dds { .. }
            | Self::Standby { .. }
            | Self::Processors { .. } => true,
            Self::Listen { .. }
            | Self::Zenoh { .. }
            | Self::IorFile { .. }
            | Self::Store { .. }
            | Self::Follower
            | Self::Resources(_) => false,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { setting, address, error } if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address} is in use: another service listens there; stop it, or choose another port with {setting} {}:PORT",
                address.ip()
            ),
            Self::Listen { setting, address, error } if error.kind() == io::ErrorKind::AddrNotAvailable => {
                write!(f, "{address} is not an address of this host; choose one with {setting} HOST:PORT")
            }
            Self::Listen { setting, address, error } if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot listen on {address}: {error}; ports below 1024 are for privileged programs: choose one above with \
                 {setting} {}:PORT, or give the program cap_net_bind_service",
                address.ip()
            ),
            Self::Listen { address, error, .. } => write!(f, "cannot listen on {address}: {error}"),
            Self::IorFile { path, error } => write!(
                f,
                "cannot write the reference file {}: {error}; name a file in a folder that there is and that this user may \
                 write to with --ior-file, or ior_file in the configuration",
                path.display()
            ),
            Self::Topology { path, why } => {
                write!(
                    f,
                    "the topology of {} cannot be made: {why}; see `campanile topology export --help`",
                    path.display()
                )
            }
            Self::Store { directory, why } => write!(
                f,
                "the store in {} cannot be used: {why}; name another folder with --data, or store nothing with --data none",
                directory.display()
            ),
            Self::Channel { name, why } => write!(f, "channels, name = \"{name}\": {why}"),
            Self::Dds { why } => write!(f, "dds: {why}"),
            Self::Zenoh { why } => write!(f, "links.zenoh: {why}"),
            Self::OutsideNaming { url, why } => {
                write!(f, "naming.outside = \"{url}\": {why}; write for example corbaloc::host:2809/NameService")
            }
            Self::Standby { why } => write!(f, "[standby]: {why}"),
            Self::Follower => {
                f.write_str("this machine is the follower of another one, and serves no client until it is promoted")
            }
            Self::Tls(error) => write!(f, "[tls]: {error}"),
            Self::Processors { processors, error } => write!(
                f,
                "lanes.cpus = {processors:?}: this process may run on none of these processors ({error}); \
                 Cpus_allowed_list in /proc/self/status names those that it may"
            ),
            Self::Resources(error) => write!(f, "the operating system refuses what the service needs: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> Self {
        Self::Tls(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Resources(error)
    }
}
