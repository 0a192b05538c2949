//! What was found in a shard's files.

use felix_core::Offset;
use std::fmt;

/// Something that is not as a broker leaves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The file, in the shard's directory.
    pub file: String,
    /// Where in the file.
    pub position: u64,
    /// What is wrong there, in a sentence.
    pub what: String,
    /// What an opening makes of it.
    pub consequence: Consequence,
}

/// What an opening of the log makes of a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Consequence {
    /// The file means nothing, and is removed.
    Removed,
    /// Nothing: the file is derived, and is made anew where it is used.
    Remade,
    /// It is believed: nothing else is known of what the file says.
    Believed,
    /// The file is cut there, or dropped.
    Cut {
        /// Bytes that are lost with it, up to the last that is not zero.
        bytes: u64,
    },
    /// It is fatal for the shard: nothing is cut or repaired. An opening that takes that part on
    /// trust does not meet it, and then the reads that do are refused.
    Fatal,
}

/// What was found in a shard's directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Each fault, in the order of the log.
    pub findings: Vec<Finding>,
    /// Segments that were read.
    pub segments: u64,
    /// Whole batches.
    pub batches: u64,
    /// Bytes of whole batches.
    pub valid_bytes: u64,
    /// Zero bytes behind the batches of a segment.
    pub zero_bytes: u64,
    /// The lowest offset that can be read.
    pub start: Offset,
    /// The next offset to be assigned.
    pub end: Offset,
    /// Everything below this was known to be on the device.
    pub recovery_point: Offset,
    /// Words for people: nothing that is wrong.
    pub notes: Vec<String>,
}

impl Verdict {
    /// The gravest consequence; `None`: there is no fault.
    #[must_use]
    pub fn gravest(&self) -> Option<Consequence> {
        self.findings.iter().map(|found| found.consequence).max()
    }

    /// Bytes that an opening cuts or drops.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        let cut = self.findings.iter().map(|found| match found.consequence {
            Consequence::Cut { bytes } => bytes,
            Consequence::Removed
            | Consequence::Remade
            | Consequence::Believed
            | Consequence::Fatal => 0,
        });
        cut.sum()
    }
}

impl Consequence {
    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Remade => "remade",
            Self::Believed => "believed",
            Self::Cut { .. } => "cut",
            Self::Fatal => "fatal",
        }
    }
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => write!(f, "an opening removes the file"),
            Self::Remade => write!(
                f,
                "nothing is lost: it is made anew from the batches, by an opening or when it is used"
            ),
            Self::Believed => write!(f, "an opening does not notice"),
            Self::Cut { bytes } => write!(f, "an opening cuts here, and {bytes} bytes are lost"),
            Self::Fatal => write!(
                f,
                "fatal: an opening that reads it refuses the shard and cuts nothing; restore it from \
                 a replica or a backup"
            ),
        }
    }
}
