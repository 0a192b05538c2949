//! Style and structure, kept by tests.
//!
//! Each rule is a module with one `check` that takes texts and returns [`Fault`]s, and its own
//! tests show that it catches what it forbids. `tests/tidy.rs` runs every rule over this
//! repository. What a rule lets pass stands in [`allowed`], each entry with its reason; an entry
//! that nothing needs any more is a fault too, so the lists only shrink by themselves.

pub mod allowed;
pub mod ambient;
pub mod arrows;
pub mod evidence;
pub mod functions;
pub mod leftovers;
pub mod length;
pub mod links;
pub mod privacy;
pub mod seams;
pub mod sharing;
pub mod source;
pub mod tree;

use std::fmt;

/// One broken rule at one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fault {
    /// File, relative to the root of the repository.
    pub path: String,
    /// Line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl Fault {
    /// A fault at a line.
    #[must_use]
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}
