//! What went wrong, as a sentence for whoever runs the program.

use std::error::Error;
use std::fmt;

/// A sentence that says what is wrong and, where something can be done about it, what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem(String);

impl Problem {
    /// The sentence, without a full stop.
    #[must_use]
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Problem {}
