//! The life of an instance, in every order.

use crate::parts::{Camera, Frame, Recorder, Reported, note, noted};
use campanile_component::{
    Change, Error, Failure, Life, Lifecycle, Notice, Ports, SendError, Server, ServerSettings, Sink, Source, Step,
    component,
};
use std::time::Duration;
use toml::toml;

/// Notes the steps of its life, and tries to send at each.
#[component(lifecycle)]
struct Witness {
    #[source]
    frame: Source<Frame>,
    #[sink]
    taken: Sink<Frame>,
    /// The step that it refuses.
    #[property(default)]
    refuses: String,
    /// The step at which it panics.
    #[property(default)]
    panics: String,
}

impl Witness {
    fn on_taken(&mut self, _: &Frame, _: &Ports) {}

    fn at(&self, step: &str) -> Result<(), Failure> {
        let sent = self.frame.send(&Frame { number: 0, brightness: 0.0 });
        note(format!("{step}{}", if sent.is_ok() { ", sent" } else { "" }));
        assert_ne!(step, self.panics, "as it was configured to");
        if step == self.refuses { Err(Failure::new("as it was configured to")) } else { Ok(()) }
    }
}

impl Lifecycle for Witness {
    fn on_configured(&mut self, _: &Ports) -> Result<(), Failure> {
        self.at("configured")
    }

    fn on_connected(&mut self, _: &Ports) -> Result<(), Failure> {
        self.at("connected")
    }

    fn on_activated(&mut self, _: &Ports) -> Result<(), Failure> {
        self.at("activated")
    }

    fn on_passivated(&mut self, _: &Ports) -> Result<(), Failure> {
        self.at("passivated")
    }

    fn on_removed(&mut self, _: &Ports) -> Result<(), Failure> {
        self.at("removed")
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        assert_eq!(self.frame.send(&Frame { number: 0, brightness: 0.0 }), Err(SendError::Inactive));
        note("dropped".into());
    }
}

const STEPS: [Step; 4] = [Step::Connect, Step::Activate, Step::Passivate, Step::Remove];

/// What the component notes at a step.
fn noted_at(step: Step) -> Vec<&'static str> {
    match step {
        Step::Connect => vec!["connected"],
        Step::Activate => vec!["activated, sent"],
        Step::Passivate => vec!["passivated, sent"],
        Step::Remove => vec!["removed", "dropped"],
    }
}

/// What the table in the documentation of `Life` says.
fn after(life: Life, step: Step) -> Option<Life> {
    use {Life as L, Step as S};
    match (life, step) {
        (L::Configured, S::Connect) => Some(L::Connected),
        (L::Connected | L::Passivated | L::Failed, S::Activate) => Some(L::Activated),
        (L::Activated, S::Passivate) => Some(L::Passivated),
        (L::Configured | L::Connected | L::Passivated | L::Failed, S::Remove) => Some(L::Removed),
        _ => None,
    }
}

#[test]
fn steps_in_every_order_are_taken_or_refused_as_the_table_says() {
    // Every sequence of six steps.
    for number in 0..4_usize.pow(6) {
        let mut server = Server::manual("control");
        server.configure::<Witness>("witness", toml::Table::new()).unwrap();
        assert_eq!(noted(), ["configured"]);
        let mut life = Life::Configured;
        for place in 0..6 {
            let step = STEPS[number / 4_usize.pow(place) % 4];
            let outcome = if step == Step::Remove { server.remove("witness") } else { server.take("witness", step) };
            if let Some(next) = after(life, step) {
                assert_eq!(outcome, Ok(()), "{number}");
                assert_eq!(noted(), noted_at(step), "{number}");
                life = next;
            } else {
                assert_eq!(outcome, Err(Error::Life { instance: "witness".into(), step, life }), "{number}");
                assert_eq!(noted(), [""; 0], "{number}");
            }
            if life == Life::Removed {
                assert_eq!(server.life("witness"), None);
                break;
            }
            assert_eq!(server.life("witness"), Some(life));
        }
        drop(server);
        let rest = noted();
        assert_eq!(life == Life::Removed, rest.is_empty(), "{number}: {rest:?}");
        assert_eq!(
            life == Life::Activated,
            rest.first().is_some_and(|first| first.starts_with("passivated")),
            "{rest:?}"
        );
    }
}

