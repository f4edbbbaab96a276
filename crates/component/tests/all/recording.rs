//! Recordings of plans, and components that get again what was recorded.

use campanile_component::{PlanFile, Recorded, RecordedEvent, Recording, RecordingReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use testing::{TempPath, wait_until};

/// A plan of one process, with sets of frames and offsets, in a folder.
fn plan(folder: &Path) -> PathBuf {
    let (mount, pairs) = (folder.join("mount.log"), folder.join("pairs.log"));
    let program = env!("CARGO_BIN_EXE_observatory");
    let text = format!(
        "[servers.main]\nprogram = \"{program}\"\n[instances.camera]\ncomponent = \"Camera\"\n[instances.guider]\n\
         component = \"Guider\"\ngain = 0.5\n[instances.mount]\ncomponent = \"Mount\"\nlog = {mount:?}\n[instances.pairs]\n\
         component = \"Pairs\"\nlog = {pairs:?}\n[connections]\n\"camera.frame\" = [\"guider.frame\", \"pairs.frame\"]\n\
         \"guider.offset\" = [\"mount.offset\", \"pairs.offset\"]\n[ports.\"guider.frame\"]\nwhen = \"$number != 2\"\n\
         [ports.\"pairs.frame\"]\nwhen = \"camera.frame and guider.offset same number\"\n"
    );
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, text).unwrap();
    plan
}

/// Runs the plan, recorded, until the mount has moved so often.
fn run(plan: &Path, recording: &Recording, moves: u64) {
    let running = PlanFile::read(plan).unwrap().run_recorded(recording).unwrap();
    let log = plan.with_file_name("mount.log");
    wait_until("the mount to have moved", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.split_once(' ').is_some_and(|(number, _)| number.parse::<u64>().is_ok_and(|number| number >= moves))
    });
    drop(running);
}

/// What the lines of a recording have as `key` for an instance.
fn values(recording: &Path, instance: &str, key: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(recording).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["instance"] == instance).filter_map(|line| line.get(key).cloned()).collect()
}

/// Gives an instance all that was recorded for it, and answers the values that it sent, in hexadecimal digits, and how many it took.
fn replay(plan: &Path, recording: &Path, instance: &str) -> (Vec<String>, u64) {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let noted = sent.clone();
    let file = PlanFile::read(plan).unwrap();
    let mut replay = file
        .replay(instance, move |event| {
            assert_eq!(event.source, "guider.offset");
            noted.lock().unwrap().push(event.value.iter().map(|octet| format!("{octet:02x}")).collect());
        })
        .unwrap();
    let mut reader = RecordingReader::open(recording).unwrap();
    let events: Vec<RecordedEvent> = reader.by_ref().filter(|event| event.instance == instance).collect();
    assert_eq!(reader.damage(), None);
    for event in &events {
        assert!(replay.feed(event, || false).unwrap());
    }
    let replayed = replay.finish(|| false).unwrap().unwrap();
    assert_eq!((replayed.failed, replayed.inactive, replayed.unreadable), (0, 0, 0), "{replayed:?}");
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    (sent, replayed.delivered)
}

