//! What comes from participants that are not Cyclone on this machine: another byte order, and rubbish.

use std::net::UdpSocket;
use std::ops::Range;

use dds::{Qos, Reader, Writer};
use giop::cdr::{Encoding, Endian};
use giop::typecode::{Kind, TypeCode};
use testing::wait_until;

use crate::support::{blob, blob_type, domain_of, encoded, matched, named, number_of, pair, taken};

/// Sends what a participant would send that has the same writer.
struct Impostor {
    socket: UdpSocket,
    ports: Range<u16>,
    guid: [u8; 16],
}

impl Impostor {
    fn of(test: u32, writer: &Writer) -> Self {
        // RTPS 2.3, 9.6.1.1: where the domain's first participants listen.
        let first = u16::try_from(7400 + 250 * domain_of(test) + 10).unwrap();
        Self { socket: UdpSocket::bind("127.0.0.1:0").unwrap(), ports: first..first + 64, guid: writer.guid().0 }
    }

    fn send(&self, packet: &[u8]) {
        for port in self.ports.clone() {
            // Without a listener the system may say so, at the next send.
            let _nobody = self.socket.send_to(packet, ("127.0.0.1", port));
        }
    }

    /// RTPS 2.3, 9.4.5.3: a sample with that number, in the encapsulation that `payload` begins with.
    fn data(&self, number: u32, payload: &[u8]) -> Vec<u8> {
        let mut packet = b"RTPS\x02\x03\x01\x10".to_vec();
        packet.extend(&self.guid[..12]);
        let length = u16::try_from(20 + payload.len()).unwrap();
        packet.extend([0x15, 0b101]);
        packet.extend(length.to_le_bytes());
        packet.extend([0, 0, 16, 0, 0, 0, 0, 0]);
        packet.extend(&self.guid[12..]);
        packet.extend([0; 4]);
        packet.extend(number.to_le_bytes());
        packet.extend(payload);
        packet
    }
}

fn best_effort() -> Qos {
    Qos { reliable: false, ..Qos::default() }
}

fn until_taken(reader: &Reader, is_expected: impl Fn(&[u8]) -> bool, mut send: impl FnMut()) {
    wait_until("the value", || {
        send();
        let mut found = false;
        while reader.take(64, |sample| found |= is_expected(sample.cdr)).unwrap() > 0 {}
        found
    });
}

#[test]
fn values_of_the_other_byte_order_arrive_in_ours() {
    let (a, b) = pair(40);
    let name = named("big-endian");
    let inner = TypeCode::structure(
        "IDL:test/Pair:1.0",
        "Pair",
        &[("a", TypeCode::primitive(Kind::Double)), ("b", TypeCode::string())],
    );
    let of = TypeCode::structure(
        "IDL:test/Foreign:1.0",
        "Foreign",
        &[
            ("short", TypeCode::primitive(Kind::Short)),
            ("pairs", TypeCode::sequence(inner)),
            ("last", TypeCode::primitive(Kind::LongLong)),
        ],
    );
    let (from, to) = (a.topic(&name, &of).unwrap(), b.topic(&name, &of).unwrap());
    let (writer, reader) = matched(&from, &to, &best_effort(), &best_effort());
    let write = |w: &mut giop::cdr::Writer<'_>| {
        w.i16(-7);
        w.u32(2);
        for text in ["one", "zwölf"] {
            w.f64(1.25);
            w.string(text);
        }
        w.i64(-1_000_000_000_000);
    };
    let mut payload = vec![0, 0, 0, 0];
    let mut value = Vec::new();
    write(&mut giop::cdr::Writer::new(&mut value, Encoding { endian: Endian::Big, ..dds::encoding() }));
    payload.extend(value);
    let ours = encoded(write);
    let impostor = Impostor::of(40, &writer);
    let mut number = 0;
    until_taken(
        &reader,
        |cdr| cdr == ours,
        || {
            number += 1;
            impostor.send(&impostor.data(number, &payload));
        },
    );
}

#[test]
fn rubbish_is_dropped_and_what_is_sound_still_arrives() {
    let (a, b) = pair(41);
    let name = named("rubbish");
    let (from, to) = (a.topic(&name, &blob_type()).unwrap(), b.topic(&name, &blob_type()).unwrap());
    let (writer, reader) = matched(&from, &to, &best_effort(), &best_effort());
    let impostor = Impostor::of(41, &writer);
    let mut payload = vec![0, 1, 0, 0];
    payload.extend(blob(1, 100));
    let sound = impostor.data(1, &payload);
    // Each octet of the packet in turn is another one, then the packet ends early.
    for at in 0..sound.len() {
        for change in [0xff, 0x80, 0x01] {
            let mut packet = sound.clone();
            packet[at] ^= change;
            impostor.send(&packet);
        }
        impostor.send(&sound[..at]);
    }
    // A count of octets that were not sent, and encapsulations that there are not.
    for encapsulation in 0..64u8 {
        let mut payload = vec![encapsulation & 7, encapsulation >> 3, 0, 3, 1, 0, 0, 0];
        payload.extend(u32::MAX.to_le_bytes());
        impostor.send(&impostor.data(1, &payload));
    }
    wait_until("Cyclone complains", || dds::complaints().latest.contains("malformed"));
    let fresh = named("sound");
    let (from, to) = (a.topic(&fresh, &blob_type()).unwrap(), b.topic(&fresh, &blob_type()).unwrap());
    let (writer, after) = matched(&from, &to, &Qos::default(), &Qos::default());
    writer.write(&blob(77, 10)).unwrap();
    assert_eq!(taken(&after, 1), [blob(77, 10)]);
    while reader.take(64, |sample| assert!(sample.cdr.len() >= 8 && number_of(sample.cdr) < u32::MAX)).unwrap() > 0 {}
}
