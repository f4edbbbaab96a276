//! Blocks of a shell in documents for users: each is run, in order, as its reader would.
//!
//! A document is run in a folder, a network and an `/etc` of its own, in which ports and addresses are as it writes them: each address that it
//! names is one of this machine's. Of a shell are indented blocks and fences `sh` and `console`; in the latter, and where lines begin with
//! `$ `, the other lines are what is printed: numbers stand for any number, `…` for anything, an object of JSON for one with the same keys.
//! A program under a line "`NAME`:" is written to that file. What goes on until Ctrl-C (`goes_on`) is interrupted at the document's end, or
//! before the next service starts, and has to end well then; all else has to succeed, unless its comment speaks of its status.
//!
//! Comments of HTML, which readers do not see, say the rest:
//! - `<!-- not run: REASON -->`: none of the next block; `` <!-- not run `BEGINNING`: REASON --> ``: none of its lines that begin so;
//! - `<!-- first: COMMAND -->`: what the text supposes, and a test has to do; `` <!-- first `BEGINNING`: COMMAND --> ``: before such a line;
//! - `<!-- file: NAME -->`: the next fence is written there; `<!-- Ctrl-C -->`: the reader has ended what runs.

use crate::namespaces::{WITHIN, within_namespaces};
use crate::packages::wheel_of_tests;
use crate::restart::Folder;
use crate::support::PROGRAM;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;
use testing::{Leash, SUITE_PATIENCE, output_in_time};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What to do for a line of a document.
#[derive(Debug, PartialEq)]
enum Step {
    /// A command, with what the document shows of its output.
    Run(String, Vec<String>),
    /// One that readers do not see.
    Prepare(String),
    Write(String, String),
    Interrupt,
    NotRun(String, String),
}

/// A comment of HTML that is for this test: its word, the beginning of the lines that it is about (of all, if empty), and the rest.
#[derive(Debug)]
struct Comment<'a> {
    word: &'static str,
    lines: &'a str,
    rest: &'a str,
}

impl<'a> Comment<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let inner = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        let word = ["not run", "first", "file"].into_iter().find(|word| inner.starts_with(word))?;
        let behind = &inner[word.len()..];
        let (lines, rest) = match behind.strip_prefix(" `") {
            Some(lines) => lines.split_once("`: ")?,
            None => ("", behind.strip_prefix(": ")?),
        };
        Some(Self { word, lines, rest })
    }
}

/// The steps of a document, each with the number of its line.
fn steps(page: &str) -> Vec<(usize, Step)> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    let (mut comments, mut file, mut is_paragraph): (Vec<Comment<'_>>, Option<String>, _) = (Vec::new(), None, false);
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let block: Vec<_> = lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```")).collect();
            if ["sh", "console"].contains(&language) {
                commands(&block, &std::mem::take(&mut comments), &mut steps);
            } else if let Some(name) = file.take() {
                let text: String = block.iter().flat_map(|(_, line)| [line, "\n"]).collect();
                steps.push((at, Step::Write(name, text)));
            }
            is_paragraph = false;
        } else if line.starts_with("    ") && !is_paragraph {
            let mut block = vec![(at, line)];
            while lines.peek().is_some_and(|(_, line)| line.starts_with("    ")) {
                block.extend(lines.next());
            }
            commands(&block, &std::mem::take(&mut comments), &mut steps);
        } else if line.trim() == "<!-- Ctrl-C -->" {
            steps.push((at, Step::Interrupt));
        } else if let Some(comment) = Comment::read(line) {
            match comment.word {
                "first" if comment.lines.is_empty() => steps.push((at, Step::Prepare(comment.rest.to_owned()))),
                "file" => file = Some(comment.rest.to_owned()),
                _ => comments.push(comment),
            }
        } else {
            assert!(!line.contains("<!-- not run"), "line {at}: without a reason");
            if !line.trim().is_empty() {
                file = line.strip_prefix('`').and_then(|line| line.strip_suffix("`:")).map(str::to_owned);
            }
            is_paragraph = !line.trim().is_empty();
        }
    }
    assert!(comments.is_empty(), "without a block: {comments:?}");
    steps
}

