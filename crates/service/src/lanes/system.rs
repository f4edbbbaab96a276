//! Every system call of a lane goes through here and is counted, so that system calls per event are a figure.

use core::cell::Cell;
use core::time::Duration;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// System calls this thread has made through this module.
pub(crate) fn calls_of_this_thread() -> u64 {
    CALLS.get()
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

/// What an epoll event speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The datum given when the descriptor was added.
    pub(crate) datum: u64,
    /// There is something to read, or the peer has gone.
    pub(crate) readable: bool,
    /// There is room to write, or a connection attempt has ended.
    pub(crate) writable: bool,
}

/// An epoll instance, level triggered.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// Descriptors reported in one round at most; the rest are reported in the next.
    const BATCH: usize = 256;

    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(Self::BATCH) })
    }

    fn flags(read: bool, write: bool) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        flags
    }

    pub(crate) fn add(&self, fd: impl AsFd, datum: u64, read: bool, write: bool) -> io::Result<()> {
        count();
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(datum), Self::flags(read, write))?)
    }

    pub(crate) fn change(&self, fd: impl AsFd, datum: u64, read: bool, write: bool) -> io::Result<()> {
        count();
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(datum), Self::flags(read, write))?)
    }

    /// Waits until something is ready or the time is over. `None` waits without end.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        count();
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How many descriptors the last [`Poll::wait`] found ready.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// One of them.
    pub(crate) fn get(&self, index: usize) -> Option<Ready> {
        use epoll::EventFlags as Flags;
        // The kernel packs these, so they are copied before they are looked at.
        let epoll::Event { flags, data } = *self.events.get(index)?;
        Some(Ready {
            datum: data.u64(),
            readable: flags.intersects(Flags::IN | Flags::HUP | Flags::ERR | Flags::RDHUP),
            writable: flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR),
        })
    }
}

/// Wakes a thread that waits in [`Poll::wait`]. Any thread may ring it.
#[derive(Debug)]
pub(crate) struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes the waiting thread. Rings before it looked count as one.
    pub(crate) fn ring(&self) {
        // The only way to fail is a full counter, and then the bell is ringing already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        count();
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.fd, &mut counter);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(crate) fn read(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    count();
    stream.read(buffer)
}

pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    count();
    stream.write(bytes)
}

pub(crate) fn write_vectored(mut stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    count();
    stream.write_vectored(slices)
}

pub(crate) fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    count();
    let (stream, peer) = listener.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok((stream, peer))
}

/// Begins a connection without waiting for it.
pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    count();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}
