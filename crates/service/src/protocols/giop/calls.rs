//! Administration's calls to clients, such as `disconnect_push_consumer`.
//!
//! Calls of the lane's own are here too: to pull suppliers, and to remote filters.
//!
//! Calls share connections with pushes, and nothing blocks on them: the asker is notified of the result, or that there will be none. The
//! asker sets the time limit, and stops asking then.

use core::num::NonZeroU64;
use core::time::Duration;
use std::sync::Arc;

use accounts::Account;
use corba::{Offered, PeerAddress};
use engine::{Peer, Time};
use giop::cdr::{CharSet, Encoding, Endian, Lacking, Version, Writer};
use giop::codeset;
use giop::ior::Ior;
use giop::message::{self, RequestHead, Response, ServiceContexts};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::lane::links::messages::ToAdministration;
use crate::protocols::giop::admin_messages::{self, CallFailure, OWN_ENDIAN, Reply};
use crate::protocols::giop::losses::Pending;
use crate::protocols::giop::outgoing::{Outgoings, Scratch};
use crate::protocols::giop::replies::Verdict;
use crate::protocols::giop::routes::{ADDRESSES_MAX, FORWARDS_MAX, Target};

/// Maximum unread octets for a client before it is not called any more.
pub(crate) const UNREAD_MAX: usize = 1 << 20;

/// A call, stored whole so that it can follow a forward.
pub(crate) struct PendingCall {
    pub(crate) id: u64,
    to: Ior,
    /// Address of the last attempt.
    target: Option<Target>,
    /// Start of the call.
    since: Time,
    by: Option<Arc<Account>>,
    /// Connections that the client has offered, until the call is forwarded.
    offered: Option<Arc<Offered>>,
    operation: &'static str,
    body: Vec<u8>,
    deadline: Time,
    forwards: u8,
}

/// Connection and request by which a call's reply is recognised.
pub(crate) struct AwaitedReply {
    pub(crate) connection: Token,
    request_id: u32,
    deadline: Time,
}

impl Outgoings {
    /// Begins a call of administration.
    pub(crate) fn begin_call(&mut self, id: u64, call: admin_messages::Call, cx: &mut Context) {
        let admin_messages::Call { to, by, offered, operation, body, timeout } = call;
        let deadline = cx.clock.now + timeout;
        let since = cx.clock.now;
        let (target, forwards) = (None, 0);
        self.send_call(PendingCall { id, to, target, since, by, offered, operation, body, deadline, forwards }, cx);
    }

