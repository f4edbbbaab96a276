//! Plans that outlive the command: node managers with processes. Those of whole commands, which are killed, are in the tests of `crates/cli`.

use campanile_component::{Node, NodeAnswer, NodeRequest, NodeSettings, ServerStatus};
use rustix::process::{Pid, Signal, kill_process};
use service::{Config, Service};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::certificates::{Authority, CertificateSpec};
use testing::{EndInTime as _, TempPath, output_in_time, own_loopback, wait_until};

/// The program of the plan among the examples.
const OBSERVATORY: &str = env!("CARGO_BIN_EXE_observatory");

/// A program that fails as the property of its instance says, each a file that is there: so it can be mended.
const PROGRAM: &str = r#"#!/bin/sh
[ "$1" = --describe ] && { echo >> "${0%/*}/described"; exec cat "${0%/*}/description.toml"; }
fails() { grep -q "^does = \"$1 $server\"" "$2" && [ -e "${0%/*}/$1" ]; }
plan=$2 server=$4
fails "refuse" "$plan" && echo "not today" >&2 && exit 3
echo configured
read -r line || exit 0
fails "break" "$plan" && exit 4
fails "leave" "$plan" && { cat "${0%/*}/pipe" > /dev/null 2>&1 & echo $! > "${0%/*}/left"; }
fails "stall" "$plan" && while [ -e "${0%/*}/stall" ]; do read -r line < "${0%/*}/pipe"; done
echo started
exec cat
"#;

const DESCRIPTION: &str = "[Thing]\nsinks = {}\nsources = {}\nothers = {}\ntimers_ns = {}\nproperties = { does = \"String\" }\noptional = [\"does\"]\n";

/// A node manager with a folder of programs.
struct Stand {
    folder: TempPath,
    node: Option<Node>,
}

impl Stand {
    /// A node manager with more settings.
    fn with(settings: &str) -> Self {
        let folder = TempPath::folder("node");
        std::fs::create_dir(folder.join("opt")).unwrap();
        std::fs::write(folder.join("opt/description.toml"), DESCRIPTION).unwrap();
        let mut stand = Self { folder, node: None };
        stand.install("program", PROGRAM);
        stand.start(settings);
        stand
    }

    fn new() -> Self {
        Self::with("")
    }

    /// Written by another process: one that another test forks meanwhile would have it open.
    fn install(&self, name: &str, text: &str) {
        let source = TempPath::file("program.sh", text);
        let mut install = Command::new("install");
        assert!(output_in_time(install.args(["-m", "755", source.path()]).arg(self.opt(name))).status.success());
    }

    fn opt(&self, name: &str) -> PathBuf {
        self.folder.join("opt").join(name)
    }

    fn start(&mut self, settings: &str) {
        let folder = self.folder.path();
        let is_said = settings.contains("user =") || !rustix::process::geteuid().is_root();
        let user = if is_said { "" } else { "user = 'root'\n" };
        let observatory = Path::new(OBSERVATORY).parent().unwrap().display();
        let text = format!("state = '{folder}/state'\n{user}artifacts = ['{folder}/opt', '{observatory}']\n{settings}");
        let settings = NodeSettings::parse(&text).unwrap();
        self.node = Some(Node::start(&settings, &self.folder.join("node.sock"), Vec::new()).unwrap());
    }

    fn send(&self, request: &NodeRequest) -> NodeAnswer {
        request.send(&self.folder.join("node.sock")).unwrap()
    }

    fn up(&self, plan: &str) -> NodeAnswer {
        self.send(&NodeRequest::Up { plan: plan.to_owned(), folder: self.folder.join("opt") })
    }

    /// What a plan is refused for.
    fn refused(&self, plan: &str) -> String {
        let NodeAnswer::Refused(problems) = self.up(plan) else { panic!("the plan is up") };
        problems.iter().map(|problem| problem.to_string() + "\n").collect()
    }

