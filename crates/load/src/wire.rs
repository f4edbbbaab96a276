//! The exchange that all contenders carry: a structured event pushed two-way, and its reply.
//!
//! Messages are built once. For each event the request id and the stamp are overwritten in place, so that the generator adds two clock
//! readings and two system calls to a latency.

use std::convert::Infallible;

use giop::cdr::{CharSet, Endian, ReadError, Reader, Version};
use giop::connection::{Closed, Connection, Event};
use giop::framing::{Inbound, Message};
use giop::message::{
    Header, LocateStatus, Reply, ReplyHead, ReplyStatus, Request, RequestHead, Response, begin_reply, begin_request,
    locate_reply,
};
use giop::recode::skip_any;
use giop::typecode::Work;

use crate::{BenchError, Form};

/// Octets of the stamp at the beginning of every payload.
pub const STAMP_LEN: usize = 32;

/// Position of the request id in a GIOP 1.2 request or reply: first behind the header (CORBA 3.3 part 2, 9.4.2.1).
pub const REQUEST_ID: std::ops::Range<usize> = 12..16;

/// `TCKind` of a sequence and of an octet (CORBA 3.3 part 2, table 9.2).
const TK_SEQUENCE: u32 = 19;
const TK_OCTET: u32 = 10;

/// Default domain of an event's type.
pub const EVENT_DOMAIN: &str = "Bench";
/// Default name of an event's type.
pub const EVENT_TYPE: &str = "Small";

/// The operation by which structured events are pushed.
const PUSH: &[u8] = b"push_structured_event";

/// Maximum events in a pulled sequence.
const PULLED_MAX: i32 = 64;

impl Form {
    /// The operation by which events of this form are pushed.
    pub const fn push(self) -> &'static [u8] {
        match self {
            Self::Any => b"push",
            Self::Structured => PUSH,
            Self::Sequence => b"push_structured_events",
        }
    }

    /// The operation that waits for the next event.
    pub const fn pull(self) -> &'static [u8] {
        match self {
            Self::Any => b"pull",
            Self::Structured => b"pull_structured_event",
            Self::Sequence => b"pull_structured_events",
        }
    }
}

/// The stamp of an event, in its payload.
///
/// ```text
/// 0         8            16       24         28      32
/// | sent ns | due ns     | number | supplier | phase |
/// ```
/// All numbers are in the machine's byte order: they are in a `sequence<octet>`, which is never byte-swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time of sending, read from the monotonic clock right before the write.
    pub sent: u64,
    /// Scheduled time of sending.
    pub due: u64,
    /// Number among the supplier's events, from 0.
    pub number: u64,
    /// The supplier.
    pub supplier: u32,
    /// The event's phase.
    pub phase: Phase,
}

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Warm-up of caches and buffers: not recorded.
    WarmUp,
    /// The last event of the warm-up.
    WarmUpEnd,
    /// A recorded event.
    Measured,
    /// The last recorded event.
    MeasuredEnd,
}

impl Phase {
    const ALL: [Self; 4] = [Self::WarmUp, Self::WarmUpEnd, Self::Measured, Self::MeasuredEnd];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u32 == number)
    }
}

impl Stamp {
    /// The stamp's octets in a payload.
    pub fn to_bytes(self) -> [u8; STAMP_LEN] {
        let Self { sent, due, number, supplier, phase } = self;
        let mut bytes = [0; STAMP_LEN];
        let words = [sent.to_ne_bytes(), due.to_ne_bytes(), number.to_ne_bytes()];
        let halves = [supplier.to_ne_bytes(), (phase as u32).to_ne_bytes()];
        let fields = words.iter().flatten().chain(halves.iter().flatten());
        for (byte, &field) in bytes.iter_mut().zip(fields) {
            *byte = field;
        }
        bytes
    }

    /// Reads the stamp at the beginning of a payload.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (&sent, rest) = payload.split_first_chunk()?;
        let (&due, rest) = rest.split_first_chunk()?;
        let (&number, rest) = rest.split_first_chunk()?;
        let (&supplier, rest) = rest.split_first_chunk()?;
        let (&phase, _) = rest.split_first_chunk()?;
        Some(Self {
            sent: u64::from_ne_bytes(sent),
            due: u64::from_ne_bytes(due),
            number: u64::from_ne_bytes(number),
            supplier: u32::from_ne_bytes(supplier),
            phase: Phase::from_number(u32::from_ne_bytes(phase))?,
        })
    }
}

