//! Receivers of administration's answers, and the answers on their way to them.

use std::sync::mpsc::SyncSender;

use crate::admin::values::{Answer, Declined};
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::protocols::{Creations, Request};
use accounts::Principal;

/// Receiver of an answer.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A client, by this request of its.
    Client(Request),
    /// The program that the service is part of, or a principal on behalf of which it asks.
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

/// An answer that is to go when what it speaks of is published.
#[derive(Debug)]
pub(crate) enum Sending {
    /// With what is done instead if what it changed is not on disk in time.
    ToClient(LaneThread, ToLane, Option<Instead>),
    ToProgram(SyncSender<Result<Answer, Declined>>, Result<Answer, Declined>),
    /// What the main lane does behind the answer before it.
    Then(ToLane),
}

/// The reply that a client gets instead, and what its request has made, which is undone then.
#[derive(Debug)]
pub(crate) struct Instead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) made: Creations,
}

/// An answer that goes although what it speaks of is not on disk.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) answer: Sending,
    /// Whether that is said in it, as it is of changes, and not of what was only asked.
    pub(crate) is_change: bool,
    /// What is to be undone.
    pub(crate) made: Creations,
}

impl Sending {
    /// The same of what is not on disk in time.
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
