//! Components in shared objects: plans that run, and objects that are refused. What they do otherwise is in the tests of `crates/component`.

use crate::support::{PROGRAM, TempPath, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testing::{Killed, Leash, output_in_time, shared_object, shared_object_in_cpp, wait_until};

const GUIDER: &str = include_str!("../../../component/tests/c/guider.c");
const GUIDER_IN_CPP: &str = include_str!("../../../component/tests/cpp/guider.cpp");

fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../component/include")
}

/// The library that Cargo makes of an example of `crates/component`.
fn dome() -> PathBuf {
    let dome = Path::new(PROGRAM).with_file_name("examples").join("libdome.so");
    assert!(dome.exists(), "{}: cargo build -p campanile-component --examples", dome.display());
    dome
}

/// A plan with a camera and a recorder in Rust and a guider in C, in a folder with its object.
fn plan(folder: &Path, guider: &str) -> PathBuf {
    shared_object(folder, "libguider.so", GUIDER, &headers());
    std::fs::copy(dome(), folder.join("libdome.so")).unwrap();
    let log = folder.join("log");
    let text = format!(
        "[servers.main]\n[instances.camera]\ncomponent = 'libdome.so#Camera'\n\
         [instances.guider]\ncomponent = 'libguider.so#Guider'\n{guider}\n\
         [instances.recorder]\ncomponent = 'libdome.so#Recorder'\nlog = '{}'\n\
         [connections]\n'camera.frame' = ['guider.frame']\n'guider.offset' = ['recorder.offset']\n",
        log.display()
    );
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, text).unwrap();
    plan
}

fn deploy(command: &str, plan: &Path) -> Command {
    let mut deploy = Command::new(PROGRAM);
    deploy.args(["deploy", command]).arg(plan);
    deploy
}

/// The line in which `check` refuses a plan.
fn refusal(plan: &Path) -> String {
    let output = output_in_time(&mut deploy("check", plan));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let line = said.trim_end();
    assert!(!line.contains('\n'), "{said}");
    line.strip_prefix("campanile: ").unwrap().to_owned()
}

#[test]
fn an_object_with_another_digest_than_the_plan_states_is_refused() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    let without = std::fs::read_to_string(&plan).unwrap();
    let state = |name: &str, digest: &str| {
        std::fs::write(&plan, format!("{without}[artifacts]\n'{name}' = 'sha256:{digest}'\n")).unwrap();
    };
    state("libguider.so", &"0".repeat(64));
    let refused = refusal(&plan);
    assert!(
        refused.starts_with("artifacts.\"libguider.so\": ") && refused.contains(" has the digest sha256:"),
        "{refused}"
    );
    state("libguide.so", &"0".repeat(64));
    assert!(refusal(&plan).ends_with("it has: libdome.so, libguider.so"));
    let output = output_in_time(Command::new("sha256sum").arg(folder.join("libguider.so")));
    state("libguider.so", &text(&output.stdout)[..64]);
    assert!(output_in_time(&mut deploy("check", &plan)).status.success());
}

#[test]
fn one_command_runs_a_plan_of_shared_objects_in_c_and_in_rust() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    let output = output_in_time(&mut deploy("check", &plan));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("plan.toml: 3 instances, nothing stands in the way\n"));
    let mut running = Killed(deploy("run", &plan).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("offsets of the guider in C at the recorder in Rust", || {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        ["guider.offset 1 1", "guider.offset 2 1", "guider.offset 3 1"].iter().all(|line| log.contains(line))
    });
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let _leash = Leash::new(&running, "the end of a plan");
    assert!(running.wait().unwrap().success());
}

/// Waits for an offset of a later frame than has come.
fn wait_for_next(folder: &Path) {
    let offsets = || {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("guider.offset")).count()
    };
    let before = offsets();
    wait_until("an offset of a later frame", || offsets() > before + 1);
}

#[test]
fn a_signal_to_all_processes_of_a_plan_is_left_to_the_command() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    let mut running = Killed(deploy("run", &plan).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = line.trim_end().strip_prefix("main runs as process ").unwrap().parse().unwrap();
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT] {
        kill_process(Pid::from_raw(server).unwrap(), signal).unwrap();
        wait_for_next(&folder);
    }
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    let _leash = Leash::new(&running, "the end of a plan");
    assert!(running.wait().unwrap().success());
}

