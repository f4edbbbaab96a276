//! `campanile tao-notify`: takes the options of TAO's `tao_cosnotification` and its `svc.conf` directives, and serves accordingly, with the
//! behaviour that its clients rely on ([`service::Compatibility`]). Ignored options are printed with the reason.

mod directives;
mod words;

use crate::args::{LogLevel, TaoNotifyOptions};
use crate::failure::Failure;
use crate::serve;
use giop::url::Corbaloc;
use service::{Compatibility, Config, DeclaredChannel, LogConfig, Service, StoreConfig};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Default name (`-ChannelName`) under which TAO binds the channel of `-Channel`.
const CHANNEL_NAME: &str = "NotifyEventChannel";
/// The type of the monitor's object; `-o` of the monitor writes its reference.
const MONITOR_TYPE: &str = "IDL:sandia.gov/CosNotification/NotificationServiceMonitorControl:1.0";

/// Result of the options and directives.
#[derive(Debug)]
struct Plan {
    config: Config,
    log: LogLevel,
    /// File for the reference of the monitor and control object.
    monitor_file: Option<PathBuf>,
    endpoint: Option<String>,
    is_dotted: bool,
    naming: Option<String>,
    uses_naming: bool,
    channels: Vec<String>,
    makes_channel: bool,
    /// Ignored options with their reasons, a line each.
    ignored: Vec<String>,
}

/// Serves until a signal asks to stop.
pub(crate) fn run(options: &TaoNotifyOptions) -> Result<(), Failure> {
    let mut plan = Plan::new();
    plan.read_arguments(&options.arguments)?;
    let Plan { mut config, log, monitor_file, ignored, .. } = plan.resolved()?;
    if let Some(data) = &options.data {
        config.store.directory = Some(data.clone());
    }
    // TAO's server keeps nothing by default.
    config.store.directory.get_or_insert_with(|| StoreConfig::NOWHERE.into());
    for line in &ignored {
        eprintln!("campanile: {line}");
    }
    let log = LogConfig { level: log.into(), ..LogConfig::default() };
    serve::serve(
        log,
        Ok(config),
        || None,
        |service| match &monitor_file {
            Some(file) => write_monitor(service, file),
            None => Ok(()),
        },
    )
}

fn write_monitor(service: &Service, file: &Path) -> Result<(), Failure> {
    let location: Result<Corbaloc, _> = service.corbaloc("TAO_MonitorAndControl").parse();
    let reference = location.map_err(Failure::message)?.to_ior(MONITOR_TYPE).to_string();
    fs::write(file, reference).map_err(|error| Failure::message(format!("cannot write {}: {error}", file.display())))
}

impl Plan {
    fn new() -> Self {
        let compatibility = Compatibility {
            ignore_unknown_properties: true,
            timeout_never_expires: true,
            limits_as_imp_limit: true,
            default_admins_or: true,
            or_passes_without_filters: true,
            persistent_without_store: true,
            unknown_filter_internal: true,
            tao_event_types: true,
            // TAO's proxies end when disconnected, and call no client: its clients may have ended the called object before.
            tell_on_disconnect: false,
            ..Compatibility::default()
        };
        Self {
            config: Config { compatibility, ..Config::default() },
            log: LogLevel::Info,
            monitor_file: None,
            endpoint: None,
            is_dotted: false,
            naming: None,
            uses_naming: true,
            channels: Vec::new(),
            makes_channel: false,
            ignored: Vec::new(),
        }
    }

    fn ignore(&mut self, what: &str, why: &str) {
        self.ignored.push(format!("{what} is ignored: {why}"));
    }

    // ---- options ----

