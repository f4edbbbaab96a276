//! Wire of simulated clients: GIOP on a simulated connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use giop::cdr::{CharSet, Endian, Reader, Version, Writer};
use giop::message::{
    self, Header, LocateRequest, LocateStatus, MessageKind, Reply, ReplyHead, ReplyStatus, Request, RequestHead,
    Response, Target,
};

use super::network::{self, Id, Net, Trouble};

/// A client's end of a connection.
pub(super) struct Wire {
    end: Id,
    arrived: Vec<u8>,
    due: Vec<u8>,
    /// Whether the connection has ended, in either direction.
    pub(super) is_gone: bool,
}

/// Calls `what` with the network, which must exist.
pub(super) fn net<T>(what: impl FnOnce(&mut Net) -> T) -> T {
    network::with(what).expect("a simulation")
}

impl Wire {
    pub(super) fn over(end: Id) -> Self {
        Self { end, arrived: Vec::new(), due: Vec::new(), is_gone: false }
    }

    pub(super) fn connect(from: IpAddr, to: SocketAddr) -> Self {
        Self::over(net(|net| {
            let from = net.address_of(from);
            net.connect(from, to)
        }))
    }

    /// Whether there is input, or room for output.
    pub(super) fn is_ready(&self) -> bool {
        !self.is_gone && (net(|net| net.is_readable(self.end)) || self.can_go_on_writing())
    }

    /// Whether there is room for output.
    pub(super) fn can_go_on_writing(&self) -> bool {
        !self.is_gone && !self.due.is_empty() && net(|net| net.has_room(self.end))
    }

    fn receive(&mut self, most: usize) {
        if self.is_gone {
            return;
        }
        match net(|net| net.read(self.end, &mut self.arrived, most)) {
            Ok(0) | Err(Trouble::Reset | Trouble::Refused) => self.is_gone = true,
            Ok(_) | Err(Trouble::WouldBlock) => {}
        }
    }

    /// Whether output waits.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Reads up to `most` octets, and returns all input that was not used up.
    pub(super) fn read_octets(&mut self, most: usize) -> &[u8] {
        self.receive(most);
        &self.arrived
    }

    /// Removes input that was used up.
    pub(super) fn use_up(&mut self, octets: usize) {
        self.arrived.drain(..octets);
    }

    /// Reads up to `most` octets, and returns the complete lines.
    pub(super) fn read_lines(&mut self, most: usize) -> Vec<String> {
        let before = self.arrived.len();
        self.receive(most);
        let new = self.arrived.get(before..).unwrap_or_default();
        let end = new.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| before + at + 1);
        let lines: Vec<u8> = self.arrived.drain(..end).collect();
        String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect()
    }

    /// Reads up to `most` octets, and returns the complete messages.
    pub(super) fn read(&mut self, most: usize) -> Result<Vec<Vec<u8>>, String> {
        self.receive(most);
        let mut messages = Vec::new();
        while self.arrived.len() >= 12 {
            let header = Header::parse(&self.arrived).map_err(|error| format!("not a header: {error:?}"))?;
            if header.more_fragments || header.message_len() > self.arrived.len() {
                break;
            }
            let message: Vec<u8> = self.arrived.drain(..header.message_len()).collect();
            if header.kind == MessageKind::LocateRequest {
                // The service asks each server first whether it speaks GIOP.
                let asked = LocateRequest::parse(&message, &header).map_err(|error| format!("{error:?}"))?;
                let unknown = LocateStatus::UnknownObject;
                self.write(|due| message::locate_reply(due, header.version, header.endian, asked.request_id, unknown));
                continue;
            }
            messages.push(message);
        }
        Ok(messages)
    }

    /// Writes output, as far as there is room at once.
    pub(super) fn write(&mut self, what: impl FnOnce(&mut Vec<u8>)) {
        what(&mut self.due);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        while !self.is_gone && !self.due.is_empty() {
            match net(|net| net.write(self.end, &self.due)) {
                Ok(count) => drop(self.due.drain(..count)),
                Err(Trouble::WouldBlock) => return,
                Err(_) => self.is_gone = true,
            }
        }
    }

    pub(super) fn reset(&mut self) {
        self.is_gone = true;
        net(|net| net.reset(self.end));
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        network::with(|net| net.close(self.end));
    }
}

/// A client with requests, and the answers that it waits for.
pub(super) struct Asker<T> {
    pub(super) wire: Wire,
    endian: Endian,
    next_id: u32,
    waiting: BTreeMap<u32, T>,
}