#[test]
fn a_step_that_the_component_refuses_leaves_the_instance_as_it_was() {
    let refused = |reason: &str| Error::Failed { instance: "witness".into(), reason: reason.into() };
    let mut server = Server::manual("control");
    let outcome = server.configure::<Witness>("witness", toml! { refuses = "configured" });
    assert_eq!(outcome, Err(refused("as it was configured to")));
    assert_eq!(server.life("witness"), None);
    server.configure::<Witness>("witness", toml! { refuses = "connected" }).unwrap();
    assert_eq!(server.complete("witness"), Err(refused("as it was configured to")));
    assert_eq!(server.life("witness"), Some(Life::Configured));
    server.remove("witness").unwrap();
    server.configure::<Witness>("witness", toml! { refuses = "activated" }).unwrap();
    server.complete("witness").unwrap();
    noted();
    assert_eq!(server.activate("witness"), Err(refused("as it was configured to")));
    assert_eq!((server.life("witness"), noted()), (Some(Life::Connected), vec!["activated, sent".to_owned()]));
    server.remove("witness").unwrap();
    server.configure::<Witness>("witness", toml! { refuses = "passivated" }).unwrap();
    server.start().unwrap();
    assert_eq!(server.passivate("witness"), Err(refused("as it was configured to")));
    assert_eq!(server.life("witness"), Some(Life::Activated));
    // A server that ends removes it all the same.
    noted();
    drop(server);
    assert_eq!(noted(), ["passivated, sent", "removed", "dropped"]);
}

#[test]
fn a_component_that_panics_while_it_is_configured_is_not_there() {
    let mut server = Server::manual("control");
    let outcome = server.configure::<Witness>("witness", toml! { panics = "configured" });
    assert_eq!(outcome, Err(Error::Failed { instance: "witness".into(), reason: "it panicked".into() }));
    assert_eq!(server.life("witness"), None);
    server.configure::<Witness>("witness", toml::Table::new()).unwrap();
    server.start().unwrap();
    assert_eq!(server.life("witness"), Some(Life::Activated));
}

#[test]
fn a_component_that_panics_in_a_step_has_failed_and_is_made_again() {
    let mut server = Server::manual("control");
    server.configure::<Witness>("witness", toml! { panics = "passivated" }).unwrap();
    server.start().unwrap();
    assert!(matches!(server.passivate("witness"), Err(Error::Failed { .. })));
    assert_eq!(server.life("witness"), Some(Life::Failed));
    noted();
    server.advance(Duration::from_millis(100));
    assert_eq!(noted(), ["configured", "connected", "activated, sent"]);
    assert_eq!(server.life("witness"), Some(Life::Activated));
}

#[test]
fn each_change_is_reported_once_to_the_program() {
    let reported = Reported::default();
    let listener = reported.clone();
    let settings = ServerSettings::default().on_notice(move |notice: &Notice| {
        listener.lock().unwrap().push(format!("{} {:?}", notice.instance, notice.change));
        assert_ne!(notice.change, Change::Connected, "a listener that panics stops nothing");
    });
    let mut server = Server::manual_with("control", settings);
    server.configure::<Recorder>("a-sink", toml::Table::new()).unwrap();
    server.configure::<Camera>("b-source", toml::Table::new()).unwrap();
    server.connect("b-source.frame", "a-sink.frame").unwrap();
    server.start().unwrap();
    server.take("a-sink", Step::Activate).unwrap_err();
    drop(server);
    let expected = [
        "a-sink Configured",
        "b-source Configured",
        "a-sink Connected",
        "b-source Connected",
        "a-sink Activated",
        "b-source Activated",
        // Sources before sinks, so that what they send is taken.
        "b-source Passivated",
        "a-sink Passivated",
        "b-source Removed",
        "a-sink Removed",
    ];
    assert_eq!(*reported.lock().unwrap(), expected);
}
