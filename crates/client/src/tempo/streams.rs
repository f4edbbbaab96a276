//! TCP, in the clear or with TLS: connections in both directions, each with a bounded buffer for its output.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use tempo::Nanos;
use tempo::wire::{HEADER, PAYLOAD_MAX};

use crate::wire::{Ends, Wire};

/// Octets of the largest frame.
const FRAME: usize = HEADER + PAYLOAD_MAX;
/// Octets read at once; an incomplete frame stays in front of them.
const READ: usize = 2 * FRAME;
/// The lower bits of a stream's number are its slot; the others count the streams that have used it.
const PLACE_BITS: u32 = 10;
/// Maximum number of streams, whatever the settings.
pub(super) const STREAMS_MAX: usize = 1 << PLACE_BITS;
/// The number of the channel's stream, constant across reconnections.
pub(super) const CHANNEL: u32 = 0;

const SECOND: Nanos = 1_000_000_000;
/// A peer that takes none of its pending output for so long is disconnected; also the system's limit for a machine that does not answer.
const STALLED_AFTER: Nanos = 30 * SECOND;
/// A connected peer that sends nothing, or has not completed the handshake of TLS, is disconnected after this time.
const SPEAKS_WITHIN: Nanos = 10 * SECOND;
/// Silence of a peer after which it is disconnected: three of the longest announcement periods.
const SILENT_AFTER: Nanos = 180 * SECOND;
/// Maximum connections accepted in one pass.
const ACCEPTED_AT_ONCE: usize = 16;
/// Time limit of an attempt to connect.
const CONNECTS_WITHIN: Nanos = 10 * SECOND;

/// The slot in a stream's number.
pub(super) const fn place(number: u32) -> usize {
    (number & ((1 << PLACE_BITS) - 1)) as usize
}

/// Output by stream, under a lock that publishers take.
#[derive(Debug)]
pub(super) struct Outputs {
    streams: Vec<Option<Output>>,
    /// Maximum octets pending for one stream.
    room: usize,
    /// Slots of streams with new output.
    fresh: Vec<usize>,
    /// Whether a stream has failed, or has to be awaited for writing.
    is_changed: bool,
    /// Why the channel's stream is missing: the error of the last attempt, or of its end.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Output {
    number: u32,
    socket: Arc<Wire>,
    waiting: VecDeque<u8>,
    /// Whether it is connected; before that nothing is written.
    is_open: bool,
    has_failed: bool,
    /// Whether the end point was told that there is no room.
    is_full: bool,
    /// Since when the stream has taken none of its pending output.
    stalled_since: Option<Nanos>,
}

impl Outputs {
    /// Outputs with so much room for each stream, at least the largest frame's size.
    pub(super) fn new(room: usize) -> Self {
        Self { streams: Vec::new(), room: room.max(2 * FRAME), fresh: Vec::new(), is_changed: false, trouble: None }
    }

