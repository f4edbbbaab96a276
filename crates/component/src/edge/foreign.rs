//! Components in shared objects as components of a server.

use super::NATIVE;
use super::abi::{self, Table};
use super::host::{Crossing, ForeignComponent, ForeignPort, ForeignType, load, nanoseconds, read};
use crate::declaration::{Blueprint, Declaring, PortKind};
use crate::deploy;
use crate::error::Failure;
use crate::instance::{EventKind, Filter, SinkKind};
use crate::life::Lifecycle;
use crate::notice::NeighbourChange;
use crate::port::{Ports, Tick};
use crate::queue::Queueing;
use crate::remote::{Remote, RemotePort};
use crate::settings::ServerSettings;
use campanile::raw::{RawFields, RawFilter};
use campanile::{Declared, Field};
use giop::cdr::Writer;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The components of a shared object, by their names.
///
/// # Errors
/// What is wrong with the object, and what to do.
pub(crate) fn blueprints(path: &Path) -> Result<Vec<(String, Blueprint)>, String> {
    Ok(named(load(path)?))
}

fn named(all: Vec<ForeignType>) -> Vec<(String, Blueprint)> {
    all.into_iter().map(|of| (of.name.to_owned(), blueprint(Arc::new(of)))).collect()
}

/// Makes the table of the components in a file: for interpreters, whose files are no shared objects.
pub type MakeTable<'m> = &'m dyn Fn(&Path) -> Result<*const Table, String>;

/// Does what [`describe_object`](crate::describe_object) does, with a file of which a table is made.
///
/// # Errors
/// The standard output is closed.
///
/// # Safety
/// Tables are as the header says, and stay for as long as the process.
pub unsafe fn describe_file(path: &Path, make: MakeTable<'_>) -> io::Result<()> {
    // SAFETY: the caller promises it.
    deploy::describe(path, &|path| Ok(named(unsafe { read(make(path)?) }?)))
}

/// Does what [`serve_objects`](crate::serve_objects) does, with files of which tables are made.
///
/// # Errors
/// What cannot be, on one line.
///
/// # Safety
/// As for [`describe_file`].
pub unsafe fn serve_files(
    plan: &Path,
    server: &str,
    settings: ServerSettings,
    make: MakeTable<'_>,
) -> Result<(), String> {
    // SAFETY: the caller promises it.
    deploy::serve_with(plan, server, settings, &|path| Ok(named(unsafe { read(make(path)?) }?)))
}

fn blueprint(of: Arc<ForeignType>) -> Blueprint {
    let declared = of.clone();
    Blueprint::made(
        of.name,
        move |declaring: &mut Declaring<ForeignComponent>| declare(&declared, declaring),
        move |setup| ForeignComponent::create(&of, setup),
    )
}

fn declare(of: &ForeignType, declaring: &mut Declaring<ForeignComponent>) {
    for (place, ForeignPort { name, kind, event, .. }) in of.ports.iter().enumerate() {
        match (*kind, event) {
            (PortKind::Sink, Some((event, declared))) => {
                let kind = SinkKind { event: Some(event_kind(declared)), queueing: Some(Queueing::new()) };
                let take = move |component: &mut ForeignComponent, value: &Crossing, ports: &Ports<'_>| {
                    component.handle_value(value, ForeignComponent::event(place, ports))
                };
                declaring.sink_of(name, *event, remote(declared), kind, take);
            }
            (PortKind::Source, Some((event, declared))) => {
                declaring.source_of::<Crossing>(name, *event, remote(declared));
            }
            (PortKind::Timer(interval), _) => {
                let take = move |component: &mut ForeignComponent, tick: &Tick, ports: &Ports<'_>| {
                    let mut event = ForeignComponent::event(place, ports);
                    (event.late_ns, event.missed) = (nanoseconds(tick.due.elapsed()), tick.missed);
                    component.handle(&event)
                };
                declaring.timer(name, nanoseconds(interval), take);
            }
            (PortKind::Neighbours, _) => {
                let take = move |component: &mut ForeignComponent, change: &NeighbourChange, ports: &Ports<'_>| {
                    let mut octets = Vec::new();
                    change.write(&mut Writer::new(&mut octets, NATIVE));
                    component.handle_value(&Crossing::of(&octets), ForeignComponent::event(place, ports))
                };
                declaring.neighbours(name, take);
            }
            (PortKind::Sink | PortKind::Source, None) => {}
        }
    }
    for property in &of.properties {
        declaring.property(property.name, property.of, property.has_default);
    }
}

impl Lifecycle for ForeignComponent {
    fn on_configured(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        self.step(abi::CAMPANILE_STEP_CONFIGURE)
    }

    fn on_connected(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        self.step(abi::CAMPANILE_STEP_CONNECT)
    }

    fn on_activated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        self.step(abi::CAMPANILE_STEP_ACTIVATE)
    }

    fn on_passivated(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        self.step(abi::CAMPANILE_STEP_PASSIVATE)
    }

    fn on_removed(&mut self, _: &Ports<'_>) -> Result<(), Failure> {
        self.step(abi::CAMPANILE_STEP_REMOVE)
    }
}

fn event_kind(declared: &Declared) -> EventKind<Crossing> {
    let fields = RefCell::new(RawFields::new(declared));
    let (declared, of_values) = (declared.clone(), declared.clone());
    EventKind {
        filter: Box::new(move |text| {
            let filter = RawFilter::new(text, &declared).map_err(|error| error.to_string())?;
            // A filter runs to its end before the next event.
            let filter = RefCell::new(filter);
            // A value that cannot be written goes through, so that the port counts it as a failure.
            let filter: Filter<Crossing> = Box::new(move |value, origin| {
                value.octets().map_or(true, |octets| filter.borrow_mut().matches_with(octets, origin.qos()))
            });
            Ok(filter)
        }),
        fields: Box::new(move |value, qos, look| {
            if let Ok(octets) = value.octets() {
                fields.borrow_mut().with(octets, qos, look);
            }
        }),
        // Nothing is no value, so that it is counted as none where it is replayed.
        write: |value, to| to.extend_from_slice(value.octets().unwrap_or_default()),
        read: Box::new(move |value| {
            of_values.check_strictly(value).map_err(|error| error.to_string())?;
            Ok(Crossing::of(value))
        }),
    }
}

/// How the events of a port travel.
fn remote(declared: &Declared) -> Arc<dyn RemotePort> {
    let declared = declared.clone();
    Arc::new(Remote {
        queueing: Some(Queueing::new()),
        declare: Box::new(move || Ok(declared.clone())),
        // Nothing is no value, so that it is counted as one that was not published.
        write: |value: &Crossing, to| to.extend_from_slice(value.octets().unwrap_or_default()),
        read: |value| Ok(Crossing::of(value)),
    })
}
