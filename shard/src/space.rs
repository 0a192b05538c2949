//! What is free on the file system of the logs, as a core last saw it. Appends are refused while
//! too little is left, so that a full disk is met before a write is torn by it; reads go on.
//!
//! Nothing here asks the system: whoever owns this does, off the core, when it is due.

use crate::cpu_core::SpaceConfig;
use crate::disk::{Free, Reserve};
use felix_core::{Monotonic, ShardError};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What is appended between two looks, at most. Cores do not know of each other's appends, nor of
/// other software's.
const SPENT_BYTES_MAX: u64 = 64 << 20;

/// The least that is appended between two looks: where little is left they come often.
const SPENT_BYTES_MIN: u64 = 256 << 10;

/// After that long the next append has another look follow it.
const LOOK_AGE_MAX: Duration = Duration::from_secs(1);

/// A file system and what is kept free on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The directory that tells people which file system it is.
    pub(crate) directory: Arc<str>,
    /// Bytes that are kept free, at most.
    pub(crate) free_bytes_min: u64,
}

impl Kept {
    /// What is kept free as a core is told; nothing where it is told nothing.
    pub(crate) fn of(config: Option<&SpaceConfig>) -> Self {
        let directory = config.map(|config| config.directory.to_string_lossy());
        Self {
            directory: directory.unwrap_or_default().into(),
            free_bytes_min: config.map_or(0, |config| config.free_bytes_min),
        }
    }
}

/// How a look changed things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Appends are refused from now on.
    Full,
    /// Appends are taken again.
    Free,
}

/// See the module. Lives on its core.
#[derive(Debug)]
pub(crate) struct Space {
    kept: Kept,
    seen: Cell<Seen>,
    full: Cell<bool>,
    /// Bytes appended since the last look began.
    spent: Cell<u64>,
    /// Somebody looks, and goes on as long as it is full.
    watched: Cell<bool>,
}

/// The last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Monotonic,
    free: Free,
}

impl Space {
    /// Nothing is known yet, and appends are taken.
    pub(crate) fn new(kept: Kept) -> Self {
        let free = Free {
            free_bytes: u64::MAX,
            all_bytes: u64::MAX,
        };
        let at = Monotonic(Duration::ZERO);
        Self {
            kept,
            seen: Cell::new(Seen { at, free }),
            full: Cell::new(false),
            spent: Cell::new(0),
            watched: Cell::new(false),
        }
    }

