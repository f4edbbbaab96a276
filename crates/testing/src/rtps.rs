//! A DDS participant made of raw packets: it announces writers and readers with arbitrary policies, without having any.
//!
//! RTPS 2.3: 9.4 (submessages), 9.6.2.2 (parameters), 8.5 (discovery).

use std::net::UdpSocket;
use std::ops::Range;

/// Entity ids of participant discovery: the writer, and the reader at the other participants.
const PARTICIPANTS: [[u8; 4]; 2] = [[0, 1, 0, 0xc2], [0, 1, 0, 0xc7]];
const WRITERS: [[u8; 4]; 2] = [[0, 0, 3, 0xc2], [0, 0, 3, 0xc7]];
const READERS: [[u8; 4]; 2] = [[0, 0, 4, 0xc2], [0, 0, 4, 0xc7]];

/// One parameter of an announced endpoint: its number and its value, in little-endian order.
pub type Parameter = (u16, Vec<u8>);

/// Policies as parameters.
pub mod policies {
    use super::Parameter;

    fn seconds(seconds: i32) -> [u8; 8] {
        let mut value = [0; 8];
        value[..4].copy_from_slice(&seconds.to_le_bytes());
        value
    }

    /// Best effort or reliable.
    #[must_use]
    pub fn reliability(reliable: bool) -> Parameter {
        (0x1a, [&(1 + u32::from(reliable)).to_le_bytes()[..], &seconds(1)].concat())
    }

    /// Durability 0: volatile, 1: transient local, and so on.
    #[must_use]
    pub fn durability(kind: u32) -> Parameter {
        (0x1d, kind.to_le_bytes().to_vec())
    }

    /// Deadline in seconds.
    #[must_use]
    pub fn deadline(period: i32) -> Parameter {
        (0x23, seconds(period).to_vec())
    }

    /// Latency budget in seconds.
    #[must_use]
    pub fn latency_budget(duration: i32) -> Parameter {
        (0x27, seconds(duration).to_vec())
    }

    /// Liveliness 0: automatic, 1: by participant, 2: by topic; the lease in seconds.
    #[must_use]
    pub fn liveliness(kind: u32, lease: i32) -> Parameter {
        (0x1b, [&kind.to_le_bytes()[..], &seconds(lease)].concat())
    }

    /// Ownership 0: shared, 1: exclusive.
    #[must_use]
    pub fn ownership(kind: u32) -> Parameter {
        (0x1f, kind.to_le_bytes().to_vec())
    }

    /// Order 0: by reception, 1: by source.
    #[must_use]
    pub fn destination_order(kind: u32) -> Parameter {
        (0x25, kind.to_le_bytes().to_vec())
    }

    /// Access scope 0: instance, 1: topic, 2: group.
    #[must_use]
    pub fn presentation(scope: u32) -> Parameter {
        (0x21, [scope.to_le_bytes(), [0; 4]].concat())
    }

    /// Representation 0: XCDR1, 2: XCDR2.
    #[must_use]
    pub fn representations(ids: &[i16]) -> Parameter {
        let mut value = u32::try_from(ids.len()).unwrap_or(0).to_le_bytes().to_vec();
        ids.iter().for_each(|id| value.extend(id.to_le_bytes()));
        (0x73, value)
    }

    /// One partition.
    #[must_use]
    pub fn partition(name: &str) -> Parameter {
        (0x29, [&1_u32.to_le_bytes()[..], &super::string(name)].concat())
    }
}

fn string(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 1).unwrap_or(0);
    let mut value = [&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat();
    value.resize(value.len().next_multiple_of(4), 0);
    value
}

fn parameters(all: &[Parameter]) -> Vec<u8> {
    let mut list = vec![0, 3, 0, 0];
    for (id, value) in all {
        let length = value.len().next_multiple_of(4);
        list.extend(id.to_le_bytes());
        list.extend(u16::try_from(length).unwrap_or(0).to_le_bytes());
        list.extend(value);
        list.resize(list.len() + length - value.len(), 0);
    }
    list.extend([1, 0, 0, 0]);
    list
}

/// The participant, reachable on this machine alone.
#[derive(Debug)]
pub struct RawPeer {
    socket: UdpSocket,
    ports: Range<u16>,
    prefix: [u8; 12],
    name: String,
    /// Announced writers and readers, each with whether it still exists.
    announced: [Vec<(Vec<u8>, bool)>; 2],
}

impl RawPeer {
    /// A participant in a domain (by its number on the network), with a name.
    ///
    /// # Panics
    /// No socket is available.
    #[must_use]
    pub fn new(domain: u32, name: &str) -> Self {
        // 9.6.1.1: where the domain's first participants listen.
        let first = u16::try_from(7400 + 250 * domain + 10).unwrap_or(0);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut prefix = [0xf0; 12];
        prefix[4..8].copy_from_slice(&std::process::id().to_le_bytes());
        prefix[8..10].copy_from_slice(&socket.local_addr().map_or(0, |address| address.port()).to_le_bytes());
        Self { socket, ports: first..first + 16, prefix, name: name.to_owned(), announced: Default::default() }
    }

