//! The threads that keep the record of who leads: the leader's renews it, the follower's watches it and takes over.

use core::fmt::Write as _;
use core::time::Duration;

use super::etcd::Etcd;
use super::following::Following;
use super::host::Over;
use super::record::{Machine, Record, RecordStore, Swapped};
use super::right::{Action, Holder, Terms, perform};
use super::shipping::Shipping;
use crate::config::Config;
use crate::start::StartError;
use crate::store::replication::StandbyRecord;

/// Part of a lease after which a thread looks again how the follower or the leader stands.
const LOOKS_IN: u32 = 10;
/// Interval between attempts to write a take-over to a disk that fails.
const AGAIN_IN: Duration = Duration::from_secs(1);

/// The record of who leads, and this machine in it, as the configuration says.
pub(super) struct Recorded {
    pub(super) etcd: Etcd,
    pub(super) machine: Machine,
    pub(super) terms: Terms,
}

impl Recorded {
    /// `None` if there is to be no record.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, StartError> {
        let record = &config.standby.record;
        let terms = Terms { lease: record.lease(), skew: record.skew() };
        let recorded = || Ok(Self { etcd: Etcd::new(config)?, machine: Machine::of(config), terms });
        record.is_used().then(recorded).transpose()
    }

    /// Whether a leader with other data than this service's is recorded, or on another machine.
    pub(super) fn is_of_another(&mut self, service: u64) -> Result<bool, String> {
        let found =
            self.etcd.read().map_err(|why| format!("it is new, and the record of the leader cannot be read: {why}"))?;
        let of_others =
            found.filter(|found| (found.record.machine, found.record.service) != (self.machine.number, service));
        if let Some(found) = &of_others {
            log::info!(
                "standby: {} is recorded as the leader: this store begins as its follower's",
                found.record.holder
            );
        }
        Ok(of_others.is_some())
    }

    /// Records the leader of a new service. Returns whether it is this one.
    pub(super) fn begin(&mut self, service: u64) -> Result<bool, String> {
        let Machine { name, number, run } = self.machine.clone();
        let record = Record { service, epoch: 1, holder: name, machine: number, run, counter: 0, in_step: None };
        match self.etcd.swap(None, &record) {
            Err(why) => Err(format!("it is new, and cannot be recorded as the leader's: {why}")),
            Ok(Swapped::Done(_)) => Ok(true),
            Ok(Swapped::Other(_)) => Ok(!self.is_of_another(service)?),
        }
    }

    /// Has a leader hold the record from now on; one that was promoted writes it before it serves. Returns the record of a follower if
    /// another machine leads, as far as that can be read now.
    pub(super) fn hold(
        mut self,
        shipping: &Shipping,
        (service, epoch): (u64, u64),
        is_promoted: bool,
    ) -> Option<StandbyRecord> {
        shipping.set_holder(Holder::new(self.machine, self.terms, (service, epoch), is_promoted));
        // A read, and then a swap.
        for _ in 0..=usize::from(is_promoted) {
            if let Some((now, action)) = shipping.poll_record().filter(|(_, action)| !matches!(action, Action::Wait(_)))
            {
                shipping.handle_record(now, perform(&mut self.etcd, action));
            }
        }
        shipping.record_due()
    }
}

/// Waits until that time, or the end, or it is time to look again.
fn wait(until: Duration, now: Duration, terms: Terms, over: &Over) {
    over.wait(until.saturating_sub(now).clamp(Duration::from_millis(1), terms.lease / LOOKS_IN));
}

/// Renews a leader's record, until the end or another leader.
pub(super) fn hold(shipping: &Shipping, store: &mut dyn RecordStore, terms: Terms) {
    let mut said = String::new();
    while !shipping.over().is_over() {
        let Some((now, action)) = shipping.poll_record() else { return };
        if let Action::Wait(until) = action {
            wait(until, now, terms, shipping.over());
            continue;
        }
        let answer = perform(store, action);
        say(&mut said, shipping.handle_record(now, answer), "the record is held");
    }
}

/// Watches the record as a follower, until the end or a take-over.
pub(super) fn watch(following: &Following, store: &mut dyn RecordStore, terms: Terms) {
    let (mut said, over) = (String::new(), following.over());
    while !over.is_over() && !following.is_promoted() {
        let Some((now, action)) = following.poll_record() else { return };
        match action {
            Action::Wait(until) => wait(until, now, terms, over),
            action => {
                let answer = perform(store, action);
                if let Some(epoch) = following.handle_record(now, answer) {
                    return take_over(following, epoch, "the leader did not renew its record");
                }
            }
        }
        say(&mut said, following.record_trouble(), "the record is renewed");
    }
}

/// Has the disk say that this machine leads, since no other one takes over by itself until it does.
pub(super) fn take_over(following: &Following, epoch: u64, why: &str) {
    let mut said = String::new();
    while let Err(error) = following.lead(epoch, why) {
        say(&mut said, format!("{why}, and the take-over is not on this disk: {error}"), "");
        if following.over().wait(AGAIN_IN) {
            return;
        }
    }
}

/// Logs a trouble or its end, once.
fn say(said: &mut String, trouble: String, over: &str) {
    if *said == trouble {
        return;
    }
    if trouble.is_empty() {
        log::info!("standby: {over}");
    } else {
        log::warn!("standby: {trouble}");
    }
    *said = trouble;
}

/// Lines of `campanile standby status`.
pub(super) fn write_status(text: &mut String, record: Option<&Record>, age: Option<Duration>, trouble: &str) {
    if let Some(Record { epoch, holder, in_step, .. }) = record {
        let in_step = if in_step.is_some() { "yes" } else { "no" };
        let _ = write!(text, "record_epoch: {epoch}\nrecord_holder: {holder}\nrecord_in_step: {in_step}\n");
    }
    if let Some(age) = age {
        let _ = writeln!(text, "record_age_ms: {}", age.as_millis());
    }
    if !trouble.is_empty() {
        let _ = writeln!(text, "record_trouble: {trouble}");
    }
}
