//! The programs in C, compiled once for all tests of a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use testing::{output_in_time, output_of_suite};

/// What a program of ours must stand: every warning is an error.
const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic", "-g"];
/// Reads and writes beyond what is there, and what C leaves undefined, end the program.
const SANITIZED: [&str; 3] = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name)
}

/// `c/test.c`, which frames are given to, and which is an end point that tests drive.
pub(crate) fn test_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("test.c", &SANITIZED))
}

/// `c/example.c`, an end point with a socket.
pub(crate) fn example() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("example.c", &SANITIZED))
}

fn compile(name: &str, more: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.trim_end_matches(".c"));
    // Another process of tests may be at it; both are right.
    let ours = program.with_extension(std::process::id().to_string());
    let mut command = compiler("cc", "-std=c99");
    command.args(more).arg(source(name)).arg("-o").arg(&ours);
    run(&mut command);
    fs::rename(&ours, &program).unwrap();
    program
}

/// The program of the section "From C" of docs/tempo.md, with another port than the usual one.
pub(crate) fn program_of_the_specification(port: u16) -> PathBuf {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tempo.md")).unwrap();
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(program.matches("TEMPO_PORT").count(), 1);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("from_c.{}.c", std::process::id()));
    fs::write(&path, program.replace("TEMPO_PORT", &port.to_string())).unwrap();
    let executable = path.with_extension("");
    let mut command = compiler("cc", "-std=gnu99");
    command.args(SANITIZED).arg("-I").arg(source("")).arg(&path).arg("-o").arg(&executable);
    run(&mut command);
    fs::remove_file(path).unwrap();
    executable
}

fn compiler(name: &str, standard: &str) -> Command {
    let has_it = output_in_time(Command::new("sh").args(["-c", &format!("command -v {name}")])).status.success();
    assert!(has_it, "there is no `{name}`: install gcc and g++ (interop/install.sh does, or apt-get install g++)");
    let mut command = Command::new(name);
    command.arg(standard).args(STRICT);
    command
}

fn run(command: &mut Command) {
    let output = output_of_suite(command);
    assert!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_header_is_read_without_a_warning_as_c_and_as_c_plus_plus_at_every_optimization() {
    for optimization in ["-O0", "-O2", "-Os"] {
        for name in ["test.c", "example.c"] {
            run(compiler("cc", "-std=c99").arg(optimization).args(["-c", "-o", "/dev/null"]).arg(source(name)));
        }
        let mut command = compiler("c++", "-std=c++11");
        run(command.arg(optimization).args(["-c", "-o", "/dev/null", "-x", "c++"]).arg(source("test.c")));
    }
}

#[test]
fn the_headers_need_nothing_of_an_operating_system_and_frames_no_end_point() {
    let includes = |name| -> Vec<String> {
        let text = fs::read_to_string(source(name)).unwrap();
        text.lines().filter(|line| line.starts_with("#include")).map(str::to_owned).collect()
    };
    assert_eq!(includes("tempo_frames.h"), ["#include <stddef.h>", "#include <stdint.h>", "#include <string.h>"]);
    assert_eq!(includes("tempo.h"), ["#include \"tempo_frames.h\""]);
    for name in ["tempo_frames.h", "tempo.h"] {
        run(compiler("cc", "-std=c99").args(["-ffreestanding", "-c", "-o", "/dev/null", "-x", "c"]).arg(source(name)));
    }
}
