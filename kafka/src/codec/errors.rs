//! The error codes that one answer tells.

use super::ErrorCode;

/// Codes and how often each is told. Most answers tell none, which takes no memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Errors(Vec<(ErrorCode, u64)>);

impl Errors {
    /// One more of this code.
    pub(super) fn note(&mut self, code: ErrorCode) {
        if code == ErrorCode::None {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => self.0.push((code, 1)),
        }
    }

    /// Each code once, and how often it is told.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        self.0.iter().copied()
    }
}
