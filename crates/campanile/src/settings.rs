//! Settings of suppliers and consumers: from the program, the environment, a saved context, or defaults.
//!
//! For each setting the first of these with a value takes precedence:
//!
//! 1. what the program sets on [`Settings`];
//! 2. the environment: `CAMPANILE_SERVER`, `CAMPANILE_TRANSPORT` (`notification` or `dds`), `CAMPANILE_TLS_CA`,
//!    `CAMPANILE_TLS_CERTIFICATE`, `CAMPANILE_TLS_KEY`;
//! 3. a saved context: the one that `CAMPANILE_CONTEXT` names, else the selected one;
//! 4. the default: a service on this machine, as `campanile serve` starts it.
//!
//! Contexts are in `$XDG_CONFIG_HOME/campanile/contexts.toml`, or `~/.config/campanile/contexts.toml`:
//!
//! ```toml
//! selected = "lab"
//!
//! [contexts.lab]
//! server = "lab.example.org"
//! event_form = "alma"
//! tls = { ca = "/etc/lab/ca.pem", certificate = "/etc/lab/me.pem", key = "/etc/lab/me.key" }
//!
//! [contexts.field]
//! transport = "dds"
//! dds.domains = { ALMA = 7 }
//! ```

use client::OrbTls;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The transport of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transport {
    /// A notification service. The default.
    #[default]
    Notification,
    /// DDS: directly from program to program.
    Dds,
}

/// Place of the struct in a structured event. Consumers understand both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EventForm {
    /// In `remainder_of_body`, and each member that is a number, a boolean, a character, a text or an enum also in `filterable_data` by its
    /// name. Filters use `$speed > 10`, and `$.remainder_of_body.place.x > 1` for nested members. The default.
    #[default]
    Body,
    /// As in ALMA Common Software: in `filterable_data[0]`, which has the struct's name, and in `remainder_of_body` ALMA's
    /// `EventDescription` with the supplier's name, the time and the event's number. Filters use `$Wind.speed > 10`.
    Alma,
}

macro_rules! words {
    ($name:ident, $what:literal, $($word:literal => $variant:ident,)+) => {
        impl FromStr for $name {
            type Err = SettingsError;

            fn from_str(text: &str) -> Result<Self, SettingsError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(SettingsError::Value {
                        setting: $what,
                        value: text.to_owned(),
                        wanted: concat!($("`", $word, "` ",)+),
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)+ })
            }
        }
    };
}

words!(Transport, "transport", "notification" => Notification, "dds" => Dds,);
words!(EventForm, "event_form", "body" => Body, "alma" => Alma,);

/// Settings of DDS, and the mapping of names to its domains and partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DdsSettings {
    /// The DDS domain of event domains not in the table. Default 0.
    pub domain_default: u16,
    /// The network interface, by its name or address. Default: Cyclone's choice.
    pub interface: Option<String>,
    /// Hosts that may take part, if there is no multicast to find them. Default none: multicast finds them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Whether missed events are sent again. A reliable consumer gets nothing from best-effort writers, which it
    /// [reports](crate::Trouble::Incompatible). Default true.
    pub reliable: bool,
    /// Number of a writer's latest events that late joiners get (transient-local durability). A consumer with more than 0 requests those,
    /// and gets nothing from writers that store none, which it reports. Default 0.
    pub late_joiners: u32,
    /// Number of the latest events of each topic stored until taken; older ones are lost. Default 0: all are stored, and publishers wait
    /// for room.
    pub history_depth: u32,
    /// Events of each topic that a consumer has room for if all are stored, 1 to 1,048,576. Default 4096.
    pub samples_max: u32,
    /// Octets that a publisher stores for readers that are behind; beyond that `publish` waits. Default 1 MiB.
    pub writer_bytes_max: u32,
    /// Milliseconds that `publish` waits for room before it returns [`Error::Slowed`](crate::Error::Slowed). Default 10,000.
    pub slowed_ms_max: u32,
    /// Milliseconds that a live reader may take nothing while `publish` waits for it. After that it is suspended, with a warning in the
    /// log, and tried again later. 0: it is waited for as long as it lives. Default 20,000.
    pub hold_timeout_ms: u32,
    /// Maximum milliseconds between two events of a type, announced to readers. Default 0: no such deadline.
    pub deadline_ms: u32,
    /// Milliseconds for which an event is valid. Default 0: for ever.
    pub lifespan_ms: u32,
    /// The transport priority of events: higher goes first, where the network distinguishes priorities. Default 0.
    pub priority: i32,
    /// Milliseconds for discovery: consumers are ready, and the first event of a type is published, no earlier after the program joined a
    /// domain. Default 300.
    #[serde(alias = "settle_ms")]
    pub discovery_ms: u32,
    /// Event domains and their DDS domains, 0 to 232, no two alike. Default none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, u16>,
    /// Channels and their partitions, where these differ from the channel's name; `""` is DDS's default partition. Default none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<String, String>,
}

