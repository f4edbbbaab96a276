//! Dead letters, each undeliverable for a consumer. Such events were dropped, and a counter was all that was left of them.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::journal::Again;
use super::requests::{DeadLetter, StoreReply, StoreRequest};
use super::*;

pub(super) const CONSUMER: ProxyKey = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(7) };
const OTHER: ProxyKey = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(8) };

impl Lane {
    /// Has an event kept, which is for these, and was undeliverable for the first of them.
    pub(super) fn send_undeliverable(&mut self, octets: &[u8], consumers: &[ProxyKey]) -> NonZeroU64 {
        self.send(octets.to_vec());
        let watch = self.answer().unwrap();
        consumers.iter().for_each(|consumer| self.tell(Completion::Begins { watch, consumer: *consumer }));
        self.tell(Completion::Begun { watch, bridges: 0 });
        self.link.messages.send(ToStore::Undeliverable(watch, consumers[0])).ok().unwrap();
        if consumers.len() == 1 {
            self.tell(Completion::ForAll { watch });
        }
        watch
    }

    pub(super) fn ask(&self, request: StoreRequest) -> StoreReply {
        self.ask_all([request])[0].clone()
    }

    /// Asks for all of these before the first reply is taken.
    fn ask_all<const N: usize>(&self, requests: [StoreRequest; N]) -> [StoreReply; N] {
        let desk = self._reception.desk.as_ref().unwrap();
        for (number, request) in requests.into_iter().enumerate() {
            desk.ask(number as u64, request);
        }
        let mut replies = BTreeMap::new();
        wait_until("the store's replies", || {
            replies.extend(desk.poll());
            replies.len() == N
        });
        std::array::from_fn(|number| replies[&(number as u64)].clone())
    }

    /// Dead letters: number, consumer's proxy and octets of each.
    pub(super) fn dead_letters(&self) -> Vec<(u64, u32, u64)> {
        let StoreReply::Listed(listed) = self.ask(StoreRequest::List((0, ProxyId(0)))) else { panic!() };
        listed.iter().map(|DeadLetter { number, consumer, bytes, .. }| (*number, consumer.proxy.0, *bytes)).collect()
    }

    pub(super) fn await_dead_letters(&self, count: u64) {
        wait_until("events to be dead letters", || self.counters.read(Counter::DeadLettersStored) == count);
    }

    /// The event that is to be delivered once more.
    pub(super) fn again(&mut self) -> Again {
        let mut answer = None;
        wait_until("an event that is to be delivered once more", || {
            answer = self.link.answers.take();
            answer.is_some()
        });
        let Some(FromStore::Again(again)) = answer else { panic!() };
        *again
    }
}

fn text(record: &[u8]) -> Vec<u8> {
    let mut event = Event::default();
    Record::read(record).unwrap().fill(&mut event, &UtcClock::default());
    event.bytes
}

#[test]
fn an_undeliverable_event_outlives_the_process_beside_its_unconfirmed_consumers_until_it_is_removed() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let alone = lane.send_undeliverable(b"alone", &[CONSUMER]);
    let shared = lane.send_undeliverable(b"shared", &[CONSUMER, OTHER]);
    lane.await_dead_letters(2);
    let both = [(alone.get(), 7, 5), (shared.get(), 7, 6)];
    assert_eq!(lane.dead_letters(), both);
    lane.end();
    // The first is delivered to no consumer any more; the second goes to the consumer that has yet to confirm it, and to no other.
    let mut lane = device.lane(1 << 30);
    let restored: Vec<_> = lane.restored.iter().map(|event| (event.number, event.consumers.as_deref())).collect();
    assert_eq!(restored, [(shared.get(), Some(&[OTHER.proxy][..]))]);
    assert_eq!(lane.dead_letters(), both);
    let how = engine::Disposition::Delivered;
    lane.tell(Completion::Begins { watch: shared, consumer: OTHER });
    lane.tell(Completion::Begun { watch: shared, bridges: 0 });
    lane.tell(Completion::ForConsumer { watch: shared, consumer: OTHER, how });
    lane.tell(Completion::ForAll { watch: shared });
    let request = StoreRequest::Remove(vec![(alone.get(), CONSUMER), (alone.get(), OTHER)]);
    assert_eq!(lane.ask(request), StoreReply::Done { done: 1, missing: 1 });
    assert_eq!(lane.dead_letters(), both[1..]);
    lane.end();
    let lane = device.lane(1 << 30);
    assert!(lane.restored.is_empty());
    assert_eq!(lane.dead_letters(), both[1..]);
    let request = StoreRequest::Remove(vec![(shared.get(), CONSUMER)]);
    assert_eq!(lane.ask(request), StoreReply::Done { done: 1, missing: 0 });
    lane.end();
    assert_eq!(Disk::on(move || device.clone()).unwrap().events().unwrap().0, 0);
}

