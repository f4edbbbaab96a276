//! `campanile node`, and what `campanile deploy` asks of one.

use crate::args::{DeployDownOptions, DeployNodeOptions, DeployStatusOptions, NodeArg, NodeOptions};
use crate::deploy;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::logger;
use crate::moment;
use crate::show;
use crate::signals::{Waiter, Wake};
use crate::supervisor::Supervisor;
use component::{Changed, Difference, Node, NodeAnswer, NodeRequest, NodeSettings, NodeStatus, Plan, Problem};
use service::LogConfig;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Is a node manager until a signal ends it.
pub(crate) fn run(options: &NodeOptions) -> Result<(), Failure> {
    let waiter = Waiter::install_for_service()?;
    // Each server takes a few.
    service::raise_descriptor_limit();
    logger::install(LogConfig::default());
    let environment = Environment::read();
    let settings = NodeSettings::read(&options.config).map_err(Failure::Usage)?;
    let socket = settings.socket.clone().map_or_else(|| default_socket(&environment), Ok)?;
    let node = Node::start(&settings, &socket, deploy::objects()?).map_err(Failure::Message)?;
    let ready = format!("node manager ready at {}", node.socket().display());
    writeln!(io::stdout(), "campanile: {ready}")?;
    if let Some(address) = node.execution_manager() {
        writeln!(io::stdout(), "campanile: execution manager at {address}")?;
    }
    let supervisor = Supervisor::of(&environment);
    supervisor.tell_status(&["READY=1"], &ready);
    while let Some(Wake::HangUp) = waiter.wait(None) {}
    supervisor.tell(&["STOPPING=1"]);
    drop(node);
    Ok(())
}

/// Where a node manager is, unless its settings or options say so.
fn default_socket(environment: &Environment) -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/run/campanile-node/node.sock"));
    }
    let folder = environment.runtime_directory.as_ref().ok_or_else(|| {
        Failure::Usage(
            "XDG_RUNTIME_DIR is not set: name the node manager's socket, by --node or in node.toml".to_owned(),
        )
    })?;
    Ok(folder.join("campanile-node.sock"))
}

/// An answer of the node manager, with what some nodes of a plan have not contributed; or why it refuses.
type Answer = Result<(NodeAnswer, Vec<Problem>), Vec<Problem>>;

/// Sends a request to the node manager.
fn send(request: &NodeRequest, arg: &NodeArg) -> Result<Answer, Failure> {
    let socket = arg.node.clone().map_or_else(|| default_socket(&Environment::read()), Ok)?;
    Ok(match request.send(&socket).map_err(Failure::Message)? {
        NodeAnswer::Refused(problems) => Err(problems),
        NodeAnswer::Partly(answer, problems) => Ok((*answer, problems)),
        answer => Ok((answer, Vec::new())),
    })
}

/// Says what is missing of an answer, if something is.
fn unless_partly(problems: &[Problem]) -> Result<(), Failure> {
    if problems.is_empty() { Ok(()) } else { Err(deploy::say(problems)) }
}

fn unexpected(answer: &NodeAnswer) -> Failure {
    Failure::Message(format!("the node manager answered something else: {answer:?}"))
}

/// The text of a plan, and the folder where its relative paths begin.
fn read(path: &Path) -> Result<(String, PathBuf), Failure> {
    let plan = Plan::text(path).map_err(|problem| Failure::Message(problem.to_string()))?;
    let path = std::path::absolute(path).map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?;
    Ok((plan, path.parent().unwrap_or(Path::new("/")).to_owned()))
}

pub(crate) fn up(options: &DeployNodeOptions) -> Result<(), Failure> {
    let (plan, folder) = read(&options.plan.plan)?;
    let answer = send(&NodeRequest::Up { plan, folder }, &options.node)?;
    changed(answer, &format!("{} is up", options.plan.plan.display()))
}

pub(crate) fn down(options: &DeployDownOptions) -> Result<(), Failure> {
    let answer =
        send(&NodeRequest::Down { name: options.name.clone(), without: options.without.clone() }, &options.node)?;
    changed(answer, &format!("{} is down", options.name))
}

