//! The thread's answers to a lane, in their order.

use engine::{ChannelLimits, HistoryLimits, NoFields, Overflow, SettingsPatch};

use super::*;
use crate::counters::Counters;
use crate::log::tests::{Engine, Folder};

/// The first event of a channel is remembered behind the request of a consumer that begins in its history: the lane has it from the history
/// or, if it is told that there is none, has it still in memory when that answer comes.
#[test]
fn that_there_is_no_history_yet_is_answered_before_the_first_event_is_written() {
    let folder = Folder::new("first");
    let administration = Arc::new(Waker::new().unwrap());
    let (mut reception, _inquirer) = start(Options {
        directory: &folder.0,
        history_bytes_max: 1 << 20,
        channels: &[],
        origin: time::now(),
        types: Arc::default(),
        counters: Counters::new(1).of_main(None),
        administration: &administration,
    })
    .unwrap();
    let waker = Arc::new(Waker::new().unwrap());
    let (mut lane, slot) = link(LaneThread::MAIN, &waker, &mut reception);
    let history = HistoryLimits { events: 10, ..HistoryLimits::default() };
    let limits = ChannelLimits { history, ..ChannelLimits::default() };
    let settings = SettingsPatch { start_from: Some(StartFrom::First), ..SettingsPatch::default() };
    let mut engine = Engine::with(settings, limits, 1, None);
    // Both are there before the thread looks.
    engine.publish(b"first", Time(0), |errand| {
        let message = match errand {
            Overflow::FetchHistory { outbox, consumer, start, bytes } => {
                ToOverflow::FetchHistory(outbox, consumer, start, bytes)
            }
            Overflow::Remember { event, limits } => ToOverflow::Remember(event, limits),
            other => panic!("{other:?}"),
        };
        lane.messages.send_quietly(message).unwrap();
    });
    assert_eq!(lane.messages.capacity() - lane.messages.room(), 2);
    reception.introductions.send(slot).ok().unwrap();
    let mut answers = Vec::new();
    testing::wait_until("both to be answered", || {
        lane.answers.look();
        answers.extend(core::iter::from_fn(|| lane.answers.take()));
        answers.len() == 2
    });
    for answer in answers {
        match answer {
            FromOverflow::FetchedHistory(outbox, chunk) if chunk.records.is_empty() => {
                engine.lane.end_history_fetch(outbox, chunk.fetched, &NoFields, Time(0));
            }
            FromOverflow::Remembered(event) => engine.lane.note_remembered(event, Time(0)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(engine.lane.counters().history.recalled, 1);
    drop(lane);
    reception.end();
}
