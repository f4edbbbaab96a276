//! The processes of a plan, on one machine: made all, then started all.
//!
//! Each server of a plan is a process of a program that calls [`run_program`](crate::run_program). It ends when its standard input does, so
//! that none is left behind when the launcher is gone.

use crate::deploy::ObjectReport;
use crate::plan::{Descriptions, Plan, Problem};
use crate::process::{Process, READ_LIMIT, STEP_LIMIT, Said, kill_group, relay, status_in_time};
use crate::recording::Recording;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The most octets of what a program says of its components.
const DESCRIPTION_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long all programs and shared objects of a plan may take to describe their components.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(120);

/// What is a component server for files of Python, to the interpreter.
const PYTHON_MODULE: &str = "campanile._serve";

/// The most shared objects, and files of Python, of a plan.
pub(crate) const OBJECTS_MAX: usize = 256;

/// A plan in a file, with what its programs say of their components.
#[derive(Debug)]
pub struct PlanFile {
    plan: Plan,
    path: PathBuf,
    objects: Vec<OsString>,
    components: BTreeMap<String, Descriptions>,
}

/// The processes of a plan. They end when this is dropped.
pub struct Running {
    processes: Vec<(String, Process)>,
    said: Receiver<(String, Said)>,
}

impl PlanFile {
    /// Reads a plan, and asks its programs for their components. Each server names its program.
    ///
    /// # Errors
    /// All that is wrong with the plan, as far as that is known before anything runs.
    pub fn read(path: &Path) -> Result<Self, Vec<Problem>> {
        Self::read_with_objects(path, Vec::new())
    }

    /// As [`read`](Self::read); `objects` is a program with its first arguments, which is the component server where a plan names none. To
    /// `--describe OBJECT` it does [`describe_object`](crate::describe_object), and to `--plan FILE --server NAME`
    /// [`serve_objects`](crate::serve_objects).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with_objects(path: &Path, objects: Vec<OsString>) -> Result<Self, Vec<Problem>> {
        let one = |reason: String| vec![Problem::new(path.display().to_string(), reason)];
        let path = std::path::absolute(path).map_err(|error| one(error.to_string()))?;
        let plan = Plan::read(&path).map_err(|problem| vec![problem])?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut problems = plan.artifact_problems();
        problems.extend(plan.servers.keys().filter_map(|server| plan.check_digests(folder, server).err()));
        if !problems.is_empty() {
            return Err(problems);
        }
        // What could not be asked for would only be missed again.
        let components = Programs::new(&plan, folder, &objects).describe()?;
        let problems = plan.check(&components);
        if problems.is_empty() { Ok(Self { plan, path, objects, components }) } else { Err(problems) }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The components of each server's program.
    #[must_use]
    pub fn components(&self) -> &BTreeMap<String, Descriptions> {
        &self.components
    }

    /// Starts a process for each server that has instances: all are configured and connected before the first is started. If one fails, all
    /// are ended.
    ///
    /// # Errors
    /// Which server failed, and why; what it said itself is on the standard error.
    pub fn run(&self) -> Result<Running, Problem> {
        self.run_servers(&self.plan.server_names(), &|_| {}, &mut || Ok(()))
    }

    /// As [`run`](Self::run), where what comes to the sinks of the instances is recorded.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_recorded(&self, recording: &Recording) -> Result<Running, Problem> {
        self.run_servers(&self.plan.server_names(), &|command| recording.give_to(command), &mut || Ok(()))
    }

    /// Starts the processes of some servers; `set` is given the command of each, and `check` is called before they are started.
    pub(crate) fn run_servers(
        &self,
        names: &[&str],
        set: &dyn Fn(&mut Command),
        check: &mut dyn FnMut() -> Result<(), Problem>,
    ) -> Result<Running, Problem> {
        let (sender, said) = channel();
        let mut running = Running { processes: Vec::new(), said };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let programs = Programs::new(&self.plan, folder, &self.objects);
        for name in names.iter().copied() {
            let (sender, of) = (sender.clone(), name.to_owned());
            // The launcher may have given up; the process is read all the same, so that it does not wait.
            let tell = move |said| drop(sender.send((of.clone(), said)));
            let process = programs.server(name, &self.path).and_then(|mut command| {
                set(&mut command);
                Process::start(command, name, tell)
            });
            running.processes.push((name.to_owned(), process.map_err(|reason| at(name, reason))?));
        }
        // Only processes say something from now on.
        drop(sender);
        running.all_say(Said::Configured, "configured")?;
        check()?;
        for (name, process) in &mut running.processes {
            process.begin().map_err(|error| at(name, error.to_string()))?;
        }
        running.all_say(Said::Started, "started")?;
        Ok(running)
    }
}

