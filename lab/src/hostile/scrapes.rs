//! A service that is scraped: ten thousand consumers, each reported by name, and a client that asks for that each second.

use std::fs;
use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::path::Path;

use client::notify::{ClientType, StructuredProxyPullSupplier};
use client::{ObjectRef, Orb, OrbOptions};

use super::Victim;
use super::attacks::Scene;
use crate::campanile::{Campanile, Channel, setup};
use crate::persistent::Folder;
use crate::{BenchError, clock};

/// Consumers that a scrape reports; as many as may be reported by name.
const CONSUMERS: usize = 10_000;
/// How often it is scraped.
const EVERY: u64 = clock::SECOND;

/// A channel without events, and consumers that would pull from it.
pub(super) type Consumers = (Channel, Vec<ObjectRef>);

/// A service with metrics that have something to report.
pub(super) fn start(program: Option<&Path>, name: &str) -> core::result::Result<Victim, BenchError> {
    let folder = Folder::new(&format!("scrapes-{name}"), None)?;
    let file = folder.file("campanile.toml");
    let text = format!("[http]\nconsumers_max = {CONSUMERS}\n[store]\ndirectory = \"none\"\n");
    fs::write(&file, text).map_err(BenchError::io("writing a configuration"))?;
    let (service, ports) = Campanile::start_with_ports(program, Some(&file))?;
    let doing = "making ten thousand consumers";
    let channel = service.new_channel()?;
    let admin = channel.consumer_admin()?;
    // Without a client's name each consumer is a series of its own.
    let unnamed = Orb::new(OrbOptions { name: Some(String::new()), ..OrbOptions::default() });
    let one = || {
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).map_err(setup(doing))?;
        let proxy = StructuredProxyPullSupplier::unchecked(unnamed.object(proxy.object().ior().clone()));
        proxy.connect_structured_pull_consumer(None).map_err(setup(doing))?;
        Ok(proxy.object().clone())
    };
    let consumers: core::result::Result<_, BenchError> = (0..CONSUMERS).map(|_| one()).collect();
    Ok(Victim { service, ports, _scraped: Some((channel, consumers?)) })
}

/// Scrapes once, and waits until it is time for the next.
pub(super) fn scrape(scene: &mut Scene) -> Result<()> {
    let Some(http) = scene.target.http else { return Err(Error::other("it serves no HTTP")) };
    let next = clock::now() + EVERY;
    scene.tries += 1;
    let mut stream = TcpStream::connect(http)?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n")?;
    let mut told = String::new();
    stream.read_to_string(&mut told)?;
    // All of them, or it is not what it is to be measured by: there is one such line for each.
    let of_consumers = told.lines().filter(|line| line.starts_with("campanile_consumer_backlog_events{")).count();
    if of_consumers < CONSUMERS {
        return Err(Error::other(format!("{of_consumers} of {CONSUMERS} consumers were told of")));
    }
    scene.rest(next.saturating_sub(clock::now()))
}
