//! Two machines, as two processes: what one acknowledges is there when it is killed and the other one takes over.

use crate::persistent::{Taker, persistent_channel, supplier, supply};
use crate::restart::Folder;
use crate::support::{PROGRAM, Serve, TempPath, serve, text};
use client::{Activation, Orb, OrbOptions};
use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::{EndInTime, Killed, NextInTime, output_in_time, own_loopback, wait_until};

/// One of two machines: an address for both its clients and its peer, and a folder.
pub(crate) struct Machine {
    folder: Folder,
    config: TempPath,
    /// Where its clients call: of both machines the same, as where an address moves.
    pub(crate) clients: String,
}

impl Machine {
    pub(crate) fn new(name: &str, [own, peer]: [Ipv4Addr; 2], clients: Ipv4Addr, more: &str) -> Self {
        let text = format!("[standby]\nlisten = \"{own}:2819\"\npeer = \"{peer}:2819\"\n{more}");
        let config = TempPath::file(&format!("{name}.toml"), &text);
        Self { folder: Folder::new(name), config, clients: format!("{clients}:2809") }
    }

    pub(crate) fn command(&self) -> Command {
        serve(&[
            "--listen",
            &self.clients,
            "--log",
            "warn",
            "--data",
            self.folder.path(),
            "--config",
            self.config.path(),
        ])
    }

    pub(crate) fn lead(&self) -> Serve {
        Serve::spawn(&mut self.command())
    }

    /// Starts it as a follower.
    pub(crate) fn follow(&self) -> Serve {
        let (follower, line) = Serve::spawn_waiting(&mut self.command());
        assert!(line.starts_with("campanile: follower of "), "{line}");
        follower
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        output_in_time(command.arg("standby").args(arguments).args(["--data", self.folder.path()]))
    }

    pub(crate) fn status(&self, name: &str) -> String {
        let output = self.run(&["status"]);
        let prefix = format!("{name}: ");
        let found = text(&output.stdout).lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned));
        found.unwrap_or_default()
    }

    pub(crate) fn wait_until_in_step(&self) {
        wait_until("the follower to be in step", || self.status("state") == "in step");
    }

    /// Has it take over. Returns what it printed.
    pub(crate) fn promote(&self, why: &[&str]) -> Result<String, String> {
        let output = self.run(&[&["promote"], why].concat());
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.folder().join("standby.sock")
    }
}

/// A leader's machine and a follower's, whose clients call at one address, or at one each.
pub(crate) fn pair(name: &str, more: &str, has_one_address: bool) -> [Machine; 2] {
    let more = &if more.contains("lost_after_ms") { more.to_owned() } else { format!("lost_after_ms = 10000\n{more}") };
    let [first, second, clients] = [(); 3].map(|()| own_loopback());
    let others = if has_one_address { clients } else { own_loopback() };
    [
        Machine::new(&format!("{name}-1"), [first, second], clients, more),
        Machine::new(&format!("{name}-2"), [second, first], others, &format!("role = \"follower\"\n{more}")),
    ]
}

/// Suppliers that push until the service is gone, and what was acknowledged.
pub(crate) struct Suppliers {
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) acknowledged: Receiver<(i32, i32)>,
}

impl Suppliers {
    pub(crate) fn new(address: &str, id: i32, round: i32) -> Self {
        let (told, acknowledged) = channel();
        let threads = (0..4).map(|supplier| {
            let (address, told) = (address.to_owned(), told.clone());
            thread::spawn(move || supply(&address, id, supplier, round * 1_000_000, &told))
        });
        Self { threads: threads.collect(), acknowledged }
    }

    /// Everything that was acknowledged, once the service is gone.
    pub(crate) fn end(self, acknowledged: &mut BTreeSet<(i32, i32)>) {
        self.threads.into_iter().for_each(|thread| thread.end_in_time());
        acknowledged.extend(self.acknowledged.try_iter());
    }
}

pub(crate) fn missing(taker: &Taker, acknowledged: &BTreeSet<(i32, i32)>) -> usize {
    taker.missing(acknowledged).len()
}