    fn servers(&self) -> BTreeMap<String, ServerStatus> {
        let NodeAnswer::Status(status) = self.send(&NodeRequest::Status { name: None }) else { panic!("no status") };
        status.plans.into_iter().flat_map(|plan| plan.servers).map(|server| (server.name.clone(), server)).collect()
    }

    fn pid(&self, server: &str) -> u32 {
        let server = self.servers().remove(server).unwrap();
        assert_eq!(server.state, "started");
        server.pid.unwrap()
    }

    /// What an `up` would change, as `server key`.
    fn differences(&self, plan: &str) -> Vec<String> {
        let request = NodeRequest::Diff { plan: plan.to_owned(), folder: self.folder.join("opt") };
        let NodeAnswer::Differences(all) = self.send(&request) else { panic!("no differences") };
        all.into_iter().map(|difference| format!("{} {}", difference.server, difference.key)).collect()
    }
}

/// A plan of these servers, with what the instance of each does.
fn plan(servers: &[(&str, &str)]) -> String {
    let of = |(name, does): &(&str, &str)| {
        format!(
            "[servers.{name}]\nprogram = 'program'\n[instances.of_{name}]\ncomponent = 'Thing'\nserver = '{name}'\ndoes = '{does} {name}'\n"
        )
    };
    format!("name = 'guiding'\n{}", servers.iter().map(of).collect::<String>())
}

/// Whether a process runs: one that has ended and was not waited for is a zombie.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Whether the tests run as root; a test of what takes root says so where they do not.
fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not tested, for want of root: {what}");
    }
    is_root
}

/// Servers by what an answer says has become of them.
fn changed(answer: NodeAnswer) -> String {
    let NodeAnswer::Changed(changed) = answer else { panic!("{answer:?}") };
    changed.to_string()
}

#[test]
fn only_what_differs_is_replaced_and_down_leaves_no_process() {
    let stand = Stand::new();
    let log = stand.folder.join("mount.log");
    let observatory = format!(
        "[servers.control]\nprogram = '{OBSERVATORY}'\n[instances.camera]\ncomponent = 'Camera'\nserver = 'control'\n\
         [instances.guider]\ncomponent = 'Guider'\nserver = 'control'\ngain = 2\n\
         [instances.mount]\ncomponent = 'Mount'\nserver = 'control'\nlog = '{}'\n\
         [connections]\n'camera.frame' = ['guider.frame']\n'guider.offset' = ['mount.offset']\n",
        log.display()
    );
    let with = |servers: &[(&str, &str)]| plan(servers) + &observatory;
    let first = with(&[("a", "run"), ("b", "run")]);
    assert_eq!(stand.differences(&first).iter().filter(|line| line.starts_with("a ")).count(), 5);
    // Two servers of one program ask it once.
    assert_eq!(std::fs::read_to_string(stand.opt("described")).unwrap(), "\n");
    assert_eq!(changed(stand.up(&first)), "started a, b, control");
    wait_until("the mount to have moved", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(' ')));
    let before = ["a", "b", "control"].map(|server| stand.pid(server));
    assert_eq!(stand.servers()["control"].instances, ["camera", "guider", "mount"]);

    let second = with(&[("b", "walk"), ("c", "run")]);
    let differences = stand.differences(&second);
    assert!(differences.contains(&"b instances.of_b.does".to_owned()), "{differences:?}");
    assert!(!differences.iter().any(|line| line.starts_with("control ")), "{differences:?}");
    assert_eq!(changed(stand.up(&second)), "started c; replaced b; ended a; unchanged control");
    assert_eq!(stand.pid("control"), before[2]);
    assert!(!is_running(before[0]) && !is_running(before[1]) && is_running(stand.pid("b")));
    assert_eq!(stand.differences(&second), [""; 0]);

    let processes: Vec<u32> = stand.servers().values().map(|server| server.pid.unwrap()).collect();
    let down = down("guiding");
    assert_eq!(changed(stand.send(&down)), "ended b, c, control");
    assert!(!processes.into_iter().any(is_running) && stand.servers().is_empty());
    let NodeAnswer::Refused(problems) = stand.send(&down) else { panic!("it was down") };
    assert_eq!(problems[0].to_string(), "guiding: no such plan is up; there is none");
}

