//! The terminal while a command draws on it: keys are read one by one, and not echoed.

use crate::signals::Wake;
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::panic;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Settings of the terminal before keys were taken over; `None` when they are not.
static FORMER: Mutex<Option<Termios>> = Mutex::new(None);

/// Control-D.
const END_OF_TRANSMISSION: u8 = 4;

/// Whether standard input and standard error are terminals, so that a question is seen and answered.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question; only yes confirms.
pub(crate) fn is_confirmed(question: &str) -> io::Result<bool> {
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Restores the terminal when dropped, or when the program panics. Other ends of the program call [`restore`].
pub(crate) struct Keys(());

impl Keys {
    /// Watches the keyboard: `q` sends a wake. `None` if standard input is no terminal, or the program is in the background, where reading
    /// would stop it.
    pub(crate) fn take(wake: Sender<Wake>) -> Option<Self> {
        let stdin = io::stdin();
        let is_in_the_background = tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp());
        if !stdin.is_terminal() || is_in_the_background {
            return None;
        }
        let former = tcgetattr(&stdin).ok()?;
        let mut single = former.clone();
        // Ctrl-C remains a signal, and what is written is treated as before.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        *FORMER.lock().unwrap_or_else(PoisonError::into_inner) = Some(former);
        let say = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            say(panic);
        }));
        let keys = Self(());
        tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
        thread::Builder::new().name("keys".to_owned()).spawn(move || wait_for_q(&wake)).ok()?;
        Some(keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal.
pub(crate) fn restore() {
    if let Some(former) = FORMER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &former);
    }
}

fn wait_for_q(wake: &Sender<Wake>) {
    for key in io::stdin().lock().bytes() {
        if matches!(key, Ok(b'q' | b'Q' | END_OF_TRANSMISSION)) {
            // The receiver may be gone already.
            let _ = wake.send(Wake::Done);
        }
    }
}

/// Columns of the terminal of a stream; `None` if it is no terminal.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    tcgetwinsize(stream).ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Overwrites the screen, from the top left corner, each line to its end, and clears the rest. Text without room on the terminal is left
/// out.
pub(crate) fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    let size = tcgetwinsize(&out).ok().filter(|size| size.ws_row > 1 && size.ws_col > 0);
    let (rows, columns) = size.map_or((usize::MAX, usize::MAX), |size| (size.ws_row.into(), size.ws_col.into()));
    out.write_all(screen(text, rows, columns).as_bytes())?;
    out.flush()
}

fn screen(text: &str, rows: usize, columns: usize) -> String {
    let mut screen = String::from("\x1b[H");
    // The cursor has the last row.
    for line in text.lines().take(rows - 1) {
        let (mut column, mut is_escape) = (0, false);
        for letter in line.chars() {
            // Colours take no room, and are ended even where the text is cut.
            is_escape |= letter == '\x1b';
            if is_escape || column < columns {
                screen.push(letter);
            }
            column += usize::from(!is_escape);
            is_escape &= letter != 'm';
        }
        screen.push_str("\x1b[K\n");
    }
    screen.push_str("\x1b[J");
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_left_out() {
        assert_eq!(screen("µs\nb\n", usize::MAX, usize::MAX), "\x1b[Hµs\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("µs\nb\n", 2, 1), "\x1b[Hµ\x1b[K\n\x1b[J");
        let painted = "a \x1b[31mlost\x1b[0m b\n";
        assert_eq!(screen(painted, 2, 4), "\x1b[Ha \x1b[31mlo\x1b[0m\x1b[K\n\x1b[J");
    }
}
