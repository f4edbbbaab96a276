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
    ToClient(LaneThread, ToLane),
    ToProgram(SyncSender<Result<Answer, Declined>>, Result<Answer, Declined>),
}