#[test]
fn a_plan_that_fails_at_any_step_leaves_the_old_one_running() {
    let stand = Stand::new();
    for fault in ["refuse", "break"] {
        std::fs::write(stand.opt(fault), "").unwrap();
    }
    let old = plan(&[("a", "run"), ("b", "run")]);
    changed(stand.up(&old));
    let before = ["a", "b"].map(|server| stand.pid(server));
    // A component that there is not, and a server that cannot be configured: the old servers are not touched.
    let refused = stand.refused(&old.replace("Thing", "Things"));
    assert!(refused.starts_with("instances.of_a: the server a has no component Things; it has: Thing\n"), "{refused}");
    let refused = stand.refused(&plan(&[("a", "walk"), ("b", "refuse"), ("c", "run")]));
    assert!(
        refused.starts_with(
            "servers.b: it ended with exit status: 3 before it was configured; its last line: not today\n"
        ),
        "{refused}"
    );
    assert_eq!(["a", "b"].map(|server| stand.pid(server)), before);
    assert_eq!(stand.servers().len(), 2);
    // One that cannot be started: what was ended for it runs again.
    let refused = stand.refused(&plan(&[("a", "run"), ("b", "break")]));
    assert!(refused.starts_with("servers.b: it ended with exit status: 4 before it was started"), "{refused}");
    assert!(refused.contains("; the servers that it was to replace were ended, and run again"), "{refused}");
    assert_eq!(stand.pid("a"), before[0]);
    assert_ne!(stand.pid("b"), before[1]);
    assert_eq!(stand.differences(&old), [""; 0]);
    let names: Vec<_> =
        std::fs::read_dir(stand.folder.join("state")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the plan and the lock: {names:?}");
}

#[test]
fn a_server_that_ends_is_started_again_and_the_others_run_on() {
    let stand = Stand::new();
    changed(stand.up(&plan(&[("a", "refuse"), ("b", "run")])));
    let (a, b) = (stand.pid("a"), stand.pid("b"));
    // It cannot be started again at first.
    std::fs::write(stand.opt("refuse"), "").unwrap();
    kill(a);
    wait_until("two attempts", || stand.servers()["a"].restarts >= 2);
    let reason = stand.servers()["a"].reason.clone().unwrap();
    assert!(reason.starts_with("it ended with exit status: 3 before it was configured"), "{reason}");
    // As long as it does not run, its plan cannot be said to be up.
    let same = plan(&[("a", "refuse"), ("b", "run")]);
    assert_eq!(stand.differences(&same), ["a state"]);
    let refused = stand.refused(&same);
    assert!(refused.starts_with("servers.a: it ended with exit status: 3 before it was configured"), "{refused}");
    std::fs::remove_file(stand.opt("refuse")).unwrap();
    wait_until("the server", || stand.servers()["a"].state == "started");
    assert_ne!(stand.pid("a"), a);
    assert_eq!((stand.pid("b"), stand.servers()["b"].restarts), (b, 0));
}

#[test]
fn artifacts_come_from_the_folders_alone_and_have_their_digests() {
    let stand = Stand::with("digests = 'required'\n");
    let refused = |program: &str, digest: Option<&str>| {
        let digest = digest.map(|digest| format!("[artifacts]\n'{program}' = '{digest}'\n")).unwrap_or_default();
        stand.refused(&(plan(&[("a", "run")]).replace("'program'", &format!("'{program}'")) + &digest))
    };
    let zeros = format!("sha256:{}", "0".repeat(64));
    symlink("/bin/true", stand.opt("link")).unwrap();
    for outside in ["/bin/true", "link", "../../../../../../bin/true"] {
        assert!(
            refused(outside, Some(&zeros)).contains("is in none of the folders of `artifacts` in node.toml"),
            "{outside}"
        );
    }
    assert!(refused("nothing", None).contains("No such file"));
    assert!(refused("program", None).contains("the digest of program is missing: add \"program\" = \"sha256:…\""));
    assert!(refused("program", Some(&zeros)).contains("and the plan says sha256:0000"));
    assert!(refused("program", Some("sha256:12")).contains("is no digest: give sha256: and 64 digits"));
    let output = output_in_time(Command::new("sha256sum").arg(stand.opt("program")));
    let digest = format!("sha256:{}", &String::from_utf8(output.stdout).unwrap()[..64]);
    let stated = format!("{}[artifacts]\n'program' = '{digest}'\n", plan(&[("a", "run")]));
    changed(stand.up(&stated));
    // A file that is another one is not run when the server ends, until the plan is brought up again.
    let a = stand.pid("a");
    stand.install("program", &format!("{PROGRAM}\n"));
    kill(a);
    wait_until("an attempt", || stand.servers()["a"].restarts >= 1);
    let reason = stand.servers()["a"].reason.clone().unwrap();
    assert!(reason.contains("the file has changed since the plan was brought up"), "{reason}");
    assert!(stand.refused(&stated).contains("and the plan says"));
}

#[test]
fn nothing_is_deployed_without_folders_of_artifacts_or_a_name() {
    let stand = Stand::new();
    assert!(stand.refused(&plan(&[]).replace("name = 'guiding'", "")).starts_with("name: the plan has none"));
    assert!(stand.refused("name = '../x'").contains("is no name"));
    let folder = TempPath::folder("node");
    let user = if rustix::process::geteuid().is_root() { "user = 'root'" } else { "" };
    let settings = NodeSettings::parse(&format!("state = '{}'\n{user}\n", folder.join("state").display())).unwrap();
    let node = Node::start(&settings, &folder.join("node.sock"), Vec::new()).unwrap();
    let request = NodeRequest::Up { plan: plan(&[("a", "run")]), folder: stand.opt("") };
    let answer = request.send(node.socket()).unwrap();
    assert!(format!("{answer:?}").contains("nothing can be deployed here: node.toml has no `artifacts`"), "{answer:?}");
    // A second one, of the same socket or folder.
    let other = folder.join("other.sock");
    let refused = Node::start(&settings, node.socket(), Vec::new()).unwrap_err();
    assert!(refused.contains("another node manager has it"), "{refused}");
    assert!(Node::start(&settings, &other, Vec::new()).unwrap_err().contains("another node manager has it"));
    if is_root("that it names a user for its servers") {
        let settings = NodeSettings::parse(&format!("state = '{}'\n", folder.join("b").display())).unwrap();
        assert!(
            Node::start(&settings, &other, Vec::new()).unwrap_err().contains("name the `user` as which servers run")
        );
    }
}

#[test]
fn servers_of_a_node_manager_that_is_root_run_as_another_user() {
    if !is_root("servers of another user") {
        return;
    }
    let stand = Stand::with("user = 'daemon'\n");
    changed(stand.up(&plan(&[("a", "run")])));
    let process = PathBuf::from(format!("/proc/{}", stand.pid("a")));
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    // What root has in its environment is not for it.
    let mut environment = String::new();
    wait_until("its environment, which it has not in the middle of exec", || {
        environment = std::fs::read_to_string(process.join("environ")).unwrap();
        !environment.is_empty()
    });
    let mut keys: Vec<_> = environment.split_terminator('\0').map(|it| it.split_once('=').unwrap()).collect();
    keys.retain(|(key, _)| !matches!(*key, "PATH" | "LANG" | "PWD" | "OLDPWD" | "SHLVL" | "_"));
    keys.sort_unstable();
    assert!(
        matches!(&keys[..], [("HOME", home), ("LOGNAME", "daemon"), ("USER", "daemon")] if *home != "/root"),
        "{keys:?}"
    );
    assert_eq!(std::fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
    let of = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).unwrap().to_owned();
    let numbers = |name| String::from_utf8(output_in_time(Command::new("id").args([name, "daemon"])).stdout).unwrap();
    assert!(of("Uid:").split_whitespace().all(|user| user == numbers("-u").trim()), "{status}");
    assert!(of("Gid:").split_whitespace().all(|group| group == numbers("-g").trim()), "{status}");
    assert_eq!(of("Groups:").trim(), "", "{status}");
}

#[test]
fn of_two_changes_at_once_the_second_is_answered_that_it_is_busy() {
    let stand = Stand::new();
    std::fs::write(stand.opt("stall"), "").unwrap();
    assert!(output_in_time(Command::new("mkfifo").arg(stand.opt("pipe"))).status.success());
    let first = plan(&[("a", "stall")]);
    std::thread::scope(|scope| {
        let up = scope.spawn(|| changed(stand.up(&first)));
        wait_until(
            "a change that goes on",
            || matches!(stand.send(&NodeRequest::Status { name: None }), NodeAnswer::Status(status) if status.changing.is_some()),
        );
        let busy = stand.refused(&plan(&[("b", "run")]));
        assert!(busy.starts_with("guiding: busy: guiding is being changed by user "), "{busy}");
        let down = stand.send(&down("guiding"));
        assert!(format!("{down:?}").contains("busy: guiding is being changed by user "), "{down:?}");
        std::fs::remove_file(stand.opt("stall")).unwrap();
        // Its reader is there, or finds the file gone.
        wait_until("the end of the change", || {
            let pipe = std::fs::OpenOptions::new().read(true).write(true).open(stand.opt("pipe"));
            pipe.unwrap().write_all(b"\n").unwrap();
            up.is_finished()
        });
        assert_eq!(up.end_in_time(), "started a");
    });
    assert_eq!(changed(stand.up(&plan(&[("b", "run")]))), "started b; ended a");
}

#[test]
fn clients_that_say_half_a_line_or_nonsense_are_answered_and_counted() {
    let stand = Stand::new();
    for sent in ["{\"op\":\"sta", "what is up?\n", "{\"op\":\"dance\"}\n"] {
        let mut stream = UnixStream::connect(stand.folder.join("node.sock")).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("{\"refused\":[{\"place\":\"request\","), "{answer}");
    }
    // One that says nothing is in nobody's way, and of many the last are refused.
    let mute: Vec<_> = (0..16).map(|_| UnixStream::connect(stand.folder.join("node.sock")).unwrap()).collect();
    let answer = stand.send(&NodeRequest::Status { name: None });
    assert!(format!("{answer:?}").contains("busy: there are 16 connections"), "{answer:?}");
    drop(mute);
    wait_until("the others to be gone", || {
        let NodeAnswer::Status(status) = stand.send(&NodeRequest::Status { name: None }) else { return false };
        status.clients_refused >= 1 && status.clients_dropped == 19
    });
}

