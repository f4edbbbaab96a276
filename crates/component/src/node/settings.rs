//! Settings of a node manager: `node.toml`, and what follows from it on this machine.

use crate::artifacts::DigestCache;
use crate::launch::{Programs, User};
use crate::node::network::NodeTls;
use crate::node::omg::GiopSettings;
use crate::plan::{Plan, Problem};
use rustix::process::geteuid;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Settings of a node manager.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NodeSettings {
    /// Path of the unix socket. Default: the caller's of [`Node::start`](crate::Node::start).
    pub socket: Option<PathBuf>,
    /// Folder of the plans that are up. It is made where there is none.
    pub state: PathBuf,
    /// Folders from which programs and shared objects may come. Default: none, and every plan that has some is refused.
    #[serde(default)]
    pub artifacts: Vec<PathBuf>,
    /// Whether plans have to state digests. Default: optional.
    #[serde(default)]
    pub digests: Digests,
    /// Interpreter of servers in Python: a path, or a name that is looked up as a shell does. Default `python3`.
    #[serde(default = "python")]
    pub python: String,
    /// The user as which servers run, where the node manager is root: its name. Root is taken if it is named.
    pub user: Option<String>,
    /// Names of users that may use the socket beside root and the node manager's own. Default: none.
    #[serde(default)]
    pub users: Vec<String>,
    /// Certificates of this node, and what others may do: for plans over several nodes, and over GIOP. Default: none.
    pub tls: Option<NodeTls>,
    /// The OMG's deployment interfaces over GIOP. Default: none.
    pub giop: Option<GiopSettings>,
}

fn python() -> String {
    "python3".to_owned()
}

/// Whether plans have to state the digests of their programs and shared objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digests {
    /// Those that are stated are compared.
    #[default]
    Optional,
    /// A plan that does not state all of them is refused.
    Required,
}

impl NodeSettings {
    /// The settings that a file has.
    ///
    /// # Errors
    /// The file cannot be read, is no TOML, or says what cannot be on this machine.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let settings = Self::parse(&text).map_err(|error| failed(&error))?;
        Policy::new(&settings, Vec::new()).map_err(|error| failed(&error))?;
        Ok(settings)
    }

    /// The settings that a text has.
    ///
    /// # Errors
    /// The text is no TOML, or says what there is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        let files =
            settings.tls.iter().flat_map(NodeTls::files).chain(settings.giop.iter().flat_map(|it| &it.ior_folder));
        let paths = settings.artifacts.iter().chain([&settings.state]).chain(&settings.socket).chain(files);
        if let Some(path) = paths.into_iter().find(|path| !path.is_absolute()) {
            return Err(format!("the path {} is relative: give an absolute one", path.display()));
        }
        match (&settings.giop, &settings.tls) {
            (Some(giop), tls) => giop.check(tls.as_ref())?,
            (None, Some(NodeTls { listen: None, .. })) => {
                return Err("tls.listen is missing: nothing uses [tls]".to_owned());
            }
            _ => {}
        }
        Ok(settings)
    }
}

/// What the settings are on this machine.
pub(crate) struct Policy {
    folders: Vec<PathBuf>,
    pub(crate) digests: Digests,
    /// The user as which servers run; `None` for that of the node manager.
    pub(crate) run_as: Option<User>,
    /// Users that may use the socket.
    pub(crate) peers: BTreeSet<u32>,
    /// What is a component server for shared objects, with its first arguments.
    objects: Vec<OsString>,
    python: String,
    pub(crate) found: DigestCache,
}

impl Policy {
    pub(crate) fn new(settings: &NodeSettings, objects: Vec<OsString>) -> Result<Self, String> {
        let own = geteuid().as_raw();
        let run_as = match settings.user.as_deref().map(user).transpose()? {
            None if own == 0 => {
                return Err(
                    "the node manager is root: name the `user` as which servers run; user = \"root\" if that is meant"
                        .to_owned(),
                );
            }
            Some(of) if own != 0 && of.user != own => {
                return Err(
                    "`user` is another one than that of the node manager, which takes root: leave it out".to_owned()
                );
            }
            other => other.filter(|of| of.user != own),
        };
        let mut peers = BTreeSet::from([0, own]);
        for name in &settings.users {
            peers.insert(user(name)?.user);
        }
        Ok(Self {
            folders: settings.artifacts.clone(),
            digests: settings.digests,
            run_as,
            peers,
            objects,
            python: settings.python.clone(),
            found: DigestCache::default(),
        })
    }