/// A push, sent again and again with changes.
///
/// The event is the one that the omniORB programs of `interop/` send: domain `Bench`, type `Small`, no event name, no
/// properties, and as its remainder an Any of `sequence<octet>`.
#[derive(Debug, Clone)]
pub struct PushMessage {
    bytes: Vec<u8>,
    /// Position of each event's payload.
    payloads: Vec<usize>,
}

/// Properties of a push.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// The form of the event or events.
    pub form: Form,
    /// The destination's object key.
    pub key: &'a [u8],
    /// The type of each event.
    pub event_type: &'a str,
    /// Octets of payload of each event.
    pub payload_bytes: usize,
    /// Service contexts.
    pub contexts: &'a [(u32, &'a [u8])],
    /// Whether a reply is expected.
    pub response: Response,
    /// Events of a sequence; other forms have one.
    pub events: u32,
}

impl<'a> Shape<'a> {
    /// One event of the usual type, two-way.
    pub const fn new(form: Form, key: &'a [u8], payload_bytes: usize) -> Self {
        let response = Response::Expected;
        Self { form, key, event_type: EVENT_TYPE, payload_bytes, contexts: &[], response, events: 1 }
    }
}

impl PushMessage {
    /// A push of `payload_bytes` octets to the object with this key, as a structured event.
    pub fn new(key: &[u8], payload_bytes: usize) -> Self {
        Self::of(Form::Structured, key, payload_bytes)
    }

    /// A push of `payload_bytes` octets to the object with this key; a sequence has one event.
    pub fn of(form: Form, key: &[u8], payload_bytes: usize) -> Self {
        Self::build(&Shape::new(form, key, payload_bytes))
    }

    /// A push of a structured event of another type in the same domain, with these service contexts.
    pub fn of_type(key: &[u8], event_type: &str, payload_bytes: usize, contexts: &[(u32, &[u8])]) -> Self {
        Self::build(&Shape { event_type, contexts, ..Shape::new(Form::Structured, key, payload_bytes) })
    }

    /// Builds a push of that shape.
    pub fn build(shape: &Shape<'_>) -> Self {
        let Shape { form, key, event_type, payload_bytes, contexts, response, events } = *shape;
        let mut bytes = Vec::new();
        let head = RequestHead {
            version: Version::V1_2,
            endian: Endian::NATIVE,
            request_id: 0,
            response,
            key,
            operation: form.push(),
            contexts,
            body_phase: None,
        };
        // Not all zero, so that a contender that fills or skips octets would be found out.
        let payload: Vec<u8> = (0..=u8::MAX).cycle().take(payload_bytes.max(STAMP_LEN)).collect();
        let open = begin_request(&mut bytes, &head);
        let events = if form == Form::Sequence { events } else { 1 };
        if form == Form::Sequence {
            open.body(&mut bytes, CharSet::Latin1).u32(events);
        }
        let mut payloads = Vec::new();
        for _ in 0..events {
            let mut body = open.body(&mut bytes, CharSet::Latin1);
            if form != Form::Any {
                body.string(EVENT_DOMAIN);
                body.string(event_type);
                body.string("");
                body.u32(0); // no property in the variable header
                body.u32(0); // none in the filterable data
            }
            body.u32(TK_SEQUENCE);
            body.encapsulation(|type_code| {
                type_code.u32(TK_OCTET);
                type_code.u32(0); // unbounded
            });
            body.octets(&payload);
            payloads.push(bytes.len() - payload.len());
        }
        open.finish(&mut bytes);
        Self { bytes, payloads }
    }

    /// The message, for one write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Position of each event's payload.
    pub fn payloads(&self) -> &[usize] {
        &self.payloads
    }

    /// Turns this into the message of another event.
    pub fn stamp(&mut self, request_id: u32, stamp: Stamp) {
        self.fill(request_id, &stamp.to_bytes());
    }

    /// Turns this into the message of another event by overwriting the beginning of the first payload.
    pub fn fill(&mut self, request_id: u32, payload: &[u8]) {
        if let Some(field) = self.bytes.get_mut(REQUEST_ID) {
            field.copy_from_slice(&request_id.to_ne_bytes());
        }
        self.fill_payload(0, payload);
    }