#[test]
fn plans_come_up_with_the_node_manager_but_for_damaged_ones() {
    let mut stand = Stand::new();
    changed(stand.up(&plan(&[("a", "run"), ("b", "refuse")])));
    changed(stand.up(&plan(&[("c", "run")]).replace("guiding", "dome")));
    let before: Vec<u32> = stand.servers().values().map(|server| server.pid.unwrap()).collect();
    stand.node = None;
    assert!(!before.into_iter().any(is_running));
    // One was cut off, another one was being brought up, and a server cannot be configured: it is tried again, and the rest runs.
    let state = stand.folder.join("state");
    let text = std::fs::read_to_string(state.join("dome.toml")).unwrap();
    std::fs::write(state.join("dome.toml"), &text[..text.len() - 5]).unwrap();
    std::fs::write(state.join("seeing.next"), &text).unwrap();
    std::fs::write(stand.opt("refuse"), "").unwrap();
    stand.start("");
    wait_until("one server, and two attempts of the other", || {
        let servers = stand.servers();
        servers["a"].state == "started" && servers["b"].restarts >= 1
    });
    let NodeAnswer::Status(status) = stand.send(&NodeRequest::Status { name: None }) else { panic!("no status") };
    let refused = status.plans.iter().find(|plan| plan.name == "dome").unwrap().refused.clone().unwrap();
    assert!(refused.starts_with("the file is damaged"), "{refused}");
    assert!(!state.join("seeing.next").exists());
    assert_eq!(changed(stand.up(&plan(&[("c", "run")]).replace("guiding", "dome"))), "started c");
    let down = stand.send(&down("dome"));
    assert_eq!(changed(down), "ended c");
}

