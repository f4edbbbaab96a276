//! A consumer with `MaxEventsPerConsumer` 1 and `FullOutbox` `Hold` that took an event every four seconds had all suppliers of its channel
//! fall from 1,100 events a second to 0.3; and one that took an event now and then held a channel with default properties for more than
//! 100 s, since its `HoldTimeout` only looked for no progress at all.

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Settings of a consumer that would have suppliers wait for it as soon as one event does.
fn narrow(policy: FullOutbox) -> SettingsPatch {
    SettingsPatch { full_outbox: Some(policy), ..max_events(1) }
}

/// What a few events for two consumers need.
fn room_for_few() -> ChannelLimits {
    budget(4 * (charge(1) + HOLDER_OVERHEAD_BYTES))
}

/// Suppliers that publish as fast as they may, a consumer that takes an event now and then, and others that take all at once.
struct Plant {
    rig: Rig,
    slow: ProxyKey,
    /// Those that never answer.
    silent: Vec<ProxyKey>,
    under_way: Option<(OutboxId, u32)>,
    /// Events that were accepted without waiting, in all.
    free: u64,
    waits: Option<Ticket>,
    got: u64,
}

impl Plant {
    fn new(channel: SettingsPatch, limits: ChannelLimits, slow: SettingsPatch, has_others: bool) -> Self {
        let mut rig = Rig::new(channel, limits);
        let slow = rig.consumer(slow);
        if has_others {
            rig.consumer(SettingsPatch { hold_granted: Some(true), ..SettingsPatch::default() });
        }
        Self { rig, slow, silent: Vec::new(), under_way: None, free: 0, waits: None, got: 0 }
    }

    /// Publishes what the supplier may, ten events at most, and has the others take it.
    fn work(&mut self) {
        for _ in 0..10 {
            if self.waits.is_some() && self.waits == self.rig.lane.poll_release() {
                self.waits = None;
            }
            if self.waits.is_some() {
                break;
            }
            match self.rig.publish(0) {
                Admission::Withheld(ticket) => self.waits = Some(ticket),
                Admission::Accepted { .. } => self.free += 1,
                other => panic!("{other:?}"),
            }
            self.serve();
        }
    }

    fn serve(&mut self) {
        while let Some((key, _, outbox, serial)) = self.rig.poll() {
            match key == self.slow {
                true => self.under_way = Some((outbox, serial)),
                false if self.silent.contains(&key) => {}
                false => self.rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, self.rig.now),
            }
        }
    }

    /// The slow one takes what it was sent.
    fn take(&mut self) {
        if let Some((outbox, serial)) = self.under_way.take() {
            self.rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, self.rig.now);
            self.got += 1;
        }
        self.serve();
    }

    /// Runs for so many seconds, in which the slow one takes an event every so many. Says for how many seconds suppliers waited.
    fn run(&mut self, length: u64, every: u64) -> u64 {
        let mut waited = 0;
        for second in 0..length {
            self.work();
            waited += u64::from(self.waits.is_some());
            self.rig.advance(seconds(1));
            if second % every == every - 1 {
                self.take();
            }
        }
        waited
    }

    /// The slow one is connected from this address.
    fn connect_from(&mut self, client_address: Option<u64>) {
        self.rig.hierarchy.permit(self.slow, None, None, client_address.map(ClientAddress)).unwrap();
        self.rig.route();
    }

    fn dropped(&self, reason: DiscardReason) -> u64 {
        self.rig.stats(self.slow).discards.of(reason)
    }
}

fn spent(notices: &[Notice]) -> usize {
    notices.iter().filter(|notice| matches!(notice, Notice::HoldSpent { .. })).count()
}

