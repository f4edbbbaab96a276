//! `campanile demo`.

use crate::json;
use crate::support::{PROGRAM, Serve, send_signal, text};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStdout, Command, Output, Stdio};
use testing::{Killed, Leash, TempPath, output_in_time, wait_until};

/// A running demo with a folder for temporary files that nothing else uses.
pub(crate) struct Demo {
    program: Killed,
    stdout: BufReader<ChildStdout>,
    temporary: TempPath,
    address: String,
    /// Where the console is.
    console: String,
    introduction: String,
}

impl Demo {
    fn start(name: &str) -> Self {
        Self::start_of(Path::new(PROGRAM), name)
    }

    /// That of another file than the tested one.
    pub(crate) fn start_of(program: &Path, name: &str) -> Self {
        let temporary = TempPath::folder(&format!("demo-{name}"));
        let (program, stdout, introduction) = Self::spawn(program, &temporary);
        let word_behind = |what: &str| {
            let rest = introduction.split_once(what).map_or("", |(_, rest)| rest);
            rest.split([',', '/', '\n']).next().unwrap_or_default().to_owned()
        };
        let (address, console) = (word_behind(" observatory at "), word_behind("http://"));
        Self { program, stdout, temporary, address, console, introduction }
    }

    fn spawn(program: &Path, temporary: &Path) -> (Killed, BufReader<ChildStdout>, String) {
        // Where these tests run without a terminal, HUP may be ignored, which programs inherit.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP")
            .arg(program)
            .args(["demo", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .env("TMPDIR", temporary);
        let mut program = Killed(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut stdout = BufReader::new(program.stdout.take().unwrap());
        let _leash = Leash::new(&program, "the demo to introduce itself");
        let mut introduction = String::new();
        while !introduction.contains("Alarms") {
            assert!(stdout.read_line(&mut introduction).unwrap() > 0, "{introduction}");
        }
        (program, stdout, introduction)
    }

    /// Another one with the same folder for temporary files.
    fn beside(&self) -> Killed {
        Self::spawn(Path::new(PROGRAM), &self.temporary).0
    }

    /// Where its service is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Ends it by a signal; nothing of it is left then.
    pub(crate) fn end(mut self, signal: &str) {
        send_signal(&self.program, signal);
        let _leash = Leash::new(&self.program, "the demo to stop");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("campanile: the demo has stopped, and nothing of it is left\n"), "{rest}");
        assert_eq!(self.program.wait().unwrap().code(), Some(0));
        assert_eq!(fs::read_dir(&self.temporary).unwrap().count(), 0);
    }

    fn run(&self, command: &str, options: &[&str]) -> Output {
        output_in_time(Command::new(PROGRAM).args([command, "-s", &self.address]).args(options).stdin(Stdio::null()))
    }

    fn print(&self, command: &str, options: &[&str]) -> String {
        let output = self.run(command, options);
        assert!(output.status.success(), "{command} {options:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

#[test]
fn the_observatory_is_there_by_name_and_what_others_type_does_not_disturb_it() {
    let mut demo = Demo::start("names");
    assert!(demo.introduction.contains(&format!(" -s {} ls ", demo.address)), "{}", demo.introduction);
    let listed = demo.print("ls", &[]);
    for name in ["archive", "alarms", "mount", "weather", "dome", "camera"] {
        assert!(listed.contains(&format!("\t{name}  127.0.0.1")), "{name}: {listed}");
    }
    // As in the tour: an event that is no alarm of the observatory's, one of a type of its own, and a client disconnected.
    demo.print("pub", &["Weather/Wind", "speed=12.5"]);
    demo.print("pub", &["Weather/Alarm", "severity=1", "text=not said"]);
    demo.print("disconnect", &["3"]);
    let conditions = demo.print("sub", &["Weather/Conditions", "--where", "exist $wind_speed", "-n", "1", "--json"]);
    let event = json(&conditions);
    assert!(event["fields"]["celsius"].is_number() && event["fields"]["station"].is_string(), "{event}");
    demo.print("sub", &["Telescope/Pointing", "-n", "3"]);
    let last = demo.print("sub", &["--last-of-each", "station", "Weather/Conditions", "-n", "2", "--field", "station"]);
    assert!(last.contains("north") && last.contains("south"), "{last}");
    let archive = || {
        let listed = json(&demo.print("consumers", &["--json"]));
        let consumers = listed.as_array().unwrap().iter();
        consumers.clone().find(|consumer| consumer["name"].as_str().unwrap().contains("\"archive\"")).cloned().unwrap()
    };
    wait_until("the archive to fall behind", || archive()["backlog_events"].as_u64().unwrap() > 30);
    let mut alarm = String::new();
    let leash = Leash::new(&demo.program, "an alarm");
    demo.stdout.read_line(&mut alarm).unwrap();
    drop(leash);
    assert!(alarm.contains("north: wind 1"), "{alarm}");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for signal in ["INT", "TERM", "HUP"] {
        let demo = Demo::start(signal);
        let mut console = TcpStream::connect(&demo.console).unwrap();
        write!(console, "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", demo.console).unwrap();
        let mut page = String::new();
        console.read_to_string(&mut page).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        assert_eq!(fs::read_dir(&demo.temporary).unwrap().count(), 1, "the store");
        demo.end(signal);
    }
}

/// A demo that was killed left its store in the folder for temporary files for good.
#[test]
fn what_a_killed_demo_left_is_gone_with_the_next_one_and_nothing_else_is() {
    let mut killed = Demo::start("killed");
    let folders = |temporary: &Path| {
        let names = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let living = killed.beside();
    assert_eq!(folders(&killed.temporary).len(), 2, "one that runs is left alone");
    killed.program.kill().unwrap();
    killed.program.wait().unwrap();
    // What is not a demo's, or not a folder.
    let elsewhere = killed.temporary.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "x").unwrap();
    std::os::unix::fs::symlink(&elsewhere, killed.temporary.join("campanile-demo-1-0")).unwrap();
    fs::write(killed.temporary.join("campanile-demo-2-0"), "x").unwrap();
    let next = killed.beside();
    let expected = [format!("campanile-demo-{}-0", living.id()), format!("campanile-demo-{}-0", next.id())];
    let mut expected: Vec<String> = expected.into_iter().collect();
    expected.extend(["campanile-demo-1-0", "campanile-demo-2-0", "elsewhere"].map(str::to_owned));
    expected.sort();
    assert_eq!(folders(&killed.temporary), expected);
    assert!(elsewhere.join("file").exists());
}

/// Where no address is named it takes free ones: a test of its own, in the program, since other tests may be at the usual ones.
#[test]
fn an_address_that_was_named_and_is_in_use_is_reported_with_what_to_do() {
    let serve = Serve::start();
    for (option, advice) in [("--listen", "with --listen 127.0.0.1:PORT"), ("--http", "with --http 127.0.0.1:PORT")] {
        let mut options = ["demo", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let at = options.iter().position(|word| *word == option).unwrap();
        options[at + 1] = &serve.address;
        let (said, status) = crate::refusal(&options);
        assert_eq!(status, 1);
        assert!(said.contains("in use") && said.contains(advice), "{said}");
    }
    let makefile = include_str!("../../../../Makefile");
    assert!(makefile.contains("demo $(if $(LISTEN),--listen $(LISTEN)) $(if $(HTTP),--http $(HTTP))"));
}
