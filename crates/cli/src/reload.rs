//! SIGHUP: reads the configuration of a running service again.

use crate::failure::Failure;
use crate::logger;
use console::Console;
use serde_json::Value as Json;
use service::{Answer, Command, Config, Service};
use std::collections::BTreeMap;

/// Applies the changes that a running service permits. Logs them, and those that need a restart.
pub(crate) fn reload(
    service: &Service,
    console: Option<&Console>,
    running: &mut Config,
    read: Result<Config, Failure>,
) {
    let read = match read {
        Ok(read) => read,
        Err(Failure::Message(why) | Failure::Usage(why)) => {
            log::error!("SIGHUP: the configuration is left as it was: {why}");
            return;
        }
        Err(_) => return,
    };
    if let Err(why) = read.check() {
        log::error!("SIGHUP: the configuration is left as it was: {why}");
        return;
    }
    let mut done = Vec::new();
    if running.log != read.log {
        logger::install(read.log);
        running.log = read.log;
        done.push("[log]".to_owned());
    }
    reload_access(service, running, &read, &mut done);
    if running.client != read.client {
        match service.reload_client_names(&read) {
            Ok(()) => {
                running.client.clone_from(&read.client);
                done.push("[[client]]".to_owned());
            }
            Err(why) => log::error!("SIGHUP: names of clients are left as they were: {why}"),
        }
    }
    if let Some(console) = console {
        reload_token(console, running, &read, &mut done);
    }
    let mut kept = Vec::new();
    for channel in &read.channels {
        if running.channels.contains(channel) {
            kept.push(channel.clone());
            continue;
        }
        match service.command(Command::DeclareChannel(channel.clone())) {
            Ok(Answer::Applied(Ok(()))) => {
                done.push(format!("channel {}", channel.name));
                kept.push(channel.clone());
            }
            Ok(Answer::Applied(Err(why))) => log::error!("SIGHUP: channel {} is left as it was: {why}", channel.name),
            Ok(_) => {}
            Err(declined) => log::error!("SIGHUP: channel {} is left as it was: {declined:?}", channel.name),
        }
    }
    for gone in running.channels.iter().filter(|old| read.channels.iter().all(|new| new.name != old.name)) {
        log::warn!(
            "SIGHUP: channel {} is declared no more, and stays with its timers until it is destroyed or the service is started again",
            gone.name
        );
    }
    running.channels = kept;
    let needs_restart = differences(running, &read);
    if !needs_restart.is_empty() {
        log::warn!("SIGHUP: what is new of {} counts when the service is started again", needs_restart.join(", "));
    }
    match done.as_slice() {
        [] => log::info!("SIGHUP: the configuration was read again; nothing changes"),
        done => log::info!("SIGHUP: the configuration was read again; now count {}", done.join(", ")),
    }
}

/// Replaces the rules of access and the tokens. Tokens may be in files, which may have changed by themselves.
fn reload_access(service: &Service, running: &mut Config, read: &Config, done: &mut Vec<String>) {
    let is_new = running.access != read.access || running.tokens != read.tokens;
    if !is_new && read.tokens.is_empty() {
        return;
    }
    match service.reload_access(read) {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| log::warn!("{warning}"));
            running.access.clone_from(&read.access);
            running.tokens.clone_from(&read.tokens);
            if is_new {
                done.push("[[access]] and [tokens]".to_owned());
            }
        }
        Err(why) => log::error!("SIGHUP: the rules of access are left as they were: {why}"),
    }
}

/// Replaces HTTP's token by the one that is in its file now.
fn reload_token(console: &Console, running: &mut Config, read: &Config, done: &mut Vec<String>) {
    match console.reload(read) {
        Ok(is_new) => {
            running.http.token_file.clone_from(&read.http.token_file);
            if is_new {
                done.push("http.token_file".to_owned());
            }
        }
        Err(why) => log::error!("SIGHUP: HTTP's token is left as it was: {why}"),
    }
}

/// Keys with different values in two configurations, without channels.
fn differences(running: &Config, read: &Config) -> Vec<String> {
    let keys = |config: &Config| {
        let mut keys = BTreeMap::new();
        if let Ok(json) = serde_json::to_value(Config { channels: Vec::new(), ..config.clone() }) {
            flatten("", &json, &mut keys);
        }
        keys
    };
    let (running, read) = (keys(running), keys(read));
    let mut different: Vec<String> = running
        .iter()
        .filter(|(key, value)| read.get(*key) != Some(value))
        .chain(read.iter().filter(|(key, _)| !running.contains_key(*key)))
        .map(|(key, _)| key.clone())
        .collect();
    different.sort_unstable();
    different
}

fn flatten(path: &str, json: &Json, out: &mut BTreeMap<String, Json>) {
    match json {
        Json::Object(members) => members.iter().for_each(|(name, member)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            flatten(&path, member, out);
        }),
        other => _ = out.insert(path.to_owned(), other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_by_its_key() {
        let running = Config::default();
        let mut read = Config { advertise: Some("h".into()), ..running.clone() };
        read.limits.connections_max = 7;
        assert_eq!(differences(&running, &read), ["advertise", "limits.connections_max"]);
        assert_eq!(differences(&running, &running), [""; 0]);
    }
}