#[test]
fn a_narrow_limit_of_its_own_that_is_not_granted_costs_a_consumer_its_own_events_and_others_nothing() {
    for policy in [FullOutbox::Hold, FullOutbox::Reject] {
        // That it grants it to itself does not count.
        let patch = SettingsPatch { hold_granted: Some(true), ..narrow(policy) };
        let mut plant = Plant::new(SettingsPatch::default(), ChannelLimits::default(), patch, true);
        assert_eq!((plant.run(100, 4), plant.free), (0, 1_000), "{policy:?}");
        assert_eq!(plant.got, 25);
        let stats = plant.rig.stats(plant.slow);
        assert_eq!(plant.dropped(DiscardReason::OutboxFull) + plant.got + stats.backlog_events, 1_000, "{policy:?}");
        let discards = FullOutbox::Discard;
        let full = |notice: &Notice| matches!(notice, Notice::OutboxFull { policy, not_granted: true, .. } if *policy == discards);
        let notices = plant.rig.notices();
        assert!(notices.iter().any(full), "{notices:?}");
        assert!(!notices.iter().any(|notice| matches!(notice, Notice::SuppliersBlocked { .. })), "{notices:?}");
    }
}

#[test]
fn what_a_channel_or_an_admin_grants_paces_suppliers_without_end_and_loses_nothing() {
    for of_admin in [false, true] {
        let channel = if of_admin { SettingsPatch::default() } else { granted() };
        let mut plant = Plant::new(channel, ChannelLimits::default(), narrow(FullOutbox::Hold), true);
        if of_admin {
            let (hierarchy, channel) = (&mut plant.rig.hierarchy, plant.rig.channel);
            hierarchy.set_admin_settings(channel, Side::Consumers, AdminId::DEFAULT, granted()).unwrap();
            plant.rig.route();
        }
        assert!(plant.run(2_000, 4) > 1_900);
        assert_eq!((plant.rig.stats(plant.slow).discards.total(), spent(&plant.rig.notices())), (0, 0));
        assert!(plant.got >= 499, "{}", plant.got);
    }
}

#[test]
fn a_limit_that_the_channel_itself_sets_holds_suppliers_until_the_budget_is_spent() {
    let mut plant = Plant::new(narrow(FullOutbox::Hold), ChannelLimits::default(), SettingsPatch::default(), true);
    let waited = plant.run(600, 4);
    assert!((28..=34).contains(&waited), "{waited}");
    assert_eq!(spent(&plant.rig.notices()), 1);
}

#[test]
fn a_consumer_that_takes_an_event_now_and_then_holds_others_for_its_hold_timeout_in_ten_minutes_and_no_longer() {
    // What it says itself of how long it may be waited for makes that no longer.
    let for_ever = SettingsPatch { hold_timeout: Some(Duration::ZERO), ..SettingsPatch::default() };
    let patient = SettingsPatch { reply_timeout: Some(seconds(3_600)), ..SettingsPatch::default() };
    let hasty = SettingsPatch { hold_timeout: Some(seconds(21)), ..SettingsPatch::default() };
    for (patch, budget) in [(SettingsPatch::default(), 30), (for_ever, 30), (patient, 30), (hasty, 21)] {
        let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), patch, true);
        let waited = plant.run(599, 20);
        assert!((budget - 2..=budget + 4).contains(&waited), "{waited}");
        let notices = plant.rig.notices();
        assert!(notices.contains(&Notice::HoldSpent { key: plant.slow, blocked_for: seconds(budget) }), "{notices:?}");
        assert_eq!(spent(&notices), 1, "once an episode");
        assert!(plant.dropped(DiscardReason::WaitedOut) > 5_000);
        assert_ne!(plant.rig.stats(plant.slow).state, OutboxState::Disconnected);
    }
}

#[test]
fn a_budget_that_was_spent_is_there_again_after_ten_minutes() {
    let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), SettingsPatch::default(), true);
    plant.run(600, 20);
    assert_eq!(spent(&plant.rig.notices()), 1);
    let waited = plant.run(600, 20);
    assert!((28..=34).contains(&waited), "{waited}");
    let notices = plant.rig.notices();
    assert_eq!(spent(&notices), 1);
    assert!(notices.iter().any(|notice| matches!(notice, Notice::WaitedForAgain { dropped, .. } if *dropped > 1_000)));
}

#[test]
fn where_the_only_consumer_is_slow_suppliers_wait_for_it_without_end_and_nothing_is_lost() {
    let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), SettingsPatch::default(), false);
    assert!(plant.run(4_000, 20) > 3_800);
    assert_eq!((plant.rig.stats(plant.slow).discards.total(), spent(&plant.rig.notices())), (0, 0));
    assert!(plant.got >= 199, "{}", plant.got);
}

