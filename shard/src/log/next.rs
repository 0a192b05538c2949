//! The next segment, made ahead: its file is there before the one that grows is full, so that a roll
//! makes no system call at all on the core. Until the flush that follows gives it its own name, it
//! has the one it was made under, and an opening knows by its first batch where it belongs
//! (`abandoned.rs`).

use super::Log;
use super::error::LogError;
use super::segment::Segment;
use crate::disk::{Dir, File};
use felix_core::{Offset, Timestamp};
use std::rc::Rc;
use std::time::Duration;

/// How the name of such a file ends. Before it stands the log end at which it was made: no two
/// files of a log ever have the same name, so that nobody who is late renames another's.
pub(super) const ENDING: &str = "next";

/// A next segment that is to be made without holding the log.
#[derive(Debug)]
#[must_use]
pub struct Making {
    dir: Rc<Dir>,
    name: String,
    bytes: u64,
}

/// The file of a next segment.
#[derive(Debug)]
pub struct Next {
    name: String,
    file: File,
    /// Bytes of prepared space in it.
    prepared: u64,
}

impl Making {
    /// Bytes of prepared space that it will take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does without prepared space.
    pub fn without_space(self) -> Self {
        Self { bytes: 0, ..self }
    }

    /// Does it, on a blocking thread. Its name need not be durable: what a crash leaves of it is
    /// removed by the next opening, and the flush that gives it another syncs that.
    ///
    /// # Errors
    /// The disk's own fault; the log does without.
    pub async fn run(self) -> Result<Next, LogError> {
        let failed = |doing, cause| LogError::Disk {
            dir: self.dir.path().to_owned(),
            file: self.name.clone(),
            position: None,
            doing,
            cause,
        };
        let made = self.dir.create_file_aside(&self.name).await;
        let file = made.map_err(|cause| failed("create", cause))?;
        let extended = match self.bytes {
            0 => Ok(0),
            bytes => file.extend(bytes).await,
        };
        match extended {
            Ok(prepared) => Ok(Next {
                name: self.name,
                file,
                prepared,
            }),
            Err(cause) => {
                // Whoever tries again makes another of that name.
                self.dir.discard_file(&self.name).await.ok();
                Err(failed("prepare space in", cause))
            }
        }
    }
}

impl Next {
    /// The segment that begins in it.
    pub(super) fn begin(self, dir: &Rc<Dir>, base: Offset, index_interval: u32) -> Segment {
        let segment = Segment::over(Rc::clone(dir), base, self.file, index_interval);
        segment.prepared(self.prepared);
        segment.named(Some(self.name));
        segment
    }
}

impl Log {
    /// Whether something is to be made ahead of the appends. Asked after each append.
    #[must_use]
    pub fn wants_aside(&self) -> bool {
        self.wants_space() || self.wants_next()
    }

    /// Whether the segment that grows is three quarters full, and the next one is not made.
    #[must_use]
    pub fn wants_next(&self) -> bool {
        let bytes_max = self.config.segment_bytes_max;
        self.last().bytes() >= bytes_max - bytes_max / 4 && self.can_make_next()
    }

    /// The next segment, to be made; `None` where none is wanted. To be brought back by
    /// [`Log::made_next`], one at a time per log.
    #[must_use]
    pub fn making_next(&self) -> Option<Making> {
        self.wants_next().then(|| self.making(self.step_bytes()))
    }

    /// The same for a segment that is to be sealed for its age, if that is due. What grows so slowly
    /// needs no prepared space.
    #[must_use]
    pub fn making_next_for_age(&self, age: Duration, now: Timestamp) -> Option<Making> {
        let is_due = self.roll_due(age, now) == Some(Duration::ZERO);
        (is_due && self.can_make_next()).then(|| self.making(0))
    }

    /// Takes it.
    pub fn made_next(&mut self, next: Next) {
        assert!(self.next.is_none(), "one is made at a time");
        self.next = Some(next);
    }

    /// Whether the last roll found its file made, and that has no name of its own yet.
    #[must_use]
    pub fn is_rolled_ahead(&self) -> bool {
        !self.last().is_named()
    }

    /// While the last segment still has to be given its name there is none after it.
    fn can_make_next(&self) -> bool {
        self.next.is_none() && self.last().is_named() && self.poison.is_none()
    }

    fn making(&self, bytes: u64) -> Making {
        Making {
            dir: Rc::clone(&self.dir),
            name: format!("{:020}.{ENDING}", self.end.get()),
            bytes,
        }
    }

    /// Begins the segment after `full`: in the file that was made ahead, or in one that is made now.
    pub(super) fn begin_next(&mut self, full: &Segment) -> Result<(), LogError> {
        match self.next.take() {
            Some(next) => {
                assert!(full.is_named());
                let interval = self.config.index_interval_bytes;
                self.begun(next.begin(&self.dir, self.end, interval));
                Ok(())
            }
            None => {
                // At no time may a file without its name lie before one that has it.
                full.name_now()?;
                self.begin_segment()
            }
        }
    }

    /// Removes the file that no segment began in.
    pub(super) async fn discard_next(&mut self) {
        if let Some(next) = self.next.take() {
            // If it stays, the next opening removes it.
            self.dir.discard_file(&next.name).await.ok();
        }
    }
}
