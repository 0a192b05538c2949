//! What a story went through, so that nobody takes one for a proof in which nothing happened.

use std::time::Duration;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Told {
    pub(super) lives: u32,
    pub(super) acknowledged: u64,
    /// Batches that a crash took that it may take.
    pub(super) lost: u64,
    /// Batches that were sent again though they were promised, and answered with where they are.
    pub(super) repeated: u64,
    /// Batches that were placed as a follower gets them.
    pub(super) applied: u64,
    /// Batches whose first records were there before.
    pub(super) completed: u64,
    /// Logs that another leader took over.
    pub(super) promoted: u64,
    /// Appends that a full disk had no space for.
    pub(super) full: u64,
    /// Shards that failed and were opened again in one life.
    pub(super) reopened: u64,
    /// When it ended.
    pub(super) ended: Duration,
}

impl Told {
    /// Both.
    pub(super) fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.applied += other.applied;
        self.completed += other.completed;
        self.promoted += other.promoted;
        self.full += other.full;
        self.reopened += other.reopened;
    }

    /// What did not happen, though promises are about it.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let counts = [
            ("acknowledged", self.acknowledged),
            ("lost", self.lost),
            ("repeated", self.repeated),
            ("applied", self.applied),
            ("completed", self.completed),
            ("promoted", self.promoted),
            ("full", self.full),
            ("reopened", self.reopened),
        ];
        let missing = counts.iter().filter(|(_, count)| *count == 0);
        missing.map(|(name, _)| *name).collect()
    }
}
