//! A publisher and a subscriber, each on a thread, and what is between them: nothing, a relay, or a broker.
//!
//! All ways carry the same message: 32 octets that a header takes and 128 of payload, of which the first 16 are the moment when it was
//! sent and its number. The bare ways send and receive it without looking at the first 32.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use client::tempo::{Publisher, Subscriber};
use load::system::datagrams::{DATAGRAMS_MAX, Datagrams};

use super::relay;
use super::tempo_ends::{self, Crowd};
use crate::experiments::ability::Seat;
use crate::latency::Recorder;
use crate::process::Process;
use crate::{BenchError, clock};

const HEADER: usize = tempo::wire::HEADER;
pub(super) const PAYLOAD: usize = 128;
pub(super) const MESSAGE: usize = HEADER + PAYLOAD;
/// One message in so many has a priority, where some do.
const FIRST_IN: u64 = 64;
/// Octets that a TCP connection is read into and written from at once.
pub(super) const GATHERED: usize = 64 * 1024;

crate::report::kinds! {
    /// Over what.
    pub(super) enum Transport {
        Tcp = "tcp",
        Udp = "udp",
    }
}

crate::report::kinds! {
    /// What carries the messages.
    pub(super) enum Way {
        /// A bare socket from end to end.
        Bare = "bare",
        /// Tempo from end to end.
        Peer = "peer",
        /// Bare sockets, and a process between that forwards what it reads.
        Relay = "relay",
        /// Tempo through the service.
        Broker = "broker",
    }
}

impl Way {
    /// What it is compared with.
    pub(super) const fn floor(self) -> Option<Self> {
        match self {
            Self::Peer => Some(Self::Bare),
            Self::Broker => Some(Self::Relay),
            Self::Bare | Self::Relay => None,
        }
    }
}

/// What has come.
#[derive(Debug)]
pub(super) struct Intake {
    received: AtomicU64,
    latency: Mutex<Recorder>,
    /// Latencies of messages with a priority, where those are separate: one in [`FIRST_IN`].
    first: Mutex<Option<Recorder>>,
    /// The number that is expected next, and how many came out of order.
    next: AtomicU64,
    disordered: AtomicU64,
    is_over: AtomicBool,
    /// Whether latencies are recorded, and not only counted.
    records: AtomicBool,
    /// The thread that waits for messages to arrive before it sends more.
    sender: OnceLock<Thread>,
    is_waited_for: AtomicBool,
}

