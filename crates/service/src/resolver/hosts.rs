//! Names in the file `/etc/hosts`, which need no server.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hashbrown::HashMap;

/// Maximum octets read of the file.
const BYTES_MAX: u64 = 1 << 20;

/// The names in the file, read again when it has changed.
pub(super) struct Hosts {
    path: PathBuf,
    /// Modification time of the file, and its length then.
    version: Option<(SystemTime, u64)>,
    addresses: HashMap<String, Vec<IpAddr>>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self::of(Path::new("/etc/hosts"))
    }
}

impl Hosts {
    fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), version: None, addresses: HashMap::new() }
    }

    /// The addresses of a host, in the order of the file, if it has any.
    pub(super) fn find(&mut self, host: &str) -> Option<Vec<IpAddr>> {
        let version = self.path.metadata().ok();
        let version = version.and_then(|file| Some((file.modified().ok()?, file.len())));
        if version != self.version {
            self.version = version;
            self.addresses = read(&self.path).map(|text| parse(&text)).unwrap_or_default();
        }
        self.addresses.get(&host.to_ascii_lowercase()).cloned()
    }
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses lines with an address and its names, up to a `#`.
fn parse(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut addresses: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(ip) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words {
            let of_name = addresses.entry(name.to_ascii_lowercase()).or_default();
            if !of_name.contains(&ip) {
                of_name.push(ip);
            }
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_addresses_of_all_its_lines() {
        let found = parse("# all\n10.0.0.1 one One.example # comment two\n::1\tone\n\nbad three\n10.0.0.1 one\n");
        let of = |name: &str| found.get(name).cloned().unwrap_or_default();
        let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "::1".parse().unwrap());
        assert_eq!(of("one"), [v4, v6]);
        assert_eq!(of("one.example"), [v4]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_none_is_no_error() {
        let path = std::env::temp_dir().join(format!("campanile-hosts-{}", std::process::id()));
        let mut hosts = Hosts::of(&path);
        assert_eq!(hosts.find("one"), None);
        std::fs::write(&path, "10.0.0.1 one\n").unwrap();
        assert_eq!(hosts.find("ONE"), Some(vec![[10, 0, 0, 1].into()]));
        std::fs::write(&path, "10.0.0.1 one\n10.0.0.2 two\n").unwrap();
        assert_eq!(hosts.find("two"), Some(vec![[10, 0, 0, 2].into()]));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(hosts.find("two"), None);
    }
}