/// The highest DDS domain.
pub const DDS_DOMAIN_MAX: u16 = 232;

impl Default for DdsSettings {
    fn default() -> Self {
        Self {
            domains: BTreeMap::new(),
            domain_default: 0,
            interface: None,
            peers: Vec::new(),
            reliable: true,
            late_joiners: 0,
            history_depth: 0,
            samples_max: 4096,
            writer_bytes_max: 1 << 20,
            slowed_ms_max: 10_000,
            hold_timeout_ms: 20_000,
            deadline_ms: 0,
            lifespan_ms: 0,
            priority: 0,
            discovery_ms: 300,
            partitions: BTreeMap::new(),
        }
    }
}

impl DdsSettings {
    /// The DDS domain of an event domain.
    #[must_use]
    pub fn domain(&self, event_domain: &str) -> u16 {
        self.domains.get(event_domain).copied().unwrap_or(self.domain_default)
    }

    /// The partition of a channel.
    #[must_use]
    pub fn partition<'a>(&'a self, channel: &'a str) -> &'a str {
        self.partitions.get(channel).map_or(channel, String::as_str)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let mut taken: BTreeMap<u16, &str> = BTreeMap::new();
        for (name, id) in &self.domains {
            if *id > DDS_DOMAIN_MAX {
                let value = format!("{name} = {id}");
                return Err(SettingsError::Value { setting: "dds.domains", value, wanted: "numbers from 0 to 232" });
            }
            if let Some(other) = taken.insert(*id, name) {
                let value = format!("{id} for both {other} and {name}");
                return Err(SettingsError::Value {
                    setting: "dds.domains",
                    value,
                    wanted: "a number for each of them",
                });
            }
        }
        if self.domain_default > DDS_DOMAIN_MAX {
            let value = self.domain_default.to_string();
            return Err(SettingsError::Value {
                setting: "dds.domain_default",
                value,
                wanted: "a number from 0 to 232",
            });
        }
        if !(1..=1 << 20).contains(&self.samples_max) {
            let value = self.samples_max.to_string();
            return Err(SettingsError::Value {
                setting: "dds.samples_max",
                value,
                wanted: "a number from 1 to 1048576",
            });
        }
        Ok(())
    }
}

/// TLS with a notification service, by PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The authorities that sign services' certificates. Set: TLS only; not set: no TLS. Default none.
    pub ca: Option<PathBuf>,
    /// The program's certificate, which identifies it to services, and its key, without a passphrase. Required for consumers, since
    /// services connect to them. Default none.
    pub certificate: Option<PathBuf>,
    /// The key: see `certificate`.
    pub key: Option<PathBuf>,
}

