//! Programs started by tests.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, SUITE_PATIENCE};

/// A time limit for a program: after [`PATIENCE`] it is killed, so that the test that reads its output or waits for its end goes on and
/// fails with the name of the wait.
///
/// Must be dropped before the program's end is collected elsewhere, since its process id may be reused.
pub struct Leash {
    _stop: Sender<()>,
}

impl Leash {
    /// Starts the limit for `what` of a program.
    ///
    /// # Panics
    /// No thread can be created.
    #[must_use = "it ends when it is dropped"]
    pub fn new(program: &Child, what: impl Display) -> Self {
        Self::within(program, what, PATIENCE)
    }

    /// Starts a limit of [`SUITE_PATIENCE`].
    ///
    /// # Panics
    /// No thread can be created.
    #[must_use = "it ends when it is dropped"]
    pub fn of_suite(program: &Child, what: impl Display) -> Self {
        Self::within(program, what, SUITE_PATIENCE)
    }

    fn within(program: &Child, what: impl Display, limit: Duration) -> Self {
        let (stop, dropped) = channel();
        let (id, what) = (program.id(), what.to_string());
        thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("waited {} s for {what}; program {id} is killed", limit.as_secs());
                if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        });
        Self { _stop: stop }
    }
}

/// A program that is killed on drop, unless it has ended.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads lines as soon as they are written, so that a program never blocks on its output.
///
/// # Panics
/// No thread can be created.
#[must_use]
pub fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    lines
}

/// Runs a program and returns its output, as [`Command::output`] does. After [`PATIENCE`] the program is killed, and its status says so.
///
/// # Panics
/// The program cannot be started.
#[track_caller]
pub fn output_in_time(command: &mut Command) -> Output {
    output_within(command, PATIENCE)
}

/// Runs a whole test suite, a compiler or an installer, with a limit of [`SUITE_PATIENCE`].
///
/// # Panics
/// The program cannot be started.
#[track_caller]
pub fn output_of_suite(command: &mut Command) -> Output {
    output_within(command, SUITE_PATIENCE)
}

/// Compiles a source in C to a shared object of that name in a folder, with a folder of headers.
///
/// # Panics
/// There is no compiler, or it has something to say.
#[track_caller]
pub fn shared_object(folder: &Path, name: &str, source: &str, headers: &Path) -> PathBuf {
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-I"]).arg(headers);
    compiled(command, &folder.join(name), "c", source)
}

/// The same in C++, with the headers of this repository.
///
/// # Panics
/// There is no compiler, or it has something to say.
#[track_caller]
pub fn shared_object_in_cpp(folder: &Path, name: &str, source: &str) -> PathBuf {
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-Wconversion"]);
    for headers in ["component/include", "ffi/include", "ffi/cpp/include"] {
        command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(headers));
    }
    compiled(command, &folder.join(name), "cpp", source)
}

#[track_caller]
fn compiled(mut compiler: Command, to: &Path, extension: &str, source: &str) -> PathBuf {
    let from = to.with_extension(extension);
    std::fs::write(&from, source).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    compiler.args([
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wshadow",
        "-Werror",
        "-g",
        "-shared",
        "-fPIC",
        "-pthread",
        "-o",
    ]);
    let output = output_of_suite(compiler.arg(to).arg(&from));
    assert!(output.status.success(), "{}: {}", from.display(), String::from_utf8_lossy(&output.stderr));
    to.to_owned()
}

#[track_caller]
fn output_within(command: &mut Command, limit: Duration) -> Output {
    let what = format!("the end of {command:?}");
    // As `Command::output` has it where nothing else was said.
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) => panic!("{command:?} cannot be started: {error}"),
    };
    let leash = Leash::within(&child, what, limit);
    let output = child.wait_with_output();
    drop(leash);
    match output {
        Ok(output) => output,
        Err(error) => panic!("{command:?} cannot be waited for: {error}"),
    }
}
