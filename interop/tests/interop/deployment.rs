//! The OMG's deployment interfaces: a launcher of omniORB, and the command `campanile node` with components in C.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testing::certificates::{Authority, Certified};
use testing::{Killed, NextInTime as _, TempPath, lines_of, output_in_time, shared_object};

use crate::tls;
use interop::{Orb, Peer};

const GUIDER: &str = include_str!("../../../crates/component/tests/c/guider.c");

/// The command, which Cargo makes beside the tests of its workspace.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let program = test.ancestors().nth(2).expect("tests are in target/debug/deps").join("campanile");
    assert!(program.exists(), "{}: cargo build -p campanile-cli", program.display());
    program
}

/// A node manager in a process of its own.
struct Node {
    folder: TempPath,
    process: Option<Killed>,
    manager: String,
}

impl Node {
    fn start(giop: &str) -> Self {
        let folder = TempPath::folder("deployment");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/component/include");
        shared_object(&folder, "libguider.so", GUIDER, &headers);
        let user = if rustix::process::geteuid().is_root() { "user = 'root'\n" } else { "" };
        let path = folder.path();
        let settings = format!(
            "socket = '{path}/node.sock'\nstate = '{path}/state'\nartifacts = ['{path}']\n{user}[giop]\nlisten = '127.0.0.1:0'\nname = 'dome'\n{giop}"
        );
        std::fs::write(folder.join("node.toml"), settings).expect("a file of the test");
        let mut node = Self { folder, process: None, manager: String::new() };
        node.run();
        node
    }

    fn run(&mut self) {
        // The one before is killed first.
        self.process = None;
        let mut command = Command::new(program());
        command.arg("node").arg("--config").arg(self.folder.join("node.toml")).stdout(Stdio::piped());
        let mut process = Killed(command.spawn().expect("the command starts"));
        let lines = lines_of(process.stdout.take().expect("it is piped"));
        lines.next_in_time();
        let line = lines.next_in_time();
        self.manager = line.strip_prefix("campanile: execution manager at ").expect("its address").to_owned();
        self.process = Some(process);
    }

    /// A launcher, which does that step.
    fn launcher(&self, step: &str, more: &str) -> Peer {
        let words = format!("deploy --manager {} --artifact libguider.so --step {step} {more}", self.manager);
        Peer::start(Orb::OmniOrb, &words)
    }

    /// The states of all servers, as `deploy status` has them.
    fn states(&self) -> Vec<String> {
        let mut command = Command::new(program());
        command.args(["deploy", "status", "--json", "--node"]).arg(self.folder.join("node.sock"));
        let output = output_in_time(&mut command);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a status");
        let plans = status["plans"].as_array().into_iter().flatten();
        let servers = plans.flat_map(|plan| plan["servers"].as_array().into_iter().flatten());
        servers.map(|server| format!("{} {}", server["name"], server["state"]).replace('"', "")).collect()
    }
}

/// What a launcher says, against the beginnings of what it is to say.
fn assert_said(lines: &[String], expected: &[&str]) {
    let is_said = |(line, beginning): (&String, &&str)| line.starts_with(*beginning);
    assert!(lines.len() == expected.len() && lines.iter().zip(expected).all(is_said), "{lines:#?}\n{expected:#?}");
}

const REMOVED: [&str; 2] = ["destroyApplication: done", "destroyManager: done"];
const RUNNING: [&str; 2] = ["north started", "south started"];

#[test]
fn a_launcher_deploys_starts_and_removes_a_plan_and_is_told_what_is_wrong() {
    let node = Node::start("plain = true");
    let mut launcher = node.launcher("all", "");
    launcher.wait_for("running");
    assert_eq!(node.states(), RUNNING);
    launcher.tell("end");
    let ended = launcher.quit().well();
    assert_said(
        &ended.lines,
        &[
            "unknown implementation: PlanError instance[1] \"south\": implementationRef: there is no implementation with the id \"implementation[7]\"",
            "unknown artifact: PlanError servers.north: ",
            "unknown component: PlanError instances.north: the server north has no component ",
            "prepared twice: the same manager",
            "another plan of the name: PlanError guiding-1: a plan of this name is prepared, and differs",
            "launched: 0 references provided",
            "startLaunch again: StartError guiding-1: it is launched already; its launch is not finished",
            "start: StartError guiding-1: its launch is not finished: call finishLaunch",
            "destroyManager: StopError guiding-1: its plan is launched: call destroyApplication first",
            "finishLaunch with a reference: InvalidConnection frames: a plan has no ports of its own",
            "finishLaunch: done",
            "start: done",
            "found: guiding-1 with gain 1.25",
            "running",
            "destroyApplication of nothing: StopError app: the manager has no such application",
            REMOVED[0],
            REMOVED[1],
            "managers left: 0",
        ],
    );
    assert_eq!(node.states(), [""; 0]);
    let node_manager = Node { manager: node.manager.replace("ExecutionManager", "dome.NodeManager"), ..node };
    let ended = node_manager.launcher("node", "").end().well();
    assert_said(&ended.lines, &["launched: 0", "finishLaunch: done", REMOVED[0], REMOVED[1]]);
}

#[test]
fn a_launched_plan_outlives_launcher_and_node_manager_and_is_removed_by_another_launcher() {
    let mut node = Node::start("plain = true");
    assert_said(&node.launcher("launch", "").end().well().lines, &["launched: 0", "finishLaunch: done"]);
    node.run();
    testing::wait_until("the plan", || node.states() == RUNNING);
    assert_said(&node.launcher("remove", "").end().well().lines, &REMOVED);
    assert_eq!(node.states(), [""; 0]);
}

#[test]
fn over_tls_a_launcher_takes_a_certificate_that_the_node_manager_names() {
    let authority = Authority::new("deployment");
    let Certified { certificate, key, .. } = authority.certify("node");
    let (certificate, key, ca) = (certificate.display(), key.display(), authority.file());
    let node = Node::start(&format!(
        "[tls]\ncertificate = '{certificate}'\nkey = '{key}'\nca = '{}'\ndeploy = ['CN=launcher,O=Tests']",
        ca.display()
    ));
    let refused = node.launcher("launch", &tls::words(Orb::OmniOrb, &authority, &authority, "stranger")).end();
    assert!(refused.lines.iter().any(|line| line.contains("NO_PERMISSION")), "{refused}");
    let words = tls::words(Orb::OmniOrb, &authority, &authority, "launcher");
    assert_said(&node.launcher("launch", &words).end().well().lines, &["launched: 0", "finishLaunch: done"]);
    assert_eq!(node.states(), RUNNING);
    assert_said(&node.launcher("remove", &words).end().well().lines, &REMOVED);
}
