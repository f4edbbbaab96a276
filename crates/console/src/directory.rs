//! Lists and searches of everything that has a name: consumers, suppliers, event types and channels, in pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{ChannelId, ProxyId, ProxyKey};
use serde_json::{Value, json};
use service::{Answer as AdminAnswer, Config, Declined, Principal, Query, SupplierStatus, TypeEvents};
use tokio::sync::Mutex;

use crate::api::{Arguments, page, supplier_json};
use crate::metrics::state_of;
use crate::routes::Failure;
use crate::shared::{Names, Queries, Shared};

/// Time for which lists of suppliers and event types, and names of consumers, are cached.
const LIST_FRESH_FOR: Duration = Duration::from_secs(1);
const NAMES_FRESH_FOR: Duration = Duration::from_secs(15);
/// Maximum number of consumers and suppliers that are searched.
const LOOKED_AT_MAX: usize = 16_384;
/// Suppliers in one answer of administration.
pub(crate) const SUPPLIERS_AT_ONCE: usize = 1_024;
/// Maximum results of each kind in a search.
const FOUND_MAX: usize = 25;

/// A cached answer, shared by all requests meanwhile.
pub(crate) struct Recent<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Recent<T> {
    async fn get(
        &self,
        fresh_for: Duration,
        find: impl Future<Output = Result<T, Declined>>,
    ) -> Result<Arc<T>, Declined> {
        let mut kept = self.0.lock().await;
        if let Some((_, known)) = kept.as_ref().filter(|(since, _)| since.elapsed() < fresh_for) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(find.await?);
        *kept = Some((Instant::now(), Arc::clone(&found)));
        Ok(found)
    }
}

/// The cached lists.
#[derive(Default)]
pub(crate) struct Directory {
    suppliers: Recent<Vec<(SupplierStatus, String)>>,
    types: Recent<Vec<TypeEvents>>,
    names: Recent<Names>,
}

/// A declaration of an event type's body in the configuration, as IDL.
pub(crate) struct DeclaredType {
    /// `Tempo` or `DDS`.
    protocol: &'static str,
    /// The channel's name or number.
    channel: String,
    /// The event type, in the format of [`type_text`].
    name: String,
    definition: String,
}

/// The types that a configuration declares.
pub(crate) fn declared_types(config: &Config) -> Vec<DeclaredType> {
    let tempo = config.tempo.types.iter().map(|known| DeclaredType {
        protocol: "Tempo",
        channel: known.channel.to_string(),
        name: known.topic.clone(),
        definition: known.definition.clone(),
    });
    let dds = config.dds.joins.iter().flat_map(|join| {
        join.types.iter().map(|known| {
            let renamed = join.topics.iter().find(|(_, topic)| **topic == known.topic).map(|(name, _)| name);
            DeclaredType {
                protocol: "DDS",
                channel: join.channel.clone(),
                name: type_text(join.event_domain.as_deref().unwrap_or_default(), renamed.unwrap_or(&known.topic)),
                definition: known.definition.clone(),
            }
        })
    });
    tempo.chain(dds).collect()
}

/// Formats an event type as one word.
pub(crate) fn type_text(domain: &str, name: &str) -> String {
    if domain.is_empty() { name.to_owned() } else { format!("{domain}/{name}") }
}

impl Shared {
    /// Connected suppliers, by channel and proxy.
    pub(crate) async fn suppliers(&self) -> Result<Arc<Vec<(SupplierStatus, String)>>, Declined> {
        self.directory.suppliers.get(LIST_FRESH_FOR, self.with(all_suppliers)).await
    }

