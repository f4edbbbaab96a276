//! The plan of `deployment`: on each node a server in Rust, one in C++ and one in Python, whose components say when they are activated of
//! which version of the plan they are.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ::campanile::Event;
use component::{
    Failure, Lifecycle, Ports, Registry, ServerSettings, Sink, Source, Tick, Timer, component, serve_program,
};

use crate::BenchError;
use crate::campanile::setup;
use crate::experiments::languages::{Skipped, build_into};

/// The name of the hidden sub-command.
pub(crate) const COMMAND: &str = "deployment-part";
/// The plan's.
pub(super) const NAME: &str = "deployment";
/// Languages, each with what instances name as their component.
const LANGUAGES: [(&str, &str); 3] = [("rust", "Part"), ("cpp", "libpart.so#Part"), ("python", "part.py#Part")];

#[derive(Event, Clone)]
#[event(module = "bench")]
struct Beat {
    number: u64,
}

/// The component in Rust. Those in C++ and Python pass on what they get.
#[component(lifecycle)]
struct Part {
    #[timer("1s")]
    tick: Timer,
    #[sink]
    input: Sink<Beat>,
    #[source]
    output: Source<Beat>,
    folder: String,
    version: u64,
    #[state]
    number: u64,
}

impl Lifecycle for Part {
    fn on_activated(&mut self, _: &Ports) -> Result<(), Failure> {
        let path = Path::new(&self.folder).join(std::process::id().to_string());
        let mut file = fs::File::options().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{}", self.version)?)
    }
}

impl Part {
    fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        self.number += 1;
        Ok(self.output.send(&Beat { number: self.number })?)
    }

    fn on_input(&mut self, beat: &Beat, _: &Ports) {
        self.number = self.number.max(beat.number);
    }
}

/// Is a server of the plan, or describes its components, as the words behind the script's path say.
pub(crate) fn run_process(words: &[String]) -> Result<(), BenchError> {
    let registry = Registry::new().with::<Part>();
    let words = words.get(1..).unwrap_or_default();
    serve_program(&registry, ServerSettings::default(), words).map_err(setup("being a server of a plan"))
}

/// What the components are in, and which languages there are.
pub(super) struct Parts {
    pub(super) folder: PathBuf,
    pub(super) languages: Vec<&'static str>,
    pub(super) skipped: Vec<Skipped>,
}

impl Parts {
    pub(super) fn build(folder: PathBuf) -> Result<Self, BenchError> {
        let skipped = build_into(&folder, &["components"])?;
        let is_there = |language: &&str| skipped.iter().all(|skipped| skipped.language != *language);
        let languages = LANGUAGES.iter().map(|(language, _)| *language).filter(is_there).collect();
        Ok(Self { folder, languages, skipped })
    }

    /// Puts them into a folder of a node. The program is a script, which has few octets, and whose path stays on the command line.
    pub(super) fn install(&self, to: &Path) -> Result<(), BenchError> {
        let doing = "installing components";
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        fs::create_dir_all(to).map_err(BenchError::io(doing))?;
        let (program, script) = (to.join("part"), format!("#!/bin/sh\nexec {this:?} {COMMAND} \"$0\" \"$@\"\n"));
        fs::write(&program, script).map_err(BenchError::io(doing))?;
        fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(BenchError::io(doing))?;
        for (language, file) in [("cpp", "libpart.so"), ("python", "part.py")] {
            if self.languages.contains(&language) {
                fs::copy(self.folder.join(file), to.join(file)).map_err(BenchError::io(doing))?;
            }
        }
        Ok(())
    }
}

/// A server of the plan: one of each language on each node.
pub(super) struct PartServer {
    pub(super) name: String,
    pub(super) node: usize,
    language: &'static str,
    pub(super) instances: usize,
}

/// The servers of a plan of so many nodes with as many instances: a fifth of a node's are in Python, as many again and two fifths in C++, the
/// rest in Rust.
pub(super) fn servers(parts: &Parts, nodes: usize, instances: usize) -> Vec<PartServer> {
    let of_node = |node: usize| {
        let all = instances / nodes + usize::from(node < instances % nodes);
        let of = move |language: &str| match language {
            "python" => (all / 5).max(1),
            "cpp" => (all * 2 / 5).max(1),
            _ => 0,
        };
        let others: usize = parts.languages.iter().map(|language| of(language)).sum();
        parts.languages.iter().map(move |language| PartServer {
            name: format!("{language}-{node}"),
            node,
            language,
            instances: if *language == "rust" { all - others } else { of(language) },
        })
    };
    (0..nodes).flat_map(of_node).collect()
}

/// The plan with these nodes, a notification service between its servers, and a version of each server.
pub(super) fn plan(
    servers: &[PartServer],
    addresses: &[String],
    service: &str,
    folders: &[PathBuf],
    versions: &[u64],
) -> String {
    let mut text = format!("name = \"{NAME}\"\n[nodes]\n");
    let mut connections = String::from("[connections]\n");
    for (node, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "n{node} = \"{address}\"");
    }
    let _ = writeln!(text, "[containers.wide]\nservice = \"notification\"\nat = \"{service}\"");
    for ((place, server), version) in servers.iter().enumerate().zip(versions) {
        let PartServer { name, node, language, instances } = server;
        let component = LANGUAGES.iter().find(|(of, _)| of == language).map_or("", |(_, component)| component);
        let program = if *language == "rust" { "program = \"part\"\n" } else { "" };
        let folder = folders.get(*node).map(|folder| folder.display().to_string()).unwrap_or_default();
        let _ = writeln!(text, "[servers.{name}]\n{program}");
        for number in 0..*instances {
            let _ = writeln!(
                text,
                "[instances.{name}_{number}]\ncomponent = \"{component}\"\nnode = \"n{node}\"\nserver = \"{name}\"\n\
                 container = \"wide\"\nfolder = \"{folder}\"\nversion = {version}"
            );
        }
        // From the first to the others of its server, and on to the next server: around all nodes.
        let next = servers.get((place + 1) % servers.len()).map_or("", |next| next.name.as_str());
        let sinks = (1..*instances).map(|number| format!("\"{name}_{number}.input\""));
        let sinks: Vec<String> = sinks.chain([format!("\"{next}_0.input\"")]).collect();
        let _ = writeln!(connections, "\"{name}_0.output\" = [{}]", sinks.join(", "));
    }
    text + &connections
}