    /// Overwrites the beginning of the payload of the event with this index.
    pub fn fill_payload(&mut self, index: usize, payload: &[u8]) {
        let octets = self.payloads.get(index).and_then(|&payload| self.bytes.get_mut(payload..));
        if let Some(octets) = octets {
            for (octet, &new) in octets.iter_mut().zip(payload) {
                *octet = new;
            }
        }
    }
}

/// Octets of the shortest property: an empty name, an Any of type null.
const PROPERTY_BYTES_MIN: usize = 8;

/// Reads an event's payload from its properties on; `None` for an event that is not from this generator.
fn read_octets<'a>(body: &mut Reader<'a>) -> Result<Option<&'a [u8]>, ReadError> {
    // What the service says in the header, as where the consumer begins in its channel's past.
    for _ in 0..body.seq_len(PROPERTY_BYTES_MIN)? {
        body.string()?;
        skip_any(body, &mut Work::default())?;
    }
    if body.u32()? != 0 {
        body.take(body.remaining())?;
        return Ok(None);
    }
    read_octets_of_any(body)
}

fn read_octets_of_any<'a>(body: &mut Reader<'a>) -> Result<Option<&'a [u8]>, ReadError> {
    if body.u32()? != TK_SEQUENCE {
        body.take(body.remaining())?;
        return Ok(None);
    }
    body.octets()?;
    Ok(Some(body.octets()?))
}

/// Reads one event of that form and returns its payload; `None` for an event that is not from this generator.
pub fn read_event<'a>(body: &mut Reader<'a>, form: Form) -> Result<Option<&'a [u8]>, ReadError> {
    if form == Form::Any {
        return read_octets_of_any(body);
    }
    for _domain_type_and_event_name in 0..3 {
        body.string()?;
    }
    read_octets(body)
}

/// Reads all events of a push's arguments or a pull's result, without trailing octets, and passes on their payloads; foreign events are
/// left out.
fn read_events<'a>(mut body: Reader<'a>, form: Form, found: &mut impl FnMut(&'a [u8])) -> Result<(), ReadError> {
    let count = if form == Form::Sequence { body.u32()? } else { 1 };
    for _ in 0..count {
        read_event(&mut body, form)?.into_iter().for_each(&mut *found);
    }
    body.finish("events")
}

/// Reads a request as a consumer must: the head, each event's fields to the last one, no trailing octets. Passes on the payloads of its
/// events; other operations, such as `offer_change`, have none. Copies nothing.
pub fn read_push<'a>(
    message: &'a [u8],
    header: &Header,
    found: &mut impl FnMut(&'a [u8]),
) -> Result<Request<'a>, ReadError> {
    let request = Request::parse(message, header)?;
    let form = [Form::Structured, Form::Sequence, Form::Any].into_iter().find(|form| form.push() == request.operation);
    if let Some(form) = form {
        read_events(request.body(message, header, CharSet::Latin1), form, found)?;
    }
    Ok(request)
}

/// Writes a request that waits for the next event or events.
pub fn write_pull(buffer: &mut Vec<u8>, form: Form, key: &[u8], request_id: u32) {
    let head = RequestHead {
        version: Version::V1_2,
        endian: Endian::NATIVE,
        request_id,
        response: Response::Expected,
        key,
        operation: form.pull(),
        contexts: &[],
        body_phase: None,
    };
    let open = begin_request(buffer, &head);
    if form == Form::Sequence {
        open.body(buffer, CharSet::Latin1).i32(PULLED_MAX);
    }
    open.finish(buffer);
}

/// Reads the reply to a pull, and passes on its events; false if there is no reply yet.
pub fn next_pulled(
    contender: &str,
    connection: &mut Connection<()>,
    inbound: &mut Inbound,
    form: Form,
    found: &mut impl FnMut(Stamp),
) -> Result<bool, BenchError> {
    let Some((_, reply, message)) = next_reply(contender, connection, inbound)? else { return Ok(false) };
    let mut read = |payload| Stamp::read(payload).into_iter().for_each(&mut *found);
    read_events(reply.body(message.bytes, &message.header, CharSet::Latin1), form, &mut read)
        .map_err(|error| broken(contender, format!("answered a pull with what cannot be read: {error}")))?;
    Ok(true)
}

fn success(header: &Header, request_id: u32) -> ReplyHead<'static> {
    let Header { version, endian, .. } = *header;
    ReplyHead { version, endian, request_id, status: ReplyStatus::NoException, contexts: &[] }
}