fn changed(answer: Answer, what: &str) -> Result<(), Failure> {
    let (changed, missing): (Changed, _) = match answer.map_err(|problems| deploy::say(&problems))? {
        (NodeAnswer::Changed(changed), missing) => (changed, missing),
        (other, _) => return Err(unexpected(&other)),
    };
    writeln!(io::stdout(), "{what}: {changed}")?;
    unless_partly(&missing)
}

/// Status 1 says that there are differences; that they are not known is status 2.
pub(crate) fn diff(options: &DeployNodeOptions) -> Result<(), Failure> {
    differences(options).map_err(|failure| match failure {
        Failure::Message(reason) => Failure::Usage(reason),
        other => other,
    })
}

fn differences(options: &DeployNodeOptions) -> Result<(), Failure> {
    let (plan, folder) = read(&options.plan.plan)?;
    let unknown = |problems: &[Problem]| {
        let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
        Failure::Usage(lines.join("\ncampanile: "))
    };
    let (differences, missing) = match send(&NodeRequest::Diff { plan, folder }, &options.node)? {
        Ok((NodeAnswer::Differences(differences), missing)) => (differences, missing),
        Ok((other, _)) => return Err(unexpected(&other)),
        Err(problems) => return Err(unknown(&problems)),
    };
    let mut out = io::stdout();
    for Difference { server, key, old, new } in &differences {
        let of =
            |value: &Option<String>| value.as_ref().map_or_else(|| "nothing".to_owned(), |value| show::clean(value));
        writeln!(out, "{}: {}: {} -> {}", show::clean(server), show::clean(key), of(old), of(new))?;
    }
    match missing.is_empty() {
        true if differences.is_empty() => Ok(()),
        true => Err(Failure::Quiet),
        false => Err(unknown(&missing)),
    }
}

const HEADINGS: [&str; 8] = ["plan", "node", "server", "state", "since", "pid", "restarts", "instances"];

pub(crate) fn status(options: &DeployStatusOptions) -> Result<(), Failure> {
    let request = NodeRequest::Status { name: options.name.clone() };
    let (status, missing) = match send(&request, &options.node)?.map_err(|problems| deploy::say(&problems))? {
        (NodeAnswer::Status(status), missing) => (status, missing),
        (other, _) => return Err(unexpected(&other)),
    };
    let text =
        if options.json { serde_json::to_string(&status).map_err(Failure::message)? + "\n" } else { describe(&status) };
    io::stdout().write_all(text.as_bytes())?;
    unless_partly(&missing)?;
    let is_well =
        status.plans.iter().all(|plan| plan.refused.is_none() && plan.servers.iter().all(|it| it.state == "started"));
    if is_well { Ok(()) } else { Err(Failure::Quiet) }
}

/// A table of servers, and a line for each that has ended by itself or does not come up.
fn describe(status: &NodeStatus) -> String {
    let (mut rows, mut notes) = (Vec::new(), String::new());
    for plan in &status.plans {
        if let Some(reason) = &plan.refused {
            let _ = writeln!(notes, "{}: {}", show::clean(&plan.name), show::clean(reason));
        }
        for server in &plan.servers {
            let since = moment::rfc3339(UNIX_EPOCH + Duration::from_millis(server.since_ms));
            let pid = server.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let (plan, name) = (show::clean(&plan.name), show::clean(&server.name));
            if let Some(reason) = &server.reason {
                let _ = writeln!(notes, "{plan}: {name}: {}", show::clean(reason));
            }
            let instances = show::clean(&server.instances.join(", "));
            let (node, state) =
                (server.node.as_deref().map(show::clean).unwrap_or_default(), show::clean(&server.state));
            rows.push(vec![plan, node, name, state, since, pid, server.restarts.to_string(), instances]);
        }
    }
    if let Some(changing) = &status.changing {
        let _ = writeln!(notes, "{}", show::clean(changing));
    }
    if rows.is_empty() {
        return "no server is up\n".to_owned() + &notes;
    }
    let mut text = String::new();
    let (mut headings, mut names) = (HEADINGS.to_vec(), vec![0, 1, 2, 3, 4, 7]);
    // Most plans have one node.
    if rows.iter().all(|row| row.get(1).is_some_and(String::is_empty)) {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
        headings.remove(1);
        names = vec![0, 1, 2, 3, 6];
    }
    show::table(&mut text, (&headings, false), &names, &rows);
    text + &notes
}
