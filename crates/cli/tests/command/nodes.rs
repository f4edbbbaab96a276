//! `campanile node`, killed and started again, and what `campanile deploy` prints of it. The rest is in the tests of `crates/component`.

use crate::support::{PROGRAM, TempPath, text};
use serde_json::Value as Json;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testing::{Killed, NextInTime as _, lines_of, output_in_time, shared_object, wait_until};

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
    await_ready(&mut node, folder);
    node
}

fn await_ready(node: &mut Killed, folder: &TempPath) {
    let line = lines_of(node.stdout.take().unwrap()).next_in_time();
    assert_eq!(line, format!("campanile: node manager ready at {}/node.sock", folder.path()));
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
    // One that nobody waits for is a zombie.
    wait_until("the end of the server", || {
        let stat = std::fs::read_to_string(before.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
    });
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
    // Status 1 of `diff` is that there are differences.
    assert_eq!(deploy(&folder, &["diff", path]).status.code(), Some(2));
    assert_eq!(deploy(&folder, &["diff", "nothing.toml"]).status.code(), Some(2));
}

#[test]
fn users_that_the_settings_do_not_name_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested, for want of root: users of a node manager");
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

/// A program that does as the property of its instance says: it stalls at its start, or talks much, or takes a while to end.
const SCRIPT: &str = r#"#!/bin/sh
folder=${0%/*}
[ "$1" = --describe ] && exec cat "$folder/description.toml"
text=$(cat "$2")
does() { case $text in *"does = \"$1\""*) true ;; *) false ;; esac; }
does talk && head -c 1000000 /dev/zero | tr '\0' 'x' >&2
echo configured
read -r line || exit 0
does stall && echo > "$folder/stalled" && exec cat > /dev/null
echo started
cat > /dev/null
does linger || exit 0
number=0
while [ $number -lt 200 ]; do number=$((number + 1)); /bin/true; done
echo > "$folder/ended"
"#;

const DESCRIPTION: &str = "[Thing]\nsinks = {}\nsources = {}\nothers = {}\ntimers_ns = {}\nproperties = { does = \"String\" }\noptional = []\n";

/// Installs the program, and writes a plan of it. Written by another process: one that is forked meanwhile would have it open.
fn write_plan(folder: &TempPath, does: &str) -> String {
    std::fs::write(folder.join("description.toml"), DESCRIPTION).unwrap();
    let (source, program) = (TempPath::file("program.sh", SCRIPT), folder.join("program"));
    if !program.exists() {
        let mut install = Command::new("install");
        assert!(output_in_time(install.args(["-m", "755", source.path()]).arg(&program)).status.success());
    }
    let path = folder.join(format!("{does}.toml"));
    let text = format!(
        "name = 'guiding'\n[servers.main]\nprogram = 'program'\n[instances.thing]\ncomponent = 'Thing'\ndoes = '{does}'\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_node_manager_that_is_killed_in_a_change_comes_back_with_the_old_plan() {
    let folder = folder("");
    let node = start(&folder);
    let old = write_plan(&folder, "linger");
    let output = deploy(&folder, &["up", &old]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut up = Command::new(PROGRAM);
    up.args(["deploy", "up", &write_plan(&folder, "stall"), "--node"]).arg(folder.join("node.sock"));
    let _up = Killed(up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // The old server has ended, and the new one has not started.
    wait_until("the new server", || folder.join("stalled").exists());
    drop(node);
    let _node = start(&folder);
    wait_until("the old plan", || server(&folder)["state"] == "started");
    assert_eq!(text(&deploy(&folder, &["diff", &old]).stdout), "");
}

#[test]
fn a_node_manager_starts_nothing_before_servers_of_one_that_was_killed_have_ended() {
    let folder = folder("");
    let node = start(&folder);
    let output = deploy(&folder, &["up", &write_plan(&folder, "linger")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    drop(node);
    let _node = start(&folder);
    assert!(folder.join("ended").exists(), "the old server still ran");
}

#[test]
fn a_log_that_nothing_reads_keeps_no_server_waiting() {
    let folder = folder("");
    let mut command = Command::new(PROGRAM);
    command.arg("node").arg("--config").arg(folder.join("node.toml"));
    let mut node = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    await_ready(&mut node, &folder);
    let output = deploy(&folder, &["up", &write_plan(&folder, "talk")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(deploy(&folder, &["down", "guiding"]).status.success());
    let lines = lines_of(node.stderr.take().unwrap());
    while !lines.next_in_time().contains(" INFO  guiding/main: xxx") {}
}
