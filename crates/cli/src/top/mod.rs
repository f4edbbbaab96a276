//! `campanile top`: slow consumers, drops, and the work of each lane, refreshed in place.

mod sample;
mod trends;
mod view;

use self::sample::Sample;
use self::trends::Trends;
use self::view::View;
use crate::args::{ConsumersOptions, TopOptions};
use crate::channels;
use crate::failure::Failure;
use crate::signals::Waiter;
use crate::statistics::Statistics;
use crate::terminal::{self, Keys};
use client::InvokeError;
use std::io::{self, IsTerminal, Write};

/// Shows a service until it is stopped; only once if requested, or if the output is not a terminal.
pub(crate) fn run(options: &TopOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let waiter = Waiter::install().map_err(|error| Failure::message(format!("cannot wait for signals: {error}")))?;
    let statistics = Statistics::find(&options.server).map_err(remote)?;
    let channel = channels::unsigned(options.channel.as_ref(), &options.server)?;
    statistics.check_channel(&options.server, channel).map_err(remote)?;
    let mut stdout = io::stdout();
    let live = !options.once && !options.json && stdout.is_terminal();
    let sample = || Sample::take(&statistics);
    let failure = |error: InvokeError| statistics.failure(&error, &options.server);
    let mut before = sample().map_err(failure)?;
    if live {
        // Something to look at until there are rates.
        terminal::show(&View::new(&before, &before, &statistics.address, channel).describe(options.rows, None))?;
    }
    let mut trends = Trends::default();
    let _keys = live.then(|| Keys::take(waiter.sender())).flatten();
    loop {
        if waiter.wait(Some(options.interval)).is_some() {
            return Ok(());
        }
        let now = match sample() {
            Ok(now) => now,
            Err(error) if live && error.is_connection_failure() => {
                terminal::show(&format!("{error}\n\ntrying again; q ends\n"))?;
                continue;
            }
            Err(error) => return Err(failure(error)),
        };
        let view = View::new(&before, &now, &statistics.address, channel);
        if options.json {
            return Ok(writeln!(stdout, "{}", view.report())?);
        }
        if !live {
            return Ok(stdout.write_all(view.describe(options.rows, None).as_bytes())?);
        }
        trends.note(&view);
        terminal::show(&view.describe(options.rows, Some((&trends, terminal::columns(io::stdout())))))?;
        before = now;
    }
}

/// `campanile consumers`: the consumers at one moment, without rates.
pub(crate) fn consumers(options: &ConsumersOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let statistics = Statistics::find(&options.server).map_err(remote)?;
    let channel = channels::unsigned(options.channel.as_ref(), &options.server)?;
    statistics.check_channel(&options.server, channel).map_err(remote)?;
    let now = Sample::take(&statistics).map_err(|error| statistics.failure(&error, &options.server))?;
    let view = View::new(&now, &now, &statistics.address, channel);
    let text =
        if options.json { format!("{}\n", view.consumers()) } else { view.describe_consumers(options.rows, None) };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
