//! Directives of `svc.conf`: the services of a TAO server, and their options.

use super::words::split;
use super::{LOG, Plan, SEPARATE_ORB, THREADS};
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// Service objects of TAO's ORB and its protocols, as its manual and its sources name them in `svc.conf`.
const ORB_OBJECTS: [&str; 44] = [
    "Advanced_Resource_Factory",
    "BiDirGIOP_Loader",
    "COIOP_Factory",
    "CORBALOC_Parser",
    "CORBANAME_Parser",
    "CSD_Framework_Loader",
    "CSD_TP_Strategy_Factory",
    "Client_Strategy_Factory",
    "CodecFactory",
    "Codeset",
    "DIOP_Factory",
    "DLL_Parser",
    "EndpointPolicy_Initializer",
    "FILE_Parser",
    "FT_ServerService_Activate",
    "HTIOP_Factory",
    "HTTP_Parser",
    "IIOP_Factory",
    "IORManip_Loader",
    "IORTable",
    "ImR_Client_Adapter",
    "MCAST_Parser",
    "MIOP_Resource_Factory",
    "Messaging_Loader",
    "PortableGroup_Loader",
    "RT_ORB_Loader",
    "RT_Protocols_Hooks",
    "RT_Resource_Factory",
    "Resource_Factory",
    "SCIOP_Factory",
    "SHMIOP_Factory",
    "SSLIOP_Factory",
    "Server_Strategy_Factory",
    "TAO_Acceptor_Filter_Factory",
    "TAO_CSD_TP_Strategy_Factory",
    "TAO_Object_Adapter_Factory",
    "TAO_POA",
    "TAO_RT_Object_Adapter_Factory",
    "TAO_RT_POA",
    "Time_Policy_Manager",
    "UIOP_Factory",
    "UIPMC_Factory",
    "UTF8_Latin1_Factory",
    "ZIOP_Loader",
];

/// Service objects of TAO's other services, which may have one `svc.conf` with this one.
const OTHER_SERVICES: [&str; 3] = ["CEC_Factory", "EC_Factory", "Naming_Loader"];

/// Names of ACE's logging, any of which may be used there.
const LOGGERS: [&str; 2] = ["ACE_Logger", "Logger"];

/// Options of a directive: behind its kind, its name and, for a dynamic one, its factory.
fn options_of(words: &[String]) -> Vec<String> {
    words.iter().skip(2).filter(|word| word.trim_start().starts_with('-')).flat_map(|word| split(word)).collect()
}

impl Plan {
    pub(super) fn read_directives(&mut self, file: &Path) -> Result<(), Failure> {
        let text = fs::read_to_string(file);
        let text =
            text.map_err(|error| Failure::message(format!("-ORBSvcConf: cannot read {}: {error}", file.display())))?;
        if text.trim_start().starts_with('<') {
            self.ignore(&file.display().to_string(), "directives are not read as XML");
            return Ok(());
        }
        // A line that ends in a backslash goes on in the next.
        text.replace("\\\n", " ").lines().for_each(|line| self.obey(line));
        Ok(())
    }

    /// Carries out one directive.
    pub(super) fn obey(&mut self, directive: &str) {
        let words = split(directive);
        let [kind, name, ..] = &words[..] else {
            if let [word] = &words[..] {
                self.ignore(word, "it is no directive");
            }
            return;
        };
        let options = options_of(&words);
        match (kind.as_str(), name.as_str()) {
            (
                "static" | "dynamic",
                "Notify_Default_Event_Manager_Objects_Factory"
                | "TAO_CosNotify_Service"
                | "TAO_MC_Notify_Service"
                | "TAO_Notify_Service"
                | "TAO_RT_Notify_Service",
            ) => self.set_dispatching(name, &options),
            ("static" | "dynamic", "Topology_Factory") => {
                self.set_store(name, &options, &["-save_base_path", "-base_path", "-load_base_path"]);
            }
            ("static" | "dynamic", "Event_Persistence") => self.set_store(name, &options, &["-file_path"]),
            ("static" | "dynamic", "TAO_MonitorAndControl") => self.set_monitor(&options),
            ("static" | "dynamic", _) if ORB_OBJECTS.contains(&name.as_str()) => {
                self.ignore(&format!("{kind} {name}"), "it concerns TAO's ORB");
            }
            ("static" | "dynamic", _) if OTHER_SERVICES.contains(&name.as_str()) => {
                self.ignore(&format!("{kind} {name}"), "it concerns another service of TAO's");
            }
            ("static" | "dynamic", _) if LOGGERS.contains(&name.as_str()) => {
                self.ignore(&format!("{kind} {name}"), LOG);
            }
            ("static" | "dynamic", _) => {
                self.ignore(&format!("{kind} {name}"), "no service object of that name is known")
            }
            ("suspend" | "resume" | "remove" | "stream", _) => {
                self.ignore(&format!("{kind} {name}"), "nothing is loaded here that it could be done to");
            }
            _ => self.ignore(&format!("{kind} {name}"), "it is no directive of svc.conf"),
        }
    }