#[test]
fn what_a_server_has_started_ends_with_it() {
    let stand = Stand::new();
    std::fs::write(stand.opt("leave"), "").unwrap();
    assert!(output_in_time(Command::new("mkfifo").arg(stand.opt("pipe"))).status.success());
    let left = || std::fs::read_to_string(stand.opt("left")).unwrap().trim().parse::<u32>().unwrap();
    changed(stand.up(&plan(&[("a", "leave")])));
    let (a, first) = (stand.pid("a"), left());
    assert!(is_running(first));
    kill(a);
    wait_until("the end of what it has started", || !is_running(first));
    wait_until("the server", || stand.servers()["a"].state == "started");
    let second = left();
    assert!(second != first && is_running(second));
    changed(stand.send(&down("guiding")));
    wait_until("the end of what it has started", || !is_running(second));
}

#[test]
fn a_folder_of_plans_that_others_may_write_to_is_refused() {
    let folder = TempPath::folder("node");
    let state = folder.join("state");
    let user = if rustix::process::geteuid().is_root() { "user = 'root'" } else { "" };
    let settings = NodeSettings::parse(&format!("state = '{}'\n{user}\n", state.display())).unwrap();
    let refused = || Node::start(&settings, &folder.join("node.sock"), Vec::new()).unwrap_err();
    let mode = |mode| std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::create_dir(&state).unwrap();
    for open in [0o777, 0o720] {
        mode(open);
        assert!(refused().contains(&format!("with mode {open:o}")), "{}", refused());
    }
    mode(0o700);
    symlink(folder.join("elsewhere"), state.join("lock")).unwrap();
    assert!(refused().contains("state: lock: Too many levels of symbolic links"), "{}", refused());
    assert!(!folder.join("elsewhere").exists());
    std::fs::remove_file(state.join("lock")).unwrap();
    if is_root("folders and links of another user") {
        chown(&state, Some(1), None).unwrap();
        assert!(refused().contains("user 1 has it"), "{}", refused());
        chown(&state, Some(0), None).unwrap();
        std::fs::rename(&state, folder.join("moved")).unwrap();
        symlink("moved", &state).unwrap();
        drop(Node::start(&settings, &folder.join("node.sock"), Vec::new()).unwrap());
        lchown(&state, Some(1), None).unwrap();
        assert!(refused().contains("it is a symbolic link that root has not made"), "{}", refused());
    }
}

