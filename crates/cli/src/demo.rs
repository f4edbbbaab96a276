//! `campanile demo`: a service with its console, and events of a small observatory, until a signal comes.
//!
//! The service stores in a temporary folder of its own, which is removed at the end; the folder of a killed demo is removed when the next
//! one begins. Ports in use are replaced by free ones, unless the command line names them.

mod observatory;

use crate::args::DemoOptions;
use crate::failure::Failure;
use crate::serve;
use crate::signals::Waiter;
use crate::{logger, moment};
use console::{Console, ConsoleError};
use observatory::Observatory;
use service::{Config, LogConfig, LogLevel, Service, Sockets, StartError};
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Default port of the console, if it is free.
const HTTP_PORT: &str = "2812";
/// Any free port of the loopback address.
const FREE_PORT: &str = "127.0.0.1:0";

/// Runs the demo until a signal comes.
pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    logger::install(LogConfig { level: LogLevel::Error, ..LogConfig::default() });
    serve::end_on_panic();
    // Before there is a folder, so that a signal that comes early does not leave it behind.
    let waiter = Waiter::install_for_demo().map_err(Failure::message)?;
    let folder =
        Folder::make().map_err(|error| Failure::Message(format!("cannot make a folder for the store: {error}")))?;
    let (service, console) = start(options, &folder.0)?;
    let observatory = Observatory::open(&service.address().to_string(), say_alarm)
        .map_err(|error| Failure::Message(format!("the observatory cannot use its own service: {error}")))?;
    say(&introduction(service.address(), console.as_ref().and_then(Console::address)));
    waiter.wait(None);
    drop(observatory);
    // The remaining events are for clients that were only looking.
    let _ = service.drain(Duration::ZERO);
    drop(console);
    drop(folder);
    say("campanile: the demo has stopped, and nothing of it is left\n");
    Ok(())
}

/// Starts the service and the console.
fn start(options: &DemoOptions, folder: &Path) -> Result<(Service, Option<Console>), Failure> {
    let mut config = Config::default();
    config.log.level = LogLevel::Error;
    config.store.directory = Some(folder.to_owned());
    config.http.listen = Some(options.http.clone().unwrap_or_else(|| HTTP_PORT.to_owned()));
    if let Some(listen) = &options.listen {
        config.listen.clone_from(listen);
    }
    let mut service = Service::start_on(config.clone(), Sockets::default());
    if let (Err(StartError::Listen { address, error, .. }), None) = (&service, &options.listen)
        && error.kind() == ErrorKind::AddrInUse
    {
        say(&format!("campanile: {address} is in use, so the demo takes a free port\n"));
        FREE_PORT.clone_into(&mut config.listen);
        service = Service::start_on(config.clone(), Sockets::default());
    }
    let service = service.map_err(|error| match error.is_of_configuration() {
        true => Failure::Usage(error.to_string()),
        false => Failure::message(error),
    })?;
    let mut console = Console::start(&config, &service);
    if let (Err(ConsoleError::Listen { error, .. }), None) = (&console, &options.http)
        && error.kind() == ErrorKind::AddrInUse
    {
        config.http.listen = Some(FREE_PORT.to_owned());
        console = Console::start(&config, &service);
    }
    let console = console.map_err(|error| match error.is_of_configuration() {
        true => Failure::Usage(error.to_string()),
        false => Failure::message(error),
    })?;
    Ok((service, console))
}

/// Introduction: what is running, commands to type in another terminal, and how to end it.
fn introduction(address: SocketAddr, http: Option<SocketAddr>) -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let mut campanile = program.to_string_lossy().into_owned();
    if !client::LOCAL_SERVICE.contains(&address.to_string()) {
        campanile += &format!(" -s {address}");
    }
    let console = http.map_or_else(|| "not served".to_owned(), |http| format!("http://{http}/"));
    format!(
        "campanile: a small observatory at {address}, until Ctrl-C

  console    {console}
  suppliers  {suppliers}
  consumers  archive, which is slow on purpose; alarms, which filters: {filter}

In another terminal:
  {campanile} sub -t 'Weather/*'    # events as they come
  {campanile} ls                    # the clients, by name
  {campanile} top                   # the consumers, the slowest first

Alarms as the consumer of that name gets them:
",
        suppliers = observatory::SUPPLIERS.join(", "),
        filter = observatory::ALARMS,
    )
}