pub(crate) fn at(server: &str, reason: impl Into<String>) -> Problem {
    Problem::new(format!("servers.{server}"), reason)
}

/// A user of this machine.
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) home: String,
}

/// What starts the servers of a plan.
pub(crate) struct Programs<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) folder: &'p Path,
    /// What is a component server for shared objects, with its first arguments; empty if there is none.
    pub(crate) objects: &'p [OsString],
    /// The user as which all processes run; `None` for the user of this process.
    pub(crate) user: Option<&'p User>,
    /// Servers of Python with their interpreters.
    pub(crate) python: BTreeMap<&'p str, &'p str>,
    /// Whether a node manager starts them.
    pub(crate) is_node: bool,
}

impl<'p> Programs<'p> {
    /// As the user of this process, by the interpreters that the plan names.
    pub(crate) fn new(plan: &'p Plan, folder: &'p Path, objects: &'p [OsString]) -> Self {
        Self { plan, folder, objects, user: None, python: plan.python_servers(), is_node: false }
    }

    fn of_objects(&self) -> Result<Command, String> {
        let (program, arguments) = self.objects.split_first().ok_or("it names no program: give it one")?;
        let mut command = self.command(program.as_ref());
        command.args(arguments);
        Ok(command)
    }

    /// An interpreter of Python that is a component server.
    fn of_python(&self, python: &str) -> Command {
        let path = if python.contains('/') { self.folder.join(python) } else { python.into() };
        let mut command = self.command(&path);
        // What stands in the working folder is not imported.
        command.args(["-P", "-m", PYTHON_MODULE]);
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if self.is_node {
            // What is a signal to the group of a node manager is none to what it asks; and what that prints is logged.
            command.process_group(0).stderr(Stdio::piped());
        }
        if let Some(User { name, user, group, home }) = self.user {
            // Where this process is root, other groups than this one are dropped; what its environment has is not for others.
            command.uid(*user).gid(*group).current_dir("/").env_clear();
            let inherited = ["PATH", "LANG"].into_iter().filter_map(|key| Some((key, std::env::var_os(key)?)));
            command.envs(inherited).envs([("HOME", home), ("USER", name), ("LOGNAME", name)]);
        }
        command
    }

    /// The program of a server, by the plan's folder.
    fn of(&self, server: &str) -> Result<Command, String> {
        let program = self.plan.servers.get(server).and_then(|server| server.program.as_ref());
        match (program, self.python.get(server)) {
            (Some(program), _) => Ok(self.command(&self.folder.join(program))),
            (None, Some(python)) => Ok(self.of_python(python)),
            (None, None) => self.of_objects(),
        }
    }

    /// The command of a server of a plan in a file.
    pub(crate) fn server(&self, name: &str, file: &Path) -> Result<Command, String> {
        let mut command = self.of(name)?;
        command.arg("--plan").arg(file).arg("--server").arg(name);
        Ok(command)
    }

