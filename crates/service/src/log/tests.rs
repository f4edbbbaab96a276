//! A log after each kind of end, whatever it is for.

use core::num::NonZeroU64;

use engine::{
    AdminId, ChannelLimits, Form, Hierarchy, Lane, NoFields, OutputForm, Overflow, Peer, ProxyKey, ProxyKind,
    SettingsPatch, Side, Time,
};
use testing::TempPath;

use super::segment::HEADER;
use super::*;
use crate::store::record::Record;

const BOOT: [u8; 16] = [1; 16];
const LIMITS: SegmentLimits = SegmentLimits { bytes: 64 << 10, records: 3, oldest: 0 };

fn encode(event: &Event, out: &mut Vec<u8>) -> u64 {
    out.extend_from_slice(&event.bytes);
    9
}

/// A folder that goes with its test.
pub(crate) struct Folder(pub(crate) TempPath);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(TempPath::folder(name))
    }

    fn open(&self, boot: [u8; 16]) -> Log<()> {
        Log::open(self.0.to_path_buf(), boot, "log", &mut Desk::through_cache()).unwrap()
    }
}

/// An engine with one channel, and consumers that take nothing.
pub(crate) struct Engine {
    pub(crate) lane: Lane,
    source: ProxyKey,
    pub(crate) consumers: Vec<ProxyKey>,
}

impl Engine {
    pub(crate) fn new(limits: ChannelLimits, consumers: usize, next: Option<NonZeroU64>) -> Self {
        Self::with(SettingsPatch::default(), limits, consumers, next)
    }

    pub(crate) fn with(
        settings: SettingsPatch,
        limits: ChannelLimits,
        consumers: usize,
        next: Option<NonZeroU64>,
    ) -> Self {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(settings, limits).unwrap();
        let mut proxy = |side| {
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
            key
        };
        let source = proxy(Side::Suppliers);
        let consumers: Vec<ProxyKey> = (0..consumers).map(|_| proxy(Side::Consumers)).collect();
        for key in &consumers {
            hierarchy.note_start(*key, None).unwrap();
            hierarchy.suspend(*key).unwrap();
        }
        let mut lane = Lane::new(Time(0));
        lane.allow_overflow();
        lane.continue_histories(next.map(|next| (channel, next)));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        Self { lane, source, consumers }
    }

    /// Publishes an event of these octets, and passes what is to be done for it to `take`.
    pub(crate) fn publish(&mut self, octets: &[u8], now: Time, mut take: impl FnMut(Overflow)) {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.extend(octets);
        self.lane.classify(&mut pending_event, b"domain", b"name");
        self.lane.handle_event(self.source, pending_event, &NoFields, now);
        while let Some(errand) = self.lane.poll_overflow() {
            take(errand);
        }
    }
}

/// Writes so many records, each with its number.
fn write(log: &mut Log<()>, count: u64, desk: &mut Desk) {
    for _ in 0..count {
        let (mut event, number) = (Event::default(), log.next());
        event.bytes.extend(number.to_le_bytes());
        log.push(number, Arc::new(event));
    }
    while !log.pending().is_empty() {
        log.write(&LIMITS, encode, desk, |(), _, _| ()).unwrap();
    }
}

/// The numbers that a cursor gets from one on, and how many it passed over.
fn numbers(log: &mut Log<()>, from: u64) -> (Vec<u64>, u64) {
    let (mut cursor, mut numbers, mut lost) = (Cursor::at(from), Vec::new(), 0);
    loop {
        let step = log.read(&mut cursor, (40, false), (encode, &mut Desk::through_cache()), |_, record| {
            assert_eq!((record.body, record.time), (&record.number.to_le_bytes()[..], 9));
            numbers.push(record.number);
            true
        });
        match step.unwrap() {
            Step::Segment => {}
            Step::PassedOver { segment, from, .. } => lost += segment.last + 1 - from,
            Step::End => return (numbers, lost),
        }
    }
}

