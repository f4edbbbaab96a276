//! Plans over several nodes: node managers as processes, each at a loopback address of its own, killed, cut off and mute.

use crate::support::{PROGRAM, TempPath, text};
use serde_json::Value as Json;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use testing::certificates::{Authority, CertificateSpec};
use testing::{EndInTime as _, Killed, NextInTime as _, lines_of, output_in_time, own_loopback, wait_until};

/// A program that does what the files beside it say: it refuses to be configured, hangs at its start, or stalls there, and may end then, or
/// lingers at its end. What has run where, and ended, is in a file for all nodes.
const SCRIPT: &str = r#"#!/bin/sh
folder=${0%/*}
site=${folder%/opt}
for server; do :; done
[ "$1" = --describe ] && exec cat "$folder/description.toml"
[ -e "$folder/refuse" ] && { echo "not today" >&2; exit 3; }
echo configured
read -r line || exit 0
[ -e "$folder/hang" ] && { echo > "$folder/stalled"; exec cat > /dev/null; }
[ -e "$folder/stall" ] && echo > "$folder/stalled"
while [ -e "$folder/stall" ]; do read -r line < "$folder/pipe"; done
[ -e "$folder/break" ] && exit 4
echo "$server started at ${site##*/}" >> "$site/../life"
echo started
cat > /dev/null
[ -e "$folder/linger" ] && echo > "$folder/stalled"
while [ -e "$folder/linger" ]; do read -r line < "$folder/pipe"; done
echo "$server ended at ${site##*/}" >> "$site/../life"
"#;

const DESCRIPTION: &str = "[Thing]\nsinks = { down = 'struct Water { long depth; };' }\nsources = { up = 'struct Water { long depth; };' }\n\
    others = {}\ntimers_ns = {}\nproperties = { does = \"String\" }\noptional = []\nservices = [\"notification\"]\n";

const NAMES: [&str; 3] = ["dome", "lab", "tower"];

/// A node manager's folder, and its process.
struct Site {
    folder: PathBuf,
    address: String,
    node: Option<Killed>,
}

impl Site {
    fn start(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.arg("node").arg("--config").arg(self.folder.join("node.toml"));
        let mut node = Killed(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let line = lines_of(node.stdout.take().unwrap()).next_in_time();
        assert!(line.starts_with("campanile: node manager ready at "), "{line}");
        self.node = Some(node);
    }

    /// By SIGKILL.
    fn kill(&mut self) {
        self.node = None;
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("deploy").args(arguments).arg("--node").arg(self.folder.join("node.sock"));
        command
    }

    fn deploy(&self, arguments: &[&str]) -> Output {
        output_in_time(&mut self.command(arguments))
    }

    /// What the node manager says of its plans.
    fn status(&self) -> String {
        text(&self.deploy(&["status"]).stdout)
    }

    fn set(&self, fault: &str) {
        fs::write(self.folder.join("opt").join(fault), "").unwrap();
    }

    fn unset(&self, fault: &str) {
        fs::remove_file(self.folder.join("opt").join(fault)).unwrap();
    }

    /// Waits for a server that stalls or hangs at its start, or lingers at its end.
    fn await_stalled(&self) {
        wait_until("a server that stalls", || self.folder.join("opt/stalled").exists());
    }

    /// Has a server that stalls go on, until something holds.
    fn release(&self, what: &str, holds: impl FnMut() -> bool) {
        self.release_from("stall", what, holds);
    }

    fn release_from(&self, fault: &str, what: &str, mut holds: impl FnMut() -> bool) {
        self.unset(fault);
        // Its reader is there, or finds the file gone.
        wait_until(what, || {
            let pipe = OpenOptions::new().read(true).write(true).open(self.folder.join("opt/pipe"));
            pipe.unwrap().write_all(b"\n").unwrap();
            holds()
        });
    }

    fn await_vote(&self) {
        wait_until("a vote", || self.folder.join("state/guiding.vote").exists());
    }

    /// What was decided last of the plan that is brought up here.
    fn record(&self) -> String {
        fs::read_to_string(self.folder.join("state/guiding.nodes")).unwrap_or_default()
    }
}

/// Three nodes that trust each other.
struct Stand {
    folder: TempPath,
    authority: Authority,
    dome: Site,
    lab: Site,
    tower: Site,
    /// Where the lab is found, if not at its own address.
    lab_address: String,
}

impl Stand {
    fn new(name: &str) -> Self {
        let (folder, authority) = (TempPath::folder("nodes"), Authority::new(name));
        let make = |name| Self::make(&folder, &authority, name);
        let [mut dome, mut lab, mut tower] = NAMES.map(make);
        [&mut dome, &mut lab, &mut tower].into_iter().for_each(Site::start);
        let lab_address = lab.address.clone();
        Self { folder, authority, dome, lab, tower, lab_address }
    }

