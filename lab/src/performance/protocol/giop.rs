//! GIOP 1.2, as suppliers and consumers of a notification or event service speak it.
//!
//! Each message is compared with the one before it: as long as the octets around the payload are the same but for the request
//! id, nothing has to be understood again. The first of its kind, and any other, is parsed by the same checked reader as
//! everywhere.

use std::collections::HashMap;

use giop::cdr::{CharSet, Version};
use giop::framing::{Inbound, Limits};
use giop::message::{HEADER_LEN, Header, LocateRequest, LocateStatus, MessageKind, Request, Response, locate_reply};

use super::{Acknowledged, Prepared, Publishing, Settings, Subscribing, broken};
use crate::hop::message_length;
use crate::wire::{self, PushMessage, REQUEST_ID, Shape, Stamp};
use crate::{BenchError, Form};

/// Where the flags, the kind and the size of a message stand in its header (CORBA 3.3 part 2, 9.4.1).
const FLAGS: usize = 6;
const KIND: usize = 7;
const SIZE: std::ops::Range<usize> = 8..12;

/// Where the status stands in a reply of GIOP 1.2, behind the request id.
const STATUS: std::ops::Range<usize> = 16..20;

/// In the flags: more follows in fragments.
const FRAGMENTED: u8 = 2;

/// A supplier.
pub(super) struct GiopPublishing {
    pub(super) form: Form,
    /// Events of a message.
    pub(super) events: u32,
}

impl Publishing for GiopPublishing {
    fn message(&self, settings: &Settings<'_>) -> Prepared {
        let Settings { target, payload_bytes, acknowledged } = *settings;
        let response = if acknowledged { Response::Expected } else { Response::None };
        let shape = Shape { response, events: self.events, ..Shape::new(self.form, target, payload_bytes) };
        let message = PushMessage::build(&shape);
        let (bytes, payloads) = (message.bytes().to_vec(), message.payloads().to_vec());
        Prepared { bytes, payloads, is_text: false, id: Some(REQUEST_ID.start) }
    }

    fn acknowledged(&mut self, bytes: &[u8], _answers: &mut Vec<u8>) -> Result<Acknowledged, BenchError> {
        let mut found = Acknowledged::default();
        while let Some(message) = whole(bytes.get(found.consumed..).unwrap_or_default())? {
            let header = message.get(..HEADER_LEN).unwrap_or_default();
            let is_reply = header.starts_with(b"GIOP\x01\x02") && header.get(KIND) == Some(&1);
            if !(is_reply && message.get(STATUS) == Some(&[0; 4])) {
                return Err(refused(message));
            }
            found.consumed += message.len();
            found.messages += 1;
        }
        Ok(found)
    }
}

/// What a supplier got instead of a reply without exception.
fn refused(message: &[u8]) -> BenchError {
    let Ok(header) = Header::parse(message) else { return broken("sent what is not GIOP") };
    if header.kind != MessageKind::Reply {
        return broken(format!("sent a {} where a reply was due", header.kind));
    }
    let request_id = giop::message::Reply::parse(message, &header).map_or(0, |reply| reply.request_id);
    match wire::check_reply("a contender", message, &header, request_id) {
        Err(error) => error,
        Ok(()) => broken(format!("answered in GIOP {:?}, where 1.2 is spoken", header.version)),
    }
}

fn whole(bytes: &[u8]) -> Result<Option<&[u8]>, BenchError> {
    Ok(message_length(bytes)?.and_then(|length| bytes.get(..length)))
}

/// Consumers that share a connection.
pub(super) struct GiopSubscribing {
    form: Form,
    /// Which consumer goes by a key.
    by_key: HashMap<Vec<u8>, usize>,
    /// What the last message to each consumer was like.
    heads: Vec<Option<Head>>,
    /// The consumer of the next message as expected: a server goes through its consumers in some order, and the next time in the same.
    next: usize,
    /// The consumer of the last message.
    last: usize,
    /// The consumer that came behind each one the last time.
    behind: Vec<usize>,
    event: Option<Event>,
    /// Puts fragments together, once there has been one.
    assembling: Option<Inbound>,
}

/// What is the same in all requests to a consumer.
struct Head {
    /// The message up to where its body begins.
    bytes: Vec<u8>,
    /// The reply, if one is wanted.
    reply: Option<Vec<u8>>,
}

struct Event {
    /// From where it begins, at a multiple of 4, to its payload.
    bytes: Vec<u8>,
    payload: usize,
}