    /// The identifier of an announced endpoint.
    #[must_use]
    pub fn guid(&self, is_writer: bool, number: usize) -> [u8; 16] {
        let [.., high, low] = u32::try_from(number).unwrap_or(0).to_be_bytes();
        let kind = if is_writer { 0x03 } else { 0x04 };
        let mut guid = [0; 16];
        guid[..12].copy_from_slice(&self.prefix);
        guid[12..].copy_from_slice(&[1, high, low, kind]);
        guid
    }

    /// Adds a writer or a reader, announced by the next [`speak`](Self::speak). Returns its number among its kind.
    pub fn announce(&mut self, is_writer: bool, (topic, type_name): (&str, &str), policies: &[Parameter]) -> usize {
        let number = self.announced_of(is_writer).len();
        let guid = self.guid(is_writer, number).to_vec();
        let mut all = vec![(0x5a, guid), (0x05, string(topic)), (0x07, string(type_name))];
        all.extend_from_slice(policies);
        self.announced_of(is_writer).push((parameters(&all), true));
        number
    }

    fn announced_of(&mut self, is_writer: bool) -> &mut Vec<(Vec<u8>, bool)> {
        let [writers, readers] = &mut self.announced;
        if is_writer { writers } else { readers }
    }

    /// Removes a writer or a reader.
    pub fn withdraw(&mut self, is_writer: bool, number: usize) {
        let guid = self.guid(is_writer, number).to_vec();
        self.announced_of(is_writer).push((parameters(&[(0x5a, guid)]), false));
    }

    /// Announces the participant and all its endpoints, past ones included; repeat until the others know. Announcements are numbered, so
    /// receivers take each once.
    pub fn speak(&self) {
        let locator = {
            let port = self.socket.local_addr().map_or(0, |address| u32::from(address.port()));
            [&1_u32.to_le_bytes()[..], &port.to_le_bytes(), &[0; 12], &[127, 0, 0, 1]].concat()
        };
        let of_participant = parameters(&[
            (0x15, vec![2, 3]),
            (0x16, vec![0xff, 0xf0]),
            (0x50, [&self.prefix[..], &[0, 0, 1, 0xc1]].concat()),
            (0x32, locator.clone()),
            (0x31, locator),
            (0x02, [1000_u32.to_le_bytes(), [0; 4]].concat()),
            // It announces itself, writers and readers, and listens to none.
            (0x58, 0b01_0101_u32.to_le_bytes().to_vec()),
            (0x62, string(&self.name)),
        ]);
        self.send(&self.data(PARTICIPANTS, 1, &of_participant, true));
        for (entities, all) in [WRITERS, READERS].into_iter().zip(&self.announced) {
            let count = u32::try_from(all.len()).unwrap_or(0);
            self.send(&self.heartbeat(entities, count));
            for (number, (payload, is_there)) in (1..).zip(all) {
                self.send(&self.data(entities, number, payload, *is_there));
            }
            self.send(&self.heartbeat(entities, count));
        }
    }

    fn send(&self, submessage: &[u8]) {
        let packet = [b"RTPS\x02\x03\xff\xf0", &self.prefix[..], submessage].concat();
        for port in self.ports.clone() {
            // Without a listener the system may say so, at the next send.
            let _nobody = self.socket.send_to(&packet, ("127.0.0.1", port));
        }
    }

    /// A data submessage (9.4.5.3). For a removed endpoint it has the status inline, and the key alone.
    fn data(&self, [writer, reader]: [[u8; 4]; 2], number: u32, payload: &[u8], is_there: bool) -> Vec<u8> {
        let in_line: &[u8] = if is_there { &[] } else { &[0x71, 0, 4, 0, 0, 0, 0, 3, 1, 0, 0, 0] };
        let body = [&[0, 0, 16, 0][..], &reader, &writer, &[0; 4], &number.to_le_bytes(), in_line, payload].concat();
        let length = u16::try_from(body.len()).unwrap_or(0).to_le_bytes();
        [&[0x15, if is_there { 0b101 } else { 0b1011 }], &length[..], &body].concat()
    }

    fn heartbeat(&self, [writer, reader]: [[u8; 4]; 2], last: u32) -> Vec<u8> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |since| since.subsec_micros() + 1);
        let numbers = [[0; 4], 1_u32.to_le_bytes(), [0; 4], last.to_le_bytes(), now.to_le_bytes()].concat();
        [&[0x07, 0b11, 28, 0][..], &reader, &writer, &numbers].concat()
    }
}