#[test]
fn of_dead_letters_the_first_goes_at_the_bound_and_all_with_its_channel() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let numbers: Vec<u64> = (0..4).map(|number| lane.send_undeliverable(&[number], &[CONSUMER]).get()).collect();
    wait_until("the first to go", || lane.counters.read(Counter::DeadLettersDropped) == 1);
    assert_eq!(lane.dead_letters().iter().map(|letter| letter.0).collect::<Vec<_>>(), numbers[1..]);
    wait_until("it to be forgotten", || lane.counters.read(Counter::EventsStored) == 3);
    // One alone is more than a channel may have: no other goes for it.
    lane.send_undeliverable(&vec![0; 2 << 20], &[CONSUMER]);
    wait_until("it to go", || lane.counters.read(Counter::DeadLettersDropped) == 2);
    assert_eq!(lane.dead_letters().len(), 3);
    // This one leaves no room for others.
    lane.send_undeliverable(&vec![0; (1 << 20) - 100], &[CONSUMER]);
    wait_until("the others to go", || lane.counters.read(Counter::DeadLettersDropped) == 5);
    assert_eq!(lane.dead_letters().len(), 1);
    let gone = |channel: u32| Changes::from([(StoredPart::Channel(channel).key(), None)]);
    lane.store.write(1, gone(SOURCE.channel.0 + 1));
    wait_until("that to be written", || lane.store.is_free());
    assert_eq!(lane.dead_letters().len(), 1);
    lane.store.write(2, gone(SOURCE.channel.0));
    wait_until("that of the channel to go", || lane.counters.read(Counter::DeadLettersDropped) == 6);
    lane.await_dead_letters(0);
    lane.end();
}

/// A power cut between both would lose it, and one behind them have it delivered to all consumers, those included that have it.
#[test]
fn an_event_that_is_delivered_once_more_is_aside_under_a_new_number_until_its_lane_has_named_its_consumers() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let watch = lane.send_undeliverable(b"again", &[CONSUMER]);
    lane.await_dead_letters(1);
    let request = || StoreRequest::Replay(vec![(watch.get(), CONSUMER)]);
    assert_eq!(lane.ask(request()), StoreReply::Done { done: 1, missing: 0 });
    let Again { number, consumer, record, .. } = lane.again();
    assert!(number > watch.get());
    assert_eq!((consumer, text(&record).as_slice()), (CONSUMER, &b"again"[..]));
    assert_eq!(lane.ask(request()), StoreReply::Done { done: 0, missing: 1 }, "it is not aside any more");
    lane.end();
    let mut lane = device.lane(1 << 30);
    assert!(lane.restored.is_empty());
    assert_eq!(lane.dead_letters(), [(number, 7, 5)]);
    let from = number;
    assert_eq!(lane.ask(StoreRequest::Replay(vec![(from, CONSUMER)])), StoreReply::Done { done: 1, missing: 0 });
    let Again { number, .. } = lane.again();
    assert!(number > from);
    // It may be undeliverable once more, and goes when the consumer has it.
    let watch = NonZeroU64::new(number).unwrap();
    lane.tell(Completion::Begins { watch, consumer: CONSUMER });
    lane.tell(Completion::Begun { watch, bridges: 0 });
    lane.link.messages.send(ToStore::Undeliverable(watch, CONSUMER)).ok().unwrap();
    lane.tell(Completion::ForAll { watch });
    lane.await_dead_letters(1);
    assert_eq!(lane.dead_letters(), [(number, 7, 5)]);
    assert_eq!(lane.ask(StoreRequest::Replay(vec![(number, CONSUMER)])), StoreReply::Done { done: 1, missing: 0 });
    let last = NonZeroU64::new(lane.again().number).unwrap();
    lane.tell(Completion::Begins { watch: last, consumer: CONSUMER });
    lane.tell(Completion::Begun { watch: last, bridges: 0 });
    lane.tell(Completion::ForConsumer { watch: last, consumer: CONSUMER, how: engine::Disposition::Delivered });
    lane.tell(Completion::ForAll { watch: last });
    lane.end();
    assert_eq!(Disk::on(move || device.clone()).unwrap().events().unwrap().0, 0);
}