#[test]
fn where_the_others_are_as_slow_no_consumer_is_kept_from_going_on() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_few());
    rig.consumer(SettingsPatch::default());
    rig.consumer(SettingsPatch::default());
    let mut waits = None;
    for _ in 0..200 {
        while waits.is_none() {
            if let Admission::Withheld(ticket) = rig.publish(0) {
                waits = Some(ticket);
            }
        }
        rig.advance(seconds(10));
        for _ in 0..2 {
            rig.answer(Outcome::Delivered);
        }
        if rig.lane.poll_release() == waits {
            waits = None;
        }
    }
    assert_eq!((spent(&rig.notices()), rig.lane.counters().discards.total()), (0, 0));
}

#[test]
fn a_channel_that_disconnects_full_consumers_disconnects_one_that_has_spent_its_budget() {
    let patch = SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..SettingsPatch::default() };
    let mut plant = Plant::new(full(FullOutbox::Disconnect), room_for_few(), patch, true);
    let waited = plant.run(100, 20);
    assert!((28..=34).contains(&waited), "{waited}");
    let reason = DisconnectReason::HoldSpent { blocked_for: seconds(30) };
    let notices = plant.rig.notices();
    let is_it = |key: &ProxyKey, why: &DisconnectReason| (*key, *why) == (plant.slow, reason);
    let gone =
        |notice: &Notice| matches!(notice, Notice::ConsumerDisconnected { key, reason, .. } if is_it(key, reason));
    assert_eq!(notices.iter().filter(|notice| gone(notice)).count(), 1);
}

#[test]
fn a_latency_bound_of_its_own_and_a_blocking_policy_of_its_own_spend_the_budget_as_well() {
    let bounded = SettingsPatch { latency_bound: Some(Duration::from_millis(1)), ..SettingsPatch::default() };
    let blocking = SettingsPatch { blocking: Some(seconds(60)), ..max_events(1) };
    for patch in [bounded, blocking] {
        let mut plant = Plant::new(SettingsPatch::default(), ChannelLimits::default(), patch, true);
        // It keeps up: it takes something every second.
        let waited = plant.run(600, if patch == bounded { 1 } else { 4 });
        assert!(waited <= 34, "{waited}");
        assert_eq!(spent(&plant.rig.notices()), 1, "{patch:?}");
    }
}

/// They all went on at once when an eighth was free, and then none did until the next eighth was.
#[test]
fn suppliers_go_on_one_by_one_as_a_slow_consumer_takes_events() {
    let queue = ChannelLimits { max_queue_length: NonZeroU32::new(16), ..ChannelLimits::default() };
    for (channel, limits, bound) in [
        (granted(), ChannelLimits::default(), narrow(FullOutbox::Hold)),
        (full(FullOutbox::Hold), queue, SettingsPatch::default()),
        (SettingsPatch::default(), budget(16 * charge(1)), SettingsPatch::default()),
    ] {
        let mut rig = Rig::new(channel, limits);
        let bound = match bound.max_events_per_consumer {
            Some(_) => SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(16)), ..bound },
            None => bound,
        };
        rig.consumer(bound);
        let mut waiting = VecDeque::new();
        while waiting.len() < 5 {
            if let Admission::Withheld(ticket) = rig.publish(0) {
                waiting.push_back(ticket);
            }
        }
        let mut most = 0;
        for _ in 0..200 {
            rig.answer(Outcome::Delivered).unwrap();
            let released: Vec<Ticket> = core::iter::from_fn(|| rig.lane.poll_release()).collect();
            most = most.max(released.len());
            for ticket in released {
                assert_eq!(waiting.pop_front(), Some(ticket), "in the order in which they came");
                let Admission::Withheld(next) = rig.publish(0) else { panic!("{limits:?}") };
                waiting.push_back(next);
            }
        }
        assert_eq!((most, rig.lane.counters().discards.total()), (1, 0));
    }
}

