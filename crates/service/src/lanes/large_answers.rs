//! Requests of administration whose answers may be large, and what clients leave unread of them.
//!
//! A request of a hundred octets can ask for megabytes. So a connection has one such request with administration at a time,
//! and a lane a few; further ones are held back, and their connections are not read, until an answer has come and, where the
//! answers that clients have yet to read take more than `limits.unread_reply_bytes_max`, until somebody has read. Whoever
//! reads nothing for long while others wait for that is let go.

use std::collections::VecDeque;

use engine::Time;
use giop::framing::Message;
use giop::message::{Header, Request, Response};

use super::incoming::{Caller, Incoming};
use super::slots::Token;
use super::worker::{Core, Worker};
use crate::counters::Counter;

/// Such requests that a lane has with administration at once.
const OUT_MAX: u32 = 8;

/// How the operations begin whose answers are small whatever was asked before: nothing, an object, a number, a few octets. An
/// operation that is missing here costs only that a connection does not have several under way.
const SMALL: [&[u8]; 25] = [
    b"connect_",
    b"disconnect_",
    b"obtain_notification_pu",
    b"obtain_pu",
    b"push",
    b"pull",
    b"try_pull",
    b"suspend_connection",
    b"resume_connection",
    b"subscription_change",
    b"offer_change",
    b"destroy",
    b"for_",
    b"new_for_",
    b"get_proxy_",
    b"get_filter",
    b"get_event_channel",
    b"add_filter",
    b"remove_",
    b"match",
    b"_get_My",
    b"_get_default_consumer_admin",
    b"_get_default_supplier_admin",
    b"_is_a",
    b"_no",
];

/// Whether the answer to a request of administration may be large.
pub(super) fn may_be_large(request: &Request<'_>) -> bool {
    let operation = request.operation;
    let is_small = SMALL.iter().any(|beginning| operation.starts_with(beginning)) && !operation.ends_with(b"_with_qos");
    request.response != Response::None && !is_small
}

/// What a lane's clients have asked for and not read, of what may be large.
#[derive(Debug)]
pub(crate) struct LargeAnswers {
    /// Requests that administration has.
    out: u32,
    /// Octets of answers that sockets have not taken.
    unread: usize,
    unread_max: usize,
    /// Connections of which a request is held back until there is room.
    waiting: VecDeque<Token>,
}

/// What one connection has of it.
#[derive(Debug, Default)]
pub(crate) struct LargeOwed {
    is_out: bool,
    held_back: Option<Vec<u8>>,
    unread: usize,
    /// When it last took some of what it has unread.
    read_at: Time,
}

impl LargeOwed {
    /// Whether a request of the connection is held back.
    pub(super) const fn is_held_back(&self) -> bool {
        self.held_back.is_some()
    }

    /// Whether it has left answers unread for as long as that.
    pub(super) fn is_idle_since(&self, time: Time) -> bool {
        self.unread > 0 && self.read_at <= time
    }
}

impl LargeAnswers {
    pub(crate) const fn new(unread_max: usize) -> Self {
        Self { out: 0, unread: 0, unread_max, waiting: VecDeque::new() }
    }

    /// Whether requests are held back because of what others have unread.
    pub(super) fn is_short(&self) -> bool {
        !self.waiting.is_empty() && self.unread > self.unread_max
    }

    fn has_room(&self) -> bool {
        self.out < OUT_MAX && self.unread <= self.unread_max
    }

    /// Whether a connection may have such a request with administration now.
    fn may_begin(&self, of: &LargeOwed) -> bool {
        !of.is_out && self.has_room()
    }

    fn begin(&mut self, of: &mut LargeOwed) {
        of.is_out = true;
        self.out += 1;
    }

    /// Keeps a request until it may be passed on.
    fn hold_back(&mut self, connection: Token, of: &mut LargeOwed, bytes: Vec<u8>) {
        // One that waits for an answer of its own is seen to when that comes.
        if !of.is_out {
            self.waiting.push_back(connection);
        }
        of.held_back = Some(bytes);
    }

    /// An answer has come from administration, of so many octets.
    fn answered(&mut self, connection: Token, of: Option<&mut LargeOwed>, octets: usize, now: Time) {
        self.out = self.out.saturating_sub(1);
        let Some(of) = of else { return };
        of.is_out = false;
        if of.unread == 0 {
            of.read_at = now;
        }
        of.unread += octets;
        self.unread += octets;
        if of.is_held_back() {
            self.waiting.push_back(connection);
        }
    }

    /// So many octets of a connection's answers, of whatever size, are still to be taken.
    #[inline]
    pub(super) fn note_queued(&mut self, of: &mut LargeOwed, queued: usize, now: Time) {
        if of.unread > queued {
            self.unread -= of.unread - queued;
            of.unread = queued;
            of.read_at = now;
        }
    }

    /// A connection ends, or leaves the lane with what it has unread.
    pub(super) fn release(&mut self, of: &mut LargeOwed) {
        self.unread -= core::mem::take(&mut of.unread);
    }

    fn next(&mut self) -> Option<Token> {
        if self.has_room() { self.waiting.pop_front() } else { None }
    }
}

