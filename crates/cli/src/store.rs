//! `campanile store`: the stored state of a service that is not running.

use crate::args::{CompactOptions, SalvageOptions, StoreCommand, StoreOptions};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::progress::{Progress, Work};
use crate::{moment, show};
use serde::Serialize;
use service::{OfflineStore, OfflineStoreError, Salvaged, SalvagedTable};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use topology::{Part, Topology};

/// Runs one of the sub-commands.
pub(crate) fn run(command: &StoreCommand) -> Result<(), Failure> {
    match command {
        StoreCommand::Check(options) => check(options),
        StoreCommand::Show(options) => show(options),
        StoreCommand::Compact(options) => compact(options),
        StoreCommand::Salvage(options) => salvage(options),
    }
}

/// Folder of the options; by default that of `campanile serve` without options.
pub(crate) fn directory(options: &StoreOptions) -> Result<PathBuf, Failure> {
    let environment = Environment::read();
    let default = || {
        let of_user = || Some(environment.user_state()?.join("campanile").join("2809"));
        environment.state_directory.clone().or_else(of_user)
    };
    let named = options.data.clone().or_else(default);
    named.ok_or_else(|| {
        Failure::Usage("this user has no home folder ($HOME); name the store's folder with --data".into())
    })
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Prints one JSON object.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(Failure::message)?;
    print(&(text + "\n"))
}

/// Output of `check --json`.
#[derive(Serialize)]
struct Checked {
    directory: PathBuf,
    whole: bool,
    damaged: Vec<String>,
}

fn check(options: &StoreOptions) -> Result<(), Failure> {
    let directory = directory(options)?;
    let found = OfflineStore::open(&directory).and_then(|mut store| store.check());
    let damaged = match found {
        Ok(damaged) => damaged,
        Err(OfflineStoreError::Damaged { why, .. }) => vec![why],
        Err(error) => return Err(Failure::message(error)),
    };
    if options.json {
        print_json(&Checked { directory: directory.clone(), whole: damaged.is_empty(), damaged: damaged.clone() })?;
    } else if damaged.is_empty() {
        print(&format!("the store in {} is whole\n", directory.display()))?;
    } else {
        let lines: String = damaged.iter().map(|line| format!("{line}\n")).collect();
        print(&format!("the store in {} is damaged:\n{lines}", directory.display()))?;
    }
    if damaged.is_empty() { Ok(()) } else { Err(Failure::Quiet) }
}

/// Output of `show`.
#[derive(Serialize)]
struct Shown {
    directory: PathBuf,
    version: u32,
    file_bytes: u64,
    disk_bytes: u64,
    configured: Configured,
    events: Events,
    #[serde(rename = "past")]
    history: Vec<ChannelHistory>,
}

/// Stored history of a channel.
#[derive(Serialize)]
struct ChannelHistory {
    channel: u32,
    files: u64,
    events: u64,
    bytes: u64,
    /// Numbers of the first and last event.
    first: Option<u64>,
    last: Option<u64>,
}

/// Numbers of configured objects.
#[derive(Default, Serialize)]
struct Configured {
    channels: u64,
    admins: u64,
    proxies: u64,
    filters: u64,
    names: u64,
}

/// Stored events, and the arrival of the first.
#[derive(Default, Serialize)]
struct Events {
    count: u64,
    bytes: u64,
    /// Number of dead letters, each of a consumer that never took it.
    #[serde(rename = "kept_aside")]
    dead_letters: u64,
    oldest: Option<String>,
    by_channel: Vec<OfChannel>,
}

#[derive(Serialize)]
struct OfChannel {
    channel: u32,
    count: u64,
    bytes: u64,
    oldest: String,
}

fn show(options: &StoreOptions) -> Result<(), Failure> {
    let directory = directory(options)?;
    let mut store = OfflineStore::open(&directory).map_err(Failure::message)?;
    let shown = Shown {
        version: store.version(),
        file_bytes: store.file_bytes(),
        disk_bytes: store.disk_bytes(),
        configured: configured(&mut store)?,
        events: events(&mut store)?,
        history: history(&store)?,
        directory,
    };
    if options.json { print_json(&shown) } else { print(&text(&shown)) }
}

