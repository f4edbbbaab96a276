//! `campanile top`.

use crate::support::{Serve, text};
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use serde_json::Value as Json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Child;
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
    let output = testing::output_in_time(
        std::process::Command::new(crate::support::PROGRAM).args(["top", "--server", &address]),
    );
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
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        ioctl_fionbio(&controller, true).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let end = || OwnedFd::from(terminal.try_clone().unwrap());
        let mut top = serve.command("top", &["--interval", interval]);
        let program = top.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { controller: controller.into(), terminal, program }
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.terminal).unwrap()
    }

    fn wait_until_keys_are_read(&self) {
        wait_until("top to read single keys", || !self.modes().local_modes.contains(LocalModes::ICANON));
    }

    fn wait_until_it_shows(&mut self, text: &str) {
        let mut shown = Vec::new();
        wait_until(format_args!("top to show {text}"), || {
            // It ends with an error when all was read that is there.
            let _ = self.controller.read_to_end(&mut shown);
            String::from_utf8_lossy(&shown).contains(text)
        });
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
