//! Plans whose components are classes of Python.

use crate::{package, python};
use component::{PlanFile, Running};
use service::{Config, Service};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use testing::{Killed, TempPath, output_in_time, own_loopback, wait_until};

const OBSERVATORY: &str = include_str!("observatory.py");

/// A camera in one process, a guider and a recorder in another.
const PLAN: &str = r#"
    [servers.dome]
    python = "./python"
    [servers.control]
    python = "./python"
    [containers.shared]
    service = "notification"
    at = "SERVICE"
    [instances.camera]
    component = "observatory.py#Camera"
    server = "dome"
    container = "shared"
    [instances.guider]
    component = "observatory.py#Guider"
    server = "control"
    container = "shared"
    gain = 2
    #guider
    [instances.recorder]
    component = "observatory.py#Recorder"
    server = "control"
    container = "shared"
    log = "LOG"
    [ports."guider.frame"]
    qos = { MaxEventsPerConsumer = 1024 }
    [connections]
    "camera.frame" = ["guider.frame"]
    "guider.offset" = ["recorder.offset"]
"#;

/// A plan in a folder, with a service, and an interpreter that has the module and writes what is said to a file.
struct Stand {
    folder: PathBuf,
    service: Service,
}

impl Stand {
    fn new(of: &str) -> Self {
        let service = Service::start(Config { listen: format!("{}:0", own_loopback()), ..Config::default() }).unwrap();
        let stand = Self { folder: package(of), service };
        fs::write(stand.folder.join("observatory.py"), OBSERVATORY).unwrap();
        stand.write_interpreter(&stand.folder.display().to_string());
        stand
    }

    /// An interpreter that looks for modules there.
    fn write_interpreter(&self, modules: &str) {
        let (path, said) = (self.folder.join("python"), self.folder.join("said"));
        let script = format!(
            "#!/bin/sh\nPYTHONPATH='{modules}' PYTHONDONTWRITEBYTECODE=1 exec '{}' \"$@\" 2>>'{}'\n",
            python().display(),
            said.display()
        );
        // Written by another process: a child of another test may have what this one opens for writing, and then it cannot be executed.
        let source = TempPath::file("python.sh", &script);
        let mut install = Command::new("install");
        let output = output_in_time(install.args(["-m", "755"]).arg(source.path()).arg(&path));
        assert!(output.status.success(), "{output:?}");
    }

