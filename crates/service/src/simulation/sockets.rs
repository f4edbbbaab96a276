//! Sockets of lanes in tests: those of the system, or those of this thread's [simulation](super::network).

use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use super::network::{self, Id, Net, Trouble};
use crate::lane::clock::Clock;
use crate::lane::io::datagrams::{self, Received};
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{self, Interest, Ready};

/// Address of the service.
pub(crate) const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2809);

/// Address for lines of JSON.
pub(crate) const JSON: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2810);

/// Address for connections and datagrams of Tempo.
pub(crate) const TEMPO: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2811);

/// An end of a simulated connection, or a listener: closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    id: Id,
    close: fn(&mut Net, Id),
}

impl Drop for Handle {
    fn drop(&mut self) {
        network::with(|net| (self.close)(net, self.id));
    }
}

#[derive(Debug)]
pub(crate) enum Stream {
    System(TcpStream),
    Simulated(Handle),
}

#[derive(Debug)]
pub(crate) enum Listener {
    System(TcpListener),
    Simulated(Handle),
}

/// A socket for datagrams.
#[derive(Debug)]
pub(crate) enum Datagrams {
    System(datagrams::Datagrams),
    Simulated(Handle),
}

#[derive(Debug)]
pub(crate) enum Waker {
    System(system::Waker),
    Simulated(Id),
}

pub(crate) enum Poll {
    System(system::Poll),
    Simulated { handle: Handle, found: Vec<Ready> },
}

fn error(trouble: Trouble) -> io::Error {
    match trouble {
        Trouble::WouldBlock => ErrorKind::WouldBlock.into(),
        Trouble::Reset => ErrorKind::ConnectionReset.into(),
        Trouble::Refused => ErrorKind::ConnectionRefused.into(),
    }
}

/// Error of a simulated object that is used after the simulation has ended.
fn is_over() -> io::Error {
    ErrorKind::NotConnected.into()
}

fn within<T>(what: impl FnOnce(&mut Net) -> Result<T, Trouble>) -> io::Result<T> {
    network::with(what).ok_or_else(is_over)?.map_err(error)
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::System(stream)
    }
}

impl Stream {
    const fn simulated(id: Id) -> Self {
        Self::Simulated(Handle { id, close: Net::close })
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::System(stream) => stream.take_error(),
            Self::Simulated(end) => Ok(within(|net| net.connected(end.id).unwrap_or(Ok(()))).err()),
        }
    }

    /// The local address, for the system's sockets only: simulated ones are not sent from.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::System(stream) => stream.local_addr(),
            Self::Simulated(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::System(stream) => stream.peer_addr(),
            Self::Simulated(end) => network::with(|net| net.peer_ip(end.id)).flatten().ok_or_else(is_over),
        }
    }
}

impl Listener {
    /// The service's listener at an address of this thread's simulation.
    pub(crate) fn simulated(address: SocketAddr) -> Option<Self> {
        let id = network::with(|net| net.listen(address))?;
        Some(Self::Simulated(Handle { id, close: Net::close_listener }))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::System(listener) => listener.local_addr(),
            Self::Simulated(listener) => network::with(|net| net.local_addr(listener.id)).flatten().ok_or_else(is_over),
        }
    }
}

