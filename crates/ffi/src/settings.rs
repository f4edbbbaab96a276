//! The settings of suppliers and consumers.

use crate::log::listen;
use crate::pointers::{borrow_mut, give, take, text};
use crate::status::{Failure, guarded};
use campanile::{ErrorCode, Settings, SettingsError};
use std::ffi::c_char;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of suppliers and consumers: see `campanile_settings_set`. One thread at a time uses a handle; suppliers and consumers copy it.
pub struct SettingsHandle(pub(crate) Settings);

/// Loads the settings of the environment (`CAMPANILE_SERVER`, `CAMPANILE_TRANSPORT`, `CAMPANILE_CONTEXT`), the saved context, and defaults.
/// To be freed with `campanile_settings_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_settings_load(settings: *mut *mut SettingsHandle) -> ErrorCode {
    listen();
    guarded(|| {
        let loaded = SettingsHandle(Settings::load()?);
        // SAFETY: the header asks for it.
        unsafe { give(settings, loaded) }
    })
}

/// Loads the settings of a saved context, ignoring the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_settings_of_context(
    name: *const c_char,
    settings: *mut *mut SettingsHandle,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let name = unsafe { text(name, "name") }?;
        let of = SettingsHandle(Settings::of_context(name)?);
        // SAFETY: the header asks for it.
        unsafe { give(settings, of) }
    })
}

/// Sets a setting by its name in `contexts.toml`:
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | what the service calls this program in logs, statistics and metrics: 1 to 64 characters; an empty text for nothing | the program and its host |
/// | `server` | `HOST`, `HOST:PORT`, `corbaloc:…`, `corbaname:…`, `IOR:…` or the path of an IOR file | `127.0.0.1:2809` |
/// | `transport` | `notification` or `dds` | `notification` |
/// | `event_form` | `body` or `alma` | `body` |
/// | `naming` | another naming service than the server's; an empty text for none | none |
/// | `naming_domain` | what stands behind the `@` of channels' names | `DEFAULTDOMAIN` |
/// | `event_domain` | the domain of events of types that name none | empty |
/// | `wait_for_service_ms` | how long to wait at the start for a service that cannot be reached | `0` |
/// | `wait_for_restart_ms` | how long `publish` waits for a service that cannot be reached any more; `0`: not at all | `30000` |
/// | `shared_thread` | `true`: consumers of the process with the same settings share a connection and a thread; for many of them | `false` |
/// | `tls.ca`, `tls.certificate`, `tls.key` | PEM files: whom to trust, so that TLS is spoken; what to show, and its key | none |
/// | `dds.…` | as in `contexts.toml`, the value as TOML or as plain text: `dds.domains.ALMA` is `7`, `dds.reliable` is `false`, `dds.late_joiners` is `1` | |
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_settings_set(
    settings: *mut SettingsHandle,
    key: *const c_char,
    value: *const c_char,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (settings, key, value) =
            unsafe { (borrow_mut(settings, "settings")?, text(key, "key")?, text(value, "value")?) };
        set(&mut settings.0, key, value)
    })
}

/// Frees settings. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_settings_free(settings: *mut SettingsHandle) {
    // SAFETY: the header asks for it.
    drop(unsafe { take(settings) });
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), Failure> {
    let text = || value.to_owned();
    match key {
        "name" => settings.set_name(value)?,
        "server" => settings.server = text(),
        "transport" => settings.transport = value.parse()?,
        "event_form" => settings.event_form = value.parse()?,
        "naming" => settings.naming = Some(text()).filter(|naming| !naming.is_empty()),
        "naming_domain" => settings.naming_domain = text(),
        "event_domain" => settings.event_domain = text(),
        "wait_for_service_ms" => settings.wait_for_service = milliseconds("wait_for_service_ms", value)?,
        "wait_for_restart_ms" => settings.wait_for_restart = milliseconds("wait_for_restart_ms", value)?,
        "shared_thread" => {
            settings.shared_thread = value.parse().map_err(|_| SettingsError::Value {
                setting: "shared_thread",
                value: text(),
                wanted: "`true` `false` ",
            })?;
        }
        "tls.ca" => settings.tls.ca = file(value),
        "tls.certificate" => settings.tls.certificate = file(value),
        "tls.key" => settings.tls.key = file(value),
        _ => match key.strip_prefix("dds.") {
            Some(path) => settings.set_dds(path, value)?,
            None => return Err(Failure::new(ErrorCode::Settings, format!("there is no setting {key:?}"))),
        },
    }
    Ok(())
}

fn milliseconds(setting: &'static str, value: &str) -> Result<Duration, SettingsError> {
    let wrong = |_| SettingsError::Value { setting, value: value.to_owned(), wanted: "a number of milliseconds" };
    value.parse().map(Duration::from_millis).map_err(wrong)
}

/// Parses a path; an empty text is `None`.
fn file(value: &str) -> Option<PathBuf> {
    Some(value).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile::{EventForm, Transport};

    #[test]
    fn settings_are_set_by_their_names_in_the_file_of_contexts() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("server", "lab:1"),
            ("transport", "dds"),
            ("event_form", "alma"),
            ("naming", "names:2"),
            ("wait_for_service_ms", "1500"),
            ("wait_for_restart_ms", "0"),
            ("shared_thread", "true"),
            ("dds.domains.ALMA", "7"),
            ("dds.domain_default", "3"),
            ("dds.partitions.a.b", ""),
            ("dds.partitions.7", "7"),
            ("dds.reliable", "false"),
            ("dds.late_joiners", "2"),
            ("dds.history_depth", "3"),
            ("dds.samples_max", "5"),
        ] {
            set(&mut settings, key, value).unwrap();
        }
        assert_eq!((settings.server.as_str(), settings.naming.as_deref()), ("lab:1", Some("names:2")));
        assert_eq!((settings.transport, settings.event_form), (Transport::Dds, EventForm::Alma));
        assert_eq!((settings.wait_for_service, settings.shared_thread), (Duration::from_millis(1500), true));
        assert_eq!(settings.wait_for_restart, Duration::ZERO);
        assert_eq!((settings.dds.domain("ALMA"), settings.dds.domain("other")), (7, 3));
        let of = &settings.dds;
        assert_eq!((of.reliable, of.late_joiners, of.history_depth, of.samples_max), (false, 2, 3, 5));
        assert_eq!((settings.dds.partition("a.b"), settings.dds.partition("7")), ("", "7"));
    }

    #[test]
    fn what_is_wrong_is_refused_and_nothing_is_changed() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("sever", "x"),
            ("transport", "pigeon"),
            ("wait_for_service_ms", "soon"),
            ("wait_for_restart_ms", "-1"),
            ("shared_thread", "1"),
            ("dds.domains.ALMA", "233"),
            ("dds.domains.ALMA", "many"),
            ("dds.sever", "x"),
            ("dds.reliable", "perhaps"),
            ("dds.samples_max", "0"),
        ] {
            assert!(set(&mut settings, key, value).is_err(), "{key}");
        }
        assert_eq!(settings, Settings::default());
    }
}
