//! The ways in: a folder for each protocol.

pub(crate) mod giop;

use std::sync::Arc;

use crate::admin::values::{Answer, Command, Declined, Query};
use crate::lane::links::mail::{LaneThread, ToLane};
use crate::lane::run::Core;
use accounts::Account;
/// What an answer waits for: that clients have been told of what was done, or that it is published; how many log lines a request
/// caused; how a supplier stands.
pub(crate) use corba::{Farewell, SupplierStanding, Unpublished, remarks::Remarks};

/// A request of a client for administration, as it arrived at its door.
#[derive(Debug)]
pub(crate) enum Request {
    Giop(giop::mail::Request),
}

impl Request {
    /// Who asks, and is charged for it until it is answered.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        match self {
            Self::Giop(request) => request.charge.account(),
        }
    }

    /// The connection that it came on: its lane's thread, and its number there.
    pub(crate) fn connection(&self) -> (u32, u64) {
        match self {
            Self::Giop(request) => (request.lane.0, request.connection.to_bits()),
        }
    }

    /// Which lane is told what when it is answered: `bytes`, or nothing if nobody waits for an answer.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> (LaneThread, ToLane) {
        match self {
            Self::Giop(request) => request.answered(bytes),
        }
    }
}

/// A call of a client that administration has a lane make.
#[derive(Debug)]
pub(crate) enum Call {
    Giop(giop::mail::Call),
}

/// How such a call ended.
#[derive(Debug)]
pub(crate) enum Returned {
    Giop(Result<giop::mail::Reply, giop::mail::CallFailure>),
}

/// The objects that clients of whichever door name. Today they are all with one door.
pub(crate) use giop::objects::Objects;

/// What a request is for administration.
#[derive(Debug)]
pub(crate) enum Wish {
    /// To be answered by administration.
    Query(Query),
    Command(Command),
    /// To be answered by the thread that analyses.
    Analysis,
    /// To be executed by the objects themselves.
    Own,
}

/// The answer to a request, as its door sends it: nothing if nobody waits for one.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) bytes: Vec<u8>,
    /// Set if it says that the request was not executed, or failed.
    pub(crate) fault: Option<Fault>,
}

/// What was wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such object.
    Object,
    /// The object has no such operation.
    Operation,
    /// The arguments cannot be read.
    Arguments,
    /// What the operation itself may say.
    Other,
}

impl Request {
    /// What it is for administration.
    pub(crate) fn wish(&self) -> Wish {
        match self {
            Self::Giop(request) => Objects::wish(request),
        }
    }

    /// Puts an answer of administration's into its door's words.
    pub(crate) fn reply(&self, answer: &Answer) -> Answered {
        match self {
            Self::Giop(request) => Objects::reply(request, answer).unwrap_or_default(),
        }
    }

    /// Says why it is not answered.
    pub(crate) fn decline(&self, why: Declined) -> Answered {
        match self {
            Self::Giop(request) => Objects::decline(request, why).unwrap_or_default(),
        }
    }

    /// Does the analysis that it asks for: on whichever thread has the time.
    pub(crate) fn analyse(&self) -> Answered {
        match self {
            Self::Giop(request) => Objects::analyse(request).unwrap_or_default(),
        }
    }
}

impl Objects {
    /// Executes a request that is the objects' own, which may cause so many log lines; says how many it did.
    pub(crate) fn execute(&mut self, request: &Request, lines: u32) -> (Answered, Remarks) {
        match request {
            Request::Giop(request) => {
                let (answered, remarks) = self.execute_giop(request, lines);
                (answered.unwrap_or_default(), remarks)
            }
        }
    }

    /// A call has ended.
    pub(crate) fn handle_returned(&mut self, call: u64, how: Returned) {
        match how {
            Returned::Giop(result) => self.handle_giop_returned(call, result),
        }
    }
}

impl Core {
    /// Makes a call that administration asked for.
    pub(crate) fn call_client(&mut self, id: u64, call: Call) {
        match call {
            Call::Giop(call) => self.begin_call(id, call),
        }
    }
}

/// What the doors have of a lane, apart from the connections that clients made.
pub(crate) struct Doors {
    pub(crate) giop: giop::Door,
}

/// The connections that clients made to a lane.
pub(crate) struct Clients {
    pub(crate) giop: giop::incoming::Clients,
}
