//! Programs in other languages: built once, and run with what they ask the driver for.

use campanile::{EventForm, Settings};
use service::{Config, DeclaredChannel, DeclaredValue, Service, StoreConfig};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use testing::{Killed, Leash};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
    Java,
}

pub(crate) const C: Language = Language::C;
pub(crate) const CPP: Language = Language::Cpp;
pub(crate) const JAVA: Language = Language::Java;

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Java => "Java",
        })
    }
}

pub(crate) fn begin() -> (Service, Settings) {
    begin_at(&format!("{}:0", testing::own_loopback()))
}

pub(crate) fn begin_at(listen: &str) -> (Service, Settings) {
    let service = Service::start(Config { listen: listen.to_owned(), ..Config::default() }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    (service, settings)
}

/// A service that stores the history of the channel `Weather`, in a folder of that test's.
pub(crate) fn begin_with_history(listen: &str, folder: &Path) -> Service {
    let properties = [("HistoryEvents".to_owned(), DeclaredValue::Number(1_000))].into();
    let config = Config {
        listen: listen.to_owned(),
        channels: vec![DeclaredChannel { name: "Weather".into(), properties, lane: Vec::new(), timers: Vec::new() }],
        store: StoreConfig { directory: Some(folder.to_owned()), ..StoreConfig::default() },
        ..Config::default()
    };
    Service::start(config).unwrap()
}

/// What a command prints; it has to succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; interop/install.sh installs what is needed"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// What programs of users are to be free of.
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];

/// All programs, built.
pub(crate) struct Programs {
    folder: PathBuf,
}

