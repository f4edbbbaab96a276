//! Messages between administration and the doors with clients that are no CORBA objects: proxies are asked for, made, let go, and
//! ended by others. The [`Peer`] of a proxy names its client: each door gives its own.

use corba::{Guest, Unwelcome};
use engine::{ChannelId, Peer, ProxyId, ProxyKey};

use super::{Answered, Fault, Objects, Tag, ToDoor};
use crate::admin::values::Declined;
use crate::counters::Counter;
use crate::lane::links::mail::{LaneThread, ToAdministration, ToLane};
use crate::lane::run::{Core, Worker};
use accounts::{Account, Charge, Resource};
use std::sync::Arc;

/// What a client needs of administration.
#[derive(Debug)]
pub(crate) struct Request {
    /// The client that asks, in its door's terms. Requests of one client are served in their order.
    pub(crate) client: u64,
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

/// From administration to a door.
#[derive(Debug)]
pub(crate) enum Letter {
    /// The proxy that was asked for, or why there is none; and what its client was charged meanwhile.
    Welcomed { peer: Peer, proxy: Result<ProxyKey, String>, charge: Charge },
    /// A proxy is gone that was not needed any more.
    Dismissed,
    /// A proxy was ended by another than its client.
    Gone(Peer),
}

impl Request {
    /// The lane that gets the answer, and the message for it.
    pub(crate) fn answered(self, bytes: &[u8]) -> (LaneThread, ToLane) {
        let Self { wanted, charge, client: _ } = self;
        let letter = match wanted {
            Wanted::Proxy(guest) => Letter::Welcomed { peer: guest.peer, proxy: decode(bytes), charge },
            Wanted::Dismissal(_) => Letter::Dismissed,
        };
        (LaneThread::MAIN, ToLane::Door(ToDoor::Guest(letter)))
    }

    /// Makes a proxy, or lets one go.
    pub(crate) fn execute(&self, objects: &mut Objects) -> Answered {
        match &self.wanted {
            Wanted::Proxy(guest) => {
                let proxy = objects.welcome(guest.clone(), self.charge.account());
                Answered { bytes: encode(&proxy), fault: proxy.is_err().then_some(Fault::Other) }
            }
            Wanted::Dismissal(key) => {
                objects.dismiss_guest(*key);
                Answered::default()
            }
        }
    }

    /// Says why it is not done.
    pub(crate) fn decline(why: Declined) -> Answered {
        Answered { bytes: refusal(&why), fault: Some(Fault::Other) }
    }
}

/// The answer as administration passes it on: octets, as every door's. A proxy's key, or why there is none.
fn encode(proxy: &Result<ProxyKey, Unwelcome>) -> Vec<u8> {
    match proxy {
        Ok(ProxyKey { channel, proxy }) => [&b"+"[..], &channel.0.to_le_bytes(), &proxy.0.to_le_bytes()].concat(),
        Err(unwelcome) => refusal(unwelcome),
    }
}

/// The answer that there is none, and why.
fn refusal(why: &dyn core::fmt::Display) -> Vec<u8> {
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
        Self::Request(super::Request::Guest(Box::new(request)))
    }
}

/// Why a proxy cannot be asked for now.
pub(crate) const NO_ROOM: &str = "the service has no room for this request now; it may come again";

impl Core {
    /// Asks administration for a proxy, on behalf of a client. The request counts as so many octets.
    ///
    /// # Errors
    /// When there is no room for another request: it is counted.
    pub(crate) fn ask_for_guest(
        &mut self,
        client: u64,
        guest: Guest,
        (account, octets): (&Arc<Account>, u64),
    ) -> Result<(), &'static str> {
        let charge = account.charge(Resource::RequestBytes, octets).map_err(|spent| {
            self.counters.add(Counter::of_refusal(spent), 1);
            NO_ROOM
        })?;
        self.counters.add(Counter::Requests, 1);
        let request = Request { client, wanted: Wanted::Proxy(guest), charge };
        self.office.administration.post(request.into()).map_err(|_| {
            self.counters.add(Counter::AdministrationFull, 1);
            NO_ROOM
        })
    }

    /// A client's proxy is not needed any more.
    pub(crate) fn dismiss_guest(&mut self, client: u64, key: ProxyKey, account: &Arc<Account>) {
        let charge = account.charge_anyway(Resource::RequestBytes, 0);
        self.office.reports.post(Request { client, wanted: Wanted::Dismissal(key), charge }.into());
    }
}

impl Worker {
    /// Serves what administration has posted.
    pub(crate) fn serve_guest_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Welcomed { peer, proxy, charge } => match Tag::of_peer(peer) {
                Tag::Giop => {}
                Tag::Json => self.welcomed_json(peer, proxy, charge.account()),
                Tag::Tempo => self.core.welcomed_tempo(peer, proxy, charge.account()),
                Tag::Dds => self.welcomed_dds(peer, proxy, charge.account()),
            },
            Letter::Dismissed => {}
            Letter::Gone(peer) => match Tag::of_peer(peer) {
                // Its clients are notified by calls.
                Tag::Giop => {}
                Tag::Json => self.core.json_proxy_gone(peer),
                Tag::Tempo => self.core.tempo_proxy_gone(peer),
                Tag::Dds => self.core.dds_proxy_gone(peer),
            },
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