    fn make(folder: &TempPath, authority: &Authority, name: &str) -> Site {
        let at = own_loopback().to_string();
        let site = Site { folder: folder.join(name), address: format!("{at}:2810"), node: None };
        fs::create_dir_all(site.folder.join("opt")).unwrap();
        fs::write(site.folder.join("opt/description.toml"), DESCRIPTION).unwrap();
        let mut make = Command::new("mkfifo");
        assert!(output_in_time(make.arg(site.folder.join("opt/pipe"))).status.success());
        // Written by another process: one that is forked meanwhile would have it open.
        let (source, mut install) = (TempPath::file("program.sh", SCRIPT), Command::new("install"));
        let to = site.folder.join("opt/program");
        assert!(output_in_time(install.args(["-m", "755", source.path()]).arg(to)).status.success());
        Self::settings(&site, authority, authority, &[&at], "CN=*,O=Tests");
        site
    }

    /// Writes the settings of a node manager with a certificate of one authority, and trust in another.
    fn settings(site: &Site, authority: &Authority, trusted: &Authority, hosts: &[&str], deploy: &str) {
        let name = site.folder.file_name().unwrap().to_str().unwrap();
        let certified = authority.certify_as(&CertificateSpec { name, hosts, ..CertificateSpec::default() });
        let user = if rustix::process::geteuid().is_root() { "user = 'root'\n" } else { "" };
        let folder = site.folder.display();
        let settings = format!(
            "socket = '{folder}/node.sock'\nstate = '{folder}/state'\nartifacts = ['{folder}/opt']\n{user}[tls]\nlisten = '{}'\ncertificate = {:?}\n\
             key = {:?}\nca = {:?}\ndeploy = [{deploy:?}]\n",
            site.address,
            certified.certificate,
            certified.key,
            trusted.file()
        );
        fs::write(site.folder.join("node.toml"), settings).unwrap();
    }

    fn sites(&self) -> [&Site; 3] {
        [&self.dome, &self.lab, &self.tower]
    }

    /// Writes a plan of a server on each node, of which each does that.
    fn plan(&self, does: &str) -> String {
        let mut plan = format!(
            "name = 'guiding'\n[nodes]\ndome = '{}'\nlab = '{}'\ntower = '{}'\n",
            self.dome.address, self.lab_address, self.tower.address
        );
        for (server, node) in ["a", "b", "c"].into_iter().zip(NAMES) {
            plan += &format!(
                "[servers.{server}]\nprogram = 'program'\n[instances.of_{server}]\ncomponent = 'Thing'\nserver = '{server}'\nnode = '{node}'\n\
                 does = '{does} {server}'\n"
            );
        }
        self.write(does, &plan)
    }

    /// What has become of a server, in order.
    fn life(&self, server: &str) -> Vec<String> {
        let life = fs::read_to_string(self.folder.join("life")).unwrap();
        life.lines().filter_map(|line| line.strip_prefix(server)).map(|line| line.trim().to_owned()).collect()
    }