/// The commands of a block, and what is shown of their output.
fn commands(block: &[(usize, &str)], comments: &[Comment<'_>], steps: &mut Vec<(usize, Step)>) {
    let shows_output = block.iter().any(|(_, line)| line.trim_start().starts_with("$ "));
    let mut lines = block.iter();
    let mut used = vec![false; comments.len()];
    while let Some((at, line)) = lines.next() {
        let line = line.trim();
        let mut command = match line.strip_prefix("$ ") {
            Some(command) => command.to_owned(),
            None if shows_output => {
                if let Some((_, Step::Run(_, shown))) = steps.last_mut() {
                    shown.push(line.to_owned());
                }
                continue;
            }
            None => line.to_owned(),
        };
        while let Some(begun) = command.strip_suffix('\\') {
            command = format!("{begun}{}", lines.next().map_or("", |(_, line)| line.trim()));
        }
        let mut reason = None;
        for (comment, used) in comments.iter().zip(&mut used).filter(|(comment, _)| command.starts_with(comment.lines))
        {
            *used = true;
            match comment.word {
                "first" => steps.push((*at, Step::Prepare(comment.rest.to_owned()))),
                _ => reason = Some(comment.rest.to_owned()),
            }
        }
        steps.push((
            *at,
            match reason {
                Some(reason) => Step::NotRun(command, reason),
                None => Step::Run(command, Vec::new()),
            },
        ));
    }
    assert!(used.iter().all(|used| *used), "of {comments:?} not all are about a line of this block: {block:?}");
}

/// The command of `campanile` that a line begins with.
fn name_and_words(command: &str) -> (&str, Vec<&str>) {
    let words: Vec<&str> = command.split(" #").next().unwrap_or_default().split_whitespace().collect();
    let at = words.iter().position(|word| *word == "campanile" || word.ends_with("/campanile"));
    let behind = words.get(at.map_or(words.len(), |at| at + 1)..).unwrap_or_default();
    (behind.iter().find(|word| **word != "tempo").copied().unwrap_or_default(), words)
}

/// Whether a command ends only by Ctrl-C.
fn goes_on(command: &str) -> bool {
    let (name, words) = name_and_words(command);
    let has = |word: &str| words.contains(&word);
    match name {
        _ if has("&") => false,
        "serve" => !has("--check"),
        "sub" | "echo" | "hz" | "bw" | "probe" | "latency" => !has("-n"),
        "stats" => has("--interval"),
        "demo" | "tao-notify" | "record" => true,
        "pub" => has("--rate"),
        "deploy" => has("run"),
        "" => has("-sN") || words.iter().any(|word| word.ends_with(".py")),
        _ => false,
    }
}

/// Whether a command that goes on has done what others may build upon, or what its reader waits for.
fn is_far(command: &str, shown: &[String], printed: &[String]) -> bool {
    let has = |is_it: &dyn Fn(&String) -> bool| printed.iter().any(is_it);
    match name_and_words(command).0 {
        "serve" | "demo" | "tao-notify" => has(&|line| line.contains("ready at") || line.contains("Alarms")),
        // Behind what it says of itself there are figures.
        "hz" | "bw" | "probe" | "latency" | "stats" => has(&|line| !line.starts_with("campanile: ")),
        "" | "deploy" => has_shown(shown, printed),
        "pub" => true,
        _ => has(&|_| true),
    }
}

/// How much of a text is as shown, where a number stands for any; `None` if its beginning is not.
fn as_shown(shown: &str, text: &str) -> Option<usize> {
    let is_number = |letter: &char| letter.is_ascii_digit() || *letter == '.';
    let (mut shown, mut letters) = (shown.chars().peekable(), text.char_indices().peekable());
    while let Some(letter) = shown.next() {
        let (_, other) = letters.next()?;
        if letter.is_ascii_digit() && other.is_ascii_digit() {
            while shown.next_if(is_number).is_some() {}
            while letters.next_if(|(_, letter)| is_number(letter)).is_some() {}
        } else if letter != other {
            return None;
        }
    }
    Some(letters.peek().map_or(text.len(), |(at, _)| *at))
}

/// Whether a line is as it was shown; `…` stands for anything.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut at) = as_shown(parts.next().unwrap_or_default(), printed) else { return false };
    let mut parts = parts.peekable();
    let has_gap = parts.peek().is_some();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let ends = (at..=printed.len()).filter(|from| printed.is_char_boundary(*from));
        let mut ends = ends.filter_map(|from| as_shown(part, &printed[from..]).map(|length| from + length));
        match ends.find(|end| !is_last || *end == printed.len()) {
            Some(end) => at = end,
            None => return false,
        }
    }
    has_gap || at == printed.len()
}