    fn open(&mut self, number: u32, socket: Arc<Wire>, is_open: bool) {
        let place = place(number);
        if self.streams.len() <= place {
            self.streams.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.streams.get_mut(place) {
            // All the memory there will be, at once: the system gives it as it is used.
            let waiting = VecDeque::with_capacity(self.room);
            *slot = Some(Output {
                number,
                socket,
                waiting,
                is_open,
                has_failed: false,
                is_full: false,
                stalled_since: None,
            });
        }
    }

    fn get(&mut self, number: u32) -> Option<&mut Output> {
        self.streams.get_mut(place(number))?.as_mut().filter(|output| output.number == number)
    }

    /// Writes frames at once if no output is pending. Returns the rest, to be [put](Self::put) behind the pending output.
    pub(super) fn write<'o>(&mut self, number: u32, octets: &'o [u8]) -> &'o [u8] {
        let Some(output) = self.get(number).filter(|output| output.is_open && !output.has_failed) else {
            return octets;
        };
        if !output.waiting.is_empty() {
            return octets;
        }
        // Whatever it is that a socket does not take is found out with what waits.
        let written = output.socket.try_write(octets).unwrap_or(0);
        octets.get(written..).unwrap_or_default()
    }

    /// Appends frames to a stream's pending output. Returns false once there is no room for the largest frame: the caller then tells the
    /// end point, which sends nothing to it meanwhile. Frames for a closed stream are dropped.
    pub(super) fn put(&mut self, number: u32, octets: &[u8], now: Nanos) -> bool {
        let room = self.room;
        let Some(output) = self.get(number) else { return true };
        if output.has_failed {
            return true;
        }
        output.waiting.extend(octets);
        let mut has_room = room - output.waiting.len().min(room) >= FRAME;
        if !has_room {
            output.write(now);
            has_room = room - output.waiting.len().min(room) >= FRAME;
            output.is_full = !has_room;
        }
        self.fresh.push(place(number));
        has_room
    }

    /// Writes new output, as far as sockets take it. Returns whether the thread that waits for sockets has to look again.
    pub(super) fn flush(&mut self, now: Nanos) -> bool {
        while let Some(place) = self.fresh.pop() {
            if let Some(output) = self.streams.get_mut(place).and_then(Option::as_mut) {
                let had = output.stalled_since.is_some();
                output.write(now);
                self.is_changed |= output.has_failed || had != output.stalled_since.is_some();
            }
        }
        std::mem::take(&mut self.is_changed)
    }

    /// Writes pending output to a stream that takes more. Returns whether an end point that was told of no room has to be told of room.
    fn drain(&mut self, number: u32, now: Nanos) -> bool {
        let room = self.room;
        let Some(output) = self.get(number) else { return false };
        output.write(now);
        let has_room = room - output.waiting.len().min(room) >= FRAME;
        output.is_full && has_room && {
            output.is_full = false;
            true
        }
    }

    /// Why the channel's stream is missing, if known.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Notes the error of a stream, if it is the channel's; `None` clears it.
    pub(super) fn note_trouble(&mut self, number: u32, error: Option<&io::Error>) {
        if number == CHANNEL {
            self.trouble = error.map(io::Error::to_string);
        }
    }

    /// Octets pending.
    pub(super) fn waiting(&self) -> usize {
        self.streams.iter().flatten().filter(|output| !output.has_failed).map(|output| output.waiting.len()).sum()
    }
}

impl Output {
    fn write(&mut self, now: Nanos) {
        while !self.has_failed && self.is_open && !self.waiting.is_empty() {
            let (front, _) = self.waiting.as_slices();
            match self.socket.try_write(front) {
                Ok(0) => self.has_failed = true,
                Ok(written) => {
                    self.waiting.drain(..written);
                    self.stalled_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stalled_since.get_or_insert(now);
                    return;
                }
                Err(_) => self.has_failed = true,
            }
        }
        self.stalled_since = None;
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The other machine has not answered yet.
    Connecting,
    /// The handshake of TLS is in progress.
    Shaking,
    Open,
}

/// The reading side of a connection.
#[derive(Debug)]
pub(super) struct Input {
    /// Its number; also in [`Outputs`].
    pub(super) number: u32,
    /// Address of the other end.
    pub(super) peer: SocketAddr,
    socket: Arc<Wire>,
    octets: Vec<u8>,
    filled: usize,
    stage: Stage,
    opened: Nanos,
    came_last: Option<Nanos>,
}

impl Input {
    fn new(number: u32, peer: SocketAddr, socket: Arc<Wire>, stage: Stage, now: Nanos) -> Self {
        Self { number, peer, socket, octets: vec![0; READ], filled: 0, stage, opened: now, came_last: None }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        self.socket.tcp()
    }

    /// Whether the handshake of TLS is in progress.
    pub(super) fn is_shaking(&self) -> bool {
        self.stage == Stage::Shaking
    }

    /// Whether there is input that the socket does not report.
    pub(super) fn has_more(&self) -> bool {
        self.socket.has_more()
    }

    /// Input that is not consumed yet.
    pub(super) fn octets(&self) -> &[u8] {
        self.octets.get(..self.filled).unwrap_or_default()
    }

    /// Consumes input.
    pub(super) fn consume(&mut self, octets: usize) {
        self.octets.copy_within(octets.min(self.filled)..self.filled, 0);
        self.filled -= octets.min(self.filled);
    }

