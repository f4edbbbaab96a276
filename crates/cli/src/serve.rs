//! `campanile serve`.

use crate::args::ServeOptions;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::logger;
use crate::reload::reload;
use crate::show;
use crate::signals::{Waiter, Wake};
use crate::supervisor::{self, Supervisor};
use console::Console;
use service::{Config, LogConfig, Service, Sockets, StandbyFollower, StartError, Undone};
use std::env;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::panic::{self, PanicHookInfo};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

/// Serves until a signal asks to stop.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    if options.check {
        return check(options);
    }
    let read = config(options);
    // The log reports what cannot be read, too.
    let log = read.as_ref().map_or_else(|_| log_of(options, LogConfig::default()), |config| config.log);
    let again = || options.config.as_ref().map(|_| config(options));
    serve(log, read, again, |_| Ok(()))
}

/// Checks the configuration, and prints what is wrong or that nothing is.
fn check(options: &ServeOptions) -> Result<(), Failure> {
    let environment = Environment::read();
    let sockets = supervisor::sockets(&environment)?;
    let config = config(options)?;
    let address = sockets.giop.as_ref().and_then(|socket| socket.local_addr().ok());
    Service::check(&config, address).map_err(|error| Failure::Usage(error.to_string()))?;
    Console::check(&config).map_err(|error| Failure::Usage(error.to_string()))?;
    say(&config.access_warnings().iter().map(|warning| format!("campanile: {warning}\n")).collect::<String>());
    let of = options.config.as_ref().map_or_else(|| "the command line".to_owned(), |path| path.display().to_string());
    let channels = match config.channels.len() {
        0 => String::new(),
        1 => "; it declares 1 channel".to_owned(),
        count => format!("; it declares {count} channels"),
    };
    say(&format!("campanile: nothing is wrong with the configuration of {of}{channels}\n"));
    Ok(())
}

/// Serves with a configuration. `begun` is called when the service has begun, before it is announced.
pub(crate) fn serve(
    log: LogConfig,
    config: Result<Config, Failure>,
    again: impl Fn() -> Option<Result<Config, Failure>>,
    begun: impl FnOnce(&Service) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let environment = Environment::read();
    let sockets = supervisor::sockets(&environment)?;
    logger::install(log);
    let supervisor = Supervisor::of(&environment);
    let ended = config.and_then(|config| serve_on(config, (&environment, sockets), &supervisor, again, begun));
    if let Err(Failure::Message(why) | Failure::Usage(why)) = &ended {
        supervisor.tell_status(&[], why);
    }
    ended
}

/// Addresses beside the one for CORBA clients.
fn other_places(service: &Service, console: Option<&Console>) -> String {
    let plain = [
        ("; lines of JSON at ", service.json_address()),
        ("; Tempo at ", service.tempo_address()),
        ("; links at ", service.links_address()),
    ];
    let http =
        console.map(|http| [("; HTTP at http://", http.address()), ("; HTTP at https://", http.secure_address())]);
    let secure = ["; TLS at ", "; TLS for lines of JSON at ", "; TLS for Tempo at ", "; TLS for links at "].into_iter();
    let all = plain.into_iter().chain(http.into_iter().flatten()).chain(secure.zip(service.tls_addresses()));
    all.filter_map(|(what, address)| Some(format!("{what}{}", address?))).collect()
}

