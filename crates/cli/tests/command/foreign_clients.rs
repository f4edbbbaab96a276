//! Clients on another machine than the service: two network namespaces, joined by a pair of devices.

use crate::bad_network::next;
use crate::namespaces::within_namespaces;
use crate::support::{PROGRAM, TempPath, text};
use client::notify::{
    CallbackConsumer, ClientType, ConsumerAdmin, Delivery, StructuredProxyPushSupplier, find_channel,
};
use client::{InvokeError, Orb, OrbOptions};
use giop::exception::Kind;
use giop::ior::{IiopProfile, Ior, Profile};
use giop::url::Corbaloc;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use testing::{Killed, NextInTime as _, lines_of, output_in_time, wait_until};

/// The service, and beside it another server, which waits for calls at every address of the machine: for one at which nothing is to be
/// connected, a second service does, since it counts its connections.
pub(crate) const SERVICE: &str = "10.78.0.1:2809";
const OTHER: &str = "10.78.0.1:2810";

/// Where that other server can be reached from its machine: by loopback addresses, by none, in mapped forms, by the machine's own
/// addresses, and by names of these.
const LEAD_THERE: [&str; 9] = [
    "127.0.0.1",
    "127.7.7.7",
    "0.0.0.0",
    "[::ffff:127.0.0.1]",
    "[::ffff:10.78.1.1]",
    "10.78.0.1",
    "10.78.1.1",
    "trap.example",
    "other.example",
];

/// Any client had the service connect to whatever listens on its machine, for local programs only perhaps, and say chosen octets there.
#[test]
fn for_a_client_on_another_machine_nothing_on_the_services_own_is_connected_to_and_an_alternative_elsewhere_is_called()
{
    within_namespaces(&[], || {
        for_a_client_elsewhere();
        format!("nothing was connected to by way of {LEAD_THERE:?}")
    });
}

pub(crate) fn ip(arguments: &str) {
    let output = output_in_time(Command::new("ip").args(arguments.split(' ')));
    assert!(output.status.success(), "ip {arguments}: {}", text(&output.stderr));
}

/// The machine of the service: a shell that starts programs there, and what these print.
pub(crate) struct Machine {
    shell: Killed,
    pub(crate) lines: Receiver<String>,
}

impl Machine {
    pub(crate) fn start(hosts: &TempPath) -> Self {
        let script = "mount --bind \"$1\" /etc/hosts && echo here; read go; ip link set lo up; \
             ip address add 10.78.0.1/24 dev here; ip address add 10.78.1.1/32 dev lo; ip link set here up; \
             while read -r line; do eval \"$line\" & done";
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", script, "sh", hosts.path()]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut machine = Self { lines: lines_of(shell.stdout.take().unwrap()), shell: Killed(shell) };
        assert_eq!(machine.lines.next_in_time(), "here");
        ip("link add there type veth peer name here");
        ip(&format!("link set here netns {}", machine.shell.id()));
        ip("address add 10.78.0.2/24 dev there");
        ip("link set there up");
        machine.run("go", "");
        machine
    }

    /// Starts a program, and waits until it says this.
    pub(crate) fn run(&mut self, command: &str, says: &str) {
        let stdin = self.shell.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
        if !says.is_empty() {
            next(&self.lines, says);
        }
    }
}

/// What a command prints.
fn print(command: &str, options: &[&str]) -> String {
    let output = output_in_time(Command::new(PROGRAM).arg(command).args(options));
    assert!(output.status.success(), "{command} {options:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What a service has counted.
pub(crate) fn count(server: &str, counter: &str) -> u64 {
    let said = print("stats", &["--server", server, counter]);
    said.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

pub(crate) fn publish(x: &str) {
    print("pub", &["--server", SERVICE, &format!("x={x}")]);
}

/// A reference to the other server.
fn other_by(host: &str) -> Ior {
    let location: Corbaloc = format!("corbaloc:iiop:1.2@{host}:2810/DefaultEventChannel").parse().unwrap();
    location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0")
}

fn connect(orb: &Orb, admin: &ConsumerAdmin, consumer: Ior) -> Result<(), InvokeError> {
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
    proxy.connect_structured_push_consumer(&orb.object(consumer))
}

fn for_a_client_elsewhere() {
    let hosts = TempPath::file("hosts", "127.0.0.1 localhost trap.example\n10.78.1.1 other.example\n");
    ip("link set lo up");
    let mut machine = Machine::start(&hosts);
    let serve = format!("{PROGRAM} serve --data none --log error");
    let ready = "campanile: ready at ";
    machine.run(&format!("{serve} --listen 0.0.0.0:2810 --advertise 10.78.0.1"), ready);
    machine.run(&format!("{serve} --listen {SERVICE}"), ready);

    let orb = Orb::new(OrbOptions { listen: Some("10.78.0.2:0".into()), ..OrbOptions::default() });
    let (events, _) = find_channel(&orb.resolve_service(SERVICE).unwrap(), None).unwrap();
    let admin = events.default_consumer_admin().unwrap();
    let connections = || count(OTHER, "connections_accepted");
    let of_asking = connections();
    let before = connections();
    let of_asking = before - of_asking;

    // What a name leads to is found out when it is called, and all else is refused at once.
    let mut names = 0;
    for host in LEAD_THERE {
        let is_name = host.ends_with(".example");
        names += u64::from(is_name);
        match connect(&orb, &admin, other_by(host)) {
            Ok(()) => assert!(is_name, "{host}"),
            Err(InvokeError::System { exception, .. }) => {
                assert!(!is_name && exception.kind == Kind::NoPermission, "{host}: {exception:?}");
            }
            Err(error) => panic!("{host}: {error}"),
        }
    }
    publish("1");
    wait_until("what names lead to to be refused", || count(SERVICE, "outgoing_refused") >= names);

    // What leads there is passed over where there is something else.
    let (sender, received) = channel();
    let consumer = CallbackConsumer::structured(move |delivery| {
        if let Delivery::Structured(_) = delivery {
            sender.send(()).unwrap();
        }
        Ok(())
    });
    let activation = orb.activate(Arc::new(consumer)).unwrap();
    let mut reference = activation.reference().ior().clone();
    // Of a reference 8 addresses are tried, in the first one's code set.
    let own = reference.iiop().unwrap().clone();
    let there = |host: &str| IiopProfile { host: host.trim_matches(['[', ']']).into(), port: 2810, ..own.clone() };
    let traps = LEAD_THERE.iter().rev().take(7).map(|host| Profile::Iiop(there(host)));
    reference.profiles = traps.chain(reference.profiles).collect();
    connect(&orb, &admin, reference).unwrap();
    publish("2");
    received.next_in_time();
    assert_eq!(connections() - before, of_asking, "there were connections that no peer here has made");

    // A program on that machine is called there.
    machine.run(&format!("{PROGRAM} sub --server {SERVICE} --field x -n 1 2>&1"), "campanile: subscribed");
    publish("here");
    next(&machine.lines, "here");
}
