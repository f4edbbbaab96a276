//! `campanile node`, killed and started again, and what `campanile deploy` prints of it. The rest is in the tests of `crates/component`.

use crate::support::{PROGRAM, TempPath, text};
use serde_json::Value as Json;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testing::{Killed, output_in_time, shared_object, wait_until};

const GUIDER: &str = include_str!("../../../component/tests/c/guider.c");

/// A folder with a node manager's settings and a shared object.
fn folder(more: &str) -> TempPath {
    let folder = TempPath::folder("node");
    shared_object(&folder, "libguider.so", GUIDER, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../component/include"));
    let user = if rustix::process::geteuid().is_root() { "user = 'root'\n" } else { "" };
    let path = folder.path();
    let settings = format!("socket = '{path}/node.sock'\nstate = '{path}/state'\nartifacts = ['{path}']\n{user}{more}");
    std::fs::write(folder.join("node.toml"), settings).unwrap();
    folder
}

/// Starts a node manager, and waits until it is ready.
fn start(folder: &TempPath) -> Killed {
    let mut command = Command::new(PROGRAM);
    command.arg("node").arg("--config").arg(folder.join("node.toml"));
    let mut node = Killed(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("campanile: node manager ready at {}/node.sock\n", folder.path()));
    node
}

fn deploy(folder: &TempPath, arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).arg("deploy").args(arguments).arg("--node").arg(folder.join("node.sock")))
}

/// What `status --json` says of the first server.
fn server(folder: &TempPath) -> Json {
    let status: Json = serde_json::from_slice(&deploy(folder, &["status", "--json"]).stdout).unwrap();
    status.pointer("/plans/0/servers/0").cloned().unwrap_or_default()
}

fn process(server: &Json) -> PathBuf {
    PathBuf::from(format!("/proc/{}", server["pid"]))
}

#[test]
fn a_plan_of_a_shared_object_comes_up_with_the_node_manager_that_was_killed() {
    let folder = folder("");
    let node = start(&folder);
    let plan = folder.join("plan.toml");
    let write = |gain: &str| {
        let instance =
            format!("[servers.main]\n[instances.guider]\ncomponent = 'libguider.so#Guider'\ngain = {gain}\n");
        std::fs::write(&plan, format!("name = 'guiding'\n{instance}")).unwrap();
    };
    write("2");
    let path = plan.to_str().unwrap();
    let output = deploy(&folder, &["up", path]);
    assert_eq!(text(&output.stdout), format!("{path} is up: started main\n"), "{}", text(&output.stderr));
    let output = deploy(&folder, &["diff", path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()), "{}", text(&output.stderr));
    let output = deploy(&folder, &["status", "guiding"]);
    assert!(
        output.status.success() && text(&output.stdout).contains("guiding  main    started"),
        "{}",
        text(&output.stdout)
    );

    let before = process(&server(&folder));
    // By SIGKILL.
    drop(node);
    wait_until("the end of the server", || !before.exists());
    let node = start(&folder);
    wait_until("the plan", || server(&folder)["state"] == "started");
    assert!(process(&server(&folder)).exists());

    write("\"much\"");
    let output = deploy(&folder, &["diff", path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "main: instances.guider.gain: 2 -> \"much\"\n");
    let output = deploy(&folder, &["up", path]);
    assert_eq!(output.status.code(), Some(1));
    let refused = text(&output.stderr);
    assert!(
        refused.starts_with("campanile: servers.main: it ended with exit status: 1 before it was configured"),
        "{refused}"
    );
    assert!(
        refused.contains("; its last line: campanile: instances.guider: guider failed: there is no gain"),
        "{refused}"
    );
    assert_eq!(server(&folder)["state"], "started");

    let last = process(&server(&folder));
    let output = deploy(&folder, &["down", "guiding"]);
    assert_eq!(text(&output.stdout), "guiding is down: ended main\n", "{}", text(&output.stderr));
    assert!(!last.exists());
    assert_eq!(text(&deploy(&folder, &["status"]).stdout), "no server is up\n");
    drop(node);
    let output = deploy(&folder, &["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("start one with `campanile node`"), "{}", text(&output.stderr));
}

#[test]
fn users_that_the_settings_do_not_name_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = folder("users = ['daemon']\n");
    // Where another user can run it.
    let program = folder.join("campanile");
    assert!(output_in_time(Command::new("install").args(["-m", "755", PROGRAM]).arg(&program)).status.success());
    let _node = start(&folder);
    let status = |user: &str| {
        let number = text(&output_in_time(Command::new("id").args(["-u", user])).stdout);
        let mut command = Command::new(&program);
        command.uid(number.trim().parse().unwrap()).args(["deploy", "status", "--node"]).arg(folder.join("node.sock"));
        output_in_time(&mut command)
    };
    assert!(status("daemon").status.success());
    let refused = status("bin");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains(" may not use this node manager: `users` of node.toml"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn settings_that_cannot_be_end_with_status_2() {
    let folder = TempPath::folder("node");
    let file = folder.join("node.toml");
    let run = |settings: &str| {
        std::fs::write(&file, settings).unwrap();
        let output = output_in_time(Command::new(PROGRAM).arg("node").arg("--config").arg(&file));
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(run("stat = '/x'\n").contains("unknown field `stat`"));
    assert!(run("state = 'here'\n").contains("the path here is relative: give an absolute one"));
    assert!(run("state = '/x'\nuser = 'not there'\n").contains("there is no user not there in /etc/passwd"));
}
