//! `campanile store`, and stores that are damaged, of another release, or not to be written to.

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::restart::{Folder, exported, own_address};
use crate::support::{PROGRAM, Serve, start_or_refusal, text};
use client::{Orb, OrbOptions};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use testing::{output_in_time, own_loopback, wait_until};

impl Folder {
    fn file(&self) -> PathBuf {
        self.folder().join("campanile.redb")
    }

    /// What `campanile store` says of it, on both streams, and its exit status.
    fn store(&self, command: &str, options: &[&str]) -> (String, String, Option<i32>) {
        let mut run = Command::new(PROGRAM);
        let Output { stdout, stderr, status } =
            output_in_time(run.args(["store", command, "--data", self.path()]).args(options));
        (text(&stdout), text(&stderr), status.code())
    }

    fn shown(&self) -> serde_json::Value {
        let (said, error, code) = self.store("show", &["--json"]);
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(&said).unwrap()
    }
}

/// A channel with so many events that its consumer has not confirmed, and the service that has it.
fn with_events(folder: &Folder, count: i32) -> (Serve, i32, Taker) {
    let serve = folder.serve(&own_address());
    let id = persistent_channel(&serve.address);
    let taker = Taker::default();
    let orb = Orb::new(OrbOptions::default());
    // Its process is gone as soon as the service is.
    let active = taker.connect(&orb, &serve.address, id);
    taker.stop(true);
    std::mem::forget(active);
    let proxy = supplier(&serve.address, id).unwrap();
    for number in 0..count {
        proxy.push_structured_event(&event(1, number)).unwrap();
    }
    (serve, id, taker)
}