    fn write(&self, name: &str, plan: &str) -> String {
        let path = self.folder.join(format!("{name}.toml"));
        fs::write(&path, plan).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Brings the first plan up, by the dome.
    fn up_first(&self) -> String {
        let first = self.plan("first");
        let output = self.dome.deploy(&["up", &first]);
        assert_eq!(text(&output.stdout), format!("{first} is up: started a, b, c\n"), "{}", text(&output.stderr));
        first
    }

    /// Begins to bring up another plan.
    fn begin(&self, plan: &str) -> JoinHandle<Output> {
        let mut command = self.dome.command(&["up", plan]);
        thread::spawn(move || output_in_time(&mut command))
    }

    /// Whether all nodes have a plan, with all its servers started.
    fn has(&self, plan: &str) -> bool {
        let output = self.dome.deploy(&["diff", plan]);
        output.status.success() && self.dome.deploy(&["status", "guiding"]).status.success()
    }

    fn await_plan(&self, plan: &str) {
        wait_until(format!("{plan} on all nodes"), || self.has(plan));
        for site in self.sites() {
            let names = fs::read_dir(site.folder.join("state")).unwrap().map(|it| it.unwrap().file_name());
            let names: Vec<_> = names.filter(|name| name != "lock" && name != "guiding.nodes").collect();
            assert_eq!(names, ["guiding.toml"], "{}", site.folder.display());
        }
    }
}

/// What a command that fails says.
fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    text(&output.stderr)
}

/// What is between the dome and the lab, and loses what is said to the lab from some time on.
struct Cut {
    address: String,
    is_cut: Arc<AtomicBool>,
}

impl Cut {
    /// Three nodes with the first plan, and this before the lab, at an address that its certificate has as well.
    fn before_lab(folder: &str) -> (Stand, Self) {
        let mut stand = Stand::new(folder);
        stand.lab.kill();
        let at = own_loopback().to_string();
        let own = stand.lab.address.trim_end_matches(":2810").to_owned();
        Stand::settings(&stand.lab, &stand.authority, &stand.authority, &[&own, &at], "CN=*,O=Tests");
        let cut = Self { address: format!("{at}:2810"), is_cut: Arc::default() };
        let listener = TcpListener::bind(&cut.address).unwrap();
        let (target, is_cut) = (stand.lab.address.clone(), cut.is_cut.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // It ends with the lab's node manager.
                let Ok(server) = TcpStream::connect(&target) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let is_cut = is_cut.clone();
                thread::spawn(move || pass(from, to, &is_cut));
                thread::spawn(move || pass(server, client, &AtomicBool::new(false)));
            }
        });
        stand.lab_address.clone_from(&cut.address);
        stand.lab.start();
        stand.up_first();
        (stand, cut)
    }

    /// Begins to bring up another plan, and cuts the lab off between its vote and the decision.
    fn decide(&self, stand: &Stand, plan: &str) -> JoinHandle<Output> {
        let record = stand.dome.record();
        stand.tower.set("stall");
        let up = stand.begin(plan);
        stand.tower.await_stalled();
        stand.lab.await_vote();
        self.set(true);
        stand.tower.release("the decision", || stand.dome.record() != record);
        up
    }

    fn set(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

/// Passes on what comes, until either side ends.
fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut chunk) {
        let octets = chunk.get(..read).unwrap_or_default();
        if !is_cut.load(Ordering::SeqCst) && to.write_all(octets).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_plan_comes_up_at_three_nodes_changes_where_it_differs_and_goes_down() {
    let mut stand = Stand::new("nodes-whole");
    let first = stand.up_first();
    assert!(stand.has(&first));
    let status = stand.dome.status();
    for (server, node) in [("a", "dome"), ("b", "lab"), ("c", "tower")] {
        let row = |line: &&str| line.split_whitespace().take(4).eq(["guiding", node, server, "started"]);
        assert_eq!(status.lines().filter(row).count(), 1, "{status}");
    }
    // Its part alone at the others.
    assert!(stand.lab.status().contains(" b ") && !stand.lab.status().contains(" a "));
    let pid = |site: &Site| {
        let status: Json = serde_json::from_slice(&site.deploy(&["status", "--json"]).stdout).unwrap();
        status.pointer("/plans/0/servers/0/pid").and_then(Json::as_u64).unwrap()
    };
    let (before, replaced) = (pid(&stand.lab), pid(&stand.tower));
    let second = fs::read_to_string(&first).unwrap().replace("first c", "second c");
    let second = stand.write("second", &second);
    let output = stand.dome.deploy(&["diff", &second]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "c: instances.of_c.does: \"first c\" -> \"second c\"\n");
    let output = stand.dome.deploy(&["up", &second]);
    assert_eq!(
        text(&output.stdout),
        format!("{second} is up: replaced c; unchanged a, b\n"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(pid(&stand.lab), before);
    assert_ne!(pid(&stand.tower), replaced);
    // One node is left out, and another one has all of that.
    let third = fs::read_to_string(&second).unwrap().replace("node = 'tower'", "node = 'lab'");
    let third = third.replace(&format!("tower = '{}'\n", stand.tower.address), "");
    let third = stand.write("third", &third);
    let output = stand.dome.deploy(&["up", &third]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(stand.tower.status(), "no server is up\n");
    assert!(stand.lab.status().contains(" c "), "{}", stand.lab.status());
    let output = stand.dome.deploy(&["up", &first]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    // Node managers come up with their parts.
    stand.lab.kill();
    for command in ["status", "diff"] {
        let arguments = if command == "diff" { vec![command, &first] } else { vec![command] };
        let output = stand.dome.deploy(&arguments);
        assert_eq!(output.status.code(), Some(if command == "diff" { 2 } else { 1 }));
        let missing = format!("nodes.lab: the node manager at {}: ", stand.lab.address);
        assert!(text(&output.stderr).contains(&missing), "{}", text(&output.stderr));
    }
    assert!(stand.dome.status().contains("tower"), "{}", stand.dome.status());
    let refused = refusal(&stand.dome.deploy(&["up", &second]));
    assert!(refused.contains("nodes.lab: the node manager at "), "{refused}");
    let output = stand.dome.deploy(&["down", "guiding"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "guiding is down: ended a, c\n".to_owned()));
    let again = text(&output.stderr);
    assert!(again.contains("nodes.lab: ") && again.contains("it has the plan until it is taken down again"), "{again}");
    stand.lab.start();
    let output = stand.dome.deploy(&["down", "guiding"]);
    assert_eq!(text(&output.stdout), "guiding is down: ended b\n", "{}", text(&output.stderr));
    for site in stand.sites() {
        assert_eq!(site.status(), "no server is up\n");
        assert_eq!(fs::read_dir(site.folder.join("state")).unwrap().count(), 1, "the lock");
    }
}

#[test]
fn a_node_that_refuses_or_is_killed_before_its_vote_leaves_all_as_they_were() {
    let mut stand = Stand::new("nodes-before");
    let first = stand.up_first();
    let second = stand.plan("second");
    stand.lab.set("refuse");
    let refused = refusal(&stand.dome.deploy(&["up", &second]));
    assert_eq!(
        refused,
        "campanile: nodes.lab: servers.b: it ended with exit status: 3 before it was configured; its last line: not today\n"
    );
    stand.lab.unset("refuse");
    assert!(stand.has(&first));
    stand.lab.set("hang");
    let up = stand.begin(&second);
    stand.lab.await_stalled();
    // The others have voted, and their old servers have ended.
    stand.dome.await_vote();
    stand.tower.await_vote();
    stand.lab.kill();
    let refused = refusal(&up.end_in_time());
    assert_eq!(refused, "campanile: nodes.lab: the connection was closed\n");
    for site in [&stand.dome, &stand.tower] {
        assert!(site.status().contains("started"), "{}", site.status());
    }
    stand.lab.unset("hang");
    stand.lab.start();
    stand.await_plan(&first);
}

#[test]
fn a_node_that_is_killed_after_its_vote_asks_and_undoes_what_was_not_decided() {
    let mut stand = Stand::new("nodes-vote");
    let first = stand.up_first();
    stand.tower.set("stall");
    stand.tower.set("break");
    let up = stand.begin(&stand.plan("second"));
    stand.tower.await_stalled();
    stand.lab.await_vote();
    stand.lab.kill();
    stand.tower.release("the end of the change", || up.is_finished());
    let refused = refusal(&up.end_in_time());
    assert!(
        refused.contains("nodes.tower: servers.c: it ended with exit status: 4 before it was started"),
        "{refused}"
    );
    stand.tower.unset("break");
    stand.lab.start();
    stand.await_plan(&first);
}

#[test]
fn a_node_that_is_killed_after_the_decision_asks_and_carries_it_out() {
    let (mut stand, cut) = Cut::before_lab("nodes-decided");
    let second = stand.plan("second");
    let up = cut.decide(&stand, &second);
    stand.lab.kill();
    let output = up.end_in_time();
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        (output.status.code(), &*said.0),
        (Some(1), &*format!("{second} is up: replaced a, b, c\n")),
        "{}",
        said.1
    );
    assert!(said.1.contains("nodes.lab: the connection was closed; the plan is up, and this node"), "{}", said.1);
    cut.set(false);
    stand.lab.start();
    stand.await_plan(&second);
}

#[test]
fn nodes_wait_for_a_coordinator_that_is_killed_after_its_decision() {
    let (mut stand, cut) = Cut::before_lab("nodes-coordinator");
    let second = stand.plan("second");
    let up = cut.decide(&stand, &second);
    // It would know as well.
    stand.tower.kill();
    stand.dome.kill();
    assert!(!up.end_in_time().status.success());
    let waits = format!("guiding: waits for the decision of {}", stand.dome.address);
    wait_until("the lab to say what it waits for", || stand.lab.status().contains(&waits));
    // It goes on with the new server, and takes no other change of the plan meanwhile.
    assert!(stand.lab.status().contains(" b "), "{}", stand.lab.status());
    // Even if it is killed itself.
    stand.lab.kill();
    stand.lab.start();
    wait_until("the lab to say what it waits for", || stand.lab.status().contains(&waits));
    cut.set(false);
    stand.tower.start();
    stand.dome.start();
    stand.await_plan(&second);
}

#[test]
fn nodes_that_have_all_voted_wait_for_a_coordinator_that_was_killed_and_undo_what_it_has_not_decided() {
    let mut stand = Stand::new("nodes-open");
    let first = stand.up_first();
    stand.dome.set("stall");
    let up = stand.begin(&stand.plan("second"));
    stand.dome.await_stalled();
    stand.lab.await_vote();
    stand.tower.await_vote();
    stand.dome.kill();
    assert!(!up.end_in_time().status.success());
    let waits = format!("guiding: waits for the decision of {}", stand.dome.address);
    for site in [&stand.lab, &stand.tower] {
        wait_until("a node to say what it waits for", || site.status().contains(&waits));
    }
    stand.dome.release("the end of what stalled", || stand.life("a").len() == 3);
    stand.dome.start();
    stand.await_plan(&first);
}

#[test]
fn a_node_that_has_voted_learns_from_another_one_that_nothing_was_decided() {
    let mut stand = Stand::new("nodes-outcome");
    let first = stand.up_first();
    stand.tower.set("stall");
    let up = stand.begin(&stand.plan("second"));
    stand.tower.await_stalled();
    stand.lab.await_vote();
    stand.dome.kill();
    assert!(!up.end_in_time().status.success());
    // The tower finds that the dome is gone, and does not vote.
    let again = ["started", "ended", "started", "ended", "started"];
    let is_as_before = |server: &str| stand.life(server).iter().map(|line| &line[..line.find(' ').unwrap()]).eq(again);
    stand.tower.release("the tower to be as before", || is_as_before("c"));
    wait_until("the lab to be as before", || is_as_before("b"));
    for site in [&stand.lab, &stand.tower] {
        wait_until("a node without a vote", || !site.folder.join("state/guiding.vote").exists());
        wait_until("its server", || site.status().contains(" started "));
    }
    stand.dome.start();
    stand.await_plan(&first);
}

#[test]
fn a_node_that_has_voted_learns_from_another_one_what_was_decided() {
    let (mut stand, cut) = Cut::before_lab("nodes-learned");
    let second = stand.plan("second");
    let up = cut.decide(&stand, &second);
    let has_voted = |site: &Site| site.folder.join("state/guiding.vote").exists();
    wait_until("the tower to have it", || !has_voted(&stand.tower));
    stand.dome.kill();
    assert!(!up.end_in_time().status.success());
    wait_until("the lab to know", || !has_voted(&stand.lab));
    assert_eq!(stand.life("b"), ["started at lab", "ended at lab", "started at lab"]);
    wait_until("its server", || stand.lab.status().contains(" started "));
    cut.set(false);
    stand.dome.start();
    stand.await_plan(&second);
}

#[test]
fn a_mute_node_is_named_and_nothing_is_touched() {
    let mut stand = Stand::new("nodes-mute");
    let first = stand.up_first();
    stand.lab.kill();
    let _mute = TcpListener::bind(&stand.lab.address).unwrap();
    let refused = refusal(&stand.dome.deploy(&["up", &stand.plan("second")]));
    let (at, late) = (&stand.lab.address, "its TLS handshake was not over within 10 s");
    assert_eq!(refused, format!("campanile: nodes.lab: the node manager at {at}: {late}\n"));
    drop(_mute);
    stand.lab.start();
    stand.await_plan(&first);
}

#[test]
fn certificates_without_the_right_or_of_another_authority_are_refused() {
    let mut stand = Stand::new("nodes-right");
    let lab = stand.lab.address.trim_end_matches(":2810").to_owned();
    stand.lab.kill();
    Stand::settings(&stand.lab, &stand.authority, &stand.authority, &[&lab], "CN=observer,*");
    stand.lab.start();
    let plan = stand.plan("first");
    let refused = refusal(&stand.dome.deploy(&["up", &plan]));
    let right = "has not the right to deploy: tls.deploy of this node's node.toml names those that have";
    assert_eq!(refused, format!("campanile: nodes.lab: node: CN=dome,O=Tests {right}\n"));
    assert_eq!(stand.tower.status(), "no server is up\n");
    let counters = |site: &Site| {
        let status: Json = serde_json::from_slice(&site.deploy(&["status", "--json"]).stdout).unwrap();
        ["clients_refused", "clients_dropped"].map(|name| status[name].as_u64().unwrap())
    };
    assert_eq!(counters(&stand.lab), [1, 0]);

    let other = Authority::new("nodes-right-other");
    let dome = stand.dome.address.trim_end_matches(":2810").to_owned();
    stand.dome.kill();
    Stand::settings(&stand.dome, &other, &stand.authority, &[&dome], "CN=*,O=Tests");
    stand.dome.start();
    let refused = refusal(&stand.dome.deploy(&["up", &plan]));
    let unknown = format!("nodes.tower: the node manager at {}: it does not trust the authority", stand.tower.address);
    assert!(refused.contains(&unknown), "{refused}");
    wait_until("it to be counted", || counters(&stand.tower)[1] == 1);
    // A client that does not speak TLS, and one that says nothing.
    let _mute = TcpStream::connect(&stand.tower.address).unwrap();
    let mut plain = TcpStream::connect(&stand.tower.address).unwrap();
    plain.write_all(b"{\"op\":\"status\"}\n").unwrap();
    wait_until("both to be counted", || counters(&stand.tower) == [0, 3]);
}

#[test]
fn of_two_changes_the_second_is_refused_and_a_name_belongs_to_one_coordinator() {
    let stand = Stand::new("nodes-two");
    let plan = stand.plan("first");
    stand.tower.set("stall");
    let up = stand.begin(&plan);
    stand.tower.await_stalled();
    for site in [&stand.dome, &stand.lab] {
        let refused = refusal(&site.deploy(&["up", &plan]));
        assert!(refused.contains("busy: guiding is being changed by user "), "{refused}");
    }
    let refused = refusal(&stand.lab.deploy(&["up", &plan]));
    assert!(refused.contains(&format!(", at {}; try again", stand.dome.address)), "{refused}");
    stand.tower.release("the end of the change", || up.is_finished());
    assert!(up.end_in_time().status.success());
    let refused = refusal(&stand.lab.deploy(&["up", &plan]));
    let origin = format!("brought up by the node manager at {}, and this comes by", stand.dome.address);
    assert!(refused.contains(&format!("nodes.tower: guiding: a plan of this name is up, {origin}")), "{refused}");
    // Another name is no obstacle; one that is up is not brought up for one node alone.
    let whole = fs::read_to_string(&plan).unwrap();
    let other = stand.write("other", &whole.replace("'guiding'", "'seeing'"));
    let output = stand.lab.deploy(&["up", &other]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let alone =
        whole.lines().filter(|line| !line.contains(":2810") && !line.starts_with("node =") && *line != "[nodes]");
    let alone = stand.write("alone", &(alone.collect::<Vec<_>>().join("\n") + "\n"));
    fs::copy(stand.dome.folder.join("opt/program"), stand.folder.join("program")).unwrap();
    let refused = refusal(&stand.dome.deploy(&["up", &alone]));
    assert!(refused.contains("guiding: the plan of this name is up over several nodes"), "{refused}");
    // A part alone, where the node that brought it up may be gone for good.
    let output = stand.tower.deploy(&["down", "guiding"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "guiding is down: ended c\n".to_owned()));
    let said =
        format!("nodes: only the part of this node is down: the plan was brought up at {}\n", stand.dome.address);
    assert!(text(&output.stderr).ends_with(&said), "{}", text(&output.stderr));
    // The name is taken by another plan there, which the first node leaves alone.
    let alone = fs::read_to_string(alone).unwrap();
    fs::write(stand.tower.folder.join("opt/alone.toml"), alone).unwrap();
    let output = stand.tower.deploy(&["up", stand.tower.folder.join("opt/alone.toml").to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = stand.dome.deploy(&["down", "guiding"]);
    let said = (output.status.code(), text(&output.stdout));
    assert_eq!(said, (Some(0), "guiding is down: ended a, b\n".to_owned()), "{}", text(&output.stderr));
    assert!(stand.tower.deploy(&["status", "guiding"]).status.success());
}

#[test]
fn a_node_that_is_left_out_and_cut_off_after_its_vote_runs_nothing_twice() {
    let (mut stand, cut) = Cut::before_lab("nodes-left");
    let whole = fs::read_to_string(stand.plan("second")).unwrap();
    let without = |server: &str| {
        let (head, rest) = whole.split_once(&format!("[servers.{server}]")).unwrap();
        let rest = rest.split_once("[servers.").map_or(String::new(), |(_, rest)| format!("[servers.{rest}"));
        head.replace(&format!("lab = '{}'\n", cut.address), "") + &rest
    };
    let second = stand.write("second", &without("b"));
    let up = cut.decide(&stand, &second);
    stand.lab.kill();
    let output = up.end_in_time();
    let missing = format!("nodes.{0}: the connection was closed; the plan is up", cut.address);
    assert!(text(&output.stderr).contains(&missing), "{}", text(&output.stderr));
    // It takes part in what comes next, and is not forgotten.
    let third = stand.write("third", &without("b").replace("second", "third"));
    let refused = refusal(&stand.dome.deploy(&["up", &third]));
    assert!(refused.contains(&format!("nodes.{0}: the node manager at {0}: ", cut.address)), "{refused}");
    let output = stand.dome.deploy(&["down", "guiding"]);
    assert_eq!(text(&output.stdout), "guiding is down: ended a, c\n");
    let again = text(&output.stderr);
    assert!(again.contains(&format!("nodes.{}: ", cut.address)) && again.contains("until it is taken down"), "{again}");
    stand.lab.start();
    let files = |site: &Site| fs::read_dir(site.folder.join("state")).unwrap().count();
    wait_until("the lab to have nothing but the lock", || files(&stand.lab) == 1);
    assert_eq!(stand.life("b"), ["started at lab", "ended at lab"]);
    cut.set(false);
    let output = stand.dome.deploy(&["down", "guiding"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((files(&stand.dome), stand.lab.status().as_str()), (1, "no server is up\n"));
}

#[test]
fn a_server_that_moves_ends_at_one_node_before_it_is_started_at_another() {
    let stand = Stand::new("nodes-moves");
    let moved = fs::read_to_string(stand.up_first()).unwrap().replace("node = 'tower'", "node = 'lab'");
    let moved = stand.write("moved", &moved.replace(&format!("tower = '{}'\n", stand.tower.address), ""));
    stand.tower.set("linger");
    let up = stand.begin(&moved);
    stand.tower.await_stalled();
    stand.tower.release_from("linger", "the end of the change", || up.is_finished());
    let output = up.end_in_time();
    let said = format!("{moved} is up: replaced c; unchanged a, b\n");
    assert_eq!(text(&output.stdout), said, "{}", text(&output.stderr));
    assert_eq!(stand.life("c"), ["started at tower", "ended at tower", "started at lab"]);
}

#[test]
fn a_plan_goes_down_without_a_node_that_is_gone() {
    let mut stand = Stand::new("nodes-gone");
    stand.up_first();
    stand.lab.kill();
    let refused = refusal(&stand.dome.deploy(&["down", "guiding", "--without", "attic"]));
    assert_eq!(refused, "campanile: guiding: it has no node attic; there are: dome, lab, tower\n");
    let output = stand.dome.deploy(&["down", "guiding", "--without", "lab"]);
    assert_eq!(text(&output.stdout), "guiding is down: ended a, c\n", "{}", text(&output.stderr));
    let at = &stand.lab.address;
    let said = format!(
        "campanile: nodes.lab: the node manager at {at} is not called: if it returns, take guiding down there as well\n"
    );
    assert_eq!(text(&output.stderr), said);
    assert_eq!(stand.dome.record(), "");
    stand.lab.start();
    wait_until("its part", || stand.lab.status().contains("started"));
    assert_eq!(text(&stand.lab.deploy(&["down", "guiding"]).stdout), "guiding is down: ended b\n");
    stand.up_first();
}

#[test]
fn a_node_that_is_found_at_another_host_than_that_of_its_certificate_is_refused() {
    let mut stand = Stand::new("nodes-address");
    let plan = fs::read_to_string(stand.up_first()).unwrap().replace("node = 'dome'", "node = 'lab'");
    let plan = plan.replace(&format!("dome = '{}'\n", stand.dome.address), "").replace("'guiding'", "'seeing'");
    let plan = stand.write("other", &plan);
    // The files are read for each connection.
    let elsewhere = own_loopback().to_string();
    let other = CertificateSpec { name: "dome", hosts: &[&elsewhere], ..CertificateSpec::default() };
    let _ = stand.authority.certify_as(&other);
    let refused = refusal(&stand.dome.deploy(&["up", &plan]));
    let says = format!(
        "CN=dome,O=Tests is found at {}, and has no certificate for that host: set tls.address",
        stand.dome.address
    );
    for node in ["lab", "tower"] {
        assert!(refused.contains(&format!("nodes.{node}: node: {says}")), "{refused}");
    }
    let output = stand.dome.deploy(&["down", "guiding"]);
    assert_eq!(text(&output.stdout), "guiding is down: no servers\n");
    assert!(text(&output.stderr).contains(&format!("nodes.lab: node: {says}")), "{}", text(&output.stderr));
    // It does not call itself for this.
    let output = stand.dome.deploy(&["status", "guiding"]);
    assert!(output.status.success() && text(&output.stdout).contains(" a "), "{}", text(&output.stderr));
    stand.dome.kill();
    let mut command = Command::new(PROGRAM);
    let output = output_in_time(command.arg("node").arg("--config").arg(stand.dome.folder.join("node.toml")));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wrong = format!("tls.address, {}: ", stand.dome.address);
    assert!(said.contains(&wrong) && said.contains("is for another host"), "{said}");
}

#[test]
fn the_whole_plan_is_checked_with_what_all_nodes_say_of_their_components() {
    let stand = Stand::new("nodes-check");
    let connected = |at: &str| {
        let plan = fs::read_to_string(stand.plan("first")).unwrap();
        let wide = format!(
            "[containers.wide]\nservice = 'notification'\nat = '{at}'\n[connections]\n'of_a.up' = ['of_b.down']\n"
        );
        stand.write("connected", &(plan.replace("server = ", "container = 'wide'\nserver = ") + &wide))
    };
    let plan = connected("127.0.0.1:2809");
    assert!(stand.dome.deploy(&["up", &plan]).status.success());
    assert!(stand.has(&plan));
    let seen = fs::read_to_string(stand.lab.folder.join("opt/description.toml")).unwrap();
    fs::write(stand.lab.folder.join("opt/description.toml"), seen.replace("long depth", "short depth")).unwrap();
    let refused = refusal(&stand.dome.deploy(&["up", &plan]));
    assert!(refused.starts_with("campanile: connections.\"of_a.up\": of_a.up gives struct Water"), "{refused}");
}
