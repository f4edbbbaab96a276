//! A disk that misbehaves while the service runs: synchronisations that take long or fail, writes for which there is no room, a folder that
//! is gone. Calls of the program to the system are caught for that by a library that is loaded before it (`bad_disk/shim.c`).

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::restart::{Folder, own_address};
use crate::support::{PROGRAM, Serve, TempPath, text};
use client::notify::{EventChannelFactory, Property, StructuredEvent, StructuredProxyPushConsumer};
use client::{Activation, InvokeError, Orb, OrbOptions};
use giop::exception::{Completed, Kind, SystemException};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use testing::{EndInTime, output_in_time, own_loopback, wait_until};

/// What stands between a service and its disk, and what the service says of it.
struct Shim {
    folder: Folder,
    config: TempPath,
}

impl Shim {
    fn new(name: &str) -> Self {
        let folder = Folder::made(&format!("shim-{name}"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/bad_disk/shim.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-shared", "-fPIC", source, "-ldl", "-o"]).arg(folder.folder().join("shim.so"));
        let compiled = output_in_time(&mut compiler);
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        let config = TempPath::file(&format!("shim-{name}.toml"), "[store]\nanswer_within_ms = 2000\n");
        let shim = Self { folder, config };
        shim.say("");
        shim
    }

    fn control(&self) -> PathBuf {
        self.folder.folder().join("control")
    }

    /// From now on it is so, and only so.
    fn say(&self, lines: &str) {
        let new = self.folder.folder().join("control.new");
        fs::write(&new, lines).unwrap();
        fs::rename(new, self.control()).unwrap();
    }

    fn serve(&self, store: &Folder, listen: &str) -> Serve {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", listen, "--log", "warn", "--data", store.path()]);
        command.args(["--config", self.config.path()]).stderr(log);
        command.env("LD_PRELOAD", self.folder.folder().join("shim.so")).env("CAMPANILE_SHIM", self.control());
        Serve::spawn(&mut command)
    }

    fn log(&self) -> PathBuf {
        self.folder.folder().join("log")
    }

    /// Waits until the service has said so.
    fn hear(&self, wanted: &str) {
        wait_until(format_args!("the service to say {wanted:?}"), || {
            fs::read_to_string(self.log()).unwrap().contains(wanted)
        });
    }

    /// How often a host name was looked up.
    fn lookups(&self, host: &str) -> usize {
        let lookups = fs::read_to_string(self.folder.folder().join("control.asked")).unwrap_or_default();
        lookups.lines().filter(|name| *name == host).count()
    }
}

/// The default channel's events, which are not stored.
struct BestEffort {
    from: StructuredProxyPushConsumer,
    taker: Taker,
    _active: Activation,
    sent: BTreeSet<(i32, i32)>,
}

impl BestEffort {
    /// With a connection of its own, so that it waits for no other client.
    fn of(address: &str) -> Self {
        let taker = Taker::default();
        let active = taker.connect(&Orb::new(OrbOptions::default()), address, 0);
        Self { from: supplier(address, 0).unwrap(), taker, _active: active, sent: BTreeSet::new() }
    }

    /// Events are delivered, and requests are answered.
    fn goes_on(&mut self, serve: &Serve) {
        for _ in 0..20 {
            let what = (9, i32::try_from(self.sent.len()).unwrap());
            self.from.push_structured_event(&event(what.0, what.1)).unwrap();
            self.sent.insert(what);
        }
        wait_until("events that are not stored", || self.taker.missing(&self.sent).is_empty());
        let listed = serve.print("ls", &[]);
        assert!(listed.contains("channel 0"), "{listed}");
    }
}

fn count(serve: &Serve, counter: &str) -> u64 {
    let told = serve.print("stats", &[counter]);
    let count = told.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix(' '));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("{counter}: {told}"))
}

fn is_persist_store(error: &InvokeError, of: Completed) -> bool {
    let wanted = SystemException { kind: Kind::PersistStore, minor: 0, completed: of };
    matches!(error, InvokeError::System { exception, .. } if *exception == wanted)
}

