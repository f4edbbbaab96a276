//! Progress of a command that takes more than a second: one line on standard error, replaced by the next and removed at the end. Not shown
//! if standard error is no terminal.

use crate::environment::Environment;
use crate::show;
use crate::terminal::columns;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time after which the line is shown; shorter commands need none.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const REFRESHED_EVERY: Duration = Duration::from_millis(200);

/// Kind of work, and its extent.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The activity, such as `replaying`.
    pub(crate) doing: &'static str,
    /// The counted things, such as `events`; `None` if only time is shown.
    pub(crate) unit: Option<&'static str>,
    /// Total number, if known.
    pub(crate) total: Option<u64>,
}

/// The progress line. Dropping it removes it.
pub(crate) struct Progress {
    count: Arc<AtomicU64>,
    line: Option<Line>,
}

struct Line {
    /// Whether the line is shown; locked while something is written.
    is_shown: Arc<Mutex<bool>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows a count that is kept elsewhere.
    pub(crate) fn of(work: Work, count: Arc<AtomicU64>) -> Self {
        let has_line = io::stderr().is_terminal() && !Environment::read().is_dumb;
        let line = has_line.then(|| {
            let (end, ended) = channel();
            let is_shown = Arc::new(Mutex::new(false));
            let (shown, counted) = (Arc::clone(&is_shown), Arc::clone(&count));
            let run = move || keep_up(&work, &counted, &shown, &ended);
            let thread = thread::Builder::new().name("progress".to_owned()).spawn(run).ok();
            Line { is_shown, end: Some(end), thread }
        });
        Self { count, line }
    }

    pub(crate) fn begin(work: Work) -> Self {
        Self::of(work, Arc::default())
    }

    /// Sets the number of things done.
    pub(crate) fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Prints a text on standard error, above the line.
    pub(crate) fn say(&self, text: &str) {
        let _alone = self.line.as_ref().map(|line| remove(&line.is_shown));
        eprintln!("{text}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &mut self.line {
            line.end.take();
            let _ = line.thread.take().map(JoinHandle::join);
        }
    }
}

fn keep_up(work: &Work, count: &AtomicU64, is_shown: &Mutex<bool>, ended: &Receiver<()>) {
    let began = Instant::now();
    let mut wait = SHOWN_AFTER;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = REFRESHED_EVERY;
        let mut line = work.line(count.load(Ordering::Relaxed), began.elapsed());
        let mut stderr = io::stderr();
        if let Some(columns) = columns(&stderr) {
            // A line broken into two would not be removed as a whole.
            line = line.chars().take(columns - 1).collect();
        }
        let mut is_shown = is_shown.lock().unwrap_or_else(PoisonError::into_inner);
        *is_shown = true;
        // The terminal may be gone.
        let _ = write!(stderr, "\r{line}\x1b[K").and_then(|()| stderr.flush());
    }
    drop(remove(is_shown));
}

/// Removes the line, if shown. It does not return until the guard is dropped.
fn remove(is_shown: &Mutex<bool>) -> std::sync::MutexGuard<'_, bool> {
    let mut is_shown = is_shown.lock().unwrap_or_else(PoisonError::into_inner);
    if core::mem::take(&mut *is_shown) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    is_shown
}

impl Work {
    fn line(&self, count: u64, elapsed: Duration) -> String {
        let Self { doing, unit, total } = self;
        let seconds = elapsed.as_secs();
        let Some(unit) = unit else { return format!("campanile: {doing}: {seconds} s") };
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let rate = count as f64 / elapsed.as_secs_f64().max(0.001);
        let mut line = format!("campanile: {doing}: {} {unit}, {}/s", show::count(count), show::rate(rate));
        if let Some(left) = total.map(|total| total.saturating_sub(count)) {
            line.push_str(&format!(", {} left", show::count(left)));
            #[expect(clippy::cast_precision_loss, reason = "whole seconds are shown")]
            let left_s = Duration::try_from_secs_f64(left as f64 / rate);
            if let Ok(left_s) = left_s {
                line.push_str(&format!(" ({} s)", show::count(left_s.as_secs())));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_count_rate_and_what_is_left_where_they_are_known() {
        let events = Work { doing: "replaying", unit: Some("events"), total: Some(10_000) };
        let seconds = Duration::from_secs;
        assert_eq!(events.line(4_000, seconds(2)), "campanile: replaying: 4,000 events, 2,000/s, 6,000 left (3 s)");
        assert_eq!(events.line(0, seconds(2)), "campanile: replaying: 0 events, 0.00/s, 10,000 left");
        assert_eq!(Work { total: None, ..events }.line(7, seconds(2)), "campanile: replaying: 7 events, 3.50/s");
        let compacting = Work { doing: "compacting the store", ..Work::default() };
        assert_eq!(compacting.line(0, seconds(3)), "campanile: compacting the store: 3 s");
    }
}