/// The programs; they are built when they are first asked for.
pub(crate) fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(Programs::build)
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Programs {
    fn build() -> Self {
        let test = std::env::current_exe().unwrap();
        // Beside this program, and not a level above, where only `cargo build` puts it.
        let library = test.parent().unwrap().join("libcampanile_ffi.so");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ffi");
        fs::create_dir_all(&folder).unwrap();
        let prefix = folder.join("prefix");
        output(Command::new(here().join("install.sh")).arg(&library).arg(&prefix));
        for (form, event_domain) in [(EventForm::Body, ""), (EventForm::Alma, "ALMA")] {
            let folder = folder.join(form.to_string()).join("campanile");
            fs::create_dir_all(&folder).unwrap();
            let context = format!("event_form = \"{form}\"\nevent_domain = \"{event_domain}\"\n");
            fs::write(folder.join("contexts.toml"), format!("selected = \"test\"\n[contexts.test]\n{context}"))
                .unwrap();
        }
        let programs = Self { folder };
        programs.build_c();
        programs
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join("prefix")
    }

    /// What pkg-config says.
    fn flags(&self) -> Vec<String> {
        let found = self.prefix().join("lib/pkgconfig");
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", "campanile"]).env("PKG_CONFIG_PATH", found);
        let mut flags: Vec<String> = output(&mut command).split_whitespace().map(str::to_owned).collect();
        flags.push(format!("-Wl,-rpath,{}", self.prefix().join("lib").display()));
        flags
    }

    fn build_c(&self) {
        // `CAMPANILE_SANITIZE=address` has both look at each access to memory.
        let sanitize = std::env::var_os("CAMPANILE_SANITIZE").map(|what| format!("-fsanitize={}", what.display()));
        let common = ["-g", "-pthread"];
        for (to, compiler, standard, source) in [
            ("cc", "cc", "-std=c11", "tests/c/scenarios.c"),
            ("soak", "cc", "-std=c11", "tests/c/soak.c"),
            ("c++", "c++", "-std=c++17", "tests/cpp/scenarios.cpp"),
            ("stop", "c++", "-std=c++20", "tests/cpp/stop.cpp"),
        ] {
            let mut command = Command::new(compiler);
            command
                .args([standard, "-D_GNU_SOURCE"])
                .args(WARNINGS)
                .args(common)
                .args(&sanitize)
                .arg(here().join(source));
            command.arg("-o").arg(self.folder.join(to)).args(self.flags()).arg("-lm");
            output(&mut command);
        }
    }

    fn build_java(&self) {
        let classes = self.folder.join("classes");
        fs::create_dir_all(&classes).unwrap();
        let mut sources = Vec::new();
        for folder in ["src/main/java", "src/test/java"] {
            find_sources(&here().join("java").join(folder), &mut sources);
        }
        // The first example of the README, in a program with all names of `java.util.function`.
        let readme = fs::read_to_string(here().join("java/README.md")).unwrap();
        let example = readme.split("```").nth(1).unwrap().strip_prefix("java\n").unwrap();
        let (imports, body) = example.split_once("\n\n").unwrap();
        let first = self.folder.join("First.java");
        let named = "static final Consumer<String> PRINT = System.out::print;\nstatic final Supplier<String> NOTHING = () -> \"\";";
        let all = "import io.campanile.*;\nimport java.util.function.*;";
        let main = format!(
            "public static void main(String[] args) throws Exception {{\n{body}PRINT.accept(NOTHING.get());\n}}"
        );
        fs::write(&first, format!("{imports}\n{all}\nfinal class First {{\n{named}\n{main}\n}}\n")).unwrap();
        sources.push(first);
        let mut command = Command::new("javac");
        command.args(["-Xlint:all", "-Werror", "-proc:none", "-encoding", "UTF-8", "--release", "17", "-cp"]);
        command.arg(jna()).arg("-d").arg(&classes).args(sources);
        output(&mut command);
    }

    /// The first example of the README for Java, with a service's address.
    pub(crate) fn readme_example_in_java(&self, server: &str) -> Command {
        let mut command = self.java("First");
        command.env("CAMPANILE_SERVER", server).env_remove("CAMPANILE_TRANSPORT").env_remove("CAMPANILE_CONTEXT");
        command.env("XDG_CONFIG_HOME", self.folder.join(EventForm::Body.to_string()));
        command
    }

    /// A class of the programs in Java, to be run.
    fn java(&self, class: &str) -> Command {
        static BUILT: OnceLock<()> = OnceLock::new();
        BUILT.get_or_init(|| self.build_java());
        let mut command = Command::new("java");
        let mut path = jna().into_os_string();
        path.push(":");
        path.push(self.folder.join("classes"));
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"]).arg(path);
        let mut library = std::ffi::OsString::from("-Dcampanile.library=");
        library.push(self.prefix().join("lib/libcampanile.so"));
        command.arg(library).arg(class);
        command
    }

    /// Builds the first example of a README.
    pub(crate) fn readme_example(&self, readme: &str, compiler: &str, standard: &str, extension: &str) -> PathBuf {
        let text = fs::read_to_string(here().join(readme)).unwrap();
        let example = text.split("```").nth(1).unwrap().split_once('\n').unwrap().1;
        assert!(example.lines().count() < 10, "{readme}: the first example has to be short");
        let source = self.folder.join("first").with_extension(extension);
        fs::write(&source, example).unwrap();
        let program = self.folder.join(format!("first-{extension}"));
        let mut command = Command::new(compiler);
        command.arg(standard).args(WARNINGS).arg(&source).arg("-o").arg(&program).args(self.flags());
        output(&mut command);
        program
    }

    /// Builds the example as a user of the installed package would.
    pub(crate) fn cmake_example(&self) -> PathBuf {
        let folder = self.folder.join("example");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for file in ["CMakeLists.txt", "weather.cpp"] {
            fs::copy(here().join("cpp/example").join(file), folder.join(file)).unwrap();
        }
        let mut prefix = std::ffi::OsString::from("-DCMAKE_PREFIX_PATH=");
        prefix.push(self.prefix());
        let warnings = format!("-DCMAKE_CXX_FLAGS={}", WARNINGS.join(" "));
        let mut configure = Command::new("cmake");
        configure.arg("-B").arg(folder.join("build")).arg("-S").arg(&folder).args([prefix, warnings.into()]);
        output(&mut configure);
        output(Command::new("cmake").arg("--build").arg(folder.join("build")));
        folder.join("build/weather")
    }

    /// The program that ends its loop over events by a stop token.
    pub(crate) fn stop_example(&self) -> PathBuf {
        self.folder.join("stop")
    }

    /// Starts one of the programs with a service's address.
    pub(crate) fn start(&self, language: Language, words: &[&str], server: &str) -> Program {
        self.start_with(language, words, server, EventForm::Body)
    }

    /// The same, which publishes in that form.
    pub(crate) fn start_with(&self, language: Language, words: &[&str], server: &str, form: EventForm) -> Program {
        let mut command = self.command(language, words);
        command.env("CAMPANILE_SERVER", server).env_remove("CAMPANILE_TRANSPORT").env_remove("CAMPANILE_CONTEXT");
        Program::start(language, command.env("XDG_CONFIG_HOME", self.folder.join(form.to_string())))
    }

    /// Starts the program of consumers that come and go, with a service's address.
    pub(crate) fn start_soak(&self, visits: u32, server: &str) -> Program {
        let mut command = Command::new(self.folder.join("soak"));
        command.args([visits, next_domain().0, 10].map(|number| number.to_string())).env("HOME", &self.folder);
        command.env("CAMPANILE_SERVER", server).env_remove("CAMPANILE_TRANSPORT").env_remove("CAMPANILE_CONTEXT");
        // What each thread keeps for its next allocations is not counted as allocated.
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        Program::start(C, &mut command)
    }

    /// Starts one of the programs over DDS, in a domain of its own on this machine alone.
    pub(crate) fn start_over_dds(&self, language: Language, words: &[&str], late_joiners: u32) -> Program {
        let (domain, number) = next_domain();
        let folder = self.folder.join(format!("dds-{number}"));
        fs::create_dir_all(folder.join("campanile")).unwrap();
        let context = format!(
            "selected = \"test\"\n[contexts.test.dds]\ndomain_default = {domain}\ninterface = \"127.0.0.1\"\n\
             peers = [\"127.0.0.1\"]\nsettle_ms = 20\nlate_joiners = {late_joiners}\n"
        );
        fs::write(folder.join("campanile/contexts.toml"), context).unwrap();
        let mut command = self.command(language, words);
        command.env("CAMPANILE_TRANSPORT", "dds").env("XDG_CONFIG_HOME", &folder).env_remove("CAMPANILE_CONTEXT");
        // The program is not to look for a service.
        Program::start(language, command.env("CAMPANILE_SERVER", "127.0.0.1:1"))
    }

    fn command(&self, language: Language, words: &[&str]) -> Command {
        let mut command = match language {
            Language::C => Command::new(self.folder.join("cc")),
            Language::Cpp => Command::new(self.folder.join("c++")),
            Language::Java => self.java("io.campanile.scenarios.Scenarios"),
        };
        if words.first() == Some(&"fork") {
            // A child leaves alone what is the parent's, which looks like a leak to the sanitizer.
            command.env("ASAN_OPTIONS", "detect_leaks=0");
        }
        command.args(words);
        command
    }
}

