//! Events that are kept aside, since each was undeliverable for a consumer. They were dropped, and a counter was all that was left of them.

use super::journal::Again;
use super::requests::{DeadLetter, StoreReply, StoreRequest};
use super::*;

const CONSUMER: ProxyKey = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(7) };
const OTHER: ProxyKey = ProxyKey { channel: SOURCE.channel, proxy: ProxyId(8) };

impl Lane {
    /// Has an event kept, which is for these, and was undeliverable for the first of them.
    fn post_undeliverable(&mut self, octets: &[u8], consumers: &[ProxyKey]) -> NonZeroU64 {
        self.post(octets.to_vec());
        let watch = self.answer().unwrap();
        consumers.iter().for_each(|consumer| self.tell(Settled::Begins { watch, consumer: *consumer }));
        self.tell(Settled::Begun { watch, bridges: 0 });
        self.link.letters.post(ToStore::Undeliverable(watch, consumers[0])).ok().unwrap();
        if consumers.len() == 1 {
            self.tell(Settled::ForAll { watch });
        }
        watch
    }

    fn ask(&self, request: StoreRequest) -> StoreReply {
        let desk = self._reception.desk.as_ref().unwrap();
        desk.ask(1, request);
        let mut reply = None;
        wait_until("the store's reply", || {
            reply = desk.poll();
            reply.is_some()
        });
        reply.unwrap().1
    }

    /// Those that are kept aside: number, consumer's proxy and octets of each.
    fn letters(&self) -> Vec<(u64, u32, u64)> {
        let StoreReply::Listed(letters) = self.ask(StoreRequest::List((0, ProxyId(0)))) else { panic!() };
        letters.iter().map(|DeadLetter { number, consumer, bytes, .. }| (*number, consumer.proxy.0, *bytes)).collect()
    }

    fn await_letters(&self, count: u64) {
        wait_until("events to be kept aside", || self.counters.read(Counter::DeadLettersKept) == count);
    }

    /// The event that is to be delivered once more.
    fn again(&mut self) -> Again {
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
fn an_undeliverable_event_outlives_the_process_beside_those_who_are_yet_to_confirm_it_until_it_is_removed() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let alone = lane.post_undeliverable(b"alone", &[CONSUMER]);
    let shared = lane.post_undeliverable(b"shared", &[CONSUMER, OTHER]);
    lane.await_letters(2);
    let both = [(alone.get(), 7, 5), (shared.get(), 7, 6)];
    assert_eq!(lane.letters(), both);
    lane.end();
    // Of the first nobody hears any more; the second goes to the one who has yet to confirm it, and to nobody else.
    let mut lane = medium.lane(1 << 30);
    let restored: Vec<_> = lane.restored.iter().map(|event| (event.number, event.consumers.as_deref())).collect();
    assert_eq!(restored, [(shared.get(), Some(&[OTHER.proxy][..]))]);
    assert_eq!(lane.letters(), both);
    let how = engine::Settlement::Delivered;
    lane.tell(Settled::Begins { watch: shared, consumer: OTHER });
    lane.tell(Settled::Begun { watch: shared, bridges: 0 });
    lane.tell(Settled::ForConsumer { watch: shared, consumer: OTHER, how });
    lane.tell(Settled::ForAll { watch: shared });
    let request = StoreRequest::Remove(vec![(alone.get(), CONSUMER), (alone.get(), OTHER)]);
    assert_eq!(lane.ask(request), StoreReply::Done { done: 1, missing: 1 });
    assert_eq!(lane.letters(), both[1..]);
    lane.end();
    let lane = medium.lane(1 << 30);
    assert!(lane.restored.is_empty());
    assert_eq!(lane.letters(), both[1..]);
    let request = StoreRequest::Remove(vec![(shared.get(), CONSUMER)]);
    assert_eq!(lane.ask(request), StoreReply::Done { done: 1, missing: 0 });
    lane.end();
    assert_eq!(Disk::on(move || medium.clone()).unwrap().events().unwrap().0, 0);
}

#[test]
fn of_what_is_kept_aside_the_first_goes_at_the_bound_and_all_with_its_channel() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let numbers: Vec<u64> = (0..4).map(|number| lane.post_undeliverable(&[number], &[CONSUMER]).get()).collect();
    wait_until("the first to go", || lane.counters.read(Counter::DeadLettersDropped) == 1);
    assert_eq!(lane.letters().iter().map(|letter| letter.0).collect::<Vec<_>>(), numbers[1..]);
    wait_until("it to be forgotten", || lane.counters.read(Counter::EventsKept) == 3);
    // One alone is more than a channel may have.
    lane.post_undeliverable(&vec![0; 2 << 20], &[CONSUMER]);
    wait_until("all to go", || lane.counters.read(Counter::DeadLettersDropped) == 5);
    assert!(lane.letters().is_empty());
    lane.post_undeliverable(b"one more", &[CONSUMER]);
    lane.await_letters(1);
    let gone = |channel: u32| Changes::from([(KeptPart::Channel(channel).key(), None)]);
    lane.store.write(1, gone(SOURCE.channel.0 + 1));
    wait_until("that to be written", || lane.store.is_free());
    assert_eq!(lane.letters().len(), 1);
    lane.store.write(2, gone(SOURCE.channel.0));
    wait_until("that of the channel to go", || lane.counters.read(Counter::DeadLettersDropped) == 6);
    lane.await_letters(0);
    lane.end();
}