    /// What the programs and shared objects say of the components of each server.
    pub(crate) fn describe(&self) -> Result<BTreeMap<String, Descriptions>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut components = BTreeMap::<String, Descriptions>::new();
        let limit = Instant::now() + DESCRIBE_LIMIT;
        // Each program is asked once.
        let mut known = BTreeMap::<&str, Result<Descriptions, String>>::new();
        for (name, server) in &self.plan.servers {
            let described = match &server.program {
                Some(program) => {
                    known.entry(program.as_str()).or_insert_with(|| self.describe_program(name, limit)).clone()
                }
                None => Ok(Descriptions::new()),
            };
            match described {
                Ok(described) => drop(components.insert(name.clone(), described)),
                Err(reason) => problems.push(at(name, reason)),
            }
        }
        // Each object is asked for once, in a process of its own, which it may end; each file of Python once by each interpreter.
        let mut objects = BTreeMap::<(&str, Option<&str>), (&str, BTreeSet<&str>)>::new();
        for (name, instance) in &self.plan.instances {
            let has_program = self.plan.servers.get(&instance.server).is_some_and(|server| server.program.is_some());
            if let Some((object, _)) = instance.object().filter(|_| !has_program) {
                let python = self.python.get(instance.server.as_str()).filter(|_| instance.is_in_python());
                let (_, servers) = objects.entry((object, python.copied())).or_insert_with(|| (name, BTreeSet::new()));
                servers.insert(&instance.server);
            }
        }
        if objects.len() > OBJECTS_MAX {
            let reason = format!(
                "they name {} shared objects and files of Python: at most {OBJECTS_MAX} are taken",
                objects.len()
            );
            return Err(vec![Problem::new("instances", reason)]);
        }
        for ((object, python), (instance, servers)) in objects {
            match self.describe_object(object, python, limit) {
                Ok(described) => {
                    for server in servers {
                        let Some(known) = components.get_mut(server) else { continue };
                        known.extend(described.iter().map(|(name, of)| (format!("{object}#{name}"), of.clone())));
                    }
                }
                Err(reason) => {
                    problems.push(Problem::new(format!("instances.{instance}"), format!("{object}: {reason}")));
                }
            }
        }
        if problems.is_empty() { Ok(components) } else { Err(problems) }
    }

    /// What the program of a server says of its components.
    fn describe_program(&self, server: &str, limit: Instant) -> Result<Descriptions, String> {
        let mut command = self.of(server)?;
        let program = PathBuf::from(command.get_program());
        let failed = |error: &dyn std::fmt::Display| format!("{} --describe: {error}", program.display());
        let (status, text, last_line) =
            ask(command.arg("--describe"), server, limit).map_err(|reason| failed(&reason))?;
        if !status.success() {
            let words = if last_line.is_empty() { String::new() } else { format!(" ({last_line})") };
            return Err(failed(&format!("it ended with {status}{words}: does it call run_program?")));
        }
        toml::from_str(&text).map_err(|error| failed(&error.message()))
    }

    /// What a shared object, or a file of Python, says of its components, in a process that loads it.
    fn describe_object(&self, object: &str, python: Option<&str>, limit: Instant) -> Result<Descriptions, String> {
        let mut command = python.map_or_else(|| self.of_objects(), |python| Ok(self.of_python(python)))?;
        let program = Path::new(command.get_program()).display().to_string();
        let asked = ask(command.arg("--describe").arg(self.folder.join(object)), object, limit);
        let (status, text, last_line) = match python {
            Some(_) => asked.map_err(|reason| format!("{program}, the server's `python`: {reason}"))?,
            None => asked?,
        };
        // What is wrong with the file is in what the module says.
        if python.is_some() && status.code().is_some_and(|code| code != 0) {
            let words = match &*last_line {
                "" => "its own words stand above".to_owned(),
                line => format!("its last line: {line}"),
            };
            return Err(format!(
                "{program} -m {PYTHON_MODULE} ended with {status}; {words}. If it lacks the module campanile, install the wheel: {program} -m pip install campanile-….whl"
            ));
        }
        if !status.success() {
            let words = if last_line.is_empty() { String::new() } else { format!(" ({last_line})") };
            return Err(format!(
                "the process that loaded it ended with {status}{words}: what it does when it is loaded, or its table, is wrong"
            ));
        }
        if text.is_empty() {
            return Err("the process that loaded it ended before it had described it: what it does when it is loaded, or when its \
                 components are asked for, calls exit"
                .to_owned());
        }
        let report: ObjectReport = toml::from_str(&text)
            .map_err(|error| format!("what the process that loaded it says is not understood: {}", error.message()))?;
        report.refused.map_or(Ok(report.components), Err)
    }
}