#[test]
fn a_segment_is_of_an_epoch_which_ends_where_numbers_may_have_been_lost() {
    let (folder, mut desk) = (Folder::new("log-epoch"), Desk::default());
    let ends = |path: &Path| {
        fs::read(path).unwrap()[32..HEADER]
            .as_chunks::<8>()
            .0
            .iter()
            .copied()
            .map(u64::from_le_bytes)
            .collect::<Vec<_>>()
    };
    let mut log = folder.open(BOOT);
    write(&mut log, 4, &mut desk);
    assert_eq!(log.segments().iter().map(|segment| ends(segment.path())).collect::<Vec<_>>(), [[1, 1], [1, 4]]);
    // A process that is killed loses nothing; a machine may.
    assert_eq!((folder.open(BOOT).next(), folder.open(BOOT).origin.epoch), (5, 1));
    let mut log = folder.open([2; 16]);
    assert_eq!((log.next(), log.origin.epoch), (4 + SKIPPED, 2));
    write(&mut log, 1, &mut desk);
    log.finish(true, &mut desk).unwrap();
    assert_eq!(ends(log.segments().back().unwrap().path()), [2, 4 + SKIPPED]);
    assert_eq!(numbers(&mut log, 2), (vec![2, 3, 4, 4 + SKIPPED], 0));
    fs::remove_file(log.segments()[1].path()).unwrap();
    let mut log = folder.open([3; 16]);
    assert_eq!((log.next(), log.origin.epoch), (5 + SKIPPED, 2), "it was finished");
    assert_eq!(numbers(&mut log, 1), (vec![1, 2, 3, 4 + SKIPPED], 0));
}

/// Cut anywhere, or with any octet changed, before it is opened and after.
#[test]
fn of_a_damaged_segment_what_is_before_is_read_and_what_is_behind_it_too() {
    let mut whole = Vec::new();
    for at in 0..2 * (HEADER + 3 * 32) {
        let (folder, mut desk) = (Folder::new("log-damaged"), Desk::through_cache());
        let mut log = folder.open(BOOT);
        write(&mut log, 4, &mut desk);
        let path = log.segments()[0].path().to_owned();
        if whole.is_empty() {
            whole = fs::read(&path).unwrap();
        }
        let (cut, at) = (at % 2 == 0, at / 2);
        let mut octets = whole.clone();
        if cut {
            octets.truncate(at);
        } else {
            octets[at] ^= 0x10;
        }
        fs::write(&path, &octets).unwrap();
        let is_of_header = at < HEADER;
        let good = u64::try_from(at.saturating_sub(HEADER) / 32).unwrap();
        let (read, lost) = numbers(&mut log, 1);
        let first = if is_of_header && !cut { 3 } else { good };
        if cut {
            // It is not said which of what is left is whole.
            assert!(read.ends_with(&[4]) && read.len() as u64 + lost == 4 && lost >= 3 - good, "{at}: {read:?}");
        } else {
            assert_eq!((read, lost), ((1..=first).chain([4]).collect(), 3 - first), "{at}");
        }
        drop(log);
        let opened = Log::<()>::open(folder.0.to_path_buf(), BOOT, "log", &mut desk);
        if (8..12).contains(&at) && !cut {
            assert!(opened.is_err_and(|error| error.to_string().contains("needs the release")), "another version");
            continue;
        }
        let mut log = opened.unwrap();
        // It goes on behind what is there.
        write(&mut log, 1, &mut desk);
        let (read, _) = numbers(&mut log, 1);
        // What does not begin as such files do is none.
        let first = if is_of_header && !cut && at < 8 { 0 } else { first };
        assert_eq!(read.iter().filter(|number| **number < 4).count() as u64, first, "{at}, {cut}: {read:?}");
        assert!(read.ends_with(&[4, log.next() - 1]), "{at}, {cut}: {read:?}");
    }
}

/// As release 0.1.0 left them: one finished, of five events, and one of three when it was killed.
#[test]
fn segments_of_the_former_version_are_read_and_gone_on_behind() {
    let folder = Folder::new("log-former");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/history-version-1");
    for path in segments_in(&kept, &files::MachineFiles).unwrap() {
        fs::copy(&path, folder.0.join(path.file_name().unwrap())).unwrap();
    }
    let Look::Segment(found) =
        Segment::<()>::look(&segments_in(&kept, &files::MachineFiles).unwrap()[1], &mut Desk::default()).unwrap()
    else {
        panic!()
    };
    assert!(!found.is_finished && found.cut > 0 && found.damage.is_none());
    let mut log = folder.open(found.origin.boot);
    assert_eq!((log.first(), log.next(), log.origin.epoch), (1, 9, 1));
    let (mut cursor, mut read) = (Cursor::at(2), Vec::new());
    loop {
        let step = log.read(&mut cursor, (u64::MAX, false), (encode, &mut Desk::default()), |_, record| {
            assert_eq!(Record::read(record.body).unwrap().name, b"Test");
            read.push(record.number);
            true
        });
        if matches!(step.unwrap(), Step::End) {
            break;
        }
    }
    assert_eq!(read, (2..=8).collect::<Vec<_>>());
    write(&mut log, 1, &mut Desk::default());
    assert_eq!(numbers(&mut log, 9), (vec![9], 0));
    assert_eq!(folder.open(BOOT).next(), 9 + SKIPPED);
}
