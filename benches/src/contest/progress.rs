//! What is going on, for whoever waits.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Says on standard error what is done, one line a turn: over each other on a terminal.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    is_terminal: bool,
    is_quiet: bool,
}

impl Progress {
    /// Says nothing if quiet.
    #[must_use]
    pub fn new(is_quiet: bool) -> Self {
        Self {
            begun: Instant::now(),
            is_terminal: stderr().is_terminal(),
            is_quiet,
        }
    }

    pub(super) fn turn(&self, comparison: &str, side: &str, round: usize, rounds: usize) {
        self.say(&format!("{comparison}: round {round} of {rounds}, {side}"));
    }

    /// Something is done that takes a while.
    pub fn say(&self, what: &str) {
        if self.is_quiet {
            return;
        }
        let seconds = self.begun.elapsed().as_secs();
        let line = format!(
            "felix-bench: {:>2}:{:02} {what}",
            seconds / 60,
            seconds % 60
        );
        // Nobody needs to hear it.
        drop(match self.is_terminal {
            // Back to the beginning, and clear what was there.
            true => write!(stderr(), "\r\x1b[K{line}").and_then(|()| stderr().flush()),
            false => writeln!(stderr(), "{line}"),
        });
    }

    /// The line is over: something else is printed next.
    pub fn end(&self) {
        if self.is_terminal && !self.is_quiet {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}