/// Consumers that never read, each connected when the one before had spent its budget, blocked suppliers nearly all the time.
#[test]
fn consumers_of_one_address_have_one_budget_however_many_come_after_each_other() {
    // What is under way to a consumer stays in memory, whatever it has spent.
    let room = budget(40 * (charge(1) + HOLDER_OVERHEAD_BYTES));
    for (one_address, blocked) in [(true, 28..=48), (false, 58..=78)] {
        let mut plant = Plant::new(SettingsPatch::default(), room, SettingsPatch::default(), true);
        plant.connect_from(one_address.then_some(1));
        let (mut waited, mut notices) = (0, 0);
        for _ in 0..14 {
            waited += plant.run(40, 100);
            let next = plant.rig.consumer(SettingsPatch::default());
            (plant.slow, plant.under_way) = (next, None);
            plant.connect_from(one_address.then_some(1));
            notices += spent(&plant.rig.notices());
        }
        assert!(blocked.contains(&waited), "{waited}");
        assert!(!one_address || notices <= 1, "{notices}");
    }
}

/// Twenty-six addresses, each with consumers that never read, blocked suppliers for all of ten minutes, one address after the other.
#[test]
fn all_addresses_together_have_twice_the_budget_of_one() {
    let room = budget(40 * (charge(1) + HOLDER_OVERHEAD_BYTES));
    let mut plant = Plant::new(SettingsPatch::default(), room, SettingsPatch::default(), true);
    let (mut waited, mut notices) = (0, Vec::new());
    for address in 0..28 {
        plant.connect_from(Some(address));
        waited += plant.run(20, 100);
        notices.append(&mut plant.rig.notices());
        plant.silent.push(plant.slow);
        (plant.slow, plant.under_way) = (plant.rig.consumer(SettingsPatch::default()), None);
    }
    assert!((58..=66).contains(&waited), "{waited}");
    assert!(spent(&notices) <= 2, "once for all, however many addresses: {notices:?}");
    // Those that took nothing for as long as suppliers would have waited for them are gone, or were given up; the others lose events.
    let gone: Vec<DisconnectReason> = notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::ConsumerDisconnected { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert!((24..=27).contains(&gone.len()), "{gone:?}");
    let is_silent = |reason: &&DisconnectReason| matches!(reason, DisconnectReason::BlockedSuppliers { .. });
    assert!(gone.iter().filter(is_silent).count() > 2, "also of those for which suppliers did not wait: {gone:?}");
    assert!(plant.free > 4_500, "{}", plant.free);
}

/// A consumer that says itself that it is to be waited for shortly is waited for, whatever another has spent of all that there is.
#[test]
fn what_all_have_goes_by_the_longest_of_their_budgets() {
    let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), SettingsPatch::default(), true);
    plant.connect_from(Some(1));
    assert!((28..=34).contains(&plant.run(100, 4)));
    let hasty = SettingsPatch { hold_timeout: Some(seconds(5)), ..SettingsPatch::default() };
    (plant.slow, plant.under_way) = (plant.rig.consumer(hasty), None);
    plant.connect_from(Some(2));
    assert!((4..=8).contains(&plant.run(100, 4)));
}

/// What one address has spent is no other's.
#[test]
fn each_address_has_a_budget() {
    let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), SettingsPatch::default(), true);
    plant.connect_from(Some(1));
    assert!((28..=34).contains(&plant.run(100, 4)));
    (plant.slow, plant.under_way) = (plant.rig.consumer(SettingsPatch::default()), None);
    plant.connect_from(Some(2));
    assert!((28..=34).contains(&plant.run(100, 4)));
    assert_eq!(spent(&plant.rig.notices()), 2);
}

/// Two that hold suppliers at the same time spend that time once.
#[test]
fn time_in_which_two_of_an_address_hold_suppliers_counts_once() {
    let mut plant = Plant::new(SettingsPatch::default(), room_for_few(), SettingsPatch::default(), true);
    plant.connect_from(Some(1));
    plant.slow = plant.rig.consumer(SettingsPatch::default());
    plant.connect_from(Some(1));
    assert!((28..=34).contains(&plant.run(100, 4)));
}