/// Writes a successful reply without a result.
pub fn write_reply(buffer: &mut Vec<u8>, header: &Header, request_id: u32) {
    begin_reply(buffer, &success(header, request_id)).finish(buffer);
}

/// Writes the reply to a request without events: the usual results of `_is_a` and `_non_existent`, and no result to everything else.
pub fn write_answer(buffer: &mut Vec<u8>, header: &Header, request: &Request<'_>) {
    let open = begin_reply(buffer, &success(header, request.request_id));
    match request.operation {
        b"_is_a" => open.body(buffer, CharSet::Latin1).bool(true),
        b"_non_existent" | b"_not_existent" => open.body(buffer, CharSet::Latin1).bool(false),
        _ => {}
    }
    open.finish(buffer);
}

/// The next request of a contender on a consumer's connection, if complete; none behind a `CloseConnection`. A `LocateRequest`, by which a
/// contender checks whether GIOP is spoken here, is answered.
#[inline]
pub fn next_request<'a>(
    contender: &str,
    connection: &mut Connection<Infallible>,
    inbound: &'a mut Inbound,
    stream: &mut impl std::io::Write,
) -> Result<Option<Message<'a>>, BenchError> {
    match connection.poll(inbound) {
        Some(Event::Locate { message, request }) => {
            answer_locate(stream, &message.header, request.request_id)
                .map_err(BenchError::io("answering a contender"))?;
            Ok(None)
        }
        Some(Event::Request(message)) => Ok(Some(message)),
        None | Some(Event::Closed(Closed::Orderly)) => Ok(None),
        Some(other) => Err(broken(contender, format!("sent what no consumer expects: {other:?}"))),
    }
}

/// Answers a `LocateRequest`.
///
/// # Errors
/// The answer cannot be written.
pub fn answer_locate(stream: &mut impl std::io::Write, header: &Header, request_id: u32) -> std::io::Result<()> {
    let mut reply = Vec::new();
    locate_reply(&mut reply, header.version, header.endian, request_id, LocateStatus::UnknownObject);
    stream.write_all(&reply)
}

/// The next reply of a contender to a push or a pull, if complete, with what waits for it; it must be a success.
#[inline]
pub fn next_reply<'a, W: std::fmt::Debug>(
    contender: &str,
    connection: &mut Connection<W>,
    inbound: &'a mut Inbound,
) -> Result<Option<(W, Reply<'a>, Message<'a>)>, BenchError> {
    match connection.poll(inbound) {
        Some(Event::Reply { who, reply, message }) => {
            check_status(contender, &reply, message.bytes, &message.header)?;
            Ok(Some((who, reply, message)))
        }
        None | Some(Event::Closed(Closed::Orderly)) => Ok(None),
        Some(other) => Err(broken(contender, format!("sent what no request waits for: {other:?}"))),
    }
}

fn broken(contender: &str, reason: String) -> BenchError {
    BenchError::Protocol { contender: contender.to_owned(), reason }
}

/// Checks that a message is the successful reply to the push with this id.
pub fn check_reply(contender: &str, message: &[u8], header: &Header, request_id: u32) -> Result<(), BenchError> {
    let reply = Reply::parse(message, header)
        .map_err(|error| broken(contender, format!("sent a reply that cannot be read: {error}")))?;
    if reply.request_id != request_id {
        return Err(broken(contender, format!("answered request {} instead of {request_id}", reply.request_id)));
    }
    check_status(contender, &reply, message, header)
}

