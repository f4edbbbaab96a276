//! Domains, participants, topics, and discovery.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use giop::client_name;
use giop::typecode::TypeCode;

use crate::complaints::complaints;
use crate::endpoints::{Reader, Writer};
use crate::error::{Code, Error};
use crate::options::Options;
use crate::qos::{Qos, c_name, nanoseconds};
use crate::raw::{Builtin, Entity, RawFound, RawPolicies};
use crate::types::Naming;
use crate::waiting::WaitSet;
use crate::{discovered, raw, types};

/// Identifier of a participant, a writer or a reader in its domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Partition of the endpoints that serve discovery between participants; no application's are in it.
pub(crate) const BUILT_IN_PARTITION: &str = "__BUILT-IN PARTITION__";

/// The domains that this process takes part in: Cyclone has each once, configured on creation.
static DOMAINS: Mutex<BTreeMap<u32, Domain>> = Mutex::new(BTreeMap::new());

struct Domain {
    options: Options,
    participants: usize,
    _entity: Entity,
}

fn domains() -> MutexGuard<'static, BTreeMap<u32, Domain>> {
    DOMAINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reference to the process's domain, which is deleted with the last one.
#[derive(Debug)]
struct DomainRef(u32);

impl DomainRef {
    fn new(id: u32, options: &Options) -> Result<Self, Error> {
        if id > 232 {
            return Err(Error::DomainId(id));
        }
        if !Options::LEASE_MS.contains(&options.lease_ms) {
            return Err(Error::Option { name: "lease_ms", value: options.lease_ms, range: Options::LEASE_MS });
        }
        let mut domains = domains();
        if let Some(domain) = domains.get_mut(&id) {
            if domain.options != *options {
                return Err(Error::DomainOptions(id));
            }
            domain.participants += 1;
            return Ok(Self(id));
        }
        raw::listen();
        let heard = complaints().count;
        let configuration = CString::new(options.configuration())
            .map_err(|_| Error::Name { of: "network interface or peer", name: "what has a zero in it".into() })?;
        let entity = Entity::domain(id, &configuration).map_err(|code| match code {
            // Other code in this process has made it, and not through this crate.
            Code::PRECONDITION_NOT_MET => Error::DomainOptions(id),
            code => {
                let complaints = complaints();
                let why = if complaints.count > heard { complaints.latest } else { String::new() };
                Error::Domain { id, code, why }
            }
        })?;
        domains.insert(id, Domain { options: options.clone(), participants: 1, _entity: entity });
        Ok(Self(id))
    }
}

impl Drop for DomainRef {
    fn drop(&mut self) {
        let mut domains = domains();
        if let Some(domain) = domains.get_mut(&self.0) {
            domain.participants -= 1;
            if domain.participants == 0 {
                domains.remove(&self.0);
            }
        }
    }
}

/// A participant of a domain. Clones are the same participant.
#[derive(Clone)]
pub struct Participant {
    shared: Arc<Shared>,
    naming: Naming,
}

pub(crate) struct Shared {
    // In the order in which they are to go.
    topics: Mutex<BTreeMap<String, (TypeCode, Arc<Entity>)>>,
    writers: Entity,
    readers: Entity,
    participants: Entity,
    pub(crate) entity: Entity,
    guid: Guid,
    domain: DomainRef,
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "participant {} of domain {}", self.shared.guid, self.shared.domain.0)
    }
}

impl Participant {
    /// Joins domain `id`, 0 to 232.
    ///
    /// # Errors
    /// The domain's number is out of range; this process takes part in it with other options; an option is out of its range; the network is
    /// not as the options say.
    pub fn new(id: u32, options: &Options) -> Result<Self, Error> {
        Self::called(id, options, "")
    }