#[test]
fn a_plan_that_cannot_be_written_leaves_the_old_one_up_and_one_without_its_file_goes_down() {
    let stand = Stand::new();
    let old = plan(&[("a", "run")]);
    changed(stand.up(&old));
    let before = stand.pid("a");
    let next = stand.folder.join("state/guiding.next");
    std::fs::create_dir(&next).unwrap();
    let refused = stand.refused(&plan(&[("a", "walk")]));
    assert!(refused.starts_with(&format!("state: {}: Is a directory", next.display())), "{refused}");
    assert!(refused.contains("mend that, as by room on the disk, and try again"), "{refused}");
    assert_eq!((stand.pid("a"), stand.differences(&old)), (before, vec![]));
    std::fs::remove_file(stand.folder.join("state/guiding.toml")).unwrap();
    assert_eq!(changed(stand.send(&down("guiding"))), "ended a");
}

#[test]
fn plans_with_nothing_too_much_or_an_interpreter_of_their_own_are_refused_before_files_are_read() {
    let stand = Stand::new();
    assert_eq!(stand.refused(&plan(&[])), "instances: the plan has none: nothing of it would run\n");
    let names: Vec<String> = (0..257).map(|number| format!("s{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "run")).collect();
    let many = plan(&many).replace("'program'", "'there is none'");
    assert_eq!(stand.refused(&many), "servers: there are 257: at most 256 are taken\n");
    let python = "name = 'sky'\n[servers.main]\npython = 'bin/python'\n[instances.dome]\ncomponent = 'dome.py#Dome'\n";
    let refused = stand.refused(python);
    assert!(
        refused.starts_with(
            "servers.main: node.toml says by which interpreter servers in Python run: leave out `python`\n"
        ),
        "{refused}"
    );
}

fn down(name: &str) -> NodeRequest {
    NodeRequest::Down { name: name.to_owned(), without: Vec::new() }
}

/// Two nodes that trust each other, with their addresses.
fn two_nodes(authority: &Authority) -> [(Stand, String); 2] {
    ["dome", "lab"].map(|name| {
        let at = own_loopback().to_string();
        let certified = authority.certify_as(&CertificateSpec { name, hosts: &[&at], ..CertificateSpec::default() });
        let (certificate, key, ca) = (certified.certificate, certified.key, authority.file());
        let stand = Stand::with(&format!(
            "[tls]\nlisten = '{at}:2810'\ncertificate = {certificate:?}\nkey = {key:?}\nca = {ca:?}\ndeploy = ['CN=dome,*']\n"
        ));
        (stand, format!("{at}:2810"))
    })
}

/// The rest of plans over several nodes is in the tests of `crates/cli`, which kill them.
#[test]
fn events_between_nodes_go_by_the_service_of_their_container() {
    let listen = format!("{}:0", own_loopback());
    let service = Service::start(Config { listen, ..Config::default() }).unwrap();
    let authority = Authority::new("component-nodes");
    let [dome, lab] = two_nodes(&authority);
    let log = lab.0.folder.join("mount.log");
    // The program is in the second of the nodes' folders.
    let plan = format!(
        "name = 'far'\n[nodes]\ndome = '{}'\nlab = '{}'\n[containers.wide]\nservice = 'notification'\nat = '{}'\n\
         [servers.camera]\nprogram = 'observatory'\n[servers.control]\nprogram = 'observatory'\n\
         [instances.camera]\ncomponent = 'Camera'\nserver = 'camera'\nnode = 'dome'\ncontainer = 'wide'\n\
         [instances.guider]\ncomponent = 'Guider'\nserver = 'control'\nnode = 'lab'\ncontainer = 'wide'\ngain = 2\n\
         [instances.mount]\ncomponent = 'Mount'\nserver = 'control'\nnode = 'lab'\nlog = '{}'\n\
         [connections]\n'camera.frame' = ['guider.frame']\n'guider.offset' = ['mount.offset']\n",
        dome.1,
        lab.1,
        service.address(),
        log.display()
    );
    assert_eq!(changed(dome.0.up(&plan)), "started camera, control");
    wait_until("the mount to have moved", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(' ')));
    let servers = dome.0.servers();
    assert_eq!(["camera", "control"].map(|name| servers[name].node.as_deref()), [Some("dome"), Some("lab")]);
    assert_eq!(dome.0.differences(&plan), [""; 0]);
    assert_eq!(changed(dome.0.send(&down("far"))), "ended camera, control");
    assert!(lab.0.servers().is_empty());
}

/// A service of a node, which takes links at the same address.
fn service_with_links() -> (Service, String) {
    let at = own_loopback().to_string();
    let config = format!("listen = '{at}:0'\n[links]\nlisten = '{at}:2816'\n");
    (Service::start(toml::from_str(&config).unwrap()).unwrap(), at)
}

/// Whether a service has a link of this name, of which it is asked whether that is paused.
fn has_link(service: &Service, name: &str) -> bool {
    let orb = client::Orb::new(client::OrbOptions::default());
    let statistics = orb.resolve(&service.corbaloc("Statistics")).unwrap();
    let refused: String = statistics.request("pause_link", &(name, false)).unwrap();
    assert!(refused == "it is not paused" || refused.starts_with("there is no link"), "{refused}");
    refused == "it is not paused"
}

#[test]
fn a_federated_channel_is_one_at_the_services_of_two_nodes_as_long_as_its_plan_is_up() {
    let ((near, _), (far, far_at)) = (service_with_links(), service_with_links());
    let authority = Authority::new("component-federated");
    let [dome, lab] = two_nodes(&authority);
    let log = lab.0.folder.join("mount.log");
    let plan = |gain: u32, federate: &str| {
        format!(
            "name = 'far'\n[nodes]\ndome = '{}'\nlab = '{}'\n[containers.near]\nservice = 'notification'\nat = '{}'\n\
             [containers.far]\nservice = 'notification'\nat = '{}'\n[servers.camera]\nprogram = 'observatory'\n\
             [servers.control]\nprogram = 'observatory'\n[instances.camera]\ncomponent = 'Camera'\nserver = 'camera'\nnode = 'dome'\n\
             container = 'near'\n[instances.guider]\ncomponent = 'Guider'\nserver = 'control'\nnode = 'lab'\ncontainer = 'far'\n\
             gain = {gain}\n[instances.mount]\ncomponent = 'Mount'\nserver = 'control'\nnode = 'lab'\nlog = '{}'\n\
             [connections]\n'camera.frame' = ['guider.frame']\n'guider.offset' = ['mount.offset']\n{federate}",
            dome.1,
            lab.1,
            near.address(),
            far.address(),
            log.display()
        )
    };
    let refused = dome.0.refused(&plan(2, ""));
    assert!(
        refused.contains("give both containers one `at`, or federate the channel between their nodes"),
        "{refused}"
    );
    let federate = "[[federate]]\nchannel = 'camera.frame'\nbetween = ['dome', 'lab']\nby = 'tcp'\n";
    assert_eq!(changed(dome.0.up(&plan(2, federate))), "started camera, control");
    let moved = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(' '));
    wait_until("the mount to have moved", moved);
    let (tcp, udp) = ["tcp", "udp"].map(|by| format!("far.camera.frame>{by}:{far_at}:2816")).into();
    assert!(has_link(&near, &tcp));
    // The source's server is replaced, with the same link: the one that starts makes it again.
    let other = plan(2, federate).replace("container = 'near'\n", "container = 'near'\nlane = 40\n");
    let other = other.replace("[containers.far]", "pool = { lanes = [40] }\n[containers.far]");
    assert_eq!(changed(dome.0.up(&other)), "replaced camera; unchanged control");
    wait_until("the link to be there", || has_link(&near, &tcp));
    // A change that another node refuses when the new servers are configured leaves the link to those that run.
    let nobody = plan(2, federate).replace(&far.address().to_string(), &format!("{far_at}:1"));
    let refused = dome.0.refused(&nobody);
    assert!(refused.contains("servers.control: "), "{refused}");
    assert!(has_link(&near, &tcp));
    // So does one whose link the service refuses: the former servers are started again, and make theirs.
    let by_udp = federate.replace("tcp", "udp");
    let refused = dome.0.refused(&plan(2, &by_udp));
    assert!(refused.contains("servers.camera: ") && refused.contains("makes no link: "), "{refused}");
    wait_until("the link to be there", || has_link(&near, &tcp));
    assert!(!has_link(&near, &udp));
    std::fs::remove_file(&log).unwrap();
    wait_until("the mount to have moved again", moved);
    assert_eq!(changed(dome.0.send(&down("far"))), "ended camera, control");
    wait_until("the link to be gone", || !has_link(&near, &tcp));
}
