//! `campanile-bench crash`: that no event which was acknowledged is lost, whenever the service is killed.
//!
//! Eight suppliers push persistent events to eight consumers, and the service is killed (`SIGKILL`) at a random moment, round after
//! round, and started again on the same store. In half of the rounds one consumer is stopped from before the kill until after the next
//! start. Two suppliers and two consumers are programs of omniORB and JacORB, where they are built, which know nothing of restarts;
//! the others are this repository's own client.

pub(crate) mod ledger;
mod ours;
mod peers;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use client::notify::Property;
use load::campanile::setup;
use serde::Serialize;
use serde_json::{Value, json};

use self::ledger::{Book, Numbered};
use self::peers::{PeerConsumer, PeerSupplier};
use crate::persistent::{Folder, Serving, Setting, disk_bytes};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

/// Suppliers, and consumers; the last two of each are other ORBs' programs, where these are built.
const PARTIES: u32 = 8;
const ORBS: [(&str, &str); 2] = [("omniorb", "omniORB"), ("jacorb", "JacORB")];
/// How long suppliers push before the service is killed, in milliseconds.
const LOAD_MS: std::ops::Range<u64> = 50..1_500;
/// How often the size of the store is looked at, in nanoseconds.
const LOOK_EVERY: u64 = 5_000_000;
/// When nothing has come for so long, what is missing is lost.
const STALLED_AFTER: u64 = 20 * clock::SECOND;
/// How often it is looked whether something is missing.
const SETTLE_EVERY: u64 = clock::SECOND / 50;
/// How long after the service is back a supplier may be without an answer: other ORBs' programs may be so for ever.
const BACK_WITHIN: u64 = 90 * clock::SECOND;
/// `store.event_bytes_max`, so that a consumer that is stopped now and then has it reached.
const EVENT_BYTES_MAX: u64 = 4 << 20;
/// What the store's files may have beside and for each octet of events that it may keep: a page is written anew before the old one goes,
/// and the file grows by regions.
const DISK_BYTES_BESIDE: u64 = 8 << 20;
const DISK_BYTES_FOR_EACH: u64 = 3;

/// One round: from a start to the next.
#[derive(Debug, Serialize)]
struct Round {
    load_ms: f64,
    stopped: Option<&'static str>,
    acknowledged: u64,
    recovered_events: u64,
    recovery_ms: f64,
}

enum Consumer {
    Ours(ours::Consumer),
    Theirs(PeerConsumer, &'static str),
}

impl Consumer {
    fn stop(&self, is_stopped: bool) -> Result<(), BenchError> {
        match self {
            Self::Ours(consumer) => consumer.stop(is_stopped),
            Self::Theirs(consumer, _) => consumer.stop(is_stopped)?,
        }
        Ok(())
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "Campanile's client",
            Self::Theirs(_, name) => name,
        }
    }
}

enum Supplier {
    Ours(ours::Supplier),
    Theirs(PeerSupplier),
}

impl Supplier {
    /// Ends it, if it is a program.
    fn end(&self) -> Option<impl Fn() + use<>> {
        match self {
            Self::Ours(_) => None,
            Self::Theirs(supplier) => Some(supplier.end()),
        }
    }

    fn supply(&mut self, over: &AtomicBool, told: &Sender<Numbered>) -> Result<(), BenchError> {
        // The receiver is there until all suppliers have ended.
        let acknowledge = |event| _ = told.send(event);
        match self {
            Self::Ours(supplier) => supplier.supply(over, acknowledge),
            Self::Theirs(supplier) => supplier.supply(over, acknowledge)?,
        }
        Ok(())
    }
}

/// Everybody, and what they know.
pub(crate) struct Parties {
    suppliers: Vec<Supplier>,
    consumers: Vec<Consumer>,
    books: Vec<Arc<Mutex<Book>>>,
    pub(crate) acknowledged: BTreeSet<Numbered>,
    pub(crate) orbs: Vec<&'static str>,
}

