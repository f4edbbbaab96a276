//! Two machines, as two processes, with a record of who leads in an etcd: the follower takes over without an operator.

use crate::persistent::{Taker, persistent_channel};
use crate::standby::{Machine, Suppliers, missing, pair};
use crate::support::{Serve, TempPath, text};
use client::{Activation, Orb, OrbOptions};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use testing::certificates::{Authority, CertificateSpec, Certified};
use testing::{EndInTime, Killed, NextInTime, own_loopback, patient, wait_until};

/// An etcd of one member, at an address of its own.
struct Etcd {
    folder: TempPath,
    address: Ipv4Addr,
    /// Its certificate, and the authority that signs its clients'.
    tls: Option<(Certified, PathBuf)>,
    child: Option<Killed>,
}

impl Etcd {
    fn start(name: &str, authority: Option<&Authority>) -> Self {
        let address = own_loopback();
        let certify = |authority: &Authority| {
            let spec = CertificateSpec { name, hosts: &[&address.to_string()], ..CertificateSpec::default() };
            (authority.certify_as(&spec), authority.file())
        };
        let mut etcd = Self { folder: TempPath::new(name), address, tls: authority.map(certify), child: None };
        etcd.begin();
        etcd
    }

    fn clients(&self) -> String {
        format!("{}://{}:2379", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Begins with what its folder has, and waits until it answers.
    fn begin(&mut self) {
        let (clients, peers) = (self.clients(), format!("http://{}:2380", self.address));
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop/etcd");
        let program = if program.exists() { program } else { PathBuf::from("etcd") };
        let mut command = Command::new(program);
        command.args(["--log-level", "error", "--data-dir", self.folder.path()]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        command.args(["--listen-metrics-urls", &format!("http://{}:2381", self.address)]);
        if let Some((Certified { certificate, key, .. }, authority)) = &self.tls {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(authority);
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(Killed(child.expect("an etcd, which interop/install.sh fetches")));
        wait_until("etcd to answer", || self.is_healthy());
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((self.address, 2381)) else { return false };
        patient(&stream);
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").and_then(|()| stream.read_to_string(&mut answer));
        asked.is_ok() && answer.contains("\"true\"")
    }

    fn kill(&mut self) {
        self.child = None;
    }

    /// What the machines are told of it. The lease is so long that no stall has a follower take over.
    fn config(&self, more: &str) -> String {
        format!("{more}[standby.record]\netcd = [{:?}]\nlease_ms = 4000\nskew_ms = 1000\n", self.clients())
    }
}

/// Waits until the follower is in step, and recorded so.
fn wait_until_recorded(leads: &Machine) {
    wait_until("the follower to be in step, and recorded so", || {
        leads.status("state") == "in step" && leads.status("record_in_step") == "yes"
    });
}

/// Kills the leader again and again, each time with suppliers that push.
#[test]
fn a_follower_takes_over_by_itself_whatever_was_acknowledged_when_the_leader_is_killed() {
    let etcd = Etcd::start("etcd-kill", None);
    let machines = pair("record-kill", &etcd.config("lost_after_ms = 60000\n"), true);
    let mut leading = 0;
    let mut leader = machines[0].lead();
    let address = leader.address.clone();
    let mut follower = machines[1].follow();
    let id = persistent_channel(&address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active: Activation = taker.connect(&orb, &address, id);
    let mut acknowledged = BTreeSet::new();
    for round in 0..3 {
        wait_until_recorded(&machines[leading]);
        let refused = machines[1 - leading].promote(&["--accept-loss"]).unwrap_err();
        assert!(refused.contains("stop it first"), "{refused}");
        taker.stop(round % 2 == 0);
        let suppliers = Suppliers::new(&address, id, round);
        acknowledged.extend((0..200).map(|_| suppliers.acknowledged.next_in_time()));
        drop(leader);
        suppliers.end(&mut acknowledged);
        follower.wait_until_ready();
        (leader, leading) = (follower, 1 - leading);
        assert_eq!(machines[leading].status("epoch"), (round + 2).to_string());
        taker.stop(false);
        wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
        assert!(taker.disordered().is_empty(), "{:?}", taker.disordered());
        follower = machines[1 - leading].follow();
    }
    wait_until_recorded(&machines[leading]);
    assert_eq!(machines[1 - leading].status("record_epoch"), "4");
    let age = leader.print("stats", &["standby_record_age_ns"]);
    assert_ne!(age, "standby_record_age_ns 0\n");
    drop((leader, follower));
}

/// A leader that sleeps while another one takes over acknowledges nothing any more, and follows.
#[test]
fn a_leader_that_was_stopped_follows_the_one_that_took_over_by_itself() {
    let etcd = Etcd::start("etcd-stop", None);
    let machines = pair("record-stop", &etcd.config("lost_after_ms = 10000\n"), false);
    let first = machines[0].lead();
    let mut second = machines[1].follow();
    let id = persistent_channel(&first.address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active = taker.connect(&orb, &first.address, id);
    taker.stop(true);
    wait_until_recorded(&machines[0]);
    let suppliers = Suppliers::new(&first.address, id, 0);
    let mut acknowledged: BTreeSet<(i32, i32)> = (0..100).map(|_| suppliers.acknowledged.next_in_time()).collect();
    first.signal("STOP");
    second.wait_until_ready();
    first.signal("CONT");
    wait_until("the former leader to follow", || machines[0].status("role") == "follower");
    wait_until_recorded(&machines[1]);
    assert_eq!(machines[0].status("epoch"), "2");
    suppliers.end(&mut acknowledged);
    taker.stop(false);
    wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
    drop((first, second));
}

/// Without its record a leader goes on with its follower, and not alone. An emptied one it writes anew.
#[test]
fn a_leader_without_a_record_goes_on_with_its_follower_and_not_alone() {
    let mut etcd = Etcd::start("etcd-gone", None);
    let machines = pair("record-gone", &etcd.config("lost_after_ms = 4000\n"), false);
    let first = machines[0].lead();
    let follower = machines[1].follow();
    let id = persistent_channel(&first.address);
    let orb = Orb::new(OrbOptions::default());
    let taker = Taker::default();
    let _active = taker.connect(&orb, &first.address, id);
    taker.stop(true);
    wait_until_recorded(&machines[0]);
    etcd.kill();
    wait_until("etcd to be missed", || !machines[0].status("record_trouble").is_empty());
    let suppliers = Suppliers::new(&first.address, id, 0);
    let mut acknowledged: BTreeSet<(i32, i32)> = (0..100).map(|_| suppliers.acknowledged.next_in_time()).collect();
    // Its follower is gone, too: pushes are refused.
    drop(follower);
    suppliers.end(&mut acknowledged);
    assert_eq!(machines[0].status("role"), "leader");
    let warned = first.run("check", &["--interval", "0.1"]);
    assert_eq!(warned.status.code(), Some(1), "{}", text(&warned.stdout));
    assert!(text(&warned.stdout).contains("no follower is in step"), "{}", text(&warned.stdout));
    // It is back, and says that the leader is alone.
    etcd.begin();
    wait_until("the record to be written", || {
        machines[0].status("record_trouble").is_empty() && machines[0].status("record_in_step") == "no"
    });
    let suppliers = Suppliers::new(&first.address, id, 1);
    acknowledged.extend((0..100).map(|_| suppliers.acknowledged.next_in_time()));
    // It is emptied.
    let mut second = machines[1].follow();
    wait_until_recorded(&machines[0]);
    etcd.kill();
    wait_until("etcd to be missed", || !machines[0].status("record_trouble").is_empty());
    fs::remove_dir_all(etcd.folder.path()).unwrap();
    etcd.begin();
    wait_until("the record to be written anew", || machines[0].status("record_trouble").is_empty());
    wait_until_recorded(&machines[0]);
    drop(first);
    suppliers.end(&mut acknowledged);
    second.wait_until_ready();
    taker.stop(false);
    wait_until("all that was acknowledged", || missing(&taker, &acknowledged) == 0);
    assert_eq!(machines[1].status("epoch"), "2");
    drop(second);
}

/// Two new stores begin as leaders at the same time: the record says which one is. It is in an etcd that has clients show certificates.
#[test]
fn of_two_that_begin_as_leaders_one_leads() {
    let authority = Authority::new("etcd-authority");
    let etcd = Etcd::start("etcd-both", Some(&authority));
    let [one, other, clients] = [(); 3].map(|()| own_loopback());
    let machine = |name: &str, own: Ipv4Addr, peer, clients| {
        let spec = CertificateSpec { name, hosts: &[&own.to_string()], ..CertificateSpec::default() };
        let (Certified { certificate, key, .. }, file) = (authority.certify_as(&spec), authority.file());
        let tls = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {file:?}\nca = {file:?}\n");
        Machine::new(name, [own, peer], clients, &(etcd.config("tls = true\n") + &tls))
    };
    let machines =
        [machine("record-both-1", one, other, clients), machine("record-both-2", other, one, own_loopback())];
    let starting = machines.each_ref().map(|machine| {
        let mut command = machine.command();
        thread::spawn(move || Serve::spawn_waiting(&mut command))
    });
    let started = starting.map(EndInTime::end_in_time);
    let follows = |line: &str| line.starts_with("campanile: follower of ");
    assert_eq!(started.iter().filter(|(_, line)| follows(line)).count(), 1, "{:?}", started[0].1);
    let leads = usize::from(follows(&started[0].1));
    wait_until_recorded(&machines[leads]);
    assert_eq!(machines[1 - leads].status("role"), "follower");
}