    fn set_dispatching(&mut self, of: &str, options: &[String]) {
        let mut options = options.iter().map(String::as_str).peekable();
        let mut by_and = [false, false];
        while let Some(option) = options.next() {
            let what = format!("{of} {option}");
            let value = options.next_if(|next| !next.starts_with('-'));
            match (option.to_ascii_lowercase().as_str(), value) {
                ("-defaultconsumeradminfilterop", Some(operator)) => by_and[0] = operator.eq_ignore_ascii_case("AND"),
                ("-defaultsupplieradminfilterop", Some(operator)) => by_and[1] = operator.eq_ignore_ascii_case("AND"),
                ("-validateclientinterval", Some(seconds)) => match seconds.parse::<u32>() {
                    Ok(seconds) => {
                        self.config.delivery.probe_interval_ms = seconds.saturating_mul(1_000).min(604_800_000)
                    }
                    Err(_) => self.ignore(&what, "its value is no number"),
                },
                // Clients are always looked after, whether they exist.
                ("-validateclient", None) => {}
                ("-validateclientdelay", _) => self.ignore(&what, "a client is asked an interval after it connected"),
                ("-allowreconnect", None) => self.config.compatibility.allow_reconnect = true,
                ("-useseparatedispatchingorb", _) => self.ignore(&what, SEPARATE_ORB),
                ("-asynchupdates", None) => self.ignore(&what, "updates are sent beside the events in any case"),
                ("-noupdates", _) => self.ignore(&what, "clients that do not take updates say so themselves"),
                (thread, _)
                    if thread.starts_with("-mt")
                        || thread.ends_with("threads")
                        || thread == "-allocatetaskperproxy" =>
                {
                    self.ignore(&what, THREADS);
                }
                _ => self.ignore(&what, "it is not known"),
            }
        }
        match by_and {
            [true, true] => self.config.compatibility.default_admins_or = false,
            [false, false] => {}
            _ => self.ignore(of, "the default admins of both sides have the same operator: OR is kept"),
        }
    }

    /// Sets the store for objects that TAO keeps in files.
    fn set_store(&mut self, of: &str, options: &[String], named_by: &[&str]) {
        /// Options for the form of TAO's files, which have no effect here.
        const FORM: [&str; 5] = ["-file_count", "-backup_count", "-no_timestamp", "-block_size", "-v"];
        let value_of = |name: &str| {
            let at = options.iter().position(|option| option.eq_ignore_ascii_case(name))?;
            options.get(at + 1).map(String::as_str)
        };
        let base = named_by.iter().find_map(|name| value_of(name)).unwrap_or("notify");
        for option in options.iter().filter(|option| option.starts_with('-')) {
            let is = |known: &&str| known.eq_ignore_ascii_case(option);
            if FORM.iter().any(&is) {
                self.ignore(&format!("{of} {option}"), "a store has no such files");
            } else if !named_by.iter().any(is) {
                self.ignore(&format!("{of} {option}"), "it is not known");
            }
        }
        let directory = self.config.store.directory.get_or_insert_with(|| PathBuf::from(format!("{base}.store")));
        let line = format!("{of}: everything is stored in {}, and TAO's own files are not read", directory.display());
        self.ignored.push(line);
    }

    fn set_monitor(&mut self, options: &[String]) {
        let mut options = options.iter().map(String::as_str);
        while let Some(option) = options.next() {
            match option {
                "-o" => self.monitor_file = options.next().map(PathBuf::from),
                "-ORBArg" => {
                    let what = format!("TAO_MonitorAndControl -ORBArg {}", options.next().unwrap_or_default());
                    self.ignore(&what, "the object has no ORB of its own");
                }
                _ => self.ignore(
                    &format!("TAO_MonitorAndControl {option}"),
                    "the object is at the service's end point, under the key TAO_MonitorAndControl",
                ),
            }
        }
    }
}