impl Intake {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            received: AtomicU64::new(0),
            latency: Mutex::new(Recorder::default()),
            first: Mutex::new(None),
            next: AtomicU64::new(0),
            disordered: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            records: AtomicBool::new(true),
            sender: OnceLock::new(),
            is_waited_for: AtomicBool::new(false),
        })
    }

    /// Takes messages that came with one call.
    fn take<'m>(&self, payloads: impl Iterator<Item = &'m [u8]>) {
        let mut recording = self.records.load(Ordering::Relaxed).then(|| {
            let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
            (clock::now(), latency, self.first.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let (mut count, mut next, mut disordered) = (0, self.next.load(Ordering::Relaxed), 0);
        for payload in payloads {
            let Some((sent, rest)) = payload.split_first_chunk::<8>() else { continue };
            let Some(number) = rest.first_chunk::<8>() else { continue };
            let number = u64::from_le_bytes(*number);
            if let Some((now, latency, first)) = &mut recording {
                let took = now.saturating_sub(u64::from_le_bytes(*sent));
                match &mut **first {
                    Some(first) if number.is_multiple_of(FIRST_IN) => first.record(took),
                    Some(_) | None => latency.record(took),
                }
            }
            disordered += u64::from(number < next);
            next = next.max(number + 1);
            count += 1;
        }
        drop(recording);
        // One thread writes these, so that none of it need be one step; readers want no more than the numbers.
        self.next.store(next, Ordering::Relaxed);
        if disordered > 0 {
            self.disordered.store(self.disordered.load(Ordering::Relaxed) + disordered, Ordering::Relaxed);
        }
        self.received.store(self.received.load(Ordering::Relaxed) + count, Ordering::Release);
        if self.is_waited_for.load(Ordering::Relaxed)
            && let Some(sender) = self.sender.get()
        {
            sender.unpark();
        }
    }

    /// Has latencies recorded from now on, or messages counted alone.
    pub(super) fn record(&self, records: bool) {
        self.records.store(records, Ordering::Relaxed);
    }

    /// Has the latencies of messages with a priority kept apart, or not any more; those until now.
    pub(super) fn separate(&self, separates: bool) -> Option<Recorder> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *first, separates.then(Recorder::default))
    }

    /// Messages that came.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Those that came behind one with a larger number.
    pub(super) fn disordered(&self) -> u64 {
        self.disordered.load(Ordering::Relaxed)
    }

    /// The latencies since this was asked last.
    pub(super) fn take_latency(&self) -> Recorder {
        std::mem::take(&mut *self.latency.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum Sender {
    Tcp(TcpStream, Vec<u8>),
    Udp(UdpSocket, Datagrams),
    /// With the messages of a call, which lie ready as those of the others do.
    Tempo(Box<Publisher>, Box<[[u8; PAYLOAD]; DATAGRAMS_MAX]>),
}

/// A publisher and its subscriber, connected.
pub(super) struct Pair {
    sender: Sender,
    pub(super) intake: Arc<Intake>,
    /// Messages that were sent.
    pub(super) sent: u64,
    has_priorities: bool,
    pub(super) relay: Option<Process>,
    receiver: Receiver,
}

enum Receiver {
    /// A thread that reads, and how to end it.
    Thread(Option<JoinHandle<()>>, Option<(UdpSocket, SocketAddr)>),
    Tempo(#[expect(dead_code, reason = "kept receiving")] Vec<Subscriber>),
}

impl Pair {
    /// Connects a pair over bare sockets, or through a relay on that core.
    pub(super) fn bare(
        transport: Transport,
        relay_core: Option<Option<usize>>,
        seat: Seat,
    ) -> Result<Self, BenchError> {
        let intake = Intake::new();
        let (there, receiver) = match transport {
            Transport::Tcp => receive_tcp(&intake, seat)?,
            Transport::Udp => receive_udp(&intake, seat)?,
        };
        let relay = relay_core.map(|core| relay::start(transport, there, core)).transpose()?;
        let to = relay.as_ref().map_or(there, |(_, address)| *address);
        let sender = match transport {
            Transport::Tcp => {
                let stream = TcpStream::connect(to).map_err(BenchError::io("connecting to the receiver"))?;
                stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
                Sender::Tcp(stream, vec![0; GATHERED / MESSAGE * MESSAGE])
            }
            Transport::Udp => {
                let socket = bind()?;
                socket.connect(to).map_err(BenchError::io("connecting to the receiver"))?;
                Sender::Udp(socket, Datagrams::new(MESSAGE))
            }
        };
        Ok(Self { sender, intake, sent: 0, has_priorities: false, relay: relay.map(|(process, _)| process), receiver })
    }

    /// Connects a pair by Tempo: through the broker there, or from end to end. Each pair of a broker has a number, and a topic by it.
    pub(super) fn tempo(
        transport: Transport,
        broker: Option<SocketAddr>,
        number: u32,
        seat: Seat,
    ) -> Result<Self, BenchError> {
        let intake = Intake::new();
        let taking = Arc::clone(&intake);
        // Threads inherit core and priority from the one that starts them.
        let made = thread::spawn(move || {
            seat.take()?;
            let topic = format!("Tempo{number}");
            Crowd::connect(transport, broker, (&topic, 1), move |message| taking.take(std::iter::once(message)))
        });
        let Crowd { publisher, subscribers } = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let sender = Sender::Tempo(Box::new(publisher), Box::new([[0; PAYLOAD]; DATAGRAMS_MAX]));
        let receiver = Receiver::Tempo(subscribers);
        Ok(Self { sender, intake, sent: 0, has_priorities: false, relay: None, receiver })
    }

    /// Sends at a rate, each message when it is due, until then.
    pub(super) fn pace(&mut self, rate: f64, until: u64) -> Result<(), BenchError> {
        let period = clock::nanoseconds(1.0 / rate);
        let mut due = clock::now() + period;
        while due < until {
            clock::sleep_until(due)?;
            self.send(1)?;
            due += period;
        }
        Ok(())
    }

    /// Sends so many a second, so many at once, until then; what is late is sent as soon as it can be.
    pub(super) fn pour(&mut self, rate: f64, at_once: usize, until: u64) -> Result<(), BenchError> {
        let (began, before) = (clock::now(), self.sent);
        loop {
            let now = clock::now();
            if now >= until {
                return Ok(());
            }
            let due = began + clock::nanoseconds(crate::latency::ratio(self.sent - before, 1) / rate);
            if due > now {
                clock::sleep_until(due.min(until))?;
            }
            self.send(at_once)?;
        }
    }

    /// Sends at a rate on average, as if by chance: distances are spread exponentially.
    pub(super) fn scatter(&mut self, rate: f64, until: u64) -> Result<(), BenchError> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut due = clock::now();
        while due < until {
            if due > clock::now() {
                clock::sleep_until(due)?;
            }
            self.send(1)?;
            due += clock::nanoseconds(-(1.0 - random.f64()).ln() / rate);
        }
        Ok(())
    }

    /// Sends so many a second until then, one in [`FIRST_IN`] with a priority; latencies of these are given, too.
    pub(super) fn pour_with_priorities(&mut self, rate: f64, until: u64) -> Result<(), BenchError> {
        self.has_priorities = true;
        let result = self.pour(rate, 1, until);
        self.has_priorities = false;
        result
    }

    /// Sends as fast as it can until then, so many at once, with so many on their way at most.
    pub(super) fn flood(&mut self, at_once: usize, window: u64, until: u64) -> Result<(), BenchError> {
        let _ = self.intake.sender.set(thread::current());
        let missing = self.sent.saturating_sub(self.intake.received());
        while clock::now() < until {
            let lost_or_under_way = self.sent.saturating_sub(self.intake.received()).saturating_sub(missing);
            if lost_or_under_way > window {
                self.intake.is_waited_for.store(true, Ordering::Relaxed);
                thread::park_timeout(std::time::Duration::from_millis(1));
                self.intake.is_waited_for.store(false, Ordering::Relaxed);
                continue;
            }
            self.send(at_once)?;
        }
        Ok(())
    }

    fn send(&mut self, count: usize) -> Result<(), BenchError> {
        let (stamp, first) = (clock::now().to_le_bytes(), self.sent);
        let fill = |payload: &mut [u8], number: u64| {
            for (to, from) in payload.iter_mut().zip(stamp.iter().chain(&number.to_le_bytes())) {
                *to = *from;
            }
        };
        match &mut self.sender {
            Sender::Tcp(stream, buffer) => {
                let mut octets = 0;
                for (message, number) in buffer.chunks_exact_mut(MESSAGE).take(count).zip(first..) {
                    fill(message.get_mut(HEADER..).unwrap_or_default(), number);
                    octets += MESSAGE;
                }
                let bytes = buffer.get(..octets).unwrap_or_default();
                stream.write_all(bytes).map_err(BenchError::io("sending messages"))?;
            }
            Sender::Udp(socket, datagrams) => {
                for number in first..first + count.min(DATAGRAMS_MAX) as u64 {
                    let Some(message) = datagrams.add(MESSAGE) else { break };
                    fill(message.get_mut(HEADER..).unwrap_or_default(), number);
                }
                datagrams.send(socket).map_err(BenchError::io("sending datagrams"))?;
            }
            Sender::Tempo(publisher, payloads) => {
                for (payload, number) in payloads.iter_mut().take(count).zip(first..) {
                    fill(payload, number);
                }
                let payloads = payloads.get(..count).unwrap_or_default();
                match payloads.split_first() {
                    Some((payload, others)) if self.has_priorities && first.is_multiple_of(FIRST_IN) => {
                        tempo_ends::publish_first(publisher, payload)?;
                        tempo_ends::publish(publisher, others)?;
                    }
                    _ => tempo_ends::publish(publisher, payloads)?,
                }
            }
        }
        self.sent += count as u64;
        Ok(())
    }

    /// Waits until all that was sent has come, or nothing has for a tenth of a second; how many never came.
    pub(super) fn settle(&self) -> Result<u64, BenchError> {
        let (mut before, mut idle_looks) = (self.intake.received(), 0);
        while before < self.sent && idle_looks < 100 {
            clock::sleep_until(clock::now() + clock::SECOND / 1_000)?;
            let now = self.intake.received();
            idle_looks = if now == before { idle_looks + 1 } else { 0 };
            before = now;
        }
        Ok(self.sent.saturating_sub(before))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.intake.is_over.store(true, Ordering::Release);
        if let Sender::Tcp(stream, _) = &self.sender {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        drop(self.relay.take());
        if let Receiver::Thread(thread, wake) = &mut self.receiver {
            if let Some((socket, address)) = wake {
                let _ = socket.send_to(&[], *address);
            }
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// A socket for datagrams with as much room as the system gives.
pub(super) fn bind() -> Result<UdpSocket, BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io("binding a socket"))?;
    let room = 4 << 20;
    let set = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, room)
        .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, room));
    set.map_err(BenchError::errno("asking for room for datagrams"))?;
    Ok(socket)
}

fn receive_udp(intake: &Arc<Intake>, seat: Seat) -> Result<(SocketAddr, Receiver), BenchError> {
    let socket = bind()?;
    let address = socket.local_addr().map_err(BenchError::io("reading a socket's address"))?;
    let taking = Arc::clone(intake);
    let thread = thread::spawn(move || {
        let mut datagrams = Datagrams::new(MESSAGE);
        let seated = seat.take().is_ok();
        while seated && !taking.is_over.load(Ordering::Acquire) && datagrams.receive(&socket).is_ok() {
            taking.take(datagrams.iter().filter_map(|message| message.get(HEADER..)));
        }
    });
    Ok((address, Receiver::Thread(Some(thread), Some((bind()?, address)))))
}

fn receive_tcp(intake: &Arc<Intake>, seat: Seat) -> Result<(SocketAddr, Receiver), BenchError> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io("listening for the publisher"))?;
    let address = listener.local_addr().map_err(BenchError::io("reading the address to listen on"))?;
    let taking = Arc::clone(intake);
    let thread = thread::spawn(move || {
        if seat.take().is_ok()
            && let Ok((stream, _)) = listener.accept()
        {
            let _ = stream.set_nodelay(true);
            // It ends when the other end closes.
            let _ = read_on(stream, &taking);
        }
    });
    Ok((address, Receiver::Thread(Some(thread), None)))
}

