//! A network between namespaces, of which each packet passes here: it loses some, sends some twice, and some later than others.

use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What it does to packets, of a hundred; netem's words for the same are in [`NETEM`].
const LOST: u8 = 5;
const TWICE: u8 = 3;
const DELAY: Duration = Duration::from_millis(20);
/// Up to so much later than others, which so overtake it.
const LATER: Duration = Duration::from_millis(10);

/// The same as arguments of `tc qdisc add dev NAME root`, for a kernel that has it.
pub(super) const NETEM: &str = "netem loss 5% duplicate 3% delay 25ms 5ms";

/// Settings of the link, and counters of what it did.
#[derive(Default)]
pub(super) struct Said {
    /// Nothing passes.
    pub(super) is_parted: AtomicBool,
    /// Packets pass as they are; whatever happens to them, the kernel does.
    pub(super) is_plain: AtomicBool,
    pub(super) lost: AtomicU64,
    pub(super) sent_twice: AtomicU64,
    pub(super) overtaken: AtomicU64,
    /// Not passed while it was parted.
    pub(super) withheld: AtomicU64,
}

/// A packet under way, and for whom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    /// The earliest is the greatest.
    due: std::cmp::Reverse<Instant>,
    number: u64,
    to: usize,
    octets: Vec<u8>,
}

struct Link {
    devices: Vec<File>,
    said: Arc<Said>,
    under_way: BinaryHeap<UnderWay>,
    random: fastrand::Rng,
    packets: u64,
    /// Number of the last one that came out, to see which were overtaken.
    last: u64,
}

/// Devices `bad0`, `bad1`… of this namespace, from which they may be moved, with a network between them: the host 10.77.0.1 is behind the
/// first one, and so on.
pub(super) fn begin(devices: usize) -> io::Result<Arc<Said>> {
    let devices = (0..devices).map(|number| device(&format!("bad{number}"))).collect::<io::Result<_>>()?;
    let said = Arc::<Said>::default();
    let random = fastrand::Rng::with_seed(16);
    let link = Link { devices, said: Arc::clone(&said), under_way: BinaryHeap::new(), random, packets: 0, last: 0 };
    thread::spawn(move || link.run());
    Ok(said)
}

/// One for IP packets, each of which is read and written by itself.
#[expect(unsafe_code, reason = "no safe wrapper makes a network device")]
fn device(name: &str) -> io::Result<File> {
    const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<i32>(b'T', 202);
    const IFF_TUN_WITHOUT_INFO: u16 = 0x1001;
    const O_NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = [0_u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&IFF_TUN_WITHOUT_INFO.to_ne_bytes());
    // SAFETY: `TUNSETIFF` reads a `struct ifreq`: 40 octets (fewer on 32 bits) that begin with 16 of a name and two of flags.
    unsafe { rustix::ioctl::ioctl(&file, rustix::ioctl::Setter::<TUNSETIFF, _>::new(request))? };
    Ok(file)
}

impl Link {
    /// Until the process ends.
    fn run(mut self) {
        let mut buffer = vec![0; 65_536];
        loop {
            self.deliver();
            let wait = self.under_way.peek().map(|next| next.due.0.saturating_duration_since(Instant::now()));
            let wait = wait.map(|wait| Timespec::try_from(wait).unwrap());
            let mut files: Vec<_> = self.devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
            poll(&mut files, wait.as_ref()).unwrap();
            for from in 0..self.devices.len() {
                // One that is down for the moment has nothing.
                while let Ok(octets @ 1..) = (&self.devices[from]).read(&mut buffer) {
                    self.take(&buffer[..octets]);
                }
            }
        }
    }

    fn take(&mut self, packet: &[u8]) {
        // A kernel's own IPv6 traffic with its neighbours is dropped here.
        let is_four = packet[0] >> 4 == 4 && packet[16..19] == [10, 77, 0];
        let Some(to) = usize::from(packet[19]).checked_sub(1).filter(|&to| is_four && to < self.devices.len()) else {
            return;
        };
        let said = Arc::clone(&self.said);
        let plain = said.is_plain.load(Ordering::Relaxed);
        if said.is_parted.load(Ordering::Relaxed) {
            said.withheld.fetch_add(1, Ordering::Relaxed);
        } else if !plain && self.random.u8(..100) < LOST {
            said.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            let is_twice = !plain && self.random.u8(..100) < TWICE;
            said.sent_twice.fetch_add(is_twice.into(), Ordering::Relaxed);
            for _ in 0..=u8::from(is_twice) {
                let later = LATER.mul_f64(self.random.f64());
                let due = Instant::now() + if plain { Duration::ZERO } else { DELAY + later };
                self.packets += 1;
                let (due, number) = (std::cmp::Reverse(due), self.packets);
                self.under_way.push(UnderWay { due, number, to, octets: packet.to_vec() });
            }
        }
    }

    fn deliver(&mut self) {
        while self.under_way.peek().is_some_and(|next| next.due.0 <= Instant::now()) {
            let next = self.under_way.pop().unwrap();
            self.said.overtaken.fetch_add((next.number < self.last).into(), Ordering::Relaxed);
            self.last = next.number;
            // What a device does not take is lost.
            let _ = (&self.devices[next.to]).write(&next.octets);
        }
    }
}