    /// Whether appends are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// Bytes free at the last look; `None` before the first.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let free = self.seen.get().free;
        (free.all_bytes < u64::MAX).then_some(free.free_bytes)
    }

    /// Lets an append pass, or says why not.
    pub(crate) fn admit(&self, bytes: u64) -> Result<(), ShardError> {
        if self.full.get() {
            return Err(self.refusal());
        }
        self.spent.set(self.spent.get().saturating_add(bytes));
        Ok(())
    }

    /// What those are told whose append is refused.
    pub(crate) fn refusal(&self) -> ShardError {
        ShardError::DiskFull {
            directory: Arc::clone(&self.kept.directory),
            free_bytes: self.free_bytes().unwrap_or_default(),
            free_bytes_min: self.free_bytes_min(),
        }
    }

    /// Whether somebody should look: only where something was appended, so not while idle.
    pub(crate) fn is_due(&self, now: Monotonic) -> bool {
        let spent = self.spent.get();
        let is_old = now.until(self.seen.get().at) >= LOOK_AGE_MAX;
        !self.watched.get() && spent > 0 && (is_old || spent >= self.allowance())
    }

    /// Who looks says so, and looks alone. `false`: somebody does already.
    pub(crate) fn begin_watch(&self) -> bool {
        !self.watched.replace(true)
    }

    /// Nobody looks any more.
    pub(crate) fn end_watch(&self) {
        self.watched.set(false);
    }

    /// A look begins. What is appended from here on may not be in it.
    pub(crate) fn begin_look(&self) {
        self.spent.set(0);
    }

    /// A look has ended; `None`: the system did not say.
    pub(crate) fn looked(&self, now: Monotonic, free: Option<Free>) -> Option<Change> {
        let free = free.unwrap_or(self.seen.get().free);
        self.seen.set(Seen { at: now, free });
        let least = self.free_bytes_min();
        // Somewhat more before it is taken back, or it would change with every file removed; and
        // the reserve is to be put back of it.
        let enough = if self.full.get() {
            least + least / 8 + Reserve::bytes(free.all_bytes)
        } else {
            least
        };
        let is_full = free.free_bytes < enough;
        (self.full.replace(is_full) != is_full).then_some(if is_full {
            Change::Full
        } else {
            Change::Free
        })
    }

    /// There is no space to spare, whatever the system says is free. Until the next look says
    /// otherwise appends are refused. Whether that is news.
    pub(crate) fn refused(&self) -> bool {
        !self.full.replace(true)
    }

    /// Bytes to be kept free, less where that is more than a twentieth of the file system.
    pub(crate) fn kept_free_bytes(&self) -> u64 {
        self.kept.free_bytes_min
    }

    /// Bytes kept free, as it is for this file system.
    pub(crate) fn free_bytes_min(&self) -> u64 {
        self.seen.get().free.kept(self.kept.free_bytes_min)
    }

    /// What may be appended before the next look.
    fn allowance(&self) -> u64 {
        let left = self.seen.get().free.free_bytes;
        let left = left.saturating_sub(self.free_bytes_min());
        (left / 8).clamp(SPENT_BYTES_MIN, SPENT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(seconds: u64) -> Monotonic {
        Monotonic(Duration::from_secs(seconds))
    }

    fn space() -> Space {
        Space::new(Kept {
            directory: "/data".into(),
            free_bytes_min: 100 * MIB,
        })
    }

    fn look(space: &Space, seconds: u64, free: u64) -> Option<Change> {
        space.begin_look();
        space.looked(
            at(seconds),
            Some(Free {
                free_bytes: free * MIB,
                all_bytes: 10_000 * MIB,
            }),
        )
    }

    #[test]
    fn appends_are_refused_below_what_is_kept_free_and_taken_again_somewhat_above_it() {
        let space = space();
        assert_eq!(look(&space, 1, 100), None);
        space.admit(1).unwrap();
        assert_eq!(look(&space, 2, 99), Some(Change::Full));
        let refusal = space.admit(1).unwrap_err();
        let expected = ShardError::DiskFull {
            directory: "/data".into(),
            free_bytes: 99 * MIB,
            free_bytes_min: 100 * MIB,
        };
        assert_eq!(refusal, expected);
        assert_eq!(look(&space, 3, 128), None);
        assert!(space.is_full());
        assert_eq!(look(&space, 4, 129), Some(Change::Free));
        space.admit(1).unwrap();
    }

    #[test]
    fn of_a_small_file_system_a_twentieth_is_kept_free() {
        let space = space();
        let small = Free {
            free_bytes: 3 * MIB,
            all_bytes: 60 * MIB,
        };
        space.begin_look();
        assert_eq!(space.looked(at(1), Some(small)), None);
        assert_eq!(space.free_bytes_min(), 3 * MIB);
    }

    #[test]
    fn nobody_looks_while_nothing_is_appended_and_soon_where_little_is_left() {
        let space = space();
        assert!(!space.is_due(at(1_000)));
        look(&space, 1, 5_000);
        space.admit(1).unwrap();
        assert!(!space.is_due(at(1)));
        assert!(space.is_due(at(2)), "a second old");
        space.admit(SPENT_BYTES_MAX).unwrap();
        assert!(space.is_due(at(1)), "much was appended");
        assert!(space.begin_watch());
        assert!(
            !space.is_due(at(9)) && !space.begin_watch(),
            "one at a time"
        );
        space.end_watch();
        look(&space, 9, 108);
        space.admit(MIB).unwrap();
        assert!(
            space.is_due(at(9)),
            "an eighth of what is left was appended"
        );
    }

    #[test]
    fn what_the_system_refuses_counts_until_the_next_look() {
        let space = space();
        look(&space, 1, 5_000);
        assert!(space.refused());
        assert!(!space.refused(), "that is no news");
        assert!(space.admit(1).unwrap_err().to_string().contains("quota"));
        assert_eq!(look(&space, 2, 5_000), Some(Change::Free));
        space.admit(1).unwrap();
    }

    #[test]
    fn where_the_system_does_not_say_the_last_look_counts() {
        let space = space();
        look(&space, 1, 99);
        space.begin_look();
        assert_eq!(space.looked(at(2), None), None);
        assert!(space.is_full());
        assert_eq!(space.free_bytes(), Some(99 * MIB));
    }
}
