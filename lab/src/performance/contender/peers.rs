//! What the peers have in common: they are where `lab/peers/install.sh` has left them, with the files that configure them.
//!
//! Each is found in the folder `target/peers`, beside which the benchmarks are run. What each setting is for, and where it is
//! recommended, is said in `lab/peers/README.md`.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Absence;
use crate::performance::ends::Subscribe;
use crate::performance::protocol::Protocol;
use crate::{BenchError, campanile, leash};

/// Where `lab/peers/install.sh` puts them.
const FOLDER: &str = "target/peers";

/// The subject or topic of the events, or the key of their consumer, by default.
pub(super) const SUBJECT: &[u8] = b"bench";

/// The order for a process of these consumers, which all subscribe to [`SUBJECT`], or are it; they connect to that address,
/// where they connect themselves.
pub(super) fn subscribers(protocol: Protocol, address: Option<SocketAddr>, consumers: Range<u32>) -> Subscribe {
    Subscribe { protocol, address, targets: consumers.map(|_| SUBJECT.to_vec()).collect(), copies: false }
}

/// A peer that is there.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Finds a peer.
    pub(super) fn find(name: &str) -> Result<Self, Absence> {
        let folder = Path::new(FOLDER).join(name);
        let state = std::fs::read_to_string(folder.join("state")).map_err(|_| {
            Absence::NotInstalled(format!("{} is not there: run lab/peers/install.sh", folder.display()))
        })?;
        version(&state).map_err(Absence::NotInstalled)?;
        let folder = folder.canonicalize().map_err(BenchError::io("finding a peer"))?;
        Ok(Self { folder })
    }

    pub(super) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// A text with the path of a file of it at its end.
    pub(super) fn text(&self, before: &str, name: &str) -> OsString {
        let mut text = OsString::from(before);
        text.push(self.file(name));
        text
    }
}

/// A peer's name and version, for the report; the name alone where it is not installed.
pub(super) fn name_and_version(name: &str, folder: &str) -> String {
    let state = std::fs::read_to_string(Path::new(FOLDER).join(folder).join("state")).unwrap_or_default();
    version(&state).map_or_else(|_| name.to_owned(), |version| format!("{name} {version}"))
}

/// What the state of a peer says: `ready VERSION`, or `missing REASON`.
fn version(state: &str) -> Result<&str, String> {
    match state.trim().split_once(' ') {
        Some(("ready", version)) => Ok(version),
        Some(("missing", reason)) => Err(reason.to_owned()),
        _ => Err(format!("its state is not understood: {state}")),
    }
}

/// The command, with its program first, that runs a program with these arguments and variables of the environment, on that core
/// if there is one, and has it end when the benchmark does.
pub(super) fn command<'a>(
    core: Option<usize>,
    variables: &[(&str, OsString)],
    program: &Path,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<Vec<OsString>, BenchError> {
    let mut words = leash::words(Some(OsStr::new("env")), core, None)?;
    for (name, value) in variables {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        words.push(variable);
    }
    words.push(program.into());
    words.extend(arguments.into_iter().map(OsStr::to_owned));
    Ok(words)
}

/// The same as something that can be started.
pub(super) fn to_command(words: &[OsString]) -> std::process::Command {
    let mut command = std::process::Command::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words.iter().skip(1));
    command
}

/// A port of loopback that is free, for a program that will not choose one itself.
pub(super) fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = campanile::listen()?;
    let address = listener.local_addr().map_err(BenchError::io("looking for a free port"))?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())))
}

/// The error of consumers that have to be called back, and do not say where.
pub(super) fn silent() -> BenchError {
    BenchError::Setup { doing: "starting consumers".to_owned(), reason: "they do not say where they listen".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_there_or_says_why_not() {
        assert_eq!(version("ready 1:2.6.2-6\n"), Ok("1:2.6.2-6"));
        assert_eq!(version("missing there is no go\n"), Err("there is no go".to_owned()));
        assert!(version("").is_err());
    }

    #[test]
    fn a_command_has_its_variables_and_its_leash() {
        let words = command(Some(1), &[("A", "b c".into())], Path::new("/bin/peer"), [OsStr::new("--x")]).unwrap();
        let tail = ["--core", "1", "--program", "env", "--", "A=b c", "/bin/peer", "--x"].map(OsString::from);
        assert!(words.ends_with(&tail), "{words:?}");
    }
}