impl TlsSettings {
    /// The same settings for an orb; `None` without an authority.
    #[must_use]
    pub fn of_orb(&self) -> Option<OrbTls> {
        let trusting = OrbTls::trusting(self.ca.as_ref()?);
        Some(match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => trusting.with_identity(certificate, key),
            _ => trusting,
        })
    }

    /// Checks that the settings fit together. Not done as each is set, since a program may set the rest later.
    ///
    /// # Errors
    /// A certificate has no key or a key no certificate, or both have no authority: then TLS would not be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |setting, wanted| Err(SettingsError::Value { setting, value: String::new(), wanted });
        match (&self.ca, &self.certificate, &self.key) {
            (_, Some(_), None) => {
                wrong("tls.key", "the file with the certificate's key, since there is tls.certificate")
            }
            (_, None, Some(_)) => {
                wrong("tls.certificate", "the file with the key's certificate, since there is tls.key")
            }
            (None, Some(_), _) => {
                wrong("tls.ca", "the file with the authorities that services' certificates are signed by")
            }
            _ => Ok(()),
        }
    }
}

/// A saved context, with the settings that it sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Context {
    /// See [`Settings::server`].
    pub server: Option<String>,
    /// See [`Settings::transport`].
    pub transport: Option<Transport>,
    /// See [`Settings::event_form`].
    pub event_form: Option<EventForm>,
    /// See [`Settings::naming`].
    pub naming: Option<String>,
    /// See [`Settings::naming_domain`].
    pub naming_domain: Option<String>,
    /// See [`Settings::event_domain`].
    pub event_domain: Option<String>,
    /// See [`Settings::shared_thread`].
    pub shared_thread: Option<bool>,
    /// See [`Settings::tls`].
    pub tls: Option<TlsSettings>,
    /// See [`Settings::dds`].
    pub dds: Option<DdsSettings>,
}

/// The saved contexts: `contexts.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Contexts {
    /// The selected context, used by default.
    pub selected: Option<String>,
    /// All contexts by name.
    pub contexts: BTreeMap<String, Context>,
}

/// Settings of suppliers and consumers.
///
/// ```no_run
/// use campanile::{Settings, Supplier};
///
/// let settings = Settings { server: "lab.example.org".into(), ..Settings::load()? };
/// let supplier = Supplier::with("Weather", &settings)?;
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program's name in the service's logs, statistics and metrics; see [`Settings::set_name`]. Default `None`: the program and its
    /// host. Empty: no name. Parts of a process with different names have participants of their own in DDS.
    pub name: Option<String>,
    /// The notification service: `HOST`, `HOST:PORT`, `corbaloc:…`, `corbaname:…`, `IOR:…` or the path of an IOR file. Default the
    /// service on this machine, `127.0.0.1:2809`.
    pub server: String,
    /// The transport of events. Default [`Transport::Notification`].
    pub transport: Transport,
    /// The form in which suppliers send to a notification service. Default [`EventForm::Body`].
    pub event_form: EventForm,
    /// The naming service of channels, in the form of `server`. Default `None`: the one at the server's host and port.
    pub naming: Option<String>,
    /// The part behind the `@` of a channel's name in the naming service: `{id "Weather@DEFAULTDOMAIN", kind "channels"}`. Default
    /// `DEFAULTDOMAIN`, as in ALMA Common Software.
    pub naming_domain: String,
    /// Event domain of types that name none. Default empty.
    pub event_domain: String,
    /// Time to wait at the start for a service that cannot be reached. Default zero: not at all.
    pub wait_for_service: Duration,
    /// Time that `publish` of a supplier waits for a service that it has reached before and cannot reach now, as during a restart. Only an
    /// event that certainly was not taken is tried again; otherwise the error is returned at once. Zero: always at once. Default 30 s. Not
    /// for publishers, which do not wait for each event, nor over DDS.
    pub wait_for_restart: Duration,
    /// Whether consumers of the process with the same settings, this one included, share a connection and a thread: the service sends their
    /// pending events with one system call, which wakes one thread. For processes with many consumers. Their callbacks run in turn, so that
    /// a slow one delays the others. Default false: a consumer has its own.
    pub shared_thread: bool,
    /// TLS with the service. Default: none.
    pub tls: TlsSettings,
    /// Settings of DDS.
    pub dds: DdsSettings,
}

