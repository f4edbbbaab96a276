//! Disks that are really full: file systems of 24 MiB that the test mounts, where it may. Where it may not, it says so and shows nothing;
//! `service::store::tests::full` has the same on a simulated disk.

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::restart::{Folder, own_address};
use crate::support::{PROGRAM, Serve, text};
use client::notify::{EventChannelFactory, StructuredEvent, StructuredProxyPushConsumer};
use client::{Orb, OrbOptions};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use testing::{Killed, output_in_time, wait_until};

/// A process with a file system of its own in a folder, invisible to all others.
struct Mount {
    holder: Killed,
    folder: Folder,
}

impl Mount {
    /// `None` where the machine does not let this process mount anything, of which a line says why.
    fn new(name: &str, mount: impl fmt::Display) -> Option<Self> {
        let folder = Folder::made(name);
        let script = format!("{mount} && mkdir \"$1/store\" && echo mounted && read -r line");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", folder.path()]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let Ok(mut holder) = started else {
            eprintln!("SKIPPED: there is no `unshare`, so nothing is shown of {name}");
            return None;
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mount = Self { holder: Killed(holder), folder };
        if line.trim() == "mounted" {
            return Some(mount);
        }
        eprintln!("SKIPPED: this process may not mount file systems, so nothing is shown of {name}");
        None
    }

    /// The program, which sees the file system, with its store's folder.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string(), "--", PROGRAM]).args(arguments);
        command.args(["--data", &format!("{}/store", self.folder.path())]);
        command
    }

    fn serve(&self, listen: &str) -> Serve {
        Serve::spawn(&mut self.program(&["serve", "--listen", listen, "--log", "error"]))
    }

    fn store(&self, command: &str, options: &[&str]) -> (String, Option<i32>) {
        let Output { stdout, stderr, status } =
            output_in_time(&mut self.program(&[&["store", command], options].concat()));
        (text(&stdout) + &text(&stderr), status.code())
    }
}

fn large(number: i32) -> StructuredEvent {
    let mut event = event(1, number);
    event.remainder = "x".repeat(24_000).as_str().into();
    event
}

fn stat(serve: &Serve, counter: &str) -> u64 {
    let told = serve.print("stats", &[counter]);
    let count = told.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix(' '));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("{counter}: {told}"))
}

/// Pushes until an event is refused: those that were accepted.
fn fill(from: &StructuredProxyPushConsumer, first: i32) -> BTreeSet<(i32, i32)> {
    let mut accepted = BTreeSet::new();
    for number in first..first + 2_000 {
        match from.push_structured_event(&large(number)) {
            Ok(()) => _ = accepted.insert((1, number)),
            Err(error) => {
                assert!(format!("{error:?}").contains("PersistStore"), "{error:?}");
                return accepted;
            }
        }
    }
    panic!("there is room for ever");
}

/// The file system was full of kept events. All were delivered, and every further event was still refused with `PERSIST_STORE`; after a
/// restart as well, and `store compact` failed for want of room.
fn fills_and_recovers(mount: &Mount) {
    let mut address = own_address();
    let mut serve = mount.serve(&address);
    address.clone_from(&serve.address);
    let orb = Orb::new(OrbOptions::default());
    let id = persistent_channel(&address);
    let taker = Taker::default();
    let _active = taker.connect(&orb, &address, id);
    // What it needs of what is configured is there before the disk is full.
    let from = supplier(&address, id).unwrap();
    let factory = EventChannelFactory::narrow(orb.resolve_service(&address).unwrap()).unwrap();
    for round in 0..3 {
        taker.stop(true);
        let accepted = fill(&from, round * 10_000);
        assert!(accepted.len() > 300, "{}", accepted.len());
        assert_eq!(stat(&serve, "store_full"), 1);
        assert!(serve.print("top", &["--once"]).contains("the disk is full"));
        // What is configured goes on.
        factory.create_channel(&[], &[]).unwrap();
        supplier(&address, id).unwrap();
        if round > 0 {
            drop(serve);
            let (said, code) = mount.store("check", &[]);
            assert_eq!(code, Some(0), "{said}");
            let elsewhere = Folder::new(&format!("full-elsewhere-{round}-{}", mount.holder.id()));
            let (said, code) = mount.store("compact", &["--to", elsewhere.path()]);
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(elsewhere.store("check", &[]).2, Some(0));
            serve = mount.serve(&address);
        }
        taker.stop(false);
        wait_until("all that was accepted", || taker.missing(&accepted).is_empty());
        wait_until("events to be taken again", || from.push_structured_event(&large(round * 10_000 + 5_000)).is_ok());
        assert_eq!(stat(&serve, "store_full"), 0);
        let more: BTreeSet<(i32, i32)> = (0..100).map(|number| (1, round * 10_000 + 6_000 + number)).collect();
        more.iter().for_each(|(_, number)| from.push_structured_event(&large(*number)).unwrap());
        wait_until("what came then", || taker.missing(&more).is_empty());
    }
    drop(serve);
    let (said, code) = mount.store("check", &[]);
    assert_eq!(code, Some(0), "{said}");
    let (said, code) = mount.store("compact", &[]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_tmpfs_full_of_stored_events_takes_others_when_those_were_delivered_after_a_restart_too() {
    let mount = Mount::new("full-tmpfs", "mount -t tmpfs -o size=24m tmpfs \"$1\"");
    mount.iter().for_each(fills_and_recovers);
}

#[test]
fn an_ext4_full_of_stored_events_takes_others_when_those_were_delivered_after_a_restart_too() {
    let image = Folder::made("full-ext4-image");
    let file = format!("{}/image", image.path());
    let script = format!(
        "truncate -s 24M {file} && mkfs.ext4 -q -m 0 {file} && mount -o loop {file} \"$1\" && rm -rf \"$1/lost+found\""
    );
    let mount = Mount::new("full-ext4", script);
    mount.iter().for_each(fills_and_recovers);
}
