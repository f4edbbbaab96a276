//! Properties that a plan gives.

use crate::parts::Guider;
use crate::parts::{Frame, note, noted};
use campanile_component::{Blueprint, Failure, Lifecycle, PortKind, Ports, Server, Sink, Timer, component};
use std::time::Duration;
use toml::toml;

#[derive(Debug, serde::Deserialize)]
struct Place {
    x: f64,
    y: f64,
}

#[component(lifecycle)]
struct Dome {
    #[sink]
    frame: Sink<Frame>,
    #[timer("20us")]
    tick: Timer,
    azimuth: f64,
    #[property(default = 3)]
    tries: u8,
    #[property(default)]
    label: Option<String>,
    places: Vec<Place>,
}

impl Dome {
    fn on_frame(&mut self, _: &Frame, _: &Ports) {}

    fn on_tick(&mut self, _: &campanile_component::Tick, _: &Ports) {}
}

impl Lifecycle for Dome {
    fn on_configured(&mut self, _: &Ports) -> Result<(), Failure> {
        let Self { azimuth, tries, label, places, .. } = self;
        let places = places.iter().map(|place| (place.x, place.y)).collect::<Vec<_>>();
        note(format!("{azimuth} {tries} {label:?} {places:?}"));
        Ok(())
    }
}

#[test]
fn properties_are_of_any_type_that_a_file_can_say() {
    let mut server = Server::manual("control");
    server.configure::<Dome>("a", toml! { azimuth = 12 places = [{ x = 1, y = 2.5 }] }).unwrap();
    server.configure::<Dome>("b", toml! { azimuth = 1.5 tries = 7 label = "north" places = [] }).unwrap();
    assert_eq!(noted(), ["12 3 None [(1.0, 2.5)]", "1.5 7 Some(\"north\") []"]);
}

#[test]
fn a_property_that_is_missing_unknown_or_of_another_type_is_refused_by_name() {
    let mut server = Server::manual("control");
    for (properties, refusal) in [
        (toml::Table::new(), "guider, property gain: it is missing: give it, a f64"),
        (
            toml! { gain = "high" },
            "guider, property gain: invalid type: string \"high\", expected f64; it is \"high\" here, and a f64 there",
        ),
        (
            toml! { gain = 0.5 gian = 1 },
            "guider, property gian: the component Guider has no such property; it has: gain: f64",
        ),
    ] {
        assert_eq!(server.configure::<Guider>("guider", properties).unwrap_err().to_string(), refusal);
        assert_eq!(server.life("guider"), None);
    }
    let refusal = server.configure::<Dome>("dome", toml! { azimuth = 1 tries = 256 places = [] }).unwrap_err();
    assert!(refusal.to_string().starts_with("dome, property tries: invalid value"), "{refusal}");
}

#[test]
fn a_declaration_says_all_ports_and_properties() {
    let blueprint = Blueprint::of::<Dome>();
    let declaration = blueprint.declaration();
    let ports = declaration.ports.iter().map(|port| (port.name, port.kind)).collect::<Vec<_>>();
    assert_eq!(ports, [("frame", PortKind::Sink), ("tick", PortKind::Timer(Duration::from_micros(20)))]);
    let properties = declaration.properties.iter().map(|it| (it.name, it.of, it.has_default)).collect::<Vec<_>>();
    assert_eq!(
        properties,
        [
            ("azimuth", "f64", false),
            ("tries", "u8", true),
            ("label", "Option<String>", true),
            ("places", "Vec<Place>", false)
        ]
    );
    assert_eq!(declaration.port("frame").and_then(|port| port.event).map(|event| event.name), Some("Frame"));
}