    /// Joins a domain as [`Participant::new`] does, with an entity name that others may show. An invalid [name](giop::client_name) is left
    /// out.
    ///
    /// # Errors
    /// The same as of [`Participant::new`].
    pub fn called(id: u32, options: &Options, name: &str) -> Result<Self, Error> {
        let domain = DomainRef::new(id, options)?;
        let name = CString::new(name).ok().filter(|_| client_name::check(name).is_ok()).unwrap_or_default();
        let entity = Entity::participant(id, &name).map_err(Error::cyclone("make a participant"))?;
        let writers = entity.builtin(Builtin::Writers).map_err(Error::cyclone("learn of writers"))?;
        let readers = entity.builtin(Builtin::Readers).map_err(Error::cyclone("learn of readers"))?;
        let participants = entity.builtin(Builtin::Participants).map_err(Error::cyclone("learn of participants"))?;
        let guid = Guid(entity.guid().map_err(Error::cyclone("make a participant"))?);
        let shared = Shared { topics: Mutex::default(), writers, readers, participants, entity, guid, domain };
        Ok(Self { shared: Arc::new(shared), naming: Naming::default() })
    }

    /// Changes the naming of types from now on.
    #[must_use]
    pub fn with_naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// The participant's identifier.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.shared.guid
    }

    /// The domain's number.
    #[must_use]
    pub fn domain(&self) -> u32 {
        self.shared.domain.0
    }

    /// Makes a topic, or returns the existing one of that name if its values look the same.
    ///
    /// # Errors
    /// The topic exists with another type; DDS has no equivalent of a part of the type; the name is invalid.
    pub fn topic(&self, name: &str, of: &TypeCode) -> Result<Topic, Error> {
        self.topic_of_type(name, of, true)
    }

    /// Makes a topic as [`Participant::topic`] does, without announcing or querying its type: its readers and writers match those of the
    /// same type's name. For remote endpoints that do not announce their types, or not in a way that Cyclone understands.
    ///
    /// # Errors
    /// The same as of [`Participant::topic`].
    pub fn topic_unannounced(&self, name: &str, of: &TypeCode) -> Result<Topic, Error> {
        self.topic_of_type(name, of, false)
    }

    fn topic_of_type(&self, name: &str, of: &TypeCode, is_announced: bool) -> Result<Topic, Error> {
        self.topic_by(name, of, |c_name| {
            let made = types::of_type_code(&self.shared.entity, of, self.naming)?;
            let topic = self.shared.entity.topic(c_name, &made, is_announced);
            topic.map_err(|code| Error::Cyclone { what: "make a topic", code })
        })
    }

    /// Makes a topic of exactly a discovered endpoint's type, extensibility included.
    ///
    /// # Errors
    /// The same as of [`Participant::topic`]; or the type is not known within `timeout`.
    pub fn topic_like(&self, endpoint: &Endpoint, timeout: Duration) -> Result<Topic, Error> {
        let of = self.type_of(endpoint, timeout)?;
        let builtin = self.builtin_of(endpoint.role);
        self.topic_by(&endpoint.topic, &of, |c_name| {
            let timeout = nanoseconds(timeout);
            self.shared
                .entity
                .topic_of_endpoint(builtin, endpoint.handle, timeout, c_name)
                .map_err(|code| endpoint.unknown(code))
        })
    }

    fn topic_by(
        &self,
        name: &str,
        of: &TypeCode,
        make: impl FnOnce(&std::ffi::CStr) -> Result<Entity, Error>,
    ) -> Result<Topic, Error> {
        let mut topics = self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((has, entity)) = topics.get(name) {
            if !types::agree(has.root(), of.root()) {
                let (has, requested) = (has.to_string(), of.to_string());
                return Err(Error::TopicType { topic: name.to_owned(), has, requested });
            }
            return Ok(self.topic_of(name, has, Arc::clone(entity)));
        }
        let entity = Arc::new(make(&c_name("topic", name)?)?);
        topics.insert(name.to_owned(), (of.clone(), Arc::clone(&entity)));
        Ok(self.topic_of(name, of, entity))
    }

    fn topic_of(&self, name: &str, of: &TypeCode, entity: Arc<Entity>) -> Topic {
        Topic { name: name.into(), of: of.clone(), entity, participant: self.clone() }
    }

    /// Makes a wait set for readers of this participant.
    ///
    /// # Errors
    /// Cyclone failed.
    pub fn wait_set(&self) -> Result<WaitSet, Error> {
        WaitSet::new(self.clone())
    }

    /// The writers and readers in the domain, this participant's own included: at most 4096 of either.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        let mut found = Vec::new();
        for (role, builtin) in [(Role::Writer, &self.shared.writers), (Role::Reader, &self.shared.readers)] {
            builtin
                .endpoints(|endpoint| {
                    if !endpoint.partitions.iter().any(|partition| partition == BUILT_IN_PARTITION) {
                        found.push(Endpoint::of(role, endpoint));
                    }
                })
                .map_err(Error::cyclone("list participants"))?;
        }
        Ok(found)
    }

    /// The name of an endpoint's participant: its entity name, if that is a valid [name](giop::client_name).
    fn name_of(&self, endpoint: &Endpoint) -> Option<String> {
        let [name, ..] = self.shared.participants.participant_of(endpoint.participant_handle)?;
        client_name::check(&name).is_ok().then_some(name)
    }

    /// The type of a discovered endpoint, queried from its participant if necessary, for at most `timeout`.
    ///
    /// # Errors
    /// The type is not known within that time; CORBA has no equivalent of a part of it, or another form on the wire.
    pub fn type_of(&self, endpoint: &Endpoint, timeout: Duration) -> Result<TypeCode, Error> {
        let builtin = self.builtin_of(endpoint.role);
        let description = self
            .shared
            .entity
            .describe(builtin, endpoint.handle, nanoseconds(timeout))
            .map_err(|code| endpoint.unknown(code))?;
        discovered::type_code(&description, self.naming)
            .map_err(|reason| Error::Type { path: endpoint.type_name.clone(), reason })
    }

    /// Description of an endpoint's program, for people.
    #[must_use]
    pub fn describe(&self, endpoint: &Endpoint) -> String {
        let mut text = format!("{} {} of participant {}", endpoint.role, endpoint.guid, endpoint.participant);
        let Some([name, addresses, host, process, pid]) =
            self.shared.participants.participant_of(endpoint.participant_handle)
        else {
            return text;
        };
        let quoted = |text: &str| format!("{:?}", text.chars().take(64).collect::<String>());
        let mut known = Vec::new();
        for (what, is) in [("process", &pid), ("", &process), ("on host", &host), ("at", &addresses), ("named", &name)]
        {
            if !is.is_empty() {
                let is_plain = what == "process" || what == "at";
                let is =
                    if is_plain { is.chars().filter(char::is_ascii_graphic).take(64).collect() } else { quoted(is) };
                known.push(if what.is_empty() { is } else { format!("{what} {is}") });
            }
        }
        if !known.is_empty() {
            text = format!("{text} ({})", known.join(" "));
        }
        text
    }

    fn builtin_of(&self, role: Role) -> &Entity {
        match role {
            Role::Writer => &self.shared.writers,
            Role::Reader => &self.shared.readers,
        }
    }

    pub(crate) fn raw(&self) -> &Entity {
        &self.shared.entity
    }
}

