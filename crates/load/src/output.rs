//! Where a report goes, and whether a person is watching.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::{BenchError, ReportOptions};

/// Where a report goes.
pub struct Output<'a> {
    writer: &'a mut dyn Write,
    terminal: bool,
}

impl<'a> Output<'a> {
    /// Writes to `writer`; `terminal` says whether a person watches it, which turns on progress, aligned tables with
    /// units, and the live table of the demonstration. A pipe gets tab-separated tables with plain numbers.
    pub fn new(writer: &'a mut dyn Write, terminal: bool) -> Self {
        Self { writer, terminal }
    }

    /// Whether a person watches.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Says what is going on, in one line that the next one replaces; nothing in a pipe.
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn progress(&mut self, text: &str) -> io::Result<()> {
        if self.terminal {
            write!(self.writer, "\r\x1b[2K{text}")?;
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Removes the progress line.
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn end_progress(&mut self) -> io::Result<()> {
        self.progress("")
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a report as one JSON object to wherever the options want it: to `out`, to a file, to both or nowhere.
pub fn write_json(report: &impl Serialize, options: &ReportOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if !options.json && options.json_file.is_none() {
        return Ok(());
    }
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|error| BenchError::Io { doing: "writing the report as JSON", source: error.into() })?;
    text.push('\n');
    if let Some(path) = &options.json_file {
        fs::write(path, &text).map_err(BenchError::io("writing the file of --json-file"))?;
    }
    if options.json {
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Writes a report into a folder, under the day and the commit of its run and this name, in the place of older ones of this name; the
/// file's path.
pub fn write_result(
    report: &impl Serialize,
    folder: &Path,
    name: &str,
    date: &str,
    commit: Option<&str>,
) -> Result<PathBuf, BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::io("making the folder of --results"))?;
    let older = results(folder, name)?;
    let path = folder.join(format!("{date}-{}-{name}.json", commit.unwrap_or("unknown")));
    let text = serde_json::to_string(report).map_err(crate::process::json("writing the report"))?;
    fs::write(&path, text + "\n").map_err(BenchError::io("writing the report"))?;
    for older in older.into_iter().filter(|older| *older != path) {
        fs::remove_file(older).map_err(BenchError::io("removing an older report"))?;
    }
    Ok(path)
}

/// The reports of this name in a folder, the latest last.
fn results(folder: &Path, name: &str) -> Result<Vec<PathBuf>, BenchError> {
    let doing = "looking for stored reports";
    let ending = format!("-{name}.json");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(BenchError::io(doing))? {
        let path = entry.map_err(BenchError::io(doing))?.path();
        // `DATE-COMMIT-NAME.json`; a date has ten characters.
        let is_it = path.file_name().and_then(|file| file.to_str()?.strip_suffix(&ending)?.get(10..)).is_some();
        if is_it {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The date, as `2026-11-21`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since the beginning of 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (20_818, (2026, 12, 31)),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