/// A disk that is broken for a while, in some way, while persistent events are pushed.
fn breaks_and_recovers(name: &str, break_it: impl Fn(&Shim, &Folder), mend: impl Fn(&Shim, &Folder)) {
    let (shim, store) = (Shim::new(name), Folder::new(&format!("bad-{name}")));
    let mut address = own_address();
    let serve = shim.serve(&store, &address);
    address.clone_from(&serve.address);
    let orb = Orb::new(OrbOptions::default());
    let mut best_effort = BestEffort::of(&address);
    let id = persistent_channel(&address);
    // It has nothing of what is kept until the end.
    let taker = Taker::default();
    let _active = taker.connect(&orb, &address, id);
    taker.stop(true);
    let from = supplier(&address, id).unwrap();
    let factory = EventChannelFactory::narrow(orb.resolve_service(&address).unwrap()).unwrap();
    let (mut acknowledged, mut number) = (BTreeSet::new(), 0);
    let mut push = |acknowledged: &mut BTreeSet<(i32, i32)>| {
        number += 1;
        from.push_structured_event(&event(1, number)).map(|()| {
            acknowledged.insert((1, number));
        })
    };
    (0..20).for_each(|_| push(&mut acknowledged).unwrap());
    for round in 0..2 {
        let failures = count(&serve, "store_failures");
        break_it(&shim, &store);
        // Suppliers get the failure, and so does a client that changes something.
        for _ in 0..3 {
            let error = push(&mut acknowledged).unwrap_err();
            assert!(is_persist_store(&error, Completed::No), "{error:?}");
        }
        best_effort.goes_on(&serve);
        let error = factory.create_channel(&[], &[]).map(drop).unwrap_err();
        assert!(is_persist_store(&error, Completed::No), "{error:?}");
        // The operator sees it.
        assert!(count(&serve, "store_failures") > failures && count(&serve, "events_not_stored") >= 3);
        assert!(count(&serve, "changes_not_stored") > round);
        shim.hear("store: its file campanile.redb");
        assert!(serve.print("top", &["--once"]).contains("the disk has failed"));
        mend(&shim, &store);
        wait_until("the service to go on by itself", || push(&mut acknowledged).is_ok());
        shim.hear("store: it can be written to again, and nothing was lost");
        (0..20).for_each(|_| push(&mut acknowledged).unwrap());
        factory.create_channel(&[], &[]).unwrap();
    }
    drop(serve);
    let (said, error, code) = store.store("check", &[]);
    assert_eq!(code, Some(0), "{said}{error}");
    let serve = shim.serve(&store, &address);
    taker.stop(false);
    wait_until("all that was accepted", || taker.missing(&acknowledged).is_empty());
    drop(serve);
}

#[test]
fn a_synchronisation_that_fails_is_reported_and_nothing_that_was_accepted_is_lost() {
    breaks_and_recovers("eio", |shim, _| shim.say("campanile.redb sync errno 5\n"), |shim, _| shim.say(""));
}

#[test]
fn a_disk_without_room_is_reported_and_nothing_that_was_accepted_is_lost() {
    breaks_and_recovers("enospc", |shim, _| shim.say("campanile.redb write errno 28\n"), |shim, _| shim.say(""));
}

/// The file was removed, or its folder unmounted, and events went on to be accepted, into a file that no other process would find.
#[test]
fn a_folder_that_is_gone_is_reported_and_nothing_that_was_accepted_is_lost_when_it_is_back() {
    breaks_and_recovers(
        "gone",
        |_, store| take_away(store),
        |_, store| {
            // There may be a folder of its name, as where a disk was mounted, and nothing is put into that.
            assert!(!store.folder().exists());
            fs::create_dir(store.folder()).unwrap();
            fs::remove_dir(store.folder()).unwrap();
            bring_back(store);
        },
    );
}

#[test]
fn while_a_synchronisation_takes_long_only_persistent_events_wait() {
    let (shim, store) = (Shim::new("slow"), Folder::new("bad-slow"));
    let serve = shim.serve(&store, &own_address());
    let address = serve.address.clone();
    let orb = Orb::new(OrbOptions::default());
    let mut best_effort = BestEffort::of(&address);
    let id = persistent_channel(&address);
    let taker = Taker::default();
    let _active = taker.connect(&orb, &address, id);
    let from = supplier(&address, id).unwrap();
    shim.say("campanile.redb sync hold 0\n");
    let pushing = thread::spawn(move || {
        from.push_structured_event(&event(1, 1)).unwrap();
        from
    });
    for _ in 0..5 {
        best_effort.goes_on(&serve);
    }
    assert!(!pushing.is_finished(), "it is answered before it is on the disk");
    assert_eq!(taker.missing(&BTreeSet::from([(1, 1)])).len(), 1, "no consumer has it before it is on the disk");
    shim.say("campanile.redb sync delay 300\n");
    let from = pushing.end_in_time();
    let sent: BTreeSet<(i32, i32)> = (1..6).map(|number| (1, number)).collect();
    for (name, number) in sent.iter().skip(1) {
        from.push_structured_event(&event(*name, *number)).unwrap();
    }
    best_effort.goes_on(&serve);
    wait_until("all that was accepted", || taker.missing(&sent).is_empty());
    assert_eq!((count(&serve, "store_failures"), count(&serve, "events_not_stored")), (0, 0));
}

