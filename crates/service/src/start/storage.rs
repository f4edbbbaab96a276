//! What outlives the process, at the start: the store is opened, what it has is made again, and the threads of the store and of the
//! backlogs on disk begin.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::StartError;
use super::limits::{ConnectionsMax, ceilings};
use super::protocol_settings;
use crate::config::{Config, DeclaredChannel, LinkEntry};
use crate::counters::Counters;
use crate::lane::io::net::Waker;
use crate::memory::Memory;
use crate::overflow;
use crate::protocols::giop::objects::declare_channel;
use crate::protocols::link;
use crate::protocols::tempo::types::DeclaredTypes;
use crate::standby::shipping::Shipping;
use crate::standby::{self, Shipped, StandbyFollower};
use crate::store::origins::SeenOrigin;
use crate::store::{self, Changes, Disk, Found, Reception, Store, StoreOptions};
use accounts::Accounts;
use corba::Protocol;
use engine::{Channel, ChannelId, ProxyKey};

/// The store, and what it has.
pub(super) struct OpenedStore {
    disk: Disk,
    /// How many events, and the number that is behind the last.
    events: (u64, u64),
    /// Origins of events that came from other services, each with the number of its event.
    origins: Vec<(u64, SeenOrigin)>,
    service: u64,
    /// The channels that there are.
    channels: Vec<ChannelId>,
    /// What ships batches to a follower.
    shipping: Option<Arc<Shipping>>,
}

/// What lanes have of the threads that keep things. Without a store there are none.
#[derive(Default)]
pub(super) struct Keepers {
    /// Where they are introduced to the store.
    pub(super) store: Option<Reception>,
    /// Where they are introduced to the thread of the backlogs on disk.
    pub(super) overflow: Option<overflow::Reception>,
    /// Where that is asked what is kept of channels' history.
    pub(super) inquirer: Option<overflow::Inquirer>,
    /// The threads that ship to a follower.
    pub(super) standby: Option<Shipped>,
}

/// The store, if there is to be one, and what is remarkable about it.
pub(super) type FoundStore = (Option<Found>, Vec<String>);

/// Opens the store, if there is to be one. Says what is remarkable about it. `promoted`: the follower's process that this one was until now.
pub(super) fn find_store(config: &Config, promoted: Option<StandbyFollower>) -> Result<FoundStore, StartError> {
    let Some((directory, is_wanted)) = config.store.folder() else { return Ok((None, Vec::new())) };
    if let Some(follower) = &promoted {
        follower.close_store();
    }
    match store::open(directory) {
        Ok(mut found) => {
            standby::attach(config, &mut found, promoted)?;
            Ok((Some(found), Vec::new()))
        }
        // There is nothing to be lost, and the configuration does not ask that there be.
        Err(error) if !is_wanted && error.is_nowhere(directory) => {
            let warning = format!(
                "nothing outlives this service, since {} cannot be used: {error}; name a folder with --data, or store nothing with --data \
                 none",
                directory.display()
            );
            log::warn!("store: {warning}");
            Ok((None, vec![warning]))
        }
        Err(error) => Err(StartError::Store { directory: directory.into(), why: error.to_string() }),
    }
}

/// Durable consumers: their channels' names, their own, and their keys.
pub(super) type Durables = Vec<(String, String, ProxyKey)>;

/// Makes what there was, or else what a file says, and what the configuration declares; and has the store have just that. Gives the durable
/// consumers that other services' links have, too.
pub(super) fn furnish(
    protocol: &mut Protocol,
    config: &Config,
    accounts: &Arc<Accounts>,
    found: Option<Found>,
) -> Result<(Option<OpenedStore>, Durables), StartError> {
    let Some(Found { directory, mut disk, image: stored, events, origins, service, shipping }) = found else {
        make_topology(protocol, config)?;
        return Ok((None, Vec::new()));
    };
    let failed = |why: String| StartError::Store { directory: directory.clone(), why };
    // What clients made is charged, though not to a known client: or each restart would give them as much again.
    let account = accounts.account_of(Ipv4Addr::UNSPECIFIED.into());
    let mut declared = Ok(());
    let is_restored =
        protocol.restore_image(&stored, &account, |protocol| declared = configure(protocol, config)).map_err(failed)?;
    declared?;
    if is_restored {
        let names = config.client_names()?;
        protocol.objects.rename_clients(|account| names.of(account));
        log::info!(
            "store: {} parts of what was configured, and {} events that are not yet confirmed, are restored from {}",
            stored.len(),
            events.0,
            directory.display()
        );
    } else {
        make_topology(protocol, config)?;
    }
    // Of an added link whose name the file has, nothing stays: the name is that of the file's link.
    let is_added = |link: &LinkEntry| config.link.iter().all(|of| of.name != link.name);
    let links: Vec<_> =
        config.link.iter().cloned().chain(stored_links(protocol).into_iter().filter(is_added)).collect();
    let served = link::retain_durable(protocol, &links, config.federation.name.as_deref());
    protocol.objects.note_changed_parts();
    let now = protocol.objects.image();
    let gone = stored.keys().filter(|key| !now.contains_key(*key)).map(|key| (key.clone(), None));
    let news = now.iter().filter(|(key, value)| stored.get(*key) != Some(value));
    let changes: Changes = news.map(|(key, value)| (key.clone(), Some(value.clone()))).chain(gone).collect();
    if !changes.is_empty() {
        disk.write(&changes).map_err(|error| failed(error.to_string()))?;
    }
    let channels = protocol.objects.hierarchy().channels().map(Channel::id).collect();
    Ok((Some(OpenedStore { disk, events, origins, service, channels, shipping }), served))
}