/// The role of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The endpoint writes.
    Writer,
    /// The endpoint reads.
    Reader,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
        })
    }
}

/// A discovered writer or reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it writes or reads.
    pub role: Role,
    /// The endpoint's identifier.
    pub guid: Guid,
    /// The endpoint's participant.
    pub participant: Guid,
    /// Its topic's name.
    pub topic: String,
    /// The name of its topic's type.
    pub type_name: String,
    /// Hash of its topic's type, if announced: equal hashes mean equal types.
    pub type_id: Option<String>,
    /// Its partitions. Empty: the unnamed one.
    pub partitions: Vec<String>,
    /// User data that its program announces.
    pub user_data: Vec<u8>,
    pub(crate) policies: RawPolicies,
    handle: u64,
    participant_handle: u64,
}

impl Endpoint {
    pub(crate) fn of(role: Role, found: RawFound<'_>) -> Self {
        Self {
            role,
            guid: Guid(found.key),
            participant: Guid(found.participant),
            topic: found.topic,
            type_name: found.type_name,
            type_id: found.type_id,
            partitions: found.partitions,
            user_data: found.user_data.to_vec(),
            policies: found.policies,
            handle: found.handle,
            participant_handle: found.participant_handle,
        }
    }

    fn unknown(&self, code: Code) -> Error {
        Error::TypeUnknown { topic: self.topic.clone(), type_name: self.type_name.clone(), code }
    }
}

