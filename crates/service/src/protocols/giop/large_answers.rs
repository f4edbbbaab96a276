//! Requests of administration with possibly large answers, and answers that clients leave unread.
//!
//! A request of a hundred octets can cause an answer of megabytes. So a connection has one such request with administration at a time, and
//! a lane a few, but each address always one. Further ones are deferred, and their connections are not read, until an answer has come. If
//! unread answers take all of `limits.unread_reply_bytes_max` or the client's quota, requests are deferred until a client has read. A
//! client that reads nothing for long while others wait for that is disconnected.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;

use engine::Time;
use giop::framing::Message;
use giop::message::{Header, Request, Response};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::lane::io::unread::Unread;
use crate::lane::run::Core;
use crate::protocols::giop::callers::{Caller, Clients, Incoming};
use accounts::{Account, Resource, Spent};

/// Maximum requests of a lane with administration at once, beside one of each address that has no other there.
const OUT_MAX: usize = 8;

/// Prefixes of operations with small answers: nothing, an object, a number, a few octets. If an operation is missing here, a connection
/// only cannot have several of them under way.
const SMALL: [&[u8]; 26] = [
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
    // The answer is about as long as the request, within a small factor; and it takes long, so that others would wait for its place.
    b"analyse",
    b"_get_My",
    b"_get_default_consumer_admin",
    b"_get_default_supplier_admin",
    b"_is_a",
    b"_no",
];

/// Whether the answer to a request of administration may be large.
pub(crate) fn may_be_large(request: &Request<'_>) -> bool {
    let operation = request.operation;
    let is_small = SMALL.iter().any(|beginning| operation.starts_with(beginning)) && !operation.ends_with(b"_with_qos");
    request.response != Response::None && !is_small
}

/// Octets charged to a client for an answer that has yet to come.
const RESERVED: u64 = 64 << 10;

/// Requests with possibly large answers, of a lane's clients.
#[derive(Debug, Default)]
pub(crate) struct LargeAnswers {
    /// Connections with a request at administration, and their addresses.
    out: HashMap<Token, IpAddr>,
    /// Connections with a request that is deferred until there is room.
    waiting: VecDeque<Token>,
    /// Whether they wait for others to read.
    is_short: bool,
}

/// State of one connection.
#[derive(Debug, Default)]
pub(crate) struct LargeAnswerState {
    is_out: bool,
    deferred: Option<Vec<u8>>,
    /// Unread answers, of any size.
    pub(crate) unread: Unread,
}

impl LargeAnswerState {
    /// Whether a request of the connection is deferred.
    pub(crate) const fn has_deferred(&self) -> bool {
        self.deferred.is_some()
    }

    /// Releases the charges of a connection that ends.
    pub(crate) fn release(&mut self, account: &Account) {
        let reserved = if self.is_out { RESERVED } else { 0 };
        account.give(Resource::ReplyBytes, reserved);
        *self = Self::default();
    }
}

impl LargeAnswers {
    /// Whether requests are deferred because of unread answers.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short && !self.waiting.is_empty()
    }

    /// Whether any request is deferred.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Admits a connection's request to administration, or returns why not now.
    fn begin(&mut self, connection: Token, of: &mut LargeAnswerState, account: &Account) -> Result<(), Option<Spent>> {
        if of.is_out || !self.has_place(account.ip()) {
            return Err(None);
        }
        let taken = account.take(Resource::ReplyBytes, RESERVED);
        self.is_short = taken.is_err();
        taken.map_err(Some)?;
        of.is_out = true;
        self.out.insert(connection, account.ip());
        Ok(())
    }

    /// Whether a request of this address may go to administration.
    fn has_place(&self, address: IpAddr) -> bool {
        self.out.len() < OUT_MAX || !self.out.values().any(|other| *other == address)
    }

    /// Defers a request until it may be passed on.
    fn defer(&mut self, connection: Token, of: &mut LargeAnswerState, bytes: Vec<u8>) {
        // A connection that waits for an answer of its own is served when that comes.
        if !of.is_out {
            self.waiting.push_back(connection);
        }
        of.deferred = Some(bytes);
    }

    /// Notes an answer of so many octets from administration, or that administration had no room.
    fn answered(
        &mut self,
        connection: Token,
        of: Option<(&mut LargeAnswerState, &Arc<Account>)>,
        octets: usize,
        now: Time,
    ) {
        self.out.remove(&connection);
        let Some((of, account)) = of else { return };
        if core::mem::take(&mut of.is_out) {
            account.give(Resource::ReplyBytes, RESERVED);
        }
        if octets > 0 {
            of.unread.add(account, octets, now);
        }
        if of.has_deferred() {
            self.waiting.push_back(connection);
        }
    }

    /// Admits a request with a possibly large answer, or defers it. False if it is deferred.
    pub(crate) fn admit_large(
        &mut self,
        connection: Token,
        message: &Message<'_>,
        caller: &mut Caller,
        cx: &mut Context,
    ) -> bool {
        let (of, account) = caller.large();
        let Err(spent) = self.begin(connection, of, account) else { return true };
        if let Some(spent) = spent {
            cx.counters.add(Counter::of_refusal(spent), 1);
        }
        cx.counters.add(Counter::LargeAnswersDelayed, 1);
        self.defer(connection, of, message.bytes.to_vec());
        false
    }

    /// Withdraws a request that could not be passed on.
    pub(crate) fn withdraw_large(&mut self, connection: Token, caller: &mut Caller, cx: &mut Context) {
        self.answered(connection, Some(caller.large()), 0, cx.clock.now);
    }
}