impl Core {
    /// Notes that a request whose answer may be large is passed on, or holds it back. False if it is held back.
    pub(super) fn admit_large(&mut self, connection: Token, message: &Message<'_>, caller: &mut Caller) -> bool {
        if self.large_answers.may_begin(&caller.large) {
            return true;
        }
        self.counters.add(Counter::LargeAnswersHeldBack, 1);
        self.large_answers.hold_back(connection, &mut caller.large, message.bytes.to_vec());
        false
    }

    /// It was passed on.
    pub(super) fn note_large(&mut self, caller: &mut Caller) {
        self.large_answers.begin(&mut caller.large);
    }
}

impl Worker {
    /// Administration has answered such a request.
    pub(super) fn note_large_answer(&mut self, connection: Token, octets: usize) {
        let Self { incoming, core, .. } = self;
        let of = incoming.get_mut(connection).map(|entry| &mut entry.caller.large);
        core.large_answers.answered(connection, of, octets, core.now);
    }

    /// Passes on what was held back, as far as there is room.
    pub(super) fn serve_held_back(&mut self) {
        while let Some(connection) = self.core.large_answers.next() {
            let Some(Incoming { caller, .. }) = self.incoming.get_mut(connection) else { continue };
            let Some(bytes) = caller.large.held_back.take() else { continue };
            if let Ok(header) = Header::parse(&bytes) {
                let message = Message { header, bytes: &bytes };
                if let Err(why) = self.core.handle_message(connection, message, caller) {
                    self.reject(connection, &why);
                    continue;
                }
            }
            self.resume(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::{Endian, Version};
    use giop::message::{self, RequestHead};

    const ONE: Token = Token::from_bits(1);
    const TWO: Token = Token::from_bits(2);
    const MIB: usize = 1 << 20;

    fn is_large(operation: &str, response: Response) -> bool {
        let mut bytes = Vec::new();
        let head = RequestHead {
            version: Version::V1_2,
            endian: Endian::Little,
            request_id: 1,
            response,
            key: b"x",
            operation: operation.as_bytes(),
            contexts: &[],
            body_phase: None,
        };
        message::begin_request(&mut bytes, &head).finish(&mut bytes);
        let header = Header::parse(&bytes).unwrap();
        may_be_large(&Request::parse(&bytes, &header).unwrap())
    }

    #[test]
    fn what_lists_or_describes_may_be_large_and_what_makes_connects_and_ends_is_not() {
        for operation in [
            "get_consumers",
            "get_all_channels",
            "list",
            "next_n",
            "resolve",
            "get_all_constraints",
            "get_qos",
            "_get_push_suppliers",
            "obtain_offered_types",
            "obtain_notification_push_supplier_with_qos",
            "unheard_of",
        ] {
            assert!(is_large(operation, Response::Expected), "{operation}");
            assert!(!is_large(operation, Response::None), "nobody is sent that");
        }
        for operation in [
            "connect_structured_push_consumer",
            "obtain_notification_push_supplier",
            "_is_a",
            "_non_existent",
            "push",
            "try_pull_structured_event",
            "disconnect_push_supplier",
            "subscription_change",
            "destroy",
        ] {
            assert!(!is_large(operation, Response::Expected), "{operation}");
        }
    }

    #[test]
    fn a_connection_has_one_such_request_out_and_the_next_when_it_is_answered() {
        let mut answers = LargeAnswers::new(16 * MIB);
        let mut of = LargeOwed::default();
        assert!(answers.may_begin(&of));
        answers.begin(&mut of);
        assert!(!answers.may_begin(&of));
        answers.hold_back(ONE, &mut of, vec![1]);
        assert_eq!(answers.next(), None);
        answers.answered(ONE, Some(&mut of), MIB, Time(1));
        assert_eq!((answers.next(), answers.unread), (Some(ONE), MIB));
    }

    #[test]
    fn what_is_unread_in_all_holds_others_back_until_somebody_reads_or_goes() {
        let mut answers = LargeAnswers::new(16 * MIB);
        let (mut one, mut two) = (LargeOwed::default(), LargeOwed::default());
        answers.begin(&mut one);
        answers.answered(ONE, Some(&mut one), 20 * MIB, Time(5));
        assert!(!answers.may_begin(&two));
        answers.hold_back(TWO, &mut two, vec![2]);
        assert!(answers.is_short() && answers.next().is_none());
        assert!(one.is_idle_since(Time(5)) && !two.is_idle_since(Time(5)));
        answers.note_queued(&mut one, 15 * MIB, Time(9));
        assert!(!one.is_idle_since(Time(8)));
        assert_eq!(answers.next(), Some(TWO));
        answers.release(&mut one);
        assert_eq!(answers.unread, 0);
    }

    #[test]
    fn a_lane_asks_for_a_few_at_once_and_those_whose_client_is_gone_count_until_they_come() {
        let mut answers = LargeAnswers::new(MIB);
        (0..OUT_MAX).for_each(|_| answers.begin(&mut LargeOwed::default()));
        assert!(!answers.may_begin(&LargeOwed::default()));
        answers.answered(ONE, None, MIB, Time(0));
        assert!(answers.may_begin(&LargeOwed::default()));
        assert_eq!(answers.unread, 0);
    }
}