#[test]
fn objects_that_read_and_print_are_not_in_the_way_of_the_launcher() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    let source = GUIDER
        .replace(
            "struct guider *guider = calloc(",
            "char line[64];\n    printf(\"half a line\");\n    fflush(stdout);\n    \
             if (fgets(line, sizeof line, stdin) != NULL) abort();\n    struct guider *guider = calloc(",
        )
        .replace(
            "static void destroy(",
            "__attribute__((constructor)) static void speak(void) { puts(\"loaded\"); }\nstatic void destroy(",
        );
    assert!(source.contains("half a line") && source.contains("speak"));
    shared_object(&folder, "libguider.so", &source, &headers());
    let output = output_in_time(&mut deploy("check", &plan));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut running = Killed(deploy("run", &plan).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    wait_for_next(&folder);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let _leash = Leash::new(&running, "the end of a plan");
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_crash_is_seen_while_a_process_of_the_object_lives() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2\ndoes = 'crash'");
    let (child, stderr) = (folder.join("child"), folder.join("stderr"));
    let fork = format!(
        "pid_t child = fork();\n        if (child == 0) {{ alarm(100); pause(); _exit(0); }}\n        \
         FILE *file = fopen(\"{}\", \"w\");\n        fprintf(file, \"%d\", (int)child);\n        fclose(file);\n        abort();",
        child.display()
    );
    let source = format!("#include <unistd.h>\n{}", GUIDER.replace("abort();", &fork));
    shared_object(&folder, "libguider.so", &source, &headers());
    let stderr_file = std::fs::File::create(&stderr).unwrap();
    let mut running = Killed(deploy("run", &plan).stdout(Stdio::null()).stderr(stderr_file).spawn().unwrap());
    let leash = Leash::new(&running, "the end of a plan");
    let status = running.wait().unwrap();
    drop(leash);
    // It has lived as long as the server, and ends with it.
    let child = std::fs::read_to_string(child).unwrap();
    wait_until("the end of what the object has started", || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
    });
    let said = std::fs::read_to_string(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("campanile: servers.main: it ended with signal: 6 (SIGABRT)"), "{said}");
}

#[test]
fn a_plan_is_found_in_the_working_folder() {
    let folder = TempPath::folder("objects");
    plan(&folder, "gain = 2");
    let mut serve = Command::new(PROGRAM);
    serve.args(["deploy", "serve", "--plan", "plan.toml", "--server", "main"]).current_dir(&*folder);
    let output = output_in_time(&mut serve);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "configured\n");
}

#[test]
fn types_of_two_modules_are_not_connected() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    let source = GUIDER
        .replace("\"module observatory {\"\n", "\"\"\n")
        .replace("sequence<string> filters; }; };", "sequence<string> filters; };");
    assert!(source.len() < GUIDER.len() - 20);
    shared_object(&folder, "libguider.so", &source, &headers());
    let frame = "struct Frame { unsigned long long number; double brightness; sequence<string> filters; }";
    let expected = format!(
        "connections.\"camera.frame\": camera.frame gives module observatory {{ {frame}; }}, guider.frame takes {frame}: put a component between that makes one of the other"
    );
    assert_eq!(refusal(&plan), expected);
}

#[test]
fn a_handler_in_c_that_fails_is_logged_once_and_the_plan_goes_on() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2\ndoes = 'fail'");
    let text =
        std::fs::read_to_string(&plan).unwrap().replace("['guider.frame']", "['guider.frame', 'recorder.frame']");
    std::fs::write(&plan, text).unwrap();
    let said = run_until_frame(&plan, 3);
    let logged: Vec<_> = said.lines().filter(|line| line.contains("no light")).collect();
    assert_eq!(logged.len(), 1, "{said}");
    assert!(logged[0].ends_with("component guider, port frame: no light; further failures are counted"), "{said}");
}

/// Runs a plan, with what it says, until a frame of this number is recorded.
fn run_until_frame(plan: &Path, number: u32) -> String {
    let folder = plan.parent().unwrap();
    let stderr = std::fs::File::create(folder.join("stderr")).unwrap();
    let mut running = Killed(deploy("run", plan).stdout(Stdio::null()).stderr(stderr).spawn().unwrap());
    wait_until("a later frame", || {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        log.contains(&format!("camera.frame {number} ")) || log.contains(&format!("guider.offset {number} "))
    });
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let _leash = Leash::new(&running, "the end of a plan");
    assert!(running.wait().unwrap().success());
    std::fs::read_to_string(folder.join("stderr")).unwrap()
}

