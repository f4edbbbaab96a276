//! What is installed beside the program (packaging): that it holds together. That it works, `make try-deb` shows.

use crate::demo::Demo;
use crate::restart::Folder;
use crate::support::{PROGRAM, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testing::{output_in_time, output_of_suite};
use toml::{Table, Value};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn packaging() -> PathBuf {
    Path::new(CRATE).join("../../packaging")
}

/// What stands under `package.metadata.deb`.
fn metadata() -> Table {
    let manifest: Table = fs::read_to_string(Path::new(CRATE).join("Cargo.toml")).unwrap().parse().unwrap();
    let of_package =
        ["package", "metadata", "deb"].into_iter().try_fold(&manifest, |within, name| within.get(name)?.as_table());
    of_package.unwrap().clone()
}

/// The folder that `packaging/stage.sh` makes, where the program is in the folder of the one that is tested.
fn staged(name: &str, user: Option<&str>) -> (Folder, PathBuf) {
    let folder = Folder::made(name);
    let stage = folder.folder().join("stage");
    let mut command = Command::new(packaging().join("stage.sh"));
    command.arg(PROGRAM).arg(&stage).arg(Path::new(PROGRAM).parent().unwrap()).args(user);
    let output = output_in_time(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (folder, stage)
}

/// Runs a program that is perhaps not there, and wants it to be content.
fn is_content(program: &str, arguments: &[&str], files: &[PathBuf]) {
    let is_there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if is_there {
        let output = output_in_time(Command::new(program).args(arguments).args(files));
        assert!(output.status.success(), "{program}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn everything_that_the_debian_package_has_is_there() {
    let (_folder, stage) = staged("assets", Some("campanile"));
    let metadata = metadata();
    let (mut from_stage, mut elsewhere) = (0, 0);
    for asset in metadata["assets"].as_array().unwrap() {
        let [source, to, mode] = asset.as_array().unwrap().as_slice() else { panic!("{asset}") };
        let (source, to) = (source.as_str().unwrap(), to.as_str().unwrap());
        assert!(to.starts_with("usr/") || to.starts_with("etc/"), "{to}");
        assert_eq!(mode.as_str(), Some(if to == "usr/bin/" { "755" } else { "644" }), "{to}");
        let path = match source.strip_prefix("../../target/stage/") {
            // Made by the Makefile.
            Some("third-party.gz") => continue,
            Some(staged) => stage.join(staged),
            None if source == "target/release/campanile" => continue,
            None => Path::new(CRATE).join(source),
        };
        *if path.starts_with(&stage) { &mut from_stage } else { &mut elsewhere } += 1;
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let (before, behind) = name.split_once('*').unwrap_or((name, ""));
        let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.any(|name| name.starts_with(before) && name.ends_with(behind)), "{source}: there is none");
    }
    assert!(from_stage >= 5 && elsewhere >= 10, "{from_stage} {elsewhere}");
    for script in ["postinst", "prerm", "postrm"] {
        assert!(Path::new(CRATE).join(metadata["maintainer-scripts"].as_str().unwrap()).join(script).is_file());
    }
    let log = fs::read_to_string(Path::new(CRATE).join(metadata["changelog"].as_str().unwrap())).unwrap();
    let newest = format!("campanile ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(log.starts_with(&newest), "packaging/debian/changelog tells of another version than {newest}");
    assert_eq!(metadata["features"], Value::from(vec!["dds"]));
}

#[test]
fn units_of_a_package_name_its_program_and_its_user_and_are_what_systemd_takes() {
    let (_folder, stage) = staged("staged-units", Some("campanile"));
    let unit = fs::read_to_string(stage.join("units/campanile.service")).unwrap();
    assert!(
        unit.contains(&format!("\nExecStart={PROGRAM} serve --config /etc/campanile/campanile.toml $CAMPANILE")),
        "{unit}"
    );
    assert!(unit.contains("\nUser=campanile\n") && !unit.contains("DynamicUser"), "{unit}");
    let units: Vec<_> = fs::read_dir(stage.join("units")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(units.len(), 5);
    // Components run as another user than the service.
    let node = fs::read_to_string(stage.join("units/campanile-node.service")).unwrap();
    assert!(node.contains(&format!("\nExecStart={PROGRAM} node --config /etc/campanile/node.toml\n")), "{node}");
    assert!(node.contains("\nDynamicUser=yes\n") && !node.contains("\nUser="), "{node}");
    is_content("systemd-analyze", &["verify"], &units);
    // Those of `make install` leave the user to systemd.
    let (_folder, stage) = staged("plain-units", None);
    let unit = fs::read_to_string(stage.join("units/campanile.service")).unwrap();
    assert!(unit.contains("\nDynamicUser=yes\n") && !unit.contains("\nUser="), "{unit}");
}

#[test]
fn scripts_of_packages_are_ones_that_shells_take() {
    let (_folder, stage) = staged("completions", None);
    let debian = packaging().join("debian");
    let scripts = ["postinst", "prerm", "postrm", "try.sh", "try-inside.sh"].map(|name| debian.join(name));
    let of_all = ["stage.sh", "strip.sh", "dist.sh"].map(|name| packaging().join(name));
    for script in scripts.iter().chain(&of_all) {
        is_content("sh", &["-n"], std::slice::from_ref(script));
        is_content("shellcheck", &[], std::slice::from_ref(script));
    }
    is_content("bash", &["-n"], &[stage.join("completions/campanile")]);
    is_content("zsh", &["-n"], &[stage.join("completions/_campanile")]);
    is_content("fish", &["-n"], &[stage.join("completions/campanile.fish")]);
    let pages: Vec<_> = fs::read_dir(stage.join("man")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 20 && pages.iter().all(|page| page.extension().is_some_and(|end| end == "1")), "{pages:?}");
}

#[test]
fn the_configuration_of_packages_is_one_and_of_several_the_last_counts() {
    let folder = Folder::made("configuration");
    let wrong = folder.folder().join("wrong.toml");
    fs::write(&wrong, "no_such_key = 1\n").unwrap();
    let shipped = Path::new(CRATE).join("../../config/campanile.toml");
    let check = |first: &Path, last: &Path| {
        let mut command = Command::new(PROGRAM);
        output_in_time(command.arg("serve").arg("--config").arg(first).arg("--config").arg(last).arg("--check"))
    };
    let output = check(&wrong, &shipped);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("nothing is wrong"), "{}", text(&output.stdout));
    let output = check(&shipped, &wrong);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no_such_key"), "{}", text(&output.stderr));
}

/// A file that cargo has built for the tests of the workspace, without what only debuggers need.
fn stripped(name: &str, folder: &Path) -> PathBuf {
    let built = Path::new(PROGRAM).with_file_name(name);
    assert!(built.exists(), "{} is missing: cargo test --workspace builds it", built.display());
    let copy = folder.join(built.file_name().unwrap());
    succeeds(Command::new("objcopy").arg("--strip-all").args([&built, &copy]));
    copy
}

fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output_of_suite(command);
    assert!(status.success(), "{command:?}: {}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Packs a wheel, and gives its path.
fn wheel(program: &Path, library: &Path, folder: &Path) -> PathBuf {
    let mut command = Command::new(Path::new(CRATE).join("../python/wheels.py"));
    PathBuf::from(succeeds(command.args([program, library, folder])).trim_end())
}

/// The wheel of what cargo has built for tests, in a folder.
pub(crate) fn wheel_of_tests(folder: &Path) -> PathBuf {
    wheel(&stripped("campanile", folder), &stripped("deps/lib_native.so", folder), &folder.join("target/wheels"))
}

fn new_environment(folder: &Path) -> PathBuf {
    let environment = folder.join("venv");
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    environment.join("bin")
}

fn pip_install(environment: &Path, wheel: &Path) -> Output {
    let mut pip = Command::new(environment.join("pip"));
    output_of_suite(pip.args(["--disable-pip-version-check", "install", "--no-index"]).arg(wheel))
}

#[test]
fn an_installed_wheel_has_the_command_and_the_module() {
    let folder = Folder::made("wheel");
    let wheel = wheel_of_tests(folder.folder());
    let environment = new_environment(folder.folder());
    let output = pip_install(&environment, &wheel);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let program = environment.join("campanile");
    assert_eq!(succeeds(Command::new(&program).arg("--version")), format!("campanile {}\n", env!("CARGO_PKG_VERSION")));
    let demo = Demo::start_of(&program, "wheel");
    let publish = "import campanile\n\
        @campanile.event\nclass Wind:\n    speed: float\n\
        with campanile.Consumer('Weather', Wind).events() as winds:\n\
        \x20   campanile.Supplier('Weather').publish(Wind(11.5))\n    print(winds.next(), campanile.__file__)";
    let mut python = Command::new(environment.join("python"));
    let said = succeeds(python.args(["-I", "-c", publish]).env("CAMPANILE_SERVER", demo.address()));
    assert!(said.starts_with("Wind(speed=11.5) ") && said.contains(folder.path()), "{said}");
    demo.end("INT");
    // The licences, and each file as RECORD has it: pip warns of what is not.
    let listed = succeeds(Command::new(environment.join("pip")).args(["show", "--files", "campanile"]));
    for file in ["licenses/LICENSE-MIT", "../bin/campanile", "campanile/py.typed", "License: Apache-2.0 OR MIT"] {
        assert!(listed.contains(file), "{file}: {listed}");
    }
}

/// The tag of a wheel was that of its library: on an older glibc pip would have installed a program that does not start.
#[test]
fn a_wheel_says_which_glibc_its_program_needs_and_pip_refuses_it_elsewhere() {
    let folder = Folder::made("wheel-elsewhere");
    let (program, library) = (stripped("campanile", folder.folder()), stripped("deps/lib_native.so", folder.folder()));
    let mut octets = fs::read(&program).unwrap();
    // The same program, as if it had been linked to a glibc that is to come.
    let places: Vec<usize> =
        octets.windows(8).enumerate().filter(|(_, name)| name == b"GLIBC_2.").map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        if octets[at + 8].is_ascii_digit() && octets[at + 9].is_ascii_digit() && octets[at + 10] == 0 {
            octets[at + 8] = b'9';
        }
    }
    fs::write(&program, octets).unwrap();
    let wheel = wheel(&program, &library, folder.folder());
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-cp311-abi3-manylinux_2_9"), "{name}");
    let output = pip_install(&new_environment(folder.folder()), &wheel);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not a supported wheel on this platform"), "{}", text(&output.stderr));
}

#[test]
fn an_unpacked_archive_has_all_that_its_users_want_and_is_the_same_whoever_packs_it() {
    let folder = Folder::made("archive");
    let program = stripped("campanile", folder.folder());
    let library = stripped("deps/libcampanile_ffi.so", folder.folder());
    let pack = |mask: &str, to: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask $0; exec \"$@\"", mask]).arg(packaging().join("dist.sh"));
        let archive = succeeds(shell.args([&program, &library]).arg("here-linux-gnu").arg(folder.folder().join(to)));
        PathBuf::from(archive.trim_end())
    };
    let archive = pack("022", "dist");
    let name = format!("campanile-{}-here-linux-gnu", env!("CARGO_PKG_VERSION"));
    assert_eq!(archive.file_name().unwrap().to_str(), Some(format!("{name}.tar.gz").as_str()));
    assert!(fs::read(&archive).unwrap() == fs::read(pack("077", "again")).unwrap());
    succeeds(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder.folder()));
    let tree = folder.folder().join(name);
    for file in [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "config/campanile.toml",
        "docs/operating.md",
        "include/campanile.hpp",
        "include/campanile_component.h",
        "include/campanile_component.hpp",
        "lib/systemd/system/campanile.service",
        "packaging/prometheus/campanile.rules.yml",
        "share/bash-completion/completions/campanile",
        "share/man/man1/campanile-serve.1",
    ] {
        assert!(tree.join(file).is_file(), "{file}");
    }
    let program = tree.join("bin/campanile");
    let mut serve = Command::new(&program);
    let checked = succeeds(serve.args(["serve", "--check", "--config"]).arg(tree.join("config/campanile.toml")));
    assert!(checked.contains("nothing is wrong"), "{checked}");
    Demo::start_of(&program, "archive").end("TERM");
    // A program in C, by what pkg-config says of the tree where it lies.
    let source = folder.folder().join("version.c");
    fs::write(&source, "#include <campanile.h>\nint main(void) { campanile_supplier_free(0); }\n").unwrap();
    let build = "cc $0 -o $0.out $(pkg-config --cflags --libs campanile) && LD_LIBRARY_PATH=$1 $0.out";
    let mut shell = Command::new("sh");
    shell.args(["-c", build]).arg(&source).arg(tree.join("lib"));
    succeeds(shell.env("PKG_CONFIG_PATH", tree.join("lib/pkgconfig")));
}