#[test]
fn what_is_kept_is_shown_checked_and_compacted_while_no_service_has_it() {
    let folder = Folder::new("kept-store");
    let (serve, id, taker) = with_events(&folder, 3_000);
    for command in ["show", "check", "compact"] {
        let (said, error, code) = folder.store(command, &[]);
        assert_eq!((said.as_str(), code), ("", Some(1)));
        assert!(error.contains("is in use: stop the service") && error.contains("campanile stats"), "{error}");
    }
    let before = exported(&serve);
    let address = serve.address.clone();
    drop(serve);
    let shown = folder.shown();
    assert_eq!((&shown["version"], &shown["events"]["count"]), (&2.into(), &3_000.into()), "{shown}");
    assert_eq!(shown["configured"]["channels"], 2, "{shown}");
    assert!(shown["configured"]["proxies"].as_u64().unwrap() >= 2, "{shown}");
    let of_channel = &shown["events"]["by_channel"][0];
    assert_eq!((&of_channel["channel"], &of_channel["count"]), (&id.into(), &3_000.into()), "{shown}");
    assert_eq!(of_channel["oldest"], shown["events"]["oldest"]);
    assert!(of_channel["oldest"].as_str().unwrap().starts_with("20"), "{shown}");
    let (said, _, code) = folder.store("show", &[]);
    assert!(said.contains("events      3,000 with ") && said.contains(&format!("channel {id}: 3,000 with ")), "{said}");
    assert_eq!(code, Some(0));
    let (said, error, code) = folder.store("check", &[]);
    assert_eq!((said, code), (format!("the store in {} is whole\n", folder.path()), Some(0)), "{error}");
    // The events go, and leave holes.
    taker.stop(false);
    let serve = folder.serve(&address);
    wait_until("all events to be confirmed", || serve.print("stats", &["events_kept"]) == "events_kept 0\n");
    assert_eq!(serve.stop("TERM").1, Some(0));
    let (said, error, code) = folder.store("compact", &["--json"]);
    assert_eq!(code, Some(0), "{error}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let [had, has] = ["file_bytes_before", "file_bytes_after"].map(|key| said[key].as_u64().unwrap());
    assert!(has < had, "{said}");
    assert_eq!(fs::metadata(folder.file()).unwrap().len(), has);
    let shown = folder.shown();
    assert_eq!((&shown["events"]["count"], &shown["events"]["oldest"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!(exported(&folder.serve(&address)), before);
}

#[test]
fn a_folder_without_a_store_is_told_and_stays_empty() {
    let folder = Folder::made("no-store");
    for command in ["show", "check", "compact"] {
        let (_, error, code) = folder.store(command, &[]);
        assert!(error.contains("there is no store in") && error.contains("--data"), "{error}");
        assert_eq!(code, Some(1));
    }
    assert!(fs::read_dir(folder.folder()).unwrap().next().is_none());
}

/// Whether a service starts with it. If not, it says why, and ends as it should.
fn starts(folder: &Folder) -> bool {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data", folder.path()]);
    let (output, is_ready) = start_or_refusal(&mut command);
    if !is_ready {
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("cannot be used") && said.contains(folder.path()), "{said}");
    }
    is_ready
}

/// Bits flip on media that are old. What is damaged is neither delivered nor taken for a topology, and whoever looks is told.
#[test]
fn flipped_bits_and_a_file_that_was_cut_are_found_by_check_and_by_the_service() {
    let folder = Folder::new("flipped");
    drop(with_events(&folder, 300));
    // As a service that is stopped leaves it.
    assert_eq!(folder.serve(&own_address()).stop("KILL").1, None);
    assert_eq!(folder.store("check", &[]).2, Some(0));
    let whole = fs::read(folder.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let mut damaged = 0;
    for round in 0..24 {
        let mut wrong = whole.clone();
        if round % 4 == 0 {
            wrong.truncate(random.usize(..whole.len()));
        } else {
            wrong[used[random.usize(..used.len())]] ^= 1 << random.u32(..8);
        }
        fs::write(folder.file(), &wrong).unwrap();
        let (said, error, code) = folder.store("check", &["--json"]);
        let is_whole = match code {
            Some(0) => true,
            Some(1) => false,
            other => panic!("{other:?}: {said}{error}"),
        };
        if said.is_empty() {
            assert!(!is_whole && error.contains("cannot be used"), "{error}");
        } else {
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["whole"], is_whole, "{said}");
            assert_eq!(said["damaged"].as_array().unwrap().is_empty(), is_whole, "{said}");
        }
        damaged += u32::from(!is_whole);
        // What the check has repaired is not what the service would have found.
        fs::write(folder.file(), &wrong).unwrap();
        assert_eq!(starts(&folder), is_whole, "round {round}: {error}");
    }
    assert!(damaged >= 10, "{damaged}");
    fs::write(folder.file(), &whole).unwrap();
    assert_eq!(folder.shown()["events"]["count"], 300);
}

/// After a release is taken back, the one before does not take what it does not know for nothing.
#[test]
fn a_store_of_a_newer_release_is_left_as_it_is() {
    let folder = Folder::new("newer");
    drop(with_events(&folder, 3));
    let about: TableDefinition<'_, &str, u32> = TableDefinition::new("about");
    let of_version = |version: u32| {
        let database = Database::open(folder.file()).unwrap();
        let begun = database.begin_write().unwrap();
        assert_eq!(begun.open_table(about).unwrap().insert("version", version).unwrap().unwrap().value(), 5 - version);
        begun.commit().unwrap();
    };
    of_version(3);
    assert!(!starts(&folder));
    let (_, error, code) = folder.store("check", &[]);
    assert!(error.contains("of version 3") && error.contains("the release that has written it"), "{error}");
    assert_eq!(code, Some(1));
    let database = Database::open(folder.file()).unwrap();
    let version = database.begin_read().unwrap().open_table(about).unwrap().get("version").unwrap().unwrap().value();
    assert_eq!(version, 3);
    drop(database);
    of_version(2);
    assert_eq!(folder.shown()["events"]["count"], 3);
}

/// Who looked at a store with a newer release could not go back to the one before.
#[test]
fn whoever_looks_at_a_store_changes_nothing() {
    let folder = Folder::new("looked-at");
    // It is killed, so that something is left to be repaired.
    drop(with_events(&folder, 3));
    let about: TableDefinition<'_, &str, u32> = TableDefinition::new("about");
    let database = Database::open(folder.file()).unwrap();
    let begun = database.begin_write().unwrap();
    begun.open_table(about).unwrap().insert("version", 1).unwrap();
    begun.commit().unwrap();
    drop(database);
    let before = fs::read(folder.file()).unwrap();
    assert_eq!(folder.shown()["version"], 1);
    assert_eq!(folder.shown()["events"]["count"], 3);
    let (said, error, code) = folder.store("check", &[]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(fs::read(folder.file()).unwrap() == before, "what is in the file");
    let whole = folder.file().metadata().unwrap().permissions();
    fs::set_permissions(folder.file(), Permissions::from_mode(0o400)).unwrap();
    assert_eq!(folder.shown()["events"]["count"], 3);
    fs::set_permissions(folder.file(), whole).unwrap();
    assert!(starts(&folder));
}

/// A file that cannot be written to, until this goes. Root may write whatever the mode says, but not to what is immutable.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn of(file: PathBuf) -> Self {
        let read_only = Self(file);
        read_only.set(0o400, "+i");
        assert!(
            fs::OpenOptions::new().write(true).open(&read_only.0).is_err(),
            "the test cannot take the right to write from itself"
        );
        read_only
    }

    fn set(&self, mode: u32, attribute: &str) {
        fs::set_permissions(&self.0, Permissions::from_mode(mode)).unwrap();
        if rustix::process::geteuid().is_root() {
            let _ = Command::new("chattr").arg(attribute).arg(&self.0).status();
        }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.0).status();
        let _ = fs::set_permissions(&self.0, Permissions::from_mode(0o600));
    }
}

/// The file system was mounted read-only after an error, and the service would have begun with nothing.
#[test]
fn a_store_that_cannot_be_written_to_is_not_done_without() {
    let home = Folder::made("read-only");
    let address = format!("{}:2809", own_loopback());
    let serve = || crate::keeping::of_user(Some(home.folder()), &["--listen", &address]);
    drop(Serve::spawn(&mut serve()));
    let read_only = ReadOnly::of(home.folder().join(".local/state/campanile/2809/campanile.redb"));
    let (output, is_ready) = start_or_refusal(&mut serve());
    assert_eq!((is_ready, output.status.code()), (false, Some(1)));
    let said = text(&output.stderr);
    assert!(said.contains("campanile.redb") && said.contains("--data none"), "{said}");
    drop(read_only);
    drop(Serve::spawn(&mut serve()));
}