    fn read_arguments(&mut self, arguments: &[String]) -> Result<(), Failure> {
        let mut rest = arguments.iter().map(String::as_str).peekable();
        while let Some(option) = rest.next() {
            let mut value = || {
                rest.next()
                    .ok_or_else(|| Failure::Usage(format!("{option} takes a value: see campanile tao-notify --help")))
            };
            match Self::known(option) {
                "-orbendpoint" | "-orblistenendpoints" => {
                    let endpoint = value()?.to_owned();
                    self.listen_at(endpoint);
                }
                "-orbinitref" => {
                    let reference = value()?.to_owned();
                    self.note_initial_reference(&reference)?;
                }
                "-orbdotteddecimaladdresses" => self.is_dotted = value()? != "0",
                "-orbsvcconf" => {
                    let file = PathBuf::from(value()?);
                    self.read_directives(&file)?;
                }
                "-orbsvcconfdirective" => {
                    let directive = value()?.to_owned();
                    self.obey(&directive);
                }
                "-orbdebuglevel" => {
                    if value()? != "0" {
                        self.log = LogLevel::Debug;
                    }
                }
                "-ioroutput" => self.config.ior_file = Some(value()?.into()),
                "-factory" => self.config.compatibility.factory_name = value()?.to_owned(),
                "-namesvc" => self.uses_naming = true,
                "-nonamesvc" => self.uses_naming = false,
                "-channel" => self.makes_channel = true,
                "-channelname" => {
                    let name = value()?.to_owned();
                    if !self.channels.contains(&name) {
                        self.channels.push(name);
                    }
                }
                "-timeout" => {
                    let milliseconds = number(option, value()?)?;
                    self.config.delivery.reply_timeout_ms = milliseconds.max(10);
                }
                // The factory is always found there.
                "-boot" => {}
                "-notify_tpreactor" => {
                    // The option's value is optional.
                    rest.next_if(|next| !next.starts_with('-'));
                    self.ignore(option, THREADS);
                }
                "-runthreads" | "-orbrunthreads" | "-dispatching" => {
                    value()?;
                    self.ignore(option, THREADS);
                }
                "-useseparatedispatchingorb" => {
                    value()?;
                    self.ignore(option, SEPARATE_ORB);
                }
                _ => {
                    let value = rest.next_if(|next| !next.starts_with('-'));
                    self.ignore(option, why_ignored(option));
                    if let Some(value) = value.filter(|_| !option.starts_with('-')) {
                        self.ignore(value, why_ignored(value));
                    }
                }
            }
        }
        Ok(())
    }

