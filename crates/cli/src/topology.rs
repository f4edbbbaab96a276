//! `campanile topology`: the whole configuration of a service, stored in a file, compared, and applied again.

use crate::args::{ApplyOptions, DiffOptions, ExportOptions, ServerOptions, TopologyCommand};
use crate::failure::Failure;
use crate::progress::{Progress, Work};
use crate::statistics::Statistics;
use client::InvokeError;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use topology::{Topology, differences};

/// Runs one of the sub-commands.
pub(crate) fn run(command: &TopologyCommand) -> Result<(), Failure> {
    match command {
        TopologyCommand::Export(options) => export(options),
        TopologyCommand::Diff(options) => diff(options),
        TopologyCommand::Apply(options) => apply(options),
    }
}

fn export(options: &ExportOptions) -> Result<(), Failure> {
    let mut text = of_service(&options.server)?.to_json();
    text.push('\n');
    match &options.file {
        None => Ok(io::stdout().write_all(text.as_bytes())?),
        Some(file) => fs::write(file, text).map_err(|error| {
            Failure::Message(format!("cannot write {}: {error}; choose another file", file.display()))
        }),
    }
}

fn diff(options: &DiffOptions) -> Result<(), Failure> {
    let before = of_file(&options.before)?;
    let now = match &options.now {
        Some(file) => of_file(file)?,
        None => of_service(&options.server)?,
    };
    let lines = differences(&before, &now);
    let mut text = lines.join("\n");
    if lines.is_empty() {
        return Ok(());
    }
    text.push('\n');
    io::stdout().write_all(text.as_bytes())?;
    Err(Failure::Quiet)
}

fn apply(options: &ApplyOptions) -> Result<(), Failure> {
    let wanted = of_file(&options.file)?;
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let statistics = Statistics::find(&options.server).map_err(remote)?;
    let progress = Progress::begin(Work { doing: "applying", ..Work::default() });
    let said = statistics.apply(&wanted.to_json());
    drop(progress);
    let why = said.map_err(|error| statistics.failure(&error, &options.server))?;
    if why.is_empty() { Ok(()) } else { Err(Failure::Message(why)) }
}

/// Reads a topology from a file; `-` is standard input.
fn of_file(file: &Path) -> Result<Topology, Failure> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
    Topology::from_json(&text).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

fn of_service(server: &ServerOptions) -> Result<Topology, Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, server);
    let statistics = Statistics::find(server).map_err(remote)?;
    let text = statistics.topology().map_err(|error| {
        if error.is("IMP_LIMIT") {
            return Failure::message(
                "the service has more than it exports at once: 16,384 admins, proxies, filters and names",
            );
        }
        statistics.failure(&error, server)
    })?;
    Topology::from_json(&text).map_err(Failure::message)
}