impl GiopSubscribing {
    /// Consumers that go by these keys.
    pub(super) fn new(form: Form, targets: &[Vec<u8>]) -> Self {
        Self {
            form,
            by_key: targets.iter().cloned().zip(0..).collect(),
            heads: targets.iter().map(|_| None).collect(),
            next: 0,
            last: 0,
            behind: (1..targets.len()).chain([0]).collect(),
            event: None,
            assembling: None,
        }
    }

    /// Takes one whole message.
    fn message(
        &mut self,
        message: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<(), BenchError> {
        let expected = self.heads.get(self.next).and_then(Option::as_ref);
        if !expected.is_some_and(|head| head.begins(message)) {
            let Some(consumer) = self.learn(message, answers)? else { return Ok(()) };
            // Not expected there, but the next time it is.
            if let Some(behind) = self.behind.get_mut(self.last) {
                *behind = consumer;
            }
            self.next = consumer;
        }
        let consumer = self.next;
        self.last = consumer;
        let Some(Some(head)) = self.heads.get(consumer) else { return Ok(()) };
        if let Some(reply) = &head.reply {
            let at = answers.len();
            answers.extend_from_slice(reply);
            let id = answers.get_mut(at..).and_then(|reply| reply.get_mut(REQUEST_ID));
            if let (Some(id), Some(asked)) = (id, message.get(REQUEST_ID)) {
                id.copy_from_slice(asked);
            }
        }
        let body = head.bytes.len();
        self.next = self.behind.get(consumer).copied().unwrap_or(0);
        self.events(message, body, &mut |stamp| found(consumer, stamp))
    }

    /// Parses a request: which consumer it is for, when it brings events. Others are answered here.
    fn learn(&mut self, message: &[u8], answers: &mut Vec<u8>) -> Result<Option<usize>, BenchError> {
        let unreadable = |error| broken(format!("sent a request that cannot be read: {error}"));
        let header = Header::parse(message).map_err(|error| broken(error.to_string()))?;
        let request = Request::parse(message, &header).map_err(unreadable)?;
        let mut reply = Vec::new();
        if request.operation != self.form.push() {
            wire::write_answer(&mut reply, &header, &request);
            if request.response != Response::None {
                answers.extend_from_slice(&reply);
            }
            return Ok(None);
        }
        if header.version != Version::V1_2 {
            return Err(broken("pushes in another version than GIOP 1.2"));
        }
        let key = request.target.key().unwrap_or_default();
        let Some(&consumer) = self.by_key.get(key) else { return Err(broken("pushed to a key that nobody has")) };
        wire::write_reply(&mut reply, &header, request.request_id);
        let bytes = message.get(..request.body_offset).unwrap_or(message).to_vec();
        let reply = (request.response != Response::None).then_some(reply);
        if let Some(head) = self.heads.get_mut(consumer) {
            *head = Some(Head { bytes, reply });
        }
        Ok(Some(consumer))
    }

    /// Hands out the events of a message; its body begins there.
    fn events(&mut self, message: &[u8], body: usize, found: &mut dyn FnMut(Stamp)) -> Result<(), BenchError> {
        let mut at = body;
        let mut count = 1;
        if self.form == Form::Sequence {
            let little = message.get(FLAGS).is_some_and(|flags| flags & 1 == 1);
            let octets = message.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
            count = if little { u32::from_le_bytes(octets) } else { u32::from_be_bytes(octets) };
            at += octets.len();
        }
        for _ in 0..count {
            at = at.next_multiple_of(4);
            let known = self
                .event
                .as_ref()
                .filter(|event| message.get(at..).is_some_and(|rest| rest.starts_with(&event.bytes)));
            let (payload, end) = match known {
                Some(event) => (at + event.bytes.len(), at + event.bytes.len() + event.payload),
                None => self.learn_event(message, at)?,
            };
            let stamp = message.get(payload..end).and_then(Stamp::read);
            found(stamp.ok_or_else(|| broken("delivered an event that was never sent"))?);
            at = end;
        }
        if at == message.len() { Ok(()) } else { Err(broken("delivered octets behind an event")) }
    }

    /// Parses the event that begins there; where its payload begins and ends.
    fn learn_event(&mut self, message: &[u8], at: usize) -> Result<(usize, usize), BenchError> {
        let unreadable = |error| broken(format!("sent an event that cannot be read: {error}"));
        let header = Header::parse(message).map_err(|error| broken(error.to_string()))?;
        let request = Request::parse(message, &header).map_err(unreadable)?;
        let mut body = request.body(message, &header, CharSet::Latin1);
        body.take(at.saturating_sub(request.body_offset)).map_err(unreadable)?;
        let payload = wire::read_event(&mut body, self.form).map_err(unreadable)?;
        let payload = payload.ok_or_else(|| broken("delivered an event that was never sent"))?.len();
        let end = message.len() - body.remaining();
        let bytes = message.get(at..end - payload).unwrap_or_default().to_vec();
        self.event = Some(Event { bytes, payload });
        Ok((end - payload, end))
    }

    /// Puts together what comes in fragments.
    fn assemble(
        &mut self,
        inbound: &mut Inbound,
        mut bytes: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<(), BenchError> {
        while !bytes.is_empty() {
            let space = inbound.space();
            let count = space.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            if let Some(space) = space.get_mut(..count) {
                space.copy_from_slice(now);
            }
            inbound.filled(count);
            bytes = later;
            while let Some(message) = inbound.poll_message().map_err(|error| broken(error.to_string()))? {
                self.kind(message.bytes, answers, found)?;
            }
        }
        Ok(())
    }

    /// Takes one whole message of any kind.
    fn kind(
        &mut self,
        message: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<(), BenchError> {
        if message.get(KIND) == Some(&MessageKind::Request.number()) {
            return self.message(message, answers, found);
        }
        let header = Header::parse(message).map_err(|error| broken(error.to_string()))?;
        match header.kind {
            MessageKind::LocateRequest => {
                let request = LocateRequest::parse(message, &header).map_err(|error| broken(error.to_string()))?;
                let Header { version, endian, .. } = header;
                locate_reply(answers, version, endian, request.request_id, LocateStatus::ObjectHere);
                Ok(())
            }
            // Its end follows.
            MessageKind::CloseConnection => Ok(()),
            kind => Err(broken(format!("sent a {kind} to a consumer"))),
        }
    }
}

impl Head {
    /// Whether a message is the same up to its body, but for its length and the request id.
    fn begins(&self, message: &[u8]) -> bool {
        let same = |range: std::ops::Range<usize>| message.get(range.clone()) == self.bytes.get(range);
        same(0..SIZE.start) && same(REQUEST_ID.end..self.bytes.len())
    }
}

impl Subscribing for GiopSubscribing {
    fn take(
        &mut self,
        bytes: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<usize, BenchError> {
        let mut consumed = 0;
        while self.assembling.is_none() {
            let Some(message) = whole(bytes.get(consumed..).unwrap_or_default())? else { return Ok(consumed) };
            if message.get(FLAGS).is_some_and(|flags| flags & FRAGMENTED != 0) {
                self.assembling = Some(Inbound::new(Limits::default()));
                break;
            }
            self.kind(message, answers, found)?;
            consumed += message.len();
        }
        if let Some(mut inbound) = self.assembling.take() {
            self.assemble(&mut inbound, bytes.get(consumed..).unwrap_or_default(), answers, found)?;
            self.assembling = Some(inbound);
        }
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&[u8]; 3] = [b"consumer-00000", b"consumer-00001", b"consumer-00002"];

    fn stamp(number: u64) -> Stamp {
        Stamp { sent: 1, due: 2, number, supplier: 7, phase: wire::Phase::Measured }
    }

    /// A push of events numbered from there on to that consumer.
    fn push(form: Form, events: u32, consumer: usize, number: u64, response: Response) -> Vec<u8> {
        let shape = Shape { events, response, ..Shape::new(form, KEYS[consumer], 64) };
        let message = PushMessage::build(&shape);
        let mut bytes = message.bytes().to_vec();
        bytes[REQUEST_ID].copy_from_slice(&u32::try_from(number).unwrap().to_ne_bytes());
        for (number, &payload) in (number..).zip(message.payloads()) {
            bytes[payload..payload + wire::STAMP_LEN].copy_from_slice(&stamp(number).to_bytes());
        }
        bytes
    }

    fn consumers(form: Form) -> GiopSubscribing {
        GiopSubscribing::new(form, &KEYS.map(<[u8]>::to_vec))
    }

    /// Feeds octets in pieces of that size; which consumer got which event, and the answers.
    fn feed(subscribing: &mut GiopSubscribing, bytes: &[u8], piece: usize) -> (Vec<(usize, u64)>, Vec<u8>) {
        let (mut found, mut answers, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            unread.extend_from_slice(piece);
            let taken = subscribing.take(&unread, &mut answers, &mut |consumer, stamp| {
                assert_eq!((stamp.due, stamp.supplier), (2, 7));
                found.push((consumer, stamp.number));
            });
            unread.drain(..taken.unwrap());
        }
        assert!(unread.is_empty());
        (found, answers)
    }

    #[test]
    fn tells_consumers_apart_and_answers_them_whatever_the_order_and_the_cuts() {
        for form in [Form::Any, Form::Structured, Form::Sequence] {
            let order = [0, 1, 2, 0, 1, 2, 2, 1, 0, 2, 1, 0, 0];
            let messages: Vec<Vec<u8>> = (0..)
                .zip(order)
                .map(|(number, consumer)| push(form, 1, consumer, number, Response::Expected))
                .collect();
            for piece in [1, 7, 100, 100_000] {
                let (found, answers) = feed(&mut consumers(form), &messages.concat(), piece);
                assert_eq!(found, order.into_iter().zip(0..).collect::<Vec<_>>(), "pieces of {piece}");
                let mut publishing = GiopPublishing { form, events: 1 };
                let acknowledged = publishing.acknowledged(&answers, &mut Vec::new()).unwrap();
                let whole = Acknowledged { consumed: answers.len(), messages: 13 };
                assert_eq!(acknowledged, whole);
                let ids = answers.chunks(24).map(|reply| u32::from_ne_bytes(reply[REQUEST_ID].try_into().unwrap()));
                assert!(ids.eq(0..13));
            }
        }
    }

    #[test]
    fn takes_sequences_of_any_length_and_answers_none_that_is_one_way() {
        let bytes: Vec<u8> = [(1, 0), (3, 1), (64, 4), (3, 68)]
            .into_iter()
            .flat_map(|(events, number)| push(Form::Sequence, events, 0, number, Response::None))
            .collect();
        for piece in [13, 100_000] {
            let (found, answers) = feed(&mut consumers(Form::Sequence), &bytes, piece);
            assert!(found.into_iter().eq((0..71).map(|number| (0, number))) && answers.is_empty());
        }
    }

    #[test]
    fn puts_fragments_together() {
        let whole = push(Form::Structured, 1, 1, 5, Response::Expected);
        let mut first = whole[..60].to_vec();
        first[FLAGS] |= FRAGMENTED;
        first[SIZE].copy_from_slice(&48_u32.to_ne_bytes());
        let mut last = b"GIOP\x01\x02".to_vec();
        last.extend([whole[FLAGS], MessageKind::Fragment.number()]);
        last.extend(u32::try_from(whole.len() - 60 + 4).unwrap().to_ne_bytes());
        last.extend(&whole[REQUEST_ID]);
        last.extend(&whole[60..]);
        let bytes = [whole.clone(), first, last, whole].concat();
        for piece in [1, 100_000] {
            let (found, answers) = feed(&mut consumers(Form::Structured), &bytes, piece);
            assert_eq!((found, answers.len()), (vec![(1, 5); 3], 3 * 24));
        }
    }

    #[test]
    fn refuses_what_is_not_expected() {
        let mut strange = push(Form::Structured, 1, 0, 1, Response::Expected);
        strange.extend([0; 8]);
        let size = u32::try_from(strange.len() - HEADER_LEN).unwrap();
        strange[SIZE].copy_from_slice(&size.to_ne_bytes());
        for bytes in [b"HTTP/1.1 200 OK".to_vec(), strange] {
            assert!(consumers(Form::Structured).take(&bytes, &mut Vec::new(), &mut |_, _| ()).is_err());
        }
        let mut publishing = GiopPublishing { form: Form::Structured, events: 1 };
        assert!(publishing.acknowledged(b"HTTP/1.1 200 OK", &mut Vec::new()).is_err());
    }

    #[test]
    fn answers_what_other_orbs_ask_before_they_push() {
        let mut bytes = Vec::new();
        giop::message::locate_request(&mut bytes, Version::V1_2, giop::cdr::Endian::NATIVE, 9, KEYS[0]);
        let mut answers = Vec::new();
        consumers(Form::Any).take(&bytes, &mut answers, &mut |_, _| ()).unwrap();
        let header = Header::parse(&answers).unwrap();
        let reply = giop::message::LocateReply::parse(&answers, &header).unwrap();
        assert_eq!((reply.request_id, reply.status), (9, LocateStatus::ObjectHere));
    }
}
