//! A lane's sockets, its poll and its waker.
//!
//! They are the [system's](super::system). In the crate's tests a thread that runs [a simulation](crate::simulation) has simulated ones
//! instead; the product contains none of that.

#[cfg(not(test))]
pub(crate) use self::of_system::{
    Datagrams, Listener, Poll, Tcp, Waker, accept, begin_connect, bound_unsent, has_unread, listener, prepare_listener,
    processor_time, receive, sleep_until, system_time_of, waits_of_this_thread, write, write_vectored,
};
#[cfg(test)]
pub(crate) use crate::simulation::sockets::{
    Datagrams, Listener, Poll, Stream as Tcp, Waker, accept, begin_connect, has_unread, listener, prepare_listener,
    processor_time, receive, sleep_until, system_time_of, waits_of_this_thread, write, write_vectored,
};

/// The simulation's sockets have no queue of their own.
#[cfg(test)]
pub(crate) const fn bound_unsent(_: &Tcp, _: u32) {}

/// Whether an address is this host's, so that a socket can be bound to it.
pub(crate) fn is_here(ip: std::net::IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(not(test))]
mod of_system {
    use std::net::TcpListener;

    pub(crate) use crate::lane::io::system::{
        Poll, Waker, accept, begin_connect, bound_unsent, has_unread, prepare_listener, processor_time, receive,
        sleep_until, system_time_of, waits_of_this_thread, write, write_vectored,
    };

    pub(crate) use crate::lane::io::datagrams::Datagrams;

    /// A connection's socket.
    pub(crate) type Tcp = std::net::TcpStream;
    /// A socket that takes connections.
    pub(crate) type Listener = TcpListener;

    pub(crate) const fn listener(listener: TcpListener) -> Listener {
        listener
    }
}