#[test]
fn a_guider_in_cpp_stands_where_one_in_c_does() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2\ndoes = 'say'");
    let text_of_plan = std::fs::read_to_string(&plan).unwrap();
    shared_object_in_cpp(&folder, "libguider.so", GUIDER_IN_CPP);
    let output = output_in_time(&mut deploy("check", &plan));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = run_until_frame(&plan, 3);
    assert!(said.contains("component guider: guider has 1 steps, 18446744073709551615, quiet, 7"), "{said}");
    // What it throws is logged once.
    let fails =
        text_of_plan.replace("'say'", "'fail'").replace("['guider.frame']", "['guider.frame', 'recorder.frame']");
    std::fs::write(&plan, fails).unwrap();
    std::fs::remove_file(folder.join("log")).unwrap();
    let said = run_until_frame(&plan, 3);
    let logged: Vec<_> = said.lines().filter(|line| line.contains("no light")).collect();
    assert_eq!(logged.len(), 1, "{said}");
    assert!(logged[0].ends_with("component guider, port frame: no light; further failures are counted"), "{said}");
    // A property that is missing, and a type of another module.
    std::fs::write(&plan, text_of_plan.replace("gain = 2\n", "")).unwrap();
    assert_eq!(refusal(&plan), "instances.guider: the property gain is missing: give it, a double");
    std::fs::write(&plan, &text_of_plan).unwrap();
    let source = GUIDER_IN_CPP.replace("CAMPANILE_MODULE(Frame, \"observatory\")\n", "");
    assert_ne!(source, GUIDER_IN_CPP);
    shared_object_in_cpp(&folder, "libguider.so", &source);
    let said = refusal(&plan);
    assert!(
        said.contains("camera.frame gives module observatory { struct Frame {")
            && said.contains("guider.frame takes struct Frame"),
        "{said}"
    );
}

#[test]
fn a_crash_in_c_ends_the_plan_which_names_the_server() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2\ndoes = 'crash'");
    let output = output_in_time(&mut deploy("run", &plan));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("campanile: servers.main: it ended with signal: 6 (SIGABRT)"), "{said}");
}

#[test]
fn a_refusal_of_a_component_in_c_is_what_its_server_says() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2\ndoes = 'refuse'");
    let output = output_in_time(&mut deploy("run", &plan));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("guider failed: not today"), "{said}");
    assert!(said.contains("servers.main: it ended with exit status: 1 before it was started"), "{said}");
}

/// What stands in the source instead, and what is said then.
const MISTAKES: [(&str, &str, &str); 19] = [
    (
        "CAMPANILE_COMPONENTS(components)",
        "int nothing_of_campanile;",
        "it exports no campanile_component_v1: end it with CAMPANILE_COMPONENTS",
    ),
    (
        "CAMPANILE_COMPONENTS(components)",
        "const campanile_component_table campanile_component_v1 = { 7, 99, NULL, NULL };",
        "it has version 7 of the interface, and this program 1: build both with headers or crates of one version",
    ),
    (
        "CAMPANILE_COMPONENTS(components)",
        "const uint32_t campanile_component_v1[4] __attribute__((aligned(8))) = { 1, 8 };",
        "its table has 8 octets, and that of version 1 has 24: build it with the header",
    ),
    (
        "CAMPANILE_COMPONENTS(components)",
        "const campanile_component_table campanile_component_v1 = { 1, sizeof campanile_component_v1, NULL, NULL };",
        "the function for its components is a null pointer: use CAMPANILE_COMPONENTS",
    ),
    (
        ".port_count = sizeof ports / sizeof *ports",
        ".port_count = 1000000",
        "component Guider: it says that there are 1000000 ports: at most 256 are taken",
    ),
    (".ports = ports,", ".ports = NULL,", "component Guider: the pointer to its 4 ports is null or not aligned"),
    (".create = create,", ".create = NULL,", "component Guider: its create is a null pointer: give the function"),
    (".name = \"Guider\"", ".name = NULL", "the name of a component is a null pointer: give a text"),
    (
        ".name = \"Guider\"",
        ".name = \"Gui.der\"",
        "the name of a component: \"Gui.der\" is no name: use letters, digits, _ and -",
    ),
    (
        ".name = \"offset\"",
        ".name = \"frame\"",
        "component Guider: two of its ports are called frame: give one another name",
    ),
    (
        ".name = \"does\"",
        ".name = \"gain\"",
        "component Guider: two of its properties are called gain: give one another name",
    ),
    (
        ".kind = CAMPANILE_PORT_TIMER",
        ".kind = 9",
        "component Guider: port rest: its kind is 9: give one of CAMPANILE_PORT_",
    ),
    (
        ".interval_ns = 1000000000,",
        ".interval_ns = 0,",
        "component Guider: port rest: its interval is 0 ns: give 1 to 3600000000000, an hour",
    ),
    (
        ".name = \"peers\", .handler = on_peers",
        ".name = \"peers\"",
        "component Guider: port peers: its handler is a null pointer: give the function",
    ),
    ("sequence<string> filters", "sequence<strin> filters", "component Guider: port frame: its type has a mistake: "),
    (
        "static void destroy(",
        "__attribute__((constructor)) static void crash(void) { abort(); }\nstatic void destroy(",
        "the process that loaded it ended with signal: 6 (SIGABRT)",
    ),
    (
        "static void destroy(",
        "__attribute__((constructor)) static void leave(void) { exit(0); }\nstatic void destroy(",
        "the process that loaded it ended before it had described it: ",
    ),
    (
        ".name = \"does\"",
        ".name = \"lane\"",
        "component Guider: plans have the key lane for themselves: give the property another name",
    ),
    (
        "double x; }; };",
        "double x; }; enum Last { first }; };",
        "component Guider: port offset: Last cannot be an event: it is a enum and no struct; the last definition is the type: put the struct last",
    ),
];