#[test]
fn a_component_alone_does_the_same_with_what_was_recorded_for_it() {
    let folder = TempPath::folder("recording");
    let (plan, file) = (plan(&folder), folder.join("night.jsonl"));
    let recording = Recording::create(&file, u64::MAX, &plan).unwrap();
    run(&plan, &recording, 6);
    let recorded = recording.finish();
    assert_eq!((recorded.dropped, &recorded.ended), (0, &None));
    let reader = RecordingReader::open(&file).unwrap();
    assert_eq!(reader.plan(), plan);
    assert_eq!(reader.count() as u64, recorded.events);
    // What the filter does not let through is not there; the sets are, with their numbers.
    let frames = values(&file, "guider", "cdr");
    assert!(
        frames[0].as_str().unwrap().starts_with("01") && frames[1].as_str().unwrap().starts_with("03"),
        "{frames:?}"
    );
    assert_eq!(values(&file, "guider", "source")[0], "camera.frame");
    let sets = values(&file, "pairs", "set");
    assert_eq!(sets[..3], [serde_json::json!([1, 0, 2]), serde_json::json!([1, 1, 2]), serde_json::json!([2, 0, 2])]);

    let (sent, delivered) = replay(&plan, &file, "guider");
    assert_eq!((sent.len(), delivered), (frames.len(), frames.len() as u64));
    let offsets: Vec<_> = values(&file, "mount", "cdr").iter().map(|cdr| cdr.as_str().unwrap().to_owned()).collect();
    assert_eq!(sent[..offsets.len()], offsets);

    // Its sets come again, as they were.
    let before = std::fs::read_to_string(folder.join("pairs.log")).unwrap();
    let (sent, delivered) = replay(&plan, &file, "pairs");
    assert_eq!((sent.len(), delivered), (0, sets.len() as u64));
    let after = std::fs::read_to_string(folder.join("pairs.log")).unwrap();
    assert_eq!(after, format!("{before}{before}"));
}

#[test]
fn a_recording_ends_at_its_size_and_the_plan_runs_on() {
    let folder = TempPath::folder("recording");
    let (plan, file) = (plan(&folder), folder.join("night.jsonl"));
    let recording = Recording::create(&file, 2_000, &plan).unwrap();
    run(&plan, &recording, 12);
    let recorded = recording.finish();
    let size = std::fs::metadata(&file).unwrap().len();
    assert!(size <= 2_000, "{size}");
    assert!(recorded.ended.as_ref().is_some_and(|why| why.contains("and may have 2000")), "{recorded:?}");
    assert!(recorded.dropped > 0, "{recorded:?}");
    let mut reader = RecordingReader::open(&file).unwrap();
    assert_eq!(reader.by_ref().count() as u64, recorded.events);
    assert_eq!(reader.damage(), None);
    let again = Recording::create(&file, 2_000, &plan).unwrap_err();
    assert!(again.ends_with("is there already: remove it, or choose another file"), "{again}");
    // One to which nothing comes, of a plan that does not start, is not in the way of the next.
    std::fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        let recording = Recording::create(&file, 2_000, &plan).unwrap();
        assert!(file.exists());
        assert_eq!(recording.finish(), Recorded::default());
    }
    assert!(!file.exists());
}

/// An instance may send faster than its events are taken: 5,000 are more than any queue between has room for.
#[test]
fn a_replay_loses_nothing_of_what_the_component_sends_while_nobody_takes_it() {
    const EVENTS: usize = 5_000;
    let folder = TempPath::folder("recording");
    let (plan, file) = (plan(&folder), folder.join("night.jsonl"));
    let recording = Recording::create(&file, u64::MAX, &plan).unwrap();
    run(&plan, &recording, 3);
    let _ = recording.finish();
    let frame = RecordingReader::open(&file).unwrap().find(|event| event.instance == "guider").unwrap();
    let (open, opened) = channel::<()>();
    let sent = Arc::<AtomicUsize>::default();
    let count = sent.clone();
    let take = move |_| {
        // Until the sender is dropped.
        let _ = opened.recv();
        count.fetch_add(1, Ordering::Relaxed);
    };
    let mut replay = PlanFile::read(&plan).unwrap().replay("guider", take).unwrap();
    let mut open = Some(open);
    for _ in 0..EVENTS {
        let stops = || {
            // The component does not take more, since what it sends is not taken.
            open = None;
            false
        };
        assert!(replay.feed(&frame, stops).unwrap());
    }
    drop(open);
    let replayed = replay.finish(|| false).unwrap().unwrap();
    assert_eq!((replayed.delivered, replayed.unwritten), (EVENTS as u64, 0), "{replayed:?}");
    assert_eq!(sent.load(Ordering::Relaxed), EVENTS);
}

