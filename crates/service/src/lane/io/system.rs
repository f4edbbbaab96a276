//! System calls of a lane: each goes through here and is counted, so that system calls per event are a figure.

use core::cell::Cell;
use core::time::Duration;
use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, acceptfrom_with, connect, ipproto, recv, socket_with, sockopt,
};
use rustix::time::ClockId;
use socket2::SockRef;

use crate::lane::clock::Clock;
use crate::lane::io::socket::Socket;
use crate::lane::scheduling;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// System calls this thread has made through this module.
pub(crate) fn calls_of_this_thread() -> u64 {
    CALLS.get()
}

pub(super) fn count() {
    CALLS.set(CALLS.get() + 1);
}

/// How often this thread has waited voluntarily since it began.
pub(crate) fn waits_of_this_thread() -> u64 {
    count();
    scheduling::waits_of_this_thread()
}

/// Processor time of this thread since it began.
pub(crate) fn processor_time() -> Duration {
    count();
    since_zero(ClockId::ThreadCPUTime)
}

/// A lane's time 0 on the clock of [`sleep_until`]. Neither reading is a system call.
pub(crate) fn system_time_of(clock: &Clock) -> Duration {
    // In this order, so that a thread that sleeps until some time of the lane's does not wake before; and several times, since the
    // thread may be displaced in between.
    let difference = |_| {
        let since_zero_of_lane = Duration::from_nanos(clock.time().0);
        since_zero(ClockId::Monotonic).saturating_sub(since_zero_of_lane)
    };
    (0..CLOCKS_COMPARED).map(difference).min().unwrap_or_default()
}

const NANOS_PER_MILLI: i64 = 1_000_000;
/// The longest single wait: kernels before 5.11 have none beyond 24 days.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Number of readings by which the difference of two clocks is found.
const CLOCKS_COMPARED: u32 = 8;

/// Sleeps until `then` on the clock that never goes back (`CLOCK_MONOTONIC`). Input does not end the sleep; a signal may.
pub(crate) fn sleep_until(then: Duration) {
    count();
    if let Ok(then) = Timespec::try_from(then) {
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &then);
    }
}

fn since_zero(clock: ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// Events that the poll reports for a descriptor. A broken one is reported in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Report input, or the end of the peer's stream.
    pub(crate) read: bool,
    /// Report room to write, or the end of a connection attempt.
    pub(crate) write: bool,
    /// Report the end of the peer's stream: for a connection that is not read for now.
    pub(crate) end: bool,
}

impl Interest {
    pub(crate) const NONE: Self = Self { read: false, write: false, end: false };
    pub(crate) const READ: Self = Self { read: true, ..Self::NONE };
    pub(crate) const WRITE: Self = Self { write: true, ..Self::NONE };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags.set(epoll::EventFlags::RDHUP, self.end);
        flags
    }
}

/// Content of an epoll event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) socket: Socket,
    /// There is input, or the peer has gone.
    pub(crate) readable: bool,
    /// There is room to write, or a connection attempt has ended.
    pub(crate) writable: bool,
    /// The peer sends nothing more.
    pub(crate) ended: bool,
    /// The connection was reset: nothing can be written to it any more.
    pub(crate) broken: bool,
}

impl Ready {
    /// Readiness to read that no poll has reported.
    pub(crate) const fn to_read(socket: Socket) -> Self {
        Self { socket, readable: true, writable: false, ended: false, broken: false }
    }
}

/// An epoll instance, level triggered.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// Maximum descriptors reported in one round; the rest are reported in the next.
    const BATCH: usize = 1024;

    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(Self::BATCH) })
    }

    pub(crate) fn add(&self, fd: impl AsFd, socket: Socket, interest: Interest) -> io::Result<()> {
        count();
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(socket.datum()), interest.flags())?)
    }

    pub(crate) fn change(&self, fd: impl AsFd, socket: Socket, interest: Interest) -> io::Result<()> {
        count();
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(socket.datum()), interest.flags())?)
    }

    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        count();
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready, or the time is over, or less than a millisecond of it is left. `None` waits without end.
    ///
    /// The kernel rounds the time of `epoll_wait` up to milliseconds, which a timer of that length would miss: so it is rounded down, and
    /// what is less than one is waited for by `ppoll`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        let whole = timeout.map(|timeout| timeout.min(WAIT_MAX)).and_then(|timeout| Timespec::try_from(timeout).ok());
        let whole = whole.map(|time| Timespec { tv_nsec: time.tv_nsec / NANOS_PER_MILLI * NANOS_PER_MILLI, ..time });
        self.wait_whole(whole.as_ref())?;
        let is_short = |timeout: &Duration| !timeout.is_zero() && *timeout < Duration::from_millis(1);
        let short = timeout.filter(is_short).filter(|_| self.events.is_empty());
        if let Some(short) = short.and_then(|short| Timespec::try_from(short).ok()) {
            count();
            let _ = rustix::event::poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&short));
            self.wait_whole(Some(&Timespec::default()))?;
        }
        Ok(())
    }

    fn wait_whole(&mut self, timeout: Option<&Timespec>) -> io::Result<()> {
        count();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How many descriptors the last [`Poll::wait`] found ready.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// A descriptor that the last [`Poll::wait`] found ready.
    pub(crate) fn get(&self, index: usize) -> Option<Ready> {
        use epoll::EventFlags as Flags;
        // The kernel packs these, so they are copied before they are looked at.
        let epoll::Event { flags, data } = *self.events.get(index)?;
        Some(Ready {
            socket: Socket::of_datum(data.u64()),
            readable: flags.intersects(Flags::IN | Flags::HUP | Flags::ERR | Flags::RDHUP),
            writable: flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR),
            ended: flags.intersects(Flags::HUP | Flags::ERR | Flags::RDHUP),
            broken: flags.intersects(Flags::HUP | Flags::ERR),
        })
    }
}