#[test]
fn an_object_that_is_wrong_is_refused_with_what_to_do() {
    let folder = TempPath::folder("objects");
    let plan = plan(&folder, "gain = 2");
    for (from, to, expected) in MISTAKES {
        assert_eq!(GUIDER.matches(from).count(), 1, "{from}");
        // What is left out is not used elsewhere, either.
        let unused =
            ["function", "const-variable"].map(|what| format!("#pragma GCC diagnostic ignored \"-Wunused-{what}\"\n"));
        let source = unused.concat() + &GUIDER.replace(from, to);
        shared_object(&folder, "libguider.so", &source, &headers());
        let said = refusal(&plan);
        assert!(said.starts_with(&format!("instances.guider: libguider.so: {expected}")), "{to}: {said}");
    }
    let object = folder.join("libguider.so");
    // Two components of one name, in a library that is none, for another machine, empty, and away.
    let twice = GUIDER.replace("CAMPANILE_COMPONENTS(components)", "static campanile_component both[2];\n__attribute__((constructor)) static void copy(void) { both[0] = both[1] = components[0]; }\nCAMPANILE_COMPONENTS(both)");
    shared_object(&folder, "libguider.so", &twice, &headers());
    let said = refusal(&plan);
    assert!(said.ends_with("libguider.so: two of its components are called Guider: give one another name"), "{said}");
    let undefined = GUIDER
        .replace("static void destroy(", "void elsewhere(void);\nstatic void destroy(")
        .replace("free(component);", "elsewhere();\n    free(component);");
    shared_object(&folder, "libguider.so", &undefined, &headers());
    let said = refusal(&plan);
    assert!(
        said.contains("undefined symbol: elsewhere: build it with -shared and all libraries that it needs"),
        "{said}"
    );
    let mut octets = std::fs::read(&object).unwrap();
    octets[18] ^= 0x80;
    std::fs::write(&object, &octets).unwrap();
    assert_eq!(
        refusal(&plan),
        "instances.guider: libguider.so: it is built for another machine: build it for this one"
    );
    std::fs::write(&object, "int x;").unwrap();
    assert_eq!(refusal(&plan), "instances.guider: libguider.so: it is no shared object: build it with -shared");
    std::fs::remove_file(&object).unwrap();
    let said = refusal(&plan);
    assert!(said.starts_with("instances.guider: libguider.so: No such file"), "{said}");
    assert!(said.ends_with("build it, or correct the path, which begins at the plan's folder"), "{said}");
}

#[test]
fn a_plan_that_names_objects_wrongly_is_refused() {
    let folder = TempPath::folder("objects");
    let path = plan(&folder, "gain = 2");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        (
            "libguider.so#Guider",
            "libguider.so#Gyder",
            "instances.guider: the server main has no component libguider.so#Gyder; it has: libdome.so#Camera, libdome.so#Recorder, libguider.so#Guider",
        ),
        (
            "libguider.so#Guider",
            "Guider",
            "instances.guider: the server main has no component Guider; it has: libdome.so#Camera, libdome.so#Recorder",
        ),
        ("gain = 2", "", "instances.guider: the property gain is missing: give it, a double"),
        (
            "gain = 2",
            "gain = 2\ngian = 3",
            "instances.guider: the component libguider.so#Guider has no property gian; it has: does, gain",
        ),
        (
            "'guider.frame'",
            "'recorder.offset'",
            "connections.\"camera.frame\": camera.frame gives struct Frame { unsigned long long number; double brightness; sequence<string> filters; }, recorder.offset takes struct Offset { unsigned long long number; double x; }: put a component between that makes one of the other",
        ),
        ("[servers.main]\n", "", "instances.camera: there is no server main: add [servers.main]"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let output = output_in_time(&mut deploy("check", &path));
        assert_eq!(output.status.code(), Some(1));
        let said = crate::support::text(&output.stderr);
        assert!(said.lines().any(|line| line == format!("campanile: {expected}")), "{said}");
    }
    std::fs::write(&path, "[servers.main]\n[instances.x]\ncomponent = 'X'\n").unwrap();
    let expected = "instances.x: the server main has no component X; name one of a file, as libguider.so#Guider or guider.py#Guider, or give the server its program";
    assert_eq!(refusal(&path), expected);
}