#[test]
fn a_recording_that_is_cut_or_damaged_is_read_up_to_there() {
    let folder = TempPath::folder("recording");
    let (plan, file) = (plan(&folder), folder.join("night.jsonl"));
    let recording = Recording::create(&file, u64::MAX, &plan).unwrap();
    run(&plan, &recording, 3);
    let events = recording.finish().events;
    let whole = std::fs::read(&file).unwrap();
    let head = whole.iter().position(|octet| *octet == b'\n').unwrap() + 1;
    let read = |octets: &[u8]| {
        std::fs::write(&file, octets).unwrap();
        RecordingReader::open(&file)
            .map(|mut reader| (reader.by_ref().count() as u64, reader.damage().map(str::to_owned)))
    };
    for cut in 0..whole.len() {
        let outcome = read(&whole[..cut]);
        if cut < head {
            assert!(
                outcome.unwrap_err().ends_with("is no recording of a plan, as campanile deploy run --record makes one")
            );
            continue;
        }
        let (count, damage) = outcome.unwrap();
        let lines = whole[..cut].split_inclusive(|octet| *octet == b'\n').filter(|line| line.ends_with(b"\n"));
        assert_eq!(count, lines.filter(|line| line.starts_with(b"{\"came\"")).count() as u64, "cut at {cut}");
        assert_eq!(damage.is_some(), whole[cut - 1] != b'\n', "cut at {cut}: {damage:?}");
    }
    // A hole, as a power cut leaves one.
    let mut hole = whole.clone();
    let last = whole[..whole.len() - 1].iter().rposition(|octet| *octet == b'\n').unwrap();
    hole[last + 10..last + 20].fill(0);
    let (count, damage) = read(&hole).unwrap();
    let lines = whole.split(|octet| *octet == b'\n').count() - 1;
    assert_eq!(
        (count, damage),
        (events - 1, Some(format!("{} is damaged from line {lines} on: it is no line of a recording", file.display())))
    );
    let long = [&whole[..head], &vec![b'a'; 41 * 1024 * 1024]].concat();
    let (count, damage) = read(&long).unwrap();
    assert!(count == 0 && damage.is_some_and(|damage| damage.ends_with("from line 2 on: it is longer than 40 MiB")));
    let other = String::from_utf8(whole).unwrap().replacen("\"endian\":\"", "\"endian\":\"not ", 1);
    assert!(read(other.as_bytes()).unwrap_err().contains("was recorded on a machine with not "));
}

#[test]
fn what_is_not_as_it_was_recorded_is_said() {
    let folder = TempPath::folder("recording");
    let (plan, file) = (plan(&folder), folder.join("night.jsonl"));
    let recording = Recording::create(&file, u64::MAX, &plan).unwrap();
    run(&plan, &recording, 3);
    let _ = recording.finish();
    let known = PlanFile::read(&plan).unwrap();
    let nobody = known.replay("gyder", |_| {}).unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "instances.gyder: there is no such instance; there are: camera, guider, mount, pairs"
    );
    // A value that is none of its type, and a port that is gone.
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, line) =
        (text.lines().next().unwrap(), text.lines().find(|line| line.contains("\"instance\":\"mount\"")));
    let with = |key: &str, value: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
        line[key] = value.into();
        line
    };
    let mut beyond = with("source", "guider.offset");
    beyond["set"] = serde_json::json!([1, u32::MAX, 2]);
    let lines = [with("port", "gone"), with("cdr", "00"), beyond].map(|line| format!("{line}\n")).concat();
    std::fs::write(&file, format!("{head}\n{lines}")).unwrap();
    let mut replay = known.replay("mount", |_| {}).unwrap();
    for event in RecordingReader::open(&file).unwrap() {
        assert!(replay.feed(&event, || false).unwrap());
    }
    let replayed = replay.finish(|| false).unwrap().unwrap();
    assert_eq!((replayed.unreadable, replayed.delivered), (3, 0));
    assert!(replayed.reason.is_some_and(|reason| reason.contains("mount has no sink gone")));
}