impl Datagrams {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        datagrams::Datagrams::new(socket).map(Self::System)
    }

    /// The service's datagram socket at an address of this thread's simulation.
    pub(crate) fn simulated(address: SocketAddr) -> Option<Self> {
        let id = network::with(|net| net.bind(address))?;
        Some(Self::Simulated(Handle { id, close: Net::unbind }))
    }

    pub(crate) fn at_once(&self) -> usize {
        match self {
            Self::System(socket) => socket.at_once(),
            Self::Simulated(_) => 8,
        }
    }

    pub(crate) fn receive(&self, into: &mut Received) -> io::Result<bool> {
        match self {
            Self::System(socket) => socket.receive(into),
            Self::Simulated(socket) => {
                let arrived = core::iter::from_fn(|| network::with(|net| net.receive_datagram(socket.id)).flatten());
                match into.fill(arrived.map(|(_, from, datagram)| (from, datagram))) {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    _ => Ok(network::with(|net| net.has_datagrams(socket.id)).unwrap_or(false)),
                }
            }
        }
    }

    /// Sends datagrams: in a simulation all of them, or none if there is no room now.
    pub(crate) fn send(&self, to: SocketAddr, octets: &[u8], size: usize) -> io::Result<()> {
        match self {
            Self::System(socket) => socket.send(to, octets, size),
            Self::Simulated(socket) => {
                within(|net| net.claim_datagram_room(socket.id))?;
                let send = |net: &mut Net| {
                    octets.chunks(size.max(1)).for_each(|datagram| net.send_datagram(socket.id, to, datagram));
                };
                network::with(send).ok_or_else(is_over)
            }
        }
    }
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        network::with(Net::new_waker)
            .map_or_else(|| system::Waker::new().map(Self::System), |id| Ok(Self::Simulated(id)))
    }

    pub(crate) fn notify(&self) {
        match self {
            Self::System(waker) => waker.notify(),
            Self::Simulated(waker) => _ = network::with(|net| net.notify(*waker)),
        }
    }

    pub(crate) fn clear(&self) {
        match self {
            Self::System(waker) => waker.clear(),
            Self::Simulated(waker) => _ = network::with(|net| net.clear(*waker)),
        }
    }

    /// Waits for the waker. In a simulation it does not block: the scheduler does not run the worker before the waker is notified or the
    /// time is over.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        match self {
            Self::System(waker) => waker.wait(timeout),
            Self::Simulated(waker) => _ = network::with(|net| net.wait_for(*waker, timeout)),
        }
    }

    /// The waker's id in the simulation.
    pub(crate) const fn simulated(&self) -> Option<Id> {
        if let Self::Simulated(id) = self { Some(*id) } else { None }
    }

    pub(crate) fn take_notifications(&self) -> u64 {
        match self {
            Self::System(waker) => waker.take_notifications(),
            Self::Simulated(waker) => network::with(|net| net.clear(*waker)).unwrap_or(0),
        }
    }
}

/// An object that a poll can watch.
pub(crate) trait Source {
    /// Calls `what` with the system's descriptor, if it has one.
    fn with_system(&self, what: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> io::Result<()>) -> Option<io::Result<()>>;
    fn id(&self) -> Option<Id>;
}

macro_rules! source {
    ($of:ty, $simulated:pat => $id:expr) => {
        impl Source for $of {
            fn with_system(
                &self,
                what: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> io::Result<()>,
            ) -> Option<io::Result<()>> {
                use std::os::fd::AsFd;
                if let Self::System(it) = self { Some(what(it.as_fd())) } else { None }
            }

            fn id(&self) -> Option<Id> {
                if let $simulated = self { Some($id) } else { None }
            }
        }
    };
}

source!(Stream, Self::Simulated(handle) => handle.id);
source!(Listener, Self::Simulated(handle) => handle.id);
source!(Waker, Self::Simulated(id) => *id);
source!(Datagrams, Self::Simulated(handle) => handle.id);

impl<T: Source> Source for &T {
    fn with_system(&self, what: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> io::Result<()>) -> Option<io::Result<()>> {
        T::with_system(self, what)
    }

    fn id(&self) -> Option<Id> {
        T::id(self)
    }
}

impl<T: Source> Source for std::sync::Arc<T> {
    fn with_system(&self, what: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> io::Result<()>) -> Option<io::Result<()>> {
        T::with_system(self, what)
    }