impl Clients {
    /// Notes administration's answer to such a request.
    pub(crate) fn note_large_answer(&mut self, connection: Token, octets: usize, core: &mut Core) {
        let of = self.incoming.get_mut(connection).map(|entry| entry.caller.large());
        core.protocols.giop.large_answers.answered(connection, of, octets, core.cx.clock.now);
    }

    /// Passes on deferred requests, as far as there is room.
    pub(crate) fn serve_deferred_requests(&mut self, core: &mut Core) {
        let waiting = core.protocols.giop.large_answers.waiting.len();
        for _ in 0..waiting.min(Budget::CONNECTIONS.events as usize) {
            let answers = &mut core.protocols.giop.large_answers;
            let Some(connection) = answers.waiting.pop_front() else { return };
            let Some(Incoming { caller, .. }) = self.incoming.get_mut(connection) else { continue };
            if !answers.has_place(caller.account().ip()) {
                answers.waiting.push_back(connection);
                continue;
            }
            let Some(bytes) = caller.large().0.deferred.take() else { continue };
            if let Ok(header) = Header::parse(&bytes) {
                let message = Message { header, bytes: &bytes };
                if let Err(why) = core.handle_message(connection, message, caller) {
                    self.reject(connection, &why, core);
                    continue;
                }
            }
            self.resume(connection, core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::{Accounts, Ceilings};
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
            assert!(!is_large(operation, Response::None), "no client is sent that");
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
            "analyse",
            "destroy",
        ] {
            assert!(!is_large(operation, Response::Expected), "{operation}");
        }
    }

    /// Two clients at two addresses, of which each may have all but a quarter.
    fn accounts(limit: u64) -> [Arc<Account>; 2] {
        let accounts = Accounts::new(Ceilings::new(75).with(Resource::ReplyBytes, limit, 0));
        ["127.0.0.2", "127.0.0.3"].map(|ip| accounts.account_of(ip.parse().unwrap()))
    }

    #[test]
    fn a_connection_has_one_such_request_out_and_the_next_when_it_is_answered() {
        let [account, _] = accounts(u64::MAX);
        let mut answers = LargeAnswers::default();
        let mut of = LargeAnswerState::default();
        assert_eq!(answers.begin(ONE, &mut of, &account), Ok(()));
        assert_eq!(answers.begin(ONE, &mut of, &account), Err(None));
        answers.defer(ONE, &mut of, vec![1]);
        assert!(!answers.is_waiting());
        answers.answered(ONE, Some((&mut of, &account)), MIB, Time(1));
        assert_eq!((answers.waiting.pop_front(), account.used(Resource::ReplyBytes)), (Some(ONE), MIB as u64));
    }

    #[test]
    fn what_one_leaves_unread_is_its_quota_and_what_all_do_the_limit_until_a_client_reads_or_goes() {
        let [here, there] = accounts(16 << 20);
        let mut answers = LargeAnswers::default();
        let (mut one, mut two) = (LargeAnswerState::default(), LargeAnswerState::default());
        assert_eq!(answers.begin(ONE, &mut one, &here), Ok(()));
        answers.answered(ONE, Some((&mut one, &here)), 15 * MIB, Time(5));
        // It has more than its share, and another address has something yet.
        assert!(matches!(answers.begin(ONE, &mut one, &here), Err(Some(_))));
        assert!(answers.begin(TWO, &mut two, &there).is_ok());
        answers.answered(TWO, Some((&mut two, &there)), 2 * MIB, Time(6));
        assert!(matches!(answers.begin(TWO, &mut two, &there), Err(Some(_))));
        answers.defer(TWO, &mut two, vec![2]);
        assert!(answers.is_short());
        assert!(one.unread.is_idle_since(Time(5)) && !two.unread.is_idle_since(Time(5)));
        one.unread.note(&here, 4 * MIB, 11, Time(9)).unwrap();
        assert!(!one.unread.is_idle_since(Time(8)));
        assert_eq!(answers.begin(TWO, &mut two, &there), Ok(()));
        one.release(&here);
        two.release(&there);
        assert_eq!(here.accounts().used(Resource::ReplyBytes), 0);
    }

    /// One client with eight connections had all places of a lane: a request for the list of channels, beside 16 that ask for all
    /// consumers, waited for 30 ms in the median.
    #[test]
    fn a_lane_asks_for_a_few_at_once_and_for_one_of_each_address_whatever_others_have() {
        let [account, other] = accounts(u64::MAX);
        let mut answers = LargeAnswers::default();
        let connection = |number: usize| Token::from_bits(number as u64);
        (0..OUT_MAX)
            .for_each(|one| answers.begin(connection(one), &mut LargeAnswerState::default(), &account).unwrap());
        assert_eq!(answers.begin(connection(20), &mut LargeAnswerState::default(), &account), Err(None));
        assert_eq!(answers.begin(connection(21), &mut LargeAnswerState::default(), &other), Ok(()));
        assert_eq!(answers.begin(connection(22), &mut LargeAnswerState::default(), &other), Err(None));
        // Requests of clients that are gone count until their answers come.
        answers.answered(connection(0), None, MIB, Time(0));
        assert_eq!(answers.begin(connection(20), &mut LargeAnswerState::default(), &account), Err(None));
        answers.answered(connection(21), None, MIB, Time(0));
        assert_eq!(answers.begin(connection(20), &mut LargeAnswerState::default(), &account), Ok(()));
    }
}
