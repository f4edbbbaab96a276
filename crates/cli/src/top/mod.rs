//! `campanile top`: who is behind, what is dropped, what each lane does, refreshed in place.

mod sample;
mod view;

use self::sample::Sample;
use self::view::View;
use crate::args::TopOptions;
use crate::failure::Failure;
use crate::ls::orb_options;
use crate::signals::Waiter;
use crate::terminal::{self, Keys};
use client::{InvokeError, ObjectRef, Orb};
use std::io::{self, IsTerminal, Write};

/// Watches a service until it is stopped; once, if asked to or nobody can watch.
pub(crate) fn run(options: &TopOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let waiter = Waiter::install().map_err(|error| Failure::message(format!("cannot wait for signals: {error}")))?;
    let (statistics, address) = find(options).map_err(remote)?;
    let mut stdout = io::stdout();
    let live = !options.once && !options.json && stdout.is_terminal();
    let mut before =
        Sample::take(&statistics).map_err(|error| not_campanile(&error, &address).unwrap_or_else(|| remote(error)))?;
    if live {
        // Something to look at until there are rates.
        terminal::show(&View::new(&before, &before, &address, options.channel).describe(options.rows))?;
    }
    let _keys = live.then(|| Keys::take(waiter.sender())).flatten();
    loop {
        if waiter.wait(Some(options.interval)).is_some() {
            return Ok(());
        }
        let now = Sample::take(&statistics).map_err(remote)?;
        let view = View::new(&before, &now, &address, options.channel);
        if options.json {
            return Ok(writeln!(stdout, "{}", view.report())?);
        }
        if !live {
            return Ok(stdout.write_all(view.describe(options.rows).as_bytes())?);
        }
        terminal::show(&view.describe(options.rows))?;
        before = now;
    }
}

/// The service's object `Statistics`, and the address it is at.
fn find(options: &TopOptions) -> Result<(ObjectRef, String), InvokeError> {
    let orb = Orb::new(orb_options(&options.server));
    let address = orb.resolve_service(&options.server.server)?.connect()?;
    Ok((orb.resolve(&format!("corbaloc::{address}/Statistics"))?, address))
}

/// Another service than Campanile has no such object.
fn not_campanile(error: &InvokeError, address: &str) -> Option<Failure> {
    let other = error.object_is_gone() || error.is("BAD_OPERATION");
    other.then(|| {
        Failure::message(format!(
            "the service at {address} tells nothing about its consumers: it is not Campanile; `campanile ls` shows its objects"
        ))
    })
}
