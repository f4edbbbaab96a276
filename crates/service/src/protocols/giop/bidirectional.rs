//! Bidirectional GIOP (CORBA 3.3 part 2, 9.8): a connection that a client made, and offers for calls to its objects.
//!
//! The offer is a service context with the addresses of the client's objects, which any lane remembers ([`Listing`]). It is taken up at the
//! first request to administration, which decides which objects are called over the connection ([`corba::Offer`]). Calls to them wait in
//! the output of a place of their own ([`Outgoings::accept`](super::outgoing::Outgoings::accept)). Here the connection writes that output
//! between its replies, a message of either begun being completed first, and takes in the client's replies. All this is the main lane's:
//! a connection over which events go stays there. Any other leaves when its pushes are for another lane, and its offer ends.
//!
//! A client with the maximum of unanswered requests has its replies read up to the next request ([`Caller::note_next`]), so that one which
//! supplies and consumes over one connection can acknowledge what makes room for its pushes. One that sends further requests before its
//! replies waits with them, within `HoldTimeout`.

use std::io;
use std::sync::Arc;

use accounts::{Charge, Resource};
use corba::Offer;
use giop::bidirectional::{self, LISTEN_POINTS_MAX, ListenPoint};
use giop::cdr::Version;

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::output::Flushed;
use crate::lane::io::slots::Token;
use crate::lane::io::stream::Stream;
use crate::protocols::giop::callers::Caller;
use crate::protocols::giop::outgoing::{Outgoing, Outgoings};

/// Addresses that a client lists for calls over its connection.
pub(crate) struct Listing {
    listed: Arc<[ListenPoint]>,
    /// The context that was last taken whole: some ORBs send it with each request.
    context: Vec<u8>,
    /// Memory for both, and for the place that they may lead to.
    _charge: Charge,
}

/// A client's offer of its connection.
pub(crate) struct OfferedConnection {
    /// The place for calls over it.
    pub(crate) outgoing: Token,
    /// What administration is told.
    pub(crate) offer: Arc<Offer>,
    /// Whether a call was written in part.
    is_begun: bool,
}

impl Outgoings {
    /// Notes the addresses that a request lists, in addition to earlier ones of its connection.
    pub(crate) fn note_listing(&self, (version, context): (Version, &[u8]), caller: &mut Caller, cx: &mut Context) {
        let before = caller.listing.as_ref();
        let is_known = before.is_some_and(|listing| listing.context == context);
        if is_known || !self.limits.bidirectional || version < Version::V1_2 {
            return;
        }
        let earlier = before.map(|listing| Arc::clone(&listing.listed)).unwrap_or_default();
        let (listed, left_out) = match bidirectional::parse_context(context) {
            Ok((points, further)) => together(&earlier, points, further),
            Err(error) => {
                let address = caller.address;
                cx.log_debug(|| format!("the addresses that {address} lists for calls are not taken: {error}"));
                cx.counters.add(Counter::ListenPointsRefused, 1);
                return;
            }
        };
        cx.counters.add(Counter::ListenPointsRefused, u64::from(left_out));
        if listed.is_empty() {
            return;
        }
        // At most the addresses of one offer.
        let context = if left_out == 0 { context.to_vec() } else { Vec::new() };
        let hosts: usize = listed.iter().map(|point| point.host.len() + size_of::<ListenPoint>()).sum();
        let octets = size_of::<Outgoing>() + size_of::<Listing>() + hosts + context.len();
        match caller.account().charge(Resource::RetainedBytes, octets as u64) {
            Ok(charge) => caller.listing = Some(Box::new(Listing { listed, context, _charge: charge })),
            Err(spent) => {
                cx.counters.add(Counter::of_refusal(spent), 1);
                cx.counters.add(Counter::ListenPointsRefused, (listed.len() - earlier.len()) as u64);
            }
        }
    }

    /// Takes up what a client has offered on its connection.
    pub(crate) fn take_offer(&mut self, connection: Token, caller: &mut Caller, cx: &mut Context) {
        let Some(listing) = &caller.listing else { return };
        let listed = Arc::clone(&listing.listed);
        let outgoing = match &caller.offered {
            Some(offered) if Arc::ptr_eq(&offered.offer.listed, &listed) => return,
            Some(offered) => offered.outgoing,
            None => self.accept(connection, (caller.address, caller.account()), caller.speech.chars, cx),
        };
        let is_secure = matches!(caller.stream, Stream::Secure(_));
        let offer = Arc::new(Offer { connection: Self::handle(outgoing), is_secure, listed });
        match &mut caller.offered {
            Some(offered) => offered.offer = offer,
            None => caller.offered = Some(Box::new(OfferedConnection { outgoing, offer, is_begun: false })),
        }
    }

    /// Whether a connection may leave the main lane: no events go over it, and no call is under way.
    pub(crate) fn may_leave(&self, caller: &Caller) -> bool {
        caller.offered.as_ref().is_none_or(|offered| {
            let is_unused = self.connections.get(offered.outgoing).is_none_or(Outgoing::has_nothing_under_way);
            is_unused && !offered.is_begun && !caller.line.carries()
        })
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
fn together(before: &Arc<[ListenPoint]>, later: Vec<ListenPoint>, mut left_out: u32) -> (Arc<[ListenPoint]>, u32) {
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
    let has_more = all.len() > before.len();
    (if has_more { all.into() } else { Arc::clone(before) }, left_out)
}