/// The disk failed, and an operator got the answer that it was done.
#[test]
fn what_is_done_while_the_disk_fails_is_said_to_be_unwritten_and_is_written_later() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let watch = lane.send_undeliverable(b"stays", &[CONSUMER]);
    lane.await_dead_letters(1);
    wait_until("all to be written", || lane.counters.read(Counter::StoreWrites) >= 2);
    device.fail_after(Some(0));
    assert_eq!(lane.ask(StoreRequest::Remove(vec![(watch.get(), CONSUMER)])), StoreReply::NotWritten);
    device.fail_after(None);
    lane.end();
    assert_eq!(Disk::on(move || device.clone()).unwrap().events().unwrap().0, 0);
}

/// It would have been delivered twice, or be gone for good.
#[test]
fn what_two_operators_do_at_once_with_one_event_is_done_once() {
    let device = SimulatedDevice::default();
    let sync_interval = Duration::from_millis(100);
    let mut lane = device.limited(StoreLimits { sync_interval, ..limits(1 << 30) }).with_all();
    let watch = lane.send_undeliverable(b"once", &[CONSUMER]);
    lane.await_dead_letters(1);
    let named = || vec![(watch.get(), CONSUMER)];
    let (did, did_not) = (StoreReply::Done { done: 1, missing: 0 }, StoreReply::Done { done: 0, missing: 1 });
    let requests = [StoreRequest::Replay(named()), StoreRequest::Replay(named()), StoreRequest::Remove(named())];
    assert_eq!(lane.ask_all(requests), [did, did_not.clone(), did_not]);
    let number = lane.again().number;
    assert!(lane.link.answers.take().is_none());
    lane.end();
    let lane = device.lane(1 << 30);
    assert_eq!(lane.dead_letters(), [(number, 7, 4)]);
}

/// What was to be delivered once more was written with all that was to go, again and again: without room for it nothing went, and there
/// never was any.
#[test]
fn what_cannot_be_written_to_be_delivered_once_more_stays_aside_and_keeps_nothing_else_from_going() {
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    let watch = lane.send_undeliverable(b"stays", &[CONSUMER]);
    lane.await_dead_letters(1);
    let request = || StoreRequest::Replay(vec![(watch.get(), CONSUMER)]);
    // It is read, and the write fails, at whichever operation.
    for operations in [0, 1, 2, 4, 8] {
        device.fail_after(Some(operations));
        let reply = lane.ask(request());
        device.fail_after(None);
        if reply == StoreReply::Failed {
            wait_until("it to be written again", || lane.dead_letters().len() == 1);
            assert_eq!(lane.dead_letters(), [(watch.get(), 7, 5)], "{operations}");
            continue;
        }
        panic!("{operations}: {reply:?}");
    }
    lane.end();
    let lane = device.lane(1 << 30);
    assert!(lane.restored.is_empty());
    assert_eq!(lane.dead_letters(), [(watch.get(), 7, 5)]);
}