/// Wakes a thread that waits in [`Poll::wait`]. Any thread may call it.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes the waiting thread. Several calls before it wakes count as one.
    pub(crate) fn notify(&self) {
        count();
        // The only way to fail is a full counter, and then the waker is ringing already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        count();
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.fd, &mut counter);
    }

    /// Waits until the waker is notified or the time is over, and resets it: for threads that wait for nothing else. `None` waits without
    /// end.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        // A signal that interrupts it has the caller look once too often.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], timeout.as_ref());
        self.clear();
    }

    /// Number of notifications since the last reset.
    #[cfg(test)]
    pub(crate) fn take_notifications(&self) -> u64 {
        let mut counter = [0u8; 8];
        rustix::io::read(&self.fd, &mut counter).map_or(0, |_| u64::from_ne_bytes(counter))
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Appends what has arrived, as far as the buffer has room without growing.
pub(crate) fn receive(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    count();
    Ok(recv(stream, rustix::buffer::spare_capacity(buffer), RecvFlags::empty())?.0)
}

pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    count();
    stream.write(bytes)
}

pub(crate) fn write_vectored(mut stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    count();
    stream.write_vectored(slices)
}

/// Whether unread input has arrived. False at the end of the peer's stream.
pub(crate) fn has_unread(stream: &TcpStream) -> bool {
    count();
    stream.peek(&mut [0]).is_ok_and(|count| count > 0)
}

/// Accepts a connection that a client made. `None` when there is none, or none any more.
///
/// # Errors
/// The system has no resources for it. The connection stays in the listener's backlog, and the poll would report it without end.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    count();
    let (socket, address) = match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(accepted) => accepted,
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => return Err(error.into()),
        // The others are those of the one connection, or say that there is none.
        Err(_) => return Ok(None),
    };
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    Ok(address.map(|address| (TcpStream::from(socket), address)))
}

/// Gives a listener the options of [`prepare`]. Connections [accepted](accept) from it inherit them, which spares five system calls each.
pub(crate) fn prepare_listener(listener: &TcpListener) -> io::Result<()> {
    prepare(listener)
}

/// Size of a receive buffer for clients' answers, in octets; the system doubles it for its own needs. Answers to pushes have a few octets;
/// an answer of megabytes to a pull is read in parts, between which others have their turn.
const ANSWER_BYTES_AT_ONCE: usize = 64 << 10;

/// Starts a connection without waiting for it.
pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    count();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_recv_buffer_size(&socket, ANSWER_BYTES_AT_ONCE)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    prepare(&stream)?;
    Ok(stream)
}

/// Limits the octets that a socket takes beyond what its peer's window and the network allow, so that output behind them can still be
/// overtaken.
pub(crate) fn bound_unsent(stream: &TcpStream, bytes: u32) {
    count();
    // An old kernel queues more.
    let _unbounded = SockRef::from(stream).set_tcp_notsent_lowat(bytes);
}

/// Sets options of a socket: messages leave at once, and a host that vanished is noticed after about two minutes.
fn prepare(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    Ok(())
}

/// Time without input after which a connection's peer is probed.
const KEEP_IDLE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A timer of a millisecond was late by up to another one, and passed over intervals.
    #[test]
    fn the_end_of_a_wait_is_not_rounded_to_milliseconds() {
        let mut poll = Poll::new().unwrap();
        let waited = |poll: &mut Poll, micros| {
            let began = Instant::now();
            poll.wait(Some(Duration::from_micros(micros))).unwrap();
            began.elapsed().as_micros()
        };
        // The machine may be busy: once is enough.
        assert!((0..1_000).any(|_| (300..1_000).contains(&waited(&mut poll, 300))));
        assert!((0..1_000).any(|_| (1_000..1_700).contains(&waited(&mut poll, 1_700))), "the rest is another wait");
    }

    /// Each connection that came cost seven system calls, five of which set options: a client that opened connections at full speed kept
    /// the lane with that.
    #[test]
    fn accepted_connections_have_the_options_of_their_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        prepare_listener(&listener).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = accept(&listener).unwrap().unwrap();
        assert!(sockopt::tcp_nodelay(&accepted).unwrap() && sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), KEEP_IDLE);
        assert_eq!(sockopt::tcp_keepcnt(&accepted).unwrap(), 4);
        assert_eq!(sockopt::tcp_keepintvl(&accepted).unwrap(), Duration::from_secs(15));
    }

    #[test]
    fn a_socket_keeps_no_more_unsent_than_it_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        bound_unsent(&stream, 16 << 10);
        assert_eq!(SockRef::from(&stream).tcp_notsent_lowat().unwrap(), 16 << 10);
    }

    #[test]
    fn a_thread_that_sleeps_until_a_time_of_the_lane_wakes_then_and_not_before() {
        let clock = Clock::new(Instant::now());
        let origin = system_time_of(&clock);
        let then = Duration::from_nanos(clock.time().0) + Duration::from_millis(5);
        let used = processor_time();
        sleep_until(origin + then);
        assert!(Duration::from_nanos(clock.time().0) >= then);
        // What it slept is not what it used: less than all of it, even where a machine is slow.
        assert!(processor_time() >= used);
        sleep_until(origin);
    }
}
