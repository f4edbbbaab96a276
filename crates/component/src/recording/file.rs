//! The file of a recording, which the command that runs the plan writes: lines of all servers, up to a size.

use super::{DroppedLine, ENDIAN, HeadLine, Line, SOCKET, ServerLine, written};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The most octets of a line: an event of 16 MiB has twice as many digits.
pub(super) const LINE_BYTES_MAX: u64 = 40 * 1024 * 1024;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Events in the file.
    pub events: u64,
    /// Events that came and are not in the file.
    pub dropped: u64,
    /// Why it ended before the plan did.
    pub ended: Option<String>,
    /// Servers that ended before they had sent all, as one that is killed does: what is lost of them is not counted.
    pub cut_short: Vec<String>,
}

/// A recording that goes on. What the servers of a plan send to it is written until the size is reached or the disk is full; from then on
/// events are counted.
pub struct Recording {
    folder: Folder,
    output: Arc<Mutex<Output>>,
    stop: Arc<AtomicBool>,
    /// Takes the servers' connections, and answers the threads that read them.
    listener: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

struct Output {
    file: File,
    path: PathBuf,
    bytes: u64,
    bytes_max: u64,
    recorded: Recorded,
}

impl Recording {
    /// Makes a file, which is not there yet, for a recording of the plan in another. It has so many octets at most. It is removed where no
    /// event comes.
    ///
    /// # Errors
    /// The file is there already or cannot be made, or there is no place for the socket by which the servers send events.
    pub fn create(path: &Path, bytes_max: u64, plan: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} is there already: remove it, or choose another file", path.display())
            }
            _ => format!("{} cannot be written: {error}", path.display()),
        };
        let (folder, listener) =
            socket().map_err(|error| format!("there is no socket for the recording: {error}; say another TMPDIR"))?;
        let folder = Folder(folder);
        let plan = std::path::absolute(plan).map_err(failed)?.to_string_lossy().into_owned();
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(failed)?;
        let mut output = Output { file, path: path.to_owned(), bytes: 0, bytes_max, recorded: Recorded::default() };
        output.write(written(&Line::Head(HeadLine { recording: 1, plan, endian: ENDIAN.to_owned() })).as_bytes());
        if let Some(reason) = output.recorded.ended {
            let _ = std::fs::remove_file(path);
            return Err(reason);
        }
        let output = Arc::new(Mutex::new(output));
        let stop = Arc::<AtomicBool>::default();
        let (stops, lines) = (stop.clone(), output.clone());
        let listen = move || {
            let mut readers = Vec::new();
            for stream in listener.incoming() {
                if stops.load(Ordering::Acquire) {
                    break;
                }
                let lines = lines.clone();
                let reader = stream
                    .and_then(|stream| Builder::new().name("recording".to_owned()).spawn(move || read(stream, &lines)));
                match reader {
                    Ok(reader) => readers.push(reader),
                    Err(error) => {
                        log::warn!("a server is not recorded, nor are those that start after it: {error}");
                        break;
                    }
                }
            }
            readers
        };
        let listener = Builder::new().name("recording".to_owned()).spawn(listen).map_err(failed)?;
        Ok(Self { folder, output, stop, listener: Some(listener) })
    }

    /// Has a server that this starts send its events here.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command.env(SOCKET, self.folder.0.join("socket"));
    }

    /// Ends the recording, when all servers have ended.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        self.end();
        lock(&self.output).recorded.clone()
    }

    fn end(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        self.stop.store(true, Ordering::Release);
        // It waits for a connection: this is the last. Where the socket is gone, it waits for ever.
        let is_woken = UnixStream::connect(self.folder.0.join("socket")).is_ok();
        if is_woken || listener.is_finished() {
            for reader in listener.join().unwrap_or_default() {
                let _ = reader.join();
            }
        }
        let output = lock(&self.output);
        let Recorded { events, dropped, ended, .. } = &output.recorded;
        if *events == 0 && *dropped == 0 && ended.is_none() {
            let _ = std::fs::remove_file(&output.path);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("folder", &self.folder.0).finish_non_exhaustive()
    }
}

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A socket in a folder of its own, to which no other user comes.
pub(crate) fn socket() -> io::Result<(PathBuf, UnixListener)> {
    let base = std::env::temp_dir();
    let mut number = 0_u32;
    let folder = loop {
        let folder = base.join(format!("campanile-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => break folder,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => number += 1,
            Err(error) => return Err(error),
        }
    };
    let listener = UnixListener::bind(folder.join("socket"));
    if listener.is_err() {
        let _ = std::fs::remove_dir(&folder);
    }
    Ok((folder, listener?))
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the lines of a server.
fn read(stream: UnixStream, output: &Mutex<Output>) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut server, mut has_ended) = (Vec::new(), None, false);
    while (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut output = lock(output);
        if !line.ends_with(b"\n") {
            // The rest of an event, of a server that ended in it.
            output.recorded.dropped += 1;
            break;
        }
        let other = (!line.starts_with(EVENT)).then(|| std::str::from_utf8(&line).ok().and_then(Line::parse)).flatten();
        match other {
            Some(Line::Server(ServerLine { server: name })) => server = Some(name),
            Some(Line::Dropped(DroppedLine { dropped: 0 })) => has_ended = true,
            other => {
                has_ended = matches!(other, Some(Line::Dropped(_)));
                output.take(&line, other);
            }
        }
        line.clear();
    }
    if let Some(server) = server.filter(|_| !has_ended) {
        lock(output).recorded.cut_short.push(server);
    }
}

