//! What this door and administration tell each other: proxies that are asked for, made, let go, and ended by others.

use corba::{Guest, Unwelcome};
use engine::{ChannelId, Peer, ProxyId, ProxyKey};

use crate::doors;
use crate::lane::io::slots::Token;
use crate::lane::links::mail::{LaneThread, ToAdministration, ToLane};
use crate::lane::run::Worker;
use accounts::Charge;

/// What a client needs of administration.
#[derive(Debug)]
pub(crate) struct Request {
    /// The connection it is for. Requests of one are served in their order.
    pub(crate) connection: Token,
    pub(crate) wanted: Wanted,
    /// What its client is charged until it is answered.
    pub(crate) charge: Charge,
}

/// What is needed.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// A proxy.
    Proxy(Guest),
    /// A proxy less.
    Dismissal(ProxyKey),
}

impl Request {
    /// Which lane is told what when it is answered.
    pub(crate) fn answered(self, bytes: &[u8]) -> (LaneThread, ToLane) {
        let Self { wanted, charge, connection } = self;
        let letter = match wanted {
            Wanted::Proxy(guest) => ToDoor::Welcomed { connection, peer: guest.peer, proxy: decode(bytes), charge },
            Wanted::Dismissal(_) => ToDoor::Dismissed,
        };
        (LaneThread::MAIN, letter.into())
    }
}

/// The answer as administration passes it on: octets, as every door's. A proxy's key, or why there is none.
pub(crate) fn encode(proxy: &Result<ProxyKey, Unwelcome>) -> Vec<u8> {
    match proxy {
        Ok(ProxyKey { channel, proxy }) => [&b"+"[..], &channel.0.to_le_bytes(), &proxy.0.to_le_bytes()].concat(),
        Err(unwelcome) => refusal(unwelcome),
    }
}

/// The answer that there is none, and why.
pub(crate) fn refusal(why: &dyn core::fmt::Display) -> Vec<u8> {
    format!("-{why}").into_bytes()
}

fn decode(bytes: &[u8]) -> Result<ProxyKey, String> {
    match bytes.split_first() {
        Some((b'+', key))
            if let Some((channel, proxy)) = key.split_first_chunk::<4>()
                && let Some(proxy) = proxy.first_chunk::<4>() =>
        {
            let (channel, proxy) = (u32::from_le_bytes(*channel), u32::from_le_bytes(*proxy));
            Ok(ProxyKey { channel: ChannelId(channel), proxy: ProxyId(proxy) })
        }
        Some((_, reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
        None => Err("the service could not do it".to_owned()),
    }
}

impl From<Request> for ToAdministration {
    fn from(request: Request) -> Self {
        Self::Request(doors::Request::Json(Box::new(request)))
    }
}

/// From administration to a lane.
#[derive(Debug)]
pub(crate) enum ToDoor {
    /// The proxy that was asked for, or why there is none; and what its client was charged meanwhile.
    Welcomed { connection: Token, peer: Peer, proxy: Result<ProxyKey, String>, charge: Charge },
    /// One is gone that nobody needed any more.
    Dismissed,
    /// Somebody has ended a proxy.
    Gone(Peer),
}

impl From<ToDoor> for ToLane {
    fn from(letter: ToDoor) -> Self {
        Self::Door(doors::ToDoor::Json(letter))
    }
}

impl Worker {
    /// Serves what administration has posted.
    pub(crate) fn serve_json_letter(&mut self, letter: ToDoor) {
        match letter {
            ToDoor::Welcomed { connection, peer, proxy, charge } => {
                self.welcomed(connection, peer, proxy, charge.account());
            }
            ToDoor::Dismissed => {}
            ToDoor::Gone(peer) => self.core.proxy_gone(peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_behind_administration() {
        let key = ProxyKey { channel: ChannelId(7), proxy: ProxyId(0x0102_0304) };
        assert_eq!(decode(&encode(&Ok(key))), Ok(key));
        let unwelcome = Unwelcome::TooManyConstraints;
        assert_eq!(decode(&encode(&Err(unwelcome.clone()))), Err(unwelcome.to_string()));
        for bytes in [&b""[..], b"+", b"+123"] {
            assert!(decode(bytes).is_err());
        }
    }
}
