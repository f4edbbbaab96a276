//! Python's tests, against a service of this process: the module that cargo has built, and the files beside it, put together as they are in
//! the wheel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod plans;

use campanile::{Consumer, Event, Settings};
use interop::{Orb, channel_for_programs, further_consumer, supplier};
use service::{Config, Dds, DdsJoin, DeclaredChannel, DeclaredValue, Service, StoreConfig};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use testing::{Killed, Leash, NextInTime, output_in_time, output_of_suite, own_loopback, wait_until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The interpreter with what the tests need, as `interop/install.sh` has made it.
fn python() -> PathBuf {
    let python = root().join("target/interop/python/bin/python");
    assert!(python.exists(), "{} is missing: run interop/install.sh", python.display());
    python
}

/// A folder with the package as the wheel has it.
fn package(of: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let built = this.parent().unwrap().join("lib_native.so");
    assert!(built.exists(), "cargo has not built {}", built.display());
    let folder = root().join("target/python").join(of);
    drop(fs::remove_dir_all(&folder));
    let package = folder.join("campanile");
    fs::create_dir_all(&package).unwrap();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/campanile")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    fs::copy(built, package.join("_native.abi3.so")).unwrap();
    folder
}

fn begin_at(listen: &str) -> Service {
    Service::start(Config { listen: listen.to_owned(), ..Config::default() }).unwrap()
}

fn with_package(folder: &Path, server: &str) -> Command {
    let mut command = Command::new(python());
    command
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CAMPANILE_SERVER", server)
        .env_remove("CAMPANILE_TRANSPORT")
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("pytests"));
    command
}