/// What a program answers to `--describe`: how it has ended, what it has printed, and the last line on its standard error where that is a
/// pipe. It has until then, and no longer than for any step.
fn ask(command: &mut Command, of: &str, limit: Instant) -> Result<(ExitStatus, String, String), String> {
    let within = limit.saturating_duration_since(Instant::now()).min(STEP_LIMIT);
    if within.is_zero() {
        let seconds = DESCRIBE_LIMIT.as_secs();
        return Err(format!("it was not asked: what the plan names took {seconds} s to describe its components"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (last_line, (ended, relayed)) = (Arc::<Mutex<String>>::default(), channel::<()>());
    if let Some(errors) = child.stderr.take() {
        let (line, of) = (last_line.clone(), of.to_owned());
        let relay = move || {
            relay(errors, &of, &line);
            drop(ended);
        };
        // Without a thread it is not read, and the program may take too long.
        let _ = Builder::new().name("errors".to_owned()).spawn(relay);
    }
    let output = child.stdout.take();
    let (sender, read) = channel();
    let reader = Builder::new().name("description".to_owned()).spawn(move || {
        let mut text = String::new();
        let outcome = output.map(|output| output.take(DESCRIPTION_BYTES_MAX).read_to_string(&mut text)).transpose();
        // The launcher may have given up.
        let _ = sender.send(outcome.map(|_| text));
    });
    let text = read.recv_timeout(within);
    // It has said all, or takes too long.
    if text.is_err() {
        kill_group(&child);
    }
    let Some(status) = status_in_time(&mut child) else {
        kill_group(&child);
        let _ = status_in_time(&mut child);
        return Err("it ended its standard output, and did not end itself".to_owned());
    };
    reader.map_err(|error| error.to_string())?;
    let _ = relayed.recv_timeout(READ_LIMIT);
    let last_line = last_line.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match text {
        // How it ended says more than what it printed until then.
        Ok(Ok(text)) => Ok((status, text, last_line)),
        Ok(Err(_)) if !status.success() => Ok((status, String::new(), last_line)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it said nothing for {} s", within.as_secs())),
    }
}

impl Running {
    /// Waits until each process has said that.
    fn all_say(&mut self, state: Said, line: &str) -> Result<(), Problem> {
        let mut missing: Vec<String> = self.processes.iter().map(|(name, _)| name.clone()).collect();
        let limit = Instant::now() + STEP_LIMIT;
        while let Some(next) = missing.first() {
            match self.next(limit) {
                Some((server, said)) if said == state => missing.retain(|name| *name != server),
                Some((_, Said::Configured | Said::Started)) => {}
                Some((server, Said::Closed | Said::Exited)) => {
                    let ended = self.how_ended(&server);
                    return Err(at(&server, format!("{ended} before it was {line}; its own words stand above")));
                }
                None => return Err(at(next, format!("it was not {line} within {} s", STEP_LIMIT.as_secs()))),
            }
        }
        Ok(())
    }

    /// What a process says next, until then.
    fn next(&self, limit: Instant) -> Option<(String, Said)> {
        self.said.recv_timeout(limit.saturating_duration_since(Instant::now())).ok()
    }

    /// What became of a server that has ended, or its standard output.
    fn how_ended(&mut self, server: &str) -> String {
        let process = self.processes.iter_mut().find(|(name, _)| name == server);
        process.and_then(|(_, process)| process.status_in_time()).map_or_else(
            || "it ended its standard output, and not itself,".to_owned(),
            |status| format!("it ended with {status}"),
        )
    }

    /// The process numbers of the servers, by name.
    #[must_use]
    pub fn processes(&self) -> Vec<(&str, u32)> {
        self.processes.iter().map(|(name, process)| (name.as_str(), process.id())).collect()
    }

    /// Waits for a server to end, for so long at most, and says which and how.
    pub fn ended(&mut self, within: Duration) -> Option<Problem> {
        let limit = Instant::now() + within;
        loop {
            match self.next(limit)? {
                (_, Said::Configured | Said::Started) => {}
                (server, Said::Closed | Said::Exited) => {
                    let ended = self.how_ended(&server);
                    return Some(at(&server, ended.trim_end_matches(',')));
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // All at once, then each is waited for.
        for (_, process) in &mut self.processes {
            process.close();
        }
        let limit = Instant::now() + STEP_LIMIT;
        while self.processes.iter_mut().any(|(_, process)| process.status().is_none()) && self.next(limit).is_some() {}
        for (name, process) in &mut self.processes {
            if process.status().is_none() {
                log::warn!("the server {name} did not end within {} s, and is killed", STEP_LIMIT.as_secs());
                process.kill();
                process.status_in_time();
            }
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("processes", &self.processes()).finish_non_exhaustive()
    }
}
