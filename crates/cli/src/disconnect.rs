//! `campanile disconnect`: disconnects clients, for an operator.

use crate::args::DisconnectOptions;
use crate::channels;
use crate::failure::Failure;
use crate::show::clean;
use crate::statistics::Statistics;
use crate::terminal;
use client::InvokeError;
use std::io::{self, Write};

/// A client to be disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    channel: u32,
    proxy: u32,
    description: String,
}

/// Disconnects the clients of the given proxies, or those that meet the conditions.
pub(crate) fn run(options: &DisconnectOptions) -> Result<(), Failure> {
    let is_asked_about = options.proxies.is_empty() && !options.yes && !options.dry_run;
    if is_asked_about && !terminal::can_ask() {
        return Err(Failure::Usage(
            "there is no terminal to ask on: look at the clients concerned with --dry-run, and say --yes".to_owned(),
        ));
    }
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let statistics = Statistics::find(&options.server).map_err(remote)?;
    let channel = channels::unsigned(options.channel.as_ref(), &options.server)?;
    statistics.check_channel(&options.server, channel).map_err(remote)?;
    let failure = |error: InvokeError| statistics.failure(&error, &options.server);
    let clients = if options.proxies.is_empty() {
        find(&statistics, (options, channel)).map_err(failure)?
    } else {
        named(&statistics, (options, channel.unwrap_or(0))).map_err(failure)?
    };
    if clients.is_empty() {
        eprintln!("campanile: there is no client to disconnect");
        return Ok(());
    }
    let mut stdout = io::stdout();
    if options.dry_run || is_asked_about {
        stdout.write_all(list(&clients).as_bytes())?;
        stdout.flush()?;
    }
    if options.dry_run {
        return Ok(());
    }
    let whom = if clients.len() == 1 { "this client".to_owned() } else { format!("these {} clients", clients.len()) };
    if is_asked_about && !terminal::is_confirmed(&format!("disconnect {whom}?"))? {
        return Err(Failure::message("no client was disconnected"));
    }
    let mut was_missing = false;
    for Client { channel, proxy, description } in &clients {
        if statistics.disconnect(*channel, *proxy).map_err(failure)? {
            writeln!(stdout, "disconnected proxy {proxy} of channel {channel}: {description}")?;
        } else if options.proxies.is_empty() {
            // The client has left by itself meanwhile.
        } else {
            eprintln!(
                "campanile: there is no proxy {proxy} in channel {channel}; `campanile ls` shows those that there are"
            );
            was_missing = true;
        }
    }
    if was_missing { Err(Failure::Quiet) } else { Ok(()) }
}

/// The given proxies, each with a description of its client.
fn named(statistics: &Statistics, (options, channel): (&DisconnectOptions, u32)) -> Result<Vec<Client>, InvokeError> {
    let known = all(statistics)?;
    let client = |proxy: &u32| {
        let found = known.iter().find(|known| (known.client.channel, known.client.proxy) == (channel, *proxy));
        let description = || "no client was connected".to_owned();
        Client {
            channel,
            proxy: *proxy,
            description: found.map_or_else(description, |known| known.client.description.clone()),
        }
    };
    Ok(options.proxies.iter().map(client).collect())
}

/// The clients that meet all conditions.
fn find(statistics: &Statistics, wanted: (&DisconnectOptions, Option<u32>)) -> Result<Vec<Client>, InvokeError> {
    let mut found = all(statistics)?;
    found.retain(|known| known.is_meant(wanted));
    Ok(found.into_iter().map(|known| known.client).collect())
}

/// A connected client, with the properties that conditions refer to.
#[derive(Clone, Debug)]
struct Known {
    client: Client,
    /// Host and port of a consumer, the host of a supplier.
    address: String,
    /// How long a supplier that cannot be probed has been silent.
    unheard_ms: Option<u128>,
}

impl Known {
    fn is_meant(&self, (options, channel): (&DisconnectOptions, Option<u32>)) -> bool {
        let Self { client, address, unheard_ms } = self;
        let host = address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(host, _)| host);
        let is_at = |wanted: &String| wanted == address || Some(wanted.as_str()) == host;
        channel.is_none_or(|channel| channel == client.channel)
            && options.client.as_ref().is_none_or(is_at)
            && options.idle_for.is_none_or(|limit| unheard_ms.is_some_and(|idle| idle >= limit.as_millis()))
    }
}

/// All clients that the service reports.
fn all(statistics: &Statistics) -> Result<Vec<Known>, InvokeError> {
    let consumers = statistics.consumers()?.into_iter().map(|status| {
        let described = status.client().map(str::to_owned).unwrap_or_default();
        let address = described.split(' ').next().unwrap_or_default().to_owned();
        let description = format!("consumer  {}  {}", clean(&described), status.describe());
        let client = Client { channel: status.channel, proxy: status.proxy, description };
        Known { client, address, unheard_ms: None }
    });
    let suppliers = statistics.suppliers()?.into_iter().map(|supplier| {
        let description = format!("supplier  {}", clean(&supplier.describe()));
        let client = Client { channel: supplier.channel, proxy: supplier.proxy, description };
        let unheard_ms = (!supplier.is_probed).then_some(supplier.idle.as_millis());
        Known { client, address: supplier.client, unheard_ms }
    });
    let mut all: Vec<Known> = consumers.chain(suppliers).collect();
    all.sort_by_key(|known| (known.client.channel, known.client.proxy));
    Ok(all)
}

fn list(clients: &[Client]) -> String {
    let line = |client: &Client| {
        let Client { channel, proxy, description } = client;
        format!("channel {channel} proxy {proxy}  {description}\n")
    };
    clients.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ChannelArg, Cli, Command};
    use clap::Parser;

    fn options(line: &str) -> DisconnectOptions {
        let line = format!("campanile disconnect {line}");
        let parsed = Cli::try_parse_from(line.split_whitespace()).unwrap().command;
        let Command::Disconnect(options) = parsed else { panic!() };
        options
    }

    fn known(channel: u32, address: &str, unheard_ms: Option<u128>) -> Known {
        let client = Client { channel, proxy: 1, description: String::new() };
        Known { client, address: address.to_owned(), unheard_ms }
    }

    #[test]
    fn all_conditions_must_hold() {
        let consumer = known(0, "10.0.0.7:4711", None);
        let (idle, busy) = (known(0, "10.0.0.7", Some(604_800_000)), known(3, "::1", Some(5)));
        let meant = |line: &str| {
            let options = options(line);
            let channel = matches!(options.channel, Some(ChannelArg::Number(3))).then_some(3);
            [&consumer, &idle, &busy].map(|known| known.is_meant((&options, channel)))
        };
        assert_eq!(meant("--client 10.0.0.7"), [true, true, false]);
        assert_eq!(meant("--client 10.0.0.7:4711"), [true, false, false]);
        assert_eq!(meant("--client ::1"), [false, false, true]);
        assert_eq!(meant("--idle-for 7d"), [false, true, false]);
        assert_eq!(meant("--idle-for 0s"), [false, true, true]);
        assert_eq!(meant("--idle-for 0s -c 3"), [false, false, true]);
        assert_eq!(meant("--idle-for 7d --client 10.0.0.8"), [false; 3]);
    }

    #[test]
    fn a_client_has_to_be_named() {
        for line in ["", "-c 3", "7 --idle-for 7d", "--idle-for 7", "x", "--dry-run --yes 7"] {
            let line = format!("campanile disconnect {line}");
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
