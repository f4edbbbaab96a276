//! `campanile store`, and stores that are damaged, of another release, or not to be written to.

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::restart::{Folder, exported, own_address};
use crate::support::{PROGRAM, Serve, start_or_refusal, text};
use client::notify::{EventChannelFactory, Property};
use client::{Orb, OrbOptions};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::collections::{BTreeMap, BTreeSet};
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
    pub(crate) fn store(&self, command: &str, options: &[&str]) -> (String, String, Option<i32>) {
        let mut run = Command::new(PROGRAM);
        let Output { stdout, stderr, status } =
            output_in_time(run.args(["store", command, "--data", self.path()]).args(options));
        (text(&stdout), text(&stderr), status.code())
    }

    /// Everything in it.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut contents = BTreeMap::new();
        let mut folders = vec![self.folder().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    contents.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        contents
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
    assert_eq!((&shown["version"], &shown["events"]["count"]), (&4.into(), &3_000.into()), "{shown}");
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
    wait_until("all events to be confirmed", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
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
fn a_folder_without_a_store_is_reported_and_stays_empty() {
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

/// Bits flip on media that are old. What is damaged is neither delivered nor taken for a topology, and `check` and the log report it.
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

/// A channel's history with so many events, and the files that they are in: the last of these is not finished.
fn with_history(folder: &Folder, count: u32) -> Vec<PathBuf> {
    let serve = folder.serve(&own_address());
    let mut set = Command::new(PROGRAM);
    set.args(["channel", "set", "0", "HistoryEvents=100000", "HistoryBytes=4000000", "--server", &serve.address]);
    assert!(output_in_time(&mut set).status.success());
    serve.print("pub", &["--count", &count.to_string(), &format!("text={}", "x".repeat(500)), "i={n}"]);
    let told = format!("history_events {count}\n");
    wait_until("all to be kept", || serve.print("stats", &["history_events"]) == told);
    assert_eq!(serve.stop("KILL").1, None);
    let channel = fs::read_dir(folder.folder().join("history/channel-0")).unwrap();
    let mut files: Vec<PathBuf> = channel.map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
}

/// What a service that begins with the folder as it is has of the history, as a subscriber gets it, and its log. If it does not begin: why.
fn history_as_delivered(folder: &Folder) -> Result<(Vec<u32>, String), String> {
    let log = folder.folder().with_extension("log");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data", folder.path()]);
    let (output, is_ready) = start_or_refusal(&mut command);
    if !is_ready {
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        return Err(text(&output.stderr));
    }
    let serve = Serve::spawn(command.stderr(fs::File::create(&log).unwrap()));
    // What is new comes behind all of the history.
    serve.print("pub", &["i=0"]);
    let mut sub = serve.subscribe(&["--first", "--field", "i"]);
    let told = core::iter::from_fn(|| Some(sub.line().parse::<u32>().unwrap()).filter(|number| *number > 0));
    let told = told.collect();
    let said = text(&output.stderr) + &fs::read_to_string(&log).unwrap();
    let _ = fs::remove_file(&log);
    Ok((told, said))
}

/// A single wrong bit made the whole store unusable: it was moved away, with every connection and every event in it.
#[test]
fn what_is_whole_in_a_damaged_store_is_brought_out_and_a_service_goes_on_with_it() {
    let (folder, salvaged) = (Folder::new("damaged-store"), Folder::new("salvaged-store"));
    let (serve, _, taker) = with_events(&folder, 300);
    let before = exported(&serve);
    let address = serve.address.clone();
    serve.stop("TERM");
    let file = fs::read(folder.file()).unwrap();
    let kept: BTreeSet<(i32, i32)> = (0..300).map(|number| (1, number)).collect();
    let (options, mut refused) = ([folder.path(), salvaged.path(), "--json"], 0);
    let salvage = || {
        let mut run = Command::new(PROGRAM);
        let Output { stdout, stderr, status } = output_in_time(run.args(["store", "salvage"]).args(options));
        (text(&stdout), text(&stderr), status.code())
    };
    let step = file.len() * 8 / 40;
    for bit in (0..40).map(|at| at * step + at * 8 + at % 8) {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(folder.file(), &damaged).unwrap();
        refused += u32::from(folder.store("check", &[]).2 == Some(1));
        let _ = fs::remove_dir_all(salvaged.folder());
        let (said, error, code) = salvage();
        assert_eq!(code, Some(0), "bit {bit}: {said}{error}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&said["complete"], &said["events"]["whole"]), (&true.into(), &300.into()), "{said}");
        assert_eq!(fs::read(folder.file()).unwrap(), damaged, "it stays as it is");
        let (said, error, code) = salvaged.store("check", &[]);
        assert_eq!(code, Some(0), "{said}{error}");
    }
    assert!(refused > 10, "{refused}");
    let (said, error, code) = salvage();
    assert!(error.contains("there is something in"), "{said}{error}");
    assert_eq!(code, Some(1));
    // What is worse is said: pages from the middle of the file on, until one of them is in use, which the first ones need not be.
    let (mut damaged, worse) = (file.clone(), Folder::new("salvaged-worse"));
    let lost = damaged.len() / 2 / 4_096..damaged.len() / 4_096;
    let said = lost.clone().find_map(|page| {
        damaged[page * 4_096..(page + 1) * 4_096].fill(0x55);
        fs::write(folder.file(), &damaged).unwrap();
        let _ = fs::remove_dir_all(worse.folder());
        let mut run = Command::new(PROGRAM);
        let output = output_in_time(run.args(["store", "salvage", folder.path(), worse.path()]));
        let said = text(&output.stdout);
        assert_eq!(output.status.success(), !said.contains("damaged"), "{said}");
        said.contains("is lost").then_some(said)
    });
    let said = said.unwrap_or_else(|| panic!("none of pages {lost:?} is in use"));
    assert!(said.contains(" missing\n") && said.contains("campanile serve --data"), "{said}");
    assert_eq!(worse.store("check", &[]).2, Some(0));
    let serve = salvaged.serve(&address);
    assert_eq!(exported(&serve), before);
    taker.stop(false);
    wait_until("all that was kept", || taker.missing(&kept).is_empty());
}

#[test]
fn a_store_is_compacted_into_another_folder_with_its_history_and_stays_as_it_is() {
    let (folder, other) = (Folder::new("compacted-from"), Folder::new("compacted-to"));
    let (serve, _, taker) = with_events(&folder, 500);
    let factory = EventChannelFactory::narrow(Orb::new(OrbOptions::default()).resolve_service(&serve.address).unwrap());
    let id = factory.unwrap().create_channel(&[Property::new("HistoryEvents", 100_u64)], &[]).unwrap().1;
    let proxy = supplier(&serve.address, id).unwrap();
    (0..20).for_each(|number| proxy.push_structured_event(&event(2, number)).unwrap());
    wait_until("the history", || serve.print("stats", &["lane_history_stored"]).contains("lane_history_stored 20\n"));
    let (before, address) = (exported(&serve), serve.address.clone());
    serve.stop("TERM");
    let contents = folder.contents();
    let (said, error, code) = folder.store("compact", &["--to", other.path()]);
    assert_eq!(code, Some(0), "{error}");
    assert!(said.contains(&format!("campanile serve --data {}", other.path())), "{said}");
    assert!(folder.contents() == contents, "it stays as it is");
    let shown = |folder: &Folder| ["configured", "events", "past"].map(|key| folder.shown()[key].clone());
    assert_eq!(shown(&folder), shown(&other));
    let (_, error, code) = folder.store("compact", &["--to", other.path()]);
    assert!(error.contains("there is something in"), "{error}");
    assert_eq!(code, Some(1));
    let serve = other.serve(&address);
    assert_eq!(exported(&serve), before);
    taker.stop(false);
    wait_until("all events to be confirmed", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
}

/// A past is whole up to where it is damaged, file by file; damage is reported and never delivered.
#[test]
fn a_damaged_history_is_reported_by_check_and_by_the_service_and_never_delivered() {
    const EVENTS: u32 = 400;
    let folder = Folder::new("past-damaged");
    let files = with_history(&folder, EVENTS);
    assert!(files.len() > 2, "{files:?}");
    let whole: Vec<(PathBuf, Vec<u8>)> = files.iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect();
    let store = fs::read(folder.file()).unwrap();
    let put_back = || {
        let channel = folder.folder().join("history/channel-0");
        let _ = fs::remove_dir_all(&channel);
        fs::create_dir(&channel).unwrap();
        whole.iter().for_each(|(file, octets)| fs::write(file, octets).unwrap());
        fs::write(folder.file(), &store).unwrap();
    };
    let (said, error, code) = folder.store("check", &[]);
    assert_eq!((said, code), (format!("the store in {} is whole\n", folder.path()), Some(0)), "{error}");
    let past = folder.shown()["past"][0].take();
    assert_eq!((&past["channel"], &past["events"], &past["files"]), (&0.into(), &EVENTS.into(), &files.len().into()));
    assert_eq!((&past["first"], &past["last"]), (&1.into(), &EVENTS.into()));
    let (said, ..) = folder.store("show", &[]);
    assert!(said.contains("history     400 events in files of ") && said.contains(", numbers 1 to 400\n"), "{said}");
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..24 {
        put_back();
        let at = random.usize(..files.len());
        let (file, octets) = &whole[at];
        let name = file.file_name().unwrap().to_str().unwrap();
        let mut wrong = octets.clone();
        let used = octets.iter().rposition(|octet| *octet != 0).unwrap();
        let (is_cut, place) = (round % 3 == 0, random.usize(..used));
        if is_cut {
            wrong.truncate(place);
        } else {
            wrong[place] ^= 1 << random.u32(..8);
        }
        fs::write(file, &wrong).unwrap();
        let before = folder.contents();
        let (said, error, code) = folder.store("check", &["--json"]);
        assert!(!error.contains("panicked"), "{error}");
        // Four octets of the beginning mean nothing, and sixteen tell one start of the machine from another.
        let means_nothing = !is_cut && ((12..32).contains(&place));
        // The version is one of these.
        let is_version = !is_cut && (8..12).contains(&place);
        if is_version {
            assert!(error.contains("of version") && error.contains("the release that has written it"), "{error}");
            assert_eq!(code, Some(1));
        } else {
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            // A file may be cut just where a record ends: it is then as a process that was killed left it.
            let damaged = said["damaged"].to_string();
            assert_eq!(code, Some(i32::from(said["whole"] != true)), "{said}");
            assert!(code == Some(0) || damaged.contains(name), "{said}");
            assert!(means_nothing || is_cut || code == Some(1), "round {round}, octet {place}: {said}");
        }
        // All that there is is shown, and showing it changes nothing either.
        let (_, error, shown) = folder.store("show", &[]);
        assert_eq!(shown, Some(i32::from(is_version)), "{error}");
        assert!(folder.contents() == before, "a look changes nothing");
        match history_as_delivered(&folder) {
            Err(why) => assert!(is_version && why.contains(folder.path()) && why.contains("of version"), "{why}"),
            Ok((delivered, log)) => {
                assert!(!is_version && delivered.is_sorted(), "{delivered:?}");
                assert!(delivered.iter().all(|number| (1..=EVENTS).contains(number)));
                let is_whole = delivered == (1..=EVENTS).collect::<Vec<_>>();
                assert!(is_whole || log.contains(name) || (is_cut && code == Some(0)), "round {round}: {log}");
                // Of the other files all is there.
                let numbers = |file: &PathBuf| file.file_stem().unwrap().to_str().unwrap().parse::<u32>().unwrap();
                let next = files.get(at + 1).map_or(EVENTS + 1, numbers);
                let of_others = (1..numbers(&files[at])).chain(next..=EVENTS);
                assert!(of_others.into_iter().all(|number| delivered.contains(&number)), "{delivered:?}");
            }
        }
        // A service has it whole again: what is damaged is gone from it, but for damage within a file that was finished.
        let (said, error, code) = folder.store("check", &[]);
        assert!(is_version || !error.contains("panicked") && code != Some(101), "{said}{error}");
    }
}

#[test]
fn files_of_a_history_that_are_missing_empty_or_not_its_own_are_reported_and_left_alone() {
    let folder = Folder::new("past-files");
    let files = with_history(&folder, 400);
    let number = |file: &PathBuf| file.file_stem().unwrap().to_str().unwrap().parse::<u32>().unwrap();
    let (second, third) = (number(&files[1]), number(&files[2]));
    // One is missing, and another is empty; beside them are files and a folder of other origin.
    fs::remove_file(&files[1]).unwrap();
    let channel = folder.folder().join("history/channel-0");
    let empty = channel.join("00000000000000009000.events");
    fs::write(&empty, "").unwrap();
    fs::write(channel.join("notes.events"), "a user's own").unwrap();
    fs::write(channel.join("notes.txt"), "a user's own").unwrap();
    fs::write(folder.folder().join("history/channel-x"), "a user's own").unwrap();
    fs::write(folder.folder().join("history/channel-7"), "a user's own").unwrap();
    fs::create_dir(channel.join("00000000000000009001.events")).unwrap();
    let (said, error, code) = folder.store("check", &[]);
    assert_eq!(code, Some(1), "{said}{error}");
    assert!(said.contains("history/channel-0/00000000000000009000.events has nothing that can be read"), "{said}");
    assert!(said.contains("a service that begins removes it") && !said.contains("a user"), "{said}");
    assert_eq!(folder.store("compact", &[]).2, Some(0));
    let (delivered, log) = history_as_delivered(&folder).unwrap();
    assert_eq!(delivered, (1..second).chain(third..=400).collect::<Vec<_>>());
    assert!(log.contains("00000000000000009000.events has nothing that can be read, and is removed"), "{log}");
    assert!(!empty.exists());
    for name in ["channel-0/notes.events", "channel-0/notes.txt", "channel-x", "channel-7"] {
        assert_eq!(fs::read_to_string(folder.folder().join("history").join(name)).unwrap(), "a user's own");
    }
    assert_eq!(folder.store("check", &[]).2, Some(0));
}

/// What was in it is of no process that is there, and is neither looked at nor delivered.
#[test]
fn whatever_a_former_process_left_of_backlogs_goes_at_the_start() {
    let folder = Folder::new("backlogs-left");
    assert_eq!(folder.serve(&own_address()).stop("KILL").1, None);
    let backlogs = folder.folder().join("overflow");
    fs::create_dir_all(backlogs.join("a user's own")).unwrap();
    fs::write(backlogs.join("lane-0-channel-0-0"), [0xff; 10_000]).unwrap();
    for command in ["check", "show", "compact"] {
        let (said, error, code) = folder.store(command, &[]);
        assert_eq!(code, Some(0), "{said}{error}");
    }
    let (delivered, log) = begins(&folder);
    assert!(delivered && !log.contains("panicked"), "{log}");
    assert!(!backlogs.join("lane-0-channel-0-0").exists());
    // A file in the place of the folder is reported, and left alone.
    let _ = fs::remove_dir_all(&backlogs);
    fs::write(&backlogs, "a user's own").unwrap();
    let (delivered, log) = begins(&folder);
    assert!(!delivered && log.contains(folder.path()) && log.contains("cannot be used"), "{log}");
    assert_eq!(fs::read_to_string(&backlogs).unwrap(), "a user's own");
}

/// Whether a service begins, and what it says.
fn begins(folder: &Folder) -> (bool, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data", folder.path()]);
    let (output, is_ready) = start_or_refusal(&mut command);
    (is_ready, text(&output.stderr))
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
        assert_eq!(begun.open_table(about).unwrap().insert("version", version).unwrap().unwrap().value(), 10 - version);
        begun.commit().unwrap();
    };
    of_version(6);
    assert!(!starts(&folder));
    let (_, error, code) = folder.store("check", &[]);
    assert!(error.contains("of version 6") && error.contains("the release that has written it"), "{error}");
    assert_eq!(code, Some(1));
    let database = Database::open(folder.file()).unwrap();
    let version = database.begin_read().unwrap().open_table(about).unwrap().get("version").unwrap().unwrap().value();
    assert_eq!(version, 6);
    drop(database);
    of_version(4);
    assert_eq!(folder.shown()["events"]["count"], 3);
}

/// Looking at a store with a newer release made it unreadable for the release before.
#[test]
fn a_look_at_a_store_changes_nothing() {
    let folder = Folder::new("looked-at");
    // It is killed, so that something is left to be repaired.
    drop(with_events(&folder, 3));
    let about: TableDefinition<'_, &str, u32> = TableDefinition::new("about");
    let database = Database::open(folder.file()).unwrap();
    let begun = database.begin_write().unwrap();
    begun.open_table(about).unwrap().insert("version", 2).unwrap();
    begun.commit().unwrap();
    drop(database);
    let before = fs::read(folder.file()).unwrap();
    assert_eq!(folder.shown()["version"], 2);
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
    let serve = || crate::data_folder::of_user(Some(home.folder()), &["--listen", &address]);
    drop(Serve::spawn(&mut serve()));
    let read_only = ReadOnly::of(home.folder().join(".local/state/campanile/2809/campanile.redb"));
    let (output, is_ready) = start_or_refusal(&mut serve());
    assert_eq!((is_ready, output.status.code()), (false, Some(1)));
    let said = text(&output.stderr);
    assert!(said.contains("campanile.redb") && said.contains("--data none"), "{said}");
    drop(read_only);
    drop(Serve::spawn(&mut serve()));
}