impl Parties {
    /// Connects so many suppliers to one channel and so many consumers to another, or the same: the factory's URL, and the channel's id.
    pub(crate) fn connect(interop: &Path, count: u32, to: (&str, i32), from: (&str, i32)) -> Result<Self, BenchError> {
        let built = ORBS.iter().filter_map(|(folder, name)| Some((peers::program(interop, folder)?, *name)));
        let built: Vec<(PathBuf, &'static str)> = built.collect();
        if built.len() < ORBS.len() {
            eprintln!(
                "campanile-bench: of the programs of omniORB and JacORB {} of {} are in {}, and only these take part; interop/install.sh \
                 builds them, and --interop DIR says where they are",
                built.len(),
                ORBS.len(),
                interop.display()
            );
        }
        let mut parties = Self {
            suppliers: Vec::new(),
            consumers: Vec::new(),
            books: Vec::new(),
            acknowledged: BTreeSet::new(),
            orbs: built.iter().map(|(_, name)| *name).collect(),
        };
        let mut theirs = built.iter();
        for source in 0..count {
            let book = Arc::default();
            // The last ones.
            let orb = if source as usize + built.len() < count as usize { None } else { theirs.next() };
            match orb {
                Some((program, name)) => {
                    let consumer = PeerConsumer::start(name, program, from, &book)?;
                    parties.consumers.push(Consumer::Theirs(consumer, name));
                    parties.suppliers.push(Supplier::Theirs(PeerSupplier::start(name, program, to, source)?));
                }
                None => {
                    parties.consumers.push(Consumer::Ours(ours::Consumer::start(from, &book)?));
                    parties.suppliers.push(Supplier::Ours(ours::Supplier::start(to, source)?));
                }
            }
            parties.books.push(book);
        }
        Ok(parties)
    }

    /// Has one more supplier push until all consumers have something, or for 20 s: over links, events come from when interest in them has gone
    /// the other way.
    pub(crate) fn begin(&mut self, to: (&str, i32)) -> Result<(), BenchError> {
        let (is_over, give_up) = (AtomicBool::new(false), clock::now() + STALLED_AFTER);
        let source = u32::try_from(self.suppliers.len()).unwrap_or(u32::MAX);
        ours::Supplier::start(to, source)?.supply(&is_over, |_| {
            let all_have = self.over_books(|book| u64::from(book.is_empty())) == 0;
            is_over.store(all_have || clock::now() > give_up, Ordering::Relaxed);
        });
        Ok(())
    }

    /// Has all suppliers push for so long, looking at something meanwhile, and has a service killed and started again. Suppliers end before
    /// that if it is theirs, else after it.
    ///
    /// Suppliers are waited for only then: a push of JacORB's returns when it has tried to connect for some seconds.
    pub(crate) fn load<T>(
        &mut self,
        load_ns: u64,
        mut look: impl FnMut(),
        is_theirs: bool,
        kill_and_start: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let over = AtomicBool::new(false);
        let (told, made) = channel();
        let started = thread::scope(|scope| {
            let (over, told) = (&over, &told);
            let ends: Vec<_> = self.suppliers.iter().filter_map(Supplier::end).collect();
            let threads: Vec<_> =
                self.suppliers.iter_mut().map(|supplier| scope.spawn(move || supplier.supply(over, told))).collect();
            let until = clock::now() + load_ns;
            while clock::now() < until && threads.iter().all(|thread| !thread.is_finished()) {
                look();
                clock::sleep_until(until.min(clock::now() + LOOK_EVERY))?;
            }
            over.store(is_theirs, Ordering::Relaxed);
            let started = kill_and_start();
            over.store(true, Ordering::Relaxed);
            let until = clock::now() + BACK_WITHIN;
            while threads.iter().any(|thread| !thread.is_finished()) {
                clock::sleep_until(clock::now() + LOOK_EVERY)?;
                if clock::now() >= until {
                    ends.iter().for_each(|end| end());
                }
            }
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))?;
            started
        })?;
        drop(told);
        self.acknowledged.extend(made.try_iter());
        Ok(started)
    }

    pub(crate) fn over_books(&self, count: impl Fn(&Book) -> u64) -> u64 {
        self.books.iter().map(|book| count(&book.lock().unwrap_or_else(PoisonError::into_inner))).sum()
    }

    /// Waits until all consumers have everything, or nothing more comes. Says how much is missing.
    pub(crate) fn await_all(&self) -> Result<u64, BenchError> {
        settle(|| Ok(self.over_books(|book| book.missing(&self.acknowledged))))
    }
}