fn configured(store: &mut OfflineStore) -> Result<Configured, Failure> {
    let image = store.image().map_err(Failure::message)?;
    // What it says of itself is looked at by `check`.
    Topology::of_image(&image).map_err(Failure::message)?;
    let mut count = Configured::default();
    for part in image.keys().filter_map(|key| Part::of_key(key)) {
        match part {
            Part::Channel(_) => count.channels += 1,
            Part::Admin { .. } => count.admins += 1,
            Part::Proxy { .. } => count.proxies += 1,
            Part::Filter(_) => count.filters += 1,
            Part::Binding { .. } => count.names += 1,
            Part::Numbers | Part::Link(_) | Part::Context(_) | Part::Registration(_) => {}
        }
    }
    Ok(count)
}

fn events(store: &mut OfflineStore) -> Result<Events, Failure> {
    let mut by_channel: BTreeMap<u32, (u64, u64, SystemTime)> = BTreeMap::new();
    let mut dead_letters = 0;
    let told = store.events(|event| {
        // `store check` reports the others.
        let Ok(event) = event else { return };
        dead_letters += u64::from(event.aside > 0);
        let (count, bytes, oldest) = by_channel.entry(event.channel).or_insert((0, 0, event.arrived));
        (*count, *bytes, *oldest) = (*count + 1, *bytes + event.bytes, event.arrived.min(*oldest));
    });
    told.map_err(Failure::message)?;
    let oldest = by_channel.values().map(|(_, _, oldest)| *oldest).min();
    Ok(Events {
        count: by_channel.values().map(|(count, ..)| count).sum(),
        bytes: by_channel.values().map(|(_, bytes, _)| bytes).sum(),
        dead_letters,
        oldest: oldest.map(moment::rfc3339),
        by_channel: by_channel
            .into_iter()
            .map(|(channel, (count, bytes, oldest))| OfChannel {
                channel,
                count,
                bytes,
                oldest: moment::rfc3339(oldest),
            })
            .collect(),
    })
}

fn history(store: &OfflineStore) -> Result<Vec<ChannelHistory>, Failure> {
    let history = store.history().map_err(Failure::message)?;
    let told = history.iter().map(|history| ChannelHistory {
        channel: history.channel,
        files: history.files,
        events: history.events,
        bytes: history.bytes,
        first: history.numbers.map(|(first, _)| first),
        last: history.numbers.map(|(_, last)| last),
    });
    Ok(told.collect())
}

fn text(shown: &Shown) -> String {
    let Shown { directory, version, file_bytes, disk_bytes, configured, events, history } = shown;
    let Configured { channels, admins, proxies, filters, names } = configured;
    let (file, on_disk) = (show::bytes(*file_bytes), show::bytes(*disk_bytes));
    let oldest = events.oldest.as_ref().map_or_else(String::new, |oldest| format!(", the oldest of {oldest}"));
    let (count, bytes) = (show::count(events.count), show::bytes(events.bytes));
    let aside = match events.dead_letters {
        0 => String::new(),
        dead_letters => format!(", {} of them dead letters (campanile dead)", show::count(dead_letters)),
    };
    let mut text = format!(
        "folder      {}\nversion     {version}\nsize        {file}, of which {on_disk} on disk\n\
         configured  channels: {channels}, admins: {admins}, proxies: {proxies}, filters: {filters}, names: {names}\n\
         events      {count} with {bytes}{oldest}{aside}\n",
        directory.display()
    );
    for OfChannel { channel, count, bytes, oldest } in &events.by_channel {
        let (count, bytes) = (show::count(count), show::bytes(*bytes));
        let _ = writeln!(text, "  channel {channel}: {count} with {bytes}, the oldest of {oldest}");
    }
    let (count, bytes) =
        (history.iter().map(|history| history.events).sum::<u64>(), history.iter().map(|history| history.bytes).sum());
    let _ = writeln!(text, "history     {} events in files of {}", show::count(count), show::bytes(bytes));
    for ChannelHistory { channel, files, events, bytes, first, last } in history {
        let (events, bytes) = (show::count(events), show::bytes(*bytes));
        let numbers = first.zip(*last).map_or_else(String::new, |(first, last)| format!(", numbers {first} to {last}"));
        let _ = writeln!(text, "  channel {channel}: {events} in {files} files of {bytes}{numbers}");
    }
    text
}

