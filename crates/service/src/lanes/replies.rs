//! What consumers answer, and what follows from it.

use engine::Outcome;
use giop::cdr::CharSet;
use giop::exception::{Kind, SystemException};
use giop::framing::Message;
use giop::ior::Ior;
use giop::message::{MessageKind, Reply, ReplyStatus};

use super::mail::CallFailure;
use super::outgoing::{FORWARDS_MAX, Pending};
use super::output::would_block;
use super::slots::Token;
use super::system;
use super::worker::Core;
use crate::counters::Counter;

/// How a request of ours ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It was done.
    Done,
    /// A system exception came back.
    System(SystemException),
    /// A user exception came back; its repository id.
    User(String),
    /// It is to be sent to another place.
    Forward(Ior),
    /// The reply makes no sense.
    Unreadable,
    /// The connection was lost before a reply.
    Lost(String),
}

/// What one message on a connection of ours says.
enum Heard {
    Reply(u32, Verdict),
    Closing(&'static str),
}

/// The user exception with which a consumer says that it is not connected any more (Event Service 1.2, 2.1.1).
const DISCONNECTED: &str = "IDL:omg.org/CosEventComm/Disconnected:1.0";

impl Core {
    /// Reads replies. False when the connection is gone.
    pub(crate) fn read_replies(&mut self, token: Token) -> bool {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return false };
        let Some((stream, inbound)) = connection.stream_and_inbound() else { return true };
        match system::read(stream, inbound.space()) {
            Ok(0) => {
                self.lose(token, "the consumer closed the connection");
                return false;
            }
            Ok(count) => inbound.filled(count),
            Err(error) if would_block(&error) || error.kind() == std::io::ErrorKind::Interrupted => return true,
            Err(error) => {
                self.lose(token, &error.to_string());
                return false;
            }
        }
        loop {
            let Some(connection) = self.outgoing.connections.get_mut(token) else { return false };
            let chars = connection.endpoint.chars;
            let heard = match connection.inbound.poll_message() {
                Ok(Some(message)) => hear(&message, chars),
                Ok(None) => return true,
                Err(error) => {
                    self.counters.add(Counter::ProtocolErrors, 1);
                    self.lose(token, &error.to_string());
                    return false;
                }
            };
            match heard {
                Heard::Reply(request_id, verdict) => match connection.pending.remove(&request_id) {
                    Some(pending) => self.conclude(pending, verdict),
                    None => self.counters.add(Counter::LateReplies, 1),
                },
                Heard::Closing(why) => {
                    self.lose(token, why);
                    return false;
                }
            }
        }
    }

    /// Tells whoever waits how his request ended.
    pub(crate) fn conclude(&mut self, pending: Pending, verdict: Verdict) {
        match pending {
            Pending::Push { outbox, serial, peer } => {
                let outcome = match verdict {
                    Verdict::Forward(to) if self.forward_route(peer, &to) => {
                        self.lane.handle_outcome(outbox, serial, Outcome::NoRoom, self.now);
                        self.lane.resume_outbox(outbox, self.now);
                        return;
                    }
                    other => outcome_of(&other),
                };
                if !matches!(outcome, Outcome::Delivered | Outcome::Unreachable) {
                    self.counters.add(Counter::PushExceptions, 1);
                }
                self.lane.handle_outcome(outbox, serial, outcome, self.now);
            }
            Pending::Call(mut call) => {
                let result = match verdict {
                    Verdict::Done => Ok(()),
                    Verdict::Forward(to) if call.forwards < FORWARDS_MAX => {
                        call.forwards += 1;
                        return self.send_call(&to, call);
                    }
                    Verdict::Forward(_) => Err(CallFailure::Unreachable("it is forwarded without end".into())),
                    Verdict::System(exception) => Err(CallFailure::System(exception)),
                    Verdict::User(id) => Err(CallFailure::User(id)),
                    Verdict::Unreadable => Err(CallFailure::Unreachable("its reply cannot be read".into())),
                    Verdict::Lost(why) => Err(CallFailure::Unreachable(why)),
                };
                self.finish_call(&call, result);
            }
        }
    }
}

fn hear(message: &Message<'_>, chars: CharSet) -> Heard {
    match message.header.kind {
        MessageKind::Reply => match Reply::parse(message.bytes, &message.header) {
            Ok(reply) => Heard::Reply(reply.request_id, verdict_of(&reply, message, chars)),
            Err(_) => Heard::Closing("the consumer sent a reply header that cannot be read"),
        },
        MessageKind::CloseConnection => Heard::Closing("the consumer closed the connection"),
        MessageKind::MessageError => Heard::Closing("the consumer says that we sent a message it cannot read"),
        _ => Heard::Closing("the consumer sent a message that only a client sends"),
    }
}

fn verdict_of(reply: &Reply<'_>, message: &Message<'_>, chars: CharSet) -> Verdict {
    let mut body = reply.body(message.bytes, &message.header, chars);
    match reply.status {
        ReplyStatus::NoException => Verdict::Done,
        ReplyStatus::SystemException => SystemException::read(&mut body).map_or(Verdict::Unreadable, Verdict::System),
        ReplyStatus::UserException => body.text().map_or(Verdict::Unreadable, Verdict::User),
        ReplyStatus::LocationForward | ReplyStatus::LocationForwardPerm => {
            Ior::read(&mut body).map_or(Verdict::Unreadable, Verdict::Forward)
        }
        // We always address by key, and there is no other way an object of a client's could ask for.
        ReplyStatus::NeedsAddressingMode => Verdict::Unreadable,
    }
}

/// What an ended push means for the consumer's outbox. An exception that says "not now" is worth another try; one that
/// says "never" is counted and the next event follows, so that one bad event does not end a subscription.
fn outcome_of(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Done => Outcome::Delivered,
        Verdict::Lost(_) => Outcome::Unreachable,
        Verdict::User(id) if id == DISCONNECTED => Outcome::Gone,
        Verdict::System(exception) => match exception.kind {
            Kind::ObjectNotExist => Outcome::Gone,
            Kind::Transient
            | Kind::CommFailure
            | Kind::NoResources
            | Kind::NoMemory
            | Kind::NoResponse
            | Kind::Timeout
            | Kind::Rebind
            | Kind::ObjAdapter => Outcome::Refused,
            _ => Outcome::Rejected,
        },
        Verdict::Forward(_) => Outcome::Refused,
        Verdict::User(_) | Verdict::Unreadable => Outcome::Rejected,
    }
}