    /// The connection for a call: to the first usable address of its reference, beginning with one that answered before.
    ///
    /// # Errors
    /// The reason why no address is usable.
    fn connect_for(&mut self, call: &mut PendingCall, cx: &mut Context) -> Result<(Token, Target), String> {
        if let Some(found) = self.find_accepted_for(call.offered.as_ref(), &call.to) {
            return Ok(found);
        }
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

    /// Whether the last address failed, and the reference has another that did not.
    fn has_other_address(&self, call: &PendingCall, cx: &Context) -> bool {
        let reachability = &self.reachability;
        let other = |last: &Target| reachability.other_than(last, &call.to, call.since, cx.clock.now);
        let other = call.target.as_ref().and_then(other);
        cx.counters.add(Counter::AlternativeAddresses, u64::from(other.is_some()));
        other.is_some()
    }

    /// Sends a call: first, after a forward, or to another address.
    fn send_call(&mut self, mut call: PendingCall, cx: &mut Context) {
        let (token, target) = match self.connect_for(&mut call, cx) {
            Ok(found) => found,
            Err(why) => return self.finish_call(&call, Err(CallFailure::Unreachable(why)), cx),
        };
        let spares = &mut cx.io.spares;
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        if connection.waits_for_reader() || connection.output.own_bytes() >= UNREAD_MAX {
            // The client would not read this call either, and the next one has all the information.
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

    /// Handles the end of a call: its reply, or its failure.
    pub(crate) fn conclude_call(&mut self, mut call: PendingCall, verdict: Verdict, cx: &mut Context) {
        let result = match verdict {
            Verdict::Done => Ok(core::mem::take(&mut self.scratch.answer)),
            Verdict::Forward(to) if call.forwards < FORWARDS_MAX => {
                call.forwards += 1;
                (call.to, call.offered) = (to, None);
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
        cx.reporting.reports.send(ToAdministration::Returned { call: call.id, how: result });
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

    /// Calls an operation of a client's object. The asker is notified later of how it ended.
    ///
    /// # Errors
    /// The reason why the call cannot be made; the asker is not notified then.
    pub(crate) fn ask(
        &mut self,
        peer: Peer,
        ask: &Ask,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), String>,
        cx: &mut Context,
    ) -> Result<UnderWay, String> {
        let (token, version, chars) = self.connection_to(peer, ask.connect_timeout, cx)?;
        let spares = &mut cx.io.spares;
        let Outgoings { ways, connections, scratch: Scratch { arguments, .. }, .. } = self;
        let (Some(way), Some(connection)) = (ways.by_peer.get(&peer), connections.get_mut(token)) else {
            return Err("the connection was lost".into());
        };
        if connection.waits_for_reader() || connection.output.own_bytes() >= UNREAD_MAX {
            cx.counters.add(Counter::CallsNotMade, 1);
            return Err("it does not read what it was sent before".into());
        }
        arguments.clear();
        let mut writer = Writer::new(arguments, Encoding { endian: ask.endian, version, chars });
        write(&mut writer)?;
        if let Some(character) = writer.lacking() {
            return Err(Lacking::in_encoding(character).to_string());
        }
        let (request_id, tell) = connection.next_request(cx.clock.now);
        let context;
        let contexts: &[(u32, &[u8])] = if tell {
            context = codeset::context(chars, ask.endian);
            &[(ServiceContexts::CODE_SETS, &context)]
        } else {
            &[]
        };
        let head = RequestHead {
            version,
            endian: ask.endian,
            request_id,
            response: Response::Expected,
            key: &way.target.key,
            operation: ask.operation.as_bytes(),
            contexts,
            body_phase: Some(0),
        };
        connection.output.lend(spares);
        let buffer = connection.output.bytes();
        let open = message::begin_request(buffer, &head);
        buffer.extend_from_slice(arguments);
        open.finish(buffer);
        connection.pending.insert(request_id, Pending::Ask(ask.asker));
        let unread = connection.note_added(cx.clock.now);
        cx.count_unread(unread);
        self.note_due(token);
        Ok(UnderWay { connection: token, request_id })
    }

    /// The connection to an object, and the encoding for it.
    fn connection_to(
        &mut self,
        peer: Peer,
        timeout: Duration,
        cx: &mut Context,
    ) -> Result<(Token, Version, CharSet), String> {
        let Outgoings { ways, connections, peers, .. } = self;
        if !ways.by_peer.contains_key(&peer) {
            let address = peers.get(peer).map(Arc::clone).ok_or("the object has no address")?;
            let target = Target::of(&address.ior).ok_or("the object's reference has no IIOP profile")?;
            let way = Way {
                address,
                target,
                is_forwarded: false,
                tried_since: None,
                forwards: 0,
                connection: None,
                last_offered: None,
                is_failing: false,
            };
            ways.by_peer.insert(peer, way);
        }
        let way = ways.by_peer.get_mut(&peer).ok_or("the object has no address")?;
        let (version, chars) = (way.target.version, way.target.chars);
        let last_offered = way.address.offered.connections().next();
        let is_left = core::mem::replace(&mut way.last_offered, last_offered) != last_offered;
        let kept = way.connection.filter(|token| connections.get(*token).is_some());
        if let Some(token) = kept.filter(|_| !is_left) {
            return Ok((token, version, chars));
        }
        let address = Arc::clone(&way.address);
        if !way.is_forwarded
            && let Some((token, target)) = self.find_accepted_for(Some(&address.offered), &address.ior)
            && let Some(way) = self.ways.by_peer.get_mut(&peer)
        {
            (way.target, way.connection) = (target, Some(token));
            return Ok((token, version, chars));
        }
        if let Some(token) = kept {
            return Ok((token, version, chars));
        }
        let Outgoings { ways, reachability, .. } = self;
        let way = ways.by_peer.get_mut(&peer).ok_or("the object has no address")?;
        if !way.is_forwarded
            && way.target.alternatives > 1
            && let Some((target, left_out)) = reachability.choose(&way.address.ior, cx.clock.now)
        {
            cx.counters.add(Counter::ReferenceAddressesLeftOut, left_out as u64);
            way.target = target;
            way.tried_since.get_or_insert(cx.clock.now);
        }
        for _ in 0..ADDRESSES_MAX {
            let Some(way) = self.ways.by_peer.get(&peer) else { break };
            let (endpoint, timeout) = (way.target.endpoint(version, chars), way.target.timeout_per_address(timeout));
            match self.connect(endpoint, timeout, address.by.as_ref(), cx) {
                Ok(token) => {
                    if let Some(way) = self.ways.by_peer.get_mut(&peer) {
                        way.connection = Some(token);
                    }
                    return Ok((token, version, chars));
                }
                Err(why) if !self.ask_elsewhere(peer, cx) => return Err(why),
                Err(_) => {}
            }
        }
        Err("none of its addresses can be called".to_owned())
    }

    /// Aims at another address of an object's reference, if the one in use could not be reached. False if all have failed.
    pub(crate) fn ask_elsewhere(&mut self, peer: Peer, cx: &mut Context) -> bool {
        let Outgoings { ways, reachability, upkeep, .. } = self;
        let Some(way) = ways.by_peer.get_mut(&peer).filter(|way| !way.is_forwarded) else { return false };
        let (now, since) = (cx.clock.now, way.tried_since.take());
        let other = since.and_then(|since| reachability.other_than(&way.target, &way.address.ior, since, now));
        let Some(target) = other else { return false };
        way.tried_since = since;
        way.target = target;
        way.connection = None;
        upkeep.stale = true;
        cx.counters.add(Counter::AlternativeAddresses, 1);
        true
    }

    /// Stops waiting for an answer.
    pub(crate) fn stop_asking(&mut self, under_way: UnderWay) {
        let UnderWay { connection: token, request_id } = under_way;
        _ = self.remove_pending(token, request_id);
    }

    /// Aims at the reference to which an object forwards. False after too many forwards in a row.
    pub(crate) fn follow(&mut self, peer: Peer, to: &Ior) -> bool {
        let Some(way) = self.ways.by_peer.get_mut(&peer) else { return false };
        let Some(target) = Target::of(to).filter(|_| way.forwards < FORWARDS_MAX) else { return false };
        way.forwards += 1;
        way.is_forwarded = true;
        way.target = target;
        way.connection = None;
        self.upkeep.stale = true;
        true
    }

    /// Notes that an object has answered. Returns its address if it had failed before.
    pub(crate) fn note_heard(&mut self, peer: Peer) -> Option<Arc<PeerAddress>> {
        let way = self.ways.by_peer.get_mut(&peer)?;
        way.forwards = 0;
        way.tried_since = None;
        core::mem::take(&mut way.is_failing).then(|| Arc::clone(&way.address))
    }

    /// Notes that an object fails. Returns its address if that is new.
    pub(crate) fn note_failing(&mut self, peer: Peer) -> Option<Arc<PeerAddress>> {
        let way = self.ways.by_peer.get_mut(&peer)?;
        (!core::mem::replace(&mut way.is_failing, true)).then(|| Arc::clone(&way.address))
    }

    /// Notes that a call of an object failed. If the call was forwarded, aims at the object's own address again and returns true.
    pub(crate) fn return_home(&mut self, peer: Peer) -> bool {
        let Some(way) = self.ways.by_peer.get_mut(&peer) else { return false };
        way.forwards = 0;
        if !core::mem::take(&mut way.is_forwarded) {
            return false;
        }
        if let Some(target) = Target::of(&way.address.ior) {
            way.target = target;
        }
        way.connection = None;
        self.upkeep.stale = true;
        true
    }
}

/// The part of a lane that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A proxy that pulls from its supplier.
    Puller(Token),
    /// An event that remote filters are asked about.
    FilterCall(Token),
}

/// Parameters of a call.
pub(crate) struct Ask {
    pub(crate) operation: &'static str,
    pub(crate) asker: Asker,
    /// Byte order of the arguments.
    pub(crate) endian: Endian,
    /// Time limit to connect.
    pub(crate) connect_timeout: Duration,
}

/// A call that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay {
    connection: Token,
    request_id: u32,
}

/// The way to a client's object that the lane calls.
pub(crate) struct Way {
    address: Arc<PeerAddress>,
    target: Target,
    is_forwarded: bool,
    /// Since when its addresses are tried one after the other, until one answers or all have failed.
    tried_since: Option<Time>,
    /// Number of forwards in a row.
    forwards: u8,
    connection: Option<Token>,
    /// The latest connection that the client had offered when it was called last.
    last_offered: Option<NonZeroU64>,
    /// Whether the object fails, which has been logged.
    is_failing: bool,
}

/// The ways to all clients' objects that the lane calls.
#[derive(Default)]
pub(crate) struct Ways {
    by_peer: HashMap<Peer, Way>,
}

impl Ways {
    /// Removes the way to a peer that is gone. True if there was one.
    pub(crate) fn forget(&mut self, gone: Peer) -> bool {
        self.by_peer.remove(&gone).is_some()
    }

    /// The connections in use.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Token> {
        self.by_peer.values().filter_map(|way| way.connection)
    }
}
