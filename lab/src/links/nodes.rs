//! Nodes on a network of their own: network namespaces, each joined to the bridge of this process's own by a pair of veth devices.
//!
//! The bridge is this node's network card: what it counts is what this node sends to others and gets from them.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use load::process::Dialogue;

use crate::BenchError;

/// The network, and the bridge of the node that this process is: its first address.
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const BRIDGE: &str = "nodes";
/// Groups of multicast, which no other route leads to.
const GROUPS: &str = "224.0.0.0/4";
const DOING: &str = "making a network of its own, which takes root, unshare and ip";
/// Devices count what is on the wire, and not what the kernel would hand to a card to be cut into packets.
const UNCUT: &str = "gso_max_segs 1";

fn failed(doing: &str, reason: impl ToString) -> BenchError {
    BenchError::Setup { doing: doing.to_owned(), reason: reason.to_string() }
}

/// What `unshare` makes a network of its own by: without root too, where the kernel grants that to users.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    let root = if rustix::process::geteuid().is_root() { &["--net", "--"][..] } else { &["--net", "-r", "--"] };
    command.args(root);
    command
}

/// Whether this program is in a network of its own.
fn has_own_network() -> Result<bool, BenchError> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).map_err(|why| failed(DOING, why));
    Ok(network("self")? != network(&std::os::unix::process::parent_id().to_string())?)
}

/// Whether this program is in a network of its own, or may make one.
pub(crate) fn may_have_own_network() -> Result<bool, BenchError> {
    let bridge = || unshare().args(["ip", "link", "add", BRIDGE, "type", "bridge"]).output();
    Ok(has_own_network()? || bridge().is_ok_and(|done| done.status.success()))
}

/// Has this program start anew in a network of its own, unless it is in one, and makes the bridge there.
pub(crate) fn own_network() -> Result<(), BenchError> {
    if !has_own_network()? {
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        return Err(failed(DOING, unshare().arg(this).args(std::env::args_os().skip(1)).exec()));
    }
    shell(&format!(
        "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up
         ip link add {BRIDGE} {UNCUT} type bridge; ip addr add {HERE}/24 dev {BRIDGE}; ip link set {BRIDGE} up
         ip route add {GROUPS} dev {BRIDGE}"
    ))
}

/// Has this node send at most so many Mbit/s to all others together; 0: as much as it can. What is beyond waits for up to 100 ms.
pub(crate) fn limit_line(mbit: u32) -> Result<(), BenchError> {
    let limit = format!("tc qdisc add dev {BRIDGE} root tbf rate {mbit}mbit burst 16kb latency 100ms");
    let free = format!("tc qdisc del dev {BRIDGE} root 2>/dev/null || true");
    shell(&if mbit == 0 { free } else { format!("{free}\n{limit}") })
}

fn shell(script: &str) -> Result<(), BenchError> {
    let doing = "joining a node to the network";
    let done = Command::new("sh").args(["-ec", script]).output().map_err(|why| failed(doing, why))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(failed(doing, said.trim())) }
}

/// A node: a namespace that is there as long as this is.
pub(crate) struct Node {
    /// None of the one that this process is.
    holder: Option<Dialogue>,
    /// Its cable's end at this node.
    device: Option<String>,
    pub(crate) address: Ipv4Addr,
}

impl Node {
    pub(crate) fn here() -> Self {
        Self { holder: None, device: None, address: HERE }
    }

    pub(crate) fn start(number: u8) -> Result<Self, BenchError> {
        let address = Ipv4Addr::new(10, 77, 0, number.saturating_add(2));
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-ec", "ip link set lo up; echo ready; exec cat"]);
        let (holder, ()) = Dialogue::spawn("a node", command, |line| (line == "ready").then_some(()))?;
        let pid = holder.pid();
        shell(&format!(
            "ip link add node{number} {UNCUT} type veth peer name eth0 {UNCUT} netns {pid}
             ip link set node{number} master {BRIDGE} up
             nsenter --net=/proc/{pid}/ns/net sh -ec 'ip addr add {address}/24 dev eth0; ip link set eth0 up
             ip route add {GROUPS} dev eth0'"
        ))?;
        Ok(Self { holder: Some(holder), device: Some(format!("node{number}")), address })
    }

    /// Puts its cable in or pulls it.
    pub(crate) fn set_cable(&self, is_in: bool) -> Result<(), BenchError> {
        let Some(device) = &self.device else { return Ok(()) };
        shell(&format!("ip link set {device} {}", if is_in { "up" } else { "down" }))
    }

    /// The words that begin a command which runs there.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let into =
            |there: &Dialogue| ["nsenter".into(), format!("--net=/proc/{}/ns/net", there.pid()).into(), "--".into()];
        self.holder.iter().flat_map(into).collect()
    }
}

/// Octets and packets that this node has sent to others and got from them.
pub(crate) fn on_the_wire() -> Result<[u64; 2], BenchError> {
    let text = fs::read_to_string("/proc/self/net/dev").map_err(BenchError::io("reading what a device has counted"))?;
    Ok(counted(&text))
}

/// Octets and packets in both directions, of the bridge's line in `/proc/net/dev` (proc(5)).
fn counted(devices: &str) -> [u64; 2] {
    let ours = |line: &str| Some(line.trim_start().strip_prefix(BRIDGE)?.strip_prefix(':')?.to_owned());
    let line = devices.lines().find_map(ours).unwrap_or_default();
    let figures: Vec<u64> = line.split_whitespace().map(|figure| figure.parse().unwrap_or(0)).collect();
    let both = |at: usize| [at, at + 8].iter().filter_map(|at| figures.get(*at)).sum();
    [both(0), both(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bridge_has_counted_is_added_up() {
        let devices = "Inter-| Receive | Transmit\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n\
                       \u{20}nodes: 1000 10 0 0 0 0 0 0 2500 20 0 0 0 0 0 0\n nodes2: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        assert_eq!((counted(devices), counted("")), ([3_500, 30], [0, 0]));
    }
}
