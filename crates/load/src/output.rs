//! Destination of a report, and whether it is a terminal.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::{BenchError, ReportOptions};

/// Destination of a report.
pub struct Output<'a> {
    writer: &'a mut dyn Write,
    terminal: bool,
}

impl<'a> Output<'a> {
    /// Writes to `writer`; `terminal` turns on progress, aligned tables with units, and the live table of the demonstration. A pipe gets
    /// tab-separated tables with plain numbers.
    pub fn new(writer: &'a mut dyn Write, terminal: bool) -> Self {
        Self { writer, terminal }
    }

    /// Whether the output is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Shows the progress in a line that the next one replaces; nothing in a pipe.
    ///
    /// # Errors
    ///
    /// The writer fails.
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
    /// The writer fails.
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

/// Writes a report as one JSON object as the options say: to `out`, to a file, to both or nowhere.
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

/// Writes a report into a folder, compressed, named by day, commit and this name, replacing older ones of this name; returns the file's
/// path.
pub fn write_result(
    report: &impl Serialize,
    folder: &Path,
    name: &str,
    date: &str,
    commit: Option<&str>,
) -> Result<PathBuf, BenchError> {
    let doing = "storing a report";
    fs::create_dir_all(folder).map_err(BenchError::io(doing))?;
    for entry in fs::read_dir(folder).map_err(BenchError::io(doing))? {
        let path = entry.map_err(BenchError::io(doing))?.path();
        if path.file_name().and_then(|file| file.to_str()).is_some_and(|file| is_of(file, name)) {
            fs::remove_file(path).map_err(BenchError::io("removing an older report"))?;
        }
    }
    // The commit ends where the name begins.
    let commit = commit.unwrap_or("unknown").replace('-', ".");
    let path = folder.join(format!("{date}-{commit}-{name}.json"));
    let text = serde_json::to_string(report).map_err(crate::process::json("writing the report"))?;
    fs::write(&path, text + "\n").map_err(BenchError::io(doing))?;
    let done = Command::new("gzip").arg("-9nf").arg(&path).status().map_err(BenchError::io("starting gzip"))?;
    if done.success() { Ok(path.with_extension("json.gz")) } else { Ok(path) }
}

/// Whether a file is a report of this name: `DATE-COMMIT-NAME.json`, possibly compressed. A date has ten characters.
fn is_of(file: &str, name: &str) -> bool {
    let before = file.trim_end_matches(".gz").strip_suffix(".json").and_then(|file| file.strip_suffix(name));
    let commit = before.and_then(|before| before.strip_suffix('-')?.get(11..));
    commit.is_some_and(|commit| !commit.contains('-'))
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

    /// A report of `isolation` would have taken the place of that of `tempo-isolation`.
    #[test]
    fn a_report_takes_the_place_of_those_of_its_whole_name() {
        assert!(is_of("2026-11-21-3c55d36-isolation.json", "isolation"));
        assert!(is_of("2026-11-21-3c55d36.dirty-isolation.json.gz", "isolation"));
        for other in ["2026-11-21-3c55d36-tempo-isolation.json.gz", "2026-11-21-isolation.json", "isolation.json"] {
            assert!(!is_of(other, "isolation"), "{other}");
        }
    }

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