/// Whether a process has a file open. To look at the store itself would lock it, and the service would end.
fn is_open(file: &Path) -> bool {
    let files = |process: PathBuf| fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let mut open = fs::read_dir("/proc").unwrap().flatten().flat_map(|process| files(process.path()));
    open.any(|opened| fs::read_link(opened.path()).is_ok_and(|found| found == file))
}

/// The ports were open before the store was looked at: clients connected to a service that then said that its store is damaged, and ended;
/// and those of a large store waited for as long as looking through it took.
#[test]
fn a_port_refuses_connections_until_the_store_was_found_good_and_for_ever_where_it_is_bad() {
    let (shim, store) = (Shim::new("found-good"), Folder::new("bad-found-good"));
    let serve = shim.serve(&store, &own_address());
    let address = serve.address.clone();
    drop(serve);
    shim.say("campanile.redb sync hold 0\n");
    thread::scope(|scope| {
        let starting = scope.spawn(|| shim.serve(&store, &address));
        wait_until("the service to open its store", || is_open(&store.folder().join("campanile.redb")));
        for _ in 0..20 {
            assert_eq!(TcpStream::connect(&address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        assert!(!starting.is_finished());
        shim.say("");
        let serve = starting.join().unwrap();
        TcpStream::connect(&address).unwrap();
        drop(serve);
    });
    let file = store.folder().join("campanile.redb");
    let mut damaged = fs::read(&file).unwrap();
    damaged[64..320].fill(0xff);
    fs::write(&file, damaged).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", &address, "--log", "off", "--data", store.path()]);
    let refused = thread::scope(|scope| {
        let starting = scope.spawn(|| output_in_time(&mut command));
        while !starting.is_finished() {
            assert!(TcpStream::connect(&address).is_err(), "a service with a damaged store took a connection");
        }
        starting.join().unwrap()
    });
    assert!(text(&refused.stderr).contains("is damaged"), "{}", text(&refused.stderr));
}

fn large(number: i32) -> StructuredEvent {
    let mut event = event(1, number);
    event.remainder = "x".repeat(1_000).as_str().into();
    event
}

/// A service with a disk that can be had to misbehave, and a channel of it with a supplier and a consumer.
struct Rig {
    shim: Shim,
    store: Folder,
    serve: Serve,
    channel: i32,
    from: StructuredProxyPushConsumer,
    taker: Taker,
    _active: Activation,
}

impl Rig {
    fn new(name: &str, qos: Property) -> Self {
        let (shim, store) = (Shim::new(name), Folder::new(&format!("bad-{name}")));
        let serve = shim.serve(&store, &own_address());
        let orb = Orb::new(OrbOptions::default());
        let factory = EventChannelFactory::narrow(orb.resolve_service(&serve.address).unwrap()).unwrap();
        let channel = factory.create_channel(&[qos], &[]).unwrap().1;
        let taker = Taker::default();
        let active = taker.connect(&orb, &serve.address, channel);
        let from = supplier(&serve.address, channel).unwrap();
        Self { shim, store, serve, channel, from, taker, _active: active }
    }

    /// One with a consumer that sleeps, and has a backlog on disk.
    fn with_backlog(name: &str) -> Self {
        let rig = Self::new(name, Property::new("MemoryBudget", 200_000_u64));
        rig.taker.stop(true);
        (0..300).for_each(|number| rig.from.push_structured_event(&large(number)).unwrap());
        wait_until("a backlog on disk", || count(&rig.serve, "overflow_events") > 100);
        rig
    }
}

/// What a channel has kept of its history.
fn history(serve: &Serve, channel: i32, options: &[&str]) -> Vec<i32> {
    let channel = channel.to_string();
    let told = serve.print("sub", &[&["-c", &channel, "--field", "number"], options].concat());
    told.lines().map(|line| line.parse().unwrap()).collect()
}

/// The store's folder is moved away, as where a disk is unmounted.
fn take_away(store: &Folder) {
    fs::rename(store.folder(), store.folder().with_extension("aside")).unwrap();
}

fn bring_back(store: &Folder) {
    fs::rename(store.folder().with_extension("aside"), store.folder()).unwrap();
}

/// A service that cannot write backlogs, in some way, while a consumer sleeps.
fn backlog_breaks_and_recovers(name: &str, break_it: impl Fn(&Shim, &Folder), mend: impl Fn(&Shim, &Folder)) {
    let Rig { shim, store, serve, from, taker, _active, channel: _ } = Rig::with_backlog(name);
    let mut best_effort = BestEffort::of(&serve.address);
    break_it(&shim, &store);
    let pushing = thread::spawn(move || {
        (300..1_500).for_each(|number| from.push_structured_event(&large(number)).unwrap());
    });
    wait_until("it to be counted", || count(&serve, "overflow_failures") > 0);
    shim.hear("what slow consumers are yet to get stays in memory");
    wait_until("the supplier to be blocked", || count(&serve, "lane_suppliers_blocked") > 0);
    best_effort.goes_on(&serve);
    mend(&shim, &store);
    shim.hear("overflow: it can be written to again, and nothing was lost");
    pushing.end_in_time();
    taker.stop(false);
    let all: BTreeSet<(i32, i32)> = (0..1_500).map(|number| (1, number)).collect();
    wait_until("the whole backlog", || taker.missing(&all).is_empty());
    assert!(taker.disordered().is_empty(), "{:?}", taker.disordered());
    assert_eq!(count(&serve, "lane_dropped"), 0);
}

#[test]
fn a_backlog_for_which_the_disk_has_no_room_holds_its_suppliers_only_and_goes_on() {
    let break_it = |shim: &Shim, _: &Folder| shim.say("/overflow/ write errno 28\n");
    backlog_breaks_and_recovers("backlog-full", break_it, |shim, _| shim.say(""));
}

#[test]
fn a_backlog_that_cannot_be_written_holds_its_suppliers_only_and_goes_on() {
    let break_it = |shim: &Shim, _: &Folder| shim.say("/overflow/ write errno 5\n");
    backlog_breaks_and_recovers("backlog-eio", break_it, |shim, _| shim.say(""));
}

#[test]
fn a_backlog_whose_folder_is_gone_holds_its_suppliers_only_and_goes_on_when_it_is_back() {
    backlog_breaks_and_recovers("backlog-gone", |_, store| take_away(store), |_, store| bring_back(store));
}

/// Its files were tried to be written to for ever, and their suppliers were blocked as long.
#[test]
fn where_the_backlogs_are_removed_what_was_in_them_is_lost_and_counted_and_the_rest_goes_on() {
    let Rig { shim, store, serve, from, taker, _active, channel: _ } = Rig::with_backlog("backlog-removed");
    fs::remove_dir_all(store.folder().join("overflow")).unwrap();
    let pushing = thread::spawn(move || {
        (300..1_500).for_each(|number| from.push_structured_event(&large(number)).unwrap());
        from
    });
    let from = pushing.end_in_time();
    taker.stop(false);
    wait_until("what is left of the backlog", || count(&serve, "overflow_events") == 0);
    let lost = count(&serve, "lane_dropped_overflow_lost");
    assert!(lost > 50, "{lost}");
    shim.hear("are lost, since they cannot be read");
    from.push_structured_event(&large(1_500)).unwrap();
    wait_until("what comes then", || taker.missing(&BTreeSet::from([(1, 1_500)])).is_empty());
    let all: BTreeSet<(i32, i32)> = (0..1_500).map(|number| (1, number)).collect();
    assert_eq!(taker.missing(&all).len() as u64, lost);
    assert!(taker.disordered().is_empty(), "{:?}", taker.disordered());
}

/// What a channel keeps of its history cannot be written, in some way: events come as ever, and the history has all of them in the end.
fn history_breaks_and_recovers(name: &str, break_it: impl Fn(&Shim, &Folder), mend: impl Fn(&Shim, &Folder)) {
    let Rig { shim, store, serve, channel, from, taker, _active } =
        Rig::new(name, Property::new("HistoryEvents", 10_000_u64));
    let mut sent = BTreeSet::new();
    let mut push = |numbers: std::ops::Range<i32>| {
        for number in numbers {
            from.push_structured_event(&event(1, number)).unwrap();
            sent.insert((1, number));
        }
        wait_until("events to come as ever", || taker.missing(&sent).is_empty());
    };
    push(0..100);
    wait_until("some of the history", || count(&serve, "history_events") == 100);
    break_it(&shim, &store);
    push(100..200);
    wait_until("it to be counted", || count(&serve, "overflow_failures") > 0);
    assert_eq!(count(&serve, "history_events"), 100);
    mend(&shim, &store);
    shim.hear("overflow: it can be written to again, and nothing was lost");
    push(200..300);
    wait_until("all of the history", || count(&serve, "history_events") == 300);
    assert_eq!(history(&serve, channel, &["--first", "-n", "300"]), (0..300).collect::<Vec<i32>>());
}

#[test]
fn a_history_for_which_the_disk_has_no_room_blocks_no_supplier_and_goes_on() {
    history_breaks_and_recovers("past-full", |shim, _| shim.say("/history/ write errno 28\n"), |shim, _| shim.say(""));
}

#[test]
fn a_history_that_cannot_be_written_blocks_no_supplier_and_goes_on() {
    history_breaks_and_recovers("past-eio", |shim, _| shim.say("/history/ write errno 5\n"), |shim, _| shim.say(""));
}

#[test]
fn a_history_whose_folder_is_gone_blocks_no_supplier_and_goes_on_when_it_is_back() {
    history_breaks_and_recovers("past-gone", |_, store| take_away(store), |_, store| bring_back(store));
}

/// A file that is gone was tried to be written to for ever, and the channel's events stayed in memory until its suppliers were blocked.
#[test]
fn where_a_history_is_removed_it_goes_on_with_what_comes() {
    let Rig { shim, store, serve, channel, from, taker: _taker, _active } =
        Rig::new("past-removed", Property::new("HistoryEvents", 10_000_u64));
    let push = |numbers: std::ops::Range<i32>| {
        numbers.for_each(|number| from.push_structured_event(&event(1, number)).unwrap());
    };
    push(0..100);
    wait_until("some of the history", || count(&serve, "history_events") == 100);
    fs::remove_dir_all(store.folder().join("history")).unwrap();
    push(100..200);
    wait_until("all of it to be written", || count(&serve, "history_events") == 200);
    assert_eq!(history(&serve, channel, &["--from", "101", "-n", "100"]), (100..200).collect::<Vec<i32>>());
    // The next process finds what is there.
    let address = serve.address.clone();
    assert_eq!(serve.stop("TERM").1, Some(0));
    let serve = shim.serve(&store, &address);
    assert_eq!(history(&serve, channel, &["--first", "-n", "100"]), (100..200).collect::<Vec<i32>>());
}

/// A consumer had moved while the service was down, and its name led elsewhere for a while.
#[test]
fn a_restored_consumer_whose_name_leads_elsewhere_is_found_when_it_leads_to_it_again() {
    const HOST: &str = "moved.campanile.example";
    let (shim, store) = (Shim::new("moved"), Folder::new("bad-moved"));
    let here = format!("host {HOST} 127.0.0.1\n");
    shim.say(&here);
    let serve = shim.serve(&store, &own_address());
    let address = serve.address.clone();
    let id = persistent_channel(&address);
    let taker = Taker::default();
    let elsewhere = Orb::new(OrbOptions { advertise: Some(HOST.into()), ..OrbOptions::default() });
    let _active = taker.connect(&elsewhere, &address, id);
    let mut sent = BTreeSet::new();
    let mut push = |number: i32| {
        supplier(&address, id).unwrap().push_structured_event(&event(1, number)).unwrap();
        sent.insert((1, number));
        sent.clone()
    };
    let all = push(0);
    wait_until("it to be found", || taker.missing(&all).is_empty());
    drop(serve);
    // No consumer listens there.
    shim.say(&format!("host {HOST} {}\n", own_loopback()));
    let serve = shim.serve(&store, &address);
    let all = push(1);
    let before = shim.lookups(HOST);
    wait_until("it to be looked for", || count(&serve, "connects_failed") > 0);
    // With each attempt that follows, its name is looked up anew.
    wait_until("it to be looked up again", || shim.lookups(HOST) >= before + 3);
    assert_eq!(taker.missing(&all).len(), 1);
    shim.say(&here);
    wait_until("it to be found where it is now", || taker.missing(&all).is_empty());
    let all = push(2);
    wait_until("what comes then", || taker.missing(&all).is_empty());
}