/// Kills the leader again and again, each time with suppliers that push: the follower takes over, and the former leader follows it.
#[test]
fn whatever_was_acknowledged_is_there_when_the_leader_is_killed_and_the_follower_takes_over() {
    let machines = pair("standby-kill", "lost_after_ms = 60000\n", true);
    let mut leading = 0;
    let mut leader = machines[0].lead();
    let address = leader.address.clone();
    let mut follower = machines[1].follow();
    machines[0].wait_until_in_step();
    assert!(machines[1].promote(&["--accept-loss"]).unwrap_err().contains("stop it first"));
    let id = persistent_channel(&address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active: Activation = taker.connect(&orb, &address, id);
    let mut acknowledged = BTreeSet::new();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..4 {
        // What waits for consumers is there as well.
        taker.stop(round % 2 == 0);
        let suppliers = Suppliers::new(&address, id, round);
        for _ in 0..random.u32(100..600) {
            acknowledged.insert(suppliers.acknowledged.next_in_time());
        }
        drop(leader);
        suppliers.end(&mut acknowledged);
        let peer = &fs::read_to_string(&machines[1 - leading].config).unwrap();
        let host = peer.split_once("peer = \"").unwrap().1.split_once(':').unwrap().0;
        let other = machines[1 - leading].promote(&["--i-have-stopped", "elsewhere.example"]);
        assert!(other.unwrap_err().contains("and not on elsewhere.example"));
        wait_until("the follower to be promoted", || {
            machines[1 - leading].promote(&["--i-have-stopped", host]).is_ok()
        });
        follower.wait_until_ready();
        assert_eq!(follower.address, address);
        (leader, leading) = (follower, 1 - leading);
        assert_eq!(machines[leading].status("epoch"), (round + 2).to_string());
        taker.stop(false);
        wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
        assert!(taker.disordered().is_empty(), "{:?}", taker.disordered());
        // The former leader learns that there has been another one before it serves.
        follower = machines[1 - leading].follow();
        machines[leading].wait_until_in_step();
    }
    assert!(acknowledged.len() > 400, "{}", acknowledged.len());
    let counted = || leader.print("stats", &["standby_epoch", "standby_in_step"]);
    wait_until("the figures", || counted() == "standby_epoch 5\nstandby_in_step 1\n");
}

/// The follower is killed before, in and after its copy, and while it takes batches.
#[test]
fn a_follower_that_is_killed_at_any_moment_has_everything_in_the_end() {
    // So long that no stall has the leader go on alone.
    let machines = pair("standby-follower", "lag_max = 67108864\nlost_after_ms = 60000\n", true);
    let leader = machines[0].lead();
    let address = leader.address.clone();
    let id = persistent_channel(&address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active = taker.connect(&orb, &address, id);
    taker.stop(true);
    let suppliers = Suppliers::new(&address, id, 0);
    let mut acknowledged: BTreeSet<(i32, i32)> = (0..300).map(|_| suppliers.acknowledged.next_in_time()).collect();
    for round in 0..6_u32 {
        // Without what the former one had, it needs a copy.
        let is_new = round % 2 == 0;
        let folder = machines[1].folder.folder();
        if is_new && folder.exists() {
            fs::remove_dir_all(folder).unwrap();
        }
        let child = Killed(machines[1].command().stdout(Stdio::null()).spawn().unwrap());
        match round {
            0 | 3 => wait_until("the follower to listen", || machines[1].socket().exists()),
            1 | 4 => wait_until("the follower to be called", || {
                machines[1].status("leader_silent_ms").parse::<u64>().is_ok()
            }),
            _ => machines[1].wait_until_in_step(),
        }
        if round % 3 == 2 {
            // From now on the leader waits for it, and acknowledges nothing alone before a minute is over.
            acknowledged.extend((0..300).map(|_| suppliers.acknowledged.next_in_time()));
        }
        drop(child);
        let _ = fs::remove_file(machines[1].socket());
    }
    let mut follower = machines[1].follow();
    machines[1].wait_until_in_step();
    acknowledged.extend((0..300).map(|_| suppliers.acknowledged.next_in_time()));
    drop(leader);
    suppliers.end(&mut acknowledged);
    wait_until("the follower to be promoted", || machines[1].promote(&["--accept-loss"]).is_ok());
    follower.wait_until_ready();
    taker.stop(false);
    wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
}

/// The roles are exchanged under load, there and back.
#[test]
fn a_planned_change_of_roles_loses_nothing() {
    let machines = pair("standby-switch", "lost_after_ms = 60000\n", false);
    let first = machines[0].lead();
    let id = persistent_channel(&first.address);
    assert!(text(&machines[0].run(&["switch"]).stderr).contains("is not in step"));
    let second = machines[1].follow();
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active = taker.connect(&orb, &first.address, id);
    let mut acknowledged = BTreeSet::new();
    for round in 0..2 {
        let [leads, follows] = [0, 1].map(|of| &machines[(round + of) % 2]);
        wait_until("the follower to be in step", || follows.status("state") == "in step");
        wait_until("clients to be served", || supplier(&leads.clients, id).is_ok());
        taker.stop(true);
        let suppliers = Suppliers::new(&leads.clients, id, i32::try_from(round).unwrap());
        acknowledged.extend((0..200).map(|_| suppliers.acknowledged.next_in_time()));
        assert!(text(&follows.run(&["switch"]).stderr).contains("`switch` is for its leader"));
        let switched = leads.run(&["switch"]);
        assert!(text(&switched.stdout).contains(&format!("epoch: {}", round + 2)), "{}", text(&switched.stderr));
        suppliers.end(&mut acknowledged);
        wait_until("the roles to be exchanged", || {
            follows.status("role") == "leader" && leads.status("role") == "follower"
        });
        taker.stop(false);
        wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
        assert!(taker.disordered().is_empty(), "{:?}", taker.disordered());
    }
    machines[0].wait_until_in_step();
    assert_eq!(first.print("stats", &["standby_copies"]), "standby_copies 0\n", "it goes on where it was");
    drop((first, second));
}

/// A leader in asynchronous mode goes on while its follower hangs, in bounded memory.
#[test]
fn a_follower_that_hangs_is_given_up_and_takes_a_copy_when_it_is_back() {
    let more = "replicate = \"asynchronous\"\nlag_max = 1048576\nlost_after_ms = 600000\n";
    let machines = pair("standby-hangs", more, true);
    let leader = machines[0].lead();
    let follower = machines[1].follow();
    machines[0].wait_until_in_step();
    let id = persistent_channel(&leader.address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active = taker.connect(&orb, &leader.address, id);
    taker.stop(true);
    follower.signal("STOP");
    let suppliers = Suppliers::new(&leader.address, id, 0);
    let outrun = || leader.print("stats", &["standby_outrun"]) != "standby_outrun 0\n";
    // So many events are several times as much as may wait for it.
    let is_outrun = (0..1_000).any(|_| {
        (0..30).for_each(|_| _ = suppliers.acknowledged.next_in_time());
        outrun()
    });
    assert!(is_outrun, "{}", machines[0].status("lag_bytes"));
    wait_until("the figures", || leader.print("stats", &["standby_in_step"]) == "standby_in_step 0\n");
    follower.signal("CONT");
    machines[0].wait_until_in_step();
    let copies = leader.print("stats", &["standby_copies"]);
    assert!(!["standby_copies 0\n", "standby_copies 1\n"].contains(&&*copies), "{copies}");
    drop(leader);
    suppliers.end(&mut BTreeSet::new());
}

/// A leader that goes on alone, and one that was stopped while another one took over: what each had alone is set aside.
#[test]
fn a_leader_that_was_alone_or_asleep_becomes_a_follower_and_sets_aside_what_only_it_has() {
    let machines = pair("standby-aside", "", false);
    let first = machines[0].lead();
    let address = first.address.clone();
    let second = machines[1].follow();
    machines[0].wait_until_in_step();
    let id = persistent_channel(&address);
    drop(second);
    wait_until("the follower to be gone", || machines[0].status("state") == "no follower");
    wait_until("the trouble", || machines[0].status("trouble").contains("there is no follower at"));
    let suppliers = Suppliers::new(&address, id, 0);
    for _ in 0..50 {
        suppliers.acknowledged.next_in_time();
    }
    drop(first);
    suppliers.end(&mut BTreeSet::new());
    // It does not know how the leader stood.
    let mut second = machines[1].follow();
    let host = "127.0.0.1";
    assert!(machines[1].promote(&["--i-have-stopped", host]).unwrap_err().contains("and not on"));
    assert!(machines[1].promote(&["--accept-loss"]).unwrap().contains("may_be_lost: unknown"));
    second.wait_until_ready();
    let mut former = machines[0].follow();
    machines[1].wait_until_in_step();
    let aside = machines[0].folder.folder().join("set-aside-2-1");
    let shown = output_in_time(Command::new(PROGRAM).args(["store", "show", "--json", "--data"]).arg(&aside));
    assert!(text(&shown.stdout).contains("\"events\":{\"count\":"), "{}", text(&shown.stderr));
    // The other way round, with a leader that does not notice that it is not one any more, and has a supplier's push in hand.
    let taker = Taker::default();
    let orb = Orb::new(OrbOptions::default());
    let _active = taker.connect(&orb, &second.address, id);
    taker.stop(true);
    let suppliers = Suppliers::new(&second.address, id, 1);
    let mut acknowledged: BTreeSet<(i32, i32)> = (0..50).map(|_| suppliers.acknowledged.next_in_time()).collect();
    second.signal("STOP");
    wait_until("the follower to be promoted", || machines[0].promote(&["--accept-loss"]).is_ok());
    former.wait_until_ready();
    second.signal("CONT");
    wait_until("the former leader to follow", || machines[1].status("role") == "follower");
    machines[0].wait_until_in_step();
    assert_eq!(machines[1].status("epoch"), "3");
    suppliers.end(&mut acknowledged);
    taker.stop(false);
    wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
    // A signal ends it: it does not begin again.
    drop((former, second));
}

#[test]
fn a_follower_with_data_of_its_own_or_of_another_service_is_refused() {
    let machines = pair("standby-foreign", "", true);
    // A store of its own.
    drop(Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--data", machines[1].folder.path()]));
    let refused = output_in_time(&mut machines[1].command());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("it has data of a service of its own"), "{}", text(&refused.stderr));
    fs::remove_dir_all(machines[1].folder.folder()).unwrap();
    // One of another leader.
    let leader = machines[0].lead();
    let follower = machines[1].follow();
    machines[0].wait_until_in_step();
    drop(leader);
    fs::remove_dir_all(machines[0].folder.folder()).unwrap();
    // Its disk was replaced, and the other machine has what it had.
    for _ in 0..2 {
        let refused = text(&output_in_time(&mut machines[0].command()).stderr);
        assert!(
            refused.contains("this store is new") && refused.contains("the follower has the data of service"),
            "{refused}"
        );
    }
    drop(follower);
    // A follower's store is not served from.
    let serves = ["--listen", "127.0.0.1:0", "--log", "error", "--data", machines[1].folder.path()];
    let refused = output_in_time(&mut serve(&serves));
    assert!(text(&refused.stderr).contains("it is a follower's"), "{}", text(&refused.stderr));
    let nobody = machines[1].run(&["status"]);
    assert!(
        text(&nobody.stderr).contains("no service with [standby] runs with that folder"),
        "{}",
        text(&nobody.stderr)
    );
}

#[test]
fn only_a_peer_with_the_right_certificate_is_shipped_to() {
    let addresses = [(); 3].map(|()| own_loopback());
    let [first, second, clients] = addresses;
    let ours = Authority::new("standby-ours");
    let others = Authority::new("standby-others");
    let certify = |authority: &Authority, name: &str, host: Ipv4Addr| {
        authority.certify_as(&CertificateSpec { name, hosts: &[&host.to_string()], ..CertificateSpec::default() })
    };
    let machine = |name: &str,
                   pair,
                   more: &str,
                   authority: &Authority,
                   Certified { certificate, key, .. }: Certified| {
        let file = authority.file();
        let more = format!(
            "tls = true\n{more}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {file:?}\nca = {file:?}\n"
        );
        Machine::new(name, pair, clients, &more)
    };
    let leads =
        machine("standby-tls-1", [first, second], "on_follower_lost = \"stop\"\n", &ours, certify(&ours, "one", first));
    let leader = leads.lead();
    let role = "role = \"follower\"\n";
    // Of another authority, and of ours for another host.
    let strangers = [
        machine("standby-tls-2", [second, first], role, &others, certify(&others, "two", second)),
        machine("standby-tls-3", [second, first], role, &ours, certify(&ours, "three", clients)),
    ];
    for stranger in strangers {
        let follower = stranger.follow();
        wait_until("it to be refused", || leads.status("trouble").contains("ertificate"));
        assert_eq!((leads.status("state"), stranger.status("state")), ("no follower".into(), "needs a copy".into()));
        drop(follower);
        wait_until("it to be gone", || leads.status("trouble").contains("refused"));
    }
    let follows = machine("standby-tls-4", [second, first], role, &ours, certify(&ours, "four", second));
    let follower = follows.follow();
    leads.wait_until_in_step();
    // Without it nothing is acknowledged, and with it again everything is.
    let id = persistent_channel(&leader.address);
    drop(follower);
    wait_until("it to be gone", || leads.status("state") == "no follower");
    let suppliers = Suppliers::new(&leader.address, id, 0);
    suppliers.threads.into_iter().for_each(|thread| thread.end_in_time());
    assert_eq!(suppliers.acknowledged.try_iter().next(), None);
    let _follower = follows.follow();
    leads.wait_until_in_step();
    let suppliers = Suppliers::new(&leader.address, id, 1);
    for _ in 0..20 {
        suppliers.acknowledged.next_in_time();
    }
    drop(leader);
    suppliers.end(&mut BTreeSet::new());
}