    /// The plan, with other text for these.
    fn plan(&self, changes: &[(&str, &str)]) -> Result<PlanFile, Vec<String>> {
        let log = self.folder.join("log");
        let mut text =
            PLAN.replace("SERVICE", &self.service.address().to_string()).replace("LOG", log.to_str().unwrap());
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let path = self.folder.join("plan.toml");
        fs::write(&path, text).unwrap();
        PlanFile::read(&path).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    fn run(&self, does: &str) -> Running {
        self.plan(&[("#guider", &format!("does = \"{does}\""))]).unwrap().run().unwrap()
    }

    fn lines(&self, of: &str) -> Vec<String> {
        fs::read_to_string(self.folder.join(of)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn wait_for(&self, of: &str, what: &str) {
        wait_until(format!("{what:?} in {of}"), || self.lines(of).iter().any(|line| line.contains(what)));
    }
}

#[test]
fn components_in_python_are_connected_within_a_process_and_by_a_channel() {
    let stand = Stand::new("plan");
    // One file is imported by another, and named itself, too.
    fs::write(stand.folder.join("control.py"), "from observatory import Guider\n").unwrap();
    let changes = [("observatory.py#Guider", "control.py#Guider"), ("#guider", "steps = [1, 2]")];
    let running = stand.plan(&changes).unwrap().run().unwrap();
    let offsets = || stand.lines("log").iter().filter(|line| line.starts_with("guider.offset ")).count();
    wait_until("an offset", || offsets() > 0);
    // A signal to all processes of a plan is left to its launcher.
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let ids = running.processes().into_iter().map(|(_, id)| id.to_string());
        assert!(output_in_time(Command::new("kill").args(["-s", signal]).args(ids)).status.success());
        let before = offsets();
        wait_until("an offset of a later frame", || offsets() > before + 1);
    }
    drop(running);
    let lines = stand.lines("log");
    assert_eq!(lines[0], "guider.offset 1 3", "three steps, a gain of 2, half the light");
    assert_eq!(lines[lines.len() - 2..], ["passivated", "dropped"]);
    // What is printed is not in the launcher's way.
    stand.wait_for("said", "loaded");
}

#[test]
fn a_component_in_python_gets_the_number_of_the_set_and_the_place_in_it() {
    let stand = Stand::new("plan-sets");
    let changes = [("#guider", "does = \"sets\""), ("qos =", "when = \"camera.frame[$number > 1]\"\n    qos =")];
    let plan = stand.plan(&changes).unwrap();
    let running = plan.run().unwrap();
    stand.wait_for("log", "guider.offset 3 201");
    drop(running);
    assert_eq!(stand.lines("log")[..2], ["guider.offset 2 101", "guider.offset 3 201"]);
}

#[test]
fn what_a_component_in_python_raises_is_a_failure_or_has_it_made_again() {
    let stand = Stand::new("plan-raises");
    let running = stand.run("fail");
    stand.wait_for("said", "ValueError: no light");
    drop(running);
    let said = stand.lines("said");
    let logged: Vec<_> = said.iter().filter(|line| line.contains("no light")).collect();
    assert_eq!(logged.len(), 1, "{said:#?}");
    let line = OBSERVATORY.lines().position(|line| line.contains("no light")).unwrap() + 1;
    let expected = format!(
        "component guider, port frame: ValueError: no light (observatory.py, line {line}); further failures are counted"
    );
    assert!(logged[0].ends_with(&expected), "{}", logged[0]);
    // Another thread than the instance's: CAMPANILE_COMPONENT_ARGUMENT, half of it.
    let running = stand.run("send elsewhere");
    stand.wait_for("log", "guider.offset 1 3.5");
    drop(running);
    fs::remove_file(stand.folder.join("log")).unwrap();
    for (does, reason) in [("break", "the shutter is stuck ("), ("leave", "SystemExit")] {
        let running = stand.run(does);
        stand.wait_for("log", &format!("guider failed: {reason}"));
        stand.wait_for("log", "guider restarted: ");
        drop(running);
        fs::remove_file(stand.folder.join("log")).unwrap();
    }
}

#[test]
fn a_handler_in_python_that_hangs_is_reported_and_does_not_hold_up_the_end() {
    let stand = Stand::new("plan-hangs");
    let mut running = stand.run("hang");
    stand.wait_for("said", "component guider of server control has a handler that has not returned for ");
    assert!(running.ended(Duration::ZERO).is_none());
    assert!(!stand.lines("said").contains(&"control ends".to_owned()));
    drop(running);
    // It was not killed.
    assert!(stand.lines("said").contains(&"control ends".to_owned()), "{:#?}", stand.lines("said"));
}

#[test]
fn a_thread_of_a_component_in_python_does_not_hold_up_the_end() {
    let stand = Stand::new("plan-threads");
    let running = stand.run("wait");
    stand.wait_for("log", "guider.offset 1 1");
    drop(running);
    assert!(stand.lines("said").contains(&"control ends".to_owned()), "{:#?}", stand.lines("said"));
    // Nor is it in the way of a check.
    let waits = format!("{OBSERVATORY}\nthreading.Thread(target=threading.Event().wait).start()\n");
    fs::write(stand.folder.join("observatory.py"), waits).unwrap();
    drop(stand.plan(&[]).unwrap());
}

#[test]
fn a_check_of_a_file_that_does_not_come_to_its_end_is_interrupted() {
    let stand = Stand::new("plan-blocks");
    let file = stand.folder.join("blocks.py");
    let marker = stand.folder.join("begun");
    fs::write(&file, format!("open({marker:?}, 'w').close()\nimport threading\nthreading.Event().wait()\n")).unwrap();
    // Tests that run in the background have the signal ignored.
    let mut describing = Command::new("env");
    describing.arg("--default-signal=INT").arg(stand.folder.join("python"));
    describing.args(["-P", "-m", "campanile._serve", "--describe"]).arg(&file).stdin(Stdio::null());
    let mut describing = Killed(describing.stdout(Stdio::null()).spawn().unwrap());
    wait_until("the file to be imported", || marker.exists());
    let id = describing.id().to_string();
    assert!(output_in_time(Command::new("kill").args(["-s", "INT", &id])).status.success());
    wait_until("the end of the check", || describing.try_wait().unwrap().is_some());
}

#[test]
fn two_servers_have_files_of_one_name_in_two_folders() {
    let stand = Stand::new("plan-folders");
    for folder in ["dome", "control"] {
        fs::create_dir(stand.folder.join(folder)).unwrap();
        fs::write(stand.folder.join(folder).join("observatory.py"), OBSERVATORY).unwrap();
    }
    let changes = [
        ("observatory.py#Camera", "dome/observatory.py#Camera"),
        ("observatory.py#Guider", "control/observatory.py#Guider"),
        ("observatory.py#Recorder", "control/observatory.py#Recorder"),
    ];
    let running = stand.plan(&changes).unwrap().run().unwrap();
    stand.wait_for("log", "guider.offset 1 1");
    drop(running);
    let said = stand.plan(&[changes[0], changes[1]]).unwrap_err().join("\n");
    let expected =
        "instances.recorder: control/observatory.py and observatory.py are in two folders, and the server control";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn a_refusal_of_a_component_in_python_ends_the_plan() {
    let stand = Stand::new("plan-refuses");
    let refused = stand.plan(&[("#guider", "does = \"refuse\"")]).unwrap().run().unwrap_err();
    assert!(refused.to_string().starts_with("servers.control: it ended with exit status: 1 before"), "{refused}");
    stand.wait_for("said", "guider failed: RuntimeError: not today (observatory.py, line ");
    let refused = stand.plan(&[("gain = 2", "gain = \"much\"")]).unwrap().run().unwrap_err();
    assert!(refused.to_string().starts_with("servers.control: "), "{refused}");
    stand.wait_for("said", "guider failed: TypeError: the property gain is 'much': give it, a float");
}

/// What stands in the file instead, and what is said then.
const MISTAKES: [(&str, &str, &str); 9] = [
    ("class Camera:", "class Camera", "SyntaxError: expected ':' (observatory.py, line 30)"),
    ("import time\n", "import nowhere\n", "ModuleNotFoundError: No module named 'nowhere' (observatory.py, line 6)"),
    ("print(\"loaded\")", "raise SystemExit(0)", "SystemExit: 0 (observatory.py, line 11)"),
    ("on_shutter", "on_shuter", "Camera.shutter has no handler: add def on_shutter(self, tick, ports)"),
    ("timer(\"10ms\")", "timer(\"10 minutes\")", "ValueError: '10 minutes' is no interval: write timer(\"100ms\")"),
    (
        "shutter: Timer = timer(\"10ms\")",
        "shutter: Timer",
        "Camera.shutter has no interval: write shutter: Timer = timer",
    ),
    ("log: str\n", "log: bytes\n", "Recorder.log: <class 'bytes'> is no port, and no type of a property: bool, int,"),
    ("log: str\n", "log: str\n    lane: int = 1\n", "component Recorder: plans have the key lane for themselves"),
    ("@component\n", "", "it has no components: put @component, of campanile.component, before a class"),
];

#[test]
fn a_file_that_is_wrong_is_refused_with_what_to_do() {
    let stand = Stand::new("plan-mistakes");
    let refused = |changes: &[(&str, &str)]| stand.plan(changes).unwrap_err().join("\n");
    for (from, to, expected) in MISTAKES {
        assert!(OBSERVATORY.contains(from), "{from}");
        fs::write(stand.folder.join("observatory.py"), OBSERVATORY.replace(from, to)).unwrap();
        let said = refused(&[]);
        assert!(said.starts_with("instances.camera: observatory.py: ") && said.contains(expected), "{to}: {said}");
    }
    fs::write(stand.folder.join("observatory.py"), OBSERVATORY).unwrap();
    let said = refused(&[("gain = 2", "gian = 2")]);
    assert!(said.contains("the property gain is missing: give it, a float"), "{said}");
    let said = refused(&[("Guider\"", "Gider\"")]);
    assert!(said.contains("the server control has no component observatory.py#Gider; it has: "), "{said}");
    let said = refused(&[("observatory.py#Recorder", "dome.py#Recorder")]);
    assert!(said.starts_with("instances.recorder: dome.py: FileNotFoundError: "), "{said}");
    let said = refused(&[("python = \"./python\"", "python = \"./pithon\"")]);
    assert!(said.contains("pithon, the server's `python`: No such file or directory"), "{said}");
    let said = refused(&[("python = \"./python\"", "program = \"/bin/true\"\npython = \"./python\"")]);
    assert!(said.contains("servers.dome: it has `python`, and a program"), "{said}");
    stand.write_interpreter("/nowhere");
    let said = refused(&[]);
    let expected = "-m campanile._serve ended with exit status: 1; its own words stand above. If it lacks the module campanile, install the wheel: ";
    assert!(said.contains(expected) && said.ends_with("python -m pip install campanile-….whl"), "{said}");
}
