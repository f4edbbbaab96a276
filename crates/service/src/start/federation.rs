//! Links and federation, at the start.

use std::sync::Arc;

use corba::Protocol;

use super::StartError;
use super::group::join_federation;
use super::storage::{Durables, OpenedStore, added_links, furnish};
use links::group::Key;

use crate::config::federation::link_ports;
use crate::config::{Config, LinkEntry};
use crate::protocols::link::discovery::Settings;
use crate::protocols::named_channels;
use crate::store::Found;
use accounts::Accounts;

/// What links begin with: durable consumers of other services' links, added links, and the federation.
pub(super) type StartedLinks = (Durables, Vec<LinkEntry>, Option<Arc<Settings>>);

/// Makes what there is to be at the start, and what links begin with.
pub(super) fn furnish_linked(
    protocol: &mut Protocol,
    config: &Config,
    accounts: &Arc<Accounts>,
    found: Option<Found>,
    warnings: &mut Vec<String>,
) -> Result<(Option<OpenedStore>, StartedLinks), StartError> {
    let (opened, served) = furnish(protocol, config, accounts, found)?;
    let added = added_links(protocol, config, warnings);
    Ok((opened, (served, added, federation(config, protocol)?)))
}

/// The federation, with a socket in its group.
fn federation(config: &Config, protocol: &Protocol) -> Result<Option<Arc<Settings>>, StartError> {
    let of = &config.federation;
    let (Some(name), Some(group)) = (&of.name, of.group()) else { return Ok(None) };
    let listens = link_ports(config)?;
    let [plain, secure] = listens;
    let listening = if of.tls { secure } else { plain }.filter(|address| !address.ip().is_unspecified());
    let host = of.address.clone().or_else(|| listening.map(|address| address.ip().to_string()));
    Ok(Some(Arc::new(Settings {
        name: name.clone(),
        service_name: config.links.name.clone(),
        group: group.into(),
        socket: join_federation(group, of.interface()?)?,
        host: host.unwrap_or_default(),
        ports: listens.map(|address| address.map_or(0, |address| address.port())),
        key: of.read_key()?.map(|key| Key::new(&key)),
        tls: of.tls,
        channels: if of.takes_all() { named_channels(protocol) } else { of.channels.clone() },
    })))
}
