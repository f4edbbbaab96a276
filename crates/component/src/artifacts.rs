//! Artifacts: the programs and shared objects that a plan names, and their digests.

use crate::plan::{Plan, Problem};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The most octets of a program or shared object.
const ARTIFACT_BYTES_MAX: u64 = 1 << 30;

/// Octets that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The most digests of files that are kept in mind.
const CACHED_MAX: usize = 1_024;

/// What a digest begins with.
const SCHEME: &str = "sha256:";

impl Plan {
    /// The files that a server runs or loads, as the plan names them: its program, or the shared objects of its instances.
    pub(crate) fn artifacts_of(&self, server: &str) -> BTreeSet<&str> {
        match self.servers.get(server).and_then(|server| server.program.as_deref()) {
            Some(program) => BTreeSet::from([program]),
            None => {
                let here = self.instances.values().filter(|instance| instance.server == server);
                here.filter_map(|instance| Some(instance.object()?.0)).collect()
            }
        }
    }

    /// What is wrong with the digests that the plan states.
    pub(crate) fn artifact_problems(&self) -> Vec<Problem> {
        let servers = self.servers.keys().map(String::as_str).chain(self.server_names());
        let known: BTreeSet<&str> = servers.flat_map(|server| self.artifacts_of(server)).collect();
        let problem = |(name, digest): (&String, &String)| {
            let is_hex =
                |text: &str| text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
            let reason = if !known.contains(name.as_str()) {
                let known: Vec<_> = known.iter().copied().collect();
                format!("the plan has no such program or shared object; it has: {}", known.join(", "))
            } else if !digest.strip_prefix(SCHEME).is_some_and(is_hex) {
                format!("{digest:?} is no digest: give {SCHEME} and 64 digits of hexadecimal, as sha256sum prints them")
            } else {
                return None;
            };
            Some(Problem::new(format!("artifacts.{name:?}"), reason))
        };
        self.artifacts.iter().filter_map(problem).collect()
    }

    /// Compares the files that a server runs or loads with the digests that the plan states.
    pub(crate) fn check_digests(&self, folder: &Path, server: &str) -> Result<(), Problem> {
        for name in self.artifacts_of(server) {
            if let Some(stated) = self.artifacts.get(name) {
                let path = folder.join(name);
                digest(&path)
                    .and_then(|found| compare(&path, found, stated))
                    .map_err(|reason| Problem::new(format!("artifacts.{name:?}"), reason))?;
            }
        }
        Ok(())
    }
}

/// The digest of a file, if it is the one that is stated.
pub(crate) fn compare(path: &Path, found: String, stated: &str) -> Result<String, String> {
    if found == stated {
        return Ok(found);
    }
    let path = path.display();
    Err(format!(
        "{path} has the digest {found}, and the plan says {stated}: put the right file there, or correct the plan"
    ))
}

/// The digest of a file, as plans state it.
fn digest(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(format!("{} is no file", path.display()));
    }
    if about.len() > ARTIFACT_BYTES_MAX {
        return Err(format!("{} has {} octets: at most {ARTIFACT_BYTES_MAX} are taken", path.display(), about.len()));
    }
    let mut file = File::open(path).map_err(failed)?.take(ARTIFACT_BYTES_MAX);
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).map_err(failed)? {
            0 => return Ok(text(&hash.finalize())),
            read => hash.update(chunk.get(..read).unwrap_or_default()),
        }
    }
}

/// Digests of files that were read before, as long as these are what they were.
#[derive(Default)]
pub(crate) struct DigestCache(Mutex<BTreeMap<PathBuf, (Stamp, String)>>);

/// What changes with a file: its device, its number, its size, and when it was changed last.
type Stamp = (u64, u64, u64, i64, i64);

impl DigestCache {
    /// The digest of a file, as plans state it.
    pub(crate) fn digest(&self, path: &Path) -> Result<String, String> {
        let stamp = |it: Metadata| (it.dev(), it.ino(), it.size(), it.ctime(), it.ctime_nsec());
        // One that cannot be looked at cannot be read either.
        let stamp = std::fs::metadata(path).map(stamp).unwrap_or_default();
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digest)) = known().get(path).filter(|(of, _)| *of == stamp) {
            return Ok(digest.clone());
        }
        let digest = digest(path)?;
        let mut known = known();
        if known.len() >= CACHED_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), (stamp, digest.clone()));
        Ok(digest)
    }
}

/// The digest of octets, as plans state it.
pub(crate) fn digest_of(octets: &[u8]) -> String {
    text(&Sha256::digest(octets))
}

fn text(hash: &[u8]) -> String {
    hash.iter().fold(SCHEME.to_owned(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}
