//! `campanile serve`.

use crate::args::ServeOptions;
use crate::failure::Failure;
use crate::logger;
use crate::show;
use crate::signals::{Waiter, Wake};
use service::{Config, Service, StartError, Undone};
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::path::Path;
use std::process;
use std::thread;
use std::time::Instant;

/// Serves until a signal asks to stop.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    logger::install(options.log);
    end_on_panic();
    // Before the service starts, so that a signal that comes early is not lost.
    let waiter = Waiter::install_for_service().map_err(Failure::message)?;
    let config = config(options)?;
    let (limit, naming) = (config.shutdown_drain(), config.naming.outside.clone());
    let service = Service::start(config).map_err(|error| match error {
        StartError::Config(error) => Failure::Usage(error.to_string()),
        error @ StartError::OutsideNaming { .. } => Failure::Usage(error.to_string()),
        error => Failure::message(error),
    })?;
    let started = Instant::now();
    let remarks: String = service.remarks().iter().map(|remark| format!("campanile: {remark}\n")).collect();
    let (address, url) = (service.address(), service.corbaloc("NotificationService"));
    let json = service.json_address().map_or_else(String::new, |address| format!("; lines of JSON at {address}"));
    let announced = waiter.sender();
    // Nobody listens any more if the command is ending.
    service.when_announced(move || drop(announced.send(Wake::Done)));
    say(&remarks);
    if let Some(naming) = naming.filter(|_| !service.is_announced()) {
        say(&format!("campanile: serves at {address}, and is ready when {naming} has its name\n"));
    }
    loop {
        match waiter.wait(None) {
            Some(Wake::Done) => say(&format!("campanile: ready at {address}, found by {url}{json}\n")),
            Some(Wake::HangUp) => log::info!(
                "SIGHUP changes nothing: the configuration is read at the start, and the log goes to standard error"
            ),
            _ => break,
        }
    }
    let counters = service.counters().clone();
    let stopper = service.stopper();
    // Ends with the process.
    thread::spawn(move || {
        while let Some(wake) = waiter.wait(None) {
            if let Wake::Signal = wake {
                stopper.stop_now();
            }
        }
    });
    let undone = service.drain(limit);
    let _ = io::stdout().write_all(summary(&counters.snapshot(), started, io::stdout().is_terminal()).as_bytes());
    if undone.is_loss() { Err(Failure::Undelivered(told(&undone))) } else { Ok(()) }
}

/// Has a panic of any thread logged and end the process by SIGABRT: a service that lost a thread would be half dead, and whoever
/// supervises it would not know.
fn end_on_panic() {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // Whatever is logged, and with the stack if that was asked for.
        say(panic);
        log::error!("{}", panicked(panic));
        process::abort();
    }));
}

/// What happened, in a line.
fn panicked(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let text = panic.payload_as_str().unwrap_or("it did not say why").replace('\n', " ");
    format!(
        "an error in Campanile itself, in thread {}{place}: {text}; the service ends by SIGABRT (status 134 in a shell), and what \
         consumers have yet to get is lost",
        thread.name().unwrap_or("without a name")
    )
}

/// What was lost, in a sentence.
fn told(undone: &Undone) -> String {
    let Undone { events, suspended, consumers } = *undone;
    let of_suspended = match suspended {
        0 => String::new(),
        _ => format!(", {} of them of suspended ones", show::count(suspended)),
    };
    let whom = if consumers == 1 { "a consumer".to_owned() } else { format!("{} consumers", show::count(consumers)) };
    format!("stopped before {} events were delivered to {whom}{of_suspended}", show::count(events))
}

/// A service goes on when nobody reads what it prints.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}

