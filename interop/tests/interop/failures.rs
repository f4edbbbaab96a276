//! Clients that die, hang or refuse, and the others, which do not notice.

use service::{Counter, Service};

use crate::restarts::begin;
use interop::{Ended, Orb, first_consumer, further_consumer, service, supplier, wait_for_count};
use testing::TempPath;

const EVENTS: u32 = 300;

fn all() -> String {
    format!("--form structured --scenario small --count {EVENTS}")
}

/// With this the service gives up a fifth of a second after a consumer cannot be reached any more. On a busy machine a good consumer may be
/// slow to answer, too: only one that is to fail by its silence also has to answer within that time.
const GIVE_UP_SOON: &str = "--qos GiveUpAfter=time:2000000";
const IMPATIENT: &str = "--qos ReplyTimeout=time:2000000 --qos GiveUpAfter=time:2000000";

/// Waits until the service has let go of every consumer of a channel. Each turn asks it.
fn wait_until_alone(service: &Service, channel: &str) {
    testing::wait_until("all consumers to be let go", || push_suppliers(service, channel).is_empty());
}

/// Ids of the proxies that push to the consumers of a channel.
fn push_suppliers(service: &Service, channel: &str) -> Vec<i32> {
    let orb = client::Orb::new(client::OrbOptions::default());
    let factory = client::notify::EventChannelFactory::narrow(
        orb.resolve(&service.corbaloc("NotificationService")).expect("the URL is well formed"),
    );
    let channel = factory.and_then(|factory| factory.get_event_channel(channel.parse().expect("a number")));
    channel.and_then(|channel| channel.default_consumer_admin()?.push_suppliers()).expect("the service answers")
}

#[test]
fn a_consumer_killed_in_the_middle_is_disconnected_and_the_others_get_everything() {
    for (of_dead, of_good) in Orb::PAIRINGS {
        let service = service();
        let (good, channel) = first_consumer(of_good, &service, &all());
        let mut dead = further_consumer(of_dead, &service, &channel, &format!("{} {GIVE_UP_SOON}", all()));
        let mut supplier = supplier(of_good, &service, &channel, "--form structured --scenario small --step");
        supplier.tell("push 100");
        dead.wait_for("ok 50");
        dead.kill();
        supplier.tell("push 200");
        good.end().received_all(EVENTS);
        wait_for_count(&service, Counter::ConsumersGivenUp, 1);
        wait_until_alone(&service, &channel);
        supplier.quit().well();
    }
}

#[test]
fn a_consumer_that_hangs_is_disconnected_and_the_others_get_everything() {
    // It went on only when the supplier and the other consumer had ended, and on a busy machine that once took longer than the
    // ten seconds for which the service waits for an answer to its notice. The connection was closed by then; what the consumer
    // answered to the events before the notice was met with a reset, which takes with it what was not read: the consumer
    // never found the notice, and the test waited for it for ever.
    for of_hanging in Orb::ALL {
        let service = service();
        let (good, channel) = first_consumer(Orb::OmniOrb, &service, &all());
        let mut hanging = further_consumer(of_hanging, &service, &channel, &format!("{} {IMPATIENT}", all()));
        hanging.freeze();
        let supplier = supplier(Orb::JacOrb, &service, &channel, &all());
        wait_for_count(&service, Counter::ConsumersGivenUp, 1);
        // What it was sent before it was given up is in its socket; what comes after is nothing but the notice.
        hanging.thaw();
        hanging.wait_for("disconnected");
        supplier.end().well();
        good.end().received_all(EVENTS);
    }
}

#[test]
fn a_consumer_that_raises_disconnected_is_disconnected() {
    for orb in Orb::ALL {
        let service = service();
        let (good, channel) = first_consumer(Orb::JacOrb, &service, &all());
        let mut leaving =
            further_consumer(orb, &service, &channel, &format!("{} --raise disconnected --raise-at 7", all()));
        let supplier = supplier(Orb::OmniOrb, &service, &channel, &all());
        leaving.wait_for("raised 7");
        good.end().received_all(EVENTS);
        supplier.end().well();
        wait_until_alone(&service, &channel);
        let ended = leaving.quit();
        assert_eq!(ended.numbers(), (0..7).collect::<Vec<_>>());
    }
}

#[test]
fn a_consumer_that_no_longer_exists_is_disconnected() {
    for orb in Orb::ALL {
        let service = service();
        let words = format!("{} --raise object_not_exist --raise-at 3", all());
        let (mut gone, channel) = first_consumer(orb, &service, &words);
        let supplier = supplier(Orb::OmniOrb, &service, &channel, &all());
        gone.wait_for("raised 3");
        supplier.end().well();
        wait_until_alone(&service, &channel);
    }
}

