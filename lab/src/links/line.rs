//! The line between two services: a relay of octets that can be stalled, closed and narrowed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::{BenchError, clock};

/// Octets that the kernel holds of what was sent into the line, and that the line passes on at once.
const BUFFER_BYTES: usize = 16 << 10;
const CHUNK_BYTES: usize = 2 << 10;
/// Time between two looks at what the line is to do.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Everything,
    /// So many octets a second in each direction of each connection.
    Narrow(u64),
    /// Nothing; connections stay.
    Stalled,
    /// Nothing; connections are closed, and new ones at once.
    Closed,
}

/// A line to one address. Its threads end with the process.
pub(super) struct Line {
    pub(super) address: SocketAddr,
    flow: Arc<Mutex<Flow>>,
}

impl Line {
    pub(super) fn to(far: SocketAddr) -> Result<Self, BenchError> {
        let doing = "listening for a link";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io(doing))?;
        // Connections have it from their listener.
        set_socket_recv_buffer_size(&listener, BUFFER_BYTES).map_err(BenchError::errno(doing))?;
        let address = listener.local_addr().map_err(BenchError::io(doing))?;
        let flow = Arc::new(Mutex::new(Flow::Everything));
        let of_all = Arc::clone(&flow);
        thread::spawn(move || {
            for near in listener.incoming().flatten().filter(|_| now(&of_all) != Flow::Closed) {
                let Ok(far) = TcpStream::connect(far) else { continue };
                for (from, to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                    let (Ok(from), Ok(to), flow) = (from, to, Arc::clone(&of_all)) else { continue };
                    thread::spawn(move || {
                        // However it ends, both connections do.
                        let _ = pass(&from, &to, &flow);
                        [from, to].map(|stream| stream.shutdown(Shutdown::Both))
                    });
                }
            }
        });
        Ok(Self { address, flow })
    }

    pub(super) fn set(&self, flow: Flow) {
        *self.flow.lock().unwrap_or_else(PoisonError::into_inner) = flow;
    }
}

fn now(flow: &Mutex<Flow>) -> Flow {
    *flow.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes octets on in one direction until a side closes, or the line does.
fn pass(mut from: &TcpStream, mut to: &TcpStream, flow: &Mutex<Flow>) -> std::io::Result<()> {
    from.set_read_timeout(Some(LOOK_EVERY))?;
    to.set_nodelay(true)?;
    let (mut octets, mut due, look_every) = ([0; CHUNK_BYTES], 0, clock::SECOND / 200);
    let until = |time| clock::sleep_until(time).map_err(std::io::Error::other);
    loop {
        let rate = match now(flow) {
            Flow::Closed => return Ok(()),
            Flow::Stalled => {
                until(clock::now() + look_every)?;
                continue;
            }
            Flow::Narrow(rate) => Some(rate),
            Flow::Everything => None,
        };
        let count = match from.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error),
        };
        if let Some(rate) = rate {
            due = clock::now().max(due) + count as u64 * clock::SECOND / rate.max(1);
            until(due)?;
        }
        to.write_all(octets.get(..count).unwrap_or_default())?;
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
        line.set(Flow::Narrow(1 << 20));
        far.set_nonblocking(false).unwrap();
        let mut octets = [0; 5];
        far.read_exact(&mut octets).unwrap();
        assert_eq!(&octets, b"event");
        line.set(Flow::Closed);
        assert_eq!((near.read(&mut octets).unwrap(), far.read(&mut octets).unwrap()), (0, 0));
    }
}
