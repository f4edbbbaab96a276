//! Channels as programs of the simple API have them, which know them by their names, for orbs, which know them by their ids.

use campanile::{Settings, Supplier};
use client::notify::EventChannelFactory;
use client::{Orb, OrbOptions};
use service::Service;

/// Makes a channel of that name, and gives its id.
#[must_use]
pub fn channel_for_programs(service: &Service, name: &str) -> String {
    let before = ids(service);
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    drop(Supplier::with(name, &settings).expect("the service makes a channel"));
    let id = ids(service).into_iter().find(|id| !before.contains(id)).expect("there is a channel more");
    id.to_string()
}

fn ids(service: &Service) -> Vec<i32> {
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve(&service.corbaloc("NotificationService")).expect("a reference");
    EventChannelFactory::unchecked(factory).get_all_channels().expect("the factory tells")
}