fn serve_on(
    mut config: Config,
    (environment, sockets): (&Environment, Sockets),
    supervisor: &Supervisor,
    again: impl Fn() -> Option<Result<Config, Failure>>,
    begun: impl FnOnce(&Service) -> Result<(), Failure>,
) -> Result<(), Failure> {
    end_on_panic();
    // Before the service starts, so that a signal that comes early is not lost.
    let waiter = Waiter::install_for_service().map_err(Failure::message)?;
    let address = sockets.giop.as_ref().and_then(|socket| socket.local_addr().ok());
    let address = address.or_else(|| config.listen_address().ok());
    let warning = choose_store(&mut config, environment, address).unwrap_or_default();
    let (limit, naming) = (config.shutdown_drain(), config.naming.outside.clone());
    let mut running = config.clone();
    // In a take-over, and where this process began again, the supervisor's watchdog runs already.
    let starting = config.standby.listen.as_ref().and_then(|_| supervisor.keep_alive());
    let Some(service) = start(&config, sockets, supervisor, &waiter)? else { return Ok(()) };
    // Until the service has ended: the console shows how it ends.
    let console = Console::start(&config, &service).map_err(|error| match error.is_of_configuration() {
        true => Failure::Usage(error.to_string()),
        false => Failure::message(error),
    })?;
    begun(&service)?;
    let started = Instant::now();
    let warnings = service.warnings().iter().map(|warning| format!("campanile: {warning}\n"));
    let warnings: String = warnings.chain([warning]).collect();
    let (address, url) = (service.address(), service.corbaloc("NotificationService"));
    let others = other_places(&service, console.as_ref());
    let kept = service.store_directory().map_or_else(String::new, |kept| format!("; stores in {}", kept.display()));
    let announced = waiter.sender();
    // The receiver may be gone if the command is ending.
    service.when_announced(move || drop(announced.send(Wake::Done)));
    let asked = waiter.sender();
    service.on_shutdown_request(move || drop(asked.send(Wake::Request)));
    say(&warnings);
    // A service with an outside naming service can be called before it has its name there.
    supervisor.tell_status(&["READY=1"], &format!("serves at {address}"));
    supervisor.watch(service.liveness());
    drop(starting);
    if let Some(naming) = naming.filter(|_| !service.is_announced()) {
        say(&format!("campanile: serves at {address}, and is ready when {naming} has its name\n"));
    }
    let asked = loop {
        match waiter.wait(None) {
            Some(Wake::Done) => say(&format!("campanile: ready at {address}, found by {url}{others}{kept}\n")),
            Some(Wake::HangUp) => {
                let has_certificates = service.reload_tls().unwrap_or_else(|error| {
                    log::error!("SIGHUP: certificates stay as they are: {error}");
                    true
                });
                match again() {
                    Some(read) => reload(&service, console.as_ref(), &mut running, read),
                    None if has_certificates => {}
                    None => log::info!("SIGHUP changes nothing: the service was started without a configuration file"),
                }
            }
            other => break other,
        }
    };
    if service.is_superseded() && matches!(asked, Some(Wake::Request)) {
        drop(console);
        service.shutdown();
        return begin_again(&waiter);
    }
    supervisor.tell_status(&["STOPPING=1"], "delivers what it has taken");
    let counters = service.counters().clone();
    let stopper = service.stopper();
    // Ends with the process.
    thread::spawn(move || {
        while let Some(wake) = waiter.wait(None) {
            if let Wake::Signal | Wake::Request = wake {
                stopper.stop_now();
            }
        }
    });
    let undone = service.drain(limit);
    drop(console);
    let _ = io::stdout().write_all(summary(&counters.snapshot(), started, io::stdout().is_terminal()).as_bytes());
    if undone.is_loss() { Err(Failure::Undelivered(loss_text(&undone))) } else { Ok(()) }
}

/// Starts the service, at once or, on a follower's machine, when that is promoted. `None`: a signal asked to end before.
fn start(
    config: &Config,
    sockets: Sockets,
    supervisor: &Supervisor,
    waiter: &Waiter,
) -> Result<Option<Service>, Failure> {
    let is_given = sockets.giop.is_some() || sockets.json.is_some() || sockets.tempo.is_some();
    if config.standby.listen.is_some() && is_given {
        // Clients would connect to sockets that are there while this machine does not serve, and wait.
        return Err(Failure::Usage(
            "[standby] does not go with sockets that systemd opens: take Requires=campanile.socket out of the service with a drop-in \
             (docs/standby.md), and disable the socket unit"
                .to_owned(),
        ));
    }
    let failed = |error: StartError| match error.is_of_configuration() {
        true => Failure::Usage(error.to_string()),
        false => Failure::message(error),
    };
    match Service::start_on(config.clone(), sockets) {
        Err(StartError::Follower) => {}
        started => return started.map(Some).map_err(failed),
    }
    let follower = StandbyFollower::start(config).map_err(failed)?;
    let promoted = waiter.sender();
    follower.when_promoted(move || drop(promoted.send(Wake::Done)));
    let peer = config.standby.peer.as_deref().unwrap_or_default();
    let line = format!("follower of {peer}, listens at {}, and serves no client", follower.address());
    say(&format!("campanile: {line}\n"));
    supervisor.tell_status(&["READY=1"], &line);
    while !follower.is_promoted() {
        if let Some(Wake::Signal) = waiter.wait(None) {
            return Ok(None);
        }
    }
    supervisor.tell_status(&[], "takes over");
    Service::take_over(config.clone(), follower).map(Some).map_err(failed)
}

