//! Receivers of administration's answers, and the answers on their way to them.

use std::sync::mpsc::SyncSender;

use crate::admin::values::{Answer, Declined};
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::protocols::{Creations, Request};
use accounts::Principal;

/// Receiver of an answer.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A client, with its request.
    Client(Request),
    /// The embedding program, or the principal on behalf of which it asks.
    Program(SyncSender<Result<Answer, Declined>>, Principal),
}

impl Waiting {
    pub(crate) fn principal(&self) -> Principal {
        match self {
            Self::Client(request) => Principal::Client(request.account().clone()),
            Self::Program(_, by) => by.clone(),
        }
    }
}

/// An answer to be sent when the changes before it are published.
#[derive(Debug)]
pub(crate) enum Sending {
    /// Reply to a client, with the alternative if its change is not on disk in time.
    ToClient(LaneThread, ToLane, Option<Instead>),
    ToProgram(SyncSender<Result<Answer, Declined>>, Result<Answer, Declined>),
    /// Work of the main lane that follows the answer before it.
    Then(ToLane),
}

/// Alternative reply to a client, and the objects that its request has made, which are then removed.
#[derive(Debug)]
pub(crate) struct Instead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) made: Creations,
}

/// An answer sent although the change is not on disk.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) answer: Sending,
    /// Whether the answer says so: that of a change does, that of a query does not.
    pub(crate) is_change: bool,
    /// Objects to be removed.
    pub(crate) made: Creations,
}

impl Sending {
    /// Converts the answer for changes that are not on disk in time.
    pub(crate) fn not_stored(self) -> Late {
        let (answer, is_change, made) = match self {
            Self::ToClient(lane, ToLane::Protocol(mut message), Some(Instead { bytes, made })) => {
                message.set_bytes(bytes);
                (Self::ToClient(lane, ToLane::Protocol(message), None), true, made)
            }
            // A program asks for nothing that waits but changes.
            Self::ToProgram(to, Ok(_)) => (Self::ToProgram(to, Err(Declined::NotStored)), true, Creations::default()),
            other => (other, false, Creations::default()),
        };
        Late { answer, is_change, made }
    }
}