/// Answer to a request.
pub(super) struct Answered<T> {
    pub(super) what: T,
    pub(super) status: ReplyStatus,
    message: Vec<u8>,
}

impl<T> Answered<T> {
    /// Reads the body of the answer.
    pub(super) fn read<R>(&self, read: impl FnOnce(&mut Reader<'_>) -> R) -> R {
        let header = Header::parse(&self.message).unwrap();
        let reply = Reply::parse(&self.message, &header).unwrap();
        read(&mut reply.body(&self.message, &header, CharSet::Latin1))
    }
}

impl<T> Asker<T> {
    pub(super) fn connect(from: IpAddr, to: SocketAddr, endian: Endian) -> Self {
        Self { wire: Wire::connect(from, to), endian, next_id: 0, waiting: BTreeMap::new() }
    }

    /// Number of answers that it waits for.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a request. Without `what`, no answer is expected.
    pub(super) fn ask(&mut self, what: Option<T>, key: &[u8], operation: &str, body: impl FnOnce(&mut Writer<'_>)) {
        self.next_id += 1;
        let head = RequestHead {
            version: Version::V1_2,
            endian: self.endian,
            request_id: self.next_id,
            response: if what.is_some() { Response::Expected } else { Response::None },
            key,
            operation: operation.as_bytes(),
            contexts: &[],
            body_phase: None,
        };
        self.wire.write(|bytes| {
            let open = message::begin_request(bytes, &head);
            body(&mut open.body(bytes, CharSet::Latin1));
            open.finish(bytes);
        });
        if let Some(what) = what {
            self.waiting.insert(self.next_id, what);
        }
    }

    /// Reads the answers that have come.
    ///
    /// # Errors
    /// An answer that must not be among them.
    pub(super) fn answers(&mut self) -> Result<Vec<Answered<T>>, String> {
        self.wire.flush();
        let mut answers = Vec::new();
        for message in self.wire.read(usize::MAX)? {
            let header = Header::parse(&message).map_err(|error| format!("{error:?}"))?;
            match header.kind {
                MessageKind::Reply => {}
                MessageKind::CloseConnection => {
                    self.wire.is_gone = true;
                    continue;
                }
                other => return Err(format!("a client is sent a {other}")),
            }
            let reply = Reply::parse(&message, &header).map_err(|error| format!("{error:?}"))?;
            let (id, status) = (reply.request_id, reply.status);
            let what = self.waiting.remove(&id);
            let what =
                what.ok_or_else(|| format!("request {id} is answered that was not asked, or was answered before"))?;
            answers.push(Answered { what, status, message });
        }
        Ok(answers)
    }
}

/// A request to a client.
pub(super) struct Received {
    pub(super) id: u32,
    pub(super) is_two_way: bool,
    pub(super) operation: String,
    /// The object's key.
    pub(super) key: Vec<u8>,
    message: Vec<u8>,
}

impl Received {
    pub(super) fn parse(message: Vec<u8>) -> Result<Option<Self>, String> {
        let header = Header::parse(&message).map_err(|error| format!("{error:?}"))?;
        match header.kind {
            MessageKind::Request => {}
            MessageKind::CloseConnection => return Ok(None),
            other => return Err(format!("a consumer is sent a {other}")),
        }
        let request = Request::parse(&message, &header).map_err(|error| format!("not a request: {error:?}"))?;
        let operation = String::from_utf8_lossy(request.operation).into_owned();
        Ok(Some(Self {
            id: request.request_id,
            is_two_way: request.response == Response::Expected,
            operation,
            key: match request.target {
                Target::Key(key) => key.to_vec(),
                _ => Vec::new(),
            },
            message,
        }))
    }

    pub(super) fn read<R>(&self, read: impl FnOnce(&mut Reader<'_>) -> R) -> R {
        let header = Header::parse(&self.message).unwrap();
        let request = Request::parse(&self.message, &header).unwrap();
        read(&mut request.body(&self.message, &header, CharSet::Latin1))
    }
}

/// Appends a reply without a result.
pub(super) fn reply(bytes: &mut Vec<u8>, request_id: u32, body: impl FnOnce(&mut Writer<'_>)) {
    let status = ReplyStatus::NoException;
    let head = ReplyHead { version: Version::V1_2, endian: Endian::Little, request_id, status, contexts: &[] };
    let open = message::begin_reply(bytes, &head);
    body(&mut open.body(bytes, CharSet::Latin1));
    open.finish(bytes);
}