/// Without this a power cut between both would lose it.
#[test]
fn an_event_that_is_delivered_once_more_is_kept_under_a_new_number_when_it_is_aside_no_more() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let watch = lane.post_undeliverable(b"again", &[CONSUMER]);
    lane.await_letters(1);
    let request = || StoreRequest::Replay(vec![(watch.get(), CONSUMER)]);
    assert_eq!(lane.ask(request()), StoreReply::Done { done: 1, missing: 0 });
    let Again { number, consumer, record } = lane.again();
    assert!(number > watch.get());
    assert_eq!((consumer, text(&record).as_slice()), (CONSUMER, &b"again"[..]));
    assert_eq!(lane.ask(request()), StoreReply::Done { done: 0, missing: 1 }, "it is not aside any more");
    lane.end();
    let mut lane = medium.lane(1 << 30);
    let restored: Vec<_> = lane.restored.iter().map(|event| (event.number, text(&event.record))).collect();
    assert_eq!(restored, [(number, b"again".to_vec())]);
    // It may be undeliverable once more, and goes when the consumer has it.
    let watch = NonZeroU64::new(number).unwrap();
    lane.tell(Settled::Begins { watch, consumer: CONSUMER });
    lane.tell(Settled::Begun { watch, bridges: 0 });
    lane.link.letters.post(ToStore::Undeliverable(watch, CONSUMER)).ok().unwrap();
    lane.tell(Settled::ForAll { watch });
    lane.await_letters(1);
    assert_eq!(lane.letters(), [(number, 7, 5)]);
    assert_eq!(lane.ask(StoreRequest::Replay(vec![(number, CONSUMER)])), StoreReply::Done { done: 1, missing: 0 });
    let last = NonZeroU64::new(lane.again().number).unwrap();
    lane.tell(Settled::Begins { watch: last, consumer: CONSUMER });
    lane.tell(Settled::Begun { watch: last, bridges: 0 });
    lane.tell(Settled::ForConsumer { watch: last, consumer: CONSUMER, how: engine::Settlement::Delivered });
    lane.tell(Settled::ForAll { watch: last });
    lane.end();
    assert_eq!(Disk::on(move || medium.clone()).unwrap().events().unwrap().0, 0);
}

/// The disk failed, and an operator was told that it was done.
#[test]
fn what_is_done_while_the_medium_fails_is_said_to_be_unwritten_and_is_written_later() {
    let medium = Medium::default();
    let mut lane = medium.lane(1 << 30);
    let watch = lane.post_undeliverable(b"stays", &[CONSUMER]);
    lane.await_letters(1);
    wait_until("all to be written", || lane.counters.read(Counter::StoreWrites) >= 2);
    medium.fail_after(Some(0));
    assert_eq!(lane.ask(StoreRequest::Remove(vec![(watch.get(), CONSUMER)])), StoreReply::Failed);
    medium.fail_after(None);
    lane.end();
    assert_eq!(Disk::on(move || medium.clone()).unwrap().events().unwrap().0, 0);
}