/// A topic of a participant. Clones are the same topic.
#[derive(Clone, Debug)]
pub struct Topic {
    name: Arc<str>,
    of: TypeCode,
    pub(crate) entity: Arc<Entity>,
    participant: Participant,
}

impl Topic {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type.
    #[must_use]
    pub const fn type_code(&self) -> &TypeCode {
        &self.of
    }

    /// Its participant.
    #[must_use]
    pub const fn participant(&self) -> &Participant {
        &self.participant
    }

    /// A writer of the topic.
    ///
    /// # Errors
    /// A partition's name is invalid, or Cyclone failed.
    pub fn writer(&self, qos: &Qos) -> Result<Writer, Error> {
        Writer::new(self.clone(), qos)
    }

    /// A reader of the topic.
    ///
    /// # Errors
    /// A partition's name is invalid, or Cyclone failed.
    pub fn reader(&self, qos: &Qos) -> Result<Reader, Error> {
        Reader::new(self.clone(), qos)
    }

    /// The endpoints known to the topic's participant, on any topic. Another participant may know more, or fewer.
    ///
    /// # Errors
    /// Cyclone could not say.
    pub fn knows(&self) -> Result<BTreeSet<Guid>, Error> {
        Ok(self.participant.endpoints()?.into_iter().map(|endpoint| endpoint.guid).collect())
    }

    /// Remote endpoints on a topic of the same name with another type, which never match this one. Queries for their types take at most
    /// `timeout` altogether.
    ///
    /// # Errors
    /// Cyclone could not list the endpoints.
    pub fn conflicts(&self, timeout: Duration) -> Result<Vec<Conflict>, Error> {
        let end = std::time::Instant::now() + timeout;
        let left = || end.saturating_duration_since(std::time::Instant::now());
        let endpoints = self.participant.endpoints()?.into_iter();
        Ok(endpoints.filter_map(|endpoint| self.conflict(&endpoint, left())).collect())
    }

    /// The type conflict of one endpoint, as [`Topic::conflicts`] finds it.
    #[must_use]
    pub fn conflict(&self, endpoint: &Endpoint, timeout: Duration) -> Option<Conflict> {
        if endpoint.topic != *self.name || !self.needs_type(endpoint) {
            return None;
        }
        let theirs = match self.participant.type_of(endpoint, timeout) {
            // Another type object and yet the same: other names for sequences, or another way to extend it.
            Ok(of) if endpoint.type_name == self.type_name() && types::agree(self.of.root(), of.root()) => return None,
            Ok(of) => of.to_string(),
            Err(_) => endpoint.type_name.clone(),
        };
        let called = self.participant.name_of(endpoint);
        Some(Conflict { ours: self.of.to_string(), theirs, called, endpoint: endpoint.clone() })
    }

    /// Whether an endpoint's type has to be queried to compare it: if either side does not announce its type, names count.
    #[must_use]
    pub fn needs_type(&self, endpoint: &Endpoint) -> bool {
        let own_id = self.entity.type_id().ok();
        let is_same = own_id.is_none() || endpoint.type_id.is_none() || endpoint.type_id == own_id;
        endpoint.type_name != self.type_name() || !is_same
    }

    fn type_name(&self) -> String {
        types::type_name(self.of.root().resolved(), self.participant.naming)
    }
}

/// An endpoint with the same topic and another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The name of the endpoint's participant.
    pub called: Option<String>,
    /// The local type.
    pub ours: String,
    /// The remote type, or only its name if the type is not known.
    pub theirs: String,
}

impl Conflict {
    /// Whether only the name of the remote type is known, although more can be learned.
    #[must_use]
    pub fn is_unlearnt(&self) -> bool {
        self.endpoint.type_id.is_some() && self.theirs == self.endpoint.type_name
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = match self.endpoint.role {
            Role::Writer => "writes",
            Role::Reader => "reads",
        };
        let Self { endpoint, called, ours, theirs } = self;
        write!(f, "topic {:?}: ", endpoint.topic)?;
        match called {
            Some(name) => write!(f, "{name:?} ({})", endpoint.participant)?,
            None => endpoint.participant.fmt(f)?,
        }
        write!(f, " {does} {theirs}, and the type here is {ours}")
    }
}
