//! A service that a supervisor starts when the first client connects, watches over, and starts again, as systemd does with the units in
//! packaging/systemd. Here a few lines stand for systemd: they do what those units say.

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::restart::Folder;
use crate::support::{PROGRAM, send_signal, text};
use client::tempo::{Message, Node};
use client::{InvokeError, Orb, OrbOptions};
use giop::exception::Completed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use testing::{EndInTime, Killed, Leash, NextInTime, output_in_time, own_loopback, wait_until};

/// What packages install as /etc/campanile/campanile.toml.
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/campanile.toml");

/// What a unit of packaging/systemd says under a key.
fn unit(name: &str, key: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
    let said = std::fs::read_to_string(file).unwrap();
    let mut values = said.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().unwrap_or_else(|| panic!("{name} has no {key}")).to_owned()
}

/// A socket that there is before the service, and stays.
fn listening() -> TcpListener {
    TcpListener::bind((own_loopback(), 0)).unwrap()
}

/// What stands for systemd.
struct Starter {
    sockets: Vec<(OwnedFd, String)>,
    /// Socket for the notifications of how the service stands, and its folder.
    ear: UnixDatagram,
    folder: Folder,
    watchdog: Duration,
}

impl Starter {
    fn new(name: &str, sockets: Vec<(OwnedFd, String)>) -> Self {
        let folder = Folder::made(name);
        let ear = UnixDatagram::bind(folder.folder().join("notify")).unwrap();
        ear.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { sockets, ear, folder, watchdog: Duration::from_secs(3_600) }
    }

    /// The command of the service's unit, in the surroundings that it asks for. Sockets are passed as descriptors 3, 4 and 5,
    /// for which they go through 0, 1 and 2.
    fn command(&self) -> Command {
        let unit = |key: &str| unit("campanile.service", key);
        assert_eq!((unit("Type").as_str(), unit("StateDirectory").as_str()), ("notify", "campanile"));
        let line = unit("ExecStart").replace("/usr/local/bin/campanile", PROGRAM);
        let line = line.replace("/etc/campanile/campanile.toml", CONFIGURATION);
        let line = line.replace("$CAMPANILE_OPTIONS", "--log error");
        let mut command = Command::new("sh");
        let pass = match self.sockets.len() {
            0 => "",
            1 => "3<&0 0</dev/null",
            2 => "3<&0 4<&1 0</dev/null 1>&2",
            _ => "3<&0 4<&1 5<&2 0</dev/null 1>/dev/null 2>/dev/null",
        };
        command.args(["-c", &format!("export LISTEN_PID=$$; exec {line} {pass}")]);
        let mut ends = self.sockets.iter().map(|(socket, _)| Stdio::from(socket.try_clone().unwrap()));
        command.stdin(ends.next().unwrap_or_else(Stdio::null)).stdout(ends.next().unwrap_or_else(Stdio::piped));
        ends.next().map(|socket| command.stderr(socket));
        let names: Vec<&str> = self.sockets.iter().map(|(_, name)| name.as_str()).collect();
        command.env("LISTEN_FDS", self.sockets.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        command.env("NOTIFY_SOCKET", self.folder.folder().join("notify"));
        command.env("WATCHDOG_USEC", self.watchdog.as_micros().to_string());
        command.env("STATE_DIRECTORY", self.folder.folder().join("state"));
        command
    }

    /// Starts it, and waits until it is ready.
    fn start(&self) -> Running {
        let running = Running(Killed(self.command().spawn().unwrap()));
        assert!(self.notified("READY=1").contains("STATUS=serves at "));
        running
    }

    /// Waits for a notification with that text, and gives all of it.
    fn notified(&self, what: &str) -> String {
        let mut all = Vec::new();
        for _ in 0..10_000 {
            let mut message = [0; 4_096];
            let length = match self.ear.recv(&mut message) {
                Ok(length) => length,
                // A process of another test that ran here has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("{what}: {error} after {all:?}"),
            };
            all.push(text(message.get(..length).unwrap()));
            if all.last().is_some_and(|message| message.lines().any(|line| line == what)) {
                return all.pop().unwrap();
            }
        }
        panic!("{what}: {all:?}")
    }

    /// Waits until a client connects to the first socket.
    fn wait_for_client(&self) {
        let mut sockets = [PollFd::new(&self.sockets.first().unwrap().0, PollFlags::IN)];
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut sockets, Some(&limit)).unwrap(), 1, "no client has connected");
    }
}

struct Running(Killed);

impl Running {
    /// What it counted, when it has ended by itself.
    fn last_words(&mut self) -> String {
        let _leash = Leash::new(&self.0, "a service to end");
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.wait().unwrap();
        said
    }
}

