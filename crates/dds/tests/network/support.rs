//! Two participants of one domain in one process, which nonetheless meet over the network.

use std::process::id;
use std::time::Duration;

use dds::{Options, Participant, Qos, Reader, Topic, Writer};
use giop::cdr;
use giop::typecode::{Kind, TypeCode};
use testing::wait_until;

pub(crate) use testing::PATIENCE;

/// The domain on the network in which a test takes part. Those of another run of the tests may be there, too: topics have
/// names of their own.
pub(crate) fn domain_of(test: u32) -> u32 {
    100 + (id() + test) % 100
}

/// Cyclone has what is in one domain of one process meet without the network: so each side has a domain of its own here,
/// which is the same one outside.
pub(crate) fn side(test: u32, side: u32, options: Options) -> Participant {
    side_called(test, side, options, "")
}

/// The same on this machine, with a name.
pub(crate) fn called(test: u32, side: u32, name: &str) -> Participant {
    side_called(test, side, Options::loopback(), name)
}

fn side_called(test: u32, side: u32, options: Options, name: &str) -> Participant {
    let domain = domain_of(test);
    let more = format!(
        "<CycloneDDS><Domain><Discovery><ExternalDomainId>{domain}</ExternalDomainId></Discovery></Domain></CycloneDDS>"
    );
    Participant::called(2 * test + side, &Options { more: Some(more), ..options }, name).unwrap()
}

pub(crate) fn pair(test: u32) -> (Participant, Participant) {
    (side(test, 0, Options::loopback()), side(test, 1, Options::loopback()))
}

/// A name that no other run of the tests has.
pub(crate) fn named(topic: &str) -> String {
    format!("{topic}_{}", id())
}

pub(crate) fn number_type() -> TypeCode {
    TypeCode::structure("IDL:test/Number:1.0", "Number", &[("number", TypeCode::primitive(Kind::ULong))])
}

pub(crate) fn blob_type() -> TypeCode {
    let octets = TypeCode::sequence(TypeCode::primitive(Kind::Octet));
    let members = [("number", TypeCode::primitive(Kind::ULong)), ("octets", octets)];
    TypeCode::structure("IDL:test/Blob:1.0", "Blob", &members)
}

/// A blob: its number, and that many octets besides.
pub(crate) fn blob(number: u32, size: usize) -> Vec<u8> {
    encoded(|w| {
        w.u32(number);
        w.u32(u32::try_from(size).unwrap());
        (0..size).for_each(|_| w.u8(7));
    })
}

pub(crate) fn encoded(write: impl FnOnce(&mut cdr::Writer<'_>)) -> Vec<u8> {
    let mut cdr = Vec::new();
    write(&mut cdr::Writer::new(&mut cdr, dds::encoding()));
    cdr
}

pub(crate) fn number_of(cdr: &[u8]) -> u32 {
    u32::from_ne_bytes(cdr[..4].try_into().unwrap())
}

/// A writer on one side and a reader on the other, which know each other.
pub(crate) fn matched(from: &Topic, to: &Topic, writer_qos: &Qos, reader_qos: &Qos) -> (Writer, Reader) {
    let writer = from.writer(writer_qos).unwrap();
    let reader = to.reader(reader_qos).unwrap();
    until_matched(&writer, &reader);
    (writer, reader)
}

pub(crate) fn until_matched(writer: &Writer, reader: &Reader) {
    wait_until("writer and reader to meet", || {
        writer.status().unwrap().readers > 0 && reader.status().unwrap().writers > 0
    });
}

/// Takes until there are that many values.
pub(crate) fn taken(reader: &Reader, count: usize) -> Vec<Vec<u8>> {
    let mut set = reader.topic().participant().wait_set().unwrap();
    set.attach(reader, 1).unwrap();
    let mut values = Vec::new();
    let mut tokens = Vec::new();
    wait_until(format_args!("{count} values"), || {
        set.wait(Some(Duration::from_millis(50)), &mut tokens).unwrap();
        while reader.take(64, |sample| values.push(sample.cdr.to_vec())).unwrap() > 0 {}
        values.len() >= count
    });
    values
}