/// Output of `compact --json`.
#[derive(Serialize)]
struct Compacted {
    directory: PathBuf,
    file_bytes_before: u64,
    file_bytes_after: u64,
}

fn compact(CompactOptions { store: options, to }: &CompactOptions) -> Result<(), Failure> {
    let directory = directory(options)?;
    let mut store = OfflineStore::open(&directory).map_err(Failure::message)?;
    let before = store.file_bytes();
    let progress = Progress::begin(Work { doing: "compacting the store", ..Work::default() });
    let after = match to {
        Some(to) => store.compact_to(to),
        None => store.compact(),
    };
    drop(progress);
    let after = after.map_err(Failure::message)?;
    let folder = to.as_ref().unwrap_or(&directory).clone();
    if options.json {
        return print_json(&Compacted { directory: folder, file_bytes_before: before, file_bytes_after: after });
    }
    let (before, after) = (show::bytes(before), show::bytes(after));
    print(&match to {
        None => format!("the store in {} had {before}, and has {after} now\n", directory.display()),
        Some(to) => format!(
            "the store in {} has {before}, and the new one in {} has {after}\n{}",
            directory.display(),
            to.display(),
            use_of(to)
        ),
    })
}

/// Instructions for using a new store.
fn use_of(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "start the service with it: campanile serve --data {folder} (store.directory in the configuration), and have its files belong to \
         the user that the service runs as\n"
    )
}

/// Output of `salvage --json`.
#[derive(Serialize)]
struct OfSalvage {
    directory: PathBuf,
    complete: bool,
    configured: OfTable,
    events: OfTable,
    lists: OfTable,
    origins: OfTable,
    pages_corrected: u64,
    damaged: Vec<String>,
}

#[derive(Serialize)]
struct OfTable {
    whole: u64,
    missing: u64,
}

fn salvage(SalvageOptions { from, to, json }: &SalvageOptions) -> Result<(), Failure> {
    let salvaged = service::salvage(from, to).map_err(Failure::message)?;
    let complete = salvaged.is_complete();
    if *json {
        let of = |SalvagedTable { whole, missing, .. }: SalvagedTable| OfTable { whole, missing };
        let Salvaged { parts, events, lists, origins, corrected, damaged, .. } = salvaged;
        print_json(&OfSalvage {
            directory: to.clone(),
            complete,
            configured: of(parts),
            events: of(events),
            lists: of(lists),
            origins: of(origins),
            pages_corrected: corrected,
            damaged,
        })?;
    } else {
        print(&text_of_salvage(&salvaged))?;
        if salvaged.parts.whole + salvaged.events.whole > 0 {
            print(&use_of(to))?;
        }
    }
    if complete { Ok(()) } else { Err(Failure::Quiet) }
}

fn text_of_salvage(salvaged: &Salvaged) -> String {
    let mut text = String::new();
    let Salvaged { parts, events, lists, origins, .. } = *salvaged;
    let tables = [("configured", parts), ("events", events), ("lists", lists), ("origins", origins)];
    for (name, SalvagedTable { whole, missing, .. }) in tables {
        let (whole, missing) = (show::count(whole), show::count(missing));
        let _ = writeln!(text, "{name:<10}  {whole} whole, {missing} missing");
    }
    if salvaged.corrected > 0 {
        let _ = writeln!(text, "corrected   {} pages with one wrong bit", show::count(salvaged.corrected));
    }
    salvaged.damaged.iter().for_each(|why| _ = writeln!(text, "damaged     {why}"));
    text
}
