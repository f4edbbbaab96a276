//! Those who ask over HTTP: who they are, as rules of access know it, and how they get to see events.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use engine::ChannelId;

use crate::admin::program::{LETTERS, consult};
use crate::admin::values::{Answer, Declined};
use crate::lane::io::entrance::Visitor;
use crate::lane::links::mail::{ToAdministration, Visit};
use crate::lane::links::post::Post;
use crate::published::Published;
use access::{Tokens, Who};
use accounts::{Accounts, Addresses, CertifiedName, Principal};

/// See the module. Clones share everything.
#[derive(Clone)]
pub struct Operators {
    pub(crate) known: Known,
    pub(crate) administration: Arc<Mutex<Post<ToAdministration>>>,
}

/// What says who somebody is, and what it may, on whichever thread.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) accounts: Arc<Accounts>,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
    pub(crate) published: Arc<ArcSwap<Published>>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators").finish_non_exhaustive()
    }
}

impl Operators {
    /// Whether there are rules of access. They may be others the next moment: who decides is administration.
    #[must_use]
    pub fn are_ruled(&self) -> bool {
        self.known.published.load().access.is_some()
    }

    /// A table of those who have connections, for the one who lets them in: charged to it is what the service's limits are for.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::new(&self.known.accounts)
    }

    /// The name of a token of the configuration.
    #[must_use]
    pub fn find_token(&self, shown: &[u8]) -> Option<Arc<str>> {
        self.known.tokens.load().find(shown).cloned()
    }

    /// Somebody who has come from an address, and has shown a token of that name, and that certificate. An address of IPv4 in one of IPv6
    /// counts as what it is.
    #[must_use]
    pub fn principal(&self, from: IpAddr, token: Option<Arc<str>>, certified: Option<Arc<CertifiedName>>) -> Principal {
        let account = self.known.accounts.account_of(from.to_canonical());
        token.map(|name| account.identity().show_token(name));
        certified.map(|name| account.identity().certify(name));
        Principal::Operator(account)
    }

    /// Whether the rules give somebody any right anywhere. Nobody has one where there are no rules.
    #[must_use]
    pub fn has_any_right(&self, by: &Principal) -> bool {
        let Principal::Operator(account) = by else { return false };
        self.known.published.load().access.as_ref().is_some_and(|access| access.rules().knows_any(&Who::of(account)))
    }

    /// Has an audit line written about something that somebody wanted to be done, and was refused without administration having been asked.
    /// False if it is left out: as many wait as may, and half of the room is for those who wait for an answer.
    #[must_use]
    pub fn note_refused(&self, by: &Principal, what: String, why: &'static str) -> bool {
        let mut administration = self.administration.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = administration.room() > LETTERS / 2;
        has_room && administration.post(ToAdministration::RefusedAct { by: by.clone(), what, why }).is_ok()
    }

    /// A connection on which somebody who has come from `from` gets a channel's events, as [lines of JSON](crate::Json): through no port, and
    /// as a client like any other, whose rights are those of `by`. It may only look: it holds no suppliers. It is closed if there is no room
    /// for it.
    ///
    /// # Errors
    /// When administration has not answered within that time, or the system refuses a socket.
    pub fn visit(
        &self,
        by: &Principal,
        from: SocketAddr,
        channel: ChannelId,
        within: Duration,
    ) -> Result<(UnixStream, Answer), Declined> {
        let Principal::Operator(account) = by else { return Err(Declined::NotPermitted) };
        let (ours, theirs) = pair().map_err(|_| Declined::NoResources)?;
        // What a lane does with a socket it does with either kind.
        let tcp = TcpStream::from(OwnedFd::from(theirs));
        let address = SocketAddr::new(from.ip().to_canonical(), from.port());
        let visitor = Visitor { tcp, address, account: Arc::clone(account) };
        let visit = |to| ToAdministration::Visit(Box::new(Visit { visitor, channel, to }));
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