fn giop(listener: &TcpListener) -> (OwnedFd, String) {
    (listener.try_clone().unwrap().into(), unit("campanile.socket", "FileDescriptorName"))
}

/// Pushes numbers until it is to stop, whatever becomes of the service; tells those that were taken, and what else it was answered.
fn supply(address: &str, id: i32, is_over: &AtomicBool, notified: &Sender<i32>) -> Vec<InvokeError> {
    let proxy = supplier(address, id).unwrap();
    let mut errors = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        match proxy.push_structured_event(&event(1, number)) {
            Ok(()) => notified.send(number).unwrap(),
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// With the servers that they had before, clients that connected while the service was away were refused, and each of them had to be
/// started again.
#[test]
fn the_first_connection_starts_the_service_and_clients_notice_restarts_as_pauses() {
    let listener = listening();
    let address = listener.local_addr().unwrap().to_string();
    let starter = Starter::new("demand", vec![giop(&listener)]);
    let client = {
        let address = address.clone();
        thread::spawn(move || persistent_channel(&address))
    };
    starter.wait_for_client();
    let mut running = starter.start();
    let id = client.end_in_time();
    let (orb, taker) = (Orb::new(OrbOptions::default()), Taker::default());
    let _active = taker.connect(&orb, &address, id);
    let (is_over, (notified, taken)) = (Arc::new(AtomicBool::new(false)), channel());
    let supplying = {
        let (address, is_over) = (address.clone(), Arc::clone(&is_over));
        thread::spawn(move || supply(&address, id, &is_over, &notified))
    };
    let (mut acknowledged, mut put_off) = (BTreeSet::new(), 0);
    let mut take = |count: u32| (0..count).for_each(|_| _ = acknowledged.insert((1, taken.next_in_time())));
    for round in 0..6 {
        take(50);
        if round % 2 == 0 {
            send_signal(&running.0, "TERM");
            starter.notified("STOPPING=1");
            put_off += u32::from(running.last_words().contains("pushes_deferred "));
        } else {
            drop(running);
        }
        // The supplier connects again, which starts it.
        starter.wait_for_client();
        running = starter.start();
    }
    take(50);
    is_over.store(true, Ordering::Relaxed);
    let errors = supplying.end_in_time();
    acknowledged.extend(taken.try_iter().map(|number| (1, number)));
    assert!(acknowledged.len() >= 350, "{}", acknowledged.len());
    // A killed service leaves open whether it took the event under way; a stopped one has answered.
    assert!(errors.len() <= 3, "{errors:?}");
    let is_unsure = |error: &InvokeError| matches!(error, InvokeError::Lost { completed: Completed::Maybe, .. });
    assert!(errors.iter().all(is_unsure), "{errors:?}");
    assert!(put_off > 0, "no client pushed to a service that was about to end");
    wait_until("all that was accepted", || taker.missing(&acknowledged).is_empty());
}

#[test]
fn a_service_that_hangs_tells_the_watchdog_nothing_and_is_what_it_was_when_it_is_started_again() {
    let listener = listening();
    let address = listener.local_addr().unwrap().to_string();
    let mut starter = Starter::new("watchdog", vec![giop(&listener)]);
    assert!(unit("campanile.service", "WatchdogSec").ends_with('s'));
    starter.watchdog = Duration::from_millis(800);
    let running = starter.start();
    let id = persistent_channel(&address);
    (0..3).for_each(|_| _ = starter.notified("WATCHDOG=1"));
    send_signal(&running.0, "STOP");
    // Notifications from before it hung are still there.
    starter.ear.set_read_timeout(Some(2 * starter.watchdog)).unwrap();
    let mut message = [0; 100];
    while starter.ear.recv(&mut message).is_ok() {}
    starter.ear.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    drop(running);
    let running = starter.start();
    supplier(&address, id).unwrap().push_structured_event(&event(1, 1)).unwrap();
    starter.notified("WATCHDOG=1");
    // While it ends it goes on, too.
    send_signal(&running.0, "TERM");
    assert!(starter.notified("STOPPING=1").contains("STATUS=delivers what it has taken"));
}

#[test]
fn sockets_are_distinguished_by_their_names_in_whichever_order_they_come() {
    let [corba, json] = [(); 2].map(|()| listening());
    let (address, of_json) = (corba.local_addr().unwrap().to_string(), json.local_addr().unwrap());
    let name = unit("campanile-json.socket", "FileDescriptorName");
    let starter = Starter::new("names", vec![(json.into(), name), giop(&corba)]);
    let _running = starter.start();
    persistent_channel(&address);
    let mut stream = TcpStream::connect(of_json).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"{\"op\":\"ping\",\"id\":7}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"ok\":7}\n");
}

#[test]
fn tempo_has_a_socket_for_connections_and_one_for_datagrams() {
    let (corba, connections) = (listening(), listening());
    let of_tempo = connections.local_addr().unwrap();
    let datagrams = UdpSocket::bind(of_tempo).unwrap();
    for key in ["ListenStream", "ListenDatagram"] {
        assert_eq!(unit("campanile-tempo.socket", key), "127.0.0.1:2811");
    }
    let name = unit("campanile-tempo.socket", "FileDescriptorName");
    let starter =
        Starter::new("tempo", vec![(datagrams.into(), name.clone()), giop(&corba), (connections.into(), name)]);
    let _running = starter.start();
    let [subscribing, publishing] = ["tcp", "udp"].map(|scheme| Node::open(&format!("{scheme}://{of_tempo}")).unwrap());
    let (sender, messages) = channel();
    let tell = move |message: &Message<'_>| _ = sender.send(message.octets.to_vec());
    let _subscriber = subscribing.subscriber("A/B").on(tell).unwrap();
    let publisher = publishing.publisher("A/B").open().unwrap();
    assert!(publisher.wait_for_subscribers(1, Duration::from_secs(60)));
    // Either may be known first: the subscriber may be yet to be known.
    wait_until("a message", || {
        publisher.publish(b"gust").unwrap();
        messages.try_recv().is_ok_and(|message| message == b"gust")
    });
}

#[test]
fn sockets_that_cannot_be_listened_on_are_refused_with_what_is_wrong() {
    let connected = {
        let listener = listening();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    };
    let udp = UdpSocket::bind((own_loopback(), 0)).unwrap();
    let two = [(); 2].map(|()| giop(&listening())).into_iter().collect();
    let [alone, apart] = [(); 2].map(|()| OwnedFd::from(listening()));
    let elsewhere = UdpSocket::bind((own_loopback(), 0)).unwrap();
    let wrong: [(Vec<(OwnedFd, String)>, &str); 5] = [
        (vec![(alone, "tempo".into())], "ListenDatagram=HOST:PORT"),
        (vec![(apart, "tempo".into()), (elsewhere.into(), "tempo".into())], "of one address and port"),
        (vec![(connected.into(), "giop".into())], "Accept=yes"),
        (vec![(udp.into(), "giop".into())], "ListenStream=HOST:PORT"),
        (two, "more sockets were passed"),
    ];
    for (at, (sockets, what)) in wrong.into_iter().enumerate() {
        let starter = Starter::new(&format!("refused-{at}"), sockets);
        let child = starter.command().stderr(Stdio::piped()).spawn().unwrap();
        let leash = Leash::new(&child, "a service to refuse");
        let Output { stderr, status, .. } = child.wait_with_output().unwrap();
        drop(leash);
        assert!(text(&stderr).contains(what), "{}", text(&stderr));
        assert_eq!(status.code(), Some(2));
        assert_eq!(unit("campanile.service", "RestartPreventExitStatus"), "2");
    }
}

/// What is for another process, as the variables of a shell that systemd has started are, is not taken for one's own.
#[test]
fn sockets_of_another_process_are_left_alone() {
    let listener = listening();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", &listener.local_addr().unwrap().to_string(), "--log", "off", "--data", "none"]);
    let Output { stderr, status, .. } = output_in_time(command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1"));
    assert!(text(&stderr).contains("is in use"), "{}", text(&stderr));
    assert_eq!(status.code(), Some(1));
}

#[test]
fn the_units_are_what_systemd_takes() {
    let folder = Folder::made("units");
    let mut units = Vec::new();
    for name in ["campanile.service", "campanile.socket", "campanile-json.socket", "campanile-tempo.socket"] {
        let said =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name));
        let path = folder.folder().join(name);
        std::fs::write(&path, said.unwrap().replace("/usr/local/bin/campanile", PROGRAM)).unwrap();
        units.push(path);
    }
    if Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status().is_ok() {
        let Output { stderr, status, .. } = output_in_time(Command::new("systemd-analyze").arg("verify").args(&units));
        assert!(status.success() && stderr.is_empty(), "{}", text(&stderr));
    }
    // Where there is no systemd to ask, at least what the service counts on is there.
    for key in ["AmbientCapabilities", "LimitRTPRIO", "Restart", "WatchdogSec", "TimeoutStopSec", "Requires"] {
        assert!(!unit("campanile.service", key).is_empty());
    }
}
