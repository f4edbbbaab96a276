//! Where `campanile serve` keeps things by default, and what it does when it cannot.

use crate::restart::{Folder, exported};
use crate::support::{PROGRAM, Serve, text};
use client::notify::{FilterGroupOperator, find_channel};
use client::{Orb, OrbOptions};
use std::path::Path;
use std::process::{Command, Output};
use testing::{output_in_time, own_loopback};

/// An address with a port that stays the same.
fn address() -> String {
    format!("{}:2809", own_loopback())
}

/// `campanile serve` of a user with that home and nothing else.
pub(crate) fn of_user(home: Option<&Path>, options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--log", "error"]).args(options);
    for name in ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"] {
        command.env_remove(name);
    }
    command.envs(home.map(|home| ("HOME", home)));
    command
}

fn make_admin(address: &str) {
    let factory = Orb::new(OrbOptions::default()).resolve_service(address).unwrap();
    let (default, _) = find_channel(&factory, None).unwrap();
    default.new_for_consumers(FilterGroupOperator::Or).unwrap();
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Users that had not read of `--data` lost all channels with the first restart.
#[test]
fn things_are_kept_in_the_users_state_folder_without_an_option() {
    let home = Folder::made("home");
    let address = address();
    let serve = Serve::spawn(&mut of_user(Some(home.folder()), &["--listen", &address]));
    make_admin(&address);
    let before = exported(&serve);
    drop(serve);
    let folder = home.folder().join(".local/state/campanile/2809");
    assert!(folder.join("campanile.redb").is_file());
    let serve = Serve::spawn(&mut of_user(Some(home.folder()), &["--listen", &address]));
    assert_eq!(exported(&serve), before);
    // Another one at the same port of another address is not to have them, nor to be without.
    let other = format!("{}:2809", own_loopback());
    let Output { stderr, status, .. } = output_in_time(&mut of_user(Some(home.folder()), &["--listen", &other]));
    let said = text(&stderr);
    assert!(said.contains(folder.to_str().unwrap()) && said.contains("another process"), "{said}");
    assert!(said.contains("--data") && said.contains("--data none"), "{said}");
    assert_eq!(status.code(), Some(1));
    drop(serve);
    let own = home.folder().join("own");
    let mut options = of_user(Some(home.folder()), &["--listen", &address]);
    let serve = Serve::spawn(options.env("STATE_DIRECTORY", format!("{}:/nowhere", own.display())));
    assert_ne!(exported(&serve), before, "systemd has named another folder");
    assert!(own.join("campanile.redb").is_file());
}

#[test]
fn nothing_is_left_in_a_home_where_nothing_is_to_be_kept_or_would_be_found_again() {
    let home = Folder::made("empty-home");
    let file = crate::support::TempPath::file("nothing.toml", "[store]\ndirectory = \"none\"\n");
    let address = address();
    for options in [
        ["--listen", &address, "--data", "none"],
        ["--listen", &address, "--config", file.path()],
        ["--listen", "127.0.0.1:0", "--advertise", "localhost"],
    ] {
        let serve = Serve::spawn(&mut of_user(Some(home.folder()), &options));
        make_admin(&serve.address);
        drop(serve);
        assert!(is_empty(home.folder()), "{options:?}");
    }
}

/// A container's user has no home, or one that it may not write to.
#[test]
fn a_service_whose_user_has_no_home_serves_and_says_that_it_stores_nothing() {
    for home in [None, Some(Path::new("/proc/nowhere"))] {
        let address = address();
        let (mut serve, said) = Serve::spawn_waiting(&mut of_user(home, &["--listen", &address]));
        assert!(said.starts_with("campanile: nothing outlives this service, since"), "{said}");
        assert!(said.contains("--data"), "{said}");
        serve.wait_until_ready();
        make_admin(&serve.address);
    }
    // One that was asked for is not done without.
    let options = ["--listen", &address(), "--data", "/proc/nowhere/campanile"];
    let Output { stderr, status, .. } = output_in_time(&mut of_user(None, &options));
    assert!(text(&stderr).contains("/proc/nowhere/campanile"), "{}", text(&stderr));
    assert_eq!(status.code(), Some(1));
}