impl Default for Settings {
    /// The defaults of all settings.
    fn default() -> Self {
        Self {
            name: None,
            server: "127.0.0.1:2809".to_owned(),
            transport: Transport::default(),
            event_form: EventForm::default(),
            naming: None,
            naming_domain: "DEFAULTDOMAIN".to_owned(),
            event_domain: String::new(),
            wait_for_service: Duration::ZERO,
            wait_for_restart: Duration::from_secs(30),
            shared_thread: false,
            tls: TlsSettings::default(),
            dds: DdsSettings::default(),
        }
    }
}

/// An error in the settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingsError {
    /// A setting has an invalid value.
    Value {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        wanted: &'static str,
    },
    /// The context does not exist.
    NoContext {
        /// The name.
        name: String,
        /// The existing names.
        known: Vec<String>,
        /// The file of contexts.
        file: PathBuf,
    },
    /// A setting of DDS is unknown, or has an invalid value.
    Dds {
        /// The name behind `dds.`.
        setting: String,
        /// The value.
        value: String,
        /// The problem.
        reason: String,
    },
    /// The file of contexts cannot be read or written.
    File {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The file of contexts is malformed.
    Syntax {
        /// The file.
        file: PathBuf,
        /// The problem, with its position.
        reason: String,
    },
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set, so that contexts have no place.
    NoFolder,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { setting, value, wanted } => {
                write!(f, "{setting} is {value:?}; it may be {}", wanted.trim_end().replace("` `", "` or `"))
            }
            Self::NoContext { name, known, file } if known.is_empty() => {
                write!(f, "there is no context {name:?}, nor any other, in {}", file.display())
            }
            Self::NoContext { name, known, file } => {
                write!(f, "there is no context {name:?} in {}; there are: {}", file.display(), known.join(", "))
            }
            Self::Dds { setting, value, reason } => write!(f, "dds.{setting} is {value:?}: {}", reason.trim_end()),
            Self::File { file, error } => write!(f, "{}: {error}", file.display()),
            Self::Syntax { file, reason } => write!(f, "{}: {}", file.display(), reason.trim_end()),
            Self::NoFolder => f.write_str("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for contexts"),
        }
    }
}

impl std::error::Error for SettingsError {}

