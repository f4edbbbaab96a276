//! The threads between the main lane and DDS: for each join of a channel to a partition, one that reads and one that writes.
//!
//! They know Cyclone, topics and types, and may wait; the lane does not (see [`crate::protocols::dds`]). Joins share only the participant
//! of their domain: slow readers in DDS delay their own join only, and [not for ever](::dds::SuspendedReaders).

mod events;
mod reading;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ::dds::{History, Multicast, Naming, Options, Participant, Qos, WrittenTopics};

use crate::config::{Dds, DdsJoin, DdsMulticast, DdsPreset};
use crate::protocols::dds::{Board, ThreadEnds};

/// Maximum wait before a thread checks whether the service has ended.
const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// Maximum topics of a join in each direction.
const TOPICS_MAX: usize = 256;

/// The threads of all joins. They end after the main lane.
#[derive(Default)]
pub(crate) struct Bridge {
    threads: Vec<JoinHandle<()>>,
    /// Set if the lane never began.
    is_over: Arc<AtomicBool>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed that already.
            let _panicked = thread.join();
        }
    }
}

/// Joins with threads that are about to begin.
pub(crate) struct Begun {
    pub(crate) bridge: Bridge,
    /// Introductions by which each join's threads get their ends, in the order of the configuration.
    pub(crate) introductions: Vec<SyncSender<ThreadEnds>>,
    /// Status boards of the joins.
    pub(crate) boards: Vec<Board>,
}

/// Joins the domains, and starts the threads.
///
/// # Errors
/// The reason why a join is impossible.
pub(crate) fn begin(config: &Dds, message_bytes_max: usize) -> Result<Begun, String> {
    let options = options(config);
    let mut participants: BTreeMap<u32, Participant> = BTreeMap::new();
    let mut bridge = Bridge::default();
    let (mut introductions, mut boards) = (Vec::new(), Vec::new());
    for join in &config.joins {
        let participant = match participants.get(&join.domain) {
            Some(participant) => participant.clone(),
            None => {
                let participant =
                    Participant::called(join.domain, &options, "campanile").map_err(|error| error.to_string())?;
                participants.insert(join.domain, participant.clone());
                participant
            }
        };
        let participant = participant.with_naming(naming(join));
        let (to_reader, for_reader) = sync_channel(1);
        let (to_writer, for_writer) = sync_channel(1);
        let (introduce, introduced) = sync_channel::<ThreadEnds>(1);
        let others = config.joins.iter().filter(|other| other.domain == join.domain && *other != join);
        let others = others.map(|other| [other.partition().to_owned()]).collect();
        // The writing thread makes topics, with which the reading thread compares readers.
        let (written, board) = (WrittenTopics::default(), Board::default());
        let shared = (written.clone(), Arc::clone(&board));
        let reader = reading::Reading::new(participant.clone(), join.clone(), others, shared, message_bytes_max)?;
        let hold_timeout = DdsJoin::millis(config.hold_timeout_ms);
        let writer = writing::Writing::new(participant, join.clone(), written, hold_timeout);
        let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = Builder::new().name(name.into()).spawn(run).map_err(|error| error.to_string())?;
            bridge.threads.push(thread);
            Ok::<(), String>(())
        };
        let is_over = Arc::clone(&bridge.is_over);
        let both = move || {
            let ThreadEnds { reading, writing } = loop {
                match introduced.recv_timeout(LOOKS_AFTER) {
                    Ok(ends) => break ends,
                    Err(RecvTimeoutError::Timeout) if !is_over.load(Ordering::Relaxed) => {}
                    Err(_) => return,
                }
            };
            let _gone = to_writer.send(writing);
            let _gone = to_reader.send(reading);
        };
        spawn("dds-begins", Box::new(both))?;
        spawn(
            "dds-reads",
            Box::new(move || {
                if let Ok(Some(ends)) = for_reader.recv() {
                    reader.run(ends);
                }
            }),
        )?;
        spawn(
            "dds-writes",
            Box::new(move || {
                if let Ok(Some(ends)) = for_writer.recv() {
                    writer.run(ends);
                }
            }),
        )?;
        introductions.push(introduce);
        boards.push(board);
    }
    Ok(Begun { bridge, introductions, boards })
}