/// A DDS domain that no other program of this run has, and how many were given before.
fn next_domain() -> (u32, u32) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Cyclone has domains 0 to 232; those of another run may be there, too.
    (30 + std::process::id() % 5 * 40 + number % 40, number)
}

fn jna() -> PathBuf {
    let jna = here().join("../../target/interop/jna/jna.jar");
    assert!(jna.exists(), "{} is missing: interop/install.sh fetches it", jna.display());
    jna
}

fn find_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "java") {
            sources.push(path);
        }
    }
}

/// A program that runs.
pub(crate) struct Program {
    language: Language,
    child: Killed,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    leash: Option<Leash>,
}

impl Program {
    fn start(language: Language, command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stderr = child.stderr.take().unwrap();
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let leash = Leash::of_suite(&child, format!("the end of {command:?}"));
        Self {
            language,
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stderr: Some(reader),
            leash: Some(leash),
            child: Killed(child),
        }
    }

    /// What it asks for next; `None` at its end.
    pub(crate) fn next_request(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(request) = line.strip_prefix("> ") {
                return Some(request.trim_end().to_owned());
            }
        }
    }

    /// Says that it is done.
    pub(crate) fn go_on(&mut self) {
        // A program that has failed meanwhile says so by its end.
        let _ = self.stdin.as_mut().unwrap().write_all(b"done\n");
    }

    /// Does what it asks for until its end.
    pub(crate) fn run(&mut self, mut serve: impl FnMut(&str)) {
        while let Some(request) = self.next_request() {
            serve(&request);
            self.go_on();
        }
    }

    fn end(&mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        while self.next_request().is_some() {}
        drop(self.leash.take());
        let status = self.child.wait().unwrap();
        (status, self.stderr.take().unwrap().join().unwrap())
    }

    /// What it says beside, when it has to have passed.
    pub(crate) fn passes(&mut self) -> String {
        let (status, said) = self.end();
        assert!(status.success(), "{} has failed: {status}\n{said}", self.language);
        said
    }

    /// What it says, when it has to have failed.
    pub(crate) fn fails(&mut self) -> String {
        let (status, said) = self.end();
        assert!(!status.success(), "{}", self.language);
        said
    }

    /// What it said, once it has ended.
    pub(crate) fn errors(&mut self) -> String {
        let _ = self.child.kill();
        self.end().1
    }
}

/// Set where a test has started itself to be a service.
const SERVES: &str = "CAMPANILE_TEST_SERVES";

/// A service in a process of its own, which can be stopped in the middle of what it does.
pub(crate) struct Frozen {
    pub(crate) address: String,
    child: Killed,
}

impl Frozen {
    /// Starts the test that calls this once more, in a process of its own, where it is to [serve](Self::serve).
    pub(crate) fn start() -> Self {
        let test = thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "--test-threads=1", &test]).env(SERVES, "yes");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.map(Result::unwrap).find_map(|line| line.split_once("address ").map(|(_, is)| is.to_owned()));
        Self { address: address.unwrap(), child: Killed(child) }
    }

    /// Is such a service, if this process was started for that: until the process that started it is gone.
    pub(crate) fn serve() -> bool {
        if std::env::var_os(SERVES).is_none() {
            return false;
        }
        let (service, _settings) = begin();
        let _ = writeln!(std::io::stdout(), "address {}", service.address());
        let _ = std::io::stdin().read_line(&mut String::new());
        true
    }

    /// It does nothing more.
    pub(crate) fn freeze(&self) {
        output(Command::new("kill").args(["-STOP", &self.child.id().to_string()]));
        // It is stopped when the last of its threads is, which may be at work yet.
        let threads = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let is_stopped = |thread: fs::DirEntry| {
            let said = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            said.rsplit_once(") ").is_none_or(|(_, behind)| behind.starts_with('T'))
        };
        testing::wait_until("the service to be stopped", || fs::read_dir(&threads).unwrap().flatten().all(is_stopped));
    }
}