    /// What starts the servers of a plan with canonical paths.
    pub(crate) fn programs<'p>(&'p self, plan: &'p Plan) -> Programs<'p> {
        let mut programs = Programs::new(plan, Path::new("/"), &self.objects);
        programs.user = self.run_as.as_ref();
        programs.is_node = true;
        programs.python.values_mut().for_each(|python| *python = &self.python);
        programs
    }

    /// The first of the folders with a file of that name.
    pub(crate) fn folder_of(&self, name: &str) -> &Path {
        let has_it = self.folders.iter().find(|folder| folder.join(name).exists());
        has_it.or(self.folders.first()).map_or(Path::new("/"), PathBuf::as_path)
    }

    /// The canonical path of a program or shared object, if it is in one of the folders.
    pub(crate) fn artifact(&self, folder: &Path, name: &str) -> Result<PathBuf, String> {
        if self.folders.is_empty() {
            return Err("nothing can be deployed here: node.toml has no `artifacts`, the folders from which programs and shared objects \
                 may come"
                .to_owned());
        }
        let path = folder.join(name);
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        // A folder that is not there has no files.
        if self.folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|folder| path.starts_with(folder)) {
            return Ok(path);
        }
        let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(format!(
            "{} is in none of the folders of `artifacts` in node.toml, {}: install it there, and name it by its path there",
            path.display(),
            folders.join(", ")
        ))
    }

    /// Checks what a server of a plan that was prepared runs or loads: it is where it was, and what it was.
    pub(crate) fn check(&self, plan: &Plan, server: &str) -> Result<(), Problem> {
        let root = Path::new("/");
        for name in plan.artifacts_of(server) {
            let refused = |reason: String| Problem::new(format!("artifacts.{name:?}"), reason);
            if self.artifact(root, name).map_err(refused)? != Path::new(name) {
                return Err(refused("the path leads elsewhere since the plan was brought up: do so again".to_owned()));
            }
            let stated = plan.artifacts.get(name).map(String::as_str).unwrap_or_default();
            if self.found.digest(Path::new(name)).map_err(refused)? != stated {
                let reason = "the file has changed since the plan was brought up: do so again, or put the file back";
                return Err(refused(reason.to_owned()));
            }
        }
        Ok(())
    }
}

/// A user of this machine.
fn user(name: &str) -> Result<User, String> {
    let text = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(User { name: name.to_owned(), user, group, home: fields.nth(1)?.to_owned() })
    });
    found.ok_or_else(|| format!("there is no user {name} in /etc/passwd"))
}

#[cfg(test)]
mod tests {
    use super::NodeSettings;

    #[test]
    fn the_example_says_the_defaults() {
        let example = include_str!("../../../../config/node.toml");
        let settings = NodeSettings::parse(example).unwrap();
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        let all = NodeSettings::parse(&example.lines().map(uncommented).collect::<String>()).unwrap();
        assert_eq!((settings.users, settings.user), (vec![], None));
        assert_eq!((all.digests, all.user.as_deref()), (super::Digests::Optional, Some("observer")));
        assert_eq!(all.python, settings.python);
        assert_eq!((settings.tls.is_none(), all.tls.unwrap().deploy.len()), (true, 2));
        assert_eq!((settings.giop.is_none(), all.giop.unwrap().plain), (true, false));
        let giop = |keys: &str| NodeSettings::parse(&format!("state = '/a'\n{keys}"));
        let plain = |listen: &str| giop(&format!("[giop]\nlisten = '{listen}'\nplain = true"));
        assert!(plain("127.0.0.1:0").is_ok() && plain("[::1]:0").is_ok());
        assert!(plain("0.0.0.0:0").unwrap_err().contains("takes an address of loopback"));
        assert!(plain("dome:1").is_err());
        assert!(giop("[giop]\nlisten = '127.0.0.1:0'").unwrap_err().contains("every program of this machine may"));
        let tls = "[tls]\ncertificate = '/c'\nkey = '/k'\nca = '/a'\n";
        let deploy = "deploy = ['CN=launcher']\n";
        assert!(giop(tls).unwrap_err().contains("nothing uses [tls]"));
        assert!(giop(&format!("{tls}{deploy}[giop]\nlisten = '127.0.0.1:0'")).is_ok());
        assert!(giop(&format!("{tls}[giop]\nlisten = '127.0.0.1:0'")).unwrap_err().contains("names no certificate"));
        assert!(giop(&format!("{tls}{deploy}[giop]\nlisten = '0.0.0.0:0'")).unwrap_err().contains("by `advertise`"));
        assert!(NodeSettings::parse("state = 'here'\n").unwrap_err().contains("is relative"));
        assert!(NodeSettings::parse("state = '/a'\nstat = 1\n").unwrap_err().contains("unknown field `stat`"));
    }
}