    /// Reads once.
    ///
    /// # Errors
    /// The end of the input, or its error.
    pub(super) fn read(&mut self, now: Nanos) -> io::Result<()> {
        let Some(room) = self.octets.get_mut(self.filled..).filter(|room| !room.is_empty()) else { return Ok(()) };
        match self.socket.try_read(room) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended the connection")),
            Ok(read) => {
                self.filled += read;
                self.came_last = Some(now);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// When the other end will have been silent for too long.
    const fn silent_at(&self) -> Nanos {
        match (self.stage, self.came_last) {
            (Stage::Connecting, _) => self.opened.saturating_add(CONNECTS_WITHIN),
            (_, None) => self.opened.saturating_add(SPEAKS_WITHIN),
            (_, Some(last)) => last.saturating_add(SILENT_AFTER),
        }
    }
}

/// All connections of an end point, established or not.
#[derive(Debug)]
pub(super) struct Streams {
    listener: Option<TcpListener>,
    inputs: Vec<Option<Input>>,
    generation: u32,
    streams_max: usize,
    tls: Option<StreamTls>,
}

/// TLS of an end point's connections.
#[derive(Debug)]
pub(super) struct StreamTls {
    pub(super) ends: Ends,
    /// The host connected to.
    pub(super) host: String,
}

impl StreamTls {
    fn client(&self, socket: TcpStream) -> io::Result<Wire> {
        Wire::to_secure(socket, self.ends.client.session(&self.host).map_err(io::Error::other)?)
    }

    fn server(&self, socket: TcpStream) -> io::Result<Wire> {
        let end = self.ends.server.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        Wire::to_secure(socket, end.session().map_err(io::Error::other)?)
    }
}

/// A change of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The stream is connected.
    Opened(u32),
    /// The stream is gone.
    Closed(u32),
    /// The stream has room again.
    Ready(u32),
}

impl Streams {
    pub(super) fn new(listener: Option<TcpListener>, streams_max: usize, tls: Option<StreamTls>) -> Self {
        let streams_max = streams_max.clamp(1, STREAMS_MAX);
        Self { listener, inputs: Vec::new(), generation: 0, streams_max, tls }
    }

    pub(super) const fn listener(&self) -> Option<&TcpListener> {
        self.listener.as_ref()
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().flatten()
    }

    pub(super) fn input_mut(&mut self, number: u32) -> Option<&mut Input> {
        self.inputs.get_mut(place(number))?.as_mut().filter(|input| input.number == number)
    }

    /// Begins to connect the channel's stream.
    ///
    /// # Errors
    /// If that fails at once.
    pub(super) fn connect(&mut self, to: SocketAddr, now: Nanos, outputs: &mut Outputs) -> io::Result<()> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let wire = match &self.tls {
            None => Wire::Plain(socket.into()),
            Some(tls) => tls.client(socket.into())?,
        };
        self.open(CHANNEL, to, Arc::new(wire), Stage::Connecting, now, outputs);
        Ok(())
    }

    /// Accepts connections; a few at a time, since others wait as well.
    pub(super) fn accept(&mut self, now: Nanos, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(Ok((socket, peer))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            // The first place is the channel's.
            let free = (1..=self.streams_max).find(|place| self.inputs.get(*place).is_none_or(Option::is_none));
            let Some(place) = free.filter(|_| socket.set_nonblocking(true).is_ok()) else { continue };
            let (wire, stage) = match &self.tls {
                None => (Wire::Plain(socket), Stage::Open),
                Some(tls) => match tls.server(socket) {
                    Ok(wire) => (wire, Stage::Shaking),
                    Err(_) => continue,
                },
            };
            self.generation = self.generation.wrapping_add(1) & (u32::MAX >> PLACE_BITS);
            let number = self.generation << PLACE_BITS | u32::try_from(place).unwrap_or_default();
            self.open(number, peer, Arc::new(wire), stage, now, outputs);
            if stage == Stage::Open {
                changes.push(Change::Opened(number));
            }
        }
    }

    fn open(
        &mut self,
        number: u32,
        peer: SocketAddr,
        socket: Arc<Wire>,
        stage: Stage,
        now: Nanos,
        outputs: &mut Outputs,
    ) {
        prepare(socket.tcp());
        let place = place(number);
        if self.inputs.len() <= place {
            self.inputs.resize_with(place + 1, || None);
        }
        outputs.open(number, Arc::clone(&socket), stage == Stage::Open);
        if let Some(slot) = self.inputs.get_mut(place) {
            *slot = Some(Input::new(number, peer, socket, stage, now));
        }
    }

