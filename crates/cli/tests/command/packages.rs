//! What is installed beside the program (packaging): that it holds together. That it works, `make try-deb` shows.

use crate::restart::Folder;
use crate::support::{PROGRAM, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testing::output_in_time;
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
    assert_eq!(units.len(), 4);
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
    let stage_script = packaging().join("stage.sh");
    for script in scripts.iter().chain([&stage_script]) {
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
