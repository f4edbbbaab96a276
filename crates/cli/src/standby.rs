//! `campanile standby`: how the two machines of `[standby]` stand, the follower's promotion, and a planned change of roles.

use crate::args::{PromoteOptions, StandbyCommand, StandbyOptions, StoreOptions};
use crate::failure::Failure;
use crate::store::{directory, print_json};
use serde_json::{Map, Value};
use service::STANDBY_SOCKET;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum time for an answer: a promotion writes to the disk.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Maximum octets of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Runs one of the sub-commands.
pub(crate) fn run(command: &StandbyCommand) -> Result<(), Failure> {
    match command {
        StandbyCommand::Status(options) => status(options),
        StandbyCommand::Promote(options) => promote(options),
        StandbyCommand::Switch(StandbyOptions { store }) => print(store, &send(store, "switch")?),
    }
}

fn status(StandbyOptions { store }: &StandbyOptions) -> Result<(), Failure> {
    let answer = send(store, "status")?;
    let is_in_step = lines_of(&answer).any(|line| line == ("state", "in step"));
    print(store, &answer)?;
    if is_in_step { Ok(()) } else { Err(Failure::Quiet) }
}

fn promote(PromoteOptions { store, why }: &PromoteOptions) -> Result<(), Failure> {
    let order = match &why.i_have_stopped {
        Some(host) => format!("promote stopped {host}"),
        None => "promote accept-loss".to_owned(),
    };
    let answer = send(store, &order)?;
    print(store, &answer)
}

/// The names and values of an answer.
fn lines_of(answer: &str) -> impl Iterator<Item = (&str, &str)> {
    answer.lines().filter_map(|line| line.split_once(": "))
}

fn print(options: &StoreOptions, answer: &str) -> Result<(), Failure> {
    if !options.json {
        return Ok(io::stdout().write_all(answer.as_bytes())?);
    }
    let value = |text: &str| text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from);
    let values: Map<String, Value> = lines_of(answer).map(|(name, text)| (name.to_owned(), value(text))).collect();
    print_json(&values)
}

/// Sends a line to the process that has the store. Returns its answer, unless it is an error.
fn send(options: &StoreOptions, line: &str) -> Result<String, Failure> {
    let directory = directory(options)?;
    let socket = directory.join(STANDBY_SOCKET);
    let mut stream = UnixStream::connect(&socket).map_err(|error| {
        let what_to_do = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "no service with [standby] runs with that folder: start it, or name its folder with --data"
            }
            ErrorKind::PermissionDenied => "run this as the user that the service runs as",
            _ => "see whether the service still runs",
        };
        Failure::Message(format!("{}: {error}; {what_to_do}", socket.display()))
    })?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    match answer.strip_prefix("error: ") {
        Some(why) => Err(Failure::Message(why.trim_end().to_owned())),
        None if answer.is_empty() => Err(Failure::Message("the service ended before it answered".to_owned())),
        None => Ok(answer),
    }
}