    /// The canonical form of an option, since TAO ignores the case.
    fn known(option: &str) -> &'static str {
        const OPTIONS: [&str; 20] = [
            "-orbendpoint",
            "-orblistenendpoints",
            "-orbinitref",
            "-orbdotteddecimaladdresses",
            "-orbsvcconf",
            "-orbsvcconfdirective",
            "-orbdebuglevel",
            "-ioroutput",
            "-factory",
            "-namesvc",
            "-nonamesvc",
            "-channel",
            "-channelname",
            "-timeout",
            "-boot",
            "-notify_tpreactor",
            "-runthreads",
            "-orbrunthreads",
            "-dispatching",
            "-useseparatedispatchingorb",
        ];
        OPTIONS.into_iter().find(|known| known.eq_ignore_ascii_case(option)).unwrap_or_default()
    }

    fn listen_at(&mut self, endpoint: String) {
        // Several can stand in one, separated by semicolons.
        for one in endpoint.split(';').filter(|one| !one.is_empty()) {
            if !one.starts_with("iiop://") {
                self.ignore(one, "only iiop:// is listened on");
            } else if self.endpoint.is_some() {
                self.ignore(one, "one end point is listened on, the first");
            } else {
                self.endpoint = Some(one.to_owned());
            }
        }
    }

    fn note_initial_reference(&mut self, reference: &str) -> Result<(), Failure> {
        match reference.split_once('=') {
            Some(("NameService", url)) => {
                let file = url.strip_prefix("file://");
                let read = |path: &str| {
                    let text = fs::read_to_string(path);
                    text.map_err(|error| {
                        Failure::message(format!("-ORBInitRef {reference}: cannot read {path}: {error}"))
                    })
                };
                self.naming = Some(file.map_or_else(|| Ok(url.to_owned()), read)?.trim().to_owned());
            }
            _ => self.ignore(&format!("-ORBInitRef {reference}"), "no other service than NameService is called"),
        }
        Ok(())
    }

    // ---- what they come to ----

    fn resolved(mut self) -> Result<Self, Failure> {
        self.resolve_address()?;
        if self.uses_naming {
            self.config.naming.outside = self.naming.take();
        } else if let Some(naming) = self.naming.take() {
            self.ignore(&format!("-ORBInitRef NameService={naming}"), "-NoNameSvc says so");
        }
        if self.makes_channel || !self.channels.is_empty() {
            let mut names = core::mem::take(&mut self.channels);
            if names.is_empty() {
                names.push(CHANNEL_NAME.to_owned());
            }
            let channel =
                |name| DeclaredChannel { name, properties: BTreeMap::new(), lane: Vec::new(), timers: Vec::new() };
            self.config.channels = names.into_iter().map(channel).collect();
        }
        Ok(self)
    }

    /// Resolves `iiop://[VERSION@]HOST:PORT[/OPTION&OPTION]`, with an optional host or port.
    fn resolve_address(&mut self) -> Result<(), Failure> {
        let Some(endpoint) = self.endpoint.clone() else {
            self.config.listen = "127.0.0.1:0".to_owned();
            self.ignored.push(
                "without -ORBEndpoint a free port of 127.0.0.1 is listened on, and not one of every address: give one"
                    .to_owned(),
            );
            return Ok(());
        };
        let wrong = || Failure::Usage(format!("-ORBEndpoint {endpoint}: write iiop://HOST:PORT"));
        let rest = endpoint.strip_prefix("iiop://").ok_or_else(wrong)?;
        let (address, options) = rest.split_once('/').unwrap_or((rest, ""));
        let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
        let port: u16 = if port.is_empty() { 0 } else { port.parse().map_err(|_| wrong())? };
        let mut told = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("hostname_in_ior", host)) => told = Some(host.to_owned()),
                _ => self.ignore(option, "it means nothing here"),
            }
        }
        let is_any = host.is_empty() || host == "0.0.0.0";
        self.config.listen = if is_any { format!("0.0.0.0:{port}") } else { format!("{host}:{port}") };
        let host = if is_any { host_name().ok_or_else(wrong)? } else { host.to_owned() };
        let told = told.unwrap_or(host);
        let is_name = told.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
        self.config.advertise = match is_name && self.is_dotted {
            true => Some(dotted(&told).ok_or_else(|| {
                Failure::Usage(format!("-ORBDottedDecimalAddresses 1: no address is found for {told}"))
            })?),
            false => Some(told),
        };
        // With a port of the system's choice, references carry that.
        if port != 0 {
            self.config.advertise = self.config.advertise.take().map(|host| format!("{host}:{port}"));
        }
        Ok(())
    }
}

/// Reason for ignoring TAO's thread options.
const THREADS: &str = "threads do not depend on clients here, and no consumer waits for another; thread pools are set as quality of service";

/// Reason for ignoring TAO's ORB for dispatching.
const SEPARATE_ORB: &str = "events are sent beside what clients ask for in any case";

/// Reason for ignoring options of the log.
const LOG: &str = "the log goes to standard error";

fn why_ignored(option: &str) -> &'static str {
    let is = |begin: &str| option.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin));
    if is("-ORBLogFile") {
        LOG
    } else if is("-ORB") {
        "it concerns TAO's ORB"
    } else {
        "it is not known"
    }
}

fn number(option: &str, text: &str) -> Result<u32, Failure> {
    text.parse().map_err(|_| Failure::Usage(format!("{option} {text}: this is no number")))
}

/// Name of this machine.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// First IPv4 address of a host, or an IPv6 address if it has no other.
fn dotted(host: &str) -> Option<String> {
    let found: Vec<IpAddr> = (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    found.iter().find(|ip| ip.is_ipv4()).or(found.first()).map(ToString::to_string)
}

#[cfg(test)]
mod tests;