fn options(config: &Dds) -> Options {
    Options {
        interface: config.interface.clone(),
        multicast: match config.multicast {
            DdsMulticast::Automatic => Multicast::Automatic,
            DdsMulticast::Discovery => Multicast::Discovery,
            DdsMulticast::Never => Multicast::Never,
        },
        peers: config.peers.clone(),
        peer_participants_max: config.peer_participants_max,
        writer_bytes_max: config.writer_bytes_max,
        more: config.cyclone.clone(),
        ..Options::default()
    }
}

const fn naming(join: &DdsJoin) -> Naming {
    match join.preset {
        DdsPreset::Plain => Naming::Idl,
        DdsPreset::Ros2 => Naming::Ros2,
    }
}

/// The quality of service of a join's writers and readers.
fn qos(join: &DdsJoin) -> Qos {
    Qos {
        reliable: join.reliable,
        blocking_max: Duration::from_secs(1),
        history: History::KeepAll,
        samples_max: join.samples_max,
        late_joiners: join.late_joiners,
        deadline: DdsJoin::millis(join.deadline_ms),
        lifespan: DdsJoin::millis(join.lifespan_ms),
        transport_priority: join.transport_priority,
        partitions: Some(join.partition().to_owned()).filter(|name| !name.is_empty()).into_iter().collect(),
        ignore_own: true,
        user_data: ::dds::OWN_USER_DATA.to_vec(),
    }
}

/// Prefix of ROS 2 topics.
const ROS_TOPICS: &str = "rt/";

/// Name of the topic for an event type.
fn topic_of(join: &DdsJoin, type_name: &str) -> String {
    match (join.topics.get(type_name), join.preset) {
        (Some(topic), _) => topic.clone(),
        (None, DdsPreset::Plain) => type_name.to_owned(),
        (None, DdsPreset::Ros2) => format!("{ROS_TOPICS}{type_name}"),
    }
}

/// Event type of a topic; `None` if the join does not read it.
fn type_of_topic<'t>(join: &'t DdsJoin, topic: &'t str) -> Option<&'t str> {
    let is_read = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => topic.starts_with(beginning),
        None => pattern == topic,
    };
    if !join.read.iter().any(is_read) {
        return None;
    }
    if let Some((type_name, _)) = join.topics.iter().find(|(_, known)| *known == topic) {
        return Some(type_name);
    }
    // An event type with an entry in the table has another topic than this.
    let plain = match join.preset {
        DdsPreset::Plain => topic,
        DdsPreset::Ros2 => topic.strip_prefix(ROS_TOPICS)?,
    };
    (!join.topics.contains_key(plain)).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(text: &str) -> DdsJoin {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn topics_and_event_types_are_each_others() {
        let plain = join("channel = \"A\"\ntopics = { Wind = \"w\" }");
        for (type_name, topic) in [("Wind", "w"), ("Rain", "Rain")] {
            assert_eq!(topic_of(&plain, type_name), topic);
            assert_eq!(type_of_topic(&plain, topic), Some(type_name));
        }
        assert_eq!(type_of_topic(&plain, "Wind"), None, "that event type is another topic");
        let ros = join("channel = \"A\"\npreset = \"ros2\"\nread = [\"rt/cam*\", \"rt/odom\"]");
        assert_eq!(topic_of(&ros, "odom"), "rt/odom");
        assert_eq!(type_of_topic(&ros, "rt/camera/left"), Some("camera/left"));
        assert_eq!(type_of_topic(&ros, "rt/odom"), Some("odom"));
        assert_eq!((type_of_topic(&ros, "rt/odometer"), type_of_topic(&ros, "rq/odom")), (None, None));
    }
}
