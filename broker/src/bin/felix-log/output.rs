//! What is said, and where.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Why a command did not come to its end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nobody reads what is printed any more.
    Closed,
    /// What was named is not ours: a sentence.
    NotOurs(String),
    /// Something cannot be read: a sentence.
    Unreadable(String),
}

impl Trouble {
    /// A file could not be read.
    pub(crate) fn unreadable(path: &Path, cause: &io::Error) -> Self {
        Self::Unreadable(format!("{} could not be read: {cause}", path.display()))
    }

    /// What the program ends with.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Closed => ExitCode::SUCCESS,
            Self::NotOurs(_) => ExitCode::from(2),
            Self::Unreadable(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "nobody reads the output"),
            Self::NotOurs(sentence) | Self::Unreadable(sentence) => write!(f, "{sentence}"),
        }
    }
}

/// Says something that is no result.
pub(crate) fn complain(what: &dyn fmt::Display) {
    // If nobody hears it, the exit code still says it.
    drop(writeln!(stderr(), "felix-log: {what}"));
}

/// Where results go, line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    out: BufWriter<StdoutLock<'static>>,
    is_json: bool,
}

impl Lines {
    /// Those of this program.
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            out: BufWriter::new(stdout().lock()),
            is_json,
        }
    }

    /// One result, for people or as JSON.
    pub(crate) fn say(
        &mut self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
    ) -> Result<(), Trouble> {
        let line = match self.is_json {
            true => json().to_string(),
            false => text(),
        };
        writeln!(self.out, "{line}").map_err(|_| Trouble::Closed)
    }

    /// Whether they are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// What was said so far is out.
    pub(crate) fn show(&mut self) -> Result<(), Trouble> {
        self.out.flush().map_err(|_| Trouble::Closed)
    }

    /// All of it is out.
    pub(crate) fn end(mut self) -> Result<(), Trouble> {
        self.out.flush().map_err(|_| Trouble::Closed)
    }
}