    fn id(&self) -> Option<Id> {
        T::id(self)
    }
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let Some(id) = network::with(Net::new_poll) else { return system::Poll::new().map(Self::System) };
        Ok(Self::Simulated { handle: Handle { id, close: Net::close_poll }, found: Vec::new() })
    }

    pub(crate) fn add(&self, what: impl Source, socket: Socket, interest: Interest) -> io::Result<()> {
        match self {
            Self::System(poll) => {
                what.with_system(|fd| poll.add(fd, socket, interest)).unwrap_or_else(|| Err(is_over()))
            }
            Self::Simulated { handle, .. } => {
                let id = what.id().ok_or_else(is_over)?;
                network::with(|net| net.register(handle.id, id, socket, interest)).ok_or_else(is_over)
            }
        }
    }

    pub(crate) fn change(&self, what: impl Source, socket: Socket, interest: Interest) -> io::Result<()> {
        match self {
            Self::System(poll) => {
                what.with_system(|fd| poll.change(fd, socket, interest)).unwrap_or_else(|| Err(is_over()))
            }
            Self::Simulated { .. } => self.add(what, socket, interest),
        }
    }

    pub(crate) fn remove(&self, what: impl Source) -> io::Result<()> {
        match self {
            Self::System(poll) => what.with_system(|fd| poll.remove(fd)).unwrap_or_else(|| Err(is_over())),
            Self::Simulated { handle, .. } => {
                let id = what.id().ok_or_else(is_over)?;
                network::with(|net| net.unregister(handle.id, id)).ok_or_else(is_over)
            }
        }
    }

    /// Waits for events. In a simulation it does not block.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::System(poll) => poll.wait(timeout),
            Self::Simulated { handle, found } => {
                *found = network::with(|net| net.poll(handle.id)).ok_or_else(is_over)?;
                Ok(())
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::System(poll) => poll.len(),
            Self::Simulated { found, .. } => found.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Ready> {
        match self {
            Self::System(poll) => poll.get(index),
            Self::Simulated { found, .. } => found.get(index).copied(),
        }
    }

    /// Whether [`Self::wait`] would return at once.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::System(_) => false,
            Self::Simulated { handle, .. } => network::with(|net| net.is_ready(handle.id)).unwrap_or(false),
        }
    }
}

pub(crate) fn receive(stream: &Stream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    match stream {
        Stream::System(stream) => system::receive(stream, buffer),
        Stream::Simulated(end) => {
            let room = buffer.capacity() - buffer.len();
            within(|net| net.read(end.id, buffer, room))
        }
    }
}

pub(crate) fn write(stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
    match stream {
        Stream::System(stream) => system::write(stream, bytes),
        Stream::Simulated(end) => within(|net| net.write(end.id, bytes)),
    }
}

pub(crate) fn write_vectored(stream: &Stream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match stream {
        Stream::System(stream) => system::write_vectored(stream, slices),
        Stream::Simulated(_) => {
            let mut bytes = Vec::new();
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            write(stream, &bytes)
        }
    }
}

pub(crate) fn has_unread(stream: &Stream) -> bool {
    match stream {
        Stream::System(stream) => system::has_unread(stream),
        Stream::Simulated(end) => network::with(|net| net.has_unread(end.id)).unwrap_or(false),
    }
}

pub(crate) fn accept(listener: &Listener) -> io::Result<Option<(Stream, SocketAddr)>> {
    match listener {
        Listener::System(listener) => {
            system::accept(listener).map(|accepted| accepted.map(|(stream, address)| (stream.into(), address)))
        }
        Listener::Simulated(listener) => {
            let accepted = network::with(|net| net.accept(listener.id)).flatten();
            Ok(accepted.map(|(end, from)| (Stream::simulated(end), from)))
        }
    }
}

pub(crate) fn prepare_listener(listener: &Listener) -> io::Result<()> {
    match listener {
        Listener::System(listener) => system::prepare_listener(listener),
        Listener::Simulated(_) => Ok(()),
    }
}

/// Number of waits of this thread. In a simulation every poll counts, since whether it would block is unknown.
pub(crate) fn waits_of_this_thread() -> u64 {
    network::with(|net| net.waits()).unwrap_or_else(system::waits_of_this_thread)
}

/// Processor time of this thread. In a simulation threads are not displaced, and time passes for all of them alike.
pub(crate) fn processor_time() -> Duration {
    network::with(|net| net.time()).unwrap_or_else(system::processor_time)
}

pub(crate) fn system_time_of(clock: &Clock) -> Duration {
    network::with(|_| Duration::ZERO).unwrap_or_else(|| system::system_time_of(clock))
}

/// Sleeps until a time; not in a simulation.
pub(crate) fn sleep_until(then: Duration) {
    if network::with(|_| ()).is_none() {
        system::sleep_until(then);
    }
}

pub(crate) const fn listener(listener: TcpListener) -> Listener {
    Listener::System(listener)
}

pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<Stream> {
    let begun = network::with(|net| {
        let from = net.address_of(net.here);
        net.connect(from, address)
    });
    begun.map_or_else(|| system::begin_connect(address).map(Stream::System), |end| Ok(Stream::simulated(end)))
}