/// Waits until nothing is missing, or nothing more comes. Says how much is missing.
pub(crate) fn settle(missing: impl Fn() -> Result<u64, BenchError>) -> Result<u64, BenchError> {
    let (mut least, mut since) = (u64::MAX, clock::now());
    loop {
        let (now, left) = (clock::now(), missing()?);
        if left < least {
            (least, since) = (left, now);
        }
        if left == 0 || now - since > STALLED_AFTER {
            return Ok(left);
        }
        clock::sleep_until(now + SETTLE_EVERY)?;
    }
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let rounds = options.rounds;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let folder = Folder::new("crash", options.on.as_deref())?;
    let mut setting = Setting::new(&folder, &format!("[store]\nevent_bytes_max = {EVENT_BYTES_MAX}\n"))?;
    let (serving, _) = setting.start()?;
    let channel = persistent_channel(&serving)?;
    let service = format!("corbaloc::1.2@{}/NotificationService", setting.listen);
    let mut parties = Parties::connect(&options.interop, PARTIES, (&service, channel), (&service, channel))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut serving, mut disk, mut by_round) = (serving, 0, Vec::new());
    for round in 0..rounds {
        out.progress(&format!("round {} of {rounds}", round + 1))?;
        let (next, found) = kill_once(&mut parties, serving, &mut setting, &mut random)?;
        serving = next;
        disk = disk.max(found.0);
        by_round.push(found.1);
    }
    let lost = parties.await_all()?;
    drop(serving);
    let (report, aims) = made(seed, &parties, (lost, disk), &by_round);
    Ok((aims, report))
}

/// A channel with events that are kept, and marked for all its consumers.
fn persistent_channel(serving: &Serving) -> Result<i32, BenchError> {
    let qos = [
        Property::new("EventReliability", 1_i16),
        Property::new("ConnectionReliability", 1_i16),
        Property::new("MarkRepeats", true),
    ];
    let made = serving.service.factory()?.create_channel(&qos, &[]);
    made.map(|(_, id)| id).map_err(setup("making a channel whose events are kept"))
}

/// One round: load, a kill, and the next start. Says how much the store's files had at most.
fn kill_once(
    parties: &mut Parties,
    serving: Serving,
    setting: &mut Setting,
    random: &mut fastrand::Rng,
) -> Result<(Serving, (u64, Round)), BenchError> {
    let stopped = random.bool().then(|| random.usize(..parties.consumers.len()));
    let consumer = stopped.and_then(|at| parties.consumers.get(at));
    consumer.map_or(Ok(()), |consumer| consumer.stop(true))?;
    let name = consumer.map(Consumer::name);
    let load_ns = random.u64(LOAD_MS) * 1_000_000 + random.u64(..1_000_000);
    let before = parties.acknowledged.len();
    let (data, disk) = (setting.data.clone(), Cell::new(0));
    let look = || disk.set(disk_bytes(&data).max(disk.get()));
    let (serving, took) = parties.load(load_ns, look, true, || {
        serving.kill();
        look();
        setting.start()
    })?;
    let recovered = serving.service.counter("events_restored")?;
    let consumer = stopped.and_then(|at| parties.consumers.get(at));
    consumer.map_or(Ok(()), |consumer| consumer.stop(false))?;
    let round = Round {
        load_ms: milliseconds(load_ns),
        stopped: name,
        acknowledged: (parties.acknowledged.len() - before) as u64,
        recovered_events: recovered,
        recovery_ms: milliseconds(took),
    };
    look();
    Ok((serving, (disk.get(), round)))
}

fn milliseconds(nanoseconds: u64) -> f64 {
    clock::seconds(nanoseconds) * 1e3
}

fn made(seed: u64, parties: &Parties, (lost, disk): (u64, u64), by_round: &[Round]) -> (Value, Vec<Aim>) {
    let bound = DISK_BYTES_BESIDE + DISK_BYTES_FOR_EACH * EVENT_BYTES_MAX;
    let disordered = parties.over_books(Book::disordered);
    let [repeats, unmarked] =
        [parties.over_books(|book| book.repeats().0), parties.over_books(|book| book.repeats().1)];
    let none = |aim: &str, found: u64| Aim::new(aim, found, found == 0);
    let acknowledged = parties.acknowledged.len() as u64;
    let aims = vec![
        Aim::new("suppliers are acknowledged", acknowledged, acknowledged > 0),
        none("acknowledged events that are lost: none", lost),
        none("events out of their supplier's order: none", disordered),
        none("repeats of events that were never marked: none", unmarked),
        Aim::new(format!("octets of the store's files: at most {bound}"), disk, disk <= bound),
    ];
    let report = json!({
        "seed": seed,
        "rounds": by_round.len(),
        "orbs": parties.orbs,
        "acknowledged": acknowledged,
        "lost": lost,
        "repeats": repeats,
        "unmarked_repeats": unmarked,
        "disordered": disordered,
        "disk_bytes_max": disk,
        "disk_bytes_bound": bound,
        "recovery_ms_max": by_round.iter().map(|round| round.recovery_ms).fold(0.0, f64::max),
        "recovered_events_max": by_round.iter().map(|round| round.recovered_events).max().unwrap_or(0),
        "by_round": by_round,
    });
    (report, aims)
}