/// Whether a value has the form of another one: the same keys in its objects, or more where that is `open`.
fn has_form(shown: &Json, printed: &Json, open: bool) -> bool {
    match (shown, printed) {
        (Json::Object(shown), Json::Object(printed)) => {
            let fits =
                |(key, value): (&String, &Json)| printed.get(key).is_some_and(|other| has_form(value, other, open));
            (open || shown.len() == printed.len() || shown.is_empty()) && shown.iter().all(fits)
        }
        (Json::Array(shown), Json::Array(printed)) => {
            (shown.is_empty() || !printed.is_empty())
                && printed.iter().all(|one| shown.iter().any(|form| has_form(form, one, open)))
        }
        // What can be absent.
        (Json::Null, _) | (_, Json::Null) => true,
        _ => std::mem::discriminant(shown) == std::mem::discriminant(printed),
    }
}

/// Whether what was printed has in it all that was shown, in this order. Lines of one JSON object may be broken anywhere.
fn has_shown(shown: &[String], printed: &[String]) -> bool {
    if shown.first().is_some_and(|line| line.starts_with('{')) {
        let (text, all) = (shown.concat(), printed.concat());
        let form = serde_json::from_str(&text.replace(", …", "")).unwrap_or_else(|error| panic!("{error}: {text}"));
        return serde_json::from_str(&all).is_ok_and(|value| has_form(&form, &value, text.contains('…')));
    }
    let mut printed = printed.iter();
    shown.iter().all(|line| printed.any(|other| is_as_shown(line, other.trim_end())))
}

/// A command that was started, with all that it starts.
struct Started {
    command: String,
    shell: Child,
    lines: Receiver<String>,
    printed: Vec<String>,
    /// Whether it has to end well when it is interrupted.
    is_judged: bool,
}

impl Started {
    fn new(command: &str, folder: &Path, is_judged: bool) -> Self {
        let (output, write) = std::io::pipe().unwrap();
        // INT may be ignored where these tests run in the background, which a shell cannot undo. This one outlives Ctrl-C, and tells how
        // the command has ended.
        let mut shell = Command::new("env");
        shell
            .args(["--default-signal=INT", "sh", "-c", &format!("trap : INT\n{command}\n")])
            .current_dir(folder)
            .process_group(0);
        shell.stdin(Stdio::null()).stdout(write.try_clone().unwrap()).stderr(write);
        let bin = folder.join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var_os("PATH").unwrap().display());
        shell.env_clear().env("PATH", path).env("HOME", folder).env("TMPDIR", folder).env("PYTHONUNBUFFERED", "1");
        let shell = shell.spawn().unwrap();
        let lines = testing::lines_of(output);
        Self { command: command.to_owned(), shell, lines, printed: Vec::new(), is_judged }
    }

    /// Waits for the next line; false at the end.
    fn next(&mut self) -> bool {
        let _leash = Leash::of_suite(&self.shell, format_args!("{}: {:#?}", self.command, self.printed));
        match self.lines.recv_timeout(SUITE_PATIENCE) {
            Ok(line) => self.printed.push(line),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("{}: says nothing more: {:#?}", self.command, self.printed),
        }
        true
    }

    /// Waits for the end, and gives its status.
    fn end(&mut self) -> Option<i32> {
        let since = Instant::now();
        while self.next() {
            assert!(since.elapsed() < SUITE_PATIENCE, "{}: goes on: {:#?}", self.command, self.printed);
        }
        self.shell.wait().unwrap().code()
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process_group(Pid::from_child(&self.shell), signal);
    }

    fn interrupt(mut self) {
        self.signal(Signal::INT);
        let status = self.end();
        // What is not ours says where it was interrupted, and the end of a pipe what it had not sent yet.
        let is_judged = self.is_judged && !self.command.contains(" | ");
        let is_well = status == Some(0) || !is_judged || name_and_words(&self.command).0.is_empty();
        assert!(is_well, "{}: interrupted, it ended with {status:?}: {:#?}", self.command, self.printed);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.shell.wait();
    }
}