fn check_status(contender: &str, reply: &Reply<'_>, message: &[u8], header: &Header) -> Result<(), BenchError> {
    match reply.status {
        ReplyStatus::NoException => Ok(()),
        status => {
            let mut body = reply.body(message, header, CharSet::Latin1);
            let id = body.string().unwrap_or_default();
            Err(broken(contender, format!("refused an event: {status:?} {}", String::from_utf8_lossy(id))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::connection::Side;
    use giop::framing::Limits;

    const STAMP: Stamp = Stamp { sent: 1, due: 2, number: 3, supplier: 4, phase: Phase::Measured };

    #[test]
    fn reads_back_the_stamp_it_wrote() {
        for phase in Phase::ALL {
            let stamp = Stamp { sent: u64::MAX, due: 7, number: 1 << 40, supplier: 49, phase };
            assert_eq!(Stamp::read(&stamp.to_bytes()), Some(stamp));
        }
        assert_eq!(Stamp::read(&[0; STAMP_LEN - 1]), None);
    }

    #[test]
    fn a_consumer_finds_the_stamp_and_refuses_trailing_octets() {
        let mut message = PushMessage::new(b"key", 128);
        message.stamp(77, STAMP);
        let header = Header::parse(message.bytes()).unwrap();
        assert_eq!(header.message_len(), message.bytes().len());
        let mut found = Vec::new();
        let request = read_push(message.bytes(), &header, &mut |payload| found.push(Stamp::read(payload))).unwrap();
        assert_eq!((request.request_id, request.operation), (77, PUSH));
        assert_eq!(found, [Some(STAMP)]);
        let longer = [message.bytes(), &[0]].concat();
        assert!(read_push(&longer, &header, &mut |_| ()).is_err());
    }

    #[test]
    fn a_consumer_finds_the_stamp_in_every_form() {
        for form in [Form::Any, Form::Structured, Form::Sequence] {
            let mut message = PushMessage::of(form, b"key", 128);
            message.stamp(77, STAMP);
            let header = Header::parse(message.bytes()).unwrap();
            let mut found = Vec::new();
            let request = read_push(message.bytes(), &header, &mut |payload| found.push(Stamp::read(payload))).unwrap();
            assert_eq!((request.operation, found), (form.push(), vec![Some(STAMP)]));
        }
    }

    #[test]
    fn a_sequence_brings_every_payload_that_was_filled_in() {
        let mut message = PushMessage::build(&Shape { events: 5, ..Shape::new(Form::Sequence, b"key", 64) });
        message.fill(77, &[0; STAMP_LEN]);
        for index in 0..5_u8 {
            message.fill_payload(usize::from(index), &[index; STAMP_LEN]);
        }
        let header = Header::parse(message.bytes()).unwrap();
        let mut found = Vec::new();
        let request = read_push(message.bytes(), &header, &mut |payload| {
            assert_eq!(payload.len(), 64);
            assert!(payload[..STAMP_LEN].iter().all(|octet| *octet == payload[0]));
            found.push(payload[0]);
        })
        .unwrap();
        assert_eq!((request.request_id, found), (77, vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn a_pull_brings_the_events_of_its_reply() {
        for form in [Form::Any, Form::Structured, Form::Sequence] {
            let mut request = Vec::new();
            write_pull(&mut request, form, b"key", 5);
            let header = Header::parse(&request).unwrap();
            assert_eq!(Request::parse(&request, &header).unwrap().operation, form.pull());
            let mut push = PushMessage::of(form, b"key", 64);
            push.stamp(5, STAMP);
            // A reply whose body is that of the push; both bodies begin at a multiple of 8.
            let header = Header::parse(push.bytes()).unwrap();
            let pushed = Request::parse(push.bytes(), &header).unwrap().body(push.bytes(), &header, CharSet::Latin1);
            let mut reply = Vec::new();
            let open = begin_reply(&mut reply, &success(&header, 5));
            let mut body = open.body(&mut reply, CharSet::Latin1);
            body.align(8);
            body.raw(pushed.rest());
            open.finish(&mut reply);
            let mut inbound = Inbound::new(Limits::default());
            inbound.space()[..reply.len()].copy_from_slice(&reply);
            inbound.filled(reply.len());
            let mut connection = Connection::new(Side::Caller).with_next_id(5);
            connection.sent(Some(()));
            let mut found = Vec::new();
            let mut next = || next_pulled("test", &mut connection, &mut inbound, form, &mut |stamp| found.push(stamp));
            assert_eq!((next().unwrap(), next().unwrap()), (true, false));
            assert_eq!(found, [STAMP]);
        }
    }

    #[test]
    fn a_reply_is_24_octets_and_answers_its_request_only() {
        let message = PushMessage::new(b"key", 128);
        let header = Header::parse(message.bytes()).unwrap();
        let mut reply = Vec::new();
        write_reply(&mut reply, &header, 77);
        assert_eq!(reply.len(), 24);
        let header = Header::parse(&reply).unwrap();
        assert!(check_reply("test", &reply, &header, 77).is_ok());
        assert!(check_reply("test", &reply, &header, 78).is_err());
    }
}