    /// Handles a writable stream: it takes more, is connected, or failed to connect.
    pub(super) fn writable(&mut self, number: u32, now: Nanos, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        let Some(input) = self.input_mut(number) else { return };
        if input.stage == Stage::Connecting {
            if let Err(error) = sockopt::socket_error(input.socket()).and_then(core::convert::identity) {
                return self.fail(number, &error.into(), outputs, changes);
            }
            (input.stage, input.opened) = (Stage::Shaking, now);
        }
        self.shake(number, now, outputs, changes);
        if outputs.drain(number, now) {
            changes.push(Change::Ready(number));
        }
    }

    /// Continues the handshake of a stream, if it is not complete.
    pub(super) fn shake(&mut self, number: u32, now: Nanos, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        let Some(input) = self.input_mut(number).filter(|input| input.is_shaking()) else { return };
        match input.socket.try_handshake() {
            Ok(false) => {}
            Ok(true) => {
                (input.stage, input.opened) = (Stage::Open, now);
                if let Some(output) = outputs.get(number) {
                    output.is_open = true;
                }
                changes.push(Change::Opened(number));
            }
            Err(error) => self.fail(number, &error, outputs, changes),
        }
    }

    /// Ends a failed stream, and notes the error.
    pub(super) fn fail(&mut self, number: u32, error: &io::Error, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        outputs.note_trouble(number, Some(error));
        self.close(number, outputs, changes);
    }

    /// Ends a stream, whatever output is pending.
    pub(super) fn close(&mut self, number: u32, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        if self.input_mut(number).is_some()
            && let Some(slot) = self.inputs.get_mut(place(number))
        {
            *slot = None;
            if outputs.get(number).is_some()
                && let Some(slot) = outputs.streams.get_mut(place(number))
            {
                *slot = None;
            }
            changes.push(Change::Closed(number));
        }
    }

    /// Ends connections that failed, or have been silent or stalled for too long.
    pub(super) fn sweep(&mut self, now: Nanos, outputs: &mut Outputs, changes: &mut Vec<Change>) {
        for place in 0..self.inputs.len() {
            let Some(input) = self.inputs.get(place).and_then(Option::as_ref) else { continue };
            let (number, is_silent) = (input.number, input.silent_at() <= now);
            let is_lost = outputs.get(number).is_none_or(|output| {
                output.has_failed || output.stalled_since.is_some_and(|since| since + STALLED_AFTER <= now)
            });
            if is_silent || is_lost {
                let why = match input.stage {
                    Stage::Open => "the connection was lost",
                    Stage::Connecting => "the machine does not answer",
                    Stage::Shaking => "the handshake of TLS was not over in time",
                };
                self.fail(number, &io::Error::other(why), outputs, changes);
            }
        }
    }

    /// Time of the next [`sweep`](Self::sweep).
    pub(super) fn sweep_at(&self, outputs: &Outputs) -> Option<Nanos> {
        let silent = self.inputs().map(Input::silent_at).min();
        let stalled = outputs.streams.iter().flatten().filter_map(|output| output.stalled_since).min();
        [silent, stalled.map(|since| since + STALLED_AFTER)].into_iter().flatten().min()
    }

    /// Whether to wait until a stream is writable.
    pub(super) fn waits_to_write(input: &Input, outputs: &mut Outputs) -> bool {
        match input.stage {
            Stage::Connecting => true,
            Stage::Shaking => input.socket.has_unsent(),
            Stage::Open => outputs.get(input.number).is_some_and(|output| output.stalled_since.is_some()),
        }
    }

    /// Stops accepting connections.
    pub(super) fn listen_no_more(&mut self) {
        self.listener = None;
    }

    /// Ends the output of all streams: the other ends read what is pending, and then the end.
    pub(super) fn say_end(&self) {
        for input in self.inputs().filter(|input| input.stage == Stage::Open) {
            input.socket.say_end();
        }
    }
}

fn prepare(socket: &TcpStream) {
    // None of these changes what is sent, and all may fail where the other end has gone already.
    let _ = socket.set_nodelay(true);
    // A machine that is gone without a word is noticed; one that is alive answers, however little it reads.
    let limit = u32::try_from(STALLED_AFTER / 1_000_000).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit);
}