/// An exception that may pass is tried again, before later events; what the consumer gets is complete and in order.
#[test]
fn a_passing_exception_loses_nothing() {
    for orb in Orb::ALL {
        for exception in ["transient", "no_resources"] {
            let service = service();
            let words = format!("{} --raise {exception} --raise-at 11 --raise-times 3", all());
            let (consumer, channel) = first_consumer(orb, &service, &words);
            supplier(Orb::OmniOrb, &service, &channel, &all()).end().well();
            let ended = consumer.end().received_all(EVENTS);
            let raised = ended.lines.iter().filter(|line| line.starts_with("raised ")).count();
            assert_eq!(raised, 3, "{ended}");
            assert_eq!(service.counters().read(Counter::PushExceptions), 3);
        }
    }
}

/// A consumer that cannot take one event still gets all the others.
#[test]
fn a_refusal_that_will_not_pass_costs_one_event() {
    for orb in Orb::ALL {
        let service = service();
        let words =
            format!("--form structured --scenario small --gaps --raise marshal --raise-at 4 --count {}", EVENTS - 1);
        let (consumer, channel) = first_consumer(orb, &service, &words);
        supplier(Orb::OmniOrb, &service, &channel, &all()).end().well();
        let expected: Vec<u32> = (0..EVENTS).filter(|number| *number != 4).collect();
        assert_eq!(consumer.end().well().numbers(), expected);
        wait_for_count(&service, Counter::DroppedRejected, 1);
    }
}

/// A consumer that refused a sequence of ten for one event in it lost all ten, acknowledged persistent ones too.
#[test]
fn a_sequence_that_is_refused_for_one_event_costs_that_event_alone() {
    for orb in Orb::ALL {
        for exception in ["bad_param", "unknown", "marshal", "surprise"] {
            let service = service();
            let (mut consumer, channel) = first_consumer(orb, &service, &refusing(exception));
            let mut supplier = supplier(Orb::OmniOrb, &service, &channel, TENS);
            supplier.tell("push 20");
            consumer.wait_for("got 0 19");
            assert_eq!(service.counters().read(Counter::DroppedRejected), 1);
            assert!(all_but_the_bad_one(&consumer.quit(), 20));
            supplier.quit().well();
        }
    }
}

/// The same where the events are to outlive the service: none of them is lost, and the bad one does not come back after a restart.
#[test]
fn a_persistent_sequence_that_is_refused_for_one_event_costs_that_event_alone() {
    for orb in Orb::ALL {
        let folder = TempPath::new(&format!("refused-{orb:?}"));
        let service = begin(&folder, &format!("{}:0", testing::own_loopback()));
        let listen = service.address().to_string();
        let words = format!("{} {PERSISTENT}", refusing("bad_param"));
        let (mut consumer, channel) = first_consumer(orb, &service, &words);
        let mut supplier = supplier(Orb::JacOrb, &service, &channel, TENS);
        supplier.tell("push 20");
        consumer.wait_for("got 0 19");
        let refusals = consumer.count("refused ");
        assert_eq!(service.counters().read(Counter::DroppedRejected), 1);
        service.shutdown();
        let service = begin(&folder, &listen);
        supplier.tell("push 10");
        consumer.wait_for("got 0 29");
        assert_eq!(consumer.count("refused "), refusals, "it was settled as dropped");
        assert_eq!(service.counters().read(Counter::DroppedRejected), 0);
        assert!(all_but_the_bad_one(&consumer.quit(), 30));
        supplier.quit().well();
    }
}

/// An exception that may pass, raised whenever one event comes: a consumer was stuck at it for ever, and nothing behind it arrived. What
/// was acknowledged is kept aside, and does not come back by a restart.
#[test]
fn a_persistent_event_at_which_a_consumer_raises_each_time_is_a_dead_letter_and_blocks_nothing_behind_it() {
    for orb in Orb::ALL {
        for exception in ["transient", "no_resources"] {
            let folder = TempPath::new(&format!("aside-{orb:?}-{exception}"));
            let service = begin(&folder, &format!("{}:0", testing::own_loopback()));
            let listen = service.address().to_string();
            let words =
                format!("--form structured --scenario small --tell --refuse {BAD} --raise {exception} {PERSISTENT}");
            let (mut consumer, channel) = first_consumer(orb, &service, &words);
            let mut supplier = supplier(Orb::OmniOrb, &service, &channel, "--form structured --scenario small --step");
            supplier.tell("push 20");
            consumer.wait_for("got 0 19");
            wait_for_count(&service, Counter::DroppedUndeliverable, 1);
            wait_for_count(&service, Counter::DeadLettersStored, 1);
            wait_for_count(&service, Counter::EventsStored, 1);
            let refusals = consumer.count("refused ");
            assert!(refusals >= 5, "{refusals}, which is DeliveryAttempts");
            service.shutdown();
            let service = begin(&folder, &listen);
            supplier.tell("push 10");
            consumer.wait_for("got 0 29");
            assert_eq!(consumer.count("refused "), refusals, "it came back");
            wait_for_count(&service, Counter::DeadLettersStored, 1);
            all_but_the_bad_one(&consumer.quit(), 30);
            supplier.quit().well();
        }
    }
}

/// Pushes sequences of ten.
const TENS: &str = "--form sequence --scenario small --batch 10 --step";
const BAD: u32 = 7;
const PERSISTENT: &str = "--channel-qos EventReliability=short:1 --channel-qos ConnectionReliability=short:1";