    /// The event types, by domain and name: those received, then those only declared.
    pub(crate) async fn types(&self) -> Result<Arc<Vec<TypeEvents>>, Declined> {
        let find = async {
            let asked = self.ask(Principal::Service, Query::Types).await?;
            let AdminAnswer::Types(mut types) = asked else { return Err(Declined::Stopping) };
            for declared in &self.declared {
                let (domain, name) = declared.name.split_once('/').unwrap_or(("", &declared.name));
                if !types.iter().any(|known| (known.domain.as_str(), known.name.as_str()) == (domain, name)) {
                    types.push(TypeEvents { domain: domain.to_owned(), name: name.to_owned(), events: 0 });
                }
            }
            Ok(types)
        };
        self.directory.types.get(LIST_FRESH_FOR, find).await
    }

    /// The names of consumers.
    pub(crate) async fn consumer_names(&self) -> Result<Arc<Names>, Declined> {
        let snapshot = self.snapshot().await?;
        let keys = snapshot.consumers.iter().take(LOOKED_AT_MAX).map(|outbox| outbox.key).collect();
        let find = self.with(move |queries| queries.names(&Principal::Service, keys));
        self.directory.names.get(NAMES_FRESH_FOR, find).await
    }
}

fn all_suppliers(queries: &Queries) -> Result<Vec<(SupplierStatus, String)>, Declined> {
    let mut all: Vec<(SupplierStatus, String)> = Vec::new();
    while all.len() < LOOKED_AT_MAX {
        let behind = all.last().map(|(last, _)| last.key);
        let AdminAnswer::Suppliers(some) = queries.ask(&Principal::Service, Query::Suppliers { behind })? else {
            break;
        };
        let is_last = some.len() < SUPPLIERS_AT_ONCE;
        all.extend(some);
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// A search text: a part of a name, ignoring case, or a number.
pub(crate) struct Sought(String);

impl Sought {
    /// The search text; `None` if everything matches.
    pub(crate) fn of(arguments: &Arguments<'_>) -> Option<Self> {
        let text = arguments.text("find").unwrap_or_default().trim().to_lowercase();
        (!text.is_empty()).then_some(Self(text))
    }

    /// Whether a name contains it, or one of these numbers equals it.
    pub(crate) fn is(&self, name: &str, numbers: &[u32]) -> bool {
        name.to_lowercase().contains(&self.0) || numbers.iter().any(|number| self.0 == number.to_string())
    }

    /// Whether a proxy's name contains it, or it is the proxy's number, alone or behind its channel's.
    pub(crate) fn is_proxy(&self, key: ProxyKey, name: &str) -> bool {
        self.is(name, &[key.proxy.0]) || self.0 == format!("{}/{}", key.channel.0, key.proxy.0)
    }
}

/// A page of suppliers.
pub(crate) async fn suppliers(shared: &Shared, arguments: Arguments<'_>) -> Result<Value, Failure> {
    let (channel, of_page) = (arguments.channel(shared).await?, arguments.page()?);
    let sought = Sought::of(&arguments);
    let all = shared.suppliers().await?;
    let wanted = |(status, name): &&(SupplierStatus, String)| {
        let is_sought = sought.as_ref().is_none_or(|sought| sought.is_proxy(status.key, name));
        is_sought && channel.is_none_or(|channel| status.key.channel == channel)
    };
    let mut found: Vec<&(SupplierStatus, String)> = all.iter().filter(wanted).collect();
    match arguments.text("sort") {
        None | Some("" | "number") => {}
        Some("events") => found.sort_by_key(|(status, _)| core::cmp::Reverse(status.events)),
        Some("idle") => found.sort_by_key(|(status, _)| status.idle),
        Some(_) => return Err(Failure::Bad("sort is one of number, events, idle".to_owned())),
    }
    Ok(page(&found, of_page, |supplier| supplier_json(supplier)))
}

/// A supplier.
pub(crate) async fn supplier(shared: &Shared, key: ProxyKey) -> Result<Value, Failure> {
    let behind = match (key.channel.0, key.proxy.0) {
        (0, 0) => None,
        (channel, 0) => Some(ProxyKey { channel: ChannelId(channel - 1), proxy: ProxyId(u32::MAX) }),
        (_, proxy) => Some(ProxyKey { proxy: ProxyId(proxy - 1), ..key }),
    };
    let AdminAnswer::Suppliers(found) = shared.ask(Principal::Service, Query::Suppliers { behind }).await? else {
        return Err(Failure::NotFound);
    };
    found.first().filter(|(status, _)| status.key == key).map(supplier_json).ok_or(Failure::NotFound)
}

fn type_json(shared: &Shared, known: &TypeEvents) -> Value {
    let text = type_text(&known.domain, &known.name);
    let declared: Value = shared
        .declared
        .iter()
        .filter(|declared| declared.name == text)
        .map(|of| json!({ "protocol": of.protocol, "channel": of.channel, "idl": of.definition }))
        .collect();
    json!({ "type": text, "domain": known.domain, "name": known.name, "events": known.events, "declared": declared })
}

/// A page of event types: those received, and those declared in the configuration.
pub(crate) async fn types(shared: &Shared, arguments: Arguments<'_>) -> Result<Value, Failure> {
    let (of_page, sought) = (arguments.page()?, Sought::of(&arguments));
    let (all, exactly) = (shared.types().await?, arguments.text("type"));
    let wanted = |known: &&TypeEvents| {
        let text = type_text(&known.domain, &known.name);
        exactly.is_none_or(|exactly| text == exactly) && sought.as_ref().is_none_or(|sought| sought.is(&text, &[]))
    };
    let mut found: Vec<&TypeEvents> = all.iter().filter(wanted).collect();
    match arguments.text("sort") {
        None | Some("" | "events") => found.sort_by_key(|known| core::cmp::Reverse(known.events)),
        Some("name") => found.sort_by_cached_key(|known| type_text(&known.domain, &known.name)),
        Some(_) => return Err(Failure::Bad("sort is one of events, name".to_owned())),
    }
    Ok(page(&found, of_page, |known| type_json(shared, known)))
}

/// The first matches of each kind, and their numbers.
pub(crate) async fn search(shared: &Shared, arguments: Arguments<'_>) -> Result<Value, Failure> {
    let Some(sought) = Sought::of(&arguments) else { return Err(Failure::Bad("find is to be a text".to_owned())) };
    let (snapshot, names) = (shared.snapshot().await?, shared.consumer_names().await?);
    let (suppliers, types) = (shared.suppliers().await?, shared.types().await?);
    let channels: Vec<_> = snapshot
        .channels
        .iter()
        .filter(|known| sought.is(known.listed.name.as_deref().unwrap_or_default(), &[known.listed.id.0]))
        .collect();
    let called = |key: &ProxyKey| names.get(key).map_or("", |(name, _)| name.as_str());
    let consumers = snapshot.consumers.iter().filter(|outbox| sought.is_proxy(outbox.key, called(&outbox.key)));
    let consumers: Vec<_> = consumers.collect();
    let suppliers: Vec<_> = suppliers.iter().filter(|(status, name)| sought.is_proxy(status.key, name)).collect();
    let types: Vec<_> = types.iter().filter(|of| sought.is(&type_text(&of.domain, &of.name), &[])).collect();
    let first = (0, FOUND_MAX);
    Ok(json!({
        "channels": page(&channels, first, |known| json!({ "id": known.listed.id.0, "name": known.listed.name })),
        "consumers": page(&consumers, first, |outbox| json!({
            "channel": outbox.key.channel.0, "proxy": outbox.key.proxy.0, "name": called(&outbox.key),
            "state": state_of(outbox, snapshot.now),
        })),
        "suppliers": page(&suppliers, first, |supplier| supplier_json(supplier)),
        "types": page(&types, first, |known| json!({ "type": type_text(&known.domain, &known.name), "events": known.events })),
        // Beyond these nothing was looked at.
        "consumers_without_name": snapshot.consumers.len().saturating_sub(LOOKED_AT_MAX),
    }))
}
