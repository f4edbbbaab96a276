//! Bidirectional GIOP (CORBA 3.3 part 2, 9.8): a connection that a client made, and offers for calls to its objects.
//!
//! The offer is a service context with the addresses of the client's objects. Which objects these are, administration decides
//! ([`corba::Offer`]); calls to them wait in the output of a place of their own ([`Outgoings::accept`](super::outgoing::Outgoings::accept)).
//! Here the connection writes that output between its replies, a message of either begun being completed first, and takes in the client's
//! replies. It is served by the main lane and stays there, as the objects' proxies have to.
//!
//! A client that has the maximum of unanswered requests is not read, its replies included: so one that supplies a channel and consumes it
//! over one connection is waited for within `HoldTimeout`, where its events are blocked by its own backlog.

use std::io;
use std::sync::Arc;

use corba::Offer;
use engine::LaneId;
use giop::bidirectional::{self, LISTEN_POINTS_MAX, ListenPoint};
use giop::cdr::Version;

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::output::Flushed;
use crate::lane::io::slots::Token;
use crate::lane::io::stream::Stream;
use crate::protocols::giop::callers::Caller;
use crate::protocols::giop::outgoing::Outgoings;

/// A client's offer of its connection.
pub(crate) struct OfferedConnection {
    /// The place for calls over it.
    pub(crate) outgoing: Token,
    /// What administration is told.
    pub(crate) offer: Arc<Offer>,
    /// The context that was last taken whole: some ORBs send it with each request.
    context: Vec<u8>,
    /// Whether a call was written in part.
    is_begun: bool,
}

impl Outgoings {
    /// Takes a client's offer, which adds to its earlier ones on the connection. True if the message waits until the connection is on the
    /// main lane.
    pub(crate) fn take_offer(
        &mut self,
        connection: Token,
        (version, context): (Version, &[u8]),
        caller: &mut Caller,
        cx: &mut Context,
    ) -> bool {
        if !self.limits.bidirectional || version < Version::V1_2 {
            return false;
        }
        if caller.offered.as_ref().is_some_and(|offered| offered.context == context) {
            return false;
        }
        let before = caller.offered.as_ref().map_or(&[][..], |offered| offered.offer.listed.as_slice());
        let (listed, left_out) = match bidirectional::parse_context(context) {
            Ok((points, further)) => together(before, points, further),
            Err(error) => {
                let address = caller.address;
                cx.log_debug(|| format!("the addresses that {address} lists for calls are not taken: {error}"));
                cx.counters.add(Counter::ListenPointsRefused, 1);
                return false;
            }
        };
        let has_more = listed.len() > before.len();
        if has_more && cx.identity.id != LaneId::MAIN {
            return true;
        }
        cx.counters.add(Counter::ListenPointsRefused, u64::from(left_out));
        // At most the addresses of one offer.
        let context = if left_out == 0 { context.to_vec() } else { Vec::new() };
        if !has_more {
            if let Some(offered) = &mut caller.offered {
                offered.context = context;
            }
            return false;
        }
        caller.lane_affinity.stay();
        let outgoing = match &caller.offered {
            Some(offered) => offered.outgoing,
            None => self.accept(connection, (caller.address, caller.account()), caller.speech.chars, cx),
        };
        let is_secure = matches!(caller.stream, Stream::Secure(_));
        let offer = Arc::new(Offer { connection: Self::handle(outgoing), is_secure, listed });
        match &mut caller.offered {
            Some(offered) => (offered.offer, offered.context) = (offer, context),
            None => caller.offered = Some(Box::new(OfferedConnection { outgoing, offer, context, is_begun: false })),
        }
        false
    }

    /// Writes a connection's output: replies, and calls that the client has offered to take on it.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write_output(&mut self, caller: &mut Caller, cx: &mut Context) -> io::Result<Flushed> {
        let Caller { output, stream, offered, .. } = caller;
        let Some(offered) = offered else {
            return output.flush(stream, &mut cx.io.spares, Budget::STREAM.bytes);
        };
        if !offered.is_begun {
            let flushed = output.flush(stream, &mut cx.io.spares, Budget::STREAM.bytes)?;
            if flushed != Flushed::All {
                self.note_full(offered.outgoing);
                return Ok(flushed);
            }
        }
        let flushed = self.flush_accepted(offered.outgoing, stream, cx)?;
        let was_begun = core::mem::replace(&mut offered.is_begun, flushed != Flushed::All);
        if was_begun && flushed == Flushed::All && !output.is_empty() {
            return output.flush(stream, &mut cx.io.spares, Budget::STREAM.bytes);
        }
        Ok(flushed)
    }

    /// Ends calls over a connection that is closing. False if the connection cannot take any other message: a call was written in part, or
    /// the lane has given the connection up.
    pub(crate) fn end_offer(&mut self, caller: &mut Caller, why: &str, cx: &mut Context) -> bool {
        let Some(offered) = caller.offered.take() else { return true };
        let was_there = self.connections.get(offered.outgoing).is_some();
        self.lose(offered.outgoing, why, cx);
        was_there && !offered.is_begun
    }

    /// Whether the lane has given a connection up that a client has offered.
    pub(crate) fn has_lost(&self, caller: &Caller) -> bool {
        caller.offered.as_ref().is_some_and(|offered| self.connections.get(offered.outgoing).is_none())
    }
}

/// The addresses of a connection's earlier offers and of a later one, up to the maximum, and how many are left out.
fn together(before: &[ListenPoint], later: Vec<ListenPoint>, mut left_out: u32) -> (Vec<ListenPoint>, u32) {
    let mut all = before.to_vec();
    for point in later {
        if all.iter().any(|other| other.is(&point.host, point.port)) {
            continue;
        }
        if all.len() < LISTEN_POINTS_MAX as usize {
            all.push(point);
        } else {
            left_out = left_out.saturating_add(1);
        }
    }
    (all, left_out)
}
