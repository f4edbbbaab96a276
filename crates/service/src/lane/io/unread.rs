//! Output that a connection's peer has not read, in either direction of connecting.
//!
//! A socket usually takes all output at once, and nothing is charged. Octets that it leaves are charged to the connection's client and its
//! address (`limits.unread_reply_bytes_max`). If the charge is refused, the octets stay, but nothing more is written for the connection
//! until everything is read: its events stay in the outboxes, which the channel's budget counts, and its requests in its socket. So a peer
//! that has read everything is not delayed by those that have not.

use std::sync::Arc;

use engine::Time;

use accounts::{Account, Charge, Resource, Spent};

/// Unread output of one connection.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    charge: Option<Charge>,
    /// Whether part of it could not be charged.
    waits: bool,
    /// Total octets that the socket had taken, and the time of the last change.
    taken: u64,
    read_at: Time,
}

impl Unread {
    /// Whether nothing more may be written before everything is read.
    #[inline]
    pub(crate) const fn waits(&self) -> bool {
        self.waits
    }

    /// Whether there has been unread output since `time`, of which the peer has read nothing.
    pub(crate) fn is_idle_since(&self, time: Time) -> bool {
        self.charge.is_some() && self.read_at <= time
    }

    /// Notes that `octets` are queued for the peer, and that its socket has taken `taken` in all.
    ///
    /// # Errors
    /// The connection has to wait from now on. An episode is reported once.
    #[inline]
    pub(crate) fn note(&mut self, account: &Arc<Account>, octets: usize, taken: u64, now: Time) -> Result<(), Spent> {
        if octets == 0 && self.charge.is_none() {
            return Ok(());
        }
        self.update(account, octets as u64, taken, now)
    }

    fn update(&mut self, account: &Arc<Account>, octets: u64, taken: u64, now: Time) -> Result<(), Spent> {
        if octets == 0 {
            *self = Self::default();
            return Ok(());
        }
        if self.charge.is_none() || self.taken != taken {
            (self.taken, self.read_at) = (taken, now);
        }
        let charge = self.charge.get_or_insert_with(|| account.charge_anyway(Resource::ReplyBytes, 0));
        if octets <= charge.amount() {
            charge.adjust(octets);
            return Ok(());
        }
        let Err(spent) = charge.resize(octets) else { return Ok(()) };
        charge.adjust(octets);
        if core::mem::replace(&mut self.waits, true) { Ok(()) } else { Err(spent) }
    }

    /// Adds `octets` that are about to be written, as was granted.
    pub(crate) fn add(&mut self, account: &Arc<Account>, octets: usize, now: Time) {
        if self.charge.is_none() {
            self.read_at = now;
        }
        let charge = self.charge.get_or_insert_with(|| account.charge_anyway(Resource::ReplyBytes, 0));
        charge.adjust(charge.amount() + octets as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::{Accounts, Ceilings, SpentBy};

    const MIB: usize = 1 << 20;

    /// What a client does not read was bounded for each connection only: with a thousand connections it was a gigabyte.
    #[test]
    fn what_cannot_be_charged_is_the_last_that_is_written_until_all_is_read() {
        let accounts = Accounts::new(Ceilings::new(75).with(Resource::ReplyBytes, 16 << 20, 1 << 20));
        let [here, there] = ["127.0.0.2", "127.0.0.3"].map(|ip| accounts.account_of(ip.parse().unwrap()));
        let mut slow = Unread::default();
        assert_eq!(slow.note(&here, 8 * MIB, 10, Time(1)), Ok(()));
        assert!(!slow.waits());
        // Beyond its share: it is there, and counted, and no more comes.
        let spent = slow.note(&here, 14 * MIB, 10, Time(2)).unwrap_err();
        assert_eq!((spent.resource, spent.by), (Resource::ReplyBytes, SpentBy::Client));
        assert_eq!(accounts.used(Resource::ReplyBytes), 14 << 20);
        assert_eq!((slow.note(&here, 15 * MIB, 10, Time(2)), slow.waits()), (Ok(()), true), "it is logged once");
        // Another has its minimum.
        let mut other = Unread::default();
        assert_eq!(other.note(&there, MIB, 0, Time(3)), Ok(()));
        // It reads some, which is not enough, and all.
        assert!(slow.is_idle_since(Time(1)));
        assert_eq!(slow.note(&here, 3 * MIB, 20, Time(4)), Ok(()));
        assert!(slow.waits() && !slow.is_idle_since(Time(3)) && slow.is_idle_since(Time(4)));
        assert_eq!(slow.note(&here, 0, 30, Time(5)), Ok(()));
        assert!(!slow.waits() && !slow.is_idle_since(Time(9)));
        drop(other);
        assert_eq!(accounts.used(Resource::ReplyBytes), 0);
    }

    #[test]
    fn nothing_is_charged_where_the_socket_takes_everything() {
        let accounts = Accounts::new(Ceilings::new(75).with(Resource::ReplyBytes, 0, 0));
        let account = accounts.account_of("127.0.0.2".parse().unwrap());
        let mut unread = Unread::default();
        assert_eq!(unread.note(&account, 0, 1_000_000, Time(1)), Ok(()));
        assert_eq!(Arc::strong_count(&account), 1);
    }

    #[test]
    fn a_client_that_reads_is_not_idle_however_much_comes_meanwhile() {
        let accounts = Accounts::new(Ceilings::new(75).with(Resource::ReplyBytes, 16 << 20, 0));
        let account = accounts.account_of("127.0.0.2".parse().unwrap());
        let mut unread = Unread::default();
        assert_eq!(unread.note(&account, MIB, 100, Time(1)), Ok(()));
        assert_eq!(unread.note(&account, 2 * MIB, 200, Time(5)), Ok(()));
        assert!(!unread.is_idle_since(Time(4)));
    }
}