/// Links that operators have added, those in a form that this version reads.
fn stored_links(protocol: &Protocol) -> Vec<LinkEntry> {
    let mut links = Vec::new();
    for link in protocol.objects.added_links() {
        match link.entry() {
            Ok(entry) => links.push(entry),
            Err(why) => log::warn!("link {:?}: what is stored of it cannot be read: {why}", link.name),
        }
    }
    links
}

/// Those of them that are valid beside the configuration's. Adds a warning for each other: it stays in the store, and is not made.
pub(super) fn added_links(protocol: &Protocol, config: &Config, warnings: &mut Vec<String>) -> Vec<LinkEntry> {
    let (all, left_out) = config.with_links(stored_links(protocol));
    for (name, why) in left_out {
        let warning = format!("link {name:?}, which was added, is not made: {why}; `campanile link rm` removes it");
        log::warn!("{warning}");
        warnings.push(warning);
    }
    all.link.into_iter().skip(config.link.len()).collect()
}

/// Starts the threads of a store in a folder, and of the backlogs beside it.
pub(super) fn start_keepers(
    OpenedStore { disk, events, origins, service, channels, shipping }: OpenedStore,
    directory: &Path,
    (config, types): (&Config, &Arc<DeclaredTypes>),
    (waker, counters): (&Arc<Waker>, &Counters),
    origin: Instant,
) -> Result<(Store, Keepers), StartError> {
    let limits = config.store_limits();
    let options = StoreOptions {
        waker,
        counters: counters.of_store(),
        origin,
        next: events.1,
        origins: &origins,
        service,
        channels: &channels,
        limits,
    };
    let (store, reception) = Store::start(disk, options)?;
    let standby = shipping.map(|shipping| {
        shipping.set_store(Arc::clone(&reception.waker));
        standby::start(config, (shipping, directory), counters)
    });
    let standby = standby.transpose()?;
    // A simulation has no files: backlogs stay in memory.
    #[cfg(test)]
    if crate::simulation::device().is_some() {
        return Ok((store, Keepers { store: Some(reception), ..Keepers::default() }));
    }
    let (overflow, inquirer) = overflow::start(overflow::Options {
        directory,
        history_bytes_max: config.store.history_bytes_max,
        channels: &channels,
        origin,
        types: Arc::clone(types),
        counters: counters.of_overflow(),
        administration: waker,
    })
    .map_err(|error| StartError::Store { directory: directory.into(), why: error.to_string() })?;
    Ok((store, Keepers { store: Some(reception), overflow: Some(overflow), inquirer: Some(inquirer), standby }))
}

/// Tries whether what was configured could be restored.
pub(crate) fn try_restore(image: &corba::Image) -> Result<(), String> {
    let config = Config::default();
    let memory = Memory::new(config.limits.memory_bytes.unwrap_or(1 << 40));
    let connections_max = ConnectionsMax { from_clients: 1, to_clients: 1, http: 1 };
    let account = Accounts::new(ceilings(&config, memory, connections_max)).account_of(Ipv4Addr::UNSPECIFIED.into());
    let mut protocol = Protocol::new(protocol_settings(
        &config,
        memory,
        super::Place { host: "127.0.0.1", port: 2809, secure: None },
        true,
    ));
    protocol.restore_image(image, &account, |_| {}).map(drop)
}

/// Makes what is to be configured at the start.
fn make_topology(protocol: &mut Protocol, config: &Config) -> Result<(), StartError> {
    let Some(path) = config.topology.as_deref() else { return configure(protocol, config) };
    let mut declared = Ok(());
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let made = read.and_then(|text| protocol.apply_json_and(&text, |protocol| declared = configure(protocol, config)));
    made.map_err(|why| StartError::Topology { path: path.into(), why })?;
    declared
}

/// Declares the configured names and channels at each start. Called while no client is connected, since threads cannot be moved from under
/// a client.
fn configure(protocol: &mut Protocol, config: &Config) -> Result<(), StartError> {
    protocol.objects.bind_own_names();
    declare_channels(protocol, &config.channels)
}

/// Makes the channels that the configuration declares, or sets those that are there already.
fn declare_channels(protocol: &mut Protocol, channels: &[DeclaredChannel]) -> Result<(), StartError> {
    for channel in channels {
        let DeclaredChannel { name, .. } = channel;
        let made = declare_channel(protocol, channel);
        made.map_err(|why| StartError::Channel { name: name.clone(), why })?;
    }
    Ok(())
}