fn read_on(mut stream: TcpStream, taking: &Intake) -> io::Result<()> {
    let (mut buffer, mut filled) = (vec![0; GATHERED], 0);
    loop {
        match stream.read(buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => return Ok(()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let whole = filled / MESSAGE * MESSAGE;
        let messages = buffer.get(..whole).unwrap_or_default().chunks_exact(MESSAGE);
        taking.take(messages.filter_map(|message| message.get(HEADER..)));
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_pair_carries_all_messages_in_order_one_by_one_and_many_at_once() {
        for transport in Transport::ALL {
            let mut pair = Pair::bare(transport, None, Seat::default()).unwrap();
            for _ in 0..10 {
                pair.send(1).unwrap();
            }
            // A busy machine takes longer than the looks of `settle`.
            let come = |pair: &Pair, sent| testing::wait_until("all messages", || pair.intake.received() == sent);
            come(&pair, 10);
            assert_eq!((pair.settle().unwrap(), pair.intake.take_latency().count()), (0, 10), "{transport:?}");
            for turn in 1..=50 {
                pair.send(64).unwrap();
                come(&pair, 10 + turn * 64);
                assert_eq!(pair.settle().unwrap(), 0, "{transport:?}");
            }
            assert_eq!((pair.intake.received(), pair.intake.disordered()), (10 + 50 * 64, 0));
        }
    }

    #[test]
    fn what_comes_late_is_counted() {
        let intake = Intake::new();
        let message = |number: u64| [clock::now().to_le_bytes(), number.to_le_bytes()].concat();
        let messages = [message(0), message(2), message(1), message(3)];
        intake.take(messages.iter().map(Vec::as_slice));
        assert_eq!((intake.received(), intake.disordered()), (4, 1));
    }
}
