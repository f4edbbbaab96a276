//! Report of a refused claim.

use core::fmt;
use std::net::IpAddr;

use crate::{Account, Spent, SpentBy};

/// A refused claim of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The resource claimed, and the limit that is spent.
    pub spent: Spent,
    /// The client's address.
    pub ip: IpAddr,
    /// Amount that all connections of that address use.
    pub has: u64,
    /// Amount that all clients use together.
    pub used: u64,
    /// The limit for all clients together.
    pub limit: u64,
}

impl Refused {
    /// Makes the report of a refused claim.
    #[must_use]
    pub fn new(spent: Spent, account: &Account) -> Self {
        let (accounts, resource) = (account.accounts(), spent.resource);
        let (has, used) = (account.used_by_address(resource), accounts.used(resource));
        Self { spent, ip: account.ip(), has, used, limit: accounts.limit(resource) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spent, ip, has, used, limit } = self;
        let (name, setting) = (spent.resource.name(), spent.resource.setting());
        write!(f, "refused {ip} more {name}: ")?;
        match spent.by {
            SpentBy::All => write!(f, "{used} of {limit} are in use, {has} by this address")?,
            SpentBy::Client => write!(f, "it has its quota, {has}, and all clients together {used} of {limit}")?,
        }
        f.write_str("; end what is not needed")?;
        if !setting.is_empty() {
            write!(f, ", or raise {setting}")?;
        }
        match spent.by {
            SpentBy::All => Ok(()),
            SpentBy::Client => f.write_str(" or limits.client_share_percent"),
        }
    }
}
