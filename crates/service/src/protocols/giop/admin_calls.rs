//! Administration's calls to clients, such as `disconnect_push_consumer`.

use std::sync::Arc;

use engine::Time;
use giop::codeset;
use giop::ior::Ior;
use giop::message::{self, RequestHead, Response, ServiceContexts};

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::lane::links::messages::ToAdministration;
use crate::protocols::Returned;
use crate::protocols::giop::admin_messages::{self, CallFailure, OWN_ENDIAN, Reply};
use crate::protocols::giop::outgoing::Outgoings;
use crate::protocols::giop::pending::Pending;
use crate::protocols::giop::replies::Verdict;
use crate::protocols::giop::routes::{ADDRESSES_MAX, FORWARDS_MAX, Target};
use accounts::Account;

/// What is kept for a client and not read, in octets, before it is not called any more.
pub(crate) const UNREAD_MAX: usize = 1 << 20;

/// A call, kept whole so that it can follow a forward.
pub(crate) struct PendingCall {
    pub(crate) id: u64,
    to: Ior,
    /// The address that was called last.
    target: Option<Target>,
    /// When it began.
    since: Time,
    by: Option<Arc<Account>>,
    operation: &'static str,
    body: Vec<u8>,
    deadline: Time,
    forwards: u8,
}

/// Where a call waits for its reply.
pub(crate) struct AwaitedReply {
    pub(crate) connection: Token,
    request_id: u32,
    deadline: Time,
}

impl Outgoings {
    /// Begins a call.
    pub(crate) fn begin_call(&mut self, id: u64, call: admin_messages::Call, cx: &mut Context) {
        let admin_messages::Call { to, by, operation, body, timeout } = call;
        let deadline = cx.clock.now + timeout;
        let since = cx.clock.now;
        self.send_call(PendingCall { id, to, target: None, since, by, operation, body, deadline, forwards: 0 }, cx);
    }

    /// The connection for a call: to the first address of its reference that can be called, beginning with one that answered
    /// before.
    ///
    /// # Errors
    /// Says why none can.
    fn connect_for(&mut self, call: &mut PendingCall, cx: &mut Context) -> Result<(Token, Target), String> {
        let mut failure = "the reference has no IIOP profile".to_owned();
        for _ in 0..ADDRESSES_MAX {
            let Outgoings { reachability, limits, .. } = self;
            let Some((target, left_out)) = reachability.choose(&call.to, cx.clock.now) else { break };
            cx.counters.add(Counter::ReferenceAddressesLeftOut, left_out as u64);
            let timeout = match target.alternatives {
                1 => limits.connect_timeout,
                // Else the call is over before the next one's turn.
                _ => target.timeout_per_address(limits.connect_timeout.min(call.deadline.since(cx.clock.now))),
            };
            call.target = Some(target.clone());
            match self.connect(target.endpoint(target.version, target.chars), timeout, call.by.as_ref(), cx) {
                Ok(token) => return Ok((token, target)),
                Err(why) => failure = why,
            }
            if !self.has_other_address(call, cx) {
                break;
            }
        }
        Err(failure)
    }

    /// Whether the address that was called last failed, and the reference has another that did not.
    fn has_other_address(&self, call: &PendingCall, cx: &Context) -> bool {
        let reachability = &self.reachability;
        let other = |last: &Target| reachability.other_than(last, &call.to, call.since, cx.clock.now);
        let other = call.target.as_ref().and_then(other);
        cx.counters.add(Counter::AlternativeAddresses, u64::from(other.is_some()));
        other.is_some()
    }

    /// Sends a call: for the first time, to where it was forwarded, or to another address.
    fn send_call(&mut self, mut call: PendingCall, cx: &mut Context) {
        let (token, target) = match self.connect_for(&mut call, cx) {
            Ok(found) => found,
            Err(why) => return self.finish_call(&call, Err(CallFailure::Unreachable(why)), cx),
        };
        let spares = &mut cx.io.spares;
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        if connection.waits_for_reader() || connection.output.own_bytes() >= UNREAD_MAX {
            // It would not be read either, and the next one that there is reason for says all that this one would have said.
            cx.counters.add(Counter::CallsNotMade, 1);
            return self.finish_call(&call, Err(CallFailure::TimedOut), cx);
        }
        let (request_id, tell) = connection.next_request(cx.clock.now);
        let context = codeset::context(target.chars, OWN_ENDIAN);
        let PendingCall { id, deadline, .. } = call;
        let contexts: &[(u32, &[u8])] = if tell { &[(ServiceContexts::CODE_SETS, &context)] } else { &[] };
        connection.output.lend(spares);
        let buffer = connection.output.bytes();
        let open = message::begin_request(
            buffer,
            &RequestHead {
                version: target.version,
                endian: OWN_ENDIAN,
                request_id,
                response: Response::Expected,
                key: &target.key,
                operation: call.operation.as_bytes(),
                contexts,
                body_phase: Some(0),
            },
        );
        open.body(buffer, target.chars).raw(&call.body);
        open.finish(buffer);
        connection.pending.insert(request_id, Pending::Call(Box::new(call)));
        let unread = connection.note_added(cx.clock.now);
        cx.count_unread(unread);
        self.calls.insert(id, AwaitedReply { connection: token, request_id, deadline });
        self.note_due(token);
    }

    /// A call's reply has come, or will not.
    pub(crate) fn conclude_call(&mut self, mut call: PendingCall, verdict: Verdict, cx: &mut Context) {
        let result = match verdict {
            Verdict::Done => Ok(core::mem::take(&mut self.scratch.answer)),
            Verdict::Forward(to) if call.forwards < FORWARDS_MAX => {
                call.forwards += 1;
                call.to = to;
                return self.send_call(call, cx);
            }
            Verdict::Lost(_) if call.deadline > cx.clock.now && self.has_other_address(&call, cx) => {
                return self.send_call(call, cx);
            }
            Verdict::Forward(_) | Verdict::ForwardHere => Err(CallFailure::Unreachable(verdict.to_string())),
            Verdict::System(exception) => Err(CallFailure::System(exception)),
            Verdict::User(id) => Err(CallFailure::User(id)),
            Verdict::Unreadable => Err(CallFailure::Unreachable("its reply cannot be read".into())),
            Verdict::Lost(lost) => Err(CallFailure::Unreachable(lost.why.to_string())),
        };
        self.finish_call(&call, result, cx);
    }

    fn finish_call(&mut self, call: &PendingCall, result: Result<Reply, CallFailure>, cx: &mut Context) {
        self.calls.remove(&call.id);
        self.upkeep.stale = true;
        cx.reporting.reports.send(ToAdministration::Returned { call: call.id, how: Returned::Giop(result) });
    }

    pub(crate) fn end_late_calls(&mut self, cx: &mut Context) {
        let now = cx.clock.now;
        let late = self.calls.values().filter(|call| call.deadline <= now);
        let late: Vec<(Token, u32)> = late.map(|call| (call.connection, call.request_id)).collect();
        for (token, request_id) in late {
            if let Some(Pending::Call(call)) = self.remove_pending(token, request_id) {
                self.finish_call(&call, Err(CallFailure::TimedOut), cx);
            }
        }
    }
}