/// Has this process begin anew: another leader has taken over, and this machine is its follower from now on. A signal that came meanwhile
/// ends it.
fn begin_again(waiter: &Waiter) -> Result<(), Failure> {
    while let Some(wake) = waiter.wait(Some(Duration::ZERO)) {
        if let Wake::Signal = wake {
            return Ok(());
        }
    }
    say("campanile: another leader has taken over: begins again as its follower\n");
    let program = env::current_exe()?;
    Err(Failure::Message(format!(
        "cannot begin again: {}",
        process::Command::new(program).args(env::args_os().skip(1)).exec()
    )))
}

/// Has a panic of any thread logged, and end the process by SIGABRT: a service without one of its threads is half dead, unnoticed by its
/// supervisor.
pub(crate) fn end_on_panic() {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // The panic is printed whatever the log level, with a backtrace if requested.
        say(panic);
        log::error!("{}", panicked(panic));
        process::abort();
    }));
}

/// Description of a panic in one line.
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

/// Description of undelivered events in a sentence.
fn loss_text(undone: &Undone) -> String {
    let Undone { events, suspended, consumers } = *undone;
    let of_suspended = match suspended {
        0 => String::new(),
        _ => format!(", {} of them of suspended ones", show::count(suspended)),
    };
    let whom = if consumers == 1 { "a consumer".to_owned() } else { format!("{} consumers", show::count(consumers)) };
    format!("stopped before {} events were delivered to {whom}{of_suspended}", show::count(events))
}

/// Prints, and ignores failure: a service continues when its output has no reader.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}

/// Log settings of the command line, with the others as default.
fn log_of(options: &ServeOptions, otherwise: LogConfig) -> LogConfig {
    LogConfig {
        level: options.log.map_or(otherwise.level, Into::into),
        format: options.log_format.map_or(otherwise.format, Into::into),
    }
}