/// Takes sequences of ten, and raises an exception for each that has the bad event, when it has processed those before it.
fn refusing(exception: &str) -> String {
    format!(
        "--form sequence --scenario small --tell --refuse {BAD} --raise {exception} --qos MarkRepeats=boolean:true \
         --qos MaximumBatchSize=long:10 --qos PacingInterval=time:600000000"
    )
}

/// Asserts that all came but the bad one, none twice without a mark. Says whether any had one.
#[track_caller]
fn all_but_the_bad_one(ended: &Ended, count: u32) -> bool {
    let told = |line: &String| {
        let (number, repeat) = line.strip_prefix("got 0 ")?.split_once(' ')?;
        Some((number.parse::<u32>().ok()?, repeat == "marked"))
    };
    let told: Vec<(u32, bool)> = ended.lines.iter().filter_map(told).collect();
    let expected: Vec<u32> = (0..count).filter(|number| *number != BAD).collect();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (at, (number, marked)) in told.iter().enumerate() {
        let came_before = told[..at].iter().any(|(before, _)| before == number);
        let comes_again = told[at + 1..].iter().any(|(later, _)| later == number);
        assert!(*marked || !came_before, "event {number} came again without a mark: {told:?}");
        if !came_before {
            first.push(*number);
        }
        if !comes_again {
            last.push(*number);
        }
    }
    assert_eq!((&first, &last), (&expected, &expected), "{told:?}");
    told.iter().any(|(_, marked)| *marked)
}

/// omniORB takes messages of 2 MiB (`giopMaxMsgSize`), and answers `MessageError` to one of 3 MB. Nothing behind it arrived, and the consumer
/// was disconnected after a minute although it answered probes.
#[test]
fn an_event_larger_than_a_consumers_orb_takes_blocks_nothing_behind_it() {
    let service = service();
    let words = "--form structured --scenario small";
    let (mut consumer, channel) = first_consumer(Orb::OmniOrb, &service, &format!("{words} --count 20"));
    let mut supplier = supplier(Orb::OmniOrb, &service, &channel, &format!("{words} --step"));
    supplier.tell("push 10");
    consumer.wait_for("ok 9");
    let large = client::SimpleSupplier::connect(&service.corbaloc("NotificationService"), channel.parse().ok());
    let mut event = client::notify::StructuredEvent::new("Test", "Large", "");
    event.filterable_data.push(client::notify::Property::new("padding", "x".repeat(3 << 20).as_str()));
    large.expect("it connects").publish(&event).expect("it is taken");
    supplier.tell("push 10");
    consumer.end().received_all(20);
    supplier.quit().well();
    wait_for_count(&service, Counter::DroppedUndeliverable, 1);
    assert_eq!(service.counters().read(Counter::ConsumersGivenUp), 0);
}

#[test]
fn exceptions_that_corba_knows_nothing_of_do_not_end_a_subscription() {
    for orb in Orb::ALL {
        let service = service();
        let words =
            format!("--form structured --scenario small --gaps --raise surprise --raise-at 4 --count {}", EVENTS - 1);
        let (consumer, channel) = first_consumer(orb, &service, &words);
        supplier(Orb::OmniOrb, &service, &channel, &all()).end().well();
        let ended = consumer.end().well();
        assert!(ended.numbers().len() >= EVENTS as usize - 1, "{ended}");
    }
}

#[test]
fn a_supplier_killed_in_the_middle_takes_nothing_with_it() {
    for (of_dead, of_other) in Orb::PAIRINGS {
        let service = service();
        let (consumer, channel) =
            first_consumer(of_other, &service, "--form structured --scenario small --count 400 --every 0");
        let words = "--form structured --scenario small --step --source 1";
        let mut dead = supplier(of_dead, &service, &channel, words);
        dead.tell("push 150");
        dead.wait_for("pushed 150");
        dead.kill();
        let words = "--form structured --scenario small --count 250 --source 2";
        supplier(of_other, &service, &channel, words).end().well();
        consumer.end().well();
    }
}

/// The service cannot know whether an event that was not answered in time arrived, so it pushes it again, before later ones.
/// The consumer prints the second one as `bad`.
#[test]
fn a_consumer_that_answers_too_late_gets_the_event_again_and_then_the_rest() {
    for orb in Orb::ALL {
        let service = service();
        let words = "--form structured --scenario small --gaps --stall-at 5 --qos ReplyTimeout=time:1000000";
        let (mut late, channel) = first_consumer(orb, &service, words);
        let supplier = supplier(Orb::OmniOrb, &service, &channel, &all());
        late.wait_for("stalled 5");
        wait_for_count(&service, Counter::PushTimeouts, 1);
        late.tell("resume");
        late.wait_for(&format!("ok {}", EVENTS - 1));
        supplier.end().well();
        let ended = late.quit();
        let numbers = ended.numbers();
        assert_eq!(numbers, (0..EVENTS).collect::<Vec<_>>());
    }
}
