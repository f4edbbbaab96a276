//! Who waits for an answer of administration's, and how it gets there.

use std::sync::mpsc::SyncSender;

use crate::admin::values::{Answer, Declined};
use crate::doors::Request;
use crate::lane::links::mail::{LaneThread, ToLane};
use accounts::Principal;

/// Somebody who has asked.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A client, by this request of its.
    Client(Request),
    /// The program that the service is part of.
    Program(SyncSender<Result<Answer, Declined>>),
}

impl Waiting {
    /// Who asks.
    pub(crate) fn principal(&self) -> Principal {
        match self {
            Self::Client(request) => Principal::Client(request.account().clone()),
            Self::Program(_) => Principal::Service,
        }
    }
}

/// An answer that is to go when what it speaks of is published.
#[derive(Debug)]
pub(crate) enum Sending {
    /// With what it is told instead if what it changed is not on disk in time.
    ToClient(LaneThread, ToLane, Option<Vec<u8>>),
    ToProgram(SyncSender<Result<Answer, Declined>>, Result<Answer, Declined>),
}

impl Sending {
    /// The same of what is not on disk in time; and whether that is said in it, as it is of changes, and not of what was only asked.
    pub(crate) fn not_kept(self) -> (Self, bool) {
        match self {
            Self::ToClient(lane, ToLane::Door(mut letter), Some(bytes)) => {
                letter.set_bytes(bytes);
                (Self::ToClient(lane, ToLane::Door(letter), None), true)
            }
            // A program asks for nothing that waits but changes.
            Self::ToProgram(to, Ok(_)) => (Self::ToProgram(to, Err(Declined::NotKept)), true),
            other => (other, false),
        }
    }
}