/// Ends what goes on, the latest first.
fn interrupt(running: &mut Vec<Started>) {
    running.drain(..).rev().for_each(Started::interrupt);
}

/// Runs a command, and leaves it running if it goes on. Nothing is shown of one that readers do not see, and it may end as it likes.
fn run(command: &str, shown: Option<&[String]>, folder: &Path, running: &mut Vec<Started>) {
    let is_service = ["serve", "demo", "tao-notify"].contains(&name_and_words(command).0);
    // One at 127.0.0.2 stands beside the others.
    if is_service && goes_on(command) && !command.contains("127.0.0.2") {
        interrupt(running);
    }
    let mut started = Started::new(command, folder, shown.is_some());
    let shown = shown.unwrap_or_default();
    if goes_on(command) {
        let since = Instant::now();
        while !is_far(command, shown, &started.printed) {
            assert!(started.next(), "{command}: has ended: {:#?}", started.printed);
            assert!(
                since.elapsed() < SUITE_PATIENCE,
                "{command}: shown is {shown:#?}, and it printed {:#?}",
                started.printed
            );
        }
        running.push(started);
        return;
    }
    let status = started.end();
    // 2 is wrong usage, but of `check`.
    let said = if name_and_words(command).0 == "check" { 0..=3 } else { 0..=1 };
    let is_well =
        status == Some(0) || (command.contains("status") && status.is_some_and(|status| said.contains(&status)));
    assert!(is_well, "{command}: status {status:?}: {:#?}", started.printed);
    assert!(
        has_shown(shown, &started.printed),
        "{command}: shown is {shown:#?}, and it printed {:#?}",
        started.printed
    );
}

/// Makes the machine that documents are about: what they have in /etc and at which addresses.
fn furnish(folder: &Path, page: &str) {
    let addresses = page.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let own = addresses.filter(|word| {
        word.parse::<std::net::Ipv4Addr>().is_ok_and(|address| {
            !address.is_loopback() && !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast()
        })
    });
    let add: String = own.map(|address| format!("ip addr replace {address}/32 dev lo\n")).collect();
    let script = format!(
        "set -e\nmount -t proc proc /proc 2>/dev/null || true\nip link set lo up\n{add}ip route add 224.0.0.0/4 dev lo\n\
         cp -a /etc . 2>/dev/null || true\nmkdir -p etc/campanile var/lib run bin target/release\n\
         echo '127.0.0.1 localhost plant.example notify.example.org lab.example.org HOST' > etc/hosts.new\n\
         echo '127.0.0.2 OTHER' >> etc/hosts.new\n\
         mv etc/hosts.new etc/hosts\n\
         cp {config}/campanile.toml etc/\ncp {config}/campanile.toml etc/campanile/\n\
         mount --bind etc /etc\nmount --bind var/lib /var/lib\nmount --bind run /run\nmkdir /run/campanile",
        config = root().join("config").display()
    );
    let output = output_in_time(Command::new("sh").args(["-c", &script]).current_dir(folder));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    symlink(PROGRAM, folder.join("bin/campanile")).unwrap();
    symlink(root().join("config"), folder.join("config")).unwrap();
    if page.contains("target/wheels/") {
        wheel_of_tests(folder);
    }
}

/// Runs a document, and says how many commands of it were run, and which were not.
fn run_document(name: &str) {
    within_namespaces(&[], || {
        let page = fs::read_to_string(root().join(name)).unwrap();
        // Within, each process has the same number.
        let outside = std::env::var_os(WITHIN).unwrap();
        let folder =
            Folder::made(&format!("document-{}-{outside}", name.replace('/', "-"), outside = outside.display()));
        let folder = folder.folder();
        furnish(folder, &page);
        let (mut running, mut count, mut said) = (Vec::new(), 0, String::new());
        for (line, step) in steps(&page) {
            match step {
                Step::NotRun(command, reason) => said += &format!("  {name}:{line} is not run: {reason}: {command}\n"),
                Step::Interrupt => interrupt(&mut running),
                Step::Write(file, text) => fs::write(folder.join(file), text).unwrap(),
                Step::Prepare(command) => run(&command, None, folder, &mut running),
                Step::Run(command, shown) => {
                    eprintln!("{name}:{line}: {command}");
                    run(&command, Some(&shown), folder, &mut running);
                    count += 1;
                }
            }
        }
        interrupt(&mut running);
        format!("{name}: {count} commands were run, {} were not\n{said}", said.lines().count())
    });
}

