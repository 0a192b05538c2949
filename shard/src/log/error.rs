//! Why a log cannot be used.

use super::crashes;
use crate::disk::{self, Dir, ReplaceError};
use felix_core::{BatchError, Generation, Offset};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a log cannot be used: names the shard's directory, the file and the position, and says what
/// can be done.
#[derive(Debug)]
pub enum LogError {
    /// Bytes that were on the device are not what was written. Nothing is repaired by guessing.
    Damaged {
        /// The shard's directory.
        dir: PathBuf,
        /// The file in it.
        file: String,
        /// Where in the file.
        position: u64,
        /// What is wrong there.
        fault: Fault,
    },
    /// A file that is not one of the log's.
    Foreign {
        /// The shard's directory.
        dir: PathBuf,
        /// The file in it.
        file: String,
    },
    /// The disk failed.
    Disk {
        /// The shard's directory.
        dir: PathBuf,
        /// The file in it; empty: the directory itself.
        file: String,
        /// Where in the file, if anywhere.
        position: Option<u64>,
        /// What was being done: completes "could not ...".
        doing: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// A write or a flush failed earlier: the log takes nothing more until it is opened again.
    Poisoned {
        /// The shard's directory.
        dir: PathBuf,
        /// What failed.
        reason: String,
    },
    /// After a failed write or flush a segment is to be written once more, and that much space is not
    /// free.
    NoRoomToRewrite {
        /// The shard's directory.
        dir: PathBuf,
        /// The segment's file.
        file: String,
        /// Bytes that it may take.
        bytes: u64,
        /// Bytes that are free beside those that are kept free; `None`: the system had no space for it,
        /// whatever it says is free.
        spare_bytes: Option<u64>,
    },
    /// Its shard brought the process down too often for the others to go on with it.
    CrashLoop {
        /// The shard's directory.
        dir: PathBuf,
    },
}

/// Making names of files durable, in the words of [`LogError::Disk`].
pub(super) const SYNC_DIRECTORY: &str = "sync the directory";

/// Giving a file its name, in the words of [`LogError::Disk`].
pub(super) const RENAME: &str = "rename";

/// Cutting a file to what is whole, in the words of [`LogError::Disk`].
pub(super) const CUT: &str = "cut";

/// Making what is in files durable, in the words of [`LogError::Disk`].
pub(super) const FLUSH: &str = "flush";

/// What is done to a disk without changing it, in the words of [`LogError::Disk`].
const READING: [&str; 5] = ["read", "open", "measure", "search", "list the directory"];

/// What is wrong at a place of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The file is not there.
    Missing,
    /// The file ends, or holds only zeros, before the offset that was known durable.
    EndsEarly {
        /// Where the log goes no further.
        end: Offset,
        /// Everything below this was durable.
        recovery_point: Offset,
    },
    /// A batch breaks a rule.
    Batch(BatchError),
    /// A batch does not follow the one before it.
    Gap {
        /// The offset owed.
        owed: Offset,
        /// The offset found, as it stands in the file.
        found: i64,
    },
    /// A batch of another generation than the one that wrote at its offset. The checksum of a
    /// batch does not cover its generation.
    Generation {
        /// As the generation table says.
        owed: Generation,
        /// As the batch says.
        found: Generation,
    },
    /// A segment of more bytes or offsets than its indexes can count.
    Span {
        /// The offset that it reaches.
        last: Offset,
    },
    /// The greatest generation there is: no leader could follow.
    LastGeneration,
    /// Part of a transaction, of Apache Kafka's: nothing here says whether it was aborted.
    Transaction,
    /// A batch across the recovery point, which no batch can lie across: a log that was whole and
    /// durable ended there.
    Across {
        /// The offset that it reaches.
        last: Offset,
        /// Everything below this was durable.
        recovery_point: Offset,
    },
    /// So near the greatest offset there is that nothing could be appended.
    NoRoom {
        /// The end of the log.
        end: Offset,
    },
    /// The checksum of a table does not match.
    Checksum,
    /// A table of a version, length or order this build does not know.
    Layout,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the file is missing"),
            Self::EndsEarly {
                end,
                recovery_point,
            } => write!(
                f,
                "the log ends at offset {end}, and everything below {recovery_point} was on the \
                 device"
            ),
            Self::Batch(error) => write!(f, "{error}"),
            Self::Gap { owed, found } => {
                write!(f, "a batch begins at offset {found} where {owed} is owed")
            }
            Self::Generation { owed, found } => {
                write!(
                    f,
                    "a batch of leader epoch {found} lies where one of {owed} is owed"
                )
            }
            Self::Span { last } => write!(
                f,
                "a segment that reaches offset {last} here is longer than its indexes can count"
            ),
            Self::LastGeneration => write!(
                f,
                "leader epoch {} is the greatest there is, and no leader can follow it",
                Generation::MAX
            ),
            Self::Transaction => write!(
                f,
                "a batch is part of a transaction, which Felix has not, and records of an aborted \
                 one would be read; copy the topic with a consumer that reads what is committed"
            ),
            Self::Across {
                last,
                recovery_point,
            } => write!(
                f,
                "a batch reaches up to offset {last}, and one ended before {recovery_point} when all \
                 up to there was on the device"
            ),
            Self::NoRoom { end } => {
                write!(f, "there is no room for records after offset {end}")
            }
            Self::Checksum => write!(f, "the checksum does not match"),
            Self::Layout => write!(f, "the layout is unknown"),
        }
    }
}