fn config(options: &ServeOptions) -> Result<Config, Failure> {
    let ServeOptions { listen, advertise, config, ior_file, topology, data, naming, json_listen, log: _ } = options;
    let mut settings = match config {
        Some(path) => Config::read(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => Config::default(),
    };
    if let Some(listen) = listen {
        settings.listen.clone_from(listen);
    }
    if advertise.is_some() {
        settings.advertise.clone_from(advertise);
    }
    if ior_file.is_some() {
        settings.ior_file.clone_from(ior_file);
    }
    if topology.is_some() {
        settings.topology.clone_from(topology);
    }
    if let Some(data) = data {
        settings.store.directory = (data != Path::new("none")).then(|| data.clone());
    }
    if naming.is_some() {
        settings.naming.outside.clone_from(naming);
    }
    if json_listen.is_some() {
        settings.json.listen.clone_from(json_listen);
    }
    Ok(settings)
}

/// What the service did, by its counters that are not zero.
fn summary(counters: &[(&'static str, u64)], started: Instant, terminal: bool) -> String {
    let mut text = format!("campanile: stopped after {:.1} s\n", started.elapsed().as_secs_f64());
    let shown = counters.iter().filter(|(_, value)| *value > 0);
    let width = shown.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in shown {
        text += &if terminal {
            format!("  {name:width$}  {:>15}\n", show::count(value))
        } else {
            format!("{name} {value}\n")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::LogLevel;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn command_line_comes_before_the_configuration_file() {
        let options = ServeOptions {
            listen: Some("127.0.0.1:0".into()),
            advertise: Some("notify.example.org".into()),
            config: None,
            ior_file: Some("x.ior".into()),
            topology: Some("x.json".into()),
            data: Some("x".into()),
            json_listen: None,
            naming: Some("corbaloc::names.example.org/NameService".into()),
            log: LogLevel::Info,
        };
        let settings = config(&options).unwrap();
        assert_eq!(settings.listen, "127.0.0.1:0");
        assert_eq!(settings.advertise.as_deref(), Some("notify.example.org"));
        assert_eq!(settings.ior_file.as_deref(), Some(Path::new("x.ior")));
        assert_eq!(settings.topology.as_deref(), Some(Path::new("x.json")));
        assert_eq!(settings.store.directory.as_deref(), Some(Path::new("x")));
        assert_eq!(settings.naming.outside.as_deref(), Some("corbaloc::names.example.org/NameService"));
    }

    /// Ends its process, if that is the one which the next test has begun for it.
    const PANICS: &str = "CAMPANILE_TEST_PANICS";

    fn panic_in_a_thread() {
        logger::install(LogLevel::Info);
        end_on_panic();
        let lane = thread::Builder::new().name("lane".into()).spawn(|| panic!("out of\norder"));
        let _ = lane.unwrap().join();
        // Not reached.
        process::exit(0);
    }

    #[test]
    fn a_panic_of_any_thread_is_logged_and_ends_the_process() {
        if std::env::var_os(PANICS).is_some() {
            panic_in_a_thread();
        }
        let mut program = process::Command::new(std::env::current_exe().unwrap());
        let this = "serve::tests::a_panic_of_any_thread_is_logged_and_ends_the_process";
        program.args(["--exact", this, "--nocapture"]).env(PANICS, "1");
        let output = testing::output_in_time(&mut program);
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let logged = said.lines().find(|line| line.contains(" ERROR ")).unwrap_or_else(|| panic!("{said}"));
        assert!(
            logged.contains(" an error in Campanile itself, in thread lane at crates/cli/src/serve.rs:"),
            "{logged}"
        );
        assert!(logged.contains(": out of order; the service ends by SIGABRT (status 134 in a shell)"), "{logged}");
    }

    #[test]
    fn summary_is_for_people_on_a_terminal_and_plain_in_a_pipe() {
        let counters = [("lane_events_in", 12_345), ("lane_dropped", 0)];
        let plain = summary(&counters, Instant::now(), false);
        assert!(plain.ends_with("lane_events_in 12345\n"), "{plain}");
        let terminal = summary(&counters, Instant::now(), true);
        assert!(terminal.contains("12,345") && !terminal.contains("dropped"), "{terminal}");
    }
}