/// Prints an alarm.
fn say_alarm(station: &str, text: &str) {
    say(&format!("{}  {station}: {text}\n", moment::time_of_day(SystemTime::now())));
}

/// Prints, and ignores that the output has no reader.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prefix of the folders' names.
const FOLDERS: &str = "campanile-demo-";

/// A folder that is removed when dropped. It is locked for the lifetime of its process, however that ends.
struct Folder(PathBuf, #[expect(dead_code, reason = "it holds the lock")] File);

impl Folder {
    /// Makes a folder that only this user can read, and removes those left behind.
    fn make() -> io::Result<Self> {
        const TRIES: u32 = 64;
        let (temporary, process) = (std::env::temp_dir(), std::process::id());
        // A folder more does no harm.
        let _ = Self::remove_those_left_in(&temporary);
        let mut tried = 0;
        loop {
            let path = temporary.join(format!("{FOLDERS}{process}-{tried}"));
            let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| Self::lock(&path));
            match made {
                Ok(Some(lock)) => return Ok(Self(path, lock)),
                // Another demo took the folder for an abandoned one, or it existed already.
                Ok(None) if tried < TRIES => tried += 1,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && tried < TRIES => tried += 1,
                Ok(None) => return Err(ErrorKind::ResourceBusy.into()),
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        }
    }

    /// The lock of a folder; `None` if another process has it, or has removed the folder meanwhile.
    fn lock(path: &Path) -> io::Result<Option<File>> {
        let Ok(folder) = File::open(path) else { return Ok(None) };
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let is_there = fs::symlink_metadata(path).is_ok_and(|there| is_same(&there, &folder));
        Ok(is_there.then_some(folder))
    }

    /// Removes folders of this user's demos that are not running any more, such as killed ones.
    fn remove_those_left_in(temporary: &Path) -> io::Result<()> {
        let user = rustix::process::geteuid().as_raw();
        for entry in fs::read_dir(temporary)? {
            let Ok(entry) = entry else { continue };
            let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
            if !is_ours || !entry.file_name().to_string_lossy().starts_with(FOLDERS) {
                continue;
            }
            if let Ok(Some(_lock)) = Self::lock(&entry.path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}

/// Whether a folder is the one that was opened.
fn is_same(there: &Metadata, opened: &File) -> bool {
    opened.metadata().is_ok_and(|opened| (opened.dev(), opened.ino()) == (there.dev(), there.ino()))
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("campanile: cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Held by a test with folders: a name that is free is given again.
    static FOLDERS_OF_ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_service_that_is_not_at_the_usual_address_is_named_in_every_command() {
        let text = introduction("127.0.0.1:2809".parse().unwrap(), Some("127.0.0.1:2812".parse().unwrap()));
        assert!(!text.contains(" -s ") && text.contains("http://127.0.0.1:2812/"), "{text}");
        let text = introduction("127.0.0.1:4711".parse().unwrap(), None);
        assert_eq!(text.matches(" -s 127.0.0.1:4711 ").count(), 3, "{text}");
    }

    #[test]
    fn where_no_address_is_named_free_ones_do_as_well() {
        let _alone = FOLDERS_OF_ONE.lock();
        let options = DemoOptions { listen: None, http: None };
        let folders = [Folder::make().unwrap(), Folder::make().unwrap()];
        let [one, other] = folders.each_ref().map(|folder| start(&options, &folder.0).unwrap());
        assert_ne!(one.0.address(), other.0.address());
        assert_ne!(one.1.unwrap().address(), other.1.unwrap().address());
    }

    #[test]
    fn a_folder_is_the_users_own_and_gone_with_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let _alone = FOLDERS_OF_ONE.lock();
        let (one, other) = (Folder::make().unwrap(), Folder::make().unwrap());
        assert_ne!(one.0, other.0);
        assert_eq!(fs::metadata(&one.0).unwrap().permissions().mode() & 0o777, 0o700);
        let path = one.0.clone();
        fs::write(path.join("file"), "x").unwrap();
        drop(one);
        assert!(!path.exists());
    }
}
