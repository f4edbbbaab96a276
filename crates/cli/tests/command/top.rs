//! `campanile top`.

use crate::support::{Serve, TempPath, text};
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value as Json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use testing::{Leash, wait_until};

#[test]
fn service_is_shown_with_its_lanes_and_consumers() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--quiet", "-n", "3"]);
    let told: Json = serde_json::from_str(&serve.print("top", &["--json", "--interval", "0.05"])).unwrap();
    assert!(told["interval_seconds"].as_f64().unwrap() >= 0.05, "{told}");
    assert_eq!(told["lanes"][0]["name"], "lane");
    let consumer = &told["consumers"][0];
    assert_eq!((&consumer["channel"], &consumer["backlog_events"]), (&0.into(), &0.into()));
    // Not on a terminal, it is shown once.
    let shown = serve.print("top", &["--interval", "0.05"]);
    assert!(shown.starts_with(&format!("{}: ", serve.address)), "{shown}");
    assert!(shown.contains("LANE") && shown.contains("CONSUMER"), "{shown}");
    serve.print("pub", &["--count", "3"]);
    assert_eq!(sub.wait().code, Some(0));
}

#[test]
fn service_that_is_not_there_is_reported() {
    let address = crate::support::nobodys_address();
    let output = testing::output_in_time(Command::new(crate::support::PROGRAM).args(["top", "--server", &address]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--server"));
}

/// A terminal, as a window on a screen has one, with a program on it.
struct Window {
    controller: File,
    terminal: File,
    program: Child,
}

impl Window {
    /// Refreshed after so many seconds. A long interval is needed if the output is not read: the terminal takes little of it.
    fn with_top(serve: &Serve, interval: &str) -> Self {
        Self::on(&mut serve.command("top", &["--interval", interval]))
    }

    /// One of 140 columns and 40 rows.
    fn on(command: &mut Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        ioctl_fionbio(&controller, true).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&terminal, Winsize { ws_row: 40, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || OwnedFd::from(terminal.try_clone().unwrap());
        let program = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { controller: controller.into(), terminal, program }
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.terminal).unwrap()
    }

    fn wait_until_keys_are_read(&self) {
        wait_until("top to read single keys", || !self.modes().local_modes.contains(LocalModes::ICANON));
    }

    /// Gives all that was shown until then.
    fn wait_until_it_shows(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        wait_until(format_args!("the program to show {text}"), || {
            // It ends with an error when all was read that is there.
            let _ = self.controller.read_to_end(&mut shown);
            String::from_utf8_lossy(&shown).contains(text)
        });
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// The exit status, and the output that was not read yet.
    fn end(self) -> (i32, String) {
        let Self { mut controller, terminal, mut program } = self;
        let leash = Leash::new(&program, "top to leave");
        let status = program.wait().unwrap();
        drop(leash);
        let modes = tcgetattr(&terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "as it was");
        drop(terminal);
        let mut shown = Vec::new();
        // As above, or since no process has the terminal any more.
        let _ = controller.read_to_end(&mut shown);
        (status.code().unwrap(), text(&shown))
    }
}

/// `q` leaves every program that looks like this one. In this one nothing did but Ctrl-C, and `q` was shown in the midst of the
/// table.
#[test]
fn q_leaves_top_and_gives_the_terminal_back() {
    let serve = Serve::start();
    let mut window = Window::with_top(&serve, "1000");
    window.wait_until_keys_are_read();
    window.controller.write_all(b"xq").unwrap();
    let (status, shown) = window.end();
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("events a second") && !shown.contains("xq"), "{shown}");
}

#[test]
fn ctrl_c_gives_the_terminal_back_too() {
    let serve = Serve::start();
    let window = Window::with_top(&serve, "1000");
    window.wait_until_keys_are_read();
    crate::support::send_signal(&window.program, "INT");
    assert_eq!(window.end().0, 0);
}

/// At three in the morning the service was restarted, and `top` was gone.
#[test]
fn top_outlasts_a_restart() {
    let serve = Serve::start();
    let mut window = Window::with_top(&serve, "0.05");
    window.wait_until_it_shows("events a second");
    let address = serve.address.clone();
    serve.stop("TERM");
    window.wait_until_it_shows("trying again");
    let _serve = Serve::start_with(&["--listen", &address, "--log", "error"]);
    window.wait_until_it_shows("events a second");
    window.controller.write_all(b"q").unwrap();
    assert_eq!(window.end().0, 0);
}

#[test]
fn a_terminal_has_colours_and_trends_and_nothing_else_has() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--quiet", "-n", "1"]);
    let top = |options: &[&str]| serve.command("top", &[&["--interval", "0.05"], options].concat());
    let shown_by = |command: &mut Command| {
        let mut window = Window::on(command);
        let shown = window.wait_until_it_shows("LAST BACKLOGS");
        window.controller.write_all(b"q").unwrap();
        assert_eq!(window.end().0, 0);
        shown
    };
    let well = "\x1b[32m";
    let shown = shown_by(top(&[]).env("TERM", "xterm").env_remove("NO_COLOR"));
    assert!(shown.contains(well) && shown.contains("in ▁"), "{shown}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!shown_by(top(&[]).env(name, value)).contains(well), "{name}");
    }
    assert!(!shown_by(top(&["--color", "never"]).env("TERM", "xterm")).contains(well));
    assert!(shown_by(top(&["--color", "always"]).env("NO_COLOR", "1")).contains(well));
    // In a pipe only what was asked for, and in JSON never.
    let escape = '\x1b';
    assert!(!serve.print("top", &["--interval", "0.05"]).contains(escape));
    assert!(serve.print("consumers", &["--color", "always"]).contains(well));
    for json in [&["--json"][..], &["-o", "json"]] {
        let told = serve.print("top", &[json, &["--interval", "0.05", "--color", "always"]].concat());
        assert!(!told.contains(escape) && !told.contains('▁'), "{told}");
    }
    serve.print("pub", &[]);
    assert_eq!(sub.wait().code, Some(0));
}

#[test]
fn what_takes_long_shows_how_far_it_is_on_a_terminal_only() {
    let serve = Serve::start();
    let recorded = std::env::temp_dir().join(format!("campanile-{}-progress.events", std::process::id()));
    let path = recorded.to_str().unwrap();
    let mut window = Window::on(serve.command("record", &[path, "-n", "3"]).env("TERM", "xterm"));
    window.wait_until_it_shows("\rcampanile: recording: 0 events, 0.00/s, 3 left\x1b[K");
    serve.print("pub", &["--count", "3"]);
    let (status, shown) = window.end();
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("\r\x1b[Kcampanile: 3 events recorded in "), "{shown:?}");
    // The second one came long after the first.
    let lines = std::fs::read_to_string(path).unwrap();
    let line = lines.lines().next().unwrap();
    let later = line.replace("\"came_ns\":1", "\"came_ns\":9");
    let slow = TempPath::file("slow.events", &format!("{line}\n{later}\n"));
    let mut window = Window::on(serve.command("replay", &[slow.path(), "-c", "0"]).env("TERM", "xterm"));
    window.wait_until_it_shows("\rcampanile: replaying: 1 events, ");
    crate::support::send_signal(&window.program, "INT");
    assert!(window.end().1.contains("\r\x1b[Kcampanile: 1 event replayed in "));
    let silent = serve.run("replay", &[path, "-c", "0", "--speed", "max"]);
    let said = text(&silent.stderr);
    assert!(said.starts_with("campanile: 3 events replayed") && !said.contains('\r'), "{said}");
    std::fs::remove_file(path).unwrap();
}