macro_rules! documents {
    ($($test:ident $name:literal)*) => {
        const DOCUMENTS: &[&str] = &[$($name),*];
        $(#[test] fn $test() { run_document($name); })*
    };
}

documents! {
    readme "README.md"
    components "docs/components.md"
    console "docs/console.md"
    deployment "docs/deployment.md"
    dds "docs/dds.md"
    http "docs/http.md"
    install "docs/install.md"
    json_lines "docs/json.md"
    links "docs/links.md"
    node_manager "docs/node-manager.md"
    jacorb "docs/migration/jacorb.md"
    omnievents "docs/migration/omnievents.md"
    omninotify "docs/migration/omninotify.md"
    openfusion "docs/migration/openfusion.md"
    tao "docs/migration/tao.md"
    operating "docs/operating.md"
    qos "docs/qos.md"
    security "docs/security.md"
    standby "docs/standby.md"
    tempo "docs/tempo.md"
    tempo_guide "docs/tempo-guide.md"
    tempo_planning "docs/tempo-planning.md"
    tutorial "docs/tutorial.md"
    c "crates/ffi/README.md"
    cpp "crates/ffi/cpp/README.md"
}

/// A page that shows a shell and is in no test would never be run. Reports that programs write are not for users to follow.
#[test]
fn each_document_with_a_block_of_a_shell_is_run() {
    let mut pages = vec![root().join("README.md")];
    for folder in [
        "docs",
        "docs/migration",
        "crates/campanile",
        "crates/ffi",
        "crates/ffi/cpp",
        "crates/ffi/java",
        "crates/python",
    ] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    let mut with_shell: Vec<String> = pages
        .iter()
        .filter(|path| {
            steps(&fs::read_to_string(path).unwrap()).iter().any(|(_, step)| !matches!(step, Step::Write(..)))
        })
        .map(|path| path.strip_prefix(root()).unwrap().display().to_string())
        .filter(|name| name != "docs/experiments.md")
        .collect();
    let mut listed = DOCUMENTS.to_vec();
    listed.sort_unstable();
    with_shell.sort_unstable();
    assert_eq!(listed, with_shell);
}

#[test]
fn a_document_is_read_and_its_output_compared() {
    let page = "Text:\n\n<!-- first: campanile demo -->\n<!-- not run `make`: takes minutes -->\n\n    make run   # it\n    a \\\n        b\n\n\
                `x.py`:\n\n```python\n1\n```\n\n```console\n$ c\n12 of 3\n```\n";
    let run = |command: &str, shown: &[&str]| {
        Step::Run(command.to_owned(), shown.iter().map(|&line| line.to_owned()).collect())
    };
    let wanted = [
        (3, Step::Prepare("campanile demo".into())),
        (6, Step::NotRun("make run   # it".into(), "takes minutes".into())),
        (7, run("a b", &[])),
        (12, Step::Write("x.py".into(), "1\n".into())),
        (17, run("c", &["12 of 3"])),
    ];
    assert_eq!(steps(page), wanted);
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert!(has_shown(&lines(&["12 of 3"]), &lines(&["before", "7 of 1.5"])));
    assert!(!has_shown(&lines(&["12 of 3", "x … z"]), &lines(&["x y z", "7 of 1"])));
    assert!(has_shown(
        &lines(&[r#"{"a":1,"#, r#""b":[{"c":"d"}]}"#]),
        &lines(&[r#"{"a":2,"b":[{"c":"e"},{"c":""}]}"#])
    ));
    assert!(!has_shown(&lines(&[r#"{"a":1}"#]), &lines(&[r#"{"a":2,"b":3}"#])));
    assert!(has_shown(&lines(&[r#"{"a":1, …}"#]), &lines(&[r#"{"a":2,"b":3}"#])));
    assert!(
        goes_on("campanile tempo sub Weather/Wind  # here")
            && !goes_on("campanile sub -n 3")
            && !goes_on("campanile ls --tree")
    );
}
