//! From lane to lane: an event that consumers on another lane may want is handed over to it once, however many they are.
//!
//! Towards the lane that admitted the event, a hand-over is a delivery of a *bridge*: an outbox without a consumer, one
//! for each channel and remote lane. So order, back-pressure and memory are those of any outbox.

use alloc::sync::Arc;

use super::{Admission, Lane};
use crate::{Event, Forms, LaneId, OutboxId, Refusal, Time};

/// An event to be handed over: the door posts it to the lane `to`, which takes it in with
/// [`Lane::handle_handover`]. When that is done, or could not be, the event and the outcome go back to the lane they
/// came from: [`Lane::handle_outcome`] and [`Lane::release`].
#[derive(Clone, Debug)]
pub struct Handover {
    /// Which lane is to take it.
    pub to: LaneId,
    /// The bridge, for [`Lane::handle_outcome`] and [`Lane::resume_outbox`].
    pub outbox: OutboxId,
    /// The hand-over's number in its bridge, for [`Lane::handle_outcome`]. A retry has a new one.
    pub serial: u32,
    /// The [version](crate::Snapshot::version) of the routing by which it is handed over. The other lane must have
    /// picked up that one or a later one before it takes the event in, or consumers that it does not know yet miss it.
    pub version: u64,
    /// The event. Whoever lets go of it does so on the lane that it came from.
    pub event: Arc<Event>,
}

impl Lane {
    /// The next hand-over to another lane. What becomes of it is told with [`handle_outcome`](Self::handle_outcome), like
    /// that of a delivery: [`Outcome::Delivered`](crate::Outcome::Delivered) once the other lane has taken it in and, if
    /// it held it, released it; [`Outcome::NoRoom`](crate::Outcome::NoRoom) if its queue is full, until
    /// [`resume_outbox`](Self::resume_outbox). There is no time limit.
    pub fn poll_handover(&mut self, now: Time) -> Option<Handover> {
        self.told(now);
        None
    }

    /// Takes an event in that another lane hands over: copies it, and puts it into the outbox of every consumer on this
    /// lane that wants it. The filters on its supplier's side have let it pass already, and it is not handed on.
    pub fn handle_handover<F: Forms>(&mut self, event: &Event, forms: &F, now: Time) -> Admission {
        self.told(now);
        let _ = forms;
        Admission::Refused(Refusal::ChannelNotFound { channel: event.source.channel })
    }
}
