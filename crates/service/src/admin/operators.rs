//! Operators that ask over HTTP: their identity for the rules of access, and their access to events.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use engine::ChannelId;

use crate::admin::program::{MESSAGES_MAX, consult};
use crate::admin::values::{Answer, Declined};
use crate::lane::io::entrance::Visitor;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::{ToAdministration, Visit};
use crate::published::Published;
use access::{Channel, ClientNames, Right, Tokens, Who};
use accounts::{Accounts, Addresses, CertifiedName, Principal};

/// Identification and rights of operators. Clones share everything.
#[derive(Clone)]
pub struct Operators {
    pub(crate) known: Known,
    pub(crate) administration: Arc<Mutex<Mailbox<ToAdministration>>>,
}

/// Purpose of an operator's connection for lines of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VisitPurpose {
    /// To look at a channel's events.
    Look(ChannelId),
    /// To publish an event to a channel.
    Publish(ChannelId),
    /// To send any lines; an operator that may not publish only looks.
    Lines {
        /// Whether its lines may publish, as far as the rules of access allow it.
        may_publish: bool,
    },
}

impl VisitPurpose {
    /// Whether the operator only looks: it publishes nothing, and never blocks suppliers.
    const fn looks_on(self) -> bool {
        matches!(self, Self::Look(_) | Self::Lines { may_publish: false })
    }
}

/// Identities and rights of clients, for any thread.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) accounts: Arc<Accounts>,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
    /// Names that the configuration gives to clients.
    pub(crate) client_names: Arc<ArcSwap<ClientNames>>,
    pub(crate) published: Arc<ArcSwap<Published>>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators").finish_non_exhaustive()
    }
}

impl Operators {
    /// Whether there are rules of access. They may change at any time: administration decides.
    #[must_use]
    pub fn are_ruled(&self) -> bool {
        self.known.published.load().access.is_some()
    }

    /// Table of the addresses that have connections, for the thread that accepts them: charged against the service's limits.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::new(&self.known.accounts)
    }

    /// The name of the configured token that was shown.
    #[must_use]
    pub fn find_token(&self, shown: &[u8]) -> Option<Arc<str>> {
        self.known.tokens.load().find(shown).cloned()
    }

    /// Principal of an operator that comes from an address, and has shown a token of that name, and that certificate. An IPv4 address
    /// inside an IPv6 one counts as the IPv4 address.
    #[must_use]
    pub fn principal(&self, from: IpAddr, token: Option<Arc<str>>, certified: Option<Arc<CertifiedName>>) -> Principal {
        let account = self.known.accounts.account_of(from.to_canonical());
        token.map(|name| account.identity().show_token(name));
        certified.map(|name| account.identity().certify(name));
        account.identity().give_name(self.known.client_names.load().of(&account));
        Principal::Operator(account)
    }

    /// Whether the rules give the principal any right anywhere. False where there are no rules.
    #[must_use]
    pub fn has_any_right(&self, by: &Principal) -> bool {
        let Principal::Operator(account) = by else { return false };
        self.known.published.load().access.as_ref().is_some_and(|access| access.rules().knows_any(&Who::of(account)))
    }

    /// Whether the principal may administer the service. Without rules, every operator that HTTP admits may.
    #[must_use]
    pub fn may_administer(&self, by: &Principal) -> bool {
        let Principal::Operator(account) = by else { return false };
        self.known
            .published
            .load()
            .access
            .as_ref()
            .is_none_or(|access| access.rules().grant(&Who::of(account), Right::Administer, Channel::SERVICE).is_any())
    }

    /// Requests an audit line about an act that was refused before administration was asked. False if the line is left out: half of the
    /// mailbox's room is for requests that wait for an answer.
    #[must_use]
    pub fn note_refused(&self, by: &Principal, what: String, why: &'static str) -> bool {
        let mut administration = self.administration.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = administration.room() > MESSAGES_MAX / 2;
        has_room && administration.send(ToAdministration::RefusedAct { by: by.clone(), what, why }).is_ok()
    }

    /// Connects an operator at `from`, for [lines of JSON](crate::Json): through no port, and as a client like any other, with the rights
    /// of `by`. One that only looks never blocks suppliers. The connection is closed if there is no room for it.
    ///
    /// # Errors
    /// Administration has not answered within that time, or the system refuses a socket.
    pub fn visit(
        &self,
        by: &Principal,
        from: SocketAddr,
        purpose: VisitPurpose,
        within: Duration,
    ) -> Result<(UnixStream, Answer), Declined> {
        let Principal::Operator(account) = by else { return Err(Declined::NotPermitted) };
        let (ours, theirs) = pair().map_err(|_| Declined::NoResources)?;
        // A lane does the same with either kind of socket.
        let tcp = TcpStream::from(OwnedFd::from(theirs));
        let address = SocketAddr::new(from.ip().to_canonical(), from.port());
        let visitor = Visitor { tcp, address, account: Arc::clone(account), looks_on: purpose.looks_on() };
        let visit = |to| ToAdministration::Visit(Box::new(Visit { visitor, purpose, to }));
        let answer = consult(&self.administration, Some(within), visit)?;
        Ok((ours, answer))
    }
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs))
}