/// What the line of an event begins with.
const EVENT: &[u8] = b"{\"came\":";

impl Output {
    /// Writes a line of a server: an event, or another one.
    fn take(&mut self, line: &[u8], other: Option<Line>) {
        let is_event = line.starts_with(EVENT);
        if let Some(Line::Dropped(DroppedLine { dropped })) = other {
            self.recorded.dropped = self.recorded.dropped.saturating_add(dropped);
        }
        if self.write(line) {
            self.recorded.events += u64::from(is_event);
        } else {
            self.recorded.dropped += u64::from(is_event);
        }
    }

    /// Writes a line, whole or not at all, and answers whether it did.
    fn write(&mut self, line: &[u8]) -> bool {
        if self.recorded.ended.is_some() {
            return false;
        }
        let path = self.path.display();
        let after = self.bytes.saturating_add(line.len() as u64);
        let reason = if after > self.bytes_max {
            format!("{path} has {} octets, and may have {}", self.bytes, self.bytes_max)
        } else if let Err(error) = self.file.write_all(line) {
            // What is there of the line would be damage.
            let _ = self.file.set_len(self.bytes);
            format!("{path} cannot be written: {error}")
        } else {
            self.bytes = after;
            return true;
        };
        log::warn!("the recording has ended, and the plan runs on: {reason}");
        self.recorded.ended = Some(reason);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{DroppedLine, Line, Output, Recorded, read};
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    fn output(path: &str) -> Output {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        Output { file, path: path.into(), bytes: 0, bytes_max: u64::MAX, recorded: Recorded::default() }
    }

    #[test]
    fn a_full_disk_ends_the_recording_once_and_what_comes_then_is_counted() {
        let mut output = output("/dev/full");
        output.take(b"{\"came\":1}\n", None);
        output.take(b"{\"dropped\":5}\n", Some(Line::Dropped(DroppedLine { dropped: 5 })));
        output.take(b"{\"came\":2}\n", None);
        let Recorded { events, dropped, ended, .. } = output.recorded;
        assert_eq!((events, dropped), (0, 7));
        assert!(ended.is_some_and(|why| why.starts_with("/dev/full cannot be written: No space left on device")));
    }

    #[test]
    fn a_server_that_ends_without_its_last_line_was_cut_short() {
        let recorded = |lines: &str| {
            let (mut server, stream) = UnixStream::pair().unwrap();
            server.write_all(lines.as_bytes()).unwrap();
            drop(server);
            let output = Mutex::new(output("/dev/null"));
            read(stream, &output);
            let Recorded { events, dropped, cut_short, .. } = output.into_inner().unwrap().recorded;
            (events, dropped, cut_short)
        };
        let of = "{\"server\":\"main\"}\n{\"came\":1}\n";
        assert_eq!(recorded(&format!("{of}{{\"dropped\":0}}\n")), (1, 0, vec![]));
        assert_eq!(recorded(&format!("{of}{{\"dropped\":3}}\n")), (1, 3, vec![]));
        assert_eq!(recorded(of), (1, 0, vec!["main".to_owned()]));
        assert_eq!(recorded(&format!("{of}{{\"came\"")), (1, 1, vec!["main".to_owned()]));
        // The connection that ends the recording.
        assert_eq!(recorded(""), (0, 0, vec![]));
    }
}
