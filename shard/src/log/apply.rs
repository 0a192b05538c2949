//! Taking batches that another log has placed, as a follower does.

use super::{Log, LogError};
use bytes::Bytes;
use felix_core::limits::{BATCH_BYTES_MAX, LOG_ROOM};
use felix_core::{BatchError, Generation, Offset, PlacedBatch, ShardError, Timestamp};
use std::fmt;

/// Why batches were not taken: none of them was, unless the log itself has failed.
#[derive(Debug)]
pub enum ApplyError {
    /// Bytes that are no whole batch.
    Batch(BatchError),
    /// A batch that does not follow the one before it.
    Gap {
        /// The offset owed.
        owed: Offset,
        /// Its base offset.
        found: Offset,
    },
    /// A batch of another generation than the one in force: the generation table has to be there
    /// before its batches.
    Generation {
        /// The generation in force.
        current: Generation,
        /// That of the batch.
        found: Generation,
    },
    /// A batch that is larger than a log takes, or reaches further; or more of them than are taken
    /// in one go.
    TooLarge,
    /// The shard is not served here.
    Shard(ShardError),
    /// The log has failed.
    Log(LogError),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(error) => write!(f, "what came is no whole batch: {error}"),
            Self::Gap { owed, found } => {
                write!(f, "a batch begins at offset {found} where {owed} is owed")
            }
            Self::Generation { current, found } => {
                write!(
                    f,
                    "a batch of leader epoch {found} came in leader epoch {current}"
                )
            }
            Self::TooLarge => write!(
                f,
                "a batch, or all that came at once, is larger than the {BATCH_BYTES_MAX} bytes that \
                 a log takes"
            ),
            Self::Shard(error) => write!(f, "{error}"),
            Self::Log(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<LogError> for ApplyError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl Log {
    /// Takes the batches in `bytes` as another log has placed them, one behind the other. All are
    /// verified before one is written: format, checksum, that offsets go on, and the generation.
    /// What is known of producers moves by their headers, and nothing is judged: what the other
    /// log has taken is taken. Those that were taken are returned: where the disk refuses one
    /// ([`LogError::is_refusal`]), those before it. In this log they were appended `now`, whatever time
    /// their records carry.
    ///
    /// # Errors
    /// Why none was.
    pub fn apply(&mut self, bytes: Bytes, now: Timestamp) -> Result<Vec<PlacedBatch>, ApplyError> {
        self.usable()?;
        let batches = self.verified(bytes)?;
        let mut applied = Vec::with_capacity(batches.len());
        for batch in batches {
            if batch.header().is_append_time() {
                self.append_time = self.append_time.max(batch.max_timestamp());
            }
            let batch = match self.write(batch) {
                Ok(batch) => batch,
                Err(error) if error.is_refusal() && !applied.is_empty() => break,
                Err(error) => return Err(error.into()),
            };
            self.last().applied(&batch, now);
            applied.push(batch);
        }
        Ok(applied)
    }

    fn verified(&self, mut bytes: Bytes) -> Result<Vec<PlacedBatch>, ApplyError> {
        // One of the greatest size is always taken, and the core is not held for more.
        if bytes.len() > BATCH_BYTES_MAX {
            return Err(ApplyError::TooLarge);
        }
        let mut batches = Vec::new();
        let mut owed = self.end;
        while !bytes.is_empty() {
            let batch = PlacedBatch::split_from(&mut bytes).map_err(ApplyError::Batch)?;
            let found = batch.base_offset();
            if found != owed {
                return Err(ApplyError::Gap { owed, found });
            }
            // The checksum does not cover it, and recovery holds it against the table.
            if batch.generation() != self.generation {
                return Err(ApplyError::Generation {
                    current: self.generation,
                    found: batch.generation(),
                });
            }
            owed = batch.next_offset();
            if batch.header().is_transactional() {
                return Err(ApplyError::Batch(BatchError::Transactional));
            }
            if owed.get() > Offset::MAX.get() - LOG_ROOM {
                return Err(ApplyError::TooLarge);
            }
            batches.push(batch);
        }
        Ok(batches)
    }
}