#[test]
fn a_thousand_are_listed_and_delivered_once_more_in_parts() {
    const COUNT: u64 = 1_000;
    let device = SimulatedDevice::default();
    let dead_letters = DeadLetterLimits { events_max: COUNT, bytes_max: 64 << 20 };
    let mut lane = device.limited(StoreLimits { dead_letters, ..limits(1 << 30) }).with_all();
    let large = lane.send_undeliverable(&vec![0; 60 << 20], &[CONSUMER]).get();
    let mut numbers: Vec<u64> = (0..COUNT).map(|_| lane.send_undeliverable(b"small", &[CONSUMER]).get()).collect();
    wait_until("the first to go", || lane.counters.read(Counter::DeadLettersDropped) == 1);
    assert!(!lane.dead_letters().iter().any(|letter| letter.0 == large));
    numbers.push(lane.send_undeliverable(&vec![0; 60 << 20], &[CONSUMER]).get());
    wait_until("the first of the small ones to go", || lane.counters.read(Counter::DeadLettersDropped) == 2);
    let (mut listed, mut behind) = (Vec::new(), (0, ProxyId(0)));
    while let StoreReply::Listed(some) = lane.ask(StoreRequest::List(behind))
        && let Some(last) = some.last()
    {
        assert!(some.len() <= 256);
        behind = (last.number, last.consumer.proxy);
        listed.extend(some.iter().map(|letter| letter.number));
    }
    assert_eq!(listed, numbers[1..]);
    // The large one comes first, and alone.
    let mut named: Vec<_> = numbers[1..].iter().rev().map(|number| (*number, CONSUMER)).collect();
    let mut parts = Vec::new();
    while !named.is_empty() {
        let StoreReply::Done { done, missing: 0 } = lane.ask(StoreRequest::Replay(named.clone())) else { panic!() };
        parts.push(done);
        named.drain(..done as usize);
        (0..done).for_each(|_| _ = lane.again());
    }
    assert_eq!(parts, [1, 999]);
    assert_eq!(lane.counters.read(Counter::DeadLettersStored), 0);
    lane.end();
}

/// Whatever a process leaves behind when it is killed has the event once: to be delivered or aside, and to no consumer that has it.
#[test]
fn at_each_moment_at_which_a_process_is_killed_an_event_is_there_for_its_consumer_alone() {
    /// Whether it is aside, and the consumers to which it is to be delivered, if they are known.
    fn found(device: &SimulatedDevice) -> (usize, Vec<Option<Vec<ProxyId>>>) {
        let lane = device.stored().lane(1 << 30);
        let restored = lane.restored.iter().map(|event| event.consumers.as_deref().map(<[_]>::to_vec)).collect();
        let listed = lane.dead_letters();
        assert!(listed.iter().all(|letter| letter.1 == CONSUMER.proxy.0));
        lane.end();
        (listed.len(), restored)
    }
    let device = SimulatedDevice::default();
    let mut lane = device.lane(1 << 30);
    lane.send(b"event".to_vec());
    let watch = lane.answer().unwrap();
    // Its consumers are not known yet.
    assert_eq!(found(&device), (0, vec![None]));
    [CONSUMER, OTHER].iter().for_each(|consumer| lane.tell(Completion::Begins { watch, consumer: *consumer }));
    lane.tell(Completion::Begun { watch, bridges: 0 });
    wait_until("its list to be written", || found(&device) == (0, vec![Some(vec![CONSUMER.proxy, OTHER.proxy])]));
    lane.link.messages.send(ToStore::Undeliverable(watch, CONSUMER)).ok().unwrap();
    wait_until("it to be aside", || found(&device) == (1, vec![Some(vec![OTHER.proxy])]));
    lane.tell(Completion::ForConsumer { watch, consumer: OTHER, how: engine::Disposition::Delivered });
    lane.tell(Completion::ForAll { watch });
    wait_until("the other to have it", || found(&device) == (1, Vec::new()));
    let (states, is_over) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                states.lock().unwrap().insert(found(&device));
            }
        });
        for _ in 0..20 {
            let StoreReply::Listed(listed) = lane.ask(StoreRequest::List((0, ProxyId(0)))) else { panic!() };
            let request = StoreRequest::Replay(vec![(listed[0].number, CONSUMER)]);
            assert_eq!(lane.ask(request), StoreReply::Done { done: 1, missing: 0 });
            let watch = NonZeroU64::new(lane.again().number).unwrap();
            lane.tell(Completion::Begins { watch, consumer: CONSUMER });
            lane.tell(Completion::Begun { watch, bridges: 0 });
            wait_until("its list to be written", || found(&device) == (0, vec![Some(vec![CONSUMER.proxy])]));
            lane.link.messages.send(ToStore::Undeliverable(watch, CONSUMER)).ok().unwrap();
            lane.tell(Completion::ForAll { watch });
            lane.await_dead_letters(1);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let states = states.into_inner().unwrap();
    let is_wrong = |(messages, restored): &(usize, Vec<Option<Vec<ProxyId>>>)| {
        messages + restored.len() != 1 || restored.iter().any(|consumers| *consumers != Some(vec![CONSUMER.proxy]))
    };
    assert!(!states.iter().any(is_wrong), "{states:?}");
    lane.end();
}