/// Looks up an environment variable.
type Variables<'v> = &'v dyn Fn(&str) -> Option<OsString>;

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl Settings {
    /// Loads the settings of the environment, the context and the defaults.
    ///
    /// # Errors
    /// A variable or the file of contexts has an invalid value.
    pub fn load() -> Result<Self, SettingsError> {
        Self::load_by(&environment)
    }

    fn load_by(variables: Variables<'_>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        let named = text(variables, "CAMPANILE_CONTEXT")?;
        match (file_by(variables), named) {
            (Ok(file), named) => {
                let contexts = Contexts::load(&file)?;
                if let Some(name) = named.or(contexts.selected.clone()) {
                    settings.take(contexts.get(&name, &file)?)?;
                }
            }
            (Err(error), Some(_)) => return Err(error),
            (Err(_), None) => {}
        }
        if let Some(server) = text(variables, "CAMPANILE_SERVER")? {
            settings.server = server;
        }
        if let Some(transport) = text(variables, "CAMPANILE_TRANSPORT")? {
            settings.transport = transport.parse()?;
        }
        let TlsSettings { ca, certificate, key } = &mut settings.tls;
        for (name, file) in
            [("CAMPANILE_TLS_CA", ca), ("CAMPANILE_TLS_CERTIFICATE", certificate), ("CAMPANILE_TLS_KEY", key)]
        {
            let said = variables(name).filter(|value| !value.is_empty());
            *file = said.map(PathBuf::from).or(file.take());
        }
        Ok(settings)
    }

    /// Loads the settings of a saved context, ignoring the environment, with defaults for the rest.
    ///
    /// # Errors
    /// The context does not exist, or the file cannot be read.
    pub fn of_context(name: &str) -> Result<Self, SettingsError> {
        let file = contexts_file()?;
        let mut settings = Self::default();
        settings.take(Contexts::load(&file)?.get(name, &file)?)?;
        Ok(settings)
    }

    /// Sets the program's name: 1 to 64 characters, or an empty text for none.
    ///
    /// # Errors
    /// The name has more characters, or control, invisible or direction characters.
    pub fn set_name(&mut self, name: &str) -> Result<(), SettingsError> {
        if !name.is_empty() && giop::client_name::check(name).is_err() {
            let wanted = "1 to 64 characters without control, invisible and direction characters";
            return Err(SettingsError::Value { setting: "name", value: name.to_owned(), wanted });
        }
        self.name = Some(name.to_owned());
        Ok(())
    }

    /// Sets a setting of [`dds`](Self::dds) by its name in the file of contexts; the value as TOML or as plain text: `domains.ALMA` is `7`,
    /// `reliable` is `false`. For languages in which settings are texts.
    ///
    /// # Errors
    /// The setting does not exist, or the value is invalid.
    pub fn set_dds(&mut self, path: &str, value: &str) -> Result<(), SettingsError> {
        let wrong = |reason| SettingsError::Dds { setting: path.to_owned(), value: value.to_owned(), reason };
        let mut all = toml::Table::try_from(&self.dds).map_err(|error| wrong(error.to_string()))?;
        let meant = format!("it = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("it"));
        let mut failed = None;
        for value in meant.into_iter().chain([toml::Value::String(value.to_owned())]) {
            place(&mut all, path, value);
            match all.clone().try_into::<DdsSettings>() {
                Ok(dds) => {
                    dds.check()?;
                    self.dds = dds;
                    return Ok(());
                }
                Err(error) => failed = failed.or(Some(error.to_string())),
            }
        }
        Err(wrong(failed.unwrap_or_default()))
    }

    fn take(&mut self, context: &Context) -> Result<(), SettingsError> {
        let Context { server, transport, event_form, naming, naming_domain, event_domain, shared_thread, tls, dds } =
            context.clone();
        self.server = server.unwrap_or(core::mem::take(&mut self.server));
        self.transport = transport.unwrap_or(self.transport);
        self.event_form = event_form.unwrap_or(self.event_form);
        self.naming = naming.or(self.naming.take());
        self.naming_domain = naming_domain.unwrap_or(core::mem::take(&mut self.naming_domain));
        self.event_domain = event_domain.unwrap_or(core::mem::take(&mut self.event_domain));
        self.shared_thread = shared_thread.unwrap_or(self.shared_thread);
        self.tls = tls.unwrap_or(core::mem::take(&mut self.tls));
        self.dds = dds.unwrap_or(core::mem::take(&mut self.dds));
        self.dds.check()
    }
}

/// Puts a value into nested tables. Everything behind the first two names of a path is one name, since channels may have dots.
fn place(all: &mut toml::Table, path: &str, value: toml::Value) {
    match path.split_once('.') {
        Some((name, rest)) => {
            let inner = all.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(inner) = inner {
                inner.insert(rest.to_owned(), value);
            } else {
                *inner = toml::Value::Table(toml::Table::from_iter([(rest.to_owned(), value)]));
            }
        }
        None => drop(all.insert(path.to_owned(), value)),
    }
}

impl Contexts {
    /// The contexts in a file; none if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not a file of contexts.
    pub fn load(file: &Path) -> Result<Self, SettingsError> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SettingsError::File { file: file.to_owned(), error }),
        };
        toml::from_str(&text)
            .map_err(|error| SettingsError::Syntax { file: file.to_owned(), reason: error.to_string() })
    }

    /// Writes them to a file, atomically; makes its folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), SettingsError> {
        let failed = |error| SettingsError::File { file: file.to_owned(), error };
        let text = toml::to_string_pretty(self)
            .map_err(|error| SettingsError::Syntax { file: file.to_owned(), reason: error.to_string() })?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let fresh = file.with_extension(format!("new-{}", std::process::id()));
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, file)).map_err(failed)
    }

    /// Adds a context, or changes the one of that name.
    ///
    /// # Errors
    /// The name or the context is invalid.
    pub fn set(&mut self, name: &str, context: Context) -> Result<(), SettingsError> {
        if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let (value, wanted) = (name.to_owned(), "a word");
            return Err(SettingsError::Value { setting: "a context's name", value, wanted });
        }
        let mut settings = Settings::default();
        settings.take(&context)?;
        settings.tls.check()?;
        self.contexts.insert(name.to_owned(), context);
        Ok(())
    }

    /// Selects a context, or none. `file` is for the error.
    ///
    /// # Errors
    /// The context does not exist.
    pub fn select(&mut self, name: Option<&str>, file: &Path) -> Result<(), SettingsError> {
        if let Some(name) = name {
            self.get(name, file)?;
        }
        self.selected = name.map(str::to_owned);
        Ok(())
    }

    /// Removes a context, which also deselects it. `file` is for the error.
    ///
    /// # Errors
    /// The context does not exist.
    pub fn remove(&mut self, name: &str, file: &Path) -> Result<(), SettingsError> {
        self.get(name, file)?;
        self.contexts.remove(name);
        self.selected.take_if(|selected| selected == name);
        Ok(())
    }

    /// The context of that name. `file` is for the error.
    ///
    /// # Errors
    /// The context does not exist.
    pub fn get(&self, name: &str, file: &Path) -> Result<&Context, SettingsError> {
        self.contexts.get(name).ok_or_else(|| SettingsError::NoContext {
            name: name.to_owned(),
            known: self.contexts.keys().cloned().collect(),
            file: file.to_owned(),
        })
    }
}