impl LogError {
    /// Whether bytes that were written may be missing on the device although the kernel takes them
    /// for clean: whatever the disk failed at, unless it only read.
    #[must_use]
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Self::Disk { doing, .. } => !READING.contains(doing) && !self.is_refusal(),
            // Nothing more than was before.
            Self::NoRoomToRewrite { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => false,
        }
    }

    /// Whether space was missing for something new, and nothing else is wrong: what was there
    /// before is as it was. Space that turns out to be missing only at a flush is another matter,
    /// for what was taken already may be lost then; and so are large files, which are not to have the
    /// little space that is kept for small ones ([`LogError::NoRoomToRewrite`]).
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Disk { doing, cause, .. } => {
                disk::is_full(cause) && !matches!(*doing, FLUSH | SYNC_DIRECTORY | CUT)
            }
            Self::NoRoomToRewrite { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => false,
        }
    }

    /// Whether there was no descriptor left for a file, and nothing was tried because of it.
    #[must_use]
    pub fn is_out_of_files(&self) -> bool {
        match self {
            Self::Disk { cause, .. } => disk::is_out_of_files(cause),
            Self::NoRoomToRewrite { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => false,
        }
    }

    /// Whether what was asked for was not done, and the log is as it was: the same may be asked again.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.is_full() || self.is_out_of_files()
    }

    /// Whether opening the log may succeed tomorrow: the disk may do then what it did not do today,
    /// and notes of crashes may be gone. What is damaged stays so.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Disk { .. }
            | Self::NoRoomToRewrite { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => true,
            Self::Damaged { .. } | Self::Foreign { .. } => false,
        }
    }

    /// Whether a directory may have lost names although the kernel takes it for clean.
    pub(crate) fn is_failed_sync(&self) -> bool {
        match self {
            Self::Disk { doing, .. } => *doing == SYNC_DIRECTORY && !self.is_out_of_files(),
            Self::NoRoomToRewrite { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => false,
        }
    }

    /// A small file could not be put in its place.
    pub(super) fn replacing(dir: &Dir, file: &str, error: ReplaceError) -> Self {
        let (file, doing, cause) = match error {
            ReplaceError::Unwritten(cause) => (file, "replace", cause),
            ReplaceError::Unsynced(cause) => ("", SYNC_DIRECTORY, cause),
        };
        Self::Disk {
            dir: dir.path().to_owned(),
            file: file.to_owned(),
            position: None,
            doing,
            cause,
        }
    }
}

/// The disk failed at a file of the log in `dir`.
pub(super) fn disk_error_in(
    dir: &Path,
    doing: &'static str,
    file: &str,
    cause: io::Error,
) -> LogError {
    LogError::Disk {
        dir: dir.to_owned(),
        file: file.to_owned(),
        position: None,
        doing,
        cause,
    }
}

/// What is known of the space that a rewrite would have had.
fn space(spare_bytes: Option<u64>) -> String {
    match spare_bytes {
        Some(spare) => format!("{spare} are free beside those that are kept free"),
        None => "the system had no space for them, whatever it says is free (a quota, or a device \
                 that has less than its file system)"
            .to_owned(),
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged {
                dir,
                file,
                position,
                fault,
            } => {
                let dir = dir.display();
                if *fault == Fault::Transaction {
                    return write!(f, "{dir}: {file} at byte {position}: {fault}");
                }
                write!(
                    f,
                    "{dir}: {file} is damaged at byte {position}: {fault}; this was durable, so \
                     nothing is cut: check the device and restore the shard's directory from a \
                     replica or a backup"
                )
            }
            Self::Foreign { dir, file } => write!(
                f,
                "{}: {file} is not a file of this log (a segment is named by 20 digits), so it is not \
                 certain that those are; find out how it came there, move it away and start again",
                dir.display()
            ),
            Self::Disk {
                dir,
                file,
                position,
                doing,
                cause,
            } => {
                write!(f, "{}: could not {doing}", dir.display())?;
                if !file.is_empty() {
                    write!(f, " {file}")?;
                }
                if let Some(position) = position {
                    write!(f, " at byte {position}")?;
                }
                write!(f, ": {cause}; {}", cure(cause))
            }
            Self::NoRoomToRewrite {
                dir,
                file,
                bytes,
                spare_bytes,
            } => write!(
                f,
                "{}: a write or flush failed, so {file} is to be written once more, which takes up to \
                 {bytes} bytes; {}: make space and it is opened by itself",
                dir.display(),
                space(*spare_bytes)
            ),
            Self::Poisoned { dir, reason } => write!(
                f,
                "{}: takes nothing more since a write or flush failed ({reason}); it is opened \
                 again by itself once the disk lets it",
                dir.display()
            ),
            Self::CrashLoop { dir } => write!(
                f,
                "{0}: the broker crashed three times within ten minutes while it was at work for \
                 this shard, so it is not opened and the others are served; standard error has the \
                 panics; once their cause is gone, remove {0}/{1} and it is opened within a minute",
                dir.display(),
                crashes::NAME
            ),
        }
    }
}

/// What people can do about it.
fn cure(cause: &io::Error) -> &'static str {
    if disk::is_out_of_files(cause) {
        "raise the limit of open files (NOFILE; LimitNOFILE= in systemd)"
    } else if cause.kind() == io::ErrorKind::IsADirectory || disk::regular::is_other_kind(cause) {
        "find out how it came there, and move it away"
    } else {
        match cause.kind() {
            io::ErrorKind::FileTooLarge => {
                "raise the limit of a file's size (`ulimit -f unlimited`; LimitFSIZE= in systemd)"
            }
            io::ErrorKind::PermissionDenied => {
                "give the user that runs the broker the right to do so"
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "mount its file system for writing (after a fault of the device the kernel makes it \
                 read-only by itself: see the kernel's log)"
            }
            _ => "check space and health of the device",
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk { cause, .. } => Some(cause),
            Self::NoRoomToRewrite { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Poisoned { .. }
            | Self::CrashLoop { .. } => None,
        }
    }
}
