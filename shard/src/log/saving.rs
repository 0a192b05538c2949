//! The generation of an opening, noted in the table on the device before the first batch that
//! carries it. Where whoever opens the log has noted it elsewhere it is not noted at the opening: ten
//! thousand logs that nobody writes to are opened without a single write.

use super::Log;
use super::error::LogError;
use super::generations::Generations;
use super::poison::Distrust;
use crate::disk::Dir;
use std::rc::Rc;

/// A generation table to be written without holding the log.
#[derive(Debug)]
#[must_use]
pub struct Saving {
    dir: Rc<Dir>,
    generations: Generations,
}

impl Saving {
    /// Does it, durably.
    ///
    /// # Errors
    /// The disk's own fault. It is to be brought back by [`Log::saved`] all the same.
    pub async fn run(self) -> Result<(), LogError> {
        self.generations.save(&self.dir).await
    }
}

impl Log {
    /// Whether the table on the device has the generation of this opening. No batch is taken before.
    #[must_use]
    pub fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// The table with the generation of this opening, to be written; `None` where it is there.
    #[must_use]
    pub fn saving(&self) -> Option<Saving> {
        (!self.is_saved && self.poison.is_none()).then(|| Saving {
            dir: Rc::clone(&self.dir),
            generations: self.generations.clone(),
        })
    }

    /// Takes it back. Where the disk refuses it ([`LogError::is_refusal`]) the log is as it was;
    /// any other error poisons it.
    ///
    /// # Errors
    /// The one that was brought.
    pub fn saved(&mut self, result: Result<(), LogError>) -> Result<(), LogError> {
        match result {
            Ok(()) => {
                self.is_saved = true;
                Ok(())
            }
            Err(error) if error.is_refusal() => Err(error),
            Err(error) => Err(self.poison(error, Distrust::Flushes)),
        }
    }
}