/// The file in which contexts are saved.
///
/// # Errors
/// The environment does not determine it.
pub fn contexts_file() -> Result<PathBuf, SettingsError> {
    file_by(&environment)
}

fn file_by(variables: Variables<'_>) -> Result<PathBuf, SettingsError> {
    let folder = |name: &str| variables(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = match folder("XDG_CONFIG_HOME") {
        Some(config) => config,
        None => folder("HOME").ok_or(SettingsError::NoFolder)?.join(".config"),
    };
    Ok(config.join("campanile").join("contexts.toml"))
}

/// A variable's text; an empty one counts as unset.
fn text(variables: Variables<'_>, name: &'static str) -> Result<Option<String>, SettingsError> {
    let Some(value) = variables(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    value.into_string().map(Some).map_err(|value| SettingsError::Value {
        setting: name,
        value: value.to_string_lossy().into_owned(),
        wanted: "UTF-8",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::TempPath;

    struct Folder(TempPath);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(TempPath::folder(name))
        }

        fn load(&self, more: &[(&str, &str)]) -> Result<Settings, SettingsError> {
            Settings::load_by(&|name| {
                if name == "XDG_CONFIG_HOME" {
                    return Some(self.0.as_os_str().to_owned());
                }
                more.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            })
        }

        fn file(&self) -> PathBuf {
            self.0.join("campanile/contexts.toml")
        }
    }

    #[test]
    fn the_environment_comes_before_the_context_and_the_context_before_defaults() {
        let folder = Folder::new("order");
        assert_eq!(folder.load(&[]).unwrap(), Settings::default());
        let mut contexts = Contexts::default();
        let lab = Context { server: Some("lab".into()), event_form: Some(EventForm::Alma), ..Context::default() };
        let field = Context { transport: Some(Transport::Dds), shared_thread: Some(true), ..Context::default() };
        contexts.set("lab", lab).unwrap();
        contexts.set("field", field).unwrap();
        contexts.select(Some("lab"), &folder.file()).unwrap();
        contexts.save(&folder.file()).unwrap();
        assert_eq!(Contexts::load(&folder.file()).unwrap(), contexts);
        let settings = folder.load(&[]).unwrap();
        assert_eq!((settings.server.as_str(), settings.event_form), ("lab", EventForm::Alma));
        assert!(!settings.shared_thread);
        let settings = folder.load(&[("CAMPANILE_SERVER", "other:1")]).unwrap();
        assert_eq!((settings.server.as_str(), settings.event_form), ("other:1", EventForm::Alma));
        let settings = folder.load(&[("CAMPANILE_CONTEXT", "field")]).unwrap();
        assert_eq!((settings.transport, settings.event_form), (Transport::Dds, EventForm::Body));
        assert!(settings.shared_thread);
        let settings = folder.load(&[("CAMPANILE_CONTEXT", "field"), ("CAMPANILE_TRANSPORT", "notification")]).unwrap();
        assert_eq!(settings.transport, Transport::Notification);
        contexts.remove("lab", &folder.file()).unwrap();
        assert_eq!(contexts.selected, None);
    }

    #[test]
    fn what_is_wrong_is_reported_with_what_would_be_right() {
        let folder = Folder::new("wrong");
        let error = folder.load(&[("CAMPANILE_TRANSPORT", "pigeon")]).unwrap_err().to_string();
        assert_eq!(error, "transport is \"pigeon\"; it may be `notification` or `dds`");
        let error = folder.load(&[("CAMPANILE_CONTEXT", "lab")]).unwrap_err().to_string();
        assert!(error.contains("no context \"lab\", nor any other"), "{error}");
        fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
        fs::write(folder.file(), "[contexts.a]\nsever = \"x\"\n").unwrap();
        let error = folder.load(&[]).unwrap_err().to_string();
        assert!(error.contains("sever") && error.contains("contexts.toml"), "{error}");
        let domains = "[contexts.a]\ndds.domains = { one = 3, two = 3 }\n";
        fs::write(folder.file(), domains).unwrap();
        let error = folder.load(&[("CAMPANILE_CONTEXT", "a")]).unwrap_err().to_string();
        assert!(error.contains("3 for both one and two"), "{error}");
        let error = folder.load(&[("CAMPANILE_CONTEXT", "b")]).unwrap_err().to_string();
        assert!(error.contains("there are: a"), "{error}");
        let mut contexts = Contexts::default();
        assert!(contexts.set("two words", Context::default()).is_err());
        let beyond = DdsSettings { domain_default: 233, ..DdsSettings::default() };
        assert!(contexts.set("a", Context { dds: Some(beyond), ..Context::default() }).is_err());
    }

    #[test]
    fn tls_is_spoken_where_an_authority_is_said_and_half_an_identity_is_refused() {
        let folder = Folder::new("tls");
        assert_eq!(folder.load(&[]).unwrap().tls.of_orb(), None);
        fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
        fs::write(folder.file(), "selected = \"a\"\n[contexts.a]\ntls = { ca = \"ca.pem\" }\n").unwrap();
        assert_eq!(folder.load(&[]).unwrap().tls.of_orb(), Some(OrbTls::trusting("ca.pem")));
        let wrong = |more: &[(&str, &str)]| folder.load(more).unwrap().tls.check().unwrap_err().to_string();
        let error = wrong(&[("CAMPANILE_TLS_KEY", "me.key")]);
        assert!(error.contains("tls.certificate"), "{error}");
        let identity = [("CAMPANILE_TLS_KEY", "me.key"), ("CAMPANILE_TLS_CERTIFICATE", "me.pem")];
        let tls = folder.load(&identity).unwrap().tls.of_orb();
        assert_eq!(tls, Some(OrbTls::trusting("ca.pem").with_identity("me.pem", "me.key")));
        fs::remove_file(folder.file()).unwrap();
        let error = wrong(&identity);
        assert!(error.contains("tls.ca"), "{error}");
        let mut settings = folder.load(&identity).unwrap();
        settings.tls.ca = Some("other.pem".into());
        assert!(settings.tls.check().is_ok(), "a program adds what is missing");
    }

    #[test]
    fn without_a_home_there_are_no_contexts_and_none_can_be_asked_for() {
        assert_eq!(Settings::load_by(&|_| None).unwrap(), Settings::default());
        let asked = |name: &str| (name == "CAMPANILE_CONTEXT").then(|| "lab".into());
        assert!(matches!(Settings::load_by(&asked), Err(SettingsError::NoFolder)));
    }
}