fn config(options: &ServeOptions) -> Result<Config, Failure> {
    fn set<T: Clone>(there: &mut Option<T>, here: &Option<T>) {
        if here.is_some() {
            there.clone_from(here);
        }
    }

    let mut settings = match &options.config {
        Some(path) => Config::read(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => Config::default(),
    };
    if let Some(listen) = &options.listen {
        settings.listen.clone_from(listen);
    }
    set(&mut settings.advertise, &options.advertise);
    set(&mut settings.ior_file, &options.ior_file);
    set(&mut settings.topology, &options.topology);
    set(&mut settings.store.directory, &options.data);
    set(&mut settings.naming.outside, &options.naming);
    set(&mut settings.json.listen, &options.json_listen);
    set(&mut settings.tempo.listen, &options.tempo_listen);
    set(&mut settings.http.listen, &options.http);
    set(&mut settings.tls.listen, &options.tls_listen);
    set(&mut settings.tls.certificate, &options.tls_certificate);
    set(&mut settings.tls.key, &options.tls_key);
    set(&mut settings.tls.client_ca, &options.tls_client_ca);
    set(&mut settings.tls.ca, &options.tls_ca);
    settings.log = log_of(options, settings.log);
    Ok(settings)
}

/// Chooses the store's folder if neither the command line nor the configuration has one: the folder that systemd has made for the service,
/// or else the user's, with one for each port. Returns a warning if there is none.
fn choose_store(config: &mut Config, environment: &Environment, listens: Option<SocketAddr>) -> Option<String> {
    if config.store.directory.is_some() {
        return None;
    }
    if let Some(folder) = &environment.state_directory {
        config.store.directory = Some(folder.clone());
        return None;
    }
    // A port chosen by the system is another one the next time.
    let port = listens.map(|address| address.port()).filter(|port| *port > 0)?;
    let Some(folder) = environment.user_state() else {
        let warning = "nothing outlives this service, since its user has no home folder ($HOME); name a folder with --data, or store \
                      nothing with --data none";
        log::warn!("store: {warning}");
        return Some(format!("campanile: {warning}\n"));
    };
    config.store.default_directory = Some(folder.join("campanile").join(port.to_string()));
    None
}

/// Summary of the service's work: its counters that are not zero.
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
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

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
            tempo_listen: Some("2811".into()),
            tls_listen: Some("127.0.0.1:2812".into()),
            tls_certificate: Some("certificate.pem".into()),
            tls_key: Some("key.pem".into()),
            tls_client_ca: None,
            tls_ca: None,
            http: Some("2812".into()),
            naming: Some("corbaloc::names.example.org/NameService".into()),
            log: None,
            log_format: None,
            check: false,
        };
        let settings = config(&options).unwrap();
        assert_eq!(settings.listen, "127.0.0.1:0");
        assert_eq!(settings.advertise.as_deref(), Some("notify.example.org"));
        assert_eq!(settings.ior_file.as_deref(), Some(Path::new("x.ior")));
        assert_eq!(settings.topology.as_deref(), Some(Path::new("x.json")));
        assert_eq!(settings.store.directory.as_deref(), Some(Path::new("x")));
        assert_eq!(settings.tempo.listen.as_deref(), Some("2811"));
        assert_eq!(settings.http.listen.as_deref(), Some("2812"));
        assert_eq!(settings.naming.outside.as_deref(), Some("corbaloc::names.example.org/NameService"));
    }

    #[test]
    fn things_are_kept_in_the_folder_that_is_named_first() {
        let environment = |state: &str, of_user: Option<&str>, home: Option<&str>| Environment {
            state_directory: (!state.is_empty()).then(|| state.into()),
            state_home: of_user.map(Into::into),
            home: home.map(Into::into),
            ..Environment::default()
        };
        let chosen = |listen: &str, named: Option<&str>, environment: &Environment| {
            let mut config = Config { listen: listen.into(), ..Config::default() };
            config.store.directory = named.map(Into::into);
            let listens = config.listen_address().ok();
            let warning = choose_store(&mut config, environment, listens);
            let folder = |folder: Option<std::path::PathBuf>| folder.map(|folder| folder.display().to_string());
            (folder(config.store.directory), folder(config.store.default_directory), warning.is_some())
        };
        let folder = |folder: &str| Some(folder.to_owned());
        let all = environment("/var/lib/campanile", Some("/state"), Some("/home/op"));
        assert_eq!(chosen("127.0.0.1:2809", Some("/own"), &all), (folder("/own"), None, false));
        assert_eq!(chosen("127.0.0.1:2809", Some("none"), &all), (folder("none"), None, false));
        assert_eq!(chosen("127.0.0.1:0", None, &all), (folder("/var/lib/campanile"), None, false));
        let user = environment("", Some("/state"), Some("/home/op"));
        assert_eq!(chosen("127.0.0.1:2809", None, &user), (None, folder("/state/campanile/2809"), false));
        let home = environment("", None, Some("/home/op"));
        assert_eq!(
            chosen("127.0.0.1:2810", None, &home),
            (None, folder("/home/op/.local/state/campanile/2810"), false)
        );
        // It would not be found again.
        assert_eq!(chosen("127.0.0.1:0", None, &home), (None, None, false));
        assert_eq!(chosen("127.0.0.1:2809", None, &environment("", None, None)), (None, None, true));
    }

    /// Ends its process, if that is the one which the next test has begun for it.
    const PANICS: &str = "CAMPANILE_TEST_PANICS";

    fn panic_in_a_thread() {
        logger::install(LogConfig::default());
        end_on_panic();
        let lane = thread::Builder::new().name("lane".into()).spawn(|| panic!("out of\norder"));
        let _ = lane.unwrap().join();
        // Not reached.
        process::exit(0);
    }

    #[test]
    fn a_panic_of_any_thread_is_logged_and_ends_the_process() {
        if env::var_os(PANICS).is_some() {
            panic_in_a_thread();
        }
        let mut program = process::Command::new(env::current_exe().unwrap());
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