#[test]
fn pythons_own_tests_pass() {
    let service = begin_at(&format!("{}:0", own_loopback()));
    let folder = package("pytest");
    let mut command = with_package(&folder, &service.address().to_string());
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-x", "."]);
    let output = output_of_suite(&mut command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

/// The same, but for what is about a service.
#[test]
fn pythons_own_tests_pass_over_dds() {
    let folder = package("pytest-dds");
    let context = folder.join("config/campanile");
    fs::create_dir_all(&context).unwrap();
    // Cyclone has domains 0 to 232; those of another run may be there, too, and each test has a channel of its own.
    let domain = 30 + std::process::id() % 200;
    // One process has found itself at once; the other context is for what is to find another process, on a busy machine, too.
    let of = |name: &str, settle_ms: u32| {
        format!(
            "[contexts.{name}.dds]\ndomain_default = {domain}\ninterface = \"127.0.0.1\"\npeers = [\"127.0.0.1\"]\n\
             settle_ms = {settle_ms}\nlate_joiners = 1000\n"
        )
    };
    let contexts = format!("selected = \"test\"\n{}{}", of("test", 20), of("apart", 5000));
    fs::write(context.join("contexts.toml"), contexts).unwrap();
    // The tests are not to look for a service.
    let mut command = with_package(&folder, "127.0.0.1:1");
    command.env("CAMPANILE_TRANSPORT", "dds");
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-x", "test_service.py"]);
    let output = output_of_suite(&mut command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

#[test]
fn what_the_types_say_is_what_the_code_does() {
    let folder = package("mypy");
    let mut command = with_package(&folder, "127.0.0.1:1");
    command.args(["-m", "mypy", "--strict", "--cache-dir", "/dev/null", "-p", "campanile"]);
    let output = output_of_suite(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Programs of users, which are to please both checkers as strictly as they can be.
#[test]
fn programs_of_readme_and_tutorial_and_one_with_all_there_is_please_mypy_and_pyright_strictly() {
    const README: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let folder = package("checked");
    let programs = folder.join("programs");
    fs::create_dir(&programs).unwrap();
    for (number, block) in blocks(README, "python").into_iter().enumerate() {
        fs::write(programs.join(format!("readme{number}.py")), block.to_owned() + "\n").unwrap();
    }
    for name in ["wind.py", "strong.py"] {
        fs::write(programs.join(name), program_of_the_tutorial(name)).unwrap();
    }
    let typed = Path::new(env!("CARGO_MANIFEST_DIR")).join("pytests/typed_program.py");
    fs::copy(&typed, programs.join("typed_program.py")).unwrap();
    let files: Vec<PathBuf> = fs::read_dir(&programs).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in &files {
        let mut mypy = with_package(&folder, "127.0.0.1:1");
        mypy.env("MYPYPATH", &folder)
            .args(["-m", "mypy", "--strict", "--cache-dir"])
            .arg(folder.join("cache"))
            .arg(file);
        let output = output_of_suite(&mut mypy);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let pyright = python().with_file_name("pyright");
    if !pyright.exists() {
        eprintln!("{} is missing (interop/install.sh fetches it): left out", pyright.display());
        return;
    }
    let settings = r#"{"typeCheckingMode": "strict", "include": ["programs"], "extraPaths": ["."]}"#;
    fs::write(folder.join("pyrightconfig.json"), settings).unwrap();
    let output =
        output_of_suite(Command::new(pyright).arg("-p").arg(&folder).env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // And it does what it says.
    let service = begin_at(&format!("{}:0", own_loopback()));
    let output = output_in_time(with_package(&folder, &service.address().to_string()).arg("typed_program.py"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_program_begins_in_the_history_and_goes_on_where_it_was() {
    let folder = package("history");
    let properties = [("HistoryEvents".to_owned(), DeclaredValue::Number(1_000))].into();
    let config = Config {
        listen: format!("{}:0", own_loopback()),
        channels: vec![DeclaredChannel { name: "Weather".into(), properties, lane: Vec::new(), timers: Vec::new() }],
        store: StoreConfig { directory: Some(folder.join("store")), ..StoreConfig::default() },
        ..Config::default()
    };
    let service = Service::start(config).unwrap();
    let output = output_in_time(with_package(&folder, &service.address().to_string()).arg("history_program.py"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "all is well\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// The blocks of a page that are in a language.
fn blocks(page: &'static str, language: &str) -> Vec<&'static str> {
    let begun = page.split("\n```").skip(1).step_by(2);
    begun.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// The declared channel of docs/dds.md was another one than that which Python's programs meant by its name: nothing came either way.
#[test]
fn the_page_about_dds_is_true_for_programs_in_python() {
    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dds.md"));
    let (tables, programs) = (blocks(PAGE, "toml"), blocks(PAGE, "python"));
    let [publishes, gets] = programs[..] else { panic!("two programs") };
    let mut config: Config = toml::from_str(tables[0]).unwrap();
    let alone = tables.iter().find(|table| table.contains("multicast = \"never\"")).unwrap();
    // On this machine alone, in a domain that no other test has: others of this process have that of its number.
    let domain = 30 + (std::process::id() + 100) % 200;
    let joins = config.dds.joins.drain(..).map(|join| DdsJoin { domain, ..join }).collect();
    config.dds = Dds { joins, ..toml::from_str::<Config>(alone).unwrap().dds };
    let service = Service::start(Config { listen: format!("{}:0", own_loopback()), ..config }).unwrap();
    let (folder, address) = (package("dds-page"), service.address().to_string());
    let of_dds = root().join("target/interop/dds/bin");
    let uri = "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address=\"127.0.0.1\"/></Interfaces>\
               <AllowMulticast>false</AllowMulticast></General><Discovery><Peers><Peer address=\"127.0.0.1\"/></Peers>\
               <ParticipantIndex>auto</ParticipantIndex></Discovery></Domain></CycloneDDS>";

    let mut shows = Command::new(of_dds.join("cyclonedds"));
    // It looks for the topic for a second where it is not told another time.
    shows
        .args(["subscribe", "Wind", "--id", &domain.to_string(), "--qos", "scan-random", "--runtime", "5s"])
        .env("CYCLONEDDS_URI", uri);
    let mut shows = shows.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let _leash = Leash::of_suite(&shows, "what cyclonedds prints");
    let (sender, lines) = channel();
    let printed = BufReader::new(shows.stdout.take().unwrap()).lines();
    let printer = std::thread::spawn(move || printed.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    wait_until("the tool shows what the program has published", || {
        let output = output_in_time(with_package(&folder, &address).args(["-c", publishes]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines.try_iter().any(|line| line.contains("Wind(station='OSF', speed=7.25)"))
    });
    shows.kill().unwrap();
    shows.wait().unwrap();
    printer.join().unwrap();

    let mut writes = Command::new(of_dds.join("python3"));
    writes.arg("dds_program.py").args([&domain.to_string(), "Weather"]).env("CYCLONEDDS_URI", uri);
    writes.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("pytests"));
    let mut writes = writes.stdin(Stdio::piped()).spawn().unwrap();
    let _leash = Leash::of_suite(&writes, "a program of DDS");
    let output = output_in_time(with_package(&folder, &address).args(["-c", gets]));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.trim(), "Wind(station='OSF', speed=9.5)", "{err}");
    drop(writes.stdin.take());
    assert!(writes.wait().unwrap().success());
    let orb = client::Orb::new(client::OrbOptions::default());
    let factory = client::notify::EventChannelFactory::unchecked(orb.resolve_service(&address).unwrap());
    assert_eq!(factory.get_all_channels().unwrap(), [0, 1], "there is one channel of the name, and the default one");
}

#[test]
fn a_program_goes_on_when_the_service_was_restarted() {
    let service = begin_at(&format!("{}:0", own_loopback()));
    let address = service.address().to_string();
    let folder = package("restart");
    let mut child = with_package(&folder, &address)
        .arg("restart_program.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _leash = Leash::of_suite(&child, "a Python program");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut input = child.stdin.take().unwrap();
    let mut next = || lines.next().unwrap_or_else(|| panic!("the program ended"));
    assert_eq!([next(), next()], ["received 0", "received 0"]);
    service.shutdown();
    writeln!(input, "publish").unwrap();
    assert_eq!(next(), "UnreachableError, may be published again: True");
    assert_eq!(next(), "waits");
    let _service = begin_at(&address);
    assert_eq!(next(), "published");
    writeln!(input, "go on").unwrap();
    assert_eq!([next(), next()], ["received 2", "received 2"]);
    assert_eq!(next(), "told of a gap");
    assert!(child.wait().unwrap().success());
}

/// A program that waits for a service holds off neither Ctrl-C, nor a thread that closes its supplier, nor its own end, at which a daemon
/// thread that came back from the library would have been unwound, and the process aborted.
#[test]
fn a_program_that_waits_for_a_service_is_interrupted_closes_and_ends_meanwhile() {
    let service = begin_at(&format!("{}:0", own_loopback()));
    let mut child = with_package(&package("wait"), &service.address().to_string())
        .arg("wait_program.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let leash = Leash::of_suite(&child, "a Python program");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut input = child.stdin.take().unwrap();
    let mut next = || lines.next().unwrap_or_else(|| panic!("the program ended"));
    assert_eq!(next(), "published");
    service.shutdown();
    writeln!(input, "go on").unwrap();
    assert_eq!(next(), "ended by close, may be published again: True");
    assert_eq!(next(), "interrupted");
    let output = child.wait_with_output().unwrap();
    drop(leash);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// The program that the tutorial has below a line with its name.
fn program_of_the_tutorial(name: &str) -> String {
    let text = fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let heading = format!("\n`{name}`:\n\n```python\n");
    let (_, behind) = text.split_once(&heading).unwrap_or_else(|| panic!("the tutorial has no {name}"));
    let (program, _) = behind.split_once("\n```\n").unwrap();
    format!("{program}\n")
}

/// A program that ends with the test.
struct Running {
    child: Killed,
    _leash: Leash,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _leash = Leash::of_suite(&child, format_args!("{command:?}"));
        Self { child: Killed(child), _leash }
    }
}

#[derive(Event)]
struct Wind {
    station: String,
    speed: f64,
}

/// The second at which the tutorial's program publishes this for the north.
fn second_of(speed: f64) -> u32 {
    let is_it = |second: &u32| (10.0 + 5.0 * f64::from(*second).sin() - speed).abs() < 1e-9;
    (0..600).find(is_it).unwrap_or_else(|| panic!("the tutorial publishes no {speed}"))
}

/// The tutorial said that its program goes on when the service is started again, with HTTP; it ended with `UnreachableError`.
#[test]
fn the_tutorials_programs_go_on_when_the_service_is_started_again() {
    let service = begin_at(&format!("{}:0", own_loopback()));
    let address = service.address().to_string();
    let folder = package("tutorial");
    let start = |name: &str| {
        fs::write(folder.join(name), program_of_the_tutorial(name)).unwrap();
        let mut command = with_package(&folder, &address);
        Running::start(command.current_dir(&folder).args(["-u", name]))
    };
    let (mut strong, mut wind) = (start("strong.py"), start("wind.py"));
    let lines = BufReader::new(strong.child.stdout.take().unwrap()).lines();
    let mut seconds = lines.map(|line| {
        let line = line.unwrap();
        let speed = line.strip_prefix("Wind(station='north', speed=").and_then(|rest| rest.strip_suffix(')'));
        second_of(speed.unwrap_or_else(|| panic!("{line}")).parse().unwrap())
    });
    let before = seconds.next().unwrap();
    service.shutdown();
    let since = Instant::now();
    // The program publishes each second.
    wait_until("the program to publish meanwhile", || since.elapsed() > Duration::from_millis(2500));
    let service = begin_at(&address);
    let (sender, events) = channel();
    let settings = Settings { server: address.clone(), ..Settings::default() };
    let consumer = Consumer::new("Weather").settings(settings);
    let _consumer = consumer.on(move |wind: Wind| drop(sender.send(wind))).unwrap().ready().unwrap();
    let north = std::iter::repeat_with(|| events.next_in_time()).find(|wind: &Wind| wind.station == "north").unwrap();
    let after = second_of(north.speed);
    assert!(after > before, "{after} {before}");
    assert!(seconds.any(|second| second >= after), "the subscriber ended");
    for program in [&mut strong, &mut wind] {
        assert_eq!(program.child.try_wait().unwrap(), None, "it goes on");
    }
    drop(service);
}

/// Each struct comes from one orb, is published again by a program, and the other orb finds each field of it as the first made it.
#[test]
fn what_an_orb_sends_comes_as_objects_and_what_is_published_is_to_an_orb_what_its_idl_says() {
    let folder = package("orbs");
    let pairs = [(Orb::OmniOrb, Orb::JacOrb), (Orb::JacOrb, Orb::OmniOrb)];
    // As a plain Any and then in the body, and as ALMA has it both times.
    let forms = [("any", "body"), ("structured --inside data", "data")];
    for ((from, to), (sent, inside)) in pairs.into_iter().flat_map(|pair| forms.map(|form| (pair, form))) {
        let service = begin_at(&format!("{}:0", own_loopback()));
        let (channel, again) = (channel_for_programs(&service, "Simple"), channel_for_programs(&service, "Again"));
        const SHAPES: &str = "--scenario nested,block --count 20 --block 4000";
        let checks = further_consumer(to, &service, &again, &format!("--form structured --inside {inside} {SHAPES}"));
        let mut child = with_package(&folder, &service.address().to_string())
            .args(["orbs_program.py", if inside == "data" { "alma" } else { "body" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _leash = Leash::of_suite(&child, "a Python program");
        let said = BufReader::new(child.stdout.take().unwrap()).lines().next();
        assert_eq!(said.unwrap().unwrap(), "ready");
        supplier(from, &service, &channel, &format!("--form {sent} {SHAPES}")).end().well();
        checks.end().received_all(20);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
