//! The line between two services: a relay of octets that can be stalled, closed, narrowed and made long.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::{BenchError, clock};

/// Octets that the kernel holds of what was sent into the line, and the fewest that the line takes at once.
const BUFFER_BYTES: usize = 16 << 10;
const CHUNK_BYTES: usize = 2 << 10;
/// Time between two looks at what the line is to do.
const LOOK_EVERY: u64 = clock::SECOND / 200;

/// What passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Everything,
    /// So many octets a second in each direction of each connection, and how many nanoseconds each takes from end to end.
    Shaped(u64, u64),
    /// Nothing; connections stay.
    Stalled,
    /// Nothing; connections are closed, and new ones at once.
    Closed,
}

/// A line to one address. Its threads end with the process.
pub(super) struct Line {
    pub(super) address: SocketAddr,
    flow: Arc<Mutex<Flow>>,
    /// Octets that have gone to that address.
    passed: Arc<AtomicU64>,
}

impl Line {
    pub(super) fn to(far: SocketAddr) -> Result<Self, BenchError> {
        let doing = "listening for a link";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io(doing))?;
        // Connections have it from their listener.
        set_socket_recv_buffer_size(&listener, BUFFER_BYTES).map_err(BenchError::errno(doing))?;
        let address = listener.local_addr().map_err(BenchError::io(doing))?;
        let (flow, passed) = (Arc::new(Mutex::new(Flow::Everything)), Arc::<AtomicU64>::default());
        let (of_all, counted) = (Arc::clone(&flow), Arc::clone(&passed));
        thread::spawn(move || {
            for near in listener.incoming().flatten().filter(|_| now(&of_all) != Flow::Closed) {
                let Ok(far) = TcpStream::connect(far) else { continue };
                let back = Arc::default();
                for (from, to, counted) in [(near.try_clone(), far.try_clone(), &counted), (Ok(far), Ok(near), &back)] {
                    let (Ok(from), Ok(to), flow) = (from, to, Arc::clone(&of_all)) else { continue };
                    let counted = Arc::clone(counted);
                    thread::spawn(move || {
                        // However it ends, both connections do.
                        let _ = pass(&from, &to, &flow, &counted);
                        [from, to].map(|stream| stream.shutdown(Shutdown::Both))
                    });
                }
            }
        });
        Ok(Self { address, flow, passed })
    }

    pub(super) fn set(&self, flow: Flow) {
        *self.flow.lock().unwrap_or_else(PoisonError::into_inner) = flow;
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

fn now(flow: &Mutex<Flow>) -> Flow {
    *flow.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes octets on in one direction until a side closes, or the line does.
fn pass(mut from: &TcpStream, mut to: &TcpStream, flow: &Mutex<Flow>, passed: &AtomicU64) -> std::io::Result<()> {
    to.set_nodelay(true)?;
    // What is under way, each with when it arrives; and from when on the line takes more.
    let (mut under_way, mut free_from) = (VecDeque::<(u64, Vec<u8>)>::new(), 0);
    loop {
        let (now_ns, flow) = (clock::now(), now(flow));
        let (rate, delay) = match flow {
            Flow::Closed => return Ok(()),
            Flow::Shaped(rate, delay) => (rate.max(1), delay),
            Flow::Everything | Flow::Stalled => (u64::MAX, 0),
        };
        let is_stalled = flow == Flow::Stalled;
        while let Some((_, octets)) = under_way.pop_front_if(|(due, _)| !is_stalled && *due <= now_ns) {
            to.write_all(&octets)?;
            passed.fetch_add(octets.len() as u64, Ordering::Relaxed);
        }
        let takes_more = !is_stalled && free_from <= now_ns;
        let arrives = under_way.front().filter(|_| !is_stalled).map_or(u64::MAX, |(due, _)| *due);
        let until = if takes_more { arrives } else { arrives.min(free_from) };
        let within = clock::to_timespec(until.saturating_sub(now_ns).min(LOOK_EVERY));
        let mut readable = [PollFd::new(from, PollFlags::IN)];
        if poll(if takes_more { &mut readable } else { &mut [] }, Some(&within))? == 0 {
            continue;
        }
        // A fast line takes as much at once as passes in a hundredth of a second.
        let most = usize::try_from(rate / 100).unwrap_or(usize::MAX).clamp(CHUNK_BYTES, 4 * BUFFER_BYTES);
        let mut octets = vec![0; most];
        match from.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(count) => octets.truncate(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        free_from = clock::now().max(free_from) + (octets.len() as u64).saturating_mul(clock::SECOND) / rate;
        under_way.push_back((free_from + delay, octets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_passes_nothing_while_it_is_stalled_and_closes_when_it_is_cut() {
        let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let line = Line::to(far.local_addr().unwrap()).unwrap();
        line.set(Flow::Stalled);
        let mut near = TcpStream::connect(line.address).unwrap();
        near.write_all(b"event").unwrap();
        let (mut far, _) = far.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        assert_eq!(far.read(&mut [0; 5]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (began, delay) = (clock::now(), clock::SECOND / 20);
        line.set(Flow::Shaped(1 << 20, delay));
        far.set_nonblocking(false).unwrap();
        let mut octets = [0; 5];
        far.read_exact(&mut octets).unwrap();
        assert_eq!(&octets, b"event");
        assert!(clock::now() - began >= delay && line.passed() <= 5);
        line.set(Flow::Closed);
        assert_eq!((near.read(&mut octets).unwrap(), far.read(&mut octets).unwrap()), (0, 0));
    }
}
